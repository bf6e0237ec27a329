"""Outputs and input gradients of layers in a row, by the operations that autograd would run, without its bookkeeping.

On a GPU the bookkeeping of a small network takes longer than its passes. On a CPU examples that are fooled leave
between the forward and the backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from droptics.attacks.gradients import Differentiable, as_columns, parts_of, watched

_ATEN = torch.ops.aten  # what autograd calls, to the last bit


class Chain(Differentiable):
    """Convolutions, affine layers, ReLU and Flatten."""

    capturable = True

    def __init__(self, layers: Sequence[nn.Module]) -> None:
        self._layers = layers
        self.width = layers[-1].out_features if isinstance(layers[-1], nn.Linear) else None  # of the outputs

    @staticmethod
    def of(model: object) -> Chain | None:
        """The chain that a module is; None where it is anything else."""
        layers = list(parts_of(model)) if isinstance(model, nn.Module) else []
        weights = [layer.weight for layer in layers if isinstance(layer, (nn.Linear, nn.Conv2d))]
        mixed = any(torch.is_autocast_enabled(weight.device.type) for weight in weights)
        return Chain(layers) if weights and not mixed and all(map(_known, layers)) else None

    @torch.no_grad()
    def forward(self, inputs: Tensor) -> Tensor:
        """Outputs; what every layer took and gave is kept."""
        self._seen = [inputs.detach()]
        for layer in self._layers:
            self._seen.append(layer(self._seen[-1]))
        return as_columns(self._seen[-1], len(inputs))

    @torch.no_grad()
    def pull(self, slopes: Tensor, rows: Tensor | None = None, *, again: bool = False) -> Tensor:
        """Gradients, from the last layer to the first; of what a layer took, its shape is all that is asked for."""
        value = slopes.to(self._seen[-1].dtype)
        for layer, taken, given in zip(reversed(self._layers), self._seen[-2::-1], self._seen[:0:-1], strict=True):
            match layer:
                case nn.Linear():
                    value = value @ layer.weight
                case nn.ReLU():
                    value = _ATEN.threshold_backward(value, given if rows is None else given.index_select(0, rows), 0)
                case nn.Conv2d():
                    sizes = layer.stride, layer.padding, layer.dilation, False, (0, 0), layer.groups
                    wanted = True, False, False  # of the input, not of the weights
                    value = _ATEN.convolution_backward(value, taken[: len(value)], layer.weight, None, *sizes, wanted)[
                        0
                    ]
                case nn.Flatten():
                    value = value.view(-1, *taken.shape[1:])
        return value

    @torch.no_grad()
    def scores(self, inputs: Tensor) -> Tensor:
        """Outputs alone."""
        value = inputs
        for layer in self._layers:
            value = layer(value)
        return as_columns(value, len(inputs))


def _known(layer: nn.Module) -> bool:
    """Whether it is one of these layers: exact types, since a subclass may compute anything."""
    if watched(layer):
        return False
    if type(layer) is nn.Flatten:
        return (layer.start_dim, layer.end_dim) == (1, -1)
    if type(layer) is nn.Conv2d:
        return layer.padding_mode == "zeros" and not isinstance(layer.padding, str)
    return type(layer) is nn.Linear or (type(layer) is nn.ReLU and not layer.inplace)
