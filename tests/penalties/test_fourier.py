"""Logistic penalties as integrals, beside sums over all outcomes: what is missed is within what is told."""

import itertools

import pytest
import torch
from torch.nn.functional import softplus

from droptics.penalties.factors import Coins
from droptics.penalties.fourier import margin_penalties


@pytest.mark.parametrize("tolerance", [1e-2, 1e-4, 1e-9])
def test_what_lies_beyond_the_end_of_the_integral_is_told(tolerance):
    """A large margin makes the step fine, so that a small one misses the tail alone."""
    moves, drop = torch.tensor([0.7, -1.1, 0.4], dtype=torch.float64), 0.3
    margins = torch.tensor([[0.4], [30.0]], dtype=torch.float64)
    coins = Coins(moves.expand(2, 1, 3), torch.full((3,), drop, dtype=torch.float64))
    value, error = margin_penalties(margins, [coins], tolerance, 400)
    truth = -softplus(margins[0, 0])
    for fallen in itertools.product((True, False), repeat=3):
        shifts = torch.tensor([-1.0 if one else drop / (1 - drop) for one in fallen], dtype=torch.float64)
        chance = drop ** sum(fallen) * (1 - drop) ** (3 - sum(fallen))
        truth = truth + chance * softplus(margins[0, 0] + shifts @ moves)
    missed = abs(float(value[0] - truth))
    assert 1e-3 * tolerance < missed <= float(error[0]) <= tolerance
