"""Sums of products of the characteristic functions of coins: the loop behind densities, compiled for the CPU."""

from __future__ import annotations

from typing import Any

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


@njit(fastmath={"contract"})
def softmax_means(lower: Array, center: Array, normal: Array, probabilities: Array, entropies: Array) -> None:
    """Mean softmax, and mean entropy of it, over the points c + L e of every row, in single precision.

    lower L (rows, classes, classes), center c (rows, classes), normal e (classes, points); written are probabilities
    (rows, classes) and entropies (rows,). exp is written out, to 1e-7 of its value, so that neighboring points are
    taken together: the library's takes one at a time. Powers below e^-87 of the largest are raised to that. Cost:
    classes^2 points / 2 per row for the products, none of which leaves the cache.
    """
    (rows, classes), points = center.shape, normal.shape[1]
    logits = np.empty((classes, points), np.float32)
    most, total, inner = np.empty(points, np.float32), np.empty(points, np.float32), np.empty(points, np.float32)
    for row in range(rows):
        for k in range(classes):
            values = logits[k]
            values[:] = center[row, k]
            for j in range(k + 1):
                weight, moved = lower[row, k, j], normal[j]
                for p in range(points):
                    values[p] += weight * moved[p]
            for p in range(points):
                most[p] = values[p] if k == 0 or values[p] > most[p] else most[p]
        total[:] = 0.0
        inner[:] = 0.0
        for k in range(classes):
            _add_powers(logits[k], most, total, inner)
        logs, product = 0.0, 1.0
        for p in range(points):
            product *= total[p]  # between 1 and the number of classes
            if product > 1e200:
                logs, product = logs + np.log(product), 1.0
        for p in range(points):
            total[p] = np.float32(1.0) / total[p]
        for k in range(classes):
            probabilities[row, k] = _dot(logits[k], total) / points
        entropies[row] = (logs + np.log(product) - _dot(inner, total)) / points


@njit(fastmath={"contract"})
def _add_powers(values: Array, most: Array, total: Array, inner: Array) -> None:
    """Make values x into e^(x - most), and add those and their products with x - most.

    x - most = n log 2 + r, and e^r by the polynomial of Cephes for |r| at most half of log 2. n comes from adding a
    number whose last place is one, and stands in its last bits then, from where it becomes the exponent.
    """
    shift = np.float32(1.5 * 2**23 + 127)
    for p in range(len(values)):
        x = values[p] - most[p]
        x = np.float32(-87.0) if x < np.float32(-87.0) else x
        rounded = np.float32(x * np.float32(1.4426950408889634) + shift)
        n = rounded - shift
        r = x - n * np.float32(0.693359375) - n * np.float32(-2.12194440e-4)
        square = r * r
        first = np.float32(1.9875691500e-4) * r + np.float32(1.3981999507e-3)
        second = np.float32(8.3334519073e-3) * r + np.float32(4.1665795894e-2)
        third = np.float32(1.6666665459e-1) * r + np.float32(5.0000001201e-1)
        scale = np.int32(np.float32(rounded).view(np.int32) << np.int32(23)).view(np.float32)
        power = (((first * square + second) * square + third) * square + (r + np.float32(1.0))) * scale
        values[p] = power
        total[p] += power
        inner[p] += power * x


@njit(fastmath={"contract", "reassoc", "nsz"})
def _dot(left: Array, right: Array) -> Any:
    total = np.float32(0.0)
    for p in range(len(left)):
        total += left[p] * right[p]
    return total
