"""Ranks that are proved: never below the rank of the numbers as fractions, and equal to it where sums are exact."""

from fractions import Fraction

import pytest
import torch
from cases import normal

from droptics.data import Sample
from droptics.linalg.ranks import dependencies, distinct, independent, proved_rank, seems_singular, vanishes
from droptics.spectra.coordinates import _few


def exact_rank(matrix: torch.Tensor) -> int:
    """By elimination of fractions."""
    rows, rank = [[Fraction(x) for x in row] for row in matrix.tolist()], 0
    for column in range(matrix.shape[1]):
        index = next((i for i in range(rank, len(rows)) if rows[i][column]), None)
        if index is None:
            continue
        rows[rank], rows[index] = rows[index], rows[rank]
        pivot = rows[rank]
        rank += 1
        for row in rows[rank:]:
            factor = row[column] / pivot[column]
            row[:] = [a - factor * b for a, b in zip(row, pivot, strict=True)]
    return rank


def codes(count: int, values: int) -> torch.Tensor:
    return torch.nn.functional.one_hot((torch.arange(count) * 7 + torch.arange(count) // 3) % values, values).double()


ONES, X, A, B = torch.ones(24, 1).double(), normal(24, 3), codes(24, 3), codes(24, 5)
EXACT = {
    "independent": X,
    "zero": 0 * X,
    "a zero column": torch.cat([X, 0 * X[:, :1]], 1),
    "one factor": torch.cat([ONES, A], 1),
    "two factors": torch.cat([ONES, A, B], 1),
    "two factors and numbers": torch.cat([A, X, ONES, B], 1),
    "slopes of a factor": torch.cat([ONES, A, X[:, :1], A * X[:, :1]], 1),
    "a rare value": torch.cat(
        [ONES, (torch.arange(24) == 5).double()[:, None], (torch.arange(24) != 5).double()[:, None]], 1
    ),
    "counts": torch.cat([A + 2 * B[:, :3], A, 4 * B[:, :3]], 1),
    "repeated": torch.cat([X, -8 * X[:, :1], 2.0**-30 * X[:, 1:2]], 1),
    "repeated twice, once nearly": torch.cat([X, X[:, :1], X[:, :1] + 2.0**-45 * X[:, 1:2]], 1),
    "few rows": normal(2, 5)[torch.arange(24) % 2],
}


@pytest.mark.parametrize("power", [0, -40, 40, -400])
@pytest.mark.parametrize("name", EXACT)
def test_exact_dependence_is_found_in_all_units(name, power):
    matrix = EXACT[name] * 2.0 ** (power * torch.linspace(-1, 1, EXACT[name].shape[1]).double()).round()
    rank = exact_rank(matrix)
    assert proved_rank(matrix) == rank
    assert proved_rank(matrix.flip(1)) == rank
    assert seems_singular(matrix.mT @ matrix) == (rank < matrix.shape[1])
    found = dependencies(matrix)
    assert torch.linalg.matrix_rank(found.sign()) == found.shape[1]


@pytest.mark.parametrize("power", [-1074, -100, -52, -45, -30, -20])
@pytest.mark.parametrize("base", ["repeated", "a sum", "factors"])
def test_near_dependence_is_none(base, power):
    x = {"repeated": X[:, :1], "a sum": X.sum(1, True), "factors": ONES - A[:, :1]}[base]
    moved = x.clone()
    # one number differs, the sum of others is rounded, or both
    moved[3] += 2.0**power * (1 if abs(float(x[3])) * 2.0**-53 < 2.0**power else 0)
    matrix = torch.cat([ONES, A[:, :1], X, moved] if base == "factors" else [X, moved], 1)
    assert proved_rank(matrix) >= exact_rank(matrix)


def test_what_underflows_is_no_proof():
    tiny = torch.tensor([[5e-324], [1.0]], dtype=torch.float64)
    assert not vanishes(torch.cat([tiny, 0.5 * tiny], 1), torch.tensor([0.5, -1.0]).double())
    assert vanishes(torch.cat([tiny, 2 * tiny], 1), torch.tensor([2.0, -1.0]).double())


def test_what_is_rounded_off_is_no_proof():
    """1 + 2^-60 - 1 is zero in floating point only."""
    ones = torch.ones(3, dtype=torch.float64)
    assert not vanishes(torch.tensor([[1.0, 2.0**-60, -1.0]], dtype=torch.float64), ones)
    assert vanishes(torch.tensor([[1.0, 2.0**-40, -1.0 - 2.0**-40]], dtype=torch.float64), ones)


def test_distinct_columns_are_counted_up_to_sign_and_powers_of_two():
    assert distinct(torch.cat([X, -X, 4 * X[:, :1], 3 * X[:, :1], 0 * X], 1)) == 4
    assert distinct(0 * X) == 0


def test_columns_that_differ_where_division_underflows_are_distinct():
    """2^-600 and 2^-601 beside 2^500 are both zero in units of the column."""
    matrix = torch.tensor([[2.0**500, 2.0**500], [2.0**-600, 2.0**-601], [2.0**500, 2.0**500]], dtype=torch.float64)
    for each in (matrix, matrix.mT):
        assert proved_rank(each) == exact_rank(each) == 2


def test_what_rounding_hides_is_not_proved_and_told_as_lost():
    """A third of a column depends on it up to rounding, four times a column without any."""
    base = (8 * normal(40, 2)).round()
    for extra, proved in ((base[:, :1] / 3, 0), (4 * base[:, :1], 1)):
        rows = torch.cat([base, extra], 1)
        roots = rows / 40**0.5
        told = independent(rows, None, rows, 1 / 40, roots.mT @ roots)
        assert (len(told.kept), told.proved) == (2, proved)
        assert (told.lost > 0) == (not proved)
        assert told.lost < 1e-14
        few = _few(Sample(rows, base), rows, base, 1 / 40, roots.mT @ roots)
        assert (few.lost, few.proved) == (told.lost, proved)


def test_later_rows_may_tell_rows_and_columns_apart():
    """The first rows only say whether it is worth to look at all of them."""
    alike = torch.cat([normal(1, 3).repeat(20, 1), normal(3, 3, seed=1)])
    assert proved_rank(alike) == exact_rank(alike) == 3
    assert proved_rank(alike[:20]) == 1
    late = normal(30, 3)
    late[:20, 2] = 2 * late[:20, 1]
    assert proved_rank(late) == exact_rank(late) == 3
    assert proved_rank(late[:20]) == 2
