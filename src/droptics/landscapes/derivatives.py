"""Gradient and Hessian of the criterion of linear networks, by formula.

Write a network as a chain W_1, ..., W_{k+1} with S_0 = E x x^T, S_i = K_i o (W_i S_{i-1} W_i^T), K_i = 1 + Cbar_i. The
criterion is  tr E[y y^T] - 2 <E[y x^T], W_{k+1} ... W_1> + tr(W_{k+1} S_k W_{k+1}^T). Going back, B_{k+1} = I,
B_i = K_i o (W_{i+1}^T B_{i+1} W_{i+1}), and with L_i = W_i ... W_1, R_i = W_{k+1} ... W_{i+1}

    gradient_i = 2 B_i W_i S_{i-1} - 2 R_i^T E[y x^T] L_{i-1}^T.

The Hessian applied to a direction is the derivative of these recursions (droptics-hessian), line by line. Two-layer
and tied networks are chains of two; O(depth width^3), for any mask law that is independent across layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.checks import check_size
from droptics.data import Data, Moments
from droptics.errors import NoClosedForm
from droptics.masks import MaskLaw
from droptics.masks.correlations import LARGEST, check_dense
from droptics.models import Autoencoder, DeepLinear, Model, TwoLayerLinear
from droptics.penalties.deep_linear import layer_laws
from droptics.penalties.evaluation import check_triple

Tensors = tuple[Tensor, ...]


@dataclass(frozen=True, eq=False)
class Derivatives:
    """A linear network as a chain, with what the derivatives need: S_0, K_1..K_k and E[y x^T]."""

    weights: list[Tensor]
    second: Tensor
    factors: list[Tensor]
    cross: Tensor

    @staticmethod
    def of(model: Model, data: Data, masks: MaskLaw) -> Derivatives:
        """Read a two-layer, tied or deep linear network."""
        check_triple(model, data, masks)
        weights = to_chain(model, model.tensors)
        moments = Moments.of(data)
        second = moments.xx
        laws = layer_laws(model, masks) if isinstance(model, DeepLinear) else (masks,)
        for law in laws:
            check_dense(law.size, "differentiate criterion with autograd instead")
        factors = [1 + law.characteristic.detach().to(second) for law in laws]
        if isinstance(model, DeepLinear) and model.mask_inputs:
            second = second * factors.pop(0)
        return Derivatives(weights, second, factors, moments.yx)

    def slopes(self) -> Tensors:
        """The gradient, layer by layer."""
        parts = zip(self.weights, *self._forward(), *self._backward(), strict=True)
        return tuple(
            2 * back @ weight @ moment - 2 * suffix.mT @ self.cross @ prefix.mT
            for weight, moment, prefix, back, suffix in parts
        )

    def hessian_action(self, direction: Sequence[Tensor]) -> list[Tensor]:
        """Derivative of the gradient along a direction; leading dimensions are a batch of directions."""
        weights, (moments, prefixes), (backs, suffixes) = self.weights, self._forward(), self._backward()
        moved = [(torch.zeros_like(moments[0]), torch.zeros_like(prefixes[0]))]  # derivatives of S_i and L_i
        for weight, turn, factor, moment, prefix in zip(
            weights[:-1], direction[:-1], self.factors, moments[:-1], prefixes[:-1], strict=True
        ):
            half, (before, start) = turn @ moment @ weight.mT, moved[-1]
            moved.append((factor * (half + half.mT + weight @ before @ weight.mT), turn @ prefix + weight @ start))
        after = [(torch.zeros_like(backs[-1]), torch.zeros_like(suffixes[-1]))]  # of B_i and R_i, from the last
        for weight, turn, factor, back, suffix in zip(
            weights[:0:-1], direction[:0:-1], self.factors[::-1], backs[:0:-1], suffixes[:0:-1], strict=True
        ):
            half, (behind, end) = turn.mT @ back @ weight, after[-1]
            after.append((factor * (half + half.mT + weight.mT @ behind @ weight), end @ weight + suffix @ turn))
        parts = zip(weights, direction, moments, prefixes, backs, suffixes, moved, after[::-1], strict=True)
        return [
            2 * ((behind @ weight + back @ turn) @ moment + back @ weight @ before)
            - 2 * (end.mT @ self.cross @ prefix.mT + suffix.mT @ self.cross @ start.mT)
            for weight, turn, moment, prefix, back, suffix, (before, start), (behind, end) in parts
        ]

    def _forward(self) -> tuple[list[Tensor], list[Tensor]]:
        """S_0..S_k and L_0..L_k."""
        moments = [self.second]
        prefixes = [torch.eye(self.second.shape[0], dtype=self.second.dtype, device=self.second.device)]
        for weight, factor in zip(self.weights[:-1], self.factors, strict=True):
            moments.append(factor * (weight @ moments[-1] @ weight.mT))
            prefixes.append(weight @ prefixes[-1])
        return moments, prefixes

    def _backward(self) -> tuple[list[Tensor], list[Tensor]]:
        """B_1..B_{k+1} and R_1..R_{k+1}."""
        top = torch.eye(self.weights[-1].shape[-2], dtype=self.second.dtype, device=self.second.device)
        backs, suffixes = [top], [top]
        for weight, factor in zip(self.weights[:0:-1], self.factors[::-1], strict=True):
            backs.append(factor * (weight.mT @ backs[-1] @ weight))
            suffixes.append(suffixes[-1] @ weight)
        return backs[::-1], suffixes[::-1]


def to_chain(model: Model, tensors: Sequence[Tensor]) -> list[Tensor]:
    """Tensors in the order of the model (weights, or a direction) as layers of the chain."""
    match model:
        case TwoLayerLinear():
            return [tensors[1].mT, tensors[0]]
        case Autoencoder():
            return [tensors[0].mT, tensors[0]]
        case DeepLinear():
            return list(tensors)
    known = "derivatives by formula exist for TwoLayerLinear, Autoencoder and DeepLinear"
    raise NoClosedForm(f"{known}, not for {type(model).__name__}; differentiate criterion with autograd instead")


def from_chain(model: Model, layers: Sequence[Tensor]) -> Tensors:
    """Derivatives with respect to the layers of the chain, as derivatives with respect to the model's tensors."""
    if isinstance(model, TwoLayerLinear):
        return layers[1], layers[0].mT
    return (layers[1] + layers[0].mT,) if isinstance(model, Autoencoder) else tuple(layers)


