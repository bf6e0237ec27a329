"""Trying a routine on many instances: seeded, saved on the way, and the shortest failing instance as code."""

from __future__ import annotations

import hashlib
import json
import time
import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from droptics.errors import CertificateError, NoClosedForm
from fuzzing.checks import Check
from fuzzing.instances import Instance, smaller
from fuzzing.routines import Routine

ROOT = Path(__file__).parents[2]
# failures that are written down; the others are counted
KEPT = 20


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


def source() -> str:
    """A digest of everything that decides the outcome: the library and the instrument."""
    digest = hashlib.sha256()
    for folder in (ROOT / "src" / "droptics", ROOT / "tests" / "fuzzing"):
        for path in sorted(folder.rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def instance_of(routine: Routine, seed: int, index: int) -> Instance:
    """The same for the same numbers, whatever ran before."""
    return routine.draw(np.random.default_rng([seed, zlib.crc32(routine.name.encode()), index]))


def judged(routine: Routine, instance: Instance) -> tuple[list[Check], str]:
    """The comparisons, and in words what is wrong; ("refused") where the library says that it does not know."""
    try:
        with np.errstate(all="ignore"):
            checks = routine.check(instance)
    except (NoClosedForm, CertificateError) as error:
        return [], f"refused: {error}"
    except Exception as error:
        return [], f"{type(error).__name__}: {error}"
    wrong = [f"{c.name} off by {c.error:.3g}, allowed {c.allowed:.3g} at size {c.size:.3g}" for c in checks if c.wrong]
    return checks, "; ".join(wrong)


def run(routine: Routine, record: Record, count: int, save: Any, seconds: float = float("inf")) -> None:
    """Try instances until there are `count` of them; `save` is called now and then."""
    start = saved = time.monotonic()
    while record.tried < count and time.monotonic() < start + seconds:
        instance = instance_of(routine, record.seed, record.tried)
        checks, message = judged(routine, instance)
        if message.startswith("refused"):
            record.refused += 1
        elif routine.group is not None and (not message or checks):
            hits = record.covered.setdefault(routine.group(instance), [0, 0])
            hits[0] += not message
            hits[1] += 1
        elif message:
            record.disagreed += 1
            if len(record.failures) < KEPT:
                record.failures.append({"index": record.tried, "message": message})
        if routine.group is None:
            for check in checks:
                if check.error > 0 and check.allowed > 0 and check.size > 0:
                    record.worst = max(record.worst, check.error / check.allowed)
                    if check.name != "stated":
                        record.relative = max(record.relative, check.error / check.size)
        record.tried += 1
        if time.monotonic() > saved + 5:
            save()
            saved = time.monotonic()
    save()


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
