"""A fleet of the benchmark of rates trains every network as torch trains it alone."""

import importlib
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from droptics.rates import Fit

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def parts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield importlib.import_module("rates_fleet"), importlib.import_module("rates_tasks")
    for name in ("rates_fleet", "rates_tasks"):
        sys.modules.pop(name, None)


def small_text(tasks):
    return tasks.Transformer(width=8, heads=2), (torch.randint(64, (12, 32)), torch.randint(64, (12, 32)))


CASES = {
    "perceptron": lambda tasks: (tasks.perceptron(6, 5, 3), (torch.randn(12, 6), torch.arange(12) % 3)),
    "convolutional": lambda tasks: (tasks.convolutional(), (torch.randn(12, 1, 14, 14), torch.arange(12) % 10)),
    "recommender": lambda tasks: (tasks.Recommender(), (torch.randint(900, (12, 2)), torch.randn(12, 1))),
    "text": small_text,
}


@pytest.mark.parametrize("name", CASES)
def test_without_dropout_a_fleet_is_adam(parts, name):
    fleets, tasks = parts
    torch.manual_seed(0)
    networks, data = zip(*(CASES[name](tasks) for _ in range(2)), strict=True)
    sites = tuple(site for site, part in networks[0].named_modules() if isinstance(part, nn.Dropout))
    fit = Fit(epochs=2, batch_size=4, step_size=1e-3)
    task = tasks.Task(None, lambda: CASES[name](tasks)[0], sites, fit)
    fleet = fleets.Fleet(task, data, [0, 1], torch.device("cpu"))
    rates = dict.fromkeys(sites, 0.0)
    starts = [{key: value.detach().clone() for key, value in one.named_parameters()} for one in networks]
    fleet.train([fleets.Member(weights, rates) for weights in starts], 3)
    for number, network in enumerate(networks):
        network.eval()
        adam, (inputs, targets) = torch.optim.Adam(network.parameters(), lr=fit.step_size), data[number]
        for index in fleet.order:
            adam.zero_grad()
            fleets.losses_of(network(inputs[index])[None], targets[index][None]).mean().backward()
            adam.step()
        # Adam divides by small roots: 6 steps of 1e-3 agree where a gradient is above rounding
        for key, value in network.named_parameters():
            assert (fleet.weights[key][number] - value).abs().max() < 1e-3
        own = fleets.losses_of(network(inputs)[None], targets[None])[0].double()
        torch.testing.assert_close(fleet.evaluated(data, [0, 1])[number], own, rtol=1e-3, atol=1e-4)


def test_masks_drop_at_the_rate_and_keep_the_mean(parts):
    mask = parts[0].Mask()
    mask.rate.fill_(0.3)
    torch.manual_seed(0)
    found = mask(torch.ones(100_000))
    # five standard deviations of a share of 100,000
    assert float((found == 0).double().mean()) == pytest.approx(0.3, abs=5 * (0.21 / 100_000) ** 0.5)
    torch.testing.assert_close(found.unique(), torch.tensor([0.0, 1 / 0.7]))
    assert torch.equal(mask.eval()(torch.ones(3)), torch.ones(3))
