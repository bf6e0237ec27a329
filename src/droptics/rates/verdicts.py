"""Which rates can be told apart: losses compared example by example, and what may be concluded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

Verdict = Literal["resolved", "flat", "at the edge"]
ERRORS = 2.0  # differences beyond so many standard errors are told apart


@dataclass(frozen=True)
class Difference:
    """Mean of a - b over examples and seeds, and its standard error."""

    value: float
    error: float

    @property
    def clear(self) -> bool:
        """Whether a is told apart as the larger one."""
        return self.value > ERRORS * self.error and self.value > 0


def compare(a: Tensor, b: Tensor) -> Difference:
    """Paired difference of losses (seeds, examples).

    The error counts examples, and seeds where there are at least two; from one seed nothing is known about how much
    another one would change the difference.
    """
    gaps = a - b
    mean = float(gaps.mean())
    if not math.isfinite(mean):
        return Difference(math.inf if mean != -math.inf else -math.inf, 0.0)
    seeds, examples = gaps.shape
    square = float(gaps.mean(0).var(unbiased=True)) / examples
    if seeds > 1:
        square += float(gaps.mean(1).var(unbiased=True)) / seeds
    return Difference(mean, math.sqrt(square))


def standard_error(losses: Tensor) -> float:
    """Of the mean of losses (seeds, examples)."""
    return compare(losses, losses * 0).error


def judge(rates: Sequence[float], losses: Sequence[Tensor], constant: Tensor | None) -> tuple[int, Verdict, str]:
    """The best of rates in ascending order by their losses (seeds, examples): index, verdict and the reason in words.

    "flat": nothing is gained, because no rate does better than a constant output, or the best does no better than the
    lowest rate. "at the edge": no higher rate is told apart as worse, or the lowest rate, which is not zero, is the
    best. "resolved": the best rate is better than the lowest, and a higher one is worse, by two standard errors each.
    """
    best = min(range(len(rates)), key=lambda i: float(losses[i].mean()))
    why = _nothing_gained(rates, losses, constant, best)
    if why:
        return best, "flat", why
    rate = rates[best]
    if best == 0:
        return best, "at the edge", f"the lowest rate tried, {rate:g}, is the best: try lower ones, and 0"
    if not any(compare(losses[i], losses[best]).clear for i in range(best + 1, len(rates))):
        return best, "at the edge", f"no rate above {rate:g} was told apart as worse: try higher ones"
    return best, "resolved", f"{rate:g} is better than {rates[0]:g}, and a higher rate is worse"


def _nothing_gained(rates: Sequence[float], losses: Sequence[Tensor], constant: Tensor | None, best: int) -> str:
    """Why the answer is "flat"; empty where it is not."""
    if not math.isfinite(float(losses[best].mean())):
        return "every copy diverged"
    if constant is not None and not compare(constant[None], losses[best]).clear:
        return "no rate does better than the best constant output: nothing was learned that generalizes"
    if not any(compare(losses[i], losses[best]).clear for i in range(len(rates)) if i != best):
        return "the rates tried cannot be told apart"
    if best == 0:
        return "no rate does better than no dropout" if rates[0] == 0 else ""
    if not compare(losses[0], losses[best]).clear:
        none = "no dropout" if rates[0] == 0 else f"the lowest rate, {rates[0]:g}"
        return f"{rates[best]:g} cannot be told apart from {none}"
    return ""


def alike(losses: Sequence[Tensor], best: int) -> list[bool]:
    """Which rates cannot be told apart from the best."""
    return [i == best or not compare(other, losses[best]).clear for i, other in enumerate(losses)]
