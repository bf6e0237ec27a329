"""What the claims of chapter 3 on envelopes and optima compare."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from droptics import equalization
from droptics.data import Moments
from droptics.envelopes import induced
from droptics.evidence.claims import Comparison, Relation, compare
from droptics.linalg import psd_root, shrink
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear
from droptics.norms import nuclear
from droptics.papers.instances import Factors, descend, factorizations, moments, normal, subsets, tensor
from droptics.papers.thesis.chapter3_checks import (
    INSTANCES,
    law,
    layer_bounds,
    masked_error,
    masked_penalty,
    network,
    pivot_terms,
    product,
    rank_one_network,
    subset_sum,
)
from droptics.penalties import effective_strength, penalty


def envelope_bound(share: float) -> list[Comparison]:
    """Nu ||M C^1/2||_*^2 lies below every network of the map and is a mean of rank-one optima of the same norm.

    Weights s_i/||.||_* on ||.||_* p_i r_i^T C^-1/2, each with a network whose penalty over all masks is no more.
    Being convex and below every network it is the largest convex function there.
    """
    found = layer_bounds(share)
    low = normal(3, 2, 1) @ normal(4, 1, 3)
    cases = ((normal(1, 3, 4), (3, 2), 0.4), (normal(2, 4, 2), (2, 1, 3), 0.7), (low, (4,), 0.2))
    for seed, (M, widths, drop) in enumerate(cases, start=2):
        data = moments(seed, *M.shape)
        root = psd_root(data.xx)
        P, s, Rh = torch.linalg.svd(M @ root, full_matrices=False)
        stated = share * subset_sum(widths, drop / (1 - drop)) * s.sum() ** 2
        weights, mixed, mean = s / s.sum(), torch.zeros_like(M), 0.0
        for weight, p, r in zip(weights, P.mT, Rh, strict=True):
            layers = rank_one_network(s.sum() * p, torch.linalg.solve(root, r), widths)
            mixed, value = mixed + weight * product(layers), masked_penalty(layers, data, drop)
            mean += float(weight) * value
            ours = penalty(DeepLinear(layers), data, law(layers, drop))
            found.append(compare(ours, "==", value, f"library, widths {widths}"))
        found.append(compare(mean, "<=", stated, f"mean of the penalties, widths {widths}"))
        found.append(compare(mixed, "==", M, f"mean of the rank-one maps, widths {widths}"))
        bound = effective_strength(widths, drop) * nuclear(M @ root) ** 2
        found.append(compare(bound, "==", stated / share, f"the library's bound, widths {widths}"))
        other = normal(seed + 9, *M.shape)
        ends = [nuclear(X @ root) ** 2 for X in (M, other, 0.3 * M + 0.7 * other)]
        found.append(compare(ends[2], "<=", 0.3 * ends[0] + 0.7 * ends[1], "convex"))
    return found


def bound_attained(share: float) -> list[Comparison]:
    """Lemma 7: R - nu ||W C^1/2||_*^2 is zero for an equalized network and for no other.

    It is at least `share` times sum_l lam^l sum (t - level)^2 over the summands t of Definition 5, which should all be
    at their level; exactly that for diagonal layers. Networks at which descent on R/||W C^1/2||_*^2 ends are equalized.
    """
    found = []
    diagonal = [torch.diag(tensor(values)) for values in ((2.0, 1.0, 0.5), (1.0, 3.0, 0.7))]
    nets = [(network(seed, sizes), drop) for seed, (sizes, drop) in enumerate(INSTANCES)]
    for seed, (weights, drop) in enumerate([*nets, (diagonal, 0.4)]):
        outputs, inputs = len(weights[-1]), weights[0].shape[1]
        data = moments(seed, outputs, inputs) if weights is not diagonal else Moments.of_map(diagonal[0])
        gap, away, largest = _distances(weights, data, drop)
        found.append(compare(gap, ">=", share * away, "excess against the distance from equalized"))
        found.append(compare(gap, ">", 0.0, f"excess, largest distance {largest:.2g}"))
    for seed, (sizes, drop) in enumerate((((3, 2, 2, 2), 0.5), ((3, 4, 3), 0.3), ((2, 2, 3, 2), 0.6))):
        data = moments(seed, sizes[-1], sizes[0])
        root = psd_root(data.xx)

        def ratio(*weights: Tensor, data: Moments = data, root: Tensor = root, drop: float = drop) -> Tensor:
            norm = torch.linalg.matrix_norm(product(weights) @ root, "nuc")
            return penalty_of(weights, data, drop) / norm**2

        least, weights = descend(ratio, [(b, a) for a, b in itertools.pairwise(sizes)], starts=2, seed=seed)
        stated = share * effective_strength(sizes[1:-1], drop)
        found.append(compare(least, "==", stated, f"least ratio, sizes {sizes}", precision=1e-7))
        found.append(compare(_distances(weights, data, drop)[2], "<=", 1e-3, f"equalized there, sizes {sizes}"))
    layers = rank_one_network(normal(1, 3), normal(2, 4), (3, 2))
    scale = tensor([2.0, -0.5, 3.0])
    shallow, data = DeepLinear(network(3, (4, 5, 3))), moments(3, 3, 4)
    scaled = [scale[:, None] * layers[0], layers[1] / scale, layers[2]]
    for weights in (scaled, list(equalization.equalize(shallow, data, law(shallow.weights, 0.4)).weights)):
        gap, _, largest = _distances(weights, data, 0.4)
        found.append(compare(largest, "==", 0.0, "an equalized network"))
        found.append(compare(gap, "==", 0.0, "its excess", scale=float(penalty_of(weights, data, 0.4))))
    return found


def penalty_of(weights: Sequence[Tensor], data: Moments, drop: float) -> Tensor:
    """The penalty of the library, one rate for every hidden layer."""
    return penalty(DeepLinear(list(weights)), data, law(weights, drop)).value


def _distances(weights: Sequence[Tensor], data: Moments, drop: float) -> tuple[Tensor, Tensor, float]:
    """R - nu ||W C^1/2||_*^2, sum_l lam^l sum (t - level)^2, and the largest |t/level - 1| (Definition 5)."""
    norm = nuclear(product(weights) @ psd_root(data.xx))
    gap = penalty_of(weights, data, drop) - effective_strength([len(w) for w in weights[:-1]], drop) * norm**2
    terms = pivot_terms(weights, data.xx)
    parts = [(drop / (1 - drop)) ** term.ndim * (term - norm / term.numel()).square().sum() for term in terms]
    return gap, torch.stack(parts).sum(), max(float((term * term.numel() / norm - 1).abs().max()) for term in terms)


def spectral_function(isotropic: bool) -> list[Comparison]:
    """Theta(M) = Theta(P M Q) for rotations P and Q if C = I, by descent over the networks of each map.

    With square layers these are W_1, ..., W_k and W_{k+1} = M (W_k ... W_1)^-1.
    """
    found = []
    for size, hidden in ((2, 2), (3, 1)):
        M, P, Q = normal(1, size, size), *(torch.linalg.qr(normal(seed, size, size)).Q for seed in (4, 10))
        data = Moments.of_map(M) if isotropic else moments(1, size, size)

        def least(target: Tensor, seed: int, data: Moments = data, size: int = size, hidden: int = hidden) -> float:
            def objective(*weights: Tensor) -> Tensor:
                last = torch.linalg.solve(product(weights), target, left=False)
                return penalty_of([*weights, last], data, 0.5)

            return descend(objective, [(size, size)] * hidden, starts=2, seed=seed)[0]

        values = least(M, 0), least(P @ M @ Q, 7)
        found.append(compare(values[1], "==", values[0], f"Theta of a turned map, {hidden + 1} layers", precision=1e-6))
    return found


def equalizable() -> list[Comparison]:
    """Least penalty of maps of rank two against the envelope: equal for one hidden layer, above it for two.

    By descent over all networks with square layers, the last one fixed by the map. Where the least penalty equals the
    envelope the network is equalized, where it does not none is. I_2 at lam = 1 costs 6, the envelope is 5.
    """
    found, eye = [], torch.eye(2, dtype=torch.float64)
    cases = ((eye, 2, Moments.of_map(eye), 0.5), (normal(1, 2, 2), 2, moments(1, 2, 2), 0.4))
    for M, hidden, data, drop in (*cases, (normal(1, 2, 2), 1, moments(1, 2, 2), 0.4)):
        widths = (2,) * hidden

        def added(*below: Tensor, M: Tensor = M, data: Moments = data, drop: float = drop) -> Tensor:
            return penalty_of([*below, torch.linalg.solve(product(below), M, left=False)], data, drop)

        least, weights = descend(added, [(2, 2)] * hidden, starts=2)
        size = torch.linalg.svdvals(M @ psd_root(data.xx)).sum()
        bound, label = subset_sum(widths, drop / (1 - drop)) * size**2, f"{hidden} hidden layers"
        relation: Relation = ">" if hidden == 2 else "=="
        found.append(compare(least, relation, bound, f"least penalty against the envelope, {label}", precision=1e-6))
        away = _distances([*weights, torch.linalg.solve(product(weights), M, left=False)], data, drop)[2]
        found.append(compare(away, ">" if hidden == 2 else "<=", 1e-3, f"distance from equalized, {label}"))
        ours = effective_strength(widths, drop) * nuclear(M @ psd_root(data.xx)) ** 2
        found.append(compare(ours, "==", bound, f"the library's envelope, {label}"))
        if M is eye:
            found.append(compare(least, "==", 6.0, "I_2", precision=1e-6))
    return found


@cache
def _envelope_optimum(seed: int, spectrum: tuple[float, ...], nu: float, rank: int) -> tuple[Moments, float, Tensor]:
    """Data whose Mbar = Cyx C^-1/2 has the spectrum, and the least value of the problem by descent with its map W.

    Over W = U V^T with `rank` columns, the nuclear norm of W C^1/2 itself in the objective.
    """
    size = len(spectrum)
    plain = moments(seed, size, size + 1)
    root = psd_root(plain.xx)
    left, right = (torch.linalg.qr(normal(seed + i, size + i, size + i)).Q for i in (0, 1))
    yx = (left * tensor(spectrum)) @ right[:size] @ root
    yy = (left * tensor(spectrum).square()) @ left.mT + torch.eye(size, dtype=torch.float64)
    data = Moments(plain.xx, yx, (yy + yy.mT) / 2)

    def objective(U: Tensor, V: Tensor) -> Tensor:
        W = U @ V.mT
        error = data.yy.trace() - 2 * (W * data.yx).sum() + ((W @ data.xx) * W).sum()
        return error + nu * torch.linalg.matrix_norm(W @ root, "nuc") ** 2

    best, (U, V) = descend(objective, [(size, rank), (size + 1, rank)], starts=2, seed=seed)
    return data, best, U @ V.mT


def envelope_problem(rule: Callable[[Tensor, float, int], Tensor]) -> list[Comparison]:
    """Min over rank <= min width of E ||y - Wx||^2 + nu ||W C^1/2||_*^2: the rule's map and value against descent.

    The last width is above the rank, and above the number of values that are kept.
    """
    found = []
    cases = (((2.0, 1.0), 1, 0.1), ((3.0, 2.0, 0.5), 2, 0.6), ((1.5, 1.2, 0.9), 2, 0.2), ((2.0, 0.3), 3, 0.5))
    for seed, (spectrum, rank, nu) in enumerate(cases):
        data, best, reached = _envelope_optimum(seed, spectrum, nu, rank)
        root = psd_root(data.xx)
        P, s, Rh = torch.linalg.svd(torch.linalg.solve(root, data.yx.mT).mT, full_matrices=False)
        x = rule(s, nu, rank)
        W = torch.linalg.solve(root, ((P * x) @ Rh).mT).mT
        found.append(compare(W, "==", reached, f"map, spectrum {spectrum}, r={rank}", precision=1e-4))
        value = data.yy.trace() - s.square().sum() + (s - x).square().sum() + nu * x.sum() ** 2
        found.append(compare(value, "==", best, f"value, spectrum {spectrum}, r={rank}", precision=1e-7))
        found.append(compare(float((x > 0).sum()), "<=", float(rank), "rank"))
        alphas = [nu * float(s[:j].sum()) / (1 + j * nu) for j in range(1, min(rank, len(s)) + 1)]
        rho = max(j for j, alpha in enumerate(alphas, start=1) if float(s[j - 1]) > alpha)
        lowered = torch.where(torch.arange(len(s)) < rho, s - alphas[rho - 1], 0.0)
        found.append(compare(x, "==", lowered, f"lowered by alpha, spectrum {spectrum}, r={rank}"))
    zeros = torch.zeros(3, dtype=torch.float64)
    return [*found, compare(rule(zeros, 0.5, 2), "==", zeros, "a map of zeros keeps none")]


def truncated(s: Tensor, nu: float, rank: int) -> Tensor:
    """The corrected rule: at most `rank` values are kept."""
    return shrink(s, nu * rank, rank)


def untruncated(s: Tensor, nu: float, rank: int) -> Tensor:
    """The printed rule: rho <= min{r, rank Mbar} sets alpha, and every value above it is kept."""
    fits = [
        nu * float(s[:rho].sum()) / (1 + rho * nu)
        for rho in range(1, min(rank, len(s)) + 1)
        if bool((s[:rho] > nu * s[:rho].sum() / (1 + rho * nu)).all())
    ]
    return (s - (fits[-1] if fits else 0.0)).clamp_min(0)


def deep_minimum(
    spectrum: Sequence[float], widths: Sequence[int], drop: float, seed: int = 0, starts: int = 4
) -> float:
    """Least deep dropout objective for y = M x, isotropic x, by descent on the exact objective."""
    s = torch.diag(tensor(spectrum))
    data = Moments.of_map(s)
    shapes = [(b, a) for a, b in itertools.pairwise((len(spectrum), *widths, len(spectrum)))]

    def objective(*weights: Tensor) -> Tensor:
        error = (product(weights) - s).square().sum()
        return error + penalty(DeepLinear(list(weights)), data, law(weights, drop)).value

    return descend(objective, shapes, starts=starts, seed=seed, size=0.8)[0]


def _energy(weights: Sequence[Tensor], drop: float) -> Tensor:
    """E ||W_masked x||^2 for E x x^T = I: the second moment layer by layer, its diagonal raised by each mask."""
    second = torch.eye(weights[0].shape[1], dtype=torch.float64)
    for weight in weights[:-1]:
        second = weight @ second @ weight.mT
        second = second + drop / (1 - drop) * torch.diag(torch.diagonal(second))
    return ((weights[-1] @ second) * weights[-1]).sum()


def gap_condition(spectrum: Sequence[float], widths: Sequence[int], drop: float) -> list[Comparison]:
    """Under nu s_1/(1+nu) >= s_2, or through a layer of one unit, the deep optimum is tr Cyy - s_1^2/(1+nu)."""
    nu = subset_sum(widths, drop / (1 - drop))
    value = sum(s * s for s in spectrum) - spectrum[0] ** 2 / (1 + nu)
    masks = Product([Bernoulli(drop, width) for width in widths])
    found = [compare(deep_minimum(spectrum, widths, drop), "==", value, "least objective", precision=1e-6)]
    for first, second in (spectrum, (3.0, 1.5), (3.0, 2.0)):
        data = Moments.of_map(torch.diag(tensor([first, second])))
        ours, stated = equalization.gap_condition(data, masks).holds, nu * first / (1 + nu) >= second
        found.append(compare(float(ours), "==", float(stated), f"the library's condition, {first} and {second}"))
    return found


def correlated_optimum(share: float) -> list[Comparison]:
    """Theorem 10 for correlated inputs: the map that descent finds, its value, and its penalty against the envelope.

    s_2 of Mbar is `share` of the largest that the gap allows. The network of equal weights of the stated map is
    equalized and has the same criterion, summed over all masks.
    """
    found = []
    for seed, (outputs, inputs, widths, drop) in enumerate(((2, 3, (2, 3), 0.6), (3, 2, (3,), 0.7))):
        nu, plain = subset_sum(widths, drop / (1 - drop)), moments(seed, outputs, inputs)
        s = tensor([2.0, share * 2.0 * nu / (1 + nu)])
        root = psd_root(plain.xx)
        P, R = (torch.linalg.qr(normal(seed + size, size, 2)).Q for size in (outputs, inputs))
        yy = (P * s.square()) @ P.mT + torch.eye(outputs, dtype=torch.float64)
        data = Moments(plain.xx, (P * s) @ R.mT @ root, (yy + yy.mT) / 2)
        stated = torch.linalg.solve(root, ((P * (s - nu * s[0] / (1 + nu)).clamp_min(0)) @ R.mT).mT).mT

        # on white inputs, W_1 C^1/2 in place of W_1; the error is that of Mbar and of noise of second moment I
        def objective(*weights: Tensor, Mbar: Tensor = (P * s) @ R.mT, drop: float = drop) -> Tensor:
            return Mbar.square().sum() + len(Mbar) - 2 * (product(weights) * Mbar).sum() + _energy(weights, drop)

        shapes = [(b, a) for a, b in itertools.pairwise((inputs, *widths, outputs))]
        best, weights = descend(objective, shapes, starts=2, seed=seed)
        weights = [torch.linalg.solve(root, weights[0].mT).mT, *weights[1:]]
        equalized = rank_one_network(P[:, 0] * s[0] / (1 + nu), torch.linalg.solve(root, R[:, 0]), widths)
        value = data.yy.trace() - s[0] ** 2 / (1 + nu)
        label, added = f"widths {widths}", nu * (s[0] / (1 + nu)) ** 2
        told = equalization.gap_condition(data, law(weights, drop))
        found += [
            compare([told.first, told.second, told.strength], "==", [*s.tolist(), nu], f"the library's gap, {label}"),
            compare(float(told.holds), "==", 1.0, f"it holds, {label}"),
            compare(s[0] - s[1], ">=", s[1] / nu, f"the gap, {label}"),
            compare(best, "==", value, f"value, {label}", precision=1e-6),
            compare(masked_error(weights, data, drop), "==", best, f"all masks, {label}", precision=1e-8),
            compare(product(weights), "==", stated, f"map, {label}", precision=1e-3),
            compare(penalty_of(weights, data, drop), "==", added, f"equalized, {label}", precision=1e-3),
            compare(product(equalized), "==", stated, f"map of the equalized network, {label}"),
            compare(_distances(equalized, data, drop)[2], "==", 0.0, f"it is equalized, {label}"),
            compare(masked_error(equalized, data, drop), "==", value, f"it is a global optimum, {label}"),
            compare(effective_strength(widths, drop), "==", nu, f"nu of the library, {label}"),
        ]
    return found


@cache
def _descended(seed: int, widths: tuple[int, ...], drop: float) -> tuple[Moments, float, list[Tensor]]:
    """Data of one output, and the least criterion that descent finds with its weights."""
    data = moments(seed, 1, 2)
    shapes = [(b, a) for a, b in itertools.pairwise((2, *widths, 1))]

    def objective(*weights: Tensor) -> Tensor:
        W = product(weights)
        error = data.yy.trace() - 2 * (W * data.yx).sum() + ((W @ data.xx) * W).sum()
        return error + penalty(DeepLinear(list(weights)), data, law(weights, drop)).value

    return data, *descend(objective, shapes, starts=2, seed=seed)


@cache
def _least_cost(seed: int, widths: tuple[int, ...], drop: float) -> float:
    """The least penalty over w C w^T of all networks of one output that descent finds."""
    data = moments(seed, 1, 2)

    def ratio(*weights: Tensor) -> Tensor:
        w = product(weights)
        return penalty_of(weights, data, drop) / (w @ data.xx * w).sum()

    return descend(ratio, [(b, a) for a, b in itertools.pairwise((2, *widths, 1))], starts=2, seed=seed)[0]


def single_output(solution: Callable[[Moments, float], Tensor]) -> list[Comparison]:
    """One output: W* = Cyx C^-1 / (1 + nu), its network equalized, against descent with C != I; Theta(w) = nu w C w^T.

    Theta: no network of any map is below, by descent on their quotient, and for every w some network reaches it, by all
    masks. Equalized: every summand of Definition 5 at its level.
    """
    found = []
    for seed, (widths, drop) in enumerate((((2, 2), 0.4), ((3,), 0.4), ((1, 2), 0.7))):
        data, best, weights = _descended(seed, widths, drop)
        nu = float(effective_strength(widths, drop))
        W = solution(data, nu)
        found.append(compare(product(weights), "==", W, f"map, widths {widths}", precision=1e-4))
        theta = nu * float((W @ data.xx * W).sum())
        error = float(data.yy.trace() - 2 * (W * data.yx).sum() + ((W @ data.xx) * W).sum())
        found.append(compare(error + theta, "==", best, f"value, widths {widths}", precision=1e-7))
        added = penalty(DeepLinear(list(weights)), data, law(weights, drop))
        found.append(compare(added, "==", theta, f"penalty, widths {widths}", precision=1e-4))
        found.append(compare(_distances(weights, data, drop)[2], "<=", 1e-3, f"equalized, widths {widths}"))
        least = _least_cost(seed, widths, drop)
        found.append(compare(least, "==", nu, f"least penalty over w C w^T, widths {widths}", precision=1e-7))
        for w in (W[0], normal(seed + 3, 2), torch.zeros_like(W[0])):
            layers = rank_one_network(tensor([1.0]), w, widths)
            found.append(compare(product(layers)[0], "==", w, f"the map, widths {widths}"))
            cost = masked_penalty(layers, data, drop)
            found.append(compare(cost, "==", nu * float(w @ data.xx @ w), f"reached, widths {widths}"))
    return found


def shallow_induced(scale: float) -> list[Comparison]:
    """Least penalty of a two-layer network: lam ||W C^1/2||_*^2 / width, found by descent over all networks of the map.

    Width above, at and below the number of outputs, one unit, and a map of lower rank. The library reaches it by the
    same map, its penalty over all masks. With two hidden layers the library's value is what descent finds as well.
    """
    found = []
    for seed, (sizes, drop) in enumerate((((4, 3, 3), 0.6), ((4, 5, 3), 0.3), ((3, 2, 4), 0.8), ((3, 1, 2), 0.5))):
        weights, data = network(seed, sizes), moments(seed, sizes[-1], sizes[0])
        lam, width, masks = drop / (1 - drop), sizes[1], law(weights, drop)
        if width == 5:
            weights[-1][:, 2:] = 0.0  # a map of rank two
        values, axes = torch.linalg.eigh(data.xx)
        root = axes * values.sqrt() @ axes.mT
        factors, shapes = factorizations(product(weights) @ root, width)

        def added(A: Tensor, C: Tensor, factors: Factors = factors, lam: float = lam) -> Tensor:
            U, V = factors(A, C)
            return lam * (U.square().sum(0) * V.square().sum(0)).sum()

        stated = scale * lam / width * torch.linalg.svdvals(product(weights) @ root).sum() ** 2
        label = f"sizes {sizes}"
        searched, _ = descend(added, shapes, starts=2, seed=seed)
        found.append(compare(searched, "==", stated, f"descent, {label}", precision=1e-6))
        least = induced(DeepLinear(weights), data, masks)
        found.append(compare(least, "==", stated, f"library, {label}", precision=1e-8))
        best = list(equalization.equalize(DeepLinear(weights), data, masks).weights)
        found.append(compare(masked_penalty(best, data, drop), "==", stated, f"reached, {label}"))
        found.append(compare(product(best), "==", product(weights), f"by the same map, {label}"))
    weights, data = network(1, (2, 2, 2, 2)), moments(1, 2, 2)

    def deeper(*below: Tensor) -> Tensor:
        return penalty_of([*below, torch.linalg.solve(product(below), product(weights), left=False)], data, 0.5)

    searched, _ = descend(deeper, [(2, 2)] * 2, starts=2)
    ours = induced(DeepLinear(weights), data, law(weights, 0.5))
    return [*found, compare(ours, "==", searched, "two hidden layers", precision=1e-6)]


def equalized_maps_of_any_rank() -> list[Comparison]:
    """Definition 5 where ||W C^1/2||_* is no Frobenius norm, with a rate for each layer.

    One hidden layer that `equalize` returns has equal summands; of other networks imbalance and gaps of all orders are
    what the summands say. The nuclear norm is that of W L, C = L L^T.
    """
    found = []
    for seed, sizes in enumerate(((4, 5, 3), (3, 2, 4), (3, 3, 2, 3), (4, 2, 5, 3, 2))):
        weights, data, widths = network(seed, sizes), moments(seed, sizes[-1], sizes[0]), sizes[1:-1]
        rates = [0.3, 0.6, 0.1][: len(widths)]
        masks = Product([Bernoulli(rate, width) for rate, width in zip(rates, widths, strict=True)])
        norm = float(torch.linalg.svdvals(product(weights) @ torch.linalg.cholesky(data.xx)).sum())
        orders = [list(subsets(range(len(widths)), count)) for count in range(1, len(widths) + 1)]
        terms = iter(pivot_terms(weights, data.xx))
        cost, gaps = 0.0, []
        for order in orders:
            odds = [math.prod(rates[i] / (1 - rates[i]) for i in layers) for layers in order]
            part = sum(odd * float(next(terms).square().sum()) for odd in odds)
            cost += part
            shares = (odd / math.prod(widths[i] for i in layers) for odd, layers in zip(odds, order, strict=True))
            gaps.append(part / sum(shares) / norm**2 - 1)
        nu = math.prod(1 + rate / (1 - rate) / width for rate, width in zip(rates, widths, strict=True)) - 1
        model = DeepLinear(weights)
        above = equalization.imbalance(model, data, masks)
        found.append(compare(above, "==", cost / (nu * norm**2) - 1, f"imbalance, sizes {sizes}"))
        found.append(compare(equalization.order_gaps(model, data, masks), "==", gaps, f"gaps, sizes {sizes}"))
        if len(widths) == 1:
            equal = equalization.equalize(model, data, masks)
            (term,) = pivot_terms(equal.weights, data.xx)
            found.append(compare(product(equal.weights), "==", product(weights), f"map, sizes {sizes}"))
            found.append(compare(term, "==", norm / widths[0], f"every summand, sizes {sizes}"))
            above = equalization.imbalance(equal, data, masks)
            found.append(compare(above, "==", 0.0, f"imbalance when equalized, sizes {sizes}"))
    return found
