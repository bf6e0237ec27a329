"""Exact expectation over the list of all masks."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Data
from droptics.errors import NoFiniteSupport
from droptics.estimates import Estimate
from droptics.losses import Loss
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.penalties.excess import masked_excess
from droptics.penalties.methods import Enumerate
from droptics.penalties.rounding import deferred, excess_scale, in_double, roundings, typical_multipliers

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
