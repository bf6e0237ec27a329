"""Householder reduction against its definition: T from the matrix by an orthogonal Q, both routes."""

import numpy as np
import pytest

from droptics.linalg import tridiagonal as module
from droptics.linalg.tridiagonal import askew, reflect, room_of, tridiagonal

EPS = np.finfo(float).eps


def symmetric(size: int, kind: str) -> np.ndarray:
    rng = np.random.default_rng(size)
    matrix = rng.normal(size=(size, size))
    matrix = matrix + matrix.T
    match kind:
        case "split":
            matrix[: size // 2, size // 2 :] = matrix[size // 2 :, : size // 2] = 0.0
        case "diagonal":
            matrix = np.diag(np.diag(matrix))
        case "of rank one":
            matrix = np.outer(matrix[0], matrix[0])
        case "badly scaled":
            units = 2.0 ** rng.integers(-200, 200, size)
            matrix = units[:, None] * matrix * units
        case "large":
            matrix = 2.0**1000 * matrix
        case "small":
            matrix = 2.0**-950 * matrix
    return matrix


@pytest.mark.parametrize("blocked", [False, True])
@pytest.mark.parametrize("size", [2, 3, 4, 5, 8, 33])
@pytest.mark.parametrize("kind", ["plain", "split", "diagonal", "of rank one", "badly scaled", "large", "small"])
def test_the_matrix_is_that_of_the_parts(kind, size, blocked, monkeypatch):
    monkeypatch.setattr(module, "BLOCKED", 0 if blocked else 256)
    matrix = symmetric(size, kind)
    read = np.where(np.tri(size) > 0, matrix, np.nan if not blocked else 0.0)  # the lower triangle is enough
    found = tridiagonal(read)
    rows = np.eye(size)  # rows y become Q y: together Q^T
    reflect(found.reflectors, found.factors, rows)
    assert askew(rows) <= 16 * size * EPS
    T = np.diag(found.diagonal) + np.diag(found.beside, 1) + np.diag(found.beside, -1)
    largest = np.abs(matrix).max()
    # a reflection of n numbers errs by a few n units, and there are n of them
    assert np.abs(found.unit * (rows.T @ T @ rows) - matrix).max() <= 16 * size * EPS * size * largest
    assert blocked or 0.5 <= largest / found.unit <= 2.0


def test_what_has_no_unit_is_left_alone():
    for matrix in (np.zeros((9, 9)), np.full((9, 9), np.nan), np.full((9, 9), np.inf), np.full((9, 9), 2.0**-1000)):
        assert tridiagonal(matrix).unit == 0.0


def test_arrays_can_be_used_again():
    room = room_of(12)
    for seed in range(3):
        matrix = np.random.default_rng(seed).normal(size=(12, 12))
        matrix = matrix + matrix.T
        again, fresh = tridiagonal(matrix, room), tridiagonal(matrix)
        assert again.diagonal is room[0]
        assert all(np.array_equal(np.tril(a), np.tril(b)) for a, b in zip(again[1:], fresh[1:], strict=True))
        assert np.array_equal(again.factors, fresh.factors)


def test_askew_rows_are_measured():
    rows = np.eye(3, 5)
    assert askew(rows) == 0.0
    rows[2, 0] = 0.25
    assert askew(rows) == 0.25
    rows[1, 1] = np.nan
    assert not askew(rows) <= 1.0
