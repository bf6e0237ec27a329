"""What all completions share: reading ratings, alternating least squares, predicting, recommending, saving."""

from __future__ import annotations

import abc
import math
import os
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError

from droptics.checks import check_positive
from droptics.data import Entries
from droptics.models import Factorization
from droptics.recommenders import saving
from droptics.recommenders.alternation import Strengths, Sweep, alternate
from droptics.recommenders.answers import Errors, Recommendations, UnboundedPredictions, UnknownIds
from droptics.recommenders.engines import engine_for
from droptics.recommenders.folding import fold_in
from droptics.recommenders.ids import as_ids
from droptics.recommenders.progress import follow
from droptics.recommenders.ratings import Compressed, Observations, Source, observations, triple

Array = NDArray[Any]
_CHUNK = 1 << 16


class Completion(BaseEstimator, abc.ABC):  # type: ignore[misc]
    """What all completions share: reading ratings, alternating least squares, predicting, saving.

    Subclasses say what they minimize through `_strengths`.
    """

    user_factors_: Array
    item_factors_: Array
    mean_: float
    history_: list[Sweep]

    @abc.abstractmethod
    def _strengths(self, data: Observations) -> Strengths:
        """How strongly each part of the objective counts on this data."""

    def fit(self, ratings: Source, y: Any = None) -> Completion:
        """Fit to ratings: Entries, Ratings, a scipy sparse matrix, a three-column table, three arrays or a path.

        With `y`, `ratings` holds the (user, item) pairs as two columns and `y` the values. Files (CSV, MovieLens'
        formats, Parquet) are read in chunks; ratings that need more than `memory` bytes stay on disk.
        """
        self._check()
        source = ratings if y is None else (*pair_columns(ratings), y)
        return self.fit_observations(observations(source, np.dtype(self.dtype).type, self.memory))

    def fit_observations(self, data: Observations) -> Completion:
        """Fit to ratings that were read before, so that several fits share one reading."""
        self._check()
        strengths = self._strengths(data)
        start = self._start(data, strengths)
        watch, close = follow(self.progress, self.sweeps)
        try:
            factors, history = self._minimize(data, start, strengths.scaled(data.scale), watch)
        finally:
            close()
        self._keep(factors, history, data, strengths)
        self._say_unbounded(factors, data)
        return self

    def _minimize(
        self,
        data: Observations,
        start: tuple[Array, Array],
        strengths: Strengths,
        watch: Callable[[Sweep], None],
    ) -> tuple[tuple[Array, Array], list[Sweep]]:
        engine = engine_for(self.engine, self.device, self.threads, self.memory)
        try:
            return alternate(engine, data, start, strengths, self.sweeps, self.cg_steps or 0, self.tolerance, watch)
        finally:
            engine.close()

    def _check(self) -> None:
        for name in ("width", "sweeps", "memory"):
            check_positive(name, getattr(self, name))
        if self.cg_steps is not None:
            check_positive("cg_steps", self.cg_steps)
        if np.dtype(self.dtype) not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f'dtype must be "float32" or "float64", got {self.dtype!r}')
        if not self.init_scale > 0:
            raise ValueError(f"init_scale must be positive, got {self.init_scale!r}")
        if self.biases and not self.bias_ridge >= 0:
            raise ValueError(f"bias_ridge must not be negative, got {self.bias_ridge!r}")
        if not self.tolerance >= 0:
            raise ValueError(f"tolerance must be a number that is not negative, got {self.tolerance!r}")
        if not isinstance(self.clip, bool) and self.clip is not None:
            pair = isinstance(self.clip, (tuple, list)) and len(self.clip) == 2
            if not pair or not float(self.clip[0]) < float(self.clip[1]):
                raise ValueError(f"clip must be True, False or a pair (low, high) with low < high, got {self.clip!r}")

    def _start(self, data: Observations, strengths: Strengths) -> tuple[Array, Array]:
        """Normal item factors and zero users (the first half-sweep sets them), or the last fit's where ids are known.

        Starting the users at zero makes the result independent of the initial scale of the items.
        """
        generator = np.random.default_rng(self.seed)
        left = np.zeros((len(data.users), strengths.columns), self.dtype)
        right = np.zeros((len(data.items), strengths.columns), self.dtype)
        right[:, : self.width] = self.init_scale * generator.standard_normal((len(right), self.width))
        if self.warm_start and hasattr(self, "history_") and self.user_factors_.shape[1] == self.width:
            for side, lookup, old, factors, biases in (
                (left, data.users, self._users, self.user_factors_, self.user_biases_),
                (right, data.items, self._items, self.item_factors_, self.item_biases_),
            ):
                found = old(lookup.ids)
                known = found >= 0
                side[known, : self.width] = factors[found[known]] / math.sqrt(data.scale)
                if strengths.bias is not None:
                    side[known, self.width] = biases[found[known]] / data.scale
        return left, right

    def _keep(
        self, factors: tuple[Array, Array], history: list[Sweep], data: Observations, strengths: Strengths
    ) -> None:
        self.scale_, self.strengths_ = data.scale, strengths
        self._set_sides(*factors)
        self.mean_, self.history_, self.objective_ = data.mean, history, history[-1].objective
        self.range_ = (data.low, data.high)
        self._users, self._items = data.users, data.items
        self._seen: Compressed | None = data.by_user
        self._counts = (data.by_user.counts, data.by_item.counts)
        self._fresh: dict[int, tuple[Array, Array]] = {}
        self._data: Observations | None = data  # keeps files on disk alive as long as they are needed

    def _set_sides(self, left: Array, right: Array) -> None:
        """Factors and biases of both sides, from fitted arrays in units of `scale_`."""
        width, root = self.strengths_.width, math.sqrt(self.scale_)
        (self.user_factors_, self.user_biases_), (self.item_factors_, self.item_biases_) = (
            (root * side[:, :width], self.scale_ * side[:, width]) for side in (left, right)
        )

    def _sides(self, users: int, items: int) -> tuple[Array, Array]:
        """What `_set_sides` took, with zero rows up to these sizes."""
        width, root = self.strengths_.width, math.sqrt(self.scale_)
        left, right = (np.zeros((size, self.strengths_.columns), self.user_factors_.dtype) for size in (users, items))
        for side, factors, biases in (
            (left, self.user_factors_, self.user_biases_),
            (right, self.item_factors_, self.item_biases_),
        ):
            side[: len(factors), :width] = factors / root
            side[: len(biases), width] = biases / self.scale_
        return left, right

    def _say_unbounded(self, factors: tuple[Array, Array], data: Observations) -> None:
        """Warn when the root mean square of <u_i, v_j> over all pairs exceeds the ratings' range.

        Dropout on the observed entries alone, and no dropout, leave rows with few ratings free on other items.
        """
        wide = [side[:, : self.strengths_.width].astype(np.float64) for side in factors]
        left, right = (side.T @ side / len(side) for side in wide)
        spread = data.scale * math.sqrt(max(float((left * right).sum()), 0.0))
        if spread > data.high - data.low:
            warnings.warn(
                f"predictions of pairs that were not rated have a root mean square of {spread:.3g} about mean and "
                f"biases, where all ratings lie within {data.high - data.low:.3g}: the penalty does not bound them; "
                'use penalty="expected", a share of it, or a larger drop',
                UnboundedPredictions,
                stacklevel=4,
            )

    @property
    def user_ids_(self) -> Array:
        """Ids of the users in the order of `user_factors_`."""
        return self._fitted()._users.ids

    @property
    def item_ids_(self) -> Array:
        """Ids of the items in the order of `item_factors_`."""
        return self._fitted()._items.ids

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "history_")

    def _fitted(self) -> Completion:
        if not hasattr(self, "history_"):
            raise NotFittedError(f"this {type(self).__name__} is not fitted yet; call fit first")
        return self

    def predict(self, rows: Any, columns: Any = None, unknown: str = "warn") -> NDArray[np.float64]:
        """Predicted ratings of (user, item) pairs: two vectors of ids, or one array of two columns.

        An unknown user is predicted by mean + item bias, an unknown item by mean + user bias, both by the mean;
        `unknown` is "warn" (an `UnknownIds` warning with the counts), "ignore" or "raise".
        """
        self._fitted()
        users, items = (rows, columns) if columns is not None else pair_columns(rows)
        left, right = self._users(users), self._items(items)
        if len(left) != len(right):
            raise ValueError(f"rows and columns must match, got {len(left)} users and {len(right)} items")
        self._say_unknown(int((left < 0).sum()), int((right < 0).sum()), len(left), unknown)
        result = np.full(len(left), self.mean_)
        for at in range(0, len(left), _CHUNK):
            u, i = left[at : at + _CHUNK], right[at : at + _CHUNK]
            both = (u >= 0) & (i >= 0)
            part = result[at : at + _CHUNK]
            part += np.where(u >= 0, self.user_biases_[u], 0) + np.where(i >= 0, self.item_biases_[i], 0)
            part[both] += np.einsum("nk,nk->n", self.user_factors_[u[both]], self.item_factors_[i[both]])
        return self._clipped(result)

    def recommend(self, row: Any, count: int = 10, exclude_seen: bool = True) -> Any:
        """The `count` items with the highest predicted rating, for one user id or for each of several.

        Items the user has rated are left out unless `exclude_seen=False`. Returns `Recommendations`, or a list of
        them for a list of users; fewer than `count` where the user has rated almost everything.
        """
        self._fitted()
        check_positive("count", count)
        several = isinstance(row, (list, tuple, np.ndarray, torch.Tensor)) and np.ndim(row) > 0
        numbers = self._users(row if several else [row])
        self._say_unknown(int((numbers < 0).sum()), 0, len(numbers), "warn")
        found = [self._best(int(user), count, exclude_seen) for user in numbers]
        return found if several else found[0]

    def _best(self, user: int, count: int, exclude_seen: bool) -> Recommendations:
        scores = self.mean_ + self.item_biases_.astype(np.float64)
        if user >= 0:
            scores += self.user_biases_[user] + self.item_factors_ @ self.user_factors_[user]
        allowed = np.ones(len(scores), bool)
        if exclude_seen and user >= 0:
            allowed[self._rated(user)[0]] = False
        candidates = np.flatnonzero(allowed)
        top = min(count, len(candidates))
        if top < len(candidates):
            candidates = candidates[np.argpartition(-scores[candidates], top)[:top]]
        best = candidates[np.argsort(-scores[candidates], kind="stable")]
        return Recommendations(self._items.ids[best], self._clipped(scores[best]))

    def _rated(self, user: int) -> tuple[Array, Array]:
        """Items (numbers) and ratings of a user, minus the mean, in units of `scale_`."""
        if user in self._fresh:
            return self._fresh[user]
        if self._seen is None:
            raise ValueError("this model was saved without its ratings (seen=False); pass exclude_seen=False")
        if user >= self._seen.rows:
            return np.empty(0, np.int64), np.empty(0)
        part = slice(int(self._seen.starts[user]), int(self._seen.starts[user + 1]))
        return np.asarray(self._seen.columns[part]).astype(np.int64), np.asarray(self._seen.values[part])

    def _ratings(self) -> Compressed:
        """All ratings known by now, those of `partial_fit` included."""
        if self._seen is None:
            raise ValueError("this model was saved without its ratings (seen=False)")
        if not self._fresh:
            return self._seen
        rated = [self._rated(user) for user in range(len(self._users))]
        starts = np.concatenate([[0], np.cumsum([len(items) for items, _ in rated])])
        items, values = (np.concatenate(parts) for parts in zip(*rated, strict=True))
        return Compressed(starts.astype(np.int64), items.astype(np.int32), values.astype(self._seen.values.dtype))

    def evaluate(self, ratings: Source, unknown: str = "warn") -> Errors:
        """Root mean square and mean absolute error on ratings."""
        users, items, values = triple(ratings)
        if not len(values):
            raise ValueError("ratings must hold at least one rating, got none")
        difference = self.predict(users, items, unknown) - values
        cold = int(((self._users(users) < 0) | (self._items(items) < 0)).sum())
        rmse, mae = float(np.sqrt(np.mean(difference**2))), float(np.mean(np.abs(difference)))
        return Errors(rmse, mae, len(values), cold)

    def score(self, ratings: Source, y: Any = None) -> float:
        """Minus the root mean square error on ratings, so that more is better."""
        return -self.evaluate(ratings if y is None else (*pair_columns(ratings), y)).rmse

    def partial_fit(self, ratings: Source) -> Completion:
        """Add ratings of new (or known) users: their rows are solved exactly with the items fixed, then new items.

        A new rating of a known pair replaces the old one. Items seen for the first time get factors from the users of
        these ratings. Everything else stays as it is; the cost does not depend on the ratings already fitted.
        """
        if not hasattr(self, "history_"):
            return self.fit(ratings)
        fold_in(self, triple(ratings))
        return self

    def factorization(self) -> Factorization:
        """The factors as a model of the theory, U V^T; biases and mean are not part of it."""
        self._fitted()
        return Factorization(torch.from_numpy(self.user_factors_), torch.from_numpy(self.item_factors_))

    def entries(self, biases: bool = False) -> Entries:
        """All ratings, minus the mean (and minus the biases), numbered as the factors are; `partial_fit`'s included."""
        known = self._fitted()._ratings()
        rows = np.repeat(np.arange(known.rows), known.counts)
        columns, values = np.array(known.columns, np.int64), np.array(known.values) * self.scale_
        if biases:
            values = values - self.user_biases_[rows] - self.item_biases_[columns]
        shape = (len(self.user_factors_), len(self.item_factors_))
        return Entries(torch.from_numpy(rows), torch.from_numpy(columns), torch.from_numpy(values), shape)

    def save(self, path: str | os.PathLike[str], seen: bool = True) -> None:
        """Write the fitted model to one safetensors file, without pickle; `seen=False` leaves the ratings out."""
        saving.save(self._fitted(), path, seen)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Completion:
        """Read a model that `save` wrote."""
        model: Completion = saving.load(cls, path)
        model._loaded()
        return model

    def _loaded(self) -> None:
        """Restore what a subclass derives from its strengths."""

    def _clipped(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.clip is False or self.clip is None:
            return values
        low, high = self.range_ if self.clip is True else self.clip
        return values.clip(low, high)

    def _say_unknown(self, users: int, items: int, count: int, unknown: str) -> None:
        if unknown not in ("warn", "ignore", "raise"):
            raise ValueError(f'unknown must be "warn", "ignore" or "raise", got {unknown!r}')
        if (users or items) and unknown != "ignore":
            text = f"{users} of {count} users and {items} of {count} items are unknown; "
            if unknown == "raise":
                raise ValueError(text + 'pass unknown="ignore" to predict them from the mean and the biases')
            warnings.warn(text + "predicted from the mean and the biases that are known", UnknownIds, stacklevel=3)


def pair_columns(pairs: Any) -> tuple[Array, Array]:
    """The two columns of a table of (user, item) pairs."""
    if hasattr(pairs, "iloc"):
        return as_ids(pairs.iloc[:, 0].to_numpy()), as_ids(pairs.iloc[:, 1].to_numpy())
    table = np.asarray(pairs)
    if table.ndim != 2 or table.shape[1] != 2:
        raise ValueError(f"pairs must have two columns (user, item), got shape {table.shape}")
    return as_ids(table[:, 0]), as_ids(table[:, 1])
