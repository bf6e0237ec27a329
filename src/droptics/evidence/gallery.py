"""The gallery: one static, self-contained HTML site of figures and claims.

It works from a file path, on a phone and without JavaScript; the filters of the claims table are an extra.
"""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from droptics.evidence.claims import REFUTED, VERDICTS, Comparison, Result
from droptics.evidence.figures import Artifact
from droptics.evidence.formulas import mathml
from droptics.evidence.pages import said, shown_output
from droptics.evidence.provenance import commit, hardware, versions
from droptics.files import write_text

SIGNS = {"==": "=", "<=": "≤", ">=": "≥", "<": "<", ">": ">", "!=": "≠"}


@dataclass(frozen=True)
class Work:
    """What the gallery says about a paper: its key, a short name and the full reference."""

    key: str
    name: str
    citation: str


def build_gallery(
    artifacts: Sequence[Artifact], results: Sequence[Result], works: Sequence[Work], out: str | Path
) -> Path:
    """Write the site into a folder and return its first page; pictures are copied beside the pages."""
    folder = Path(out)
    (folder / "images").mkdir(parents=True, exist_ok=True)
    cards = [_card(artifact, folder) for artifact in artifacts]
    rows = [_row(result) for result in results]
    present = [work for work in works if any(item["paper"] == work.key for item in [*cards, *rows])]
    pages = [{"file": "index.html", "name": "Figures"}]
    if rows:
        pages += [{"file": "claims.html", "name": "Claims"}, {"file": "errata.html", "name": "Errata"}]
    pages += [{"file": f"{work.key}.html", "name": work.name} for work in present]
    site = _Pages(folder, pages)
    groups = [
        {"name": work.name, "cards": mine} for work in present if (mine := [c for c in cards if c["paper"] == work.key])
    ]
    site.write(
        "index.html", "index.html.j2", "What the papers show, again", groups=groups, summary=_figures_said(cards)
    )
    if rows:
        said = _claims_said(rows)
        used = [name for name in (*VERDICTS, "undecided", "error") if any(row["verdict"] == name for row in rows)]
        keys = [work.key for work in present]
        site.write("claims.html", "claims.html.j2", "Claims", rows=rows, summary=said, papers=keys, verdicts=used)
        site.write("errata.html", "errata.html.j2", "Errata", rows=_errata(results))
    for work in present:
        mine = [row for row in rows if row["paper"] == work.key]
        own = [card for card in cards if card["paper"] == work.key]
        said = f"{_figures_said(own)} {_claims_said(mine)}".strip()
        title, page = work.name, f"{work.key}.html"
        site.write(page, "paper.html.j2", title, rows=mine, cards=own, citation=work.citation, summary=said)
    return folder / "index.html"


class _Pages:
    def __init__(self, folder: Path, pages: Sequence[Mapping[str, str]]) -> None:
        self._folder = folder
        self._environment = Environment(
            loader=PackageLoader("droptics.evidence"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
        )
        style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
        known = versions() | hardware()
        made = {
            "version": known["droptics"],
            "commit": commit(),
            "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "python": known["python"],
            "torch": known["torch"],
            "cores": known["cores"],
            "gpu": known["gpu"],
        }
        self._shared = {"pages": pages, "style": style, "made": made}

    def write(self, file: str, template: str, title: str, **values: Any) -> None:
        page = self._environment.get_template(template)
        write_text(self._folder / file, page.render(title=title, current=file, **self._shared, **values))


def _card(artifact: Artifact, folder: Path) -> dict[str, Any]:
    figure = artifact.figure
    image, width, height = "", 0, 0
    if not artifact.skipped and artifact.picture.exists():
        image = f"images/{figure.id}.png"
        shutil.copyfile(artifact.picture, folder / image)
        width, height = png_size(artifact.picture)
    return {
        "id": figure.id,
        "paper": figure.paper,
        "title": figure.title,
        "source": figure.source,
        "statement": figure.statement,
        "scale": artifact.scale,
        "outcome": artifact.outcome,
        "image": image,
        "width": width,
        "height": height,
        "skipped": artifact.skipped,
        "failures": artifact.failures,
        "met": sum(item.comparison.holds for item in artifact.expectations),
        "comparisons": [
            {
                "label": item.comparison.label,
                "printed": item.printed or _as_printed(item.comparison),
                "ours": f"{item.comparison.left:.4g}",
                "test": f"{SIGNS[item.comparison.relation]} {item.comparison.right:.4g}",
                "outcome": item.outcome,
                "note": item.note,
            }
            for item in artifact.expectations
        ],
        "command": f"droptics reproduce {figure.id} --scale {artifact.scale}",
        "seconds": f"{artifact.seconds:.1f}",
        "cells": artifact.computed + artifact.resumed,
        "takes": figure.takes.get("paper", ""),
    }


def _as_printed(comparison: Comparison) -> str:
    """What the comparison itself says is printed: a number, or an ordering of two of ours."""
    return f"{comparison.right:.4g}" if comparison.relation == "==" else "this ordering"


def _row(result: Result) -> dict[str, Any]:
    claim = result.claim
    return {
        "id": claim.id,
        "paper": claim.paper,
        "source": claim.source,
        "statement": claim.statement,
        "note": claim.erratum.wrong if claim.erratum else claim.note,
        "corrected": claim.corrected or "",
        "verdict": result.verdict,
        "recorded": claim.verdict,
        "agrees": result.agrees,
        "comparisons": [str(item) for item in result.comparisons],
        "control": [str(item) for item in result.control],
        "seconds": f"{result.seconds:.2f}",
        "error": result.error,
    }


def _errata(results: Sequence[Result]) -> list[dict[str, Any]]:
    statements = {result.claim.id: result.claim.statement for result in results}
    return [
        {
            "id": claim.id,
            "source": claim.source,
            "verdict": claim.verdict,
            "meaning": REFUTED[claim.verdict],
            "printed": Markup(mathml(claim.erratum.printed, block=True)),
            "reading": claim.erratum.reading,
            "wrong": claim.erratum.wrong,
            "counterexample": claim.erratum.counterexample,
            "inexact": claim.erratum.inexact,
            "shows": shown_output(claim.erratum.counterexample),
            "corrected": claim.erratum.corrected,
            "correction": statements.get(claim.erratum.corrected, ""),
        }
        for claim in sorted((result.claim for result in results), key=lambda claim: VERDICTS.index(claim.verdict))
        if claim.erratum is not None
    ]


def _figures_said(cards: Sequence[Mapping[str, Any]]) -> str:
    if not cards:
        return ""
    counts = Counter(card["outcome"] for card in cards)
    return f"{len(cards)} figures and tables: " + ", ".join(f"{name} {count}" for name, count in counts.items()) + "."


def _claims_said(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return ""
    return said([row["verdict"] for row in rows])


def png_size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG file, so that a page does not jump while its images load."""
    with path.open("rb") as file:
        width, height = struct.unpack(">II", file.read(24)[16:])
    return int(width), int(height)
