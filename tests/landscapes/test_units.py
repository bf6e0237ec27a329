"""Points in their own units: the criterion stays up to one factor, and all moments have size one."""

import math
from itertools import pairwise

import pytest
import torch
from cases import normal
from compare import close

from droptics.data import Moments
from droptics.landscapes.units import in_own_units
from droptics.masks import Bernoulli
from droptics.models import DeepLinear, TwoLayerLinear
from droptics.penalties import criterion


@pytest.mark.parametrize("size", [1.0, 2.0**17, 3e-6])
def test_all_moments_change_by_the_same_units(size):
    X, Y = normal(20, 3) * torch.tensor([1e5, 1.0, 1e-3]), size * normal(20, 2)
    data = Moments(X.mT @ X / 20, Y.mT @ X / 20, Y.mT @ Y / 20)
    model, law = TwoLayerLinear(size * normal(2, 4), normal(3, 4) / X.std(0)[:, None]), Bernoulli(0.3, 4)
    moved, scaled = in_own_units(model, data)
    factor = float(criterion(model, data, law)) / float(criterion(moved, scaled, law))
    assert math.isclose(math.log2(factor) / 2, round(math.log2(factor) / 2), abs_tol=1e-9)
    close(scaled.yy * factor, data.yy)
    assert 0.25 < float(torch.trace(scaled.yy)) < 4


@pytest.mark.parametrize("hidden", [1, 2, 4])
def test_both_layers_of_every_node_have_nearly_the_same_size(hidden):
    """Norms end within a factor of four, however far apart the nodes of several hidden layers begin."""
    generator = torch.Generator().manual_seed(hidden)
    layers = [normal(3, 3, seed=k) for k in range(hidden + 1)]
    for k in range(hidden):
        nodes = 2.0 ** torch.randint(-9, 10, (3,), generator=generator).double()
        layers[k], layers[k + 1] = layers[k] * nodes[:, None], layers[k + 1] / nodes
    moved, _ = in_own_units(DeepLinear(layers), Moments.of_map(torch.eye(3).double()))
    for into, out in pairwise(moved.weights):
        # a factor is a power of two in (r, 2 r], r the root of the ratio, which moves the ratio to (1, 4]
        shares = into.norm(dim=1) / out.norm(dim=0)
        assert 0.25 <= float(shares.min()) <= float(shares.max()) <= 4
