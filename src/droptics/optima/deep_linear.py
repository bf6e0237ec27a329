"""The exact optimum of deep linear networks under dropout, and the bound that no network of given widths can beat.

With Mbar = E[y x^T] E[x x^T]^(-1/2), s its singular values and a_i = lambda_i / width_i, the least criterion is

    f* = tr E[y y^T] - max_x sum_j s_j^2 prod_i x_i(j) / (x_i(j) + a_i),   x_1, ..., x_k in the simplex, j <= min width,

and the optimal map has singular values s_j / prod_i (1 + a_i / x_i(j)) (droptics-deep-optimum). For k >= 2 the
maximum is not concave: directions live or die as a whole and the rank jumps as a rate grows. The upper bound on the
maximum that `Optimum.bound` uses is proved in `allocations.gain_bound`, the formula itself in
`droptics.envelopes.deep_linear`. The nuclear-norm bound of thesis-lem9 is taken where it is larger.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from droptics.arguments import check_arguments
from droptics.data import Data, Moments, Sample
from droptics.envelopes.deep_linear import exact_strengths, least_penalty_network, split_laws
from droptics.masks import MaskLaw, Product
from droptics.models import DeepLinear
from droptics.optima.allocations import Allocation, best_allocation, water_fill
from droptics.optima.objectives import objective
from droptics.optima.optimum import Optimum, certify_bound, optimum_rule, rounding
from droptics.spectra import action
from droptics.spectra.coordinates import White, whiten
from droptics.transforms import as_array

CLAIM = "droptics-deep-optimum"


def _spectrum(white: White, width: int) -> tuple[Tensor, Tensor, Tensor]:
    """The leading singular triples of the white least-squares map that are above rounding, at most `width`."""
    left, values, right = torch.linalg.svd(white.target, full_matrices=False)
    level = 4 * max(white.target.shape) * torch.finfo(values.dtype).eps * (float(values[0]) if len(values) else 0.0)
    rank = min(width, int((values > level).sum()))
    return left[:, :rank], values[:rank], right[:rank]


def deep_optimum(data: Data, masks: MaskLaw) -> Optimum:
    """The best deep linear network under dropout with one rate per hidden layer (droptics-deep-optimum).

    `masks` is the Product of one law per hidden layer (a single law means one hidden layer); inputs may be correlated
    or singular, targets noisy. Cost: one eigendecomposition, one SVD and O(min width^2) per sweep of the allocation.
    For inputs of full rank the network attains f*; its minimizers are unique only as maps, up to ties.

    >>> from droptics.masks import Bernoulli
    >>> masks = Product([Bernoulli(0.5, 2), Bernoulli(0.5, 2)])
    >>> best = deep_optimum(Moments.of_map(torch.eye(2, dtype=torch.float64)), masks)
    >>> best.rank, round(best.objective, 6)
    (2, 1.5)
    """
    check_arguments(deep_optimum, locals())
    if not isinstance(data, (Sample, Moments)):
        raise ValueError(f"data for DeepLinear must be Sample or Moments, got {type(data).__name__}")
    laws = masks.laws if isinstance(masks, Product) else (masks,)
    strengths = exact_strengths(laws).detach().double()
    white = whiten(data)
    left, values, right = _spectrum(white, min(law.size for law in laws))
    found = best_allocation(as_array(values), as_array(strengths))
    kept = torch.from_numpy((found.shares > 0).all(0)).to(values.device)
    shares = torch.from_numpy(found.shares).to(values)[:, kept]
    shrunk = values[kept] / (1 + strengths.to(values)[:, None] / shares).prod(0)
    first, *others = least_penalty_network(left[:, kept], shrunk, right[kept], shares, laws)
    model = DeepLinear([weight.to(data.dtype) for weight in (white.right.up(first.mT).mT, *others)])
    bound = white.energy - gain_ceiling(values, strengths, found) - white.slack
    method = "closed form" if len(laws) == 1 else "comparison of supports"
    value = objective(model, data, masks)
    allowed = rounding(data.dtype, data)
    return Optimum(model, value, bound, int(kept.sum()), CLAIM, white.energy, allowed, method, white.slack)


@optimum_rule.register(DeepLinear)
def _(family: type[DeepLinear], data: Data, masks: MaskLaw) -> Optimum:
    return deep_optimum(data, masks)


def gain_ceiling(values: Tensor, strengths: Tensor, found: Allocation) -> float:
    """The least proved upper bound on how far dropout training can get below tr E[y y^T]."""
    array = as_array(values)
    strength = float(np.expm1(np.log1p(as_array(strengths)).sum()))
    if not len(array) or not strength > 0:
        return found.bound
    x = water_fill(array[None], strength)[0]
    return min(found.bound, float((array**2 * x / (x + strength)).sum()))


@certify_bound.register
def _(model: DeepLinear, data: Data, masks: MaskLaw) -> tuple[float, str]:
    """The same bound for any independent laws per layer, through a_i = 1 / sum_u (1 / lambda_u).

    Blocks count like independent units of the same rate, other correlated laws like no masks at all: both only lower
    the bound. Masks on the inputs replace E x x^T by E x x^T o (1 + Cbar).
    """
    laws, inputs = split_laws(model, masks)
    if inputs is not None:
        moments = Moments.of(data.to(torch.float64))
        second = moments.xx + inputs.hadamard(moments.xx)
        data = Moments((second + second.mT) / 2, moments.yx, moments.yy, rounding=moments.rounding)
    white = whiten(data)
    _, values, _ = _spectrum(white, min(model.hidden_sizes))
    strengths = torch.stack([action(law).nuclear.to(values) for law in laws]).detach()
    ceiling = gain_ceiling(values, strengths, best_allocation(as_array(values), as_array(strengths)))
    return white.energy - ceiling - white.slack, CLAIM
