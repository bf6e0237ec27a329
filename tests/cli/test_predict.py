"""`droptics predict` against the function behind it."""

import json

import numpy as np
import pytest
import torch
from commands import droptics
from compare import close
from safetensors.torch import load_file, save_file
from torch import nn

from droptics.predictions import predictive

NETS = """
from torch import nn

def head():
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))

def deep():
    return nn.Sequential(nn.Linear(4, 40), nn.Dropout(0.2), nn.ReLU(), nn.Dropout(0.5), nn.Linear(40, 3))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "predicted_nets.py").write_text(NETS)
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    save_file(network.state_dict(), tmp_path / "weights.safetensors")
    np.savez(tmp_path / "data.npz", inputs=torch.randn(6, 4).numpy())
    return tmp_path, network


def test_moments_and_classes_are_written(folder):
    path, network = folder
    options = (
        "--state",
        "weights.safetensors",
        "--data",
        "data.npz",
        "--classes",
        "--out",
        "sure.safetensors",
        "--json",
    )
    done = droptics("predict", "predicted_nets:head", *options, cwd=path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    inputs = torch.from_numpy(np.load(path / "data.npz")["inputs"])
    expected = predictive(network, inputs)
    found = load_file(path / "sure.safetensors")
    close(found["variance"], expected.variance.value, 1e-6)
    close(found["probabilities"], expected.classes().probabilities.value, 1e-6)
    assert told["largest_standard_deviation"] == pytest.approx(float(expected.std.detach().max()), rel=1e-6)
    example, output = divmod(int(expected.std.detach().argmax()), 3)
    assert told["of_example"] == example != output  # the place among examples, not among outputs
    assert "closed form" in told["method"]
    assert (told["examples"], told["outputs"]) == (6, 3)


def test_nothing_is_said_of_classes_unless_asked(folder):
    """Neither in the table nor in the file, which holds the two moments alone."""
    path, _ = folder
    options = ("--data", "data.npz", "--out", "sure.safetensors", "--json")
    done = droptics("predict", "predicted_nets:head", *options, cwd=path)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert not [name for name in told if "entropy" in name or "mutual" in name or "classes" in name]
    assert set(load_file(path / "sure.safetensors")) == {"mean", "variance"}


def test_other_randomness_is_sampled_and_said(folder):
    path, _ = folder
    done = droptics("predict", "predicted_nets:deep", "--data", "data.npz", "--samples", 40, "--json", cwd=path)
    assert done.returncode == 0, done.stderr
    assert "Monte Carlo, 40 masks, last site integrated" in json.loads(done.stdout)["method"]


def test_a_file_without_inputs_is_one_line(folder):
    path, _ = folder
    np.savez(path / "other.npz", targets=np.zeros(3))
    done = droptics("predict", "predicted_nets:head", "--data", "other.npz", cwd=path)
    assert done.returncode == 2
    assert "must hold an array named inputs" in done.stderr
