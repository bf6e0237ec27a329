"""What more claims on files compare: headers of pages byte by byte, Parquet, packed streams, downloads, ids."""

from __future__ import annotations

import gzip
import importlib.util
import io
import math
import os
import sys
import tempfile
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pooch
import torch

from droptics.datasets import cifar10, jester, mnist, movielens, read_chunks
from droptics.datasets.files import DatasetMissing, Remote, data_folder, download, locate, missing, places
from droptics.datasets.ids import check_ids, kept_names
from droptics.datasets.ratings import PROFILES, planted_ratings
from droptics.datasets.tables import _field_lengths, _parse_numbers, _plain_length
from droptics.evidence.claims import Comparison, compare
from droptics.files.graphs import plain_graph
from droptics.files.limits import Bounded
from droptics.files.modules import _check_script, _payloads, _reach, is_script, read_state
from droptics.files.pages import ENCODINGS, WIDTHS, _Headers, check_column, check_pages
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal

HERE = Path("here")


def stored_files(scale: float) -> list[Comparison]:
    """Headers of pages, columns that lie, streams, ids, tables in Parquet, downloads, tensors of programs."""
    if scale != 1:  # a control need not be long
        return [*_streams(scale), *_ids(scale)]
    return [
        *_headers(scale),
        *_columns(scale),
        *_streams(scale),
        *_ids(scale),
        *_parquet(scale),
        *_downloads(scale),
        *_programs(scale),
    ]


def _varint(number: int) -> bytes:
    found = b""
    while number >= 128:
        found, number = found + bytes([number % 128 + 128]), number // 128
    return found + bytes([number])


def _zigzag(number: int) -> bytes:
    return _varint(2 * number if number >= 0 else -2 * number - 1)


def _written(fields: Sequence[tuple[int, str, Any]]) -> bytes:
    """A struct of Thrift's compact protocol from field number, kind and value."""
    kinds = {"byte": 3, "i16": 4, "i32": 5, "i64": 6, "double": 7, "text": 8, "struct": 12}
    content, last = b"", 0
    for field, kind, value in fields:
        mark = (1 if value else 2) if kind == "bool" else kinds[kind]
        near = 0 < field - last < 16
        content += bytes([16 * (field - last) + mark]) if near else bytes([mark]) + _zigzag(field)
        if kind == "byte":
            content += bytes([value])
        elif kind == "double":
            content += bytes(8)
        elif kind == "text":
            content += _varint(len(value)) + value
        elif kind == "struct":
            content += _written(value)
        elif kind != "bool":
            content += _zigzag(value)
        last = field
    return content + b"\0"


def _headers(scale: float) -> list[Comparison]:
    """Every kind of field, near and far, small and large, nested; what is cut off or too deep is refused."""
    found: list[Comparison] = []
    fields: list[tuple[int, str, Any]] = [
        (1, "i32", 0),
        (2, "i32", -1),
        (3, "i64", 2**40),
        (5, "bool", True),
        (6, "bool", False),
        (21, "byte", 7),
        (22, "double", 1.0),
        (23, "text", b"x" * 200),
        (24, "i16", 150),
        (25, "struct", [(1, "i32", 63), (2, "struct", [(1, "i32", -64), (9, "bool", True)])]),
        (60, "i32", -(2**31)),
    ]
    wanted = {1: 0, 2: -1, 3: 2**40, 5: True, 6: False, 24: 150, 25: {1: 63, 2: {1: -64, 9: True}}, 60: -(2**31)}
    content = _written(fields)
    stream = io.BytesIO(content + b"rest")
    told = _Headers(stream, HERE, len(content)).struct()
    found.append(same((told, stream.read()), (wanted, b"rest"), "fields of a header", scale))
    for cut in range(len(content)):
        if cut % 7 == 0 or cut > len(content) - 3:
            words = "reaches out of its column"
            found.append(
                refuses(lambda cut=cut: _Headers(io.BytesIO(content), HERE, cut).struct(), words, "cut", scale)
            )
    deep: list[tuple[int, str, Any]] = [(1, "i32", 5)]
    for depth in range(6):
        if depth == 4:
            inner = _Headers(io.BytesIO(_written(deep)), HERE, 999).struct()
            for _ in range(4):
                inner = inner[1]
            found.append(same(inner, {1: 5}, "as deep as may be", scale))
        deep = [(1, "struct", deep)]
    too_deep = _written(deep)
    what = "holds what none holds"
    found.append(refuses(lambda: _Headers(io.BytesIO(too_deep), HERE, 999).struct(), what, "too deep", scale))
    found.append(refuses(lambda: _Headers(io.BytesIO(b"\x19\x00"), HERE, 2).struct(), what, "a list", scale))
    for length, ends in ((9, True), (10, False)):
        endless = io.BytesIO(b"\x16" + b"\x80" * length + b"\x01\x00")
        if ends:
            found.append(same(_Headers(endless, HERE, 99).struct(), {1: 1 << 62}, "nine bytes and one", scale))
        else:
            words = "a number without end"
            found.append(refuses(lambda at=endless: _Headers(at, HERE, 99).struct(), words, "no end", scale))
    return found


