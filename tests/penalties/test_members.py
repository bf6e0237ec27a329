"""Draws inside torch.func.vmap: every field of the answers is that of a loop over the members."""

from __future__ import annotations

import pytest
import torch
from cases import normal, sample
from torch.func import grad, vmap

from droptics.masks import Bernoulli, Gaussian
from droptics.models import TwoLayerLinear
from droptics.penalties import MonteCarlo, penalty

MEMBERS, V, DATA = normal(3, 3, 5), normal(4, 5), sample()
COINS = Bernoulli(torch.tensor([0.2, 0.3, 0.5, 0.4, 0.6]).double(), 5)


@pytest.mark.parametrize("samples", [20, 400])
def test_all_fields_of_drawn_penalties(samples: int) -> None:
    """The same sums in the same order; the last digits of a product may differ between a batch and a member."""
    method = MonteCarlo(samples, seed=3, confidence=0.9)

    def fields(U: torch.Tensor) -> torch.Tensor:
        told = penalty(TwoLayerLinear(U, V), DATA, COINS, method)
        assert told.guaranteed is not None
        parts = (told.value, told.error, told.lower, told.upper, *told.guaranteed, told.cost, told.confidence)
        return torch.stack([torch.as_tensor(part, dtype=U.dtype) for part in parts])

    alone = torch.stack([fields(U) for U in MEMBERS])
    together = vmap(fields)(MEMBERS)
    torch.testing.assert_close(together, alone, rtol=1e-12, atol=0)
    value, error, lower, upper, low, high, cost, confidence = alone.unbind(1)
    assert bool(((lower < value) & (value < upper) & (low < value) & (value < high) & (error > 0)).all())
    assert set(cost.tolist()) == {samples}
    assert set(confidence.tolist()) == {0.9}


def test_draws_without_a_guarantee_stay_without() -> None:
    def value(U: torch.Tensor) -> torch.Tensor:
        told = penalty(TwoLayerLinear(U, V), DATA, Gaussian(0.3, 5), MonteCarlo(50, seed=3))
        return told.value

    torch.testing.assert_close(vmap(value)(MEMBERS), torch.stack([value(U) for U in MEMBERS]), rtol=1e-12, atol=0)


def test_slopes_of_draws() -> None:
    def value(U: torch.Tensor) -> torch.Tensor:
        return penalty(TwoLayerLinear(U, V), DATA, COINS, MonteCarlo(60, seed=3)).value

    slopes = []
    for U in MEMBERS:
        leaf = U.clone().requires_grad_()
        slopes += torch.autograd.grad(value(leaf), leaf)
    torch.testing.assert_close(vmap(grad(value))(MEMBERS), torch.stack(slopes), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(grad(value)(MEMBERS[1]), slopes[1], rtol=1e-11, atol=1e-12)


def test_every_member_of_a_batch_must_have_draws_enough() -> None:
    """Where masks change nothing no draw carries the variance, and then all members have the guaranteed interval."""
    still = MEMBERS.clone()
    still[1] = 0.0
    law, method = Bernoulli(0.3, 5), MonteCarlo(300, seed=3)
    for weights, few in ((MEMBERS, False), (still, True)):
        told = penalty(TwoLayerLinear(weights, V), DATA, law, method)
        assert told.guaranteed is not None
        assert ("so few draws carry the variance" in told.method) is few
        for end, sure in zip((told.lower, told.upper), told.guaranteed, strict=True):
            alike = (end - sure).abs() <= 1e-9 * sure.abs().max()  # the ends of an interval are rounded outward
            assert bool(alike.all()) is few
