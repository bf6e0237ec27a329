"""Tests say which system they need: what is written for POSIX or Linux alone carries a mark of `support/systems.py`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

# what Windows lacks, or gives to administrators only
POSIX = {"SIGKILL", "SIGSTOP", "SIGALRM", "killpg", "mkfifo", "setrlimit", "umask", "symlink_to", "fork", "preexec_fn"}
POSIX |= {"send_signal"}  # an interrupt cannot be sent there
MODULES = {"resource", "fcntl", "pty", "pwd", "termios"}
FILES = ("/proc/", "/dev/")
LINUX = ("/proc/", "/dev/full")  # macOS lacks these as well
MARKS = {"posix", "linux", "skipif"}


def unmarked(text: str) -> Iterator[str]:
    """Test functions that need more than they say, and imports that fail where a module is missing."""
    tree = ast.parse(text)
    shared = {name for node in tree.body if isinstance(node, ast.Assign) for name in _marking(node)}
    for node in tree.body:
        if isinstance(node, ast.Import) and (missing := MODULES & {alias.name for alias in node.names}):
            yield f"import {missing.pop()}"
        elif isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            marks = shared | {name for mark in node.decorator_list for name in _names(mark)}
            needs = set() if MARKS & marks else _needs(node)
            needs |= _files(node, LINUX) if MARKS & marks == {"posix"} else set()
            yield from [f"{node.name}: {', '.join(sorted(needs))}"] if needs else []


def _marking(node: ast.Assign) -> Iterator[str]:
    """Names in the marks of a whole file."""
    if any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in node.targets):
        yield from _names(node.value)


def _needs(function: ast.FunctionDef) -> set[str]:
    return (POSIX & set(_names(function))) | _files(function, FILES)


def _files(tree: ast.AST, wanted: tuple[str, ...]) -> set[str]:
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return {name for name in wanted for text in texts if text.startswith(name)}


def cases(text: str) -> Iterator[str]:
    """Rows of the tables at the head of a test file that name a file of one system and carry no mark."""
    for table in ast.parse(text).body:
        if isinstance(table, ast.Assign) and isinstance(table.value, ast.List):
            rows = [row for row in table.value.elts if not MARKS & set(_names(row))]
            yield from (f"{ast.unparse(row)[:60]}" for row in rows if _files(row, FILES))


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, ast.keyword) and node.arg:
            yield node.arg


def readers(folder: Path) -> list[str]:
    """Every such place in the files of a folder: pytest imports all of them, to look for doctests."""
    texts = {file: file.read_text(encoding="utf-8") for file in sorted(folder.rglob("*.py"))}
    return [f"{file.name}: {found}" for file in texts for found in (*unmarked(texts[file]), *cases(texts[file]))]
