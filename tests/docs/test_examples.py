"""Every example runs from a clean process, is short, and leaves what it says it leaves."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
LEAVES = {
    "07_audit_my_network": "audit_mlp.html",
    "07b_audit_a_convolutional_network": "audit_cnn.html",
    "07c_audit_a_transformer_block": "audit_transformer.html",
    "09_reproduce_a_figure": "mianjy2018-fig1/smoke/figure.png",
    "10_run_a_sweep_on_a_cluster": "mianjy2018-fig2/smoke/figure.png",
}


def test_examples_are_short():
    assert len(EXAMPLES) >= 10
    for path in EXAMPLES:
        assert len(path.read_text().splitlines()) < 60, path.name
    index = (EXAMPLES[0].parent / "README.md").read_text()
    assert [path.name for path in EXAMPLES if f"`{path.name.split('_')[0]}_" not in index] == []


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
    left = LEAVES.get(path.stem)
    assert (tmp_path / "out").exists() == (left is not None)
    assert left is None or (tmp_path / "out" / left).is_file()
