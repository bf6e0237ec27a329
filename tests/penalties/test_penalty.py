import itertools
import math

import pytest
import torch
from cases import (
    GAUSSIAN,
    INPUTS,
    OUTPUTS,
    deep_pairs,
    entries,
    laws,
    linear_pairs,
    normal,
    relu_network,
    sample,
    small_network,
    weighted_sample,
)
from compare import close, covers
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics.data import Moments, Sample
from droptics.errors import NoClosedForm, NoFiniteSupport
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, Product, SlidingBlock
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    LinearModel,
    Model,
    ReLUNet,
    TwoLayerLinear,
)
from droptics.penalties import (
    ClosedForm,
    Enumerate,
    MonteCarlo,
    best_method,
    criterion,
    effective_strength,
    penalty,
    risk,
    sub_penalties,
)

TRIPLES = {
    f"{name} x {label}": (model, data, law)
    for name, model, data in linear_pairs()
    for label, law in laws(model.units).items()
}
TRIPLES |= {name: (model, data, law) for name, model, data, law in deep_pairs()}


@pytest.mark.parametrize("name", TRIPLES)
def test_closed_form_equals_enumeration(name):
    model, data, law = TRIPLES[name]
    exact = penalty(model, data, law, ClosedForm())
    listed = penalty(model, data, law, Enumerate(limit=2**16))
    close(exact.value, listed.value)
    assert float(exact) >= 0
    close(criterion(model, data, law).value, exact.value + risk(model, data))


@pytest.mark.parametrize("name", TRIPLES)
def test_monte_carlo_covers_the_closed_form(name):
    """One draw per triple at 99.999 %: fixed seed, fixed size, one try."""
    model, data, law = TRIPLES[name]
    exact = penalty(model, data, law).value.detach()
    estimate = penalty(model, data, law, MonteCarlo(samples=400, seed=11, confidence=0.99999))
    covers(estimate, exact)
    assert estimate.guaranteed is not None
    low, high = estimate.guaranteed
    assert float(low) <= float(exact) <= float(high)


def test_monte_carlo_interval_has_its_confidence():
    """Coverage of 400 intervals at 90 % lies within four standard errors of 90 %."""
    model, law = TwoLayerLinear(normal(OUTPUTS, 5), normal(INPUTS, 5)), Bernoulli(0.3, 5)
    exact = float(penalty(model, sample(), law))
    hits = 0
    for seed in range(400):
        estimate = penalty(model, sample(), law, MonteCarlo(samples=200, seed=seed, confidence=0.9))
        hits += float(estimate.lower) <= exact <= float(estimate.upper)
    assert abs(hits / 400 - 0.9) <= 4 * math.sqrt(0.09 / 400)


def test_control_variate_reduces_the_interval_and_says_so():
    model, law = TwoLayerLinear(normal(OUTPUTS, 5), normal(INPUTS, 5)), Bernoulli(0.1, 5)
    shifted = Sample(sample().inputs, sample().targets + 100)
    estimate = penalty(model, shifted, law, MonteCarlo(samples=1000))
    # targets far away: what is left is the curvature, a thousandth of it
    assert "control variate leaves 0% of the variance" in estimate.method
    generator = torch.Generator().manual_seed(0)
    plain = torch.stack(
        [
            (model.outputs(shifted.inputs, z) - shifted.targets).square().sum(1).mean()
            for z in law.multipliers(1000, generator)
        ]
    )
    assert float(estimate.upper - estimate.lower) < 0.5 * 2 * 2.6 * float(plain.std()) / math.sqrt(1000)


def test_gaussian_masks_need_only_two_moments():
    model = TwoLayerLinear(normal(OUTPUTS, 5), normal(INPUTS, 5))
    law = GAUSSIAN(5)
    masks = Discrete(
        1 + torch.cat([torch.diag(law.variance.sqrt() * 5**0.5), -torch.diag(law.variance.sqrt() * 5**0.5)]),
        torch.ones(10).double() / 10,
    )
    close(penalty(model, sample(), law).value, penalty(model, sample(), masks).value)
    covers(penalty(model, sample(), law, MonteCarlo(400, confidence=0.9999)), penalty(model, sample(), law).value)
    # unbounded masks have no range, but two moments bound the penalty for certain
    low, high = penalty(model, sample(), law, MonteCarlo(50)).guaranteed
    assert float(low) <= float(penalty(model, sample(), law)) <= float(high)


