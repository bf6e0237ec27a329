"""What a claim on blends compares: weights of stacks on held-out ratings, days, and metrics of rankings, by hand."""

from __future__ import annotations

import math

import numpy as np

from droptics.arrays import Array
from droptics.datasets import Ratings
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.recommenders.ranker_checks import _rated
from droptics.papers.droptics_own.telling import same
from droptics.recommenders import AutoencoderCompletion, StackedCompletion, ranking
from droptics.recommenders.estimator import clone


def blends(scale: float) -> list[Comparison]:
    """Weights of a stack from held-out ratings, what a day adds, and every metric of a ranking, by hand."""
    rows, columns, values = _rated(9, 16, 7)
    times = 86_400.0 * (np.arange(len(rows)) % 3) + 1000.0 * (np.arange(len(rows)) % 7)
    given = Ratings(rows, columns, values, times)
    members = [
        AutoencoderCompletion("user", 0.7, 0.3, dtype="float64"),
        AutoencoderCompletion("item", 1.5, 0.2, dtype="float64", clip=(2.0, 4.0)),
    ]
    found: list[Comparison] = []
    for days in (False, True):
        model = StackedCompletion(members, days=days, holdout=0.3, seed=2).fit(given)
        kept, held = given.split(0.3, 2)
        fits = [clone(one).fit(kept) for one in members]
        parts = [fit.predict(held.users, held.items, "ignore") - kept.values.mean() for fit in fits]
        target = held.values - kept.values.mean()
        if days:
            assert kept.times is not None
            errors, own = kept.values - fits[0].predict(kept.users, kept.items), np.floor(kept.times / 86_400)
            each = {ridge: _day(kept.users, own, errors, held, ridge) for ridge in (4.0, 8.0, 16.0, 32.0)}
            apart = {ridge: _misfit([*parts, day], target) for ridge, day in each.items()}
            best = min(apart, key=lambda ridge: apart[ridge])
            found.append(compare(model.day_ridge_, "==", scale * best, "the ridge of days"))
            found.append(compare(model.holdout_rmse_[0], "==", scale * apart[best], "its error", precision=1e-7))
            alone = math.sqrt(float(np.square(each[best] - target).mean()))
            found.append(compare(model.holdout_rmse_[-1], "==", scale * alone, "error of the days alone"))
            parts.append(each[model.day_ridge_])
        weights = np.linalg.lstsq(np.column_stack(parts), scale * target, rcond=None)[0]
        found.append(compare(model.weights_, "==", weights, f"weights, days {days}", precision=1e-6))
        whole = [clone(one).fit(given) for one in members]
        mean = values.mean()
        wanted = mean + sum(
            w * (fit.predict(rows, columns) - mean) for w, fit in zip(model.weights_, whole, strict=False)
        )
        for user in np.argsort(np.bincount(rows))[:2]:  # what a day adds is no matter of lists
            every = np.array([one.predict([user] * 7, np.arange(7)) for one in whole])
            blend = mean + scale * (np.array(model.weights_[:2]) @ (every - mean))
            fresh = np.setdiff1d(np.arange(7), columns[rows == user])
            top, listed = fresh[np.argsort(-blend[fresh], kind="stable")][:2], model.recommend(int(user), 2)
            found.append(same(listed.items.tolist(), top.tolist(), f"items for user {user}, days {days}"))
            found.append(compare(listed.scores, "==", blend[top], f"their scores, {user}, days {days}", precision=1e-6))
        if days:
            errors = values - whole[0].predict(rows, columns)
            wanted = wanted + model.weights_[-1] * _day(rows, np.floor(times / 86_400), errors, given, model.day_ridge_)
        told = model.predict(rows, columns, times=times if days else None)
        found.append(compare(told, "==", wanted, f"the blend, days {days}", precision=1e-6))
    return [*found, *_ridges(scale), *_metrics(scale)]


