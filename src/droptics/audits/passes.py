"""What a module did in one pass of each mode, under watch: the evidence for findings about how it drops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import scipy
import torch
from torch import Tensor, nn

from droptics.audits.batches import Batch, run
from droptics.audits.criteria import LossFunction
from droptics.models.watching import Trace, as_written, watched

ACCIDENT = 1e-4  # chance of a false alarm


@dataclass(frozen=True)
class OwnMask:
    """A place that draws random numbers outside torch's dropout functions.

    Attributes:
        name: As in the user's model.
        nominal: Rate that the part says it has; None when it does not say.
        seen: First input and output of the part in one training pass, where both are tensors of one shape.
        in_evaluation: Whether it also draws in evaluation mode.
        compiled: Whether TorchScript hides what it does.
    """

    name: str
    nominal: float | None
    seen: tuple[Tensor, Tensor] | None
    in_evaluation: bool
    compiled: bool


@dataclass(frozen=True)
class Passes:
    """The module on the first batch, once in training and once in evaluation mode.

    Attributes:
        module: The module itself; rules may run it, and leave it in evaluation mode.
        batch: The first batch.
        training: Everything seen in training mode.
        evaluation: Everything seen in evaluation mode.
        outputs: What it returned in evaluation mode.
        own: Places with masks of their own.
        loss: Function of (outputs, targets) that is audited.
        recomputes: Whether the backward pass may call parts of the module again.
    """

    module: nn.Module
    batch: Batch
    training: Trace
    evaluation: Trace
    outputs: Tensor
    own: Sequence[OwnMask]
    loss: LossFunction | None = None
    recomputes: bool = True


def evaluated(module: nn.Module, batch: Batch) -> tuple[Tensor, Trace]:
    """Outputs and everything that is seen in one pass, in the mode in which the module is."""
    with torch.no_grad():
        outputs, trace = watched(module, lambda: run(module, batch), keep=True, randomness=True)
    trace.linear.clear()  # nobody asks, and the last one holds the outputs
    return outputs, trace


def trained(
    module: nn.Module, batch: Batch, on_end: Callable[[Tensor, Trace], None] | None = None
) -> tuple[Trace, bool]:
    """Everything that is seen in one pass with gradients, and whether a backward pass may call parts of it again.

    `on_end` sees the outputs, which nobody holds, because they may be a vocabulary.
    """
    held = False

    def look(site: str, rate: float) -> float | None:
        nonlocal held  # what is computed again in the backward pass stands in hooks of saved tensors
        held = held or torch._C._autograd._top_saved_tensors_default_hooks(False) is not None
        return as_written(site, rate)

    with torch.enable_grad():
        outputs, trace = watched(module, lambda: run(module, batch), look, keep=True, randomness=True)
    trace.linear.clear()
    if on_end is not None:
        on_end(outputs.detach(), trace)
    return trace, held or _in_python(outputs.grad_fn)


def _in_python(root: Any) -> bool:
    """Whether a backward pass from here runs functions that are written in Python: others call no part of a module."""
    seen, waiting = {None, root}, [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            return True
        ahead = {edge for edge, _ in getattr(node, "next_functions", ())} - seen
        seen |= ahead
        waiting += ahead
    return False


def zeroed(seen: tuple[Tensor, Tensor] | None) -> tuple[float | None, float | None]:
    """Share of the non-zero inputs that were zeroed, and the median factor on the others."""
    if seen is None:
        return None, None
    source, result = seen
    alive = source != 0
    if not bool(alive.any()):
        return None, None
    kept = alive & (result != 0)
    rate = 1 - float(kept.sum()) / float(alive.sum())
    factor = float((result[kept] / source[kept]).median()) if bool(kept.any()) else None
    return rate, factor


def differs(seen: tuple[Tensor, Tensor], rate: float) -> bool:
    """Whether so many zeros are no accident at this rate: by a test over the examples, which fall independently.

    Binomial where an example falls as a whole or not at all, Student on the shares of the examples otherwise. Shares
    that are all alike have no spread to compare with: by Markov's inequality an independent share is so far on its side
    of the rate with a chance of at most rate / share, or (1 - rate) / (1 - share) from below. A count that the rate was
    rounded to is no other rate.
    """
    source, result = (value.reshape(len(value), -1) for value in seen)
    alive = source != 0
    fell = (alive & (result == 0)).sum(1)[alive.any(1)].double()
    shares = fell / alive.sum(1)[alive.any(1)]
    if len(shares) == 0:
        return False
    if len(shares) == 1 or bool(((shares == 0) | (shares == 1)).all()):
        trials = int(alive.sum()) if len(shares) == 1 else len(shares)
        found = int(fell.sum()) if len(shares) == 1 else int(shares.sum())
        below, above = scipy.special.bdtr(found, trials, rate), scipy.special.bdtrc(found - 1, trials, rate)
        return 2 * float(min(below, above)) < ACCIDENT
    if bool((shares == shares[0]).all()):  # their standard deviation may round to more than zero
        share = float(shares[0])
        chance = rate / share if share > rate else (1 - rate) / (1 - share)
        return abs(share - rate) > 1 / int(alive.sum(1).max()) and 2 * chance ** len(shares) < ACCIDENT
    ratio = abs(float(shares.mean()) - rate) / float(shares.std()) * len(shares) ** 0.5
    return 2 * float(scipy.special.stdtr(len(shares) - 1, -ratio)) < ACCIDENT


def coins(seen: tuple[Tensor, Tensor] | None) -> float | None:
    """The factor on the survivors, where every example as a whole is multiplied by zero or by one common factor."""
    if seen is None or seen[0].ndim == 0:
        return None
    source, result = (value.double().reshape(len(value), -1) for value in seen)
    stays = (result != 0).any(1)
    if not bool(stays.any()):
        return None
    factor = float((result[stays] * source[stays]).sum() / source[stays].square().sum())
    wanted = factor * source[stays]
    level = 16 * torch.finfo(seen[1].dtype).eps
    return factor if bool(((result[stays] - wanted).abs() <= level * wanted.abs()).all()) else None
