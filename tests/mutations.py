"""Mutation check: break one place of the library and see whether the claims notice, and whether the tests do.

    python tests/mutations.py                              # 30 places of every room, tests and claims apart
    python tests/mutations.py --room masks --count 1000 --seed 1
    python tests/mutations.py --processes 16 --budget 400 --report mutations.json      # goes on where it was stopped
    python tests/mutations.py --room deliberate            # the mistakes of tests/deliberate.py alone

What lives is a missing test, or a change without effect. One run of the unchanged checks records which of them execute
which line; a mutant meets only those, its own room's before others, the quickest first, until one fails. The sources
stay as they are: a mutant is compiled in memory, in a fork of a process that holds the checks.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import hashlib
import importlib
import itertools
import json
import os
import random
import signal
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import hypothesis
import pytest
import torch

from deliberate import LISTS
from mutants import (
    MODULES,
    ROOT,
    SOURCES,
    Changed,
    Defect,
    Mutant,
    live_functions,
    live_loops,
    loop_sites,
    marked,
    mutants,
    recompile,
    room,
    swap,
)

# these run no code of the library in their own process
ELSEWHERE = ("benchmarks", "docs", "structure", "third_party")
OPTIONS = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:cov", "--assert=plain", "--tb=no"]
OPTIONS += ["-m", "not slow", "-o", "addopts=--import-mode=importlib", "--rootdir", str(ROOT)]
MEMORY = 8 * 2**30  # bytes that a mutant may ask for
LOUD = os.dup(2)


def told(text: str) -> None:
    """Say something from a child, whose own output goes nowhere."""
    os.write(LOUD, f"{text}\n".encode())


def _start(work: Callable[[], int]) -> int:
    """Begin `work` in a child process and return its id; the child ends with the status of the work."""
    import resource  # not everywhere, and pytest imports this file to look for doctests

    child = os.fork()
    if child == 0:
        status = 99
        try:
            for stream in (1, 2):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
            resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
            status = int(work())
        except BaseException as problem:
            told(f"a child broke off: {problem!r:.300}")
        os._exit(status)
    return child


class Suite(ABC):
    """Checks by name: tests, or claims."""

    name: str
    names: list[str]

    @abstractmethod
    def passes(self, name: str) -> bool:
        """Run one check."""

    @abstractmethod
    def again(self, names: Sequence[str]) -> bool:
        """Whether checks pass in modules that are imported anew."""


class Tests(Suite):
    """The fast tests that pytest collected."""

    name = "tests"

    def __init__(self, items: Iterable[pytest.Item], extra: list[str]) -> None:
        self.items = {item.nodeid: item for item in items}
        self.names, self.extra = list(self.items), extra

    def passes(self, name: str) -> bool:
        item = self.items[name]
        failed = item.session.testsfailed
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)
        return item.session.testsfailed == failed

    def again(self, names: Sequence[str]) -> bool:
        return int(pytest.main(["-x", *OPTIONS, *self.extra, *(f"{ROOT}/{name}" for name in names)])) == 0


class Claims(Suite):
    """The claims that `droptics verify` runs; a statement that is printed twice runs once."""

    name = "claims"

    def __init__(self) -> None:
        papers = importlib.import_module("droptics.papers")
        first = {(claim.check, claim.control): claim.id for claim in reversed(papers.claims()) if claim.check}
        self.names, self.verify = sorted(first.values()), papers.verify

    def passes(self, name: str) -> bool:
        return bool(self.verify(name)[0].agrees)

    def again(self, names: Sequence[str]) -> bool:
        verify = importlib.import_module("droptics.papers").verify
        return all(verify(name)[0].agrees for name in names)


@dataclass(frozen=True)
class Run:
    """What one check did without any change: its seconds, and the lines that it executed by module."""

    name: str
    seconds: float
    lines: dict[str, set[int]]


@dataclass(frozen=True)
class Limits:
    """Mutants at a time, seconds of the checks of each, when it began and when no more are started."""

    processes: int
    seconds: float
    start: float
    end: float

    @property
    def half(self) -> float:
        """When the first half of the time is over, which is all that the unchanged checks get."""
        return (self.start + self.end) / 2


def _too_long(*_: object) -> None:
    raise TimeoutError


def record(suites: list[Suite], limits: Limits, folder: Path) -> int:
    """Run all checks, several at a time, with every function telling which of its lines it executes."""
    seen: dict[str, set[int]] = {}
    compiled = {id(loop.py_func) for loop in live_loops()}
    for module, functions in live_functions().items():
        if functions:
            seen[module] = set()
            if not swap(module, [one for one in functions if id(one) not in compiled], marked(SOURCES[module])):
                told(f"not all lines of {module} can be recorded")
            functions[0].__globals__["_mark_"] = seen[module].add
    gc.freeze()
    parts, running = 8 * limits.processes, 0
    for number, suite in itertools.product(range(parts), suites):
        if running == limits.processes:
            os.wait()
            running -= 1
        if time.monotonic() < limits.half:
            job = (suite, suite.names[number::parts], limits.seconds, seen, folder / f"{suite.name}{number}")
            _start(lambda job=job: write_lines(*job))  # type: ignore[misc]
            running += 1
    for _ in range(running):
        os.wait()
    return 0


def write_lines(suite: Suite, names: Sequence[str], longest: float, seen: dict[str, set[int]], path: Path) -> int:
    """Run checks and write down, for those that pass in time, their seconds and the lines that they execute."""
    found = {}
    signal.signal(signal.SIGPROF, _too_long)
    for name in names:
        for lines in seen.values():
            lines.clear()
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, longest)
        with contextlib.suppress(TimeoutError):
            if suite.passes(name):
                reached = {module: sorted(lines) for module, lines in seen.items() if lines}
                found[name] = (time.process_time() - start, reached)
        signal.setitimer(signal.ITIMER_PROF, 0)
    path.write_text(json.dumps(found))
    return 0


def unchanged(suites: list[Suite], limits: Limits) -> dict[str, list[Run]]:
    """The runs of all checks that pass within the limits before anything is changed, by suite, the quickest first."""
    read: dict[str, list[Run]] = {suite.name: [] for suite in suites}
    with tempfile.TemporaryDirectory() as folder:
        _, status = os.waitpid(_start(lambda: record(suites, limits, Path(folder))), 0)
        assert status == 0, "the unchanged checks could not be run"
        for suite in suites:
            for path in sorted(Path(folder).glob(f"{suite.name}*")):
                for name, (seconds, lines) in json.loads(path.read_text()).items():
                    read[suite.name].append(Run(name, seconds, {module: set(part) for module, part in lines.items()}))
    for suite in suites:
        for name in sorted(set(suite.names) - {run.name for run in read[suite.name]}):
            print(f"left out, because unchanged it fails or takes too long: {name}", flush=True)
    return {name: sorted(runs, key=lambda run: run.seconds) for name, runs in read.items()}


class Runner:
    """Tries mutants on the checks that reach them."""

    def __init__(self, suites: list[Suite], runs: dict[str, list[Run]], seconds: float) -> None:
        self.suites = {suite.name: suite for suite in suites}
        self.runs, self.seconds = runs, seconds
        self.functions, self.loops, self.sites = live_functions(), live_loops(), loop_sites()
        gc.freeze()  # children share these objects

    def compiled(self, mutant: Mutant | Defect) -> dict[str, set[int]] | None:
        """The statements, by module, that run the compiled function with the change; None where it is in none."""
        for place, (span, sites) in self.sites.items():
            if place.startswith(f"{mutant.module}:") and mutant.lines is not None and mutant.lines.start in span:
                return sites
        return None

    def reaching(self, mutant: Mutant | Defect, suite: str) -> list[Run]:
        """Checks that execute the changed statement: those of its own room first, the quickest first, in the seconds.

        A deliberate mistake meets all of them.
        """
        sites = self.compiled(mutant) or {mutant.module: None if mutant.lines is None else set(mutant.lines)}
        home = f"tests/{room(mutant.module)}/" if mutant.module.count(".") > 1 else "tests/test_"
        reached = (
            run
            for run in self.runs[suite]
            if any(
                run.lines.get(module, set()) if lines is None else run.lines.get(module, set()) & lines
                for module, lines in sites.items()
            )
        )
        chosen: list[Run] = []
        total = 0.0
        for run in sorted(reached, key=lambda run: not run.name.startswith(home)):
            total += run.seconds
            if total > self.seconds and chosen and not isinstance(mutant, Defect):
                break
            chosen.append(run)
        return chosen

    def lives(self, mutant: Mutant | Defect, suite: str, chosen: list[Run]) -> bool:
        """Whether all chosen checks pass; to be called in a child process, which a hanging check ends."""
        tree, again = mutant.tree(), 0
        if mutant.lines is None or not swap(mutant.module, self.functions[mutant.module], tree, mutant.lines):
            _limit(20 + 5 * sum(run.seconds for run in chosen))
            for name, loaded in list(sys.modules.items()):
                file = str(getattr(loaded, "__file__", ""))
                if name.startswith("droptics") or (name != "__main__" and file.startswith(str(ROOT / "tests"))):
                    del sys.modules[name]
            sys.meta_path.insert(0, Changed(mutant.module, tree))
            return self.suites[suite].again([run.name for run in chosen])
        if self.compiled(mutant) is not None:
            recompile(self.loops)
            again = 60  # seconds that this may take
        for run in chosen:
            _limit(5 + again + 5 * run.seconds)
            if not self.suites[suite].passes(run.name):
                return False
        return True


def _limit(seconds: float) -> None:
    """End this process after so many seconds of work, or many times as many of waiting."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 10 * seconds)


