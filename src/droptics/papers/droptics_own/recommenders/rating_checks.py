"""What more claims on recommenders compare: files, ids, lists of items and steps, written out here."""

from __future__ import annotations

import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import sparse

from droptics.arrays import Array
from droptics.data import Entries
from droptics.datasets import Ratings
from droptics.evidence.claims import Comparison, compare
from droptics.files.arrays import write_arrays
from droptics.papers.droptics_own.recommenders.chosen_rate_checks import chosen_rates
from droptics.papers.droptics_own.recommenders.ranker_checks import _rated, interactions, weights_of
from droptics.papers.droptics_own.telling import refuses
from droptics.papers.instances import normal
from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutAutoencoder,
    DropoutCompletion,
    ImplicitDropoutCompletion,
    RidgeCompletion,
    hold_out_users,
    ranking,
)
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.dropout_completion import default_drop
from droptics.recommenders.ids import Lookup, as_ids
from droptics.recommenders.metrics import Mean
from droptics.recommenders.ranker import against_popularity
from droptics.recommenders.ratings import observations, triple
from droptics.recommenders.sgd import Sgd, descend, triples


def _named() -> tuple[Array, Array, Array]:
    """Ratings with ids of text."""
    rows, columns, values = _rated(5, 8, 6)
    items = [f"\N{GREEK SMALL LETTER ALPHA}{column}" for column in columns]
    return np.array([f"u{row}" for row in rows]), np.array(items), values


def saved_models(scale: float) -> list[Comparison]:
    """What a file gives back is what was saved, ratings that came later included; a fit goes on from a checkpoint."""
    found: list[Comparison] = []
    users, items, values = _named()
    pairs = np.array(["u1", "new", "new", "new"]), np.append(items[:3], "more")
    completions: list[Any] = [
        DropoutCompletion(2, 0.3, sweeps=3, seed=2, clip=True, dtype="float64"),
        DropoutCompletion(2, 0.3, penalty=0.5, sweeps=2, biases=False, dtype="float64", clip=(2.0, 3.5)),
        RidgeCompletion(3, 0.4, sweeps=2, weighted=False, dtype="float64"),
        AutoencoderCompletion("user", ridge=1.0, implicit=0.3),
        AutoencoderCompletion("item"),
    ]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.safetensors"
        for number, model in enumerate(completions):
            unit = 4096.0 if number == 2 else 1.0  # ratings of many thousands are fitted in another unit
            model.fit((users, items, unit * values))
            later = *pairs, unit * np.array([1.5, 2.5, 4.0, 3.0])
            if hasattr(model, "partial_fit"):
                model.partial_fit(later)
            model.save(path)
            again = type(model).load(path)
            asked = np.append(users, ["new", "u1", "nobody"]), np.append(items, ["more", "more", items[0]])
            both = [one.predict(*asked, unknown="ignore") for one in (again, model)]
            found.append(compare(both[0], "==", scale * both[1], f"predictions, {number}"))
            found.append(compare(np.ptp(both[1][: len(users)]), ">", 0.1, f"which differ from pair to pair, {number}"))
            found.append(compare(again.range_, "==", scale * np.array(model.range_), f"range, {number}"))
            if isinstance(model, DropoutCompletion):
                told_rate = [again.drop_, *again.predict(*asked, unknown="ignore", return_std=True)[1]]
                spread = model.predict(*asked, unknown="ignore", return_std=True)[1]
                found.append(compare(told_rate, "==", scale * np.array([0.3, *spread]), f"deviations, {number}"))
            lists = [one.recommend(["u0", "u3"], 4) for one in (again, model)]
            for mine, theirs in zip(*lists, strict=True):
                same = float((mine.items == theirs.items).all())
                found.append(compare(same, "==", 1.0, f"recommended items, {number}"))
                found.append(compare(mine.scores, "==", theirs.scores, f"their scores, {number}"))
            if hasattr(model, "entries"):
                listed = again.entries()
                others = again.user_ids_[listed.rows.numpy()] != "u1"  # who rated something twice
                told = np.sort(listed.values.numpy()[others] + again.mean_)
                given = np.sort(np.append(unit * values[users != "u1"], later[2][1:]))
                found.append(compare(told, "==", scale * given, f"ratings as given, {number}"))
                mine_, theirs_ = again.entries(biases=True), model.entries(biases=True)
                found.append(compare(mine_.values, "==", scale * theirs_.values, f"ratings, {number}"))
                places = [torch.stack([one.rows, one.columns]).double() for one in (mine_, theirs_)]
                found.append(compare(places[0], "==", places[1], f"whose they are, {number}"))
                parts = [[line.objective for line in one.history_] for one in (again, model)]
                found.append(compare(parts[0], "==", np.array(parts[1]) * scale, f"history, {number}"))
                more = [type(model).load(path).partial_fit(later), model.partial_fit(later)]
                both = [one.predict(*asked, unknown="ignore") for one in more]
                found.append(compare(both[0], "==", both[1], f"the same ratings again, {number}", precision=1e-6))
        table = users, items, values
        return [*found, *_resumed(Path(folder), table, scale), *_refused(Path(folder), table)]


