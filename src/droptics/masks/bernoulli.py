"""Bernoulli: ordinary dropout, every unit falls by its own coin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from droptics.arguments import Count, check_arguments
from droptics.checks import as_drop, as_number, check_size
from droptics.masks.correlations import check_dense
from droptics.masks.law import CoinLaw


@dataclass(frozen=True, eq=False)
class Bernoulli(CoinLaw):
    """Independent units; unit i is dropped with probability drop (a number, or a tensor with one entry per unit).

    The characteristic matrix is diagonal with lambda = drop / (1 - drop). `drop` may require gradients.

    >>> Bernoulli(drop=0.5, size=2).characteristic
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """

    drop: Tensor
    _rate: ClassVar[float | None] = None  # where the rate is a number, so is what follows from it

    def __init__(self, drop: float | Tensor, size: Count) -> None:
        check_arguments(Bernoulli.__init__, locals())
        value = as_drop(drop)
        if value.ndim:
            check_size("drop", value.numel(), size, "one rate per unit")
            value = value.reshape(-1)
        object.__setattr__(self, "drop", value.expand(size))
        object.__setattr__(self, "_rate", as_number(drop))

    @property
    def size(self) -> int:
        return self.drop.shape[0]

    @property
    def mean(self) -> Tensor:
        return 1 - self.drop if self._rate is None else self._shared(1 - self._rate)

    @property
    def covariance(self) -> Tensor:
        check_dense(self.size)
        return torch.diag(self.drop * (1 - self.drop))

    @property
    def independent(self) -> bool:
        return True

    @property
    def characteristic(self) -> Tensor:
        check_dense(self.size)
        return torch.diag(self.relative_variance)

    @property
    def common_strength(self) -> float | None:
        return None if self._rate is None else self._rate / (1 - self._rate)

    @property
    def relative_variance(self) -> Tensor:
        if self._rate is None:
            return self.drop / (1 - self.drop)
        return self._shared(self._rate / (1 - self._rate))

    def _shared(self, value: float) -> Tensor:
        return self.drop.new_full((self.size,), value)

    @property
    def coin_drop(self) -> Tensor:
        return self.drop
