"""Flows, co-adaptation, retentivity and sub-networks against direct evaluation."""

import itertools
import math

import numpy as np
import pytest
import torch
from cases import normal
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from droptics import coadaptation
from droptics.coadaptation import retention
from droptics.data import Entries, Moments, Sample
from droptics.masks import Bernoulli, Discrete
from droptics.models import Autoencoder, DeepLinear, LastLayer, ReLUNet, TwoLayerLinear
from droptics.penalties import penalty


def randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def sample(n=30, d=4, seed=0, weighted=False):
    weights = torch.rand(n, generator=torch.Generator().manual_seed(9), dtype=torch.float64) if weighted else None
    return Sample(randn(n, d, seed=seed) + 0.3, randn(n, 2, seed=seed + 1), weights)


def network(d=4, width=6, outputs=2, biases=False, depth=2):
    sizes = [d, *[width + i for i in range(depth - 1)], outputs]
    weights = [randn(b, a, seed=i) for i, (a, b) in enumerate(itertools.pairwise(sizes))]
    return ReLUNet(weights, [randn(b, seed=7 + i) for i, b in enumerate(sizes[1:])] if biases else None)


# ---------------------------------------------------------------- flows


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("depth", [2, 3])
def test_flows_of_relu_networks_by_hand(depth, biases, weighted):
    model, data = network(biases=biases, depth=depth), sample(weighted=weighted)
    share = np.full(30, 1 / 30) if data.weights is None else (data.weights / data.weights.sum()).numpy()

    def energies(inputs):
        value = inputs.numpy()
        for weight, bias in zip(model.weights[:-1], model.biases[:-1], strict=True):
            value = np.maximum(value @ weight.numpy().T + bias.numpy(), 0)
        return share @ value**2

    size = np.linalg.norm(model.weights[-1].numpy(), axis=0)
    plain = size * np.sqrt(energies(data.inputs))
    assert np.allclose(coadaptation.flows(model, data), plain, rtol=1e-12)
    even = size * np.sqrt((energies(data.inputs) + energies(-data.inputs)) / 2)
    assert np.allclose(coadaptation.flows(model, data, symmetrized=True), even, rtol=1e-12)


def test_symmetrized_flows_need_only_second_moments():
    model, data = network(), sample()
    expected = coadaptation.flows(model, coadaptation.symmetrize(data))
    assert torch.allclose(coadaptation.flows(model, data, symmetrized=True), expected, rtol=1e-12)
    assert torch.allclose(coadaptation.flows(model, Moments.of_sample(data), symmetrized=True), expected, rtol=1e-12)
    with pytest.raises(ValueError, match="Sample"):
        coadaptation.flows(model, Moments.of_sample(data))
    total, parts = expected.sum(), coadaptation.split(model, data, symmetrized=True)
    even = total / (6 * expected.square().sum()).sqrt()
    for measure, wanted in (
        (coadaptation.alpha, total),
        (coadaptation.coadaptation, even),
        (coadaptation.importance, expected / total),
    ):
        assert torch.allclose(measure(model, data, symmetrized=True), wanted, rtol=1e-12)
        assert not torch.allclose(measure(model, data), wanted, rtol=1e-3)
    assert (parts.alpha, parts.coadaptation) == pytest.approx((float(total), float(even)), rel=1e-12)


@pytest.mark.parametrize("model", [TwoLayerLinear(randn(2, 3), randn(4, 3)), Autoencoder(randn(4, 3))])
def test_squared_flows_are_dropout_energies(model):
    data = sample()
    data = Sample(data.inputs, randn(30, model.output_size))
    squares = coadaptation.flows(model, data).square().sum()
    assert float(squares) == pytest.approx(float(penalty(model, data, Bernoulli(0.5, 3))), rel=1e-12)
    assert torch.equal(coadaptation.flows(model, data, symmetrized=True), coadaptation.flows(model, data))


def test_flows_of_a_torch_module():
    torch_net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 2)).double()
    data = sample()
    features = torch.tanh(torch_net[0](data.inputs)).detach()
    expected = torch_net[2].weight.detach().norm(dim=0) * features.square().mean(0).sqrt()
    model = LastLayer.of(torch_net)
    assert torch.allclose(coadaptation.flows(model, data).detach(), expected, rtol=1e-12)
    flipped = torch.tanh(torch_net[0](-data.inputs)).detach()
    both = torch_net[2].weight.detach().norm(dim=0) * ((features**2 + flipped**2) / 2).mean(0).sqrt()
    assert torch.allclose(coadaptation.flows(model, data, symmetrized=True).detach(), both, rtol=1e-12)
    weights = torch.arange(1.0, len(data) + 1).double()
    uneven, shares = Sample(data.inputs, data.targets, weights), weights / weights.sum()
    for symmetrized, squares in ((False, features**2), (True, (features**2 + flipped**2) / 2)):
        wanted = torch_net[2].weight.detach().norm(dim=0) * (shares @ squares).sqrt()
        told = coadaptation.flows(model, uneven, symmetrized=symmetrized).detach()
        assert torch.allclose(told, wanted, rtol=1e-12)


