"""Text files are read and written as UTF-8 wherever the program runs: the default of Windows is another."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

METHODS = {"read_text", "write_text"}


def unsaid(text: str) -> Iterator[int]:
    """Lines that open a text file and name no encoding."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and not any(word.arg in ("encoding", None) for word in node.keywords):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if (name in METHODS and isinstance(node.func, ast.Attribute)) or (name == "open" and _is_text(node)):
                yield node.lineno


def _is_text(call: ast.Call) -> bool:
    """Whether open(path) or path.open() opens text; open of an archive or a device has other arguments."""
    place = 0 if isinstance(call.func, ast.Attribute) else 1
    given = [word.value for word in call.keywords if word.arg == "mode"] + call.args[place : place + 1]
    modes = [value.value for value in given if isinstance(value, ast.Constant) and isinstance(value.value, str)]
    return bool(modes) and "b" not in modes[0] and set(modes[0]) <= set("rwax+t")


def readers(folder: Path) -> list[str]:
    """Every such line of a folder."""
    files = sorted(folder.rglob("*.py"))
    return [f"{file.name}:{line}" for file in files for line in unsaid(file.read_text(encoding="utf-8"))]
