"""Mutation check: change one operator, comparison, number or term of a module and see whether its tests notice.

    python tests/mutations.py                          # all of penalties/ and optima/, a bounded sample of each module
    python tests/mutations.py --module droptics.penalties.penalty --count 1000 --seed 1
    python tests/mutations.py --count 1000 --processes 14 --budget 600 --report mutations.json

A mutant that its tests let live is printed as a survivor: a missing test, or a change without effect. One run of the
unchanged tests records which of them execute which line; a mutant meets only those, the quickest first, until one
fails. The sources stay as they are: a mutant is compiled in memory, in a fork of a process that holds the tests.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import gc
import hashlib
import json
import os
import random
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
import pytest
import torch

from mutants import MODULES, ROOT, SOURCES, Changed, Mutant, live_functions, marked, mutants, swap

TESTS = ("penalties", "optima", "heads")
OPTIONS = [
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "-p",
    "no:cov",
    "--assert=plain",
    "--tb=no",
    "-m",
    "not slow",
]
OPTIONS += ["-o", "addopts=--import-mode=importlib", "--rootdir", str(ROOT)]
MEMORY = 8 * 2**30  # bytes that a mutant may ask for


def _start(work: Callable[[], int]) -> int:
    """Begin `work` in a child process and return its id; the child ends with the status of the work."""
    child = os.fork()
    if child == 0:
        status = 99
        with contextlib.suppress(BaseException):
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            status = int(work())
        os._exit(status)
    return child


@dataclass(frozen=True)
class Run:
    """What one test did without any change: the lines that it executed, by file, and its seconds."""

    item: pytest.Item
    seconds: float
    lines: dict[str, set[int]]

    def reach(self) -> int:
        """Number of lines that the test executes."""
        return sum(map(len, self.lines.values()))


def _passes(item: pytest.Item) -> bool:
    failed = item.session.testsfailed
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
    return item.session.testsfailed == failed


def record(items: list[pytest.Item], path: Path) -> int:
    """Run tests and write down, for those that pass, their seconds and the lines that they execute."""
    seen: dict[str, set[int]] = {}
    for name, functions in live_functions().items():
        if functions:
            assert swap(name, functions, marked(SOURCES[name]))
            seen[name] = set()
            functions[0].__globals__["_mark_"] = seen[name].add
    found = {}
    for item in items:
        for lines in seen.values():
            lines.clear()
        start = time.process_time()
        if _passes(item):
            reached = {name: sorted(lines) for name, lines in seen.items() if lines}
            found[item.nodeid] = (time.process_time() - start, reached)
    path.write_text(json.dumps(found))
    return 0


def unchanged(items: list[pytest.Item], processes: int) -> list[Run]:
    """The runs of all tests that pass before anything is changed, the quickest first."""
    found: dict[str, tuple[float, dict[str, list[int]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number}.json" for number in range(processes)]
        parts = [(items[number::processes], path) for number, path in enumerate(paths)]
        for child in [_start(lambda part=part: record(*part)) for part in parts]:  # type: ignore[misc]
            os.waitpid(child, 0)
        for path in paths:
            found |= json.loads(path.read_text())
    for item in items:
        if item.nodeid not in found:
            print(f"left out because it fails without any change: {item.nodeid}", flush=True)
    runs = [
        Run(item, found[item.nodeid][0], {name: set(lines) for name, lines in found[item.nodeid][1].items()})
        for item in items
        if item.nodeid in found
    ]
    return sorted(runs, key=lambda run: run.seconds)


class Runner:
    """Tries mutants on the tests that reach them."""

    def __init__(self, runs: list[Run], seconds: float, extra: list[str]) -> None:
        self.runs, self.seconds, self.extra = runs, seconds, extra
        self.functions = live_functions()
        gc.freeze()  # children share these objects

    def reaching(self, mutant: Mutant) -> list[Run]:
        """The quickest tests that execute the changed statement, within the seconds."""
        chosen: list[Run] = []
        total = 0.0
        for run in self.runs:
            lines = run.lines.get(mutant.module, set())
            if lines if mutant.lines is None else any(line in lines for line in mutant.lines):
                total += run.seconds
                if total > self.seconds and chosen:
                    break
                chosen.append(run)
        return chosen

    def lives(self, mutant: Mutant, chosen: list[Run]) -> bool:
        """Whether all chosen tests pass; to be called in a child process, which a hanging test ends."""
        if not chosen:
            return True
        tree = mutant.tree()
        if mutant.lines is None or not swap(mutant.module, self.functions[mutant.module], tree):
            return self._reimported(mutant.module, tree, chosen)
        for run in chosen:
            _limit(20 + 10 * run.seconds)
            if not _passes(run.item):
                return False
        return True

    def _reimported(self, module: str, tree: ast.Module, chosen: list[Run]) -> bool:
        """Import everything again, with the change."""
        _limit(30 + 10 * sum(run.seconds for run in chosen))
        for name, loaded in list(sys.modules.items()):
            file = str(getattr(loaded, "__file__", ""))
            if name.startswith("droptics") or (name != "__main__" and file.startswith(str(ROOT / "tests"))):
                del sys.modules[name]
        sys.meta_path.insert(0, Changed(module, tree))
        return int(pytest.main(["-x", *OPTIONS, *self.extra, *(f"{ROOT}/{run.item.nodeid}" for run in chosen)])) == 0


def _limit(seconds: float) -> None:
    """End this process after so many seconds of work, or many times as many of waiting."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)


