"""What claims on answers of recommenders compare: predictions, errors, lists and warnings of a model that is given."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

from droptics.datasets import Ratings
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import fails, refuses, same
from droptics.recommenders import AutoencoderCompletion, DropoutCompletion, RidgeCompletion
from droptics.recommenders.answers import UnknownIds
from droptics.recommenders.estimator import Estimator
from droptics.recommenders.ids import Lookup, as_ids, joined, pair_columns
from droptics.recommenders.rating_model import RatingModel
from droptics.recommenders.stacked import Days, StackedCompletion, default_members

USERS, ITEMS = np.array([30, 10, 20]), np.array(["b", "a", "d", "c"])
TABLE = np.array([[1.0, 5.0, 2.5, 4.0], [3.0, 3.5, 0.0, 6.0], [2.0, 2.0, 2.0, 1.5]])
SEEN = {0: [1], 1: [], 2: [0, 1, 2, 3]}


class Known(RatingModel):
    """A model whose ratings are a table: users and items as above, 2.2 where one is not known."""

    def __init__(self, clip: Any = False, timed: bool = False) -> None:
        self._remember({name: value for name, value in locals().items() if name != "self"})
        self._users, self._items, self.range_ = Lookup(USERS), Lookup(ITEMS), (1.0, 5.0)

    def _predicted(self, users: Any, items: Any) -> Any:
        known = (users >= 0) & (items >= 0)
        return np.where(known, TABLE[users, items], 2.2)

    def _rated(self, user: int) -> Any:
        return np.array(SEEN[user], int), TABLE[user, SEEN[user]]

    def predict(self, rows: Any, columns: Any = None, unknown: str = "warn", times: Any = None) -> Any:
        """Ratings, later ones higher where times count."""
        found = super().predict(rows, columns, unknown)
        return found if times is None else found + np.asarray(times)

    def _timed(self, ratings: Any) -> dict[str, Any]:
        return {"times": ratings.times} if self.timed else {}


class _Frame:
    """A table whose columns are of their own kinds, as pandas has it."""

    ndim, iloc = 2, property(lambda self: self)

    def __init__(self, *columns: list[Any]) -> None:
        self.columns, self.shape = columns, (len(columns[0]), len(columns))

    def __getitem__(self, place: tuple[slice, int]) -> Any:
        return _Column(self.columns[place[1]])


class _Column(list[Any]):
    def to_numpy(self) -> Any:
        return np.array(self)


def answered_ratings(scale: float) -> list[Comparison]:
    """Predictions, recommendations, errors with and without times, clipping, unknown ids, parameters, ids."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownIds)
        return by_parts((_predictions, _lists, _ids, _parameters, _days, _uncentered, _strange), scale)


