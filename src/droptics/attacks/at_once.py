"""Search and verification on a GPU in a handful of launches and one question.

A step of a small network takes the device some microseconds, about what every launch takes the host: what surrounds the
passes costs more than they do, unless it is few launches, too. A perceptron with one hidden layer takes all steps of
`Pgd` in one; of other networks one step is taken so, that of `Fgsm`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import accumulate

import torch
from torch import Tensor

from droptics.attacks import launches
from droptics.attacks.ascent import Climbers, Trail
from droptics.attacks.device import ORDERED, kernel, known_to_kernels
from droptics.attacks.gradients import Differentiable, PlainMlp
from droptics.attacks.known import NOTHING, Known
from droptics.attacks.losses import Margin, check_problem
from droptics.attacks.methods import Fgsm, Method, Pgd, step_sizes
from droptics.attacks.threat import Region, Threat
from droptics.losses import Loss


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


def at_once(  # parameters: those of a search, and what is known of them
    tape: Differentiable,
    inputs: Tensor,
    targets: Tensor,
    threat: Threat,
    method: Method,
    batch: int,
    known: Known = NOTHING,
) -> Callable[[], Verified | None] | None:
    """One run of `Pgd` from the inputs or one step of `Fgsm`, verified, for which to wait; None where neither applies.

    What is waited for is None, too, where the data are to be refused.
    """
    if isinstance(method, Fgsm) and known.steady and _whole(inputs, targets, batch):
        return _one_step(tape, threat.around(inputs), targets, method, known)
    if not _applies(tape, inputs, targets, method, batch):
        return None
    assert isinstance(tape, PlainMlp)
    assert isinstance(method, Pgd)
    kind = kernel(method, threat, inputs)
    if kind is None:
        return None
    count, region = inputs.shape[0], threat.around(inputs)
    sizes = tuple(step_sizes(method.step, method.steps, threat.radius, "decaying"))
    room = inputs.new_empty(3, *inputs.shape)
    points, copies, best = room.unbind()
    value, fooled = inputs.new_empty(count), targets.new_empty(count, dtype=torch.bool)
    now = Climbers(targets, targets, None, region, points, None, value, fooled, best=best)
    course = launches.Course(sizes, kind, method.stop == "fooled")
    counts = launches.climb(now, tape, course, copies=copies)
    outputs = tape.scores(room[1:].flatten(0, 1)).view(2, count, -1).unbind()  # the inputs and the best points
    flags, numbers = launches.verify(now, outputs, counts, kind)
    success, right = flags
    losses, margins, distances = numbers

    def answer() -> Verified | None:
        asked = counts.tolist()  # the one question, which waits for all of the above
        seen, strange = asked[-launches.SEEN : -1], asked[-1]
        tally = [*accumulate(asked[: len(sizes) + 1]), asked[len(sizes) + 1]]
        return None if strange else Verified(best, success, losses, margins, right, distances, seen, tally)

    return answer


def judged_at_once(
    trail: Trail, region: Region, targets: Tensor, loss: Loss, clean: Tensor, outputs: Tensor
) -> Verified | None:
    """What a search found, by outputs at the inputs and at its points, in one launch; None where it does not apply."""
    kind, points = known_to_kernels(loss, region.threat, region.inputs), trail.inputs
    fits = _whole(region.inputs, targets, len(targets)) and points.is_contiguous() and outputs.shape[-1] > 1
    if kind is None or not fits or outputs.dtype != torch.float32:
        return None
    counts = torch.zeros(launches.SEEN, dtype=torch.int64, device=points.device)
    now = Climbers(targets, targets, None, region, points, None, outputs, trail.fooled, best=points)
    flags, numbers = launches.verify(now, (clean.contiguous(), outputs.contiguous()), counts, kind)
    success, right = flags
    if trail.stuck is not None:
        counts[launches.STUCK] = (trail.stuck & right & ~success).sum()
    losses, margins, distances = numbers
    seen = counts.tolist()[:-1]
    return Verified(points, success, losses, margins, right, distances, seen, trail.tally.tolist())


def _applies(tape: Differentiable, inputs: Tensor, targets: Tensor, method: Method, batch: int) -> bool:
    """Whether there is one run without an aim of a batch that the kernel takes; what is odd is left to others."""
    if not isinstance(tape, PlainMlp) or not isinstance(method, Pgd) or not launches.fits(tape.weights):
        return False
    first, last = tape.weights
    plain = method.restarts == 1 and method.start == "input"
    aimless = getattr(method.loss, "target", "greedy") == "greedy" or len(last) == 2
    whole = _whole(inputs, targets, batch) and inputs.shape[0] < ORDERED
    fits = tape.takes(inputs) and inputs.shape[1:].numel() == first.shape[1] and first.device == inputs.device
    return plain and aimless and whole and fits and first.dtype == inputs.dtype


def _whole(inputs: Tensor, targets: Tensor, batch: int) -> bool:
    """Whether they are one batch of examples with class labels, as the kernels take them."""
    known = targets.dtype == torch.int64 and targets.shape == inputs.shape[:1] and targets.device == inputs.device
    return known and 0 < inputs.shape[0] <= batch and inputs.is_contiguous()


def _one_step(
    tape: Differentiable, region: Region, targets: Tensor, method: Fgsm, known: Known
) -> Callable[[], Verified | None] | None:
    """`Fgsm` up the margin, of labels that were looked at; the outputs at the inputs are known afterwards."""
    inputs, loss, given = region.inputs, method.loss, isinstance(method.start, Tensor)
    kind = known_to_kernels(loss, region.threat, inputs)
    greedy = type(loss) is Margin and loss.target == "greedy"
    if kind is None or not greedy or known.ends is None or (given and known.clean is None):
        return None
    points = method.start.to(inputs) if isinstance(method.start, Tensor) else inputs
    points = region.retract(points) if given and not known.left else points.clone()
    outputs = tape.forward(points)
    if outputs.shape[-1] == 1 or outputs.dtype != torch.float32:
        return None
    clean = known.clean if given and known.clean is not None else outputs
    check_problem(loss, clean, targets, known.ends)
    count, place = len(inputs), inputs.device
    numbers = torch.zeros(2 + launches.SEEN, dtype=torch.int64, device=place)
    wrong, nobody = torch.zeros(2, count, dtype=torch.bool, device=place)
    value = inputs.new_full((count,), -torch.inf)
    now = Climbers(targets, targets, None, region, points, None, value, wrong, best=torch.empty_like(points))
    sizes = launches.sizes_there((region.threat.radius,), place)
    stepper = launches.Stepper(now, sizes, numbers[:1], numbers[1:2], kind, False)
    stepper.move(tape.pull(stepper.judge(outputs)[1]))
    known.clean, now = clean, replace(now, best=points, fooled=nobody)
    pair = clean.contiguous(), tape.scores(points).detach().contiguous()
    (success, right), (losses, margins, distances) = launches.verify(now, pair, numbers, kind)

    def answer() -> Verified | None:
        asked = numbers.tolist()
        seen, strange, tally = asked[2:-1], asked[-1], [asked[1], count]
        return None if strange else Verified(points, success, losses, margins, right, distances, seen, tally)

    return answer
