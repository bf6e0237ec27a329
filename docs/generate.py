"""Pages that are written at build time: claims and errata from the registry, figures, and the measured tables."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import mean
from typing import Any

from droptics.evidence.claims import Claim, Result
from droptics.evidence.figures import Figure, write_text
from droptics.evidence.pages import claims_page, errata_page
from droptics.papers import PAPERS, claims

TITLES = {
    "attacks": "Attacks",
    "audit": "Audit",
    "coadaptation": "Co-adaptation and sub-networks",
    "layers": "Layers",
    "optima": "Optima and equalization",
    "penalties": "Penalties of deep linear networks",
    "recommenders": "Matrix completion: time",
    "recommenders_accuracy": "Matrix completion: accuracy",
    "recommenders_gpu": "Matrix completion on a GPU",
    "relu": "ReLU networks",
    "ridge_deep": "Ridge, leave-one-out and deep linear networks",
    "subnetworks_gpu": "Sub-networks of wide networks, on a GPU",
    "training": "Training",
}
SPECIAL = re.compile(r"([\\`*_\[\]<>$#{}~])")
RECORDED = (
    "# Claims\n\nThe verdicts on this page are those on record; `droptics verify` computes them again, compares and "
    "ends with an error where one differs. The tests do the same.\n"
)


def write_pages(folder: Path, results: Path) -> None:
    """Write all generated pages into a folder; `results` holds the JSON files of the benchmarks."""
    plain = [literal(claim) for claim in claims()]
    recorded = [Result(claim, claim.verdict) for claim in plain]
    pages = {
        "claims": claims_page(recorded).replace("# Claims\n", RECORDED, 1),
        "errata": errata_page(plain),
        "figures": figures_page(folder),
        "benchmarks": benchmarks_page(results),
    }
    for name, text in pages.items():
        file = folder / f"{name}.md"
        # an unchanged file keeps its date, so that a second build has nothing to do
        if not file.exists() or file.read_text() != text:
            write_text(file, text)


def escape(text: str) -> str:
    """Text that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", text)


def literal(claim: Claim) -> Claim:
    """The claim with texts that Markdown shows as they are."""
    return replace(
        claim, source=escape(claim.source), statement=escape(claim.statement), note=escape(claim.note).strip()
    )


def figures_page(folder: Path) -> str:
    """Every figure and table of the works: what it shows, the command, what it takes, and a picture where one lies."""
    lines = [
        "# Figures and tables",
        "",
        "Each is computed again by one command, `droptics reproduce <id>`; `--scale smoke` (the default) takes "
        "seconds and runs in the tests, `--scale paper` is the real thing. A run leaves a table, a picture and a "
        "manifest that compares every printed number or ordering with ours; a run that was killed resumes. "
        "`droptics reproduce --all` also builds a gallery to browse.",
    ]
    for paper in PAPERS:
        if paper.figures:
            lines += ["", f"## {paper.name}", "", escape(paper.citation)]
        for figure in paper.figures:
            lines += figure_lines(figure, folder)
    return "\n".join(lines) + "\n"


def figure_lines(figure: Figure, folder: Path) -> list[str]:
    """One figure as Markdown."""
    lines = ["", f"### {figure.id}: {escape(figure.title)}", "", escape(figure.statement)]
    if "paper" in figure.skip:
        return [*lines, "", f"Not computed: {escape(figure.skip['paper'])}."]
    lines += ["", "```text", f"droptics reproduce {figure.id} --scale paper", "```"]
    facts = [escape(figure.takes.get("paper", ""))]
    if figure.needs:
        facts.append(f"Needs {', '.join(figure.needs)}.")
    if any(facts):
        lines += ["", " ".join(fact for fact in facts if fact)]
    picture = folder.parent / "images" / "gallery" / f"{figure.id}.png"
    if picture.exists():
        lines += ["", f"![{escape(figure.title)}](../images/gallery/{figure.id}.png)"]
    return lines


def benchmarks_page(results: Path) -> str:
    """The recorded measurements as tables, one section per file."""
    lines = [
        "# Benchmarks",
        "",
        "CPU seconds on one thread, both sides warmed up and run in turns; the ratio is the median of the ratios of "
        "the repeats, above 1 where droptics is faster and below 1 where it is slower. `make bench` measures them "
        "again.",
    ]
    for file in sorted(results.glob("*.json")):
        content = json.loads(file.read_text())
        title = TITLES.get(file.stem, file.stem.replace("_", " ").capitalize())
        lines += ["", f"## {title}", "", *section(content)]
    return "\n".join(lines) + "\n"


def section(content: Mapping[str, Any]) -> list[str]:
    """One result file as Markdown, whichever of the formats it has."""
    rows = content.get("rows")
    if rows is None:
        return accuracies(content)
    where = [content.get("device") or f"{content.get('machine', '')}, {content.get('cores', '?')} cores"]
    where += [f"{name} {version}" for name, version in content.get("versions", {}).items()]
    if "experiment" in content:
        return [escape(content["experiment"]), "", *last_steps(rows), "", f"Measured on: {escape(where[0])}."]
    body = comparisons(rows) if rows and "workload" in rows[0] else table(rows)
    return [*body, "", f"Measured on: {escape(', '.join(where))}."]


def comparisons(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows of ours against an alternative."""
    return table(
        {
            "workload": row["workload"],
            "droptics": seconds(row["ours"]),
            "alternative": seconds(row["alternative"]),
            "ratio": f"{row['ratio']:.3g}",
            "agreement of results": row["agreement"],
            "note": row.get("note", ""),
        }
        for row in rows
    )


def accuracies(content: Mapping[str, Any]) -> list[str]:
    """Entries "data / method / seed" with their errors, averaged over the seeds."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for key, entry in content.items():
        if isinstance(entry, Mapping) and "rmse" in entry and key.count(" / ") == 2:
            data, method, _ = key.split(" / ")
            groups[data, method].append(entry)
    return table(
        {
            "data": data,
            "method": method,
            "test RMSE": f"{mean(entry['rmse'] for entry in entries):.4f}",
            "test MAE": f"{mean(entry['mae'] for entry in entries):.4f}",
            "splits": len(entries),
        }
        for (data, method), entries in groups.items()
    )


def last_steps(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Accuracies of sub-networks at the last recorded step, averaged over the seeds."""
    last: dict[tuple[int, float, int], Mapping[str, Any]] = {}
    for row in sorted(rows, key=lambda row: row["step"]):
        last[row["width"], row["drop"], row["seed"]] = row
    groups: dict[tuple[int, float], list[Mapping[str, Any]]] = defaultdict(list)
    for (width, drop, _), row in sorted(last.items()):
        groups[width, drop].append(row)
    names = ("full", "visited", "unvisited")
    return table(
        {"width": width, "drop": drop, "seeds": len(found)}
        | {f"accuracy, {name}": f"{mean(row[name] for row in found):.4f}" for name in names}
        for (width, drop), found in groups.items()
    )


def table(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows as a Markdown table with the union of their columns; a column that is empty everywhere is left out."""
    found = list(rows)
    columns = [
        name
        for name in dict.fromkeys(name for row in found for name in row)
        if any(row.get(name, "") != "" for row in found)
    ]
    lines = ["| " + " | ".join(map(escape, columns)) + " |", "|" + "---|" * len(columns)]
    for row in found:
        cells = (escape(str(row.get(name, ""))).replace("|", "\\|") for name in columns)
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def seconds(value: float) -> str:
    """A time in a unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= size or unit == "µs":
            return f"{value / size:.3g} {unit}"
    return ""
