"""Step-size schedules: functions of the step that start at one and multiply the step size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from droptics.arguments import Count, Positive, Whole, check_arguments, checked_fields

Schedule = Callable[[int], float]


@dataclass(frozen=True)
@checked_fields
class Inverse:
    """1 / (1 + step / scale): the decay under which single-sample steps lose their noise floor."""

    scale: Positive

    def __call__(self, step: int) -> float:
        return 1.0 / (1.0 + step / self.scale)


@dataclass(frozen=True)
@checked_fields
class Cosine:
    """(1 + cos(pi step / steps)) / 2, zero from `steps` on."""

    steps: Count

    def __call__(self, step: int) -> float:
        return 0.5 * (1.0 + math.cos(math.pi * min(step / self.steps, 1.0)))


@dataclass(frozen=True)
@checked_fields
class Staircase:
    """factor^(step // every): constant between drops."""

    every: Count
    factor: Positive

    def __call__(self, step: int) -> float:
        return float(self.factor ** (step // self.every))


def constant(step: int) -> float:
    """No decay."""
    return 1.0


def with_previous(steps: Sequence[Whole]) -> tuple[int, ...]:
    """The given steps and those before them: at records one step apart "loss" is the loss of a single step.

    Its mean over fresh masks and samples is the objective recorded one step before.

    Cost: O(steps). Claim: none, a choice of steps.

    >>> with_previous([0, 5, 6])
    (0, 4, 5, 6)
    """
    check_arguments(with_previous, locals())
    return tuple(sorted({max(step - back, 0) for step in steps for back in (0, 1)}))


def log_steps(steps: Count, count: Count = 50) -> tuple[int, ...]:
    """At most `count` + 1 steps from 0 to `steps`, evenly spaced in the logarithm where they are whole numbers.

    Cost: O(count). Claim: none, a choice of steps.

    >>> log_steps(1000, 4)
    (0, 1, 10, 100, 1000)
    """
    check_arguments(log_steps, locals())
    ratios = (position / max(count - 1, 1) for position in range(count))
    return (0, *sorted({round(steps**ratio) for ratio in ratios if count > 1} | {steps}))
