"""Single-sample two-layer steps on a GPU as one kernel: every run is a program that holds its weights in registers.

A launch takes all steps between two records. The random numbers are in memory before, so that the plain path can be
run on the same ones.
"""

from __future__ import annotations

import torch
from torch import Tensor

from droptics.models import Autoencoder, Model, TwoLayerLinear
from droptics.training import triton_steps
from droptics.training.descents import Descent
from droptics.training.draws import Draws
from droptics.training.trainees import rebuild


def why_not(model: TwoLayerLinear | Autoencoder) -> str:
    """Why the kernel does not cover this model; empty when it does."""
    if model.device.type != "cuda":
        return "it runs on a CUDA device"
    rows = sum(triton_steps.power_of_two(tensor.shape[-2]) for tensor in model.tensors)
    if not triton_steps.fits(rows, model.units, model.tensors[0].element_size()):
        return "the weights of a run do not fit into the registers of one program"
    return triton_steps.missing()


class PersistentDescent(Descent):
    """One program per run; weights (runs, features, columns) with zero columns up to a power of two."""

    def __init__(self, model: TwoLayerLinear | Autoencoder) -> None:
        self._template = model
        self.sizes_on = model.device
        self._lead = bool(model.batch_shape)
        shape = model.batch_shape if self._lead else torch.Size([1])
        columns = triton_steps.power_of_two(model.units)
        self._weights = []
        for tensor in model.tensors:
            padded = tensor.new_zeros(*shape, tensor.shape[-2], columns)
            padded[..., : model.units] = tensor.detach()
            self._weights.append(padded)

    def advance(self, draws: Draws, first: int, sizes: Tensor) -> Tensor:
        assert draws.inputs is not None
        assert draws.targets is not None
        span = slice(first, first + len(sizes))
        x, y = draws.inputs[:, span, 0], draws.targets[:, span, 0]
        z = None if draws.multipliers is None else draws.multipliers[:, span, 0]
        # the kernel moves along half the gradient of the squared error
        doubled = (2 * sizes.mT).to(x).contiguous()
        return triton_steps.descend(self._weights, self._template.units, x, y, z, doubled).mT

    def model(self) -> Model:
        found = [weight[..., : self._template.units] for weight in self._weights]
        return rebuild(self._template, found if self._lead else [weight[0] for weight in found])

    def snapshot(self) -> Model:
        copies = [tensor.clone(memory_format=torch.contiguous_format) for tensor in self.model().tensors]
        return rebuild(self._template, copies)

    def sound(self) -> Tensor:
        return torch.stack([torch.isfinite(weight).flatten(1).all(1) for weight in self._weights]).all(0)

    def tensors(self) -> dict[str, Tensor]:
        return {f"weights.{i}": weight for i, weight in enumerate(self._weights)}

    def load(self, saved: dict[str, Tensor]) -> None:
        for i, weight in enumerate(self._weights):
            weight.copy_(saved[f"weights.{i}"])
