"""What the claim on landscapes of tied networks compares: critical points, listed and searched, by their Hessians."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from scipy.optimize import minimize, root
from torch import Tensor

from droptics.arrays import Array
from droptics.data import Moments
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes import critical_points, inspect
from droptics.masks import Bernoulli
from droptics.models import Autoencoder
from droptics.papers.instances import normal, tensor


class _Tied:
    """||M - U U^T||^2 + lam sum ||u_i||^4 of weights in one vector, with its derivatives."""

    def __init__(self, M: Array, lam: float, width: int) -> None:
        self.M, self.lam, self.shape = M, lam, (len(M), width)

    def value(self, flat: Array) -> float:
        U = flat.reshape(self.shape)
        return float(((self.M - U @ U.T) ** 2).sum() + self.lam * ((U**2).sum(0) ** 2).sum())

    def slope(self, flat: Array) -> Array:
        U = flat.reshape(self.shape)
        return (-4 * (self.M - U @ U.T) @ U + 4 * self.lam * U * (U**2).sum(0)).ravel()

    def curvature(self, flat: Array) -> float:
        """The least eigenvalue of the Hessian, by differences of slopes, exact for their cubic up to rounding."""
        step, eye = 1e-4, np.eye(len(flat))
        rows = [(self.slope(flat + step * unit) - self.slope(flat - step * unit)) / (2 * step) for unit in eye]
        return float(np.linalg.eigvalsh((np.array(rows) + np.array(rows).T) / 2)[0])

    def least(self) -> float:
        """The global minimum: the best of all ranks."""
        size, width = self.shape
        values = np.linalg.eigvalsh(self.M)[::-1]
        found = math.inf
        for rank in range(min(size, width) + 1):
            kept = values[:rank] - self.lam * values[:rank].sum() / (width + self.lam * rank)
            if rank == 0 or kept.min() >= 0:
                rest = (values[:rank] - kept) @ (values[:rank] - kept) + values[rank:] @ values[rank:]
                found = min(found, float(rest + self.lam / width * kept.sum() ** 2))
        return found


def benign(lams: Sequence[float], allowed: Sequence[str]) -> list[Comparison]:
    """Critical points, listed or searched, are global minima or curved downwards; descents end at the minimum.

    The inputs have E x x^T = c I. On inputs that are not isotropic a local minimum need not be global.
    """
    found: list[Comparison] = []
    c = 2.5
    for lam in lams:
        for eigenvalues, width in (((2.0, 1.0, -1.0), 2), ((1.0, 1.0), 3), ((1.0, 0.4), 1), ((-0.5, -2.0), 2)):
            turn = np.linalg.qr(normal(width, len(eigenvalues), len(eigenvalues)).numpy())[0]
            M = turn * np.array(eigenvalues) @ turn.T
            tied = _Tied((M + M.T) / 2, lam, width)
            least, label = tied.least(), f"lam={lam}, width {width}, {eigenvalues}"
            places: list[Array] = []
            map_ = tensor(tied.M)
            data = Moments(c * torch.eye(len(map_)).double(), c * map_, c * map_ @ map_)
            for point in critical_points(Autoencoder, data, Bernoulli(lam / (1 + lam), width)):
                flat = point.model.U.numpy().ravel()
                places.append(flat)
                found.append(compare(float(point.kind in allowed), "==", 1.0, f"{point.kind} at {label}"))
                found.append(compare(point.objective / c, "==", tied.value(flat), f"criterion of a point, {label}"))
                lowest = float(abs(tied.value(flat) - least) < 1e-7)
                found.append(compare(float(point.kind == "global minimum"), "==", lowest, f"minima at {label}"))
            rng = np.random.default_rng(width)
            starts = [rng.normal(size=len(eigenvalues) * width) for _ in range(6)]
            searched = [root(tied.slope, start, tol=1e-13).x for start in starts]
            places += [place for place in searched if np.abs(tied.slope(place)).max() < 1e-9]
            for place in places:
                found.append(compare(tied.slope(place), "==", 0.0, f"slope at {label}", precision=1e-6))
                if abs(tied.value(place) - least) > 1e-7:
                    found.append(compare(tied.curvature(place), "<", -1e-4, f"curved downwards at {label}"))
            for start in starts[:2]:
                options = {"ftol": 1e-15, "gtol": 1e-9}
                end = minimize(tied.value, start, jac=tied.slope, method="L-BFGS-B", options=options)
                found.append(compare(end.fun, "==", least, f"descent at {label}", precision=1e-6))
    return [*found, *_next_to_one(allowed), *_uneven_inputs()]


def _next_to_one(allowed: Sequence[str]) -> list[Comparison]:
    """One unit at a rate next to 1: none, and one for each of two eigenvectors, without cancellation."""
    M, rate = torch.diag(tensor([1.9, 0.7])), 1 - 3e-13
    tied = _Tied(M.numpy(), rate / (1 - rate), 1)
    points = critical_points(Autoencoder, Moments.of_map(M), Bernoulli(rate, 1))
    found = [compare(len(points), "==", 3, "points at a rate next to 1")]
    for k, point in enumerate(points):
        flat = point.model.U.numpy().ravel()
        slope = tied.slope(flat) / max(float(np.abs(flat).max()), 1e-300)
        found.append(compare(slope, "==", 0.0, "slope by the weight, at a rate next to 1"))
        found.append(compare(float(point.kind in allowed), "==", 1.0, f"{point.kind} at a rate next to 1"))
        found.append(compare(float(point.kind == "global minimum"), "==", float(k == 0), "minima at a rate next to 1"))
    return found


def _uneven_inputs() -> list[Comparison]:
    """One unit, M = diag(2.1, 1), E x x^T = diag(1, 4): both axes have a minimum, and the second is not global."""
    found, lam = [], 0.05
    M, C = tensor([2.1, 1.0]), tensor([1.0, 4.0])

    def value(U: Tensor, lam: float = lam) -> Tensor:
        W = U @ U.mT - torch.diag(M)
        return ((W * C) * W).sum() + lam * (U.square().sum(0) * (C @ U.square())).sum()

    data, kinds = Moments(torch.diag(C), torch.diag(M * C), torch.diag(M * C * M)), []
    for axis in range(2):
        U = ((M / (1 + lam)).sqrt() * torch.eye(2).double()[axis])[:, None]
        found.append(compare(torch.func.grad(value)(U), "==", 0.0, f"slope on axis {axis}"))
        curvatures = torch.linalg.eigvalsh(torch.func.hessian(value)(U).reshape(2, 2))
        found.append(compare(curvatures, ">", 1.0, f"curvatures on axis {axis}"))
        seen = inspect(Autoencoder(U), data, Bernoulli(lam / (1 + lam), 1))
        kinds.append(seen)
        found.append(compare(seen.objective, "==", value(U), f"criterion on axis {axis}"))
        found.append(compare(seen.curvature, "==", curvatures[0], f"least curvature on axis {axis}"))
    found.append(compare(kinds[1].objective, ">", kinds[0].objective, "a minimum that is not global"))
    found.append(compare(float(kinds[1].kind == "local minimum"), "==", 1.0, kinds[1].kind))
    for other in (0.0, 9.0):
        axes = (M / (1 + other)).sqrt() * torch.eye(2).double()
        seen = inspect(Autoencoder(axes[:, 1:]), data, Bernoulli(other / (1 + other), 1))
        found.append(compare(float(seen.kind == "local minimum"), "==", 1.0, f"{seen.kind} at lam={other}"))
        found.append(compare(seen.objective, ">", value(axes[:, :1], other), f"not global at lam={other}"))
    return found
