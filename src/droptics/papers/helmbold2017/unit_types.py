"""Global minima of the dropout criterion of one hidden layer by all unit types: two inputs on P_(1,1), or one input.

Under dropout with rate 1/2 two inputs take four values: a unit is relu(b + s_1 v_1 + s_2 v_2) at four corners s. Where
it is active and the sign of its output weight (scaled to one) make its type, 26 in all; for given types the criterion
is a convex quadratic of the units' weights in polyhedral cones, least squares with non-negative coefficients of their
edges. One input of any examples takes as many values as it has, and zero.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from scipy.optimize import nnls

from droptics.arrays import Array
from droptics.data import Sample
from droptics.models import ReLUNet

CORNERS = np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
# half of the weight asks for 0 at no input, an eighth each for 1 at the four outcomes of the other example
PLACES, TARGETS, WEIGHTS = [0, 0, 1, 2, 3], np.array([0.0, 1, 1, 1, 1]), np.sqrt([1 / 2, 1 / 8, 1 / 8, 1 / 8, 1 / 8])
NOISE = np.sqrt([5 / 8, 1 / 8, 1 / 8, 1 / 8])  # a kept unit is doubled: variance as large as its square
ALONG = WEIGHTS / np.linalg.norm(WEIGHTS)  # the free output bias
MIXED = (4, 8, 10, 10)  # the best types of four units: one for each input, two for either
Type = tuple[int, Array]


@cache
def types() -> tuple[Type, ...]:
    """Sign of the output weight and edges (rays, 3) of the cone of (b, v_1, v_2), for every type."""
    found = []
    for active in itertools.product((False, True), repeat=4):
        rays: list[Array] = []
        for i, j in itertools.combinations(range(4), 2):
            for sign in (1.0, -1.0):
                ray = sign * np.cross(CORNERS[i], CORNERS[j])
                fits = np.where(active, CORNERS @ ray >= 0, CORNERS @ ray <= 0).all()
                if fits and not any(np.array_equal(ray, other) for other in rays):
                    rays.append(ray)
        if any(active) and len(rays) >= 3:
            found += [(sign, np.array(rays)) for sign in (1, -1)]
    return tuple(found)


def least(chosen: Sequence[Type]) -> tuple[float, Array]:
    """The least criterion of networks with units of these types, and coefficients of their edges that reach it."""
    count, columns = len(chosen), []
    for j, (sign, rays) in enumerate(chosen):
        values = np.maximum(CORNERS @ rays.T, 0.0)
        fit = sign * WEIGHTS[:, None] * values[PLACES]
        noise = np.zeros((4 * count, len(rays)))
        noise[4 * j : 4 * j + 4] = NOISE[:, None] * values
        columns.append(np.vstack([fit - np.outer(ALONG, ALONG @ fit), noise]))
    wanted = WEIGHTS * TARGETS
    goal = np.concatenate([wanted - ALONG * (ALONG @ wanted), np.zeros(4 * count)])
    found, distance = nnls(np.hstack(columns), goal)
    return float(distance) ** 2, found


def network(chosen: Sequence[Type], coefficients: Array) -> ReLUNet:
    """The network of these types and coefficients, with its best output bias."""
    parts = np.split(coefficients, np.cumsum([len(rays) for _, rays in chosen])[:-1])
    units = np.array([rays.T @ part for (_, rays), part in zip(chosen, parts, strict=True)])
    signs = np.array([sign for sign, _ in chosen], dtype=float)
    outputs = np.maximum(CORNERS @ units.T, 0.0) @ signs
    bias = (WEIGHTS**2) @ (TARGETS - outputs[PLACES]) / (WEIGHTS**2).sum()
    # a kept input of one is doubled, so its weight is half of what a corner adds
    first, rest = torch.from_numpy(units[:, 1:] / 2), torch.from_numpy(units[:, 0])
    return ReLUNet([first, torch.from_numpy(signs)[None]], [rest, torch.tensor([bias])])


@cache
def global_minimum(width: int) -> tuple[float, ReLUNet]:
    """The least criterion of all networks of this width; C(25 + width, width) least-squares problems."""
    every = itertools.combinations_with_replacement(types(), width)
    (value, coefficients), chosen = min(((least(chosen), chosen) for chosen in every), key=lambda pair: pair[0][0])
    return value, network(chosen, coefficients)


def one_input_minima(data: Sample, width: int, drop: float) -> tuple[float, list[ReLUNet]]:
    """The least criterion of one input and `width` units on these examples, and a minimizer of every type that has it.

    The input takes the value 0 and those of the examples over 1 - drop; a unit relu(a + v z) is linear between them.
    """
    x, y = data.inputs[:, 0].numpy(), data.targets[:, 0].numpy()
    places, wanted = np.concatenate([0 * x, x / (1 - drop)]), np.concatenate([y, y])
    weights = np.sqrt(np.repeat([drop, 1 - drop], len(x)) / len(x))
    corners = np.stack([np.ones_like(places), places], 1)
    edges = [sign * np.array([z, -1.0]) for z in np.unique(places) for sign in (1, -1)]
    cones = set()
    for active in itertools.product((False, True), repeat=len(np.unique(places))):
        on = np.array(active)[np.unique(places, return_inverse=True)[1]]
        fits = [i for i, edge in enumerate(edges) if np.where(on, corners @ edge >= 0, corners @ edge <= 0).all()]
        if on.any() and len(fits) == 2:
            cones |= {(sign, *fits) for sign in (1, -1)}
    along, found = weights / np.linalg.norm(weights), []
    for chosen in itertools.combinations_with_replacement(sorted(cones), width):
        rays = np.stack([edges[i] for _, *pair in chosen for i in pair], 1)
        signs, fired = np.repeat([float(cone[0]) for cone in chosen], 2), np.maximum(corners @ rays, 0.0)
        fit = weights[:, None] * fired * signs
        noise = [np.sqrt(drop / (1 - drop)) * fit * (np.arange(2 * width) // 2 == j) for j in range(width)]
        goal = weights * wanted - along * (along @ (weights * wanted))
        matrix = np.vstack([fit - np.outer(along, along @ fit), *noise])
        coefficients, distance = nnls(matrix, np.concatenate([goal, np.zeros(width * len(places))]))
        units = (rays * coefficients).reshape(2, width, 2).sum(-1)
        bias = weights**2 @ (wanted - np.maximum(corners @ units, 0.0) @ signs[::2])
        first, rest = torch.from_numpy(units[1][:, None]), torch.from_numpy(units[0])
        head = torch.from_numpy(signs[None, ::2].copy())
        found.append((float(distance) ** 2, ReLUNet([first, head], [rest, torch.tensor([bias])])))
    best = min(value for value, _ in found)
    return best, [net for value, net in found if value <= best + 1e-12]