@given(st.integers(1, 12), st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_split_into_size_and_equality(width, seed):
    model = ReLUNet([randn(width, 3, seed=seed), randn(1, width, seed=seed + 1)])
    data = Sample(randn(20, 3, seed=seed + 2), randn(20, 1))
    parts = coadaptation.split(model, data)
    if parts.regularizer == 0:
        assert math.isnan(parts.coadaptation)
        return
    assert parts.width * parts.regularizer == pytest.approx((parts.alpha / parts.coadaptation) ** 2, rel=1e-10)
    assert 1 / math.sqrt(width) - 1e-12 <= parts.coadaptation <= 1 + 1e-12
    values = coadaptation.flows(model, data)
    assert parts.alpha == pytest.approx(float(coadaptation.alpha(model, data)), rel=1e-12)
    assert float(coadaptation.importance(model, data).sum()) == pytest.approx(1)
    assert parts.effective_width == pytest.approx(float(values.sum() ** 2 / values.square().sum()), rel=1e-10)
    scaled = ReLUNet([3 * model.weights[0], 5 * model.weights[1]])
    assert float(coadaptation.coadaptation(scaled, data)) == pytest.approx(parts.coadaptation, rel=1e-10)


def test_extremes_of_coadaptation():
    assert float(coadaptation.evenness(torch.ones(7).double())) == pytest.approx(1)
    assert float(coadaptation.evenness(torch.eye(7).double()[0])) == pytest.approx(1 / math.sqrt(7))
    assert math.isnan(coadaptation.evenness(torch.zeros(3)))
    assert float(coadaptation.evenness(torch.tensor([3.0, -4.0, 0.0]).double())) == pytest.approx(7 / (5 * 3**0.5))
    assert float(coadaptation.evenness(1e-200 * torch.tensor([1.0, 2.0]).double())) == pytest.approx(3 / math.sqrt(10))


def test_coadaptation_is_differentiable_also_with_dead_units():
    hidden = randn(3, 2)
    data = Sample(randn(10, 2).abs(), randn(10, 1))
    hidden[0] = -1.0  # never active on positive data
    hidden.requires_grad_()
    coadaptation.coadaptation(ReLUNet([hidden, torch.ones(1, 3).double()]), data).backward()
    assert bool(torch.isfinite(hidden.grad).all())


@pytest.mark.parametrize("rectified", [False, True])
def test_units_that_carry_nothing_have_derivative_zero(rectified):
    """The others have the derivatives of the network without them; of the root of zero there is none."""
    top, first, data = randn(2, 4), randn(3, 4, seed=1), sample(d=3)
    top[:, 1] = first[:, 2] = 0.0

    def slopes(units):
        leaves = [part[:, units].clone().requires_grad_() for part in (top, first)]
        model = ReLUNet([leaves[1].mT, leaves[0]]) if rectified else TwoLayerLinear(*leaves)
        return torch.autograd.grad(coadaptation.alpha(model, data), leaves)

    for whole, few in zip(slopes([0, 1, 2, 3]), slopes([0, 3]), strict=True):
        assert torch.allclose(whole[:, [0, 3]], few, rtol=1e-12)
        assert not whole[:, [1, 2]].any()


def test_float32_and_batches():
    model, data = network(), sample()
    small = coadaptation.flows(ReLUNet([w.float() for w in model.weights]), data.to(torch.float32))
    assert small.dtype == torch.float32
    assert torch.allclose(small.double(), coadaptation.flows(model, data), rtol=1e-5)
    batch = ReLUNet([torch.stack([w, 2 * w]) for w in model.weights])
    values = coadaptation.flows(batch, data)
    assert values.shape == (2, 6)
    assert torch.allclose(values[1], 4 * values[0], rtol=1e-12)
    shares = coadaptation.importance(batch, data)
    assert torch.allclose(shares, values / values.sum(1, keepdim=True), rtol=1e-12)
    with pytest.raises(ValueError, match="batch"):
        coadaptation.split(batch, data)


def test_flows_refuse_raw_modules():
    with pytest.raises(ValueError, match="LastLayer"):
        coadaptation.flows(nn.Linear(2, 1), sample())


# ---------------------------------------------------------------- retentivity


def ratio(x, v):
    products = x @ v
    return float(torch.relu(products).square().mean() / products.square().mean())


@pytest.mark.parametrize("seed", range(4))
def test_retentivity_in_two_dimensions_equals_a_fine_grid(seed):
    rng = np.random.default_rng(seed)
    x = torch.tensor((rng.exponential(size=(25, 2)) - 1) @ rng.normal(size=(2, 2)))
    found = coadaptation.retentivity(x)
    turn = torch.linspace(0, 2 * math.pi, 20_001, dtype=torch.float64)
    products = x @ torch.stack([turn.cos(), turn.sin()])
    grid = float((torch.relu(products).square().mean(0) / products.square().mean(0)).min())
    assert found.exact
    assert found.value <= grid + 1e-12
    assert found.value == pytest.approx(grid, abs=1e-6)
    assert ratio(x, found.direction) == pytest.approx(found.value, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_power_iteration_equals_the_sweep(seed):
    """In two dimensions both algorithms apply."""
    rng = np.random.default_rng(seed)
    x = torch.tensor((rng.exponential(size=(60, 2)) - 1) @ rng.normal(size=(2, 2)))
    exact = coadaptation.retentivity(x)
    points = x @ torch.linalg.inv(torch.linalg.cholesky(x.mT @ x / 60).mT)
    weights = torch.full((60,), 1 / 60, dtype=torch.float64)
    best = coadaptation.retention._ascend(points, weights, 20, 0, 500)
    assert 1 - float(torch.relu(points @ best).square().mean()) == pytest.approx(exact.value, abs=1e-9)


def test_retentivity_of_the_skewed_example():
    """[1, 0] w.p. delta, else [-delta/(1-delta), +-...]: retentivity exactly delta."""
    delta = 0.1
    second = math.sqrt(1 - 2 * delta) / (1 - delta)
    points = torch.tensor(
        [[1.0, 0.0], [-delta / (1 - delta), second], [-delta / (1 - delta), -second]], dtype=torch.float64
    )
    weights = torch.tensor([delta, (1 - delta) / 2, (1 - delta) / 2], dtype=torch.float64)
    found = coadaptation.retentivity(Sample(points, torch.zeros(3, 1).double(), weights))
    assert found.value == pytest.approx(delta, rel=1e-9)


@pytest.mark.parametrize("d", [1, 2, 3, 8])
def test_retentivity_is_half_for_symmetrized_and_zero_for_non_negative_data(d):
    x = randn(40, d) + 0.5
    data = Sample(x, torch.ones(40, 1).double())
    assert coadaptation.retentivity(coadaptation.symmetrize(data)).value == pytest.approx(0.5, abs=1e-12)
    positive = coadaptation.retentivity(Sample(x.abs(), data.targets))
    assert positive.value == 0.0
    assert positive.exact
    assert ratio(x.abs(), positive.direction) == 0.0
    assert coadaptation.retentivity(x.abs() * torch.tensor([1.0, -1.0] * d)[:d]).value == 0.0


def test_retentivity_of_few_points_is_zero_and_says_so():
    found = coadaptation.retentivity(randn(5, 8))
    assert found.value == 0.0
    assert found.exact
    assert "half-space" in found.note
    gaussian = coadaptation.retentivity(randn(500, 50))
    assert 0.05 < gaussian.value < 0.35  # the population value is 1/2
    assert "biased down" in gaussian.note
    large = coadaptation.retentivity(randn(4000, 4))
    assert 0.42 < large.value <= 0.5
    assert "below about" in large.note
    for examples, rank, words in (
        (399, 100, "biased down: with 4 examples per dimension a Gaussian sample, whose population value is 1/2"),
        (400, 100, "reads about 0.00"),
        (2500, 100, "reads about 0.30"),
        (40000, 100, "400 examples per dimension: the downward bias is below about 0.05"),
    ):
        assert words in retention.Retentivity(0.1, torch.ones(1), False, rank, examples).note


@given(st.integers(1, 6), st.integers(2, 40), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None)
def test_retentivity_is_attained_and_invariant(d, n, seed):
    x = randn(n, d, seed=seed).exp() - 1
    found = coadaptation.retentivity(x)
    assert 0 <= found.value <= 0.5
    assert ratio(x, found.direction) == pytest.approx(found.value, abs=1e-8)
    for other in randn(20, d, seed=seed + 1):
        if float((x @ other).square().mean()) > 1e-9:
            assert ratio(x, other) >= found.value - 1e-6 or not found.exact


@pytest.mark.parametrize("d", [3, 5])
def test_a_point_of_weight_three_is_three_points(d):
    """The ends of both searches are stationary to about 1e-13 of the objective, and so is their value."""
    points, counts = randn(60, d) + 0.3, torch.arange(60) % 4
    rows = torch.arange(60).repeat_interleave(counts)
    weighed = Sample(points, torch.zeros(60, 1).double(), 0.1 * counts.double())
    found = coadaptation.retentivity(weighed, starts=60)
    wanted = coadaptation.retentivity(points[rows], starts=60)
    assert found.value == pytest.approx(wanted.value, abs=1e-9)
    assert found.value > 1e-3


def test_retentivity_refuses():
    with pytest.raises(ValueError, match="zero"):
        coadaptation.retentivity(torch.zeros(3, 2))
    with pytest.raises(ValueError, match="starts"):
        coadaptation.retentivity(randn(3, 2), starts=0)
    with pytest.raises(ValueError, match="data"):
        coadaptation.retentivity(torch.zeros(3))
    with pytest.raises(ValueError, match="Sample"):
        coadaptation.symmetrize(randn(3, 2))


def test_symmetrize_by_random_signs():
    data = sample(200, 3, weighted=True)
    drawn = coadaptation.symmetrize(data, torch.Generator().manual_seed(0))
    flipped = (drawn.inputs == -data.inputs).all(1)
    assert bool((flipped | (drawn.inputs == data.inputs).all(1)).all())
    assert 70 <= int(flipped.sum()) <= 130
    assert torch.equal(drawn.targets, data.targets)
    assert torch.equal(drawn.weights, data.weights)
    both = coadaptation.symmetrize(data)
    assert torch.equal(both.inputs, torch.cat([data.inputs, -data.inputs]))
    assert torch.equal(both.targets, torch.cat([data.targets, data.targets]))
    images = Sample(torch.rand(6, 1, 3, 3), torch.arange(6) % 2)
    assert coadaptation.symmetrize(images, torch.Generator().manual_seed(0)).inputs.shape == (6, 1, 3, 3)


# ---------------------------------------------------------------- sub-networks


def classifier(width=12, classes=3, bias=True):
    generator = torch.Generator().manual_seed(3)
    net = nn.Sequential(nn.Linear(5, 7), nn.ReLU(), nn.Linear(7, width), nn.ReLU(), nn.Dropout(0.5))
    net.append(nn.Linear(width, classes, bias=bias))
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return net.double()


def labeled(n=50):
    x = randn(n, 5)
    return Sample(x, (x[:, 0] > 0).long() + (x[:, 1] > 0).long())


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_many_subnetworks_equal_masked_copies(bias, scale):
    net, data = classifier(bias=bias), labeled()
    model = LastLayer.of(net)
    kept = coadaptation.draw(Bernoulli(0.5, 12), 20, torch.Generator().manual_seed(0))
    outputs = coadaptation.subnetwork_outputs(model, data.inputs, kept, scale=scale)
    report = coadaptation.evaluate(model, data, kept, scale=scale)
    assert net.training
    for i, mask in enumerate(kept):
        wanted = model.outputs(data.inputs, scale * mask.double())
        assert torch.allclose(outputs[i], wanted, rtol=1e-12, atol=1e-12)
        assert float(report.accuracies[i]) == pytest.approx(float((wanted.argmax(1) == data.targets).double().mean()))
    assert torch.equal(report.widths, kept.sum(1))
    full = (model.outputs(data.inputs).argmax(1) == data.targets).double().mean()
    assert report.full == pytest.approx(float(full))
    assert report.gap == pytest.approx(report.full - float(report.accuracies.mean()))
    low, middle, high = report.quantiles()
    assert low <= middle <= high


def test_subnetworks_of_relu_and_linear_networks_with_binary_and_one_hot_targets():
    x = randn(40, 4)
    kept = torch.tensor([[1, 0, 1, 0, 0, 1], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]], dtype=torch.bool)
    relu = network(outputs=1, biases=True)
    report = coadaptation.evaluate(relu, Sample(x, x[:, 0].sign()), kept)
    hidden = torch.relu(x @ relu.weights[0].mT + relu.biases[0])
    for i in range(3):
        outputs = (hidden * kept[i]) @ relu.weights[1].mT + relu.biases[1]
        expected = float((outputs[:, 0] * x[:, 0].sign() > 0).double().mean())
        assert float(report.accuracies[i]) == pytest.approx(expected)
    linear = TwoLayerLinear(randn(3, 6), randn(4, 6))
    labels = torch.arange(40) % 3
    one_hot = torch.eye(3, dtype=torch.float64)[labels]
    by_label = coadaptation.evaluate(linear, Sample(x, labels), kept)
    by_row = coadaptation.evaluate(linear, Sample(x, one_hot), kept)
    assert torch.equal(by_label.accuracies, by_row.accuracies)


def test_drawn_units_are_those_that_stay():
    law = Bernoulli(torch.tensor([0.0, 0.2, 0.9], dtype=torch.float64), 3)
    kept = coadaptation.draw(law, 10_000, torch.Generator().manual_seed(0)).double().mean(0)
    assert kept[0] == 1
    assert (kept - (1 - law.drop)).abs().max() < 5 * 0.5 / 10_000**0.5  # five standard errors of a coin at most


def test_units_with_negative_masks_stay():
    law = Discrete(torch.tensor([[-1.0, 0.5, 0.0], [2.0, 0.0, -3.0]]), torch.tensor([0.5, 0.5]))
    kept = coadaptation.draw(law, 50, torch.Generator().manual_seed(0))
    assert kept.unique(dim=0).tolist() == [[True, False, True], [True, True, False]]


def test_the_smallest_is_judged_as_it_is_scaled():
    """The offset answers class 1 until the one unit that is kept is scaled to the flow of both."""
    double = {"dtype": torch.float64}
    weights = [torch.eye(2, **double), torch.tensor([[1.0, 0.9], [0.0, 0.0]], **double)]
    model = ReLUNet(weights, [torch.zeros(2, **double), torch.tensor([0.0, 1.5], **double)])
    data = Sample(torch.ones(3, 2, **double), torch.zeros(3, dtype=torch.long))
    found = coadaptation.smallest(model, data, 0.0, draws=0)
    assert (found.kept.tolist(), found.accuracy, found.full) == ([True, False], 1.0, 1.0)
    assert found.scale == pytest.approx(1.9, rel=1e-12)


def test_chunks_do_not_change_the_answer(monkeypatch):
    model, data = LastLayer.of(classifier()), labeled()
    kept = coadaptation.draw(Bernoulli(0.3, 12), 9, torch.Generator().manual_seed(1))
    whole = coadaptation.evaluate(model, data, kept).accuracies
    curve = coadaptation.accuracy_by_width(model, data)
    monkeypatch.setattr(coadaptation.subnetworks, "_CHUNK", 100)
    assert torch.equal(coadaptation.evaluate(model, data, kept).accuracies, whole)
    assert torch.equal(coadaptation.accuracy_by_width(model, data), curve)


def test_accuracy_by_width_and_the_smallest_subnetwork():
    model, data = LastLayer.of(classifier()), labeled()
    values = coadaptation.flows(model, data).detach()
    order = values.argsort(descending=True)
    curve = coadaptation.accuracy_by_width(model, data)
    for width in range(13):
        kept = torch.zeros(1, 12, dtype=torch.bool)
        kept[0, order[:width]] = True
        scale = float(values.sum() / values[order[:width]].sum()) if width else 1.0
        direct = coadaptation.evaluate(model, data, kept, scale=scale)
        assert float(curve[width]) == pytest.approx(float(direct.accuracies[0]))
    full = direct.full
    for tolerance in (0.0, 0.1, 0.3):
        found = coadaptation.smallest(model, data, tolerance)
        assert found.accuracy >= full - tolerance
        assert found.full == full
        again = coadaptation.evaluate(model, data, found.kept[None], scale=found.scale)
        assert float(again.accuracies[0]) == found.accuracy
        assert bool((curve[: found.width] < full - tolerance).all())
        if found.width:  # else the bias alone is good enough, and there is nothing to export
            small = coadaptation.export(model, data, found.kept, scale=found.scale).eval()
            accuracy = (small(data.inputs).argmax(1) == data.targets).double().mean()
            assert float(accuracy) == pytest.approx(found.accuracy)
        only_flow = coadaptation.smallest(model, data, tolerance, draws=0)
        assert found.width <= only_flow.width == int((curve >= full - tolerance).nonzero()[0])
    assert coadaptation.smallest(model, data, 1.0).width == 0


def test_an_example_of_weight_three_counts_as_three_examples():
    """Accuracies are shares of 100 repeated examples, up to the rounding of sums of as many terms."""
    model, data = LastLayer.of(classifier()), labeled()
    counts = torch.arange(50) % 5
    weighed = Sample(data.inputs, data.targets, 0.1 * counts.double())
    rows = torch.arange(50).repeat_interleave(counts)
    repeated = Sample(data.inputs[rows], data.targets[rows])
    kept = coadaptation.draw(Bernoulli(0.5, 12), 20, torch.Generator().manual_seed(0))
    told, wanted = (coadaptation.evaluate(model, one, kept, scale=2.0) for one in (weighed, repeated))
    assert told.full == pytest.approx(wanted.full, rel=1e-13)
    torch.testing.assert_close(told.accuracies, wanted.accuracies, rtol=1e-13, atol=0)
    assert not torch.allclose(told.accuracies, coadaptation.evaluate(model, data, kept, scale=2.0).accuracies)
    curves = [coadaptation.accuracy_by_width(model, one) for one in (weighed, repeated)]
    torch.testing.assert_close(*curves, rtol=1e-13, atol=0)
    for tolerance in (0.0, 0.1):
        small = [coadaptation.smallest(model, one, tolerance) for one in (weighed, repeated)]
        assert torch.equal(small[0].kept, small[1].kept)
        assert small[0].accuracy == pytest.approx(small[1].accuracy, rel=1e-13)


@pytest.mark.parametrize(("tolerance", "kept"), [(0.0, [True, True, False]), (0.5, [True, False, False])])
def test_a_subnetwork_exactly_as_accurate_as_asked_is_small_enough(tolerance, kept):
    """Two units answer one of two examples each and the third is dead: accuracies of 1 and 1/2 without rounding."""
    double = {"dtype": torch.float64}
    first = torch.tensor([[2.0, 0.0], [0.0, 1.0], [0.0, 0.0]], **double)
    last = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]], **double)
    undecided = torch.tensor([0.0, 0.0, 0.5], **double)  # where no unit answers
    model = ReLUNet([first, last], [torch.zeros(3, **double), undecided])
    data = Sample(torch.eye(2, **double), torch.tensor([0, 1]))
    found = coadaptation.smallest(model, data, tolerance, draws=0)
    assert (found.kept.tolist(), found.accuracy, found.full) == (kept, 1.0 - tolerance, 1.0)


