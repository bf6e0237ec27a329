"""Autoencoders of low rank against the exact ones: equal at full rank, and off by no more than they say."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from droptics.recommenders import DropoutAutoencoder
from droptics.recommenders.low_rank import LowRank
from droptics.recommenders.ratings import Compressed


@pytest.fixture(scope="module")
def interactions():
    """Users of a few kinds, so that some directions lead."""
    rng = np.random.default_rng(0)
    kinds = rng.random((5, 60)) < 0.4
    liked = rng.random((300, 60)) < np.where(kinds[rng.integers(0, 5, 300)], 0.5, 0.05)
    return np.nonzero(liked)


def fitted(interactions, rank, **options):
    users, items = interactions
    return DropoutAutoencoder(0.4, 3.0, rank=rank, dtype="float64", **options).fit((users, items, np.ones(len(users))))


@pytest.mark.parametrize("diagonal", ["zero", "free", 0.3])
def test_full_rank_is_exact(interactions, diagonal):
    exact, low = (fitted(interactions, rank, diagonal=diagonal) for rank in (None, 60))
    assert np.allclose(low.weights(), exact.weights(), rtol=1e-8, atol=1e-10)
    assert exact.cut_ == 0
    assert low.leave_one_out(50).gain == exact.leave_one_out(50).gain


@pytest.mark.parametrize("rank", [1, 4, 12, 30])
@pytest.mark.parametrize("ridge", [0.01, 3.0, 300.0])
def test_the_inverse_is_off_by_no_more_than_it_says(interactions, rank, ridge):
    users, items = interactions
    x = sparse.csr_matrix((np.ones(len(users)), (users, items)))
    low = LowRank(Compressed(x.indptr.astype(np.int64), x.indices, x.data), 60, rank, np.float64)
    gamma = 0.7 * low.diagonal + ridge
    low.factorize(gamma)
    exact = np.linalg.inv((x.T @ x).toarray() + np.diag(gamma))
    found = low.times(np.eye(60))
    off = np.linalg.norm(np.sqrt(gamma)[:, None] * (found - exact) * np.sqrt(gamma), 2)
    values = np.sort(np.linalg.eigvalsh((x.T @ x).toarray() / np.sqrt(np.outer(gamma, gamma))))[::-1]
    assert off <= low.cut
    # and no looser than 10 sqrt(2 / pi) sqrt(60) to the power 1/8, about 1.7, if the eigenvectors are found
    assert low.cut <= 2 * values[rank] / (1 + values[rank])
    assert np.allclose(low.variances, np.diag(found), rtol=1e-12)
    assert np.allclose(low.rows(np.array([7, 3])), found[[7, 3]], rtol=1e-12, atol=1e-15)


def test_use(interactions, tmp_path):
    users, items = interactions
    low = fitted(interactions, 12)
    low.save(tmp_path / "m.safetensors")
    again = DropoutAutoencoder.load(tmp_path / "m.safetensors")
    assert np.array_equal(again.weights(), low.weights())
    assert again.cut_ == low.cut_
    later = users > 200
    whole, parts = fitted(interactions, 60), DropoutAutoencoder(0.4, 3.0, rank=60, dtype="float64")
    for part in (~later, later):
        parts.partial_fit((users[part], items[part], np.ones(part.sum())))
    row = np.zeros((1, 60))
    row[0, :3] = 1
    columns = [np.flatnonzero(parts.item_ids_ == item)[0] for item in whole.item_ids_]
    same = np.zeros((1, 60))
    same[0, columns] = row[0]
    assert np.allclose(parts.scores(same)[0, columns], whole.scores(row)[0], rtol=1e-8, atol=1e-10)
    chosen = DropoutAutoencoder(rank=12).fit((users, items, np.ones(len(users))))
    assert 0 < chosen.cut_ < 1
    small = DropoutAutoencoder(rank=12, memory=60 * 12 * 4 - 1)
    with pytest.raises(ValueError, match="memory"):
        small.fit((users, items, np.ones(len(users))))
    with pytest.raises(ValueError, match="rank must be None"):
        DropoutAutoencoder(0.4, 3.0, rank=3).fit_gram(np.eye(3))
    with pytest.raises(ArithmeticError, match="ridge above zero"):
        DropoutAutoencoder(0.0, 0.0, rank=3).fit((users, items, np.ones(len(users))))


def test_the_diagonal_is_that_of_the_gram_matrix_of_any_numbers():
    x = np.random.default_rng(0).standard_normal((7, 4)) * [1.0, 3.0, 0.2, -2.0]
    held = sparse.csr_matrix(x)
    low = LowRank(Compressed(held.indptr.astype(np.int64), held.indices, held.data), 4, 4, np.float64)
    assert np.allclose(low.diagonal, (x.T @ x).diagonal(), rtol=1e-15 * len(x))
