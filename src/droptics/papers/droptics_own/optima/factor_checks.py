"""What the claims on two-layer networks compare: saddles, all optimal factors and unequal rates by searches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import least_squares, nnls
from torch import Tensor

from droptics.arrays import Array
from droptics.data import Moments
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes import inspect, spurious_minimum
from droptics.linalg import psd_root, shrink_unequal
from droptics.masks import Bernoulli
from droptics.models import Autoencoder, DeepLinear, TwoLayerLinear
from droptics.optima import optimum
from droptics.optima.two_layer import optimal_factors
from droptics.papers.droptics_own.telling import refuses
from droptics.papers.instances import descend, moments, normal, tensor
from droptics.papers.mianjy2018.landscape_checks import group_points
from droptics.penalties import criterion

Derivative = Callable[[Array], Array]


def _derivatives(M: Array, lam: float, width: int) -> tuple[Derivative, Derivative]:
    """Gradient and Hessian of ||M - U V^T||^2 + lam sum_i |u_i|^2 |v_i|^2 in U above V, written out."""
    rows, columns = M.shape
    ways = np.eye((rows + columns) * width).reshape(-1, rows + columns, width)
    dU, dV = ways[:, :rows], ways[:, rows:]

    def slope(flat: Array) -> Array:
        U, V = np.split(flat.reshape(-1, width), [rows])
        R = U @ V.T - M
        return 2 * np.concatenate([R @ V + lam * U * (V * V).sum(0), R.T @ U + lam * V * (U * U).sum(0)]).ravel()

    def curvature(flat: Array) -> Array:
        U, V = np.split(flat.reshape(-1, width), [rows])
        R, moved = U @ V.T - M, dU @ V.T + U @ dV.transpose(0, 2, 1)
        left = moved @ V + R @ dV + lam * (dU * (V * V).sum(0) + 2 * U * (V * dV).sum(1, keepdims=True))
        right = moved.transpose(0, 2, 1) @ U + R.T @ dU
        right += lam * (dV * (U * U).sum(0) + 2 * V * (U * dU).sum(1, keepdims=True))
        return 2 * np.concatenate([left, right], 1).reshape(len(ways), -1)

    return slope, curvature


def _priced(T: Tensor, lam: Tensor | float) -> Callable[[Tensor, Tensor], Tensor]:
    """||T - U H^T||^2 + sum_i lam_i |u_i|^2 |h_i|^2, the criterion in white coordinates without its noise."""

    def objective(U: Tensor, H: Tensor) -> Tensor:
        return (T - U @ H.mT).square().sum() + (lam * U.square().sum(0) * H.square().sum(0)).sum()

    return objective


def untied(hidden: int) -> list[Comparison]:
    """Descent from random starts ends in the optimum; critical points off it have negative curvature.

    Maps of full and of lower rank, with equal singular values and zero; fewer and more units than outputs; rates on
    both sides of the printed threshold. Critical points are the equalized ones of every set of singular values, and
    those that searches for a zero gradient find, of other kinds too. The same of two hidden layers fails at a local
    minimum of criterion 1.36 beside the optimum 10/9.
    """
    found, seen = [], 0
    if hidden == 2:
        model, data, masks = spurious_minimum()
        inspected = inspect(model, data, masks)
        assert inspected.kind == "local minimum"
        best = optimum(DeepLinear, data, masks).objective
        found.append(compare(inspected.objective, "==", best, "local minimum of two hidden layers"))
    skew, tied = tensor([[2.0, 0.3], [0.0, 1.0], [0.5, 0.2]]), tensor([[1.0, 0.0], [0.0, 1.0]])
    lower, none = torch.outer(tensor([1.0, -0.5]), tensor([0.6, 1.0])), torch.zeros(1, 2, dtype=torch.float64)
    cases = ((skew, 0.5, 2), (skew, 5.0, 2), (skew, 0.1, 1), (tied, 1.0, 3), (lower, 0.3, 2), (none, 1.0, 2))
    for M, lam, width in cases:
        rows, columns = M.shape
        name = f"{rows} x {columns}, lam={lam}, width {width}"
        best = optimum(TwoLayerLinear, Moments.of_map(M), Bernoulli(lam / (1 + lam), width)).objective

        priced, (slope, curvature) = _priced(M, lam), _derivatives(M.numpy(), lam, width)
        points = []
        for seed in range(3):
            value, ends = descend(priced, [(rows, width), (columns, width)], starts=1, seed=seed)
            found.append(compare(value, "==", best, f"descent, {name}", precision=1e-6))
            points.append(torch.cat(ends))
        P, s, Rh = torch.linalg.svd(M, full_matrices=False)
        for W in group_points(s, lam, width):  # equalized factors of some singular values
            points.append(torch.cat([P, Rh.mT]) @ W)
            found.append(compare(slope(points[-1].numpy()), "==", 0.0, f"gradient, {name}", precision=1e-6))
        for seed in range(5):
            begin = normal(seed, (rows + columns) * width).numpy()
            end = least_squares(slope, begin, curvature, xtol=1e-15, ftol=1e-15, gtol=1e-15, max_nfev=40).x
            if np.abs(slope(end)).max() < 1e-9:
                points.append(torch.from_numpy(end).reshape(-1, width))
        for point in points:
            if float(priced(point[:rows], point[rows:])) > best + 1e-5:
                seen += 1
                least = np.linalg.eigvalsh(curvature(point.numpy()))[0]
                found.append(compare(least, "<", 0.0, f"least curvature off the optimum, {name}", precision=1e-4))
    found.append(compare(float(seen), ">", 20.0, "saddles that were looked at"))
    return found


def all_factors(equalized: bool) -> list[Comparison]:
    """Rotated, equalized and rescaled factors are optimal, and those that descent finds arise so.

    Of the factors of descent the scales are read off the norms of their columns, the rotation off their products with
    the optimal pair. Without equalizing again rotated factors are not optimal. Tied ones, on a map with a skew part and
    a negative eigenvalue, likewise, their scales signs; laws with several rates are refused.
    """
    found = _tied_factors(equalized)
    several = optimum(TwoLayerLinear, moments(0, 3, 4), Bernoulli(tensor([0.2, 0.5]), 2))
    found.append(refuses(lambda: optimal_factors(several), "independent units with one rate"))
    for seed, (drop, width, rank) in enumerate(((0.3, 3, 4), (0.6, 2, 4), (0.2, 5, 4), (0.3, 3, 2))):
        data, masks = moments(seed, 3, 4, rank), Bernoulli(drop, width)
        best = optimum(TwoLayerLinear, data, masks)
        assert isinstance(best.model, TwoLayerLinear)
        name, turn = f"drop {drop}, width {width}, rank {rank}", torch.linalg.qr(normal(seed + 5, width, width)).Q
        sizes = tensor([2.0, -0.5, 3.0, 0.7, -1.0])[:width]
        other, plain = optimal_factors(best, turn, sizes), optimal_factors(best, turn)
        assert isinstance(other, TwoLayerLinear)
        assert isinstance(plain, TwoLayerLinear)
        found.append(compare(other.U, "==", plain.U * sizes, f"nodes rescaled, {name}"))
        found.append(compare(other.V, "==", plain.V / sizes, f"and their other side, {name}"))
        if not equalized:
            other = TwoLayerLinear(best.model.U @ turn, best.model.V @ turn)
        found.append(compare(criterion(other, data, masks), "==", best.objective, f"other factors, {name}"))
        if rank < 4:
            continue

        white = psd_root(data.xx)
        target = torch.linalg.solve(white, data.yx.mT).mT
        value, (U, H) = descend(_priced(target, drop / (1 - drop)), [(3, width), (4, width)], starts=1, seed=seed)
        noise, V = float(data.yy.trace() - target.square().sum()), torch.linalg.solve(white, H)
        found.append(compare(value + noise, "==", best.objective, f"descent, {name}", precision=1e-8))
        scales = (U.norm(dim=0) / H.norm(dim=0)).sqrt()
        # the largest trace(R^T (U0^T U' + V0^T C V')) of a rotation R: two pairs of one product differ by it alone
        cross = best.model.U.mT @ (U / scales) + (white @ best.model.V).mT @ (H * scales)
        left, _, right = torch.linalg.svd(cross)
        same = optimal_factors(best, left @ right, scales)
        assert isinstance(same, TwoLayerLinear)
        # descent ends where its value has some 1e-12 to lose, and its factors the root of that
        found.append(compare(same.U, "==", U, f"the factors that descent finds, {name}", precision=1e-4))
        found.append(compare(same.V, "==", V, f"the others, {name}", precision=1e-4))
    return found


def _tied_factors(equalized: bool) -> list[Comparison]:
    """Tied factors, rotated, equalized again and with other signs, by their objective written out and by descent."""
    found: list[Comparison] = []
    turned, lam = torch.linalg.qr(normal(3, 4, 4)).Q, 0.4 / 0.6
    M = turned * tensor([2.0, 1.1, 0.7, -0.5]) @ turned.mT + (normal(4, 4, 4) - normal(4, 4, 4).mT) / 5
    for width in (2, 5):

        def priced(U: Tensor) -> Tensor:
            return (M - U @ U.mT).square().sum() + lam * U.square().sum(0).square().sum()

        best = optimum(Autoencoder, Moments.of_map(M), Bernoulli(0.4, width))
        turn, signs = torch.linalg.qr(normal(width, width, width)).Q, tensor([1.0, -1.0, -1.0, 1.0, -1.0])[:width]
        other, plain = optimal_factors(best, turn, signs), optimal_factors(best, turn)
        assert isinstance(best.model, Autoencoder)
        found.append(compare(other.U, "==", plain.U * signs, f"signs of tied nodes, width {width}"))
        U = other.U if equalized else best.model.U @ turn
        found.append(compare(priced(U), "==", best.objective, f"other tied factors, width {width}"))
        value, (U,) = descend(priced, [(4, width)], starts=1, seed=width)
        found.append(compare(value, "==", best.objective, f"tied descent, width {width}", precision=1e-8))
        left, _, right = torch.linalg.svd(best.model.U.mT @ U)
        told = optimal_factors(best, left @ right).U
        # descent ends where its value has some 1e-12 to lose, and its factors the root of that
        found.append(compare(told, "==", U, f"the tied factors that descent finds, width {width}", precision=1e-4))
        found.append(refuses(lambda best=best: optimal_factors(best, None, best.model.U[0] + 3), "must be +1 or -1"))
    return found


def unequal_program(values: Tensor, strengths: Tensor) -> tuple[float, Array, Array]:
    """Least sum (values - x)^2 + sum strengths n^2 over n majorized by x, as a projection on a cone.

    Sorted: x and n fall, the sums of the first k of n are at most those of x, all sums are equal.
    """
    width = len(strengths)
    wanted, largest = np.zeros(width), values.sort(descending=True).values[:width]
    wanted[: len(largest)] = largest.numpy()
    rates = strengths.sort().values.clamp_min(1e-12).numpy()  # a unit that is never dropped costs next to nothing
    fall, ahead = np.eye(width) - np.eye(width, k=1), np.tril(np.ones((width, width)))
    zero = np.zeros_like(fall)
    kept = np.block([[fall, zero], [zero, fall], [ahead, -ahead], [-ahead[-1:], ahead[-1:]]])
    # ||y - s||^2 over kept s >= 0 in units where the cost is that: s = y + kept^T mu for the best mu >= 0
    units = np.sqrt(np.concatenate([np.ones(width), rates]))
    aim = np.concatenate([wanted, np.zeros(width)])
    multipliers, _ = nnls((kept / units).T, -aim, maxiter=1000)
    x, n = np.split((aim + (kept / units).T @ multipliers) / units, 2)
    lost = float(values.square().sum()) - float((wanted**2).sum())
    return float(((aim - units * np.concatenate([x, n])) ** 2).sum()) + lost, x, n


def unequal_rates(scale: float) -> list[Comparison]:
    """Optima with one rate per unit against descent, and pooling against a solver of the quadratic program.

    Correlated inputs and noisy labels; fewer and more units than outputs; equal rates, units that are never dropped.
    """
    found = []
    pooled_all = (0.02, 0.03, 0.025)  # one level for all units, below all values
    cases = ((0.2, 0.6), (0.1, 0.5, 0.7), pooled_all, (0.6, 0.0, 0.3), (0.4, 0.4), (0.5,), (0.7, 0.2, 0.3, 0.9, 0.25))
    for seed, drops in enumerate(cases):
        data, rates = moments(seed, 3, 2 + seed % 3), tensor(drops)
        lam = rates / (1 - rates)
        target = torch.linalg.solve(psd_root(data.xx), data.yx.mT).mT
        noise = float(data.yy.trace() - target.square().sum())
        value = descend(_priced(target, lam), [(3, len(drops)), (len(data.xx), len(drops))], starts=1)[0] + noise
        ours = optimum(TwoLayerLinear, data, Bernoulli(rates, len(drops)))
        found.append(compare(ours.objective, "==", scale * value, f"descent, rates {drops}", precision=1e-6))
        found.append(compare(ours.gap, "==", 0.0, "certificate"))
        spectrum = torch.linalg.svdvals(target)
        least, x, n = unequal_program(spectrum, lam)
        found.append(compare(ours.objective, "==", scale * (least + noise), f"program, rates {drops}", precision=1e-8))
        wanted = torch.zeros_like(spectrum)
        wanted[: len(x)] = tensor(x[: len(spectrum)])
        pooled, shares = shrink_unequal(spectrum.flip(0), lam)  # the smallest value first: each answer in its place
        rough = 1e-6 if min(drops) > 0 else 1e-4  # next to no cost is in units of 1e-6, which takes digits
        found.append(compare(pooled.flip(0), "==", wanted, f"spectrum, {drops}", precision=rough))
        found.append(compare(shares[lam.argsort(stable=True)], "==", tensor(n), f"shares, {drops}", precision=rough))
    return found
