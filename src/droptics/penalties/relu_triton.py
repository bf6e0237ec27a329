"""Splitting of sorted lists on a GPU: two passes over the list per level, the last levels within one program.

Triton is loaded when a kernel is first launched; `missing()` says why it cannot be. The functions that are compiled
refer to `tl`, which is set then. Their twin in plain torch is `relu_device`.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

tl: Any = None
_add: Any = None
_add_blocks: Any = None

# Outcomes of one program, and the warps of the three kernels.
TILE = 2048
WARPS = (4, 8, 8)


def missing() -> str:
    """Why the kernels cannot run here; empty when they can."""
    if find_spec("triton") is None:
        return "triton is not installed (pip install triton)"
    return ""


@cache
def _compiled() -> tuple[Any, ...]:
    global tl, _add, _add_blocks  # noqa: PLW0603  (the compiled functions find them among their globals)
    try:
        import triton  # noqa: PLC0415
        import triton.language  # noqa: PLC0415
    except ImportError as error:
        raise ImportError("sums over a list on a GPU need triton: pip install triton") from error
    tl = triton.language
    _add, _add_blocks = triton.jit(_joined), triton.jit(_joined_blocks)
    free = ["half", "tiles"]
    return (
        triton.jit(_tally, do_not_specialize=free),
        triton.jit(_split, do_not_specialize=free),
        triton.jit(_finish),
    )


def dominance_sum(rank: Tensor, first: Tensor, other: Tensor, weight: Tensor) -> Tensor:
    """Sum of w_a w_b (x_b - x_a) (y_b - y_a) over left a and right b that precede them in list and rank.

    The length is a power of two; `weight` is negative for left outcomes. The list itself is left as it is.
    """
    tally, split, finish = _compiled()
    length = size = len(rank)
    tile = min(TILE, size)
    tiles = size // tile
    lists = [rank, first, other, weight]
    spare = [[torch.empty_like(part) for part in lists] for _ in range(2)]
    sums = weight.new_empty(5, tiles)
    total = weight.new_zeros(tiles)
    turn = 0
    while length > tile:
        tally[(tiles,)](*lists, sums, length // 2, tiles, TILE=tile, num_warps=WARPS[0])
        blocks = sums.view(-1, length // tile)
        before = (blocks.cumsum(1) - blocks).view(5, tiles)
        split[(tiles,)](*lists, *spare[turn], before, total, length // 2, tiles, TILE=tile, num_warps=WARPS[1])
        lists, turn = spare[turn], 1 - turn
        length //= 2
    finish[(tiles,)](
        *lists, *spare[turn], *spare[1 - turn], total, TILE=tile, LEVELS=tile.bit_length() - 1, num_warps=WARPS[2]
    )
    return total.sum()


def _joined(count, none, one, two, both, count_, none_, one_, two_, both_):  # type: ignore[no-untyped-def]
    """Running sums of two stretches."""
    return count + count_, none + none_, one + one_, two + two_, both + both_


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


def _tally(rank_at, first_at, other_at, weight_at, sums_at, half, tiles, TILE: tl.constexpr):  # type: ignore[no-untyped-def]
    """Per tile: how many outcomes go to the first half, and the sums of 1, x, y, x y over its right ones."""
    tile = tl.program_id(0)
    at = tile.to(tl.int64) * TILE + tl.arange(0, TILE)
    early = (tl.load(rank_at + at) & half) == 0
    weight = tl.load(weight_at + at)
    x, y = tl.load(first_at + at), tl.load(other_at + at)
    right = tl.where(early & (weight > 0), weight, 0.0)
    tl.store(sums_at + tile, tl.sum(early.to(tl.int32), 0).to(tl.float64))
    tl.store(sums_at + tiles + tile, tl.sum(right, 0))
    tl.store(sums_at + 2 * tiles + tile, tl.sum(right * x, 0))
    tl.store(sums_at + 3 * tiles + tile, tl.sum(right * y, 0))
    tl.store(sums_at + 4 * tiles + tile, tl.sum(right * x * y, 0))


def _split(  # type: ignore[no-untyped-def]
    rank_at, first_at, other_at, weight_at, rank_to, first_to, other_to, weight_to, before_at, total_at,
    half, tiles, TILE: tl.constexpr,
):  # fmt: skip
    """One tile: what its left outcomes of the second half gain, and every outcome to its place in its half."""
    tile = tl.program_id(0)
    begin = tile.to(tl.int64) * TILE
    at = begin + tl.arange(0, TILE)
    block = begin // (2 * half) * (2 * half)
    rank = tl.load(rank_at + at)
    weight = tl.load(weight_at + at)
    x, y = tl.load(first_at + at), tl.load(other_at + at)
    early = (rank & half) == 0
    right = tl.where(early & (weight > 0), weight, 0.0)
    earlier, none, one, two, both = tl.associative_scan(
        (early.to(tl.int32), right, right * x, right * y, right * x * y), 0, _add
    )
    none += tl.load(before_at + tiles + tile)
    one += tl.load(before_at + 2 * tiles + tile)
    two += tl.load(before_at + 3 * tiles + tile)
    both += tl.load(before_at + 4 * tiles + tile)
    left = tl.where(early | (weight > 0), 0.0, -weight)
    part = tl.sum(left * (both - x * two - y * (one - x * none)), 0)
    tl.store(total_at + tile, tl.load(total_at + tile) + part)
    precede = tl.load(before_at + tile).to(tl.int64) + earlier
    to = block + tl.where(early, precede - 1, half + (at - block) - precede)
    tl.store(rank_to + to, rank)
    tl.store(first_to + to, x)
    tl.store(other_to + to, y)
    tl.store(weight_to + to, weight)


def _finish(  # type: ignore[no-untyped-def]
    rank_at, first_at, other_at, weight_at,
    rank_a, first_a, other_a, weight_a, rank_b, first_b, other_b, weight_b,
    total_at, TILE: tl.constexpr, LEVELS: tl.constexpr,
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
    tl.store(total_at + tile, tl.load(total_at + tile) + tl.sum(total, 0))
