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
from droptics.penalties.evaluation import masked_excess
from droptics.penalties.methods import Enumerate
from droptics.penalties.rounding import excess_scale, in_double, roundings


def enumerated(model: Model, data: Data, masks: MaskLaw, method: Enumerate, loss: Loss) -> Estimate:
    """Sum over masks of probability times (loss under the mask - loss without); any model, any loss."""
    count = masks.support_count
    if count is None:
        raise NoFiniteSupport(f"{type(masks).__name__} has no finite list of masks; use MonteCarlo() instead")
    if count > method.limit:
        raise ValueError(
            f"masks has {count} masks, more than the limit {method.limit} of Enumerate; "
            f"use Enumerate(limit={count}) if you can wait, ClosedForm() where it applies, or MonteCarlo()"
        )
    dtype = model.dtype
    model, data = in_double(model, data)
    evaluate, _, batch = masked_excess(model, data, loss)
    terms: list[Tensor] = []
    for multipliers, probabilities in masks.atom_batches(batch):
        excess = evaluate(multipliers)
        terms.append(torch.tensordot(probabilities.to(excess), excess, dims=1))
    value = torch.stack(terms).sum(0).to(dtype)
    # masks are added in blocks, one after the other; probabilities are products over the units
    steps = roundings(model, data) + 2 * model.units + 2 * batch**0.5 + len(terms)
    error = steps * torch.finfo(model.dtype).eps * excess_scale(model, data, masks, loss)
    error = error + torch.finfo(dtype).eps * value.detach().abs()
    return Estimate.exact(value, f"enumeration of {count} masks", count, error)
