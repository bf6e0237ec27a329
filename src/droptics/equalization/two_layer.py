"""Equalized two-layer networks and factorizations: the shares of the units made equal, or suited to unequal rates."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Data
from droptics.envelopes.two_layer import check_isotropic, common_strength, connection_form
from droptics.envelopes.whitening import White, whiten
from droptics.equalization.blocks import balanced_blocks, blocks_available
from droptics.equalization.equalization import equalize_rule
from droptics.errors import NoClosedForm
from droptics.linalg import allocate, equalize_columns
from droptics.linalg.rotations import equalize_rows_, rotate_to_diagonal
from droptics.linalg.scales import powers_of_two
from droptics.masks import Block, MaskLaw
from droptics.models import Autoencoder, Connections, Factorization, TwoLayerLinear


def spread(left: Tensor, values: Tensor, right: Tensor, masks: MaskLaw) -> tuple[Tensor, Tensor]:
    """Factors U, H of left diag(values) right^T with the least penalty, for units with independent masks.

    left (a, rank), right (q, rank) have orthonormal columns; the factors have width masks.size. Both have the Gram
    matrix of left diag(sqrt values), so one rotation serves both (mianjy2018-alg3): it makes the squared norms equal
    (one rate) or equal to the shares of `allocate` (unequal rates, droptics-unequal-rates).
    """
    width, rank, rows = masks.size, len(values), left.shape[0]
    # one unit after the other in memory, as the rotations want them
    columns = torch.zeros(width, rows + right.shape[0], dtype=left.dtype, device=left.device)
    torch.mul(torch.cat([left, right]).mT, values.sqrt()[:, None], out=columns[:rank])
    if common_strength(masks) is not None:
        if columns.device.type == "cpu":
            equalize_rows_(columns, rows)
            return columns[:, :rows].mT, columns[:, rows:].mT
        U, H = equalize_columns(columns[:, :rows].mT, columns[:, rows:].mT)
        return U, H
    padded = torch.cat([values, values.new_zeros(width - rank)])
    shares = allocate(values, masks.relative_variance.to(values))
    stacked = rotate_to_diagonal(padded, shares, columns.mT)
    return stacked[:rows], stacked[rows:]


def white_svd(U: Tensor, V: Tensor, white: White) -> tuple[Tensor, Tensor, Tensor]:
    """Compact SVD of the map in white coordinates, through the triangular factors: O((outputs + inputs) width^2).

    Every node is first put into units of its own, both of its columns of about the same norm, so that a product of a
    huge column and a tiny one is a term like any other.
    """
    out, into = white.left.down(U.double()), white.right.down(V.double())
    sizes = torch.linalg.vector_norm(out, dim=0), torch.linalg.vector_norm(into, dim=0)
    alive = (sizes[0] > 0) & (sizes[1] > 0)
    units = powers_of_two(torch.where(alive, sizes[0] / torch.where(alive, sizes[1], 1.0), 1.0).sqrt())
    left_basis, left = torch.linalg.qr(out / units)
    right_basis, right = torch.linalg.qr(into * units)
    inner, values, outer = torch.linalg.svd(left @ right.mT, full_matrices=False)
    level = U.shape[-1] * torch.finfo(values.dtype).eps * torch.linalg.norm(left) * torch.linalg.norm(right)
    kept = values > level
    return left_basis @ inner[:, kept], values[kept], right_basis @ outer[kept].mT


def _equalized(U: Tensor, V: Tensor, white: White, masks: MaskLaw) -> tuple[Tensor, Tensor]:
    if U.ndim != 2 or V.ndim != 2:
        raise ValueError("model must be one network to be equalized, got a batch; equalize its members one by one")
    if not bool((white.left.down(U.double()) != 0).any() and (white.right.down(V.double()) != 0).any()):
        return U, V  # inputs or outputs without energy: nothing is penalized
    left, values, right = white_svd(U, V, white)
    if masks.independent:
        new_left, new_right = spread(left, values, right, masks)
    elif isinstance(masks, Block) and common_strength(masks) is not None:
        blocks = masks.size // masks.block
        if not blocks_available(values, masks.block, blocks):
            raise NoClosedForm(
                f"no balanced factors are constructed for rank {len(values)} on {blocks} blocks of {masks.block}; "
                "use a number of blocks that is a power of two and at least the rank, or optimum for the best found"
            )
        new_left, new_right = balanced_blocks(left, values, right, masks.block, blocks)
    else:
        raise NoClosedForm(f"no equalized network is known under {type(masks).__name__}; use Bernoulli or Block")
    new_U, new_V = white.left.up(new_left), white.right.up(new_right)
    if white.right.singular or white.left.singular:
        new_U, new_V = _restore(new_U, new_V, U.double() @ V.double().mT, torch.finfo(U.dtype).eps)
    return new_U.to(U.dtype), new_V.to(U.dtype)


def _restore(U: Tensor, V: Tensor, wanted: Tensor, precision: float) -> tuple[Tensor, Tensor]:
    """Add what the map does on inputs without energy: free of penalty when the columns of U reach it."""
    inverse = torch.linalg.pinv(U)
    for _ in range(2):  # the second time takes off the rounding of the first
        V = V + (inverse @ (wanted - U @ V.mT)).mT
    error = (wanted - U @ V.mT).abs().amax(0)
    if bool((error > 64 * U.shape[1] * precision * wanted.abs().amax(0)).any()):
        raise NoClosedForm(
            "the second moment of the inputs is singular and the map acts on directions without energy: its least "
            "penalty is an infimum that no network attains (thesis-lem6); project the map on the range of the inputs"
        )
    return U, V


@equalize_rule.register
def _(model: TwoLayerLinear, data: Data, masks: MaskLaw) -> TwoLayerLinear:
    return TwoLayerLinear(*_equalized(model.U, model.V, whiten(data), masks))


@equalize_rule.register
def _(model: Factorization, data: Data, masks: MaskLaw) -> Factorization:
    return Factorization(*_equalized(model.U, model.V, whiten(data), masks))


@equalize_rule.register
def _(model: Connections, data: Data, masks: MaskLaw) -> Connections:
    return Connections(*_equalized(model.U, model.V, *connection_form(data, masks, model.width)))


@equalize_rule.register
def _(model: Autoencoder, data: Data, masks: MaskLaw) -> Autoencoder:
    """U Q with equal columns, or with shares that suit unequal rates: U U^T stays (mianjy2018-thm2.2)."""
    check_isotropic(data)
    if not masks.independent:
        raise NoClosedForm(f"no equalized tied network is known under {type(masks).__name__}; use Bernoulli")
    if common_strength(masks) is not None:
        return Autoencoder(equalize_columns(model.U)[0])
    if model.U.ndim != 2:
        raise ValueError("model must be one network for unequal rates, got a batch; equalize its members one by one")
    left, values, _ = torch.linalg.svd(model.U, full_matrices=False)
    square = torch.cat([values.square(), values.new_zeros(model.units - len(values))])
    padded = torch.zeros_like(model.U)
    padded[:, : len(values)] = left * values
    shares = allocate(square, masks.relative_variance.to(values))
    return Autoencoder(rotate_to_diagonal(square, shares, padded))
