"""Models from files: exported programs, TorchScript and state dicts, none of which can bring code of its own.

torch itself unpickles parts of an exported program and compiles texts of it as Python: names of nodes, guards, shape
expressions, and any attribute of torch that a node names. So torch never sees the file: what it loads is a copy, made
in memory from the parts that are listed here.
"""

from __future__ import annotations

import ast
import io
import json
import logging
import math
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from droptics.files.archives import zip_members
from droptics.files.arrays import read_tensors
from droptics.files.graphs import check_operator, plain_graph
from droptics.files.pickles import check_pickle

_FOLDERS = {"weights": "weight_", "constants": "tensor_"}
_IGNORED = (".data/version", ".data/serialization_id", "byteorder", "archive_format", "archive_version")
_UNUSED = ("data/sample_inputs/model.pt",)  # a pickle that nothing here needs
_UNREAD = (".debug_pkl", "/traced_inputs.pkl")  # where lines of a script stood once, and what it was traced with
_LOG = logging.getLogger("torch.export")


def read_program(path: Path) -> nn.Module:
    """The module of a file written by torch.export.save, with everything refused that is not plain data.

    Allowed are one program called `model`, its raw weights and constants, and a graph of operators of torch (see
    `droptics.files.graphs`). Pickled, opaque and custom objects, compiled libraries, older formats, names that are not
    plain and members that nobody asks for are refused by name. Example inputs and guards are left out.
    """
    copy = _canonical(path)
    try:
        with _quiet():
            return torch.export.load(copy).module(check_guards=False)
    except Exception as error:
        raise ValueError(f"{path} cannot be loaded as an exported program: {_first_line(error)}") from error


def _canonical(path: Path) -> io.BytesIO:
    """A new archive with the judged parts of the file and nothing else."""
    from torch.export.pt2_archive import PT2ArchiveWriter  # noqa: PLC0415 - it loads the compiler, a second

    with zip_members(path, stored=True) as (archive, members):
        root = {name.split("/", 1)[0] for name in members}
        if len(root) != 1:
            raise ValueError(f"{path} is not a file of torch.export.save: its members lie in {sorted(root)[:4]}")
        inside = {name.split("/", 1)[-1]: info for name, info in members.items()}

        def read(name: str) -> bytes:
            if name not in inside:
                raise ValueError(f"{path} is not a file of torch.export.save as of torch 2.9: it has no {name}")
            return archive.read(inside.pop(name))

        parts: dict[str, bytes] = {}
        graph = _json(read("models/model.json"), path)
        parts["models/model.json"] = json.dumps(plain_graph(graph, str(path))).encode()
        for kind, prefix in _FOLDERS.items():
            config = f"data/{kind}/model_{kind}_config.json"
            table = _payloads(_json(read(config), path), prefix, path)
            for name, least in table[1].items():
                parts[f"data/{kind}/{name}"] = _payload(read(f"data/{kind}/{name}"), least, f"{path}: {name}")
            parts[config] = json.dumps({"config": table[0]}).encode()
        for name in (*_IGNORED, *_UNUSED):
            inside.pop(name, None)
        extra = sorted(name for name in inside if not name.startswith("extra/"))
        if extra:
            raise ValueError(f"{path} holds {extra[0]!r}, which is no part of an exported program; it is refused")
    copy = io.BytesIO()
    with PT2ArchiveWriter(copy) as writer:
        for name, content in parts.items():
            writer.write_bytes(name, content)
        writer.write_bytes(_UNUSED[0], b"")
    copy.seek(0)
    return copy


def _json(content: bytes, path: Path) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not an exported program: {error}") from error


