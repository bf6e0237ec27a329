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
import time
from collections.abc import Callable
from dataclasses import dataclass
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
    """The job's process; it leads a group of its own, so that its workers end with it."""
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", *job.arguments],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )


def results(job: Job, folder: Path) -> dict[str, object]:
    """Every file that the job left, without what may differ."""
    out = folder / "out"
    return {str(path.relative_to(out)): job.plain(path) for path in sorted(out.rglob("*")) if path.is_file()}


def kill_once(job: Job, inputs: Path, wanted: dict[str, object], moment: float, how: signal.Signals) -> str:
    """Kill, run again, compare; returns what is wrong, nothing when all is well."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "work"
        shutil.copytree(inputs, folder)
        running = start(job, folder)
        time.sleep(moment)
        running.send_signal(how)
        said = running.communicate()[1].decode()
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


def campaign(names: list[str], count: int, seed: int) -> list[str]:
    """`count` kills, the jobs in turn, moments drawn over the time of an undisturbed run; returns the faults."""
    generator, faults = random.Random(seed), []
    with tempfile.TemporaryDirectory() as place:
        inputs = Path(place) / "inputs"
        prepare(inputs)
        known: dict[str, tuple[dict[str, object], float]] = {}
        for number in range(count):
            name = names[number % len(names)]
            job = JOBS[name]
            if name not in known:
                folder = Path(place) / name
                shutil.copytree(inputs, folder)
                begun = time.monotonic()
                whole = start(job, folder)
                said = whole.communicate()[1].decode()
                assert whole.returncode == 0, said
                known[name] = results(job, folder), time.monotonic() - begun
                assert known[name][0], f"{name} left nothing to compare"
            wanted, seconds = known[name]
            how = generator.choice([signal.SIGKILL, signal.SIGINT])
            moment = seconds * generator.random()
            fault = kill_once(job, inputs, wanted, moment, how)
            print(f"{number + 1:>4} {name:<10} {how.name:<8} after {moment:.2f} s: {fault or 'as without'}", flush=True)
            if fault:
                faults.append(f"{name}, {how.name} after {moment:.2f} s: {fault}")
    return faults


def main() -> None:
    """Say how many kills of which commands ended in something else than an undisturbed run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", nargs="*", default=list(JOBS), choices=list(JOBS))
    options = parser.parse_args()
    faults = campaign(options.only, options.count, options.seed)
    print(f"{options.count} kills, {len(faults)} faults")
    sys.exit(bool(faults))


if __name__ == "__main__":
    main()
