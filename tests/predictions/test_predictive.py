"""Exact moments of masked predictions against a plain sum over all masks, for every family and every law."""

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
    skewed_inputs,
)
from compare import close, covers
from torch import nn

from droptics.data import Entries, Measurements, Moments, Sample
from droptics.errors import NoClosedForm, NoFiniteSupport
from droptics.masks import Bernoulli, Block, Discrete, Product, SlidingBlock
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    Model,
    ReLUNet,
    TwoLayerLinear,
)
from droptics.penalties import (
    Certified,
    ClosedForm,
    Enumerate,
    MonteCarlo,
    penalty,
    relu_criterion,
    sub_penalties,
    unit_energies,
    unit_gram,
    unit_outputs,
)
from droptics.penalties.relu.output_moments import relu_output_moments
from droptics.predictions import predictive
from droptics.predictions.deep_linear import deep_covariance, deep_variance

LINEAR = {name: (model, data) for name, model, data in linear_pairs() if not isinstance(data, Moments)}
TRIPLES = {
    f"{name} x {label}": (model, data, law)
    for name, (model, data) in LINEAR.items()
    for label, law in laws(model.units).items()
}
TRIPLES |= {name: (model, data, law) for name, model, data, law in deep_pairs() if not isinstance(data, Moments)}
RELU_LAWS = {
    "bernoulli": Product([Bernoulli(0.2, INPUTS), Bernoulli(0.5, 3), Bernoulli(torch.tensor([0.1, 0.7]).double(), 2)]),
    "correlated": Product(
        [SlidingBlock(0.2, INPUTS, 2), Discrete(normal(3, 3) + 2, torch.ones(3) / 3), Block(0.4, 2, 2)]
    ),
    "last-gaussian": Product([Block(0.3, INPUTS, 2), Bernoulli(0.5, 3), GAUSSIAN(2)]),
}
TRIPLES |= {
    f"relu x {label}": (relu_network(), Sample(skewed_inputs(), normal(7, OUTPUTS)), law)
    for label, law in RELU_LAWS.items()
    if label != "last-gaussian"
}


def brute(model, inputs, masks):
    """Mean and covariance by the definition: one mask after another, nothing shared with the library."""
    values = torch.stack([model.outputs(inputs, multipliers) for multipliers, _ in masks.atoms()]).double()
    chances = torch.tensor([chance for _, chance in masks.atoms()], dtype=torch.float64)
    mean = torch.einsum("t,tnk->nk", chances, values)
    moved = values - mean
    return mean, torch.einsum("t,tnk,tnl->nkl", chances, moved, moved)


@pytest.mark.parametrize("name", TRIPLES)
@pytest.mark.parametrize("method", [ClosedForm(), Enumerate()], ids=lambda method: type(method).__name__)
def test_moments_equal_the_sum_over_all_masks(name, method):
    model, data, law = TRIPLES[name]
    found = predictive(model, data.inputs, law, method)
    mean, covariance = brute(model, data.inputs, law)
    close(found.mean.value, mean, 1e-12)
    close(found.covariance.value, covariance, 1e-12)
    close(found.variance.value, torch.diagonal(covariance, dim1=-2, dim2=-1), 1e-12)
    assert found.variance.confidence == 1.0


@pytest.mark.parametrize("name", [name for name in TRIPLES if "relu" not in name])
def test_the_penalty_is_the_trace_averaged_over_examples(name):
    model, data, law = TRIPLES[name]
    weights = getattr(data, "weights", None)
    trace = predictive(model, data.inputs, law).variance.value.sum(-1)
    mean = trace.mean() if weights is None else (trace * weights).sum() / weights.sum()
    close(mean, penalty(model, data, law).value, 1e-12)


@pytest.mark.parametrize("name", LINEAR)
def test_gram_and_energies_are_averages_of_the_rule(name):
    model, data = LINEAR[name]
    each = unit_outputs(model, data.inputs).contributions
    weights = getattr(data, "weights", None)
    shares = (
        torch.full((len(each),), 1 / len(each), dtype=torch.float64) if weights is None else weights / weights.sum()
    )
    gram = torch.einsum("n,nki,nkj->ij", shares, each, each)
    close(unit_gram(model, data), gram, 1e-13)
    close(unit_energies(model, data), gram.diagonal(), 1e-13)
    silent = torch.zeros(model.units).double()
    close(model.outputs(data.inputs, silent) + each.sum(-1), model.outputs(data.inputs), 1e-13)