def _page(kind: int, size: int, packed: int, inner: Sequence[tuple[int, str, Any]]) -> bytes:
    place = {0: 5, 2: 7, 3: 8}.get(kind)
    fields: list[tuple[int, str, Any]] = [(1, "i32", kind), (2, "i32", size), (3, "i32", packed)]
    if place is not None:
        fields.append((place, "struct", inner))
    return _written(fields) + bytes(max(packed, 0))


def _columns(scale: float) -> list[Comparison]:
    """Columns of one page and of several, of both kinds, with dictionaries; each lie by itself."""
    found: list[Comparison] = []

    def first(count: int, encoding: int = 0) -> list[tuple[int, str, Any]]:
        return [(1, "i32", count), (2, "i32", encoding)]

    def second(count: int, encoding: int = 0, levels: tuple[int, int] = (0, 0)) -> list[tuple[int, str, Any]]:
        return [(1, "i32", count), (4, "i32", encoding), (5, "i32", levels[0]), (6, "i32", levels[1])]

    words = _page(2, 40, 40, [(1, "i32", 10)])
    one, two = _page(0, 24, 24, first(3)), _page(3, 24, 24, second(4, 8, (10, 14)))
    index = _page(1, 5, 5, [])
    good: dict[str, tuple[bytes, dict[str, Any]]] = {
        "one page": (one, {"rows": 3}),
        "two pages": (one + two, {"rows": 7}),
        "a dictionary": (words + one, {"rows": 3, "dictionary": 4, "start": len(words)}),
        "its place after": (one, {"rows": 3, "dictionary": 400}),
        "an index": (index + two, {"rows": 4}),
        "packed": (_page(0, 300, 24, first(3)), {"rows": 3, "compression": "SNAPPY"}),
        "every encoding": (b"".join(_page(0, 8, 8, first(1, code)) for code in sorted(ENCODINGS)), {"rows": 8}),
    }
    bad: dict[str, tuple[bytes, dict[str, Any], str]] = {
        "too few": (one, {"rows": 4}, "reaches out of its column"),
        "too many": (one, {"rows": 2}, "hold 3 values in 2 rows"),
        "footer": (one, {"rows": 3, "values": 4}, "hold 3 values in 3 rows"),
        "outside": (one, {"rows": 3, "length": len(one) + 1}, "lies outside of the file"),
        "before": (one, {"rows": 3, "length": -1}, "lies outside of the file"),
        "short": (one, {"rows": 3, "length": len(one) - 1}, "reaches out of its column"),
        "unpacks otherwise": (_page(0, 25, 24, first(3)), {"rows": 3}, "unpacks to 25 bytes"),
        "below zero": (_page(0, -1, 24, first(3)), {"rows": 3, "compression": "GZIP"}, "unpacks to -1 bytes"),
        "a bomb": (_page(0, 2**28 + 1, 24, first(3)), {"rows": 3, "compression": "GZIP"}, "refused as a bomb"),
        "prefixes": (_page(0, 24, 24, first(3, 7)), {"rows": 3}, "the encoding 7 is not read"),
        "no values": (_page(0, 24, 24, first(0)), {"rows": 3}, "a page of 0 values"),
        "levels": (_page(3, 24, 24, second(3, 0, (10, 15))), {"rows": 3}, "levels of 25 bytes"),
        "first levels": (_page(3, 24, 24, second(3, 0, (-1, 0))), {"rows": 3}, "a page of 3 values"),
        "second levels": (_page(3, 24, 24, second(3, 0, (0, -1))), {"rows": 3}, "a page of 3 values"),
        "a kind": (_page(4, 24, 24, []), {"rows": 3}, "unknown kind 4"),
        "a large dictionary": (_page(2, 40, 40, [(1, "i32", 11)]) + one, {"rows": 3}, "a dictionary of 11 values"),
        "a dictionary below zero": (_page(2, 40, 40, [(1, "i32", -2)]), {"rows": 3}, "a dictionary of -2 values"),
        "flags": (words + one, {"rows": 3, "kind": "BOOLEAN"}, "a dictionary of 10 values"),
    }
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "file"

        def looked(content: bytes, told: Mapping[str, Any]) -> None:
            begin = 4
            path.write_bytes(b"PAR1" + content)
            column = SimpleNamespace(
                data_page_offset=begin + told.get("start", 0),
                dictionary_page_offset=told.get("dictionary"),
                total_compressed_size=told.get("length", len(content)),
                compression=told.get("compression", "UNCOMPRESSED"),
                physical_type=told.get("kind", "INT32"),
                num_values=told.get("values", told["rows"]),
                path_in_schema="x",
                total_uncompressed_size=told.get("whole", 10),
            )
            with path.open("rb") as stream:
                check_column(stream, path, column, told["rows"])
            groups = [SimpleNamespace(num_rows=told["rows"], num_columns=1, column=lambda _: column)] * 2
            for picked in (("x",), ("y",)):
                whole = SimpleNamespace(row_group=lambda k: groups[k], num_row_groups=2, num_rows=2 * told["rows"])
                check_pages(whole, picked, path)

        for what, (content, told) in good.items():
            looked(content, told)
            found.append(same(what in good, True, f"passes: {what}", scale))
        for what, (content, told, text) in bad.items():
            found.append(refuses(lambda content=content, told=told: looked(content, told), text, what, scale))
        large = {"rows": 3, "whole": 2**28 // 2 + 1}
        looked(one, large)
        found.append(refuses(lambda: looked(one, large | {"whole": 2**28 + 1}), "refused as a bomb", "a footer", scale))
        odd = SimpleNamespace(
            row_group=lambda _: SimpleNamespace(num_rows=3, num_columns=0), num_row_groups=2, num_rows=5
        )
        found.append(refuses(lambda: check_pages(odd, ("x",), path), "do not hold 5 rows", "rows of groups", scale))
    widths = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12, "BYTE_ARRAY": 4, "FIXED_LEN_BYTE_ARRAY": 1}
    found.append(same(WIDTHS, widths, "least sizes of values", scale))
    return found


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
        found.append(
            refuses(lambda way=way: way(Bounded(io.BytesIO(content), HERE, len(content) - 1)), words, name, scale)
        )
    stream = Bounded(io.BytesIO(content), HERE, 999)
    found.append(same((stream.readline(1), stream.readline(None), stream.tell()), (b"0", b"\n", 2), "pieces", scale))
    found.append(same((stream.seek(-3, 2), stream.read(9)), (len(content) - 3, b"99\n"), "from the end", scale))
    found.append(refuses(lambda: stream.read((1 << 24) + 1), "asks for a piece of 16,777,217 bytes", "", scale))
    found.append(same((stream.readable(), stream.seekable()), (True, True), "what it can", scale))
    return found


