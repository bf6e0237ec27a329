"""The second-order penalty: exact for quadratic losses, right to third order elsewhere, honest about its error."""

from __future__ import annotations

import pytest
import torch
from cases import normal
from compare import close, covers
from torch import nn

from droptics.data import Sample
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw
from droptics.models import Autoencoder, LastLayer, ReLUNet, TwoLayerLinear
from droptics.models.site import Site
from droptics.penalties import (
    ClosedForm,
    Enumerate,
    MonteCarlo,
    SecondOrder,
    evaluation,
    penalty,
    second_order,
)
from droptics.penalties.second_order import second_derivatives

UNCHECKED = SecondOrder(check=None)


def body(outputs: int = 3) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(4, 6), nn.Tanh(), nn.Dropout(0.5), nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, outputs)
    ).double()


def labeled(classes: int = 3) -> Sample:
    return Sample(normal(7, 4), torch.arange(7) % classes, torch.linspace(0.5, 2, 7).double())


@pytest.mark.parametrize("law", [Bernoulli(torch.linspace(0, 0.6, 5).double(), 5), Block(0.3, 5, 5), Gaussian(0.4, 5)])
def test_exact_for_squared_loss(law: MaskLaw) -> None:
    model = LastLayer.of(body())
    data = Sample(normal(7, 4), normal(7, 3))
    close(penalty(model, data, law, UNCHECKED).value, penalty(model, data, law).value, 1e-12)
    linear = TwoLayerLinear(normal(3, 5), normal(4, 5))
    close(penalty(linear, data, law, UNCHECKED).value, penalty(linear, data, law).value, 1e-12)


@pytest.mark.parametrize("loss", [CrossEntropy(), Logistic()])
@pytest.mark.parametrize("law", [Bernoulli(0.3, 5), Block(0.3, 5, 5)])
def test_last_layer_formula_equals_derivatives(loss: Loss, law: MaskLaw) -> None:
    classes = 3 if isinstance(loss, CrossEntropy) else 1
    module = body(classes)
    targets = torch.arange(7) % 3 if classes == 3 else (torch.arange(7) % 2 * 2 - 1).double()
    data = Sample(normal(7, 4), targets)
    by_formula = second_order(LastLayer.of(module), data, law, loss).value
    through_network = second_order(Site.of(module, "4", data.inputs), data, law, loss).value
    close(by_formula, through_network, 1e-12)


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy(), Logistic()])
def test_hessians_by_formula_equal_automatic_ones(loss: Loss) -> None:
    outputs = normal(6, 1 if isinstance(loss, Logistic) else 4, seed=3)
    targets = {
        Squared: normal(6, 4),
        CrossEntropy: torch.arange(6) % 4,
        Logistic: torch.tensor([1.0, -1, 1, 1, -1, -1]).double(),
    }[type(loss)]
    automatic = Loss.hessian(loss, outputs, targets)
    close(loss.hessian(outputs, targets), automatic, 1e-12)
    directions = normal(outputs.shape[1], 5, seed=8)
    close(loss.curvatures(outputs, targets, directions), Loss.curvatures(loss, outputs, targets, directions), 1e-12)
    far = loss.hessian(50 * outputs, targets)
    assert bool(torch.isfinite(far).all())


@pytest.mark.parametrize("name", ["1", "2", "4"])
def test_a_site_anywhere_is_right_to_third_order(name: str) -> None:
    module, data = body(), labeled()
    model = Site.of(module, name, data.inputs)

    def error(size: float) -> float:
        # symmetric noise has no third moment, so the error is of fourth order: halving the noise divides it by 16
        signs = torch.cat([torch.eye(model.units), -torch.eye(model.units)]).double()
        law = Discrete(1 + size * signs, torch.full((len(signs),), 1 / len(signs), dtype=torch.float64))
        truth = penalty(model, data, law, Enumerate(), CrossEntropy()).value
        return abs(float((penalty(model, data, law, UNCHECKED, CrossEntropy()).value - truth).detach()))

    assert error(0.2) / error(0.1) == pytest.approx(16, rel=0.1)