def test_a_family_with_a_head_of_its_own_for_every_example_states_the_same_rule():
    class Bilinear(Model):
        """x -> sum_j z_j (a_j . x) (B_j x): the outgoing vector of a unit depends on the example."""

        units, tensors = 3, (normal(3, INPUTS),)

        def outputs(self, inputs, multipliers=None):
            scaled = inputs @ self.tensors[0].mT * (1 if multipliers is None else multipliers)
            return torch.einsum("...nj,jki,ni->...nk", scaled, normal(3, OUTPUTS, INPUTS), inputs)

    @unit_outputs.register
    def _(model: Bilinear, inputs):
        head = torch.einsum("jki,ni->nkj", normal(3, OUTPUTS, INPUTS), inputs)
        return type(unit_outputs(TwoLayerLinear(normal(1, 1), normal(INPUTS, 1)), inputs))(
            inputs @ model.tensors[0].mT, head
        )

    data = Sample(skewed_inputs(), normal(7, OUTPUTS), torch.linspace(1, 3, 7).double())
    for law in laws(3).values():
        found = predictive(Bilinear(), data.inputs, law)
        mean, covariance = brute(Bilinear(), data.inputs, law)
        close(found.covariance.value, covariance, 1e-12)
        close(found.mean.value, mean, 1e-12)
        close(penalty(Bilinear(), data, law).value, penalty(Bilinear(), data, law, Enumerate()).value, 1e-12)


@pytest.mark.parametrize("mask_inputs", [False, True])
@pytest.mark.parametrize("correlated", [False, True])
def test_two_propagations_of_deep_networks_agree(mask_inputs, correlated):
    """Noise by its layer of origin, and E <- E + Cbar o (E + h h^T) at a mask, E <- W E W^T at a layer."""
    weights = [normal(5, INPUTS), normal(3, 5), normal(4, 3), normal(OUTPUTS, 4)]
    sizes = [INPUTS, 5, 3, 4] if mask_inputs else [5, 3, 4]
    masks = Product([Bernoulli(torch.linspace(0.05, 0.7, size).double(), size) for size in sizes])
    if correlated:
        masks = Product([*masks.laws[:-1], SlidingBlock(0.3, 4, 2)])
    model, inputs = DeepLinear(weights, mask_inputs), skewed_inputs()
    hidden, rest = (inputs, weights) if mask_inputs else (inputs @ weights[0].mT, weights[1:])
    excess = inputs.new_zeros(())
    for weight, law in zip(rest, masks.laws, strict=True):
        excess = excess + law.characteristic * (excess + hidden.unsqueeze(-1) * hidden.unsqueeze(-2))
        excess, hidden = weight @ excess @ weight.mT, hidden @ weight.mT
    close(deep_covariance(model, inputs, masks), excess, 1e-14)
    close(deep_variance(model, inputs, masks), torch.diagonal(excess, dim1=-2, dim2=-1), 1e-14)
    data = Sample(inputs, normal(7, OUTPUTS))
    traces = predictive(model, inputs, masks).variance.value.sum(-1)
    close(traces.mean(), sub_penalties(model, data, masks).sum(), 1e-13)


def test_small_rates_lose_no_digits():
    """The variance of order 1e-12 against a sum that keeps its leading terms only: 16 (units x rate) relative."""
    rate = 1e-12
    model = DeepLinear([normal(5, INPUTS), normal(3, 5), normal(OUTPUTS, 3)])
    found = predictive(model, skewed_inputs(), Product([Bernoulli(rate, 5), Bernoulli(rate, 3)]))
    first, second, last = model.weights
    hidden = skewed_inputs() @ first.mT
    terms = (hidden.square() @ (last @ second).square().mT) + (hidden @ second.mT).square() @ last.square().mT
    close(found.variance.value, rate * terms, 1e-9)
    relu = ReLUNet([normal(5, INPUTS), normal(OUTPUTS, 5)])
    law = Product([Bernoulli(rate, INPUTS), Bernoulli(rate, 5)])
    found = predictive(relu, skewed_inputs(), law)
    alone = torch.stack(
        [
            (relu.outputs(skewed_inputs(), 1 - torch.eye(9).double()[unit]) - relu.outputs(skewed_inputs())).square()
            for unit in range(9)
        ]
    )
    close(found.variance.value, rate * alone.sum(0), 1e-9)


