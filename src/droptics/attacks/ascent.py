"""Projected gradient ascent over a batch: keep the best point of every example, let the fooled ones leave.

On the CPU an example leaves as soon as it is fooled, between the forward pass that shows it and the backward pass that
it no longer needs. On a GPU asking how many are left would stall the device, so examples leave every tenth step only,
and the steps between are one captured graph where the model allows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from droptics.attacks.gradients import Differentiable
from droptics.attacks.losses import Margin, Reflected, beaten, check_problem, mistaken, value_and_slope
from droptics.attacks.methods import Pgd, step_sizes
from droptics.attacks.threat import Region, Threat
from droptics.losses import CrossEntropy, Logistic, Loss

# Fooled examples leave when the share of the others falls below this: taking rows out costs a copy of the batch.
_CROWDED = 0.92
_LOOK = 4  # steps between two looks at which examples stopped moving
_HALF_EMPTY = 0.5
_STRETCH = 10  # steps on a GPU between two looks at how many examples are left
_WORTH_CAPTURING = 16  # steps; capturing a graph takes about as long as four steps without it


@dataclass(eq=False)
class Trail:
    """What a search found and how it went.

    Attributes:
        inputs: The perturbed inputs.
        fooled: Which of them the model got wrong when the search saw them (never evaluated: False).
        stuck: Which examples ended within a hundredth of the radius of where they started: no gradient there.
        rates: Share of examples that are wrong at the iterate that would be returned, one number per step.
        gradients: How many input gradients were computed, summed over the examples.
        clean: Outputs at the unperturbed inputs, where the search came across them.
    """

    inputs: Tensor
    fooled: Tensor
    stuck: Tensor
    rates: list[float] = field(default_factory=list)
    gradients: int = 0
    clean: Tensor | None = None


@dataclass(eq=False)
class _Climbers:
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

    def select(self, keep: Tensor) -> _Climbers:
        return _Climbers(
            self.rows[keep],
            self.targets[keep],
            None if self.aim is None else self.aim[keep],
            self.region.select(keep),
            self.points.index_select(0, keep),
            None if self.start is None else self.start.index_select(0, keep),
            self.value[keep],
            self.fooled[keep],
            None if self.settled is None else self.settled[keep],
            None if self.fresh is None else self.fresh[keep],
        )


class Ascent:
    """One run of Pgd over a batch; the state is the best point so far of every example."""

    def __init__(
        self, tape: Differentiable, region: Region, targets: Tensor, method: Pgd, generator: torch.Generator | None
    ) -> None:
        self.tape, self.region, self.targets, self.method = tape, region, targets, method
        self.leaves = method.stop == "fooled"
        # A sign step that ends where it began does so again, with the same or a smaller size: that search is over.
        self.settles = self.leaves and region.threat.norm == "linf" and method.gradient == "steepest"
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
        """All restarts, and all targets of a loss that aims at each in turn."""
        method, loss = self.method, self.method.loss
        clean = self.tape.forward(self.region.inputs)
        outputs: Tensor | None = clean
        check_problem(loss, clean, self.targets)
        wrong = mistaken(clean, self.targets)
        aims = linearized_order(self.tape, clean, self.targets, loss, self.region.threat, wrong)
        self.gradients += 0 if aims is None else aims.shape[1] * int((~wrong).sum())
        if method.start == "random":
            self.fooled |= wrong & self.leaves
            outputs = None
        every = isinstance(loss, (Margin, Reflected)) and loss.target == "every"
        climb = self._climb if self.region.inputs.device.type == "cpu" else self._climb_without_waiting
        for restart in range(method.restarts):
            for column in range(aims.shape[1]) if every and aims is not None else [restart]:
                climbers = self._climbers(
                    None if aims is None else aims[:, column % aims.shape[1]], restart > 0 or method.start == "random"
                )
                if len(climbers.rows) == 0:
                    break
                climb(climbers, outputs)
                outputs = None
        return Trail(self.best, self.fooled, self.stuck & ~self.fooled, self.rates, self.gradients, clean)

    def _climbers(self, aim: Tensor | None, random: bool) -> _Climbers:
        """The examples not yet fooled, or all of them, at the inputs or at random points."""
        count, device = len(self.targets), self.targets.device
        rows = (~self.fooled).nonzero().squeeze(1) if self.leaves else torch.arange(count, device=device)
        region = self.region if len(rows) == count else self.region.select(rows)
        points = region.random(self.generator) if random else region.inputs
        aim = None if aim is None else aim[rows]
        start = points if random else None
        return _Climbers(rows, self.targets[rows], aim, region, points, start, self.value[rows], self.fooled[rows])

    def _climb(self, now: _Climbers, outputs: Tensor | None) -> None:
        """Climb once; `outputs` are those at the starting points if already known.

        A point is copied when the next one is not better: while an example climbs nothing has to be kept.
        """
        method, count = self.method, len(self.targets)
        still = 0
        for number in range(method.steps + 1):
            last = number == method.steps
            if outputs is None:
                outputs = self.tape.scores(now.points) if last else self.tape.forward(now.points)
            better, slope = self._judge(now, outputs)
            outputs = None
            if now.fresh is not None and now.before is not None:
                self._copy(now.rows, now.before, now.fresh & ~better)
            now.fresh = better
            done = now.fooled if now.settled is None else now.fooled | now.settled
            climbing = len(now.rows) - int(done.sum()) if self.leaves else len(now.rows)
            right = climbing if done is now.fooled and self.leaves else len(now.rows) - int(now.fooled.sum())
            self.rates.append(1.0 - (right + still) / count)
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
        self._store(now)
        self._note_stuck(now)

    def _copy(self, rows: Tensor, points: Tensor, chosen: Tensor) -> None:
        which = chosen.nonzero().squeeze(1)
        if len(which) == len(self.best):
            self.best.copy_(points)
        elif len(which):
            self.best.index_copy_(0, rows[which], points.index_select(0, which))

    def _climb_without_waiting(self, now: _Climbers, outputs: Tensor | None) -> None:
        """The same without a question to the device between two looks at how many are left."""
        steps, count = self.method.steps, len(self.targets)
        gone = count - len(now.rows)
        counts: list[tuple[Tensor, int]] = []
        pace = now.points.new_zeros(())
        now.points = now.points.clone()  # written in place from here on
        step: Callable[[], object] | None = None
        for number in range(steps):
            if step is None:
                now.best = self.best.index_select(0, now.rows)
                step = self._step_of(now, pace)
                fresh = True
            pace.fill_(self.sizes[number])
            step()
            counts.append((now.fooled.sum(), gone))
            self.gradients += len(now.rows)
            if fresh and steps - number > _WORTH_CAPTURING and self._capturable():
                step = captured(step) or step
            fresh = False
            if self.leaves and number % _STRETCH == _STRETCH - 1:
                keep = (~now.fooled).nonzero().squeeze(1)
                if len(keep) < _HALF_EMPTY * len(now.rows):
                    self._store(now)
                    gone += len(now.rows) - len(keep)
                    now, step = now.select(keep), None
                    if len(keep) == 0:
                        break
        if len(now.rows):
            if now.best is None:
                now.best = self.best.index_select(0, now.rows)
            _keep(now, self._judge(now, self.tape.scores(now.points))[0])
            counts.append((now.fooled.sum(), gone))
        fooled = torch.stack([number for number, _ in counts]).tolist()
        self.rates += [(gone + wrong) / count for wrong, (_, gone) in zip(fooled, counts, strict=True)]
        self._store(now)
        self._note_stuck(now)

    def _step_of(self, now: _Climbers, pace: Tensor) -> Callable[[], object]:
        """One step as a function that reads and writes the same tensors every time it is called."""

        def step() -> None:
            better, slope = self._judge(now, self.tape.forward(now.points))
            _keep(now, better)
            near = self._moved(now, self.tape.pull(slope), pace)
            if near.data_ptr() != now.points.data_ptr():
                now.points.copy_(near)

        return step

    def _judge(self, now: _Climbers, outputs: Tensor) -> tuple[Tensor, Tensor]:
        """Which points are better than any before, and the slope of the loss there."""
        wrong = beaten(outputs, now.targets)
        raw = self.method.gradient == "raw"
        value, slope = value_and_slope(self.method.loss, outputs, now.targets, now.aim, scaled=raw)
        if self.leaves:
            better = ~now.fooled & (wrong | (value > now.value))
        else:
            better = (wrong & ~now.fooled) | ((wrong == now.fooled) & (value > now.value))
        torch.where(better, value.to(now.value.dtype), now.value, out=now.value)
        now.fooled.logical_or_(wrong)
        return better, slope

    def _moved(self, now: _Climbers, gradient: Tensor, size: float | Tensor) -> Tensor:
        """The points one step further, inside the region."""
        raw = self.method.gradient == "raw"
        move = gradient if raw else now.region.threat.steepest(gradient, now.points)
        if isinstance(size, Tensor):
            moved = now.points.addcmul_(move, size)
        else:
            moved = torch.add(now.points, move, alpha=size, out=None if raw else move)
        return now.region.retract_(moved) if self.method.projection == "clip" else now.region.project(moved)

    def _capturable(self) -> bool:
        """Whether a step asks nothing of the device, so that a graph of it does what the step does."""
        inner = self.method.loss.loss if isinstance(self.method.loss, Reflected) else self.method.loss
        known = isinstance(inner, (CrossEntropy, Logistic, Margin))
        on_gpu = self.region.inputs.device.type == "cuda"
        return on_gpu and known and self.tape.capturable and self.method.projection == "clip"

    def _store(self, now: _Climbers) -> None:
        self.value[now.rows] = now.value
        self.fooled[now.rows] = now.fooled
        if now.best is not None:
            self.best.index_copy_(0, now.rows, now.best)

    def _note_stuck(self, now: _Climbers) -> None:
        start = now.region.inputs if now.start is None else now.start
        self.stuck[now.rows] = stuck(now.region.threat, now.points, start)


def _keep(now: _Climbers, better: Tensor) -> None:
    """Remember the points that are better, without asking which they are."""
    assert now.best is not None
    torch.where(better.view(-1, *[1] * (now.points.ndim - 1)), now.points, now.best, out=now.best)


def captured(step: Callable[[], object]) -> Callable[[], object] | None:
    """The step as a CUDA graph, without running it; None where it cannot be captured.

    A graph repeats the same kernels on the same memory, which is all that a step without questions does. The context
    manager of torch collects garbage and empties the cache each time, which takes longer than a whole search.
    """
    graph = torch.cuda.CUDAGraph()
    stream = torch.cuda.graph(graph).capture_stream
    assert stream is not None
    free, total = torch.cuda.mem_get_info()
    if free < total / 2:
        torch.cuda.empty_cache()  # memory of graphs that are gone is given back only here
    stream.wait_stream(torch.cuda.current_stream())
    try:
        with torch.cuda.stream(stream):
            graph.capture_begin()
            try:
                step()
            finally:
                graph.capture_end()
    except RuntimeError:
        return None
    torch.cuda.current_stream().wait_stream(stream)
    return graph.replay


def linearized_order(
    tape: Differentiable, outputs: Tensor, targets: Tensor, loss: Loss, threat: Threat, wrong: Tensor
) -> Tensor | None:
    """Wrong classes (n, candidates) in the order of their linearized distance; None when there is no choice to make.

    The distance to the boundary with class j is (z_y - z_j) / ||grad z_y - grad z_j|| in the dual norm, from the
    forward pass that the tape remembers. Examples that are already wrong keep the order of the logits.
    """
    classes = outputs.shape[-1]
    if not isinstance(loss, (Margin, Reflected)) or loss.target == "greedy" or classes <= 2:
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


def stuck(threat: Threat, points: Tensor, start: Tensor) -> Tensor:
    """Which examples hardly moved from where they started: the gradient vanished there."""
    return threat.distance(points, start) < 0.01 * threat.radius
