"""What a claim on asking recommenders compares: lists, scores of rankings and chosen rates, from their predictions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np

from droptics.arrays import Array
from droptics.datasets import Ratings
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.recommenders.ranker_checks import _rated, interactions
from droptics.papers.instances import tensor
from droptics.recommenders import (
    DropoutAutoencoder,
    DropoutCompletion,
    DropoutCompletionCV,
    ImplicitDropoutCompletion,
    LocalAutoencoder,
    Ranking,
    Recommendations,
    StackedRanker,
    hold_out_users,
    stacked,
)

LENGTHS, METRICS = (1, 3, 5), ("recall", "ndcg", "precision", "hit")


def asked_rankers(scale: float) -> list[Comparison]:
    """Recommendations, evaluations, and a width and rate chosen on held-out ratings, by hand."""
    return by_parts((_recommended, _strangers, _summed, _evaluated, _completed, _chosen), scale)


def _top(scores: Array, allowed: Array, count: int) -> Array:
    """Numbers of the items of largest scores among those allowed, one after the other."""
    left = {int(i) for i in allowed}
    found: list[int] = []
    while left and len(found) < count:
        found.append(max(left, key=lambda i: (scores[i], -i)))
        left.remove(found[-1])
    return np.array(found, dtype=int)


def _listed(told: Recommendations, ids: Array, wanted: Array, scale: float, label: str) -> list[Comparison]:
    """The items of a list and their scores."""
    items = compare(told.items, "==", ids, f"items, {label}")
    return [items, compare(told.scores, "==", scale * wanted, f"their scores, {label}")]


def _recommended(scale: float) -> list[Comparison]:
    """Lists with and without what was seen, of known, new and unknown users; ids are not numbers of items."""
    found: list[Comparison] = []
    table, (users, items, ones) = interactions(2, 20, 9, 0.4)
    model = DropoutAutoencoder(0.3, 0.8, dtype="float64").fit((users, 50 - 7 * items, ones))
    ids = model.item_ids_
    rows = table[:, (50 - ids) // 7]
    scores = rows @ model.weights()
    for user, count, exclude in ((3, 3, True), (11, 20, True), (5, 4, False)):
        allowed = np.flatnonzero(rows[user] == 0) if exclude else np.arange(9)
        top = _top(scores[user], allowed, count)
        label = f"user {user}, seen left out: {exclude}"
        found += _listed(model.recommend(user, count, exclude), ids[top], scores[user][top], scale, label)
    both = [_top(scores[user], np.flatnonzero(rows[user] == 0), 2) for user in (4, 7)]
    popular = _top(rows.sum(0), np.arange(9), 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        several = model.recommend([4, 777, 7], 2)
    for told, top, score in (
        (several[0], both[0], scores[4]),
        (several[1], popular, rows.sum(0) / rows.sum(0).max()),
        (several[2], both[1], scores[7]),
    ):
        found += _listed(told, ids[top], score[top], scale, "one of several")
    seen = np.array([1, 4])
    fresh = np.zeros(9)
    fresh[seen] = 1.0
    top = _top(fresh @ model.weights(), np.flatnonzero(fresh == 0), 3)
    told = model.recommend_new((np.array([90, 90]), ids[seen], np.ones(2)), 3)[90]
    return found + _listed(told, ids[top], (fresh @ model.weights())[top], scale, "a new user")


def _strangers(scale: float) -> list[Comparison]:
    """Lists of every ranker for a user whom it does not know: the most popular items, beside the first of them."""
    found: list[Comparison] = []
    table, (users, items, ones) = interactions(4, 15, 8, 0.3)
    pair = [LocalAutoencoder(3, 0.3, 0.8), ImplicitDropoutCompletion(2, 0.4, sweeps=2)]
    for model in (
        DropoutAutoencoder(0.3, 0.8, "free"),
        DropoutAutoencoder(0.3, 0.8, rank=4),
        *pair,
        StackedRanker(pair),
    ):
        model.fit((users, items, ones))
        counts = table.sum(0)[model.item_ids_]
        top = _top(counts, np.arange(8), 5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            told = model.recommend("nobody", 5)
        name = type(model).__name__
        found += _listed(told, model.item_ids_[top], counts[top] / counts.max(), scale, f"a stranger, {name}")
        both = (np.array(["x", "y"]), items[:2], np.ones(2)), (np.array(["x", "y"]), items[2:4], np.ones(2))
        judged = model.evaluate_popularity(*both, at=(8,), unknown="ignore").users["mrr"]
        wanted = []
        for seen, hidden in zip(items[:2], items[2:4], strict=True):
            ids = [one for one in model.item_ids_[_top(counts, np.arange(8), 8)] if one != seen]
            wanted.append(1 / (1 + ids.index(hidden)))
        found.append(compare(judged, "==", scale * np.array(wanted), f"ranks by popularity, {name}"))
    return found


def _summed(scale: float) -> list[Comparison]:
    """Lists of a sum of rankers for a new user by her grades from a threshold on, as its members take them."""
    found: list[Comparison] = []
    _, (users, items, _) = interactions(4, 15, 8, 0.5)
    grades = 1.0 + (3 * users + 5 * items) % 4
    for feedback, sample in (("graded", 1000), ("implicit", 5)):  # users whose scores tell the scale of a member
        kind: dict[str, Any] = {"feedback": feedback, "threshold": 2.0}
        pair = [DropoutAutoencoder(0.3, 0.8, dtype="float64", **kind), LocalAutoencoder(3, 0.3, 0.8, **kind)]
        with mock.patch.object(stacked, "_SAMPLE", sample):
            model = StackedRanker(pair).fit((users, items, grades))
        ids, kept = model.item_ids_, grades >= 2.0
        table = np.zeros((15, len(ids)))
        table[users[kept], np.argsort(ids)[items[kept]]] = grades[kept] if feedback == "graded" else 1.0
        dense = [model.members_[0].weights(), model.members_[1].weights().toarray()]
        fresh, given = np.zeros(len(ids)), {0: 3.5, 2: 1.5, 5: 2.0, 6: 4.0}
        for place, grade in given.items():
            fresh[place] = (grade if feedback == "graded" else 1.0) * (grade >= 2.0)
        active = table[np.asarray(model.user_ids_, int)[:sample]]  # the most active first
        scores = np.sum([fresh @ weights / (active @ weights).std() for weights in dense], axis=0)
        asked = np.array(["x"] * 4), ids[list(given)], np.array(list(given.values()))
        top = _top(scores, np.flatnonzero(fresh == 0), 5)
        told = model.recommend_new(asked, 5)["x"]
        found += _listed(told, ids[top], scores[top], scale, f"a sum of rankers, {feedback}")
    return found


def _judged(
    told: Ranking, known: Ratings, hidden: Ratings, ids: Array, score: Callable[[Array], Array], scale: float
) -> list[Comparison]:
    """Every metric of every length, user by user, by the scores for what is known of her."""
    found: list[Comparison] = []
    wanted: dict[str, list[float]] = {"mrr": []}
    wanted.update({f"{name}@{k}": [] for name in METRICS for k in LENGTHS})
    shown: dict[int, set[int]] = {k: set() for k in LENGTHS}
    for user in np.unique(known.users):
        row = np.isin(ids, known.items[known.users == user]).astype(float)
        wished = set(hidden.items[hidden.users == user].tolist()) & set(ids.tolist())
        top = _top(score(row), np.flatnonzero(row == 0), len(ids))
        right = [int(ids[i]) in wished for i in top]
        wanted["mrr"].append(1 / (1 + right.index(True)))
        for k in LENGTHS:
            most, hits = min(k, len(wished)), right[:k]
            gain = sum(hit / math.log2(2 + place) for place, hit in enumerate(hits))
            wanted[f"ndcg@{k}"].append(gain / sum(1 / math.log2(2 + place) for place in range(most)))
            wanted[f"recall@{k}"].append(sum(hits) / most)
            average = sum(sum(hits[: n + 1]) / (n + 1) for n in range(len(hits)) if hits[n]) / most
            wanted[f"precision@{k}"].append(average)
            wanted[f"hit@{k}"].append(float(any(hits)))
            shown[k] |= set(top[:k].tolist())
    for name, each in wanted.items():
        kind, _, length = name.partition("@")
        mean = getattr(told, kind)[int(length)] if length else told.mrr
        found.append(compare(told.users[name], "==", scale * np.array(each), f"{name}, user by user"))
        found.append(compare(mean.value, "==", scale * np.mean(each), f"{name} of held-out users"))
        error = math.sqrt(sum((one - np.mean(each)) ** 2 for one in each) / (len(each) - 1) / len(each))
        found.append(compare(mean.error, "==", scale * error, f"{name}, its error"))
    for k in LENGTHS:
        found.append(compare(told.coverage[k], "==", scale * len(shown[k]) / len(ids), f"items shown to anybody, {k}"))
    return found


def _columns(part: Ratings) -> tuple[Array, Array, Array]:
    return part.users, part.items, part.values


def _evaluated(scale: float) -> list[Comparison]:
    """Rankings for users that were held out, who know an item that the model does not; and by popularity."""
    found: list[Comparison] = []
    _, triples = interactions(3, 40, 16, 0.3)
    parts = hold_out_users(triples, 0.3, 0.4, seed=1)
    model = DropoutAutoencoder(0.3, 0.8, dtype="float64").fit(parts.train)
    strange = int(parts.known.users[0]), 99, 1.0
    known, hidden = (
        Ratings(*(np.append(column, more) for column, more in zip(_columns(part), strange, strict=True)))
        for part in (parts.known, parts.hidden)
    )
    ids, weights = model.item_ids_, model.weights()
    told = model.evaluate(known, hidden, at=LENGTHS, unknown="ignore")
    found += _judged(told, known, hidden, ids, lambda row: row @ weights, scale)
    popularity = (parts.train.items[:, None] == ids).sum(0)
    told = model.evaluate_popularity(known, hidden, at=LENGTHS, unknown="ignore")
    found += _judged(told, known, hidden, ids, lambda row: popularity, scale)
    # the first user who is known has nothing hidden, what strangers have hidden is left out; users come by their ids
    less = [parts.hidden.users != np.unique(parts.known.users)[0], parts.known.users != np.unique(parts.known.users)[1]]
    hidden, known = parts.hidden.take(np.flatnonzero(less[0])), parts.known.take(np.flatnonzero(less[1])[::-1])
    asked = np.unique(known.users)
    ways: tuple[tuple[str, Any, Callable[[Array], Array]], ...] = (
        ("scores", model.evaluate, lambda row: row @ weights),
        ("popularity", model.evaluate_popularity, lambda row: popularity),
    )
    for name, judged, score in ways:
        apart = judged(known, hidden, at=(3,), unknown="ignore")
        ranks = []
        for user in asked[1:]:
            row = np.isin(ids, known.items[known.users == user]).astype(float)
            wished = set(hidden.items[hidden.users == user].tolist())
            order = [int(ids[i]) in wished for i in _top(score(row), np.flatnonzero(row == 0), len(ids))]
            ranks.append(1 / (1 + order.index(True)))
        found.append(compare(apart.users["mrr"], "==", scale * np.array(ranks), f"of other users, {name}"))
        found.append(compare(apart.skipped, "==", scale, f"nothing hidden, {name}"))
    narrow = [float(np.mean(told.users[f"{name}@5"])) for name in ("recall", "hit", "ndcg")]
    found.append(compare(narrow, "<", 0.95, "lists miss something"))
    return found


def _completed(scale: float) -> list[Comparison]:
    """Errors and lists of a completion by its factors and biases, with and without a cut to a range."""
    found: list[Comparison] = []
    rows, columns, values = _rated(5, 12, 7)
    for clip in (False, (2.5, 4.0)):
        fixed = DropoutCompletion(2, 0.3, sweeps=4, dtype="float64", tolerance=0.0, seed=1, clip=clip)
        fixed.fit((rows, columns, values))
        biases = fixed.user_biases_[:, None] + fixed.item_biases_
        numbered = fixed.mean_ + biases + fixed.user_factors_ @ fixed.item_factors_.T
        whole = np.empty_like(numbered)
        whole[np.ix_(fixed.user_ids_, fixed.item_ids_)] = numbered
        cut = whole if clip is False else np.minimum(np.maximum(whole, clip[0]), clip[1])
        told, label = fixed.evaluate((rows, columns, values)), f"clip {clip}"
        error = cut[rows, columns] - values
        root = math.sqrt(sum(error**2) / len(error))
        found.append(compare(fixed.predict(rows, columns), "==", scale * cut[rows, columns], f"predictions, {label}"))
        found.append(compare(told.rmse, "==", scale * root, f"root mean square error, {label}"))
        found.append(compare(told.mae, "==", scale * sum(abs(error)) / len(error), f"mean absolute error, {label}"))
        found.append(compare(fixed.score((rows, columns, values)), "==", -root, f"score, {label}"))
        for user, exclude in ((2, True), (6, False)):
            allowed = np.setdiff1d(np.arange(7), columns[rows == user]) if exclude else np.arange(7)
            top = _top(whole[user], allowed, 3)
            label = f"completion, user {user}, {clip}"
            found += _listed(fixed.recommend(user, 3, exclude), top, cut[user][top], scale, label)
    return found


def _chosen(scale: float) -> list[Comparison]:
    """The width and rate of least error on held-out ratings, in the middle of those tried, and what is said of all."""
    found: list[Comparison] = []
    rows, columns, values = ratings = _rated(8, 14, 9)
    widths, rates = (1, 3, 2), (0.02, 0.7, 0.3)
    template: dict[str, Any] = {"sweeps": 6, "seed": 1, "dtype": "float64"}
    chosen = DropoutCompletionCV(widths, rates, estimator=DropoutCompletion(**template), seed=3, holdout=0.2)
    chosen.fit(ratings)
    kept, held = Ratings(*ratings).split(0.2, 3)
    errors, wanted = {}, []
    for width in widths:
        fit = DropoutCompletion(width, warm_start=True, **template)
        for rate in sorted(rates, reverse=True):  # the strongest first, each from where the last one ended
            fit.set_params(drop=rate).fit(kept)
            gaps = [fit.predict(part.users, part.items, "ignore") - part.values for part in (held, kept)]
            root, train = (math.sqrt(np.mean(gap**2)) for gap in gaps)
            errors[width, rate] = root
            wanted.append([width, rate, rate / (1 - rate) / width, train, root, fit.history_[-1].sweep])
    told = [[p.width, p.drop, p.strength, p.train_rmse, p.holdout_rmse, p.sweeps] for p in chosen.points_]
    found.append(compare(tensor(told), "==", scale * tensor(wanted), "points of the path"))
    best = min(errors, key=lambda pair: errors[pair])
    found.append(compare([chosen.best_width_, chosen.best_drop_], "==", scale * tensor(best), "the chosen pair"))
    for width, point in chosen.best_points().items():
        least = min(error for (mine, _), error in errors.items() if mine == width)
        found.append(compare(point.holdout_rmse, "==", scale * least, f"the best point of width {width}"))
    last = DropoutCompletion(best[0], warm_start=True, **template)
    for rate in (0.7, 0.3):
        last.set_params(drop=rate).fit(kept)
    whole = DropoutCompletion(*best, **template)
    whole.fit(ratings)
    for fit, refit in ((whole, True), (last, False)):
        chosen.set_params(refit=refit).fit(ratings)
        label = f"fitted to all: {refit}"
        own, given = np.asarray(fit.predict(rows, columns)), fit.recommend(1, 2)
        root = math.sqrt(np.mean((own - values) ** 2))
        found.append(compare(chosen.predict(rows, columns), "==", scale * own, f"predictions, {label}"))
        found.append(compare(chosen.evaluate(ratings).rmse, "==", scale * root, f"error, {label}"))
        found.append(compare(chosen.score(ratings), "==", -scale * root, f"score, {label}"))
        found += _listed(chosen.recommend(1, 2), given.items, given.scores, scale, label)
    # neither the first or largest width, nor the least rate or training error
    return [*found, compare(tensor(best), "==", tensor([2.0, 0.3]), "a pair in the middle")]
