r"""Control variates of known mean and covariance, for outputs under random early masks.

A control g has mean zero and a covariance that is known exactly, so that with R = c - f(1) - g
mean c = f(1) + E R and Cov c = Cov g + 2 sym Cov(g, R) + Cov R: only what g leaves has to be sampled. Three kinds:

- gradient: g = sum_j a_j (z_j - 1) with the slopes of the outputs at z = 1; one backward pass per output;
- main effects: the same with the exact difference of a unit kept and dropped, two passes per unit, for small sites;
- atoms: the outputs under every mask of a small site, all other sites at their mean; a pass per mask.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.masks import Bernoulli, MaskLaw, Product
from droptics.penalties import UnitOutputs
from droptics.predictions.affine import Affine
from droptics.predictions.mixtures import Conditional
from droptics.predictions.strata import EVENLY, FEWEST_MASKS, Strata, allocate, count_chances, draw_counted
from droptics.transforms import as_drawn

# A site of so many masks per drawn mask is listed; of so few units per drawn mask, its main effects are computed.
ATOMS_PER_SAMPLE = 2
MAIN_EFFECT_SHARE = 0.125
# Atoms that together are less likely than this are not evaluated: there the control stays where it is without masks.
UNLIKELY = 2.0**-10
# One backward pass per output, about three plain ones, has to stay below the cost of the masks.
GRADIENT_SHARE = 0.125
# A site of which so few units are expected to fall is stratified by their number.
FEW_DROPS = 1.0


@dataclass(frozen=True, eq=False)
class Draws:
    """Early masks, drawn with what the controls need to know about them.

    Attributes:
        multipliers: (masks, early units).
        listed: For every listed site its place among the masks of the list, (masks,).
        strata: What the masks weigh.
    """

    multipliers: Tensor
    listed: dict[int, Tensor]
    strata: Strata


@dataclass(frozen=True, eq=False)
class Atoms:
    """Outputs under the masks of one site, the other sites at their mean; minus the outputs without masks.

    Zero for masks that are hardly met: whatever a function of the mask is, its mean and variance are sums over all.

    Attributes:
        site: Number of the site.
        probabilities: (atoms,).
        moved: Centers minus those without masks, (atoms, examples, outputs).
        noise: Variances given the early masks minus those without, (atoms, examples, outputs).
    """

    site: int
    probabilities: Tensor
    moved: Tensor
    noise: Tensor

    def control(self, draws: Draws) -> Tensor:
        """The control of every drawn mask, mean zero."""
        return (self.moved - self._mean(self.moved))[draws.listed[self.site]]

    def noise_control(self, draws: Draws) -> Tensor:
        """The same for the variance given the early masks."""
        return (self.noise - self._mean(self.noise))[draws.listed[self.site]]

    def variance(self) -> Tensor:
        """Variance of the control, exactly."""
        return self._mean((self.moved - self._mean(self.moved)).square())

    def _mean(self, values: Tensor) -> Tensor:
        return torch.tensordot(self.probabilities.to(values), values, dims=1)


@dataclass(frozen=True, eq=False)
class Slopes:
    """g = sum_j a_j (z_j - 1) with slopes (examples, outputs, early units); zero for sites with another control.

    Attributes:
        slopes: Of the centers.
        noise: Of the variances given the early masks.
        law: Of all early masks.
        kind: In words.
    """

    slopes: Tensor
    noise: Tensor
    law: MaskLaw
    kind: str

    def control(self, draws: Draws) -> Tensor:
        """The control of every drawn mask, mean zero."""
        return _along(draws, self.slopes)

    def noise_control(self, draws: Draws) -> Tensor:
        """The same for the variance given the early masks."""
        return _along(draws, self.noise)

    def variance(self) -> Tensor:
        """Variance of the control: the exact rule for outputs affine in a mask."""
        ones = self.slopes.new_ones(len(self.slopes), self.slopes.shape[-1])
        return Affine(self.slopes[..., 0], UnitOutputs(ones, self.slopes), self.law).variance()


def _along(draws: Draws, slopes: Tensor) -> Tensor:
    examples, outputs, units = slopes.shape
    moved = draws.multipliers.to(slopes) - 1
    return (moved @ slopes.reshape(-1, units).mT).unflatten(-1, (examples, outputs))


@dataclass(frozen=True, eq=False)
class Plan:
    """Which sites are listed, which get main effects, whether the others get a gradient, and which is stratified."""

    listed: tuple[int, ...]
    effects: tuple[int, ...]
    gradient: bool
    counted: int | None = None

    @staticmethod
    def of(problem: Conditional, samples: int, outputs: int) -> Plan:
        """What pays for so many masks; only the first of the small sites is listed, the others multiply."""
        listed: tuple[int, ...] = ()
        effects = []
        for number, law in enumerate(problem.early):
            count = law.support_count
            if count is not None and count <= ATOMS_PER_SAMPLE * samples and not listed:
                listed = (number,)
            elif isinstance(law, Bernoulli) and law.size <= MAIN_EFFECT_SHARE * samples:
                effects.append(number)
        rest = len(problem.early) - len(listed) - len(effects)
        gradient = rest > 0 and outputs <= max(1, GRADIENT_SHARE * samples)
        return Plan(listed, tuple(effects), gradient, _counted(problem.early) if samples >= FEWEST_MASKS else None)

    @property
    def passes(self) -> str:
        """What is used, in words."""
        names = [("atoms", self.listed), ("main effects", self.effects), ("gradient", self.gradient)]
        return " and ".join(name for name, used in names if used)


def _counted(laws: tuple[MaskLaw, ...]) -> int | None:
    """The first site of coins of which few are expected to fall."""
    for number, law in enumerate(laws):
        if isinstance(law, Bernoulli) and 0 < float(law.drop.detach().sum()) <= FEW_DROPS:
            return number
    return None


def draw(problem: Conditional, plan: Plan, samples: int, generator: torch.Generator) -> Draws:
    """Independent masks, one site stratified by a plan; those of listed sites also by their place in the list."""
    parts, listed, strata = [], {}, Strata.none(samples)
    for number, law in enumerate(problem.early):
        if number == plan.counted and isinstance(law, Bernoulli):
            drop = law.drop.detach().cpu()
            alone = len(problem.early) == 1 and problem.fresh is None  # nothing varies where no unit falls
            strata = allocate(count_chances(drop), samples, 1.0 if alone else EVENLY)
            kept = draw_counted(drop, strata, generator)
            parts.append(as_drawn(kept / law.mean.to(kept), law))
            if number in plan.listed:
                listed[number] = coin_places(drop, kept)
        elif number in plan.listed:
            atoms, probabilities = _all_atoms(law)
            listed[number] = torch.multinomial(probabilities, samples, replacement=True, generator=generator)
            parts.append(as_drawn(atoms[listed[number]], law))
        else:
            parts.append(law.multipliers(samples, generator))
    return Draws(torch.cat(parts, 1) if parts else torch.ones(samples, 0, dtype=torch.float64), listed, strata)


def coin_places(drop: Tensor, kept: Tensor) -> Tensor:
    """Where masks of coins stand in the list of all: the dropped ones of those that can fall, as bits."""
    fallen = (1 - kept[:, drop > 0]).long()
    return (fallen << torch.arange(fallen.shape[-1])).sum(-1)


def build(problem: Conditional, plan: Plan, plain: Affine) -> list[Atoms | Slopes]:
    """The controls of a plan, for outputs without masks `plain`; they carry no graph."""
    found: list[Atoms | Slopes] = []
    sizes = [law.size for law in problem.early]
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    with torch.no_grad():
        quiet = plain.variance()
        for number in plan.listed:
            atoms, probabilities = _all_atoms(problem.early[number])
            moved = plain.center.new_zeros(2, len(atoms), *plain.center.shape)
            # a control by all masks of the only site leaves nothing to be sampled
            listed = torch.arange(len(atoms)) if len(sizes) == 1 else _likely(probabilities)
            for places in listed.split(problem.room):
                some = atoms[places]
                full = torch.ones(len(some), 1, sum(sizes), dtype=torch.float64)
                full[:, 0, starts[number] : starts[number] + sizes[number]] = some
                outputs = problem.given(full)
                moved[0, places] = outputs.center - plain.center
                moved[1, places] = outputs.variance() - quiet
            found.append(Atoms(number, probabilities, moved[0], moved[1]))
        for number in plan.effects:
            found.append(_main_effects(problem, number, starts[number], sum(sizes)))
    if plan.gradient:
        others = [i for i in range(len(sizes)) if i not in plan.listed and i not in plan.effects]
        with suppress(RuntimeError):  # masks that are written in place leave torch no derivative, and no control
            found.append(_gradient(problem, [(starts[i], sizes[i]) for i in others], plain))
    return found


def _likely(probabilities: Tensor) -> Tensor:
    """Places of the likeliest atoms, all but `UNLIKELY` of the whole."""
    order = probabilities.argsort(descending=True)
    before = probabilities[order].cumsum(0) - probabilities[order]
    return order[before < 1 - UNLIKELY]


def _main_effects(problem: Conditional, number: int, start: int, units: int) -> Slopes:
    """(c(z_j = high) - c(z_j = 0)) / high for every unit of a site, the other units at one."""
    law = problem.early[number]
    assert isinstance(law, Bernoulli)
    random = (law.drop > 0).nonzero().squeeze(-1)
    high = 1 / (1 - law.drop[random])
    masks = torch.ones(2 * len(random), 1, units, dtype=torch.float64)
    rows = torch.arange(len(random))
    masks[rows, 0, start + random] = high
    masks[rows + len(random), 0, start + random] = 0.0
    outputs = [problem.given(some) for some in masks.split(problem.room)]
    found = []
    for values in (torch.cat([part.center for part in outputs]), torch.cat([part.variance() for part in outputs])):
        effects = (values[: len(random)] - values[len(random) :]) / high.to(values)[:, None, None]
        slopes = effects.new_zeros(*effects.shape[1:], units)
        slopes[..., start + random] = effects.movedim(0, -1)
        found.append(slopes)
    return Slopes(found[0], found[1], Product(problem.early), "main effects")


def _gradient(problem: Conditional, parts: list[tuple[int, int]], plain: Affine) -> Slopes:
    """Slopes of centers and variances at one, for the units of the given parts (start, size)."""
    examples, outputs = plain.center.shape[-2:]
    units = sum(law.size for law in problem.early)
    chosen = torch.zeros(units, dtype=torch.bool, device=plain.center.device)
    for start, size in parts:
        chosen[start : start + size] = True
    with torch.enable_grad():
        point = torch.ones(1, examples, units, dtype=plain.center.dtype, device=plain.center.device)
        point.requires_grad_(True)
        given = problem.given(point)
        found = []
        for values in (given.center[0], given.variance()[0]):
            total = values.sum(-2) + 0 * point.sum()
            slopes = [torch.autograd.grad(total[k], point, retain_graph=True)[0][0] for k in range(outputs)]
            found.append(torch.stack(slopes, 1).detach() * chosen)
    return Slopes(found[0], found[1], Product(problem.early), "gradient")


def _all_atoms(law: MaskLaw) -> tuple[Tensor, Tensor]:
    found = list(law.atom_batches(4096))
    return torch.cat([masks for masks, _ in found]), torch.cat([chances for _, chances in found])
