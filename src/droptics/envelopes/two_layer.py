"""Two-layer networks and factorizations: induced penalties and envelopes from the singular values of the white map."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.checks import is_readable, is_transformed
from droptics.data import Data, Moments, Sample
from droptics.envelopes.envelope import Value, envelope_rule, induced_rule
from droptics.envelopes.rounding import norm_rounding
from droptics.envelopes.whitening import Root, White, whiten
from droptics.errors import NoClosedForm
from droptics.estimates import Error
from droptics.linalg import allocate
from droptics.masks import Block, Gaussian, MaskLaw
from droptics.models import Autoencoder, Connections, Factorization, Model, TwoLayerLinear
from droptics.norms import k_support
from droptics.penalties.rounding import deferred
from droptics.transforms import opaque


def common_strength(masks: MaskLaw) -> float | None:
    """The relative variance that all units share, up to rounding; None when they differ."""
    low, high = (float(end) for end in torch.aminmax(masks.relative_variance.detach()))
    return shared_value(np.array([low, high]))


def shared_value(strengths: NDArray[np.float64]) -> float | None:
    """The number that all entries are, up to rounding; None when they differ."""
    low, high = float(strengths.min()), float(strengths.max())
    return high if high - low <= 1e-12 * high else None


def block_strength(masks: Block) -> Tensor:
    """1 / sum over blocks of 1 / lambda: the strength beta of ||.||_(block)^2; lambda / blocks for one rate.

    sum_I lambda_I ||B_I||_F^2 >= (sum_I ||B_I||_F)^2 / sum_I (1 / lambda_I) by Cauchy-Schwarz, and the least sum of
    norms of terms of rank at most `block` is the spectral k-support norm with k = block (pal2020-thm2.3).
    """
    return _harmonic(masks.relative_variance[:: masks.block])


def independent_strength(masks: MaskLaw) -> Tensor:
    """1 / sum over units of 1 / lambda: the strength of ||.||_*^2; lambda / width for one rate."""
    return _harmonic(masks.relative_variance)


def _harmonic(strengths: Tensor) -> Tensor:
    if bool((strengths <= 0).any()):
        return torch.zeros_like(strengths[0])
    return 1 / (1 / strengths).sum()


def white_spectrum(model: Model, white: White) -> Tensor:
    """Singular values of the map in white coordinates, min(features, width) of them, descending, in float64."""
    U, V = model.tensors[0], model.tensors[-1]  # a tied network has one for both
    left, right = white.left.down(U.double()), white.right.down(V.double())
    if U.shape[-1] < min(left.shape[-2], right.shape[-2]):
        # of the small product of the triangular factors: O((outputs + inputs) width^2)
        left, right = torch.linalg.qr(left).R, torch.linalg.qr(right).R
    return torch.linalg.svdvals(left @ right.mT)


def _allocated(spectrum: Tensor, strengths: Tensor) -> Tensor:
    """Least penalty of independent units with unequal rates, differentiable in the spectrum and in the rates."""
    if is_transformed():
        return opaque(_allocated, spectrum, strengths)
    fixed = strengths.detach()
    rows = spectrum.reshape(spectrum.shape[:-1].numel(), spectrum.shape[-1])
    values = []
    for row in rows:
        shares = allocate(row.detach(), fixed)
        # at a minimum over the shares these count as constants
        exact = (strengths * shares.square()).sum()
        # the derivative with respect to the j-th value is twice the level of the block that holds it
        levels = (fixed * shares)[fixed.argsort(stable=True)]
        count = min(len(levels), len(row))
        linear = 2 * (levels[:count] * row[:count]).sum()
        values.append(exact + linear - linear.detach())
    return torch.stack(values).reshape(spectrum.shape[:-1])


def blocks_needed(spectrum: Tensor, block: int) -> int:
    """How many blocks suffice for the k-support bound to be attained, at least one.

    With rho as in the k-support norm and q the number of non-zero values from rho on, q blocks suffice (pal2020-thm2.6
    at a fixed width): one when the rank is at most the block size.
    """
    rank = int((spectrum > 1e-12 * spectrum[:1]).sum())
    if rank <= block:
        return 1
    return rank - support_start(spectrum, block)


def support_start(spectrum: Tensor, block: int) -> int:
    """Number of leading values outside the tail of the k-support norm (rho - 1 in pal2020-thm2.3)."""
    ordered = spectrum.detach().to("cpu", torch.float64)
    padded = torch.cat([ordered, ordered.new_zeros(max(0, block - len(ordered)))])
    tails = padded.flip(0).cumsum(0).flip(0)
    start = 0
    while start + 1 < block and float(padded[start]) >= float(tails[start + 1]) / (block - start - 1):
        start += 1
    return start


def _most_blocks(spectrum: Tensor, block: int) -> int:
    """`blocks_needed` of the most demanding member of a batch; inside vmap, whose numbers nobody sees, that of any."""
    if not is_readable(spectrum):
        return spectrum.shape[-1]
    rows = spectrum.reshape(spectrum.shape[:-1].numel(), spectrum.shape[-1])
    return max(blocks_needed(row, block) for row in rows)


def _induced(model: Model, data: Data, white: White, masks: MaskLaw) -> Value:
    spectrum = white_spectrum(model, white)
    value, words = _induced_of(spectrum, masks)
    return value.to(model.dtype), words, _rounding(model, data, spectrum, masks)


def _rounding(model: Model, data: Data, spectrum: Tensor, masks: MaskLaw) -> Error:
    """Known where inputs have root mean squares; infinite for entries and measurements of a matrix."""
    if not isinstance(data, (Sample, Moments)):
        return math.inf
    return deferred(norm_rounding, model, data, spectrum.detach(), masks.relative_variance.detach().max())


def _induced_of(spectrum: Tensor, masks: MaskLaw) -> tuple[Tensor, str]:
    if masks.independent:
        if common_strength(masks) is not None:
            strength = independent_strength(masks).to(spectrum)
            return strength * spectrum.sum(-1).square(), "closed form (squared nuclear norm)"
        return _allocated(spectrum, masks.relative_variance.to(spectrum)), "closed form (shares by majorization)"
    if isinstance(masks, Block) and common_strength(masks) is not None:
        blocks = masks.size // masks.block
        needed = _most_blocks(spectrum.detach(), masks.block)
        if blocks >= needed:
            norm = k_support(spectrum, masks.block)
            return block_strength(masks).to(norm) * norm.square(), "closed form (squared k-support norm)"
        raise NoClosedForm(
            f"the induced penalty of DropBlock with {blocks} blocks is known when at least {needed} blocks share this "
            "spectrum; use envelope for a lower bound, or more blocks"
        )
    raise NoClosedForm(
        f"the induced penalty under {type(masks).__name__} has no closed form; use Bernoulli, Gaussian or Block, "
        "or optimum and certify for bounds"
    )


def _envelope(model: Model, data: Data, white: White, masks: MaskLaw) -> Value:
    spectrum = white_spectrum(model, white)
    value, words = _envelope_of(spectrum, masks)
    return value.to(model.dtype), words, _rounding(model, data, spectrum, masks)


def _envelope_of(spectrum: Tensor, masks: MaskLaw) -> tuple[Tensor, str]:
    if masks.independent:
        strength = independent_strength(masks).to(spectrum)
        return strength * spectrum.sum(-1).square(), "closed form (squared nuclear norm)"
    if isinstance(masks, Block):
        norm = k_support(spectrum, masks.block)
        return block_strength(masks).to(norm) * norm.square(), "closed form (squared k-support norm)"
    raise NoClosedForm(
        f"the convex envelope under {type(masks).__name__} is not known; use Bernoulli, Gaussian or Block, "
        "or certify for a lower bound on the criterion"
    )


def check_isotropic(data: Data) -> None:
    """Refuse tied networks on inputs that are not isotropic: their least penalty is not a function of a spectrum."""
    moments = Moments.of(data)
    moment = moments.xx.double()
    scale = torch.diagonal(moment).mean()
    off = (moment - scale * torch.eye(moment.shape[0], dtype=moment.dtype, device=moment.device)).abs().max()
    if float(off) > 64 * moment.shape[0] * moments.rounding * float(scale):
        raise NoClosedForm(
            "Autoencoder has a closed form only for isotropic inputs, E x x^T = c I, and these are not: a tied column "
            "cannot be balanced in two geometries at once; whiten the inputs, or use TwoLayerLinear (certify gives "
            "its bound, which holds for tied networks too)"
        )


@induced_rule.register
def _(model: TwoLayerLinear, data: Data, masks: MaskLaw) -> Value:
    return _induced(model, data, whiten(data), masks)


@envelope_rule.register
def _(model: TwoLayerLinear, data: Data, masks: MaskLaw) -> Value:
    return _envelope(model, data, whiten(data), masks)


@induced_rule.register
def _(model: Autoencoder, data: Data, masks: MaskLaw) -> Value:
    check_isotropic(data)
    if not masks.independent:
        raise NoClosedForm(
            f"the induced penalty of a tied network under {type(masks).__name__} is not known; "
            "use model.untied, or a law with independent units"
        )
    return _induced(model, data, whiten(data), masks)


@envelope_rule.register
def _(model: Autoencoder, data: Data, masks: MaskLaw) -> Value:
    check_isotropic(data)
    return _envelope(model, data, whiten(data), masks)


@induced_rule.register
def _(model: Factorization, data: Data, masks: MaskLaw) -> Value:
    return _induced(model, data, whiten(data), masks)


@envelope_rule.register
def _(model: Factorization, data: Data, masks: MaskLaw) -> Value:
    return _envelope(model, data, whiten(data), masks)


def connection_form(data: Data, masks: MaskLaw, width: int) -> tuple[White, MaskLaw]:
    """DropConnect on V as dropout of hidden units: inputs rescaled by their root mean square, correlations forgotten.

    One rate lambda on all weights penalizes lambda sum_k ||u_k||^2 ||D v_k||^2 with D = diag(E x_i^2)^(1/2)
    (pal2020-thm4.1, corrected). The target plays no part.
    """
    if not masks.independent or common_strength(masks) is None:
        raise NoClosedForm("the induced penalty of Connections is known for independent weights with one rate only")
    moments = Moments.of(data.to(torch.float64))
    right = Root.diagonal(torch.diagonal(moments.xx))
    left = Root.identity(len(moments.yx), moments.yx)
    white = White(right.up_rows(moments.yx), torch.trace(moments.yy), left, right)
    return white, Gaussian(masks.relative_variance[0], width)


@induced_rule.register
def _(model: Connections, data: Data, masks: MaskLaw) -> Value:
    return _induced(model, data, *connection_form(data, masks, model.width))


@envelope_rule.register
def _(model: Connections, data: Data, masks: MaskLaw) -> Value:
    return _envelope(model, data, *connection_form(data, masks, model.width))
