"""Equalized networks of each family: the width shared out as suits the law, layer by layer in deep ones."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Data
from droptics.envelopes.deep_linear import allocation, exact_strengths, input_root, least_penalty_network, split_laws
from droptics.envelopes.two_layer import white_form
from droptics.equalization.equalization import equalize_rule
from droptics.errors import NoClosedForm
from droptics.masks import MaskLaw
from droptics.models import Autoencoder, DeepLinear
from droptics.models.two_layer import Factors
from droptics.spectra import action
from droptics.spectra.coordinates import check_isotropic


@equalize_rule.register
def _(model: Factors, data: Data, masks: MaskLaw) -> Factors:
    U, V = model.U, model.V
    white, acting = white_form(model, data, masks)
    if U.ndim != 2 or V.ndim != 2:
        raise ValueError("model must be one network to be equalized, got a batch; equalize its members one by one")
    left, values, right = white.svd(U, V)
    if not len(values) and not (white.left.down(U.double()).any() and white.right.down(V.double()).any()):
        return model  # inputs or outputs without energy: nothing is penalized
    new_left, new_right = acting.spread(left, values, right)
    new_U, new_V = white.left.up(new_left), white.right.up(new_right)
    if white.right.singular or white.left.singular:
        new_U, new_V = _restore(new_U, new_V, U.double() @ V.double().mT, torch.finfo(U.dtype).eps)
    return type(model)(new_U.to(U.dtype), new_V.to(U.dtype))


@equalize_rule.register
def _(model: Autoencoder, data: Data, masks: MaskLaw) -> Autoencoder:
    """U Q with equal columns, or with shares that suit unequal rates: U U^T stays (mianjy2018-thm2.2)."""
    check_isotropic(data)
    return type(model)(action(masks).equalize_tied(model.U))


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
def _(model: DeepLinear, data: Data, masks: MaskLaw) -> DeepLinear:
    """A network with the map of the model and the least penalty that the map allows (droptics-deep-induced).

    At rank one it is equalized in the sense of thesis-def5; at higher rank no network with two or more hidden layers
    is. Needs E x x^T of full rank: otherwise the least penalty need not be attained.
    """
    laws, inputs = split_laws(model, masks)
    if inputs is not None or model.batch_shape:
        raise NoClosedForm("equalized networks are built for one DeepLinear model without masks on its inputs")
    strengths = exact_strengths(laws).detach()
    root = input_root(data)
    if root.singular:
        raise NoClosedForm("the second moment of the inputs is singular, so that the least penalty may not be attained")
    matrix = DeepLinear([weight.detach().double() for weight in model.weights]).matrix()
    left, values, right = torch.linalg.svd(root.down(matrix.mT).mT, full_matrices=False)
    level = 4 * max(matrix.shape) * torch.finfo(model.dtype).eps * values[:1]
    rank = min(int((values > level).sum()), *model.hidden_sizes)
    kept = values[:rank]
    shares = allocation(kept, strengths.to(kept)) if rank else kept.new_zeros(len(laws), 0)
    first, *others = least_penalty_network(left[:, :rank], kept, right[:rank], shares, laws)
    return DeepLinear([weight.to(model.dtype) for weight in (root.up(first.mT).mT, *others)])
