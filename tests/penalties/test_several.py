"""Integrals of several margins against enumeration, their stated errors, and the bounds that rest on them."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from cases import normal
from torch import Tensor

from droptics.masks import Bernoulli, Discrete, Gaussian, MaskLaw
from droptics.penalties import several
from droptics.penalties.factors import factors
from droptics.penalties.several import several_bounds, together

LAWS = {
    "coins": Bernoulli(torch.tensor([0.0, 0.1, 0.3, 0.5, 0.9, 0.5]).double(), 6),
    "list": Discrete(normal(7, 6, seed=3) + 2, torch.arange(1, 8).double() / 28),
}


def masked(law: MaskLaw, means: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs under every mask, (masks, ..., outputs), and the chances of the masks."""
    masks, chances = (torch.cat(part) for part in zip(*law.atom_batches(4096), strict=True))
    return means + torch.einsum("mu,...ou->m...o", masks - 1, values), chances


def alternating(margins: Tensor) -> Tensor:
    """J by its definition: the sum over sets B of (-1)^(|B| + 1) log(1 + sum_B e^a)."""
    count = margins.shape[-1]
    sets = (part for size in range(1, count + 1) for part in itertools.combinations(range(count), size))
    return sum(
        ((-1) ** (len(part) + 1) * torch.log1p(margins[..., list(part)].exp().sum(-1)) for part in sets),
        start=torch.zeros(margins.shape[:-1], dtype=torch.float64),
    )


def lost(outputs: Tensor) -> Tensor:
    return torch.logsumexp(outputs, -1)


@pytest.mark.parametrize("scale", [0.1, 1.0, 2.0])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_integrals_are_the_enumerated_means(law: MaskLaw, count: int, scale: float) -> None:
    means, values = normal(1, 4, count, seed=1) - 1, scale * normal(4, count, 6, seed=2)
    found, error = together(means, factors(law, values.unsqueeze(0)), 1e-4).mean(means)
    outputs, chances = masked(law, means, values)
    exact = torch.einsum("m,m...->...", chances, alternating(outputs))
    assert bool(((found - exact).abs() <= error).all())
    if count == 2 and scale < 1:  # as asked for, and what is cut; three margins may end at the most nodes
        assert float(error.max()) < 2e-4


@pytest.mark.parametrize("count", [2, 3])
def test_the_shortest_lattice_states_an_error_that_holds(count: int) -> None:
    law = LAWS["coins"]
    for seed in range(20):
        means, values = 2 * normal(1, 3, count, seed=seed), 2 * normal(3, count, 6, seed=seed + 100)
        known = together(means, factors(law, values.unsqueeze(0)), math.inf)
        assert known.lattice.length == several.SHORTEST
        found, error = known.mean(means)
        outputs, chances = masked(law, means, values)
        exact = torch.einsum("m,m...->...", chances, alternating(outputs))
        assert bool(((found - exact).abs() <= error).all())


