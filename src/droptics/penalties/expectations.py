"""Expectations over masks: over the list of all of them, or over random ones with a control variate of known mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from droptics.data import Data
from droptics.errors import NoFiniteSupport
from droptics.estimates import Estimate
from droptics.losses import Loss
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.penalties.excess import masked_excess
from droptics.penalties.intervals import Draws, Question, check_draws, concluded
from droptics.penalties.methods import Enumerate, MonteCarlo
from droptics.penalties.rounding import deferred, excess_scale, in_double, roundings, typical_multipliers
from droptics.progress import tracked
from droptics.transforms import as_array, is_transformed

_COUNTABLE = 1 << 48  # masks that somebody may wait for; numbers of thousands of digits are not worth printing


def enumerated(model: Model, data: Data, masks: MaskLaw, method: Enumerate, loss: Loss) -> Estimate:
    """Sum over masks of probability times (loss under the mask - loss without); any model, any loss."""
    count = masks.support_count
    if count is None:
        raise NoFiniteSupport(f"{type(masks).__name__} has no finite list of masks; use MonteCarlo() instead")
    if count > method.limit:
        patience = f"Enumerate(limit={count}) if you can wait, " if count < _COUNTABLE else ""
        number = f"{count}" if patience else f"at least 2^{count.bit_length() - 1}"
        raise ValueError(
            f"masks has {number} masks, more than the limit {method.limit} of Enumerate; "
            f"use {patience}ClosedForm() where it applies, or MonteCarlo()"
        )
    evaluate, _, batch = masked_excess(*in_double(model, data), loss)
    terms: list[Tensor] = []
    for multipliers, probabilities in masks.atom_batches(batch):
        excess = evaluate(multipliers)
        terms.append(torch.tensordot(probabilities.to(excess), excess, dims=1))
    value = torch.stack(terms).sum(0).to(model.dtype)
    fixed, typical = value.detach(), typical_multipliers(model, masks)
    # masks are added in blocks, one after the other; probabilities are products over the units
    more = 2 * model.units + 2 * batch**0.5 + len(terms)

    def rounding(model: Model, data: Data) -> Tensor | float:
        double, known = in_double(model, data)
        steps = (roundings(double, known) + more) * torch.finfo(double.dtype).eps
        return steps * excess_scale(double, known, typical, loss) + torch.finfo(model.dtype).eps * fixed.abs()

    return Estimate.exact(value, f"enumeration of {count} masks", count, deferred(rounding, model, data))


def sampled(model: Model, data: Data, masks: MaskLaw, method: MonteCarlo, loss: Loss) -> Estimate:
    """Monte Carlo estimate of E loss(z) - loss(1), each mask shared by all examples.

    The control variate is the first-order term <gradient of the loss in z at 1, z - 1>, whose mean is exactly zero;
    its coefficient is fitted by regression, which costs one more degree of freedom. Sums are float64 whatever the
    model is. For the intervals see `intervals`.
    """
    evaluate, plain, batch = masked_excess(model, data, loss)
    ones = torch.ones(1, model.units, dtype=model.dtype, device=model.device)
    slope = _slope(evaluate, ones, model)
    generator = torch.Generator().manual_seed(method.seed)
    values, controls = [], []
    for start in tracked(range(0, method.samples, batch), "Monte Carlo", "batch"):
        drawn = masks.multipliers(min(batch, method.samples - start), generator).to(model.device)
        values.append(evaluate(drawn))
        controls.append(torch.tensordot(drawn - 1, slope.to(drawn), dims=([-1], [-1])))
    question = Question(model, data, masks, method, loss, plain)
    value, control = torch.cat(values), torch.cat(controls)
    check_draws(question, value.detach())
    return concluded(question, [*_regress_out(value, control), Draws(value)], "")


def _slope(evaluate: Callable[[Tensor], Tensor], ones: Tensor, model: Model) -> Tensor:
    """Gradient of the mean loss in the multipliers at one, (*batch, units); it carries no graph."""
    if model.batch_shape:
        # one control per model of a batch would need one pass each; a batch goes without
        return ones.new_zeros(*model.batch_shape, ones.shape[-1])
    if is_transformed():
        return torch.func.grad(lambda point: evaluate(point).sum())(ones)[0].detach()
    with torch.enable_grad():
        point = ones.clone().requires_grad_(True)
        # a loss that ignores the masks has the slope zero, not none
        (gradient,) = torch.autograd.grad(evaluate(point).sum() + 0 * point.sum(), point)
    return gradient[0]


def _regress_out(value: Tensor, control: Tensor) -> list[Draws]:
    """Values without the control variate, and the share of the variance that is left; none where it does not vary."""
    numbers, known = as_array(value), as_array(control)
    residuals, centered = numbers - numbers.mean(0), known - known.mean(0)
    # of numbers scaled to one: their squares neither overflow nor vanish
    reach, size = np.abs(residuals).max(0), np.abs(centered).max(0)
    if not ((size > 0).all() and (reach > 0).all()):
        return []
    unit, scaled = centered / size, residuals / reach
    power = (unit * unit).sum(0)
    weight = (unit * scaled).sum(0) / power
    share = 1 - float((weight**2 * power).sum() / (scaled * scaled).sum())
    note = f", first-order control variate leaves {max(share, 0.0):.0%} of the variance"
    fitted = torch.as_tensor(weight * reach * (known / size), device=value.device)
    return [Draws(value - fitted, 1, note, pairs=True)]
