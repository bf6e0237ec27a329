"""Single-sample two-layer steps as batched matrix products, captured as a CUDA graph where there is a GPU.

The same steps as the compiled kernel, on any device: the oracle of the kernel, and the way to run on a GPU, where one
launch of a captured graph takes the place of some ten launches per step.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from droptics.gpu.graphs import captured
from droptics.models import Autoencoder, Model, TwoLayerLinear
from droptics.training.descents import Descent
from droptics.training.draws import Draws
from droptics.training.trainees import rebuild

# Steps in one graph: enough that launching it costs little per step, few enough that stretches between records use it.
UNROLL = 32


class ProductsDescent(Descent):
    """Gradients written out, weights (runs, features, width) changed in place."""

    def __init__(self, model: TwoLayerLinear | Autoencoder) -> None:
        self._template = model
        self.sizes_on = model.device
        self._lead = bool(model.batch_shape)
        shape = model.batch_shape if self._lead else torch.Size([1])
        self._weights = [
            tensor.detach().expand(*shape, *tensor.shape[-2:]).clone(memory_format=torch.contiguous_format)
            for tensor in model.tensors
        ]
        self._graph: _Graph | None = None

    def advance(self, draws: Draws, first: int, sizes: Tensor) -> Tensor:
        count = len(sizes)
        assert draws.inputs is not None
        assert draws.targets is not None
        span = slice(first, first + count)
        x, y = (part[:, span, 0].transpose(0, 1) for part in (draws.inputs, draws.targets))
        if draws.multipliers is None:
            z = x.new_ones(1, 1, 1).expand(count, x.shape[1], self._template.units)
        else:
            z = draws.multipliers[:, span, 0].transpose(0, 1)
        doubled = (2 * sizes).to(x)  # steps go along half the gradient of the squared error
        losses = x.new_empty(count, x.shape[1])
        start = 0
        if x.device.type == "cuda":
            while count - start >= UNROLL:
                if self._graph is None:
                    self._graph = _Graph(self, x, y, z)
                part = slice(start, start + UNROLL)
                losses[part] = self._graph.replay(x[part], y[part], z[part], doubled[part])
                start += UNROLL
        for t in range(start, count):
            self.step(x[t], y[t], z[t], doubled[t], losses[t])
        return losses

    def step(self, x: Tensor, y: Tensor, z: Tensor, size: Tensor, loss: Tensor) -> None:
        """One step of all runs: x (runs, inputs), y (runs, outputs), z (runs, width), size and loss (runs,)."""
        U, V = self._weights[0], self._weights[-1]
        rows, scale = x.unsqueeze(1), size[:, None, None]
        hidden = torch.bmm(rows, V) * z.unsqueeze(1)
        residual = torch.baddbmm(y.unsqueeze(1), hidden, U.mT, beta=-1)
        loss.copy_(residual.square().sum((1, 2)))
        back = torch.bmm(residual, U) * z.unsqueeze(1)
        # both updates use what was computed from the old weights, also when U and V are the same tensor
        U.baddbmm_((residual * scale).mT, hidden, alpha=-1)
        V.baddbmm_((rows * scale).mT, back, alpha=-1)

    def model(self) -> Model:
        return rebuild(self._template, self._weights if self._lead else [weight[0] for weight in self._weights])

    def snapshot(self) -> Model:
        return rebuild(self._template, [tensor.clone() for tensor in self.model().tensors])

    def sound(self) -> Tensor:
        return torch.stack([torch.isfinite(weight).flatten(1).all(1) for weight in self._weights]).all(0)

    def tensors(self) -> dict[str, Tensor]:
        return {f"weights.{i}": weight for i, weight in enumerate(self._weights)}

    def load(self, saved: dict[str, Tensor]) -> None:
        for i, weight in enumerate(self._weights):
            weight.copy_(saved[f"weights.{i}"])


class _Graph:
    """UNROLL steps captured once; a replay reads its numbers from fixed buffers."""

    def __init__(self, engine: ProductsDescent, x: Tensor, y: Tensor, z: Tensor) -> None:
        runs = x.shape[1]
        self._buffers = [x.new_zeros(UNROLL, runs, part.shape[-1]) for part in (x, y, z)]
        self._sizes = x.new_zeros(UNROLL, runs)
        self._losses = x.new_zeros(UNROLL, runs)
        # at size zero nothing moves in the rehearsal
        self._launch = captured(partial(self._steps, engine), x.device, rehearsals=1)

    def _steps(self, engine: ProductsDescent) -> None:
        x, y, z = self._buffers
        for t in range(UNROLL):
            engine.step(x[t], y[t], z[t], self._sizes[t], self._losses[t])

    def replay(self, x: Tensor, y: Tensor, z: Tensor, sizes: Tensor) -> Tensor:
        """Take UNROLL steps; returns the losses, in a buffer that the next replay overwrites."""
        for buffer, part in zip([*self._buffers, self._sizes], (x, y, z, sizes), strict=True):
            buffer.copy_(part)
        self._launch()
        return self._losses
