"""The demo's HTML page: sections in, one self-contained file out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, PackageLoader

from droptics.files import write_text


@dataclass(frozen=True)
class Slider:
    """Answers at many rates, one of which a reader chooses; the page holds all of them as a table too."""

    rates: Sequence[float]  # the rates, in order
    series: Mapping[str, Sequence[float]]  # one value per rate by name; bars show them on one scale
    notes: Sequence[str]  # one sentence per rate
    start: int  # which rate is shown first

    def as_dict(self) -> dict[str, object]:
        """What the page's script reads."""
        rounded = {name: [float(f"{value:.6g}") for value in values] for name, values in self.series.items()}
        return {"rates": list(self.rates), "series": rounded, "notes": list(self.notes)}


@dataclass(frozen=True)
class Picture:
    """A caption, an embedded image (a data URI), and what the image shows, for those who cannot see it."""

    caption: str
    image: str
    text: str


@dataclass(frozen=True)
class Section:
    """One part of the demo."""

    title: str  # what was asked
    lines: Sequence[str]  # the answer in a few lines, for terminal and page alike
    pictures: Sequence[Picture] = ()  # images with captions and words
    links: Sequence[tuple[str, str]] = field(default=())  # texts and addresses of further pages, relative to this one
    command: str = ""  # what to type for the same question about a model or data of one's own
    slider: Slider | None = None  # answers at many rates, to be slid over
    code: str = ""  # the source of what computed the section; `droptics demo` fills it in


def write_page(sections: Sequence[Section], folder: Path) -> Path:
    """Render the sections to folder/index.html, replacing an older page atomically; returns its absolute path."""
    environment = Environment(loader=PackageLoader("droptics.cli"), autoescape=True, trim_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"sort_keys": False}  # series stay in their order
    page = environment.get_template("demo.html.j2").render(sections=sections, version=version("droptics"))
    target = folder / "index.html"
    write_text(target, page)
    return target.resolve()
