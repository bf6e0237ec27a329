"""Tiles of products against NumPy's, where vectors divide rows and columns and where they do not."""

import numpy as np
import pytest

from droptics.training import passes


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("rows", "inner", "columns"), [(256, 80, 120), (8, 1, 32), (9, 3, 33), (17, 5, 50)])
def test_products_are_those_of_numpy(rows, inner, columns, dtype):
    rng = np.random.default_rng(0)
    x, matrix = rng.standard_normal((rows, inner)).astype(dtype), rng.standard_normal((inner, columns)).astype(dtype)
    assert passes.tiled(rows, matrix)
    found = np.full((rows, columns), np.nan, dtype)
    passes.products(x, matrix, found)
    bound = inner * np.finfo(dtype).eps * (np.abs(x) @ np.abs(matrix))
    assert (np.abs(found - x.astype(float) @ matrix.astype(float)) <= bound).all()


def test_few_rows_narrow_and_large_matrices_are_left_to_others():
    assert not passes.tiled(7, np.zeros((3, 64)))
    assert not passes.tiled(8, np.zeros((3, 3)))
    assert not passes.tiled(8, np.zeros((300, 300)))
