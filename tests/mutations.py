"""Mutation check: break one place of the library and see whether the claims notice, and whether the tests do.

    python tests/mutations.py                              # 30 places of every room, tests and claims apart
    python tests/mutations.py --room masks --count 1000 --seed 1
    python tests/mutations.py --processes 16 --budget 400 --report mutations.json      # goes on where it was stopped
    python tests/mutations.py --room deliberate            # the mistakes of tests/deliberate.py alone

What lives is a missing test, or a change without effect. One run of the unchanged checks records which of them execute
which line, in a file that lasts until the library changes. A mutant meets only those, its own room's before others, the
quickest first, until one fails that passes without the change. The sources stay as they are: a mutant is compiled in
memory, in a fork of a process that holds the checks.
"""

from __future__ import annotations

import argparse
import contextlib
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
from typing import Any

import hypothesis
import pytest
import torch

from deliberate import LISTS
from droptics.evidence import provenance
from mutants import (
    MODULES,
    ROOT,
    SOURCES,
    Changed,
    Compiled,
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
OPTIONS = [f"-pno:{name}" for name in ("cacheprovider", "xdist", "cov", "faulthandler", "benchmark")]
OPTIONS += ["-q", "--assert=plain", "--tb=no", "-m", "not slow", "-o", "addopts=--import-mode=importlib"]
OPTIONS += ["--rootdir", str(ROOT)]
PORTION = 40  # checks that one process runs
LONGEST = 20.0  # seconds of the longest check
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
    def again(self, names: Sequence[str], begin: Callable[[str], object]) -> bool:
        """Whether checks pass in modules that are imported anew; `begin` hears of each before it runs."""


class Quick:
    """Drawn examples are not made smaller, and may take their time; said after conftest.py, which says otherwise."""

    def pytest_sessionstart(self) -> None:
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        quick = hypothesis.settings(phases=phases, database=None, derandomize=True, deadline=None)
        hypothesis.settings.register_profile("mutations", quick)
        hypothesis.settings.load_profile("mutations")


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

    def again(self, names: Sequence[str], begin: Callable[[str], object]) -> bool:
        class Begin(Quick):
            def pytest_runtest_logstart(self, nodeid: str) -> None:
                begin(nodeid)

        files = [f"{ROOT}/{name}" for name in names]
        return int(pytest.main(["-x", *OPTIONS, *self.extra, *files], plugins=[Begin()])) == 0


class Claims(Suite):
    """The claims that `droptics verify` runs; a statement that is printed twice runs once."""

    name = "claims"

    def __init__(self) -> None:
        papers = importlib.import_module("droptics.papers")
        first = {(claim.check, claim.control): claim.id for claim in reversed(papers.claims()) if claim.check}
        self.names, self.verify = sorted(first.values()), papers.verify

    def passes(self, name: str) -> bool:
        return bool(self.verify(name)[0].agrees)

    def again(self, names: Sequence[str], begin: Callable[[str], object]) -> bool:
        verify = importlib.import_module("droptics.papers").verify
        for name in names:
            begin(name)
            if not verify(name)[0].agrees:
                return False
        return True


@dataclass(frozen=True)
class Run:
    """What one check did without any change: its seconds, and by module the lines that it executed, one bit each."""

    name: str
    seconds: float
    lines: dict[str, int]


@dataclass(frozen=True)
class Limits:
    """Mutants at a time, and when no more unchanged checks and no more mutants are started."""

    processes: int
    recorded: float
    end: float


def tell_lines() -> dict[str, set[int]]:
    """Let every function tell which of its lines it executes: by module the set that holds them."""
    seen: dict[str, set[int]] = {}
    compiled = {id(loop.py_func) for loop in live_loops()}
    for module, functions in live_functions().items():
        if functions:
            seen[module] = set()
            plain = [one for one in functions if id(one) not in compiled]
            if not swap(module, plain, marked(SOURCES[module])):
                told(f"not all lines of {module} can be recorded")
            functions[0].__globals__["_mark_"] = seen[module].add
    return seen


def record(suites: list[Suite], done: set[tuple[str, str]], limits: Limits, path: Path) -> int:
    """Run all checks but those that are done, several at a time, and append to a file which lines each executes.

    A check that fails, or that its limit ends, executes none.
    """
    seen = tell_lines()
    gc.freeze()
    waiting = []
    for suite in suites:
        names = [name for name in suite.names if (suite.name, name) not in done]
        parts = [(suite, names[start : start + PORTION]) for start in range(0, len(names), PORTION)]
        waiting += random.Random(0).sample(parts, len(parts))  # where time is short, some of every room
    numbers = itertools.count()
    running: dict[int, tuple[Suite, list[str], Path]] = {}
    while running or (waiting and time.monotonic() < limits.recorded):
        while waiting and len(running) < limits.processes and time.monotonic() < limits.recorded:
            suite, names = waiting.pop(0)
            own = path.with_name(f"{path.name}.{next(numbers)}")
            job = (suite, names, seen, own)
            running[_start(lambda job=job: write_lines(*job))] = suite, names, own  # type: ignore[misc]
        suite, names, own = running.pop(os.wait()[0])
        found = own.read_text() if own.exists() else ""
        own.unlink(missing_ok=True)
        ended = found.count("\n")
        if ended < len(names):  # the process ended in the middle of a check
            found += json.dumps([suite.name, names[ended], None, {}]) + "\n"
            waiting.insert(0, (suite, names[ended + 1 :]))
        with path.open("a") as whole:
            whole.write(found)
    return 0


def write_lines(suite: Suite, names: Sequence[str], seen: dict[str, set[int]], path: Path) -> int:
    """Run checks and write down their seconds and the lines that they execute; one that takes too long ends it."""
    for name in names:
        for lines in seen.values():
            lines.clear()
        start = time.process_time()
        _limit(LONGEST)
        passed = suite.passes(name)
        _limit(0)
        seconds = round(time.process_time() - start, 3) if passed else None
        reached = {module: sorted(lines) for module, lines in seen.items() if lines and passed}
        with path.open("a") as found:
            found.write(json.dumps([suite.name, name, seconds, reached]) + "\n")
    return 0


def reach(suites: list[Suite], limits: Limits, path: Path) -> dict[str, list[Run]]:
    """By suite the checks that pass before anything is changed, the quickest first; what the file holds is not run."""
    digest = hashlib.sha256("".join(SOURCES.values()).encode()).hexdigest()
    text = path.read_text() if path.exists() else ""
    whole = text[: text.rfind("\n") + 1]  # a last line may be torn
    path.write_text(whole if whole.startswith(digest) else digest + "\n")
    done = {(suite, name) for suite, name, *_ in _recorded(path)}
    _, status = os.waitpid(_start(lambda: record(suites, done, limits, path)), 0)
    assert status == 0, "the unchanged checks could not be run"
    runs: dict[str, list[Run]] = {suite.name: [] for suite in suites}
    known = {suite.name: set(suite.names) for suite in suites}
    for kind, name, seconds, lines in _recorded(path):
        if name in known.get(kind, set()):
            known[kind].remove(name)
            if seconds is None:
                print(f"left out, because unchanged it fails or takes too long: {name}", flush=True)
            else:
                runs[kind].append(Run(name, seconds, {module: _bits(part) for module, part in lines.items()}))
    print(f"left out for want of time: { ({kind: len(names) for kind, names in known.items()}) }", flush=True)
    return {name: sorted(found, key=lambda run: run.seconds) for name, found in runs.items()}


def _bits(lines: Iterable[int]) -> int:
    return sum(1 << line for line in set(lines))


def _recorded(path: Path) -> Iterator[tuple[str, str, float | None, dict[str, list[int]]]]:
    """The lines of a record after its first, which says of what."""
    for line in path.read_text().split("\n")[1:-1]:
        yield json.loads(line)


class Runner:
    """Tries mutants on the checks that reach them."""

    def __init__(self, suites: list[Suite], runs: dict[str, list[Run]], seconds: float) -> None:
        self.suites = {suite.name: suite for suite in suites}
        self.runs, self.seconds = runs, seconds
        self.functions, self.loops, self.sites = live_functions(), live_loops(), loop_sites()
        gc.freeze()  # children share these objects

    def compiled(self, mutant: Mutant | Defect) -> Compiled | None:
        """The compiled function with the change; None where it is in none."""
        for place, loop in self.sites.items():
            if place.startswith(f"{mutant.module}:") and mutant.lines is not None and mutant.lines.start in loop.lines:
                return loop
        return None

    def reaching(self, mutant: Mutant | Defect, suite: str) -> list[Run]:
        """Checks that execute the changed statement: those of its own room first, the quickest first."""
        loop = self.compiled(mutant)
        sites = {mutant.module: mutant.lines} if loop is None else loop.sites
        bits = {module: -1 if lines is None else _bits(lines) for module, lines in sites.items()}
        home = f"tests/{room(mutant.module)}/" if mutant.module.count(".") > 1 else "tests/test_"
        reached = (
            run for run in self.runs[suite] if any(run.lines.get(module, 0) & part for module, part in bits.items())
        )
        return sorted(reached, key=lambda run: not run.name.startswith(home))

    def within(self, runs: list[Run]) -> list[Run]:
        """The first checks that end within the seconds of a mutant together, one at least."""
        totals = itertools.accumulate(run.seconds for run in runs)
        return [run for i, (run, total) in enumerate(zip(runs, totals, strict=True)) if i == 0 or total <= self.seconds]

    def lives(self, mutant: Mutant | Defect, suite: str, chosen: list[Run], note: Path) -> bool:
        """Whether all chosen checks pass; to be called in a child process, which a hanging check ends.

        The note holds the name of the check that runs.
        """
        tree, again = mutant.tree(), 0
        note.write_text(chosen[0].name)
        if mutant.lines is None or not swap(mutant.module, self.functions[mutant.module], tree, mutant.lines):
            _limit(20 + 5 * sum(run.seconds for run in chosen))
            for name, loaded in list(sys.modules.items()):
                file = str(getattr(loaded, "__file__", ""))
                if name.startswith("droptics") or (name != "__main__" and file.startswith(str(ROOT / "tests"))):
                    del sys.modules[name]
            sys.meta_path.insert(0, Changed(mutant.module, tree))
            return self.suites[suite].again([run.name for run in chosen], note.write_text)
        if (loop := self.compiled(mutant)) is not None:
            recompile(self.loops, loop.holding)
            again = 60  # seconds that this may take
        for run in chosen:
            note.write_text(run.name)
            _limit(5 + again + 5 * run.seconds)
            if not self.suites[suite].passes(run.name):
                return False
        return True

    def fate(self, mutant: Mutant | Defect, suite: str, result: Path) -> int:
        """Write down which check notices a mutant: one that fails with the change and passes without it, run alike.

        To be called in a child process: the change is made in children of its own.
        """
        reached = self.reaching(mutant, suite)
        left = reached if isinstance(mutant, Defect) else self.within(reached)
        fate = f"lived {len(left)} of {len(reached)}" if reached else UNREACHED
        note, same = result.with_suffix(".note"), Mutant(mutant.module, (), 0, mutant.lines, "unchanged")
        while left and not _passes(lambda rest=left: self.lives(mutant, suite, rest, note)):  # type: ignore[misc]
            at = [run.name for run in left].index(note.read_text())
            if _passes(lambda run=left[at]: self.lives(same, suite, [run], note)):  # type: ignore[misc]
                fate, left = f"{NOTICED} by {left[at].name}", []
            else:
                left = left[at + 1 :]
        result.write_text(fate)
        note.unlink(missing_ok=True)
        return 0


def _passes(work: Callable[[], bool]) -> bool:
    """Whether something is true in a child process, which may also break off."""
    return os.waitpid(_start(lambda: 0 if work() else 1), 0)[1] == 0


def _limit(seconds: float) -> None:
    """End this process after so many seconds of work, or many times as many of waiting."""
    signal.setitimer(signal.ITIMER_PROF, seconds)
    signal.setitimer(signal.ITIMER_REAL, 6 * seconds)


WHERE = ("commit", "versions", "hardware", "checks")  # what a report says of each machine that worked on it
NOTICED, UNREACHED = "noticed", "not reached"


@dataclass
class Room:
    """The mutants of one room in the order in which they are tried, and by suite and place what became of them."""

    name: str
    found: int
    chosen: Sequence[Mutant | Defect]
    fates: dict[str, dict[str, str]] = field(default_factory=lambda: {"tests": {}, "claims": {}})
    commits: dict[str, str] = field(default_factory=dict)  # by place, where the mutant was tried

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

    def recall(self, known: dict[str, Any], commit: str, again: bool) -> None:
        """Take over what a report says, and draw only so many mutants more as complete the room.

        With `again` what lived is tried once more where its source is the same. Mutants of sources that have changed
        since stay as they were tried, and stand for as many of the new draw; so do not deliberate mistakes.
        """
        here = {place(mutant) for mutant in self.chosen}
        listed = self.name.startswith("deliberate")
        for suite, fates in known["fates"].items():
            others = [one for name, one in known["fates"].items() if name != suite]
            self.fates[suite] = {
                name: fate
                for name, fate in fates.items()
                if (name in here and (fate.startswith(NOTICED) or not again))
                or (name not in here and not listed and all(name in other for other in others))
            }
        tried = [name for fates in self.fates.values() for name in fates]
        self.commits = {name: known.get("commits", {}).get(name, commit) for name in tried}
        older = sum(name not in here for name in self.commits)
        self.chosen = self.chosen[: max(len(self.chosen) - older, 0)]

    def line(self) -> str:
        """How many mutants each suite noticed."""
        shares = []
        for suite, fates in self.fates.items():
            counts = Counter(fate.split(" by ")[0] for fate in fates.values())
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
    queue, running = _queue(rooms, runner.suites), dict[int, tuple[Room, str, str, Path]]()
    more, saved, numbers = True, time.monotonic(), itertools.count()
    with tempfile.TemporaryDirectory() as folder:
        while running or more:
            while more and len(running) < limits.processes:
                job = next(queue, None) if time.monotonic() < limits.end else None
                more = job is not None
                if job is not None:
                    here, mutant, suite = job
                    result = Path(folder) / str(next(numbers))
                    child = _start(lambda job=(mutant, suite, result): runner.fate(*job))  # type: ignore[misc]
                    running[child] = here, suite, place(mutant), result
            if running:
                child, status = os.wait()
                here, suite, name, result = running.pop(child)
                if status == 0:  # otherwise it is to be tried again
                    here.fates[suite][name] = result.read_text()
                    here.commits[name] = provenance.commit()
            if time.monotonic() > saved + 10:
                save()
                saved = time.monotonic()
    save()


class Plugin(Quick):
    """Replaces the run of the collected tests by the check."""

    def __init__(self, options: argparse.Namespace, extra: list[str]) -> None:
        self.options, self.extra = options, extra
        self.passing: dict[str, int] = {}
        self.earlier: list[dict[str, Any]] = []
        rooms = Room.all(options.count, options.seed)
        self.rooms = [here for here in rooms if not options.room or here.name in options.room]
        if options.report and options.report.exists():
            report = json.loads(options.report.read_text())
            known = report["rooms"]
            self.earlier = [*report["earlier"], {name: report[name] for name in WHERE}]
            for here in self.rooms:
                if here.name in known:
                    here.recall(known[here.name], report["commit"], options.again)

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        options, start = self.options, time.monotonic()
        limits = Limits(options.processes, start + min(options.record, options.budget / 2), start + options.budget)
        for name in MODULES:
            with contextlib.suppress(ImportError):  # what needs a library that is not here
                importlib.import_module(name)
        suites = [suite for suite in (Claims(), Tests(session.items, self.extra)) if suite.name in options.suite]
        runs = reach(suites, limits, options.reach)
        self.passing = {name: len(found) for name, found in runs.items()}
        print(f"{self.passing} pass without any change, {time.monotonic() - start:.0f} s", flush=True)
        runner = Runner(suites, runs, options.seconds)
        check(self.rooms, runner, limits, self.save)
        return True

    def save(self) -> None:
        path = self.options.report
        if path:
            told = {name: getattr(self.options, name) for name in ("count", "seed", "seconds")}
            rooms = {
                here.name: {"mutants": here.found, "fates": here.fates, "commits": here.commits} for here in self.rooms
            }
            now = {"commit": provenance.commit(), **provenance.here(), "checks": self.passing}
            earlier = [run for i, run in enumerate(self.earlier) if run not in [now, *self.earlier[:i]]]
            content = {**now, **told, "earlier": earlier, "rooms": rooms}
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
    parser.add_argument("--record", type=float, default=float("inf"), help="seconds of unchanged checks, half at most")
    parser.add_argument("--warnings", action="store_true", help="let warnings pass (libraries of other versions)")
    parser.add_argument("--report", type=Path, help="JSON file of what was found; what it holds is not tried again")
    parser.add_argument("--reach", type=Path, default=ROOT / ".reach", help="file of the lines that checks execute")
    parser.add_argument("--again", action="store_true", help="try once more what lived in the report")
    options = parser.parse_args()
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    torch.set_num_threads(1)
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
    lived = any(not fate.startswith(NOTICED) for here in plugin.rooms for fate in here.fates["tests"].values())
    return 1 if lived else 0


if __name__ == "__main__":
    sys.exit(main())
