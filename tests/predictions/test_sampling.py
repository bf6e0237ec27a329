"""Intervals of sampled moments: shown where they cover, withheld where rare masks decide."""

import math
from types import SimpleNamespace

import pytest
import torch
from cases import normal
from compare import close

from droptics.masks import Bernoulli, Block, Product
from droptics.models import ReLUNet
from droptics.penalties import MonteCarlo
from droptics.predictions import predictive
from droptics.predictions.mixtures import conditional
from droptics.predictions.sampling import _weighed, degrees_of_freedom, sampled_moments
from droptics.predictions.strata import Strata


def degrees(terms, strata, fitted):
    return degrees_of_freedom(terms, strata, strata.covariance(terms, terms), fitted)


def test_degrees_of_freedom_by_hand():
    """One of ten differs: with p = 1/10 the kurtosis is (1 - 3 p (1 - p)) / (p (1 - p))."""
    terms = torch.zeros(10, 1, 1, dtype=torch.float64)
    terms[0] = 3.0
    kurtosis = (1 - 3 * 0.09) / 0.09
    one = Strata.none(10)
    assert degrees(terms, one, 0) == pytest.approx(20 / (kurtosis - 1), rel=1e-12)
    coins = torch.tensor([1.0, -1.0], dtype=torch.float64).repeat(5)[:, None, None]
    assert degrees(coins, one, 2) == 7.0
    assert degrees(torch.ones(10, 2, 1, dtype=torch.float64), one, 0) == 9.0


def network(rate):
    model = ReLUNet([normal(20, 9) / 2, normal(1, 20, seed=1) / 4])
    return model, normal(6, 9, seed=2) + 0.5, Product([Bernoulli(rate, 9), Bernoulli(rate, 20)])


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_shown_intervals_cover(rate):
    """200 runs at 90 %: six examples share their masks, so that at worst 200 coins are thrown; five deviations."""
    model, inputs, law = network(rate)
    exact = predictive(model, inputs, law)
    hits, shown = torch.zeros(2), torch.zeros(2)
    for seed in range(200):
        found = predictive(model, inputs, law, MonteCarlo(64, seed=seed, confidence=0.9))
        for j, (estimate, truth) in enumerate(((found.mean, exact.mean), (found.variance, exact.variance))):
            finite = torch.isfinite(estimate.upper)
            inside = (estimate.lower <= truth.value) & (truth.value <= estimate.upper)
            hits[j] += (inside & finite).sum()
            shown[j] += finite.sum()
    assert bool((shown >= 600).all())
    assert bool(((hits / shown - 0.9).abs() <= 5 * math.sqrt(0.09 / 200)).all())


