"""What a claim on routes compares of rectified normal numbers, by integrals over a grid, and of mixtures."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from scipy.special import ndtr
from torch import Tensor

from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import tensor
from droptics.predictions.approximations import rectified
from droptics.predictions.densities import _once


def rectified_in_full(scale: float) -> list[Comparison]:
    """Rectified normal numbers that move together, are still or the same, and mixtures that come again."""
    return [*rectified_pairs(scale), *still_units(scale), *mixtures(scale)]


def _normal_grid() -> tuple[Tensor, Tensor]:
    """Points within nine deviations and the normal law on them."""
    grid = torch.linspace(-9, 9, 1201, dtype=torch.float64)
    weights = torch.exp(-grid.square() / 2)
    return grid, weights / weights.sum()


def rectified_pairs(scale: float) -> list[Comparison]:
    """Moments of rectified normal numbers by integrals over a grid, for every correlation."""
    found: list[Comparison] = []
    grid, weights = _normal_grid()
    for r in (-0.999, -0.6, 0.0, 0.3, 0.95):
        mean, sizes = tensor([0.4, -0.7]), tensor([1.2, 0.8])
        spread = torch.outer(sizes, sizes) * tensor([[1.0, r], [r, 1.0]])
        center, covariance = rectified(mean[None], spread[None])
        a = mean[0] + sizes[0] * grid
        own = mean[1] + sizes[1] * r * grid
        left = sizes[1] * math.sqrt(1 - r * r)
        ratio = (own / left).numpy()
        rest = own * torch.from_numpy(ndtr(ratio)) + left * torch.from_numpy(
            np.exp(-(ratio**2) / 2) / math.sqrt(2 * math.pi)
        )
        first, second = (weights * torch.relu(a)).sum(), (weights * rest).sum()
        both = (weights * torch.relu(a) * rest).sum() - first * second
        found.append(compare(center[0], "==", scale * torch.stack([first, second]), f"means at {r}", precision=1e-4))
        found.append(compare(covariance[0, 0, 1], "==", scale * both, f"covariance at {r}", precision=1e-4))
        single = rectified(mean[None], spread[None].diagonal(dim1=-2, dim2=-1))[1]
        variance = (weights * torch.relu(a).square()).sum() - first**2
        found.append(compare(single[0, 0], "==", scale * variance, f"variance at {r}", precision=1e-4))
        found.append(compare(covariance[0].diagonal(), "==", scale * single[0], f"diagonal at {r}"))
    live = torch.ones(1, 2, 2).double().requires_grad_()
    slopes = torch.autograd.grad(rectified(tensor([[0.3, 0.3]]), live)[1].sum(), live)[0]
    found.append(same(bool(torch.isfinite(slopes).all()), True, "slopes of equal units"))
    return found


def still_units(scale: float) -> list[Comparison]:
    """Two units that do not move, on and off, beside one that does; units of one number, and of opposite ones."""
    found: list[Comparison] = []
    grid, weights = _normal_grid()
    still, moving = tensor([[0.5, -0.5, 0.4]]), torch.diag(tensor([0.0, 0.0, 1.44]))
    alone = torch.relu(0.4 + 1.2 * grid)
    first, second = (weights * alone).sum(), (weights * alone.square()).sum()
    center, covariance = rectified(still, moving[None])
    truth = torch.stack([tensor(0.5), tensor(0.0), first])
    found.append(compare(center[0], "==", scale * truth, "units that do not move", precision=1e-4))
    truth = torch.diag(torch.stack([tensor(0.0), tensor(0.0), second - first**2]))
    found.append(compare(covariance[0], "==", scale * truth, "their covariance", precision=1e-4))
    for sign in (1.0, -1.0):
        other = torch.relu(0.4 + sign * 1.2 * grid)
        truth = (weights * alone * other).sum() - (weights * alone).sum() * (weights * other).sum()
        both = rectified(tensor([[0.4, 0.4]]), 1.44 * tensor([[[1.0, sign], [sign, 1.0]]]))[1][0, 0, 1]
        found.append(compare(both, "==", scale * truth, f"covariance at correlation {sign}", precision=1e-4))
    return found


def mixtures(scale: float) -> list[Comparison]:
    """Mixtures that are asked for twice: one part is kept, more are computed again."""
    found: list[Comparison] = []
    for parts in (1, 2, 4):
        calls: list[int] = []

        def outcomes(parts: int = parts, calls: list[int] = calls) -> Any:
            calls.append(1)
            return iter(range(parts))

        kept = _once(outcomes)
        again = [list(kept()), list(kept())]
        found.append(same(again, [list(range(parts))] * 2, f"a mixture of {parts} parts, twice"))
        found.append(same(len(calls), 1 if parts == 1 else 3, "how often it is computed", scale))
    return found
