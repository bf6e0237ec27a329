"""Scores of predictions against their definitions, and the noise against the one that made the data."""

import math

import pytest
import torch
from cases import INPUTS, normal
from compare import close
from torch.distributions import Normal

from droptics.masks import Bernoulli, Gaussian, Product
from droptics.models import ReLUNet, TwoLayerLinear
from droptics.predictions import calibration, conformal_factor, expected_calibration_error, fit_noise, predictive

NETWORK = ReLUNet([normal(5, INPUTS), normal(1, 5)], [normal(5), normal(1)])
LAW = Product([Bernoulli(0.1, INPUTS), Bernoulli(0.2, 5)])


def observations(count, noise, seed=0):
    """Targets drawn from the network itself: a mask, then noise."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, INPUTS, generator=generator, dtype=torch.float64)
    masks = LAW.multipliers(count, generator)
    return inputs, NETWORK.outputs(inputs, masks) + noise * torch.randn(count, 1, generator=generator).double()


def test_noise_is_found_where_it_made_the_data():
    """The maximum-likelihood deviation of 2000 observations: within five of its standard errors, about s / 63."""
    inputs, targets = observations(2000, 0.8)
    found = fit_noise(predictive(NETWORK, inputs, LAW), targets)
    assert abs(found - 0.8) <= 5 * 0.8 / math.sqrt(4000) * 2  # the masks' spread blurs it by less than two


@pytest.mark.parametrize(("scale", "far"), [(2.0**-30, 5), (2.0**30, 3)])
def test_the_noise_has_the_units_of_the_targets(scale, far):
    """Also where no mask reaches a target, which then costs the logarithm of the least density: one per unit."""
    found = []
    for unit in (1.0, scale):
        model, inputs = TwoLayerLinear(unit * normal(1, 3), normal(INPUTS, 3)), normal(40, INPUTS)
        prediction = predictive(model, inputs, Bernoulli(0.2, 3))
        targets = prediction.mean.value + 0.05 * unit * normal(40, 1, seed=9)
        targets[0] += far * unit
        found.append(fit_noise(prediction, targets) / unit)
    assert found[1] == pytest.approx(found[0], rel=2e-4)  # each search ends within 1e-4


def test_the_true_model_is_calibrated_and_a_wrong_one_is_not():
    inputs, targets = observations(1500, 0.5, seed=3)
    prediction = predictive(NETWORK, inputs, LAW)
    found = calibration(prediction, targets, 0.5)
    for level, share in zip(found.levels, found.coverage, strict=True):
        assert abs(share - level) <= 5 * math.sqrt(level * (1 - level) / 1500)
    # Kolmogorov's distance of the PIT from uniform: 2.3 / sqrt(n) has probability 5e-5
    ordered = found.pit.flatten().sort().values
    assert float((ordered - torch.arange(1500) / 1500).abs().max()) <= 2.3 / math.sqrt(1500)
    for wrong in (0.2, 3.0):
        other = calibration(prediction, targets, wrong)
        assert other.nll > found.nll
        assert other.crps > found.crps
    close(found.rmse, float((prediction.mean.value - targets).square().mean().sqrt()), 1e-14)


def test_scores_of_a_normal_prediction_equal_their_formulas():
    model, inputs = TwoLayerLinear(normal(1, 3), normal(INPUTS, 3)), normal(9, INPUTS)
    prediction = predictive(model, inputs, Gaussian(0.3, 3))
    targets = prediction.mean.value + normal(9, 1)
    found = calibration(prediction, targets, 0.7)
    spread = (prediction.variance.value + 0.49).sqrt()
    score = (targets - prediction.mean.value) / spread
    unit = Normal(torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64))
    crps = spread * (score * (2 * unit.cdf(score) - 1) + 2 * unit.log_prob(score).exp() - 1 / math.sqrt(math.pi))
    # a trapezoid of 512 steps on a period of about 20 deviations whose integrand jumps once: h / 2 at the jump
    assert abs(found.crps - float(crps.mean())) <= float((prediction.density(0.7).width / 512).max())
    close(found.nll, -float(Normal(prediction.mean.value, spread).log_prob(targets).mean()), 1e-10)


@pytest.mark.parametrize("side", [-1, 1])
def test_targets_far_from_the_density_cost_their_distance(side):
    """Of a normal prediction the score grows as |y - mean| - deviation / sqrt(pi): beyond every grid on either side."""
    model, inputs = TwoLayerLinear(normal(1, 3), normal(INPUTS, 3)), normal(9, INPUTS)
    prediction = predictive(model, inputs, Gaussian(0.3, 3))
    spread = (prediction.variance.value + 0.49).sqrt()
    reach = prediction.density(0.7).width
    for far in (1.0, 4.0):
        found = calibration(prediction, prediction.mean.value + side * far * reach, 0.7)
        wanted = far * reach - spread / math.sqrt(math.pi)
        assert abs(found.crps - float(wanted.mean())) <= float((reach / 512).max())
        assert found.coverage == (0.0, 0.0, 0.0)


def test_split_conformal_covers_even_a_wrong_noise():
    inputs, targets = observations(600, 0.5, seed=7)
    fresh, wanted = observations(3000, 0.5, seed=8)
    prediction = predictive(NETWORK, fresh, LAW)
    for noise in (0.1, 2.0):
        factor = conformal_factor(predictive(NETWORK, inputs, LAW), targets, noise, 0.9)
        half = factor * (prediction.variance.value + noise**2).sqrt()
        share = float(((wanted - prediction.mean.value).abs() <= half).double().mean())
        # a Beta(541, 60) coverage and its binomial estimate: five deviations of both together
        assert 0.9 - 5 * math.sqrt(0.09 / 600 + 0.09 / 3000) <= share <= 0.902 + 5 * math.sqrt(0.09 / 600 + 0.09 / 3000)
    few = predictive(NETWORK, inputs[:5], LAW)
    assert conformal_factor(few, targets[:5], 0.5, 0.9) == math.inf


def test_expected_calibration_error_by_hand():
    chances = torch.tensor([[0.9, 0.1], [0.8, 0.2], [0.3, 0.7], [0.45, 0.55]], dtype=torch.float64)
    labels = torch.tensor([0, 1, 1, 1])
    # bins of width 1/5: {0.9, 0.8} with accuracy 1/2, {0.7} with 1, {0.55} with 1
    close(expected_calibration_error(chances, labels, bins=5), (abs(1.7 - 1) + 0.3 + 0.45) / 4, 1e-14)
    assert expected_calibration_error(torch.eye(3).double(), torch.arange(3)) == 0.0


def test_refusals():
    two = predictive(TwoLayerLinear(normal(2, 3), normal(INPUTS, 3)), normal(5, INPUTS), Bernoulli(0.5, 3))
    with pytest.raises(ValueError, match="one output"):
        fit_noise(two, normal(5, 2))
    one = predictive(TwoLayerLinear(normal(1, 3), normal(INPUTS, 3)), normal(5, INPUTS), Bernoulli(0.5, 3))
    with pytest.raises(ValueError, match="targets have shape"):
        calibration(one, normal(4), 1.0)
    with pytest.raises(ValueError, match="no noise to fit"):
        fit_noise(one, one.mean.value)


def test_coverage_counts_what_lies_inside_the_intervals():
    model = ReLUNet([normal(4, 3), normal(1, 4, seed=1)])
    found = predictive(model, normal(60, 3, seed=2), Bernoulli(0.3, 7))
    targets = 3 * normal(60, 1, seed=3)
    judged = calibration(found, targets, 0.7, (0.3, 0.8))
    for level, share in zip((0.3, 0.8), judged.coverage, strict=True):
        low, high = found.interval(level, 0.7)
        assert share == pytest.approx(float(((low <= targets) & (targets <= high)).double().mean()))
