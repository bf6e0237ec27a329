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
from typing import Any

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.data import Data, Moments, average
from droptics.estimates import Estimate
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import MaskLaw
from droptics.models import Model
from droptics.models.deep_linear import Layered
from droptics.penalties.evaluation import data_weights, observed
from droptics.penalties.methods import MonteCarlo
from droptics.penalties.rounding import (
    deferred,
    excess_scale,
    independent_layers,
    output_bound,
    output_scale,
    root_mean_squares,
    roundings,
    typical_multipliers,
)
from droptics.penalties.unit_outputs import is_linear_in_masks
from droptics.transforms import as_array

Array = NDArray[np.float64]
TINY = float(np.finfo(np.float64).tiny)
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
    method, dtype = question.method, question.model.dtype
    bare = candidates[-1].values.detach()
    rounding = _rounding(question, bare)
    chosen, spread = candidates[-1], None
    rarest = question.masks.rarest
    reason = rare_outcomes(question.model, question.masks, method.samples, rarest)
    if reason is None:
        reason = "so few draws carry the variance"
        shown = pairs_are_shown(rarest, method)
        for draws in candidates:
            found = Spread.of(draws.values)
            if (shown or not draws.pairs) and bool((found.effective(rounding) >= FEW).all()):
                chosen, spread, reason = draws, found, None
                break
    mean, note = chosen.values.mean(0), chosen.note
    fixed = as_array(mean)
    safe = deferred(guaranteed, question.model, question.data, question, bare, rounding, otherwise=None)
    if spread is not None:
        half = spread.student(chosen.used, method.confidence) + rounding
        ends = fixed - half, fixed + half
    else:
        limits = safe()
        ends = unbounded(question, fixed) if limits is None else (as_array(limits[0]), as_array(limits[1]))
        note = f"{note}; {reason} that the interval is {'unbounded' if limits is None else 'the guaranteed one'}"
        safe = lambda: limits  # noqa: E731
    slack = torch.finfo(dtype).eps * np.maximum(np.abs(fixed), rounding)
    lower, upper, error = (
        torch.as_tensor(part, device=mean.device) for part in (ends[0] - slack, ends[1] + slack, rounding + slack)
    )
    known = {
        "value": mean.to(dtype),
        "lower": _outward(lower, dtype, up=False),
        "upper": _outward(upper, dtype, up=True),
        "method": f"Monte Carlo, {method.samples} masks{how}{note}",
        "cost": method.samples,
        "confidence": method.confidence,
        "error": error.to(dtype),
    }

    def rest() -> dict[str, Any]:
        limits = safe()
        if limits is not None:
            limits = _outward(limits[0], dtype, up=False), _outward(limits[1], dtype, up=True)
        return {"guaranteed": limits}

    return Estimate.later(known, rest)


def check_draws(question: Question, values: Tensor) -> None:
    """Refuse what no longer fits the precision of the model, instead of answering NaN."""
    dtype = question.model.dtype
    mean = values.mean(0).to(dtype)
    if math.isfinite(float(mean.double().sum() + question.plain.detach().double().sum())):
        return
    if not bool(torch.isfinite(mean).all() & torch.isfinite(question.plain).all()):
        raise ValueError(
            f"model and data are too large for {dtype}: outputs or losses overflow under these masks; "
            "give weights and data as float64, or rescale weights and targets"
        )


def rare_outcomes(model: Model, masks: MaskLaw, samples: int, rarest: float) -> str | None:
    """Why so many draws cannot show all that the law does to the model; None when they can.

    Besides single outcomes: a layer of a few units with small survival rates is dead in nearly every draw, and what
    passes through several such layers is rarer still. The survival rate of a unit is taken as 1 / E z^2, which it is
    for coins.
    """
    if samples * rarest < FEW:
        return f"outcomes of probability {rarest:.2g} are so rare among {samples} draws"
    layers = model.layer_units if isinstance(model, Layered) else (model.units,)
    alive = 1 / (1 + as_array(masks.relative_variance))
    parts = np.split(alive, np.cumsum(layers)[:-1])
    passing = math.prod(min(1.0, float(part.sum())) for part in parts)
    if samples * passing < FEW:
        return f"signals pass all masks in so small a share ({passing:.2g}) of {samples} draws"
    return None


def pairs_are_shown(rarest: float, method: MonteCarlo) -> bool:
    """Whether two rare outcomes happen together in some draw, but for half of the chance that the interval may fail.

    Draws without such a pair look alike once the effects of single units are removed, and the interval shrinks around
    a mean that lacks the pair. It then fails on one side, which has half of 1 - confidence; draws with one pair are
    caught by `effective_draws`.
    """
    return (1 - rarest**2) ** method.samples <= (1 - method.confidence) / 2


