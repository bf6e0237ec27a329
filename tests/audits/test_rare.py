"""Masks of coins that seldom fall, or seldom stand."""

import itertools
import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from droptics import audit
from droptics.audits.rare import chance_of_usual, draw_unusual, usual
from droptics.audits.runs import Law
from droptics.audits.tallies import Mean


def sites(rates):
    laws = [Law(f"site{k}", rate, "entry") for k, rate in enumerate(rates)]
    leaves = {law.name: [torch.ones(1, 2, dtype=torch.float64)] * (1 + k) for k, law in enumerate(laws)}
    return laws, SimpleNamespace(leaves=leaves)


def coins(masks):
    return torch.cat([mask.flatten() for part in masks.values() for mask in part])


@pytest.mark.parametrize("rates", [(0.1, 0.05), (0.0, 0.2), (0.9, 0.1), (0.98,), (0.3, 0.0)])
def test_masks_follow_the_law_given_that_some_coin_is_on_its_seldom_side(rates):
    laws, base = sites(rates)
    rates = [law.rate for law in laws for leaf in base.leaves[law.name] for _ in range(leaf.numel())]
    drops = torch.tensor(rates, dtype=torch.float64)
    common = coins(usual(laws, base)) > 0
    chances = {}
    for kept in itertools.product((True, False), repeat=len(drops)):
        chances[kept] = float(torch.where(torch.tensor(kept), 1 - drops, drops).prod())
    certain = chances.pop(tuple(common.tolist()))
    assert chance_of_usual(laws, base) == pytest.approx(certain, rel=1e-12)
    generator, count = torch.Generator().manual_seed(0), 4000
    seen = dict.fromkeys(chances, 0)
    for _ in range(count):
        drawn = coins(draw_unusual(laws, base, generator))
        scale = 1 / (1 - drops)
        assert bool(((drawn == 0) | ((drawn - scale).abs() < 1e-12 * scale)).all())
        seen[tuple((drawn > 0).tolist())] += 1  # the usual mask is a KeyError
    for kept, chance in chances.items():
        wanted = chance / (1 - certain)
        # six standard deviations, and one draw of what hardly ever comes
        assert abs(seen[kept] / count - wanted) <= 6 * math.sqrt(wanted / count) + 1 / count


def test_another_rate_replaces_that_of_every_site():
    laws, base = sites((0.1, 0.2))
    assert chance_of_usual(laws, base, 0.05) == pytest.approx(0.95**6)
    drawn = coins(draw_unusual(laws, base, torch.Generator().manual_seed(1), 0.05))
    assert float(drawn.max()) == pytest.approx(1 / 0.95)
    assert chance_of_usual(laws, base, 0.0) == 1
    assert chance_of_usual(laws, base, 1.0) == 1
    assert float(coins(usual(laws, base, 1.0)).abs().max()) == 0


def test_a_coin_at_the_very_end_can_be_the_first(monkeypatch):
    laws, base = sites((1e-9, 1e-9))
    almost = torch.nextafter(torch.ones((), dtype=torch.float64), torch.zeros((), dtype=torch.float64))
    rand = torch.rand
    monkeypatch.setattr(torch, "rand", lambda *size, **options: almost if size == ((),) else rand(*size, **options))
    assert (coins(draw_unusual(laws, base, torch.Generator())) == 0).nonzero().flatten().tolist() == [5]


def expected_loss(net, rate, inputs, targets):
    """Loss over all masks of the hidden units, one mask for each example; and without masks."""
    first, activation, _, *tail = net
    hidden, rest = activation(first(inputs)), nn.Sequential(*tail)
    means = []
    for kept in torch.cartesian_prod(*[torch.tensor((0.0, 1.0), dtype=torch.float64)] * hidden.shape[1]):
        chance = torch.where(kept > 0, 1 - rate, rate).prod()
        means.append(chance * (rest(hidden * kept / (1 - rate)) - targets).square().sum(1).mean())
    return float(sum(means)), float((rest(hidden) - targets).square().sum(1).mean())


@pytest.mark.parametrize("rate", [1e-4, 2e-3])
def test_rates_at_which_few_units_fall_have_intervals_that_tell_so(rate):
    """By draws of all masks, intervals were points wherever no unit fell, and missed the truth."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(24, 5, generator=generator, dtype=torch.float64)
    targets = torch.randn(24, 2, generator=generator, dtype=torch.float64)
    net = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Dropout(rate), nn.Linear(9, 30), nn.Tanh(), nn.Linear(30, 2))
    for weights in net.parameters():
        weights.data = torch.randn(weights.shape, generator=generator, dtype=torch.float64) / weights.shape[-1] ** 0.5
    with torch.no_grad():
        loss, clean = expected_loss(net, rate, inputs, targets)
    found, errors, hits = [], [], 0
    for seed in range(12):
        report = audit(net, (inputs, targets), seed=seed)
        estimate, total = report.sites[0].penalty, report.training_loss
        assert estimate.lower < estimate.value < estimate.upper
        assert total.lower < total.value < total.upper
        found.append(estimate.value)
        errors.append((estimate.upper - estimate.lower) / 2)
        hits += estimate.lower <= loss - clean <= estimate.upper
    assert report.sites[0].penalty.method.startswith("sampled")
    assert hits >= 9
    # half a 99 % interval is more than two standard errors
    spread = math.sqrt(sum(error**2 for error in errors)) / len(errors)
    assert abs(sum(found) / len(found) - (loss - clean)) <= 2 * spread


def test_a_small_last_batch_has_a_spread_at_other_rates(monkeypatch):
    """The first batch alone decides how many draws there are; one draw of one number tells no spread."""
    seen = []
    add = Mean.add_rows
    monkeypatch.setattr(
        Mean, "add_rows", lambda mean, rows, weights: seen.append(rows.shape) or add(mean, rows, weights)
    )
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(41, 5, generator=generator)
    net = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Dropout(0.3), nn.Linear(9, 4), nn.Tanh(), nn.Linear(4, 2))
    audit(net, (inputs, inputs[:, :2]), batch_size=40, budget=13, rates=(0.02, 0.05))
    drawn = [shape[0] for shape in seen if shape[1] == 1]
    assert (1, 40) in seen  # one draw at another rate
    assert drawn.count(2) == 2
