"""Bernoulli: ordinary dropout, every unit falls by its own coin."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from droptics.arguments import Count, check_arguments
from droptics.masks.law import RatedLaw


@dataclass(frozen=True, eq=False)
class Bernoulli(RatedLaw):
    """Independent units; unit i is dropped with probability drop (a number, or a tensor with one entry per unit).

    The characteristic matrix is diagonal with lambda = drop / (1 - drop). `drop` may require gradients.

    >>> Bernoulli(drop=0.5, size=2).characteristic
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """

    drop: Tensor

    def __init__(self, drop: float | Tensor, size: Count) -> None:
        check_arguments(Bernoulli.__init__, locals())
        self._keep_rates(drop, size, "one rate per unit")
