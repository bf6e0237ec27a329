"""The Rademacher complexity of the dropout class itself, measured on data: exact up to two dimensions."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from droptics.arguments import Count, NonNegative, Seed, check_arguments
from droptics.checks import check_positive
from droptics.data import Sample
from droptics.estimates import Estimate
from droptics.linalg import psd_eigen
from droptics.linalg.scales import equilibrate
from droptics.penalties.closed_form import feature_gram

# All sign patterns are listed up to this many examples; beyond, they are drawn.
_ENUMERATED_EXAMPLES = 12


def measured_rademacher(data: Sample, alpha: NonNegative = 1.0, draws: Count = 256, seed: Seed = 0) -> Estimate:
    """(alpha / n) E_zeta sup {|sum_i zeta_i relu(v.x_i)| : mean relu(v.x)^2 <= 1}, the complexity between the bounds.

    The supremum over networks of any width is attained by one unit, so this is the empirical Rademacher complexity
    of thesis-thm12 and thesis-thm13 with sample moments. Inputs are reduced to their span first. In one dimension
    each supremum is the larger of two numbers, in two an exact sweep over the arcs of constant activation, O(n) per
    sign pattern after sorting. Above, only the linear relaxation alpha E||sum_i zeta_i C^{+/2} x_i|| / (sqrt(2) n)
    is returned, a lower value of the complexity. Sign patterns are listed up to 12 examples and drawn beyond; the
    interval then covers their expectation at 95 %. With several features a direction in which few examples are active
    can be conditioned as badly as any: no bound on the rounding is known then, and the `error` is infinite.
    """
    check_arguments(measured_rademacher, locals())
    if data.weights is not None or data.inputs.ndim != 2:
        raise ValueError("data must hold unweighted vectors: the complexity speaks of n equally weighted examples")
    check_positive("draws", draws)
    points = whitened(data.to(torch.float64))
    count, rank = points.shape
    signs, listed = _signs(count, draws, seed, points)
    if rank == 0:
        suprema, how = points.new_zeros(signs.shape[0]), "no directions"
    elif rank == 1:
        suprema, how = _one_dimension(points[:, 0], signs), "exact suprema in one dimension"
    elif rank == 2:
        suprema, how = _two_dimensions(points, signs), "exact suprema by sweep in two dimensions"
    else:
        suprema, how = (signs @ points).norm(dim=1) / math.sqrt(2), "linear relaxation (a lower value)"
    values = (alpha * suprema / count).to(data.dtype)
    mean = values.mean()
    if listed:
        rounding = _rounding(data, alpha, float(mean)) if rank else 0.0
        return Estimate.exact(mean, f"{how}, all sign patterns", signs.shape[0], rounding)
    error = 1.959963984540054 * values.std() / math.sqrt(signs.shape[0])
    return Estimate(mean, mean - error, mean + error, f"{how}, {draws} sign patterns", draws, 0.95)


def _rounding(data: Sample, alpha: float, mean: float) -> float:
    """One feature: sums of n terms, each at most n root mean squares; then the mean over patterns in the own dtype."""
    count, features = data.inputs.shape
    if features > 1:
        return math.inf
    inner = alpha * (16 + 4 * count) * torch.finfo(torch.float64).eps
    return inner + (4 + 2.0 ** (count / 2)) * torch.finfo(data.dtype).eps * mean


def whitened(data: Sample) -> Tensor:
    """Coordinates z = C^{+/2} x in the span of the data, (n, rank), with mean z z^T = I."""
    scaled, units = equilibrate(feature_gram(data.inputs, data))
    values, vectors = psd_eigen(scaled)
    kept = values > 0
    return (data.inputs / units @ vectors[:, kept]) / values[kept].sqrt()


def _signs(count: int, draws: int, seed: int, like: Tensor) -> tuple[Tensor, bool]:
    if count <= _ENUMERATED_EXAMPLES:
        patterns = torch.tensor(list(itertools.product((1.0, -1.0), repeat=count)))
        return patterns.to(like), True
    generator = torch.Generator().manual_seed(int(seed))
    drawn = torch.randint(0, 2, (draws, count), generator=generator) * 2 - 1
    return drawn.to(like), False


def _one_dimension(points: Tensor, signs: Tensor) -> Tensor:
    best = signs.new_zeros(signs.shape[0])
    for side in (points, -points):
        active = torch.relu(side)
        energy = active.square().mean()
        if float(energy) > 0:
            best = torch.maximum(best, (signs @ active).abs() / energy.sqrt())
    return best


def _two_dimensions(points: Tensor, signs: Tensor) -> Tensor:
    """Maximize |s.v| / sqrt(v^T M v) over every arc of directions v with the same active points.

    s and M are sums over the active points. Inside an arc the maximum is at v ~ M^{-1} s if that direction lies in
    the arc, else at an end; ends and middles are candidates too, which also covers singular M.
    """
    starts, ends, active = arcs(points)
    moments = torch.einsum("ai,ij,ik->ajk", active, points, points) / points.shape[0]
    middle = _direction((starts + ends) / 2)
    sums = torch.stack([signs @ (active * points[:, axis]).mT for axis in (0, 1)], dim=-1)  # (patterns, arcs, 2)
    solved = _adjugate(moments, sums)
    solved = torch.where((solved * middle).sum(-1, keepdim=True) < 0, -solved, solved)
    inside = (solved.unsqueeze(-2) * _inward(starts, ends)).sum(-1).amin(-1, keepdim=True) >= 0
    best = signs.new_zeros(signs.shape[0])
    for candidate in (_direction(starts), middle, _direction(ends), torch.where(inside, solved, middle)):
        energies = ((candidate.unsqueeze(-2) @ moments).squeeze(-2) * candidate).sum(-1)
        gains = (candidate * sums).sum(-1).abs()
        # an arc end where no point is active has neither gain nor energy
        ratios = torch.where(energies > 1e-14, gains / energies.clamp_min(1e-14).sqrt(), torch.zeros_like(gains))
        best = torch.maximum(best, ratios.amax(-1))
    return best


def arcs(points: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Arcs of directions with constant activation: start and end angles, and the active points (arcs, n) as 0/1."""
    nonzero = points[points.norm(dim=1) > 0]
    angles = torch.atan2(nonzero[:, 1], nonzero[:, 0])
    turns = torch.cat([angles + math.pi / 2, angles - math.pi / 2]).remainder(2 * math.pi)
    starts = turns.sort().values
    ends = torch.cat([starts[1:], starts[:1] + 2 * math.pi])
    wide = ends - starts > 1e-12
    starts, ends = starts[wide], ends[wide]
    active = (_direction((starts + ends) / 2) @ points.mT > 0).to(points)
    return starts, ends, active


def _direction(angles: Tensor) -> Tensor:
    return torch.stack([angles.cos(), angles.sin()], dim=-1)


def _inward(starts: Tensor, ends: Tensor) -> Tensor:
    """Normals (arcs, 2, 2): a direction lies in the arc iff both products are non-negative (arcs below pi)."""
    return torch.stack(
        [torch.stack([-starts.sin(), starts.cos()], -1), torch.stack([ends.sin(), -ends.cos()], -1)], dim=-2
    )


def _adjugate(moments: Tensor, sums: Tensor) -> Tensor:
    """Directions of M^{-1} s without dividing by the determinant, scaled to unit length."""
    a, b, d = moments[:, 0, 0], moments[:, 0, 1], moments[:, 1, 1]
    raw = torch.stack([d * sums[..., 0] - b * sums[..., 1], a * sums[..., 1] - b * sums[..., 0]], dim=-1)
    return raw / raw.norm(dim=-1, keepdim=True).clamp_min(1e-300)