@pytest.mark.parametrize("scale", [1.0, 2.0])
def test_exported_subnetworks_are_smaller_and_equal(scale):
    net, data = classifier(), labeled()
    model = LastLayer.of(net)
    kept = coadaptation.draw(Bernoulli(0.5, 12), 1, torch.Generator().manual_seed(2))[0]
    state = torch.random.get_rng_state()
    small = coadaptation.export(model, data, kept, scale=scale)
    assert torch.equal(state, torch.random.get_rng_state())
    wanted = model.outputs(data.inputs, scale * kept.double())
    assert torch.allclose(small.eval()(data.inputs), wanted, rtol=1e-12)
    assert small[2].out_features == small[5].in_features == int(kept.sum())
    assert sum(p.numel() for p in small.parameters()) < sum(p.numel() for p in net.parameters())
    small[2].weight.data.zero_()  # copies, not views
    assert float(net[2].weight.detach().abs().sum()) > 0


def test_a_last_layer_is_exported_as_it_is_without_a_scale():
    """The kept units of the layer before, their columns of the last one, and nothing multiplied."""
    net, data = classifier(), labeled()
    kept = torch.tensor([1, 0, 1, 1, 0, 0, 1, 0, 1, 0, 0, 1], dtype=torch.bool)
    small = coadaptation.export(LastLayer.of(net), data, kept)
    assert torch.equal(small[2].weight, net[2].weight[kept])
    assert torch.equal(small[5].weight, net[5].weight[:, kept])
    assert torch.equal(small[5].bias, net[5].bias)


