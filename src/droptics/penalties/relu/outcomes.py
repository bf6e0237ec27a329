"""Walk over the dropout outcomes of a layered network: enumerate the early masks, hand the last ones to a sum.

A stage is one masked layer and the affine map after it. States are the distinct values a layer can take, with their
probabilities. Only units that are alive in a state need a coin, copies share one binomial count, and states that
coincide are merged. Blocks of states are visited depth first, so memory stays within a budget at every depth; the
backward pass walks the same way and never stores the whole tree.
"""

from __future__ import annotations

import abc
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.losses import Loss
from droptics.masks import MaskLaw
from droptics.penalties.relu.kernels import half_table


@dataclass(frozen=True, eq=False)
class Coins:
    """Independent coins of a layer: `counts` copies each, every copy falls with probability `drop`."""

    counts: NDArray[np.int64]
    drop: NDArray[np.float64]

    @property
    def radix(self) -> NDArray[np.int64]:
        """Outcomes of each coin; one that never falls has one."""
        return np.where(self.drop > 0, self.counts + 1, 1)


@dataclass(frozen=True, eq=False)
class Stage:
    """A masked layer (its coins, or any finite law) and the affine map that follows it; float64 on the CPU."""

    law: Coins | MaskLaw
    weight: Tensor
    bias: Tensor


@dataclass(frozen=True, eq=False)
class OutcomeBlock:
    """Some states of one stage combined with some of its outcomes.

    Units with zero outgoing weights need no coin; they enter with their mean, which is zero but carries the gradient.
    """

    states: Tensor
    units: Tensor
    multipliers: Tensor
    chances: Tensor

    def values(self, stage: Stage, states: Tensor) -> Tensor:
        """Pre-activations (states x outcomes, units of the next layer)."""
        chosen = states[self.states]
        base = stage.bias
        if isinstance(stage.law, Coins):
            dead = torch.from_numpy(np.flatnonzero(~(stage.weight.detach().numpy() != 0).any(0)))
            copies = torch.from_numpy(stage.law.counts[dead.numpy()]).double()
            base = base + (chosen[:, dead] * copies) @ stage.weight[:, dead].mT
            base = base[:, None, :]
        masked = chosen[:, None, self.units] * self.multipliers
        return (masked @ stage.weight[:, self.units].mT + base).flatten(0, 1)

    def probabilities(self, chances: Tensor) -> Tensor:
        """Their probabilities."""
        return torch.outer(chances[self.states], self.chances).flatten()


