"""Where every figure and table stands at paper scale: a table from the manifests that lie in a results folder."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from droptics.evidence.figures import Figure

SPECIAL = re.compile(r"([\\`*_\[\]<>$#{}~|])")  # what Markdown would not show as it is
HEAD = """# Figures at paper scale

Tables, pictures and manifests written by `droptics reproduce <id> --scale paper`, one folder a figure. Each manifest
holds the command, the versions, the commit, the hardware, the time and how every comparison with the print came out.
Figures that were not run say why; the command runs them and resumes where it was stopped. The grids behind the
landscape pictures (mianjy2018-fig1, thesis-fig2-1) are left out for their size; they take seconds.

This page is written by `droptics reproduce --standing results`; a test compares it with the folders beside it.

"""


@dataclass(frozen=True)
class Standing:
    """One line: what is printed, what came out here, whether it was reproduced, where and in what time."""

    id: str
    printed: str
    ours: str
    reproduced: str
    scale: str
    hardware: str
    time: str


def standings(figures: Sequence[Figure], results: str | Path) -> list[Standing]:
    """The line of every figure, from `<results>/<id>/manifest.json` where it lies there, else with the reason."""
    lines = []
    for figure in figures:
        file = Path(results) / figure.id / "manifest.json"
        if file.exists():
            lines.append(_ran(figure, json.loads(file.read_text())))
        else:
            why = figure.skip.get("paper") or figure.takes.get("paper") or "not run"
            lines.append(Standing(figure.id, figure.statement, "", f"not run: {why}", "", "", ""))
    return lines


def _ran(figure: Figure, manifest: Mapping[str, Any]) -> Standing:
    compared = manifest["comparisons"]
    held = [item for item in compared if item["holds"]]
    ours = f"{len(held)} of {len(compared)} comparisons hold"
    missed = [_missed(item) for item in compared if not item["holds"]]
    if missed:
        ours += "; not: " + "; ".join(missed[:3]) + (f"; and {len(missed) - 3} more" if len(missed) > 3 else "")
    words = {"reproduced": "yes", "reproduced in part": "partly", "not reproduced": "no"}
    where = manifest["hardware"]
    hardware = where["gpu"] or f"{where['cores']} cores, {where['machine']}"
    return Standing(
        figure.id,
        figure.statement,
        ours,
        words.get(manifest["outcome"], manifest["outcome"]),
        f"{manifest['scale']}, {manifest['cells']} cell{'s' if manifest['cells'] != 1 else ''}",
        hardware,
        span(manifest["seconds"]),
    )


def _missed(item: Mapping[str, Any]) -> str:
    numbers = " ".join(
        f"{part:.4g}" if isinstance(part, int | float) else str(part)
        for part in (item["left"], item["relation"], item["right"])
    )
    return f"{item['label']} ({numbers})"


def span(seconds: float) -> str:
    """A time in words: seconds, minutes or hours."""
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.1f} s"


def standing_page(lines: Sequence[Standing]) -> str:
    """The lines as a page of Markdown."""
    columns = ("id", "what is printed", "ours", "reproduced", "scale", "hardware", "time")
    table = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    for line in lines:
        cells = (line.id, line.printed, line.ours, line.reproduced, line.scale, line.hardware, line.time)
        table.append("| " + " | ".join(SPECIAL.sub(r"\\\1", cell).replace("\n", " ") for cell in cells) + " |")
    counts = [sum(line.reproduced == word for line in lines) for word in ("yes", "partly", "no")]
    rest = len(lines) - sum(counts)
    said = (
        f"{len(lines)} figures and tables: {counts[0]} reproduced, {counts[1]} partly, {counts[2]} not, {rest} not run."
    )
    return HEAD + "<!-- table -->\n\n" + said + "\n\n" + "\n".join(table) + "\n"
