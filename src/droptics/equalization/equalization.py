"""imbalance and equalize: how far a network is from the least penalty of its map, and the network that attains it.

A family registers `equalize_rule.register`, a function of (model, data, masks), as those of `families` are.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from droptics.answers import checked, checked_rules
from droptics.data import Data
from droptics.envelopes import envelope
from droptics.errors import NoClosedForm
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.penalties import penalty
from droptics.penalties.evaluation import check_triple

M = TypeVar("M", bound=Model)


@checked_rules
def equalize_rule(model: Model, data: Data, masks: MaskLaw) -> Model:
    """A model of the same shape and map with the least penalty.

    Cost: that of `equalize`. Claim: none, a rule of one family.
    """
    raise NoClosedForm(f"no equalized network is known for {type(model).__name__}")


@checked
def equalize(model: M, data: Data, masks: MaskLaw) -> M:
    """The same map with the least penalty: a model of the same shape whose penalty is `induced` (mianjy2018-thm3.3).

    Two layers under dropout: every unit contributes the same share || W E[x x^T]^(1/2) ||_* / width (unequal rates: the
    shares that suit the rates). DropBlock: balanced blocks. Deep linear networks: the shares of `induced`.

    Cost: that of `induced`, and O(width^2 (inputs + outputs)) for the rotation.
    """
    check_triple(model, data, masks)
    equalized = equalize_rule(model, data, masks)
    assert isinstance(equalized, type(model))
    return equalized


@checked
def imbalance(model: Model, data: Data, masks: MaskLaw) -> Tensor:
    """How far the penalty is above its envelope, penalty / envelope - 1 >= 0 (thesis-def2, thesis-def5).

    Zero iff the model is equalized in the strong sense, which for DeepLinear needs a map of rank at most one. Zero when
    both vanish, infinite when only the envelope does (factors that cancel). One number per model.

    Cost: those of `penalty` and `envelope`.
    """
    above = penalty(model, data, masks).value
    below = envelope(model, data, masks).value
    # a map that cancels to rounding level has no envelope to compare with
    degenerate = below <= (1e2 * torch.finfo(above.dtype).eps) ** 2 * above
    ratio = above / torch.where(degenerate, torch.ones_like(below), below) - 1
    nothing = torch.where(above > 0, torch.full_like(above, float("inf")), torch.zeros_like(above))
    return torch.where(degenerate, nothing, ratio.clamp_min(0))
