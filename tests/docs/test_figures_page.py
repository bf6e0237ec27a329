"""The page of figures: what is printed counts, what is ours stands apart, departures and investigations are shown."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from droptics.papers import figures

DOCS = Path(__file__).parents[2] / "docs"


def compared(label: str, holds: bool, printed: str) -> dict[str, object]:
    return {"label": label, "holds": holds, "printed": printed, "outcome": "so", "note": ""}


def test_what_is_ours_does_not_count_and_departures_are_listed(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), str(DOCS.parent / "benchmarks"), *sys.path])
    from generate import figure_lines

    figure = replace(next(figure for figure in figures() if figure.id == "mianjy2018-fig1"), departures=("two seeds",))
    found = [compared("a", True, "1"), compared("b", False, "2"), compared("c", False, "not printed: ours")]
    manifest = {
        "comparisons": found,
        "hardware": {"gpu": "G"},
        "outcome": "reproduced in part",
        "cells": 1,
        "seconds": 1,
    }
    folder = tmp_path / figure.id
    folder.mkdir()
    (folder / "manifest.json").write_text(json.dumps(manifest))
    parts = {name: {"question": f"why {name}", "rows": [{"x": 1.0}]} for name in (figure.id, f"{figure.id}, again")}
    (tmp_path / "investigations.json").write_text(json.dumps(parts | {"mianjy2018-fig2": parts[figure.id]}))
    lines = figure_lines(figure, tmp_path, folder)
    assert "**Reproduced in part**: 1 of 2 comparisons with the print hold. 1 cell, 1.0 s on G." in lines
    assert "Of 1 comparison of our own, not printed and not counted, 0 hold." in lines
    assert lines.index("- b (so)") < lines.index("- c (so)")
    assert "- two seeds" in lines
    assert sum(line.startswith("Why mianjy2018-fig1") for line in lines) == 2


def test_every_departure_stands_on_the_page(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(DOCS), str(DOCS.parent / "benchmarks"), *sys.path])
    from generate import figures_page
    from markup import escape

    page = figures_page(tmp_path, DOCS.parent / "results")
    departures = [words for figure in figures() if "paper" not in figure.skip for words in figure.departures]
    assert departures
    assert [words for words in departures if f"- {escape(words)}\n" not in page] == []
