"""The table of benchmarks: every aim has its row, promises are kept by what is recorded, floors are floors."""

import importlib
import importlib.util
import json
import re
import shutil
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def table():
    """benchmarks/standings.py, which is not part of the package."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        specification = importlib.util.spec_from_file_location("standings", BENCHMARKS / "standings.py")
        module = importlib.util.module_from_spec(specification)
        sys.modules["standings"] = module
        specification.loader.exec_module(module)
        yield module
    finally:
        sys.path.remove(str(BENCHMARKS))
        for name in ("standings", "aims", "harness"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def found(table):
    return list(table.standings())


def test_every_aim_on_the_cpu_is_measured(found):
    missing = [f"{s.aim.task} / {s.aim.against}" for s in found if s.row is None and s.aim.device == "cpu"]
    assert not missing


def test_what_falls_short_says_why(found):
    """A promise that what is recorded does not keep, or a moonshot that is not reached."""
    assert not [f"{s.aim.task} / {s.aim.against}" for s in found if (s.short or s.kept is False) and not s.aim.why]


def test_what_is_below_half_of_its_floor_says_what_takes_the_time(found):
    """On the CPU of the reference record; elsewhere the page says where nobody has looked."""
    below = [standing for standing in found if standing.share and standing.share < 0.5 and standing.aim.device == "cpu"]
    assert below
    assert not [f"{s.aim.task} / {s.aim.against}" for s in below if not s.aim.why]


def test_every_recorded_promise_is_kept(found):
    missed = [f"{s.aim.task} / {s.aim.against}: {s.score}" for s in found if s.kept is False]
    assert not missed


def test_floors_are_below_the_times(found):
    """Images that leave an attack early undercut the count of all steps."""
    early = {s.aim.task for s in found if s.aim.work and "leave early" in s.aim.work.text}
    shares = {s.aim.task: s.share for s in found if s.share and s.aim.task not in early}
    assert len(shares) > 10
    assert max(shares.values()) <= 1.0, shares


def test_result_files_are_tables(table):
    for file in (BENCHMARKS / "results").glob("*.json"):
        content = json.loads(file.read_text(), parse_constant=pytest.fail)  # no NaN, no infinity
        for row in content.get("rows", []):
            if "workload" in row and row["ratio"] is not None:
                assert row["ratio"] > 0
                assert row["ours"] is None or row["ours"] > 0  # ratios of errors, such as the guard's, have no times


def test_a_row_that_was_not_measured_says_so(table, tmp_path):
    lines = [table.cells(standing) for standing in table.standings(tmp_path)]
    assert all(line["ratio"] == "not measured" for line in lines)
    assert "not measured" in table.text(list(table.standings(tmp_path)))


def test_the_readme_shows_what_is_recorded(table):
    """Run `python benchmarks/standings.py --readme` after measuring again; small changes need no new table."""
    readme = (BENCHMARKS.parent / "README.md").read_text()
    for line in table.readme_table().splitlines()[2:]:
        task, against, *_, ratio = (cell.strip() for cell in line.strip("|").split(" | "))
        shown = re.search(rf"^\| {re.escape(task)} \| {re.escape(against)} \|.*\| ([\d.,]+)x \|$", readme, re.MULTILINE)
        assert shown, task
        recorded = float(ratio.rstrip("x ").replace(",", ""))
        assert float(shown[1].replace(",", "")) == pytest.approx(recorded, rel=0.2), task


def test_no_promise_rests_on_a_study(table, monkeypatch):
    """`make bench` leaves studies out, so that what it promises must come from the other scripts."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    run = importlib.import_module("run")
    monkeypatch.delitem(sys.modules, "run")
    assert set(run.STUDIES) < set(run.scripts())
    measured = {standing.aim.file for standing in table.standings()}
    assert measured
    assert not {file for file in measured for study in run.STUDIES if file.removesuffix("_gpu") == study}


