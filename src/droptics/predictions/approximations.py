r"""Moments without masks where no algebra reaches: approximations, each with the masks that check it.

SecondOrder takes the outputs for affine in all early masks: variance = sum_ij Cbar_ij a_i a_j + Q with the slopes a at
one. Closure carries mean and covariance through the layers of a ReLU network as if every pre-activation were normal.
Neither is exact, neither bounds anything; what they are worth is said by the check.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from droptics.arguments import checked_fields
from droptics.errors import NoClosedForm
from droptics.estimates import Estimate
from droptics.masks import MaskLaw
from droptics.models import Model, ReLUNet
from droptics.penalties import MonteCarlo
from droptics.penalties.relu.criterion import network_laws
from droptics.predictions.controls import Plan, build
from droptics.predictions.mixtures import Conditional
from droptics.predictions.results import Predictive
from droptics.predictions.sampling import sampled_moments

NODES = 24
FAR = 40.0
_CHECK = MonteCarlo(samples=24)


@dataclass(frozen=True)
@checked_fields
class Closure:
    """Moments of a ReLU network as if its pre-activations were normal: an approximation.

    Attributes:
        kind: "full" carries covariances, "diagonal" variances alone, as the published sampling-free methods do; those
            lose most of the variance where units share their inputs.
        check: The masks that measure its error and give the interval of the answer; None leaves them out, and the
            answer then claims no coverage.
    """

    kind: Literal["diagonal", "full"] = "full"
    check: MonteCarlo | None = _CHECK


def first_order(problem: Conditional, check: MonteCarlo | None) -> Predictive:
    """Variance with slopes for all early masks; exact where the outputs are affine in them. Cost: one backward each."""
    plain = problem.plain()
    variance = plain.variance()
    for control in build(problem, Plan((), (), gradient=bool(problem.early)), plain):
        variance = variance + control.variance()
    return _checked(plain.center, variance, "first order in the early masks", (problem, check))


def closure(model: Model, inputs: Tensor, masks: MaskLaw, method: Closure, problem: Conditional) -> Predictive:
    """Moments of a ReLU network by a normal closure. Cost: n depth width^3 for full covariances, else passes."""
    if not isinstance(model, ReLUNet) or model.batch_shape:
        raise NoClosedForm("Closure() is for one ReLUNet; use ClosedForm(), Enumerate() or MonteCarlo()")
    full = method.kind == "full"
    mean = inputs
    spread = torch.diag_embed(torch.zeros_like(inputs)) if full else torch.zeros_like(inputs)
    for number, law in enumerate(network_laws(model, masks)):
        if number:
            mean, spread = rectified(mean, spread)
        weight, bias = model.weights[number], model.biases[number]
        if full:
            noise = law.characteristic.to(mean) * (spread + mean.unsqueeze(-1) * mean.unsqueeze(-2))
            spread = weight @ (spread + noise) @ weight.mT
        else:
            spread = (spread + law.relative_variance.to(mean) * (spread + mean.square())) @ weight.square().mT
        mean = mean @ weight.mT + bias
    variance = torch.diagonal(spread, dim1=-2, dim2=-1) if full else spread
    return _checked(mean, variance, f"{method.kind} normal closure", (problem, method.check))


def rectified(mean: Tensor, spread: Tensor) -> tuple[Tensor, Tensor]:
    r"""Moments of max(u, 0) for normal u: variances (n, d), or covariances (n, d, d) where those are given.

    Cov = s t (r Phi(a) Phi(b) + int_0^r (r - c) phi_2(a, b; c) dc) for deviations s, t, correlation r, a = mean / s; by
    Gauss-Legendre in the arc sine of c. Cost: 24 exponentials per entry.
    """
    full = spread.ndim > mean.ndim
    variance = torch.diagonal(spread, dim1=-2, dim2=-1) if full else spread
    moves = variance > 0
    deviation = torch.where(moves, variance, 1.0).sqrt()
    # beyond FAR deviations a unit is on or off to rounding, as one that does not move is
    ratio = torch.where(moves, mean / deviation, FAR * mean.sign()).clamp(-FAR, FAR)
    deviation = torch.where(moves, deviation, 0.0)
    above, below = torch.special.ndtr(ratio), torch.special.ndtr(-ratio)
    density = torch.exp(-ratio.square() / 2) / math.sqrt(2 * math.pi)
    center = mean * above + deviation * density
    # in deviations, so that a unit that is always on keeps its variance to rounding
    own = above + ratio.square() * above * below + ratio * density * (below - above) - density.square()
    own = deviation.square() * own.clamp_min(0)
    if not full:
        return center, own
    scale = deviation.unsqueeze(-1) * deviation.unsqueeze(-2)
    alone = torch.eye(mean.shape[-1], device=mean.device).bool()
    # the arc sine has no derivative at one, where the diagonal is
    most = 1 - torch.finfo(mean.dtype).eps
    angle = torch.asin((spread / torch.where((scale > 0) & ~alone, scale, torch.inf)).clamp(-most, most))
    left, right = ratio.unsqueeze(-1), ratio.unsqueeze(-2)
    total = torch.sin(angle) * above.unsqueeze(-1) * above.unsqueeze(-2)
    for node, weight in zip(*np.polynomial.legendre.leggauss(NODES), strict=True):
        turned = angle * ((node + 1) / 2)
        sine, cosine = torch.sin(turned), torch.cos(turned).square().clamp_min(torch.finfo(mean.dtype).eps)
        power = (left.square() - 2 * left * right * sine + right.square()) / (2 * cosine)
        kernel = (torch.sin(angle) - sine) * torch.exp(-power)
        total = total + angle * (weight / 2) * kernel / (2 * math.pi)
    return center, torch.where(alone, own.unsqueeze(-1), scale * total)


def _checked(mean: Tensor, variance: Tensor, how: str, check: tuple[Conditional, MonteCarlo | None]) -> Predictive:
    """The approximation with the intervals of its check beside it, whose words say how far off it is."""
    problem, method = check

    def refused() -> Estimate:
        raise NoClosedForm(
            "an approximation has mean and variance alone; use ClosedForm(), Enumerate() or MonteCarlo()"
        )

    if method is None:
        text = f"approximation: {how}, error not measured"
        point = [Estimate(one, one.detach(), one.detach(), text, 1, confidence=0.0) for one in (mean, variance)]
        return Predictive(point[0], point[1], None, refused)
    with torch.no_grad():
        found = sampled_moments(problem, method)
        tiny = torch.finfo(variance.dtype).tiny
        off = torch.log(found[1].value.clamp_min(tiny) / variance.clamp_min(tiny)).mean().exp()
    text = f"approximation: {how}; {method.samples} masks say that the variance is {float(off):.2f} times this"
    told = [
        Estimate(value, one.lower, one.upper, text, 1 + method.samples, method.confidence)
        for value, one in zip((mean, variance), found, strict=True)
    ]
    return Predictive(told[0], told[1], None, refused)
