"""Streaming measurements: means over batches whose only randomness is the masks, mergeable across shards."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from scipy.stats import t as student
from torch import Tensor, nn

from droptics.audits.batches import Batch, run
from droptics.audits.criteria import mean_loss, parts
from droptics.models.watching import Switch, all_off, all_on, only, training_without_statistics, watched


@dataclass(frozen=True)
class Number:
    """A measured number: value, interval, and how it was obtained ("exact", "Monte Carlo, 40 draws", ...)."""

    value: float
    lower: float
    upper: float
    method: str

    @staticmethod
    def exact(value: float, method: str = "exact") -> Number:
        """A number without uncertainty."""
        return Number(value, value, value, method)


@dataclass
class Mean:
    """A weighted mean over batches of means over draws, with the variance that the draws leave."""

    weight: float = 0.0
    total: float = 0.0
    variance: float = 0.0
    draws: int = 0
    batches: int = 0

    def add(self, values: Sequence[float], count: float) -> None:
        """Add the draws of one batch of `count` examples, or labels that count."""
        mean = math.fsum(values) / len(values)
        self.weight += count
        self.total += count * mean
        self.draws += len(values)
        self.batches += 1
        if len(values) > 1:
            spread = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
            self.variance += count**2 * spread / len(values)

    def merge(self, other: Mean) -> Mean:
        """The mean over both."""
        return Mean(
            self.weight + other.weight,
            self.total + other.total,
            self.variance + other.variance,
            self.draws + other.draws,
            self.batches + other.batches,
        )

    @property
    def value(self) -> float:
        """The mean."""
        return self.total / self.weight

    @property
    def error(self) -> float:
        """Standard error over the masks."""
        return math.sqrt(self.variance) / self.weight

    def number(self, confidence: float, offset: float = 0.0) -> Number:
        """Value and Student interval, shifted by a known offset."""
        freedom = self.draws - self.batches  # at least two draws a batch, see `audit`
        width = float(student.ppf((1 + confidence) / 2, freedom)) * self.error
        value = self.value + offset
        return Number(value, value - width, value + width, f"Monte Carlo, {self.draws} draws")


@dataclass
class Tally:
    """All sums of one audit: clean loss, total, the part no switch reaches, each site at its own and other rates."""

    clean: Mean
    accuracy: Mean
    total: Mean
    rest: Mean
    sites: dict[str, Mean]
    curves: dict[tuple[str, float], Mean]
    accuracies: dict[str, list[float]]
    examples: int = 0

    @staticmethod
    def empty() -> Tally:
        """Nothing measured yet."""
        return Tally(Mean(), Mean(), Mean(), Mean(), {}, {}, {})

    def merge(self, other: Tally) -> Tally:
        """Sums over both shards."""
        return Tally(
            self.clean.merge(other.clean),
            self.accuracy.merge(other.accuracy),
            self.total.merge(other.total),
            self.rest.merge(other.rest),
            {name: mean.merge(other.sites[name]) for name, mean in self.sites.items()},
            {key: mean.merge(other.curves[key]) for key, mean in self.curves.items()},
            {name: values + other.accuracies.get(name, []) for name, values in self.accuracies.items()},
            self.examples + other.examples,
        )


@dataclass(frozen=True)
class Plan:
    """What to measure on every batch.

    Attributes:
        loss: Function of (outputs, targets).
        sites: Sites to be isolated by sampling.
        curve: Sites whose penalty at other rates is sampled too.
        rates: Those rates.
        draws: Masks per batch and measurement.
        rest: Whether something random remains when all switches are off.
        layers: Sites that are switched off by bypassing their layer, with their rates.
        names: All sites that can be isolated, exactly or by sampling.
    """

    loss: Callable[[Tensor, Tensor], Tensor]
    sites: Sequence[str]
    curve: Sequence[str]
    rates: Sequence[float]
    draws: int
    rest: bool
    layers: Mapping[str, float]
    names: Sequence[str]


def measure(module: nn.Module, batch: Batch, outputs: Tensor, plan: Plan, tally: Tally) -> None:
    """Add one batch; `outputs` are those without any dropout. The module is left in training mode."""
    sums, weights = parts(plan.loss, outputs, batch.targets)
    weight = float(weights.sum())  # examples, or labels that count
    clean = float(sums.sum()) / weight
    tally.clean.add([clean], weight)
    tally.examples += batch.count
    hits = accuracy(outputs, batch.targets)
    if hits is not None:
        tally.accuracy.add([hits], batch.count)
    training_without_statistics(module)

    def sampled(switch: Switch, keep: list[float] | None = None) -> list[float]:
        losses = []
        for _ in range(plan.draws):
            result, _ = watched(module, lambda: run(module, batch), switch, layers=plan.layers)
            losses.append(float(mean_loss(plan.loss, result, batch.targets)) - clean)
            share = accuracy(result, batch.targets)
            if keep is not None and share is not None:
                keep.append(share)
        return losses

    tally.total.add(sampled(all_on), weight)
    if plan.rest:
        tally.rest.add(sampled(all_off), weight)
    for site in plan.sites:
        kept = tally.accuracies.setdefault(site, [])
        tally.sites.setdefault(site, Mean()).add(sampled(only(site), kept), weight)
    for site in plan.curve:
        for rate in plan.rates:
            tally.curves.setdefault((site, rate), Mean()).add(sampled(only(site, rate)), weight)


def accuracy(outputs: Tensor, targets: Tensor) -> float | None:
    """Share of right classes, for class labels or signs; None for regression."""
    if not targets.is_floating_point() and outputs.ndim == 2 and targets.ndim == 1:
        return float((outputs.argmax(1) == targets).double().mean())
    if outputs.ndim == 2 and outputs.shape[1] == 1 and bool(((targets == 1) | (targets == -1)).all()):
        return float((torch.sign(outputs[:, 0]) == targets.reshape(-1)).double().mean())
    return None
