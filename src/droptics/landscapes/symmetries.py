"""Directions along which the criterion of a linear network is constant by symmetry."""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.data import Data, Moments
from droptics.landscapes.derivatives import to_chain
from droptics.landscapes.units import in_own_units
from droptics.models import Autoencoder, Model

# Rotations of the data are looked for by a dense null space; beyond this many they are not.
ROTATIONS = 400


def symmetry_dimension(model: Model, data: Data) -> int:
    """Dimension of the tangent space at the model of its known symmetries.

    Hidden nodes may be rescaled, W_i -> D W_i and W_{i+1} -> W_{i+1} D^-1 (mianjy2018-rem3.1), and inputs and outputs
    rotated together as far as E[y x^T] and E[x x^T] do not change; a tied network has only the rotations. Counted where
    every input has its own units and nodes are balanced (`in_own_units`). Beyond 400 pairs of axes nothing is rotated.
    """
    model, moments = in_own_units(model, data)
    weights = to_chain(model, model.tensors)
    tied = isinstance(model, Autoencoder)
    tangents = [] if tied else _rescalings(weights)
    for outer, inner in _rotations(moments, tied):
        moved = [torch.zeros_like(weight) for weight in weights]
        moved[0] = moved[0] - weights[0] @ inner
        moved[-1] = moved[-1] + outer @ weights[-1]
        tangents.append(moved)
    if not tangents:
        return 0
    own = slice(-1 if tied else 0, None)  # the layers that are parameters
    flat = torch.stack([torch.cat([part.flatten() for part in moved[own]]) for moved in tangents])
    values = torch.linalg.svdvals(flat.detach().double())
    return int((values > 1e-8 * values[0].clamp_min(torch.finfo(torch.float64).tiny)).sum())


def _rescalings(weights: list[Tensor]) -> list[list[Tensor]]:
    tangents = []
    for i in range(len(weights) - 1):
        for node in range(weights[i].shape[0]):
            moved = [torch.zeros_like(weight) for weight in weights]
            moved[i][node] = weights[i][node]
            moved[i + 1][:, node] = -weights[i + 1][:, node]
            tangents.append(moved)
    return tangents


def _rotations(moments: Moments, tied: bool) -> list[tuple[Tensor, Tensor]]:
    """Pairs of skew matrices (A, B) with A yx = yx B and B xx = xx B; tied: A = B and only the symmetric part of yx."""
    yx, xx = moments.yx.double(), moments.xx.double()
    outputs, inputs = yx.shape
    turns = [size * (size - 1) // 2 for size in (outputs, inputs)]
    if not 0 < sum(turns) <= ROTATIONS:
        return []
    outer, inner = _skew(outputs, yx), _skew(inputs, yx)
    if tied:
        yx, outer = (yx + yx.mT) / 2, inner
    else:  # a basis of the pairs: one side turns and the other does not
        outer = torch.cat([outer, outer.new_zeros(turns[1], outputs, outputs)])
        inner = torch.cat([inner.new_zeros(turns[0], inputs, inputs), inner])
    equations = torch.cat([(outer @ yx - yx @ inner).flatten(1), (inner @ xx - xx @ inner).flatten(1)], 1).mT
    _, values, basis = torch.linalg.svd(equations, full_matrices=True)
    scale = float(yx.abs().max() + xx.abs().max())
    padded = torch.cat([values, values.new_zeros(len(outer) - len(values))])
    null = basis[padded <= max(1e-10, 8 * (inputs + outputs) * moments.rounding) * scale]
    found = (torch.einsum("nk,kij->nij", null, part).to(moments.yx.dtype) for part in (outer, inner))
    return list(zip(*found, strict=True))


def _skew(size: int, like: Tensor) -> Tensor:
    """A basis of the skew-symmetric matrices, (size (size - 1) / 2, size, size)."""
    rows, columns = torch.tril_indices(size, size, -1)
    basis = like.new_zeros(len(rows), size, size)
    basis[range(len(rows)), rows, columns] = 1.0
    return basis - basis.mT
