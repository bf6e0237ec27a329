"""Stacks: rating models blended by weights from held-out training ratings, and rankers added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone

from droptics.arguments import Finite, Probability, Seed, check_parameters
from droptics.arrays import Array
from droptics.datasets import Ratings
from droptics.recommenders.autoencoder import DropoutAutoencoder
from droptics.recommenders.autoencoder_completion import AutoencoderCompletion
from droptics.recommenders.dropout_completion import DropoutCompletion
from droptics.recommenders.implicit import ImplicitDropoutCompletion
from droptics.recommenders.interactions import as_matrix
from droptics.recommenders.ranker import Ranker
from droptics.recommenders.rating_model import RatingModel, pair_columns
from droptics.recommenders.ratings import Source, triple

_SAMPLE = 1000  # users whose scores tell the scale of a ranker


def default_members() -> list[RatingModel]:
    """Two widths of dropout completion, user-wise regressions with a weak and a strong ridge, an item-wise one.

    Members that differ in strength are blended with weights of both signs: the blend extrapolates.
    """
    return [
        DropoutCompletion(30),
        DropoutCompletion(100),
        AutoencoderCompletion("user"),
        AutoencoderCompletion("user", ridge=2.0, implicit=0.3),
        AutoencoderCompletion("item", ridge=1.5, implicit=0.3),
    ]


class StackedCompletion(RatingModel):
    """A linear blend of rating models.

    All members are fitted to a random part of the ratings; the weights are the least squares fit of their predictions
    (minus the mean) to the ratings held out; then all members are fitted again to all ratings. No other ratings are
    needed, and none of those that are predicted later enters.

    Args:
        members: Rating models (unfitted; they are cloned); None takes `default_members`.
        holdout: Share of the ratings that the weights are fitted to.
        clip: Clip predictions to the range of the training ratings (True) or to a pair (low, high).
        seed: Of the split.

    After `fit`: `members_` (fitted to all ratings), `weights_`, `holdout_rmse_` (of the blend and of each member on the
    ratings that the weights were fitted to).
    """

    def __init__(
        self,
        members: Sequence[RatingModel] | None = None,
        *,
        holdout: Probability = 0.05,
        clip: bool | tuple[Finite, Finite] | None = False,
        seed: Seed = 0,
    ) -> None:
        self.members, self.holdout, self.clip, self.seed = members, holdout, clip, seed

    def fit(self, ratings: Source, y: Any = None) -> StackedCompletion:
        """Fit weights and members; sources as in `DropoutCompletion.fit`."""
        check_parameters(self)
        self._check_clip()
        members = default_members() if self.members is None else list(self.members)
        if not members:
            raise ValueError("members must be a list of rating models such as DropoutCompletion(30)")
        table = Ratings(*triple(ratings if y is None else (*pair_columns(ratings), y)))
        kept, held = table.split(self.holdout, self.seed)
        middle = float(kept.values.mean())
        parts = [
            clone(member).fit(kept).predict(held.users, held.items, unknown="ignore") - middle for member in members
        ]
        target = held.values - middle
        design = np.column_stack(parts)
        self.weights_: Array = np.linalg.lstsq(design, target, rcond=None)[0]
        errors = [design @ self.weights_ - target, *(part - target for part in parts)]
        self.holdout_rmse_ = [float(np.sqrt(np.mean(error**2))) for error in errors]
        self.members_ = [clone(member).fit(table) for member in members]
        self.mean_ = float(table.values.mean())
        first = self.members_[0]
        self._users, self._items, self.range_ = first._users, first._items, first.range_
        self._places = [(member._users(self._users.ids), member._items(self._items.ids)) for member in self.members_]
        return self

    def _predicted(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float64]:
        result = np.full(len(users), self.mean_)
        for weight, member, (left, right) in zip(self.weights_, self.members_, self._places, strict=True):
            numbers = np.where(users >= 0, left[users], -1), np.where(items >= 0, right[items], -1)
            result += weight * (member._predicted(*numbers) - self.mean_)
        return result

    def _rated(self, user: int) -> tuple[Array, Array]:
        return self.members_[0]._rated(user)


class StackedRanker(Ranker):
    """A sum of rankers, each score divided by its standard deviation over the known users' items.

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
        self.deviations_ = [float(member.scores(sample).std()) or 1.0 for member in self.members_]
        self._popularity = first._popularity
        return self

    def _score(self, rows: Array) -> Array:
        parts = zip(self.members_, self.deviations_, strict=True)
        return np.sum([member._score(rows) / deviation for member, deviation in parts], axis=0)
