"""LocalAutoencoder against the exact one, and against its definition on the support."""

from __future__ import annotations

import numpy as np
import pytest

from droptics.recommenders import DropoutAutoencoder, LocalAutoencoder


@pytest.fixture(scope="module")
def liked():
    rng = np.random.default_rng(0)
    share = rng.random((200, 1)) * np.linspace(0.1, 0.9, 25)
    return (rng.random((200, 25)) < share).astype(float)


def triple(x):
    rows, columns = np.nonzero(x)
    return rows, columns, x[rows, columns]


@pytest.mark.parametrize("graded", [False, True])
def test_all_items_as_neighbors_are_the_exact_autoencoder(liked, graded):
    x = liked * np.random.default_rng(1).normal(1, 1, liked.shape) if graded else liked
    feedback = "graded" if graded else "implicit"
    local = LocalAutoencoder(24, 0.3, 2.0, feedback=feedback).fit(triple(x))
    exact = DropoutAutoencoder(0.3, 2.0, "zero", feedback=feedback, dtype="float64").fit(triple(x))
    assert np.array_equal(local.item_ids_, exact.item_ids_)
    assert np.allclose(local.weights().toarray(), exact.weights(), rtol=1e-9, atol=1e-12)
    assert np.allclose(local.scores(x), exact.scores(x), rtol=1e-9, atol=1e-12)
    user = local.user_ids_[0]
    assert np.array_equal(local.recommend(user).items, exact.recommend(user).items)


def test_grades_of_many_thousands_have_their_ridge_in_their_unit(liked):
    rows, columns, _ = triple(liked)
    grades = 0.5 + (rows + 3 * columns) % 4
    plain, large = (
        LocalAutoencoder(5, 0.3, 2.0 * unit**2, feedback="graded").fit((rows, columns, unit * grades))
        for unit in (1.0, 4096.0)
    )
    assert np.allclose(large.weights().toarray(), plain.weights().toarray(), rtol=1e-9, atol=1e-12)


def test_few_neighbors_minimize_the_loss_on_them(liked):
    local = LocalAutoencoder(4, 0.3, 2.0).fit(triple(liked))
    weights = local.weights().toarray()
    x = liked[:, local.item_ids_]
    gram = x.T @ x
    gamma = 0.3 / 0.7 * np.diag(gram) + 2.0
    for item in range(25):
        chosen = np.flatnonzero(weights[:, item])
        assert len(chosen) == 4
        others = np.delete(gram[item], item)
        assert gram[item, chosen].min() >= np.sort(others)[-4]
        gradient = gram[chosen] @ weights[:, item] + gamma[chosen] * weights[chosen, item] - gram[chosen, item]
        assert np.abs(gradient).max() < 1e-10 * gram.max()


def test_defaults_thresholds_and_refusals(liked):
    users, items, values = triple(liked)
    stars = np.where(np.random.default_rng(2).random(len(values)) < 0.8, 5.0, 2.0)
    some = stars >= 4
    model = LocalAutoencoder(6, threshold=4).fit((users, items, stars))
    same = LocalAutoencoder(6, ridge=5e-4 * some.sum()).fit((users[some], items[some], values[some]))
    assert np.array_equal(model.weights().toarray(), same.weights().toarray())
    pairs = LocalAutoencoder(6, threshold=4).fit(np.column_stack([users, items]), stars)
    assert np.array_equal(pairs.weights().toarray(), same.weights().toarray())
    lonely = LocalAutoencoder(3).fit(([0, 1], [0, 1], [1.0, 1.0]))
    assert not lonely.weights().toarray().any()
    with pytest.raises(ValueError, match="neighbors"):
        LocalAutoencoder(0).fit(triple(liked))
    with pytest.raises(ArithmeticError, match="singular"):
        LocalAutoencoder(3, 0.0, 0.0).fit(([0] * 4, [0, 1, 2, 3], np.ones(4)))
