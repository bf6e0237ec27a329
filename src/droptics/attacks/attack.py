"""attack(model, data, threat, method): search, then trust nothing and verify what came back."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from scipy.stats import beta as beta_law
from torch import Tensor

from droptics.attacks.ascent import Trail
from droptics.attacks.gradients import Function, differentiable
from droptics.attacks.losses import check_problem, margins, mistaken
from droptics.attacks.methods import LinearExact, Method
from droptics.attacks.search import joined, search
from droptics.attacks.threat import Region, Threat
from droptics.checks import check_positive, check_probability
from droptics.data import Sample
from droptics.errors import CertificateError
from droptics.estimates import Estimate
from droptics.losses import CrossEntropy, Logistic
from droptics.models import Model
from droptics.models.modules import evaluating

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
    batch: int = 1000,
    generator: torch.Generator | None = None,
) -> Attack:
    """Find perturbed inputs that a model gets wrong, and verify them.

    The model is any torch callable or module that maps (n, ...) to (n, classes), or to (n,) or (n, 1) for a scorer
    with labels -1 and +1, or a droptics Model. A module is put into eval mode for the time of the attack and every
    part of it back into its own mode. The result is recomputed from the perturbed inputs: they are finite and inside
    ball and box, and success, loss and margin are those of a fresh evaluation. `WeakAttackWarning` is issued, and
    kept in the result, when gradients vanish on many examples, when the model is not deterministic, or when success
    falls as the steps grow.

    Args:
        model: What to attack.
        data: Examples with class labels, or with targets -1 and +1 for a scorer; inputs of any shape.
        threat: Norm, radius and box.
        method: `Fgsm`, `Bim`, `Pgd` or `LinearExact`.
        batch: Examples per batch.
        generator: Source of the random starts; without it the method's seed.

    Raises:
        ValueError: For labels out of range, inputs outside the box, or a loss that does not fit the outputs.
        CertificateError: If a method returned a point that is not reachable.
    """
    check_positive("batch", batch)
    _check_data(data, threat)
    inputs, targets = data.inputs.detach(), data.targets
    trails: list[Trail] = []
    with evaluating(model), torch.inference_mode(False):
        scores = differentiable(model).scores
        steady = _is_deterministic(scores, inputs[: min(64, batch)])
        if generator is None and getattr(method, "seed", None) is not None:
            generator = torch.Generator(inputs.device).manual_seed(method.seed)  # type: ignore[union-attr]
        for begin in range(0, len(data), batch):
            part = slice(begin, begin + batch)
            trails.append(search(model, inputs[part], targets[part], threat, method, generator))
        trail = joined(trails)
        points = trail.inputs
        clean = _in_batches(scores, inputs, batch) if trail.clean is None else trail.clean
        outputs = _in_batches(scores, points, batch)
    check_problem(_loss_of(method, clean), clean, targets)
    if not bool(torch.isfinite(clean).all()):
        raise ValueError("model returns NaN or infinity on the unperturbed inputs; there is nothing to attack")
    reachable = Region(threat, inputs, None, None).contains(points)
    if not bool(reachable.all()):
        raise CertificateError(f"{int((~reachable).sum())} perturbed inputs lie outside the threat or are not finite")
    success = mistaken(outputs, targets)
    right = ~mistaken(clean, targets)
    doubts = _doubts(steady, success, right, trail, threat)
    for doubt in doubts:
        python_warnings.warn(doubt, WeakAttackWarning, stacklevel=2)
    return Attack(
        inputs=points,
        success=success,
        losses=_loss_of(method, outputs)(outputs, targets),
        margins=margins(outputs, targets),
        clean_correct=right,
        radius=threat.distance(points, inputs),
        threat=threat,
        method=method,
        warnings=tuple(doubts),
        rates=tuple(trail.rates),
        gradients=trail.gradients,
    )


def robustness_curve(
    model: Model | Function,
    data: Sample,
    threat: Threat,
    method: Method,
    radii: Sequence[float],
    *,
    batch: int = 1000,
) -> list[float]:
    """Robust error at each radius, in the order given.

    The radii are attacked from the smallest to the largest, and an example that is fooled at one radius is fooled at
    every larger one, so each attack only works on the examples that are left and the curve never falls.
    """
    errors: dict[float, float] = {}
    left = data
    for radius in sorted({float(radius) for radius in radii}):
        if len(left.targets):
            result = attack(model, left, Threat(threat.norm, radius, threat.box), method, batch=batch)
            survivors = ~result.success
            count = int(survivors.sum())
        errors[radius] = 1.0 - count / len(data)
        if count == 0:
            errors.update({float(other): 1.0 for other in radii if float(other) > radius})
            break
        left = Sample(left.inputs[survivors], left.targets[survivors])
    return [errors[float(radius)] for radius in radii]


def proportion(count: int, total: int, confidence: float = 0.95) -> Estimate:
    """A share of examples with its exact (Clopper-Pearson) binomial interval."""
    check_probability("confidence", confidence)
    tail = (1 - confidence) / 2
    low = 0.0 if count == 0 else float(beta_law.ppf(tail, count, total - count + 1))
    high = 1.0 if count == total else float(beta_law.ppf(1 - tail, count + 1, total - count))
    value, lower, upper = (torch.tensor(x, dtype=torch.float64) for x in (count / total, low, high))
    return Estimate(value, lower, upper, "binomial proportion", 1, confidence)


def _check_data(data: Sample, threat: Threat) -> None:
    if not isinstance(data, Sample):
        raise ValueError(f"data must be a Sample(inputs, targets), got {type(data).__name__}")
    if data.weights is not None:
        raise ValueError("data must not have weights: an attack counts every example once")
    if threat.box is not None:
        low, high = (float(end) for end in data.inputs.aminmax())
        if low < threat.box[0] or high > threat.box[1]:
            raise ValueError(
                f"inputs must lie in the box [{threat.box[0]}, {threat.box[1]}], got values from {low} to {high}; "
                "clip them or give the box of your data"
            )


def _loss_of(method: Method, outputs: Tensor) -> CrossEntropy | Logistic:
    loss = None if isinstance(method, LinearExact) else method.loss
    if loss is None:
        return Logistic() if outputs.shape[-1] == 1 else CrossEntropy()
    return loss  # type: ignore[return-value]


def _in_batches(scores: Function, inputs: Tensor, batch: int) -> Tensor:
    return torch.cat([scores(inputs[i : i + batch]).detach() for i in range(0, len(inputs), batch)])


def _is_deterministic(scores: Function, inputs: Tensor) -> bool:
    first, second = scores(inputs).detach(), scores(inputs).detach()
    tolerance = 100 * torch.finfo(first.dtype).eps * float(first.abs().max().nan_to_num())
    return bool(((first - second).abs() <= tolerance).all())


def _doubts(steady: bool, success: Tensor, right: Tensor, trail: Trail, threat: Threat) -> list[str]:
    """Reasons to think that the attack is weaker than it looks."""
    doubts = []
    rates = trail.rates
    attacked = int(right.sum())
    if not steady:
        doubts.append(
            "the model is not deterministic in eval mode: two evaluations of the same inputs differ, so success is a "
            "matter of luck; average the model's randomness out before attacking it"
        )
    elif bool((trail.fooled & ~success).any()):
        doubts.append(
            f"{int((trail.fooled & ~success).sum())} examples were fooled in the search but not when evaluated again: "
            "the outputs of the model depend on the rest of the batch or on rounding"
        )
    blocked = int((trail.stuck & right & ~success).sum())
    if threat.radius > 0 and attacked and blocked > _MANY * attacked:
        doubts.append(
            f"gradients vanish on {blocked} of {attacked} attacked examples, which did not move: the loss is saturated "
            "or the model hides its gradients; use steepest steps, a reflected loss or a margin loss"
        )
    if rates and max(rates) - rates[-1] > max(0.02, 2 / len(success) ** 0.5 * (max(rates) * (1 - max(rates))) ** 0.5):
        doubts.append(
            f"success falls as the steps grow, from {max(rates):.1%} to {rates[-1]:.1%}: the step is too large or the "
            "gradients point the wrong way; use a smaller or decaying step"
        )
    return doubts
