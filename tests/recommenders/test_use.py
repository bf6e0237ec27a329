"""DropoutCompletion as people use it: sources, ids, faults, recommending, folding in, saving, choosing, clusters."""

from __future__ import annotations

import gc
import os
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from droptics.bounds import completion_constant
from droptics.data import Entries
from droptics.datasets import Ratings, movielens, planted_ratings
from droptics.norms import weighted_trace
from droptics.recommenders import (
    DropoutCompletion,
    DropoutCompletionCV,
    DuplicateRatings,
    RidgeCompletion,
    UnboundedPredictions,
    UnknownIds,
    diagnose,
)
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.ids import Lookup
from droptics.recommenders.ratings import Compressed, observations
from droptics.recommenders.sweepers import Device, Threads, sweeper_for

REAL = os.environ.get("DROPTICS_DATA")


@pytest.fixture(scope="module")
def planted():
    return planted_ratings((120, 80, 2500), rank=2, noise=0.3, seed=1)


@pytest.fixture(scope="module")
def fitted(planted):
    return DropoutCompletion(5, dtype="float64").fit(planted)


def test_beats_the_biases_and_the_mean(planted):
    train, test = planted.split(0.1, seed=0)
    model = DropoutCompletion(5).fit(train)
    biases = DropoutCompletion(5, 1 - 1e-6).fit(train)
    errors = model.evaluate(test, unknown="ignore")
    assert errors.rmse < 0.9 * biases.evaluate(test, unknown="ignore").rmse < np.std(test.values)
    assert errors.mae < errors.rmse
    assert errors.count == len(test)
    assert model.score(test) == -errors.rmse


def test_all_sources_give_one_model(planted, fitted, tmp_path):
    users, items, values = planted.users, planted.items, planted.values.astype(np.float64)
    frame = pd.DataFrame({"who": users, "what": items, "stars": values})
    frame.to_csv(tmp_path / "r.csv", index=False)
    (tmp_path / "r.dat").write_text(
        "\n".join(f"{u}::{i}::{v!r}::7" for u, i, v in zip(users, items, values.tolist(), strict=True))
    )
    matrix = sparse.coo_matrix((values, (users, items)), shape=(130, 90))
    entries = Entries(
        torch.from_numpy(users).long(), torch.from_numpy(items).long(), torch.from_numpy(values), (130, 90)
    )
    sources = [frame, tmp_path / "r.csv", str(tmp_path / "r.dat"), matrix.tocsr(), entries, (users, items, values)]
    for source in sources:
        model = DropoutCompletion(5, dtype="float64").fit(source)
        assert np.array_equal(model.user_ids_, fitted.user_ids_)
        assert np.allclose(model.predict(users, items), fitted.predict(users, items), rtol=1e-9)
    pairs = np.column_stack([users, items])
    model = DropoutCompletion(5, dtype="float64").fit(pairs, values)
    assert np.array_equal(model.predict(pairs), fitted.predict(users, items))
    assert model.score(pairs, values) == fitted.score(planted)
    assert np.array_equal(model.predict(frame[["who", "what"]]), fitted.predict(users, items))


def test_ratings_on_disk_give_the_same_model(planted, fitted, tmp_path):
    path = tmp_path / "r.csv"
    path.write_text(
        "\n".join(
            f"{u},{i},{v!r}"
            for u, i, v in zip(planted.users, planted.items, planted.values.astype(float).tolist(), strict=True)
        )
    )
    data = observations(path, np.float64, memory=1, chunk=1000)
    folder = data.folder
    assert folder is not None
    assert isinstance(data.by_user.values, np.memmap)
    model = DropoutCompletion(5, dtype="float64").fit_observations(data)
    assert np.allclose(model.user_factors_, fitted.user_factors_, rtol=1e-9, atol=1e-12)
    assert folder.is_dir()
    del data, model
    gc.collect()
    assert not folder.exists()


