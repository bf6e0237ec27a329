"""Deep linear networks."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from droptics.arguments import check_arguments
from droptics.checks import check_same_kind
from droptics.models.model import LinearModel, Model, check_multipliers
from droptics.norms import weight_matrices


class Layered(Model):
    """What chains of weights W_i (width_i, width_{i-1}) share, masks on their layers."""

    weights: tuple[Tensor, ...]

    @property
    @abc.abstractmethod
    def layer_units(self) -> tuple[int, ...]:
        """Sizes of the masked layers, in the order in which a mask covers them."""

    @property
    def units(self) -> int:
        return sum(self.layer_units)

    @property
    def input_size(self) -> int:
        """Number of input features."""
        return self.weights[0].shape[-1]

    @property
    def output_size(self) -> int:
        """Number of outputs."""
        return self.weights[-1].shape[-2]

    @property
    def batch_shape(self) -> torch.Size:
        if all(weight.ndim == 2 for weight in self.weights):
            return torch.Size()
        return torch.Size(np.broadcast_shapes(*(weight.shape[:-2] for weight in self.weights)))  # torch's loads SymPy


@dataclass(frozen=True, eq=False)
class DeepLinear(Layered, LinearModel):
    """x -> W_{k+1} diag(z_k) W_k ... diag(z_1) W_1 x with W_i (width_i, width_{i-1}).

    Masks cover the hidden layers in order; with `mask_inputs=True` they cover the inputs first. Leading dimensions of
    the weights are a batch of networks.
    """

    weights: tuple[Tensor, ...]
    mask_inputs: bool = False

    def __init__(self, weights: Sequence[Tensor], mask_inputs: bool = False) -> None:
        check_arguments(DeepLinear.__init__, locals())
        checked = check_layers(weights)
        object.__setattr__(self, "weights", checked)
        object.__setattr__(self, "mask_inputs", bool(mask_inputs))

    @property
    def hidden_sizes(self) -> tuple[int, ...]:
        """Widths of the hidden layers, in order."""
        return tuple(weight.shape[-2] for weight in self.weights[:-1])

    @property
    def layer_units(self) -> tuple[int, ...]:
        return (self.input_size, *self.hidden_sizes) if self.mask_inputs else self.hidden_sizes

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return self.weights

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        masks: list[Tensor | None] = [None] * len(self.weights)
        if multipliers is not None:
            check_multipliers(multipliers, self.units)
            parts = list(multipliers.split(self.layer_units, dim=-1))
            masks = [*parts] if self.mask_inputs else [None, *parts]
        value = inputs
        for weight, mask in zip(self.weights, masks, strict=True):
            value = (value if mask is None else value * mask) @ weight.mT
        return value

    def matrix(self) -> Tensor:
        product = self.weights[0]
        for weight in self.weights[1:]:
            product = weight @ product
        return product


def check_layers(weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Check a chain of weight matrices, each taking what the one before gives."""
    if len(weights) < 2:
        raise ValueError(f"weights must hold at least two layers, got {len(weights)}; one layer has no hidden units")
    checked = weight_matrices(weights)
    check_same_kind({f"weights[{i}]": weight for i, weight in enumerate(checked)})
    return tuple(checked)
