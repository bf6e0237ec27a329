"""Penalties where a small slip would go unnoticed: limits, weights of the interval, refusals of every family."""

import math

import numpy as np
import pytest
import torch
from cases import INPUTS, OUTPUTS, entries, normal, relu_network, sample, singular_moments, small_network
from compare import close
from scipy.stats import t as student

from droptics.data import Moments, Sample
from droptics.errors import NoClosedForm
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, Product
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    Model,
    ReLUNet,
    TwoLayerLinear,
)
from droptics.penalties import (
    ClosedForm,
    Enumerate,
    MonteCarlo,
    SecondOrder,
    best_method,
    criterion,
    evaluation,
    penalty,
    risk,
    sub_penalties,
)
from droptics.penalties.closed_form import unit_energies, unit_gram
from droptics.penalties.penalty import has_closed_form
from droptics.penalties.relu.criterion import relu_cost
from droptics.penalties.relu.effort import words


def two_layer(width=5):
    return TwoLayerLinear(normal(OUTPUTS, width), normal(INPUTS, width))


def test_limits_are_inclusive():
    exact = penalty(two_layer(), sample(), Bernoulli(0.5, 5), Enumerate(limit=32))
    close(exact.value, penalty(two_layer(), sample(), Bernoulli(0.5, 5)).value)
    assert exact.cost == 32
    assert exact.method == "enumeration of 32 masks"
    # one law over two layers has no closed form; 2^16 masks are within the default limit, 2^17 are not
    for second, kind in ((8, Enumerate), (9, MonteCarlo)):
        deep = DeepLinear([normal(8, INPUTS), normal(second, 8), normal(OUTPUTS, second)])
        assert isinstance(best_method(deep, sample(), Bernoulli(0.5, 8 + second)), kind)


def test_second_order_answers_with_and_without_its_check():
    model, law = two_layer(3), Bernoulli(0.3, 3)
    alone = penalty(model, sample(), law, SecondOrder(check=None))
    checked = penalty(model, sample(), law, SecondOrder(check=MonteCarlo(50)))
    exact = penalty(model, sample(), law)
    # the squared loss of a linear model has no further orders
    close(alone.value, exact.value)
    close(checked.value, exact.value)
    assert alone.cost < checked.cost
    assert bool(checked.lower < checked.upper)


def student_width(residuals, level, freedom):
    """Student's half width with the allowance for skewness, by NumPy."""
    count, quantile = len(residuals), student.ppf(level, freedom)
    variance = (residuals**2).sum() / freedom
    return quantile * math.sqrt(variance / count) + quantile**2 / 2 * abs((residuals**3).mean()) / variance / count


def test_student_interval_of_a_batch_is_the_textbook_one():
    """A batch goes without a control variate: mean +- t s / sqrt(n), and t^2 / 2 |third moment| / variance / n."""
    samples, confidence = 60, 0.9
    U, V = normal(2, OUTPUTS, 4), normal(2, INPUTS, 4)
    law = Bernoulli(0.4, 4)
    estimate = penalty(TwoLayerLinear(U, V), sample(), law, MonteCarlo(samples, seed=5, confidence=confidence))
    masks = law.multipliers(samples, torch.Generator().manual_seed(5))
    for i in range(2):
        model = TwoLayerLinear(U[i], V[i])
        plain = float(risk(model, sample()))
        values = np.array(
            [
                float((model.outputs(sample().inputs, z) - sample().targets).square().sum(1).mean()) - plain
                for z in masks
            ]
        )
        half = student_width(values - values.mean(), 0.95, samples - 1)
        close(estimate.value[i], values.mean())
        close(estimate.upper[i] - estimate.value[i], half, 1e-9)
        close(estimate.value[i] - estimate.lower[i], half, 1e-9)
    assert estimate.cost == samples
    assert estimate.confidence == confidence
    assert estimate.method == "Monte Carlo, 60 masks"