def test_export_of_relu_and_linear_networks():
    x = randn(40, 4)
    kept = torch.tensor([1, 0, 1, 0, 0, 1], dtype=torch.bool)
    data = Sample(x, randn(40, 2))
    for model in (network(biases=True), network(), TwoLayerLinear(randn(2, 6), randn(4, 6))):
        small = coadaptation.export(model, data, kept)
        wanted = coadaptation.subnetwork_outputs(model, x, kept[None])[0]
        assert torch.allclose(small(x), wanted, rtol=1e-12, atol=1e-12)
    deep = network(depth=3)
    small = coadaptation.export(deep, data, torch.tensor([1, 0, 0, 0, 0, 0, 1]))
    assert [m.out_features for m in small if isinstance(m, nn.Linear)] == [6, 2, 2]


def test_export_refuses_what_it_cannot_cut():
    data = labeled()
    mixing = nn.Sequential(nn.Linear(5, 6), nn.Softmax(-1), nn.Linear(6, 3)).double()
    kept = torch.tensor([1, 1, 0, 1, 0, 1])
    with pytest.raises(ValueError, match="mixes units"):
        coadaptation.export(LastLayer.of(mixing), data, kept)
    normalized = nn.Sequential(nn.Linear(5, 6), nn.LayerNorm(6), nn.Linear(6, 3)).double()
    with pytest.raises(ValueError, match="does not run"):
        coadaptation.export(LastLayer.of(normalized), data, kept)
    with pytest.raises(ValueError, match="no linear layer"):
        coadaptation.export(LastLayer.of(nn.Linear(5, 3).double()), data, kept[:5])
    with pytest.raises(ValueError, match="previous"):
        coadaptation.export(LastLayer.of(mixing), data, kept, previous="9")
    with pytest.raises(ValueError, match="at least one"):
        coadaptation.export(LastLayer.of(mixing), data, 0 * kept)
    with pytest.raises(ValueError, match="model"):
        coadaptation.export(DeepLinear([randn(2, 5)] * 1 + [randn(1, 2)]), data, kept)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("shift", [-60, 60])
