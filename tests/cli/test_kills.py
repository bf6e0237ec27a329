"""Commands killed at random times and run again leave what an undisturbed run leaves; `make kills` takes 200."""

import pytest

from kills import JOBS, campaign


@pytest.mark.slow
def test_killed_commands_resume():
    assert campaign(list(JOBS), len(JOBS), seed=7) == []
