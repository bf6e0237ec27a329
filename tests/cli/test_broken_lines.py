"""Command lines drawn at random from broken files and arguments: none ends in a traceback."""

import random
import struct
import zipfile

import numpy as np
import pytest
import torch
from commands import droptics
from safetensors.numpy import save_file
from torch import nn

SEED = 20

SOUND = """
import torch
from torch import nn

def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 2))
"""


def _broken(path, generator):
    """The content of a file, damaged in one of a few ways."""
    content = bytearray(path.read_bytes())
    at = generator.randrange(max(1, len(content)))
    match generator.randrange(6):
        case 0:
            return bytes(content[:at])
        case 1:
            return b""
        case 2:
            for _ in range(8):
                content[generator.randrange(len(content))] = generator.randrange(256)
            return bytes(content)
        case 3:
            return bytes(content[:at] + bytes(64) + content[at:])
        case 4:
            return bytes(generator.randrange(256) for _ in range(500))
    return bytes(content) + b"\xff" * 100


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("lines")
    numbers = np.random.default_rng(0)
    good = {
        "data.npz": {"inputs": numbers.normal(size=(9, 3)), "targets": numbers.normal(size=(9, 2))},
        "labels.npz": {"inputs": numbers.random((9, 3)).astype(np.float32), "labels": numbers.integers(0, 2, 9)},
        "net.npz": {"U": numbers.normal(size=(2, 4)), "V": numbers.normal(size=(3, 4))},
        "nan.npz": {"inputs": np.full((9, 3), np.nan), "targets": np.ones((9, 2))},
        "text.npz": {"inputs": np.array(["a", "b"]), "targets": np.array(["a", "b"])},
        "shapes.npz": {"inputs": np.ones((9, 3, 2)), "targets": np.ones((4, 2))},
        "nothing.npz": {"inputs": np.ones((0, 3)), "targets": np.ones((0, 2))},
        "complex.npz": {"inputs": np.ones((9, 3), complex), "targets": np.ones((9, 2), complex)},
        "scalars.npz": {"inputs": np.float64(1), "targets": np.float64(1), "U": np.float64(1), "V": np.float64(1)},
        "small.npz": {"inputs": np.ones((9, 3), np.float16), "targets": np.ones((9, 2), np.int8)},
    }
    for name, arrays in good.items():
        np.savez(place / name, **arrays)
    save_file({"0.weight": numbers.normal(size=(2, 3)).astype(np.float32)}, place / "layers.safetensors")
    network = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    torch.save(network.state_dict(), place / "state.pt")
    torch.export.save(torch.export.export(network, (torch.zeros(9, 3),)), place / "net.pt2")
    rows = [f"{u},{i},{(u + i) % 5}" for u in range(6) for i in range(5)]
    (place / "r.csv").write_text("user,item,rating\n" + "\n".join(rows))
    (place / "r.jsonl").write_text("\n".join(f"[{row}]" for row in rows))
    (place / "r.json").write_text("[" + ",".join(f"[{row}]" for row in rows) + "]")
    (place / "odd.csv").write_text("user,item,rating\n1,2,nan\n1,2\n,,\n")
    (place / "words.csv").write_text("user,item,rating\na,b,c\n")
    (place / "one.csv").write_text("1,2,3\n")
    (place / "huge.json").write_text("[[1, 2, 1e999], [" + "9" * 5000 + ", 1, 2]]")
    (place / "odd.json").write_text('{"user": [1], "item": 2}')
    (place / "zip.pt2").write_bytes(b"PK\x05\x06" + bytes(18))
    (place / "long.safetensors").write_bytes(struct.pack("<Q", 10**9) + b"{}")
    with zipfile.ZipFile(place / "notes.npz", "w") as archive:
        archive.writestr("notes.txt", "no array")
    (place / "a_folder").mkdir()
    (place / "raising.py").write_text("def f():\n    raise SystemError('x')\n\nvalue = 3\n")
    (place / "sound.py").write_text(SOUND)
    pa, parquet = (pytest.importorskip(name, reason="pyarrow is optional") for name in ("pyarrow", "pyarrow.parquet"))
    columns = {"user": [1, 2, 1, 2], "item": [1, 2, 2, 1], "rating": [1.0, 2.0, 3.0, 4.0]}
    parquet.write_table(pa.table(columns), place / "r.parquet")
    generator = random.Random(SEED)
    for path in [item for item in sorted(place.iterdir()) if item.is_file() and item.suffix != ".py"]:
        for number in range(3):
            (place / f"broken{number}-{path.name}").write_bytes(_broken(path, generator))
    return place


