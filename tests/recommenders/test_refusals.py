"""Faults that people meet with ratings, and what they are told."""

import numpy as np
import pytest
import torch
from sklearn.utils.validation import check_is_fitted

from droptics.recommenders import (
    DropoutAutoencoder,
    DropoutCompletion,
    DropoutCompletionCV,
    ImplicitDropoutCompletion,
    LocalAutoencoder,
    RidgeCompletion,
)
from droptics.recommenders.ids import as_ids


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 20 * 15, 150))
    return pairs // 15, pairs % 15, rng.normal(size=len(pairs))


def test_fitted_models_know_it_and_need_their_ratings(ratings, tmp_path):
    model = DropoutCompletion(2, 0.3, sweeps=2)
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(model)
    check_is_fitted(model.fit(ratings))
    with pytest.raises(ValueError, match="at least one rating, got none"):
        model.evaluate((np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)))
    model.save(tmp_path / "model.safetensors", seen=False)
    again = DropoutCompletion.load(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="has no ratings"):
        again.entries()
    assert len(model.entries().values) == len(ratings[2])


def test_plain_and_weighted_ridge_are_different_problems(ratings):
    """The plain penalty is strength (|U|^2 + |V|^2) on top of the squared errors, found by descent as well."""
    model = RidgeCompletion(
        2, 0.5, weighted=False, biases=False, cg_steps=None, sweeps=400, tolerance=0, dtype="float64"
    )
    model.fit(ratings)
    entries = model.entries()
    U, V = (torch.tensor(part, requires_grad=True) for part in (model.user_factors_, model.item_factors_))
    errors = (U[entries.rows] * V[entries.columns]).sum(1) - entries.values
    total = errors.square().sum() + 0.5 * (U.square().sum() + V.square().sum())
    slopes = torch.autograd.grad(total, (U, V))
    assert max(float(slope.abs().max()) for slope in slopes) < 1e-4
    weighted = RidgeCompletion(2, 0.5, weighted=True, biases=False, sweeps=5).fit(ratings)
    assert not np.allclose(weighted.user_factors_, model.user_factors_, atol=1e-3)


@pytest.mark.parametrize(
    "model", [DropoutAutoencoder, DropoutCompletion, DropoutCompletionCV, ImplicitDropoutCompletion, LocalAutoencoder]
)
def test_values_apart_need_pairs_of_two_columns(ratings, model):
    pandas = pytest.importorskip("pandas")
    for pairs in (ratings[0], np.stack(ratings).T, pandas.DataFrame({"user": ratings[0]})):
        with pytest.raises(ValueError, match="pairs must have two columns"):
            model().fit(pairs, ratings[2])


def test_ids_of_every_kind():
    assert as_ids(np.array([1, 2], dtype=object)).tolist() == [1, 2]
    assert as_ids(np.array([1.0, 2.0])).tolist() == [1, 2]
    assert as_ids([]).tolist() == []
    assert as_ids(7).tolist() == [7]
    with pytest.raises(ValueError, match="ids must be a vector"):
        as_ids(np.ones((2, 2), np.int64))
    for bad in (np.array([1.5]), np.array([None], dtype=object), np.array([np.nan])):
        with pytest.raises(ValueError, match="ids must be whole numbers or text"):
            as_ids(bad)
