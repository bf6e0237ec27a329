"""Divergence: seen as soon as it happens, reported with the step and the step size."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from droptics.training.descents import Descent

# A loss this many times the first risk has left for good: gradients grow with the weights, so it never comes back.
HOPELESS = 1e8


class Diverged(ArithmeticError):
    """Training left all bounds; `step` and `step_size` say where, `runs` which runs of a batch."""

    def __init__(self, step: int, step_size: float, runs: tuple[int, ...]) -> None:
        self.step, self.step_size, self.runs = step, step_size, runs
        shown = ", ".join(map(str, runs[:8])) + (", ..." if len(runs) > 8 else "")
        super().__init__(
            f"training diverged at step {step} (run {shown}) with gradient step size {step_size:.3g}; "
            'use a smaller step_size or a schedule, or diverging="freeze" to go on with the other runs'
        )


class Guard:
    """Watches the losses and weights of all runs, and takes diverged runs out of training."""

    def __init__(self, first_risk: Tensor, sizes: Tensor, mode: Literal["raise", "freeze"]) -> None:
        self._limit = HOPELESS * (1 + first_risk.detach().reshape(-1).double().cpu())
        self._mode = mode
        self.sizes = sizes
        self.frozen: dict[int, int] = {}

    def remember(self, engine: Descent) -> dict[str, Tensor] | None:
        """The weights before a stretch of steps, when diverged runs are to be put back there."""
        if self._mode == "raise":
            return None
        return {name: value.clone() for name, value in engine.tensors().items() if value.ndim and name[0] == "w"}

    def check(
        self, engine: Descent, losses: Tensor, sizes: Tensor, step: int, before: dict[str, Tensor] | None
    ) -> None:
        """Look at the losses (steps, runs) that began at `step`, and at the weights they ended with."""
        limit = self._limit.to(losses.device)
        bad = ~(losses.detach().double() <= limit)  # true for NaN
        bad[-1] |= ~engine.sound().to(losses.device)
        if not bool(bad.any()):  # the only thing that a GPU is waited for
            return
        bad = bad.cpu()
        bad[:, list(self.frozen)] = False
        runs = tuple(int(run) for run in bad.any(0).nonzero().flatten())
        if not runs:
            return
        first = {run: int(bad[:, run].nonzero()[0]) for run in runs}
        earliest = min(first, key=lambda run: first[run])
        if self._mode == "raise":
            raise Diverged(step + first[earliest], float(sizes[first[earliest], earliest]), runs)
        assert before is not None
        now = engine.tensors()
        with torch.no_grad():
            for name, value in before.items():
                if len(self.sizes) == 1:
                    now[name].copy_(value)
                else:
                    now[name][list(runs)] = value[list(runs)]
        self.sizes = self.sizes.clone()
        self.sizes[list(runs)] = 0.0
        self.frozen |= {run: step + at for run, at in first.items()}

    def restore(self, sizes: Tensor, frozen: dict[int, int]) -> None:
        """Take back what a checkpoint holds."""
        self.sizes, self.frozen = sizes.to(self.sizes), frozen
