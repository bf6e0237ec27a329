"""Roots of positive semi-definite matrices, singular ones included."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor

from droptics.arguments import Square, check_arguments
from droptics.linalg.jacobi import graded_eigen
from droptics.linalg.scales import equilibrate
from droptics.transforms import is_readable, once


def psd_root(matrix: Square) -> Tensor:
    """Symmetric root R of a positive semi-definite matrix, R R = matrix; singular matrices are fine.

    Eigenvalues below rounding level are set to zero; O(d^3). Leading dimensions are a batch. Differentiable once, also
    where eigenvalues coincide; directions without energy are taken to stay so. The rank is that of `psd_eigen`.
    Claim: none, a definition.
    """
    check_arguments(psd_root, locals())
    root: Tensor = _Power.apply(matrix, False)[0]  # type: ignore[no-untyped-call]
    return root


def psd_inverse_root(matrix: Square) -> Tensor:
    """Pseudo-inverse of `psd_root`: zero on the null space; differentiable like it.

    Cost: O(d^3). Claim: none, a definition.
    """
    check_arguments(psd_inverse_root, locals())
    root: Tensor = _Power.apply(matrix, True)[0]  # type: ignore[no-untyped-call]
    return root


def psd_eigen(matrix: Square) -> tuple[Tensor, Tensor]:
    """Eigenvalues (ascending, those at rounding level set to exactly zero) and eigenvectors of a PSD matrix.

    How many are zero is decided after every feature is put into its own units, and small eigenvalues of features in
    small units have the digits of large ones (`linalg.jacobi`); inside torch.func.vmap, where numbers cannot be looked
    at, those below the rounding of the largest one keep none.
    Cost: O(d^3), in Python where units differ by half the digits. Claim: none, LAPACK's, with rounding cut off.
    """
    check_arguments(psd_eigen, locals())
    matrix = (matrix + matrix.mT) / 2
    values, vectors = torch.linalg.eigh(matrix)
    size, eps = matrix.shape[-1], torch.finfo(matrix.dtype).eps
    energies = torch.linalg.eigvalsh(equilibrate(matrix)[0])
    alive = energies > size * eps * energies.amax(-1, keepdim=True)
    if is_readable(matrix) and bool((alive & (values <= size * eps * values.amax(-1, keepdim=True))).any()):
        values, vectors = graded_eigen(matrix)
    return torch.where(alive & (values > 0), values, torch.zeros_like(values)), vectors


class _Power(torch.autograd.Function):
    """The root or its inverse; eigenvectors have no derivative where values coincide, but these functions do.

    In the eigenbasis the derivative multiplies entry (i, j) by the divided difference of the function at the values
    a and b (Daleckii and Krein): 1 / (sqrt a + sqrt b) for the root; -1 / (sqrt a sqrt b (sqrt a + sqrt b)) for the
    inverse, a^(-3/2) where b is zero; zero where both are, because the rank is taken to stay.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(matrix: Tensor, inverse: bool) -> tuple[Tensor, Tensor, Tensor]:
        values, vectors = psd_eigen(matrix)
        roots = values.sqrt()
        return (vectors * (_reciprocal(roots) if inverse else roots).unsqueeze(-2)) @ vectors.mT, roots, vectors

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, bool], output: tuple[Tensor, Tensor, Tensor]) -> None:
        matrix, ctx.inverse = inputs
        ctx.mark_non_differentiable(*output[1:])
        ctx.save_for_backward(matrix, *output[1:])
        ctx.save_for_forward(matrix, *output[1:])

    @staticmethod
    def backward(ctx: Any, upstream: Tensor, *_: Tensor) -> tuple[Tensor, None]:
        return once(partial(_turned, ctx.inverse), *ctx.saved_tensors, upstream), None

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, _: None) -> tuple[Tensor, None, None]:
        return once(partial(_turned, ctx.inverse), *ctx.saved_tensors, tangent), None, None


def _turned(inverse: bool, _: Tensor, roots: Tensor, vectors: Tensor, change: Tensor) -> Tensor:
    """The derivative at a matrix of these roots applied to a change of it; it is its own adjoint."""
    slopes = _reciprocal(roots.unsqueeze(-1) + roots.unsqueeze(-2))
    if inverse:
        ends, null = _reciprocal(roots), (roots == 0).to(roots)
        slopes = -slopes * ends.unsqueeze(-1) * ends.unsqueeze(-2)
        beside = ends.unsqueeze(-1) ** 3 * null.unsqueeze(-2)
        slopes = slopes + beside + beside.mT
    inner = vectors.mT @ ((change + change.mT) / 2) @ vectors
    return vectors @ (slopes * inner) @ vectors.mT


def _reciprocal(values: Tensor) -> Tensor:
    """1 / values, zero where they are zero."""
    return torch.where(values > 0, 1 / torch.where(values > 0, values, 1.0), 0.0)
