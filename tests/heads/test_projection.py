"""Variable projection: the top layer is exact, the gradient right, and dropout SGD stays above it."""

import numpy as np
import pytest
import torch

from droptics.coadaptation import coadaptation
from droptics.data import Sample
from droptics.heads.projection import _value_and_gradient, top_layer, variable_projection
from droptics.masks import Bernoulli, Block, Gaussian, Product
from droptics.models import ReLUNet
from droptics.penalties import Enumerate, criterion


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sample(n=40, d=3, outputs=2, weighted=False):
    weights = torch.rand(n, generator=torch.Generator().manual_seed(5), dtype=torch.float64) if weighted else None
    return Sample(randn(n, d) + 0.2, randn(n, outputs, seed=1), weights)


LAWS = [Bernoulli(0.5, 4), Bernoulli(torch.tensor([0.1, 0.3, 0.6, 0.0]), 4), Block(0.4, 4, 2), Gaussian(0.7, 4)]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_objective_equals_the_expected_dropout_loss(law, weighted):
    data, hidden = sample(weighted=weighted), randn(4, 3, seed=2)
    value, _, _ = _value_and_gradient(hidden, data, law)
    top = top_layer(torch.relu(data.inputs @ hidden.mT), data, law)
    share = np.full(40, 1 / 40) if data.weights is None else (data.weights / data.weights.sum()).numpy()
    features = torch.relu(data.inputs @ hidden.mT)
    risk = float((torch.tensor(share) * (features @ top.mT - data.targets).square().sum(1)).sum())
    gram = (features * torch.tensor(share)[:, None]).mT @ features
    noise = float((law.characteristic * (top.mT @ top) * gram).sum())
    assert value == pytest.approx(risk + noise, rel=1e-10)


def test_objective_equals_enumeration_over_masks():
    data, hidden, law = sample(), randn(4, 3, seed=2), Bernoulli(0.3, 4)
    value, _, _ = _value_and_gradient(hidden, data, law)
    model = ReLUNet([hidden, top_layer(torch.relu(data.inputs @ hidden.mT), data, law)])
    masks = Product([Bernoulli(0.0, 3), law])
    assert value == pytest.approx(float(criterion(model, data, masks, Enumerate(limit=16))), rel=1e-10)


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_top_layer_is_optimal(law):
    """No change of the top layer lowers the criterion: the quadratic has zero slope there."""
    data = sample()
    features = torch.relu(data.inputs @ randn(4, 3, seed=2).mT)
    top = top_layer(features, data, law).requires_grad_()
    gram = features.mT @ features / 40
    objective = (features @ top.mT - data.targets).square().sum(1).mean() + (
        law.characteristic * (top.mT @ top) * gram
    ).sum()
    (slope,) = torch.autograd.grad(objective, top)
    assert float(slope.abs().max()) < 1e-12


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_gradient_against_finite_differences(law, weighted):
    data, hidden = sample(weighted=weighted), randn(4, 3, seed=2)
    _, gradient, _ = _value_and_gradient(hidden, data, law)
    direction = randn(4, 3, seed=3)
    step = 1e-6
    ahead, _, _ = _value_and_gradient(hidden + step * direction, data, law)
    behind, _, _ = _value_and_gradient(hidden - step * direction, data, law)
    assert (ahead - behind) / (2 * step) == pytest.approx(float((gradient * direction).sum()), rel=1e-5, abs=1e-8)


@pytest.mark.parametrize("drop", [0.0, 0.5, 0.999])
def test_degenerate_hidden_layers(drop):
    """Dead units, copies of a unit, more units than examples: finite, least-norm, still optimal."""
    data = Sample(randn(5, 3).abs(), randn(5, 1, seed=1))
    hidden = torch.cat([-torch.ones(1, 3), torch.ones(2, 3), randn(6, 3, seed=4).abs()]).double()
    features = torch.relu(data.inputs @ hidden.mT)
    top = top_layer(features, data, Bernoulli(drop, 9))
    assert float(top[0, 0]) == 0.0
    assert bool(torch.isfinite(top).all())
    gram = features.mT @ features / 5
    system = gram + drop / (1 - drop) * torch.diag(gram.diagonal())
    right = features.mT @ data.targets / 5
    assert torch.allclose(system @ top.mT, right, atol=1e-7 * float(system.abs().max()))
    if drop > 0:
        assert float(top[0, 1]) == pytest.approx(float(top[0, 2]), rel=1e-6)


def test_width_one_has_the_shrunken_least_squares_answer():
    data = Sample(randn(30, 2), randn(30, 1, seed=1))
    features = torch.relu(data.inputs @ randn(1, 2, seed=2).mT)
    least_squares = float((features * data.targets).sum() / features.square().sum())
    assert float(top_layer(features, data, Bernoulli(0.25, 1))) == pytest.approx(0.75 * least_squares, rel=1e-12)


def teacher(n=200, d=5):
    x = randn(n, d)
    target = torch.relu(x @ randn(4, d, seed=8).mT) @ randn(4, 1, seed=9)
    return Sample(x, target + 0.1 * randn(n, 1, seed=10))


