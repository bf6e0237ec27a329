"""The first layer of a perceptron on a CPU, told apart from the rest: a change of few inputs changes it by few columns.

A query that changes a square of pixels needs the columns of these pixels alone, some tenth of the layer or less.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from droptics.attacks.gradients import Differentiable, PlainMlp

_SHARE = 8  # one in so many inputs may change: the columns of more are gathered no sooner than all are multiplied


class FirstLayer:
    """What the units of the first layer sum up to, and the outputs that follow from it."""

    def __init__(self, tape: PlainMlp) -> None:
        self._first, *self._rest = zip(tape.weights, tape.biases, strict=True)
        self._columns = tape.weights[0].mT.contiguous()

    @staticmethod
    def of(tape: Differentiable, inputs: Tensor) -> FirstLayer | None:
        """That of a perceptron that takes these inputs on a CPU."""
        known = inputs.device.type == "cpu" and inputs.dtype in (torch.float32, torch.float64)
        return FirstLayer(tape) if known and isinstance(tape, PlainMlp) else None

    def pays(self, changed: int) -> bool:
        """Whether so few of the inputs change that their columns alone are the faster way."""
        return _SHARE * changed <= len(self._columns)

    def sums(self, inputs: Tensor) -> Tensor:
        """The sums (n, units) at inputs (n, ...)."""
        return functional.linear(inputs.flatten(1), *self._first)

    def added(self, places: Tensor, changes: Tensor) -> Tensor:
        """By how much the sums (n, units) change with changes (n, k) of the inputs at these places (n, k)."""
        return functional.embedding_bag(places, self._columns, per_sample_weights=changes, mode="sum")

    def outputs(self, sums: Tensor) -> Tensor:
        """Outputs (n, classes) of the perceptron where the first layer has these sums."""
        for weight, bias in self._rest:
            sums = functional.linear(sums.relu(), weight, bias)
        return sums
