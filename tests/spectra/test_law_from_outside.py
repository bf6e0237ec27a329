"""A law with a closed optimum is one class in one file, this one: every question knows its answer at once.

The class is a mask law (size, mean, covariance, sample) and an action on spectra (claim, value, shrink, spread).
"""

import pytest
import torch
from cases import normal, sample, weighted_sample
from compare import close

from droptics.data import Moments
from droptics.envelopes import envelope, induced
from droptics.equalization import equalize, imbalance
from droptics.errors import NoClosedForm
from droptics.masks import Block, MaskLaw
from droptics.models import Factorization, TwoLayerLinear
from droptics.optima import certify, optimum
from droptics.penalties import Enumerate, criterion, penalty
from droptics.spectra import Action


class OneCoin(MaskLaw):
    """Stochastic depth: one coin for the whole layer."""

    def __init__(self, drop, size):
        self.drop, self.units = drop, size

    @property
    def size(self):
        return self.units

    @property
    def mean(self):
        return torch.full((self.units,), 1 - self.drop, dtype=torch.float64)

    @property
    def covariance(self):
        return torch.full((self.units, self.units), self.drop * (1 - self.drop), dtype=torch.float64)

    def sample(self, count, generator):
        kept = torch.rand(count, 1, generator=generator, dtype=torch.float64) >= self.drop
        return kept.double().expand(count, self.units)

    support_count = 2

    def support_batches(self, batch):
        chances = torch.tensor([self.drop, 1 - self.drop], dtype=torch.float64)
        yield torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, self.units), chances


class WholeLayer(OneCoin, Action):
    """All factors of a map A are penalized alike, by lambda ||A||_F^2: every value is divided by 1 + lambda."""

    claim = "mine-whole-layer"

    @property
    def strength(self):
        return self.drop / (1 - self.drop)

    def value(self, spectrum):
        return self.strength * spectrum.square().sum(-1)

    def shrink(self, values):
        shrunk = values[: self.size] / (1 + self.strength)
        return shrunk, float(self.value(shrunk))

    def spread(self, left, values, right):
        padding = (0, self.size - len(values))
        U, H = (torch.nn.functional.pad(part * values.sqrt(), padding) for part in (left, right))
        return U, H


LAW = WholeLayer(0.3, 2)
DATA = {"sample": sample(), "weighted": weighted_sample(), "moments": Moments.of_sample(sample())}


def white_values(data, matrix=None):
    """Singular values of W E[x x^T]^(1/2), of the least-squares map by default, by another route than the package's."""
    moments = Moments.of(data)
    root = torch.linalg.cholesky(moments.xx)
    matrix = moments.yx @ torch.linalg.inv(moments.xx) if matrix is None else matrix
    return torch.linalg.svdvals(matrix @ root), float(torch.trace(moments.yy))


@pytest.mark.parametrize("name", DATA)
def test_penalty_induced_and_envelope(name):
    model, data = TwoLayerLinear(normal(3, 2), normal(4, 2)), DATA[name]
    expected = 0.3 / 0.7 * float(white_values(data, model.matrix())[0].square().sum())
    for answer in (penalty, induced, envelope):
        close(float(answer(model, data, LAW)), expected, relative=1e-11)
    close(float(penalty(model, data, LAW, Enumerate())), expected, relative=1e-11)
    close(float(imbalance(model, data, LAW)), 0.0, relative=1e-10, scale=1.0)


@pytest.mark.parametrize("name", DATA)
def test_optimum_and_certificate(name):
    data = DATA[name]
    best = optimum(TwoLayerLinear, data, LAW)
    values, energy = white_values(data)
    expected = energy - float((values[:2].square()).sum()) * 0.7
    assert (best.claim, best.rank, best.method, best.certified) == ("mine-whole-layer", 2, "closed form", True)
    close(best.objective, expected, relative=1e-10, scale=energy)
    close(best.objective, float(criterion(best.model, data, LAW)), relative=1e-10, scale=energy)
    close(optimum(TwoLayerLinear, data, Block(0.3, 2, 2)).objective, expected, relative=1e-10, scale=energy)
    given = certify(TwoLayerLinear(normal(3, 2), normal(4, 2)), data, LAW)
    assert given.claim == "mine-whole-layer"
    close(given.bound, expected, relative=1e-10, scale=energy)


def test_equalized_networks_and_factorizations():
    data = sample()
    model = TwoLayerLinear(normal(3, 2), normal(4, 2))
    equal = equalize(model, data, LAW)
    close(equal.matrix(), model.matrix(), relative=1e-10)
    close(float(penalty(equal, data, LAW)), float(induced(model, data, LAW)), relative=1e-10)
    with pytest.raises(ValueError, match="Entries or Measurements"):
        optimum(Factorization, data, LAW)


def test_the_same_law_without_an_action_has_no_closed_form():
    """The control: it is the class above that answers, not something that holds for any law."""
    plain, data = OneCoin(0.3, 2), sample()
    with pytest.raises(NoClosedForm, match="OneCoin"):
        induced(TwoLayerLinear(normal(3, 2), normal(4, 2)), data, plain)
    assert optimum(TwoLayerLinear, data, plain).claim == "droptics-mask-bounds"
