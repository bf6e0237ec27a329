"""The page on how the library was tried: what `make fuzz`, `make kills` and `make mutate` left in their records."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from markup import table

INTRODUCTION = """# How it was tried

Two instruments attack every exact answer. **Metamorphic tests** change a problem in a way that an answer must not
notice or must follow in a known way: units of single features, outputs and hidden nodes (powers of two from -40 to 40),
order of examples, features, outputs and units, examples twice with half the weight, rotated outputs, float32 for
float64, second moments for the sample, a batch for one model, a GPU for the CPU. Every public function is a line of the
registry `tests/metamorphic/answers.py` or says there why it is not; a test fails if one is missing.

**`make fuzz`** draws random and degenerate instances (features that are zero, doubled, collinear, in units of 2^-40 to
2^40; one example, repeated ones; width one; rates of 0, 1e-9, 1 - 1e-6; float32; blocks; lists of masks) and compares
every answer with an independent one: all masks written out in extended precision, least squares by orthogonalization
over all masks, every support of a spectrum tried, networks found by search, convex programs solved by Clarabel within
its own gap and residuals. Otherwise the allowance is rounding: a small multiple
of the precision, times the numbers added, times what they would be if nothing cancelled, plus what the answer states as
its own error. A refusal is an answer that says it does not know. Instances are seeded; the shortest failing one is
printed as a program. The tests run a portion of it.

The record below holds the digest of the library that it was made with; after a change `make fuzz` begins anew, and
until it has run again the record is that of the version before.
"""
COVERAGE = """
## Intervals

Share of nominal 95 % Monte Carlo intervals (100 masks) that hold the true penalty, by rate; rounding included.
"""
KILLS = """
## Kills

`make kills` ends commands at random moments of their run, by SIGKILL or by an interrupt, runs them again to their end
in the same folder and compares with a run that nobody disturbed: the same bytes (but for times), no partial file.
"""
MUTANTS = """
## Deliberate defects

`make mutate` breaks one place of the library and runs the fast tests, and apart from them the claims of `droptics
verify`, that execute it, those of its own room before others and the quickest first, until one notices: it fails, or
takes many times as long as before, with the change, and passes without it. Places are drawn by a seed, as many from
every room: an operator, a comparison, a constant or a condition is another one, a call is dropped, two arguments
change places, nothing is returned. Messages, types and docstrings stay as they are, and programs of the GPU are left
to the tests on one. A mutant meets some seconds of tests and of claims. "Not reached" are places that no fast test,
or no claim, executes in its own process.
"""
DELIBERATE = """
The rows "deliberate" are mistakes of the kind that people make, written out in `tests/deliberate.py`, all lists but the
first before anything was run on them; they meet all checks that execute them.
"""
FRESH = """
### Fresh lists

Lists of deliberate mistakes as claims and tests met them first; nothing had been run on them before. The five of the
last table were written from the sources of the library alone, tests and claims unread: list 30 over all rooms, the
others in depth over some of them. Three files of tests that ask a convex solver could not be read where these five and
the sample above were tried, attacks/test_threat.py, linalg/test_linalg.py and test_norms.py, so that tests notice some
more than is told. They ran at a commit that was not kept; the records name the one whose library is the same, by the
digests of all files in them.
"""
SURVIVORS = """
### Survivors