def outcome_blocks(stage: Stage, states: Tensor, room: int) -> Iterator[OutcomeBlock]:
    """All outcomes of a stage in blocks of at most `room` rows; states alive in the same units go together."""
    if isinstance(stage.law, MaskLaw):
        everything = torch.arange(states.shape[1])
        for multipliers, chances in stage.law.atom_batches(room):
            possible = chances > 0
            step = max(1, room // len(multipliers))
            for some in torch.arange(len(states)).split(step):
                yield OutcomeBlock(some, everything, multipliers[possible].cpu(), chances[possible].cpu())
        return
    alive = ((states != 0) & (stage.weight != 0).any(0)).detach().numpy()
    patterns, members = np.unique(np.packbits(alive, axis=1), axis=0, return_inverse=True)
    for pattern in range(len(patterns)):
        chosen = np.flatnonzero(members.reshape(-1) == pattern)
        units = np.flatnonzero(alive[chosen[0]])
        radix = stage.law.radix[units]
        size = math.prod(int(r) for r in radix)
        for start in range(0, size, room):
            codes = np.arange(start, min(start + room, size))
            multipliers, chances = _outcomes(codes, stage.law.counts[units], stage.law.drop[units])
            step = max(1, room // len(codes))
            for some in torch.from_numpy(chosen).split(step):
                yield OutcomeBlock(some, torch.from_numpy(units), multipliers, chances)


def _outcomes(codes: NDArray[np.int64], counts: NDArray[np.int64], drop: NDArray[np.float64]) -> tuple[Tensor, Tensor]:
    """Multipliers and probabilities of outcomes given by mixed-radix codes."""
    multipliers = np.empty((len(codes), len(counts)))
    chances = np.ones(len(codes))
    rest = codes
    for position, (count, rate) in enumerate(zip(counts, drop, strict=True)):
        if rate == 0:
            multipliers[:, position] = count
            continue
        rest, kept = np.divmod(rest, count + 1)
        multipliers[:, position] = kept / (1 - rate)
        _, table = half_table(np.zeros((1, 1)), np.array([count]), np.array([rate]), np.array([0]), np.zeros(1))
        chances *= table[kept]
    return torch.from_numpy(multipliers), torch.from_numpy(chances)


def merged(values: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    """Join equal states and add their probabilities; differentiable (the mean of equal values, weighted)."""
    fixed = values.detach().numpy()
    direction = np.random.default_rng(0).standard_normal(fixed.shape[1])
    order = np.argsort(fixed @ direction, kind="stable")
    new = np.ones(len(order), dtype=bool)
    new[1:] = (fixed[order[1:]] != fixed[order[:-1]]).any(1)
    groups = int(new.sum())
    if groups > 0.8 * len(order):
        return values, chances
    label = np.empty(len(order), dtype=np.int64)
    label[order] = np.cumsum(new) - 1
    index = torch.from_numpy(label)
    total = torch.zeros(groups, dtype=chances.dtype).index_add(0, index, chances)
    share = chances / torch.where(total > 0, total, torch.ones_like(total))[index]
    joined = torch.zeros(groups, values.shape[1], dtype=values.dtype).index_add(0, index, values * share[:, None])
    if values.requires_grad:
        return joined, total
    # representatives rather than weighted means: exactly the value, no rounding
    joined = torch.empty_like(joined)
    joined[index] = values
    return joined, total


Advance = Callable[[float], object]


def silent(_: float) -> None:
    """No progress is shown."""


class Walk:
    """Expected leaf values of a network: `value` forwards, `gradient` backwards, both within `memory` bytes."""

    def __init__(self, stages: list[Stage], leaf: Leaf, memory: int, advance: Advance = silent) -> None:
        self.stages, self.leaf, self.memory, self.advance = stages, leaf, memory, advance
        width = max(max(stage.weight.shape) for stage in stages)
        self.room = max(1, memory // (64 * width))

    def value(self, level: int, states: Tensor, chances: Tensor) -> Tensor:
        """Sum over outcomes of probability times leaf value."""
        stage, last = self.stages[level], level == len(self.stages) - 1
        if last and (found := self.leaf.value(self, stage, states, chances)) is not None:
            return found
        total: Tensor | float = 0.0
        for block in outcome_blocks(stage, states, self.room):
            if last:
                total = total + self.leaf.block_value(block.values(stage, states), block.probabilities(chances))
            else:
                total = total + self.value(level + 1, *self.next_states(block, stage, states, chances))
        assert isinstance(total, Tensor)
        return total

    def next_states(self, block: OutcomeBlock, stage: Stage, states: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
        """Values of the next layer with their probabilities, equal ones joined."""
        return merged(torch.relu(block.values(stage, states)), block.probabilities(chances))

    def gradient(
        self, level: int, states: Tensor, chances: Tensor, upstream: Tensor, grads: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        """Gradient in the states; those in weights and biases are added to `grads`."""
        stage, below, last = self.stages[level], upstream, level == len(self.stages) - 1
        if last and (found := self.leaf.gradient(self, stage, states, chances, upstream, grads[level])) is not None:
            return found
        total = torch.zeros_like(states)
        for block in outcome_blocks(stage, states, self.room):
            with torch.enable_grad():
                free = [t.detach().requires_grad_(True) for t in (states, stage.weight, stage.bias)]
                here = Stage(stage.law, *free[1:])
                if last:
                    values = self.leaf.block_value(block.values(here, free[0]), block.probabilities(chances))
                else:
                    values, probabilities = self.next_states(block, here, free[0], chances)
            if not last:
                below = self.gradient(level + 1, values.detach(), probabilities, upstream, grads)
            parts = torch.autograd.grad(values, free, below)
            total += parts[0]
            grads[level][0].add_(parts[1])
            grads[level][1].add_(parts[2])
        return total


class Leaf(abc.ABC):
    """What is summed at the end of a walk."""

    def value(self, walk: Walk, stage: Stage, states: Tensor, chances: Tensor) -> Tensor | None:
        """Sum over states and all outcomes of the last stage, where that is faster than block by block."""
        return None

    def gradient(
        self, walk: Walk, stage: Stage, states: Tensor, chances: Tensor, upstream: Tensor, held: tuple[Tensor, Tensor]
    ) -> Tensor | None:
        """Gradient of <upstream, value> in the states; those in weight and bias are added to `held`."""
        return None

    @abc.abstractmethod
    def block_value(self, values: Tensor, chances: Tensor) -> Tensor:
        """Sum over the rows of a block."""


@dataclass(frozen=True, eq=False)
class LossLeaf(Leaf):
    """Expected loss of the outputs against one target; any loss."""

    loss: Loss
    target: Tensor

    def block_value(self, values: Tensor, chances: Tensor) -> Tensor:
        targets = self.target.expand(values.shape[0], *self.target.shape[1:])
        return (self.loss(values, targets) * chances).sum().reshape(1)
