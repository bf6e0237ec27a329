"""Every option reaches the library: what is asked of it is looked at, and nothing is computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from cases import normal, sample
from safetensors.torch import save_file
from torch import Tensor, nn

from droptics.attacks import Bim, CrossEntropy, Fgsm, LinearExact, Logistic, Margin, Pgd, Reflected, Threat
from droptics.cli.attack import _model, attack_command
from droptics.cli.audit import audit_command
from droptics.cli.optimum import optimum_command
from droptics.cli.predict import predict_command
from droptics.cli.rates import rates_command
from droptics.errors import NoClosedForm
from droptics.masks import Block
from droptics.penalties import MonteCarlo
from droptics.rates import Fit

NETS = """
import torch
from torch import nn

def net():
    torch.manual_seed(5)
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3))
"""


class Enough(Exception):
    """What was asked is known."""


class Asked:
    """Stands for a function of the library and ends the command that asks it."""

    def __call__(self, *given: Any, **named: Any) -> Any:
        self.given, self.named = given, named
        raise Enough


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "optioned_nets.py").write_text(NETS)
    for name, seed in (("train", 1), ("held", 2)):
        np.savez(tmp_path / f"{name}.npz", inputs=normal(9, 4, seed=seed).numpy(), labels=np.arange(9) % 3)
    torch.manual_seed(8)
    save_file(nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 3)).state_dict(), "s.safetensors")
    return tmp_path


@pytest.fixture
def asked(monkeypatch):
    def of(name: str) -> Asked:
        found = Asked()
        monkeypatch.setattr(name, found)
        return found

    return of


def alike(told: tuple[Tensor, Tensor], seed: int) -> bool:
    wanted = normal(9, 4, seed=seed).float(), torch.arange(9) % 3
    return all(torch.equal(one, other) for one, other in zip(told, wanted, strict=True))


def weights_of(module: nn.Module) -> list[Tensor]:
    return list(module.state_dict().values())


def test_rates(folder, asked):
    tuned = asked("droptics.rates.tune_rates")
    names = folder / "train.npz", folder / "held.npz"
    options = {"scan": "0, 0.25", "split": True, "sites": "2, 5*", "groups": "a,b", "repeats": 3, "seed": 7}
    options |= {"engine": "processes:3", "store": folder / "kept", "loss": "cross-entropy"}
    training = {"epochs": 4, "batch_size": 6, "optimizer": "sgd", "step_size": 0.3, "decay": 0.01, "stop": "last"}
    with pytest.raises(Enough):
        rates_command("optioned_nets:net", *names, state=folder / "s.safetensors", **options, **training)
    network, train, held, loss = tuned.given
    assert alike(train, 1)
    assert alike(held, 2)
    assert loss == "cross-entropy"
    assert tuned.named == {
        "fit": Fit(4, 6, "sgd", 0.3, 0.01, stop="last"),
        "scan": [0.0, 0.25],
        "split": "factorial",
        "sites": ["2", "5*"],
        "groups": ["a", "b"],
        "repeats": 3,
        "engine": "processes:3",
        "store": folder / "kept",
        "seed": 7,
    }
    torch.manual_seed(8)
    first = nn.Linear(4, 6)
    assert torch.equal(weights_of(network)[0], first.weight)
    with pytest.raises(Enough):
        rates_command("optioned_nets:net", *names)
    kept = {name: tuned.named[name] for name in ("fit", "split", "sites", "groups", "repeats", "engine", "seed")}
    usual = {"fit": Fit(), "split": None, "sites": None, "groups": [], "repeats": 1, "engine": "local", "seed": 0}
    assert kept == usual


def test_audit(folder, asked):
    audited = asked("droptics.audits.audit")
    effort = {"budget": 12.5, "draws": 9, "batch_size": 5, "seed": 3}
    with pytest.raises(Enough):
        audit_command("optioned_nets:net", folder / "train.npz", "squared", validation=folder / "held.npz", **effort)
    _, seen, loss = audited.given
    assert alike(seen, 1)
    assert alike(audited.named.pop("validation"), 2)
    assert (loss, audited.named) == ("squared", effort)
    with pytest.raises(Enough):
        audit_command("optioned_nets:net", folder / "train.npz")
    assert audited.named["validation"] is None


def test_predict(folder, monkeypatch):
    calls: list[tuple[Any, ...]] = []

    def predictive(*given: Any) -> None:
        calls.append(given)
        raise NoClosedForm("sampled") if len(calls) == 1 else Enough

    monkeypatch.setattr("droptics.predictions.predictive", predictive)
    with pytest.raises(Enough):
        predict_command("optioned_nets:net", folder / "train.npz", samples=33, seed=4)
    assert torch.equal(calls[1][1], normal(9, 4, seed=1).float())
    assert calls[1][2:] == (None, MonteCarlo(33, seed=4))


def test_optimum(folder, asked):
    best = asked("droptics.optima.optimum")
    data = sample()
    np.savez(folder / "data.npz", inputs=data.inputs.numpy(), targets=data.targets.numpy())
    with pytest.raises(Enough):
        optimum_command(folder / "data.npz", 0.3, [6], 3)
    law = best.given[2]
    assert isinstance(law, Block)
    assert torch.equal(law.covariance, Block(0.3, 6, 3).covariance)


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ({"method": "fgsm"}, Fgsm(CrossEntropy())),
        ({"method": "fgsm", "loss": "margin", "target": "greedy"}, Fgsm(Margin("greedy"))),
        ({"method": "bim", "steps": 7, "step": 0.01}, Bim(CrossEntropy(), 7, 0.01)),
        ({"steps": 3, "restarts": 2, "seed": 9}, Pgd(CrossEntropy(), 3, None, 2, seed=9)),
        ({"step": 0.2, "reflected": True, "target": "every"}, Pgd(Reflected(CrossEntropy(), "every"), 40, 0.2)),
        ({"reflected": True, "loss": "margin"}, Pgd(Reflected(Margin("nearest"), "nearest"), 40)),
        ({"method": "linear"}, LinearExact()),
    ],
)
def test_attack(folder, asked, options, method):
    attacked = asked("droptics.attacks.attack")
    given = {"threat": "l2:0.5", "box": "-3,4", "count": 5, "batch": 2}
    save_file({"0.weight": normal(3, 4)}, folder / "net.safetensors")
    with pytest.raises(Enough):
        attack_command(folder / "net.safetensors", folder / "train.npz", **given, **options)
    network, seen, threat, how = attacked.given
    assert (threat, how, attacked.named) == (Threat("l2", 0.5, (-3, 4)), method, {"batch": 2})
    assert torch.equal(seen.inputs, normal(9, 4, seed=1)[:5])
    assert seen.targets.tolist() == [0, 1, 2, 0, 1]
    torch.testing.assert_close(network(seen.inputs), seen.inputs @ normal(3, 4).mT)


def test_attack_of_one_output_without_a_box(folder, asked):
    attacked = asked("droptics.attacks.attack")
    save_file({"0.weight": normal(1, 4)}, folder / "net.safetensors")
    np.savez(folder / "signs.npz", inputs=normal(4, 4).numpy(), targets=np.array([1.0, -1.0, 1.0, 1.0]))
    with pytest.raises(Enough):
        attack_command(folder / "net.safetensors", folder / "signs.npz", threat="l1:2", box="none")
    assert attacked.given[2:] == (Threat("l1", 2.0, None), Pgd(Logistic(), 40))


def test_bytes_are_read_as_shares_of_the_largest(folder, asked):
    attacked = asked("droptics.attacks.attack")
    save_file({"0.weight": normal(3, 4).float()}, folder / "net.safetensors")
    np.savez(folder / "bytes.npz", inputs=np.array([[0, 51, 102, 255]], np.uint8), targets=np.array([1]))
    with pytest.raises(Enough):
        attack_command(folder / "net.safetensors", folder / "bytes.npz")
    torch.testing.assert_close(attacked.given[1].inputs, torch.tensor([[0.0, 0.2, 0.4, 1.0]]))


def test_layers_of_a_state_dict_come_in_the_order_of_their_numbers(folder):
    weights = [normal(3, 3, seed=i) for i in range(12)]
    save_file({f"{2 * i}.weight": weight for i, weight in enumerate(weights)}, folder / "net.safetensors")
    wanted = inputs = normal(5, 3)
    for weight in weights:
        wanted = (wanted @ weight.mT).relu() if weight is not weights[-1] else wanted @ weight.mT
    torch.testing.assert_close(_model(folder / "net.safetensors", "cpu")(inputs), wanted)
