"""Leave-one-out errors of dropout regression on the device of the features: one factorization for every rate.

The criterion without example i is that of `heads.leave_one_out`, for equal weights and with an intercept: the example
leaves the risk AND the penalty (droptics-loo). With every unit in its own root mean square, and d_i = x_i - mean, the
matrix of example i is B - lambda x_i^2 / n - d_i d_i^T / (n - 1), B = E d d^T + lambda. The last term is handled in
closed form, the one before by iteration with lambda B^-1, all examples and rates at once; only which examples are
isolated is asked of the device on the way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from droptics.linalg.scales import powers_of_two

ALONE = 1 - 1e-6  # of the energy of a unit: without the example it is empty, and fitted again instead
SMALL = 0.1  # up to this share of the energy of a unit the iteration with B^-1 is as fast as conjugate gradients
SETTLED = 1e-16
MOST_STEPS = 500
MOST_NUMBERS = 2**24  # in a tensor of all examples at some rates: 128 MiB


@dataclass(frozen=True, eq=False)
class Examples:
    """Features (n, units) and targets (n, outputs) in float64, with the factorization of B."""

    rows: Tensor  # features in units of their root mean square; zero where there is no energy
    centered: Tensor
    residual: Tensor  # targets minus their mean
    scale: Tensor  # root mean squares, one where there is no energy
    means: tuple[Tensor, Tensor]  # of features and targets
    values: Tensor  # eigenvalues of E d d^T, or of its Gram matrix where examples are few
    vectors: Tensor

    @staticmethod
    def of(features: Tensor, targets: Tensor) -> Examples:
        """Scale, center, and factorize; O(n units min(n, units))."""
        powers = powers_of_two(features.square().mean(0).sqrt())
        energies = (features / powers).square().mean(0)
        scale = torch.where(energies > 0, energies, 1.0).sqrt() * powers
        rows, means = features / scale, (features.mean(0), targets.mean(0))
        centered = rows - means[0] / scale
        few = len(rows) < rows.shape[1]
        second = (centered @ centered.mT if few else centered.mT @ centered) / len(rows)
        values, vectors = torch.linalg.eigh(second)
        return Examples(rows, centered, targets - means[1], scale, means, values.clamp_min(0), vectors)

    def solved(self, right: Tensor, strengths: Tensor) -> Tensor:
        """B^-1 right at every lambda > 0, (strengths, units, columns)."""
        few = len(self.values) < self.rows.shape[1]
        inner = self.vectors.mT @ (self.centered @ right if few else right)
        whole = self.vectors @ (inner / (self.values + strengths[:, None])[:, :, None])
        return (right - self.centered.mT @ whole / len(self.rows)) / strengths[:, None, None] if few else whole

    @cached_property
    def loadings(self) -> Tensor:
        """E d (y - mean)^T."""
        return self.centered.mT @ self.residual / len(self.rows)

    def errors(self, features: Tensor, targets: Tensor, strengths: Tensor) -> Tensor:
        """Errors at an example that was not among the fitted ones, (strengths, outputs)."""
        weights = self.solved(self.loadings, strengths)
        return targets - self.means[1] - (features - self.means[0]) / self.scale @ weights

    @cached_property
    def shares(self) -> tuple[Tensor, Tensor, int]:
        """Largest share that each example has of the energy of a unit, examples above SMALL, steps of the others."""
        energy = self.rows.square().amax(1) / len(self.rows)
        most = float(torch.where(energy > SMALL, 0.0, energy).max())
        steps = math.ceil(math.log(SETTLED) / math.log(most)) if most > 0 else 0
        return energy, ((energy > SMALL) & (energy < ALONE)).nonzero()[:, 0], steps

    def left_out(self, strengths: Tensor) -> tuple[Tensor, Tensor]:
        """Errors (strengths, n, outputs) at every example of the model without it, and which are too isolated."""
        energy, large, steps = self.shares
        inverse = strengths[:, None, None] * self.solved(torch.eye(self.rows.shape[1]).to(self.rows), strengths)
        shares = self.rows.square() / len(self.rows)
        solved = _iterated(inverse, self.centered, torch.where((energy > SMALL)[:, None], 0.0, shares), steps)
        if len(large):
            solved[:, large] = _conjugate(inverse, self.centered[large], shares[large])
        solved /= strengths[:, None, None]
        slack = 1 - (self.centered * solved).sum(2) / (len(self.rows) - 1)
        alone = (energy >= ALONE) | (slack < 1e-7)
        left = torch.where(alone, 1.0, slack * (1 - 1 / len(self.rows)))
        return (self.residual - solved @ self.loadings) / left[:, :, None], alone


def leave_one_out(features: Tensor, targets: Tensor, strengths: Sequence[float]) -> Tensor:
    """Errors (strengths, n, outputs) at every example of the models fitted without it, at every lambda > 0.

    Conditions: three examples at least. Cost: one eigendecomposition and some ten products per lambda; one more
    factorization for every isolated example.
    """
    whole, lambdas = Examples.of(features, targets), features.new_tensor(strengths)
    together = max(1, MOST_NUMBERS // (max(features.shape) * features.shape[1]))
    errors, alone = map(torch.cat, zip(*map(whole.left_out, lambdas.split(together)), strict=True))
    for i in alone.any(0).nonzero()[:, 0].tolist():
        others = torch.arange(len(features), device=features.device) != i
        again = Examples.of(features[others], targets[others]).errors(features[i], targets[i], lambdas)
        errors[:, i] = torch.where(alone[:, i, None], again, errors[:, i])
    return errors


def _iterated(inverse: Tensor, rows: Tensor, shares: Tensor, steps: int) -> Tensor:
    """Rows h_i with (inverse^-1 - diag(shares_i)) h_i = rows_i: a step leaves the largest share of the error."""
    found = rows @ inverse
    for _ in range(steps):
        found = torch.addcmul(rows, shares, found) @ inverse
    return found


def _conjugate(inverse: Tensor, rows: Tensor, shares: Tensor) -> Tensor:
    """The same by conjugate gradients preconditioned with `inverse`, for examples with much energy in a unit."""
    z, residual = rows @ inverse, rows
    found = torch.zeros_like(z)
    direction, image = z, residual
    power = (residual * z).sum(-1, keepdim=True)
    stop = power * 1e-27  # squared energy norm of the error
    for _ in range(MOST_STEPS):
        active = power > stop
        if not bool(active.any()):
            break
        moved = image - shares * direction
        step = torch.where(active, power / (direction * moved).sum(-1, keepdim=True), 0.0)
        found, residual = found + step * direction, residual - step * moved
        z = residual @ inverse
        fresh = torch.where(active, (residual * z).sum(-1, keepdim=True), power)
        ratio = torch.where(active, fresh / power, 0.0)  # what has no error left would divide by zero
        direction, image, power = z + ratio * direction, residual + ratio * image, fresh
    return found
