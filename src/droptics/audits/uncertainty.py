"""Who holds the variance of the predictions, and how many passes MC dropout would need for it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from droptics.estimates import PlainEstimate
from droptics.penalties import MonteCarlo
from droptics.predictions.controls import Plan, build
from droptics.predictions.modules import MaskedModule, read_module
from droptics.predictions.sampling import sampled_moments, sampled_outcomes

# Relative error of the variance that `passes` is counted for.
ERROR = 0.1


@dataclass(frozen=True)
class Uncertainty:
    """Spread of the predictions under the module's own dropout.

    Attributes:
        variance: Variance of an output, averaged over examples and outputs.
        shares: Share of every site by name: the head exactly, the others to first order in their masks; what draws for
            itself has none. They need not add up to one.
        passes: Passes after which MC dropout knows the variance of an output to 10 %, from the kurtosis of the outputs.
        examples: On how many examples.
    """

    variance: PlainEstimate
    shares: dict[str, float]
    passes: int
    examples: int


def spread_of_predictions(module: nn.Module, inputs: Any, samples: int = 64, seed: int = 0) -> Uncertainty:
    """Measure it with `samples` masks; the module is as before. Cost: that many passes and one backward per output.

    Shares: lambda sum_j a_j^2 with a_j the slope of an output in the mask of unit j (droptics-predictive read at first
    order). Passes: a variance from T passes has the relative error sqrt((kurtosis - 1) / T).
    """
    found = read_module(module, inputs)
    problem, method = found.conditional(), MonteCarlo(samples, seed=seed)
    with torch.no_grad():
        _, variance = sampled_moments(problem, method)
        outputs = torch.cat([_drawn(part, seed) for _, part in sampled_outcomes(problem, method)])
    total = float(variance.value.mean())
    low, high = (float(end.mean()) for end in variance.interval)
    kurtosis = _kurtosis(outputs)
    return Uncertainty(
        PlainEstimate(total, low, high, variance.method),
        {name: value / total if total > 0 else 0.0 for name, value in _first_order(found).items()},
        max(1, math.ceil((kurtosis - 1) / ERROR**2)) if total > 0 else 1,
        len(outputs[0]),
    )


def _first_order(found: MaskedModule) -> dict[str, float]:
    """Mean over examples and outputs of what every site adds, at the network without masks."""
    problem = found.conditional()
    plain = problem.plain()
    shares: dict[str, float] = {}
    if found.early:
        (slopes,) = build(problem, Plan((), (), gradient=True), plain)
        sizes = [site.units for site in found.early]
        squares: Sequence[Tensor] = slopes.slopes.square().mean((0, 1)).split(sizes)  # type: ignore[union-attr]
        for site, part in zip(found.early, squares, strict=True):
            shares[site.name] = site.rate / (1 - site.rate) * float(part.sum())
    if found.head:
        shares[found.sites[-1].name] = float(plain.variance().detach().mean())
    return shares


def _drawn(part: Any, seed: int) -> Tensor:
    """Outputs with the last mask drawn too, one per early mask."""
    if part.units is None:
        return part.center
    masks = part.law.multipliers(len(part.center), torch.Generator().manual_seed(seed + 1)).to(part.center)
    features, head = part.units
    return part.center + (features * (masks[:, None, :] - 1)) @ head.squeeze(-3).mT


def _kurtosis(outputs: Tensor) -> float:
    """Fourth moment over squared variance, (masks, examples, outputs), pooled over examples and outputs."""
    moved = outputs - outputs.mean(0)
    variance = moved.square().mean(0)
    alive = variance > 0
    if not bool(alive.any()):
        return 1.0
    return float((moved.pow(4).mean(0)[alive] / variance[alive].square()).mean())
