"""Mistakes on the command line: one clear line each, whose fault it is, and never a traceback without --debug."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile

import numpy as np
import pytest
import torch
import typer
from commands import droptics
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors
from systems import linux, posix

from droptics.cli.app import app
from droptics.cli.errors import flush
from droptics.datasets import read_chunks

NETS = """
import torch
from torch import nn

class Needs(nn.Module):
    def __init__(self, width):
        super().__init__()

def raises():
    return {}["absent"]

class Forward(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.drop = nn.Linear(3, 2), nn.Dropout(0.5)
    def forward(self, x):
        return {"a": self.drop(self.layer(x))}["b"]

def good():
    return nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))

def leaves():
    raise SystemExit(3)

def unmade():
    return nn.Linear(3, 2, device="meta")

class Leaving(Forward):
    def forward(self, x):
        raise SystemExit(5)

class Complex(Forward):
    def forward(self, x):
        return self.drop(self.layer(x)) + 1j

class Scalar(Forward):
    def forward(self, x):
        return self.drop(self.layer(x)).sum()
"""


def array_header(shape: str) -> bytes:
    """The start of a .npy file that says a shape, whatever it is."""
    text = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}".encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("mistakes")
    generator = np.random.default_rng(0)
    np.savez(place / "data.npz", inputs=generator.normal(size=(20, 3)), targets=generator.normal(size=(20, 2)))
    np.savez(place / "labels.npz", inputs=generator.normal(size=(20, 3)), targets=generator.integers(0, 2, 20))
    np.savez(place / "half.npz", U=np.ones((2, 4), np.float16), V=np.ones((3, 4), np.float16))
    np.savez(place / "weighted.npz", inputs=np.ones((20, 3)), targets=np.ones((20, 2)), weights=np.ones(20))
    np.savez(place / "twice.npz", inputs=np.ones((20, 3)), images=np.ones((20, 3)), targets=np.ones((20, 2)))
    np.savez(place / "biased.npz", U=np.ones((2, 4)), V=np.ones((3, 4)), bias=np.ones(2))
    np.savez(place / "gap.npz", W1=np.ones((4, 3)), W3=np.ones((2, 4)))
    save_file({"0.weight": generator.normal(size=(2, 3))}, place / "net.safetensors")
    save_file({"0.weight": generator.integers(-3, 3, (2, 3))}, place / "whole.safetensors")
    small = torch.ones(20, 3, dtype=torch.float8_e4m3fn)
    save_tensors({"inputs": small, "targets": torch.ones(20, 2)}, place / "small.safetensors")
    save_tensors({"0.weight": torch.ones(2, 3).to(torch.float8_e8m0fnu)}, place / "eight.safetensors")
    for name, shape in (("set", "{20, 3}"), ("vast", f"({2**62}, 0)"), ("list", "[20, 3]")):
        with zipfile.ZipFile(place / f"{name}.npz", "w") as archive:
            archive.writestr("inputs.npy", array_header(shape) + bytes(0 if name == "vast" else 480))
    save_tensors({"layer.weight": torch.ones(2, 3) * 1j, "layer.bias": torch.ones(2)}, place / "complex.safetensors")
    np.savez(place / "huge.npz", inputs=1e200 * generator.normal(size=(20, 3)), targets=np.ones((20, 2)))
    shutil.copy(place / "data.npz", place / "LARGE.NPZ")
    rows = [f"{u},{i},{1 + (u + i) % 5}" for u in range(12) for i in range(9) if (u * i) % 4 != 3]
    (place / "r.csv").write_text("user,item,rating\n" + "\n".join(rows) + "\n")
    whole = gzip.compress((place / "r.csv").read_bytes())
    (place / "cut.csv.gz").write_bytes(whole[: len(whole) // 2])
    (place / "corrupt.csv.gz").write_bytes(whole[:30] + bytes(20) + whole[50:])
    (place / "field.csv").write_text("user,item,rating\n" + '"' + "x" * 200_000 + '",1,5\n')
    (place / "header.csv").write_text("user,item,rating\n")
    (place / "empty.json").write_text("[]")
    (place / "broken.json").write_text('[{"user": 1')
    (place / "ambiguous.csv").write_text("user,user_id,item,rating\n1,1,2,3\n")
    (place / "unnamed.csv").write_text("alpha,beta,gamma\n1,2,3\n")
    (place / "nets.py").write_text(NETS)
    (place / "bad_syntax.py").write_text("def f(:\n    pass\n")
    (place / "bad_import.py").write_text("\nraise ZeroDivisionError('x')\n")
    (place / "a_folder").mkdir()
    (place / "a_file").write_text("")
    yield place
    for name in ("nets", "bad_syntax", "bad_import"):
        sys.modules.pop(name, None)


AUDIT = ("--data", "data.npz")
OPTIMUM = ("optimum", "--data", "data.npz", "--drop", 0.5, "--width")
MISTAKES = [
    pytest.param((*OPTIMUM, 4, "--out", "/dev/full"), "No space left", marks=linux),
    ((*OPTIMUM, 4, "--out", "a_folder"), "must end in .safetensors"),
    ((*OPTIMUM, 4, "--out", "a_file/x.safetensors"), "a_file is a file"),
    ((*OPTIMUM, 4, "--model", "half.npz"), ""),
    ((*OPTIMUM, 1_000_000_000), "at most"),
    (("optimum", "--data", "small.safetensors", "--drop", 0.5, "--width", 2), "inputs must be floating point"),
    (("optimum", "--data", "huge.npz", "--drop", 0.5, "--width", 2), "inputs must be so small that torch.float64"),
    *(
        (("optimum", "--data", f"{name}.npz", "--drop", 0.5, "--width", 2), f"{name}.npz: array 'inputs' has the shape")
        for name in ("set", "vast", "list")
    ),
    (("complete", "corrupt.csv.gz"), "cannot be read"),
    (("complete", "cut.csv.gz"), "cannot be read"),
    (("complete", "field.csv"), "line 2: field larger"),
    (("complete", "header.csv"), "holds no ratings"),
    (("complete", "empty.json"), "holds no ratings"),
    (("complete", "broken.json"), "is not JSON"),
    (("complete", "ambiguous.csv"), "several columns that may hold the user"),
    (("complete", "unnamed.csv"), "no column called user"),
    pytest.param(("complete", "/dev/null"), "/dev/null is not a regular file", marks=posix),
    (("complete", "a_folder"), "a_folder is a folder"),
    (("complete", "r.csv", "--device", "meta"), "--device meta"),
    (("complete", "r.csv", "--out", "~nobody-of-this-name/x"), "home folder"),
    (("reproduce", "mianjy2018-fig1", "--out", "~nobody-of-this-name"), "home folder"),
    (("complete", "r.csv", "--out", "a_folder"), "is a folder"),
    (("complete", "r.csv", "--engine", "tcp://127.0.0.1:9"), "no Dask scheduler answers"),
    (("complete", "r.csv", "--engine", "nonsense"), "not an address"),
    (("complete", "r.csv", "--engine", "ucx://127.0.0.1:9"), "not an address"),
    (("complete", "r.csv", "--engine", "inproc://127.0.0.1/1/2"), "not an address"),
    (("complete", "r.csv", "--engine", "tls://127.0.0.1:9"), "asks for certificates"),
    (("attack", "net.safetensors", "--data", "labels.npz", "--step", "1e300"), ""),
    (("attack", "net.safetensors", "--data", "labels.npz", "--device", "meta"), "--device meta"),
    (("attack", "net.safetensors", "--data", "labels.npz", "--out", "x.pt"), "must end in"),
    (("attack", "whole.safetensors", "--data", "labels.npz"), "0.weight is torch.int64"),
    (("attack", "eight.safetensors", "--data", "labels.npz"), "0.weight is torch.float8_e8m0fnu"),
    (("audit", "nets:Needs", *AUDIT), "nets:Needs raised TypeError"),
    (("audit", "nets:leaves", *AUDIT), "nets:leaves raised SystemExit: 3 (nets.py, line 23"),
    (("audit", "nets:Leaving", *AUDIT), "SystemExit: 5 (nets.py, line 30, in forward"),
    (("predict", "nets:Leaving", *AUDIT), "SystemExit: 5 (nets.py, line 30, in forward"),
    (("audit", "nets:unmade", *AUDIT), "holds no numbers"),
    (("audit", "nets:Complex", *AUDIT), "must return real numbers"),
    (("audit", "nets:Scalar", *AUDIT), "one row per example"),
    (("audit", "nets:Forward", *AUDIT, "--state", "complex.safetensors"), "layer.weight is complex"),
    (("audit", "nets:raises", *AUDIT), "nets.py, line 10, in raises"),
    (("audit", "nets:Forward", *AUDIT), "nets.py, line 17, in forward"),
    (("audit", "bad_syntax:f", *AUDIT), "bad_syntax.py, line 1"),
    (("audit", "bad_import:f", *AUDIT), "ZeroDivisionError: x (bad_import.py, line 2"),
    (("audit", "absent_module:f", *AUDIT), "cannot be imported"),
    (("audit", "nets:good", *AUDIT, "--html", "a_folder"), "is a folder"),
    (("audit", "nets:good", "--data", "weighted.npz"), "holds the array 'weights'"),
    (("audit", "nets:good", *AUDIT, "--validation", "weighted.npz"), "holds the array 'weights'"),
    (("predict", "nets:good", "--data", "weighted.npz"), "holds the array 'weights'"),
    (("rates", "nets:good", "--data", "weighted.npz", "--validation", "data.npz"), "holds the array 'weights'"),
    (("attack", "net.safetensors", "--data", "weighted.npz"), "holds the array 'weights'"),
    (("optimum", "--data", "twice.npz", "--drop", 0.5, "--width", 2), "holds the array 'images'"),
    (("penalty", "biased.npz", *AUDIT, "--drop", 0.5), "and no others"),
    (("penalty", "gap.npz", *AUDIT, "--drop", 0.5), "and no others"),
    (("predict", "nets:good", *AUDIT, "--out", "x.npz"), "must end in .safetensors"),
    (("attack", "net.safetensors", "--data", "labels.npz", "--html", "page.html"), "go with --standard"),
    (("attack", "net.safetensors", "--data", "labels.npz", "--standard", "--html", "a_folder"), "is a folder"),
    (("attack", "net.safetensors", "--data", "labels.npz", "--standard", "--checkpoint", "a_file/x"), "is a file"),
    (("reproduce", "pal2020-fig2", "--out", "a_file"), "is a file"),
    (("reproduce", "mianjy2018-fig1", "--engine", "dask://127.0.0.1:9"), "no Dask scheduler answers"),
    (("verify", "pal2020-eq7", "--pages", "a_file/x"), "is a file"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES, ids=lambda value: str(value)[:60])
def test_a_mistake_is_one_line(folder, arguments, message):
    start = time.monotonic()
    done = droptics(*arguments, cwd=folder)
    assert done.returncode in ((0, 2) if not message else (2,))
    assert "Traceback" not in done.stderr
    assert "unexpected" not in done.stderr
    lines = [line for line in done.stderr.splitlines() if line.startswith("droptics:")]
    assert len(lines) == (done.returncode == 2)
    assert message in done.stderr.replace(str(folder) + "/", "")
    assert time.monotonic() - start < 120
    assert not [item for item in folder.iterdir() if ".partial" in item.name]


COMMANDS = typer.main.get_command(app).commands
OPTIONS = [
    (name, option.opts[0])
    for name, command in COMMANDS.items()
    for option in command.params
    if option.opts[0].startswith("--") and not option.is_flag
]


@pytest.mark.parametrize(("command", "option"), OPTIONS)
def test_no_argument_is_empty(tmp_path, command, option):
    """As a path it would be the current folder."""
    for given in ((option, ""), (f"{option}=",)):
        done = droptics(command, *given, cwd=tmp_path)
        assert done.returncode == 2
        assert f"{option} is empty" in done.stderr
    assert list(tmp_path.iterdir()) == []


@posix
@pytest.mark.parametrize("arguments", [("verify", "--list"), ("complete", "r.csv"), ("demo", "--out", "there")])
def test_a_current_folder_that_is_gone_is_named(tmp_path, arguments):
    """Torch cannot be imported there, so this needs a process of its own."""
    (tmp_path / "gone").mkdir()
    leave = "import os, sys; os.rmdir(os.getcwd()); from droptics.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", leave, *arguments], cwd=tmp_path / "gone", capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (2, "droptics: the current folder is gone; change to one that exists\n")


def test_debug_shows_where(folder):
    with pytest.raises(KeyError):
        droptics("audit", "nets:Forward", *AUDIT, "--debug", cwd=folder)


def test_a_header_is_obeyed_in_every_format(folder, tmp_path):
    wanted = list(read_chunks(folder / "r.csv"))
    users, items, values = wanted[0].users, wanted[0].items, wanted[0].values
    records = [
        {"stars": v, "Movie ID": i, "userId": u}
        for u, i, v in zip(users.tolist(), items.tolist(), values.tolist(), strict=True)
    ]
    lines = ["\t".join(str(record[name]) for name in record) for record in records]
    (tmp_path / "r.tsv").write_text("stars\tMovie ID\tuserId\n" + "\n".join(lines) + "\n")
    (tmp_path / "r.json").write_text(json.dumps(records))
    (tmp_path / "columns.json").write_text(json.dumps({name: [r[name] for r in records] for name in records[0]}))
    (tmp_path / "triples.json").write_text(json.dumps([[r["userId"], r["Movie ID"], r["stars"]] for r in records]))
    (tmp_path / "r.jsonl").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "r.jsonl.gz").write_bytes(gzip.compress((tmp_path / "r.jsonl").read_bytes()))
    parquet = pytest.importorskip("pyarrow.parquet")
    import pyarrow as pa

    parquet.write_table(pa.Table.from_pylist(records), tmp_path / "r.parquet")
    for path in sorted(tmp_path.iterdir()):
        [chunk] = read_chunks(path)
        for found, expected in ((chunk.users, users), (chunk.items, items), (chunk.values, values)):
            assert np.array_equal(found, expected), path.name


def test_the_order_of_columns_does_not_change_the_error(folder):
    """A header that names its columns in another order: read by position the error would be many times as large."""
    rows = (folder / "r.csv").read_text().splitlines()[1:]
    turned = [f"{v},{u},{i}" for u, i, v in (row.split(",") for row in rows)]
    (folder / "turned.csv").write_text("rating,user,item\n" + "\n".join(turned) + "\n")
    found = [
        json.loads(droptics("complete", name, "--width", 2, "--json", "--no-save", cwd=folder).stdout)["RMSE"]
        for name in ("r.csv", "turned.csv")
    ]
    assert found[0] == found[1]


def test_names_of_arrays_may_be_written_large(folder):
    assert droptics("optimum", "--data", "LARGE.NPZ", "--drop", 0.5, "--width", 2, cwd=folder).returncode == 0


def test_a_closed_output_is_none_of_our_faults(monkeypatch):
    """Whoever starts a program may give it no output at all; Python has None there."""
    monkeypatch.setattr(sys, "stdout", None)
    flush()


def test_lists_run_nothing():
    for command, wanted in (("verify", "pal2020-eq7"), ("reproduce", "mianjy2018-fig1")):
        found = json.loads(droptics(command, "--list", "--json").stdout)
        assert wanted in {item["id"] for item in found}
        assert wanted in droptics(command, "--list").stdout
        [one] = json.loads(droptics(command, wanted, "--list", "--json").stdout)
        assert one["id"] == wanted


def _command(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "droptics", *map(str, arguments)],
        stdout=options.pop("stdout", subprocess.PIPE),
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.slow
@linux
def test_outputs_that_cannot_be_written(folder):
    """A closed pipe, a full disk behind stdout, and a limit on the size of files."""
    import resource

    closed = _command("verify", "--list", cwd=folder)
    closed.stdout.close()
    with closed.stderr as said:
        assert said.read() == ""
    assert closed.wait(100) in (1, 141)
    with open("/dev/full", "w") as full:
        done = _command("verify", "--list", cwd=folder, stdout=full)
    assert "No space left" in done.communicate(timeout=100)[1]
    assert done.returncode == 2

    def small():
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    arguments = (*OPTIMUM, 40, "--out", "big.safetensors")
    done = _command(*arguments, cwd=folder, preexec_fn=small, env={**os.environ, "NUMBA_DISABLE_JIT": "1"})
    said = done.communicate(timeout=100)[1]
    assert done.returncode == 2, said
    assert "Traceback" not in said
    assert not (folder / "big.safetensors").exists()


@pytest.mark.slow
@posix
@pytest.mark.parametrize("seconds", [1.5, 4.0])
def test_ctrl_c_is_answered_in_one_line(folder, seconds):
    def heard():  # what a shell starts in the background is deaf to it
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    running = _command("reproduce", "--all", "--out", folder / "out", cwd=folder, preexec_fn=heard)
    time.sleep(seconds)
    running.send_signal(signal.SIGINT)
    said = running.communicate(timeout=100)[1]
    assert "Traceback" not in said or "droptics" not in said, "before our first line Python itself answers"
    assert running.returncode in (130, -signal.SIGINT)
