"""Quadratic forms of columns: v^T M v for every column v of a matrix, or of many small matrices in one loop."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.transforms import wants_derivative

# Below so many products numba is not worth its first call; larger matrices of forms do not stay in the cache.
MANY, LARGE = 2**20, 256


def column_forms(columns: Tensor, moment: Tensor, heads: Tensor | None = None) -> Tensor:
    """v^T M v for every column v of V (..., n, width) and a symmetric M (n, n): (..., width); differentiable.

    Many small matrices take half the products, one after the other in the cache: those of one triangle of M. With heads
    U (..., m, width) each is multiplied by |u|^2; those of many matrices are on their way from memory meanwhile.
    """
    size, width = columns.shape[-2:]
    beside = [] if heads is None else [heads]
    alike = all(part.shape[:-2] == columns.shape[:-2] for part in beside)
    if alike and _is_batch(columns, size, moment, *beside) and width >= 4 and 8 <= size <= LARGE:
        from droptics.linalg.form_tiles import forms  # noqa: PLC0415 - it loads numba

        many = _flat(columns)
        out = np.empty((len(many), width))
        forms(moment.detach().numpy(), many, many[:, :0] if heads is None else _flat(heads), out)
        return torch.from_numpy(out).view(*columns.shape[:-2], width)
    if heads is not None:
        return column_forms(columns, moment) * column_squares(heads)
    return (columns * (moment @ columns)).sum(-2)


def column_squares(columns: Tensor) -> Tensor:
    """|v|^2 for every column v of V (..., n, width): (..., width); differentiable."""
    if _is_batch(columns, 4):  # read once, as much time as four products
        from droptics.linalg.form_tiles import squares  # noqa: PLC0415 - it loads numba

        many = _flat(columns)
        out = np.empty((len(many), many.shape[2]))
        squares(many, out)
        return torch.from_numpy(out).view(*columns.shape[:-2], columns.shape[-1])
    return columns.square().sum(-2)


def _is_batch(columns: Tensor, products: int, *others: Tensor) -> bool:
    """Whether these are many matrices of float64 on the CPU, of which numbers alone are wanted."""
    every = (columns, *others)
    plain = all(part.is_cpu and part.dtype == torch.float64 for part in every)
    return plain and columns.ndim > 2 and columns.numel() * products >= MANY and not wants_derivative(*every)


def _flat(columns: Tensor) -> Array:
    return np.ascontiguousarray(columns.detach().reshape(-1, *columns.shape[-2:]).numpy())