@pytest.mark.parametrize(
    "name", [name for name in TRIPLES if ("unequal" in name or "deep" in name) and "last-layer" not in name]
)
def test_float32_to_its_own_precision(name):
    model, data, law = TRIPLES[name]
    single = _converted(model, torch.float32)
    value = penalty(single, data.to(torch.float32), law).value
    assert value.dtype == torch.float32
    close(value, penalty(model, data, law).value, 1e-5)


def _converted(model: Model, dtype: torch.dtype) -> Model:
    if isinstance(model, DeepLinear):
        return DeepLinear([weight.to(dtype) for weight in model.weights], model.mask_inputs)
    return type(model)(*(tensor.to(dtype) for tensor in model.tensors))


@pytest.mark.parametrize("build", [TwoLayerLinear, Connections, Factorization, "deep", "tied"], ids=str)
@pytest.mark.parametrize("method", [ClosedForm(), Enumerate()], ids=lambda method: type(method).__name__)
def test_gradients_equal_finite_differences(build, method):
    if build == "deep":
        tensors = [normal(3, INPUTS), normal(2, 3), normal(OUTPUTS, 2)]
        law = Product([SlidingBlock(0.3, 3, 2), Bernoulli(0.4, 2)])
        make, data = (lambda *w: DeepLinear(w)), sample()
    elif build == "tied":
        tensors, law, make, data = [normal(INPUTS, 3)], SlidingBlock(0.3, 3, 2), Autoencoder, sample(outputs=INPUTS)
    else:
        tensors = [normal(OUTPUTS, 2), normal(INPUTS, 2)]
        make, data, law = build, sample(), SlidingBlock(0.3, 2, 2)
        if build is Connections:
            law = SlidingBlock(0.3, 8, 2)
        if build is Factorization:
            tensors = [normal(6, 2), normal(5, 2)]
            data = entries()
    leaves = [tensor.requires_grad_(True) for tensor in tensors]
    assert torch.autograd.gradcheck(lambda *t: penalty(make(*t), data, law, method).value, leaves, atol=1e-6)


def test_monte_carlo_gradient_is_the_gradient_of_its_value():
    U, V = normal(OUTPUTS, 2).requires_grad_(True), normal(INPUTS, 2)
    law, method = Bernoulli(0.3, 2), MonteCarlo(2000, seed=3)
    (slope,) = torch.autograd.grad(penalty(TwoLayerLinear(U, V), sample(), law, method).value, U)
    (exact,) = torch.autograd.grad(penalty(TwoLayerLinear(U, V), sample(), law).value, U)
    assert float((slope - exact).norm() / exact.norm()) < 0.15


def test_last_layer_penalty_trains_the_whole_network():
    network = small_network()
    value = penalty(LastLayer.of(network), sample(), Bernoulli(0.5, 5)).value
    value.backward()
    assert all(parameter.grad is not None for parameter in network[0].parameters())


def test_penalty_is_differentiable_in_the_rate():
    rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    model = TwoLayerLinear(normal(OUTPUTS, 5), normal(INPUTS, 5))
    (slope,) = torch.autograd.grad(penalty(model, sample(), Bernoulli(rate, 5)).value, rate)
    energy = penalty(model, sample(), Bernoulli(0.5, 5)).value
    close(slope, energy / 0.7**2)


RELU = ReLUNet([normal(4, INPUTS), normal(2, 4, seed=1)])
INPUT = normal(7, INPUTS, seed=2)
RANDOM = {
    "linear": (TwoLayerLinear(normal(OUTPUTS, 5), normal(INPUTS, 5)), sample(), Squared(), lambda q: Bernoulli(q, 5)),
    "noise": (TwoLayerLinear(normal(OUTPUTS, 5), normal(INPUTS, 5)), sample(), Squared(), lambda q: Gaussian(q, 5)),
    "relu": (
        RELU,
        Sample(INPUT, normal(7, 2, seed=3)),
        Squared(),
        lambda q: Product([Bernoulli(q, INPUTS), Bernoulli(q, 4)]),
    ),
    "labels": (
        RELU,
        Sample(INPUT, torch.arange(7) % 2),
        CrossEntropy(),
        lambda q: Product([Bernoulli(0.2, INPUTS), Bernoulli(q, 4)]),
    ),
}


