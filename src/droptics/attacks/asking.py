"""Projected gradient ascent on a GPU that asks after every forward pass who is left.

An answer waits for the device, and is worth it where a pass takes longer than the question: those who are fooled need
no backward pass. It is also worth it in a search too short to be recorded, which ends as soon as nobody is left.
"""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.attacks import launches
from droptics.attacks.apgd import BLOCK, CROWDED, left_over
from droptics.attacks.ascent import Climbers, Trail, chooses
from droptics.attacks.device import WORTH_CAPTURING, DeviceAscent, keep_best, kernel
from droptics.attacks.gradients import PlainMlp
from droptics.attacks.losses import check_problem, mistaken

# A long search gets back what it takes to prepare a size: its batch shrinks by less at a time, with fewer beside.
_CROWDED, _BLOCK = 0.97, 16
_LANES = 2**22  # numbers in the lanes of examples that are few


class AskingAscent(DeviceAscent):
    """The same search, its batch filled up to sizes that recur.

    From given points all wrong classes of few examples are aimed at side by side, which takes as long as one of them.
    """

    def run(self) -> Trail:
        """As ever, or side by side where the outputs at the inputs are known."""
        method, loss, clean = self.method, self.method.loss, self.told.clean
        apart = isinstance(method.start, Tensor) and method.restarts == 1 and self.leaves and not self.tape.slack
        if apart and clean is not None and chooses(loss, clean) and loss.target == "every":
            most = min(loss.candidates, clean.shape[-1] - 1)
            if most * self.region.inputs.numel() <= _LANES:
                check_problem(loss, clean, self.targets, self.told.ends)
                others = clean.scatter(-1, self.targets[:, None], -torch.inf)
                return self._side_by_side(clean, others.topk(most, dim=-1).indices)
        return super().run()

    def _side_by_side(self, clean: Tensor, aims: Tensor) -> Trail:
        """One lane for each aim (n, classes) of every example, until each example is fooled in one of its lanes."""
        (count, most), place, steps = aims.shape, aims.device, self.method.steps
        lanes = torch.arange(-(-aims.numel() // BLOCK) * BLOCK, device=place) % aims.numel()  # a size that recurs
        rows = lanes // most
        region, targets, value = self.region.select(rows), self.targets[rows], self.value[rows]
        assert isinstance(self.method.start, Tensor)
        points, fooled = self.method.start.to(self.best)[rows], torch.zeros_like(rows, dtype=torch.bool)
        if not self.told.left:
            points, fooled = region.retract_(points), mistaken(clean, self.targets)[rows]
        best = region.inputs.clone()
        now = Climbers(rows, targets, aims.flatten()[lanes], region, points, None, value, fooled, best=best)
        kind = kernel(self.method, region.threat, region.inputs)
        sizes = launches.sizes_there(tuple(self.sizes), place)
        zeros = torch.zeros(steps + 3, dtype=torch.int64, device=place)
        number, unread = zeros[:1], zeros[2:]  # each where 16 bytes begin, as kernels are compiled for
        stepper = None if kind is None else launches.Stepper(now, sizes, number, unread, kind, True)
        counts: list[int] = []
        for taken in range(steps + 1):
            outputs = self.tape.forward(now.points)
            better, slopes = self._judge(now, outputs) if stepper is None else stepper.judge(outputs)
            seen = [] if self.told.left and taken == 0 else now.fooled[: aims.numel()].view(count, most).tolist()
            counts.append(sum(map(any, seen)))
            last = taken == steps or counts[-1] == count
            if stepper is None or last:
                keep_best(now, better)
            if last:
                break
            gradient = self.tape.pull(slopes)
            if stepper is None:
                now.points = self._moved(now, gradient, self.sizes[taken])
            else:
                stepper.move(gradient)
                number.add_(1)
        value = now.value.masked_fill(now.fooled, torch.inf)[: aims.numel()].view(count, most)
        chosen = lanes[: aims.numel()].view(count, most).gather(1, value.argmax(1, keepdim=True)).squeeze(1)
        return Trail(best[chosen], now.fooled[chosen], None, torch.tensor([*counts, taken * len(lanes)]), clean)

    def _climb(self, now: Climbers, outputs: Tensor | None) -> None:
        steps, place = self.method.steps, now.points.device
        long = self._capturable(now.points) and steps > WORTH_CAPTURING
        if long or not self.leaves or isinstance(self.tape, PlainMlp):
            super()._climb(now, outputs)
            return
        block, crowded = (BLOCK, CROWDED) if steps <= WORTH_CAPTURING else (_BLOCK, _CROWDED)
        block = block if now.points.is_cuda else 0
        kind = kernel(self.method, self.region.threat, self.region.inputs)
        sizes = torch.tensor(self.sizes, dtype=now.points.dtype).to(place, non_blocking=True)
        number = torch.zeros(1, dtype=torch.int64, device=place)  # of steps taken, for the device to read
        unread = torch.zeros(steps + 1, dtype=torch.int64, device=place)
        now.points = now.points.clone(memory_format=torch.contiguous_format)  # written in place from here on
        counts: list[int] = []
        stepper: launches.Stepper | None = None
        for taken in range(steps + 1):
            if outputs is None:
                outputs = self.tape.scores(now.points) if taken == steps else self.tape.forward(now.points)
                now.slack = 0.0 if taken == steps else now.slack
            if now.best is None:
                now.best = self._best_of(now)
                stepper = None if kind is None else launches.Stepper(now, sizes, number, unread, kind, self.leaves)
            if stepper is None or now.slack != self.tape.slack:
                better, slopes = self._judge(now, outputs)
            else:
                better, slopes = stepper.judge(outputs)
            outputs, chosen = None, None
            keep, left = left_over(now.fooled, block, crowded)
            counts.append(len(self.targets) - left)
            leave = len(keep) < crowded * len(now.rows)
            if stepper is None or leave or left == 0 or taken == steps:
                keep_best(now, better)
            if left == 0 or taken == steps:
                break
            if leave:
                self._store(now)
                now, slopes, chosen = now.select(keep), slopes[keep], keep
                now.best = self._best_of(now)
                stepper = None if kind is None else launches.Stepper(now, sizes, number, unread, kind, self.leaves)
            gradient = self.tape.pull(slopes, chosen)
            self.gradients = self.gradients + len(now.rows)
            if stepper is None:
                now.points = self._moved(now, gradient, self.sizes[taken])
            else:
                stepper.move(gradient)
                number.add_(1)
        self.counts.append(torch.tensor(counts, device=place))
        self._store(now)
        self._note_stuck(now)
