"""Completion on a Dask cluster against one machine: files read by the workers, users in partitions, a worker killed."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from systems import posix

from droptics.datasets import Ratings, planted_ratings
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, DuplicateRatings, RidgeCompletion
from droptics.recommenders.columns import apply_columns, start_columns

distributed = pytest.importorskip("distributed", reason="dask is optional")
# Sums over users are taken in another order: 1,500 terms, twelve sweeps of contractions; 1e-6 is what is promised.
TOLERANCE = {"rtol": 1e-9, "atol": 1e-9}
OPTIONS = {"dtype": "float64", "sweeps": 6}


def write(folder, ratings: Ratings, parts: int = 3):
    """A folder of Parquet files, each user's ratings in one of them."""
    folder.mkdir()
    for part in range(parts):
        mine = ratings.take(np.flatnonzero(ratings.users % parts == part))
        table = pa.table({"user": mine.users, "item": mine.items, "rating": mine.values})
        pq.write_table(table, folder / f"{part}.parquet")
    return folder


@pytest.fixture(scope="module")
def ratings() -> Ratings:
    return planted_ratings((150, 40, 1500), rank=3, noise=0.5, seed=0)


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as made:
        yield made


def same(there, here):
    assert np.array_equal(there.user_ids_, here.user_ids_)
    assert np.array_equal(there.item_ids_, here.item_ids_)
    for name in ("user_factors_", "item_factors_", "user_biases_", "item_biases_", "mean_"):
        np.testing.assert_allclose(getattr(there, name), getattr(here, name), **TOLERANCE)
    found, expected = ([(line.objective, line.rmse) for line in one.history_] for one in (there, here))
    np.testing.assert_allclose(found, expected, **TOLERANCE)


@pytest.mark.parametrize(
    "model",
    [
        DropoutCompletion(4, 0.5, **OPTIONS),
        DropoutCompletion(4, 0.5, 0.3, smoothing=0.0, **OPTIONS),
        DropoutCompletion(4, 0.5, biases=False, center=False, cg_steps=None, **OPTIONS),
        RidgeCompletion(4, 0.05, **OPTIONS),
    ],
    ids=["expected", "mixed", "exact", "als-wr"],
)
def test_workers_that_read_give_the_model_of_one_machine(client, ratings, tmp_path, model):
    folder = write(tmp_path / "ratings", ratings)
    here = model.fit(folder)
    there = type(model)(**{**model.get_params(), "engine": client}).fit(folder)
    same(there, here)
    assert np.allclose(there.predict([3], [5]), here.predict([3], [5]))
    with pytest.raises(ValueError, match="fitted by a cluster"):
        there.recommend(3)
    assert len(there.recommend(3, 4, exclude_seen=False).items) == 4


