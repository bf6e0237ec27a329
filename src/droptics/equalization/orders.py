"""How far a deep network is from its lower bound, order by order, and when its optimum is known to have rank one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.answers import checked
from droptics.arguments import check_arguments
from droptics.data import Data, Moments, Sample
from droptics.linalg.ranks import check_energies
from droptics.masks import Bernoulli, MaskLaw, Product
from droptics.models import DeepLinear
from droptics.norms import nuclear
from droptics.penalties import effective_strength, sub_penalties
from droptics.spectra.coordinates import White, whiten


@dataclass(frozen=True)
class GapCondition:
    """Whether the two leading singular values of E[y x^T] E[x x^T]^(-1/2) are far enough apart (thesis-thm10).

    Attributes:
        first: The largest singular value.
        second: The next one; zero for a single output or input.
        strength: nu, the effective strength of the widths and rates.
        holds: first - second >= second / nu; then the optimum has rank one and is equalized.
    """

    first: float
    second: float
    strength: float
    holds: bool


@checked
def order_gaps(model: DeepLinear, data: Data, masks: MaskLaw) -> Tensor:
    """R_l / LB_l - 1 for l = 1, ..., hidden layers: each sub-penalty above its lower bound (thesis-lem7).

    LB_l = e_l(1/d) ||W E[x x^T]^(1/2)||_*^2 with the elementary symmetric sums e_l of the inverse widths; powers of the
    rates cancel, and rates may differ between layers. All gaps are zero iff the network is equalized (thesis-def5);
    nan for a network that is zero on the data.

    Cost: those of `sub_penalties` and `envelope`.
    """
    white = _whitened(data)
    sums = [1.0]
    for width, drop in zip(*_layers(masks), strict=True):
        share = drop / (1 - drop) / width
        sums = [a + share * b for a, b in zip([*sums, 0.0], [0.0, *sums], strict=True)]
    size = nuclear(white.right.down(model.matrix().double().mT)) ** 2
    parts = sub_penalties(model, data, masks)
    return parts / (parts.new_tensor(sums[1:]) * size.to(parts)) - 1


def gap_condition(data: Data, masks: MaskLaw) -> GapCondition:
    """The gap condition of the deep optimum: sigma_1 - sigma_2 >= sigma_2 / nu (thesis-thm10).

    Sufficient, not necessary, for a rank-one optimum; for one hidden layer no gap is needed (thesis-sec1.3.1-gap).

    Cost: a whitening O(n d^2 + d^3) and one singular value decomposition.
    """
    check_arguments(gap_condition, locals())
    spectrum = torch.linalg.svdvals(_whitened(data).target).tolist()
    first, second = (*spectrum, 0.0, 0.0)[:2]  # data that are zero have no singular value
    widths, drops = _layers(masks)
    strength = float(effective_strength(list(widths), torch.tensor(drops, dtype=torch.float64)))
    return GapCondition(first, second, strength, strength * (first - second) >= second)


def _whitened(data: Data) -> White:
    if not isinstance(data, (Sample, Moments)):
        raise ValueError(f"data must be a Sample or Moments, got {type(data).__name__}")
    if isinstance(data, Sample):
        exact = data.to(torch.float64)
        energies = exact.shares @ exact.inputs.square()
        check_energies(torch.diag(energies), exact.inputs, exact.weights, "inputs")
    return whiten(data)


def _layers(masks: MaskLaw) -> tuple[Sequence[int], Sequence[float]]:
    """Widths and rates of the hidden layers; each layer has one rate."""
    widths, drops = [], []
    for law in masks.laws if isinstance(masks, Product) else (masks,):
        if not isinstance(law, Bernoulli) or float(law.drop.max() - law.drop.min()) > 0:
            raise ValueError(
                "masks must be independent with one rate per hidden layer: Product([Bernoulli(drop, width)])"
            )
        widths.append(law.size)
        drops.append(float(law.drop[0]))
    return widths, drops
