"""Approximations: exact where their assumption holds, integrals against a grid, and the check that goes with them."""

import math

import pytest
import torch
from cases import INPUTS, laws, normal, relu_network, skewed_inputs
from compare import close
from torch import nn

from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, ReLUNet, TwoLayerLinear
from droptics.penalties import MonteCarlo, SecondOrder
from droptics.predictions import Closure, predictive
from droptics.predictions.approximations import rectified

LAW = Product([Bernoulli(0.2, INPUTS), Bernoulli(0.5, 3), Bernoulli(0.3, 2)])


@pytest.mark.parametrize("correlation", [-0.95, -0.3, 0.0, 0.6, 0.98])
@pytest.mark.parametrize("means", [(0.0, 0.0), (1.5, -0.7), (-2.0, 3.0)])
def test_rectified_normal_numbers_against_a_grid(correlation, means):
    """E max(u, 0) max(v, 0) by a trapezoid rule over u and the rest of v: eight deviations, 2001 x 2001 points."""
    deviations = 0.8, 1.7
    points = torch.linspace(-8, 8, 2001, dtype=torch.float64)
    chance = torch.exp(-points.square() / 2)
    chance = chance / chance.sum()
    first = (means[0] + deviations[0] * points).clamp_min(0)[:, None]
    rest = correlation * points[:, None] + math.sqrt(1 - correlation**2) * points
    second = (means[1] + deviations[1] * rest).clamp_min(0)
    weights = chance[:, None] * chance
    expected = (weights * first * second).sum() - (weights * first).sum() * (weights * second).sum()
    cross = correlation * deviations[0] * deviations[1]
    spread = torch.tensor([[[deviations[0] ** 2, cross], [cross, deviations[1] ** 2]]], dtype=torch.float64)
    center, found = rectified(torch.tensor([means], dtype=torch.float64), spread)
    close(center[0], torch.stack([(weights * first).sum(), (weights * second).sum()]), 1e-5)
    close(found[0, 0, 1], expected, 1e-5, scale=deviations[0] * deviations[1])  # kinks cost the grid its order
    close(found[0, 0, 0], (weights * first.square()).sum() - center[0, 0] ** 2, 1e-5, scale=deviations[0] ** 2)


