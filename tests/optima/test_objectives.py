"""Energies of data: the risk of a model that answers zero."""

import pytest
import torch
from cases import normal
from compare import close

from droptics.data import Sample
from droptics.optima.objectives import energy


@pytest.mark.parametrize("targets", [normal(7, 3), normal(7)])
def test_weights_of_examples_count(targets):
    weights = torch.arange(1.0, 8.0, dtype=torch.float64)
    squares = targets.square().reshape(7, -1).sum(1)
    close(energy(Sample(normal(7, 2), targets, weights)), (weights * squares).sum() / 28)
    close(energy(Sample(normal(7, 2), targets)), squares.mean())
