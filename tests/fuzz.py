"""Try every routine on random and degenerate instances against independent oracles; run by `make fuzz`.

What was tried is kept in a file and not tried again: a run that was killed goes on where it was. A change of the
library or of the instrument starts the routine anew. The shortest failing instance of every routine is printed as a
program.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from fuzzing.routines import ROUTINES
from fuzzing.running import ROOT, Record, instance_of, load, run, shortest, source, store


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--routine", action="append", choices=sorted(ROUTINES), help="all by default")
    parser.add_argument("--count", type=int, default=10_000, help="instances a routine")
    parser.add_argument("--seed", type=int, default=0, help="which instances")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long; run again to go on")
    parser.add_argument("--processes", type=int, default=1, help="worker processes; the record does not depend on them")
    parser.add_argument("--state", type=Path, default=ROOT / "results" / "tried.json", help="what was tried so far")
    parser.add_argument("--index", type=int, help="try this one instance of the routine and print it")
    options = parser.parse_args()
    torch.set_num_threads(1)
    names = options.routine or list(ROUTINES)
    if options.index is not None:
        routine = ROUTINES[names[0]]
        found, message = shortest(routine, instance_of(routine, options.seed, options.index))
        print(f"# {message or 'agrees'}\n{found.code(routine.question)}")
        return int(bool(message))
    records, digest = load(options.state), source()
    for name in names:
        known = records.get(name)
        if known is None or known.source != digest or known.seed != options.seed:
            records[name] = Record(digest, options.seed)

    def save(name: str) -> None:
        store(options.state, records)
        if records[name].tried == options.count:
            print(line(name, records[name]), flush=True)

    run({name: records[name] for name in names}, options.count, save, options.seconds, options.processes)
    for name in names:
        if records[name].failures:
            first = records[name].failures[0]
            found, message = shortest(ROUTINES[name], instance_of(ROUTINES[name], options.seed, first["index"]))
            print(
                f"# {name}, instance {first['index']}: {message}\n{found.code(ROUTINES[name].question)}\n", flush=True
            )
    unfinished = [name for name in names if records[name].tried < options.count]
    if unfinished:
        print(f"not finished: {', '.join(unfinished)}; the same command goes on")
    return int(any(records[name].disagreed for name in names))


def line(name: str, record: Record) -> str:
    """A routine in one line."""
    text = f"{name}: {record.tried} tried, {record.refused} refused, {record.disagreed} disagree"
    if record.covered:
        least = min(hits / total for hits, total in record.covered.values())
        hits, total = (sum(pair[i] for pair in record.covered.values()) for i in (0, 1))
        return f"{text}, cover {hits / total:.2%}, least {least:.2%} at one rate"
    return f"{text}, worst {record.worst:.2g} of what is allowed, {record.relative:.1e} relative"


if __name__ == "__main__":
    sys.exit(main())
