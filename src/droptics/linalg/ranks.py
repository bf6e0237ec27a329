"""Ranks that are proved: dependent columns are found in floating point and checked without any rounding."""

from __future__ import annotations

from typing import Any

import torch
from scipy.linalg import lapack, solve_triangular
from torch import Tensor

from droptics.linalg.gram import gram
from droptics.linalg.scales import equilibrated, powers_of_two
from droptics.transforms import as_array, is_readable

# The energy that a column has beside others, in its own units, below which it may depend on them, and how close to
# zero or to a power of two a coefficient must be to be tried as that. They only say what is tried.
NEAR, CLOSE = 2.0**-20, 2.0**-20


def proved_rank(rows: Tensor, weights: Tensor | None = None) -> int:
    """A number that the rank of a float64 matrix (n, size) does not exceed, whatever was rounded; without gradient.

    Columns that are zero or sums of others times powers of two (repeated features, one-hot columns beside an
    intercept) add nothing, nor does a row or column that is another one times a power of two, or a row of weight zero.
    Cost: O(n size^2).
    """
    rows = _counted(rows, weights)
    size = rows.shape[1]
    least = min(len(rows), size - dependencies(rows).shape[1], distinct(rows))
    # the first rows mostly say that many of them differ
    return least if distinct(rows[: 4 * size].mT) >= least else min(least, distinct(rows.mT))


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
    return *lapack.dpstrf(scaled, tol=NEAR)[:3], units


def dependencies(rows: Tensor) -> Tensor:
    """Independent vectors c (size, found) of zeros and powers of two, up to sign, with rows c = 0 exactly.

    A Cholesky factorization with pivots of the Gram matrix says which columns may be sums of others, and of which.
    """
    factor, order, rank, units = _pivoted(gram(rows))
    size = len(order)
    if rank == size:
        return rows.new_zeros(size, 0)
    tried = torch.eye(size, dtype=torch.float64)[:, rank:]
    if rank:
        tried[:rank] = -torch.from_numpy(solve_triangular(factor[:rank, :rank], factor[:rank, rank:]))
    powers = tried.sign() * powers_of_two(0.7 * tried.abs())
    powers = torch.where(tried.abs() < CLOSE, 0.0, powers)
    vectors = torch.empty_like(tried)
    vectors[torch.from_numpy(order - 1).long()] = powers
    vectors = vectors[:, ((tried - powers).abs() < CLOSE).all(0)] / torch.from_numpy(units)[:, None]
    return vectors[:, [vanishes(rows, vector) for vector in vectors.mT]]


def vanishes(rows: Tensor, vector: Tensor) -> bool:
    """Whether rows c = 0 for a vector c of powers of two, by a sum in which nothing is rounded."""
    total = torch.zeros_like(rows[:, 0])
    for i in vector.nonzero().flatten().tolist():
        factor = float(vector[i])
        term = rows[:, i] * factor
        added = total + term
        part = added - total
        lost = (total - (added - part)) + (term - part)  # by rounding (Knuth's two-sum)
        if bool(lost.any()) or not torch.equal(term / factor, rows[:, i]):
            return False
        total = added
    return not bool(total.any())


def distinct(columns: Tensor) -> int:
    """How many columns are neither zero nor another one times a power of two, up to sign: their rank is no larger."""
    alive = columns[:, (columns != 0).any(0)]
    if not alive.numel():
        return 0
    signs = alive.gather(0, (alive != 0).int().argmax(0, keepdim=True)).sign()
    units = signs * powers_of_two(alive.abs().amax(0))
    scaled = alive / units
    exact = (scaled * units == alive).all(0)  # what underflows may differ
    return torch.unique(scaled[:, exact], dim=1).shape[1] + int((~exact).sum())
