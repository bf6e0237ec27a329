"""Spectra of a batch with strengths of their own, each beside its least value found one by one."""

from __future__ import annotations

import math

import pytest
import torch
from cases import normal
from compare import close
from scipy.optimize import brentq

from droptics.linalg import allocate, k_support_shrink, shrink

VALUES = normal(2, 3, 5) * torch.tensor([1.0, 3.0, 0.2]).double()[:, None]
STRENGTHS = torch.tensor([[0.0, 0.4, 7.0], [2.0, 0.01, 1.0]]).double()


def by_weights(values: torch.Tensor, strength: float, k: int) -> torch.Tensor:
    """v t / (t + s) with t = level |v| - s cut to [0, 1] that sum to k: what min_t sum v^2 s / (t + s) asks for."""
    sizes = values.abs().numpy()
    if strength == 0 or k >= len(sizes):
        return values / (1 + strength)
    full = (1 + strength) / sizes.min()
    level = brentq(lambda a: (a * sizes - strength).clip(0, 1).sum() - k, 0, full, xtol=1e-15)
    t = torch.from_numpy((level * sizes - strength).clip(0, 1))
    return values * t / (t + strength)


def of_every_rank(values: torch.Tensor, strength: float, width: int) -> torch.Tensor:
    """The least of |v - x|^2 + s / width (sum x)^2 over the top values of every rank that stay positive."""
    ordered, order = values.sort(descending=True)
    best, least = torch.zeros_like(values), math.inf
    for rank in range(min(width, len(values)) + 1):
        top = ordered[:rank] - strength * ordered[:rank].sum() / (width + strength * rank)
        x = torch.zeros_like(values)
        x[order[:rank]] = top
        cost = float((values - x).square().sum() + strength / width * x.sum().square())
        if bool((top > 0).all()) and cost < least:
            best, least = x, cost
    return best


@pytest.mark.parametrize("k", [1, 2, 4, 5, 8])
@pytest.mark.parametrize("derivative", [False, True])
def test_every_spectrum_has_the_proximal_map_of_its_own_strength(k, derivative):
    told = k_support_shrink(VALUES.clone().requires_grad_(derivative), STRENGTHS, k).detach()
    for values, strengths, shrunk in zip(VALUES, STRENGTHS, told, strict=True):
        for row, strength, one in zip(values, strengths.tolist(), shrunk, strict=True):
            # the level is found to a few units of rounding, relative to the largest value
            close(one, by_weights(row, strength, k), relative=1e-12, scale=float(row.abs().max()))


@pytest.mark.parametrize("width", [1, 2, 4, 9])
def test_every_spectrum_is_shrunk_by_its_own_strength_and_stays_in_its_order(width):
    told = shrink(VALUES, STRENGTHS, width)
    for values, strengths, shrunk in zip(VALUES, STRENGTHS, told, strict=True):
        for row, strength, one in zip(values, strengths.tolist(), shrunk, strict=True):
            close(one, of_every_rank(row, strength, width), relative=1e-13, scale=float(row.abs().max()))


@pytest.mark.parametrize("wrong", [-0.1, math.inf, math.nan])
def test_one_bad_strength_of_a_batch_is_refused(wrong):
    strengths = STRENGTHS.clone()
    strengths[1, 0] = wrong
    for call in (lambda: shrink(VALUES, strengths, 2), lambda: k_support_shrink(VALUES, strengths, 2)):
        with pytest.raises(ValueError, match="strength"):
            call()


@pytest.mark.parametrize("shape", [(2,), (3, 1), (2, 2), (4, 2, 3)])
def test_strengths_that_do_not_fit_the_spectra_are_refused(shape):
    strengths = torch.ones(shape, dtype=torch.float64)
    for call in (lambda: shrink(VALUES, strengths, 2), lambda: k_support_shrink(VALUES, strengths, 2)):
        with pytest.raises(ValueError, match=r"strength.*one number, or one for each of the spectra"):
            call()


@pytest.mark.parametrize("least", [0.0, 1e-310, 1e-200, 1e-100])
def test_costs_of_shares_have_slopes_at_rates_next_to_zero(least: float) -> None:
    """The least of sum strength n^2 grows by n^2: the unit that hardly falls has the largest value, 3."""
    values = torch.tensor([3.0, 1.0, 0.2], dtype=torch.float64)
    strengths = torch.tensor([least, 0.3, 0.2], dtype=torch.float64, requires_grad=True)
    shares = allocate(values, strengths)
    (slope,) = torch.autograd.grad((strengths * shares.square()).sum(), strengths)
    assert shares.tolist() == pytest.approx([3.0, 0.48, 0.72], rel=1e-14)
    assert slope.tolist() == pytest.approx([9.0, 0.48**2, 0.72**2], rel=1e-14)
