"""What copies showed, as points of a result: losses, paired differences, the generalization gap."""

from __future__ import annotations

import math
from collections.abc import Sequence

from droptics.rates.result import Gap, Point
from droptics.rates.running import Setting, Trained
from droptics.rates.verdicts import ERRORS, alike, compare, standard_error


def points_of(stage: str, settings: Sequence[Setting], trained: Sequence[Trained], best: int) -> list[Point]:
    """The settings of a stage, each compared with the best of them."""
    losses = [item.losses for item in trained]
    same = alike(losses, best)
    found = []
    for setting, item, close in zip(settings, trained, same, strict=True):
        difference = compare(item.losses, losses[best])
        alive = math.isfinite(float(item.losses.mean()))
        training = sum(item.training) / len(item.training)
        found.append(
            Point(
                stage,
                dict(setting),
                float(item.losses.mean()) if alive else None,
                standard_error(item.losses) if alive else None,
                difference.value if alive else None,
                difference.error if alive else None,
                close and alive,
                training if math.isfinite(training) else None,
                item.steps,
                len(item.steps),
            )
        )
    return found


def gap_of(trained: Sequence[Trained], best: int) -> Gap | None:
    """The generalization gap at the lowest rate, and what the best takes of it; None where a copy diverged."""
    lowest = trained[0]
    held, own = float(lowest.losses.mean()), sum(lowest.training) / len(lowest.training)
    if not (math.isfinite(held) and math.isfinite(own)):
        return None
    gap = held - own
    if gap <= ERRORS * standard_error(lowest.losses):
        return Gap(own, held, None, None)
    taken = compare(lowest.losses, trained[best].losses)
    return Gap(own, held, taken.value / gap, taken.error / gap)
