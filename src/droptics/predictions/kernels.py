"""Sums of products of the characteristic functions of coins: the loop behind densities, compiled for the CPU."""

from __future__ import annotations

import numpy as np

from droptics.arrays import Array
from droptics.compiling import njit

# Neighboring angles that the innermost loop takes at once.
LANES = 4


@njit(fastmath={"contract"})
def add_coin_products(
    kept: Array, rising: Array, start: tuple[Array, Array], example: Array, step: Array, counts: Array, total: Array
) -> None:
    """Add weight e^(i theta shift) prod_j (1 - r_j + r_j e^(i theta k_j)) of every row to its example.

    kept (rows, units); rising (units,); start = shifts and weights (rows,); example (rows,); the angles of an example
    are multiples of its step, as many as it counts; total (examples, angles), angles a multiple of LANES. Neighboring
    angles turn together instead of computing sines, so that no turn waits for the one before and the error grows by one
    unit in the last place per turn. Units that add nothing, half of those behind a ReLU, are passed over.
    Cost: units angles per row.
    """
    shift, weight = start
    found = np.empty(total.shape[1], dtype=np.complex128)
    for row in range(len(kept)):
        number = example[row]
        blocks = (counts[number] + LANES - 1) // LANES
        angle = step[number] * shift[row]
        one = complex(np.cos(angle), np.sin(angle))
        at = complex(weight[row])
        for k in range(LANES * blocks):
            found[k] = at
            at *= one
        for unit in range(kept.shape[1]):
            if kept[row, unit] == 0.0:
                continue
            angle = step[number] * kept[row, unit]
            one = complex(np.cos(angle), np.sin(angle))
            rest = 1.0 - rising[unit]
            first = complex(rising[unit])
            second = first * one
            two = one * one
            third, fourth, turn = first * two, second * two, two * two
            for k in range(0, LANES * blocks, LANES):
                found[k] *= rest + first
                found[k + 1] *= rest + second
                found[k + 2] *= rest + third
                found[k + 3] *= rest + fourth
                first, second, third, fourth = first * turn, second * turn, third * turn, fourth * turn
        for k in range(LANES * blocks):
            total[number, k] += found[k]


@njit()
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


@njit()
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
