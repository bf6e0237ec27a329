"""What all completions share: reading ratings, alternating least squares, predicting, recommending, saving."""

from __future__ import annotations

import abc
import math
import os
from contextlib import closing
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from droptics.arguments import check_parameters
from droptics.arrays import Array
from droptics.data import Entries
from droptics.models import Factorization
from droptics.recommenders import checkpoints, saving
from droptics.recommenders.alternation import Effort, Sides, Strengths, Sweep, Sweeper, Watch, alternate
from droptics.recommenders.folding import fold_in
from droptics.recommenders.ids import pair_columns
from droptics.recommenders.partitioned import Cluster, Partitions
from droptics.recommenders.progress import follow
from droptics.recommenders.rating_model import RatingModel
from droptics.recommenders.ratings import Compressed, Observations, Source, observations, triple
from droptics.recommenders.sweepers import sweeper_for
from droptics.recommenders.unbounded import say_unbounded

_CHUNK = 1 << 16
_ABSENT = "this model has no ratings (saved with seen=False, or fitted by a cluster)"


class Completion(RatingModel):
    """What all completions share: reading ratings, alternating least squares, predicting, saving.

    Subclasses say what they minimize through `_strengths`.
    """

    user_factors_: Array
    item_factors_: Array
    mean_: float
    history_: list[Sweep]

    @abc.abstractmethod
    def _strengths(self, data: Observations | Partitions) -> Strengths:
        """How strongly each part of the objective counts on this data."""

    def fit(self, ratings: Source, y: Any = None) -> Completion:
        """Fit to ratings: Entries, Ratings, a scipy sparse matrix, a three-column table, three arrays or a path.

        With `y`, `ratings` holds the (user, item) pairs as two columns and `y` the values. Files (CSV, MovieLens'
        formats, Parquet, a folder of Parquet files) are read in chunks; ratings that need more than `memory` bytes stay
        on disk. With an `engine`, its workers read them, each user's ratings in one file, and the ratings stay there.
        """
        with self._engine() as engine:
            source = ratings if y is None else (*pair_columns(ratings), y)
            mean = None if getattr(self, "center", True) else 0.0
            dtype = np.dtype(self.dtype).type
            if isinstance(engine, Cluster) and isinstance(source, (str, os.PathLike)):
                return self._fit(engine.read(source, dtype, mean), engine)
            return self._fit(observations(source, dtype, self.memory, mean), engine)

    def fit_observations(self, data: Observations) -> Completion:
        """Fit to ratings that were read before, so that several fits share one reading."""
        with self._engine() as engine:
            return self._fit(data, engine)

    def _engine(self) -> closing[Sweeper]:
        check_parameters(self)
        self._check_clip()
        return closing(sweeper_for(self.engine, self.device, self.threads, self.memory))

    def _fit(self, data: Observations | Partitions, engine: Sweeper) -> Completion:
        strengths = self._strengths(data)
        start = self._start(data, strengths)
        watch, close = follow(self.progress, self.sweeps)
        try:
            factors, history = self._minimize(engine, data, start, strengths.scaled(data.scale), watch)
        finally:
            close()
        self._keep(factors, history, data, strengths)
        reach = max(data.high - data.low, data.high - data.mean, data.mean - data.low)
        say_unbounded(self.user_factors_, self.item_factors_, reach)
        return self

    def _minimize(
        self, engine: Sweeper, data: Observations | Partitions, start: Sides, strengths: Strengths, watch: Watch
    ) -> tuple[Sides, list[Sweep]]:
        if isinstance(engine, Cluster) and isinstance(data, Observations):
            data = engine.send(data)
        keep = None
        if self.checkpoint is not None:
            what = self.checkpoint, data.items.ids, (self.width, data.scale)
            checkpoints.resume(*what, start[1])
            keep = partial(checkpoints.keep, *what)
        effort = Effort(self.sweeps, self.cg_steps or 0, self.tolerance, keep)
        return alternate(engine, data, start, strengths, effort, watch)

    def _start(self, data: Observations | Partitions, strengths: Strengths) -> Sides:
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
        self, factors: Sides, history: list[Sweep], data: Observations | Partitions, strengths: Strengths
    ) -> None:
        self.scale_, self.strengths_ = data.scale, strengths
        self._set_sides(*factors)
        self.mean_, self.history_, self.objective_ = data.mean, history, history[-1].objective
        self.range_ = (data.low, data.high)
        self._users, self._items = data.users, data.items
        self._counts = (data.by_user.counts, data.by_item.counts)
        self._fresh: dict[int, tuple[Array, Array]] = {}
        # keeps files on disk alive as long as they are needed
        self._data: Observations | None = data if isinstance(data, Observations) else None
        self._seen: Compressed | None = None if self._data is None else self._data.by_user

    def _set_sides(self, left: Array, right: Array) -> None:
        """Factors and biases of both sides, from fitted arrays in units of `scale_`, whose memory the factors keep."""
        width, root = self.strengths_.width, math.sqrt(self.scale_)
        self.user_biases_, self.item_biases_ = (self.scale_ * side[:, width] for side in (left, right))
        left *= root
        right *= root
        self.user_factors_, self.item_factors_ = left[:, :width], right[:, :width]

    def _sides(self, users: int, items: int) -> Sides:
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

    def _predicted(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float64]:
        result = np.full(len(users), self.mean_)
        for at in range(0, len(users), _CHUNK):
            u, i = users[at : at + _CHUNK], items[at : at + _CHUNK]
            both = (u >= 0) & (i >= 0)
            part = result[at : at + _CHUNK]
            part += np.where(u >= 0, self.user_biases_[u], 0) + np.where(i >= 0, self.item_biases_[i], 0)
            part[both] += np.einsum("nk,nk->n", self.user_factors_[u[both]], self.item_factors_[i[both]])
        return result

    def _rated(self, user: int) -> tuple[Array, Array]:
        """Items (numbers) and ratings of a user, minus the mean, in units of `scale_`."""
        if user in self._fresh:
            return self._fresh[user]
        if self._seen is None:
            raise ValueError(f"{_ABSENT}; pass exclude_seen=False")
        if user >= self._seen.rows:
            return np.empty(0, np.int64), np.empty(0)
        part = slice(int(self._seen.starts[user]), int(self._seen.starts[user + 1]))
        return np.asarray(self._seen.columns[part]).astype(np.int64), np.asarray(self._seen.values[part])

    def _ratings(self) -> Compressed:
        """All ratings known by now, those of `partial_fit` included."""
        if self._seen is None:
            raise ValueError(_ABSENT)
        if not self._fresh:
            return self._seen
        return Compressed.of(map(self._rated, range(len(self._users))), self._seen.values.dtype)

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
        return saving.load(cls, path)

    def _loaded(self) -> None:
        """Restore what a subclass derives from its strengths."""