What neither a fast test nor a claim noticed, and why, as it was read: **equivalent** changes give the same answer,
**speed** changes only how long it takes, **rounding** moves an allowance for rounding, **words** are titles, bars and
hints that no test compares, **elsewhere** is what slow tests, other processes or a GPU execute, **choice** is a
number of a rule of thumb, a picture or a generator that could as well be another, **printed** is a number of a paper
that stands in one place, **guard** is a refusal that something behind it makes as well, **unfinished** met only the
tests that fit into its seconds, **dead** code has no use yet, and a **hole** is a test that is missing, or was until
it was found here.
"""


def mutants_lines(record: Path) -> list[str]:
    """The record of mutants as Markdown, with the reasons of those that lived; nothing where there is none."""
    if not record.exists():
        return []
    found = json.loads(record.read_text(encoding="utf-8"))
    read = record.with_name("survivors.json")
    kinds: dict[str, dict[str, str]] = json.loads(read.read_text(encoding="utf-8")) if read.exists() else {}
    reasons = {mutant: {"kind": kind, "why": why} for kind, part in kinds.items() for mutant, why in part.items()}
    lived = [
        {"place": mutant, **reasons.get(mutant, {"kind": "not read yet", "why": ""})}
        for part in found["rooms"].values()
        for mutant in part["fates"]["tests"]
        if not _either(part["fates"], mutant)
    ]
    deliberate = [DELIBERATE] if any(name.startswith("deliberate") for name in found["rooms"]) else []
    lines = [MUTANTS, *deliberate, *_shares(found), f"The record is `results/{record.name}`."]
    for number, first in enumerate(sorted(record.parent.glob("mutations-first-*.json"))):
        lines += [FRESH] * (number == 0) + ["", *_shares(json.loads(first.read_text(encoding="utf-8")))]
    counts = Counter(row["kind"] for row in lived)
    told = f"{len(lived)} survivors: {', '.join(f'{kind} {count}' for kind, count in counts.most_common())}."
    return [*lines, SURVIVORS, told, "", *table(lived)]


def _shares(found: Mapping[str, Any]) -> list[str]:
    """The table of what was noticed in every room, with where and how it was tried."""
    rooms = {name: part["fates"] for name, part in found["rooms"].items()}
    drawn = [part for name, part in rooms.items() if not name.startswith("deliberate")]
    many = ""
    if drawn:
        rooms["all rooms"] = {suite: {k: v for part in drawn for k, v in part[suite].items()} for suite in drawn[0]}
        sizes = [part["mutants"] for name, part in found["rooms"].items() if not name.startswith("deliberate")]
        whole = sum(min(size, found["count"]) for size in sizes)
        many = f"{len(rooms['all rooms']['tests']):,} of {whole:,} mutants drawn by seed {found['seed']} were tried"
        many += f"{_by_commit(found)}; "
    where = [
        f"{run['hardware']['machine']}, Python {run['versions']['python']}, torch {run['versions']['torch']}, "
        f"commit {run['commit']}: {run['checks']['tests']:,} tests and {run['checks']['claims']:,} claims"
        for run in [*found.get("earlier", ()), found]
    ]
    return [*table(_noticed(name, part) for name, part in rooms.items()), "", f"{many}{'; '.join(where)}."]


def _by_commit(found: Mapping[str, Any]) -> str:
    """How many mutants were tried at which commit; those of a room that changed later keep the names they had there."""
    tried = [part for name, part in found["rooms"].items() if not name.startswith("deliberate")]
    counts = Counter(part.get("commits", {}).get(one) for part in tried for one in part["fates"]["tests"])
    told = ", ".join(f"{count:,} at {commit}" for commit, count in counts.items() if commit)
    return f" ({told}; places are named as they stood there)" if told else ""


def _noticed(name: str, fates: Mapping[str, Mapping[str, str]]) -> dict[str, Any]:
    """How many mutants of a room each kind of check noticed."""
    tests, claims = fates["tests"], fates["claims"]
    either = sum(_either(fates, mutant) for mutant in tests)
    return {
        "room": name,
        "tried": len(tests),
        **{kind: _share(part) for kind, part in (("tests notice", tests), ("claims notice", claims))},
        "either": f"{either / max(len(tests), 1):.0%}",
    }


def _either(fates: Mapping[str, Mapping[str, str]], mutant: str) -> bool:
    return any(part.get(mutant, "").startswith("noticed") for part in fates.values())


def _share(fates: Mapping[str, str]) -> str:
    counts = [sum(fate.startswith(kind) for fate in fates.values()) for kind in ("noticed", "not reached")]
    return f"{counts[0] / max(len(fates), 1):.0%}" + (f" ({counts[1]} not reached)" if counts[1] else "")


def kills_lines(record: Path) -> list[str]:
    """The record of killed commands as Markdown; nothing where there is none."""
    if not record.exists():
        return []
    found = json.loads(record.read_text(encoding="utf-8"))
    rows = (
        {"command": name, **{key: str(number) for key, number in met.items()}}
        for name, met in found["commands"].items()
    )
    place, versions = found["hardware"], found["versions"]
    where = f"{place['machine']}, {place['cores']} cores, Python {versions['python']}, torch {versions['torch']}"
    end = f"{found['kills']} kills, {len(found['faults'])} faults; {where}, commit {found['commit'] or 'unknown'}."
    return [KILLS, *table(rows), "", f"{end} The record is `results/{record.name}`."]


def tried_page(record: Path) -> str:
    """The summary of a record as Markdown, with that of the kills beside it."""
    found: Mapping[str, Any] = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    exact = {name: item for name, item in found.items() if not item["covered"]}
    rows = [
        {
            "routine": name,
            "instances": f"{item['tried']:,}",
            "refused": f"{item['refused']:,}",
            "disagree": f"{item['disagreed']:,}",
            "largest error / allowed": f"{item['worst']:.2g}",
            "largest relative error": f"{item['relative']:.1e}",
        }
        for name, item in exact.items()
    ]
    lines = [INTRODUCTION, "## Answers", "", *table(rows)]
    sampled = {name: item for name, item in found.items() if item["covered"]}
    lines += [COVERAGE, *table(_covered(name, item) for name, item in sampled.items())]
    seeds = sorted({item["seed"] for item in found.values()})
    lines += ["", f"Seeds: {', '.join(map(str, seeds)) or 'none'}. The record is `results/{record.name}`."]
    lines += kills_lines(record.with_name("kills.json"))
    lines += mutants_lines(record.with_name("mutations.json"))
    return "\n".join(lines) + "\n"


def _covered(name: str, item: Mapping[str, Any]) -> dict[str, str]:
    shares = {rate: item["covered"][rate] for rate in sorted(item["covered"], key=float)}
    cells = {f"{float(rate):g}": f"{hits / total:.1%}" for rate, (hits, total) in shares.items()}
    return {"routine": name, "instances": f"{item['tried']:,}", **cells}
