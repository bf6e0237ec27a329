"""Compiled normal numbers and coins are NumPy's, bit for bit, and leave its generator where NumPy would."""

import numpy as np
import pytest

from droptics.training import sfc64


def generator(seed):
    return np.random.Generator(np.random.SFC64([seed, 1]))


@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_those_of_numpy(seed):
    """A million: 12,000 from wedges, 260 from the tails; lengths that leave half a word, and calls of NumPy between."""
    ours, theirs = generator(seed), generator(seed)
    for count in (1, 1, 2, 3, 5, 0, 99_999, 900_000):
        into = np.empty(count, np.float32)
        sfc64.fill_normal(sfc64.words_of(ours), into)
        np.testing.assert_array_equal(into, theirs.standard_normal(count, dtype=np.float32))
        assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)
        assert ours.standard_normal(3).tolist() == theirs.standard_normal(3).tolist()
    assert np.abs(into).max() > sfc64.TAIL


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_coins_fall_where_doubles_of_numpy_are_below_their_rate(dtype):
    """With half a word left over from an odd number of normals, which doubles do not take."""
    ours, theirs = generator(0), generator(0)
    for each in (ours, theirs):
        each.standard_normal(3, dtype=np.float32)
    drops, values = np.array([0.0, 0.25, 0.5, 1.0]), np.array([1.0, 2.0, 3.0, 4.0], dtype)
    into = np.empty((10_000, 4), dtype)
    sfc64.toss(sfc64.words_of(ours), drops, values, into)
    np.testing.assert_array_equal(into, np.where(theirs.random((10_000, 4)) >= drops, values, 0))
    assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)
