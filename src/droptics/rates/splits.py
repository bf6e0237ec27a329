"""A rate per site: down the path of steepest descent of the sites with a clear effect, kept where it pays.

Box and Wilson's way with a two-level design: its effects are a direction, and copies along it tell how far to go.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch

from droptics.rates.designs import Effect, effects, two_level
from droptics.rates.points import points_of
from droptics.rates.result import Point, Split
from droptics.rates.running import Runner, Trained
from droptics.rates.verdicts import ERRORS, compare

LEVEL = 0.7  # log-odds between the tied rate and the levels of the design
STEPS = (0.5, 1.0, 2.0, 4.0)  # along the path, in levels, of the site that moves most
FINE_STEPS = (1 / 16, 1 / 8, 1 / 4, *STEPS)  # where a step costs no training
NOTHING_MOVES = "no site has an effect beyond two standard errors"


def no_split(verdict: str, rate: float, groups: set[str]) -> str:
    """Why no rate per site is looked for; empty where it is."""
    if len(groups) < 2:
        return "there is one site, or one group of them"
    if verdict == "flat":
        return "nothing is gained by dropout here, so that there is nothing to divide"
    return "the tied answer is no dropout" if rate == 0 else ""


def divide(
    runner: Runner,
    group: dict[str, str],
    rate: float,
    center: Trained,
    seeds: Sequence[int],
    fresh: Sequence[int],
) -> tuple[Split, dict[str, float], dict[str, Effect], list[Point]]:
    """A rate per group: effects from a two-level design, the surest of a path, a comparison with the tied rate.

    `center` are the copies at the tied rate, on the same seeds.
    """
    groups = list(dict.fromkeys(group.values()))
    signs = two_level(len(groups))
    levels = [dict(zip(groups, (_moved(rate, LEVEL * sign) for sign in row), strict=True)) for row in signs.tolist()]
    settings = [{name: level[own] for name, own in group.items()} for level in levels]
    trained = runner.run(settings, seeds, "design")
    tied = dict.fromkeys(group, rate)
    means = torch.stack([item.losses.mean(0) for item in trained])
    lowest = min(range(len(settings)), key=lambda i: float(trained[i].losses.mean()))
    points = points_of("design", settings, trained, lowest)
    if not bool(means.isfinite().all()):
        return Split(False, "copies of the design diverged"), tied, {}, points
    found = [Effect(effect.value / LEVEL, effect.error / LEVEL) for effect in effects(signs, means)]
    by_group = dict(zip(groups, found, strict=True))
    effect = {name: by_group[own] for name, own in group.items()}
    settings = path(by_group, group, rate)
    if not settings:
        return Split(False, NOTHING_MOVES), tied, effect, points
    along = runner.run(settings, seeds, "path")
    best = surest(center, along)
    points += points_of("path", settings, along, best)
    pair = runner.run([tied, settings[best]], fresh, "guard")
    kept, answer, more = guarded(tied, settings[best], pair, f"the loss on {len(fresh)} fresh seeds is lower by")
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


def surest(center: Trained, along: Sequence[Trained]) -> int:
    """The step whose gain over the tied rate, less its standard error, is largest; the guard asks for one above 0."""
    gains = [compare(center.losses, item.losses) for item in along]
    return max(range(len(gains)), key=lambda i: gains[i].value - gains[i].error)


def guarded(
    tied: dict[str, float], own_rates: dict[str, float], pair: Sequence[Trained], text: str
) -> tuple[Split, dict[str, float], list[Point]]:
    """The split where it beats the tied rate by one standard error, else the tied rate."""
    gain = compare(pair[0].losses, pair[1].losses)
    points = points_of("guard", [tied, own_rates], pair, 1 if gain.value > 0 else 0)
    kept = gain.value > gain.error
    reason = f"{text} {gain.value:.3g} ± {gain.error:.2g}"
    return Split(kept, reason, gain.value, gain.error), own_rates if kept else tied, points


def _moved(rate: float, shift: float) -> float:
    """The rate whose log-odds are larger by `shift`."""
    odds = rate / (1 - rate) * math.exp(shift)
    return odds / (1 + odds)
