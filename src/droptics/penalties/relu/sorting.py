"""Compiled sorting of dropout outcomes: all outcomes of half of the coins per unit, and both halves in one list."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.compiling import njit

Index = NDArray[np.int64]
Short = NDArray[np.int32]


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
    binary = True
    for g in chosen:
        binary = binary and counts[g] == 1
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
            take = b < 0 or (a < many and -left.sums[i, a] >= right.sums[i, b])
            if take:
                value, outcome = -left.sums[i, a], left.order[i, a]
                a += 1
            else:
                value, outcome = right.sums[i, b], right.order[i, b] + many
                b -= 1
            order[i, place] = outcome
            spots[i, outcome, 0] = value
            ranks[i, outcome, 1] = before if tree else place
    return Merged(spots, weights, order, more)
