"""Every example as a page's section and as a notebook that opens and runs as it is."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

from markup import escape

INTRODUCTION = """# Examples

One short script a question. Each runs without data and without a network in seconds, the audit of a convolutional
network in a minute or two of one core, as a script or as a notebook.
"""
ARGUMENT = re.compile(r'sys\.argv\[\d\] if len\(sys\.argv\) > \d else (".*?")')


def examples_page(folder: Path, examples: Path) -> str:
    """The page of all examples; writes scripts and notebooks beside it."""
    lines = [INTRODUCTION]
    place = folder / "examples"
    place.mkdir(parents=True, exist_ok=True)
    for script in sorted(examples.glob("*.py")):
        text = script.read_text(encoding="utf-8")
        title, _, _ = (ast.get_docstring(ast.parse(text)) or "").partition("\n")
        name, _, question = title.partition(": ")
        (place / script.name).write_text(text, encoding="utf-8")
        cells = json.dumps(notebook(text), indent=1, ensure_ascii=False) + "\n"
        (place / f"{script.stem}.ipynb").write_text(cells, encoding="utf-8")
        question = question[:1].upper() + question[1:]
        lines += [
            "",
            f"## {escape(name.rstrip('.'))}",
            "",
            escape(question),
            "",
            "```{literalinclude} examples/" + script.name,
        ]
        lines += [":language: python", "```", ""]
        files = {"notebook": f"{script.stem}.ipynb", "script": script.name}
        lines += [", ".join(f"{{download}}`{kind} <examples/{file}>`" for kind, file in files.items())]
    return "\n".join(lines) + "\n"


def notebook(script: str) -> dict[str, Any]:
    """A script as a notebook: its text first, then a cell for each part; a notebook has no arguments."""
    tree = ast.parse(script)
    told = ast.get_docstring(tree) or ""
    code = ARGUMENT.sub(r"\1", "\n".join(script.splitlines()[tree.body[0].end_lineno :]))
    if "sys." not in code:
        code = code.replace("import sys\n", "", 1)
    head, _, rest = told.partition("\n")
    cells = [_cell("markdown", f"# {head}\n{rest}")]
    parts = re.split(r"\n\n+(?=#|from droptics|torch\.manual_seed)", code.strip("\n"))
    cells += [_cell("code", part) for part in parts]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cell(kind: str, text: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})
