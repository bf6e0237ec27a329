"""The spread of predictions in an audit: against the exact variance, its shares, and the error of repeated passes."""

import math

import pytest
import torch
from compare import close
from torch import nn

from droptics import Sample, audit
from droptics.predictions import predictive


def network(early=0.0):
    torch.manual_seed(0)
    return nn.Sequential(nn.Dropout(early), nn.Linear(5, 30), nn.Tanh(), nn.Dropout(0.5), nn.Linear(30, 1)).double()


def data():
    generator = torch.Generator().manual_seed(1)
    return Sample(*(torch.randn(20, size, generator=generator, dtype=torch.float64) for size in (5, 1)))


def test_a_dropped_head_holds_all_of_it_exactly():
    module = network()
    found = audit(module, data(), uncertainty=True).uncertainty
    exact = predictive(module, data().inputs).variance.value.detach()
    close(found.variance.value, exact.mean(), 1e-12)
    close(found.shares["3"], 1.0, 1e-12)
    assert list(found.shares) == ["3"]
    assert found.examples == 20
    # a sum of thirty terms is nearly normal: kurtosis 3, 200 passes, known from 64 masks to a factor of two
    assert 100 <= found.passes <= 400
    torch.manual_seed(2)
    with torch.no_grad():
        module.train()
        passes = torch.stack(
            [torch.stack([module(data().inputs) for _ in range(found.passes)]).var(0) for _ in range(10)]
        )
    error = float((passes / exact - 1).square().mean().sqrt())
    assert 0.1 / math.sqrt(2) <= error <= 0.1 * math.sqrt(2)


def test_inputs_that_drop_get_their_share_and_it_is_in_the_report():
    report = audit(network(0.2), data(), uncertainty=True)
    found = report.uncertainty
    assert set(found.shares) == {"0", "3"}
    assert all(0 < share < 1.2 for share in found.shares.values())
    assert report.to_dict()["uncertainty"]["passes"] == found.passes
    assert audit(network(0.2), data()).uncertainty is None


@pytest.mark.parametrize("rate", [0.1, 0.2, 0.6])
def test_the_share_of_an_early_site_is_that_of_its_first_order(rate):
    """r / (1 - r) times the squared slopes in its masks, x_j df / dx_j, one output and one example after the other."""
    module = network(rate)
    found = audit(module, data(), uncertainty=True).uncertainty
    module.eval()
    inputs = data().inputs.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(module(inputs).sum(), inputs)
    first = rate / (1 - rate) * (slopes * inputs).detach().square().sum(1).mean()
    close(found.shares["0"] * found.variance.value, first, 1e-9)
    hidden = torch.tanh(module[1](inputs)).detach()
    close(found.shares["3"] * found.variance.value, (module[4].weight * hidden).square().sum(1).mean().detach(), 1e-9)


def test_without_dropout_there_is_no_spread():
    module = nn.Linear(5, 1).double()
    found = audit(module, data(), uncertainty=True).uncertainty
    assert found.variance.value == 0
    assert found.passes == 1
    assert found.shares == {}
