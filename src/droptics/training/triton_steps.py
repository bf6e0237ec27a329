"""Kernels for a GPU: all steps of a run in one launch, and the random numbers of all runs in another.

Triton is loaded when a kernel is first launched; `missing()` says why it cannot be. The functions that are compiled
refer to `tl`, which is set then. Every kernel has a plain torch twin that it is tested against: `ProductsDescent` for
the steps, `philox.bits` for the random numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import Tensor

from droptics.gpu.triton import load_triton, missing

__all__ = ["descend", "fill", "fits", "missing", "power_of_two"]

tl: Any = None

# Bytes of padded weights that the registers of one multiprocessor hold beside what a step needs.
LARGEST = 2**17


@cache
def _compiled() -> tuple[Any, Any]:
    triton = load_triton(globals(), "engine='persistent'")
    # numbers that change from launch to launch must not be compiled in
    return (
        triton.jit(_descend, do_not_specialize=["steps"]),
        triton.jit(_fill, do_not_specialize=["first", "steps", "stream"]),
    )


def power_of_two(size: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << (size - 1).bit_length()


def fits(rows: int, width: int, bytes_each: int) -> bool:
    """Whether weights of `rows` padded rows in all stay within the registers of one program."""
    return rows * power_of_two(width) * bytes_each <= LARGEST


def descend(  # parameters: those of the kernel
    weights: list[Tensor], width: int, x: Tensor, y: Tensor, z: Tensor | None, sizes: Tensor, warps: int | None = None
) -> Tensor:
    """Run all steps of all runs in place, one program per run; returns the losses (runs, steps).

    weights: U (runs, outputs, columns) and V (runs, inputs, columns), contiguous, with `columns` a power of two and
    zeros in all columns from `width` on; U alone when V = U. x (runs, steps, inputs), y (runs, steps, outputs) and z
    (runs, steps, width), of any strides but the last; z None keeps all units. sizes (runs, steps) multiply half the
    gradient of the squared error.
    """
    kernel, _ = _compiled()
    U, V = weights[0], weights[-1]
    runs, outputs, columns = U.shape
    inputs, steps = V.shape[1], x.shape[1]
    losses = torch.empty(runs, steps, dtype=U.dtype, device=U.device)
    x, y, sizes = (part if part.stride(-1) == 1 else part.contiguous() for part in (x, y, sizes))
    masks = x if z is None else z if z.stride(-1) == 1 else z.contiguous()
    rows = [power_of_two(size) for size in (inputs, outputs)]
    size = (rows[0] * (len(weights) - 1) + rows[1]) * columns * U.element_size()
    kernel[(runs,)](
        U, V, x, y, masks, sizes, losses,
        steps, inputs, outputs, width,
        x.stride(0), x.stride(1), y.stride(0), y.stride(1), masks.stride(0), masks.stride(1), sizes.stride(0),
        TIED=len(weights) == 1, MASKED=z is not None, SPARE=width < columns, BI=rows[0], BO=rows[1], BW=columns,
        num_warps=warps or _warps(size, runs, U.device),
    )  # fmt: skip
    return losses


def _warps(size: int, runs: int, device: torch.device) -> int:
    """Few runs are bound by the latency of a step, many by its instructions: fewer warps share more registers then."""
    few = device.type != "cuda" or runs <= 2 * torch.cuda.get_device_properties(device).multi_processor_count
    return min(16, power_of_two(max(1, size // (2**13 if few or size > 2**15 else 2**14))))


def _descend(  # type: ignore[no-untyped-def]  # parameters: Triton takes no structs, see gpu/triton.py
    U_at, V_at, x_at, y_at, z_at, size_at, loss_at,
    steps, inputs, outputs, width,
    x_run, x_step, y_run, y_step, z_run, z_step, size_run,
    TIED: tl.constexpr, MASKED: tl.constexpr, SPARE: tl.constexpr,
    BI: tl.constexpr, BO: tl.constexpr, BW: tl.constexpr,
):  # fmt: skip
    """One run: res = U (z o V^T x) - y; U moves by size res (z o V^T x)^T, V by size x (z o U^T res)^T.

    The weights stay in registers; the numbers of the next step are asked for before this one is computed. Where a
    column is to spare, the residual stands in it for the product U^T res, which then holds the loss as well: one
    reduction over all threads less.
    """
    run = tl.program_id(0).to(tl.int64)
    i, o, w = tl.arange(0, BI), tl.arange(0, BO), tl.arange(0, BW)
    in_i, in_o, in_w = i < inputs, o < outputs, w < width
    last = w == BW - 1
    U_place = U_at + run * outputs * BW + o[:, None] * BW + w[None, :]
    U = tl.load(U_place, mask=in_o[:, None], other=0.0)
    V_place = V_at + run * inputs * BW + i[:, None] * BW + w[None, :]
    V = U if TIED else tl.load(V_place, mask=in_i[:, None], other=0.0)
    x_row, y_row, z_row = x_at + run * x_run + i, y_at + run * y_run + o, z_at + run * z_run + w
    size_row, loss_row = size_at + run * size_run, loss_at + run * steps
    x_next = tl.load(x_row, mask=in_i, other=0.0)
    y_next = tl.load(y_row, mask=in_o, other=0.0)
    size_next = tl.load(size_row)
    z_next = x_next
    if MASKED:
        z_next = tl.load(z_row, mask=in_w, other=0.0)
    for t in range(steps):
        x, y, z, size = x_next, y_next, z_next, size_next
        ahead = tl.minimum(t + 1, steps - 1)
        x_next = tl.load(x_row + ahead * x_step, mask=in_i, other=0.0)
        y_next = tl.load(y_row + ahead * y_step, mask=in_o, other=0.0)
        size_next = tl.load(size_row + ahead)
        z_next = x_next
        if MASKED:
            z_next = tl.load(z_row + ahead * z_step, mask=in_w, other=0.0)
        hidden = tl.sum(V * x[:, None], 0)
        if MASKED:
            hidden = hidden * z
        if SPARE:
            residual = tl.sum(tl.where(last[None, :], -y[:, None], U * hidden[None, :]), 1)
            back = tl.sum(tl.where(last[None, :], residual[:, None], U) * residual[:, None], 0)
            tl.store(loss_row + t, tl.sum(tl.where(last, back, 0.0), 0))
            back = tl.where(last, 0.0, back)
        else:
            residual = tl.sum(U * hidden[None, :], 1) - y
            back = tl.sum(U * residual[:, None], 0)
            tl.store(loss_row + t, tl.sum(residual * residual, 0))
        if MASKED:
            back = back * z
        U -= (size * residual)[:, None] * hidden[None, :]
        if TIED:
            U -= (size * x)[:, None] * back[None, :]
            V = U
        else:
            V -= (size * x)[:, None] * back[None, :]
    tl.store(U_place, U, mask=in_o[:, None])
    if not TIED:
        tl.store(V_place, V, mask=in_i[:, None])


# parameters: those of the kernel
def fill(seeds: Tensor, stream: int, first: int, steps: int, count: int, dtype: torch.dtype, normal: bool) -> Tensor:
    """Uniform or normal numbers (runs, steps, count), the same as those of `philox.uniforms` and `philox.normals`."""
    _, kernel = _compiled()
    double = dtype == torch.float64
    groups = -(-count // (2 if double else 4))
    out = torch.empty(len(seeds), steps, count, dtype=dtype, device=seeds.device)
    block = 256
    kernel[(-(-steps * groups // block), len(seeds))](
        out, seeds, first, stream, steps, count, groups, DOUBLE=double, NORMAL=normal, BLOCK=block
    )
    return out


def _fill(  # type: ignore[no-untyped-def]
    out_at, seed_at, first, stream, steps, count, groups,
    DOUBLE: tl.constexpr, NORMAL: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """One block of groups of one run: counter (group, low step, stream, high step), key = seed of the run."""
    run = tl.program_id(1).to(tl.int64)
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    step, group = place // groups, place % groups
    absolute = step.to(tl.int64) + first
    c0, c1 = group.to(tl.int32), (absolute & 0xFFFFFFFF).to(tl.uint32).to(tl.int32, bitcast=True)
    c3 = (absolute >> 32).to(tl.int32)
    c2 = tl.zeros_like(c0) + stream
    a, b, c, d = tl.philox(tl.load(seed_at + run), c0, c1, c2, c3)
    base = out_at + run * steps * count + step.to(tl.int64) * count
    inside = step < steps
    if DOUBLE:
        first_u = ((a >> 6).to(tl.float64) * 67108864.0 + (b >> 6).to(tl.float64) + 0.5) * 2.220446049250313e-16
        second_u = ((c >> 6).to(tl.float64) * 67108864.0 + (d >> 6).to(tl.float64) + 0.5) * 2.220446049250313e-16
        if NORMAL:
            radius = tl.sqrt(-2.0 * tl.log(first_u))
            angle = 6.283185307179586 * second_u
            first_u, second_u = radius * tl.cos(angle), radius * tl.sin(angle)
        tl.store(base + 2 * group, first_u, mask=inside & (2 * group < count))
        tl.store(base + 2 * group + 1, second_u, mask=inside & (2 * group + 1 < count))
    else:
        e = ((a >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07
        f = ((b >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07
        g = ((c >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07
        h = ((d >> 9).to(tl.float32) + 0.5) * 1.1920928955078125e-07
        if NORMAL:
            radius, other = tl.sqrt(-2.0 * tl.log(e)), tl.sqrt(-2.0 * tl.log(g))
            angle, turn = 6.283185307179586 * f, 6.283185307179586 * h
            e, f = radius * tl.cos(angle), radius * tl.sin(angle)
            g, h = other * tl.cos(turn), other * tl.sin(turn)
        tl.store(base + 4 * group, e, mask=inside & (4 * group < count))
        tl.store(base + 4 * group + 1, f, mask=inside & (4 * group + 1 < count))
        tl.store(base + 4 * group + 2, g, mask=inside & (4 * group + 2 < count))
        tl.store(base + 4 * group + 3, h, mask=inside & (4 * group + 3 < count))
