"""Derivatives in everything the mathematics is smooth in: rates, weights, second moments, where values coincide too."""

import pytest
import torch
from cases import normal
from compare import close
from torch.autograd import forward_ad

from droptics.data import Moments
from droptics.envelopes import envelope, induced
from droptics.linalg import k_support_shrink, psd_inverse_root, psd_root
from droptics.linalg.rotations import equalize_columns
from droptics.masks import Bernoulli, Product
from droptics.models import Connections, DeepLinear, TwoLayerLinear
from droptics.penalties import penalty

RATES = torch.tensor([0.3, 0.6, 0.2], dtype=torch.float64)


def symmetric(part):
    return (part + part.mT) / 2


@pytest.mark.parametrize("function", [psd_root, psd_inverse_root])
@pytest.mark.parametrize("values", [(1.0, 1.0, 1.0), (2.0, 2.0, 0.5), (3.0, 1.0, 0.2)])
def test_roots_have_derivatives_where_eigenvalues_coincide(function, values):
    rotation = torch.linalg.qr(normal(3, 3)).Q
    matrix = (rotation * torch.tensor(values, dtype=torch.float64)) @ rotation.mT
    step = torch.zeros(3, 3, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda part: function(matrix + symmetric(part)), (step,))


def test_the_derivative_of_a_root_moves_within_the_range_of_a_singular_matrix():
    factor = normal(4, 2).requires_grad_(True)
    assert torch.autograd.gradcheck(lambda part: psd_root(part @ part.mT), (factor,), atol=1e-5)
    assert torch.autograd.gradcheck(lambda part: psd_inverse_root(part @ part.mT), (factor,), atol=1e-4)


@pytest.mark.parametrize("question", [penalty, induced, envelope])
def test_derivatives_in_unequal_rates(question):
    model, data = TwoLayerLinear(normal(2, 3), normal(4, 3)), Moments.of_map(normal(2, 4))
    drop = RATES.clone().requires_grad_(True)
    assert torch.autograd.gradcheck(lambda rate: question(model, data, Bernoulli(rate, 3)).value, (drop,))


@pytest.mark.parametrize("question", [penalty, induced, envelope])
def test_derivatives_in_the_rate_of_dropconnect(question):
    model, data = Connections(normal(2, 3), normal(4, 3)), Moments.of_map(normal(2, 4))
    drop = torch.tensor(0.4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda rate: question(model, data, Bernoulli(rate, 12)).value, (drop,))


@pytest.mark.parametrize("question", [penalty, induced, envelope])
@pytest.mark.parametrize("deep", [False, True], ids=["two layers", "deep"])
def test_derivatives_in_second_moments_at_the_identity(question, deep):
    first, second, third = normal(3, 4), normal(3, 3), normal(2, 3)
    model = DeepLinear([first, second, third]) if deep else TwoLayerLinear(third, first.mT.contiguous())
    masks = Product([Bernoulli(0.3, 3), Bernoulli(0.5, 3)]) if deep else Bernoulli(0.3, 3)

    def value(part):
        moment = torch.eye(4, dtype=torch.float64) + symmetric(part)
        return question(model, Moments(moment, normal(2, 4), torch.eye(2, dtype=torch.float64)), masks).value

    step = torch.zeros(4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(value, (step,))


def test_the_deep_penalty_is_linear_in_the_moment_and_its_derivative_says_so_at_singular_ones():
    model = DeepLinear([normal(3, 4), normal(3, 3), normal(2, 3)], mask_inputs=True)
    masks = Product([Bernoulli(0.2, 4), Bernoulli(0.3, 3), Bernoulli(0.5, 3)])
    slopes = []
    for energies in ((1.0, 1.0, 1.0, 1.0), (1.0, 1.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0)):
        moment = torch.diag(torch.tensor(energies, dtype=torch.float64)).requires_grad_(True)
        data = Moments(moment, normal(2, 4), torch.eye(2, dtype=torch.float64))
        value = penalty(model, data, masks).value
        (slope,) = torch.autograd.grad(value, moment)
        close(value, (slope * moment).sum(), relative=1e-12, scale=1.0 + float(value.detach()))
        slopes.append(symmetric(slope))
    close(slopes[1], slopes[0], relative=1e-12)
    close(slopes[2], slopes[0], relative=1e-12)


DEEP = [normal(4, 5), normal(4, 4), normal(3, 4)]
POPULATION = Moments.of_map(normal(3, 5))
LAYERS = Product([Bernoulli(0.3, 4), Bernoulli(0.4, 4)])


@pytest.mark.parametrize(
    ("question", "point"),
    [
        (lambda first: penalty(DeepLinear([first, *DEEP[1:]]), POPULATION, LAYERS).value, DEEP[0]),
        (lambda values: k_support_shrink(values, 0.7, 2), torch.tensor([3.0, 2.0, 1.0, 0.5], dtype=torch.float64)),
        (lambda factor: equalize_columns(factor)[0].square().sum(0), normal(3, 4)),
    ],
    ids=["penalty", "shrinkage", "equalized norms"],
)
def test_forward_derivatives_are_not_lost_where_numbers_take_a_shorter_way(question, point):
    direction = normal(*point.shape)
    with forward_ad.dual_level():
        forward = forward_ad.unpack_dual(question(forward_ad.make_dual(point, direction))).tangent
    backward = torch.autograd.functional.jvp(question, point, direction)[1]
    assert forward is not None
    close(forward, backward, 1e-12)
