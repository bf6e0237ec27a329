"""What a family answers about its penalty: rules that it may have, and those of families linear in the mask."""

from __future__ import annotations

from functools import singledispatch

from droptics.data import Data
from droptics.estimates import Estimate
from droptics.losses import Loss, Squared
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.penalties.closed_form import linear_penalty, unit_gram
from droptics.penalties.entropy import has_margin, logistic_penalty
from droptics.penalties.evaluation import plain_risk
from droptics.penalties.expectations import sampled
from droptics.penalties.methods import ClosedForm, MonteCarlo
from droptics.penalties.rounding import deferred, risk_rounding
from droptics.penalties.unit_outputs import is_linear_in_masks


@singledispatch
def penalty_rule(model: Model, data: Data, masks: MaskLaw, method: ClosedForm, loss: Loss) -> Estimate:
    """The penalty in closed form."""
    if not isinstance(loss, Squared):
        return logistic_penalty(model, data, masks, loss)
    value, error = linear_penalty(model, data, masks)
    return Estimate.exact(value, "closed form", error=error)


@singledispatch
def criterion_rule(model: Model, data: Data, masks: MaskLaw, method: ClosedForm, loss: Loss) -> Estimate:
    """Risk + penalty in closed form."""
    return with_risk(penalty_rule(model, data, masks, method, loss), model, data, loss)


def with_risk(answer: Estimate, model: Model, data: Data, loss: Loss) -> Estimate:
    """Risk + a given penalty."""
    return answer.shift(plain_risk(model, data, loss), deferred(risk_rounding, model, data, loss))


@singledispatch
def covered_rule(model: Model, masks: MaskLaw, loss: Loss, data: Data | None = None) -> bool:
    """Whether there is a closed form; with data, also whether it stays within its limits."""
    if not isinstance(loss, Squared):
        return has_margin(model, masks, loss, data)
    return is_linear_in_masks(model) or unit_gram.dispatch(type(model)) is not unit_gram.dispatch(Model)


@singledispatch
def sampling_rule(model: Model, data: Data, masks: MaskLaw, method: MonteCarlo, loss: Loss) -> Estimate:
    """The penalty from random masks."""
    return sampled(model, data, masks, method, loss)
