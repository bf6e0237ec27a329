"""Mean over random masks, with a normal interval, a guaranteed one, and a control variate of known mean."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import singledispatch

import torch
from scipy.stats import t as student
from torch import Tensor

from droptics.data import Data, Moments, average
from droptics.estimates import Estimate
from droptics.losses import Loss, Squared
from droptics.masks import MaskLaw
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
from droptics.penalties.evaluation import data_inputs, data_targets, data_weights, masked_risk
from droptics.penalties.methods import MonteCarlo


def sampled(model: Model, data: Data, masks: MaskLaw, method: MonteCarlo, loss: Loss) -> Estimate:
    """Monte Carlo estimate of E loss(z) - loss(1), each mask shared by all examples.

    The control variate is the first-order term <gradient of the loss in z at 1, z - 1>, whose mean is exactly zero;
    its coefficient is fitted by regression, which costs one more degree of freedom. The interval is Student's. The
    guaranteed interval is the empirical Bernstein bound for values in [0, B], with B from the network of absolute
    weights under the largest multipliers; it needs bounded masks and squared loss.
    """
    evaluate, batch = masked_risk(model, data, loss)
    ones = torch.ones(1, model.units, dtype=model.dtype, device=model.device)
    plain = evaluate(ones)[0]
    slope = _slope(evaluate, ones, model)
    generator = torch.Generator().manual_seed(method.seed)
    values, controls = [], []
    for start in range(0, method.samples, batch):
        drawn = masks.multipliers(min(batch, method.samples - start), generator).to(ones)
        values.append(evaluate(drawn) - plain)
        controls.append(torch.tensordot(drawn - 1, slope, dims=([-1], [-1])))
    value, control = torch.cat(values), torch.cat(controls)
    adjusted, share = _regress_out(value, control)
    mean = adjusted.mean(0)
    error = adjusted.detach().std(0, correction=2 if share < 1 else 1) / math.sqrt(method.samples)
    # a law with two masks is fitted perfectly by the control; what is left then is the rounding of the mean
    rounding = 8 * torch.finfo(mean.dtype).eps * (plain.detach().abs() + value.detach().abs().amax(0))
    width = float(student.ppf((1 + method.confidence) / 2, method.samples - 2)) * error + rounding
    used = f", first-order control variate leaves {share:.0%} of the variance" if share < 1 else ""
    return Estimate(
        value=mean,
        lower=mean.detach() - width,
        upper=mean.detach() + width,
        method=f"Monte Carlo, {method.samples} masks{used}",
        cost=method.samples,
        confidence=method.confidence,
        guaranteed=bernstein(model, data, masks, method, loss, value.detach()),
    )


def _slope(evaluate: Callable[[Tensor], Tensor], ones: Tensor, model: Model) -> Tensor:
    """Gradient of the mean loss in the multipliers at one, (*batch, units); it carries no graph."""
    if model.batch_shape:
        # one control per model of a batch would need one pass each; a batch goes without
        return ones.new_zeros(*model.batch_shape, ones.shape[-1])
    with torch.enable_grad():
        point = ones.clone().requires_grad_(True)
        # a loss that ignores the masks has the slope zero, not none
        (gradient,) = torch.autograd.grad(evaluate(point).sum() + 0 * point.sum(), point)
    return gradient[0]


def _regress_out(value: Tensor, control: Tensor) -> tuple[Tensor, float]:
    """Remove the control variate; returns the adjusted values and the share of the variance that is left."""
    fixed = value.detach()
    centered = control - control.mean(0)
    power = centered.square().sum(0)
    variance = (fixed - fixed.mean(0)).square().sum(0)
    if not bool((power > 0).all()):  # batches come without a control
        return value, 1.0
    weight = (centered * fixed).sum(0) / power
    left = variance - weight.square() * power
    share = float((left.clamp_min(0).sum() / variance.sum().clamp_min(torch.finfo(value.dtype).tiny)).clamp(0, 1))
    return value - weight * control, min(share, 1 - 1e-9)


def bernstein(
    model: Model, data: Data, masks: MaskLaw, method: MonteCarlo, loss: Loss, values: Tensor
) -> tuple[Tensor, Tensor] | None:
    """Empirical Bernstein interval (Maurer and Pontil 2009) of the mean of values in [0, B], shifted by the risk."""
    if masks.bound is None or not isinstance(loss, Squared):
        return None
    sample = data.as_sample() if isinstance(data, Moments) else data
    largest = output_bound(model, data_inputs(sample), masks.bound.detach().to(model.device, model.dtype))
    if largest is None:
        return None
    with torch.no_grad():
        top = average((largest + data_targets(sample).abs()).square().sum(-1), data_weights(sample))
        log_term = math.log(4 / (1 - method.confidence))
        spread = values.var(0) * 2 * log_term / method.samples
        width = spread.sqrt() + 7 * top * log_term / (3 * (method.samples - 1))
        return values.mean(0) - width, values.mean(0) + width


@singledispatch
def output_bound(model: Model, inputs: Tensor, bound: Tensor) -> Tensor | None:
    """Largest absolute outputs under multipliers of absolute value <= bound, or None for an unknown family."""
    return None


@output_bound.register
def _(model: TwoLayerLinear, inputs: Tensor, bound: Tensor) -> Tensor:
    return TwoLayerLinear(model.U.abs(), model.V.abs()).outputs(inputs.abs(), bound)


@output_bound.register
def _(model: Autoencoder, inputs: Tensor, bound: Tensor) -> Tensor:
    return Autoencoder(model.U.abs()).outputs(inputs.abs(), bound)


@output_bound.register
def _(model: Connections, inputs: Tensor, bound: Tensor) -> Tensor:
    return Connections(model.U.abs(), model.V.abs()).outputs(inputs.abs(), bound)


@output_bound.register
def _(model: Factorization, inputs: Tensor, bound: Tensor) -> Tensor:
    positions = inputs.abs() if inputs.is_floating_point() else inputs
    return Factorization(model.U.abs(), model.V.abs()).outputs(positions, bound)


@output_bound.register
def _(model: DeepLinear, inputs: Tensor, bound: Tensor) -> Tensor:
    return DeepLinear([weight.abs() for weight in model.weights], model.mask_inputs).outputs(inputs.abs(), bound)


@output_bound.register
def _(model: ReLUNet, inputs: Tensor, bound: Tensor) -> Tensor:
    absolute = ReLUNet([weight.abs() for weight in model.weights], [bias.abs() for bias in model.biases])
    return absolute.outputs(inputs.abs(), bound)


@output_bound.register
def _(model: LastLayer, inputs: Tensor, bound: Tensor) -> Tensor:
    scaled = model.features(inputs).abs() * bound
    offset = 0.0 if model.head.bias is None else model.head.bias.abs()
    return scaled @ model.head.weight.abs().mT + offset
