"""What the claims on recommenders compare: fits, left-out errors and blends against small systems solved here."""

from __future__ import annotations

import itertools
import math
from typing import Any
from unittest import mock

import numpy as np

from droptics.arrays import Array
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, uniform
from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutAutoencoder,
    DropoutCompletion,
    ImplicitDropoutCompletion,
    LocalAutoencoder,
    StackedRanker,
    autoencoder,
    autoencoder_completion,
    diagnose,
)


def interactions(seed: int, users: int, items: int, share: float = 0.5) -> tuple[Array, tuple[Array, Array, Array]]:
    """A table of zeros and ones, every user with two items at least, and its triples."""
    table = (uniform(seed, users, items) < share).double().numpy()
    table[np.arange(users), np.arange(users) % items] = 1.0
    table[np.arange(users), (np.arange(users) + 1) % items] = 1.0
    rows, columns = np.nonzero(table)
    return table, (rows, columns, np.ones(len(rows)))


def weights_of(gram: Array, gamma: Array, diagonal: str | float) -> Array:
    """The weights that minimize the dropout loss, at most a number on the diagonal: columns by normal equations."""
    free = np.linalg.solve(gram + np.diag(gamma), gram)
    found = free.copy()
    bound = {"free": math.inf, "zero": 0.0}.get(diagonal, diagonal) if isinstance(diagonal, str) else diagonal
    for j in np.flatnonzero(np.diagonal(free) > bound):  # its own weight ends at the bound, the others answer
        others = np.arange(len(gram)) != j
        system = gram[np.ix_(others, others)] + np.diag(gamma[others])
        found[j, j] = bound
        found[others, j] = np.linalg.solve(system, (1 - float(bound)) * gram[others, j])
    return found


