"""Points in their own units: the criterion stays up to one factor, and all moments have size one."""

import math
from itertools import pairwise

import pytest
import torch
from cases import normal
from compare import close

from droptics.data import Moments
from droptics.landscapes import critical_points, inspect
from droptics.landscapes.units import in_own_units
from droptics.masks import Bernoulli
from droptics.models import Autoencoder, DeepLinear, TwoLayerLinear
from droptics.penalties import criterion


@pytest.mark.parametrize("size", [1.0, 2.0**17, 3e-6])
def test_all_moments_change_by_the_same_units(size):
    X, Y = normal(20, 3) * torch.tensor([1e5, 1.0, 1e-3]), size * normal(20, 2)
    data = Moments(X.mT @ X / 20, Y.mT @ X / 20, Y.mT @ Y / 20)
    model, law = TwoLayerLinear(size * normal(2, 4), normal(3, 4) / X.std(0)[:, None]), Bernoulli(0.3, 4)
    moved, scaled = in_own_units(model, data)
    factor = float(criterion(model, data, law)) / float(criterion(moved, scaled, law))
    assert math.isclose(math.log2(factor) / 2, round(math.log2(factor) / 2), abs_tol=1e-9)
    close(scaled.yy * factor, data.yy)
    assert 0.25 < float(torch.trace(scaled.yy)) < 4


@pytest.mark.parametrize("hidden", [1, 2, 4])
def test_both_layers_of_every_node_have_nearly_the_same_size(hidden):
    """Norms end within a factor of four, however far apart the nodes of several hidden layers begin."""
    generator = torch.Generator().manual_seed(hidden)
    layers = [normal(3, 3, seed=k) for k in range(hidden + 1)]
    for k in range(hidden):
        nodes = 2.0 ** torch.randint(-9, 10, (3,), generator=generator).double()
        layers[k], layers[k + 1] = layers[k] * nodes[:, None], layers[k + 1] / nodes
    moved, _ = in_own_units(DeepLinear(layers), Moments.of_map(torch.eye(3).double()))
    for into, out in pairwise(moved.weights):
        # a factor is a power of two in (r, 2 r], r the root of the ratio, which moves the ratio to (1, 4]
        shares = into.norm(dim=1) / out.norm(dim=0)
        assert 0.25 <= float(shares.min()) <= float(shares.max()) <= 4


@pytest.mark.parametrize("energy", [2.5, 1e-3])
def test_critical_points_are_the_same_for_inputs_of_any_energy(energy):
    """On inputs of energy c the criterion is c times |M - U U^T|^2 + lambda sum |u_i|^4, but for a constant."""
    skew, odds = normal(3, 3, seed=3), 0.4 / 0.6
    matrix = torch.diag(torch.tensor([2.0, 1.3, -0.4]).double()) + skew - skew.mT
    data = Moments(energy * torch.eye(3).double(), energy * matrix, energy * matrix @ matrix.mT)
    points = critical_points(Autoencoder, data, Bernoulli(0.4, 2))
    assert len(points) > 5
    for point in points:
        U = point.model.U.clone().requires_grad_()
        value = (matrix - U @ U.mT).square().sum() + odds * U.square().sum(0).square().sum()
        (slope,) = torch.autograd.grad(value, U)
        # columns, eigenvectors and products of matrices of size three, rounded some tens of times
        close(slope, torch.zeros(3, 2), scale=1.0, relative=1e-12)
        close(point.objective, energy * value.detach(), 1e-12)


def test_slope_and_curvature_are_those_of_the_weights_as_they_are():
    """Kinds are told in other units, numbers are not: derivatives of the formula on inputs and targets of any size."""
    X, Y = normal(20, 3) * torch.tensor([1e2, 1.0, 1e-2]), 30 * normal(20, 2, seed=1)
    data, rates = Moments(X.mT @ X / 20, Y.mT @ X / 20, Y.mT @ Y / 20), torch.tensor([0.2, 0.5, 0.3, 0.1]).double()
    model = TwoLayerLinear(9 * normal(2, 4), normal(3, 4) / X.std(0)[:, None])

    def value(flat):
        U, V = flat[:8].reshape(2, 4), flat[8:].reshape(3, 4)
        W, energies = U @ V.mT, (V * (data.xx @ V)).sum(0)
        noise = (rates / (1 - rates) * U.square().sum(0) * energies).sum()
        return data.yy.trace() - 2 * (W * data.yx).sum() + ((W @ data.xx) * W).sum() + noise

    flat = torch.cat([part.flatten() for part in model.tensors]).requires_grad_()
    (slope,) = torch.autograd.grad(value(flat), flat)
    curvatures = torch.linalg.eigvalsh(torch.autograd.functional.hessian(value, flat.detach()))
    told = inspect(model, data, Bernoulli(rates, 4))
    assert told.kind == "not critical"
    assert told.gradient_norm == pytest.approx(float(slope.norm()), rel=1e-10)
    # the error of an eigenvalue is some roundings of the largest one
    assert told.curvature == pytest.approx(float(curvatures[0]), abs=1e-12 * float(curvatures[-1]))
    assert told.objective == pytest.approx(float(value(flat.detach())), rel=1e-12)
    assert float(curvatures[0]) < -1e-6 * float(curvatures[-1])


@pytest.mark.parametrize(
    ("least", "kind", "inertia"), [(1.0, "local maximum", (6, 0, 0)), (0.0, "strict saddle", (3, 3, 0))]
)
def test_zero_is_no_maximum_where_the_map_leaves_a_direction_open(least, kind, inertia):
    """The Hessian of a tied network at zero is -4 M for every column; where M is zero no symmetry makes it flat."""
    data = Moments.of_map(torch.diag(torch.tensor([2.0, least]).double()))
    found = inspect(Autoencoder(torch.zeros(2, 3).double()), data, Bernoulli(0.3, 3))
    assert (found.kind, found.inertia) == (kind, inertia)


def test_a_list_as_long_as_the_limit_is_given_and_a_longer_one_refused():
    data, law = Moments.of_map(torch.diag(torch.tensor([2.0, 1.0]).double())), Bernoulli(0.3, 2)
    count = len(critical_points(Autoencoder, data, law))
    assert len(critical_points(Autoencoder, data, law, limit=count)) == count
    with pytest.raises(ValueError, match="limit must be raised"):
        critical_points(Autoencoder, data, law, limit=count - 1)
