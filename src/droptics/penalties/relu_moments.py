"""Moments of the last hidden layer: few outcomes are summed directly, many by sorted half tables."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.penalties.relu_kernels import coin_gradient, direct_gradient, direct_moments, half_table, split_coins
from droptics.penalties.relu_outcomes import Advance, Coins, Leaf, Stage, Walk
from droptics.penalties.relu_sweeps import Half, ranks, sorted_outcomes, sweep_row

Array = NDArray[np.float64]
Index = NDArray[np.int64]

# Up to this many outcomes (log2) visiting them all is faster than sorting.
DIRECT_BITS = 16.0
# Rows of one half table; beyond it coins are enumerated outside (2^20 rows of 10 units need some 0.5 GB with ranks).
_BYTES_PER_UNIT_AND_ROW = 56


class MomentLeaf(Leaf):
    """Mean and second moment of the rectified values, flattened: all that squared loss needs of the last layer."""

    def block_value(self, values: Tensor, chances: Tensor) -> Tensor:
        hidden = torch.relu(values)
        weighted = hidden * chances[:, None]
        return torch.cat([weighted.sum(0), (weighted.mT @ hidden).flatten()])

    def value(self, walk: Walk, stage: Stage, states: Tensor, chances: Tensor) -> Tensor:
        if not isinstance(stage.law, Coins):
            return super().value(walk, stage, states, chances)
        weight, bias, alive = _arrays(stage)
        counts, drop = stage.law.counts, stage.law.drop
        bits = outcome_bits(stage, states)
        small = bits <= DIRECT_BITS
        fixed = states.detach().numpy()
        mean, second = direct_moments(fixed[small], chances.numpy()[small], weight, bias, alive, counts, drop)
        for s in np.flatnonzero(~small):
            columns, base, chosen = _single(weight, bias, alive, fixed[s], stage.law)
            part = Dominance(columns, base, stage.law, chosen, walk)
            more = part.moments()
            mean += float(chances[s]) * more[0]
            second += float(chances[s]) * more[1]
        walk.advance(float(np.exp2(bits[small]).sum()) * len(bias) ** 2 / 8)
        return torch.from_numpy(np.concatenate([mean, second.ravel()]))

    def gradient(
        self,
        walk: Walk,
        stage: Stage,
        states: Tensor,
        chances: Tensor,
        upstream: Tensor,
        held: tuple[Tensor, Tensor],
    ) -> Tensor:
        if not isinstance(stage.law, Coins):
            return super().gradient(walk, stage, states, chances, upstream, held)
        weight, bias, alive = _arrays(stage)
        units = len(bias)
        linear = np.ascontiguousarray(upstream[:units].numpy())
        quadratic = np.ascontiguousarray(upstream[units:].reshape(units, units).numpy())
        counts, drop = stage.law.counts, stage.law.drop
        small = outcome_bits(stage, states) <= DIRECT_BITS
        fixed = states.detach().numpy()
        total = np.zeros(fixed.shape)
        total[small], weight_gradient, bias_gradient = direct_gradient(
            fixed[small], chances.numpy()[small], weight, bias, alive, counts, drop, linear, quadratic
        )
        for s in np.flatnonzero(~small):
            columns, base, chosen = _single(weight, bias, alive, fixed[s], stage.law)
            slopes, offset = Dominance(columns, base, stage.law, chosen, walk).slopes(linear, quadratic)
            slopes *= float(chances[s])
            total[s] = (slopes * weight).sum(0)
            weight_gradient += slopes * fixed[s]
            bias_gradient += float(chances[s]) * offset
        held[0].add_(torch.from_numpy(weight_gradient))
        held[1].add_(torch.from_numpy(bias_gradient))
        return torch.from_numpy(total)


class Dominance:
    """Meet in the middle: moments of relu(base + columns Z) for many coins, by sorted half tables."""

    def __init__(
        self,
        columns: Array,
        base: Array,
        law: Coins,
        chosen: Index,
        walk: Walk,
    ) -> None:
        self.columns, self.base, self.law, self.advance = columns, base, law, walk.advance
        limit = table_rows(len(base), walk.memory)
        inner = list(chosen)
        outer: list[int] = []
        while len(inner) > 1 and half_rows(law.counts[inner]) > limit:
            outer.append(inner.pop())
        self.outer = np.array(outer, dtype=np.int64)
        self.halves = split_coins(law.counts, np.array(inner, dtype=np.int64))

    def _half(self, base: Array, chosen: Index) -> Half:
        """All outcomes of the chosen coins, starting from `base`."""
        sums, chances = half_table(self.columns, self.law.counts, self.law.drop, chosen, base)
        return Half(sums, chances, sorted_outcomes(sums, self.law.counts, chosen))

    def moments(self) -> tuple[Array, Array]:
        """Mean and second moment."""
        units = len(self.base)
        mean, second = np.zeros(units), np.zeros((units, units))
        outside = self._half(self.base, self.outer)
        right = self._half(np.zeros(units), self.halves[1])
        for offset, chance in zip(outside.sums.T, outside.chances, strict=True):
            part = _sweep(self._half(offset.copy(), self.halves[0]), right, self.advance, None)
            mean += chance * part[0]
            second += chance * part[1]
        return mean, second

    def slopes(self, linear: Array, quadratic: Array) -> tuple[Array, Array]:
        """Gradients of <linear, mean> + <quadratic, second> in the columns and in the base."""
        result = np.zeros(self.columns.shape)
        outside = self._half(self.base, self.outer)
        outer_slopes = np.zeros(outside.sums.shape)
        right = self._half(np.zeros(len(self.base)), self.halves[1])
        for o, chance in enumerate(outside.chances):
            left = self._half(outside.sums[:, o].copy(), self.halves[0])
            weights = (chance * linear, chance * quadratic)
            for pair, half in (((left, right), self.halves[0]), ((right, left), self.halves[1])):
                slopes = _sweep(*pair, self.advance, weights)[2]
                coin_gradient(slopes, self.law.counts, self.law.drop, half, result)
            outer_slopes[:, o] = slopes.sum(1)
        if len(self.outer):
            coin_gradient(outer_slopes, self.law.counts, self.law.drop, self.outer, result)
        offset = outer_slopes.sum(1)
        steady = self.law.drop == 0
        steady |= ~(self.columns != 0).any(0)
        result[:, steady] = offset[:, None] * self.law.counts[steady]
        return result, offset


def _sweep(
    left: Half, right: Half, advance: Advance, weights: tuple[Array, Array] | None
) -> tuple[Array, Array, Array]:
    """All single and pair sums of two half tables; slopes per outcome of the left one when weights are given."""
    units = len(left.sums)
    rank, cut = ranks(left, right)
    linear, quadratic = (np.zeros(units), np.zeros((units, units))) if weights is None else weights
    slopes = np.zeros((0, 0)) if weights is None else np.zeros(left.sums.shape)
    mean, second = np.zeros(units), np.zeros((units, units))
    tree = np.empty((right.sums.shape[1] + 1, 4))
    for i in range(units):
        sweep_row(i, left, right, rank, cut, tree, linear, quadratic, slopes, mean, second)
        advance((i + 1) * sweep_work(left.sums.shape[1], right.sums.shape[1]))
    return mean, second, slopes


def sweep_work(left: int, right: int) -> float:
    """Steps of one pair of units in a sweep."""
    return (left + right) * max(math.log2(right), 1.0)


def outcome_bits(stage: Stage, states: Tensor) -> Array:
    """log2 of the number of outcomes of every state at this stage."""
    assert isinstance(stage.law, Coins)
    alive = ((states != 0) & (stage.weight != 0).any(0)).detach().numpy()
    return np.asarray(alive @ np.log2(stage.law.radix))


def half_rows(counts: Index) -> float:
    """Rows of the larger half table, about."""
    return 2.0 ** (np.log2(counts + 1.0).sum() / 2)


def table_rows(units: int, memory: int) -> float:
    """Most rows of a half table within the memory."""
    return max(memory / (2 * _BYTES_PER_UNIT_AND_ROW * units + 64), 16.0)


def _arrays(stage: Stage) -> tuple[Array, Array, NDArray[np.bool_]]:
    weight = np.ascontiguousarray(stage.weight.detach().numpy())
    return weight, np.ascontiguousarray(stage.bias.detach().numpy()), (weight != 0).any(0)


def _single(
    weight: Array,
    bias: Array,
    alive: NDArray[np.bool_],
    state: Array,
    law: Coins,
) -> tuple[Array, Array, Index]:
    columns = weight * state
    steady = law.drop == 0
    base = bias + columns[:, steady] @ law.counts[steady]
    return columns, base, np.flatnonzero((state != 0) & alive & ~steady)