def test_degrees_of_freedom_of_strata_by_hand():
    """Two groups of unequal spread: 2 (a + b)^2 / (Var a + Var b), each at least that of a normal sample."""
    strata = Strata((0.7, 0.3), (4, 6))
    terms = torch.tensor([1.0, -1.0, 1.0, -1.0, 5.0, 0.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)[:, None, None]
    errors = 0.49 / 4 * (4 / 3), 0.09 / 6 * (25 / 6)
    spreads = errors[0] ** 2 * 2 / 3, errors[1] ** 2 * (1 / (5 / 36) - 4) / 6  # kurtosis of one in six
    spreads = spreads[0], max(spreads[1], errors[1] ** 2 * 2 / 5)
    assert degrees(terms, strata, 0) == pytest.approx(2 * sum(errors) ** 2 / sum(spreads), rel=1e-12)


def test_rare_masks_withhold_the_interval():
    """Blocks are not stratified."""
    model, inputs, _ = network(0.005)
    law = Product([Block(0.005, 9, 3), Bernoulli(0.005, 20)])
    found = predictive(model, inputs, law, MonteCarlo(64))
    assert "withheld" in found.variance.method
    assert bool(torch.isinf(found.variance.upper).all())
    assert bool(torch.isinf(found.mean.lower).all())


def test_rare_drops_are_stratified_and_their_intervals_cover():
    """As above, at a rate at which independent masks would have to withhold; 14 inputs are too many to be listed."""
    model = ReLUNet([normal(20, 14) / 2, normal(1, 20, seed=1) / 4])
    inputs, law = normal(6, 14, seed=2) + 0.5, Product([Bernoulli(0.02, 14), Bernoulli(0.02, 20)])
    exact = predictive(model, inputs, law).variance.value
    found = [predictive(model, inputs, law, MonteCarlo(128, seed=s, confidence=0.9)).variance for s in range(100)]
    shown = torch.stack([torch.isfinite(one.upper) for one in found])
    inside = torch.stack([(one.lower <= exact) & (exact <= one.upper) for one in found])
    assert float(shown.double().mean()) > 0.5
    assert abs(float((inside & shown).sum() / shown.sum()) - 0.9) <= 5 * math.sqrt(0.09 / 100)


def test_a_control_that_runs_against_the_outputs_has_a_negative_weight():
    """Outputs are -2 times the control and a bit more: least squares; what it knows has the square."""
    along, other, noise = (normal(40, 3, 2, seed=seed) for seed in (1, 2, 3))
    moved, variance = -2 * along + 0.1 * other, normal(3, 2).square()
    control = SimpleNamespace(control=lambda draws: along, noise_control=lambda draws: 0 * along, kind="slopes")
    draws = SimpleNamespace(strata=Strata.none(40))
    found = _weighed(None, (moved, noise), [control], [variance], draws)
    rows, aim = ((part / variance.sqrt()).flatten() for part in (along, moved))
    weight = (rows @ aim) / (rows @ rows)
    assert -2.1 < float(weight) < -1.9
    torch.testing.assert_close(found.control, weight * along, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(found.known, weight**2 * variance, rtol=1e-9, atol=1e-12)
    assert found.words == f"control: slopes x {float(weight):.2f}"


def test_the_control_of_variances_is_taken_off_as_it_follows_them():
    """Variances are a constant and half of their control: the constant is left, up to the ridge of 8 eps."""
    follows = normal(8, 2, 1)
    follows -= follows.mean(0)
    still = torch.zeros_like(follows)
    control = SimpleNamespace(kind="main", control=lambda _: still, noise_control=lambda _: follows)
    draws = SimpleNamespace(strata=Strata.none(8))
    found = _weighed(None, (normal(8, 2, 1, seed=1), 3.0 + follows / 2), [control], [torch.ones(2, 1).double()], draws)
    close(found.noise, torch.full_like(follows, 3.0), 1e-13)


@pytest.mark.parametrize("count", [4, 9])
def test_moments_of_drawn_masks_are_unbiased(count):
    """The mean over many seeds of few masks each, without controls, whose weights are fitted, against all masks."""
    net = ReLUNet([normal(3, 2), normal(2, 3, seed=1)])
    inputs, law = normal(2, 2, seed=2), Product([Bernoulli(0.5, 2), Bernoulli(0.3, 3)])
    exact, problem = predictive(net, inputs, law), conditional(net, inputs, law)
    found = [sampled_moments(problem, MonteCarlo(count, seed=seed), False) for seed in range(400)]
    for j, wanted in enumerate((exact.mean.value, exact.variance.value)):
        values = torch.stack([pair[j].value for pair in found])
        error = values.std(0) / 20
        assert bool(((values.mean(0) - wanted).abs() <= 4 * error).all())


def test_the_covariance_of_drawn_masks_is_unbiased():
    """The mean over many seeds of four masks each, against all masks; the factor is that of the sample variance."""
    net = ReLUNet([normal(3, 2), normal(2, 3, seed=1)])
    inputs, law = normal(2, 2, seed=2), Product([Bernoulli(0.5, 2), Bernoulli(0.3, 3)])
    exact = predictive(net, inputs, law).covariance.value
    found = torch.stack(
        [predictive(net, inputs, law, MonteCarlo(4, seed=seed)).covariance.value for seed in range(400)]
    )
    error = found.std(0) / 20
    assert bool(((found.mean(0) - exact).abs() <= 4 * error).all())
    assert float((error / exact.abs()).min()) < 0.05  # a missing 4 / 3 would show


@pytest.mark.parametrize("rates", [(0.2, 0.3), (1e-3, 0.3)])
def test_a_derivative_in_the_law_of_random_masks_is_refused(rates):
    """Draws that are stratified, or taken from a list, count as random masks, too."""
    model, inputs, _ = network(0.5)
    free = [torch.tensor(rate, dtype=torch.float64, requires_grad=True) for rate in rates]
    law = Product([Bernoulli(free[0], 9), Bernoulli(free[1], 20)])
    found = predictive(model, inputs, law, MonteCarlo(64)).variance.value.sum()
    (slope,) = torch.autograd.grad(found, free[1], retain_graph=True)  # the last mask is integrated
    assert bool(torch.isfinite(slope))
    with pytest.raises(NotImplementedError, match="random masks have no derivative in their law"):
        torch.autograd.grad(found, free[0])