def resident(folder):
    """Bytes of the files in a folder that are mapped into this process and in its memory."""
    found, inside = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if not line[0].isupper():  # the line of addresses and path, before those of its numbers
            inside = str(folder) in line
        elif inside and line.startswith("Rss:"):
            found += 1024 * int(line.split()[1])
    return found


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="needs Linux")
def test_ratings_on_disk_stay_out_of_memory():
    ratings = planted_ratings((300, 200, 20_000), rank=2, seed=0)
    data = observations(ratings, memory=1)
    assert resident(data.folder) == 0
    np.asarray(data.by_user.values).sum()
    assert resident(data.folder) >= 20_000 * 4  # what is read is in memory, so the measure sees it
    for engine in (Threads(1), Threads(2)):
        DropoutCompletion(2, sweeps=1, threads=engine.count).fit_observations(data)
        assert resident(data.folder) == 0


def test_text_ids_and_lookup():
    users = ["ann", "bob", "ann", "eve"]
    model = DropoutCompletion(1, 0.1).fit((users, ["x", "x", "y", "z"], [5.0, 3.0, 4.0, 1.0]))
    assert set(model.user_ids_) == {"ann", "bob", "eve"}
    assert model.predict(["ann"], ["x"]).shape == (1,)
    items, scores = model.recommend("ann", 5)
    assert list(items) == ["z"]
    assert len(scores) == 1
    lookup = Lookup(np.array([30, 10, 20]))
    assert lookup([10, 5, 30]).tolist() == [1, -1, 0]
    assert lookup(["20", "020", "x", "-7", "9" * 30]).tolist() == [2, -1, -1, -1, -1]
    assert Lookup(np.array(["7", "a"]))([7, 8]).tolist() == [0, -1]
    assert Lookup(np.empty(0, np.int64))([1]).tolist() == [-1]
    mixed = DropoutCompletion(1, 0.1).fit((np.array(["a", 3], dtype=object), [1.0, 2.0], [1.0, 2.0]))
    assert set(mixed.user_ids_) == {"a", "3"}


