"""Row solves on a GPU: one program per row, conjugate gradients without forming its Gram matrix.

Triton is loaded when the kernel is first launched; `missing()` says why it cannot be. The function that is compiled
refers to `tl`, which is set then. Its twin in plain torch is `device.solve_buckets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from droptics.gpu.triton import load_triton, missing
from droptics.recommenders.ratings import Compressed

__all__ = ["HELD", "TILE", "WIDEST", "Rows", "load", "missing", "solve"]

tl: Any = None

# Entries of a panel that one program keeps in registers, and of the tiles that pass through them.
HELD, TILE = 1 << 14, 1 << 13
WIDEST = 1 << 10


@cache
def _compiled() -> Any:
    return load_triton(globals(), "the row kernel").jit(_solve, do_not_specialize=["first"])


@dataclass(frozen=True, eq=False)
class Rows:
    """A table on a device: compressed rows, the numbers of those with ratings, longest first, and of the empty ones."""

    starts: Tensor
    columns: Tensor
    values: Tensor
    order: Tensor
    lengths: np.ndarray[Any, Any]
    empty: Tensor


def load(table: Compressed, device: torch.device) -> Rows:
    """Bring a table to a device."""
    full, empty = np.split(np.argsort(-table.counts, kind="stable"), [np.count_nonzero(table.counts)])
    arrays = (table.starts, table.columns, table.values, full, empty)
    starts, columns, values, order, rest = (torch.from_numpy(np.array(array)).to(device) for array in arrays)
    return Rows(starts, columns, values, order, table.counts[full], rest)


def solve(
    table: Rows, regressors: Tensor, offsets: Tensor, diagonals: Tensor, free: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """Improve every row with ratings in place by `steps` conjugate-gradient steps, as `least_squares.solve_rows` does.

    Returns the (penalized, plain) sums of squares reached, in float64. Rows whose ratings fit into the registers read
    the factors once, longer ones once per step. Nothing is read back, so the launches can be recorded.
    """
    kernel = _compiled()
    columns = free.shape[1]
    padded = 1 << (columns - 1).bit_length()
    reached = torch.empty(2, len(table.order), dtype=torch.float64, device=free.device)
    whole, small = HELD // padded, max(HELD // padded // 4, 1)
    longer, middle = (int(np.count_nonzero(table.lengths > size)) for size in (whole, small))
    last = (middle, len(table.order), small, True)
    for first, stop, tile, held in ((0, longer, TILE // padded, False), (longer, middle, whole, True), last):
        if stop > first:
            kernel[(stop - first,)](
                table.starts, table.columns, table.values, table.order, regressors, offsets, diagonals, free, reached,
                first, len(table.order),
                COLUMNS=columns, K=padded, M=tile, STEPS=steps, HELD=held, OWN=len(diagonals) == 3,
                num_warps=max(1, min(8, tile * padded // 2048)),
            )  # fmt: skip
    totals = reached.sum(1)
    return totals[0], totals[1]


def _solve(  # type: ignore[no-untyped-def]  # noqa: PLR0915 - one kernel
    starts_at, columns_at, values_at, order_at, regressors_at, offsets_at, diagonals_at, free_at, reached_at,
    first, rows,
    COLUMNS: tl.constexpr, K: tl.constexpr, M: tl.constexpr, STEPS: tl.constexpr, HELD: tl.constexpr, OWN: tl.constexpr,
):  # fmt: skip
    """One row: residual and diagonal of its normal equations, then preconditioned steps from where it stands.

    With HELD the row has at most M ratings, whose regressors stay in registers; else they pass through M at a time.
    """
    place = first + tl.program_id(0)
    row = tl.load(order_at + place)
    begin, end = tl.load(starts_at + row), tl.load(starts_at + row + 1)
    k, m = tl.arange(0, K), tl.arange(0, M)
    inside = k < COLUMNS
    x = tl.load(free_at + row * COLUMNS + k, mask=inside, other=0.0)
    r, squares = tl.zeros([K], tl.float32), tl.zeros([K], tl.float32)
    value = tl.zeros([M], tl.float64)
    if HELD:
        real = begin + m < end
        j = tl.load(columns_at + begin + m, mask=real, other=0)
        panel = tl.load(
            regressors_at + j[:, None] * COLUMNS + k[None, :], mask=real[:, None] & inside[None, :], other=0.0
        )
        t = tl.load(values_at + begin + m, mask=real, other=0.0) - tl.load(offsets_at + j, mask=real, other=0.0)
        t -= tl.sum(panel * x[None, :], 1)
        value += (t * t).to(tl.float64)
        r += tl.sum(panel * t[:, None], 0)
        squares += tl.sum(panel * panel, 0)
    else:
        for at in range(begin, end, M):
            near = at + m < end
            i = tl.load(columns_at + at + m, mask=near, other=0)
            part = tl.load(
                regressors_at + i[:, None] * COLUMNS + k[None, :], mask=near[:, None] & inside[None, :], other=0.0
            )
            t = tl.load(values_at + at + m, mask=near, other=0.0) - tl.load(offsets_at + i, mask=near, other=0.0)
            t -= tl.sum(part * x[None, :], 1)
            value += (t * t).to(tl.float64)
            r += tl.sum(part * t[:, None], 0)
            squares += tl.sum(part * part, 0)
    count = (end - begin).to(tl.float32)
    if not OWN:  # the sums above are then never taken: nothing asks for them
        squares = count * tl.load(diagonals_at + 3 * COLUMNS + k, mask=inside, other=0.0)
    d = tl.load(diagonals_at + k, mask=inside, other=0.0) * squares
    d += count * tl.load(diagonals_at + COLUMNS + k, mask=inside, other=0.0)
    d += tl.load(diagonals_at + 2 * COLUMNS + k, mask=inside, other=0.0)
    scale = squares + d
    weight = tl.where(scale > 0, 1.0 / tl.where(scale > 0, scale, 1.0), 0.0)
    penalized = tl.sum(value, 0) + tl.sum((d * x * x).to(tl.float64), 0)
    r -= d * x
    p = weight * r
    rho = tl.sum(p * r, 0)
    # As in least_squares.solve_rows: below this the residual is rounding (1.2e-7 is that of float32).
    rounding = count * 1.1920929e-7
    settled = rho * rounding * rounding
    for _ in tl.static_range(STEPS):
        q = d * p
        if HELD:
            q += tl.sum(panel * tl.sum(panel * p[None, :], 1)[:, None], 0)
        else:
            for at in range(begin, end, M):
                near = at + m < end
                i = tl.load(columns_at + at + m, mask=near, other=0)
                part = tl.load(
                    regressors_at + i[:, None] * COLUMNS + k[None, :], mask=near[:, None] & inside[None, :], other=0.0
                )
                q += tl.sum(part * tl.sum(part * p[None, :], 1)[:, None], 0)
        curvature, slope = tl.sum(p * q, 0), tl.sum(p * r, 0)
        good = (curvature > 0) & (rho > settled)
        alpha = tl.where(good, slope / tl.where(good, curvature, 1.0), 0.0)
        penalized -= (alpha * slope).to(tl.float64)
        x += alpha * p
        r -= alpha * q
        z = weight * r
        fresh = tl.sum(z * r, 0)
        p = z + tl.where(good, fresh / tl.where(good, rho, 1.0), 0.0) * p
        rho = fresh
    tl.store(free_at + row * COLUMNS + k, x, mask=inside)
    tl.store(reached_at + place, penalized)
    tl.store(reached_at + rows + place, penalized - tl.sum((d * x * x).to(tl.float64), 0))
