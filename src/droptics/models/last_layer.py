"""The last layer of any torch module: its input features are the maskable units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from droptics.arguments import checked_fields
from droptics.models.hooks import hooked
from droptics.models.model import Model, masked
from droptics.models.modules import evaluating, is_plain_linear
from droptics.models.watching import written


@dataclass(frozen=True, eq=False)
@checked_fields
class LastLayer(Model):
    """x -> head(z o features(x)) where `head` is the linear layer that ends a torch module.

    Features are read by a hook that is removed after every call, also after an exception, with the module in
    evaluation mode and every mode restored. The module's output must be the head's output: this is verified.
    """

    module: nn.Module
    head: nn.Linear

    @staticmethod
    def of(module: nn.Module, name: str | None = None) -> LastLayer:
        """The layer called `name` (as in `module.named_modules()`), or the last linear layer that was registered."""
        linear = {key: layer for key, layer in module.named_modules() if isinstance(layer, nn.Linear)}
        if name is None and not linear:
            raise ValueError(f"module {type(module).__name__} has no nn.Linear layer; name one with name=...")
        chosen = list(linear)[-1] if name is None else name
        if chosen not in linear:
            raise ValueError(f"name must be one of the linear layers {sorted(linear)}, got {name!r}")
        return LastLayer(module, linear[chosen])

    @property
    def units(self) -> int:
        return self.head.in_features

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.head.weight,) if self.head.bias is None else (self.head.weight, self.head.bias)

    def features(self, inputs: Tensor) -> Tensor:
        """Inputs of the head, (examples, units), with the module in evaluation mode."""
        seen: list[tuple[Tensor, Tensor, int]] = []

        def remember(_: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> None:
            seen.append((arguments[0], output, written(arguments[0]) + written(output)))

        plain = is_plain_linear(self.head)
        with hooked(after=[(self.head, remember)]), evaluating(self.module):
            result = self.module(inputs)
            if len(seen) != 1:
                raise ValueError(f"the last layer must run once per call of the module, it ran {len(seen)} times")
            features, output, writes = seen[0]
            # inference tensors do not count how often they are written to
            kept = written(features) + written(output) == writes and not output.is_inference()
            same = (plain and kept and result is output) or (
                isinstance(result, Tensor) and torch.equal(result.detach(), self._head(features).detach())
            )
        if features.ndim != 2 or not same:
            raise ValueError(
                "the named layer does not end the module: its output is changed afterwards; "
                "name the layer whose output the module returns, or take the part of the module that ends with it"
            )
        return features

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        return self._head(masked(self.features(inputs), multipliers, self.units))

    def _head(self, features: Tensor) -> Tensor:
        return nn.functional.linear(features, self.head.weight, self.head.bias)
