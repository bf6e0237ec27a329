"""Stacks: rating models blended by weights from held-out training ratings, and rankers added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from droptics.arguments import Finite, Probability, Seed, check_parameters
from droptics.arrays import Array
from droptics.datasets import Ratings
from droptics.recommenders.autoencoder import DropoutAutoencoder
from droptics.recommenders.autoencoder_completion import AutoencoderCompletion
from droptics.recommenders.dropout_completion import DropoutCompletion
from droptics.recommenders.estimator import clone
from droptics.recommenders.ids import pair_columns
from droptics.recommenders.implicit import ImplicitDropoutCompletion
from droptics.recommenders.interactions import as_matrix
from droptics.recommenders.ranker import Ranker
from droptics.recommenders.rating_model import RatingModel
from droptics.recommenders.ratings import Source, triple

_DAY_RIDGES = (4.0, 8.0, 16.0, 32.0)  # ratings of a day that count as much as none
_SAMPLE = 1000  # users whose scores tell the scale of a ranker


def default_members(users: int, items: int) -> list[RatingModel]:
    """Two widths of dropout completion, user-wise regressions with a weak and a strong ridge, an item-wise one.

    Members that differ in strength are blended with weights of both signs: the blend extrapolates. Regressions whose
    kernel, square in the items (user-wise) or users (item-wise), would exceed their memory are left out.
    """
    members: list[RatingModel] = [DropoutCompletion(30), DropoutCompletion(100)]
    by_user = AutoencoderCompletion("user")
    if by_user.need(items) <= by_user.memory:
        members += [by_user, AutoencoderCompletion("user", ridge=2.0, implicit=0.3)]
    by_item = AutoencoderCompletion("item", ridge=1.5, implicit=0.3)
    if by_item.need(users) <= by_item.memory:
        members.append(by_item)
    return members


class Days:
    """Shrunk mean error of each user on each day: sum / (count + ridge), 0 where she rated nothing that day."""

    def __init__(self, users: NDArray[np.int64], times: Any, errors: Array, ridge: float) -> None:
        self._keys, place = np.unique(_day_keys(users, times), return_inverse=True)
        self._means = np.bincount(place, errors) / (np.bincount(place) + ridge)

    def __call__(self, users: NDArray[np.int64], times: Any) -> Array:
        """What to add to predictions at these times (seconds)."""
        keys = _day_keys(users, times)
        place = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found: Array = np.where((users >= 0) & (self._keys[place] == keys), self._means[place], 0.0)
        return found


def _day_keys(users: NDArray[np.int64], times: Any) -> NDArray[np.int64]:
    """One number for a user and a day of 86,400 seconds; days count within the years +-5 million."""
    days = np.floor(np.asarray(times, np.float64) / 86_400).astype(np.int64)
    return (users << 32) + days + (1 << 31)


class StackedCompletion(RatingModel):
    """A linear blend of rating models.

    All members are fitted to a random part of the ratings; the weights are the least squares fit of their predictions
    (minus the mean) to the ratings held out; then all members are fitted again to all ratings. No other ratings are
    needed, and none of those that are predicted later enters.

    Args:
        members: Rating models (unfitted; they are cloned); None takes `default_members`.
        days: Add how a user's ratings of the same day differ from the first member's predictions, a shrunk mean that is
            blended like a member; needs `Ratings` with times in seconds.
        holdout: Share of the ratings that the weights are fitted to.
        clip: Clip predictions to the range of the training ratings (True) or to a pair (low, high).
        seed: Of the split.

    After `fit`: `members_` (fitted to all ratings), `weights_`, `holdout_rmse_` (of the blend and of each member on the
    ratings that the weights were fitted to). With `days` the last weight and error are those of the day, and
    `day_ridge_` its ridge, the best of four on the same ratings.
    """

    def __init__(
        self,
        members: Sequence[RatingModel] | None = None,
        *,
        days: bool = False,
        holdout: Probability = 0.05,
        clip: bool | tuple[Finite, Finite] | None = False,
        seed: Seed = 0,
    ) -> None:
        self.members, self.days, self.holdout, self.clip, self.seed = members, days, holdout, clip, seed

    def fit(self, ratings: Source, y: Any = None) -> StackedCompletion:
        """Fit weights and members; sources as in `DropoutCompletion.fit`."""
        check_parameters(self)
        self._check_clip()
        table = Ratings(*triple(ratings if y is None else (*pair_columns(ratings), y)), getattr(ratings, "times", None))
        if self.days and table.times is None:
            raise ValueError("days=True needs the times of the ratings: pass Ratings(users, items, values, times)")
        if self.members is None:
            members = default_members(*(len(np.unique(ids)) for ids in (table.users, table.items)))
        else:
            members = list(self.members)
        if not members:
            raise ValueError("members must be a list of rating models such as DropoutCompletion(30)")
        kept, held = table.split(self.holdout, self.seed)
        middle = float(kept.values.mean())
        fits = [clone(member).fit(kept) for member in members]
        parts = [fit.predict(held.users, held.items, unknown="ignore") - middle for fit in fits]
        target = held.values - middle
        best: tuple[float, Any] = (np.inf, None)
        for ridge in _DAY_RIDGES if self.days else (None,):
            more = [] if ridge is None else [_days(fits[0], kept, ridge)(fits[0]._users(held.users), held.times)]
            design = np.column_stack(parts + more)
            weights = np.linalg.lstsq(design, target, rcond=None)[0]
            errors = [design @ weights - target, *(part - target for part in design.T)]
            found = [float(np.sqrt(np.mean(error**2))) for error in errors]
            best = min(best, (found[0], (weights, found, ridge)), key=lambda pair: pair[0])
        self.weights_, self.holdout_rmse_, self.day_ridge_ = best[1]
        self.members_ = [clone(member).fit(table) for member in members]
        self.mean_ = float(table.values.mean())
        first = self.members_[0]
        self._days = None if self.day_ridge_ is None else _days(first, table, self.day_ridge_)
        self._users, self._items, self.range_ = first._users, first._items, first.range_
        self._places = [(member._users(self._users.ids), member._items(self._items.ids)) for member in self.members_]
        return self

    def predict(self, rows: Any, columns: Any = None, unknown: str = "warn", times: Any = None) -> NDArray[np.float64]:
        """Predicted ratings of (user, item) pairs, see `Completion.predict`; with `days`, at these times (seconds)."""
        days: Days | None = self._fitted()._days
        if times is None or days is None:
            return super().predict(rows, columns, unknown)
        users, items = (rows, columns) if columns is not None else pair_columns(rows)
        left, right = self._users(users), self._items(items)
        if not len(left) == len(right) == len(times):
            raise ValueError(f"{len(left)} users, {len(right)} items and {len(times)} times do not match")
        self._say_unknown(int((left < 0).sum()), int((right < 0).sum()), len(left), unknown)
        return self._clipped(self._predicted(left, right) + self.weights_[-1] * days(left, times))

    def _timed(self, ratings: Any) -> dict[str, Any]:
        return {"times": getattr(ratings, "times", None)}

    def _predicted(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float64]:
        result = np.full(len(users), self.mean_)
        for weight, member, (left, right) in zip(
            self.weights_, self.members_, self._places, strict=False
        ):  # then the day
            numbers = np.where(users >= 0, left[users], -1), np.where(items >= 0, right[items], -1)
            result += weight * (member._clipped(member._predicted(*numbers)) - self.mean_)
        return result

    def _rated(self, user: int) -> tuple[Array, Array]:
        return self.members_[0]._rated(user)


def _days(model: RatingModel, ratings: Ratings, ridge: float) -> Days:
    """How the ratings of a day differ from a model's predictions."""
    errors = ratings.values - model.predict(ratings.users, ratings.items, unknown="ignore")
    return Days(model._users(ratings.users), ratings.times, errors, ridge)


