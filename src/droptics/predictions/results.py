"""Predictive: what the masked predictions of a model converge to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from droptics.errors import NoClosedForm
from droptics.estimates import Estimate
from droptics.predictions.classes import Classes, classes_of
from droptics.predictions.densities import Density, central_interval, log_density
from droptics.predictions.mixtures import Outcome


@dataclass(frozen=True, eq=False)
class Predictive:
    """Moments of the outputs of a model under random masks, one row per example.

    The variance is that of the model's answer, not that of a target: `interval` and `log_likelihood` ask for the
    noise of the observations.

    Attributes:
        mean: E f(x; z), (..., examples, outputs).
        variance: Variance of every output, (..., examples, outputs).
        outcomes: The outputs as a mixture over the early masks, affine in the last one; None where only the two
            moments are known.
        joint: Computes the covariance.
        samples: How many masks were drawn; None where all were summed.
    """

    mean: Estimate
    variance: Estimate
    outcomes: Callable[[], Iterator[Outcome]] | None
    joint: Callable[[], Estimate]
    samples: int | None = None

    @cached_property
    def covariance(self) -> Estimate:
        """Covariance of the outputs of every example, (..., examples, outputs, outputs); computed when asked for."""
        return self.joint()

    @property
    def std(self) -> Tensor:
        """Root of the variance, (..., examples, outputs)."""
        return self.variance.value.clamp_min(0).sqrt()

    def classes(self, points: int = 256) -> Classes:
        """E softmax, predictive entropy and mutual information, the outputs read as logits.

        One body pass per early mask; the last mask is listed where it is short, else stands as `points` Gaussian logits
        (checked) or as that many head masks.
        """
        return classes_of(self.mixture(), points, self.samples)

    def density(self, noise: float | Tensor) -> Density:
        """Exact distribution of observations y = f(x; z) + noise, each output on its own; `noise` is a deviation."""
        return Density.of(self.mixture(), noise)

    def log_likelihood(self, targets: Tensor, noise: float | Tensor) -> Tensor:
        """Exact log density of every target on its own, (examples, outputs), for normal noise of this deviation."""
        return log_density(self.mixture(), targets, noise)

    def interval(self, level: float, noise: float | Tensor) -> tuple[Tensor, Tensor]:
        """Where an observation falls with probability `level`, equal tails; `noise` is the deviation of observations.

        The spread of the masks alone is no interval for a target, so the noise has to be said; `calibration` fits it.
        """
        return central_interval(self.mixture(), level, noise)

    def mixture(self) -> Callable[[], Iterator[Outcome]]:
        """The outputs as a mixture over the early masks; refused where only moments are known."""
        if self.outcomes is None:
            raise NoClosedForm(
                "only the mean and the covariance of these outputs are known; use Enumerate() or MonteCarlo(), which "
                "keep the distribution"
            )
        if self.mean.value.ndim != 2:
            raise ValueError("distributions are for one model at a time, got a batch of them")
        return self.outcomes

    def __repr__(self) -> str:
        return f"Predictive(outputs of shape {tuple(self.mean.value.shape)}, {self.variance.method})"
