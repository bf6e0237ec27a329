"""Commands killed at random times and run again leave what an undisturbed run leaves; `make kills` takes 200."""

import json
import signal

import pytest
from systems import posix

import kills
from kills import JOBS, Job, campaign, prepare, results, start

pytestmark = posix
WRITES = "import os, pathlib, time; pathlib.Path('out').mkdir(exist_ok=True); time.sleep(0.3); "


@pytest.mark.parametrize(
    ("does", "wrong"),
    [
        ("open('out/a', 'wb').write(os.urandom(8))", "different: ['a']"),
        ("open('out/.a.partial', 'wb').write(b'left')", "left over: ['.a.partial']"),
        ("exit(3)", "the second run left with 3"),
        ("open('out/a', 'wb').write(b'same')", ""),
    ],
)
def test_the_instrument_sees_what_is_wrong(monkeypatch, tmp_path, does, wrong):
    """Results that differ, partial files and second runs that fail are faults; the same bytes are none."""
    monkeypatch.setitem(kills.JOBS, "toy", Job(("-c", WRITES + does)))
    prepare(tmp_path / "inputs")
    wanted = {".a.partial": b"left"} if "partial" in does else {"a": b"same"}
    kill = kills.kill_once("toy", tmp_path / "inputs", wanted, 0.25, signal.SIGKILL)
    assert kill.fault.startswith(wrong)
    assert bool(kill.fault) == bool(wrong)


def test_a_campaign_goes_on_where_it_was_stopped(monkeypatch, tmp_path):
    """Kills on record are not tried again, and every new one is kept as soon as it has ended."""
    monkeypatch.setitem(kills.JOBS, "toy", Job(("-c", WRITES + "open('out/a', 'wb').write(b'same')")))
    done, seen = kills.Kill("toy", "SIGINT", 0.1, False, ""), []
    found = campaign(["toy"], 3, seed=0, known={1: done}, keep=lambda so_far: seen.append(sorted(so_far)))
    assert found[1] is done
    assert seen == [[0, 1], [0, 1, 2]]
    monkeypatch.setattr("droptics.evidence.provenance.commit", lambda: "0123456789ab")
    path = tmp_path / "kills.json"
    path.write_text(json.dumps(kills.record(dict(enumerate(found)), 0, 1)))
    assert kills.known_kills(path, 0) == dict(enumerate(found))
    assert kills.known_kills(path, 1) == {}
    monkeypatch.setattr("droptics.evidence.provenance.commit", lambda: "ba9876543210")
    assert kills.known_kills(path, 0) == {}


@pytest.mark.slow
def test_killed_commands_resume():
    """Two of the six: reproduce and train have kills of their own, and the others write as attack does."""
    names = ["complete", "attack"]
    kills = campaign(names, len(names), seed=7)
    assert [kill.name for kill in kills] == names
    assert [str(kill) for kill in kills if kill.fault] == []


@pytest.mark.slow
def test_two_processes_share_one_folder(tmp_path):
    """Both end well, and what they leave is whole: what one run alone leaves."""
    job = JOBS["reproduce"]
    for name in ("alone", "shared"):
        prepare(tmp_path / name)
    running = [start(job, tmp_path / name) for name in ("alone", "shared", "shared")]
    said = [process.communicate()[1].decode() for process in running]
    assert [process.returncode for process in running] == [0, 0, 0], said
    alone, shared = results(job, tmp_path / "alone"), results(job, tmp_path / "shared")
    assert alone
    assert alone == shared
