"""What a claim compares of fits that go on: ratings that come later, warm starts, and what a sweep says."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from droptics.arrays import Array
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.recommenders.ranker_checks import _rated
from droptics.papers.droptics_own.recommenders.swept_checks import solved_rows
from droptics.papers.droptics_own.telling import same
from droptics.recommenders import DropoutCompletion, RidgeCompletion, UnboundedPredictions
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.ratings import DuplicateRatings
from droptics.recommenders.unbounded import say_unbounded

Pairs = dict[tuple[int, int], float]
# penalty, its share of the expected one, smoothing, ridge on the biases (None: no biases), unit of the ratings
KINDS: tuple[tuple[Any, float, float, float | None, float], ...] = (
    ("expected", 1.0, 0.25, 0.7, 1.0),
    ("empirical", 0.0, 0.0, 0.7, 4096.0),  # ratings of many thousands are fitted in another unit
    (0.4, 0.4, 0.5, None, 1.0),
)
DROP = 0.35


def continued(scale: float) -> list[Comparison]:
    """Ratings that come later, warm starts on other ratings, and objectives, in every kind of penalty and unit."""
    return by_parts((_later, _begun, _ended, _ridged, _wild), scale)


def _fitted(kind: tuple[Any, float, float, float | None, float], **options: Any) -> tuple[Any, Strengths]:
    """A completion of two factors that is to be fitted, and its strengths."""
    penalty, share, smoothing, ridge, _ = kind
    lam = DROP / (1 - DROP)
    strengths = Strengths(2, lam * (1 - share), lam * share, bias=ridge, smoothing=smoothing)
    options = {"sweeps": 3, "seed": 3, "dtype": "float64", "tolerance": 0.0, **options}
    own: dict[str, Any] = {"biases": ridge is not None, "bias_ridge": ridge or 0.0, "smoothing": smoothing}
    return DropoutCompletion(2, DROP, penalty, **own, **options), strengths


def _side(factors: Array, biases: Array, strengths: Strengths) -> Array:
    """Factors, and biases where there are some, with zeros behind them."""
    found = np.zeros((len(factors), strengths.columns))
    found[:, :2] = factors
    if strengths.bias is not None:
        found[:, 2] = biases
    return found


def _sides(model: Any, strengths: Strengths) -> tuple[Array, Array]:
    users = _side(model.user_factors_, model.user_biases_, strengths)
    return users, _side(model.item_factors_, model.item_biases_, strengths)


def _lists(pairs: Iterable[tuple[int, int, float]], count: int) -> list[tuple[Array, Array]]:
    """Places and values of every row, from triples of row, place and value."""
    rows: list[list[tuple[int, float]]] = [[] for _ in range(count)]
    for row, place, value in pairs:
        rows[row].append((place, value))
    return [(np.array([p for p, _ in row], int), np.array([v for _, v in row])) for row in rows]


def _numbered(model: Any, pairs: Pairs) -> list[tuple[int, int, float]]:
    """Ratings less the mean, by the numbers of their users and items."""
    users, items = ({int(one): k for k, one in enumerate(ids)} for ids in (model.user_ids_, model.item_ids_))
    return [(users[user], items[item], value - model.mean_) for (user, item), value in pairs.items()]


def _stated(model: Any, pairs: Pairs, strengths: Strengths, label: str, scale: float) -> list[Comparison]:
    """The mean objective and the root mean square error of the last sweep, written out."""
    users, items = _sides(model, strengths)
    rated, n = _numbered(model, pairs), len(pairs)
    plain = total = 0.0
    for i, j, y in rated:
        biases = 0.0 if strengths.bias is None else users[i, 2] + items[j, 2]
        plain += float(y - biases - users[i, :2] @ items[j, :2]) ** 2
        total += strengths.empirical * float(((users[i, :2] * items[j, :2]) ** 2).sum())
    shares = []
    for side, at in ((users, 0), (items, 1)):
        counts = np.bincount([one[at] for one in rated], minlength=len(side))
        total += float(((strengths.weighted * counts + strengths.ridge) @ side[:, :2] ** 2).sum())
        shares.append((1 - strengths.smoothing) * counts / n + strengths.smoothing / len(side))
    total += strengths.expected * n * float((shares[0] @ users[:, :2] ** 2) @ (shares[1] @ items[:, :2] ** 2))
    if strengths.bias is not None:
        total += strengths.bias * float((users[:, 2] ** 2).sum() + (items[:, 2] ** 2).sum())
    last = model.history_[-1]
    return [
        compare(last.rmse**2 / (plain / n), "==", scale, f"squared error of a sweep, {label}"),
        compare(last.objective / ((plain + total) / n), "==", scale, f"objective of a sweep, {label}"),
        compare(model.objective_, "==", last.objective, f"that of the last one, {label}"),
    ]


@dataclass
class _Grown:
    """A model that ratings are added to, all ratings that it was given, and how many of each row its fits counted."""

    model: Any
    strengths: Strengths
    known: Pairs
    users: Array
    items: Array


def _later(scale: float) -> list[Comparison]:
    """Rows of the users whom later ratings touch, by all that is known of them, then new items, by these ratings."""
    found: list[Comparison] = []
    rows, columns, values = _rated(4, 9, 6)
    for kind in KINDS:
        unit, label = kind[4], str(kind[0])
        model, strengths = _fitted(kind)
        model.fit((rows, columns, unit * values))
        known: Pairs = {(int(u), int(i)): float(v) for u, i, v in zip(rows, columns, unit * values, strict=True)}
        found += _stated(model, known, strengths, label, scale)
        counts = [np.bincount(part)[ids] for part, ids in ((rows, model.user_ids_), (columns, model.item_ids_))]
        grown = _Grown(model, strengths, known, *counts)
        # a known pair, new users, one of them rated an item twice, new items; then known users once more
        first = [(0, 0, -4.5), (0, 77, 4.0), (50, 1, 2.0), (50, 3, 5.0), (50, 3, 4.0), (50, 77, 9.5), (51, 2, 3.0),
                 (51, 78, 1.0)]  # fmt: skip
        second = [(50, 77, 2.5), (50, 5, 3.5), (2, 78, 4.5)]
        for turn, ratings in (("first", first), ("second", second)):
            found += _added(grown, [(u, i, unit * v) for u, i, v in ratings], f"{turn}, {label}", scale)
    return found


def _added(grown: _Grown, ratings: list[tuple[int, int, float]], label: str, scale: float) -> list[Comparison]:
    """One lot of later ratings: what the model says then, beside the systems of the rows."""
    model, strengths = grown.model, grown.strengths
    before, old, limits, mean = _sides(model, strengths), len(model.item_ids_), model.range_, model.mean_
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        model.partial_fit(tuple(np.array(part) for part in zip(*ratings, strict=True)))
    fresh: dict[tuple[int, int], list[float]] = {}
    for user, item, value in ratings:
        fresh.setdefault((user, item), []).append(value)
    averaged = {pair: sum(each) / len(each) for pair, each in fresh.items()}
    told = any(one.category is DuplicateRatings for one in heard)
    found = [same(told, len(averaged) < len(ratings), f"repeated pairs are said, {label}")]
    grown.known.update(averaged)
    given = [value for _, _, value in ratings]
    wanted_range = scale * np.array([min(limits[0], *given), max(limits[1], *given)])
    found.append(compare(model.range_, "==", wanted_range, f"range, {label}"))
    found.append(compare(model.mean_, "==", scale * mean, f"mean, {label}"))
    users, items = _sides(model, strengths)
    touched = sorted({user for user, _, _ in _numbered(model, averaged)})
    mine = [one for one in _numbered(model, grown.known) if one[0] in touched]
    # the items count as many ratings as before, their factors and biases stay
    rows = _lists([one for one in mine if one[1] < old], len(users))
    solved, _, _ = solved_rows(rows, before[1], grown.items, strengths)
    wanted = np.pad(before[0], ((0, len(users) - len(before[0])), (0, 0)))
    wanted[touched] = solved[touched]
    found.append(compare(users, "==", scale * wanted, f"users, {label}", precision=1e-7))
    found.append(compare(items[:old], "==", scale * before[1], f"items that were known, {label}"))
    grown.users = np.pad(grown.users, (0, len(users) - len(grown.users)))
    for user in touched:
        grown.users[user] = sum(one[0] == user for one in mine)
    if len(items) > old:
        raters = [(item, user, value) for user, item, value in _numbered(model, averaged)]
        solved, _, _ = solved_rows(_lists(raters, len(items)), wanted, grown.users, strengths)
        found.append(compare(items[old:], "==", scale * solved[old:], f"new items, {label}", precision=1e-7))
        more = [sum(one[0] == item for one in raters) for item in range(old, len(items))]
        grown.items = np.concatenate([grown.items, more])
    entries = model.entries()
    listed = sorted(zip(entries.rows.tolist(), entries.columns.tolist(), entries.values.tolist(), strict=True))
    stored = np.array(sorted(_numbered(model, grown.known)))
    return [*found, compare(np.array(listed), "==", scale * stored, f"ratings, {label}")]


def _begun(scale: float) -> list[Comparison]:
    """A fit to other ratings of known items begins from their factors; few steps begin from those of the users, too."""
    found: list[Comparison] = []
    rows, columns, values = _rated(4, 9, 6)
    others, items, grades = _rated(8, 7, 6)
    others = np.where(others > 3, others + 40, others)  # some users are known, their numbers differ
    for kind in KINDS:
        unit, label = kind[4], str(kind[0])
        model, strengths = _fitted(kind, warm_start=True, cg_steps=None)
        model.fit((rows, columns, values))
        fixed = _sides(model, strengths)[1][np.argsort(model.item_ids_)]
        model.set_params(sweeps=1).fit((others, items, unit * grades))
        rated: Pairs = {(int(u), int(i)): float(v) for u, i, v in zip(others, items, unit * grades, strict=True)}
        pairs = _numbered(model, rated)
        per_user, per_item = (np.bincount([one[at] for one in pairs]).astype(float) for at in (0, 1))
        start = fixed[model.item_ids_]
        users, _, _ = solved_rows(_lists(pairs, len(per_user)), start, per_item, strengths)
        turned = [(item, user, value) for user, item, value in pairs]
        wanted, _, _ = solved_rows(_lists(turned, len(per_item)), users, per_user, strengths)
        for name, mine, own in zip(("users", "items"), _sides(model, strengths), (users, wanted), strict=True):
            found.append(compare(mine, "==", scale * own, f"{name} after a warm start, {label}", precision=1e-7))
        parts, whole = (_fitted(kind, warm_start=True, cg_steps=1, sweeps=sweeps)[0] for sweeps in (2, 5))
        parts.fit((rows, columns, unit * values)).set_params(sweeps=3).fit((rows, columns, unit * values))
        told, own = (_sides(one.fit((rows, columns, unit * values)) if one is whole else one, strengths)
                     for one in (parts, whole))  # fmt: skip
        for name, mine, other in zip(("users", "items"), told, own, strict=True):
            found.append(compare(mine, "==", scale * other, f"{name} after 2 and 3 sweeps, {label}", precision=1e-9))
    return found


def _ended(scale: float) -> list[Comparison]:
    """A fit ends with the first sweep that lowers the objective by less than the tolerance times its value."""
    found: list[Comparison] = []
    rows, columns, values = _rated(4, 9, 6)
    for kind in KINDS:
        levels: list[float] = []
        ends: list[int] = []
        for tolerance in (0.0, 0.03, 1e-3):
            heard: list[Any] = []
            model = _fitted(kind, sweeps=12, tolerance=tolerance, progress=heard.append)[0]
            model.fit((rows, columns, kind[4] * values))
            told, label = [line.objective for line in model.history_], f"tolerance {tolerance}, {kind[0]}"
            levels = levels or told
            shares = [(before - after) / after for before, after in pairwise(levels)]
            ends.append(2 + next((k for k, share in enumerate(shares) if share < tolerance), 10))
            found.append(same(len(told), ends[-1], f"sweeps, {label}", scale))
            found.append(same(heard, model.history_, f"each is told, {label}"))
            found.append(compare(told, "==", scale * np.array(levels[: len(told)]), f"as if it went on, {label}"))
        found.append(same(2 < ends[1] < ends[2] < 12, True, f"three ends, {kind[0]}"))
    return found


def _ridged(scale: float) -> list[Comparison]:
    """Completions by ridges, whose strength is in the unit of the factors: items at the end, and what a sweep says."""
    found: list[Comparison] = []
    rows, columns, values = _rated(4, 9, 6)
    values, told = values / 4, {}  # within about one of their mean: the unit of the fit is that of the ratings
    for weighted, unit in ((True, 1.0), (True, 4096.0), (False, 1.0), (False, 4096.0)):
        options: dict[str, Any] = {"sweeps": 3, "cg_steps": None, "dtype": "float64", "tolerance": 0.0}
        model: Any = RidgeCompletion(2, 0.05 * unit, weighted, bias_ridge=0.7, **options)
        model.fit((rows, columns, unit * values))
        parts = {"weighted": 0.05 * unit} if weighted else {"ridge": 0.05 * unit}
        strengths, label = Strengths(2, bias=0.7, **parts), f"counts {weighted}, {unit:.0f}"
        known: Pairs = {(int(u), int(i)): float(v) for u, i, v in zip(rows, columns, unit * values, strict=True)}
        found += _stated(model, known, strengths, label, scale)
        told[weighted, unit] = model.predict(rows, columns) / unit
        pairs, (users, items) = _numbered(model, known), _sides(model, strengths)
        per_user = np.bincount([user for user, _, _ in pairs]).astype(float)
        turned = [(item, user, value) for user, item, value in pairs]
        wanted, _, _ = solved_rows(_lists(turned, len(items)), users, per_user, strengths)
        found.append(compare(items, "==", scale * wanted, f"items by a ridge, {label}", precision=1e-7))
    for weighted in (True, False):
        plain, other = told[weighted, 1.0], scale * told[weighted, 4096.0]
        found.append(compare(plain, "==", other, f"the same in another unit, counts {weighted}", precision=1e-7))
        found.append(compare(np.ptp(plain), ">", 0.1, f"predictions that differ, counts {weighted}"))
    return found


def _wild(scale: float) -> list[Comparison]:
    """What is said of predictions that lie, for one row or column, twice as far off as ratings may, or once for all."""
    found: list[Comparison] = []
    rows, columns, values = _rated(4, 9, 6)
    rows, columns = np.append(rows, [20, 20]), np.append(columns, [0, 3])
    for center, level in ((True, 0.0), (False, 0.0), (False, 40.0)):
        given = np.append(values, [1.0, 5.5]) + level
        for penalty, drop in (("expected", 0.4), ("empirical", 0.05), ("empirical", 0.4)):
            options: dict[str, Any] = {"biases": False, "center": center, "sweeps": 60, "tolerance": 0.0, "seed": 2}
            with warnings.catch_warnings(record=True) as heard:
                warnings.simplefilter("always")
                model = DropoutCompletion(3, drop, penalty, dtype="float64", **options).fit((rows, columns, given))
            far = (model.user_factors_ @ model.item_factors_.T) ** 2
            reach = max(np.ptp(given), abs(given - model.mean_).max())
            worst = max(far.mean(0).max() ** 0.5 / 2, far.mean(1).max() ** 0.5 / 2, far.mean() ** 0.5) / reach
            told = sum(one.category is UnboundedPredictions for one in heard)
            label = f"{penalty}, drop {drop}, centered {center}, {level}"
            found.append(compare(told, "==", scale * float(worst > 1), f"said of predictions, {label}"))
    lone, even = np.eye(9)[:, :1] + 0.01, np.ones((5, 1))
    for name, users, limit in (("one row", lone, 2 / lone[0, 0]), ("all rows", np.ones((9, 1)), 1.0)):
        for share in (0.95, 1.05):
            for left, right in ((share * limit * users, even), (even, share * limit * users)):
                with warnings.catch_warnings(record=True) as heard:
                    warnings.simplefilter("always")
                    say_unbounded(left, right, 1.0)
                found.append(same(len(heard), int(share > 1), f"{name}, {share} of the limit", scale))
    return found
