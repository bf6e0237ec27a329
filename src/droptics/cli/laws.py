"""Mask laws from command-line options."""

from __future__ import annotations

from collections.abc import Sequence

from droptics.masks import Bernoulli, Block, MaskLaw, Product, SlidingBlock
from droptics.models import DeepLinear, Model

WIDEST = 10_000_000
"""Units whose masks still fit into memory."""


def law_for(model: Model, drop: float, block: int, sliding: bool) -> MaskLaw:
    """The law that --drop, --block and --sliding describe, on the units of the model."""
    widths = model.layer_units if isinstance(model, DeepLinear) else (model.units,)
    if sliding:
        laws: list[MaskLaw] = [SlidingBlock.matching(drop, width, block) for width in widths]
        return laws[0] if len(laws) == 1 else Product(laws)
    return law_for_widths(widths, drop, block)


def law_for_widths(widths: Sequence[int], drop: float, block: int) -> MaskLaw:
    """Dropout, or DropBlock on a grid, on layers of the given widths."""
    if min(widths) < 1:
        raise ValueError(f"--width must be a positive whole number, got {min(widths)}")
    if max(widths) > WIDEST:
        raise ValueError(f"--width must be at most {WIDEST:,}, got {max(widths):,}")
    laws: list[MaskLaw] = [Bernoulli(drop, width) if block == 1 else Block(drop, width, block) for width in widths]
    return laws[0] if len(laws) == 1 else Product(laws)
