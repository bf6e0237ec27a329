"""What given masks add to the mean loss of a model, formed without a difference of two large numbers."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from droptics.data import Data, Moments, average
from droptics.losses import Loss, Squared
from droptics.models import Model
from droptics.penalties.evaluation import check_linear, data_weights, fitting, observed, risk, shaped


def masked_excess(model: Model, data: Data, loss: Loss) -> tuple[Callable[[Tensor], Tensor], Tensor, int]:
    """A function from multipliers (m, units) to what they add to the mean loss (m, *batch), float64.

    Also the mean loss without masks, and how many masks fit in one call. For squared loss the difference is formed as
    (f_z - f)(f_z + f - 2 y): large targets are never squared, so that nothing of them has to cancel. On moments, with
    D = W_z - W the change of the map, it is tr D E[x x^T] D^T + 2 <D, W E[x x^T] - E[y x^T]>.
    """
    if isinstance(data, Moments):
        return _moment_excess(model, data, loss)
    inputs, targets = observed(data).inputs, observed(data).targets
    targets = targets.double() if targets.is_floating_point() else targets
    weights = data_weights(data)
    shares = None if weights is None else weights.double()
    plain = model.outputs(inputs).double()
    losses = loss(plain, targets)
    offset = plain - 2 * targets if isinstance(loss, Squared) else plain

    def evaluate(multipliers: Tensor) -> Tensor:
        outputs = model.outputs(inputs, shaped(model, multipliers)).double()
        if isinstance(loss, Squared):
            return average(((outputs - plain) * (outputs + offset)).sum(-1), shares)
        return average(loss(outputs, targets) - losses, shares)

    return evaluate, average(losses, shares), fitting(model, inputs.shape[0], targets.shape[-1])


def _moment_excess(model: Model, data: Moments, loss: Loss) -> tuple[Callable[[Tensor], Tensor], Tensor, int]:
    check_linear(model, data, loss)
    unit = torch.eye(len(data.xx), dtype=model.dtype, device=model.device)
    xx = data.xx.double()
    plain = model.outputs(unit).double()
    slope = xx @ plain - data.yx.double().mT

    def evaluate(multipliers: Tensor) -> Tensor:
        change = model.outputs(unit, shaped(model, multipliers)).double() - plain
        return (change * (xx @ change + 2 * slope)).sum((-2, -1))

    return evaluate, risk(model, data, loss).double(), fitting(model, len(unit), len(data.yy))
