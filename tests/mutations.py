"""Mutation check: change one operator, comparison, number or term of a module and see whether its tests notice.

    python tests/mutations.py                          # all of penalties/ and optima/, a bounded sample of each module
    python tests/mutations.py --module droptics.penalties.penalty --count 1000 --seed 1
    python tests/mutations.py --count 1000 --processes 14 --budget 600 --report mutations.json

A mutant that its tests let live is printed as a survivor: a missing test, or a change without effect. The sources stay
as they are; every mutant is compiled in memory, in a fork of a process that has loaded the libraries already.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType

import pytest
import scipy.optimize
import torch

for _library in ("hypothesis", "cvxpy"):  # loaded once, before the forks; not needed by all rooms
    with contextlib.suppress(ImportError):
        importlib.import_module(_library)

ROOT = Path(__file__).resolve().parent.parent
EXACT = (
    "test_fit.py",
    "test_penalties_pieces.py",
    "test_derivatives.py",
    "test_penalties_more.py",
    "test_penalties.py",
)
SECOND = ("test_fit.py", "test_penalties_pieces.py", "test_derivatives.py", "test_second_order.py", "test_penalties.py")
RELU = ("test_fit.py", "test_penalties_pieces.py", "test_relu.py", "test_kernels.py")
BLOCK = ("test_optima_pieces.py", "test_optima_block.py", "test_optima_more.py")
TWO_LAYER = (
    "test_optima_pieces.py",
    "test_fit.py",
    "test_optima_two_layer.py",
    "test_optima_more.py",
    "test_certify.py",
)
DEEP = ("test_optima_deep.py", "test_optima_more.py", "test_certify.py")
# the tests of every module, the quickest first: a mutant is dead when the first of them fails
ROOMS: dict[str, tuple[str, ...]] = {
    "droptics.penalties.evaluation": EXACT,
    "droptics.optima.two_layer": TWO_LAYER,
    "droptics.penalties.penalty": EXACT,
    "droptics.penalties.closed_form": EXACT,
    "droptics.penalties.monte_carlo": EXACT,
    "droptics.optima.deep_linear": DEEP,
    "droptics.optima.independent": TWO_LAYER,
    "droptics.penalties.enumeration": EXACT,
    "droptics.penalties.methods": EXACT,
    "droptics.optima.block": BLOCK,
    "droptics.optima.optimum": TWO_LAYER,
    "droptics.penalties.second_order": SECOND,
    "droptics.optima.last_layer": ("test_heads.py", "test_certify.py", "test_ridge.py"),
    "droptics.optima.connections": ("test_optima_pieces.py", "test_certify.py", "test_optima_more.py"),
    "droptics.optima.general": BLOCK,
    "droptics.penalties.relu": RELU,
    "droptics.penalties.relu_sampling": RELU,
    "droptics.penalties.relu_outcomes": RELU,
    "droptics.penalties.relu_moments": RELU,
    "droptics.penalties.relu_effort": RELU,
    "droptics.optima.allocations": DEEP,
    "droptics.optima.krylov": TWO_LAYER,
    "droptics.optima.projection": ("test_optima_pieces.py", "test_projection.py"),
    "droptics.optima.ridge": ("test_ridge.py",),
    "droptics.penalties.relu_kernels": ("test_kernels.py", "test_relu.py"),
    "droptics.penalties.relu_sweeps": ("test_kernels.py", "test_relu.py"),
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
    for part, value in ast.iter_fields(node):
        if part in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for index, child in enumerate(value) if isinstance(value, list) else [(-1, value)]:
            if isinstance(child, ast.AST) and not isinstance(child, (ast.Raise, ast.JoinedStr, ast.ImportFrom)):
                yield from _places(child, (*path, part, index) if index >= 0 else (*path, part))


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


def _start(work: Callable[[], int]) -> int:
    """Begin `work` in a child process and return its id; the child ends with the status of the work."""
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
    return child


OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "--assert=plain", "-m", "not slow"]
OPTIONS += ["-o", "addopts=--import-mode=importlib", "--rootdir", str(ROOT)]


def _files(tests: tuple[str, ...]) -> list[str]:
    return [str(ROOT / "tests" / test) for test in tests if (ROOT / "tests" / test).exists()]


class _Failures:
    """Writes down what fails without any change, as options that leave it out."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._leave_out(f"--deselect={report.nodeid}")

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._leave_out(f"--ignore={ROOT / report.nodeid}")

    def _leave_out(self, option: str) -> None:
        with self.path.open("a") as lines:
            lines.write(option + "\n")