@checked
def gradient(model: Model, data: Data, masks: MaskLaw) -> Tensors:
    """Gradient of risk + penalty with respect to `model.tensors`, by formula (droptics-hessian).

    Tied, isotropic, one rate: 4 (U U^T - M) U + 4 lambda U diag(|u_i|^2) for symmetric M.

    Cost: that of the criterion, O(layers width^3).
    """
    chain = Derivatives.of(model, data, masks)
    return from_chain(model, chain.slopes())


@checked
def hessian_action(model: Model, data: Data, masks: MaskLaw, direction: Sequence[Tensor]) -> Tensors:
    """The Hessian of risk + penalty applied to a direction with the shapes of `model.tensors` (droptics-hessian).

    Leading dimensions of the direction are a batch of directions. Conditions: squared loss, a model that is a chain of
    matrices, one law per masked layer.

    Cost: a small multiple of the gradient, per direction.
    """
    to_chain(model, model.tensors)  # refuses other families
    check_size("direction", len(direction), len(model.tensors), "one part per tensor of the model")
    for part, tensor in zip(direction, model.tensors, strict=True):
        if part.shape[-2:] != tensor.shape[-2:]:
            raise ValueError(f"direction must have the shapes of model.tensors, got {tuple(part.shape)}")
    return from_chain(model, Derivatives.of(model, data, masks).hessian_action(to_chain(model, direction)))


@checked
def hessian(model: Model, data: Data, masks: MaskLaw) -> Tensor:
    """The Hessian as a symmetric matrix on the concatenation of the flattened tensors; one batched action.

    Conditions: those of `hessian_action`. Cost: one action per weight, weights^2 numbers. Claim: droptics-hessian.
    """
    total = sum(tensor.numel() for tensor in model.tensors)
    if total > LARGEST:
        raise ValueError(f"model has {total} weights, too many for all second derivatives; use hessian_action")
    basis = torch.eye(total, dtype=model.dtype, device=model.device)
    parts = hessian_action(model, data, masks, unflatten(model, basis))
    columns = torch.cat([part.flatten(1) for part in parts], dim=1)
    return (columns + columns.mT) / 2


def unflatten(model: Model, vectors: Tensor) -> Tensors:
    """Vectors (..., parameters) as tensors with the shapes of the model."""
    parts = vectors.split([tensor.numel() for tensor in model.tensors], dim=-1)
    return tuple(part.unflatten(-1, tensor.shape) for part, tensor in zip(parts, model.tensors, strict=True))
