"""The pieces that the generic methods share: how many masks fit, what a batch looks like, what is refused."""

import itertools

import pytest
import torch
from cases import deep_pairs, entries, normal, sample, weighted_sample
from compare import close

from droptics.data import Measurements, Moments, Sample
from droptics.losses import CrossEntropy, Squared
from droptics.masks import Bernoulli, Block, Product
from droptics.models import DeepLinear, Factorization, LastLayer, Model, ReLUNet, TwoLayerLinear
from droptics.penalties import (
    ClosedForm,
    Enumerate,
    MonteCarlo,
    SecondOrder,
    best_method,
    closed_form,
    curvature,
    effective_strength,
    evaluation,
    penalty,
    risk,
    second_order,
    sub_penalties,
)
from droptics.penalties.closed_form import input_moment
from droptics.penalties.deep_linear import TINY, layer_laws
from droptics.penalties.evaluation import CHUNK_ELEMENTS, check_inputs, check_shapes, masked_risk
from droptics.penalties.expectations import _regress_out
from droptics.penalties.grams import feature_energies, feature_gram
from droptics.penalties.relu.sampling import _residuals
from droptics.penalties.rounding import output_bound


@pytest.mark.parametrize(
    ("model", "data", "elements"),
    [
        (TwoLayerLinear(normal(3, 5), normal(4, 5)), Sample(normal(7, 4), normal(7, 3)), 7 * 5),
        (TwoLayerLinear(normal(9, 5), normal(4, 5)), Sample(normal(7, 4), normal(7, 9)), 7 * 9),
        (TwoLayerLinear(normal(2, 1, 3, 5), normal(6, 4, 5)), Sample(normal(7, 4), normal(7, 3)), 7 * 5 * 12),
        (Factorization(normal(6, 2), normal(5, 2)), entries(), len(entries()) * 2),
    ],
)
def test_as_many_masks_at_a_time_as_fit_into_the_chunk(model, data, elements):
    evaluate, room = masked_risk(model, data, Squared())
    assert room == CHUNK_ELEMENTS // elements
    values = evaluate(torch.ones(3, model.units, dtype=torch.float64))
    assert values.shape == (3, *model.batch_shape)
    close(values[1], risk(model, data), relative=1e-13)


@pytest.mark.parametrize("data", [sample(), weighted_sample()])
@pytest.mark.parametrize("batch", [(), (2, 1)])
def test_second_moments_determine_the_risk_of_linear_networks(data, batch):
    model = TwoLayerLinear(normal(*batch, 3, 5), normal(*batch[:-1], 4, 5))
    errors = (data.inputs @ model.matrix().mT - data.targets).square().sum(-1)
    close(risk(model, data), (errors * data.shares).sum(-1), relative=1e-13)
    close(risk(model, Moments.of_sample(data)), (errors * data.shares).sum(-1), relative=1e-12)


def test_one_mask_at_a_time_when_even_that_is_too_much(monkeypatch):
    model, data = TwoLayerLinear(normal(3, 4), normal(4, 4)), sample()
    together = penalty(model, data, Bernoulli(0.3, 4), Enumerate()).value
    monkeypatch.setattr(evaluation, "CHUNK_ELEMENTS", 1)
    assert masked_risk(model, data, Squared())[1] == 1
    close(penalty(model, data, Bernoulli(0.3, 4), Enumerate()).value, together, relative=1e-13)


def test_moments_are_evaluated_on_examples_that_have_them():
    data = weighted_sample()
    model = TwoLayerLinear(normal(3, 5), normal(4, 5))
    evaluate, room = masked_risk(model, Moments.of_sample(data), Squared())
    assert room == CHUNK_ELEMENTS // ((4 + 3) * 5)
    z = 1 + normal(2, 5)
    expected = (data.shares * (model.outputs(data.inputs, z[:, None, :]) - data.targets).square().sum(-1)).sum(-1)
    close(evaluate(z), expected, relative=1e-11)
    with pytest.raises(ValueError, match="second moments only determine squared loss"):
        masked_risk(model, Moments.of_sample(data), CrossEntropy())


@pytest.mark.parametrize("data", [sample(), weighted_sample()])
def test_means_over_examples_count_each_by_its_share(data):
    features = normal(2, len(data), 3)
    expected = torch.einsum("n,bni,bnj->bij", data.shares, features, features)
    close(feature_gram(features, data), expected, relative=1e-13)
    close(feature_energies(features, data), expected.diagonal(dim1=-2, dim2=-1), relative=1e-13)
    model = TwoLayerLinear(normal(3, 5), normal(4, 5))
    close(input_moment(model, data), Moments.of(data).xx, relative=1e-13)


