"""Moments of the last hidden layer: few outcomes are summed directly, many by sorted half tables."""

from __future__ import annotations

import math
import queue
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.masks.correlations import check_dense
from droptics.penalties.relu import kernels
from droptics.penalties.relu.device import device_bytes, device_moments, padded_size, split_steps
from droptics.penalties.relu.kernels import Index, Layer
from droptics.penalties.relu.outcomes import Advance, Coins, Leaf, Stage, Walk
from droptics.penalties.relu.sweeps import Half, merged_halves, sorted_outcomes, sweep_row

# Up to this many outcomes (log2) visiting them all is faster than sorting.
DIRECT_BITS = 16.0
# Up to this many a CPU is done before a GPU has been told what to do.
DEVICE_BITS = 28.0
# Lists so short are summed by a tree.
_TREE = 1 << 13
# Lists so long are worth a second thread.
_SHARED = 1 << 16
# Of one half table; beyond the memory coins are enumerated outside (2^20 rows of 10 units take 1 GB).
_BYTES_PER_UNIT_AND_ROW, _BYTES_PER_ROW = 64, 344


@dataclass(frozen=True, eq=False)
class MomentLeaf(Leaf):
    """Mean and second moment of the rectified values, flattened: all that squared loss needs of the last layer.

    Values of many outcomes are summed on `device`, if there is one; gradients always by compiled loops on the CPU.
    """

    device: torch.device | None = None

    def block_value(self, values: Tensor, chances: Tensor) -> Tensor:
        hidden = torch.relu(values)
        weighted = hidden * chances[:, None]
        return torch.cat([weighted.sum(0), (weighted.mT @ hidden).flatten()])

    def value(self, walk: Walk, stage: Stage, states: Tensor, chances: Tensor) -> Tensor | None:
        if not isinstance(stage.law, Coins):
            return None
        layer = _layer(stage, stage.law)
        units = len(layer.bias)
        check_dense(units, "use MonteCarlo()")
        bits = outcome_bits(stage, states)
        small = bits <= DIRECT_BITS
        fixed = states.detach().numpy()
        mean, second = np.zeros(units), np.zeros((units, units))
        if small.any():
            mean, second = kernels.direct_moments(fixed[small], chances.numpy()[small], layer)
        for s in np.flatnonzero(~small):
            columns, base, chosen = _single(layer, fixed[s])
            part = Dominance(columns, base, stage.law, chosen, walk, place_of_sum(bits[s], self.device))
            more = part.moments()
            mean += float(chances[s]) * more[0]
            second += float(chances[s]) * more[1]
        walk.advance(float(np.exp2(bits[small]).sum()) * units**2 / 8)
        return torch.from_numpy(np.concatenate([mean, second.ravel()]))

    def gradient(
        self, walk: Walk, stage: Stage, states: Tensor, chances: Tensor, upstream: Tensor, held: tuple[Tensor, Tensor]
    ) -> Tensor | None:
        if not isinstance(stage.law, Coins):
            return None
        layer = _layer(stage, stage.law)
        units = len(layer.bias)
        linear = np.ascontiguousarray(upstream[:units].numpy())
        quadratic = np.ascontiguousarray(upstream[units:].reshape(units, units).numpy())
        small = outcome_bits(stage, states) <= DIRECT_BITS
        fixed = states.detach().numpy()
        total = np.zeros(fixed.shape)
        total[small], weight_gradient, bias_gradient = kernels.direct_gradient(
            fixed[small], chances.numpy()[small], layer, linear, quadratic
        )
        for s in np.flatnonzero(~small):
            columns, base, chosen = _single(layer, fixed[s])
            slopes, offset = Dominance(columns, base, stage.law, chosen, walk).slopes(linear, quadratic)
            slopes *= float(chances[s])
            total[s] = (slopes * layer.weights).sum(0)
            weight_gradient += slopes * fixed[s]
            bias_gradient += float(chances[s]) * offset
        held[0].add_(torch.from_numpy(weight_gradient))
        held[1].add_(torch.from_numpy(bias_gradient))
        return torch.from_numpy(total)