MODULES = ["sound:net", "raising:f", "raising:value", "raising:no", "no:no", ":", "raising:"]
NUMBERS = ["0", "-1", "1e300", "nan", "inf", "-0.5", "1", "x", "", "0.5", "2", "99999999999999999999", "0x10"]
COMMANDS = ["penalty", "optimum", "audit", "complete", "attack", "verify", "reproduce", "predict", "rates"]
DROPS = ["0.5"] * 12 + ["1", "-0.1", "nan", "x", "0"]


def _line(generator, names):
    def file(good, *ends):
        """The sound file in half of the cases: most lines have one fault, so that it is met deep inside."""
        wanted = [name for name in names if name.endswith(ends)]
        others = [*wanted, *wanted, generator.choice(names), "absent", "a_folder", "/dev/null", "\u00fcber.npz", ""]
        return good if generator.random() < 0.5 else generator.choice(others)

    def maybe(*options):
        return [part for option in options if generator.random() < 1.5 / len(options) for part in option]

    def number():
        return generator.choice(NUMBERS)

    out = generator.choice(["a_folder", "/dev/full", "a_folder/x.safetensors", "r.csv/x.safetensors", "x.txt", ""])
    arrays, states = (".npz", ".safetensors"), (".pt", ".pt2", ".safetensors")
    drop = generator.choice(DROPS)
    match generator.choice([*COMMANDS, "none"]):
        case "penalty":
            options = maybe(("--block", number()), ("--sliding",), ("--connect",), ("--samples", number()), ("--json",))
            return ["penalty", file("net.npz", *arrays), "--data", file("data.npz", *arrays), "--drop", drop, *options]
        case "optimum":
            width = generator.choice(["1", "4", "4", "4", *NUMBERS])
            options = maybe(
                ("--block", number()), ("--model", file("net.npz", *arrays)), ("--out", out), ("--width", "3")
            )
            return ["optimum", "--data", file("data.npz", *arrays), "--drop", drop, "--width", width, *options]
        case "audit":
            model = generator.choice([file("net.pt2", ".pt2", ".pt")] * 6 + MODULES)
            options = maybe(
                ("--draws", number()), ("--batch-size", number()), ("--seed", number()), ("--html", out),
                ("--loss", "x"), ("--state", file("state.pt", *states)), ("--against", file("net.pt2", ".pt2")),
                ("--validation", file("data.npz", *arrays)),
            )  # fmt: skip
            return ["audit", model, "--data", file("data.npz", *arrays), *options]
        case "complete":
            options = maybe(
                ("--width", number()), ("--drop", number()), ("--holdout", number()), ("--penalty", number()),
                ("--smoothing", number()), ("--columns", generator.choice(["a,b,c", "0,1,2", "9,9,9", ",", "0"])),
                ("--out", out), ("--recommend", "nobody"), ("--count", number()), ("--seed", number()),
                ("--device", "gpu9"), ("--engine", "tcp://127.0.0.1:9"), ("--folder", "absent"),
                ("--rank",), ("--rank", "--threshold", number()), ("--rank", "--recommend", "1"),
            )  # fmt: skip
            return [
                "complete",
                file("r.csv", ".csv", ".json", ".jsonl", ".parquet"),
                "--no-save",
                "--sweeps",
                "1",
                *options,
            ]
        case "attack":
            options = maybe(
                ("--threat", generator.choice(["l2:1", "l3:1", "linf:8/0", "linf:nan", "x", "l1:-1"])),
                ("--method", generator.choice(["fgsm", "bim", "linear", "x"])), ("--loss", "margin"),
                ("--step", number()), ("--restarts", generator.choice(["0", "2", "x"])), ("--box", number()),
                ("--count", number()), ("--batch", number()), ("--confidence", number()), ("--out", out),
                ("--device", "gpu9"), ("--seed", number()), ("--target", "x"), ("--reflected",),
                ("--standard",), ("--standard", "--html", out), ("--standard", "--checkpoint", file("x", *states)),
            )  # fmt: skip
            return [
                "attack",
                file("layers.safetensors", *states),
                "--data",
                file("labels.npz", *arrays),
                "--steps",
                "2",
                *options,
            ]
        case "predict":
            model = generator.choice([file("net.pt2", ".pt2", ".pt"), "sound:net", *MODULES])
            options = maybe(
                ("--samples", number()), ("--seed", number()), ("--out", out), ("--classes",), ("--json",),
                ("--state", file("state.pt", *states)),
            )  # fmt: skip
            return ["predict", model, "--data", file("data.npz", *arrays), *options]
        case "rates":
            model = generator.choice(["sound:net"] * 6 + MODULES)
            options = maybe(
                ("--scan", generator.choice(["0,0.5", "1", "-1,0", "nan", "x", "", ",", "0.5"])), ("--sites", "x"),
                ("--groups", "x"), ("--batch-size", number()), ("--optimizer", "x"), ("--step-size", number()),
                ("--decay", number()), ("--stop", "x"), ("--repeats", generator.choice(["0", "-1", "x"])),
                ("--engine", "x"), ("--store", out), ("--seed", number()), ("--out", out), ("--plot", out),
                ("--loss", "x"), ("--state", file("state.pt", *states)),
            )  # fmt: skip
            given = ["--data", file("data.npz", *arrays), "--validation", file("data.npz", *arrays)]
            return ["rates", model, *given, "--epochs", "1", *options]
        case "verify":
            options = maybe(("--paper", "x"), ("--pages", "r.csv/x"), ("--list",))
            return ["verify", generator.choice(["x", "pal2020-thm99", ""]), *options]
        case "reproduce":
            options = maybe(("--scale", "x"), ("--engine", "x"), ("--list",), ("--all",))
            return ["reproduce", "no-such-figure", "--out", generator.choice(["r.csv", "a_folder"]), *options]
    return generator.choice([[], ["x"], ["--x"], ["audit"], ["penalty", "--drop"], ["--version"], ["verify", "--x"]])


def _tracebacks(folder, start, count):
    names = sorted(item.name for item in folder.iterdir() if item.is_file())
    bad = []
    for number in range(start, start + count):
        line = _line(random.Random(f"{SEED} {number}"), names)
        try:
            done = droptics(*line, cwd=folder)
            said = done.stderr
            fine = done.returncode in (0, 1, 2) and "Traceback" not in said and "unexpected" not in said
        except BaseException as error:
            fine, said = False, f"{type(error).__name__}: {error}"
        if not fine:
            bad.append((number, line, said[-600:]))
        left = [item.name for item in folder.iterdir() if ".partial" in item.name]
        assert not left, (number, line)
    return bad


def test_every_command_is_broken():
    """A new command belongs into `_line`; demo takes a folder alone, warmup nothing."""
    from typer.main import get_command

    from droptics.cli.app import app

    assert set(get_command(app).commands) - {"demo", "warmup"} == set(COMMANDS)


def test_a_hundred_broken_lines(folder):
    assert _tracebacks(folder, 0, 100) == []


@pytest.mark.slow
def test_five_hundred_broken_lines(folder):
    assert _tracebacks(folder, 100, 400) == []
