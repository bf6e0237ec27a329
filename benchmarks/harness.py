"""How every benchmark is measured: CPU time on one thread, methods interleaved, medians of per-repeat ratios.

On a GPU the clock is wall time with synchronization, and a ratio counts only when both sides ran in one call.
"""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# One record per kind of machine, side by side on the page; the first is what README and promises are about.
REFERENCE = "aarch64"
RECORDED = Path(__file__).parent / "results"
if platform.machine() != REFERENCE:
    RECORDED = RECORDED / platform.machine().lower()
# What this machine measured stays beside the record, which belongs to one machine; `run.py --record` writes there.
RESULTS = RECORDED if os.environ.get("DROPTICS_RECORD") == "1" else Path(__file__).parent / "measured"
PACKAGES = (
    "torch",
    "numpy",
    "scipy",
    "scikit-learn",
    "numba",
    "cvxpy",
    "foolbox",
    "torchattacks",
    "torch-uncertainty",
    "adversarial-robustness-toolbox",
    "implicit",
    "cmfrec",
    "scikit-surprise",
    "optuna",
    "triton",
)


@dataclass(frozen=True)
class Row:
    """One line of a table: seconds of both sides, how many times faster ours is, how well the results agree.

    `floor` is the least time in seconds that the work we count allows on this machine, where a script knows it; floors
    that follow from operation counts are in aims.py. Numbers are None in a row that could not be measured.
    """

    workload: str
    ours: float | None
    alternative: float | None
    ratio: float | None
    agreement: str
    note: str = ""
    floor: float | None = None


def absent(workload: str, package: str) -> Row:
    """The row of a comparison that cannot be measured here, so that the table says so."""
    return Row(workload, None, None, None, "", f"not measured: {package} is not installed (pip install '.[bench]')")


def compare(
    ours: Callable[[], object], alternative: Callable[[], object], repeats: int = 5, number: int = 1
) -> tuple[float, float, float]:
    """Median CPU seconds of both sides and the median of the per-repeat ratios; each side is warmed up once.

    `number` calls are timed together when one call is too short for the clock. An alternative that is timed once takes
    too long for a warm start to matter; ours is then the median of three.
    """
    ours()
    if repeats == 1:
        mine, other = statistics.median(_seconds(ours, number) for _ in range(3)), _seconds(alternative, number)
        return _told(mine, other, other / mine)
    alternative()
    pairs = [(_seconds(ours, number), _seconds(alternative, number)) for _ in range(repeats)]
    return _told(
        statistics.median(first for first, _ in pairs),
        statistics.median(second for _, second in pairs),
        statistics.median(second / first for first, second in pairs),
    )


def _told(ours: float, alternative: float, ratio: float) -> tuple[float, float, float]:
    """What was just measured, on the terminal as well: tables come at the end, minutes later."""
    print(f"   {ours:.3g} s, alternative {alternative:.3g} s: {ratio:.3g}x", flush=True)
    return ours, alternative, ratio


def in_turn(name: str, parts: Mapping[str, Callable[[], list[Row]]]) -> Path:
    """Report several parts, each announced with the time that the earlier ones took.

    Rows are written when their part is done, so that a run that is cut off leaves them beside the older ones of the
    parts it did not reach; a whole run leaves its own rows alone.
    """
    rows: list[Row] = []
    begin = time.perf_counter()
    for number, (label, part) in enumerate(parts.items(), 1):
        print(f"{label}: part {number} of {len(parts)}, after {time.perf_counter() - begin:.0f} s", flush=True)
        found = part()
        merge(name, found)
        rows += found
    return report(name, rows)


def _seconds(call: Callable[[], object], number: int) -> float:
    start = time.process_time()
    for _ in range(number):
        call()
    return max(time.process_time() - start, 1e-9) / number


def several(call: Callable[[], object], number: int) -> Callable[[], None]:
    """`number` calls as one, for calls too short for the clock; results are let go, so that memory is used again."""

    def run() -> None:
        for _ in range(number):
            call()

    return run


def clock(device: object = "cpu") -> float:
    """CPU seconds of this process, or, for a CUDA device, wall seconds once all its work is done."""
    if not str(device).startswith("cuda"):
        return time.process_time()
    import torch  # noqa: PLC0415 - the number of threads must be set before it loads

    torch.cuda.synchronize()
    return time.perf_counter()


def interleaved(
    calls: Mapping[str, Callable[[], object]], repeats: int, device: object = "cpu"
) -> dict[str, list[float]]:
    """Seconds of every call in every repeat, in turns; all have been called before."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, call in calls.items():
            begin = clock(device)
            call()
            found[name].append(max(clock(device) - begin, 1e-9))
    return found


def seconds_of(call: Callable[[], object], device: object = "cpu", repeats: int = 5) -> list[float]:
    """Seconds of each repeat, after one call to warm up."""
    call()
    found = []
    for _ in range(repeats):
        begin = clock(device)
        call()
        found.append(max(clock(device) - begin, 1e-9))
    return found


def report(name: str, rows: list[Row], device: object = "cpu") -> Path:
    """Print the table and write it with hardware and versions to results/<name>.json."""
    show(rows)
    return write(name, {**_where(device), "rows": [asdict(row) for row in rows]})


def _where(device: object) -> dict[str, object]:
    if not str(device).startswith("cuda"):
        return {}
    import torch  # noqa: PLC0415 - the number of threads must be set before it loads

    return {"device": torch.cuda.get_device_name()}


def merge(name: str, rows: list[Row], device: object = "cpu") -> Path:
    """Like `report`, for a part of the table: rows of the same workload are replaced in place, the others stay."""
    show(rows)
    file = RESULTS / f"{name}.json"
    recorded = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {"rows": [], "versions": {}}
    fresh = {row.workload: asdict(row) for row in rows}
    known = [row["workload"] for row in recorded["rows"]]
    found = [fresh.get(row["workload"], row) for row in recorded["rows"]]
    found += [row for workload, row in fresh.items() if workload not in known]
    # what the other rows ran against stays named
    return write(name, {**_where(device), "versions": recorded["versions"] | _versions(), "rows": found})


def show(rows: list[Row]) -> None:
    """Print rows in columns."""
    width = max((len(row.workload) for row in rows), default=0)
    print(f"{'workload':<{width}}  {'ours':>10}  {'alternative':>11}  {'ratio':>9}  agreement")
    for row in rows:
        cells = (f"{_text(row.ours, 4):>9}s", f"{_text(row.alternative, 4):>10}s", f"{_text(row.ratio, 3):>8}x")
        note = f"  ({row.note})" if row.note else ""
        print("  ".join((f"{row.workload:<{width}}", *cells, row.agreement)) + note, flush=True)


def _text(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}g}"


def write(name: str, content: dict[str, object]) -> Path:
    """Write a result file with hardware and versions, replacing the old one atomically."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    target = RESULTS / f"{name}.json"
    where = {"machine": platform.machine(), "cores": os.cpu_count(), "processor": processor()}
    content = {**where, "versions": _versions(), **content}
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=RESULTS, suffix=".tmp", delete=False) as handle:
        json.dump(content, handle, indent=1)
        handle.write("\n")
    os.replace(handle.name, target)
    return target


def processor() -> str:
    """What the processor calls itself: machines of one kind differ."""
    file = Path("/proc/cpuinfo")
    found = re.search(r"model name\s*: (.*)", file.read_text(encoding="utf-8")) if file.exists() else None
    return found[1] if found else platform.processor()


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
