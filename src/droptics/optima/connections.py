"""DropConnect: a convex program whose every iterate carries its own lower bound.

With D = diag(E x_i^2)^(1/2), masks on the first weights penalize  lambda sum_k |u_k|^2 |D v_k|^2  (pal2020-thm4.1,
corrected), so that the least penalty of a map B at width r is (lambda / r) ||B D||_*^2 and, with Z = B D,
R = D^-1 E[x x^T] D^-1 and T = E[y x^T] D^-1, the optimum solves

    min_Z  tr E[y y^T] - 2 <T, Z> + tr(Z R Z^T) + beta ||Z||_*^2,   beta = lambda / r.

Since beta ||Z||_*^2 >= <Q, Z> - sigma_1(Q)^2 / (4 beta) for every Q, taking Q = 2 (T - Z R) shows that
tr E[y y^T] - tr(Z R Z^T) - sigma_1(Q)^2 / (4 beta) is a lower bound whatever Z, tight at the minimum
(droptics-connections). A network of width r computes maps of rank at most r, so the least risk of these is a second
bound, the larger one where little is dropped and the width is below the rank of the solution.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from droptics.data import Data, Moments
from droptics.errors import NoClosedForm
from droptics.linalg import equalize_columns, shrink
from droptics.masks import MaskLaw
from droptics.models import Connections
from droptics.optima.objectives import objective
from droptics.optima.optimum import Optimum, certify_bound, optimum_rule, rounding
from droptics.spectra import action
from droptics.spectra.coordinates import whiten
from droptics.spectra.roots import EPS

CLAIM = "droptics-connections"
STEPS = 5_000
# Steps between two bounds: one costs as much as a step, and the last is the one that counts.
EVERY = 16


def _scaled(data: Data) -> tuple[Moments, Tensor, Tensor, Tensor]:
    """Moments in float64, T, R and D^-1 (zero for inputs without energy)."""
    moments = Moments.of(data.to(torch.float64))
    energy = moments.xx.diagonal()
    inverse = torch.where(energy > 0, torch.where(energy > 0, energy, 1.0).rsqrt(), 0.0)
    return moments, moments.yx * inverse, inverse[:, None] * moments.xx * inverse, inverse


def connections_solution(target: Tensor, correlation: Tensor, strength: float, limit: int) -> tuple[Tensor, float]:
    """Z of rank at most `limit` by accelerated proximal gradient with restarts, and the best lower bound met.

    The bound is on -2 <T, Z> + tr(Z R Z^T) + beta ||Z||_*^2 over all Z of any rank, beta > 0, lowered by what rounding
    may have added to it.
    """
    point = solution = torch.zeros_like(target)
    steepest = float(torch.linalg.eigvalsh(correlation)[-1])
    if not steepest > 0:
        return solution, 0.0
    step, level, largest = 1 / steepest, 4 * sum(target.shape) * EPS, float(target.norm())
    size = float(target.square().sum()) * step

    def bound(solution: Tensor) -> float:
        image = solution @ correlation
        spread = float((solution * image).sum())
        # the entries of T and Z R are rounded, those of T before they came here
        top = float(torch.linalg.matrix_norm(target - image, 2))
        top += level * (largest + steepest * float(solution.norm()))
        return -spread * (1 + level) - top**2 / strength

    best, momentum = bound(solution), 1.0
    for count in range(1, STEPS + 1):
        if count % EVERY == 0:
            best = max(best, bound(solution))
        left, values, right = torch.linalg.svd(point + step * (target - point @ correlation), full_matrices=False)
        fresh = (left * shrink(values, step * strength * limit, limit)) @ right
        change = fresh - solution
        if float(((point - fresh) * change).sum()) > 0:  # the momentum points uphill: restart
            momentum = 1.0
            point = solution = fresh
            continue
        following = (1 + math.sqrt(1 + 4 * momentum**2)) / 2
        point = fresh + (momentum - 1) / following * change
        solution, momentum = fresh, following
        if float(change.square().sum()) <= 1e-30 * size * step:
            break
    return solution, max(best, bound(solution))


def convex_bound(moments: Moments, below: float, strength: float) -> float:
    """The lower bound of the program for moments known up to their rounding.

    The solution has beta ||Z||_*^2 <= tr E[y y^T], since Z = 0 has that value, and with entries of the moments off by
    `rounding` its value changes by at most rounding (|y| + sqrt(d) |Z|)^2.
    """
    total = float(torch.trace(moments.yy))
    reach = total**0.5 * (1 + (len(moments.xx) / strength) ** 0.5)
    return total + below - moments.rounding * reach**2


def _without_masks(data: Data, width: int) -> tuple[float, Tensor, float]:
    """The least risk of maps of rank at most `width`, a bound for every law; the map, and what rounding took off it."""
    white = whiten(data)
    left, values, right = torch.linalg.svd(white.target, full_matrices=False)
    solution = (left[:, :width] * values[:width]) @ white.right.up(right[:width].mT).mT
    return white.floor(float(values[width:].square().sum())), solution, white.slack


@optimum_rule.register(Connections)
def connections_optimum(family: type[Connections], data: Data, masks: MaskLaw) -> Optimum:
    """The best two-layer network under DropConnect with one rate; masks cover the inputs x width weights.

    Certified when the rank of the convex solution does not exceed the width; otherwise the best network found, whose
    gap says how far it may be from optimal. Cost: one small SVD per step of the proximal gradient.
    """
    moments, target, correlation, inverse = _scaled(data)
    inputs = len(inverse)
    if masks.size % inputs:
        raise NoClosedForm(
            f"the optimum of Connections needs one coin per weight, got {type(masks).__name__} of size {masks.size} "
            f"for {inputs} inputs; use Bernoulli(drop, {inputs} * width)"
        )
    width, strength = masks.size // inputs, action(masks).one_rate
    total = float(torch.trace(moments.yy))
    bound, solution, slack = _without_masks(data, width)
    if strength > 0:
        solution, below = connections_solution(target, correlation, strength / width, min(target.shape))
        if int(torch.linalg.matrix_rank(solution)) > width:
            solution, _ = connections_solution(target, correlation, strength / width, width)
        bound, slack = max(bound, convex_bound(moments, below, strength / width)), 0.0
    else:
        solution = solution * torch.where(inverse > 0, 1 / torch.where(inverse > 0, inverse, 1.0), 0.0)
    left, values, right = torch.linalg.svd(solution, full_matrices=False)
    rank = min(width, int((values > 1e-10 * values[:1]).sum()))
    roots = values[:rank].sqrt()
    factors = left[:, :rank] * roots, inverse[:, None] * right[:rank].mT * roots
    U, V = equalize_columns(*(torch.nn.functional.pad(factor, (0, width - rank)) for factor in factors))
    model = family(U.to(data.dtype), V.to(data.dtype))
    value, level = objective(model, data, masks), rounding(data.dtype, data)
    return Optimum(model, value, bound, rank, CLAIM, total, level, "proximal gradient", slack)


@certify_bound.register
def _(model: Connections, data: Data, masks: MaskLaw) -> tuple[float, str]:
    """The convex bound; unequal rates count like the smallest, correlated laws like none."""
    bound, *_ = _without_masks(data, model.width)
    least = action(masks).least_rate
    if least > 0:
        moments, target, correlation, _ = _scaled(data)
        beta = least / model.width
        _, below = connections_solution(target, correlation, beta, min(target.shape))
        bound = max(bound, convex_bound(moments, below, beta))
    return bound, CLAIM
