"""Pages that are written at build time: claims, errata, figures, the command line and the measured tables."""

from __future__ import annotations

import functools
import importlib
import inspect
import json
import pkgutil
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmark_page import benchmarks_page
from command_page import command_page
from example_pages import examples_page
from findings_page import findings_page
from graph_page import graph_page
from markup import escape, table
from robustness_page import robustness_page
from tried_page import tried_page
from typeset import typeset

from droptics.evidence.claims import Claim, Result
from droptics.evidence.figures import OWN, Figure, write_text
from droptics.evidence.pages import SOURCES, claims_page, errata_page
from droptics.papers import PAPERS, claims
from droptics.papers.printed import with_printed
from droptics.papers.summaries import summary_pages

RECORDED = (
    "# Claims\n\nThe verdicts on this page are those on record; `droptics verify` computes them again, compares and "
    "ends with an error where one differs. The tests do the same.\n"
)
OBJECT = re.compile(r"\{py:obj\}`~([\w.]+)`")
FIGURES = """# Figures and tables

Each is computed again by one command, `droptics reproduce <id>`; `--scale smoke` (the default) takes seconds and runs
in the tests, `--scale paper` is the real thing. A run leaves a table, a picture and a manifest that compares every
printed number or ordering with ours; a run that was killed resumes. `droptics reproduce --all` also builds a gallery to
browse. Pictures below are of paper scale, from the `results` folder, unless they say otherwise.
"""


def write_pages(folder: Path, root: Path) -> None:
    """Write all generated pages into a folder; `root` is the repository, with its results and benchmarks."""
    plain = [literal(claim) for claim in claims()]
    titles = {paper.key: escape(paper.citation) for paper in PAPERS if paper.key != "droptics"}
    pages = {f"short-{key}": text for key, text in summary_pages(plain, titles).items()} | {
        "claims": recorded_page(plain),
        "errata": errata_page(plain),
        "graph": graph_page(plain),
        "figures": figures_page(folder, root / "results"),
        "benchmarks": benchmarks_page(root / "benchmarks" / "results"),
        "robustness": robustness_page(root / "benchmarks" / "results"),
        "commands": command_page(),
        "findings": findings_page(),
        "examples": examples_page(folder, root / "examples"),
        "tried": tried_page(root / "results" / "tried.json"),
    }
    for name, text in pages.items():
        file = folder / f"{name}.md"
        # an unchanged file keeps its date, so that a second build has nothing to do
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            write_text(file, text)


def recorded_page(plain: Sequence[Claim]) -> str:
    """The table of claims; a work is cited once below its heading and not in each of its rows."""
    short = [replace(claim, source=claim.source.partition("), ")[2] or claim.source) for claim in plain]
    text = claims_page([Result(claim, claim.verdict) for claim in short]).replace("# Claims\n", RECORDED, 1)
    for paper in PAPERS:
        text = text.replace(f"\n## {paper.key}\n", f"\n## {paper.key}\n\n{escape(paper.citation)}\n", 1)
    return OBJECT.sub(lambda found: _linked(found.group(1), _documented()), text)


@functools.cache
def _documented() -> frozenset[str]:
    """Names that the pages of the API show: members of the modules that these list, and what they name one by one."""
    shown: set[str] = set()
    for page in sorted((Path(__file__).parent / "api").glob("*.md")):
        for module in re.findall(r"automodule:: (\S+)", text := page.read_text(encoding="utf-8")):
            room = importlib.import_module(module)
            shown |= {f"{module}.{name}" for name in getattr(room, "__all__", vars(room))}
        shown |= set(re.findall(r"auto(?:class|function):: (\S+)", text))
    return frozenset(shown)


def _linked(name: str, shown: Collection[str]) -> str:
    """A function with a link: to the API, under the name of its room where it has one, or to a line of the sources."""
    whole, _, last = name.rpartition(".")
    if name in shown or whole in shown:  # a method has its place below its class
        return f"{{py:obj}}`~{name}`"
    found = pkgutil.resolve_name(name)
    public = f"{'.'.join(name.split('.')[:2])}.{last}"
    if public in shown and pkgutil.resolve_name(public) is found:
        return f"{{py:obj}}`~{public}`"
    found = inspect.unwrap(found)
    place = Path(inspect.getsourcefile(found) or "").as_posix().rpartition("/droptics/")[2]
    return f"[`{last}`]({SOURCES.removesuffix('/papers')}/{place}#L{inspect.getsourcelines(found)[1]})"