def test_error_is_reported_beside_monte_carlo() -> None:
    module, data = body(), labeled()
    model, law = LastLayer.of(module), Bernoulli(0.5, 5)
    check = MonteCarlo(samples=500, seed=4)
    answer = penalty(model, data, law, SecondOrder(check), CrossEntropy())
    reference = penalty(model, data, law, check, CrossEntropy())
    covers(answer, penalty(model, data, law, Enumerate(), CrossEntropy()).value)
    close(answer.lower, reference.lower, 1e-14)
    assert answer.confidence == check.confidence
    assert "Monte Carlo says" in answer.method
    assert "error" in answer.method
    alone = penalty(model, data, law, UNCHECKED, CrossEntropy())
    close(alone.value, answer.value, 1e-14)
    assert alone.confidence == 0.0
    assert "not measured" in alone.method


def test_differentiable_in_weights_and_rate() -> None:
    module, data = body(), labeled()
    drop = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    parameters = [module[3].weight, module[5].weight]

    def value(model: LastLayer | Site) -> torch.Tensor:
        return penalty(model, data, Bernoulli(drop, 5), UNCHECKED, CrossEntropy()).value

    formula = torch.autograd.grad(value(LastLayer.of(module)), [*parameters, drop])
    through = torch.autograd.grad(value(Site.of(module, "4", data.inputs)), [*parameters, drop])
    for left, right in zip(formula, through, strict=True):
        close(left, right, 1e-11)


def test_networks_batches_and_kinks() -> None:
    model = ReLUNet([normal(2, 3, 4), normal(2, 2, 3)])
    data = Sample(normal(6, 4), normal(6, 2))
    both = penalty(model, data, Bernoulli(0.01, 7), UNCHECKED).value
    assert both.shape == (2,)
    for i in range(2):
        one = ReLUNet([weight[i] for weight in model.weights])
        close(both[i], penalty(one, data, Bernoulli(0.01, 7), UNCHECKED).value, 1e-12)
    tied = Autoencoder(normal(4, 3))
    data = Sample(normal(6, 4), normal(6, 4, seed=2))
    close(penalty(tied, data, Bernoulli(0.2, 3), UNCHECKED).value, penalty(tied, data, Bernoulli(0.2, 3)).value, 1e-12)


def test_no_noise_no_penalty() -> None:
    data = labeled()
    assert (
        float(penalty(LastLayer.of(body()), data, Bernoulli(0.0, 5), UNCHECKED, CrossEntropy()).value.detach()) == 0.0
    )
    model = Site.of(body(), "1", data.inputs)
    assert float(penalty(model, data, Bernoulli(0.0, 6), UNCHECKED, CrossEntropy()).value.detach()) == 0.0


