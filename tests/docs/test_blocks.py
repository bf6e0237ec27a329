"""Every Python block of the README and the docs runs, and what it prints is what the page says."""

from pathlib import Path

import pytest

from run_pages import BLOCK, differences, same

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not {"generated", "_build"} & set(page.parts)),
]


def test_there_are_blocks_to_run():
    assert BLOCK.search((ROOT / "README.md").read_text(encoding="utf-8"))


def test_numbers_may_differ_in_their_last_digits_only():
    assert same("5.3333333333333295", "5.333333333333333")
    assert not same("5.33333", "5.33334")
    assert not same("exact", "Monte")
    assert not same("exact", None)


def test_a_page_that_says_otherwise_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```python\nx = 2\n```\nand\n```python\nprint(x, 'more')\n```\n\n```text\n3\n```\n")
    assert differences(page) == ["2 for 3", "more for None"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert differences(page) == []
