"""Roots of second moments: from features to coordinates in which their second moment is the identity, and back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from droptics.linalg import psd_inverse_root, psd_root
from droptics.linalg.scales import equilibrate, is_diagonal, scaled_eigen
from droptics.transforms import wants_derivative

EPS = torch.finfo(torch.float64).eps


def numbers(values: Any) -> Any:
    """An array of NumPy on the CPU, where small calls are cheaper in it; the tensor elsewhere. No derivatives."""
    if not isinstance(values, Tensor):
        return values
    return values.detach().numpy() if values.is_cpu else values.detach()


@dataclass(frozen=True, eq=False)
class Root:
    """R (features, rank) with R R^T a second moment, and R^+T; vectors stand for diagonal matrices.

    Attributes:
        matrix: R.
        inverse: R^+T.
        energies: Eigenvalues behind the columns once every feature is in its own units: how well each is known.
        plain: Marks the identity, which costs nothing to apply.
    """

    matrix: Tensor
    inverse: Tensor
    energies: Tensor
    plain: bool = False

    @staticmethod
    def identity(size: int, like: Tensor) -> Root:
        """The identity on so many features, of the dtype and device of a tensor."""
        ones = like.new_ones(size)
        return Root(ones, ones, ones, True)

    @staticmethod
    def diagonal(values: Tensor) -> Root:
        """Root of diag(values); zero values stay zero in the inverse."""
        roots = values.clamp_min(0).sqrt()
        alive = roots > 0
        inverse = torch.where(alive, 1 / torch.where(alive, roots, 1.0), 0.0)
        return Root(roots, inverse, torch.ones_like(roots))

    @staticmethod
    def of_moment(moment: Tensor, rounding: float = EPS) -> Root:
        """Root of a float64 second moment, of full column rank; diagonal moments are recognized and cost nothing.

        Directions whose energy, every feature in its own units, is at most 8 d rounding count as without. Where a
        derivative in the moment is wanted the root is symmetric in these units, differentiable at equal eigenvalues.
        """
        diagonal, varies = moment.diagonal(), wants_derivative(moment)
        if not varies and is_diagonal(moment):
            plain = bool((numbers(diagonal) == 1).all())
            return Root.identity(diagonal.shape[0], moment) if plain else Root.diagonal(diagonal)
        level = 8 * len(moment) * rounding
        if varies:
            scaled, units = equilibrate((moment + moment.mT) / 2)
            values, vectors = torch.linalg.eigh(scaled)
            if float(values.detach()[0]) > level:
                known = values.detach()
                return Root(units[:, None] * psd_root(scaled), psd_inverse_root(scaled) / units[:, None], known)
        else:
            values, vectors, units = scaled_eigen(moment)
            if values[0] > level:
                return Root.of_eigen(values, vectors, units)
        values, vectors, units = (torch.as_tensor(part) for part in (values, vectors, units))
        kept = values.detach() > level
        seen = torch.where(diagonal[:, None] > 0, vectors[:, kept], 0.0)
        return Root.of_eigen(values[kept], seen, units)

    @staticmethod
    def of_eigen(values: Any, vectors: Any, units: Any) -> Root:
        """Root of diag(units) vectors diag(values) vectors^T diag(units), from tensors or from arrays of NumPy."""
        sizes = units[:, None] * values**0.5
        parts = vectors * sizes, vectors / sizes, values
        if isinstance(values, np.ndarray):
            matrix, inverse, energies = map(torch.from_numpy, parts)
            return Root(matrix, inverse, energies)
        return Root(*parts[:2], values.detach())

    @property
    def singular(self) -> bool:
        """Whether some directions of the features have no energy."""
        if self.plain:
            return False
        if self.matrix.ndim == 1:
            return bool((self.matrix == 0).any())
        return self.matrix.shape[1] < self.matrix.shape[0]

    def down(self, weights: Tensor) -> Tensor:
        """R^T weights: from features to white coordinates."""
        if self.plain:
            return weights
        return self.matrix[:, None] * weights if self.matrix.ndim == 1 else self.matrix.mT @ weights

    def up(self, weights: Tensor) -> Tensor:
        """R^+T weights: what `down` takes to the given ones, of least norm with every feature in its own units."""
        if self.plain:
            return weights
        return self.inverse[:, None] * weights if self.inverse.ndim == 1 else self.inverse @ weights

    def up_rows(self, rows: Tensor) -> Tensor:
        """Rows times R^+T."""
        if self.plain:
            return rows
        return rows * self.inverse if self.inverse.ndim == 1 else rows @ self.inverse
