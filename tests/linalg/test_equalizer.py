"""Rotations to a constant diagonal, of matrices that are not symmetric, too."""

import pytest
import torch
from cases import normal
from compare import close

from droptics.linalg import equalizer


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
