"""Attacks on models that are affine in their input: exact, in closed form, for every norm and with a box."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.arguments import ClassNumbers, Rows, check_arguments
from droptics.attacks.gradients import Function, differentiable
from droptics.attacks.losses import margins
from droptics.attacks.threat import Threat
from droptics.checks import check_size
from droptics.models import Model


def affine_map(model: Model | Function, inputs: Rows) -> tuple[Tensor, Tensor]:
    """Matrix (outputs, features) and offset (outputs,) of a model that is affine on the given inputs.

    Read off from one gradient per output at zero, then compared with the model on the inputs. A ValueError names the
    deviation when the two differ by more than the rounding of the sums.

    Cost: one gradient per output and one pass over the inputs. Claim: none, checked on the inputs.
    """
    check_arguments(affine_map, locals())
    tape = differentiable(model)
    offset = tape.forward(torch.zeros_like(inputs[:1]))[0]
    slopes = torch.eye(len(offset), dtype=offset.dtype, device=offset.device)
    matrix = torch.stack([tape.pull(slope[None], again=True).flatten() for slope in slopes])
    outputs = tape.scores(inputs)
    flat = inputs.flatten(1)
    difference = (outputs - (flat @ matrix.mT + offset)).abs().amax()
    scale = (flat.abs() @ matrix.abs().mT).amax() + offset.abs().amax() + outputs.abs().amax()
    allowed = 64 * torch.finfo(inputs.dtype).eps * flat.shape[1] ** 0.5 * float(scale)
    if not float(difference) <= allowed:
        raise ValueError(
            f"model must be affine in its input for the closed form, its outputs deviate by {float(difference):.3g} "
            f"from the affine map through zero; use Pgd"
        )
    return matrix, offset


def linear_attack(model: Model | Function, inputs: Rows, targets: ClassNumbers, threat: Threat) -> Tensor:
    """The reachable points of smallest margin of an affine model.

    One output: the point farthest along -y w, margin y (w x + b) - radius ||w||_dual without a box. Several: for each
    wrong class j the point farthest along w_j - w_y, and of these the one with the smallest margin to its class,
    which is the smallest margin of all because the minimum over points and over classes commute.
    Cost O(n features outputs). Claims: thesis-eq6.3, thesis-rem6.5.3.
    """
    check_arguments(linear_attack, locals())
    check_size("targets", len(targets), len(inputs), "one per example of inputs")
    matrix, offset = affine_map(model, inputs)
    region = threat.around(inputs)
    margins(offset.expand(inputs.shape[0], -1), targets)  # refuses labels out of range, or of one output but -1 and +1
    if matrix.shape[0] == 1:
        signs = targets.reshape(-1, 1).to(inputs.dtype)
        return region.support((-signs * matrix).view_as(inputs))
    best = inputs.clone()
    value = inputs.new_full((inputs.shape[0],), torch.inf)
    for wrong in range(matrix.shape[0]):
        direction = matrix[wrong] - matrix[targets]
        points = region.support(direction.view_as(inputs))
        margin = -(points.flatten(1) * direction).sum(1) - (offset[wrong] - offset[targets])
        better = (margin < value) & (targets != wrong)
        best[better] = points[better]
        value = torch.where(better, margin, value)
    return best


def smallest_margins(model: Model | Function, inputs: Rows, targets: ClassNumbers, threat: Threat) -> Tensor:
    """The smallest margin (n,) to which a threat can bring a model; exact where outputs are affine in the inputs.

    Without a box it is min_{c != y} z_y - z_c - radius ||w_y - w_c||, in the dual norm.

    Cost: one gradient per output, then O(n classes features). Claim: thesis-eq6.3.
    """
    check_arguments(smallest_margins, locals())
    points = linear_attack(model, inputs, targets, threat)
    return margins(differentiable(model).scores(points), targets)
