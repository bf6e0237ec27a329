"""How good a ranking is: metrics with standard errors, and a split that holds whole users out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy
import torch
from numpy.typing import NDArray

from droptics.annotations import is_dense
from droptics.arguments import Count, Probability, Seed, check_arguments
from droptics.arrays import Array
from droptics.datasets import Ratings
from droptics.recommenders.ratings import Source, triple


class Mean(NamedTuple):
    """A mean over users and its standard error."""

    value: float
    error: float


@dataclass(frozen=True, eq=False)
class Ranking:
    """Metrics of a ranking, per user and as means with standard errors.

    `ndcg[k]`, `recall[k]`, `precision[k]` (mean average precision), `hit[k]` and `coverage[k]` (share of all items that
    stand among anybody's first k) for the k asked for; `mrr` is the mean reciprocal rank of the first relevant item.

    Attributes:
        users: Values of every user that has relevant items, by name such as "ndcg@20".
        coverage: Share of the items that are recommended to anybody, by k.
        skipped: Users left out because they have no relevant item.
    """

    users: dict[str, NDArray[np.float64]]
    coverage: dict[int, float]
    skipped: int

    @property
    def ndcg(self) -> dict[int, Mean]:
        """Discounted cumulative gain, by 1 / log2(1 + rank), over the largest possible one."""
        return self._by_length("ndcg")

    @property
    def recall(self) -> dict[int, Mean]:
        """Relevant items among the first k, over min(k, relevant)."""
        return self._by_length("recall")

    @property
    def precision(self) -> dict[int, Mean]:
        """Average precision at the ranks of relevant items among the first k, over min(k, relevant)."""
        return self._by_length("precision")

    @property
    def hit(self) -> dict[int, Mean]:
        """Whether any of the first k is relevant."""
        return self._by_length("hit")

    @property
    def mrr(self) -> Mean:
        """Reciprocal rank of the first relevant item."""
        return mean_of(self.users["mrr"])

    def above(self, other: Ranking, name: str) -> Mean:
        """Mean difference to another ranking of the same users, with the standard error of paired differences."""
        mine, theirs = self.users[name], other.users[name]
        if len(mine) != len(theirs):
            raise ValueError(f"other must rank the same users, got {len(theirs)} instead of {len(mine)}")
        return mean_of(mine - theirs)

    def _by_length(self, name: str) -> dict[int, Mean]:
        return {length: mean_of(self.users[f"{name}@{length}"]) for length in self.coverage}


def ranking(scores: Any, seen: Any, relevant: Any, at: Sequence[Count] = (20, 50, 100)) -> Ranking:
    """Judge scores by which relevant items come first among those not seen.

    Claim: none, scores by definition.

    Args:
        scores: Users x items, higher is better.
        seen: Users x items (sparse or dense), nonzero where the item is not to be ranked; None: nowhere.
        relevant: Users x items (sparse or dense), nonzero where the item is relevant.
        at: Lengths k of the lists that are judged.

    Equal scores rank by the order of the items, so that results do not depend on the machine. A user's list ends with
    the last item not seen. Cost O(users items log items).
    """
    check_arguments(ranking, locals())
    if not len(at):
        raise ValueError("at must name at least one length of a list, got none")
    table = _dense(scores, "scores")
    hidden = _sparse(relevant, "relevant")
    known = scipy.sparse.csr_matrix(hidden.shape) if seen is None else _sparse(seen, "seen")
    if not table.shape == hidden.shape == known.shape:
        raise ValueError(
            f"scores, seen and relevant must have one shape, got {table.shape}, {known.shape} and {hidden.shape}"
        )
    if np.isnan(table).any():
        raise ValueError("scores must not be NaN; remove or impute them")
    lengths = tuple(sorted(set(at)))
    items = table.shape[1]
    shown = {length: np.zeros(items, bool) for length in lengths}
    rows = []
    for user in range(len(table)):
        found = hidden.indices[hidden.indptr[user] : hidden.indptr[user + 1]]
        out = known.indices[known.indptr[user] : known.indptr[user + 1]]
        order = items - 1 - np.argsort(table[user, ::-1], kind="stable")[::-1]  # unsigned numbers have no minus
        allowed = np.ones(items, bool)
        allowed[out] = False
        order = order[allowed[order]]
        for length in lengths:
            shown[length][order[:length]] = True
        found = found[allowed[found]]
        if len(found):
            wanted = np.zeros(items, bool)
            wanted[found] = True
            rows.append(_judged(wanted[order], len(found), lengths))
    if not rows:
        raise ValueError("relevant must hold an item that is not seen for at least one user, got none")
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    return Ranking(columns, {length: float(shown[length].mean()) for length in lengths}, len(table) - len(rows))


def _judged(hits: NDArray[np.bool_], relevant: int, lengths: tuple[int, ...]) -> dict[str, float]:
    """Metrics of one ordered list."""
    places = np.flatnonzero(hits)
    result = {"mrr": 1.0 / (places[0] + 1)}
    discounts = 1.0 / np.log2(np.arange(2, max(lengths) + 2))
    for length in lengths:
        best = min(length, relevant)
        top = places[places < length]
        result[f"ndcg@{length}"] = float(discounts[top].sum() / discounts[:best].sum())
        result[f"recall@{length}"] = len(top) / best
        result[f"precision@{length}"] = float((np.arange(1, len(top) + 1) / (top + 1)).sum() / best)
        result[f"hit@{length}"] = float(len(top) > 0)
    return result


class HeldOutUsers(NamedTuple):
    """Ratings of the users to train on, and of the users held out: what is known of them and what is to be found."""

    train: Ratings
    known: Ratings
    hidden: Ratings


def hold_out_users(
    ratings: Source, share: Probability = 0.1, fold_in: Probability = 0.8, seed: Seed = 0
) -> HeldOutUsers:
    """Hold a share of the users out altogether; of their ratings a share `fold_in` is known, the rest hidden.

    This is strong generalization: the model never saw these users and ranks for them from their known ratings alone.
    Users with a single rating stay in training. Each held-out user keeps at least one known and one hidden rating.

    Cost: O(ratings log ratings). Claim: none, it draws.
    """
    check_arguments(hold_out_users, locals())
    table = ratings if isinstance(ratings, Ratings) else Ratings(*triple(ratings))
    _, place, counts = np.unique(table.users, return_inverse=True, return_counts=True)
    several = np.flatnonzero(counts > 1)
    if len(counts) < 2 or not len(several):
        raise ValueError("ratings must have at least two users, one of them with two ratings")
    generator = np.random.default_rng(seed)
    number = min(max(1, round(float(share) * len(counts))), len(several), len(counts) - 1)
    held = np.zeros(len(counts), bool)
    held[generator.choice(several, number, replace=False)] = True
    order = generator.permutation(len(table))
    order = order[np.argsort(place[order], kind="stable")]
    within = np.arange(len(table)) - np.repeat(np.cumsum(counts) - counts, counts)
    kept = np.clip(np.round(float(fold_in) * counts), 1, np.maximum(counts - 1, 1))
    known = np.zeros(len(table), bool)
    known[order] = within < kept[place[order]]
    out = held[place]
    return HeldOutUsers(*(table.take(np.flatnonzero(mask)) for mask in (~out, out & known, out & ~known)))


def _dense(value: Any, name: str) -> Array:
    """A table of numbers, from a tensor or whatever NumPy reads."""
    found = value.detach().cpu().numpy() if isinstance(value, torch.Tensor) and is_dense(value) else np.asarray(value)
    if found.ndim != 2 or found.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be a table of numbers, users x items, got {type(value).__name__}")
    return found


def _sparse(value: Any, name: str) -> Any:
    """Which entries are not zero: a copy, in which entries that were named twice are one, their sum."""
    found = scipy.sparse.csr_matrix(value if scipy.sparse.issparse(value) else _dense(value, name), copy=True)
    found.sum_duplicates()
    found.eliminate_zeros()
    return found


def mean_of(values: NDArray[np.float64]) -> Mean:
    """Mean and standard error of independent values."""
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return Mean(float(values.mean()), error)
