"""Engines: run independent cells here, in worker processes, or on a Dask cluster; the results are the same.

Every cell is a pure function of its parameters and runs on one thread, so that a table does not depend on where it
was computed. A worker that dies is retried once and then reported; an exception inside a cell is reported at once.
"""

from __future__ import annotations

import abc
import gc
import multiprocessing
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from droptics.arguments import check_arguments, checked_fields
from droptics.checks import check_positive
from droptics.clusters import connect, cores
from droptics.evidence.provenance import here

Row = Mapping[str, Any]
Function = Callable[..., Sequence[Row]]


@dataclass(frozen=True)
class Task:
    """One cell to run: function(**parameters) on a machine with a GPU if `gpu` says so."""

    key: str
    function: Function
    parameters: Mapping[str, Any]
    gpu: bool = False


@dataclass(frozen=True)
class Done:
    """What became of a task: its rows and where they were computed, or the reason why there are none."""

    key: str
    rows: tuple[Row, ...] = ()
    seconds: float = 0.0
    place: Mapping[str, Any] | None = None
    error: str = ""
    skipped: str = ""


class Engine(abc.ABC):
    """Somewhere to run tasks."""

    @abc.abstractmethod
    def run(self, tasks: Sequence[Task]) -> Iterator[Done]:
        """Yield every task's outcome as it finishes, in any order."""


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch and BLAS for a while; sums are then added in the same order everywhere."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def perform(task: Task) -> Done:
    """Run one task in this process; an exception becomes its error."""
    if task.gpu and not torch.cuda.is_available():
        return Done(task.key, skipped="needs a GPU, none is visible to torch here")
    start = time.perf_counter()
    try:
        with one_thread():
            rows = tuple(dict(row) for row in task.function(**task.parameters))
    except Exception as error:
        return Done(task.key, seconds=time.perf_counter() - start, error=f"{type(error).__name__}: {error}")
    return Done(task.key, rows, time.perf_counter() - start, here(task.gpu))


