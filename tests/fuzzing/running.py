"""Trying a routine on many instances: seeded, saved on the way, and the shortest failing instance as code."""

from __future__ import annotations

import hashlib
import json
import math
import sys
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch

from droptics.errors import CertificateError, NoClosedForm
from fuzzing.checks import Check
from fuzzing.instances import Instance, smaller
from fuzzing.programs import Unsolved
from fuzzing.routines import ROUTINES, Routine

ROOT = Path(__file__).parents[2]
# failures that are written down; the others are counted
KEPT = 20
# instances between two saves, and of one turn of a worker
PORTION = 25


@dataclass
class Record:
    """What became of the instances of a routine so far."""

    source: str
    seed: int
    tried: int = 0
    refused: int = 0
    disagreed: int = 0
    failures: list[dict[str, Any]] = field(default_factory=list)
    # the largest error in units of what was allowed, and relative to the numbers that were added
    worst: float = 0.0
    relative: float = 0.0
    covered: dict[str, list[int]] = field(default_factory=dict)

    def add(self, more: Record) -> None:
        """Join what was tried next."""
        self.tried += more.tried
        self.refused += more.refused
        self.disagreed += more.disagreed
        self.failures = [*self.failures, *more.failures][:KEPT]
        self.worst, self.relative = max(self.worst, more.worst), max(self.relative, more.relative)
        for rate, pair in more.covered.items():
            known = self.covered.get(rate, [0, 0])
            self.covered[rate] = [known[0] + pair[0], known[1] + pair[1]]


def source() -> str:
    """A digest of everything that decides the outcome: the instrument, and the files of the library that it runs.

    No function of the library imports by itself, so that one instance of every routine loads them all.
    """
    for routine in ROUTINES.values():
        tried(routine, 0, 0, 1)
    modules = {name: module.__file__ for name, module in sys.modules.items() if name.split(".")[0] == "droptics"}
    instrument = {path.name: path for path in (ROOT / "tests" / "fuzzing").glob("*.py")}
    digest = hashlib.sha256()
    for name, path in sorted({**modules, **instrument}.items()):
        digest.update(name.encode() + Path(path).read_bytes())
    return digest.hexdigest()[:16]


def instance_of(routine: Routine, seed: int, index: int) -> Instance:
    """The same for the same numbers, whatever ran before."""
    return routine.draw(np.random.default_rng([seed, zlib.crc32(routine.name.encode()), index]))


def judged(routine: Routine, instance: Instance) -> tuple[list[Check], str]:
    """The comparisons, and in words what is wrong; "refused" where library or solver say that they do not know."""
    try:
        with np.errstate(all="ignore"):
            checks = routine.check(instance)
    except (NoClosedForm, CertificateError, Unsolved) as error:
        return [], f"refused: {error}"
    except Exception as error:
        return [], f"{type(error).__name__}: {error}"
    wrong = [f"{c.name} off by {c.error:.3g}, allowed {c.allowed:.3g} at size {c.size:.3g}" for c in checks if c.wrong]
    return checks, "; ".join(wrong)


def tried(routine: Routine, seed: int, begin: int, end: int) -> Record:
    """What became of some instances of a routine."""
    record = Record("", seed)
    for index in range(begin, end):
        instance = instance_of(routine, seed, index)
        checks, message = judged(routine, instance)
        if message.startswith("refused"):
            record.refused += 1
        elif routine.group is not None and (not message or checks):
            hits = record.covered.setdefault(routine.group(instance), [0, 0])
            hits[0] += not message
            hits[1] += 1
        elif message:
            record.disagreed += 1
            record.failures.append({"index": index, "message": message})
        if routine.group is None:
            for check in checks:
                if check.error > 0 and check.allowed > 0 and check.size > 0:
                    record.worst = max(record.worst, check.error / check.allowed)
                    if check.name != "stated":
                        record.relative = max(record.relative, check.error / check.size)
        record.tried += 1
    return record


def _portion(name: str, seed: int, begin: int, end: int) -> Record:
    """What a worker does; routines are known by name on both sides."""
    torch.set_num_threads(1)
    return tried(ROUTINES[name], seed, begin, end)


def run(
    records: dict[str, Record], count: int, save: Callable[[str], None], seconds: float = math.inf, processes: int = 1
) -> None:
    """Try instances of all routines until there are `count` of each; `save` is called after every portion.

    Portions are joined in their order whoever is done first, so that a record is that of the first instances of its
    routine, and the same for any number of processes.
    """
    portions = [
        (name, record.seed, begin, min(begin + PORTION, count))
        for name, record in records.items()
        for begin in range(record.tried, count, PORTION)
    ]
    end = time.monotonic() + seconds
    with ProcessPoolExecutor(processes, get_context("spawn")) if processes > 1 else nullcontext() as pool:
        found = (_portion(*portion) for portion in portions) if pool is None else _in_order(pool, portions, processes)
        for (name, *_), part in zip(portions, found, strict=True):
            records[name].add(part)
            save(name)
            if time.monotonic() > end:
                break
        if pool is not None:
            pool.shutdown(cancel_futures=True)


def _in_order(pool: ProcessPoolExecutor, portions: list[tuple[str, int, int, int]], ahead: int) -> Iterator[Record]:
    """Results in the order of the portions, a few of them under way at any time."""
    waiting: deque[Future[Record]] = deque()
    for portion in portions:
        waiting.append(pool.submit(_portion, *portion))
        if len(waiting) > 4 * ahead:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def shortest(routine: Routine, instance: Instance, tries: int = 400) -> tuple[Instance, str]:
    """The simplest instance found that still fails, and how."""
    message = judged(routine, instance)[1]
    again = True
    while again and tries > 0:
        again = False
        for simpler in smaller(instance):
            tries -= 1
            try:
                found = judged(routine, simpler)[1]
            except Exception:
                found = ""
            if found and not found.startswith("refused") and found.split(" ")[0] == message.split(" ")[0]:
                instance, message, again = simpler, found, True
                break
            if tries <= 0:
                break
    return instance, message


def load(path: Path) -> dict[str, Record]:
    if not path.exists():
        return {}
    return {name: Record(**content) for name, content in json.loads(path.read_text()).items()}


def store(path: Path, records: dict[str, Record]) -> None:
    """Replace the file in one step."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".part")
    fresh.write_text(json.dumps({name: vars(record) for name, record in sorted(records.items())}, indent=1) + "\n")
    fresh.replace(path)
