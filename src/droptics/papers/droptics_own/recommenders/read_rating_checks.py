"""Ratings made ready for rows, ids, Gram matrices, held-out users and diagnoses, by loops over single ratings."""

from __future__ import annotations

import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from droptics.data import Entries
from droptics.datasets import Chunk, Ratings, read_chunks
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor, uniform
from droptics.recommenders import DropoutCompletion, DropoutCompletionCV, diagnose, hold_out_users, ranking
from droptics.recommenders.dropout_completion import default_drop
from droptics.recommenders.extents import Extent, unit
from droptics.recommenders.ids import Lookup, as_ids, joined, pair_columns
from droptics.recommenders.metrics import Ranking, mean_of
from droptics.recommenders.precision import Precision, _mirror
from droptics.recommenders.ratings import Compressed, DuplicateRatings, chunked, count, observations, recentered, triple

Table = tuple[Any, Any, NDArray[np.float64]]


def ratings_in_full(scale: float) -> list[Comparison]:
    """Sources, chunks, duplicates, ids, units, Gram matrices, lists, splits, diagnoses and paths."""
    return [
        *_sources(scale),
        *_ids(scale),
        *_grams(scale),
        *_lists(scale),
        *_fits(scale),
        *_paths(scale),
        *_headers(),
    ]


def _table() -> Table:
    users = np.array([3, 9, 3, 7, 9, 3, 7, 3, 9, 9, 11])
    items = np.array([1, 4, 2, 2, 1, 4, 4, 1, 5, 4, 2])
    return users, items, np.array([4.0, 2.0, 5.0, 1.0, 3.0, 2.0, 4.0, 1.0, 5.0, 5.0, 3.0])


def _pairs(table: Table) -> dict[tuple[str, str], float]:
    """Every pair once, with the mean of its ratings."""
    found: dict[tuple[str, str], list[float]] = {}
    for user, item, value in zip(*table, strict=True):
        found.setdefault((str(user), str(item)), []).append(float(value))
    return {pair: sum(values) / len(values) for pair, values in found.items()}


