"""What is measured on a batch, by the best that is known for every site, within a budget of passes.

Affine tails and few outcomes are summed exactly; what is left is drawn less its first order, and draws go where they
are needed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from droptics.audits.batches import Batch
from droptics.audits.control import MOST_DRAWS, remainder, screen, share_out
from droptics.audits.criteria import MeanSquared, counted, parts
from droptics.audits.discovery import AuditedSite
from droptics.audits.measuring import PLAIN_DRAWS, Plan, accuracy, plain, sampled
from droptics.audits.outcomes import MOST_OUTCOMES, alone, left_out, together, tree_cost
from droptics.audits.rare import SELDOM, chance_of_usual
from droptics.audits.runs import BACKWARD, Base, Law, Runs, draw, units
from droptics.audits.tails import MOST_OUTPUTS, Hidden, affine_sites, confirmed, energies
from droptics.audits.tallies import Mean, Tally
from droptics.losses import Squared
from droptics.models.modes import set_training, unmoved
from droptics.models.replaying import Recording
from droptics.models.watching import all_on, only
from droptics.progress import tracked

TOTAL_DRAWS = 3  # of all sites together
ENOUGH_DRAWS = 6  # of every site: then they need not be shared out
MOST_TREE = 64.0  # passes
TOTAL = "all sites"

CleanRun = tuple[Tensor, Recording | None]  # outputs, and what parts returned where the next run may begin with that


def measure(module: nn.Module, batch: Batch, clean_run: CleanRun, plan: Plan, tally: Tally, passes: float) -> None:
    """Add one batch; `clean_run` is without any dropout, `passes` what it took. Leaves training mode behind."""
    outputs, recording = clean_run
    del clean_run
    sums, weights = parts(plan.loss, outputs, batch.targets)
    weight = float(weights.sum())  # examples, or labels that count
    tally.examples += batch.count
    if weight == 0:
        tally.spent += passes * batch.count
        return
    clean = float(sums.sum()) / weight
    tally.clean.add([clean], weight)
    rows, labels = counted(outputs, batch.targets)
    hits = accuracy(rows, labels)
    if hits is not None:
        tally.accuracy.add([hits], len(labels))
    del rows
    del outputs  # as large as a vocabulary may be
    if plan.sites or plan.rest or plan.total:
        runs = Runs(module, batch, plan.loss, plan.laws, plan.layers, plan.quiet)
        runs.spent = passes
        hidden = Hidden() if tally.axes is None else None
        base = runs.base(tally.axes, hidden, recording) if plan.laws and not plan.rest else None
        if base is None or not base.slopes:
            plain(runs, plan, tally, clean, weight)
        else:
            _controlled(_Round(runs, base, plan, tally, hidden), clean, weight)
        passes = runs.spent
    tally.spent += passes * batch.count


def unchanged(
    module: nn.Module, batch: Batch, outputs: Tensor, sites: Sequence[AuditedSite], quiet: Sequence[str]
) -> bool:
    """Whether training mode without dropout has these outputs of evaluation mode, up to rounding.

    Where it does more than drop, a formula for the features of evaluation mode is that of another network. What no
    switch reaches is left out of it, because it is measured by itself.
    """
    if any(site.reason is not None for site in sites):
        return True
    layers = {site.name: site.rate for site in sites if site.bypassed}
    with unmoved(module):
        again = Runs(module, batch, Squared(), {}, layers, quiet).outputs({})
        set_training(module, False)
    if again.shape != outputs.shape:
        return False
    level = 64 * torch.finfo(outputs.dtype).eps ** 0.75
    return not bool(((again - outputs).abs() > level * outputs.abs().max()).any())


@dataclass(frozen=True)
class _Round:
    """One batch with its base run."""

    runs: Runs
    base: Base
    plan: Plan
    tally: Tally
    hidden: Hidden | None

    @property
    def laws(self) -> list[Law]:
        """Masks of the sites that were reached, in order."""
        order = self.base.recording.places
        return sorted(
            (law for law in self.plan.laws.values() if law.name in self.base.leaves), key=lambda law: order[law.name]
        )

    @property
    def left(self) -> float:
        """What is left of the budget; without end where draws are given."""
        return math.inf if self.plan.draws is not None else self.plan.budget - self.runs.spent

    def has_one_number(self, law: Law, rate: float | None = None) -> bool:
        """Whether draws of a site are one number for the batch, so that one draw tells no spread."""
        apart = len(self.base.sums) > 1 and self.base.axes[law.name] is not None
        return not apart or chance_of_usual([law], self.base, rate) >= SELDOM

    def rows(self, draws: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        """Draws by examples, with the weights of the examples."""
        rows = torch.stack(list(draws)).cpu()
        weights = self.base.weights.cpu()
        return rows, weights if rows.shape[1] == len(weights) else weights.sum().reshape(1)

    def add(self, mean: Mean, draws: Sequence[Tensor]) -> None:
        mean.controlled = True
        mean.add_rows(*self.rows(draws))

    def add_exact(self, mean: Mean, added: Tensor) -> None:
        weight = float(self.base.weights.sum())
        mean.add([float(added.sum()) / weight], weight)


def _controlled(batch: _Round, clean: float, weight: float) -> None:
    """Every site by the best that is known for it: affine tails, few outcomes, draws with the gradient control."""
    runs, base, plan, tally = batch.runs, batch.base, batch.plan, batch.tally
    shift = float(base.sums.sum()) / weight - clean
    tally.shift.add([shift], weight)
    if tally.axes is None:
        tally.axes = dict(base.axes)
        runs.reuse = _replays(runs, base, batch.laws)
        tally.steady = runs.reuse and shift == 0 and not plan.layers and not runs.skips
    _tails(batch)
    wanted = [law for law in batch.laws if law.name in plan.sites and law.name not in tally.affine]
    rest = []
    for law in wanted:
        added = alone(runs, base, law)
        if added is None:
            rest.append(law)
        else:
            batch.add_exact(tally.listed.setdefault(law.name, Mean()), added)
    for site in runs.skips:
        batch.add_exact(tally.listed.setdefault(site, Mean()), left_out(runs, base, plan.laws[site]))
    for site in plan.sites:
        if site not in base.leaves and site not in runs.skips:  # draws for itself
            tally.sites.setdefault(site, Mean()).add(sampled(runs, plan, only(site), clean + shift), weight)
    first = _total(batch, clean + shift, weight)
    counts, drawn = _decide(batch, rest, first)
    if first:
        for _ in range(counts[TOTAL] - len(drawn)):
            drawn.append(remainder(runs, base, batch.laws, plan.generator)[0])
        batch.add(tally.total, drawn)
    for law in tracked(rest, "sites", "site"):
        draws = [remainder(runs, base, [law], plan.generator)[0] for _ in range(counts[law.name])]
        batch.add(tally.sites.setdefault(law.name, Mean()), draws)
    _curves(batch, rest)


def _replays(runs: Runs, base: Base, laws: Sequence[Law]) -> bool:
    """Whether a run that replays all it can gives the losses of the base run."""
    last = max(base.recording.places[law.name] for law in laws)
    again = runs.losses({}, (base.recording, last))
    return torch.allclose(again, base.sums, rtol=1e-6, atol=1e-9)


def _tails(batch: _Round) -> None:
    """Sites in whose masks the outputs are affine, for squared loss: sums of squared slopes."""
    runs, base, plan, tally = batch.runs, batch.base, batch.plan, batch.tally
    if not isinstance(plan.loss, (Squared, MeanSquared)) or base.outputs.dtype not in (torch.float32, torch.float64):
        return
    outputs = base.outputs.shape[1:].numel()
    slopes: dict[str, dict[int, list[Tensor]]] = {}
    if batch.hidden is not None:
        sites = [
            site for site in affine_sites(base, batch.hidden) if site in plan.sites and base.axes[site] is not None
        ]
        share = max((base.recording.share(site) for site in sites), default=0.0)
        if outputs > MOST_OUTPUTS or outputs * BACKWARD * share > batch.left / 2:
            return
        tally.affine = sites
    if not tally.affine:
        return
    with torch.enable_grad():
        keep = None if batch.hidden is None else lambda site, k, part: slopes.setdefault(site, {}).update({k: part})
        found = energies(base, tally.affine, keep)
    runs.spent += outputs * BACKWARD * max(base.recording.share(site) for site in tally.affine)
    if batch.hidden is not None:
        tally.affine = [site for site in tally.affine if _confirmed(batch, plan.laws[site], slopes[site])]
    scale = 1 / base.outputs.shape[-1] if isinstance(plan.loss, MeanSquared) else 1.0
    weight = float(base.weights.sum())
    for site in tally.affine:
        tally.energies.setdefault(site, Mean()).add([scale * found[site] / weight], weight)


def _confirmed(batch: _Round, law: Law, slopes: Mapping[int, list[Tensor]]) -> bool:
    masks = draw(law, batch.base, law.rate, batch.plan.generator)
    moment = batch.base.recording.places[law.name]
    outputs = batch.runs.outputs({law.name: masks}, (batch.base.recording, moment))
    return confirmed(batch.base, slopes, masks, outputs, law.name)


def _total(batch: _Round, clean: float, weight: float) -> bool:
    """Add what all sites do together where it is listed or cannot be controlled; else it is still to be drawn."""
    runs, base, plan, tally = batch.runs, batch.base, batch.plan, batch.tally
    if not plan.total or (len(plan.names) == 1 and plan.names[0] in (*tally.affine, *tally.listed)):
        return False
    if set(plan.names) - set(base.leaves):
        tally.total.add(sampled(runs, plan, all_on, clean), weight)
        return False
    counts = [units(base, law.name) for law in batch.laws]
    few = all(count is not None and 2**count <= MOST_OUTCOMES for count in counts)
    if few and tree_cost(base, batch.laws) <= min(batch.left, MOST_TREE):
        added = together(runs, base, batch.laws)
        if added is not None:
            batch.add_exact(tally.listed_total, added)
            return False
    return True


def _decide(batch: _Round, laws: Sequence[Law], total: bool) -> tuple[dict[str, int], list[Tensor]]:
    """Draws of every site and of all together, and draws of the latter that were made on the way."""
    base, plan = batch.base, batch.plan
    single = {law.name: batch.has_one_number(law) for law in batch.laws}
    if plan.draws is not None:
        return {TOTAL: plan.draws, **{law.name: plan.draws for law in laws}}, []
    several = PLAIN_DRAWS if any(single.values()) else TOTAL_DRAWS
    costs = {law.name: base.recording.share(law.name) if batch.runs.reuse else 1.0 for law in laws}
    left = batch.left - several
    everyone = math.floor(left / sum(costs.values())) if costs else 0
    if everyone >= ENOUGH_DRAWS or any(single.values()) or not total:
        count = max(min(everyone, MOST_DRAWS), 1)
        return {TOTAL: several, **{law.name: max(count, PLAIN_DRAWS if single[law.name] else 1) for law in laws}}, []
    guesses, drawn = screen(batch.runs, base, batch.laws, plan.generator)
    left = batch.left - (several - 1)
    least = 2 if left >= 2 * sum(costs.values()) else 1
    chosen = share_out({law.name: guesses[law.name] for law in laws}, costs, left, {law.name: least for law in laws})
    return {TOTAL: several, **chosen}, [drawn]


def _curves(batch: _Round, laws: Sequence[Law]) -> None:
    """Other rates: as many draws as for the rate itself, or what the budget leaves."""
    runs, base, plan, tally = batch.runs, batch.base, batch.plan, batch.tally
    laws = [law for law in laws if law.name in plan.curve]
    if tally.curve_draws is None:
        costs = sum(base.recording.share(law.name) for law in laws) * len(plan.rates)
        room = math.floor(batch.left / costs) if plan.draws is None and costs > 0 else plan.draws or PLAIN_DRAWS
        single = any(batch.has_one_number(law, rate) for law in laws for rate in plan.rates)
        tally.curve_draws = plan.draws or (0 if room < (PLAIN_DRAWS if single else 1) else min(room, PLAIN_DRAWS))
    for law in tracked(laws if tally.curve_draws else (), "other rates", "site"):
        for rate in plan.rates:
            # the first batch chose how many; a smaller one may have one number only, which tells its spread by two
            count = max(tally.curve_draws, 2 if batch.has_one_number(law, rate) else 1)
            draws = [remainder(runs, base, [law], plan.generator, rate)[0] for _ in range(count)]
            batch.add(tally.curves.setdefault((law.name, rate), Mean()), draws)