@pytest.mark.parametrize("label", RELU_LAWS)
def test_the_walk_over_outcomes_gives_the_same_moments_as_the_direct_sum(label):
    model, inputs, law = relu_network(), skewed_inputs(), RELU_LAWS[label]
    direct = predictive(model, inputs, law)
    mean, covariance = relu_output_moments(model, inputs, law)
    close(mean, direct.mean.value, 1e-12)
    close(covariance, direct.covariance.value, 1e-12)


def test_copies_of_hidden_units_share_one_coin_in_the_walk():
    first, last = normal(2, INPUTS), normal(OUTPUTS, 2)
    model = ReLUNet([first.repeat_interleave(3, 0), last.repeat_interleave(3, 1)])
    law = Product([Bernoulli(0.3, INPUTS), Bernoulli(0.4, 6)])
    mean, covariance = relu_output_moments(model, skewed_inputs(), law)
    expected = brute(model, skewed_inputs(), law)
    close(mean, expected[0], 1e-12)
    close(covariance, expected[1], 1e-12)


@pytest.mark.parametrize("coins", [1, 2, 5])
def test_the_compiled_sum_of_one_hidden_layer_equals_the_sum_over_all_masks(coins):
    """Unequal rates, one of them zero; the second reading is the same network with a derivative asked for."""
    drop = torch.linspace(0, 0.6, coins + 1).double()
    law = Product([Bernoulli(drop, coins + 1), Bernoulli(torch.tensor([0.1, 0.5, 0.0, 0.3]).double(), 4)])
    model = ReLUNet([normal(4, coins + 1), normal(2, 4, seed=1)], [normal(4, seed=2), normal(2, seed=3) + 100])
    inputs = normal(6, coins + 1, seed=4)
    found = predictive(model, inputs, law)
    mean, covariance = brute(model, inputs, law)
    variance = torch.diagonal(covariance, dim1=-2, dim2=-1)
    close(found.mean.value, mean, 1e-12)
    close(found.variance.value, variance, 1e-12)
    asked = predictive(model, inputs.clone().requires_grad_(True), law)
    close(asked.variance.value.detach(), found.variance.value, 1e-12)


def test_the_criterion_of_a_relu_network_is_bias_and_trace():
    model, data, law = relu_network(), Sample(skewed_inputs(), normal(7, OUTPUTS)), RELU_LAWS["bernoulli"]
    found = predictive(model, data.inputs, law)
    distance = (found.mean.value - data.targets).square().sum(-1) + found.variance.value.sum(-1)
    close(relu_criterion(model, data, law), distance, 1e-12)


def test_many_inputs_take_the_walk():
    model = ReLUNet([normal(3, 18), normal(1, 3)], [normal(3), None])
    inputs, law = normal(2, 18), Product([Bernoulli(0.3, 18), Bernoulli(0.5, 3)])
    found = predictive(model, inputs, law)
    zero, one = (relu_criterion(model, Sample(inputs, torch.full((2, 1), y).double()), law) for y in (0.0, 1.0))
    mean = (zero - one + 1) / 2
    close(found.mean.value[:, 0], mean, 1e-12)
    close(found.variance.value[:, 0], zero - mean.square(), 1e-12, scale=float(zero.max()))
    assert "mask outcomes" in found.variance.method
    assert found.outcomes is None


def test_the_walk_tells_the_variance_of_every_output():
    """Eleven of eighteen inputs are 0, so that the masks of the others say all; rates of their own, three outputs."""
    rates, last = torch.linspace(0.05, 0.7, 18).double(), torch.tensor([0.5, 0.0, 0.3]).double()
    weights, biases = [normal(3, 18), normal(3, 3, seed=1)], [normal(3, seed=2), normal(3, seed=3)]
    few = normal(4, 7, seed=4)
    found = predictive(
        ReLUNet(weights, biases),
        nn.functional.pad(few, (0, 11)),
        Product([Bernoulli(rates, 18), Bernoulli(last, 3)]),
    )
    assert "mask outcomes" in found.variance.method
    small = ReLUNet([weights[0][:, :7], weights[1]], biases)
    mean, covariance = brute(small, few, Product([Bernoulli(rates[:7], 7), Bernoulli(last, 3)]))
    # sums over 2^10 masks at most, as many roundings
    close(found.mean.value, mean, 1e-12)
    close(found.covariance.value, covariance, 1e-12)
    close(found.variance.value, torch.diagonal(covariance, dim1=-2, dim2=-1), 1e-12)


