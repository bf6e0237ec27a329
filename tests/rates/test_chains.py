"""Chains of linear layers: the training loss against all masks, its derivative against fits beside it."""

import copy
import itertools
import math

import pytest
import torch
from torch import nn
from tuned import seeded

from droptics import tune_rates
from droptics.rates import Fit

METHOD = "exact training loss of the linear chain"


def regression(count, seed):
    """Four inputs, two of which the targets follow."""
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 4, generator=generator).double()
    noise = torch.randn(count, 2, generator=generator).double()
    return inputs, inputs[:, :2] + 0.5 * inputs[:, 1:3] + noise


TRAIN, HELD = regression(12, 1), regression(200, 2)


def chain(bias=True):
    """Seven units that may fall: four inputs, three hidden."""
    layers = nn.Dropout(0.3), nn.Linear(4, 3, bias), nn.Dropout(0.6), nn.Linear(3, 2, bias)
    return seeded(nn.Sequential(*layers).double())


def tail():
    """A chain behind something that is not trained and not linear."""
    body = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
    module = nn.Sequential(body, *chain())
    seeded(module.double())
    return body.requires_grad_(False) and module


def enumerated(module, features, targets, rates):
    """Mean over the examples and all masks of the loss in training mode."""
    first, second = (part for part in module if isinstance(part, nn.Linear))
    total = 0.0
    for falls in itertools.product((0, 1), repeat=7):
        chance, masks = 1.0, []
        for rate, own in zip(rates, (falls[:4], falls[4:]), strict=True):
            chance *= rate ** sum(own) * (1 - rate) ** (len(own) - sum(own))
            masks.append((1 - torch.tensor(own).double()) / (1 - rate))
        outputs = second(first(features * masks[0]) * masks[1])
        total = total + chance * (targets - outputs).square().sum(1).mean()
    return total


def at(module, rates, **options):
    """The answer at one setting: sites of the same rate are tied there."""
    return tune_rates(module, TRAIN, HELD, scan=rates, progress=False, **options)


def linear_rows(module):
    """The layers of a chain with new weights, as `ChainScan` orders them."""
    return [value for part in module if isinstance(part, nn.Linear) for value in part.parameters()]


def scan_of(module):
    from droptics.rates.chains import chain_scan
    from droptics.rates.problems import read_problem

    return chain_scan(read_problem(module, TRAIN, HELD, None, Fit(), None)[0])


def put(module, weights):
    fresh, at = copy.deepcopy(module), 0
    with torch.no_grad():
        for value in linear_rows(fresh):
            value.copy_(weights[at : at + value.numel()].reshape(value.shape))
            at += value.numel()
    assert at == len(weights)
    return fresh


@pytest.mark.parametrize("bias", [True, False])
def test_weights_are_where_the_loss_over_all_masks_is_stationary(bias):
    module = chain(bias)
    rates = {"0": 0.2, "2": 0.45}
    fitted = put(module, scan_of(module).fitted(rates))
    loss = enumerated(fitted, *TRAIN, rates.values())
    slopes = torch.autograd.grad(loss, linear_rows(fitted))
    # the search ends where a step gains less than 1e-15 of a loss of about 3: slopes below (2e-15 * 3 * curvature)^0.5
    assert max(float(slope.abs().max()) for slope in slopes) < 1e-6
    before = enumerated(module, *TRAIN, rates.values())
    assert float(loss.detach()) < float(before.detach())


def test_losses_are_those_of_the_fitted_chain():
    module = chain()
    found = at(module, (0.1, 0.5))
    assert found.method == METHOD
    assert found.cost.copies == 0
    for point in found.points:
        fitted = put(module, scan_of(module).fitted(point.rates)).eval()
        with torch.no_grad():
            held, own = ((y - fitted(x)).square().sum(1).mean() for x, y in (HELD, TRAIN))
        assert point.loss == pytest.approx(float(held), rel=1e-12)
        assert point.training_loss == pytest.approx(float(own), rel=1e-9)


