"""Objectives of adversarial training: the loss at attacked inputs, alone, beside the clean one, or for free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from droptics.arguments import Count, NonNegative, Positive, checked_fields
from droptics.attacks import Method, Pgd, Reflected, Threat
from droptics.attacks.gradients import Function, differentiable
from droptics.attacks.losses import check_problem, mistaken, value_and_slope
from droptics.attacks.methods import step_sizes
from droptics.attacks.search import search
from droptics.data import average
from droptics.losses import CrossEntropy, Loss
from droptics.training.objectives import Forward, Objective, StepData, mean_loss

_WATCH = 10  # steps of the attack that judges an attack of one step
_MISLED = 0.25  # share of the batch that it may fool beyond
_SINGLE = Pgd(steps=1, start="random", stop="never")


@dataclass(frozen=True, eq=False)
@checked_fields
class Adversarial(Objective):
    """The loss at perturbed inputs: each step attacks its batch and descends on what the attack found (thesis-alg6).

    With `consistency` c > 0 the loss of the clean inputs plus c times the mean divergence KL(p(x) || p(x')) of the
    predictions at the perturbed ones, as TRADES does (Zhang et al. 2019); the attack climbs the loss of its method.
    An attack of one step from a random start ends where the step leads, for one pass forward and one back, and is not
    compared with its start. It is watched: at every record `CatastrophicOverfitting` is issued when ten steps fool a
    quarter of the batch more than it does.

    Attributes:
        threat: How far inputs may move.
        method: How the attack searches; random starts draw from the stream of the run.
        loss: What is minimized at the perturbed inputs.
        consistency: Weight of the divergence between the predictions at clean and at perturbed inputs.
    """

    threat: Threat
    method: Method
    loss: Loss = field(default_factory=CrossEntropy)
    consistency: NonNegative = 0.0
    draws = True  # random starts

    @staticmethod
    def fast(threat: Threat, loss: Loss | None = None) -> Adversarial:
        """One step of 1.25 radii from a random start, the cheapest attack that trains (Wong et al. 2020).

        A reflected loss is what the attack climbs; what is minimized is the loss itself (thesis-alg6).
        """
        loss = CrossEntropy() if loss is None else loss
        method = Pgd(loss, steps=1, step=1.25 * threat.radius or 1.0, start="random", stop="never")
        return Adversarial(threat, method, loss.loss if isinstance(loss, Reflected) else loss)

    def value(self, forward: Forward, batch: StepData) -> Tensor:
        """Mean loss at the perturbed inputs; the runs of a batch are attacked in turn and trained together."""
        outputs = forward(_attacked(forward, batch, self.threat, self.method, batch.generators), None)
        if not self.consistency:
            return mean_loss(self.loss, outputs, batch)
        clean = forward(batch.inputs, None)
        apart = average(_divergence(clean, outputs), batch.weights)
        return mean_loss(self.loss, clean, batch) + self.consistency * apart

    def doubt(self, forward: Forward, batch: StepData) -> str:
        if getattr(self.method, "steps", 1) > 1:
            return ""
        return _misled(forward, batch, self.threat, self.method)

    def describe(self) -> str:
        tail = f", consistency {self.consistency}" if self.consistency else ""
        return f"Adversarial({self.threat!r}, {self.method!r}, {type(self.loss).__name__}{tail})"


@dataclass(frozen=True, eq=False)
@checked_fields
class Free(Objective):
    """Adversarial training at the price of plain training: every pass moves the weights and the inputs at once.

    A batch makes `replays` updates. Each differentiates the loss by the weights and by the perturbation of the inputs
    in one backward pass; the weights descend, and the perturbation climbs by `step` along the steepest direction,
    inside the ball. It begins at zero and is handed on from batch to batch, also to other examples; the box cuts the
    inputs, not what is handed on (Shafahi et al. 2019, Algorithm 1). Watched like an attack of one step.

    Attributes:
        threat: How far inputs may move.
        replays: Updates per batch; `steps` of `train` counts batches.
        step: How far the inputs climb after an update; None is the whole radius.
        loss: What is minimized at the perturbed inputs.
    """

    threat: Threat
    replays: Count = 4
    step: Positive | None = None
    loss: Loss = field(default_factory=CrossEntropy)
    draws = True  # its batches count the runs by their generators

    @property
    def updates(self) -> int:
        return self.replays

    def begin(self, batch: StepData, moves: Tensor | None) -> StepData:
        lead = (batch.runs,) if batch.runs is not None and batch.shared else ()
        if moves is None:
            moves = torch.zeros_like(batch.inputs.expand(*lead, *batch.inputs.shape))
        return replace(batch, moves=moves.detach().requires_grad_())

    def value(self, forward: Forward, batch: StepData) -> Tensor:
        assert batch.moves is not None
        batch.moves.grad = None
        points = batch.inputs + batch.moves
        if self.threat.box is not None:
            points = points.clamp(*self.threat.box)
        return mean_loss(self.loss, forward(points, None), batch)

    def again(self, batch: StepData) -> StepData:
        assert batch.moves is not None
        assert batch.moves.grad is not None
        size = self.threat.radius if self.step is None else self.step
        ball = Threat(self.threat.norm, self.threat.radius)
        lead = 0 if batch.runs is None else 1
        moves, slope = (part.detach().flatten(0, lead) for part in (batch.moves, batch.moves.grad))
        moved = ball.around(torch.zeros_like(moves)).retract(moves + size * ball.steepest(slope))
        return replace(batch, moves=moved.view_as(batch.moves).requires_grad_())

    def doubt(self, forward: Forward, batch: StepData) -> str:
        return _misled(forward, batch, self.threat, Adversarial.fast(self.threat, self.loss).method)

    def describe(self) -> str:
        return f"Free({self.threat!r}, {self.replays} replays, step {self.step}, {type(self.loss).__name__})"


def _attacked(  # one run after the other: a search decides by itself who leaves
    forward: Forward, batch: StepData, threat: Threat, method: Method, generators: Sequence[torch.Generator]
) -> Tensor:
    """The perturbed inputs of every run."""
    if batch.runs is None:
        plain = partial(forward, multipliers=None)
        generator = generators[0] if generators else None
        return _perturbed(plain, batch.inputs, batch.targets, threat, method, generator)
    found = []
    for run in range(batch.runs):
        inputs, targets = (part if batch.shared else part[run] for part in (batch.inputs, batch.targets))
        one = partial(forward, multipliers=None, run=run)
        found.append(_perturbed(one, inputs, targets, threat, method, generators[run]))
    return torch.stack(found)


def _perturbed(
    forward: Function,
    inputs: Tensor,
    targets: Tensor,
    threat: Threat,
    method: Method,
    generator: torch.Generator | None,
) -> Tensor:
    """What `search` finds; of a single step from a random start the last point, without a pass to judge it by."""
    # at a class that is seen at the inputs
    aims = getattr(getattr(method, "loss", None), "target", "greedy") != "greedy"
    if aims or not isinstance(method, Pgd) or replace(method, loss=CrossEntropy(), step=None, seed=0) != _SINGLE:
        return search(forward, inputs, targets, threat, method, generator).inputs
    region, tape = threat.around(inputs.detach()), differentiable(forward)
    points = region.random(torch.Generator(inputs.device).manual_seed(method.seed) if generator is None else generator)
    outputs = tape.forward(points)
    check_problem(method.loss, outputs, targets)
    _, slope = value_and_slope(method.loss, outputs, targets, scaled=False)
    (size,) = step_sizes(method.step, 1, threat.radius, "decaying")
    return region.retract_(points + size * threat.steepest(tape.pull(slope), points))


def _misled(forward: Forward, batch: StepData, threat: Threat, method: Method) -> str:
    """Whether a stronger attack fools many more of the batch; it draws nothing from the streams of training."""
    device = batch.inputs.device
    lead, count = (0, 1) if batch.runs is None else (1, batch.runs)
    loss: Loss = getattr(method, "loss", CrossEntropy())
    judge = Pgd(loss, steps=_WATCH, step=threat.radius / 4 or 1.0, stop="never")
    wrong = []
    for attack in (method, judge):
        generators = [torch.Generator(device).manual_seed(run) for run in range(count)]
        with torch.no_grad():
            outputs = forward(_attacked(forward, batch, threat, attack, generators), None)
            targets = (
                batch.targets.expand(*outputs.shape[:lead], *batch.targets.shape) if batch.shared else batch.targets
            )
            wrong.append(mistaken(outputs.flatten(0, lead), targets.flatten(0, lead)).view(count, -1).double().mean(1))
    gap, run = (wrong[1] - wrong[0]).max(0)
    if not float(gap) > _MISLED:
        return ""
    strong, weak = (float(share[run]) for share in reversed(wrong))
    return (
        f"{strong:.0%} of the batch are wrong under {_WATCH} steps and {weak:.0%} under the attack of training, which "
        "the model has learnt to mislead; use a smaller radius or step, or several steps"
    )


def _divergence(clean: Tensor, moved: Tensor) -> Tensor:
    """KL(p || q) of the predictions, one number per example; one output is the log odds of two classes."""
    if clean.shape[-1] == 1:
        clean, moved = (torch.cat([part, torch.zeros_like(part)], -1) for part in (clean, moved))
    first, second = clean.log_softmax(-1), moved.log_softmax(-1)
    return (first.exp() * (first - second)).sum(-1)
