"""Notebooks are the examples: the same code in the same order, without the arguments of a command line."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture(scope="module")
def notebook():
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from example_pages import notebook
    finally:
        sys.path.remove(str(ROOT / "docs"))
    return notebook


def _statements(code):
    return [ast.unparse(node) for node in ast.parse(code).body if not isinstance(node, ast.Expr | ast.Import)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_a_notebook_is_its_example(path, notebook):
    found = notebook(path.read_text())
    assert (found["nbformat"], found["cells"][0]["cell_type"]) == (4, "markdown")
    code = "\n".join("".join(cell["source"]) for cell in found["cells"] if cell["cell_type"] == "code")
    assert "sys.argv" not in code
    given, kept = _statements(path.read_text()), _statements(code)
    assert len(given) == len(kept)
    assert all(one == other for one, other in zip(given, kept, strict=True) if "sys.argv" not in one)
