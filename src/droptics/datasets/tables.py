"""Rating tables in chunks: delimited text of any size and Parquet, with the line of every fault named."""

from __future__ import annotations

import csv
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from droptics.arguments import Count, check_arguments
from droptics.arrays import Array
from droptics.datasets.columns import positions
from droptics.datasets.documents import LINE, json_records
from droptics.datasets.ids import check_ids, kept_names
from droptics.files.limits import check_unpacked, from_home, opened
from droptics.files.pages import check_pages

_SEPARATORS = ("::", "\t", ",", ";", " ")
_EXACT_FLOAT = 2**53
NEWLINE = b"\n"
# types of Parquet columns that hold one number or one text a row; times, truth values and nested tables are neither
_KINDS = re.compile(r"(dictionary<values=)?(u?int\d|halffloat|float|double|decimal|(large_)?(string|binary)\b|null)")


@dataclass(frozen=True, eq=False)
class Chunk:
    """Consecutive ratings: user ids, item ids (int64, or str where some id is not a whole number) and float64 values.

    `first_line` is the line of the file the chunk starts on, counted from 1.
    """

    users: Array
    items: Array
    values: NDArray[np.float64]
    first_line: int


def read_chunks(
    path: str | os.PathLike[str], columns: Sequence[str | int] | None = None, size: Count = 1 << 22
) -> Iterator[Chunk]:
    """Read users, items and ratings from a text table, JSON or a Parquet file, `size` bytes (text) at a time.

    Text and JSON may be gzipped; the separator (`::`, tab, comma, semicolon or blank) and a header line are recognized
    from the first line, so MovieLens' u.data, ratings.dat and ratings.csv are all read as they are. A header is
    obeyed: its names say which columns are user, item and rating, in any order, and one that does not tell is an
    error. `columns` are three names or positions instead; more columns are allowed and ignored. JSON is a list of
    objects or triples, or columns by name; JSONL (.jsonl, .ndjson) one of them a line. Ids that are whole numbers come
    as int64, others as text. A line that cannot be read and a rating that is not a finite number raise a ValueError
    that names the line. Memory is a small multiple of `size`, whatever the length of the file (JSON as one document
    excepted). Cost: one reading of the file, `size` bytes in memory at a time. Claim: none, it reads.
    """
    check_arguments(read_chunks, locals())
    source = from_home(path)
    if columns is not None and len(columns) != 3:
        raise ValueError(f"columns must name the user, the item and the rating, got {tuple(columns)!r}")
    if not source.is_file():
        raise ValueError(f"path: no file {source}")
    if source.suffix.lower() in (".parquet", ".pq"):
        return _joinable(_parquet_chunks(source, columns, max(1, size // 32)), source)
    if source.name.lower().removesuffix(".gz").endswith((".json", ".jsonl", ".ndjson")):
        return _joinable(_json_chunks(source, columns, size), source)
    return _joinable(_text_chunks(source, columns, size), source)


def _joinable(chunks: Iterator[Chunk], path: Path) -> Iterator[Chunk]:
    """The chunks, as long as the ids of all of them fit into one array: it gives every row the room of the longest."""
    rows = longest = 0
    for chunk in chunks:
        rows, longest = rows + len(chunk.values), max(longest, chunk.users.itemsize, chunk.items.itemsize)
        check_ids(path, rows, longest)
        yield chunk


def _text_chunks(path: Path, columns: Sequence[str | int] | None, size: int) -> Iterator[Chunk]:
    with opened(path) as stream:
        head, line = _first_line(stream, path)
        if b"\r" in head.rstrip(b"\r\n"):
            raise ValueError(f"{path}, line {line}: its lines end in \\r alone; save it with \\n or \\r\\n")
        text = _decode(head, path, line).removeprefix("\ufeff").rstrip("\r\n")
        separator = next((mark for mark in _SEPARATORS if mark in text), ",")
        fields = _split(text, separator, f"{path}, line {line}")
        header = _is_header(fields, columns)
        picked = positions(fields if header else None, columns, path, len(fields))
        line += header
        rest, found = (b"" if header else head.removeprefix(b"\xef\xbb\xbf")), 0
        while block := rest + stream.read(size):
            cut = len(block) if len(block) - len(rest) < size else block.rfind(b"\n") + 1
            rest, block = block[cut:], block[:cut]
            if len(rest) > max(LINE, size):
                raise ValueError(f"{path}, line {line + block.count(NEWLINE)}: longer than {LINE:,} bytes; refused")
            if block:
                quick = _parse_numbers(block, separator, len(fields), picked, line)
                chunk = _parse_fields(block, separator, picked, line, path) if quick is None else quick
                found += len(chunk.values)
                line += block.count(NEWLINE)
                if len(chunk.values):
                    yield chunk
        if not found:
            raise ValueError(f"{path} holds no ratings, only {'a header' if header else 'blank lines'}")


def _first_line(stream: IO[bytes], path: Path) -> tuple[bytes, int]:
    """The first line that is not blank, and its number."""
    head, line = stream.readline(LINE + 1), 1
    while head and not head.strip():
        head, line = stream.readline(LINE + 1), line + 1
    if not head:
        raise ValueError(f"{path} is empty; expected lines of user, item and rating")
    if len(head) > LINE:
        raise ValueError(f"{path}, line {line}: longer than {LINE:,} bytes; it is refused")
    return head, line


def _decode(raw: bytes, path: Path, line: int) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}, line {line}: not UTF-8 text ({error.reason})") from error


def _split(text: str, separator: str, where: str) -> list[str]:
    if '"' in text:
        try:
            return [field.strip() for field in next(csv.reader([text], delimiter=separator[0]))]
        except (csv.Error, StopIteration) as error:
            raise ValueError(f"{where}: {error}") from error
    return [field.strip() for field in (text.split() if separator == " " else text.split(separator))]


def _is_header(fields: list[str], columns: Sequence[str | int] | None) -> bool:
    if columns is None:
        # A header has words and nowhere a number; with a number among its words it is a broken or headless first line.
        # A column without a name may stand beside the three: of row numbers, or behind the last separator.
        return sum(map(bool, fields)) > 2 and not any(map(_is_number, fields))
    if any(isinstance(column, str) for column in columns):
        return True
    try:
        float(fields[int(columns[2])] or "nan")
    except (ValueError, IndexError):
        return len(fields) > max(int(column) for column in columns) and not any(map(_is_number, fields))
    return False


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _parse_numbers(block: bytes, separator: str, width: int, picked: tuple[int, int, int], line: int) -> Chunk | None:
    """The fast way: all fields numbers, every line complete; None when the block is not like that."""
    stripped = block.rstrip(b"\r\n")
    count = stripped.count(b"\n") + 1
    mark = separator.encode()
    plain = stripped.replace(mark, b" ")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            numbers = np.fromstring(plain.decode("ascii"), np.float64, sep=" ")
        except (DeprecationWarning, ValueError, UnicodeDecodeError):
            return None
    if numbers.size != count * width:
        return None
    table = numbers.reshape(count, width)
    users, items, values = (table[:, position] for position in picked)
    whole = np.abs(np.concatenate([users, items]))
    if not np.isfinite(values).all() or not (whole < _EXACT_FLOAT).all() or (whole % 1).any():
        return None
    # Numbers that run over line ends (a short line followed by a long one) still add up: check the line lengths. An id
    # that is not written plainly (007, 1.0, +1) is text, not a number: check the lengths of the id fields.
    lengths = _field_lengths(stripped, mark, width)
    if lengths is None or b"e" in stripped.lower():
        return None
    for ids, position in ((users, picked[0]), (items, picked[1])):
        if (lengths[:, position] != _plain_length(ids)).any():
            return None
    return Chunk(users.astype(np.int64), items.astype(np.int64), values.copy(), line)


def _field_lengths(block: bytes, mark: bytes, width: int) -> Array | None:
    """Bytes of every field, (lines, width), or None when a line has another number of fields."""
    if mark == b" ":
        rows = [[len(field) for field in row.split()] for row in block.split(b"\n")]
        return np.array(rows) if all(len(row) == width for row in rows) else None
    raw = np.frombuffer(block + b"\n", np.uint8)
    hits = raw == mark[0]
    if len(mark) == 2:
        hits[:-1] &= hits[1:].copy()
        hits[-1] = False
        hits[1:] &= ~hits[:-1].copy()
    ends = np.flatnonzero(hits | (raw == 10))
    last = raw[ends] == 10
    if ends.size % width or not last[width - 1 :: width].all() or last.sum() * width != ends.size:
        return None
    starts = np.concatenate([[0], (ends + np.where(last, 1, len(mark)))[:-1]])
    returns = last & (raw[np.maximum(ends - 1, 0)] == 13)
    return (ends - starts - returns).reshape(-1, width)


def _plain_length(ids: Array) -> Array:
    """Characters of whole numbers written plainly."""
    digits = np.searchsorted(10.0 ** np.arange(1, 17), np.abs(ids), side="right") + 1
    return digits + (ids < 0)


def _parse_fields(block: bytes, separator: str, picked: tuple[int, int, int], line: int, path: Path) -> Chunk:
    """The careful way, one line at a time: text ids, quotes, and the number of the first line at fault."""
    users, items, values = list[str](), list[str](), list[float]()
    for offset, raw in enumerate(block.split(b"\n")):
        text = _decode(raw, path, line + offset).rstrip("\r")
        if not text.strip():
            continue
        where = f"{path}, line {line + offset}"
        fields = _split(text, separator, where)
        if len(fields) <= max(picked):
            raise ValueError(f"{where}: {len(fields)} fields where {max(picked) + 1} are needed: {text[:80]!r}")
        user, item, rating = (fields[position] for position in picked)
        try:
            value = float(rating.replace("_", "?"))  # Python's own number 1_0 is nobody's rating
        except ValueError:
            raise ValueError(f"{where}: rating {rating!r} is not a number: {text[:80]!r}") from None
        if not np.isfinite(value):
            raise ValueError(f"{where}: rating {rating!r} is not finite; remove or impute it")
        if not user or not item:
            raise ValueError(f"{where}: an id is empty: {text[:80]!r}")
        users.append(user)
        items.append(item)
        values.append(value)
    names = [as_ids(kept_names(ids, path)) for ids in (users, items)]
    return Chunk(names[0], names[1], np.array(values, np.float64), line)


def as_ids(names: Sequence[str] | Array) -> Array:
    """Ids as int64 when each is a whole number written plainly, else as text."""
    text = np.asarray(names, dtype=str)
    try:
        numbers = text.astype(np.int64)
    except (ValueError, OverflowError):
        return text
    return numbers if bool((numbers.astype(str) == text).all()) else text


def _json_chunks(path: Path, columns: Sequence[str | int] | None, size: int) -> Iterator[Chunk]:
    for line, records in json_records(path, columns, size):
        users, items, ratings = zip(*records, strict=True)
        names = [as_ids(kept_names(list(map(str, ids)), path)) for ids in (users, items)]
        yield Chunk(names[0], names[1], np.array(ratings, np.float64), line)


def _parquet_chunks(path: Path, columns: Sequence[str | int] | None, rows: int) -> Iterator[Chunk]:
    try:
        from pyarrow import lib, parquet  # noqa: PLC0415 - optional
    except ImportError as error:
        advice = "install it with `pip install droptics[parquet]`"
        raise ValueError(f"{path}: reading Parquet needs pyarrow; {advice}") from error
    try:
        with parquet.ParquetFile(path) as file:
            names = file.schema_arrow.names
            check_unpacked(path, 3 * 8 * file.metadata.num_rows, path.stat().st_size)
            places = positions(names, columns, path, len(names))
            picked = [names[place] for place in places]
            for role, place in zip(("user", "item", "rating"), places, strict=True):
                kind = str(file.schema_arrow.field(place).type)
                if not _KINDS.match(kind):
                    raise ValueError(f"{path}: the {role} is a column of {kind[:80]}; use numbers or text")
            check_pages(file.metadata, picked, path)
        # texts stay in their dictionary: a long one that every row repeats is held once
        with parquet.ParquetFile(path, read_dictionary=picked) as file:
            line = 1
            for batch in file.iter_batches(batch_size=rows, columns=list(dict.fromkeys(picked))):
                found = [batch.column(batch.schema.get_field_index(name)) for name in picked]
                yield _parquet_chunk(found, path, line)
                line += len(batch)
            if line == 1:
                raise ValueError(f"{path} holds no ratings")
    except (lib.ArrowException, OSError, OverflowError, MemoryError) as error:
        raise ValueError(f"{path} cannot be read as Parquet: {error}") from error


def _parquet_chunk(found: Sequence[Any], path: Path, line: int) -> Chunk:
    for name, column in zip(("user", "item", "rating"), found, strict=True):
        if column.null_count:
            absent = int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
            raise ValueError(f"{path}, row {line + absent}: the {name} is missing; remove or impute it")
    users, items, values = map(_entries, found)
    try:
        ratings = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}, rows from {line}: ratings are not numbers: {error}") from error
    bad = np.flatnonzero(~np.isfinite(ratings))
    if bad.size:
        raise ValueError(f"{path}, row {line + int(bad[0])}: the rating is not finite; remove or impute it")
    return Chunk(_plain(users, path, line), _plain(items, path, line), ratings, line)


def _entries(column: Any) -> Array:
    """A column in NumPy; where it has a dictionary, rows that repeat a text share it."""
    words = getattr(column, "dictionary", column).to_numpy(zero_copy_only=False)
    return words[column.indices.to_numpy()] if hasattr(column, "dictionary") else words


def _plain(ids: Array, path: Path, line: int) -> Array:
    if ids.dtype.kind == "f":
        if (bad := np.flatnonzero(~np.isfinite(ids))).size:
            raise ValueError(f"{path}, row {line + int(bad[0])}: the id {ids[bad[0]]} is not finite; remove the row")
        if bool(((ids % 1 == 0) & (np.abs(ids.astype(np.float64)) < 2.0**63)).all()):
            return ids.astype(np.int64)
        ids = np.array([int(name) if name % 1 == 0 else name for name in ids], object)  # 5 in every piece, not 5.0
    if ids.dtype.kind not in "iu":
        try:
            texts = [name.decode() if isinstance(name, bytes) else str(name) for name in ids]
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}, rows from {line}: an id is not UTF-8 text ({error.reason})") from error
        return np.asarray(kept_names(texts, path), dtype=str)
    beyond = ids.dtype == np.uint64 and len(ids) > 0 and int(ids.max()) >= 2**63
    return ids if beyond else ids.astype(np.int64)
