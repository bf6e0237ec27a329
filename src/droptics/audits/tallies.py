"""Sums that an audit adds up batch by batch: means whose only randomness is the masks, mergeable across shards."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

import scipy
import torch
from torch import Tensor

from droptics.estimates import PlainEstimate

Key = TypeVar("Key")


@dataclass
class Mean:
    """A weighted mean over examples of means over draws, with the variance that the draws leave."""

    weight: float = 0.0  # examples, or labels that count
    total: float = 0.0  # sum of the means
    variance: float = 0.0  # of `total`
    fourth: float = 0.0  # squared parts of the variance over their degrees of freedom: few large ones, few degrees
    draws: int = 0  # how many in all
    batches: int = 0  # over how many batches
    controlled: bool = False  # whether the first order was subtracted

    def add(self, values: Sequence[float], count: float) -> None:
        """Add the draws of one batch of `count` examples, or labels that count."""
        rows = torch.tensor(values, dtype=torch.float64)[:, None] * count
        self.add_rows(rows, torch.tensor([count], dtype=torch.float64))

    def add_rows(self, rows: Tensor, weights: Tensor) -> None:
        """Add draws (draws, examples) of sums with these weights; several draws, or their spread over examples.

        The spread over examples also holds that of what is measured, so that one draw gives a wider interval.
        """
        draws, count = rows.shape
        means, weight = rows.mean(0), float(weights.sum())
        self.weight += weight
        self.total += float(means.sum())
        self.draws += draws
        self.batches += 1
        if draws > 1:
            parts = rows.var(0) / draws
            self.fourth += float(parts.square().sum()) / (draws - 1)
        elif count > 1:
            parts = (means - weights * (means.sum() / weight)).square() * (count / (count - 1))
            self.fourth += float(parts.square().sum())
        else:
            return
        self.variance += float(parts.sum())

    def merge(self, other: Mean) -> Mean:
        """The mean over both."""
        names = ("weight", "total", "variance", "fourth", "draws", "batches")
        added = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Mean(**added, controlled=self.controlled and other.controlled)

    @property
    def value(self) -> float:
        """The mean."""
        return self.total / self.weight

    @property
    def error(self) -> float:
        """Standard error over the masks."""
        return math.sqrt(self.variance) / self.weight

    def number(self, confidence: float, offset: float = 0.0) -> PlainEstimate:
        """Value and Student interval, shifted by a known offset; degrees of freedom after Satterthwaite."""
        freedom = max(self.variance**2 / self.fourth, 1.0) if self.fourth > 0 else 1e9  # as good as infinite
        width = float(scipy.special.stdtrit(freedom, (1 + confidence) / 2)) * self.error if self.variance > 0 else 0.0
        value, method = self.value + offset, f"Monte Carlo, {self.draws} draws"
        if self.controlled:
            method = f"sampled, gradient control, {round(self.draws / max(self.batches, 1))} draws"
        return PlainEstimate(value, value - width, value + width, method)


@dataclass
class Tally:
    """All sums of one audit."""

    clean: Mean = field(default_factory=Mean)  # loss without dropout
    accuracy: Mean = field(default_factory=Mean)  # share of right classes
    total: Mean = field(default_factory=Mean)  # what all sites add together, drawn
    rest: Mean = field(default_factory=Mean)  # what remains when all switches are off
    shift: Mean = field(default_factory=Mean)  # what training mode changes beside dropout, the same in every pass
    sites: dict[str, Mean] = field(default_factory=dict)  # what each site adds, drawn
    curves: dict[tuple[str, float], Mean] = field(default_factory=dict)  # the same at other rates
    energies: dict[str, Mean] = field(default_factory=dict)  # squared slopes in a mask that the outputs are affine in
    listed: dict[str, Mean] = field(default_factory=dict)  # what each site adds, summed over all its masks
    listed_total: Mean = field(default_factory=Mean)  # what all sites add together, summed over all masks
    axes: dict[str, int | None] | None = None  # where the examples are in the masks of each site, by the first batch
    affine: list[str] = field(default_factory=list)  # sites in whose masks the outputs are affine
    steady: bool = False  # whether training mode without dropout had the very loss of evaluation mode there
    curve_draws: int | None = None  # draws of each at other rates
    spent: float = 0.0  # passes times examples
    examples: int = 0  # how many there were

    def merge(self, other: Tally) -> Tally:
        """Sums over both shards; what the first batch decided is as the first shard has it."""
        single = ("clean", "accuracy", "total", "rest", "shift", "listed_total")
        means: dict[str, Any] = {name: getattr(self, name).merge(getattr(other, name)) for name in single}
        by_site = ("sites", "curves", "energies", "listed")
        means |= {name: merged(getattr(self, name), getattr(other, name)) for name in by_site}
        return replace(self, **means, spent=self.spent + other.spent, examples=self.examples + other.examples)


def merged(one: Mapping[Key, Any], other: Mapping[Key, Any]) -> dict[Key, Any]:
    """What both shards have."""
    return {key: part.merge(other[key]) for key, part in one.items() if key in other}
