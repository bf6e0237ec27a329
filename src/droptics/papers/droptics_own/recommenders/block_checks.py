"""What a claim compares of many rows: users, ratings and factors of which some are worked on at a time."""

from __future__ import annotations

import warnings
from typing import Any
from unittest import mock

import numpy as np

from droptics.arrays import Array
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.recommenders.parted_checks import every_width
from droptics.papers.droptics_own.recommenders.ranker_checks import _left_out, _rated, interactions
from droptics.papers.droptics_own.recommenders.read_rating_checks import _listed, _pairs, _table
from droptics.papers.droptics_own.recommenders.swept_checks import _factors, solved_rows
from droptics.papers.droptics_own.telling import same
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, completion, sgd
from droptics.recommenders.alternation import Strengths, column_sums
from droptics.recommenders.ratings import Compressed, observations
from droptics.recommenders.sweepers import Threads
from droptics.recommenders.unbounded import say_unbounded


def many_rows(scale: float) -> list[Comparison]:
    """Sums, warnings, predictions, users left out, orders of ratings and half-sweeps, block by block; every width."""
    return by_parts((_summed, _said, _predicted, _users, _ordered, _swept, every_width), scale)


def _summed(scale: float) -> list[Comparison]:
    """Sums of squares of the columns of more rows than a block has, plain and weighted."""
    rng = np.random.default_rng(1)
    factors, weights = rng.normal(size=(9001, 3)), rng.integers(1, 50, 9001)
    plain, weighted = column_sums(factors.astype(np.float32), weights)
    squares = np.square(factors.astype(np.float32).astype(np.float64))
    return [
        compare(plain, "==", scale * squares.sum(0), "sums of squares"),
        compare(weighted, "==", scale * (weights[:, None] * squares).sum(0), "sums weighted by ratings"),
    ]


def _said(scale: float) -> list[Comparison]:
    """Far predictions are said where only rows of later blocks have them: of one row, and of all together."""
    found: list[Comparison] = []
    last, later, even = np.zeros((9000, 1)), np.zeros((9000, 1)), np.ones((5, 1))
    last[-1], later[5000:] = 1.0, 1.0
    for name, rows, limit in (("the last row", last, 2.0), ("later rows", later, np.sqrt(9000 / 4000))):
        for share in (0.95, 1.05):
            for left, right in ((share * limit * rows, even), (even, share * limit * rows)):
                with warnings.catch_warnings(record=True) as heard:
                    warnings.simplefilter("always")
                    say_unbounded(left, right, 1.0)
                found.append(same(len(heard), int(share > 1), f"{name}, {share} of the limit", scale))
    return found


def _predicted(scale: float) -> list[Comparison]:
    """Predictions and errors of ratings, five and seven at a time."""
    rows, columns, values = _rated(4, 9, 6)
    options: dict[str, Any] = {"solver": "sgd", "sweeps": 2, "batch": 6, "step_size": 0.3, "dtype": "float64"}
    model = DropoutCompletion(2, 0.3, **options)
    with mock.patch.object(completion, "_CHUNK", 5), mock.patch.object(sgd, "CHUNK", 7):
        told = model.fit((rows, columns, values)).predict(rows, columns)
    users, items = np.argsort(model.user_ids_)[rows], np.argsort(model.item_ids_)[columns]
    products = model.user_factors_[users] * model.item_factors_[items]
    wanted = model.mean_ + model.user_biases_[users] + model.item_biases_[items] + products.sum(1)
    ridge = 2.0 * (np.square(model.user_biases_).sum() + np.square(model.item_biases_).sum())
    whole = np.square(values - wanted).sum() + 0.3 / 0.7 * np.square(products).sum() + ridge
    return [
        compare(told, "==", scale * wanted, "predictions in pieces"),
        compare(model.history_[-1].rmse, "==", scale * np.square(values - wanted).mean() ** 0.5, "their error"),
        compare(model.objective_, "==", scale * whole / len(values), "the objective"),
    ]


def _users(scale: float) -> list[Comparison]:
    """More users than a block has, left out one by one; scores of all."""
    table, triples = interactions(6, 1030, 4)
    model = DropoutAutoencoder(0.3, 5.0, dtype="float64").fit(triples)
    table = table[:, model.item_ids_]
    gram = table.T @ table
    gamma = scale * (0.3 / 0.7 * np.diagonal(gram) + 5.0)
    C = np.linalg.inv(gram + np.diag(gamma))
    wanted = table @ (np.eye(4) - C / np.diagonal(C))
    return [compare(model.scores(table), "==", wanted, "scores"), *_left_out(model, table, gram, gamma, scale)]


def _ordered(scale: float) -> list[Comparison]:
    """Ratings in both orders, each made of three blocks of rows; pairs that repeat are averaged in each."""
    found: list[Comparison] = []
    whole = Compressed.blocks
    with mock.patch.object(Compressed, "blocks", lambda self, count: whole(self, max(count, 3))):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            data = observations(_table(), np.float64)
        pieces = [len(table.blocks(1)) for table in (data.by_user, data.by_item)]
    pairs = _pairs(_table())
    mean = sum(pairs.values()) / len(pairs)
    by_item = {(user, item): value for (item, user), value in _listed(data.by_item, data.items, data.users).items()}
    for name, kept in (("users", _listed(data.by_user, data.users, data.items)), ("items", by_item)):
        found.append(same(kept.keys() == pairs.keys(), True, f"pairs by {name}, in blocks", scale))
        told = [value + mean for _, value in sorted(kept.items())]
        found.append(compare(told, "==", [scale * value for _, value in sorted(pairs.items())], f"values by {name}"))
    found.append(compare(pieces, ">=", 2.0, "blocks of rows"))
    return [*found, compare(data.mean, "==", scale * mean, "mean of blocks")]


def _long(rng: np.random.Generator) -> tuple[list[tuple[Array, Array]], Array]:
    """Rows of more ratings than are summed at once, and of few; how often each place occurs."""
    rows = [(rng.permutation(1100)[:count], rng.normal(size=count)) for count in (1100, 3, 0, 700, 150, 33, 520)]
    return rows, np.bincount(np.concatenate([row[0] for row in rows]), minlength=1100).astype(float)


def _swept(scale: float) -> list[Comparison]:
    """Half-sweeps over rows of hundreds of ratings, by one thread and by three, exact and by conjugate gradients."""
    found: list[Comparison] = []
    rng = np.random.default_rng(7)
    rows, weights = _long(rng)
    table = Compressed.of(rows, np.dtype(np.float64))
    for strengths in (Strengths(3, 0.1, 0.2, bias=0.7, smoothing=0.3), Strengths(12, expected=0.3, weighted=0.1)):
        fixed = _factors(rng, 1100, strengths)
        wanted, reached, plain = solved_rows(rows, fixed, weights, strengths)
        used = strengths.width + (strengths.bias is not None)
        for threads, steps in ((1, 0), (1, 30), (3, 0), (3, 30)):
            free = rng.normal(size=wanted.shape)
            free[:, used:] = 0
            told = Threads(threads).solve(table, fixed, free, strengths, weights, steps)
            label = f"{threads} threads, {steps} steps, {strengths.width} factors"
            found.append(compare(free, "==", scale * wanted, f"rows of hundreds, {label}", precision=1e-7))
            found.append(compare(told, "==", scale * np.array([reached, plain]), f"their sums, {label}", 1e-7))
    return found
