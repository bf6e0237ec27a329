"""Class probabilities against a plain sum over all masks, and against many head masks."""

import math

import pytest
import scipy.stats
import torch
from cases import INPUTS, OUTPUTS, laws, normal, relu_network, skewed_inputs, small_network
from compare import close

from droptics.masks import Bernoulli, Product
from droptics.models import LastLayer, ReLUNet, TwoLayerLinear
from droptics.penalties import Enumerate, MonteCarlo
from droptics.predictions import mixtures, predictive
from droptics.predictions.classes import _compiled_gaussian

RELU_LAW = Product([Bernoulli(0.2, INPUTS), Bernoulli(0.5, 3), Bernoulli(0.3, 2)])


def listed(model, inputs, masks):
    values = torch.stack([torch.softmax(model.outputs(inputs, z), -1) for z, _ in masks.atoms()])
    chances = torch.tensor([chance for _, chance in masks.atoms()], dtype=torch.float64)
    mean = torch.tensordot(chances, values, dims=1)
    entropy = torch.special.entr(mean).sum(-1)
    return mean, entropy, entropy - torch.tensordot(chances, torch.special.entr(values).sum(-1), dims=1)


@pytest.mark.parametrize("name", laws(5))
def test_short_lists_are_summed_exactly(name):
    model, law = LastLayer.of(small_network()), laws(5)[name]
    found = predictive(model, skewed_inputs(), law).classes()
    for estimate, expected in zip(
        (found.probabilities, found.entropy, found.mutual_information),
        listed(model, skewed_inputs(), law),
        strict=True,
    ):
        close(estimate.value, expected, 1e-12, scale=1.0)
        assert estimate.confidence == 1.0
    assert bool((found.mutual_information.value >= -1e-15).all())


def test_relu_networks_and_enumeration_agree():
    model = relu_network()
    expected = listed(model, skewed_inputs(), RELU_LAW)
    for method in (Enumerate(), None):
        found = predictive(model, skewed_inputs(), RELU_LAW, *([] if method is None else [method])).classes()
        close(found.probabilities.value, expected[0], 1e-12)
        close(found.mutual_information.value, expected[2], 1e-12, scale=1.0)


def test_gaussian_logits_agree_with_many_head_masks():
    """200 units: error of E softmax below that of 2000 head masks, the number the truth is known to."""
    torch.manual_seed(0)
    model = TwoLayerLinear(normal(10, 200) / 8, normal(INPUTS, 200))
    inputs, law = skewed_inputs(), Bernoulli(0.5, 200)
    found = predictive(model, inputs, law).classes(points=512)
    assert "Gaussian logits" in found.probabilities.method
    assert found.probabilities.confidence == 0.0
    masks = law.multipliers(20_000, torch.Generator().manual_seed(4))
    values = torch.softmax(model.outputs(inputs, masks[:, None]), -1)
    error = values.std(0) / math.sqrt(2000)
    assert bool(((found.probabilities.value - values.mean(0)).abs() <= 4 * error + 1e-6).all())
    entropies = torch.special.entr(values).sum(-1).mean(0)
    information = torch.special.entr(values.mean(0)).sum(-1) - entropies
    close(found.mutual_information.value, information, 0.05)


@pytest.mark.parametrize("scale", [0.01, 1.0, 300.0])
@pytest.mark.parametrize(("classes", "count"), [(2, 50), (10, 50), (37, 50), (2, 2500), (10, 2500)])
def test_the_loop_of_single_precision_agrees_with_double(scale, classes, count):
    """Softmax of the same logits: each is off by 64 roundings of the largest, which moves no mean by more.

    Sums of powers at thousands of points have a product that double precision does not hold.
    """
    center, lower = scale * normal(1, 7, classes).float(), (scale * normal(1, 7, classes, classes)).tril().float()
    points = normal(count, classes).float().mT.contiguous().mT
    found = _compiled_gaussian(center, points, lower)
    logits = center.double().unsqueeze(-1) + lower.double() @ points.double().mT
    given = torch.softmax(logits, -2)
    wanted = torch.special.entr(given).sum(-2).mean(-1)
    error = 64 * torch.finfo(torch.float32).eps * (1 + float(logits.abs().max()))
    close(found.probabilities.double(), given.mean(-1), error, scale=1.0)
    close(found.entropies.double(), wanted, error, scale=math.log(classes) + 1)


