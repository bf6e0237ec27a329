"""Optima where a small slip would go unnoticed: empty and rank-one solutions, scales, certificates, refusals."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from cases import INPUTS, OUTPUTS, entries, normal, relu_network, sample, singular_moments
from compare import close

from droptics.data import Moments, Sample
from droptics.errors import CertificateError, NoClosedForm
from droptics.masks import Bernoulli, Block, Product, SlidingBlock
from droptics.models import Autoencoder, Connections, DeepLinear, Factorization, Model, TwoLayerLinear
from droptics.optima import Optimum, certify, optimum, optimum_of_map
from droptics.optima.optimum import Certificate, check_certified
from droptics.penalties import criterion


def deep_law(*sizes, drop=0.3):
    return Product([Bernoulli(drop, size) for size in sizes])


@pytest.mark.parametrize(
    ("family", "law"),
    [
        (TwoLayerLinear, Block(0.5, 6, 2)),
        (TwoLayerLinear, Bernoulli(0.5, 6)),
        (TwoLayerLinear, Bernoulli(torch.linspace(0.1, 0.6, 6).double(), 6)),
        (DeepLinear, deep_law(6, 3)),
        (DeepLinear, Bernoulli(0.5, 6)),
    ],
    ids=["block", "one-rate", "rates", "deep", "one-hidden-layer"],
)
def test_nothing_to_learn_gives_zero_weights_of_the_right_shape(family, law):
    found = optimum(family, Moments.of_map(torch.zeros(3, 4).double()), law)
    assert found.rank == 0
    assert found.objective == 0.0
    assert found.bound == 0.0
    assert found.model.units == law.size
    assert found.model.outputs(normal(5, 4)).shape == (5, 3)
    assert float(found.model.matrix().abs().max()) == 0.0
    close(found.model.outputs(normal(5, 4), law.multipliers(1, torch.Generator())[0]), torch.zeros(5, 3), scale=1.0)


@pytest.mark.parametrize("blocks", [1, 2, 3, 5])
def test_rank_one_maps_under_blocks(blocks):
    """One value s fits into one block: (s - a)^2 + (lambda / blocks) a^2 is least at s^2 b / (1 + b)."""
    left, right = normal(3), normal(4)
    M = torch.outer(left, right)
    found = optimum(TwoLayerLinear, Moments.of_map(M), Block(0.4, 2 * blocks, 2))
    beta = 0.4 / 0.6 / blocks
    energy = float(M.square().sum())
    assert found.rank == 1
    assert found.method == "closed form"
    assert found.objective == pytest.approx(energy * beta / (1 + beta), rel=1e-12)
    close(found.model.matrix(), M / (1 + beta))


@pytest.mark.parametrize("factor", [1e-9, 1e-3, 1e6])
@pytest.mark.parametrize(
    ("family", "law"),
    [
        (TwoLayerLinear, Block(0.3, 8, 2)),
        (TwoLayerLinear, Bernoulli(0.3, 3)),
        (TwoLayerLinear, Bernoulli(torch.tensor([0.1, 0.5, 0.8]).double(), 3)),
        (DeepLinear, deep_law(4, 3)),
        (Connections, Bernoulli(0.3, 8)),
    ],
    ids=["block", "one-rate", "rates", "deep", "connections"],
)
def test_the_optimum_scales_with_the_targets(family, law, factor):
    """Targets c y: the best map is c times the best map, its value c^2 times the value, of the same rank."""
    M = normal(3, 4)
    base, scaled = (optimum(family, Moments.of_map(c * M), law) for c in (1.0, factor))
    assert scaled.rank == base.rank
    assert scaled.method == base.method
    assert scaled.objective == pytest.approx(factor**2 * base.objective, rel=1e-9)
    assert scaled.bound == pytest.approx(factor**2 * base.bound, rel=1e-9)
    close(scaled.model.matrix(), factor * base.model.matrix(), 1e-7)


def test_deep_value_of_one_direction_by_hand():
    """s = 2, widths 3 and 5, lambda = 1: nu = (1 + 1/3)(1 + 1/5) - 1 and the value is s^2 nu / (1 + nu)."""
    data = Moments.of_map(torch.tensor([[2.0]], dtype=torch.float64))
    found = optimum(DeepLinear, data, deep_law(3, 5, drop=0.5))
    nu = (1 + 1 / 3) * (1 + 1 / 5) - 1
    assert found.objective == pytest.approx(4 * nu / (1 + nu), rel=1e-12)
    assert found.bound == pytest.approx(found.objective, rel=1e-12)
    assert found.rank == 1
    close(found.model.matrix(), [[2 / (1 + nu)]])


def test_deep_without_dropout_is_least_squares_of_the_least_width():
    M = normal(4, 5)
    found = optimum(DeepLinear, Moments.of_map(M), deep_law(3, 2, 6, drop=0.0))
    values = torch.linalg.svdvals(M)
    assert found.rank == 2
    assert found.objective == pytest.approx(float(values[2:].square().sum()), rel=1e-10)


def test_deep_rank_is_that_of_the_data():
    data = singular_moments()
    found = optimum(DeepLinear, data, deep_law(4, 4, drop=0.05))
    assert found.rank <= int(torch.linalg.matrix_rank(data.yx))
    assert found.rank == int(torch.linalg.matrix_rank(found.model.matrix(), rtol=1e-9))


def test_deep_certificate_of_masked_inputs_is_below_every_network():
    model = DeepLinear([normal(3, INPUTS), normal(OUTPUTS, 3)], mask_inputs=True)
    law = Product([Bernoulli(0.4, INPUTS), Bernoulli(0.3, 3)])
    with_masks = certify(model, sample(), law)
    plain = DeepLinear(model.weights)
    without = certify(plain, sample(), Bernoulli(0.3, 3))
    # input masks only add a penalty, so the least value cannot fall
    assert without.bound < with_masks.bound <= with_masks.objective
    # masks on the inputs alone: ridge with the diagonal of E x x^T, solved directly
    alone = certify(model, sample(), Product([Bernoulli(0.4, INPUTS), Bernoulli(0.0, 3)]))
    moments = Moments.of_sample(sample())
    ridge = moments.xx + 0.4 / 0.6 * torch.diag(torch.diagonal(moments.xx))
    least = torch.trace(moments.yy) - torch.trace(moments.yx @ torch.linalg.solve(ridge, moments.yx.mT))
    assert alone.bound == pytest.approx(float(least), rel=1e-10)


def test_certificates():
    assert Certificate(1.5, 1.0, "c").relative_gap == pytest.approx(0.5)
    assert Certificate(1.0, 1.0 + 1e-16, "c").relative_gap == 0.0
    assert Certificate(0.9, 1.0, "c").relative_gap == 0.0
    assert Certificate(1.0, 0.0, "c").relative_gap == math.inf
    model = TwoLayerLinear(normal(3, 2), normal(4, 2))
    # the tolerance is relative to the larger of scale and objective, and a bound above the objective is a bug too
    assert Optimum(model, 100.0, 100.0 - 9e-8, 1, "c").certified
    assert not Optimum(model, 100.0, 100.0 - 2e-7, 1, "c").certified
    assert Optimum(model, 1.0, 1.0 - 9e-8, 1, "c", scale=100.0).certified
    assert Optimum(model, 0.0, -9e-10, 1, "c").certified
    assert not Optimum(model, 0.0, -1.1e-9, 1, "c").certified
    with pytest.raises(CertificateError):
        check_certified(Optimum(model, 1.0, 1.1, 1, "c"))


def test_certified_bound_of_blocks_and_general_laws_is_that_of_the_optimum():
    data, model = sample(), TwoLayerLinear(normal(OUTPUTS, 4), normal(INPUTS, 4))
    for law in (Block(0.4, 4, 2), SlidingBlock(0.3, 4, 2)):
        certificate = certify(model, data, law)
        found = optimum(TwoLayerLinear, data, law)
        assert certificate.bound == pytest.approx(found.bound, rel=1e-10)
        assert certificate.claim == found.claim
        assert certificate.objective == pytest.approx(float(criterion(model, data, law)), rel=1e-14)


class Unknown(Model):
    """A family without rules."""

    units, tensors = INPUTS, (normal(2, 2),)

    def outputs(self, inputs, multipliers=None):
        return inputs[:, :OUTPUTS]


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: optimum(TwoLayerLinear, normal(3, 4), Bernoulli(0.5, 2)), ValueError, "data must be a droptics Data"),
        (
            lambda: optimum(Autoencoder, entries(), Bernoulli(0.5, 2)),
            ValueError,
            "Autoencoder must be Sample or Moments",
        ),
        (lambda: optimum(DeepLinear, entries(), deep_law(2, 2)), ValueError, "DeepLinear must be Sample or Moments"),
        (
            lambda: optimum(type(relu_network()), sample(), Bernoulli(0.5, 2)),
            NoClosedForm,
            "ReLUNet; families with one",
        ),
        (
            lambda: certify(Unknown(), sample(), Bernoulli(0.5, INPUTS)),
            NoClosedForm,
            "no lower bound is known for Unknown",
        ),
        (
            lambda: certify(Factorization(normal(6, 2), normal(5, 2)), entries(), Bernoulli(0.5, 2)),
            NoClosedForm,
            "Completion",
        ),
        (
            lambda: optimum(TwoLayerLinear, Sample(normal(3, 2), torch.tensor([0, 1, 1])), Bernoulli(0.5, 2)),
            ValueError,
            "floating-point targets",
        ),
    ],
)
def test_bad_input_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_maps_that_cannot_be_decomposed():
    masks = Bernoulli(0.3, 2)
    with pytest.raises(ValueError, match="finite squared norm, got inf; scale it down"):
        optimum_of_map(torch.full((3, 3), 1e200, dtype=torch.float64), masks)
    with pytest.raises(ValueError, match="matrix must be floating point"):
        optimum_of_map(torch.ones(3, 3, dtype=torch.long), masks)
    for empty in (torch.zeros(0, 3), torch.zeros(3, 0, dtype=torch.float64), np.zeros((0, 3))):
        with pytest.raises(ValueError, match="matrix must have rows and columns"):
            optimum_of_map(empty, masks)
    with pytest.raises(NoClosedForm, match="independent units only"):
        optimum_of_map(normal(3, 3), Block(0.3, 4, 2))


def test_nothing_to_fit_under_correlated_masks():
    """Targets that are zero: the best network is zero, whatever the law."""
    zero = Sample(sample().inputs, torch.zeros(len(sample()), OUTPUTS).double())
    for law in (SlidingBlock(0.3, 4, 2), Block(0.5, 4, 2), Bernoulli(0.5, 4)):
        best = optimum(TwoLayerLinear, zero, law)
        assert best.objective == 0.0
        assert best.rank == 0
        assert not best.model.matrix().any()


def test_an_optimum_says_why_it_is_not_certified():
    """Certified: nothing to say. Data that do not tell, searches, and weights that miss the bound: each says so."""
    model = TwoLayerLinear(normal(2, 3), normal(4, 3))
    assert Optimum(model, 1.0, 1.0, 1, "c").reason is None
    assert "rounding of the data leaves 0.5" in Optimum(model, 1.0, 0.6, 1, "c", slack=0.5).reason
    assert "by a search (some sweeps)" in Optimum(model, 1.0, 0.6, 1, "c", method="some sweeps").reason
    assert "not attained" in Optimum(model, 1.0, 0.6, 1, "c", slack=0.3).reason
    assert "below the bound" in Optimum(model, 1.0, 1.1, 1, "c").reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_moments_with_a_repeated_input_say_so_where_nobody_knows_it(dtype):
    inputs = normal(50, 3)
    inputs = torch.cat([inputs, inputs[:, :1]], 1)
    sample = Sample(inputs, inputs @ normal(4, 2) + normal(50, 2))
    moments = Moments.of_sample(sample.to(dtype))
    assert moments.rank == 3
    assert optimum(TwoLayerLinear, moments, Bernoulli(0.5, 3)).certified
    found = optimum(TwoLayerLinear, replace(moments, rank=None), Bernoulli(0.5, 3))
    assert not found.certified
    assert "rounding of the data" in found.reason
    assert found.reason in repr(found)
    assert repr(optimum(TwoLayerLinear, sample, Bernoulli(0.5, 3))).endswith("certified)")


def test_an_optimum_that_is_not_certified_prints_its_bound():
    found = optimum(TwoLayerLinear, Moments.of_map(normal(3, 4)), Bernoulli(0.3, 3))
    assert repr(found).endswith(f"objective {found.objective:.6g}, certified)")
    bound = found.objective / 2
    said = f"objective {found.objective:.6g}, not certified, bound {bound:.6g}: the bound is not attained"
    assert said in repr(replace(found, bound=bound))
