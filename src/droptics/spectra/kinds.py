"""Which kind of action a law has: the only place that tells laws with different closed forms apart."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.masks import Block, MaskLaw
from droptics.masks.correlations import WIDE
from droptics.spectra.actions import Action
from droptics.spectra.any_law import AnyLaw
from droptics.spectra.blocks import Blocks
from droptics.spectra.coordinates import shared_strength
from droptics.spectra.one_rate import OneRate
from droptics.spectra.unequal_rates import UnequalRates
from droptics.transforms import is_readable

if TYPE_CHECKING:
    from droptics.spectra.leading_factors import Leading


def action(masks: MaskLaw) -> Action:
    """What a law does to a spectrum; a law that is an Action answers for itself.

    >>> from droptics.masks import Bernoulli
    >>> action(Bernoulli(0.5, 3)).claim
    'mianjy2018-thm3.6'
    """
    return masks if isinstance(masks, Action) else _kind(masks)


def short_factors(target: Any, masks: MaskLaw, judged: bool = True) -> Leading | None:
    """`leading_factors` of an array under a law whose action is that of one rate; None otherwise."""
    found = [] if not isinstance(target, np.ndarray) else many_factors(target[None], masks, judged)
    return found[0] if found else None


def many_factors(targets: Array, masks: MaskLaw, judged: bool = True) -> list[Leading | None]:
    """The same for targets (count, a, q): one for each, or none at all under another law."""
    rate = None if isinstance(masks, Action) else shared_strength(masks)
    if rate is None and type(acting := action(masks)) is OneRate:
        rate = acting.rate
    if rate is None or masks.size > WIDE or 0 in targets.shape:
        return []
    from droptics.spectra.leading_factors import Room, leading_factors  # noqa: PLC0415 - it loads numba

    room = Room(targets.shape[1:], masks.size, len(targets), judged)
    return [leading_factors(target, rate, room, place) for place, target in enumerate(targets)]


@singledispatch
def _kind(masks: MaskLaw) -> Action:
    return rates(masks.relative_variance, masks.common_strength) if masks.independent else AnyLaw(masks)


@_kind.register
def _(masks: Block) -> Action:
    strengths, common = masks.relative_variance[:: masks.block], masks.common_strength
    if masks.block == 1:
        return rates(strengths, common)
    return Blocks(strengths, masks.block, common is not None or shared_rate(strengths) is not None)


def rates(strengths: Tensor, common: float | None = None) -> UnequalRates:
    """Independent units with these relative variances, `common` where all are known to be one number."""
    common = shared_rate(strengths) if common is None else common
    return UnequalRates(strengths) if common is None else OneRate(strengths, common)


def shared_rate(strengths: Tensor) -> float | None:
    """The number that all entries are, up to rounding; None when they differ, or torch.func.vmap hides them."""
    if not is_readable(strengths):
        return None
    low, high = (float(end) for end in torch.aminmax(strengths.detach()))
    return high if high - low <= 1e-12 * high else None