def test_powers_of_the_loop_are_right_to_the_last_places():
    """Logits that are not rounded: 16 roundings for |x| e^x, the polynomial, both sums and the division."""
    center = torch.linspace(0, 100, 2001).reshape(1, -1, 1) * torch.tensor([0.0, -0.37, -1.0])
    found = _compiled_gaussian(center, torch.zeros(3, 4).mT, torch.zeros(1, 2001, 3, 3))
    given = torch.softmax(center.double(), -1)
    close(found.probabilities.double(), given, 16 * torch.finfo(torch.float32).eps, scale=1.0)
    close(found.entropies.double(), torch.special.entr(given).sum(-1), 16 * torch.finfo(torch.float32).eps, scale=1.0)


def test_single_precision_is_that_of_double():
    """The loop and torch's operators on one head: what 256 points average differs by rounding alone."""
    model = TwoLayerLinear(normal(10, 200) / 8, normal(INPUTS, 200))
    single = TwoLayerLinear(*(part.float() for part in model.tensors))
    law, inputs = Bernoulli(0.5, 200), skewed_inputs()
    wide, narrow = predictive(model, inputs, law).classes(), predictive(single, inputs.float(), law).classes()
    assert narrow.probabilities.method == wide.probabilities.method
    close(narrow.probabilities.value.double(), wide.probabilities.value, 1e-4, scale=1.0)
    close(narrow.mutual_information.value.double(), wide.mutual_information.value, 1e-4, scale=1.0)


def test_logits_without_a_value_stay_without_one():
    center = torch.tensor([[[0.0, math.nan, 1.0], [0.0, 1.0, 2.0]]])
    found = _compiled_gaussian(center, torch.zeros(3, 8).mT.contiguous().mT.mT, torch.zeros(1, 2, 3, 3))
    assert bool(found.probabilities[0, 0].isnan().all())
    close(found.probabilities[0, 1], torch.softmax(center[0, 1], -1), 1e-6)


def test_a_unit_that_carries_a_logit_is_not_gaussian():
    weights = normal(3, 200) / 100
    weights[:, 0] = torch.tensor([3.0, -3.0, 0.5])
    model, inputs, law = TwoLayerLinear(weights, normal(INPUTS, 200)), skewed_inputs(), Bernoulli(0.5, 200)
    found = predictive(model, inputs, law).classes(points=2000)
    assert "head masks" in found.probabilities.method
    assert "third" in found.probabilities.method
    masks = law.multipliers(20_000, torch.Generator().manual_seed(4))
    values = torch.softmax(model.outputs(inputs, masks[:, None]), -1)
    # both are means of values in [0, 1]: five standard errors of the shorter one
    close(found.probabilities.value, values.mean(0), 5 * 0.5 / math.sqrt(2000), scale=1.0)


def test_a_trial_of_head_masks_can_refuse_gaussian_logits(monkeypatch):
    """Few strong units, each below the share that is refused at once: the trial sees what is left."""
    monkeypatch.setattr("droptics.predictions.classes.LARGEST_SHARE", 1.0)
    monkeypatch.setattr("droptics.predictions.classes.LISTED", 1)
    weights = torch.zeros(2, 12).double()
    weights[0, 0] = 40.0
    weights[:, 1:] = normal(2, 11) / 10
    model = TwoLayerLinear(weights, torch.ones(INPUTS, 12).double())
    inputs = torch.full((4, INPUTS), 0.25).double()
    found = predictive(model, inputs, Bernoulli(0.9, 12)).classes()
    assert "disagreed" in found.probabilities.method


