"""Retentivity: how much of the second moment the worst half-space keeps; and making data symmetric."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.arguments import Count, Seed, check_arguments
from droptics.checks import as_float_tensor
from droptics.data import Sample
from droptics.linalg import psd_eigen
from droptics.linalg.scales import equilibrate, in_own_units
from droptics.penalties.grams import feature_gram


@dataclass(frozen=True, eq=False)
class Retentivity:
    """The retentivity of a sample.

    Attributes:
        value: beta, in [0, 1/2].
        direction: A unit vector v that attains it: mean relu(v.x)^2 = value * mean (v.x)^2.
        exact: Whether no direction can be worse (half-space data, one or two dimensions); else an upper bound of the
            sample's beta, the least over all starts.
        rank: Dimension of the span of the data.
        examples: Number of examples.
    """

    value: float
    direction: Tensor
    exact: bool
    rank: int
    examples: int

    def __float__(self) -> float:
        return self.value

    @property
    def note(self) -> str:
        """How far the value can be trusted as an estimate for the population."""
        ratio = self.examples / max(self.rank, 1)
        if ratio < 2:
            why = "below two examples per dimension almost any data lie in a half-space"
            near = "so this value is near 0 whatever the population's is"
            return f"{self.examples} examples span {self.rank} dimensions: {why}, {near}"
        if ratio < 200:
            gaussian = f"with {ratio:.0f} examples per dimension a Gaussian sample, whose population value is 1/2"
            return f"biased down: {gaussian}, reads about {max(0.0, 0.5 - 1 / math.sqrt(ratio)):.2f}"
        return f"{ratio:.0f} examples per dimension: the downward bias is below about {1 / math.sqrt(ratio):.2f}"


def retentivity(data: Sample | Tensor, *, starts: Count = 20, seed: Seed = 0, iterations: Count = 500) -> Retentivity:
    """Beta = min_v E relu(v.x)^2 / E (v.x)^2 of a sample: the share that the worst half-space keeps (thesis-thm12).

    Always in [0, 1/2]; exactly 1/2 for data that hold -x with every x, exactly 0 for non-negative data (all raw
    images). In whitened coordinates z it is 1 - max_{|w|=1} mean relu(w.z)^2, a convex maximization: monotone power
    steps w <- mean relu(w.z) z, normalized, run from `starts` directions at once (means, data points, random). In one
    and two dimensions an exact sweep instead. The value describes the sample; read `note` before taking it for the
    population's. O(n d) per step and start, after a whitening O(n d^2 + d^3).
    """
    check_arguments(retentivity, locals())
    if not isinstance(data, Sample):
        data = Sample(as_float_tensor(data, "data", 2), data.new_zeros(len(data), 1))
    if data.inputs.ndim != 2:
        raise ValueError(f"data must hold vectors, got inputs of shape {tuple(data.inputs.shape)}")
    working = data.to(torch.float64)
    inputs, sizes = in_own_units(working.inputs)
    scaled, units = equilibrate(feature_gram(inputs, working))
    values, vectors = psd_eigen(scaled)
    rank = int((kept := values > 0).sum())
    if rank == 0:
        raise ValueError("data must hold an input other than zero: the retentivity of zero data is undefined")
    basis = vectors[:, kept] / values[kept].sqrt() / units[:, None]
    points, weights = inputs @ basis, working.shares
    separating = _half_space(inputs, points, basis)
    if separating is not None:
        worst, value, exact = -separating, 0.0, True
    else:
        if rank > 2:
            best = _ascend(points, weights, starts, seed, iterations)
        else:
            best = _sweep(points, weights) if rank == 2 else points.new_ones(1)
        products = points @ best
        above, below = (float((weights * torch.relu(side).square()).sum()) for side in (products, -products))
        if above < below:  # the other side of the same hyperplane is worse
            above, below, best = below, above, -best
        # dividing by the sum instead of trusting |w| = 1 cancels the rounding of the whitening
        worst, value, exact = -(basis @ best), below / (above + below), rank <= 2
    worst = worst / worst.abs().max() / (sizes / sizes.min())  # along the inputs in their own units
    return Retentivity(value, (worst / worst.norm()).to(data.inputs), exact, rank, len(data))


def symmetrize(data: Sample, generator: torch.Generator | None = None) -> Sample:
    """The sample with every input multiplied by a fair random sign, or with both signs of every input.

    Without a generator nothing is drawn: the result holds x and -x (2n examples), so that its retentivity is exactly
    1/2. Targets are kept, so a network that fits the result is nearly even. The second moment does not change, and
    no sampling is needed for activations: E relu(+-v.x)^2 = v^T C v / 2 (`flows(..., symmetrized=True)`).
    Cost: a copy of the inputs. Claim: thesis-sec4.3-symmetrization.
    """
    check_arguments(symmetrize, locals())
    if generator is None:
        weights = None if data.weights is None else torch.cat([data.weights, data.weights])
        return Sample(torch.cat([data.inputs, -data.inputs]), torch.cat([data.targets, data.targets]), weights)
    signs = torch.randint(0, 2, (len(data),), generator=generator, device=generator.device) * 2 - 1
    shape = (-1,) + (1,) * (data.inputs.ndim - 1)
    return Sample(data.inputs * signs.to(data.inputs).reshape(shape), data.targets, data.weights)


def _half_space(inputs: Tensor, points: Tensor, basis: Tensor) -> Tensor | None:
    """A direction v with v.x >= 0 for all examples, if an easy one exists: an orthant, or the least-squares one."""
    lowest, highest = inputs.amin(0), inputs.amax(0)
    if bool(((lowest >= 0) | (highest <= 0)).all()):
        return torch.where(lowest >= 0, 1.0, -1.0).to(inputs)
    solution = torch.linalg.lstsq(points, points.new_ones(len(points), 1)).solution[:, 0]
    products = points @ solution
    least = len(points) * torch.finfo(points.dtype).eps  # of their mean: that of symmetric data is rounding, or zero
    return basis @ solution if bool((products >= 0).all() & (products.mean() > least)) else None


def _ascend(points: Tensor, weights: Tensor, starts: int, seed: int, iterations: int) -> Tensor:
    """The best local maximizer of mean relu(w.z)^2 over unit w."""
    generator = torch.Generator().manual_seed(int(seed))
    count, rank = points.shape
    mean = weights @ points
    chosen = points[torch.randint(0, count, (starts,), generator=generator).to(points.device)]
    drawn = torch.randn(starts, rank, generator=generator, dtype=torch.float64).to(points)
    rows = torch.cat([mean[None], -mean[None], chosen, -chosen, drawn])
    rows = rows[rows.norm(dim=1) > 0]
    rows = rows / rows.norm(dim=1, keepdim=True)
    for round_, steps in enumerate((min(30, iterations), iterations)):
        if round_:  # only the best few starts run to the end
            rows = rows[_scores(points, weights, rows).topk(min(4, len(rows))).indices]
        score = rows.new_zeros(len(rows))
        for _ in range(steps):
            active = torch.relu(points @ rows.mT)
            previous, score = score, weights @ active.square()
            moved = (active * weights[:, None]).mT @ points
            norms = moved.norm(dim=1, keepdim=True)
            rows = torch.where(norms > 0, moved / norms.clamp_min(1e-300), rows)
            if float((score - previous).max()) <= 1e-13:
                break
    return rows[int(_scores(points, weights, rows).argmax())]


def _scores(points: Tensor, weights: Tensor, rows: Tensor) -> Tensor:
    return weights @ torch.relu(points @ rows.mT).square()


def _sweep(points: Tensor, weights: Tensor) -> Tensor:
    """Exact maximizer in two dimensions: on every arc of constant activation the top eigenvector, if it lies there.

    The objective is continuously differentiable on the circle, so its maximum is stationary on its arc. Points are
    sorted by angle once and second moments come from prefix sums: O(n log n).
    """
    x, y = points.unbind(1)
    angles, index = torch.atan2(y, x).sort()
    products = weights[:, None] * torch.stack([x**2, x * y, y**2], dim=1)
    sums = torch.cat([products.new_zeros(1, 3), products[index].repeat(3, 1).cumsum(0)])
    unrolled = torch.cat([angles - 2 * math.pi, angles, angles + 2 * math.pi])
    turns = torch.cat([angles + math.pi / 2, angles - math.pi / 2])
    turns = ((turns + math.pi).remainder(2 * math.pi) - math.pi).sort().values
    starts, ends = turns, torch.cat([turns[1:], turns[:1] + 2 * math.pi])
    middles = (starts + ends) / 2
    first = torch.searchsorted(unrolled, middles - math.pi / 2)
    last = torch.searchsorted(unrolled, middles + math.pi / 2)
    a, b, c = (sums[last] - sums[first]).unbind(1)
    top = torch.atan2(2 * b, a - c) / 2  # angle of the top eigenvector, up to a half turn
    offset = (top - middles + math.pi / 2).remainder(math.pi) - math.pi / 2
    half = (ends - starts) / 2
    angle = middles + offset.clamp(-half, half)
    score = a * angle.cos() ** 2 + 2 * b * angle.cos() * angle.sin() + c * angle.sin() ** 2
    best = angle[score.argmax()]
    return torch.stack([best.cos(), best.sin()])
