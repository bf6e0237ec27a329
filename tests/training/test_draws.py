"""Examples drawn from second moments."""

import pytest
import torch
from cases import normal, sample
from compare import close

from droptics.data import Moments, Sample
from droptics.training.draws import _Population
from droptics.training.random_numbers import Sequential


def drawn(data: Moments, steps: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    return _Population(data).draw(Sequential([0], torch.device("cpu")), 0, steps, 50)


@pytest.mark.parametrize("shift", [-40, 40])
def test_a_population_is_the_same_in_other_units(shift):
    """Powers of two are exact: the numbers drawn are the same, no small feature or output is lost as rounding."""
    data = sample()
    units, sizes = torch.tensor([1.0, 2.0**shift, 1.0, 2.0**-shift]).double(), torch.tensor([1.0, 2.0**shift, 1.0])
    moved = Sample(data.inputs * units, data.targets * sizes.double())
    first, second = drawn(Moments.of_sample(data)), drawn(Moments.of_sample(moved))
    close(second[0] / units, first[0], 1e-12)
    close(second[1] / sizes.double(), first[1], 1e-12)


def test_a_population_has_its_moments():
    """The root is one: without any noise of sampling, from what the generator makes of unit vectors."""
    inputs = normal(30, 3)
    data = Moments.of_sample(Sample(torch.cat([inputs, inputs.sum(1, keepdim=True)], 1), normal(30, 2)))
    source = _Population(data)
    assert source._root is not None
    assert source._noise is not None
    close(source._root.mT @ source._root, data.xx, 1e-12)
    close(source._map @ data.xx, data.yx, 1e-12)
    close(source._map @ data.xx @ source._map.mT + source._noise.mT @ source._noise, data.yy, 1e-12)