@pytest.mark.parametrize(("record", "folder"), [(None, "measured"), ("0", "measured"), ("1", "results")])
def test_another_machine_leaves_the_record_alone(table, monkeypatch, tmp_path, record, folder):
    """Only `run.py --record`, which sets the variable, writes where README and these tests read."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.delenv("DROPTICS_RECORD", raising=False)
    if record is not None:
        monkeypatch.setenv("DROPTICS_RECORD", record)
    monkeypatch.delitem(sys.modules, "harness", raising=False)
    harness = importlib.import_module("harness")
    assert (harness.RECORDED if folder == "results" else BENCHMARKS / folder) == harness.RESULTS
    assert BENCHMARKS / "results" == table.RESULTS
    monkeypatch.setattr(harness, "RESULTS", tmp_path / "new")
    assert harness.write("rows", {"rows": []}) == tmp_path / "new" / "rows.json"


@pytest.mark.parametrize(("machine", "folder"), [("aarch64", "results"), ("x86_64", "results/x86_64")])
def test_every_kind_of_machine_has_its_record(table, monkeypatch, machine, folder):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.delitem(sys.modules, "harness", raising=False)
    assert BENCHMARKS / folder == importlib.import_module("harness").RECORDED
    monkeypatch.delitem(sys.modules, "harness")


def test_a_loss_of_more_than_a_tenth_of_a_promised_ratio_is_named(table, tmp_path):
    """The record against copies of itself: the same, a twentieth slower, and one promised row a fifth slower."""
    for name, factor in (("same", 1.0), ("little", 0.95), ("much", 0.8)):
        (tmp_path / name).mkdir()
        for file in table.RESULTS.glob("*.json"):
            content = json.loads(file.read_text())
            for row in content.get("rows", []):
                if file.stem == "training" and "deep linear" in row.get("workload", ""):
                    row["ratio"] *= factor
            (tmp_path / name / file.name).write_text(json.dumps(content))
    assert table.losses(tmp_path / "same", tmp_path / "little") == []
    (lost,) = table.losses(tmp_path / "same", tmp_path / "much")
    assert lost.startswith("deep linear training by exact gradients, against sampled masks")
    assert [lost] == table.losses(tmp_path / "same" / "training.json", tmp_path / "much" / "training.json")
    assert table.losses(tmp_path / "same" / "optima.json", tmp_path / "much" / "optima.json") == []


def test_a_promised_row_that_a_file_lost_is_named_and_a_file_that_was_not_run_is_not(table, tmp_path):
    for name in ("whole", "renamed"):
        (tmp_path / name).mkdir()
        for file in table.RESULTS.glob("*.json"):
            (tmp_path / name / file.name).write_text(file.read_text())
    file = tmp_path / "renamed" / "training.json"
    file.write_text(file.read_text().replace("deep linear", "shallow"))
    (lost,) = table.losses(tmp_path / "whole", tmp_path / "renamed")
    assert lost.startswith("deep linear training by exact gradients, against sampled masks")
    assert ": no row where " in lost
    assert table.losses(tmp_path / "renamed", tmp_path / "whole") == []
    file.unlink()
    assert table.losses(tmp_path / "whole", tmp_path / "renamed") == []


def test_machines_stand_side_by_side_on_the_page(table, tmp_path, monkeypatch):
    """The record again, as that of another machine on which one promise is missed."""
    monkeypatch.syspath_prepend(BENCHMARKS.parent / "docs")
    page = importlib.import_module("benchmark_page")
    (tmp_path / "x86_64").mkdir()
    for file in table.RESULTS.glob("*.json"):
        (tmp_path / file.name).write_text(file.read_text())
        content = json.loads(file.read_text())
        for row in content.get("rows", []):
            row.update({"ratio": row["ratio"] / 1000} if row.get("ratio") else {})
        (tmp_path / "x86_64" / file.name).write_text(json.dumps(content))
    head, *lines = [text for text in page.benchmarks_page(tmp_path).splitlines() if text.startswith("|")]
    assert head.rstrip("| ").endswith(r"on x86\_64")
    assert any("(missed)" in text.rsplit("|", 2)[1] for text in lines)
    shutil.rmtree(tmp_path / "x86_64")
    assert r"on x86\_64" not in page.benchmarks_page(tmp_path)


def test_a_share_stands_where_no_ratio_was_measured(table, monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS.parent / "docs")
    page = importlib.import_module("benchmark_page")
    row = {"ours": 4.0, "ratio": None}
    assert page.there(table.Standing(table.AIMS[0], row, 1.0)) == "25% of the floor"
    assert page.there(table.Standing(table.AIMS[0], row | {"ratio": 700.0}, 1.0)) == "700x, 25% of the floor"
    assert page.there(table.Standing(table.AIMS[0], None, 1.0)) == ""


@pytest.mark.parametrize(("taken", "kept"), [(8.0, True), (12.5, False)])
def test_an_audit_keeps_its_promise_up_to_ten_passes(table, tmp_path, taken, kept):
    content = {"images": 100, "forward_seconds": 0.5, "beyond_sampling": taken}
    (tmp_path / "audit_cpu.json").write_text(json.dumps(content))
    (found,) = (standing for standing in table.standings(tmp_path) if standing.row)
    assert found.kept is kept
    line = table.cells(found)
    assert (line["droptics"], line["alternative"]) == (f"{taken / 2:.3g} s", "5 s")
    assert (line["ratio"], line["promised"][:11]) == (f"{taken} passes", "10.0 passes")


@pytest.mark.parametrize(("repeats", "ours", "theirs"), [(1, 1 + 3, 1), (3, 1 + 3, 1 + 3)])
def test_what_is_timed_once_is_run_once(table, monkeypatch, repeats, ours, theirs):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")  # taken back afterwards; the module sets those that are missing for good
    harness = importlib.import_module("harness")
    calls = {"ours": 0, "theirs": 0}

    def count(name):
        calls[name] += 1
        return sum(range(2000))

    mine, other, ratio = harness.compare(
        harness.several(lambda: count("ours"), 2), lambda: count("theirs"), repeats=repeats
    )
    assert calls == {"ours": 2 * ours, "theirs": theirs}
    assert min(mine, other, ratio) > 0


def test_a_run_that_is_cut_off_keeps_its_rows(table, monkeypatch, tmp_path):
    """A first whole run leaves a and b; the second writes a again and ends in b, the third is whole and has no b."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    harness = importlib.import_module("harness")
    monkeypatch.setattr(harness, "RESULTS", tmp_path)

    def rows(workload, seconds):
        return [harness.Row(workload, seconds, 2 * seconds, 2.0, "")]

    def recorded():
        return {row["workload"]: row["ours"] for row in json.loads((tmp_path / "some.json").read_text())["rows"]}

    harness.in_turn("some", {"first": lambda: rows("a", 1.0), "second": lambda: rows("b", 1.0)})
    with pytest.raises(KeyboardInterrupt):
        harness.in_turn("some", {"first": lambda: rows("a", 3.0), "second": _interrupted})
    assert list(recorded().items()) == [("a", 3.0), ("b", 1.0)]
    harness.in_turn("some", {"first": lambda: rows("a", 5.0)})
    assert recorded() == {"a": 5.0}


