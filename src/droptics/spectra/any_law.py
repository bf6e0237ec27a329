"""Any other law: no closed form, but a penalty bounded below by norms of the matrix.

Lower bounds on the penalty <Cbar, (U^T U) o (H^T H)> of a product A = U H^T (droptics-mask-bounds):

(a) ||A||_F^2 / (1^T Cbar^+ 1): A is a contraction, of norm (1^T Cbar^+ 1)^(1/2), of the stack sum_i L_i (x) u_i h_i^T
    whose squared norm is the penalty, Cbar = L^T L.
(b) ||A||_*^2 / (1^T K^+ 1), K = sum_I (alpha_I / |I|) 1_I 1_I^T, whenever Cbar = sum_I alpha_I 1_I 1_I^T, alpha >= 0,
    over intervals I (Bernoulli, Block, SlidingBlock): A = sum_I c_I B_I for all weights c that cover each unit once,
    ||B_I||_* <= |I|^(1/2) ||B_I||_F, Cauchy-Schwarz, and the best c. A constant diagonal gamma gives gamma / width.
(c) ||A||_*^2 / sum_i (1 / D_i) for every diagonal 0 < D <= Cbar, by Cauchy-Schwarz.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import torch
from torch import Tensor

from droptics.errors import NoClosedForm
from droptics.linalg import shrink
from droptics.masks import MaskLaw
from droptics.spectra.actions import Action
from droptics.spectra.roots import EPS


@dataclass(frozen=True, eq=False)
class AnyLaw(Action):
    """A law of which only the characteristic matrix is known."""

    law: MaskLaw
    claim: ClassVar[str] = "droptics-mask-bounds"

    @property
    def size(self) -> int:
        return self.law.size

    def value(self, spectrum: Tensor) -> Tensor:
        raise NoClosedForm(
            f"the induced penalty under {type(self.law).__name__} has no closed form; use Bernoulli, Gaussian or "
            "Block, or optimum and certify for bounds"
        )

    def envelope(self, spectrum: Tensor) -> Tensor:
        raise NoClosedForm(
            f"the convex envelope under {type(self.law).__name__} is not known; use Bernoulli, Gaussian or Block, "
            "or certify for a lower bound on the criterion"
        )

    def shrink(self, values: Tensor) -> tuple[Tensor, float]:
        """Under the best mixture of the Frobenius and the nuclear bound on the penalty.

        For w in [0, 1] the penalty is at least w kappa ||A||_*^2 + (1 - w) b ||A||_F^2, and the minimum with the
        distance to T is a shrinkage again; every w gives a valid bound, the largest is returned.
        """
        plain, nuclear = self._strengths
        found = [mixed(values, (1 - w / 20) * plain, w / 20 * nuclear, self.size) for w in range(21)]
        return max(found, key=lambda pair: float((values - pair[0]).square().sum()) + pair[1])

    def spread(self, left: Tensor, values: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
        raise NoClosedForm(f"no equalized network is known under {type(self.law).__name__}; use Bernoulli or Block")

    @cached_property
    def _strengths(self) -> tuple[float, float]:
        characteristic = self.law.characteristic.detach().double()
        return frobenius_strength(characteristic), nuclear_strength(characteristic)


def mixed(values: Tensor, plain: float, nuclear: float, width: int) -> tuple[Tensor, float]:
    """Argmin x of ||s - x||^2 + plain ||x||^2 + nuclear (sum x)^2, at most `width` entries, and its last two terms."""
    shrunk = shrink(values / (1 + plain), nuclear * width / (1 + plain), width)
    return shrunk, float(plain * shrunk.square().sum() + nuclear * shrunk.sum().square())


def frobenius_strength(characteristic: Tensor) -> float:
    """Bound (a): at most 1 / (1^T Cbar^+ 1), zero when the vector of ones is not in the range of Cbar.

    Eigenvalues are known up to a level of rounding, and all of them may be smaller by that.
    """
    values, vectors = torch.linalg.eigh((characteristic + characteristic.mT) / 2)
    kept = values > 1e-10 * values[-1].clamp_min(0)
    weights = vectors.sum(0).square()
    if float(weights[~kept].sum()) > 1e-10 * len(characteristic) or not bool(kept.any()):
        return 0.0
    level = 4 * len(characteristic) * EPS * values[-1]
    return 1.0 / float((weights / (values - level).clamp_min(level)).sum())


def nuclear_strength(characteristic: Tensor) -> float:
    """The better of bounds (b) and (c) for the squared nuclear norm."""
    found = 0.0
    intervals = interval_weights(characteristic)
    if intervals is not None:
        size = len(characteristic)
        length = (torch.arange(size) - torch.arange(size)[:, None] + 1).clamp_min(1).to(intervals)
        found = frobenius_strength(_covering(intervals / length))
    diagonal = torch.diagonal(characteristic)
    if bool((diagonal > 0).all()):
        scaled = characteristic / torch.outer(diagonal.sqrt(), diagonal.sqrt())
        lowest = float(torch.linalg.eigvalsh(scaled)[0])
        found = max(found, lowest / float((1 / diagonal).sum()))
    return found


def interval_weights(characteristic: Tensor) -> Tensor | None:
    """Alpha (first, last) with Cbar_ij = sum of alpha over the intervals that hold i and j; None if any is negative."""
    size = len(characteristic)
    padded = torch.zeros(size + 1, size + 1, dtype=characteristic.dtype)
    padded[1:, :-1] = characteristic.detach().cpu()
    alpha = (padded[1:, :-1] - padded[:-1, :-1] - padded[1:, 1:] + padded[:-1, 1:]).triu()
    level = 1e-12 * float(characteristic.abs().max())
    return None if bool((alpha < -level).any()) else alpha.clamp_min(0)


def _covering(weights: Tensor) -> Tensor:
    """sum_I weights_I 1_I 1_I^T from weights by (first, last): entry (i, j) sums first <= i, last >= j."""
    upper = weights.cumsum(0).flip(1).cumsum(1).flip(1).triu()
    return upper + upper.triu(1).mT