def _sources(scale: float) -> list[Comparison]:
    """Observations of every source: both orders hold the same pairs, numbered by activity, minus the mean."""
    found: list[Comparison] = []
    users, items, values = _table()
    lines = "\n".join(f"{u},{i},{v}" for u, i, v in zip(users, items, values, strict=True))
    seven = (users[:7], items[:7], values[:7])  # without a pair that repeats
    matrix = scipy.sparse.coo_matrix((seven[2], (seven[0], seven[1])))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.csv"
        path.write_text(f"user,item,rating\n{lines}\n", encoding="utf-8")
        chunks = [Chunk(users[:5], items[:5], values[:5], 1), Chunk(users[5:], items[5:], values[5:], 6)]
        sources: dict[str, tuple[Any, Table]] = {
            "arrays": ((users, items, values), _table()),
            "ratings": (Ratings(users, items, values), _table()),
            "text ids": ((users.astype(str), items.astype(str), values), _table()),
            "entries": (
                Entries(torch.from_numpy(users), torch.from_numpy(items), torch.from_numpy(values), (12, 6)),
                _table(),
            ),
            "chunks": (chunks, _table()),
            "sparse": (matrix, seven),
            "a file": (str(path), _table()),
        }
        for name, (source, table) in sources.items():
            for memory, piece in ((1 << 32, 1 << 24), (0, 40)):
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    data = observations(source, np.float64, memory, None, piece)
                pairs = _pairs(table)
                told = any(issubclass(one.category, DuplicateRatings) for one in caught)
                found.append(compare(float(told), "==", float(len(pairs) < len(table[2])), f"duplicates, {name}"))
                mean = sum(pairs.values()) / len(pairs)
                found.append(compare(data.mean, "==", scale * mean, f"mean, {name}, {memory}"))
                found.append(
                    compare([data.low, data.high], "==", [table[2].min() * scale, table[2].max() * scale], "range")
                )
                found.append(compare(data.count, "==", scale * len(pairs), f"count, {name}"))
                found.append(compare(float(data.folder is not None), "==", float(memory == 0), f"on disk, {name}"))
                by_user = _listed(data.by_user, data.users, data.items)
                by_item = {(u, i): v for (i, u), v in _listed(data.by_item, data.items, data.users).items()}
                for order, kept in (("users", by_user), ("items", by_item)):
                    same = float(kept.keys() == pairs.keys())
                    found.append(compare(same, "==", 1.0, f"pairs by {order}, {name}, {memory}"))
                    if same:
                        off = [kept[pair] - (value - mean) for pair, value in pairs.items()]
                        found.append(compare(off, "==", 0.0, f"values by {order}, {name}, {memory}", 1e-12))
                raw = [table[0].astype(str).tolist().count(str(one)) for one in data.users.ids]
                found.append(compare(np.diff(raw), "<=", 0.0, f"most active first, {name}"))
        parts = list(chunked(str(path), 40)())
        found.append(compare(len(parts), ">", 1.0, "a file comes in pieces"))
        counted = count(iter(parts))
        found.append(compare(counted[0][1], "==", tensor([4.0, 2, 4, 1]) * scale, "ratings of users"))
        found.append(compare(counted[1][1], "==", tensor([3.0, 3, 4, 1]) * scale, "and of items"))
        found.append(compare(counted[2].mean(11), "==", scale * values.mean(), "mean of pieces"))
    fixed = observations(seven, np.float64, mean=1.0)
    found.append(compare(fixed.mean, "==", scale, "a given mean"))
    packed = Compressed(np.array([0, 4, 5, 9, 10]), np.zeros(10, np.int32), np.zeros(10))
    found.append(compare(np.array(packed.blocks(2)), "==", scale * np.array([[0, 2], [2, 4]]), "blocks of rows"))
    found.append(compare(packed.counts, "==", tensor([4.0, 1, 4, 1]) * scale, "counts of rows"))
    numbers = normal(1, 9).numpy().copy()
    shift = recentered(moved := numbers.copy())
    found.append(compare([shift, *moved], "==", [scale * numbers.mean(), *(numbers - numbers.mean())], "recentered"))
    frame = triple(scipy.sparse.csr_matrix(matrix))
    found.append(compare(np.sort(frame[2]), "==", scale * np.sort(seven[2]), "three arrays"))
    return found


def _listed(table: Compressed, rows: Lookup, columns: Lookup) -> dict[tuple[str, str], float]:
    return {
        (str(rows.ids[row]), str(columns.ids[table.columns[k]])): float(table.values[k])
        for row in range(table.rows)
        for k in range(int(table.starts[row]), int(table.starts[row + 1]))
    }


def _ids(scale: float) -> list[Comparison]:
    """Ids of every kind find each other as text; units and extents of ratings."""
    found: list[Comparison] = []
    known: tuple[Any, ...] = (
        [5, -3, 7],
        ["b", "5", "-3"],
        [2**63 + 5, 5, 1],
        np.array([5.0, 2.0]),
        torch.tensor([9, 5]),
        [2**64 + 1, 5],
        np.array(["x", 5], dtype=object),
    )
    asked: tuple[Any, ...] = ([5, -3, 8], ["5", "-3", "b", "05", "x"], [2**63 + 5, 5], [2**64 + 1], 5, [-1, 5])
    for k, ids in enumerate(known):
        kept = as_ids(ids)
        lookup = Lookup(kept)
        texts = [str(int(one)) if not isinstance(one, str) else one for one in np.asarray(kept).tolist()]
        for j, question in enumerate(asked):
            words = [str(one) for one in np.asarray(as_ids(question)).tolist()]
            wanted = [texts.index(word) if word in texts else -1 for word in words]
            found.append(compare(lookup(question) + 1, "==", scale * (np.array(wanted) + 1.0), f"ids, {k}, {j}"))
        found.append(compare(len(lookup), "==", scale * len(texts), f"how many, {k}"))
    both = joined([as_ids([1, 2]), as_ids([2**63 + 1])])
    mixed = joined([as_ids([1, -2]), as_ids([2**63 + 1])])
    found.append(
        compare(float(both.dtype == np.uint64) + float(mixed.dtype.kind == "U"), "==", 2 * scale, "joined ids")
    )
    left, right = pair_columns(np.array([[1, 2], [3, 4], [5, 6]]))
    found.append(compare(np.concatenate([left, right]), "==", tensor([1.0, 3, 5, 2, 4, 6]) * scale, "pairs"))
    found.append(compare(Lookup(as_ids([]))([1, 2]), "==", -1.0, "no ids"))
    extent = Extent()
    parts = [np.array([3.0, 5.0]), np.empty(0), np.array([1.0, 10.0, 2.0])]
    for part in parts:
        extent = extent.with_chunk(part)
    whole = np.concatenate(parts)
    found.append(
        compare([extent.low, extent.high, extent.mean(5)], "==", [scale, 10 * scale, scale * whole.mean()], "extent")
    )
    units = {1024.0: 1.0, 1025.0: 1024.0, 1500.0: 2048.0, 2.0**-10: 1.0, 2.0**-11: 2.0**-11, 0.0: 1.0}
    for high, size in units.items():
        told = unit(Extent(0.0, high, 0.0, 0.0), 0.0, np.float32)
        found.append(compare(told, "==", scale * size, f"unit, {high}", 1e-12, 0.0))
    return found