FAMILIES = {
    "two-layer": (TwoLayerLinear, [(OUTPUTS, 3), (INPUTS, 3)], SlidingBlock(0.3, 3, 2)),
    "tied": (Autoencoder, [(INPUTS, 3)], Bernoulli(0.3, 3)),
    "connections": (Connections, [(OUTPUTS, 2), (INPUTS, 2)], Bernoulli(0.3, 8)),
    "deep": (
        lambda *w: DeepLinear(list(w), mask_inputs=True),
        [(3, INPUTS), (2, 3), (OUTPUTS, 2)],
        Product([Bernoulli(0.2, INPUTS), Bernoulli(0.3, 3), Bernoulli(0.4, 2)]),
    ),
    "deep-correlated": (
        lambda *w: DeepLinear(list(w)),
        [(3, INPUTS), (2, 3), (OUTPUTS, 2)],
        Product([SlidingBlock(0.3, 3, 2), Bernoulli(0.4, 2)]),
    ),
    "relu": (
        lambda *w: ReLUNet(list(w)),
        [(3, INPUTS), (2, 3), (OUTPUTS, 2)],
        Product([Bernoulli(0.2, INPUTS), Bernoulli(0.3, 3), Bernoulli(0.4, 2)]),
    ),
}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("method", [ClosedForm(), Enumerate()], ids=lambda method: type(method).__name__)
def test_gradients_equal_finite_differences(name, method):
    build, shapes, law = FAMILIES[name]
    tensors = [normal(*shape, seed=i).requires_grad_(True) for i, shape in enumerate(shapes)]
    inputs = skewed_inputs()[:2].clone().requires_grad_(True)

    def moments(inputs, *tensors):
        found = predictive(build(*tensors), inputs, law, method)
        return found.mean.value, found.variance.value, found.covariance.value

    assert torch.autograd.gradcheck(moments, (inputs, *tensors), rtol=1e-5)


def test_gradients_of_the_walk_and_of_the_rate():
    weights = [normal(3, INPUTS).requires_grad_(True), normal(2, 3).requires_grad_(True)]
    law = Product([Bernoulli(0.2, INPUTS), Bernoulli(0.3, 3)])

    def moments(*weights):
        return relu_output_moments(ReLUNet(list(weights)), skewed_inputs()[:2], law)

    assert torch.autograd.gradcheck(moments, weights, rtol=1e-5)
    model = TwoLayerLinear(normal(OUTPUTS, 3), normal(INPUTS, 3))

    def spread(drop):
        return predictive(model, skewed_inputs(), Bernoulli(drop, 3)).variance.value

    assert torch.autograd.gradcheck(spread, (torch.tensor([0.1, 0.5, 0.7]).double().requires_grad_(True),))


def test_batches_of_models_are_one_model_at_a_time():
    for name, (build, shapes, law) in FAMILIES.items():
        stacked = [normal(2, *shape, seed=i) for i, shape in enumerate(shapes)]
        both = predictive(build(*stacked), skewed_inputs(), law)
        for i in range(2):
            one = predictive(build(*(tensor[i] for tensor in stacked)), skewed_inputs(), law)
            for part in ("mean", "variance", "covariance"):
                close(getattr(both, part).value[i], getattr(one, part).value, 1e-12), name
    shared = TwoLayerLinear(normal(2, OUTPUTS, 3), normal(INPUTS, 3))
    for law in (Bernoulli(0.3, 3), SlidingBlock(0.3, 3, 2)):
        both = predictive(shared, skewed_inputs(), law).variance.value
        close(both[1], predictive(TwoLayerLinear(shared.U[1], shared.V), skewed_inputs(), law).variance.value, 1e-13)


