"""Monte Carlo intervals: finite for finite data, never a wrong point, and covering at every rate."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import torch
from cases import normal
from scipy.stats import binom

from droptics.attacks.losses import Margin
from droptics.data import Sample
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.masks import Bernoulli, Discrete, Gaussian, MaskLaw, Product
from droptics.models import DeepLinear, Model, ReLUNet, TwoLayerLinear
from droptics.penalties import Enumerate, MonteCarlo, penalty
from droptics.penalties.intervals import Question, guaranteed, rare_outcomes, unbounded

SAMPLE = Sample(normal(6, 4), normal(6, 2, seed=1))
LABELS = Sample(SAMPLE.inputs, SAMPLE.targets.argmax(1))
SINGLE = torch.float32


def by_layer(rate: float, *sizes: int) -> MaskLaw:
    return Product([Bernoulli(rate, size) for size in sizes])


FAMILIES: dict[str, tuple[Model, tuple[int, ...]]] = {
    "two-layer": (TwoLayerLinear(normal(2, 5), normal(4, 5)), (5,)),
    "deep": (DeepLinear([normal(4, 4), normal(3, 4), normal(2, 3)]), (4, 3)),
    "relu": (ReLUNet([normal(5, 4), normal(2, 5)]), (4, 5)),
    "relu-deep": (ReLUNet([normal(3, 4), normal(3, 3), normal(2, 3)]), (4, 3, 3)),
}


@pytest.mark.parametrize("name", ["two-layer", "deep", "relu"])
def test_finite_data_have_finite_intervals(name: str) -> None:
    model, sizes = FAMILIES[name]
    scaled = [1e8 * part.to(SINGLE) for part in model.tensors]
    match model:
        case TwoLayerLinear():
            large: Model = TwoLayerLinear(*scaled)
        case DeepLinear():
            large = DeepLinear([scaled[0], *(part / 1e8 for part in scaled[1:])])
        case _:
            large = ReLUNet(scaled[:2])
    data = Sample(SAMPLE.inputs.to(SINGLE), 1e8 * SAMPLE.targets.to(SINGLE))
    answer = penalty(large, data, by_layer(0.3, *sizes), MonteCarlo(confidence=0.9999))
    truth = penalty(large, data, by_layer(0.3, *sizes), Enumerate())
    assert all(bool(torch.isfinite(part)) for part in (answer.value, answer.lower, answer.upper))
    assert float(answer.lower) <= float(truth) <= float(answer.upper)
    assert float(answer.upper - answer.lower) < float(truth)


def test_what_overflows_names_the_model() -> None:
    model = TwoLayerLinear(1e25 * normal(2, 5).to(SINGLE), 1e25 * normal(4, 5).to(SINGLE))
    with pytest.raises(ValueError, match=r"model and data are too large for torch\.float32"):
        penalty(model, SAMPLE.to(SINGLE), Bernoulli(0.3, 5), MonteCarlo())


def test_a_perfect_fit_to_few_masks_is_no_interval() -> None:
    model = DeepLinear([normal(2, 2), normal(2, 2, seed=1)])
    data = Sample(normal(6, 2), normal(6, 2, seed=1))
    atoms = torch.tensor([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], dtype=torch.float64)
    law = Discrete(atoms, torch.tensor([0.81, 0.09, 0.09, 0.01], dtype=torch.float64))
    truth = float(penalty(model, data, law))
    for seed in range(40):
        answer = penalty(model, data, law, MonteCarlo(400, seed=seed, confidence=0.95))
        assert float(answer.lower) <= truth <= float(answer.upper)
        assert "so rare among 400 draws that the interval is the guaranteed one" in answer.method


def test_equal_draws_are_no_interval() -> None:
    """Two inputs must fall together for anything to happen: where nothing was seen, the answer says so."""
    one = torch.ones(1, 1, dtype=torch.float64)
    model = ReLUNet([-one.expand(1, 2), one], [one[0] / 2, None])
    data = Sample(one.expand(1, 2), 0 * one)
    law = by_layer(0.02, 2, 1)
    truth = float(penalty(model, data, law))
    assert truth > 0
    for seed in range(40):
        answer = penalty(model, data, law, MonteCarlo(600, seed=seed, confidence=0.95))
        assert float(answer.lower) <= truth <= float(answer.upper)


def test_an_unknown_family_says_that_nothing_bounds_it() -> None:
    class Plain(Model):
        units, tensors = 4, (normal(2, 2),)

        def outputs(self, inputs: torch.Tensor, multipliers: torch.Tensor | None = None) -> torch.Tensor:
            return torch.tanh((inputs if multipliers is None else inputs * multipliers) @ normal(4, 2))

    answer = penalty(Plain(), SAMPLE, Bernoulli(1e-6, 4), MonteCarlo(100))
    assert answer.guaranteed is None
    assert float(answer.upper) == float("inf")
    assert "unbounded" in answer.method


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
@pytest.mark.parametrize("law", [Bernoulli(0.3, 5), Gaussian(0.4, 5), Bernoulli(1e-9, 5), Bernoulli(1 - 1e-6, 5)])
def test_bounded_losses_have_a_guarantee(loss: Loss, law: MaskLaw) -> None:
    data = SAMPLE if isinstance(loss, Squared) else LABELS
    model = FAMILIES["two-layer"][0]
    answer = penalty(model, data, law, MonteCarlo(50), loss)
    assert answer.guaranteed is not None
    low, high = answer.guaranteed
    if law.support_count is not None:
        assert float(low) <= float(penalty(model, data, law, Enumerate(), loss)) <= float(high)


def absolute_outputs(model: TwoLayerLinear, inputs: torch.Tensor) -> torch.Tensor:
    return inputs.abs() @ model.V.abs() @ model.U.abs().mT


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
@pytest.mark.parametrize("confidence", [0.9, 0.999])
def test_the_guarantee_is_the_empirical_bernstein_bound(loss: Loss, confidence: float) -> None:
    """sqrt(2 V ln(4 / delta) / n) + 7 B ln(4 / delta) / (3 (n - 1)) beside the mean: Maurer and Pontil 2009, thm. 4.

    B is the largest range of the mean loss: coins at rate 1/2 double what they keep.
    """
    model = TwoLayerLinear(normal(2, 5), normal(4, 5))
    data, law = SAMPLE if isinstance(loss, Squared) else LABELS, Bernoulli(0.5, 5)
    count, plain = 200_000, loss(model.outputs(data.inputs), data.targets).mean()
    largest = 2 * absolute_outputs(model, data.inputs)
    if isinstance(loss, Squared):
        reach = (largest + data.targets.abs()).square().sum(1).mean()
    else:
        reach = 2 * CrossEntropy().slope * (largest + model.outputs(data.inputs).abs()).amax(1).mean()
    masks = torch.cat([part for part, _ in law.atom_batches(64)])
    losses = torch.stack([loss(model.outputs(data.inputs, mask), data.targets).mean() for mask in masks])
    assert float(losses.max() - losses.min()) <= float(reach)
    values = 0.01 * normal(count)
    question = Question(model, data, law, MonteCarlo(count, confidence=confidence), loss, plain)
    found = guaranteed(model, data, question, values, np.zeros(()))
    assert found is not None
    log_term = math.log(4 / (1 - confidence))
    width = math.sqrt(2 * float(values.var()) * log_term / count) + 7 * float(reach) * log_term / (3 * (count - 1))
    assert float(found[0]) == pytest.approx(float(values.mean()) - width, rel=1e-12)
    assert float(found[1]) == pytest.approx(float(values.mean()) + width, rel=1e-12)


def test_few_draws_are_cut_to_what_two_moments_allow() -> None:
    """Of four draws nothing is known but |penalty| <= p / (1 - p) sum_k (|U| |V|^T rms x)_k^2, and loss >= 0."""
    model, rate = TwoLayerLinear(normal(2, 5), normal(4, 5)), 0.2
    plain = (model.outputs(SAMPLE.inputs) - SAMPLE.targets).square().sum(1).mean()
    scale = absolute_outputs(model, SAMPLE.inputs.square().mean(0, keepdim=True).sqrt())
    certain = rate / (1 - rate) * float(scale.square().sum())
    question = Question(model, SAMPLE, Bernoulli(rate, 5), MonteCarlo(4), Squared(), plain)
    found = guaranteed(model, SAMPLE, question, torch.tensor([0.0, 1.0, 0.0, 1.0]).double(), np.zeros(()))
    assert found is not None
    # the difference of two roundings in the bound on the change is allowed 64 roundings of the outputs, and squared
    assert float(found[1]) == pytest.approx(certain, rel=1e-12)
    assert float(found[1]) >= certain
    assert float(found[0]) == pytest.approx(-min(certain, float(plain)), rel=1e-12)


def test_the_guarantee_is_that_of_the_weights_that_were_asked_about() -> None:
    """It is computed when it is read; weights that were changed in place by then give none instead of a wrong one."""
    model = TwoLayerLinear(normal(2, 5).clone(), normal(4, 5))
    first, second = (penalty(model, SAMPLE, Bernoulli(0.3, 5), MonteCarlo(50)) for _ in range(2))
    assert first.guaranteed is not None
    model.U.mul_(10)
    assert second.guaranteed is None
    moved = first.shift(torch.tensor(1.0, dtype=torch.float64))
    assert float(first.guaranteed[0]) + 1 == pytest.approx(float(moved.guaranteed[0]), rel=1e-14)


def test_a_variance_takes_four_samples() -> None:
    assert MonteCarlo(4).samples == 4
    with pytest.raises(ValueError, match="samples must be at least 4 to estimate a variance, got 3"):
        MonteCarlo(3)


RATES = (1e-9, 1e-3, 0.02, 0.06, 0.2, 0.5, 0.9, 0.98, 1 - 1e-6)


@pytest.mark.parametrize("samples", [100, 367, 368, 1000])
def test_the_control_of_single_units_waits_for_pairs(samples: int) -> None:
    """At rate 0.1 two units fall together once in 100 draws; 0.99^n passes 2.5 % at 368."""
    model, sizes = FAMILIES["deep"]
    answer = penalty(model, SAMPLE, by_layer(0.1, *sizes), MonteCarlo(samples, confidence=0.95))
    assert ("control variate" in answer.method) == (0.99**samples <= 0.025)


RUNS = 24


@pytest.mark.slow
@pytest.mark.parametrize("rate", RATES)
def test_intervals_cover_at_every_rate(rate: float) -> None:
    """All families and losses at one rate: 8 x 24 intervals at 95 %, which fail by chance in one of 10,000 trials."""
    hits, ordinary, count = 0, 0, 0
    for (model, sizes), loss in itertools.product(FAMILIES.values(), (Squared(), CrossEntropy())):
        data, law = SAMPLE if isinstance(loss, Squared) else LABELS, by_layer(rate, *sizes)
        truth = float(penalty(model, data, law, Enumerate(), loss))
        for seed in range(RUNS):
            answer = penalty(model, data, law, MonteCarlo(200, seed=seed, confidence=0.95), loss)
            hits += float(answer.lower) <= truth <= float(answer.upper)
            ordinary += "guaranteed" not in answer.method
            count += 1
    assert hits >= binom.ppf(1e-4, count, 0.95)
    # moderate rates keep the ordinary interval, rates that 200 draws cannot show never do
    if rate in (0.2, 0.5):
        assert ordinary >= 0.9 * count
    if min(rate, 1 - rate) * 200 < 10:
        assert ordinary == 0


def test_signals_that_pass_all_masks_too_rarely_are_told():
    """Two layers of three units: ten draws are asked for in which something passes, each layer at most at one."""
    model, law = DeepLinear([normal(3, 4), normal(3, 3), normal(2, 3)]), by_layer(0.99, 3, 3)
    passing = (3 * 0.01) ** 2
    for factor, told in ((0.999, True), (1.001, False)):
        assert (rare_outcomes(model, law, round(factor * 10 / passing), 1.0) is not None) == told


@pytest.mark.parametrize(("loss", "least"), [(Squared(), -2.5), (CrossEntropy(), -2.5), (Margin(), -math.inf)])
def test_without_a_bound_a_penalty_is_no_less_than_minus_the_loss_of_the_mean(loss, least):
    model, law = TwoLayerLinear(normal(2, 3), normal(4, 3)), Gaussian(0.5, 3)
    question = Question(model, SAMPLE, law, MonteCarlo(10), loss, torch.tensor(2.5).double())
    low, high = unbounded(question, np.zeros(2))
    assert (low.tolist(), high.tolist()) == ([least] * 2, [math.inf] * 2)
