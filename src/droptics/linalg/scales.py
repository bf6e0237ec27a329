"""Units of measurement taken out of a matrix before anything about its rank is decided."""

from __future__ import annotations

import torch
from torch import Tensor


def powers_of_two(values: Tensor) -> Tensor:
    """The power of two in (v, 2 v] for every positive number v, 1 for zero; exact, without gradient."""
    values = values.detach()
    positive = values > 0
    safe = torch.where(positive, values, torch.ones_like(values))
    mantissa, _ = torch.frexp(safe)
    return torch.where(positive, safe / mantissa, torch.ones_like(values))


def equilibrate(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """C and units s with matrix = diag(s) C diag(s): C has a diagonal in [1/4, 1], and zeros where the matrix has.

    The units are powers of two, so that nothing is rounded, C does not change when a feature is measured in units that
    differ by a power of two, and its rank can be decided by one level for all features. Differentiable, the units
    taken as constant; leading dimensions are a batch.
    """
    diagonal = torch.diagonal(matrix.detach(), dim1=-2, dim2=-1).clamp_min(0)
    units = powers_of_two(diagonal.sqrt())
    return matrix / units.unsqueeze(-1) / units.unsqueeze(-2), units