@pytest.mark.parametrize("law", [*LAWS.values(), Gaussian(0.5, 6)], ids=[*LAWS, "normal"])
def test_moments_at_nodes(law: MaskLaw) -> None:
    values, times = normal(3, 6), torch.tensor([-0.7, 0.2, 1.1], dtype=torch.float64)
    places = torch.tensor([[0, 1, 2], [2, 0, 1], [1, 1, 0]])
    (part,) = factors(law, values)
    scaled, scale = part.nodes(times, places, 0.4)
    weights = torch.complex(torch.full((3, 3), 0.4, dtype=torch.float64), -times[places]).mT
    if isinstance(law, Gaussian):
        covariance = (0.5 * values @ values.mT).to(weights)
        expected = torch.exp(0.5 * torch.einsum("nk,kl,nl->n", weights, covariance, weights))
    else:
        moves, chances = masked(law, torch.zeros(3, dtype=torch.float64), values)
        expected = (chances.unsqueeze(-1) * torch.exp(moves.to(weights) @ weights.mT)).sum(0)
    torch.testing.assert_close(scaled * scale.exp(), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(("classes", "leading"), [(3, 2), (4, 2), (4, 3), (7, 2), (7, 3)])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_bounds_hold_the_enumerated_penalty(law: MaskLaw, classes: int, leading: int) -> None:
    means, values = normal(3, classes, seed=4), 0.4 * normal(3, classes, 6, seed=5)
    order = means.argsort(-1, descending=True)
    parts = [part.unsqueezed() for part in factors(law, values)]
    found = several_bounds(means.unsqueeze(-2), parts, order, leading, 1e-5)
    assert found is not None
    lower, upper, below, above = (end.squeeze(-1) for end in found)
    outputs, chances = masked(law, means, values)
    exact = torch.einsum("m,m...->...", chances, lost(outputs)) - lost(means)
    assert bool((lower - below <= exact).all())
    assert bool((exact <= upper + above).all())
    sorted_ = outputs.gather(-1, order.expand_as(outputs))
    known = torch.logsumexp(sorted_[..., :leading], -1, keepdim=True)
    others = sorted_[..., leading:] - known
    gains = torch.einsum("m,m...->...", chances, torch.log1p(others.exp()))
    shares = gains / gains.sum(-1, keepdim=True)
    raised = (shares * torch.log1p(others.exp() / shares)).sum(-1) + known.squeeze(-1)
    wanted = torch.einsum("m,m...->...", chances, raised) - lost(means)
    # the shares come from integrals too; where they are best the bound does not move with them to first order
    assert bool(((lower - wanted).abs() <= 2 * below).all())
    if classes == leading + 1:  # one other class: both ends are the penalty
        torch.testing.assert_close(lower, upper, rtol=0, atol=float((below + above).max()))
        assert float((below + above).max()) < 0.05


def test_outcomes_share_their_law() -> None:
    """Many outcomes at once are the outcomes one by one, within the errors of both."""
    law, values, means = LAWS["coins"], normal(1, 5, 6, seed=5), normal(1, 9, 5, seed=6)
    order, parts = torch.arange(5).expand(1, 5), [part.unsqueezed() for part in factors(law, values)]
    together_, alone = (
        several_bounds(means, parts, order, 2, 1e-6),
        [several_bounds(means[:, i : i + 1], parts, order, 2, 1e-6) for i in range(9)],
    )
    assert together_ is not None
    for i, one in enumerate(alone):
        assert one is not None
        for end in (0, 1):
            allowed = float(together_[end + 2][0, i] + one[end + 2][0, 0])
            assert abs(float(together_[end][0, i] - one[end][0, 0])) <= allowed


@pytest.mark.parametrize("powers", [(0.2, 0.3), (0.9, 0.8), (0.1, 0.9), (0.6, 0.7, 0.9), (0.2, 0.1, 0.3)])
def test_several_margins_are_at_most_an_exponential_of_them(powers: tuple[float, ...]) -> None:
    """The inequality that bounds what a lattice adds, |J| <= 2 e^(s . a) / min(1, sum s)."""
    margins = 6 * normal(500, len(powers), seed=3)
    limit = 2 / min(1.0, sum(powers)) * (margins @ torch.tensor(powers, dtype=torch.float64)).exp()
    assert bool((alternating(margins).abs() <= limit + 1e-12).all())  # J is a difference of numbers up to 40


@pytest.mark.parametrize("count", [2, 3])
def test_what_a_lattice_adds_is_bounded_cell_by_cell(count: int) -> None:
    """The moments of laws without noise are known: every cell m has e^(s . (a + m L)) e^(-c L sum m) as its limit."""
    margins, length, tilt = normal(count, seed=4), 9.0, several.TILT[count]
    sides = [side for side in itertools.product((0, 1, -1), repeat=count) if any(side)]
    totals = []
    for down, up in itertools.product(several.DOWN, several.UP):
        total = 0.0
        for side in sides:
            powers = [{0: tilt, 1: tilt * (1 - down), -1: tilt + (1 - tilt) * up}[way] for way in side]
            grown = math.exp(sum(s * float(a) for s, a in zip(powers, margins, strict=True)))
            moved = [sum(math.exp(-length * k * abs(s - tilt)) for k in range(1, 200)) for s in powers if s != tilt]
            total += 2 / min(1.0, sum(powers)) * grown * math.prod(moved)
        totals.append(total)
    nothing = torch.zeros(len(totals) * len(sides), dtype=torch.float64)
    found = float(several.aliases(margins, nothing, length))
    assert math.isclose(found, min(totals), rel_tol=1e-12)  # sums of a few hundred positive numbers
