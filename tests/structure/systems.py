"""Tests say which system they need: what is written for POSIX or Linux alone carries a mark of `support/systems.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# what Windows lacks, or gives to administrators only
POSIX = {"SIGKILL", "SIGSTOP", "killpg", "mkfifo", "setrlimit", "umask", "symlink_to", "fork", "preexec_fn"}
MODULES = {"resource", "fcntl", "pty", "pwd", "termios"}
FILES = ("/proc/", "/dev/")
MARKS = {"posix", "linux", "skipif"}


def unmarked(text: str) -> Iterator[str]:
    """Test functions that need more than they say, and imports that fail where a module is missing."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import) and (missing := MODULES & {alias.name for alias in node.names}):
            yield f"import {missing.pop()}"
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = {name for mark in node.decorator_list for name in _names(mark)}
            needs = set() if MARKS & marks else _needs(node)
            yield from [f"{node.name}: {', '.join(sorted(needs))}"] if needs else []


def _needs(function: ast.FunctionDef) -> set[str]:
    found = POSIX & set(_names(function))
    texts = [
        node.value for node in ast.walk(function) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return found | {name for name in FILES for text in texts if text.startswith(name)}


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg


def readers(folder: Path) -> list[str]:
    """Every such place in the tests of a folder and their helpers."""
    files = [*folder.rglob("test_*.py"), *(folder / "support").glob("*.py")]
    return [f"{file.name}: {found}" for file in sorted(files) for found in unmarked(file.read_text(encoding="utf-8"))]
