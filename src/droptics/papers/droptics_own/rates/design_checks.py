"""What the claim on designs compares: effects of an additive loss, their errors, and steps along them."""

from __future__ import annotations

import itertools
import math

import torch

from droptics.evidence.claims import Comparison, compare
from droptics.papers.instances import normal
from droptics.rates import two_level
from droptics.rates.designs import Effect, effects
from droptics.rates.splits import path


def designed_effects(factor: float) -> list[Comparison]:
    """Effects of an additive loss from a two-level design, their errors with noise of runs, and steps along them."""
    signs = two_level(4)
    slopes, level = normal(1, 4, 40), normal(2, 40)
    noise = 0.3 * normal(3, 8)
    losses = level + signs @ slopes + noise[:, None]
    # the fourth column is the product of three, those of two are left
    products = torch.stack([signs[:, i] * signs[:, j] for i, j in itertools.combinations(range(3), 2)])
    spare = (products @ noise / 8).square().median()
    found = []
    for i, effect in enumerate(effects(signs, losses)):
        own = slopes[i] + (signs[:, i] @ noise) / 8
        found.append(compare(effect.value, "==", factor * own.mean(), f"effect {i}"))
        found.append(compare(effect.error, "==", (own.var() / 40 + spare).sqrt(), f"error {i}"))
    for sites in (1, 3, 7, 8, 9, 11):
        plan = two_level(sites)
        slopes = normal(sites, sites, 5)
        runs = 0.3 * normal(4, len(plan))
        told = effects(plan, normal(2, 5) + plan @ slopes + runs[:, None])
        own = slopes.mean(1) + plan.mT @ runs / len(plan)
        found.append(compare(plan.square(), "==", 1.0, f"two levels, {sites} sites"))
        found.append(compare([one.value for one in told], "==", factor * own, f"effects of {sites} sites"))
        # eight sites leave three of eleven columns to spare; two or fewer say nothing of runs
        of_runs = float((two_level(11)[:, 8:].mT @ runs / 12).square().median()) if sites == 8 else 0.0
        errors = (slopes.var(1) / 5 + of_runs).sqrt()
        found.append(compare([one.error for one in told], "==", errors, f"errors of {sites} sites"))
    groups = {"a": Effect(0.4, 0.19), "b": Effect(-0.2, 0.095), "c": Effect(0.1, 0.053), "d": Effect(-0.5, 0.26)}
    moved = path(groups, {"one": "a", "two": "b", "three": "c", "four": "d"}, 0.3, [0.5, 1.0])
    odds = [[math.log(rate / (1 - rate)) - math.log(0.3 / 0.7) for rate in point.values()] for point in moved]
    found.append(compare(odds[1][0], "==", factor * -2 * odds[1][1], "log-odds move as the effects do"))
    found.append(compare(odds[1], "==", [2 * shift for shift in odds[0]], "and as the step"))
    found.append(compare(odds[1][0], "==", factor * -0.7, "down by the levels of the design where the loss rises"))
    return [*found, compare(odds[1][2:], "==", 0.0, "what is within two errors stays")]
