"""DropConnect: masks on the weights of the first layer instead of the hidden units."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from droptics.models.model import LinearModel, check_multipliers
from droptics.models.two_layer import Factors


@dataclass(frozen=True, eq=False)
class Connections(Factors, LinearModel):
    """x -> U (Z o V)^T x: DropConnect on V (inputs, width); unit (i, k) stands at index i * width + k of a mask."""

    @property
    def units(self) -> int:
        return self.input_size * self.width

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        if multipliers is None:
            return inputs @ self.V @ self.U.mT
        check_multipliers(multipliers, self.units)
        V = self.V if multipliers.ndim == 1 else self.V.unsqueeze(-3)
        masked = multipliers.unflatten(-1, (self.input_size, self.width)) * V
        if multipliers.ndim == 1:
            hidden = inputs @ masked
        elif multipliers.shape[-2] == 1:  # one mask for all examples: a plain product, nothing is expanded
            hidden = inputs @ masked.squeeze(-3)
        else:
            hidden = (inputs.unsqueeze(-2) @ masked).squeeze(-2)
        return hidden @ self.U.mT
