"""Ratings of any offset, scale and kind of id; ratings that come later; predictions that nothing bounds."""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
import torch

from droptics.datasets import planted_ratings
from droptics.recommenders import DropoutCompletion, RidgeCompletion, UnboundedPredictions, diagnose
from droptics.recommenders.ids import Lookup, as_ids, joined
from droptics.recommenders.ratings import observations


@pytest.fixture(scope="module")
def table():
    found = planted_ratings((120, 80, 2500), rank=2, noise=0.3, seed=1)
    # Multiples of 1/16: adding an offset up to 2^40 in float64 changes none of their digits.
    return found.users, found.items, np.round(found.values.astype(np.float64) * 16) / 16


@pytest.mark.parametrize("offset", [1e6, 1e8, -1e10])
def test_an_offset_changes_nothing_but_the_mean(table, offset):
    users, items, values = table
    here = DropoutCompletion(5).fit(table)
    there = DropoutCompletion(5).fit((users, items, values + offset))
    # The centers differ by their rounding in float64, so that centered values differ in the last bit of float32.
    scale = np.abs(here.predict(users, items) - here.mean_).max()
    moved = there.predict(users, items) - offset
    assert np.abs(moved - here.predict(users, items)).max() < 1e3 * np.finfo(np.float32).eps * scale + 1e-12 * abs(
        offset
    )
    assert there.history_[-1].rmse == pytest.approx(here.history_[-1].rmse, rel=1e-4)


LONG = {"sweeps": 300, "tolerance": 0.0, "dtype": "float64"}


@pytest.fixture(
    scope="module",
    params=[
        lambda unit: DropoutCompletion(5),
        lambda unit: RidgeCompletion(5, 0.05 * unit, **LONG),
        lambda unit: RidgeCompletion(5, 6 * unit, False, **LONG),
    ],
    ids=["dropout", "weighted", "plain"],
)
def fitted(request, table):
    """How a model is made for ratings of a unit, and the one of the ratings as they are."""
    return request.param, request.param(1.0).fit(table)


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40, 1e-30, 1e30])
def test_the_unit_of_the_ratings_is_the_unit_of_the_predictions(table, factor, fitted):
    users, items, values = table
    make, here = fitted[0], copy.deepcopy(fitted[1])
    there = make(factor).fit((users, items, values * factor))
    expected = here.predict(users, items)
    assert np.allclose(there.predict(users, items) / factor, expected, rtol=0, atol=1e-3)
    assert there.history_[-1].rmse / factor == pytest.approx(here.history_[-1].rmse, rel=1e-3)
    assert there.objective_ / factor**2 == pytest.approx(here.objective_, rel=1e-3)
    for model, unit in ((here, 1.0), (there, factor)):
        model.partial_fit(([777, 777, 778], [0, 1, 2], np.array([5.0, 1.0, 3.0]) * unit))
    asked = np.arange(10), np.full(10, 777)
    assert np.allclose(there.predict(asked[1], asked[0]) / factor, here.predict(asked[1], asked[0]), rtol=0, atol=1e-3)
    entries = there.entries()
    assert float(entries.values.double().abs().max()) / factor == pytest.approx(
        float(here.entries().values.abs().max()), rel=1e-5
    )


def test_a_scaled_model_is_saved_and_continued(table, tmp_path):
    users, items, values = table
    model = DropoutCompletion(3, warm_start=True, sweeps=3, tolerance=0.0).fit((users, items, values * 1e12))
    model.save(tmp_path / "m.safetensors")
    again = DropoutCompletion.load(tmp_path / "m.safetensors")
    for one in (model, again):
        one.partial_fit(([777], [int(items[0])], [2e12]))
    assert np.array_equal(model.predict([777], [int(items[1])]), again.predict([777], [int(items[1])]))
    first = model.objective_
    assert model.fit((users, items, values * 1e12)).history_[0].objective < first


def test_ratings_beyond_the_precision_are_refused(table):
    users, items, values = table
    with pytest.raises(ValueError, match='dtype="float64"'):
        DropoutCompletion(2).fit((users, items, values * 1e60))
    with pytest.raises(ValueError, match="beyond what float64 holds"):
        DropoutCompletion(2, dtype="float64").fit((users, items, np.where(values > 3, 1e308, -1e308)))
    assert np.isfinite(DropoutCompletion(2, dtype="float64").fit((users, items, values * 1e60)).objective_)


def test_duplicates_of_a_large_offset_keep_their_mean():
    with pytest.warns(UserWarning, match="repeat"):
        data = observations(([0, 0, 1], [0, 0, 1], [1e9 + 1, 1e9 + 2, 1e9]))
    assert data.mean == pytest.approx(1e9 + 0.75, abs=1e-6)
    assert sorted(data.by_user.values.tolist()) == pytest.approx([-0.75, 0.75])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int8])
def test_ratings_as_tensors_of_any_precision(dtype):
    users, items, values = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 0, 1]), torch.tensor([1.0, 2.0, 4.0, 5.0])
    assert observations((users, items, values.to(dtype))).mean == 3.0


BIG = 2**63