NOTICED, UNREACHED = "noticed", "not reached"


@dataclass
class Room:
    """The mutants of one room in the order in which they are tried, and by suite and place what became of them."""

    name: str
    found: int
    chosen: Sequence[Mutant | Defect]
    fates: dict[str, dict[str, str]] = field(default_factory=lambda: {"tests": {}, "claims": {}})

    @staticmethod
    def all(count: int, seed: int) -> list[Room]:
        """The deliberate mistakes, and so many mutants of every room, drawn by the seed."""
        places: dict[str, list[Mutant]] = {}
        for module in MODULES:
            places.setdefault(room(module), []).extend(mutants(module))
        return [
            *(Room(name, len(found), [one for one in found if one.stands]) for name, found in LISTS.items()),
            *(
                Room(name, len(found), random.Random(seed).sample(found, min(count, len(found))))
                for name, found in sorted(places.items())
            ),
        ]

    def recall(self, known: dict[str, dict[str, str]], again: bool) -> None:
        """Take over what a report says of mutants of the same source; with `again` only what was noticed."""
        here = {place(mutant) for mutant in self.chosen}
        for suite, fates in known.items():
            self.fates[suite] = {
                name: fate for name, fate in fates.items() if name in here and (fate == NOTICED or not again)
            }

    def line(self) -> str:
        """How many mutants each suite noticed."""
        shares = []
        for suite, fates in self.fates.items():
            counts = Counter(fates.values())
            shares.append(f"{suite} notice {counts[NOTICED]} of {len(fates)} ({counts[UNREACHED]} not reached)")
        return f"{self.name}: {self.found} mutants; {', '.join(shares)}"


