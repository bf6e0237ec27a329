"""What claims on figures compare: cells that resume, failures, manifests, the standing page and the gallery."""

from __future__ import annotations

import csv
import json
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from droptics.evidence.claims import Comparison, compare, decide
from droptics.evidence.figures import Artifact, Cell, Expectation, Figure, manifest, read_record, reproduce
from droptics.evidence.gallery import Work, build_gallery, png_size
from droptics.evidence.provenance import here
from droptics.evidence.standing import Standing, span, standing_page, standings
from droptics.papers.droptics_own.evidence.mechanism_checks import BASE, COND, SLIP, WRONG, toy_cell
from droptics.papers.droptics_own.telling import refuses, same


def _picture(rows: Sequence[Any], path: Path) -> None:
    Path(path).write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", 640, 480))


def _expects(rows: Sequence[Any], scale: str) -> list[Expectation]:
    """What the toy compares: built by hand, since a comparison of `compare` that fails would end a control here."""
    total = sum(row["result"] for row in rows if "result" in row)
    return [
        Expectation(Comparison(total, "==", 13.0, "sum"), printed="13 in all"),
        Expectation(Comparison(total, ">", 20.0, "large"), reproduced=False, note="No."),
        Expectation(Comparison(len(rows), "==", 4, "rows"), printed="not printed: rows"),
    ]


TOY = Figure(
    "toy-fig1",
    "Toy, Figure 1",
    "A title",
    "Squares of two numbers.",
    lambda scale: [Cell(name, {"value": value, "power": 2}) for name, value in (("two", 2.0), ("three", 3.0))],
    toy_cell,
    _expects,
    _picture,
    departures=("other numbers",),
    takes={"paper": "an hour"},
)


def reproduced_figures(scale: float) -> list[Comparison]:
    """Cells run once and resume, failures and skips are told, and tables, manifests and pages hold their numbers."""
    found: list[Comparison] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (first,) = reproduce([TOY], "paper", folder)
        (again,) = reproduce([TOY], "paper", folder)
        counts = [first.computed, first.resumed, again.computed, again.resumed]
        found.append(compare(counts, "==", [scale * count for count in (2, 0, 0, 2)], "computed and resumed cells"))
        rows = [
            {"value": v, "power": 2, "result": v * v} if k == 0 else {"value": v, "other": "x,y"}
            for v in (2.0, 3.0)
            for k in (0, 1)
        ]
        found.append(same(([*first.rows], [*again.rows]), (rows, rows), "rows in the order of cells", scale))
        lines = list(csv.DictReader(first.table.read_text(encoding="utf-8").splitlines()))
        found.append(same([line["result"] for line in lines], ["4.0", "", "9.0", ""], "the table", scale))
        found.append(same(list(lines[0]), ["value", "power", "result", "other"], "its columns", scale))
        outcomes = [item.outcome for item in first.expectations]
        words = ["reproduced", "not reproduced, as recorded", "reproduced"]
        found.append(
            same((outcomes, first.outcome, first.agrees), (words, "reproduced in part", True), "outcomes", scale)
        )
        told = json.loads(again.manifest.read_text(encoding="utf-8"))
        wanted = {"id": "toy-fig1", "scale": "paper", "outcome": "reproduced in part", "cells": 2, "failures": {}}
        wanted |= {"departures": ["other numbers"], "skipped": "", "missing": [], "source": "Toy, Figure 1"}
        wanted |= {"command": "droptics reproduce toy-fig1 --scale paper"}
        found.append(same({key: told[key] for key in wanted}, wanted, "the manifest", scale))
        found.append(
            same([item["holds"] for item in told["comparisons"]], [True, False, True], "its comparisons", scale)
        )
        found.append(
            same((told["versions"], told["places"][0]["cells"]), (here()["versions"], 2), "where it ran", scale)
        )
        records = sorted((folder / "cells").iterdir())
        found.append(same(len(records), 2, "a file a cell", scale))
        record = read_record(records[0])
        found.append(same((record or {}).get("parameters"), {"value": 3.0, "power": 2}, "what a cell keeps", scale))
        records[0].write_text("{", encoding="utf-8")
        found.append(same(read_record(records[0]), None, "a torn file", scale))
        (mended,) = reproduce([TOY], "paper", folder)
        found.append(
            same((mended.computed, mended.resumed, [*mended.rows]), (1, 1, rows), "torn cells run again", scale)
        )
        smoke = reproduce([TOY], "smoke", folder)[0]
        found.append(same(manifest(smoke)["departures"], [], "smoke departs from nothing", scale))
        found.append(same((smoke.resumed, smoke.folder), (2, folder / "toy-fig1" / "smoke"), "shared cells", scale))
        broken = replace(
            TOY,
            id="toy-fig2",
            cells=lambda scale: [Cell("two", {"value": 2.0, "power": 2}), Cell("minus", {"value": -1.0, "power": 2})],
        )
        asked = replace(TOY, id="toy-fig3", needs=("a", "b"))
        never = replace(TOY, id="toy-fig4", skip={"smoke": "too large"})
        parts = reproduce([broken, asked, never], "smoke", folder, missing=lambda need: f"no {need}")
        found.append(
            same([item.outcome for item in parts], ["failed", "skipped", "skipped"], "failures and skips", scale)
        )
        found.append(same(list(parts[0].failures.values()), ["ValueError: negative"], "why it failed", scale))
        found.append(
            same((parts[0].agrees, parts[0].computed + parts[0].resumed), (False, 1), "what is left of it", scale)
        )
        found.append(same([item.skipped for item in parts[1:]], ["no a; no b", "too large"], "why not", scale))
        lacking = replace(TOY, id="toy-fig5", expects=lambda rows, scale: [rows[0]["nothing"]])
        fault = next(iter(reproduce([lacking], "smoke", folder)[0].failures.values()))
        found.append(same(fault.startswith("KeyError: 'nothing'"), True, "rows that lack something", scale))
        twice = replace(TOY, cells=lambda scale: [Cell("two", {"value": 2.0, "power": 2})] * 2)
        found.append(refuses(lambda: reproduce([twice], "smoke", folder), "two cells of the same name"))
        found.append(refuses(lambda: reproduce([TOY], "large", folder), "scale must be one of"))  # type: ignore[arg-type]
        found += [*_needed(asked, folder, scale), *_shown_figures(folder, first, parts, scale)]
    return found


