"""Exact mean and covariance of the outputs of ReLU networks: what predictions ask of the walk behind the criterion."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Sample
from droptics.losses import Squared
from droptics.masks import MaskLaw
from droptics.models import ReLUNet
from droptics.penalties.methods import ClosedForm
from droptics.penalties.relu.constants import summed_over
from droptics.penalties.relu.copies import sum_copies
from droptics.penalties.relu.criterion import Plan, network_laws, plans_of, within
from droptics.penalties.relu.moments import MomentLeaf
from droptics.penalties.relu.outcomes import Advance


def relu_output_moments(
    model: ReLUNet,
    inputs: Tensor,
    masks: MaskLaw,
    method: ClosedForm = ClosedForm(),
) -> tuple[Tensor, Tensor]:
    """Exact mean (*batch, examples, outputs) and covariance (..., outputs, outputs) of the masked outputs.

    The same sum as `relu_criterion` with a leaf that keeps m = E h and S = E h h^T of the last hidden layer:
    mean = W m + b and Cov = W (S - m m^T + Cbar o S) W^T (droptics-predictive-relu). Rounding is a few units in the
    last place of W S W^T, so that tiny rates lose digits. Differentiable once, costs and refusals as there.
    """
    sample = Sample(inputs, inputs.new_zeros(len(inputs), model.output_size))
    plans = plans_of(model, sample, masks, Squared())
    with within(plans, sample, method) as advance:
        found = [_moments(plan, x, method.memory, advance) for plan in plans for x in inputs]
    shape = (*model.batch_shape, len(inputs), model.output_size)
    mean, covariance = (torch.stack(part).to(model.device, model.dtype) for part in zip(*found, strict=True))
    mean, covariance = mean.reshape(shape), covariance.reshape(*shape, model.output_size)
    laws = network_laws(model, masks)
    return summed_over(mean, laws, Squared()), summed_over(covariance, laws, Squared())


def _moments(plan: Plan, inputs: Tensor, memory: int, advance: Advance) -> tuple[Tensor, Tensor]:
    """Mean (outputs,) and covariance (outputs, outputs) of the outputs of one example."""
    moments = plan.walked(plan.stages(inputs), MomentLeaf(plan.accelerator), memory, advance)
    units = plan.weights[-1].shape[1]
    mean, second = moments[:units], moments[units:].reshape(units, units)
    summed = sum_copies(plan.last_weight, plan.members, units)
    covariance = summed @ (second - torch.outer(mean, mean)) @ summed.mT
    spread = plan.last_law.hadamard(second[plan.members][:, plan.members])
    covariance = covariance + plan.last_weight @ spread @ plan.last_weight.mT
    return summed @ mean + plan.biases[-1], covariance
