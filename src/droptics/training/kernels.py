"""Single-sample dropout SGD of two-layer linear networks, compiled: many runs, many steps, no interpreter between.

Factors are stored with one unit per row, so that a dropped unit costs nothing and a kept one is four passes over
contiguous memory that stay in the first-level cache. Every run is computed by the same instructions in the same
order whether it is alone or one of many, so batches equal separate runs bit for bit. Units are taken by fours, which
dropped ones complete: a number of rows that is a multiple of four always has enough of them.
"""

from __future__ import annotations

import numpy as np

from droptics.arrays import Array
from droptics.compiling import njit
from droptics.training.passes import FOUR, combine, move, multiply, multiply_and_move
from droptics.training.threads import share_runs

# fastmath lets the sums be vectorized; NaN and infinity must survive, they are how divergence is seen
FLAGS = {"reassoc", "contract", "arcp", "nsz"}


@njit(nogil=True)
def _fours(z: Array, alive: Array, kept: Array) -> int:
    """Indices and multipliers of the kept units, made a multiple of four by a dropped one, whose multiplier is zero."""
    count, dropped = 0, len(z)
    for j in range(len(z)):  # without a branch, which would be guessed wrong every third time
        alive[count], kept[count] = j, z[j]
        count += z[j] != 0
        dropped = dropped if z[j] != 0 else j
    while count % FOUR:
        alive[count], kept[count] = dropped, 0
        count += 1
    return count


# parameters: a kernel
@njit(nogil=True, fastmath=FLAGS)
def _descend(first: int, U: Array, V: Array, x: Array, y: Array, z: Array, sizes: Array, losses: Array) -> None:
    """For every run and step: res = U (z o V x) - y, then U and V move by sizes * the halved gradient.

    U (runs, rows, outputs) and V (runs, rows, inputs) are changed in place; x (runs, draws, inputs), y (runs, draws,
    outputs), z (runs, draws, width), of which those from `first` on are used; sizes and losses (runs, steps). There are
    as many rows as units, or more up to a multiple of four. V may be U itself, of a tied network: what a unit reads of
    its row in the second half is read before it is written.
    """
    runs, steps = sizes.shape
    room = z.shape[2] + FOUR
    residual, alive = np.empty(U.shape[2], U.dtype), np.empty(room, np.int64)
    hidden, kept, back = np.empty(room, U.dtype), np.empty(room, U.dtype), np.empty(room, U.dtype)
    zero, one = U.dtype.type(0), U.dtype.type(1)
    for run in range(runs):
        u, v = U[run], V[run]
        for t in range(steps):
            xt, yt = x[run, first + t], y[run, first + t]
            count = _fours(z[run, first + t], alive, kept)
            for o in range(len(residual)):
                residual[o] = -yt[o]
            for k in range(0, count, FOUR):
                multiply(v, alive, k, xt, one, kept, kept, hidden)
            for k in range(0, count, FOUR):
                combine(u, alive, k, residual, one, kept, hidden, back)
            total = zero
            for o in range(len(residual)):
                total += residual[o] * residual[o]
            losses[run, t] = total
            for k in range(0, count, FOUR):
                multiply_and_move(u, alive, k, residual, sizes[run, t], kept, hidden, back)
            for k in range(0, count, FOUR):
                move(v, alive, k, xt, one, kept, back, hidden)


def run_kernel(factors: list[Array], x: Array, y: Array, z: Array, sizes: Array, *, first: int = 0) -> Array:
    """Run all steps of all runs in place, runs shared out over torch's number of threads; returns the losses."""
    losses = np.empty(sizes.shape, factors[0].dtype)
    arrays = (factors[0], factors[-1], x, y, z, sizes, losses)

    def work(start: int, stop: int) -> None:
        _descend(first, *(array[start:stop] for array in arrays))

    share_runs(work, len(losses), sizes.shape[1] * x.shape[2])
    return losses