def _filled(stream: Bounded) -> bytearray:
    whole, part = bytearray(), bytearray(64)
    while size := stream.readinto(part):
        whole += part[:size]
    return whole


def _ids(scale: float) -> list[Comparison]:
    """Lengths of fields and of plain numbers, letter by letter; which tables of numbers are read the fast way."""
    found: list[Comparison] = []
    numbers = np.array([0, 1, -1, 9, 10, -10, 99, 100, 999, 1000, -123456, 10**15 - 1, 10**15, 9007199254740991], float)
    wanted = [len(str(int(number))) for number in numbers]
    found.append(compare(_plain_length(numbers), "==", [scale * size for size in wanted], "digits"))
    rows = [["1", "22", "3.5"], ["-7", "0", "44"], ["123", "9", "1"]]
    for mark in (",", "::", "\t", ";", " "):
        for end in ("\n", "\r\n"):
            text = end.join(mark.join(row) for row in rows).encode()
            told = _field_lengths(text, mark.encode(), 3)
            sizes = [[len(field) for field in row] for row in rows]
            found.append(compare(told, "==", scale * np.array(sizes), f"lengths, {mark!r}, {end!r}"))
            uneven = end.join([mark.join(rows[0]), mark.join(rows[1][:2]), mark.join([*rows[2], "4"])]).encode()
            found.append(same(_field_lengths(uneven, mark.encode(), 3), None, f"uneven, {mark!r}", scale))
    for text, users, fast in (
        (b"1,2,3\n4,5,6\n", [1, 4], True),
        (b"1,2,3\r\n4,5,6", [1, 4], True),
        (b"-3,2,0.5\n", [-3], True),
        (b"1,02,3\n4,05,6", None, False),
        (b"01,2,3\n04,5,6", None, False),
        (b"1,2,3\n4,05,6", None, False),
        (b"+1,2,3", None, False),
        (b"1.0,2,3", None, False),
        (b"1.5,2,3", None, False),
        (b"1,2,1e3", None, False),
        (b"1,2,nan", None, False),
        (b"1,2\n3,4,5,6", None, False),
        (b"9007199254740991,2,3", [9007199254740991], True),
        (b"9007199254740992,2,3", None, False),
        (b"1,a,3", None, False),
    ):
        chunk = _parse_numbers(text, ",", 3, (0, 1, 2), 5)
        found.append(same(chunk is not None, fast, f"the fast way: {text!r}", scale))
        if chunk is not None:
            found.append(same((chunk.users.tolist(), chunk.first_line), (users, 5), f"numbers of {text!r}", scale))
    turned = _parse_numbers(b"2.5,7,-8\n3.5,9,10", ",", 3, (2, 1, 0), 1)
    assert turned is not None
    whole = [*turned.users, *turned.items, *turned.values]
    found.append(compare(whole, "==", [scale * number for number in (-8, 10, 7, 9, 2.5, 3.5)], "columns picked"))
    last = _parse_numbers(b"2.5,7,08\n3.5,9,010", ",", 3, (2, 1, 0), 1)
    found.append(same(last, None, "ids that are not plain in the last column", scale))
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "ids"
        path.write_bytes(b"x" * 10)
        check_ids(path, 2**26, 4)
        found.append(refuses(lambda: check_ids(path, 2**26 + 1, 4), "an id of 1 letters among 67,108,865", "", scale))
        found.append(same(kept_names(["a", "b\u00e9"], path), ["a", "b\u00e9"], "names", scale))
        found.append(same(kept_names([], path), [], "no names", scale))
        for odd in ("a\0", "\ud800"):
            found.append(
                refuses(lambda odd=odd: kept_names(["a", odd], path), "a zero byte or half a character", "", scale)
            )
    return found


