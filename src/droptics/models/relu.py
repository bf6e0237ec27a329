"""ReLU networks with masks on the inputs and on every hidden layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.arguments import check_arguments
from droptics.checks import as_float_tensor, check_same_kind, check_size
from droptics.models.deep_linear import Layered, check_layers
from droptics.models.model import check_multipliers


@dataclass(frozen=True, eq=False)
class ReLUNet(Layered):
    """x -> W_d diag(z) relu(W_{d-1} ... relu(W_1 diag(z) x + b_1) ...) + b_d.

    Masks cover the inputs and then the hidden layers; outputs and biases are never dropped. `biases` may be None
    (no biases) or hold one vector per layer, None for a layer without.
    """

    weights: tuple[Tensor, ...]
    biases: tuple[Tensor, ...]

    def __init__(self, weights: Sequence[Tensor], biases: Sequence[Tensor | None] | None = None) -> None:
        check_arguments(ReLUNet.__init__, locals())
        layers = check_layers(weights)
        given: Sequence[Tensor | None] = [None] * len(layers) if biases is None else biases
        check_size("biases", len(given), len(layers), "one bias per layer")
        checked = []
        for i, (layer, bias) in enumerate(zip(layers, given, strict=True)):
            value = layer.new_zeros(layer.shape[-2]) if bias is None else as_float_tensor(bias, f"biases[{i}]")
            check_size(f"biases[{i}]", value.ndim and value.shape[-1], layer.shape[-2], f"the rows of weights[{i}]")
            checked.append(value)
        check_same_kind({"weights[0]": layers[0]} | {f"biases[{i}]": bias for i, bias in enumerate(checked)})
        object.__setattr__(self, "weights", layers)
        object.__setattr__(self, "biases", tuple(checked))

    @property
    def layer_units(self) -> tuple[int, ...]:
        return tuple(weight.shape[-1] for weight in self.weights)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (*self.weights, *self.biases)

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        masks: Sequence[Tensor | None] = [None] * len(self.weights)
        if multipliers is not None:
            check_multipliers(multipliers, self.units)
            masks = multipliers.split(self.layer_units, dim=-1)
        value = inputs
        for i, (weight, bias, mask) in enumerate(zip(self.weights, self.biases, masks, strict=True)):
            value = (value if mask is None else value * mask) @ weight.mT + bias.unsqueeze(-2)
            if i < len(self.weights) - 1:
                value = torch.relu(value)
        return value
