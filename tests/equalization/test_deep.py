"""Deep networks are equalized layer by layer: unequal layers share each direction as its own strength asks."""

import itertools

import numpy as np
import pytest
import torch
from cases import normal, sample
from compare import close
from scipy.optimize import minimize

from droptics.data import Moments
from droptics.equalization import equalize
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear
from droptics.penalties import penalty


def least(values, strengths):
    """min over shares of sum_j s_j^2 (prod_i (1 + a_i / x_i(j)) - 1), by descent over logarithms of shares."""
    shape = len(strengths), len(values)

    def objective(logits):
        shares = np.exp(logits.reshape(shape))
        shares /= shares.sum(1, keepdims=True)
        return float((values**2 * ((1 + strengths[:, None] / shares).prod(0) - 1)).sum())

    start = np.log(np.tile(values, shape[0]))
    return minimize(objective, start, method="BFGS", options={"gtol": 1e-9}).fun


@pytest.mark.parametrize(("rates", "widths"), [((0.05, 0.9), (3, 3)), ((0.9, 0.05), (3, 3)), ((0.5, 0.5), (2, 9))])
@pytest.mark.parametrize("depth", [2, 3])
def test_unequal_layers_share_by_their_own_strengths(rates, widths, depth):
    """The penalty of the equalized network is the least of the program, which another order of layers misses."""
    rates, widths = (*rates, 0.3)[:depth], (*widths, 4)[:depth]
    law = Product([Bernoulli(rate, width) for rate, width in zip(rates, widths, strict=True)])
    strengths = np.array([rate / (1 - rate) / width for rate, width in zip(rates, widths, strict=True)])
    sizes = [4, *widths, 3]
    model = DeepLinear([normal(b, a, seed=i) for i, (a, b) in enumerate(itertools.pairwise(sizes))])
    data = sample()
    equal = equalize(model, data, law)
    close(equal.matrix(), model.matrix(), relative=1e-9)
    second = Moments.of(data).xx
    values = torch.linalg.svdvals(model.matrix() @ torch.linalg.cholesky(second)).numpy()[: min(sizes)]
    assert float(penalty(equal, data, law)) == pytest.approx(least(values, strengths), rel=1e-7)