def autoencoders(scale: float) -> list[Comparison]:
    """Weights, scores, parts of a score, and every user left out, against systems solved one by one; by grades, too."""
    found: list[Comparison] = []
    diagonals: tuple[str | float, ...] = ("free", "zero", 0.15)
    for feedback, diagonal in itertools.product(("implicit", "graded"), diagonals):
        table, triples = interactions(1, 13, 6)
        options: dict[str, Any] = {"feedback": feedback, "dtype": "float64"}
        if feedback == "graded":
            triples = (*triples[:2], 0.5 + (3 * triples[0] + triples[1]) % 4)
            table[triples[:2]] = triples[2]
        drop, ridge = 0.3, 0.8
        model = DropoutAutoencoder(drop, ridge, diagonal, **options).fit(triples)  # type: ignore[arg-type]
        ids, label = model.item_ids_, f"{diagonal}, {feedback}"
        table = table[:, ids]
        gram = table.T @ table
        gamma = scale * (drop / (1 - drop) * np.diagonal(gram) + ridge)
        W = weights_of(gram, gamma, diagonal)
        found.append(compare(model.weights(), "==", W, f"weights, {label}"))
        found.append(compare(model.scores(table), "==", table @ W, f"scores, {label}"))
        parts = model.explain(3, ids[2])
        own = [table[3, k] * W[k, 2] for k in np.argsort(ids)[parts.items]]
        found.append(compare(parts.parts, "==", own, f"parts of a score, {label}"))
        found.append(compare(np.diff(parts.parts), "<=", 0.0, f"the largest part first, {label}"))
        found.append(compare(len(own), "==", np.count_nonzero(table[3]), f"one for each of her items, {label}"))
        found.append(compare(model.explain(3, ids[2], 2).parts, "==", own[:2], f"two of them, {label}"))
        found += _left_out(model, table, gram, gamma, scale)
        low = DropoutAutoencoder(drop, ridge, diagonal, rank=6, **options).fit(triples)  # type: ignore[arg-type]
        found.append(compare(low.weights(), "==", W, f"all eigenvectors, {label}", precision=1e-7))
        found += _few_eigenvectors(triples, gram, gamma, diagonal, options)
        half = tuple(part[: len(part) // 2] for part in triples)
        again = DropoutAutoencoder(drop, ridge, diagonal, **options)  # type: ignore[arg-type]
        again.fit((*half[:2], 2 * half[2])).partial_fit(triples)  # known pairs take the new value
        order = np.argsort(again.item_ids_)[ids]
        found.append(compare(again.weights()[np.ix_(order, order)], "==", W, f"in two parts, {label}"))
        found.append(_from_a_threshold(triples, diagonal, options, scale))
    for rank, bytes_ in ((None, 6 * 6 * 8), (3, 6 * 3 * 8)):  # of one array in float64
        made = [DropoutAutoencoder(0.3, 0.8, rank=rank, dtype="float64", memory=bytes_ - less) for less in (0, 1)]
        found.append(same(len(made[0].fit(triples).item_ids_), 6, f"within the memory, rank {rank}", scale))
        words = f"memory: 6 items need {bytes_} bytes"
        found.append(refuses(lambda made=made, triples=triples: made[1].fit(triples), words))
    return found


def _few_eigenvectors(
    triples: tuple[Array, Array, Array], gram: Array, gamma: Array, diagonal: Any, options: dict[str, Any]
) -> list[Comparison]:
    """Weights by the inverse of few eigenvectors of the scaled Gram matrix, and the bound on what is cut off."""
    low, root = DropoutAutoencoder(0.3, 0.8, diagonal, rank=3, **options).fit(triples), gamma**-0.5
    values, vectors = np.linalg.eigh(root[:, None] * gram * root)
    kept = vectors[:, 3:] * (values[3:] / (1 + values[3:])) @ vectors[:, 3:].T
    inverse = root[:, None] * (np.eye(6) - kept) * root
    least = 0.0 if diagonal == "zero" else 1.0 if diagonal == "free" else diagonal
    sigma = np.maximum((1 - least) / np.diagonal(inverse), 0.0 if diagonal == "zero" else gamma)
    off, label = values[2] / (1 + values[2]), f"three eigenvectors, {diagonal}, {options['feedback']}"
    return [
        compare(low.weights(), "==", np.eye(6) - inverse * sigma, f"weights, {label}", precision=1e-6),
        compare(low.cut_, ">=", off, f"the bound on what is cut, {label}"),
        compare(low.cut_ / off, "<=", 1.4, f"how far above it, {label}"),
        # of six normal vectors none is longer than half the norm with a chance of 0.3 %: what makes the bound sure
        compare(((low.cut_ / (1 - low.cut_)) / values[2]) ** 8, ">=", 10 * (2 / np.pi) ** 0.5 / 2, f"sure, {label}"),
    ]


def _from_a_threshold(
    triples: tuple[Array, Array, Array], diagonal: Any, options: dict[str, Any], scale: float
) -> Comparison:
    """Weights from interactions of a grade at least, in two parts."""
    rows, columns, _ = triples
    grades = 0.5 + (rows + 3 * columns) % 4
    model = DropoutAutoencoder(0.3, 0.8, diagonal, threshold=1.5, **options)
    half = len(rows) // 2
    model.fit((rows[:half], columns[:half], grades[:half])).partial_fit((rows[half:], columns[half:], grades[half:]))
    table = np.zeros((rows.max() + 1, columns.max() + 1))
    table[rows, columns] = np.where(grades < 1.5, 0.0, grades if options["feedback"] == "graded" else 1.0)
    table = table[:, model.item_ids_]
    gram = table.T @ table
    wanted = weights_of(gram, scale * (0.3 / 0.7 * np.diagonal(gram) + 0.8), diagonal)
    return compare(model.weights(), "==", wanted, f"from a threshold, {diagonal}, {options['feedback']}")


def _left_out(model: Any, table: Array, gram: Array, gamma: Array, scale: float) -> list[Comparison]:
    """What is left of every user, and the ranks of all of her items, hidden one after the other."""
    label, left, gains = f"{model.diagonal_}, {model.feedback}", [], []
    for row in table:
        other = weights_of(gram - np.outer(row, row), gamma, model.diagonal_)
        left.append(row - row @ other)
        for item in np.flatnonzero(row):
            known = row.copy()
            known[item] = 0.0
            scores = known @ other
            rank = 1 + int((scores[row == 0] > scores[item]).sum())
            gains.append(1 / math.log2(1 + rank))
    asked = model.user_ids_[[4, 0, 2]]
    told = model.leave_one_out(10_000)
    error = np.std(gains, ddof=1) / len(gains) ** 0.5
    squares = np.square(left).mean(1)
    return [
        compare(model.left_out_residuals(np.arange(len(table))), "==", np.array(left), f"left out, {label}"),
        compare(model.left_out_residuals(asked), "==", np.array(left)[asked], f"some left out, {label}"),
        compare(told.gain.value, "==", np.mean(gains), f"gain of hidden items, {label}"),
        compare(told.gain.error, "==", error, f"its error, {label}"),
        compare(told.pairs, "==", scale * len(gains), f"hidden pairs, {label}"),
        compare(told.squared.value, "==", squares.mean(), f"squared error, {label}"),
        compare(told.squared.error, "==", squares.std(ddof=1) / len(left) ** 0.5, f"its error, {label}"),
    ]


def _near(gram: Array, gamma: Array, count: int) -> Array:
    """Weights on the items that occur most often with an item, if at all, each column by its own normal equations."""
    found = np.zeros_like(gram)
    for k in range(len(gram)):
        order = [one for one in np.argsort(-np.abs(gram[:, k]), kind="stable") if one != k and gram[one, k] != 0]
        chosen = np.sort(np.array(order[:count], int))
        found[chosen, k] = np.linalg.solve(gram[np.ix_(chosen, chosen)] + np.diag(gamma[chosen]), gram[chosen, k])
    return found


def neighbors(scale: float) -> list[Comparison]:
    """A bounded diagonal, weights on a few items, sums of rankers, and the choice of rate and ridge."""
    found: list[Comparison] = []
    for seed, size, drop, ridge, near in ((1, 6, 0.3, 0.8, 3), (5, 9, 0.6, 2.0, 4)):
        table, triples = interactions(seed, 2 * size + 1, size)
        table = table[:, DropoutAutoencoder(drop, ridge).fit(triples).item_ids_]
        gram = table.T @ table
        gamma = scale * (drop / (1 - drop) * np.diagonal(gram) + ridge)
        local = LocalAutoencoder(near, drop, ridge).fit(triples).weights().toarray()
        for bound in (0.1, 0.3):
            model = DropoutAutoencoder(drop, ridge, bound, dtype="float64").fit(triples)
            wanted = weights_of(gram, gamma, bound)
            found.append(compare(model.weights(), "==", wanted, f"diagonal of at most {bound}, {size} items"))
        found.append(compare(local, "==", _near(gram, gamma, near), f"{near} neighbors, {size} items"))
        grades = 4096 * np.cos(5.0 * triples[0] + triples[1])
        for own in (None, 3e7):
            signed = LocalAutoencoder(near, drop, own, feedback="graded").fit((*triples[:2], grades))
            given = np.zeros(table.shape)
            given[triples[:2]] = grades
            given = given[:, signed.item_ids_]
            squares = np.square(given).sum(0)  # the ridge by default is a share of their sum
            wanted = _near(given.T @ given, scale * (drop / (1 - drop) * squares + (own or 5e-4 * squares.sum())), near)
            label = f"{near} neighbors by grades of both signs, {own}"
            found.append(compare(signed.weights().toarray(), "==", wanted, label))
        stack = StackedRanker([DropoutAutoencoder(drop, ridge, dtype="float64"), LocalAutoencoder(near, drop, ridge)])
        pair = [table @ weights_of(gram, gamma, "zero"), table @ local]
        total = sum(scores / scores.std() for scores in pair)
        found.append(compare(stack.fit(triples).scores(table), "==", total, f"a sum of rankers, {size} items"))
    found += [_few_together(scale), _cancelled(scale), *_deviations(scale)]
    for name, value in (("drop", 0.35), ("ridge", 1.7)):  # what is given is not varied
        options: dict[str, Any] = {name: value}
        chosen = DropoutAutoencoder(diagonal="free", dtype="float64", **options).fit(triples)
        tried = np.array([(point.drop, point.ridge) for point in chosen.points_])
        mine, wide = (tried[:, 0], tried[:, 1] / len(triples[0])) if name == "drop" else (tried[:, 1], tried[:, 0])
        found.append(compare(mine, "==", scale * value, f"the given {name}"))
        grid = (3e-4, 1e-3, 3e-3) if name == "drop" else (0.2, 0.4, 0.6)
        found.append(compare(wide[:3], "==", scale * np.array(grid), f"the grid beside a given {name}"))
        found.append(same(len(tried), 5, f"two neighbors of the best, {name}", scale))
    found += _tried(triples, len(triples[0]), 0, scale)
    with mock.patch.object(autoencoder, "_PAIRS", 20):  # fewer than there are, which the seed draws
        return [*found, *_tried(triples, len(triples[0]), 3, scale)]


def _few_together(scale: float) -> Comparison:
    """An item that occurs with fewer others than it may have neighbors has weights on these alone."""
    users = np.repeat(np.arange(9), 2)
    items = np.array([0, 1, 0, 2, 1, 2, 3, 4, 3, 5, 4, 5, 0, 3, 1, 4, 6, 2])
    model = LocalAutoencoder(5, 0.3, 0.8).fit((users, items, np.ones(18)))
    table = np.zeros((9, 7))
    table[users, np.argsort(model.item_ids_)[items]] = 1.0
    gram = table.T @ table
    wanted = _near(gram, scale * (0.3 / 0.7 * np.diagonal(gram) + 0.8), 5)
    return compare(model.weights().toarray(), "==", wanted, "five neighbors of items that occur with fewer")


def _cancelled(scale: float) -> Comparison:
    """Items that occur together with a product of 0 have no weights on each other."""
    users, items = np.array([0, 0, 1, 1, 2, 2, 3, 3]), np.array([0, 1, 0, 1, 0, 2, 1, 2])
    grades = np.array([1.0, 1.0, 1.0, -1.0, 2.0, 1.0, 3.0, 1.0])
    model = LocalAutoencoder(2, 0.3, 0.8, feedback="graded").fit((users, items, grades))
    table = np.zeros((4, 3))
    table[users, np.argsort(model.item_ids_)[items]] = grades
    gram = table.T @ table
    wanted = _near(gram, scale * (0.3 / 0.7 * np.diagonal(gram) + 0.8), 2)
    return compare(model.weights().toarray(), "==", wanted, "two neighbors, two items whose products cancel")


def _deviations(scale: float) -> list[Comparison]:
    """Deviations over the thousand users with most interactions, of 1,040; a ranker of equal scores is left out."""
    users = np.arange(1040)
    few = users % 26 == 0  # 40 users with one interaction
    rows = np.concatenate([users, users[~few], users[~few & (users % 3 == 0)]])
    columns = np.concatenate([users % 5, (users[~few] // 5 + 1) % 4 + 5, (users[~few & (users % 3 == 0)] // 7) % 3 + 9])
    triples = rows, columns, np.ones(len(rows))
    members = [DropoutAutoencoder(0.3, 0.8, dtype="float64"), LocalAutoencoder(4, 0.3, 0.8)]
    stack = StackedRanker(members).fit(triples)
    table = np.zeros((1040, 12))
    table[rows, np.argsort(stack.item_ids_)[columns]] = 1.0
    wanted = [member.fit(triples).scores(table[~few]).std() for member in members]
    found = [compare(stack.deviations_, "==", scale * np.array(wanted), "deviations over the most active users")]
    alike = np.nonzero(np.ones((5, 3)))
    told = StackedRanker([DropoutAutoencoder(0.3, 0.8, kind) for kind in ("zero", "free")]).fit((*alike, np.ones(15)))
    return [*found, compare(told.scores(np.ones((1, 3))), "==", 0.0, "rankers of equal scores")]


def _tried(triples: tuple[Array, Array, Array], unit: int, seed: int, scale: float) -> list[Comparison]:
    """The points of a choice, a grid and neighbors of its best at half the step, by fits of their own, and the best."""
    model = DropoutAutoencoder(dtype="float64", seed=seed).fit(triples)
    tried = [(point.drop, point.ridge) for point in model.points_[::2]]  # each without a diagonal and with one
    gains = [max(one.left_out.gain.value for one in model.points_[k : k + 2]) for k in range(0, len(model.points_), 2)]
    grid = [(drop, unit * share) for drop in (0.2, 0.4, 0.6) for share in (3e-4, 1e-3, 3e-3)]
    drop, ridge = grid[int(np.argmax(gains[:9]))]
    wanted = [
        *grid,
        *((drop + step, ridge) for step in (-0.1, 0.1)),
        *((drop, ridge * 3**turn) for turn in (-0.5, 0.5)),
    ]
    found = [compare(np.array(tried), "==", scale * np.array(wanted), "the points of a choice")]
    for point in model.points_:
        fitted = DropoutAutoencoder(point.drop, point.ridge, point.diagonal, dtype="float64", seed=seed).fit(triples)
        alone = fitted.leave_one_out(autoencoder._PAIRS)
        told = [point.left_out.gain.value, point.left_out.squared.value]
        label = f"left-out values at {point.drop}, {point.ridge:.3f}, {point.diagonal}"
        found.append(compare(told, "==", [alone.gain.value, alone.squared.value], label))
    best = tried[int(np.argmax(gains))]
    return [*found, compare([model.drop_, model.ridge_], "==", scale * np.array(best), "the chosen rate and ridge")]


def _rated(seed: int, users: int, items: int) -> tuple[Array, Array, Array]:
    seen = uniform(seed, users, items).numpy() < 0.7
    seen[np.arange(users), np.arange(users) % items] = True
    seen[np.arange(users), (np.arange(users) + 1) % items] = True
    rows, columns = np.nonzero(seen)
    values = (
        3 + (normal(seed + 1, users, 1) + normal(seed + 2, 1, items) + 0.5 * normal(seed + 3, users, items)).numpy()
    )
    return rows, columns, values[rows, columns]


def kernel_regressions(scale: float) -> list[Comparison]:
    """Regressions of rows with a kernel between columns: predictions and leave-one-out errors, system by system.

    One table with the ridge of biases that is the default, one with another.
    """
    found: list[Comparison] = []
    for (seed, count, width, own), side in itertools.product(((1, 10, 6, 5.0), (5, 8, 8, 1.5)), ("user", "item")):
        rows, columns, values = _rated(seed, count - 1, width)
        # one more user, whose single rating has no others to be left out of
        ratings = rows, columns, values = np.append(rows, count - 1), np.append(columns, 2), np.append(values, 4.5)
        mean = values.mean()
        y, users, items = values - mean, np.zeros(count), np.zeros(width)
        for _ in range(15):
            users = np.bincount(rows, y - items[columns], count) / (np.bincount(rows, minlength=count) + own)
            items = np.bincount(columns, y - users[rows], width) / (np.bincount(columns, minlength=width) + own)
        left = y - users[rows] - items[columns]
        unit = np.sqrt(np.mean(left**2))
        R, seen = np.zeros((count, width)), np.zeros((count, width))
        R[rows, columns], seen[rows, columns] = left / unit, 1.0
        table = (R, seen) if side == "user" else (R.T, seen.T)
        name, options = f"{side}, {count} by {width}", {"bias_ridge": own, "dtype": "float64"}
        model: Any = AutoencoderCompletion(side, 0.7, 0.4, **options).fit(ratings)  # type: ignore[arg-type]
        told = model.predict(np.repeat(np.arange(count), width), np.tile(np.arange(width), count))
        wanted, _ = _regressed(*table, 0.4, scale * 0.7)
        whole = mean + users[:, None] + items + unit * (wanted if side == "user" else wanted.T)
        found.append(compare(told.reshape(count, width), "==", whole, f"predictions, {name}"))
        for user in np.argsort(np.bincount(rows))[:2]:
            fresh = np.setdiff1d(np.arange(width), columns[rows == user])
            best, listed = fresh[np.argsort(-whole[user, fresh], kind="stable")], model.recommend(int(user), width)
            found.append(same(listed.items.tolist(), best.tolist(), f"items for user {user}, {name}"))
            found.append(compare(listed.scores, "==", whole[user, best], f"their scores, user {user}, {name}"))
        with mock.patch.object(autoencoder_completion, "_ENTRIES", 9):  # of a drawn order the first rows with as many
            few: Any = AutoencoderCompletion(side, None, 0.4, seed=3, **options).fit(ratings)  # type: ignore[arg-type]
        ids = few.user_ids_ if side == "user" else few.item_ids_
        order = ids[np.random.default_rng(3).permutation(int((table[1].sum(1) > 1).sum()))]  # those of one come last
        judged = order[: 1 + int(np.argmax(np.cumsum(table[1].sum(1)[order]) >= 9))]
        errors = [unit * _regressed(*table, one.implicit, scale * one.ridge, judged)[1] for one in few.points_]
        told_few = [one.rmse for one in few.points_]
        found.append(compare(told_few, "==", errors, f"left-out errors of a sample, {name}", precision=1e-8))
        for ridge, tau in ((0.7, None), (None, 0.4)):
            chosen: Any = AutoencoderCompletion(side, ridge, tau, **options).fit(ratings)  # type: ignore[arg-type]
            errors = [unit * _regressed(*table, one.implicit, scale * one.ridge)[1] for one in chosen.points_]
            mine = [one.rmse for one in chosen.points_]
            found.append(compare(mine, "==", errors, f"left-out errors, {name}", precision=1e-8))
            best = chosen.points_[int(np.argmin(errors))]
            told_best = [chosen.ridge_, chosen.implicit_]
            found.append(compare(told_best, "==", [best.ridge, best.implicit], f"the least, {name}"))
            shown = chosen.predict(np.repeat(np.arange(count), width), np.tile(np.arange(width), count))
            wanted, _ = _regressed(*table, best.implicit, scale * best.ridge)
            whole = mean + users[:, None] + items + unit * (wanted if side == "user" else wanted.T)
            found.append(compare(shown.reshape(count, width), "==", whole, f"predictions with the least, {name}"))
    return found


def _regressed(R: Array, seen: Array, tau: float, ridge: float, judged: Array | None = None) -> tuple[Array, float]:
    """Predictions of the regressions of all rows; root mean squared error of some of two or more ratings, left out."""
    rates = 1 / np.sqrt(seen.sum(1) + 1)
    rates = rates / rates.mean()
    A = np.diag(1 / np.sqrt(seen.sum(0) + 20))
    K = A @ (R.T @ np.diag(rates) @ R + tau * seen.T @ np.diag(rates) @ seen) @ A
    wanted, errors = np.zeros(R.shape), []
    for u in range(len(R)):
        S = np.flatnonzero(seen[u])
        own = A @ (rates[u] * (np.outer(R[u], R[u]) + tau * np.outer(seen[u], seen[u]))) @ A
        system = (K - own)[np.ix_(S, S)]
        alpha = np.linalg.solve(system + ridge * np.eye(len(S)), R[u, S])
        wanted[u] = K[:, S] @ alpha
        wanted[u, S] = system @ alpha
        for i in range(len(S) if len(S) > 1 and (judged is None or u in judged) else 0):
            keep = np.arange(len(S)) != i
            inner = system[np.ix_(keep, keep)] + ridge * np.eye(len(S) - 1)
            errors.append(R[u, S[i]] - system[i, keep] @ np.linalg.solve(inner, R[u, S[keep]]))
    return wanted, float(np.sqrt(np.mean(np.square(errors))))


def _slope_in_items(model: Any, ratings: tuple[Array, Array, Array], lam: float) -> Array:
    """The derivative in factors and biases of items of what is minimized, with half-smoothed shares of ratings."""
    rows, columns, values = ratings
    tau = {"expected": 1.0, "empirical": 0.0}.get(str(model.penalty), model.penalty)
    users, items = np.argsort(model.user_ids_), np.argsort(model.item_ids_)
    U, V = model.user_factors_[users], model.item_factors_[items]
    b, c = model.user_biases_[users], model.item_biases_[items]
    left = values - model.mean_ - b[rows] - c[columns] - (U[rows] * V[columns]).sum(1)
    n, seen = len(values), np.bincount(columns)
    level = (np.bincount(rows) / n + 1 / len(U)) / 2 @ U**2
    slope = tau * lam * ((seen + n / len(V)) / 2)[:, None] * level * V
    np.add.at(slope, columns, (1 - tau) * lam * U[rows] ** 2 * V[columns] - left[:, None] * U[rows])
    biases = model.bias_ridge * c - np.bincount(columns, left)
    return np.column_stack([slope, biases])


def _diagnosed(name: str, model: Any, pairs: tuple[Array, Array], lam: float, scale: float) -> list[Comparison]:
    """A diagnosis of three factors by half-smoothed shares p and q of the ratings of 8 users and 6 items."""
    U, V = (
        side[np.argsort(ids)]
        for side, ids in ((model.user_factors_, model.user_ids_), (model.item_factors_, model.item_ids_))
    )
    per_user, per_item = (np.bincount(ids) / len(ids) for ids in pairs)
    p, q = (per_user + 1 / 8) / 2, (per_item + 1 / 6) / 2
    units = (p @ U**2) * (q @ V**2)
    inside = np.linalg.svd(np.sqrt(p)[:, None] * (U @ V.T) * np.sqrt(q), compute_uv=False)
    flows = np.sqrt(units)
    told = diagnose(model)
    wanted = {
        "weighted_trace": inside.sum(),
        "penalty": scale * lam * units.sum(),
        "induced": lam / 3 * inside.sum() ** 2,
        "imbalance": units.sum() * 3 / inside.sum() ** 2 - 1,
        "effective_rank": inside.sum() ** 2 / np.square(inside).sum(),
        "coadaptation": flows.sum() / np.sqrt(3 * np.square(flows).sum()),
        "condition": per_user.min() * per_item.min() * len(pairs[0]) * math.sqrt(48) / math.log(8),
    }
    return [compare(getattr(told, key), "==", value, f"{key}, {name}", 1e-6) for key, value in wanted.items()]


def rows_of_completions(scale: float) -> list[Comparison]:
    """New users, spreads, diagnoses, batched solvers and rows over all cells, against their systems."""
    rows, columns, values = _rated(5, 8, 6)
    found: list[Comparison] = []
    lam = 0.6
    options: dict[str, Any] = {"sweeps": 400, "cg_steps": None, "tolerance": 0.0, "dtype": "float64"}
    drop = lam / (1 + lam)
    plain = DropoutCompletion(3, drop, biases=False, smoothing=0.0, **options)
    plain.fit((rows, columns, values))
    V = plain.item_factors_[np.argsort(plain.item_ids_)]
    counts = np.bincount(columns, minlength=6)
    level = counts @ V**2 / len(values)
    fresh = np.array([4.0, 1.5, 2.5])
    plain.partial_fit((np.array([99] * 3), np.array([0, 2, 3]), fresh))
    G = V[[0, 2, 3]]
    u = np.linalg.solve(G.T @ G + scale * lam * 3 * np.diag(level), G.T @ (fresh - plain.mean_))
    mean, spread = plain.predict([99] * 6, np.arange(6), return_std=True)
    found.append(compare(mean, "==", plain.mean_ + V @ u, "a new user"))
    found.append(compare(spread, "==", np.sqrt(lam * (np.square(u) * V**2).sum(1)), "spread over dropped factors"))
    smooth = DropoutCompletion(3, drop, smoothing=0.5, biases=False, **options).fit((rows, columns, values))
    U, V = (
        side[np.argsort(ids)]
        for side, ids in ((smooth.user_factors_, smooth.user_ids_), (smooth.item_factors_, smooth.item_ids_))
    )
    n, per_user = len(values), np.bincount(rows, minlength=8)
    q = (counts / n + 1 / 6) / 2
    for i in range(8):
        G, y = V[columns[rows == i]], values[rows == i] - smooth.mean_
        system = G.T @ G + lam * (per_user[i] + n / 8) / 2 * np.diag(q @ V**2)
        found.append(compare(system @ U[i], "==", scale * G.T @ y, f"smoothed system of user {i}", precision=1e-6))
    # factors that are not yet even
    early: dict[str, Any] = {"smoothing": 0.5, "biases": False, "sweeps": 1, "seed": 1, "dtype": "float64"}
    mixed = [DropoutCompletion(3, drop, penalty, **early).fit((rows, columns, values)) for penalty in (1.0, 0.3, 0.0)]
    for name, model in zip(("late", "early", "mixed", "empirical"), (smooth, *mixed), strict=True):
        found += _diagnosed(name, model, (rows, columns), lam, scale)
    for steps, penalty in itertools.product((None, 2, 4), ("expected", "empirical", 0.3)):
        more: dict[str, Any] = {
            "sweeps": 3,
            "cg_steps": steps,
            "tolerance": 0.0,
            "dtype": "float64",
            "penalty": penalty,
        }
        pair = [
            DropoutCompletion(3, drop, device=device, **more).fit((rows, columns, values)) for device in (None, "cpu")
        ]
        both = [model.predict(rows, columns) for model in pair]
        for name, model in zip(("compiled", "batched"), pair, strict=True):
            if steps != 2:  # exact, and conjugate gradients with a step for each of three factors and a bias
                slope = _slope_in_items(model, (rows, columns, values), scale * lam)
                found.append(compare(slope, "==", 0.0, f"systems of items, {name}, {steps} {penalty}", 1e-10))
        found.append(compare(both[0], "==", both[1], f"batched and compiled rows, {steps} {penalty}", precision=1e-8))
    return [*found, *_all_cells(scale)]


def _all_cells(scale: float) -> list[Comparison]:
    """Items at the end of a fit over all cells, and scores of rows, by the systems of both penalties."""
    found: list[Comparison] = []
    table, (rows, columns, _) = interactions(3, 9, 6, 0.4)
    alpha, rho = 0.3, 0.4 / 0.6
    kinds = itertools.product(("expected", "empirical"), ("implicit", "graded"), (None, 4))
    for penalty, feedback, steps in kinds:  # four steps of conjugate gradients solve for two factors as well
        unit = 4096 if steps else 1  # ratings of many thousands are read in another unit
        grades = np.ones(len(rows)) if feedback == "implicit" else unit * (0.5 + (rows + 2 * columns) % 4)
        kind: dict[str, Any] = {"penalty": penalty, "feedback": feedback, "sweeps": 1, "dtype": "float64"}
        cells = ImplicitDropoutCompletion(2, 0.4, alpha, cg_steps=steps, **kind)
        cells.fit((rows, columns, grades))
        users, items = np.argsort(cells.user_ids_), np.argsort(cells.item_ids_)
        U, V = cells.user_factors_[users], cells.item_factors_[items]
        x = np.zeros((9, 6))
        x[rows, columns] = grades
        sides = (table + alpha).sum(1) @ U**2, (table + alpha).sum(0) @ V**2
        label = f"{penalty}, {feedback}, {steps}"
        told = cells.scores(x[:3][:, cells.item_ids_.astype(int)])[:, items]
        systems = [(row, V, sides[1], 6) for row in x[:3]] + [(column, U, sides[0], 9) for column in x.T]
        solved = []
        for row, fixed, level, count in systems:
            mine = np.flatnonzero(row)
            system = fixed[mine].T @ fixed[mine] + alpha * fixed.T @ fixed
            own = np.diag(system) if penalty == "empirical" else (len(mine) + alpha * count) * level
            own = rho * own / (1.0 if penalty == "empirical" else table.sum() + alpha * 54)
            solved.append(np.linalg.solve(system + np.diag(own), scale * row[mine] @ fixed[mine]))
        found.append(compare(told, "==", np.array(solved[:3]) @ V.T, f"rows over all cells, {label}", precision=1e-6))
        found.append(compare(V, "==", np.array(solved[3:]), f"items over all cells, {label}", precision=1e-6))
    free = ImplicitDropoutCompletion(5, sweeps=1).fit((rows, columns, np.ones(len(rows))))
    rho = free.drop_ / (1 - free.drop_)
    return [*found, compare(rho, "==", scale * 5 / 128, "strength by default")]
