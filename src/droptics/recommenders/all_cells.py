"""Row solves of implicit factorization: observed cells count in full, all cells a little; compiled.

With the items' factors H fixed, the row of a user with targets y on her items S minimizes

    sum_S (y_m - <h_m, x>)^2 + alpha sum_all <h_j, x>^2 + sum_k D_k x_k^2,
    D = empirical (diag(G_S) + alpha diag(H^T H)) + (n_u + alpha items) expected,     G_S = sum_S h_m h_m^T,

where `expected` is a vector over the factors. The Gram matrix H^T H of all items is shared by all rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from droptics.compiling import njit
from droptics.recommenders.tiles import FAST, add_gram, locate, padded, room_of, solve_upper


@njit(nogil=True, fastmath=FAST)
def solve_all_cells(
    starts: Any, columns: Any, values: Any, fixed: Any, shared: Any, empirical: float, expected: Any, solution: Any,
    steps: int,
) -> None:  # fmt: skip
    """Improve every row of `solution` in place: exactly (steps = 0), or by conjugate-gradient steps from where it is.

    `shared` is alpha H^T H in float64, `expected` a pair of vectors: D = n_u first + second, beside the empirical
    part. Cost per row O(n_u width) a step plus width^2, or O(n_u width^2 + width^3) exactly.
    """
    width = fixed.shape[1]
    x, r, d, weight, p, q = (np.empty(width), np.empty(width), np.empty(width), np.empty(width), np.empty(width),
                             np.empty(width))  # fmt: skip
    room = room_of(fixed, starts)
    for row in range(len(starts) - 1):
        begin, end = starts[row] - starts[0], starts[row + 1] - starts[0]
        for k in range(width):
            x[k] = solution[row, k]
            r[k] = 0.0
            d[k] = shared[k, k]
        for m in range(begin, end):
            h = fixed[columns[m]]
            guess = 0.0
            for k in range(width):
                guess += h[k] * x[k]
            for k in range(width):
                r[k] += (values[m] - guess) * h[k]
                d[k] += h[k] * h[k]
        for k in range(width):
            scale = d[k]
            d[k] = empirical * scale + (end - begin) * expected[0, k] + expected[1, k]
            weight[k] = 1.0 / (scale + d[k]) if scale + d[k] > 0 else 0.0
            total = d[k] * x[k]
            for j in range(width):
                total += shared[k, j] * x[j]
            r[k] -= total
        if steps == 0:
            _exact(fixed, columns[begin:end], shared, d, r, x, room)
        else:
            _descend(fixed, columns[begin:end], shared, d, weight, r, x, p, q, steps)
        for k in range(width):
            solution[row, k] = x[k]


@njit(nogil=True, fastmath=FAST)
def _exact(fixed: Any, columns: Any, shared: Any, d: Any, r: Any, x: Any, room: Any) -> None:
    """Move x to the minimizer, r the residual of the normal equations."""
    width = len(x)
    gram = np.zeros((padded(width), padded(width)))
    locate(fixed, columns, room)
    add_gram(fixed, room[0][: len(columns)], room, gram)
    gram[:width, :width] += shared
    for k in range(width):
        gram[k, k] += d[k]
    solve_upper(gram, r, np.finfo(fixed.dtype).eps, np.empty(len(gram)))
    for k in range(width):
        x[k] += r[k]


@njit(nogil=True, fastmath=FAST)
def _descend(
    fixed: Any, columns: Any, shared: Any, d: Any, weight: Any, r: Any, x: Any, p: Any, q: Any, steps: int
) -> None:
    """Preconditioned conjugate gradients from x."""
    width = len(x)
    rho = 0.0
    for k in range(width):
        p[k] = weight[k] * r[k]
        rho += p[k] * r[k]
    settled = rho * (max(len(columns), 1) * np.finfo(fixed.dtype).eps) ** 2  # below this the residual is rounding
    for _ in range(steps):
        for k in range(width):
            total = d[k] * p[k]
            for j in range(width):
                total += shared[k, j] * p[j]
            q[k] = total
        for m in range(len(columns)):
            h = fixed[columns[m]]
            along = 0.0
            for k in range(width):
                along += h[k] * p[k]
            for k in range(width):
                q[k] += along * h[k]
        curvature = 0.0
        for k in range(width):
            curvature += p[k] * q[k]
        if not curvature > 0 or not rho > settled:
            break
        alpha = rho / curvature
        fresh = 0.0
        for k in range(width):
            x[k] += alpha * p[k]
            r[k] -= alpha * q[k]
            fresh += weight[k] * r[k] * r[k]
        for k in range(width):
            p[k] = weight[k] * r[k] + fresh / rho * p[k]
        rho = fresh
