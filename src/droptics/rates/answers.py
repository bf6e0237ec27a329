"""The answer as it grows: the tied scan, then the split, then the result."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from droptics.rates.designs import Effect
from droptics.rates.places import Place
from droptics.rates.points import gap_of, points_of
from droptics.rates.result import Cost, Point, Rates, SiteRate, Split
from droptics.rates.running import Runner, Trained
from droptics.rates.splits import FINE_STEPS, NOTHING_MOVES, divide, guarded, halves, no_split, on, path, surest
from droptics.rates.stationary import Stationary
from droptics.rates.verdicts import ERRORS, Verdict, alike, judge


@dataclass
class Answer:
    """What is known so far."""

    places: list[Place]
    rates: list[float]
    trained: list[Trained]
    constant: Tensor | None
    method: str
    best: int
    verdict: Verdict
    reason: str
    points: list[Point]
    chosen: dict[str, float]
    group: dict[str, str]
    skipped: dict[str, str] = field(default_factory=dict)
    effects: dict[str, Effect] = field(default_factory=dict)
    split: Split | None = None

    def divide(self, runner: Runner, group: dict[str, str], seeds: Sequence[int], fresh: Sequence[int]) -> None:
        """Look for a rate per site, or say why not."""
        self.group, rate = group, self.rates[self.best]
        why = no_split(self.verdict, rate, set(group.values()))
        if why:
            self.split = Split(False, why)
            return
        tied = self.trained[self.best]
        self.split, self.chosen, self.effects, more = divide(runner, group, rate, tied, seeds, fresh)
        self.points += more

    def divide_exactly(self, exact: Stationary, group: dict[str, str], split: bool) -> None:
        """The derivative by every site's rate, and the rates that it leads to if a split is asked for."""
        self.group, rate = group, self.rates[self.best]
        tied = dict.fromkeys(group, rate)
        choosing, judging = halves(self.trained[self.best].losses.shape[1])
        by_group = exact.effects(tied, group, choosing if split else slice(None)) if rate > 0 else {}
        self.effects = {name: by_group[own] for name, own in group.items() if by_group}
        if not split:
            return
        why = no_split(self.verdict, rate, set(group.values()))
        if why:
            self.split = Split(False, why)
            return
        settings = path(by_group, group, rate, FINE_STEPS)
        if not settings:
            self.split = Split(False, NOTHING_MOVES)
            return
        copies = [self.trained[self.best], *exact.trained(settings)]
        center, *along = on(choosing, copies)
        best = surest(center, along)
        judged = on(judging, [copies[0], copies[1 + best]])
        self.split, self.chosen, more = guarded([tied, settings[best]], judged, "the loss is lower by")
        self.points += points_of("path", settings, along, best) + more

    def _site(self, place: Place) -> SiteRate:
        """The answer for one site; where a split was looked for, its verdict is that of its own effect."""
        effect, verdict = self.effects.get(place.name), self.verdict
        if effect is not None and self.split is not None and verdict != "flat":
            verdict = "resolved" if abs(effect.value) > ERRORS * effect.error else "flat"
        return SiteRate(
            place.name,
            place.kind,
            place.rate,
            self.chosen[place.name],
            verdict,
            self.group[place.name],
            None if effect is None else effect.value,
            None if effect is None else effect.error,
        )

    def finished(self, begin: float, runner: Runner | None = None) -> Rates:
        """The result."""
        same = alike([item.losses for item in self.trained], self.best)
        seconds = time.perf_counter() - begin
        cost = Cost(0, 0, seconds, False)
        if runner is not None:
            cost = Cost(runner.copies, runner.resumed, seconds, runner.together)
        return Rates(
            rates=self.chosen,
            sites=tuple(self._site(place) for place in self.places),
            points=tuple(self.points),
            cost=cost,
            verdict=self.verdict,
            reason=self.reason,
            best=self.rates[self.best],
            alike=tuple(rate for rate, close in zip(self.rates, same, strict=True) if close),
            gap=gap_of(self.trained, self.best),
            constant=None if self.constant is None else float(self.constant.mean()),
            split=self.split,
            skipped=self.skipped,
            method=self.method,
            notes=() if runner is None else tuple(runner.notes),
        )


def answer_of(
    places: list[Place], rates: list[float], trained: list[Trained], constant: Tensor | None, method: str
) -> Answer:
    """What a scan of tied rates says, before any split."""
    best, verdict, reason = judge(rates, [item.losses for item in trained], constant)
    names = [place.name for place in places]
    points = points_of("scan", [dict.fromkeys(names, rate) for rate in rates], trained, best)
    own = {name: name for name in names}
    chosen_rates = dict.fromkeys(names, rates[best])
    return Answer(places, rates, trained, constant, method, best, verdict, reason, points, chosen_rates, own)
