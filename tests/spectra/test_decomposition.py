"""What a law keeps of a matrix: the least value with and without the vectors that attain it."""

import pytest
import torch
from cases import normal
from compare import close

from droptics.masks import Bernoulli, Block
from droptics.spectra import action
from droptics.spectra.decomposition import least_of, shrunk_svd
from droptics.spectra.unequal_rates import UnequalRates

TARGETS = {
    "wide": normal(4, 9),
    "tall": normal(50, 40),
    "nothing": torch.zeros(3, 2).double(),
    "no digits in the Gram matrix": torch.diag(torch.tensor([1.0, 1e-7, 1e-9]).double()),
}


@pytest.mark.parametrize("law", [Bernoulli(0.3, 6), Bernoulli(1e-12, 3), Block(0.4, 6, 2)])
@pytest.mark.parametrize("name", TARGETS)
def test_the_least_value_is_reached_by_what_is_kept(name, law):
    target, acting = TARGETS[name], action(law)
    left, values, right, least = shrunk_svd(target, acting)
    reached = (target - (left * values) @ right.mT).square().sum() + acting.shrink(torch.linalg.svdvals(target))[1]
    size = float(target.square().sum())
    close(least, reached, 1e-14 * sum(target.shape), size)
    close(least_of(target, acting), least, 1e-14 * sum(target.shape), size)
    close(least_of(target.mT, acting), least, 1e-14 * sum(target.shape), size)


@pytest.mark.parametrize("second", [0.2, 0.3])
def test_the_cutoff_of_unequal_rates_tells_a_second_value_that_is_kept_by_brute_force(second):
    """Strengths 1/2 and 1 on values 1 and t: over a grid of x and shares n, t is kept iff it is above the cutoff."""
    acting = action(Bernoulli(torch.tensor([1 / 3, 1 / 2], dtype=torch.float64), 2))
    grid = torch.arange(131).double() / 100
    x, y, share = grid[:101, None, None], grid[None, : round(100 * second) + 1, None], grid
    rest = x + y - share
    cost = (1 - x).square() + (second - y).square() + share.square() / 2 + rest.square()
    allowed = torch.minimum(share, rest) >= torch.minimum(x, y) - 1e-9  # shares that the spectrum majorizes
    best = int(torch.where(allowed, cost, torch.inf).argmin())
    kept = grid[best // (cost.shape[1] * 131)], grid[best // 131 % cost.shape[1]]
    assert bool(kept[1] > 0) == (second > acting.cutoff(torch.ones(1).double(), torch.tensor([0.75]).double()))
    close(acting.shrink(torch.tensor([1.0, second], dtype=torch.float64))[0], torch.stack(kept), 1e-12)


def test_the_cutoff_of_unequal_rates_where_nothing_or_all_of_the_width_is_kept():
    """Of zeros nothing is kept, and any value would be; one unit keeps one value, until a larger one comes."""
    rates = torch.tensor([1 / 3, 1 / 2], dtype=torch.float64)
    assert action(Bernoulli(rates, 2)).cutoff(torch.zeros(3).double(), torch.zeros(0).double()) == 0.0
    used_up = UnequalRates(torch.ones(1).double()).cutoff(torch.ones(1).double(), torch.full((1,), 0.5).double())
    assert 0.999 < used_up < 1.0
