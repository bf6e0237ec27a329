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
    apply,
    locate,
    padded,
    room_of,
    solve_upper,
    square,
    start,
)

_FLUSH = 512
_LONG = 192  # ratings whose rows fill the first cache at width 72: 55 KB


@njit(nogil=True, fastmath=FAST)
def _penalize(d: Any, weight: Any, r: Any, x: Any, diagonals: Any, count: int) -> float:
    """Make D of diag(R^T R) in `d`, 1 / (diag(R^T R) + D) in `weight`, take D x off r; returns x^T D x."""
    value = 0.0
    for k in range(len(x)):
        weight[k] = d[k]
        d[k] = diagonals[0, k] * d[k] + count * diagonals[1, k] + diagonals[2, k]
    for k in range(len(x)):
        weight[k] = 1.0 / (weight[k] + d[k]) if weight[k] + d[k] > 0 else 0.0
    for k in range(len(x)):
        value += d[k] * x[k] * x[k]
        r[k] -= d[k] * x[k]
    return value


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
    regressors: Any, places: Any, d: Any, weight: Any, r: Any, x: Any, steps: int, work: Any, t: Any, wide: Any
) -> float:
    """Move x by so many preconditioned steps, r the residual of the normal equations; returns the decrease.

    The last step needs the length of R p alone: no residual is asked of it.
    """
    width = len(x)
    direction, low, p, q = work[0], work[1], wide[0], wide[1]
    rho, decrease, beta = 0.0, 0.0, 0.0
    for k in range(width):
        p[k] = 0.0
        rho += weight[k] * r[k] * r[k]
    # Below this the residual is rounding; where the data leave directions free, steps along it have any length.
    settled = rho * (len(places) * np.finfo(regressors.dtype).eps) ** 2
    for step in range(steps):
        # Loops of few arrays each: LLVM vectorizes none that asks for more than eight proofs that two are disjoint.
        slope, curvature = 0.0, 0.0
        for k in range(width):
            direction[k] = weight[k] * r[k] + beta * p[k]
        for k in range(width):
            p[k] = direction[k]  # the step taken is along the rounded direction: use it everywhere
            slope += p[k] * r[k]
        for k in range(width):
            q[k] = d[k] * p[k]
            curvature += q[k] * p[k]
        if step == steps - 1:
            curvature += square(regressors, places, direction, t)
        else:
            for at in range(0, len(places), _FLUSH):
                low[:] = 0
                apply(regressors, places[at : at + _FLUSH], direction, t, low, len(places) > _LONG)
                for k in range(width):
                    q[k] += low[k]
                    curvature += low[k] * p[k]
        if not curvature > 0 or not rho > settled:
            break
        alpha = slope / curvature
        decrease += alpha * slope
        for k in range(width):
            x[k] += alpha * p[k]
        fresh = 0.0
        for k in range(width if step < steps - 1 else 0):
            r[k] -= alpha * q[k]
            fresh += weight[k] * r[k] * r[k]
        beta, rho = fresh / rho, fresh
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
    width = solution.shape[1]
    x, r, d, weight = np.empty(width), np.empty(width), np.empty(width), np.empty(width)
    wide = np.empty((2, width))
    room, t = room_of(regressors, starts), np.empty(NEAR, regressors.dtype)
    beside, work = room[2][:, : regressors.shape[1]], aligned(regressors, 3, regressors.shape[1])
    current, low, squares = work[0], work[1], work[2]
    flush, size = (BLOCK, padded(width)) if steps == 0 else (_FLUSH, 0)
    gram = aligned(r, size, size)
    penalized, plain = 0.0, 0.0
    for row in range(len(starts) - 1):
        begin, end = starts[row] - starts[0], starts[row + 1] - starts[0]
        if begin == end:
            solution[row, :] = 0
            continue
        for k in range(width):
            current[k] = solution[row, k]
            x[k] = current[k]
            r[k] = 0.0
            d[k] = 0.0
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
                value += start(beside, offsets, named, rated, near, current, t, low, None)
            else:
                squares[:] = 0
                value += start(regressors, offsets, named, rated, near, current, t, low, squares)
                d += squares[:width]
            r += low[:width]
        for k in range(width if steps == 0 else 0):
            d[k] = gram[k, k]
        value += _penalize(d, weight, r, x, diagonals, end - begin)
        if steps == 0:
            value -= _direct(gram, d, r, x, np.finfo(regressors.dtype).eps)
        else:
            value -= _conjugate_gradients(regressors, places, d, weight, r, x, steps, work, t, wide)
        own = 0.0
        for k in range(width):
            solution[row, k] = x[k]
            own += d[k] * x[k] * x[k]
        penalized += value
        plain += value - own
    return penalized, plain
