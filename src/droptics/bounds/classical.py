"""The inequalities that the bounds of this room are assembled from: uniform deviation and concentration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from droptics.arguments import Examples, Extended, Finite, NonNegative, Positive, Probability, check_arguments
from droptics.estimates import Bound


def uniform(
    risk: NonNegative,
    complexity: Extended,
    examples: Examples,
    *,
    confidence: Probability = 0.95,
    empirical: bool = False,
) -> Bound:
    """Uniform deviation for losses in [0, 1] (thesis-thm18).

    With probability `confidence` = 1 - delta, for all members g of the class at once, E g is at most
    mean g + 2 R_n + sqrt(log(1/delta) / 2n), or mean g + 2 R_S + 3 sqrt(log(2/delta) / 2n) with the empirical
    Rademacher complexity R_S (`empirical=True`). Cost: O(1).
    """
    check_arguments(uniform, locals())
    failure = 1.0 - float(confidence)
    slack = 3 * tail(examples, failure / 2) if empirical else tail(examples, failure)
    return assemble(risk, 2 * complexity, slack, 1.0, examples, "thesis-thm18")


def squared(
    risk: NonNegative,
    complexity: Extended,
    examples: Examples,
    *,
    deviation: NonNegative = 2.0,
    confidence: Probability = 0.95,
    empirical: bool = False,
) -> Bound:
    """Uniform deviation for the squared loss with |prediction - target| <= M = `deviation` (thesis-thm19).

    E loss <= mean loss + 4 M R_n + M^2 sqrt(log(2/delta) / 2n); with the empirical complexity (`empirical=True`)
    the last term is three times as large. The loss is 2 M-Lipschitz, hence the factor 2 * 2M. Cost: O(1).
    """
    check_arguments(squared, locals())
    most = float(deviation) * float(deviation)  # infinite where the power would raise
    slack = (3 if empirical else 1) * most * tail(examples, (1.0 - float(confidence)) / 2)
    complexity_term = 4 * deviation * complexity if deviation else 0.0
    return assemble(risk, complexity_term, slack, most, examples, "thesis-thm19")


def hoeffding(deviation: Finite, ranges: Sequence[Extended]) -> float:
    """P(sum X_i >= t) <= exp(-2 t^2 / sum range_i^2) for independent centered X_i in intervals (thesis-thm17).

    Cost: O(number of ranges).
    """
    check_arguments(hoeffding, locals())
    spread = math.hypot(*ranges)
    if deviation <= 0:
        return 1.0
    ratio = float(deviation) / spread if spread else math.inf
    return math.exp(-2 * ratio * ratio)


def gaussian_tail(deviation: Finite, lipschitz: NonNegative) -> float:
    """P(f(z) - E f >= t) <= exp(-t^2 / (2 rho^2)) for z ~ N(0, I) and f rho-Lipschitz (thesis-thm21). Cost: O(1)."""
    check_arguments(gaussian_tail, locals())
    if deviation <= 0:
        return 1.0
    ratio = float(deviation) / float(lipschitz) if lipschitz else math.inf
    return math.exp(-ratio * ratio / 2)


def martingale(variance: NonNegative, largest: Positive, *, confidence: Probability = 0.95) -> float:
    """R ln(1/delta) + (e - 2) V / R, which a martingale with differences <= R exceeds rarely (thesis-thm22).

    Cost: O(1).
    """
    check_arguments(martingale, locals())
    failure = 1.0 - float(confidence)
    return largest * math.log(1 / failure) + (math.e - 2) * variance / largest


def tail(examples: float, failure: float) -> float:
    """sqrt(log(1 / failure) / 2n), the deviation of a mean of n numbers in [0, 1]."""
    return math.sqrt(math.log(1 / failure) / (2 * examples))


def assemble(risk: float, complexity: float, slack: float, trivial: float, examples: float, claim: str) -> Bound:
    """A bound whose terms add up; all but the empirical risk shrink as 1 / sqrt(examples)."""
    terms = {"empirical risk": risk, "complexity": complexity, "confidence": slack}
    needed = examples_needed(complexity + slack, trivial - risk, examples)
    return Bound(sum(terms.values()), terms, claim, trivial, {"examples": needed})


def examples_needed(gap: float, room: float, examples: float) -> float:
    """The sample size at which a gap that shrinks as 1 / sqrt(n) falls to `room`; infinite when there is none."""
    if gap == 0:
        return 1.0
    if not room > 0:
        return math.inf
    ratio = gap / room if gap < math.inf else math.inf
    return examples * ratio * ratio


def crossing(value_at: Callable[[float], float], trivial: float, start: float = 1.0) -> float:
    """The least amount, from `start` on, at which a falling bound is below `trivial`; infinite beyond 1e300."""
    if value_at(start) < trivial:
        return start
    high = start
    while not value_at(high) < trivial:
        high *= 2
        if high > 1e300:
            return math.inf
    low = high / 2
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (low, middle) if value_at(middle) < trivial else (middle, high)
    return high
