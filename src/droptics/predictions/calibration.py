"""Whether predictions are as sure as they say: noise by likelihood, scores, coverage, split conformal intervals.

The spread of the masks is not calibrated by itself: observations scatter around every prediction too. Fit the noise on
data that the model was not trained on, and measure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import scipy
import torch
from torch import Tensor

from droptics.arguments import (
    Amount,
    ClassNumbers,
    Count,
    Floats,
    NonNegative,
    Probability,
    Rows,
    check_arguments,
    checked_fields,
)
from droptics.checks import as_float_tensor, check_size
from droptics.predictions.densities import Spectrum
from droptics.predictions.results import Predictive

# The fitted noise lies between these multiples of the root mean square error.
LEAST, MOST = 0.1, 1.5


@dataclass(frozen=True)
@checked_fields
class Calibration:
    """How predictions of one output did on observations.

    Attributes:
        noise: The standard deviation of the observations that was assumed.
        rmse: Root mean square error of the predicted means.
        nll: Mean negative log-likelihood, exact densities.
        crps: Mean continuous ranked probability score, in the units of the target; less is better.
        coverage: Share of observations inside the central intervals, by nominal level.
        levels: The nominal levels.
        pit: Distribution function at every observation; uniform where calibrated.
    """

    noise: NonNegative
    rmse: float
    nll: float
    crps: float
    levels: tuple[float, ...]
    coverage: tuple[float, ...]
    pit: Floats


def fit_noise(prediction: Predictive, targets: Tensor) -> float:
    """Standard deviation of the observations by maximum likelihood with exact densities; targets (examples, 1 output).

    Use examples that the model was not trained on. Cost: one density for the widest range of noises, then a bounded
    search.

    Claim: none, the maximum of a likelihood.
    """
    check_arguments(fit_noise, locals())
    wanted = _targets(prediction, targets)
    rmse = float((prediction.mean.value.detach().double() - wanted).square().mean().sqrt())
    if rmse == 0:
        raise ValueError("targets equal the predictions: there is no noise to fit")
    with torch.no_grad():
        spectrum = Spectrum.of(prediction.mixture(), LEAST * rmse, MOST * rmse)

        def loss(logarithm: float) -> float:
            values = spectrum.density(math.exp(logarithm)).pdf(wanted)
            # a target that no mask reaches with this noise costs as much as the smallest number we can trust
            return -float(values.clamp_min(1e-12 / rmse).log().mean())

        found = scipy.optimize.minimize_scalar(
            loss, bounds=(math.log(LEAST * rmse), math.log(MOST * rmse)), method="bounded", options={"xatol": 1e-4}
        )
    return math.exp(float(found.x))


def calibration(
    prediction: Predictive, targets: Tensor, noise: Amount, levels: tuple[Probability, ...] = (0.5, 0.9, 0.95)
) -> Calibration:
    """Scores of predictions of one output with normal noise of this deviation around them.

    Cost: the density of every example, twice. Claim: none, scores by definition.
    """
    check_arguments(calibration, locals())
    wanted = _targets(prediction, targets)
    with torch.no_grad():
        density = prediction.density(noise)
        pit = density.cdf(wanted)
        grid, table = density.cdf_table()
        # integral of (F - step)^2 over the period; the step at the target costs at most half a cell
        gaps = (table - (grid >= wanted).double()).square()
        outside = (density.low - wanted).clamp_min(0) + (wanted - density.low - density.width).clamp_min(0)
        crps = gaps.mean(0) * density.width + outside
        nll = -float(prediction.log_likelihood(wanted, noise).mean())
    if math.isnan(nll):
        raise ValueError("targets are too far from the predictions: their likelihood is not a number any more")
    inside = [float((((1 - level) / 2 <= pit) & (pit <= (1 + level) / 2)).double().mean()) for level in levels]
    rmse = float((prediction.mean.value.detach().double() - wanted).square().mean().sqrt())
    return Calibration(noise, rmse, nll, float(crps.mean()), tuple(levels), tuple(inside), pit)


def conformal_factor(prediction: Predictive, targets: Tensor, noise: Amount, level: Probability) -> float:
    """The number k such that mean -+ k sqrt(variance + noise^2) covers a new target with probability >= level.

    Split conformal: the ceil((n + 1) level)-th smallest of |y - m| / sqrt(V + s^2) on n held-out examples. It holds for
    every model and every noise when held-out and new examples are exchangeable; infinite when n is too small.

    Cost: O(n log n). Claim: none, exchangeability is all it needs.
    """
    check_arguments(conformal_factor, locals())
    wanted = _targets(prediction, targets)
    spread = (prediction.variance.value.detach().double() + float(noise) ** 2).sqrt()
    scores = ((wanted - prediction.mean.value.detach().double()).abs() / spread).flatten().sort().values
    rank = math.ceil((len(scores) + 1) * level)
    return math.inf if rank > len(scores) else float(scores[rank - 1])


def expected_calibration_error(probabilities: Rows, labels: ClassNumbers, bins: Count = 15) -> float:
    """Mean distance between confidence and accuracy over equal bins of the confidence, weighed by their counts.

    Cost: O(n). Claim: none, a definition.
    """
    check_arguments(expected_calibration_error, locals())
    chances = as_float_tensor(probabilities, "probabilities", 2).detach().double()
    check_size("labels", len(labels), len(chances), "one label per example")
    confidence, chosen = chances.max(-1)
    right = (chosen == labels).double()
    place = (confidence * bins).long().clamp(0, bins - 1)
    counts = torch.zeros(bins, dtype=torch.float64, device=chances.device).index_add(0, place, torch.ones_like(right))
    gap = torch.zeros_like(counts).index_add(0, place, confidence - right)
    return float(gap.abs().sum() / counts.sum())


def _targets(prediction: Predictive, targets: Tensor) -> Tensor:
    wanted = as_float_tensor(targets, "targets").double()
    wanted = wanted[:, None] if wanted.ndim == 1 else wanted
    shape = tuple(prediction.mean.value.shape)
    if shape[-1] != 1 or len(shape) != 2:
        raise ValueError(f"prediction must be of one output for its calibration, got shape {shape}")
    if tuple(wanted.shape) != shape:
        raise ValueError(f"targets have shape {tuple(wanted.shape)} but the prediction {shape}")
    return wanted.to(prediction.mean.value.device)
