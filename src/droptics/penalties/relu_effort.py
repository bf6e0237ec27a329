"""What an exact sum over mask outcomes would take: counted by random descents, timed on this machine."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from droptics.masks import MaskLaw
from droptics.penalties.methods import ClosedForm
from droptics.penalties.relu_kernels import direct_moments
from droptics.penalties.relu_moments import DIRECT_BITS, sweep_work, table_rows
from droptics.penalties.relu_outcomes import Stage


@dataclass(frozen=True)
class Cost:
    """What an exact criterion would take, before it is computed.

    Attributes:
        outcomes: Number of mask outcomes that are summed over, all examples together (estimated for depth above 2).
        seconds: Estimated time on this machine, one thread.
    """

    outcomes: float
    seconds: float


def descend(stages: Sequence[Stage], squared: bool, generator: np.random.Generator) -> tuple[float, float]:
    """One random descent: an unbiased estimate of the number of outcomes and of the work (kernel steps)."""
    state = np.ones(stages[0].weight.shape[1])
    outcomes, work = 1.0, 0.0
    for level, stage in enumerate(stages):
        weight, bias = stage.weight.detach().numpy(), stage.bias.detach().numpy()
        units = len(bias)
        last = level == len(stages) - 1
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
            multipliers = kept / np.where(radix > 1, 1 - stage.law.drop, 1.0)
        if last and squared and coins:
            work += outcomes * _leaf_work(units, bits)
        else:
            work += outcomes * branches * (200.0 + weight.size)
        outcomes *= branches
        state = np.maximum(weight @ (multipliers * state) + bias, 0.0)
    return outcomes, work


def _leaf_work(units: int, bits: float) -> float:
    """Kernel steps of one state at the last stage."""
    if bits <= DIRECT_BITS:
        return 2.0**bits * (units * units / 2 + 2 * units) * 0.25 + 400.0
    rows = 2.0 ** (bits / 2)
    limit = min(rows, table_rows(units, ClosedForm().memory))
    repeats = 2.0 ** (bits - 2 * math.log2(limit))
    # random access beyond the cache makes a step of a long table dearer
    dear = 2.0 + max(0.0, math.log2(limit) - 13.0)
    return repeats * units * (units + 1) / 2 * sweep_work(int(limit), int(limit)) * dear


@lru_cache(maxsize=1)
def kernel_seconds() -> float:
    """Seconds of one kernel step on this machine, measured once on a small direct sum."""
    columns = np.linspace(-1, 1, 8 * 12).reshape(8, 12)
    arguments = (
        np.ones((1, 12)),
        np.ones(1),
        columns,
        np.zeros(8),
        np.ones(12, dtype=bool),
        np.ones(12, dtype=np.int64),
        np.full(12, 0.5),
    )
    direct_moments(*arguments)
    start = time.perf_counter()
    for _ in range(4):
        direct_moments(*arguments)
    return (time.perf_counter() - start) / (4 * 2**12 * (8 * 8 / 2 + 16) * 0.25)


def words(seconds: float) -> str:
    """A duration for people."""
    for name, size in (("years", 3.2e7), ("days", 86_400.0), ("hours", 3_600.0)):
        if seconds > 2 * size:
            return f"{seconds / size:.3g} {name}"
    return f"{seconds:.3g} s"