def test_whether_a_network_can_be_cut_does_not_depend_on_the_units_of_its_outputs(shift, dtype):
    data, kept = Sample(randn(20, 5).to(dtype), torch.zeros(20, 3, dtype=dtype)), torch.tensor([1, 1, 0, 1, 0, 1])
    for activation, cut in ((nn.Softmax(-1), False), (nn.Tanh(), True)):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 6), activation, nn.Linear(6, 3)).to(dtype)
        with torch.no_grad():
            for part in net[2].parameters():
                part.mul_(2.0**shift)
        if cut:
            small = coadaptation.export(LastLayer.of(net), data, kept)
            wanted = net[2](net[:2](data.inputs) * kept)
            torch.testing.assert_close(small(data.inputs) / 2.0**shift, wanted / 2.0**shift)
        else:
            with pytest.raises(ValueError, match="mixes units"):
                coadaptation.export(LastLayer.of(net), data, kept)


def test_subnetworks_refuse_wrong_shapes():
    model, data = LastLayer.of(classifier()), labeled()
    with pytest.raises(ValueError, match="kept"):
        coadaptation.evaluate(model, data, torch.ones(12))
    with pytest.raises(ValueError, match="kept"):
        coadaptation.evaluate(model, data, torch.ones(2, 5))
    batch = ReLUNet([torch.stack([w, w]) for w in network().weights])
    with pytest.raises(ValueError, match="batch"):
        coadaptation.evaluate(batch, sample(), torch.ones(2, 6))
    with pytest.raises(ValueError, match="tolerance"):
        coadaptation.smallest(model, data, -0.1)
    with pytest.raises(ValueError, match="count"):
        coadaptation.draw(Bernoulli(0.5, 3), 0, torch.Generator())
    with pytest.raises(ValueError, match="order"):
        coadaptation.accuracy_by_width(model, data, torch.arange(3))


