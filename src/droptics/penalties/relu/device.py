"""Dominance sums on a device: the sums of `sweeps` in operations on whole lists.

A list is padded to a power of two, so that all blocks of a level are of one length and are split together. Each level
streams through the list: O(2^(coins/2) coins) a pair of units.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.penalties.relu import triton_sums
from droptics.penalties.relu.kernels import Index, half_table, kernel_seconds
from droptics.penalties.relu.triton_sums import running

# Blocks so short are summed pair by pair.
_SHORT = 16
# An outcome on one level of a list takes as long as so many steps of the direct sum, on the same CPU.
SPLIT_STEPS = 5.0
_PROBE_BITS = 20


@dataclass(frozen=True, eq=False)
class Outcomes:
    """A list of outcomes: ranks along unit j, values of the units i and j, probabilities (negative for left ones)."""

    rank: Tensor
    first: Tensor
    other: Tensor
    weight: Tensor

    def map(self, change: Callable[[Tensor], Tensor]) -> Outcomes:
        """The same change of every column."""
        return Outcomes(*(change(part) for part in (self.rank, self.first, self.other, self.weight)))


def device_moments(
    columns: Array, base: Array, counts: Index, drop: Array, halves: tuple[Index, Index], device: torch.device
) -> Iterator[tuple[float, Array]]:
    """Mean and second moment of relu(base + columns Z), unit by unit: mean_i and (second_i0, ..., second_ii)."""
    parts = [_table(np.zeros(0), counts, drop, half, 0.0, device)[1] for half in halves]
    padding = padded_size(counts, halves) - sum(map(len, parts))
    weight = torch.cat([-parts[0], parts[1], parts[0].new_zeros(padding)])
    del parts
    ranks: list[Tensor] = []
    values: list[Tensor] = []
    for i, row in enumerate(columns):
        left, right = (
            _table(row, counts, drop, half, start, device)[0]
            for half, start in zip(halves, (float(base[i]), 0.0), strict=True)
        )
        value = torch.cat([left.neg_(), right, right.new_zeros(padding)])
        del left, right
        first, order = value.sort(descending=True)
        rank = torch.empty(len(value), dtype=torch.int32, device=device)
        rank[order] = torch.arange(len(value), dtype=torch.int32, device=device)
        signed = weight[order]
        found = list(_single(first, signed))
        for j in range(i):
            found.append(dominance_sum(Outcomes(ranks[j][order], first, values[j][order], signed)))
        ranks.append(rank)
        values.append(value)
        numbers = torch.stack(found).cpu().numpy()
        yield float(numbers[0]), np.r_[numbers[2:], numbers[1]]


def padded_size(counts: Index, halves: tuple[Index, Index]) -> int:
    """Length of the list: a power of two, so that every block is split in the middle."""
    size = sum(math.prod(int(count) + 1 for count in counts[half]) for half in halves)
    return 1 << max(size - 1, 1).bit_length()


def device_bytes(units: int) -> int:
    """Bytes per outcome of both halves together."""
    return 12 * units + 128


def _table(
    row: Array, counts: Index, drop: Array, chosen: Index, start: float, device: torch.device
) -> tuple[Tensor, Tensor]:
    """Sums of one unit and probabilities of all outcomes of the chosen coins, as in `half_table`."""
    sums = torch.full((1,), start, dtype=torch.float64, device=device)
    chances = torch.ones_like(sums)
    for g in chosen:
        table, odds = half_table(np.zeros((1, 1)), counts[g : g + 1], drop[g : g + 1], np.array([0]), np.zeros(1))
        del table
        if len(row):
            steps = torch.arange(int(counts[g]) + 1, dtype=torch.float64, device=device) / (1 - drop[g]) * row[g]
            sums = (sums + steps[:, None]).flatten()
        else:
            chances = (chances * torch.from_numpy(odds).to(device)[:, None]).flatten()
    return sums, chances


def _single(first: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and second moment of one unit from its sorted outcomes."""
    right = weight.clamp_min(0.0)
    left = weight.clamp_max(0.0).neg()
    none, one, two = (running(part[None])[0] for part in (right, right * first, right * first * first))
    return (left * (one - first * none)).sum(), (left * (two - first * (2 * one - first * none))).sum()


def dominance_sum(outcomes: Outcomes) -> Tensor:
    """Sum of w_a w_b (x_b - x_a) (y_b - y_a) over left a and right b that precede them in list and rank."""
    if outcomes.rank.is_cuda and not triton_sums.missing():
        return triton_sums.dominance_sum(outcomes.rank, outcomes.first, outcomes.other, outcomes.weight)
    total = outcomes.weight.new_zeros(())
    length = len(outcomes.rank)
    while length > _SHORT:
        outcomes = outcomes.map(lambda part, length=length: part.reshape(-1, length))  # type: ignore[misc]
        part, outcomes = _split(outcomes)
        total = total + part
        length //= 2
    return total + _pairs(outcomes.map(lambda part: part.reshape(-1, length)))


def _split(blocks: Outcomes) -> tuple[Tensor, Outcomes]:
    """What right outcomes of the first half and left ones of the second add, and the blocks cut in two."""
    x, y, weight = blocks.first, blocks.other, blocks.weight
    half = x.shape[1] // 2
    early = (blocks.rank & half) == 0
    right = torch.where(early, weight, 0.0).clamp_min(0.0)
    left = torch.where(early, 0.0, weight).clamp_max(0.0).neg()
    none, one, two, both = (running(part) for part in (right, right * x, right * y, right * x * y))
    part = (left * (both - x * two - y * (one - x * none))).sum()
    before = early.int().cumsum(1)
    place = torch.arange(2 * half, device=x.device)
    target = torch.where(early, before - 1, half + place - before)
    return part, blocks.map(lambda column: torch.empty_like(column).scatter_(1, target, column))


def _pairs(blocks: Outcomes) -> Tensor:
    """The sum over all pairs within blocks."""
    x, y = (part[:, None, :] - part[:, :, None] for part in (blocks.first, blocks.other))
    ordered = torch.ones(x.shape[1:], dtype=torch.bool, device=x.device).tril(-1)
    ordered = ordered & (blocks.rank[:, None, :] < blocks.rank[:, :, None])
    right, left = blocks.weight.clamp_min(0.0)[:, None, :], blocks.weight.clamp_max(0.0).neg()[:, :, None]
    return torch.where(ordered, right * left * x * y, 0.0).sum()


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
