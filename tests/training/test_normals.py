"""Compiled normal numbers are NumPy's, bit for bit, and leave its generator where NumPy would."""

import numpy as np
import pytest

from droptics.training import normals


def generator(seed):
    return np.random.Generator(np.random.SFC64([seed, 1]))


@pytest.mark.parametrize("seed", range(4))
def test_numbers_are_those_of_numpy(seed):
    """A million: 12,000 from wedges, 260 from the tails; lengths that leave half a word, and calls of NumPy between."""
    ours, theirs = generator(seed), generator(seed)
    for count in (1, 1, 2, 3, 5, 0, 99_999, 900_000):
        into = np.empty(count, np.float32)
        normals.fill(normals.words_of(ours), into)
        np.testing.assert_array_equal(into, theirs.standard_normal(count, dtype=np.float32))
        assert str(ours.bit_generator.state) == str(theirs.bit_generator.state)
        assert ours.standard_normal(3).tolist() == theirs.standard_normal(3).tolist()
    assert np.abs(into).max() > normals.TAIL
