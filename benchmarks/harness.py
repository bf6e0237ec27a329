"""How every benchmark is measured: CPU time on one thread, methods interleaved, medians of per-repeat ratios."""

from __future__ import annotations

import json
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

RESULTS = Path(__file__).parent / "results"
PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "cvxpy",
    "foolbox",
    "torchattacks",
    "implicit",
    "cmfrec",
)


@dataclass(frozen=True)
class Row:
    """One line of a table: seconds of both sides, how many times faster ours is, how well the results agree."""

    workload: str
    ours: float
    alternative: float
    ratio: float
    agreement: str
    note: str = ""


def compare(
    ours: Callable[[], object], alternative: Callable[[], object], repeats: int = 5, number: int = 1
) -> tuple[float, float, float]:
    """Median CPU seconds of both sides and the median of the per-repeat ratios; each side is warmed up once.

    `number` calls are timed together when one call is too short for the clock.
    """
    ours()
    alternative()
    pairs = [(_seconds(ours, number), _seconds(alternative, number)) for _ in range(repeats)]
    return (
        statistics.median(first for first, _ in pairs),
        statistics.median(second for _, second in pairs),
        statistics.median(second / first for first, second in pairs),
    )


def _seconds(call: Callable[[], object], number: int) -> float:
    start = time.process_time()
    for _ in range(number):
        call()
    return max(time.process_time() - start, 1e-9) / number


def report(name: str, rows: list[Row]) -> Path:
    """Print the table and write it with hardware and versions to results/<name>.json."""
    width = max(len(row.workload) for row in rows)
    print(f"{'workload':<{width}}  {'ours':>10}  {'alternative':>11}  {'ratio':>9}  agreement")
    for row in rows:
        line = f"{row.workload:<{width}}  {row.ours:>9.4g}s  {row.alternative:>10.4g}s  {row.ratio:>8.3g}x"
        print(f"{line}  {row.agreement}{'  (' + row.note + ')' if row.note else ''}")
    return write(name, {"rows": [asdict(row) for row in rows]})


def write(name: str, content: dict[str, object]) -> Path:
    """Write a result file with hardware and versions, replacing the old one atomically."""
    RESULTS.mkdir(exist_ok=True)
    target = RESULTS / f"{name}.json"
    content = {"machine": platform.machine(), "cores": os.cpu_count(), "versions": _versions(), **content}
    with tempfile.NamedTemporaryFile("w", dir=RESULTS, suffix=".tmp", delete=False) as handle:
        json.dump(content, handle, indent=1)
        handle.write("\n")
    os.replace(handle.name, target)
    return target


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
