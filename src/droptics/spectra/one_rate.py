"""Independent units of one rate: the squared nuclear norm, a soft threshold, equalized factors (mianjy2018-thm3.6)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

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
        ordered = values.numpy()
        rank, level = threshold(ordered, self.rate, self.size)
        shrunk = ordered[:rank] - level
        return torch.from_numpy(shrunk), self.rate / self.size * float(shrunk.sum()) ** 2

    def spread(self, left: Tensor, values: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """All columns of both factors get the same norm (mianjy2018-alg3)."""
        rank, rows = len(values), len(left)
        if left.device.type != "cpu":
            roots, padding = values.sqrt(), (0, self.size - rank)
            U, H = equalize_columns(*(torch.nn.functional.pad(part * roots, padding) for part in (left, right)))
            return U, H
        # one unit after the other in memory, as the rotations want them; in NumPy, whose small calls are cheaper
        first, second, sizes = (part.detach().numpy() for part in (left, right, values))
        columns, roots = np.zeros((self.size, rows + len(second)), first.dtype), np.sqrt(sizes)[:, None]
        np.multiply(first.T, roots, out=columns[:rank, :rows])
        np.multiply(second.T, roots, out=columns[:rank, rows:])
        stacked = torch.from_numpy(columns)
        equalize_rows_(stacked, rows)
        return stacked[:, :rows].mT, stacked[:, rows:].mT

    def equalize_tied(self, columns: Tensor) -> Tensor:
        """Of a batch too, by a rotation that needs no spectrum."""
        return equalize_columns(columns)[0]


@dataclass(frozen=True, eq=False)
class TiedOneRate(OneRate):
    """The same for tied networks, whose proof is another one."""

    claim: ClassVar[str] = "mianjy2018-thm2.4"
