"""What the claim on shared masks compares: the masks of copies at several rates."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor, nn

from droptics.evidence.claims import Comparison, compare
from droptics.models.watching import Places
from droptics.rates.masking import SharedMasks

UNITS, RATES = 40_000, (0.05, 0.2, 0.3, 0.6)


def _fallen(rate: float, seed: int) -> Tensor:
    layer = nn.Dropout(0.5)
    with SharedMasks(Places(layer), {"dropout": rate}, seed, 0, []):
        return layer(torch.ones(UNITS)) == 0


def shared_masks(shared: bool) -> list[Comparison]:
    """Units that fall at the lower rate alone, and the share of units at which two copies differ."""
    fallen = [_fallen(rate, 0 if shared else place) for place, rate in enumerate(RATES)]
    found = []
    for rate, one in zip(RATES, fallen, strict=True):
        error = math.sqrt(rate * (1 - rate) / UNITS)
        found.append(compare(abs(float(one.double().mean()) - rate), "<=", 5 * error, f"share that falls at {rate}"))
        # units of one copy fall independently of their neighbors
        pairs = float((one[1:] & one[:-1]).double().mean())
        found.append(compare(abs(pairs - rate**2), "<=", 5 * rate / math.sqrt(UNITS), f"neighbors at {rate}"))
    for (p, low), (q, high) in itertools.combinations(zip(RATES, fallen, strict=True), 2):
        differing, least = float((low ^ high).double().mean()), q - p
        error = math.sqrt(least * (1 - least) / UNITS)
        found.append(compare(float((low & ~high).sum()), "==", 0.0, f"fall at {p} and not at {q}"))
        found.append(compare(abs(differing - least), "<=", 5 * error, f"share that differs, {p} and {q}"))
        # masks with these numbers of zeros differ at least where these numbers do
        bound = abs(float(high.double().mean() - low.double().mean()))
        found.append(compare(differing, "==", bound, f"the least that they can, {p} and {q}"))
    return found
