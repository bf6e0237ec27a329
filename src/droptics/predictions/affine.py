r"""Outputs that are affine in one mask: their exact mean, variance and covariance, example by example.

f(x; z) = f(x; 0) + sum_j z_j g_j(x) with E z = 1 has mean f(x; 1) and Cov f(x) = sum_ij Cbar_ij g_i(x) g_j(x)^T
(droptics-predictive). Only the mask law's characteristic matrix enters, as in the penalty, which is the trace averaged
over examples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.arguments import Floats, checked_fields
from droptics.masks import MaskLaw
from droptics.penalties import UnitOutputs
from droptics.penalties.evaluation import CHUNK_ELEMENTS


@dataclass(frozen=True, eq=False)
@checked_fields
class Affine:
    """Outputs center + sum_j (z_j - 1) g_j under the masks of a law; leading dimensions are a batch.

    Attributes:
        center: Outputs at z = 1, their mean, (..., examples, outputs).
        units: What the units add; None where no mask is left, so that the outputs are certain.
        law: The law of z, of as many units.
    """

    center: Floats
    units: UnitOutputs | None
    law: MaskLaw | None

    def variance(self) -> Tensor:
        """Diagonal of `covariance`, (..., examples, outputs), at the cost of `MaskLaw.variances`."""
        if self.units is None or self.law is None:
            return torch.zeros_like(self.center)
        return _by_examples(self.units, self.law.variances)

    def covariance(self) -> Tensor:
        """Covariance of the outputs of every example, (..., examples, outputs, outputs)."""
        if self.units is None or self.law is None:
            return torch.diag_embed(torch.zeros_like(self.center))
        return _by_examples(self.units, self.law.covariances)


def _by_examples(units: UnitOutputs, call: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """A function of features and heads, some examples at a time; joined again."""
    features, head = units
    examples = features.shape[-2]
    size = head.shape[-2] * features.shape[-1] * max(features.shape[:-2].numel(), head.shape[:-3].numel(), 1)
    step = max(1, CHUNK_ELEMENTS // max(size, 1))
    if examples <= step:
        return call(features, head)
    parts = []
    for start in range(0, examples, step):
        own = head if head.shape[-3] == 1 else head[..., start : start + step, :, :]
        parts.append(call(features[..., start : start + step, :], own))
    # the examples come right after the leading dimensions, whatever the call leaves behind them
    return torch.cat(parts, dim=max(features.ndim - 2, head.ndim - 3))
