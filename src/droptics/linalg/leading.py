"""Leading eigenvectors of a dense symmetric matrix, when only some of them are needed."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy

from droptics.arrays import Array
from droptics.compiling import njit
from droptics.linalg.tridiagonal import askew, reflect, tridiagonal

# Below this size, or when more than half of the vectors are wanted, the full decomposition is as fast.
SMALL = 32
# Values further apart than this share of the matrix have vectors that two steps tell apart by themselves.
CLOSE = 1e-3
# Sums may be reassociated so that they vectorize; nothing else of the arithmetic is relaxed.
_FAST = {"reassoc", "contract"}


@njit(fastmath=_FAST)
def _orthonormalize(rows: Array, k: int, first: int) -> bool:
    """Make row k orthogonal to the rows before it from `first` on, of unit length; False when nothing is left of it."""
    x, size = rows[k], rows.shape[1]
    for j in range(first, k):
        inner = 0.0
        for i in range(size):
            inner += rows[j, i] * x[i]
        for i in range(size):
            x[i] -= inner * rows[j, i]
    total = 0.0
    for i in range(size):
        total += x[i] * x[i]
    if not total > 0.0:
        return False
    inverse = 1.0 / np.sqrt(total)
    for i in range(size):
        x[i] *= inverse
    return True


@njit()
def _factor(diagonal: Array, beside: Array, value: float, least: float, parts: Array) -> None:
    """T - value I = L U with row exchanges; rows of `parts`: 1 / pivots, two superdiagonals, factors, exchanges."""
    size = diagonal.shape[0]
    pivot, upper, second, factor, swapped = parts[0], parts[1], parts[2], parts[3], parts[4]
    own, beyond = diagonal[0] - value, beside[0]
    for i in range(size - 1):
        below, following = beside[i], diagonal[i + 1] - value
        after = beside[i + 1] if i < size - 2 else 0.0
        if abs(own) >= abs(below):
            swapped[i] = 0.0
            own = own if abs(own) > least else least
            factor[i] = below / own
            pivot[i], upper[i], second[i] = 1.0 / own, beyond, 0.0
            own, beyond = following - factor[i] * beyond, after
        else:
            swapped[i] = 1.0
            factor[i] = own / below
            pivot[i], upper[i], second[i] = 1.0 / below, following, after
            own, beyond = beyond - factor[i] * following, -factor[i] * after
    pivot[size - 1] = 1.0 / (own if abs(own) > least else least)


@njit()
def _solve(parts: Array, x: Array) -> float:
    """Solve in place and return the largest entry, to which x is scaled."""
    size = x.shape[0]
    pivot, upper, second, factor, swapped = parts[0], parts[1], parts[2], parts[3], parts[4]
    for i in range(size - 1):  # without a branch, which would be guessed wrong half of the time
        above, below = x[i], x[i + 1]
        x[i] = below if swapped[i] > 0.0 else above
        x[i + 1] = (above if swapped[i] > 0.0 else below) - factor[i] * x[i]
    x[size - 1] *= pivot[size - 1]
    x[size - 2] = (x[size - 2] - upper[size - 2] * x[size - 1]) * pivot[size - 2]
    for i in range(size - 3, -1, -1):
        x[i] = (x[i] - upper[i] * x[i + 1] - second[i] * x[i + 2]) * pivot[i]
    largest = 0.0
    for i in range(size):
        if not abs(x[i]) < np.inf:
            return np.inf
        largest = max(largest, abs(x[i]))
    x *= 1.0 / largest if largest > 0.0 else 1.0
    return largest


@njit()
def _vectors(diagonal: Array, beside: Array, values: Array, out: Array) -> float:
    """Eigenvectors of a tridiagonal matrix as rows of `out` by inverse iteration; returns the largest residual.

    Every vector is kept orthogonal to those before it, to those of close values after each step and once more, so that
    equal values get independent vectors. The residual is relative to the size of the matrix, infinite when a vector was
    lost.
    """
    size = diagonal.shape[0]
    scale = np.abs(diagonal).max() + 2.0 * np.abs(beside).max()
    parts = np.empty((5, size))
    state, worst, close = 1, 0.0, 0
    for k in range(values.shape[0]):
        _factor(diagonal, beside, values[k], 2.3e-16 * scale + 1e-300, parts)
        x = out[k]
        for i in range(size):  # any start will do that is not orthogonal to the vector
            state = (1103515245 * state + 12345) % 2147483648
            x[i] = state / 1073741824.0 - 1.0
        while values[close] - values[k] > CLOSE * scale:
            close += 1
        if not (_solve(parts, x) < np.inf and _orthonormalize(out, k, close)):
            return np.inf
        if not (_solve(parts, x) < np.inf and _orthonormalize(out, k, 0) and _orthonormalize(out, k, close)):
            return np.inf
        for i in range(size):
            error = (diagonal[i] - values[k]) * x[i]
            error += (beside[i - 1] * x[i - 1] if i > 0 else 0.0) + (beside[i] * x[i + 1] if i < size - 1 else 0.0)
            worst = max(worst, abs(error))
    return worst / (scale if scale > 0.0 else 1.0)


def leading_eigen(matrix: Array, count: int, room: Any = None) -> tuple[Array, Array]:
    """The `count` largest eigenvalues (descending) of a symmetric float64 matrix and their orthonormal vectors.

    Householder reduction, all eigenvalues of the tridiagonal matrix, inverse iteration for the wanted vectors: half
    the time of a full decomposition when a quarter of the vectors is wanted. What inverse iteration returns is checked
    (residual and orthogonality at rounding level); where it fails the full decomposition steps in.
    """
    size = matrix.shape[0]
    if size >= SMALL and 2 * count <= size:
        unit, diagonal, beside, reflectors, factors = tridiagonal(matrix, room)
        every, failed = scipy.linalg.lapack.dsterf(diagonal, beside) if unit else (np.zeros(size), 1)
        values = np.ascontiguousarray(every[::-1][:count])
        rows = np.empty((count, size))
        residual = np.inf if failed else _vectors(diagonal, beside, values, rows)
        if residual <= 4e-15 and askew(rows) <= 1e-14:
            reflect(reflectors, factors, rows)
            return unit * values, rows.T
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1][:count], vectors[:, ::-1][:, :count]
