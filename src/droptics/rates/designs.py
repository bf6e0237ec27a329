"""Two-level designs: which sites are high and which low in each of a few copies, so that every effect is seen apart.

Columns are orthogonal and balanced: the effect of a site is the mean loss where it is high minus that where it is low,
and no other site's own effect enters it. Fractions of a factorial for up to 3 and 7 sites, Plackett and Burman's design
for up to 11.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.arguments import Count, check_arguments

# main effects first, products with the most factors next: few sites then share nothing with products of two
_FACTORS = {4: ((0,), (1,), (0, 1)), 8: ((0,), (1,), (2,), (0, 1, 2), (0, 1), (0, 2), (1, 2))}
_CYCLE = (1, 1, -1, 1, 1, 1, -1, -1, -1, 1, -1)
MOST_SITES = 11
LEAST_SPARE = 3


def two_level(sites: Count) -> Tensor:
    """Signs (copies, sites) of a design with 4, 8 or 12 copies, the fewest that hold the sites.

    Cost: O(runs factors). Claim: none, a table of signs.
    """
    check_arguments(two_level, locals())
    if sites > MOST_SITES:
        raise ValueError(f"sites must be at most {MOST_SITES}, got {sites}; put sites that are alike into groups")
    return _columns(next(size for size in (4, 8, 12) if sites < size))[:, :sites]


def _columns(copies: int) -> Tensor:
    """All orthogonal columns, (copies, copies - 1)."""
    if copies == 12:
        rows = [[_CYCLE[(i - shift) % 11] for i in range(11)] for shift in range(11)]
        return torch.tensor([*rows, [-1] * 11], dtype=torch.float64)
    levels = list(itertools.product((-1, 1), repeat=int(math.log2(copies))))
    return torch.tensor(
        [[math.prod(level[i] for i in factor) for factor in _FACTORS[copies]] for level in levels]
    ).double()


@dataclass(frozen=True)
class Effect:
    """Half the change of the loss when a site goes from the low to the high level, and its standard error."""

    value: float
    error: float


def effects(signs: Tensor, losses: Tensor) -> list[Effect]:
    """Effects of the sites from the losses (copies, examples) of a design.

    The error is paired over examples. Columns to spare show noise of the training, and products of sites: where there
    are at least three, their median is added, of which a single product that matters is no part. Fewer say nothing of
    noise: with two sites the one that is left is their product.
    """
    copies, sites = signs.shape
    columns = _columns(copies)
    each = columns.mT @ losses / copies
    spare = each[sites:].mean(1).square()
    noise = float(spare.median()) if len(spare) >= LEAST_SPARE else 0.0
    return [
        Effect(float(one.mean()), math.sqrt(float(one.var(unbiased=True)) / len(one) + noise)) for one in each[:sites]
    ]
