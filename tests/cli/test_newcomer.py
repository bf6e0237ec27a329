"""What people meet first on the command line: help that reads well, NumPy's float64, devices and networks not there."""

import json
import os
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from commands import droptics
from torch import nn

from droptics.cli.app import COMMANDS
from droptics.cli.complete import _load
from droptics.cli.files import read_examples
from droptics.cli.modules import check_device, like_weights
from droptics.datasets import DatasetMissing, movielens


def test_help_breaks_lines_where_the_terminal_does(monkeypatch):
    """No line of a paragraph is short because the source broke there."""
    monkeypatch.setenv("COLUMNS", "90")
    assert set(re.findall(r"^│ (\w+)", droptics("--help").stdout, re.M)) >= set(COMMANDS)
    prose = droptics("audit", "--help").stdout.split("─ Arguments")[0]
    paragraph = [line.strip() for line in prose.split("For every site")[1].split("Example")[0].splitlines()]
    full = [line for line in paragraph if line]
    assert len(full) > 3
    assert min(map(len, full[1:-1])) > 60


def test_data_of_numpy_fit_a_network_of_float32(tmp_path):
    (tmp_path / "small_nets.py").write_text(
        "from torch import nn\n\n\ndef net():\n    return nn.Sequential(nn.Dropout(0.5), nn.Linear(4, 1))\n"
    )
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", inputs=rng.normal(size=(30, 4)), targets=rng.normal(size=(30, 1)))
    done = droptics("audit", "small_nets:net", "--data", "data.npz", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["sites"][0]["penalty"]["method"] == "exact"

    torch.save(nn.Linear(4, 3).state_dict(), tmp_path / "net.pt")
    np.savez(tmp_path / "images.npz", inputs=rng.uniform(size=(30, 4)), targets=np.arange(30) % 3)
    done = droptics("attack", "net.pt", "--data", "images.npz", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_precision_follows_the_weights():
    assert like_weights(nn.Linear(2, 1), torch.ones(2).double()).dtype == torch.float32
    assert like_weights(nn.Linear(2, 1).double(), torch.ones(2)).dtype == torch.float64
    assert like_weights(nn.Linear(2, 1), torch.arange(2)).dtype == torch.int64
    assert like_weights(nn.ReLU(), torch.ones(2).double()).dtype == torch.float64


def test_a_device_that_is_not_there_is_one_clear_error():
    assert check_device("cpu") == "cpu"
    with pytest.raises(ValueError, match="--device nonsense cannot be used on this machine"):
        check_device("nonsense")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="--device cuda cannot be used on this machine"):
            check_device("cuda")


def test_a_download_without_a_network_says_what_to_do(monkeypatch, tmp_path):
    def refuse(*arguments, **options):
        raise ConnectionError("pool: too many retries (Caused by no route to host)")

    monkeypatch.setattr("pooch.retrieve", refuse)
    with pytest.raises(ValueError, match=r"zip cannot be downloaded: no route to host\); without a network.*--folder"):
        _load("ml-1m", None, tmp_path, True)
    with pytest.raises(DatasetMissing, match=r"name its folder with folder=\.\.\. or the environment variable"):
        movielens("ml-1m", tmp_path, True)


def test_an_audit_reads_the_names_that_an_attack_reads(tmp_path):
    np.savez(tmp_path / "data.npz", images=np.ones((3, 2), np.float32), labels=np.array([0, 1, 1]))
    inputs, targets = read_examples(tmp_path / "data.npz")
    assert inputs.shape == (3, 2)
    assert targets.tolist() == [0, 1, 1]
    np.savez(tmp_path / "other.npz", images=np.ones(3))
    with pytest.raises(ValueError, match="must hold an array named targets or labels or y"):
        read_examples(tmp_path / "other.npz")


def test_skipped_figures_name_the_options_of_the_command(tmp_path, monkeypatch):
    monkeypatch.setenv("DROPTICS_DATA", str(tmp_path / "nothing"))
    monkeypatch.setenv("COLUMNS", "400")
    done = droptics("reproduce", "thesis-tab4-1", "--scale", "paper", "--out", tmp_path / "out")
    assert "skipped" in done.stdout
    assert "--data" in done.stdout
    assert "download=True" not in done.stdout


def test_without_arguments_one_is_told_what_to_try_first():
    text = " ".join(droptics().stdout.split())
    assert "Try first: `droptics demo`" in text
    assert "droptics audit --help" in text
    assert "--install-completion" in text


@pytest.mark.parametrize(("typed", "completed"), [("ver", "verify"), ("audit --bud", "--budget")])
def test_the_shell_completes_commands_and_options(typed, completed):
    """What bash asks of the command; in a process of its own, because the name it was called by counts."""
    asked = {"COMP_WORDS": f"droptics {typed}", "COMP_CWORD": str(len(typed.split()))}
    code = "import sys; sys.argv = ['droptics']; from droptics.cli import main; main()"
    environment = os.environ | {"_DROPTICS_COMPLETE": "complete_bash"} | asked
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [completed]
