"""Leading singular triples of large matrices, dense, sparse or implicit, with proved upper bounds on all values.

Block Golub-Kahan: an orthonormal basis Q of the space spanned by M G, (M M^T) M G, ... for a random block G, and
W = M^T Q. The singular values of W are lower bounds on those of M. With N = (I - Q Q^T) M, M^T M = W W^T + N^T N, and
only the last block of the recurrence leaves a residual, so that N V for the right Ritz vectors V is known from one more
product.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.checks import check_finite, check_positive

Product = Callable[[Tensor], Tensor]
# Chance, over the random test block, that the bound on the rest of the spectrum is too small.
FAILURE = 1e-10
TEST_COLUMNS = 16
TEST_DEGREE = 12
# Residual, relative to its value, below which a triple counts as found.
CONVERGED = 0.03


@dataclass(frozen=True, eq=False)
class Operator:
    """A matrix through its products with blocks of vectors; `energy` is its squared Frobenius norm."""

    shape: tuple[int, int]
    times: Product
    transposed: Product
    energy: float
    dtype: torch.dtype
    device: torch.device
    rough: tuple[Product, Product]

    @staticmethod
    def of(matrix: Any, energy: float | None = None) -> Operator:
        """Wrap a torch tensor (dense or sparse), a NumPy array, a SciPy sparse matrix or a SciPy LinearOperator.

        `energy` saves a linear operator one pass over the columns of the identity.
        """
        if isinstance(matrix, np.ndarray):
            matrix = torch.from_numpy(np.ascontiguousarray(matrix))
        if isinstance(matrix, Tensor):
            return _of_tensor(matrix, energy)
        if not (hasattr(matrix, "shape") and hasattr(matrix, "dtype") and hasattr(matrix, "T")):
            kinds = "a tensor, an array, a sparse matrix or a LinearOperator"
            raise ValueError(f"matrix must be {kinds}, got {type(matrix).__name__}")
        dtype = torch.float32 if np.dtype(matrix.dtype) == np.float32 else torch.float64
        transposed = matrix.T
        if hasattr(matrix, "tocsr"):
            matrix, transposed = matrix.tocsr(), matrix.tocsc().T
            if energy is None:
                energy = float(matrix.astype(np.float64).multiply(matrix).sum())  # entries may be in parts

        def product(left: Any) -> Product:
            return lambda block: torch.from_numpy(np.ascontiguousarray(left @ block.numpy()))

        times, back = product(matrix), product(transposed)
        rows, columns = int(matrix.shape[0]), int(matrix.shape[1])
        if energy is None:
            energy = _energy(times, columns, dtype)
        return Operator((rows, columns), times, back, energy, dtype, torch.device("cpu"), (times, back))


def _of_tensor(matrix: Tensor, energy: float | None) -> Operator:
    if matrix.ndim != 2 or not matrix.is_floating_point():
        raise ValueError(f"matrix must be a floating-point matrix, got {matrix.dtype} of shape {tuple(matrix.shape)}")
    sparse = matrix.layout != torch.strided
    matrix = matrix.detach()
    flipped = matrix.mT
    if sparse:
        matrix = matrix.to_sparse_coo().coalesce()
        flipped = matrix.mT.coalesce()
    entries = matrix.values()[None] if sparse else matrix
    if energy is None:
        energy = float(torch.linalg.vector_norm(entries, dim=1, dtype=torch.float64).square().sum())
    if not math.isfinite(energy):
        check_finite(entries, "matrix")
        raise ValueError(f"matrix must have a finite squared norm, got {energy}; scale it down")
    pair = (matrix.__matmul__, flipped.__matmul__) if sparse else _products(matrix)
    # The rest of the spectrum is only needed to a few per cent: half the precision, twice the speed.
    rough = pair if sparse else _products(matrix.float())
    return Operator((matrix.shape[0], matrix.shape[1]), *pair, energy, matrix.dtype, matrix.device, rough)


def _products(matrix: Tensor) -> tuple[Product, Product]:
    """Products with a dense matrix and its transpose, from the left: a fifth faster for blocks of few columns."""

    def times(block: Tensor) -> Tensor:
        return (block.to(matrix).mT @ matrix.mT).mT.to(block)

    def back(block: Tensor) -> Tensor:
        return (block.to(matrix).mT @ matrix).mT.to(block)

    return times, back


def _energy(times: Product, columns: int, dtype: torch.dtype) -> float:
    total = 0.0
    for start in range(0, columns, 256):
        block = torch.zeros(columns, min(256, columns - start), dtype=dtype)
        block[torch.arange(start, start + block.shape[1]), torch.arange(block.shape[1])] = 1.0
        total += float(times(block).double().square().sum())
    return total


@dataclass(frozen=True, eq=False)
class Ritz:
    """Where a Krylov run stands: basis Q, W = M^T Q, values (descending), their vectors in the basis, residual Gram.

    `residual` is (N V)^T (N V) in the order of the values: how far the triples are from exact.
    """

    basis: Tensor
    images: Tensor
    values: Array
    vectors: Tensor
    residual: Array
    complete: bool

    def found(self) -> int:
        """How many leading triples have converged to a few per cent; the rest of the spectrum begins after them."""
        sizes = np.sqrt(np.diag(self.residual).clip(min=0))
        open_ones = np.flatnonzero(sizes > CONVERGED * self.values)
        return int(open_ones[0]) if len(open_ones) else len(self.values)

    def triples(self, count: int) -> tuple[Tensor, Tensor]:
        """Left and right Ritz vectors of the largest `count` values, which must be positive."""
        chosen = self.vectors[:, :count]
        norms = torch.from_numpy(self.values[:count].copy()).to(self.basis)
        return self.basis @ chosen, (self.images @ chosen) / norms


class Krylov:
    """A block Golub-Kahan run that grows on demand; full reorthogonalization, float64 or float32 as the matrix."""

    def __init__(self, operator: Operator, block: int = 16, seed: int = 0) -> None:
        check_positive("block", block)
        self.operator = operator
        self.limit = min(operator.shape)
        self.block = min(block, self.limit)
        self.generator = torch.Generator().manual_seed(int(seed))
        start = self._random(operator.shape[1])
        # stored by columns with room to grow, so that adding a block copies nothing
        self._basis_rows, self._image_rows = (start.new_empty(8 * self.block, size) for size in operator.shape)
        self._gram = start.new_empty(0, 0, dtype=torch.float64)
        self._pending = operator.times(start)
        self._sizes: list[int] = []

    @property
    def size(self) -> int:
        """Dimension of the basis."""
        return sum(self._sizes)

    @property
    def steps(self) -> int:
        """Blocks in the basis."""
        return len(self._sizes)

    @property
    def _basis(self) -> Tensor:
        return self._basis_rows[: self.size].mT

    @property
    def _images(self) -> Tensor:
        return self._image_rows[: self.size].mT

    def grow(self) -> None:
        """Add one block to the basis: two products with the matrix."""
        fresh = self._orthonormal(self._pending, min(self.block, self.limit - self.size))
        images = self.operator.transposed(fresh)
        cross = (self._images.mT @ images).double()
        own = (images.mT @ images).double()
        self._gram = torch.cat([torch.cat([self._gram, cross], 1), torch.cat([cross.mT, (own + own.mT) / 2], 1)], 0)
        self._basis_rows = _stored(self._basis_rows, fresh, self.size)
        self._image_rows = _stored(self._image_rows, images, self.size)
        self._sizes.append(fresh.shape[1])
        self._pending = self.project(self.operator.times(images))

    def project(self, block: Tensor) -> Tensor:
        """(I - Q Q^T) block, twice for orthogonality to rounding."""
        return self._project_once(self._project_once(block))

    def ritz(self) -> Ritz:
        """Singular values and vectors of M restricted to the basis, from W^T W."""
        squares, vectors = torch.linalg.eigh(self._gram)
        squares, vectors = squares.flip(0).clamp_min(0), vectors.flip(1)
        values = squares.sqrt()
        last = self._sizes[-1]
        pending = self._pending.double()
        inverse = torch.where(values > 0, 1 / torch.where(values > 0, values, 1.0), 0.0)
        # N W is zero except for the last block, and V = W S / values
        tail = vectors[-last:] * inverse
        residual = tail.mT @ (pending.mT @ pending) @ tail
        complete = self.size >= self.limit
        left = residual.cpu().numpy() * (not complete)
        return Ritz(self._basis, self._images, values.cpu().numpy(), vectors.to(self._basis), left, complete)

    def rest_bound(self, ritz: Ritz, count: int, wanted: float = 0.0) -> float:
        """An upper bound on the norm of M without its leading `count` Ritz triples, ||(I - U U^T) M||_2.

        A Chebyshev polynomial of the deflated M M^T, at most 1 below the square of the next Ritz value, is applied to
        Gaussian vectors: a larger eigenvalue would show, unless all of them are almost orthogonal to its eigenvector.
        True with probability 1 - 1e-10 over the vectors. The degree grows until the bound is below `wanted`.
        """
        if ritz.complete:
            return float(ritz.values[count]) if count < len(ritz.values) else 0.0
        # the rest is at least as large as its root mean square
        spare = max(self.operator.energy - float((ritz.values[:count] ** 2).sum()), 0.0) / (self.limit - count + 1)
        guess = max(float(ritz.values[min(count, len(ritz.values) - 1)]), math.sqrt(spare))
        left = self._basis @ ritz.vectors[:, :count]
        times, back = self.operator.rough
        square = max(guess, math.sqrt(self.operator.energy) * 1e-12, 1e-150) ** 2

        def shifted(block: Tensor) -> Tensor:
            image = times(back(block))
            return (image - left @ (left.mT @ image)) * (2 / square) - block

        before = self._random(self.operator.shape[0], TEST_COLUMNS)
        before = before - left @ (left.mT @ before)
        current = shifted(before)
        # every degree gives a bound on its own; the failure probability is shared out among them
        floor = math.sqrt(2 * float(scipy.special.gammaincinv(TEST_COLUMNS / 2, FAILURE / TEST_DEGREE)))
        best = math.inf
        for degree in range(1, TEST_DEGREE + 1):
            gram = (current.mT @ current).double()
            if not bool(torch.isfinite(gram).all()):
                break  # the guess was far too low for this degree; the bounds of lower degrees stand
            largest = math.sqrt(max(float(torch.linalg.eigvalsh(gram)[-1]), 0.0))
            edge = math.cosh(math.acosh(max(largest / floor, 1.0)) / degree)
            # products in reduced precision may be off by a few of its units
            best = min(best, math.sqrt(square * (edge + 1) / 2) * (1 + 1e-4))
            if best <= wanted or degree == TEST_DEGREE:
                break
            before, current = current, 2 * shifted(current) - before
        return best

    def _project_once(self, block: Tensor) -> Tensor:
        return block - self._basis @ (self._basis.mT @ block)

    def _random(self, rows: int, columns: int | None = None) -> Tensor:
        drawn = torch.randn(rows, columns or self.block, generator=self.generator, dtype=torch.float64)
        return drawn.to(dtype=self.operator.dtype, device=self.operator.device)

    def _orthonormal(self, block: Tensor, count: int) -> Tensor:
        """Orthonormal columns that extend the basis; directions that the recurrence exhausted are drawn at random."""
        scale = math.sqrt(self.operator.energy) * torch.finfo(block.dtype).eps
        factor, triangle = torch.linalg.qr(block)
        inner, sizes, _ = torch.linalg.svd(triangle)  # no direction of the block above rounding may be lost
        fresh = (factor @ inner[:, sizes > 8 * scale])[:, :count]
        if self.size or fresh.shape[1] < count:
            missing = count - fresh.shape[1]
            extended = torch.cat([fresh, self._random(block.shape[0], missing)], 1) if missing else fresh
            fresh = torch.linalg.qr(self.project(extended) if missing else self._project_once(extended)).Q
        return fresh


def _stored(rows: Tensor, fresh: Tensor, size: int) -> Tensor:
    """Write the columns of `fresh` as rows from position `size` on, in a larger tensor when the room is used up."""
    if size + fresh.shape[1] > len(rows):
        larger = rows.new_empty(2 * len(rows), rows.shape[1])
        larger[:size] = rows[:size]
        rows = larger
    rows[size : size + fresh.shape[1]] = fresh.mT
    return rows


def upper_values(ritz: Ritz, found: int, rest: float, level: float, count: int) -> Array:
    """Upper bounds on the `count` largest singular values of M, given ||(I - U U^T) M||_2 <= rest < level.

    U holds the leading `found` Ritz vectors. A value above `level` is at most an eigenvalue of
    diag(values^2) + residual level^2 / (level^2 - rest^2) (Schur complement of M^T M, monotone in the eigenvalue), a
    value below it at most `level`: errors enter squared.
    """
    factor = level**2 / (level**2 - rest**2)
    grown = np.linalg.eigvalsh(np.diag(ritz.values[:found] ** 2) + factor * ritz.residual[:found, :found])[::-1]
    bounds = np.full(count, level**2)
    shared = min(count, len(grown))
    bounds[:shared] = np.maximum(grown[:shared], level**2)
    return np.sqrt(bounds)
