"""Losses as values: `loss(outputs, targets)` returns one number per example and broadcasts over leading dimensions."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional


class Loss(abc.ABC):
    """A loss of (outputs, targets) with outputs (..., n, outputs); the result has shape (..., n)."""

    @abc.abstractmethod
    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """One loss per example."""


@dataclass(frozen=True)
class Squared(Loss):
    """Squared Euclidean distance, the loss of the exact formulas; targets (n, outputs)."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if not targets.is_floating_point():
            raise ValueError(f"targets must be floating point for the squared loss, got {targets.dtype}")
        return (outputs - targets).square().sum(-1)


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """Negative log-likelihood of the softmax, in nats; targets are class labels (n,)."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        check_labels(targets, outputs.shape[-1])
        log_probabilities = functional.log_softmax(outputs, dim=-1)
        index = targets.expand(outputs.shape[:-1]).unsqueeze(-1)
        return -log_probabilities.gather(-1, index).squeeze(-1)


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-y f)) in nats for one output and labels y = -1 or +1, of shape (n,) or (n, 1)."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return functional.softplus(-binary_margin(outputs, targets))


def binary_margin(outputs: Tensor, targets: Tensor) -> Tensor:
    """Y f for one output and labels y = -1 or +1; positive where the prediction is right."""
    if outputs.shape[-1] != 1:
        raise ValueError(f"outputs must have one column for a binary margin, got shape {tuple(outputs.shape)}")
    labels = targets.reshape(-1).to(outputs.dtype)
    if not bool(((labels == 1) | (labels == -1)).all()):
        raise ValueError("targets must be -1 or +1 for a binary margin; map your labels first")
    return outputs.squeeze(-1) * labels


def check_labels(targets: Tensor, classes: int) -> None:
    """Refuse anything but class labels 0, ..., classes - 1."""
    if targets.is_floating_point() or targets.dtype == torch.bool or targets.ndim != 1:
        raise ValueError(
            f"targets must be a vector of integer class labels, got {targets.dtype} of shape {tuple(targets.shape)}"
        )
    if targets.numel() and (int(targets.min()) < 0 or int(targets.max()) >= classes):
        raise ValueError(
            f"targets must lie in 0..{classes - 1} for {classes} outputs, "
            f"got labels from {int(targets.min())} to {int(targets.max())}"
        )
