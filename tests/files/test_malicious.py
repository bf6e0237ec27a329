"""Malicious files: none runs code, none writes elsewhere, none takes the memory it asks for."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from droptics.files.graphs import _expression
from droptics.files.modules import _check_script, _payloads, _reach

SCRIPT = Path(__file__).parents[1] / "support" / "malicious.py"
HARMLESS = {  # read, since the part that would run is never looked at
    "pickled example inputs",
    "code as a guard",
    "tar through a link",
    "tar with a hard link",
    "zip with a link",
}


@pytest.fixture(scope="module")
def opened(tmp_path_factory):
    """What became of every file, opened one after the other in a process of its own."""
    folder = tmp_path_factory.mktemp("malicious") / "here"
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT), str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), folder


@pytest.mark.slow
def test_malicious_files(opened):
    found, folder = opened
    results = found["results"]
    assert len(results) >= 60
    assert [name for name, outcome in results.items() if outcome == "RAN CODE"] == []
    broken = {name: outcome for name, outcome in results.items() if outcome.startswith("broke")}
    assert not broken, "every refusal is one clear error"
    read = {name.split(": ", 1)[1] for name, outcome in results.items() if outcome == "read"}
    assert read <= HARMLESS, "everything else is refused"
    outside = [path for path in found["written"] if not path.startswith(str(folder / "in"))]
    assert outside == [], "nothing is written outside the folder it was asked for"
    assert found["growth"] < 500_000, "kilobytes, on Linux"
    if not torch.backends.cuda.is_built():  # its libraries alone take more
        assert found["total"] < 2**20, "below 1 GB with Python, torch and all that made the files"


@pytest.mark.parametrize("text", ["f(1)", "s0.real", "[1]", "s0 + 1", "Pow.x(1)", "Integer(s0 if 1 else 2)"])
def test_shapes_are_nothing_but_listed_calls(text):
    with pytest.raises(ValueError, match="it has the shape expression"):
        _expression(text, "it")


@pytest.mark.parametrize(
    ("call", "fine"),
    [
        ("torch.relu", True),
        ("ops.aten.relu", True),
        ("torch.from_file", False),
        ("torch.no_such_operator", False),
        ("ops.aten.from_file", False),
        ("ops.mine.run", False),
    ],
)
def test_scripts_call_operators_on_tensors_alone(call, fine):
    code = f"def forward(self, x):\n  return {call}(x)\n".encode()
    if fine:
        _check_script(code, "it")
    else:
        with pytest.raises(ValueError, match=r"it calls .* is not an operator on tensors"):
            _check_script(code, "it")


@pytest.mark.parametrize("file", [3, None, "elsewhere/weight_0", "weights/weight_x", "weights/weight_", "0"])
def test_tensors_of_a_program_lie_in_its_own_members(file, tmp_path):
    table = {"config": {"w": {"use_pickle": False, "path_name": file, "tensor_meta": {}}}}
    with pytest.raises(ValueError, match=r"tensor 'w' lies in .*; it is refused"):
        _payloads(table, "weights/weight_", tmp_path)


@pytest.mark.parametrize(
    ("power", "fine"),
    [("Integer(3)", True), ("Integer(-1)", True), ("Integer(9)", False), ("Symbol('s1')", False), ("2.5", False)],
)
def test_shapes_are_raised_to_small_whole_powers_only(power, fine):
    """A power that is no number may be a tower of them, which Python would compute for ever."""
    text = f"Pow(Symbol('s0'), {power})"
    if fine:
        assert _expression(text, "it") == text
    else:
        with pytest.raises(ValueError, match="it has the shape expression"):
            _expression(text, "it")


@pytest.mark.parametrize("names", [("large", "small"), ("small", "large")])
def test_a_member_is_as_long_as_the_longest_of_its_tensors_needs(names, tmp_path):
    ones = {"strides": [{"as_int": 1}], "storage_offset": {"as_int": 0}, "device": {"type": "cpu"}, "dtype": 7}
    sizes = {"large": 9, "small": 2}
    table = {
        name: {"use_pickle": False, "path_name": "w_0", "tensor_meta": ones | {"sizes": [{"as_int": sizes[name]}]}}
        for name in names
    }
    width = _payloads({"config": {"small": table["small"]}}, "w_", tmp_path)[1]["w_0"] // 2
    assert width in (4, 8)
    assert _payloads({"config": table}, "w_", tmp_path)[1] == {"w_0": 9 * width}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int16, torch.bool])
@pytest.mark.parametrize(
    "cut",
    [
        lambda whole: whole,
        lambda whole: whole[7:],
        lambda whole: whole[20:21],
        lambda whole: whole.as_strided((2, 3), (10, 2), 5),
        lambda whole: whole.as_strided((), (), 11),
        lambda whole: whole.reshape(4, 6)[1:, ::2].mT,
        lambda whole: whole[9:9],
    ],
    ids=["all", "later", "one", "strided", "scalar", "turned", "none"],
)
def test_a_tensor_reaches_to_its_last_entry_from_where_it_begins(dtype, cut):
    whole = torch.arange(24).to(dtype)
    number = {torch.float32: 7, torch.float64: 8, torch.int16: 3, torch.bool: 12}[dtype]
    part = cut(whole)
    places = cut(torch.arange(24)).flatten().tolist()
    meta = {
        "sizes": [{"as_int": side} for side in part.shape],
        "strides": [{"as_int": step} for step in part.stride()],
        "storage_offset": {"as_int": part.storage_offset()},
        "device": {"type": "cpu"},
        "dtype": number,
    }
    assert _reach(meta, "it") == (max(places, default=-1) + 1) * whole.element_size()
