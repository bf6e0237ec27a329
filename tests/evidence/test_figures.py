"""Figures: cells on disk, resume after a kill, engines that agree, honest failures, and every figure at smoke scale."""

from __future__ import annotations

import contextlib
import csv
import importlib.metadata
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from dataclasses import replace
from pathlib import Path

import evidence_toys as toys
import pytest
import torch
import typer
from systems import posix
from typer.testing import CliRunner

import droptics
from droptics.cli.reproduce import reproduce_command
from droptics.evidence import provenance
from droptics.evidence.claims import compare
from droptics.evidence.engines import Dask, Engine, Local, Processes, Task, _attempt, engine
from droptics.evidence.figures import SCALES, Expectation, reproduce
from droptics.evidence.figures import manifest as manifest_of
from droptics.evidence.rows import plain_value
from droptics.evidence.standing import span, standing_page, standings
from droptics.papers import PAPERS, figures, missing
from droptics.papers import reproduce as reproduce_by_id
from droptics.papers.registry import unavailable

TESTS = Path(__file__).parents[1]


def numbers_run(log: Path) -> list[int]:
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def test_a_figure_leaves_table_picture_and_manifest(tmp_path):
    artifact = reproduce([toys.figure()], "smoke", tmp_path)[0]
    rows = list(csv.DictReader(artifact.table.read_text().splitlines()))
    assert [int(row["square"]) for row in rows] == [i**2 for i in range(toys.CELLS)]
    assert artifact.picture.read_bytes().startswith(b"\x89PNG")
    manifest = json.loads(artifact.manifest.read_text())
    assert manifest["command"] == "droptics reproduce toy-fig1 --scale smoke"
    assert {"versions", "commit", "hardware", "seconds", "comparisons", "finished"} <= set(manifest)
    assert manifest["versions"]["torch"] == importlib.metadata.version("torch")
    assert [place["commit"] for place in manifest["places"]] == [manifest["commit"]]
    outcomes = [line["outcome"] for line in manifest["comparisons"]]
    assert outcomes == ["reproduced", "not reproduced, as recorded"]
    assert artifact.outcome == "reproduced in part"
    assert artifact.agrees
    assert artifact.computed == manifest["cells"] == toys.CELLS
    left = replace(artifact, computed=1, resumed=toys.CELLS - 1, figure=replace(artifact.figure, departures=("half",)))
    assert [manifest_of(replace(left, scale=scale))["departures"] for scale in SCALES] == [[], ["half"]]
    assert manifest_of(left)["cells"] == toys.CELLS


def test_a_second_run_computes_nothing_and_changes_nothing(tmp_path):
    log = tmp_path / "log"
    figure = toys.figure(log=str(log))
    first = reproduce([figure], "smoke", tmp_path / "out")[0]
    table = first.table.read_bytes()
    second = reproduce([figure], "smoke", tmp_path / "out")[0]
    assert sorted(numbers_run(log)) == list(range(toys.CELLS))
    assert (second.computed, second.resumed) == (0, toys.CELLS)
    assert second.table.read_bytes() == table


def test_figures_that_share_cells_share_their_files(tmp_path):
    log = tmp_path / "log"
    both = [toys.figure("toy-fig1", log=str(log)), toys.figure("toy-fig2", log=str(log))]
    first, second = reproduce(both, "smoke", tmp_path / "out")
    assert sorted(numbers_run(log)) == list(range(toys.CELLS))
    assert first.table.read_bytes() == second.table.read_bytes()


def test_a_damaged_cell_file_is_computed_again(tmp_path):
    reproduce([toys.figure()], "smoke", tmp_path)
    victim = sorted((tmp_path / "cells").glob("*.json"))[2]
    victim.write_text(victim.read_text()[:30])
    again = reproduce([toys.figure()], "smoke", tmp_path)[0]
    assert (again.computed, again.resumed) == (1, toys.CELLS - 1)


