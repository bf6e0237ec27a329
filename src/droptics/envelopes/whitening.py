"""White coordinates: where risk is a distance between matrices and the penalty sees norms of columns only.

For two layers, E[x x^T] = R R^T: with A = W R and T = E[y x^T] R^+T, risk = constant + ||T - A||_F^2 and the penalty is
sum_ij Cbar_ij <u_i, u_j> <h_i, h_j> with h = R^T v. A factorization read at entries that are observed in product
proportions p_i q_j has the same form with roots diag(sqrt p) and diag(sqrt q).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.checks import wants_derivative
from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.errors import NoClosedForm
from droptics.linalg import psd_eigen, psd_inverse_root, psd_root


@dataclass(frozen=True, eq=False)
class Root:
    """R (features, rank) with R R^T a second moment, and R^+T; vectors stand for diagonal matrices.

    `plain` marks the identity, which costs nothing to apply.
    """

    matrix: Tensor
    inverse: Tensor
    plain: bool = False

    @staticmethod
    def identity(like: Tensor) -> Root:
        """The identity on the rows of a matrix, of its dtype and device."""
        ones = torch.ones_like(like[:, 0])
        return Root(ones, ones, True)

    @staticmethod
    def diagonal(values: Tensor) -> Root:
        """Root of diag(values); zero values stay zero in the inverse."""
        roots = values.clamp_min(0).sqrt()
        return Root(roots, torch.where(roots > 0, 1 / torch.where(roots > 0, roots, 1.0), 0.0))

    @staticmethod
    def of_moment(moment: Tensor) -> Root:
        """Root of a second moment, of full column rank; diagonal moments are recognized and cost nothing.

        Where a derivative in the moment is wanted it is the symmetric root, differentiable at equal eigenvalues too.
        """
        diagonal, varies = torch.diagonal(moment), wants_derivative(moment)
        if not varies and torch.count_nonzero(moment) == torch.count_nonzero(diagonal):
            return Root.identity(moment) if bool((diagonal == 1).all()) else Root.diagonal(diagonal)
        values, vectors = psd_eigen(moment)
        if varies and bool((values > 0).all()):
            return Root(psd_root(moment), psd_inverse_root(moment))
        kept = values > 0
        roots, vectors = values[kept].sqrt(), vectors[:, kept]
        return Root(vectors * roots, vectors / roots)

    @property
    def singular(self) -> bool:
        """Whether some directions of the features have no energy."""
        if self.matrix.ndim == 1:
            return bool((self.matrix == 0).any())
        return self.matrix.shape[1] < self.matrix.shape[0]

    def down(self, weights: Tensor) -> Tensor:
        """R^T weights: from features to white coordinates."""
        if self.plain:
            return weights
        return self.matrix[:, None] * weights if self.matrix.ndim == 1 else self.matrix.mT @ weights

    def up(self, weights: Tensor) -> Tensor:
        """R^+T weights: the weights of least norm that `down` takes to the given ones."""
        if self.plain:
            return weights
        return self.inverse[:, None] * weights if self.inverse.ndim == 1 else self.inverse @ weights

    def up_rows(self, rows: Tensor) -> Tensor:
        """Rows times R^+T."""
        if self.plain:
            return rows
        return rows * self.inverse if self.inverse.ndim == 1 else rows @ self.inverse


@dataclass(frozen=True, eq=False)
class White:
    """A problem in white coordinates: risk = constant + ||target - left^T W right||_F^2."""

    target: Tensor
    constant: Tensor
    left: Root
    right: Root


def whiten(data: Data) -> White:
    """White coordinates of data for two-layer networks (Sample, Moments) or factorizations (Entries, Measurements)."""
    match data:
        case Moments():
            return _of_moments(data)
        case Sample():
            return _of_sample(data)
        case Entries():
            return _of_entries(data)
        case Measurements():
            return _of_measurements(data)
    raise ValueError(f"data must be Sample, Moments, Entries or Measurements, got {type(data).__name__}")


def _of_moments(data: Moments) -> White:
    right = Root.of_moment(data.xx)
    target = right.up_rows(data.yx)
    # the same energies added in the same order as in the target, so that noiseless data give a constant near zero
    constant = (torch.diagonal(data.yy) - target.square().sum(1)).sum()
    return White(target, constant, Root.identity(target), right)


def _of_sample(data: Sample) -> White:
    """Through a QR factorization of the examples: their second moment, and so its rounding, is never formed."""
    if data.inputs.ndim != 2 or not data.targets.is_floating_point():
        raise ValueError("data must hold input vectors and floating-point targets for a linear network")
    scale = data.shares.sqrt()[:, None]
    basis, triangle = torch.linalg.qr(scale * data.inputs)
    inner, values, outer = torch.linalg.svd(triangle, full_matrices=False)
    level = max(data.inputs.shape) * torch.finfo(data.dtype).eps * (float(values[0].detach()) if len(values) else 0.0)
    kept = values > level
    directions, values = outer[kept].mT, values[kept]
    basis = basis @ inner[:, kept]
    targets = scale * data.targets
    target = targets.mT @ basis
    constant = (targets - basis @ target.mT).square().sum()
    return White(target, constant, Root.identity(target), Root(directions * values, directions / values))


def _of_entries(data: Entries) -> White:
    counts = torch.zeros(data.shape, dtype=data.dtype, device=data.device)
    ones = torch.ones_like(data.values)
    counts.index_put_((data.rows, data.columns), ones, accumulate=True)
    rows, columns = counts.sum(1), counts.sum(0)
    total = counts.sum()
    level = 64 * torch.finfo(data.dtype).eps * total
    if float((counts * total - rows[:, None] * columns).abs().max()) > level:
        raise NoClosedForm(
            "entries must be observed in product proportions (every entry equally often, for instance) for a closed "
            "form; these are not; fit DropoutCompletion instead, its objective can be compared with bounds"
        )
    sums = torch.zeros_like(counts).index_put_((data.rows, data.columns), data.values, accumulate=True)
    means = sums / counts.clamp_min(1)
    left, right = Root.diagonal(rows / total), Root.diagonal(columns / total)
    constant = (data.values - means[data.rows, data.columns]).square().mean()
    return White(left.down(means) * right.matrix, constant, left, right)


def _of_measurements(data: Measurements) -> White:
    design = data.matrices.flatten(1)
    count, size = design.shape
    scale = design.square().sum() / (count * size)
    level = 64 * size * torch.finfo(data.dtype).eps * scale
    second = design.mT @ design / count if count >= size and size <= 2048 else None
    identity = None if second is None else scale * torch.eye(size, dtype=data.dtype, device=data.device)
    if second is None or identity is None or float((second - identity).abs().max()) > level:
        raise NoClosedForm(
            "measurement matrices must have an isotropic second moment (an orthogonal design, or a population given "
            "as Moments.of_map to TwoLayerLinear) for a closed form; fit DropoutCompletion or train instead"
        )
    correlation = (data.values @ design / count).reshape(data.matrices.shape[1:])
    target = correlation / scale.sqrt()
    residual = data.values - design @ correlation.flatten() / scale
    right = Root.diagonal(scale.expand(target.shape[1]))
    return White(target, residual.square().mean(), Root.identity(target), right)
