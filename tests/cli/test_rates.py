"""`droptics rates` against the function behind it."""

import json

import numpy as np
import pytest
import torch
from commands import droptics
from torch import nn
from tuned import data

from droptics.rates import Fit, Rates, tune_rates

NETS = """
import torch
from torch import nn

def net():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(7, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "tuned_nets.py").write_text(NETS)
    for name, (inputs, labels) in (("train", data(40, 1)), ("held", data(30, 2))):
        np.savez(tmp_path / f"{name}.npz", inputs=inputs.numpy(), labels=labels.numpy())
    return tmp_path


FILES = ("--data", "train.npz", "--validation", "held.npz")


def test_the_answer_is_that_of_the_function(folder):
    options = ("--scan", "0, 0.4", "--epochs", 3, "--batch-size", 16, "--json", "--out", "r.json", "--plot", "r.png")
    done = droptics("rates", "tuned_nets:net", *FILES, *options, cwd=folder)
    assert done.returncode == 0, done.stderr
    torch.manual_seed(5)
    network = nn.Sequential(nn.Linear(7, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))
    fit = Fit(epochs=3, batch_size=16)
    expected = tune_rates(network, data(40, 1), data(30, 2), fit=fit, scan=(0.0, 0.4), progress=False)
    told = json.loads(done.stdout)
    assert [point["loss"] for point in told["points"]] == [point.loss for point in expected.points]
    assert told["rates"] == expected.rates
    assert Rates.load(folder / "r.json").to_dict() == told
    assert (folder / "r.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--scan", "a,b"), "--scan must be rates"),
        (("--optimizer", "lbfgs"), "optimizer must be"),
        (("--stop", "never"), "stop must be"),
        (("--out", "answer.txt"), "--out must end in .json"),
        (("--sites", "nowhere"), "sites: no site fits"),
        (("--engine", "moon"), "engine must be"),
    ],
)
def test_mistakes_are_one_line(folder, options, message):
    done = droptics("rates", "tuned_nets:net", *FILES, "--epochs", 1, *options, cwd=folder)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