def test_ids_that_turn_to_text_in_a_later_chunk(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("".join(f"{u},1,{u % 5}\n" for u in range(50)) + "last,1,4\n")
    data = observations(path, chunk=100)
    assert len(data.users) == 51
    assert data.users(["last", 7]).min() >= 0


def test_unknown_ids_fall_back_and_say_so(fitted, planted):
    user, item = planted.users[0], planted.items[0]
    place_u, place_i = fitted._users([user])[0], fitted._items([item])[0]
    with pytest.warns(UnknownIds, match="2 of 3 users and 2 of 3 items are unknown"):
        found = fitted.predict([999, user, 999], [item, 999, 999])
    mean = fitted.mean_
    expected = [mean + fitted.item_biases_[place_i], mean + fitted.user_biases_[place_u], mean]
    assert np.allclose(found, expected)
    with pytest.raises(ValueError, match="1 of 1 users"):
        fitted.predict([999], [item], unknown="raise")
    with pytest.raises(ValueError, match='unknown must be "warn"'):
        fitted.predict([999], [item], unknown="maybe")
    with pytest.warns(UnknownIds):
        best = fitted.recommend(999, 3)
    assert np.array_equal(best.items, fitted.item_ids_[np.argsort(-fitted.item_biases_, kind="stable")[:3]])


def test_recommend_orders_and_leaves_out_the_seen(fitted, planted):
    user = int(planted.users[0])
    seen = set(planted.items[planted.users == user].tolist())
    best = fitted.recommend(user, 1000)
    assert set(best.items.tolist()) == set(fitted.item_ids_.tolist()) - seen
    assert np.allclose(best.scores, fitted.predict([user] * len(best.items), best.items))
    assert (np.diff(best.scores) <= 0).all()
    assert np.array_equal(fitted.recommend(user, 4).items, best.items[:4])
    everything = fitted.recommend(user, 1000, exclude_seen=False)
    assert len(everything.items) == len(fitted.item_ids_)
    several = fitted.recommend([user, int(planted.users[-1])], 3)
    assert len(several) == 2
    assert np.array_equal(several[0].items, best.items[:3])
    with pytest.raises(ValueError, match="count"):
        fitted.recommend(user, 0)


def test_clipping(planted):
    low, high = planted.values.min(), planted.values.max()
    rows, columns = np.repeat(np.arange(120), 80), np.tile(np.arange(80), 120)
    free = DropoutCompletion(5, 0.01).fit(planted)
    raw = free.predict(rows, columns, "ignore")
    assert raw.max() > high or raw.min() < low
    clipped = DropoutCompletion(5, 0.01, clip=True).fit(planted).predict(rows, columns, "ignore")
    assert np.array_equal(clipped, raw.clip(low, high))
    fixed = DropoutCompletion(5, 0.01, clip=(3.0, 4.0)).fit(planted).predict(rows, columns, "ignore")
    assert fixed.min() == 3.0
    assert fixed.max() == 4.0


def test_lists_are_ranked_before_their_scores_are_clipped(planted):
    """Otherwise all that lies beyond the range would stand in the order of the items."""
    free, fixed = (DropoutCompletion(5, 0.05, clip=clip).fit(planted) for clip in (False, (2.9, 3.0)))
    user = int(planted.users[0])
    best, same = free.recommend(user, 1000), fixed.recommend(user, 1000)
    assert best.scores[4] > 3.0  # several lie beyond
    assert np.array_equal(best.items, same.items)
    assert np.array_equal(same.scores, best.scores.clip(2.9, 3.0))


def test_duplicates_are_averaged_with_a_warning():
    with pytest.warns(DuplicateRatings, match="2 of 6 ratings repeat"):
        doubled = DropoutCompletion(1, 0.2, dtype="float64").fit(
            ([0, 0, 1, 0, 1, 2], [0, 0, 1, 0, 0, 1], [1.0, 3.0, 5.0, 2.0, 4.0, 1.0])
        )
    single = DropoutCompletion(1, 0.2, dtype="float64").fit(([0, 1, 1, 2], [0, 1, 0, 1], [2.0, 5.0, 4.0, 1.0]))
    for user, item in ((0, 0), (1, 1), (2, 1)):
        assert doubled.predict([user], [item]) == pytest.approx(single.predict([user], [item]), rel=1e-12)


def test_tiny_and_constant_inputs():
    one = DropoutCompletion(3).fit(([7], [9], [4.0]))
    assert one.predict([7], [9])[0] == 4.0
    assert one.recommend(7).items.tolist() == []
    flat = DropoutCompletion(2, 0.5).fit((np.arange(6), np.arange(6) % 2, np.full(6, 2.5)))
    assert np.allclose(flat.predict(np.arange(6), np.zeros(6, int)), 2.5)
    assert diagnose(flat).effective_rank == 0.0
    wide = DropoutCompletion(50, 0.5).fit(([0, 0, 1], [0, 1, 0], [1.0, 2.0, 3.0]))
    assert np.isfinite(wide.objective_)


@pytest.mark.parametrize("engine", [Threads(1), Threads(2), Device("cpu")])
def test_rows_without_ratings_become_zero(engine):
    table = Compressed(np.array([0, 0, 2, 2]), np.array([0, 1], np.int32), np.array([1.0, 2.0]))
    strengths = Strengths(2, expected=1.0)
    fixed, free = np.ones((2, 8)), engine.hold(np.ones((3, 8)))
    engine.solve(engine.load(table), engine.hold(fixed), free, strengths, np.array([1, 1]), 3)
    found = engine.release(free)
    assert not found[0].any()
    assert not found[2].any()
    assert found[1].any()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (([0, 1], [0, 1], [1.0, np.nan]), "1 NaN or infinite values, the first at position 1"),
        (([0], [0], [np.inf]), "must be finite"),
        (([0, 1], [0], [1.0]), "do not match"),
        (([], [], []), "at least one rating"),
        (([0.5], [0], [1.0]), "whole numbers or text"),
        ((["a"], ["b"], ["good"]), "must be numbers"),
        (np.zeros((2, 2)), "ratings must be Entries"),
        (pd.DataFrame({"a": [1], "b": [2]}), "three columns"),
        ("nowhere.csv", "no file nowhere.csv"),
        (([[0]], [0], [1.0]), "must be a vector"),
    ],
)
def test_bad_ratings_are_refused(source, message):
    with pytest.raises(ValueError, match=message):
        DropoutCompletion(2).fit(source)