def _parquet(scale: float) -> list[Comparison]:
    """Tables in Parquet, where pyarrow is there: ids of every kind, in groups and in pieces; what is refused."""
    if importlib.util.find_spec("pyarrow") is None:
        return []
    import pyarrow  # noqa: PLC0415 - optional
    from pyarrow import parquet  # noqa: PLC0415 - optional

    found: list[Comparison] = []
    values = [3.5, 4.0, 1.0, 2.25, 0.5]
    kinds: dict[str, tuple[Any, list[Any]]] = {
        "numbers": (pyarrow.array([5, -1, 3, 2**40, 0]), [5, -1, 3, 2**40, 0]),
        "small": (pyarrow.array([5, 1, 3, 7, 0], pyarrow.uint8()), [5, 1, 3, 7, 0]),
        "beyond": (pyarrow.array([2**63, 1, 2, 3, 4], pyarrow.uint64()), [2**63, 1, 2, 3, 4]),
        "whole": (pyarrow.array([5.0, -1.0, 3.0, 0.0, 9.0]), [5, -1, 3, 0, 9]),
        "halves": (pyarrow.array([5.5, -1.0, 3.0, 0.0, 9.0]), ["5.5", "-1.0", "3.0", "0.0", "9.0"]),
        "text": (pyarrow.array(["a", "007", "a", "", "\u00e9"]), ["a", "007", "a", "", "\u00e9"]),
        "bytes": (pyarrow.array([b"a", b"b", b"a", b"c", b"d"]), ["a", "b", "a", "c", "d"]),
        "words": (pyarrow.array(["a", "b", "a", "b", "a"]).dictionary_encode(), ["a", "b", "a", "b", "a"]),
    }
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "table.parquet"

        def put(**columns: Any) -> Path:
            parquet.write_table(pyarrow.table(columns), path, row_group_size=3)
            return path

        for kind, (ids, wanted) in kinds.items():
            put(rating=values, other=list("vwxyz"), movieId=[9, 8, 7, 6, 5], user=ids)
            for size in (64, 1 << 20):
                chunks = list(read_chunks(path, None, size))
                users = [entry for chunk in chunks for entry in chunk.users.tolist()]
                rest = [entry for chunk in chunks for entry in (*chunk.items.tolist(), *chunk.values.tolist())]
                begins = [chunk.first_line for chunk in chunks]
                ends = [*begins[1:], 6]
                expected = [entry for k, begin in enumerate(begins) for entry in _rows(values, begin, ends[k])]
                label = f"{kind} in pieces of {size}"
                found.append(compare(rest, "==", [scale * number for number in expected], f"ratings, {label}"))
                found.append(same((begins[0], sorted(set(begins))), (1, begins), f"rows, {label}", scale))
                found.append(same(max(map(_size, chunks)) <= size // 32, True, f"sizes, {label}", scale))
                if size > 64 or kind != "halves":  # a piece of whole numbers does not know of halves elsewhere
                    found.append(same(users, wanted, f"users, {label}", scale))
        named = list(read_chunks(path, ("movieId", "user", "rating")))
        found.append(same(_joined(named, "users"), [9, 8, 7, 6, 5], "columns by name", scale))
        numbered = list(read_chunks(path, (2, 3, 0)))
        found.append(same(_joined(numbered, "items"), ["a", "b", "a", "b", "a"], "columns by place", scale))
        twice = list(read_chunks(path, ("movieId", "movieId", "rating")))
        found.append(same(_joined(twice, "users"), _joined(twice, "items"), "one column twice", scale))
        gap: Any = [1, 2, None, 4, 5]
        for columns, words in (
            ({"user": gap, "item": [1] * 5, "rating": values}, "row 3: the user is missing"),
            ({"user": [1] * 5, "item": gap, "rating": values}, "row 3: the item is missing"),
            ({"user": [1] * 5, "item": [1] * 5, "rating": gap}, "row 3: the rating is missing"),
            ({"user": [1] * 5, "item": [1] * 5, "rating": [*values[:4], math.nan]}, "row 5: the rating is not finite"),
            ({"user": [1.0, math.inf, 1, 1, 1], "item": [1] * 5, "rating": values}, "row 2: the id inf is not finite"),
            ({"user": [1] * 5, "item": [1] * 5, "rating": list("abcde")}, "ratings are not numbers"),
            ({"user": [b"\xff"] * 5, "item": [1] * 5, "rating": values}, "not UTF-8 text"),
            ({"user": [[1]] * 5, "item": [1] * 5, "rating": values}, "the user is a column of list"),
            ({"user": [1] * 5, "thing": [1] * 5, "rating": values}, "no column called item"),
        ):
            found.append(refuses(lambda columns=columns: list(read_chunks(put(**columns))), words, words, scale))
        none: Any = pyarrow.table(
            {"user": pyarrow.array([], pyarrow.int64()), "item": pyarrow.array([], pyarrow.int64())}
        )
        parquet.write_table(none.append_column("rating", pyarrow.array([], pyarrow.float64())), path)
        found.append(refuses(lambda: list(read_chunks(path)), "holds no ratings", "", scale))
        path.write_bytes(b"PAR1 nothing PAR1")
        found.append(refuses(lambda: list(read_chunks(path)), "cannot be read as Parquet", "", scale))
    return found


def _size(chunk: Any) -> int:
    return len(chunk.values)


def _joined(chunks: Sequence[Any], name: str) -> list[Any]:
    return [entry for chunk in chunks for entry in getattr(chunk, name).tolist()]


def _rows(values: Sequence[float], start: int, end: int) -> list[float]:
    """Items and ratings of one piece."""
    return [*(10.0 - row for row in range(start, end)), *values[start - 1 : end - 1]]


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
            found.append(refuses(empty, "no file", "nothing there", scale))
        found += _sheets(root, scale)
    size = PROFILES["ml-100k"]
    planted = planted_ratings("ml-100k", 2, seed=3)
    told_size = [len(planted), int(planted.users.max()) < size[0], int(planted.items.max()) < size[1]]
    found.append(same(told_size, [size[2], True, True], "a set by its name", scale))
    for odd in ((0, 9, 3), (9, 0, 3), (9, 9, 0)):
        found.append(refuses(lambda odd=odd: planted_ratings(odd), "must be", f"sizes {odd}", scale))
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
                "",
                scale,
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
        found.append(refuses(lambda: jester(root), "cannot be read as a spreadsheet", "", scale))
    with mock.patch.dict(sys.modules, {"xlrd": None}):
        found.append(refuses(lambda: jester(root), "needs xlrd", "", scale))
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
        found.append(refuses(lambda meta=meta: _reach(meta, "here"), words, f"refused, {words}", scale))
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
        found.append(refuses(lambda odd=odd: _payloads(odd, "weight_", HERE), words, f"refused, {words}", scale))
    for code, words in (
        ("x = torch.relu(y)\nz = ops.aten.relu(y)\nw = torch.CONST", ""),
        ("x = torch.load(y)", "is not an operator"),
        ("x = ops.aten.from_file(y)", "is not an operator"),
        ("x = ops.other.relu(y)", "is not an operator"),
        ("x = __torch__.torch.classes.a.b", "uses the custom class"),
        ("x = (", "is not TorchScript"),
    ):
        if words:
            found.append(refuses(lambda code=code: _check_script(code.encode(), "here"), words, code, scale))
        else:
            _check_script(code.encode(), "here")
            found.append(same(words, "", "a plain script", scale))
    listed = {"inputs": [{"arg": {"as_none": True}}, {"arg": {"as_none": True}}]}
    found.append(same(plain_graph(listed, "here"), listed, "lists of a graph", scale))
    for exponent, words in (("Integer(2)", ""), ("Integer(-1)", ""), ("Integer(5)", "refused"), ("s0", "refused")):
        power = {"expr_str": f"Pow(Symbol('s0'), {exponent})"}
        if words:
            found.append(refuses(lambda power=power: plain_graph(power, "here"), "shape expression", exponent, scale))
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
        found.append(refuses(lambda: read_state(path), "more entries than places", "", scale))
        path.write_bytes(gzip.compress(b"x"))
        found.append(refuses(lambda: read_state(path), "is not a file of torch.save", "", scale))
    return found
