"""Laws of independent coins: dropout, and DropBlock, whose units fall together on a grid or in sliding windows."""

from __future__ import annotations

import abc
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import scipy
import torch
from torch import Tensor
from torch.nn import functional

from droptics.arguments import Count, DropRate, check_arguments
from droptics.checks import as_drop, as_number, check_size
from droptics.masks.correlations import Gram, check_dense
from droptics.masks.law import MaskLaw
from droptics.transforms import as_array, is_readable

Edges = Literal["clipped", "valid"]


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
        drop, device = self.coin_drop.detach().to(generator.device), generator.device
        uniform = torch.rand(count, len(drop), dtype=torch.float64, device=device, generator=generator)
        return self.units_of((uniform >= drop).to(torch.float64))

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


@dataclass(frozen=True, eq=False)
class Bernoulli(RatedLaw):
    """Independent units; unit i is dropped with probability drop (a number, or a tensor with one entry per unit).

    The characteristic matrix is diagonal with lambda = drop / (1 - drop). `drop` may require gradients.

    >>> Bernoulli(drop=0.5, size=2).characteristic
    tensor([[1., 0.],
            [0., 1.]], dtype=torch.float64)
    """

    drop: Tensor

    def __init__(self, drop: float | Tensor, size: Count) -> None:
        check_arguments(Bernoulli.__init__, locals())
        self._keep_rates(drop, size, "one rate per unit")


