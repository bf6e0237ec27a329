"""Seconds per sweep on a CUDA device, width 70, planted ratings of two sizes: Triton, plain torch and dropout SGD.

    python benchmarks/bench_recommenders_gpu.py [--sizes ml-1m ml-10m]

Wall time with synchronization, median of sweeps after the first (which compiles and records the graph); three
conjugate-gradient steps per row, expected penalty with lambda 2, no biases, float32. Both start from the same factors;
their objectives after five sweeps stand beside, and that of the compiled CPU kernels. Dropout SGD (batch 2000) is timed
per epoch, the second one, on the same device.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import torch

from droptics.datasets import planted_ratings
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.ratings import Observations, observations
from droptics.recommenders.sgd import Sgd, descend
from droptics.recommenders.sweepers import Device, Threads
from harness import Row, report

STRENGTHS = Strengths(70, expected=2.0)


def start(data: Observations) -> tuple[np.ndarray, np.ndarray]:
    left = np.zeros((len(data.users), STRENGTHS.columns), np.float32)
    right = np.zeros((len(data.items), STRENGTHS.columns), np.float32)
    right[:, :70] = 0.1 * np.random.default_rng(0).standard_normal((len(right), 70))
    return left, right


def measure(data: Observations, engine: Device | Threads, sweeps: int) -> tuple[list[float], float]:
    """Seconds of every sweep and the objective after five."""
    users, items = (engine.hold(side) for side in start(data))
    tables = engine.load(data.by_user), engine.load(data.by_item)
    counts = data.by_user.counts, data.by_item.counts
    seconds, objective = [], 0.0
    for number in range(sweeps):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        engine.solve(tables[0], items, users, STRENGTHS, counts[1], 3)
        total, _ = engine.solve(tables[1], users, items, STRENGTHS, counts[0], 3)
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        if number == 4:
            objective = float(total) / data.count
    engine.close()
    return seconds, objective


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=["ml-1m", "ml-10m"])
    sizes = parser.parse_args().sizes
    if not torch.cuda.is_available():
        raise SystemExit("no CUDA device")
    rows: list[Row] = []
    for size in sizes:
        data = observations(planted_ratings(size, seed=0).split(0.1, seed=0)[0])
        plain, plain_objective = measure(data, Device("cuda", 1 << 30, kernel=False), 32)
        ours, objective = measure(data, Device("cuda", 1 << 30), 32)
        _, reference = measure(data, Threads(), 5)
        sweep, other = statistics.median(ours[1:]), statistics.median(plain[1:])
        reached = (
            f"objective after 5 sweeps {objective:.6f}, in torch {plain_objective:.6f}, on the CPU {reference:.6f}"
        )
        lines = descend(data, start(data), Strengths(70, empirical=2.0), Sgd(2 / 3, 2, 10.0, 2000, device="cuda"))[1]
        epoch = lines[1].seconds - lines[0].seconds
        rows += [
            Row(f"sweep, {size} size, GPU, vs plain torch", sweep, other, other / sweep, reached),
            Row(f"sweep, {size} size, GPU, vs an epoch of dropout SGD", sweep, epoch, epoch / sweep, "per pass"),
        ]
        report("recommenders_gpu", rows, "cuda")


if __name__ == "__main__":
    main()
