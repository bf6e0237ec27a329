"""Independent units with one rate on small problems: equalized factors and their criterion in two compiled loops.

The steps are those of `decomposition.shrunk_svd`, `OneRate.spread_arrays` and the criterion of factors, whose dozens of
small calls take as long as the arithmetic: one loop before the eigenvectors and one behind them.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import local
from typing import Any, NamedTuple

import numpy as np

from droptics.arrays import Array
from droptics.compiling import njit
from droptics.linalg.form_tiles import lower_gram
from droptics.linalg.leading import leading_eigen
from droptics.linalg.rotations import _chain
from droptics.linalg.shrinkage import threshold
from droptics.linalg.tridiagonal import BLOCKED, room_of
from droptics.spectra.decomposition import GRAM_SHARE
from droptics.spectra.roots import EPS

# Sums may be reassociated so that they vectorize; nothing else of the arithmetic is relaxed.
_FAST = {"reassoc", "contract"}
# Up to so many numbers a matrix stays in the cache while tiles of its Gram matrix are summed up.
_CACHED = 2**15
# What the last small problem of a thread used: others of its shape follow in loops.
_KEPT = local()


class Leading(NamedTuple):
    """The best factors U, H of a target T (a, q) for units of one rate.

    Attributes:
        U: (a, width).
        H: (q, width).
        rank: Of their product.
        least: The least of ||T - U H^T||^2 + penalty, from the spectrum.
        value: The same of these factors themselves, where that was asked for.
        energy: ||T||^2.
    """

    U: Array
    H: Array
    rank: int
    least: float
    value: float
    energy: float


class Room:
    """Arrays that targets of one shape (a, q) can use one after the other; their factors stay in `left` and `right`."""

    def __init__(self, shape: Sequence[int], width: int, count: int = 1, judged: bool = True) -> None:
        self.judged = judged
        short, long = sorted(shape)
        self.left, self.right = (np.empty((count, width, size)) for size in shape)
        if short * long > _CACHED:
            self.columns, self.images, self.parts, self.gram = _arrays(short, long, width)
            return
        if getattr(_KEPT, "shape", None) != (short, long, width):
            _KEPT.arrays, _KEPT.shape = _arrays(short, long, width), (short, long, width)
        self.columns, self.images, self.parts, self.gram = _KEPT.arrays


def _arrays(short: int, long: int, width: int) -> tuple[Array, Array, Any, Array | None]:
    """For the columns of both factors, images of vectors, `leading_eigen` and a Gram matrix."""
    parts = room_of(short) if short < BLOCKED else None
    gram = np.empty((short, short)) if 8 <= short <= _CACHED / long else None
    return np.empty((width, short + long)), np.empty((min(short, width), long)), parts, gram


def leading_factors(target: Array, rate: float, room: Room, place: int = 0) -> Leading | None:
    """Of a float64 matrix; None where it has no finite squared norm, or kept values so small that a Gram matrix errs.

    Cost: a Gram matrix, `leading_eigen` and two products with `width` columns. Claim: mianjy2018-thm3.6.
    """
    flip = target.shape[0] < target.shape[1]
    tall = np.ascontiguousarray(target.T if flip else target)
    energy = _energy(tall, room.gram)
    if not energy < np.inf:
        return None
    gram = tall.T @ tall if room.gram is None else room.gram  # NumPy's is half the work, too, in large blocks
    squares, vectors = leading_eigen(gram, len(room.images), room.parts)
    left, right = room.left[place], room.right[place]
    parts = (room.columns, room.images, *((right, left) if flip else (left, right)))
    rank, least = _fill(tall, squares, np.ascontiguousarray(vectors.T), rate, flip, parts)
    value = _criterion(tall, *parts[2:], rate) if room.judged and rank >= 0 else np.nan
    return None if rank < 0 else Leading(left.T, right.T, rank, energy + least, energy + value, energy)


@njit(fastmath=_FAST)
def _energy(tall: Array, gram: Array | None) -> float:
    """The sum of all squares, added up row by row; fills the lower triangle of tall^T tall where it is asked for."""
    if gram is not None:
        lower_gram(tall, gram)
    energy = 0.0
    for i in range(tall.shape[0]):
        row = 0.0
        for c in range(tall.shape[1]):
            row += tall[i, c] * tall[i, c]
        energy += row
    return energy


@njit(fastmath=_FAST)
def _fill(
    tall: Array, squares: Array, vectors: Array, rate: float, flip: bool, parts: tuple[Array, Array, Array, Array]
) -> tuple[int, float]:  # pragma: no cover
    """Fill the factors on the longer and on the shorter side, as rows; U is the shorter one where `flip`.

    Returns the rank, -1 where it is refused, and by how much the least value differs from the energy.
    """
    columns, images, longer, shorter = parts
    width, long, short = longer.shape[0], longer.shape[1], shorter.shape[1]
    values = np.sqrt(np.maximum(squares, 0.0))
    rank, level = threshold(values, rate, width)
    total, gain = 0.0, 0.0
    for i in range(rank):
        total += values[i] - level
    # what is left of values at rounding level is no direction
    while rank > 0 and not values[rank - 1] - level > values.shape[0] * EPS * values[0]:
        rank -= 1
    if rank > 0 and not values[rank - 1] >= GRAM_SHARE * values[0]:
        return -1, 0.0
    columns[rank:] = 0.0
    np.dot(vectors, tall.T, images)
    start, other = (short, 0) if flip else (0, long)
    for k in range(rank):
        norm, kept = 0.0, values[k] - level
        for i in range(long):
            norm += images[k, i] * images[k, i]
        root = np.sqrt(kept)
        share = root / np.sqrt(norm)
        for i in range(long):
            columns[k, start + i] = share * images[k, i]
        for i in range(short):
            columns[k, other + i] = root * vectors[k, i]
        gain += kept * (2.0 * values[k] - kept)
    if not _chain(columns, short if flip else long):
        return -1, 0.0
    longer[:], shorter[:] = columns[:, start : start + long], columns[:, other : other + short]
    return rank, rate / width * total * total - gain


@njit(fastmath=_FAST)
def _criterion(tall: Array, longer: Array, shorter: Array, rate: float) -> float:
    """By how much the criterion of factors, as rows, differs from the energy."""
    products, moved = np.dot(longer, longer.T) * np.dot(shorter, shorter.T), np.dot(shorter, tall.T)
    inner, trace, total = 0.0, 0.0, 0.0
    for k in range(longer.shape[0]):  # row by row, so that rounding does not grow with the number of pairs
        trace += products[k, k]
        row = 0.0
        for j in range(longer.shape[0]):
            row += products[k, j]
        total += row
        for i in range(longer.shape[1]):
            inner += longer[k, i] * moved[k, i]
    return total + rate * trace - 2.0 * inner
