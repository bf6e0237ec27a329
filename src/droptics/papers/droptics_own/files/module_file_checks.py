"""What claims on files of networks compare: what they compute, and files that lie about themselves."""

from __future__ import annotations

import functools
import io
import itertools
import json
import logging
import pickle
import tempfile
import warnings
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from droptics.evidence.claims import Comparison, compare
from droptics.files.graphs import check_operator, plain_graph
from droptics.files.modules import _payload, _payloads, is_script, read_program, read_script, read_state
from droptics.files.pages import check_column
from droptics.files.pickles import check_pickle
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal


class _Doubling(nn.Module):
    """A function of a tensor that can be scripted and exported."""

    def __init__(self) -> None:
        super().__init__()
        self.head = linear_head(2, 3, 2)

    def forward(self, value: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.head(value)) * 2


@functools.cache
def _saved() -> tuple[bytes, bytes, bytes]:
    """A network as program, script and state dict."""
    network = _Doubling().eval().requires_grad_(False)
    files = [io.BytesIO() for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(torch.export.export(network, (normal(1, 4, 3),)), files[0])
        torch.jit.save(torch.jit.script(network), files[1])
    torch.save({"state_dict": network.state_dict(), "epoch": torch.ones(1)}, files[2])
    return files[0].getvalue(), files[1].getvalue(), files[2].getvalue()


def module_files(scale: float) -> list[Comparison]:
    """Exported, scripted and plain networks compute from their file what they computed before; no file brings code."""
    found: list[Comparison] = []
    program, script, state = _saved()
    network, points = _Doubling(), normal(1, 4, 3)
    wanted = network(points).detach()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in (("a.pt2", program), ("b.pt", script), ("c.pt", state)):
            (folder / file).write_bytes(content)
        found.append(compare(read_program(folder / "a.pt2")(points), "==", scale * wanted, "an exported program"))
        found.append(same(logging.getLogger("torch.export").disabled, False, "what torch logs, afterwards", scale))
        found.append(compare(read_script(folder / "b.pt")(points), "==", scale * wanted, "a script"))
        found.append(
            same(
                [is_script(folder / file) for file in ("a.pt2", "b.pt", "c.pt")], [False, True, False], "scripts", scale
            )
        )
        told = read_state(folder / "c.pt")
        found.append(same(sorted(told), ["head.bias", "head.weight"], "names of a state dict", scale))
        found.append(compare(told["head.weight"], "==", scale * network.head.weight.detach(), "its weights"))
        for change, words in (
            ({"torch.ops.aten.relu.default": "torch.ops.aten.from_file.default"}, "not an operator on tensors"),
            ({"use_pickle": True}, "is pickled"),
            ({"path_name": "weight_9"}, "has no data/weights/weight_9"),
            ({"path_name": "other_0"}, "not in weight_0"),
        ):
            (folder / "d.pt2").write_bytes(_changed(program, change))
            found.append(refuses(lambda: read_program(folder / "d.pt2"), words))
        (folder / "e.pt").write_bytes(_changed(script, {"torch.relu": "torch.save"}))
        found.append(refuses(lambda: read_script(folder / "e.pt"), "not an operator on tensors"))
        for shared in (torch.zeros(1).expand(2), torch.zeros(1).double().expand(5), torch.zeros(2, 1).expand(2, 3)):
            torch.save({"x": shared}, folder / "f.pt")
            found.append(refuses(lambda: read_state(folder / "f.pt"), "more entries than places"))
        torch.save(told, folder / "net.v2.pt")  # torch names the folder in it by what stands before the last dot
        again = read_state(folder / "net.v2.pt")["head.weight"]
        found.append(compare(again, "==", scale * network.head.weight.detach(), "weights of a name with dots"))
        torch.save({"x": Path("a")}, folder / "f.pt")
        found.append(refuses(lambda: read_state(folder / "f.pt"), "without running code from it"))
        for odd in ({3: torch.zeros(1)}, {"x": torch.eye(2).to_sparse()}):
            torch.save(odd, folder / "f.pt")
            found.append(refuses(lambda: read_state(folder / "f.pt"), "not a named tensor with its numbers"))
        torch.save([torch.zeros(1)], folder / "f.pt")
        found.append(refuses(lambda: read_state(folder / "f.pt"), "does not hold a state dict"))
        (folder / "f.pt").write_bytes(pickle.dumps({}))
        found.append(refuses(lambda: read_state(folder / "f.pt"), "since torch 1.6"))
    return found + _judged_parts(scale)


def _changed(content: bytes, change: dict[str, Any]) -> bytes:
    """An archive in which texts are replaced, or fields of its table of weights."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as source, zipfile.ZipFile(out, "w") as target:
        for info in source.infolist():
            part = source.read(info)
            for old, new in change.items():
                if "." in old:
                    part = part.replace(old.encode(), str(new).encode())
                elif info.filename.endswith("model_weights_config.json"):
                    table = json.loads(part)
                    next(iter(table["config"].values()))[old] = new
                    part = json.dumps(table).encode()
            target.writestr(info.filename, part)
    return out.getvalue()


def _judged_parts(scale: float) -> list[Comparison]:
    """Operators, shapes, trees and pickles, one by one."""
    found: list[Comparison] = []
    for target, good in (
        ("torch.ops.aten.add.Tensor", True),
        ("torch.ops.aten.add", True),
        ("torch.ops.aten.add.nothing", False),
        ("torch.ops.aten.save.default", False),
        ("_operator.mul", True),
        ("os.system", False),
        ("torch.ops.higher_order.cond", True),
        ("torch.ops.inductor.x", False),
    ):
        call = functools.partial(check_operator, target, "here")
        found.append(same(call(), target, target, scale) if good else refuses(call, f"calls {target}"))
    found += _judged_tables(scale)
    leaf: dict[str, Any] = {"type": None, "context": None, "children_spec": []}
    tree = json.dumps([1, {"type": "builtins.dict", "context": '["a", 2]', "children_spec": [leaf, leaf]}])
    plain = {"sizes": [{"as_int": 3}], "name": "x_1", "metadata": {"y": "(bad)"}, "in_spec": tree, "as_float": "NaN"}
    plain["tensor_values"] = {"a.b": {"sizes": [{"as_int": 2}]}}
    wanted = plain | {"metadata": {}}
    found.append(same(plain_graph(plain, "here"), wanted, "a graph that is plain", scale))
    for expression, good in (
        ("Mul(Integer(2), Symbol('s0', integer=True))", True),
        ("Pow(Symbol('s0'), Integer(2))", True),
        ("Pow(Symbol('s0'), Integer(9))", False),
        ("-s12", True),
        ("exit(0)", False),
        ("Integer(x.y)", False),
        ("Symbol('import')", False),
        ("Symbol('s0', integer='x')", False),
        ("oo", True),
        ("3.5", True),
    ):
        judged: Any = functools.partial(plain_graph, {"expr_str": expression}, "here")
        found.append(
            same(judged()["expr_str"], expression, expression, scale)
            if good
            else refuses(judged, "shape expression", f"refused: {expression}")
        )
    for bad, words in (
        ({"nonsense": 1}, "not one that is read"),
        ({"custom_obj_values": {"x": 1}}, "custom object"),
        ({"name": "a b"}, "where an identifier is expected"),
        ({"fqn": "a;b"}, "where a name is expected"),
        ({"as_string": "a(b"}, "where a text for an operator"),
        ({"out_spec": json.dumps([1, {"type": "os.x", "context": None, "children_spec": []}])}, "'os.x' is not read"),
        ({"out_spec": json.dumps([1, {"type": None, "context": '["a b"]', "children_spec": []}])}, "not plain"),
        ({"name": "x" * 1001}, "where an identifier"),
        (
            {"in_spec": json.dumps([1, {"type": None, "context": None, "children_spec": [leaf | {"type": "os.x"}]}])},
            "'os",
        ),
        ({"tensor_values": {"a b": {"name": "c"}}}, "where a name is expected"),
        ({"tensor_values": {"a": {"name": "c d"}}}, "where an identifier is expected"),
    ):
        found.append(refuses(lambda bad=bad: plain_graph(bad, "here"), words))
    check_pickle(pickle.dumps({"a": [1, 2, (3, "x")], "b": list(range(100))}), {}, "here")
    knot: Any = ()
    for _ in range(40):
        knot = (knot, knot)
    found.append(refuses(lambda: check_pickle(pickle.dumps(knot), {}, "here"), "millions of values"))
    found.append(refuses(lambda: check_pickle(pickle.dumps([1])[:-2], {}, "here"), "broken pickle"))
    found.append(refuses(lambda: check_pickle(b"\x80\x02Nr\xff\xff\xff\x7f.", {}, "here"), "more memory"))
    storage = io.BytesIO()
    torch.save({"w": torch.zeros(6)}, storage)
    with zipfile.ZipFile(storage) as archive:
        (member,) = (name for name in archive.namelist() if name.endswith("data.pkl"))
        inner = archive.read(member)
    check_pickle(inner, {"0": 24}, "here")
    found.append(
        refuses(lambda: check_pickle(inner, {"0": 23}, "here"), "asks for 24 bytes of a storage that holds 23")
    )
    return found + _judged_pages()


def _judged_tables(scale: float) -> list[Comparison]:
    """Tables of tensors of an exported program: which members they name, and how far their tensors reach."""
    found: list[Comparison] = []

    def meta(sizes: list[int], strides: list[int], offset: int, dtype: torch.dtype) -> dict[str, Any]:
        (kind,) = (number for number in range(1, 30) if _kind(number) == dtype)
        sides, steps = ([{"as_int": number} for number in numbers] for numbers in (sizes, strides))
        return {
            "dtype": kind,
            "sizes": sides,
            "strides": steps,
            "storage_offset": {"as_int": offset},
            "device": {"type": "cpu", "index": None},
        }

    # a place has 8, 4 and 2 bytes; the last of 2 x 3, of 3 turned, of 4 and of none
    tensors = {
        "whole": ("w_0", meta([2, 3], [3, 1], 0, torch.float64), 6 * 8),
        "turned": ("w_0", meta([3, 2], [1, 4], 1, torch.float32), (1 + 2 + 4 + 1) * 4),
        "late": ("w_12", meta([4], [2], 5, torch.int16), (5 + 3 * 2 + 1) * 2),
        "empty": ("w_3", meta([0, 7], [7, 1], 9, torch.float64), 0),
    }
    for names in itertools.permutations(tensors):
        table = {
            name: {"path_name": tensors[name][0], "is_param": name == "late", "use_pickle": False}
            | {"tensor_meta": tensors[name][1]}
            for name in names
        }
        kept, least = _payloads({"config": table}, "w_", Path("here"))
        found.append(same(kept, table, f"a table of {names}", scale))
        found.append(same(least, {"w_0": 48, "w_12": 24, "w_3": 0}, f"bytes of {names}", scale))
    for change, words in (
        ({"use_pickle": True}, "is pickled"),
        ({"use_pickle": None}, "is pickled"),
        ({"path_name": "w_"}, "lies in 'w_', not in w_0"),
        ({"path_name": "x_0"}, "lies in 'x_0', not in w_0"),
        ({"path_name": "w_1/2"}, "lies in 'w_1/2', not in w_0"),
        ({"path_name": 3}, "lies in '3', not in w_0"),
        ({"tensor_meta": meta([3], [0], 0, torch.float32)}, "more entries than places"),
        ({"tensor_meta": meta([-3], [1], 0, torch.float32)}, "described by no shape"),
        ({"tensor_meta": meta([3], [1], 0, torch.float32) | {"device": {"type": "meta"}}}, "described by no shape"),
    ):
        entry = {"path_name": "w_0", "is_param": True, "use_pickle": False, "tensor_meta": tensors["whole"][1]}
        bad = {"config": {"x": entry | change}}
        found.append(refuses(functools.partial(_payloads, bad, "w_", Path("here")), words, f"refused: {change}"))
    found.append(refuses(lambda: _payloads({"config": []}, "w_", Path("here")), "a table of its tensors is missing"))
    found.append(same(_payload(bytes(48), 48, "here"), bytes(48), "a member that is long enough", scale))
    found.append(refuses(lambda: _payload(bytes(47), 48, "here"), "has 47 bytes where its tensors need 48"))
    return found


def _kind(number: int) -> torch.dtype | None:
    """What torch's numbering of types says."""
    from torch._export.serde.serialize import deserialize_scalar_type  # noqa: PLC0415 - slow to import, torch's own

    try:
        return deserialize_scalar_type(number)  # type: ignore[arg-type]
    except (KeyError, ValueError):
        return None


def _page(kind: int, sizes: tuple[int, int], field: int, inner: dict[int, int]) -> bytes:
    """A page header in Thrift's compact protocol: kind, sizes, and a struct of numbers."""

    def number(value: int) -> bytes:
        value, out = value << 1, b""
        while value > 127:
            out, value = out + bytes([value & 127 | 128]), value >> 7
        return out + bytes([value])

    parts = b"".join(bytes([5]) + number(key) + number(value) for key, value in inner.items())
    head = b"".join(bytes([0x15]) + number(value) for value in (kind, *sizes))
    return head + bytes([12]) + number(field) + parts + b"\0\0"


def _judged_pages() -> list[Comparison]:
    """Pages of Parquet columns whose headers agree with the footer, and some that do not."""
    found: list[Comparison] = []
    first = _page(0, (40, 10), 5, {1: 5, 2: 0}) + bytes(10)
    second = _page(3, (400, 20), 8, {1: 3, 4: 8, 5: 1, 6: 2}) + bytes(20)
    words = _page(2, (24, 4), 7, {1: 3, 2: 0}) + bytes(4)
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "x.parquet"

        def judged(content: bytes, rows: int, start: int = 4, **more: Any) -> None:
            path.write_bytes(b"PAR1" + content)
            told = {"dictionary_page_offset": None, "compression": "SNAPPY", "physical_type": "INT64"} | more
            told = {
                "total_compressed_size": len(content) - (start - 4),
                "num_values": rows,
                "path_in_schema": "x",
            } | told
            with path.open("rb") as stream:
                check_column(stream, path, SimpleNamespace(data_page_offset=start, **told), rows)

        judged(first + second, 8)
        judged(words + first, 5, 4 + len(words), dictionary_page_offset=4, total_compressed_size=len(words + first))
        for call, text in (
            (lambda: judged(first + second, 7), "hold 8 values in 7 rows"),
            (lambda: judged(first, 5, num_values=6), "hold 5 values in 5 rows"),
            (lambda: judged(first, 5, compression="UNCOMPRESSED"), "unpacks to 40 bytes"),
            (lambda: judged(first[:-1], 5), "reaches out of its column"),
            (lambda: judged(first, 5, total_compressed_size=99), "outside of the file"),
            (lambda: judged(_page(0, (40, 0), 5, {1: 5, 2: 7}), 5), "the encoding 7 is not read"),
            (lambda: judged(_page(5, (40, 0), 5, {1: 5, 2: 0}), 5), "unknown kind 5"),
            (lambda: judged(_page(3, (2, 0), 8, {1: 3, 4: 8, 5: 1, 6: 2}), 3), "levels of 3 bytes"),
            (lambda: judged(_page(2, (23, 0), 7, {1: 3, 2: 0}) + first, 5), "a dictionary of 3 values in 23 bytes"),
            (lambda: judged(_page(0, (1 << 29, 0), 5, {1: 5, 2: 0}), 5), "refused as a bomb"),
        ):
            found.append(refuses(call, text))
    return found