def _resumed(folder: Path, table: tuple[Array, Array, Array], scale: float) -> list[Comparison]:
    """A fit that goes on from a checkpoint, and a model that was saved without its ratings."""
    kept, bare = folder / "kept.safetensors", folder / "bare.safetensors"
    options: dict[str, Any] = {"width": 2, "drop": 0.3, "seed": 1, "dtype": "float64", "tolerance": 0.0}
    options["cg_steps"] = None
    whole = DropoutCompletion(**options, sweeps=5).fit(table)
    DropoutCompletion(**options, sweeps=2, checkpoint=str(kept)).fit(table)
    rest = DropoutCompletion(**options, sweeps=3, checkpoint=str(kept)).fit(table)
    whole.save(bare, seen=False)
    left = DropoutCompletion.load(bare).predict(*table[:2])
    # other ratings of the same items, which are numbered otherwise: it begins from the factors of the same ids
    items = np.unique(table[1])
    extra: tuple[Any, ...] = ["v"] * 5 + ["w"] * 4, [*items[1:], *items[2:]], np.linspace(1.0, 4.5, 9)
    more = tuple(np.append(known, added) for known, added in zip(table, extra, strict=True))
    begun = DropoutCompletion(**{**options, "warm_start": True}, sweeps=5).fit(table).set_params(sweeps=2).fit(more)
    again = DropoutCompletion(**options, sweeps=2, checkpoint=str(kept)).fit(more)
    return [
        compare(float((again.item_ids_ == rest.item_ids_).all()), "==", 0.0, "items in another order"),
        compare(
            again.predict(more[0], more[1]),
            "==",
            scale * begun.predict(more[0], more[1]),
            "on other ratings of its items",
        ),
        compare(rest.objective_, "==", scale * whole.objective_, "resumed after two sweeps"),
        compare(left, "==", scale * whole.predict(*table[:2]), "without its ratings"),
    ]


def _refused(folder: Path, table: tuple[Array, Array, Array]) -> list[Comparison]:
    """Files of other classes, of other arrays, of none, and no file at all."""
    found: list[Comparison] = []
    models: list[Any] = [
        DropoutCompletion(1, 0.3, sweeps=1),
        RidgeCompletion(1, sweeps=1),
        AutoencoderCompletion("user", 1.0, 0.3),
        DropoutAutoencoder(0.3, 0.8),
        ImplicitDropoutCompletion(1, sweeps=1),
    ]
    paths = [folder / type(model).__name__ for model in models]
    for model, path in zip(models, paths, strict=True):
        model.fit(table).save(path)
    write_arrays(folder / "plain", {"x": np.zeros(2)}, {"facts": "{}"})
    write_arrays(folder / "odd", {"x": np.zeros(2)}, {"format": "droptics-completion-0", "facts": "{}"})
    (folder / "text").write_text("nothing of the kind", encoding="utf-8")
    for model in models:
        kind = type(model)
        for path in paths:
            words = f"holds a {path.name}, load it with {path.name}.load"
            if path.name != kind.__name__:
                found.append(refuses(lambda k=kind, p=path: k.load(p), words, f"{path.name} by {kind.__name__}"))
        for name in ("plain", "odd", "text"):
            path, words = folder / name, "is not a saved completion"
            found.append(refuses(lambda k=kind, p=path: k.load(p), words, f"{name} by {kind.__name__}"))
        path = folder / "nowhere"
        found.append(refuses(lambda k=kind, p=path: k.load(p), "no file", f"no file by {kind.__name__}"))
    return found


