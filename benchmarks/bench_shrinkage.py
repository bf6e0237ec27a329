"""The k-support shrinkage against what one would use instead; every row is measured in this run.

At d = 100 and 1000 against the published search over all pairs in NumPy; at d = 10,000 against the search of Argyriou,
Foygel and Srebro (a bisection per k), a compiled search over all pairs, and a conic solver.
"""

from __future__ import annotations

from harness import Row, compare, report, several  # first: it sets the number of threads before NumPy loads

# isort: split
import sys

import cvxpy
import numba
import numpy as np
import torch

from droptics.linalg import k_support_shrink
from droptics.norms import k_support

BETA = 0.7
Array = np.ndarray


def spectrum(size: int) -> Array:
    rng = np.random.default_rng(0)
    return np.sort(np.abs(rng.normal(size=size)) * np.exp(-3 * np.arange(size) / size))[::-1].copy()


def all_pairs(values: Array, beta: float, k: int) -> Array:
    """The published search, corrected: every (rho, last), judged by the true norm; O(d) a pair in NumPy."""
    best, chosen = np.inf, values
    sums = np.concatenate([[0.0], np.cumsum(values)])
    for rho in range(1, k + 1):
        for last in range(rho, len(values) + 1):
            room = (k - rho + 1) + beta * (last - rho + 1)
            level = beta * (sums[last] - sums[rho - 1]) / room
            if level > values[last - 1] or (last < len(values) and values[last] > level):
                continue
            x = np.zeros_like(values)
            x[: rho - 1] = values[: rho - 1] / (1 + beta)
            x[rho - 1 : last] = values[rho - 1 : last] - level
            loss = ((values - x) ** 2).sum() + beta * float(k_support(torch.from_numpy(x), k)) ** 2
            if loss < best:
                best, chosen = loss, x
    return chosen


def literal_pairs(values: Array, beta: float, k: int) -> int:
    """The printed search as it stands: every pair's candidate and its squared error, O(d) each."""
    tried = 0
    best = np.inf
    for rho in range(1, k + 1):
        for last in range(rho, len(values) + 1):
            total = values[rho - 1 : last].sum()
            room = (k - rho + 1) + beta * (last - rho + 1)
            x = values.copy()
            x[: rho - 1] /= 1 + beta
            x[rho - 1 : last] -= beta * total / room
            x[last:] = 0.0
            tail = x[rho - 1 :].sum()
            loss = ((values - x) ** 2).sum() + beta * ((x[: rho - 1] ** 2).sum() + tail**2 / (k - rho + 1))
            best = min(best, loss)
            tried += 1
    return tried


def candidate(values: Array, sums: Array, beta: float, k: int, rho: int, last: int) -> Array:
    level = beta * (sums[last] - sums[rho - 1]) / ((k - rho + 1) + beta * (last - rho + 1))
    x = np.zeros_like(values)
    x[: rho - 1] = values[: rho - 1] / (1 + beta)
    x[rho - 1 : last] = values[rho - 1 : last] - level
    return x


@numba.njit
def search_pairs(values: Array, sums: Array, beta: float, k: int) -> tuple[int, int]:
    """Every pair, constant time each with prefix sums, by the optimality conditions."""
    found = (1, len(values))
    for rho in range(1, k + 1):
        for last in range(max(rho, k), len(values) + 1):
            level = beta * (sums[last] - sums[rho - 1]) / ((k - rho + 1) + beta * (last - rho + 1))
            inside = values[last - 1] > level and (last == len(values) or values[last] <= level)
            above = rho == 1 or values[rho - 2] * beta / (1 + beta) > level
            if inside and above and values[rho - 1] * beta / (1 + beta) <= level:
                found = (rho, last)  # no early end: this is the exhaustive search
    return found


def compiled_pairs(values: Array, beta: float, k: int) -> Array:
    sums = np.concatenate([[0.0], np.cumsum(values)])
    return candidate(values, sums, beta, k, *search_pairs(values, sums, beta, k))


def bisections(values: Array, beta: float, k: int) -> Array:
    """Argyriou, Foygel and Srebro (2012): for every size of the head a bisection for the end of the middle."""
    sums = np.concatenate([[0.0], np.cumsum(values)])
    size = len(values)
    for rho in range(k, 0, -1):
        low, high = k, size
        while low < high:  # the last position above its own level
            last = (low + high + 1) // 2
            level = beta * (sums[last] - sums[rho - 1]) / ((k - rho + 1) + beta * (last - rho + 1))
            low, high = (last, high) if values[last - 1] > level else (low, last - 1)
        level = beta * (sums[low] - sums[rho - 1]) / ((k - rho + 1) + beta * (low - rho + 1))
        below = values[rho - 1] * beta / (1 + beta) <= level
        if below and (rho == 1 or values[rho - 2] * beta / (1 + beta) > level):
            return candidate(values, sums, beta, k, rho, low)
    raise AssertionError("some head always fits")


def conic(values: Array, beta: float, k: int) -> Array:
    """x^2 <= t theta, 0 <= theta <= 1, sum theta <= k: minimize (v - x)^2 + beta sum t."""
    x, t, theta = (cvxpy.Variable(len(values)) for _ in range(3))
    cones = cvxpy.SOC(t + theta, cvxpy.vstack([2 * x, t - theta]), axis=0)
    loss = cvxpy.sum_squares(values - x) + beta * cvxpy.sum(t)
    problem = cvxpy.Problem(cvxpy.Minimize(loss), [cones, theta >= 0, theta <= 1, cvxpy.sum(theta) <= k])
    problem.solve(solver=cvxpy.CLARABEL)
    return np.asarray(x.value)


def row(values: Array, k: int, name: str, other: object, repeats: int, truth: Array) -> Row:
    assert callable(other)
    tensor, calls = torch.from_numpy(values), 100  # short calls are timed together
    error = np.abs(k_support_shrink(tensor, BETA, k).numpy() - truth).max()
    first, second, ratio = compare(
        several(lambda: k_support_shrink(tensor, BETA, k), calls), lambda: other(values, BETA, k), repeats
    )
    label = f"k-support shrinkage d={len(values)} k={k} / {name}"
    return Row(label, first / calls, second, calls * ratio, f"max difference {error:.0e}")


def main() -> None:
    torch.set_num_threads(1)
    rows = []
    for size in (100, 1000)[: 1 if "--quick" in sys.argv else 2]:
        values, k = spectrum(size), size // 5
        truth = all_pairs(values, BETA, k)
        rows.append(row(values, k, "all pairs (NumPy)", literal_pairs, 3 if size == 100 else 1, truth))
    values, k = spectrum(10_000), 2000
    rows += [
        row(values, k, "Argyriou, Foygel, Srebro (Python)", bisections, 9, bisections(values, BETA, k)),
        row(values, k, "all pairs (compiled)", compiled_pairs, 5, compiled_pairs(values, BETA, k)),
        row(values, k, "conic solver (Clarabel)", conic, 3, conic(values, BETA, k)),
    ]
    report("shrinkage", rows)


if __name__ == "__main__":
    main()
