"""Mutants of a module: where it can be changed, and how a changed module takes the place of the one in memory."""

from __future__ import annotations

import ast
import functools
import gc
import importlib.abc
import importlib.machinery
import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from numba.core.caching import NullCache
from numba.core.dispatcher import Dispatcher

from droptics.compiling import Loop

ROOT = Path(__file__).resolve().parent.parent
# Triton reads its programs from the files, and only a GPU runs them: tests/gpu compares them with the CPU
MODULES = {
    ".".join(path.relative_to(ROOT / "src").with_suffix("").parts): path
    for path in sorted((ROOT / "src" / "droptics").rglob("[!_]*.py"))
    if not path.name.startswith("triton")
}
SOURCES = {name: path.read_text() for name, path in MODULES.items()}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Pow: ast.Mult,
    ast.MatMult: ast.Mult,
}
COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
# functions of which swapped arguments give the same, or nothing at all
UNSWAPPED = {"max", "min", "maximum", "minimum", "hypot", "isinstance", "issubclass"}


def room(module: str) -> str:
    """The room of a module; files beside the rooms are the ground floor."""
    parts = module.split(".")
    return parts[1] if len(parts) > 2 else "ground floor"


@dataclass(frozen=True)
class Defect:
    """A deliberate mistake: a piece of text that stands once in a module, and what stands there instead."""

    module: str
    old: str
    new: str
    name: str

    @property
    def stands(self) -> bool:
        """Whether the text still stands there; the code may have changed since the mistake was written."""
        return SOURCES.get(self.module, "").count(self.old) == 1

    @functools.cached_property
    def lines(self) -> range:
        before = SOURCES[self.module].split(self.old)
        assert self.stands, f"{self.module} holds {self.old!r} {len(before) - 1} times"
        assert self.old.count("\n") == self.new.count("\n"), f"{self.name} moves the lines after it"
        start = before[0].count("\n") + 1
        inside = (node for node in ast.walk(ast.parse(SOURCES[self.module])) if isinstance(node, ast.stmt))
        holding = [node for node in inside if node.lineno <= start <= (node.end_lineno or 0)]
        return range(holding[-1].lineno, start + self.old.count("\n") + 1)

    def tree(self) -> ast.Module:
        """The module with the mistake."""
        return ast.parse(SOURCES[self.module].replace(self.old, self.new))


@dataclass(frozen=True)
class Mutant:
    """One changed place of a module: the way to it in the tree, and which of its variants is meant.

    `lines` are those of its statement, None for what runs at import.
    """

    module: str
    path: tuple[str | int, ...]
    variant: int
    lines: range | None
    name: str

    def tree(self) -> ast.Module:
        """The module with the change; without one when the path is empty."""
        tree = ast.parse(SOURCES[self.module])
        if not self.path:
            return tree
        parent: Any = tree
        for step in self.path[:-1]:
            parent = parent[step] if isinstance(step, int) else getattr(parent, step)
        last = self.path[-1]
        node = parent[last] if isinstance(last, int) else getattr(parent, str(last))
        changed = ast.copy_location(list(_variants(node))[self.variant], node)
        if isinstance(last, int):
            parent[last] = changed
        else:
            setattr(parent, last, changed)
        return ast.fix_missing_locations(tree)


Place = tuple[ast.AST, tuple[str | int, ...], range | None]


def _places(
    node: ast.AST, path: tuple[str | int, ...] = (), within: bool = False, lines: range = range(0)
) -> Iterator[Place]:
    """Every expression that computes something, with the way to it from the root; no types, messages, decorators."""
    if isinstance(node, ast.stmt):
        body = getattr(node, "body", None) or getattr(node, "cases", None)
        end = getattr(body[0], "lineno", node.lineno + 1) - 1 if body else node.end_lineno or node.lineno
        lines = range(node.lineno, max(end, node.lineno) + 1)
    yield node, path, lines if within else None
    for part, value in ast.iter_fields(node):
        if part in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        if isinstance(node, ast.keyword) and node.arg == "strict":  # lengths that are equal
            continue
        inner = within or (isinstance(node, ast.FunctionDef) and part == "body")
        for index, child in enumerate(value) if isinstance(value, list) else [(-1, value)]:
            if isinstance(child, ast.AST) and not isinstance(child, (ast.Raise, ast.JoinedStr, ast.ImportFrom)):
                yield from _places(child, (*path, part, index) if index >= 0 else (*path, part), inner, lines)


