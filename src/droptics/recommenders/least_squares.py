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
from droptics.recommenders.tiles import (
    BLOCK,
    FAST,
    NEAR,
    add_gram,
    aligned,
    combine,
    dots,
    locate,
    padded,
    room_of,
    solve_upper,
)

_FLUSH = 512


@njit(nogil=True, fastmath=FAST)
def _start(
    regressors: Any, offsets: Any, columns: Any, values: Any, places: Any, x: Any, t: Any, into: Any, squares: Any
) -> float:
    """Add R^T (y - R x) to `into` and diag(R^T R) to `squares` unless it is None; returns |y - R x|^2."""
    total = 0.0
    for at in range(0, len(columns), NEAR):
        count = min(NEAR, len(columns) - at)
        near = places[at : at + count]
        dots(regressors, near, x, t)
        for m in range(count):
            t[m] = values[at + m] - offsets[columns[at + m]] - t[m]
            total += t[m] * t[m]
        combine(regressors, near, t, into, squares)
    return total


@njit(nogil=True, fastmath=FAST)
def _apply(regressors: Any, places: Any, p: Any, t: Any, into: Any) -> None:
    """Add R^T R p to `into`, without forming the Gram matrix."""
    for at in range(0, len(places), NEAR):
        near = places[at : at + NEAR]
        dots(regressors, near, p, t)
        combine(regressors, near, t, into, None)


@njit(nogil=True, fastmath=FAST)
def _square(regressors: Any, places: Any, p: Any, t: Any) -> float:
    """|R p|^2."""
    total = 0.0
    for at in range(0, len(places), NEAR):
        near = places[at : at + NEAR]
        dots(regressors, near, p, t)
        for m in range(len(near)):
            total += t[m] * t[m]
    return total


@njit(nogil=True, fastmath=FAST)
def _direct(gram: Any, d: Any, r: Any, x: Any, unit: float) -> float:
    """Move x to the exact minimizer, given R^T R and the residual r of the normal equations; returns the decrease."""
    width = len(x)
    for k in range(width):
        gram[k, k] += d[k]
    move = r.copy()
    solve_upper(gram, move, unit)
    decrease = 0.0
    for k in range(width):
        decrease += move[k] * r[k]
        x[k] += move[k]
    return decrease


@njit(nogil=True, fastmath=FAST)
def _conjugate_gradients(
    regressors: Any, places: Any, d: Any, weight: Any, r: Any, x: Any, steps: int, work: Any, t: Any
) -> float:
    """Move x by so many preconditioned steps, r the residual of the normal equations; returns the decrease.

    The last step needs the length of R p alone: no residual is asked of it.
    """
    width = len(x)
    direction, low = work[0], work[1]
    p = weight * r
    q = np.empty(width)
    rho, decrease = 0.0, 0.0
    for k in range(width):
        rho += p[k] * r[k]
    # Below this the residual is rounding; where the data leave directions free, steps along it have any length.
    settled = rho * (len(places) * np.finfo(regressors.dtype).eps) ** 2
    for step in range(steps):
        direction[:] = p
        q[:] = 0
        curvature, slope = 0.0, 0.0
        if step == steps - 1:
            curvature = _square(regressors, places, direction, t)
        else:
            for at in range(0, len(places), _FLUSH):
                low[:] = 0
                _apply(regressors, places[at : at + _FLUSH], direction, t, low)
                q += low
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
    room, t = room_of(regressors, starts), np.empty(NEAR, regressors.dtype)
    flush, size = (BLOCK, padded(width)) if steps == 0 else (_FLUSH, 0)
    gram = aligned(r, size, size)
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
        places = locate(regressors, columns[begin:end], room)
        for k in range(len(gram)):
            gram[k, k - k % 8 :] = 0
        for at in range(begin, end, flush):
            stop = min(at + flush, end)
            near, named, rated = places[at - begin : stop - begin], columns[at:stop], values[at:stop]
            low[:] = 0
            if steps == 0:
                add_gram(regressors, near, room, gram)
                near = room[3][: stop - at]  # which are in the first cache now
                value += _start(regressors, offsets, named, rated, near, current, t, low, None)
            else:
                squares[:] = 0
                value += _start(regressors, offsets, named, rated, near, current, t, low, squares)
                d += squares
            r += low
        for k in range(width):
            square = d[k] if steps else gram[k, k]
            d[k] = diagonals[0, k] * square + (end - begin) * diagonals[1, k] + diagonals[2, k]
            weight[k] = 1.0 / (square + d[k]) if square + d[k] > 0 else 0.0
            value += d[k] * x[k] * x[k]
            r[k] -= d[k] * x[k]
        if steps == 0:
            value -= _direct(gram, d, r, x, np.finfo(regressors.dtype).eps)
        else:
            value -= _conjugate_gradients(regressors, places, d, weight, r, x, steps, work, t)
        own = 0.0
        for k in range(width):
            solution[row, k] = x[k]
            own += d[k] * x[k] * x[k]
        penalized += value
        plain += value - own
    return penalized, plain