def test_descends_reports_truthfully_and_is_reproducible():
    data, law = teacher(), Bernoulli(0.5, 16)
    found = variable_projection(data, law, iterations=50, seed=1)
    values = [value for _, value in found.history]
    assert values == sorted(values, reverse=True)
    assert found.objective == pytest.approx(values[-1], rel=1e-9)
    masks = Product([Bernoulli(0.0, 5), law])
    enumerated = float(criterion(found.model, data, masks, Enumerate(limit=2**16)))
    assert enumerated == pytest.approx(found.objective, rel=1e-9)
    again = variable_projection(data, law, iterations=50, seed=1)
    assert torch.equal(again.model.weights[0], found.model.weights[0])
    longer = variable_projection(data, law, iterations=2000, tolerance=1e-14, seed=1)
    assert longer.objective < found.objective
    for each in (found, longer):  # the norm need not fall with the objective: it is that of the gradient, by autograd
        hidden, top = (weight.clone().requires_grad_() for weight in each.model.weights)
        features = torch.relu(data.inputs @ hidden.mT)
        value = (features @ top.mT - data.targets).square().mean() + (top.square() * features.square().mean(0)).sum()
        (slope,) = torch.autograd.grad(value, hidden)
        # the slope is a difference of sums of this size
        size = float((top.abs().amax() * data.inputs.abs().amax() * data.targets.abs().amax()).detach())
        assert each.gradient_norm == pytest.approx(float(slope.norm()), abs=1e-12 * len(data) * size)


def test_the_start_is_gaussian_of_variance_two_over_the_inputs():
    data, law = teacher(d=5), Bernoulli(0.5, 8)
    drawn = torch.randn(8, 5, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    given = variable_projection(data, law, drawn * (2 / 5) ** 0.5, iterations=1)
    found = variable_projection(data, law, iterations=1, seed=7)
    assert found.history[0][1] == pytest.approx(given.history[0][1], rel=1e-12)
    assert torch.allclose(found.model.weights[0], given.model.weights[0], rtol=1e-10)
    assert not found.converged
    assert variable_projection(data, law, iterations=2000, tolerance=1e-3, seed=7).converged


def sgd(data, drop, width, epochs, rate, seed):
    """Plain dropout SGD on the same architecture."""
    generator = torch.Generator().manual_seed(seed)
    d = data.inputs.shape[1]
    V = torch.randn(width, d, generator=generator, dtype=torch.float64) * (2 / d) ** 0.5
    U = torch.randn(1, width, generator=generator, dtype=torch.float64) / width**0.5
    for _ in range(epochs):
        for batch in torch.randperm(len(data), generator=generator).split(20):
            x, y = data.inputs[batch], data.targets[batch]
            z = (torch.rand(len(batch), width, generator=generator, dtype=torch.float64) >= drop) / (1 - drop)
            hidden = torch.relu(x @ V.mT)
            error = 2 * ((hidden * z) @ U.mT - y) / len(batch)
            slope = (error @ U) * z * (hidden > 0)
            U -= rate * error.mT @ (hidden * z)
            V -= rate * slope.mT @ x
    return ReLUNet([V, U])


def test_below_dropout_sgd_and_less_coadapted():
    data, law = teacher(), Bernoulli(0.5, 16)
    trained = sgd(data, 0.5, 16, epochs=60, rate=0.01, seed=0)
    features = torch.relu(data.inputs @ trained.weights[0].mT)
    risk = float((features @ trained.weights[1].mT - data.targets).square().mean())
    reached = risk + float((trained.weights[1][0].square() * features.square().mean(0)).sum())
    found = variable_projection(data, law, iterations=300, seed=0)
    assert found.objective < reached
    assert float(coadaptation(found.model, data)) > float(coadaptation(trained, data))


def test_refuses():
    data = sample()
    with pytest.raises(ValueError, match="hidden"):
        variable_projection(data, Bernoulli(0.5, 4), randn(3, 3))
    with pytest.raises(ValueError, match="hidden"):
        variable_projection(data, Bernoulli(0.5, 4), randn(4, 2))
    with pytest.raises(ValueError, match="iterations"):
        variable_projection(data, Bernoulli(0.5, 4), iterations=0)
    with pytest.raises(ValueError, match="data"):
        variable_projection(Sample(randn(3, 2), torch.tensor([0, 1, 0])), Bernoulli(0.5, 4))


@pytest.mark.parametrize("shift", [-40, 40])
def test_top_layer_in_other_units_and_in_float32(shift):
    """Units that agree to four digits are told apart in float32, and units of measurement play no part."""
    features = randn(50, 4, seed=3)
    features[:, 3] = features[:, 2] + 1e-4 * features[:, 3]
    data = Sample(features.float(), (features @ randn(4, 2, seed=4)).float())
    units = torch.tensor([1.0, 2.0**shift, 1.0, 1.0])
    expected = top_layer(data.inputs.double(), data.to(torch.float64), Bernoulli(0.0, 4))
    for scale in (torch.ones(4), units):
        found = top_layer(data.inputs * scale, data, Bernoulli(0.0, 4)) * scale
        assert found.dtype == torch.float32
        # the answer in float64, rounded
        assert float((found - expected).norm() / expected.norm()) <= 1e-6


def test_the_history_begins_at_the_start():
    data, law, start = teacher(), Bernoulli(0.5, 4), randn(4, 5, seed=2)
    found = variable_projection(data, law, start, iterations=3)
    features = torch.relu(data.inputs @ start.mT)
    weights = top_layer(features, data, law)
    value = (features @ weights.mT - data.targets).square().sum(1).mean() + (
        weights.square().sum(0) * features.square().mean(0)
    ).sum()
    assert found.history[0][0] == 0.0
    assert found.history[0][1] == pytest.approx(float(value), rel=1e-9)
