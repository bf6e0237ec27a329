"""Faults that people meet when they attack, and what they are told."""

import numpy as np
import pytest
import torch
import typer
from cases import normal
from safetensors.torch import save_file
from torch import nn
from typer.testing import CliRunner

from droptics.attacks import Pgd, Threat, WeakAttackWarning, attack
from droptics.attacks.adapter import PGD
from droptics.cli.attack import attack_command
from droptics.cli.errors import guarded
from droptics.data import Sample
from droptics.losses import CrossEntropy
from droptics.papers.thesis.leaky import LeakyNet, reflected_pgd


def attack_line(*arguments):
    app = typer.Typer()
    app.command()(guarded(attack_command))
    return str(CliRunner().invoke(app, [*map(str, arguments), "--debug"]).exception)


def test_files_that_cannot_be_attacked(tmp_path):
    save_file({"0.weight": normal(3, 4).float(), "0.bias": normal(3).float()}, tmp_path / "net.safetensors")
    np.savez(tmp_path / "good.npz", inputs=np.random.default_rng(0).random((5, 4)), targets=np.arange(5) % 3)
    np.savez(tmp_path / "wide.npz", inputs=np.ones((2, 4), np.int32), targets=np.zeros(2, np.int64))
    np.savez(tmp_path / "nameless.npz", a=np.ones(2))
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "broken.pt2").write_bytes(b"no archive")

    def said(model, data="good.npz", *options):
        return attack_line(tmp_path / model, "--data", tmp_path / data, "--threat", "l2:0.1", *options)

    assert "inputs must be floating point or bytes 0..255, got torch.int32" in said("net.safetensors", "wide.npz")
    assert "must hold an array named inputs or images or x; it has ['a']" in said("net.safetensors", "nameless.npz")
    assert "does not hold a state dict" in said("list.pt")
    assert "cannot be read as an archive" in said("broken.pt2")
    assert "absent.pt does not exist" in said("absent.pt")
    assert "--count must be positive, got 0" in said("net.safetensors", "good.npz", "--count", 0)


def test_attacks_describe_themselves_and_refuse():
    shown = repr(PGD(nn.Linear(2, 2), eps=0.25, steps=3))
    assert shown.startswith("PGD(")
    assert "0.25" in shown
    net = LeakyNet(normal(4, 3), normal(4), 0.5)
    with pytest.raises(ValueError, match="radius must be >= 0, got -1"):
        reflected_pgd(net, normal(2, 3), torch.ones(2), -1.0, 0.1, 2)
    images = Sample(normal(2, 1, 2, 2).float().sigmoid(), torch.tensor([0, 1]))
    with pytest.raises(ValueError, match=r"add nn\.Flatten"):
        attack(nn.Sequential(nn.Linear(4, 2)), images, Threat("l2", 0.1), Pgd(CrossEntropy()))


class Constant(nn.Module):
    """Outputs that do not depend on the inputs."""

    def forward(self, x):
        return torch.tensor([[1.0, 0.0]]).expand(len(x), 2)


def test_a_model_without_slope_is_not_fooled():
    data = Sample(normal(4, 3).float().sigmoid(), torch.zeros(4, dtype=torch.long))
    with pytest.warns(WeakAttackWarning, match="gradients vanish on 4 of 4 attacked examples"):
        found = attack(Constant(), data, Threat("l2", 0.5), Pgd(CrossEntropy(), steps=3))
    assert not found.success.any()
    assert float((found.inputs - data.inputs).norm(dim=1).max()) <= 0.5 + 1e-6
