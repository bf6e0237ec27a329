"""induced and envelope: the least penalty that a map can have, and the convex function below it.

A family registers two rules, `induced_rule.register` and `envelope_rule.register`, each a function of
(model, data, masks) that returns the value, the words for how it was computed and, where it is known, how far rounding
can have moved it. Rules live beside the mathematics they implement, in the other files of this room.
"""

from __future__ import annotations

import math

from torch import Tensor

from droptics.answers import checked, checked_rules
from droptics.data import Data
from droptics.errors import NoClosedForm
from droptics.estimates import Error, Estimate
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.penalties.evaluation import check_triple

Value = tuple[Tensor, str] | tuple[Tensor, str, Error]


@checked_rules
def induced_rule(model: Model, data: Data, masks: MaskLaw) -> Value:
    """The least penalty over all models of this shape with the same map, and how it was computed.

    Cost: that of `induced`. Claim: none, a rule of one family.
    """
    raise NoClosedForm(f"the induced penalty of {type(model).__name__} is not known; use penalty for the model itself")


@checked_rules
def envelope_rule(model: Model, data: Data, masks: MaskLaw) -> Value:
    """The convex envelope of the induced penalty, at the map of the model, and how it was computed.

    Cost: that of `envelope`. Claim: none, a rule of one family.
    """
    raise NoClosedForm(f"the convex envelope of {type(model).__name__} is not known; use penalty for the model itself")


@checked
def induced(model: Model, data: Data, masks: MaskLaw) -> Estimate:
    """The least penalty over all networks of this shape that compute the same map (thesis-eq3.2, pal2020-eq9).

    It depends on the model only through its map and its widths: `penalty >= induced >= envelope`, and `equalize`
    returns a network that attains it.

    Cost: a whitening O(n d^2 + d^3) and one singular value decomposition.
    """
    check_triple(model, data, masks)
    return _stated(*induced_rule(model, data, masks))


@checked
def envelope(model: Model, data: Data, masks: MaskLaw) -> Estimate:
    """The largest convex function of the map below the induced penalty, at the map of this model.

    Two layers under dropout: (lambda / width) || W E[x x^T]^(1/2) ||_*^2 (mianjy2018-thm3.6); DropBlock: the squared
    spectral k-support norm (pal2020-thm2.3); deep linear networks: nu || W E[x x^T]^(1/2) ||_*^2 (thesis-thm9).

    Cost: a whitening O(n d^2 + d^3) and one singular value decomposition.
    """
    check_triple(model, data, masks)
    return _stated(*envelope_rule(model, data, masks))


def _stated(value: Tensor, words: str, error: Error = math.inf) -> Estimate:
    return Estimate.exact(value, words, error=error)
