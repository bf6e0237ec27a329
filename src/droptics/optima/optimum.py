"""optimum and certify: the best that any model of a family can do, and how far a given model is from it.

Rules are registered by family: `@optimum_rule(Family)` for a function of (data, masks), `certify_bound.register` for
a function of (model, data, masks). Both live beside the mathematics they implement, in the other files of this room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import singledispatch

from droptics.data import Data
from droptics.errors import NoClosedForm
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.penalties import criterion
from droptics.penalties.penalty import check_triple


@dataclass(frozen=True, eq=False)
class Optimum:
    """A best model with its certificate.

    Attributes:
        model: The model found.
        objective: Its criterion (risk + penalty), evaluated on the model itself, not on the formula.
        bound: A proved lower bound on the criterion of every model of the same shape.
        rank: Rank of its map.
        claim: Id of the statement that the bound rests on.
        scale: Size of the numbers that were added and subtracted; rounding is measured against it.
    """

    model: Model
    objective: float
    bound: float
    rank: int
    claim: str
    scale: float = 1.0

    @property
    def gap(self) -> float:
        """How far the objective is above the bound; at rounding level when the optimum is certified."""
        return self.objective - self.bound

    @property
    def certified(self) -> bool:
        """Whether the gap is explained by rounding, so that the model is a global optimum."""
        return self.gap <= 1e-9 * max(self.scale, abs(self.objective))


@dataclass(frozen=True)
class Certificate:
    """How far a given model is from the global optimum.

    Attributes:
        objective: Criterion of the model.
        bound: Proved lower bound on the criterion of every model of the same shape.
        claim: Id of the statement that the bound rests on.
    """

    objective: float
    bound: float
    claim: str

    @property
    def gap(self) -> float:
        """At most this much can be gained by any other weights."""
        return self.objective - self.bound

    @property
    def relative_gap(self) -> float:
        """The gap as a share of the bound; infinite when the bound is zero and the gap is not."""
        if self.gap <= 0:
            return 0.0
        return self.gap / self.bound if self.bound > 0 else float("inf")


Rule = Callable[[Data, MaskLaw], Optimum]
_RULES: dict[type[Model], Rule] = {}


def optimum_rule(family: type[Model]) -> Callable[[Rule], Rule]:
    """Register the function that finds the optimum of a family."""

    def register(rule: Rule) -> Rule:
        _RULES[family] = rule
        return rule

    return register


def optimum(family: type[Model], data: Data, masks: MaskLaw) -> Optimum:
    """The global optimum of risk + penalty over all models of a family, with its certificate.

    The widths are those that the mask law covers, the other shapes those of the data.
    """
    if not isinstance(masks, MaskLaw):
        raise ValueError(f"masks must be a droptics MaskLaw, got {type(masks).__name__}")
    if not isinstance(data, Data):
        raise ValueError(f"data must be a droptics Data, got {type(data).__name__}")
    rule = _RULES.get(family)
    if rule is None:
        known = ", ".join(sorted(item.__name__ for item in _RULES))
        raise NoClosedForm(f"no optimum is known for {getattr(family, '__name__', family)}; families with one: {known}")
    return rule(data, masks)


@singledispatch
def certify_bound(model: Model, data: Data, masks: MaskLaw) -> tuple[float, str]:
    """A lower bound on the criterion of every model with the shapes of this one, and the claim it rests on."""
    raise NoClosedForm(f"no lower bound is known for {type(model).__name__}; use LastLayer.of for a torch module")


def certify(model: Model, data: Data, masks: MaskLaw) -> Certificate:
    """How far the criterion of a given model is above a proved lower bound for all models of its shape."""
    check_triple(model, data, masks)
    bound, claim = certify_bound(model, data, masks)
    return Certificate(float(criterion(model, data, masks)), bound, claim)
