"""Predictive: what the masked predictions of a model converge to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from droptics.estimates import Estimate
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

    def __repr__(self) -> str:
        return f"Predictive(outputs of shape {tuple(self.mean.value.shape)}, {self.variance.method})"
