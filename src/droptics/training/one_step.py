"""One step of training under a mask that the caller gives."""

from __future__ import annotations

import torch

from droptics.arguments import Finite, Flags, check_arguments
from droptics.data import Sample
from droptics.losses import Loss, Squared
from droptics.models import Model
from droptics.penalties.evaluation import check_shapes
from droptics.training.objectives import StepData, mean_loss
from droptics.training.trainees import trainee_rule

_SQUARED = Squared()


def masked_step(model: Model, data: Sample, multipliers: Flags, step_size: Finite, loss: Loss = _SQUARED) -> Model:
    """The model after one gradient step on the mean loss of the data under given masks (mianjy2018-alg1).

    theta <- theta - step_size d/dtheta mean loss(f(x; z)). `multipliers` z are one number per unit, or one row per
    example; they are taken as they are: a kept unit of inverted dropout has 1 / (1 - drop). The caller's model stays.

    Cost: one forward and one backward pass.
    """
    check_arguments(masked_step, locals())
    check_shapes(model, data)
    trainee = trainee_rule(model)
    masks = multipliers.to(model.device, model.dtype)
    batch = StepData(data.inputs, data.targets, data.weights, masks)
    value = mean_loss(loss, trainee.forward(batch.inputs, batch.multipliers), batch)
    gradients = torch.autograd.grad(value.sum(), trainee.leaves, materialize_grads=True)
    with torch.no_grad():
        for leaf, gradient in zip(trainee.leaves, gradients, strict=True):
            leaf.sub_(step_size * gradient)
    if not all(bool(leaf.isfinite().all()) for leaf in trainee.leaves):
        raise ValueError(f"the step leaves the range of {model.dtype}; use smaller multipliers or step_size")
    return trainee.snapshot()
