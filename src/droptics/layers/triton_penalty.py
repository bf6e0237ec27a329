"""The exact penalty of squared loss and its gradient on a GPU, in one launch forwards and one backwards.

Plain torch takes some twenty, and moves the weights of the head through memory eight times instead of three. The
twin in plain torch is `ExplicitDropout._formula`.

Forwards the programs that add up rows wait for those that square columns. They take their work in the order in which
they start: whoever waits, waits for programs that already run, however few of them the device runs at a time. Every
sum has a fixed order, whoever is first.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

from droptics.gpu.triton import load_triton, missing

tl: Any = None

_COLUMNS, _ROWS, _TILE = 64, 32, 1024  # of a program: columns and rows at a time, and columns of one example at a time
_PROGRAMS = 256  # wanted for a matrix
_STOCK = 256  # pairs of counters that are made at a time
_NARROW = (torch.float32, torch.bfloat16, torch.float16)


def applies(features: Tensor, weight: Tensor) -> bool:
    """Whether the kernels take these: on a GPU, in float32 or less, where nothing but `backward` differentiates."""
    if torch.compiler.is_compiling() or not features.is_cuda or features.device != weight.device or missing():
        return False
    narrow = features.dtype in _NARROW and weight.dtype in _NARROW and features.numel() > 0
    plain = type(features) is Tensor and type(weight) in (Tensor, nn.Parameter)
    return narrow and plain and not torch._C._are_functorch_transforms_active() and forward_ad._current_level < 0


def penalties(features: Tensor, weight: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Sums share sum_j a_j^2 ||w_j||^2 of rows a of features (n, units) with weights (outputs, units), and their mean.

    Both in float32. The gradient of the mean is one launch; that of single rows, and second derivatives, are plain
    torch.
    """
    each, mean = _Penalties.apply(features.contiguous(), weight.contiguous(), share)  # type: ignore[no-untyped-call]
    return each, mean