def test_examples_in_parts_are_all_examples(monkeypatch):
    model, law = TwoLayerLinear(normal(OUTPUTS, 6), normal(INPUTS, 6)), SlidingBlock(0.3, 6, 2)
    deep = DeepLinear([normal(6, INPUTS), normal(2, 6), normal(OUTPUTS, 2)])
    deep_law = Product([SlidingBlock(0.3, 6, 2), Bernoulli(0.4, 2)])
    whole = [
        predictive(*case).covariance.value
        for case in ((model, skewed_inputs(), law), (deep, skewed_inputs(), deep_law))
    ]
    monkeypatch.setattr("droptics.predictions.affine.CHUNK_ELEMENTS", 40)
    monkeypatch.setattr("droptics.predictions.deep_linear.CHUNK_ELEMENTS", 80)
    monkeypatch.setattr("droptics.predictions.mixtures.CHUNK_ELEMENTS", 200)
    parts = [
        predictive(*case).covariance.value
        for case in ((model, skewed_inputs(), law), (deep, skewed_inputs(), deep_law))
    ]
    for left, right in zip(whole, parts, strict=True):
        close(left, right, 1e-14)
    relu = predictive(relu_network(), skewed_inputs(), RELU_LAWS["bernoulli"])
    monkeypatch.undo()
    close(
        relu.variance.value, predictive(relu_network(), skewed_inputs(), RELU_LAWS["bernoulli"]).variance.value, 1e-13
    )


def test_symmetries():
    U, V, inputs = normal(OUTPUTS, 5), normal(INPUTS, 5), skewed_inputs()
    drop = torch.linspace(0.1, 0.6, 5).double()
    base = predictive(TwoLayerLinear(U, V), inputs, Bernoulli(drop, 5)).variance.value
    order = torch.tensor([3, 0, 4, 1, 2])
    moved = predictive(TwoLayerLinear(U[:, order], V[:, order]), inputs, Bernoulli(drop[order], 5)).variance.value
    close(moved, base, 1e-13)
    close(predictive(TwoLayerLinear(7 * U, V), inputs, Bernoulli(drop, 5)).variance.value, 49 * base, 1e-13)
    half = predictive(TwoLayerLinear(U, V), inputs, Bernoulli(1 / 3, 5)).variance.value  # strength 1/2
    close(2 * half, predictive(TwoLayerLinear(U, V), inputs, Bernoulli(0.5, 5)).variance.value, 1e-13)
    never = predictive(relu_network(), inputs, Product([Bernoulli(0.0, n) for n in (INPUTS, 3, 2)]))
    assert float(never.variance.value.abs().max()) == 0.0
    assert torch.equal(never.std, torch.zeros_like(never.std))


def test_float32_to_its_own_precision():
    for name, (build, shapes, law) in FAMILIES.items():
        tensors = [normal(*shape, seed=i) for i, shape in enumerate(shapes)]
        single = predictive(build(*(t.float() for t in tensors)), skewed_inputs().float(), law)
        assert single.variance.value.dtype == torch.float32, name
        close(single.variance.value, predictive(build(*tensors), skewed_inputs(), law).variance.value, 1e-5)


def test_factorization_reads_pairs_and_measurements():
    factors = Factorization(normal(6, 4), normal(5, 4))
    found = predictive(factors, entries().inputs, Bernoulli(0.25, 4))
    data = entries()
    expected = (factors.U[data.rows] * factors.V[data.columns]).square().sum(-1, keepdim=True) / 3
    close(found.variance.value, expected, 1e-13)
    for kind in (torch.int32, torch.int16, torch.uint8):
        close(predictive(factors, data.inputs.to(kind), Bernoulli(0.25, 4)).variance.value, expected, 1e-13)
    assert isinstance(data, Entries)
    assert isinstance(LINEAR["factorization/measurements"][1], Measurements)


