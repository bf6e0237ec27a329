"""Two ways to draw: in order from generators, one or two per run, or by counting, all runs and steps at once.

Both give every run the same numbers alone and in a batch. Generators are the faster on a CPU, counting on a GPU, where
a draw is a launch whoever it is for.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from droptics.masks import Bernoulli, Block, MaskLaw
from droptics.training import philox, sfc64
from droptics.training.threads import share_runs

# Streams of a run, for counting.
INPUTS, NOISE, MASKS, CHOICES = range(4)
Laws = Sequence[MaskLaw]  # one per run


class Sequential:
    """One torch generator per run, and one of NumPy's for normal numbers and coins on a CPU.

    Numbers take the memory of the stretch before: new pages would cost as much as the masks.
    """

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self._device = device
        self.generators = tuple(torch.Generator(device).manual_seed(seed) for seed in seeds)
        self._numbers = [np.random.Generator(np.random.SFC64([seed, 1])) for seed in seeds]
        self._words = [sfc64.words_of(numbers) for numbers in self._numbers]
        self._room: dict[int, Tensor] = {}

    def _memory(self, stream: int, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Memory for the numbers of a stream, the same for every stretch of the same length."""
        room = self._room.get(stream)
        if room is None or room.shape != shape or room.dtype != dtype:
            room = self._room[stream] = torch.empty(shape, dtype=dtype, device=self._device)
        return room

    def normal(self, stream: int, first: int, steps: int, size: tuple[int, int], like: Tensor) -> Tensor:
        """Standard normal numbers (runs, steps, *size) of the dtype of `like`, for the steps from `first` on."""
        count = steps * size[0]
        if self._device.type == "cpu":  # NumPy's normal numbers take less than half the time of torch's
            kind = torch.float32 if like.dtype == torch.float32 else torch.float64
            numbers = self._memory(stream, (len(self._numbers), count, size[1]), kind)
            drawn = numbers.numpy()

            def fill(start: int, stop: int) -> None:
                for run in range(start, stop):
                    if kind == torch.float32:
                        sfc64.fill_normal(self._words[run], drawn[run].reshape(-1))
                    else:
                        self._numbers[run].standard_normal(out=drawn[run])

            share_runs(fill, len(drawn), drawn[0].size)
            found = numbers.to(like)
        else:
            draw = partial(torch.randn, count, size[1], dtype=like.dtype, device=self._device)
            found = torch.stack([draw(generator=generator) for generator in self.generators])
        return found.unflatten(1, (steps, size[0]))

    def choice(self, first: int, steps: int, count: int, size: int, weights: Tensor | None) -> Tensor:
        """Indices below `size`, by weight where there are weights, (runs, steps, count)."""
        own, total = self.generators, steps * count
        if weights is None:
            chosen = [torch.randint(size, (total,), generator=one, device=self._device) for one in own]
        else:
            chosen = [torch.multinomial(weights, total, replacement=True, generator=one) for one in own]
        return torch.stack(chosen).unflatten(1, (steps, count))

    def masks(self, laws: Laws, first: int, steps: int, count: int, scaled: bool, dtype: torch.dtype) -> Tensor:
        """Masks (runs, steps, count, units), divided by their mean if `scaled`."""
        if countable(laws):
            drops = _drops(laws).to(self._device)
            if self._device.type == "cpu":
                found = self._tossed(drops, steps * count, scaled, dtype)
                return _shared(found, laws[0].size).unflatten(1, (steps, count))
            uniform = self._memory(MASKS, (len(laws), steps * count, drops.shape[-1]), torch.float64)
            for row, generator in zip(uniform, self.generators, strict=True):
                torch.rand(row.shape, generator=generator, out=row)
            return _coins(uniform, drops, laws[0].size, scaled, dtype).unflatten(1, (steps, count))
        drawn = torch.empty(len(laws), steps * count, laws[0].size, dtype=dtype, device=self._device)
        for row, law, generator in zip(drawn, laws, self.generators, strict=True):
            row.copy_(law.multipliers(steps * count, generator) if scaled else law.sample(steps * count, generator))
        return drawn.unflatten(1, (steps, count))

    def _tossed(self, drops: Tensor, masks: int, scaled: bool, dtype: torch.dtype) -> Tensor:
        """Coins (runs, masks, coins) by one compiled loop per run over the numbers of NumPy's generator."""
        runs = len(self._numbers)
        value = _value(drops, scaled, torch.float32 if dtype == torch.float32 else torch.float64)
        found = value.new_empty(runs, masks, value.shape[-1])
        rates, values, coins = *(part.expand(runs, -1).numpy() for part in (drops.double(), value)), found.numpy()

        def toss(start: int, stop: int) -> None:
            for run in range(start, stop):
                sfc64.toss(self._words[run], rates[run], values[run], coins[run])

        share_runs(toss, runs, coins[0].size)
        return found.to(dtype)

    def state(self) -> tuple[Tensor, list[dict[str, Any]]]:
        """Where all generators stand."""
        states = torch.stack([generator.get_state() for generator in self.generators])
        inner = [dict(normal.bit_generator.state) for normal in self._numbers]
        return states, [own | {"state": {"state": [int(word) for word in own["state"]["state"]]}} for own in inner]

    def restore(self, states: Tensor, saved: list[dict[str, Any]]) -> None:
        """Continue from there."""
        for generator, state in zip(self.generators, states, strict=True):
            generator.set_state(state.cpu().clone())  # set_state reads aligned memory; a mapped row is not
        for normal, own in zip(self._numbers, saved, strict=True):
            inner = {"state": np.array(own["state"]["state"], np.uint64)}
            normal.bit_generator.state = own | {"state": inner}


