"""Compiled dominance sums: moments of relu(L + R) over all pairs of columns of two tables, without visiting the pairs.

The sum over all pairs with L_i + R_i > 0 and L_j + R_j > 0 is a two-dimensional dominance sum, swept along unit i
with a Fenwick tree over unit j: O(2^(coins/2) coins) a pair of units where `relu_kernels` takes O(2^coins).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]
Index = NDArray[np.int64]


class Half(NamedTuple):
    """The outcomes of half of the coins: sums (units, outcomes), probabilities, and the order of the sums per unit."""

    sums: Array
    chances: Array
    order: Index


@njit(cache=True)
def sorted_outcomes(table: Array, counts: Index, chosen: Index) -> Index:
    """For every unit the order of its column sums.

    A coin without copies repeats the sorted list so far with a shift, so that one merge per coin sorts all; binomial
    counts are left to a general sort.
    """
    units, size = table.shape
    order = np.zeros((units, size), np.int64)
    merged = np.empty(size, np.int64)
    binary = True
    for g in chosen:
        binary = binary and counts[g] == 1
    for i in range(units):
        if not binary:
            order[i] = np.argsort(table[i])
            continue
        filled = 1
        while filled < size:
            first, second = 0, 0
            for place in range(2 * filled):
                take = second == filled
                if not take and first < filled:
                    take = table[i, order[i, first]] <= table[i, order[i, second] + filled]
                if take:
                    merged[place] = order[i, first]
                    first += 1
                else:
                    merged[place] = order[i, second] + filled
                    second += 1
            filled *= 2
            order[i, :filled] = merged[:filled]
    return order


@njit(cache=True)
def ranks(left: Half, right: Half) -> tuple[Index, Index]:
    """For every unit: ranks of the right sums, and how many of them stay <= minus each left sum."""
    units, size = right.sums.shape
    rank = np.empty((units, size), np.int64)
    cut = np.empty(left.sums.shape, np.int64)
    for i in range(units):
        for position in range(size):
            rank[i, right.order[i, position]] = position
        below = size
        for a in left.order[i]:
            while below > 0 and right.sums[i, right.order[i, below - 1]] > -left.sums[i, a]:
                below -= 1
            cut[i, a] = below
    return rank, cut


@njit(cache=True)
def _sweep_single(
    i: int, left: Half, right: Half, cut: Index, linear: Array, quadratic: Array, slopes: Array
) -> tuple[float, float]:
    """Mean and second moment of one unit; adds its slopes when `slopes` is not empty."""
    size = right.sums.shape[1]
    tails = np.zeros((size + 1, 3))
    for position in range(size - 1, -1, -1):
        b = right.order[i, position]
        value, weight = right.sums[i, b], right.chances[b]
        tails[position, 0] = tails[position + 1, 0] + weight
        tails[position, 1] = tails[position + 1, 1] + weight * value
        tails[position, 2] = tails[position + 1, 2] + weight * value * value
    mean, second = 0.0, 0.0
    for a in range(left.sums.shape[1]):
        none, one, two = tails[cut[i, a], 0], tails[cut[i, a], 1], tails[cut[i, a], 2]
        value, weight = left.sums[i, a], left.chances[a]
        mean += weight * (value * none + one)
        second += weight * (value * (value * none + 2.0 * one) + two)
        if slopes.size:
            slopes[i, a] += weight * (linear[i] * none + 2.0 * quadratic[i, i] * (value * none + one))
    return mean, second


@njit(cache=True)
def _sweep_pair(
    i: int,
    j: int,
    left: Half,
    right: Half,
    rank: Index,
    cut: Index,
    tree: Array,
    quadratic: Array,
    slopes: Array,
) -> float:
    """E relu(p_i) relu(p_j) by a sweep over unit i and a Fenwick tree over unit j; adds slopes when wanted."""
    size = right.sums.shape[1]
    tree[:] = 0.0
    pointer = size
    total = 0.0
    factor = quadratic[i, j] + quadratic[j, i] if slopes.size else 0.0
    for a in left.order[i]:
        while pointer > cut[i, a]:
            pointer -= 1
            b = right.order[i, pointer]
            first, other, weight = right.sums[i, b], right.sums[j, b], right.chances[b]
            node = size - rank[j, b]
            while node <= size:
                tree[node, 0] += weight
                tree[node, 1] += weight * first
                tree[node, 2] += weight * other
                tree[node, 3] += weight * first * other
                node += node & -node
        if pointer == size or cut[j, a] == size:
            continue
        none, one, two, both = 0.0, 0.0, 0.0, 0.0
        node = size - cut[j, a]
        while node > 0:
            none += tree[node, 0]
            one += tree[node, 1]
            two += tree[node, 2]
            both += tree[node, 3]
            node -= node & -node
        first, other, weight = left.sums[i, a], left.sums[j, a], left.chances[a]
        total += weight * (first * (other * none + two) + other * one + both)
        if slopes.size:
            slopes[i, a] += factor * weight * (other * none + two)
            slopes[j, a] += factor * weight * (first * none + one)
    return total


@njit(cache=True)
def sweep_row(
    i: int,
    left: Half,
    right: Half,
    rank: Index,
    cut: Index,
    tree: Array,
    linear: Array,
    quadratic: Array,
    slopes: Array,
    mean: Array,
    second: Array,
) -> None:
    """Fill mean[i] and second[i, :i + 1] (and the mirror image); add slopes when `slopes` is not empty."""
    mean[i], second[i, i] = _sweep_single(i, left, right, cut, linear, quadratic, slopes)
    for j in range(i):
        second[i, j] = _sweep_pair(i, j, left, right, rank, cut, tree, quadratic, slopes)
        second[j, i] = second[i, j]
