"""Gaussian: multiplicative normal noise with mean one."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.arguments import Count, check_arguments
from droptics.checks import as_float_tensor, check_size
from droptics.masks.correlations import check_dense
from droptics.masks.law import MaskLaw


@dataclass(frozen=True, eq=False)
class Gaussian(MaskLaw):
    """Independent units multiplied by N(1, variance); variance is a number or one entry per unit.

    With variance = drop / (1 - drop) every penalty of two moments is that of `Bernoulli(drop, size)`.
    """

    variance: Tensor
    independent = True

    def __init__(self, variance: float | Tensor, size: Count) -> None:
        check_arguments(Gaussian.__init__, locals())
        value = as_float_tensor(float(variance) if not isinstance(variance, Tensor) else variance, "variance").double()
        if bool((value < 0).any()):
            raise ValueError(f"variance must be non-negative, got {value.tolist()}")
        if value.ndim:
            check_size("variance", value.numel(), size, "one variance per unit")
        object.__setattr__(self, "variance", value.reshape(-1).expand(size))

    @property
    def size(self) -> int:
        return self.variance.shape[0]

    @property
    def mean(self) -> Tensor:
        return torch.ones_like(self.variance)

    @property
    def covariance(self) -> Tensor:
        check_dense(self.size)
        return torch.diag(self.variance)

    @property
    def relative_variance(self) -> Tensor:
        return self.variance

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        noise = torch.randn(count, self.size, dtype=torch.float64, device=generator.device, generator=generator)
        return 1 + noise * self.variance.detach().sqrt().to(noise)
