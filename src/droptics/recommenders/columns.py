"""Sums over some rows for the systems of all columns: what `least_squares` forms column by column; compiled."""

from __future__ import annotations

from typing import Any

from droptics.compiling import njit
from droptics.recommenders.tiles import FAST


@njit(nogil=True, fastmath=FAST)
def start_columns(
    starts: Any, columns: Any, values: Any, regressors: Any, offsets: Any, solution: Any, into: Any, squares: Any
) -> float:
    """What `tiles.start` gives, for the columns of a table whose rows are fixed: sums over this part of the rows.

    Adds R_j^T (y_j - R_j x_j) to `into` and diag(R_j^T R_j) to `squares` for every column j, in float64; returns the
    sum of squared errors. Cost O(width) a rating.
    """
    width = solution.shape[1]
    zero = regressors.dtype.type(0)
    total = 0.0
    for row in range(len(starts) - 1):
        w = regressors[row]
        for m in range(starts[row] - starts[0], starts[row + 1] - starts[0]):
            j = columns[m]
            t = zero
            for k in range(width):
                t += w[k] * solution[j, k]
            t = values[m] - offsets[row] - t
            total += t * t
            for k in range(width):
                into[j, k] += t * w[k]
                squares[j, k] += w[k] * w[k]
    return total


@njit(nogil=True, fastmath=FAST)
def apply_columns(starts: Any, columns: Any, regressors: Any, directions: Any, into: Any) -> None:
    """Add R_j^T R_j p_j to row j of `into` for every column j, over this part of the rows, in float64."""
    width = directions.shape[1]
    zero = regressors.dtype.type(0)
    for row in range(len(starts) - 1):
        w = regressors[row]
        for m in range(starts[row] - starts[0], starts[row + 1] - starts[0]):
            j = columns[m]
            t = zero
            for k in range(width):
                t += w[k] * directions[j, k]
            for k in range(width):
                into[j, k] += t * w[k]
