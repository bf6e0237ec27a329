"""audit: find the dropout of any torch module and ask every question of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from tqdm.auto import tqdm

from droptics.answers import checked
from droptics.arguments import Count, DropRate, Positive, Probability, Seed
from droptics.audits.asking import ask, called, uncompiled
from droptics.audits.batches import Batch, batches, count_batches, output_of
from droptics.audits.criteria import LossFunction, counted, mean_loss, parts
from droptics.audits.discovery import AuditedSite, discover
from droptics.audits.findings import LEVELS, Finding, remarks
from droptics.audits.heads import Chain, Head, confirmed, find_chain, find_head, head_features
from droptics.audits.layer_drop import LAYER_DROP, quiet_parts
from droptics.audits.measuring import Plan
from droptics.audits.report import CurvePoint, Report, SiteReport
from droptics.audits.rounds import CleanRun, measure, unchanged
from droptics.audits.runs import Law
from droptics.audits.statements import head_statements
from droptics.audits.tallies import Mean, Tally, merged
from droptics.audits.uncertainty import spread_of_predictions
from droptics.audits.units import UnitTally, add_units
from droptics.estimates import PlainEstimate
from droptics.losses import Loss, Squared
from droptics.models.hooks import hooked
from droptics.models.modes import undisturbed, unmoved
from droptics.models.replaying import Recording
from droptics.models.watching import Trace, all_off, watched
from droptics.predictions.running import eager

RATES = (0.1, 0.3, 0.5, 0.7)
TREE = "all outcomes of all sites"
LISTED = "exact: all outcomes"
SHIFT = 1e-5  # of the clean loss: what training mode changes beyond rounding
MOST_EXAMPLES = 32  # on which the spread of the predictions is measured
Seen = list[tuple[Tensor, Trace]]  # outputs and trace of a run without dropout that was made before, if there was one


@dataclass
class _State:
    """Everything that is summed over batches."""

    tally: Tally
    head: Head | None = None
    chain: Chain | None = None
    units: dict[str, UnitTally] = field(default_factory=dict)
    validation: Mean | None = None
    squared: bool = False

    def merge(self, other: _State) -> _State:
        """Sums over both shards."""
        pairs = {name: (getattr(self, name), getattr(other, name)) for name in ("head", "chain", "validation")}
        both = {name: one.merge(two) for name, (one, two) in pairs.items() if one is not None and two is not None}
        both["units"] = merged(self.units, other.units)
        return _State(self.tally.merge(other.tally), squared=self.squared, **both)


@checked
def audit(  # parameters: keywords with defaults, each of which a report can do without
    module: nn.Module,
    data: object,
    loss: str | Loss | Callable[[Tensor, Tensor], Tensor] | None = None,
    *,
    validation: object | None = None,
    rates: Sequence[DropRate] = RATES,
    budget: Positive = 60,
    draws: Count | None = None,
    batch_size: Count = 256,
    confidence: Probability = 0.99,
    seed: Seed = 0,
    progress: bool | None = None,
    distributed: bool = False,
    uncertainty: bool = False,
) -> Report:
    """What dropout does to a network on this data: penalty per site, what it explains, bugs, what to try.

    Sites are found by watching operators, so functional calls, attention and recurrent dropout and masks written by
    hand are seen too. The penalty of a site is exact where its mask has few outcomes (DropPath) and, with squared loss,
    where the outputs are affine in it; otherwise it is drawn, less its first order, with an interval over the masks.
    The method of every number says which it is. The module, its modes, buffers, gradients and all random states are as
    before, also after an exception. Where the loss itself is not finite the report says so, with nan or inf for what
    follows from it.

    Claim: none, exact parts say which formula they are, the others have an interval.

    Args:
        module: Any torch module; it may return a tensor, a tuple or a dictionary.
        data: A Sample without weights, a pair (inputs, targets), a Dataset of examples, a graph of PyTorch Geometric,
            or a loader that yields (inputs, ..., targets), dictionaries or graphs; it is read once, batch by batch.
        loss: "squared", "cross-entropy", "logistic", a droptics or torch loss, a function of (outputs, targets), or
            "model" for the one that the module returns when it is called with labels; by default squared for
            floating-point targets and cross-entropy for class labels. Labels of -100 do not count, and those of causal
            language models are shifted where the module's own loss shifts them.
        validation: Data in the same form; its clean loss is compared with the training loss.
        rates: Rates at which penalty and training loss are predicted.
        budget: Passes over the data that may be spent, a backward pass by masks alone counting one. Every sampled site
            has one draw at least; the others go where they are needed. `Report.passes` says what was spent.
        draws: Masks per batch for every sampled number, whatever they cost; by default the budget decides.
        batch_size: Examples at a time when `data` is tensors.
        confidence: Coverage of the intervals.
        seed: Seed of the sampled masks.
        progress: Show a progress bar; by default only on a terminal.
        uncertainty: Also measure the spread of the predictions on the first examples: who holds it, and how many
            passes MC dropout would need for it; 64 passes more.
        distributed: Merge the sums of all ranks of torch.distributed; every rank gets the same report.

    Cost: about five passes of the first batch, two of every batch with its gradient, and the draws.
    """
    if draws is not None and draws < 2:
        raise ValueError(f"draws must be at least 2 to give an interval, got {draws}")
    module = uncompiled(module)
    device = next(
        (tensor.device for tensor in itertools.chain(module.parameters(), module.buffers())), torch.device("cpu")
    )
    with undisturbed(module, seed), eager(module), torch.no_grad():
        stream = batches(data, device, batch_size)
        first = next(stream)
        clean: Seen = []

        def look(module: nn.Module, batch: Batch) -> Tensor:
            clean.append(_clean(module, batch))
            return clean[0][0]

        with unmoved(module), _counted(module) as calls:
            question = ask(module, first, loss, look)
            criterion, first = question.loss, question.batch(module, first)
            stream = (question.batch(module, batch) for batch in stream)
            # what does not fit fails before anything is measured
            mean_loss(criterion, clean[0][0] if clean else look(module, first), first.targets)
            if not isinstance(criterion, Squared) and first.targets.ndim != 1:
                clean.clear()  # no head is looked for: nobody holds the outputs, which may be a vocabulary
            head = find_head(clean[0][1], clean[0][0]) if clean else None
            state = _State(Tally(), head, squared=isinstance(criterion, Squared))

            def follow(outputs: Tensor, trace: Trace) -> None:
                state.head = state.head if state.head and confirmed(state.head, trace, outputs) else None

            sites, findings = discover(module, first, criterion, clean, follow)
            quiet = quiet_parts(module, [site.name for site in sites if site.kind == LAYER_DROP])
            if clean and state.squared:
                state.chain = find_chain(clean[0][1], first, clean[0][0], [site.name for site in sites])
                if (state.head or state.chain) and not unchanged(module, first, clean[0][0], sites, quiet):
                    state.head = state.chain = None
        generator = torch.Generator(device).manual_seed(int(seed))
        asked = {"rates": tuple(rates), "draws": draws, "budget": float(budget), "generator": generator}
        plan = _plan(criterion, sites, state, quiet, confidence=confidence, **asked)
        chained, once = itertools.chain([first], stream), max(len(calls) - len(clean), 0.0)  # what is still to be used
        total, silent = count_batches(data, batch_size), None if progress is None else not progress
        for batch in tqdm(chained, total=total, desc="audit", unit="batch", disable=silent):
            # nobody here holds the outputs while masks are drawn
            measure(module, batch, _looked_at(module, batch, plan, state, clean), plan, state.tally, once + 1)
            once = 0.0
        if validation is not None:
            state.validation = Mean()
            for batch in (question.batch(module, given) for given in batches(validation, device, batch_size)):
                sums, weights = parts(criterion, _clean(module, batch)[0], batch.targets)
                state.validation.add([float(sums.sum() / weights.sum().clamp_min(1))], float(weights.sum()))
    if distributed:
        sites, findings, state = _gathered(sites, findings, state)
    report = _report(module, sites, findings, state, plan)
    if uncertainty:
        inputs = tuple(value[:MOST_EXAMPLES] for value in first.arguments) or first.options
        with torch.no_grad():
            report = replace(report, uncertainty=spread_of_predictions(module, inputs, seed=seed))
    return report


def _clean(module: nn.Module, batch: Batch, recording: Recording | None = None) -> tuple[Tensor, Trace]:
    result, trace = watched(module, lambda: called(module, batch), all_off, keep=True, recording=recording)
    return output_of(result, batch), trace


@contextmanager
def _counted(module: nn.Module) -> Iterator[list[None]]:
    """Collects the calls of the module."""
    calls: list[None] = []
    if isinstance(module, torch.jit.ScriptModule):  # takes no hooks
        yield calls
        return
    with hooked(before=[(module, lambda *_: calls.append(None))]):
        yield calls


def _plan(loss: LossFunction, sites: Sequence[AuditedSite], state: _State, quiet: Sequence[str], **asked: Any) -> Plan:
    """What no closed form covers has to be measured; `asked` are fields of the plan that the caller chose."""
    exact = set(state.chain.places) if state.chain is not None else set()
    if state.head is not None and isinstance(loss, Squared):
        exact.add(state.head.site)
    isolated = [site for site in sites if site.reason is None]
    measured = [site for site in isolated if site.name not in exact]
    names, rest = [site.name for site in isolated], len(isolated) < len(sites)
    return Plan(
        loss=loss,
        sites=[site.name for site in measured],
        curve=[site.name for site in measured if not site.bypassed and site.kind != LAYER_DROP],
        rest=rest,
        layers={site.name: site.rate for site in isolated if site.bypassed},
        names=names,
        laws={site.name: Law(site.name, site.rate, site.unit) for site in isolated if site.unit is not None},
        total=rest or not (state.chain is not None or set(names) <= exact),
        quiet=quiet,
        **asked,
    )


def _looked_at(module: nn.Module, batch: Batch, plan: Plan, state: _State, seen: Seen) -> CleanRun:
    """A run without dropout; what chain, head and units of sites see on the way is added."""
    if state.chain is not None:
        state.chain.add(batch)
    recording = Recording.towards(plan.laws) if state.tally.steady else None
    outputs, trace = seen.pop() if seen else _clean(module, batch, recording=recording)
    if state.head is not None:
        state.head.add(*counted(head_features(trace), batch.targets))
    add_units(state.units, trace, plan.names)
    return outputs, recording


def _gathered(
    sites: list[AuditedSite], findings: list[Finding], state: _State
) -> tuple[list[AuditedSite], list[Finding], _State]:
    """Sites as the first rank saw them and the sums of all, added in rank order: every rank gets the same numbers."""
    if not torch.distributed.is_initialized():
        raise ValueError("distributed=True needs an initialized torch.distributed process group")
    shards: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(shards, (sites, findings, state))
    return (*shards[0][:2], reduce(_State.merge, [shard for _, _, shard in shards]))


def _report(
    module: nn.Module, sites: Sequence[AuditedSite], findings: Sequence[Finding], state: _State, plan: Plan
) -> Report:
    tally, clean, drawn = state.tally, state.tally.clean.value, state.tally.rest.draws > 0
    total, rest = _total(state, sites, plan.confidence), _rest(tally, plan.confidence)
    offset = clean if rest is None or drawn else clean + rest.value  # what is drawn is part of the total
    state = state if offset == clean or state.squared else replace(state, head=None)  # it has features of evaluation
    reports = [_site_report(site, state, plan, offset, total) for site in sites]
    parts = [*(item.penalty for item in reports), rest if drawn else None]
    draft = Report(
        network=type(module).__name__,
        examples=tally.examples,
        loss=type(plan.loss).__name__ if isinstance(plan.loss, Loss) else getattr(plan.loss, "__name__", "custom"),
        clean_loss=clean,
        training_loss=PlainEstimate(offset + total.value, offset + total.lower, offset + total.upper, total.method),
        rest=rest,
        interaction=_interaction([part for part in parts if part is not None], total),
        validation_loss=None if state.validation is None else state.validation.value,
        accuracy=tally.accuracy.value if tally.accuracy.draws else None,
        confidence=plan.confidence,
        sites=reports,
        findings=(),
        passes=tally.spent / tally.examples,
    )
    return replace(draft, findings=tuple(sorted([*findings, *remarks(draft)], key=lambda one: LEVELS.index(one.level))))


def _rest(tally: Tally, confidence: float) -> PlainEstimate | None:
    """What no switch reaches, or what training mode changes beside dropout."""
    if tally.rest.draws:
        return tally.rest.number(confidence)
    if tally.shift.draws and abs(tally.shift.value) > SHIFT * abs(tally.clean.value):
        return PlainEstimate.exact(tally.shift.value, "exact: what training mode changes without dropout")
    return None


def _total(state: _State, sites: Sequence[AuditedSite], confidence: float) -> PlainEstimate:
    """What all dropout adds together: exact for chains, for few outcomes, and where the only site is."""
    rates, tally = {site.name: site.rate for site in sites}, state.tally
    if state.chain is not None:
        return PlainEstimate.exact(state.chain.penalty(rates))
    if tally.listed_total.draws:
        return PlainEstimate.exact(tally.listed_total.value, f"exact: {TREE}")
    if tally.total.draws:
        return tally.total.number(confidence)
    if not rates:
        return PlainEstimate.exact(0.0)
    known = _exact(*next(iter(rates.items())), state)
    assert known is not None  # what is neither closed nor listed was drawn
    return known[0]


def _exact(site: str, rate: float, state: _State, own: bool = True) -> tuple[PlainEstimate, str | None] | None:
    """The exact penalty of a site at its `own` or another rate, and the claim it rests on; None where there is none."""
    tally = state.tally
    if state.chain is not None and site in state.chain.places:
        return PlainEstimate.exact(state.chain.penalty({site: rate})), "thesis-prop8"
    if state.head is not None and site == state.head.site and state.head.moments is not None and state.squared:
        return PlainEstimate.exact(state.head.penalty(rate)), "thesis-prop5"
    if site in tally.energies:
        return PlainEstimate.exact(rate / (1 - rate) * tally.energies[site].value, "exact: affine tail"), None
    return (PlainEstimate.exact(tally.listed[site].value, LISTED), None) if own and site in tally.listed else None


def _at_rate(site: str, rate: float, state: _State, confidence: float) -> PlainEstimate | None:
    """The penalty of a site at a rate other than its own, where it is known or was drawn."""
    known, drawn = _exact(site, rate, state, own=False), state.tally.curves.get((site, rate))
    return known[0] if known is not None else None if drawn is None else drawn.number(confidence)


def _site_report(site: AuditedSite, state: _State, plan: Plan, offset: float, total: PlainEstimate) -> SiteReport:
    if site.reason is not None:
        return SiteReport(site)
    known = _exact(site.name, site.rate, state)
    value, claim = (state.tally.sites[site.name].number(plan.confidence), None) if known is None else known
    if known is None and state.head is not None and site.name == state.head.site:
        proved = state.head.entropic(site.rate, plan.loss)
        if proved is not None and proved.upper - proved.lower < value.upper - value.lower:
            value = proved
    training = offset + total.value
    points = [(rate, _at_rate(site.name, rate, state, plan.confidence)) for rate in plan.rates]
    others = training - value.value
    curve = [CurvePoint(rate, point, others + point.value) for rate, point in points if point is not None]
    units = state.units[site.name].report() if site.name in state.units else None
    report = SiteReport(site, value, value.value / training if training > 0 else None, None, curve, units, claim=claim)
    return head_statements(report, state.head, plan) if state.head and state.head.site == site.name else report


def _interaction(parts: Sequence[PlainEstimate], total: PlainEstimate) -> PlainEstimate | None:
    if not parts:
        return None
    value = total.value - sum(part.value for part in parts)
    width = sum(((part.upper - part.lower) / 2) ** 2 for part in (total, *parts)) ** 0.5
    method = "exact" if width == 0 else "difference of the numbers above"
    return PlainEstimate(value, value - width, value + width, method)
