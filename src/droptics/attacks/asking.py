"""Projected gradient ascent on a GPU that asks after every forward pass who is left.

An answer waits for the device, and is worth it where a pass takes longer than the question: those who are fooled need
no backward pass. It is also worth it in a search too short to be recorded, which ends as soon as nobody is left.
"""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.attacks import launches
from droptics.attacks.apgd import BLOCK, CROWDED, left_over
from droptics.attacks.ascent import Climbers
from droptics.attacks.device import WORTH_CAPTURING, DeviceAscent, keep_best, kernel
from droptics.attacks.gradients import PlainMlp

# A long search gets back what it takes to prepare a size: its batch shrinks by less at a time, with fewer beside.
_CROWDED, _BLOCK = 0.97, 16


class AskingAscent(DeviceAscent):
    """The same search, its batch filled up to sizes that recur."""

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
