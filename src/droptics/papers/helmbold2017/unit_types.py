"""Global minima of the dropout criterion on P_(1,1) for two inputs, drop 1/2 and one hidden layer, by all unit types.

Under dropout the inputs take four values: a unit is relu(b + s_1 v_1 + s_2 v_2) at four corners s. Where it is active
and the sign of its output weight (scaled to one) make its type, 26 in all; for given types the criterion is a convex
quadratic of the units' weights in polyhedral cones, least squares with non-negative coefficients of their edges.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

import numpy as np
import torch
from scipy.optimize import nnls

from droptics.arrays import Array
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
