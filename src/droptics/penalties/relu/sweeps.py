"""Compiled dominance sums: moments of relu(L + R) over all pairs of columns of two tables, without visiting the pairs.

The outcomes of both tables stand in one list, the left ones with their sums negated: a pair counts where its right
outcome comes first in unit i and in unit j. The list is sorted along unit i and split by the bits of its ranks along
unit j, highest bit first: where right outcomes of the first half of a block precede left ones of the second, running
sums give what they add. Every level reads and writes the list in order, without a table to jump about in, and blocks
that fit into the cache are finished there: O(2^(coins/2) coins) a pair of units where `kernels` takes O(2^coins).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.compiling import njit
from droptics.penalties.relu.kernels import Index

Short = NDArray[np.int32]

# Blocks so long fit into the second-level cache, twice; blocks so short are summed pair by pair.
_CACHED, _SHORT = 1 << 13, 64
# Products and sums may be fused; in short blocks sums may be reordered as well, for vector units.
_FUSED = {"contract"}
_FREE = {"contract", "reassoc", "nsz"}


class Half(NamedTuple):
    """The outcomes of half of the coins: sorted sums per unit (units, outcomes), whose they are, and probabilities."""

    sums: Array
    order: Short
    chances: Array


class Merged(NamedTuple):
    """Both halves in one list, which runs downwards."""

    # values (-L, R) of every outcome and their places, beside each other, per unit (units, outcomes, 2). A place
    # is the rank or, for a tree, the number of right outcomes before it
    spots: Array
    weights: Array  # probabilities, negative for left outcomes, which come first
    order: Short  # the outcomes in falling order, per unit (units, outcomes)
    right: int  # how many of them are right ones


@njit(nogil=True)
def sorted_outcomes(table: Array, counts: Index, chosen: Index) -> tuple[Array, Short]:
    """For every unit its column sums in rising order, and their order.

    A coin without copies repeats the sorted list so far with a shift, so that one merge per coin sorts all; binomial
    counts are left to a general sort.
    """
    units, size = table.shape
    order, sums = np.zeros((units, size), np.int32), np.empty((units, size))
    other, merged = np.empty(size, np.int32), np.empty(size)
    binary = np.all(counts[chosen] == 1)
    for i in range(units):
        if not binary:
            order[i] = np.argsort(table[i]).astype(np.int32)
            sums[i] = table[i][order[i]]
            continue
        sums[i, 0] = table[i, 0]
        filled = 1
        while filled < size:
            first, second = 0, 0
            for place in range(2 * filled):
                take = second == filled
                if not take:
                    shifted = table[i, order[i, second] + filled]
                    take = first < filled and sums[i, first] <= shifted
                if take:
                    merged[place] = sums[i, first]
                    other[place] = order[i, first]
                    first += 1
                else:
                    merged[place] = shifted
                    other[place] = order[i, second] + filled
                    second += 1
            filled *= 2
            sums[i, :filled] = merged[:filled]
            order[i, :filled] = other[:filled]
    return sums, order


@njit(nogil=True)
def merged_halves(left: Half, right: Half, tree: bool) -> Merged:
    """One list of both halves, sorted downwards along every unit."""
    units, many = left.sums.shape
    more = right.sums.shape[1]
    size = many + more
    spots = np.empty((units, size, 2))
    order = np.empty((units, size), np.int32)
    weights = np.empty(size)
    weights[:many] = -left.chances
    weights[many:] = right.chances
    ranks = spots.view(np.int64)
    for i in range(units):
        # minus the left sums fall where the sums rise
        a, b = 0, more - 1
        for place in range(size):
            before = more - 1 - b
            if b < 0 or (a < many and -left.sums[i, a] >= right.sums[i, b]):
                value, outcome = -left.sums[i, a], left.order[i, a]
                a += 1
            else:
                value, outcome = right.sums[i, b], right.order[i, b] + many
                b -= 1
            order[i, place] = outcome
            spots[i, outcome, 0] = value
            ranks[i, outcome, 1] = before if tree else place
    return Merged(spots, weights, order, more)


@njit(nogil=True)
def _lead(i: int, merged: Merged) -> Array:
    """Values and weights in the order of unit i (outcomes, 2), gathered once for all its pairs."""
    size = merged.weights.shape[0]
    lead = np.empty((size, 2))
    for t in range(size):
        outcome = merged.order[i, t]
        lead[t, 0] = merged.spots[i, outcome, 0]
        lead[t, 1] = merged.weights[outcome]
    return lead


@njit(nogil=True)
def _single(i: int, order: Short, lead: Array, linear: float, quadratic: float, slopes: Array) -> tuple[float, float]:
    """Mean and second moment of one unit; adds its slopes when `slopes` is not empty."""
    none, one, two = 0.0, 0.0, 0.0
    mean, second = 0.0, 0.0
    for t in range(lead.shape[0]):
        value, weight = lead[t, 0], lead[t, 1]
        if weight > 0.0:
            none += weight
            one += weight * value
            two += weight * value * value
        # so rare that the probability is zero: neither adds anything
        if not weight < 0.0:
            continue
        mean -= weight * (one - value * none)
        second -= weight * (two - value * (2.0 * one - value * none))
        if slopes.size:
            slopes[i, order[t]] -= weight * (linear * none + 2.0 * quadratic * (one - value * none))
    return mean, second


def _splitter(with_slopes: bool) -> Callable[[int, int, int, Array, Index, Array, Index], float]:
    """Compiled without the slopes, or with them: entries 4 and 5 of left outcomes gain the derivatives in the values.

    The loop asks nothing of its lists but numbers: a test of their width for every outcome would cost time.
    """

    @njit(nogil=True, fastmath=_FUSED)
    def split(begin: int, end: int, half: int, source: Array, from_rank: Index, target: Array, to_rank: Index) -> float:
        """Cut a block in two by rank; returns what right outcomes of the first half and left ones of the second add."""
        none, one, two, both = 0.0, 0.0, 0.0, 0.0
        total = 0.0
        # unsigned, because a sign would be tested before every access
        unit, zero = np.uint64(1), np.uint64(0)
        low, high = np.uint64(begin), np.uint64(begin + half)
        bit = np.int64(half)
        for t in range(np.uint64(begin), np.uint64(end)):
            x, y, weight, rank = source[t, 0], source[t, 1], source[t, 2], from_rank[t, 3]
            early = (rank & bit) == 0
            to = low if early else high
            low += unit if early else zero
            high += zero if early else unit
            target[to, 0] = x
            target[to, 1] = y
            target[to, 2] = weight
            to_rank[to, 3] = rank
            right = weight if early & (weight > 0.0) else 0.0
            left = weight if (not early) & (weight < 0.0) else 0.0
            none += right
            one += right * x
            two += right * y
            both += right * x * y
            total -= left * (both - x * two - y * (one - x * none))
            if with_slopes:
                target[to, 4] = source[t, 4] - left * (two - y * none)
                target[to, 5] = source[t, 5] - left * (one - x * none)
        return total

    return split


_split, _split_slopes = _splitter(False), _splitter(True)


@njit(nogil=True, fastmath=_FREE)
def _pairs(begin: int, end: int, source: Array, room: Array, spots: Index) -> float:
    """The sum over all pairs of a short block, with slopes where there is room for them.

    Right and left outcomes are taken apart first, so that the loop over pairs has no branches. `spots` (2, short)
    says where left outcomes stood and how many right ones precede them.
    """
    many, few = 0, 0
    for t in range(np.uint64(begin), np.uint64(end)):
        x, y, weight = source[t, 0], source[t, 1], source[t, 2]
        room[0, many], room[1, many], room[2, many] = x, y, weight
        room[3, few], room[4, few], room[5, few] = x, y, weight
        spots[0, few], spots[1, few] = t, many
        many += 1 if weight > 0.0 else 0
        few += 1 if weight < 0.0 else 0
    # loops of whole vectors: what follows has smaller x or no weight
    room[:3, many : many + 3] = 0.0
    total = 0.0
    for q in range(few):
        x, y, weight = room[3, q], room[4, q], room[5, q]
        stop = (spots[1, q] + 3) & -4
        both, one, two = 0.0, 0.0, 0.0
        for k in range(stop):
            across, along = room[0, k] - x, room[1, k] - y
            across = across if across > 0.0 else 0.0
            along = along if along > 0.0 else 0.0
            both += room[2, k] * (across * along)
        total -= weight * both
        if source.shape[1] > 4:
            for k in range(stop):
                right = room[2, k] if (room[0, k] > x) & (room[1, k] > y) else 0.0
                one += right * (room[0, k] - x)
                two += right * (room[1, k] - y)
            source[spots[0, q], 4] -= weight * two
            source[spots[0, q], 5] -= weight * one
    return total


@njit(nogil=True)
def _levels(start: int, stop: int, length: int, last: int, source: Array, target: Array) -> tuple[float, Array, Array]:
    """Split blocks of `length` until they are no longer than `last`; also returns (where they are, the spare list)."""
    total = 0.0
    from_rank, to_rank = source.view(np.int64), target.view(np.int64)
    while length > last:
        half = length // 2
        for begin in range(start, stop, length):
            end = min(begin + length, stop)
            if source.shape[1] > 4:
                total += _split_slopes(begin, end, half, source, from_rank, target, to_rank)
            else:
                total += _split(begin, end, half, source, from_rank, target, to_rank)
        source, target = target, source
        from_rank, to_rank = to_rank, from_rank
        length = half
    return total, source, target


@njit(nogil=True)
def _sweep_pair(
    i: int, j: int, merged: Merged, lead: Array, source: Array, target: Array, factor: float, slopes: Array
) -> float:
    """E relu(p_i) relu(p_j); adds slopes of `factor` times it when `slopes` is not empty."""
    size = merged.weights.shape[0]
    order, others = merged.order[i], merged.spots[j]
    ranks, places = source.view(np.int64), others.view(np.int64)
    for t in range(size):
        source[t, 0], source[t, 2] = lead[t, 0], lead[t, 1]
        source[t, 1], ranks[t, 3] = others[order[t], 0], places[order[t], 1]
        source[t, 4:] = 0.0
    length = 1
    while length < size:
        length *= 2
    room, spots = np.empty((6, _SHORT + 4)), np.empty((2, _SHORT + 4), np.int64)
    total, source, target = _levels(0, size, length, _CACHED, source, target)
    length = min(length, _CACHED)
    for start in range(0, size, length):
        stop = min(start + length, size)
        part, block, _ = _levels(start, stop, length, _SHORT, source, target)
        total += part
        for begin in range(start, stop, _SHORT):
            total += _pairs(begin, min(begin + _SHORT, stop), block, room, spots)
        if slopes.size:
            final = block.view(np.int64)
            for t in range(start, stop):
                if block[t, 2] < 0.0:
                    outcome = merged.order[j, final[t, 3]]
                    slopes[i, outcome] += factor * block[t, 4]
                    slopes[j, outcome] += factor * block[t, 5]
    return total


@njit(nogil=True)
def _tree_pair(i: int, j: int, merged: Merged, lead: Array, tree: Array, factor: float, slopes: Array) -> float:
    """The same by a Fenwick tree over the right outcomes along unit j, filled in the order of unit i."""
    order, others = merged.order[i], merged.spots[j]
    places = others.view(np.int64)
    size = merged.right
    tree[: size + 1] = 0.0
    total = 0.0
    for t in range(lead.shape[0]):
        x, weight, y, node = lead[t, 0], lead[t, 1], others[order[t], 0], places[order[t], 1]
        if weight > 0.0:
            node += 1
            while node <= size:
                tree[node, 0] += weight
                tree[node, 1] += weight * x
                tree[node, 2] += weight * y
                tree[node, 3] += weight * x * y
                node += node & -node
        if not weight < 0.0:
            continue
        none, one, two, both = 0.0, 0.0, 0.0, 0.0
        while node > 0:
            none += tree[node, 0]
            one += tree[node, 1]
            two += tree[node, 2]
            both += tree[node, 3]
            node -= node & -node
        total -= weight * (both - x * two - y * (one - x * none))
        if slopes.size:
            slopes[i, order[t]] -= factor * weight * (two - y * none)
            slopes[j, order[t]] -= factor * weight * (one - x * none)
    return total


@njit(nogil=True)
def sweep_row(
    i: int,
    merged: Merged,
    tree: bool,
    source: Array,
    target: Array,
    linear: Array,
    quadratic: Array,
    slopes: Array,
    found: Array,
) -> float:
    """Fill found with E relu(p_i) relu(p_j) for j <= i and return E relu(p_i).

    Short lists are best summed by a `tree`, which stays in the cache; `merged` must have been made for it.
    `source` and `target` are room for the list, (outcomes, 4); with `slopes` (units, left outcomes), to which the
    derivatives of linear_i E relu(p_i) + sum_j <= i (q_ij + q_ji) E relu(p_i) relu(p_j) are added (once for j = i),
    they are (outcomes, 6).
    """
    lead = _lead(i, merged)
    for j in range(i):
        factor = quadratic[i, j] + quadratic[j, i]
        if tree:
            found[j] = _tree_pair(i, j, merged, lead, target, factor, slopes)
        else:
            found[j] = _sweep_pair(i, j, merged, lead, source, target, factor, slopes)
    mean, found[i] = _single(i, merged.order[i], lead, linear[i], quadratic[i, i], slopes)
    return mean
