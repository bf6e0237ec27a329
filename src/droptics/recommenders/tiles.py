"""Rows of ratings: what conjugate gradients and exact solves of a row are made of; compiled.

Ratings are taken NEAR at a time, whose rows of factors are still in the first cache when they are read once more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from droptics.compiling import njit
from droptics.recommenders.passes import FUSED, through
from droptics.recommenders.vectors import (
    BYTES,
    EIGHT,
    TILES,
    add_outer,
    add_outers,
    backward,
    combine,
    dots,
    eliminate,
    eliminate_some,
    factor,
    forward,
    gather,
)  # fmt: skip

# Sums may be re-ordered and fused, so that loops vectorize; NaN and infinity keep their meaning.
FAST = {"reassoc", "nsz", "contract", "arcp"}
# Loops that take memory from nobody: numba would count who refers to what they slice, a quarter of a short row's time.
PLAIN: dict[str, Any] = {"nogil": True, "fastmath": FAST, "_nrt": False}
NEAR = 32  # ratings whose rows are read twice in a row: a first table of 48 pages still knows where they are
LONG = 160  # ratings whose rows are in the first cache still when the next step turns back at the last of them
FLUSH = 512  # ratings whose products are summed in the precision of the table
BLOCK = 128  # ratings brought side by side at a time: 36 KB at width 72, which stay in the first cache


@njit(nogil=True, fastmath=FAST)
def padded(width: int) -> int:
    """The columns that tiles in any precision reach, the last of which may begin eight before the end."""
    return -(-width // EIGHT) * EIGHT + BYTES // 4 - EIGHT


@njit(nogil=True)
def aligned(like: Any, rows: int, columns: int) -> Any:
    """Zeros in rows of whole vectors, none of which lies in two lines of the cache."""
    lanes = BYTES // like.itemsize
    width = -(-columns // lanes) * lanes
    room = np.zeros(rows * width + lanes, like.dtype)
    start = -np.int64(room.ctypes.data) % BYTES // like.itemsize
    return room[start : start + rows * width].reshape(rows, width)


@njit(nogil=True)
def room_of(table: Any, starts: Any) -> tuple[Any, Any, Any, Any]:
    """Where rows of ratings that begin at `starts` are worked on.

    Addresses for the longest of them in whole eights, NEAR to spare before and behind them; a row of zeros; a block of
    ratings side by side, zero beyond the width, and their addresses.
    """
    longest, width = 0, table.shape[1]
    for row in range(len(starts) - 1):
        longest = max(longest, starts[row + 1] - starts[row])
    zeros = np.zeros(width, table.dtype)
    places = np.full(-(-longest // EIGHT) * EIGHT + 2 * NEAR, np.int64(zeros.ctypes.data))[NEAR:]
    near = aligned(table, BLOCK, padded(width))
    beside = np.int64(near.ctypes.data) + near.strides[0] * np.arange(BLOCK + NEAR)
    return places, zeros, near, beside


@njit(**PLAIN)
def locate(table: Any, columns: Any, room: Any) -> None:
    """Write addresses of the rows of `table` named by `columns` to room[0]; those of zeros make the last eight whole.

    They keep nothing alive: table and room have to outlast them.
    """
    places, zeros, _, _ = room
    start, step = np.int64(table.ctypes.data), table.strides[0]
    for m in range(len(columns)):
        places[m] = start + columns[m] * step
    for m in range(len(columns), -(-len(columns) // EIGHT) * EIGHT + NEAR):
        places[m] = zeros.ctypes.data


@njit(**PLAIN)
def subtract(values: Any, offsets: Any, columns: Any, into: Any) -> None:
    """Write values less the offsets of their columns; no offsets at all stand for zeros."""
    for m in range(len(columns)):
        into[m] = values[m] - offsets[np.uint32(columns[m])] if len(offsets) else values[m]


@njit(nogil=True)
def present(offsets: Any) -> Any:
    """Offsets, or none at all where all of them are zero."""
    return offsets if np.any(offsets) else offsets[:0]


@njit(**PLAIN)
def _fused(regressors: Any, places: Any) -> bool:
    """Whether rows are few whole vectors, which `through` takes in one go."""
    lanes = BYTES // regressors.itemsize
    return len(places) > 0 and regressors.shape[1] % lanes == 0 and regressors.shape[1] <= FUSED * lanes


@njit(**PLAIN)
def start(regressors: Any, places: Any, rated: Any, x: Any, t: Any, into: Any, squares: Any) -> float:
    """Add R^T (y - R x) to `into` and diag(R^T R) to `squares` unless it is None; returns |y - R x|^2."""
    total = 0.0
    if _fused(regressors, places):
        if squares is None:
            return through(regressors, (places, 0, len(places)), x, t, rated, (into,), False)
        return through(regressors, (places, 0, len(places)), x, t, rated, (into, squares), False)
    for at in range(0, len(places), NEAR):
        count = min(NEAR, len(places) - at)
        dots(regressors, (places, at, at + count), x, t, None)
        part = t.dtype.type(0)  # so few squares are summed in the precision of the table, a vector at a time
        for m in range(count):
            t[m] = rated[at + m] - t[m]
            part += t[m] * t[m]
        total += part
        if squares is None:
            combine(regressors, (places, at, at + count), t, (into,), NEAR)
        else:
            combine(regressors, (places, at, at + count), t, (into, squares), NEAR)
    return total


@njit(**PLAIN)
def _near(places: Any, done: int, back: bool) -> tuple[int, int]:
    """The next ratings after so many, at most NEAR; from the last to the first if asked, whole but for the last."""
    at = (len(places) - 1) // NEAR * NEAR - done if back else done
    return at, min(at + NEAR, len(places))


@njit(**PLAIN)
def apply(regressors: Any, places: Any, begin: int, p: Any, t: Any, into: Any, back: bool) -> None:
    """Add R^T R p to `into`, without forming the Gram matrix, R the rows of FLUSH ratings after `begin` of them."""
    if _fused(regressors, places):
        whole = -(-len(places) // EIGHT) * EIGHT
        first, end = (max(whole - begin - FLUSH, 0), whole - begin) if back else (begin, min(begin + FLUSH, whole))
        through(regressors, (places, first, end), p, t, None, (into,), back)
        return
    for done in range(begin, min(begin + FLUSH, len(places)), NEAR):
        at, end = _near(places, done, back)
        dots(regressors, (places, at, end), p, t, None)
        if done < LONG:
            combine(regressors, (places, at, end), t, (into,), None)
        else:
            combine(regressors, (places, at, end), t, (into,), -NEAR if back else NEAR)


@njit(**PLAIN)
def square(regressors: Any, places: Any, p: Any, t: Any, back: bool) -> float:
    """|R p|^2."""
    if _fused(regressors, places):
        return through(regressors, (places, 0, len(places)), p, t, None, (), back)
    total = 0.0
    for done in range(0, len(places), NEAR):
        at, end = _near(places, done, back)
        if done < LONG:
            dots(regressors, (places, at, end), p, t, None)
        else:
            dots(regressors, (places, at, end), p, t, -NEAR if back else NEAR)
        part = t.dtype.type(0)
        for m in range(end - at):
            part += t[m] * t[m]
        total += part
    return total


@njit(**PLAIN)
def _together(begin: int, width: int, lanes: int) -> int:
    """Where tiles from `begin` on no longer lie beside others that may be worked on together."""
    return begin + -(-(width - begin) // lanes) // TILES * TILES * lanes


@njit(**PLAIN)
def add_gram(table: Any, places: Any, room: Any, into: Any) -> None:
    """Add the upper triangle of R^T R to `into` (float64, `padded`), R the rows of `table` at `places`.

    Products are summed in the precision of the table, and in float64 after every 128 ratings.
    """
    near, width, lanes = room[2], len(into) - padded(0), BYTES // table.itemsize
    for begin in range(0, len(places), BLOCK):
        count = min(BLOCK, len(places) - begin)
        gather(table, (places, begin, begin + count), near)
        for i in range(0, width, EIGHT):
            end = _together(i, width, lanes)
            for j in range(i, end, TILES * lanes):
                add_outers(near, into, count, i, j)
            for j in range(end, width, lanes):
                add_outer(near, into, count, i, j)


@njit(**PLAIN)
def clear(into: Any) -> None:
    """Make what `add_gram` wrote zero."""
    for k in range(len(into)):
        into[k, k - k % EIGHT :] = 0


@njit(**PLAIN)
def solve_upper(a: Any, x: Any, unit: float, room: Any) -> None:
    """Solve a x = b in place (b in x), a positive semi-definite in float64, upper triangle given and overwritten.

    `a` has `padded` rows, x at most as many, `room` is for as many numbers; `unit` is the rounding of its entries
    where they were summed in float32, otherwise zero. A pivot lost to rounding belongs to a direction that the data
    leave free: its unknown is set to zero, which still solves the (consistent) normal equations. Cost width^3 / 3
    operations.
    """
    width, lanes = -(-len(x) // EIGHT) * EIGHT, BYTES // 8
    right, share = room[:width], max(len(x) * np.finfo(np.float64).eps, unit)
    right[len(x) :] = 0
    for i in range(len(x)):
        right[i] = x[i]
    for top in range(0, width, EIGHT):
        end = top + EIGHT
        factor(a, right, share, top)
        stop = _together(end, width, lanes)
        for j in range(end, stop, TILES * lanes):
            eliminate_some(a, top, j)
        for j in range(stop, width, lanes):
            eliminate(a, top, j)
        forward(a, right, top)
    for top in range(width - EIGHT, -1, -EIGHT):
        backward(a, right, top)
    for i in range(len(x)):
        x[i] = right[i]
