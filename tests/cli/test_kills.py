"""Commands killed at random times and run again leave what an undisturbed run leaves; `make kills` takes 200."""

import pytest

from kills import JOBS, campaign, prepare, results, start


@pytest.mark.slow
def test_killed_commands_resume():
    assert campaign(list(JOBS), len(JOBS), seed=7) == []


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