def place(mutant: Mutant | Defect) -> str:
    """The name of a mutant in a report: a change of its module makes it another one."""
    digest = hashlib.sha256(SOURCES[mutant.module].encode()).hexdigest()[:8]
    return f"{mutant.module.removeprefix('droptics.')}@{digest}:{mutant.name}"


def _queue(rooms: list[Room], suites: Iterable[str]) -> Iterator[tuple[Room, Mutant | Defect, str]]:
    """The deliberate mistakes, then one mutant of every room after the other, on each suite."""
    turns = sorted(
        (not here.name.startswith("deliberate"), turn, number)
        for number, here in enumerate(rooms)
        for turn in range(len(here.chosen))
    )
    for _, turn, number in turns:
        for suite in suites:
            if place(rooms[number].chosen[turn]) not in rooms[number].fates[suite]:
                yield rooms[number], rooms[number].chosen[turn], suite


def check(rooms: list[Room], runner: Runner, limits: Limits, save: Callable[[], None]) -> None:
    """Try the mutants of all rooms, several at a time, until they or the time are used up."""
    queue, running = _queue(rooms, runner.suites), dict[int, tuple[dict[str, str], str, str]]()
    more, saved = True, time.monotonic()
    while running or more:
        while more and len(running) < limits.processes:
            job = next(queue, None) if time.monotonic() < limits.end else None
            more = job is not None
            if job is not None:
                here, mutant, suite = job
                chosen = runner.reaching(mutant, suite)
                if chosen:
                    work = functools.partial(runner.lives, mutant, suite, chosen)
                    child = _start(lambda work=work: 0 if work() else 1)  # type: ignore[misc]
                    running[child] = here.fates[suite], place(mutant), f"lived {len(chosen)}"
                else:
                    here.fates[suite][place(mutant)] = UNREACHED
        if running:
            child, status = os.wait()
            fates, name, lived = running.pop(child)
            fates[name] = NOTICED if status else lived
        if time.monotonic() > saved + 10:
            save()
            saved = time.monotonic()
    save()


