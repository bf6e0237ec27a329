"""Any mask law: alternating exact least squares to a stationary point.

With K = 1 1^T + Cbar the criterion in white coordinates is ||T||^2 - 2 <T, U H^T> + <K, (U^T U) o (H^T H)>: quadratic
in U for fixed H and in H for fixed U, so each half step is one linear solve.
"""

from __future__ import annotations

import numpy as np
import scipy
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.spectra.roots import EPS

SWEEPS = 500
POLISH = 5000
STARTS = 6


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
    found = scipy.optimize.minimize(loss, origin, jac=True, method="L-BFGS-B", options=options)
    right = (found.x if found.fun <= loss(origin)[0] else origin).reshape(H.shape)
    return (float(spectrum[0, 0]) * best_left(right), right), int(found.nit)


def _half_step(linear: Array, other: Array, second: Array) -> Array:
    """Solve X [(other^T other) o second] = linear; a ridge at rounding level keeps dead units harmless."""
    normal = (other.swapaxes(1, 2) @ other) * second
    diagonal = np.arange(normal.shape[-1])
    normal[:, diagonal, diagonal] += 1e-15 * np.trace(normal, axis1=1, axis2=2)[:, None] + 1e-300
    return np.linalg.solve(normal, linear.swapaxes(1, 2)).swapaxes(1, 2)
