"""Any mask law: alternating exact least squares to a stationary point, with a proved lower bound.

With K = 1 1^T + Cbar the criterion in white coordinates is ||T||^2 - 2 <T, U H^T> + <K, (U^T U) o (H^T H)>: quadratic
in U for fixed H and in H for fixed U, so each half step is one linear solve.

Lower bounds on the penalty <Cbar, (U^T U) o (H^T H)> of a product A = U H^T (droptics-mask-bounds):
(a) ||A||_F^2 / (1^T Cbar^+ 1): A is a contraction, of norm (1^T Cbar^+ 1)^(1/2), of the stack sum_i L_i (x) u_i h_i^T
    whose squared norm is the penalty, Cbar = L^T L.
(b) ||A||_*^2 / (1^T K^+ 1), K = sum_I (alpha_I / |I|) 1_I 1_I^T, whenever Cbar = sum_I alpha_I 1_I 1_I^T, alpha >= 0,
    over intervals I (Bernoulli, Block, SlidingBlock): A = sum_I c_I B_I for all weights c that cover each unit once,
    ||B_I||_* <= |I|^(1/2) ||B_I||_F, Cauchy-Schwarz, and the best c. A constant diagonal gamma gives gamma / width.
(c) ||A||_*^2 / sum_i (1 / D_i) for every diagonal 0 < D <= Cbar, by Cauchy-Schwarz.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from droptics.arrays import Array
from droptics.envelopes.whitening import EPS, White
from droptics.linalg import shrink
from droptics.masks import MaskLaw

SWEEPS = 500
POLISH = 5000
STARTS = 6


def frobenius_strength(characteristic: Tensor) -> float:
    """Bound (a): 1 / (1^T Cbar^+ 1), zero when the vector of ones is not in the range of Cbar."""
    return _ones_form(characteristic)


def nuclear_strength(characteristic: Tensor) -> float:
    """The better of bounds (b) and (c) for the squared nuclear norm."""
    found = 0.0
    intervals = interval_weights(characteristic)
    if intervals is not None:
        size = len(characteristic)
        length = (torch.arange(size) - torch.arange(size)[:, None] + 1).clamp_min(1).to(intervals)
        found = _ones_form(_covering(intervals / length))
    diagonal = torch.diagonal(characteristic)
    if bool((diagonal > 0).all()):
        scaled = characteristic / torch.outer(diagonal.sqrt(), diagonal.sqrt())
        lowest = float(torch.linalg.eigvalsh(scaled)[0])
        found = max(found, lowest / float((1 / diagonal).sum()))
    return found


def interval_weights(characteristic: Tensor) -> Tensor | None:
    """Alpha (first, last) with Cbar_ij = sum of alpha over the intervals that hold i and j; None if any is negative."""
    size = len(characteristic)
    padded = torch.zeros(size + 1, size + 1, dtype=characteristic.dtype)
    padded[1:, :-1] = characteristic.detach().cpu()
    alpha = padded[1:, :-1] - padded[:-1, :-1] - padded[1:, 1:] + padded[:-1, 1:]
    alpha = alpha.triu()
    level = 1e-12 * float(characteristic.abs().max())
    return None if bool((alpha < -level).any()) else alpha.clamp_min(0)


def _covering(weights: Tensor) -> Tensor:
    """sum_I weights_I 1_I 1_I^T from weights by (first, last): entry (i, j) sums first <= i, last >= j."""
    upper = weights.cumsum(0).flip(1).cumsum(1).flip(1).triu()
    return upper + upper.triu(1).mT


def _ones_form(matrix: Tensor) -> float:
    """At most 1 / (1^T matrix^+ 1) for a positive semi-definite matrix; 0 when 1 is not in its range.

    Eigenvalues are known up to a level of rounding, and all of them may be smaller by that.
    """
    values, vectors = torch.linalg.eigh((matrix + matrix.mT) / 2)
    kept = values > 1e-10 * values[-1].clamp_min(0)
    weights = vectors.sum(0).square()
    if float(weights[~kept].sum()) > 1e-10 * len(matrix) or not bool(kept.any()):
        return 0.0
    level = 4 * len(matrix) * EPS * values[-1]
    return 1.0 / float((weights / (values - level).clamp_min(level)).sum())


def general_bound(white: White, masks: MaskLaw) -> tuple[float, str]:
    """The best mixture of the Frobenius and the nuclear bound on the penalty, minimized over maps of this width.

    For w in [0, 1] the penalty is at least w kappa ||A||_*^2 + (1 - w) b ||A||_F^2, and the minimum with the distance
    to T is a shrinkage again; every w gives a valid bound, the largest is returned.
    """
    values = torch.linalg.svdvals(white.target.detach().double())
    characteristic = masks.characteristic.detach().double()
    plain, nuclear = frobenius_strength(characteristic), nuclear_strength(characteristic)
    best = max(_mixed(values, (1 - w / 20) * plain, w / 20 * nuclear, masks.size) for w in range(21))
    return white.floor(best), "droptics-mask-bounds"


def _mixed(values: Tensor, plain: float, nuclear: float, width: int) -> float:
    """Least of ||s - x||^2 + plain ||x||^2 + nuclear (sum x)^2 over x >= 0 with at most `width` entries."""
    kept = values / (1 + plain)
    shrunk = shrink(kept, nuclear * width / (1 + plain), width)
    loss = (values - shrunk).square().sum() + plain * shrunk.square().sum() + nuclear * shrunk.sum().square()
    return float(loss)


def general_factors(white: White, masks: MaskLaw) -> tuple[Tensor, Tensor, int, str]:
    """White factors at a stationary point of the criterion, their rank, and how they were found."""
    target = white.target
    U, H, rank, method = alternate(target.detach().double(), masks.characteristic.detach().to(target.device))
    return U.to(target), H.to(target), rank, method


def alternate(target: Tensor, characteristic: Tensor, seed: int = 0) -> tuple[Tensor, Tensor, int, str]:
    """Alternating exact least squares from several random starts at once, the best one polished by L-BFGS.

    Every half step is the exact minimum over one factor, so the criterion never rises. The starts stop when
    together they gain less than 1e-15 of the energy in 20 sweeps; where valleys are too flat for that, L-BFGS on one
    factor, the other solved for, goes on. O(starts width^3) a sweep, on the CPU, in the coordinates of the singular
    vectors of the target.
    """
    left, values, outer = torch.linalg.svd(target, full_matrices=False)
    kept = values > max(target.shape) * EPS * values[:1]
    left, values, right = left[:, kept], values[kept], outer[kept].mT
    size, rank = len(characteristic), len(values)
    if rank == 0:
        return target.new_zeros(target.shape[0], size), target.new_zeros(target.shape[1], size), 0, "closed form"
    spectrum = values.cpu().numpy()[:, None]
    second = 1.0 + characteristic.cpu().numpy()
    H = np.random.default_rng(seed).normal(size=(STARTS, rank, size)) * np.sqrt(spectrum / size)
    energy = float((spectrum**2).sum())
    U, last, sweep = H, np.inf, 0
    for sweep in range(1, SWEEPS + 1):
        U = _half_step(spectrum * H, H, second)
        H = _half_step(spectrum * U, U, second)
        if sweep % 20 == 0:
            total = float((spectrum * U * H).sum())
            if abs(total - last) <= 1e-15 * energy:
                break
            last = total
    best = int((spectrum * U * H).sum((1, 2)).argmax())
    method = f"alternating least squares, {STARTS} starts, {sweep} sweeps"
    pair = U[best], H[best]
    if sweep == SWEEPS:
        pair, steps = _polished(spectrum, pair[1], second)
        method += f", {steps} L-BFGS steps"
    product = np.linalg.svd(pair[0] @ pair[1].T, compute_uv=False)
    found = int((product > 1e-9 * max(product[0], 1e-300)).sum())
    inner = [torch.from_numpy(part).to(target) for part in pair]
    return left @ inner[0], right @ inner[1], found, method


def _polished(spectrum: Array, H: Array, second: Array) -> tuple[tuple[Array, Array], int]:
    """L-BFGS on H with the exact U for every H, at which the slope in H is all of it; never worse than its start."""
    values = spectrum / spectrum[0, 0]

    def best_left(right: Array) -> Array:
        return _half_step((values * right)[None], right[None], second)[0]

    def loss(flat: Array) -> tuple[float, Array]:
        right = flat.reshape(H.shape)
        left = best_left(right)
        slope = right @ ((left.T @ left) * second) - values * left
        return -float((values * left * right).sum()), 2 * slope.ravel()

    origin = (H / np.linalg.norm(H, axis=0).clip(min=1e-300)).ravel()  # the length of a column plays no part
    options = {"maxiter": POLISH, "maxfun": 2 * POLISH, "maxcor": 50, "ftol": 0.0, "gtol": 1e-12}
    found = minimize(loss, origin, jac=True, method="L-BFGS-B", options=options)
    right = (found.x if found.fun <= loss(origin)[0] else origin).reshape(H.shape)
    return (float(spectrum[0, 0]) * best_left(right), right), int(found.nit)


def _half_step(linear: Array, other: Array, second: Array) -> Array:
    """Solve X [(other^T other) o second] = linear; a ridge at rounding level keeps dead units harmless."""
    normal = (other.swapaxes(1, 2) @ other) * second
    diagonal = np.arange(normal.shape[-1])
    normal[:, diagonal, diagonal] += 1e-15 * np.trace(normal, axis1=1, axis2=2)[:, None] + 1e-300
    return np.linalg.solve(normal, linear.swapaxes(1, 2)).swapaxes(1, 2)
