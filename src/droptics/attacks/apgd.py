"""Auto-PGD: gradient ascent that sets its own step size, example by example.

At check points that come closer and closer, an example halves its step and returns to its best point when the loss
rose in less than three quarters of the steps since the last one, or when neither step nor best value changed there
(Croce and Hein 2020). For l1 the number of coordinates that a step moves adapts instead (Croce and Hein 2021).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from droptics.attacks.ascent import Trail, chooses, linearized_order, stuck
from droptics.attacks.gradients import Differentiable
from droptics.attacks.known import NOTHING, Known
from droptics.attacks.losses import aimed, beaten, check_problem, mistaken
from droptics.attacks.methods import Apgd, Fgsm, Method, Pgd
from droptics.attacks.threat import Region
from droptics.gpu.graphs import captured
from droptics.progress import tracked

CROWDED = 0.92  # fooled examples leave when the share of the others falls below this
_MOMENTUM = 0.25  # share of the last move in the next one
_RISES = 0.75  # share of the steps in which the loss has to rise for the step size to stay
_FIRST_SHARE = 0.2  # of the coordinates that the first l1 step moves
# Steps that must be left for a step to be recorded, and how many steps recording takes as long as.
_WORTH_RECORDING, _RECORDING = 10, 4
# A batch of a size that the libraries of a GPU have not met takes longer to prepare than several steps take, 130 ms
# for a residual network: those that stay fill four blocks or more, which take as long as fewer.
BLOCK, _BLOCKS = 64, 4
SMALL = BLOCK * _BLOCKS
_L1_EVERY = 0.04  # share of the steps between two looks at the l1 step
# Numbers in a batch of runs side by side: as many as stay in the cache of a CPU, and as keep a GPU busy.
_AT_ONCE, _AT_ONCE_ON_GPU = 2**19, 2**22


@dataclass(eq=False)
class Climb:
    """The runs that still climb, one row each: one of every example, or several side by side that aim differently.

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
        fooled: Whether a point of their example was misclassified.
        won: Whether that point is theirs.
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
    won: Tensor

    def select(self, keep: Tensor) -> Climb:
        """Some of them."""
        parts: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        parts = {name: None if part is None else part.index_select(0, keep) for name, part in parts.items()}
        return Climb(**parts)

    def overwrite(self, other: Climb) -> None:
        """Take over the numbers of another state, in place."""
        # The last fields first: what a state remembers of the one before (`before`, `last_step`) is still in its place.
        for field in reversed(fields(self)):
            mine, new = getattr(self, field.name), getattr(other, field.name)
            if new is not mine:
                mine.copy_(new)


@dataclass(eq=False)
class Record:
    """Runs that replay one recorded step: their state, the points that fooled, how many did at each step, the step."""

    now: Climb
    caught: Tensor
    counts: Tensor
    place: Tensor
    replay: Callable[[], object] = lambda: None


def for_some(method: Method, begin: int, end: int) -> Method:
    """The method for some of the examples: with their starts alone, where starts are given."""
    if not isinstance(method, (Fgsm, Pgd, Apgd)) or not isinstance(method.start, Tensor):
        return method
    return method if begin == 0 and end >= len(method.start) else replace(method, start=method.start[begin:end])


def check_starts(method: Method, shape: tuple[int, ...]) -> None:
    """Refuse given points that are not one for each of the inputs, or of an adaptive search one for each restart."""
    start = getattr(method, "start", None)
    shapes = [shape, (*shape[:1], method.restarts, *shape[1:])] if isinstance(method, Apgd) else [shape]
    if isinstance(start, Tensor) and start.shape not in shapes:
        said = ", or one for each restart, of shape ".join(str(tuple(each)) for each in shapes)
        raise ValueError(f"start must hold one point for each of the inputs, of shape {said}, got {tuple(start.shape)}")