class Counted:
    """The same by Philox: a number depends on the seed of its run, the stream and the step, not on what was drawn."""

    def __init__(self, seeds: Sequence[int], device: torch.device) -> None:
        self._seeds = torch.tensor([seed % 2**63 for seed in seeds], device=device)
        self._coins: tuple[Laws, Tensor] | None = None

    def normal(self, stream: int, first: int, steps: int, size: tuple[int, int], like: Tensor) -> Tensor:
        kind = torch.float64 if like.dtype == torch.float64 else torch.float32
        drawn = philox.normals(self._seeds, stream, first, steps, size[0] * size[1], kind)
        return drawn.to(like.dtype).unflatten(2, size)

    def choice(self, first: int, steps: int, count: int, size: int, weights: Tensor | None) -> Tensor:
        uniform = philox.uniforms(self._seeds, CHOICES, first, steps, count, torch.float64)
        if weights is None:
            return (uniform * size).long().clamp_max(size - 1)
        cumulated = weights.double().cumsum(0)
        return torch.searchsorted(cumulated, uniform * cumulated[-1]).clamp_max(size - 1)

    def masks(self, laws: Laws, first: int, steps: int, count: int, scaled: bool, dtype: torch.dtype) -> Tensor:
        if self._coins is None or self._coins[0] is not laws:
            self._coins = (laws, _drops(laws).to(self._seeds.device))
        drops = self._coins[1]
        kind = torch.float64 if dtype == torch.float64 else torch.float32
        coins = drops.shape[-1]
        uniform = philox.uniforms(self._seeds, MASKS, first, steps, count * coins, kind).unflatten(2, (-1, coins))
        return _coins(uniform.flatten(1, 2), drops, laws[0].size, scaled, dtype).unflatten(1, (steps, count))


Numbers = Sequential | Counted


def _coins(uniform: Tensor, drops: Tensor, size: int, scaled: bool, dtype: torch.dtype) -> Tensor:
    """Masks (runs, masks, size) of coins that fall where a uniform number, (runs, masks, coins), is below its rate."""
    kept = uniform >= drops[:, None].to(uniform.dtype)
    value = _value(drops, scaled, dtype)
    return _shared(torch.where(kept, value[:, None], value.new_zeros(())), size)


def _value(drops: Tensor, scaled: bool, dtype: torch.dtype) -> Tensor:
    """What coins that do not fall multiply by."""
    return (1 / (1 - drops) if scaled else torch.ones_like(drops)).to(dtype)


def _shared(coins: Tensor, size: int) -> Tensor:
    """Multipliers of `size` units, as many neighbours to a coin as there are units for it."""
    return coins.repeat_interleave(size // coins.shape[-1], -1) if coins.shape[-1] < size else coins


def countable(laws: Laws) -> bool:
    """Whether masks of all these laws are made of independent coins, one per unit or block."""
    coins = all(type(law) in (Bernoulli, Block) for law in laws)
    return coins and len({(type(law), law.drop.shape) for law in laws}) <= 1  # type: ignore[attr-defined]


def _drops(laws: Laws) -> Tensor:
    """Rates of all coins, (runs, coins), or (1, coins) when the law is the same for all runs."""
    different = laws[:1] if all(law is laws[0] for law in laws) else laws
    return torch.stack([law.drop.detach() for law in different])  # type: ignore[attr-defined]