@pytest.mark.parametrize(
    "ids",
    [
        np.array([BIG, BIG + 1, 5], np.uint64),
        [BIG, BIG + 1, 5],
        [BIG, BIG + 1, -5],
        [2**70, 1, 2],
        np.array([-(2**63), 2**63 - 1, 0], np.int64),
        np.array([1, 2, 3], np.uint8),
    ],
)
def test_ids_of_any_whole_number(ids, tmp_path):
    model = DropoutCompletion(1, 0.5).fit((ids, ids, [1.0, 2.0, 4.0]))
    found = model._users(ids)
    assert sorted(found.tolist()) == [0, 1, 2]
    assert [str(model.user_ids_[place]) for place in found] == [str(one) for one in ids]
    assert np.array_equal(model._users([str(one) for one in ids]), found)
    assert (model._users(["x", "07", str(2**64 + 9)]) == -1).all()
    model.save(tmp_path / "m.safetensors")
    again = DropoutCompletion.load(tmp_path / "m.safetensors")
    assert again.user_ids_.dtype == model.user_ids_.dtype
    model.partial_fit(([BIG + 7, 11], [ids[0], ids[1]], [1.0, 2.0]))
    assert sorted(model._users([BIG + 7, 11]).tolist()) == [3, 4]


def test_ids_of_both_signs_do_not_meet():
    lookup = Lookup(np.array([BIG + 1, 7], np.uint64))
    assert lookup(np.array([-(2**63) + 1, -1, 7])).tolist() == [-1, -1, 1]
    signed = Lookup(np.array([-(2**63), 7]))
    assert signed(np.array([BIG, 7], np.uint64)).tolist() == [-1, 1]
    assert signed(["nobody", str(BIG)]).tolist() == [-1, -1]
    assert joined([np.array([1]), np.array([BIG], np.uint64)]).tolist() == [1, BIG]
    assert joined([np.array([-1]), np.array([BIG], np.uint64)]).tolist() == ["-1", str(BIG)]
    with pytest.raises(ValueError, match="beyond 2\\^53"):
        as_ids([2.0**60, 1.0])


def test_unsigned_ids_of_a_parquet_file(tmp_path):
    pytest.importorskip("pyarrow", reason="parquet is optional")
    frame = pd.DataFrame({"u": np.array([BIG, 1, 2], np.uint64), "i": [0, 1, 0], "r": [1.0, 2.0, 3.0]})
    frame.to_parquet(tmp_path / "r.parquet")
    data = observations(tmp_path / "r.parquet")
    assert sorted(data.users.ids.tolist()) == [1, 2, BIG]


def test_later_ratings_are_known_at_once(table, tmp_path):
    users, items, _ = table
    model = DropoutCompletion(4, 0.5, dtype="float64").fit(table)
    before = len(model.entries())
    known = (users == users[0]) & (items == items[0])
    model.partial_fit(([users[0], 555, 555], [items[0], items[1], 999], [1.0, 5.0, 4.0]))
    entries = model.entries()
    assert known.sum() == 1
    assert len(entries) == before + 2
    assert entries.shape == (len(model.user_ids_), len(model.item_ids_))
    row = model._users([555])[0]
    mine = entries.values[entries.rows == row]
    assert sorted((mine + model.mean_).tolist()) == pytest.approx([4.0, 5.0])
    model.save(tmp_path / "m.safetensors")
    again = DropoutCompletion.load(tmp_path / "m.safetensors")
    assert torch.equal(again.entries().values, entries.values)
    now, then = diagnose(model), diagnose(again)
    assert now.weighted_trace == pytest.approx(then.weighted_trace, rel=1e-12)
    assert now.bound.terms == then.bound.terms
    difference = model.predict(model.user_ids_[entries.rows], model.item_ids_[entries.columns]) - model.mean_
    half = (model.range_[1] - model.range_[0]) / 2
    expected = float(np.mean((difference - entries.values.numpy()) ** 2)) / half**2
    assert now.bound.terms["empirical risk"] == pytest.approx(expected, rel=1e-9)


def test_options_set_after_a_fit_wait_for_the_next_one(table, tmp_path):
    model = DropoutCompletion(4, 0.5, dtype="float64").fit(table)
    twin = DropoutCompletion(4, 0.5, dtype="float64").fit(table)
    model.set_params(width=7)
    for one in (model, twin):
        one.partial_fit(([555, 555], [1, 2], [5.0, 1.0]))
    assert np.array_equal(model.user_factors_, twin.user_factors_)
    assert diagnose(model).induced == diagnose(twin).induced
    model.save(tmp_path / "m.safetensors")
    again = DropoutCompletion.load(tmp_path / "m.safetensors").partial_fit(([556], [1], [5.0]))
    assert again.user_factors_.shape[1] == 4
    assert again.fit(table).user_factors_.shape[1] == 7


def test_predictions_that_nothing_bounds_are_said():
    found = planted_ratings((60, 40, 300), rank=2, noise=0.3, seed=1)
    table = (found.users, found.items, found.values)
    with pytest.warns(UnboundedPredictions, match='penalty="expected"'):
        wild = DropoutCompletion(10, 0.5, penalty="empirical", sweeps=100, tolerance=0.0, dtype="float64").fit(table)
    assert np.sqrt(np.mean((wild.user_factors_ @ wild.item_factors_.T) ** 2)) > np.ptp(table[2])
    DropoutCompletion(10, 0.5, sweeps=100, tolerance=0.0).fit(table)  # the expected penalty bounds them: no warning
