"""What claims on stored tables compare: lengths of ids letter by letter, tables in Parquet."""

from __future__ import annotations

import importlib.util
import math
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from droptics.datasets import read_chunks
from droptics.datasets.ids import check_ids, kept_names
from droptics.datasets.tables import _field_lengths, _parse_numbers, _plain_length
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.telling import refuses, same


def ids(scale: float) -> list[Comparison]:
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
        found.append(refuses(lambda: check_ids(path, 2**26 + 1, 4), "an id of 1 letters among 67,108,865"))
        found.append(same(kept_names(["a", "b\u00e9"], path), ["a", "b\u00e9"], "names", scale))
        found.append(same(kept_names([], path), [], "no names", scale))
        for odd in ("a\0", "\ud800"):
            found.append(refuses(lambda odd=odd: kept_names(["a", odd], path), "a zero byte or half a character"))
    return found


def parquet(scale: float) -> list[Comparison]:
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
        "halves": (pyarrow.array([5.5, -1.0, 3.0, 0.0, 9.0]), ["5.5", "-1", "3", "0", "9"]),
        "large": (pyarrow.array([2.0**63, 1.0, 2.0**70, -(2.0**62), 4.0]), [2**63, 1, 2**70, -(2**62), 4]),
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
                if kind in ("halves", "large"):  # a piece of small whole numbers keeps numbers, another text
                    found.append(same(list(map(str, users)), list(map(str, wanted)), f"users, {label}", scale))
                else:
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
            found.append(refuses(lambda columns=columns: list(read_chunks(put(**columns))), words, words))
        none: Any = pyarrow.table(
            {"user": pyarrow.array([], pyarrow.int64()), "item": pyarrow.array([], pyarrow.int64())}
        )
        parquet.write_table(none.append_column("rating", pyarrow.array([], pyarrow.float64())), path)
        found.append(refuses(lambda: list(read_chunks(path)), "holds no ratings"))
        path.write_bytes(b"PAR1 nothing PAR1")
        found.append(refuses(lambda: list(read_chunks(path)), "cannot be read as Parquet"))
    return found


def _size(chunk: Any) -> int:
    return len(chunk.values)


def _joined(chunks: Sequence[Any], name: str) -> list[Any]:
    return [entry for chunk in chunks for entry in getattr(chunk, name).tolist()]


def _rows(values: Sequence[float], start: int, end: int) -> list[float]:
    """Items and ratings of one piece."""
    return [*(10.0 - row for row in range(start, end)), *values[start - 1 : end - 1]]