def _needed(figure: Figure, folder: Path, scale: float) -> list[Comparison]:
    """A figure with two needs: both are met, either is not, nobody says why."""
    names = [(), ("a",), ("b",)]
    answers = [
        *(lambda need, absent=absent: f"no {need}" if need in absent else "" for absent in names),
        None,
    ]
    told = [reproduce([figure], "smoke", folder, missing=answer)[0] for answer in answers]
    wanted = [("", 4), ("no a", 0), ("no b", 0), ("", 4)]
    return [same([(item.skipped, len(item.rows)) for item in told], wanted, "needs that are met", scale)]


def _shown_figures(folder: Path, first: Artifact, parts: Sequence[Artifact], scale: float) -> list[Comparison]:
    """The standing page and the gallery of these figures."""
    found: list[Comparison] = []
    (folder / "results" / "toy-fig1").mkdir(parents=True)
    told = manifest(first) | {"seconds": 90.0 * 60, "commit": "def", "places": [{"commit": "abc-dirty"}, {}]}
    told["hardware"] = {"gpu": None, "cores": 4, "machine": "m"}
    (folder / "results" / "toy-fig1" / "manifest.json").write_text(json.dumps(told), encoding="utf-8")
    unrun = replace(TOY, id="toy-fig9")
    lines = standings([TOY, unrun], folder / "results")
    found.append(same((lines[0].reproduced, lines[1].reproduced), ("partly", "not run: an hour"), "standing", scale))
    ours = "1 of 2 comparisons hold; sum (13 == 13), printed 13 in all; not: large (13 > 20)"
    found.append(same((lines[0].ours, lines[0].own), (ours, "rows: holds"), "compared in words", scale))
    ran = ("paper, 2 cells, 4 cores, m, 1.5 h", "abc with uncommitted changes, def")
    found.append(same((lines[0].ran, lines[0].commit), ran, "where and when", scale))
    page = standing_page(lines)
    summary = "2 figures and tables: 0 reproduced (0 of them with nothing to add about the protocol), 1 partly, 0 not, "
    summary += "0 not compared with the print, 1 not run."
    found.append(same(summary in page, True, "counts of the page", scale))
    cells = ("toy-fig1", "Squares of two numbers.", ours.replace(">", "\\>"), "partly", "other numbers", *ran)
    row = f"| {' | '.join(cells)} |"
    found.append(same(row in page and "| toy-fig1 | rows: holds |" in page, True, "rows of the page", scale))
    kinds = ("yes", "partly", "yes", "no", "not compared", "not run: an hour", "yes", "no", "partly", "no")
    many = [Standing(f"a{i}", "p | q", "o*", kind, "d" * (i in (0, 3)), "w" * (i == 4)) for i, kind in enumerate(kinds)]
    page = standing_page(many)
    summary = (
        "10 figures and tables: 3 reproduced (2 of them with nothing to add about the protocol), 2 partly, 3 not, "
    )
    summary += "1 not compared with the print, 1 not run."
    found.append(same(summary in page, True, "counts of many lines", scale))
    shown = [f"| a{i} | p \\| q | o\\* | {kind} | {'d' * (i in (0, 3))} |  |  |" for i, kind in enumerate(kinds)]
    lines_told = [line for line in page.splitlines() if line.startswith("| a")]
    found.append(same(lines_told, [*shown, "| a4 | w |"], "lines of the page", scale))
    found.append(same("of our own" in standing_page(many[:4]), False, "nothing of our own", scale))
    for seconds, words in (
        (5.25, "5.2 s"),
        (89.9, "89.9 s"),
        (90.0, "1.5 min"),
        (5399.0, "90.0 min"),
        (5400.0, "1.5 h"),
    ):
        found.append(same(span(seconds), words, f"{seconds} seconds", scale))
    results = [decide(claim) for claim in (BASE, WRONG, SLIP, COND)]
    index = build_gallery(
        [first, *parts], results, [Work("toy", "Toys", "A. Toy"), Work("none", "N", "n")], folder / "site"
    )
    names = sorted(item.name for item in (folder / "site").iterdir())
    found.append(same(names, ["claims.html", "errata.html", "images", "index.html", "toy.html"], "pages", scale))
    text = index.read_text(encoding="utf-8")
    counted = "4 figures and tables: reproduced in part 1, failed 1, skipped 2."
    found.append(same(counted in text and 'width="640"' in text, True, "figures of the site", scale))
    found.append(same(png_size(folder / "site" / "images" / "toy-fig1.png"), (640, 480), "size of a picture", scale))
    errata = (folder / "site" / "errata.html").read_text(encoding="utf-8")
    found.append(
        same(errata.index("toy-thm2") < errata.index("toy-thm3") and "toy-thm4" not in errata, True, "errata", scale)
    )
    claims = (folder / "site" / "claims.html").read_text(encoding="utf-8")
    said = "4 statements; holds: 1, holds only if: 1, false: 1, slip: 1."
    found.append(same(said in claims, True, "counts", scale))
    options = claims[claims.index("filter-verdict") : claims.index("filter-count")].count("<option>")
    found.append(same(options, 4, "verdicts to choose from", scale))
    own = (folder / "site" / "toy.html").read_text(encoding="utf-8")
    told_there = f"{counted} {said}" in own and all(f"toy-thm{number}" in own for number in (1, 2, 3, 4))
    found.append(same(told_there and "A. Toy" in own, True, "the page of the work", scale))
    return [*found, *_shown_apart(folder, first, scale)]


