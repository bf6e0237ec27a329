"""Models of a matrix U V^T: two-layer linear networks, untied and tied, DropConnect and matrix factorization."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from torch import Tensor

from droptics.checks import as_float_tensor, check_same_kind, check_size
from droptics.models.model import LinearModel, Model, check_multipliers, masked


@dataclass(frozen=True, eq=False)
class Factors(Model):
    """What models of the matrix U V^T share, U (outputs, width) and V (inputs, width), whatever their masks fall on."""

    U: Tensor
    V: Tensor

    def __post_init__(self) -> None:
        U, V = check_factors(U=self.U, V=self.V)
        object.__setattr__(self, "U", U)
        object.__setattr__(self, "V", V)

    @classmethod
    def computed(cls, U: Tensor, V: Tensor) -> Self:
        """The model of factors that are known to be finite and to fit together: nothing is looked at again."""
        model = object.__new__(cls)
        vars(model).update(U=U, V=V)
        return model

    @property
    def units(self) -> int:
        return self.width

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.U, self.V

    @property
    def batch_shape(self) -> torch.Size:
        return torch.Size(np.broadcast_shapes(self.U.shape[:-2], self.V.shape[:-2]))  # torch's loads SymPy

    @property
    def width(self) -> int:
        """Number of hidden units."""
        return self.U.shape[-1]

    @property
    def input_size(self) -> int:
        """Number of rows of V."""
        return self.V.shape[-2]

    @property
    def output_size(self) -> int:
        """Number of rows of U."""
        return self.U.shape[-2]

    def matrix(self) -> Tensor:
        """U V^T, (..., outputs, inputs)."""
        return self.U @ self.V.mT


@dataclass(frozen=True, eq=False)
class TwoLayerLinear(Factors, LinearModel):
    """x -> U diag(z) V^T x with U (outputs, width), V (inputs, width); leading dimensions are a batch of networks."""

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        return masked(inputs @ self.V, multipliers, self.units) @ self.U.mT


@dataclass(frozen=True, eq=False)
class Autoencoder(LinearModel):
    """The tied network x -> U diag(z) U^T x with U (features, width)."""

    U: Tensor

    def __post_init__(self) -> None:
        object.__setattr__(self, "U", check_factors(U=self.U)[0])

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

    output_size = input_size

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


@dataclass(frozen=True, eq=False)
class Factorization(Factors):
    """The matrix U diag(z) V^T with U (rows, width) and V (columns, width).

    `outputs` takes index pairs (n, 2) of whole numbers, or measurement matrices (n, rows, columns), and returns one
    output column: the entries, or the inner products with the measurement matrices.
    """

    @property
    def shape(self) -> tuple[int, int]:
        """Shape of the matrix."""
        return self.output_size, self.input_size

    def unit_outputs(self, inputs: Tensor) -> Tensor:
        """What each unit contributes to each observation, (..., n, width)."""
        if not inputs.is_floating_point():
            return self.U[..., inputs[:, 0].long(), :] * self.V[..., inputs[:, 1].long(), :]
        return ((inputs @ self.V.unsqueeze(-3)) * self.U.unsqueeze(-3)).sum(-2)

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        return masked(self.unit_outputs(inputs), multipliers, self.units).sum(-1, keepdim=True)


def check_factors(**factors: Tensor) -> tuple[Tensor, ...]:
    """Check matrices (features, width) that share their hidden units: one column for each of them."""
    checked = {name: as_float_tensor(value, name) for name, value in factors.items()}
    first, *_ = checked
    for name, value in checked.items():
        if value.ndim < 2 or 0 in value.shape:
            raise ValueError(f"{name} must be a matrix (features, width), got shape {tuple(value.shape)}")
        width = checked[first].shape[-1]
        check_size(f"{name} (columns)", value.shape[-1], width, f"{first} and {name} have one column per hidden unit")
    check_same_kind(checked)
    return tuple(checked.values())
