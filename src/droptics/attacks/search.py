"""The search itself: from inputs and a method to perturbed inputs, without any check of the result.

`perturb` is what a training loop calls; `search` also says what happened on the way, for `attack` to judge.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from droptics.attacks.closed_form import linear_attack
from droptics.attacks.gradients import Differentiable, Function, differentiable
from droptics.attacks.losses import Reflected, check_problem, mistaken, value_and_slope
from droptics.attacks.methods import Bim, Fgsm, LinearExact, Method, Pgd, step_sizes
from droptics.attacks.threat import Region, Threat
from droptics.losses import CrossEntropy, Loss
from droptics.models import Model

# Fooled examples leave when the share of the others falls below this: taking rows out costs a copy of the batch.
_CROWDED = 0.92


@dataclass(eq=False)
class Trail:
    """What a search found and how it went.

    Attributes:
        inputs: The perturbed inputs.
        fooled: Which of them the model got wrong when the search saw them (never evaluated: False).
        stuck: Which examples ended within a hundredth of the radius of where they started: no gradient there.
        rates: Share of examples that are wrong at the iterate that would be returned, one number per step.
        gradients: How many input gradients were computed, summed over the examples.
    """

    inputs: Tensor
    fooled: Tensor
    stuck: Tensor
    rates: list[float] = field(default_factory=list)
    gradients: int = 0


def perturb(
    model: Model | Function,
    inputs: Tensor,
    targets: Tensor,
    threat: Threat,
    method: Method,
    generator: torch.Generator | None = None,
) -> Tensor:
    """Perturbed inputs, nothing else: for use inside a training loop.

    The model runs in the mode it is in, nothing is verified, no gradient reaches the parameters, and the result is
    detached. An empty batch comes back empty.
    """
    return search(model, inputs, targets, threat, method, generator).inputs


def search(
    model: Model | Function,
    inputs: Tensor,
    targets: Tensor,
    threat: Threat,
    method: Method,
    generator: torch.Generator | None = None,
) -> Trail:
    """Run a method on a batch."""
    centers = inputs.detach()
    nothing = torch.zeros(centers.shape[0], dtype=torch.bool, device=centers.device)
    if centers.shape[0] == 0:
        return Trail(centers.clone(), nothing, nothing)
    if isinstance(method, LinearExact):
        points = linear_attack(model, centers, targets, threat)
        return Trail(points, nothing, nothing, gradients=centers.shape[0])
    tape = differentiable(model)
    region = threat.around(centers)
    match method:
        case Fgsm():
            return _walk(tape, region, targets, method.loss, [threat.radius])
        case Bim():
            sizes = step_sizes(method.step, method.steps, threat.radius, "fixed")
            return _walk(tape, region, targets, method.loss, sizes)
        case Pgd():
            return _Ascent(tape, region, targets, method, generator).run()
    raise ValueError(f"method must be Fgsm, Bim, Pgd or LinearExact, got {type(method).__name__}")


def _walk(tape: Differentiable, region: Region, targets: Tensor, loss: Loss, sizes: list[float]) -> Trail:
    """All examples take all steps and the last iterate counts.

    Cross-entropy is taken as it is, saturation included, so that the examples are those of the textbook method.
    """
    textbook = isinstance(loss, CrossEntropy)
    points = region.inputs
    rates: list[float] = []
    aims: Tensor | None = None
    for number, size in enumerate(sizes):
        outputs = tape.forward(points)
        wrong = mistaken(outputs, targets)
        rates.append(float(wrong.double().mean()))
        if number == 0:
            check_problem(loss, outputs, targets)
            aims = _aims(tape, outputs, targets, loss, region.threat, wrong)
        _, slope = value_and_slope(loss, outputs, targets, None if aims is None else aims[:, 0], scaled=textbook)
        points = region.retract(points + size * region.threat.steepest(tape.pull(slope), points))
    fooled = mistaken(tape.scores(points), targets)
    rates.append(float(fooled.double().mean()))
    return Trail(points, fooled, _stuck(region, points, region.inputs), rates, len(sizes) * points.shape[0])


class _Ascent:
    """One run of Pgd over a batch; the state is the best point so far of every example."""

    def __init__(
        self, tape: Differentiable, region: Region, targets: Tensor, method: Pgd, generator: torch.Generator | None
    ) -> None:
        self.tape, self.region, self.targets, self.method = tape, region, targets, method
        self.leaves = method.stop == "fooled"
        self.sizes = step_sizes(method.step, method.steps, region.threat.radius, "decaying")
        if generator is None:
            generator = torch.Generator(region.inputs.device).manual_seed(method.seed)
        self.generator = generator
        self.best = region.inputs.clone()
        self.value = region.inputs.new_full((len(targets),), -torch.inf)
        self.fooled = torch.zeros(len(targets), dtype=torch.bool, device=targets.device)
        self.stuck = self.fooled.clone()
        self.rates: list[float] = []
        self.gradients = 0

    def run(self) -> Trail:
        method, loss = self.method, self.method.loss
        outputs: Tensor | None = self.tape.forward(self.region.inputs)
        assert outputs is not None
        check_problem(loss, outputs, self.targets)
        wrong = mistaken(outputs, self.targets)
        aims = _aims(self.tape, outputs, self.targets, loss, self.region.threat, wrong)
        self.gradients += 0 if aims is None else aims.shape[1] * int((~wrong).sum())
        if method.start == "random":
            self.fooled |= wrong & self.leaves
            outputs = None
        every = isinstance(loss, Reflected) and loss.target == "every"
        for restart in range(method.restarts):
            for column in range(aims.shape[1]) if every and aims is not None else [restart]:
                rows = (~self.fooled).nonzero().squeeze(1) if self.leaves else torch.arange(len(wrong)).to(wrong.device)
                if rows.numel() == 0:
                    break
                aim = None if aims is None else aims[rows, column % aims.shape[1]]
                self._round(rows, aim, restart > 0 or method.start == "random", outputs)
                outputs = None
        return Trail(self.best, self.fooled, self.stuck & ~self.fooled, self.rates, self.gradients)

    def _round(self, rows: Tensor, aim: Tensor | None, random: bool, outputs: Tensor | None) -> None:
        """Climb once from the inputs or from random points; `outputs` are those at the start if already known."""
        method, count = self.method, len(self.targets)
        region = self.region if len(rows) == count else self.region.select(rows)
        targets = self.targets[rows]
        points = region.random(self.generator) if random else region.inputs
        start, alive = points, torch.ones_like(rows, dtype=torch.bool)
        best, value, fooled = self.best[rows], self.value[rows], self.fooled[rows]
        for number in range(method.steps + 1):
            last = number == method.steps
            if outputs is None:
                outputs = self.tape.scores(points) if last else self.tape.forward(points)
            wrong = mistaken(outputs, targets)
            now, slope = value_and_slope(method.loss, outputs, targets, aim, scaled=method.gradient == "raw")
            outputs = None
            better = alive & ((wrong & ~fooled) | ((wrong == fooled) & (now > value)))
            best = points if bool(better.all()) else torch.where(_wide(better, points), points, best)
            value, fooled = torch.where(better, now, value), fooled | (wrong & alive)
            if self.leaves:
                alive = alive & ~wrong
            left = int(alive.sum())
            self.rates.append(1.0 - left / count if self.leaves else float(fooled.double().mean()))
            if last or left == 0:
                break
            keep: Tensor | None = None
            if left < _CROWDED * len(rows):
                self._store(rows, best, value, fooled)
                keep = alive.nonzero().squeeze(1)
                rows, targets, value, fooled, alive = (x[keep] for x in (rows, targets, value, fooled, alive))
                points, best = points.index_select(0, keep), best.index_select(0, keep)
                start = start.index_select(0, keep) if random else start
                slope, aim, region = slope[keep], None if aim is None else aim[keep], region.select(keep)
            gradient = self.tape.pull(slope, keep)
            self.gradients += len(rows)
            move = gradient if method.gradient == "raw" else region.threat.steepest(gradient, points)
            moved = torch.add(points, move, alpha=self.sizes[number])
            points = region.retract(moved) if method.projection == "clip" else region.project(moved)
        self._store(rows, best, value, fooled)
        self.stuck[rows] = _stuck(region, points, start if random else region.inputs)

    def _store(self, rows: Tensor, best: Tensor, value: Tensor, fooled: Tensor) -> None:
        self.best[rows] = best
        self.value[rows] = value
        self.fooled[rows] = fooled


def _aims(
    tape: Differentiable, outputs: Tensor, targets: Tensor, loss: Loss, threat: Threat, wrong: Tensor
) -> Tensor | None:
    """Wrong classes (n, candidates) in the order of their linearized distance; None when there is no choice to make.

    The distance to the boundary with class j is (z_y - z_j) / ||grad z_y - grad z_j|| in the dual norm, from the
    forward pass that the tape remembers. Examples that are already wrong keep the order of the logits.
    """
    classes = outputs.shape[-1]
    if not isinstance(loss, Reflected) or loss.target == "greedy" or classes <= 2:
        return None
    index = targets.unsqueeze(-1)
    others = outputs.scatter(-1, index, float("-inf"))
    aims = others.topk(min(loss.candidates, classes - 1), dim=-1).indices
    rows = (~wrong).nonzero().squeeze(1)
    if rows.numel() == 0:
        return aims
    right = outputs.gather(-1, index)[rows]
    distances = []
    for column in range(aims.shape[1]):
        aim = aims[rows, column, None]
        away = torch.zeros_like(outputs[rows]).scatter_(-1, aim, 1.0).scatter_(-1, index[rows], -1.0)
        speed = threat.dual_norm(tape.pull(away, rows, again=True))
        distances.append((right - outputs[rows].gather(-1, aim)).squeeze(-1) / speed)
    order = torch.stack(distances, -1).nan_to_num(nan=torch.inf).argsort(dim=-1, stable=True)
    aims[rows] = aims[rows].gather(-1, order)
    return aims


def _stuck(region: Region, points: Tensor, start: Tensor) -> Tensor:
    """Which examples hardly moved from where they started: the gradient vanished there."""
    return region.threat.distance(points, start) < 0.01 * region.threat.radius


def _wide(mask: Tensor, like: Tensor) -> Tensor:
    return mask.view(-1, *[1] * (like.ndim - 1))
