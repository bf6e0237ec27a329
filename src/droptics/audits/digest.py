"""The parts of a report's dictionary that both the terminal and the page show: numbers as text, groups, rankings."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from droptics.audits.findings import KINDS, LEVELS
from droptics.audits.labels import Label, compact, labels

Content = Mapping[str, Any]
MANY = 12  # sites from which on they are grouped


def value_text(value: float | None, digits: int = 4) -> str:
    """A number in few digits; what is not finite arrives as None."""
    return "not finite" if value is None else f"{value:.{digits}g}"


def number_text(number: Content | None) -> str:
    """The value, and how far from it the interval reaches where it has one."""
    if number is None:
        return "-"
    if None in (number["value"], number["lower"], number["upper"]):
        return value_text(number["value"])
    reach = max(number["upper"] - number["value"], number["value"] - number["lower"])
    return value_text(number["value"]) if reach == 0 else f"{value_text(number['value'])} ± {reach:.2g}"


def rate_text(rate: float) -> str:
    """The rate of a site; what is found does drop, so that zero stands for a rate that cannot be seen."""
    return f"{rate:g}" if rate > 0 else "?"


def share_text(share: float | None) -> str:
    """Share of the training loss."""
    return "-" if share is None else f"{share:.1%}"


def how_text(item: Content) -> str:
    """How the penalty of a site was obtained, or why it has none."""
    if item["penalty"] is None:
        return str(item["site"]["reason"] or "not measured")
    return str(item["penalty"]["method"])


@dataclass(frozen=True)
class Group:
    """Sites of the same place and kind in several layers."""

    place: str
    kind: str
    names: Sequence[str]
    items: Sequence[Content]

    @property
    def label(self) -> str:
        """The names in one line."""
        return ", ".join(compact(self.names))

    @property
    def rate(self) -> str:
        """The rate, or the least and the largest."""
        rates = [item["site"]["rate"] for item in self.items]
        low, high = rate_text(min(rates)), rate_text(max(rates))
        return low if low == high else f"{low} to {high}"

    @property
    def penalty(self) -> Content | None:
        """Sum of the penalties, whose draws are independent; None where one is missing."""
        numbers = [item["penalty"] for item in self.items]
        if any(number is None or None in (number["value"], number["lower"], number["upper"]) for number in numbers):
            return None
        below = math.hypot(*(number["value"] - number["lower"] for number in numbers))
        above = math.hypot(*(number["upper"] - number["value"] for number in numbers))
        value = math.fsum(number["value"] for number in numbers)
        return {"value": value, "lower": value - below, "upper": value + above, "method": "sum"}

    @property
    def share(self) -> float | None:
        """Sum of the shares of the training loss; None where one is missing."""
        values = [item["share"] for item in self.items]
        return None if None in values else sum(values)

    @property
    def how(self) -> str:
        """All ways in which the penalties were obtained."""
        return "; ".join(dict.fromkeys(how_text(item) for item in self.items))


def groups(report: Content) -> list[Group]:
    """Sites by place and kind, in the order in which they run."""
    found: dict[tuple[str, str], list[Content]] = {}
    places = labels([item["site"]["name"] for item in report["sites"]])
    for item in report["sites"]:
        key = places[item["site"]["name"]].place, item["site"]["kind"]
        found.setdefault(key, []).append(item)
    return [
        Group(place, kind, [item["site"]["name"] for item in items], items) for (place, kind), items in found.items()
    ]


def largest(report: Content, count: int) -> list[Content]:
    """The sites of largest penalty, by size."""
    known = [item for item in report["sites"] if item["penalty"] and item["penalty"]["value"] is not None]
    return sorted(known, key=lambda item: -abs(item["penalty"]["value"]))[:count]


@dataclass(frozen=True)
class Grouped:
    """Findings of one kind, with all their places.

    Attributes:
        code: Of the kind.
        level: "bug", "warning" or "note".
        text: What was seen, where it is the same everywhere, else the kind in a few words.
        advice: What to try, where it is the same everywhere.
        sites: Names, those of the same place in one line.
        count: How many findings these are.
        details: What was seen at each place, where it differs.
        meaning: What the kind means and what its evidence is; empty for kinds that are not registered here.
    """

    code: str
    level: str
    text: str
    advice: str
    sites: Sequence[str]
    count: int
    details: Sequence[tuple[str, str]]
    meaning: str
    evidence: str


def grouped(findings: Sequence[Content]) -> list[Grouped]:
    """Findings by code, bugs first; those without a code stand alone unless their texts agree."""
    found: dict[tuple[str, str], list[Content]] = {}
    for item in findings:
        found.setdefault((item["code"], "" if item["code"] else item["text"]), []).append(item)
    result = []
    for (code, _), items in found.items():
        kind, same = KINDS.get(code), len({item["text"] for item in items}) == 1
        advice = {item["advice"] for item in items}
        result.append(
            Grouped(
                code,
                items[0]["level"],
                items[0]["text"] if same or kind is None else kind.title,
                items[0]["advice"] if len(advice) == 1 or kind is None else kind.mend,
                compact(item["site"] for item in items),
                len(items),
                () if same else [(item["site"], item["text"]) for item in items],
                "" if kind is None else kind.meaning,
                "" if kind is None else kind.evidence,
            )
        )
    return sorted(result, key=lambda item: LEVELS.index(item.level))


@dataclass(frozen=True)
class HeatMap:
    """Penalties by layer (rows) and place (columns); None where a layer has no such site."""

    places: Sequence[str]
    layers: Sequence[str]
    cells: Sequence[Sequence[Content | None]]
    most: float


def heat_map(report: Content) -> HeatMap | None:
    """The sites whose places repeat by layer; None when fewer than two places or layers do."""
    read: dict[str, Label] = labels([item["site"]["name"] for item in report["sites"]])
    known = {
        (read[item["site"]["name"]].index, read[item["site"]["name"]].place): item
        for item in report["sites"]
        if read[item["site"]["name"]].index
    }
    layers = sorted({index for index, _ in known})
    places = list(dict.fromkeys(place for _, place in known))
    sizes = [abs(item["penalty"]["value"] or 0) for item in known.values() if item["penalty"]]
    if len(layers) < 2 or len(known) < MANY or not any(sizes):
        return None
    return HeatMap(
        [_short(place, places) for place in places],
        [".".join(map(str, index)) for index in layers],
        [[known.get((index, place)) for place in places] for index in layers],
        max(sizes),
    )


def _short(place: str, places: Sequence[str]) -> str:
    """A place without the beginning that all share."""
    parts = [other.split(".") for other in places]
    shared = 0
    while all(len(other) > shared + 1 for other in parts) and len({other[shared] for other in parts}) == 1:
        shared += 1
    return ".".join(place.split(".")[shared:])
