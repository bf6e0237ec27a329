"""Intervals for a mean over random masks: Student's where the draws can carry it, else one that is guaranteed.

Student's interval trusts the draws to show the spread. They do not where outcomes of the law are too rare to be drawn
a few times, where a handful of draws carry all the variance, or where control variates fit every draw. Then the
interval is the guaranteed one, and the method text says why. A guaranteed interval holds for every sample size: the
empirical Bernstein bound (Maurer and Pontil 2009) for losses in a known range, cut to what the first two moments of
the masks allow, which is certain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from scipy.stats import t as student
from torch import Tensor

from droptics.data import Data, Moments, average
from droptics.estimates import Estimate
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.models.deep_linear import Layered
from droptics.penalties.evaluation import data_inputs, data_targets, data_weights
from droptics.penalties.methods import MonteCarlo
from droptics.penalties.rounding import (
    excess_scale,
    independent_layers,
    output_bound,
    output_scale,
    root_mean_squares,
    roundings,
    typical_multipliers,
)
from droptics.penalties.unit_outputs import is_linear_in_masks

# So often every outcome of the law must be expected among the draws, and so many draws must carry their variance: with
# the skewness allowance below, intervals for Poisson counts of such means cover 96 % and more at nominal 95 %.
FEW = 10.0


@dataclass(frozen=True, eq=False)
class Question:
    """What is estimated: the mean over masks of what they add to the mean loss; `plain` is that without masks."""

    model: Model
    data: Data
    masks: MaskLaw
    method: MonteCarlo
    loss: Loss
    plain: Tensor


@dataclass(frozen=True, eq=False)
class Draws:
    """Values of the draws (samples, *batch) after `used` fitted control variates were removed, and a note on it.

    `pairs` says that the controls hold what single units do, so that the values rest on what two do together.
    """

    values: Tensor
    used: int = 0
    note: str = ""
    pairs: bool = False


def concluded(question: Question, candidates: Sequence[Draws], how: str) -> Estimate:
    """The first candidate whose draws carry Student's interval; else the last one, with the guaranteed interval.

    The last candidate has no controls. Its values are what masks add to the mean loss.
    """
    method, bare = question.method, candidates[-1].values.detach()
    check_draws(question, bare)
    rounding = _rounding(question, bare)
    reason = rare_outcomes(question.model, question.masks, method.samples)
    chosen = candidates[-1]
    if reason is None:
        shown = pairs_are_shown(question)
        carried = [
            (shown or not draws.pairs) and bool((effective_draws(draws.values, rounding) >= FEW).all())
            for draws in candidates
        ]
        chosen = next((draws for draws, good in zip(candidates, carried, strict=True) if good), chosen)
        reason = None if any(carried) else "so few draws carry the variance"
    mean, safe = chosen.values.mean(0), guaranteed(question, bare, rounding)
    if reason is None:
        half = student_width(chosen, method.confidence) + rounding
        lower, upper = mean.detach() - half, mean.detach() + half
        note = chosen.note
    else:
        lower, upper = safe if safe is not None else unbounded(question, mean)
        note = f"{chosen.note}; {reason} that the interval is {'the guaranteed one' if safe else 'unbounded'}"
    dtype = question.model.dtype
    slack = torch.finfo(dtype).eps * torch.maximum(mean.detach().abs(), rounding)
    return Estimate(
        value=mean.to(dtype),
        lower=_outward(lower - slack, dtype, up=False),
        upper=_outward(upper + slack, dtype, up=True),
        method=f"Monte Carlo, {method.samples} masks{how}{note}",
        cost=method.samples,
        confidence=method.confidence,
        guaranteed=None if safe is None else (_outward(safe[0], dtype, up=False), _outward(safe[1], dtype, up=True)),
        error=(rounding + slack).to(dtype),
    )


def check_draws(question: Question, values: Tensor) -> None:
    """Refuse what no longer fits the precision of the model, instead of answering NaN."""
    dtype = question.model.dtype
    if not bool(torch.isfinite(values.mean(0).to(dtype)).all() & torch.isfinite(question.plain).all()):
        raise ValueError(
            f"model and data are too large for {dtype}: outputs or losses overflow under these masks; "
            "give weights and data as float64, or rescale weights and targets"
        )


def rare_outcomes(model: Model, masks: MaskLaw, samples: int) -> str | None:
    """Why so many draws cannot show all that the law does to the model; None when they can.

    Besides single outcomes: a layer of a few units with small survival rates is dead in nearly every draw, and what
    passes through several such layers is rarer still. The survival rate of a unit is taken as 1 / E z^2, which it is
    for coins.
    """
    if samples * masks.rarest < FEW:
        return f"outcomes of probability {masks.rarest:.2g} are so rare among {samples} draws"
    layers = model.layer_units if isinstance(model, Layered) else (model.units,)
    alive = 1 / (1 + masks.relative_variance.detach())
    passing = math.prod(min(1.0, float(part.sum())) for part in alive.split(layers))
    if samples * passing < FEW:
        return f"signals pass all masks in so small a share ({passing:.2g}) of {samples} draws"
    return None


def pairs_are_shown(question: Question) -> bool:
    """Whether two rare outcomes happen together in some draw, but for half of the chance that the interval may fail.

    Draws without such a pair look alike once the effects of single units are removed, and the interval shrinks around
    a mean that lacks the pair. It then fails on one side, which has half of 1 - confidence; draws with one pair are
    caught by `effective_draws`.
    """
    missed = (1 - question.masks.rarest**2) ** question.method.samples
    return missed <= (1 - question.method.confidence) / 2


def effective_draws(values: Tensor, rounding: Tensor) -> Tensor:
    """How many draws carry the variance, (sum r^2)^2 / sum r^4; zero where the residuals are mere rounding."""
    residuals = values.detach() - values.detach().mean(0)
    top = residuals.abs().amax(0)
    scaled = residuals / torch.where(top > 0, top, torch.ones_like(top))
    count = scaled.square().sum(0).square() / scaled.pow(4).sum(0).clamp_min(torch.finfo(scaled.dtype).tiny)
    return torch.where(top > 4 * rounding, count, torch.zeros_like(count))


def student_width(draws: Draws, confidence: float) -> Tensor:
    """Half of Student's interval, with t^2 / 2 |third moment| / variance / n for the skewness of the draws.

    For k draws of a rare event this adds t^2 / 2 to the sqrt(k) t of the count, as the score interval of a small
    proportion does.
    """
    values = draws.values.detach()
    count = len(values)
    freedom = count - draws.used - 1
    quantile = float(student.ppf((1 + confidence) / 2, freedom))
    residuals = values - values.mean(0)
    top = residuals.abs().amax(0)
    size = torch.where(top > 0, top, torch.ones_like(top))
    scaled = residuals / size
    variance = scaled.square().sum(0) / freedom
    third = scaled.pow(3).mean(0).abs()
    skewness = third / variance.clamp_min(torch.finfo(scaled.dtype).tiny)
    return size * (quantile * (variance / count).sqrt() + quantile**2 / 2 * skewness / count)


@torch.no_grad()
def guaranteed(question: Question, values: Tensor, rounding: Tensor) -> tuple[Tensor, Tensor] | None:
    """An interval that holds at the wanted confidence for every number of draws; None for an unknown family or loss."""
    certain, top = moment_limit(question), loss_range(question)
    if certain is None and top is None:
        return None
    mean = values.mean(0)
    below, above = torch.full_like(mean, -math.inf), torch.full_like(mean, math.inf)
    if top is not None:
        log_term, count = math.log(4 / (1 - question.method.confidence)), question.method.samples
        # the variance of numbers near the largest would overflow
        size = values.abs().amax(0).clamp_min(torch.finfo(values.dtype).tiny)
        spread = size * ((values / size).var(0) * 2 * log_term / count).sqrt()
        width = spread + 7 * top * log_term / (3 * (count - 1))
        below, above = mean - width, mean + width
    if certain is not None:
        below, above = torch.maximum(below, -certain), torch.minimum(above, certain)
    if _is_non_negative(question.loss):
        below = torch.maximum(below, -question.plain.detach())
    return below - rounding, above + rounding


def unbounded(question: Question, mean: Tensor) -> tuple[Tensor, Tensor]:
    """All that is known without a bound: a loss that is never negative cannot fall below zero."""
    below = -question.plain.detach() if _is_non_negative(question.loss) else torch.full_like(mean, -math.inf)
    return below.expand_as(mean), torch.full_like(mean.detach(), math.inf)


def loss_range(question: Question) -> Tensor | None:
    """B such that the mean losses under all masks lie in an interval of length B; None where none is known.

    From the outputs of absolute weights under the largest multipliers: (|f| + |y|)^2 for squared loss, slope times
    twice the largest change of an output otherwise.
    """
    model, loss, bound = question.model, question.loss, question.masks.bound
    if bound is None or not (isinstance(loss, Squared) or loss.slope is not None):
        return None
    sample = question.data.as_sample() if isinstance(question.data, Moments) else question.data
    largest = output_bound(model, data_inputs(sample), bound.detach().to(model.device, model.dtype))
    if largest is None:
        return None
    largest, weights = largest.double(), data_weights(sample)
    shares = None if weights is None else weights.double()
    if isinstance(loss, Squared):
        return average((largest + data_targets(sample).double().abs()).square().sum(-1), shares)
    assert loss.slope is not None
    plain = model.outputs(data_inputs(sample)).double().abs()
    return 2 * loss.slope * average((largest + plain).amax(-1), shares)


def moment_limit(question: Question) -> Tensor | None:
    """A certain bound on |E loss(z) - loss(1)| from the first two absolute moments of z - 1; None where unknown.

    With Delta the change of the outputs, E |Delta| and (E Delta^2)^(1/2) are at most the change of the network of
    absolute weights when multipliers grow from 1 by E |z - 1| or (E (z - 1)^2)^(1/2). Squared loss changes by
    2 <f - y, E Delta> + E |Delta|^2, where E Delta = 0 for outputs linear in the mask; a loss of slope s by at most
    s E max |Delta|.
    """
    model, masks, loss, data = question.model, question.masks, question.loss, question.data
    if not independent_layers(model, masks) or not (isinstance(loss, Squared) or loss.slope is not None):
        return None
    deviation = masks.relative_variance.detach().clamp_min(0).sqrt()
    drift = deviation
    if masks.bound is not None:
        # E |z - 1| = 2 E max(z - 1, 0)
        drift = torch.minimum(drift, 2 * (masks.bound.detach() - 1).clamp_min(0))
    sample = data.as_sample() if isinstance(data, Moments) else data
    base = output_scale(model, sample)
    if base is None:
        return None

    def change(growth: Tensor) -> Tensor:
        grown = output_scale(model, sample, (1 + growth).to(model.device, model.dtype))
        assert grown is not None
        # the difference of two roundings
        return (grown.double() - base.double()) + 64 * torch.finfo(model.dtype).eps * grown.double()

    spread = change(deviation)
    if not isinstance(loss, Squared):
        assert loss.slope is not None
        return loss.slope * torch.minimum(torch.linalg.vector_norm(spread, dim=-1), change(drift).sum(-1))
    limit = spread.square().sum(-1)
    if is_linear_in_masks(model):
        return limit
    errors = model.outputs(data_inputs(sample)).double() - data_targets(sample).double()
    return limit + 2 * (root_mean_squares(errors, sample) * change(drift)).sum(-1)


def _rounding(question: Question, values: Tensor) -> Tensor:
    """How far rounding can move the mean of the draws, whose own sizes count as well as those that are expected."""
    typical = typical_multipliers(question.model, question.masks)
    scale = excess_scale(question.model, question.data, typical, question.loss)
    steps = roundings(question.model, question.data) + 2 * math.sqrt(len(values))
    known = torch.as_tensor(scale, dtype=values.dtype, device=values.device)
    # without a known scale, that of the numbers themselves is all there is
    known = torch.where(torch.isfinite(known), known, question.plain.detach().abs().to(known))
    return steps * torch.finfo(question.model.dtype).eps * (known + values.abs().mean(0))


def _is_non_negative(loss: Loss) -> bool:
    return isinstance(loss, (Squared, CrossEntropy, Logistic))


def _outward(end: Tensor, dtype: torch.dtype, *, up: bool) -> Tensor:
    """The end in another precision, rounded so that the interval does not shrink."""
    rounded = end.to(dtype)
    if dtype == end.dtype:
        return rounded
    shrunk = rounded.double() < end if up else rounded.double() > end
    limit = torch.full_like(rounded, math.inf if up else -math.inf)
    return torch.where(shrunk, torch.nextafter(rounded, limit), rounded)
