"""Variable projection for two-layer ReLU networks: the top layer in closed form, L-BFGS on the hidden one."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.checks import as_float_tensor, check_positive, check_same_kind, check_size
from droptics.data import Sample
from droptics.linalg.sums import products
from droptics.masks import MaskLaw
from droptics.models import ReLUNet


@dataclass(frozen=True, eq=False)
class Projection:
    """What variable projection found."""

    model: ReLUNet  # the network, with its top layer optimal for its hidden layer
    objective: float  # risk + dropout penalty of the model
    gradient_norm: float  # norm of the gradient with respect to the hidden weights (the top layer is stationary)
    history: tuple[tuple[float, float], ...] = ()  # (CPU seconds, objective) after every iteration, from the start on
    converged: bool = False  # whether the optimizer stopped by its tolerance rather than by the iteration limit


def top_layer(features: Tensor, sample: Sample, masks: MaskLaw) -> Tensor:
    """The top weights U (outputs, units) that minimize E |y - U z a|^2 for fixed features a (n, units) (thesis-prop5).

    U^T = ((1 + Cbar) o G)^+ E a y^T with G = E a a^T; for ordinary dropout (G + lambda diag G)^{-1} E a y^T. Units that
    are never active get zero weights. One Cholesky factorization, or the least-norm solution where the system is
    singular: O(n units^2 + units^3). Sums are float64, whatever the features: float32 would forget half of the
    directions that it can tell apart.
    """
    roots = sample.shares.double().sqrt()[:, None]
    weighted = features.double() * roots
    gram, right = products(weighted, weighted), products(weighted, sample.targets.double() * roots)
    return _solve(gram + masks.hadamard(gram), right).mT.to(features.dtype)


def variable_projection(  # parameters: keywords with defaults after the problem and its start
    data: Sample,
    masks: MaskLaw,
    hidden: Tensor | None = None,
    *,
    iterations: int = 100,
    tolerance: float = 1e-8,
    memory: int = 20,
    seed: int = 0,
) -> Projection:
    """Minimize risk + dropout penalty over two-layer ReLU networks without biases, U relu(V x), width = masks.size.

    For every hidden layer V the top layer is solved exactly, so the search is over V alone; the gradient in V is the
    partial one at the optimal top layer, because the objective is stationary in U. `hidden` (width, inputs) is the
    start, Gaussian with variance 2 / inputs when None. The objective is not convex in V: the result is a stationary
    point with its gradient norm, not a certified optimum. O(n width (inputs + width)) per iteration.
    """
    if not data.targets.is_floating_point() or data.inputs.ndim != 2:
        raise ValueError("data must hold vectors and floating-point targets")
    check_positive("iterations", iterations)
    width, inputs = masks.size, data.inputs.shape[1]
    if hidden is None:
        generator = torch.Generator().manual_seed(int(seed))
        noise = torch.randn(width, inputs, generator=generator, dtype=torch.float64)
        hidden = (noise * (2 / inputs) ** 0.5).to(data.inputs)
    hidden = as_float_tensor(hidden, "hidden", 2).detach()
    check_size("hidden (rows)", hidden.shape[0], width, "the mask law covers one unit per row")
    check_size("hidden (columns)", hidden.shape[1], inputs, "one column per input feature")
    check_same_kind({"data": data.inputs, "hidden": hidden})

    start = time.process_time()
    latest: list[float] = []
    history: list[tuple[float, float]] = []

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        rows = torch.from_numpy(flat).to(hidden).reshape(width, inputs)
        value, gradient, _ = _value_and_gradient(rows, data, masks)
        latest.append(value)
        return value, gradient.double().cpu().numpy().reshape(-1)

    def record(_: NDArray[np.float64]) -> None:
        history.append((time.process_time() - start, min(latest)))

    origin = hidden.double().cpu().numpy().reshape(-1)
    history.append((0.0, objective(origin)[0]))
    limits = {"maxiter": iterations, "maxcor": memory, "ftol": tolerance, "gtol": 0.0, "maxfun": 10 * iterations}
    found = scipy.optimize.minimize(objective, origin, jac=True, method="L-BFGS-B", callback=record, options=limits)
    rows = torch.from_numpy(found.x).to(hidden).reshape(width, inputs)
    value, gradient, top = _value_and_gradient(rows, data, masks)
    return Projection(ReLUNet([rows, top]), value, float(gradient.norm()), tuple(history), found.status == 0)


@torch.no_grad()
def _value_and_gradient(rows: Tensor, data: Sample, masks: MaskLaw) -> tuple[float, Tensor, Tensor]:
    """Objective at the optimal top layer, its gradient in the hidden weights, and that layer."""
    features = torch.relu(data.inputs @ rows.mT)
    top = top_layer(features, data, masks)
    share = data.shares[:, None]
    residual = features @ top.mT - data.targets
    weighted = residual * share
    spread = masks.correlate(features, top)  # the penalty is E a^T (Cbar o U^T U) a
    value = float((weighted * residual).sum() + (features * share * spread).sum())
    slope = 2 * (weighted @ top + spread * share) * (features > 0)
    return value, slope.mT @ data.inputs, top


def _solve(system: Tensor, right: Tensor) -> Tensor:
    """Solve a positive semi-definite system scaled to unit diagonal; least-norm solution where it is singular."""
    diagonal = torch.diagonal(system)
    alive = diagonal > 0
    scale = torch.where(alive, diagonal, 1.0).rsqrt()
    scaled = system * scale[:, None] * scale + torch.diag((~alive).to(system))
    lower, info = torch.linalg.cholesky_ex(scaled)
    smallest = torch.diagonal(lower).amin() if int(info) == 0 else torch.zeros(())
    # below this pivot the factorization has lost half of its digits
    if float(smallest) ** 2 > len(system) * torch.finfo(system.dtype).eps:
        return torch.cholesky_solve(right * scale[:, None], lower) * scale[:, None]
    return torch.linalg.pinv(scaled, hermitian=True) @ (right * scale[:, None]) * scale[:, None]
