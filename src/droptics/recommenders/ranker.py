"""What all rankers share: a user is her row of interactions; scores, recommendations and how good they are."""

from __future__ import annotations

import abc
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from droptics.arguments import Count, check_arguments
from droptics.arrays import Array
from droptics.checks import check_positive
from droptics.recommenders.answers import Recommendations, UnknownIds
from droptics.recommenders.estimator import Estimator
from droptics.recommenders.ids import Lookup
from droptics.recommenders.interactions import as_matrix, compressed, taken
from droptics.recommenders.metrics import HeldOutUsers, Ranking, ranking
from droptics.recommenders.ratings import Compressed, Source, triple

_BLOCK = 512


class Ranker(Estimator, abc.ABC):
    """Interactions, scores of any rows, recommendations for known and for new users.

    Subclasses set `_users`, `_items` (lookups), `_rows` (interactions) and `_popularity` (how many each item has) when
    they fit, and say how a row is scored. `feedback` "implicit" counts every kept pair as 1, "graded" takes its value;
    ratings below `threshold` are left out.
    """

    _users: Lookup
    _items: Lookup
    _rows: Compressed
    _popularity: NDArray[np.float64]

    @abc.abstractmethod
    def _score(self, rows: Array) -> Array:
        """Scores of dense rows, one per item."""

    @property
    def item_ids_(self) -> Array:
        """Ids of the items in the order of the columns that `scores` takes and gives."""
        return self._fitted()._items.ids

    @property
    def user_ids_(self) -> Array:
        """Ids of the users that were fitted."""
        return self._fitted()._users.ids

    def scores(self, rows: Any) -> Array:
        """Scores of any rows (sparse or dense, columns in the order of `item_ids_`): nothing is fitted again."""
        self._fitted()
        table = scipy.sparse.csr_matrix(rows)
        if table.shape[1] != len(self._items):
            raise ValueError(f"rows must have {len(self._items)} columns, one per item, got {table.shape[1]}")
        return np.concatenate([found for _, found in self._scored(table)] or [np.empty(table.shape)])

    def _scored(self, table: Any) -> Iterator[tuple[Any, Array]]:
        for at in range(0, table.shape[0], _BLOCK):
            block = table[at : at + _BLOCK].toarray()
            yield block, self._score(block)

    def recommend(self, row: Any, count: int = 10, exclude_seen: bool = True) -> Any:
        """The `count` items with the highest scores, for one user id or for each of several.

        A user without interactions gets the most popular items, those with most interactions, whatever their grades,
        scored by their popularity over that of the first.
        """
        self._fitted()
        check_positive("count", count)
        several = isinstance(row, (list, tuple, np.ndarray)) and np.ndim(row) > 0
        numbers = self._users(row if several else [row])
        if unknown := int((numbers < 0).sum()):
            text = f"{unknown} of {len(numbers)} users are unknown; they get the most popular items"
            warnings.warn(text, UnknownIds, stacklevel=2)
        known = as_matrix(taken(self._rows, numbers[numbers >= 0]), len(self._items))
        place = np.where(numbers >= 0, np.cumsum(numbers >= 0) - 1, known.shape[0])
        table = scipy.sparse.vstack([known, scipy.sparse.csr_matrix((1, len(self._items)))]).tocsr()[place]
        found = self._best(table, count, exclude_seen)
        return found if several else found[0]

    def recommend_new(self, ratings: Source, count: int = 10, exclude_seen: bool = True) -> dict[Any, Recommendations]:
        """Recommendations for users the model never saw, from their interactions alone; by user id."""
        check_positive("count", count)
        ids, table = self._matrix(ratings)
        return dict(zip(ids.tolist(), self._best(table, count, exclude_seen), strict=True))

    def _best(self, table: Any, count: int, exclude_seen: bool) -> list[Recommendations]:
        popularity = self._popularity / max(float(self._popularity.max()), 1e-300)
        found = []
        for block, scored in self._scored(table):
            for row, score in zip(block, scored, strict=True):
                mine = score if row.any() else popularity
                allowed = np.flatnonzero(row == 0) if exclude_seen else np.arange(len(row))
                top = allowed[np.argsort(-mine[allowed], kind="stable")[:count]]
                found.append(Recommendations(self._items.ids[top], mine[top]))
        return found

    def evaluate(
        self, known: Source, hidden: Source, at: Sequence[int] = (20, 50, 100), unknown: str = "warn"
    ) -> Ranking:
        """Judge rankings for held-out users (see `hold_out_users`) from what is known of them.

        Interactions with items the model does not know are left out, with an `UnknownIds` warning unless `unknown` is
        "ignore".
        """
        ids, table = self._matrix(known, unknown=unknown)
        _, relevant = self._matrix(hidden, ids, unknown)
        return ranking(self.scores(table), table, relevant, at)

    def evaluate_popularity(
        self, known: Source, hidden: Source, at: Sequence[int] = (20, 50, 100), unknown: str = "warn"
    ) -> Ranking:
        """What `evaluate` gives when everybody gets the most popular items: what a ranking has to beat."""
        ids, table = self._matrix(known, unknown=unknown)
        _, relevant = self._matrix(hidden, ids, unknown)
        return ranking(np.broadcast_to(self._popularity, table.shape), table, relevant, at)

    def _matrix(self, ratings: Source, ids: Array | None = None, unknown: str = "warn") -> tuple[Array, Any]:
        """Interactions of other users over the known items, with the users' ids in sorted order (or those given)."""
        if unknown not in ("warn", "ignore"):
            raise ValueError(f'unknown must be "warn" or "ignore", got {unknown!r}')
        users, items, values = self._fitted()._kept(triple(ratings))
        ids = np.unique(users) if ids is None else ids
        rows, columns = Lookup(ids)(users), self._items(items)
        known = (rows >= 0) & (columns >= 0)
        if unknown == "warn" and not known.all():
            text = f"{int((~known).sum())} of {len(known)} interactions are with unknown users or items; left out"
            warnings.warn(text, UnknownIds, stacklevel=3)
        table = compressed(rows[known], columns[known], self._weighted(values[known]), len(ids))
        return ids, as_matrix(table, len(self._items))

    def _kept(self, table: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        if self.threshold is None:
            return table
        users, items, values = table
        keep = values >= self.threshold
        if not keep.any():
            raise ValueError(f"threshold must leave some ratings, but none reaches {self.threshold}")
        return users[keep], items[keep], values[keep]

    def _weighted(self, values: Array) -> Array:
        return np.ones(len(values)) if self.feedback == "implicit" else values.astype(np.float64)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_popularity")


def against_popularity(ranker: Ranker, split: HeldOutUsers, at: Sequence[Count] = (5, 10, 20, 40)) -> dict[str, Any]:
    """Recall by length of the list, "personal" and "popular", for held-out users: the data of one picture.

    Cost: one ranking of the held-out users. Claim: none, it measures.
    """
    check_arguments(against_popularity, locals())
    mine = ranker.evaluate(split.known, split.hidden, at, "ignore").recall
    theirs = ranker.evaluate_popularity(split.known, split.hidden, at, "ignore").recall
    return {
        name: {length: mean.value for length, mean in found.items()}
        for name, found in (("personal", mine), ("popular", theirs))
    }