@pytest.mark.parametrize("make", [chain, tail])
def test_derivatives_are_those_between_fits_beside_it(make):
    module = make()
    scan, step = scan_of(module), 1e-3
    names = list(scan.before)
    rates = dict(zip(names, (0.2, 0.45), strict=True))

    def moved(name, shift):
        odds = {site: torch.tensor(rate).double().logit() + shift * (site == name) for site, rate in rates.items()}
        setting = {site: float(value.sigmoid()) for site, value in odds.items()}
        return float(scan.trained([setting])[0].losses.mean())

    found = scan.effects(rates, {name: name for name in names})
    for name in names:
        between = (moved(name, step) - moved(name, -step)) / (2 * step)
        assert found[name].value == pytest.approx(between, rel=1e-4, abs=1e-7)  # of third order in the step
    both = scan.effects(rates, dict.fromkeys(names, "both"))["both"]
    assert both.value == pytest.approx(sum(one.value for one in found.values()), rel=1e-6)
    assert both.error > 0


def test_a_tail_behind_frozen_layers_is_a_chain():
    module = tail()
    found = at(module, (0.0, 0.2, 0.5))
    assert found.method == METHOD
    assert set(found.rates) == {"1", "3"}


def test_a_rate_per_site_follows_the_derivative():
    """At 30 examples both sites want a little more than the best tied rate of the scan."""
    module, train, held = chain(), regression(30, 1), regression(8000, 2)
    found = tune_rates(module, train, held, scan=(0.0, 0.05, 0.1, 0.2), split="factorial", progress=False)
    assert found.cost.copies == 0
    assert found.split.kept
    tied, own = found.points[-2:]
    assert tied.loss - own.loss == pytest.approx(found.split.difference)
    assert found.split.difference > found.split.error
    for site in found.sites:
        assert site.effect < -2 * site.error
        assert site.rate > found.best


def changed(change):
    module = chain()
    if change == "a body that is trained":
        return nn.Sequential(nn.Linear(4, 4).double(), nn.Tanh(), *module)
    if change == "not linear":
        return nn.Sequential(*module[:2], nn.ReLU(), *module[2:])
    if change == "a bent end":
        return nn.Sequential(*module, nn.ReLU())
    if change == "a layer twice":
        square = nn.Linear(4, 4).double()
        return nn.Sequential(nn.Dropout(0.3), square, nn.Dropout(0.3), square, nn.Linear(4, 2).double())
    if change == "a site elsewhere":
        body = nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 4).double().requires_grad_(False), nn.Tanh())
        return nn.Sequential(body, *module)
    return nn.Sequential(*module[:2], nn.AlphaDropout(0.2), *module[3:])


@pytest.mark.parametrize(
    "change",
    ["a body that is trained", "not linear", "a bent end", "a layer twice", "a site elsewhere", "another dropout"],
)
def test_what_is_no_chain_is_trained(change):
    assert scan_of(changed(change)) is None


def test_a_fit_that_is_asked_for_is_run():
    found = at(chain(), (0.0, 0.3), fit=Fit(epochs=1))
    assert found.method == "scan"
    assert found.cost.copies == 2


def test_three_layers_with_biases_are_stationary():
    layers = nn.Linear(4, 3), nn.Dropout(0.4), nn.Linear(3, 3), nn.Linear(3, 2)
    module = seeded(nn.Sequential(*layers).double())
    inputs, targets = TRAIN
    found = at(module, (0.0, 0.4))
    assert found.method == METHOD
    losses = {point.rate: point.training_loss for point in found.points}
    padded = torch.cat([inputs, torch.ones(len(inputs), 1)], 1).double()
    least = (targets - padded @ torch.linalg.lstsq(padded, targets).solution).square().sum(1).mean()
    assert losses[0.0] == pytest.approx(float(least), rel=1e-4)  # at rate 0 the chain is the least squares fit


def test_effects_on_some_examples_are_those_of_their_losses():
    """Mean and standard error over the examples that are asked, against the difference between fits beside."""
    scan, step, some = scan_of(chain()), 1e-3, torch.tensor([5, 0, 7, 2, 11])
    odds = {name: math.log(rate / (1 - rate)) for name, rate in zip(scan.before, (0.2, 0.45), strict=True)}
    settings = [{name: 1 / (1 + math.exp(-one - shift)) for name, one in odds.items()} for shift in (0.0, step, -step)]
    up, down = (item.losses[0, some] for item in scan.trained(settings[1:]))
    between = (up - down) / (2 * step)
    found = scan.effects(settings[0], dict.fromkeys(odds, "both"), some)["both"]
    # of third order in the step
    assert found.value == pytest.approx(float(between.mean()), rel=1e-4, abs=1e-7)
    assert found.error == pytest.approx(float(between.std()) / 5**0.5, rel=1e-3)
