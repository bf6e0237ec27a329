"""What more claims on files compare: packed streams, archives, downloads, tensors of programs."""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile
import tempfile
import warnings
import zipfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pooch
import torch

from droptics.datasets import cifar10, jester, mnist, movielens
from droptics.datasets.files import DatasetMissing, Remote, data_folder, download, locate, missing, places
from droptics.datasets.ratings import PROFILES, planted_ratings
from droptics.evidence.claims import Comparison, compare
from droptics.files import limits
from droptics.files.archives import unpack
from droptics.files.graphs import plain_graph
from droptics.files.limits import Bounded
from droptics.files.modules import _check_script, _payloads, _reach, is_script, read_state
from droptics.papers.droptics_own.files.stored_page_checks import columns, headers
from droptics.papers.droptics_own.files.stored_table_checks import ids, parquet
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal

HERE = Path("here")


def stored_files(scale: float) -> list[Comparison]:
    """Headers of pages, columns that lie, streams, ids, tables in Parquet, downloads, tensors of programs."""
    if scale != 1:  # a control need not be long
        return [*_streams(scale), *ids(scale)]
    return [
        *headers(scale),
        *columns(scale),
        *_streams(scale),
        *_archives(scale),
        *ids(scale),
        *parquet(scale),
        *_downloads(scale),
        *_programs(scale),
    ]


def _streams(scale: float) -> list[Comparison]:
    """Packed streams up to their limit and one byte further, by every way to read."""
    found: list[Comparison] = []
    content = b"".join(b"%d\n" % number for number in range(100))
    ways: dict[str, Any] = {
        "read": lambda stream: stream.read(400),
        "all": lambda stream: stream.read(),
        "readall": lambda stream: stream.readall(),
        "lines": lambda stream: b"".join(iter(stream.readline, b"")),
        "into": lambda stream: bytes(_filled(stream)),
        "seek": lambda stream: content if stream.seek(len(content)) == len(content) else b"",
    }
    for name, way in ways.items():
        found.append(
            same(way(Bounded(io.BytesIO(content), HERE, len(content))), content, f"up to the limit: {name}", scale)
        )
        words = f"unpacks to more than {len(content) - 1:,} bytes"
        found.append(refuses(lambda way=way: way(Bounded(io.BytesIO(content), HERE, len(content) - 1)), words, name))
    stream = Bounded(io.BytesIO(content), HERE, 999)
    found.append(same((stream.readline(1), stream.readline(None), stream.tell()), (b"0", b"\n", 2), "pieces", scale))
    found.append(same((stream.seek(-3, 2), stream.read(9)), (len(content) - 3, b"99\n"), "from the end", scale))
    found.append(refuses(lambda: stream.read((1 << 24) + 1), "asks for a piece of 16,777,217 bytes"))
    found.append(same((stream.readable(), stream.seekable()), (True, True), "what it can", scale))
    return found


def _filled(stream: Bounded) -> bytearray:
    whole, part = bytearray(), bytearray(64)
    while size := stream.readinto(part):
        whole += part[:size]
    return whole


