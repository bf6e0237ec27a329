"""Search and verification of a perceptron with one hidden layer on a GPU: a handful of launches and one question.

A step of such a search takes the device some microseconds, about what every launch takes the host: what surrounds the
one launch that takes all steps costs more than the steps, unless it is one launch, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate

import torch
from torch import Tensor

from droptics.attacks import launches
from droptics.attacks.ascent import Climbers
from droptics.attacks.device import ORDERED, kernel
from droptics.attacks.gradients import Differentiable, PlainMlp
from droptics.attacks.methods import Method, Pgd, step_sizes
from droptics.attacks.threat import Threat


@dataclass(eq=False)
class Verified:
    """What was found, evaluated again: the fields of `Attack`, and how many examples have each of these flaws.

    Attributes:
        points: Perturbed inputs.
        success: Which are wrong there.
        losses: The loss there.
        margins: The margin there.
        right: Which are right at their inputs.
        distances: How far the points are from the inputs.
        counts: Of the examples that are not finite at the points, at the inputs, outside the region, fooled in the
            search alone, right as they are, stuck, and fooled.
        tally: As that of a `Trail`.
    """

    points: Tensor
    success: Tensor
    losses: Tensor
    margins: Tensor
    right: Tensor
    distances: Tensor
    counts: list[int]
    tally: list[int]


def at_once(
    tape: Differentiable, inputs: Tensor, targets: Tensor, threat: Threat, method: Method, batch: int
) -> Callable[[], Verified | None] | None:
    """One run of `Pgd` from the inputs, verified, for which to wait; None where it does not apply.

    What is waited for is None, too, where the data are to be refused.
    """
    if not _applies(tape, inputs, targets, method, batch):
        return None
    assert isinstance(tape, PlainMlp)
    assert isinstance(method, Pgd)
    kind = kernel(method, threat, inputs)
    if kind is None:
        return None
    count, region = len(inputs), threat.around(inputs)
    sizes = step_sizes(method.step, method.steps, threat.radius, "decaying")
    both = inputs.new_empty(2, *inputs.shape)  # the inputs and the best points, judged by one pass
    value, fooled = inputs.new_empty(count), targets.new_empty(count, dtype=torch.bool)
    points, best = torch.empty_like(inputs), both[1]
    now = Climbers(targets, targets, None, region, points, None, value, fooled, best=best)
    course = launches.Course(sizes, kind, method.stop == "fooled")
    counts = launches.climb(now, tape, course, copies=both[0])
    outputs = tape.scores(both.flatten(0, 1)).view(2, count, -1).unbind()
    flags, numbers = launches.verify(now, outputs, counts, kind)
    success, right = flags
    losses, margins, distances = numbers

    def answer() -> Verified | None:
        asked = counts.tolist()  # the one question, which waits for all of the above
        seen, strange = asked[-launches.SEEN : -1], asked[-1]
        tally = [*accumulate(asked[: len(sizes) + 1]), asked[len(sizes) + 1]]
        return None if strange else Verified(best, success, losses, margins, right, distances, seen, tally)

    return answer


def _applies(tape: Differentiable, inputs: Tensor, targets: Tensor, method: Method, batch: int) -> bool:
    """Whether there is one run without an aim of a batch that the kernel takes; what is odd is left to others."""
    if not isinstance(tape, PlainMlp) or not isinstance(method, Pgd) or not launches.fits(tape.weights):
        return False
    first, last = tape.weights
    plain = method.restarts == 1 and method.start == "input"
    aimless = getattr(method.loss, "target", "greedy") == "greedy" or len(last) == 2
    whole = 0 < len(inputs) <= batch and len(inputs) < ORDERED and inputs.is_contiguous()
    fits = tape.takes(inputs) and inputs[0].numel() == first.shape[1] and first.device == inputs.device
    known = targets.dtype == torch.int64 and targets.shape == inputs.shape[:1] and targets.device == inputs.device
    return plain and aimless and whole and fits and known and first.dtype == inputs.dtype
