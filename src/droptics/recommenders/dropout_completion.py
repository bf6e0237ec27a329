"""DropoutCompletion: an estimator for explicit ratings whose regularizer is dropout, solved without sampling."""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray

from droptics.arguments import (
    Amount,
    Bytes,
    Count,
    Device,
    DropRate,
    Finite,
    Named,
    NonNegative,
    NumberType,
    Range,
    Seed,
    Share,
    Size,
    check_arguments,
    renamed,
)
from droptics.arrays import Array
from droptics.recommenders.alternation import Strengths, Sweep, Sweeper
from droptics.recommenders.completion import Completion
from droptics.recommenders.ids import pair_columns
from droptics.recommenders.partitioned import Partitions
from droptics.recommenders.ratings import Observations
from droptics.recommenders.sgd import Sgd, descend

# the share of the expected penalty, the rest being the empirical one
Penalty = Annotated[str | float, Named(("expected", "empirical"), Range(0, 1, text="a number in [0, 1]"))]


def default_drop(width: Count, ratings: Count) -> float:
    """The rate used when none is given: lam = 4.8 width / ratings^(1/3), drop = lam / (1 + lam).

    The induced penalty is (lam / width) times a squared weighted trace norm, so the best lam grows with the width and
    lam / width does not; it falls with the number of ratings. The constant and the power were read off MovieLens 100K
    and 1M and Jester, with biases and the expected penalty.

    Cost: O(1). Claim: none, a rule of thumb.

    >>> round(default_drop(70, 900_000), 2)
    0.78
    """
    check_arguments(default_drop, locals())
    strength = 4.8 * width / ratings ** (1 / 3)
    return strength / (1 + strength)


