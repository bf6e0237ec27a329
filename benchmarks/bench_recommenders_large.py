"""Recommenders beyond one machine's memory: planted ratings on a Dask cluster, and an autoencoder of 20,000 items.

    python benchmarks/bench_recommenders_large.py [--parts cluster client equal items disk gpu] [--ratings 100000000]

`cluster`: planted ratings (500 a user, 20,011 items) in Parquet files by user, read by local workers of one thread
each; `DropoutCompletion(64)`, float32. Microseconds are wall time of a sweep times workers over ratings, the first
sweep apart. The client, a process of its own, takes memory as counted by its anonymous pages, at their most: `empty`
is what they are before the fit, with Python and all libraries loaded.
`client`: the same users and items with 20 ratings each, for the client's memory, which depends on no other number.
`equal`: two workers and half of the ratings in float64 (600 MB as numbers of items and values, more than the client may
take), a worker killed after the second sweep, against one machine. Parts that tell memory are best run in a process
each.
`items`: `DropoutAutoencoder` at a given rate; the rate of its factorization (items^3 operations) over that of a matrix
product on the same threads (the best of torch's and scipy's, three times each), and the largest memory of the fit over
that of one square float32 array. One thread is timed by its CPU time, several by the clock.
`disk`: the ratings of `cluster` on one machine, both orders in mapped files (`memory` of 64 MB), each size in a process
of its own: an eighth, then all. Model: reading and sweeps take eight times as long as for an eighth; resident memory
(VmRSS at its most, less what it was with all libraries loaded) grows by two copies of the factors (8 bytes a number)
alone, whatever the number of ratings.
`gpu`: the same on one GPU. Model: a sweep takes eight times as long; memory on the device is 16 bytes a rating, 21.5 kB
for every 2,048 ratings of an item (a piece of its normal equations) and 24 bytes a number of the factors.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import tempfile
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.linalg import blas

from droptics.recommenders import DropoutAutoencoder, DropoutCompletion
from droptics.recommenders.autoencoder import _gamma
from harness import RESULTS, write

NAME = "recommenders_large"
ITEMS, EACH, WIDTH, SWEEPS = 20_011, 500, 64, 4  # a prime number of items: a user's are start + step k


def planted(folder: Path, part: int, users: int, each: int = EACH) -> None:
    """One file: users with two planted factors and noise 0.7."""
    import pyarrow as pa  # noqa: PLC0415 - only where files are made
    import pyarrow.parquet as pq  # noqa: PLC0415

    rng = np.random.default_rng(part)
    likes = np.random.default_rng(12345).standard_normal((ITEMS, 2)).astype(np.float32)
    with pq.ParquetWriter(
        folder / f"{part:03d}.parquet",
        pa.schema([("user", pa.int64()), ("item", pa.int64()), ("rating", pa.float64())]),
    ) as out:
        for at in range(0, users, 1000):
            count = min(1000, users - at)
            ids = np.repeat(part * users + at + np.arange(count), each)
            steps = rng.integers(1, ITEMS, (count, 1)) * np.arange(each) + rng.integers(0, ITEMS, (count, 1))
            items = (steps % ITEMS).ravel()
            mine = np.repeat(rng.standard_normal((count, 2)).astype(np.float32), each, 0)
            noise = rng.standard_normal(len(ids), np.float32)
            values = np.round(2 * np.clip(3.5 + 0.6 * (mine * likes[items]).sum(1) + 0.7 * noise, 0.5, 5)) / 2
            out.write_table(pa.table({"user": ids, "item": items, "rating": values.astype(np.float64)}))


def make(folder: Path, ratings: int, each: int, jobs: int, parts: int = 8) -> None:
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        users = ratings // each // parts
        list(pool.map(planted, [folder] * parts, range(parts), [users] * parts, [each] * parts))


def memory(field: str) -> int:
    """Bytes of this process, by a name of /proc/self/status."""
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    return 0


class Watch:
    """The largest memory of this process while something runs: anonymous, or by another name of /proc/self/status."""

    def __init__(self, field: str = "RssAnon") -> None:
        self._field = field

    def __enter__(self) -> Watch:
        self.peak = self.before = memory(self._field)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()
        return self

    def _look(self) -> None:
        while not self._done.wait(0.05):
            self.peak = max(self.peak, memory(self._field))

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


def hosted(workers: int, pipe: Any) -> None:
    """Scheduler and workers, apart from the client, until told to end."""
    from distributed import LocalCluster  # noqa: PLC0415 - an optional dependency

    options = {"threads_per_worker": 1, "processes": True, "dashboard_address": None, "memory_limit": 0}
    with LocalCluster(n_workers=workers, **options) as made:
        pipe.send(made.scheduler_address)
        pipe.recv()


def on_cluster(folder: Path, workers: int, kill: bool, **options: Any) -> tuple[DropoutCompletion, Watch]:
    from distributed import Client  # noqa: PLC0415 - an optional dependency

    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=hosted, args=(workers, there))
    process.start()
    with Client(here.recv(), set_as_default=False) as client, Watch() as watch:

        def progress(line: Any) -> None:
            print(line, flush=True)
            if kill and line.sweep == 2:
                os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)

        model = DropoutCompletion(WIDTH, engine=client, sweeps=SWEEPS, tolerance=0.0, progress=progress, **options)
        model.fit(folder)
    here.send("end")
    process.join()
    return model, watch


def cluster(folder: Path, ratings: int, workers: int) -> dict[str, Any]:
    begin = time.perf_counter()
    model, watch = on_cluster(folder, workers, False)
    seconds = np.diff([line.seconds for line in model.history_])
    return {
        "part": "cluster", "ratings": ratings, "width": WIDTH, "workers": workers,
        "microseconds": float(seconds.mean() * workers / ratings * 1e6),
        "slowest": float(seconds.max() * workers / ratings * 1e6),
        "all_seconds": time.perf_counter() - begin, "client_bytes": watch.peak, "empty": watch.before,
        "rmse": [line.rmse for line in model.history_],
    }  # fmt: skip


def client(folder: Path, ratings: int, workers: int) -> dict[str, Any]:
    model, watch = on_cluster(folder, workers, False)
    return {
        "part": "client", "ratings": ratings, "users": len(model.user_ids_), "items": len(model.item_ids_),
        "width": WIDTH, "client_bytes": watch.peak, "empty": watch.before,
    }  # fmt: skip


def equal(folder: Path, ratings: int, workers: int) -> dict[str, Any]:
    there, watch = on_cluster(folder, 2, True, dtype="float64")
    print("one machine", flush=True)
    here = DropoutCompletion(WIDTH, sweeps=SWEEPS, tolerance=0.0, dtype="float64", threads=workers).fit(folder)
    rng = np.random.default_rng(0)
    pairs = rng.choice(here.user_ids_, 100_000), rng.choice(here.item_ids_, 100_000)
    mine, theirs = (model.predict(*pairs) for model in (there, here))
    return {
        "part": "equal", "ratings": ratings, "width": WIDTH, "workers": 2, "killed": 1,
        "data_bytes": ratings * 12, "client_bytes": watch.peak, "empty": watch.before,
        "largest_difference": float(np.abs(mine - theirs).max()),
        "factors": float(np.abs(there.item_factors_ - here.item_factors_).max() / np.abs(here.item_factors_).max()),
    }  # fmt: skip


def alone(path: Path, options: dict[str, Any]) -> dict[str, Any]:
    """One fit in this process: seconds of reading and of a sweep after the first, memory here and on the device."""
    small = np.arange(64) % 8, np.arange(64) // 8, np.ones(64)
    DropoutCompletion(WIDTH, sweeps=1, tolerance=0.0, **options).fit(small)  # loads and compiles
    begin = time.perf_counter()
    with Watch("VmRSS") as watch:
        model = DropoutCompletion(WIDTH, sweeps=SWEEPS, tolerance=0.0, memory=1 << 26, progress=print, **options)
        model.fit(path)
    done = time.perf_counter() - begin
    seconds = [line.seconds for line in model.history_]
    return {
        "ratings": int(model._data.count), "reading": done - seconds[-1], "sweep": float(np.diff(seconds).mean()),
        "first_sweep": seconds[0], "resident": watch.peak, "empty": watch.before,
        "device_bytes": torch.cuda.max_memory_allocated() if torch.cuda.is_available() else 0,
        "numbers": model.strengths_.columns * (len(model.user_ids_) + len(model.item_ids_)),
        "rmse": [line.rmse for line in model.history_],
    }  # fmt: skip


def grown(folder: Path, part: str, options: dict[str, Any]) -> dict[str, Any]:
    """An eighth of the ratings, then all of them, beside what the model of the cost makes of the eighth."""
    found = []
    for path in (folder / "000.parquet", folder):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            found.append(pool.submit(alone, path, options).result())
        print(json.dumps(found[-1]), flush=True)
    eighth, whole = found
    times = whole["ratings"] / eighth["ratings"]
    own, more = [cell["resident"] - cell["empty"] for cell in found], whole["numbers"] - eighth["numbers"]
    device = 16 * whole["ratings"] + 21504 * (whole["ratings"] / 2048 + ITEMS) + 24 * whole["numbers"]
    return {
        "part": part, **whole, "width": WIDTH, "eighth": eighth, "data_bytes": 16 * whole["ratings"],
        "over_model": {
            "reading": whole["reading"] / (times * eighth["reading"]),
            "sweep": whole["sweep"] / (times * eighth["sweep"]),
            "memory": whole["device_bytes"] / device if part == "gpu" else own[1] / (own[0] + 8 * more),
        },
    }  # fmt: skip


def disk(folder: Path, ratings: int, workers: int) -> dict[str, Any]:
    return {**grown(folder, "disk", {"threads": workers}), "threads": workers}


def gpu(folder: Path, ratings: int, workers: int) -> dict[str, Any]:
    return {**grown(folder, "gpu", {"device": "cuda"}), "device": torch.cuda.get_device_name()}


CLUSTERS = {
    "disk": (disk, 1.0, EACH),
    "gpu": (gpu, 1.0, EACH),
    "cluster": (cluster, 1.0, EACH),
    "client": (client, 0.04, 20),
    "equal": (equal, 0.5, EACH),
}


def clock() -> float:
    return time.process_time() if torch.get_num_threads() == 1 else time.perf_counter()


def product_rate(size: int) -> float:
    """Operations a second of a square product in float32."""
    square = torch.rand(size, size)
    array = square.numpy().T  # columns side by side, as scipy wants them
    seconds = []
    for multiply in (lambda: square @ square, lambda: blas.sgemm(1.0, array, array)) * 3:
        begin = clock()
        multiply()
        seconds.append(clock() - begin)
    return 2 * size**3 / min(seconds)


def items(count: int = 20_000, users: int = 100_000) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    product = product_rate(min(count, 8000))
    rows = np.repeat(np.arange(users), 30)
    columns = (count * rng.random(len(rows)) ** 2).astype(np.int64)
    kept = np.unique(rows * count + columns)
    ratings = kept // count, kept % count, np.ones(len(kept), np.float32)
    before = memory("RssAnon")
    with Watch() as watch:
        model = DropoutAutoencoder(0.4, 500.0).fit(ratings)
    n = len(model.item_ids_)
    seconds = []
    for _ in range(2):
        begin = clock()
        model._precision.factorize(_gamma(model._precision, 0.4, 500.0))
        seconds.append(clock() - begin)
    rate = n**3 / min(seconds)
    return {
        "part": "items", "items": n, "threads": torch.get_num_threads(),
        "factorize_seconds": min(seconds), "share_of_product": rate / product, "product_rate": product,
        "squares_of_memory": (watch.peak - before) / (4 * n * n),
    }  # fmt: skip


def place(cell: dict[str, Any]) -> tuple[str, str]:
    """A cell is measured anew where part and kind of machine are the same."""
    return cell["part"], cell["machine"]


def row(cell: dict[str, Any]) -> dict[str, str]:
    """One line of the table on the benchmark page."""
    if cell["part"] == "items":
        what = f"DropoutAutoencoder, {cell['items']:,} items, threads: {cell['threads']}"
        found = (
            f"{cell['share_of_product']:.0%} of the rate of a product, {cell['squares_of_memory']:.2f} items^2 numbers"
        )
    elif cell["part"] in ("disk", "gpu"):
        where = cell.get("device", f"on disk, threads: {cell.get('threads')}")
        what = f"DropoutCompletion({cell['width']}), {cell['ratings']:,} ratings, {where}"
        used = cell["device_bytes"] if cell["part"] == "gpu" else cell["resident"] - cell["empty"]
        over = cell["over_model"]
        found = (
            f"a sweep {cell['sweep']:.3g} s ({over['sweep']:.2f} times the model), read in {cell['reading']:.0f} s "
            f"({over['reading']:.2f}), {used / 1e6:.0f} MB of memory ({over['memory']:.2f}), "
            f"ratings {cell['data_bytes'] / 1e6:.0f} MB"
        )
    else:
        what = f"DropoutCompletion({cell['width']}), {cell['ratings']:,} ratings, Dask ({cell['part']})"
        found = f"client {cell['client_bytes'] / 1e6:.0f} MB"
        if "microseconds" in cell:
            found += f", {cell['microseconds']:.2f} us a rating, sweep and core, {cell['workers']} workers"
        if "largest_difference" in cell:
            found += f", one worker of two killed: predictions as on one machine to {cell['largest_difference']:.0e}"
    return {"what": what, "found": found, "machine": cell["machine"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", nargs="+", default=["cluster", "client", "equal", "items"])
    parser.add_argument("--ratings", type=int, default=100_000_000)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--items", type=int, default=20_000)
    options = parser.parse_args()
    file = RESULTS / f"{NAME}.json"
    cells = (
        {place(cell): cell for cell in json.loads(file.read_text(encoding="utf-8"))["cells"]} if file.exists() else {}
    )
    for part in options.parts:
        if part == "items":
            found = items(options.items)
        else:
            measure, share, each = CLUSTERS[part]
            ratings = int(share * options.ratings)
            if part == "gpu" and not torch.cuda.is_available():
                raise SystemExit("no CUDA device")
            with tempfile.TemporaryDirectory() as folder:
                make(Path(folder), ratings, each, options.workers)
                print("made", flush=True)
                found = measure(Path(folder), ratings, options.workers)
        found = {"machine": platform.machine(), **found}
        cells[place(found)] = found
        print(json.dumps(found), flush=True)
        write(
            NAME, {"protocol": __doc__, "rows": [row(cell) for cell in cells.values()], "cells": list(cells.values())}
        )


if __name__ == "__main__":
    main()
