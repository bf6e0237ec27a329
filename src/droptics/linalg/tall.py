"""Tall matrices through their second moment: Cholesky QR, repeated until nothing is lost by it.

Forming X^T X squares the condition of X. A Cholesky factor R of it still makes X R^-1 nearly orthonormal, and the
second moment of that is far from singular; where X^T X is singular to rounding it is shifted first, and all of this
done twice (Fukaya, Kannan, Nakatsukasa, Yamamoto and Yanagisawa 2020). Products and triangular solves with many rows
take a fraction of the time of Householder reflections.
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
# Directions of less energy than this after two factorizations are rounding.
NOISE = 2.0**-20


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
    for _ in range(2):
        # what rounding mostly is, and what it is at most; whether the first was enough is seen afterwards
        level = 4 * len(scaled) * EPS
        shift = level * (float(torch.linalg.eigvalsh(scaled)[0]) <= 4 * level)
        factor, failed = torch.linalg.cholesky_ex(scaled + shift * identity, upper=True)
        if bool(failed):
            factor, failed = torch.linalg.cholesky_ex(scaled + 4 * off * identity, upper=True)
        if bool(failed):
            return None
        rows = torch.linalg.solve_triangular((factor * own).mT, rows.mT, upper=False).mT
        triangle, own = factor @ triangle, torch.ones_like(units)
        scaled = gram(rows) * share
        energies, vectors = torch.linalg.eigh(scaled)
        if float(energies[0]) > SAFE:
            break
    seen = energies > NOISE
    roots, noise = energies[seen].sqrt(), (energies[~seen].clamp_min(0) + off).sqrt()
    lost = torch.linalg.matrix_norm(noise[:, None] * (vectors[:, ~seen].mT @ triangle) / units)
    if float(lost) > least_singular(len(units)):
        return None
    turned = vectors[:, seen]
    return Orthogonal(rows, turned / roots, roots[:, None] * (turned.mT @ triangle), energies[seen])
