"""Directions that only the rounding of the data opens: none in the precision of the data, real where they are exact."""

import pytest
import torch
from cases import normal

from droptics.data import Sample
from droptics.spectra.coordinates import frame, whiten


@pytest.mark.parametrize("count", [5, 40])
def test_a_sum_of_features_is_known_to_the_precision_of_the_data(count):
    """The fourth feature is the sum of the others, rounded to float32: in float64 the same numbers are independent."""
    inputs = normal(count, 3).float()
    data = Sample(torch.cat([inputs, inputs.sum(1, keepdim=True)], 1), normal(count, 2, seed=1).float())
    for read in (whiten, frame):
        single, double = read(data), read(data.to(torch.float64))
        assert len(single.right.energies) == 3
        assert single.right.singular
        assert len(double.right.energies) == 4
        assert not double.right.singular
