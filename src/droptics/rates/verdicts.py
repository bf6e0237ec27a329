"""Which rates can be told apart: losses compared example by example, and what may be concluded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from scipy.special import stdtrit
from torch import Tensor

Verdict = Literal["resolved", "flat", "at the edge"]
ERRORS = 2.0  # differences beyond so many standard errors are told apart
SIZE = 0.05  # how often a gain that is none may pass


@dataclass(frozen=True)
class Difference:
    """Mean of a - b over examples and seeds, its standard error, and the degrees of freedom of that error."""

    value: float
    error: float
    freedom: float = math.inf

    @property
    def clear(self) -> bool:
        """Whether a is told apart as the larger one."""
        return self.value > ERRORS * self.error and self.value > 0

    @property
    def sure(self) -> bool:
        """Whether a is the larger one by Student's test, which says so of equals in 5 of 100 cases at most."""
        return self.value > float(stdtrit(self.freedom, 1 - SIZE)) * self.error and self.value > 0


def compare(a: Tensor, b: Tensor) -> Difference:
    """Paired difference of losses (seeds, examples).

    The error counts examples, and seeds where there are at least two; from one seed nothing is known about how much
    another one would change the difference. Degrees of freedom are Satterthwaite's for a sum of two variances.
    """
    gaps = a - b
    mean = float(gaps.mean())
    if not math.isfinite(mean):
        return Difference(math.inf if mean != -math.inf else -math.inf, 0.0)
    parts = [(float(gaps.mean(1 - i).var(unbiased=True)) / n, n - 1) for i, n in enumerate(gaps.shape) if n > 1]
    square = sum(part for part, _ in parts)
    shares = [(part / square) ** 2 / free for part, free in parts if 0 < part < math.inf and square < math.inf]
    return Difference(mean, math.sqrt(square), 1 / sum(shares) if shares else math.inf)


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
