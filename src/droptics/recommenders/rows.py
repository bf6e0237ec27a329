"""The row systems of one side, from the factors of the other: regressors, offsets, diagonals, blocks of rows."""

from __future__ import annotations

import numpy as np

from droptics.arrays import Array
from droptics.recommenders.alternation import Strengths, column_sums
from droptics.recommenders.least_squares import solve_rows
from droptics.recommenders.ratings import Compressed
from droptics.recommenders.tiles import aligned


def prepared(fixed: Array, strengths: Strengths, weights: Array, rows: int) -> tuple[Array, Array, Array, float]:
    """Regressors (with 1 for the bias), offsets (the fixed side's biases), diagonals, and the fixed side's own part."""
    return (*regressors_of(fixed, strengths), *parts_of(column_sums(fixed, weights), strengths, weights, rows))


def regressors_of(fixed: Array, strengths: Strengths) -> tuple[Array, Array]:
    """Regressors, with 1 for the bias and zeros that fill a row's last vector, and offsets, the fixed side's biases."""
    regressors: Array = aligned(fixed, *fixed.shape)
    regressors[:, : fixed.shape[1]] = fixed
    offsets = np.zeros(len(fixed), fixed.dtype)
    if strengths.bias is not None:
        offsets = regressors[:, strengths.width].copy()
        regressors[:, strengths.width] = 1
    return regressors, offsets


def parts_of(sums: tuple[Array, Array], strengths: Strengths, weights: Array, rows: int) -> tuple[Array, float]:
    """Diagonals of the rows' systems, with the regressors' mean squares, and the fixed side's part, from its sums."""
    total = max(float(weights.sum()), 1.0)
    level = strengths.level(*sums, total, len(weights))
    zeros = np.zeros((4, strengths.columns))
    return strengths.diagonals(level, total / max(rows, 1), sums[1] / total, zeros), float(strengths.own(*sums))


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
