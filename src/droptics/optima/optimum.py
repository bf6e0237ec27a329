"""optimum and certify: the best that any model of a family can do, and how far a given model is from it.

Rules are registered by family, and subclasses inherit them: `optimum_rule.register(Family)` for a function of
(family, data, masks), `certify_bound.register` for a function of (model, data, masks). Both live beside the mathematics
they implement, in the other files of this room.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch

from droptics.answers import checked
from droptics.arguments import check_arguments
from droptics.data import Data, Moments
from droptics.errors import CertificateError, NoClosedForm
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.optima.objectives import energy, objective, own_rounding
from droptics.penalties.evaluation import check_triple

# What counts as rounding of a value computed in float64, relative to the scale of a problem.
ROUNDING = 1e-9
BELOW = "the objective is below the bound by rounding of the data"


class _Bounded:
    """An objective and a lower bound: how far they are apart, and whether rounding explains it."""

    objective: float
    bound: float
    scale: float
    tolerance: float

    @property
    def gap(self) -> float:
        """How far the objective is above the bound: at most this much can be gained by any other weights."""
        return self.objective - self.bound

    @property
    def certified(self) -> bool:
        """Whether the gap is explained by rounding, so that the model is a global optimum."""
        return abs(self.gap) <= self._level

    @property
    def _level(self) -> float:
        return self.tolerance * max(self.scale, abs(self.objective))


@dataclass(frozen=True, eq=False, repr=False)
class Optimum(_Bounded):
    """A best model with its certificate.

    Attributes:
        model: The model found.
        objective: Its criterion (risk + penalty), evaluated on the model itself, not on the formula.
        bound: A proved lower bound on the criterion of every model of the same shape.
        rank: Rank of its map.
        claim: Id of the statement that the bound rests on.
        scale: Size of the numbers that were added and subtracted; rounding is measured against it.
        tolerance: What counts as rounding, relative to the scale: 1e-9, more for moments given in float32.
        method: How the model was found: "closed form", or the search that was needed where there is none.
        slack: How much of the gap is what rounding of the data may have taken off the bound, where that is known.
    """

    model: Model
    objective: float
    bound: float
    rank: int
    claim: str
    scale: float = 1.0
    tolerance: float = 1e-9
    method: str = "closed form"
    slack: float = 0.0

    @property
    def reason(self) -> str | None:
        """Why the optimum is not certified, None where it is."""
        if self.certified:
            return None
        if self.gap < 0:
            return BELOW
        if self.gap <= self.slack + self._level:
            return (
                f"rounding of the data leaves {self.slack:.2g} of the bound open; give them as float64 or as a Sample, "
                "drop inputs that others repeat, or give `Moments` the rank that you know of"
            )
        if self.method != "closed form":
            return f"found by a search ({self.method}), and nothing may attain the bound"
        return f"the bound is not attained by factors of this width in {str(self.model.dtype).removeprefix('torch.')}"

    def __repr__(self) -> str:
        reason = self.reason
        state = "certified" if reason is None else f"not certified, bound {self.bound:.6g}: {reason}"
        return f"Optimum({type(self.model).__name__} of rank {self.rank}, objective {self.objective:.6g}, {state})"


@dataclass(frozen=True)
class Certificate(_Bounded):
    """How far a given model is from the global optimum; its fields are those of `Optimum` that need no other model."""

    objective: float
    bound: float
    claim: str
    scale: float = 0.0
    tolerance: float = ROUNDING

    @property
    def reason(self) -> str | None:
        """Why the model is not certified as a global optimum, None where it is."""
        if self.certified:
            return None
        if self.gap < 0:
            return BELOW
        return f"nothing proves that no other weights gain up to {self.gap:.2g}; `optimum` says whether a network does"

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the bound; infinite when the bound is not positive and the gap is."""
        if self.gap <= 0:
            return 0.0
        return self.gap / self.bound if self.bound > 0 else math.inf


def rounding(dtype: torch.dtype, data: Data | None = None) -> float:
    """What counts as rounding relative to the scale of a problem: of weights, and of second moments as they came.

    Weights off by u move the criterion of an optimum, a stationary point, by some u^2 only. d x d moments off by r move
    it by (8 / 7) d r (|y| + |W|)^2, every feature in its own units: below 32 d r |y|^2 for |W| <= 4 |y|.
    """
    given = 32 * data.xx.shape[0] * data.rounding if isinstance(data, Moments) else 0.0
    return max(ROUNDING, 64 * torch.finfo(dtype).eps ** 2, given)


def check_certified(found: Optimum) -> Optimum:
    """Return an optimum whose bound is one; an objective below it by more than rounding is refused.

    A gap above rounding is no error: `Optimum.certified` is False and the gap says how much is not known.
    """
    _check_gap(found.objective, found.bound, found.scale)
    return found


def _check_gap(objective: float, bound: float, scale: float, own: float = 0.0) -> None:
    """Refuse a bound above the objective of a model; `own` is what rounding of the data may do to this model's."""
    if bound - objective > ROUNDING * max(scale, abs(objective)) + own or math.isnan(objective - bound):
        raise CertificateError(
            f"the model has objective {objective:.12g} but the bound is {bound:.12g}: more than rounding at scale "
            f"{scale:.3g}; the data do not determine the problem at this precision, drop inputs that others repeat"
        )


@singledispatch
def optimum_rule(family: Any, data: Data, masks: MaskLaw) -> Optimum:
    """The best model of a family: the rule of the class that is asked for, not of its type."""
    known = ", ".join(sorted(item.__name__ for item in optimum_rule.registry if item is not object))
    raise NoClosedForm(f"no optimum is known for {getattr(family, '__name__', family)}; families with one: {known}")


def optimum(family: type[Model], data: Data, masks: MaskLaw) -> Optimum:
    """The global optimum of risk + penalty over all models of a family, with its certificate.

    The widths are those that the mask law covers, the other shapes those of the data.
    Cost: a whitening O(n d^2 + d^3) and one singular value decomposition, where the law has a closed form.
    Claim: `Optimum.claim` says which; mianjy2018-thm3.6, pal2020-thm2.6 and droptics-any-law are the most common.
    """
    check_arguments(optimum, locals())
    rule = optimum_rule.dispatch(family if isinstance(family, type) else object)
    return check_certified(rule(family, data, masks))


@singledispatch
def certify_bound(model: Model, data: Data, masks: MaskLaw) -> tuple[float, str]:
    """A lower bound on the criterion of every model with the shapes of this one, and the claim it rests on."""
    raise NoClosedForm(f"no lower bound is known for {type(model).__name__}; use LastLayer.of for a torch module")


@checked
def certify(model: Model, data: Data, masks: MaskLaw) -> Certificate:
    """How far the criterion of a given model is above a proved lower bound for all models of its shape.

    Objective and bound are float64 for data of any precision, and the bound is lowered by its own rounding. A bound
    above the objective by more than rounding raises CertificateError. Cost: that of `optimum` without its factors, and
    of `criterion`. Claim: that of `optimum`, see mianjy2018-thm3.6, pal2020-thm2.6 and droptics-any-law.
    """
    check_triple(model, data, masks)
    bound, claim = certify_bound(model, data, masks)
    value, scale = objective(model, data, masks), energy(data)
    if not value >= bound:
        _check_gap(value, bound, scale, own_rounding(model, data))
    return Certificate(value, bound, claim, scale, rounding(model.dtype, data))
