"""Losses as values: `loss(outputs, targets)` returns one number per example and broadcasts over leading dimensions."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from droptics.checks import check_size


class Loss(abc.ABC):
    """A loss of (outputs, targets) with outputs (..., n, outputs); the result has shape (..., n)."""

    @abc.abstractmethod
    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """One loss per example."""

    @property
    def slope(self) -> float | None:
        """Most that the loss changes when every output changes by at most one; None where it has no such limit."""
        return None

    def hessian(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Second derivatives in the outputs (n, outputs): one symmetric matrix per example, (n, outputs, outputs).

        By automatic differentiation, one backward pass per output, unless a loss knows its formula.
        """
        with torch.enable_grad():
            point = outputs if outputs.requires_grad else outputs.detach().requires_grad_(True)
            (slope,) = torch.autograd.grad(self(point, targets).sum(), point, create_graph=True)
            if not slope.requires_grad:
                return outputs.new_zeros(*outputs.shape, outputs.shape[-1])
            sums, keep = [slope[..., i].sum() for i in range(outputs.shape[-1])], outputs.requires_grad
            rows = [torch.autograd.grad(one, point, create_graph=keep, retain_graph=True)[0] for one in sums]
        return torch.stack(rows, dim=-2)

    def curvatures(self, outputs: Tensor, targets: Tensor, directions: Tensor) -> Tensor:
        """v^T Hessian v for every column v of directions (outputs, m): (n, m)."""
        hessian = self.hessian(outputs, targets)
        return ((hessian @ directions) * directions).sum(-2)


@dataclass(frozen=True)
class Squared(Loss):
    """Squared Euclidean distance, the loss of the exact formulas; targets (n, outputs)."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        if not targets.is_floating_point():
            raise ValueError(f"targets must be floating point for the squared loss, got {targets.dtype}")
        check_size("targets (last dimension)", targets.shape[-1], outputs.shape[-1], "one target per output")
        return (outputs - targets).square().sum(-1)

    def curvatures(self, outputs: Tensor, targets: Tensor, directions: Tensor) -> Tensor:
        return 2 * directions.square().sum(0).expand(outputs.shape[0], -1)

    def hessian(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return torch.diag_embed(torch.full_like(outputs, 2.0))


@dataclass(frozen=True)
class CrossEntropy(Loss):
    """Negative log-likelihood of the softmax, in nats; targets are class labels (n,)."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        check_labels(targets, outputs.shape[-1])
        log_probabilities = functional.log_softmax(outputs, dim=-1)
        index = targets.expand(outputs.shape[:-1]).unsqueeze(-1)
        return -log_probabilities.gather(-1, index).squeeze(-1)

    @property
    def slope(self) -> float:
        # log-sum-exp and the true class's own output change by at most one each
        return 2.0

    def hessian(self, outputs: Tensor, targets: Tensor) -> Tensor:
        chances = functional.softmax(outputs, dim=-1)
        return torch.diag_embed(chances) - chances.unsqueeze(-1) * chances.unsqueeze(-2)

    def curvatures(self, outputs: Tensor, targets: Tensor, directions: Tensor) -> Tensor:
        # the variance of the entries of v under the softmax; two matrix products instead of n Hessians
        chances = functional.softmax(outputs, dim=-1)
        return chances @ directions.square() - (chances @ directions).square()


@dataclass(frozen=True)
class Logistic(Loss):
    """log(1 + exp(-y f)) in nats for one output and labels y = -1 or +1, of shape (n,) or (n, 1)."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        # torch's softplus drops e^-x from 20 on, which double precision can still tell
        return -functional.logsigmoid(binary_margin(outputs, targets))

    @property
    def slope(self) -> float:
        return 1.0

    def hessian(self, outputs: Tensor, targets: Tensor) -> Tensor:
        chance = torch.sigmoid(outputs)
        return (chance * (1 - chance)).unsqueeze(-1)


def binary_margin(outputs: Tensor, targets: Tensor) -> Tensor:
    """Y f for one output and labels y = -1 or +1, positive where it is right. Cost: O(n). Claim: none, a definition."""
    if outputs.shape[-1] != 1:
        raise ValueError(f"outputs must have one column for a binary margin, got shape {tuple(outputs.shape)}")
    labels = targets.reshape(-1).to(outputs.dtype)
    if not bool(((labels == 1) | (labels == -1)).all()):
        raise ValueError("targets of the data must be -1 or +1 for a binary margin; map your labels first")
    return outputs.squeeze(-1) * labels


def check_labels(targets: Tensor, classes: int) -> None:
    """Refuse anything but class labels 0, ..., classes - 1. Cost: O(n). Claim: none, a check."""
    if targets.is_floating_point() or targets.dtype == torch.bool or targets.ndim != 1:
        came = f"{targets.dtype} of shape {tuple(targets.shape)}"
        raise ValueError(f"targets must be a vector of integer class labels, got {came}")
    if targets.numel() and (int(targets.min()) < 0 or int(targets.max()) >= classes):
        came = f"labels from {int(targets.min())} to {int(targets.max())}"
        raise ValueError(f"targets must lie in 0..{classes - 1} for {classes} outputs, got {came}")
