"""Ratings as JSON: a list of objects or of triples, columns by name, or one of them a line (JSONL)."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from droptics.datasets.columns import positions
from droptics.files.limits import FREE, opened

LINE = 1 << 20
"""Bytes of the longest line that is read."""


def json_records(path: Path, columns: Sequence[str | int] | None, size: int) -> Iterator[tuple[int, list[list[Any]]]]:
    """User, item and rating of each record, `size` bytes at a time, with the number of the first one (JSONL: its line).

    Each is checked here, where its number is known: empty lines are none of the records.
    """
    lines = path.name.lower().removesuffix(".gz").endswith((".jsonl", ".ndjson"))
    records = _lines(path) if lines else _whole(path)
    first = next(records, None)
    if first is None:
        raise ValueError(f"{path} holds no ratings")
    names = list(first[1]) if isinstance(first[1], dict) else None
    picked = positions(names, columns, path, len(first[1]) if isinstance(first[1], (dict, list)) else 0)
    keys = [names[place] for place in picked] if names is not None else list(picked)
    stream = chain([first], records)
    what = f"{path}, {'line' if lines else 'record'}"
    while part := list(islice(stream, max(1, size // 64))):
        yield part[0][0], [_fields(entry, keys, f"{what} {number}") for number, entry in part]


def _fields(entry: Any, keys: Sequence[Any], where: str) -> list[Any]:
    try:
        if isinstance(entry, dict) != isinstance(keys[0], str) or not isinstance(entry, (dict, list)):
            raise LookupError
        user, item, rating = (entry[key] for key in keys)
    except LookupError:
        raise ValueError(f"{where}: no user, item and rating in {str(entry)[:80]!r}") from None
    if not all(type(name) in (int, str) and name != "" for name in (user, item)):
        raise ValueError(f"{where}: ids must be whole numbers or text, got {user!r}, {item!r}")
    try:
        finite = type(rating) in (int, float) and math.isfinite(rating)
    except OverflowError:  # a whole number beyond all floats
        finite = False
    if not finite:
        raise ValueError(f"{where}: rating {repr(rating)[:80]} is not a finite number")
    return [user, item, rating]


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    with opened(path) as stream:
        number = 0
        while line := stream.readline(LINE + 1):
            number += 1
            if len(line) > LINE:
                raise ValueError(f"{path}, line {number}: longer than {LINE:,} bytes; it is refused")
            if line.strip():
                yield number, _parsed(line, f"{path}, line {number}")


def _whole(path: Path) -> Iterator[tuple[int, Any]]:
    with opened(path) as stream:
        content = stream.read(FREE + 1) if path.suffix.lower() != ".gz" else stream.read()
    if len(content) > FREE:
        raise ValueError(f"{path} is larger than {FREE:,} bytes; write one record a line (.jsonl), which is streamed")
    document = _parsed(content, str(path))
    if isinstance(document, dict):
        document = _rows(document, path)
    if not isinstance(document, list):
        raise ValueError(f"{path} must hold a list of ratings, got {type(document).__name__}")
    return iter(enumerate(document, 1))


def _rows(document: dict[str, Any], path: Path) -> list[Any]:
    """Columns by name as a list of objects; an object with one list inside is that list."""
    lists = {name: value for name, value in document.items() if isinstance(value, list)}
    if len(lists) == 1:
        return next(iter(lists.values()))
    if not lists or len({len(value) for value in lists.values()}) != 1 or len(lists) != len(document):
        raise ValueError(f"{path} must hold a list of ratings, or columns of the same length by name")
    return [dict(zip(lists, values, strict=True)) for values in zip(*lists.values(), strict=True)]


def _parsed(content: bytes, where: str) -> Any:
    try:
        return json.loads(content.decode("utf-8-sig"), object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where} is not JSON: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"a name stands twice in the object {str(pairs)[:80]}")
    return found
