"""Attacks and recommenders: faults that people meet, and what they are told."""

import numpy as np
import pytest
import torch
import typer
from cases import normal
from safetensors.torch import save_file
from sklearn.utils.validation import check_is_fitted
from torch import nn
from typer.testing import CliRunner

from droptics.attacks import Pgd, Threat, WeakAttackWarning, attack
from droptics.attacks.adapter import PGD
from droptics.attacks.leaky import LeakyNet, reflected_pgd
from droptics.cli.attack import attack_command
from droptics.data import Sample
from droptics.losses import CrossEntropy
from droptics.recommenders import DropoutCompletion, RidgeCompletion
from droptics.recommenders.ids import as_ids


def attack_line(*arguments):
    app = typer.Typer()
    app.command()(attack_command)
    return str(CliRunner().invoke(app, [str(item) for item in arguments]).exception)


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


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(0)
    pairs = np.unique(rng.integers(0, 20 * 15, 150))
    return pairs // 15, pairs % 15, rng.normal(size=len(pairs))


def test_fitted_models_know_it_and_need_their_ratings(ratings, tmp_path):
    model = DropoutCompletion(2, 0.3, sweeps=2)
    with pytest.raises(Exception, match="not fitted"):
        check_is_fitted(model)
    check_is_fitted(model.fit(ratings))
    with pytest.raises(ValueError, match="at least one rating, got none"):
        model.evaluate((np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)))
    model.save(tmp_path / "model.safetensors", seen=False)
    again = DropoutCompletion.load(tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match="saved without its ratings"):
        again.entries()
    assert len(model.entries().values) == len(ratings[2])


def test_plain_and_weighted_ridge_are_different_problems(ratings):
    """The plain penalty is strength (|U|^2 + |V|^2) on top of the squared errors, found by descent as well."""
    model = RidgeCompletion(
        2, 0.5, weighted=False, biases=False, cg_steps=None, sweeps=400, tolerance=0, dtype="float64"
    )
    model.fit(ratings)
    entries = model.entries()
    U, V = (torch.tensor(part, requires_grad=True) for part in (model.user_factors_, model.item_factors_))
    errors = (U[entries.rows] * V[entries.columns]).sum(1) - entries.values
    total = errors.square().sum() + 0.5 * (U.square().sum() + V.square().sum())
    slopes = torch.autograd.grad(total, (U, V))
    assert max(float(slope.abs().max()) for slope in slopes) < 1e-4
    weighted = RidgeCompletion(2, 0.5, weighted=True, biases=False, sweeps=5).fit(ratings)
    assert not np.allclose(weighted.user_factors_, model.user_factors_, atol=1e-3)


def test_ids_of_every_kind():
    assert as_ids(np.array([1, 2], dtype=object)).tolist() == [1, 2]
    assert as_ids(np.array([1.0, 2.0])).tolist() == [1, 2]
    assert as_ids([]).tolist() == []
    assert as_ids(7).tolist() == [7]
    with pytest.raises(ValueError, match="ids must be a vector"):
        as_ids(np.ones((2, 2), np.int64))
    for bad in (np.array([1.5]), np.array([None], dtype=object), np.array([np.nan])):
        with pytest.raises(ValueError, match="ids must be whole numbers or text"):
            as_ids(bad)
