"""Laws side by side: Product, one per layer, and Stacked, one per run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.arguments import check_arguments
from droptics.masks.correlations import check_dense
from droptics.masks.law import MaskLaw


@dataclass(frozen=True, eq=False)
class Product(MaskLaw):
    """Independent laws on consecutive groups of units, such as one law per layer.

    >>> from droptics.masks.coins import Bernoulli
    >>> Product([Bernoulli(0.5, 3), Bernoulli(0.2, 2)]).size
    5
    """

    laws: tuple[MaskLaw, ...]

    def __init__(self, laws: Sequence[MaskLaw]) -> None:
        check_arguments(Product.__init__, locals())
        if not laws:
            raise ValueError("laws must hold at least one mask law, got none")
        object.__setattr__(self, "laws", tuple(laws))

    @property
    def size(self) -> int:
        return sum(law.size for law in self.laws)

    @property
    def mean(self) -> Tensor:
        return torch.cat([law.mean for law in self.laws], dim=-1)

    @property
    def covariance(self) -> Tensor:
        check_dense(self.size)
        return torch.block_diag(*(law.covariance for law in self.laws))

    @property
    def independent(self) -> bool:
        return all(law.independent for law in self.laws)

    @property
    def characteristic(self) -> Tensor:
        check_dense(self.size)
        return torch.block_diag(*(law.characteristic for law in self.laws))

    @property
    def relative_variance(self) -> Tensor:
        return torch.cat([law.relative_variance for law in self.laws], dim=-1)

    @property
    def reach(self) -> int:
        return max(law.reach for law in self.laws)

    def diagonal(self, lag: int) -> Tensor:
        parts = []
        for law in self.laws:
            inside = law.diagonal(lag) if lag < law.size else self.mean.new_zeros(0)
            parts += [inside, inside.new_zeros(law.size - len(inside))]
        return torch.cat(parts)[: max(self.size - lag, 0)]

    @property
    def bound(self) -> Tensor | None:
        bounds = [law.bound for law in self.laws]
        known = [bound for bound in bounds if bound is not None]
        return torch.cat(known) if len(known) == len(bounds) else None

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        return torch.cat([law.sample(count, generator) for law in self.laws], dim=1)

    @property
    def rarest(self) -> float:
        return min(law.rarest for law in self.laws)

    @property
    def support_count(self) -> int | None:
        counts = [law.support_count for law in self.laws]
        known = [count for count in counts if count is not None]
        return math.prod(known) if len(known) == len(counts) else None

    def support_batches(self, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        return _combine(self.laws, batch)


def _combine(laws: Sequence[MaskLaw], batch: int) -> Iterator[tuple[Tensor, Tensor]]:
    """All combinations, the last law varying fastest; batches never exceed `batch`."""
    if len(laws) == 1:
        yield from laws[0].support_batches(batch)
        return
    for right_masks, right_probabilities in _combine(laws[1:], batch):
        room = max(1, batch // len(right_masks))
        for left_masks, left_probabilities in laws[0].support_batches(room):
            left = left_masks.repeat_interleave(len(right_masks), dim=0)
            right = right_masks.repeat(len(left_masks), 1)
            yield torch.cat([left, right], 1), torch.outer(left_probabilities, right_probabilities).flatten()


class Stacked(MaskLaw):
    """Laws of equal size side by side, one per run: moments carry a leading dimension, penalties broadcast over it."""

    def __init__(self, members: Sequence[MaskLaw]) -> None:
        self._members = tuple(members)

    @property
    def size(self) -> int:
        return self._members[0].size

    @property
    def mean(self) -> Tensor:
        return torch.stack([law.mean for law in self._members])

    @property
    def covariance(self) -> Tensor:
        return torch.stack([law.covariance for law in self._members])

    @property
    def independent(self) -> bool:
        return all(law.independent for law in self._members)

    @property
    def characteristic(self) -> Tensor:
        return torch.stack([law.characteristic for law in self._members])

    @property
    def relative_variance(self) -> Tensor:
        return torch.stack([law.relative_variance for law in self._members])

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        raise ValueError("each run draws from its own law; sample from one of them")