def _grams(scale: float) -> list[Comparison]:
    """Gram matrices that grow and shrink, their inverses, products and rows."""
    found: list[Comparison] = []
    for kind, precision in ((np.float64, 1e-10), (np.float32, 1e-4)):
        X = (uniform(1, 9, 5) < 0.6).double().numpy() * normal(2, 9, 5).numpy()
        held = Precision(3, kind)
        first = _compressed(X[:6, :3])
        held.add(first)
        held.grow(5)
        held.add(_compressed(X[6:]))
        held.add(_compressed(X[6:7]), -1.0)
        found.append(same(held.array.dtype, np.dtype(kind), f"more items in the same precision, {kind.__name__}"))
        wide = np.concatenate([np.pad(X[:6, :3], ((0, 0), (0, 2))), X[7:]])
        gram = wide.T @ wide
        found.append(compare(held.gram(), "==", scale * gram, f"Gram matrix, {kind.__name__}", precision))
        found.append(compare(held.diagonal, "==", scale * gram.diagonal(), f"its diagonal, {kind.__name__}", precision))
        gamma = uniform(3, 5).numpy() + 0.5
        held.factorize(gamma)
        C = np.linalg.inv(gram + np.diag(gamma))
        rows = normal(4, 3, 5).numpy()
        found.append(compare(held.variances, "==", scale * C.diagonal(), f"variances, {kind.__name__}", precision))
        found.append(compare(held.times(rows), "==", scale * rows @ C, f"products, {kind.__name__}", precision))
        found.append(
            compare(held.rows(np.array([4, 0, 2])), "==", scale * C[[4, 0, 2]], f"rows, {kind.__name__}", precision)
        )
        found.append(compare(held.gram(), "==", scale * gram, f"the Gram matrix stays, {kind.__name__}", precision))
        again = Precision.of(held.array, held.diagonal)
        found.append(compare(again.times(rows), "==", scale * rows @ C, f"kept, {kind.__name__}", precision))
    square = normal(5, 1100, 1100)
    upper, diagonal = square.triu(1), normal(6, 1100)
    wanted = upper + upper.mT + torch.diag(diagonal)
    _mirror(square, diagonal)
    found.append(compare(square, "==", scale * wanted, "mirrored tile by tile"))
    return found


def _compressed(rows: NDArray[np.float64]) -> Compressed:
    starts = np.concatenate([[0], np.cumsum((rows != 0).sum(1))]).astype(np.int64)
    columns = np.concatenate([np.flatnonzero(row) for row in rows]).astype(np.int32)
    return Compressed(starts, columns, np.concatenate([row[row != 0] for row in rows]))


