"""White coordinates keep all of the targets: what features explain and what they do not add up to E |y|^2."""

import pytest
import torch
from cases import normal, sample, weighted_sample

from droptics.data import Entries, Moments, Sample
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, TwoLayerLinear
from droptics.optima import optimum
from droptics.spectra.coordinates import whiten

NOISY = Sample(normal(9, 4), normal(9, 3, seed=1), torch.arange(1.0, 10).double())
DATA = {
    "sample": sample(),
    "weighted": weighted_sample(),
    "noisy": NOISY,
    "tall": Sample(normal(900, 4), normal(900, 3)),
}


@pytest.mark.parametrize("name", DATA)
def test_energy_is_that_of_the_targets(name):
    data = DATA[name]
    wanted = float((data.shares * data.targets.square().sum(1)).sum())
    for form in (data, Moments.of_sample(data)):
        assert whiten(form).energy == pytest.approx(wanted, rel=1e-10)


def test_energy_of_every_entry():
    """All cells once: uniform observations, whose mean square is the energy."""
    values = normal(6, 5)
    rows, columns = torch.meshgrid(torch.arange(6), torch.arange(5), indexing="ij")
    data = Entries(rows.flatten(), columns.flatten(), values.flatten(), (6, 5))
    assert whiten(data).energy == pytest.approx(float(values.square().mean()), rel=1e-12)


@pytest.mark.parametrize("name", DATA)
def test_answers_are_measured_by_the_energy(name):
    data = DATA[name]
    wanted = float((data.shares * data.targets.square().sum(1)).sum())
    for family, law in (
        (TwoLayerLinear, Bernoulli(0.3, 5)),
        (DeepLinear, Product([Bernoulli(0.3, 5), Bernoulli(0.2, 6)])),
    ):
        found = optimum(family, data, law)
        assert found.scale == pytest.approx(wanted, rel=1e-10)
        assert found.bound <= found.objective + 1e-9 * wanted
        assert found.objective <= wanted * (1 + 1e-9)
        assert found.certified
