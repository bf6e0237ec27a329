"""Sums over rows, Gram matrices and small systems by register tiles, against NumPy in float64."""

from __future__ import annotations

import numpy as np
import pytest

from droptics.recommenders import tiles
from droptics.recommenders.least_squares import solve_rows

WIDTHS = [1, 3, 4, 8, 9, 17, 72]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("ratings", [0, 1, 5, 128, 129, 300])
def test_the_gram_matrix_is_added_to_what_is_there(dtype: type, width: int, ratings: int) -> None:
    generator = np.random.default_rng(width + ratings)
    regressors = (generator.standard_normal((50, width)) * 2.0 ** generator.integers(-20, 20, width)).astype(dtype)
    columns = generator.integers(0, 50, ratings).astype(np.int32)
    before = generator.standard_normal((tiles.padded(width),) * 2)
    into = before.copy()
    room = tiles.room_of(regressors, np.array([0, ratings]))
    tiles.locate(regressors, columns, room)
    tiles.add_gram(regressors, room[0][:ratings], room, into)
    chosen = regressors[columns].astype(np.float64)
    wanted, size = chosen.T @ chosen, np.abs(chosen).T @ np.abs(chosen)
    # 128 products and sums round once each; what was there before rounds with them
    allowed = 130 * np.finfo(dtype).eps * size + (ratings + 2) * 2.0**-52 * (size + np.abs(before[:width, :width]))
    error = np.abs((into - before)[:width, :width] - wanted)
    assert (np.triu(error) <= allowed).all()
    assert np.array_equal(into[width:], before[width:])


@pytest.mark.parametrize("width", WIDTHS)
def test_the_solution_of_a_definite_system(width: int) -> None:
    generator = np.random.default_rng(width)
    units = 2.0 ** generator.integers(-30, 30, width)
    factor = generator.standard_normal((2 * width + 1, width))
    matrix, right = factor.T @ factor, generator.standard_normal(width)
    system = np.zeros((tiles.padded(width),) * 2)
    system[:width, :width] = np.triu(matrix * units * units[:, None])
    found = right * units
    tiles.solve_upper(system, found, 0.0, np.empty(len(system)))
    condition = np.linalg.cond(matrix)
    assert np.allclose(found * units, np.linalg.solve(matrix, right), rtol=10 * width * condition * 2.0**-52)


def test_directions_that_the_data_leave_free_are_zero() -> None:
    generator = np.random.default_rng(0)
    factor = generator.integers(-3, 4, (3, 11)).astype(np.float64)
    factor[:, 4] = 0
    matrix = factor.T @ factor
    right = factor.T @ generator.standard_normal(3)
    system = np.zeros((tiles.padded(11),) * 2)
    system[:11, :11] = np.triu(matrix)
    found = right.copy()
    tiles.solve_upper(system, found, 0.0, np.empty(len(system)))
    assert found[4] == 0
    assert np.count_nonzero(found) <= 3
    assert np.allclose(matrix @ found, right, atol=1e-9)


@pytest.mark.parametrize("unit", [2.0**-23, 2.0**-10])
def test_a_pivot_below_the_rounding_of_its_sums_is_free(unit: float) -> None:
    """Two columns that differ by less than sums in that precision know; beyond it the difference is solved for."""
    for gap, wanted in ((unit / 4, [3.0, 0.0]), (8 * unit, [3.0 - 1 / 8, 1 / 8])):
        system = np.zeros((tiles.padded(2),) * 2)
        system[:2, :2] = [[1.0, 1.0], [0.0, 1.0 + gap]]
        found = np.array([3.0, 3.0 + unit])
        tiles.solve_upper(system, found, unit, np.empty(len(system)))
        assert np.allclose(found, wanted, rtol=1e-4, atol=0), gap


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [*WIDTHS, 16, 24, 31, 80, 96, 100])
@pytest.mark.parametrize("ratings", [0, 1, 7, 8, 64, 65, 203, 1100])
@pytest.mark.parametrize("back", [False, True])
def test_products_with_rows_that_lie_apart(dtype: type, width: int, ratings: int, back: bool) -> None:
    """Residuals, R^T (y - R x), diag(R^T R), R^T R p and |R p|^2; nothing is counted twice to make eights whole."""
    generator = np.random.default_rng(width + ratings)
    regressors = generator.standard_normal((50, width)).astype(dtype)
    columns = generator.integers(0, 50, ratings).astype(np.int32)
    values, offsets, x = (generator.standard_normal(size).astype(dtype) for size in (ratings, 50, width))
    room = tiles.room_of(regressors, np.array([3, 3 + ratings]))
    tiles.locate(regressors, columns, room)
    places, t, rated = room[0][:ratings], np.full(tiles.NEAR, np.nan, dtype), np.empty(ratings, dtype)
    tiles.subtract(values, offsets, columns, rated)
    begun = generator.standard_normal(width).astype(dtype)
    into, squares, again = begun.copy(), begun.copy(), begun.copy()
    length = tiles.start(regressors, places, rated, x, t, into, squares)
    for begin in range(0, ratings, tiles.FLUSH):
        tiles.apply(regressors, places, begin, x, t, again, back)
    rows = regressors[columns].astype(np.float64)
    wide, size = np.abs(rows), np.abs(x).astype(np.float64)
    left = values.astype(np.float64) - offsets[columns] - rows @ x
    error = wide @ size + np.abs(values) + np.abs(offsets[columns])  # of residuals, in units of their rounding
    unit = (ratings + width + 8) * np.finfo(dtype).eps
    assert abs(length - left @ left) <= unit * (error @ error)
    assert (np.abs(into - begun - rows.T @ left) <= unit * (wide.T @ error + np.abs(begun))).all()
    assert (np.abs(squares - begun - (rows**2).sum(0)) <= unit * ((rows**2).sum(0) + np.abs(begun))).all()
    assert (np.abs(again - begun - rows.T @ (rows @ x)) <= unit * (wide.T @ (wide @ size) + np.abs(begun))).all()
    length = tiles.square(regressors, places, x, t, back)
    assert abs(length - ((rows @ x) ** 2).sum()) <= unit * ((wide @ size) ** 2).sum()


@pytest.mark.parametrize("steps", [0, 3])
@pytest.mark.parametrize("width", [1, 5, 70])
def test_zeros_that_fill_the_last_vector_of_a_row_change_nothing(width: int, steps: int) -> None:
    generator = np.random.default_rng(width)
    starts, columns = np.array([0, 3, 203, 803]), generator.integers(0, 50, 803).astype(np.int32)
    values, offsets = generator.standard_normal(803), generator.standard_normal(50)
    regressors, diagonals = generator.standard_normal((50, width)), generator.uniform(0.1, 1.0, (3, width))
    filled = tiles.aligned(regressors, 50, width)
    filled[:, :width] = regressors
    begun = generator.standard_normal((3, width))
    found = [begun.copy(), begun.copy()]
    reached = [solve_rows(starts, columns, values, table, offsets, solution, diagonals, steps)
               for table, solution in zip((regressors, filled), found, strict=True)]  # fmt: skip
    # sums of up to 600 products in another order; the diagonal keeps every condition number below 1e4
    assert np.allclose(*found, rtol=0, atol=1e4 * 800 * 2.0**-52)
    assert np.allclose(*reached, rtol=1e4 * 800 * 2.0**-52)
