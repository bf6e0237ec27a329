"""DropBlock for sequences and images, with the drop rate that was asked for, and the rates of common libraries."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, get_args

import scipy
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.arguments import Count, DropRate, check_arguments
from droptics.checks import as_drop

Edges = Literal["clipped", "valid", "centered"]
Rate = Literal["matched", "inside", "area"]
Rescale = Literal["expected", "realized"]
Library = Literal["torchvision", "timm", "dropblock"]


class DropBlock(nn.Module):
    """Drops blocks of neighboring positions; every position keeps its mean, and `drop` is the mean realized rate.

    Seeds fall with a probability gamma and every seed drops a block of `block` positions (`block` x `block` for
    images). A position covered by n_i blocks survives with probability (1 - gamma)^n_i. With rate="matched" gamma
    solves mean_i (1 - gamma)^n_i = 1 - drop; with rescale="expected" survivors are divided by their own survival
    probability, so that the output is unbiased at every position. In evaluation mode it is the identity; random
    numbers come from torch's default generator, as in nn.Dropout.

    Args:
        drop: Mean probability that a position is dropped, the `p` of nn.Dropout.
        block: Side of a block; cut to the map where the map is smaller.
        spatial: 1 for inputs (examples, channels, length), 2 for (examples, channels, height, width).
        edges: Where blocks may lie: "clipped" lets them reach over the border, so that every position is covered
            equally often; "valid" keeps them inside; "centered" keeps their centers inside.
        rate: "matched" realizes `drop`; "inside" is gamma = drop size / (block^k positions of blocks inside), and
            "area" is gamma = drop / block^k: both ignore that blocks overlap or are cut.
        rescale: "expected" divides by the survival probability, "realized" by the share that survived in the batch
            (which makes the mask depend on the batch and the output biased).
        shared: One mask for all channels of an example.
    """

    def __init__(
        self,
        drop: DropRate = 0.1,
        block: Count = 7,
        *,
        spatial: Literal[1, 2] = 2,
        edges: Edges = "clipped",
        rate: Rate = "matched",
        rescale: Rescale = "expected",
        shared: bool = False,
    ) -> None:
        check_arguments(DropBlock.__init__, locals())
        super().__init__()
        self.drop = float(as_drop(drop))
        self.block, self.spatial, self.edges = int(block), int(spatial), edges
        self.rate, self.rescale, self.shared = rate, rescale, bool(shared)

    @staticmethod
    def like(library: Library, drop: float = 0.1, block: int = 7) -> DropBlock:
        """The two-dimensional layer as a common library draws it for the same nominal setting.

        "torchvision" (ops.DropBlock2d): blocks inside the map, a mask per channel. "timm" (DropBlock2d): centers
        anywhere in the map although gamma is that of blocks inside, one mask for all channels. "dropblock"
        (DropBlock2D): centers anywhere, gamma = drop / block^2, one mask for all channels. All three divide by the
        share that survived in the batch.
        """
        check_arguments(DropBlock.like, locals())
        if library == "torchvision":
            return DropBlock(drop, block, edges="valid", rate="inside", rescale="realized")
        rate: Rate = "inside" if library == "timm" else "area"
        return DropBlock(drop, block, edges="centered", rate=rate, rescale="realized", shared=True)

    @property
    def p(self) -> float:
        """The nominal rate, under the name nn.Dropout uses."""
        return self.drop

    def seed_rate(self, size: Sequence[int]) -> float:
        """Gamma: the probability of a seed, for a map of this size."""
        return _seed_rate(self.drop, self.block, self.edges, self.rate, tuple(size))

    def realized_rate(self, size: Sequence[int]) -> float:
        """Mean probability that a position of a map of this size is dropped: 1 - mean_i (1 - gamma)^n_i."""
        return 1 - _mean_survival(math.log1p(-self.seed_rate(size)), _covers(tuple(size), self.block, self.edges))

    def forward(self, input: Tensor) -> Tensor:
        """Drop blocks in training mode; the identity in evaluation mode."""
        if input.ndim != self.spatial + 2:
            other = input.ndim - 2
            advice = f", or set spatial={other} for this shape" if other in (1, 2) else ""
            raise ValueError(
                f"input must be (examples, channels, {'length' if self.spatial == 1 else 'height, width'}), "
                f"got shape {tuple(input.shape)}; an example alone needs a dimension in front, input[None]{advice}"
            )
        if not self.training or self.drop == 0 or input.numel() == 0:
            return input
        size = tuple(input.shape[2:])
        gamma = self.seed_rate(size)
        kept = self._kept(input, size, gamma)
        if self.rescale == "realized":
            wide = torch.promote_types(input.dtype, torch.float32)  # a half-precision sum would overflow or round
            return _scaled(input, kept, 1 / kept.mean(dtype=wide).clamp_min(1e-6 / kept.numel()))
        sides = [_side_covers(length, self.block, self.edges, size) for length in size]
        covered = [torch.tensor(side, dtype=torch.float64, device=input.device) for side in sides]
        covers = covered[0] if self.spatial == 1 else torch.outer(covered[0], covered[1])
        return _scaled(input, kept, torch.exp(-math.log1p(-gamma) * covers))

    def _kept(self, input: Tensor, size: tuple[int, ...], gamma: float) -> Tensor:
        block = min(self.block, *size)
        starts, padding = _layout(size, block, self.edges)
        shape = (input.shape[0], 1 if self.shared else input.shape[1], *starts)
        # not in place: vmap draws for every member of its batch
        seeds = torch.bernoulli(torch.empty(shape, dtype=input.dtype, device=input.device), gamma)
        if any(padding):
            seeds = functional.pad(seeds, padding)
        if self.spatial == 1:
            return 1 - functional.max_pool1d(seeds, block, stride=1)
        # a square maximum is a maximum along each side
        return 1 - functional.max_pool2d(functional.max_pool2d(seeds, (block, 1), stride=1), (1, block), stride=1)

    def extra_repr(self) -> str:
        """The settings, for printing."""
        return (
            f"drop={self.drop}, block={self.block}, spatial={self.spatial}, edges={self.edges!r}, rate={self.rate!r}, "
            f"rescale={self.rescale!r}, shared={self.shared}"
        )


@dataclass(frozen=True)
class RealizedRate:
    """One line of the table of realized rates."""

    size: int
    drop: float
    block: int
    matched: float
    torchvision: float
    timm: float
    dropblock: float


def realized_rates(
    sizes: Sequence[int] = (8, 16, 32), drops: Sequence[float] = (0.1,), blocks: Sequence[int] = (3, 5, 7)
) -> list[RealizedRate]:
    """What the same nominal setting drops on square maps: this layer, and the presets of three libraries; exact.

    Cost: O(size^2) per setting. Claim: droptics-dropblock-layer, of `DropBlock`.

    >>> row = realized_rates(sizes=(8,), drops=(0.1,), blocks=(7,))[0]
    >>> [round(rate, 2) for rate in (row.matched, row.torchvision, row.timm, row.dropblock)]
    [0.1, 0.1, 0.62, 0.06]
    """
    check_arguments(realized_rates, locals())
    rows = []
    for size, drop, block in itertools.product(sizes, drops, blocks):
        square = (size, size)
        library = [DropBlock.like(name, drop, block).realized_rate(square) for name in get_args(Library)]
        rows.append(RealizedRate(size, drop, block, DropBlock(drop, block).realized_rate(square), *library))
    return rows


def _layout(size: tuple[int, ...], block: int, edges: str) -> tuple[list[int], list[int]]:
    """Shape of the grid of seeds, and the padding (last dimension first) that makes every map a window maximum."""
    if edges == "clipped":
        return [length + block - 1 for length in size], [0] * (2 * len(size))
    if edges == "valid":
        return [length - block + 1 for length in size], [block - 1] * (2 * len(size))
    return list(size), [block // 2, block - 1 - block // 2] * len(size)


def _counts(length: int, block: int, edges: str) -> list[int]:
    """How many blocks cover each position along one side."""
    if edges == "clipped":
        return [block] * length
    if edges == "valid":
        return [min(i + 1, block, length - i, length - block + 1) for i in range(length)]
    before, after = block // 2, block - 1 - block // 2
    return [min(i, before) + 1 + min(length - 1 - i, after) for i in range(length)]


@lru_cache(maxsize=256)
def _covers(size: tuple[int, ...], block: int, edges: str) -> tuple[int, ...]:
    """How many blocks cover each position of the map."""
    sides = [_counts(length, min(block, *size), edges) for length in size]
    return tuple(math.prod(combination) for combination in itertools.product(*sides))


def _mean_survival(log_keep: float, covers: tuple[int, ...]) -> float:
    return math.fsum(math.exp(log_keep * cover) for cover in covers) / len(covers)


def _scaled(input: Tensor, kept: Tensor, factor: Tensor) -> Tensor:
    """Input * kept * factor; in half precision only the product is rounded, so that the factor keeps its digits."""
    wide = torch.promote_types(input.dtype, torch.float32)
    return (input.to(wide) * (kept.to(wide) * factor.to(wide))).to(input.dtype)


def _side_covers(length: int, block: int, edges: str, size: tuple[int, ...]) -> list[float]:
    """Cover counts along one side as floats."""
    return [float(count) for count in _counts(length, min(block, *size), edges)]


def _seed_rate(drop: float, block: int, edges: str, rate: str, size: tuple[int, ...]) -> float:
    return _solved_rate(drop, block, edges, rate, size)


@lru_cache(maxsize=256)
def _solved_rate(drop: float, block: int, edges: str, rate: str, size: tuple[int, ...]) -> float:
    if 0 in size:  # a map without a position loses none
        return 0.0
    cut = min(block, *size)
    area = cut ** len(size)
    if rate == "area":
        return drop / area
    if rate == "inside":
        # block (length - block + 1) >= length on every side, so this never exceeds drop
        return drop * math.prod(size) / (area * math.prod(length - cut + 1 for length in size))
    if drop == 0:
        return 0.0
    if edges == "clipped":
        return -math.expm1(math.log1p(-drop) / area)
    covers = _covers(size, block, edges)
    # the mean survival falls from 1 (log_keep 0) past 1 - drop before every cover count reaches that on its own
    low = math.log1p(-drop) / min(covers)
    root = scipy.optimize.brentq(lambda t: _mean_survival(t, covers) - (1 - drop), low * 1.001, 0.0, xtol=1e-15)
    return -math.expm1(root)


for _constant in (_side_covers, _seed_rate):  # torch.compiler.assume_constant_result, without loading the compiler
    _constant._dynamo_marked_constant = True  # type: ignore[union-attr]
