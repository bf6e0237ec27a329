"""The regularized inverse of a Gram matrix from its leading eigenvectors, with a bound on what is cut.

X is users x items, G = X^T X, gamma > 0. With M = gamma^-1/2 G gamma^-1/2 and f(x) = x / (1 + x),

    C = (G + diag(gamma))^-1 = gamma^-1/2 (I - f(M)) gamma^-1/2 ,

and M is replaced by Q diag(theta) Q^T of low rank. Both are positive semi-definite and f is operator monotone with
f(0) = 0, so that by Ando's inequality the inverse is off by at most f(|M - Q diag(theta) Q^T|) in units of gamma. Only
products with the sparse X are taken: memory items x rank.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.recommenders.interactions import as_matrix
from droptics.recommenders.ratings import Compressed

_MORE, _PASSES = 16, 8  # columns beside those asked for, and products with M that turn them to the leading ones
_PROBES, _POWER = 6, 8


class LowRank:
    """What `Precision` offers, from `rank` eigenpairs; `cut` bounds |gamma^1/2 (C - this) gamma^1/2|.

    The bound holds with probability 1 - 10^-6 over its random probes. Cost of `factorize`: about 30 products with X and
    its transpose of `rank` columns each, and O(items rank^2); `times` O(items rank) a row.
    """

    def __init__(self, rows: Compressed, items: int, rank: int, dtype: Any = np.float32) -> None:
        self.rank = min(rank, items)
        self._table = as_matrix(rows, items).astype(dtype)
        self.diagonal: NDArray[np.float64] = np.asarray(self._table.power(2).sum(0), np.float64).ravel()
        self.basis: Array = np.zeros((items, 0), dtype)
        self.filter: NDArray[np.float64] = np.zeros(0)
        self.cut = 1.0

    def __len__(self) -> int:
        return len(self.diagonal)

    def factorize(self, gamma: NDArray[np.float64]) -> None:
        """Set the leading eigenvectors for these regularizers."""
        if not (gamma > 0).all():
            raise ArithmeticError("low rank needs positive regularizers: use a ridge above zero")
        self.gamma = gamma
        dtype, root = self.basis.dtype, (gamma**-0.5).astype(self.basis.dtype)[:, None]

        def moment(block: Array) -> Array:
            found: Array = root * (self._table.T @ (self._table @ (root * block)))
            return found

        rng = np.random.default_rng(0)
        block = rng.standard_normal((len(self), min(self.rank + _MORE, len(self)))).astype(dtype)
        for _ in range(_PASSES):
            block = np.linalg.qr(moment(block))[0]
        values, turn = np.linalg.eigh(block.T @ moment(block))
        theta = np.maximum(values[::-1][: self.rank].astype(np.float64), 0.0)
        self.basis = np.ascontiguousarray(block @ turn[:, ::-1][:, : self.rank])
        self.filter = theta / (1 + theta)
        rest = rng.standard_normal((len(self), _PROBES))
        for _ in range(_POWER):
            low = self.basis @ (theta[:, None] * (self.basis.T @ rest))
            rest = moment(rest) - low
        # |R^q| <= 10 sqrt(2 / pi) max |R^q w| for Gaussian w, except with probability 10^-probes
        norm = (10 * np.sqrt(2 / np.pi) * float(np.linalg.norm(rest, axis=0).max())) ** (1 / _POWER)
        self.cut = norm / (1 + norm)

    @property
    def variances(self) -> NDArray[np.float64]:
        """Diagonal of C."""
        found: NDArray[np.float64] = (1 - np.square(self.basis, dtype=np.float64) @ self.filter) / self.gamma
        return found

    def times(self, rows: Array) -> Array:
        """The product of dense rows with C."""
        root = self.gamma**-0.5
        scaled = rows * root
        found: Array = (scaled - ((scaled @ self.basis) * self.filter) @ self.basis.T) * root
        return found

    def rows(self, index: Array) -> Array:
        """Whole rows of C."""
        unit = np.zeros((len(index), len(self)))
        unit[np.arange(len(index)), index] = 1
        return self.times(unit)