def saved_rankers(scale: float) -> list[Comparison]:
    """Rankers that a file gives back score, recommend and explain as before; options may be numbers of NumPy.

    What new users are recommended, too, where ratings are kept or count as the options say; an option that is changed
    after the fit changes nothing.
    """
    found: list[Comparison] = []
    users, items, values = _named()
    ridge: Any = np.float32(0.8)
    width: Any = np.int64(3)
    rankers: list[Any] = [
        DropoutAutoencoder(0.3, 0.8, "free", dtype="float64"),
        DropoutAutoencoder(rank=4, dtype="float64"),
        DropoutAutoencoder(None, 0.5, dtype="float64", choose="squared"),
        DropoutAutoencoder(0.3, ridge, threshold=2.0, feedback="graded", dtype="float64"),
        ImplicitDropoutCompletion(width, 0.3, sweeps=3, feedback="graded", dtype="float64"),
        ImplicitDropoutCompletion(3, 0.3, sweeps=3, penalty="empirical", dtype="float64"),
        ImplicitDropoutCompletion(3, sweeps=3, unobserved=0.2, dtype="float64"),
    ]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "model.safetensors"
        for number, model in enumerate(rankers):
            model.fit((users, items, 1 + np.arange(len(values)) % 3))
            if getattr(model, "rank", None) is not None:
                model.set_params(rank=2)
            model.save(path)
            again = type(model).load(path)
            other = ["later", "later", "last", "last"], items[[0, 9, 4, 13]], [1.0, 3.0, 2.0, 1.0]
            fresh = again.recommend_new(other, 3)
            for name, wanted in model.recommend_new(other, 3).items():
                found.append(compare(fresh[name].scores, "==", wanted.scores, f"a new user of ranker {number}"))
            seen = sparse.csr_matrix(np.eye(6) + np.eye(6, k=2))
            found.append(compare(again.scores(seen), "==", scale * model.scores(seen), f"scores of ranker {number}"))
            same = float((again.user_ids_ == model.user_ids_).all() and (again.item_ids_ == model.item_ids_).all())
            found.append(compare(same, "==", 1.0, f"ids of ranker {number}"))
            lists = [one.recommend(["u0", "nobody", "u5"], 3) for one in (again, model)]
            for mine, theirs in zip(*lists, strict=True):
                found.append(compare(mine.scores, "==", theirs.scores, f"lists of ranker {number}"))
                alike = np.array_equal(np.asarray(mine.items), np.asarray(theirs.items))
                found.append(compare(float(alike), "==", 1.0, f"items of ranker {number}"))
            found.append(compare(again.drop_, "==", scale * model.drop_, f"rate of ranker {number}"))
            if isinstance(model, DropoutAutoencoder):
                facts = [np.array([(p.drop, p.ridge, *p.left_out.gain) for p in one.points_]) for one in (again, model)]
                if len(model.points_):
                    found.append(compare(facts[0], "==", scale * facts[1], f"points of ranker {number}"))
                parts = [one.explain("u2", items[0]).parts for one in (again, model)]
                found.append(compare(parts[0], "==", parts[1], f"parts of a score, {number}"))
    return found


def _list_values(scores: Array, seen: Array, wanted: Array, length: int) -> dict[str, float]:
    """Metrics of one list by walking along it."""
    order = [j for j in sorted(range(len(scores)), key=lambda j: -scores[j]) if not seen[j]]
    goal = sum(1 for j in order if wanted[j])
    best = min(length, goal)
    gain = ideal = precision = 0.0
    hits = 0
    for rank, j in enumerate(order[:length], 1):
        if wanted[j]:
            hits += 1
            gain += 1 / math.log2(1 + rank)
            precision += hits / rank
    for rank in range(1, best + 1):
        ideal += 1 / math.log2(1 + rank)
    first = next(rank for rank, j in enumerate(order, 1) if wanted[j])
    return {
        "ndcg": gain / ideal,
        "recall": hits / best,
        "precision": precision / best,
        "hit": float(hits > 0),
        "mrr": 1 / first,
    }


