"""Random numbers of training: every run owns its streams, so that it draws the same alone and in a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.linalg import psd_inverse_root, psd_root
from droptics.linalg.scales import equilibrate
from droptics.masks import MaskLaw
from droptics.training.objectives import Dropout, Objective, StepData
from droptics.training.passes import products, tiled
from droptics.training.random_numbers import INPUTS, NOISE, Counted, Numbers, Sequential, countable
from droptics.training.threads import share_runs

# Numbers that one run draws ahead. It does not depend on how many runs there are, or batches would differ from runs;
# counted numbers do not depend on how far ahead they are drawn, so there it is all runs together.
AHEAD, LONGEST = 2**16, 256
COUNTED_AHEAD, COUNTED_LONGEST = 2**27, 2**14


@dataclass(frozen=True, eq=False)
class Draws:
    """Numbers for several steps: inputs and targets (runs, steps, batch, ...), multipliers (runs, steps, masks, units).

    Without a batch size the data do not change from step to step, and `inputs` is None.
    """

    inputs: Tensor | None
    targets: Tensor | None
    multipliers: Tensor | None
    generators: tuple[torch.Generator, ...] = ()

    def at(self, step: int, fixed: StepData | None, lead: bool) -> StepData:
        """What the given step sees; `lead` keeps the dimension of the runs."""
        masks = self.masks(step, lead)
        runs = len(self.generators) if lead else None
        if fixed is not None:
            return StepData(fixed.inputs, fixed.targets, fixed.weights, masks, self.generators, runs, shared=True)
        assert self.inputs is not None
        assert self.targets is not None
        inputs, targets = self.inputs[:, step], self.targets[:, step]
        inputs, targets = (inputs, targets) if lead else (inputs[0], targets[0])
        return StepData(inputs, targets, None, masks, self.generators, runs)

    def masks(self, step: int, lead: bool) -> Tensor | None:
        """The multipliers of the given step."""
        if self.multipliers is None:
            return None
        return self.multipliers[:, step] if lead else self.multipliers[0, step]


class Stream:
    """The draws of all runs, at most `length` steps at a time; counted on a GPU unless `counted` says otherwise."""

    def __init__(
        self,
        data: Data,
        objective: Objective,
        seeds: Sequence[int],
        batch_size: int | None,
        device: torch.device,
        counted: bool | None = None,
    ) -> None:
        assert isinstance(data, (Moments, Sample, Entries, Measurements))
        self._source = None if batch_size is None else _Population(data) if isinstance(data, Moments) else _Fixed(data)
        self._batch = batch_size
        self._dtype = data.dtype
        self._scaled = not isinstance(objective, Dropout) or objective.scaled
        laws = objective.laws if objective.share is not None else ()
        self._laws: tuple[MaskLaw, ...] = laws * len(seeds) if len(laws) == 1 else laws
        examples = data.xx.shape[0] + data.yy.shape[0] if isinstance(data, Moments) else len(data)
        rows = examples if batch_size is None else batch_size
        self._masks = 0 if not self._laws else (rows if objective.share == "example" else 1)
        numbers = self._masks * (self._laws[0].size if self._laws else 0)
        numbers += 0 if self._source is None else rows * self._source.numbers
        possible = countable(self._laws) and not objective.draws
        self.counted = possible and (device.type == "cuda" if counted is None else counted)
        self._generators = None if self.counted else Sequential(seeds, device)
        self._numbers: Numbers = self._generators or Counted(seeds, device)
        ahead, longest = (COUNTED_AHEAD // len(seeds), COUNTED_LONGEST) if self.counted else (AHEAD, LONGEST)
        self.length = max(1, min(longest, ahead // max(numbers, 1)))
        self._drawn = 0

    @torch.no_grad()
    def next(self, steps: int) -> Draws:
        """Numbers for the next `steps` steps, at most `length`."""
        # generators draw a full stretch whatever is left, so that a longer training begins with the same numbers
        count = min(steps, self.length) if self.counted else self.length
        inputs = targets = multipliers = None
        if self._source is not None and self._batch is not None:
            inputs, targets = self._source.draw(self._numbers, self._drawn, count, self._batch)
        if self._laws:
            multipliers = self._numbers.masks(self._laws, self._drawn, count, self._masks, self._scaled, self._dtype)
        self._drawn += count
        return Draws(inputs, targets, multipliers, () if self._generators is None else self._generators.generators)

    def state(self) -> tuple[Tensor, list[dict[str, Any]]]:
        """Where all streams stand, for a checkpoint; counted ones stand at the step."""
        return (torch.zeros(0), []) if self._generators is None else self._generators.state()

    def restore(self, step: int, states: Tensor, normals: list[dict[str, Any]]) -> None:
        """Continue from where a checkpoint was written."""
        self._drawn = step
        if self._generators is not None:
            self._generators.restore(states, normals)


class _Fixed:
    """Examples of a fixed set, drawn with replacement, by weight where the set has weights."""

    def __init__(self, data: Sample | Entries | Measurements) -> None:
        self._inputs, self._targets = data.inputs, data.targets
        self._weights = data.weights
        # only indices are drawn; gathered examples are counted, because they are what fills the memory
        self.numbers = self._inputs[0].numel() + self._targets[0].numel()

    def draw(self, numbers: Numbers, first: int, steps: int, batch: int) -> tuple[Tensor, Tensor]:
        rows = numbers.choice(first, steps, batch, self._inputs.shape[0], self._weights)
        return self._inputs[rows], self._targets[rows]


class _Population:
    """Fresh normal examples with given second moments: x = R g, R R^T = C, and y = E[y x^T] C^+ x + noise."""

    def __init__(self, data: Moments) -> None:
        identity = torch.eye(data.xx.shape[0], dtype=data.xx.dtype, device=data.xx.device)
        plain = torch.equal(data.xx, identity)
        second, units = (identity, torch.ones_like(data.xx[0])) if plain else equilibrate(data.xx)
        self._root = None if plain else psd_root(second) * units
        inverse = identity if plain else psd_inverse_root(second)
        self._map = data.yx / units @ inverse @ inverse / units
        # what remains of yy after the linear part is noise; below the rounding of an output in its own units is none
        joint, sizes = equilibrate(data.yy)
        image = (self._map * units).mT / sizes
        left = joint - image.mT @ second @ image
        rounding = 64 * len(left) * torch.finfo(left.dtype).eps
        self._noise = None if float(left.abs().max()) <= rounding else psd_root(left) * sizes
        self.numbers = data.xx.shape[0] + data.yy.shape[0]
        self._room = data.yx.new_empty(0)  # for targets, stretch after stretch

    def draw(self, numbers: Numbers, first: int, steps: int, batch: int) -> tuple[Tensor, Tensor]:
        outputs, features = self._map.shape
        inputs = numbers.normal(INPUTS, first, steps, (batch, features), self._map)
        if self._root is not None:
            inputs = inputs @ self._root
        self._room = self._room.resize_(*inputs.shape[:-1], outputs)
        targets = _images(inputs, self._map.mT, self._room)
        if self._noise is not None:
            noise = numbers.normal(NOISE, first, steps, (batch, outputs), self._map)
            targets = targets + noise @ self._noise
        return inputs, targets


def _images(inputs: Tensor, matrix: Tensor, into: Tensor) -> Tensor:
    """Inputs (runs, steps, batch, features) times a matrix.

    Where the matrix is small, by loops of our own on threads of our own: those of torch wait in circles for their next
    product, on the processor that the steps need.
    """
    if inputs.device.type != "cpu" or inputs.dtype not in (torch.float32, torch.float64):
        return torch.matmul(inputs, matrix, out=into)
    x, map_, found = inputs.contiguous().flatten(1, 2).numpy(), matrix.contiguous().numpy(), into.flatten(1, 2).numpy()
    if not tiled(x.shape[1], map_):
        return torch.matmul(inputs, matrix, out=into)

    def work(start: int, stop: int) -> None:
        for run in range(start, stop):
            products(x[run], map_, found[run])

    share_runs(work, len(x), x[0].size)
    return into
