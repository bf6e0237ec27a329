"""How far ratings of any size and offset extend, and the unit in which they are fitted."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Extent:
    """Least and largest rating, and the sum of their differences to the first one: a mean that no offset spoils."""

    low: float = math.inf
    high: float = -math.inf
    first: float = 0.0
    sum: float = 0.0

    def with_chunk(self, values: NDArray[np.float64]) -> Extent:
        if not len(values):
            return self
        first = float(values[0]) if self.low > self.high else self.first
        with np.errstate(over="ignore"):
            more = self.sum + float((values - first).sum())
        return Extent(min(self.low, float(values.min())), max(self.high, float(values.max())), first, more)

    def mean(self, count: int) -> float:
        return self.first + self.sum / count


def unit(found: Extent, middle: float, dtype: Any) -> float:
    """1 for ratings within 1000 of their mean and not all within 1/1000, else a power of two near the largest.

    Squares and fourth powers of what is fitted then stay within the range of `dtype`.
    """
    limits, largest = np.finfo(dtype), max(found.high - middle, middle - found.low)
    if largest == 0 or 2.0**-10 <= largest <= 2.0**10:
        return 1.0
    if not float(limits.tiny) / float(limits.eps) <= largest <= float(limits.max) * float(limits.eps):
        raise ValueError(
            f"ratings differ from their mean by up to {largest:g}, beyond what {np.dtype(dtype)} holds; "
            'pass dtype="float64" or use other units'
        )
    return float(2.0 ** round(math.log2(largest)))
