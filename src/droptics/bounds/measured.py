"""The Rademacher complexity of the dropout class itself, measured on data: exact up to two dimensions."""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from droptics.arguments import Count, NonNegative, Seed, check_arguments
from droptics.checks import check_size
from droptics.data import Sample
from droptics.estimates import Estimate
from droptics.linalg import psd_eigen
from droptics.linalg.scales import equilibrate, in_own_units
from droptics.penalties.grams import feature_gram

# All sign patterns are listed up to this many examples; beyond, they are drawn.
_ENUMERATED_EXAMPLES = 12


def measured_rademacher(
    data: Sample, alpha: NonNegative = 1.0, draws: Count = 256, seed: Seed = 0, population: Sample | None = None
) -> Estimate:
    """(alpha / n) E_zeta sup {|sum_i zeta_i relu(v.x_i)| : E relu(v.x)^2 <= 1}, the complexity between the bounds.

    The supremum over networks of any width is attained by one unit, so this is the empirical Rademacher complexity
    of thesis-thm12 and thesis-thm13. The constraint is that of the `population`, the points of a law with their
    probabilities as weights, as the theorems state it; without one, that of the data themselves. It is infinite where a
    unit is active on the data and never under the law. Inputs are reduced to the span of the law first. In one
    dimension each supremum is the larger of two numbers, in two an exact sweep over the arcs of constant activation,
    O(n) per sign pattern after sorting, and a whitening O(n d^2 + d^3). Above, only the linear relaxation
    alpha E||sum_i zeta_i C^{+/2} x_i|| / (sqrt(2) n) is returned, a lower value of the complexity. Sign patterns are
    listed up to 12 examples and drawn beyond; the interval then covers their expectation at 95 %. With several features
    a direction in which few examples are active can be conditioned as badly as any: no bound on the rounding is known
    then, and the `error` is infinite.
    """
    check_arguments(measured_rademacher, locals())
    if data.weights is not None or data.inputs.ndim != 2:
        raise ValueError("data must hold unweighted vectors: the complexity speaks of n equally weighted examples")
    law = (data if population is None else population).to(torch.float64)
    if law.inputs.ndim != 2:
        raise ValueError(f"population must hold vectors, got inputs of shape {tuple(law.inputs.shape)}")
    check_size("population (features)", law.inputs.shape[1], data.inputs.shape[1], "as many as the data have")
    points, at, shares = whitened(data.to(torch.float64), law), whitened(law, law), law.shares
    count, rank = points.shape
    signs, listed = _signs(count, draws, seed, points)
    if rank == 0:
        suprema, how = points.new_zeros(signs.shape[0]), "no directions"
    elif rank == 1:
        suprema, how = _one_dimension(points[:, 0], signs, at[:, 0], shares), "exact suprema in one dimension"
    elif rank == 2:
        suprema, how = _two_dimensions(points, signs, at, shares), "exact suprema by sweep in two dimensions"
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


def whitened(data: Sample, law: Sample) -> Tensor:
    """Coordinates z = C^{+/2} x of the data in the span of a law of inputs, (n, rank), with E z z^T = I."""
    known, sizes = in_own_units(law.inputs)
    scaled, units = equilibrate(feature_gram(known, law))
    values, vectors = psd_eigen(scaled)
    kept, inputs = values > 0, data.inputs / sizes / units
    outside = (inputs @ vectors[:, ~kept]).abs()
    if outside.numel() and float(outside.max()) > 1e3 * torch.finfo(data.dtype).eps * float(inputs.abs().max()):
        raise ValueError("population must span the data: along a direction that it lacks the complexity is infinite")
    return (inputs @ vectors[:, kept]) / values[kept].sqrt()


def _signs(count: int, draws: int, seed: int, like: Tensor) -> tuple[Tensor, bool]:
    if count <= _ENUMERATED_EXAMPLES:
        return torch.tensor(list(itertools.product((1.0, -1.0), repeat=count))).to(like), True
    generator = torch.Generator().manual_seed(int(seed))
    return (torch.randint(0, 2, (draws, count), generator=generator) * 2 - 1).to(like), False


