"""The second-order penalty: half the curvature of the loss in the multipliers times their covariance.

E loss(z) - loss(1) = 1/2 sum_ij Cbar_ij d^2 loss / dz_i dz_j + higher orders, because E z = 1. One Hessian of `units`
variables serves all examples: the mean loss is differentiated, not the loss of each. On the last layer the Hessian
of the loss in the outputs is known by formula (softmax: diag(p) - p p^T) and no derivative is taken at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.data import Data, Sample
from droptics.estimates import Estimate
from droptics.losses import Loss
from droptics.masks import MaskLaw
from droptics.models import LastLayer, Model
from droptics.penalties.curvature import LastLayerCurvature
from droptics.penalties.evaluation import check_triple, masked_risk
from droptics.transforms import is_readable


@dataclass(frozen=True, eq=False)
class Approximation:
    """A second-order value and how it was computed; it becomes an Estimate with or without a measured error.

    Attributes:
        value: The second-order penalty, differentiable; a batch for batched models.
        how: Which curvature was used, in words.
        cost: Passes through the model.
    """

    value: Tensor
    how: str
    cost: int

    def checked(self, reference: Estimate) -> Estimate:
        """The value with the Monte Carlo interval of the true penalty beside it; the method text states the error."""
        method = f"second order ({self.how})"
        if self.value.numel() == 1 and is_readable(reference.value):
            value, truth = float(self.value.detach()), float(reference.value.detach())
            half = float(reference.upper - reference.lower) / 2
            share = "" if truth == 0 else f" = {(value - truth) / abs(truth):+.1%}"
            method += f"; Monte Carlo says {truth:.6g} +- {half:.2g}, so its error is {value - truth:+.3g}{share}"
        known = {"value": self.value, "method": method, "cost": self.cost + reference.cost, "error": 0.0}
        known |= {name: getattr(reference, name) for name in ("lower", "upper", "confidence")}
        return Estimate.later(known, lambda: {"guaranteed": reference.guaranteed})

    def unchecked(self) -> Estimate:
        """The value alone: its interval is a point that claims no coverage."""
        fixed = self.value.detach()
        method = f"second order ({self.how}), error not measured"
        return Estimate(self.value, fixed, fixed, method, self.cost, confidence=0.0)


@checked
def second_order(model: Model, data: Data, masks: MaskLaw, loss: Loss) -> Approximation:
    """Half of sum_ij Cbar_ij d^2 risk / dz_i dz_j at z = 1; exact where the loss is quadratic in the mask.

    Conditions: the loss is twice differentiable in the multipliers (through a ReLU: almost everywhere, where the
    kink itself contributes nothing). Cost: a closed formula on a LastLayer; else a second directional derivative per
    unit (per eigenvector of Cbar for correlated units), in batches.

    Claim: none, a Taylor expansion, exact where it ends.
    """
    check_triple(model, data, masks)
    if isinstance(model, LastLayer) and isinstance(data, Sample):
        # 1/2 sum_ij Cbar_ij G_ij with G_ij = E_x a_i a_j w_i^T H(x) w_j and H the Hessian of the loss in the outputs
        curvature = LastLayerCurvature(model, data, loss, model.features(data.inputs))
        return Approximation(0.5 * masks.weigh(curvature), f"{type(loss).__name__} Hessian on the last layer", 1)
    evaluate, room = masked_risk(model, data, loss)
    directions = masks.directions.to(model.device, model.dtype)
    point = torch.ones(model.units, dtype=model.dtype, device=model.device)

    def mean_loss(multipliers: Tensor) -> Tensor:
        return evaluate(multipliers[None])[0]

    value = 0.5 * second_derivatives(mean_loss, point, directions, max(1, room // 4)).sum(0)
    return Approximation(value, f"{len(directions)} second derivatives through the network", 4 * len(directions))


def second_derivatives(function: Callable[[Tensor], Tensor], point: Tensor, directions: Tensor, chunk: int) -> Tensor:
    """d^2/dt^2 function(point + t v) at t = 0 for every row v of directions: (rows, *shape of the value).

    Forward over forward, `chunk` rows at a time: no graph is stored. Operators without forward derivatives fall
    back to two backward passes per row.
    """

    def first(at: Tensor, along: Tensor) -> Tensor:
        return torch.func.jvp(function, (at,), (along,))[1]

    def second(along: Tensor) -> Tensor:
        return torch.func.jvp(lambda at: first(at, along), (point,), (along,))[1]

    if len(directions) == 0:
        value = function(point).detach()
        return value.new_zeros(0, *value.shape)
    try:
        # a network often uses operators whose random state vmap asks about; in evaluation mode nothing is drawn
        return torch.func.vmap(second, chunk_size=chunk, randomness="same")(directions)
    except (NotImplementedError, RuntimeError):
        return torch.stack([_twice_backward(function, point, direction) for direction in directions])


def _twice_backward(function: Callable[[Tensor], Tensor], point: Tensor, direction: Tensor) -> Tensor:
    with torch.enable_grad():
        step = torch.zeros((), dtype=point.dtype, device=point.device, requires_grad=True)
        value = function(point + step * direction)
        results = []
        for part in value.reshape(-1):
            (slope,) = torch.autograd.grad(part, step, create_graph=True)
            if slope.requires_grad:  # else the function is linear
                (curvature,) = torch.autograd.grad(slope, step, create_graph=True, materialize_grads=True)
            else:
                curvature = torch.zeros_like(slope)
            results.append(curvature)
    return torch.stack(results).reshape(value.shape)
