"""Kill commands at random times, run them again, and compare with the run that nobody disturbed; `make kills`.

Every command runs in a process of its own and is ended by SIGKILL or SIGINT at a random moment, then run again to its
end in the same folder. What it leaves must be the same, byte for byte, as what an undisturbed run leaves (but for times
and for how many cells were resumed), and no partial file may stay.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

NETS = """
import torch
from torch import nn

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
"""
TRAIN = """
import torch
from droptics import Bernoulli, Dropout, Sample, TwoLayerLinear, train
from droptics.files.arrays import write_tensors
from droptics.training import Checkpoint
g = torch.Generator().manual_seed(0)
draw = lambda *shape: torch.randn(*shape, generator=g, dtype=torch.float64)
run = train(TwoLayerLinear(draw(3, 5), draw(4, 5)), Sample(draw(30, 4), draw(30, 3)), Dropout(Bernoulli(0.5, 5)),
            steps=3000, step_size=0.01, seed=1, checkpoint=Checkpoint("out/run.safetensors", 0.05))
write_tensors("out/model.safetensors", {"U": run.model.U, "V": run.model.V})
"""


@dataclass(frozen=True)
class Job:
    """A command and what of its results may differ between two runs."""

    arguments: tuple[str, ...]
    plain: Callable[[Path], object] = lambda path: path.read_bytes()


def _manifest(path: Path) -> object:
    if path.suffix != ".json":
        return path.read_bytes()
    content = json.loads(path.read_text())
    changing = ("finished", "seconds", "place", "places", "commit")
    return {key: value for key, value in content.items() if key not in changing}


def _model(path: Path) -> object:
    """A saved completion without the seconds that its sweeps took."""
    from droptics.recommenders.saving import read

    arrays, facts = read(path)
    return {name: array.tobytes() for name, array in arrays.items()}, _timeless(facts)


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {key: _timeless(entry) for key, entry in value.items() if key != "seconds"}
    return [_timeless(entry) for entry in value] if isinstance(value, list) else value


DROPTICS = ("-m", "droptics")
JOBS = {
    "reproduce": Job((*DROPTICS, "reproduce", "mianjy2018-fig1", "--out", "out"), _manifest),
    "complete": Job(
        (*DROPTICS, "complete", "r.csv", "--width", "3", "--sweeps", "3", "--out", "out/m.safetensors"), _model
    ),
    "verify": Job((*DROPTICS, "verify", "pal2020-eq7", "--pages", "out")),
    "attack": Job((*DROPTICS, "attack", "net.safetensors", "--data", "labels.npz", "--out", "out/found.safetensors")),
    "audit": Job((*DROPTICS, "audit", "nets:net", "--data", "labels.npz", "--html", "out/report.html")),
    "train": Job(("train.py",)),
}


def prepare(folder: Path) -> None:
    """The inputs of every job."""
    from safetensors.numpy import save_file

    numbers = np.random.default_rng(0)
    folder.mkdir(parents=True)
    np.savez(
        folder / "labels.npz", inputs=numbers.random((60, 6)).astype(np.float32), targets=numbers.integers(0, 3, 60)
    )
    save_file({"0.weight": numbers.normal(size=(3, 6)).astype(np.float32)}, folder / "net.safetensors")
    rows = [f"{u},{i},{(u * i) % 5}" for u in range(40) for i in range(30)]
    (folder / "r.csv").write_text("user,item,rating\n" + "\n".join(rows))
    (folder / "nets.py").write_text(NETS)
    (folder / "train.py").write_text(TRAIN)


def start(job: Job, folder: Path) -> subprocess.Popen[bytes]:
    """The job's process on one thread; it leads a group of its own, so that its workers end with it."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", *job.arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "", "OMP_NUM_THREADS": "1"},
    )


def results(job: Job, folder: Path) -> dict[str, object]:
    """Every file that the job left, without what may differ."""
    out = folder / "out"
    return {str(path.relative_to(out)): job.plain(path) for path in sorted(out.rglob("*")) if path.is_file()}


@dataclass(frozen=True)
class Kill:
    """One kill: of which command, how, after how many seconds, whether files lay there already, and what was wrong."""

    name: str
    how: str
    moment: float
    begun: bool
    fault: str

    def __str__(self) -> str:
        return f"{self.name}, {self.how} after {self.moment:.2f} s: {self.fault or 'as without'}"


def kill_once(name: str, inputs: Path, wanted: dict[str, object], moment: float, how: signal.Signals) -> Kill:
    """Kill, run again, compare. A process that ended before its moment is no kill: it is tried again at half of it."""
    job = JOBS[name]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "work"
        shutil.copytree(inputs, folder)
        running = start(job, folder)
        time.sleep(moment)
        late = running.poll() is not None
        running.send_signal(how)
        said = running.communicate()[1].decode()
        if late and moment > 0.01:
            return kill_once(name, inputs, wanted, moment / 2, how)
        begun = any(path.is_file() for path in (folder / "out").rglob("*"))
        return Kill(name, how.name, round(moment, 3), begun, fault_of(job, folder, wanted, said, how))


