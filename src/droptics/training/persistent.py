"""Single-sample two-layer steps on a GPU as one kernel: every run is a program that holds its weights in registers.

A launch takes all steps between two records. The random numbers are in memory before, so that the plain path can be
run on the same ones.
"""

from __future__ import annotations

from torch import Tensor

from droptics.models import Autoencoder, TwoLayerLinear
from droptics.training import triton_steps
from droptics.training.descents import TwoLayerDescent
from droptics.training.draws import Draws


def why_not(model: TwoLayerLinear | Autoencoder) -> str:
    """Why the kernel does not cover this model; empty when it does."""
    if model.device.type != "cuda":
        return "it runs on a CUDA device"
    rows = sum(triton_steps.power_of_two(tensor.shape[-2]) for tensor in model.tensors)
    if not triton_steps.fits(rows, model.units, model.tensors[0].element_size()):
        return "the weights of a run do not fit into the registers of one program"
    return triton_steps.missing()


class PersistentDescent(TwoLayerDescent):
    """One program per run; weights (runs, features, columns) with zero columns up to a power of two."""

    def __init__(self, model: TwoLayerLinear | Autoencoder) -> None:
        super().__init__(model, triton_steps.power_of_two(model.units))

    def advance(self, draws: Draws, first: int, sizes: Tensor) -> Tensor:
        x, y, z = self._sample(draws, first, len(sizes))
        # the kernel moves along half the gradient of the squared error
        doubled = (2 * sizes.mT).to(x).contiguous()
        return triton_steps.descend(self._stored, self._template.units, x, y, z, doubled).mT
