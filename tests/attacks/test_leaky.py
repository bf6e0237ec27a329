"""The two-layer leaky setting: gradients against autograd, Algorithm 5 and 6, robust errors against enumeration."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional

from droptics.attacks import Logistic, Pgd, Reflected, Threat, attack, perturb
from droptics.data import Sample
from droptics.papers.thesis.leaky import (
    LeakyNet,
    adversarial_sgd,
    beta_robust_error,
    reflected_pgd,
    score_floor,
    smallest_score,
)


def network(seed: int, slope: float, width: int = 4, inputs: int = 3) -> LeakyNet:
    generator = torch.Generator().manual_seed(seed)
    hidden = torch.randn(width, inputs, generator=generator, dtype=torch.float64)
    return LeakyNet(
        hidden, torch.randn(width, generator=generator, dtype=torch.float64).sign() / math.sqrt(width), slope
    )


def sample(seed: int, count: int = 30, inputs: int = 3) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 + seed)
    points = torch.randn(count, inputs, generator=generator, dtype=torch.float64)
    return points, torch.randn(count, generator=generator, dtype=torch.float64).sign()


@pytest.mark.parametrize("slope", [0.1, 0.6, 1.0])
def test_gradients_and_updates_are_autograds(slope: float) -> None:
    net = network(0, slope)
    points, signs = sample(0)
    leaf = points.clone().requires_grad_()
    score = functional.leaky_relu(leaf @ net.hidden.mT, slope) @ net.top
    torch.testing.assert_close(net(points), score.detach())
    # sums of four products of numbers near one
    torch.testing.assert_close(net.gradient(points), torch.autograd.grad(score.sum(), leaf)[0], rtol=0, atol=1e-14)
    weights = net.hidden.clone().requires_grad_()
    loss = functional.softplus(-signs * (functional.leaky_relu(points @ weights.mT, slope) @ net.top)).mean()
    (gradient,) = torch.autograd.grad(loss, weights)
    torch.testing.assert_close(net.update(points, signs, 0.3).hidden, net.hidden - 0.3 * gradient)


def test_algorithm_five_is_raw_pgd_on_the_reflected_loss() -> None:
    net = network(1, 0.5)
    points, signs = sample(1)
    ours = reflected_pgd(net, points, signs, 0.4, 0.2, 15)
    method = Pgd(Reflected(Logistic()), steps=15, step=0.2, gradient="raw", stop="never")
    torch.testing.assert_close(ours, perturb(net, points, signs, Threat("l2", 0.4), method))
    assert bool((torch.linalg.vector_norm(ours - points, dim=1) <= 0.4 + 1e-12).all())
    before = signs * net(points)
    for steps in range(1, 6):
        after = signs * net(reflected_pgd(net, points, signs, 0.4, 0.2, steps))
        assert bool((after <= before + 1e-12).all())
        before = after
    assert torch.equal(reflected_pgd(net, points, signs, 0.0, 0.2, 3), points)
    silent = LeakyNet(torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, dtype=torch.float64), 0.5)
    assert torch.equal(reflected_pgd(silent, points, signs, 0.4, 0.2, 3), points)


@given(seed=st.integers(0, 5000), slope=st.sampled_from((0.2, 0.7, 1.0)), radius=st.sampled_from((0.0, 0.3, 2.0)))
@settings(deadline=None, max_examples=15)
def test_floor_and_attack_enclose_the_true_minimum(seed: int, slope: float, radius: float) -> None:
    """In the plane the minimum is found by a fine polar grid; the attack is above it, the floor below."""
    net = network(seed, slope, inputs=2)
    points, signs = sample(seed, 6, 2)
    angle = torch.linspace(0, 2 * math.pi, 181, dtype=torch.float64)
    length = torch.linspace(0, radius, 12, dtype=torch.float64)
    disk = torch.stack([torch.outer(length, angle.cos()), torch.outer(length, angle.sin())], -1).reshape(-1, 2)
    lowest = torch.stack([(sign * net(point + disk)).amin() for point, sign in zip(points, signs, strict=True)])
    floor = score_floor(net, points, signs, radius)
    found = smallest_score(net, points, signs, radius, restarts=3, steps=60)
    slack = radius * 0.02 * float(torch.linalg.vector_norm(net.top) * torch.linalg.matrix_norm(net.hidden, ord=2))
    assert bool((floor <= lowest + 1e-9).all())
    assert bool((floor <= found + 1e-9).all())
    if slope == 1.0:
        torch.testing.assert_close(floor, found, atol=0.02 * (radius + 1e-9), rtol=0)
        assert bool((lowest <= floor + slack + 1e-9).all())


def test_robust_error_of_a_linear_network_is_exact() -> None:
    net = network(3, 1.0)
    points, signs = sample(3, 200)
    data = Sample(points, signs)
    linear = net.top @ net.hidden
    for radius, beta in ((0.0, 0.0), (0.3, 0.0), (0.3, 0.1), (1.0, 0.2)):
        exact = beta_robust_error(net, data, radius, beta)
        scores = (signs * (points @ linear) - radius * linear.norm()) / net.norm
        assert float(exact) == pytest.approx(float((scores < -beta).double().mean()))
        assert exact.lower == exact.upper
    # By attack the same network gives the same number: the gap between closed form and attack is zero.
    result = attack(net, data, Threat("l2", 0.3), Pgd(Logistic(), steps=30))
    assert float(result.success.double().mean()) == pytest.approx(float(beta_robust_error(net, data, 0.3)))


def test_robust_error_of_a_leaky_network_is_an_interval_that_shrinks_with_beta() -> None:
    net = network(4, 0.4)
    data = Sample(*sample(4, 150))
    previous = 1.0
    for beta in (0.0, 0.1, 0.3, 1.0):
        error = beta_robust_error(net, data, 0.25, beta, restarts=2)
        assert float(error.lower) <= float(error.upper) <= 1.0
        assert float(error) <= previous
        previous = float(error)
    scaled = LeakyNet(7 * net.hidden, net.top, net.slope)
    assert float(beta_robust_error(scaled, data, 0.25, 0.1)) == float(beta_robust_error(net, data, 0.25, 0.1))


@given(seed=st.integers(0, 5000), slope=st.floats(0.55, 1.0), radius=st.floats(0.05, 1.5))
@settings(deadline=None, max_examples=15)
def test_lemma_18_on_random_networks(seed: int, slope: float, radius: float) -> None:
    """Claim: thesis-lem18. Against the strongest attack found, where it is beta-effective with the printed beta."""
    net = network(seed, slope)
    points, signs = sample(seed, 12)
    steps, eta = 25, 1.0 / (float(net.top.square().sum()) * net.norm**2)
    mine = signs * net(reflected_pgd(net, points, signs, radius, eta, steps))
    best = torch.minimum(smallest_score(net, points, signs, radius, steps=80, restarts=3), mine)
    beta = 2 * radius * (1 - slope) * float(net.top.abs().sum()) / math.sqrt(len(net.top))
    effective = best / net.norm < -beta
    gap = torch.sigmoid(-best) - (2 * torch.sigmoid(-mine) + 4 * radius**2 / (eta * steps))
    assert bool((gap[effective] <= 1e-9).all())


def test_algorithm_six_trains_a_robust_classifier() -> None:
    generator = torch.Generator().manual_seed(5)

    def draw(_: int) -> tuple[torch.Tensor, torch.Tensor]:
        sign = torch.randn(1, generator=generator, dtype=torch.float64).sign()
        rest = torch.randn(1, 2, generator=generator, dtype=torch.float64)
        return torch.cat([sign[:, None] * 1.5, rest], 1), sign

    run = adversarial_sgd(network(6, 0.8), draw, radius=0.7, steps=300, step=0.2, attack_steps=4, every=50)
    assert len(run.nets) == 7
    assert run.nets[-1] is run.net
    test = [draw(0) for _ in range(200)]
    data = Sample(torch.cat([x for x, _ in test]), torch.cat([y for _, y in test]))
    before = float(beta_robust_error(run.nets[0], data, 0.7))
    after = float(beta_robust_error(run.net, data, 0.7))
    assert after < 0.05 < before


def test_bad_networks_are_refused() -> None:
    weights, top = torch.ones(2, 3, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    for slope in (0.0, 1.5, float("nan")):
        with pytest.raises(ValueError, match="slope must lie"):
            LeakyNet(weights, top, slope)
    with pytest.raises(ValueError, match="one weight per hidden unit"):
        LeakyNet(weights, torch.ones(3, dtype=torch.float64), 0.5)
    net = LeakyNet(weights, top, 0.5)
    with pytest.raises(ValueError, match=r"-1 or \+1"):
        beta_robust_error(net, Sample(torch.ones(2, 3).double(), torch.tensor([0.0, 1.0]).double()), 0.1)
    with pytest.raises(ValueError, match="radius"):
        beta_robust_error(net, Sample(torch.ones(2, 3).double(), torch.ones(2).double()), -0.1)
    for slope in (0.5, 1.0):  # the error is a share of examples
        weighted = Sample(torch.ones(2, 3).double(), torch.ones(2).double(), torch.tensor([0.9, 0.1]).double())
        with pytest.raises(ValueError, match="data must not have weights"):
            beta_robust_error(network(5, slope), weighted, 0.1)
    with pytest.raises(ValueError, match="must not be zero"):
        LeakyNet(0 * weights, top, 0.5).normalized()


def test_scores_on_the_threshold_are_not_decided():
    """Slope 1: a score that equals -beta up to rounding is in the error, one beside it is not."""
    net = LeakyNet(torch.tensor([[0.3, 0.4]], dtype=torch.float64), torch.ones(1, dtype=torch.float64), 1.0)
    # scores 0.6 x_1 + 0.8 x_2 for the normalized network
    inputs = torch.tensor([[1.0, 0.0], [0.6, 0.8]], dtype=torch.float64)
    answer = beta_robust_error(net, Sample(inputs, torch.ones(2, 1).double()), 1.0)
    assert float(answer.error) == 0.5
    assert (float(answer.lower), float(answer.upper)) == (float(answer) - 0.5, float(answer) + 0.5)


def test_the_slope_at_zero_is_that_of_the_right_side():
    net = LeakyNet(torch.eye(2).double(), torch.ones(2).double(), 0.25)
    assert net.gradient(torch.zeros(1, 2).double()).tolist() == [[1.0, 1.0]]
