"""Two-layer linear networks, untied and tied."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.checks import as_float_tensor, check_same_kind, check_size
from droptics.models.model import LinearModel, check_multipliers


@dataclass(frozen=True, eq=False)
class TwoLayerLinear(LinearModel):
    """x -> U diag(z) V^T x with U (outputs, width), V (inputs, width); leading dimensions are a batch of networks."""

    U: Tensor
    V: Tensor

    def __post_init__(self) -> None:
        U = as_float_tensor(self.U, "U")
        V = as_float_tensor(self.V, "V")
        for name, value in (("U", U), ("V", V)):
            if value.ndim < 2 or 0 in value.shape:
                raise ValueError(f"{name} must be a matrix (features, width), got shape {tuple(value.shape)}")
        check_size("V (columns)", V.shape[-1], U.shape[-1], "U and V have one column per hidden unit")
        check_same_kind({"U": U, "V": V})
        object.__setattr__(self, "U", U)
        object.__setattr__(self, "V", V)

    @property
    def units(self) -> int:
        return self.U.shape[-1]

    @property
    def input_size(self) -> int:
        return self.V.shape[-2]

    @property
    def output_size(self) -> int:
        return self.U.shape[-2]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.U, self.V

    @property
    def batch_shape(self) -> torch.Size:
        return torch.broadcast_shapes(self.U.shape[:-2], self.V.shape[:-2])

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        hidden = inputs @ self.V
        if multipliers is not None:
            check_multipliers(multipliers, self.units)
            hidden = hidden * multipliers
        return hidden @ self.U.mT

    def matrix(self) -> Tensor:
        return self.U @ self.V.mT


@dataclass(frozen=True, eq=False)
class Autoencoder(LinearModel):
    """The tied network x -> U diag(z) U^T x with U (features, width)."""

    U: Tensor

    def __post_init__(self) -> None:
        U = as_float_tensor(self.U, "U")
        if U.ndim < 2 or 0 in U.shape:
            raise ValueError(f"U must be a matrix (features, width), got shape {tuple(U.shape)}")
        object.__setattr__(self, "U", U)

    @property
    def untied(self) -> TwoLayerLinear:
        """The same map as a two-layer network with both layers equal to U."""
        return TwoLayerLinear(self.U, self.U)

    @property
    def units(self) -> int:
        return self.U.shape[-1]

    @property
    def input_size(self) -> int:
        return self.U.shape[-2]

    @property
    def output_size(self) -> int:
        return self.U.shape[-2]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.U,)

    @property
    def batch_shape(self) -> torch.Size:
        return self.U.shape[:-2]

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        return self.untied.outputs(inputs, multipliers)

    def matrix(self) -> Tensor:
        return self.U @ self.U.mT