def _variants(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BinOp(left, op, right):
            if type(op) in OPERATORS:
                yield ast.BinOp(left, OPERATORS[type(op)](), right)
            if isinstance(op, (ast.Add, ast.Sub)):
                yield left
                yield right
        case ast.Compare(left, [op], right):
            for other in COMPARISONS[type(op)]:
                yield ast.Compare(left, [other()], right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.Constant(value) if isinstance(value, (int, float)) and not isinstance(value, bool):
            yield ast.Constant(value + 1 if isinstance(value, int) else 2 * value + (value == 0))
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Call(
            function, [ast.Name() | ast.Attribute() as one, ast.Name() | ast.Attribute() as other, *rest], named
        ):
            if ast.unparse(function).split(".")[-1] not in UNSWAPPED and ast.dump(one) != ast.dump(other):
                yield ast.Call(function, [other, one, *rest], named)
        case ast.Return(value) if value is not None and not isinstance(value, ast.Constant):
            yield ast.Return(ast.Constant(None))
        case ast.Expr(ast.Call()):
            yield ast.Pass()


def mutants(module: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of the source."""
    for node, path, lines in _places(ast.parse(SOURCES[module])):
        for number, variant in enumerate(_variants(node)):
            place = f"{getattr(node, 'lineno', 0)}:{getattr(node, 'col_offset', 0)}"
            old = "return ..." if isinstance(node, ast.Return) else ast.unparse(node)
            yield Mutant(module, path, number, lines, f"{place}: {old}  ->  {ast.unparse(variant)}")


class Changed(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a given tree and leaves all others to the usual import."""

    def __init__(self, name: str, tree: ast.Module) -> None:
        self.name, self.path, self.tree = name, str(MODULES[name]), tree

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return (
            importlib.util.spec_from_file_location(fullname, self.path, loader=self) if fullname == self.name else None
        )

    def exec_module(self, module: ModuleType) -> None:
        exec(compile(self.tree, self.path, "exec"), module.__dict__)


def live_functions() -> dict[str, list[FunctionType]]:
    """The functions of every module, wherever they are used."""
    names = {str(path): name for name, path in MODULES.items()}
    found: dict[str, list[FunctionType]] = {name: [] for name in MODULES}
    for value in gc.get_objects():
        if type(value) is FunctionType and value.__code__.co_filename in names and value.__name__ != "<lambda>":
            found[names[value.__code__.co_filename]].append(value)
    return found


def live_loops() -> list[Dispatcher]:
    """The compiled functions, and those that will be at their first call."""
    waiting = [value.compiled for value in gc.get_objects() if type(value) is Loop]
    others = [value for value in gc.get_objects() if issubclass(type(value), Dispatcher)]  # asking a lazy object warns
    return [*waiting, *(value for value in others if value not in waiting)]


def swap(module: str, functions: list[FunctionType], tree: ast.Module, lines: range | None = None) -> bool:
    """Give functions of a module their code in another tree, all or those around some lines; False if one has none."""
    codes = _codes(compile(tree, str(MODULES[module]), "exec"))
    fresh = {(code.co_name, code.co_firstlineno): code for code in codes}
    done = True
    for function in functions:
        code = function.__code__
        last = max((line for *_, line in code.co_lines() if line), default=code.co_firstlineno)
        if lines is None or code.co_firstlineno <= lines.start <= last:
            try:
                function.__code__ = fresh[code.co_name, code.co_firstlineno]
            except (KeyError, ValueError):  # a change removed the use of an enclosing variable
                done = False
    return done


def recompile(loops: list[Dispatcher], names: set[str]) -> None:
    """Let compiled functions of these names be compiled once more, from the code they have now, and be kept nowhere."""
    Dispatcher.enable_caching = lambda _: None
    for loop in loops:
        if loop.py_func.__name__ in names:
            loop._cache = NullCache()
            loop._reset_overloads()


@dataclass(frozen=True)
class Compiled:
    """A compiled function: its lines, the statements, by module, from which it is run, and the names of all compiled
    functions that hold its code, itself and those that call it.
    """

    lines: range
    sites: dict[str, set[int]]
    holding: set[str]


def loop_sites() -> dict[str, Compiled]:
    """The compiled functions by module and name, and last, by module alone, those that hold its machine code."""
    trees = {module: ast.parse(source) for module, source in SOURCES.items()}
    loops = {
        f"{module}:{node.name}": range(node.lineno, (node.end_lineno or 0) + 1)
        for module, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(mark) for mark in node.decorator_list)
    }
    starts = {place: ({place.partition(":")[2]}, lines) for place, lines in loops.items()}
    for module, tree in trees.items():
        if any(isinstance(node, ast.Call) and ast.unparse(node.func) == "intrinsic" for node in ast.walk(tree)):
            stored = (
                node for top in tree.body if isinstance(top, (ast.Assign, ast.AnnAssign)) for node in ast.walk(top)
            )
            named = {one.id for one in stored if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
            named = {name for name in named if name.islower()}  # instructions, but no constants
            starts[f"{module}:"] = named, range(1, SOURCES[module].count("\n") + 2)
    names = {name for named, _ in starts.values() for name in named}
    used: dict[str, set[tuple[str, int]]] = {name: set() for name in names}
    for module, tree in trees.items():
        for node, _, lines in _places(tree):
            name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
            if name in names and lines is not None:  # also as kernels.name
                used[name].add((module, lines.start))
    found = {}
    for place, (named, lines) in starts.items():
        sites: dict[str, set[int]] = {}
        waiting, seen = sorted(named), set[str]()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                for module, line in used[name]:
                    within = [other for other, span in loops.items() if other.startswith(f"{module}:") and line in span]
                    waiting += [other.partition(":")[2] for other in within]
                    if not within and f"{module}:" != place:
                        sites.setdefault(module, set()).add(line)
        found[place] = Compiled(lines, sites, seen)
    return found


def _codes(code: CodeType) -> Iterator[CodeType]:
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield value
            yield from _codes(value)


def marked(source: str) -> ast.Module:
    """A module whose functions call _mark_ with the line of every statement before they execute it."""
    tree = ast.parse(source)
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for node in {id(node): node for function in functions for node in ast.walk(function)}.values():
        for part in ("body", "orelse", "finalbody"):
            block = getattr(node, part, None)
            if isinstance(block, list):
                calls = [ast.parse(f"_mark_({statement.lineno})").body[0] for statement in block]
                pairs = [(ast.copy_location(call, line), line) for call, line in zip(calls, block, strict=True)]
                setattr(node, part, [statement for pair in pairs for statement in pair])
    return ast.fix_missing_locations(tree)
