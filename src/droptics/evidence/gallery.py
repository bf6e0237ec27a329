"""The gallery: one static, self-contained HTML site of figures and claims.

It works from a file path, on a phone and without JavaScript; the filters of the claims table are an extra.
"""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from droptics.evidence.claims import REFUTED, VERDICTS, Result
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
    pictures = {artifact.figure.id: _copied(artifact, folder) for artifact in artifacts}
    present = {item.figure.paper for item in artifacts} | {item.claim.paper for item in results}
    shown = [work for work in works if work.key in present]
    cards = {work.key: [item for item in artifacts if item.figure.paper == work.key] for work in shown}
    rows = {work.key: [item for item in results if item.claim.paper == work.key] for work in shown}
    pages = [{"file": "index.html", "name": "Figures"}]
    if results:
        pages += [{"file": "claims.html", "name": "Claims"}, {"file": "errata.html", "name": "Errata"}]
    pages += [{"file": f"{work.key}.html", "name": work.name} for work in shown]
    write = _writer(folder, pages, pictures)
    groups = [(work.name, cards[work.key]) for work in shown if cards[work.key]]
    title = "What the papers show, again"
    write("index.html", "index.html.j2", title, groups=groups, summary=_figures_said(artifacts))
    if results:
        used = [name for name in (*VERDICTS, "undecided", "error") if any(item.verdict == name for item in results)]
        found = {"rows": results, "papers": [work.key for work in shown], "verdicts": used}
        write("claims.html", "claims.html.j2", "Claims", summary=_claims_said(results), **found)
        wrong = [item.claim for item in results if item.claim.erratum is not None]
        wrong.sort(key=lambda claim: VERDICTS.index(claim.verdict))
        statements = {item.claim.id: item.claim.statement for item in results}
        write("errata.html", "errata.html.j2", "Errata", claims=wrong, statements=statements)
    for work in shown:
        own, mine = cards[work.key], rows[work.key]
        words = f"{_figures_said(own)} {_claims_said(mine)}".strip()
        page = f"{work.key}.html"
        write(page, "paper.html.j2", work.name, rows=mine, cards=own, citation=work.citation, summary=words)
    return folder / "index.html"


def _writer(folder: Path, pages: Sequence[Mapping[str, str]], pictures: Mapping[str, Any]) -> Callable[..., None]:
    """What writes a page: of its file, its template, its title and the values that the template asks for."""
    loader = PackageLoader("droptics.evidence")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    style = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    environment.globals |= {"pages": pages, "pictures": pictures, "style": style, "signs": SIGNS, "meanings": REFUTED}
    environment.globals |= {"made": versions() | hardware() | {"commit": commit()}, "mathml": mathml}
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    environment.globals |= {"date": date, "shown_output": shown_output}

    def write(file: str, template: str, title: str, **values: Any) -> None:
        page = environment.get_template(template)
        write_text(folder / file, page.render(title=title, current=file, **values))

    return write


def _copied(artifact: Artifact, folder: Path) -> tuple[str, int, int] | None:
    """The picture beside the pages, with its width and height."""
    if artifact.skipped or not artifact.picture.exists():
        return None
    image = f"images/{artifact.figure.id}.png"
    shutil.copyfile(artifact.picture, folder / image)
    return image, *png_size(artifact.picture)


def _figures_said(artifacts: Sequence[Artifact]) -> str:
    if not artifacts:
        return ""
    counts = Counter(artifact.outcome for artifact in artifacts)
    words = ", ".join(f"{name} {count}" for name, count in counts.items())
    return f"{len(artifacts)} figures and tables: {words}."


def _claims_said(results: Sequence[Result]) -> str:
    return said([result.verdict for result in results]) if results else ""


def png_size(path: Path) -> tuple[int, int]:
    """Width and height of a PNG file, so that a page does not jump while its images load."""
    with path.open("rb") as file:
        width, height = struct.unpack(">II", file.read(24)[16:])
    return int(width), int(height)
