"""Random numbers of training: every run owns its streams, so that it draws the same alone and in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.linalg import psd_inverse_root, psd_root
from droptics.masks import MaskLaw
from droptics.training.objectives import Batch, Dropout, Objective

# Numbers that one run draws ahead. It does not depend on how many runs there are, or batches would differ from runs.
AHEAD = 2**16
LONGEST = 256


@dataclass(frozen=True, eq=False)
class Draws:
    """Numbers for several steps: inputs and targets (runs, steps, batch, ...), multipliers (runs, steps, masks, units).

    Without a batch size the data do not change from step to step, and `inputs` is None.
    """

    inputs: Tensor | None
    targets: Tensor | None
    multipliers: Tensor | None
    generator: torch.Generator | None = None

    def at(self, step: int, fixed: Batch | None, lead: bool) -> Batch:
        """What the given step sees; `lead` keeps the dimension of the runs."""
        masks = self.masks(step, lead)
        if fixed is not None:
            return Batch(fixed.inputs, fixed.targets, fixed.weights, masks, self.generator)
        assert self.inputs is not None
        assert self.targets is not None
        inputs, targets = self.inputs[:, step], self.targets[:, step]
        return Batch(inputs if lead else inputs[0], targets if lead else targets[0], None, masks, self.generator)

    def masks(self, step: int, lead: bool) -> Tensor | None:
        """The multipliers of the given step."""
        if self.multipliers is None:
            return None
        return self.multipliers[:, step] if lead else self.multipliers[0, step]


class Stream:
    """The draws of all runs, `length` steps at a time."""

    def __init__(
        self, data: Data, objective: Objective, seeds: Sequence[int], batch_size: int | None, device: torch.device
    ) -> None:
        self._source = _source(data) if batch_size is not None else None
        self._batch = batch_size
        self._objective = objective
        self._device = device
        self._dtype = data.dtype
        self._generators = [torch.Generator(device).manual_seed(seed) for seed in seeds]
        self._normals = [np.random.Generator(np.random.SFC64([seed, 1])) for seed in seeds]
        laws = objective.laws if objective.share is not None else ()
        self._laws: tuple[MaskLaw, ...] = laws * len(seeds) if len(laws) == 1 else laws
        rows = batch_size if batch_size is not None else _examples(data)
        self._masks = 0 if not self._laws else (rows if objective.share == "example" else 1)
        numbers = self._masks * (self._laws[0].size if self._laws else 0)
        numbers += 0 if self._source is None else rows * self._source.numbers
        self.length = max(1, min(LONGEST, AHEAD // max(numbers, 1)))
        self.random = bool(self._laws) or self._source is not None

    @torch.no_grad()
    def next(self) -> Draws:
        """Numbers for the next `length` steps."""
        inputs = targets = multipliers = None
        if self._source is not None and self._batch is not None:
            inputs, targets = self._source.draw(self.length * self._batch, self._generators, self._normals)
            inputs = inputs.unflatten(1, (self.length, self._batch))
            targets = targets.unflatten(1, (self.length, self._batch))
        if self._laws:
            scaled = not isinstance(self._objective, Dropout) or self._objective.scaled
            count = self.length * self._masks
            drawn = torch.empty(len(self._laws), count, self._laws[0].size, dtype=self._dtype, device=self._device)
            for row, law, generator in zip(drawn, self._laws, self._generators, strict=True):
                row.copy_(law.multipliers(count, generator) if scaled else law.sample(count, generator))
            multipliers = drawn.unflatten(1, (self.length, self._masks))
        return Draws(inputs, targets, multipliers, self._generators[0])

    def state(self) -> tuple[Tensor, list[dict[str, Any]]]:
        """Where all streams stand, for a checkpoint."""
        states = torch.stack([generator.get_state() for generator in self._generators])
        return states, [_plain(normal.bit_generator.state) for normal in self._normals]

    def restore(self, states: Tensor, normals: list[dict[str, Any]]) -> None:
        """Continue from where a checkpoint was written."""
        for generator, state in zip(self._generators, states, strict=True):
            generator.set_state(state.cpu().clone())  # set_state reads aligned memory; a mapped row is not
        for normal, saved in zip(self._normals, normals, strict=True):
            inner = {"state": np.array(saved["state"]["state"], np.uint64)}
            normal.bit_generator.state = saved | {"state": inner}


def _plain(state: Any) -> dict[str, Any]:
    return dict(state) | {"state": {"state": [int(word) for word in state["state"]["state"]]}}


def _examples(data: Data) -> int:
    if isinstance(data, Moments):
        return data.xx.shape[0] + data.yy.shape[0]
    assert isinstance(data, (Sample, Entries, Measurements))
    return len(data)


class _Fixed:
    """Examples of a fixed set, drawn with replacement, by weight where the set has weights."""

    def __init__(self, data: Sample | Entries | Measurements) -> None:
        self._inputs, self._targets = data.inputs, data.targets
        self._weights = data.weights
        # only indices are drawn; gathered examples are counted, because they are what fills the memory
        self.numbers = self._inputs[0].numel() + self._targets[0].numel()

    def draw(
        self, count: int, generators: list[torch.Generator], normals: list[np.random.Generator]
    ) -> tuple[Tensor, Tensor]:
        size = self._inputs.shape[0]
        chosen = []
        for generator in generators:
            if self._weights is None:
                index = torch.randint(size, (count,), generator=generator, device=generator.device)
            else:
                index = torch.multinomial(self._weights, count, replacement=True, generator=generator)
            chosen.append(index)
        rows = torch.stack(chosen)
        return self._inputs[rows], self._targets[rows]


class _Population:
    """Fresh normal examples with given second moments: x = C^(1/2) g, y = E[y x^T] C^+ x + noise."""

    def __init__(self, data: Moments) -> None:
        identity = torch.eye(data.xx.shape[0], dtype=data.xx.dtype, device=data.xx.device)
        self._root = None if torch.equal(data.xx, identity) else psd_root(data.xx)
        inverse = identity if self._root is None else psd_inverse_root(data.xx)
        self._map = data.yx @ inverse @ inverse
        left = data.yy - self._map @ data.xx @ self._map.mT
        # what remains of yy after the linear part is noise; below rounding level there is none
        rounding = 64 * len(left) * torch.finfo(left.dtype).eps * float(data.yy.abs().max())
        self._noise = None if float(left.abs().max()) <= rounding else psd_root(left)
        self.numbers = data.xx.shape[0] + data.yy.shape[0]

    def draw(
        self, count: int, generators: list[torch.Generator], normals: list[np.random.Generator]
    ) -> tuple[Tensor, Tensor]:
        inputs = self._normal(count, self._map.shape[1], generators, normals)
        if self._root is not None:
            inputs = inputs @ self._root
        targets = inputs @ self._map.mT
        if self._noise is not None:
            targets = targets + self._normal(count, self._map.shape[0], generators, normals) @ self._noise
        return inputs, targets

    def _normal(
        self, count: int, size: int, generators: list[torch.Generator], normals: list[np.random.Generator]
    ) -> Tensor:
        kind = self._map
        if kind.device.type == "cpu":  # NumPy's normal numbers take less than half the time of torch's
            drawn = np.empty((len(normals), count, size), np.float32 if kind.dtype == torch.float32 else np.float64)
            for normal, target in zip(normals, drawn, strict=True):
                normal.standard_normal(dtype=drawn.dtype.type, out=target)
            return torch.from_numpy(drawn).to(kind)
        return torch.stack(
            [
                torch.randn(count, size, dtype=kind.dtype, device=kind.device, generator=generator)
                for generator in generators
            ]
        )


def _source(data: Data) -> _Fixed | _Population:
    if isinstance(data, Moments):
        return _Population(data)
    assert isinstance(data, (Sample, Entries, Measurements))
    return _Fixed(data)
