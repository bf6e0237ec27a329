"""Projected gradient ascent on a GPU, where a question to the device costs more than a step.

A perceptron with one hidden layer takes all its steps in one launch. Other networks of ordinary layers take them as
replays of one recorded step; examples leave only where a step without them saves more than recording it again costs.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import torch
from torch import Tensor

from droptics.attacks import launches
from droptics.attacks.ascent import Ascent, Climbers
from droptics.attacks.gradients import PlainMlp
from droptics.attacks.losses import Margin, Reflected, values
from droptics.attacks.methods import Pgd
from droptics.attacks.threat import Threat
from droptics.gpu.graphs import captured
from droptics.losses import CrossEntropy, Logistic, Loss

_STRETCH = 5  # steps in which it is looked twice at how many examples are left
_MANY = 2**22  # numbers in a batch from which looking pays where a step is recorded
_PRUDENCE = 2  # by how much the time that is saved must exceed that of preparing a smaller step
ORDERED = 4096  # examples from which their order decides how long the last blocks take
WORTH_CAPTURING = 16  # steps; recording one takes about as long as taking four


class DeviceAscent(Ascent):
    """The same search without a question to the device between two looks at how many examples are left."""

    def _climb(self, now: Climbers, outputs: Tensor | None) -> None:
        tape, kind = self.tape, kernel(self.method, self.region.threat, self.region.inputs)
        if kind is not None and isinstance(tape, PlainMlp) and launches.fits(tape.weights):
            self._climb_at_once(tape, now, outputs, kind)
        else:
            self._climb_by_replays(now, outputs, kind)

    def _climb_at_once(self, tape: PlainMlp, now: Climbers, outputs: Tensor | None, kind: int) -> None:
        """All steps in one launch; a block of examples ends when all of them are fooled."""
        order = None
        if self.leaves and outputs is not None and len(now.rows) >= ORDERED:
            # Examples of similar margin are fooled at about the same step; the longest blocks begin first.
            order = values(Margin(), outputs, now.targets)[1].argsort(descending=True)
        before = now.fooled.sum() if now.whole and self.counts else len(self.best) - len(now.rows)
        now.best = self._best_of(now)
        now.points = now.points.clone(memory_format=torch.contiguous_format)
        counts = launches.climb(now, tape, launches.Course(self.sizes, kind, self.leaves), order)
        sums = counts[: len(self.sizes) + 1].cumsum(0)
        self.counts.append(sums if isinstance(before, int) and before == 0 else sums + before)
        self.gradients = self.gradients + counts[len(self.sizes) + 1]
        self._store(now)
        self._note_stuck(now)

    def _climb_by_replays(self, now: Climbers, outputs: Tensor | None, kind: int | None) -> None:
        """Step by step, the steps recorded where the model allows it."""
        steps, place = self.method.steps, now.points.device
        sizes = torch.tensor(self.sizes, dtype=now.points.dtype).to(place, non_blocking=True)
        number = torch.zeros(1, dtype=torch.int64, device=place)  # of steps taken, for the device to read
        counts = torch.full((steps + 1,), len(self.best) - len(now.rows), device=place)
        now.points = now.points.clone(memory_format=torch.contiguous_format)  # written in place from here on
        pulled = taken = 0
        step: Callable[..., object] | None = None
        while taken < steps:
            if step is None:
                clock = _Clock(taken)
                now.best = self._best_of(now)
                step = self._step_of(now, sizes, number, counts, kind)
                step(outputs)
                outputs = None
                if steps - taken > WORTH_CAPTURING and self._capturable(now.points):
                    step = captured(step, place, rehearsals=0)
                clock.ready()
            else:
                step()
            taken += 1
            pulled += len(now.rows)
            if self._looks(now, taken):
                keep = (~now.fooled).nonzero().squeeze(1)
                if clock.saves(taken, steps, 1 - len(keep) / len(now.rows)):
                    self._store(now)
                    counts[taken:] += len(now.rows) - len(keep)
                    now, step = now.select(keep), None
                    if len(keep) == 0:
                        break
        if len(now.rows):
            now.best, now.slack = self._best_of(now) if now.best is None else now.best, 0.0
            keep_best(now, self._judge(now, self.tape.scores(now.points))[0])
            counts[taken] += now.fooled.sum()
        self.counts.append(counts[: taken + 1])
        self.gradients = self.gradients + pulled
        self._store(now)
        self._note_stuck(now)

    def _best_of(self, now: Climbers) -> Tensor:
        return self.best if now.whole else self.best.index_select(0, now.rows)

    def _looks(self, now: Climbers, taken: int) -> bool:
        """Whether it is worth to ask who is left after this many steps."""
        pays = now.points.numel() >= _MANY or not self._capturable(now.points)
        # After the first step those leave who were wrong before, after the third most of an undefended network's.
        return self.leaves and taken % _STRETCH in (1, 3) and pays

    def _step_of(
        self, now: Climbers, sizes: Tensor, number: Tensor, counts: Tensor, kind: int | None
    ) -> Callable[..., object]:
        """One step as a function that reads and writes the same tensors every time it is called."""
        assert now.best is not None
        if kind is not None:
            stepper = launches.Stepper(now, sizes, number, counts, kind, self.leaves)

        def step(outputs: Tensor | None = None) -> None:
            outputs = self.tape.forward(now.points) if outputs is None else outputs
            if kind is not None:
                stepper.move(self.tape.pull(stepper.judge(outputs)[1]))
            else:
                better, slope = self._judge(now, outputs)
                keep_best(now, better)
                near = self._moved(now, self.tape.pull(slope), sizes.index_select(0, number))
                if near.data_ptr() != now.points.data_ptr():
                    now.points.copy_(near)
                counts.index_add_(0, number, now.fooled.sum().view(1))
            number.add_(1)

        return step

    def _capturable(self, points: Tensor) -> bool:
        """Whether a step asks nothing of the device, so that a recording of it does what the step does."""
        inner = self.method.loss.loss if isinstance(self.method.loss, Reflected) else self.method.loss
        known = isinstance(inner, (CrossEntropy, Logistic, Margin))
        return points.is_cuda and known and self.tape.capturable and self.method.projection == "clip"


def kernel(method: Pgd, threat: Threat, inputs: Tensor) -> int | None:
    """Which loss the kernels are to climb; None where they do not apply."""
    plain = method.gradient != "raw" and method.projection != "exact"
    return known_to_kernels(method.loss, threat, inputs) if plain else None


def known_to_kernels(loss: Loss, threat: Threat, inputs: Tensor) -> int | None:
    """Which loss the kernels are to judge points by; None where they do not apply."""
    if threat.norm == "l1":
        return None
    if inputs.dtype != torch.float32 or not launches.runs_on(inputs.device):
        return None
    inner = loss.loss if isinstance(loss, Reflected) else loss
    if isinstance(inner, Margin):
        return launches.MARGIN
    if not isinstance(inner, CrossEntropy):
        return None
    return launches.REFLECTED if isinstance(loss, Reflected) else launches.CROSS_ENTROPY


class _Clock:
    """How long it took to prepare a step, and how long the steps take since."""

    def __init__(self, taken: int) -> None:
        self._taken, self._begin, self._ready = taken, perf_counter(), 0.0

    def ready(self) -> None:
        """The step is prepared, and was taken once."""
        self._ready = perf_counter()

    def saves(self, taken: int, steps: int, share: float) -> bool:
        """Whether the steps that are left take less time without this share of the examples, preparation included.

        To be asked when the device has taken all steps so far. What is found does not depend on the answer.
        """
        each = (perf_counter() - self._ready) / max(taken - self._taken - 1, 1)
        return share * each * (steps - taken) > _PRUDENCE * (self._ready - self._begin)


def keep_best(now: Climbers, better: Tensor) -> None:
    """Remember the points that are better, without asking which they are."""
    assert now.best is not None
    torch.where(better.view(-1, *[1] * (now.points.ndim - 1)), now.points, now.best, out=now.best)
