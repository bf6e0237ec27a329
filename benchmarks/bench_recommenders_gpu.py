"""Seconds per sweep of the batched torch path on a CUDA device, planted ratings of ml-1m's and ml-10m's size, width 70.

    python benchmarks/bench_recommenders_gpu.py

Wall time with synchronization, median of sweeps after the first (which records the graph); three conjugate-gradient
steps per row, expected penalty with lambda 2, no biases, float32.
"""

from __future__ import annotations

import statistics
import time

import numpy as np
import torch

from droptics.datasets import planted_ratings
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.engines import Device
from droptics.recommenders.ratings import observations
from harness import write


def measure(size: str, memory: int, sweeps: int = 12) -> dict[str, object]:
    data = observations(planted_ratings(size, seed=0).split(0.1, seed=0)[0])
    strengths = Strengths(70, expected=2.0)
    left = np.zeros((len(data.users), strengths.columns), np.float32)
    right = np.zeros((len(data.items), strengths.columns), np.float32)
    right[:, :70] = 0.1 * np.random.default_rng(0).standard_normal((len(right), 70))
    engine = Device("cuda", memory)
    tables = engine.load(data.by_user), engine.load(data.by_item)
    users, items = engine.hold(left), engine.hold(right)
    counts = data.by_user.counts, data.by_item.counts
    seconds, objective = [], 0.0
    for number in range(sweeps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        engine.solve(tables[0], items, users, strengths, counts[1], 3)
        total, _ = engine.solve(tables[1], users, items, strengths, counts[0], 3)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        if number == 4:
            objective = float(total) / data.count
    return {"size": size, "memory": memory, "sweep": statistics.median(seconds[1:]), "objective after 5": objective}


def main() -> None:
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device")
    rows = [measure(size, 1 << 30) for size in ("ml-1m", "ml-10m")]
    for row in rows:
        print(row)
    write("recommenders_gpu", {"device": torch.cuda.get_device_name(0), "rows": rows})


if __name__ == "__main__":
    main()