def test_a_part_leaves_the_other_rows_and_the_versions_that_they_ran_against(table, monkeypatch, tmp_path):
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(name, "1")
    harness = importlib.import_module("harness")
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    first = {"workload": "a", "ours": 1.0}, {"workload": "b", "ours": 1.0}
    harness.write("some", {"rows": first, "versions": {"surprise": "1", "python": "2"}})
    harness.merge("some", [harness.Row(name, 2.0, 4.0, 2.0, "") for name in ("c", "a")])
    content = json.loads((tmp_path / "some.json").read_text())
    assert [(row["workload"], row["ours"]) for row in content["rows"]] == [("a", 2.0), ("b", 1.0), ("c", 2.0)]
    assert content["versions"]["surprise"] == "1"
    assert content["versions"]["python"] != "2"


def _interrupted():
    raise KeyboardInterrupt


def test_the_page_on_rates_shows_what_is_recorded():
    """Run `python benchmarks/bench_rates.py --table` with DROPTICS_RECORD=1 after measuring again."""
    page = (BENCHMARKS.parent / "docs" / "rates.md").read_text(encoding="utf-8")
    table = json.loads((BENCHMARKS / "results" / "rates.json").read_text())
    assert table["rows"]
    for row in table["rows"]:
        assert f"| {' | '.join(row.values())} |" in page
    for sentence in table["sentences"]:
        assert sentence in " ".join(page.split())


def test_the_page_on_predictions_holds_the_recorded_tables(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    page = (BENCHMARKS.parent / "docs" / "rooms" / "predictions.md").read_text(encoding="utf-8")
    assert importlib.import_module("uci_protocol").table() in page
    assert importlib.import_module("bench_predictive").table() in page
    for name in ("uci_protocol", "bench_predictive", "bench_step", "harness"):
        sys.modules.pop(name, None)
