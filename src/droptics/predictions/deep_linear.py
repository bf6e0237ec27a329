"""Moments of the outputs of deep linear networks: what every mask injects, carried to the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.masks import MaskLaw
from droptics.masks.correlations import Noise
from droptics.models import DeepLinear
from droptics.penalties.deep_linear import layer_laws
from droptics.penalties.evaluation import CHUNK_ELEMENTS


def deep_variance(model: DeepLinear, inputs: Tensor, masks: MaskLaw) -> Tensor:
    """Variance of every output of every example, (..., examples, outputs); droptics-predictive-deep.

    With independent units a mask injects uncorrelated noise: n_l = lambda_l o (h_l^2 + sum_{m<l} (A_lm o A_lm) n_m)
    at layer l, A_lm the map from layer m to it, and the variance is sum_m (A_m o A_m) n_m. Only non-negative terms are
    added, so that small rates lose no digits. O(examples depth^2 width^2) and once depth^2 width^3; examples times
    depth^2 width^3 for correlated units.
    """
    return _at_the_end(model, inputs, layer_laws(model, masks), Noise.variances_behind, -2)


def deep_covariance(model: DeepLinear, inputs: Tensor, masks: MaskLaw) -> Tensor:
    """Covariance of the outputs of every example, (..., examples, outputs, outputs).

    sum_m A_m N_m A_m^T with N_m = Cbar_m o (h_m h_m^T + sum_{l<m} A_ml N_l A_ml^T), the noise that layer m injects: its
    diagonal alone where units are independent. Cost: examples depth^2 width^3.
    """
    return _at_the_end(model, inputs, layer_laws(model, masks), _behind, -3)


@dataclass(frozen=True, eq=False)
class _Moment:
    """Second moment of a layer: its value h (..., examples, width), and the noise of earlier layers by its map."""

    hidden: Tensor
    injected: Sequence[tuple[Noise, Tensor]]

    def energies(self) -> Tensor:
        return sum((noise.variances_behind(tail) for noise, tail in self.injected), self.hidden.square())

    def part(self, rows: slice, columns: slice) -> Tensor:
        whole = self.hidden.unsqueeze(-1) * self.hidden.unsqueeze(-2)
        return sum((_behind(noise, tail) for noise, tail in self.injected), whole)[..., rows, columns]


def _behind(noise: Noise, tail: Tensor) -> Tensor:
    return noise.behind(tail.unsqueeze(-3))


def _at_the_end(
    model: DeepLinear, inputs: Tensor, laws: Sequence[MaskLaw], read: Callable[[Noise, Tensor], Tensor], examples: int
) -> Tensor:
    """What a reading of the noise adds up to at the outputs, some examples at a time, joined in their dimension."""
    entries = max(law.noise_entries for law in laws) * max(model.batch_shape.numel(), 1)
    parts = []
    for hidden in inputs.split(max(1, CHUNK_ELEMENTS // entries)):
        weights = list(model.weights)
        moment = _Moment(hidden if model.mask_inputs else hidden @ weights.pop(0).mT, ())
        for weight, law in zip(weights, laws, strict=True):
            noise = law.noise(moment)
            injected = [*((earlier, weight @ tail) for earlier, tail in moment.injected), (noise, weight)]
            moment = _Moment(moment.hidden @ weight.mT, injected)
        first, *others = (read(noise, tail) for noise, tail in moment.injected)
        parts.append(sum(others, first))
    return torch.cat(parts, dim=examples) if len(parts) > 1 else parts[0]
