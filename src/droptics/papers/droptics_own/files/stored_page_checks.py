"""What claims on stored columns compare: headers of pages byte by byte, columns that lie."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from droptics.evidence.claims import Comparison
from droptics.files.pages import WIDTHS, _Headers, check_column, check_pages
from droptics.papers.droptics_own.telling import refuses, same

HERE = Path("here")


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


def headers(scale: float) -> list[Comparison]:
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
            found.append(refuses(lambda cut=cut: _Headers(io.BytesIO(content), HERE, cut).struct(), words, "cut"))
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
    found.append(refuses(lambda: _Headers(io.BytesIO(too_deep), HERE, 999).struct(), what, "too deep"))
    found.append(refuses(lambda: _Headers(io.BytesIO(b"\x19\x00"), HERE, 2).struct(), what, "a list"))
    for length, ends in ((9, True), (10, False)):
        endless = io.BytesIO(b"\x16" + b"\x80" * length + b"\x01\x00")
        if ends:
            found.append(same(_Headers(endless, HERE, 99).struct(), {1: 1 << 62}, "nine bytes and one", scale))
        else:
            words = "a number without end"
            found.append(refuses(lambda at=endless: _Headers(at, HERE, 99).struct(), words, "no end"))
    return found


def _page(kind: int, size: int, packed: int, inner: Sequence[tuple[int, str, Any]]) -> bytes:
    place = {0: 5, 2: 7, 3: 8}.get(kind)
    fields: list[tuple[int, str, Any]] = [(1, "i32", kind), (2, "i32", size), (3, "i32", packed)]
    if place is not None:
        fields.append((place, "struct", inner))
    return _written(fields) + bytes(max(packed, 0))


def _one_page(length: int) -> dict[str, Any]:
    """What a footer says of a column of one page of three numbers behind the first four bytes."""
    places = {"data_page_offset": 4, "dictionary_page_offset": None, "total_compressed_size": length}
    return places | {"compression": "UNCOMPRESSED", "physical_type": "INT32", "num_values": 3}


def columns(scale: float) -> list[Comparison]:
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
        # all of the format but 1, which it never had, and 7, strings by their prefixes
        "every encoding": (b"".join(_page(0, 8, 8, first(1, code)) for code in (0, 2, 3, 4, 5, 6, 8, 9)), {"rows": 8}),
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
        "a bomb in two pages": (
            2 * _page(0, 2**27 + 1, 24, first(3)),
            {"rows": 6, "compression": "GZIP"},
            "refused as a bomb",
        ),
        "a bomb": (_page(0, 2**28 + 1, 24, first(3)), {"rows": 3, "compression": "GZIP"}, "refused as a bomb"),
        "prefixes": (_page(0, 24, 24, first(3, 7)), {"rows": 3}, "the encoding 7 is not read"),
        "an encoding that is none": (_page(0, 24, 24, first(3, 10)), {"rows": 3}, "the encoding 10 is not read"),
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
            found.append(refuses(lambda content=content, told=told: looked(content, told), text, what))
        large = {"rows": 3, "whole": 2**28 // 2 + 1}
        looked(one, large)
        found.append(refuses(lambda: looked(one, large | {"whole": 2**28 + 1}), "refused as a bomb", "a footer"))
        half: Any = [
            SimpleNamespace(path_in_schema=name, total_uncompressed_size=2**27 + 1, **_one_page(len(one)))
            for name in ("x", "y.inner")
        ]
        pair = SimpleNamespace(num_rows=3, num_columns=2, column=lambda k: half[k])
        both = SimpleNamespace(row_group=lambda _: pair, num_row_groups=1, num_rows=3)
        path.write_bytes(b"PAR1" + one)
        for alone in (("x",), ("y",)):
            check_pages(both, alone, path)
        found.append(refuses(lambda: check_pages(both, ("x", "y"), path), "refused as a bomb", "two columns"))
        odd = SimpleNamespace(
            row_group=lambda _: SimpleNamespace(num_rows=3, num_columns=0), num_row_groups=2, num_rows=5
        )
        found.append(refuses(lambda: check_pages(odd, ("x",), path), "do not hold 5 rows", "rows of groups"))
    widths = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12, "BYTE_ARRAY": 4, "FIXED_LEN_BYTE_ARRAY": 1}
    found.append(same(WIDTHS, widths, "least sizes of values", scale))
    return found
