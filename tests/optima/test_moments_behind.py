"""Certificates of second moments hold for the data behind them, in rational arithmetic, and only what is known is said.

With one output the least criterion under independent units of one rate is E y^2 - g / (1 + lambda / width), where g is
what least squares explain of E y^2: fractions of the numbers given, without any rounding.
"""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest
import torch
from cases import normal

from droptics.data import Moments, Sample
from droptics.masks import Bernoulli
from droptics.models import Connections, DeepLinear, TwoLayerLinear
from droptics.optima import Optimum, certify, optimum

ROWS, WIDTH = 7, 2


def explained(rows: list[list[Fraction]], targets: list[Fraction]) -> Fraction:
    """What least squares explain of the mean of y^2: by Gram and Schmidt, columns that add nothing left out."""
    total, basis = Fraction(0), []
    for column in zip(*rows, strict=True):
        rest = list(column)
        for other in basis:
            share = sum(a * b for a, b in zip(rest, other, strict=True)) / sum(b * b for b in other)
            rest = [a - share * b for a, b in zip(rest, other, strict=True)]
        if any(rest):
            basis.append(rest)
            total += sum(a * y for a, y in zip(rest, targets, strict=True)) ** 2 / sum(a * a for a in rest)
    return total / len(rows)


def least(data: Sample, drop: float) -> Fraction:
    rows = [[Fraction(x) for x in row] for row in data.inputs.tolist()]
    targets = [Fraction(y) for y in data.targets[:, 0].tolist()]
    strength = Fraction(drop) / (1 - Fraction(drop)) / WIDTH
    return sum(y * y for y in targets) / len(targets) - explained(rows, targets) / (1 + strength)


def inputs(kind: str, power: int, seed: int) -> torch.Tensor:
    x, step = normal(ROWS, 3, seed=seed), normal(ROWS, 1, seed=seed + 100)
    match kind:
        case "near":
            return torch.cat([x, x[:, :1] + 2.0**power * step], 1)
        case "repeated":
            return torch.cat([x, 2.0**power * x[:, 1:2], -x[:, :1]], 1)
        case "repeated and near":
            return torch.cat([x[:, :2], x[:, :1], x[:, :1] + 2.0**power * step], 1)
        case "sum":
            return torch.cat([x, x.sum(1, True) + 2.0**power * step], 1)
        case "units":
            return torch.cat([x, x[:, :1] + 2.0**power * step], 1) * 2.0 ** torch.tensor([40, -40, 0, -13])
        case "categories":
            first, second = torch.arange(ROWS) % 2, torch.arange(ROWS) % 3
            codes = [torch.nn.functional.one_hot(part).double() for part in (first, second)]
            return torch.cat([torch.ones(ROWS, 1).double(), *codes, 2.0**power * x[:, :1]], 1)
        case _:
            return normal(3, 5, seed=seed)[torch.arange(ROWS) % 3]


def check(found: Optimum, truth: Fraction) -> None:
    assert Fraction(found.bound) <= truth
    if found.certified:
        assert abs(Fraction(found.objective) - truth) <= Fraction(found.tolerance * max(found.scale, found.objective))


KINDS = ["near", "repeated", "repeated and near", "sum", "units", "categories", "few examples"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("power", [-51, -38, -27, -18, -9])
@pytest.mark.parametrize("kind", KINDS)
def test_no_bound_is_above_what_the_data_behind_allow(kind, power, dtype):
    x = inputs(kind, power, 0).to(dtype)
    # of the targets, which the last direction alone explains, and of noise
    apart = x[:, -1:].double() - x[:, :1].double()
    for targets in (apart / apart.abs().max().clamp_min(2.0**-60), normal(ROWS, 1, seed=7)):
        data = Sample(x, targets.to(dtype))
        whole = Moments.of_sample(data)
        cut = Moments.of_batches([Sample(x[part], data.targets[part]) for part in (slice(4), slice(4, ROWS))])
        for drop in (0.0, 2.0**-20):
            truth, masks = least(data.to(torch.float64), drop), Bernoulli(drop, WIDTH)
            for given, family in ((data, TwoLayerLinear), *product((whole, cut), (TwoLayerLinear, DeepLinear))):
                check(optimum(family, given, masks), truth)
            check(optimum(TwoLayerLinear, replace(whole, rank=None), masks), truth)
        bound = certify(TwoLayerLinear(normal(1, 2), normal(x.shape[1], 2)), whole.to(torch.float64), masks).bound
        assert Fraction(bound) <= truth
        check(optimum(Connections, whole, Bernoulli(0.0, WIDTH * x.shape[1])), least(data.to(torch.float64), 0.0))


@pytest.mark.parametrize("kind", ["repeated", "categories", "few examples"])
def test_what_the_examples_prove_is_certified_through_their_moments_too(kind):
    x, y = inputs(kind, 0, 0), normal(ROWS, 1, seed=7)
    data, masks = Sample(x, y), Bernoulli(0.25, WIDTH)
    moments = Moments.of_sample(data)
    assert moments.rank == torch.linalg.matrix_rank(x)
    for given in (data, moments, moments.to(torch.float32)):
        assert optimum(TwoLayerLinear, given, masks).certified
    assert not optimum(TwoLayerLinear, replace(moments, rank=None), masks).certified


def test_a_direction_that_one_batch_alone_has_is_not_forgotten():
    """The first batch repeats a feature, the second one does not."""
    x, y = normal(20, 3), normal(20, 1, seed=1)
    x[:10, 2] = x[:10, 1]
    alike = torch.cat([x[:, :2], x[:, 1:2]], 1)
    parts = [Sample(x[:10], y[:10]), Sample(x[10:], y[10:])]
    assert Moments.of_sample(parts[0]).rank == 2
    assert Moments.of_batches(parts).rank is None
    assert Moments.merged([Moments.of_sample(part) for part in parts]).rank is None
    both = Moments.of_batches((alike[i : i + 5], y[i : i + 5]) for i in range(0, 20, 5))
    assert both.rank == 2
    assert optimum(TwoLayerLinear, both, Bernoulli(0.25, WIDTH)).certified
