"""Compiled inner loops of the experiments: the exact criterion of a tiny network, and its stochastic training."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.compiling import njit


@njit()
def shallow_objective(
    flat: Array, rows: Array, targets: Array, chances: Array, width: int, odds: float, decay: float
) -> tuple[float, Array]:
    """Criterion and gradient of a depth-2 network given as (first, hidden bias, last, output bias), flattened.

    `rows` are masked inputs with probabilities `chances`; the hidden mask is integrated (odds = q/p); `decay` adds
    decay/2 times the sum of squared weights.
    """
    features = rows.shape[1]
    first = flat[: width * features].reshape(width, features)
    hidden_bias = flat[width * features : width * (features + 1)]
    last = flat[width * (features + 1) : width * (features + 2)]
    gradient = np.zeros(len(flat))
    value = 0.0
    hidden = np.empty(width)
    for r in range(rows.shape[0]):
        output = flat[-1]
        noise = 0.0
        for j in range(width):
            total = hidden_bias[j]
            for k in range(features):
                total += first[j, k] * rows[r, k]
            hidden[j] = max(total, 0.0)
            output += last[j] * hidden[j]
            noise += (last[j] * hidden[j]) ** 2
        error = output - targets[r]
        value += chances[r] * (error * error + odds * noise)
        for j in range(width):
            if hidden[j] <= 0.0:
                continue
            gradient[width * (features + 1) + j] += (
                chances[r] * 2.0 * (error * hidden[j] + odds * last[j] * hidden[j] ** 2)
            )
            slope = chances[r] * 2.0 * (error * last[j] + odds * last[j] ** 2 * hidden[j])
            gradient[width * features + j] += slope
            for k in range(features):
                gradient[j * features + k] += slope * rows[r, k]
        gradient[-1] += chances[r] * 2.0 * error
    if decay > 0.0:
        for i in range(len(flat) - 1):
            if i < width * features or i >= width * (features + 1):
                value += decay / 2.0 * flat[i] ** 2
                gradient[i] += decay * flat[i]
    return value, gradient


@njit()
def _next(state: NDArray[np.uint64]) -> float:
    """Uniform number in [0, 1) from a splitmix64 generator (Steele, Lea and Flood 2014)."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) / 9007199254740992.0


@njit()
def train_run(
    flat: Array, inputs: Array, targets: Array, width: int, drop: float, decay: float, steps: int, seed: int
) -> float:
    """Stochastic gradient with momentum on one network; returns the mean squared error without dropout.

    Step .01 / (1 + 1e-5 t), momentum .5 with dampening .5, one random example a step, loss (o - y)^2; weights (not
    biases) decay with gradient decay * w.
    """
    count, features = inputs.shape
    state = np.array([np.uint64(seed)], dtype=np.uint64)
    velocity = np.zeros(len(flat))
    gradient = np.empty(len(flat))
    hidden, kept = np.empty(width), np.empty(width)
    row = np.empty(features)
    scale = 1.0 / (1.0 - drop)
    weights_end, last_start = width * features, width * (features + 1)
    for t in range(steps):
        example = int(_next(state) * count)
        for k in range(features):
            row[k] = inputs[example, k]
            if drop > 0.0:
                row[k] *= scale if _next(state) >= drop else 0.0
        output = flat[-1]
        for j in range(width):
            total = flat[weights_end + j]
            for k in range(features):
                total += flat[j * features + k] * row[k]
            kept[j] = 1.0
            if drop > 0.0:
                kept[j] = scale if _next(state) >= drop else 0.0
            hidden[j] = max(total, 0.0)
            output += flat[last_start + j] * hidden[j] * kept[j]
        slope = 2.0 * (output - targets[example])
        for j in range(width):
            back = slope * flat[last_start + j] * kept[j] if hidden[j] > 0.0 else 0.0
            gradient[weights_end + j] = back
            for k in range(features):
                gradient[j * features + k] = back * row[k] + decay * flat[j * features + k]
            gradient[last_start + j] = slope * hidden[j] * kept[j] + decay * flat[last_start + j]
        gradient[-1] = slope
        rate = 0.01 / (1.0 + 1e-5 * t)
        for i in range(len(flat)):
            velocity[i] = gradient[i] if t == 0 else 0.5 * velocity[i] + 0.5 * gradient[i]
            flat[i] -= rate * velocity[i]
    return shallow_objective(flat, inputs, targets, np.full(count, 1.0 / count), width, 0.0, 0.0)[0]
