"""audit: find the dropout of any torch module and ask every question of it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed
from torch import Tensor, nn
from tqdm.auto import tqdm

from droptics.arguments import Count, Probability, Seed, check_arguments
from droptics.audits.asking import ask, eager, uncompiled
from droptics.audits.batches import Batch, batches, run
from droptics.audits.criteria import mean_loss, parts
from droptics.audits.discovery import Site, discover
from droptics.audits.findings import LEVELS, Finding, remarks
from droptics.audits.heads import Chain, Head, confirmed, find_chain, find_head, head_features
from droptics.audits.measuring import Mean, Number, Plan, Tally, measure
from droptics.audits.report import CurvePoint, Report, SiteReport
from droptics.audits.statements import head_statements
from droptics.audits.uncertainty import spread_of_predictions
from droptics.audits.units import UnitTally, add_units
from droptics.checks import check_positive, check_probability
from droptics.losses import Loss, Squared
from droptics.models.watching import Trace, all_off, only, set_training, undisturbed, unmoved, watched

RATES = (0.1, 0.3, 0.5, 0.7)
MOST_EXAMPLES = 32  # on which the spread of the predictions is measured


@dataclass
class _State:
    """Everything that is summed over batches."""

    tally: Tally
    head: Head | None = None
    chain: Chain | None = None
    units: dict[str, UnitTally] = field(default_factory=dict)
    validation: Mean | None = None

    def merge(self, other: _State) -> _State:
        """Sums over both shards."""
        return _State(
            self.tally.merge(other.tally),
            self.head.merge(other.head) if self.head is not None and other.head is not None else None,
            self.chain.merge(other.chain) if self.chain is not None and other.chain is not None else None,
            {name: tally.merge(other.units[name]) for name, tally in self.units.items() if name in other.units},
            self.validation.merge(other.validation)
            if self.validation is not None and other.validation is not None
            else None,
        )


def audit(  # parameters: keywords with defaults, each of which a report can do without
    module: nn.Module,
    data: object,
    loss: str | Loss | Callable[[Tensor, Tensor], Tensor] | None = None,
    *,
    validation: object | None = None,
    rates: Sequence[float] = RATES,
    draws: Count = 4,
    batch_size: Count = 256,
    confidence: Probability = 0.99,
    seed: Seed = 0,
    progress: bool | None = None,
    distributed: bool = False,
    uncertainty: bool = False,
) -> Report:
    """What dropout does to a network on this data: penalty per site, what it explains, bugs, what to try.

    Sites are found by watching operators, so functional calls, attention and recurrent dropout and masks written by
    hand are seen too. Penalties are exact where the theory covers them (a site before the last linear layer with
    squared loss; networks that are linear from end to end), otherwise Monte Carlo with an interval over the masks.
    The module, its modes, buffers, gradients and all random states are as before, also after an exception.

    Args:
        module: Any torch module; it may return a tensor, a tuple or a dictionary.
        data: A Sample, a pair (inputs, targets), a Dataset of examples, a graph of PyTorch Geometric, or a loader that
            yields (inputs, ..., targets), dictionaries or graphs; it is read once, batch by batch.
        loss: "squared", "cross-entropy", "logistic", a droptics or torch loss, a function of (outputs, targets), or
            "model" for the one that the module returns when it is called with labels; by default squared for
            floating-point targets and cross-entropy for class labels. Labels of -100 do not count, and those of causal
            language models are shifted where the module's own loss shifts them.
        validation: Data in the same form; its clean loss is compared with the training loss.
        rates: Rates at which penalty and training loss are predicted.
        draws: Masks per batch for sampled numbers.
        batch_size: Examples at a time when `data` is tensors.
        confidence: Coverage of the intervals.
        seed: Seed of the sampled masks.
        progress: Show a progress bar; by default only on a terminal.
        uncertainty: Also measure the spread of the predictions on the first examples: who holds it, and how many
            passes MC dropout would need for it; 64 passes more.
        distributed: Merge the sums of all ranks of torch.distributed; every rank gets the same report.

    Cost: per batch one clean pass, draws passes for the total and (1 + len(rates)) draws for every sampled site;
    about six passes once.
    """
    check_arguments(audit, locals())
    _check(module, rates, draws, batch_size, confidence)
    module = uncompiled(module)
    device = next(
        (tensor.device for tensor in itertools.chain(module.parameters(), module.buffers())), torch.device("cpu")
    )
    with undisturbed(module, seed), eager(module), torch.no_grad():
        stream = batches(data, device, batch_size)
        first = next(stream)
        question = ask(module, first, loss)
        criterion, first = question.loss, question.batch(module, first)
        stream = (question.batch(module, batch) for batch in stream)
        outputs, trace = _clean(module, first)
        mean_loss(criterion, outputs, first.targets)  # what does not fit fails before anything is measured
        with unmoved(module):
            sites, findings = discover(module, first, criterion)
        state, sampled = _State(Tally.empty()), [site.name for site in sites if site.reason is None]
        if isinstance(criterion, Squared) or first.targets.ndim == 1:
            state.head = _head(module, first, trace, outputs)
        if isinstance(criterion, Squared):
            state.chain = find_chain(trace, first, outputs, [site.name for site in sites], criterion)
        plan = _plan(criterion, sites, sampled, state, rates, draws)
        chained = itertools.chain([first], stream)
        for batch in tqdm(chained, desc="audit", unit="batch", disable=_silent(progress)):
            _add(module, batch, plan, state)
        if validation is not None:
            held_out = (question.batch(module, batch) for batch in batches(validation, device, batch_size))
            state.validation = _validation_loss(module, held_out, criterion)
    if distributed:
        sites, findings, state = _gathered(sites, findings, state)
    report = _report(module, sites, findings, state, plan, confidence)
    if not uncertainty:
        return report
    asked = tuple(value[:MOST_EXAMPLES] for value in first.arguments) or first.options
    with torch.no_grad():
        return replace(report, uncertainty=spread_of_predictions(module, asked, seed=seed))


def _check(module: nn.Module, rates: Sequence[float], draws: int, batch_size: int, confidence: float) -> None:
    if not isinstance(module, nn.Module):
        raise ValueError(f"module must be a torch.nn.Module, got {type(module).__name__}")
    check_positive("draws", draws)
    check_positive("batch_size", batch_size)
    check_probability("confidence", confidence)
    if draws < 2:
        raise ValueError(f"draws must be at least 2 to give an interval, got {draws}")
    for rate in rates:
        if not 0 <= rate < 1:
            raise ValueError(f"rates must lie in [0, 1), got {rate}")


def _silent(progress: bool | None) -> bool | None:
    return None if progress is None else not progress


def _clean(module: nn.Module, batch: Batch) -> tuple[Tensor, Trace]:
    set_training(module, False)
    try:
        return watched(module, lambda: run(module, batch), all_off, keep=True)
    except (RuntimeError, TypeError, IndexError, AttributeError) as problem:
        raise ValueError(f"the forward pass of {type(module).__name__} fails on this data: {problem}") from problem


def _head(module: nn.Module, batch: Batch, trace: Trace, outputs: Tensor) -> Head | None:
    """The head, if the outputs follow its masks as those of a linear layer: one more pass, with its site alone on."""
    head = find_head(trace, outputs)
    if head is None:
        return None
    set_training(module, False)
    masked, trial = watched(module, lambda: run(module, batch), only(head.site), keep=True)
    return head if confirmed(head, trial, masked) else None


def _plan(
    loss: Callable[[Tensor, Tensor], Tensor],
    sites: Sequence[Site],
    sampled: Sequence[str],
    state: _State,
    rates: Sequence[float],
    draws: int,
) -> Plan:
    exact = set(state.chain.places) if state.chain is not None else set()
    if state.head is not None and isinstance(loss, Squared):
        exact.add(state.head.site)
    rest = any(site.reason is not None for site in sites)
    names = [name for name in sampled if name not in exact]
    layers = {site.name: site.rate for site in sites if site.bypassed}
    return Plan(
        loss, names, [name for name in names if name not in layers], tuple(rates), draws, rest, layers, tuple(sampled)
    )


def _add(module: nn.Module, batch: Batch, plan: Plan, state: _State) -> None:
    outputs, trace = _clean(module, batch)
    if state.head is not None:
        state.head.add(head_features(trace), batch.targets)
    if state.chain is not None:
        state.chain.add(batch)
    add_units(state.units, trace, plan.names)
    measure(module, batch, outputs, plan, state.tally)


def _validation_loss(module: nn.Module, stream: Iterator[Batch], loss: Callable[[Tensor, Tensor], Tensor]) -> Mean:
    mean = Mean()
    for batch in stream:
        outputs, _ = _clean(module, batch)
        sums, weights = parts(loss, outputs, batch.targets)
        mean.add([float(sums.sum() / weights.sum())], float(weights.sum()))
    return mean


def _gathered(sites: list[Site], findings: list[Finding], state: _State) -> tuple[list[Site], list[Finding], _State]:
    """Sites as the first rank saw them and the sums of all, added in rank order: every rank gets the same numbers."""
    if not torch.distributed.is_initialized():
        raise ValueError("distributed=True needs an initialized torch.distributed process group")
    shards: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(shards, (sites, findings, state))
    sites, findings, merged = shards[0]
    for _, _, shard in shards[1:]:
        merged = merged.merge(shard)
    return sites, findings, merged


def _report(
    module: nn.Module,
    sites: Sequence[Site],
    findings: Sequence[Finding],
    state: _State,
    plan: Plan,
    confidence: float,
) -> Report:
    tally, clean = state.tally, state.tally.clean.value
    total = _total(state, sites, confidence)
    reports = [_site_report(site, state, plan, confidence, clean, total) for site in sites]
    interaction = _interaction(state, reports, total, confidence)
    draft = Report(
        network=type(module).__name__,
        examples=tally.examples,
        loss=type(plan.loss).__name__ if isinstance(plan.loss, Loss) else getattr(plan.loss, "__name__", "custom"),
        clean_loss=clean,
        training_loss=Number(clean + total.value, clean + total.lower, clean + total.upper, total.method),
        rest=tally.rest.number(confidence) if tally.rest.draws else None,
        interaction=interaction,
        validation_loss=None if state.validation is None else state.validation.value,
        accuracy=tally.accuracy.value if tally.accuracy.draws else None,
        confidence=confidence,
        sites=reports,
        findings=(),
    )
    every = [*findings, *remarks(draft)]
    return replace(draft, findings=tuple(sorted(every, key=lambda found: LEVELS.index(found.level))))


def _total(state: _State, sites: Sequence[Site], confidence: float) -> Number:
    """What all dropout adds together: exact for chains, and when the only site is an exact head."""
    rates = {site.name: site.rate for site in sites}
    if state.chain is not None:
        return Number.exact(state.chain.penalty(rates))
    if state.head is not None and state.head.moments is not None and list(rates) == [state.head.site]:
        return Number.exact(state.head.penalty(rates[state.head.site]))
    return state.tally.total.number(confidence)


def _site_report(site: Site, state: _State, plan: Plan, confidence: float, clean: float, total: Number) -> SiteReport:
    if site.reason is not None:
        return SiteReport(site)
    at_rate: Callable[[float], Number | None]
    claim: str | None = None
    if state.chain is not None and site.name in state.chain.places:
        chain = state.chain
        value = Number.exact(chain.penalty({site.name: site.rate}))
        at_rate = lambda rate: Number.exact(chain.penalty({site.name: rate}))  # noqa: E731
        claim = "thesis-prop8"
    elif state.head is not None and site.name == state.head.site and site.name not in plan.sites:
        head = state.head
        value = Number.exact(head.penalty(site.rate))
        at_rate = lambda rate: Number.exact(head.penalty(rate))  # noqa: E731
        claim = "thesis-prop5"
    else:
        value = state.tally.sites[site.name].number(confidence)
        curves = state.tally.curves
        at_rate = lambda rate: curves[site.name, rate].number(confidence) if (site.name, rate) in curves else None  # noqa: E731
    others = total.value - value.value
    curve = []
    for rate in plan.rates:
        point = at_rate(rate)
        if point is not None:
            curve.append(CurvePoint(rate, point, clean + others + point.value))
    training = clean + total.value
    report = SiteReport(site, value, value.value / training if training > 0 else None, None, curve, claim=claim)
    if site.name in state.units:
        report = replace(report, units=state.units[site.name].report())
    if state.head is not None and state.head.site == site.name:
        report = head_statements(report, state.head, plan)
    return report


def _interaction(state: _State, reports: Sequence[SiteReport], total: Number, confidence: float) -> Number | None:
    parts = [report.penalty for report in reports if report.penalty is not None]
    rest = state.tally.rest.number(confidence) if state.tally.rest.draws else None
    if rest is not None:
        parts.append(rest)
    if not parts:
        return None
    value = total.value - sum(part.value for part in parts)
    widths = [(part.upper - part.lower) / 2 for part in (total, *parts)]
    width = sum(width**2 for width in widths) ** 0.5
    method = "exact" if width == 0 else "difference of the numbers above"
    return Number(value, value - width, value + width, method)
