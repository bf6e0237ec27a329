"""Shrinkage of spectra: what dropout does to singular values, for equal rates, unequal rates and blocks."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from droptics.arguments import Count, Spectrum, check_arguments
from droptics.arrays import Array
from droptics.checks import as_float_tensor, check_broadcast
from droptics.compiling import njit
from droptics.transforms import as_array, is_transformed, opaque, wants_derivative


def shrink(values: Spectrum, strength: float | Tensor, width: Count) -> Tensor:
    """The dropout shrinkage of a spectrum: the minimizer over x with at most `width` entries (mianjy2018-thm3.6).

    It minimizes

        sum_i (values_i - x_i)^2 + (strength / width) (sum_i |x_i|)^2,  x >= 0.

    With s_1 >= s_2 >= ..., rho the largest j <= width with width s_j > strength sum_{i <= j} (s_i - s_j) and
    alpha = strength (s_1 + ... + s_rho) / (width + strength rho), the top rho values lose alpha and the others become
    zero; only the top rho <= width are kept, which the printed soft threshold forgets. Negative values (eigenvalues of
    the tied case) become zero. `strength` is lambda = drop / (1 - drop). Any order, leading dimensions are a batch,
    differentiable; O(d log d).

    >>> shrink(torch.tensor([2.0, 1.0], dtype=torch.float64), 0.1, width=1)
    tensor([1.8182, 0.0000], dtype=torch.float64)
    """
    check_arguments(shrink, locals())
    strength = _check_strength(strength, values)
    if not values.shape[-1]:
        return values
    ordered, order = values.sort(dim=-1, descending=True, stable=True)
    sums = ordered.cumsum(-1)
    counts = torch.arange(1, ordered.shape[-1] + 1, dtype=values.dtype, device=values.device)
    fits = (width * ordered > strength * (sums - counts * ordered)) & (ordered > 0) & (counts <= width)
    kept = fits.long().cumprod(-1)
    rank = kept.sum(-1, keepdim=True)
    total = torch.where(rank > 0, sums.gather(-1, (rank - 1).clamp_min(0)), 0.0)
    threshold = strength * total / (width + strength * rank)
    shrunk = (ordered - threshold).clamp_min(0) * kept
    return torch.zeros_like(shrunk).scatter(-1, order, shrunk)


@njit()
def threshold(ordered: Array, strength: float, width: int) -> tuple[int, float]:
    """Rank and threshold of `shrink` for values in descending order: the top `rank` of them lose the threshold."""
    total, rank = 0.0, 0
    while rank < min(width, ordered.shape[0]):
        value = ordered[rank]
        if not (value > 0.0 and width * value > strength * (total - rank * value)):
            break
        total += value
        rank += 1
    return rank, strength * total / (width + strength * rank)


def _check_strength(strength: float | Tensor, like: Tensor) -> Tensor:
    value = torch.as_tensor(strength, dtype=like.dtype, device=like.device)
    if not bool(((value >= 0) & torch.isfinite(value)).all()):
        raise ValueError(f"strength must be non-negative and finite, got {strength}")
    if value.ndim:
        check_broadcast("strength", value, like.shape[:-1], "one number, or one for each of the spectra in values")
    return value.unsqueeze(-1) if value.ndim else value


def allocate(values: Spectrum, strengths: Spectrum) -> Tensor:
    """Shares n of a spectrum for units of unequal strengths: argmin of sum_i strengths_i n_i^2 over n majorized by it.

    A factorization of a matrix with singular values s into rank-one terms of norms n exists iff, for every k, the k
    smallest n sum to at least the k smallest s (padded with zeros); so this is the least penalty of independent units
    with relative variances `strengths` (droptics-unequal-rates). Sorted by strength, the shares are constant / strength
    inside blocks that the pool-adjacent-violators rule finds. O(r log r); vectors; differentiable.
    """
    check_arguments(allocate, locals())
    return _pooled(values, strengths, shrinks=False)[1]


def shrink_unequal(values: Spectrum, strengths: Spectrum) -> tuple[Tensor, Tensor]:
    """Shrinkage for units of unequal strengths: the best spectrum x and shares n (droptics-unequal-rates).

    They minimize

        sum_i (values_i - x_i)^2 + sum_i strengths_i n_i^2   over n majorized by x, x >= 0 with at most r entries.

    A convex quadratic program on sorted vectors. Inside a block B of units, x_i = (values_i - mu_B)_+ and
    n_i = mu_B / strengths_i; the levels mu_B rise from block to block and are found by pooling, O(r log r) plus the
    merges. With equal strengths there is one block and mu is the threshold of `shrink`. A unit that is never dropped
    (strength 0) keeps a value unshrunk. Differentiable.

    Returns:
        The spectrum in the order of `values`, and one share per unit in the order of `strengths`.
    """
    check_arguments(shrink_unequal, locals())
    return _pooled(values, strengths, shrinks=True)


def _pooled(values: Tensor, strengths: Tensor, shrinks: bool) -> tuple[Tensor, Tensor]:
    """Spectrum and shares: numbers decide which units have one level, the levels are differentiable."""
    values = as_float_tensor(values, "values", 1)
    strengths = as_float_tensor(strengths, "strengths", 1)
    count, width = values.shape[0], strengths.shape[0]
    if is_transformed():
        both = opaque(lambda spectrum, rates: torch.cat(_pooled(spectrum, rates, shrinks)), values, strengths)
        return both[:count], both[count:]
    if bool((strengths < 0).any()):
        raise ValueError("strengths must be non-negative, they are relative variances")
    ordered, from_value = values.to("cpu", torch.float64).sort(descending=True, stable=True)
    rates, to_unit = strengths.to("cpu", torch.float64).sort(stable=True)
    spectrum = torch.nn.functional.pad(ordered[:width].clamp_min(0), (0, max(width - count, 0)))
    blocks, kept = (torch.from_numpy(part) for part in _pool(as_array(spectrum), as_array(rates), shrinks))
    free = rates <= np.finfo(float).tiny
    safe, none = torch.where(free, 1.0, rates), rates.new_zeros(width)
    # in units of the least rate of a block: squares of tiny rates, which slopes divide by, are zero
    unit = torch.full_like(none, torch.inf).scatter_reduce(0, blocks, safe.detach(), "amin")[blocks]
    inverse = unit / safe
    sums = none.index_add(0, blocks, spectrum * kept)
    rooms = none.index_add(0, blocks, inverse + kept * unit if shrinks else inverse)
    shares = torch.where(free, spectrum, sums[blocks] / rooms[blocks] * inverse)
    levels = torch.where(free, 0.0, sums[blocks] / rooms[blocks] * unit)
    shrunk = rates.new_zeros(count).scatter(0, from_value[:width], (spectrum - levels).clamp_min(0)[:count])
    return shrunk.to(values), none.scatter(0, to_unit, shares).to(values)


def _pool(spectrum: Array, rates: Array, shrinks: bool) -> tuple[Array, Array]:
    """Pool adjacent violators, as levels must not fall: the block of every unit, and which values make its level."""
    free = int((rates <= np.finfo(float).tiny).sum())  # units that are never dropped take the largest values
    found: list[tuple[int, tuple[float, int]]] = []
    for start in range(free, len(rates)):
        begin, current = start, _level(spectrum[start : start + 1], rates[start : start + 1], shrinks)
        while found and found[-1][1][0] >= current[0]:
            begin = found.pop()[0]
            current = _level(spectrum[begin : start + 1], rates[begin : start + 1], shrinks)
        found.append((begin, current))
    blocks, kept = np.zeros(len(rates), np.int64), np.zeros(len(rates))
    for begin, (_, count) in found:
        blocks[begin:] = begin
        kept[begin : begin + count] = 1.0
    return blocks, kept


def _level(spectrum: Array, rates: Array, shrinks: bool) -> tuple[float, int]:
    """Mu with sum of mu / rate = sum of values, or of (values - mu)_+, and how many values are in that sum."""
    room = (1.0 / rates).sum()
    if not shrinks:
        return float(spectrum.sum() / room), len(spectrum)
    candidates = np.cumsum(spectrum) / (np.arange(1, len(spectrum) + 1) + room)
    kept = int((spectrum > candidates).sum())  # the spectrum is sorted
    return (float(candidates[kept - 1]) if kept else 0.0), kept


def k_support_shrink(values: Spectrum, strength: float | Tensor, k: Count) -> Tensor:
    """The proximal map of the squared k-support norm (pal2020-thm2.7).

    argmin_x ||values - x||^2 + strength ||x||_(k)^2.

    x_i = m_i t_i / (t_i + strength) for t_i = clip(a m_i - strength, 0, 1), m = |values|, with the number a such that
    the t_i sum to k; t = 1 on the support when at most k values are non-zero. The left side is piecewise linear in a
    with breakpoints strength / m_i and (1 + strength) / m_i: two pointers over the sorted values find the piece in
    O(d) after the sort, where the printed search goes over all O(d^2) pairs. Signs are kept. Leading dimensions are a
    batch; differentiable in values and strength.

    >>> k_support_shrink(torch.tensor([3.0, 1.0], dtype=torch.float64), 1.0, k=2)
    tensor([1.5000, 0.5000], dtype=torch.float64)
    """
    # the compiled loop looks at every number, too: what it does not answer is checked, and refused or computed, below
    if type(values) is Tensor and type(strength) is float and type(k) is int and 0 <= strength < math.inf:
        fits = values.ndim == 1 and values.dtype in (torch.float32, torch.float64)
        plain = fits and values.is_cpu and values.layout == torch.strided
        if plain and 0 < k < 2**31 and not wants_derivative(values):
            shrunk = _k_support_direct(values.numpy(), strength, k)
            if shrunk is not None:
                return torch.from_numpy(shrunk)
    check_arguments(k_support_shrink, locals())
    if not values.numel():
        return values.clone()
    if is_transformed():
        rate = torch.as_tensor(strength, dtype=values.dtype, device=values.device)
        return opaque(lambda spectrum, rate: k_support_shrink(spectrum, rate, k), values, rate)
    beta = _check_strength(strength, values)
    magnitudes = values.abs()
    ordered = magnitudes.detach().to("cpu", torch.float64).sort(dim=-1, descending=True).values
    strengths = beta.detach().expand(*values.shape[:-1], 1).to("cpu", torch.float64).reshape(-1)
    rows = zip(ordered.reshape(-1, values.shape[-1]), strengths, strict=True)
    pieces = np.array([_k_support_piece(row.numpy(), float(b), k) for row, b in rows])
    shape = (*values.shape[:-1], 1)
    full, free = (torch.from_numpy(pieces[:, i].astype(np.int64)).reshape(shape).to(values.device) for i in (0, 1))
    rank = magnitudes.argsort(dim=-1, descending=True, stable=True).argsort(dim=-1)
    inside = (rank >= full) & (rank < full + free)
    total = torch.where(inside, magnitudes, 0.0).sum(-1, keepdim=True)
    slope = torch.where(total > 0, (k - full + beta * free) / torch.where(total > 0, total, 1.0), 0.0)
    t = torch.where(rank < full, torch.ones_like(magnitudes), torch.where(inside, slope * magnitudes - beta, 0.0))
    t = t.clamp(0, 1)
    return values * torch.where(t > 0, t / (t + beta).clamp_min(torch.finfo(values.dtype).tiny), 0.0)


@njit()
def _k_support_piece(values: Array, beta: float, k: int) -> tuple[int, int]:
    """How many of the values, sorted by magnitude, have t = 1, and how many have 0 < t < 1.

    With `full` and `free` of them the sums fix a = (k - full + beta free) / (sum of the free). A free value whose t
    reaches 1 becomes full; the next value with a m > beta becomes free. Both only move forward.
    """
    support, beyond = 0, values.shape[0]  # the first zero lies in between
    while support < beyond:
        middle = (support + beyond) // 2
        if values[middle] != 0.0:
            support = middle + 1
        else:
            beyond = middle
    if support <= k:
        return support, 0
    full, last, total = 0, 0, 0.0
    while True:
        # grow the free set while the next value would have positive t: a m_next > beta
        while last < support and (k - full + beta * (last - full)) * abs(values[last]) > beta * total:
            total += abs(values[last])
            last += 1
        # the largest free value has t >= 1: a m >= 1 + beta
        if full < k and full < last and (k - full + beta * (last - full)) * abs(values[full]) >= (1.0 + beta) * total:
            total -= abs(values[full])
            full += 1
            if full == last:
                total = 0.0
            continue
        return full, last - full


@njit()
def _k_support_sorted(values: Array, beta: float, k: int, out: Array) -> bool:
    """Write the shrunk values; False when these are not finite and sorted by magnitude, the largest first."""
    in_order = values.shape[0] == 0 or abs(values[0]) < np.inf
    for i in range(values.shape[0] - 1):
        in_order &= abs(values[i]) >= abs(values[i + 1])
    if not in_order:
        return False
    full, free = _k_support_piece(values, beta, k)
    total = 0.0
    for i in range(full, full + free):
        total += abs(values[i])
    # m t / (t + beta) with t + beta = a m is m - beta / a
    level = beta * total / (k - full + beta * free) if free > 0 and beta > 0.0 else 0.0
    for i in range(full):
        out[i] = values[i] / (1.0 + beta)
    for i in range(full, full + free):
        size = max(abs(values[i]) - level, 0.0)
        out[i] = size if values[i] >= 0.0 else -size
    out[full + free :] = 0.0
    return True


def _k_support_direct(values: Array, beta: float, k: int) -> Array | None:
    """The shrunk values, None for NaN and infinity; sorted ones, as spectra are, cost no copy."""
    out = np.empty_like(values)
    if not _k_support_sorted(values, beta, k, out):
        order = np.argsort(-np.abs(values), kind="stable")
        shrunk = np.empty_like(values)
        if not _k_support_sorted(values[order], beta, k, shrunk):
            return None
        out[order] = shrunk
    return out