def test_control_variate_interval_is_that_of_a_regression():
    """The intercept of an ordinary regression on the first-order term, whose mean is zero, and its standard error."""
    samples, confidence = 50, 0.95
    model, law = two_layer(3), Bernoulli(0.3, 3)
    estimate = penalty(model, sample(), law, MonteCarlo(samples, seed=2, confidence=confidence))
    masks = law.multipliers(samples, torch.Generator().manual_seed(2))

    def loss(z):
        return (model.outputs(sample().inputs, z) - sample().targets).square().sum(1).mean()

    point = torch.ones(3, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(loss(point), point)
    values = np.array([float(loss(z)) for z in masks]) - float(loss(torch.ones(3).double()))
    control = ((masks - 1) @ slope).numpy()
    design = np.stack([np.ones(samples), control], 1)
    (intercept, weight), (residual,), *_ = np.linalg.lstsq(design, values, rcond=None)
    close(estimate.value, intercept)
    half = student_width(values - intercept - weight * control, 0.975, samples - 2)
    close(estimate.upper - estimate.value, half, 1e-9)
    share = residual / ((values - values.mean()) ** 2).sum()
    assert f"leaves {share:.0%} of the variance" in estimate.method


def test_guaranteed_interval_is_the_empirical_bernstein_bound():
    samples, confidence = 80, 0.9
    model, law, data = two_layer(4), Bernoulli(0.4, 4), sample()
    estimate = penalty(model, data, law, MonteCarlo(samples, seed=7, confidence=confidence))
    masks = law.multipliers(samples, torch.Generator().manual_seed(7))
    plain = risk(model, data)
    values = torch.stack([(model.outputs(data.inputs, z) - data.targets).square().sum(1).mean() - plain for z in masks])
    # |f| <= |x| |V| diag(1 / keep) |U|^T, so the loss of every mask lies in [0, top]
    most = (data.inputs.abs() @ model.V.abs() / 0.6) @ model.U.abs().mT
    top = float((most + data.targets.abs()).square().sum(1).mean())
    log_term = math.log(4 / (1 - confidence))
    width = math.sqrt(2 * float(values.var()) * log_term / samples) + 7 * top * log_term / (3 * (samples - 1))
    low, high = estimate.guaranteed
    # outputs linear in the mask: E |Delta|^2 at most (|x| |V| sqrt(lambda) |U|^T)^2, and no loss is negative
    spread = data.inputs.square().mean(0).sqrt() @ model.V.abs() * (0.4 / 0.6) ** 0.5 @ model.U.abs().mT
    certain = float(spread.square().sum())
    close(low, max(float(values.mean()) - width, -certain, -float(plain)), 1e-9)
    close(high, min(float(values.mean()) + width, certain), 1e-9)


@pytest.mark.parametrize(
    ("model", "data", "law"),
    [
        (Autoencoder(normal(INPUTS, 3)), sample(outputs=INPUTS), Bernoulli(0.4, 3)),
        (Connections(normal(OUTPUTS, 2), normal(INPUTS, 2)), sample(), Bernoulli(0.4, 8)),
        (Factorization(normal(6, 3), normal(5, 3)), entries(), Bernoulli(0.4, 3)),
        (DeepLinear([normal(3, INPUTS), normal(2, 3), normal(OUTPUTS, 2)]), sample(), Bernoulli(0.4, 5)),
        (LastLayer.of(small_network()), sample(), Bernoulli(0.4, 5)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_guaranteed_bound_holds_for_every_mask(model, data, law):
    """The bound on the outputs behind the guarantee, against all masks."""
    from droptics.penalties.rounding import output_bound

    most = output_bound(model, data.inputs, law.bound.to(torch.float64))
    for multipliers, _ in law.atom_batches(1):
        assert bool((model.outputs(data.inputs, multipliers[0]).abs() <= most * (1 + 1e-12)).all())


class Plain(Model):
    """A family nobody has rules for: the mask scales the inputs."""

    units, tensors = INPUTS, (normal(2, 2),)

    def outputs(self, inputs, multipliers=None):
        scaled = inputs if multipliers is None else inputs * multipliers
        return torch.tanh(scaled @ normal(INPUTS, OUTPUTS))


def test_unknown_families_have_no_guarantee_and_no_closed_form():
    estimate = penalty(Plain(), sample(), Bernoulli(0.4, INPUTS), MonteCarlo(20))
    assert estimate.guaranteed is None
    assert not has_closed_form(Plain(), Bernoulli(0.4, INPUTS))
    assert isinstance(best_method(Plain(), sample(), Bernoulli(0.4, INPUTS)), Enumerate)
    with pytest.raises(NoClosedForm, match="Plain"):
        unit_energies(Plain(), sample())


def test_masks_in_pieces_are_the_masks_together(monkeypatch):
    whole = penalty(two_layer(), sample(), Bernoulli(0.4, 5), Enumerate())
    monkeypatch.setattr(evaluation, "CHUNK_ELEMENTS", 3 * 7 * 5)  # three masks at a time: 32 is no multiple
    close(penalty(two_layer(), sample(), Bernoulli(0.4, 5), Enumerate()).value, whole.value)
    estimate = penalty(two_layer(), sample(), Bernoulli(0.4, 5), MonteCarlo(100, confidence=0.9999))
    assert bool(estimate.lower <= whole.value <= estimate.upper)
    assert estimate.cost == 100
    drawn = []

    class Counted(Bernoulli):
        def multipliers(self, count, generator=None):
            drawn.append(count)
            return super().multipliers(count, generator)

    penalty(two_layer(), sample(), Counted(0.4, 5), MonteCarlo(100))
    assert drawn == [3] * 33 + [1]


@pytest.mark.parametrize("weights", [None, torch.tensor([0.2, 1.0, 3.0]).double()])
@pytest.mark.parametrize("count", [3, 4])
def test_deep_networks_on_few_examples(weights, count):
    """At most as many examples as inputs: the examples are the factor themselves."""
    weights = weights if weights is None or count == 3 else torch.cat([weights, weights[:1]])
    data = Sample(normal(count, INPUTS), normal(count, OUTPUTS), weights)
    model = DeepLinear([normal(3, INPUTS), normal(2, 3), normal(OUTPUTS, 2)])
    law = Product([Bernoulli(0.3, 3), Block(0.4, 2, 2)])
    close(penalty(model, data, law).value, penalty(model, data, law, Enumerate()).value)


def test_sub_penalties_with_masked_inputs():
    model = DeepLinear([normal(3, INPUTS), normal(2, 3), normal(OUTPUTS, 2)], mask_inputs=True)
    terms = {}
    for strength in (0.5, 1.0):
        rate = strength / (1 + strength)
        law = Product([Bernoulli(rate, size) for size in (INPUTS, 3, 2)])
        terms[strength] = sub_penalties(model, singular_moments(), law)
        assert terms[strength].shape == (3,)
        close(terms[strength].sum(), penalty(model, singular_moments(), law, Enumerate()).value)
    # the l-th term is the l-th power of the strength times a number that does not depend on it
    close(terms[0.5], terms[1.0] * torch.tensor([0.5, 0.25, 0.125]).double())


def test_criterion_shifts_every_interval():
    model, law, method = two_layer(), Bernoulli(0.4, 5), MonteCarlo(40)
    base, moved, plain = (
        penalty(model, sample(), law, method),
        criterion(model, sample(), law, method),
        risk(model, sample()),
    )
    close(moved.value, base.value + plain)
    close(moved.lower, base.lower + plain)
    close(moved.upper, base.upper + plain)
    close(torch.stack(moved.guaranteed), torch.stack(base.guaranteed) + plain)


def test_best_method_of_relu_networks():
    assert best_method(relu_network(), sample(), Bernoulli(0.4, relu_network().units)) == ClosedForm()
    assert isinstance(best_method(relu_network(), sample(), Gaussian(0.4, relu_network().units)), MonteCarlo)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: unit_gram(two_layer(), entries()), "TwoLayerLinear must be Sample or Moments, got Entries"),
        (lambda: unit_energies(two_layer(), entries()), "TwoLayerLinear must be Sample or Moments, got Entries"),
        (lambda: unit_gram(Factorization(normal(6, 2), normal(5, 2)), sample()), "Entries or Measurements"),
        (
            lambda: unit_gram(LastLayer.of(small_network()), Moments.of_sample(sample())),
            "LastLayer must be Sample, got Moments",
        ),
        (
            lambda: sub_penalties(DeepLinear([normal(3, 4), normal(2, 3)]), entries(), Bernoulli(0.5, 3)),
            "DeepLinear must be Sample or Moments",
        ),
        (lambda: penalty(two_layer(), entries(), Bernoulli(0.5, 5)), "TwoLayerLinear must be Sample or Moments"),
        (
            lambda: penalty(Factorization(normal(4, 2), normal(5, 2)), entries(), Bernoulli(0.5, 2)),
            r"shape \(6, 5\) but the factors give \(4, 5\)",
        ),
        (lambda: risk(two_layer(), Moments.of_sample(sample()), CrossEntropy()), "only determine squared loss"),
        (
            lambda: penalty(relu_network(), Moments.of_sample(sample()), Bernoulli(0.5, 9)),
            "must be a Sample for ReLUNet",
        ),
        (lambda: penalty("net", sample(), Bernoulli(0.5, 5)), "model must be a droptics Model, got str"),
        (lambda: ClosedForm(seconds=0.0), "seconds must be positive"),
        (lambda: ClosedForm(memory=0), "memory"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_batches_of_dropconnect_networks_and_batches_of_one():
    U, V = normal(6, OUTPUTS, 2), normal(6, INPUTS, 2)
    for law in (Bernoulli(torch.linspace(0.1, 0.8, 8).double(), 8), Block(0.3, 8, 2)):
        together = penalty(Connections(U, V), sample(), law).value
        close(
            together, torch.stack([penalty(Connections(u, v), sample(), law).value for u, v in zip(U, V, strict=True)])
        )
    single = TwoLayerLinear(normal(1, OUTPUTS, 5), normal(1, INPUTS, 5))
    estimate = penalty(single, sample(), Bernoulli(0.4, 5), MonteCarlo(100, confidence=0.9999))
    exact = penalty(single, sample(), Bernoulli(0.4, 5)).value
    assert estimate.value.shape == exact.shape == (1,)
    assert bool(estimate.lower <= exact <= estimate.upper)


def test_laws_that_cannot_be_listed_are_sampled():
    net = relu_network()
    early = [Gaussian(0.5, size) for size in net.layer_units[:-1]]
    masks = Product([*early, Bernoulli(0.3, net.layer_units[-1])])
    assert isinstance(best_method(net, sample(), masks), MonteCarlo)
    assert isinstance(best_method(net, sample(), Bernoulli(0.3, net.units)), ClosedForm)


def test_outcomes_of_listed_laws_are_counted():
    """Early masks given as a list: the product of its length and of the coins of the last listed layer."""
    net = ReLUNet([normal(3, 2).abs(), normal(2, 3, seed=1).abs(), normal(1, 2, seed=2)])
    listed = Discrete(torch.tensor([[1.0, 1.0], [0.0, 1.0], [1.0, 0.0]]), torch.tensor([0.5, 0.25, 0.25]))
    data = Sample(torch.ones(1, 2).double(), torch.ones(1, 1).double())
    masks = Product([listed, Bernoulli(0.5, 3), Bernoulli(0.5, 2)])
    cost = relu_cost(net, data, masks)
    # all weights and inputs are positive, so that every hidden unit is alive under every listed mask
    assert cost.outcomes == pytest.approx(3 * 2**3)
    assert cost.seconds > 0
    close(penalty(net, data, masks).value, penalty(net, data, masks, Enumerate()).value, 1e-11)


@pytest.mark.parametrize(
    ("seconds", "text"), [(3.0, "3 s"), (3 * 3600.0, "3 hours"), (4 * 86400.0, "4 days"), (9.6e7, "3 years")]
)
def test_durations_for_people(seconds, text):
    assert words(seconds) == text