def test_a_malformed_line_is_named(tmp_path):
    (tmp_path / "r.csv").write_text("user,item,rating\n1,2,3\n1,3,four\n")
    with pytest.raises(ValueError, match=r"r\.csv, line 3: rating 'four'"):
        DropoutCompletion(2).fit(tmp_path / "r.csv")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"width": 0}, "width"),
        ({"drop": 1.0}, "drop"),
        ({"drop": -0.1}, "drop"),
        ({"penalty": "none"}, "penalty must be"),
        ({"penalty": 1.5}, "penalty must be"),
        ({"solver": "adam"}, "solver must be"),
        ({"sweeps": 0}, "sweeps"),
        ({"cg_steps": 0}, "cg_steps"),
        ({"dtype": "float16"}, "dtype"),
        ({"init_scale": 0.0}, "init_scale"),
        ({"bias_ridge": -1.0}, "bias_ridge"),
        ({"threads": 0}, "threads"),
        ({"smoothing": 1.5}, "smoothing"),
        ({"clip": (5, 1)}, "clip must be"),
        ({"clip": (1, np.nan)}, "clip must be"),
        ({"clip": (1, 2, 3)}, "clip must be"),
        ({"clip": 3.0}, "clip must be"),
        ({"tolerance": np.nan}, "tolerance"),
        ({"tolerance": -1e-3}, "tolerance"),
        ({"device": "cpu", "engine": "tcp://nowhere:1"}, "exclude each other"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        DropoutCompletion(**options).fit(([0, 1], [0, 1], [1.0, 2.0]))


def test_other_refusals(fitted):
    with pytest.raises(NotFittedError, match="call fit first"):
        DropoutCompletion().predict([0], [0])
    with pytest.raises(ValueError, match="must match"):
        fitted.predict([0, 1], [0])
    with pytest.raises(ValueError, match="two columns"):
        fitted.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="strength"):
        RidgeCompletion(2, -1.0).fit(([0], [0], [1.0]))
    with pytest.raises(ArithmeticError, match="smaller step_size"):
        DropoutCompletion(2, 0.5, solver="sgd", step_size=1e6, sweeps=20).fit(planted_ratings((30, 20, 200), rank=2))


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_partial_fit_solves_the_new_row_exactly(planted, smoothing):
    model = DropoutCompletion(4, 0.5, dtype="float64", smoothing=smoothing).fit(planted)
    before = model.item_factors_.copy()
    items, values = model.item_ids_[:6], np.array([5.0, 1.0, 4.0, 2.0, 3.0, 3.5])
    model.partial_fit((np.full(6, 777), items, values))
    assert np.array_equal(model.item_factors_, before)
    counts = np.bincount(model._items(planted.items))
    shares = (1 - smoothing) * counts / counts.sum() + smoothing / len(counts)
    squares = shares @ model.item_factors_**2
    own = (1 - smoothing) * 6 + smoothing * counts.sum() / len(model.user_ids_)
    design = np.column_stack([model.item_factors_[:6], np.ones(6)])
    system = design.T @ design + np.diag([*(own * 1.0 * squares), 2.0])
    target = values - model.mean_ - model.item_biases_[:6]
    solution = np.linalg.solve(system, design.T @ target)
    row = model._users([777])[0]
    assert np.allclose([*model.user_factors_[row], model.user_biases_[row]], solution, rtol=1e-9)
    assert not set(model.recommend(777, 5).items.tolist()) & set(items.tolist())


