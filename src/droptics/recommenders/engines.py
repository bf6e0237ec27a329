"""Where half-sweeps run: threads of this process, a torch device, or a Dask cluster; the same row systems."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.recommenders.alternation import Engine, Strengths, column_sums
from droptics.recommenders.least_squares import solve_rows
from droptics.recommenders.ratings import Compressed

Array = NDArray[Any]
_PAD_RATIO = 1.4


def engine_for(
    engine: Any = None, device: str | None = None, threads: int | None = None, memory: int = 1 << 30
) -> Engine:
    """The engine asked for: a Dask cluster (address or client), a torch device, or threads (the default: all cores)."""
    if engine is not None and device is not None:
        raise ValueError("engine and device exclude each other: a cluster runs the compiled kernels")
    if engine is not None:
        return Cluster(engine)
    if device is not None:
        return Device(device, memory)
    return Threads(threads)


class Threads:
    """The compiled kernels on threads of this process; they hold no interpreter lock."""

    def __init__(self, count: int | None = None) -> None:
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        self.count = available if count is None else count
        if self.count < 1:
            raise ValueError(f"threads must be a positive whole number, got {count!r}")

    def close(self) -> None:
        """Threads end with each half-sweep."""

    def load(self, table: Compressed) -> Compressed:
        return table

    def hold(self, factors: Array) -> Array:
        return factors.copy()

    def release(self, held: Array) -> Array:
        return held

    def solve(
        self, table: Compressed, fixed: Array, free: Array, strengths: Strengths, weights: Array, steps: int
    ) -> tuple[float, float]:
        regressors, offsets, diagonals, own = prepared(fixed, strengths, weights, len(free))

        def run(rows: tuple[int, int]) -> tuple[float, float]:
            low, high = rows
            return solve_block(block_of(table, low, high), regressors, offsets, free[low:high], diagonals, steps)

        if self.count == 1:
            parts = [run(rows) for rows in table.blocks(max(1, int(table.starts[-1]) >> 24))]
        else:
            with ThreadPoolExecutor(self.count) as pool:
                parts = list(pool.map(run, table.blocks(8 * self.count)))
        return sum(part[0] for part in parts) + own, sum(part[1] for part in parts)


class Cluster:
    """The compiled kernels on the workers of a Dask cluster; blocks of rows are sent once and stay there."""

    def __init__(self, address: Any) -> None:
        try:
            from distributed import Client  # noqa: PLC0415 - optional
        except ImportError as error:
            raise ValueError("engine: a cluster needs Dask; install it with `pip install droptics[dask]`") from error
        made: Any = Client
        self._own = not isinstance(address, Client)
        self.client: Any = made(address, set_as_default=False) if self._own else address
        self.workers = max(1, len(self.client.scheduler_info()["workers"]))

    def close(self) -> None:
        if self._own:
            self.client.close()

    def load(self, table: Compressed) -> list[tuple[int, int, Any]]:
        blocks = table.blocks(2 * self.workers)
        return [(low, high, self.client.scatter(block_of(table, low, high), hash=False)) for low, high in blocks]

    def hold(self, factors: Array) -> Array:
        return factors.copy()

    def release(self, held: Array) -> Array:
        return held

    def solve(
        self,
        table: list[tuple[int, int, Any]],
        fixed: Array,
        free: Array,
        strengths: Strengths,
        weights: Array,
        steps: int,
    ) -> tuple[float, float]:
        regressors, offsets, diagonals, own = prepared(fixed, strengths, weights, len(free))
        shared = self.client.scatter((regressors, offsets, diagonals), broadcast=True, hash=False)
        futures = [
            self.client.submit(_solve_remote, block, shared, free[low:high].copy(), steps, pure=False)
            for low, high, block in table
        ]
        results = self.client.gather(futures)
        for (low, high, _), (rows, _, _) in zip(table, results, strict=True):
            free[low:high] = rows
        return sum(result[1] for result in results) + own, sum(result[2] for result in results)


class Device:
    """Batched torch operations on any device: rows of similar length are padded together within a memory budget.

    On CUDA a half-sweep is recorded once as a graph and replayed, because its many small operations would otherwise
    cost more to launch than to run.
    """

    def __init__(self, device: str, memory: int = 1 << 30) -> None:
        self.device = torch.device(device)
        self.memory = memory
        self._weights: dict[int, tuple[Array, Tensor]] = {}
        self._graphs: dict[Any, tuple[Any, tuple[Tensor, Tensor], Any]] = {}

    def close(self) -> None:
        self._weights.clear()
        self._graphs.clear()

    def load(self, table: Compressed) -> Buckets:
        counts = table.counts
        order = np.argsort(-counts, kind="stable")
        empty = order[counts[order] == 0]
        order = order[counts[order] > 0]
        counts = counts[order]
        groups: list[list[Bucket]] = []
        at = held = 0
        while at < len(order):
            longest = int(counts[at])
            similar = int(np.searchsorted(-counts, -longest / _PAD_RATIO, side="right"))
            room = max(1, self.memory // (longest * 512 * table.values.dtype.itemsize))
            stop = min(max(similar, at + 1), at + room)
            real = np.arange(longest) < counts[at:stop, None]
            place = np.where(real, table.starts[order[at:stop]][:, None] + np.arange(longest), 0)
            columns = np.where(real, table.columns[place] + 1, 0).astype(np.int32)
            values = np.where(real, table.values[place], 0)
            tensors = (order[at:stop], columns, values, counts[at:stop].astype(values.dtype))
            held += stop - at
            if not groups or held * 128 * 128 * table.values.dtype.itemsize > self.memory:
                groups.append([])
                held = stop - at
            groups[-1].append(Bucket(*(torch.from_numpy(array).to(self.device) for array in tensors)))
            at = stop
        return Buckets(groups, torch.from_numpy(empty).to(self.device))

    def hold(self, factors: Array) -> Tensor:
        return torch.from_numpy(factors.copy()).to(self.device)

    def release(self, held: Tensor) -> Array:
        return held.cpu().numpy()

    def solve(
        self, table: Buckets, fixed: Tensor, free: Tensor, strengths: Strengths, weights: Array, steps: int
    ) -> tuple[Tensor, Tensor]:
        if id(weights) not in self._weights:
            self._weights[id(weights)] = weights, torch.as_tensor(weights, device=self.device).double()
        counts = self._weights[id(weights)][1]
        if self.device.type != "cuda" or steps == 0:
            return solve_buckets(table, fixed, free, strengths, counts, steps)
        key = (id(table), id(fixed), id(free), strengths, steps)
        if key not in self._graphs:
            before = free.clone()
            solve_buckets(table, fixed, free, strengths, counts, steps)  # libraries set themselves up on first use
            free.copy_(before)
            torch.cuda.synchronize(self.device)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                reached = solve_buckets(table, fixed, free, strengths, counts, steps)
            self._graphs[key] = graph, reached, (table, fixed, free)
        graph, reached, _ = self._graphs[key]
        graph.replay()
        return reached


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


def solve_buckets(
    table: Buckets, fixed: Tensor, free: Tensor, strengths: Strengths, weights: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """One half-sweep over all buckets, in place on `free`; no value is read back, so it can be recorded."""
    squares = fixed.double().square()
    plain, weighted = squares.sum(0), weights @ squares
    width = strengths.width
    regressors = torch.cat([fixed.new_zeros(1, fixed.shape[1]), fixed])
    offsets = torch.zeros_like(regressors[:, 0])
    if strengths.bias is not None:
        offsets = regressors[:, width].clone()
        regressors[1:, width] = 1
    total = weights.sum()
    level = strengths.level(plain, weighted, total, len(fixed))
    diagonals = _diagonals(strengths, level, total / len(free)).to(free.dtype)
    totals = torch.zeros(2, dtype=torch.float64, device=free.device)
    for group in table.full:
        parts = []
        for bucket in group:
            at = bucket.columns.reshape(-1)
            panel = regressors.index_select(0, at).reshape(*bucket.columns.shape, -1)
            targets = bucket.values - offsets.index_select(0, at).reshape(bucket.columns.shape)
            gram, right = torch.bmm(panel.mT, panel), torch.bmm(targets[:, None], panel)[:, 0]
            parts.append((bucket.rows, gram, right, targets.square().sum(1, dtype=torch.float64), bucket.counts))
        rows, gram, right, size, counts = (torch.cat(kind) for kind in zip(*parts, strict=True))
        d = diagonals[0] * gram.diagonal(dim1=-2, dim2=-1) + counts[:, None] * diagonals[1] + diagonals[2]
        solved, reached = solve_systems(gram, right, size, d, free.index_select(0, rows), steps)
        free.index_copy_(0, rows, solved)
        totals += reached
    free.index_fill_(0, table.empty, 0.0)
    own = strengths.ridge * plain[:width].sum() + strengths.weighted * weighted[:width].sum()
    if strengths.bias is not None:
        own = own + strengths.bias * plain[width]
    return totals[0] + own, totals[1]


def solve_systems(
    gram: Tensor, right: Tensor, size: Tensor, d: Tensor, start: Tensor, steps: int
) -> tuple[Tensor, Tensor]:
    """The row systems of `least_squares` for a batch, from Gram matrices R^T R, R^T y, |y|^2 and diagonals.

    Returns the solutions and the float64 pair (penalized, plain) sums of squares over the batch.
    """
    gram.diagonal(dim1=-2, dim2=-1).add_(d)
    r = right - torch.bmm(gram, start[..., None])[..., 0]
    # |y|^2 - <b, x> - <r, x> is the penalized sum of squares at x when r is the residual there.
    value = size - (start.double() * (right + r)).sum(1)
    x, decrease = _direct(gram, r, start) if steps == 0 else _conjugate_gradients(gram, r, start, steps)
    value = value - decrease
    plain = value - (d * x * x).sum(1, dtype=torch.float64)
    return x, torch.stack([value.sum(), plain.sum()])


def prepared(fixed: Array, strengths: Strengths, weights: Array, rows: int) -> tuple[Array, Array, Array, float]:
    """Regressors (with 1 for the bias), offsets (the fixed side's biases), diagonals, and the fixed side's own part."""
    plain, weighted = column_sums(fixed, weights)
    regressors = fixed.copy()
    offsets = np.zeros(len(fixed), fixed.dtype)
    if strengths.bias is not None:
        offsets = regressors[:, strengths.width].copy()
        regressors[:, strengths.width] = 1
    total = max(float(weights.sum()), 1.0)
    level = strengths.level(plain, weighted, total, len(fixed))
    return regressors, offsets, strengths.diagonals(level, total, rows), strengths.own(plain, weighted)


def block_of(table: Compressed, low: int, high: int) -> tuple[Array, Array, Array]:
    """Rows low..high-1 of a table as three plain arrays."""
    part = slice(int(table.starts[low]), int(table.starts[high]))
    return table.starts[low : high + 1], np.asarray(table.columns[part]), np.asarray(table.values[part])


def solve_block(
    block: tuple[Array, Array, Array], regressors: Array, offsets: Array, rows: Array, diagonals: Array, steps: int
) -> tuple[float, float]:
    """Run the kernel on one block of rows, in place."""
    found: tuple[float, float] = solve_rows(*block, regressors, offsets, rows, diagonals, steps)
    return found


def _solve_remote(
    block: tuple[Array, Array, Array], shared: tuple[Array, Array, Array], rows: Array, steps: int
) -> tuple[Array, float, float]:
    # What arrives over the wire is read-only, which the compiled kernels would take for another type.
    block, shared, rows = tuple(map(np.array, block)), tuple(map(np.array, shared)), np.array(rows)  # type: ignore[assignment]
    regressors, offsets, diagonals = shared
    return (rows, *solve_block(block, regressors, offsets, rows, diagonals, steps))


def _diagonals(strengths: Strengths, level: Tensor, per_row: Tensor) -> Tensor:
    """`Strengths.diagonals` without reading anything back from the device."""
    rows = torch.zeros(3, strengths.columns, dtype=torch.float64, device=level.device)
    width = strengths.width
    rows[0, :width] = strengths.empirical
    rows[1, :width] = strengths.expected * (1 - strengths.smoothing) * level[:width] + strengths.weighted
    rows[2, :width] = strengths.expected * strengths.smoothing * per_row * level[:width] + strengths.ridge
    if strengths.bias is not None:
        rows[2, width : width + 1] = strengths.bias  # a slice is filled on the device; one entry would be copied there
    return rows


def _direct(system: Tensor, r: Tensor, start: Tensor) -> tuple[Tensor, Tensor]:
    full = system.double()
    diagonal = full.diagonal(dim1=-2, dim2=-1)
    diagonal += (diagonal == 0).double()
    factor, info = torch.linalg.cholesky_ex(full)
    move = torch.cholesky_solve(r.double()[..., None], factor)[..., 0]
    singular = (info > 0) | ~torch.isfinite(move).all(-1)
    if bool(singular.any()):
        inverse = torch.linalg.pinv(full[singular], hermitian=True)
        move[singular] = torch.bmm(inverse, r[singular].double()[..., None])[..., 0]
    return (start + move.to(start.dtype)), (move * r.double()).sum(1)


def _conjugate_gradients(system: Tensor, r: Tensor, start: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    tiny = torch.finfo(start.dtype).tiny
    scale = system.diagonal(dim1=-2, dim2=-1)
    inverse = torch.where(scale > 0, 1 / scale.clamp_min(tiny), 0)
    x, p = start, inverse * r
    rho = (p * r).sum(1)
    decrease = torch.zeros(len(x), dtype=torch.float64, device=x.device)
    for step in range(steps):
        q = torch.bmm(system, p[..., None])[..., 0]
        curvature, slope = (p * q).sum(1), (p * r).sum(1)
        alpha = torch.where(curvature > 0, slope / curvature.clamp_min(tiny), 0)
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