@dataclass(frozen=True, eq=False)
class Block(RatedLaw):
    """DropBlock on a grid: consecutive blocks of `block` units share one coin (pal2020-eq3).

    `drop` is a number or one rate per block. The characteristic matrix is block diagonal with entries
    lambda = drop / (1 - drop) inside a block.

    >>> Block(drop=0.5, size=4, block=2).characteristic
    tensor([[1., 1., 0., 0.],
            [1., 1., 0., 0.],
            [0., 0., 1., 1.],
            [0., 0., 1., 1.]], dtype=torch.float64)
    """

    drop: Tensor
    block: int

    def __init__(self, drop: float | Tensor, size: Count, block: Count) -> None:
        check_arguments(Block.__init__, locals())
        if size % block:
            raise ValueError(
                f"block must divide size, got block {block} and size {size}; "
                f"use a size of {size - size % block or block} or {size + block - size % block}"
            )
        self._keep_rates(drop, size // block, "one rate per block")
        object.__setattr__(self, "block", int(block))

    def weigh(self, gram: Tensor | Gram) -> Tensor:
        if self.common_strength is None or self.independent or self._narrow:
            return super().weigh(gram)
        entries = gram if isinstance(gram, Tensor) else gram.part(slice(None), slice(None))
        blocks = entries.reshape(*entries.shape[:-2], -1, self.block, len(self.drop), self.block)
        return self.common_strength * torch.diagonal(blocks, dim1=-4, dim2=-2).sum((-3, -2, -1))


@dataclass(frozen=True, eq=False)
class SlidingBlock(CoinLaw):
    """DropBlock as first proposed: the block that starts at each position falls with probability `drop`.

    A unit survives iff every block covering it does. With keep = 1 - drop, n_i blocks covering unit i and c_ij
    covering both i and j: mean_i = keep^n_i and characteristic_ij = keep^(-c_ij) - 1 (pal2020-sec5.3, corrected).

    `edges="clipped"` lets blocks start from -(block - 1) and cuts them at the border, so that every unit is covered
    `block` times; `edges="valid"` uses only blocks that fit, so that border units survive more often.
    """

    drop: Tensor
    positions: int
    block: int
    edges: Edges

    def __init__(self, drop: float | Tensor, size: Count, block: Count, edges: Edges = "clipped") -> None:
        check_arguments(SlidingBlock.__init__, locals())
        if edges == "valid" and block > size:
            raise ValueError(f"block must not exceed size with edges='valid', got block {block} and size {size}")
        value = as_drop(drop)
        if value.numel() != 1:
            raise ValueError(f"drop must be one number for SlidingBlock, got {value.numel()} of them")
        cover = block if edges == "clipped" else min(block, size - block + 1)
        if is_readable(value) and float(-cover * torch.log1p(-value.detach())) > 700:  # exp(700) is a number
            raise ValueError(f"drop must be lower, got {value.item()}: no unit of {cover} blocks survives in float64")
        object.__setattr__(self, "drop", value.reshape(()))
        object.__setattr__(self, "positions", int(size))
        object.__setattr__(self, "block", int(block))
        object.__setattr__(self, "edges", edges)

    @staticmethod
    def matching(drop: float, size: int, block: int, edges: Edges = "clipped") -> SlidingBlock:
        """The sliding law whose mean marginal drop is `drop`: solves mean_i keep'^n_i = 1 - drop.

        With clipped edges keep' = (1 - drop)^(1 / block); with valid edges the root is found to rounding.
        """
        rate = float(as_drop(drop))
        if rate == 0:
            return SlidingBlock(0.0, size, block, edges)
        cover = SlidingBlock(0.0, size, block, edges)._shared(0)

        def excess(log_keep: float) -> float:
            return float(-torch.expm1(log_keep * cover).mean()) - rate

        lowest = 1.5 * math.log1p(-rate)  # keep' >= keep because every unit is covered at least once
        root = scipy.optimize.brentq(excess, lowest, 0.0, xtol=1e-300, rtol=1e-15)
        return SlidingBlock(-math.expm1(root), size, block, edges)

    @property
    def size(self) -> int:
        return self.positions

    @property
    def mean(self) -> Tensor:
        return torch.exp(torch.log1p(-self.drop) * self._shared(0))

    @property
    def covariance(self) -> Tensor:
        return self.characteristic * torch.outer(self.mean, self.mean)

    @property
    def independent(self) -> bool:
        return self.block == 1

    @property
    def characteristic(self) -> Tensor:
        check_dense(self.size)
        place = torch.arange(self.size, device=self.drop.device)
        shared = self._containing(torch.minimum(place[:, None], place), torch.maximum(place[:, None], place))
        return torch.expm1(-torch.log1p(-self.drop) * shared)

    @property
    def relative_variance(self) -> Tensor:
        return self.diagonal(0)

    @property
    def reach(self) -> int:
        return min(self.block, self.size) - 1

    def diagonal(self, lag: int) -> Tensor:
        return torch.expm1(-torch.log1p(-self.drop) * self._shared(lag))

    @property
    def rarest(self) -> float:
        return min(rarest_side(self.coin_drop), rarest_side(1 - self.mean))

    @property
    def coin_drop(self) -> Tensor:
        starts = self.size + self.block - 1 if self.edges == "clipped" else self.size - self.block + 1
        return self.drop.expand(starts)

    def _shared(self, lag: int) -> Tensor:
        """Number of blocks that contain both unit i and unit i + lag, for every i."""
        place = torch.arange(self.size - lag, device=self.drop.device)
        return self._containing(place, place + lag)

    def _containing(self, left: Tensor, right: Tensor) -> Tensor:
        """Number of blocks that contain the units from `left` to `right`: their starts lie between two ends."""
        first, last = (1 - self.block, self.size - 1) if self.edges == "clipped" else (0, self.size - self.block)
        starts = left.clamp_max(last) - (right - self.block + 1).clamp_min(first) + 1
        return starts.clamp_min(0).to(torch.float64)

    def units_of(self, kept: Tensor) -> Tensor:
        """A unit survives when no block fell in the window of starts that cover it."""
        outside = 0 if self.edges == "clipped" else self.block - 1
        fallen = functional.pad(1 - kept, (outside + 1, outside)).cumsum(1)
        return (fallen[:, self.block :] - fallen[:, : -self.block] < 0.5).to(kept)


def drop_for_width(drop: DropRate, width: Count, block: Count = 1) -> float:
    """The width-adaptive rate that keeps the DropBlock penalty from vanishing as the width grows (pal2020-eq7).

    Solves rate / (1 - rate) = (width / block) drop / (1 - drop), so that the induced penalty
    (block / width) lambda(rate) ||.||^2 stays at drop / (1 - drop) times the squared norm for every width.

    Cost: O(1).

    >>> round(drop_for_width(0.1, width=50, block=5), 4)
    0.5263
    """
    check_arguments(drop_for_width, locals())
    rate = float(as_drop(drop))
    return rate * width / ((1 - rate) * block + rate * width)


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
