"""What the generic methods share: the mean loss of a model on data under given multipliers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.checks import check_size
from droptics.data import Data, Entries, Measurements, Moments, Sample, average
from droptics.losses import Loss, Squared
from droptics.masks import MaskLaw
from droptics.models import Factorization, LinearModel, Model, ReLUNet

# Elements of the largest intermediate tensor when many masks are evaluated at once: 32 MB in float64.
CHUNK_ELEMENTS = 2**22


@checked
def risk(model: Model, data: Data, loss: Loss | None = None) -> Tensor:
    """Mean loss of the model without masks; (weighted) mean over examples of the squared norm of the error by default.

    On `Moments`: tr(yy) - 2 tr(yx^T W) + tr(W xx W^T) for linear models and squared loss.

    Cost: one pass over the data, or O(d^2 outputs) on moments. Claim: none, a definition.
    """
    check_shapes(model, data)
    return plain_risk(model, data, Squared() if loss is None else loss)


def plain_risk(model: Model, data: Data, loss: Loss) -> Tensor:
    """`risk` of a model and data that are known to fit."""
    if isinstance(data, Moments):
        matrix = check_linear(model, data, loss).matrix()
        slope = torch.sub(matrix @ data.xx, data.yx, alpha=2)
        return torch.trace(data.yy) + (slope * matrix).sum((-2, -1))
    return average(loss(model.outputs(observed(data).inputs), observed(data).targets), data_weights(data))


def masked_risk(model: Model, data: Data, loss: Loss) -> tuple[Callable[[Tensor], Tensor], int]:
    """A function from multipliers (m, units) to mean losses (m, *batch), and how many masks fit in one call."""
    if isinstance(data, Moments):
        check_linear(model, data, loss)
        data = data.as_sample()
    inputs, targets, weights = observed(data).inputs, observed(data).targets, data_weights(data)

    def evaluate(multipliers: Tensor) -> Tensor:
        return average(loss(model.outputs(inputs, shaped(model, multipliers)), targets), weights)

    return evaluate, fitting(model, inputs.shape[0], targets.shape[-1])


def shaped(model: Model, multipliers: Tensor) -> Tensor:
    """Multipliers (m, units) as all examples and all models of a batch share them."""
    masks = multipliers.to(dtype=model.dtype, device=model.device)
    return masks.reshape(masks.shape[0], *(1,) * len(model.batch_shape), 1, masks.shape[-1])


def fitting(model: Model, examples: int, outputs: int) -> int:
    """How many masks fit in one call."""
    per_mask = max(examples, 1) * max(model.units, outputs) * max(model.batch_shape.numel(), 1)
    return max(1, CHUNK_ELEMENTS // per_mask)


def observed(data: Data) -> Sample | Entries | Measurements:
    """Data with inputs, on which a model is evaluated, and targets, with which its outputs are compared."""
    assert isinstance(data, (Sample, Entries, Measurements))
    return data


def data_weights(data: Data) -> Tensor | None:
    """Weights of the examples."""
    return data.weights if isinstance(data, Sample) else None


def check_linear(model: Model, data: Moments, loss: Loss) -> LinearModel:
    """The model, where second moments determine its risk."""
    if not isinstance(model, LinearModel):
        raise ValueError(
            f"data must be a Sample for {type(model).__name__}: second moments only determine linear models"
        )
    if not isinstance(loss, Squared):
        raise ValueError(f"data must be a Sample for {type(loss).__name__}: second moments only determine squared loss")
    return model


def check_triple(model: Model, data: Data, masks: MaskLaw) -> None:
    """Refuse a model, data and mask law that do not belong together."""
    check_shapes(model, data)
    check_masks(model, masks)


def check_masks(model: Model, masks: MaskLaw) -> None:
    """Refuse a mask law that does not cover the units of the model."""
    if masks.size != model.units:
        check_size("masks", masks.size, model.units, f"{type(model).__name__} has {model.units} maskable units")


def check_shapes(model: Model, data: Data) -> None:
    """Refuse data that do not fit the model: kind, inputs, outputs, dtype, device."""
    check_inputs(model, data)
    if isinstance(model, (LinearModel, ReLUNet)):
        outputs = data.yy if isinstance(data, Moments) else observed(data).targets
        if outputs.is_floating_point() and outputs.shape[-1] != model.output_size:
            raise ValueError(f"data have {outputs.shape[-1]} outputs but the model has {model.output_size}")


def check_inputs(model: Model, data: Data) -> None:
    """Refuse data on which the model cannot be evaluated; targets play no part."""
    if isinstance(model, Factorization):
        if not isinstance(data, (Entries, Measurements)):
            raise ValueError(f"data for Factorization must be Entries or Measurements, got {type(data).__name__}")
        shape = data.shape if isinstance(data, Entries) else tuple(data.matrices.shape[1:])
        if shape != model.shape:
            raise ValueError(f"data describe a matrix of shape {shape} but the factors give {model.shape}")
    elif not isinstance(data, (Sample, Moments)):
        raise ValueError(f"data for {type(model).__name__} must be Sample or Moments, got {type(data).__name__}")
    if isinstance(model, (LinearModel, ReLUNet)):
        inputs = data.xx if isinstance(data, Moments) else observed(data).inputs
        if inputs.shape[-1] != model.input_size or inputs.ndim != 2:
            raise ValueError(
                f"data inputs have shape {tuple(inputs.shape)} but the model takes {model.input_size} features"
            )
    if data.dtype != model.dtype or data.device != model.device:
        raise ValueError(
            f"data are {data.dtype} on {data.device} but the model is {model.dtype} on {model.device}; "
            "convert the data with data.to(model.device, model.dtype)"
        )
