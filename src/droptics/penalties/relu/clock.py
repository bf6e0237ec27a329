"""How fast this machine is: the seconds of one step of the direct sum, and other steps in units of it."""

from __future__ import annotations

import time
from functools import lru_cache

import numpy as np
import torch

from droptics.penalties.relu.device import Outcomes, dominance_sum
from droptics.penalties.relu.kernels import Layer, direct_moments

# An outcome on one level of a list takes as long as so many steps of the direct sum, on the same CPU.
SPLIT_STEPS = 5.0
_PROBE_BITS = 20


@lru_cache(maxsize=1)
def kernel_seconds() -> float:
    """Seconds of one kernel step on this machine, measured once on a small direct sum."""
    columns, coins = np.linspace(-1, 1, 8 * 12).reshape(8, 12), np.ones(12, dtype=np.int64)
    arguments = np.ones((1, 12)), np.ones(1), Layer(columns, np.zeros(8), coins > 0, coins, np.full(12, 0.5))
    direct_moments(*arguments)
    start = time.perf_counter()
    for _ in range(4):
        direct_moments(*arguments)
    return (time.perf_counter() - start) / (4 * 2**12 * (8 * 8 / 2 + 16) * 0.25)


@lru_cache(maxsize=8)
def split_steps(device: torch.device | None) -> float:
    """Kernel steps that an outcome takes on one level of a list: known for the CPU, measured once for a device."""
    if device is None:
        return SPLIT_STEPS
    size = 2**_PROBE_BITS
    value = torch.linspace(1, -1, size, dtype=torch.float64, device=device)
    rank = torch.arange(size, dtype=torch.int32, device=device)
    outcomes = Outcomes(rank, value, value, value)
    # reading the result waits for it; the first call compiles
    float(dominance_sum(outcomes))
    start = time.perf_counter()
    float(dominance_sum(outcomes))
    return (time.perf_counter() - start) / (size * _PROBE_BITS) / kernel_seconds()