@dataclass
class Module:
    """A module under test: its mutants in the order in which they are tried, and what became of them by name."""

    name: str
    found: list[Mutant]
    chosen: list[Mutant]
    dead: dict[str, str] = field(default_factory=dict)
    lived: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def of(name: str, count: int, seed: int) -> Module:
        found = list(mutants(name))
        return Module(name, found, random.Random(seed).sample(found, min(count, len(found))))

    @property
    def digest(self) -> str:
        return hashlib.sha256(SOURCES[self.name].encode()).hexdigest()[:16]

    def recall(self, report: dict[str, Any], again: bool) -> None:
        """Take over what a report says of the same source; with `again` only its survivors are tried."""
        known = report.get(self.name, {})
        if known.get("source") != self.digest:
            self.chosen = [] if again else self.chosen
            return
        self.dead, self.lived = known["dead"], known["lived"]
        if again:
            self.chosen, self.lived = [mutant for mutant in self.found if mutant.name in self.lived], {}
        self.chosen = [mutant for mutant in self.chosen if mutant.name not in {**self.dead, **self.lived}]

    def line(self) -> str:
        tried = len(self.dead) + len(self.lived)
        return f"{self.name}: {tried} of {len(self.found)} mutants tried, {len(self.lived)} lived"

    def content(self) -> dict[str, Any]:
        return {"source": self.digest, "mutants": len(self.found), "dead": self.dead, "lived": self.lived}


def _queue(modules: list[Module]) -> Iterator[tuple[Module, Mutant]]:
    """One mutant of every module after the other."""
    for turn in range(max((len(module.chosen) for module in modules), default=0)):
        for module in modules:
            if turn < len(module.chosen):
                yield module, module.chosen[turn]


def check(modules: list[Module], runner: Runner, processes: int, budget: float, save: Callable[[], None]) -> None:
    """Try the mutants of all modules, `processes` at a time, until they or the budget of seconds are used up."""
    end, queue = time.monotonic() + budget, _queue(modules)
    running: dict[int, tuple[Module, Mutant, int]] = {}
    more, saved = True, time.monotonic()
    while running or more:
        while more and len(running) < processes:
            following = next(queue, None) if time.monotonic() < end else None
            more = following is not None
            if following is not None:
                module, mutant = following
                chosen = runner.reaching(mutant)
                child = _start(lambda mutant=mutant, chosen=chosen: 0 if runner.lives(mutant, chosen) else 1)  # type: ignore[misc]
                running[child] = (module, mutant, len(chosen))
        if running:
            child, status = os.wait()
            module, mutant, tests = running.pop(child)
            if status == 0:
                module.lived[mutant.name] = f"{tests} tests"
                print(f"{module.name}:{mutant.name}  lived {tests} tests", flush=True)
            else:
                module.dead[mutant.name] = f"signal {os.WTERMSIG(status)}" if os.WIFSIGNALED(status) else ""
        if time.monotonic() > saved + 10:
            save()
            saved = time.monotonic()
    save()


class Plugin:
    """Replaces the run of the collected tests by the check."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.modules: list[Module] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        options, start = self.options, time.monotonic()
        self.modules = [Module.of(name, options.count, options.seed) for name in options.module or MODULES]
        if options.report and options.report.exists():
            known = json.loads(options.report.read_text())
            for module in self.modules:
                module.recall(known, options.again)
        extra = ["-o", "filterwarnings=ignore"] if options.warnings else []
        runs = unchanged(session.items, options.processes)
        print(f"{len(runs)} tests pass without any change, {time.monotonic() - start:.0f} s", flush=True)
        for file in sorted({run.item.path for run in runs}):  # what is loaded or compiled late is shared by the forks
            _passes(max((run for run in runs if run.item.path == file), key=Run.reach).item)
        runner = Runner(runs, options.seconds, extra)
        same = Mutant(next(iter(runs[-1].lines)), (), 0, None, "unchanged")
        _, status = os.waitpid(_start(lambda: 0 if runner.lives(same, runs[-1:]) else 1), 0)
        assert status == 0, "a test fails when its modules are imported again"
        check(self.modules, runner, options.processes, options.budget, self.save)
        return True

    def save(self) -> None:
        path = self.options.report
        if path:
            old = json.loads(path.read_text()) if path.exists() else {}
            fresh = path.with_suffix(".part")
            fresh.write_text(json.dumps(old | {module.name: module.content() for module in self.modules}, indent=1))
            fresh.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="test files; those of both rooms by default")
    parser.add_argument("--module", action="append", choices=MODULES, help="module(s) to change; all by default")
    parser.add_argument("--count", type=int, default=40, help="mutants per module")
    parser.add_argument("--seed", type=int, default=0, help="which mutants")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time of the tests of one mutant")
    parser.add_argument("--processes", type=int, default=1, help="mutants at a time")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no more are started")
    parser.add_argument("--warnings", action="store_true", help="let warnings pass (libraries of other versions)")
    parser.add_argument("--report", type=Path, help="JSON file of what was found; what it holds is not tried again")
    parser.add_argument("--again", action="store_true", help="try the survivors of the report and nothing else")
    options = parser.parse_args()
    # compiled functions cannot be changed; they run as they are written instead. Before anything loads the compiler
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    torch.set_num_threads(1)
    quick = hypothesis.settings(
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate), database=None, derandomize=True, deadline=None
    )
    hypothesis.settings.register_profile("mutations", quick)
    hypothesis.settings.load_profile("mutations")
    files = options.tests or [
        str(path) for test in TESTS for path in sorted((ROOT / "tests" / test).rglob("test_*.py"))
    ]
    plugin = Plugin(options)
    extra = ["-o", "filterwarnings=ignore"] if options.warnings else []
    pytest.main([*OPTIONS, "-s", *extra, *files], plugins=[plugin])
    for module in plugin.modules:
        print(module.line(), flush=True)
    return 1 if any(module.lived for module in plugin.modules) else 0


if __name__ == "__main__":
    sys.exit(main())
