"""Random masks where torch.func.vmap hides numbers: the answer of one member of a batch after the other."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Data
from droptics.estimates import Estimate
from droptics.losses import Loss
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.penalties.methods import MonteCarlo
from droptics.penalties.rules import sampling_rule
from droptics.transforms import is_readable, opaque_of, tensors_of


def random_masks(model: Model, data: Data, masks: MaskLaw, method: MonteCarlo, loss: Loss) -> Estimate:
    """The penalty from random masks; what a loop over the members gives, seed, interval and derivative included."""
    if all(map(is_readable, tensors_of((model, data, masks)))):
        return sampling_rule(model, data, masks, method, loss)

    def answers(model: Model, data: Data, masks: MaskLaw) -> Tensor:
        found = sampling_rule(model, data, masks, method, loss)
        error = torch.as_tensor(found.error).to(found.value)
        return torch.stack([found.value, error, found.lower, found.upper, *(found.guaranteed or ())])

    value, *rest = opaque_of(answers, model, data, masks)
    error, lower, upper, *safe = (part.detach() for part in rest)
    name = f"Monte Carlo, {method.samples} masks for every member of a batch"
    known = (safe[0], safe[1]) if safe else None
    return Estimate(value, lower, upper, name, method.samples, method.confidence, known, error)
