"""Discrete: any law with finitely many masks, written out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.checks import as_float_tensor, check_positive, check_size
from droptics.masks.correlations import check_dense
from droptics.masks.law import MaskLaw


@dataclass(frozen=True, eq=False)
class Discrete(MaskLaw):
    """Mask masks[a] (count, size) with probability probabilities[a]; entries need not be 0 or 1.

    Every unit needs a non-zero mean, because multipliers are masks divided by it.
    """

    masks: Tensor
    probabilities: Tensor

    def __post_init__(self) -> None:
        masks = as_float_tensor(self.masks, "masks", 2).double()
        probabilities = as_float_tensor(self.probabilities, "probabilities", 1)
        rounding = 4 * max(len(probabilities), 1) * torch.finfo(probabilities.dtype).eps
        probabilities = probabilities.double()
        if masks.shape[1] == 0:
            raise ValueError("masks must cover at least one unit, got none")
        check_size("probabilities", probabilities.shape[0], masks.shape[0], "one probability per mask")
        total = float(probabilities.sum())
        if bool((probabilities < 0).any()) or abs(total - 1) > rounding:
            raise ValueError(f"probabilities must be non-negative and sum to 1, got a sum of {total}")
        object.__setattr__(self, "masks", masks)
        object.__setattr__(self, "probabilities", probabilities / probabilities.sum())
        dead = (self.mean == 0).nonzero().squeeze(-1)
        if len(dead):
            raise ValueError(f"masks must have a non-zero mean for every unit, unit {int(dead[0])} has mean 0")

    @staticmethod
    def from_samples(
        sampler: Callable[[int, torch.Generator], Tensor] | Tensor,
        count: int = 10_000,
        generator: torch.Generator | None = None,
    ) -> Discrete:
        """The empirical law of a sampler `sampler(count, generator) -> masks`, or of masks already drawn.

        Equal masks are merged. Its moments have a sampling error of relative size 1 / sqrt(count).
        """
        if isinstance(sampler, Tensor):
            drawn = sampler
        else:
            check_positive("count", count)
            drawn = sampler(count, generator if generator is not None else torch.Generator().manual_seed(0))
        drawn = as_float_tensor(drawn, "samples", 2).double()
        check_positive("samples (rows)", drawn.shape[0])
        masks, counts = torch.unique(drawn, dim=0, return_counts=True)
        return Discrete(masks, counts.double() / counts.sum())

    @property
    def size(self) -> int:
        return self.masks.shape[1]

    @property
    def mean(self) -> Tensor:
        return self.probabilities @ self.masks

    @property
    def covariance(self) -> Tensor:
        check_dense(self.size)
        centered = self.masks - self.mean
        return (centered * self.probabilities[:, None]).mT @ centered

    @property
    def relative_variance(self) -> Tensor:
        return self.diagonal(0)

    def diagonal(self, lag: int) -> Tensor:
        ratios = self.masks / self.mean - 1
        return self.probabilities @ (ratios[:, : self.size - lag] * ratios[:, lag:])

    @property
    def bound(self) -> Tensor:
        return (self.masks[self.probabilities > 0] / self.mean).abs().amax(0)

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        weights = self.probabilities.detach().to(generator.device)
        chosen = torch.multinomial(weights, count, replacement=True, generator=generator)
        return self.masks.to(generator.device)[chosen]

    @property
    def rarest(self) -> float:
        # atoms about as rare as the rarest count together: a thousand of them are drawn like a density
        possible = self.probabilities[self.probabilities > 0].detach()
        return float(possible[possible <= 2 * possible.min()].sum())

    @property
    def support_count(self) -> int:
        return self.masks.shape[0]

    def support_batches(self, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        return iter(zip(self.masks.split(batch), self.probabilities.split(batch), strict=True))