def test_retentivity_on_a_line():
    """One direction: the weaker side's share of the energy, whichever side that is."""
    for inputs in ([[3.0], [-1.0]], [[-3.0], [1.0]]):
        found = coadaptation.retentivity(Sample(torch.tensor(inputs).double(), torch.zeros(2, 1).double()))
        assert found.rank == 1
        assert found.exact
        assert float(found) == pytest.approx(0.1, rel=1e-12)
        # the direction that keeps the least: it points at the weaker side
        assert math.copysign(1, float(found.direction)) == -math.copysign(1, inputs[0][0])
    with pytest.raises(ValueError, match="data must hold vectors"):
        coadaptation.retentivity(Sample(torch.ones(2, 3, 4).double(), torch.zeros(2, 1).double()))


def test_flows_of_networks_need_examples():
    net = ReLUNet([randn(3, 4), randn(2, 3)])
    with pytest.raises(ValueError, match="second moments only determine symmetrized two-layer flows"):
        coadaptation.flows(net, Moments.of_map(torch.eye(4).double()))
    table = Entries(torch.tensor([0]), torch.tensor([1]), torch.ones(1).double(), (2, 4))
    with pytest.raises(ValueError, match="data for ReLUNet must be Sample, got Entries"):
        coadaptation.flows(net, table)


