"""Exact gradients of risk + penalty for linear networks of any depth, by second moments instead of sampled masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

from droptics.data import Data, Moments
from droptics.masks import MaskLaw
from droptics.masks.correlations import WIDE
from droptics.models import Autoencoder, DeepLinear, Model, TwoLayerLinear
from droptics.penalties.deep_linear import layer_laws

Gradients = Callable[[Sequence[Any]], tuple[Any, list[Any]]]


@singledispatch
def gradient_rule(model: Model, data: Data, masks: MaskLaw | None) -> Gradients | None:
    """A function from the tensors of a model to risk + penalty and its exact gradients in them, for squared loss.

    It takes and gives what `arrays` makes of tensors. None leaves them to automatic differentiation, which any family
    with a closed form has.
    """
    return None


@gradient_rule.register
def _(model: DeepLinear, data: Data, masks: MaskLaw | None) -> Gradients:
    moments = Moments.of(data)
    laws = [None] * len(model.weights) if masks is None else layer_laws(model, masks)
    noises = [layer_noise(law, model.weights[0]) for law in laws]
    return deep_gradients(moments, noises if masks is None or model.mask_inputs else [None, *noises])


@gradient_rule.register
def _(model: TwoLayerLinear, data: Data, masks: MaskLaw | None) -> Gradients | None:
    if model.units > WIDE:  # the penalty asks for fewer pairs of units than the formulas below
        return None
    rule = deep_gradients(Moments.of(data), [None, layer_noise(masks, model.U)])

    def untied(tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
        U, V = tensors
        value, (first, second) = rule([_t(V), U])
        return value, [second, _t(first)]

    return untied


@gradient_rule.register
def _(model: Autoencoder, data: Data, masks: MaskLaw | None) -> Gradients | None:
    untied = gradient_rule(model.untied, data, masks)
    if untied is None:
        return None

    def tied(tensors: Sequence[Any]) -> tuple[Any, list[Any]]:
        value, (outgoing, incoming) = untied([tensors[0], tensors[0]])
        return value, [outgoing + incoming]

    return tied


def layer_noise(law: MaskLaw | None, like: Tensor) -> Tensor | None:
    """1 1^T + Cbar of a masked layer, what its second moment is multiplied by entry by entry; None without masks."""
    return None if law is None else 1 + law.characteristic.detach().to(like)


def deep_gradients(moments: Moments, noises: Sequence[Tensor | None]) -> Gradients:
    """Risk + penalty and its gradients in all weights; noises[i] acts on what weights[i] takes in (thesis-prop8).

    Forward: A_i = W_i S_{i-1} W_i^T, S_i = A_i o (1 1^T + Cbar_i). Backward: T_k = W_{k+1}^T W_{k+1},
    Abar_i = T_i o (1 1^T + Cbar_i), dW_i = 2 Abar_i W_i S_{i-1} + data term, T_{i-1} = W_i^T Abar_i W_i.
    Gradient descent with it is dropout training without noise. O(depth width^3), no graph; leading dimensions are runs.
    """
    xx, yx, constant = arrays([moments.xx, moments.yx, torch.trace(moments.yy)])
    scales = [None if noise is None else arrays([noise])[0] for noise in noises]
    return lambda weights: _gradients(weights, xx, yx, constant, scales)


def arrays(tensors: Sequence[Tensor]) -> list[Any]:
    """Tensors as exact gradients take them: on a CPU NumPy arrays of the same memory, elsewhere tensors.

    NumPy takes a half to a third of torch's time for stacks of small products.
    """
    return [tensor.detach().numpy() if tensor.device.type == "cpu" else tensor.detach() for tensor in tensors]


def _gradients(weights: Sequence[Any], xx: Any, yx: Any, constant: Any, noises: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The two passes, written for what torch tensors and NumPy arrays have in common."""
    second = xx if noises[0] is None else xx * noises[0]  # S_{i-1} after its mask
    prefixes: list[Any] = []  # products W_i ... W_1
    halves: list[Any] = []  # W_i S_{i-1}
    for i, weight in enumerate(weights):
        halves.append(weight @ second)
        if i + 1 < len(weights):
            second = halves[-1] @ _t(weight)
            second = second if noises[i + 1] is None else second * noises[i + 1]
            prefixes.append(weight if not prefixes else weight @ prefixes[-1])
    last = weights[-1]
    cross = yx @ _t(prefixes[-1])  # E y h^T for the last hidden layer h
    gradients = [2 * (halves[-1] - cross)]
    value = constant + ((halves[-1] - 2 * cross) * last).sum((-2, -1))
    suffix = _t(last) @ yx
    back = _t(last) @ last
    for i in range(len(weights) - 2, -1, -1):
        back = back if noises[i + 1] is None else back * noises[i + 1]
        data_term = suffix if i == 0 else suffix @ _t(prefixes[i - 1])
        gradients.append(2 * (back @ halves[i] - data_term))
        if i:
            suffix = _t(weights[i]) @ suffix
            back = _t(weights[i]) @ back @ weights[i]
    return value, gradients[::-1]


def _t(matrix: Any) -> Any:
    return matrix.swapaxes(-1, -2)
