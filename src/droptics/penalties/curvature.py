"""The mean curvature of a loss in the multipliers of a last layer, as a Gram matrix: no derivative is taken."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.data import Sample, average
from droptics.losses import Loss
from droptics.models import LastLayer
from droptics.penalties.evaluation import CHUNK_ELEMENTS


@dataclass(frozen=True, eq=False)
class LastLayerCurvature:
    """Mean curvature of the loss in the multipliers of a last layer, formed only as far as a law asks for it."""

    model: LastLayer
    sample: Sample
    loss: Loss
    features: Tensor

    def energies(self) -> Tensor:
        """Its diagonal, (units,)."""
        curvatures = self.loss.curvatures(self._outputs(), self.sample.targets, self.model.head.weight)
        return average((self.features.square() * curvatures).mT, self.sample.weights)

    def part(self, rows: slice, columns: slice) -> Tensor:
        """Some of its rows and columns."""
        weight = self.model.head.weight
        hessian = self.loss.hessian(self._outputs(), self.sample.targets) * self.sample.shares[:, None, None]
        step = max(1, CHUNK_ELEMENTS // weight.numel())
        total = weight.new_zeros(())
        for start in range(0, len(self.sample), step):
            some = slice(start, start + step)
            contributions = self.features[some, None, :] * weight
            left, right = contributions[..., rows], hessian[some] @ contributions[..., columns]
            total = total + left.flatten(0, 1).mT @ right.flatten(0, 1)
        return total

    def _outputs(self) -> Tensor:
        return torch.nn.functional.linear(self.features, self.model.head.weight, self.model.head.bias)