def test_the_trial_takes_the_examples_of_fewest_units():
    """Example 37 of 50 lights one unit of 200, the others all of them."""
    inputs = torch.ones(50, 200).double() + 0.1 * normal(50, 200)
    inputs[37, 1:] = 1e-3
    model = TwoLayerLinear(normal(3, 200), torch.eye(200).double())
    found = predictive(model, inputs, Bernoulli(0.5, 200)).classes(points=300)
    assert "third" in found.probabilities.method


def test_sampled_early_masks_carry_an_interval():
    model = relu_network()
    truth = listed(model, skewed_inputs(), RELU_LAW)[0]
    found = predictive(model, skewed_inputs(), RELU_LAW, MonteCarlo(400, seed=9)).classes()
    assert found.probabilities.confidence == 0.99
    half = (found.probabilities.upper - found.probabilities.lower) / 2
    # 21 numbers at 99 %: widened to a normal quantile of 1e-6 each
    assert bool(((found.probabilities.value - truth).abs() <= 2 * half).all())
    assert found.entropy.confidence == 0.0
    assert found.probabilities.method.endswith("400 early masks drawn")


def test_intervals_of_class_probabilities_are_students():
    """From the softmax given each of twelve early masks, the last one listed; rare classes, cut at zero."""
    model = ReLUNet([normal(4, 3), 3 * normal(3, 4, seed=1)], [normal(4, seed=2), normal(3, seed=3)])
    last = torch.tensor([0.4, 0.1, 0.6, 0.3]).double()
    law, inputs = (
        Product([Bernoulli(torch.tensor([0.2, 0.5, 0.3]).double(), 3), Bernoulli(last, 4)]),
        normal(5, 3, seed=4),
    )
    answer = predictive(model, inputs, law, MonteCarlo(12, seed=2))
    given = []
    for _, affine in answer.mixture()():
        center, rows = affine.center, affine.units.contributions
        given.append(sum(p * torch.softmax(center + rows @ (z - 1), -1) for z, p in Bernoulli(last, 4).atoms()))
    given = torch.cat(given)
    half = scipy.stats.t.ppf(0.995, 11) * given.std(0) / math.sqrt(12)
    found = answer.classes().probabilities
    close(found.value, given.mean(0), 1e-12)
    close(found.lower, (given.mean(0) - half).clamp_min(0), 1e-11)
    close(found.upper, (given.mean(0) + half).clamp_max(1), 1e-11)
    assert float(found.lower.min()) == 0


def test_refusals():
    with pytest.raises(ValueError, match="at least two outputs"):
        predictive(TwoLayerLinear(normal(1, 3), normal(INPUTS, 3)), skewed_inputs(), Bernoulli(0.5, 3)).classes()
    found = predictive(TwoLayerLinear(normal(OUTPUTS, 3), normal(INPUTS, 3)), skewed_inputs(), Bernoulli(0.5, 3))
    with pytest.raises(ValueError, match="points must be"):
        found.classes(points=0)


def test_a_mixture_in_many_parts_costs_all_of_them(monkeypatch):
    """One early mask at a time: every one of 2^3 is evaluated."""
    monkeypatch.setattr(mixtures, "CHUNK_ELEMENTS", 1)
    net = ReLUNet([normal(4, 3), normal(3, 4, seed=1)])
    law = Product([Bernoulli(torch.tensor([0.2, 0.5, 0.3]).double(), 3), Bernoulli(0.4, 4)])
    found = predictive(net, normal(5, 3, seed=2), law).classes()
    assert [part.cost for part in (found.probabilities, found.entropy, found.mutual_information)] == [8, 8, 8]


def test_certain_outputs_are_their_softmax():
    model = LastLayer.of(small_network())
    found = predictive(model, skewed_inputs(), Bernoulli(0.0, 5)).classes()
    close(found.probabilities.value, torch.softmax(model.outputs(skewed_inputs()), -1), 1e-14)
    close(found.mutual_information.value, torch.zeros(7), 1e-15, scale=1.0)
