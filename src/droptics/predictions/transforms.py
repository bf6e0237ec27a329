r"""Characteristic functions of sums of masked units: E exp(i theta sum_j g_j (z_j - 1)), one rule per law.

The sum may be tilted: under exp(t sum) every rule keeps its form with other probabilities, which is how densities far
out in the tails keep their digits.
"""

from __future__ import annotations

import math
from functools import singledispatch
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli, Block, Gaussian, MaskLaw, Product
from droptics.predictions.kernels import LANES, add_coin_products
from droptics.transforms import wants_derivative

# Joint masks are listed up to this many.
LISTED = 4096
# Gaussian sums end at so many standard deviations: beyond lies less than 1e-18 of them.
GAUSSIAN_REACH = 9.0


class Transform(NamedTuple):
    """E exp((t + i theta) s) / E exp(t s) of a sum s, (..., angles), and log E exp(t s), (...)."""

    value: Tensor
    logarithm: Tensor


@singledispatch
def transform(law: MaskLaw, terms: Tensor, angles: Tensor, tilt: Tensor) -> Transform:
    """Transform of s = sum_j g_j (z_j - 1) for terms g (..., units), angles (..., angles) and a tilt t (...).

    Any law with a short list of masks; independent laws have rules of their own.
    """
    multipliers, chances = list_masks(law)
    sums = terms @ (multipliers.to(terms) - 1).mT
    weights = chances.to(terms).log() + tilt.unsqueeze(-1) * sums
    total = torch.logsumexp(weights, -1)
    phases = torch.exp(1j * angles.unsqueeze(-1) * sums.unsqueeze(-2))
    value = (phases @ torch.exp(weights - total.unsqueeze(-1)).to(phases).unsqueeze(-1)).squeeze(-1)
    return Transform(value, total)


@singledispatch
def mixed(law: MaskLaw, terms: Tensor, shift: Tensor, weight: Tensor, angles: Tensor, counts: Tensor) -> Tensor:
    """Sum over m of weight_m e^(i theta shift_m) E exp(i theta s_m), (..., angles), for terms (m, ..., units).

    Angles are multiples of their first one after zero; only the first counts (...) of them are asked for, the others
    may be zero. Coins on a CPU are summed by a compiled loop.
    """
    value = transform(law, terms, angles, torch.zeros_like(shift)).value
    return torch.tensordot(weight.to(value), value * torch.exp(1j * angles * shift.unsqueeze(-1)), dims=1)


@singledispatch
def extent(law: MaskLaw, terms: Tensor) -> tuple[Tensor, Tensor]:
    """Smallest and largest value of the sum, (...)."""
    multipliers, _ = list_masks(law)
    sums = terms @ (multipliers.to(terms) - 1).mT
    return sums.amin(-1), sums.amax(-1)


@transform.register
def _(law: Bernoulli, terms: Tensor, angles: Tensor, tilt: Tensor) -> Transform:
    drop = law.drop.to(terms)
    kept = terms / (1 - drop)
    # factors p e^(-u g) + (1 - p) e^(u (g / (1 - p) - g)) with e^(-u sum g) taken out
    moved = tilt.unsqueeze(-1) * kept
    logarithm = torch.logaddexp(drop.log().expand_as(kept), torch.log1p(-drop) + moved)
    rising = torch.exp(torch.log1p(-drop) + moved - logarithm)
    value = torch.ones((), dtype=torch.complex128, device=kept.device)
    for part, share in zip(kept.unbind(-1), rising.unbind(-1), strict=True):
        value = value * (1 + share.unsqueeze(-1) * (torch.exp(1j * angles * part.unsqueeze(-1)) - 1))
    total = terms.sum(-1)
    return Transform(value * torch.exp(-1j * angles * total.unsqueeze(-1)), logarithm.sum(-1) - tilt * total)


