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
from droptics.recommenders import tiles


@njit(forceinline=True, **tiles.PLAIN)
def _penalize(d: Any, weight: Any, r: Any, x: Any, diagonals: Any, gram: Any, count: int) -> float:
    """Make D of diag(R^T R), in `d` or `gram`, 1 / (diag(R^T R) + D) in `weight`, take D x off r; returns x^T D x."""
    value = 0.0
    for k in range(min(len(gram), len(d))):
        d[k] = gram[k, k]
    for k in range(len(x)):
        weight[k] = d[k]
        d[k] = diagonals[0, k] * d[k] + count * diagonals[1, k] + diagonals[2, k]
    for k in range(len(x)):
        weight[k] = 1.0 / (weight[k] + d[k]) if weight[k] + d[k] > 0 else 0.0
        value += d[k] * x[k] * x[k]
        r[k] -= d[k] * x[k]
    return value


@njit(**tiles.PLAIN)
def _direct(gram: Any, wide: Any, width: int, unit: float) -> float:
    """Move x to the exact minimizer, given R^T R, which becomes zero, and the residual r; returns the decrease."""
    x, r, d, move = wide[0], wide[1], wide[2], wide[4]
    for k in range(width):
        gram[k, k] += d[k]
        move[k] = r[k]
    tiles.solve_upper(gram, move[:width], unit, wide[5])
    decrease = 0.0
    for k in range(width):
        decrease += move[k] * r[k]
        x[k] += move[k]
    tiles.clear(gram)  # for the next row
    return decrease


@njit(forceinline=True, **tiles.PLAIN)
def _conjugate_gradients(regressors: Any, places: Any, wide: Any, steps: int, near: Any) -> float:
    """Move x by so many preconditioned steps, r the residual of the normal equations; returns the decrease.

    The last step needs the length of R p alone: no residual is asked of it. Every other step goes through the ratings
    from the last to the first, which finds what the step before read last in the first cache.
    """
    x, r, d, weight, p, q = wide[0], wide[1], wide[2], wide[3], wide[4], wide[5]
    width, direction, low, t = regressors.shape[1], near[0], near[1], near[3]
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
            p[k] = direction[k]  # the step taken is along the rounded direction: use it everywhere
            slope += p[k] * r[k]
        for k in range(width):
            q[k] = d[k] * p[k]
            curvature += q[k] * p[k]
        if step == steps - 1:
            curvature += tiles.square(regressors, places, direction, t, step % 2 == 0)
        else:
            for at in range(0, len(places), tiles.FLUSH):
                low[:] = 0
                tiles.apply(regressors, places, at, direction, t, low, step % 2 == 0)
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


@njit(nogil=True, fastmath=tiles.FAST)
def solve_rows(
    starts: Any, columns: Any, values: Any, regressors: Any, offsets: Any, solution: Any, diagonals: Any, steps: int
) -> tuple[float, float]:
    """Improve every row of `solution` in place; returns the (penalized, plain) sums of squares reached.

    `diagonals` holds a, c and f of the module's formula as three rows. With steps >= 1, that many conjugate-gradient
    steps, preconditioned by the diagonal, from the current solution: no row's objective increases. A fourth row, mean
    squares of all regressors, stands there for the row's own sums where a = 0. With steps = 0 the exact minimizer, by
    Cholesky factorization. Rows without ratings become zero. Products are in the precision of the regressors, summed in
    float64 every 512 ratings or less; all else per row is float64. Cost per rating O(width) a step, O(width^2) exact,
    plus O(width^3) per row exact. `starts` may begin anywhere.
    """
    width, whole = solution.shape[1], regressors.shape[1]
    size, none = tiles.padded(width) if steps == 0 else 0, np.empty(0)
    near, wide = tiles.aligned(regressors, 4, max(whole, tiles.NEAR)), tiles.aligned(none, 6, max(whole, size))
    room, own, filled = tiles.room_of(regressors, starts), len(diagonals) == 3, np.zeros((4, whole))
    filled[: len(diagonals), :width] = diagonals
    work = near, wide, tiles.aligned(none, size, size), np.empty(len(room[0]), regressors.dtype)
    return _each(starts, columns, values, regressors, tiles.present(offsets), solution, filled, steps, room, work, own)


@njit(**tiles.PLAIN)
def _each(
    starts: Any, columns: Any, values: Any, regressors: Any, offsets: Any, solution: Any, diagonals: Any, steps: int,
    room: Any, work: Any, own: bool,
) -> tuple[float, float]:  # fmt: skip
    """What `solve_rows` does, in the room and the arrays that it has made; zeros fill them to the regressors' width."""
    near, wide, gram, left = work
    width, whole = solution.shape[1], regressors.shape[1]
    current, low, squares, t = near[0], near[1], near[2], near[3]
    x, r, d, weight = wide[0, :whole], wide[1, :whole], wide[2, :whole], wide[3, :whole]
    flush = tiles.BLOCK if steps == 0 else tiles.FLUSH
    penalized, plain = 0.0, 0.0
    for row in range(len(starts) - 1):
        begin, end = starts[row] - starts[0], starts[row + 1] - starts[0]
        if begin == end:
            solution[row, :] = 0
            continue
        current[width:] = 0
        for k in range(width):
            current[k] = solution[row, k]
        for k in range(whole):
            x[k] = current[k]
            r[k] = 0.0
            d[k] = (end - begin) * diagonals[3, k]
        value = 0.0
        places, rated = room[0][: end - begin], left[: end - begin]
        tiles.locate(regressors, columns[begin:end], room)
        tiles.subtract(values[begin:end], offsets, columns[begin:end], rated)
        for at in range(0, len(places), flush):
            stop = min(at + flush, len(places))
            low[:] = 0
            squares[:] = 0
            if steps == 0:
                tiles.add_gram(regressors, places[at:stop], room, gram)
                value += tiles.start(regressors, room[3][: stop - at], rated[at:stop], current, t, low, None)
            elif own:
                value += tiles.start(regressors, places[at:stop], rated[at:stop], current, t, low, squares)
            else:
                value += tiles.start(regressors, places[at:stop], rated[at:stop], current, t, low, None)
            for k in range(whole):
                r[k] += low[k]
                d[k] += squares[k]
        value += _penalize(d, weight, r, x, diagonals, gram, end - begin)
        if steps == 0:
            value -= _direct(gram, wide, width, np.finfo(regressors.dtype).eps)
        else:
            value -= _conjugate_gradients(regressors, places, wide, steps, near)
        penalized += value
        for k in range(width):
            solution[row, k] = x[k]
            value -= d[k] * x[k] * x[k]
        plain += value
    return penalized, plain
