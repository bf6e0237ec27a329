"""Projected gradient ascent over a batch: keep the best point of every example, let the fooled ones leave.

An example leaves as soon as it is fooled, between the forward pass that shows it and the backward pass that it no
longer needs. That asks after every step who is left; `DeviceAscent` does the same on a GPU, where asking is dear.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeGuard

import torch
from torch import Tensor

from droptics.attacks.gradients import Differentiable
from droptics.attacks.known import NOTHING, Known
from droptics.attacks.losses import Aiming, beaten, check_problem, mistaken, value_and_slope
from droptics.attacks.methods import Pgd, step_sizes
from droptics.attacks.threat import Region, Threat
from droptics.losses import Loss
from droptics.progress import tracked

# Fooled examples leave when the share of the others falls below this: taking rows out costs a copy of the batch.
_CROWDED = 0.92
_AT_ONCE = 2**18  # gradients of all examples held at a time on a GPU
_LOOK = 4  # steps between two looks at which examples stopped moving


@dataclass(eq=False)
class Trail:
    """What a search found and how it went.

    Attributes:
        inputs: The perturbed inputs.
        fooled: Which of them the model got wrong when the search saw them (never evaluated: False).
        stuck: Which examples ended within a hundredth of the radius of where they started: no gradient there. None
            where they ended and started at `inputs` and at the unperturbed ones.
        tally: How many examples are wrong at the iterate that would be returned, one number per step, and last how
            many input gradients were computed, summed over the examples. On a GPU it waits there to be asked for.
        clean: Outputs at the unperturbed inputs, where the search came across them.
        queries: Forward passes of a search without gradients, summed over the examples.
    """

    inputs: Tensor
    fooled: Tensor
    stuck: Tensor | None
    tally: Tensor
    clean: Tensor | None = None
    queries: int = 0


@dataclass(eq=False)
class Climbers:
    """The examples that still climb: which they are, where they stand, and how well their best point does."""

    rows: Tensor
    targets: Tensor
    aim: Tensor | None
    region: Region
    points: Tensor
    start: Tensor | None
    value: Tensor
    fooled: Tensor
    settled: Tensor | None = None
    fresh: Tensor | None = None  # whose present point is the best and not yet copied
    before: Tensor | None = None  # where they stood one step earlier
    best: Tensor | None = None  # their best points, where these are not kept in place
    whole: bool = False  # whether they are all examples, their values those of the search itself
    slack: float = 0.0  # by how much of the largest output a point must fool; the last is looked at in full precision

    def select(self, keep: Tensor) -> Climbers:
        parts = vars(self) | {"region": self.region.select(keep), "before": None, "best": None, "whole": False}
        kept: Any = {name: own.index_select(0, keep) if isinstance(own, Tensor) else own for name, own in parts.items()}
        return Climbers(**kept)


class Ascent:
    """One run of Pgd over a batch; the state is the best point so far of every example."""

    def __init__(
        self,
        tape: Differentiable,
        region: Region,
        targets: Tensor,
        method: Pgd,
        generator: torch.Generator,
        known: Known = NOTHING,
    ) -> None:
        self.tape, self.region, self.targets, self.method = tape, region, targets, method
        self.generator, self.told = generator, known
        self.leaves = method.stop == "fooled"
        # A sign step that ends where it began does so again, with the same or a smaller size: that search is over.
        self.settles = self.leaves and region.threat.norm == "linf" and method.gradient == "steepest"
        self.sizes = step_sizes(method.step, method.steps, region.threat.radius, "decaying")
        self.best = region.inputs.clone(memory_format=torch.contiguous_format)
        self.value = region.inputs.new_full((len(targets),), -torch.inf)
        self.fooled, self.stuck = torch.zeros(2, len(targets), dtype=torch.bool, device=targets.device)
        self.counts: list[Tensor] = []  # of the fooled examples, after each step
        self.gradients: int | Tensor = 0

    def run(self) -> Trail:
        """All restarts, and all targets of a loss that aims at each in turn."""
        method, loss = self.method, self.method.loss
        clean: Tensor | None = None
        outputs: Tensor | None = None
        aims: Tensor | None = None
        # From random points, where nobody leaves and no class is chosen, the inputs themselves need not be looked at.
        aiming = isinstance(loss, Aiming) and loss.target != "greedy"
        anew = method.start != "input"
        bare = anew and not self.leaves and not aiming
        if not bare:
            clean = outputs = self.tape.forward(self.region.inputs)
            check_problem(loss, clean, self.targets, self.told.ends)
        if clean is not None and chooses(loss, clean):
            wrong = mistaken(clean, self.targets)
            aims = linearized_order(self.tape, clean, self.targets, loss, self.region.threat, wrong)
            self.gradients = self.gradients + aims.shape[1] * (~wrong).sum()
        if anew and clean is not None:
            if self.leaves:
                slack = self.tape.slack
                self.fooled |= beaten(clean, self.targets, slack) if slack else mistaken(clean, self.targets)
            outputs = None
        every = isinstance(loss, Aiming) and loss.target == "every"
        for restart in range(method.restarts):
            for column in range(aims.shape[1]) if every and aims is not None else [restart]:
                aim = None if aims is None else aims[:, column % aims.shape[1]]
                climbers = self._climbers(aim, "random" if restart else method.start)
                if len(climbers.rows) == 0:
                    break
                if bare and restart == 0:
                    outputs = self.tape.forward(climbers.points)
                    check_problem(loss, outputs, self.targets, self.told.ends)
                self._climb(climbers, outputs)
                outputs = None
        gradients = self.gradients
        place, known = self.targets.device, None if self.tape.slack else clean
        last = torch.full((1,), gradients, device=place) if isinstance(gradients, int) else gradients.view(1)
        return Trail(self.best, self.fooled, self.stuck & ~self.fooled, torch.cat([*self.counts, last]), known)

    def _climbers(self, aim: Tensor | None, begin: str | Tensor) -> Climbers:
        """The examples not yet fooled, or all of them, at the inputs, at random or at given points."""
        count, device = len(self.targets), self.targets.device
        everyone = not self.leaves or (begin == "input" and not self.counts)
        rows = torch.arange(count, device=device) if everyone else (~self.fooled).nonzero().squeeze(1)
        region = self.region if len(rows) == count else self.region.select(rows)
        points = region.retract(begin[rows].to(self.best)) if isinstance(begin, Tensor) else region.inputs
        points = region.random(self.generator) if begin == "random" else points
        start, slack = points if begin == "random" else None, self.tape.slack  # a given point may be the best, and stay
        own = self.targets, aim, self.value, self.fooled
        if not everyone:
            own = self.targets[rows], None if aim is None else aim[rows], self.value[rows], self.fooled[rows]
        targets, aim, value, fooled = own
        return Climbers(rows, targets, aim, region, points, start, value, fooled, whole=everyone, slack=slack)

    def _climb(self, now: Climbers, outputs: Tensor | None) -> None:
        """Climb once; `outputs` are those at the starting points if already known.

        A point is copied when the next one is not better: while an example climbs nothing has to be kept.
        """
        method, count = self.method, len(self.targets)
        still = 0
        counts: list[int] = []
        for number in tracked(range(method.steps + 1), "ascent", "step"):
            last = number == method.steps
            if outputs is None:
                outputs = self.tape.scores(now.points) if last else self.tape.forward(now.points)
                now.slack = 0.0 if last else now.slack
            better, slope = self._judge(now, outputs)
            outputs = None
            if now.fresh is not None and now.before is not None:
                self._copy(now.rows, now.before, now.fresh & ~better)
            now.fresh = better
            done = now.fooled if now.settled is None else now.fooled | now.settled
            climbing = len(now.rows) - int(done.sum()) if self.leaves else len(now.rows)
            right = climbing if done is now.fooled and self.leaves else len(now.rows) - int(now.fooled.sum())
            counts.append(count - right - still)
            if last or climbing == 0:
                break
            keep: Tensor | None = None
            if climbing < _CROWDED * len(now.rows):
                keep = (~done).nonzero().squeeze(1)
                self._copy(now.rows, now.points, now.fresh & done)
                self._store(now)
                if right > climbing:
                    self._note_stuck(now.select((done & ~now.fooled).nonzero().squeeze(1)))
                still += right - climbing
                now, slope = now.select(keep), slope[keep]
            now.before = now.points
            now.points = self._moved(now, self.tape.pull(slope, keep), self.sizes[number])
            self.gradients += len(now.rows)
            if self.settles and number % _LOOK == _LOOK - 1 and max(self.sizes[number:]) <= self.sizes[number]:
                now.settled = (now.points == now.before).flatten(1).all(1)
        if now.fresh is not None:
            self._copy(now.rows, now.points, now.fresh)
        self.counts.append(torch.tensor(counts))
        self._store(now)
        self._note_stuck(now)

    def _copy(self, rows: Tensor, points: Tensor, chosen: Tensor) -> None:
        which = chosen.nonzero().squeeze(1)
        if len(which) == len(self.best):
            self.best.copy_(points)
        elif len(which):
            self.best.index_copy_(0, rows[which], points.index_select(0, which))

    def _judge(self, now: Climbers, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Which points are better than any before, and the slope of the loss there."""
        wrong = beaten(outputs, now.targets, now.slack)
        raw = self.method.gradient == "raw"
        value, slope = value_and_slope(self.method.loss, outputs, now.targets, now.aim, scaled=raw)
        if self.leaves:
            better = ~now.fooled & (wrong | (value > now.value))
        else:
            better = (wrong & ~now.fooled) | ((wrong == now.fooled) & (value > now.value))
        torch.where(better, value.to(now.value.dtype), now.value, out=now.value)
        now.fooled.logical_or_(wrong)
        return better, slope

    def _moved(self, now: Climbers, gradient: Tensor, size: float | Tensor) -> Tensor:
        """The points one step further, inside the region."""
        raw = self.method.gradient == "raw"
        move = gradient if raw else now.region.threat.steepest(gradient, now.points)
        if isinstance(size, Tensor):
            moved = now.points.addcmul_(move, size)
        else:
            moved = torch.add(now.points, move, alpha=size, out=None if raw else move)
        return now.region.retract_(moved) if self.method.projection == "clip" else now.region.project(moved)

    def _store(self, now: Climbers) -> None:
        if now.whole:
            return
        self.value[now.rows] = now.value
        self.fooled[now.rows] = now.fooled
        if now.best is not None:
            self.best.index_copy_(0, now.rows, now.best)

    def _note_stuck(self, now: Climbers) -> None:
        start = now.region.inputs if now.start is None else now.start
        found = stuck(now.region.threat, now.points, start)
        if now.whole:
            self.stuck = found
        else:
            self.stuck[now.rows] = found


