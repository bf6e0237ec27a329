"""The inverse within one triangle, against NumPy's in float64, for blocks of several sizes."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from droptics.recommenders import DropoutAutoencoder, elimination, precision


def planted(size: int, condition: float, units: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """A matrix with eigenvalues from 1 to its condition number, in these units, and its inverse."""
    generator = np.random.default_rng(size)
    vectors = np.linalg.qr(generator.standard_normal((size, size)))[0]
    values = np.geomspace(1, condition, size)
    units = np.ones(size) if units is None else units
    return (vectors * values) @ vectors.T * np.outer(units, units), (vectors / values) @ vectors.T / np.outer(
        units, units
    )


def inverted(matrix: np.ndarray, dtype: torch.dtype) -> tuple[bool, torch.Tensor]:
    """What is found from what lies above the diagonal; that this stays is checked."""
    given = torch.from_numpy(matrix).to(dtype)
    square = given.triu() + given.triu(1).T
    found = elimination.invert(square)
    assert torch.equal(square.triu(1), given.triu(1))
    return found, square.tril().double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("condition", [1.0, 1e4])
@pytest.mark.parametrize(
    ("size", "block"), [(1, 512), (2, 512), (31, 16), (32, 16), (33, 16), (50, 7), (50, 1), (600, 512)]
)
def test_the_inverse_is_as_accurate_as_its_condition_allows(monkeypatch, dtype, condition, size, block):
    monkeypatch.setattr(elimination, "_BLOCK", block)
    monkeypatch.setattr(elimination, "_PART", max(1, block // 3))
    units = 2.0 ** np.random.default_rng(block).integers(-12, 12, size)  # a Cholesky factorization does not see them
    matrix, wanted = planted(size, condition, units)
    found, lower = inverted(matrix, dtype)
    assert found
    error = (lower.numpy() - np.tril(wanted)) * np.outer(units, units)
    assert np.linalg.norm(error, 2) <= size * condition * torch.finfo(dtype).eps  # of an inverse of norm 1


@pytest.mark.parametrize("at", [0, 9, 15, 16, 40])
def test_an_indefinite_matrix_is_told_and_stays_above_the_diagonal(monkeypatch, at):
    monkeypatch.setattr(elimination, "_BLOCK", 16)
    matrix, _ = planted(41, 10.0)
    matrix[at, at] = -1.0
    assert not inverted(matrix, torch.float64)[0]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("threads", [1, 2])
def test_any_number_of_threads_fits_the_closed_form(monkeypatch, threads, dtype):
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
    monkeypatch.setattr(precision, "_MANY", 20)
    monkeypatch.setattr(elimination, "_BLOCK", 16)
    x = (np.random.default_rng(0).random((300, 40)) < 0.3) * 1.0
    halves = [
        (np.nonzero(part)[0] + start, np.nonzero(part)[1], part[part > 0])
        for start, part in ((0, x[:150]), (150, x[150:]))
    ]
    model = DropoutAutoencoder(0.4, 5.0, diagonal="free", dtype=dtype).fit(halves[0]).partial_fit(halves[1])
    gram = x[:, model.item_ids_].T @ x[:, model.item_ids_]
    gamma = 2 / 3 * gram.diagonal() + 5
    system = gram + np.diag(gamma)
    wanted = np.eye(40) - np.linalg.inv(system) * gamma
    allowed = 40 * np.linalg.cond(system) * np.finfo(dtype).eps * np.abs(wanted).max()
    assert np.abs(model.weights() - wanted).max() <= allowed
    with pytest.raises(ArithmeticError, match="singular"):
        DropoutAutoencoder(0.0, 0.0, dtype=dtype).fit_gram(np.ones((20, 20)))
