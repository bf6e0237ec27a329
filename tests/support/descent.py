"""Descent from many starts at once: the oracle that no claimed optimum may lose to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from droptics.data import Moments


def descend(
    loss: Callable[..., Tensor], shapes: list[tuple[int, ...]], starts: int = 50, steps: int = 300, seed: int = 0
) -> Tensor:
    """Losses (starts,) reached by L-BFGS from Gaussian starts; `loss` takes one tensor (starts, *shape) per shape.

    The starts are independent problems that share one quasi-Newton run, so that each iteration is one batched call.
    """
    generator = torch.Generator().manual_seed(seed)
    begin = [torch.randn(starts, *shape, generator=generator, dtype=torch.float64) for shape in shapes]
    sizes = [part.numel() for part in begin]

    def unpack(flat: np.ndarray) -> list[Tensor]:
        parts = torch.from_numpy(flat).split(sizes)
        return [part.reshape(starts, *shape) for part, shape in zip(parts, shapes, strict=True)]

    def value_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        parts = [part.clone().requires_grad_() for part in unpack(flat)]
        total = loss(*parts).sum()
        gradients = torch.autograd.grad(total, parts)
        return float(total.detach()), torch.cat([gradient.flatten() for gradient in gradients]).numpy()

    x = torch.cat([part.flatten() for part in begin]).numpy()
    options = {"maxiter": steps, "maxfun": 2 * steps, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 20}
    found = minimize(value_and_gradient, x, jac=True, method="L-BFGS-B", options=options).x
    return loss(*unpack(found)).detach()


def descend_two_layer(
    moments: Moments, characteristic: Tensor, starts: int = 50, sweeps: int = 600, seed: int = 0
) -> np.ndarray:
    """Criteria (starts,) of two-layer networks reached by block descent: each layer in turn is solved for exactly.

    Written out from E||y - U diag(z) V^T x||^2 = tr yy - 2 <yx, U V^T> + <1 + Cbar, (U^T U) o (V^T xx V)>, in NumPy,
    for any law; nothing of the library is used.
    """
    xx, yx, yy = (part.numpy() for part in (moments.xx, moments.yx, moments.yy))
    second = 1 + characteristic.numpy()
    width = len(second)
    inverse = np.linalg.pinv(xx, hermitian=True)
    V = np.random.default_rng(seed).normal(size=(starts, len(xx), width))
    ridge = 1e-14 * np.eye(width)
    for _ in range(sweeps):
        normal = (V.swapaxes(1, 2) @ xx @ V) * second
        normal += ridge * np.trace(normal, axis1=1, axis2=2)[:, None, None]
        U = np.linalg.solve(normal, (yx @ V).swapaxes(1, 2)).swapaxes(1, 2)
        normal = (U.swapaxes(1, 2) @ U) * second
        normal += ridge * np.trace(normal, axis1=1, axis2=2)[:, None, None]
        V = np.linalg.solve(normal, (inverse @ yx.T @ U).swapaxes(1, 2)).swapaxes(1, 2)
    products = ((U.swapaxes(1, 2) @ U) * (V.swapaxes(1, 2) @ xx @ V) * second).sum((1, 2))
    return np.trace(yy) - 2 * np.einsum("sij,sij->s", yx @ V, U) + products
