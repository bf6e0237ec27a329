"""Examples drawn from second moments."""

import pytest
import torch
from cases import normal, sample
from compare import close

from droptics.data import Moments, Sample
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.training import Dropout, Recording, train
from droptics.training.draws import Stream, _Population
from droptics.training.random_numbers import Counted, Sequential


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


def test_targets_of_a_wide_population_are_the_map_of_its_inputs():
    """Forty outputs, which loops of our own compute: one run, some steps of eleven examples."""
    data = Moments.of_map(normal(40, 3))
    inputs, targets = _Population(data).draw(Sequential([0, 1], torch.device("cpu")), 0, 9, 11)
    assert inputs.shape == (2, 9, 11, 3)
    close(targets, inputs @ data.yx.mT, 1e-13)


def test_stretches_follow_each_other_in_the_same_memory():
    """Two stretches of 256 steps: the same numbers as one training draws alone, masks kept by a caller stay."""
    data = Moments.of_map(normal(3, 4))
    stream, alone = (Stream(data, Dropout(Bernoulli(0.5, 2)), seeds, 1, torch.device("cpu")) for seeds in ([5, 6], [6]))
    kept = []
    for _ in range(2):
        both, single = stream.next(300), alone.next(300)
        for name in ("inputs", "targets", "multipliers"):
            assert torch.equal(getattr(both, name)[1:], getattr(single, name))
        close(both.targets, both.inputs @ data.yx.mT, 1e-14)
        kept.append((both.multipliers, both.multipliers.clone()))
    assert all(torch.equal(held, copied) for held, copied in kept)
    assert not torch.equal(kept[0][0], kept[1][0])


def test_counted_stretches_of_any_length_follow_each_other():
    data, law, cpu = Sample(normal(9, 4), normal(9, 3)), Bernoulli(0.5, 2), torch.device("cpu")
    stream, numbers = Stream(data, Dropout(law), [5, 6], 3, cpu, True), Counted([5, 6], cpu)
    parts = [stream.next(steps) for steps in (2, 1, 4, 3)]
    rows, masks = numbers.choice(0, 10, 3, 9, None), numbers.masks([law] * 2, 0, 10, 3, True, torch.float64)
    assert torch.equal(torch.cat([part.inputs for part in parts], 1), data.inputs[rows])
    assert torch.equal(torch.cat([part.targets for part in parts], 1), data.targets[rows])
    assert torch.equal(torch.cat([part.multipliers for part in parts], 1), masks)


@pytest.mark.parametrize("width", [4, 5])
def test_records_on_the_way_leave_the_steps_alone(width):
    """Stretches that begin and end within what was drawn: the same weights bit for bit."""
    begin, data = TwoLayerLinear(normal(3, width), normal(4, width, seed=1)), Moments.of_map(normal(3, 4))
    ends = [
        train(begin, data, Dropout(Bernoulli(0.5, width)), steps=300, step_size=1e-3, batch_size=1, record=record).model
        for record in (Recording(at=()), Recording(at=(1, 7, 256, 299)))
    ]
    for one, other in zip(*(end.tensors for end in ends), strict=True):
        assert torch.equal(one, other)
