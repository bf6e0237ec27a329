"""How a copy is trained: the options of our loop, or a function of the caller's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from droptics.arguments import Count, DropRate, NonNegative, Positive, checked_fields

Tensors = dict[str, Tensor]
# trains a copy of the module in place, or returns the trained module; called with (module, train, seed)
FitFunction = Callable[[nn.Module, Any, int], nn.Module | None]
_DECAYS, _FLOOR = (0.9, 0.999), 1e-8  # of Adam, as torch has them
_TAIL = 0.1  # share of the run that counts as its end


@dataclass(frozen=True)
@checked_fields
class Fit:
    """Training by `tune_rates` itself: every copy from the module's own weights, on the same batches in the same order.

    Args:
        epochs: Passes over the training data.
        batch_size: Examples per step, where the data are tensors; loaders that cannot be joined keep their batches.
        optimizer: "adam", "adamw" or "sgd", with the formulas of torch.optim.
        step_size: The learning rate.
        decay: Weight decay.
        momentum: Of "sgd".
        stop: "best" compares copies at the look with the least validation loss (early stopping), "last" at the end.
        looks: How often along the run the validation loss is taken.
        tail: With "last", how many looks in the last tenth of the run are averaged, example by example: a loss changes
            from step to step by more than between two rates. 1 takes the last step alone.
    """

    epochs: Count = 20
    batch_size: Count = 50
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    step_size: Positive = 1e-3
    decay: NonNegative = 0.0
    momentum: DropRate = 0.0
    stop: Literal["best", "last"] = "best"
    looks: Count = 10
    tail: Count = 10

    def look_steps(self, steps: int) -> list[int]:
        """After which steps the validation loss is taken; the last one is among them."""
        looks = min(self.looks, steps)
        return sorted({round(steps * i / looks) for i in range(1, looks + 1)} | set(self.tail_steps(steps)))

    def tail_steps(self, steps: int) -> list[int]:
        """Those of them whose losses are averaged; none where the best is taken."""
        if self.stop == "best":
            return []
        return sorted({steps - int(_TAIL * steps * i / self.tail) for i in range(self.tail)})

    def update(self, weights: Tensors, slopes: Mapping[str, Tensor | None], moments: Tensors, step: int) -> Tensors:
        """New weights after step number `step` (from 1); `moments` is changed.

        Only single products, sums, quotients and roots: each rounds in one way wherever a number stands in memory, so
        that a copy gets the same weights alone and in a population.
        """
        found = {}
        for name, weight in weights.items():
            slope = slopes[name]
            if slope is None:
                found[name] = weight
                continue
            if self.decay and self.optimizer != "adamw":
                slope = slope + weight * self.decay
            if self.optimizer == "sgd":
                if self.momentum:
                    slope = moments[f"first.{name}"] = moments[f"first.{name}"] * self.momentum + slope
                found[name] = weight - slope * self.step_size
                continue
            if self.optimizer == "adamw" and self.decay:
                weight = weight * (1 - self.step_size * self.decay)  # noqa: PLW2901 - decoupled, before the step
            first = moments[f"first.{name}"] * _DECAYS[0] + slope * (1 - _DECAYS[0])
            second = moments[f"second.{name}"] * _DECAYS[1] + slope * slope * (1 - _DECAYS[1])
            moments[f"first.{name}"], moments[f"second.{name}"] = first, second
            scale = second.sqrt() / math.sqrt(1 - _DECAYS[1] ** step) + _FLOOR
            found[name] = weight - first / scale * (self.step_size / (1 - _DECAYS[0] ** step))
        return found

    def moments(self, weights: Tensors) -> Tensors:
        """What the optimizer remembers, at the start."""
        if self.optimizer == "sgd":
            return {f"first.{name}": torch.zeros_like(value) for name, value in weights.items() if self.momentum}
        return {
            f"{what}.{name}": torch.zeros_like(value) for what in ("first", "second") for name, value in weights.items()
        }
