"""Single-sample two-layer steps as batched matrix products, captured as a CUDA graph where there is a GPU.

The same steps as the compiled kernel, on any device: the oracle of the kernel, and the way to run on a GPU, where one
launch of a captured graph takes the place of some ten launches per step.
"""

from __future__ import annotations

from collections.abc import Callable

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
        self._graph: Callable[..., Tensor] | None = None

    def advance(self, draws: Draws, first: int, sizes: Tensor) -> Tensor:
        count = len(sizes)
        x, y, masks = self._sample(draws, first, count)
        x, y = x.transpose(0, 1), y.transpose(0, 1)
        every = x.new_ones(1, 1, 1).expand(count, x.shape[1], self._template.units)
        z = every if masks is None else masks.transpose(0, 1)
        doubled = (2 * sizes).to(x)  # steps go along half the gradient of the squared error
        losses = x.new_empty(count, x.shape[1])
        start = 0
        while x.is_cuda and count - start >= UNROLL:
            if self._graph is None:
                self._graph = self._captured(x, y, z, doubled)
            part = slice(start, start + UNROLL)
            losses[part] = self._graph(x[part], y[part], z[part], doubled[part])
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

    def _captured(self, *given: Tensor) -> Callable[..., Tensor]:
        """UNROLL steps recorded once; a replay reads from fixed buffers and returns losses that the next overwrites."""
        buffers = [part.new_zeros(UNROLL, *part.shape[1:]) for part in (*given, given[-1])]

        def steps() -> None:
            for numbers in zip(*buffers, strict=True):
                self.step(*numbers)

        launch = captured(steps, given[0].device, rehearsals=1)  # at size zero nothing moves in the rehearsal

        def replay(*parts: Tensor) -> Tensor:
            for buffer, part in zip(buffers[:-1], parts, strict=True):
                buffer.copy_(part)
            launch()
            return buffers[-1]

        return replay
