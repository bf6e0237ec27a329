"""DropBlock: the spectral k-support shrinkage, and balanced factors that attain it.

With blocks of k units, rates lambda_I and beta = 1 / sum_I (1 / lambda_I) (lambda / blocks for one rate), every network
of this width has criterion at least constant + min over rank A <= width of ||T - A||_F^2 + beta ||A||_(k)^2
(pal2020-thm2.3, pal2020-thm2.7, corrected). One rate and a number of blocks that is a multiple of the next power of two
of the tail of the spectrum: factors that attain it are constructed. Otherwise they are searched by alternating exact
least squares; the gap to the bound then says whether they are optimal, and at few blocks the bound itself may not be
attained by anything (pal2020-thm2.6 holds with a free width only).
"""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.envelopes.two_layer import block_strength, common_strength
from droptics.envelopes.whitening import EPS, White
from droptics.equalization.blocks import balanced_blocks, blocks_available
from droptics.linalg import k_support_shrink
from droptics.masks import Block
from droptics.norms import k_support
from droptics.optima.general import alternate


def _shrunk(values: Tensor, masks: Block) -> Tensor:
    """The best spectrum of at most masks.size values under beta ||.||_(block)^2."""
    shrunk = torch.zeros_like(values)
    top = values[: masks.size]
    shrunk[: masks.size] = k_support_shrink(top, float(block_strength(masks)), masks.block)
    return shrunk


def block_bound(white: White, masks: Block) -> tuple[float, str]:
    """Least value of the k-support problem at this width: a lower bound on every network's criterion."""
    values = torch.linalg.svdvals(white.target.detach().double())
    shrunk = _shrunk(values, masks)
    norm = k_support(shrunk, masks.block)
    least = (values - shrunk).square().sum() + float(block_strength(masks)) * norm.square()
    return white.floor(float(least)), "pal2020-thm2.6"


def block_factors(white: White, masks: Block) -> tuple[Tensor, Tensor, int, str]:
    """White factors U, H, the rank of their product, and how they were found."""
    target = white.target
    left, values, outer = torch.linalg.svd(target.detach().double(), full_matrices=False)
    shrunk = _shrunk(values, masks)
    kept = shrunk > max(target.shape) * EPS * values[:1]
    left, shrunk, right = left[:, kept], shrunk[kept], outer[kept].mT
    blocks = masks.size // masks.block
    if len(shrunk) == 0:
        zeros = target.new_zeros(target.shape[0], masks.size), target.new_zeros(target.shape[1], masks.size)
        return *zeros, 0, "closed form"
    if common_strength(masks) is not None and blocks_available(shrunk, masks.block, blocks):
        U, H = balanced_blocks(left, shrunk, right, masks.block, blocks)
        return U.to(target), H.to(target), len(shrunk), "closed form"
    U, H, rank, method = alternate(target.detach().double(), masks.characteristic.detach().to(target.device))
    return U.to(target), H.to(target), rank, method
