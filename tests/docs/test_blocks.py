"""Every Python block of the README and the docs runs, and what it prints is what the page says."""

import contextlib
import io
import math
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not {"generated", "_build"} & set(page.parts)),
]
BLOCK = re.compile(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", re.DOTALL)


def test_there_are_blocks_to_run():
    assert BLOCK.search((ROOT / "README.md").read_text())


def same(printed: str, written: str) -> bool:
    """Words as they are; numbers but for the last digits, which processors round differently."""
    try:
        return math.isclose(float(printed), float(written), rel_tol=1e-12)
    except ValueError:
        return printed == written


def test_numbers_may_differ_in_their_last_digits_only():
    assert same("5.3333333333333295", "5.333333333333333")
    assert not same("5.33333", "5.33334")
    assert not same("exact", "Monte")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_run_in_order(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for code, output in BLOCK.findall(page.read_text()):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, str(page), "exec"), names)
        if output:
            found, wanted = printed.getvalue().split(), output.split()
            assert [word for pair in zip(found, wanted, strict=True) if not same(*pair) for word in pair] == []
