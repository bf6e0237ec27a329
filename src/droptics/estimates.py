"""What an answer looks like: a number together with its interval, the method that made it and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Estimate:
    """A number with its evidence.

    Attributes:
        value: The number, differentiable where the mathematics is; a batch of numbers for batched models.
        lower: Lower end of the interval; equal to `value` for exact methods.
        upper: Upper end of the interval.
        method: How it was computed, in words.
        cost: How many times the model was evaluated on the whole data (1 for a closed form).
        confidence: Coverage of the interval; 1 for exact methods.
        guaranteed: A second interval that holds at the same confidence for every sample size, without the normal
            approximation; None when no such bound is known (unbounded masks, unknown model family).
    """

    value: Tensor
    lower: Tensor
    upper: Tensor
    method: str
    cost: int
    confidence: float = 1.0
    guaranteed: tuple[Tensor, Tensor] | None = None

    @staticmethod
    def exact(value: Tensor, method: str, cost: int = 1) -> Estimate:
        """An exactly computed number: the interval is the number itself."""
        return Estimate(value, value.detach(), value.detach(), method, cost)

    @property
    def interval(self) -> tuple[Tensor, Tensor]:
        """The pair (lower, upper)."""
        return self.lower, self.upper

    def shift(self, offset: Tensor) -> Estimate:
        """The same estimate of `value + offset`, for an offset that is known exactly."""
        known = offset.detach()
        guaranteed = None if self.guaranteed is None else (self.guaranteed[0] + known, self.guaranteed[1] + known)
        return Estimate(
            self.value + offset,
            self.lower + known,
            self.upper + known,
            self.method,
            self.cost,
            self.confidence,
            guaranteed,
        )

    def __float__(self) -> float:
        return float(self.value.detach())

    def __repr__(self) -> str:
        if self.value.numel() != 1:
            return f"Estimate(values of shape {tuple(self.value.shape)}, {self.method})"
        value = float(self)
        if self.confidence == 1.0:
            return f"Estimate({value:.6g}, {self.method})"
        low, high = float(self.lower), float(self.upper)
        return f"Estimate({value:.6g} in [{low:.6g}, {high:.6g}] at {self.confidence:.0%}, {self.method})"


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

    value: float
    terms: Mapping[str, float]
    claim: str
    trivial: float = float("inf")
    needed: Mapping[str, float] = field(default_factory=dict)

    @property
    def vacuous(self) -> bool:
        """True when the bound is no better than what is known without it."""
        return not self.value < self.trivial
