"""Run every race, each script in a process of its own on one thread, and print the one table; `make bench` calls this.

    python benchmarks/run.py                 all races: about an hour on one core
    python benchmarks/run.py optima heads    some of them
    python benchmarks/run.py rates           a study: hours of training behind a page of the docs
    python benchmarks/run.py --list          what there is, and which alternatives are installed
    python benchmarks/run.py --record        keep what is measured as the record in benchmarks/results

What is measured goes to benchmarks/measured: another machine's numbers leave the record alone. Every kind of machine
has a record of its own (harness.py), and `python benchmarks/standings.py OLD NEW` compares two of them.

A script that fails does not stop the others; the exit status tells. Where an alternative, a GPU or a data set is
absent, its rows are listed as not measured. On a machine with a GPU the same scripts measure there too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import torch

from harness import RECORDED
from standings import losses, standings, text

HERE = Path(__file__).parent
ALTERNATIVES = {
    "cvxpy": "cvxpy",
    "cmfrec": "cmfrec",
    "implicit": "implicit",
    "surprise": "scikit-surprise",
    "foolbox": "foolbox",
    "torchattacks": "torchattacks",
    "art": "adversarial-robustness-toolbox",
}
# Tables behind pages of the docs, which promise no speed: they train networks for hours and are run by name.
STUDIES = (
    "audit_models",
    "certified",
    "ranking",
    "rates",
    "recommenders_accuracy",
    "recommenders_large",
    "robustness",
    "stack",
)


def scripts() -> dict[str, Path]:
    """The benchmarks by name; the ceilings of the machine first."""
    found = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    return {"ceilings": found.pop("ceilings"), **found}


def absent() -> list[str]:
    """Packages of alternatives that are not installed."""
    return [package for module, package in ALTERNATIVES.items() if find_spec(module) is None]


def run(path: Path, record: bool) -> bool:
    """Whether the script ran to its end."""
    print(f"\n== {path.name}", flush=True)
    begin = time.perf_counter()
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    environment = {**os.environ, **threads, "DROPTICS_RECORD": str(int(record))}
    done = subprocess.run([sys.executable, path], env=environment, cwd=HERE.parent, check=False)
    print(f"-- {path.name}: {time.perf_counter() - begin:.0f} s, exit status {done.returncode}", flush=True)
    return done.returncode == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="which benchmarks; all races by default")
    parser.add_argument("--list", action="store_true", help="say what there is and run nothing")
    parser.add_argument("--record", action="store_true", help="write to benchmarks/results, the record")
    options = parser.parse_args()
    results = RECORDED if options.record else HERE / "measured"
    known = scripts()
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}; there are {', '.join(known)}")
    for package in absent():
        print(f"{package} is not installed: its rows are not measured (make bench installs it)")
    if options.list:
        print("\n".join(f"{name} (a study)" if name in STUDIES else name for name in known))
        return 0
    begin = time.time()
    races = [name for name in known if name not in STUDIES]
    chosen = options.names or [name for name in races if torch.cuda.is_available() or not name.endswith("_gpu")]
    failed = [name for name in chosen if not run(known[name], options.record)]
    found = list(standings(results))
    old = {s.aim.file for s in found if s.row and (results / f"{s.aim.file}.json").stat().st_mtime < begin}
    print("\n" + text(found))
    if old:
        print(f"\nMeasured earlier, not in this run: {', '.join(sorted(old))}")
    missing = [f"{s.aim.task} against {s.aim.against}" for s in found if s.row is None]
    if missing:
        print("\nNot measured (an alternative, a GPU or a data set is absent):", *missing, sep="\n- ")
    if not options.record:
        print(
            "\nAgainst the record of this kind of machine:",
            *(losses(RECORDED, results) or ["nothing lost"]),
            sep="\n- ",
        )
    if failed:
        print(f"\nFailed: {', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
