"""What all predictors of ratings share: ids, errors on held-out ratings, clipping, what is said of unknown ids."""

from __future__ import annotations

import abc
import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.checks import check_positive
from droptics.recommenders.answers import Errors, Recommendations, UnknownIds
from droptics.recommenders.estimator import Estimator
from droptics.recommenders.ids import Lookup, pair_columns
from droptics.recommenders.ratings import Source, triple


class RatingModel(Estimator, abc.ABC):
    """A predictor of ratings. Subclasses set `_users`, `_items` and `range_` when they fit, and predict numbers."""

    _users: Lookup
    _items: Lookup
    range_: tuple[float, float]

    def _remember(self, options: dict[str, Any]) -> None:
        """Keep the options of a constructor under their names, as scikit-learn wants it: `locals()` there."""
        for name, value in options.items():
            if name not in ("self", "__class__"):
                setattr(self, name, value)

    @abc.abstractmethod
    def _predicted(self, users: NDArray[np.int64], items: NDArray[np.int64]) -> NDArray[np.float64]:
        """Ratings of pairs of numbers, -1 where unknown; not clipped."""

    @abc.abstractmethod
    def _rated(self, user: int) -> tuple[Array, Array]:
        """Items (numbers) that a user has rated, and her ratings in the model's own units."""

    @property
    def user_ids_(self) -> Array:
        """Ids of the users in the order of their numbers."""
        return self._fitted()._users.ids

    @property
    def item_ids_(self) -> Array:
        """Ids of the items in the order of their numbers."""
        return self._fitted()._items.ids

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "range_")

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
        return self._clipped(self._predicted(left, right))

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
        scores = self._predicted(np.full(len(self._items), user), np.arange(len(self._items)))
        allowed = np.ones(len(scores), bool)
        if exclude_seen and user >= 0:
            allowed[self._rated(user)[0]] = False
        candidates = np.flatnonzero(allowed)
        top = min(count, len(candidates))
        if top < len(candidates):
            candidates = candidates[np.argpartition(-scores[candidates], top)[:top]]
        best = candidates[np.argsort(-scores[candidates], kind="stable")]
        return Recommendations(self._items.ids[best], self._clipped(scores[best]))

    def evaluate(self, ratings: Source, unknown: str = "warn") -> Errors:
        """Root mean square and mean absolute error on ratings."""
        users, items, values = triple(ratings)
        if not len(values):
            raise ValueError("ratings must hold at least one rating, got none")
        difference = self.predict(users, items, unknown, **self._timed(ratings)) - values
        cold = int(((self._users(users) < 0) | (self._items(items) < 0)).sum())
        rmse, mae = float(np.sqrt(np.mean(difference**2))), float(np.mean(np.abs(difference)))
        return Errors(rmse, mae, len(values), cold)

    def _timed(self, ratings: Source) -> dict[str, Any]:
        """What else a model that knows times wants to be told when it predicts these ratings."""
        return {}

    def score(self, ratings: Source, y: Any = None) -> float:
        """Minus the root mean square error on ratings, so that more is better."""
        return -self.evaluate(ratings if y is None else (*pair_columns(ratings), y)).rmse

    def _check_clip(self) -> None:
        if not isinstance(self.clip, bool) and self.clip is not None:
            pair = isinstance(self.clip, (tuple, list)) and len(self.clip) == 2
            if not pair or not self.clip[0] < self.clip[1]:
                raise ValueError(f"clip must be True, False or a pair (low, high) with low < high, got {self.clip!r}")

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
