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

from droptics.data import Entries, Measurements, Moments, Sample
from droptics.errors import NoClosedForm
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes.symmetries import symmetry_dimension
from droptics.linalg.jacobi import graded_eigen
from droptics.linalg.krylov import Krylov, Operator, Ritz, upper_values
from droptics.linalg.sums import summands
from droptics.masks import Bernoulli
from droptics.models import Autoencoder, DeepLinear, TwoLayerLinear
from droptics.optima import optimum_of_map
from droptics.optima.allocations import best_allocation, gain_bound
from droptics.papers.instances import normal, simplex, tensor, uniform
from droptics.spectra.coordinates import check_isotropic, frame, white_weights, whiten

EPS = torch.finfo(torch.float64).eps


def krylov_in_full(scale: float) -> list[Comparison]:
    """Operators of every kind, bases, residuals, bounds on the rest, and optima that rest on them."""
    return [*_operators(scale), *_spaces(scale), *_maps(scale), *_graded(scale), *_allocated(scale)]


def decaying(seed: int, rows: int, columns: int, ratio: float) -> Tensor:
    """A matrix whose singular values are powers of a ratio."""
    left, right = (torch.linalg.qr(normal(seed + k, size, size)).Q for k, size in enumerate((rows, columns)))
    short = min(rows, columns)
    return (left[:, :short] * ratio ** torch.arange(short).double()) @ right[:, :short].mT


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
    found.append(compare(float(single[1].dtype == torch.float32), "==", scale, "stays single"))
    return found


def _allocated(scale: float) -> list[Comparison]:
    """Shares of layers: the best of all supports and many starts; bounds that are exact for equal layers."""
    found: list[Comparison] = []
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
    return found


def white_in_full(scale: float) -> list[Comparison]:
    """Coordinates of moments, samples of every shape, entries and measurements: risks by hand, slack by its formula."""
    found: list[Comparison] = []
    for name, (count, features) in {"tall": (60, 3), "square": (9, 4), "flat": (4, 6)}.items():
        for weighed in (False, True):
            for kind in ("plain", "repeated"):
                X, Y = normal(count, count, features), normal(count + 1, count, 2)
                X = X * tensor([1.0, 1e3, 1e-2, 1.0, 5.0, 0.3])[:features]
                if kind == "repeated":
                    X[:, -1] = 2 * X[:, 0]
                shares = simplex(5, count) if weighed else torch.full((count,), 1 / count, dtype=torch.float64)
                data = Sample(X, Y, 3 * shares if weighed else None)
                found += _white(scale, data, X, Y, shares, f"{name}, {kind}, {'weights' if weighed else 'alike'}")
    X, Y, even = normal(30, 50, 3), normal(31, 50, 2), torch.full((50,), 0.02, dtype=torch.float64)
    whole = Moments(X.mT @ X / 50, Y.mT @ X / 50, Y.mT @ Y / 50)
    found += _white(scale, whole, X, Y, even, "moments")
    apart = torch.linalg.qr(X).Q * tensor([2.0, 0.5, 3.0])
    found += _white(
        scale,
        Moments(torch.diag(even @ apart.square()), Y.mT @ apart / 50, Y.mT @ Y / 50),
        apart,
        Y,
        even,
        "diagonal",
    )
    W, U = normal(1, 2, 3), normal(2, 2, 2)
    alone = white_weights(whole).spectrum(U, (torch.linalg.inv(U) @ W).mT)
    found.append(compare(alone, "==", scale * torch.linalg.svdvals(W * whole.xx.diagonal().sqrt()), "uncorrelated"))
    for off, refused in ((0.0, 0.0), (1e-12, 1.0)):
        near = Moments((1 + off * tensor([1.0, 0.0, 0.0])).diag(), whole.yx, whole.yy)
        found.append(compare(_refuses(lambda near=near: check_isotropic(near)), "==", refused, f"isotropic, {off}"))
    return [*found, *_observed(scale), *_slack(scale), *_symmetries(scale)]


def _refuses(call: object) -> float:
    try:
        call()  # type: ignore[operator]
    except NoClosedForm:
        return 1.0
    return 0.0


