"""Norms that dropout induces: path, nuclear, weighted trace, k-support."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import Matrix, Power, check_arguments
from droptics.checks import as_float_tensor, check_positive, check_size


@checked
def path_norm(weights: object, power: Power = 2.0) -> Tensor:
    """l_p path norm of a chain of layers [W_1, ..., W_k1] or of a model whose `weights` they are (mianjy2018-eq3).

    psi_p^p = sum over paths of |product of weights|^p = 1^T |W_k1|^p ... |W_1|^p 1, in O(total weights) instead of
    a sum over paths. For a two-layer network U V^T pass [V.T, U]. Conditions: sizes that chain; any signs.
    """
    layers = weight_matrices(weights)
    flow = torch.ones_like(layers[0][..., 0, :])
    for layer in (*layers, torch.ones_like(layers[-1][..., :1]).mT):
        terms = flow[..., None, :] * layer.abs()
        # the root is taken node by node, of terms up to one: no power overflows, none loses a small path
        largest = terms.detach().amax(-1).clamp_min(torch.finfo(terms.dtype).tiny)
        flow = torch.linalg.vector_norm(terms / largest[..., None], power, dim=-1) * largest
    return flow[..., 0]


def weight_matrices(weights: object) -> list[Tensor]:
    """The layers W_1, ..., W_k1 of a chain, or of a model. Cost: nothing is copied. Claim: none, it reads the model."""
    if hasattr(weights, "weights"):
        weights = weights.weights
    elif hasattr(weights, "U"):
        weights = [getattr(weights, "V", weights.U).mT, weights.U]
    if not isinstance(weights, Sequence) or not weights:
        raise ValueError(f"weights must be a model or a list of weight matrices, got {type(weights).__name__}")
    layers = [as_float_tensor(layer, f"weights[{i}]") for i, layer in enumerate(weights)]
    for i, layer in enumerate(layers):
        if layer.ndim < 2 or 0 in layer.shape:
            raise ValueError(f"weights[{i}] must be a matrix (outputs, inputs), got shape {tuple(layer.shape)}")
        if i:
            rows = layers[i - 1].shape[-2]
            check_size(f"weights[{i}] (columns)", layer.shape[-1], rows, f"the rows of weights[{i - 1}]")
    return layers


def nuclear(matrix: Matrix) -> Tensor:
    """Sum of the singular values. Cost: a singular value decomposition. Claim: none, a definition."""
    check_arguments(nuclear, locals())
    return torch.linalg.svdvals(matrix).sum(-1)


def weighted_trace(matrix: Tensor, row_weights: Tensor, column_weights: Tensor) -> Tensor:
    """Weighted trace norm || diag(sqrt p) M diag(sqrt q) ||_* with p = row_weights, q = column_weights (thesis-prop4).

    Its square divided by the width is the least expected dropout penalty of a factorization of M when entry (i, j)
    is observed with probability p_i q_j. Cost: a singular value decomposition.
    """
    scaled = matrix = as_float_tensor(matrix, "matrix", 2)
    for name, weights, axis in (("row_weights", row_weights, 0), ("column_weights", column_weights, 1)):
        value = as_float_tensor(weights, name, 1)
        check_size(name, value.shape[0], matrix.shape[axis], "one weight per row or column")
        if bool((value < 0).any()):
            raise ValueError(f"{name} must be non-negative")
        scaled = scaled * (value.sqrt()[:, None] if axis == 0 else value.sqrt())
    return nuclear(scaled)


def k_support(values: Tensor, k: int) -> Tensor:
    """The k-support norm of a vector, or the spectral one of a matrix through its singular values (pal2020-thm2.3).

    With a_1 >= a_2 >= ... the sorted absolute values (padded with zeros), T_rho the sum from rho on, and rho the
    LARGEST index in 1..k with rho = 1 or a_{rho-1} >= T_rho / (k - rho + 1) (the printed rule picks another one):
    norm^2 = sum_{i < rho} a_i^2 + T_rho^2 / (k - rho + 1). k = 1 gives the sum of absolute values, k >= number of
    non-zeros the Euclidean norm. O(d log d), batched over leading dimensions, differentiable.

    >>> round(float(k_support(torch.tensor([1.0, 1.0, 1.0], dtype=torch.float64), 2) ** 2), 12)
    4.5
    """
    values = as_float_tensor(values, "values")
    check_positive("k", k)
    if values.ndim == 0:
        raise ValueError("values must be a vector, got a number")
    if not values.shape[-1]:
        return values.sum(-1)
    k = min(int(k), values.shape[-1])  # more is the Euclidean norm, too
    size = values.detach().abs().amax(-1, keepdim=True)
    size = torch.where(size > 0, size, torch.ones_like(size))  # squares of what is divided by it do not overflow
    ordered = (values / size).abs().sort(dim=-1, descending=True).values
    tails = ordered.flip(-1).cumsum(-1).flip(-1)[..., :k]
    room = torch.arange(k, 0, -1, dtype=ordered.dtype, device=ordered.device)
    head_sums = torch.cat([torch.zeros_like(tails[..., :1]), ordered[..., : k - 1].square().cumsum(-1)], dim=-1)
    before = torch.cat([torch.full_like(tails[..., :1], float("inf")), ordered[..., : k - 1]], dim=-1)
    # The valid indices are an initial segment, so counting them finds the largest.
    index = (before >= tails / room).long().cumprod(-1).sum(-1, keepdim=True) - 1
    squared = head_sums + tails.square() / room
    chosen = squared.gather(-1, index).squeeze(-1)
    # sqrt has no derivative at zero; the norm of the zero vector is zero with subgradient zero
    return torch.where(chosen > 0, chosen, torch.ones_like(chosen)).sqrt() * (chosen > 0) * size.squeeze(-1)
