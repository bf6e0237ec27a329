"""Single-sample two-layer steps as batched matrix products, captured as a CUDA graph where there is a GPU.

The same steps as the compiled kernel, on any device: the oracle of the kernel, and the way to run on a GPU, where one
launch of a captured graph takes the place of some ten launches per step.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from droptics.gpu.graphs import captured
from droptics.models import Autoencoder, TwoLayerLinear
from droptics.training.descents import TwoLayerDescent
from droptics.training.draws import Draws

# Steps in one graph: enough that launching it costs little per step, few enough that stretches between records use it.
UNROLL = 32


class ProductsDescent(TwoLayerDescent):
    """Gradients written out, weights (runs, features, width) changed in place."""

    def __init__(self, model: TwoLayerLinear | Autoencoder) -> None:
        super().__init__(model, model.units)
        self._graph: _Graph | None = None

    def advance(self, draws: Draws, first: int, sizes: Tensor) -> Tensor:
        count = len(sizes)
        x, y, masks = self._sample(draws, first, count)
        x, y = x.transpose(0, 1), y.transpose(0, 1)
        every = x.new_ones(1, 1, 1).expand(count, x.shape[1], self._template.units)
        z = every if masks is None else masks.transpose(0, 1)
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
        U, V = self._stored[0], self._stored[-1]
        rows, scale = x.unsqueeze(1), size[:, None, None]
        hidden = torch.bmm(rows, V) * z.unsqueeze(1)
        residual = torch.baddbmm(y.unsqueeze(1), hidden, U.mT, beta=-1)
        loss.copy_(residual.square().sum((1, 2)))
        back = torch.bmm(residual, U) * z.unsqueeze(1)
        # both updates use what was computed from the old weights, also when U and V are the same tensor
        U.baddbmm_((residual * scale).mT, hidden, alpha=-1)
        V.baddbmm_((rows * scale).mT, back, alpha=-1)


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