class Dominance:
    """Meet in the middle: moments of relu(base + columns Z) for many coins, by sorted half tables."""

    def __init__(
        self, columns: Array, base: Array, law: Coins, chosen: Index, walk: Walk, device: torch.device | None = None
    ) -> None:
        self.columns, self.base, self.law, self.advance, self.device = columns, base, law, walk.advance, device
        limit = most_rows(len(base), walk.memory, device)
        inner = list(chosen)
        outer: list[int] = []
        while len(inner) > 1 and half_rows(law.counts[inner]) > limit:
            outer.append(inner.pop())
        self.outer = np.array(outer, dtype=np.int64)
        self.halves = kernels.split_coins(law.counts, np.array(inner, dtype=np.int64))

    def _half(self, base: Array, chosen: Index) -> Half:
        """All outcomes of the chosen coins, starting from `base`."""
        sums, chances = kernels.half_table(self.columns, self.law.counts, self.law.drop, chosen, base)
        return Half(*sorted_outcomes(sums, self.law.counts, chosen), chances)

    def _outside(self) -> tuple[Array, Array]:
        """Bases (units, outcomes) and probabilities of the outer coins."""
        return kernels.half_table(self.columns, self.law.counts, self.law.drop, self.outer, self.base)

    def moments(self) -> tuple[Array, Array]:
        """Mean and second moment."""
        units = len(self.base)
        mean, second = np.zeros(units), np.zeros((units, units))
        bases, chances = self._outside()
        right = self._half(np.zeros(units), self.halves[1]) if self.device is None else None
        for base, chance in zip(np.ascontiguousarray(bases.T), chances, strict=True):
            if right is None:
                part = self._remote(base)
            else:
                part = _sweep(self._half(base, self.halves[0]), right, self.advance, None)[:2]
            mean += chance * part[0]
            second += chance * part[1]
        return mean, second

    def _remote(self, base: Array) -> tuple[Array, Array]:
        """Mean and second moment with `base` for the outer coins, summed on the device."""
        assert self.device is not None
        units = len(base)
        mean, second = np.zeros(units), np.zeros((units, units))
        size = padded_size(self.law.counts, self.halves)
        rows = device_moments(self.columns, base, self.law.counts, self.law.drop, self.halves, self.device)
        for i, (mean[i], row) in enumerate(rows):
            second[i, : i + 1] = second[: i + 1, i] = row
            self.advance((i + 1) * sweep_work(size, self.device))
        return mean, second

    def slopes(self, linear: Array, quadratic: Array) -> tuple[Array, Array]:
        """Gradients of <linear, mean> + <quadratic, second> in the columns and in the base."""
        result = np.zeros(self.columns.shape)
        bases, chances = self._outside()
        outer_slopes = np.zeros(bases.shape)
        right = self._half(np.zeros(len(self.base)), self.halves[1])
        for o, chance in enumerate(chances):
            left = self._half(bases[:, o].copy(), self.halves[0])
            weights = (chance * linear, chance * quadratic)
            for pair, half in (((left, right), self.halves[0]), ((right, left), self.halves[1])):
                slopes = _sweep(*pair, self.advance, weights)[2]
                kernels.coin_gradient(slopes, self.law.counts, self.law.drop, half, result)
            outer_slopes[:, o] = slopes.sum(1)
        if len(self.outer):
            kernels.coin_gradient(outer_slopes, self.law.counts, self.law.drop, self.outer, result)
        offset = outer_slopes.sum(1)
        steady = self.law.drop == 0
        steady |= ~(self.columns != 0).any(0)
        result[:, steady] = offset[:, None] * self.law.counts[steady]
        return result, offset


def _sweep(
    left: Half, right: Half, advance: Advance, weights: tuple[Array, Array] | None
) -> tuple[Array, Array, Array]:
    """All single and pair sums of two half tables; slopes per outcome of the left one when weights are given.

    Long rows are shared out to two threads where torch uses as many. Each row is summed by one of them, and the slopes
    are added in a fixed order, so that the number of threads does not change the result.
    """
    units = len(left.sums)
    size = left.sums.shape[1] + right.sums.shape[1]
    tree = size <= _TREE
    merged = merged_halves(left, right, tree)
    wanted = weights is not None
    linear, quadratic = weights if weights is not None else (np.zeros(units), np.zeros((units, units)))
    room: queue.SimpleQueue[tuple[Array, Array]] = queue.SimpleQueue()
    workers = 2 if torch.get_num_threads() > 1 and size >= _SHARED and units > 1 else 1
    for _ in range(workers):
        room.put((np.empty((size, 6 if wanted else 4)), np.empty((size, 6 if wanted else 4))))

    def row(i: int) -> tuple[float, Array, Array]:
        lists = room.get()
        found, gained = np.empty(i + 1), np.zeros((i + 1, left.sums.shape[1]) if wanted else (0, 0))
        average = sweep_row(i, merged, tree, *lists, linear, quadratic, gained, found)
        room.put(lists)
        return average, found, gained

    mean, second = np.zeros(units), np.zeros((units, units))
    slopes = np.zeros(left.sums.shape if wanted else (0, 0))
    # the longest row first, so that the threads end together
    downwards = range(units - 1, -1, -1)
    with ThreadPoolExecutor(workers) as pool:
        rows = pool.map(row, downwards) if workers > 1 else map(row, downwards)  # a pool of one would wait for itself
        for i, (mean[i], found, gained) in zip(downwards, rows, strict=True):
            second[i, : i + 1] = second[: i + 1, i] = found
            slopes[: len(gained)] += gained
            advance((i + 1) * sweep_work(size))
    return mean, second, slopes


def place_of_sum(bits: float, device: torch.device | None) -> torch.device | None:
    """The device, where there are so many outcomes (log2) that it is worth the trouble; None is the CPU."""
    return device if bits > DEVICE_BITS else None


def sweep_work(size: float, device: torch.device | None = None) -> float:
    """Kernel steps of one pair of units, for a list of so many outcomes."""
    return split_steps(device) * size * max(math.log2(size), 1.0)


def outcome_bits(stage: Stage, states: Tensor) -> Array:
    """log2 of the number of outcomes of every state at this stage."""
    assert isinstance(stage.law, Coins)
    alive = ((states != 0) & (stage.weight != 0).any(0)).detach().numpy()
    return np.asarray(alive @ np.log2(stage.law.radix))


def half_rows(counts: Index) -> float:
    """Rows of the larger half table, about."""
    return 2.0 ** (np.log2(counts + 1.0).sum() / 2)


def most_rows(units: int, memory: int, device: torch.device | None = None) -> float:
    """Most rows of a half table within the memory."""
    bytes_per_row = _BYTES_PER_UNIT_AND_ROW * units + _BYTES_PER_ROW
    return max(memory / (bytes_per_row if device is None else 2 * device_bytes(units)), 16.0)


def _layer(stage: Stage, coins: Coins) -> Layer:
    weight, bias = (np.ascontiguousarray(part.detach().numpy()) for part in (stage.weight, stage.bias))
    return Layer(weight, bias, (weight != 0).any(0), coins.counts, coins.drop)


def _single(layer: Layer, state: Array) -> tuple[Array, Array, Index]:
    columns, steady = layer.weights * state, layer.drop == 0
    base = layer.bias + columns[:, steady] @ layer.counts[steady]
    return columns, base, np.flatnonzero((state != 0) & layer.alive & ~steady)
