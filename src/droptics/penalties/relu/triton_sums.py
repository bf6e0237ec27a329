"""Splitting of sorted lists on a GPU: two bits of the ranks per pass, the last levels within one program.

Triton is loaded when a kernel is first launched; `missing()` says why it cannot be. The functions that are compiled
refer to `tl`, which is set then. Their twin in plain torch is `relu_device`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from droptics.gpu.triton import load_triton, missing

__all__ = ["dominance_sum", "missing", "running", "tile_of"]

tl: Any = None
_add: Any = None
_add_blocks: Any = None

# Most outcomes of a program, blocks summed pair by pair, warps: few, so that programs hide each other's barriers.
TILE, SHORT, WARPS = 512, 8, 4
# Running sums of long rows are those of pieces of this length, joined.
_PIECE = 1024


@cache
def _compiled() -> tuple[Any, ...]:
    global _add, _add_blocks  # the compiled functions find them among their globals
    triton = load_triton(globals(), "the sum over a list on a GPU")
    _add, _add_blocks = triton.jit(_joined), triton.jit(_joined_blocks)
    free = ["shift", "tiles"]
    return (triton.jit(_tally, do_not_specialize=free), triton.jit(_split, do_not_specialize=free), triton.jit(_finish))


def running(values: Tensor) -> Tensor:
    """Running sums along rows; long rows in pieces, because few long rows would keep few processors busy."""
    rows, length = values.shape
    if length <= _PIECE:
        return values.cumsum(1)
    inner = values.reshape(rows, -1, _PIECE).cumsum(2)
    before = torch.nn.functional.pad(running(inner[:, :, -1])[:, :-1], (1, 0))
    return (inner + before[:, :, None]).reshape(rows, length)


def dominance_sum(rank: Tensor, first: Tensor, other: Tensor, weight: Tensor) -> Tensor:
    """Sum of w_a w_b (x_b - x_a) (y_b - y_a) over left a and right b that precede them in list and rank.

    The length is a power of two; `weight` is negative for left outcomes. The list itself is left as it is.
    """
    tally, split, finish = _compiled()
    length = size = len(rank)
    tile = tile_of(size)
    tiles = size // tile
    lists = [rank, first, other, weight]
    spare = [[torch.empty_like(part) for part in lists] for _ in range(2)]
    sums = weight.new_empty(15, tiles)
    total = weight.new_zeros(tiles)
    turn = 0
    while length > tile:
        shift = length.bit_length() - 3
        tally[(tiles,)](*lists, sums, shift, tiles, TILE=tile, num_warps=WARPS)
        before = running(sums.view(-1, length // tile)).view(15, tiles) - sums
        split[(tiles,)](*lists, *spare[turn], before, total, shift, tiles, TILE=tile, num_warps=WARPS)
        lists, turn = spare[turn], 1 - turn
        length //= 4
    levels = max(0, (tile // SHORT).bit_length() - 1)
    finish[(tiles,)](
        *lists, *spare[turn], *spare[1 - turn], total,
        TILE=tile, SHORT=min(SHORT, tile), LEVELS=levels, num_warps=WARPS,
    )  # fmt: skip
    return total.sum()


def tile_of(size: int) -> int:
    """Outcomes of one program: such that passes of two bits lead from the list to them."""
    odd = max(0, size.bit_length() - TILE.bit_length()) % 2
    return min(TILE >> odd, size)


def _joined(  # type: ignore[no-untyped-def]  # parameters: Triton takes no structs, see gpu/triton.py
    c, n1, x1, y1, b1, n2, x2, y2, b2, n3, x3, y3, b3, c_, n1_, x1_, y1_, b1_, n2_, x2_, y2_, b2_, n3_, x3_, y3_, b3_
):
    """Running sums of two stretches: packed counts, and sums of 1, x, y, x y over three sets of right outcomes."""
    return (
        c + c_,
        n1 + n1_, x1 + x1_, y1 + y1_, b1 + b1_,
        n2 + n2_, x2 + x2_, y2 + y2_, b2 + b2_,
        n3 + n3_, x3 + x3_, y3 + y3_, b3 + b3_,
    )  # fmt: skip


def _joined_blocks(  # type: ignore[no-untyped-def]
    start, count, none, one, two, both, start_, count_, none_, one_, two_, both_
):
    """Running sums of two stretches that begin anew where a block starts."""
    return (
        start | start_,
        tl.where(start_ != 0, count_, count + count_),
        tl.where(start_ != 0, none_, none + none_),
        tl.where(start_ != 0, one_, one + one_),
        tl.where(start_ != 0, two_, two + two_),
        tl.where(start_ != 0, both_, both + both_),
    )


def _tally(  # type: ignore[no-untyped-def]
    rank_at, first_at, other_at, weight_at, sums_at, shift, tiles, TILE: tl.constexpr
):
    """Per tile and e = 1, 2, 3: how many outcomes fall into the first e quarters, and sums over the right ones."""
    tile = tl.program_id(0)
    at = tile.to(tl.int64) * TILE + tl.arange(0, TILE)
    digit = (tl.load(rank_at + at) >> shift) & 3
    right = tl.maximum(tl.load(weight_at + at), 0.0)
    x, y = tl.load(first_at + at), tl.load(other_at + at)
    w1 = tl.where(digit < 1, right, 0.0)
    w2 = tl.where(digit < 2, right, 0.0)
    w3 = tl.where(digit < 3, right, 0.0)
    packed = (digit < 1).to(tl.int64) + ((digit < 2).to(tl.int64) << 20) + ((digit < 3).to(tl.int64) << 40)
    counts, n1, x1, y1, b1, n2, x2, y2, b2, n3, x3, y3, b3 = tl.reduce(
        (packed, w1, w1 * x, w1 * y, w1 * x * y, w2, w2 * x, w2 * y, w2 * x * y, w3, w3 * x, w3 * y, w3 * x * y),
        0,
        _add,
    )
    one, two, three = sums_at + tile, sums_at + 5 * tiles + tile, sums_at + 10 * tiles + tile
    tl.store(one, (counts & 0xFFFFF).to(tl.float64))
    tl.store(one + tiles, n1)
    tl.store(one + 2 * tiles, x1)
    tl.store(one + 3 * tiles, y1)
    tl.store(one + 4 * tiles, b1)
    tl.store(two, ((counts >> 20) & 0xFFFFF).to(tl.float64))
    tl.store(two + tiles, n2)
    tl.store(two + 2 * tiles, x2)
    tl.store(two + 3 * tiles, y2)
    tl.store(two + 4 * tiles, b2)
    tl.store(three, (counts >> 40).to(tl.float64))
    tl.store(three + tiles, n3)
    tl.store(three + 2 * tiles, x3)
    tl.store(three + 3 * tiles, y3)
    tl.store(three + 4 * tiles, b3)


def _split(  # type: ignore[no-untyped-def]
    rank_at, first_at, other_at, weight_at, rank_to, first_to, other_to, weight_to, before_at, total_at,
    shift, tiles, TILE: tl.constexpr,
):  # fmt: skip
    """One tile: what left outcomes gain from right ones in earlier quarters, and every outcome to its quarter."""
    tile = tl.program_id(0)
    begin = tile.to(tl.int64) * TILE
    at = begin + tl.arange(0, TILE)
    block = begin >> (shift + 2) << (shift + 2)
    rank = tl.load(rank_at + at)
    weight = tl.load(weight_at + at)
    x, y = tl.load(first_at + at), tl.load(other_at + at)
    digit = (rank >> shift) & 3
    right = tl.maximum(weight, 0.0)
    w1 = tl.where(digit < 1, right, 0.0)
    w2 = tl.where(digit < 2, right, 0.0)
    w3 = tl.where(digit < 3, right, 0.0)
    # three counts in one number: no tile has 2^20 outcomes
    packed = (digit < 1).to(tl.int64) + ((digit < 2).to(tl.int64) << 20) + ((digit < 3).to(tl.int64) << 40)
    counts, n1, x1, y1, b1, n2, x2, y2, b2, n3, x3, y3, b3 = tl.associative_scan(
        (packed, w1, w1 * x, w1 * y, w1 * x * y, w2, w2 * x, w2 * y, w2 * x * y, w3, w3 * x, w3 * y, w3 * x * y),
        0,
        _add,
    )
    one, two, three = before_at + tile, before_at + 5 * tiles + tile, before_at + 10 * tiles + tile
    n1, n2, n3 = n1 + tl.load(one + tiles), n2 + tl.load(two + tiles), n3 + tl.load(three + tiles)
    x1, x2, x3 = x1 + tl.load(one + 2 * tiles), x2 + tl.load(two + 2 * tiles), x3 + tl.load(three + 2 * tiles)
    y1, y2, y3 = y1 + tl.load(one + 3 * tiles), y2 + tl.load(two + 3 * tiles), y3 + tl.load(three + 3 * tiles)
    b1, b2, b3 = b1 + tl.load(one + 4 * tiles), b2 + tl.load(two + 4 * tiles), b3 + tl.load(three + 4 * tiles)
    first, second = digit == 1, digit == 2
    none = tl.where(first, n1, tl.where(second, n2, n3))
    sum_x = tl.where(first, x1, tl.where(second, x2, x3))
    sum_y = tl.where(first, y1, tl.where(second, y2, y3))
    both = tl.where(first, b1, tl.where(second, b2, b3))
    left = tl.where(digit == 0, 0.0, -tl.minimum(weight, 0.0))
    part = tl.sum(left * (both - x * sum_y - y * (sum_x - x * none)), 0)
    tl.store(total_at + tile, tl.load(total_at + tile) + part)
    c1 = tl.load(one).to(tl.int64) + (counts & 0xFFFFF)
    c2 = tl.load(two).to(tl.int64) + ((counts >> 20) & 0xFFFFF)
    c3 = tl.load(three).to(tl.int64) + (counts >> 40)
    place = tl.where(digit == 0, c1, tl.where(digit == 1, c2 - c1, tl.where(digit == 2, c3 - c2, at - block + 1 - c3)))
    to = block + (digit.to(tl.int64) << shift) + place - 1
    tl.store(rank_to + to, rank)
    tl.store(first_to + to, x)
    tl.store(other_to + to, y)
    tl.store(weight_to + to, weight)


def _finish(  # type: ignore[no-untyped-def]
    rank_at, first_at, other_at, weight_at,
    rank_a, first_a, other_a, weight_a, rank_b, first_b, other_b, weight_b,
    total_at, TILE: tl.constexpr, SHORT: tl.constexpr, LEVELS: tl.constexpr,
):  # fmt: skip
    """All remaining levels of one block; outcomes change places through the spare lists, which stay in the cache."""
    tile = tl.program_id(0)
    place = tl.arange(0, TILE)
    begin = tile.to(tl.int64) * TILE
    at = begin + place
    rank = tl.load(rank_at + at)
    weight = tl.load(weight_at + at)
    x, y = tl.load(first_at + at), tl.load(other_at + at)
    total = tl.zeros([TILE], tl.float64)
    half = TILE // 2
    for level in range(LEVELS):
        early = (rank & half) == 0
        right = tl.where(early & (weight > 0), weight, 0.0)
        start = ((place & (2 * half - 1)) == 0).to(tl.int32)
        start, earlier, none, one, two, both = tl.associative_scan(
            (start, early.to(tl.int32), right, right * x, right * y, right * x * y), 0, _add_blocks
        )
        left = tl.where(early | (weight > 0), 0.0, -weight)
        total += left * (both - x * two - y * (one - x * none))
        block = place & (-2 * half)
        to = begin + block + tl.where(early, earlier - 1, half + (place - block) - earlier)
        if level % 2 == 0:
            tl.store(rank_a + to, rank)
            tl.store(first_a + to, x)
            tl.store(other_a + to, y)
            tl.store(weight_a + to, weight)
            tl.debug_barrier()
            rank, x = tl.load(rank_a + at), tl.load(first_a + at)
            y, weight = tl.load(other_a + at), tl.load(weight_a + at)
        else:
            tl.store(rank_b + to, rank)
            tl.store(first_b + to, x)
            tl.store(other_b + to, y)
            tl.store(weight_b + to, weight)
            tl.debug_barrier()
            rank, x = tl.load(rank_b + at), tl.load(first_b + at)
            y, weight = tl.load(other_b + at), tl.load(weight_b + at)
        half = half // 2
    # what is left, pair by pair: the lists are where the last level put them
    block = (tl.arange(0, TILE // SHORT) * SHORT)[:, None, None]
    mine = begin + block + tl.arange(0, SHORT)[None, :, None]
    theirs = begin + block + tl.arange(0, SHORT)[None, None, :]
    if LEVELS == 0:
        x, y, weight = tl.load(first_at + mine), tl.load(other_at + mine), tl.load(weight_at + mine)
        x_, y_, weight_ = tl.load(first_at + theirs), tl.load(other_at + theirs), tl.load(weight_at + theirs)
    elif LEVELS % 2 == 1:
        x, y, weight = tl.load(first_a + mine), tl.load(other_a + mine), tl.load(weight_a + mine)
        x_, y_, weight_ = tl.load(first_a + theirs), tl.load(other_a + theirs), tl.load(weight_a + theirs)
    else:
        x, y, weight = tl.load(first_b + mine), tl.load(other_b + mine), tl.load(weight_b + mine)
        x_, y_, weight_ = tl.load(first_b + theirs), tl.load(other_b + theirs), tl.load(weight_b + theirs)
    gained = tl.maximum(weight_, 0.0) * (tl.maximum(x_ - x, 0.0) * tl.maximum(y_ - y, 0.0))
    rest = tl.sum(-tl.minimum(weight, 0.0) * gained)
    tl.store(total_at + tile, tl.load(total_at + tile) + tl.sum(total, 0) + rest)