def test_subnetworks_name_what_they_need():
    module = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    data = Sample(randn(6, 4), randn(6, 2))
    with pytest.raises(ValueError, match=r"previous must be one of the linear layers \['0', '2'\], got 'x'"):
        coadaptation.export(LastLayer.of(module), data, torch.ones(5, dtype=torch.bool), previous="x")
    with pytest.raises(ValueError, match="must be ReLUNet, TwoLayerLinear or LastLayer, got Autoencoder"):
        coadaptation.subnetwork_outputs(Autoencoder(randn(4, 2)), data.inputs, torch.ones(1, 2).double())


def test_units_of_equal_flow_are_kept_in_the_order_of_their_places():
    """Two hundred of them, which a sort that is not stable would mix."""
    signs = normal(1, 200, seed=6).sign()
    model, data = TwoLayerLinear(signs, torch.ones(1, 200).double()), Sample(torch.ones(1, 1).double(), signs[:, :1])
    found = coadaptation.accuracy_by_width(model, data)
    assert torch.equal(found, coadaptation.accuracy_by_width(model, data, torch.arange(200)))
    assert found.tolist() == [0.0, *(signs[0].cumsum(0) * signs[0, 0] > 0).double().tolist()]
    assert 0 < float(found.mean()) < 1


@pytest.mark.parametrize("seed", range(25))
def test_the_worst_direction_in_the_plane_is_that_of_a_grid(seed):
    """Few points, so that arcs are wide and every one of them is the best for some seed."""
    count = 2 + seed % 4
    points = normal(count, 2, seed=seed)
    weights = normal(count, seed=seed + 100).abs()
    weights = weights / weights.sum()
    found = retention._sweep(points, weights)
    angles = torch.linspace(0, 2 * math.pi, 20_001, dtype=torch.float64)
    grid = torch.stack([angles.cos(), angles.sin()], 1)
    scores = retention._scores(points, weights, grid)
    assert float(found.norm()) == pytest.approx(1, abs=1e-12)
    # between two points of the grid a score moves by half the squared step times its curvature
    slack = float((weights @ points.square()).sum()) * (2 * math.pi / 20_000) ** 2
    assert (
        float(scores.max()) <= float(retention._scores(points, weights, found[None])[0]) <= float(scores.max()) + slack
    )


