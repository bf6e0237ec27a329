"""Compiled sums over dropout outcomes: moments of relu(base + sum_g Z_g column_g) for independent coins Z_g.

Coin g stands for `count` copies of a unit that fall independently with probability `drop`: Z_g is a binomial count
of survivors divided by 1 - drop. The coins are cut into two halves, every outcome of a half is one column of a table,
and a pre-activation is the sum of one column of each. Here every pair of columns is visited; `sweeps` sorts them.
"""

from __future__ import annotations

import math
import time
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.compiling import njit

Index = NDArray[np.int64]

# Sums may be reordered for vector units; NaN and infinity keep their meaning.
_FAST = {"reassoc", "contract", "nsz"}


class Layer(NamedTuple):
    """A masked layer and the map behind it; of every coin whether it matters, its copies and how often each falls."""

    weights: Array
    bias: Array
    alive: NDArray[np.bool_]
    counts: Index
    drop: Array


@njit()
def _binomial(count: int, drop: float) -> Array:
    """Probabilities of 0, ..., count survivors."""
    result = np.empty(count + 1)
    if count == 1:
        result[0] = drop
        result[1] = 1.0 - drop
        return result
    # ratios of neighbors, outwards from the mode: no logarithms of large factorials, no underflow that matters
    mode = min(int((count + 1) * (1.0 - drop)), count)
    odds = (1.0 - drop) / drop
    result[mode] = 1.0
    for kept in range(mode, count):
        result[kept + 1] = result[kept] * odds * (count - kept) / (kept + 1)
    for kept in range(mode, 0, -1):
        result[kept - 1] = result[kept] / odds * kept / (count - kept + 1)
    return result / result.sum()


@njit()
def half_table(columns: Array, counts: Index, drop: Array, chosen: Index, base: Array) -> tuple[Array, Array]:
    """Sums (units, outcomes) and probabilities of all outcomes of the chosen coins; the first coin varies fastest."""
    size = 1
    for g in chosen:
        size *= counts[g] + 1
    units = columns.shape[0]
    table = np.empty((units, size))
    weights = np.empty(size)
    table[:, 0] = base
    weights[0] = 1.0
    filled = 1
    for g in chosen:
        chances = _binomial(counts[g], drop[g])
        for kept in range(counts[g], -1, -1):
            start = kept * filled
            multiplier = kept / (1.0 - drop[g])
            for i in range(units):
                step = multiplier * columns[i, g]
                for t in range(filled):
                    table[i, start + t] = table[i, t] + step
            for t in range(filled):
                weights[start + t] = weights[t] * chances[kept]
        filled *= counts[g] + 1
    return table, weights


