r"""Exact penalties: one small rule per model family.

With squared loss and outputs linear in the mask, f(x; z) = sum_j z_j g_j(x), the penalty is sum_ij Cbar_ij G_ij with
Cbar the characteristic matrix of the law and G_ij = E_x <g_i(x), g_j(x)> the unit Gram matrix. A family supplies
`unit_outputs`, of which `unit_gram` and `unit_energies` (its diagonal) are averages unless a cheaper one is registered.
"""

from __future__ import annotations

from functools import singledispatch

import torch
from torch import Tensor

from droptics.answers import checked_rules
from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.estimates import Error
from droptics.linalg.forms import column_forms, column_squares
from droptics.masks import MaskLaw
from droptics.models import Autoencoder, Connections, Factorization, LastLayer, LinearModel, Model, TwoLayerLinear
from droptics.penalties.grams import OutputGram, mean_products, mean_squares
from droptics.penalties.rounding import deferred, input_scale, roundings
from droptics.penalties.unit_outputs import UnitOutputs, unit_outputs


@checked_rules
def unit_gram(model: Model, data: Data) -> Tensor:
    """G_ij = E_x <g_i(x), g_j(x)> for outputs f = sum_j z_j g_j, (..., units, units): the mean of `unit_outputs`.

    Cost: that of `unit_energies` and O(n width^2). Claim: none, a definition.
    """
    return output_gram(model, data).part(slice(None), slice(None))


@checked_rules
def unit_energies(model: Model, data: Data) -> Tensor:
    """The diagonal of `unit_gram`, (..., units): all that a law with uncorrelated units needs.

    Cost: O(n width (inputs + outputs)), or O(d^2 width) on moments. Claim: none, a definition.
    """
    if unit_gram.dispatch(type(model)) is not unit_gram.dispatch(Model):
        return torch.diagonal(unit_gram(model, data), dim1=-2, dim2=-1)
    return output_gram(model, data).energies()


def output_gram(model: Model, data: Data) -> OutputGram:
    """The unit outputs of a model on data, ready to be averaged."""
    if isinstance(model, TwoLayerLinear) and isinstance(data, Moments):  # without a product with unit vectors
        return OutputGram(UnitOutputs(model.V, model.U.unsqueeze(-3)), data)
    return OutputGram(unit_outputs(model, _readable(model, data)), data)


class ModelGram:
    """The unit Gram matrix of a model on data as a law asks for it, by the cheapest rule that the family has."""

    def __init__(self, model: Model, data: Data) -> None:
        self._model, self._data = model, data
        self._diagonal: Tensor | None = None
        self._entries: Tensor | OutputGram | None = None

    @property
    def joined(self) -> bool:
        """Whether products of different units were asked for."""
        return self._entries is not None

    def energies(self) -> Tensor:
        """`unit_energies`."""
        if self._diagonal is None:
            if self._entries is None:
                self._diagonal = unit_energies.dispatch(type(self._model))(self._model, self._data)
            elif isinstance(self._entries, OutputGram):
                self._diagonal = self._entries.energies()
            else:
                self._diagonal = torch.diagonal(self._entries, dim1=-2, dim2=-1)
        return self._diagonal

    def part(self, rows: slice, columns: slice) -> Tensor:
        """Some rows and columns of `unit_gram`, which is written out only where a family has a rule of its own."""
        if self._entries is None:
            own = unit_gram.dispatch(type(self._model))
            self._entries = (output_gram if own is unit_gram.dispatch(Model) else own)(self._model, self._data)
        if isinstance(self._entries, OutputGram):
            return self._entries.part(rows, columns)
        return self._entries[..., rows, columns]


def linear_penalty(model: Model, data: Data, masks: MaskLaw) -> tuple[Tensor, Error]:
    """sum_ij Cbar_ij G_ij (pal2020-lem3.1, mianjy2018-lemA.1) and how far rounding can have moved it."""
    gram = ModelGram(model, data)
    return masks.weigh(gram), deferred(_linear_rounding, model, data, masks, gram)


