r"""Three and four classes exactly, and bounds for more of them by those.

By inclusion and exclusion log(1 + sum_k e^a_k) = sum_B (-1)^(|B| + 1) J_B over the sets B of margins, where J of one
margin is log(1 + e^a), whose mean `fourier` has. J of n margins is an inverse Mellin transform of Gamma functions,

    J = (2 pi)^-n int Gamma(-c + it_1) ... Gamma(-c + it_n) Gamma(n c - i sum t) e^(sum_k (c - it_k) a_k) dt, 0 < c < 1,

up to its sign, so E J is the same integral of a product over independent units. The kernel falls as e^(-pi max |t|). A
lattice of step 2 pi / L adds, by Poisson summation, E J(a + m L) e^(-c L sum m) for all whole m but zero, with signs,
bounded by exponential moments, as J <= 2 e^(s . a) / min(1, sum s) for all s in (0, 1)^n.

With some leading classes A and l = log sum_A e^o_k the penalty of all lies between sums over the others one by one,

    E l + sum_k v_k E log(1 + e^(o_k - l) / v_k)  <=  E log sum_k e^o_k  <=  E l + sum_k E log(1 + e^(o_k - l)),

for all v on the simplex: below by concavity of the logarithm, above as log(1 + x) is subadditive.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
import torch
from torch import Tensor
from torch.nn.functional import softplus

from droptics.penalties.factors import ROOM, Factor, large
from droptics.penalties.fourier import margin_penalties

# Share of the kernel that is left out, and the most nodes.
CUT, NODES = 5e-5, 2**14
# No node lies beyond; what the kernel has there, less than 1e-13 of it, counts as left out.
EDGE = 12.0
# Lengths L begin and grow like this, so that few lattices are needed.
SHORTEST, GROWTH = 12.0, 1.2
# The exponent c for two and three margins; and others whose moments bound what the lattice adds, in shares of the ways
# down to zero and up to one.
TILT = {2: 1 / 2, 3: 1 / 3}
DOWN, UP = (0.9, 0.65, 0.4), (0.25, 0.5, 0.8)
# Error and most nodes of the integrals of single margins; the least gain that a share is made of.
SINGLE, MOST, LEAST = 1e-9, 1024, 1e-9


class Lattice(NamedTuple):
    """Nodes times[places] (margins, nodes), their weights, and the sum of the absolute weights that were left out."""

    length: float
    times: Tensor
    places: Tensor
    weights: Tensor
    dropped: float


class Together(NamedTuple):
    """What the units say about E J of several margins: their exponential moments at the nodes and beside the tilt."""

    lattice: Lattice
    scaled: Tensor
    scale: Tensor
    beside: Tensor
    rounding: Tensor

    def mean(self, margins: Tensor) -> tuple[Tensor, Tensor]:
        """E J for margins of these means (..., n), and a bound of its error."""
        lattice = self.lattice
        angles = margins.unsqueeze(-1) * lattice.times
        turned = torch.polar(torch.ones_like(angles), -angles)
        phases = math.prod((turned[..., k, at] for k, at in enumerate(lattice.places)), start=self.scaled)
        size = torch.exp((TILT[margins.shape[-1]] * margins.sum(-1) + self.scale).clamp_max(large(margins)))
        value = (-1) ** margins.shape[-1] * size * (phases * lattice.weights).sum(-1).real
        with torch.no_grad():
            rounding = self.rounding + 4 * EDGE * torch.finfo(margins.dtype).eps * margins.abs().sum(-1)
            lost = lattice.dropped + rounding * float(lattice.weights.abs().sum())
            return value, size.detach() * lost + aliases(margins, self.beside, lattice.length)


class Sets(NamedTuple):
    """Sets of equally many margins, (sets, n), and what the units say about them."""

    margins: Tensor
    law: Together

    def add(self, margins: Tensor, values: Tensor, errors: Tensor) -> tuple[Tensor, Tensor]:
        """Values and errors with (-1)^(n + 1) E J of these sets."""
        mean, error = self.law.mean(margins[..., self.margins])
        return values + (-1) ** (self.margins.shape[-1] + 1) * mean, errors + error


def several_bounds(
    outputs: Tensor, parts: Sequence[Factor], order: Tensor, leading: int, tolerance: float
) -> tuple[Tensor, ...] | None:
    """A lower and an upper bound of the penalty and their errors, (..., outcomes) each; None if it took too long.

    Mean outputs are (..., outcomes, classes), the law of `parts` is that of all outcomes; `order` (..., classes) begins
    with the two or three leading ones; `tolerance` is for the error of one integral. Cost: hundreds of products over
    units for each class beside two leading ones, thousands beside three, whatever the number of outcomes.
    """
    eye = torch.eye(order.shape[-1], dtype=outputs.dtype, device=outputs.device)
    over = (eye[order[..., 1:]] - eye[order[..., :1]]).unsqueeze(-3)
    margins, moved = (over @ outputs.unsqueeze(-1)).squeeze(-1), [part.along(over) for part in parts]

    def known(sets: list[tuple[int, ...]]) -> Sets:
        rows = torch.tensor(sets, device=outputs.device)
        law = together(margins[..., rows], [part.unsqueezed().along(eye[:-1, :-1][rows]) for part in moved], tolerance)
        return Sets(rows, law)

    first = leading - 1
    some = [part for size in range(1, leading) for part in itertools.combinations(range(first), size)]
    inside = [known([part]) for part in some if len(part) > 1]
    across = [known([(*part, k) for k in range(first, len(eye) - 1)]) for part in some]
    alone: list[Factor] = [part.of_each() for part in moved]
    nodes = max(len(part.law.lattice.weights) for part in across)
    room = max(1, 4 * ROOM // (max(1, margins[..., 0, :].numel()) * nodes))
    found = [_bounds(piece, alone, inside, across) for piece in margins.split(room, -2)]
    ends = [piece for piece in found if piece is not None]
    return tuple(torch.cat(end, -1) for end in zip(*ends, strict=True)) if len(ends) == len(found) else None


def _bounds(margins: Tensor, alone: list[Factor], inside: list[Sets], across: list[Sets]) -> tuple[Tensor, ...] | None:
    first = margins.shape[-1] - len(across[0].margins)

    def others(points: Tensor, single: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        """E log(1 + e^(o_k - l)) of every other class."""
        found = single[0][..., first:], single[1][..., first:]
        for sets in across:
            found = sets.add(points, *found)
        return found

    single = _logistic(margins, alone)
    if single is None:
        return None
    base, off = (part[..., :first].sum(-1, keepdim=True) for part in single)
    for sets in inside:
        base, off = sets.add(margins, base, off)
    clean = torch.logsumexp(torch.cat([torch.zeros_like(margins[..., :1]), margins], -1), -1)
    base, off = base.squeeze(-1) - clean, off.squeeze(-1)
    gains, above = others(margins, single)
    shares = gains.clamp_min(LEAST)
    shares = shares / shares.sum(-1, keepdim=True)
    raised = torch.cat([torch.zeros_like(margins[..., :first]), -shares.log()], -1)
    again = _logistic(margins + raised, alone)
    if again is None:
        return None
    less, below = others(margins + raised, again)
    below = (shares.detach() * below).sum(-1)
    return base + (shares * less).sum(-1), base + gains.sum(-1), off + below, off + above.sum(-1)


def _logistic(margins: Tensor, alone: list[Factor]) -> tuple[Tensor, Tensor] | None:
    """E log(1 + e^margin) and a bound of its error; None where the integrals would take too long."""
    found = margin_penalties(margins.unsqueeze(-1), alone, SINGLE, MOST)
    return None if found is None else (found[0] + softplus(margins), found[1])


def together(margins: Tensor, parts: Sequence[Factor], tolerance: float) -> Together:
    """The law at as many nodes as margins of means (..., outcomes, sets, n) that move by `parts` ask for.

    Half of the outcomes of every set are to reach the tolerance, which others may miss: they have other bounds.
    """
    count = margins.shape[-1]
    known, longer = lattice_of(SHORTEST, count), lattice_of(GROWTH * SHORTEST, count)
    with torch.no_grad():
        beside = sum(part.along(_beside(margins).flatten(0, 1)).cumulant() for part in parts)
        assert isinstance(beside, Tensor)
        while len(longer.weights) <= NODES:
            if float(aliases(margins, beside, known.length).median(-2).values.max()) <= tolerance:
                break
            known, longer = longer, lattice_of(GROWTH * longer.length, count)
        steps = 64 + sum(4 * EDGE * part.reach + 8 * part.count for part in parts)
        rounding = torch.finfo(margins.dtype).eps * (steps + torch.zeros_like(beside[..., 0]))
    times, places, weights = (part.to(margins.device) for part in known[1:4])
    lattice = Lattice(known.length, times, places, weights, known.dropped)
    found = [part.nodes(lattice.times, lattice.places, TILT[count]) for part in parts]
    scaled, scale = math.prod(one for one, _ in found), sum(one for _, one in found)
    assert isinstance(scaled, Tensor)
    assert isinstance(scale, Tensor)
    return Together(lattice, scaled, scale, beside, rounding)


def _beside(margins: Tensor) -> Tensor:
    """Exponents beside the tilt, (choices, sides, n): lower ones for margins that are moved up, and the reverse."""
    tilt = TILT[margins.shape[-1]]
    sides = [side for side in itertools.product((0, 1, -1), repeat=margins.shape[-1]) if any(side)]
    choices = [(tilt, tilt * (1 - down), tilt + (1 - tilt) * up) for down, up in itertools.product(DOWN, UP)]
    return margins.new_tensor([[[choice[way] for way in side] for side in sides] for choice in choices])


def aliases(margins: Tensor, beside: Tensor, length: float) -> Tensor:
    """A bound of what a lattice of this length adds, from the logarithms of the moments beside the tilt, (...)."""
    exponents = _beside(margins)
    decay = torch.exp(-length * (exponents - TILT[margins.shape[-1]]).abs())
    moved = torch.where(decay < 1, decay / (1 - decay), torch.ones_like(decay)).prod(-1)
    sizes = torch.exp(margins @ exponents.flatten(0, 1).mT + beside).unflatten(-1, exponents.shape[:2])
    return (2 * moved / exponents.sum(-1).clamp_max(1) * sizes).sum(-1).amin(-1)


@lru_cache(maxsize=64)
def lattice_of(length: float, count: int) -> Lattice:
    """The nodes of largest weight on the half space t_n > 0, twice: the other half is conjugate."""
    step, tilt = 2 * math.pi / length, TILT[count]
    half = math.ceil(EDGE / step)
    times = step * (np.arange(-half, half) + 0.5)
    single = scipy.special.loggamma(-tilt + 1j * times)
    sums = step * (np.arange(count * (2 * half - 1) + 1) - count * (half - 0.5))
    total = scipy.special.loggamma(count * tilt - 1j * sums)
    rows = np.ix_(*[np.arange(2 * half)] * (count - 1), np.arange(half, 2 * half))
    kernel = 2 * (step / (2 * math.pi)) ** count * np.exp(sum(single[row] for row in rows) + total[sum(rows)])
    sizes = np.abs(kernel).ravel()
    large = np.flatnonzero(sizes > 1e-3 * CUT * sizes.max())
    large = large[np.argsort(-sizes[large])]
    kept = np.sort(large[: 1 + np.searchsorted(np.cumsum(sizes[large]), (1 - CUT) * sizes.sum())])
    places = np.stack([np.broadcast_to(row, kernel.shape).ravel()[kept] for row in rows])
    dropped = float(sizes.sum() - sizes[kept].sum() + 1e-13 * sizes.sum())
    weights = torch.from_numpy(kernel.ravel()[kept])
    return Lattice(length, torch.from_numpy(times), torch.from_numpy(places), weights, dropped)
