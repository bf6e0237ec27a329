"""Verdicts on losses made by hand."""

import math

import pytest
import torch
from torch import Tensor

from droptics.rates.points import gap_of
from droptics.rates.running import Trained
from droptics.rates.verdicts import alike, compare, judge

GRID = (0.0, 0.1, 0.3, 0.5)
BASE = torch.linspace(0.5, 1.5, 101, dtype=torch.float64)


def losses(*shifts: float, noise: float = 0.01, seeds: int = 1) -> list[Tensor]:
    """The same examples for every rate, moved by a shift, with noise of mean zero that differs between rates."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for shift in shifts:
        own = torch.randn(seeds, len(BASE), generator=generator, dtype=torch.float64)
        found.append(BASE + shift + noise * (own - own.mean(1, keepdim=True)))
    return found


@pytest.mark.parametrize(
    ("shifts", "best", "verdict", "word"),
    [
        ((0.3, 0.1, 0.0, 0.2), 2, "resolved", "better than 0"),
        ((0.3, 0.1, 0.0, -0.1), 3, "at the edge", "try higher"),
        ((0.3, 0.1, 0.0, 0.0001), 2, "at the edge", "try higher"),
        ((0.0, 0.1, 0.2, 0.3), 0, "flat", "no dropout"),
        ((0.0001, 0.0, 0.2, 0.3), 1, "flat", "cannot be told apart from no dropout"),
        ((0.0001, 0.0, 0.0002, 0.0001), 1, "flat", "cannot be told apart"),
        ((math.inf, math.inf, math.inf, math.inf), 0, "flat", "diverged"),
        ((0.3, 0.0, math.inf, math.inf), 1, "resolved", "better than 0"),
    ],
)
def test_verdicts(shifts, best, verdict, word):
    found = judge(GRID, losses(*shifts), None)
    assert found[:2] == (best, verdict)
    assert word in found[2]


def test_lowest_rate_that_is_not_zero_is_an_edge():
    assert judge((0.1, 0.3, 0.5), losses(0.0, 0.1, 0.2), None)[:2] == (0, "at the edge")


def test_no_better_than_a_constant_is_flat():
    found = losses(0.3, 0.1, 0.0, 0.2)
    assert judge(GRID, found, BASE + 0.5)[1] == "resolved"
    assert judge(GRID, found, BASE - 0.1)[1] == "flat"
    assert judge(GRID, found, found[2][0])[1] == "flat"


def test_pairing_is_what_tells_rates_apart():
    """Examples differ by far more than the shift; the pairs do not."""
    a, b = losses(0.01, 0.0)
    found = compare(a, b)
    assert found.clear
    assert found.error < 0.01 < float(a.std()) / len(BASE) ** 0.5
    assert not compare(a, b.flip(1)).clear


def test_error_is_that_of_the_mean_of_differences():
    a, b = losses(0.1, 0.0, noise=0.3)
    gaps = (a - b)[0]
    assert compare(a, b).error == pytest.approx(float(gaps.std()) / math.sqrt(len(gaps)), rel=1e-12)


def test_seeds_that_disagree_widen_the_error():
    a, b = losses(0.0, 0.0, noise=0.0, seeds=2)
    shift = torch.tensor([[0.3], [-0.1]], dtype=torch.float64)
    found = compare(a + shift, b)
    assert found.value == pytest.approx(0.1)
    assert found.error == pytest.approx(0.2)  # two seeds, 0.4 apart
    assert not found.clear


def test_alike_are_those_that_are_not_told_apart():
    assert alike(losses(0.3, 0.0001, 0.0, 0.2), 2) == [False, True, True, False]


def test_the_share_of_the_gap_is_what_the_best_rate_takes_of_it():
    """Losses 2 at the lowest rate and 1.6 at the best, training loss 1.5: four fifths of a half."""
    around = torch.linspace(-0.01, 0.01, 40).double()[None]
    trained = [Trained(2 + around, (1.5,), (3,)), Trained(1.6 + around, (1.55,), (3,))]
    found = gap_of(trained, 1)
    assert found.training_loss == pytest.approx(1.5)
    assert found.validation_loss == pytest.approx(2.0)
    assert found.share == pytest.approx(0.8)
    assert found.error == pytest.approx(0, abs=1e-9)  # the differences are alike