@pytest.mark.parametrize("kind", ["full", "diagonal"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_closure_does_not_depend_on_units(kind, dtype):
    """Powers of two change no digit: every step is homogeneous, and inputs without noise stand at zero variance."""
    inputs, law = (
        normal(1, 4, INPUTS).to(dtype),
        Product([Bernoulli(0.0, INPUTS), Bernoulli(0.5, 3), Bernoulli(0.3, 2)]),
    )
    net = relu_network()
    weights = [part.to(dtype) for part in net.weights]
    answers = []
    for unit in (1.0, 2.0**-40, 2.0**30):
        biases = [unit * part.to(dtype) for part in net.biases]
        found = predictive(ReLUNet(weights, biases), unit * inputs, law, Closure(kind, check=None))
        answers.append((found.mean.value / unit, found.variance.value / unit**2))
    for mean, variance in answers[1:]:
        assert torch.equal(mean, answers[0][0])
        assert torch.equal(variance, answers[0][1])


@pytest.mark.parametrize("full", [True, False])
def test_rectified_moments_have_derivatives_where_nothing_moves(full):
    mean = torch.tensor([[1.5, -0.7, 0.2]], dtype=torch.float64, requires_grad=True)
    variance = torch.tensor([[0.0, 0.5, 1e-12]], dtype=torch.float64)
    parts = rectified(mean, torch.diag_embed(variance) if full else variance)
    (slope,) = torch.autograd.grad(parts[0].sum() + parts[1].sum(), mean)
    assert torch.isfinite(slope).all()
    own = torch.diagonal(parts[1], dim1=-2, dim2=-1) if full else parts[1]
    assert own[0, 0] == 0
    close(own[0, 2], variance[0, 2], 1e-14)  # always on: the variance to rounding, not to that of the squared mean


def test_a_network_that_never_switches_is_carried_exactly():
    """Biases hold every unit on, forty deviations from its kink: what masks do is then linear, layer by layer."""
    weights = [normal(6, INPUTS), normal(5, 6, seed=1), normal(2, 5, seed=2)]
    law = Product([Bernoulli(0.2, INPUTS), Bernoulli(0.4, 6), Bernoulli(0.0, 5)])
    offsets = [torch.full((6,), 1e3).double(), torch.full((5,), 1e6).double()]
    model = ReLUNet(weights, [*offsets, torch.zeros(2).double()])
    inputs = skewed_inputs()
    found = predictive(model, inputs, law, Closure(check=None))
    exact = predictive(model, inputs, law)
    close(found.mean.value, exact.mean.value, 1e-10)
    close(found.variance.value, exact.variance.value, 1e-9)
    lost = predictive(model, inputs, law, Closure("diagonal", check=None)).variance.value
    assert float((lost / exact.variance.value - 1).abs().max()) > 0.05  # units share their inputs


def test_the_diagonal_closure_layer_by_layer():
    """One example, one unit after the other: scaled by its mask, summed with squared weights, rectified on its own."""
    model, inputs = relu_network(), skewed_inputs()
    found = predictive(model, inputs, LAW, Closure("diagonal", check=None))
    means, variances = inputs[2].tolist(), [0.0] * INPUTS
    for number, (weight, bias, law) in enumerate(zip(model.weights, model.biases, LAW.laws, strict=True)):
        if number:
            units = [torch.distributions.Normal(m, math.sqrt(v)) for m, v in zip(means, variances, strict=True)]
            grids = [torch.linspace(-9, 9, 40_001).double() * unit.stddev + unit.mean for unit in units]
            chances = [unit.log_prob(grid).exp() for unit, grid in zip(units, grids, strict=True)]
            moments = [
                [float(torch.trapezoid(c * g.clamp_min(0) ** k, g)) for k in (1, 2)]
                for c, g in zip(chances, grids, strict=True)
            ]
            means, variances = [m for m, _ in moments], [s - m**2 for m, s in moments]
        ratio = float(law.drop[0] / (1 - law.drop[0]))
        noisy = [v + ratio * (v + m**2) for m, v in zip(means, variances, strict=True)]
        means = [sum(w * m for w, m in zip(row, means, strict=True)) for row in weight.tolist()]
        means = [m + b for m, b in zip(means, bias.tolist(), strict=True)]
        variances = [sum(w**2 * v for w, v in zip(row, noisy, strict=True)) for row in weight.tolist()]
    close(found.mean.value[2], means, 1e-6)
    close(found.variance.value[2], variances, 1e-6)


def test_masks_of_the_last_layer_alone_need_no_closure():
    model = relu_network()
    law = Product([Bernoulli(0.0, INPUTS), Bernoulli(0.0, 3), Bernoulli(0.3, 2)])
    exact = predictive(model, skewed_inputs(), law)
    for method in (Closure("full", None), Closure("diagonal", None), SecondOrder(None)):
        found = predictive(model, skewed_inputs(), law, method)
        close(found.mean.value, exact.mean.value, 1e-12)
        close(found.variance.value, exact.variance.value, 1e-12)


@pytest.mark.parametrize("name", laws(3))
def test_first_order_is_exact_for_outputs_linear_in_the_mask(name):
    model, law = TwoLayerLinear(normal(2, 3), normal(INPUTS, 3)), laws(3)[name]
    found = predictive(model, skewed_inputs(), law, SecondOrder(None))
    close(found.variance.value, predictive(model, skewed_inputs(), law).variance.value, 1e-12)


def test_first_order_of_a_module_by_differences():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Dropout(0.2), nn.Linear(3, 4), nn.Tanh(), nn.Dropout(0.4), nn.Linear(4, 2)).double()
    x = normal(5, 3)
    found = predictive(module, x, method=SecondOrder(None)).variance.value
    step, expected = 1e-5, []
    plain = module.eval()[:-2]
    with torch.no_grad():
        for unit in range(3):
            moved = torch.ones(3).double()
            moved[unit] += step
            up, down = (module(x * z) for z in (moved, 2 - moved))
            expected.append(0.25 * ((up - down) / (2 * step)).square())
        head = plain(x).square() @ (0.4 / 0.6 * module[-1].weight.square()).mT
    close(found, sum(expected) + head, 1e-8)


@pytest.mark.parametrize("method", [Closure(check=MonteCarlo(64)), SecondOrder(MonteCarlo(64))], ids=str)
def test_a_check_gives_its_interval_and_says_how_far_off(method):
    model = relu_network()
    found = predictive(model, skewed_inputs(), LAW, method).variance
    masks = predictive(model, skewed_inputs(), LAW, MonteCarlo(64)).variance
    close(found.upper, masks.upper, 1e-12)
    assert found.confidence == 0.99
    ratio = float(torch.log(masks.value / found.value).mean().exp())
    assert f"{ratio:.2f} times this" in found.method
    assert found.method.startswith("approximation")
    silent = predictive(model, skewed_inputs(), LAW, type(method)(check=None)).variance
    assert silent.confidence == 0.0
    assert "not measured" in silent.method


def test_refusals():
    with pytest.raises(ValueError, match="kind must be 'diagonal' or 'full'"):
        Closure("half")
    model = DeepLinear([normal(3, 4), normal(2, 3)])
    with pytest.raises(NoClosedForm, match="one ReLUNet"):
        predictive(model, normal(5, 4), Bernoulli(0.5, 3), Closure())
    with pytest.raises(NoClosedForm, match="alone"):
        predictive(relu_network(), skewed_inputs(), LAW, Closure()).covariance
    with pytest.raises(ValueError, match="for a module"):
        predictive(nn.Sequential(nn.Dropout(0.5), nn.Tanh(), nn.Linear(3, 2)), torch.ones(4, 3), method=Closure())


def test_slopes_are_finite_where_two_units_are_the_same():
    weight = torch.ones(2, 3, dtype=torch.float64, requires_grad=True)
    net = ReLUNet([weight, torch.ones(1, 2).double()], [torch.zeros(2).double(), torch.zeros(1).double()])
    found = predictive(
        net, torch.ones(1, 3).double(), Product([Bernoulli(0.3, 3), Bernoulli(0.2, 2)]), Closure(check=None)
    )
    (slope,) = torch.autograd.grad(found.variance.value.sum(), weight)
    assert torch.isfinite(slope).all()
