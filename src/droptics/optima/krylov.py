"""Large problems: only the leading part of the spectrum is needed, and a bound says when enough of it is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from droptics.arguments import Count, NonNegative, Seed, check_arguments
from droptics.arrays import Array
from droptics.checks import as_float_tensor
from droptics.errors import CertificateError
from droptics.linalg.krylov import Krylov, Operator, Ritz, upper_values
from droptics.linalg.sums import squares
from droptics.masks import MaskLaw
from droptics.models import TwoLayerLinear
from droptics.optima.optimum import ROUNDING, Optimum, check_certified, rounding
from droptics.optima.two_layer import best_factors, value_of_factors
from droptics.spectra import Action, OneRate, action
from droptics.spectra.decomposition import kept_values, least_value
from droptics.spectra.kinds import short_factors
from droptics.spectra.roots import EPS, numbers

if TYPE_CHECKING:
    from droptics.spectra.leading_factors import Leading

FIRST_CHECK = 4
# Dense maps up to this size are decomposed: faster than any Krylov space.
DENSE = 400


def optimum_of_map(
    matrix: Any,
    masks: MaskLaw,
    tolerance: NonNegative = 1e-12,
    block: Count = 16,
    seed: Seed = 0,
    energy: NonNegative | None = None,
) -> Optimum:
    """The optimal two-layer network for y = M x on isotropic inputs, M large: dense, sparse or a linear operator.

    A block Krylov basis grows until a proved bound says that the objective is within `tolerance` (relative to
    ||M||_F^2) of the least one. The bound holds with probability 1 - 1e-10 over `seed`: values inside the basis err
    quadratically in their residuals, and the rest of the spectrum is bounded by a Chebyshev test on fresh random
    vectors. Dense maps with a side of at most 400 are decomposed directly. Cost: two products with `block` columns per
    step, and O((rows + columns) size^2) for a basis of that size. Claim: mianjy2018-thm3.6.

    Args:
        matrix: Tensor (dense or sparse, any device), NumPy array, SciPy sparse matrix or LinearOperator.
        masks: A law with independent units; its size is the width.
        tolerance: Gap at which to stop, relative to ||M||_F^2; the gap reached is in the answer.
        block: Columns per step.
        seed: Of the random start.
        energy: ||M||_F^2 when it is known; a linear operator is otherwise applied to every unit vector once.
    """
    check_arguments(optimum_of_map, locals())
    if type(matrix) is np.ndarray and matrix.ndim == 2 and matrix.dtype == float and min(matrix.shape) <= DENSE:
        return dense_optimum(matrix, masks)
    acting = _cut(masks)
    if isinstance(matrix, np.ndarray):
        matrix = torch.from_numpy(np.ascontiguousarray(matrix))
    if isinstance(matrix, torch.Tensor) and (matrix.ndim != 2 or matrix.device.type == "meta"):
        raise ValueError(f"matrix must be a matrix of numbers, got shape {tuple(matrix.shape)} on {matrix.device}")
    if isinstance(matrix, torch.Tensor) and matrix.layout == torch.strided and min(matrix.shape) <= DENSE:
        return dense_optimum(matrix, masks)
    operator = Operator.of(matrix, energy)
    tall = operator.shape[0] > operator.shape[1]
    if tall:  # only on the shorter side does a complete basis hold the range of every map; the criterion is symmetric
        back, times, rough = operator.times, operator.transposed, operator.rough[::-1]
        operator = replace(operator, shape=operator.shape[::-1], times=times, transposed=back, rough=rough)
    run = Krylov(operator, block, seed)
    aim = tolerance * operator.energy
    check, best = FIRST_CHECK, -np.inf
    while True:
        run.grow()
        done = run.size >= run.limit
        if not done and run.size < check * run.block:
            continue
        ritz = run.ritz()
        kept, found = _least(acting, ritz.values, operator.energy)
        if done or _estimated(ritz, acting, found, operator.energy) <= aim:
            best = max(best, _bound(run, ritz, acting, operator.energy))
            if done or found - best <= aim:
                break
        check = max(check + 1, int(1.2 * check))
    answer = _answer(operator, ritz, kept, masks, best, run.steps, tolerance)
    U, V = answer.model.tensors
    return replace(answer, model=TwoLayerLinear(V, U)) if tall else answer


def _cut(masks: MaskLaw) -> Action:
    """The action of a law; one without a cutoff is refused before any product."""
    acting = action(masks)
    _ = acting.cutoff
    return acting


def dense_optimum(matrix: Any, masks: MaskLaw, name: str = "matrix") -> Optimum:
    """In NumPy on the CPU, whose small calls are cheaper; torch comes in with the weights of the answer."""
    if 0 in matrix.shape:
        raise ValueError(f"{name} must have rows and columns, got shape {tuple(matrix.shape)}")
    dtype, exact = torch.float64, matrix
    if isinstance(matrix, torch.Tensor):
        dtype, exact = matrix.dtype, numbers(matrix if matrix.dtype == torch.float64 else matrix.double())
    if dtype == torch.float64 and (found := short_factors(exact, masks)) is not None:
        return short_optimum(found, torch.from_numpy(found.U), torch.from_numpy(found.H))
    acting, energy = _cut(masks), math.nan
    if dtype.is_floating_point and dtype.itemsize > 1:
        energy = squares(exact)
    if not math.isfinite(energy):
        as_float_tensor(matrix, name, 2)
        raise ValueError(f"{name} must have a finite squared norm, got {energy}; scale it down")
    U, V, rank, least, method = best_factors(exact, acting, masks)
    weights = torch.as_tensor(U), torch.as_tensor(V)
    if dtype == torch.float64:  # no larger than the root of the energy
        model = TwoLayerLinear.computed(*weights)
    else:
        model = TwoLayerLinear(*(part.to(dtype) for part in weights))
        U, V = model.U.double(), model.V.double()
    objective = value_of_factors(U, V, exact, None, energy, masks)
    bound = least - 4 * sum(matrix.shape) * EPS * energy
    return check_certified(Optimum(model, objective, bound, rank, acting.claim, energy, rounding(dtype), method))


def short_optimum(found: Leading, U: torch.Tensor, V: torch.Tensor) -> Optimum:
    """The optimum of a map from what `short_factors` says of it, and its factors as tensors."""
    bound = found.least - 4 * (len(found.U) + len(found.H)) * EPS * found.energy  # a tensor's length takes longer
    model = TwoLayerLinear.computed(U, V)  # no larger than the root of the energy
    return check_certified(Optimum(model, found.value, bound, found.rank, OneRate.claim, found.energy, ROUNDING))


def _least(acting: Action, values: Array, energy: float) -> tuple[torch.Tensor, float]:
    """What is kept of a spectrum, and the least of ||T - A||^2 + penalty."""
    kept, penalty = kept_values(acting, values)
    return torch.from_numpy(kept), least_value(energy, values, kept, penalty)


def _estimated(ritz: Ritz, acting: Action, found: float, energy: float) -> float:
    """The gap that a bound would give if the rest of the spectrum began at the next value of the basis."""
    kept, _ = _least(acting, ritz.values, energy)
    count = ritz.found()
    if len(kept) > count or count >= len(ritz.values):
        return math.inf
    # the test that follows leaves a margin of some per cent
    rest = 1.05 * float(ritz.values[count])
    level = acting.cutoff(torch.from_numpy(ritz.values), kept)
    if rest >= level:
        return math.inf
    return found - _least(acting, upper_values(ritz, count, rest, level, acting.size), energy)[1]


def _bound(run: Krylov, ritz: Ritz, acting: Action, energy: float) -> float:
    """A lower bound on the criterion of every network of this width."""
    kept, least = _least(acting, ritz.values, energy)
    if ritz.complete:
        return least
    width = acting.size
    sharp = acting.cutoff(torch.from_numpy(ritz.values), kept)
    count = ritz.found()
    rest = run.rest_bound(ritz, count, 0.98 * sharp)
    levels = [rest * (1 + step) for step in (1e-3, 1e-2, 1e-1)] + [sharp] * (sharp > rest)
    return max(_least(acting, upper_values(ritz, count, rest, level, width), energy)[1] for level in levels)


def _answer(  # parameters: what the search found, once
    operator: Operator, ritz: Ritz, kept: torch.Tensor, masks: MaskLaw, bound: float, steps: int, tolerance: float
) -> Optimum:
    acting = action(masks)
    left, right = ritz.triples(len(kept))
    U, V = acting.spread(left, kept.to(ritz.basis), right)
    products = (U.mT @ U) * (V.mT @ V)
    # <M, U V^T> = <M^T U, V>, and M^T Q was computed: no formula for the optimal value enters
    inner = float(((ritz.images @ (ritz.basis.mT @ U)) * V).sum())
    objective = operator.energy - 2 * inner + float(products.sum() + masks.weigh(products).detach())
    method = f"block Krylov, {steps} steps; the bound holds with probability 1 - 1e-10 over the seed"
    # products are rounded in the precision of the operator
    own = 4 * ritz.basis.shape[1] * torch.finfo(operator.dtype).eps
    bound, allowed = bound - own * operator.energy, max(tolerance, rounding(operator.dtype), 2 * own)
    found = Optimum(TwoLayerLinear(U, V), objective, bound, len(kept), acting.claim, operator.energy, allowed, method)
    if found.gap < -allowed * operator.energy:
        raise CertificateError(f"objective {objective:.12g} lies below its bound {bound:.12g}: the products are not M")
    return found
