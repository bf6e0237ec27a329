"""Products of the characteristic functions of coins: torch anywhere, a compiled loop for plain numbers on the CPU."""

from __future__ import annotations

import math

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.checks import wants_derivative


def coin_products(kept: Tensor, rising: Tensor, angles: Tensor) -> Tensor:
    """prod_j (1 - r_j + r_j exp(i theta k_j)) for k, r (..., units) and equally spaced angles (..., angles) from zero.

    The compiled loop turns by one step from angle to angle instead of computing sines; its error grows by one unit in
    the last place per step. Cost: units angles per row.
    """
    shape = torch.broadcast_shapes(kept.shape[:-1], angles.shape[:-1])
    if kept.device.type == "cpu" and not wants_derivative(kept, rising, angles):
        rows = math.prod(shape)
        step = (angles[..., 1] if angles.shape[-1] > 1 else angles[..., 0]).expand(shape).reshape(rows)
        found = np.empty((rows, angles.shape[-1]), np.complex128)
        turns, shares = (value.expand(*shape, -1).reshape(rows, -1).double().numpy() for value in (kept, rising))
        _coin_products(turns, shares, step.double().numpy(), found)
        return torch.from_numpy(found).reshape(*shape, -1)
    value = torch.ones((), dtype=torch.complex128, device=kept.device)
    for part, share in zip(kept.unbind(-1), rising.unbind(-1), strict=True):
        turn = torch.exp(1j * angles * part.unsqueeze(-1)) - 1
        value = value * (1 + share.unsqueeze(-1) * turn)
    return value


@numba.njit(cache=True)
def _coin_products(
    kept: NDArray[np.float64],
    rising: NDArray[np.float64],
    step: NDArray[np.float64],
    found: NDArray[np.complex128],
) -> None:
    for row in range(kept.shape[0]):
        for k in range(found.shape[1]):
            found[row, k] = 1.0
        for unit in range(kept.shape[1]):
            share = rising[row, unit]
            if share == 0.0 or kept[row, unit] == 0.0:
                continue
            turn = np.exp(1j * step[row] * kept[row, unit])
            power = 1.0 + 0.0j
            for k in range(found.shape[1]):
                found[row, k] *= 1.0 - share + share * power
                power *= turn
