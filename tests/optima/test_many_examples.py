"""Sums over many examples of one sign, where roundings add up: bounds and stated errors against rational arithmetic.

A few rows are repeated, so that every mean is a fraction of a handful of numbers; a sum of BLAS or a norm of torch over
20,000 of them is off by more than a thousand units of its last place.
"""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from torch import Tensor, nn

from droptics.data import Moments, Sample
from droptics.masks import Bernoulli
from droptics.models import DeepLinear, LastLayer, TwoLayerLinear
from droptics.optima import certify, optimal_head, optimum
from droptics.penalties import penalty

ROWS = {
    "one feature": [[0.1]],
    "two": [[1.1, 2.0], [1.1, 2.2]],
    "nearly collinear": [[0.7, 0.1], [0.7, 0.1000001]],
    "three": [[0.9, 0.3, 0.1], [0.9, 0.1, 0.7], [0.9, 0.7, 0.7], [0.9, 0.3001, 0.1]],
}
COUNTS = [1_000, 20_000, 100_000]


def exactly(rows: list[list[float]], target: float, noise: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """A few rows of inputs and targets in a precision."""
    inputs = torch.tensor(rows, dtype=torch.float64).to(dtype)
    signs = torch.tensor([1.0, -1.0] * 2, dtype=torch.float64)[: len(rows)]
    return inputs, (target + noise * signs).to(dtype)


def fractions(values: Tensor) -> list[Fraction]:
    return [Fraction(float(value)) for value in values]


def mean(numbers: list[Fraction]) -> Fraction:
    return sum(numbers, Fraction(0)) / len(numbers)


def solved(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """The solution of a linear system, by Gauss and Jordan."""
    table = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(len(table)):
        pivot = next(k for k in range(i, len(table)) if table[k][i] != 0)
        table[i], table[pivot] = table[pivot], table[i]
        for k in range(len(table)):
            if k != i:
                factor = table[k][i] / table[i][i]
                table[k] = [a - factor * b for a, b in zip(table[k], table[i], strict=True)]
    return [row[-1] / row[i] for i, row in enumerate(table)]


def least(inputs: Tensor, targets: Tensor, strength: Fraction, centered: bool, on_inputs: bool) -> Fraction:
    """The least E (y - w x)^2 + penalty: of one hidden unit, (1 + strength) |w x|^2; of a head, sum_i w_i^2 E x_i^2."""
    x, y = [fractions(row) for row in inputs], fractions(targets)
    size = range(len(x[0]))
    means = [mean([row[i] for row in x]) if centered else Fraction(0) for i in size]
    middle = mean(y) if centered else Fraction(0)
    second = [[mean([(row[i] - means[i]) * (row[j] - means[j]) for row in x]) for j in size] for i in size]
    cross = [mean([(row[i] - means[i]) * (t - middle) for row, t in zip(x, y, strict=True)]) for i in size]
    energy = mean([(t - middle) ** 2 for t in y])
    if on_inputs:
        for i in size:
            second[i][i] += strength * mean([row[i] ** 2 for row in x])
    gain = sum((a * b for a, b in zip(solved(second, cross), cross, strict=True)), Fraction(0))
    return energy - (gain if on_inputs else gain / (1 + strength))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("noise", [0.0, 1e-5, 0.1])
@pytest.mark.parametrize("name", ROWS)
def test_no_bound_is_above_what_is_reached_however_many_examples(name: str, noise: float, dtype: torch.dtype) -> None:
    inputs, targets = exactly(ROWS[name], 0.3, noise, dtype)
    for count in COUNTS:
        repeats = count // len(inputs)
        data = Sample(inputs.repeat(repeats, 1), targets.repeat(repeats)[:, None])
        for power in (1, 20):
            strength = Fraction(1, 2**power - 1)
            law, truth = Bernoulli(2.0**-power, 1), least(inputs, targets, strength, False, False)
            for family in (TwoLayerLinear, DeepLinear):
                best = optimum(family, data, law)
                assert best.certified or (name == "nearly collinear" and dtype == torch.float32)
                assert best.bound <= truth
                assert certify(best.model, data, law).bound <= truth


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("noise", [0.0, 1e-5, 0.1])
@pytest.mark.parametrize("name", ["one feature", "two", "three"])
def test_no_bound_of_a_head_is_above_what_is_reached(name: str, noise: float, bias: bool) -> None:
    inputs, targets = exactly(ROWS[name], 0.3, noise, torch.float64)
    strength, size = Fraction(1, 2**4 - 1), inputs.shape[1]
    truth = least(inputs, targets, strength, bias, True)
    for count in COUNTS:
        repeats = count // len(inputs)
        data = Sample(inputs.repeat(repeats, 1), targets.repeat(repeats)[:, None])
        head = LastLayer.of(nn.Sequential(nn.Linear(size, 1, bias=bias).double()))
        best = optimal_head(head, data, Bernoulli(2.0**-4, size))
        assert best.certified
        assert best.bound <= truth


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.9, 1.1])
def test_stated_errors_hold_however_many_examples(value: float, dtype: torch.dtype) -> None:
    """One feature, two units: lambda sum_j (u_j v_j x)^2."""
    top, bottom = torch.tensor([[0.7, 0.3]], dtype=dtype), torch.tensor([[1.3], [-0.4]], dtype=dtype)
    for count in COUNTS:
        x = torch.full((count, 1), value, dtype=dtype)
        data, given = Sample(x, x), Fraction(float(x[0, 0]))
        truth = sum((u * v * given) ** 2 for u, v in zip(fractions(top[0]), fractions(bottom[:, 0]), strict=True))
        for model in (TwoLayerLinear(top, bottom.mT), DeepLinear([bottom, top])):
            found = penalty(model, data, Bernoulli(0.5, 2))
            assert abs(Fraction(float(found)) - truth) <= Fraction(float(found.error))
        moments = Moments.of_sample(data)
        assert abs(Fraction(float(moments.xx[0, 0])) / given**2 - 1) <= Fraction(moments.rounding)
