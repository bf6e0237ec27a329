"""The deep linear network of least penalty for a map, built layer by layer."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from droptics.envelopes.deep_linear import exact_strengths
from droptics.linalg import equalizer, psd_eigen
from droptics.masks import MaskLaw


def least_penalty_network(
    left: Tensor, values: Tensor, right: Tensor, shares: Tensor, laws: Sequence[MaskLaw]
) -> list[Tensor]:
    """Weights that compute left diag(values) right on white inputs, with penalty Theta when the shares are optimal.

    With T_i = (1 + a_i / x_i)^(1/2) on the columns of `left` and S_i the second moment after layer i, start from
    N_1 = T_2 ... T_k M and split N_i S_{i-1}^(1/2) into factors whose units all carry the same product of norms (one
    equalizer per layer); the upper factor divided by T_{i+1} is N_{i+1} (droptics-deep-induced).

    Args:
        left: Orthonormal columns (outputs, n).
        values: Positive singular values of the map, (n,).
        right: Orthonormal rows (n, inputs).
        shares: x (k, n), rows in the simplex.
        laws: One law with equal rates per hidden layer.
    """
    sizes = [law.size for law in laws]
    if not len(values):
        return [left.new_zeros(shape) for shape in zip([*sizes, left.shape[0]], [right.shape[1], *sizes], strict=True)]
    strengths = exact_strengths(tuple(laws)).detach().to(values)
    stretch = (1 + strengths[:, None] / shares).sqrt()
    weights: list[Tensor] = []
    second = torch.eye(right.shape[1], dtype=right.dtype, device=right.device)
    pending = (left * (values * stretch.prod(0))) @ right
    for law, factor in zip(laws, stretch, strict=True):
        pending = (left / factor) @ (left.mT @ pending)
        pending, weight = _balanced(pending, second, len(values), law.size)
        weights.append(weight)
        image = weight @ second @ weight.mT
        second = image + torch.diag(law.relative_variance.detach().to(image) * image.diagonal())
    return [*weights, pending]


def _balanced(matrix: Tensor, second: Tensor, rank: int, width: int) -> tuple[Tensor, Tensor]:
    """Upper and lower factor of a matrix, every unit with the same product of norms in the metric of `second`."""
    moments, basis = psd_eigen(second)
    roots = moments[moments > 0].sqrt()
    basis = basis[:, moments > 0]
    left, values, right = torch.linalg.svd((matrix @ basis) * roots, full_matrices=False)
    left, values, right = left[:, :rank], values[:rank], right[:rank]
    padded = torch.cat([values, values.new_zeros(width - rank)])
    rotation = equalizer(torch.diag(padded))[:rank]
    scaled = values.sqrt()
    return (left * scaled) @ rotation, (rotation.mT * scaled) @ ((right / roots) @ basis.mT)
