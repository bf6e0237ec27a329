"""Sums of products of the characteristic functions of coins: the loop behind densities, compiled for the CPU."""

from __future__ import annotations

import numba
import numpy as np
from numpy.typing import NDArray

from droptics.arrays import Array

# Rows that one pass of the innermost loop takes.
ROWS = 64


@numba.njit(cache=True)
def add_coin_products(
    kept: Array, rising: Array, shift: Array, weight: Array, example: NDArray[np.int64], step: Array, total: Array
) -> None:
    """Add weight e^(i theta shift) prod_j (1 - r_j + r_j e^(i theta k_j)) of every row to its example.

    kept, rising (rows, units); shift, weight, example (rows,); the angles of an example are multiples of its step;
    total (2, examples, angles) holds real and imaginary parts. From angle to angle every factor turns by one step
    instead of computing sines, whose error grows by one unit in the last place per step. Rows are innermost, so that
    the loop works on whole registers. Cost: units angles per row.
    """
    rows, units = kept.shape
    angles = total.shape[2]
    real, imaginary = np.empty((angles, ROWS)), np.empty((angles, ROWS))
    share = np.empty(ROWS)
    turn_x, turn_y, at_x, at_y = np.empty(ROWS), np.empty(ROWS), np.empty(ROWS), np.empty(ROWS)
    for first in range(0, rows, ROWS):
        size = min(ROWS, rows - first)
        for r in range(size):
            angle = step[example[first + r]] * shift[first + r]
            turn_x[r], turn_y[r] = np.cos(angle), np.sin(angle)
            at_x[r], at_y[r] = weight[first + r], 0.0
        for k in range(angles):
            for r in range(size):
                real[k, r], imaginary[k, r] = at_x[r], at_y[r]
                x = at_x[r] * turn_x[r] - at_y[r] * turn_y[r]
                at_y[r] = at_x[r] * turn_y[r] + at_y[r] * turn_x[r]
                at_x[r] = x
        for unit in range(units):
            for r in range(size):
                angle = step[example[first + r]] * kept[first + r, unit]
                turn_x[r], turn_y[r] = np.cos(angle), np.sin(angle)
                share[r] = rising[first + r, unit]
                at_x[r], at_y[r] = 1.0, 0.0
            for k in range(angles):
                for r in range(size):
                    x = 1.0 - share[r] + share[r] * at_x[r]
                    y = share[r] * at_y[r]
                    before = real[k, r]
                    real[k, r] = before * x - imaginary[k, r] * y
                    imaginary[k, r] = before * y + imaginary[k, r] * x
                    moved = at_x[r] * turn_x[r] - at_y[r] * turn_y[r]
                    at_y[r] = at_x[r] * turn_y[r] + at_y[r] * turn_x[r]
                    at_x[r] = moved
        for k in range(angles):
            for r in range(size):
                total[0, example[first + r], k] += real[k, r]
                total[1, example[first + r], k] += imaginary[k, r]
