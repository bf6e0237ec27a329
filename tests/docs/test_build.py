"""The documentation builds without a warning, and the pages that are generated hold what the registries hold."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from typer.main import get_command

import droptics
from droptics.cli.app import app
from droptics.papers import claims, figures

ROOT = Path(__file__).parents[2]
PAGES = (
    *("index", "quickstart", "idea", "choose", "notation", "need", "policy", "extend", "audit", "bounds", "api"),
    *("changelog", "cite", "rates", "recipes", "names", "checklists", "coming/index"),
)
ROOMS = (
    "penalties",
    "optima",
    "landscapes",
    "relu",
    "layers",
    "training",
    "recommenders",
    "attacks",
    "coadaptation",
)
GENERATED = (
    *(f"short-{work}" for work in ("mianjy2018", "thesis", "pal2020", "helmbold2017")),
    "claims",
    "graph",
    "errata",
    "figures",
    "benchmarks",
    "commands",
    "examples",
    "findings",
    "tried",
)


def built(folder):
    """A strict build from a copy of the sources, so that the working tree stays as it is."""
    pytest.importorskip("sphinx", reason="pages are built by Sphinx, which comes with the extra docs")
    shutil.copytree(ROOT / "docs", folder / "docs", ignore=shutil.ignore_patterns("_build", "generated"))
    for name in ("benchmarks", "examples", "results"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.tmp"))
    for name in ("CHANGELOG.md", "CITATION.cff"):
        shutil.copy(ROOT / name, folder)
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", "html"]
    done = subprocess.run(build, check=False, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


def check_pages(site):
    names = [*PAGES, *(f"rooms/{name}" for name in ROOMS), *(f"generated/{name}" for name in GENERATED)]
    missing = [name for name in names if not (site / "html" / f"{name}.html").is_file()]
    assert not missing


def check_short_list(site):
    """`llms.txt` names every page but the first."""
    text = (site / "html" / "llms.txt").read_text()
    assert text.startswith("# droptics\n")
    linked = set(re.findall(r"\]\((.+?)\)", text))
    pages = {path.relative_to(site / "docs").with_suffix(".html").as_posix() for path in (site / "docs").rglob("*.md")}
    assert linked == pages - {"index.html"}


def check_claims(site):
    text = (site / "docs" / "generated" / "claims.md").read_text()
    rows = {line.split("`")[1]: line for line in text.splitlines() if line.startswith("| <a id=")}
    for claim in claims():
        assert f"`<br>**{claim.verdict}**<br>" in rows[claim.id]


def check_errata_and_figures(site):
    errata = (site / "docs" / "generated" / "errata.md").read_text()
    assert sorted(line[4:] for line in errata.splitlines() if line.startswith("### ")) == sorted(
        claim.id for claim in claims() if claim.erratum
    )
    pictures = (site / "docs" / "generated" / "figures.md").read_text()
    for figure in figures():
        assert f"### {figure.id}: " in pictures
        assert ("paper" in figure.skip) != (f"droptics reproduce {figure.id} --scale paper" in pictures)


def check_measurements(site):
    text = (site / "docs" / "generated" / "benchmarks.md").read_text()
    files = [file for file in sorted((site / "benchmarks" / "results").glob("*.json")) if "ceilings" not in file.stem]
    sections = sum(line.startswith("### ") for line in text.splitlines())
    assert sections == len(files) + 3  # what is short, what is below half of its floor, and what floors count
    compared = [row for file in files for row in json.loads(file.read_text()).get("rows", []) if row.get("ratio")]
    assert compared
    shown = [f"| {row['ratio']:.2f}" if "question" in row else f"| {row['ratio']:.3g} |" for row in compared]
    assert all(cell in text for cell in shown)


def check_commands(site):
    """Every command and every option that `--help` names is on the page."""
    text = (site / "docs" / "generated" / "commands.md").read_text()
    for name, command in get_command(app).commands.items():
        assert f"\n## {name}\n" in text
        for parameter in command.params:
            assert all(f"{option}" in text for option in parameter.opts if option.startswith("--"))


def check_pictures(site):
    """A figure that was run at paper scale shows that picture, and no picture is missing."""
    drawn = [(figure.id, site / "results" / figure.id / "figure.png") for figure in figures()]
    assert any(picture.exists() for _, picture in drawn)
    for name, picture in drawn:
        if picture.exists():
            shown = site / "docs" / "generated" / "pictures" / f"{name}.png"
            assert shown.read_bytes() == picture.read_bytes()


def check_reference(site):
    text = "".join(page.read_text() for page in (site / "html" / "api").glob("*.html"))
    documented = {name.rpartition(".")[2] for name in re.findall(r'id="droptics\.([\w.]+)"', text)}
    things = {name: getattr(droptics, name) for name in droptics._SPELLINGS}
    wanted = {name for name, thing in things.items() if not isinstance(thing, (str, ModuleType))}
    assert not wanted - documented


@pytest.mark.slow
def test_the_site_builds_without_a_warning_and_is_complete(tmp_path):
    """One test, so that workers do not build the site several times."""
    site = built(tmp_path)
    check_pages(site)
    check_short_list(site)
    check_claims(site)
    check_errata_and_figures(site)
    check_measurements(site)
    check_commands(site)
    check_pictures(site)
    check_reference(site)