def _white(scale: float, data: Sample | Moments, X: Tensor, Y: Tensor, shares: Tensor, name: str) -> list[Comparison]:
    """Risks and criteria of networks by the examples, spectra by a root of their own."""
    found: list[Comparison] = []
    told, drop = whiten(data), tensor([0.3, 0.5])
    sizes = X.square().mean(0).sqrt()
    second = (shares[:, None] * X / sizes).mT @ (X / sizes)
    values, vectors = torch.linalg.eigh(second)
    alive = values > 1e-10
    root = sizes[:, None] * vectors[:, alive] * values[alive].sqrt()
    energy = shares @ Y.square().sum(1)
    found.append(compare(told.energy, "==", scale * energy, f"energy, {name}", precision=1e-8))
    for seed in (1, 2):
        U, V = normal(seed, 2, 2), normal(seed + 5, X.shape[1], 2) / sizes[:, None]
        V = V * tensor([1.0, 1e4]) if seed == 2 else V
        W = U @ V.mT
        risk = shares @ (Y - X @ W.mT).square().sum(1)
        inside = told.left.down(told.right.down(W.mT).mT)
        there = told.constant + (told.target - inside).square().sum()
        found.append(compare(there / risk, "==", scale, f"risk, {name}", precision=1e-8))
        outer, inner = U.square().sum(0), (shares[:, None] * (X @ V).square()).sum(0)
        whole = risk + (drop / (1 - drop) * outer * inner).sum()
        criterion = told.criterion(U, V, Bernoulli(drop, 2))
        found.append(compare(criterion / whole, "==", scale, f"criterion, {name}", precision=1e-8))
        one = told.criterion(U, V, Bernoulli(0.3, 2))
        wanted = risk + 0.3 / 0.7 * (outer * inner).sum()
        found.append(compare(one / wanted, "==", scale, f"one rate, {name}", precision=1e-8))
        here = torch.linalg.svdvals(W @ root)
        size = float(here[0])
        for kind, place in (("whole", told), ("frame", frame(data))):
            spectrum = place.spectrum(U, V)[: len(here)]
            padded = torch.cat([spectrum, spectrum.new_zeros(len(here) - len(spectrum))])
            found.append(compare(padded / size, "==", scale * here / size, f"spectrum, {kind}, {name}", 1e-7))
            left, middle, right = place.svd(U, V)
            again = place.left.down(place.right.down(W.mT).mT)
            found.append(compare((left * middle) @ right.mT / size, "==", again / size, f"parts, {name}", 1e-8))
            found.append(compare(left.mT @ left, "==", torch.eye(len(middle)), f"orthonormal, {name}"))
            found.append(compare(right.mT @ right, "==", torch.eye(len(middle)), f"on both sides, {name}"))
            found.append(compare(middle, ">", 0.0, f"nothing without energy, {name}", precision=0.0))
    found.append(compare(told.floor(2.0), "==", told.constant + 2.0 - told.slack, f"floor, {name}"))
    found.append(compare(told.slack, "<=", 1e-6 * energy, f"slack, {name}", precision=0.0))
    found.append(compare(told.slack, ">", 0.0, f"some, {name}", precision=0.0))
    return found


def _observed(scale: float) -> list[Comparison]:
    """Entries in product proportions and isotropic measurements beside sums over what is observed."""
    found: list[Comparison] = []
    pairs = [(i, j) for i in range(3) for j in range(4) for _ in range((1 + (i == 1)) * (1 + 2 * (j == 2)))]
    rows, columns = torch.tensor(pairs).T
    values = normal(1, len(pairs))
    told = whiten(Entries(rows, columns, values, (3, 4)))
    U, V = normal(2, 3, 2), normal(3, 4, 2)
    W = U @ V.mT
    risk = (values - W[rows, columns]).square().mean()
    inside = told.left.down(told.right.down(W.mT).mT)
    found.append(compare(told.constant + (told.target - inside).square().sum(), "==", scale * risk, "entries"))
    p, q = (torch.bincount(part).double() / len(pairs) for part in (rows, columns))
    inner = ((p[:, None] * U.square()).sum(0) * (q[:, None] * V.square()).sum(0)).sum()
    found.append(
        compare(told.criterion(U, V, Bernoulli(0.3, 2)), "==", scale * (risk + 0.3 / 0.7 * inner), "their criterion")
    )
    found.append(
        compare(
            told.slack, "==", scale * 28 * EPS * (told.constant + float(told.target.square().sum())), "slack", 1e-20
        )
    )
    lone = Entries(rows[:-1], columns[:-1], values[:-1], (3, 4))
    found.append(compare(_refuses(lambda: whiten(lone)), "==", scale, "other proportions"))
    count, size = 18, 6
    design = 1.7 * math.sqrt(count) * torch.linalg.qr(normal(4, count, size)).Q
    matrices, values = design.reshape(count, 2, 3), normal(5, count)
    told = whiten(Measurements(matrices, values))
    U, V = normal(6, 2, 2), normal(7, 3, 2)
    W = U @ V.mT
    risk = (values - (matrices * W).sum((1, 2))).square().mean()
    inside = told.left.down(told.right.down(W.mT).mT)
    found.append(compare(told.constant + (told.target - inside).square().sum(), "==", scale * risk, "measurements"))
    seen = told.criterion(U, V, Bernoulli(0.3, 2))
    parts = torch.einsum("nij,ik,jk->nk", matrices, U, V).square().mean(0).sum()
    wanted = risk + 0.3 / 0.7 * 1.7**2 * (U.square().sum(0) * V.square().sum(0)).sum()
    found.append(compare(seen, "==", scale * wanted, "criterion of measurements"))
    found.append(compare(parts, "==", scale * 1.7**2 * (U.square().sum(0) * V.square().sum(0)).sum(), "noise of each"))
    second = design.mT @ design / count
    mean = design.square().sum() / (count * size)
    off = float(torch.linalg.matrix_norm(second - mean * torch.eye(size).double()) / mean)
    whole = told.constant + float(told.target.square().sum())
    found.append(
        compare(told.slack, "==", scale * (20 * EPS + 2 * off) * whole, "slack of measurements", 1e-18, 1e-300)
    )
    bent = Measurements(matrices * tensor([[1.0], [1.01]]), values)
    found.append(compare(_refuses(lambda: whiten(bent)), "==", scale, "no isotropic design"))
    return found


