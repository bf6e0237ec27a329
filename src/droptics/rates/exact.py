"""Where algebra reaches, no copies: a linear head on fixed features, by exact leave-one-out or on validation data.

If all that is trained is the last linear layer, with squared loss and dropout right before it, then training to the end
at a rate is ridge regression in the metric of the features (droptics-head), and the errors of the fits without each
example follow from one factorization for all rates (droptics-loo).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from droptics.arrays import Array
from droptics.audits.batches import Batch, run
from droptics.audits.heads import confirmed, find_head, head_features
from droptics.heads.leave_one_out import Whitened
from droptics.losses import Squared
from droptics.models.modes import set_training
from droptics.models.watching import all_off, only, watched
from droptics.rates.copies import EVALUATED, Problem
from droptics.rates.examples import Examples
from droptics.rates.running import Trained


@dataclass(frozen=True, eq=False)
class HeadScan:
    """Losses of a head trained to the end, at any rate."""

    whitened: Whitened
    held: tuple[Array, Array] | None

    @property
    def method(self) -> str:
        """In words."""
        return "exact leave-one-out" if self.held is None else "closed form of the trained head"

    def scan(self, rates: Sequence[float]) -> list[Trained]:
        """Losses of the examples at every rate, and that on the training data."""
        strengths = [rate / (1 - rate) for rate in rates]
        inputs, targets = self.whitened.raw[:2]
        left_out = self.whitened.leave_one_out(strengths) if self.held is None else None
        found = []
        for i, strength in enumerate(strengths):
            own = self._errors(strength, inputs, targets)
            errors = left_out[i] if left_out is not None else self._errors(strength, *self.held)  # type: ignore[misc]
            losses = torch.from_numpy(np.square(errors).sum(1))[None]
            found.append(Trained(losses, (float(np.square(own).sum(1).mean()),), (None,)))
        return found

    def _errors(self, strength: float, inputs: Array, targets: Array) -> Array:
        fitted = (inputs - self.whitened.input_mean) @ self.whitened.coefficients(strength).T
        return np.asarray(targets - self.whitened.target_mean - fitted)


def head_scan(problem: Problem, held: bool) -> HeadScan | None:
    """The scan by algebra, where the module allows it; `held=False` leaves out training examples instead."""
    module, examples = problem.module, problem.train
    plain = examples.joined and problem.validation.joined and not examples.parts[0].own_loss
    if not (plain and isinstance(problem.loss, Squared) and len(problem.before) == 1):
        return None
    set_training(module, False)
    with torch.no_grad():
        batch = next(examples.in_order(EVALUATED))
        outputs, trace = watched(module, lambda: run(module, batch), all_off, keep=True)
        head = find_head(trace, outputs)
        if head is None or not _alone(module, trace.linear[-1].weight, trace.linear[-1].bias):
            return None
        masked, trial = watched(module, lambda: run(module, batch), only(head.site), keep=True)
        if not confirmed(head, trial, masked):
            return None
        inputs, targets = _features(module, examples)
        intercept = trace.linear[-1].bias is not None
        whitened = Whitened.of(inputs, targets, np.ones(len(inputs)), 1, intercept)
        return HeadScan(whitened, _features(module, problem.validation) if held else None)


def _alone(module: nn.Module, weight: Tensor, bias: Tensor | None) -> bool:
    """Whether the weights and the bias of the head are trained, and nothing else is."""
    trained = {id(value) for value in module.parameters() if value.requires_grad}
    return trained == {id(value) for value in (weight, bias) if value is not None}


def _features(module: nn.Module, examples: Examples) -> tuple[Array, Array]:
    """What the head reads, and its targets, in double precision."""
    rows, targets = [], []

    def called(batch: Batch) -> Tensor:
        return head_features(watched(module, lambda: run(module, batch), all_off, keep=True)[1])

    for batch in examples.in_order(EVALUATED):
        rows.append(called(batch).double().cpu())
        wanted = batch.targets.double().cpu()
        targets.append(wanted[:, None] if wanted.ndim == 1 else wanted)
    return torch.cat(rows).numpy(), torch.cat(targets).numpy()
