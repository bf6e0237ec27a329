"""Penalties that are nothing but a few roundings of one keep their digits."""

from __future__ import annotations

import pytest
import torch
from cases import normal
from compare import close

from droptics.data import Sample
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli
from droptics.models import TwoLayerLinear
from droptics.penalties import Certified, SecondOrder, penalty
from droptics.penalties.certified import upper_bounds
from droptics.penalties.factors import Moves

U, V, INPUTS = 0.01 * normal(13, 3), normal(4, 3), normal(5, 4)


def first_order(drop: float) -> torch.Tensor:
    """Units that fall alone: the rate times log sum_k pi_k exp(pi . g - g_k), g what the unit adds, summed over units.

    Two at a time count with the square of the rate. Moves of 0.01 change the logarithm by a hundredth of it at most.
    """
    chances = torch.softmax(INPUTS @ V @ U.mT, -1)[:, :, None]
    parts = (INPUTS @ V)[:, None, :] * U
    means = (chances * parts).sum(1, keepdim=True)
    moved = chances * torch.expm1(means - parts)
    return drop * torch.log1p(moved.sum(1)).sum(1)


@pytest.mark.parametrize("drop", [1e-7, 1e-11, 1e-15])
def test_bounds_of_tiny_penalties_keep_their_digits(drop: float) -> None:
    data, law = Sample(INPUTS, torch.arange(5)), Bernoulli(drop, 3)
    wanted = first_order(drop)
    assert float(wanted.max()) < 1e-9
    for method in (Certified(), SecondOrder(None)):
        close(penalty(TwoLayerLinear(U, V), data, law, method, CrossEntropy()).value, wanted.mean(), 0.03)
    moves = Moves.of(TwoLayerLinear(U, V), INPUTS)
    close(upper_bounds(moves, law), wanted, 0.03)
