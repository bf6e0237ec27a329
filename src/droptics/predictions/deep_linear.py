"""Moments of the outputs of deep linear networks: what every mask injects, carried to the end."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from droptics.masks import MaskLaw
from droptics.models import DeepLinear
from droptics.penalties.deep_linear import layer_laws
from droptics.penalties.evaluation import CHUNK_ELEMENTS


def deep_variance(model: DeepLinear, inputs: Tensor, masks: MaskLaw) -> Tensor:
    """Variance of every output of every example, (..., examples, outputs); droptics-predictive-deep.

    With independent units a mask injects uncorrelated noise: n_l = lambda_l o (h_l^2 + sum_{m<l} (A_lm o A_lm) n_m)
    at layer l, A_lm the map from layer m to it, and the variance is sum_m (A_m o A_m) n_m. Only non-negative terms are
    added, so that small rates lose no digits. O(examples depth^2 width^2) and once depth^2 width^3.
    """
    laws = layer_laws(model, masks)
    if not all(law.independent for law in laws):
        return torch.diagonal(deep_covariance(model, inputs, masks), dim1=-2, dim2=-1)
    noises, tails = _injected(model, inputs, laws)
    total = noises[0] @ tails[0].square().mT
    for noise, tail in zip(noises[1:], tails[1:], strict=True):
        total = total + noise @ tail.square().mT
    return total


def deep_covariance(model: DeepLinear, inputs: Tensor, masks: MaskLaw) -> Tensor:
    """Covariance of the outputs of every example, (..., examples, outputs, outputs).

    Independent units: sum_m A_m diag(n_m) A_m^T. Any law per layer: E <- E + Cbar o (E + h h^T) at a mask,
    E <- W E W^T and h <- W h at a layer, which costs examples depth width^3.
    """
    laws = layer_laws(model, masks)
    if not all(law.independent for law in laws):
        return _propagated(model, inputs, laws)
    noises, tails = _injected(model, inputs, laws)
    parts = [
        (tail.unsqueeze(-3) * noise.unsqueeze(-2)) @ tail.unsqueeze(-3).mT
        for noise, tail in zip(noises, tails, strict=True)
    ]
    return torch.stack(torch.broadcast_tensors(*parts)).sum(0)


def _injected(model: DeepLinear, inputs: Tensor, laws: Sequence[MaskLaw]) -> tuple[list[Tensor], list[Tensor]]:
    """Variances that every site injects (..., examples, width) and the map from it to the outputs."""
    weights = list(model.weights)
    hidden = inputs
    noises: list[Tensor] = []
    tails: list[Tensor] = []
    if not model.mask_inputs:
        hidden = hidden @ weights.pop(0).mT
    for weight, law in zip(weights, laws, strict=True):
        energies = hidden.square()
        for noise, tail in zip(noises, tails, strict=True):
            energies = energies + noise @ tail.square().mT
        noises.append(law.relative_variance.to(hidden) * energies)
        tails = [*(weight @ tail for tail in tails), weight]
        hidden = hidden @ weight.mT
    return noises, tails


def _propagated(model: DeepLinear, inputs: Tensor, laws: Sequence[MaskLaw]) -> Tensor:
    width = max(model.input_size, *model.hidden_sizes)
    step = max(1, CHUNK_ELEMENTS // (width**2 * max(model.batch_shape.numel(), 1)))
    parts = []
    for some in inputs.split(step):
        weights = list(model.weights)
        hidden = some
        if not model.mask_inputs:
            hidden = hidden @ weights.pop(0).mT
        excess: Tensor | None = None
        for weight, law in zip(weights, laws, strict=True):
            second = hidden.unsqueeze(-1) * hidden.unsqueeze(-2)
            noise = law.hadamard(second if excess is None else second + excess)
            excess = weight.unsqueeze(-3) @ (noise if excess is None else excess + noise) @ weight.unsqueeze(-3).mT
            hidden = hidden @ weight.mT
        assert excess is not None
        parts.append(excess)
    return torch.cat(parts, dim=-3)