class _NoForward(torch.autograd.Function):
    """x^3 with a backward pass only."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, upstream):  # type: ignore[no-untyped-def]
        (x,) = ctx.saved_tensors
        return upstream * 3 * x**2


def test_operators_without_forward_derivatives() -> None:
    def function(z: torch.Tensor) -> torch.Tensor:
        return torch.stack([_NoForward.apply(z).sum(), (2 * z).sum()])

    point = torch.tensor([1.0, 2.0]).double()
    found = second_derivatives(function, point, torch.eye(2).double(), 2)
    close(found, torch.tensor([[6.0, 0.0], [12.0, 0.0]]).double(), 1e-14)


class _Twice(torch.autograd.Function):
    """2 x with a backward pass only."""

    @staticmethod
    def forward(ctx, x):  # type: ignore[no-untyped-def]
        return 2 * x

    @staticmethod
    def backward(ctx, upstream):  # type: ignore[no-untyped-def]
        return 2 * upstream


@pytest.mark.parametrize("trained", [False, True])
def test_linear_functions_without_forward_derivatives_have_no_curvature(trained: bool) -> None:
    weight = torch.tensor([1.0, 3.0], dtype=torch.float64, requires_grad=trained)
    point = torch.tensor([1.0, 2.0], dtype=torch.float64)
    found = second_derivatives(lambda z: (weight * _Twice.apply(z)).sum(), point, torch.eye(2).double(), 2)
    assert found.tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("law", "rank"),
    [
        (Bernoulli(torch.tensor([0.3, 0.0, 0.5, 0.0, 0.2]).double(), 5), 3),
        (Block(0.3, 5, 5), 1),
        (Bernoulli(0.0, 5), 0),
    ],
)
def test_one_derivative_per_direction_of_the_noise(law: MaskLaw, rank: int) -> None:
    data = labeled()
    found = second_order(Site.of(body(), "4", data.inputs), data, law, CrossEntropy())
    assert found.cost == 4 * rank
    assert found.how.startswith(f"{rank} second derivatives")


def test_no_directions_no_derivatives() -> None:
    found = second_derivatives(lambda z: torch.stack([z.sum(), z.prod()]), normal(3), torch.zeros(0, 3).double(), 1)
    assert found.shape == (0, 2)


def test_site_masks_the_named_layer_and_restores_everything() -> None:
    module, data = body(), labeled()
    module.train()
    model = Site.of(module, "4", data.inputs)
    masks = Bernoulli(0.5, 5).multipliers(3, torch.Generator().manual_seed(0)).unsqueeze(1)
    close(model.outputs(data.inputs, masks), LastLayer.of(module).outputs(data.inputs, masks), 1e-14)
    assert module.training
    assert all(not layer._forward_hooks for layer in module)
    law = Bernoulli(0.3, 5)
    close(
        penalty(model, data, law, Enumerate(), CrossEntropy()).value,
        penalty(LastLayer.of(module), data, law, Enumerate(), CrossEntropy()).value,
        1e-12,
    )


def test_site_on_images() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Tanh(), nn.Flatten(), nn.Linear(12, 2)).double()
    data = Sample(normal(5, 1, 4, 4), normal(5, 2))
    entries = Site.of(module, "1", data.inputs)
    channels = Site.of(module, "1", data.inputs, channels=True)
    assert (entries.units, channels.units) == (12, 3)
    # a channel is a block of four entries that fall together; both equal the closed form of the last layer
    last = penalty(LastLayer.of(module), data, Block(0.3, 12, 4)).value
    close(penalty(entries, data, Block(0.3, 12, 4), Enumerate()).value, last, 1e-12)
    close(penalty(channels, data, Bernoulli(0.3, 3), Enumerate()).value, last, 1e-12)
    close(penalty(channels, data, Bernoulli(0.3, 3), UNCHECKED).value, last, 1e-12)


def test_bad_sites() -> None:
    module, data = body(), labeled()
    with pytest.raises(ValueError, match="name must be one of"):
        Site.of(module, "nothing", data.inputs)
    twice = nn.Linear(4, 4).double()
    with pytest.raises(ValueError, match="ran 2 times"):
        Site.of(nn.Sequential(twice, twice), "0", data.inputs)
    with pytest.raises(ValueError, match="SecondOrder"):
        penalty(LastLayer.of(module), data, Bernoulli(0.5, 5), ClosedForm(), CrossEntropy())


def test_directions_of_rates_of_every_size():
    """A unit that is almost never dropped beside units that almost always are."""
    rare = 1e-9
    law = Discrete(
        torch.tensor([[1.0, 1.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).double(),
        torch.tensor([rare, 1 - 2 * rare, rare], dtype=torch.float64),
    )
    rows, sizes = law.directions, law.characteristic.diagonal().sqrt()
    close((rows.mT @ rows) / sizes / sizes[:, None], law.characteristic / sizes / sizes[:, None], 1e-14)


def test_frozen_weights_belong_to_the_site() -> None:
    module, data = body(), labeled()
    model, law = Site.of(module, "4", data.inputs), Bernoulli(0.3, 5)
    free = penalty(model, data, law, UNCHECKED, CrossEntropy()).value
    module.requires_grad_(False)
    assert list(map(id, model.tensors)) == list(map(id, module.parameters()))
    close(penalty(model, data, law, UNCHECKED, CrossEntropy()).value, free.detach(), 1e-14)


def test_one_direction_at_a_time_where_no_more_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same sums in other blocks: 1e-12 of the value is thousands of roundings."""
    model, law = TwoLayerLinear(normal(3, 5), normal(4, 5)), Bernoulli(torch.linspace(0.1, 0.6, 5).double(), 5)
    whole = penalty(model, labeled(), law, UNCHECKED, CrossEntropy()).value
    for elements in (1, 3 * 7 * 5, 9 * 7 * 5):  # for no mask, for three and for nine
        monkeypatch.setattr(evaluation, "CHUNK_ELEMENTS", elements)
        close(penalty(model, labeled(), law, UNCHECKED, CrossEntropy()).value, whole, 1e-12)
