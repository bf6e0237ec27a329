"""The margins that lazy training assumes, estimated on data: linear, and of the gates of a random wide layer."""

from __future__ import annotations

import math

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.arguments import Count, DropRate, NonNegative, Seed, check_arguments
from droptics.checks import as_drop
from droptics.data import Sample
from droptics.estimates import Estimate


def linear_margin(data: Sample, tolerance: NonNegative = 1e-6) -> float:
    """The maximum over unit v of min_i y_i v.x_i / ||x_i||, for labels y = +-1 and a separator through the origin.

    It is the distance of the origin to the convex hull of the points y_i x_i / ||x_i||; 0 when they are not separable.
    Non-negative least squares on a growing set of the worst examples; the value returned is the margin that the
    separator found really has, so it never overstates. Times (1 - drop) / 2 it satisfies the margin assumption of lazy
    dropout training (thesis-asm2-corrected) with a constant map.
    Cost: O(n d) per round, and a non-negative least squares problem of the worst examples so far.
    """
    check_arguments(linear_margin, locals())
    points = _signed(data).double().cpu().numpy()
    chosen = np.unique(np.argsort(points @ points.mean(0))[: min(64, len(points))])
    best = 0.0
    for _ in range(60):
        direction = _nearest_point(points[chosen])
        length = float(np.linalg.norm(direction))
        if length < 1e-12:
            break
        products = points @ direction / length
        best = max(best, float(products.min()))
        # the nearest point of a part of the hull is an upper bound on the margin
        if length - best <= tolerance * length:
            break
        chosen = np.union1d(chosen, np.argsort(products)[:64])
    return best


def gate_margin(
    data: Sample, width: Count = 256, drop: DropRate = 0.0, *, steps: Count = 500, seed: Seed = 0
) -> Estimate:
    """The margin of a random ReLU layer's gates: max over ||P_r|| <= 1 of min_i y_i mean_r b_r 1{w_r.x_i >= 0} P_r.x_i.

    The finite-width form of that margin assumption (thesis-asm2-corrected), with w_r ~ N(0, I), inputs of unit norm,
    and the mask replaced by its mean 1 - drop. Two-sided: the lower end is the margin of the P found, the upper end the
    value of the dual weights found; multiplicative weights narrow the gap as 1 / sqrt(steps). Never above (1 - drop) /
    2 in the limit of large width. O(steps n width d) time, O(width d) memory beyond the gates.
    """
    check_arguments(gate_margin, locals())
    keep = 1 - float(as_drop(drop))
    points = _signed(data)
    labels = data.targets.reshape(-1).to(points)
    generator = torch.Generator().manual_seed(int(seed))
    rows = torch.randn(width, points.shape[1], generator=generator, dtype=torch.float64).to(points)
    gates = (labels[:, None] * (points @ rows.mT) >= 0).to(points)
    count = len(points)
    logits, total = points.new_zeros(count), torch.zeros_like(rows)
    upper, scale = math.inf, math.sqrt(8 * math.log(max(count, 2)) / steps)
    for _ in range(steps):
        weights = torch.softmax(-logits, 0)
        sums = (gates * weights[:, None]).mT @ points
        norms = sums.norm(dim=1, keepdim=True)
        upper = min(upper, float(norms.mean()))
        answer = torch.where(norms > 0, sums / norms.clamp_min(1e-300), torch.zeros_like(sums))
        total += answer
        # margins lie in [-1, 1]; the step is that of multiplicative weights for that range
        logits = logits + scale / 2 * _gated(gates, points, answer)
    lower = float(_gated(gates, points, total / steps).min())
    value = points.new_tensor(keep * lower)
    return Estimate(value, value, points.new_tensor(keep * upper), f"gates of {width} random units", steps)


def _gated(gates: Tensor, points: Tensor, directions: Tensor) -> Tensor:
    return (gates * (points @ directions.mT)).mean(1)


def _signed(data: Sample) -> Tensor:
    """y_i x_i / ||x_i||."""
    labels = data.targets.reshape(-1)
    if data.inputs.ndim != 2 or len(labels) != len(data) or not bool(((labels == 1) | (labels == -1)).all()):
        raise ValueError("data must hold vectors with labels -1 or +1; map your labels first")
    norms = data.inputs.norm(dim=1, keepdim=True)
    if float(norms.min()) == 0:
        raise ValueError("data must hold no zero input: a margin is measured on inputs of unit norm")
    return data.inputs / norms * labels[:, None].to(data.inputs)


def _nearest_point(points: NDArray[np.float64]) -> NDArray[np.float64]:
    """The point of the convex hull nearest to the origin.

    With a >= 0 minimizing ||P^T a||^2 + (1 - sum a)^2, the nearest point is P^T a / sum a: scaling a trades the two
    terms without changing the direction.
    """
    system = np.vstack([points.T, np.ones(len(points))])
    target = np.zeros(points.shape[1] + 1)
    target[-1] = 1.0
    weights, _ = scipy.optimize.nnls(system, target, maxiter=50 * len(points))
    return points.T @ weights / max(float(weights.sum()), 1e-300)