@pytest.mark.parametrize("asked", [penalty, criterion])
@pytest.mark.parametrize("name", RANDOM)
def test_a_derivative_in_the_law_of_random_masks_is_refused(name, asked):
    """Which units fall is a step in the rate: with draws held, a linear network had twice the slope."""
    model, data, loss, law = RANDOM[name]
    rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    value = asked(model, data, law(rate), MonteCarlo(40), loss).value
    with pytest.raises(NotImplementedError, match="random masks have no derivative in their law"):
        value.backward()


@pytest.mark.parametrize(
    "method", [ClosedForm(), Enumerate(), MonteCarlo(10)], ids=lambda method: type(method).__name__
)
def test_rate_zero_gives_exactly_zero(method):
    for model, law in (
        (TwoLayerLinear(normal(OUTPUTS, 5), normal(INPUTS, 5)), Bernoulli(0.0, 5)),
        (TwoLayerLinear(normal(OUTPUTS, 4), normal(INPUTS, 4)), Block(0.0, 4, 2)),
        (DeepLinear([normal(3, INPUTS), normal(OUTPUTS, 3)]), Bernoulli(0.0, 3)),
        (LastLayer.of(small_network()), Bernoulli(0.0, 5)),
    ):
        assert float(penalty(model, sample(), law, method)) == 0.0


@given(st.integers(20, 50))
@settings(deadline=None, max_examples=20)
def test_rates_near_one_stay_accurate(bits):
    keep = 2.0**-bits
    model = TwoLayerLinear(normal(OUTPUTS, 5), normal(INPUTS, 5))
    half = penalty(model, sample(), Bernoulli(0.5, 5)).value
    close(penalty(model, sample(), Bernoulli(1 - keep, 5)).value, half * (1 - keep) / keep, 1e-13)


@given(st.floats(1e-15, 1e-3))
@settings(deadline=None, max_examples=20)
def test_deep_penalty_of_tiny_rates_does_not_cancel(drop):
    """To first order the penalty is lambda R_1; the difference is below lambda^2 times the rest."""
    model = DeepLinear([normal(3, INPUTS), normal(2, 3), normal(OUTPUTS, 2)])
    law = Product([Bernoulli(drop, 3), Bernoulli(drop, 2)])
    unit = sub_penalties(model, sample(), Product([Bernoulli(0.5, 3), Bernoulli(0.5, 2)]))
    strength = drop / (1 - drop)
    close(penalty(model, sample(), law).value, strength * unit[0] + strength**2 * unit[1], 1e-12)


@pytest.mark.parametrize("mask_inputs", [False, True])
@pytest.mark.parametrize("examples", [3, 40])
def test_wide_deep_networks_are_summed_over_their_last_pivots(monkeypatch, mask_inputs, examples):
    """The route of wide layers on small ones: few and many examples, one rate, blocks and correlated neighbors."""
    monkeypatch.setattr("droptics.penalties.deep_linear.TINY", 0)
    model = DeepLinear([normal(3, 4), normal(4, 3), normal(2, 4)], mask_inputs)
    law = Product([SlidingBlock(0.4, 4, 2)] * mask_inputs + [Bernoulli(0.2, 3), Block(0.3, 4, 2)])
    data = Sample(normal(examples, 4), normal(examples, 2, seed=1))
    answer = penalty(model, data, law, ClosedForm())
    truth = penalty(model, data, law, Enumerate()).value
    close(answer.value, truth, 1e-13)
    assert abs(float(answer.value - truth)) <= 2 * answer.error


def test_zero_weights_cost_nothing():
    zero = TwoLayerLinear(torch.zeros(3, 5).double(), torch.zeros(4, 5).double())
    assert float(penalty(zero, sample(), Bernoulli(0.5, 5))) == 0
    assert float(penalty(zero, sample(), SlidingBlock(0.5, 5, 2))) == 0


