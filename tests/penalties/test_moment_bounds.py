"""Bounds of E log(1 + x) by moments against sums over lists of values, in rational arithmetic where that decides."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from droptics.penalties.moment_bounds import gauss_above, radau_below


def moments(values: list[float], chances: list[float]) -> list[Tensor]:
    """E x to E x^4, rounded once."""
    total = sum(Fraction(chance) for chance in chances)
    pairs = [(Fraction(x), Fraction(chance) / total) for x, chance in zip(values, chances, strict=True)]
    return [torch.tensor([float(sum(w * x**k for x, w in pairs))], dtype=torch.float64) for k in (1, 2, 3, 4)]


def truth(values: list[float], chances: list[float]) -> float:
    total = math.fsum(chances)
    return math.fsum(chance * math.log1p(x) for x, chance in zip(values, chances, strict=True)) / total


def rounded(found: list[Tensor]) -> list[Tensor]:
    return [part * 2.0**-53 for part in found]


def ends(values: list[float], chances: list[float]) -> tuple[float, float, float, float]:
    """Lower and upper bound without and with their rounding."""
    found = moments(values, chances)
    errors = rounded(found)
    (upper, above), (lower, below) = gauss_above(found[:3], errors[:3]), radau_below(found, errors)
    return float(lower), float(upper), float(lower - below), float(upper + above)


@pytest.mark.parametrize("scale", [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e6])
@pytest.mark.parametrize("seed", range(20))
def test_bounds_hold_and_are_narrower_than_those_of_two_moments(seed: int, scale: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    count = 3 + seed % 7
    values = (scale * torch.rand(count, generator=generator, dtype=torch.float64) ** 3).tolist()
    chances = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
    exact = truth(values, chances)
    _, _, lower, upper = ends(values, chances)
    slack = 8 * torch.finfo(torch.float64).eps * exact
    assert lower <= exact + slack
    assert upper >= exact - slack
    m1, m2 = (float(part) for part in moments(values, chances)[:2])
    if scale >= 1e-3:  # below, both are the truth to seven digits
        assert upper < math.log1p(m1)
        assert lower > m1**2 / m2 * math.log1p(m2 / m1)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 100.0])
def test_a_law_of_as_few_values_as_the_rule_has_nodes_is_met(scale: float) -> None:
    two, chances = [0.5 * scale, 2 * scale], [0.7, 0.3]
    assert ends(two, chances)[1] == pytest.approx(truth(two, chances), rel=1e-9)
    three, chances = [0.0, 0.5 * scale, 2 * scale], [0.2, 0.5, 0.3]
    assert ends(three, chances)[0] == pytest.approx(truth(three, chances), rel=1e-9)


@pytest.mark.parametrize("nodes", [(0.5, 3.0), (0.02, 0.1), (2.0, 40.0)])
def test_any_nodes_give_bounds_that_touch_there(monkeypatch: pytest.MonkeyPatch, nodes: tuple[float, float]) -> None:
    """Laws of nearly one value walk along the polynomials: with a wrong slope at a node they would cross."""
    fixed = [torch.tensor([node], dtype=torch.float64) for node in nodes]
    monkeypatch.setattr("droptics.penalties.moment_bounds._nodes", lambda *_: fixed)
    for x in torch.logspace(-3, 2, 200, dtype=torch.float64).tolist() + [node * (1 + 1e-3) for node in nodes]:
        values = [x * (1 - 1e-4), x * (1 + 1e-4)]
        exact = truth(values, [0.5, 0.5])
        lower, upper, below, above = ends(values, [0.5, 0.5])
        assert below <= exact <= above
        if any(abs(x / node - 1) < 2e-3 for node in nodes):
            assert upper - lower < 1e-4 * exact


def test_rounding_covers_moments_that_are_off() -> None:
    values, chances = [0.1, 0.8, 3.0, 7.0], [0.4, 0.3, 0.2, 0.1]
    found, exact = moments(values, chances), truth(values, chances)
    off = 1e-3
    errors = [part * off for part in found]
    for signs in range(16):
        moved = [part * (1 + off * (1 - 2 * (signs >> k & 1))) for k, part in enumerate(found)]
        (upper, above), (lower, below) = gauss_above(moved[:3], errors[:3]), radau_below(moved, errors)
        assert float(lower - below) <= exact <= float(upper + above)


@pytest.mark.parametrize("values", [[0.0, 0.0], [2.0, 2.0], [0.0, 1.0], [1.0, 1.0 + 1e-9]])
def test_laws_without_a_rule_have_no_bound_and_no_nan(values: list[float]) -> None:
    found = [part.requires_grad_() for part in moments(values, [0.5, 0.5])]
    (upper, above), (lower, below) = gauss_above(found[:3], rounded(found)[:3]), radau_below(found, rounded(found))
    assert float((lower - below).detach()) <= truth(values, [0.5, 0.5]) <= float((upper + above).detach())
    known = torch.where(upper.isfinite(), upper, torch.zeros_like(upper)) + lower
    for part in torch.autograd.grad(known.sum(), found):
        assert part.isfinite().all()


def test_derivatives() -> None:
    found = [part.requires_grad_() for part in moments([0.1, 0.8, 3.0, 7.0], [0.4, 0.3, 0.2, 0.1])]
    errors = rounded([part.detach() for part in found])
    assert torch.autograd.gradcheck(lambda *m: gauss_above(m, errors[:3])[0], found[:3])
    assert torch.autograd.gradcheck(lambda *m: radau_below(m, errors)[0], found)
    assert torch.autograd.gradgradcheck(lambda *m: gauss_above(m, errors[:3])[0], found[:3])
