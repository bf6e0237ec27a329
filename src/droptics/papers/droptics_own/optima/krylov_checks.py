"""Krylov spaces, graded eigenvalues, white coordinates and shares of layers, number by number beside dense algebra."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy.sparse
import torch
from scipy.sparse.linalg import aslinearoperator
from scipy.stats import chi2
from torch import Tensor

from droptics.arrays import Array
from droptics.evidence.claims import Comparison, compare
from droptics.linalg.jacobi import graded_eigen
from droptics.linalg.krylov import Krylov, Operator, Ritz, upper_values
from droptics.masks import Bernoulli
from droptics.optima import optimum_of_map
from droptics.optima.allocations import best_allocation, gain_bound
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.instances import normal, tensor, uniform

EPS = torch.finfo(torch.float64).eps


def krylov_in_full(scale: float) -> list[Comparison]:
    """Operators of every kind, bases, residuals, bounds on the rest, and optima that rest on them."""
    return by_parts((_operators, _spaces, _maps, _graded, _allocated), scale)


def decaying(seed: int, rows: int, columns: int, ratio: float) -> Tensor:
    """A matrix whose singular values are powers of a ratio."""
    left, right = (torch.linalg.qr(normal(seed + k, size, size)).Q for k, size in enumerate((rows, columns)))
    short = min(rows, columns)
    return (left[:, :short] * ratio ** torch.arange(short).double()) @ right[:, :short].mT


def _halved(dense: Tensor) -> scipy.sparse.csr_array:
    """Every entry twice, a quarter and three of it, as a matrix that was put together may hold them."""
    plain = scipy.sparse.csr_array(dense.numpy())
    values = np.column_stack([plain.data / 4, 3 * plain.data / 4]).ravel()
    return scipy.sparse.csr_array((values, plain.indices.repeat(2), 2 * plain.indptr), shape=plain.shape)


def _operators(scale: float) -> list[Comparison]:
    """Products with every kind of matrix, and its energy, given or not."""
    found: list[Comparison] = []
    dense = normal(1, 7, 300) * (uniform(2, 7, 300) < 0.4)
    single = dense.float()
    kinds = {
        "tensor": (dense, 1e-9),
        "array": (dense.numpy(), 1e-9),
        "single": (single, 1e-5),
        "coordinates": (dense.to_sparse_coo(), 1e-9),
        "scipy rows": (scipy.sparse.csr_array(dense.numpy()), 1e-9),
        "scipy rows, entries in two parts": (_halved(dense), 1e-9),
        "scipy columns": (scipy.sparse.csc_array(dense.numpy()), 1e-9),
        "scipy single": (scipy.sparse.csr_array(single.numpy()), 1e-5),
        "operator": (aslinearoperator(dense.numpy()), 1e-9),
        "operator, single": (aslinearoperator(single.numpy()), 1e-5),
    }
    for name, (matrix, precision) in kinds.items():
        told = Operator.of(matrix)
        tall, wide = (normal(k, n, 3).to(told.dtype) for k, n in ((3, 300), (4, 7)))
        energy = dense.square().sum()
        found.append(compare(told.energy, "==", scale * energy, f"energy, {name}", precision))
        found.append(compare(Operator.of(matrix, 5.0).energy, "==", 5.0 * scale, f"given energy, {name}"))
        found.append(compare(told.times(tall), "==", scale * dense @ tall.double(), f"product, {name}", precision))
        found.append(
            compare(told.transposed(wide), "==", scale * dense.mT @ wide.double(), f"transposed, {name}", precision)
        )
        found.append(compare(told.rough[0](tall), "==", scale * dense @ tall.double(), f"roughly, {name}", 1e-5))
        found.append(compare(told.rough[1](wide), "==", scale * dense.mT @ wide.double(), f"and back, {name}", 1e-5))
        found.append(compare(told.shape, "==", [7.0 * scale, 300.0 * scale], f"shape, {name}"))
        found.append(compare(float(told.dtype == torch.float32), "==", float("single" in name), f"precision, {name}"))
    return found


def _spaces(scale: float) -> list[Comparison]:
    """Ritz values, vectors and residuals of a growing basis; the rest of the spectrum by Chebyshev polynomials."""
    found: list[Comparison] = []
    for rows, columns, block, grown, ratio in ((40, 60, 3, 9, 0.8), (31, 24, 5, 3, 0.6), (6, 9, 4, 2, 0.7)):
        M = decaying(rows, rows, columns, ratio)
        run = Krylov(Operator.of(M), block, seed=7)
        for _ in range(grown):
            run.grow()
        ritz = run.ritz()
        Q, name = ritz.basis, f"{rows} by {columns}"
        size = min(block * grown, rows, columns)
        whole = size == min(rows, columns)
        found.append(compare([run.size, run.steps], "==", [scale * size, scale * grown], f"size, {name}"))
        found.append(compare(Q.mT @ Q, "==", torch.eye(size), f"orthonormal, {name}"))
        found.append(compare(ritz.images, "==", scale * M.mT @ Q, f"images, {name}"))
        found.append(compare(ritz.values, "==", scale * torch.linalg.svdvals(M.mT @ Q), f"values, {name}", 1e-7))
        start = M @ torch.randn(columns, block, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
        for power in range(min(grown, 3)):  # the space is that of the definition
            spanned = torch.linalg.matrix_power(M @ M.mT, power) @ start
            off = spanned - Q @ (Q.mT @ spanned)
            found.append(compare(off / spanned.norm(), "==", 0.0, f"power {power}, {name}", 1e-9))
        left, right = ritz.triples(2)
        found.append(compare(M.mT @ left, "==", scale * right * torch.from_numpy(ritz.values[:2]), f"triples, {name}"))
        found.append(compare(right.mT @ right, "==", torch.eye(2), f"right vectors, {name}"))
        V = (M.mT @ Q @ ritz.vectors) / torch.from_numpy(ritz.values.copy())
        N = M - Q @ (Q.mT @ M)
        residual = 0 * V.mT @ V if whole else (N @ V).mT @ (N @ V)
        first = slice(0, size // 2)
        found.append(
            compare(ritz.residual[first, first], "==", scale * residual[first, first], f"residual, {name}", 1e-9)
        )
        found.append(compare(float(ritz.complete), "==", float(whole), f"complete, {name}"))
        open_ones = [i for i in range(size) if math.sqrt(max(ritz.residual[i, i], 0)) > 0.03 * ritz.values[i]]
        found.append(compare(ritz.found(), "==", scale * (open_ones[0] if open_ones else size), f"found, {name}"))
        found += _rest(scale, M, run, ritz, name)
    return [*found, *_nothing_left(scale)]


def _nothing_left(scale: float) -> list[Comparison]:
    """A map of few entries in a basis that is not whole: what is found is all, and little is left beside it."""
    found: list[Comparison] = []
    for shape in ((9, 7), (6, 11)):
        M = torch.zeros(shape, dtype=torch.float64)
        M[1, 2], M[0, 4] = 3.0, -2.0
        for factor in (1.0, 1e-120, 0.0):
            run = Krylov(Operator.of(factor * M), block=4)
            run.grow()
            ritz, unit = run.ritz(), factor or 1.0
            known = scale * factor / unit * tensor([3.0, 2.0])
            found.append(compare(ritz.values[:2] / unit, "==", known, f"all there is, {shape}, {factor}"))
            told = [run.rest_bound(ritz, 2) / unit, run.rest_bound(ritz, 1) / unit]
            # the energy is known up to its rounding, and the rest is taken to be no smaller
            found.append(compare(told[0], "<=", 1e-6, f"nothing beside it, {shape}, {factor}", 0.0))
            found.append(compare(told[1], ">=", 2 * factor / unit, f"the second one, {shape}, {factor}"))
    return found


def _rest(scale: float, M: Tensor, run: Krylov, ritz: Ritz, name: str) -> list[Comparison]:
    count = min(ritz.found(), 2)
    U = ritz.basis @ ritz.vectors[:, :count]
    rest = torch.linalg.matrix_norm(M - U @ (U.mT @ M), 2)
    if ritz.complete:
        last = [run.rest_bound(ritz, count), run.rest_bound(ritz, len(ritz.values))]
        return [compare(last, "==", [scale * float(rest), 0.0], f"rest of a whole basis, {name}")]
    state = run.generator.get_state()
    told = run.rest_bound(ritz, count)
    found = [
        compare(told, ">=", rest, f"rest, {name}"),
        compare(told, "<=", 1.3 * rest / scale, f"close to it, {name}", precision=0.0),
    ]
    # the same polynomials of the same vectors, by the spectrum of the deflated matrix
    drawn = torch.randn(len(M), 16, generator=torch.Generator().manual_seed(0).set_state(state), dtype=torch.float64)
    P = torch.eye(len(M)).double() - U @ U.mT
    drawn = P @ drawn
    energy = float(M.square().sum() - (ritz.values[:count] ** 2).sum()) / (min(M.shape) - count + 1)
    square = max(float(ritz.values[min(count, len(ritz.values) - 1)]) ** 2, energy)
    values, vectors = torch.linalg.eigh(P @ M @ M.mT @ P)
    floor = math.sqrt(chi2.ppf(1e-10 / 12, 16))
    best = math.inf
    for degree in range(1, 13):
        at = 2 * values / square - 1
        inner, outer = torch.cos(degree * at.clamp(-1, 1).arccos()), torch.cosh(degree * at.clamp_min(1).arccosh())
        image = vectors @ (torch.where(at > 1, outer, inner)[:, None] * (vectors.mT @ drawn))
        edge = math.cosh(math.acosh(max(float(torch.linalg.matrix_norm(image, 2)) / floor, 1)) / degree)
        best = min(best, math.sqrt(square * (edge + 1) / 2) * (1 + 1e-4))
    found.append(compare(told, "==", scale * best, f"by its polynomials, {name}", precision=1e-4))
    level = 1.1 * told
    upper = upper_values(ritz, count, told, level, count + 2)
    grown = np.linalg.eigvalsh(
        np.diag(ritz.values[:count] ** 2) + ritz.residual[:count, :count] / (1 - (told / level) ** 2)
    )
    wanted = np.sqrt([*np.maximum(grown[::-1], level**2), level**2, level**2])
    found.append(compare(upper, "==", scale * wanted, f"upper values, {name}"))
    true = torch.linalg.svdvals(M)[: count + 2]
    found.append(compare(upper, ">=", true, f"above the true ones, {name}"))
    return found


def _maps(scale: float) -> list[Comparison]:
    """Optima of maps through products: the criterion by hand, its bound, the least of all ranks, both ways round."""
    found: list[Comparison] = []
    for rows, columns, rate in ((50, 80, 0.5), (80, 50, 0.2)):
        M = decaying(3, rows, columns, 0.7)
        values, width = torch.linalg.svdvals(M), 6
        rate_odds = rate / (1 - rate)
        least = math.inf
        for rank in range(width + 1):
            top = values[:rank] - rate_odds * values[:rank].sum() / (width + rate_odds * rank)
            if rank == 0 or bool(top.min() >= 0):
                kept = (values[:rank] - top).square().sum() + values[rank:].square().sum()
                least = min(least, float(kept + rate_odds / width * top.sum() ** 2))
        energy = float(M.square().sum())
        for kind, matrix in (("sparse", M.to_sparse_coo()), ("operator", aslinearoperator(M.numpy())), ("dense", M)):
            for tolerance in (1e-12, 1e-3) if kind == "sparse" else (1e-12,):
                best = optimum_of_map(matrix, Bernoulli(rate, width), tolerance, block=4, seed=3)
                U, V = best.model.tensors
                own = (M - U @ V.mT).square().sum() + rate_odds * (U.square().sum(0) * V.square().sum(0)).sum()
                name = f"{kind}, {rows} by {columns}, {tolerance}"
                found.append(compare(best.objective, "==", scale * own, f"criterion, {name}", 1e-10))
                found.append(compare(best.bound, "<=", least, f"bound, {name}"))
                found.append(compare(best.objective, ">=", least, f"not below, {name}"))
                found.append(compare(best.gap, "<=", 2 * tolerance * energy / scale, f"gap, {name}", 1e-12))
                found.append(compare(best.scale, "==", scale * energy, f"scale, {name}"))
                rank = int(torch.linalg.matrix_rank(U @ V.mT, rtol=1e-9))
                found.append(compare(best.rank, "==", scale * rank, f"rank, {name}"))
        rough = optimum_of_map(M.to_sparse_coo(), Bernoulli(rate, width), 1e-3, energy=2 * energy)
        found.append(compare(rough.scale, "==", 2 * scale * energy, f"a given energy, {rows}"))
    return found


def _graded(scale: float) -> list[Comparison]:
    """Eigenvalues of graded moments: traces, determinants and inverses in fractions, null spaces exact."""
    found: list[Comparison] = []
    base = [[7, 2, -1], [2, 5, 1], [-1, 1, 3]]
    for powers in ((0, 0, 0), (20, 0, -20), (-18, 9, 0)):
        entries = [[Fraction(base[i][j]) * Fraction(2) ** (powers[i] + powers[j]) for j in range(3)] for i in range(3)]
        matrix = tensor([[float(one) for one in row] for row in entries])
        values, vectors = graded_eigen(torch.stack([matrix, 2 * matrix]))
        minors = [entries[(i + 1) % 3][(i + 1) % 3] * entries[(i + 2) % 3][(i + 2) % 3] for i in range(3)]
        minors = [one - entries[(i + 1) % 3][(i + 2) % 3] ** 2 for i, one in enumerate(minors)]
        # every sum is dominated by another eigenvalue, so that all of them are held to their last digits
        whole, pairs, product = sum(entries[i][i] for i in range(3)), sum(minors), Fraction(77)
        product *= Fraction(4) ** sum(powers)
        for k, one in enumerate(values):
            a, b, c = one.tolist()
            sums = [a + b + c, (a * b + a * c + b * c) / 2**k, a * b * c / 4**k]
            wanted = [float(part) * 2**k for part in (whole, pairs, product)]
            found.append(
                compare([p / q for p, q in zip(sums, wanted, strict=True)], "==", scale, f"{powers}, {k}", 1e-13)
            )
            turned = vectors[k].mT @ (matrix * 2**k) @ vectors[k]
            sizes = one.sqrt()
            found.append(compare(turned / sizes[:, None] / sizes, "==", torch.eye(3), f"turned, {powers}", 1e-6))
            found.append(compare(vectors[k].mT @ vectors[k], "==", torch.eye(3), f"orthonormal, {powers}", 1e-13))
            found.append(compare(one.diff(), ">=", 0.0, f"ascending, {powers}"))
    row = tensor([1.0, 2.0, -3.0])
    values, vectors = graded_eigen(row[:, None] * row + torch.diag(tensor([0.0, 0.0, 0.0])))
    found.append(compare(values, "==", tensor([0.0, 0.0, 14.0]) * scale, "one direction", precision=1e-14))
    found.append(compare(row @ vectors[:, :2], "==", 0.0, "its null space", precision=1e-14))
    single = graded_eigen(tensor([[2.0, 1.0], [1.0, 2.0]]).float())
    found.append(compare(single[0], "==", tensor([1.0, 3.0]) * scale, "single precision", precision=1e-6))
    found.append(compare(float(single[1].dtype == torch.float32), "==", 1.0, "stays single"))
    return found


def _allocated(scale: float) -> list[Comparison]:
    """Shares of layers: the best of all supports and many starts; bounds that are exact for equal layers."""
    found: list[Comparison] = []
    for strengths, values in (([1.0, 8.0], [1.0, 1.0]), ([0.1, 2.0], [1.0, 0.875])):  # near a jump in rank
        a, s = np.array(strengths), np.array(values)
        told = best_allocation(s, a)
        wanted = gain_bound(s**2, a, told.shares)
        found.append(compare(told.bound, "==", scale * wanted, f"a bound that is not reached, {strengths}"))
        found.append(compare(told.bound, ">", 1.01 * told.gain, f"stays above, {strengths}", 0.0))
    for seed, strengths, values in (
        (1, [0.3, 0.0, 0.3], [1.0, 0.8, 0.1]),
        (2, [0.05, 0.4], [2.0, 1.9, 1.5, 0.02]),
        (3, [0.7, 0.2, 0.1], [1.0, 0.9]),
        (4, [0.0, 0.0], [1.0, 0.5]),
        (5, [0.4], [1.5, 1.0, 0.2]),
    ):
        a, s = np.array(strengths), np.array(values)
        told = best_allocation(s.copy(), a.copy())
        active = a > 0
        kept = told.shares[:, (told.shares > 0).all(0)]
        found.append(compare(told.rank, "==", scale * kept.shape[1], f"rank, {seed}"))
        gains = np.where(active[:, None], told.shares / (told.shares + np.where(active, a, 1.0)[:, None]), 1.0)
        if active.any():
            found.append(compare(told.shares[active].sum(1), "==", scale, f"shares sum to one, {seed}"))
            gains = gains * (told.shares > 0)
            ones = np.broadcast_to((told.shares[active] > 0).all(0), told.shares[~active].shape)
            if len(ones):
                found.append(compare(told.shares[~active], "==", scale * ones, f"layers without masks, {seed}"))
        found.append(compare(told.gain, "==", scale * (s**2 * gains.prod(0)).sum(), f"gain, {seed}"))
        found.append(compare(told.bound, ">=", told.gain, f"bound, {seed}", precision=0.0))
        # many starts of plain ascent by multiplicative steps on every simplex
        x = uniform(seed, 60, len(a), len(s)).pow(3)
        x[:30] *= (torch.arange(len(s)) <= torch.arange(30)[:, None] % len(s)).double()[:, None]
        x = x / x.sum(-1, keepdim=True)
        strength, power = torch.from_numpy(a)[:, None], torch.from_numpy(s**2)
        for _ in range(300):
            parts = x / (x + strength).clamp_min(1e-300)
            parts = torch.where(strength > 0, parts, 1.0)
            slopes = power * parts.prod(1, keepdim=True) * strength / (x + strength).clamp_min(1e-300)
            x = torch.where(strength > 0, (slopes + 1e-300) / (slopes + 1e-300).sum(-1, keepdim=True), x)
        reached = float(
            (power * torch.where(strength > 0, x / (x + strength).clamp_min(1e-300), 1.0).prod(1)).sum(-1).max()
        )
        found.append(compare(told.gain, ">=", reached, f"not below ascents, {seed}", precision=1e-9))
        found.append(compare(told.gain, "<=", told.bound * 1.0, f"below its bound, {seed}"))
        found.append(compare(told.bound, "<=", told.gain * (1 + 0.02) / scale, f"a close bound, {seed}"))
        if len(set(strengths) - {0.0}) <= 1:
            found.append(
                compare(told.bound, "==", scale * told.gain, f"exact for equal layers, {seed}", precision=1e-9)
            )
    # one layer and two equal ones at uniform shares: the bound is a maximum over both simplices alone
    even = np.array([[0.5, 0.5], [0.5, 0.5]])
    p, a = np.array([1.0, 1.0]), np.array([0.2, 0.2])
    grid = np.linspace(0, 1, 2001)
    value = ((grid / (grid + 0.2)) ** 2 + ((1 - grid) / (1.2 - grid)) ** 2).max()
    found.append(compare(gain_bound(p, a, even), "==", scale * value, "two equal layers", precision=1e-6))
    for layers, first in (((0.3, 1.2), (0.7, 0.4)), ((2.0, 0.5, 0.1), (0.55, 0.8, 0.65)), ((5.0, 0.02), (0.6, 0.5))):
        p, a, inner = np.array([1.0, 0.64]), np.array(layers), np.column_stack([first, 1 - np.array(first)])
        wanted = scale * _weighted_means(p, a, inner)
        found.append(compare(gain_bound(p, a, inner), "==", wanted, f"weighted means, {layers}", precision=1e-6))
    return found


def _weighted_means(power: Array, a: Array, x: Array) -> float:
    """G <= sum_i p_i max sum_j s_j^2 c_ij g(t_j)^(1 / p_i), c_ij = prod_l g_lj / g_ij^(1 / p_i), two directions.

    By a grid of shares t, for both weights p: of the elasticities of g, and of strengths to three quarters.
    """
    first, g, bounds = np.linspace(0, 1, 4001), x / (x + a[:, None]), []
    for weights in (a[:, None] / (x + a[:, None])).mean(1), a**0.75:
        p = weights / weights.sum()
        means = power * g.prod(0) / g ** (1 / p[:, None])
        reached = [first / (first + own) for own in a]
        sums = [
            (c[0] * h ** (1 / q) + c[1] * h[::-1] ** (1 / q)).max() for c, h, q in zip(means, reached, p, strict=True)
        ]
        bounds.append(float(p @ sums))
    return min(bounds)
