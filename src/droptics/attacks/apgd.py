"""Auto-PGD: gradient ascent that sets its own step size, example by example.

At check points that come closer and closer, an example halves its step and returns to its best point when the loss
rose in less than three quarters of the steps since the last one, or when neither step nor best value changed there
(Croce and Hein 2020). For l1 the number of coordinates that a step moves adapts instead (Croce and Hein 2021).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from droptics.attacks.ascent import Trail, chooses, linearized_order, stuck
from droptics.attacks.gradients import Differentiable
from droptics.attacks.losses import aimed, beaten, check_problem, mistaken
from droptics.attacks.methods import Apgd
from droptics.attacks.threat import Region
from droptics.progress import tracked

_CROWDED = 0.92  # fooled examples leave when the share of the others falls below this
_MOMENTUM = 0.25  # share of the last move in the next one
_RISES = 0.75  # share of the steps in which the loss has to rise for the step size to stay
_FIRST_SHARE = 0.2  # of the coordinates that the first l1 step moves
_L1_EVERY = 0.04  # share of the steps between two looks at the l1 step


@dataclass(eq=False)
class Climb:
    """The examples that still climb, one row each.

    Attributes:
        rows: Which examples they are.
        targets: Their labels.
        aim: The wrong class they aim at, if any.
        points: Where they stand.
        before: Where they stood one step earlier.
        value: The loss there.
        gradient: Its gradient.
        step: The step size.
        best_points: Their best points.
        best_value: The loss there.
        best_gradient: Its gradient.
        rises: In how many steps since the last check point the loss rose.
        last_step: The step size at the last check point.
        last_best: The best loss at the last check point.
        share: Of the coordinates that an l1 step moves.
        moved: How many coordinates the best point had moved at the last look (l1).
        fooled: Whether a point of theirs was misclassified.
    """

    rows: Tensor
    targets: Tensor
    aim: Tensor | None
    points: Tensor
    before: Tensor
    value: Tensor
    gradient: Tensor
    step: Tensor
    best_points: Tensor
    best_value: Tensor
    best_gradient: Tensor
    rises: Tensor
    last_step: Tensor
    last_best: Tensor
    share: Tensor
    moved: Tensor
    fooled: Tensor

    def select(self, keep: Tensor) -> Climb:
        """Some of them."""
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        parts = {name: None if part is None else part.index_select(0, keep) for name, part in parts.items()}
        return Climb(**parts)


class AdaptiveAscent:
    """One `Apgd` over a batch; the state is the best point so far of every example."""

    def __init__(
        self,
        tape: Differentiable,
        region: Region,
        targets: Tensor,
        method: Apgd,
        generator: torch.Generator,
        ends: tuple[float, float] | None = None,
    ) -> None:
        self.tape, self.region, self.targets, self.method = tape, region, targets, method
        self.generator, self.ends = generator, ends
        self.best = region.inputs.clone(memory_format=torch.contiguous_format)
        self.value = region.inputs.new_full((len(targets),), -torch.inf)
        self.fooled = torch.zeros(len(targets), dtype=torch.bool, device=targets.device)
        self.stuck = self.fooled.clone()
        self.counts: list[int] = []
        self.gradients = 0
        self.checks = check_points(method.steps, region.threat.norm)

    def run(self) -> Trail:
        """All restarts, and all targets of a loss that aims at each in turn."""
        method, loss = self.method, self.method.loss
        clean = self.tape.forward(self.region.inputs)
        check_problem(loss, clean, self.targets, self.ends)
        self.fooled |= mistaken(clean, self.targets)
        self.counts.append(int(self.fooled.sum()))
        aims, columns = None, [0]
        if chooses(loss, clean):
            aims = linearized_order(self.tape, clean, self.targets, loss, self.region.threat, self.fooled)
            self.gradients += aims.shape[1] * (len(self.targets) - self.counts[0])
            columns = list(range(aims.shape[1])) if loss.target == "every" else columns
        for restart in range(method.restarts):
            for column in columns if len(columns) > 1 else [restart]:
                aim = None if aims is None else aims[:, column % aims.shape[1]]
                self._climb(aim, random=restart > 0 or method.start == "random")
        tally = torch.tensor([*self.counts, self.gradients])
        return Trail(self.best, self.fooled, self.stuck & ~self.fooled, tally, clean)

    def _climb(self, aim: Tensor | None, *, random: bool) -> None:
        rows = (~self.fooled).nonzero().squeeze(1)
        if len(rows) == 0:
            return
        now, region = self._begin(rows, aim, random)
        start = now.points
        for number in tracked(range(self.method.steps), "apgd", "step"):
            now.before, now.points = now.points, self._moved(now, region, number)
            outputs = self.tape.forward(now.points)
            value, slope = aimed(self.method.loss, outputs, now.targets, now.aim)
            fresh = beaten(outputs, now.targets) & ~now.fooled
            self._note(now, fresh)
            now.rises += value > now.value
            now.value = value
            left = int((~now.fooled).sum())
            self.counts.append(self.counts[-1] + int(fresh.sum()))
            if left == 0 or number == self.method.steps - 1:
                self._keep_best(now, value, None)
                break
            keep = None
            if left < _CROWDED * len(now.rows):
                keep = (~now.fooled).nonzero().squeeze(1)
                now, region, slope = now.select(keep), region.select(keep), slope[keep]
                start = start.index_select(0, keep)
            now.gradient = self.tape.pull(slope, keep)
            self.gradients += len(now.rows)
            self._keep_best(now, now.value, now.gradient)
            if number + 1 in self.checks:
                self._adapt(now, region, self.checks[number + 1])
        held = ~now.fooled
        self.stuck[now.rows] = held & stuck(region.threat, now.best_points, start)
        better = (held & (now.best_value > self.value[now.rows])).nonzero().squeeze(1)
        self.value[now.rows[better]] = now.best_value[better]
        self.best.index_copy_(0, now.rows[better], now.best_points.index_select(0, better))

    def _begin(self, rows: Tensor, aim: Tensor | None, random: bool) -> tuple[Climb, Region]:
        region = self.region if len(rows) == len(self.targets) else self.region.select(rows)
        points = region.random(self.generator) if random else region.inputs.clone()
        targets, aim = self.targets[rows], None if aim is None else aim[rows]
        outputs = self.tape.forward(points)
        value, slope = aimed(self.method.loss, outputs, targets, aim)
        gradient = self.tape.pull(slope)
        self.gradients += len(rows)
        nobody = torch.zeros(len(rows), dtype=torch.bool, device=rows.device)
        long = region.threat.radius * (1.0 if region.threat.norm == "l1" else 2.0)
        step = torch.full_like(value, long)
        count = max(points[0].numel(), 1)
        now = Climb(
            rows, targets, aim, points, points, value, gradient, step, points.clone(), value, gradient,
            rises=torch.zeros_like(rows), last_step=step, last_best=value,
            share=torch.full_like(value, _FIRST_SHARE), moved=torch.full_like(value, float(count)), fooled=nobody,
        )  # fmt: skip
        fresh = beaten(outputs, targets)
        self._note(now, fresh)
        self.counts.append(self.counts[-1] + int(fresh.sum()))
        return now, region

    def _moved(self, now: Climb, region: Region, number: int) -> Tensor:
        """One step along the steepest direction and a quarter of the last move, inside the region."""
        wide = (-1,) + (1,) * (now.points.ndim - 1)
        step = now.step.view(wide)
        if region.threat.norm == "l1":
            slope = region.threat.free(now.gradient, now.points)
            return region.project(now.points + step * sparse_direction(slope, now.share))
        ahead = region.retract_(now.points + step * region.threat.steepest(now.gradient, now.points))
        if number == 0:
            return ahead
        ahead.sub_(now.points).mul_(1 - _MOMENTUM).add_(now.points, alpha=1 + _MOMENTUM)
        return region.retract_(ahead.sub_(now.before, alpha=_MOMENTUM))

    def _note(self, now: Climb, fresh: Tensor) -> None:
        """Keep the misclassified points and let their examples be done."""
        which = fresh.nonzero().squeeze(1)
        if len(which):
            self.best.index_copy_(0, now.rows[which], now.points.index_select(0, which))
            self.fooled[now.rows[which]] = True
            now.fooled = now.fooled | fresh

    def _keep_best(self, now: Climb, value: Tensor, gradient: Tensor | None) -> None:
        better = (value > now.best_value).nonzero().squeeze(1)
        if len(better) == 0:
            return
        now.best_value = torch.maximum(now.best_value, value)
        now.best_points = now.best_points.index_copy(0, better, now.points.index_select(0, better))
        if gradient is not None:
            now.best_gradient = now.best_gradient.index_copy(0, better, gradient.index_select(0, better))

    def _adapt(self, now: Climb, region: Region, taken: int) -> None:
        """At a check point, `taken` steps after the last one: who goes on as before, who halves and returns."""
        radius = region.threat.radius
        if region.threat.norm == "l1":
            moved = (now.best_points != region.inputs).flatten(1).sum(1).to(now.value.dtype)
            returns = moved < 0.95 * now.moved
            now.share = moved / (1.5 * max(now.points[0].numel(), 1))
            now.step = torch.where(returns, radius, now.step / 1.5).clamp(radius / 10, radius)
            now.moved = moved
        else:
            rare = now.rises < _RISES * taken
            idle = (now.last_step == now.step) & (now.last_best >= now.best_value)
            returns = rare | idle
            now.last_step, now.last_best = now.step, now.best_value
            now.step = torch.where(returns, now.step / 2, now.step)
        now.rises = torch.zeros_like(now.rises)
        wide = returns.view((-1,) + (1,) * (now.points.ndim - 1))
        now.before = torch.where(wide, now.best_points, now.before)
        now.points = torch.where(wide, now.best_points, now.points)
        now.gradient = torch.where(wide, now.best_gradient, now.gradient)
        now.value = torch.where(returns, now.best_value, now.value)


def check_points(steps: int, norm: str) -> dict[int, int]:
    """After which steps the step sizes are looked at, each with the number of steps since the last look.

    l2 and linf: the first look comes after 22 % of the steps, each interval is 3 % of the steps shorter than the one
    before, and none shorter than 6 %. l1: every 4 %.
    """
    if norm == "l1":
        every = max(int(_L1_EVERY * steps), 1)
        return dict.fromkeys(range(every, steps + 1, every), every)
    ends = [0, 22]  # in percent of the steps: whole numbers have no rounding
    while ends[-1] < 100:
        ends.append(ends[-1] + max(ends[-1] - ends[-2] - 3, 6))
    numbers = sorted({-(-end * steps // 100) for end in ends if end <= 100})
    return {end: end - begin for begin, end in pairwise(numbers)}


def sparse_direction(gradient: Tensor, share: Tensor) -> Tensor:
    """Equal moves of the coordinates with the largest slopes, a share of all of them, of l1 norm one."""
    flat = gradient.flatten(1)
    count = flat.shape[1]
    place = ((1 - share) * count).ceil().clamp(0, count - 1).long()[:, None]
    least = flat.abs().sort(dim=1).values.gather(1, place)
    signs = flat.sign() * (flat.abs() >= least)
    return (signs / signs.abs().sum(1, keepdim=True).clamp_min(1.0)).view_as(gradient)
