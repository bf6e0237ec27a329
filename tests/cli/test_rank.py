"""The rows of `droptics complete --rank`: each is the number that its name says, of the model that it says."""

import numpy as np
import pytest

from droptics.cli.rank import rank
from droptics.datasets.ratings import Ratings
from droptics.recommenders import DropoutAutoencoder, hold_out_users, ranking


def table():
    """120 items, so that the first twenty, the first hundred and all of them differ; popular ones first."""
    rng = np.random.default_rng(3)
    users, items = np.nonzero(rng.random((60, 120)) < np.linspace(0.6, 0.05, 120))
    return Ratings(users, items, rng.integers(1, 6, len(users)).astype(float))


def by_count(split, at):
    """The metrics of the ranking by how many training users have an item."""
    items, column = np.unique(split.train.items, return_inverse=True)
    people = np.unique(split.hidden.users)

    def marks(part):
        found = np.zeros((len(people), len(items)), bool)
        kept = np.isin(part.items, items)
        found[np.searchsorted(people, part.users[kept]), np.searchsorted(items, part.items[kept])] = True
        return found

    counts = np.tile(np.bincount(column).astype(float), (len(people), 1))
    return ranking(counts, marks(split.known), marks(split.hidden), at=at)


@pytest.mark.parametrize("threshold", [None, 3.0])
def test_every_row_has_its_own_number(threshold):
    ratings, seed = table(), 5
    model, rows = rank(ratings, 0.4, threshold, 0.3, seed)
    liked = ratings if threshold is None else ratings.take(np.flatnonzero(ratings.values >= threshold))
    split = hold_out_users(liked, 0.3, seed=seed)
    alone = DropoutAutoencoder(0.4, threshold=threshold, seed=seed).fit(split.train)
    mine, theirs = alone.evaluate(split.known, split.hidden, unknown="ignore"), by_count(split, (20, 100))
    wanted = {"held-out users": len(mine.users["mrr"])}
    for name, one, other in (
        ("nDCG@20", mine.ndcg[20], theirs.ndcg[20]),
        ("nDCG@100", mine.ndcg[100], theirs.ndcg[100]),
        ("Recall@20", mine.recall[20], theirs.recall[20]),
    ):
        wanted |= {name: one.value, f"{name} error": one.error, f"{name} by popularity": other.value}
    assert {name: rows[name] for name in wanted} == pytest.approx(wanted, rel=1e-9)
    numbers = [value for name, value in wanted.items() if name != "held-out users"]
    assert len(set(numbers)) == len(numbers)  # no row can stand for another
    whole = DropoutAutoencoder(0.4, alone.ridge_, threshold=threshold, seed=seed).fit(ratings)
    assert (rows["drop"], rows["ridge"]) == (0.4, alone.ridge_)
    assert (rows["users"], rows["items"]) == tuple(len(np.unique(part)) for part in (liked.users, liked.items))
    assert rows["interactions"] == len(liked)
    for kept, fresh in zip(model.recommend(0, 7), whole.recommend(0, 7), strict=True):
        np.testing.assert_array_equal(kept, fresh)


def test_without_held_out_users_there_are_facts_alone():
    _, rows = rank(table(), 0.4, None, 0.0, 0)
    assert list(rows) == ["interactions", "users", "items", "drop", "ridge"]
