"""MaskLaw: what every law of random masks can say about itself.

A law's author writes raw masks b. Only this file divides by the mean: models see multipliers z = b / mean, E z = 1.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import final

import torch
from torch import Tensor

from droptics.errors import NoFiniteSupport
from droptics.masks.correlations import Correlations
from droptics.transforms import as_drawn


class MaskLaw(Correlations):
    """A distribution of masks on `size` units; every unit has a non-zero mean.

    A new law is a subclass with four members: `size`, `mean`, `covariance` and `sample`. Tensors are float64;
    penalties convert them to the dtype and device of the model. A law with finitely many masks may also offer
    `support_count` and `support_batches` and can then be enumerated; one with bounded masks may offer `bound` and
    then gets Monte-Carlo intervals that are guaranteed.
    """

    @property
    @abc.abstractmethod
    def mean(self) -> Tensor:
        """Mean of the raw mask, (size,)."""

    @property
    @abc.abstractmethod
    def covariance(self) -> Tensor:
        """Covariance of the raw mask, (size, size)."""

    @abc.abstractmethod
    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw `count` raw masks, (count, size), on the generator's device."""

    @property
    def characteristic(self) -> Tensor:
        return self.covariance / torch.outer(self.mean, self.mean)

    @property
    def bound(self) -> Tensor | None:
        """Largest absolute multiplier of each unit, or None when the masks are unbounded."""
        return None

    @property
    def rarest(self) -> float:
        """Probability of the rarest thing that can happen to a unit, or to a coin or atom behind it; 1 for densities.

        Random masks show what a law does only when they are many times the inverse of this.
        """
        return 1.0

    @property
    def support_count(self) -> int | None:
        """Number of masks that `support_batches` lists, or None when there is no finite list."""
        return None

    def support_batches(self, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All raw masks with their probabilities, `batch` at a time: (<= batch, size) and (<= batch,)."""
        raise NoFiniteSupport(f"{type(self).__name__} has no finite list of masks; use MonteCarlo instead")

    @final
    def multipliers(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw `count` masks of unit mean, (count, size)."""
        raw = self.sample(count, generator)
        return as_drawn(raw / self.mean.to(raw), self)

    @final
    def atom_batches(self, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        """All masks of unit mean with their probabilities, `batch` at a time."""
        for raw, probabilities in self.support_batches(batch):
            yield raw / self.mean.to(raw), probabilities

    @final
    def atoms(self) -> Iterator[tuple[Tensor, float]]:
        """All masks of unit mean with their probabilities, one at a time."""
        for multipliers, probabilities in self.atom_batches(1024):
            yield from zip(multipliers, probabilities.tolist(), strict=True)
