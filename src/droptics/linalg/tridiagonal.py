"""Householder reduction of a symmetric matrix to tridiagonal form; of a small one in one pass for every reflection.

LAPACK updates the matrix by one reflection and multiplies it by the next in two passes. Here the row that the next
reflection is made of is brought up to date first, so that update and product are one pass, two rows at a time: three
quarters of its time at size 80. From size 256 on its blocks of columns are as fast.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from droptics.arrays import Array
from droptics.compiling import njit

# Sums may be reassociated so that they vectorize; nothing else of the arithmetic is relaxed.
_FAST = {"reassoc", "contract"}
# Below this a power of two that makes the largest number one may be none.
_LEAST = 2.0**-960
BLOCKED, COLUMNS = 256, 8


class Tridiagonal(NamedTuple):
    """matrix = unit Q T Q^T with T tridiagonal; `unit` is 0 where nothing was done.

    Attributes:
        unit: A power of two.
        diagonal: Of T.
        beside: What stands beside the diagonal of T.
        reflectors: Row i > 0 has v_i in its first i entries.
        factors: H_i = I - factors[i] v_i v_i^T, and Q = H_(n-1) ... H_1.
    """

    unit: float
    diagonal: Array
    beside: Array
    reflectors: Array
    factors: Array


def room_of(size: int) -> tuple[Array, Array, Array, Array]:
    """Arrays for a small matrix of this size, which many of them can use one after the other."""
    return np.empty(size), np.empty(size - 1), np.empty((size, size)), np.zeros(size)


def tridiagonal(matrix: Array, room: tuple[Array, Array, Array, Array] | None = None) -> Tridiagonal:
    """Of the lower triangle of a float64 matrix; nothing is done where that is not finite, all zero or tiny."""
    size = len(matrix)
    if size < BLOCKED:
        parts = room or room_of(size)
        return Tridiagonal(_reduce(matrix, *parts), *parts)
    reduced, diagonal, beside, tau, failed = scipy.linalg.lapack.dsytrd(matrix.T, lower=0, lwork=COLUMNS * size)
    np.fill_diagonal(reduced.T[1:], 1.0)  # the last entries of the reflectors, where it keeps what is beside
    return Tridiagonal(float(failed == 0), diagonal, beside, reduced.T, np.append(0.0, tau))


@njit(fastmath=_FAST)
def _pass(work: Array, rows: Array, size: int) -> None:
    """Update the leading block by u q^T + q u^T and add its product with v to p; `rows` are u, q, v and p."""
    u, q, v, p = rows[0], rows[1], rows[2], rows[3]
    for j in range(0, size - 1, 2):
        k = j + 1
        uj, qj, vj, uk, qk, vk = u[j], q[j], v[j], u[k], q[k], v[k]
        first, second = 0.0, 0.0
        for c in range(j):
            a = work[j, c] - (uj * q[c] + qj * u[c])
            b = work[k, c] - (uk * q[c] + qk * u[c])
            work[j, c], work[k, c] = a, b
            first += a * v[c]
            second += b * v[c]
            p[c] += a * vj + b * vk
        a, b, c = work[j, j] - 2.0 * uj * qj, work[k, j] - (uk * qj + qk * uj), work[k, k] - 2.0 * uk * qk
        work[j, j], work[k, j], work[k, k] = a, b, c
        p[j] += first + a * vj + b * vk
        p[k] += second + b * vj + c * vk
    if size % 2:
        j = size - 1
        uj, qj, vj, first = u[j], q[j], v[j], 0.0
        for c in range(j):
            a = work[j, c] - (uj * q[c] + qj * u[c])
            work[j, c] = a
            first += a * v[c]
            p[c] += a * vj
        work[j, j] -= 2.0 * uj * qj
        p[j] += first + work[j, j] * vj


@njit(fastmath=_FAST)
def _reflector(row: Array, count: int) -> tuple[float, float]:
    """Make the first `count` entries of a row v with (I - factor v v^T) row = beside e_last, v_last = 1."""
    rest, last = 0.0, row[count - 1]
    for c in range(count - 1):
        rest += row[c] * row[c]
    if not rest > 0.0:
        row[count - 1] = 1.0
        return 0.0, last
    beside = -math.copysign(math.sqrt(last * last + rest), last)
    inverse = 1.0 / (last - beside)
    for c in range(count - 1):
        row[c] *= inverse
    row[count - 1] = 1.0
    return (beside - last) / beside, beside


@njit(fastmath=_FAST)
def _reduce(matrix: Array, diagonal: Array, beside: Array, work: Array, factors: Array) -> float:
    """Fill what `Tridiagonal` says, H_1 the identity; returns the unit."""
    size, largest = matrix.shape[0], 0.0
    for i in range(size):
        for c in range(i + 1):
            largest = max(largest, abs(matrix[i, c]))
            work[i, c] = matrix[i, c]
    if not _LEAST < largest < np.inf:
        return 0.0
    unit = math.ldexp(1.0, math.frexp(largest)[1] - 1)
    inverse = 1.0 / unit
    for i in range(size):
        for c in range(i + 1):
            work[i, c] *= inverse
    rows, factors[:2] = np.zeros((4, size)), 0.0
    u, q, v, p = rows[0], rows[1], rows[2], rows[3]
    for i in range(size - 1, 0, -1):
        ui, qi = u[i], q[i]
        for c in range(i + 1):
            v[c] = work[i, c] - (ui * q[c] + qi * u[c])
        diagonal[i] = v[i]
        if i == 1:
            beside[0], diagonal[0] = v[0], work[0, 0] - 2.0 * u[0] * q[0]
            break
        factor, beside[i - 1] = _reflector(v, i)
        factors[i] = factor
        for c in range(i):
            work[i, c], p[c] = v[c], 0.0
        _pass(work, rows, i)
        inner = 0.0
        for c in range(i):
            inner += p[c] * v[c]
        half = factor * factor * inner / 2.0
        for c in range(i):
            q[c] = factor * p[c] - half * v[c]
            u[c] = v[c] if factor != 0.0 else 0.0
    return unit


@njit(fastmath=_FAST)
def _reflect_four(v: Array, factor: float, rows: Array, k: int) -> None:
    """I - factor v v^T on four rows from k on, so that v is read once for all."""
    a = b = c = d = 0.0
    first, second, third, fourth = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
    for i in range(v.shape[0]):
        a += v[i] * first[i]
        b += v[i] * second[i]
        c += v[i] * third[i]
        d += v[i] * fourth[i]
    a, b, c, d = factor * a, factor * b, factor * c, factor * d
    for i in range(v.shape[0]):
        first[i] -= a * v[i]
        second[i] -= b * v[i]
        third[i] -= c * v[i]
        fourth[i] -= d * v[i]


@njit(fastmath=_FAST)
def reflect(work: Array, factors: Array, rows: Array) -> None:
    """Rows y become Q y, eigenvectors of T those of the matrix."""
    whole = rows.shape[0] // 4 * 4
    for i in range(1, work.shape[0]):
        v = work[i, :i]
        for k in range(0, whole, 4):
            _reflect_four(v, factors[i], rows, k)
        for k in range(whole, rows.shape[0]):
            inner = 0.0
            for c in range(i):
                inner += v[c] * rows[k, c]
            inner *= factors[i]
            for c in range(i):
                rows[k, c] -= inner * v[c]


@njit(fastmath=_FAST)
def askew(rows: Array) -> float:
    """The largest entry of |rows rows^T - I|: how far they are from orthonormal."""
    worst = 0.0
    for i in range(rows.shape[0]):
        for j in range(i + 1):
            inner = 0.0
            for c in range(rows.shape[1]):
                inner += rows[i, c] * rows[j, c]
            off = abs(inner - (1.0 if i == j else 0.0))
            if not off < np.inf:
                return np.inf
            worst = max(worst, off)
    return worst
