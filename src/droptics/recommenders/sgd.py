"""Dropout SGD on the factors, the thesis' algorithm: the reference the closed-form solves are compared with."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.recommenders.alternation import Sides, Strengths, Sweep, Watch, column_sums
from droptics.recommenders.ratings import Observations

Pair = tuple[Tensor, Tensor]
Triple = tuple[Tensor, Tensor, Tensor]
CHUNK = 1 << 16  # ratings at a time, where the objective is evaluated


@dataclass(frozen=True)
class Sgd:
    """How stochastic gradients go: drop rate, passes over the ratings, size of a step and of a batch, seed, place."""

    drop: float
    epochs: int
    step_size: float
    batch: int
    seed: int = 0
    device: str | torch.device | None = None


def descend(
    data: Observations,
    factors: Sides,
    strengths: Strengths,
    how: Sgd,
    watch: Watch | None = None,
    inspect: Callable[[Sweep, Array, Array], None] | None = None,
) -> tuple[Sides, list[Sweep]]:
    """Stochastic gradient steps on the mean squared error of a batch under inverted dropout of the factors.

    Every rating of a batch draws its own mask z (kept units are divided by 1 - drop), the prediction is
    b_i + c_j + sum_k z_k u_ik v_jk, and the step is `step_size` times the gradient of the batch mean. In expectation
    over the masks this descends the empirical dropout objective. Biases are not masked; their ridge, when they are
    fitted, is shared over the ratings. The history holds the exact objective after each epoch; its seconds leave out
    that evaluation. `inspect` sees the factors after each epoch.
    """
    target = torch.device(how.device or "cpu")
    generator = torch.Generator(target).manual_seed(int(how.seed))
    rows, columns, values = triples(data, target)
    left, right = (torch.from_numpy(side.copy()).to(target) for side in factors)
    history: list[Sweep] = []
    seconds = 0.0
    for epoch in range(1, how.epochs + 1):
        begin = time.perf_counter()
        order = torch.randperm(len(values), generator=generator, device=target)
        for part in order.split(how.batch):
            step((left, right), (rows[part], columns[part], values[part]), strengths, how, generator, data.count)
        if not bool(torch.isfinite(left).all() & torch.isfinite(right).all()):
            raise ArithmeticError("the factors are no longer finite; use a smaller step_size")
        seconds += time.perf_counter() - begin
        total, error = _objective((left, right), (rows, columns, values), strengths, data)
        rmse = data.scale * float(np.sqrt(error / data.count))
        history.append(Sweep(epoch, data.scale**2 * total / data.count, rmse, seconds))
        if watch is not None:
            watch(history[-1])
        if inspect is not None:
            inspect(history[-1], left.cpu().numpy(), right.cpu().numpy())
    return (left.cpu().numpy(), right.cpu().numpy()), history


def step(
    factors: Pair, ratings: Triple, strengths: Strengths, how: Sgd, generator: torch.Generator, total: int
) -> None:
    """One step on a batch of ratings, in place; `total` is the number of all ratings, which share the biases' ridge."""
    (left, right), (rows, columns, values) = factors, ratings
    width = strengths.width
    u, v = left[rows], right[columns]
    z = torch.rand(len(values), width, generator=generator, device=left.device, dtype=left.dtype)
    z = (z >= how.drop).to(left.dtype) / (1 - how.drop)
    error = (u[:, :width] * v[:, :width] * z).sum(1) - values
    if strengths.bias is not None:
        error = error + u[:, width] + v[:, width]
    pull = (2 * how.step_size / len(values)) * error[:, None]
    step_u, step_v = torch.zeros_like(u), torch.zeros_like(v)
    step_u[:, :width] = pull * z * v[:, :width]
    step_v[:, :width] = pull * z * u[:, :width]
    if strengths.bias is not None:
        # The ridge of all n ratings, in the share of this batch and of this step.
        shrink = 2 * how.step_size * strengths.bias / total
        for side, step in ((left, step_u), (right, step_v)):
            step[:, width] = pull[:, 0]
            side[:, width] *= 1 - shrink
    left.index_add_(0, rows, step_u, alpha=-1)
    right.index_add_(0, columns, step_v, alpha=-1)


def objective(data: Observations, factors: Sides, strengths: Strengths) -> tuple[float, float]:
    """F of the given factors and the sum of squared errors, by one pass over the ratings in float64."""
    left, right = (torch.from_numpy(side) for side in factors)
    return _objective((left, right), triples(data, left.device), strengths, data)


def triples(data: Observations, device: torch.device) -> Triple:
    """Rows, columns and values of all ratings on a device."""
    rows = torch.from_numpy(np.repeat(np.arange(data.by_user.rows), data.by_user.counts))
    columns = torch.from_numpy(np.array(data.by_user.columns)).long()
    return rows.to(device), columns.to(device), torch.from_numpy(np.array(data.by_user.values)).to(device)


def _objective(factors: Pair, ratings: Triple, strengths: Strengths, data: Observations) -> tuple[float, float]:
    """`objective` on the device of the factors; only the two sums leave it."""
    left, right = (side.double() for side in factors)
    width = strengths.width
    sums = torch.zeros(2, dtype=torch.float64, device=left.device)
    for rows, columns, values in zip(*(part.split(CHUNK) for part in ratings), strict=True):
        u, v = left[rows], right[columns]
        products = u[:, :width] * v[:, :width]
        residual = values - products.sum(1)
        if strengths.bias is not None:
            residual = residual - u[:, width] - v[:, width]
        sums += torch.stack([residual @ residual, products.square().sum()])
    error, squares = sums.tolist()
    tables = ((left, data.by_user), (right, data.by_item))
    sides = [column_sums(side.cpu().numpy(), table.counts) for side, table in tables]
    levels = [strengths.level(*side, data.count, len(rows)) for side, rows in zip(sides, factors, strict=True)]
    joint = data.count * (levels[0] * levels[1])[:width].sum()
    own = strengths.empirical * squares + strengths.expected * joint + sum(strengths.own(*side) for side in sides)
    return float(own) + error, error