def ranked_lists(scale: float) -> list[Comparison]:
    """Every metric of a ranking with its error, and differences of two rankings; many scores are equal."""
    found: list[Comparison] = []
    scores, other = normal(1, 7, 9).round().numpy(), normal(2, 7, 9).round().numpy()
    seen, wanted = (normal(3, 7, 9) > 0.7).numpy(), (normal(4, 7, 9) > 0.2).numpy()
    wanted[2] = False
    stored: list[Any] = [sparse.csr_matrix(np.ones((7, 9))) for _ in range(2)]  # zeros that are stored say nothing
    stored[0].data, stored[1].data = seen.ravel().astype(float), wanted.ravel().astype(float)
    told, rival = ranking(scores, seen, wanted, (4, 2, 6)), ranking(other, stored[0], stored[1], (2, 4, 6))
    users = [u for u in range(7) if (wanted[u] & ~seen[u]).any()]
    found.append(compare(told.skipped, "==", scale * (7 - len(users)), "users left out"))
    for length in (2, 4, 6):
        mine, theirs = (
            [_list_values(table[u], seen[u], wanted[u], length) for u in users] for table in (scores, other)
        )
        shown = {
            j for u in range(7) for j in [k for k in np.argsort(-scores[u], kind="stable") if not seen[u, k]][:length]
        }
        found.append(compare(told.coverage[length], "==", scale * len(shown) / 9, f"coverage at {length}"))
        for name in ("ndcg", "recall", "precision", "hit", "mrr"):
            one = told.mrr if name == "mrr" else getattr(told, name)[length]
            values, others = (np.array([part[name] for part in side]) for side in (mine, theirs))
            found.append(compare(one.value, "==", scale * values.mean(), f"{name} at {length}"))
            error = values.std(ddof=1) / math.sqrt(len(users))
            found.append(compare(one.error, "==", scale * error, f"error of {name} at {length}"))
            key = name if name == "mrr" else f"{name}@{length}"
            gap = told.above(rival, key)
            assert isinstance(gap, Mean)
            found.append(compare(gap.value, "==", (values - others).mean(), f"{key} above another"))
            spread = (values - others).std(ddof=1) / math.sqrt(len(users))
            found.append(compare(gap.error, "==", scale * spread, f"error of that for {key}"))
    return found