class DropoutCompletion(Completion):
    """Matrix completion with dropout on the factors, by alternating least squares: no sampling, no learning rate.

    Fits r_ij ~ mean + b_i + c_j + <u_i, v_j> to observed ratings under dropout of the `width` factors with rate
    lam = drop / (1 - drop): for fixed items every user is one small ridge problem (thesis-prop3, thesis-prop4),

        u_i = (G_i + lam n_i diag(s))^-1 V_i^T y_i     expected,     s_k = sum_j n_j v_jk^2 / n
        u_i = (G_i + lam diag(G_i))^-1 V_i^T y_i       empirical,    G_i = V_i^T V_i over the ratings of user i

    and jointly its bias. The empirical penalty is what masks on the training ratings minimize on average; its exact
    minimizer predicts badly for rows with few ratings, so "expected" (the penalty under product sampling, whose
    least value over factorizations is lam / width times the squared weighted trace norm) is the default, and a
    number tau mixes (1 - tau) empirical + tau expected. With `smoothing=0` the solutions are those of ALS-WR at a
    matched strength (droptics-als-wr). By default the shares n_i / n and n_j / n in the expected penalty are averaged
    with uniform ones, as in the generalization bound that needs no condition on them (thesis-thm11, corrected); the
    row systems keep their form, (G_i + lam (n_i + n / rows) / 2 diag(s))^-1, and held-out error is lower on sets where
    activity is uneven.

    Args:
        width: Number of factors.
        drop: Probability of dropping a factor, in [0, 1); None takes `default_drop`.
        penalty: "expected", "empirical", or the share tau of the expected penalty.
        solver: "als", or "sgd" for the dropout SGD of the thesis (the reference: slower and less exact).
        biases: Fit a bias per user and item, with ridge `bias_ridge`.
        center: Subtract the mean of all ratings first; without it factors and biases explain the ratings themselves.
        smoothing: Mix the shares of ratings of rows and columns in the expected penalty with uniform ones in this
            proportion: 0 regularizes in proportion to the counts (as ALS-WR does), 1 all rows alike (as plain ridge).
            The default 0.5 was chosen on held-out parts of training ratings of MovieLens and Jester.
        sweeps: Passes over users and items (epochs for sgd); ends early when the objective falls by less than
            `tolerance` times its value.
        cg_steps: Conjugate-gradient steps per row and half-sweep; None solves every row exactly. Three track the exact
            solution, because the diagonal penalty conditions the systems well.
        clip: Clip predictions to the range of the training ratings (True) or to a pair (low, high).
        init_scale: Standard deviation of the random factors at the start, drawn with `seed`.
        dtype: "float32" or "float64".
        device: Run the batched torch path on this device ("cuda"); the compiled kernels on `threads` threads else.
        engine: Address of a Dask cluster (or a client) that runs the same kernels; its workers read the files.
        memory: Bytes the ratings may take before they are kept on disk, and the budget of a batch on a device.
        checkpoint: A file for the item factors after every sweep; a fit begins from it where it exists, so that one
            that was stopped goes on.
        warm_start: Start `fit` from the previous factors where ids are known.
        progress: A bar (True), a bar where there is a terminal (None), nothing, or a function of each `Sweep`.
        step_size, batch: Step size on the mean loss and batch size of the sgd solver.

    Cost of a sweep O(ratings width cg_steps), or O(ratings width^2 + (users + items) width^3) exactly.

    >>> import numpy as np
    >>> users, items = np.divmod(np.arange(60), 10)
    >>> model = DropoutCompletion(width=2, drop=0.1).fit((users, items, 3.0 + (users % 2) * (items % 3)))
    >>> bool(abs(model.predict([1], [2])[0] - 5.0) < 0.5)
    True
    """

    @renamed(rate="step_size")
    def __init__(
        self,
        width: Count = 30,
        drop: DropRate | None = None,
        penalty: Penalty = "expected",
        solver: Literal["als", "sgd"] = "als",
        biases: bool = True,
        *,
        center: bool = True,
        smoothing: Share = 0.5,
        bias_ridge: Amount = 2.0,
        sweeps: Count = 12,
        cg_steps: Count | None = 3,
        tolerance: NonNegative = 1e-5,
        clip: bool | tuple[Finite, Finite] | None = False,
        init_scale: Size = 0.1,
        seed: Seed = 0,
        dtype: NumberType = "float32",
        device: Device | None = None,
        threads: Count | None = None,
        engine: Any = None,
        memory: Bytes = 1 << 32,
        checkpoint: str | PathLike[str] | None = None,
        warm_start: bool = False,
        progress: bool | Callable[[Sweep], None] | None = False,
        step_size: Size = 10.0,
        batch: Count = 2000,
    ) -> None:
        self._remember(locals())

    def _share(self) -> float:
        """The share tau of the expected penalty."""
        named = {"expected": 1.0, "empirical": 0.0}
        return named[self.penalty] if isinstance(self.penalty, str) else float(self.penalty)

    def _strengths(self, data: Observations | Partitions) -> Strengths:
        drop = default_drop(self.width, data.count) if self.drop is None else float(self.drop)
        self.drop_ = drop
        lam, tau = drop / (1 - drop), self._share()
        if self.solver == "sgd":
            tau = 0.0  # masks on the training ratings descend the empirical objective
        bias = self.bias_ridge if self.biases else None
        return Strengths(self.width, lam * (1 - tau), lam * tau, bias=bias, smoothing=self.smoothing)

    def _start(self, data: Observations | Partitions, strengths: Strengths) -> tuple[Array, Array]:
        left, right = super()._start(data, strengths)
        if self.solver == "sgd" and not np.any(left):
            generator = np.random.default_rng([self.seed, 1])
            left[:, : self.width] = self.init_scale * generator.standard_normal((len(left), self.width))
        return left, right

    def _minimize(
        self,
        engine: Sweeper,
        data: Observations | Partitions,
        start: tuple[Array, Array],
        strengths: Strengths,
        watch: Callable[[Sweep], None],
    ) -> tuple[tuple[Array, Array], list[Sweep]]:
        if self.solver == "als":
            return super()._minimize(engine, data, start, strengths, watch)
        if isinstance(data, Partitions) or self.checkpoint is not None:
            raise ValueError('solver="sgd" takes no engine and no checkpoint; use solver="als"')
        how = Sgd(self.drop_, self.sweeps, self.step_size, self.batch, self.seed, self.device)
        return descend(data, start, strengths, how, watch)

    def predict(  # type: ignore[override]
        self, rows: Any, columns: Any = None, unknown: str = "warn", return_std: bool = False
    ) -> NDArray[np.float64] | tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Predicted ratings of (user, item) pairs, see `Completion.predict`.

        With `return_std` also their standard deviation when the factors are dropped at the rate of the training,
        sqrt(lambda sum_k u_k^2 v_k^2) (droptics-predictive); zero for unknown ids, whose factors are. It says how much
        a prediction rests on single factors, not how far ratings scatter around it.
        """
        mean = super().predict(rows, columns, unknown)
        if not return_std:
            return mean
        users, items = (rows, columns) if columns is not None else pair_columns(rows)
        left, right = self._users(users), self._items(items)
        known = (left >= 0) & (right >= 0)
        spread = np.zeros(len(left))
        factors = self.user_factors_[left[known]].astype(np.float64) * self.item_factors_[right[known]]
        spread[known] = np.sqrt(self.drop_ / (1 - self.drop_) * np.square(factors).sum(1))
        return mean, spread

    def _loaded(self) -> None:
        lam = self.strengths_.empirical + self.strengths_.expected
        self.drop_ = lam / (1 + lam)
