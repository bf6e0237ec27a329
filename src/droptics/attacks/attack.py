"""attack(model, data, threat, method): search, then trust nothing and verify what came back."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import scipy
import torch
from torch import Tensor

from droptics.arguments import Count, Probability, Whole, check_arguments
from droptics.attacks.apgd import for_some
from droptics.attacks.ascent import Trail, stuck
from droptics.attacks.at_once import Verified, at_once, judged_at_once
from droptics.attacks.gradients import Differentiable, Function, PlainMlp
from droptics.attacks.known import Known
from droptics.attacks.losses import Ends, check_problem, label_range, mistaken, unfinite, values
from droptics.attacks.methods import Fab, LinearExact, Method
from droptics.attacks.search import joined, search, tape_of, textbook
from droptics.attacks.threat import Region, Threat
from droptics.data import Sample
from droptics.errors import CertificateError
from droptics.estimates import Estimate
from droptics.losses import CrossEntropy, Logistic, Loss
from droptics.models import Model
from droptics.models.modules import evaluating
from droptics.progress import tracked

_MANY = 0.1  # share of the attacked examples from which an observation is worth a warning


class WeakAttackWarning(UserWarning):
    """The attack may be weaker than it looks: the robust accuracy it reports is not to be relied on."""


@dataclass(frozen=True, eq=False)
class Attack:
    """What an attack found, recomputed from the perturbed inputs in eval mode.

    Attributes:
        inputs: Perturbed inputs, inside the ball and the box.
        success: Which examples the model gets wrong at the perturbed input (also those it got wrong before).
        losses: The method's loss at the perturbed inputs (cross-entropy or logistic for the closed form).
        margins: Margin at the perturbed inputs; negative where the attack succeeded.
        clean_correct: Which examples the model gets right at the original input.
        radius: Distance of each perturbed input from the original one, in the threat's norm.
        threat: The threat.
        method: The method.
        warnings: Reasons to doubt the strength of the attack, in words.
        rates: Share of examples that were wrong at what would have been returned after each step. It never falls for
            Pgd, which keeps the best iterate.
        gradients: Input gradients computed, summed over the examples.
        queries: Forward passes of a search without gradients, summed over the examples.
    """

    inputs: Tensor
    success: Tensor
    losses: Tensor
    margins: Tensor
    clean_correct: Tensor
    radius: Tensor
    threat: Threat
    method: Method
    warnings: tuple[str, ...] = ()
    rates: tuple[float, ...] = field(default=())
    gradients: int = 0
    queries: int = 0

    def clean_accuracy(self, confidence: float = 0.95) -> Estimate:
        """Share of examples the model gets right, with its exact binomial interval."""
        return proportion(int(self.clean_correct.sum()), len(self.clean_correct), confidence)

    def robust_accuracy(self, confidence: float = 0.95) -> Estimate:
        """Share of examples the attack could not fool: an upper bound of the robust accuracy of these examples.

        The interval is the exact binomial one for the accuracy under this attack on fresh examples.
        """
        return proportion(int((~self.success).sum()), len(self.success), confidence)


def attack(
    model: Model | Function,
    data: Sample,
    threat: Threat,
    method: Method,
    *,
    batch: Count = 1000,
    generator: torch.Generator | None = None,
) -> Attack:
    """Find perturbed inputs that a model gets wrong, and verify them.

    The model is any torch callable or module that maps (n, ...) to (n, classes), or to (n,) or (n, 1) for a scorer
    with labels -1 and +1, or a droptics Model. A module is put into eval mode for the time of the attack and every
    part of it back into its own mode. The result is recomputed from the perturbed inputs: they are finite and inside
    ball and box, and success, loss and margin are those of a fresh evaluation. `WeakAttackWarning` is issued, and
    kept in the result, when gradients vanish on many examples, when the model is not deterministic, or when success
    falls as the steps grow.

    Cost: the passes of the method, and one more to verify. Claim: none, every point is re-evaluated.

    Args:
        model: What to attack.
        data: Examples with class labels, or with targets -1 and +1 for a scorer; inputs of any shape.
        threat: Norm, radius and box.
        method: `Fgsm`, `Bim`, `Pgd`, `Apgd`, `Fab`, `Square` or `LinearExact`.
        batch: Examples per batch.
        generator: Source of the random starts; without it the method's seed.

    Raises:
        ValueError: For labels out of range, inputs outside the box, or a loss that does not fit the outputs.
        CertificateError: If a method returned a point that is not reachable.
    """
    check_arguments(attack, locals())
    return verified(model, data, threat, method, batch, generator)


def verified(  # parameters: those of `attack`, and what its caller knows of the model already
    model: Model | Function,
    data: Sample,
    threat: Threat,
    method: Method,
    batch: int,
    generator: torch.Generator | None,
    *,
    known: Known | None = None,
) -> Attack:
    """`attack` of checked arguments."""
    if not isinstance(data, Sample) or data.weights is not None:
        check_data(data, threat)
    known = Known() if known is None else known
    inputs, targets, unsteady, queries, total = data.inputs.detach(), data.targets, False, 0, data.inputs.shape[0]

    def step_by_step() -> Verified:
        nonlocal unsteady, queries
        known.ends = check_data(data, threat)[0] if known.ends is None else known.ends
        searched = model if isinstance(method, LinearExact) else tape
        unsteady = _changes(tape, inputs[: 0 if known.steady else min(64, batch)])
        draws = generator
        if draws is None and getattr(method, "seed", None) is not None:
            draws = torch.Generator(inputs.device).manual_seed(method.seed)  # type: ignore[union-attr]
        ends = ((begin, begin + batch) for begin in tracked(range(0, total, batch), "attack", "batch"))
        parts = ((inputs[a:b], targets[a:b], threat, for_some(method, a, b), draws, known.slice(a, b)) for a, b in ends)
        trail = joined([search(searched, *part) for part in parts])
        clean = trail.clean if known.clean is None else known.clean
        clean = known.clean = _in_batches(tape.scores, inputs, batch) if clean is None else clean
        outputs, queries = _in_batches(tape.scores, trail.inputs, batch), trail.queries
        fitting = Logistic() if clean.shape[-1] == 1 else CrossEntropy()
        loss = fitting if isinstance(method, (LinearExact, Fab)) else method.loss
        check_problem(loss, clean, targets, known.ends)
        found = trail, Region(threat, inputs), targets, loss, clean, outputs
        return judged_at_once(*found) or _judged(*found)

    with evaluating(None if known.held else model), torch.inference_mode(False):
        tape = tape_of(model, method)
        answer = at_once(tape, inputs, targets, threat, method, batch, known)
        found = step_by_step() if answer is None else None
    if answer is not None:  # asked for when the model has its modes back, which a GPU that searches does not wait for
        found = answer()
    if found is None:
        with evaluating(None if known.held else model), torch.inference_mode(False):
            found = step_by_step()
    *counts, successes = found.counts
    last = [successes] if textbook(method) else []  # such a search does not look at its last point
    rates = [number / total for number in (*found.tally[:-1], *last)]
    doubts = _verdict(unsteady, counts, rates, total, threat)
    for doubt in doubts:
        python_warnings.warn(doubt, WeakAttackWarning, stacklevel=3)  # of `attack`'s caller
    judged = found.points, found.success, found.losses, found.margins, found.right, found.distances
    return Attack(*judged, threat, method, tuple(doubts), tuple(rates), found.tally[-1], queries)


def _judged(trail: Trail, region: Region, targets: Tensor, loss: Loss, clean: Tensor, outputs: Tensor) -> Verified:
    """What a search found, by outputs at the inputs and at the points that it returned."""
    points, distances = trail.inputs, region.threat.distance(trail.inputs, region.inputs)
    both = torch.stack((outputs, clean))
    wrong, odd = mistaken(both, targets), unfinite(both)
    held, right = ~wrong
    losses, margin = values(loss, outputs, targets)
    rounding = 100 * torch.finfo(outputs.dtype).eps * outputs.abs().amax(-1)
    outside, lost = ~region.contains(points, distances), trail.fooled & held & (margin > rounding)
    still = stuck(region.threat, points, region.inputs) & ~trail.fooled if trail.stuck is None else trail.stuck
    seen = (*odd, outside, lost, right, still & right & held, wrong[0])
    # All questions at once: on a GPU each answer waits for everything that was asked before.
    tally = trail.tally.to(points.device, torch.int64, non_blocking=True)
    asked = torch.cat([torch.stack(seen).sum(1), tally]).tolist()
    return Verified(points, wrong[0], losses, margin, right, distances, asked[: len(seen)], asked[len(seen) :])


def robustness_curve(
    model: Model | Function,
    data: Sample,
    threat: Threat,
    method: Method,
    radii: Sequence[float],
    *,
    batch: Count = 1000,
) -> list[float]:
    """Robust error at each radius, in the order given.

    The radii are attacked from the smallest to the largest, and an example that is fooled at one radius is fooled at
    every larger one, so each attack only works on the examples that are left and the curve never falls.

    Cost: one attack per radius on the examples that are left. Claim: none, every point is re-evaluated.
    """
    check_arguments(robustness_curve, locals())
    errors, left = {float(radius): 1.0 for radius in radii}, data
    for radius in sorted(errors):
        survivors = ~attack(model, left, Threat(threat.norm, radius, threat.box), method, batch=batch).success
        errors[radius] = 1.0 - int(survivors.sum()) / len(data)
        if errors[radius] == 1.0:  # and at all radii beyond
            break
        left = Sample(left.inputs[survivors], left.targets[survivors])
    return [errors[float(radius)] for radius in radii]


def proportion(count: Whole, total: Count, confidence: Probability = 0.95) -> Estimate:
    """A share of examples with its exact (Clopper-Pearson) binomial interval.

    Cost: two quantiles of a beta law. Claim: none, the interval is Clopper and Pearson's.
    """
    check_arguments(proportion, locals())
    if count > total:
        raise ValueError(f"count must be at most the total {total}, got {count}")
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else float(scipy.special.betaincinv(count, total - count + 1, tail))
    high = 1.0 if count == total else float(scipy.special.betaincinv(count + 1, total - count, 1 - tail))
    value, lower, upper = (torch.tensor(x, dtype=torch.float64) for x in (count / total, low, high))
    return Estimate(value, lower, upper, "binomial proportion", 1, confidence)


def check_data(data: Sample, threat: Threat) -> tuple[Ends, Ends]:
    """Refuse what cannot be attacked; returns the ends of the class labels, and of the inputs where there is a box."""
    if not isinstance(data, Sample):
        raise ValueError(f"data must be a Sample(inputs, targets), got {type(data).__name__}")
    if data.weights is not None:
        raise ValueError("data must not have weights: an attack counts every example once")
    labels = label_range(data.targets) or ()
    asked = [*(() if threat.box is None else data.inputs.aminmax()), *labels]
    small = data.inputs.dtype in (torch.float16, torch.bfloat16)  # labels would be rounded to these
    found = torch.stack([end.double() for end in asked] if small else asked).tolist() if asked else []
    span = None if threat.box is None else (found[0], found[1])
    if threat.box is not None and span is not None and (span[0] < threat.box[0] or span[1] > threat.box[1]):
        raise ValueError(
            f"inputs must lie in the box [{threat.box[0]}, {threat.box[1]}], got values from {span[0]} to {span[1]}; "
            "clip them or give the box of your data"
        )
    return (found[-2], found[-1]) if labels else None, span


def _in_batches(scores: Function, inputs: Tensor, batch: int) -> Tensor:
    parts = [scores(inputs[i : i + batch]).detach() for i in range(0, len(inputs), batch)]
    return parts[0] if len(parts) == 1 else torch.cat(parts)


def _changes(tape: Differentiable, inputs: Tensor) -> bool:
    """Whether outputs differ between two evaluations of the same inputs by more than rounding."""
    if isinstance(tape, PlainMlp) or len(inputs) == 0:
        return False
    first, second = tape.scores(inputs).detach(), tape.scores(inputs).detach()
    tolerance = 100 * torch.finfo(first.dtype).eps * first.abs().amax().nan_to_num()
    return not bool(((first - second).abs() <= tolerance).all())


def _verdict(unsteady: bool, counts: list[int], rates: list[float], total: int, threat: Threat) -> list[str]:
    """Raise if the result is not sound; reasons to think that the attack is weaker than it looks."""
    blown, odd, outside, lost, attacked, blocked = counts
    if odd:
        raise ValueError("model returns NaN or infinity on the unperturbed inputs; there is nothing to attack")
    if outside:
        raise CertificateError(f"{outside} perturbed inputs lie outside the threat or are not finite")
    doubts = []
    if blown:
        doubts.append(f"{blown} perturbed inputs count as fooled because the model returns NaN or infinity there")
    if unsteady:
        doubts.append(
            "the model is not deterministic in eval mode: two evaluations of the same inputs differ, so success is a "
            "matter of luck; average the model's randomness out before attacking it"
        )
    elif lost:
        doubts.append(
            f"{lost} examples were fooled in the search but not when evaluated again: "
            "the outputs of the model depend on the rest of the batch or on rounding"
        )
    if threat.radius > 0 and attacked and blocked > _MANY * attacked:
        doubts.append(
            f"gradients vanish on {blocked} of {attacked} attacked examples, which did not move: the loss is saturated "
            "or the model hides its gradients; use steepest steps, a reflected loss or a margin loss"
        )
    if rates and max(rates) - rates[-1] > max(0.02, 2 / total**0.5 * (max(rates) * (1 - max(rates))) ** 0.5):
        doubts.append(
            f"success falls as the steps grow, from {max(rates):.1%} to {rates[-1]:.1%}: the step is too large or the "
            "gradients point the wrong way; use a smaller or decaying step"
        )
    return doubts
