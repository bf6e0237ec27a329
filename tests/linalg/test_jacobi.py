"""Eigenvalues of features in very different units, each in its own."""

from __future__ import annotations

import pytest
import torch
from cases import normal
from torch.func import vmap

from droptics.linalg import psd_eigen, psd_inverse_root, psd_root
from droptics.linalg.jacobi import graded_eigen


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("rank", [1, 3, 5])
@pytest.mark.parametrize("power", [0, 13, 40])
def test_the_rank_of_a_second_moment_does_not_depend_on_units(power: int, rank: int, dtype: torch.dtype) -> None:
    """Of full rank diag(s)^-1 V diag(values) V^T diag(s)^-1 is the matrix in its own units, small entries included."""
    power = min(power, 13) if dtype == torch.float32 else power
    for seed in range(5):
        rows = (normal(20, rank, seed=seed) @ normal(rank, 5, seed=seed + 50)).to(dtype)
        plain = rows.mT @ rows
        units = 2.0 ** (power * torch.linspace(-1, 1, 5).double()).round()[normal(5, seed=seed).argsort()].to(dtype)
        matrix = units[:, None] * plain * units
        values, vectors = psd_eigen(matrix)
        assert int((values > 0).sum()) == rank
        assert bool((values.diff() >= 0).all())
        size, eps = float(plain.diagonal().max()), torch.finfo(dtype).eps
        again = (vectors * values) @ vectors.mT / units[:, None] / units
        assert rank < 5 or float((again - plain).abs().max()) <= 256 * eps * size
        assert abs(float(values.sum() / matrix.trace() - 1)) <= 16 * eps
        assert float((vectors.mT @ vectors - torch.eye(5, dtype=dtype)).abs().max()) <= 64 * eps


def test_small_eigenvalues_are_those_of_a_small_block() -> None:
    """Two blocks that do not meet, 2^80 apart: the eigenvalues of each."""
    blocks = [normal(9, 2, seed=seed) for seed in (0, 1)]
    large, small = (block.mT @ block for block in blocks)
    matrix = torch.block_diag(2.0**40 * large, 2.0**-40 * small)
    wanted = torch.cat([2.0**-40 * torch.linalg.eigvalsh(small), 2.0**40 * torch.linalg.eigvalsh(large)])
    torch.testing.assert_close(psd_eigen(matrix)[0], wanted, rtol=1e-13, atol=0)
    batch = torch.stack([matrix, torch.eye(4).double()])
    torch.testing.assert_close(psd_eigen(batch)[0][0], wanted, rtol=1e-13, atol=0)
    root, inverse = psd_root(matrix), psd_inverse_root(matrix)
    torch.testing.assert_close(root[2:, 2:] @ root[2:, 2:], 2.0**-40 * small, rtol=1e-12, atol=1e-12 * 2.0**-40)
    torch.testing.assert_close(inverse[2:, 2:] @ root[2:, 2:], torch.eye(2).double(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("rank", [0, 1, 3])
def test_directions_without_energy_have_none_at_all(rank: int) -> None:
    """As many zeros, not roundings, as the matrix lacks of its full rank."""
    rows = normal(rank, 5)
    units = 2.0 ** torch.tensor([-30.0, 0, 20, -5, 11]).double()
    values, vectors = graded_eigen(units[:, None] * (rows.mT @ rows) * units)
    assert torch.equal(values[: 5 - rank], torch.zeros(5 - rank).double())
    assert bool((values[5 - rank :] > 0).all())
    assert float((vectors.mT @ vectors - torch.eye(5).double()).abs().max()) < 1e-14


def test_equal_units_go_through_vmap() -> None:
    rows = normal(3, 9, 4)
    torch.testing.assert_close(vmap(psd_root)(rows.mT @ rows), torch.stack([psd_root(x.mT @ x) for x in rows]))