def test_partial_fit_merges_known_users_and_adds_items(planted):
    model = DropoutCompletion(4, 0.5, dtype="float64").fit(planted)
    user = int(planted.users[0])
    seen = planted.items[planted.users == user]
    model.partial_fit(([user, user, 555], [int(seen[0]), "new", "new"], [1.0, 5.0, 4.0]))
    assert model.item_ids_.dtype.kind == "U"
    assert len(model._rated(model._users([user])[0])[0]) == len(seen) + 1
    assert model.predict([555], ["new"], "raise")[0] > model.mean_
    with pytest.warns(DuplicateRatings):
        model.partial_fit(([556, 556], [int(seen[0])] * 2, [1.0, 2.0]))
    with pytest.raises(ValueError, match="at least one rating"):
        model.partial_fit(([], [], []))
    fresh = DropoutCompletion(4, 0.5, dtype="float64").partial_fit(planted)
    assert len(fresh.user_ids_) == len(np.unique(planted.users))


def test_warm_start_continues(planted):
    cold = DropoutCompletion(4, 0.5, sweeps=3, tolerance=0.0, warm_start=True, dtype="float64").fit(planted)
    first = cold.objective_
    again = cold.fit(planted)
    assert again.history_[0].objective < first
    steady = DropoutCompletion(4, 0.5, sweeps=6, tolerance=0.0, dtype="float64").fit(planted)
    assert again.objective_ == pytest.approx(steady.objective_, rel=1e-9)
    extended = Ratings(np.append(planted.users, 999), np.append(planted.items, 999), np.append(planted.values, 4.0))
    assert len(cold.fit(extended).user_ids_) == len(np.unique(planted.users)) + 1


def test_fitted_factors_are_not_copied(planted, monkeypatch):
    """The users' are the largest array of a cluster's client."""
    taken = []
    kept = DropoutCompletion._set_sides

    def watched(model, left, right):
        taken.extend([left, right])
        kept(model, left, right)

    monkeypatch.setattr(DropoutCompletion, "_set_sides", watched)
    model = DropoutCompletion(3, sweeps=1).fit(planted)
    for found, side in zip((model.user_factors_, model.item_factors_), taken, strict=True):
        assert np.shares_memory(found, side)


def test_scikit_learn_manners(planted):
    model = DropoutCompletion(7, 0.3, penalty=0.2, clip=(1, 5))
    copy = clone(model)
    assert copy.get_params() == model.get_params()
    assert copy.set_params(width=9).width == 9
    before = torch.get_rng_state()
    model.set_params(solver="sgd", sweeps=1).fit(planted)
    assert torch.equal(before, torch.get_rng_state())
    lines = []
    DropoutCompletion(2, progress=lines.append, sweeps=3, tolerance=0.0).fit(planted)
    assert [line.sweep for line in lines] == [1, 2, 3]
    DropoutCompletion(2, progress=None, sweeps=1).fit(planted)


@pytest.mark.parametrize("text", [False, True])
def test_save_and_load(tmp_path, planted, text):
    path = tmp_path / "deep" / "model.safetensors"
    users = np.char.add("ü", planted.users.astype(str)) if text else planted.users
    table = (users, planted.items, planted.values)
    model = DropoutCompletion(4, 0.5, clip=True).fit(table)
    model.partial_fit(([users[0]], [int(planted.items[0])], [2.0]))
    model.save(path)
    assert [entry.name for entry in path.parent.iterdir()] == ["model.safetensors"]
    again = DropoutCompletion.load(path)
    assert np.array_equal(again.predict(*table[:2]), model.predict(*table[:2]))
    assert np.array_equal(again.user_ids_, model.user_ids_)
    assert np.array_equal(again.recommend(users[3], 5).items, model.recommend(users[3], 5).items)
    assert again.drop_ == pytest.approx(0.5)
    assert again.get_params()["width"] == 4
    assert again.history_ == model.history_
    for one in (model, again):
        one.partial_fit(([users[5]], ["brand new" if text else 4242], [5.0]))
    assert np.array_equal(again.user_factors_, model.user_factors_)
    model.save(path, seen=False)
    bare = DropoutCompletion.load(path)
    with pytest.raises(ValueError, match="exclude_seen=False"):
        bare.recommend(users[3])
    assert len(bare.recommend(users[3], 4, exclude_seen=False).items) == 4


