"""Eigenvalues of a second moment whose features are measured in very different units."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.transforms import as_array

# Sweeps over all pairs of columns; a handful is enough where no direction is without energy.
SWEEPS = 30


def graded_eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (ascending) and eigenvectors of a positive semi-definite matrix, small ones as exact as large ones.

    One-sided rotations (Jacobi; Demmel and Veselic 1992) of the columns of G diag(units), where G^T G is the matrix
    after every feature is put into its own units: only the condition of that counts, and its null space is exact.
    Leading dimensions are a batch. Cost: O(d^3) a sweep, in Python.
    """
    arrays = as_array(matrix).reshape(-1, *matrix.shape[-2:])
    values, vectors = (np.stack(part) for part in zip(*map(_graded, arrays), strict=True))
    found = torch.as_tensor(values, device=matrix.device), torch.as_tensor(vectors, device=matrix.device)
    return found[0].reshape(matrix.shape[:-1]), found[1].reshape(matrix.shape)


def _graded(matrix: Array) -> tuple[Array, Array]:
    size, eps = len(matrix), float(np.finfo(matrix.dtype).eps)
    units = np.ldexp(1.0, np.frexp(np.sqrt(np.maximum(matrix.diagonal(), 0)))[1]).astype(matrix.dtype)
    energies, directions = np.linalg.eigh(matrix / units[:, None] / units)
    alive = energies > size * eps * energies[-1]
    # large features first; below the columns stands what has been turned so far
    order = np.argsort(-units, kind="stable")
    columns = np.sqrt(np.where(alive, energies, 0))[:, None] * directions.T * units
    stacked = np.concatenate([columns, np.eye(size, dtype=matrix.dtype)])[:, order]
    for _ in range(SWEEPS):
        turned = sum(_turn(stacked, i, j, eps) for i in range(size) for j in range(i + 1, size))
        if not turned:
            break
    values = np.square(stacked[:size]).sum(0)
    order = np.argsort(values, kind="stable")
    values, vectors = values[order], stacked[size:, order]
    values[: size - int(alive.sum())] = 0
    return values, vectors


def _turn(stacked: Array, i: int, j: int, eps: float) -> bool:
    """Make two columns orthogonal in their upper half; False where they are to rounding."""
    size = stacked.shape[1]
    first, second = stacked[:size, i], stacked[:size, j]
    a, b, c = float(first @ first), float(second @ second), float(first @ second)
    if abs(c) <= eps * math.sqrt(a) * math.sqrt(b):
        return False
    ratio = (b - a) / (2 * c)
    tangent = math.copysign(1, ratio) / (abs(ratio) + math.hypot(1, ratio))
    cosine = 1 / math.hypot(1, tangent)
    stacked[:, [i, j]] = stacked[:, [i, j]] @ np.array([[1, tangent], [-tangent, 1]], stacked.dtype) * cosine
    return True