@pytest.mark.parametrize("workers", [1, 3])
def test_the_number_of_workers_changes_nothing(ratings, tmp_path, workers):
    folder = write(tmp_path / "ratings", ratings, 5)
    options = {"n_workers": workers, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as made:
        there = DropoutCompletion(4, 0.5, engine=made, **OPTIONS).fit(folder)
    same(there, DropoutCompletion(4, 0.5, **OPTIONS).fit(folder))


def test_ratings_that_are_here_are_sent_once(client, ratings):
    here = DropoutCompletion(4, 0.5, **OPTIONS).fit(ratings)
    there = DropoutCompletion(4, 0.5, engine=client.scheduler.address, **OPTIONS).fit(ratings)
    same(there, here)
    assert np.array_equal(there.recommend(3).items, here.recommend(3).items)
    more = DropoutCompletion(4, 0.5, warm_start=True, **OPTIONS).fit(ratings)
    warm = DropoutCompletion(4, 0.5, engine=client, warm_start=True, **OPTIONS).fit(ratings)
    same(warm.fit(ratings), more.fit(ratings))


@pytest.mark.parametrize("unit", [1.0, 4096.0])
def test_pairs_that_repeat_are_averaged(client, ratings, tmp_path, unit):
    """Ratings of many thousands are fitted in another unit."""
    again = np.arange(0, len(ratings), 7)
    order = np.concatenate([np.arange(len(ratings)), again])
    values = unit * np.concatenate([ratings.values, 5.0 - ratings.values[again]])
    folder = write(tmp_path / "ratings", Ratings(ratings.users[order], ratings.items[order], values))
    with pytest.warns(DuplicateRatings):
        here = DropoutCompletion(4, 0.5, **OPTIONS).fit(folder)
    with pytest.warns(DuplicateRatings):
        there = DropoutCompletion(4, 0.5, engine=client, **OPTIONS).fit(folder)
    same(there, here)


def test_users_of_a_file_of_numbers_stand_among_those_of_a_file_of_names(client, ratings, tmp_path):
    """Numbers are sorted by their text then: "10" comes before "9" where both rated as much."""
    folder, parts = tmp_path / "ratings", []
    folder.mkdir()
    for part, named in enumerate((False, True)):
        mine = ratings.take(np.flatnonzero((ratings.users % 5 == 0) == named))
        users = np.char.add("u", mine.users.astype(str)) if named else mine.users
        values = mine.values + 3.0 * named  # files differ in their means
        pq.write_table(pa.table({"user": users, "item": mine.items, "rating": values}), folder / f"{part}.parquet")
        parts.append((users.astype(str), mine.items, values))
    here = DropoutCompletion(4, 0.5, **OPTIONS).fit(tuple(map(np.concatenate, zip(*parts, strict=True))))
    there = DropoutCompletion(4, 0.5, engine=client, **OPTIONS).fit(folder)
    same(there, here)
    kinds = {"threshold": 3.0, "feedback": "graded", "dtype": "float64"}
    mine, others = (DropoutAutoencoder(0.3, 2.0, engine=engine, **kinds).fit(folder) for engine in (None, client))
    order = [np.argsort(one.item_ids_) for one in (mine, others)]
    weights = [one.weights()[np.ix_(at, at)] for one, at in zip((mine, others), order, strict=True)]
    np.testing.assert_allclose(*weights, **TOLERANCE)


def test_files_that_do_not_fit_are_refused(client, ratings, tmp_path):
    folder = write(tmp_path / "ratings", ratings)
    (folder / "more").mkdir()
    os.link(folder / "0.parquet", folder / "more" / "again.parquet")
    with pytest.raises(ValueError, match="more than one file"):
        DropoutCompletion(4, engine=client).fit(folder)
    (tmp_path / "empty").mkdir()
    for engine in (None, client):
        with pytest.raises(ValueError, match="no Parquet file in"):
            DropoutCompletion(4, engine=engine).fit(tmp_path / "empty")
    with pytest.raises(ValueError, match='solver="sgd" takes no engine'):
        DropoutCompletion(4, solver="sgd", engine=client).fit(folder / "0.parquet")
    for no_client in (3, SimpleNamespace(submit=print)):
        with pytest.raises(ValueError, match="engine must be the address"):
            DropoutCompletion(4, engine=no_client).fit(ratings)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"threshold": 3.5},
        {"drop": 0.4, "ridge": 3.0, "feedback": "graded"},
        {"drop": 0.4, "ridge": 3e7, "threshold": 3.5 * 4096, "feedback": "graded"},
    ],
    ids=["all", "some", "graded", "thousands"],
)
def test_workers_add_up_gram_matrices(client, ratings, tmp_path, options):
    unit = 4096.0 if options.get("threshold", 0.0) > 5.0 else 1.0  # ratings of many thousands are read in another unit
    folder = write(tmp_path / "ratings", Ratings(ratings.users, ratings.items, unit * ratings.values))
    here = DropoutAutoencoder(dtype="float64", **options).fit(folder)
    there = DropoutAutoencoder(dtype="float64", engine=client, **options).fit(folder)
    assert (there.drop_, there.diagonal_) == (here.drop_, here.diagonal_)
    assert there.ridge_ == pytest.approx(here.ridge_, rel=1e-12)
    order = [np.argsort(one.item_ids_) for one in (there, here)]
    assert np.array_equal(there.item_ids_[order[0]], here.item_ids_[order[1]])
    found, expected = (one.weights()[np.ix_(at, at)] for one, at in zip((there, here), order, strict=True))
    np.testing.assert_allclose(found, expected, **TOLERANCE)
    counts = [one._popularity[at] for one, at in zip((there, here), order, strict=True)]
    assert np.array_equal(*counts)
    if not options:  # all items and users are kept, so that the same pairs are hidden
        for mine, theirs in zip(there.points_, here.points_, strict=True):
            assert mine.left_out.squared.value == pytest.approx(theirs.left_out.squared.value, rel=1e-9)
    cold = (["me"] * 2, here.item_ids_[:2], [unit * 5.0, unit * 4.0])
    assert set(there.recommend_new(cold, 3)["me"].items) == set(here.recommend_new(cold, 3)["me"].items)
    for bad, message in (({"rank": 3}, "rank must be None"), ({"memory": 100}, "memory")):
        with pytest.raises(ValueError, match=message):
            DropoutAutoencoder(engine=client, **bad).fit(folder)
    with pytest.raises(ValueError, match="a path that the workers"):
        DropoutAutoencoder(engine=client).fit(ratings)


def test_passes_over_columns_are_dense_products():
    rng = np.random.default_rng(0)
    dense = np.where(rng.random((6, 4)) < 0.6, rng.standard_normal((6, 4)), 0.0)
    rows, columns = np.nonzero(dense)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=6))]) + 10  # may begin anywhere
    users, items, directions = rng.standard_normal((6, 8)), rng.standard_normal((4, 8)), rng.standard_normal((4, 8))
    offsets = rng.standard_normal(6)
    into, squares, products = np.zeros((4, 8)), np.zeros((4, 8)), np.zeros((4, 8))
    block = starts.astype(np.int64), columns.astype(np.int32)
    total = start_columns(*block, dense[rows, columns], users, offsets, items, into, squares)
    apply_columns(*block, users, directions, products)
    seen = dense != 0
    errors = np.where(seen, dense - offsets[:, None] - users @ items.T, 0.0)
    np.testing.assert_allclose(into, errors.T @ users, rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(squares, seen.T @ users**2, rtol=1e-13)
    np.testing.assert_allclose(products, (seen * (users @ directions.T)).T @ users, rtol=1e-13, atol=1e-13)
    assert total == pytest.approx((errors**2).sum(), rel=1e-13)


@pytest.mark.slow
@posix
def test_a_killed_worker_changes_nothing(ratings, tmp_path):
    folder = write(tmp_path / "ratings", ratings, 4)
    here = DropoutCompletion(4, 0.5, **OPTIONS).fit(folder)
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster, set_as_default=False) as client:
        killed = []

        def kill(line):
            if line.sweep == 3:
                killed.append(cluster.workers[0].process.pid)
                os.kill(killed[0], signal.SIGKILL)

        there = DropoutCompletion(4, 0.5, engine=client, progress=kill, **OPTIONS).fit(folder)
    assert killed
    same(there, here)