def test_load_refuses_other_files(tmp_path, planted):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "owned"),)

    (tmp_path / "a.safetensors").write_bytes(pickle.dumps(Attack()))
    with pytest.raises(ValueError, match="not a saved completion"):
        DropoutCompletion.load(tmp_path / "a.safetensors")
    assert not (tmp_path / "owned").exists()
    from safetensors.numpy import save_file

    save_file({"x": np.zeros(2)}, tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match="not a saved completion"):
        DropoutCompletion.load(tmp_path / "b.safetensors")
    with pytest.raises(ValueError, match="no file"):
        DropoutCompletion.load(tmp_path / "c.safetensors")
    RidgeCompletion(2).fit(planted).save(tmp_path / "d.safetensors")
    with pytest.raises(ValueError, match=r"load it with RidgeCompletion\.load"):
        DropoutCompletion.load(tmp_path / "d.safetensors")
    assert RidgeCompletion.load(tmp_path / "d.safetensors").strength == 0.05


def test_choice_of_rate_and_width(planted):
    chooser = DropoutCompletionCV(widths=(2, 6), estimator=DropoutCompletion(dtype="float64", sweeps=30)).fit(planted)
    assert len(chooser.points_) == 16
    best = min(chooser.points_, key=lambda point: point.holdout_rmse)
    assert (chooser.best_width_, chooser.best_drop_) == (best.width, best.drop)
    assert chooser.best_estimator_.drop_ == best.drop
    assert len(chooser.best_estimator_.user_ids_) == len(np.unique(planted.users))
    for width in (2, 6):
        errors = [point.train_rmse for point in chooser.points_ if point.width == width]
        assert errors == sorted(errors, reverse=True)
    two, six = (chooser.best_points()[width].strength for width in (2, 6))
    assert 0.3 < two / six < 3.5
    assert chooser.predict(planted.users[:3], planted.items[:3]).shape == (3,)
    assert chooser.score(planted) == chooser.best_estimator_.score(planted)
    assert len(chooser.recommend(int(planted.users[0]), 3).items) == 3
    assert chooser.evaluate(planted).count == len(planted)
    assert len(chooser.plot().axes[0].lines) == 4
    given = DropoutCompletionCV(widths=3, drops=(0.2, 0.8), refit=False).fit(planted)
    assert [point.drop for point in given.points_] == [0.8, 0.2]
    assert given.best_estimator_.history_
    assert len(given.plot().axes[0].lines) == 2
    for options, message in (
        ({"widths": ()}, "at least one width"),
        ({"drops": ()}, "at least one rate"),
        ({"drops": (1.0,)}, "drops"),
    ):
        with pytest.raises(ValueError, match=message):
            DropoutCompletionCV(**options).fit(planted)


def test_the_best_model_stays_as_it_was_when_the_path_goes_on(planted):
    chooser = DropoutCompletionCV(20, (0.8, 0.01), refit=False).fit(planted)
    assert chooser.best_drop_ == 0.8  # so many factors fit noise without dropout
    _, held = planted.split(0.1, 0)
    assert chooser.evaluate(held, "ignore").rmse == chooser.best_points()[20].holdout_rmse