def chooses(loss: Loss, outputs: Tensor) -> TypeGuard[Aiming]:
    """Whether an attack on this loss has to choose at which wrong class to aim."""
    return isinstance(loss, Aiming) and loss.target != "greedy" and outputs.shape[-1] > 2


def linearized_order(
    tape: Differentiable, outputs: Tensor, targets: Tensor, loss: Aiming, threat: Threat, wrong: Tensor
) -> Tensor:
    """Wrong classes (n, candidates) in the order of their linearized distance.

    The distance to the boundary with class j is (z_y - z_j) / ||grad z_y - grad z_j|| in the dual norm, from the
    forward pass that the tape remembers. Examples that are already wrong keep the order of the logits.
    """
    classes = outputs.shape[-1]
    index = targets.unsqueeze(-1)
    others = outputs.scatter(-1, index, float("-inf"))
    aims = others.topk(min(loss.candidates, classes - 1), dim=-1).indices
    if outputs.device.type != "cpu":
        order = _order(tape, outputs, index, aims, threat)
        return torch.where(wrong[:, None], aims, aims.gather(-1, order))
    rows = (~wrong).nonzero().squeeze(1)
    if rows.numel():
        aims[rows] = aims[rows].gather(-1, _order(tape, outputs[rows], index[rows], aims[rows], threat, rows))
    return aims


def _order(
    tape: Differentiable, outputs: Tensor, index: Tensor, aims: Tensor, threat: Threat, rows: Tensor | None = None
) -> Tensor:
    """The order of the aims: of some rows one class after the other, of all many at a time, in few launches."""
    slopes = outputs.new_zeros(aims.shape[1], *outputs.shape)
    slopes.scatter_(-1, aims.mT[..., None], 1.0).scatter_(-1, index.expand(aims.shape[1], *index.shape), -1.0)
    many = max(1, _AT_ONCE // max(1, len(outputs)))
    parts = slopes.split(many) if tape.stackable and rows is None else slopes.unbind()
    speeds = [threat.dual_norm(tape.pull(part, rows, again=True)).view(-1, len(outputs)) for part in parts]
    distances = (outputs.gather(-1, index) - outputs.gather(-1, aims)) / torch.cat(speeds).mT
    return distances.nan_to_num(nan=torch.inf).argsort(dim=-1, stable=True)


def stuck(threat: Threat, points: Tensor, start: Tensor) -> Tensor:
    """Which examples hardly moved from where they started: the gradient vanished there."""
    return threat.distance(points, start) < 0.01 * threat.radius
