"""Parquet files written byte by byte, so that each number in them can lie."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

INT32, INT64, BYTE_ARRAY = 1, 2, 6
UNCOMPRESSED, GZIP = 0, 2
PLAIN, RLE, DELTA_BYTE_ARRAY, RLE_DICTIONARY = 0, 3, 7, 8


class Long(int):
    """A number that the format stores with 64 bits; a plain int has 32."""


def varint(value):
    found = b""
    while value > 0x7F:
        found, value = found + bytes([value & 0x7F | 0x80]), value >> 7
    return found + bytes([value])


def encoded(value):
    """A value and its type in Thrift's compact protocol; structs are dictionaries by field, negative numbers too."""
    if isinstance(value, dict):
        found, last = b"", 0
        for field, entry in value.items():
            kind, content = encoded(entry)
            found, last = found + bytes([field - last << 4 | kind]) + content, field
        return 12, found + b"\0"
    if isinstance(value, list):
        items = [encoded(entry) for entry in value]
        return 9, bytes([len(items) << 4 | items[0][0]]) + b"".join(content for _, content in items)
    if isinstance(value, bytes):
        return 8, varint(len(value)) + value
    return 6 if isinstance(value, Long) else 5, varint(value << 1 if value >= 0 else (-value << 1) - 1)


def page(header, content):
    return encoded(header)[1] + content


def plain_page(values, codec=UNCOMPRESSED, **lies):
    """A data page of 64-bit numbers; `size`, `packed` and `count` may be told otherwise."""
    raw = b"".join(struct.pack("<q", value) for value in values)
    packed = packing(raw, codec)
    sizes = {1: 0, 2: lies.get("size", len(raw)), 3: lies.get("packed", len(packed))}
    counts = {1: lies.get("count", len(values)), 2: lies.get("encoding", PLAIN), 3: RLE, 4: RLE}
    return page(sizes | {5: counts}, packed)


def packing(raw, codec):
    if codec == UNCOMPRESSED:
        return raw
    pack = zlib.compressobj(wbits=31)
    return pack.compress(raw) + pack.flush()


def dictionary_pages(word, count, **lies):
    """A dictionary of one text and a page in which every row repeats it."""
    raw = struct.pack("<I", len(word)) + word
    first = page({1: 2, 2: len(raw), 3: len(raw), 7: {1: lies.get("words", 1), 2: PLAIN}}, raw)
    run = b"\1" + varint(count << 1) + b"\0"
    second = page({1: 0, 2: len(run), 3: len(run), 5: {1: count, 2: RLE_DICTIONARY, 3: RLE, 4: RLE}}, run)
    return first, second


def prefixed_page(word, count):
    """A page in which every row after the first shares all of the first's letters (deltas of blocks of 128 and 4)."""

    def deltas(first, second, rest):
        head = varint(128) + varint(4) + varint(count) + varint(first << 1)
        steps = [second - first] + [rest - second] + [0] * (count - 2)
        least = min(steps)
        width = max(step - least for step in steps).bit_length()
        total = sum((step - least) << (width * place) for place, step in enumerate(steps))
        block = varint(least << 1 if least >= 0 else (-least << 1) - 1) + bytes([width] * 4)
        return head + block + total.to_bytes(16 * width, "little")

    raw = deltas(0, len(word), len(word)) + deltas(len(word), 0, 0) + word
    return page({1: 0, 2: len(raw), 3: len(raw), 5: {1: count, 2: DELTA_BYTE_ARRAY, 3: RLE, 4: RLE}}, raw)


def write_parquet(path, rows, user, kind=INT64, codec=UNCOMPRESSED, **lies):
    """A table of `rows` ratings whose column of users is these pages; a page of a dictionary comes first, if any."""
    pages = {"user": user, "item": plain_page(range(rows)), "rating": plain_page(range(rows))}
    content, chunks = b"PAR1", []
    for name, given in pages.items():
        parts = given if isinstance(given, tuple) else (given,)
        start, packed = len(content), sum(map(len, parts))
        content += b"".join(parts)
        own = name == "user"
        facts = {
            1: kind if own else INT64,
            2: [PLAIN, RLE, RLE_DICTIONARY],
            3: [name.encode()],
            4: codec if own else UNCOMPRESSED,
            5: Long(lies.get("values", rows) if own else rows),
            6: Long(lies.get("unpacked", packed) if own else packed),
            7: Long(lies.get("packed", packed) if own else packed),
            9: Long(lies.get("offset", start + len(parts[0]) if len(parts) > 1 else start) if own else start),
        }
        facts |= {11: Long(start)} if len(parts) > 1 else {}
        chunks.append({2: Long(start), 3: facts})
    leaves = [{1: kind if name == "user" else INT64, 3: 0, 4: name.encode()} for name in pages]
    if kind == BYTE_ARRAY:
        leaves[0][6] = 0
    group = {1: chunks, 2: Long(len(content)), 3: Long(rows)}
    footer = {1: 1, 2: [{4: b"schema", 5: 3}, *leaves], 3: Long(lies.get("total", rows)), 4: [group]}
    tail = encoded(footer)[1]
    Path(path).write_bytes(content + tail + struct.pack("<I", len(tail)) + b"PAR1")
    return path
