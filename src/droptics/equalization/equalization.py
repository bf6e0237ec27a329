"""imbalance and equalize: how far a network is from the least penalty of its map, and the network that attains it.

A family registers `equalize_rule.register`, a function of (model, data, masks), as those at the end of this file do.
"""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import Tensor

from droptics.answers import checked, checked_rules
from droptics.data import Data
from droptics.envelopes import envelope
from droptics.envelopes.deep_linear import allocation, exact_strengths, input_root, least_penalty_network, split_laws
from droptics.envelopes.two_layer import white_form
from droptics.errors import NoClosedForm
from droptics.masks import MaskLaw
from droptics.models import Autoencoder, DeepLinear, Model
from droptics.models.two_layer import Factors
from droptics.penalties import penalty
from droptics.penalties.evaluation import check_triple
from droptics.spectra import action
from droptics.spectra.coordinates import check_isotropic

M = TypeVar("M", bound=Model)


@checked_rules
def equalize_rule(model: Model, data: Data, masks: MaskLaw) -> Model:
    """A model of the same shape and map with the least penalty.

    Cost: that of `equalize`. Claim: none, a rule of one family.
    """
    raise NoClosedForm(f"no equalized network is known for {type(model).__name__}")


@checked
def equalize(model: M, data: Data, masks: MaskLaw) -> M:
    """The same map with the least penalty: a model of the same shape whose penalty is `induced` (mianjy2018-thm3.3).

    Two layers under dropout: every unit contributes the same share || W E[x x^T]^(1/2) ||_* / width (unequal rates:
    the shares that suit the rates). DropBlock: balanced blocks. Deep linear networks: the shares of the exact induced
    penalty.

    Cost: that of `induced`, and O(width^2 (inputs + outputs)) for the rotation.
    """
    check_triple(model, data, masks)
    equalized = equalize_rule(model, data, masks)
    assert isinstance(equalized, type(model))
    return equalized


@checked
def imbalance(model: Model, data: Data, masks: MaskLaw) -> Tensor:
    """How far the penalty is above its envelope, penalty / envelope - 1 >= 0 (thesis-def2, thesis-def5).

    Zero iff the model is equalized in the strong sense, which for DeepLinear needs a map of rank at most one.
    Zero when both vanish, infinite when only the envelope does (a zero map from factors that are not zero). One
    number per model of a batch.

    Cost: those of `penalty` and `envelope`.
    """
    above = penalty(model, data, masks).value
    below = envelope(model, data, masks).value
    # a map that cancels to rounding level has no envelope to compare with
    degenerate = below <= (1e2 * torch.finfo(above.dtype).eps) ** 2 * above
    ratio = above / torch.where(degenerate, torch.ones_like(below), below) - 1
    nothing = torch.where(above > 0, torch.full_like(above, float("inf")), torch.zeros_like(above))
    return torch.where(degenerate, nothing, ratio.clamp_min(0))


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
