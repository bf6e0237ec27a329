"""Stacked: laws of equal size, one for each of several runs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from droptics.masks.law import MaskLaw


class Stacked(MaskLaw):
    """Laws of equal size side by side, one per run: moments carry a leading dimension, penalties broadcast over it."""

    def __init__(self, members: Sequence[MaskLaw]) -> None:
        self._members = tuple(members)

    @property
    def size(self) -> int:
        return self._members[0].size

    @property
    def mean(self) -> Tensor:
        return torch.stack([law.mean for law in self._members])

    @property
    def covariance(self) -> Tensor:
        return torch.stack([law.covariance for law in self._members])

    @property
    def independent(self) -> bool:
        return all(law.independent for law in self._members)

    @property
    def characteristic(self) -> Tensor:
        return torch.stack([law.characteristic for law in self._members])

    @property
    def relative_variance(self) -> Tensor:
        return torch.stack([law.relative_variance for law in self._members])

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        raise ValueError("each run draws from its own law; sample from one of them")
