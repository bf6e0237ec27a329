"""Instances the claims are checked on: random ones without symmetry, degenerate ones, and two small searchers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from droptics.data import Moments, Sample
from droptics.models import TwoLayerLinear


def normal(seed: int, *shape: int) -> Tensor:
    """Reproducible standard normal numbers in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def uniform(seed: int, *shape: int) -> Tensor:
    """Reproducible uniform numbers in [0, 1)."""
    return torch.rand(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def tensor(values: object) -> Tensor:
    """A float64 tensor of nested lists of numbers."""
    return torch.tensor(values, dtype=torch.float64)


def second_moment(seed: int, size: int, rank: int | None = None) -> Tensor:
    """E x x^T of correlated coordinates with different scales; singular when `rank` is smaller than `size`."""
    root = normal(seed, size, rank or size) * torch.linspace(0.5, 1.5, size, dtype=torch.float64)[:, None]
    moment = root @ root.mT / (rank or size)
    return (moment + moment.mT) / 2


def moments(seed: int, outputs: int, inputs: int, rank: int | None = None) -> Moments:
    """A population with correlated inputs and noisy labels."""
    xx = second_moment(seed, inputs, rank)
    matrix = normal(seed + 1, outputs, inputs)
    noise = torch.diag(torch.linspace(0.1, 0.4, outputs, dtype=torch.float64))
    yy = matrix @ xx @ matrix.mT + noise
    return Moments(xx, matrix @ xx, (yy + yy.mT) / 2, rank=rank)


def sample(seed: int, examples: int, inputs: int, outputs: int) -> Sample:
    """Examples whose coordinates are correlated, skewed and off center."""
    mix = normal(seed, inputs, inputs) * torch.linspace(0.5, 1.5, inputs, dtype=torch.float64)
    return Sample(normal(seed + 1, examples, inputs) @ mix + 0.3, normal(seed + 2, examples, outputs))


def two_layer(seed: int, outputs: int, inputs: int, width: int) -> TwoLayerLinear:
    """A two-layer network with random weights."""
    return TwoLayerLinear(normal(seed, outputs, width), normal(seed + 1, inputs, width))


def coin_masks(drops: Sequence[float]) -> Iterator[tuple[Tensor, float]]:
    """Every 0/1 mask of independent units with its probability, from the definition."""
    for kept in itertools.product((0.0, 1.0), repeat=len(drops)):
        chance = 1.0
        for bit, drop in zip(kept, drops, strict=True):
            chance *= (1 - drop) if bit else drop
        yield tensor(kept), chance


def sliding_masks(drop: float, size: int, block: int, clipped: bool = True) -> tuple[Tensor, Tensor]:
    """Every mask of sliding blocks with its probability: a coin for each block, and a unit stays under those that stay.

    Clipped blocks start from -(block - 1), valid ones within.
    """
    starts = range(-(block - 1), size) if clipped else range(size - block + 1)
    masks, chances = [], []
    for falls in itertools.product((False, True), repeat=len(starts)):
        gone = {
            place for start, fell in zip(starts, falls, strict=True) if fell for place in range(start, start + block)
        }
        masks.append([float(place not in gone) for place in range(size)])
        chances.append(drop ** sum(falls) * (1 - drop) ** (len(falls) - sum(falls)))
    return tensor(masks), tensor(chances)


def expected_error(maps: Iterator[tuple[Tensor, float]], data: Moments) -> float:
    """E over random maps W of E ||y - W x||^2, from the second moments of the data."""
    total = 0.0
    for matrix, chance in maps:
        spread = torch.trace(data.yy) - 2 * (matrix * data.yx).sum() + ((matrix @ data.xx) * matrix).sum()
        total += chance * float(spread)
    return total


def simplex(seed: int, count: int) -> Tensor:
    """Positive weights that sum to one, all different."""
    weights = uniform(seed, count) + 0.2
    return weights / weights.sum()


def descend(
    objective: Callable[..., Tensor],
    shapes: Sequence[tuple[int, ...]],
    starts: int = 5,
    seed: int = 0,
    size: float = 1.0,
) -> tuple[float, list[Tensor]]:
    """The least value that L-BFGS finds from several random starts, with its arguments."""
    sizes = [int(np.prod(shape)) for shape in shapes]

    def split(vector: Tensor) -> list[Tensor]:
        return [part.reshape(shape) for part, shape in zip(vector.split(sizes), shapes, strict=True)]

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        vector = torch.from_numpy(flat).requires_grad_(True)
        value = objective(*split(vector))
        (gradient,) = torch.autograd.grad(value, vector)
        return float(value.detach()), gradient.numpy()

    best: tuple[float, list[Tensor]] | None = None
    for start in range(starts):
        first = size * normal(seed + start, sum(sizes)).numpy()
        # as many corrections as most objectives have variables: their minima are degenerate, where ten crawl
        options = {"maxiter": 500, "maxcor": 30, "ftol": 1e-13, "gtol": 1e-9}
        found = minimize(value_and_gradient, first, jac=True, method="L-BFGS-B", options=options)
        if best is None or found.fun < best[0]:
            best = float(found.fun), split(torch.from_numpy(found.x))
    assert best is not None
    return best


Factors = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def factorizations(matrix: Tensor, width: int) -> tuple[Factors, list[Any]]:
    """All (U, V) of a width with U V^T = matrix whose columns lie in its ranges, as a function of free (A, C).

    With matrix = P S R^T of rank k: U = P A for any A (k, width) of full rank, V^T = (A^+ S + (I - A^+ A) C) R^T. Parts
    of U and V outside the ranges of P and R change no product and only add to their norms.
    """
    P, s, Rh = torch.linalg.svd(matrix, full_matrices=False)
    k = int((s > 1e-6 * s[0]).sum())
    eye = torch.eye(width, dtype=torch.float64)

    def factors(A: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
        inverse = torch.linalg.solve(A @ A.mT, A).mT
        return P[:, :k] @ A, ((inverse * s[:k] + (eye - inverse @ A) @ C) @ Rh[:k]).mT

    return factors, [(k, width), (width, k)]


def subsets(items: Sequence[int], size: int) -> Iterator[tuple[int, ...]]:
    """All subsets of a size, in order."""
    return itertools.combinations(items, size)
