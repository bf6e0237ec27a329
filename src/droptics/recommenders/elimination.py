"""Inverse of a positive definite matrix within one triangle of its array, by matrix products.

Blocks of rows and columns are eliminated in turn. With set 1 done and set 2 left, the triangle holds

    A11^-1,    A21 A11^-1,    A22 - A21 A11^-1 A12,

each the sum of what the steps added to it: the Cholesky factor, its inverse and the product of this with its transpose
in one sweep instead of three (Bientinesi, Gunter, van de Geijn, Families of algorithms related to the inversion of a
symmetric positive definite matrix, 2008), with the same terms in every entry and so as accurate as they are. Only the
blocks on the diagonal are factorized; all else are products into the array, which any number of threads shares out.
"""

from __future__ import annotations

import torch
from torch import Tensor

_BLOCK, _PART = 512, 128


def invert(square: Tensor) -> bool:
    """Put the inverse on and below the diagonal of a symmetric `square`, and say whether it is positive definite.

    What lies above the diagonal stays. Cost: n^3 + O(n^2) operations, and room for 2 n _BLOCK more numbers.
    """
    blocks = _blocks(len(square))
    kept = [square[here, here].triu(1) for here in blocks]  # blocks on the diagonal are worked on as a whole
    panel = square.new_empty(min(_BLOCK, len(square)), len(square))
    found = all(_eliminate(square, here, panel) for here in blocks)
    for here, above in zip(blocks, kept, strict=True):
        square[here, here] = square[here, here].tril() + above
    return found


def _blocks(size: int) -> list[slice]:
    return [slice(at, min(at + _BLOCK, size)) for at in range(0, size, _BLOCK)]


def _eliminate(square: Tensor, here: slice, panel: Tensor) -> bool:
    """One block: with L L^T its part of the diagonal, W = L^-1 times its part of the rest and N = L^-T W."""
    factor, failed = torch.linalg.cholesky_ex(square[here, here])
    if int(failed):
        return False
    root = torch.linalg.solve_triangular(factor, torch.eye(len(factor)).to(factor), upper=False)
    done, left = slice(0, here.start), slice(here.stop, len(square))
    panel = panel[: len(root)]
    _lower_times(root, square[here, done], panel[:, done])
    _lower_times(root, square[left, here].T, panel[:, left])
    _add_squares(square, panel, done, 1)
    square[left, done].addmm_(panel[:, left].T, panel[:, done], alpha=-1)
    _add_squares(square, panel, left, -1)
    _upper_times(-root.T, panel[:, done], square[here, done])
    _upper_times(root.T, panel[:, left], square[left, here].T)
    torch.mm(root.T, root, out=square[here, here])
    return True


def _add_squares(square: Tensor, panel: Tensor, span: slice, sign: int) -> None:
    """Add W^T W to the triangle of a span, strip by strip: wide products, and little is done above the diagonal."""
    for at in range(span.start, span.stop, _BLOCK):
        strip, until = slice(at, min(at + _BLOCK, span.stop)), slice(span.start, min(at + _BLOCK, span.stop))
        square[strip, until].addmm_(panel[:, strip].T, panel[:, until], alpha=sign)


def _lower_times(root: Tensor, rows: Tensor, out: Tensor) -> None:
    """The product with a lower triangular matrix, part by part: nearly half of it would be products with zeros."""
    for at in range(0, len(root), _PART):
        end = at + _PART
        torch.mm(root[at:end, :end], rows[:end], out=out[at:end])


def _upper_times(root: Tensor, rows: Tensor, out: Tensor) -> None:
    """The product with an upper triangular matrix, part by part."""
    for at in range(0, len(root), _PART):
        torch.mm(root[at : at + _PART, at:], rows[at:], out=out[at : at + _PART])
