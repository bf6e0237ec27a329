"""`--state`: weights from a file take the place of all of a module's own, or the file is refused."""

import os

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from droptics.cli.modules import load_module


def build():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3), nn.Linear(4, 2))


@pytest.fixture
def source(tmp_path, monkeypatch):
    (tmp_path / "own_networks.py").write_text(
        "from torch import nn\n\n\ndef build():\n"
        "    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3), nn.Linear(4, 2))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return "own_networks:build"


def test_a_state_fills_the_whole_module(source, tmp_path):
    wanted = build().state_dict()
    save_file(wanted, tmp_path / "state.safetensors")
    found = load_module(source, tmp_path / "state.safetensors").state_dict()
    assert list(found) == list(wanted)
    assert all(torch.equal(found[name], wanted[name]) for name in wanted)


def test_a_module_younger_than_the_last_look_at_its_folder_is_found(tmp_path, monkeypatch):
    """Python remembers what a folder held by the time of its change, which may be a tick of the clock ago."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="too_young cannot be imported"):
        load_module("too_young:Net")
    looked = tmp_path.stat()
    (tmp_path / "too_young.py").write_text("from torch.nn import Identity as Net")
    os.utime(tmp_path, ns=(looked.st_atime_ns, looked.st_mtime_ns))
    assert isinstance(load_module("too_young:Net"), nn.Identity)


@pytest.mark.parametrize("change", ["missing", "too many", "shape"])
def test_a_state_that_does_not_fit_is_refused(source, tmp_path, change):
    state = build().state_dict()
    if change == "missing":
        del state["2.bias"]
    elif change == "too many":
        state["3.weight"] = torch.ones(2)
    else:
        state["2.bias"] = torch.ones(3)
    save_file(state, tmp_path / "state.safetensors")
    with pytest.raises(ValueError, match=r"state\.safetensors does not fit the module"):
        load_module(source, tmp_path / "state.safetensors")
