"""The seed of drawn masks: the same seed repeats itself, another one draws others, for every way of drawing."""

import pytest
import torch
from cases import normal
from torch import nn

from droptics.masks import Bernoulli
from droptics.models import ReLUNet
from droptics.penalties import MonteCarlo
from droptics.predictions import predictive


def network():
    return ReLUNet([normal(6, 4), normal(5, 6, seed=1), normal(2, 5, seed=2)])


class Doubled(nn.Module):
    """Dropout before a product of what is masked: no closed form."""

    def __init__(self):
        super().__init__()
        self.first, self.drop, self.last = nn.Linear(4, 40), nn.Dropout(0.4), nn.Linear(40, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.drop(torch.relu(self.first(x)))))


def answers(kind, seed):
    inputs, method = normal(5, 4, seed=3), MonteCarlo(64, seed=seed)
    if kind == "model":
        found = predictive(network(), inputs, Bernoulli(0.4, 15), method)
    else:
        with torch.random.fork_rng():
            torch.manual_seed(0)
            found = predictive(Doubled().double(), inputs, method=method)
    return found.mean.value.detach(), found.variance.value.detach()


@pytest.mark.parametrize("kind", ["model", "module"])
def test_other_seeds_draw_other_masks(kind):
    first, again, other = answers(kind, 1), answers(kind, 1), answers(kind, 2)
    for one, same, different in zip(first, again, other, strict=True):
        assert torch.equal(one, same)
        assert not torch.allclose(one, different, rtol=1e-9)
