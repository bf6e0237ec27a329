"""What is drawn on a batch: the plan of an audit, and every site as it draws for itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from droptics.audits.batches import run
from droptics.audits.criteria import LossFunction, mean_loss
from droptics.audits.runs import Law, Runs
from droptics.audits.tallies import Mean, Tally
from droptics.models.watching import Switch, all_off, all_on, only, watched

PLAIN_DRAWS = 4  # where a batch has one number only, so that draws alone tell their spread
FEW_SITES = 4  # whose other rates are drawn without control, unless asked for


@dataclass(frozen=True)
class Plan:
    """What to measure on every batch."""

    loss: LossFunction  # function of (outputs, targets)
    sites: Sequence[str]  # sites that no closed form covers
    curve: Sequence[str]  # sites whose penalty at other rates is asked for too
    rates: Sequence[float]  # those rates
    draws: int | None  # masks per batch and measurement; None where the budget decides
    budget: float  # passes per batch
    rest: bool  # whether something random remains when all switches are off
    layers: Mapping[str, float]  # sites that are switched off by bypassing their layer, with their rates
    names: Sequence[str]  # all sites that can be isolated, exactly or by sampling
    laws: Mapping[str, Law]  # masks of the sites that can be given from outside
    generator: torch.Generator  # draws the masks
    confidence: float  # coverage of the intervals
    total: bool = True  # whether what all sites do together is still asked for
    quiet: Sequence[str] = ()  # parts that would leave out layers by themselves


def plain(runs: Runs, plan: Plan, tally: Tally, clean: float, weight: float) -> None:
    """Every site as it draws for itself: one number per batch and draw."""
    if plan.total:
        tally.total.add(sampled(runs, plan, all_on, clean), weight)
    if plan.rest:
        tally.rest.add(sampled(runs, plan, all_off, clean), weight)
    for site in plan.sites:
        tally.sites.setdefault(site, Mean()).add(sampled(runs, plan, only(site), clean), weight)
    for site in plan.curve if plan.draws is not None or len(plan.curve) <= FEW_SITES else ():
        for rate in plan.rates:
            tally.curves.setdefault((site, rate), Mean()).add(sampled(runs, plan, only(site, rate), clean), weight)


def sampled(runs: Runs, plan: Plan, switch: Switch, clean: float) -> list[float]:
    """What a switch adds to the clean loss of the batch, draw by draw."""
    losses = []
    passing = partial(run, runs.module, runs.batch)
    for _ in range(plan.draws or PLAIN_DRAWS):
        result, _ = watched(runs.module, passing, switch, layers=plan.layers, skips=runs.skips)
        losses.append(float(mean_loss(plan.loss, result, runs.batch.targets)) - clean)
        runs.spent += 1
    return losses


def accuracy(outputs: Tensor, targets: Tensor) -> float | None:
    """Share of right classes, for class labels or signs; None for regression."""
    if not targets.is_floating_point() and outputs.ndim == 2 and targets.ndim == 1:
        return float((outputs.argmax(1) == targets).double().mean())
    if outputs.ndim == 2 and outputs.shape[1] == 1 and bool(((targets == 1) | (targets == -1)).all()):
        return float((torch.sign(outputs[:, 0]) == targets.reshape(-1)).double().mean())
    return None
