"""Which loss, and how the module wants its batches: found on the first batch, used for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from droptics.audits.batches import Batch, accepted, adapted, output_of, own_loss
from droptics.audits.criteria import Labels, LossFunction, MeanSquared, OwnLoss, as_loss, fitted, guess_loss, mean_loss
from droptics.losses import CrossEntropy, Squared
from droptics.models.modes import set_training
from droptics.predictions.running import COMPILED

AGREES = 1e-4  # relative; two losses of the same float32 outputs differ by far less, shifted labels by far more


@dataclass(frozen=True)
class Question:
    """The loss, and whether the module is called with the targets and its own loss is read."""

    loss: LossFunction
    given: bool
    own: bool

    def batch(self, module: nn.Module, batch: Batch) -> Batch:
        """A batch in the form in which the module takes it."""
        batch = adapted(module, batch)
        return batch.with_targets(own_loss=self.own) if self.given else batch


def ask(
    module: nn.Module, batch: Batch, loss: Any, look: Callable[[nn.Module, Batch], Tensor] | None = None
) -> Question:
    """Decide on the first batch; one pass in evaluation mode, made by `look` where the module does not ask for targets.

    Where the module takes the targets and returns its own loss, the loss that is meant is the one that equals it:
    causal language models compare position t with label t + 1, others do not. `loss="model"` uses the module's own
    number where no known loss equals it, which has one value per batch and not one per example.
    """
    criterion = guess_loss(batch.targets) if loss is None else as_loss(loss)
    own = isinstance(criterion, OwnLoss)
    batch = adapted(module, batch)
    names = accepted(module)
    takes = (batch.key or "labels") in names and (batch.key is not None or own)
    # encoder-decoder models make the decoder's inputs from the labels
    given = takes and "decoder_input_ids" in names and "decoder_input_ids" not in batch.options
    if own and not takes:
        raise ValueError(f"loss='model' needs a forward that takes 'labels', {type(module).__name__} takes {names}")
    value: float | None = None
    if takes and (own or given or isinstance(criterion, Labels)):
        outputs, value = _with_targets(module, batch)
    else:
        outputs = output_of(called(module, batch), batch) if look is None else look(module, batch)
    if value is not None and (own or loss is None):
        agreeing = _agreeing(value, outputs, batch.targets)
        if agreeing is not None:
            return Question(agreeing, given, False)
    if own:
        return Question(criterion, True, True)
    return Question(fitted(criterion, outputs, batch.targets), given, False)


def _with_targets(module: nn.Module, batch: Batch) -> tuple[Tensor, float | None]:
    """Outputs and own loss of the module."""
    full = batch.with_targets()
    result = called(module, full)
    try:
        value = float(own_loss(result))
    except ValueError:
        value = None
    if value is not None and isinstance(result, (tuple, list)) and len(result) > 1:
        result = result[1:]
    return output_of(result, batch), value


def called(module: nn.Module, batch: Batch) -> Any:
    """What the module returns in evaluation mode."""
    set_training(module, False)
    try:
        return module(*batch.arguments, **batch.options)
    except (RuntimeError, TypeError, IndexError, AttributeError, ValueError) as problem:
        raise ValueError(f"the forward pass of {type(module).__name__} fails on this data: {problem}") from problem


def _agreeing(value: float, outputs: Tensor, targets: Tensor) -> LossFunction | None:
    """The known loss that equals the module's own, if one does."""
    known: Sequence[LossFunction] = (CrossEntropy(), Squared(), MeanSquared())
    if targets.ndim > 1 and not targets.is_floating_point():
        known = (Labels(), Labels(shift=True))
    for loss in known:
        try:
            found = float(mean_loss(fitted(loss, outputs, targets), outputs, targets))
        except (ValueError, RuntimeError, IndexError):
            continue
        if abs(found - value) <= AGREES * abs(value):
            return fitted(loss, outputs, targets)
    return None


def uncompiled(module: nn.Module) -> nn.Module:
    """The module that `torch.compile` wrapped: its operators can be watched."""
    inner = getattr(module, "_orig_mod", None)
    return inner if type(module).__name__ == COMPILED and isinstance(inner, nn.Module) else module