def _pivot_sum(model, moments, strength):
    """R_l by its definition: a sum over all choices of pivot layers and nodes (thesis-prop8), exponential in depth."""
    weights, depth = model.weights, len(model.weights) - 1

    def between(last, first):
        product = weights[first]
        for i in range(first + 1, last + 1):
            product = weights[i] @ product
        return product

    terms = []
    for count in range(1, depth + 1):
        total = 0.0
        for layers in itertools.combinations(range(depth), count):
            for nodes in itertools.product(*(range(weights[layer].shape[0]) for layer in layers)):
                head = between(layers[0], 0)[nodes[0]]
                value = head @ moments.xx @ head
                for (a, i), (b, j) in itertools.pairwise(zip(layers, nodes, strict=True)):
                    value = value * between(b, a + 1)[j, i] ** 2
                value = value * between(depth, layers[-1] + 1)[:, nodes[-1]].square().sum()
                total = total + value
        terms.append(strength**count * total)
    return torch.stack(terms)


@pytest.mark.parametrize("widths", [(2,), (3, 2), (2, 3, 2), (2, 2, 2, 2)])
def test_sub_penalties_equal_the_exponential_sum(widths):
    sizes = (INPUTS, *widths, OUTPUTS)
    model = DeepLinear([normal(b, a, seed=i) for i, (a, b) in enumerate(itertools.pairwise(sizes))])
    law = Product([Bernoulli(0.3, width) for width in widths])
    moments = Moments.of_sample(weighted_sample())
    expected = _pivot_sum(model, moments, 0.3 / 0.7)
    close(sub_penalties(model, moments, law), expected)
    close(penalty(model, moments, law).value, expected.sum())


def test_dropconnect_is_the_true_regularizer_not_the_printed_one():
    """pal2020-thm4.1 as printed gives 8 here; the expectation over all 16 masks is 20 (per two examples)."""
    U = torch.tensor([[1.0, 0.0], [0.0, 2.0]]).double()
    V = torch.tensor([[1.0, 1.0], [1.0, -1.0]]).double()
    data = Sample(torch.ones(2, 2).double(), torch.zeros(2, 2).double())
    close(2 * penalty(Connections(U, V), data, Bernoulli(0.5, 4)).value, 20.0)
    close(2 * penalty(TwoLayerLinear(U, V), data, Bernoulli(0.5, 2)).value, 8.0)


def test_batched_networks_are_evaluated_one_by_one():
    U, V = normal(6, OUTPUTS, 5), normal(6, INPUTS, 5)
    for law in (Bernoulli(0.3, 5), SlidingBlock(0.3, 5, 2)):
        for method in (ClosedForm(), Enumerate()):
            together = penalty(TwoLayerLinear(U, V), sample(), law, method).value
            alone = torch.stack([penalty(TwoLayerLinear(u, v), sample(), law).value for u, v in zip(U, V, strict=True)])
            close(together, alone)
    covers(penalty(TwoLayerLinear(U, V), sample(), law, MonteCarlo(300, confidence=0.99999)), alone)


def test_other_losses_by_enumeration_and_sampling():
    labels = Sample(sample().inputs, torch.tensor([0, 1, 2, 2, 1, 0, 1]))
    model = LastLayer.of(small_network())
    law = Bernoulli(0.4, 5)
    exact = penalty(model, labels, law, Enumerate(), CrossEntropy())
    covers(penalty(model, labels, law, MonteCarlo(2000, confidence=0.9999), CrossEntropy()), exact.value.detach())
    assert float(exact) > 0, "the loss is convex in the outputs, whose mean is unchanged"
    signs = Sample(sample().inputs, torch.tensor([1.0, -1, 1, 1, -1, 1, -1]).double())
    single = TwoLayerLinear(normal(1, 3), normal(INPUTS, 3))
    assert float(penalty(single, signs, Bernoulli(0.5, 3), Enumerate(), Logistic())) > 0
    with pytest.raises(NoClosedForm, match="CrossEntropy"):
        penalty(model, labels, law, loss=CrossEntropy())


def test_effective_strength():
    close(effective_strength((5, 5, 5, 5, 5), 0.3), (1 + 3 / 7 / 5) ** 5 - 1)
    close(effective_strength([4], 1e-12), 1e-12 / 4, 1e-11)
    rates = torch.tensor([0.1, 0.5], dtype=torch.float64)
    close(effective_strength((3, 2), rates), (1 + 1 / 9 / 3) * (1 + 1 / 2) - 1)