def _of_zeros(model: DropoutAutoencoder, full: Array, scale: float) -> Comparison:
    """A user whose items nobody knows gets the most popular ones, scored by their share of the first."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = model.recommend_new((["c"], [99], [3.0]), 7)["c"]
    counts = np.sort((full > 0).sum(0))[::-1]
    return compare(told.scores, "==", scale * counts / counts[0], "a row of zeros")


def new_users(scale: float) -> list[Comparison]:
    """What users get whom the model never saw, by their own interactions and by popularity."""
    found: list[Comparison] = []
    _, (rows, columns, _) = interactions(6, 14, 7)
    grades = 1.0 + np.arange(len(rows)) % 4
    for feedback in ("implicit", "graded"):
        model = DropoutAutoencoder(0.4, 0.6, feedback=feedback, threshold=2.0, dtype="float64", device="cpu")
        model.fit(np.stack([rows, columns], 1), grades)
        kept = grades >= 2.0
        full = np.zeros((14, 7))
        full[rows[kept], columns[kept]] = 1.0 if feedback == "implicit" else grades[kept]
        full = full[:, model.item_ids_]
        gram = full.T @ full
        gamma = 0.4 / 0.6 * np.diagonal(gram) + 0.6
        W = weights_of(gram, gamma, "zero")
        found.append(compare(model.weights(), "==", scale * W, f"weights from a threshold on, {feedback}"))
        fresh = {"a": {0: 3.0, 2: 1.0, 5: 2.0}, "b": {1: 4.0, 6: 2.0}}
        asked = [(name, item, grade) for name, rated in fresh.items() for item, grade in rated.items()]
        parts = tuple(np.array(part) for part in zip(*asked, strict=True))
        for exclude in (True, False):
            lists = model.recommend_new(parts, 3, exclude)
            for name, rated in fresh.items():
                row = np.zeros(7)
                for item, grade in rated.items():
                    if grade >= 2.0:
                        row[int(Lookup(model.item_ids_)([item])[0])] = 1.0 if feedback == "implicit" else grade
                score = row @ W
                allowed = [j for j in range(7) if not (exclude and row[j])]
                best = sorted(allowed, key=lambda j: -score[j])[:3]
                label = f"list of {name}, {feedback}, {exclude}"
                found.append(compare(lists[name].scores, "==", scale * score[best], label))
                same = lists[name].items.astype(float)
                found.append(compare(same, "==", model.item_ids_[best].astype(float), f"items of {label}"))
    found.append(_of_zeros(model, full, scale))
    split = hold_out_users((rows, columns, grades), 0.4, 0.6, seed=3)
    ranker = DropoutAutoencoder(0.3, 0.5, dtype="float64").fit(split.train)
    known, hidden = np.zeros((14, len(ranker.item_ids_))), np.zeros((14, len(ranker.item_ids_)))
    for part, into in ((split.known, known), (split.hidden, hidden)):
        place = ranker._items(part.items)
        into[part.users[place >= 0], place[place >= 0]] = 1.0
    train = np.zeros((14, len(ranker.item_ids_)))
    train[split.train.users, ranker._items(split.train.items)] = 1.0
    held = np.unique(split.known.users)
    told_both = against_popularity(ranker, split, (2, 3))
    gram = train.T @ train
    personal = known @ weights_of(gram, 0.3 / 0.7 * np.diagonal(gram) + 0.5, "zero")
    whole = sorted(zip(rows, columns, grades, strict=True))
    parted = [one for part in split for one in zip(part.users, part.items, part.values, strict=True)]
    found.append(compare(np.array(sorted(parted)), "==", np.array(whole), "every interaction is in one part"))
    found += [
        compare(len(held), "==", round(0.4 * len(np.unique(rows))), "users held out"),
        compare(np.isin(split.train.users, held), "==", 0.0, "none of them in training"),
    ]
    for u in held:
        own, shown = int((rows == u).sum()), int((split.known.users == u).sum())
        found.append(compare(shown, "==", min(max(1, round(0.6 * own)), own - 1), f"known of user {u}"))
    # users with one interaction and at least one user stay in training, one interaction of each other is hidden
    for users, out in (((0, 1, 1, 2, 2), 2), ((1, 1, 2, 2), 1)):
        edge = hold_out_users((np.array(users), np.arange(len(users)), np.ones(len(users))), 0.9, 0.95, seed=1)
        for part in (edge.known, edge.hidden):
            found.append(compare([len(part), len({*part.users} - {0})], "==", [out, out], f"held out of {users}"))
    for name, score in (("popular", np.tile(train.sum(0), (14, 1))), ("personal", personal)):
        for length in (2, 3):
            values = [
                _list_values(score[u], known[u], hidden[u], length)["recall"]
                for u in held
                if (hidden[u] * (1 - known[u])).any()
            ]
            found.append(compare(told_both[name][length], "==", scale * np.mean(values), f"recall, {name}, {length}"))
    return found


def named_ids(scale: float) -> list[Comparison]:
    """Ids of every kind are those of their text, every source holds the same ratings, rules give their rates."""
    found: list[Comparison] = []
    big = 2**63 + 5
    kinds: tuple[Any, ...] = (
        [3, 1, 7],
        np.array([3.0, 1.0, 7.0]),
        ["3", "1", "x", "-4"],
        np.array([big, 1, 7], np.uint64),
        [big, 1, 3],
        np.array([3, "x", 1], dtype=object),
        np.array([3, 1, -4], dtype=object),
        torch.tensor([1, 3]),
        [-4, 3, big],
    )
    texts = [[str(int(one) if not isinstance(one, str) else one) for one in np.asarray(kind, object)] for kind in kinds]
    for known, names in zip(kinds, texts, strict=True):
        lookup = Lookup(as_ids(known))
        for asked, questions in zip(kinds, texts, strict=True):
            wanted = [names.index(one) if one in names else -1 for one in questions]
            found.append(
                compare(scale * lookup(asked) + scale, "==", np.array(wanted) + 1.0, f"{names} in {questions}")
            )
    rows, columns, values = _rated(8, 6, 5)
    order = np.lexsort((columns, rows))
    table = sparse.coo_matrix((values, (rows, columns)), (6, 5))
    entries = Entries(torch.from_numpy(rows), torch.from_numpy(columns), torch.from_numpy(values), (6, 5))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ratings.csv"
        text = [f"{u},{i},{v!r}" for u, i, v in zip(rows.tolist(), columns.tolist(), values.tolist(), strict=True)]
        path.write_text("user,item,rating\n" + "\n".join(text), encoding="utf-8")
        for name, source in (
            ("sparse", table),
            ("entries", entries),
            ("file", path),
            ("table", Ratings(rows, columns, values)),
        ):
            told = triple(source)
            mine = np.lexsort((told[1], told[0]))
            for place, column in zip(told, (rows, columns, values), strict=True):
                found.append(compare(place[mine], "==", scale * column[order].astype(float), f"ratings as {name}"))
    for width, count in ((7, 1000), (30, 64)):
        strength = 4.8 * width * count ** (-1 / 3)
        found.append(compare(default_drop(width, count), "==", 1 - 1 / (1 + scale * strength), "rate by default"))
    return [*found, *chosen_rates(scale, rows, columns, values)]


def bias_steps(scale: float) -> list[Comparison]:
    """Stochastic steps from the same draws by autograd: batches, masks, with and without biases; what epochs tell."""
    found: list[Comparison] = []
    rows, columns, values = _rated(9, 6, 5)
    n = len(values)
    # ratings of many thousands are fitted in another unit
    for drop, batch, bias, unit in ((0.0, n, 2.0, 1.0), (0.4, 7, 2.0, 4096.0), (0.6, 1, 0.5, 1.0), (0.4, 7, None, 1.0)):
        data = observations((rows, columns, unit * values), np.float64)
        known = torch.zeros(6, 5, dtype=torch.float64)
        known[data.users(rows), data.items(columns)] = torch.from_numpy((unit * values - data.mean) / data.scale)
        i, j, _ = triples(data, torch.device("cpu"))  # the order that draws of the same seed are of
        y = known[i, j]
        once = [len(y), len(set(zip(i.tolist(), j.tolist(), strict=True)))]
        found.append(compare(once, "==", n, "every rating once"))
        lam, size = drop / (1 - drop), 0.05
        factors = normal(5, 6, 4).numpy(), normal(6, 5, 4).numpy()
        how = Sgd(epochs=2, step_size=size, drop=drop, batch=batch, seed=4)
        told, history = descend(data, factors, Strengths(3, lam, bias=bias), how)
        L, R = (torch.from_numpy(side.copy()).requires_grad_() for side in factors)
        has, ridge = float(bias is not None), (bias or 0.0) / n
        generator = torch.Generator().manual_seed(4)
        for epoch in range(2):
            for part in torch.randperm(n, generator=generator).split(batch):
                drawn = torch.rand(len(part), 3, generator=generator, dtype=torch.float64)
                z = (drawn >= drop).double() / (1 - drop)
                u, v = L[i[part]], R[j[part]]
                error = (u[:, :3] * v[:, :3] * z).sum(1) + has * (u[:, 3] + v[:, 3]) - y[part]
                pulled = ridge * (L[:, 3].square().sum() + R[:, 3].square().sum())
                slopes = torch.autograd.grad(error.square().mean() + pulled, (L, R))
                with torch.no_grad():
                    for side, slope in zip((L, R), slopes, strict=True):
                        side.sub_(scale * size * slope)
            with torch.no_grad():
                products = L[i, :3] * R[j, :3]
                error = products.sum(1) + has * (L[i, 3] + R[j, 3]) - y
                pulled = ridge * (L[:, 3].square().sum() + R[:, 3].square().sum())
                whole = error.square().mean() + lam * products.square().sum(1).mean() + pulled
            label = f"drop {drop}, batches of {batch}, ridge {bias}, epoch {epoch}"
            root = data.scale * error.square().mean().sqrt()
            found.append(compare(history[epoch].rmse, "==", root, f"error, {label}"))
            found.append(compare(history[epoch].objective, "==", data.scale**2 * whole, f"objective, {label}"))
        for name, mine, own in zip(("users", "items"), told, (L, R), strict=True):
            found.append(compare(mine, "==", own.detach(), f"{name}, drop {drop}, batches of {batch}, ridge {bias}"))
    options: dict[str, Any] = {"batch": 7, "step_size": 0.05, "bias_ridge": 0.5, "init_scale": 0.3, "seed": 4}
    model = DropoutCompletion(3, 0.4, solver="sgd", sweeps=2, dtype="float64", **options).fit((rows, columns, values))
    data = observations((rows, columns, values), np.float64)
    strengths = Strengths(3, 0.4 / 0.6, bias=0.5)
    begun = np.zeros((6, strengths.columns)), np.zeros((5, strengths.columns))
    for start, seeds in zip(begun, ([4, 1], [4]), strict=True):
        start[:, :3] = 0.3 * np.random.default_rng(seeds).standard_normal((len(start), 3))
    (left, right), history = descend(data, begun, strengths, Sgd(0.4, 2, scale * 0.05, 7, 4))
    for name, fitted, stepped in (("users", model.user_factors_, left), ("items", model.item_factors_, right)):
        found.append(compare(fitted, "==", stepped[:, :3], f"{name} of a completion by these steps"))
    epochs, same = ([(line.rmse, line.objective) for line in lines] for lines in (model.history_, history))
    return [*found, compare(epochs, "==", same, "errors and objectives of its epochs")]
