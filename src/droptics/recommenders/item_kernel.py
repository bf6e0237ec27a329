"""A kernel between columns of a rating matrix, and one small regression per row with it.

R holds residuals of ratings (their mean square 1; 0 where nothing is rated) and O ones where something is:

    K = A (R^T N R + tau O^T N O) A,     A = diag(n_j + 20)^-1/2,     N = diag(n_u + 1)^-1/2, scaled to mean 1.

The row of user u, with rated columns S and residuals y, is regressed with K less her own part of it (of rank two), so
that training and prediction see the same features:

    f_u(j) = K_jS alpha_u,     (K_SS - own_u + ridge I) alpha_u = y.

Leaving a rating out is closed form: its error is alpha_i over the i-th diagonal entry of the inverse. Cost n_u^3 / 3
per row, three times that with the leave-one-out errors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from droptics.arrays import Array
from droptics.recommenders.precision import Precision
from droptics.recommenders.ratings import Compressed

_COUNT_SHRINK = 20.0


class Kernel:
    """R^T N R and O^T N O over the columns of a table of residuals, kept apart so that tau can be chosen."""

    def __init__(self, table: Compressed, columns: int, dtype: Any = np.float32) -> None:
        self.table = table
        counts = table.counts
        weights = 1 / np.sqrt(counts + 1.0)
        self.row_weights = weights / weights.mean()
        self.scales = 1 / np.sqrt(np.bincount(table.columns, minlength=columns) + _COUNT_SHRINK)
        root = np.repeat(np.sqrt(self.row_weights), counts)
        self.values, self.ones = (
            _gram(Compressed(table.starts, table.columns, part * root), columns, dtype) for part in (table.values, 1.0)
        )

    def matrix(self, implicit: float) -> Array:
        """K."""
        found: Array = self.values + self.values.dtype.type(implicit) * self.ones
        found *= self.scales[:, None]
        found *= self.scales
        return found

    def system(self, row: int, implicit: float) -> tuple[Array, Array]:
        """K_SS less the row's own part, and y."""
        part = slice(int(self.table.starts[row]), int(self.table.starts[row + 1]))
        chosen, y = self.table.columns[part], self.table.values[part]
        at = np.ix_(chosen, chosen)
        system = self.values[at] + self.values.dtype.type(implicit) * self.ones[at]
        system -= self.row_weights[row] * (np.outer(y, y) + implicit)
        scale = self.scales[chosen]
        system *= scale[:, None]
        system *= scale
        return system, y

    def coefficients(self, row: int, implicit: float, ridge: float) -> Array:
        """Alpha of one row."""
        system, y = self.system(row, implicit)
        return _factored(system, ridge, y)[1]

    def left_out(self, row: int, implicit: float, ridges: tuple[float, ...]) -> list[Array]:
        """Errors of predicting each rating of a row from its other ratings, for several ridges."""
        system, y = self.system(row, implicit)
        found = []
        inverted = scipy.linalg.lapack.dpotri if system.dtype == np.float64 else scipy.linalg.lapack.spotri
        for ridge in ridges:
            factor, alpha = _factored(system, ridge, y)
            inverse, _ = inverted(factor, lower=1)
            found.append(alpha / inverse.diagonal())
        return found


def _gram(table: Compressed, columns: int, dtype: Any) -> Array:
    held = Precision(columns, dtype)
    held.add(table)
    return np.ascontiguousarray(held.gram())


def _factored(system: Array, ridge: float, y: Array) -> tuple[Array, Array]:
    lapack, double = scipy.linalg.lapack, system.dtype == np.float64
    factor, failed = (lapack.dpotrf if double else lapack.spotrf)(
        system + ridge * np.eye(len(y), dtype=system.dtype), lower=1, overwrite_a=1
    )
    if failed:
        raise ArithmeticError(f'a row system is singular to {system.dtype}: use a larger ridge or dtype="float64"')
    alpha, _ = (lapack.dpotrs if double else lapack.spotrs)(factor, y.astype(system.dtype), lower=1)
    return factor, alpha
