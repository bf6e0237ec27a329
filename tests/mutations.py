"""Mutation check: change one operator, comparison, number or term of a module and see whether its tests notice.

    python tests/mutations.py                          # all rooms listed below, a bounded sample of each module
    python tests/mutations.py --module droptics.penalties.penalty --count 1000 --seed 1

A mutant that its tests let live is printed as a survivor: a missing test, or a change without effect. The sources stay
as they are; every mutant is compiled in memory, in a fork of a process that has loaded the libraries already.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType

import cvxpy
import pytest
import scipy.optimize
import torch

ROOT = Path(__file__).resolve().parent.parent
PENALTIES = ("test_penalties_more.py", "test_penalties.py")
OPTIMA = ("test_optima_block.py", "test_optima_more.py")
TWO_LAYER = ("test_optima_two_layer.py", "test_optima_more.py")
DEEP = ("test_optima_deep.py", "test_optima_more.py")
ROOMS: dict[str, tuple[str, ...]] = {
    "droptics.penalties.closed_form": PENALTIES,
    "droptics.penalties.enumeration": PENALTIES,
    "droptics.penalties.evaluation": PENALTIES,
    "droptics.penalties.monte_carlo": PENALTIES,
    "droptics.penalties.penalty": PENALTIES,
    "droptics.optima.block": OPTIMA,
    "droptics.optima.two_layer": TWO_LAYER,
    "droptics.optima.deep_linear": DEEP,
}
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


@dataclass(frozen=True)
class Mutant:
    """One changed place of a module."""

    line: int
    before: str
    after: str
    tree: ast.Module


def _places(node: ast.AST, path: tuple[str | int, ...] = ()) -> Iterator[tuple[ast.AST, tuple[str | int, ...]]]:
    """Every expression that computes something, with the way to it from the root; no types, messages, decorators."""
    yield node, path
    for field, value in ast.iter_fields(node):
        if field in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(-1, value)]:
            if isinstance(child, ast.AST) and not isinstance(child, (ast.Raise, ast.JoinedStr, ast.ImportFrom)):
                yield from _places(child, (*path, field, index) if index >= 0 else (*path, field))


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


def mutants(source: str) -> Iterator[Mutant]:
    """All mutants of a module, in the order of the source."""
    for node, path in _places(ast.parse(source)):
        for variant in _variants(node):
            tree = ast.parse(source)
            parent: ast.AST | list[ast.AST] = tree
            for step in path[:-1]:
                parent = parent[step] if isinstance(step, int) else getattr(parent, step)  # type: ignore[index]
            ast.copy_location(variant, node)
            if isinstance(path[-1], int):
                parent[path[-1]] = variant  # type: ignore[index]
            else:
                setattr(parent, path[-1], variant)
            ast.fix_missing_locations(tree)
            yield Mutant(getattr(node, "lineno", 0), ast.unparse(node), ast.unparse(variant), tree)


class _Changed(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Imports one module from a given tree and leaves all others to the usual import."""

    def __init__(self, name: str, path: str, tree: ast.Module) -> None:
        super().__init__(name, path)
        self.tree = tree

    def find_spec(self, fullname: str, path: object, target: object = None) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self, origin=self.path) if fullname == self.name else None

    def get_code(self, fullname: str) -> CodeType:
        return compile(self.tree, self.path, "exec")


def _in_fork(work: Callable[[], int], seconds: float) -> int | None:
    """Exit status of `work` in a child process; None when it had to be ended."""
    child = os.fork()
    if child == 0:
        try:
            with (
                open(os.devnull, "w") as null,
                contextlib.redirect_stdout(null),
                contextlib.redirect_stderr(io.StringIO()),
            ):
                status = int(work())
        except BaseException:
            status = 99
        os._exit(status)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


def run_tests(name: str, path: Path, tree: ast.Module, tests: tuple[str, ...], seconds: float) -> int | None:
    """Status of pytest on the test files with the module replaced: 0 when all pass, None beyond the time."""

    def work() -> int:
        sys.meta_path.insert(0, _Changed(name, str(path), tree))
        files = [str(ROOT / "tests" / test) for test in tests if (ROOT / "tests" / test).exists()]
        options = [
            "-x",
            "-q",
            "-m",
            "not slow",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
            "-p",
            "no:cov",
            "--assert=plain",
        ]
        return pytest.main([*options, "-o", "addopts=--import-mode=importlib", "--rootdir", str(ROOT), *files])

    return _in_fork(work, seconds)


def check(name: str, tests: tuple[str, ...], count: int, seed: int, seconds: float) -> tuple[int, list[Mutant]]:
    """How many mutants were tried, and which of them lived."""
    path = ROOT / "src" / Path(*name.split(".")).with_suffix(".py")
    source = path.read_text()
    if run_tests(name, path, ast.parse(source), tests, 4 * seconds) != 0:
        raise SystemExit(f"{name}: the tests fail without any change (or take over {4 * seconds:.0f} s)")
    found = list(mutants(source))
    chosen = sorted(random.Random(seed).sample(range(len(found)), min(count, len(found))))
    survivors = []
    for index in chosen:
        mutant = found[index]
        if run_tests(name, path, mutant.tree, tests, seconds) == 0:
            survivors.append(mutant)
            print(f"{name}:{mutant.line}: lived: {mutant.before}  ->  {mutant.after}", flush=True)
    print(f"{name}: {len(chosen)} of {len(found)} mutants tried, {len(survivors)} lived", flush=True)
    return len(chosen), survivors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", choices=ROOMS, help="module(s) to change; all by default")
    parser.add_argument("--count", type=int, default=40, help="mutants per module")
    parser.add_argument("--seed", type=int, default=0, help="which mutants")
    parser.add_argument("--seconds", type=float, default=300.0, help="longest time of one mutant; beyond it is caught")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    print(f"loaded torch {torch.__version__}, cvxpy {cvxpy.__version__}, scipy {scipy.__version__}", flush=True)
    lived = [
        mutant
        for name in options.module or ROOMS
        for mutant in check(name, ROOMS[name], options.count, options.seed, options.seconds)[1]
    ]
    return 1 if lived else 0


if __name__ == "__main__":
    sys.exit(main())