def _archives(scale: float) -> list[Comparison]:
    """Members of packed archives are weighed together, in every packing, and each that is wanted is written."""
    found: list[Comparison] = []
    contents = {"a/one": bytes(60_000), "two": bytes(range(256)) * 10, "three": bytes(60_000)}
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        modes: Any = ("gz", "bz2", "xz", "")
        for mode in modes:
            packed = root / f"packed.{mode or 'tar'}"
            with tarfile.open(packed, cast(Any, f"w:{mode}")) as archive:
                archive.addfile(tarfile.TarInfo("link"))
                for member, content in contents.items():
                    info = tarfile.TarInfo(member)
                    info.size = len(content)
                    archive.addfile(info, io.BytesIO(content))
            for wanted in (("a/one", "two"), ("two", "three"), ()):
                folder = root / f"{mode}{len(wanted)}{'three' in wanted}"
                written = unpack(packed, folder, wanted.__contains__)
                found.append(same(written, [folder / member for member in wanted], f"written, {mode}", scale))
                alike = all((folder / member).read_bytes() == contents[member] for member in wanted)
                found.append(same(alike, True, f"content, {mode}", scale))
            if not mode:
                continue
            with mock.patch.object(limits, "FREE", 119_000), mock.patch.object(limits, "RATIO", 1):
                words = "would unpack to 120,000 bytes"  # the third is not read
                large = partial(unpack, packed, root / "all", lambda member: member != "two")
                found.append(refuses(large, words, f"together, {mode}"))
        plain = root / "plain.zip"
        with zipfile.ZipFile(plain, "w", zipfile.ZIP_DEFLATED) as zipped:
            for member, content in contents.items():
                zipped.writestr(member, content)
        with mock.patch.object(limits, "FREE", 119_000), mock.patch.object(limits, "RATIO", 1):
            found.append(same(len(unpack(plain, root / "z", lambda member: member != "three")), 2, "a zip", scale))
            words = "would unpack to 122,560 bytes"
            found.append(refuses(lambda: unpack(plain, root / "y", lambda _: True), words, "all of a zip"))
    return found


def _downloads(scale: float) -> list[Comparison]:
    """Where sets lie, what is fetched from where and under which sum, and what stands in the archives."""
    found: list[Comparison] = []
    with tempfile.TemporaryDirectory() as name, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        root = Path(name)
        with mock.patch.dict(os.environ, {"DROPTICS_DATA": str(root / "named")}):
            found.append(same(data_folder(None), root / "named", "the folder of the environment", scale))
            found.append(same(data_folder(root / "own"), root / "own", "the folder of the caller", scale))
            found.append(same(places(None, ("a", "b")), [root / "named/a", root / "named/b"], "places", scale))
            found.append(same(places(root, ("a",)), [root / "a", root], "places of the caller", scale))
            text = str(missing("Set", None, "x.gz"))
            wanted = f"Set: no file x.gz in folder {root / 'named'}; name the folder"
            found.append(same((wanted in text, "download=True" in text), (True, True), "what is missing", scale))
            found.append(same("download=True" in str(missing("Set", None, "x", download=False)), False, "none", scale))
        with mock.patch.dict(os.environ, {"DROPTICS_DATA": ""}):
            told = data_folder(None)
            found.append(same((told.is_absolute(), "droptics" in str(told)), (True, True), "the user's cache", scale))
        (root / "b").mkdir()
        (root / "b" / "y").touch()
        (root / "b" / "z").touch()
        told_place = locate([root / "a", root / "b"], iter(("z", "y")))
        found.append(
            same((told_place, locate([root], ["b"])), (root / "b" / "z", None), "the first that is there", scale)
        )
        found += _fetched(root, scale)
        for empty in (
            lambda: mnist(root),
            lambda: cifar10(root),
            lambda: jester(root),
            lambda: movielens("ml-1m", root),
        ):
            found.append(refuses(empty, "no file", "nothing there"))
        found += _sheets(root, scale)
    size = PROFILES["ml-100k"]
    planted = planted_ratings("ml-100k", 2, seed=3)
    told_size = [len(planted), int(planted.users.max()) < size[0], int(planted.items.max()) < size[1]]
    found.append(same(told_size, [size[2], True, True], "a set by its name", scale))
    for odd in ((0, 9, 3), (9, 0, 3), (9, 9, 0)):
        found.append(refuses(lambda odd=odd: planted_ratings(odd), "must be", f"sizes {odd}"))
    return found


