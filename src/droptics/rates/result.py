"""Rates: what a tuning found, as data, in words, as a picture; and put into a module."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from sklearn.base import BaseEstimator
from torch import nn

from droptics.files import check_target, write_text
from droptics.plots import lines
from droptics.rates.places import set_rates
from droptics.rates.verdicts import Verdict
from droptics.recommenders.estimator import Estimator
from droptics.terminal import new_console, new_table, printed

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Point:
    """Copies at one setting of the rates.

    Attributes:
        stage: "scan" (one rate everywhere), "design" and "path" (copies of the split) or "guard" (fresh seeds).
        rates: Rate per site.
        loss: Mean validation loss at the step it was taken, of a split on the half of the examples that chooses it
            ("design", "path") or judges it ("guard"); None where every copy diverged.
        error: Its standard error over examples (and seeds).
        difference: Loss minus that of the best point of the stage.
        paired_error: Standard error of that difference, example by example.
        alike: Whether it cannot be told apart from the best.
        training_loss: Loss on training examples without dropout, at the same step.
        steps: At which step each copy was best; None for copies trained by the caller's function.
        copies: How many were trained, one per seed.
    """

    stage: str
    rates: Mapping[str, float]
    loss: float | None
    error: float | None
    difference: float | None
    paired_error: float | None
    alike: bool
    training_loss: float | None
    steps: tuple[int | None, ...]
    copies: int

    @property
    def rate(self) -> float:
        """The rate of the first site: the rate, where all sites have the same."""
        return next(iter(self.rates.values()))


@dataclass(frozen=True)
class SiteRate:
    """The answer for one site.

    Attributes:
        name: As in the audit.
        kind: Which operation.
        before: The rate it has in the module.
        rate: The rate to set.
        verdict: "resolved", "flat" or "at the edge".
        group: Sites with one rate between them.
        effect: Change of the loss per unit of log-odds of its rate, around the tied answer; None without a split.
        error: Standard error of the effect.
    """

    name: str
    kind: str
    before: float
    rate: float
    verdict: Verdict
    group: str
    effect: float | None = None
    error: float | None = None


@dataclass(frozen=True)
class Split:
    """What became of the wish for a rate per site: whether it was kept, and the difference where it was judged."""

    kept: bool
    reason: str
    difference: float | None = None
    error: float | None = None


@dataclass(frozen=True)
class Gap:
    """The generalization gap at the lowest rate, and the share of it that the best rate takes away.

    share = (loss at the lowest rate - loss at the best) / (loss at the lowest rate - training loss there), both on
    validation data without dropout; `error` is the standard error of the share. None where there is no gap.
    """

    training_loss: float
    validation_loss: float
    share: float | None
    error: float | None


@dataclass(frozen=True)
class Cost:
    """What it took: copies trained (and taken from an earlier run), seconds, and whether they ran as one population."""

    copies: int
    resumed: int
    seconds: float
    together: bool


@dataclass(frozen=True)
class Rates:
    """Which rate, at each site, and how far to trust it.

    Attributes:
        rates: The rate to set, per site.
        sites: The same with kinds, verdicts and effects.
        points: Every setting that was tried.
        cost: What it took.
        verdict: "resolved", "flat" or "at the edge".
        reason: Why, in words.
        best: The best rate that all sites share.
        alike: The rates of the scan that cannot be told apart from it.
        gap: What dropout can do about the generalization gap; None where it is not known.
        constant: Validation loss of the constant output that is best on these data; None where it is not known.
        split: What became of `split="factorial"`; None where it was not asked for.
        skipped: Sites that were not tuned, with the reason.
        method: How the losses were found: "scan" by training copies, or by algebra.
        notes: What else to know.
    """

    rates: Mapping[str, float]
    sites: tuple[SiteRate, ...]
    points: tuple[Point, ...]
    cost: Cost
    verdict: Verdict
    reason: str
    best: float
    alike: tuple[float, ...]
    gap: Gap | None = None
    constant: float | None = None
    split: Split | None = None
    skipped: Mapping[str, str] = field(default_factory=dict)
    method: str = "scan"
    notes: tuple[str, ...] = ()

    def apply(self, module: Any) -> list[str]:
        """Set the rates in a module, or the rate of an estimator.

        Returns the names of the sites where it is not known how, which stay as they are.

        Dropout, attention and recurrent layers hold their rate themselves; for a functional call it is looked for in
        the attributes of its module.
        """
        if isinstance(module, (BaseEstimator, Estimator)):
            names = module.get_params(deep=False)
            if "drop" in names or "drops" in names:
                module.set_params(**({"drop": self.best} if "drop" in names else {"drops": [self.best]}))
                return []
        if not isinstance(module, nn.Module):
            raise ValueError(f"module must be an nn.Module, got {type(module).__name__}")
        return set_rates(module, self.rates, {site.name: site.before for site in self.sites})

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries, lists, strings and numbers."""
        return {"schema": SCHEMA_VERSION, **_plain(asdict(self))}

    @staticmethod
    def from_dict(content: Mapping[str, Any]) -> Rates:
        """What `to_dict` gave."""
        if not isinstance(content, Mapping) or content.get("schema") != SCHEMA_VERSION:
            raise ValueError(f"content must be what Rates.to_dict gave (schema {SCHEMA_VERSION})")
        try:
            known = {name: value for name, value in content.items() if name != "schema"}
            points = tuple(Point(**(item | {"steps": tuple(item["steps"])})) for item in known["points"])
            parts = {
                "sites": tuple(SiteRate(**item) for item in known["sites"]),
                "points": points,
                "cost": Cost(**known["cost"]),
                "alike": tuple(known["alike"]),
                "notes": tuple(known["notes"]),
                "gap": None if known["gap"] is None else Gap(**known["gap"]),
                "split": None if known["split"] is None else Split(**known["split"]),
            }
            return Rates(**(known | parts))
        except (KeyError, TypeError) as problem:
            raise ValueError(f"content is not what Rates.to_dict gave: {problem}") from problem

    def to_json(self) -> str:
        """As JSON."""
        return json.dumps(self.to_dict(), indent=1, allow_nan=False)

    def save(self, path: str | Path) -> Path:
        """Write the JSON, replacing an older file in one step."""
        target = check_target(path, name="path")
        write_text(target, self.to_json())
        return target

    @staticmethod
    def load(path: str | Path) -> Rates:
        """Read what `save` wrote."""
        try:
            return Rates.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except json.JSONDecodeError as problem:
            raise ValueError(f"path {path} is no JSON: {problem}") from problem

    def plot(self) -> Any:
        """Validation and training loss along the scan, with two standard errors of the difference from the best."""
        scan = [point for point in self.points if point.stage == "scan" and point.loss is not None]
        rates, losses = [point.rate for point in scan], [float(point.loss or 0.0) for point in scan]
        widths = [2 * (point.paired_error or 0.0) for point in scan]
        band = [loss - width for loss, width in zip(losses, widths, strict=True)]
        above = [loss + width for loss, width in zip(losses, widths, strict=True)]
        series = {
            "validation": losses,
            "training, without dropout": [point.training_loss or math.nan for point in scan],
        }
        return lines(
            rates,
            series,
            xlabel="rate",
            ylabel="loss",
            title=f"{self.verdict}: {self.best:g}",
            bands={"validation": (band, above)},
            levels={} if self.constant is None else {"best constant": self.constant},
        )

    def __str__(self) -> str:
        return _text(self)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _text(found: Rates, width: int = 110) -> str:
    console = new_console(width)

    def say(text: str) -> None:
        console.print(text, highlight=False)

    say(f"{found.verdict}: {found.reason}")
    scan = new_table()
    for column in ("rate", "loss", "from best", "told apart", "training", "step"):
        scan.add_column(column, justify="right")
    for point in found.points:
        if point.stage == "scan":
            scan.add_row(*_cells(point))
    console.print(scan)
    sites = new_table()
    for column in ("site", "kind", "before", "rate", "verdict", "effect"):
        sites.add_column(column, justify="left" if column in ("site", "kind", "verdict") else "right", overflow="fold")
    for site in found.sites:
        effect = "-" if site.effect is None else f"{site.effect:+.3g} ± {site.error:.2g}"
        sites.add_row(site.name, site.kind, f"{site.before:g}", f"{site.rate:.3g}", site.verdict, effect)
    console.print(sites)
    if found.gap is not None and found.gap.share is not None:
        share, error = f"{found.gap.share:.0%}", f"{found.gap.error:.0%}"
        say(f"dropout takes away {share} ± {error} of the generalization gap")
    if found.split is not None:
        say(f"a rate per site: {'kept' if found.split.kept else 'not kept'}, {found.split.reason}")
    for name, reason in found.skipped.items():
        say(f"{name}: {reason}")
    for note in found.notes:
        say(note)
    if found.cost.copies == 0:
        say(f"{found.method}, {found.cost.seconds:.3g} s")
        return printed(console)
    say(f"{found.cost.copies} copies in {found.cost.seconds:.3g} s, {found.cost.resumed} of them from an earlier run")
    return printed(console)


def _cells(point: Point) -> tuple[str, ...]:
    if point.loss is None:
        return f"{point.rate:g}", "diverged", "-", "yes", "-", "-"
    difference = f"{point.difference:+.3g} ± {point.paired_error:.2g}" if point.difference else "best"
    step = ", ".join("-" if step is None else str(step) for step in point.steps)
    training = "-" if point.training_loss is None else f"{point.training_loss:.4g}"
    return f"{point.rate:g}", f"{point.loss:.4g}", difference, "no" if point.alike else "yes", training, step
