"""What a module did in one pass of each mode, under watch: the evidence for findings about how it drops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor, nn

from droptics.audits.batches import Batch
from droptics.audits.criteria import LossFunction
from droptics.models.watching import Trace


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
    """

    module: nn.Module
    batch: Batch
    training: Trace
    evaluation: Trace
    outputs: Tensor
    own: Sequence[OwnMask]
    loss: LossFunction | None = None


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
