"""Independent units of unequal rates: shares by majorization (droptics-unequal-rates)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from droptics.linalg import allocate, shrink_unequal
from droptics.linalg.rotations import rotate_to_diagonal
from droptics.spectra.actions import Action, harmonic


@dataclass(frozen=True, eq=False)
class UnequalRates(Action):
    """Independent units: unit i that contributes a term of norm n_i costs strengths_i n_i^2.

    The norms of the terms of a factorization are what the singular values majorize, so that the least penalty is
    sum_i strengths_i n_i^2 over such n (`linalg.allocate`), and a Schur-Horn rotation attains it.

    Attributes:
        strengths: Relative variance of every unit, (units,).
    """

    strengths: Tensor
    claim: ClassVar[str] = "droptics-unequal-rates"
    words: ClassVar[str] = "closed form (shares by majorization)"

    @property
    def size(self) -> int:
        return self.strengths.shape[-1]

    @property
    def nuclear(self) -> Tensor:
        return harmonic(self.strengths)

    @property
    def tied(self) -> UnequalRates:
        return self

    @property
    def least_rate(self) -> float:
        return float(self.strengths.min())

    @property
    def cutoff(self) -> Callable[[Tensor, Tensor], float]:
        return self._threshold

    def _threshold(self, values: Tensor, kept: Tensor) -> float:
        """The threshold, or the last kept value when the width is used up; a margin of rounding below."""
        rank = len(kept)
        if rank == 0:
            return float(values[0])
        lowest = float(values[rank - 1])
        if rank == self.size:
            return lowest * (1 - 1e-6)
        return min(lowest, lowest - float(kept[-1])) * (1 - 1e-9)

    def value(self, spectrum: Tensor) -> Tensor:
        strengths = self.strengths.to(spectrum)
        rows = spectrum.reshape(spectrum.shape[:-1].numel(), spectrum.shape[-1])
        costs = [(strengths * allocate(row, strengths).square()).sum() for row in rows]
        return torch.stack(costs).reshape(spectrum.shape[:-1])

    def envelope(self, spectrum: Tensor) -> Tensor:
        """By Cauchy-Schwarz sum strengths n^2 >= nuclear (sum n)^2, and (sum n) is the nuclear norm at least."""
        return self.nuclear.to(spectrum) * spectrum.sum(-1).square()

    def shrink(self, values: Tensor) -> tuple[Tensor, float]:
        strengths = self.strengths.detach().cpu()
        shrunk, shares = shrink_unequal(values, strengths)
        return shrunk, float(strengths @ shares.square())

    def spread(self, left: Tensor, values: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        """Both factors have the Gram matrix of left diag(sqrt values), so one rotation serves both."""
        padded = torch.cat([values, values.new_zeros(self.size - len(values))])
        stacked = left.new_zeros(len(left) + len(right), self.size)
        stacked[:, : len(values)] = torch.cat([left, right]) * values.sqrt()
        stacked = rotate_to_diagonal(padded, allocate(values, self.strengths.to(values)), stacked)
        return stacked[: len(left)], stacked[len(left) :]
