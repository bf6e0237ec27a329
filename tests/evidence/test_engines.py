"""Engines by name, what they refuse, and commands that are asked for nothing or for pages."""

import multiprocessing
import os
import signal
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import evidence_toys as toys
import pytest
import torch
import typer
from systems import posix
from threadpoolctl import threadpool_info
from typer.testing import CliRunner

from droptics import clusters
from droptics.cli.reproduce import reproduce_command
from droptics.cli.verify import verify_command
from droptics.clusters import cores
from droptics.evidence import engines
from droptics.evidence.engines import Dask, Done, Local, Processes, Task, engine
from droptics.evidence.figures import Cell, Figure, reproduce
from droptics.papers import missing
from droptics.papers.registry import Paper, unavailable


def run(command, *arguments):
    app = typer.Typer()
    app.command()(command)
    return CliRunner().invoke(app, list(arguments))


def test_engines_have_names():
    assert isinstance(engine("local"), Local)
    for name, count in (("processes", None), ("processes:3", 3)):
        found = engine(name)
        assert isinstance(found, Processes)
        assert found.workers == (cores() if count is None else count)
    assert isinstance(engine("dask://host:8786"), Dask)
    for name in ("dask://", "processes:", "processes:two", "slurm"):
        with pytest.raises(ValueError, match="engine must be local, processes, processes:N or dask://host:port"):
            engine(name)


def test_the_libraries_of_a_cell_add_in_one_thread():
    with engines.one_thread():
        assert {library["num_threads"] for library in threadpool_info()} == {1}


@pytest.mark.parametrize("parameters", [{}, {"number": 1, "seconds": "long"}])
def test_any_exception_of_a_cell_is_its_error(parameters):
    done = engines.perform(Task("a", toys.square_cell, parameters))
    assert done.error.startswith("TypeError: ")
    assert done.rows == ()


def test_seconds_of_a_cell_are_its_own():
    start = time.perf_counter()
    done = engines.perform(Task("a", toys.square_cell, {"number": 1, "seconds": 0.01}))
    assert 0 < done.seconds <= time.perf_counter() - start


def test_torch_has_its_threads_back_after_a_cell():
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        with engines.one_thread():
            assert torch.get_num_threads() == 1
        assert torch.get_num_threads() == 3
        with pytest.raises(ArithmeticError), engines.one_thread():
            raise ArithmeticError
        assert torch.get_num_threads() == 3, "after a failure, too"
    finally:
        torch.set_num_threads(before)


def test_dask_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"pip install 'droptics\[dask\]'"):
        list(engine("dask://localhost:1").run([Task("a", toys.square_cell, {"number": 1}, False)]))


def test_whoever_takes_the_call_and_says_nothing_is_no_scheduler(monkeypatch):
    pytest.importorskip("distributed", reason="dask is optional")
    monkeypatch.setattr(clusters, "SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for scheme in ("tcp", "ws", "wss"):
            address = "{}://{}:{}".format(scheme, *silent.getsockname())
            with pytest.raises(ValueError, match=f"{address}.*; check the address"):
                clusters.connect(address)


@pytest.fixture
def started(monkeypatch):
    """The workers that engines start, in order."""
    workers, start = [], engines._start
    monkeypatch.setattr(engines, "_start", lambda: workers.append(start()) or workers[-1])
    return workers


@posix
def test_an_idle_worker_ends_by_itself(started):
    """Terminated, it would leave the locks behind that its libraries made, and Python would complain of them."""
    list(Processes(1).run([Task("1", toys.square_cell, {"number": 1}, False)]))
    (worker,) = started
    worker.process.join(60)
    assert worker.process.exitcode == 0


def test_a_run_that_is_left_ends_the_workers_that_are_at_work(monkeypatch):
    """An idle one is not terminated; it ends by itself when its pipe is closed."""
    ended, ends = [], []

    def start():
        number, (ours, theirs) = len(ends), multiprocessing.Pipe()
        ends.append(theirs)
        if number == 0:  # the first has an answer at once, the second never
            theirs.send(Done("0"))
        process = SimpleNamespace(terminate=lambda: ended.append(number), join=lambda seconds: None)
        return engines._Worker(process, ours)

    monkeypatch.setattr(engines, "_start", start)
    run = Processes(2).run([Task(str(i), toys.square_cell, {"number": i}) for i in range(2)])
    assert next(run).key == "0"
    run.close()
    assert ended == [1]


@pytest.mark.slow
@posix
def test_a_worker_that_died_while_idle_is_replaced(started):
    run = Processes(1).run([Task(str(i), toys.square_cell, {"number": i}, False) for i in range(2)])
    assert not next(run).error
    (worker,) = started
    os.kill(worker.process.pid, signal.SIGKILL)
    worker.process.join(10)
    (again,) = run
    assert not again.error
    assert again.rows[0]["square"] == 1
    assert len(started) == 2


def test_cells_must_differ(tmp_path):
    twice = Figure(
        "toy-fig9",
        "Toy",
        "Twice",
        "Two cells of one name.",
        lambda scale: [Cell("same", {"number": 1}), Cell("same", {"number": 1})],
        toys.square_cell,
        lambda rows, scale: [],
        lambda rows, path: Path(path).touch(),
    )
    with pytest.raises(ValueError, match="toy-fig9 has two cells of the same name and parameters at scale smoke"):
        reproduce([twice], "smoke", tmp_path)


def test_figures_that_cannot_run_say_why(tmp_path):
    never = unavailable("toy-fig2", "Toy", "Never", "It needs a ship.", "the ship has sailed")
    (artifact,) = reproduce([never], "smoke", tmp_path)
    assert artifact.skipped == "the ship has sailed"
    assert (artifact.computed, artifact.resumed) == (0, 0)
    assert never.cells("paper") == []
    assert missing("gpu") in ("", "needs a GPU, none is visible to torch here")
    with pytest.raises(ValueError, match="toy-fig1 is filed under other"):
        Paper("other", "Other", "A. Nobody", (), (toys.figure(),))


def test_commands_that_are_asked_for_nothing():
    for arguments in ([], ["thesis-fig6-1", "--all"]):
        problem = run(reproduce_command, *arguments).exception
        assert isinstance(problem, ValueError)
        assert str(problem).startswith("name figures or say --all; there are ")


def test_failed_comparisons_are_printed_and_pages_written(tmp_path, monkeypatch):
    monkeypatch.setenv("DROPTICS_DATA", "")
    monkeypatch.setenv("COLUMNS", "240")
    monkeypatch.setattr("droptics.papers.reproduce", lambda *_: reproduce([toys.figure()], "smoke", tmp_path / "out"))
    printed = run(reproduce_command, "toy-fig1", "--data", str(tmp_path)).output
    assert "smallest square" in printed
    assert "gallery" not in printed
    assert "not reproduced, as recorded" in printed
    assert os.environ["DROPTICS_DATA"] == str(tmp_path)
    verified = run(verify_command, "mianjy2018-thm3.6", "--pages", str(tmp_path / "pages"))
    assert verified.exit_code == 0
    assert "mianjy2018-thm3.6" in verified.output.partition("claims: 1")[0]  # in the table, before the counts
    assert list((tmp_path / "pages").iterdir())


def test_workers_are_as_many_as_the_cores_of_this_process(monkeypatch):
    """In a container, or under a batch system, not as many as the machine has."""
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {3, 5, 8}, raising=False)
    assert Processes().workers == 3
    monkeypatch.delattr(os, "sched_getaffinity")
    assert Processes().workers == 64