def test_a_half_space_is_a_direction_that_no_example_is_against():
    inputs = normal(9, 3, seed=4).abs() * torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)
    basis = torch.eye(3, dtype=torch.float64)
    assert retention._half_space(inputs, inputs, basis).tolist() == [1.0, -1.0, 1.0]
    turn = torch.linalg.qr(normal(3, 3, seed=5)).Q
    turned = (inputs + torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)) @ turn.mT
    direction = retention._half_space(turned, turned, basis)
    assert float((turned @ direction).min()) >= 0
    assert retention._half_space(torch.cat([inputs, -inputs]), torch.cat([inputs, -inputs]), basis) is None


def test_labels_of_one_output_are_read_by_their_side():
    net = ReLUNet([torch.eye(2), torch.tensor([[1.0, -1.0]])])
    inputs, kept = torch.tensor([[2.0, 1.0], [1.0, 2.0], [3.0, 1.0]]), torch.ones(1, 2)
    for targets in (torch.tensor([1.0, -1.0, -1.0]), torch.tensor([1, -1, -1]), torch.tensor([1, 0, 0])):
        data = Sample(inputs, targets)
        assert coadaptation.evaluate(net, data, kept).full == pytest.approx(2 / 3)
        assert float(coadaptation.accuracy_by_width(net, data)[-1]) == pytest.approx(2 / 3)


def test_the_retentivity_of_tiny_inputs_is_that_of_the_same_inputs_in_other_units():
    """Their squares underflow; the worst direction belongs to the inputs as they are given."""
    for size in (1, 2, 3):
        x = randn(30, size) + 0.2
        units = torch.tensor([1e-170, 3e-200, 1e-165], dtype=torch.float64)[:size]
        plain, tiny = coadaptation.retentivity(x), coadaptation.retentivity(x * units)
        assert tiny.value == pytest.approx(plain.value, rel=1e-6)
        along = (x * (units / units.max())) @ tiny.direction
        kept = torch.relu(along).square().mean() / along.square().mean()
        assert float(kept) == pytest.approx(tiny.value, rel=1e-9)
    assert coadaptation.retentivity(1e-170 * randn(9, 3).abs()).value == 0
    with pytest.raises(ValueError, match="other than zero"):
        coadaptation.retentivity(torch.zeros(5, 2, dtype=torch.float64))


def test_data_with_zeros_lie_in_a_closed_half_space():
    """Every coordinate is zero somewhere: the worst half-space turns away from all examples, on either side."""
    points = torch.relu(randn(30, 3))
    assert bool((points.amin(0) == 0).all())
    for side in (1, -1):
        found = coadaptation.retentivity(side * points)
        assert found.value == 0
        assert bool((side * points @ found.direction <= 0).all())


def test_symmetrized_flows_notice_offsets_of_the_hidden_layer():
    data = Sample(randn(20, 3), torch.zeros(20, 2).double())
    net = ReLUNet([randn(4, 3), randn(2, 4)], [randn(4), torch.zeros(2).double()])
    both = [torch.relu(side * data.inputs @ net.weights[0].mT + net.biases[0]).square().mean(0) for side in (1, -1)]
    wanted = net.weights[1].norm(dim=0) * (sum(both) / 2).sqrt()
    torch.testing.assert_close(coadaptation.flows(net, data, symmetrized=True), wanted)
    deep = ReLUNet([randn(4, 3), randn(5, 4), randn(2, 5)])
    for model in (net, deep):  # second moments do not determine these
        with pytest.raises(ValueError, match="data must be a Sample"):
            coadaptation.flows(model, Moments.of_sample(data), symmetrized=True)


def test_export_takes_the_layer_next_to_the_head_and_looks_at_every_output():
    data, kept = Sample(randn(20, 3), torch.zeros(20, 2).double()), torch.tensor([True, False, True, True])
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    told = coadaptation.export(LastLayer.of(net), data, kept)
    torch.testing.assert_close(told(data.inputs), net[4](net[:4](data.inputs) * kept))
    mixing = nn.Sequential(nn.Linear(3, 4), nn.Softmax(-1), nn.Linear(4, 2)).double()
    with torch.no_grad():
        mixing[2].weight[0] = 0.0  # this output does not see what is mixed
    with pytest.raises(ValueError, match="mixes units"):
        coadaptation.export(LastLayer.of(mixing), data, kept)
