"""Roots of positive semi-definite matrices, singular ones included."""

from __future__ import annotations

import torch
from torch import Tensor


def psd_root(matrix: Tensor) -> Tensor:
    """Symmetric root R of a positive semi-definite matrix, R R = matrix; singular matrices are fine.

    Eigenvalues below rounding level are set to zero; O(d^3). Leading dimensions are a batch.
    """
    values, vectors = psd_eigen(matrix)
    return (vectors * values.sqrt().unsqueeze(-2)) @ vectors.mT


def psd_inverse_root(matrix: Tensor) -> Tensor:
    """Pseudo-inverse of `psd_root`: zero on the null space."""
    values, vectors = psd_eigen(matrix)
    inverse = torch.where(values > 0, values, torch.ones_like(values)).rsqrt() * (values > 0)
    return (vectors * inverse.unsqueeze(-2)) @ vectors.mT


def psd_eigen(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Eigenvalues (ascending, those at rounding level set to exactly zero) and eigenvectors of a PSD matrix."""
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    size = matrix.shape[-1]
    level = size * torch.finfo(matrix.dtype).eps * values.abs().amax(-1, keepdim=True)
    return torch.where(values > level, values, torch.zeros_like(values)), vectors
