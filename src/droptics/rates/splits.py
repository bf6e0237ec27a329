"""A rate per site: a corner of a design, or down the steepest descent of sites with a clear effect, where it pays.

Box and Wilson's way with a two-level design: its effects are a direction, and copies along it tell how far to go. One
half of the validation examples chooses the split, the other half judges it, on fresh seeds: among many copies the best
on some examples looks better on these than it is, and no number of seeds takes that away.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from droptics.rates.designs import Effect, effects, two_level
from droptics.rates.points import points_of
from droptics.rates.result import Point, Split
from droptics.rates.running import Runner, Trained
from droptics.rates.verdicts import ERRORS, compare

LEVEL = 0.7  # log-odds between the tied rate and the levels of the design
STEPS = (0.5, 1.0, 2.0, 4.0)  # along the path, in levels, of the site that moves most
FINE_STEPS = (1 / 16, 1 / 8, 1 / 4, *STEPS)  # where a step costs no training
NOTHING_MOVES = "no site has an effect beyond two standard errors"
NOTHING_GAINS = "no copy of the design is better by one"


def no_split(verdict: str, rate: float, groups: set[str]) -> str:
    """Why no rate per site is looked for; empty where it is."""
    if len(groups) < 2:
        return "there is one site, or one group of them"
    if verdict == "flat":
        return "nothing is gained by dropout here, so that there is nothing to divide"
    return "the tied answer is no dropout" if rate == 0 else ""


def halves(examples: int) -> tuple[Tensor, Tensor]:
    """The examples that choose a split, and those that judge it; drawn, since data may come in an order."""
    first, second = torch.randperm(examples, generator=torch.Generator().manual_seed(0)).tensor_split(2)
    return first, second


def on(examples: Tensor, trained: Sequence[Trained]) -> list[Trained]:
    """The same copies, with their losses on some of the examples."""
    return [replace(item, losses=item.losses[:, examples]) for item in trained]


def divide(
    runner: Runner,
    group: dict[str, str],
    rate: float,
    center: Trained,
    seeds: Sequence[int],
    fresh: Sequence[int],
) -> tuple[Split, dict[str, float], dict[str, Effect], list[Point]]:
    """A rate per group: effects from a two-level design, a path along them, a comparison with the tied rate.

    `center` are the copies at the tied rate, on the same seeds. The surest copy of the path, or the best of the design
    where it gains one standard error and is surer, is judged: groups may matter through their product, which no effect
    shows.
    """
    choosing, judging = halves(center.losses.shape[1])
    (center,) = on(choosing, [center])
    groups = list(dict.fromkeys(group.values()))
    signs = two_level(len(groups))
    levels = [dict(zip(groups, (_moved(rate, LEVEL * sign) for sign in row), strict=True)) for row in signs.tolist()]
    settings = [{name: level[own] for name, own in group.items()} for level in levels]
    trained = on(choosing, runner.run(settings, seeds, "design"))
    tied = dict.fromkeys(group, rate)
    means = torch.stack([item.losses.mean(0) for item in trained])
    lowest = min(range(len(settings)), key=lambda i: float(trained[i].losses.mean()))
    points = points_of("design", settings, trained, lowest)
    if not bool(means.isfinite().all()):
        return Split(False, "copies of the design diverged"), tied, {}, points
    found = [Effect(effect.value / LEVEL, effect.error / LEVEL) for effect in effects(signs, means)]
    by_group = dict(zip(groups, found, strict=True))
    effect = {name: by_group[own] for name, own in group.items()}
    along = path(by_group, group, rate)
    followed = on(choosing, runner.run(along, seeds, "path")) if along else []
    points += points_of("path", along, followed, surest(center, followed)) if along else []
    gain = compare(center.losses, trained[lowest].losses)
    if gain.value > gain.error:
        along, followed = [*along, settings[lowest]], [*followed, trained[lowest]]
    if not along:
        return Split(False, f"{NOTHING_MOVES}, and {NOTHING_GAINS}"), tied, effect, points
    pair = [tied, along[surest(center, followed)]]
    judged = on(judging, runner.run(pair, fresh, "guard"))
    kept, answer, more = guarded(pair, judged, f"the loss on {len(fresh)} fresh seeds is lower by")
    return kept, answer, effect, points + more


def path(
    by_group: Mapping[str, Effect], group: Mapping[str, str], rate: float, steps: Sequence[float] = STEPS
) -> list[dict[str, float]]:
    """Rates along the steepest descent from the tied rate, in log-odds: groups move in proportion to their effects.

    Only those beyond two standard errors move; empty where there is none.
    """
    slopes = {own: one.value if abs(one.value) > ERRORS * one.error else 0.0 for own, one in by_group.items()}
    steepest = max(map(abs, slopes.values()))
    if steepest == 0:
        return []
    shifts = {own: -LEVEL * slope / steepest for own, slope in slopes.items()}
    return [
        {name: _moved(rate, step * shifts[own]) if shifts[own] else rate for name, own in group.items()}
        for step in steps
    ]


def surest(center: Trained, others: Sequence[Trained]) -> int:
    """The copy whose gain over the tied rate, less its standard error, is largest."""
    gains = [compare(center.losses, item.losses) for item in others]
    return max(range(len(gains)), key=lambda i: gains[i].value - gains[i].error)


def guarded(
    pair: Sequence[dict[str, float]], trained: Sequence[Trained], text: str
) -> tuple[Split, dict[str, float], list[Point]]:
    """The second setting of a pair where it is surely better than the first, the tied rate; else the tied rate."""
    gain = compare(trained[0].losses, trained[1].losses)
    points = points_of("guard", pair, trained, int(gain.value > 0))
    reason = f"{text} {gain.value:.3g} ± {gain.error:.2g}"
    return Split(gain.sure, reason, gain.value, gain.error), pair[int(gain.sure)], points


def _moved(rate: float, shift: float) -> float:
    """The rate whose log-odds are larger by `shift`."""
    odds = rate / (1 - rate) * math.exp(shift)
    return odds / (1 + odds)