def _prove(runner: Runner, suite: str) -> None:
    """Fail unless checks pass in modules that are imported anew, and in functions that are compiled anew."""
    last = next(run for run in runner.runs[suite] if run.lines)
    same = Mutant(next(iter(last.lines)), (), 0, None, "unchanged")
    loops = (Mutant(place.partition(":")[0], (), 0, span, place) for place, (span, _) in runner.sites.items())
    compiled = next((loop for loop in loops if runner.reaching(loop, suite)), same)
    for mutant in (same, compiled):
        chosen = [last] if mutant is same else runner.reaching(mutant, suite)[:1]
        _, status = os.waitpid(_start(lambda job=(mutant, suite, chosen): 0 if runner.lives(*job) else 1), 0)  # type: ignore[misc]
        assert status == 0, f"{chosen[0].name} fails when {mutant.module} is unchanged"


class Plugin:
    """Replaces the run of the collected tests by the check."""

    def __init__(self, options: argparse.Namespace, extra: list[str]) -> None:
        self.options, self.extra = options, extra
        self.passing: dict[str, int] = {}
        rooms = Room.all(options.count, options.seed)
        self.rooms = [here for here in rooms if not options.room or here.name in options.room]
        if options.report and options.report.exists():
            known = json.loads(options.report.read_text())["rooms"]
            for here in self.rooms:
                if here.name in known:
                    here.recall(known[here.name]["fates"], options.again)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        options, start = self.options, time.monotonic()
        limits = Limits(options.processes, options.seconds, start, start + options.budget)
        for name in MODULES:
            with contextlib.suppress(ImportError):  # what needs a library that is not here
                importlib.import_module(name)
        suites = [suite for suite in (Tests(session.items, self.extra), Claims()) if suite.name in options.suite]
        runs = unchanged(suites, limits)
        self.passing = {name: len(found) for name, found in runs.items()}
        print(f"{self.passing} pass without any change, {time.monotonic() - start:.0f} s", flush=True)
        runner = Runner(suites, runs, limits.seconds)
        for suite in suites:
            _prove(runner, suite.name)
        check(self.rooms, runner, limits, self.save)
        return True

    def save(self) -> None:
        path = self.options.report
        if path:
            source = importlib.import_module("droptics.evidence.provenance")
            told = {name: getattr(self.options, name) for name in ("count", "seed", "seconds")}
            rooms = {here.name: {"mutants": here.found, "fates": here.fates} for here in self.rooms}
            content = {"commit": source.commit(), **source.here(), **told, "checks": self.passing, "rooms": rooms}
            fresh = path.with_suffix(".part")
            fresh.write_text(json.dumps(content, indent=1) + "\n")
            fresh.replace(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tests", nargs="*", help="test files; those of all rooms by default")
    parser.add_argument("--room", action="append", help='room(s) to change, or "deliberate"; all by default')
    parser.add_argument("--suite", nargs="+", default=["tests", "claims"], help="what is to notice: tests, claims")
    parser.add_argument("--count", type=int, default=30, help="mutants per room")
    parser.add_argument("--seed", type=int, default=0, help="which mutants")
    parser.add_argument("--seconds", type=float, default=20.0, help="longest time of the tests, or claims, of a mutant")
    parser.add_argument("--processes", type=int, default=1, help="mutants at a time")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no more are started")
    parser.add_argument("--warnings", action="store_true", help="let warnings pass (libraries of other versions)")
    parser.add_argument("--report", type=Path, help="JSON file of what was found; what it holds is not tried again")
    parser.add_argument("--again", action="store_true", help="try once more what lived in the report")
    options = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.set_num_threads(1)
    quick = hypothesis.settings(
        phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate), database=None, derandomize=True, deadline=None
    )
    hypothesis.settings.register_profile("mutations", quick)
    hypothesis.settings.load_profile("mutations")
    files = options.tests or [
        str(path)
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if path.relative_to(ROOT / "tests").parts[0] not in ELSEWHERE
    ]
    extra = ["-o", "filterwarnings=ignore"] if options.warnings else []
    plugin = Plugin(options, extra)
    pytest.main([*OPTIONS, "-s", *extra, *files], plugins=[plugin])
    for here in plugin.rooms:
        print(here.line(), flush=True)
    lived = any(fate != NOTICED for here in plugin.rooms for fate in here.fates["tests"].values())
    return 1 if lived else 0


if __name__ == "__main__":
    sys.exit(main())
