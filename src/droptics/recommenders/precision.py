"""Gram matrix of interactions and its regularized inverse, in one square array.

X is users x items, G = X^T X, and C = (G + diag(gamma))^-1. Below the diagonal the array holds G, on it and above it C;
the diagonal of G is kept apart. C is never mirrored: products use the triangle.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
import torch
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.compiling import njit
from droptics.recommenders.elimination import invert
from droptics.recommenders.ratings import Compressed

_TILE = 512
_MANY = 5000


class Precision:
    """G and C = (G + diag(gamma))^-1 of `size` items; `diagonal` is that of G, `variances` that of C.

    Cost: `add` O(sum_u n_u^2), `factorize` size^3 operations in place, or on a torch `device`, `times` 2 size^2
    operations a row.
    """

    def __init__(self, size: int, dtype: Any = np.float32, device: Any = None) -> None:
        self.device = device
        self.array: Array = np.zeros((size, size), dtype, order="F")
        self.diagonal: NDArray[np.float64] = np.zeros(size)

    @classmethod
    def of(cls, array: Array, diagonal: NDArray[np.float64]) -> Precision:
        """Take arrays that were kept from another one."""
        made = cls(0, array.dtype)
        made.array, made.diagonal = np.asfortranarray(array), diagonal
        return made

    def __len__(self) -> int:
        return len(self.diagonal)

    @property
    def variances(self) -> NDArray[np.float64]:
        """Diagonal of C."""
        found: NDArray[np.float64] = self.array.diagonal().astype(np.float64)
        return found

    def add(self, rows: Compressed, sign: float = 1.0) -> None:
        """Add x x^T of every row x to G (`sign=-1` takes it away)."""
        kind = self.array.dtype.type
        columns, values = np.array(rows.columns), np.array(rows.values, kind)
        _add_outer(rows.starts, columns, values, kind(sign), self.array, self.diagonal)

    def grow(self, size: int) -> None:
        """Make room for more items, whose rows of G are zero."""
        array = np.zeros((size, size), self.array.dtype, order="F")
        array[: len(self), : len(self)] = self.array
        self.array, self.diagonal = array, np.concatenate([self.diagonal, np.zeros(size - len(self))])

    def factorize(self, gamma: NDArray[np.float64]) -> None:
        """Set C for these regularizers, from a Cholesky factorization."""
        square = torch.from_numpy(self.array.T)  # the same memory, in which below is above
        _mirror(square, torch.from_numpy(self.diagonal + gamma))
        # LAPACK serves one thread and few items best; it shares out its work less well than products do
        shared = len(self) >= _MANY and torch.get_num_threads() > 1
        if not (self._eliminated(square) if self.device or shared else self._lapack()):
            raise ArithmeticError(
                f"the Gram matrix is singular to {self.array.dtype}: use a larger ridge or drop"
                + ("" if self.array.dtype == np.float64 else ', or dtype="float64"')
            )

    def _eliminated(self, square: torch.Tensor) -> bool:
        there = square.to(self.device or "cpu")
        found = invert(there)
        square.copy_(there)
        return found

    def _lapack(self) -> bool:
        lapack, double = scipy.linalg.lapack, self.array.dtype == np.float64
        factor, inverse = (lapack.dpotrf, lapack.dpotri) if double else (lapack.spotrf, lapack.spotri)
        found, failed = factor(self.array, lower=0, clean=0, overwrite_a=1)
        if not failed:
            self.array, failed = inverse(found, lower=0, overwrite_c=1)
        return not failed

    def times(self, rows: Array) -> Array:
        """The product of dense rows with C."""
        multiply = scipy.linalg.blas.dsymm if self.array.dtype == np.float64 else scipy.linalg.blas.ssymm
        kept: Array = np.ascontiguousarray(rows, self.array.dtype)
        return multiply(1.0, self.array, kept.T, side=0, lower=0).T

    def rows(self, index: Array) -> Array:
        """Whole rows of C."""
        found = np.empty((len(index), len(self)), self.array.dtype)
        for row, k in zip(found, index, strict=True):
            row[: k + 1] = self.array[: k + 1, k]
            row[k + 1 :] = self.array[k, k + 1 :]
        return found

    def gram(self) -> Array:
        """G as a symmetric matrix of its own."""
        lower = np.tril(self.array, -1)
        full: Array = lower + lower.T
        np.fill_diagonal(full, self.diagonal)
        return full


@njit(nogil=True)
def _add_outer(starts: Any, columns: Any, values: Any, sign: Any, array: Any, diagonal: Any) -> None:
    """Add x x^T below the diagonal of `array` and to `diagonal`; columns ascend within each row."""
    for row in range(len(starts) - 1):
        begin, end = starts[row] - starts[0], starts[row + 1] - starts[0]
        for b in range(begin, end):
            k, value = columns[b], sign * values[b]
            diagonal[k] += np.float64(sign) * np.float64(values[b]) * np.float64(values[b])
            for a in range(b + 1, end):
                array[columns[a], k] += value * values[a]


def _mirror(square: torch.Tensor, diagonal: torch.Tensor) -> None:
    """Copy what lies above the diagonal below it, tile by tile, on all threads, and set the diagonal."""
    for top in range(0, len(square), _TILE):
        here = slice(top, top + _TILE)
        above = square[here, here].triu(1)
        square[here, here] = above + above.T
        for left in range(0, top, _TILE):
            square[here, left : left + _TILE] = square[left : left + _TILE, here].T
    square.diagonal().copy_(diagonal)