@dataclass(frozen=True, eq=False)
class Spread:
    """Sums of powers of the residuals of draws, relative to the largest residual `size`: nothing over- or underflows.

    NumPy, because there are many small steps and few numbers.
    """

    size: Array
    second: Array
    third: Array
    fourth: Array
    count: int

    @staticmethod
    def of(values: Tensor) -> Spread:
        """Of draws (samples, *batch)."""
        numbers = as_array(values)
        residuals = numbers - numbers.mean(0)
        size = np.abs(residuals).max(0)
        scaled = residuals / np.where(size > 0, size, 1.0)
        squares = scaled * scaled
        cubes = (squares * scaled).sum(0)
        return Spread(size, squares.sum(0), cubes, (squares * squares).sum(0), len(numbers))

    def effective(self, rounding: Array) -> Array:
        """How many draws carry the variance, (sum r^2)^2 / sum r^4; zero where the residuals are mere rounding."""
        count = self.second**2 / np.maximum(self.fourth, TINY)
        return np.where(self.size > 4 * rounding, count, 0.0)

    def student(self, used: int, confidence: float) -> Array:
        """Half of Student's interval, with t^2 / 2 |third moment| / variance / n for the skewness of the draws.

        For k draws of a rare event this adds t^2 / 2 to the sqrt(k) t of the count, as the score interval of a small
        proportion does. `used` degrees of freedom went into control variates.
        """
        freedom = self.count - used - 1
        quantile = float(scipy.special.stdtrit(freedom, (1 + confidence) / 2))
        variance = self.second / freedom
        skewness = np.abs(self.third) / self.count / np.maximum(variance, TINY)
        return self.size * (quantile * np.sqrt(variance / self.count) + quantile**2 / 2 * skewness / self.count)


@torch.no_grad()
def guaranteed(
    _model: Model, _data: Data, question: Question, values: Tensor, rounding: Array
) -> tuple[Tensor, Tensor] | None:
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
    more = torch.as_tensor(rounding, device=mean.device)
    return below - more, above + more


def unbounded(question: Question, mean: Array) -> tuple[Array, Array]:
    """All that is known without a bound: a loss that is never negative cannot fall below zero."""
    below = -as_array(question.plain) if _is_non_negative(question.loss) else np.array(-math.inf)
    return np.broadcast_to(below, mean.shape), np.full_like(mean, math.inf)


def loss_range(question: Question) -> Tensor | None:
    """B such that the mean losses under all masks lie in an interval of length B; None where none is known.

    From the outputs of absolute weights under the largest multipliers: (|f| + |y|)^2 for squared loss, slope times
    twice the largest change of an output otherwise.
    """
    model, loss, bound = question.model, question.loss, question.masks.bound
    if bound is None or not (isinstance(loss, Squared) or loss.slope is not None):
        return None
    sample = question.data.as_sample() if isinstance(question.data, Moments) else question.data
    largest = output_bound(model, observed(sample).inputs, bound.detach().to(model.device, model.dtype))
    if largest is None:
        return None
    largest, weights = largest.double(), data_weights(sample)
    shares = None if weights is None else weights.double()
    if isinstance(loss, Squared):
        return average((largest + observed(sample).targets.double().abs()).square().sum(-1), shares)
    assert loss.slope is not None
    plain = model.outputs(observed(sample).inputs).double().abs()
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
    errors = model.outputs(observed(sample).inputs).double() - observed(sample).targets.double()
    return limit + 2 * (root_mean_squares(errors, sample) * change(drift)).sum(-1)


def _rounding(question: Question, values: Tensor) -> Array:
    """How far rounding can move the mean of the draws, whose own sizes count as well as those that are expected."""
    typical = typical_multipliers(question.model, question.masks)
    scale = excess_scale(question.model, question.data, typical, question.loss)
    steps = roundings(question.model, question.data) + 2 * math.sqrt(len(values))
    known = np.asarray(as_array(scale) if isinstance(scale, Tensor) else scale, np.float64)
    if not np.isfinite(known).all():
        # without a known scale, that of the numbers themselves is all there is
        known = np.where(np.isfinite(known), known, np.abs(as_array(question.plain)))
    sizes = np.abs(as_array(values)).mean(0)
    return steps * torch.finfo(question.model.dtype).eps * (known + sizes)


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
