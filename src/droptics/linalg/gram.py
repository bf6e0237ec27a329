"""Sums over examples, in blocks: their rounding does not grow with the number, as in products of BLAS or norms."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.checks import as_array, wants_derivative

# Rows whose products are added one after the other, rows of a triangle, and panels of columns on a GPU: eight of them
# need nine sixteenths of the operations. Up to the size SMALL a product takes longer to call than to compute.
BLOCK, SHORT, PANELS, SMALL = 512, 16, 8, 64


def products(left: Tensor, right: Tensor) -> Tensor:
    """left^T right for matrices (..., n, a) and (..., n, b); differentiable.

    Blocks are at least as long as the narrower matrix is wide, so that they take no more memory than the rows.
    """
    count, size = left.shape[-2], _length(min(left.shape[-1], right.shape[-1]))
    large = count > size or max(left.shape[-1], right.shape[-1]) > SMALL
    if large and left.device.type == "cpu" and not wants_derivative(left, right):
        return torch.from_numpy(_added(left.numpy(), right.numpy(), size))
    if count <= size:
        return left.mT @ right
    whole = count // size * size
    first, second = (part[..., :whole, :].unflatten(-2, (-1, size)) for part in (left, right))
    return (first.mT @ second).sum(-3) + left[..., whole:, :].mT @ right[..., whole:, :]


def _added(left: Array, right: Array, size: int) -> Array:
    """By halves, in NumPy, which recognizes a product with its own transpose and computes half of it."""
    if (count := left.shape[-2]) <= size:
        return left.swapaxes(-1, -2) @ right
    half = -(-count // (2 * size)) * size
    total = _added(left[..., :half, :], right[..., :half, :], size)
    total += _added(left[..., half:, :], right[..., half:, :], size)
    return total


def gram(rows: Tensor) -> Tensor:
    """rows^T rows for a matrix (n, size), without gradient; on a GPU panels leave out most of what symmetry gives."""
    rows = rows.detach()
    return products(rows, rows) if rows.device.type == "cpu" else _by_panels(rows)


def _by_panels(rows: Tensor) -> Tensor:
    result = rows.new_empty(rows.shape[1], rows.shape[1])
    width = -(-rows.shape[1] // PANELS)
    for start in range(0, rows.shape[1], width):
        panel = products(rows[:, start:], rows[:, start : start + width])
        result[start:, start : start + width] = panel
        result[start : start + width, start:] = panel.mT
    return result


def triangular(rows: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, float]:
    """No more rows than columns with the same product `gram`, the targets on them, and the energy of what is left.

    By QR factorizations of blocks of rows, then of their triangles: sums of at most 2 SHORT numbers, or of 8 times the
    columns. Where a derivative in the rows is wanted there is one block: a triangle of fewer directions has none.
    """
    beyond, size = 0.0, max(SHORT, 4 * rows.shape[1])
    while len(rows) > rows.shape[1]:
        length = size if len(rows) >= 2 * size and not wants_derivative(rows) else len(rows)
        whole = len(rows) // length * length
        basis, triangles = torch.linalg.qr(rows[:whole].unflatten(0, (-1, length)))
        parts = targets[:whole].unflatten(0, (-1, length))
        loads = basis.mT @ parts
        beyond += squares(parts - basis @ loads)
        rows = torch.cat([triangles.flatten(0, 1), rows[whole:]])
        targets = torch.cat([loads.flatten(0, 1), targets[whole:]])
    return rows, targets, beyond


def squares(values: Tensor) -> float:
    """The sum of the squares of all numbers in float64, without gradient; GPUs add in trees by themselves."""
    values = values.detach()
    if values.device.type != "cpu" or values.numel() <= BLOCK:
        return float(torch.linalg.vector_norm(values, dtype=torch.float64)) ** 2
    return float(np.square(as_array(values), dtype=np.float64).ravel("K").sum())  # added by halves


def _length(width: int) -> int:
    """Rows of a block for matrices so wide."""
    return max(BLOCK, width)


def summands(count: int, width: int = 1) -> float:
    """The most roundings of one of so many numbers in `products`, or in torch's four cascades of fourth roots."""
    return min(count, _length(width)) + 4 * count**0.25
