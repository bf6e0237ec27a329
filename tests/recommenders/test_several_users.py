"""Questions about several users at once, some of whom are strangers: each gets the answer that he gets alone."""

import warnings

import numpy as np
import pytest

from droptics.datasets import planted_ratings
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, LocalAutoencoder, UnknownIds

MODELS = {
    "autoencoder": lambda: DropoutAutoencoder(0.3, 2.0),
    "local": lambda: LocalAutoencoder(12, 0.3, 2.0),
    "completion": lambda: DropoutCompletion(3, 0.3, sweeps=3),
}


@pytest.mark.parametrize("exclude_seen", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_strangers_move_nobody(name, exclude_seen):
    ratings = planted_ratings((40, 25, 400), rank=2, noise=0.5, seed=1)
    model = MODELS[name]().fit(ratings)
    known = [int(user) for user in model.user_ids_[[3, 17, 5]]]
    asked = [10**6, known[0], 10**6 + 1, 10**6 + 2, known[1], known[2], 10**6]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnknownIds)
        if name == "completion":  # ratings of one user at a time
            found = [model.predict([user] * 5, model.item_ids_[:5]) for user in asked]
            together = model.predict(np.repeat(asked, 5), np.tile(model.item_ids_[:5], len(asked)))
            np.testing.assert_allclose(together, np.concatenate(found), rtol=1e-12)
            return
        together = model.recommend(asked, 6, exclude_seen)
        alone = [model.recommend(user, 6, exclude_seen) for user in asked]
    assert len(together) == len(asked)
    for one, other in zip(together, alone, strict=True):
        assert np.array_equal(one.items, other.items)
        np.testing.assert_allclose(one.scores, other.scores, rtol=1e-5)
    assert not np.array_equal(alone[1].items, alone[4].items)  # the order can be told
    assert np.array_equal(alone[0].items, alone[2].items)