def test_other_parameters_are_other_cells(tmp_path):
    reproduce([toys.figure(seconds=0.0)], "smoke", tmp_path)
    changed = reproduce([toys.figure(seconds=0.001)], "smoke", tmp_path)[0]
    assert changed.computed == toys.CELLS


# quick figures of three works, with their numbers of cells at smoke scale
REAL = {"helmbold2017-fig1": 3, "mianjy2018-fig1": 3, "mianjy2018-fig2": 6, "pal2020-fig4": 4, "thesis-fig5-1": 1}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> dict[str, bytes]:
    """Tables of the real figures, computed here in one go."""
    artifacts = reproduce_by_id(list(REAL), "smoke", tmp_path_factory.mktemp("undisturbed"))
    assert {artifact.figure.id: artifact.computed for artifact in artifacts} == REAL
    return {artifact.figure.id: artifact.table.read_bytes() for artifact in artifacts}


@pytest.mark.slow
@posix
def test_a_killed_command_resumes_where_it_was(tmp_path, undisturbed):
    command = [str(Path(sys.executable).with_name("droptics")), "reproduce", *REAL, "--out", str(tmp_path)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def finished() -> dict[Path, tuple[int, int, bytes]]:
        return {
            path: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
            for path in (tmp_path / "cells").glob("[!.]*.json")  # a file half written at the kill is hidden
        }

    process = subprocess.Popen(command, env=environment, start_new_session=True, stdout=subprocess.DEVNULL)
    deadline = time.monotonic() + 240
    while len(finished()) < 4 and time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    before = finished()
    assert 4 <= len(before) < sum(REAL.values())
    subprocess.run(command, env=environment, check=True, timeout=240, stdout=subprocess.DEVNULL)
    after = finished()
    assert len(after) == sum(REAL.values())
    assert {path: after[path] for path in before} == before
    assert {id: (tmp_path / id / "smoke" / "table.csv").read_bytes() for id in REAL} == undisturbed


@pytest.mark.slow
def test_worker_processes_give_the_same_table_and_are_retried_once(tmp_path):
    here = reproduce([toys.figure()], "smoke", tmp_path / "a", Local())[0]
    once = toys.figure("toy-fig2", run=toys.dying_cell, marker=str(tmp_path / "once"), always=False)
    always = toys.figure("toy-fig3", run=toys.dying_cell, marker=str(tmp_path / "always"), always=True)
    there, good, bad = reproduce([toys.figure(), once, always], "smoke", tmp_path / "b", Processes(2))
    assert there.table.read_bytes() == here.table.read_bytes()
    assert good.outcome == "reproduced"
    assert not good.failures
    assert bad.outcome == "failed"
    assert len(bad.failures) == 1
    assert "died twice (exit code 3)" in next(iter(bad.failures.values()))
    assert (tmp_path / "always").read_text() == "died\n" * 2
    assert len(bad.rows) == toys.CELLS - 1


@contextlib.contextmanager
def dask_cluster(**workers: dict):
    """A scheduler and named workers in processes of their own that are started again when they die."""
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # distributed warns about ports and event loops
        specification = {
            name: {"cls": distributed.Nanny, "options": {"nthreads": 1, "dashboard_address": ":0", "name": name} | more}
            for name, more in workers.items()
        }
        scheduler = {"cls": distributed.Scheduler, "options": {"dashboard_address": ":0", "port": 0}}
        with (
            distributed.SpecCluster(workers=specification, scheduler=scheduler, silence_logs=50) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            client.wait_for_workers(len(workers))
            yield Dask(cluster.scheduler_address), client


@pytest.mark.slow
def test_two_dask_workers_give_the_same_tables_place_gpu_cells_and_retry_once(tmp_path, undisturbed):
    placed = toys.figure("toy-fig1", run=toys.named_cell, gpu=True)
    once = toys.figure("toy-fig2", run=toys.dying_cell, marker=str(tmp_path / "once"), always=False)
    always = toys.figure("toy-fig3", run=toys.dying_cell, marker=str(tmp_path / "always"), always=True)
    with dask_cluster(plain={}, big={"resources": {"GPU": 1}}) as (cluster, client):
        real = reproduce_by_id(list(REAL), "smoke", tmp_path, cluster)
        client.run(toys.pretend_gpu)
        on_gpu = reproduce([placed], "smoke", tmp_path, cluster)[0]
        good, bad = reproduce([once, always], "smoke", tmp_path, cluster)
    assert {artifact.figure.id: artifact.table.read_bytes() for artifact in real} == undisturbed
    assert [row["worker"] for row in on_gpu.rows] == ["big"] * toys.CELLS
    assert json.loads(on_gpu.manifest.read_text())["hardware"]["gpu"] == "pretended"
    assert good.outcome == "reproduced"
    assert (tmp_path / "once").read_text() == "died\n"
    assert list(bad.failures.values()) == ["its worker process died twice"]
    assert (tmp_path / "always").read_text() == "died\n" * 2
    assert len(bad.rows) == toys.CELLS - 1


def test_rows_lost_with_a_worker_are_no_death_of_their_own_cell():
    """A cell whose process died once has ended since; the scheduler asks again where another took its rows along."""
    distributed = pytest.importorskip("distributed")
    task = Task("2", toys.named_cell, {"number": 2})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with (
            distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
        ):
            died = distributed.Queue("name", client=client)  # what an attempt leaves whose process dies
            died.put(1)
            ended = [client.submit(_attempt, task, "name", pure=False).result() for _ in range(3)]
            died.put(1)
            lost = client.submit(_attempt, task, "name", pure=False).result()
    assert [done.error for done in ended] == [""] * 3
    assert lost.error == "its worker process died twice"


def test_a_cluster_without_a_gpu_skips_gpu_cells(tmp_path):
    distributed = pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0") as cluster:
            artifact = reproduce([toys.figure(gpu=True)], "smoke", tmp_path, Dask(cluster.scheduler_address))[0]
    assert artifact.outcome == "skipped"
    assert "no worker of the cluster offers the resource GPU" in artifact.skipped


def test_no_scheduler_is_one_clear_error(tmp_path):
    pytest.importorskip("distributed")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1"):
            list(Dask("tcp://127.0.0.1:1").run([]))


def test_a_failing_cell_is_reported_and_the_others_finish(tmp_path):
    artifact = reproduce([toys.figure(run=toys.failing_cell)], "smoke", tmp_path)[0]
    assert artifact.outcome == "failed"
    assert not artifact.agrees
    assert list(artifact.failures.values()) == ["ValueError: one is a bad number"]
    assert len(artifact.rows) == toys.CELLS - 1
    assert not artifact.picture.exists()


def test_rows_that_cannot_be_compared_fail_their_figure_alone(tmp_path):
    reproduce([toys.figure()], "smoke", tmp_path)
    for path in (tmp_path / "cells").glob("*.json"):
        path.write_text(path.read_text().replace('"square"', '"cube"'))
    old, fresh = reproduce([toys.figure(), toys.figure("toy-fig2", seconds=0.001)], "smoke", tmp_path)
    assert old.outcome == "failed"
    assert "rows of an older version?" in old.failures["comparison"]
    assert fresh.outcome == "reproduced in part"


def test_an_interrupt_leaves_finished_cells(tmp_path):
    class Interrupted(Engine):
        def run(self, tasks):
            yield next(iter(Local().run(tasks[:1])))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce([toys.figure()], "smoke", tmp_path, Interrupted())
    assert len(list((tmp_path / "cells").glob("*.json"))) == 1
    assert reproduce([toys.figure()], "smoke", tmp_path)[0].resumed == 1


def test_out_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(ValueError, match=r"^out .*taken needs a folder where .*taken is a file"):
        reproduce([toys.figure()], "smoke", tmp_path / "taken")
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is visible")
def test_gpu_cells_without_a_gpu_say_so(tmp_path):
    artifact = reproduce([toys.figure(gpu=True)], "smoke", tmp_path)[0]
    assert artifact.outcome == "skipped"
    assert artifact.skipped == f"{toys.CELLS} of {toys.CELLS} cells: needs a GPU, none is visible to torch here"
    assert json.loads(artifact.manifest.read_text())["skipped"] == artifact.skipped
    assert not artifact.picture.exists()


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is visible")
def test_what_is_there_is_compared_and_what_is_missing_is_named(tmp_path):
    class First(Engine):
        def run(self, tasks):
            yield from Local().run([replace(task, gpu=False) for task in tasks[:-1]])
            yield from Local().run(tasks[-1:])

    figure = toys.figure(gpu=True)
    artifact = reproduce([figure], "smoke", tmp_path, First())[0]
    last = figure.cells("smoke")[-1].name
    assert artifact.missing == (last,)
    assert not artifact.skipped
    assert (artifact.computed, artifact.resumed) == (toys.CELLS - 1, 0)
    assert artifact.picture.exists()
    assert len(artifact.rows) == toys.CELLS - 1
    manifest = json.loads(artifact.manifest.read_text())
    assert manifest["missing"] == [last]
    assert manifest["comparisons"]
    whole = replace(artifact, missing=(), expectations=(Expectation(compare(1.0, "<=", 2.0, "one")),))
    assert (whole.outcome, replace(whole, missing=(last,)).outcome) == ("reproduced", "reproduced in part")
    (tmp_path / figure.id / "manifest.json").write_text(artifact.manifest.read_text())
    assert f"not computed: {last}" in standings([figure], tmp_path)[0].ours


def test_what_is_missing_is_skipped_with_its_reason(tmp_path):
    absent = reproduce([toys.figure(needs=("moon",))], "smoke", tmp_path, missing=lambda name: f"no {name}")[0]
    never = reproduce(
        [unavailable("toy-fig3", "Toy", "A photograph", "It is pretty.", "a photograph")], "paper", tmp_path
    )
    assert (absent.outcome, absent.skipped) == ("skipped", "no moon")
    assert json.loads(absent.manifest.read_text())["skipped"] == "no moon"
    assert never[0].skipped == "a photograph"
    assert never[0].agrees


@pytest.mark.parametrize("absent", [(), ("moon",), ("sun",), ("moon", "sun")])
def test_needs_that_are_met_are_no_reason(tmp_path, absent):
    asked = toys.figure(needs=("moon", "sun"))
    told = reproduce([asked], "smoke", tmp_path, missing=lambda name: f"no {name}" if name in absent else "")[0]
    assert told.skipped == "; ".join(f"no {name}" for name in absent)
    assert (told.outcome == "skipped") == bool(absent)
    assert told.computed == (0 if absent else toys.CELLS)


def test_threads_are_restored():
    before = torch.get_num_threads()
    list(Local().run([]))
    reproduce([], "smoke", "nowhere")
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("name", ["cluster", "processes:0", "processes:x", "dask://", ""])
def test_unknown_engines_are_refused(name):
    with pytest.raises(ValueError, match=r"engine must be|workers must be"):
        engine(name)


def test_bad_scale_and_unknown_figure():
    with pytest.raises(ValueError, match="scale must be one of smoke, paper"):
        reproduce([toys.figure()], "huge", "nowhere")
    with pytest.raises(ValueError, match="did you mean mianjy2018-fig1"):
        reproduce_by_id("mianjy2018-figure1")


def test_the_registry_is_complete():
    ids = [figure.id for figure in figures()]
    assert len(set(ids)) == len(ids)
    wanted = {
        *(f"mianjy2018-fig{i}" for i in (1, 2, 3)),
        *(f"pal2020-fig{i}" for i in range(1, 7)),
        *(f"helmbold2017-fig{i}" for i in (1, 2)),
        *(
            f"thesis-fig{name}"
            for name in ("1-1", "2-1", "2-2", "2-3", "3-2", "3-3", "4-1", "4-2", "5-1", "5-2", "5-3")
        ),
        *("thesis-fig6-1", "thesis-fig6-2", "thesis-tab4-1", "thesis-tab6-1", "thesis-tab6-2"),
    }
    assert wanted <= set(ids)
    for figure in figures():
        assert figure.statement
        assert figure.paper in {paper.key for paper in PAPERS}
        for scale in SCALES:
            if scale not in figure.skip:
                cells = figure.cells(scale)
                assert cells
                json.dumps([dict(cell.parameters) for cell in cells])


@pytest.mark.slow
@pytest.mark.parametrize("id", [figure.id for figure in figures() if not figure.id.startswith("thesis-fig2-")])
def test_every_figure_at_smoke_scale(tmp_path, id):
    artifact = reproduce_by_id(id, "smoke", tmp_path)[0]
    if artifact.skipped:
        pytest.skip(artifact.skipped)
    assert not artifact.failures
    assert artifact.expectations
    assert artifact.picture.stat().st_size > 5_000
    silent = [item.comparison.label for item in artifact.expectations if not item.printed]
    assert silent == [] or id.startswith("droptics-")  # ours has no print to stand beside
    surprising = [str(item.comparison) for item in artifact.expectations if item.comparison.holds != item.reproduced]
    assert surprising == []


def test_requirements_are_known():
    for figure in figures():
        for name in figure.needs:
            assert isinstance(missing(name), str)
    with pytest.raises(ValueError, match="unknown requirement"):
        missing("patience")


def run_command(*arguments: str):
    app = typer.Typer()
    app.command()(reproduce_command)
    return CliRunner().invoke(app, list(arguments))


def test_the_command_prints_outcomes(tmp_path):
    result = run_command("thesis-fig5-1", "thesis-fig6-1", "--out", str(tmp_path))
    assert result.exit_code == 0
    assert "reproduced" in result.output
    data = json.loads(run_command("thesis-fig5-1", "--out", str(tmp_path), "--json").output)
    assert data[0]["id"] == "thesis-fig5-1"
    assert data[0]["outcome"] == "reproduced"


def test_the_table_of_results_is_current():
    """results/README.md, written by `droptics reproduce --standing results`."""
    folder = TESTS.parent / "results"
    assert (folder / "README.md").read_text() == standing_page(standings(figures(), folder))
    unknown = {path.name for path in folder.iterdir() if path.is_dir()} - {figure.id for figure in figures()}
    assert unknown == set()


def test_standings_say_what_came_out_and_why_not(tmp_path):
    artifact = reproduce([toys.figure()], "paper", tmp_path / "out")[0]
    (tmp_path / "toy-fig1").mkdir()
    (tmp_path / "toy-fig1" / "manifest.json").write_bytes(artifact.manifest.read_bytes())
    never = unavailable("toy-fig3", "Toy", "A photograph", "It is | pretty.", "a photograph")
    ran, not_run = standings([toys.figure(), never], tmp_path)
    assert ran.reproduced == "partly"
    numbers = "largest square (25 == 25), printed 25 in all"
    assert ran.ours == f"1 of 2 comparisons hold; {numbers}; not: smallest square (0 == 1)"
    assert ran.ran.startswith("paper, 6 cells, ")
    assert not_run.reproduced == "not run: a photograph"
    page = standing_page([ran, not_run])
    assert "2 figures and tables: 0 reproduced (0 of them with nothing to add about the protocol), 1 partly," in page
    assert "It is \\| pretty." in page
    assert [span(value) for value in (2.04, 90, 5400)] == ["2.0 s", "1.5 min", "1.5 h"]


def test_departures_and_our_own_comparisons_stand_apart(tmp_path):
    def expects(rows, scale):
        return [
            Expectation(compare(1.0, "==", 1.0, "printed number"), printed="1.0"),
            Expectation(compare(1.0, "==", 2.0, "extra"), printed="not printed: an extra of ours"),
        ]

    figure = replace(toys.figure(), expects=expects, departures=("six seeds, printed 50",))
    artifact = reproduce([figure], "paper", tmp_path / "out")[0]
    assert artifact.outcome == "reproduced"
    extra = replace(artifact, expectations=artifact.expectations[1:])
    assert extra.outcome == "not compared"
    (tmp_path / "toy-fig1").mkdir()
    (tmp_path / "toy-fig1" / "manifest.json").write_bytes(artifact.manifest.read_bytes())
    (line,) = standings([figure], tmp_path)
    assert line.reproduced == "yes"
    assert line.ours == "1 of 1 comparisons hold; printed number (1 == 1), printed 1.0"
    assert line.departures == "six seeds, printed 50"
    assert line.own == "extra: does not hold"
    page = standing_page([line])
    assert "1 reproduced (0 of them with nothing to add about the protocol)" in page
    assert "### Comparisons of our own" in page


def test_standings_name_the_commits_that_computed_the_cells(tmp_path):
    """Those of the cells where they are known, shortened; else that of the tree that wrote the manifest."""
    artifact = reproduce([toys.figure()], "paper", tmp_path / "out")[0]
    manifest, file = json.loads(artifact.manifest.read_text()), tmp_path / "toy-fig1" / "manifest.json"
    file.parent.mkdir()
    for places, said in (
        ([{"commit": "0123456789abcdef0123"}, {"commit": "ba9876543210-dirty"}, {}],
         "0123456789ab, ba9876543210 with uncommitted changes, 00ff00ff00ff"),
        ([{}, {}], "00ff00ff00ff"),
    ):  # fmt: skip
        file.write_text(json.dumps(manifest | {"places": places, "commit": "00ff00ff00ff"}))
        assert standings([toys.figure()], tmp_path)[0].commit == said


def test_results_name_the_version_and_the_commit_without_an_installed_package(monkeypatch, tmp_path):
    provenance.commit.cache_clear()
    monkeypatch.setattr(provenance, "__file__", str(tmp_path / "a" / "b" / "c" / "provenance.py"))
    monkeypatch.setenv("DROPTICS_COMMIT", "0123abcd4567")
    try:
        assert provenance.commit() == "0123abcd4567"
        (tmp_path / ".git").mkdir()  # of whatever state the copy was made over
        provenance.commit.cache_clear()
        assert provenance.commit() == "0123abcd4567"
        assert provenance.versions()["droptics"] == droptics.__version__
    finally:
        provenance.commit.cache_clear()


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_results_name_the_commit_of_a_source_tree_with_its_own_history(monkeypatch, tmp_path):
    """A repository of one commit: the first digits of what git calls it, and `-dirty` once a file has changed."""
    for name in [name for name in os.environ if name.startswith("GIT_")] + ["DROPTICS_COMMIT"]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    source = tmp_path / "src" / "droptics" / "evidence" / "provenance.py"
    source.parent.mkdir(parents=True)
    source.write_text("first\n")

    def git(*words: str) -> str:
        whole = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org", *words]
        return subprocess.run(whole, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "first")
    head = git("rev-parse", "HEAD")[:12]
    monkeypatch.setattr(provenance, "__file__", str(source))
    provenance.commit.cache_clear()
    try:
        assert provenance.commit() == head
        source.write_text("second, longer\n")
        provenance.commit.cache_clear()
        assert provenance.commit() == f"{head}-dirty"
    finally:
        provenance.commit.cache_clear()


def test_the_command_writes_the_table_of_results(tmp_path):
    assert run_command("--standing", str(tmp_path)).exit_code == 0
    assert "0 reproduced" in (tmp_path / "README.md").read_text()


def test_the_command_refuses_nonsense(tmp_path):
    for arguments, message in (
        (("--scale", "tiny", "thesis-fig5-1"), "tiny"),
        ((), "name figures or say --all"),
        (("thesis-fig5-1", "--all"), "name figures or say --all"),
    ):
        result = run_command(*arguments)
        assert isinstance(result.exception, ValueError)
        assert message in str(result.exception)


def test_rows_hold_plain_values():
    """Numbers of libraries, also within lists, become those of Python; what is no value of a row is refused."""
    assert plain_value((1, torch.tensor(2.5), [None, "text"])) == [1, 2.5, [None, "text"]]
    with pytest.raises(ValueError, match="got dict"):
        plain_value({})
