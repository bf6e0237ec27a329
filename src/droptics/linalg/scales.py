"""Units of measurement taken out of a matrix before anything about its rank is decided."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.checks import as_array, is_readable

# Up to this size a decomposition takes longer to call than to compute.
SMALL = 64


def powers_of_two(values: Tensor) -> Tensor:
    """The power of two in (v, 2 v] for every positive number v, 1 for zero; exact, without gradient."""
    values = values.detach()
    if values.device.type == "cpu" and is_readable(values):
        return torch.from_numpy(_powers(as_array(values)))
    positive = values > 0
    safe = torch.where(positive, values, torch.ones_like(values))
    mantissa, _ = torch.frexp(safe)
    return torch.where(positive, safe / mantissa, torch.ones_like(values))


def _powers(numbers: Array) -> Array:
    one = numbers.dtype.type(1)
    return np.where(numbers > 0, np.ldexp(one, np.frexp(numbers)[1]), one)


def equilibrate(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """C and units s with matrix = diag(s) C diag(s): C has a diagonal in [1/4, 1], and zeros where the matrix has.

    The units are powers of two, so that nothing is rounded, C does not change when a feature is measured in units that
    differ by a power of two, and its rank can be decided by one level for all features. Differentiable, the units
    taken as constant; leading dimensions are a batch.
    """
    diagonal = torch.diagonal(matrix.detach(), dim1=-2, dim2=-1).clamp_min(0)
    units = powers_of_two(diagonal.sqrt())
    return matrix / units.unsqueeze(-1) / units.unsqueeze(-2), units


def scaled_eigen(moment: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Eigenvalues (ascending), eigenvectors and units of `equilibrate(moment)`, without derivative.

    Small matrices are worked out in NumPy, whose calls are several times cheaper.
    """
    if moment.device.type != "cpu" or len(moment) > SMALL:
        scaled, units = equilibrate(moment.detach())
        return *torch.linalg.eigh(scaled), units
    matrix = as_array(moment)
    sizes = _powers(np.sqrt(matrix.diagonal().clip(min=0)))
    values, vectors = np.linalg.eigh(matrix / sizes[:, None] / sizes)
    return torch.from_numpy(values), torch.from_numpy(vectors), torch.from_numpy(sizes)
