"""Row solves of dropout matrix completion: compiled kernels, exact or by conjugate gradients.

With the columns' factors fixed, the objective splits into one small generalized ridge problem per row,

    min_x  sum_m (y_m - <r_m, x>)^2 + sum_k D_k x_k^2,     D = a diag(sum_m r_m r_m^T) + n_i c + f,

with n_i ratings in the row. The three diagonals cover the empirical dropout penalty (a = lambda), the expected one
(c = lambda s, s_k the rating-weighted mean square of column factor k), ALS-WR (c constant), ridge (f constant) and
the ridge on the bias, which is one more unknown with regressor 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from droptics.compiling import njit
from droptics.recommenders.tiles import FAST, add_gram, padded, room_of, solve_upper

_FLUSH = 512


@njit(nogil=True, fastmath=FAST)
def _start(regressors: Any, offsets: Any, columns: Any, values: Any, x: Any, into: Any, squares: Any) -> float:
    """Add R^T (y - R x) to `into` and diag(R^T R) to `squares`; returns |y - R x|^2. Four ratings at a time."""
    width = regressors.shape[1]
    zero = regressors.dtype.type(0)
    total = 0.0
    m, count = 0, len(columns)
    while m + 4 <= count:
        j0, j1, j2, j3 = columns[m], columns[m + 1], columns[m + 2], columns[m + 3]
        t0, t1, t2, t3 = zero, zero, zero, zero
        for k in range(width):
            xk = x[k]
            t0 += regressors[j0, k] * xk
            t1 += regressors[j1, k] * xk
            t2 += regressors[j2, k] * xk
            t3 += regressors[j3, k] * xk
        t0 = values[m] - offsets[j0] - t0
        t1 = values[m + 1] - offsets[j1] - t1
        t2 = values[m + 2] - offsets[j2] - t2
        t3 = values[m + 3] - offsets[j3] - t3
        total += t0 * t0 + t1 * t1 + t2 * t2 + t3 * t3
        for k in range(width):
            r0, r1, r2, r3 = regressors[j0, k], regressors[j1, k], regressors[j2, k], regressors[j3, k]
            into[k] += t0 * r0 + t1 * r1 + t2 * r2 + t3 * r3
            squares[k] += r0 * r0 + r1 * r1 + r2 * r2 + r3 * r3
        m += 4
    while m < count:
        j = columns[m]
        t = zero
        for k in range(width):
            t += regressors[j, k] * x[k]
        t = values[m] - offsets[j] - t
        total += t * t
        for k in range(width):
            into[k] += t * regressors[j, k]
            squares[k] += regressors[j, k] * regressors[j, k]
        m += 1
    return total


@njit(nogil=True, fastmath=FAST)
def _apply(regressors: Any, columns: Any, p: Any, into: Any) -> None:
    """Add R^T R p to `into`, four ratings at a time, without forming the Gram matrix."""
    width = regressors.shape[1]
    zero = regressors.dtype.type(0)
    m, count = 0, len(columns)
    while m + 4 <= count:
        j0, j1, j2, j3 = columns[m], columns[m + 1], columns[m + 2], columns[m + 3]
        t0, t1, t2, t3 = zero, zero, zero, zero
        for k in range(width):
            pk = p[k]
            t0 += regressors[j0, k] * pk
            t1 += regressors[j1, k] * pk
            t2 += regressors[j2, k] * pk
            t3 += regressors[j3, k] * pk
        for k in range(width):
            into[k] += t0 * regressors[j0, k] + t1 * regressors[j1, k] + t2 * regressors[j2, k] + t3 * regressors[j3, k]
        m += 4
    while m < count:
        j = columns[m]
        t = zero
        for k in range(width):
            t += regressors[j, k] * p[k]
        for k in range(width):
            into[k] += t * regressors[j, k]
        m += 1


@njit(nogil=True, fastmath=FAST)
def _direct(regressors: Any, columns: Any, d: Any, r: Any, x: Any, room: Any) -> float:
    """Move x to the exact minimizer, given the residual r of the normal equations; returns the decrease."""
    width = len(x)
    gram = np.zeros((padded(width), padded(width)))
    add_gram(regressors, columns, room, gram)
    for k in range(width):
        gram[k, k] += d[k]
    move = r.copy()
    solve_upper(gram, move)
    decrease = 0.0
    for k in range(width):
        decrease += move[k] * r[k]
        x[k] += move[k]
    return decrease


@njit(nogil=True, fastmath=FAST)
def _conjugate_gradients(
    regressors: Any, columns: Any, d: Any, weight: Any, r: Any, x: Any, steps: int, work: Any
) -> float:
    """Move x by so many preconditioned steps, r the residual of the normal equations; returns the decrease."""
    width = len(x)
    direction, low = work[0], work[1]
    p = weight * r
    q = np.empty(width)
    rho, decrease = 0.0, 0.0
    for k in range(width):
        rho += p[k] * r[k]
    # Below this the residual is rounding; where the data leave directions free, steps along it have any length.
    settled = rho * (len(columns) * np.finfo(regressors.dtype).eps) ** 2
    for _ in range(steps):
        direction[:] = p
        q[:] = 0
        for at in range(0, len(columns), _FLUSH):
            low[:] = 0
            _apply(regressors, columns[at : at + _FLUSH], direction, low)
            q += low
        curvature, slope = 0.0, 0.0
        for k in range(width):
            p[k] = direction[k]  # the step taken is along the rounded direction: use it everywhere
            q[k] += d[k] * p[k]
            curvature += p[k] * q[k]
            slope += p[k] * r[k]
        if not curvature > 0 or not rho > settled:
            break
        alpha = slope / curvature
        decrease += alpha * slope
        fresh = 0.0
        for k in range(width):
            x[k] += alpha * p[k]
            r[k] -= alpha * q[k]
            fresh += weight[k] * r[k] * r[k]
        for k in range(width):
            p[k] = weight[k] * r[k] + fresh / rho * p[k]
        rho = fresh
    return decrease


@njit(nogil=True, fastmath=FAST)
def solve_rows(
    starts: Any, columns: Any, values: Any, regressors: Any, offsets: Any, solution: Any, diagonals: Any, steps: int
) -> tuple[float, float]:
    """Improve every row of `solution` in place; returns the (penalized, plain) sums of squares reached.

    `diagonals` holds a, c and f of the module's formula as three rows. With steps >= 1, that many conjugate-gradient
    steps, preconditioned by the diagonal, from the current solution: the objective of no row increases. With steps = 0
    the exact minimizer, by Cholesky factorization. Rows without ratings become zero. Products are taken in the
    precision of the regressors and summed in float64 every 512 ratings or less; everything per row is float64. Cost per
    rating O(width) a step, O(width^2) exact, plus O(width^3) per row exact. `starts` may begin anywhere.
    """
    width = regressors.shape[1]
    x, r, d, weight = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    work = np.empty((3, width), regressors.dtype)
    current, low, squares = work[0], work[1], work[2]
    room = room_of(regressors)
    penalized, plain = 0.0, 0.0
    for row in range(len(starts) - 1):
        begin, end = starts[row] - starts[0], starts[row + 1] - starts[0]
        if begin == end:
            solution[row, :] = 0
            continue
        current[:] = solution[row]
        x[:] = current
        r[:] = 0
        d[:] = 0
        value = 0.0
        for at in range(begin, end, _FLUSH):
            stop = min(at + _FLUSH, end)
            low[:] = 0
            squares[:] = 0
            value += _start(regressors, offsets, columns[at:stop], values[at:stop], current, low, squares)
            r += low
            d += squares
        for k in range(width):
            square = d[k]
            d[k] = diagonals[0, k] * square + (end - begin) * diagonals[1, k] + diagonals[2, k]
            weight[k] = 1.0 / (square + d[k]) if square + d[k] > 0 else 0.0
            value += d[k] * x[k] * x[k]
            r[k] -= d[k] * x[k]
        if steps == 0:
            value -= _direct(regressors, columns[begin:end], d, r, x, room)
        else:
            value -= _conjugate_gradients(regressors, columns[begin:end], d, weight, r, x, steps, work)
        own = 0.0
        for k in range(width):
            solution[row, k] = x[k]
            own += d[k] * x[k] * x[k]
        penalized += value
        plain += value - own
    return penalized, plain