def test_best_method_tells_what_applies():
    model = TwoLayerLinear(normal(OUTPUTS, 5), normal(INPUTS, 5))
    assert best_method(model, sample(), Bernoulli(0.5, 5)) == ClosedForm()
    deep = DeepLinear([normal(3, INPUTS), normal(2, 3), normal(OUTPUTS, 2)])
    assert isinstance(best_method(deep, sample(), SlidingBlock(0.5, 5, 2)), Enumerate)
    assert isinstance(best_method(deep, sample(), Gaussian(0.5, 5)), MonteCarlo)
    assert best_method(deep, sample(), Product([Gaussian(0.5, 3), Gaussian(0.1, 2)])) == ClosedForm()
    labels = Sample(sample().inputs, torch.zeros(7, dtype=torch.int64))
    assert isinstance(best_method(model, labels, Bernoulli(0.5, 5), CrossEntropy()), Enumerate)


def test_closed_form_refuses_what_it_does_not_cover():
    deep = DeepLinear([normal(3, INPUTS), normal(2, 3), normal(OUTPUTS, 2)])
    with pytest.raises(NoClosedForm, match=r"may correlate layers; use Enumerate\(limit=64\) or MonteCarlo"):
        penalty(deep, sample(), SlidingBlock(0.5, 5, 2))

    class Unknown(LinearModel):
        units, tensors, input_size, output_size = 3, (normal(2, 2),), INPUTS, OUTPUTS

        def outputs(self, inputs, multipliers=None):
            return inputs @ normal(INPUTS, OUTPUTS)

        def matrix(self):
            return normal(INPUTS, OUTPUTS).mT

    with pytest.raises(NoClosedForm, match="Unknown are not known to be linear in the mask"):
        penalty(Unknown(), sample(), Bernoulli(0.5, 3))


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda m: penalty(m, sample(), Bernoulli(0.5, 4)), ValueError, "masks has size 4, expected 5"),
        (lambda m: penalty(m, sample(features=3), Bernoulli(0.5, 5)), ValueError, "the model takes 4 features"),
        (lambda m: penalty(m, sample(outputs=2), Bernoulli(0.5, 5)), ValueError, "2 outputs but the model has 3"),
        (lambda m: penalty(m, sample().to(torch.float32), Bernoulli(0.5, 5)), ValueError, "data are torch.float32"),
        (lambda m: penalty(m, sample(), 0.5), ValueError, "masks must be a droptics MaskLaw, got float"),
        (lambda m: penalty(m, sample().inputs, Bernoulli(0.5, 5)), ValueError, "data must be a droptics Data"),
        (lambda m: penalty(m, sample(), Bernoulli(0.5, 5), "exact"), ValueError, "method must be"),
        (lambda m: penalty(m, sample(), Bernoulli(0.5, 5), Enumerate(limit=31)), ValueError, "has 32 masks, more than"),
        (
            lambda m: penalty(m, sample(), Bernoulli(0.5, 5), Enumerate(limit=31)),
            ValueError,
            r"use Enumerate\(limit=32\) if you can wait, ClosedForm\(\)",
        ),
        (
            lambda m: penalty(TwoLayerLinear(normal(3, 60), normal(4, 60)), sample(), Bernoulli(0.5, 60), Enumerate()),
            ValueError,
            r"has at least 2\^60 masks, more than the limit \d+ of Enumerate; use ClosedForm\(\)",
        ),
        (lambda m: penalty(m, sample(), Gaussian(0.5, 5), Enumerate()), NoFiniteSupport, "MonteCarlo"),
        (lambda m: MonteCarlo(samples=2), ValueError, "samples"),
        (lambda m: MonteCarlo(confidence=1.0), ValueError, "confidence"),
        (lambda m: Enumerate(limit=0), ValueError, "limit"),
        (
            lambda m: penalty(relu_network(), Moments.of_sample(sample()), Bernoulli(0.5, 9), Enumerate()),
            ValueError,
            "linear",
        ),
        (
            lambda m: penalty(Factorization(normal(6, 2), normal(5, 2)), sample(), Bernoulli(0.5, 2)),
            ValueError,
            "Entries",
        ),
        (lambda m: effective_strength((), 0.5), ValueError, "widths"),
        (lambda m: sub_penalties(m, sample(), Bernoulli(0.5, 5)), ValueError, "DeepLinear"),
    ],
)
def test_bad_input_is_named(build, error, message):
    with pytest.raises(error, match=message):
        build(TwoLayerLinear(normal(OUTPUTS, 5), normal(INPUTS, 5)))
