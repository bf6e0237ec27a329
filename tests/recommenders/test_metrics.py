"""Ranking metrics against their definitions, written out; the split by users."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import sparse

from droptics.datasets import planted_ratings
from droptics.recommenders import DropoutAutoencoder, UnknownIds, hold_out_users, ranking


def by_definition(scores, seen, relevant, k):
    """nDCG, recall, average precision, hit and reciprocal rank of one user, item by item."""
    order = sorted((j for j in range(len(scores)) if not seen[j]), key=lambda j: (-scores[j], j))
    wanted = {j for j in order if relevant[j]}
    gains = [1 / np.log2(rank + 1) for rank, j in enumerate(order[:k], 1) if j in wanted]
    ideal = sum(1 / np.log2(rank + 1) for rank in range(1, min(k, len(wanted)) + 1))
    hits, precision = 0, 0.0
    for rank, j in enumerate(order[:k], 1):
        if j in wanted:
            hits += 1
            precision += hits / rank
    best = min(k, len(wanted))
    first = next(rank for rank, j in enumerate(order, 1) if j in wanted)
    return sum(gains) / ideal, hits / best, precision / best, float(hits > 0), 1 / first


@pytest.mark.parametrize("ties", [False, True])
def test_metrics_are_their_definitions(ties):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 4, (17, 40)).astype(float) if ties else rng.standard_normal((17, 40))
    seen = rng.random((17, 40)) < 0.3
    relevant = (rng.random((17, 40)) < 0.3) & ~seen
    relevant[5] = False
    found = ranking(scores, seen, sparse.csr_matrix(relevant), at=(3, 1, 50))
    keep = [user for user in range(17) if relevant[user].any()]
    assert found.skipped == 17 - len(keep)
    for k in (1, 3, 50):
        rows = np.array([by_definition(scores[user], seen[user], relevant[user], k) for user in keep])
        for values, mean in zip(rows.T, (found.ndcg, found.recall, found.precision, found.hit), strict=False):
            assert mean[k].value == pytest.approx(values.mean(), rel=1e-12)
            assert mean[k].error == pytest.approx(values.std(ddof=1) / np.sqrt(len(keep)), rel=1e-12)
        assert found.mrr.value == pytest.approx(rows[:, 4].mean(), rel=1e-12)
        tops = {
            j
            for user in range(17)
            for j in sorted(np.flatnonzero(~seen[user]), key=lambda j, u=user: (-scores[u, j], j))[:k]
        }
        assert found.coverage[k] == len(tops) / 40


@pytest.mark.parametrize("kind", ["bool", "uint8", "uint64", "int8", "float16"])
def test_scores_of_every_type_rank_alike(kind):
    scores = np.array([[0, 1, 0, 1], [1, 0, 1, 1]])
    relevant = np.array([[1, 0, 0, 1], [0, 1, 0, 1]])
    wanted = ranking(scores.astype(float), None, relevant, at=[1, 2]).users
    found = ranking(scores.astype(kind), None, relevant, at=[1, 2]).users
    assert {name: list(values) for name, values in found.items()} == {name: list(v) for name, v in wanted.items()}
    assert list(found["mrr"]) == [1 / 2, 1 / 3]


def test_entries_named_twice_count_once_and_matrices_stay_as_they_were():
    scores = np.array([[3.0, 2.0, 1.0, 0.0]])
    values, places, ends = np.array([1.0, 0.0, 1.0]), np.array([0, 1, 0]), np.array([0, 3])
    for part in (values, places, ends):
        part.flags.writeable = False
    relevant = sparse.csr_matrix((values, places, ends), shape=(1, 4))
    told = ranking(scores, None, relevant, at=(2,))
    assert [told.recall[2].value, told.ndcg[2].value, told.precision[2].value] == [1.0, 1.0, 1.0]
    again = ranking(scores, relevant, np.array([[0, 0, 1, 0]]), at=(2,))
    assert again.recall[2].value == 1.0
    assert relevant.nnz == 3
    assert relevant.data.tolist() == [1.0, 0.0, 1.0]


def test_a_perfect_ranking_and_a_paired_difference():
    rng = np.random.default_rng(1)
    relevant = rng.random((30, 20)) < 0.2
    relevant[:, 0] = True
    perfect = ranking(torch.from_numpy(relevant.astype(float)), None, relevant, at=(5, 20))
    assert perfect.ndcg[5].value == perfect.recall[20].value == perfect.precision[5].value == perfect.mrr.value == 1.0
    other = ranking(rng.standard_normal((30, 20)), None, relevant, at=(5, 20))
    gain = perfect.above(other, "ndcg@5")
    difference = perfect.users["ndcg@5"] - other.users["ndcg@5"]
    assert gain.value == pytest.approx(difference.mean())
    assert gain.error == pytest.approx(difference.std(ddof=1) / np.sqrt(30))
    # perfect rankings do not vary over the users, so only a second one shows that the errors are of paired differences
    second = ranking(rng.standard_normal((30, 20)), None, relevant, at=(5, 20))
    for name in ("ndcg@5", "recall@20", "precision@5", "hit@5", "mrr"):
        gain, gains = other.above(second, name), other.users[name] - second.users[name]
        assert gain.value == pytest.approx(gains.mean(), rel=1e-12, abs=1e-15)
        assert gain.error == pytest.approx((gains.var(ddof=1) / 30) ** 0.5, rel=1e-12)
        back = second.above(other, name)
        assert (back.value, back.error) == (-gain.value, gain.error)
    shorter = ranking(np.zeros((2, 20)), None, relevant[:2])
    with pytest.raises(ValueError, match="same users"):
        perfect.above(shorter, "mrr")


@pytest.mark.parametrize(
    ("scores", "seen", "relevant", "at", "message"),
    [
        (np.zeros((2, 3)), None, np.zeros((2, 4)), (1,), "one shape"),
        (np.full((2, 3), np.nan), None, np.ones((2, 3)), (1,), "must not be NaN"),
        (np.zeros((2, 3)), None, np.zeros((2, 3)), (1,), "at least one user"),
        (np.zeros((2, 3)), np.ones((2, 3)), np.ones((2, 3)), (1,), "at least one user"),
        (np.zeros((2, 3)), None, np.ones((2, 3)), (0,), "at"),
    ],
)
def test_bad_rankings_are_refused(scores, seen, relevant, at, message):
    with pytest.raises(ValueError, match=message):
        ranking(scores, seen, relevant, at)


def test_users_are_held_out_whole():
    table = planted_ratings((90, 50, 1500), seed=4)
    split = hold_out_users(table, 0.2, 0.75, seed=1)
    parts = [{(u, i) for u, i in zip(part.users.tolist(), part.items.tolist(), strict=True)} for part in split]
    assert sum(map(len, parts)) == 1500
    assert len(set.union(*parts)) == 1500
    held = set(split.known.users.tolist())
    assert held == set(split.hidden.users.tolist())
    assert not held & set(split.train.users.tolist())
    assert len(held) == round(0.2 * len(np.unique(table.users)))
    for user in held:
        known, hidden = (int((part.users == user).sum()) for part in (split.known, split.hidden))
        assert known == min(max(1, round(0.75 * (known + hidden))), known + hidden - 1)
    again = hold_out_users(table, 0.2, 0.75, seed=1)
    assert np.array_equal(again.hidden.items, split.hidden.items)
    assert not np.array_equal(hold_out_users(table, 0.2, 0.75, seed=2).known.users, split.known.users)
    single = hold_out_users(([0, 1, 1], [0, 0, 1], [1.0, 1.0, 1.0]), 0.9)
    assert set(single.train.users) == {0}
    assert [len(part) for part in single] == [1, 1, 1]  # a share of 0.8 of two ratings rounds to both of them
    for bad, message in (({"share": 0.0}, "share"), ({"fold_in": 1.0}, "fold_in")):
        with pytest.raises(ValueError, match=message):
            hold_out_users(table, **bad)
    with pytest.raises(ValueError, match="at least two users"):
        hold_out_users(([0, 1], [0, 0], [1.0, 1.0]))


def test_a_ranker_is_judged_on_held_out_users():
    split = hold_out_users(planted_ratings((200, 60, 3000), seed=0), 0.2, seed=0)
    model = DropoutAutoencoder(0.4, 20.0, dtype="float64").fit(split.train)
    found = model.evaluate(split.known, split.hidden, at=(5, 10))
    ids = np.unique(split.known.users)
    rows = np.zeros((2, len(ids), len(model.item_ids_)))
    for table, part in zip(rows, (split.known, split.hidden), strict=True):
        table[np.searchsorted(ids, part.users), model._items(part.items)] = 1
    expected = ranking(rows[0] @ model.weights(), rows[0], rows[1], (5, 10))
    assert found.ndcg[10].value == pytest.approx(expected.ndcg[10].value, rel=1e-12)
    known = ["a"] * 3, [model.item_ids_[0], model.item_ids_[2], 9999], [1] * 3
    with pytest.warns(UnknownIds, match="1 of 3 interactions"):
        model.evaluate(known, (["a"], [model.item_ids_[1]], [1]))
    quiet = model.evaluate(
        (["a", "a"], [model.item_ids_[0], 9999], [1, 1]), (["a"], [model.item_ids_[1]], [1]), unknown="ignore"
    )
    assert quiet.skipped == 0
    with pytest.raises(ValueError, match='"warn" or "ignore"'):
        model.evaluate(split.known, split.hidden, unknown="raise")


@pytest.mark.parametrize("judge", ["evaluate", "evaluate_popularity"])
def test_users_of_whom_nothing_is_known_are_left_out(judge):
    split = hold_out_users(planted_ratings((60, 20, 500), seed=2), 0.3, seed=0)
    model = DropoutAutoencoder(0.4, 20.0, dtype="float64").fit(split.train)
    first, second = np.unique(split.known.users)[:2]
    known = split.known.take(np.flatnonzero(split.known.users != second))
    hidden = split.hidden.take(np.flatnonzero(split.hidden.users != first))
    found = getattr(model, judge)(known, hidden, at=(3, 5), unknown="ignore")
    both = hidden.take(np.flatnonzero(np.isin(hidden.users, known.users)))
    mine = known.take(np.flatnonzero(np.isin(known.users, hidden.users)))
    expected = getattr(model, judge)(mine, both, at=(3, 5), unknown="ignore")
    assert found.skipped == expected.skipped + 1
    for name, values in expected.users.items():
        assert np.array_equal(found.users[name], values)
