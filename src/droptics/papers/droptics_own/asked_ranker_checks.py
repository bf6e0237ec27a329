"""What a claim on asking recommenders compares: lists, scores of rankings and chosen rates, from their predictions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from droptics.datasets import Ratings
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.ranker_checks import _rated, interactions
from droptics.papers.instances import tensor
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, DropoutCompletionCV, hold_out_users


def asked_rankers(scale: float) -> list[Comparison]:
    """Recommendations, evaluations, and a width and rate chosen on held-out ratings, by hand."""
    table, triples = interactions(2, 20, 7, 0.4)
    found: list[Comparison] = []
    model = DropoutAutoencoder(0.3, 0.8, dtype="float64").fit(triples)
    ids = model.item_ids_
    scores = table[:, ids] @ model.weights()
    for user in (3, 11):
        allowed = np.flatnonzero(table[user, ids] == 0)
        order = allowed[np.argsort(-scores[user][allowed], kind="stable")][:3]
        told = model.recommend(user, 3)
        found.append(compare(told.items, "==", ids[order], f"items for user {user}"))
        found.append(compare(told.scores, "==", scale * scores[user][order], f"their scores, user {user}"))
    parts = hold_out_users(triples, 0.3, 0.5, seed=1)
    judged = model.evaluate(parts.known, parts.hidden, at=[2, 4], unknown="ignore")
    wanted: dict[str, list[float]] = {name: [] for name in ("recall", "ndcg", "precision", "hit")}
    shown: set[int] = set()
    for user in np.unique(parts.known.users):
        known = np.zeros(7)
        known[parts.known.items[parts.known.users == user]] = 1.0
        hidden = set(parts.hidden.items[parts.hidden.users == user].tolist())
        row = known[ids]
        top = [i for i in np.argsort(-(row @ model.weights()), kind="stable") if row[i] == 0][:4]
        right = [int(ids[i]) in hidden for i in top]
        most = min(4, len(hidden))
        ideal = sum(1 / math.log2(2 + place) for place in range(most))
        wanted["recall"].append(sum(right) / most)
        wanted["ndcg"].append(sum(hit / math.log2(2 + place) for place, hit in enumerate(right)) / ideal)
        wanted["precision"].append(sum(sum(right[: k + 1]) / (k + 1) for k in range(len(right)) if right[k]) / most)
        wanted["hit"].append(float(any(right)))
        shown |= set(top)
    for name, each in wanted.items():
        told_mean = getattr(judged, name)[4]
        found.append(compare(told_mean.value, "==", scale * np.mean(each), f"{name} of held-out users"))
        error = np.std(each, ddof=1) / len(each) ** 0.5
        found.append(compare(told_mean.error, "==", scale * error, f"{name}, its error"))
    found.append(compare(judged.coverage[4], "==", scale * len(shown) / 7, "items shown to anybody"))
    return [*found, *_completed(scale)]


def _completed(scale: float) -> list[Comparison]:
    """Errors and lists of a completion, and the width and rate with the least error on held-out ratings."""
    found: list[Comparison] = []
    rows, columns, values = _rated(5, 12, 7)
    fixed = DropoutCompletion(2, 0.3, sweeps=4, dtype="float64", tolerance=0.0, seed=1).fit((rows, columns, values))
    error = fixed.predict(rows, columns) - values
    told = fixed.evaluate((rows, columns, values))
    found.append(compare(told.rmse, "==", scale * np.sqrt(np.mean(error**2)), "root mean square error"))
    found.append(compare(told.mae, "==", scale * np.abs(error).mean(), "mean absolute error"))
    found.append(compare(fixed.score((rows, columns, values)), "==", -told.rmse, "score"))
    best = fixed.recommend(2, 3)
    unseen = np.setdiff1d(np.arange(7), columns[rows == 2])
    guess = fixed.predict([2] * len(unseen), unseen)
    order = np.argsort(-guess, kind="stable")[:3]
    found.append(compare(best.items, "==", unseen[order], "items by predicted rating"))
    found.append(compare(best.scores, "==", guess[order], "their ratings"))
    template: dict[str, Any] = {"sweeps": 6, "seed": 1, "dtype": "float64"}
    chosen = DropoutCompletionCV([2, 1], [0.1, 0.5], estimator=DropoutCompletion(**template), seed=3, holdout=0.2)
    chosen.fit((rows, columns, values))
    kept, held = Ratings(rows, columns, values).split(0.2, 3)
    errors = {}
    for width in (2, 1):
        fit = DropoutCompletion(width, warm_start=True, **template)
        for rate in (0.5, 0.1):  # the strongest first, each from where the last one ended
            fit.set_params(drop=rate).fit(kept)
            gaps = fit.predict(held.users, held.items, "ignore") - held.values
            errors[width, rate] = float(np.sqrt(np.mean(gaps**2)))
    told_points = {(point.width, point.drop): point.holdout_rmse for point in chosen.points_}
    found.append(
        compare([told_points[pair] for pair in errors], "==", scale * tensor(list(errors.values())), "held out")
    )
    best_pair = min(errors, key=lambda pair: errors[pair])
    found.append(compare([chosen.best_width_, chosen.best_drop_], "==", scale * tensor(best_pair), "the chosen pair"))
    again = DropoutCompletion(*best_pair, **template).fit((rows, columns, values)).predict(rows, columns)
    found.append(compare(chosen.predict(rows, columns), "==", scale * again, "fitted to all ratings"))
    point = chosen.best_points()[2]
    found.append(compare(point.strength, "==", scale * point.drop / (1 - point.drop) / 2, "its strength"))
    return found