@torch.no_grad()
def _linear_rounding(model: Model, data: Data, masks: MaskLaw, gram: ModelGram) -> Tensor:
    steps, scale = roundings(model, data), masks.weigh_at_most(unit_scales(model, data, gram.energies().detach()))
    # products of different units are added up example by example
    steps += len(data) if gram.joined and isinstance(data, Sample) else 0
    return steps * torch.finfo(scale.dtype).eps / 2 * scale


@singledispatch
def unit_scales(model: Model, data: Data, energies: Tensor) -> Tensor:
    """The energies of absolute values, (..., units), or more: what the rounding of `unit_energies` is relative to.

    The energies themselves where nothing cancels before it is squared. Features of a module count as given.
    """
    return energies


@unit_scales.register
def _(model: TwoLayerLinear, data: Data, energies: Tensor) -> Tensor:
    return (model.V.abs().mT @ input_scale(data)).square() * model.U.square().sum(-2)


@unit_scales.register
def _(model: Autoencoder, data: Data, energies: Tensor) -> Tensor:
    return unit_scales(model.untied, data, energies)


@unit_scales.register
def _(model: Factorization, data: Data, energies: Tensor) -> Tensor:
    if isinstance(data, Entries):
        return energies
    absolute = Factorization(model.U.abs(), model.V.abs())
    return absolute.unit_outputs(_readable(model, data).abs()).square().mean(-2)


def _readable(model: Model, data: Data) -> Tensor:
    """Inputs on which a family states its rule; second moments stand for the unit vectors, enough for linear maps."""
    wanted = "Sample or Moments" if isinstance(model, LinearModel) else "Sample"
    if isinstance(model, Factorization):
        wanted = "Entries or Measurements"
        if isinstance(data, (Entries, Measurements)):
            return data.inputs
    elif isinstance(data, Sample):
        return data.inputs
    elif isinstance(data, Moments) and isinstance(model, LinearModel):
        return torch.eye(len(data.xx), dtype=data.xx.dtype, device=data.xx.device)
    raise ValueError(f"data for {type(model).__name__} must be {wanted}, got {type(data).__name__}")


@unit_energies.register
def _(model: TwoLayerLinear, data: Data) -> Tensor:
    if isinstance(data, Moments):  # without unit vectors in their place: small networks are asked often, in loops
        return column_forms(model.V, data.xx, model.U)
    return mean_squares(_readable(model, data) @ model.V, data) * column_squares(model.U)


@unit_energies.register
def _(model: Factorization, data: Data) -> Tensor:
    return model.unit_outputs(_readable(model, data)).square().mean(-2)


@unit_energies.register
def _(model: LastLayer, data: Data) -> Tensor:
    return mean_squares(model.features(_readable(model, data)), data) * model.head.weight.square().sum(-2)


# The averages of DropConnect without writing out the features, which are mostly zeros for a unit vector:
# G_(ik)(jl) = <u_k, u_l> V_ik V_jl E x_i x_j.
@unit_gram.register
def _(model: Connections, data: Data) -> Tensor:
    outer = (model.U.mT @ model.U)[..., None, :, None, :] * input_moment(model, data)[:, None, :, None]
    weights = model.V[..., :, :, None, None] * model.V[..., None, None, :, :]
    return (outer * weights).flatten(-4, -3).flatten(-2, -1)


@unit_energies.register
def _(model: Connections, data: Data) -> Tensor:
    energies = torch.diagonal(data.xx) if isinstance(data, Moments) else mean_squares(_readable(model, data), data)
    return (model.V.square() * energies[:, None] * model.U.square().sum(-2, keepdim=True)).flatten(-2)


def input_moment(model: Model, data: Data) -> Tensor:
    """E x x^T of the inputs of a linear network."""
    if isinstance(data, Moments):
        return data.xx
    inputs = _readable(model, data)
    return mean_products(inputs, inputs, data)
