"""Where half-sweeps run: threads of this process, a torch device, or a Dask cluster; the same row systems."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from droptics.arrays import Array
from droptics.clusters import cores
from droptics.recommenders.alternation import Strengths, Sweeper
from droptics.recommenders.device import Device
from droptics.recommenders.partitioned import Cluster
from droptics.recommenders.ratings import Compressed, let_go
from droptics.recommenders.rows import block_of, prepared, solve_block

FEW = 1 << 13  # ratings for which threads would take longer to start than they save


def sweeper_for(engine: Any, device: str | None, threads: int | None, memory: int) -> Sweeper:
    """The engine asked for: a Dask cluster (address or client), a torch device, or threads (the default: all cores)."""
    if engine is not None and device is not None:
        raise ValueError("engine and device exclude each other: a cluster runs the compiled kernels")
    if engine is not None:
        return Cluster(engine)
    return Threads(threads) if device is None else Device(device, memory)


class Threads:
    """The compiled kernels on threads of this process; they hold no interpreter lock."""

    def __init__(self, count: int | None = None) -> None:
        self.count, self.least = (cores(), FEW) if count is None else (count, 0)
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
            found = solve_block(block_of(table, low, high), regressors, offsets, free[low:high], diagonals, steps)
            let_go(table.columns, table.values)
            return found

        if self.count == 1 or table.starts[-1] < self.least:
            parts = [run(rows) for rows in table.blocks(max(1, int(table.starts[-1]) >> 24))]
        else:
            with ThreadPoolExecutor(self.count) as pool:
                parts = list(pool.map(run, table.blocks(8 * self.count)))
        return sum(part[0] for part in parts) + own, sum(part[1] for part in parts)
