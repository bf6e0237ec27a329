"""`droptics attack` on small saved models."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from safetensors.torch import load_file, save_file
from torch import nn
from typer.testing import CliRunner

from droptics.attacks import Bim, CrossEntropy, Pgd, Reflected, Threat, attack
from droptics.attacks.methods import Method
from droptics.cli.app import app as whole
from droptics.cli.attack import attack_command
from droptics.cli.errors import guarded
from droptics.data import Sample

app = typer.Typer()
app.command()(guarded(attack_command))


def run(*arguments: object):
    return CliRunner().invoke(app, [*map(str, arguments), "--debug"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("attack")
    with torch.random.fork_rng():
        torch.manual_seed(0)
        net = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3)).eval()
        images = torch.rand(80, 3, 2, 2)
    labels = net(images).argmax(1)
    labels[::8] = (labels[::8] + 1) % 3
    np.savez(path / "images.npz", images=images.numpy(), labels=labels.numpy())
    np.savez(path / "bytes.npz", images=(images * 255).byte().numpy(), labels=labels.numpy())
    torch.jit.trace(net, images).save(str(path / "model.pt"))
    torch.export.save(
        torch.export.export(net, (images,), dynamic_shapes=({0: torch.export.Dim("n")},)), path / "net.pt2"
    )
    torch.save(net.state_dict(), path / "state.pt")
    save_file(net.state_dict(), path / "state.safetensors")
    return path


def answer(*arguments: object) -> dict[str, object]:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_every_kind_of_file_gives_the_same_answer(folder: Path) -> None:
    options = ("--data", folder / "images.npz", "--threat", "l2:0.2", "--method", "pgd", "--reflected")
    answers = [answer(folder / name, *options) for name in ("model.pt", "net.pt2", "state.pt", "state.safetensors")]
    with np.load(folder / "images.npz") as arrays:
        data = Sample(arrays["images"], arrays["labels"])
    state = load_file(folder / "state.safetensors")
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))
    net.load_state_dict(state)
    result = attack(net, data, Threat("l2", 0.2, (0, 1)), Pgd(Reflected(CrossEntropy())))
    for found in answers:
        assert found["examples"] == 80
        assert found["clean_accuracy"] == pytest.approx(float(result.clean_accuracy()))
        assert found["robust_accuracy"] == pytest.approx(float(result.robust_accuracy()))
        low, high = found["robust_accuracy_interval"]
        assert low < found["robust_accuracy"] < high


@pytest.mark.parametrize(("name", "method"), [("bim", Bim(CrossEntropy(), 5)), ("pgd", Pgd(CrossEntropy(), 5))])
def test_rows_are_those_of_what_was_found(name: str, method: Method, tmp_path: Path) -> None:
    """Of examples that were wrong before nothing is said to be fooled, nor how far they moved: under pgd they stay."""
    generator = torch.Generator().manual_seed(3)
    weight, inputs = torch.randn(3, 12, generator=generator), torch.rand(80, 12, generator=generator)
    labels = (inputs @ weight.mT).argmax(1)
    labels[::8] = (labels[::8] + 1) % 3
    save_file({"weight": weight}, tmp_path / "net.safetensors")
    np.savez(tmp_path / "data.npz", inputs=inputs.numpy(), labels=labels.numpy())
    options = ("--threat", "linf:0.1", "--method", name, "--steps", 5, "--confidence", 0.8)
    found = answer(tmp_path / "net.safetensors", "--data", tmp_path / "data.npz", *options)
    net = nn.Linear(12, 3, bias=False)
    net.load_state_dict({"weight": weight})
    result = attack(net, Sample(inputs, labels), Threat("linf", 0.1, (0, 1)), method)
    fooled = [i for i in range(80) if result.success[i] and result.clean_correct[i]]
    assert 5 < len(fooled) < int(result.success.sum())
    clean, robust = result.clean_accuracy(0.8), result.robust_accuracy(0.8)
    assert found["fooled_by_the_attack"] == len(fooled)
    moved = sum(float(result.radius[i]) for i in fooled) / len(fooled)
    assert found["mean_distance_of_the_fooled"] == pytest.approx(moved, rel=1e-5)
    assert found["gradients_per_example"] == result.gradients / 80
    assert found["clean_accuracy_interval"] == pytest.approx([float(clean.lower), float(clean.upper)])
    assert found["robust_accuracy_interval"] == pytest.approx([float(robust.lower), float(robust.upper)])


def test_a_folder_is_the_files_in_it(folder: Path, tmp_path: Path) -> None:
    with np.load(folder / "images.npz") as arrays:
        for name, part in (("a", slice(0, 30)), ("b", slice(30, None))):
            np.savez(tmp_path / f"{name}.npz", images=arrays["images"][part], labels=arrays["labels"][part])
    options = ("--threat", "l2:0.2", "--method", "fgsm")
    model = folder / "state.safetensors"
    assert answer(model, "--data", tmp_path, *options) == answer(model, "--data", folder / "images.npz", *options)


def test_table_bytes_counts_and_output(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "found.safetensors"
    options = ("--data", folder / "bytes.npz", "--threat", "linf:8/255", "--method", "bim", "--count", 20, "--out", out)
    result = run(folder / "state.pt", *options)
    assert result.exit_code == 0
    assert "robust accuracy" in result.output
    arrays = load_file(out)
    assert arrays["inputs"].shape == (20, 3, 2, 2)
    assert float(arrays["radius"].max()) <= 8 / 255 + 1e-6
    assert arrays["success"].dtype == torch.bool
    assert list(tmp_path.iterdir()) == [out]


def test_doubts_are_told_and_none_where_there_is_none(tmp_path: Path) -> None:
    """Without weights no gradient moves an input, and the search cannot have found anything."""
    for scale, doubts in ((0.0, ["gradients vanish"]), (1.0, [])):
        images = torch.rand(12, 4, generator=torch.Generator().manual_seed(0))
        np.savez(tmp_path / "images.npz", images=images.numpy(), labels=np.zeros(12, int))
        weight = scale * torch.tensor([[1.0, 1, 1, 1], [0, 0, 0, 0]])
        save_file({"0.weight": weight, "0.bias": torch.tensor([1.0, 0.0])}, tmp_path / "net.safetensors")
        told = answer(tmp_path / "net.safetensors", "--data", tmp_path / "images.npz", "--threat", "linf:0.01")[
            "doubts"
        ]
        assert told == "none" if not doubts else all(part in " ".join(told) for part in doubts)


def test_the_standard_ensemble_and_what_it_writes(folder: Path, tmp_path: Path) -> None:
    options = ["--data", folder / "images.npz", "--threat", "linf:0.03", "--standard", "--count", 20]
    out, html, state = (tmp_path / name for name in ("found.safetensors", "page.html", "state.safetensors"))
    done = run(folder / "state.safetensors", *options, "--json", "--out", out, "--html", html, "--checkpoint", state)
    assert done.exit_code == 0, done.output
    said = json.loads(done.output)
    single = json.loads(run(folder / "state.safetensors", *options[:4], "--count", 20, "--json").output)
    assert said["robust_accuracy"]["value"] <= single["robust_accuracy"]
    assert said["clean_accuracy"]["value"] == single["clean_accuracy"]
    assert load_file(out)["inputs"].shape == (20, 3, 2, 2)
    assert "Robust accuracy" in html.read_text()
    assert state.exists()
    table = run(folder / "state.safetensors", *options, "--checkpoint", state)
    assert "robust accuracy" in table.output


def test_several_models_side_by_side(folder: Path, tmp_path: Path) -> None:
    options = ["--data", folder / "images.npz", "--threat", "linf:0.03", "--standard", "--count", 20]
    first, second = folder / "state.safetensors", tmp_path / "turned.safetensors"
    state = load_file(first)
    last = sorted(name for name in state if name.endswith("weight"))[-1]
    save_file({**state, last: -state[last]}, second)
    said = json.loads(run(first, *options, "--beside", second, "--json").output)
    for path in (first, second):
        alone = json.loads(run(path, *options, "--json").output)
        for key in ("clean_accuracy", "robust_accuracy"):
            assert said[path.name][key] == alone[key]
    shown = run(first, *options, "--beside", second).output
    assert "turned.safetensors" in shown
    assert f"{100 * said[first.name]['robust_accuracy']['value']:.1f} %" in shown
    for wrong in ([*options[:4], "--beside", second], [*options, "--beside", second, "--html", tmp_path / "a.html"]):
        done = run(first, *wrong)
        assert done.exit_code != 0
        assert "--beside goes with --standard" in str(done.exception)


def test_linear_models_and_scorers(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(1, 5, generator=generator, dtype=torch.float64)
    save_file({"weight": weight}, tmp_path / "linear.safetensors")
    inputs = torch.randn(50, 5, generator=generator, dtype=torch.float64)
    targets = torch.randn(50, generator=generator, dtype=torch.float64).sign()
    np.savez(tmp_path / "data.npz", inputs=inputs.numpy(), targets=targets.numpy())
    options = ("--data", tmp_path / "data.npz", "--threat", "l2:0.3", "--box", "none")
    exact = answer(tmp_path / "linear.safetensors", *options, "--method", "linear")
    expected = float((targets * (inputs @ weight[0]) - 0.3 * weight.norm() > 0).double().mean())
    assert exact["robust_accuracy"] == pytest.approx(expected)
    for name in ("fgsm", "pgd"):
        found = answer(tmp_path / "linear.safetensors", *options, "--method", name, "--loss", "margin")
        assert found["robust_accuracy"] == pytest.approx(expected)
    assert answer(tmp_path / "linear.safetensors", *options)["robust_accuracy"] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": "absent.pt"}, "does not exist"),
        ({"--threat": "l9:1"}, "norm must be"),
        ({"--threat": "strong"}, "threat must read"),
        ({"--method": "magic"}, "--method must be"),
        ({"--loss": "pain"}, "--loss must be"),
        ({"--box": "0"}, "--box must read"),
        ({"--box": "0.4,0.6"}, "must lie in the box"),
        ({"--count": "0"}, "--count must be positive"),
        ({"--data": "absent.npz"}, "does not exist"),
        ({"--out": "found.txt"}, "must end in .safetensors"),
        ({"--method": "linear"}, "must be affine"),
    ],
)
def test_mistakes_are_one_error(folder: Path, changes: dict[str, str], message: str) -> None:
    options = {"model": "state.pt", "--data": "images.npz", "--threat": "l2:0.1"} | changes
    arguments: list[object] = [folder / options.pop("model")]
    for name, value in options.items():
        arguments += [name, folder / value if name == "--data" else value]
    result = run(*arguments)
    assert isinstance(result.exception, ValueError)
    assert message in str(result.exception)


def test_pickled_code_is_not_run(folder: Path, tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, tuple[str]]:
            return (Path.touch, (tmp_path / "sprung",))  # type: ignore[return-value]

    (tmp_path / "evil.pt").write_bytes(pickle.dumps(Trap()))
    torch.save({"weight": Trap()}, tmp_path / "worse.pt")
    with zipfile.ZipFile(folder / "net.pt2") as source, zipfile.ZipFile(tmp_path / "exported.pt2", "w") as target:
        for name in source.namelist():
            content = source.read(name)
            target.writestr(name, pickle.dumps(Trap()) if "sample_inputs" in name and name.endswith(".pt") else content)
    save_file({"kernel.weight": torch.zeros(2, 2, 3, 3)}, tmp_path / "conv.safetensors")
    save_file({"0.weight": torch.zeros(5, 12), "1.weight": torch.zeros(3, 4)}, tmp_path / "broken.safetensors")
    for name, message in (
        ("evil.pt", "without running code"),
        ("worse.pt", "without running code"),
        ("conv.safetensors", "not a state dict of linear layers"),
        ("broken.safetensors", "come before it"),
    ):
        result = run(tmp_path / name, "--data", folder / "images.npz")
        assert isinstance(result.exception, ValueError), name
        assert message in str(result.exception)
    assert run(tmp_path / "exported.pt2", "--data", folder / "images.npz").exit_code == 0, "its pickle is never read"
    assert not (tmp_path / "sprung").exists()


def test_a_model_that_does_not_fit_the_data(folder: Path, tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(3, 7)}, tmp_path / "small.safetensors")
    result = run(tmp_path / "small.safetensors", "--data", folder / "images.npz")
    assert isinstance(result.exception, ValueError)
    assert "cannot be evaluated on inputs of shape (1, 3, 2, 2)" in str(result.exception)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_line_of_the_manual(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scripted model through the whole command line, as it is written in the help."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 3))
    net.load_state_dict(load_file(folder / "state.safetensors"))
    torch.jit.script(net.eval()).save(str(tmp_path / "model.pt"))
    (tmp_path / "images.npz").write_bytes((folder / "images.npz").read_bytes())
    monkeypatch.chdir(tmp_path)
    line = "attack model.pt --data images.npz --threat l2:0.5 --method pgd --reflected"
    result = CliRunner().invoke(whole, line.split())
    assert result.exit_code == 0, result.output
    for words in ("clean accuracy", "robust accuracy", "robust accuracy interval"):
        assert words in result.output
    found = json.loads(CliRunner().invoke(whole, [*line.split(), "--out", "found.safetensors", "--json"]).output)
    arrays = load_file("found.safetensors")
    wrong = net(arrays["inputs"]).argmax(1) != torch.from_numpy(np.load("images.npz")["labels"])
    assert torch.equal(wrong, arrays["success"])
    assert found["robust_accuracy"] == pytest.approx(1 - float(wrong.double().mean()))
    assert found["clean_accuracy_interval"][0] < found["clean_accuracy"] < found["clean_accuracy_interval"][1]
