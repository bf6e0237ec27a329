"""Parquet pages that lie are refused before anything is unpacked; honest ones, written the same way, are read."""

import io
import tracemalloc

import numpy as np
import pytest
from parquet_files import BYTE_ARRAY, GZIP, dictionary_pages, page, plain_page, prefixed_page, write_parquet

from droptics.datasets import read_chunks
from droptics.files import pages

parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is optional")
HUGE = 2**31 - 1


def users(path):
    return np.concatenate([chunk.users for chunk in read_chunks(path)]).tolist()


HONEST = {
    "plain": lambda path: write_parquet(path, 5, plain_page(range(5))),
    "two pages": lambda path: write_parquet(path, 5, (plain_page(range(2)), plain_page(range(2, 5))), offset=4),
    "packed": lambda path: write_parquet(path, 5, plain_page(range(5), GZIP), codec=GZIP),
}
LIES = {
    "a page that unpacks to gigabytes": lambda path: write_parquet(
        path, 5, plain_page(range(5), GZIP, size=HUGE), codec=GZIP
    ),
    "many pages that unpack to gigabytes": lambda path: write_parquet(
        path, 10, tuple(plain_page([1], GZIP, size=1 << 27) for _ in range(10)), codec=GZIP, offset=4
    ),
    "a plain page of another size": lambda path: write_parquet(path, 5, plain_page(range(5), size=1 << 20)),
    "a page of negative size": lambda path: write_parquet(path, 5, plain_page(range(5), GZIP, size=-8), codec=GZIP),
    "a page that ends behind its column": lambda path: write_parquet(
        path, 5, plain_page(range(5), GZIP, packed=1 << 20), codec=GZIP
    ),
    "a page before its column": lambda path: write_parquet(path, 5, plain_page(range(5), GZIP, packed=-9), codec=GZIP),
    "too many values": lambda path: write_parquet(path, 5, plain_page(range(5), count=HUGE)),
    "too few values": lambda path: write_parquet(path, 5, plain_page(range(5), count=4)),
    "no values": lambda path: write_parquet(path, 5, plain_page(range(5), count=0)),
    "values of another number than rows": lambda path: write_parquet(path, 5, plain_page(range(5)), values=2**40),
    "rows of another number than the groups": lambda path: write_parquet(path, 5, plain_page(range(5)), total=6),
    "a dictionary of billions": lambda path: write_parquet(
        path, 5, dictionary_pages(b"ann", 5, words=HUGE), kind=BYTE_ARRAY
    ),
    "a dictionary of negative length": lambda path: write_parquet(
        path, 5, dictionary_pages(b"ann", 5, words=-1), kind=BYTE_ARRAY
    ),
    "shared prefixes": lambda path: write_parquet(path, 5, prefixed_page(b"x" * 1000, 5), kind=BYTE_ARRAY),
    "an unknown kind of page": lambda path: write_parquet(path, 5, page({1: 9, 2: 0, 3: 0}, b"")),
    "a header without end": lambda path: write_parquet(path, 5, b"\x15" + b"\x80" * 30),
    "a header of headers": lambda path: write_parquet(path, 5, b"\x5c" * 40),
    "a column outside of the file": lambda path: write_parquet(path, 5, plain_page(range(5)), packed=2**40),
    "a column before the file": lambda path: write_parquet(path, 5, plain_page(range(5)), offset=-5),
}


@pytest.mark.parametrize("name", HONEST)
def test_honest_pages_are_read(tmp_path, name):
    assert users(HONEST[name](tmp_path / "r.parquet")) == list(range(5))


def test_dictionaries_are_read(tmp_path):
    path = write_parquet(tmp_path / "r.parquet", 5, dictionary_pages(b"ann", 5), kind=BYTE_ARRAY)
    assert users(path) == ["ann"] * 5


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("packing", ["none", "snappy", "gzip", "zstd"])
def test_what_pyarrow_writes_is_read(tmp_path, version, packing):
    import pyarrow as pa

    path, numbers = tmp_path / "r.parquet", np.arange(5000)
    names = [f"user {number % 7}" for number in numbers]
    parquet.write_table(
        pa.table({"user": names, "item": numbers % 11, "rating": numbers / 2, "other": [[1, 2]] * 5000}),
        path,
        data_page_version=version,
        compression=packing,
        data_page_size=512,
        row_group_size=1999,
    )
    assert users(path) == names


@pytest.mark.parametrize("name", LIES)
def test_lies_are_refused_before_pages_are_read(tmp_path, monkeypatch, name):
    path = LIES[name](tmp_path / "r.parquet")
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda *_, **__: pytest.fail("pages were read"))
    with pytest.raises(ValueError, match=r"r\.parquet"):
        users(path)


def test_a_page_of_no_bytes_lies_in_its_column_and_one_of_fewer_does_not(tmp_path):
    headers = pages._Headers(io.BytesIO(b"1234"), tmp_path, 4)
    headers.skip(0)
    headers.skip(4)
    for size in (1, -1):
        with pytest.raises(ValueError, match="reaches out of its column"):
            headers.inside(size)


@pytest.mark.parametrize(
    ("counts", "fine"),
    [((5, 4, 6), True), ((0, 4, 6), False), ((5, -1, 6), False), ((5, 4, -1), False), ((5, 5, 6), False)],
)
def test_a_page_has_values_and_levels_of_no_more_than_its_bytes(tmp_path, counts, fine):
    values, first, second = counts
    page = {1: pages.DATA_2, 2: 10, 8: {1: values, 4: 0, 5: first, 6: second}}
    headers = pages._Headers(io.BytesIO(), tmp_path, 0)
    if fine:
        assert pages._values(page, headers, "INT64") == values
    else:
        with pytest.raises(ValueError, match=f"a page of {values} values with levels"):
            pages._values(page, headers, "INT64")


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl", "json"])
def test_one_long_id_does_not_make_every_row_long(tmp_path, kind):
    """An array of text gives each row the room of the longest: 20,000 rows times 100,000 letters are 8 GB."""
    path, rows, word = tmp_path / f"r.{kind}", 20_000, "x" * 100_000
    ids = [word if kind != "parquet" else "a", *(["a"] * (rows - 1))]
    if kind == "parquet":
        write_parquet(path, rows, dictionary_pages(word.encode(), rows), kind=BYTE_ARRAY)
    elif kind == "csv":
        path.write_text("".join(f"{name},i,1\n" for name in ids))
    elif kind == "jsonl":
        path.write_text("".join(f'["{name}", "i", 1]\n' for name in ids))
    else:
        path.write_text("[" + ",".join(f'["{name}", "i", 1]' for name in ids) + "]")
    tracemalloc.start()
    with pytest.raises(ValueError, match="100,000 letters"):
        users(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 29  # a JSON document is read into a buffer of 256 MB
