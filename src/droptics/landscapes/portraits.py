"""The two-dimensional landscape: a tied network with one input and two units, its critical points, and dropout runs."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product

import torch
from torch import Tensor

from droptics.arguments import Count, Seed, Size, check_arguments
from droptics.checks import as_float_tensor
from droptics.data import Data, Moments
from droptics.landscapes.inspection import inspect
from droptics.masks import MaskLaw
from droptics.models import Autoencoder
from droptics.penalties import criterion


@dataclass(frozen=True, eq=False)
class Portrait:
    """What a picture of the landscape needs."""

    axis: Tensor  #: Grid of one weight, (resolution,).
    values: Tensor  #: The criterion at (axis[j], axis[i]), (resolution, resolution); rows are the second weight.
    points: dict[str, list[tuple[float, float]]]  #: Critical points (u_1, u_2) by kind.
    trajectories: Tensor  #: Weights during training with dropout, (runs, steps + 1, 2).


def portrait(  # parameters: the problem, the window and the training that are drawn
    data: Data,
    masks: MaskLaw,
    starts: Tensor | None = None,
    extent: Size = 2.0,
    resolution: Count = 101,
    steps: Count = 1_000,
    step_size: Size = 0.01,
    seed: Seed = 0,
) -> Portrait:
    """Criterion on a grid, all critical points, and dropout training from given starts (mianjy2018-fig1, -fig2).

    The network is u -> sum_i z_i u_i^2 x with one input, one output and two units: `masks.size` must be 2. A step of
    training draws one mask z and descends E_x (y - sum_i z_i u_i^2 x)^2 by step_size / 2 times its gradient times the
    mean of the mask, the convention of mianjy2018-alg1 averaged over x. At a constant step the runs end in a
    neighborhood of a minimum.

    Cost: O(resolution^2) criteria and `steps` steps for all starts at once.
    """
    check_arguments(portrait, locals())
    moments = Moments.of(data).to("cpu", torch.float64)
    if moments.yx.shape != (1, 1) or masks.size != 2:
        got = f"yx of shape {tuple(moments.yx.shape)} and {masks.size} units"
        raise ValueError(f"data must have one input and one output, and masks two units, got {got}")
    axis = torch.linspace(-extent, extent, resolution, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), dim=-1)
    values = criterion(Autoencoder(grid.unsqueeze(-2)), moments, masks).value
    default = torch.tensor([[1.8, 0.3], [-0.2, -1.5]], dtype=torch.float64)
    first = default if starts is None else as_float_tensor(starts, "starts", 2).to("cpu", torch.float64)
    return Portrait(axis, values, _points(moments, masks), _runs(first, moments, masks, steps, step_size, seed))


def _points(moments: Moments, masks: MaskLaw) -> dict[str, list[tuple[float, float]]]:
    """All sign patterns of all supports: each solves a linear system for the squares of the weights.

    The derivative with respect to u_i vanishes iff u_i = 0 or (K o 1 1^T) u^2 = yx / xx on the support, K = 1 + Cbar.
    """
    target = float(moments.yx / moments.xx)
    noise = masks.characteristic.detach().to("cpu", torch.float64)
    found: dict[str, list[tuple[float, float]]] = {}
    for support in ((), (0,), (1,), (0, 1)):
        index = list(support)
        squares = _squares(noise[index][:, index], target)
        if bool((squares <= 0).any()):
            continue
        for signs in product((1.0, -1.0), repeat=len(index)):
            weights = torch.zeros(1, 2, dtype=torch.float64)
            weights[0, index] = squares.sqrt() * torch.tensor(signs, dtype=torch.float64)
            kind = inspect(Autoencoder(weights), moments, masks).kind
            found.setdefault(kind, []).append((float(weights[0, 0]), float(weights[0, 1])))
    return found


def _squares(noise: Tensor, target: float) -> Tensor:
    """Where (1 1^T + noise) squares = target 1, of two units by Cramer's rule; zero beside one without noise."""
    if len(noise) < 2:
        return target / (1 + noise.diagonal())
    (first, both), (_, second) = noise.tolist()
    level = 1e-14 * (1 + max(first, second))  # the noise of a law that is listed is rounded
    gaps = [gap if abs(gap) > level else 0.0 for gap in (second - both, first - both)]
    # zero where nothing is dropped, or both units at once: a circle, of which the axes are shown
    return noise.new_tensor(gaps) * (target / max((1 + both) * sum(gaps) + gaps[0] * gaps[1], 1e-300))


def _runs(starts: Tensor, moments: Moments, masks: MaskLaw, steps: int, step_size: float, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(int(seed))
    xx, yx = float(moments.xx), float(moments.yx)
    keep = masks.mean.detach().cpu()
    path = [starts]
    for _ in range(steps):
        weights, z = path[-1], masks.multipliers(len(starts), generator)
        residual = xx * (z * weights.square()).sum(1, keepdim=True) - yx
        path.append(weights - 2 * step_size * keep * residual * z * weights)
    if not bool(torch.isfinite(path[-1]).all()):
        raise ValueError(f"step_size is too large for these data and starts: training diverges at {step_size}")
    return torch.stack(path, dim=1)
