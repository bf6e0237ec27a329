"""What an exact sum over mask outcomes would take: counted by random descents, timed on this machine."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from droptics.masks import MaskLaw
from droptics.penalties.relu.moments import DIRECT_BITS, most_rows, place_of_sum, sweep_work
from droptics.penalties.relu.outcomes import Stage


@dataclass(frozen=True)
class Cost:
    """What an exact criterion would take, before it is computed.

    Attributes:
        outcomes: Number of mask outcomes that are summed over, all examples together (estimated for depth above 2).
        seconds: Estimated time of the value on this machine: one thread, or the GPU that the network lies on.
    """

    outcomes: float
    seconds: float


@dataclass(frozen=True)
class Place:
    """Where and within how much memory the last layer is summed; `squared` says whether its moments are enough."""

    squared: bool
    memory: int
    device: torch.device | None = None


def descend(stages: Sequence[Stage], place: Place, generator: np.random.Generator) -> tuple[float, float]:
    """One random descent: an estimate of the number of outcomes and of the work (kernel steps).

    Unbiased for coins, whose outcomes are drawn uniformly; other laws draw their masks by their own probabilities, so
    that deeper layers are counted as a likely mask leaves them.
    """
    state = np.ones(stages[0].weight.shape[1])
    outcomes, work = 1.0, 0.0
    for level, stage in enumerate(stages):
        weight, bias = stage.weight.detach().numpy(), stage.bias.detach().numpy()
        units = len(bias)
        if isinstance(stage.law, MaskLaw):
            branches = float(stage.law.support_count or 1)
            seed = torch.Generator().manual_seed(int(generator.integers(2**31)))
            multipliers = stage.law.multipliers(1, seed)[0].numpy()
            bits, coins = math.inf, False
        else:
            alive = (state != 0) & (weight != 0).any(0)
            radix = np.where(alive, stage.law.radix, 1)
            bits, coins = float(np.log2(radix).sum()), True
            branches = 2.0 ** min(bits, 1000.0)
            kept = np.where(radix > 1, generator.integers(radix), stage.law.counts)
            multipliers = kept / (1 - stage.law.drop)
        if level == len(stages) - 1 and place.squared and coins:
            work += outcomes * _leaf_work(units, bits, place)
        else:
            work += outcomes * branches * (200.0 + weight.size)
        outcomes *= branches
        state = np.maximum(weight @ (multipliers * state) + bias, 0.0)
    return outcomes, work


def _leaf_work(units: int, bits: float, place: Place) -> float:
    """Kernel steps of one state at the last stage."""
    if bits <= DIRECT_BITS:
        return 2.0**bits * (units * units / 2 + 2 * units) * 0.25 + 400.0
    device = place_of_sum(bits, place.device)
    limit = min(2.0 ** (bits / 2), most_rows(units, place.memory, device))
    repeats = 2.0 ** (bits - 2 * math.log2(limit))
    return repeats * units * (units + 1) / 2 * sweep_work(2 * limit, device)


def words(seconds: float) -> str:
    """A duration for people."""
    for name, size in (("years", 3.2e7), ("days", 86_400.0), ("hours", 3_600.0)):
        if seconds > 2 * size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"
