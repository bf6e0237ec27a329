"""Large problems on one core: time, memory and how both grow, beside a model of the cost.

- `sparse`: `optimum_of_map` of a sparse map of 50,000 x 20,000 with 50 planted directions, width 100, and of maps of a
  half and a quarter of both sides. Model: the products with the stored numbers, scaled to the smallest map.
- `relu`: the exact criterion of a ReLU network with three layers, up to 2^64 masks. Model: the seconds that
  `relu_cost` expects before the sum begins, by which `ClosedForm` refuses sums that take too long.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable

from harness import Row, in_turn, merge  # isort: skip  (sets the number of threads before torch is loaded)

import numpy as np
import torch
from scipy import sparse

from bench_relu import DROP, exact, example, network
from droptics.masks import Bernoulli
from droptics.optima import optimum_of_map
from droptics.penalties import relu_cost

ROWS, COLUMNS, WIDTH, BLOCK = 50_000, 20_000, 100, 16
SHARES = (4, 2, 1)  # of both sides
UNITS = (38, 42, 46)  # of the middle layer; 8 inputs and 10 units of the last layer have masks too


def planted_map(rows: int, columns: int) -> sparse.csr_array:
    """50 directions of decaying size, each a fiftieth of the rows and columns, and ten small numbers a row."""
    rng = np.random.default_rng(0)
    left, right = (
        sparse.random_array((side, 50), density=0.02, rng=rng, data_sampler=rng.standard_normal).tocsr()
        for side in (rows, columns)
    )
    noise = sparse.random_array((rows, columns), density=10 / columns, rng=rng, data_sampler=rng.standard_normal)
    sizes = sparse.diags_array(1 / (1 + np.arange(50.0)))
    return (left @ sizes @ right.T + 0.1 * noise).tocsr()


def solve(share: int) -> tuple[float, float, str]:
    """CPU seconds, operations of the model and what the answer says, for a map of 1 / share of both sides."""
    matrix = planted_map(ROWS // share, COLUMNS // share)
    optimum_of_map(planted_map(1000, 800), Bernoulli(0.5, WIDTH))  # compiles
    begin = time.process_time()
    answer = optimum_of_map(matrix, Bernoulli(0.5, WIDTH))
    seconds = time.process_time() - begin
    steps = int(re.search(r"(\d+) steps", answer.method)[1])  # type: ignore[index]
    size = steps * BLOCK
    work = 4.0 * matrix.nnz * size
    shape = " x ".join(f"{side:,}" for side in matrix.shape)
    return (
        seconds,
        work,
        f"{shape}, {matrix.nnz:,} numbers, basis of {size}, gap {answer.gap / answer.scale:.0e} of the energy",
    )


def sum_over(units: int) -> tuple[float, float, str]:
    """CPU seconds, those that were expected and the number of masks, for a middle layer of so many units."""
    exact(network(8, 34, 10, 1), example(8))  # compiles
    model, sample = network(8, units, 10, 1), example(8)
    expected = relu_cost(model, sample, Bernoulli(DROP, model.units)).seconds
    begin = time.process_time()
    value = exact(model, sample)
    return time.process_time() - begin, expected, f"2^{model.units} masks, criterion {float(value):.6g}"


def apart(name: str, size: int) -> tuple[float, float, str, float]:
    """One problem in a process of its own: what it says, and its largest memory beyond the loaded library in MB."""
    code = f"import bench_large; print(*bench_large.told(bench_large.{name}, {size}), sep=chr(9))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seconds, work, text, memory = done.stdout.strip().split("\t")
    print(f"   {name} {size}: {float(seconds):.3g} s, {float(memory):.0f} MB, {text}", flush=True)
    return float(seconds), float(work), text, float(memory)


def told(call: Callable[[int], tuple[float, float, str]], size: int) -> tuple[float, float, str, float]:
    """What a problem takes, with its memory."""
    torch.set_num_threads(1)
    scale = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found = call(size)
    return *found, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * scale / 1e6


def rows_of(label: str, found: list[tuple[float, float, str, float]], rate: float) -> list[Row]:
    """One row a problem, beside the model at this rate."""
    note = "the alternative is the model of the cost"
    return [
        Row(f"{label}, {text}", seconds, rate * work, rate * work / seconds, f"{memory:,.0f} MB", note)
        for seconds, work, text, memory in found
    ]


def sparse_rows() -> list[Row]:
    found = [apart("solve", share) for share in SHARES]
    return rows_of("optimum of a sparse map", found, found[0][0] / found[0][1])


def relu_rows() -> list[Row]:
    return rows_of("ReLU criterion, three layers", [apart("sum_over", units) for units in UNITS], 1.0)


PARTS = {"sparse": sparse_rows, "relu": relu_rows}

if __name__ == "__main__":
    chosen = [name for name in sys.argv[1:] if name in PARTS]
    for name in chosen:
        merge("large", PARTS[name]())
    if not chosen:
        in_turn("large", PARTS)
