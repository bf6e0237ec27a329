"""A report as one self-contained HTML page, from its dictionary alone."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from droptics.audits.digest import (
    MANY,
    Content,
    grouped,
    groups,
    heat_map,
    how_text,
    largest,
    number_text,
    rate_text,
    share_text,
    value_text,
)
from droptics.audits.drawing import curves

RANKED = 15
DARK = 0.45  # share of the largest penalty from which on a cell of the heat map is dark


def page(report: Content) -> str:
    """The page of a report's dictionary (`Report.to_dict`, or its JSON read again)."""
    import jinja2  # noqa: PLC0415 - loading it takes a seventh of a first audit

    heat, ranked = heat_map(report), largest(report, RANKED)
    most = heat.most if heat is not None else 1.0
    loader = jinja2.PackageLoader("droptics.audits")
    environment = jinja2.Environment(loader=loader, autoescape=True, trim_blocks=True)
    filters = {
        "number": number_text,
        "rate": rate_text,
        "share": share_text,
        "value": value_text,
        "how": how_text,
        "name": breakable,
        "cell": lambda item: _cell(item, most),
        "slider": slider,
    }
    environment.filters.update(filters)
    return environment.get_template("report.html.j2").render(
        report=report,
        many=len(report["sites"]) > MANY,
        findings=grouped(report["findings"]),
        groups=groups(report),
        kinds=sorted({item["site"]["kind"] for item in report["sites"]}),
        numbers={item["site"]["name"]: i + 1 for i, item in enumerate(report["sites"])},
        heat=heat,
        ranked=ranked,
        widest=max((abs(item["penalty"]["value"]) for item in ranked), default=0) or 1.0,
        pictures={item["site"]["name"]: pictures(item, report) for item in report["sites"]},
        json=json.dumps(report, indent=1),
    )


def breakable(name: str) -> Markup:
    """A name that may break behind its dots."""
    return Markup("<wbr>").join(escape(part) for part in _pieces(name))


def _pieces(name: str) -> list[str]:
    pieces = [piece + "." for piece in str(name).split(".")]
    return [*pieces[:-1], pieces[-1][:-1]]


def _cell(item: Content | None, most: float) -> Markup:
    """A cell of the heat map: the darker the larger, the number in it, in parentheses where its sign is not known."""
    if item is None:
        return Markup('<td class="none"><span class="hidden">no site</span></td>')
    number = item["penalty"]
    if number is None or number["value"] is None:
        return Markup('<td class="none">?</td>')
    level = math.sqrt(min(abs(number["value"]) / most, 1.0))
    color = [round(255 - level * (255 - dark)) for dark in (8, 48, 107)]
    ends = (number["lower"], number["upper"])
    open_ = None not in ends and ends[0] < 0 < ends[1]
    text = f"({number['value']:.2g})" if open_ else f"{number['value']:.2g}"
    ink = "#fff" if level > DARK else "#111"
    return Markup('<td class="n" style="background:rgb({},{},{});color:{}">{}</td>').format(*color, ink, text)


def slider(item: Content) -> str:
    """Rates and predicted training losses, for the page's slider."""
    return json.dumps([[point["rate"], point["training_loss"]] for point in item["curve"]])


def pictures(item: Content, report: Content) -> list[tuple[str, Markup]]:
    """Captions and drawings of one site."""
    found: list[tuple[str, str]] = []
    if len(item["curve"]) > 1:
        found.append(_curve(item["curve"], report["clean_loss"]))
    units = item["units"]
    if units is not None and units["flows"]:
        caption = "Flows of the units. Flat: all units carry the same; steep: few carry everything."
        ordered = _floats(sorted(_floats(units["flows"]), reverse=True))
        alt = f"Flows of {len(ordered)} units in decreasing order, from {ordered[0]:.3g} to {ordered[-1]:.3g}"
        shown = list(range(1, len(ordered) + 1))
        picture = curves(shown, {"flow": ordered}, axes=("unit, by flow", "what it carries onward"), alt=alt)
        found.append((caption, picture))
    spectrum = item["spectrum"]
    if spectrum is not None:
        caption = "Spectrum of the predictions beside the one that is best for this rate and width."
        both = {"this network": _floats(spectrum["measured"]), "dropout optimum": _floats(spectrum["optimal"])}
        first = ", ".join(f"{name} {values[0]:.3g}" for name, values in both.items())
        alt = f"Singular values of the predictions in decreasing order; the largest: {first}"
        shown = list(range(1, len(spectrum["measured"]) + 1))
        found.append((caption, curves(shown, both, axes=("singular value", "size"), alt=alt)))
    choice = item["rate_choice"]
    if choice is not None:
        caption = "Error of the refitted last layer on examples it has not seen, features fixed."
        errors = _floats(choice["errors"])
        alt = f"Exact leave-one-out error by rate, least at rate {choice['best']:g}"
        picture = curves(choice["rates"], {"error": errors}, axes=("rate", "leave-one-out error"), alt=alt)
        found.append((caption, picture))
    return [(caption, Markup(picture)) for caption, picture in found if picture]


def _curve(points: Sequence[Content], clean: float | None) -> tuple[str, str]:
    rates = [point["rate"] for point in points]
    losses = _floats(point["training_loss"] for point in points)
    numbers = [_floats(point["penalty"][part] for part in ("value", "lower", "upper")) for point in points]
    low, high = ([loss + (one[k] - one[0]) for loss, one in zip(losses, numbers, strict=True)] for k in (1, 2))
    text = ", ".join(f"{loss:.4g} at {rate:g}" for rate, loss in zip(rates, losses, strict=True))
    picture = curves(
        rates,
        {"predicted training loss": losses},
        axes=("rate of this site", "training loss"),
        alt=f"Predicted training loss by rate: {text}",
        band=(low, high) if low != high else None,
        level=None if clean is None else ("without any dropout", clean),
    )
    return "Training loss at other rates of this site, these weights, without retraining.", picture


def _floats(values: Any) -> list[float]:
    return [math.nan if value is None else float(value) for value in values]