def unchanged(sets: set[tuple[str, ...]], extra: list[str], folder: Path) -> dict[tuple[str, ...], list[str]]:
    """For every set of test files the options that leave out what fails before anything is changed."""
    places = {tests: folder / f"{number}.txt" for number, tests in enumerate(sorted(sets))}

    def work(tests: tuple[str, ...]) -> Callable[[], int]:
        return lambda: int(pytest.main([*OPTIONS, *extra, *_files(tests)], plugins=[_Failures(places[tests])]))

    for child in [_start(work(tests)) for tests in sets]:
        os.waitpid(child, 0)
    left_out = {tests: places[tests].read_text().splitlines() for tests in sets}
    for option in sorted({option for options in left_out.values() for option in options}):
        print(f"left out because it fails without any change: {option}", flush=True)
    return {tests: [*extra, *options] for tests, options in left_out.items()}


@dataclass
class _Module:
    """A module under test: its mutants in the order in which they are tried, and what became of them."""

    name: str
    tests: tuple[str, ...]
    found: list[Mutant]
    chosen: list[int]
    tried: int = 0
    lived: list[Mutant] = field(default_factory=list)
    late: int = 0

    @property
    def path(self) -> Path:
        return ROOT / "src" / Path(*self.name.split(".")).with_suffix(".py")

    @staticmethod
    def of(name: str, count: int, seed: int) -> _Module:
        module = _Module(name, ROOMS[name], [], [])
        module.found = list(mutants(module.path.read_text()))
        module.chosen = random.Random(seed).sample(range(len(module.found)), min(count, len(module.found)))
        return module

    def line(self) -> str:
        late = f", {self.late} of the dead ran out of time" if self.late else ""
        return f"{self.name}: {self.tried} of {len(self.found)} mutants tried, {len(self.lived)} lived{late}"


def _queue(modules: list[_Module]) -> Iterator[tuple[_Module, Mutant]]:
    """One mutant of every module after the other."""
    for turn in range(max((len(module.chosen) for module in modules), default=0)):
        for module in modules:
            if turn < len(module.chosen):
                yield module, module.found[module.chosen[turn]]


def _work(module: _Module, mutant: Mutant, extra: list[str]) -> Callable[[], int]:
    def work() -> int:
        sys.meta_path.insert(0, _Changed(module.name, str(module.path), mutant.tree))
        return int(pytest.main(["-x", *OPTIONS, *extra, *_files(module.tests)]))

    return work


def check(
    modules: list[_Module], processes: int, seconds: float, budget: float, extra: dict[tuple[str, ...], list[str]]
) -> None:
    """Try the mutants of all modules, `processes` at a time, until they or the budget of seconds are used up."""
    end, queue = time.monotonic() + budget, _queue(modules)
    running: dict[int, tuple[_Module, Mutant, float]] = {}
    more = True
    while running or more:
        while more and len(running) < processes:
            following = next(queue, None) if time.monotonic() < end else None
            more = following is not None
            if following is not None:
                module, mutant = following
                running[_start(_work(module, mutant, extra[module.tests]))] = (module, mutant, time.monotonic())
        for child, (module, mutant, start) in list(running.items()):
            done, status = os.waitpid(child, os.WNOHANG)
            if not done and time.monotonic() - start < seconds:
                continue
            if not done:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
            del running[child]
            module.tried += 1
            module.late += not done
            if done and os.waitstatus_to_exitcode(status) == 0:
                module.lived.append(mutant)
                print(f"{module.name}:{mutant.line}: lived: {mutant.before}  ->  {mutant.after}", flush=True)
        time.sleep(0.02)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--module", action="append", choices=ROOMS, help="module(s) to change; all by default")
    parser.add_argument("--count", type=int, default=40, help="mutants per module")
    parser.add_argument("--seed", type=int, default=0, help="which mutants")
    parser.add_argument("--seconds", type=float, default=300.0, help="longest time of one mutant; beyond it is caught")
    parser.add_argument("--processes", type=int, default=1, help="mutants at a time")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no more are started")
    parser.add_argument("--warnings", action="store_true", help="let warnings pass (libraries of other versions)")
    parser.add_argument("--report", type=Path, help="file for the numbers and the survivors, as JSON")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    print(f"loaded torch {torch.__version__}, scipy {scipy.__version__}", flush=True)
    modules = [_Module.of(name, options.count, options.seed) for name in options.module or ROOMS]
    with tempfile.TemporaryDirectory() as folder:
        extra = ["-o", "filterwarnings=ignore"] if options.warnings else []
        left_out = unchanged({module.tests for module in modules}, extra, Path(folder))
    check(modules, options.processes, options.seconds, options.budget, left_out)
    for module in modules:
        print(module.line(), flush=True)
    if options.report:
        content = {
            module.name: {
                "mutants": len(module.found),
                "tried": module.tried,
                "lived": [f"{mutant.line}: {mutant.before} -> {mutant.after}" for mutant in module.lived],
            }
            for module in modules
        }
        options.report.write_text(json.dumps(content, indent=1))
    return 1 if any(module.lived for module in modules) else 0


if __name__ == "__main__":
    sys.exit(main())
