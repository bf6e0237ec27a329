"""Model: a frozen value that holds weights, has maskable units, and computes outputs under multipliers.

Models and mask laws do not know each other: a model takes a plain tensor of multipliers z (unit mean) that
broadcasts against (examples, units): (units,) is one mask for all examples, (examples, units) one mask each, and
(masks, 1, units) evaluates every example under every mask.
"""

from __future__ import annotations

import abc

import torch
from torch import Tensor

from droptics.checks import check_size


class Model(abc.ABC):
    """A parametrized map with `units` maskable units."""

    @property
    @abc.abstractmethod
    def units(self) -> int:
        """Number of maskable units: the length of a mask."""

    @property
    @abc.abstractmethod
    def tensors(self) -> tuple[Tensor, ...]:
        """The weights, in the order of the constructor."""

    @abc.abstractmethod
    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        """Outputs (..., examples, outputs) for inputs (examples, ...) under multipliers (all ones when None)."""

    @property
    def batch_shape(self) -> torch.Size:
        """Leading dimensions of the weights: the shape of a batch of models, empty for one model."""
        return torch.Size()

    @property
    def dtype(self) -> torch.dtype:
        """Floating-point type of the weights."""
        return self.tensors[0].dtype

    @property
    def device(self) -> torch.device:
        """Where the weights live."""
        return self.tensors[0].device


class LinearModel(Model):
    """A model whose map without masks is a matrix."""

    @abc.abstractmethod
    def matrix(self) -> Tensor:
        """The end-to-end map, (..., outputs, inputs)."""

    @property
    @abc.abstractmethod
    def input_size(self) -> int:
        """Number of input features."""

    @property
    @abc.abstractmethod
    def output_size(self) -> int:
        """Number of outputs."""


def check_multipliers(multipliers: Tensor, units: int) -> None:
    """Refuse multipliers that do not cover the units."""
    check_size("multipliers (last dimension)", multipliers.shape[-1], units, "one multiplier per unit")


def masked(values: Tensor, multipliers: Tensor | None, units: int) -> Tensor:
    """What units add (..., units) times their multipliers; None stands for ones."""
    if multipliers is None:
        return values
    check_multipliers(multipliers, units)
    return values * multipliers
