"""What an answer looks like: a number together with its interval, the method that made it and what it cost."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

# An error bound, or how to compute it when it is asked for: it may take longer than the number itself.
Error = Tensor | float | Callable[[], Tensor | float]


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number with its evidence.

    Attributes:
        value: The number, differentiable where the mathematics is; a batch of numbers for batched models.
        lower: Lower end of the interval, in which rounding is allowed for; of certified bounds, the lower one.
        upper: Upper end of the interval.
        method: How it was computed, in words.
        cost: How many times the model was evaluated on the whole data (1 for a closed form).
        confidence: Coverage of the interval; 1 for exact methods.
        guaranteed: An interval that holds at the same confidence for every sample size, without the normal
            approximation; None when no such bound is known (unknown model family). Computed when it is first read,
            and None where weights or data have been changed in place by then.
        error: How far rounding can have moved the value: a bound that follows from the sums that were done, zero
            where nothing was rounded and infinite where no bound is known. An exact method's interval is
            value -+ error. Both are computed when they are first read; where the weights or data have been changed
            in place by then, nothing is known any more and the error is infinite.
    """

    judged: ClassVar = "value"  # where no bound on the rounding is known the interval is the whole line
    value: Tensor
    lower: Tensor
    upper: Tensor
    method: str
    cost: int
    confidence: float = 1.0
    # factories, because a default would stand in the class and hide what is still to be computed
    guaranteed: tuple[Tensor, Tensor] | None = field(default_factory=lambda: None)
    error: Tensor | float = field(default_factory=float)

    @staticmethod
    def exact(value: Tensor, method: str, cost: int = 1, error: Error = 0.0) -> Estimate:
        """An exactly computed number: only rounding, by at most `error`, stands between it and the truth."""

        def interval() -> dict[str, Any]:
            fixed, bound = value.detach(), resolved(error)
            return {"lower": fixed - bound, "upper": fixed + bound, "error": bound}

        known = {"value": value, "method": method, "cost": cost, "guaranteed": None, "_exact": True}
        return Estimate.later(known, interval)

    @staticmethod
    def later(known: Mapping[str, Any], *rest: Callable[[], dict[str, Any]]) -> Estimate:
        """An estimate of which some fields are known; the others are computed when one of them is read.

        Each function of `rest` returns some of the fields, without derivative; the first one that knows it is asked.
        """
        answer = object.__new__(Estimate)
        answer.__dict__.update(known, _rest=rest)
        answer.__dict__.setdefault("confidence", 1.0)
        return answer

    def __getattr__(self, name: str) -> Any:
        """Called for what is still to be computed."""
        while name in self.__dataclass_fields__ and self.__dict__.get("_rest"):
            compute, *rest = self.__dict__["_rest"]
            with torch.no_grad():
                self.__dict__.update(compute())
            self.__dict__["_rest"] = rest  # what it was computed from is free
            if name in self.__dict__:
                return self.__dict__[name]
        raise AttributeError(f"Estimate has no attribute {name!r}")

    def __getstate__(self) -> dict[str, Any]:
        """All fields as numbers, for copies and pickles."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def interval(self) -> tuple[Tensor, Tensor]:
        """The pair (lower, upper)."""
        return self.lower, self.upper

    def shift(self, offset: Tensor, error: Error = 0.0) -> Estimate:
        """The same estimate of `value + offset`, for an offset that is known up to a rounding of `error`."""
        value = self.value + offset

        @functools.cache
        def rounding() -> Tensor | float:
            # the sum itself is rounded, by half a unit in the last place of the result
            return resolved(error) + torch.finfo(value.dtype).eps * value.detach().abs()

        if "_exact" in self.__dict__:
            return Estimate.exact(value, self.method, self.cost, lambda: self.error + rounding())

        def interval() -> dict[str, Any]:
            known = offset.detach()
            low, high = self.lower + known - rounding(), self.upper + known + rounding()
            return {"lower": low, "upper": high, "error": self.error + rounding()}

        def safe() -> dict[str, Any]:
            if self.guaranteed is None:
                return {"guaranteed": None}
            low, high = (end + offset.detach() for end in self.guaranteed)
            return {"guaranteed": (low - rounding(), high + rounding())}

        known = {"value": value, "method": self.method, "cost": self.cost, "confidence": self.confidence}
        return Estimate.later(known, interval, safe)

    def __float__(self) -> float:
        return float(self.value.detach())

    def __repr__(self) -> str:
        if self.value.numel() != 1:
            return f"Estimate(values of shape {tuple(self.value.shape)}, {self.method})"
        value, low, high, error = float(self), float(self.lower), float(self.upper), float(self.error)
        shown = f"{value:.6g} in [{low:.6g}, {high:.6g}]"
        if self.confidence < 1.0:
            shown += f" at {self.confidence:.0%}"
        elif not high - low > 4 * error:  # the ends meet; an error that changes none of the digits is not shown
            shown = f"{value:.6g}" if error <= 5e-7 * abs(value) else f"{value:.6g} +- {error:.2g}"
        return f"Estimate({shown}, {self.method})"


@dataclass(frozen=True)
class PlainEstimate:
    """An estimate in plain floats, so that reports compare, merge and become JSON; `method` says how it was found."""

    value: float
    lower: float
    upper: float
    method: str

    @staticmethod
    def exact(value: float, method: str = "exact") -> PlainEstimate:
        """A number without uncertainty."""
        return PlainEstimate(value, value, value, method)


def resolved(error: Error) -> Tensor | float:
    """The error bound itself, without derivative. Cost: that of the bound. Claim: none, it evaluates."""
    if not callable(error):
        return error
    with torch.no_grad():
        return error()


@dataclass(frozen=True)
class Bound:
    """An inequality evaluated on numbers: its value, every ingredient by name, and the claim it rests on.

    Attributes:
        value: The right-hand side.
        terms: The ingredients that add up to (or multiply to) the value, by name.
        claim: Id of the statement.
        trivial: The value at which the bound says nothing (the largest possible loss, for instance).
        needed: For each resource (examples, width, steps) the amount at which the bound would stop being vacuous.
    """

    judged: ClassVar = ""  # an infinite bound says that it is vacuous
    value: float
    terms: Mapping[str, float]
    claim: str
    trivial: float = float("inf")
    needed: Mapping[str, float] = field(default_factory=dict)

    @property
    def vacuous(self) -> bool:
        """True when the bound is no better than what is known without it."""
        return not self.value < self.trivial
