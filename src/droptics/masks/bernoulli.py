"""Bernoulli: ordinary dropout, every unit falls by its own coin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.arguments import Count, check_arguments
from droptics.checks import as_drop, check_positive, check_size
from droptics.masks.law import MaskLaw, check_dense, coin_batches, coins, rarest_side


@dataclass(frozen=True, eq=False)
class Bernoulli(MaskLaw):
    """Independent units; unit i is dropped with probability drop (a number, or a tensor with one entry per unit).

    The characteristic matrix is diagonal with lambda = drop / (1 - drop). `drop` may require gradients.

    >>> Bernoulli(drop=0.5, size=2).characteristic
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """

    drop: Tensor

    def __init__(self, drop: float | Tensor, size: Count) -> None:
        check_arguments(Bernoulli.__init__, locals())
        check_positive("size", size)
        value = as_drop(drop)
        if value.ndim:
            check_size("drop", value.numel(), size, "one rate per unit")
        object.__setattr__(self, "drop", value.reshape(-1).expand(size))

    @property
    def size(self) -> int:
        return self.drop.shape[0]

    @property
    def mean(self) -> Tensor:
        return 1 - self.drop

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
    def relative_variance(self) -> Tensor:
        return self.drop / (1 - self.drop)

    @property
    def bound(self) -> Tensor:
        return 1 / (1 - self.drop)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return coins(self.drop, count, generator)

    @property
    def rarest(self) -> float:
        return rarest_side(self.drop)

    @property
    def support_count(self) -> int:
        return 2 ** int((self.drop > 0).sum())

    def support_batches(self, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        return coin_batches(self.drop, batch)
