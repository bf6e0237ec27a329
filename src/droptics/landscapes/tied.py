"""All critical points of a tied network on isotropic inputs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, islice

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import Count
from droptics.data import Data, Moments
from droptics.errors import NoClosedForm
from droptics.landscapes.inspection import Inspection, inspect
from droptics.linalg import equalize_columns
from droptics.masks import MaskLaw
from droptics.models import Autoencoder, Model
from droptics.spectra import action
from droptics.spectra.coordinates import check_isotropic

Group = tuple[int, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class CriticalPoint:
    """One family of critical points: a representative, its kind, and the groups of columns that make it."""

    #: A representative; permuting columns, flipping signs and turning groups by other equalizers give the rest.
    model: Autoencoder
    #: For every group of columns of equal norm, how many columns and which eigenvectors (0 = largest eigenvalue); a
    #: group without eigenvectors holds the zero columns.
    groups: tuple[Group, ...]
    inspection: Inspection  #: Objective, gradient norm, inertia, kind.

    @property
    def objective(self) -> float:
        """The criterion."""
        return self.inspection.objective

    @property
    def inertia(self) -> tuple[int, int, int]:
        """Numbers of (negative, zero, positive) eigenvalues of the Hessian."""
        return self.inspection.inertia

    @property
    def kind(self) -> str:
        """Global minimum, strict saddle or local maximum: there are no others (mianjy2018-thm4.3, strengthened)."""
        return self.inspection.kind


@checked
def critical_points(family: type[Model], data: Data, masks: MaskLaw, limit: Count = 1_000) -> list[CriticalPoint]:
    """Every critical point of a tied network under dropout, up to symmetry, by increasing criterion.

    At a critical point the columns fall into groups of equal norm; different groups are orthogonal and use disjoint
    sets E_g of eigenvectors of the symmetric part M of the map. A group of r_g columns on E_g, |E_g| <= r_g, has
    n_g = sum_{E_g} e / (r_g + lambda |E_g|) and squared singular values e_i - lambda n_g > 0
    (droptics-critical-points). For repeated eigenvalues each choice of eigenvectors stands for a continuum. The list
    grows exponentially with width and rank; more than `limit` points are refused.

    Cost: an eigendecomposition O(d^3), then O(d width) per point; their number grows exponentially, `limit` ends it.

    >>> from droptics.masks import Bernoulli
    >>> points = critical_points(Autoencoder, Moments.of_map(torch.tensor([[2.0]]).double()), Bernoulli(0.5, 2))
    >>> [(round(point.objective, 4), point.inertia, point.kind) for point in points]
    [(1.3333, (0, 0, 2), 'global minimum'), (2.0, (1, 0, 1), 'strict saddle'), (4.0, (2, 0, 0), 'local maximum')]
    """
    if family is not Autoencoder:
        name = getattr(family, "__name__", family)
        raise NoClosedForm(f"all critical points are known for Autoencoder, not for {name}; inspect one model instead")
    moments = Moments.of(data)
    strength = action(masks).one_rate
    check_isotropic(moments)
    scale = float(moments.xx.diagonal().mean())
    values, vectors = torch.linalg.eigh((moments.yx + moments.yx.mT).double() / (2 * scale))
    values, vectors = values.flip(0), vectors.flip(1)
    positive = int((values > 1e-12 * values.abs().max()).sum())
    found = list(islice(_arrangements(values[:positive].tolist(), masks.size, strength), limit + 1))
    if len(found) > limit:
        raise ValueError(f"limit must be raised: there are more than {limit} critical points at width {masks.size}")
    models = [Autoencoder(_columns(values, vectors, groups, strength).to(data.dtype)) for groups in found]
    parts = zip(models, found, strict=True)
    points = [CriticalPoint(model, groups, inspect(model, data, masks)) for model, groups in parts]
    return sorted(points, key=lambda point: point.objective)


def _arrangements(values: list[float], width: int, strength: float) -> Iterator[tuple[Group, ...]]:
    """All sets of groups that satisfy the conditions; groups come in the order of their first eigenvector."""

    def extend(chosen: tuple[Group, ...], left: int) -> Iterator[tuple[Group, ...]]:
        levels = [sum(values[i] for i in group) / (columns + strength * len(group)) for columns, group in chosen]
        distinct = all(abs(a - b) > 1e-9 * max(a, b) for a, b in combinations(levels, 2))
        # without masks every factor of the same product is critical: one group says it all
        whole = strength > 0 or not chosen or left == 0
        if distinct and whole:
            yield (*chosen, (left, ())) if left else chosen
        if not left or (strength == 0 and chosen):
            return
        used = {i for _, members in chosen for i in members}
        first = chosen[-1][1][0] + 1 if chosen else 0
        for start in range(first, len(values)):
            if start in used:
                continue
            rest = [i for i in range(start + 1, len(values)) if i not in used]
            for size in range(min(left, len(rest) + 1)):
                for others in combinations(rest, size):
                    members, least = (start, *others), values[others[-1] if others else start]
                    for columns in [left] if strength == 0 else range(len(members), left + 1):
                        # e_i > lambda n_g without cancellation, which forgets groups at rates next to 1
                        if columns * least * (1 - 1e-12) > strength * sum(values[i] - least for i in members):
                            yield from extend((*chosen, (columns, members)), left - columns)

    return extend((), width)


def _columns(values: Tensor, vectors: Tensor, groups: tuple[Group, ...], strength: float) -> Tensor:
    """The representative: every group equalized on its own eigenvectors."""
    parts = []
    for columns, members in groups:
        index = list(members)
        block = torch.zeros(len(vectors), columns, dtype=torch.float64, device=vectors.device)
        if index:
            kept = values[index]  # e_i - lambda n_g again, its numerator first
            squares = columns * kept + strength * (kept[:, None] - kept).sum(1)
            block[:, : len(index)] = vectors[:, index] * (squares / (columns + strength * len(index))).sqrt()
            (block,) = equalize_columns(block)
        parts.append(block)
    return torch.cat(parts, dim=1)
