"""Every public name is in use somewhere: in a block of a page, which the tests run, or in an example."""

import re
from pathlib import Path

import droptics
from run_pages import BLOCK

ROOT = Path(__file__).parents[2]
PAGES = [page for page in sorted((ROOT / "docs").rglob("*.md")) if not {"generated", "_build"} & set(page.parts)]


def unused(names, code):
    """Names that no code spells."""
    return sorted(set(names) - set(re.findall(r"\w+", code)))


def test_every_public_name_is_in_use():
    blocks = [code for page in PAGES for code, _ in BLOCK.findall(page.read_text(encoding="utf-8"))]
    examples = [path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")]
    assert unused(droptics._SPELLINGS, "\n".join(blocks + examples)) == []


def test_a_name_out_of_use_is_found():
    assert unused(["penalty", "optimum"], "penalty_of(optimum)") == ["penalty"]
