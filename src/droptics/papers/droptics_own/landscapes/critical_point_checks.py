"""What the claim on all critical points of tied networks compares: points by hand, and zeros of a search."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import least_squares
from torch import Tensor

from droptics.data import Moments
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes import CriticalPoint, critical_points
from droptics.masks import Bernoulli
from droptics.models import Autoencoder
from droptics.papers.instances import normal, tensor
from droptics.papers.mianjy2018.landscape_checks import group_points

Reals = NDArray[np.float64]
Groups = frozenset[tuple[int, frozenset[int]]]


def counted(base: int) -> list[Comparison]:
    """One input: base^r critical points, u_i in {0, +-sqrt(M/(m+lam))}, m of them non-zero."""
    found = []
    for width in (1, 2, 3):
        data, lam = Moments.of_map(tensor([[2.0]])), 0.5
        points = critical_points(Autoencoder, data, Bernoulli(lam / (1 + lam), width))
        total = 0
        for point in points:
            alive = int((point.model.U.abs() > 1e-9).sum())
            total += math.comb(width, alive) * 2**alive
            found.append(compare(float(point.inertia[2]), "==", float(alive), "positive curvatures"))
            level = math.sqrt(2.0 / (alive + lam)) if alive else 0.0
            found.append(compare(point.model.U.abs().max(), "==", level, "size of the non-zero weights"))
        found.append(compare(float(total), "==", float(base**width), f"number of critical points, width {width}"))
    return found


def critical_groups(base: int) -> list[Comparison]:
    """`counted`, and maps with skew parts in turned coordinates, inputs of any size: the list is the one by hand.

    Its gradients vanish and its groups are what they are called; what a search for a zero gradient finds is on it.
    """
    found = counted(base)
    cases = (((2.0, 1.2), 3, 0.5, 1.0), ((1.5, 1.1, 0.4, -0.7), 2, 0.3, 2.5), ((1.3, 1.2, 0.9), 3, 0.2, 0.6))
    for seed, (spectrum, width, lam, size) in enumerate(cases):
        values, count = tensor(spectrum), len(spectrum)
        axes, skew = torch.linalg.qr(normal(seed, count, count)).Q, normal(seed + 5, count, count)
        map_ = axes * values @ axes.mT + skew - skew.mT
        yy = size * map_ @ map_.mT + torch.eye(count)

        def criterion(
            U: Tensor, yx: Tensor = size * map_, yy: Tensor = yy, c: float = size, lam: float = lam
        ) -> Tensor:
            W = U @ U.mT
            return yy.trace() - 2 * (yx * W).sum() + c * (W.square().sum() + lam * U.square().sum(0).square().sum())

        data = Moments(size * torch.eye(count).double(), size * map_, (yy + yy.mT) / 2)
        points = critical_points(Autoencoder, data, Bernoulli(lam / (1 + lam), width))
        found += _as_listed(points, values, axes, lam)
        networks = torch.stack([point.model.U for point in points])
        slopes = torch.stack([torch.func.grad(criterion)(U) for U in networks])
        found.append(compare(slopes, "==", 0.0, f"gradients, width {width}", precision=1e-7))
        levels = tensor([point.objective for point in points])
        own = torch.stack([criterion(U) for U in networks])
        found.append(compare(levels, "==", own, f"values, width {width}"))
        found.append(compare(levels[1:], ">=", levels[:-1], f"by increasing criterion, width {width}"))
        listed = by_hand(values[values > 0].tolist(), width, lam)
        called = {frozenset((r, frozenset(members)) for r, members in point.groups if members) for point in points}
        found.append(compare(len(points), "==", len(listed), f"number of points, width {width}"))
        found.append(compare(len(called & listed), "==", len(listed), f"all by hand, width {width}"))
        zeros = _searched_zeros(values, width, lam)
        found.append(compare(len(zeros), ">=", 4, f"zeros of the search, width {width}"))
        for V in [*group_points(values, lam, width), *zeros]:
            nearest = (levels - criterion(axes @ V)).abs().min()
            found.append(compare(nearest, "==", 0.0, f"a point of the list, width {width}", precision=1e-7))
            found += _in_groups(V)
    return found


def by_hand(values: list[float], width: int, lam: float) -> set[Groups]:
    """Every choice of disjoint sets of eigenvectors and numbers of columns with the stated squares above zero.

    Norms of different groups differ: otherwise they are one.
    """
    found = set()
    for labels in itertools.product(range(width + 1), repeat=len(values)):
        sets = [frozenset(i for i, mine in enumerate(labels) if mine == label) for label in set(labels) - {0}]
        for columns in itertools.product(range(1, width + 1), repeat=len(sets)):
            groups = list(zip(columns, sets, strict=True))
            norms = [sum(values[i] for i in members) / (r + lam * len(members)) for r, members in groups]
            fits = sum(columns) <= width and all(r >= len(members) for r, members in groups)
            positive = all(values[i] > lam * n for n, (_, members) in zip(norms, groups, strict=True) for i in members)
            if fits and positive and len({round(n, 9) for n in norms}) == len(norms):
                found.add(frozenset(groups))
    return found


def _as_listed(points: list[CriticalPoint], values: Tensor, axes: Tensor, lam: float) -> list[Comparison]:
    """Columns of every group have the stated norm, and their squared singular values are e - lam n on its axes."""
    norms, squares, wanted = [], [], []
    for point in points:
        sizes = [columns for columns, _ in point.groups]
        for (columns, members), own in zip(point.groups, point.model.U.split(sizes, 1), strict=True):
            norm = values[list(members)].sum() / (columns + lam * len(members))
            norms.append(own.square().sum(0) - norm)
            kept = torch.zeros_like(values)
            kept[list(members)] = values[list(members)] - lam * norm
            squares.append(axes.mT @ own @ own.mT @ axes)
            wanted.append(torch.diag(kept))
    return [
        compare(torch.cat(norms), "==", 0.0, "norms in groups"),
        compare(torch.stack(squares), "==", torch.stack(wanted), "squares on eigenvectors of groups"),
    ]


def _in_groups(V: Tensor) -> list[Comparison]:
    """In coordinates of eigenvectors: columns of one norm have these for axes, and share none with another norm."""
    found, norms = [], V.square().sum(0)
    for norm in norms[norms > 1e-6]:
        own = V[:, (norms - norm).abs() < 1e-6]
        group = own @ own.mT
        found.append(compare(group - torch.diag(group.diagonal()), "==", 0.0, "eigenvectors", precision=1e-6))
        others = (V @ V.mT - group).diagonal()
        found.append(compare(others * group.diagonal(), "==", 0.0, "disjoint", precision=1e-6))
    return found


def _searched_zeros(M: Tensor, width: int, lam: float) -> list[Tensor]:
    """Where the gradient of ||diag M - U U^T||^2 + lam sum ||u_i||^4 vanishes, from random starts."""

    def slope(flat: Reals) -> Reals:
        U = flat.reshape(len(M), width)
        return (4 * (U @ U.T - np.diag(M.numpy())) @ U + 4 * lam * U * (U**2).sum(0)).ravel()

    zeros = []
    for seed in range(8):
        start = (0.3 + seed % 3 / 2) * normal(seed, len(M) * width).numpy()
        end = least_squares(slope, start, method="lm", xtol=1e-15, ftol=1e-15, gtol=1e-15)
        if np.abs(end.fun).max() < 1e-10:
            zeros.append(torch.from_numpy(end.x.reshape(len(M), width)))
    return zeros
