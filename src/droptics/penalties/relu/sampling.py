"""Monte Carlo for ReLU networks: last layer integrated, linear control variates in the other mask entries."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Sample, average
from droptics.estimates import Estimate
from droptics.losses import Squared
from droptics.masks import MaskLaw, Product
from droptics.models import ReLUNet
from droptics.penalties.evaluation import CHUNK_ELEMENTS, shaped
from droptics.penalties.intervals import Draws, Question, check_draws, concluded
from droptics.penalties.methods import MonteCarlo
from droptics.penalties.relu.criterion import network_laws

# Samples per fitted coefficient below which the regression would be too noisy and the controls are left out.
_SAMPLES_PER_CONTROL = 8


def sampled_relu(model: ReLUNet, data: Sample, masks: MaskLaw, method: MonteCarlo) -> Estimate:
    """Estimate of E loss(z) - loss(1) for squared loss with the last mask integrated (Rao-Blackwell).

    Given the last hidden values h the expected loss is ||W h + b - y||^2 + sum_ij Cbar_ij <w_i, w_j> h_i h_j. The
    entries of the earlier masks minus one have mean zero and serve as control variates; their coefficients are
    fitted by least squares and cost one degree of freedom each.
    """
    laws = network_laws(model, masks)
    early = Product(laws[:-1])
    generator = torch.Generator().manual_seed(method.seed)
    plain = model.outputs(data.inputs).double() - data.targets.double()
    weights = None if data.weights is None else data.weights.double()
    width = max(*model.layer_units, data.targets.shape[-1])
    room = max(1, CHUNK_ELEMENTS // (len(data) * width * max(model.batch_shape.numel(), 1)))
    values, controls = [], []
    for start in range(0, method.samples, room):
        drawn = early.multipliers(min(room, method.samples - start), generator).to(model.device)
        values.append(average(_integrated(model, data, drawn, laws[-1], plain), weights))
        controls.append(drawn - 1)
    question = Question(model, data, masks, method, Squared(), average(plain.square().sum(-1), weights))
    value, control = torch.cat(values), torch.cat(controls)
    check_draws(question, value.detach())
    control = control[:, control.detach().abs().amax(0) > 0]
    return concluded(question, [*_residuals(value, control), Draws(value)], ", last layer integrated")


def _integrated(model: ReLUNet, data: Sample, multipliers: Tensor, last: MaskLaw, plain: Tensor) -> Tensor:
    """What masks add to the expected squared loss of every example, given the earlier multipliers: (m, *batch, n).

    `plain` are the errors without masks. The head is applied in float64, so that large targets do not cancel.
    """
    hidden, early = data.inputs, shaped(model, multipliers).split(model.layer_units[:-1], dim=-1)
    for weight, bias, mask in zip(model.weights[:-1], model.biases[:-1], early, strict=True):
        hidden = torch.relu((hidden * mask) @ weight.mT + bias.unsqueeze(-2))
    hidden, head = hidden.double(), model.weights[-1].double()
    error = hidden @ head.mT + (model.biases[-1].unsqueeze(-2).double() - data.targets.double())
    added = ((error - plain) * (error + plain)).sum(-1)
    return added + (last.correlate(hidden, head) * hidden).sum(-1)


def _residuals(value: Tensor, control: Tensor) -> list[Draws]:
    """Values minus their least-squares fit on the controls, with the share of variance left; none for few draws."""
    used = control.shape[1]
    if used == 0 or len(value) < _SAMPLES_PER_CONTROL * (used + 1):
        return []
    fixed = value.detach().reshape(len(value), -1)
    fixed = fixed - fixed.mean(0)
    # columns scaled to one: a rare survivor's multiplier is large
    unit = control / control.abs().amax(0)
    weight = torch.linalg.lstsq(unit - unit.mean(0), fixed).solution
    adjusted = value - (unit @ weight).reshape(value.shape)
    size = fixed.abs().amax(0).clamp_min(torch.finfo(value.dtype).tiny)
    before = (fixed / size).square().sum()
    left = adjusted.detach().reshape(len(value), -1)
    share = float(((left - left.mean(0)) / size).square().sum() / before) if float(before) > 0 else 0.0
    return [Draws(adjusted, used, f", {used} control variates leave {share:.0%} of the variance")]
