"""How far rounding can move an answer, and how large outputs can be: both from the network of absolute weights.

A sum of products differs, when computed in floating point, from the true one by at most K eps / 2 times the sum of the
absolute values of its products, with K the most roundings that one of them goes through (Higham 2002, section 3). For
the formulas here the absolute values are the same formula of absolute weights and inputs, and by Minkowski's
inequality its root mean square over examples and masks is at most that of one example whose entries are the root mean
squares. So one pass of one example through the network of absolute weights bounds the rounding of all of them. The
bound does not change with the units of single features.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

from droptics.data import Data, Entries, Measurements, Moments, Sample, average
from droptics.linalg.sums import summands
from droptics.losses import Loss, Squared
from droptics.masks import Bernoulli, Gaussian, MaskLaw, Product
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    Model,
    ReLUNet,
    TwoLayerLinear,
)
from droptics.models.deep_linear import Layered


@singledispatch
def output_bound(model: Model, inputs: Tensor, bound: Tensor | None) -> Tensor | None:
    """Largest absolute outputs under multipliers of absolute value <= bound, or None for an unknown family."""
    return None


def _with(model: Model, **weights: Any) -> Model:
    """The same model with other weights, which were made of checked ones and need no second check."""
    other = object.__new__(type(model))
    other.__dict__.update(vars(model), **weights)
    return other


def _absolute(parts: Sequence[Tensor]) -> tuple[Tensor, ...]:
    return tuple(part.abs() for part in parts)


@output_bound.register
def _(model: TwoLayerLinear, inputs: Tensor, bound: Tensor | None) -> Tensor:
    return _with(model, U=model.U.abs(), V=model.V.abs()).outputs(inputs.abs(), bound)


@output_bound.register
def _(model: Autoencoder, inputs: Tensor, bound: Tensor | None) -> Tensor:
    return _with(model, U=model.U.abs()).outputs(inputs.abs(), bound)


@output_bound.register
def _(model: Connections, inputs: Tensor, bound: Tensor | None) -> Tensor:
    return _with(model, U=model.U.abs(), V=model.V.abs()).outputs(inputs.abs(), bound)


@output_bound.register
def _(model: Factorization, inputs: Tensor, bound: Tensor | None) -> Tensor:
    positions = inputs.abs() if inputs.is_floating_point() else inputs
    return _with(model, U=model.U.abs(), V=model.V.abs()).outputs(positions, bound)


@output_bound.register
def _(model: DeepLinear, inputs: Tensor, bound: Tensor | None) -> Tensor:
    return _with(model, weights=_absolute(model.weights)).outputs(inputs.abs(), bound)


@output_bound.register
def _(model: ReLUNet, inputs: Tensor, bound: Tensor | None) -> Tensor:
    absolute = _with(model, weights=_absolute(model.weights), biases=_absolute(model.biases))
    return absolute.outputs(inputs.abs(), bound)


@output_bound.register
def _(model: LastLayer, inputs: Tensor, bound: Tensor | None) -> Tensor:
    features = model.features(inputs).abs()
    offset = 0.0 if model.head.bias is None else model.head.bias.abs()
    return (features if bound is None else features * bound) @ model.head.weight.abs().mT + offset


def root_mean_squares(values: Tensor, data: Data) -> Tensor:
    """sqrt(E v^2) over the observations (..., n, k): (..., k)."""
    weights = data.weights if isinstance(data, Sample) else None
    return average(values.square().mT, weights).sqrt()


def input_scale(data: Data) -> Tensor:
    """sqrt(E x_i^2) of every feature."""
    match data:
        case Moments():
            return torch.diagonal(data.xx).clamp_min(0).sqrt()
        case Sample():
            return root_mean_squares(data.inputs, data)
    raise ValueError(f"data must be Sample or Moments, got {type(data).__name__}")


def target_scale(data: Data) -> Tensor:
    """sqrt(E y_o^2) of every output."""
    match data:
        case Moments():
            return torch.diagonal(data.yy).clamp_min(0).sqrt()
        case Sample() | Entries() | Measurements():
            return root_mean_squares(data.targets, data)
    raise ValueError(f"data must be Sample, Moments, Entries or Measurements, got {type(data).__name__}")


def output_scale(model: Model, data: Data, multipliers: Tensor | None = None) -> Tensor | None:
    """Root mean squares over the data of `output_bound`, or more: (..., outputs); None for an unknown family."""
    if isinstance(model, (Factorization, LastLayer)):
        assert isinstance(data, (Sample, Entries, Measurements))
        found = output_bound(model, data.inputs, multipliers)
        assert found is not None
        return root_mean_squares(found, data)
    if output_bound.dispatch(type(model)) is output_bound.dispatch(Model):
        return None
    found = output_bound(model, input_scale(data)[None], multipliers)
    assert found is not None
    return found.squeeze(-2)


def independent_layers(model: Model, masks: MaskLaw) -> bool:
    """Whether masks of different layers are known to be independent; trivial for one masked layer."""
    layers = model.layer_units if isinstance(model, Layered) else (model.units,)
    laws = masks.laws if isinstance(masks, Product) else (masks,)
    return len(layers) == 1 or isinstance(masks, (Bernoulli, Gaussian)) or _aligned(laws, layers)


def _aligned(laws: Sequence[MaskLaw], layers: Sequence[int]) -> bool:
    """Whether no law reaches over the border of a layer, unless its units are independent of each other."""
    borders = set(itertools.accumulate(layers, initial=0))
    start = 0
    for law in laws:
        inside = not any(start < border < start + law.size for border in borders)
        if not inside and not isinstance(law, (Bernoulli, Gaussian)):
            return False
        start += law.size
    return True


def typical_multipliers(model: Model, masks: MaskLaw) -> Tensor | None:
    """Multipliers under which `output_scale` bounds the root mean square over masks too: sqrt(E z^2) per unit.

    Layers multiply, so they must be independent; otherwise the largest multipliers, None where there are none.
    """
    if not independent_layers(model, masks):
        return None if masks.bound is None else masks.bound.detach()
    return (1 + masks.relative_variance.detach()).sqrt()


def roundings(model: Model, data: Data) -> float:
    """The most roundings that a product goes through on its way to a mean loss, or more.

    Sums inside matrix products count with all their terms; sums over observations are done in blocks (`linalg.gram`).
    """
    match data:
        case Moments():
            count, inputs, outputs = 1, 2 * data.xx.shape[0], data.yy.shape[0]
        case Entries():
            count, inputs, outputs = len(data), 1, 1
        case Measurements():
            count, inputs, outputs = len(data), sum(data.matrices.shape[1:]), 1
        case Sample():
            # a LastLayer starts at its features, which count as given
            inputs = 0 if isinstance(model, LastLayer) else data.inputs.shape[-1]
            count, outputs = len(data), data.targets.shape[-1] if data.targets.ndim == 2 else 1
        case _:
            raise ValueError(f"data must be Sample, Moments, Entries or Measurements, got {type(data).__name__}")
    hidden = sum(model.layer_units) if isinstance(model, Layered) else model.units
    return 16.0 + 2.0 * (inputs + hidden + outputs) + summands(count, max(inputs, hidden))


def loss_rounding(loss: Loss, outputs: Tensor | None, targets: Tensor | None) -> Tensor | float:
    """What the mean loss is rounded relative to, for outputs and targets of the given scales; infinite if unknown."""
    if outputs is None:
        return math.inf
    if isinstance(loss, Squared):
        assert targets is not None
        return (outputs + targets).square().sum(-1)
    # a loss of slope s moves by at most s times the largest change of an output, and adds what log and exp round
    return math.inf if loss.slope is None else loss.slope * (1 + torch.linalg.vector_norm(outputs, dim=-1))


def deferred(
    bound: Callable[..., Any], model: Model, data: Data, *more: Any, otherwise: Any = math.inf
) -> Callable[[], Any]:
    """bound(model, data, *more) when it is asked for; `otherwise` if weights or data were changed in place by then."""
    stamps = _stamps(model, data)
    return lambda: bound(model, data, *more) if _stamps(model, data) == stamps else otherwise


def _stamps(model: Model, data: Data) -> list[int]:
    try:
        parts = [part for part in vars(data).values() if isinstance(part, Tensor)]
        return [part._version for part in (*model.tensors, *parts)]
    except RuntimeError:  # tensors made in inference mode do not count their changes
        return []


@torch.no_grad()
def excess_scale(model: Model, data: Data, multipliers: Tensor | None, loss: Loss) -> Tensor | float:
    """What the rounding of E loss(z) - loss(1) is relative to, with the `typical_multipliers` of the law.

    Squared targets play no part, see `masked_excess`.
    """
    if multipliers is None:
        return math.inf
    outputs = output_scale(model, data, multipliers.to(model.device, model.dtype))
    if outputs is None or not isinstance(loss, Squared):
        return loss_rounding(loss, outputs, None)
    outputs = outputs.double()
    # on moments the square of the change and its product with the outputs are two sums
    squares = 4 if isinstance(data, Moments) else 1
    return (outputs * (squares * outputs + 4 * target_scale(data).double())).sum(-1)


def risk_rounding(model: Model, data: Data, loss: Loss) -> Tensor | float:
    """How far rounding can move `risk`."""
    with torch.no_grad():
        targets = target_scale(data) if isinstance(loss, Squared) else None
        scale = loss_rounding(loss, output_scale(model, data), targets)
        return roundings(model, data) * torch.finfo(model.dtype).eps / 2 * scale


def in_double(model: Model, data: Data) -> tuple[Model, Data]:
    """The same model and data in float64; what runs a torch module stays as it is."""
    if model.dtype == torch.float64:
        return model, data
    match model:
        case TwoLayerLinear() | Connections() | Factorization():
            model = type(model)(model.U.double(), model.V.double())
        case Autoencoder():
            model = Autoencoder(model.U.double())
        case DeepLinear():
            model = DeepLinear([weight.double() for weight in model.weights], model.mask_inputs)
        case ReLUNet():
            model = ReLUNet([w.double() for w in model.weights], [b.double() for b in model.biases])
        case _:
            return model, data
    return model, data.to(torch.float64)
