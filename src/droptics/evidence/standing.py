"""Where every figure and table stands at paper scale: a table from the manifests that lie in a results folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from droptics.evidence.figures import OWN, Figure
from droptics.evidence.pages import table

NUMBER, LONG = re.compile(r"\d"), re.compile(r"(?<=\b[0-9a-f]{12})[0-9a-f]+")
SHOWN = 16  # printed numbers that stand beside ours in a line
SPECIAL = re.compile(r"([\\`*_\[\]<>$#{}~|])")  # what Markdown would not show as it is
HEAD = """# Figures at paper scale

Tables, pictures and manifests written by `droptics reproduce <id> --scale paper`, one folder a figure. Each manifest
holds the command, the versions, the commit, the hardware, the time and how every comparison with the print came out.
Where the protocol is not the printed one, or the print is silent and we had to choose, the line says so in words, in
today's; a manifest keeps those of its own day.
Figures that were not run say why; the command runs them and resumes where it was stopped. The grids behind the
landscape pictures (mianjy2018-fig1, thesis-fig2-1) are left out for their size; they take seconds.

This page is written by `droptics reproduce --standing results`; a test compares it with the folders beside it.

"""


@dataclass(frozen=True)
class Standing:
    """One line: what is printed, what came out, whether it was reproduced, under which protocol, where, when.

    `own` says how comparisons that are not printed came out; they do not count.
    """

    id: str
    printed: str
    ours: str = ""
    reproduced: str = ""
    departures: str = ""
    own: str = ""
    ran: str = ""
    commit: str = ""


def standings(figures: Sequence[Figure], results: str | Path) -> list[Standing]:
    """The line of every figure, from `<results>/<id>/manifest.json` where it lies there, else with the reason."""
    lines = []
    for figure in figures:
        file = Path(results) / figure.id / "manifest.json"
        if file.exists():
            lines.append(_ran(figure, json.loads(file.read_text(encoding="utf-8"))))
        else:
            why = figure.skip.get("paper") or figure.takes.get("paper") or "not run"
            lines.append(Standing(figure.id, figure.statement, reproduced=f"not run: {why}"))
    return lines


def _ran(figure: Figure, manifest: Mapping[str, Any]) -> Standing:
    own = [item for item in manifest["comparisons"] if item.get("printed", "").startswith(OWN)]
    counted = [item for item in manifest["comparisons"] if item not in own]
    said = [f"{sum(item['holds'] for item in counted)} of {len(counted)} comparisons hold"]
    numbers = [item for item in counted if NUMBER.search(item.get("printed", ""))]
    said += [f"{_compared(item)}, printed {item['printed']}" for item in numbers[:SHOWN]]
    missed = [f"not: {_compared(item)}" for item in counted if not item["holds"]]
    said += missed[:6] + ([f"and {len(missed) - 6} more"] if len(missed) > 6 else [])
    absent = manifest.get("missing", ())
    said += [f"not computed: {', '.join(absent)}"] if absent else []
    words = {"reproduced": "yes", "reproduced in part": "partly", "not reproduced": "no"}
    apart = [f"{item['label']}: {'holds' if item['holds'] else 'does not hold'}" for item in own]
    where, wrote = manifest["hardware"], manifest.get("commit", "")
    commits = dict.fromkeys(LONG.sub("", place.get("commit", wrote)) for place in manifest.get("places", [{}]))
    hardware = where["gpu"] or f"{where['cores']} cores, {where['machine']}"
    cells = f"{manifest['cells']} cell{'s' if manifest['cells'] != 1 else ''}"
    return Standing(
        figure.id,
        figure.statement,
        "; ".join(said),
        words.get(manifest["outcome"], manifest["outcome"]),
        "; ".join(figure.departures if manifest["scale"] == "paper" else ()),
        "; ".join(apart),
        f"{manifest['scale']}, {cells}, {hardware}, {span(manifest['seconds'])}",
        ", ".join(commits).replace("-dirty", " with uncommitted changes") or "not recorded",
    )


def _compared(item: Mapping[str, Any]) -> str:
    parts = item["left"], item["relation"], item["right"]
    numbers = " ".join(f"{part:.4g}" if isinstance(part, int | float) else str(part) for part in parts)
    return f"{item['label']} ({numbers})"


def span(seconds: float) -> str:
    """A time in words: seconds, minutes or hours."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def standing_page(lines: Sequence[Standing]) -> str:
    """The lines as a page of Markdown: what counts, and below it what we compared beyond the print."""
    counts = [sum(line.reproduced == word for line in lines) for word in ("yes", "partly", "no", "not compared")]
    exact = sum(line.reproduced == "yes" and not line.departures for line in lines)
    said = (
        f"{len(lines)} figures and tables: {counts[0]} reproduced ({exact} of them with nothing to add about the "
        f"protocol), {counts[1]} partly, {counts[2]} not, {counts[3]} not compared with the print, "
        f"{len(lines) - sum(counts)} not run."
    )
    columns = ("id", "what is printed", "ours", "reproduced", "protocol: departures and choices", "ran", "commit")
    shown = [replace(line, **{name: SPECIAL.sub(r"\\\1", text) for name, text in vars(line).items()}) for line in lines]
    names = ("id", "printed", "ours", "reproduced", "departures", "ran", "commit")
    cells = [tuple(getattr(line, name) for name in names) for line in shown]
    blocks = [HEAD + "<!-- table -->", said, table(columns, cells)]
    if own := [(line.id, line.own) for line in shown if line.own]:
        blocks += ["### Comparisons of our own", "Not printed, and not counted above.", table(("id", "compared"), own)]
    return "\n\n".join(blocks) + "\n"