def literal(claim: Claim) -> Claim:
    """The claim with texts that Markdown shows as they are, formulas typeset."""
    erratum = claim.erratum and replace(
        claim.erratum, reading=typeset(claim.erratum.reading), wrong=typeset(claim.erratum.wrong)
    )
    return replace(
        claim,
        source=escape(claim.source),
        statement=typeset(claim.statement),
        note=typeset(claim.note),
        erratum=erratum,
    )


def figures_page(folder: Path, results: Path) -> str:
    """Every figure and table of the works: what it shows, how it came out, the command, and the picture."""
    lines = [FIGURES]
    for paper in PAPERS:
        if paper.figures:
            lines += ["", f"## {paper.name}", "", escape(paper.citation)]
        for figure in paper.figures:
            lines += figure_lines(with_printed(figure), folder, results / figure.id)
    return "\n".join(lines) + "\n"


def figure_lines(figure: Figure, folder: Path, results: Path) -> list[str]:
    """One figure as Markdown."""
    lines = ["", f"### {figure.id}: {escape(figure.title)}", "", escape(figure.statement)]
    if "paper" in figure.skip:
        return [*lines, "", f"Not computed: {escape(figure.skip['paper'])}."]
    manifest = results / "manifest.json"
    if manifest.exists():
        lines += ["", *outcome(json.loads(manifest.read_text(encoding="utf-8")))]
        if figure.departures:
            lines += ["", "Where the protocol departs from the print, or chooses where it is silent:", ""]
            lines += [f"- {escape(words)}" for words in figure.departures]
    else:
        needs = f" It needs {', '.join(figure.needs)}." if figure.needs else ""
        lines += ["", f"**Not run at paper scale yet.** {escape(figure.takes.get('paper', ''))}{needs}"]
    picture = results / "figure.png"
    if picture.exists():
        target = folder / "pictures" / f"{figure.id}.png"
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, target)
        lines += ["", f"![{escape(figure.title)}](pictures/{figure.id}.png)"]
    lines += investigated(figure.id, results.parent / "investigations.json")
    return [*lines, "", "```text", f"droptics reproduce {figure.id} --scale paper", "```"]


def investigated(name: str, record: Path) -> list[str]:
    """What `benchmarks/investigate.py` found about the choices that the print leaves open."""
    known = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    lines = []
    for found in (part for key, part in known.items() if key.partition(", ")[0] == name):
        question = found["question"][:1].upper() + found["question"][1:]
        rows = [
            {key: f"{cell:.3g}" if isinstance(cell, float) else cell for key, cell in row.items()}
            for row in found["rows"]
        ]
        lines += ["", f"{escape(question)} (`benchmarks/investigate.py`)", "", *table(rows)]
    return lines


def outcome(manifest: Mapping[str, Any]) -> list[str]:
    """How the comparisons with the printed numbers came out, what it took, and what did not hold."""
    apart = [found for found in manifest["comparisons"] if found.get("printed", "").startswith(OWN)]
    compared = [found for found in manifest["comparisons"] if found not in apart]
    held = sum(found["holds"] is True for found in compared)
    hardware = manifest["hardware"]
    verdict = manifest["outcome"][:1].upper() + manifest["outcome"][1:]
    where = hardware.get("gpu") or f"{hardware.get('cores')} cores ({hardware.get('machine')})"
    ran = f"{count(manifest['cells'], 'cell')}, {spent(manifest['seconds'])} on {escape(str(where))}."
    if not compared:
        reason = manifest.get("skipped") or "nothing to compare"
        return [f"**{escape(verdict)}**: {escape(reason)}. {ran}"]
    lines = [f"**{escape(verdict)}**: {held} of {count(len(compared), 'comparison')} with the print hold. {ran}"]
    lines += _listed([found for found in compared if found["holds"] is not True])
    absent = manifest.get("missing")
    if absent:
        lines += ["", f"Not computed: {escape(', '.join(absent))}."]
    if apart:
        good = sum(found["holds"] is True for found in apart)
        lines += ["", f"Of {count(len(apart), 'comparison')} of our own, not printed and not counted, {good} hold."]
        lines += _listed([found for found in apart if found["holds"] is not True])
    return lines


def _listed(comparisons: Sequence[Mapping[str, Any]]) -> list[str]:
    lines = [""] if comparisons else []
    for found in comparisons:
        note = f": {escape(found['note'])}" if found.get("note") else ""
        lines.append(f"- {escape(found['label'])} ({escape(str(found['outcome']))}){note}")
    return lines


def count(number: int, noun: str) -> str:
    """A number with its noun."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def spent(seconds: float) -> str:
    """A duration in words."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
