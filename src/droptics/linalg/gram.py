"""The product of a matrix with its own transpose, at about half the operations, and rows that have the same one."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.linalg.sums import products, squares
from droptics.transforms import wants_derivative

# Rows of a triangle, and panels of columns on a GPU: eight of them need nine sixteenths of the operations.
SHORT, PANELS = 16, 8


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