class StackedRanker(Ranker):
    """A sum of rankers, each score divided by its standard deviation over the 1000 most active users' items.

    A member whose scores are all equal, or differ by their rounding alone, ranks nothing and is left out: its deviation
    is infinite.

    Args:
        members: Unfitted rankers (they are cloned), all with the same feedback and threshold; None takes
            `DropoutAutoencoder()` and `ImplicitDropoutCompletion()`.

    After `fit`: `members_` and `deviations_`.
    """

    def __init__(self, members: Sequence[Ranker] | None = None) -> None:
        self.members = members

    def fit(self, ratings: Source, y: Any = None) -> StackedRanker:
        """Fit every member to the same interactions."""
        check_parameters(self)
        members = [DropoutAutoencoder(), ImplicitDropoutCompletion()] if self.members is None else list(self.members)
        if not members:
            raise ValueError("members must be a list of rankers such as DropoutAutoencoder()")
        if len({(member.feedback, member.threshold) for member in members}) > 1:
            raise ValueError("members must agree in feedback and threshold")
        self.members_ = [clone(member).fit(ratings, y) for member in members]
        first = self.members_[0]
        self.feedback, self.threshold = first.feedback, first.threshold
        self._users, self._items, self._rows = first._users, first._items, first._rows
        sample = as_matrix(self._rows, len(self._items))[:_SAMPLE]
        self.deviations_ = [_deviation(member, sample) for member in self.members_]
        self._popularity = first._popularity
        return self

    def _score(self, rows: Array) -> Array:
        parts = zip(self.members_, self.deviations_, strict=True)
        return np.sum([member._score(rows) / deviation for member, deviation in parts], axis=0)


def _deviation(member: Ranker, rows: Any) -> float:
    """Standard deviation of the scores; infinite where it is no more than rounding leaves of equal ones."""
    scores = member.scores(rows)
    # a score is a sum over the items in the precision of the member, and the mean of equal numbers rounds, too
    level = 4 * scores.shape[1] * float(np.finfo(getattr(member, "dtype", np.float64)).eps)
    found = float(scores.std())
    return found if found > level * abs(float(scores.mean())) else np.inf
