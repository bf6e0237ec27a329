"""The second moment of masked inputs, behind envelopes of deep networks, over all masks."""

import pytest
import torch
from cases import normal
from compare import close

from droptics.data import Sample
from droptics.envelopes.deep_linear import input_root
from droptics.masks import Bernoulli, Block


@pytest.mark.parametrize("law", [Bernoulli(torch.tensor([0.1, 0.3, 0.5, 0.7]).double(), 4), Block(0.4, 4, 2), None])
def test_the_root_is_that_of_all_masked_inputs(law):
    inputs = normal(9, 4, seed=1)
    atoms = [(torch.ones(4).double(), 1.0)] if law is None else list(law.atoms())
    moment = sum(chance * (inputs * mask).mT @ (inputs * mask) / 9 for mask, chance in atoms)
    root = input_root(Sample(inputs, normal(9, 2, seed=2)), law)
    close(root.matrix @ root.matrix.mT, moment, 1e-13)
