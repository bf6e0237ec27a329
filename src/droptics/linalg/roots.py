"""Roots of positive semi-definite matrices, singular ones included."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def psd_root(matrix: Tensor) -> Tensor:
    """Symmetric root R of a positive semi-definite matrix, R R = matrix; singular matrices are fine.

    Eigenvalues below rounding level are set to zero; O(d^3). Leading dimensions are a batch. Differentiable once, also
    where eigenvalues coincide; directions without energy are taken to stay so.
    """
    root: Tensor = _Power.apply(matrix, False)  # type: ignore[no-untyped-call]
    return root


def psd_inverse_root(matrix: Tensor) -> Tensor:
    """Pseudo-inverse of `psd_root`: zero on the null space; differentiable like it."""
    root: Tensor = _Power.apply(matrix, True)  # type: ignore[no-untyped-call]
    return root


def psd_eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (ascending, those at rounding level set to exactly zero) and eigenvectors of a PSD matrix."""
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    size = matrix.shape[-1]
    level = size * torch.finfo(matrix.dtype).eps * values.abs().amax(-1, keepdim=True)
    return torch.where(values > level, values, torch.zeros_like(values)), vectors


class _Power(torch.autograd.Function):
    """The root or its inverse; eigenvectors have no derivative where values coincide, but these functions do.

    In the eigenbasis the derivative multiplies entry (i, j) by the divided difference of the function at the values
    a and b (Daleckii and Krein): 1 / (sqrt a + sqrt b) for the root; -1 / (sqrt a sqrt b (sqrt a + sqrt b)) for the
    inverse, a^(-3/2) where b is zero; zero where both are, because the rank is taken to stay.
    """

    @staticmethod
    def forward(ctx: Any, matrix: Tensor, inverse: bool) -> Tensor:
        values, vectors = psd_eigen(matrix)
        roots = values.sqrt()
        ctx.save_for_backward(roots, vectors)
        ctx.inverse = inverse
        return (vectors * (_reciprocal(roots) if inverse else roots).unsqueeze(-2)) @ vectors.mT

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, None]:
        roots, vectors = ctx.saved_tensors
        slopes = _reciprocal(roots.unsqueeze(-1) + roots.unsqueeze(-2))
        if ctx.inverse:
            inverse, null = _reciprocal(roots), (roots == 0).to(roots)
            slopes = -slopes * inverse.unsqueeze(-1) * inverse.unsqueeze(-2)
            beside = inverse.unsqueeze(-1) ** 3 * null.unsqueeze(-2)
            slopes = slopes + beside + beside.mT
        inner = vectors.mT @ ((upstream + upstream.mT) / 2) @ vectors
        return vectors @ (slopes * inner) @ vectors.mT, None


def _reciprocal(values: Tensor) -> Tensor:
    """1 / values, zero where they are zero."""
    return torch.where(values > 0, 1 / torch.where(values > 0, values, 1.0), 0.0)
