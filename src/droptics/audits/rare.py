"""Masks that are nearly always the same: where few coins are expected to fall, draws would show a network as it is.

With A that some coin of a batch is on its seldom side, and o the mask in which none is,

    E f(z) = P(not A) f(o) + P(A) E[f(z) | A]

so that one run under o and draws given A tell what draws at large miss, with the spread that they have.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from droptics.audits.runs import Base, Law

SELDOM = 0.05  # a usual mask this likely is run once, and left out of the draws

Masks = dict[str, list[Tensor]]


def chance_of_usual(laws: Sequence[Law], base: Base, rate: float | None = None) -> float:
    """P(not A): the chance that all coins of a batch, at these sites, are on their likelier side."""
    return math.exp(-sum(_hazard(_rate(law, rate)) * leaf.numel() for law in laws for leaf in base.leaves[law.name]))


def usual(laws: Sequence[Law], base: Base, rate: float | None = None) -> Masks:
    """The mask o in which no coin is on its seldom side."""
    return {
        law.name: [torch.full_like(leaf.detach(), _sides(_rate(law, rate))[0]) for leaf in base.leaves[law.name]]
        for law in laws
    }


def draw_unusual(laws: Sequence[Law], base: Base, generator: torch.Generator, rate: float | None = None) -> Masks:
    """Masks given A, exactly: which coin is the first on its seldom side, then those behind it as ever.

    The first is where a unit exponential, cut off at the sum of all -log P(likelier side), falls among these.
    """
    masks = usual(laws, base, rate)
    uniform = float(torch.rand((), generator=generator, device=generator.device, dtype=torch.float64))
    left = -math.log1p(-uniform * (1 - chance_of_usual(laws, base, rate)))
    found = False
    for law in laws:
        own = _rate(law, rate)
        hazard, (_, other) = _hazard(own), _sides(own)
        for k, mask in enumerate(masks[law.name]):
            place = math.floor(left / hazard) if hazard > 0 else mask.numel()
            if not found and place >= mask.numel():
                left -= hazard * mask.numel()
                continue
            drawn = law.draw(mask, own, generator)
            if not found:
                entries = drawn.flatten()
                entries[:place] = mask.flatten()[:place]
                entries[place] = other
                drawn, found = entries.reshape(mask.shape), True
            masks[law.name][k] = drawn
    return masks


def _rate(law: Law, rate: float | None) -> float:
    return law.rate if rate is None else rate


def _hazard(rate: float) -> float:
    """-log of the chance of the likelier side."""
    return -math.log1p(-min(rate, 1 - rate))


def _sides(rate: float) -> tuple[float, float]:
    """What a coin multiplies by on its likelier side, and on the other; at rate one nothing is ever kept."""
    kept = 1 / (1 - rate) if rate < 1 else math.inf
    return (kept, 0.0) if rate <= 1 / 2 else (0.0, kept)
