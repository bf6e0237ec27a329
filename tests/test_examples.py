"""Every example runs from a clean process, is short, and leaves what it says it leaves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))


def test_examples_are_short():
    assert len(EXAMPLES) >= 10
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) < 60, path.name


@pytest.mark.slow
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example_runs(path, tmp_path):
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "DROPTICS_DATA": str(tmp_path / "no-data")}
    done = subprocess.run(
        [sys.executable, str(path), str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
