"""What a law keeps of a matrix: the least value with and without the vectors that attain it."""

import pytest
import torch
from cases import normal
from compare import close

from droptics.masks import Bernoulli, Block
from droptics.spectra import action
from droptics.spectra.decomposition import least_of, shrunk_svd

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
