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
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.losses import Loss
from droptics.masks import MaskLaw
from droptics.penalties.relu_kernels import (
    coin_gradient,
    direct_gradient,
    direct_moments,
    half_table,
    ranks,
    sorted_outcomes,
    split_coins,
    sweep_row,
)

# Up to this many outcomes (log2) visiting them all is faster than sorting.
DIRECT_BITS = 16.0
# Rows of one half table; beyond it coins are enumerated outside (2^20 rows of 10 units need some 0.5 GB with ranks).
_BYTES_PER_UNIT_AND_ROW = 56


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
class Block:
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


def outcome_blocks(stage: Stage, states: Tensor, room: int) -> Iterator[Block]:
    """All outcomes of a stage in blocks of at most `room` rows; states alive in the same units go together."""
    if isinstance(stage.law, MaskLaw):
        everything = torch.arange(states.shape[1])
        for multipliers, chances in stage.law.atom_batches(room):
            possible = chances > 0
            step = max(1, room // max(len(multipliers), 1))
            for start in range(0, len(states), step):
                some = torch.arange(start, min(start + step, len(states)))
                yield Block(some, everything, multipliers[possible].cpu(), chances[possible].cpu())
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
            for first in range(0, len(chosen), step):
                yield Block(
                    torch.from_numpy(chosen[first : first + step]), torch.from_numpy(units), multipliers, chances
                )


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
        stage = self.stages[level]
        if level == len(self.stages) - 1:
            return self.leaf.value(self, stage, states, chances)
        total: Tensor | float = 0.0
        for block in outcome_blocks(stage, states, self.room):
            total = total + self.value(level + 1, *self.next_states(block, stage, states, chances))
        assert isinstance(total, Tensor)
        return total

    def next_states(self, block: Block, stage: Stage, states: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
        """Values of the next layer with their probabilities, equal ones joined."""
        return merged(torch.relu(block.values(stage, states)), block.probabilities(chances))

    def gradient(
        self, level: int, states: Tensor, chances: Tensor, upstream: Tensor, grads: list[tuple[Tensor, Tensor]]
    ) -> Tensor:
        """Gradient in the states; those in weights and biases are added to `grads`."""
        stage = self.stages[level]
        if level == len(self.stages) - 1:
            return self.leaf.gradient(self, stage, states, chances, upstream, grads[level])
        total = torch.zeros_like(states)
        for block in outcome_blocks(stage, states, self.room):
            with torch.enable_grad():
                free = [t.detach().requires_grad_(True) for t in (states, stage.weight, stage.bias)]
                values, probabilities = self.next_states(block, Stage(stage.law, *free[1:]), free[0], chances)
            below = self.gradient(level + 1, values.detach(), probabilities, upstream, grads)
            parts = torch.autograd.grad(values, free, below)
            total += parts[0]
            grads[level][0].add_(parts[1])
            grads[level][1].add_(parts[2])
        return total


class Leaf(abc.ABC):
    """What is summed at the end of a walk."""

    def value(self, walk: Walk, stage: Stage, states: Tensor, chances: Tensor) -> Tensor:
        """Sum over states and the outcomes of the last stage."""
        total: Tensor | float = 0.0
        for block in outcome_blocks(stage, states, walk.room):
            total = total + self.block_value(block.values(stage, states), block.probabilities(chances))
        assert isinstance(total, Tensor)
        return total

    def gradient(
        self,
        walk: Walk,
        stage: Stage,
        states: Tensor,
        chances: Tensor,
        upstream: Tensor,
        held: tuple[Tensor, Tensor],
    ) -> Tensor:
        """Gradient of <upstream, value> in the states; those in weight and bias are added to `held`."""
        total = torch.zeros_like(states)
        for block in outcome_blocks(stage, states, walk.room):
            with torch.enable_grad():
                free = [t.detach().requires_grad_(True) for t in (states, stage.weight, stage.bias)]
                values = block.values(Stage(stage.law, *free[1:]), free[0])
                result = (self.block_value(values, block.probabilities(chances)) * upstream).sum()
            parts = torch.autograd.grad(result, free)
            total += parts[0]
            held[0].add_(parts[1])
            held[1].add_(parts[2])
        return total

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


class MomentLeaf(Leaf):
    """Mean and second moment of the rectified values, flattened: all that squared loss needs of the last layer."""

    def block_value(self, values: Tensor, chances: Tensor) -> Tensor:
        hidden = torch.relu(values)
        weighted = hidden * chances[:, None]
        return torch.cat([weighted.sum(0), (weighted.mT @ hidden).flatten()])

    def value(self, walk: Walk, stage: Stage, states: Tensor, chances: Tensor) -> Tensor:
        if not isinstance(stage.law, Coins):
            return super().value(walk, stage, states, chances)
        weight, bias, alive = _arrays(stage)
        counts, drop = stage.law.counts, stage.law.drop
        bits = outcome_bits(stage, states)
        small = bits <= DIRECT_BITS
        fixed = states.detach().numpy()
        mean, second = direct_moments(fixed[small], chances.numpy()[small], weight, bias, alive, counts, drop)
        for s in np.flatnonzero(~small):
            columns, base, chosen = _single(weight, bias, alive, fixed[s], stage.law)
            part = Dominance(columns, base, stage.law, chosen, walk)
            more = part.moments()
            mean += float(chances[s]) * more[0]
            second += float(chances[s]) * more[1]
        walk.advance(float(np.exp2(bits[small]).sum()) * len(bias) ** 2 / 8)
        return torch.from_numpy(np.concatenate([mean, second.ravel()]))

    def gradient(
        self,
        walk: Walk,
        stage: Stage,
        states: Tensor,
        chances: Tensor,
        upstream: Tensor,
        held: tuple[Tensor, Tensor],
    ) -> Tensor:
        if not isinstance(stage.law, Coins):
            return super().gradient(walk, stage, states, chances, upstream, held)
        weight, bias, alive = _arrays(stage)
        units = len(bias)
        linear = np.ascontiguousarray(upstream[:units].numpy())
        quadratic = np.ascontiguousarray(upstream[units:].reshape(units, units).numpy())
        counts, drop = stage.law.counts, stage.law.drop
        small = outcome_bits(stage, states) <= DIRECT_BITS
        fixed = states.detach().numpy()
        total = np.zeros(fixed.shape)
        total[small], weight_gradient, bias_gradient = direct_gradient(
            fixed[small], chances.numpy()[small], weight, bias, alive, counts, drop, linear, quadratic
        )
        for s in np.flatnonzero(~small):
            columns, base, chosen = _single(weight, bias, alive, fixed[s], stage.law)
            slopes, offset = Dominance(columns, base, stage.law, chosen, walk).slopes(linear, quadratic)
            slopes *= float(chances[s])
            total[s] = (slopes * weight).sum(0)
            weight_gradient += slopes * fixed[s]
            bias_gradient += float(chances[s]) * offset
        held[0].add_(torch.from_numpy(weight_gradient))
        held[1].add_(torch.from_numpy(bias_gradient))
        return torch.from_numpy(total)


class Dominance:
    """Meet in the middle: moments of relu(base + columns Z) for many coins, by sorted half tables."""

    def __init__(
        self,
        columns: NDArray[np.float64],
        base: NDArray[np.float64],
        law: Coins,
        chosen: NDArray[np.int64],
        walk: Walk,
    ) -> None:
        self.columns, self.base, self.law, self.advance = columns, base, law, walk.advance
        limit = table_rows(len(base), walk.memory)
        inner = list(chosen)
        outer: list[int] = []
        while len(inner) > 1 and half_rows(law.counts[inner]) > limit:
            outer.append(inner.pop())
        self.outer = np.array(outer, dtype=np.int64)
        self.halves = split_coins(law.counts, np.array(inner, dtype=np.int64))

    def _tables(self, base: NDArray[np.float64], chosen: NDArray[np.int64]) -> Any:
        """Sums, probabilities and the order of the sums."""
        table, chances = half_table(self.columns, self.law.counts, self.law.drop, chosen, base)
        return table, chances, sorted_outcomes(table, self.law.counts, chosen)

    def moments(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and second moment."""
        units = len(self.base)
        mean, second = np.zeros(units), np.zeros((units, units))
        offsets, chances, _ = self._tables(self.base, self.outer)
        for o in range(offsets.shape[1]):
            left, right = (
                self._tables(offsets[:, o].copy(), self.halves[0]),
                self._tables(0 * self.base, self.halves[1]),
            )
            part = _sweep(left, right, self.advance, None)
            mean += chances[o] * part[0]
            second += chances[o] * part[1]
        return mean, second

    def slopes(
        self, linear: NDArray[np.float64], quadratic: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Gradients of <linear, mean> + <quadratic, second> in the columns and in the base."""
        result = np.zeros(self.columns.shape)
        offsets, chances, _ = self._tables(self.base, self.outer)
        outer_slopes = np.zeros(offsets.shape)
        for o in range(offsets.shape[1]):
            left, right = (
                self._tables(offsets[:, o].copy(), self.halves[0]),
                self._tables(0 * self.base, self.halves[1]),
            )
            weights = (chances[o] * linear, chances[o] * quadratic)
            for tables, half in (((left, right), self.halves[0]), ((right, left), self.halves[1])):
                slopes = _sweep(*tables, self.advance, weights)[2]
                coin_gradient(slopes, self.law.counts, self.law.drop, half, result)
            outer_slopes[:, o] = slopes.sum(1)
        if len(self.outer):
            coin_gradient(outer_slopes, self.law.counts, self.law.drop, self.outer, result)
        offset = outer_slopes.sum(1)
        steady = self.law.drop == 0
        steady |= ~(self.columns != 0).any(0)
        result[:, steady] = offset[:, None] * self.law.counts[steady]
        return result, offset


def _sweep(left: Any, right: Any, advance: Advance, weights: Any) -> tuple[Any, Any, Any]:
    """All single and pair sums of two half tables; slopes per outcome of the left one when weights are given."""
    table, chances, table_order = left
    other, other_chances, order = right
    units = len(table)
    rank, cut = ranks(table, other, table_order, order)
    linear, quadratic = (np.zeros(units), np.zeros((units, units))) if weights is None else weights
    slopes = np.zeros((0, 0)) if weights is None else np.zeros(table.shape)
    mean, second = np.zeros(units), np.zeros((units, units))
    tree = np.empty((other.shape[1] + 1, 4))
    for i in range(units):
        sweep_row(
            i,
            table,
            chances,
            other,
            other_chances,
            order,
            rank,
            table_order,
            cut,
            tree,
            linear,
            quadratic,
            slopes,
            mean,
            second,
        )
        advance((i + 1) * sweep_work(table.shape[1], other.shape[1]))
    return mean, second, slopes


def sweep_work(left: int, right: int) -> float:
    """Steps of one pair of units in a sweep."""
    return (left + right) * max(math.log2(right), 1.0)


def outcome_bits(stage: Stage, states: Tensor) -> NDArray[np.float64]:
    """log2 of the number of outcomes of every state at this stage."""
    assert isinstance(stage.law, Coins)
    alive = ((states != 0) & (stage.weight != 0).any(0)).detach().numpy()
    return np.asarray(alive @ np.log2(stage.law.radix))


def half_rows(counts: NDArray[np.int64]) -> float:
    """Rows of the larger half table, about."""
    return 2.0 ** (np.log2(counts + 1.0).sum() / 2)


def table_rows(units: int, memory: int) -> float:
    """Most rows of a half table within the memory."""
    return max(memory / (2 * _BYTES_PER_UNIT_AND_ROW * units + 64), 16.0)


def _arrays(stage: Stage) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    weight = np.ascontiguousarray(stage.weight.detach().numpy())
    return weight, np.ascontiguousarray(stage.bias.detach().numpy()), (weight != 0).any(0)


def _single(
    weight: NDArray[np.float64],
    bias: NDArray[np.float64],
    alive: NDArray[np.bool_],
    state: NDArray[np.float64],
    law: Coins,
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
    columns = weight * state
    steady = law.drop == 0
    base = bias + columns[:, steady] @ law.counts[steady]
    return columns, base, np.flatnonzero((state != 0) & alive & ~steady)