def fault_of(job: Job, folder: Path, wanted: dict[str, object], said: str, how: signal.Signals) -> str:
    """What is wrong with a killed command and with what its second run leaves; nothing when all is well."""
    if "Traceback" in said and "droptics" in said and job.arguments[0] != "train.py":  # else of Python's own start
        return f"a traceback: {said[-800:]}"
    if how == signal.SIGINT and list(folder.rglob("*.partial*")):
        return "an interrupt left a partial file"
    again = start(job, folder)
    said = again.communicate()[1].decode()
    if again.returncode != 0:
        return f"the second run left with {again.returncode}: {said[-800:]}"
    found = results(job, folder)
    left = [name for name in found if ".partial" in name]
    if left:
        return f"left over: {left}"
    different = [name for name in {*found, *wanted} if found.get(name) != wanted.get(name)]
    return f"different: {different}" if different else ""


def undisturbed(name: str, inputs: Path, folder: Path) -> tuple[dict[str, object], float]:
    """What the command leaves when nobody disturbs it, and the seconds that it takes once all is compiled."""
    left = {}
    for turn in ("first", "second"):
        shutil.copytree(inputs, folder / turn)
        begun = time.monotonic()
        whole = start(JOBS[name], folder / turn)
        said = whole.communicate()[1].decode()
        seconds = time.monotonic() - begun
        assert whole.returncode == 0, said
        left[turn] = results(JOBS[name], folder / turn)
    assert left["first"], f"{name} left nothing to compare"
    assert left["first"] == left["second"], f"{name} does not leave the same twice"
    return left["second"], seconds


def campaign(
    names: list[str], count: int, seed: int, workers: int = 1, known: Mapping[int, Kill] | None = None,
    keep: Callable[[dict[int, Kill]], None] = lambda kills: None,
) -> list[Kill]:  # fmt: skip
    """`count` kills, the jobs in turn, `workers` at a time, moments drawn over the time of an undisturbed run.

    Those that are `known` are not tried again; `keep` is called with all so far whenever one has ended.
    """
    kills = dict(known or {})
    generator = random.Random(seed)
    drawn = [(generator.choice([signal.SIGKILL, signal.SIGINT]), generator.random()) for _ in range(count)]
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(workers) as pool:
        inputs = Path(place) / "inputs"
        prepare(inputs)
        alone = pool.map(lambda name: undisturbed(name, inputs, Path(place) / name), names)
        left = dict(zip(names, alone, strict=True))
        turn = threading.Lock()

        def one(number: int) -> None:
            name, (how, share) = names[number % len(names)], drawn[number]
            wanted, seconds = left[name]
            kill = kill_once(name, inputs, wanted, seconds * share, how)
            with turn:
                kills[number] = kill
                keep(kills)
                print(f"{number + 1:>4} {kill}", flush=True)

        list(pool.map(one, [number for number in range(count) if number not in kills]))
    return [kills[number] for number in range(count)]


def record(kills: Mapping[int, Kill], seed: int, workers: int) -> dict[str, object]:
    """What is kept of a campaign: where it ran, how many of which command met what, and every fault."""
    from droptics.evidence.provenance import commit, here

    commands = {
        name: {
            "SIGKILL": sum(kill.how == "SIGKILL" for kill in met),
            "SIGINT": sum(kill.how == "SIGINT" for kill in met),
            "with files there": sum(kill.begun for kill in met),
            "faults": sum(bool(kill.fault) for kill in met),
        }
        for name in JOBS
        if (met := [kill for kill in kills.values() if kill.name == name])
    }
    faults = [str(kill) for kill in kills.values() if kill.fault]
    place = here() | {"commit": commit(), "finished": datetime.now(UTC).isoformat(timespec="seconds")}
    each = {str(number): asdict(kills[number]) for number in sorted(kills)}
    summary = {"kills": len(kills), "seed": seed, "workers": workers, "commands": commands, "faults": faults}
    return summary | place | {"each": each}


def known_kills(path: Path | None, seed: int) -> dict[int, Kill]:
    """Those of an earlier run of this very commit that was stopped; none where there is no such record."""
    from droptics.evidence.provenance import commit

    if path is None or not path.exists():
        return {}
    found = json.loads(path.read_text())
    if found["seed"] != seed or not found["commit"] or found["commit"] != commit():
        return {}
    return {int(number): Kill(**kill) for number, kill in found["each"].items()}


def main() -> None:
    """Say how many kills of which commands ended in something else than an undisturbed run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(JOBS), choices=list(JOBS))
    parser.add_argument("--workers", type=int, default=1, help="kills at a time; a core each")
    parser.add_argument(
        "--record", type=Path, help="file for the outcome, as JSON; the same commit goes on where it was stopped"
    )
    options = parser.parse_args()
    from droptics.files.writing import write_text

    def keep(kills: dict[int, Kill]) -> None:
        if options.record:
            write_text(options.record, json.dumps(record(kills, options.seed, options.workers), indent=1) + "\n")

    known = known_kills(options.record, options.seed)
    kills = campaign(options.only, options.count, options.seed, options.workers, known, keep)
    faults = sum(bool(kill.fault) for kill in kills)
    print(f"{len(kills)} kills, {faults} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