def test_only_what_is_compared_must_fit():
    network = ReLUNet([normal(3, 4), normal(2, 3)])
    labels = Sample(normal(5, 4), torch.zeros(5, dtype=torch.long))
    other = Sample(normal(5, 4), normal(5, 7))
    check_shapes(network, labels)
    check_inputs(network, other)
    with pytest.raises(ValueError, match="data have 7 outputs but the model has 2"):
        check_shapes(network, other)
    with pytest.raises(ValueError, match=r"data inputs have shape \(5, 2, 4\)"):
        check_inputs(network, Sample(normal(5, 2, 4), normal(5, 2)))
    check_inputs(LastLayer.of(torch.nn.Linear(4, 2).double()), Sample(normal(5, 2, 4), normal(5, 2)))


def test_precision_and_device_must_be_those_of_the_model():
    model = TwoLayerLinear(normal(3, 5), normal(4, 5))
    with pytest.raises(ValueError, match=r"data are torch\.float32 on cpu but the model is torch\.float64 on cpu"):
        check_inputs(model, sample().to(torch.float32))
    object.__setattr__(model, "U", model.U.to("meta"))  # weights without numbers stand for another device
    with pytest.raises(ValueError, match=r"on cpu but the model is torch\.float64 on meta"):
        check_inputs(model, sample())


def test_a_matrix_is_read_at_entries_or_through_measurements_of_its_shape():
    model = Factorization(normal(6, 2), normal(5, 2))
    check_inputs(model, entries())
    check_inputs(model, Measurements(normal(4, 6, 5), normal(4)))
    with pytest.raises(ValueError, match=r"matrix of shape \(5, 6\) but the factors give \(6, 5\)"):
        check_inputs(model, Measurements(normal(4, 5, 6), normal(4)))
    with pytest.raises(ValueError, match="data for Factorization must be Entries or Measurements, got Sample"):
        check_inputs(model, sample())


def test_the_defaults_are_those_of_the_documentation():
    assert (ClosedForm().seconds, ClosedForm().memory) == (120.0, 2**30)
    assert Enumerate().limit == 2**16
    assert MonteCarlo() == MonteCarlo(samples=1_000, seed=0, confidence=0.99)
    assert SecondOrder().check == MonteCarlo(samples=400)


def test_the_least_that_options_accept():
    assert ClosedForm(seconds=1e-3, memory=1).seconds == 1e-3
    assert MonteCarlo(samples=4).samples == 4
    for call in (lambda: MonteCarlo(samples=3), lambda: ClosedForm(seconds=0.0), lambda: Enumerate(limit=0)):
        with pytest.raises(ValueError, match=r"samples|seconds|limit"):
            call()


def test_the_longest_list_of_masks_is_enumerated_and_no_longer_one():
    def best(width):
        model = Custom(torch.ones(width, dtype=torch.float64))
        return best_method(model, Sample(normal(2, width), normal(2, 1)), Bernoulli(0.5, width))

    assert best(16) == Enumerate()
    assert best(17) == MonteCarlo()


class Custom(Model):
    """A family without a rule: the product of the masked inputs' sums."""

    def __init__(self, weight):
        self.weight = weight

    @property
    def units(self):
        return len(self.weight)

    @property
    def tensors(self):
        return (self.weight,)

    def outputs(self, inputs, multipliers=None):
        return (inputs * (1 if multipliers is None else multipliers)).sum(-1, keepdim=True).square()


@pytest.mark.parametrize("law", [Bernoulli(0.3, 7), Product([Bernoulli(0.2, 4), Block(0.4, 3, 3)])])
def test_networks_with_relu_equal_the_list_of_their_masks(law):
    network, data = (
        ReLUNet([normal(3, 4), normal(2, 3)]),
        Sample(normal(5, 4), normal(5, 2), torch.linspace(0.5, 2.0, 5).double()),
    )
    exact = penalty(network, data, law)
    close(exact.value, penalty(network, data, law, Enumerate()).value, relative=1e-11)
    labels = Sample(data.inputs, torch.tensor([0, 1, 1, 0, 1]))
    left = penalty(network, labels, law, ClosedForm(), CrossEntropy()).value
    close(left, penalty(network, labels, law, Enumerate(), CrossEntropy()).value, relative=1e-11)


