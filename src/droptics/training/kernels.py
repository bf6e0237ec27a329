"""Single-sample dropout SGD of two-layer linear networks, compiled: many runs, many steps, no interpreter between.

Factors are stored with one unit per row, so that a dropped unit costs nothing and a kept one is three passes over
contiguous memory that stay in the first-level cache. Every run is computed by the same instructions in the same
order whether it is alone or one of many, so batches equal separate runs bit for bit. Units are taken in pairs, so the
width has to be even: an odd one is padded with a unit that is always dropped.
"""

from __future__ import annotations

import numpy as np

from droptics.arrays import Array
from droptics.compiling import njit
from droptics.training.threads import share_runs

# fastmath lets the sums be vectorized; NaN and infinity must survive, they are how divergence is seen
FLAGS = {"reassoc", "contract", "arcp", "nsz"}


@njit(nogil=True)
def _pairs(z: Array, alive: Array) -> int:
    """Indices of the kept units; a dropped one (its multiplier is zero) makes an odd number even."""
    count, dropped = 0, 0
    for j in range(len(z)):
        if z[j] != 0:
            alive[count] = j
            count += 1
        else:
            dropped = j
    if count % 2:
        alive[count] = dropped
        count += 1
    return count


# parameters: a kernel
@njit(nogil=True, fastmath=FLAGS)
def _descend(first: int, U: Array, V: Array, x: Array, y: Array, z: Array, sizes: Array, losses: Array) -> None:
    """For every run and step: res = U (z o V x) - y, then U and V move by sizes * the halved gradient.

    U (runs, width, outputs) and V (runs, width, inputs) are changed in place; x (runs, draws, inputs), y (runs, draws,
    outputs), z (runs, draws, width), of which those from `first` on are used; sizes and losses (runs, steps). The width
    is even. V may be U itself, of a tied network: what a unit reads of its row in the second half is read before it is
    written.
    """
    runs, steps = sizes.shape
    width = z.shape[2]
    outputs, inputs = U.shape[2], V.shape[2]
    residual, hidden = np.empty(outputs, U.dtype), np.empty(width, U.dtype)
    alive = np.empty(width, np.int64)
    zero = U.dtype.type(0)
    for run in range(runs):
        for t in range(steps):
            xt, yt, zt = x[run, first + t], y[run, first + t], z[run, first + t]
            size = sizes[run, t]
            count = _pairs(zt, alive)
            for o in range(outputs):
                residual[o] = -yt[o]
            for k in range(0, count, 2):  # two units at a time share every load of the inputs and the residual
                j, m = alive[k], alive[k + 1]
                vj, vm, uj, um = V[run, j], V[run, m], U[run, j], U[run, m]
                a, b = zero, zero
                for i in range(inputs):
                    a += vj[i] * xt[i]
                    b += vm[i] * xt[i]
                a *= zt[j]
                b *= zt[m]
                hidden[j], hidden[m] = a, b
                for o in range(outputs):
                    residual[o] += a * uj[o] + b * um[o]
            total = zero
            for o in range(outputs):
                total += residual[o] * residual[o]
            losses[run, t] = total
            for k in range(0, count, 2):
                j, m = alive[k], alive[k + 1]
                vj, vm, uj, um = V[run, j], V[run, m], U[run, j], U[run, m]
                a, b = zero, zero
                p, q = size * hidden[j], size * hidden[m]
                for o in range(outputs):
                    a += uj[o] * residual[o]
                    b += um[o] * residual[o]
                    uj[o] -= p * residual[o]
                    um[o] -= q * residual[o]
                a *= size * zt[j]
                b *= size * zt[m]
                for i in range(inputs):
                    vj[i] -= a * xt[i]
                    vm[i] -= b * xt[i]


def run_kernel(factors: list[Array], x: Array, y: Array, z: Array, sizes: Array, *, first: int = 0) -> Array:
    """Run all steps of all runs in place, runs shared out over torch's number of threads; returns the losses."""
    losses = np.empty(sizes.shape, factors[0].dtype)
    arrays = (factors[0], factors[-1], x, y, z, sizes, losses)

    def work(start: int, stop: int) -> None:
        _descend(first, *(array[start:stop] for array in arrays))

    share_runs(work, len(losses), sizes.shape[1] * x.shape[2])
    return losses
