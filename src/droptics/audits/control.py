r"""Sampling with a gradient control: what a mask does beyond first order, example by example.

One run without masks and its gradient give the slopes of the loss in all masks at once. For a drawn mask z of a site

    r_i = l_i(z) - l_i(1) - <slopes, z - 1>_i

has the same mean as l_i(z) - l_i(1), because the subtracted term has mean zero, and a fraction of its spread. Examples
do not look at each other, so each is a measurement of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from droptics.audits.rare import SELDOM, Masks, chance_of_usual, draw_unusual, usual
from droptics.audits.runs import Base, Law, Runs, draw

RESOLVED = (0.2, 0.01)  # half width at most this share of the penalty, or of the sum of all
QUANTILE = 2.8  # of a 99 % interval, for planning
MOST_DRAWS = 16  # of one site, planned


def remainder(
    runs: Runs, base: Base, laws: Sequence[Law], generator: torch.Generator, rate: float | None = None
) -> tuple[Tensor, Tensor]:
    """One draw of the masks of some sites: (r_i, l_i(z) - l_i(1)), both times the weights of the examples.

    Where the usual mask is likely, it is run once, draws are others, and both are one number for the batch, since
    examples are then no longer independent. Cost: the share of a pass that is left from the first of the sites on.
    """
    chance = chance_of_usual(laws, base, rate)
    if chance < SELDOM:
        masks = {law.name: draw(law, base, law.rate if rate is None else rate, generator) for law in laws}
        return _beyond(runs, base, laws, masks)
    key = tuple((law.name, rate) for law in laws)
    if key not in base.usual:
        base.usual[key] = _beyond(runs, base, laws, usual(laws, base, rate))
    if chance == 1:
        return _mixed(base.usual[key], base.usual[key], chance)
    return _mixed(base.usual[key], _beyond(runs, base, laws, draw_unusual(laws, base, generator, rate)), chance)


def _mixed(usual: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor], chance: float) -> tuple[Tensor, Tensor]:
    rest, plain = ((chance * a.sum() + (1 - chance) * b.sum()).reshape(1) for a, b in zip(usual, other, strict=True))
    return rest, plain


def _beyond(runs: Runs, base: Base, laws: Sequence[Law], masks: Masks) -> tuple[Tensor, Tensor]:
    """(r_i, l_i(z) - l_i(1)) of given masks."""
    first = min(laws, key=lambda law: base.recording.places[law.name]).name
    plain = runs.losses(masks, (base.recording, base.recording.places[first])) - base.sums
    rest = plain
    for law in laws:
        slopes = base.slopes.get(law.name, [])
        for slope, mask in zip(slopes, masks[law.name], strict=False):
            change = base.per_example(slope.double() * (mask.double() - 1), law.name)
            rest = rest - change if len(change) == len(rest) else rest.sum().reshape(1) - change.sum()
    if any(base.axes.get(law.name) is None for law in laws):
        return rest.sum().reshape(1), plain.sum().reshape(1)
    return rest, plain


@dataclass(frozen=True)
class Guess:
    """A first look at a site: its penalty and the standard deviation of one draw of it."""

    penalty: float
    deviation: float


def screen(runs: Runs, base: Base, laws: Sequence[Law], generator: torch.Generator) -> tuple[dict[str, Guess], Tensor]:
    """A look at all sites at once, to share out the draws; biased by what sites do together.

    Half the change of the slopes along the mask is its second order. Also returns r_i of all masks together, one draw
    of the total. Cost: two passes.
    """
    masks = {law.name: draw(law, base, law.rate, generator) for law in laws}
    leaves = {name: [mask.requires_grad_(True) for mask in part] for name, part in masks.items()}
    sums, slopes = runs.gradient(leaves)
    rest = sums - base.sums
    weight = float(base.weights.sum())
    found = {}
    for law in laws:
        second = torch.zeros_like(rest)
        for before, after, mask in zip(base.slopes[law.name], slopes[law.name], masks[law.name], strict=True):
            change = mask.detach().double() - 1
            rest = rest - base.per_example(before.double() * change, law.name)
            second = second + base.per_example((after.double() - before.double()) * change, law.name) / 2
        found[law.name] = Guess(float(second.sum()) / weight, float((second - second.mean()).norm()) / weight)
    return found, rest


def share_out(
    guesses: Mapping[str, Guess], costs: Mapping[str, float], budget: float, least: Mapping[str, int]
) -> dict[str, int]:
    """Draws per site: the least for each, then sites that few more draws resolve, then where the spread is largest."""
    draws = dict(least)
    left = budget - sum(draws[name] * costs[name] for name in draws)
    total = sum(max(guess.penalty, 0.0) for guess in guesses.values())
    wanted = {}
    for name, guess in guesses.items():
        target = max(RESOLVED[0] * abs(guess.penalty), RESOLVED[1] * total)
        needed = (QUANTILE * guess.deviation / target) ** 2 if target > 0 else 1.0
        wanted[name] = min(math.ceil(needed) if math.isfinite(needed) else MOST_DRAWS, MOST_DRAWS)
    for name in sorted(wanted, key=lambda name: (wanted[name] - draws[name]) * costs[name]):
        while draws[name] < wanted[name] and left >= costs[name]:
            draws[name] += 1
            left -= costs[name]
    while guesses:
        name = max(guesses, key=lambda name: guesses[name].deviation / math.sqrt(draws[name]))
        if draws[name] >= MOST_DRAWS or left < costs[name] or guesses[name].deviation == 0:
            break
        draws[name] += 1
        left -= costs[name]
    return draws