def _slack(scale: float) -> list[Comparison]:
    """What rounding may take off a bound, by its formula, where the second moment itself is read."""
    found: list[Comparison] = []
    X, Y = normal(1, 40, 3), normal(2, 40, 2)
    xx, yx, yy = X.mT @ X / 40, Y.mT @ X / 40, Y.mT @ Y / 40
    powers = 2.0 ** (xx.diagonal().sqrt().log2().floor() + 1)
    energy = yy.trace()
    energies = torch.linalg.eigvalsh(xx / powers[:, None] / powers)
    values, vectors = torch.linalg.eigh(xx / powers[:, None] / powers)
    target = yx / powers @ vectors / values.sqrt()
    size = float((target.square() / energies).sum().sqrt() + energy.sqrt())
    for name, data, off in (
        ("moments", Moments(xx, yx, yy), 3 * Moments(xx, yx, yy).rounding),
        ("a sample", Sample(X, Y), summands(40, 3) * EPS / 2 * 3),
    ):
        wanted = (20 * EPS + 8 / 7 * off) * size**2
        found.append(compare(whiten(data).slack, "==", scale * wanted, f"slack, {name}", precision=1e-9, scale=1e-300))
    return found


def _symmetries(scale: float) -> list[Comparison]:
    """Dimensions of symmetry as ranks of orbits that are moved by hand."""
    found: list[Comparison] = []
    even = Moments(torch.eye(3).double(), torch.eye(3).double() * 0.7, torch.eye(3).double())
    for seed, model, data, wanted in (
        (1, TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)), _population(5, 2, 3), 4),
        (2, DeepLinear([normal(3, 4, 3), normal(4, 2, 4), normal(5, 2, 2)]), _population(6, 2, 3), 6),
        (3, Autoencoder(normal(6, 3, 2)), even, 3),
        (4, TwoLayerLinear(normal(7, 3, 2), normal(8, 3, 2)), even, 5),
        (5, TwoLayerLinear(normal(9, 2, 2), normal(10, 3, 2)), _turned(), 3),
        (6, TwoLayerLinear(torch.zeros(2, 2).double(), torch.zeros(3, 2).double()), _population(5, 2, 3), 0),
        (7, TwoLayerLinear(tensor([[1.0, 0.0], [2.0, 0.0]]), normal(8, 3, 2)), _population(5, 2, 3), 2),
    ):
        found.append(compare(symmetry_dimension(model, data), "==", scale * wanted, f"symmetries, {seed}"))
    return found


def _population(seed: int, outputs: int, inputs: int) -> Moments:
    X, Y = normal(seed, 30, inputs), normal(seed + 1, 30, outputs)
    return Moments(X.mT @ X / 30, Y.mT @ X / 30, Y.mT @ Y / 30)


def _turned() -> Moments:
    """Uncorrelated inputs, the first two alike, and outputs that see the third alone."""
    yx = torch.zeros(2, 3).double()
    yx[:, 2] = tensor([1.0, 0.5])
    return Moments(torch.diag(tensor([1.0, 1.0, 2.0])), yx, torch.eye(2).double() * 3)
