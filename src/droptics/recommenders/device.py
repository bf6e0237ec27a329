"""Half-sweeps on a torch device: the row systems in batches of padded rows, or by kernels of Triton."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.gpu.graphs import captured
from droptics.recommenders import triton_normal, triton_rows
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.ratings import Compressed
from droptics.recommenders.triton_normal import NormalRows
from droptics.recommenders.triton_rows import Rows

_PAD_RATIO = 1.4


class Device:
    """Half-sweeps on a torch device, within a memory budget.

    Batched torch operations anywhere, rows of similar length padded together; on CUDA, in float32 and with
    conjugate-gradient steps, a few kernels for all rows where Triton is installed (`kernel=False`: not even there). On
    CUDA a half-sweep is recorded once as a graph and replayed: many small operations cost more to launch than to run.
    """

    def __init__(self, device: str, memory: int = 1 << 30, kernel: bool = True) -> None:
        self.device = torch.device(device)
        self.memory = memory
        self.kernel = kernel and self.device.type == "cuda" and not triton_rows.missing()
        self._weights: dict[int, tuple[Array, Tensor]] = {}
        self._graphs: dict[Any, tuple[Any, Tensor, Any]] = {}

    def close(self) -> None:
        self._weights.clear()
        self._graphs.clear()

    def load(self, table: Compressed) -> Table:
        return Table(table, self.device, self.memory)

    def hold(self, factors: Array) -> Tensor:
        return torch.from_numpy(factors.copy()).to(self.device)

    def release(self, held: Tensor) -> Array:
        return held.cpu().numpy()

    def solve(
        self, table: Table, fixed: Tensor, free: Tensor, strengths: Strengths, weights: Array, steps: int
    ) -> tuple[Tensor, Tensor]:
        if id(weights) not in self._weights:
            self._weights[id(weights)] = (weights, torch.as_tensor(weights, device=self.device).double())
        counts = self._weights[id(weights)][1]
        suited = free.dtype == torch.float32 and free.shape[1] <= triton_rows.WIDEST and steps > 0
        held: Buckets | Rows | NormalRows = table.buckets
        if self.kernel and suited:
            formed = triton_normal.NARROWEST <= free.shape[1] <= triton_normal.WIDEST
            held = table.normal_rows if formed else table.rows
        if self.device.type != "cuda" or steps == 0:
            return half_sweep(held, fixed, free, strengths, counts, steps)
        key = (id(table), id(fixed), id(free), strengths, steps)
        if key not in self._graphs:
            into = torch.zeros(2, dtype=torch.float64, device=self.device)

            def step() -> None:
                into.copy_(torch.stack(half_sweep(held, fixed, free, strengths, counts, steps)))

            self._graphs[key] = captured(step, self.device, [free], rehearsals=1), into, (table, fixed, free)
        replay, reached, _ = self._graphs[key]
        replay()
        return reached[0], reached[1]


class Table:
    """Ratings for a device, in the form a half-sweep asks for; each form is made once, when it is first needed."""

    def __init__(self, table: Compressed, device: torch.device, memory: int) -> None:
        self._table, self._device, self._memory = table, device, memory

    @cached_property
    def normal_rows(self) -> NormalRows:
        """Compressed rows and pieces of the long ones, for the kernel that forms their normal equations."""
        return triton_normal.load(self._table, self._device)

    @cached_property
    def rows(self) -> Rows:
        """Compressed rows, for the kernel of wide factors."""
        return triton_rows.load(self._table, self._device)

    @cached_property
    def buckets(self) -> Buckets:
        """Padded rows, for batched operations."""
        table = self._table
        order = np.argsort(-table.counts, kind="stable")
        order, empty = np.split(order, [np.count_nonzero(table.counts)])
        counts = table.counts[order]
        groups: list[list[Bucket]] = []
        at = held = 0
        while at < len(order):
            longest = int(counts[at])
            similar = int(np.searchsorted(-counts, -longest / _PAD_RATIO, side="right"))
            room = max(1, self._memory // (longest * 512 * table.values.dtype.itemsize))
            stop = min(max(similar, at + 1), at + room)
            real = np.arange(longest) < counts[at:stop, None]
            place = np.where(real, table.starts[order[at:stop]][:, None] + np.arange(longest), 0)
            columns = np.where(real, table.columns[place] + 1, 0).astype(np.int32)
            values = np.where(real, table.values[place], 0)
            tensors = (order[at:stop], columns, values, counts[at:stop].astype(values.dtype))
            held += stop - at
            if not groups or held * 128 * 128 * table.values.dtype.itemsize > self._memory:
                groups.append([])
                held = stop - at
            groups[-1].append(Bucket(*(torch.from_numpy(array).to(self._device) for array in tensors)))
            at = stop
        return Buckets(groups, torch.from_numpy(empty).to(self._device))


@dataclass(frozen=True, eq=False)
class Bucket:
    """Rows of similar length: their numbers, padded columns (from 1; 0 is the padding), padded values, lengths."""

    rows: Tensor
    columns: Tensor
    values: Tensor
    counts: Tensor


@dataclass(frozen=True, eq=False)
class Buckets:
    """A table as buckets in groups, whose systems are solved together, and the rows without ratings."""

    full: list[list[Bucket]]
    empty: Tensor


def half_sweep(
    table: Buckets | Rows | NormalRows, fixed: Tensor, free: Tensor, strengths: Strengths, weights: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """One half-sweep over all rows, in place on `free`; no value is read back, so it can be recorded."""
    width = strengths.width
    if isinstance(table, NormalRows):
        side, plain, weighted = triton_normal.measured(fixed, weights, None if strengths.bias is None else width)
    else:
        squares = fixed.double().square()
        plain, weighted = squares.sum(0), weights @ squares
    total = weights.sum()
    level = strengths.level(plain, weighted, total, len(fixed))
    zeros = torch.zeros(4, strengths.columns, dtype=torch.float64, device=level.device)
    diagonals = strengths.diagonals(level, total / len(free), weighted / total, zeros).to(free.dtype)
    if isinstance(table, NormalRows):
        reached = triton_normal.solve(table, side, diagonals, free, steps)
    else:
        regressors = torch.cat([fixed.new_zeros(1, fixed.shape[1]), fixed])  # row 0 is what padding points at
        offsets = torch.zeros_like(regressors[:, 0])
        if strengths.bias is not None:
            offsets = regressors[:, width].clone()
            regressors[1:, width] = 1
        if isinstance(table, Rows):
            reached = triton_rows.solve(table, regressors[1:], offsets[1:], diagonals, free, steps)
        else:
            reached = solve_buckets(table, regressors, offsets, diagonals, free, steps)
    free.index_fill_(0, table.empty, 0.0)
    return reached[0] + strengths.own(plain, weighted), reached[1]


def solve_buckets(
    table: Buckets, regressors: Tensor, offsets: Tensor, diagonals: Tensor, free: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """The rows of all buckets, in place on `free`; returns the (penalized, plain) sums of squares reached."""
    totals = torch.zeros(2, dtype=torch.float64, device=free.device)
    for group in table.full:
        parts = []
        for bucket in group:
            at = bucket.columns.reshape(-1)
            panel = regressors.index_select(0, at).reshape(*bucket.columns.shape, -1)
            targets = bucket.values - offsets.index_select(0, at).reshape(bucket.columns.shape)
            gram, right = (torch.bmm(panel.mT, panel), torch.bmm(targets[:, None], panel)[:, 0])
            parts.append((bucket.rows, gram, right, targets.square().sum(1, dtype=torch.float64), bucket.counts))
        rows, gram, right, size, counts = (torch.cat(kind) for kind in zip(*parts, strict=True))
        d = diagonals[0] * gram.diagonal(dim1=-2, dim2=-1) + counts[:, None] * diagonals[1] + diagonals[2]
        gram.diagonal(dim1=-2, dim2=-1).add_(d)  # the row systems of `least_squares`
        start = free.index_select(0, rows)
        r = right - torch.bmm(gram, start[..., None])[..., 0]
        # |y|^2 - <b, x> - <r, x> is the penalized sum of squares at x when r is the residual there.
        value = size - (start.double() * (right + r)).sum(1)
        scale = gram.diagonal(dim1=-2, dim2=-1) if len(diagonals) == 3 else d + counts[:, None] * diagonals[3]
        x, decrease = _direct(gram, r, start) if steps == 0 else _conjugate_gradients(gram, scale, r, start, steps)
        free.index_copy_(0, rows, x)
        value = value - decrease
        totals += torch.stack([value.sum(), (value - (d * x * x).sum(1, dtype=torch.float64)).sum()])
    return totals[0], totals[1]


def _direct(system: Tensor, r: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    full = system.double()
    diagonal = full.diagonal(dim1=-2, dim2=-1)
    diagonal += (diagonal == 0).double()
    factor, info = torch.linalg.cholesky_ex(full)
    move = torch.cholesky_solve(r.double()[..., None], factor)[..., 0]
    # the Gram matrix was formed in the precision of the factors: smaller pivots are its rounding
    pivots = factor.diagonal(dim1=-2, dim2=-1).square() / diagonal
    rounding = full.shape[-1] * torch.finfo(start.dtype).eps
    singular = (info > 0) | (pivots <= rounding).any(-1) | ~torch.isfinite(move).all(-1)
    if bool(singular.any()):
        inverse = torch.linalg.pinv(full[singular], rtol=rounding, hermitian=True)
        move[singular] = torch.bmm(inverse, r[singular].double()[..., None])[..., 0]
    return (start + move.to(start.dtype)), (move * r.double()).sum(1)


def _conjugate_gradients(system: Tensor, scale: Tensor, r: Tensor, start: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    tiny = torch.finfo(start.dtype).tiny
    inverse = torch.where(scale > 0, 1 / scale.clamp_min(tiny), 0)
    x, p = start, inverse * r
    rho = (p * r).sum(1)
    # Below this the residual is rounding; where the data leave directions free, steps along it have any length.
    seen = rho + (inverse * torch.bmm(system, start[..., None])[..., 0].square()).sum(1)
    settled = seen * (x.shape[1] * torch.finfo(x.dtype).eps) ** 2
    decrease = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for step in range(steps):
        q = torch.bmm(system, p[..., None])[..., 0]
        curvature, slope = (p * q).sum(1), (p * r).sum(1)
        alpha = torch.where((curvature > 0) & (rho > settled), slope / curvature.clamp_min(tiny), 0)
        decrease = decrease + (alpha * slope).double()
        x = torch.addcmul(x, alpha[:, None], p)
        if step + 1 < steps:
            r = torch.addcmul(r, alpha[:, None], q, value=-1)
            z = inverse * r
            fresh = (z * r).sum(1)
            beta = torch.where(rho > 0, fresh / rho.clamp_min(tiny), 0)
            p = torch.addcmul(z, beta[:, None], p)
            rho = fresh
    return x, decrease
