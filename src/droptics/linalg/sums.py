"""Sums over examples, in blocks: their rounding does not grow with the number, as in products of BLAS or norms."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.transforms import as_array, wants_derivative

# Rows whose products are added one after the other, and the size up to which a product takes longer to call than to do.
BLOCK, SMALL = 512, 64


def products(left: Tensor, right: Tensor) -> Tensor:
    """left^T right for matrices (..., n, a) and (..., n, b); differentiable.

    Blocks are at least as long as the narrower matrix is wide, so that they take no more memory than the rows.
    """
    count, size = left.shape[-2], _length(min(left.shape[-1], right.shape[-1]))
    large = count > size or max(left.shape[-1], right.shape[-1]) > SMALL
    if large and left.device.type == "cpu" and not wants_derivative(left, right):
        if left.shape[-1] > right.shape[-1]:  # a wide product with few rows takes less time than a tall one
            return torch.from_numpy(_added(right.numpy(), left.numpy(), size)).mT
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


def squares(values: Tensor | Array) -> float:
    """The sum of the squares of all numbers in float64, without gradient; GPUs add in trees by themselves."""
    if isinstance(values, Tensor):
        values = values.detach()
        if values.device.type != "cpu" or values.numel() <= BLOCK:
            return float(torch.linalg.vector_norm(values, dtype=torch.float64)) ** 2
        values = as_array(values)
    flat, whole = values.ravel("K"), values.size // BLOCK * BLOCK
    blocks, last = flat[:whole].reshape(-1, BLOCK), flat[whole:]
    sums = np.einsum("ij,ij->i", blocks, blocks, dtype=np.float64).sum()  # added by halves
    return float(sums + np.einsum("i,i->", last, last, dtype=np.float64))


def _length(width: int) -> int:
    """Rows of a block for matrices so wide."""
    return max(BLOCK, width)


def summands(count: int, width: int = 1) -> float:
    """The most roundings of one of so many numbers in `products`, or in torch's four cascades of fourth roots."""
    return min(count, _length(width)) + 4 * count**0.25
