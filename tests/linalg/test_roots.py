"""Slopes of roots, beside the equation that they solve: R dR + dR R is the symmetric part of the change."""

from __future__ import annotations

import pytest
import torch
from cases import normal
from compare import close
from scipy.linalg import solve_sylvester

from droptics.linalg import psd_inverse_root, psd_root


def moment(size: int) -> torch.Tensor:
    half = normal(size, size + 1, seed=size)
    return half @ half.mT + torch.eye(size).double()


def slope_along(root: torch.Tensor, change: torch.Tensor, inverse: bool) -> torch.Tensor:
    """Of the root along a change, or of the inverse root: -R^-1 dR R^-1; its own adjoint."""
    even = (change + change.mT) / 2
    if inverse:
        other = torch.linalg.inv(root)
        even = -other @ even @ other
    return torch.from_numpy(solve_sylvester(root.numpy(), root.numpy(), even.numpy()))


@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_of_a_change_of_one_triangle_the_symmetric_part_counts(size, inverse):
    matrix, change, weight = moment(size), normal(size, size, seed=7), normal(size, size, seed=8)
    take = psd_inverse_root if inverse else psd_root
    values, vectors = torch.linalg.eigh(matrix)
    root = (vectors * values.sqrt()) @ vectors.mT
    # eigenvalues from one to some tens: a few products of matrices that are well conditioned
    close(torch.func.jvp(take, (matrix,), (change,))[1], slope_along(root, change, inverse), 1e-11)
    leaf = matrix.clone().requires_grad_()
    (back,) = torch.autograd.grad((take(leaf) * weight).sum(), leaf)
    close(back, slope_along(root, weight, inverse), 1e-11)


@pytest.mark.parametrize("take", [psd_root, psd_inverse_root])
@pytest.mark.parametrize("inner", [torch.func.jacrev, torch.func.jacfwd])
@pytest.mark.parametrize("outer", [torch.func.jacrev, torch.func.jacfwd])
def test_second_derivatives_are_refused_and_not_left_out_of_a_sum(take, inner, outer):
    fixed = moment(3)

    def total(t):
        return take(fixed + torch.diag(t)).sum() + t.square().sum()

    with pytest.raises(NotImplementedError):
        outer(inner(total))(torch.ones(3, dtype=torch.float64))


@pytest.mark.parametrize("take", [psd_root, psd_inverse_root])
def test_a_graph_of_the_first_derivative_is_refused_where_it_is_asked(take):
    shift = torch.ones(3, dtype=torch.float64, requires_grad=True)
    total = take(moment(3) + torch.diag(shift)).sum() + shift.square().sum()
    (slope,) = torch.autograd.grad(total, shift, create_graph=True)
    with pytest.raises(NotImplementedError, match="differentiable once"):
        torch.autograd.grad(slope.sum(), shift)