def _fetched(root: Path, scale: float) -> list[Comparison]:
    """Archives of ratings from where they are asked for, and no network."""
    found: list[Comparison] = []
    archives = {
        "ml-100k.zip": ("ml-100k/u.data", b"1\t2\t3\t0\n4\t5\t1\t0\n"),
        "ml-1m.zip": ("ml-1m/ratings.dat", b"1::2::3::0\n4::5::1::0\n"),
    }
    asked: list[tuple[str, str, str, Path]] = []

    def fetch(url: str, known_hash: str, fname: str, path: Path, progressbar: bool) -> str:
        asked.append((url, known_hash.partition(":")[0], fname, path))
        member, content = archives[fname]
        with zipfile.ZipFile(path / fname, "w") as packed:
            packed.writestr("other/readme", b"")
            packed.writestr(member, content)
        return str(path / fname)

    with mock.patch.object(pooch, "retrieve", fetch):
        for which in ("ml-100k", "ml-1m"):
            ratings = movielens(which, root / "fresh", download=True)
            told_ratings = [*ratings.users.tolist(), *ratings.items.tolist(), *ratings.values.tolist()]
            found.append(same(told_ratings, [1, 4, 2, 5, 3.0, 1.0], f"ratings of {which}", scale))
            url, kind, file, place = asked[-1]
            wanted_ask = (True, True, f"{which}.zip", root / "fresh" / "movielens")
            found.append(same((url.endswith(f"/{file}"), bool(kind), file, place), wanted_ask, which, scale))
        archives["ml-10m.zip"] = ("ml-10M100K/nothing", b"")
        found.append(
            refuses(
                lambda: movielens("ml-10m", root / "fresh", download=True),
                "holds no ml-10M100K/ratings.dat",
            )
        )

    def lost(*_: Any, **__: Any) -> str:
        raise OSError("pools of connections (Caused by no route)")

    with mock.patch.object(pooch, "retrieve", lost):
        words = "https://x/y.zip cannot be downloaded: no route); without a network"
        remote = Remote("https://x/y.zip", "md5:0")
        found.append(same(remote.name, "y.zip", "name of a file", scale))
        try:
            download(remote, root / "none" / "there")
            text = ""
        except DatasetMissing as problem:
            text = str(problem)
        found.append(same((words in text, (root / "none" / "there").is_dir()), (True, True), "no network", scale))
    return found


def _sheets(root: Path, scale: float) -> list[Comparison]:
    """Jester as a spreadsheet."""
    found: list[Comparison] = []
    sheet = SimpleNamespace(nrows=2, row_values=lambda row: [[2, 1.5, 99, -3.0], [1, 99, 99, 0.25]][row])
    book = SimpleNamespace(open_workbook=lambda _: SimpleNamespace(sheet_by_index=lambda _: sheet))
    (root / "jester-data-1.xls").write_bytes(b"x")
    with mock.patch.dict(sys.modules, {"xlrd": book}):
        jokes = jester(root)
    told_jokes = [*jokes.users.tolist(), *jokes.items.tolist(), *jokes.values.tolist()]
    found.append(same(told_jokes, [0, 0, 1, 0, 2, 2, 1.5, -3.0, 0.25], "a sheet", scale))
    with mock.patch.dict(sys.modules, {"xlrd": SimpleNamespace()}):
        found.append(refuses(lambda: jester(root), "cannot be read as a spreadsheet"))
    with mock.patch.dict(sys.modules, {"xlrd": None}):
        found.append(refuses(lambda: jester(root), "needs xlrd"))
    return found


def _meta(sizes: Sequence[Any], strides: Sequence[Any], offset: Any = 0, dtype: int = 7, device: str = "cpu") -> Any:
    return {
        "sizes": [{"as_int": size} for size in sizes],
        "strides": [{"as_int": step} for step in strides],
        "storage_offset": {"as_int": offset},
        "dtype": dtype,
        "device": {"type": device},
    }


