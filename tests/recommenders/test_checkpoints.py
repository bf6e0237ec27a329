"""A fit that was stopped goes on from the item factors of its last sweep."""

from __future__ import annotations

import numpy as np
import pytest

from droptics.datasets import planted_ratings
from droptics.recommenders import DropoutCompletion, checkpoints

OPTIONS = {"cg_steps": None, "dtype": "float64", "tolerance": 0.0}


@pytest.fixture(scope="module")
def ratings():
    return planted_ratings((60, 30, 900), rank=3, noise=0.5, seed=0)


def test_a_stopped_fit_goes_on(ratings, tmp_path):
    path = tmp_path / "items.safetensors"
    whole = DropoutCompletion(4, 0.5, sweeps=6, **OPTIONS).fit(ratings)

    def stop(line):
        if line.sweep == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        DropoutCompletion(4, 0.5, sweeps=6, checkpoint=path, progress=stop, **OPTIONS).fit(ratings)
    # rows are solved exactly: users follow from the items, and four sweeps more are the six
    rest = DropoutCompletion(4, 0.5, sweeps=4, checkpoint=str(path), **OPTIONS).fit(ratings)
    assert rest.history_[0].objective == pytest.approx(whole.history_[2].objective, rel=1e-12)
    np.testing.assert_allclose(rest.item_factors_, whole.item_factors_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(rest.user_factors_, whole.user_factors_, rtol=1e-9, atol=1e-12)


def test_other_files_are_refused(ratings, tmp_path):
    path = tmp_path / "items.safetensors"
    model = DropoutCompletion(4, 0.5, sweeps=1, checkpoint=path, **OPTIONS).fit(ratings)
    with pytest.raises(ValueError, match="another width"):
        DropoutCompletion(5, 0.5, checkpoint=path, **OPTIONS).fit(ratings)
    with pytest.raises(ValueError, match="other ratings"):
        DropoutCompletion(4, 0.5, checkpoint=path, **OPTIONS).fit((ratings.users, ratings.items + 1, ratings.values))
    model.save(path)
    assert DropoutCompletion.load(path).checkpoint is None
    with pytest.raises(ValueError, match="holds a DropoutCompletion"):
        DropoutCompletion(4, 0.5, checkpoint=path, **OPTIONS).fit(ratings)
    with pytest.raises(ValueError, match="no checkpoint"):
        DropoutCompletion(4, solver="sgd", checkpoint=tmp_path / "new").fit(ratings)


def test_factors_follow_their_ids(tmp_path):
    """Whatever the order of the items in the file."""
    path, factors = tmp_path / "items.safetensors", np.arange(6.0).reshape(3, 2)
    checkpoints.keep(path, np.array(["c", "a", "b"]), (2, 1.0), factors)
    into = np.zeros((3, 2))
    checkpoints.resume(path, np.array(["a", "b", "c"]), (2, 1.0), into)
    assert np.array_equal(into, factors[[1, 2, 0]])
