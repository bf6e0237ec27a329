"""The door as people use it: real files, printed answers, exit codes."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
import torch
from cases import normal, sample
from commands import droptics
from compare import close
from safetensors.torch import save_file

from droptics.cli.files import read_model, read_sample, write_model
from droptics.cli.optimum import _seconds
from droptics.cli.reproduce import reproduce_command
from droptics.cli.verify import verify_command
from droptics.data import Sample
from droptics.masks import Bernoulli, Block, Product, SlidingBlock
from droptics.models import Connections, DeepLinear, TwoLayerLinear
from droptics.penalties import penalty, risk


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    data = sample()
    np.savez(folder / "data.npz", inputs=data.inputs.numpy(), targets=data.targets.numpy())
    np.savez(folder / "net.npz", U=normal(3, 6).numpy(), V=normal(4, 6).numpy())
    save_file({"W1": normal(2, 4), "W2": normal(5, 2), "W3": normal(3, 5)}, folder / "deep.safetensors")
    (folder / "broken.npz").write_bytes(b"not an archive")
    np.savez(folder / "empty.npz", other=np.ones(2))
    return folder


def test_help_reads_like_documentation():
    page = droptics("--help")
    assert page.returncode == 0
    for command in ("demo", "penalty", "optimum"):
        assert command in page.stdout
        assert droptics(command, "--help").returncode == 0
    assert droptics("--version").stdout.startswith("droptics ")


def test_help_loads_nothing_heavy():
    code = (
        "import sys\nfrom droptics.cli.app import app\n"
        "print(sorted({'torch', 'numpy', 'scipy', 'sklearn', 'numba', 'matplotlib', 'tqdm'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("options", "build"),
    [
        ([], lambda U, V: (TwoLayerLinear(U, V), Bernoulli(0.3, 6))),
        (["--block", "3"], lambda U, V: (TwoLayerLinear(U, V), Block(0.3, 6, 3))),
        (["--block", "3", "--sliding"], lambda U, V: (TwoLayerLinear(U, V), SlidingBlock.matching(0.3, 6, 3))),
        (["--connect"], lambda U, V: (Connections(U, V), Bernoulli(0.3, 24))),
    ],
)
def test_penalty_prints_what_the_library_says(files, options, build):
    done = droptics("penalty", files / "net.npz", "--data", files / "data.npz", "--drop", 0.3, "--json", *options)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    model, masks = build(normal(3, 6), normal(4, 6))
    close(found["penalty"], float(penalty(model, sample(), masks)))
    close(found["risk_without_dropout"], float(risk(model, sample())))


def test_penalty_of_a_deep_network_with_sampling(files):
    done = droptics(
        "penalty", files / "deep.safetensors", "--data", files / "data.npz", "--drop", 0.4, "--samples", 200, "--json"
    )
    found = json.loads(done.stdout)
    masks = Product([Bernoulli(0.4, 2), Bernoulli(0.4, 5)])
    close(found["penalty"], float(penalty(read_model(files / "deep.safetensors"), sample(), masks)))
    close(found["penalty_of_order_1"] + found["penalty_of_order_2"], found["penalty"])
    low, high = found["Monte_Carlo_interval"]
    assert low < found["Monte_Carlo"] < high


def test_tables_are_for_people(files):
    done = droptics("penalty", files / "net.npz", "--data", files / "data.npz", "--drop", 0.3)
    assert "expected training loss" in done.stdout


def test_optimum_certifies_a_given_network(files):
    out = files / "best.safetensors"
    options = ["--data", files / "data.npz", "--drop", 0.3, "--width", 6, "--json"]
    done = droptics("optimum", *options, "--model", files / "net.npz", "--out", out)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["certified"]
    assert found["your_gap"] > 0
    again = json.loads(droptics("optimum", *options, "--model", out).stdout)
    assert abs(again["your_gap"]) < 1e-9


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["penalty", "absent.npz", "--data", "data.npz", "--drop", "0.5"], "absent.npz does not exist"),
        (["penalty", "broken.npz", "--data", "data.npz", "--drop", "0.5"], "cannot be read: it is not an archive"),
        (["penalty", "empty.npz", "--data", "data.npz", "--drop", "0.5"], "must hold the arrays U and V"),
        (
            ["penalty", "net.npz", "--data", "empty.npz", "--drop", "0.5"],
            "must hold an array named inputs or images or x",
        ),
        (["penalty", "net.npz", "--data", "data.npz", "--drop", "1.5"], "drop is the probability of dropping"),
        (["penalty", "net.npz", "--data", "data.npz", "--drop", "0.5", "--block", "4"], "block must divide size"),
        (["penalty", "net.npz", "--data", "data.npz", "--drop", "0.5", "--block", "0"], "block must be a positive"),
        (["optimum", "--data", "data.npz", "--drop", "0.5", "--width", "0"], "--width must be a positive whole number"),
        (
            ["optimum", "--data", "data.npz", "--drop", "0.5", "--width", "5", "--model", "net.npz"],
            "compare it with --width 6",
        ),
    ],
)
def test_bad_input_is_one_line_and_exit_code_two(files, arguments, message):
    done = droptics(*arguments, cwd=files)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_weights_survive_a_round_trip(tmp_path):
    for model in (TwoLayerLinear(normal(3, 2), normal(4, 2)), DeepLinear([normal(2, 4), normal(3, 2)])):
        path = tmp_path / "new" / "net.safetensors"
        write_model(model, path)
        again = read_model(path)
        assert all(torch.equal(a, b) for a, b in zip(model.tensors, again.tensors, strict=True))
        assert [item.name for item in path.parent.iterdir()] == ["net.safetensors"]


def test_whole_numbers_in_data_files_are_converted(tmp_path):
    np.savez(tmp_path / "data.npz", inputs=np.ones((2, 3), dtype=np.int32), targets=np.ones((2, 1)))
    assert isinstance(read_sample(tmp_path / "data.npz"), Sample)


def test_files_that_are_not_weights(tmp_path):
    (tmp_path / "net.pt").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"must be a \.npz or \.safetensors file"):
        read_model(tmp_path / "net.pt")
    (tmp_path / "net.safetensors").write_bytes(b"x")
    with pytest.raises(ValueError, match=r"net\.safetensors cannot be read"):
        read_model(tmp_path / "net.safetensors")
    np.savez(tmp_path / "objects.npz", U=np.array([{}], dtype=object), V=np.ones(1))
    with pytest.raises(ValueError, match=r"objects\.npz: array 'U' holds .* objects and records are refused"):
        read_model(tmp_path / "objects.npz")
    save_file({"W1": normal(2, 4), "W2": normal(3, 2)}, tmp_path / "deep.safetensors")
    with pytest.raises(ValueError, match=r"must hold the arrays U and V and no others; it has \['W1', 'W2'\]"):
        read_model(tmp_path / "deep.safetensors", connect=True)
    with pytest.raises(ValueError, match="weights of Connections cannot be written"):
        write_model(Connections(normal(3, 2), normal(4, 2)), tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()


def test_layers_are_read_in_the_order_of_their_numbers(tmp_path):
    weights = [normal(2, 2, seed=i) for i in range(11)]
    save_file({f"W{i}": weight for i, weight in enumerate(weights, start=1)}, tmp_path / "deep.safetensors")
    for found, weight in zip(read_model(tmp_path / "deep.safetensors").weights, weights, strict=True):
        assert torch.equal(found, weight)


def test_tables_print_intervals_and_answers(files):
    done = droptics("optimum", "--data", files / "data.npz", "--drop", 0.3, "--width", 6)
    assert re.search(r"certified\s*│\s*yes", done.stdout)
    sampled = droptics("penalty", files / "net.npz", "--data", files / "data.npz", "--drop", 0.3, "--samples", 50)
    assert re.search(r"Monte Carlo interval\s*│\s*[\d.]+ to [\d.]+", sampled.stdout)


@pytest.mark.parametrize("place", ["droptics.cli.files.read_model", "droptics.cli.app.app"])
def test_a_stopped_command_leaves_without_a_trace(files, monkeypatch, place):
    """Stopped at work, and before a command has begun."""

    def stop(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(place, stop)
    done = droptics("penalty", files / "net.npz", "--data", files / "data.npz", "--drop", 0.3)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr


def test_ctrl_c_while_an_extension_loads_is_no_error(files, monkeypatch):
    """pybind11 turns it into an ImportError."""

    def load(*arguments, **options):
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr("droptics.cli.files.read_model", load)
    done = droptics("penalty", files / "net.npz", "--data", files / "data.npz", "--drop", 0.3)
    assert (done.returncode, done.stderr) == (130, "droptics: stopped\n")


def test_deep_networks_with_sliding_blocks(files):
    options = ["--data", files / "data.npz", "--drop", 0.2, "--block", 2, "--sliding", "--json"]
    found = json.loads(droptics("penalty", files / "deep.safetensors", *options).stdout)
    masks = Product([SlidingBlock.matching(0.2, 2, 2), SlidingBlock.matching(0.2, 5, 2)])
    close(found["penalty"], float(penalty(read_model(files / "deep.safetensors"), sample(), masks)))


def test_the_time_of_an_optimum_is_told_from_a_part(monkeypatch):
    spent = iter([10.0, 10.25])
    asked = []
    monkeypatch.setattr("time.perf_counter", lambda: next(spent))
    monkeypatch.setattr(
        "droptics.optima.optimum", lambda family, data, law: asked.append((data.inputs.shape, law.size))
    )
    assert _seconds(TwoLayerLinear, Sample(normal(64, 640), normal(64, 2)), [24]) == 0.25 * 8**3
    assert asked == [((8, 80), 3)] * 2
    assert _seconds(TwoLayerLinear, sample(), [24]) == 0


def test_claims_of_the_gallery_run_where_the_figures_do(tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr("droptics.papers.reproduce", lambda ids, scale, out, engine: asked.append(engine) or [])
    monkeypatch.setattr("droptics.papers.verify", lambda run_on="local": asked.append(run_on))
    monkeypatch.setattr("droptics.papers.gallery", lambda artifacts, results, out: out)
    reproduce_command(everything=True, engine="processes:2", out=tmp_path / "out")
    assert asked == ["processes:2", "processes:2"]
    assert capsys.readouterr().out.endswith(f"gallery: {tmp_path / 'out' / 'gallery'}\n")


@pytest.mark.parametrize("paper", [None, "thesis"])
@pytest.mark.parametrize(
    ("ids", "engine", "where"), [(None, None, "processes"), (["a"], None, "local"), (None, "local", "local")]
)
def test_all_claims_run_on_all_cores(ids, paper, engine, where, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr("droptics.papers.verify", lambda ids, paper, engine: asked.append((ids, paper, engine)) or [])
    verify_command(ids, paper=paper, engine=engine, as_json=True)
    assert asked == [(ids, paper, where)]
    assert capsys.readouterr().out == "[]\n"
