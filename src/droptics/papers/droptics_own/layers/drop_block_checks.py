"""What the claim on DropBlock compares: which places fall, how often and together, and what survivors become."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import torch
from torch import Tensor

from droptics.evidence.claims import Comparison, compare
from droptics.layers import DropBlock
from droptics.papers.instances import normal, tensor


def block_layer(scale: float) -> list[Comparison]:
    """DropBlock in training: who survives is divided by the chance that no block covers the place, so means stay.

    A place that n blocks of the kind can cover survives with chance (1 - gamma)^n, counted here block by block; gamma
    is such that the shares dropped are `drop` on average over the places, and draws drop as often. What fell is a union
    of whole blocks. A block larger than the map is cut to its smaller side.
    """
    found = []
    kinds: tuple[Literal["clipped", "valid", "centered"], ...] = ("clipped", "valid", "centered")
    sizes: tuple[tuple[tuple[int, ...], int, float], ...] = (((8, 8), 3, 0.2), ((5, 9), 7, 0.1), ((9,), 4, 0.3))
    for edges, (size, side, drop) in itertools.product(kinds, sizes):
        layer = DropBlock(drop, side, spatial=1 if len(size) == 1 else 2, edges=edges).train()
        block = min(side, *size)
        image = normal(len(size), 1, 2, *size)
        with torch.random.fork_rng():
            torch.manual_seed(4)
            drawn = layer(image.expand(2000, 2, *size))
        counts, both, fell = [], [], drawn == 0
        for length in size:
            starts = _starts(length, block, edges)
            counts.append([sum(a <= i < a + block for a in starts) for i in range(length)])
            both.append([sum(a <= i and i + 1 < a + block for a in starts) for i in range(length - 1)])
        covers = tensor([math.prod(one) for one in itertools.product(*counts)]).reshape(size)
        alive = (1 - layer.seed_rate(size)) ** covers
        label = f"{edges}, map {size}, block {block}"
        found.append(compare(1 - alive.mean(), "==", scale * drop, f"share by counting, {label}"))
        found.append(compare(layer.realized_rate(size), "==", scale * drop, f"rate by formula, {label}"))
        survivors = torch.where(drawn == 0, image / alive, drawn)
        found.append(compare(survivors, "==", scale * image / alive, f"who survives, {label}"))
        # both channels have masks of their own: 4,000 draws of each place
        often = fell.double().mean((0, 1))
        error = 5 * (alive * (1 - alive) / 4000).sqrt()
        found.append(compare((often - (1 - alive)).abs() / error, "<=", 1.0, f"how often each place falls, {label}"))
        found.append(compare(_blocks_within(fell[:50], size, block, edges), "==", fell[:50], f"whole blocks, {label}"))
        # neighbours on the last axis survive together where no block covers either
        shared = tensor([math.prod(one) for one in itertools.product(*counts[:-1], both[-1])])
        either = covers[..., 1:] + covers[..., :-1] - shared.reshape(*size[:-1], size[-1] - 1)
        pair = (1 - layer.seed_rate(size)) ** either
        often = ((drawn != 0)[..., 1:] & (drawn != 0)[..., :-1]).double().mean((0, 1))
        error = 5 * (pair * (1 - pair) / 4000).sqrt()
        found.append(compare((often - pair).abs() / error, "<=", 1.0, f"neighbours fall together, {label}"))
    return found


def _starts(length: int, block: int, edges: str) -> range:
    """Where blocks may begin."""
    first, last = {
        "clipped": (1 - block, length - 1),
        "valid": (0, length - block),
        "centered": (-((block - 1) // 2), length - 1 - (block - 1) // 2),
    }[edges]
    return range(first, last + 1)


def _blocks_within(fell: Tensor, size: tuple[int, ...], block: int, edges: str) -> Tensor:
    """The union of the blocks of which every place on the map fell."""
    union = torch.zeros_like(fell)
    for corner in itertools.product(*(_starts(length, block, edges) for length in size)):
        places: tuple[Any, ...] = (..., *(slice(max(start, 0), start + block) for start in corner))
        dims = tuple(range(2, fell.ndim))
        union[places] |= fell[places].all(dims[-1], keepdim=True).all(dims[0], keepdim=True)
    return union
