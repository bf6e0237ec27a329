"""Units for compiled loops over columns: powers of two, in which squares neither overflow nor vanish."""

from __future__ import annotations

import math

import numpy as np

from droptics.arrays import Array
from droptics.compiling import njit


@njit(inline="always")
def unit_power(largest: float, most: int) -> float:
    """The power of two that brings a number into [1/2, 1), at most 2^most; one for zero. It rounds nothing."""
    return math.ldexp(1.0, min(-math.frexp(largest)[1], most))


@njit(inline="always")
def unit_of_squares(largest: float) -> float:
    """A unit in which the square of a number neither overflows nor vanishes; one for nearly all."""
    return 1.0 if 1e-70 < largest < 1e70 else unit_power(largest, 1000)


@njit()
def multiply(columns: Array, size: int, unit: float) -> None:
    """The first `size` entries of every row in another unit, in place; the unit one takes no time."""
    if unit == 1.0:
        return
    for j in range(columns.shape[0]):
        for i in range(size):
            columns[j, i] *= unit


@njit()
def enlarged(columns: Array, size: int, norms: Array) -> float:
    """Bring rows whose squared `norms` are next to nothing to entries of about one, in place; returns the unit.

    The norms are then those of the larger rows. Below a level at which squares lose digits in the precision of the
    entries; else nothing is done, and the unit is one. In single precision powers of two end at 2^127.
    """
    single = columns.itemsize == 4
    if not norms.sum() < (1e-30 if single else 1e-290):  # NaN is not small
        return 1.0
    largest = 0.0
    for j in range(columns.shape[0]):
        for i in range(size):
            largest = max(largest, abs(columns[j, i]))
    unit = unit_power(largest, 120 if single else 1000)
    multiply(columns, size, unit)
    for j in range(columns.shape[0]):
        norms[j] = np.square(columns[j, :size]).sum()
    return unit