class AdaptiveAscent:
    """One `Apgd` over a batch; the state is the best point so far of every example.

    On a GPU, where questions to the device are dear, a step is recorded and replayed once a step has fooled few: most
    examples of an undefended network are gone by then. From there on it is asked at the check points alone who is left;
    fooled examples climb on, and keep the point that fooled them.
    """

    def __init__(
        self,
        tape: Differentiable,
        region: Region,
        targets: Tensor,
        method: Apgd,
        generator: torch.Generator,
        known: Known = NOTHING,
    ) -> None:
        self.tape, self.region, self.targets, self.method = tape, region, targets, method
        self.generator, self.told = generator, known
        self.best = region.inputs.clone(memory_format=torch.contiguous_format)
        self.value = region.inputs.new_full((len(targets),), -torch.inf)
        self.fooled = torch.zeros(len(targets), dtype=torch.bool, device=targets.device)
        self.stuck = self.fooled.clone()
        self.counts: list[int] = []
        self.gradients = 0
        self.several = False  # whether an example has several runs side by side
        self.known: Tensor | None = None  # outputs of the pass that the tape remembers, as long as it does
        self.records = self.hurries = region.inputs.is_cuda  # nine gradients of few take as long as nine of many there
        self.block = BLOCK if self.records else 0
        self.checks = check_points(method.steps, region.threat.norm)

    def run(self) -> Trail:
        """All restarts, and all targets of a loss that aims at each in turn."""
        method, loss = self.method, self.method.loss
        told = self.told.clean
        clean = self.tape.forward(self.region.inputs) if told is None else told
        check_problem(loss, clean, self.targets, self.told.ends)
        self.known = clean if told is None else None
        self.fooled |= mistaken(clean, self.targets)
        self.counts.append(int(self.fooled.sum()))
        aims, columns = None, [0]
        if chooses(loss, clean):
            most = min(loss.candidates, clean.shape[-1] - 1)
            columns = list(range(most)) if loss.target == "every" else columns
            if self.hurries and 1 < len(columns) <= self._at_once():  # none comes first
                aims = clean.scatter(-1, self.targets[:, None], -torch.inf).topk(most, dim=-1).indices
            else:
                if told is not None:
                    self.known = self.tape.forward(self.region.inputs)
                aims = linearized_order(self.tape, clean, self.targets, loss, self.region.threat, self.fooled)
                self.gradients += most * (len(self.targets) - self.counts[0])
        restarts = range(method.restarts)
        start = method.start
        alike = start.ndim > self.region.inputs.ndim if isinstance(start, Tensor) else start == "random"
        for begin, these in [(start, restarts)] if alike else [(start, restarts[:1]), ("random", restarts[1:])]:
            order = [(restart, column) for restart in these for column in (columns if len(columns) > 1 else [restart])]
            while order:
                some = order[: self._at_once()]
                order = order[len(some) :]
                picked = None if aims is None else aims[:, [column % aims.shape[1] for _, column in some]]
                self._climb([restart for restart, _ in some], picked, begin)
        tally = torch.tensor([*self.counts, self.gradients])
        return Trail(self.best, self.fooled, self.stuck & ~self.fooled, tally, clean)

    def _at_once(self) -> int:
        """How many runs of the examples that are left fill a batch: a small one takes as long as a larger one."""
        most = _AT_ONCE_ON_GPU if self.region.inputs.is_cuda else _AT_ONCE
        left = len(self.targets) - self.counts[-1]
        return max(most // max(left * self.region.inputs[0].numel(), 1), 1)

    def _climb(self, runs: list[int], aims: Tensor | None, begin: str | Tensor) -> None:
        """These runs of every example that is left, side by side; `aims` (n, runs) are the classes they aim at."""
        lanes, left = left_over(self.fooled.repeat(len(runs)), self.block)
        if left == 0:
            return
        now, region = self._begin(lanes, runs, aims, begin)
        start, steps, record = now.points, self.method.steps, None
        for number in tracked(range(steps), "apgd", "step"):
            checked = number + 1 in self.checks
            if record is None:
                fresh, slope = self._step(now, region, number)
                self._note(now, fresh)
                before = left
                keep, left = left_over(now.fooled, self.block)
                if left == 0 or number == steps - 1:
                    _keep_best(now)
                    break
                leave = len(keep) < CROWDED * len(now.rows)
                if leave:
                    now, region, slope = now.select(keep), region.select(keep), slope[keep]
                    start = start.index_select(0, keep)
                now.gradient = self.tape.pull(slope, keep if leave else None)
                _keep_best(now)
            else:
                record.replay()
            self.gradients += len(now.rows)
            if checked:
                now = self._adapted(now, region, self.checks[number + 1], in_place=record is not None)
            if record is not None and checked:
                keep, left = left_over(now.fooled, self.block)
                if left and (1 - len(keep) / len(now.rows)) * (steps - number) <= _RECORDING:
                    continue
                self._store(record)
                record = None
                if left == 0:
                    break
                now, region, start = now.select(keep), region.select(keep), start.index_select(0, keep)
            elif record is None and left > CROWDED * before and self._worth_recording(now, number):
                record = self._recorded(now, region)
                now = now if record is None else record.now
        if record is not None:
            self._store(record)
        self._end(now, region, start, left)

    def _worth_recording(self, now: Climb, number: int) -> bool:
        """Whether steps are left, and are short: those of many examples of a large network hide their launches."""
        small = self.tape.capturable or len(now.rows) <= SMALL
        return self.records and small and 0 < number < self.method.steps - _WORTH_RECORDING  # the first has no momentum

    def _recorded(self, now: Climb, region: Region) -> Record | None:
        """The next step as a recording, where one says what the passes themselves say; nothing is asked in it."""
        own = now.select(torch.arange(len(now.rows), device=now.rows.device))  # it writes over what nobody shares
        place = torch.zeros_like(now.rows[:1])
        record = Record(own, self.best.index_select(0, now.rows), place.repeat(self.method.steps), place)
        step = partial(self._blind_step, record, region)
        record.replay = captured(step, now.rows.device, rehearsals=0)
        if self.tape.capturable:  # ordinary layers
            return record
        record.replay()
        said, _ = aimed(self.method.loss, self.tape.scores(own.points), own.targets, own.aim)
        slack = 100 * torch.finfo(said.dtype).eps * float(said.abs().max())
        refused = now.rows.is_cuda and record.replay is step
        self.records = not refused and torch.allclose(own.value, said, rtol=0, atol=slack)
        if not self.records:
            return None
        record.caught.copy_(self.best.index_select(0, now.rows))
        record.counts.zero_()
        place.zero_()
        own.overwrite(now)
        return record

    def _blind_step(self, record: Record, region: Region) -> None:
        """One step that asks nothing, and reads and writes the same tensors every time; fooled ones climb on."""
        now, caught = record.now, record.caught
        ahead = replace(now)
        fresh, slope = self._step(ahead, region, 1)
        first, those = self._first(now.rows, fresh)
        torch.where(_wide(first, caught), ahead.points, caught, out=caught)
        ahead.fooled, ahead.won = now.fooled | those, now.won | first
        ahead.gradient = self.tape.pull(slope)
        _keep_best(ahead)
        now.overwrite(ahead)
        record.counts.index_add_(0, record.place, first.sum().view(1))
        record.place.add_(1)

    def _store(self, record: Record) -> None:
        """Take over what was caught while nobody asked."""
        now, taken = record.now, int(record.place)
        self.counts += (self.counts[-1] + record.counts[:taken].cumsum(0)).tolist()
        which = now.won.nonzero().squeeze(1)  # one of each example
        self.best.index_copy_(0, now.rows[which], record.caught.index_select(0, which))
        self.fooled[now.rows] = now.fooled

    def _step(self, now: Climb, region: Region, number: int) -> tuple[Tensor, Tensor]:
        """Move and look: who is fooled there for the first time, and the slope of the loss in the outputs."""
        now.before, now.points = now.points, self._moved(now, region, number)
        outputs = self.tape.forward(now.points)
        value, slope = aimed(self.method.loss, outputs, now.targets, now.aim)
        now.rises = now.rises + (value > now.value)
        now.value = value
        return beaten(outputs, now.targets) & ~now.fooled, slope

    def _end(self, now: Climb, region: Region, start: Tensor, left: int) -> None:
        """Keep the best points of those that were never fooled, if any are left."""
        if left == 0:
            return
        held = ~now.fooled
        if isinstance(self.method.start, Tensor):
            start = region.inputs  # a given point may be as good as can be
        moved = ~(held & stuck(region.threat, now.best_points, start))
        self.stuck[now.rows] = ~self._first(now.rows, moved)[1]
        ahead = held & (now.best_value > self.value[now.rows])
        if self.several:
            most = torch.full_like(self.value, -torch.inf)
            most.scatter_reduce_(0, now.rows, torch.where(ahead, now.best_value, -torch.inf), "amax")
            ahead, _ = self._first(now.rows, ahead & (now.best_value == most[now.rows]))
        better = ahead.nonzero().squeeze(1)
        self.value[now.rows[better]] = now.best_value[better]
        self.best.index_copy_(0, now.rows[better], now.best_points.index_select(0, better))

    def _first(self, rows: Tensor, flags: Tensor) -> tuple[Tensor, Tensor]:
        """Of the flagged runs the first of each example, and all runs of these examples."""
        if not self.several:
            return flags, flags
        number = torch.arange(len(rows), device=rows.device)
        first = torch.full_like(self.fooled, len(rows), dtype=torch.int64)
        first = first.scatter_reduce_(0, rows, torch.where(flags, number, len(rows)), "amin")[rows]
        return flags & (first == number), first < len(rows)

    def _begin(self, lanes: Tensor, runs: list[int], aims: Tensor | None, start: str | Tensor) -> tuple[Climb, Region]:
        count = len(self.targets)
        self.several = len(runs) > 1
        rows = lanes % count if self.several else lanes
        region = self.region if len(rows) == count and not self.several else self.region.select(rows)
        if isinstance(start, Tensor):
            each = start.ndim > region.inputs.ndim
            some = start[rows, rows.new_tensor(runs)[lanes // count]] if each else start[rows]
            points = region.retract(some.to(region.inputs))
        else:
            points = region.random(self.generator) if start == "random" else region.inputs
        targets, aim = self.targets[rows], None if aims is None else aims[rows, lanes // count]
        known, self.known = self.known, None
        if known is not None and points is region.inputs and not self.several:  # where that pass was
            outputs, those = known[rows], rows
        else:
            outputs, those = self.tape.forward(points), None
        value, slope = aimed(self.method.loss, outputs, targets, aim)
        gradient = self.tape.pull(slope, those)
        self.gradients += len(rows)
        long = region.threat.radius * (1.0 if region.threat.norm == "l1" else 2.0)
        step = torch.full_like(value, long)
        count = max(points[0].numel(), 1)
        now = Climb(
            rows, targets, aim, points, points, value, gradient, step, points.clone(), value, gradient,
            rises=torch.zeros_like(rows), last_step=step, last_best=value,
            share=torch.full_like(value, _FIRST_SHARE), moved=torch.full_like(value, float(count)),
            fooled=self.fooled[rows], won=torch.zeros_like(rows, dtype=torch.bool),
        )  # fmt: skip
        self._note(now, beaten(outputs, targets) & ~now.fooled)
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
        """Keep the misclassified points, one of each example, and let their examples be done."""
        first, those = self._first(now.rows, fresh)
        which = first.nonzero().squeeze(1)
        self.counts.append(self.counts[-1] + len(which))
        if len(which):
            self.best.index_copy_(0, now.rows[which], now.points.index_select(0, which))
            self.fooled[now.rows[which]] = True
            now.fooled, now.won = now.fooled | those, now.won | first

    def _adapted(self, now: Climb, region: Region, taken: int, *, in_place: bool) -> Climb:
        """At a check point, `taken` steps after the last one: who goes on as before, who halves and returns."""
        mine, now, radius = now, replace(now), region.threat.radius
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
        if not in_place:
            return now
        mine.overwrite(now)
        return mine


def left_over(fooled: Tensor, block: int, crowded: float = CROWDED) -> tuple[Tensor, int]:
    """The rows of those not fooled and how many they are; beside them others, up to a size that recurs, if any."""
    if len(fooled) <= block * _BLOCKS:  # fewer take as long
        left = len(fooled) - int(fooled.sum())
        return torch.arange(len(fooled) if left else 0, device=fooled.device), left
    rows = (~fooled).nonzero().squeeze(1)
    if block == 0 or len(rows) == 0:
        return rows, len(rows)
    blocks = -(-len(rows) // block)
    size = block * max(blocks, _BLOCKS)
    if size > crowded * len(fooled):
        size = len(fooled)
    return fooled.to(torch.uint8).argsort(stable=True)[:size].sort().values, len(rows)


def _wide(flags: Tensor, points: Tensor) -> Tensor:
    """One flag an example, to be read beside its points."""
    return flags.view((-1,) + (1,) * (points.ndim - 1))


def _keep_best(now: Climb) -> None:
    better = now.value > now.best_value
    now.best_value = torch.where(better, now.value, now.best_value)
    now.best_points = torch.where(_wide(better, now.points), now.points, now.best_points)
    now.best_gradient = torch.where(_wide(better, now.points), now.gradient, now.best_gradient)


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