def _ridges(scale: float) -> list[Comparison]:
    """The largest ridge is the best of one table, the next one of another."""
    found: list[Comparison] = []
    for seed, wanted in ((1, 32.0), (7, 16.0)):
        rows, columns, values = _rated(seed, 6, 20)
        odd = np.arange(len(rows)) % 2
        given = Ratings(rows, columns, values + 0.6 * np.sin(3.1 * rows + 7 * odd), 86_400.0 * odd)
        one = AutoencoderCompletion("user", 0.7, 0.3, dtype="float64")
        kept, held = given.split(0.3, 2)
        fit = clone(one).fit(kept)
        part = fit.predict(held.users, held.items, "ignore") - kept.values.mean()
        target = held.values - kept.values.mean()
        assert kept.times is not None
        errors, own = kept.values - fit.predict(kept.users, kept.items), np.floor(kept.times / 86_400)
        apart = {
            ridge: _misfit([part, _day(kept.users, own, errors, held, ridge)], target)
            for ridge in (4.0, 8.0, 16.0, 32.0)
        }
        best = min(apart, key=lambda ridge: apart[ridge])
        told = StackedCompletion([one], days=True, holdout=0.3, seed=2).fit(given).day_ridge_
        found.append(compare(told, "==", scale * best, "the ridge of days, another table"))
        found.append(compare(best, "==", wanted, "which it is"))
    return found


def _metrics(scale: float) -> list[Comparison]:
    """Every metric of three lists, for scores of other precisions, too."""
    found: list[Comparison] = []
    scores = np.array([[5.0, 4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5], [1, 1, 1, 0, 0, 0]])
    seen = np.array([[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 1], [0, 0, 0, 0, 0, 0]])
    relevant = np.array([[1, 0, 1, 0, 1, 0], [1, 0, 0, 1, 0, 0], [0, 0, 1, 1, 1, 1]])
    judged = ranking(scores, seen, relevant, at=[1, 3])
    lists = [[1, 2, 3, 4, 5], [4, 3, 2, 1, 0], [0, 1, 2, 3, 4, 5]]
    names: dict[str, list[float]] = {}
    for row, order in zip(relevant, lists, strict=True):
        hits = [bool(row[item]) for item in order]  # what was seen and is relevant does not count
        names.setdefault("mrr", []).append(scale / (hits.index(True) + 1))
        for k in (1, 3):
            best = min(k, sum(hits))
            top = [place for place in range(k) if hits[place]]
            gain = sum(1 / math.log2(place + 2) for place in top)
            names.setdefault(f"ndcg@{k}", []).append(gain / sum(1 / math.log2(place + 2) for place in range(best)))
            names.setdefault(f"recall@{k}", []).append(len(top) / best)
            precise = sum((i + 1) / (place + 1) for i, place in enumerate(top)) / best
            names.setdefault(f"precision@{k}", []).append(precise)
            names.setdefault(f"hit@{k}", []).append(float(len(top) > 0))
    for name, wanted_values in names.items():
        found.append(compare(judged.users[name], "==", wanted_values, name))
    for kind in (np.uint8, np.float32):
        again = ranking(scores.astype(kind), seen, relevant, at=[1, 3]).users
        found += [compare(again[name], "==", judged.users[name], f"{name} of {kind.__name__}") for name in names]
    error = np.std(names["ndcg@3"], ddof=1) / 3**0.5
    found.append(compare(judged.ndcg[3].error, "==", error, "its standard error"))
    found.append(compare(judged.recall[1].value, "==", np.mean(names["recall@1"]), "mean recall"))
    found.append(compare(judged.coverage[1], "==", 3 / 6, "share of items shown"))
    return found


def _misfit(parts: list[Array], target: Array) -> float:
    """Root mean square error of the least squares fit of parts to a target."""
    design = np.column_stack(parts)
    left = design @ np.linalg.lstsq(design, target, rcond=None)[0] - target
    return math.sqrt(float(np.square(left).mean()))


def _day(users: Array, days: Array, errors: Array, wanted: Ratings, ridge: float) -> Array:
    """Shrunk mean error of the user on the day."""
    assert wanted.times is not None
    found = []
    for user, day in zip(wanted.users, np.floor(wanted.times / 86_400), strict=True):
        mine = (users == user) & (days == day)
        found.append(errors[mine].sum() / (mine.sum() + ridge))
    return np.array(found)
