"""Where half-sweeps run: threads of this process, a torch device, or a Dask cluster; the same row systems."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from droptics.arrays import Array
from droptics.clusters import connect
from droptics.recommenders.alternation import Strengths, Sweeper, column_sums
from droptics.recommenders.device import Device
from droptics.recommenders.least_squares import solve_rows
from droptics.recommenders.ratings import Compressed


def sweeper_for(
    engine: Any = None, device: str | None = None, threads: int | None = None, memory: int = 1 << 30
) -> Sweeper:
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
        self._own = isinstance(address, str)
        if not self._own and not hasattr(address, "scheduler_info"):
            raise ValueError(
                f"engine must be the address of a Dask scheduler or a client, got {type(address).__name__}"
            )
        self.client: Any = connect(address) if self._own else address
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