@pytest.mark.parametrize("smoothing", [0.0, 0.5])
def test_diagnosis_against_dense_formulas(planted, smoothing):
    options = {"dtype": "float64", "sweeps": 300, "cg_steps": None, "tolerance": 0.0, "smoothing": smoothing}
    model = DropoutCompletion(5, 0.6, **options).fit(planted)
    found = diagnose(model)
    entries = model.entries()
    p, q = (
        (1 - smoothing) * torch.bincount(side, minlength=size).double() / len(entries) + smoothing / size
        for side, size in zip((entries.rows, entries.columns), entries.shape, strict=True)
    )
    matrix = model.factorization().matrix()
    assert found.weighted_trace == pytest.approx(float(weighted_trace(matrix, p, q)), rel=1e-9)
    lam = 0.6 / 0.4
    assert found.induced == pytest.approx(lam * found.weighted_trace**2 / 5, rel=1e-9)
    assert found.penalty >= found.induced * (1 - 1e-12)
    assert found.imbalance < 1e-3
    assert found.coadaptation == pytest.approx(1.0, abs=1e-3)
    values = torch.linalg.svdvals(p.sqrt()[:, None] * matrix * q.sqrt())
    assert found.effective_rank == pytest.approx(float(values.sum() ** 2 / values.square().sum()), rel=1e-9)
    assert found.bound.vacuous
    assert not found.sampling_condition_holds
    half = (planted.values.max() - planted.values.min()) / 2
    assert found.bound.trivial == pytest.approx(np.var(planted.values) / half**2, rel=1e-4)
    assert found.bound.terms["empirical risk"] == pytest.approx((model.history_[-1].rmse / half) ** 2, rel=1e-6)
    with pytest.raises(ValueError, match="confidence"):
        diagnose(model, confidence=1.0)


@pytest.mark.parametrize("biases", [True, False])
@pytest.mark.parametrize("move", [0.0, 40.0])
def test_the_bound_of_a_diagnosis_is_that_of_the_whole_predictor(planted, biases, move):
    """Its norm is that of the dense predictions, mean and biases included, of ratings mapped to [-1, 1]."""
    values = planted.values.astype(np.float64) ** 2 + move  # whose mean is not the middle of their range
    table = Ratings(planted.users, planted.items, values)
    model = DropoutCompletion(3, 0.6, biases=biases, sweeps=2, dtype="float64").fit(table)
    found, entries, (low, high) = diagnose(model, confidence=0.9).bound, model.entries(), (values.min(), values.max())
    predicted = (
        model.mean_ + model.user_biases_[:, None] + model.item_biases_ + model.user_factors_ @ model.item_factors_.T
    )
    mapped = (predicted - (low + high) / 2) * 2 / (high - low)
    p, q = (
        0.5 * np.bincount(side.numpy(), minlength=size) / len(entries) + 0.5 / size
        for side, size in zip((entries.rows, entries.columns), entries.shape, strict=True)
    )
    norm = np.linalg.svd(np.sqrt(p)[:, None] * mapped * np.sqrt(q), compute_uv=False).sum()
    index = np.ceil(4 * np.log2(norm**2))
    failure = 0.1 / ((np.pi**2 / 3 - 1) * (1 + abs(index)) ** 2)
    (count, long), constant = (len(values), max(entries.shape)), completion_constant(entries.shape, len(values), 0.5)
    wanted = 8 * constant * np.sqrt(2 ** (index / 4) * long * np.log(long) / count)
    assert found.terms["complexity"] == pytest.approx(wanted, rel=1e-12)
    assert found.terms["confidence"] == pytest.approx(4 * np.sqrt(np.log(2 / failure) / (2 * count)), rel=1e-12)
    users, items = (
        pd.Index(ids).get_indexer(known)
        for ids, known in ((model.user_ids_, table.users), (model.item_ids_, table.items))
    )
    errors = (values - predicted[users, items]) * 2 / (high - low)
    assert found.terms["empirical risk"] == pytest.approx(np.mean(errors**2), rel=1e-10)
    assert found.trivial == pytest.approx(np.var(values) * 4 / (high - low) ** 2, rel=1e-10)


