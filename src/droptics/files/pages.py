"""The pages of a Parquet column, compared with its footer and with the file before any of them is unpacked.

A footer may be honest and the headers of the pages lie: sizes that are allocated before a byte is unpacked, counts of
values that are not there, encodings in which a few bytes repeat a long text for every row. Headers are small structs
of Thrift's compact protocol; they are read here without unpacking anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from droptics.files.limits import check_unpacked

DATA, INDEX, DICTIONARY, DATA_2 = range(4)
_PLAIN, _PLAIN_DICTIONARY, _RLE, _BIT_PACKED, _DELTA, _DELTA_LENGTH, _RLE_DICTIONARY, _SPLIT = 0, 2, 3, 4, 5, 6, 8, 9
ENCODINGS = frozenset((_PLAIN, _PLAIN_DICTIONARY, _RLE, _BIT_PACKED, _DELTA, _DELTA_LENGTH, _RLE_DICTIONARY, _SPLIT))
"""Encodings whose values take no more room than pages and dictionary; shared prefixes (7) repeat a text for nothing."""
WIDTHS = {"INT32": 4, "FLOAT": 4, "INT64": 8, "DOUBLE": 8, "INT96": 12, "BYTE_ARRAY": 4, "FIXED_LEN_BYTE_ARRAY": 1}
"""Least bytes of one value in a dictionary, by physical type; booleans have none."""
_TRUE, _FALSE, _BYTE, _I64, _DOUBLE, _BINARY, _STRUCT = 1, 2, 3, 6, 7, 8, 12
_DEPTH = 4


class _Headers:
    """Page headers out of a stream that stands at their first byte; what no header holds is a ValueError."""

    def __init__(self, stream: IO[bytes], path: Path, end: int) -> None:
        self._stream, self._path, self._end = stream, path, end

    def fault(self, text: str) -> ValueError:
        return ValueError(f"{self._path} cannot be read as Parquet: {text}; write the file again")

    def inside(self, size: int) -> None:
        """`size` more bytes have to lie in the column."""
        if not 0 <= size <= self._end - self._stream.tell():
            raise self.fault(f"a page of {size:,} bytes reaches out of its column")

    def skip(self, size: int) -> None:
        self.inside(size)
        self._stream.seek(size, 1)

    def _byte(self) -> int:
        self.inside(1)
        return (self._stream.read(1) or b"\0")[0]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise self.fault("a page header holds a number without end")

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """Fields by id: whole numbers, structs and booleans; doubles and texts are passed over."""
        found: dict[int, Any] = {}
        field = 0
        while head := self._byte():
            field = field + (head >> 4) if head >> 4 else self._number()
            kind = head & 0x0F
            if kind in (_TRUE, _FALSE):
                found[field] = kind == _TRUE
            elif kind == _BYTE:
                self.skip(1)
            elif kind <= _I64:
                found[field] = self._number()
            elif kind == _DOUBLE:
                self.skip(8)
            elif kind == _BINARY:
                self.skip(self._varint())
            elif kind == _STRUCT and depth < _DEPTH:
                found[field] = self.struct(depth + 1)
            else:
                raise self.fault("a page header holds what none holds")
        return found


def check_pages(metadata: Any, picked: Sequence[str], path: Path) -> None:
    """Refuse columns that unpack to more than a file of this size holds, by the footer and by the pages themselves."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    if sum(group.num_rows for group in groups) != metadata.num_rows:
        raise ValueError(f"{path} cannot be read as Parquet: its groups do not hold {metadata.num_rows:,} rows")
    with path.open("rb") as stream:
        for group in groups:
            columns = [group.column(place) for place in range(group.num_columns)]
            asked = [column for column in columns if column.path_in_schema.split(".")[0] in picked]
            check_unpacked(path, sum(column.total_uncompressed_size for column in asked), path.stat().st_size)
            for column in asked:
                check_column(stream, path, column, group.num_rows)


def check_column(stream: IO[bytes], path: Path, column: Any, rows: int) -> None:
    """Refuse a column whose pages do not hold `rows` values, or take more room than a file of this size may.

    `column` is pyarrow's metadata of a chunk, `stream` the open file. One header a page is read, nothing is unpacked.
    """
    packed = path.stat().st_size
    start = column.data_page_offset
    if column.dictionary_page_offset and 0 < column.dictionary_page_offset < start:
        start = column.dictionary_page_offset
    if min(start, column.total_compressed_size) < 0 or start + column.total_compressed_size > packed:
        raise ValueError(f"{path} cannot be read as Parquet: a column lies outside of the file; fetch the file again")
    headers = _Headers(stream, path, start + column.total_compressed_size)
    stream.seek(start)
    unpacked = values = 0
    while values < rows:
        page = headers.struct()
        unpacked += page.get(2, -1)
        if page.get(2, -1) < 0 or (column.compression == "UNCOMPRESSED" and page.get(2) != page.get(3)):
            raise headers.fault(f"a page says that it unpacks to {page.get(2)} bytes")
        check_unpacked(path, unpacked, packed)
        headers.skip(page.get(3, -1))
        values += _values(page, headers, column.physical_type)
    if values != rows or column.num_values != rows:
        raise headers.fault(f"the pages of column {column.path_in_schema} hold {values:,} values in {rows:,} rows")


def _values(page: Mapping[int, Any], headers: _Headers, kind: str) -> int:
    """Rows of a page, after its own counts were compared with its size."""
    if page.get(1) == DICTIONARY:
        count, width = page.get(7, {}).get(1, -1), WIDTHS.get(kind)
        if width is None or not 0 <= count * width <= page[2]:
            raise headers.fault(f"a dictionary of {count:,} values in {page[2]:,} bytes")
        return 0
    if page.get(1) == INDEX:
        return 0
    if page.get(1) not in (DATA, DATA_2):
        raise headers.fault(f"a page of the unknown kind {page.get(1)}")
    second = page[1] == DATA_2
    found = page.get(8 if second else 5, {})
    encoding = found.get(4 if second else 2)
    if encoding not in ENCODINGS:
        raise headers.fault(f"the encoding {encoding} is not read, in which few bytes may stand for any number")
    levels = [found.get(5, -1), found.get(6, -1)] if second else [0]
    if found.get(1, -1) <= 0 or min(levels) < 0 or sum(levels) > page[2]:
        raise headers.fault(f"a page of {found.get(1)} values with levels of {sum(levels):,} bytes")
    return int(found[1])