def _one_dimension(points: Tensor, signs: Tensor, law: Tensor, shares: Tensor) -> Tensor:
    best = signs.new_zeros(signs.shape[0])
    for side in (1, -1):
        gains = (signs @ torch.relu(side * points)).abs()
        best = torch.maximum(best, _ratio(gains, (shares * torch.relu(side * law).square()).sum()))
    return best


def _two_dimensions(points: Tensor, signs: Tensor, law: Tensor, shares: Tensor) -> Tensor:
    """Maximize |s.v| / sqrt(v^T M v) over every arc of directions v with the same active points.

    s and M are sums over the active points, of the data and of the law. Inside an arc the maximum is at v ~ M^{-1} s if
    that direction lies in the arc, else at an end; ends and middles are candidates too, which also covers singular M.
    """
    starts, ends = arcs(torch.cat([points, law]))
    middle = _direction((starts + ends) / 2)
    active, alive = ((middle @ part.mT > 0).to(part) for part in (points, law))
    moments = torch.einsum("ai,ij,ik->ajk", alive * shares, law, law)
    sums = torch.stack([signs @ (active * points[:, axis]).mT for axis in (0, 1)], dim=-1)  # (patterns, arcs, 2)
    solved = _adjugate(moments, sums)
    solved = torch.where((solved * middle).sum(-1, keepdim=True) < 0, -solved, solved)
    inside = (solved.unsqueeze(-2) * _inward(starts, ends)).sum(-1).amin(-1, keepdim=True) >= 0
    best = signs.new_zeros(signs.shape[0])
    for candidate in (_direction(starts), middle, _direction(ends), torch.where(inside, solved, middle)):
        energies = ((candidate.unsqueeze(-2) @ moments).squeeze(-2) * candidate).sum(-1)
        gains = (candidate * sums).sum(-1).abs()
        best = torch.maximum(best, _ratio(gains, energies).amax(-1))
    return best


def _ratio(gains: Tensor, energies: Tensor) -> Tensor:
    """Gains / sqrt(energies); a unit that is never active has neither, one that the law does not know has no limit."""
    nothing = torch.where(gains > 1e-6, torch.inf, 0.0)
    return torch.where(energies > 1e-14, gains / energies.clamp_min(1e-14).sqrt(), nothing)


def arcs(points: Tensor) -> tuple[Tensor, Tensor]:
    """Arcs of directions with constant activation: start and end angles."""
    nonzero = points[points.norm(dim=1) > 0]
    angles = torch.atan2(nonzero[:, 1], nonzero[:, 0])
    turns = torch.cat([angles + math.pi / 2, angles - math.pi / 2]).remainder(2 * math.pi)
    starts = turns.sort().values
    ends = torch.cat([starts[1:], starts[:1] + 2 * math.pi])
    wide = ends - starts > 1e-12
    return starts[wide], ends[wide]


def _direction(angles: Tensor) -> Tensor:
    return torch.stack([angles.cos(), angles.sin()], dim=-1)


def _inward(starts: Tensor, ends: Tensor) -> Tensor:
    """Normals (arcs, 2, 2): a direction lies in the arc iff both products are non-negative (arcs below pi)."""
    normals = torch.stack([-starts.sin(), starts.cos()], -1), torch.stack([ends.sin(), -ends.cos()], -1)
    return torch.stack(normals, dim=-2)


def _adjugate(moments: Tensor, sums: Tensor) -> Tensor:
    """Directions of M^{-1} s without dividing by the determinant, scaled to unit length."""
    a, b, d = moments[:, 0, 0], moments[:, 0, 1], moments[:, 1, 1]
    raw = torch.stack([d * sums[..., 0] - b * sums[..., 1], a * sums[..., 1] - b * sums[..., 0]], dim=-1)
    return raw / raw.norm(dim=-1, keepdim=True).clamp_min(1e-300)