@pytest.mark.parametrize("penalty", ["expected", "empirical", 0.3])
@pytest.mark.parametrize("biases", [True, False])
def test_a_diagnosis_counts_all_of_the_dropout(planted, penalty, biases):
    """Masks drop factors at one rate, whatever share of the penalty follows the product of the shares of ratings."""
    model = DropoutCompletion(3, 0.6, penalty, biases=biases, sweeps=2, dtype="float64", smoothing=0.25).fit(planted)
    found, lam, entries = diagnose(model), 0.6 / 0.4, model.entries()
    p, q = (
        0.75 * np.bincount(side.numpy(), minlength=size) / len(entries) + 0.25 / size
        for side, size in zip((entries.rows, entries.columns), entries.shape, strict=True)
    )
    left, right = model.user_factors_, model.item_factors_
    paid = [lam * (p @ left[:, k] ** 2) * (q @ right[:, k] ** 2) for k in range(3)]
    norm = np.linalg.svd(np.sqrt(p)[:, None] * (left @ right.T) * np.sqrt(q), compute_uv=False).sum()
    # a few hundred products and sums of positive numbers, and a decomposition of matrices that are well conditioned
    assert found.penalty == pytest.approx(sum(paid), rel=1e-11)
    assert found.induced == pytest.approx(lam * norm**2 / 3, rel=1e-11)
    assert found.imbalance == pytest.approx(sum(paid) / (lam * norm**2 / 3) - 1, abs=1e-10)
    roots = np.sqrt(paid)
    assert found.coadaptation == pytest.approx(roots.sum() / np.sqrt(3 * (roots**2).sum()), rel=1e-11)


def test_a_cluster_without_dask_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(ValueError, match=r"droptics\[dask\]"):
        sweeper_for("tcp://nowhere:1", None, None, 1 << 30)


@pytest.mark.skipif(not REAL or not Path(REAL, "movielens").is_dir(), reason="DROPTICS_DATA has no MovieLens")
def test_good_out_of_the_box_on_movielens():
    train, test = movielens("ml-100k").split(0.1, seed=0)
    default = DropoutCompletion(width=30).fit(train).evaluate(test, unknown="ignore")
    assert default.rmse < 0.90
    assert DropoutCompletion(30, penalty=0.2).fit(train).evaluate(test, unknown="ignore").rmse < 0.90
    with pytest.warns(UnboundedPredictions, match="the penalty does not bound them"):
        empirical = DropoutCompletion(30, 0.5, penalty="empirical", sweeps=20).fit(train)
    assert empirical.evaluate(test, unknown="ignore").rmse > 2 * default.rmse


def test_deviation_of_a_rating_is_that_over_all_masks(planted):
    model = DropoutCompletion(width=3, drop=0.4, sweeps=3, dtype="float64").fit(planted)
    users, items = model._users.ids[[0, 5, 9]], model._items.ids[[1, 1, 7]]
    mean, spread = model.predict(users, items, return_std=True)
    left, right = model.user_factors_[[0, 5, 9]], model.item_factors_[[1, 1, 7]]
    variance = np.zeros(3)
    for kept in range(8):
        coins = np.array([kept >> k & 1 for k in range(3)])
        moved = ((coins / 0.6 - 1) * left * right).sum(1)
        variance += 0.6 ** coins.sum() * 0.4 ** (3 - coins.sum()) * moved**2
    np.testing.assert_allclose(spread**2, variance, rtol=1e-12)
    np.testing.assert_allclose(mean, model.predict(users, items))
    strange = [*users[:1], "nobody", "nobody", *users[:1]], ["nothing", *items[:1], "nothing", *items[:1]]
    assert model.predict(*strange, unknown="ignore", return_std=True)[1].tolist() == [0, 0, 0, spread[0]]