def _lists(scale: float) -> list[Comparison]:
    """Ranked lists user by user, and users that are held out whole."""
    found: list[Comparison] = []
    scores = np.round(2 * normal(1, 7, 9).numpy()) / 2
    seen, relevant = (uniform(2, 7, 9) < 0.2).numpy(), (uniform(3, 7, 9) < 0.3).numpy()
    relevant[2] = False
    told = ranking(scores, seen, relevant, at=(5, 2))
    found.append(_named_twice(scores, seen, relevant, told))
    rows: list[dict[str, float]] = []
    shown: dict[int, set[int]] = {2: set(), 5: set()}
    for user in range(7):
        order = sorted((j for j in range(9) if not seen[user, j]), key=lambda j, user=user: (-scores[user, j], j))  # type: ignore[misc]
        wanted = [j for j in order if relevant[user, j]]
        for k in (2, 5):
            shown[k].update(order[:k])
        if not wanted:
            continue
        row = {"mrr": 1 / (1 + min(order.index(j) for j in wanted))}
        for k in (2, 5):
            hits = [rank for rank, j in enumerate(order[:k], 1) if j in wanted]
            most = min(k, len(wanted))
            row[f"ndcg@{k}"] = sum(1 / math.log2(1 + r) for r in hits) / sum(
                1 / math.log2(1 + r) for r in range(1, most + 1)
            )
            row[f"recall@{k}"] = len(hits) / most
            row[f"precision@{k}"] = sum(n / r for n, r in enumerate(hits, 1)) / most
            row[f"hit@{k}"] = float(bool(hits))
        rows.append(row)
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        found.append(compare(told.users[name], "==", scale * values, f"lists, {name}"))
        kind, _, length = name.partition("@")
        mean = told.mrr if kind == "mrr" else getattr(told, kind)[int(length)]
        found.append(compare(mean.value, "==", scale * values.mean(), f"mean, {name}"))
        found.append(compare(mean.error, "==", scale * values.std(ddof=1) / len(values) ** 0.5, f"error, {name}"))
    for k in (2, 5):
        found.append(compare(told.coverage[k], "==", scale * len(shown[k]) / 9, f"coverage, {k}"))
    found.append(compare(told.skipped, "==", scale * (7 - len(rows)), "skipped"))
    other = ranking(-scores, seen, relevant, at=(5, 2))
    apart = told.users["ndcg@2"] - other.users["ndcg@2"]
    found.append(compare(told.above(other, "ndcg@2").value, "==", apart.mean(), "difference"))
    found.append(compare(told.above(other, "ndcg@2").error, "==", scale * mean_of(apart).error, "its error"))
    users = np.repeat(np.arange(10), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    table = Ratings(users, np.arange(55) % 13, np.arange(55.0))
    for share, known in ((0.3, 0.8), (0.01, 0.5), (0.95, 0.9)):
        split = hold_out_users(table, share, known, seed=4)
        held = np.unique(split.known.users)
        number = min(max(1, round(share * 10)), 9)
        found.append(compare(len(held), "==", scale * number, f"held out, {share}"))
        found.append(compare(np.intersect1d(held, split.train.users).size, "==", 0.0, f"apart, {share}"))
        whole = np.sort(np.concatenate([part.values for part in split]))
        found.append(compare(whole, "==", scale * np.arange(55.0), f"every rating once, {share}"))
        for user in held:
            size = user + 1
            kept = int(min(max(np.round(known * size), 1), size - 1))
            found.append(compare((split.known.users == user).sum(), "==", scale * kept, f"known of {user}, {share}"))
            found.append(compare((split.hidden.users == user).sum(), "==", scale * (size - kept), f"hidden of {user}"))
    pairs = hold_out_users((np.repeat(np.arange(5), 2), np.arange(10), np.arange(10.0)), 0.99)
    found.append(compare(len(set(pairs.train.users)), "==", scale, "one user stays to train on"))
    return found + _drawn_users(table, scale)


def _named_twice(scores: Any, seen: Any, relevant: Any, told: Ranking) -> Comparison:
    """Sparse tables with every entry twice, zeros among them, say the same and stay as they are."""
    tables = []
    for table in (seen, relevant):
        rows, columns = np.indices(table.shape).reshape(2, -1)
        order = np.repeat(np.lexsort((columns, rows)), 2)
        starts = 2 * table.shape[1] * np.arange(len(table) + 1)
        tables.append(scipy.sparse.csr_matrix((table.ravel()[order] * 1.0, columns[order], starts), table.shape))
    again = ranking(scores, tables[0], tables[1], at=(5, 2))
    alike = all(np.array_equal(again.users[name], values) for name, values in told.users.items())
    return same(alike and all(table.nnz == 2 * 63 for table in tables), True, "entries named twice")


def _drawn_users(table: Ratings, scale: float) -> list[Comparison]:
    """Each user with several ratings, and each rating of a held-out user, as often as any other, by the seed."""
    held, known, seeds = np.zeros(10), np.zeros(55), 200
    for seed in range(seeds):
        held[np.unique(hold_out_users(table, 0.3, 0.8, seed=seed).known.users)] += 1 / seeds
        # nine of ten users: all who have two ratings; of the last one's ten ratings eight are known
        known[hold_out_users(table, 0.95, 0.8, seed=seed).known.values.astype(int)] += 1 / seeds
    again = [hold_out_users(table, 0.3, 0.8, seed=7).known.values for _ in range(2)]
    five = 5 / seeds**0.5  # standard errors
    return [
        compare(held, "==", scale * np.array([0.0] + [1 / 3] * 9), "users held out", precision=five * 2**0.5 / 3),
        compare(known[45:], "==", scale * 0.8, "ratings known", precision=five * 0.4),
        compare(again[0], "==", scale * again[1], "the same seed"),
    ]


def _rated() -> Table:
    """70 ratings of 12 users and 9 items."""
    rng = np.random.default_rng(3)
    rows, columns = np.divmod(rng.permutation(12 * 9)[:70], 9)
    return rows, columns, np.clip(np.round(3 + rng.normal(size=70)), 1, 5)


def _fits(scale: float) -> list[Comparison]:
    """Diagnoses of a fitted model by its arrays."""
    found: list[Comparison] = []
    rows, columns, values = _rated()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # of both penalties; between smoothing by a tenth and by half, as the bound has it, lies a point of its grid
        model = DropoutCompletion(3, 0.3, penalty=0.4, smoothing=0.1, seed=1, sweeps=6, dtype="float64")
        model.fit((rows, columns, values))
        told = diagnose(model, 0.9)
        p, q = (np.bincount(part, minlength=size) / 70 for part, size in ((rows, 12), (columns, 9)))
        p, q = 0.9 * p + 0.1 / 12, 0.9 * q + 0.1 / 9
        users, items = (
            np.array([np.flatnonzero(ids == k)[0] for k in range(size)])
            for ids, size in ((model.user_ids_, 12), (model.item_ids_, 9))
        )
        U, V = model.user_factors_[users], model.item_factors_[items]
        spectrum = np.linalg.svd(np.sqrt(p)[:, None] * (U @ V.T) * np.sqrt(q), compute_uv=False)
        lam, trace = 0.3 / 0.7, spectrum.sum()
        units = (p @ U**2) * (q @ V**2)
        penalty, induced = lam * units.sum(), lam / 3 * trace**2
        flows = np.sqrt(units)
        numbers: dict[str, tuple[float, float]] = {
            "trace norm": (told.weighted_trace, trace),
            "penalty": (told.penalty, penalty),
            "induced": (told.induced, induced),
            "imbalance": (told.imbalance, penalty / induced - 1),
            "rank": (told.effective_rank, trace**2 / (spectrum**2).sum()),
            "evenness": (told.coadaptation, flows.sum() / math.sqrt(3) / math.sqrt((flows**2).sum())),
        }
        plain = [np.bincount(part, minlength=size) / 70 for part, size in ((rows, 12), (columns, 9))]
        numbers["condition"] = told.condition, plain[0].min() * plain[1].min() * 70 * math.sqrt(12 * 9) / math.log(12)
        low, high = values.min(), values.max()
        half = (high - low) / 2
        whole = U @ V.T + model.mean_ + model.user_biases_[users][:, None] + model.item_biases_[items]
        P, Q = (0.5 * part + 0.5 / len(part) for part in plain)
        size = np.linalg.svd(
            np.sqrt(P)[:, None] * (whole - (low + high) / 2) / half * np.sqrt(Q), compute_uv=False
        ).sum()
        index = math.ceil(4 * math.log2(size**2) - 1e-12)
        failure = 0.1 / ((math.pi**2 / 3 - 1) * (1 + abs(index)) ** 2)
        risk = ((whole[rows, columns] - values) ** 2).mean() / half**2
        trivial = ((values - values.mean()) ** 2).mean() / half**2
        ratio = math.log(12 + 9) / math.log(12)
        constant = math.sqrt(2 * ratio) / 0.5 + ratio * math.sqrt(9 * math.log(12) / 70) / (3 * 0.5)
        complexity = 8 * constant * math.sqrt(2 ** (index / 4) * 12 * math.log(12) / 70)
        bound = risk + complexity + 4 * math.sqrt(math.log(2 / failure) / (2 * 70))
        numbers["bound"] = told.bound.value, bound
        numbers["trivial bound"] = told.bound.trivial, trivial
        for name, (mine, wanted) in numbers.items():
            found.append(compare(mine, "==", scale * wanted, name, 1e-8))
        found.append(
            compare(float(told.sampling_condition_holds), "==", float(numbers["condition"][1] >= 1), "sampling")
        )
    return found


def _paths(scale: float) -> list[Comparison]:
    """Every point of a path of rates by its own fit."""
    found: list[Comparison] = []
    rows, columns, values = _rated()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        template = DropoutCompletion(seed=2, sweeps=4, dtype="float64")
        choice = DropoutCompletionCV((2, 3), estimator=template, holdout=0.2, seed=5, refit=False).fit(
            (rows, columns, values)
        )
        table = Ratings(rows, columns, values)
        train, held = table.split(0.2, 5)
        base = default_drop(2, len(train))
        odds = base / (1 - base)
        multiples = (4.0, 2.8, 2.0, 1.4, 1.0, 0.7, 0.5, 0.35)
        found.append(compare(odds, "==", scale * 4.8 * 2 / len(train) ** (1 / 3), "default strength"))
        wide = default_drop(7, 1000)
        found.append(compare(wide / (1 - wide), "==", scale * 4.8 * 7 / 10, "default strength of seven units"))
        drops = [point.drop for point in choice.points_[:8]]
        found.append(compare([d / (1 - d) for d in drops], "==", scale * odds * np.array(multiples), "along the path"))
        found.append(
            compare(
                [point.strength * point.width for point in choice.points_],
                "==",
                [point.drop / (1 - point.drop) for point in choice.points_],
                "strengths",
            )
        )
        for width in (2, 3):
            model = DropoutCompletion(width, seed=2, sweeps=4, dtype="float64", warm_start=True)
            for point in (one for one in choice.points_ if one.width == width):
                model.set_params(drop=point.drop).fit(train)
                # the same sums of ratings in another order, over four sweeps of each of eight fits
                errors = {"held-out": point.holdout_rmse, "training": point.train_rmse}
                off = model.predict(held.users, held.items, "ignore") - held.values
                own = math.sqrt((off**2).mean()), model.history_[-1].rmse
                seen = model.evaluate(held, unknown="ignore")
                found.append(compare([seen.rmse, seen.mae], "==", [own[0], abs(off).mean()], "errors of one fit"))
                for (name, error), rmse in zip(errors.items(), own, strict=True):
                    label = f"{name} error, width {width}, drop {point.drop:.3f}"
                    found.append(compare(error, "==", scale * rmse, label))
        best = min(choice.points_, key=lambda point: point.holdout_rmse)
        found.append(
            compare([choice.best_width_, choice.best_drop_], "==", [scale * best.width, scale * best.drop], "the best")
        )
        found.append(
            compare(
                choice.evaluate(held, unknown="ignore").rmse, "==", scale * best.holdout_rmse, "kept without a refit"
            )
        )
        tops = choice.best_points()
        for width in (2, 3):
            least = min(point.holdout_rmse for point in choice.points_ if point.width == width)
            found.append(compare(tops[width].holdout_rmse, "==", scale * least, f"best of width {width}"))
        early = DropoutCompletionCV(3, (0.6, 0.01), estimator=template, holdout=0.2, seed=5, refit=False).fit(table)
        found.append(compare(early.best_drop_, "==", scale * 0.6, "the best is not the last"))
        alone = DropoutCompletion(3, 0.6, seed=2, sweeps=4, dtype="float64").fit(train)
        told, wanted = (one.predict(held.users, held.items, "ignore") for one in (early, alone))
        found.append(compare(told, "==", scale * wanted, "kept while the path goes on"))
    return found


def _headers() -> list[Comparison]:
    """Which lines are headers, which columns are meant, and which ids are numbers: a table of cases."""
    found: list[Comparison] = []
    cases: tuple[tuple[str, str, Any, list[tuple[str, str, float]] | None], ...] = (
        ("plain", "1,2,3\n4,5,1\n", None, [("1", "2", 3.0), ("4", "5", 1.0)]),
        ("header", "rating,user,item\n3,1,2\n", None, [("1", "2", 3.0)]),
        ("signs", "User-ID;MOVIE id;Stars\n1;2;3\n", None, [("1", "2", 3.0)]),
        ("unnamed", ",user,item,rating\n0,1,2,3\n", None, [("1", "2", 3.0)]),
        ("several", "user,uid,item,rating\n1,2,3,4\n", None, None),
        ("none", "user,thing,rating\n1,2,3\n", None, None),
        ("a number among words", "user,item,5\n1,2,3\n", None, [("user", "item", 5.0), ("1", "2", 3.0)]),
        ("asked names", "a,b,c,d\n1,2,3,4\n", ("d", "a", "c"), [("4", "1", 3.0)]),
        ("asked places", "1 2 3 4\n", (3, 0, 1), [("4", "1", 2.0)]),
        ("asked places, header", "a b c d\n1 2 3 4\n", (3, 0, 1), [("4", "1", 2.0)]),
        ("asked name that is not there", "a,b,c\n1,2,3\n", ("a", "b", "x"), None),
        ("beyond", "1,2,3\n", (0, 1, 3), None),
        ("negative", "1,2,3\n", (0, 1, -1), None),
        ("colons", "1::2::3::9\n4::5::2::9\n", None, [("1", "2", 3.0), ("4", "5", 2.0)]),
        ("tabs and returns", "1\t2\t3\r\n4\t5\t2\r\n", None, [("1", "2", 3.0), ("4", "5", 2.0)]),
        ("zeros in front", "007,2,3\n", None, [("007", "2", 3.0)]),
        ("negative ids", "-12,2,3\n-7,100,4\n", None, [("-12", "2", 3.0), ("-7", "100", 4.0)]),
        ("powers", "1,2,3e0\n", None, [("1", "2", 3.0)]),
        ("text", '"a,b",2,3\nc,4,5\n', None, [("a,b", "2", 3.0), ("c", "4", 5.0)]),
        ("blank lines", "\n\n1,2,3\n\n4,5,6\n", None, [("1", "2", 3.0), ("4", "5", 6.0)]),
        ("a short line", "1,2,3\n4,5\n", None, None),
        ("short and long", "1,2,3\n4,5\n6,7,8,9\n", None, None),
        ("not a number", "1,2,3\n4,5,x\n", None, None),
        ("infinite", "1,2,inf\n", None, None),
        ("no id", "1,2,3\n,5,4\n", None, None),
        ("underscores", "1,2,1_0\n", None, None),
        ("only a header", "user,item,rating\n", None, None),
        ("large ids", "9007199254740993,2,3\n", None, [("9007199254740993", "2", 3.0)]),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        for name, text, columns, wanted in cases:
            path.write_bytes(text.encode())
            for size in (1 << 20, 7):
                try:
                    chunks = list(read_chunks(path, columns, size))
                    told = [
                        (str(u), str(i), float(v))
                        for part in chunks
                        for u, i, v in zip(part.users, part.items, part.values, strict=True)
                    ]
                except ValueError:
                    told = None
                found.append(compare(float(told == wanted), "==", 1.0, f"{name}, {size}: {told}"))
    return found
