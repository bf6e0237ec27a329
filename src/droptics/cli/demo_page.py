"""The demo's HTML page: sections in, one self-contained file out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jinja2 import Environment, PackageLoader

from droptics.files import write_text


@dataclass(frozen=True)
class Section:
    """One part of the demo.

    Attributes:
        title: What was asked.
        lines: The answer in a few lines, for terminal and page alike.
        pictures: Captions and embedded images (data URIs).
        links: Texts and addresses of further pages, relative to this one.
    """

    title: str
    lines: Sequence[str]
    pictures: Sequence[tuple[str, str]] = ()
    links: Sequence[tuple[str, str]] = field(default=())


def write_page(sections: Sequence[Section], folder: Path) -> Path:
    """Render the sections to folder/index.html, replacing an older page atomically; returns its absolute path."""
    environment = Environment(loader=PackageLoader("droptics.cli"), autoescape=True, trim_blocks=True)
    page = environment.get_template("demo.html.j2").render(sections=sections)
    target = folder / "index.html"
    write_text(target, page)
    return target.resolve()
