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


@numba.njit(cache=True)
def _list_masks(inputs: Array, weights: Array, drop: Array, low: Array, chance: Array) -> None:
    """Products low (hidden, masks) of weights and masked inputs for all masks of the inputs, and their chances."""
    low[:, 0] = 0.0
    chance[0] = 1.0
    for coin in range(len(inputs)):
        half = 1 << coin
        kept = inputs[coin] / (1.0 - drop[coin])
        for b in range(half):
            chance[half + b] = chance[b] * (1.0 - drop[coin])
            chance[b] *= drop[coin]
        for j in range(len(low)):
            for b in range(half):
                low[j, half + b] = low[j, b] + weights[j, coin] * kept


@numba.njit(cache=True)
def add_hidden_moments(
    inputs: Array, first: tuple[Array, Array], last: tuple[Array, Array], drop: Array, plain: Array, total: Array
) -> None:
    """Moments of a ReLU network with one hidden layer over all masks of its inputs, the hidden mask integrated.

    inputs (examples, coins) are those that may drop; first = weights (hidden, coins) and the rest of the
    pre-activations (examples, hidden); last = heads (outputs, hidden) and relative variances (hidden,); plain
    (examples, outputs) without masks. total (3, examples, outputs) receives E[c - plain], E[(c - plain)^2] and E Q.
    Every mask is a sum of two halves whose products are tabulated, and the masks of one half are innermost, so that
    the loop works on whole registers. Cost: hidden outputs 2^coins per example.
    """
    weights, rest = first
    head, variance = last
    examples, coins = inputs.shape
    outputs, hidden = head.shape
    inner = min((coins + 1) // 2 + 1, coins)
    width, height = 1 << inner, 1 << (coins - inner)
    low, chance = np.empty((hidden, width)), np.empty(width)
    center, noise = np.empty((outputs, width)), np.empty((outputs, width))
    start = np.empty(hidden)
    for number in range(examples):
        _list_masks(inputs[number, :inner], weights, drop, low, chance)
        for a in range(height):
            outer = 1.0
            start[:] = rest[number]
            for coin in range(inner, coins):
                if (a >> (coin - inner)) & 1:
                    outer *= 1.0 - drop[coin]
                    start += weights[:, coin] * (inputs[number, coin] / (1.0 - drop[coin]))
                else:
                    outer *= drop[coin]
            for k in range(outputs):
                center[k] = -plain[number, k]
                noise[k] = 0.0
                for j in range(hidden):
                    slope, weight, add = head[k, j], head[k, j] * head[k, j] * variance[j], start[j]
                    for b in range(width):
                        value = max(add + low[j, b], 0.0)
                        center[k, b] += slope * value
                        noise[k, b] += weight * value * value
                moved, square, spread = 0.0, 0.0, 0.0
                for b in range(width):
                    moved += chance[b] * center[k, b]
                    square += chance[b] * center[k, b] * center[k, b]
                    spread += chance[b] * noise[k, b]
                total[0, number, k] += outer * moved
                total[1, number, k] += outer * square
                total[2, number, k] += outer * spread