def test_refusals_say_what_to_do():
    model, inputs = TwoLayerLinear(normal(OUTPUTS, 3), normal(INPUTS, 3)), skewed_inputs()
    law = Bernoulli(0.3, 3)
    deep = DeepLinear([normal(2, INPUTS), normal(2, 2), normal(OUTPUTS, 2)])
    factors = Factorization(normal(6, 3), normal(5, 3))
    several = TwoLayerLinear(normal(2, OUTPUTS, 3), normal(2, INPUTS, 3))
    cases = [
        (lambda: predictive("net", inputs, law), ValueError, "model must be"),
        (lambda: predictive(model, inputs, 0.5), ValueError, "masks must be a droptics MaskLaw"),
        (lambda: predictive(model, inputs, Bernoulli(0.3, 4)), ValueError, "masks has size 4, expected 3"),
        (lambda: predictive(model, inputs[:, :2], law), ValueError, "inputs .columns. has size 2, expected 4"),
        (lambda: predictive(model, inputs[0], law), ValueError, "inputs must be .examples, features"),
        (lambda: predictive(model, inputs.float(), law), ValueError, "convert them with inputs.to"),
        (lambda: predictive(model, inputs * math.nan, law), ValueError, "inputs must be finite"),
        # outputs are finite, their squares are not
        (lambda: predictive(model, inputs * 1e200, law), ValueError, "too large for torch.float64"),
        (lambda: predictive(model, inputs, law, Certified()), ValueError, "method must be"),
        (lambda: predictive(model, inputs, law, Enumerate(limit=4)), ValueError, "more than the limit 4"),
        (lambda: predictive(model, inputs, GAUSSIAN(3), Enumerate()), NoFiniteSupport, "no finite list"),
        (lambda: predictive(deep, inputs, Block(0.5, 4, 4)), NoClosedForm, "one independent law per masked layer"),
        (lambda: predictive(factors, torch.ones(3, 3).long(), law), ValueError, "pairs .row, column."),
        (lambda: predictive(several, inputs, law, MonteCarlo()), ValueError, "one model at a time"),
    ]
    for call, error, text in cases:
        with pytest.raises(error, match=text):
            call()
    # as many masks as the limit are listed
    close(predictive(model, inputs, law, Enumerate(limit=8)).mean.value, model.outputs(inputs), 1e-12)


def test_a_law_across_layers_is_enumerated_and_sampled_as_a_whole():
    deep, inputs = DeepLinear([normal(2, INPUTS), normal(2, 2), normal(OUTPUTS, 2)]), skewed_inputs()
    law = Block(0.5, 4, 4)
    mean, covariance = brute(deep, inputs, law)
    close(predictive(deep, inputs, law, Enumerate()).covariance.value, covariance, 1e-12)
    found = predictive(deep, inputs, law, MonteCarlo(400, seed=3, confidence=0.99999))
    covers(found.mean, mean)


@pytest.mark.parametrize("name", [name for name in TRIPLES if "unequal" in name or "deep" in name or "relu" in name])
def test_monte_carlo_covers_the_exact_moments(name):
    """One draw per triple at 99.9999 %: fixed seed, fixed size, one try."""
    model, data, law = TRIPLES[name]
    exact = predictive(model, data.inputs, law)
    found = predictive(model, data.inputs, law, MonteCarlo(2000, seed=5, confidence=0.999999))
    covers(found.mean, exact.mean.value.detach())
    covers(found.variance, exact.variance.value.detach())


def test_plain_monte_carlo_has_the_right_spread():
    """z-scores of 400 runs of one output: their mean square within five standard errors of one (kurtosis 3)."""
    model, inputs = TwoLayerLinear(normal(1, 5), normal(INPUTS, 5)), skewed_inputs()[:1]
    law = Bernoulli(0.4, 5)
    exact = predictive(model, inputs, law)
    scores = []
    for seed in range(400):
        found = predictive(model, inputs, law, MonteCarlo(200, seed=seed))
        scores.append(float((found.mean.value - exact.mean.value) / (exact.std / math.sqrt(200))))
    assert abs(sum(score**2 for score in scores) / 400 - 1) <= 5 * math.sqrt(2 / 400)


def test_all_masks_of_linear_layers_give_what_the_closed_form_gives():
    model = DeepLinear([normal(3, 4), normal(2, 3, seed=1), normal(2, 2, seed=2)])
    inputs, masks = normal(5, 4, seed=3), Product([Bernoulli(0.3, 3), Bernoulli(0.4, 2)])
    closed, listed = predictive(model, inputs, masks), predictive(model, inputs, masks, Enumerate())
    close(listed.mean.value, closed.mean.value, 1e-12)
    close(listed.variance.value, closed.variance.value, 1e-12)
