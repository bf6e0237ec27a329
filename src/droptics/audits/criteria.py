"""Losses of a batch example by example: the library's, torch's, token labels, and the model's own.

An interval over examples needs one number per example. `parts` gives (sums, weights) with one entry per example, and
the loss of the batch is sum(sums) / sum(weights); a loss that only returns one number for a batch has one entry.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.losses import CrossEntropy, Logistic, Loss, Squared

LOSSES: dict[str, Loss] = {"squared": Squared(), "cross-entropy": CrossEntropy(), "logistic": Logistic()}
OWN = "model"
IGNORED = -100  # torch's label of tokens that do not count
# torch's losses whose mean is that of all entries
ENTRYWISE = (nn.MSELoss, nn.L1Loss, nn.SmoothL1Loss, nn.HuberLoss, nn.BCEWithLogitsLoss, nn.BCELoss)
DOUBLE = 2**20  # outputs up to which a loss is computed in float64 at once

LossFunction = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class MeanSquared(Loss):
    """`nn.MSELoss()`: the squared loss divided by the number of outputs."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().mean(-1)


@dataclass(frozen=True)
class Labels(Loss):
    """Cross-entropy of many labels per example (tokens, pixels), or of probabilities; labels of -100 do not count.

    Attributes:
        axis: Where the classes are in the outputs, 1 or -1.
        shift: Whether position t is compared with label t + 1, as causal language models do.
        smoothing: Of the labels.
    """

    axis: int = -1
    shift: bool = False
    smoothing: float = 0.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """One loss per label, zero where the label does not count: (n, positions)."""
        if self.shift:
            outputs, targets = outputs.narrow(2 if self.axis == 1 else 1, 0, targets.shape[1] - 1), targets[:, 1:]
        # classes last are rows of a matrix: transposed, they would be copied once more, and a vocabulary is large
        rows = self.axis == -1
        losses = functional.cross_entropy(
            outputs.flatten(0, -2) if rows else outputs,
            targets.flatten() if rows else targets,
            ignore_index=IGNORED,
            reduction="none",
            label_smoothing=self.smoothing,
        )
        return losses.reshape(len(targets), -1)

    def counted(self, targets: Tensor) -> Tensor:
        """How many labels of every example count; the probabilities of all classes are one."""
        kept = targets[:, 1:] if self.shift else targets
        if kept.is_floating_point():
            return torch.full((len(kept),), kept[:, 0].numel() // len(kept), device=kept.device)
        return (kept != IGNORED).reshape(len(kept), -1).sum(1)


@dataclass(frozen=True)
class Entrywise(Loss):
    """A loss of torch that averages over all entries, example by example."""

    function: nn.Module

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        values: Tensor = self.function(outputs, targets.reshape(outputs.shape))
        return values.flatten(1).mean(1) if values.ndim > 1 else values


@dataclass(frozen=True)
class OwnLoss(Loss):
    """The number that the model itself returns: it is the output already."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return outputs.mean()


def as_loss(loss: str | Loss | LossFunction) -> LossFunction:
    """A function of (outputs, targets): a droptics loss, its name, one of torch's, or the caller's own.

    torch's modules and functions with plain options become losses per example; the caller's own may return a mean or
    one number per example.
    """
    if isinstance(loss, str):
        if loss == OWN:
            return OwnLoss()
        if loss not in LOSSES:
            raise ValueError(f"loss must be one of {sorted([*LOSSES, OWN])} or a function, got {loss!r}")
        return LOSSES[loss]
    if not callable(loss):
        raise ValueError(f"loss must be one of {sorted([*LOSSES, OWN])} or a function, got {type(loss).__name__}")
    if loss is functional.mse_loss:
        return MeanSquared()
    if loss is functional.cross_entropy:
        return Labels(axis=1)
    if isinstance(loss, nn.Module):
        return _of_torch(loss)
    return loss


def _of_torch(loss: nn.Module) -> LossFunction:
    if getattr(loss, "reduction", None) != "mean" or getattr(loss, "weight", None) is not None:
        return loss
    if type(loss) is nn.MSELoss:
        return MeanSquared()
    if type(loss) is nn.CrossEntropyLoss and loss.ignore_index == IGNORED:
        return Labels(axis=1, smoothing=loss.label_smoothing)
    if type(loss) in ENTRYWISE:
        single = copy.copy(loss)
        vars(single)["reduction"] = "none"
        return Entrywise(single)
    return loss


def counted(values: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Rows of values with their class labels, those alone whose label counts; all where targets are no class labels."""
    if targets.is_floating_point() or targets.ndim != 1 or len(values) != len(targets):
        return values, targets
    return values[targets != IGNORED], targets[targets != IGNORED]


def guess_loss(targets: Tensor) -> Loss:
    """Squared loss for floating-point targets, cross-entropy for class labels, of tokens or pixels too."""
    if targets.is_floating_point():
        return Squared()
    return CrossEntropy() if targets.ndim == 1 else Labels()


def fitted(loss: LossFunction, outputs: Tensor, targets: Tensor) -> LossFunction:
    """The loss in the form that fits these shapes: where the classes are, one number or many per example."""
    if isinstance(loss, CrossEntropy) and targets.ndim > 1:
        loss = Labels()
    if isinstance(loss, Labels):
        if targets.ndim == 1 and outputs.ndim == 2 and not loss.smoothing and bool((targets != IGNORED).all()):
            return CrossEntropy()
        last, second = outputs.shape[:-1] == targets.shape, outputs[:, 0].shape == targets.shape
        if last != second or (last and loss.axis == -1):
            return Labels(-1 if last else 1, loss.shift, loss.smoothing)
    if isinstance(loss, MeanSquared) and outputs.ndim == 2 and outputs.shape[1] == 1:
        return Squared()
    return loss


def parts(loss: LossFunction, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """(sums, weights) with one entry per example, or with one entry where the loss returns one number.

    In float64; large outputs (a vocabulary, many pixels) a few examples at a time where the loss has one number per
    example and no gradient is asked for, else as they are. Targets follow the outputs' precision and shape where that
    is harmless.
    """
    if outputs.numel() > DOUBLE and isinstance(loss, Loss) and not isinstance(loss, OwnLoss):
        if not (torch.is_grad_enabled() and outputs.requires_grad):
            rows = max(1, DOUBLE * len(outputs) // outputs.numel())
            pairs = zip(outputs.split(rows), targets.split(rows), strict=True)
            some = [_parts(loss, part.double(), wanted) for part, wanted in pairs]
            sums, weights = (torch.cat(column) for column in zip(*some, strict=True))
            return sums, weights
        return _parts(loss, outputs, targets)
    return _parts(loss, outputs.double(), targets)


def differentiated(loss: LossFunction, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
    """`parts` where gradients are wanted, and the derivative of the sum by the outputs.

    Of a loss that has one number per example, from a few examples at a time; then the sums have no graph, and large
    outputs are there twice, not four times. Other losses may hold more of the module than its outputs: their sums have
    the graph, and there is no derivative.
    """
    if not isinstance(loss, Loss) or isinstance(loss, OwnLoss) or len(outputs) != len(targets):
        return *parts(loss, outputs, targets), None
    way, rows, some = torch.zeros_like(outputs), max(1, DOUBLE * len(outputs) // max(outputs.numel(), 1)), []
    for part, wanted, there in zip(outputs.split(rows), targets.split(rows), way.split(rows), strict=True):
        leaf = part.detach().double().requires_grad_()
        sums, weights = _parts(loss, leaf, wanted)
        if not sums.requires_grad:
            return *parts(loss, outputs, targets), None
        there.copy_(torch.autograd.grad(sums.sum(), leaf)[0])
        some.append((sums.detach(), weights.detach()))
    sums, weights = (torch.cat(column) for column in zip(*some, strict=True))
    return sums, weights, way


def _parts(loss: LossFunction, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    if targets.is_floating_point():
        targets = targets.to(outputs.dtype)
        if targets.ndim == 1 and outputs.ndim == 2 and outputs.shape[1] == 1:
            targets = targets[:, None]
        if isinstance(loss, (Squared, MeanSquared)) and targets.shape != outputs.shape:
            raise ValueError(f"targets have shape {tuple(targets.shape)} but the outputs {tuple(outputs.shape)}")
    elif isinstance(loss, CrossEntropy) and targets.ndim == 1 and bool((targets == IGNORED).any()):
        loss = Labels()
    try:
        value = loss(outputs, targets)
    except TypeError as problem:
        raise ValueError(f"loss must be a function of outputs and targets: {problem}") from problem
    if not isinstance(value, Tensor):
        raise ValueError(f"loss must return a tensor, got {type(value).__name__}")
    value = value.double()
    if isinstance(loss, Labels):
        return value.sum(1), loss.counted(targets).to(value)
    if value.ndim == 0 or len(value) != len(targets):
        count = float(len(targets))
        return value.mean().reshape(1) * count, value.new_full((1,), count)
    flat = value.flatten(1) if value.ndim > 1 else value[:, None]
    return flat.sum(1), torch.full_like(flat[:, 0], float(flat.shape[1]))


def mean_loss(loss: LossFunction, outputs: Tensor, targets: Tensor) -> Tensor:
    """The loss of a batch."""
    sums, weights = parts(loss, outputs, targets)
    return sums.sum() / weights.sum()