def _predictions(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    clip: Any
    users, items = [20, 30, 10, 99, 10, 98], ["a", "c", "d", "a", "zz", "yy"]
    wanted = np.array([2.0, 4.0, 0.0, 2.2, 2.2, 2.2])
    model = Known()
    found.append(compare(model.predict(users, items), "==", scale * wanted, "pairs of ids"))
    pairs = np.array([["20", "a"], ["30", "c"]])
    found.append(compare(model.predict(pairs), "==", scale * wanted[:2], "a table of pairs"))
    found.append(compare(model.predict(_Frame(users, items)), "==", scale * wanted, "a frame of pairs"))
    for clip, low, high in ((True, 1.0, 5.0), ((1.5, 3.0), 1.5, 3.0), (False, -9.0, 9.0), (None, -9.0, 9.0)):
        told = Known(clip).predict(users, items)
        found.append(compare(told, "==", scale * wanted.clip(low, high), f"clipped to {clip}"))
    for clip, good in ((True, True), ((1, 2), True), ([1, 2], True), ((2, 1), False), ((1, 1), False), (3, False)):
        refused = fails(Known(clip)._check_clip, ValueError)
        found.append(same(refused, float(not good), f"clip={clip}", scale))
    values = np.array([3.0, 3.5, 1.0, 2.0, 2.7, 1.9])
    times = np.array([0.0, 1.0, 0.5, 2.0, 0.25, 0.75])
    for timed, clip in ((False, None), (True, None), (False, (2.1, 3.0))):
        off = (wanted if clip is None else wanted.clip(*clip)) + (times if timed else 0) - values
        told = Known(clip, timed).evaluate(Ratings(np.array(users), np.array(items), values, times))
        numbers = [told.rmse, told.mae, told.count, told.unknown]
        truth = [(off**2).mean() ** 0.5, np.abs(off).mean(), 6, 3]
        found.append(compare(numbers, "==", scale * np.array(truth), f"errors, times: {timed}, clipped to {clip}"))
    score = -float(((wanted - values) ** 2).mean() ** 0.5)
    found.append(compare(model.score((users, items, values)), "==", scale * score, "score"))
    text = np.array([[str(user), item] for user, item in zip(users, items, strict=True)])
    found.append(compare(model.score(text, values), "==", scale * score, "score of pairs"))
    found.append(refuses(lambda: model.predict([10], ["a", "b"]), "got 1 users and 2 items", "lengths"))
    words = "2 of 3 users and 1 of 3 items are unknown; "
    asked = ([99, 98, 10], ["a", "b", "zz"])
    found.append(refuses(lambda: model.predict(*asked, "raise"), words + 'pass unknown="ignore"', "raise"))
    found.append(
        refuses(lambda: model.evaluate((*asked, [1.0] * 3), "raise"), words + 'pass unknown="ignore"', "raise")
    )
    found.append(refuses(lambda: model.predict(*asked, "hide"), 'unknown must be "warn", "ignore" or', "word"))
    for unknown, heard in (("warn", [words + "predicted from the mean and the biases that are known"]), ("ignore", [])):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model.predict(*asked, unknown)
            model.evaluate((*asked, [1.0, 2.0, 3.0]), unknown)
        found.append(same([str(one.message) for one in said], 2 * heard, f"warned: {unknown}", scale))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.predict([10], ["a"])
    found.append(same(len(said), 0, "nothing to warn of", scale))
    found.append(refuses(lambda: model.evaluate(([], [], [])), "ratings", "no ratings"))
    same_ids = (model.user_ids_.tolist(), model.item_ids_.tolist())
    found.append(same(same_ids, (USERS.tolist(), ITEMS.tolist()), "ids by number", scale))
    return found


def _lists(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    model = Known()
    for user, count, seen, items, scores in (
        (30, 2, True, ["c", "d"], [4.0, 2.5]),
        (30, 2, False, ["a", "c"], [5.0, 4.0]),
        (30, 9, True, ["c", "d", "b"], [4.0, 2.5, 1.0]),
        (10, 4, True, ["c", "a", "b", "d"], [6.0, 3.5, 3.0, 0.0]),
        (10, 1, True, ["c"], [6.0]),
        (20, 3, True, [], []),
        (20, 4, False, ["b", "a", "d", "c"], [2.0, 2.0, 2.0, 1.5]),
        (99, 4, True, ["b", "a", "d", "c"], [2.2] * 4),
    ):
        told = model.recommend(user, count, seen)
        found.append(same(told.items.tolist(), items, f"items of {user}, {count}, {seen}", scale))
        found.append(same(told.scores.tolist(), scores, f"scores of {user}, {count}, {seen}", scale))
    clipped = Known(True).recommend(10, 2)
    found.append(compare(clipped.scores, "==", scale * np.array([5.0, 3.5]), "clipped scores"))
    ranked = Known((1.5, 3.0)).recommend(10, 4)
    told = (ranked.items.tolist(), ranked.scores.tolist())
    found.append(same(told, (["c", "a", "b", "d"], [3.0, 3.0, 3.0, 1.5]), "ranked before they are clipped", scale))
    for alone in (30, np.int64(30), np.array(30), torch.tensor(30)):
        told_alone = model.recommend(alone, 1).items.tolist()
        found.append(same(told_alone, ["c"], f"for one {type(alone).__name__}", scale))
    for several in ([30, 10], (30, 10), np.array([30, 10]), torch.tensor([30, 10])):
        told_lists = [one.items.tolist() for one in model.recommend(several, 1)]
        found.append(same(told_lists, [["c"], ["c"]], f"for each of a {type(several).__name__}", scale))
    found.append(refuses(lambda: model.recommend(10, 0), "count must be", "no count"))
    for asked, unknown in (([30, 99, 98], 2), ([30, 10], 0), (99, 1)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            model.recommend(asked, 1)
        words = [f"{unknown} of {np.size(asked)} users and 0 of {np.size(asked)} items are unknown"] * (unknown > 0)
        told_words = [str(one.message).split(";")[0] for one in said]
        found.append(same(told_words, words, f"warned of unknown users: {unknown}", scale))
    return found


def _ids(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    large = [2**63, 1, 2**64 - 1]
    for name, ids, kind, wanted in (
        ("numbers", [3, -1], "i", [3, -1]),
        ("large numbers", large, "u", large),
        ("both sides", [2**63, -1], "U", [str(2**63), "-1"]),
        ("beyond", [2**64, 1], "U", [str(2**64), "1"]),
        ("text", ["a", "b"], "U", ["a", "b"]),
        ("mixed", np.array(["a", 3], object), "U", ["a", "3"]),
        ("flags", np.array([True, 3], object), "U", ["True", "3"]),
        ("whole floats", [3.0, -2.0], "i", [3, -2]),
        ("a tensor", torch.tensor([4, 5]), "i", [4, 5]),
        ("one", 7, "i", [7]),
        ("none", [], "i", []),
    ):
        told = as_ids(ids)
        found.append(same((told.dtype.kind, told.tolist()), (kind, wanted), f"ids: {name}", scale))
    for bad, words in (([0.5], "whole numbers or text"), ([[1]], "ids must be a vector"), ([2.0**54], "beyond 2^53")):
        found.append(refuses(lambda bad=bad: as_ids(bad), words, words))
    found.append(same(as_ids([2.0**53]).tolist(), [2**53], "the largest float", scale))
    asked: Any
    numbers, unsigned, words_ = np.array([5, -3]), np.array(large, np.uint64), np.array(["5", "x", "007", "-3"])
    for known, asked, places in (
        (numbers, ["5", "05", "-3", "+5", "x", "-"], [0, -1, 1, -1, -1, -1]),
        (numbers, np.array([5, 2**63], np.uint64), [0, -1]),
        (numbers, ["9" * 25, str(2**63)], [-1, -1]),
        (unsigned, [1, -1], [1, -1]),
        (unsigned, [str(2**63), "-1", str(2**64)], [0, -1, -1]),
        (words_, [5, -3, 7], [0, 3, -1]),
        (words_, ["x", "007", "7"], [1, 2, -1]),
        (numbers, [], []),
        (np.array([], int), [3], [-1]),
    ):
        found.append(same(Lookup(known)(asked).tolist(), places, f"{asked} among {known}", scale))
    for parts, kind in (
        ([numbers, numbers], "i"),
        ([np.array([5]), unsigned], "u"),
        ([numbers, unsigned], "U"),
        ([numbers, words_], "U"),
        ([np.array([], int), unsigned], "u"),
    ):
        whole = joined(parts)
        listed = [entry for part in parts for entry in part.tolist()]
        listed = [str(entry) for entry in listed] if kind == "U" else listed
        found.append(same((whole.dtype.kind, whole.tolist()), (kind, listed), f"joined to {kind}", scale))
    first, second = pair_columns([[1, 2], [3, 4], [5, 6]])
    found.append(same((first.tolist(), second.tolist()), ([1, 3, 5], [2, 4, 6]), "two columns", scale))
    for odd in ([[1, 2, 3]], [1, 2]):
        found.append(refuses(lambda odd=odd: pair_columns(odd), "two columns (user, item)"))
    return found


class Plain(Estimator):
    """Parameters of an estimator, one of them an estimator."""

    def __init__(self, size: int = 3, inner: Any = None, *, rate: float = 0.5) -> None:
        self.size, self.inner, self.rate = size, inner, rate


def _parameters(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    own = Plain(4, Plain(5))
    names = ["size", "inner", "rate"]
    found.append(same(list(own.get_params(deep=False)), names, "parameters", scale))
    inside = {name: value for name, value in own.get_params().items() if "__" in name}
    nested = Plain(4, Plain(5, Plain(6))).get_params()
    found.append(same((nested["inner__inner__size"], len(nested)), (6, 9), "of a parameter of a parameter", scale))
    found.append(same(inside, {"inner__size": 5, "inner__inner": None, "inner__rate": 0.5}, "of a parameter", scale))
    found.append(same(own.set_params(size=6, inner__rate=0.1) is own, True, "itself", scale))
    found.append(same((own.size, own.inner.rate, own.rate), (6, 0.1, 0.5), "set by name", scale))
    found.append(refuses(lambda: own.set_params(width=1), "Plain has no parameter 'width'; it has size"))
    found.append(same(repr(own), "Plain(size=6, inner=Plain(size=5, rate=0.1))", "as it is made", scale))
    found.append(same(own.__sklearn_is_fitted__(), False, "not fitted", scale))
    found.append(same(fails(own._fitted, ValueError), 1.0, "refused before a fit", scale))
    own.weights_ = 1  # type: ignore[attr-defined]
    found.append(same(own._fitted() is own, True, "fitted", scale))
    return found


def _days(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    users, day = np.array([0, 0, 0, 1, 1]), 86_400.0
    times = np.array([0.0, day - 1, day, -1.0, 5.0])
    errors = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    days = Days(users, times, errors, 3.0)
    asked = np.array([0, 0, 1, 1, 0, -1, 2])
    when = np.array([7.0, 1.5 * day, -5.0, 9.0, 2 * day, 7.0, 7.0])
    wanted = np.array([3 / 5, 4 / 4, 8 / 4, 16 / 4, 0.0, 0.0, 0.0])
    found.append(compare(1 + days(asked, when), "==", scale * (1 + wanted), "errors of a day"))
    sides = [
        [repr(one) for one in default_members(*size)] for size in ((10, 10), (10, 10**6), (10**6, 10), (10**6,) * 2)
    ]
    kernels = ["", "ridge=2.0, implicit=0.3", "side='item', ridge=1.5, implicit=0.3"]
    names = [
        "DropoutCompletion()",
        "DropoutCompletion(width=100)",
        *(f"AutoencoderCompletion({one})" for one in kernels),
    ]
    wanted_sides = [names, [*names[:2], names[4]], names[:4], names[:2]]
    found.append(same(sides, wanted_sides, "members that fit", scale))
    stack = StackedCompletion([Known(), Known()], days=True)
    ratings = Ratings(np.array([10]), np.array(["a"]), np.array([1.0]))
    found.append(refuses(lambda: stack.fit(ratings), "days=True needs the times", "no times"))
    found.append(refuses(lambda: StackedCompletion([]).fit(ratings), "members must be a list", "no members"))
    timed = Ratings(np.array([10]), np.array(["a"]), np.array([1.0]), np.array([5.0]))
    found.append(same(stack._timed(timed)["times"].tolist(), [5.0], "times are told", scale))
    return found


def _uncentered(scale: float) -> list[Comparison]:
    """Without their mean taken off, ratings of rank one are met by one factor; with it they are not."""
    found: list[Comparison] = []
    left, right = np.array([1.0, 2.0, 0.5, 1.5]), np.array([3.0, 1.0, 2.0])
    users, items = (part.ravel() for part in np.indices((4, 3)))
    values = np.outer(left, right).ravel()
    for center in (False, True):
        model = DropoutCompletion(1, 0.0, biases=False, center=center, sweeps=60, dtype="float64")
        told = model.fit((users, items, values))
        off = float(np.abs(told.predict(users, items) - values).max())
        found.append(same(off < 1e-6, not center, f"rank one, centered: {center}", scale))
        found.append(compare(1 + told.mean_, "==", scale * (1 + center * values.mean()), f"mean, centered: {center}"))
    return found


def _strange(scale: float) -> list[Comparison]:
    """Ids that a fitted model does not know: it says the mean, and the bias of the other one where it knows that."""
    found: list[Comparison] = []
    users, items = (part.ravel() for part in np.indices((5, 4)))
    values = 3.0 + np.cos(users + 2.5 * items) + 0.3 * users - 0.2 * items
    options: dict[str, Any] = {"dtype": "float64", "bias_ridge": 0.7}
    models: list[Any] = [
        DropoutCompletion(2, 0.3, **options),
        RidgeCompletion(2, 0.4, **options),
        *(AutoencoderCompletion(side, 0.7, 0.3, **options) for side in ("user", "item")),
    ]
    for model in models:
        model.fit((users, items, values))
        rows, columns = ({int(one): k for k, one in enumerate(ids)} for ids in (model.user_ids_, model.item_ids_))
        asked = [(3, 77), (1, 78), (99, 2), (98, 0), (99, 77)]
        own = [model.user_biases_[rows[user]] if user in rows else 0.0 for user, _ in asked]
        other = [model.item_biases_[columns[item]] if item in columns else 0.0 for _, item in asked]
        told = model.predict(np.array(asked))
        label = f"{type(model).__name__}, {getattr(model, 'side', '')}"
        wanted = values.mean() + np.array(own) + np.array(other)
        found.append(compare(told, "==", scale * wanted, f"unknown ids, {label}"))
        found.append(compare(len(set(told.tolist())), "==", 5, f"each with its own, {label}"))
        best = model.recommend(99, 4)
        ranks = np.argsort(-model.item_biases_)
        found.append(same(best.items.tolist(), model.item_ids_[ranks].tolist(), f"items for a stranger, {label}"))
        spread = values.mean() + model.item_biases_[ranks]
        found.append(compare(best.scores, "==", scale * spread, f"their scores, {label}"))
    spread = models[0].predict(np.array([(3, 77), (99, 2), (99, 77)]), return_std=True)[1]
    return [*found, compare(spread, "==", 0.0, "their factors, which are zero, do not scatter")]