@mixed.register
def _(law: Bernoulli, terms: Tensor, shift: Tensor, weight: Tensor, angles: Tensor, counts: Tensor) -> Tensor:
    if terms.device.type != "cpu" or wants_derivative(terms, shift, angles, law.drop):
        return mixed.dispatch(MaskLaw)(law, terms, shift, weight, angles, counts)
    drop = law.drop.to(terms)
    random = (drop > 0).nonzero().squeeze(-1)
    chosen = terms[..., random]
    rows = shift.numel()
    examples = angles.shape[:-1].numel()
    total = np.zeros((examples, -(-angles.shape[-1] // LANES) * LANES), dtype=np.complex128)
    add_coin_products(
        (chosen / (1 - drop[random])).reshape(rows, -1).contiguous().numpy(),
        (1 - drop[random]).numpy(),
        ((shift - chosen.sum(-1)).reshape(rows).numpy(), weight.double().repeat_interleave(examples).numpy()),
        np.tile(np.arange(examples), len(weight)),
        angles[..., 1].reshape(examples).contiguous().numpy(),
        counts.reshape(examples).contiguous().numpy(),
        total,
    )
    return torch.from_numpy(total[:, : angles.shape[-1]]).reshape(angles.shape)


@mixed.register
def _(law: Block, terms: Tensor, shift: Tensor, weight: Tensor, angles: Tensor, counts: Tensor) -> Tensor:
    return mixed(Bernoulli(law.drop, len(law.drop)), _by_block(law, terms), shift, weight, angles, counts)


@extent.register
def _(law: Bernoulli, terms: Tensor) -> tuple[Tensor, Tensor]:
    drop = law.drop.to(terms)
    random = (drop > 0).to(terms)
    lost, won = -terms * random, terms * drop / (1 - drop)
    return torch.minimum(lost, won).sum(-1), torch.maximum(lost, won).sum(-1)


@transform.register
def _(law: Block, terms: Tensor, angles: Tensor, tilt: Tensor) -> Transform:
    return transform(Bernoulli(law.drop, len(law.drop)), _by_block(law, terms), angles, tilt)


@extent.register
def _(law: Block, terms: Tensor) -> tuple[Tensor, Tensor]:
    return extent(Bernoulli(law.drop, len(law.drop)), _by_block(law, terms))


@transform.register
def _(law: Gaussian, terms: Tensor, angles: Tensor, tilt: Tensor) -> Transform:
    variance = (terms.square() * law.variance.to(terms)).sum(-1)
    shift = (tilt * variance).unsqueeze(-1)
    value = torch.exp(1j * angles * shift - 0.5 * angles.square() * variance.unsqueeze(-1))
    return Transform(value, 0.5 * tilt.square() * variance)


@extent.register
def _(law: Gaussian, terms: Tensor) -> tuple[Tensor, Tensor]:
    width = GAUSSIAN_REACH * (terms.square() * law.variance.to(terms)).sum(-1).sqrt()
    return -width, width


@transform.register
def _(law: Product, terms: Tensor, angles: Tensor, tilt: Tensor) -> Transform:
    parts = terms.split([part.size for part in law.laws], -1)
    found = [transform(one, part, angles, tilt) for one, part in zip(law.laws, parts, strict=True)]
    value, logarithm = found[0]
    for other in found[1:]:
        value, logarithm = value * other.value, logarithm + other.logarithm
    return Transform(value, logarithm)


@extent.register
def _(law: Product, terms: Tensor) -> tuple[Tensor, Tensor]:
    parts = terms.split([part.size for part in law.laws], -1)
    found = [extent(one, part) for one, part in zip(law.laws, parts, strict=True)]
    return torch.stack([low for low, _ in found]).sum(0), torch.stack([high for _, high in found]).sum(0)


def _by_block(law: Block, terms: Tensor) -> Tensor:
    return terms.unflatten(-1, (-1, law.block)).sum(-1)


def list_masks(law: MaskLaw) -> tuple[Tensor, Tensor]:
    """All masks of a law with a chance, and their chances; refused where there are more than LISTED."""
    count = law.support_count
    if count is None or count > LISTED:
        many = "no finite list of masks" if count is None else f"{count} masks, more than {LISTED}"
        raise NoClosedForm(
            f"the density needs independent units, blocks, normal noise or a short list of masks; {type(law).__name__} "
            f"has {many}; draw the outputs with model.outputs(inputs, masks.multipliers(...)) instead"
        )
    masks, chances = (torch.cat(part) for part in zip(*law.atom_batches(LISTED), strict=True))
    possible = chances > 0
    return masks[possible], chances[possible]


def angle_counts(periods: Tensor) -> Tensor:
    """Angles up to 8.5 / noise for periods of so many deviations: the Gaussian factor is below 3e-16 beyond."""
    return (8.5 / (2 * math.pi) * periods.detach()).ceil().clamp_max(2.0**53).long() + 1  # no integer holds all
