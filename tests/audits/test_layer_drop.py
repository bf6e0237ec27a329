"""Layer drop: layers that are left out by a coin of torch's or of Python's are sites, whatever the coins say."""

import random

import pytest
import torch
from cases import normal
from compare import close
from networks import seeded
from torch import nn

from droptics.audits import audit


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.drop = nn.Linear(6, 6), nn.Dropout(0.1)

    def forward(self, x):
        return x + self.drop(torch.tanh(self.linear(x))), None


class Stack(nn.Module):
    """As the speech models write it: one coin per layer and batch, in training mode only."""

    def __init__(self, layerdrop, coin):
        super().__init__()
        self.layers, self.head = nn.ModuleList(Layer() for _ in range(3)), nn.Linear(6, 2)
        self.layerdrop, self.coin = layerdrop, coin

    def forward(self, x):
        for layer in self.layers:
            thrown = (random.random() if self.coin == "python" else torch.rand([])) if self.training else 1.0
            if self.training and thrown < self.layerdrop:
                continue
            x = layer(x)[0]
        return self.head(x)


@pytest.mark.parametrize("coin", ["python", "torch"])
@pytest.mark.parametrize("seed", range(4))
def test_sites_do_not_depend_on_the_coins_and_leaving_out_is_exact(coin, seed):
    module = seeded(Stack(0.4, coin)).double()
    x, y = normal(20, 6, seed=1), normal(20, 2, seed=2)
    before = random.getstate()
    report = audit(module, (x, y), rates=(), seed=seed, progress=False)
    assert random.getstate() == before
    found = {item.site.name: item for item in report.sites}
    assert set(found) == {f"layers.{k}{end}" for k in range(3) for end in ("", ".drop")}
    with torch.no_grad():

        def loss(left_out):
            h = x
            for number, layer in enumerate(module.layers):
                h = h if number == left_out else h + torch.tanh(layer.linear(h))
            return float((module.head(h) - y).square().sum(1).mean())

        for number in range(3):
            item = found[f"layers.{number}"]
            assert (item.site.kind, item.site.rate) == ("layer drop", 0.4)
            close(item.penalty.value, 0.4 * (loss(number) - loss(None)), 1e-11, scale=1)
    assert not [item for item in report.findings if item.level == "bug"]


def test_a_rate_of_zero_throws_coins_for_nothing():
    x, y = normal(20, 6, seed=1), normal(20, 2, seed=2)
    report = audit(seeded(Stack(0.0, "torch")).double(), (x, y), rates=(), progress=False)
    assert [item.site.name for item in report.sites] == [f"layers.{k}.drop" for k in range(3)]
    assert all("gradient control" in item.penalty.method or "exact" in item.penalty.method for item in report.sites)