def _payloads(config: Any, prefix: str, path: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The judged table of tensors, and for every member it names the bytes that its tensors reach."""
    table = config.get("config") if isinstance(config, dict) else None
    if not isinstance(table, dict):
        raise ValueError(f"{path} is not an exported program: a table of its tensors is missing")
    kept: dict[str, Any] = {}
    least: dict[str, int] = {}
    for name, entry in table.items():
        where = f"{path}: tensor {str(name)[:80]!r}"
        if not isinstance(entry, dict) or entry.get("use_pickle") is not False:
            raise ValueError(f"{where} is pickled, which could run code; save the model without such tensors")
        file = entry.get("path_name")
        if not isinstance(file, str) or not file.startswith(prefix) or not file.removeprefix(prefix).isdecimal():
            raise ValueError(f"{where} lies in {str(file)[:80]!r}, not in {prefix}0, {prefix}1, ...; it is refused")
        meta = plain_graph(entry.get("tensor_meta"), where)
        least[file] = max(least.get(file, 0), _reach(meta, where))
        kept[str(plain_graph(name, where))] = {
            "path_name": file,
            "is_param": bool(entry.get("is_param")),
            "use_pickle": False,
            "tensor_meta": meta,
        }
    return kept, least


def _reach(meta: Any, where: str) -> int:
    """Bytes of storage up to the last entry of a tensor that no two of whose entries share a place."""
    try:
        sizes = [side["as_int"] for side in meta["sizes"]]
        strides = [step["as_int"] for step in meta["strides"]]
        offset = meta["storage_offset"]["as_int"]
        if not all(type(number) is int and number >= 0 for number in (*sizes, *strides, offset)):
            raise ValueError
        from torch._export.serde.serialize import deserialize_scalar_type  # noqa: PLC0415 - torch keeps the numbering

        width = torch.empty(0, dtype=deserialize_scalar_type(meta["dtype"])).element_size()
        if meta["device"]["type"] not in ("cpu", "cuda"):
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{where} is described by no shape, type and device of a tensor; it is refused") from error
    if 0 in sizes:
        return 0
    last = offset + sum((side - 1) * step for side, step in zip(sizes, strides, strict=True))
    if math.prod(sizes) > last + 1:
        raise ValueError(f"{where} of shape {sizes} has more entries than places; it is refused")
    return (last + 1) * width


def _payload(content: bytes, least: int, where: str) -> bytes:
    if len(content) < least:
        raise ValueError(f"{where} has {len(content):,} bytes where its tensors need {least:,}; it is refused")
    return content


def read_script(path: Path, device: str = "cpu") -> nn.Module:
    """The module of a file written by torch.jit.save, whose programs may use nothing but operators of torch.

    Classes from outside the archive, operators that name a file and storages larger than their member are refused.
    torch loads a copy of what was judged, so that it cannot read the archive another way.
    """
    copy = io.BytesIO()
    with zip_members(path) as (archive, members), zipfile.ZipFile(copy, "w") as judged:
        for name, info in members.items():
            if name.lower().endswith(_UNREAD):
                continue
            content = archive.read(info)
            if name.lower().endswith(".pkl"):
                check_pickle(content, _storages(name, members), f"{path}: {name}")
            if name.lower().endswith(".py"):  # torch does not mind the case
                _check_script(content, f"{path}: {name}")
            elif (
                b"torch.classes" in content.replace(b"\n", b".") and "/data/" not in name and "/constants/" not in name
            ):
                raise ValueError(f"{path}: {name} holds an object of a custom class; it is refused")
            judged.writestr(name, content)
    copy.seek(0)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates scripting; files that exist are still read
            module: nn.Module = torch.jit.load(copy, map_location=device)
    except Exception as error:
        raise ValueError(f"{path} cannot be loaded as TorchScript: {_first_line(error)}") from error
    return module


def _storages(name: str, members: Mapping[str, zipfile.ZipInfo]) -> dict[str, int]:
    """Bytes of the storages that a pickle may name: `folder/data.pkl` those of `folder/data/`."""
    folder = name.rpartition(".")[0] + "/"
    return {
        member.removeprefix(folder): info.file_size for member, info in members.items() if member.startswith(folder)
    }


def _check_script(code: bytes, where: str) -> None:
    try:
        nodes = list(ast.walk(ast.parse(code.decode())))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{where} is not TorchScript: {error}") from error
    for node in nodes:
        if not isinstance(node, ast.Attribute):
            continue
        dotted = ast.unparse(node)
        parts = dotted.split(".")
        if "torch.classes" in dotted:
            raise ValueError(f"{where} uses the custom class {dotted}; it is refused")
        if parts[0] == "ops" and len(parts) == 3:
            check_operator(f"torch.{dotted}", where)
        elif parts[0] == "torch" and len(parts) == 2 and not parts[1].isupper():
            check_operator(f"torch.ops.aten.{parts[1]}", where)


def is_script(path: Path) -> bool:
    """Whether a zip file is one of torch.jit.save: it holds the constants of its code."""
    if not zipfile.is_zipfile(path):
        return False
    with zip_members(path) as (_, members):
        return any(name.endswith("/constants.pkl") for name in members)


def read_state(path: Path) -> dict[str, Tensor]:
    """A state dict: names and tensors of a .safetensors file, or of a torch.save file read without its classes.

    A dict with a `state_dict` inside, as trainers write it, gives that one. Refused are files older than torch 1.6
    (they are bare pickles), packed members, anything but tensors, and tensors with more entries than places or bytes.
    """
    if path.suffix == ".safetensors":
        return read_tensors(path)
    if path.exists() and path.is_file() and not zipfile.is_zipfile(path):
        raise ValueError(
            f"{path} is not a file of torch.save (since torch 1.6), which loads without running code; save the state "
            "dict again"
        )
    with zip_members(path, stored=True) as (archive, members):
        for name in members:
            if name.endswith("/data.pkl"):
                check_pickle(archive.read(name), _storages(name, members), f"{path}: {name}")
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # each fault of the format has its own error
        raise ValueError(
            f"{path} cannot be read as a state dict without running code from it: {_first_line(error)}"
        ) from error
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        content = content["state_dict"]
    if not isinstance(content, dict) or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"{path} does not hold a state dict (names and tensors)")
    for name, value in content.items():
        if not isinstance(name, str) or value.layout != torch.strided or value.is_meta:
            raise ValueError(f"{path} holds {name!r}, which is not a named tensor with its numbers; it is refused")
        if value.numel() * value.element_size() > value.untyped_storage().nbytes():
            raise ValueError(f"{path}: {name} of shape {tuple(value.shape)} has more entries than places; refused")
    return content


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what torch logs about files it cannot read; the error says it."""
    before = _LOG.disabled
    _LOG.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        _LOG.disabled = before


def _first_line(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0].partition(". ")[0][:300]
