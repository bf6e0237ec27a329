"""How many parameters a function has, and whether it may.

Six are as many as a caller keeps apart; a seventh is an option object, or has a reason beside it: a comment
`# parameters: ...` in the line of `def` or the one above. Not counted are

- kernels, functions that numba or Triton compiles: they take pointers, strides and sizes one by one. Twenty are a
  struct, or have a reason;
- functions of the command line, whose parameters are its options;
- constructors of classes whose docstring names every parameter: these are the option objects;
- cells of figures, functions of papers/ that take keywords only: their parameters are columns of the table.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

MOST, MOST_OF_A_KERNEL = 6, 20
REASON = re.compile(r"# parameters: \S")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def crowded(package: Path) -> list[str]:
    """Every function with more parameters than it may have, and every reason that none is needed for."""
    found = []
    for path in sorted(package.rglob("*.py")):
        place, text = path.relative_to(package), path.read_text(encoding="utf-8")
        if place.parts[0] == "cli":
            continue
        tree, lines = ast.parse(text), text.splitlines()
        kernels = set(_kernels(tree))
        for function, holder in _functions(tree):
            count = len(_parameters(function))
            most = MOST_OF_A_KERNEL if function.name in kernels else MOST
            explained = any(REASON.search(lines[at]) for at in (function.lineno - 1, function.lineno - 2))
            free = _is_option_object(function, holder) or (place.parts[0] == "papers" and _is_cell(function))
            if count > most and not explained and not free:
                found.append(f"{place}:{function.lineno} {function.name} has {count} parameters")
            if explained and (count <= most or free):
                found.append(f"{place}:{function.lineno} {function.name} needs no reason for {count} parameters")
    return found


def _functions(tree: ast.Module) -> Iterator[tuple[Function, ast.ClassDef | None]]:
    holders = {id(part): node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) for part in node.body}
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node, holders.get(id(node))


def _parameters(function: Function) -> list[str]:
    arguments = function.args
    names = [item.arg for item in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return names[1:] if names[:1] in (["self"], ["cls"]) else names


def _kernels(tree: ast.Module) -> Iterator[str]:
    """Names of functions with a decorator `njit`, or given to `jit`."""
    for node in ast.walk(tree):
        if isinstance(node, Function) and any("njit" in ast.unparse(mark) for mark in node.decorator_list):
            yield node.name
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "jit":
            yield from (argument.id for argument in node.args if isinstance(argument, ast.Name))


def _is_option_object(function: Function, holder: ast.ClassDef | None) -> bool:
    if holder is None or function.name != "__init__":
        return False
    text = ast.get_docstring(holder) or ""
    return all(re.search(rf"\b{name}\b", text) for name in _parameters(function))


def _is_cell(function: Function) -> bool:
    return not (function.args.posonlyargs or function.args.args)
