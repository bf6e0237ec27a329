"""The squared r-support norm, its conjugate and its shrinkage from their definitions, and least values by descent."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from droptics.papers.instances import descend, factorizations


def water_level(values: Tensor, k: int) -> float:
    """The level with sum_i min(1, |a_i| / level) = k, by bisection; zero when at most k values are not zero."""
    a = values.abs().numpy()
    if (a > 0).sum() <= k:
        return 0.0
    low, high = 0.0, float(a.sum())
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if np.minimum(a / middle, 1).sum() > k else (low, middle)
    return high


def water_filling(values: Tensor, k: int) -> float:
    """Inf { sum a_i^2 / t_i : 0 < t_i <= 1, sum t_i <= k }, at t_i = min(1, |a_i| / level)."""
    a = values.detach().abs()[values != 0]
    return float((a * a.clamp_min(water_level(a, k))).sum())


def dual_value(values: Tensor, k: int, x: Tensor) -> Tensor:
    """<|a|, x> - (1/4) (sum of the k largest x_i^2): below the convex envelope for every x."""
    return (values.abs() * x).sum(-1) - x.square().sort(descending=True, dim=-1).values[..., :k].sum(-1) / 4


def closed_form_values(m: Tensor, r: int, beta: float) -> Tensor:
    """Singular values of the optimum: x_i = m_i t_i / (t_i + beta) with t = clip(alpha m - beta, 0, 1), sum t = r."""
    if int((m > 0).sum()) <= r:
        return m / (1 + beta)
    values, low = m.numpy(), 0.0
    high = float((r + len(m) * beta) / m[m > 0].min() + (1 + beta) / m[m > 0].min())
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if np.clip(middle * values - beta, 0, 1).sum() < r else (low, middle)
    t = (high * m - beta).clamp(0, 1)
    return m * t / (t + beta)


def least_value(matrix: Tensor, block: int, counts: Sequence[int]) -> float:
    """Least (d/r) sum_i ||U_i V_i^T||_F^2 over all U V^T = matrix with some of these numbers of blocks, by descent."""
    found = []
    for count in counts:
        factors, shapes = factorizations(matrix, block * count)

        def value(A: Tensor, C: Tensor, factors: Callable[..., tuple[Tensor, Tensor]] = factors) -> Tensor:
            parts = zip(*(factor.split(block, -1) for factor in factors(A, C)), strict=True)
            return torch.stack([(U @ V.mT).square().sum() for U, V in parts]).sum()

        found.append(count * descend(value, shapes, starts=2)[0])
    return min(found)