def test_strengths_of_deep_envelopes_by_hand():
    close(effective_strength((4, 5), 0.5), (1 + 1 / 4) * (1 + 1 / 5) - 1, relative=1e-14)
    rates = torch.tensor([0.5, 0.75], dtype=torch.float64)
    close(effective_strength([4, 5], rates), (1 + 1 / 4) * (1 + 3 / 5) - 1, relative=1e-14)
    batch = effective_strength((4, 5), rates.expand(3, 2))
    close(batch, [(1 + 1 / 4) * (1 + 3 / 5) - 1] * 3, relative=1e-14)


def test_a_fitted_control_variate_counts_even_when_it_explains_nothing():
    value = torch.tensor([1.0, -1.0, -1.0, 1.0], dtype=torch.float64)
    control = torch.tensor([1.0, -1.0, 1.0, -1.0], dtype=torch.float64)
    (found,) = _regress_out(value, control)
    assert torch.equal(found.values, value)
    assert found.used == 1
    assert "leaves 100%" in found.note
    assert _regress_out(value, torch.zeros(4, dtype=torch.float64)) == []
    (found,) = _regress_out(3 * control + 5, control)
    close(found.values, torch.full((4,), 5.0), relative=1e-14)
    assert "leaves 0%" in found.note


def test_masks_are_drawn_in_pieces_that_fit(monkeypatch):
    model, law = TwoLayerLinear(normal(3, 5), normal(4, 5)), Bernoulli(0.3, 5)
    whole = penalty(model, sample(), law, MonteCarlo(samples=30))
    monkeypatch.setattr(evaluation, "CHUNK_ELEMENTS", 8 * len(sample()) * 5)  # eight masks at a time, then six
    found = penalty(model, sample(), law, MonteCarlo(samples=30))
    close(found.value, whole.value, relative=1e-12)
    close(found.upper, whole.upper, relative=1e-12)


def test_a_loss_that_ignores_the_masks():
    class Deaf(Custom):
        def outputs(self, inputs, multipliers=None):
            count = () if multipliers is None else multipliers.shape[:-2]
            return inputs.sum(-1, keepdim=True).expand(*count, len(inputs), 1)

    found = penalty(Deaf(torch.ones(4).double()), Sample(normal(2, 4), normal(2, 1)), Bernoulli(0.5, 4), MonteCarlo(20))
    assert float(found.value) == 0.0
    assert "control" not in found.method


def test_energies_of_a_family_of_your_own_are_the_diagonal_of_its_gram():
    class Family(Custom):
        pass

    gram = normal(2, 3, 4, 4)
    closed_form.unit_gram.register(Family)(lambda model, data: gram)
    found = closed_form.unit_energies(Family(torch.ones(4).double()), sample())
    assert torch.equal(found, torch.einsum("abii->abi", gram))


def test_one_hidden_layer_takes_any_law_on_its_units():
    model, law = DeepLinear([normal(3, 4), normal(3, 3)]), Product([Bernoulli(0.2, 2), Bernoulli(0.5, 1)])
    assert layer_laws(model, law) == (law,)
    close(penalty(model, sample(), law).value, penalty(model, sample(), law, Enumerate()).value, relative=1e-12)


def test_controls_are_removed_by_a_regression_with_an_intercept():
    control, value = normal(40, 3) + 1.0, normal(40)
    (found,) = _residuals(value, control)
    adjusted = found.values
    design = torch.cat([torch.ones(40, 1, dtype=torch.float64), control], 1)
    slopes = torch.linalg.lstsq(design, value[:, None]).solution[1:, 0]
    close(adjusted, value - control @ slopes, relative=1e-11)
    assert f"leave {float(adjusted.var() / value.var()):.0%} of the variance" in found.note
    assert found.used == 3
    assert len(_residuals(value[:32], control[:32])) == 1  # eight samples per coefficient, the mean included
    assert _residuals(value[:31], control[:31]) == []
    assert _residuals(value, control[:, :0]) == []


def test_second_order_on_a_last_layer_in_pieces(monkeypatch):
    model, law = LastLayer.of(torch.nn.Linear(4, 3).double()), Block(0.3, 4, 2)
    data = Sample(normal(6, 4), torch.tensor([0, 1, 2, 0, 1, 2]))
    whole = second_order(model, data, law, CrossEntropy())
    assert whole.cost == 1
    monkeypatch.setattr(curvature, "CHUNK_ELEMENTS", 24)  # two examples at a time
    close(second_order(model, data, law, CrossEntropy()).value, whole.value, relative=1e-13)


