"""What a claim compares of rows of every width: those whose end is a part of a vector, those of many vectors."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from droptics.arrays import Array
from droptics.evidence.claims import Comparison, compare
from droptics.recommenders.least_squares import solve_rows

# Ends of one, two, and three parts of a vector, and rows of more vectors than stay in registers.
WIDTHS = (1, 2, 3, 5, 6, 7, 11, 13, 61, 107)
LENGTHS = (3, 41, 0, 9, 230)


def every_width(scale: float) -> list[Comparison]:
    """Rows whose penalties are shares of their own sums of squares, solved at once and by conjugate gradients."""
    found: list[Comparison] = []
    rng = np.random.default_rng(11)
    starts = np.cumsum([0, *LENGTHS])
    places = rng.integers(0, 300, starts[-1]).astype(np.int32)
    for width in WIDTHS:
        table, values, offsets = rng.normal(size=(300, width)), rng.normal(size=starts[-1]), rng.normal(size=300)
        strengths = rng.uniform(0.5, 2.0, (3, width)) * np.array([[1.0], [1.0], [0.3]])
        for kind, precision in ((np.float64, 1e-9), (np.float32, 1e-3)):
            rows, rated, beside = (part.astype(kind) for part in (table, values, offsets))
            begun = rng.normal(size=(len(LENGTHS), width)).astype(kind)
            wanted, sums = _solved(starts, places, rated, rows, beside, strengths)
            for steps in (0, 25):
                free = begun.copy()
                told = solve_rows(starts, places, rated, rows, beside, free, strengths, steps)
                label = f"{width} factors, {steps} steps, {np.dtype(kind).name}"
                found.append(compare(free, "==", scale * wanted, f"rows, {label}", precision))
                found.append(compare(told, "==", scale * sums, f"their sums, {label}", precision))
    return found


def _solved(starts: Array, places: Array, values: Array, table: Array, offsets: Array, d: Array) -> tuple[Array, Array]:
    """The rows' solutions by their normal equations; the penalized and the plain sum of squares."""
    found, sums = np.zeros((len(starts) - 1, table.shape[1])), np.zeros(2)
    for k, (begin, end) in enumerate(pairwise(starts)):
        if begin < end:
            x = table[places[begin:end]].astype(np.float64)
            y = values[begin:end].astype(np.float64) - offsets[places[begin:end]]
            own = d[0] * np.square(x).sum(0) + (end - begin) * d[1] + d[2]
            found[k] = np.linalg.solve(x.T @ x + np.diag(own), x.T @ y)
            rest = np.square(y - x @ found[k]).sum()
            sums += rest + own @ found[k] ** 2, rest
    return found, sums
