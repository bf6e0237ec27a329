"""Examples in coordinates where dropout is plain ridge: one factorization for every rate, and exact leave-one-out.

For fixed features x the criterion of y ~ W x + b under masks is  E |y - W x - b|^2 + tr W (Cbar o E x x^T) W^T. Dropout
and DropBlock have Cbar = lambda times ones on blocks, so in coordinates that whiten every block of E x x^T the penalty
is lambda |W|^2: one singular value decomposition of the whitened examples solves the problem for every rate
(droptics-head).

Leave-one-out is exact in the strict sense: example i leaves the risk AND the penalty. In whitened coordinates the
matrix of example i is  B - lambda w_i blocks(x_i) - c_i d_i d_i^T  with B common to all. The last term is handled in
closed form, the one before iteratively with B as preconditioner, all examples at once: the spectrum clusters at one,
so a handful of steps reaches rounding (droptics-loo).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import scipy
import torch
from numpy.typing import NDArray

from droptics.arrays import Array
from droptics.linalg.scales import powers_of_two

Index = NDArray[np.intp]
Solver = Callable[[Array], Array]

EPS = float(np.finfo(np.float64).eps)
MAX_STEPS = 500
# Examples that hold nearly all the energy of a block are refitted instead: without them the block is empty.
ALONE = 1 - 1e-6
# Below this lambda an inverse whose entries are as large as 1 / lambda is too rough beside what it leaves open.
TINY = 1e-2
# Below this share of the energy a fixed-point iteration is as fast as conjugate gradients, and simpler per step.
SMALL = 0.1


@dataclass(frozen=True, eq=False)
class Whitened:
    """Examples in coordinates where the penalty at rate lambda is lambda |W|^2, and their one factorization."""

    raw: tuple[Array, Array, Array, int, bool]  # as given: inputs, targets, weights, block size, intercept or not
    units: Array  # power of two next to the root mean square of every input, taken out before ranks are decided
    rows: Array  # whitened inputs (n, features); directions without energy are zero
    centered: Array  # `rows` minus their mean when there is an intercept
    residual: Array  # targets minus their mean when there is an intercept
    maps: Array  # inverse roots of the blocks of E x x^T, (blocks, block, block)
    values: Array  # singular values of the weighted centered rows
    right: Array  # their right singular vectors (rank, features)
    loadings: Array  # what the targets load on them, (rank, outputs)
    input_mean: Array
    target_mean: Array

    @staticmethod
    def of(X: Array, Y: Array, counts: Array, block: int, intercept: bool) -> Whitened:
        """Whiten every block, center, and factorize."""
        weights = counts / counts.sum()
        units = powers_of_two(torch.from_numpy(np.sqrt(weights @ X**2))).numpy()
        maps = _inverse_roots(X / units, weights, block)
        rows = _apply(X / units, maps)
        input_mean, target_mean = intercept * (weights @ X), intercept * (weights @ Y)
        centered = rows - _apply((input_mean / units)[None], maps)
        residual = Y - target_mean
        roots = np.sqrt(weights)[:, None]
        left, values, right = scipy.linalg.svd(roots * centered, full_matrices=False, check_finite=False)
        kept = values > 16 * (X.shape[1] + 4) * EPS  # the rows have energy one in every block, whatever their units
        loadings = (left[:, kept] * roots).T @ residual
        raw = (X, Y, counts, block, intercept)
        return Whitened(
            raw, units, rows, centered, residual, maps, values[kept], right[kept], loadings, input_mean, target_mean
        )

    @property
    def weights(self) -> Array:
        """Weights of the examples, summing to one."""
        return self.raw[2] / self.raw[2].sum()

    @property
    def copies(self) -> Array:
        """The part of every weight that is left out: one copy, or all of a weight below one."""
        return np.minimum(self.raw[2], 1.0) / self.raw[2].sum()

    def coefficients(self, strength: float) -> Array:
        """Weights W (outputs, features) at lambda = strength."""
        white = (self.values / (self.values**2 + strength))[:, None] * self.loadings
        return _apply(white.T @ self.right, self.maps) / self.units

    def objective(self, strength: float) -> float:
        """The least criterion: E |y|^2 minus what the weights gain."""
        total = float(self.weights @ (self.residual**2).sum(1))
        return total - float(((self.values**2 / (self.values**2 + strength)) @ (self.loadings**2)).sum())

    def leave_one_out(self, strengths: Sequence[float]) -> list[Array]:
        """Errors (n, outputs) at every example of the models fitted without it, at every lambda of `strengths`.

        Only isolated examples are left out by fitting again, and once for all strengths.
        """
        if self.copies.max() >= 1:
            raise ValueError("sample_weight leaves one example only; leaving it out leaves none")
        found = [self._left_out(strength) for strength in strengths]
        X, Y, counts, block, intercept = self.raw
        for i in np.flatnonzero(np.any([alone for _, alone in found], axis=0)):
            others = counts.copy()
            others[i] -= min(counts[i], 1.0)
            kept = others > 0
            refit = Whitened.of(X[kept], Y[kept], others[kept], block, intercept)
            for strength, (errors, alone) in zip(strengths, found, strict=True):
                if alone[i]:
                    errors[i] = refit.error(X[i], Y[i], strength)
        return [errors for errors, _ in found]

    def _left_out(self, strength: float) -> tuple[Array, NDArray[np.bool_]]:
        """Leave-one-out errors by algebra, and the examples too isolated for it."""
        copies = self.copies
        left = 1 - copies if self.raw[4] else np.ones_like(copies)
        energy = np.square(self.rows).reshape(len(copies), len(self.maps), -1).sum(2)
        energy = (copies[:, None] * energy).max(1, initial=0.0)
        alone = energy >= ALONE
        solved = np.zeros_like(self.centered)
        inverse = self._inverse(strength)
        small = energy <= SMALL
        self._iterate(strength, np.flatnonzero(small), float(energy[small].max(initial=0.0)), inverse, solved)
        self._conjugate(strength, np.flatnonzero(~small & ~alone), inverse, solved)
        slack = 1 - copies / left * (self.centered * solved).sum(1)
        fitted = solved @ (self.right.T * self.values) @ self.loadings
        alone |= slack < 1e-5  # what is left has lost so many of its digits
        return (self.residual - fitted) / np.where(alone, 1.0, slack * left)[:, None], alone

    def _iterate(self, strength: float, index: Index, rate: float, inverse: Solver, solution: Array) -> None:
        """Rows h_i with (B - lambda w_i blocks(x_i)) h_i = d_i by h <- B^-1 (d + lambda w blocks(x) h).

        The error shrinks by the largest share of energy that one of these examples has in a block.
        """
        rows = self.centered[index]
        found = inverse(rows)
        if strength > 0 and rate > 0:
            shares = strength * self.copies[index, None]
            single = shares * self.rows[index] ** 2 if len(self.maps) == rows.shape[1] else None
            for _ in range(int(np.ceil(np.log(1e-16) / np.log(rate)))):
                change = single * found if single is not None else shares * self._blocks(index, found)
                change += rows
                fresh = inverse(change)
                moved, found = np.abs(found - fresh).max(), fresh
                if moved <= 1e-14 * np.abs(found).max():  # the next change is ten times smaller
                    break
        solution[index] = found

    def _conjugate(self, strength: float, index: Index, inverse: Solver, solution: Array) -> None:
        """The same rows by conjugate gradients preconditioned with B, for examples with much energy in a block."""
        residual = self.centered[index]
        z = inverse(residual)
        if strength == 0:
            solution[index] = z
            return
        direction, image, power = z, residual, (residual * z).sum(1)
        stop = power * 1e-27  # squared energy norm of the error
        for _ in range(MAX_STEPS):
            active = power > stop
            if not active.any():
                break
            if not active.all():
                index, residual, direction, image, power, stop = (
                    part[active] for part in (index, residual, direction, image, power, stop)
                )
            moved = image - strength * self.copies[index, None] * self._blocks(index, direction)
            step = (power / (direction * moved).sum(1))[:, None]
            solution[index] += step * direction
            residual = residual - step * moved
            z = inverse(residual)
            fresh = (residual * z).sum(1)
            ratio = (fresh / power)[:, None]
            direction, image, power = z + ratio * direction, residual + ratio * image, fresh

    def _blocks(self, index: Index, vectors: Array) -> Array:
        """blocks(x_i) v_i: the projection of v_i on x_i inside every block."""
        shape = (len(index), len(self.maps), -1)
        rows = self.rows[index].reshape(shape)
        inner = (rows * vectors.reshape(shape)).sum(2, keepdims=True)
        return (rows * inner).reshape(vectors.shape)

    def _inverse(self, strength: float) -> Solver:
        """B^-1 for rows, B = E d d^T + lambda: a dense product, or a low-rank one when examples are few."""
        inside = self.right.T / (self.values**2 + strength)
        rank, size = self.right.shape
        if 0 < strength < TINY and rank < size:
            return lambda rows: self._split(rows, strength)
        if strength > 0 and 2 * rank < size:
            return lambda rows: (rows @ inside + (rows @ self.right.T) / -strength) @ self.right + rows / strength
        dense = inside @ self.right
        if strength > 0 and rank < size:
            dense += (np.eye(size) - self.right.T @ self.right) / strength
        return lambda rows: rows @ dense

    def _split(self, rows: Array, strength: float) -> Array:
        """B^-1 for rows, in the range of E d d^T and outside, where 1 / lambda would raise what rounding left of it."""
        inside = rows @ self.right.T
        outside = rows - inside @ self.right
        inside = inside / (self.values**2 + strength) - outside @ self.right.T / strength
        return inside @ self.right + outside / strength

    def error(self, x: Array, y: Array, strength: float) -> Array:
        """Error at an example that was not among the fitted ones, (outputs,)."""
        return np.asarray(y - self.target_mean - self.coefficients(strength) @ (x - self.input_mean))


def _inverse_roots(X: Array, weights: Array, block: int) -> Array:
    """Inverse roots of the diagonal blocks of E x x^T for inputs in their own units, zero where there is no energy."""
    blocks = X.reshape(len(X), -1, block)
    gram = np.einsum("n,nbi,nbj->bij", weights, blocks, blocks, optimize=True)
    values, vectors = np.linalg.eigh(gram)
    alive = values > 8 * block * EPS
    inverse = np.where(alive, 1 / np.sqrt(np.where(alive, values, 1.0)), 0.0)
    return np.asarray((vectors * inverse[:, None, :]) @ vectors.transpose(0, 2, 1))


def _apply(rows: Array, maps: Array) -> Array:
    """Every block of every row times its own symmetric matrix."""
    if maps.shape[1] == 1:
        return np.asarray(rows * maps[:, 0, 0])
    split = rows.reshape(len(rows), len(maps), -1).transpose(1, 0, 2)
    return np.asarray((split @ maps).transpose(1, 0, 2).reshape(rows.shape))