def _programs(scale: float) -> list[Comparison]:
    """Bytes that tensors of a program reach, texts of scripts, and files of weights."""
    found: list[Comparison] = []
    for sizes, strides, offset, reach in (
        ((2, 3), (3, 1), 0, 24),
        ((2, 3), (1, 2), 5, 44),
        ((2, 3), (10, 1), 0, 52),
        ((), (), 3, 16),
        ((0, 3), (3, 1), 9, 0),
        ((1,), (7,), 0, 4),
    ):
        told = _reach(_meta(sizes, strides, offset), "here")
        found.append(compare(told, "==", scale * reach, f"bytes of {sizes} by {strides} from {offset}"))
    shared, no_tensor = "more entries than places", "no shape, type and device"
    for meta, words in (
        (_meta((2, 3), (0, 1)), shared),
        (_meta((2, 3), (1, 1)), shared),
        (_meta((-1, 3), (3, 1)), no_tensor),
        (_meta((2, 3), (-3, 1)), no_tensor),
        (_meta((2, 3), (3, 1), -1), no_tensor),
        (_meta((2.0, 3), (3, 1)), no_tensor),
        (_meta((True, 3), (3, 1)), no_tensor),
        (_meta((2, 3), (3, 1), device="meta"), no_tensor),
        (_meta((2, 3), (3, 1), dtype=99), no_tensor),
        ({}, no_tensor),
        (None, no_tensor),
    ):
        found.append(refuses(lambda meta=meta: _reach(meta, "here"), words, f"refused, {words}"))
    entry = {"use_pickle": False, "path_name": "weight_0", "is_param": True, "tensor_meta": _meta((2, 3), (3, 1))}
    table = {"config": {"a": entry, "b": entry | {"is_param": False, "tensor_meta": _meta((2, 3), (10, 1))}}}
    kept, least = _payloads(table, "weight_", HERE)
    told_kept = ([one["is_param"] for one in kept.values()], [one["path_name"] for one in kept.values()], least)
    found.append(same(told_kept, ([True, False], ["weight_0"] * 2, {"weight_0": 52}), "a table of tensors", scale))
    for odd, words in (
        ({"config": {"a": entry | {"use_pickle": True}}}, "is pickled"),
        ({"config": {"a": entry | {"path_name": "tensor_0"}}}, "not in weight_0"),
        ({"config": {"a": entry | {"path_name": "weight_x"}}}, "not in weight_0"),
        ({"config": {"a": 3}}, "is pickled"),
        ({"config": []}, "a table of its tensors is missing"),
        ([], "a table of its tensors is missing"),
    ):
        found.append(refuses(lambda odd=odd: _payloads(odd, "weight_", HERE), words, f"refused, {words}"))
    for code, words in (
        ("x = torch.relu(y)\nz = ops.aten.relu(y)\nw = torch.CONST", ""),
        ("x = torch.load(y)", "is not an operator"),
        ("x = ops.aten.from_file(y)", "is not an operator"),
        ("x = ops.other.relu(y)", "is not an operator"),
        ("x = __torch__.torch.classes.a.b", "uses the custom class"),
        ("x = (", "is not TorchScript"),
    ):
        if words:
            found.append(refuses(lambda code=code: _check_script(code.encode(), "here"), words, code))
        else:
            _check_script(code.encode(), "here")
            found.append(same(words, "", "a plain script", scale))
    listed = {"inputs": [{"arg": {"as_none": True}}, {"arg": {"as_none": True}}]}
    found.append(same(plain_graph(listed, "here"), listed, "lists of a graph", scale))
    for exponent, words in (("Integer(2)", ""), ("Integer(-1)", ""), ("Integer(5)", "refused"), ("s0", "refused")):
        power = {"expr_str": f"Pow(Symbol('s0'), {exponent})"}
        if words:
            found.append(refuses(lambda power=power: plain_graph(power, "here"), "shape expression", exponent))
        else:
            found.append(same(plain_graph(power, "here"), power, f"the power {exponent}", scale))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "state.pt"
        weights = normal(1, 3, 4)
        torch.save({"w": weights, "v": weights[1:, :2]}, path)
        state = read_state(path)
        found.append(compare(state["v"], "==", scale * weights[1:, :2], "a part of a tensor"))
        found.append(same((is_script(path), is_script(Path(name) / "none")), (False, False), "no script", scale))
        torch.save({"w": torch.ones(1).expand(9)}, path)
        found.append(refuses(lambda: read_state(path), "more entries than places"))
        path.write_bytes(gzip.compress(b"x"))
        found.append(refuses(lambda: read_state(path), "is not a file of torch.save"))
    return found
