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
from droptics.penalties.evaluation import masked_risk
from droptics.penalties.methods import Enumerate


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
    evaluate, batch = masked_risk(model, data, loss)
    plain = evaluate(torch.ones(1, model.units, dtype=torch.float64, device=model.device))
    terms: list[Tensor] = []
    for multipliers, probabilities in masks.atom_batches(batch):
        excess = evaluate(multipliers) - plain
        terms.append(torch.tensordot(probabilities.to(excess), excess, dims=1))
    return Estimate.exact(torch.stack(terms).sum(0), f"enumeration of {count} masks", count)
