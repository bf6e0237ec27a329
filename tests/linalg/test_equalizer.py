"""Rotations to a constant diagonal, of matrices that are not symmetric, too."""

import pytest
import torch
from cases import normal
from compare import close

from droptics.linalg import equalize_columns, equalize_columns_, equalizer


@pytest.mark.parametrize("lead", [(), (3,), (2, 2)])
@pytest.mark.parametrize("size", [1, 2, 5, 9])
def test_both_triangles_of_a_matrix_count(size, lead):
    grams = normal(*lead, size, size, seed=size)
    turn = equalizer(grams)
    # a chain of size - 1 rotations, a few roundings of numbers of size one each
    close(turn.mT @ turn, torch.eye(size).expand(turn.shape), 1e-13, scale=1.0)
    diagonal = (turn.mT @ grams @ turn).diagonal(dim1=-2, dim2=-1)
    even = grams.diagonal(dim1=-2, dim2=-1).mean(-1, keepdim=True).expand(diagonal.shape)
    close(diagonal, even, 1e-13, scale=float(grams.abs().max()) * size)


@pytest.mark.parametrize(
    ("dtype", "power"),
    [(torch.float64, power) for power in (480, 260, -260, -480, -600, -960)]
    + [(torch.float32, power) for power in (60, 40, -40, -60, -90)],
)
def test_columns_of_every_size_are_equalized(dtype, power):
    """Products of their norms overflow or vanish, and so may their squares; a power of two rounds nothing."""
    plain = normal(5, 3).to(dtype)
    unit = 2.0**power
    rounding = 40 * torch.finfo(dtype).eps
    wanted = plain.square().sum() / 3
    companion = normal(2, 3).to(dtype)
    rotated, other = equalize_columns(plain * unit, companion)
    in_place, by_columns = equalize_columns_(plain * unit), equalize_columns_((plain * unit).mT.contiguous().mT)
    for found in (rotated, in_place, by_columns):
        close((found / unit).square().sum(0), wanted.expand(3), rounding)
        close(found / unit @ (found / unit).mT, plain @ plain.mT, rounding)
    close(other @ (rotated / unit).mT, companion @ plain.mT, rounding)


@pytest.mark.parametrize("power", [900, 520, -520, -900])
def test_gram_matrices_of_every_size_are_equalized(power):
    factor = normal(4, 3)
    gram = factor.mT @ factor
    turn = equalizer(gram * 2.0**power)
    close((turn.mT @ gram @ turn).diagonal(), gram.trace().expand(3) / 3, 1e-13)