def _shown_apart(folder: Path, first: Artifact, scale: float) -> list[Comparison]:
    """Works that have figures alone or statements alone, and what stands on which page."""
    found: list[Comparison] = []
    works = [Work("none", "N", "n"), Work("alone", "Alone", "B. Alone"), Work("toy", "Toys", "A. Toy")]
    results = [decide(replace(BASE, id="alone-thm1"))]
    for name, told, wanted in (
        ("both", results, ["alone.html", "claims.html", "errata.html", "index.html", "toy.html"]),
        ("figures", [], ["index.html", "toy.html"]),
    ):
        site = folder / name
        build_gallery([first], told, works, site)
        found.append(same(sorted(page.name for page in site.glob("*.html")), wanted, f"pages: {name}", scale))
        texts = {page.name: page.read_text(encoding="utf-8") for page in site.glob("*.html")}
        holding = sorted(page for page, text in texts.items() if 'id="toy-fig1"' in text)
        found.append(same(holding, ["index.html", "toy.html"], f"where a figure stands: {name}", scale))
        holding = sorted(page for page, text in texts.items() if 'id="alone-thm1"' in text)
        found.append(same(holding, wanted[:2] if told else [], f"where a statement stands: {name}", scale))
        names = [part.partition("</a>")[0] for part in texts["index.html"].partition("</nav>")[0].split('">')[1:]]
        listed = [part for part in names if part in ("Claims", "Errata", "Alone", "Toys", "N")]
        shown = ["Claims", "Errata", "Alone", "Toys"] if told else ["Toys"]
        found.append(same(listed, shown, f"links to pages: {name}", scale))
        found.append(same("<h2>Toys</h2>" in texts["index.html"], True, f"figures of a work: {name}", scale))
        found.append(same("<h2>Alone</h2>" in texts["index.html"], False, f"no figures: {name}", scale))
    return found
