"""Bounds of networks under unequal rates and widths, beside their least values by formula."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from cases import normal
from compare import close

from droptics.data import Moments
from droptics.masks import Bernoulli, Product
from droptics.models import Connections, DeepLinear
from droptics.optima import certify
from droptics.optima.optimum import Certificate

X, Y = normal(30, 3), normal(30, 2, seed=1)
DATA = Moments(X.mT @ X / 30, Y.mT @ X / 30, Y.mT @ Y / 30)


@pytest.mark.parametrize("widths", [(3, 1), (1, 3), (2, 1, 4), (1,)])
def test_a_chain_is_as_narrow_as_its_narrowest_layer(widths):
    """One direction has all shares of every layer: its square is divided by the product of 1 + lambda / width."""
    laws = [Bernoulli(0.02, width) for width in widths]
    sizes = (3, *widths, 2)
    layers = [normal(out, into, seed=k) for k, (into, out) in enumerate(pairwise(sizes))]
    root = torch.linalg.cholesky(DATA.xx)
    largest = torch.linalg.svdvals(torch.linalg.solve(root, DATA.yx.mT))[0]
    left = math.prod(1 + 0.02 / 0.98 / width for width in widths)
    least = DATA.yy.trace() - largest**2 / left
    # below by no more than rounding of moments of condition ten may take off
    close(certify(DeepLinear(layers), DATA, Product(laws)).bound, least, 1e-11)


def test_unequal_rates_of_weights_count_like_the_least():
    """One output, one unit: with all rates the least, the ridge with diagonal lambda E x_i^2 is its optimum."""
    data = Moments(DATA.xx, DATA.yx[:1], DATA.yy[:1, :1])
    rates = torch.tensor([0.5, 0.2, 0.7]).double()
    model = Connections(normal(1, 1), normal(3, 1))
    system = data.xx + 0.25 * torch.diag(data.xx.diagonal())
    least = data.yy.trace() - (data.yx @ torch.linalg.solve(system, data.yx.mT)).trace()
    # the steps end where they move by 1e-15, the bound by the root of that
    close(certify(model, data, Bernoulli(rates, 3)).bound, least, 1e-7)


def test_a_gap_above_a_bound_that_is_not_positive_has_no_share():
    for objective, bound in ((1.0, 0.0), (1.0, -2.0)):
        assert Certificate(objective, bound, "droptics-any-law").relative_gap == math.inf
