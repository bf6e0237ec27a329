"""Independent units of one rate: the squared nuclear norm, a soft threshold, equalized factors (mianjy2018-thm3.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.linalg import equalize_columns
from droptics.linalg.rotations import equalize_rows_
from droptics.linalg.shrinkage import threshold
from droptics.spectra.unequal_rates import UnequalRates
from droptics.transforms import wants_derivative


@dataclass(frozen=True, eq=False)
class OneRate(UnequalRates):
    """Independent units of one rate lambda: (lambda / width) ||A||_*^2, shared equally by all units.

    Attributes:
        rate: lambda, the entry that all of `strengths` are up to rounding.
    """

    rate: float
    claim: ClassVar[str] = "mianjy2018-thm3.6"
    words: ClassVar[str] = "closed form (squared nuclear norm)"

    @property
    def tied(self) -> OneRate:
        return TiedOneRate(self.strengths, self.rate)

    @property
    def one_rate(self) -> float:
        return self.rate

    @property
    def nuclear(self) -> Tensor:
        return self.strengths.mean(-1) / self.size  # their harmonic sum, and its derivative, where all are equal

    def value(self, spectrum: Tensor) -> Tensor:
        return self.envelope(spectrum)

    def envelope(self, spectrum: Tensor) -> Tensor:
        share = self.nuclear.to(spectrum) if wants_derivative(self.strengths) else self.rate / self.size
        return share * spectrum.sum(-1).square()

    def shrink(self, values: Tensor) -> tuple[Tensor, float]:
        shrunk, cost = self.shrink_array(values.numpy())
        return torch.from_numpy(shrunk), cost

    def shrink_array(self, values: Array) -> tuple[Array, float]:
        rank, level = threshold(values, self.rate, self.size)
        shrunk = values[:rank] - level
        return shrunk, self.rate / self.size * float(shrunk.sum()) ** 2

    def spread(self, left: Tensor, values: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """All columns of both factors get the same norm (mianjy2018-alg3)."""
        if left.device.type != "cpu":
            roots, padding = values.sqrt(), (0, self.size - len(values))
            U, H = equalize_columns(*(torch.nn.functional.pad(part * roots, padding) for part in (left, right)))
            return U, H
        U, H = map(torch.from_numpy, self.spread_arrays(*(part.detach().numpy() for part in (left, values, right))))
        return U, H

    def spread_arrays(self, left: Array, values: Array, right: Array) -> tuple[Array, Array]:
        """One unit after the other in memory, as the rotations want them."""
        rank, rows = len(values), len(left)
        columns, roots = np.zeros((self.size, rows + len(right)), left.dtype), np.sqrt(values)[:, None]
        np.multiply(left.T, roots, out=columns[:rank, :rows])
        np.multiply(right.T, roots, out=columns[:rank, rows:])
        equalize_rows_(columns, rows)
        return columns[:, :rows].T, columns[:, rows:].T

    def equalize_tied(self, columns: Tensor) -> Tensor:
        """Of a batch too, by a rotation that needs no spectrum."""
        return equalize_columns(columns)[0]


@dataclass(frozen=True, eq=False)
class TiedOneRate(OneRate):
    """The same for tied networks, whose proof is another one."""

    claim: ClassVar[str] = "mianjy2018-thm2.4"
