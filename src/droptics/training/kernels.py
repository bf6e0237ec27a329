"""Single-sample dropout SGD of two-layer linear networks, compiled: many runs, many steps, no interpreter between.

Factors are stored with one unit per row, so that a dropped unit costs nothing and a kept one is three passes over
contiguous memory that stay in the first-level cache. Every run is computed by the same instructions in the same
order whether it is alone or one of many, so batches equal separate runs bit for bit.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numba import njit
from numpy.typing import NDArray

Array = NDArray[Any]


def _untied(U: Array, V: Array, x: Array, y: Array, z: Array, rates: Array, losses: Array) -> None:
    """For every run and step: res = U (z o V x) - y, then U and V move by rates * the halved gradient.

    U (runs, width, outputs) and V (runs, width, inputs) are changed in place; x (runs, steps, inputs), y (runs,
    steps, outputs), z (runs, steps, width), rates and losses (runs, steps).
    """
    runs, steps, _ = z.shape
    width, outputs = U.shape[1], U.shape[2]
    inputs = V.shape[2]
    residual = np.empty(outputs, U.dtype)
    hidden = np.empty(width, U.dtype)
    zero = U.dtype.type(0)
    for run in range(runs):
        for t in range(steps):
            xt, yt, zt = x[run, t], y[run, t], z[run, t]
            rate = rates[run, t]
            for o in range(outputs):
                residual[o] = -yt[o]
            for j in range(width):
                if zt[j] != zero:
                    v, u = V[run, j], U[run, j]
                    value = zero
                    for i in range(inputs):
                        value += v[i] * xt[i]
                    value *= zt[j]
                    hidden[j] = value
                    for o in range(outputs):
                        residual[o] += value * u[o]
            total = zero
            for o in range(outputs):
                total += residual[o] * residual[o]
            losses[run, t] = total
            for j in range(width):
                if zt[j] != zero:
                    v, u = V[run, j], U[run, j]
                    back = zero
                    move = rate * hidden[j]
                    for o in range(outputs):
                        back += u[o] * residual[o]
                        u[o] -= move * residual[o]
                    back *= rate * zt[j]
                    for i in range(inputs):
                        v[i] -= back * xt[i]


def _tied(U: Array, x: Array, y: Array, z: Array, rates: Array, losses: Array) -> None:
    """The same for V = U: both halves of the update are computed from the old U."""
    runs, steps, _ = z.shape
    width, features = U.shape[1], U.shape[2]
    residual = np.empty(features, U.dtype)
    hidden = np.empty(width, U.dtype)
    zero = U.dtype.type(0)
    for run in range(runs):
        for t in range(steps):
            xt, yt, zt = x[run, t], y[run, t], z[run, t]
            rate = rates[run, t]
            for o in range(features):
                residual[o] = -yt[o]
            for j in range(width):
                if zt[j] != zero:
                    u = U[run, j]
                    value = zero
                    for i in range(features):
                        value += u[i] * xt[i]
                    value *= zt[j]
                    hidden[j] = value
                    for o in range(features):
                        residual[o] += value * u[o]
            total = zero
            for o in range(features):
                total += residual[o] * residual[o]
            losses[run, t] = total
            for j in range(width):
                if zt[j] != zero:
                    u = U[run, j]
                    back = zero
                    for o in range(features):
                        back += u[o] * residual[o]
                    back *= rate * zt[j]
                    move = rate * hidden[j]
                    for o in range(features):
                        u[o] -= move * residual[o] + back * xt[o]


@cache
def _compiled(function: Callable[..., None]) -> Callable[..., None]:
    # fastmath lets the sums be vectorized; NaN and infinity must survive, they are how divergence is seen
    flags = {"reassoc", "contract", "arcp", "nsz"}
    return njit(nogil=True, cache=True, fastmath=flags)(function)


def run_kernel(factors: list[Array], x: Array, y: Array, z: Array, rates: Array) -> Array:
    """Run all steps of all runs in place, runs shared out over torch's number of threads; returns the losses."""
    kernel = _compiled(_untied if len(factors) == 2 else _tied)
    losses = np.empty(rates.shape, factors[0].dtype)
    runs = len(losses)
    workers = min(torch.get_num_threads(), runs)
    if workers == 1 or runs * x.shape[1] < 1024:
        kernel(*factors, x, y, z, rates, losses)
        return losses
    cuts = np.linspace(0, runs, workers + 1).astype(int)
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    with ThreadPoolExecutor(workers) as pool:
        work = [
            pool.submit(kernel, *(f[part] for f in factors), x[part], y[part], z[part], rates[part], losses[part])
            for part in parts
        ]
        for item in work:
            item.result()
    return losses
