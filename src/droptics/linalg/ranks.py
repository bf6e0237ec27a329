"""Ranks that are proved: dependent columns are found in floating point and checked without any rounding."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor

from droptics.arrays import Array
from droptics.linalg.gram import gram
from droptics.linalg.scales import equilibrated, least_singular, powers, powers_of_two
from droptics.transforms import as_array, is_readable

# The energy that a column has beside others, in its own units, below which it may depend on them, and how close to
# zero or to a power of two a coefficient must be to be tried as that. They only say what is tried.
NEAR, CLOSE = 2.0**-20, 2.0**-20


def proved_rank(rows: Tensor, weights: Tensor | None = None, enough: int = 0, found: int | None = None) -> int:
    """A number that the rank of a float64 matrix (n, size) does not exceed, whatever was rounded; without gradient.

    Columns that are zero or sums of others times powers of two (repeated features, one-hot columns beside an
    intercept) add nothing, nor does a row or column that is another one times a power of two, or a row of weight zero.
    No smaller number than `enough` is looked for; `found` is the number of dependent columns where it is known.
    Cost: O(n size^2).
    """
    rows = _counted(rows, weights)
    size = rows.shape[1]
    least = min(len(rows), size - (dependencies(rows).shape[1] if found is None else found))
    # the first rows mostly say that many of them differ, and many columns
    if least > enough and distinct(rows[: 4 * size].mT) < least:
        least = min(least, distinct(rows.mT))
    if least > enough and distinct(rows[: 4 * size]) < least:
        least = min(least, distinct(rows))
    return least


class Independent(NamedTuple):
    """Some columns of a matrix, and how they give all of them.

    Attributes:
        kept: Indices of the columns.
        mixing: The matrix by which they give all columns, (kept, size).
        proved: How many columns they give without any rounding.
        lost: Norm of what they do not give of the others, every column in its own units.
    """

    kept: Tensor
    mixing: Tensor
    proved: int
    lost: float


def independent(rows: Tensor, weights: Tensor | None, roots: Tensor, share: float, moment: Tensor) -> Independent:
    """Columns without those that are proved to depend on them, or do so up to the rounding of a factorization.

    `roots` are the rows times roots of their weights; their products times `share` are the second moment.
    """
    moment = torch.from_numpy(as_array(moment))
    tried = _tried(moment)
    proved = _proved(_counted(rows, weights), tried)
    size, level = len(moment), least_singular(len(moment))
    sizes = torch.full((tried.vectors.shape[1],), torch.inf, dtype=torch.float64)
    sizes[proved] = 0.0
    other = tried.vectors.to(roots.device)
    rounding = 4 * torch.finfo(torch.float64).eps * (moment.diagonal().clamp_min(0).sqrt() @ tried.vectors.abs())
    for part in (roots[: 4 * size], roots):  # mostly the first rows say that a column does not
        open_ones = ~proved & ((sizes <= level) | torch.tensor(part is not roots))
        if bool(open_ones.any()):
            found = share**0.5 * torch.linalg.vector_norm(other[:, open_ones].mT @ part.mT, dim=1).cpu()
            sizes[open_ones] = found + rounding[open_ones]
    gone = sizes <= level
    vectors, own = torch.where(proved, tried.powers, tried.vectors)[:, gone], tried.own[gone]
    mixing = torch.eye(size, dtype=torch.float64)
    mixing[:, own] = -vectors / vectors[own, torch.arange(len(own))]
    left = torch.ones(size, dtype=torch.bool)
    left[own] = False
    kept, lost = left.nonzero().flatten().to(rows.device), float(torch.linalg.vector_norm(sizes[gone]))
    return Independent(kept, mixing[left].to(rows.device), int(proved.sum()), lost)


def shared_dependencies(known: list[Tensor] | None, rows: Tensor, weights: Tensor | None) -> list[Tensor]:
    """The known vectors of earlier rows that vanish on these, too; without earlier ones those of these.

    None where torch.func.vmap hides the numbers.
    """
    if not is_readable(rows):
        return []
    rows = _counted(rows, weights)
    return list(dependencies(rows).mT) if known is None else [vector for vector in known if vanishes(rows, vector)]


def _counted(rows: Tensor, weights: Tensor | None) -> Tensor:
    """The numbers of the rows whose weight is not zero, on the CPU."""
    return torch.from_numpy(as_array(rows if weights is None else rows[weights > 0]))


def check_energies(moment: Tensor, rows: Tensor, weights: Tensor | None, name: str) -> None:
    """Refuse columns whose energy is below the normal numbers of a moment: it would pass for known where it is lost."""
    if not is_readable(moment):
        return
    least = torch.finfo(moment.dtype).tiny
    few = moment.detach().diagonal() < least
    if bool(few.any()):
        lost = few & ((rows if weights is None else rows[weights > 0]) != 0).any(0)
        if bool(lost.any()):
            raise ValueError(
                f"{name} must have mean squares of at least {least:.3g} to have moments in {moment.dtype}, column "
                f"{int(lost.int().argmax())} has less and is not zero; use other units or .to(torch.float64)"
            )


def seems_singular(moment: Tensor) -> bool:
    """Whether columns behind a second moment may depend on each other; O(size^3)."""
    return bool(_pivoted(moment)[2] < len(moment))


def _pivoted(moment: Tensor) -> tuple[Any, Any, int, Any]:
    """Triangle, order (from one) and number of the pivots of a second moment, every column in its own units."""
    scaled, units = equilibrated(as_array(moment))
    return *scipy.linalg.lapack.dpstrf(scaled, tol=NEAR)[:3], units


def dependencies(rows: Tensor) -> Tensor:
    """Independent vectors c (size, found) of zeros and powers of two, up to sign, with rows c = 0 exactly."""
    tried = _tried(gram(rows))
    return tried.powers[:, _proved(rows, tried)]


class _Tried(NamedTuple):
    """Vectors (size, found) that may take rows to zero, the powers of two next to them, and a column of each's own.

    Every column in its own units; `near` says which vectors are such powers.
    """

    vectors: Tensor
    powers: Tensor
    own: Tensor
    near: Tensor


def _tried(moment: Tensor) -> _Tried:
    """A Cholesky factorization with pivots of a second moment says which columns may be sums of others, and how."""
    factor, order, rank, units = _pivoted(moment)
    size, places = len(order), torch.from_numpy(order - 1).long()
    tried = torch.eye(size, dtype=torch.float64)[:, rank:]
    if 0 < rank < size:
        tried[:rank] = -torch.from_numpy(scipy.linalg.solve_triangular(factor[:rank, :rank], factor[:rank, rank:]))
    powers = tried.sign() * powers_of_two(0.7 * tried.abs())
    powers = torch.where(tried.abs() < CLOSE, 0.0, powers)
    near, sizes = ((tried - powers).abs() < CLOSE).all(0), torch.from_numpy(units)[:, None]
    back = places.argsort()
    return _Tried(tried[back] / sizes, powers[back] / sizes, places[rank:], near)


def _proved(rows: Tensor, tried: _Tried) -> Tensor:
    """Which of the vectors of powers of two take rows to zero; the first rows mostly say that one does not."""
    first, many = rows[: 4 * rows.shape[1]], (tried.powers != 0).sum(0) > 1
    rounding = 4 * least_singular(rows.shape[1]) * (first.abs() @ tried.powers.abs())
    likely = tried.near & many & ((first @ tried.powers).abs() <= rounding).all(0)
    found = ~many
    found[~many] = ~(rows[:, tried.own[~many]] != 0).any(0)
    for i in likely.nonzero().flatten().tolist():
        found[i] = vanishes(rows, tried.powers[:, i])
    return found


def vanishes(rows: Tensor, vector: Tensor) -> bool:
    """Whether rows c = 0 for a vector c of powers of two, by a sum in which nothing is rounded."""
    total = torch.zeros_like(rows[:, 0])
    for i in vector.nonzero().flatten().tolist():
        factor, column = float(vector[i]), rows[:, i].contiguous()
        term = column * factor
        added = total + term
        part = added - total
        lost = (total - (added - part)) + (term - part)  # by rounding (Knuth's two-sum)
        if bool(lost.any()) or not torch.equal(term / factor, column):
            return False
        total = added
    return not bool(total.any())


def distinct(columns: Tensor) -> int:
    """How many columns are neither zero nor another one times a power of two, up to sign: their rank is no larger."""
    alive = _different(as_array(columns.mT))
    alive = alive[(alive != 0).any(1)]
    if not alive.size:
        return 0
    first = np.take_along_axis(alive, (alive != 0).argmax(1)[:, None], 1)
    units = np.copysign(powers(np.abs(alive).max(1, keepdims=True)), first)
    scaled = alive / units
    exact = (scaled * units == alive).all(1)  # what underflows may differ
    return len(_different(scaled[exact])) + int((~exact).sum())


def _different(vectors: Array) -> Array:
    """One of every set of equal rows: equal sums of their bits say which may be, and those are compared."""
    vectors = np.ascontiguousarray(vectors)
    bits = vectors.view(np.int64)
    odd = 2 * np.random.default_rng(0).integers(2**62, size=vectors.shape[1]) + 1
    _, first, which = np.unique((bits ^ (bits >> 29)) @ odd, return_index=True, return_inverse=True)
    same = len(first) < len(vectors) and np.array_equal(vectors[first][which], vectors)
    return vectors[first] if same else vectors if len(first) == len(vectors) else np.unique(vectors, axis=0)
