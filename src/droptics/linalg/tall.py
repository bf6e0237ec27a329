"""Tall matrices through their second moment: Cholesky QR, repeated until nothing is lost by it.

Forming X^T X squares the condition of X. A Cholesky factor R of it still makes X R^-1 nearly orthonormal, and the
second moment of that is far from singular. Where X^T X is singular to rounding R comes from reflections of some of the
rows; where these do not say what all are it is shifted instead, and all of this repeated (Fukaya, Kannan, Nakatsukasa,
Yamamoto and Yanagisawa 2020). Products and triangular solves with many rows take a fraction of the time of reflections.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from droptics.linalg.gram import gram
from droptics.linalg.scales import equilibrate, least_singular
from droptics.linalg.sums import summands

EPS = torch.finfo(torch.float64).eps
# Where no eigenvalue, every feature in its own units, is below this a second moment has lost no digits that count.
SAFE = 1e-3
# Directions of less energy than this after all factorizations are rounding.
NOISE = 2.0**-20
# Rows per feature that mostly say what a triangle of all rows is.
SOME = 16


class Orthogonal(NamedTuple):
    """Rows X = Z A triangle: Z A has second moment I, the triangle has a row for each of its columns.

    Attributes:
        rows: Z, (n, size).
        turn: A, (size, rank).
        triangle: (rank, size).
        energies: Eigenvalues of the second moment of Z that A divides by.
    """

    rows: Tensor
    turn: Tensor
    triangle: Tensor
    energies: Tensor


def moment_rounding(rows: Tensor) -> float:
    """How far sums over examples may be off, relative to their features, in the norm of the second moment."""
    return summands(*rows.shape) * EPS / 2 * rows.shape[1]


def orthogonal(rows: Tensor, share: float, moment: Tensor) -> Orthogonal | None:
    """Orthonormal columns for float64 rows (n, size), n large, whose products times `share` are the given moment.

    Like QR it is exact for a matrix off by a small multiple of size u, every feature in its own units: a row z solves
    (R + dR) z = x with |dR| <= size u |R|. None where rounding makes a shifted second moment indefinite. No gradient.
    """
    scaled, units = equilibrate(moment)
    triangle, off, own = torch.diag(units), moment_rounding(rows), units
    identity = torch.eye(len(scaled)).to(scaled)
    # what rounding mostly is, and what it is at most; whether the first was enough is seen afterwards
    level = 4 * len(scaled) * EPS
    for first in (True, False, False):
        shift = level * (float(torch.linalg.eigvalsh(scaled)[0]) <= 4 * level)
        if shift and first and (found := _by_some_rows(rows, share, units)) is not None:
            return found
        factor, failed = torch.linalg.cholesky_ex(scaled + shift * identity, upper=True)
        if bool(failed):
            factor, failed = torch.linalg.cholesky_ex(scaled + 4 * off * identity, upper=True)
        if bool(failed):
            return None
        rows, scaled = _solved(rows, factor * own, share)
        triangle, own = factor @ triangle, torch.ones_like(units)
        energies, vectors = torch.linalg.eigh(scaled)
        if float(energies[0]) > SAFE:
            break
    seen = energies > NOISE
    noise = (energies[~seen].clamp_min(0) + off).sqrt()
    lost = torch.linalg.matrix_norm(noise[:, None] * (vectors[:, ~seen].mT @ triangle) / units)
    if float(lost) > least_singular(len(units)):
        return None
    return _turned(rows, triangle, energies[seen], vectors[:, seen])


def _by_some_rows(rows: Tensor, share: float, units: Tensor) -> Orthogonal | None:
    """By the triangle R of some of the rows, with one solve for all; None where they are too different from these.

    Solved rows Z lose size u |Z| |R|. With orthonormal Z, every feature in its own units, that is size^1.5 u at most;
    twice as much is allowed. A pivot that is rounding says nothing.
    """
    size = rows.shape[1]
    some = rows[:: -(-len(rows) // (SOME * size))] / units
    factor = torch.linalg.qr(some, mode="r").R
    pivots = factor.diagonal().abs()
    if not float(pivots.min()) > EPS * float(pivots.max()):
        return None
    triangle = factor * units
    solved, moment = _solved(rows, triangle, share)
    if not float((moment.diagonal().sqrt() @ factor.abs()).max()) <= 2 * size**0.5:
        return None
    scaled, own = equilibrate(moment)
    energies, vectors = torch.linalg.eigh(scaled)
    if not float(energies[0]) > SAFE:
        return None
    found = _turned(solved, own[:, None] * triangle, energies, vectors)
    return found._replace(turn=found.turn / own[:, None])


def _solved(rows: Tensor, triangle: Tensor, share: float) -> tuple[Tensor, Tensor]:
    """Rows Z with Z triangle = rows, and their second moment."""
    rows = torch.linalg.solve_triangular(triangle.mT, rows.mT, upper=False).mT
    return rows, gram(rows) * share


def _turned(rows: Tensor, triangle: Tensor, energies: Tensor, vectors: Tensor) -> Orthogonal:
    roots = energies.sqrt()
    return Orthogonal(rows, vectors / roots, roots[:, None] * (vectors.mT @ triangle), energies)
