"""A dropout site anywhere inside a torch module: the entries of one layer's output are the maskable units."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from droptics.arguments import checked_fields
from droptics.models.hooks import hooked
from droptics.models.model import Model, check_multipliers
from droptics.models.modules import evaluating


@dataclass(frozen=True, eq=False)
@checked_fields
class Site(Model):
    """x -> module(x) with the output of one inner layer multiplied by the mask; the rest of the network follows.

    Units are the entries of that output for one example, in row-major order, or its channels (first dimension after
    the examples) with `channels=True`, as for nn.Dropout2d. The module runs in evaluation mode, so its own dropout
    layers act as the identity; every flag and hook is restored after a call.
    """

    module: nn.Module
    layer: nn.Module
    shape: tuple[int, ...]
    channels: bool = False

    @staticmethod
    def of(module: nn.Module, name: str, inputs: Tensor, channels: bool = False) -> Site:
        """The layer called `name` (as in `module.named_modules()`); `inputs` show the shape of its output."""
        layers = dict(module.named_modules())
        if name not in layers or not name:
            raise ValueError(f"name must be one of the layers {sorted(key for key in layers if key)}, got {name!r}")
        shapes: list[torch.Size] = []

        def look(value: Tensor) -> Tensor:
            shapes.append(value.shape)
            return value

        with torch.no_grad():
            _run(module, layers[name], inputs[:1], look)
        if len(shapes[0]) < 2 or shapes[0][0] != 1:
            raise ValueError(
                f"the output of {name!r} must be (examples, features...), got shape {tuple(shapes[0])} for one example"
            )
        return Site(module, layers[name], tuple(shapes[0][1:]), channels)

    @property
    def units(self) -> int:
        return self.shape[0] if self.channels else math.prod(self.shape)

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(self.module.parameters())

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        if multipliers is None:
            return _run(self.module, self.layer, inputs, lambda value: value)
        check_multipliers(multipliers, self.units)
        examples = inputs.shape[0]
        lead = np.broadcast_shapes(multipliers.shape[:-1], (examples,))[:-1]
        spread = multipliers.expand(*lead, examples, self.units).reshape(-1, self.units)
        unit_shape = (self.shape[0], *(1,) * (len(self.shape) - 1)) if self.channels else self.shape
        repeated = inputs.expand(*lead, *inputs.shape).reshape(-1, *inputs.shape[1:])
        result = _run(self.module, self.layer, repeated, lambda value: value * spread.reshape(-1, *unit_shape))
        return result.reshape(*lead, examples, *result.shape[1:])


def _run(module: nn.Module, layer: nn.Module, inputs: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """Run the module in evaluation mode with the output of one layer changed on its way."""
    calls = 0

    def hook(_: nn.Module, __: tuple[Any, ...], output: object) -> Tensor:
        nonlocal calls
        calls += 1
        if not isinstance(output, Tensor):
            raise ValueError(f"the layer must return one tensor, got {type(output).__name__}; choose a layer after it")
        return change(output)

    with hooked(after=[(layer, hook)]), evaluating(module):
        result = module(inputs)
    if calls != 1:
        raise ValueError(f"the layer must run once per call of the module, it ran {calls} times")
    return result
