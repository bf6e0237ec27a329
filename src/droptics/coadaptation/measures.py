"""Flows of the units of a network, and how unequal they are."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import Spectrum, check_arguments
from droptics.data import Data, Moments, Sample
from droptics.models import LastLayer, Model, ReLUNet
from droptics.penalties.closed_form import unit_energies
from droptics.penalties.evaluation import check_inputs
from droptics.penalties.grams import feature_energies


@dataclass(frozen=True)
class Split:
    """The dropout regularizer split into size and equality: width * regularizer = (alpha / coadaptation)^2.

    Attributes:
        alpha: Sum of the flows, the size.
        coadaptation: phi, 1 when all units carry the same flow, 1 / sqrt(width) when one carries everything.
        width: Number of units.
        regularizer: Sum of squared flows (the dropout penalty divided by drop / (1 - drop)).
    """

    alpha: float
    coadaptation: float
    width: int
    regularizer: float

    @property
    def effective_width(self) -> float:
        """The width times phi^2: how many equal units would share the flow this unevenly."""
        return self.width * self.coadaptation**2


@checked
def flows(model: Model, data: Data, *, symmetrized: bool = False) -> Tensor:
    """Flow psi_k = ||u_k|| sqrt(E a_k^2) of every unit, (..., units); its square is the unit's dropout energy.

    u_k are the outgoing weights and a_k the activation of unit k. For ReLUNet the units are those of the last hidden
    layer; every other family is covered by its `unit_energies` rule (TwoLayerLinear, LastLayer of a torch module,
    Factorization, ...). With `symmetrized=True` the second moment is that of +-x with a fair sign, without sampling:
    v_k^T C v_k / 2 for a two-layer ReLU network without biases, for which `Moments` suffice. One pass over the data.
    Cost: one pass over the data, or O(d^2 units) on moments. Claim: thesis-sec4.3-symmetrization.
    """
    energies = _energies(model, data, symmetrized)
    # sqrt has no derivative at zero; units without flow get derivative zero
    return torch.where(energies > 0, energies, torch.ones_like(energies)).sqrt() * (energies > 0)


def importance(model: Model, data: Data, *, symmetrized: bool = False) -> Tensor:
    """Share of every unit in the total flow; sums to 1 (nan when no unit carries any flow).

    Cost: that of `flows`. Claim: none, a definition.
    """
    check_arguments(importance, locals())
    values = flows(model, data, symmetrized=symmetrized)
    return values / values.sum(-1, keepdim=True)


@checked
def alpha(model: Model, data: Data, *, symmetrized: bool = False) -> Tensor:
    """Sum of the flows, the size of the network in thesis-thm12 and thesis-cor2.

    Conditions: those of `flows`. Cost: that of `flows`.
    """
    return flows(model, data, symmetrized=symmetrized).sum(-1)


@checked
def coadaptation(model: Model, data: Data, *, symmetrized: bool = False) -> Tensor:
    """The measure phi = ||psi||_1 / (sqrt(width) ||psi||_2) in [1 / sqrt(width), 1]; nan when no unit carries any flow.

    1 means that all units carry the same flow, 1 / sqrt(width) that a single one carries everything: small values
    are high co-adaptation. Differentiable and invariant to rescaling of the units and of the network.
    Conditions: those of `flows`. Cost: that of `flows`. Claim: thesis-sec4.6.
    """
    return evenness(flows(model, data, symmetrized=symmetrized))


def evenness(values: Spectrum) -> Tensor:
    """||v||_1 / (sqrt(size) ||v||_2) over the last dimension; nan for zero vectors.

    Cost: O(size). Claim: none, a definition.
    """
    check_arguments(evenness, locals())
    # scaled by the largest entry, so that tiny and huge flows neither underflow nor overflow when squared
    if not values.shape[-1]:
        raise ValueError("values must hold at least one number, got none")
    scaled = values / values.detach().abs().amax(-1, keepdim=True)
    return scaled.abs().sum(-1) / (values.shape[-1] ** 0.5 * scaled.norm(dim=-1))


@checked
def split(model: Model, data: Data, *, symmetrized: bool = False) -> Split:
    """The regularizer sum_k psi_k^2 split into size and equality, width * regularizer = (alpha / phi)^2.

    The equality phi is nan when no unit carries any flow.
    Conditions: one network, and those of `flows`. Cost: that of `flows`. Claim: thesis-sec4.6.
    """
    values = flows(model, data, symmetrized=symmetrized).detach()
    if values.ndim != 1:
        raise ValueError(f"model must be one network, got a batch of shape {tuple(values.shape[:-1])}")
    return Split(float(values.sum()), float(evenness(values)), values.shape[0], float(values.square().sum()))


@singledispatch
def _energies(model: Model, data: Data, symmetrized: bool) -> Tensor:
    # units linear in x do not notice the sign; other features are evaluated at both signs
    if not symmetrized or not isinstance(data, Sample) or not isinstance(model, LastLayer):
        return unit_energies(model, data)
    return (unit_energies(model, data) + unit_energies(model, Sample(-data.inputs, data.targets, data.weights))) / 2


@_energies.register
def _(model: ReLUNet, data: Data, symmetrized: bool) -> Tensor:
    outgoing = model.weights[-1].square().sum(-2)
    plain = len(model.weights) == 2 and not any(bool((bias != 0).any()) for bias in model.biases[:1])
    if isinstance(data, Moments):
        if not (symmetrized and plain):
            raise ValueError("data must be a Sample: second moments only determine symmetrized two-layer flows")
        hidden = model.weights[0]
        return outgoing * ((hidden @ data.xx) * hidden).sum(-1) / 2
    if not isinstance(data, Sample):
        raise ValueError(f"data for ReLUNet must be Sample, got {type(data).__name__}")
    check_inputs(model, data)
    if symmetrized and plain:
        return outgoing * feature_energies(data.inputs @ model.weights[0].mT, data) / 2
    energies = feature_energies(hidden_features(model, data.inputs), data)
    if symmetrized:
        energies = (energies + feature_energies(hidden_features(model, -data.inputs), data)) / 2
    return outgoing * energies


def hidden_features(model: ReLUNet, inputs: Tensor) -> Tensor:
    """Activations of the last hidden layer, (..., examples, units)."""
    value = inputs
    for weight, bias in zip(model.weights[:-1], model.biases[:-1], strict=True):
        value = torch.relu(value @ weight.mT + bias.unsqueeze(-2))
    return value