@njit()
def coin_gradient(slopes: Array, counts: Index, drop: Array, chosen: Index, result: Array) -> None:
    """Add to result[:, g] the sum over outcomes of slope times the multiplier of coin g."""
    stride = 1
    for g in chosen:
        radix = counts[g] + 1
        for i in range(slopes.shape[0]):
            total = 0.0
            for t in range(slopes.shape[1]):
                total += slopes[i, t] * ((t // stride) % radix)
            result[i, g] += total / (1.0 - drop[g])
        stride *= radix


@njit()
def split_coins(counts: Index, chosen: Index) -> tuple[Index, Index]:
    """Two halves with nearly equal numbers of outcomes."""
    order = chosen[np.argsort(-counts[chosen], kind="mergesort")]
    first = np.empty(len(order), np.bool_)
    left, right = 0.0, 0.0
    for position, g in enumerate(order):
        first[position] = left <= right
        if first[position]:
            left += math.log(counts[g] + 1.0)
        else:
            right += math.log(counts[g] + 1.0)
    return order[first], order[~first]


@njit(fastmath=_FAST)
def _sum_pairs(
    left: Array, left_weights: Array, right: Array, right_weights: Array, mean: Array, second: Array
) -> None:
    """Add the moments of relu(left[:, a] + right[:, b]) over all pairs of outcomes."""
    units, size = right.shape
    hidden = np.empty((units, size))
    weighted = np.empty(size)
    for a in range(left.shape[1]):
        for i in range(units):
            shift = left[i, a]
            for b in range(size):
                hidden[i, b] = max(right[i, b] + shift, 0.0)
        for i in range(units):
            total = 0.0
            for b in range(size):
                weighted[b] = right_weights[b] * hidden[i, b]
                total += weighted[b]
            if total == 0.0:
                continue
            mean[i] += left_weights[a] * total
            for j in range(i + 1):
                total = 0.0
                for b in range(size):
                    total += weighted[b] * hidden[j, b]
                second[i, j] += left_weights[a] * total


@njit(fastmath=_FAST)
def _slope_pairs(
    left: Array,
    left_weights: Array,
    right: Array,
    right_weights: Array,
    linear: Array,
    quadratic: Array,
    left_slopes: Array,
    right_slopes: Array,
) -> None:
    """Derivatives of <linear, mean> + <quadratic, second> in the pre-activations, summed over the other half."""
    units, size = right.shape
    hidden = np.empty((units, size))
    slope = np.empty(size)
    for a in range(left.shape[1]):
        for i in range(units):
            shift = left[i, a]
            for b in range(size):
                hidden[i, b] = max(right[i, b] + shift, 0.0)
        for i in range(units):
            for b in range(size):
                slope[b] = linear[i]
            for j in range(units):
                factor = quadratic[i, j] + quadratic[j, i]
                for b in range(size):
                    slope[b] += factor * hidden[j, b]
            total = 0.0
            for b in range(size):
                value = slope[b] * right_weights[b] * left_weights[a] if hidden[i, b] > 0.0 else 0.0
                right_slopes[i, b] += value
                total += value
            left_slopes[i, a] += total


@njit()
def _half_tables(layer: Layer, state: Array, chance: float) -> tuple[Index, Array, Array, Index, Array, Array]:
    """Coins, sums and probabilities of both halves; the left has the bias, the units that never fall and the chance."""
    active, size = np.empty(len(state), np.int64), 0
    columns, base = layer.weights * state, layer.bias.copy()
    for g in range(len(state)):
        if layer.drop[g] == 0.0 and state[g] != 0.0:
            base += layer.counts[g] * columns[:, g]
        elif state[g] != 0.0 and layer.alive[g]:
            active[size] = g
            size += 1
    left, right = split_coins(layer.counts, active[:size])
    left_table, left_weights = half_table(columns, layer.counts, layer.drop, left, base)
    right_table, right_weights = half_table(columns, layer.counts, layer.drop, right, np.zeros(len(base)))
    return left, left_table, left_weights * chance, right, right_table, right_weights


@njit()
def direct_moments(states: Array, chances: Array, layer: Layer) -> tuple[Array, Array]:
    """Mean and second moment of relu(weights (Z o state) + bias) over coins and states, every outcome visited."""
    units = len(layer.bias)
    mean, second = np.zeros(units), np.zeros((units, units))
    for s in range(states.shape[0]):
        _, left_table, left_weights, _, right_table, right_weights = _half_tables(layer, states[s], chances[s])
        _sum_pairs(left_table, left_weights, right_table, right_weights, mean, second)
    for i in range(units):
        for j in range(i):
            second[j, i] = second[i, j]
    return mean, second


@njit()
def direct_gradient(
    states: Array, chances: Array, layer: Layer, linear: Array, quadratic: Array
) -> tuple[Array, Array, Array]:
    """Gradients of <linear, mean> + <quadratic, second> in states, weights and bias; every outcome visited."""
    weights, counts, drop = layer.weights, layer.counts, layer.drop
    state_gradient, weight_gradient = np.zeros(states.shape), np.zeros(weights.shape)
    bias_gradient = np.zeros(len(layer.bias))
    for s in range(states.shape[0]):
        left, left_table, left_weights, right, right_table, right_weights = _half_tables(layer, states[s], chances[s])
        left_slopes, right_slopes = np.zeros(left_table.shape), np.zeros(right_table.shape)
        _slope_pairs(left_table, left_weights, right_table, right_weights, linear, quadratic, left_slopes, right_slopes)
        gradient = np.zeros(weights.shape)
        coin_gradient(left_slopes, counts, drop, left, gradient)
        coin_gradient(right_slopes, counts, drop, right, gradient)
        total = left_slopes.sum(axis=1)
        for g in range(len(drop)):
            if drop[g] == 0.0 or not layer.alive[g]:
                gradient[:, g] = counts[g] * total
            state_gradient[s, g] = (gradient[:, g] * weights[:, g]).sum()
        bias_gradient += total
        weight_gradient += gradient * states[s]
    return state_gradient, weight_gradient, bias_gradient


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