@dataclass(frozen=True)
class Local(Engine):
    """One cell after the other in this process."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Done]:
        yield from map(perform, tasks)


@dataclass(frozen=True)
class Processes(Engine):
    """Cells in `workers` processes of this machine (as many as cores by default); GPU cells one at a time."""

    workers: int = field(default_factory=cores)

    def __post_init__(self) -> None:
        check_positive("workers", self.workers)

    def run(self, tasks: Sequence[Task]) -> Iterator[Done]:
        waiting, deaths = deque(tasks), Counter[str]()
        workers: list[_Worker] = []
        try:
            while waiting or any(worker.task for worker in workers):
                self._feed(workers, waiting)
                busy = {worker.pipe: (worker, worker.task) for worker in workers if worker.task}
                for ready in wait(list(busy)):
                    worker, task = busy[ready]  # type: ignore[index]
                    worker.task = None
                    try:
                        done = worker.pipe.recv()
                    except (EOFError, OSError):
                        workers.remove(worker)
                        worker.process.join(5)
                        deaths[task.key] += 1
                        if deaths[task.key] < 2:
                            waiting.appendleft(task)
                            continue
                        why = f"its worker process died twice (exit code {worker.process.exitcode})"
                        done = Done(task.key, error=why)
                    yield done
        finally:
            for worker in workers:
                worker.pipe.close()  # an idle one ends by itself, and gives back what it holds
                if worker.task is not None:
                    worker.process.terminate()
            for worker in workers:
                worker.process.join(5)

    def _feed(self, workers: list[_Worker], waiting: deque[Task]) -> None:
        """Give every idle worker a task; start workers while there is work for them."""
        while waiting:
            gpu_busy = any(worker.task is not None and worker.task.gpu for worker in workers)
            task = next((task for task in waiting if not (task.gpu and gpu_busy)), None)
            worker = next((worker for worker in workers if worker.task is None), None)
            if task is None or (worker is None and len(workers) >= self.workers):
                return
            if worker is None:
                worker = _start()
                workers.append(worker)
            try:
                worker.pipe.send(task)
            except OSError:  # it died while idle: nothing is lost
                workers.remove(worker)
                continue
            waiting.remove(task)
            worker.task = task


@dataclass(eq=False)
class _Worker:
    """A process with a pipe of its own, so that it is known which cell it was on when it died."""

    process: BaseProcess
    pipe: Connection
    task: Task | None = None


def _start() -> _Worker:
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return _Worker(process, ours)


def _serve(pipe: Connection) -> None:
    """Life of a worker process: take a task, send back what became of it, until the pipe closes."""
    gc.set_threshold(50_000, 20, 50)  # what the libraries load is garbage of nobody, and each look goes through it
    with suppress(EOFError, KeyboardInterrupt):
        while True:
            pipe.send(perform(pipe.recv()))


@dataclass(frozen=True)
@checked_fields
class Dask(Engine):
    """Cells on a Dask cluster by the address of its scheduler, such as tcp://host:8786.

    GPU cells go to workers started with `--resources GPU=1`, one at a time on each; without such a worker they are
    skipped with a reason. The scheduler moves the cells of a dead worker to another one; the second time a cell's
    worker dies the cell is reported. (A scheduler whose `distributed.scheduler.allowed-failures` is below 2, the
    default being 3, gives up earlier and its own message is reported.) Rows travel back to this process, so no shared
    file system is needed.
    """

    address: str

    def run(self, tasks: Sequence[Task]) -> Iterator[Done]:
        with connect(self.address) as client:
            from distributed import as_completed  # noqa: PLC0415 - an optional dependency

            workers = client.scheduler_info(n_workers=-1)["workers"].values()
            gpus = sum(worker.get("resources", {}).get("GPU", 0) for worker in workers)
            futures, run = {}, uuid.uuid4().hex
            for task in tasks:
                if task.gpu and not gpus:
                    yield Done(task.key, skipped="needs a GPU, no worker of the cluster offers the resource GPU")
                    continue
                place = {"GPU": 1} if task.gpu else None
                future = client.submit(_attempt, task, f"{run}-{task.key}", pure=False, resources=place)
                futures[future] = task.key
            for future in as_completed(list(futures), loop=client.loop):  # type: ignore[no-untyped-call]
                try:
                    yield future.result()
                except Exception as error:
                    yield Done(futures[future], error=f"{type(error).__name__}: {error}")


def _attempt(task: Task, name: str) -> Done:
    """Run a task on a Dask worker unless two attempts were begun and never ended.

    The attempts are counted on the scheduler, by the length of a queue: what a worker knows dies with it.
    """
    from distributed import Queue, get_client  # noqa: PLC0415 - an optional dependency

    attempts = Queue(name, client=get_client())  # type: ignore[no-untyped-call]
    attempts.put(1)  # type: ignore[no-untyped-call]
    lost = attempts.qsize() > 2  # type: ignore[no-untyped-call]
    done = Done(task.key, error="its worker process died twice") if lost else perform(task)
    attempts.get()  # type: ignore[no-untyped-call]  # it ended: should the rows be lost with their worker, it runs again
    attempts.close()  # type: ignore[no-untyped-call]
    return done


def engine(name: str) -> Engine:
    """The engine called `local`, `processes`, `processes:4` or `dask://host:port`.

    >>> engine("processes:3").workers
    3
    """
    check_arguments(engine, locals())
    if name == "local":
        return Local()
    if name == "processes":
        return Processes()
    if name.startswith("processes:") and name.removeprefix("processes:").isdigit():
        return Processes(int(name.removeprefix("processes:")))
    if name.startswith("dask://") and len(name) > len("dask://"):
        return Dask("tcp://" + name.removeprefix("dask://"))
    raise ValueError(f"engine must be local, processes, processes:N or dask://host:port, got the name {name!r}")
