"""MaskLaw: what every law of random masks can say about itself.

A law's author writes raw masks b. Only this file divides by the mean: models see multipliers z = b / mean, E z = 1.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from typing import ClassVar, final

import numpy as np
import torch
from torch import Tensor

from droptics.checks import as_drop, as_number, check_size
from droptics.errors import NoFiniteSupport
from droptics.masks.correlations import Correlations, check_dense
from droptics.transforms import as_array


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
        return raw / self.mean.to(raw)

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


class CoinLaw(MaskLaw):
    """Masks of zeros and ones that independent coins decide: one a unit, or coins that several units share."""

    @property
    @abc.abstractmethod
    def coin_drop(self) -> Tensor:
        """Probability with which each coin falls."""

    @abc.abstractmethod
    def units_of(self, kept: Tensor) -> Tensor:
        """Raw masks (count, size) of coins (count, coins), one where they are kept."""

    @property
    def bound(self) -> Tensor:
        return 1 / self.mean

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return self.units_of(coins(self.coin_drop, count, generator))

    @property
    def rarest(self) -> float:
        return rarest_side(self.coin_drop)

    @property
    def support_count(self) -> int:
        return 2 ** int((self.coin_drop > 0).sum())

    def support_batches(self, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        return ((self.units_of(kept), chances) for kept, chances in coin_batches(self.coin_drop, batch))


class RatedLaw(CoinLaw):
    """Every coin has a rate of its own and decides the next `block` units."""

    drop: Tensor
    block: int = 1
    _rate: ClassVar[float | None] = None  # where the rate is a number, so is what follows from it

    def _keep_rates(self, drop: float | Tensor, coins: int, reason: str) -> None:
        value = as_drop(drop)
        if value.ndim:
            check_size("drop", value.numel(), coins, reason)
            value = value.reshape(-1)
        object.__setattr__(self, "drop", value.expand(coins))
        object.__setattr__(self, "_rate", as_number(drop))

    @property
    def size(self) -> int:
        return self.drop.shape[0] * self.block

    @property
    def coin_drop(self) -> Tensor:
        return self.drop

    @property
    def mean(self) -> Tensor:
        return self.units_of(1 - self.drop)

    @property
    def covariance(self) -> Tensor:
        return self._by_block(self.drop * (1 - self.drop))

    @property
    def independent(self) -> bool:
        return self.block == 1

    @property
    def characteristic(self) -> Tensor:
        return self._by_block(self.relative_variance[:: self.block])

    @property
    def common_strength(self) -> float | None:
        return None if self._rate is None else self._rate / (1 - self._rate)

    @property
    def relative_variance(self) -> Tensor:
        one = self.common_strength
        return self.units_of(self.drop / (1 - self.drop)) if one is None else self.drop.new_full((self.size,), one)

    @property
    def reach(self) -> int:
        return self.block - 1

    def diagonal(self, lag: int) -> Tensor:
        together = torch.arange(self.block, device=self.drop.device) < self.block - lag  # i and i + lag in one block
        return (self.relative_variance * together.repeat(len(self.drop)))[: max(self.size - lag, 0)]

    def units_of(self, kept: Tensor) -> Tensor:
        return kept if self.block == 1 else kept.repeat_interleave(self.block, dim=-1)

    def _by_block(self, values: Tensor) -> Tensor:
        check_dense(self.size)
        ones = torch.ones(self.block, self.block, dtype=values.dtype, device=values.device)
        return torch.kron(torch.diag(values), ones)


def coin_batches(drop: Tensor, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """All outcomes of independent coins (1 = kept) with their probabilities; coins with drop 0 never fall.

    There are 2^m outcomes for m coins with positive drop; they come `batch` at a time.
    """
    device = drop.device
    random = (drop > 0).nonzero().squeeze(-1)
    bits = len(random)
    places = torch.arange(bits, device=device)
    for start in range(0, 2**bits, batch):
        codes = torch.arange(start, min(start + batch, 2**bits), device=device)
        dropped = (codes[:, None] >> places) & 1
        masks = torch.ones(len(codes), len(drop), dtype=drop.dtype, device=device)
        masks[:, random] = (1 - dropped).to(drop.dtype)
        chosen = torch.where(dropped.bool(), drop[random], 1 - drop[random])
        yield masks, chosen.prod(1)


def rarest_side(drop: Tensor) -> float:
    """Probability of the rarer side of the most uneven coin; coins that never fall are none."""
    rates = as_array(drop)
    falling = rates[rates > 0]
    return float(np.minimum(falling, 1 - falling).min()) if len(falling) else 1.0


def coins(drop: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw independent coins that fall with probability `drop`: (count, len(drop)) of zeros and ones."""
    uniform = torch.rand(count, len(drop), dtype=torch.float64, device=generator.device, generator=generator)
    return (uniform >= drop.detach().to(generator.device)).to(torch.float64)
