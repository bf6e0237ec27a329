"""Units of measurement taken out of a matrix before anything about its rank is decided."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.transforms import as_array, is_readable, wants_derivative

# Up to this size a decomposition takes longer to call than to compute.
SMALL = 64


def powers_of_two(values: Tensor) -> Tensor:
    """The power of two in (v, 2 v] for every positive number v, 1 for zero; exact, without gradient."""
    values = values.detach()
    if values.device.type == "cpu" and is_readable(values):
        return torch.from_numpy(np.asarray(powers(as_array(values))))  # of one number NumPy makes no array
    safe = torch.where(values > 0, values, 0.5)
    return safe / torch.frexp(safe).mantissa


def in_own_units(inputs: Tensor) -> tuple[Tensor, Tensor]:
    """The columns divided by the power of two above their largest entry, so that no square underflows; these powers."""
    units = powers_of_two(inputs.abs().amax(0))
    return inputs / units, units


def powers(numbers: Array) -> Array:
    """`powers_of_two` of an array of NumPy."""
    # the exponent of zero is zero; of one number NumPy returns no array
    return np.asarray(np.ldexp(numbers.dtype.type(1), np.frexp(numbers)[1]))


def equilibrate(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """C and units s with matrix = diag(s) C diag(s): C has a diagonal in [1/4, 1], and zeros where the matrix has.

    The units are powers of two, so that nothing is rounded, C does not change when a feature is measured in units that
    differ by a power of two, and its rank can be decided by one level for all features. Differentiable, the units
    taken as constant; leading dimensions are a batch.
    """
    diagonal = torch.diagonal(matrix.detach(), dim1=-2, dim2=-1).clamp_min(0)
    units = powers_of_two(diagonal.sqrt())
    return matrix / units.unsqueeze(-1) / units.unsqueeze(-2), units


def equilibrated(matrix: Array) -> tuple[Array, Array]:
    """`equilibrate` of one matrix of numbers in NumPy, whose small calls are several times cheaper."""
    units = powers(np.sqrt(np.maximum(matrix.diagonal(), 0)))
    return matrix / units[:, None] / units, units


def least_singular(size: int) -> float:
    """Singular values of so many features in their own units that are not above this may be rounding, in float64."""
    return 16 * (size + 4) * torch.finfo(torch.float64).eps


def is_small(matrix: Tensor) -> bool:
    """Whether this is one matrix of numbers on the CPU that NumPy decomposes in less than a call of torch takes."""
    return (
        matrix.ndim == 2 and max(matrix.shape) <= SMALL and matrix.device.type == "cpu" and not wants_derivative(matrix)
    )


def is_diagonal(matrix: Tensor) -> bool:
    """Whether everything beside the diagonal of a matrix is exactly zero."""
    if matrix.device.type != "cpu":
        return bool(torch.count_nonzero(matrix) == torch.count_nonzero(matrix.diagonal()))
    entries = as_array(matrix)
    return np.count_nonzero(entries) == np.count_nonzero(entries.diagonal())


def scaled_eigen(moment: Tensor) -> tuple[Any, Any, Any]:
    """Eigenvalues (ascending), eigenvectors and units of `equilibrate(moment)`, without derivative.

    Of small matrices they are arrays of NumPy, whose calls are several times cheaper; tensors otherwise.
    """
    if moment.device.type != "cpu" or len(moment) > SMALL:
        scaled, units = equilibrate(moment.detach())
        return *torch.linalg.eigh(scaled), units
    small, sizes = equilibrated(as_array(moment))
    # what numpy.linalg.eigh calls, at a third of its time
    values, vectors, failed = scipy.linalg.lapack.dsyevd(small, lower=1)
    return (*np.linalg.eigh(small), sizes) if failed else (values, vectors, sizes)