def test_the_measured_error_of_second_order_is_told_with_its_interval():
    model, data = ReLUNet([normal(3, 4), normal(2, 3)]), Sample(normal(5, 4), normal(5, 2))
    check = MonteCarlo(samples=50)
    answer = penalty(model, data, Bernoulli(0.3, 7), SecondOrder(check=check))
    truth = penalty(model, data, Bernoulli(0.3, 7), check)
    half = float(truth.upper - truth.lower) / 2
    error = float(answer) - float(truth)
    assert f"Monte Carlo says {float(truth):.6g} +- {half:.2g}, so its error is {error:+.3g}" in answer.method
    assert f"{error / abs(float(truth)):+.1%}" in answer.method
    close(answer.lower, truth.lower, relative=1e-12)
    close(answer.upper, truth.upper, relative=1e-12)
    assert answer.confidence == 0.99
    assert answer.cost == 4 * 7 + 50


@pytest.mark.parametrize("mask_inputs", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weighted", [False, True])
def test_small_and_large_networks_are_propagated_alike(mask_inputs, dtype, weighted):
    """Small ones without gradient go through NumPy; a gradient, a batch or a wide layer asks for torch."""
    inputs, width = sample().inputs.shape[1], TINY + 1
    sizes = (inputs, 3, 2, 3)
    weights = [normal(b, a, seed=i).to(dtype) for i, (a, b) in enumerate(itertools.pairwise(sizes))]
    masked = sizes[:-1] if mask_inputs else sizes[1:-1]
    law = Product([Bernoulli(0.1 * (i + 1), size) for i, size in enumerate(masked)])
    data = (weighted_sample() if weighted else sample()).to(dtype)
    small = penalty(DeepLinear(weights, mask_inputs), data, law).value
    assert (small.dtype, small.shape, small.requires_grad) == (dtype, (), False)
    tolerance = 20 * torch.finfo(dtype).eps
    wanted = penalty(DeepLinear([weight.requires_grad_() for weight in weights], mask_inputs), data, law).value
    assert wanted.requires_grad
    close(small, wanted, relative=tolerance)
    plain = [weight.detach() for weight in weights]
    close(penalty(DeepLinear([plain[0][None], *plain[1:]], mask_inputs), data, law).value, small[None], tolerance)
    wide = [plain[0], torch.cat([plain[1], plain[1].new_zeros(width - 2, 3)]), plain[2].new_zeros(3, width)]
    wide[2][:, :2] = plain[2]
    laws = [*law.laws[:-1], Bernoulli(float(law.laws[-1].drop[0]), width)]
    close(penalty(DeepLinear(wide, mask_inputs), data, Product(laws)).value, small, tolerance)


def test_largest_outputs_of_factorizations_and_last_layers():
    matrices, bound = normal(5, 6, 4), torch.linspace(0.5, 2.0, 3, dtype=torch.float64)
    factors = Factorization(normal(6, 3), normal(4, 3))
    worst = torch.einsum("nij,ik,jk,k->n", matrices.abs(), factors.U.abs(), factors.V.abs(), bound)
    close(output_bound(factors, matrices, bound).reshape(-1), worst, relative=1e-13)
    for bias in (False, True):
        layer = torch.nn.Linear(3, 2, bias=bias).double()
        inputs = normal(7, 3)
        offset = layer.bias.abs() if bias else 0.0
        worst = (inputs.abs() * bound) @ layer.weight.abs().mT + offset
        close(output_bound(LastLayer(layer, layer), inputs, bound), worst, relative=1e-13)


def test_controls_of_any_size_are_used():
    value, control = normal(9), 1e-9 * normal(9, seed=1)
    (found,) = _regress_out(value, control)
    (expected,) = _regress_out(value, 1e9 * control)
    close(found.values, expected.values, relative=1e-12)
    assert found.note == expected.note


def test_second_order_beside_a_penalty_of_zero():
    layer = torch.nn.Linear(3, 2).double()
    data = Sample(normal(5, 3), normal(5, 2))
    found = penalty(LastLayer(layer, layer), data, Bernoulli(0.0, 3), SecondOrder(MonteCarlo(10)))
    assert float(found.value.detach()) == 0.0
    assert "%" not in found.method


def test_sub_penalties_of_a_batch_are_those_of_its_members():
    for name, model, data, masks in deep_pairs():
        both = DeepLinear([torch.stack([weight, 2 * weight]) for weight in model.weights], model.mask_inputs)
        terms = sub_penalties(model, data, masks)
        wanted = torch.stack([terms, 4 ** len(model.weights) * terms])
        torch.testing.assert_close(sub_penalties(both, data, masks), wanted, rtol=1e-12, atol=0, msg=name)


def test_sub_penalties_of_correlated_laws_sum_to_the_penalty():
    for name, model, data, masks in deep_pairs():
        if name.startswith("deep-correlated"):
            close(sub_penalties(model, data, masks).sum(), penalty(model, data, masks).value, relative=1e-12)
