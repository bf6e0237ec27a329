"""A rate per site: a step for the sites whose effect is clear, kept where it pays on fresh seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from droptics.rates.designs import Effect, effects, two_level
from droptics.rates.points import points_of
from droptics.rates.result import Point, Split
from droptics.rates.running import Runner, Trained
from droptics.rates.verdicts import ERRORS, compare

LEVEL = 0.7  # log-odds between the tied rate and the levels of the design
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
    center: Tensor,
    seeds: Sequence[int],
    fresh: Sequence[int],
) -> tuple[Split, dict[str, float], dict[str, Effect], list[Point]]:
    """A rate per group: effects from a two-level design, a step for the clear ones, a comparison with the tied rate.

    `center` has the losses at the tied rate, on the same seeds. The mean loss of the design lies above theirs by half
    the squared level times the sum of the groups' own second derivatives: in a balanced design products cancel.
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
    bend = max(2 * float(means.mean() - center.mean()) / LEVEL**2, 0.0)
    own_rates = shifted(by_group, group, rate, bend)
    if own_rates == tied:
        return Split(False, NOTHING_MOVES), tied, effect, points
    pair = runner.run([tied, own_rates], fresh, "guard")
    kept, answer, more = guarded(tied, own_rates, pair, f"the loss on {len(fresh)} fresh seeds is lower by")
    return kept, answer, effect, points + more


def shifted(by_group: Mapping[str, Effect], group: Mapping[str, str], rate: float, bend: float) -> dict[str, float]:
    """The rates after a step of every group whose effect is beyond two standard errors."""
    shifts = {
        own: _shift(one, bend / len(by_group)) if abs(one.value) > ERRORS * one.error else 0.0
        for own, one in by_group.items()
    }
    return {name: _moved(rate, shifts[own]) if shifts[own] else rate for name, own in group.items()}


def guarded(
    tied: dict[str, float], own_rates: dict[str, float], pair: Sequence[Trained], text: str
) -> tuple[Split, dict[str, float], list[Point]]:
    """The split where it beats the tied rate by one standard error, else the tied rate."""
    gain = compare(pair[0].losses, pair[1].losses)
    points = points_of("guard", [tied, own_rates], pair, 1 if gain.value > 0 else 0)
    kept = gain.value > gain.error
    reason = f"{text} {gain.value:.3g} ± {gain.error:.2g}"
    return Split(kept, reason, gain.value, gain.error), own_rates if kept else tied, points


def _shift(effect: Effect, bend: float) -> float:
    """A Newton step in log-odds, within the levels of the design; all the way where the curvature is unknown."""
    step = effect.value / bend if bend > 0 else math.copysign(math.inf, effect.value)
    return -max(-LEVEL, min(LEVEL, step))


def _moved(rate: float, shift: float) -> float:
    """The rate whose log-odds are larger by `shift`."""
    odds = rate / (1 - rate) * math.exp(shift)
    return odds / (1 + odds)


def curvature(rates: Sequence[float], losses: Sequence[Tensor], best: int) -> float:
    """Second derivative of the loss in the log-odds of the tied rate, by the parabola through the best and beside it.

    0 where it is not positive or a neighbor is missing, has no log-odds or diverged.
    """
    if not 0 < best < len(rates) - 1 or rates[best - 1] == 0:
        return 0.0
    x = [math.log(rate / (1 - rate)) for rate in rates[best - 1 : best + 2]]
    y = [float(item.mean()) for item in losses[best - 1 : best + 2]]
    left, right = (y[1] - y[0]) / (x[1] - x[0]), (y[2] - y[1]) / (x[2] - x[1])
    bend = 2 * (right - left) / (x[2] - x[0])
    return bend if math.isfinite(bend) and bend > 0 else 0.0