class _Penalties(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor, weight: Tensor, share: float) -> tuple[Tensor, Tensor]:
        (count, units), outputs = features.shape, len(weight)
        blocks = -(-units // _COLUMNS)
        parts = [max(1, min(-(-rows // _ROWS), _PROGRAMS // blocks)) for rows in (outputs, count)]
        sums = features.new_empty(sum(parts), units, dtype=torch.float32)  # of squares of weights, then of features
        each, mean = features.new_empty(count, dtype=torch.float32), features.new_empty((), dtype=torch.float32)
        rows = min(16, 1 << max(0, (count // _PROGRAMS).bit_length() - 1))
        adders = 1 + min(-(-count // rows), 4 * _PROGRAMS)
        with torch.cuda.device_of(features):  # which need not be the current device
            _compiled()[0][(blocks * sum(parts) + adders,)](
                weight, features, sums, each, mean, _turns(features.device), outputs, count, units, *parts, share,
                COLUMNS=_COLUMNS, ROWS=_ROWS, EXAMPLES=rows, TILE=max(_TILE // rows, 64), num_warps=4,
            )  # fmt: skip
        ctx.save_for_backward(features, weight, sums)
        ctx.share, ctx.parts = share, parts
        ctx.set_materialize_grads(False)
        return each, mean

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor | None) -> tuple[Tensor | None, Tensor | None, None]:
        features, weight, sums = ctx.saved_tensors
        by_each, by_mean = slopes
        if by_each is not None or by_mean is None or torch.is_grad_enabled() or not all(ctx.needs_input_grad[:2]):
            return *_plain(features, weight, ctx.share, by_each, by_mean), None
        by_features, by_weight = torch.empty_like(features), torch.empty_like(weight)
        (count, units), outputs = features.shape, len(weight)
        _compiled()[1][(-(-units // _COLUMNS), sum(ctx.parts))](
            weight, features, by_weight, by_features, sums, by_mean, outputs, count, units, *ctx.parts,
            2 * ctx.share / count, COLUMNS=_COLUMNS, ROWS=_ROWS, num_warps=4,
        )  # fmt: skip
        return by_features, by_weight, None


def _plain(
    features: Tensor, weight: Tensor, share: float, by_each: Tensor | None, by_mean: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The same slopes in torch, which can be differentiated again; no products of matrices, which autocast narrows."""
    slope = features.new_zeros(len(features), dtype=torch.float32) if by_each is None else by_each
    slope = 2 * share * (slope if by_mean is None else slope + by_mean / len(features))[:, None]
    wide, norms = features.float(), weight.float().square().sum(0)
    by_weight = weight.float() * (slope * wide.square()).sum(0)
    return (slope * wide * norms).to(features.dtype), by_weight.to(weight.dtype)


_spare: dict[torch.device, list[Tensor]] = {}  # pairs of counters for recordings to come
_given: list[Tensor] = []  # those of recordings, which nobody else keeps


def _turns(device: torch.device) -> Tensor:
    """Two counters at zero, where a launch leaves them, which no other launch uses at the same time.

    Launches of one stream follow each other and share a pair. A recording may be replayed on any stream: every launch
    in it has a pair of its own, from a stock that was set to zero before, or else one that the recording sets to zero.
    """
    if device.type != "cuda":
        return _pair(device, 0)
    stock = _spare.setdefault(device, [])
    if torch.cuda.is_current_stream_capturing():
        if not stock:
            return torch.zeros(2, dtype=torch.int32, device=device)
        own = stock.pop()
        _given.append(own)
        return own
    stream = torch.cuda.current_stream(device)
    if not stock:
        stock.extend(torch.zeros(_STOCK, 2, dtype=torch.int32, device=device))
        stream.synchronize()  # whatever stream records next
    return _pair(device, stream.cuda_stream)


@cache
def _pair(device: torch.device, stream: int) -> Tensor:
    return torch.zeros(2, dtype=torch.int32, device=device)


@cache
def _compiled() -> tuple[Any, Any]:
    global _part_squares, _column_sums, _row_values, _mean_value, _part_scaled  # compiled functions call such only
    triton = load_triton(globals(), "the penalty in two launches")
    _part_squares, _part_scaled = triton.jit(_part_squares), triton.jit(_part_scaled)
    _column_sums, _row_values, _mean_value = triton.jit(_column_sums), triton.jit(_row_values), triton.jit(_mean_value)
    # sizes of batches change, and must not be compiled in; counters lie anywhere
    sizes = ["outputs", "count", "weight_parts", "features_parts"]
    return (
        triton.jit(_values, do_not_specialize=sizes, do_not_specialize_on_alignment=["turns_at"]),
        triton.jit(_slopes, do_not_specialize=sizes),
    )


def _values(  # type: ignore[no-untyped-def]
    weight_at, features_at, sums_at, each_at, mean_at, turns_at, outputs, count, units, weight_parts, features_parts,
    share, COLUMNS: tl.constexpr, ROWS: tl.constexpr, EXAMPLES: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Sums of squares of columns of the weights and of the features, a part of the rows each; then the penalties."""
    blocks = tl.cdiv(units, COLUMNS)
    parts = weight_parts + features_parts
    turn = tl.atomic_add(turns_at, 1, sem="relaxed")
    wait = turn - blocks * parts  # negative for those who square
    if wait < 0:
        column, part = turn % blocks * COLUMNS + tl.arange(0, COLUMNS), turn // blocks
        if part < weight_parts:
            total = _part_squares(weight_at, part, weight_parts, outputs, units, column, COLUMNS, ROWS)
        else:
            total = _part_squares(features_at, part - weight_parts, features_parts, count, units, column, COLUMNS, ROWS)
        tl.store(sums_at + part * units + column, total, mask=column < units)
    else:
        done = tl.atomic_add(turns_at + 1, 0, sem="acquire")
        while done < blocks * parts:
            done = tl.atomic_add(turns_at + 1, 0, sem="acquire")
        tl.debug_barrier()
        if wait == 0:
            _mean_value(sums_at, mean_at, count, units, weight_parts, parts, share, TILE)
        else:
            others = tl.num_programs(0) - blocks * parts - 1
            _row_values(
                features_at, sums_at, each_at, wait - 1, others, count, units, weight_parts, share, EXAMPLES, TILE
            )
    tl.debug_barrier()  # all that this program stored, before it says so
    if tl.atomic_add(turns_at + 1, 1, sem="acq_rel") == tl.num_programs(0) - 1:
        tl.store(turns_at, 0)
        tl.store(turns_at + 1, 0)


def _part_squares(  # type: ignore[no-untyped-def]
    matrix_at, part, parts, height, units, column, COLUMNS: tl.constexpr, ROWS: tl.constexpr
):
    """Every row that falls to this part."""
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for first in range(part * ROWS, height, parts * ROWS):
        row = first + tl.arange(0, ROWS)
        at = matrix_at + row.to(tl.int64)[:, None] * units + column[None, :]
        value = tl.load(at, mask=(row < height)[:, None] & (column < units)[None, :], other=0.0).to(tl.float32)
        total += value * value
    return tl.sum(total, 0)


def _column_sums(  # type: ignore[no-untyped-def]
    sums_at, first, end, units, column, COLUMNS: tl.constexpr
):
    """The parts from `first` to `end` together."""
    SOME: tl.constexpr = 2048 // COLUMNS  # at a time: one after the other, each would be waited for
    total = tl.zeros((SOME, COLUMNS), tl.float32)
    for begin in range(first, end, SOME):
        part = begin + tl.arange(0, SOME)
        at = sums_at + part[:, None] * units + column[None, :]
        total += tl.load(at, mask=(part < end)[:, None] & (column < units)[None, :], other=0.0)
    return tl.sum(total, 0)


def _row_values(  # type: ignore[no-untyped-def]
    features_at, sums_at, each_at, part, parts, count, units, weight_parts, share,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Penalties of every row that falls to this part."""
    for begin in range(part * ROWS, count, parts * ROWS):
        row = begin + tl.arange(0, ROWS)
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for first in range(0, units, COLUMNS):
            column = first + tl.arange(0, COLUMNS)
            norm = _column_sums(sums_at, 0, weight_parts, units, column, COLUMNS)
            at = features_at + row.to(tl.int64)[:, None] * units + column[None, :]
            value = tl.load(at, mask=(row < count)[:, None] & (column < units)[None, :], other=0.0).to(tl.float32)
            total += value * share * value * norm[None, :]
        tl.store(each_at + row, tl.sum(total, 1), mask=row < count)


def _mean_value(  # type: ignore[no-untyped-def]
    sums_at, mean_at, count, units, weight_parts, parts, share, COLUMNS: tl.constexpr
):
    """The mean of the penalties of all rows, share / count sum_j ||w_j||^2 sum_i a_ij^2."""
    whole = tl.zeros((COLUMNS,), tl.float32)
    for first in range(0, units, COLUMNS):
        column = first + tl.arange(0, COLUMNS)
        norm = _column_sums(sums_at, 0, weight_parts, units, column, COLUMNS)
        whole += norm * (_column_sums(sums_at, weight_parts, parts, units, column, COLUMNS) * share / count)
    tl.store(mean_at, tl.sum(whole, 0))


def _slopes(  # type: ignore[no-untyped-def]
    weight_at, features_at, by_weight_at, by_features_at, sums_at, slope_at, outputs, count, units,
    weight_parts, features_parts, scale, COLUMNS: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Derivatives of the mean: scale w_kj sum_i a_ij^2 by weights, scale a_ij ||w_j||^2 by features."""
    column, part = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS), tl.program_id(1)
    scale *= tl.load(slope_at)
    if part < weight_parts:
        factor = _column_sums(sums_at, weight_parts, weight_parts + features_parts, units, column, COLUMNS) * scale
        _part_scaled(weight_at, by_weight_at, factor, part, weight_parts, outputs, units, column, ROWS)
    else:
        factor = _column_sums(sums_at, 0, weight_parts, units, column, COLUMNS) * scale
        _part_scaled(
            features_at, by_features_at, factor, part - weight_parts, features_parts, count, units, column, ROWS
        )


def _part_scaled(  # type: ignore[no-untyped-def]
    matrix_at, result_at, factor, part, parts, height, units, column, ROWS: tl.constexpr
):
    """Every row that falls to this part, times the factors of the columns."""
    for first in range(part * ROWS, height, parts * ROWS):
        row = first + tl.arange(0, ROWS)
        at = row.to(tl.int64)[:, None] * units + column[None, :]
        inside = (row < height)[:, None] & (column < units)[None, :]
        value = tl.load(matrix_at + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(result_at + at, (value * factor[None, :]).to(result_at.dtype.element_ty), mask=inside)
