"""Alternating least squares: what is minimized, and the loop over half-sweeps.

    F = sum_(i,j) (y_ij - b_i - c_j - <u_i, v_j>)^2 + P(U, V) + bias (|b|^2 + |c|^2)

P is made of up to four parts, each diagonal once one side is fixed:

    empirical   sum_(i,j) sum_k u_ik^2 v_jk^2                      dropout on the observed entries
    expected    (1/n) sum_k (sum_i n_i u_ik^2) (sum_j n_j v_jk^2)   dropout under product sampling of rows and columns
                with `smoothing` s, the shares p_i = n_i / n become (1 - s) n_i / n + s / rows, alike for columns
    weighted    sum_i n_i |u_i|^2 + sum_j n_j |v_j|^2               ALS-WR
    ridge       |U|^2 + |V|^2                                       plain least squares with ridge
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from droptics.arrays import Array
from droptics.recommenders.ratings import Compressed

_LANES = 8
Sides = tuple[Array, Array]  # factors of users and of items


@dataclass(frozen=True)
class Strengths:
    """Factors of the four parts of the penalty, and of the ridge on the biases (None: no biases).

    Dropout with rate lam = drop / (1 - drop) is `empirical=lam`, or `expected=lam`, or a mixture.
    """

    width: int
    empirical: float = 0.0
    expected: float = 0.0
    weighted: float = 0.0
    ridge: float = 0.0
    bias: float | None = None
    smoothing: float = 0.0

    @property
    def columns(self) -> int:
        """Columns of a factor array: the factors, the bias, and zeros up to a multiple of eight (vector lanes)."""
        return -(-(self.width + 1) // _LANES) * _LANES

    def scaled(self, scale: float) -> Strengths:
        """The strengths that say the same of ratings divided by `scale` and factors divided by its root.

        Dropout and the bias ridge are quadratic in the ratings, as the loss is; ridges on factors are linear.
        """
        return replace(self, weighted=self.weighted / scale, ridge=self.ridge / scale)

    def level(self, plain: Any, weighted: Any, total: Any, rows: int) -> Any:
        """s_k = sum_j q_j v_jk^2 of a side with (smoothed) shares q, from its plain and weighted sums of squares."""
        return (1 - self.smoothing) * weighted / total + self.smoothing * plain / max(rows, 1)

    def diagonals(self, level: Any, per_row: Any, squares: Any, into: Any) -> Any:
        """The three diagonals of a row's system, given the level of the fixed side and the ratings per free row.

        The fourth row, the mean `squares` of the regressors, preconditions conjugate gradients; there is none where the
        penalty needs a row's own. Written `into` zeros of NumPy or of torch: nothing is read back from a device.
        """
        width = self.width
        into[0, :width] = self.empirical
        into[1, :width] = self.expected * (1 - self.smoothing) * level[:width] + self.weighted
        into[2, :width] = self.expected * self.smoothing * per_row * level[:width] + self.ridge
        into[3] = squares
        if self.bias is not None:
            into[2, width : width + 1] = self.bias  # a slice is filled on a device; one entry would be copied there
            into[3, width : width + 1] = 1
        return into[:3] if self.empirical else into

    def own(self, squares: Any, weighted_squares: Any) -> Any:
        """Parts of F that belong to the fixed side alone, from its (rating-weighted) sums of squares per column."""
        total = self.ridge * squares[: self.width].sum() + self.weighted * weighted_squares[: self.width].sum()
        return total if self.bias is None else total + self.bias * squares[self.width]


class Sweeper(Protocol):
    """Where half-sweeps run. Tables and factors are held in whatever form suits the engine."""

    def load(self, table: Compressed) -> Any:
        """Prepare a table of ratings; called once per side."""

    def hold(self, factors: Array) -> Any:
        """Take a factor array in."""

    def release(self, held: Any) -> Array:
        """Give a factor array back."""

    def solve(self, table: Any, fixed: Any, free: Any, strengths: Strengths, weights: Array, steps: int) -> Any:
        """One half-sweep, in place on `free`; returns the pair (F, sum of squared errors) now reached.

        `weights` are the numbers of ratings of the rows of `fixed`. Of the users' half nobody reads the pair, and a
        cluster does not sum it up.
        """

    def close(self) -> None:
        """Let go of what the engine holds: connections, recorded graphs."""


@dataclass(frozen=True)
class Sweep:
    """One line of a history: mean objective and RMSE over the training ratings (in their units), and seconds."""

    sweep: int
    objective: float
    rmse: float
    seconds: float


Watch = Callable[[Sweep], None]


@dataclass(frozen=True)
class Effort:
    """Sweeps at most, steps of conjugate gradients per half-sweep (0 solves exactly), and when to stop early.

    `keep` is given the item factors after every sweep.
    """

    sweeps: int
    steps: int
    tolerance: float = 0.0
    keep: Callable[[Array], None] | None = None


def alternate(
    engine: Sweeper, data: Any, factors: Sides, strengths: Strengths, effort: Effort, watch: Watch | None = None
) -> tuple[Sides, list[Sweep]]:
    """Alternate between users and items of `Observations` (or `Partitions`); returns factors and one line per sweep.

    F never increases (up to rounding): each half-sweep minimizes it exactly, or decreases it by conjugate gradients
    from where it stands. Stops early when a sweep lowers the objective by less than `effort.tolerance` times its value.
    """
    begin = time.perf_counter()
    tables = engine.load(data.by_user), engine.load(data.by_item)
    left, right = engine.hold(factors[0]), engine.hold(factors[1])
    user_counts, item_counts = data.by_user.counts, data.by_item.counts
    history: list[Sweep] = []
    for number in range(1, effort.sweeps + 1):
        engine.solve(tables[0], right, left, strengths, item_counts, effort.steps)
        total, error = engine.solve(tables[1], left, right, strengths, user_counts, effort.steps)
        rmse = data.scale * float(np.sqrt(max(float(error), 0.0) / data.count))
        line = Sweep(number, data.scale**2 * float(total) / data.count, rmse, time.perf_counter() - begin)
        history.append(line)
        if effort.keep is not None:
            effort.keep(engine.release(right))
        if watch is not None:
            watch(line)
        if not np.isfinite(line.objective):
            raise ArithmeticError("the objective is no longer finite; use a larger drop or another penalty")
        if len(history) > 1 and history[-2].objective - line.objective < effort.tolerance * abs(line.objective):
            break
    return (engine.release(left), engine.release(right)), history


def column_sums(factors: Array, weights: Array) -> tuple[Array, Array]:
    """Sums of squares per column, plain and weighted by the ratings of each row, in float64 block by block."""
    plain, weighted = np.zeros(factors.shape[1]), np.zeros(factors.shape[1])
    for at in range(0, len(factors), 4096):
        squares = np.square(factors[at : at + 4096], dtype=np.float64)
        plain += squares.sum(0)
        weighted += weights[at : at + 4096].astype(np.float64) @ squares
    return plain, weighted
