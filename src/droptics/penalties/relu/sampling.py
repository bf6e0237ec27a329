"""Monte Carlo for ReLU networks: last layer integrated, linear control variates in the other mask entries."""

from __future__ import annotations

import math

import torch
from scipy.stats import t as student
from torch import Tensor

from droptics.data import Sample, average
from droptics.errors import NoClosedForm
from droptics.estimates import Estimate
from droptics.losses import Squared
from droptics.masks import MaskLaw, Product
from droptics.models import ReLUNet
from droptics.penalties.evaluation import CHUNK_ELEMENTS, risk
from droptics.penalties.methods import MonteCarlo
from droptics.penalties.monte_carlo import bernstein
from droptics.penalties.relu.criterion import network_laws

# Samples per fitted coefficient below which the regression would be too noisy and the controls are left out.
_SAMPLES_PER_CONTROL = 8


def separable(model: ReLUNet, masks: MaskLaw) -> bool:
    """Whether the last hidden layer has a mask of its own, which can then be integrated."""
    try:
        network_laws(model, masks)
    except NoClosedForm:
        return False
    return True


def sampled_relu(model: ReLUNet, data: Sample, masks: MaskLaw, method: MonteCarlo) -> Estimate:
    """Estimate of E loss(z) - loss(1) for squared loss with the last mask integrated (Rao-Blackwell).

    Given the last hidden values h the expected loss is ||W h + b - y||^2 + sum_ij Cbar_ij <w_i, w_j> h_i h_j. The
    entries of the earlier masks minus one have mean zero and serve as control variates; their coefficients are
    fitted by least squares and cost one degree of freedom each.
    """
    laws = network_laws(model, masks)
    early = Product(laws[:-1])
    generator = torch.Generator().manual_seed(method.seed)
    plain = risk(model, data)
    width = max(*model.layer_units, data.targets.shape[-1])
    room = max(1, CHUNK_ELEMENTS // (len(data) * width * max(model.batch_shape.numel(), 1)))
    values, controls = [], []
    for start in range(0, method.samples, room):
        drawn = early.multipliers(min(room, method.samples - start), generator).to(model.device, model.dtype)
        values.append(_integrated(model, data, drawn, laws[-1]) - plain)
        controls.append(drawn - 1)
    value, control = torch.cat(values), torch.cat(controls)
    control = control[:, control.detach().var(0) > 0]
    adjusted, left, used = _residuals(value, control)
    mean = adjusted.mean(0)
    error = adjusted.detach().std(0, correction=used + 1) / math.sqrt(method.samples)
    half = float(student.ppf((1 + method.confidence) / 2, method.samples - used - 1)) * error
    note = f", {used} control variates leave {left:.0%} of the variance" if used else ""
    return Estimate(
        value=mean,
        lower=mean.detach() - half,
        upper=mean.detach() + half,
        method=f"Monte Carlo, {method.samples} masks, last layer integrated{note}",
        cost=method.samples,
        confidence=method.confidence,
        guaranteed=bernstein(model, data, masks, method, Squared(), value.detach()),
    )


def _integrated(model: ReLUNet, data: Sample, multipliers: Tensor, last: MaskLaw) -> Tensor:
    """Mean over examples of the expected squared loss given the earlier multipliers (m, units); (m, *batch)."""
    shaped = multipliers.reshape(len(multipliers), *(1,) * len(model.batch_shape), 1, multipliers.shape[-1])
    hidden = data.inputs
    for weight, bias, mask in zip(
        model.weights[:-1], model.biases[:-1], shaped.split(model.layer_units[:-1], dim=-1), strict=True
    ):
        hidden = torch.relu((hidden * mask) @ weight.mT + bias.unsqueeze(-2))
    head = model.weights[-1]
    error = (hidden @ head.mT + model.biases[-1].unsqueeze(-2) - data.targets).square().sum(-1)
    if last.independent:
        energies = head.square().sum(-2) * last.relative_variance.to(head)
        noise = (hidden.square() @ energies.unsqueeze(-1)).squeeze(-1)
    else:
        noise = ((hidden @ (last.characteristic.to(head) * (head.mT @ head))) * hidden).sum(-1)
    return average(error + noise, data.weights)


def _residuals(value: Tensor, control: Tensor) -> tuple[Tensor, float, int]:
    """Values minus their least-squares fit on the controls, the share of variance left, how many were used."""
    used = control.shape[1]
    if used == 0 or len(value) < _SAMPLES_PER_CONTROL * (used + 1):
        return value, 1.0, 0
    fixed = value.detach().reshape(len(value), -1)
    centered = control - control.mean(0)
    weight = torch.linalg.lstsq(centered, fixed).solution
    adjusted = value - (control @ weight).reshape(value.shape)
    before = fixed.var(0).sum().clamp_min(torch.finfo(value.dtype).tiny)
    return adjusted, float(adjusted.detach().reshape(len(value), -1).var(0).sum() / before), used
