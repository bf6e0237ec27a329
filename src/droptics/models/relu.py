"""ReLU networks with masks on the inputs and on every hidden layer."""

from __future__ import annotations

import itertools
import math
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
            check_size(f"biases[{i}]", value.shape[-1], layer.shape[-2], f"the rows of weights[{i}]")
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


def rescale_layers(model: ReLUNet, factors: Sequence[float]) -> ReLUNet:
    """Layer j times factors[j] > 0, its bias times the product of the factors so far (helmbold2017-thm5).

    Every masked output is multiplied by the product of all factors, so that factors of product one leave the
    dropout criterion as it is, whatever they do to the size of the weights.
    """
    check_size("factors", len(factors), len(model.weights), "one factor per layer")
    if not all(math.isfinite(factor) and factor > 0 for factor in factors):
        raise ValueError(f"factors must be positive: a ReLU only commutes with those, got {list(factors)}")
    products = itertools.accumulate(factors, lambda a, b: a * b)
    return ReLUNet(
        [factor * weight for factor, weight in zip(factors, model.weights, strict=True)],
        [product * bias for product, bias in zip(products, model.biases, strict=True)],
    )


def rescale_inputs(model: ReLUNet, factors: Tensor) -> ReLUNet:
    """The network that does to factors * x what this one does to x, under every mask (helmbold2017-thm4).

    The columns of the first weights are divided by the factors, which must not be zero and may be negative.
    """
    scale = as_float_tensor(factors, "factors", 1)
    check_size("factors", len(scale), model.input_size, "one factor per input")
    if bool((scale == 0).any()):
        raise ValueError("factors must not be zero: an input that is erased cannot be restored by its weights")
    return ReLUNet([model.weights[0] / scale, *model.weights[1:]], model.biases)


def rescale_outputs(model: ReLUNet, factor: float) -> ReLUNet:
    """Every masked output times the factor: last weights and bias scaled (helmbold2017-thm6)."""
    if not math.isfinite(factor):
        raise ValueError(f"factor must be finite, got {factor}")
    return ReLUNet([*model.weights[:-1], factor * model.weights[-1]], [*model.biases[:-1], factor * model.biases[-1]])


def supermodular_slack(model: ReLUNet, points: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """f(x) + f(x + s + t) - f(x + s) - f(x + t) for steps s, t >= 0, one row per triple (helmbold2017-def11).

    Non-negative for every triple when all weights are non-negative (helmbold2017-lem12); a negative entry proves
    that the network computes something no network with non-negative weights can.
    """
    if bool((first < 0).any()) or bool((second < 0).any()):
        raise ValueError("first and second must be steps with non-negative entries")
    ends = model.outputs(points) + model.outputs(points + first + second)
    return ends - model.outputs(points + first) - model.outputs(points + second)
