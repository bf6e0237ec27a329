"""Readers against files written here, the archive guard, the table parser, planted ratings; real files if there."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import pickle
import struct
import sys
import tarfile
import types
import warnings
import zipfile
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from systems import posix

from droptics import datasets
from droptics.datasets import files, images, tables
from droptics.datasets import ratings as rating_sets
from droptics.datasets.tables import read_chunks
from droptics.files import archives

REAL = os.environ.get("DROPTICS_DATA")
needs_data = pytest.mark.skipif(
    not REAL or not Path(REAL, "mnist").is_dir(), reason="DROPTICS_DATA does not name a folder with the real sets"
)


@pytest.fixture(autouse=True)
def _no_outer_data(request, monkeypatch, tmp_path):
    """Tests with made files must not see the real ones."""
    if "real" not in request.node.name:
        monkeypatch.setenv("DROPTICS_DATA", str(tmp_path / "empty"))


def write_idx(path: Path, array: np.ndarray, packed: bool) -> None:
    content = bytes((0, 0, 8, array.ndim)) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content) if packed else content)


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize(
    ("reader", "subfolder"),
    [
        (datasets.mnist, "mnist"),
        (datasets.mnist, "MNIST/raw"),
        (datasets.mnist, "."),
        (datasets.fashion_mnist, "fashion-mnist"),
        (datasets.fashion_mnist, "fashion_mnist"),
        (datasets.fashion_mnist, "FashionMNIST/raw"),
    ],
)
def test_idx_sets(tmp_path, reader, subfolder, packed):
    rng = np.random.default_rng(0)
    pixels, labels = rng.integers(0, 256, (5, 28, 28), np.uint8), rng.integers(0, 10, 5).astype(np.uint8)
    end = ".gz" if packed else ""
    write_idx(tmp_path / subfolder / f"t10k-images-idx3-ubyte{end}", pixels, packed)
    write_idx(tmp_path / subfolder / f"t10k-labels-idx1-ubyte{end}", labels, packed)
    found, marks = reader(tmp_path, split="test")
    assert found.dtype == torch.uint8
    assert marks.dtype == torch.int64
    assert np.array_equal(found.numpy(), pixels)
    assert np.array_equal(marks.numpy(), labels)


def test_loose_files_count_only_in_a_named_folder(tmp_path, monkeypatch):
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", np.zeros((2, 28, 28), np.uint8), True)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", np.zeros(2, np.uint8), True)
    assert len(datasets.mnist(tmp_path)[0]) == 2
    monkeypatch.setenv("DROPTICS_DATA", str(tmp_path))
    with pytest.raises(datasets.DatasetMissing):
        datasets.fashion_mnist()


def test_idx_faults(tmp_path):
    folder = tmp_path / "mnist"
    write_idx(folder / "train-images-idx3-ubyte", np.zeros((3, 28, 28), np.uint8), False)
    write_idx(folder / "train-labels-idx1-ubyte", np.zeros(2, np.uint8), False)
    with pytest.raises(ValueError, match="3 images but 2 labels"):
        datasets.mnist(tmp_path)
    (folder / "train-labels-idx1-ubyte").write_bytes(b"no idx")
    with pytest.raises(ValueError, match="not an IDX file"):
        datasets.mnist(tmp_path)
    (folder / "train-labels-idx1-ubyte").write_bytes(bytes((0, 0, 8, 1)) + struct.pack(">I", 9) + b"12")
    with pytest.raises(ValueError, match="holds 2 bytes"):
        datasets.mnist(tmp_path)
    (folder / "train-labels-idx1-ubyte").unlink()
    (folder / "train-labels-idx1-ubyte.gz").write_bytes(b"not gzip")
    with pytest.raises(ValueError, match="cannot be read"):
        datasets.mnist(tmp_path)
    with pytest.raises(ValueError, match="'train' or 'test'"):
        datasets.mnist(tmp_path, split="valid")


@pytest.mark.parametrize(
    ("call", "file"),
    [
        (datasets.mnist, "train-images-idx3-ubyte.gz"),
        (datasets.fashion_mnist, "train-images-idx3-ubyte.gz"),
        (datasets.cifar10, "data_batch_1.bin"),
        (datasets.movielens, "ml-100k/u.data"),
        (datasets.jester, "jester-1.npz"),
    ],
)
def test_absent_set_names_folder_and_file(tmp_path, call, file):
    with pytest.raises(FileNotFoundError) as caught:
        call(folder=tmp_path)
    assert isinstance(caught.value, ValueError)
    assert str(tmp_path) in str(caught.value)
    assert file in str(caught.value)
    assert "DROPTICS_DATA" in str(caught.value)


def cifar_images() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return rng.integers(0, 256, (6, 3, 32, 32), np.uint8), np.arange(6, dtype=np.uint8)


def code(pixels: np.ndarray) -> np.ndarray:
    red, green, blue = pixels[:, 0], pixels[:, 1], pixels[:, 2]
    planes = np.stack([green, red - green, blue - green])
    for axis in (3, 2):
        planes = np.diff(planes, axis=axis, prepend=np.uint8(0))
    return planes


def test_cifar_layouts_agree(tmp_path):
    pixels, labels = cifar_images()
    binary = tmp_path / "a" / "cifar10" / "cifar-10-batches-bin"
    python = tmp_path / "b" / "cifar-10-batches-py"
    coded = tmp_path / "c" / "cifar10"
    for place in (binary, python, coded):
        place.mkdir(parents=True)
    records = np.concatenate([labels[:, None], pixels.reshape(6, -1)], 1)
    records[:4].tofile(binary / "data_batch_1.bin")
    records[4:].tofile(binary / "data_batch_2.bin")
    batch = {b"data": pixels.reshape(6, -1), b"labels": labels.tolist()}
    (python / "data_batch_1").write_bytes(pickle.dumps(batch, protocol=2))
    np.savez(coded / "cifar10-train-a.npz", labels=labels, coded=code(pixels))
    for folder in "abc":
        found, marks = datasets.cifar10(tmp_path / folder)
        assert np.array_equal(found.numpy(), pixels)
        assert np.array_equal(marks.numpy(), labels)


def test_python_batches_run_nothing(tmp_path):
    class Attack:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "owned"),)

    (tmp_path / "data_batch_1").write_bytes(pickle.dumps({b"data": Attack(), b"labels": []}))
    with pytest.raises(ValueError, match="which no batch of images needs"):
        datasets.cifar10(tmp_path)
    assert not (tmp_path / "owned").exists()


def test_cifar_faults(tmp_path):
    (tmp_path / "test_batch.bin").write_bytes(b"123")
    with pytest.raises(ValueError, match="multiple of 3073"):
        datasets.cifar10(tmp_path, split="test")
    (tmp_path / "test_batch.bin").write_bytes(b"")
    with pytest.raises(ValueError, match="has 0 bytes"):
        datasets.cifar10(tmp_path, split="test")
    (tmp_path / "test_batch.bin").unlink()
    np.savez(tmp_path / "cifar10-test.npz", labels=np.zeros(2, np.uint8), coded=np.zeros((3, 2, 8, 8), np.uint8))
    with pytest.raises(ValueError, match="coded planes"):
        datasets.cifar10(tmp_path, split="test")
    batch = {b"data": np.zeros((2, 5), np.uint8), b"labels": [0, 1]}
    (tmp_path / "test_batch").write_bytes(pickle.dumps(batch, protocol=2))  # as it is published
    with pytest.raises(ValueError, match="for 2 labels"):
        datasets.cifar10(tmp_path, split="test")
    for parts in ({b"labels": ["0", "1"]}, {b"labels": (0, 1)}, {b"data": [[0]]}):
        (tmp_path / "test_batch").write_bytes(pickle.dumps(batch | parts, protocol=2))
        with pytest.raises(ValueError, match="an array of pixels and a list of labels"):
            datasets.cifar10(tmp_path, split="test")


MOVIES = [(1, 10, 5.0), (2, 10, 3.5), (2, 20, 1.0)]


@pytest.mark.parametrize(
    ("name", "file", "mark"),
    [
        ("ml-100k", "ml-100k/u.data", "\t"),
        ("ml-1m", "ml-1m/ratings.dat", "::"),
        ("ml-10m", "ml-10M100K/ratings.dat", "::"),
    ],
)
def test_movielens_text(tmp_path, name, file, mark):
    path = tmp_path / "movielens" / file
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(mark.join(map(str, (*row, 881250949))) for row in MOVIES) + "\n")
    for folder in (tmp_path, tmp_path / "movielens", path.parent):
        ratings = datasets.movielens(name, folder)
        assert [*zip(ratings.users.tolist(), ratings.items.tolist(), ratings.values.tolist(), strict=True)] == MOVIES
    with pytest.raises(ValueError, match="one of ml-100k, ml-1m, ml-10m"):
        datasets.movielens("ml-2m", tmp_path)


def test_movielens_npz_and_entries(tmp_path):
    users, items, values = (np.array(column) for column in zip(*MOVIES, strict=True))
    np.savez(tmp_path / "ml-1m.npz", users=users, items=items, ratings=values, timestamps=np.arange(3))
    ratings = datasets.movielens("ml-1m", tmp_path)
    assert ratings.times is not None
    entries = ratings.entries(torch.float64)
    assert entries.shape == (2, 2)
    assert entries.rows.tolist() == [0, 1, 1]
    assert entries.columns.tolist() == [0, 0, 1]
    assert entries.values.tolist() == [5.0, 3.5, 1.0]
    np.savez(tmp_path / "ml-1m.npz", users=users, items=items)
    with pytest.raises(ValueError, match="no array 'ratings'"):
        datasets.movielens("ml-1m", tmp_path)


def test_ratings_dat_without_a_telling_folder_is_refused(tmp_path):
    (tmp_path / "ratings.dat").write_text("1::2::3::4\n")
    with pytest.raises(datasets.DatasetMissing):
        datasets.movielens("ml-10m", tmp_path)


def test_jester_arrays(tmp_path):
    np.savez(tmp_path / "jester-1.npz", users=[0, 1], items=[7, 3], ratings=[-7.5, 2.25])
    found = datasets.jester(tmp_path)
    assert (found.users.tolist(), found.items.tolist(), found.values.tolist()) == ([0, 1], [7, 3], [-7.5, 2.25])


def test_jester_text(tmp_path):
    (tmp_path / "jester-data-1.csv").write_text("2,-7.82,99,8.5\n1,99,99,0.00\n")
    ratings = datasets.jester(tmp_path)
    assert ratings.users.tolist() == [0, 0, 1]
    assert ratings.items.tolist() == [0, 2, 2]
    assert np.allclose(ratings.values, [-7.82, 8.5, 0.0])
    for content, message in (("2,1.0,99\n", "says 2"), ("1,a\n", "line 1"), ("1,2\n1,2,3\n", "line 2: 3 fields")):
        (tmp_path / "jester-data-1.csv").write_text(content)
        with pytest.raises(ValueError, match=message):
            datasets.jester(tmp_path)


def zip_of(members: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("name", ["../evil.dat", "/evil.dat", "a/../../evil.dat", "..\\evil.dat", "C:/evil.dat"])
def test_archives_cannot_write_outside(tmp_path, name):
    inside = tmp_path / "in"
    (tmp_path / "a.zip").write_bytes(zip_of({name: b"x"}))
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as packed:
        member = tarfile.TarInfo(name)
        member.size = 1
        packed.addfile(member, io.BytesIO(b"x"))
    for archive in ("a.zip", "a.tar.gz"):
        with pytest.raises(ValueError, match="points outside"):
            archives.unpack(tmp_path / archive, inside, lambda _name: True)
    assert not list(tmp_path.rglob("evil.dat"))


@posix
def test_links_in_archives_are_not_followed(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "out"
    outside.mkdir()
    with tarfile.open(tmp_path / "a.tar", "w") as packed:
        link = tarfile.TarInfo("door")
        link.type, link.linkname = tarfile.SYMTYPE, str(outside)
        packed.addfile(link)
        member = tarfile.TarInfo("door/evil.dat")
        member.size = 1
        packed.addfile(member, io.BytesIO(b"x"))
    assert archives.unpack(tmp_path / "a.tar", inside, lambda _name: True) == [inside / "door" / "evil.dat"]
    assert not list(outside.iterdir())
    (inside / "way").symlink_to(outside)
    (tmp_path / "b.zip").write_bytes(zip_of({"way/evil.dat": b"x"}))
    with pytest.raises(ValueError, match="points outside"):
        archives.unpack(tmp_path / "b.zip", inside, lambda _name: True)
    assert not list(outside.iterdir())


def test_download_unpacks_and_checks_the_sum(tmp_path, monkeypatch):
    body = zip_of({"ml-100k/u.data": b"1\t2\t3\t4\n", "ml-100k/README": b"terms"})
    served = tmp_path / "served"
    served.mkdir()
    (served / "ml-100k.zip").write_bytes(body)

    def retrieve(url, known_hash, fname, path, progressbar):
        kind, _, digest = known_hash.partition(":")
        if hashlib.new(kind, body).hexdigest() != digest:
            raise ValueError("checksum")
        (Path(path) / fname).write_bytes(body)
        return str(Path(path) / fname)

    monkeypatch.setattr(files.pooch, "retrieve", retrieve)
    with pytest.raises(ValueError, match="checksum"):
        datasets.movielens("ml-100k", tmp_path / "got", download=True)
    remote = files.Remote("https://example.org/ml-100k.zip", "sha256:" + hashlib.sha256(body).hexdigest())
    monkeypatch.setitem(rating_sets._MOVIELENS, "ml-100k", ("ml-100k/u.data", remote))
    assert datasets.movielens("ml-100k", tmp_path / "got", download=True).values.tolist() == [3.0]
    assert not list((tmp_path / "got").rglob("README"))
    assert datasets.movielens("ml-100k", tmp_path / "got").users.tolist() == [1]


def test_cifar_download_takes_the_binary_batches(tmp_path, monkeypatch):
    pixels, labels = cifar_images()
    archive = tmp_path / "cifar-10-binary.tar.gz"
    content = np.concatenate([labels[:, None], pixels.reshape(6, -1)], 1).tobytes()
    with tarfile.open(archive, "w:gz") as packed:
        member = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
        member.size = len(content)
        packed.addfile(member, io.BytesIO(content))
    monkeypatch.setattr(images, "fetched", lambda remote, target: archive)
    found, _ = datasets.cifar10(tmp_path / "d", split="test", download=True)
    assert np.array_equal(found.numpy(), pixels)


def joined(path: Path, **options: object) -> list[tuple[object, object, float]]:
    rows: list[tuple[object, object, float]] = []
    for chunk in read_chunks(path, **options):
        rows += zip(chunk.users.tolist(), chunk.items.tolist(), chunk.values.tolist(), strict=True)
    return rows


identifier = st.one_of(
    st.integers(-(10**15), 10**15).map(str),
    st.text(alphabet="abcXYZ_-äß0123456789", min_size=1, max_size=6).filter(lambda t: t.lower() not in ("nan", "inf")),
)


@pytest.mark.parametrize("mark", ["::", "\t", ",", " "])
@pytest.mark.parametrize("odd", ["007", "1.0", "+1", "-0", "1e2"])
def test_ids_that_are_not_plain_numbers_stay_text(tmp_path, mark, odd):
    path = tmp_path / "r.csv"
    path.write_text("\n".join(mark.join(row) for row in (("1", odd, "3"), ("12", "7", "3.5"))))
    assert [str(item) for _, item, _ in joined(path)] == [odd, "7"]


@pytest.mark.parametrize("first", ["\uff21", "\ufb01", "\ufec0"])
@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_a_first_letter_that_begins_as_a_byte_order_mark_does_is_kept(tmp_path, start, first):
    path = tmp_path / "ratings.csv"
    path.write_bytes(f"{start}{first},1,2\nb,3,4\n".encode())
    assert next(iter(read_chunks(path))).users.tolist() == [first, "b"]


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["::", "\t", ",", " "])
def test_ids_that_are_not_plain_numbers_stay_text_in_the_last_column(tmp_path, mark, newline):
    """Every item is written with a zero in front, right before the end of its line."""
    path = tmp_path / "r.csv"
    rows = [("3", "1", "07"), ("3.5", "12", "08")]
    path.write_bytes(newline.join(mark.join(row) for row in rows).encode())
    read = joined(path, columns=(1, 2, 0))
    assert [(value, str(user), item) for user, item, value in read] == [(3.0, "1", "07"), (3.5, "12", "08")]


@pytest.mark.parametrize("mark", ["::", "\t", ",", " "])
def test_a_table_none_of_whose_ids_is_a_plain_number_is_all_text(tmp_path, mark):
    """Numbers to anyone who does not look at how they are written."""
    path = tmp_path / "r.csv"
    path.write_text("\n".join(mark.join(row) for row in (("01", "007", "3"), ("+2", "08", "3.5"))))
    assert joined(path) == [("01", "007", 3.0), ("+2", "08", 3.5)]


@given(
    rows=st.lists(st.tuples(identifier, identifier, st.integers(-99, 99)), min_size=1, max_size=20),
    mark=st.sampled_from(["::", "\t", ",", ";"]),
    size=st.sampled_from([1, 7, 64, 1 << 20]),
    header=st.booleans(),
    newline=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
)
@settings(max_examples=150, deadline=None)
def test_tables_survive_any_chunking(tmp_path_factory, rows, mark, size, header, newline, last):
    path = tmp_path_factory.mktemp("t") / "r.csv"
    lines = [mark.join((user, item, f"{rating / 4:g}", "77")) for user, item, rating in rows]
    text = newline.join((["user" + mark + "item" + mark + "rating" + mark + "at"] if header else []) + lines)
    path.write_bytes((text + (newline if last else "")).encode())
    read = joined(path, size=size, columns=("user", "item", "rating") if header else (0, 1, 2))
    assert [(str(user), str(item), value) for user, item, value in read] == [(u, i, r / 4) for u, i, r in rows]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("1,2,3\n4,5\n6,7,8\n", "line 2: 2 fields"),
        ("1,2,3\n4,5,6\n\n7,8,x\n", "line 4: rating 'x'"),
        ("user,item,rating\n1,2,3\n4,5,nan\n", "line 3: rating 'nan' is not finite"),
        ("1,2,3\n4,5,\n", "line 2: rating ''"),
        ("1,2,inf\n", "line 1: rating 'inf'"),
        ("1,2,3\n,5,6\n", "line 2: an id is empty"),
        ("1,2,3\n4\n5,6,7,8,9\n", "line 2: 1 fields"),
        ("1,2\n", "line 1: 2 fields"),
        ("\n\nuser,item,rating\n1,2,x\n", "line 4: rating 'x'"),
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("1,2,3\r4,5,6\r", r"line 1: its lines end in \\r alone"),
        ("1,2,3\n4\0,5,6\n", r"the id '4\\x00' holds a zero byte"),
        ("1,2,3\n4,5,1_0\n", "line 2: rating '1_0'"),
        ("a,b,\n", "line 1: rating ''"),
    ],
)
@pytest.mark.parametrize("size", [3, 1 << 20])
def test_faults_name_their_line(tmp_path, content, message, size):
    (tmp_path / "r.csv").write_text(content)
    with pytest.raises(ValueError, match=message):
        joined(tmp_path / "r.csv", size=size)


def test_table_details(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text('user,item,rating\n"Smith, J",007,4\n"K ""B"" L",8,5\n')
    assert joined(path) == [("Smith, J", "007", 4.0), ('K "B" L', "8", 5.0)]
    path.write_text("score,who,what\n2.5,9007199254740993,1\n")
    assert joined(path, columns=("who", "what", "score")) == [(9007199254740993, 1, 2.5)]
    assert joined(path, columns=(1, 2, 0)) == [(9007199254740993, 1, 2.5)]
    with pytest.raises(ValueError, match="no column 'stars'"):
        joined(path, columns=("who", "what", "stars"))
    with pytest.raises(ValueError, match="columns must name"):
        joined(path, columns=("who", "what"))
    with pytest.raises(ValueError, match="no file"):
        joined(tmp_path / "absent.csv")
    path.write_bytes(b"1,2,3\n\xff\xfe,2,3\n")
    with pytest.raises(ValueError, match="line 2: not UTF-8"):
        joined(path)
    packed = tmp_path / "r.csv.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbf1 2 3\n4  5 6\n"))
    assert joined(packed) == [(1, 2, 3.0), (4, 5, 6.0)]


def test_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow", reason="pyarrow is optional")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is optional")
    path = tmp_path / "r.parquet"
    table = pa.table({"user": ["a", "b", "c"], "item": [1, 2, 3], "rating": [1.0, 2.0, 3.0]})
    parquet.write_table(table, path)
    assert joined(path, size=64) == [("a", 1, 1.0), ("b", 2, 2.0), ("c", 3, 3.0)]
    with pytest.raises(ValueError, match="no column 'stars'"):
        joined(path, columns=("user", "item", "stars"))
    parquet.write_table(pa.table({"u": [1, 2], "i": [1, 2], "r": [1.0, float("nan")]}), path)
    with pytest.raises(ValueError, match="row 2: the rating is not finite"):
        joined(path)


def test_names_of_files_may_be_written_large(tmp_path):
    (tmp_path / "R.CSV.GZ").write_bytes(gzip.compress(b"user,item,rating\n1,2,3\n"))
    (tmp_path / "R.JSON.GZ").write_bytes(gzip.compress(b'[{"user": 1, "item": 2, "rating": 3}]'))
    assert [joined(path) for path in tmp_path.iterdir()] == [[(1, 2, 3.0)]] * 2
    pa, parquet = (pytest.importorskip(name, reason="pyarrow is optional") for name in ("pyarrow", "pyarrow.parquet"))
    parquet.write_table(pa.table({"user": [1], "item": [2], "rating": [3]}), tmp_path / "R.PARQUET")
    assert joined(tmp_path / "R.PARQUET") == [(1, 2, 3.0)]


@pytest.mark.parametrize("text", [",user,item,rating\n0,1,2,3\n", "user,item,rating,\n1,2,3,\n"])
def test_a_column_without_a_name_is_passed_over(tmp_path, text):
    """What pandas writes with its row numbers, and what ends every line in a separator."""
    (tmp_path / "r.csv").write_text(text)
    assert joined(tmp_path / "r.csv") == [(1, 2, 3.0)]


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('{"user": 1, "user": 2, "item": 3, "rating": 4}', "a name stands twice"),
        ('{"user": "\\ud800", "item": 3, "rating": 4}', "half a character"),
        ('{"user": "a\\u0000", "item": 3, "rating": 4}', "a zero byte"),
    ],
)
@pytest.mark.parametrize("ending", ["json", "jsonl"])
def test_records_that_say_two_things_are_refused(tmp_path, record, message, ending):
    path = tmp_path / f"r.{ending}"
    path.write_text(f"[{record}]" if ending == "json" else record)
    with pytest.raises(ValueError, match=message):
        joined(path)


@pytest.mark.parametrize("bad", ["[1, 2]", "[1, null, 3]", '[1, 2, "x"]', f"[1, 2, 1{'0' * 400}]"])
def test_a_line_at_fault_is_named_with_empty_lines_counted(tmp_path, bad):
    path = tmp_path / "r.jsonl"
    path.write_text(f"[1, 2, 3]\n\n[4, 5, 6]\n\n{bad}\n")
    with pytest.raises(ValueError, match=r"r\.jsonl, line 5: "):
        joined(path)


PARQUET_COLUMNS = {
    "nested user": ("user", [{"id": 1}, {"id": 2}], "user is a column of struct<"),
    "list of items": ("item", [[1], [2]], "item is a column of list<"),
    "list of ratings": ("rating", [[1.0], [2.0]], "rating is a column of list<"),
    "times for ratings": ("rating", [datetime(2020, 1, 1), datetime(2020, 1, 2)], "rating is a column of timestamp"),
    "truth values for ratings": ("rating", [True, False], "rating is a column of bool"),
    "truth values for users": ("user", [True, False], "user is a column of bool"),
    "an id that is no number": ("user", [1.0, float("nan")], "row 2: the id nan is not finite"),
    "an infinite id": ("item", [float("inf"), 1.0], "row 1: the id inf is not finite"),
    "bytes that are no text": ("user", [b"a", b"\xff"], "an id is not UTF-8 text"),
    "a zero byte": ("item", ["a", "a\0"], "holds a zero byte"),
}


@pytest.mark.parametrize("name", PARQUET_COLUMNS)
def test_columns_of_other_kinds_are_refused_by_name(tmp_path, name):
    pa, parquet = (pytest.importorskip(name, reason="pyarrow is optional") for name in ("pyarrow", "pyarrow.parquet"))
    column, content, message = PARQUET_COLUMNS[name]
    table = {"user": [1, 2], "item": [1, 2], "rating": [1.0, 2.0]} | {column: content}
    parquet.write_table(pa.table(table), tmp_path / "r.parquet")
    with pytest.raises(ValueError, match=rf"r\.parquet.*{message}"):
        joined(tmp_path / "r.parquet")


def test_every_kind_of_number_and_text_is_read_from_parquet(tmp_path):
    pa, parquet = (pytest.importorskip(name, reason="pyarrow is optional") for name in ("pyarrow", "pyarrow.parquet"))
    for users in (pa.array([1, 2], pa.uint8()), pa.array([1.0, 2.0]), pa.array([1, 2], pa.int32())):
        for ratings in (pa.array([3, 4], pa.int16()), pa.array([Decimal(3), Decimal(4)]), pa.array(np.float16([3, 4]))):
            parquet.write_table(pa.table({"user": users, "item": ["é", "b"], "rating": ratings}), tmp_path / "r.pq")
            assert joined(tmp_path / "r.pq") == [(1, "é", 3.0), (2, "b", 4.0)]
            assert [chunk.users.dtype for chunk in read_chunks(tmp_path / "r.pq")] == [np.int64]
    words = pa.array(["x", "y"]).dictionary_encode()
    parquet.write_table(pa.table({"user": words, "item": [b"p", b"q"], "rating": [3, 4]}), tmp_path / "r.pq")
    assert joined(tmp_path / "r.pq") == [("x", "p", 3.0), ("y", "q", 4.0)]


def test_whole_numbers_of_floating_columns_are_the_same_ids_in_every_piece_and_at_every_size(tmp_path):
    pa, parquet = (pytest.importorskip(name, reason="pyarrow is optional") for name in ("pyarrow", "pyarrow.parquet"))
    users = [5.0, 6.0, 5.5, 5.0, 2.0**63, -(2.0**62)]
    table = {"user": users, "item": pa.array(users, pa.float32()), "rating": [1.0] * 6}
    parquet.write_table(pa.table(table), tmp_path / "r.parquet")
    wanted = ["5", "6", "5.5", "5", str(2**63), str(-(2**62))]
    for size in (64, 1 << 20):  # two rows a piece, or all of them
        chunks = list(read_chunks(tmp_path / "r.parquet", None, size))
        assert [str(one) for chunk in chunks for one in chunk.users.tolist()] == wanted
        assert [str(one) for chunk in chunks for one in chunk.items.tolist()] == wanted


def test_a_parquet_column_that_unpacks_to_too_much_is_refused_before_it_is_read(tmp_path, monkeypatch):
    """Two rows, one of them an id of four million letters: the rows say nothing, the pages do."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is optional")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is optional")
    path = tmp_path / "bomb.parquet"
    table = pa.table({"user": ["a" * (1 << 22), "b"], "item": [1, 2], "rating": [1.0, 2.0]})
    parquet.write_table(table, path, compression="gzip", use_dictionary=False, write_statistics=False)
    assert path.stat().st_size < 1 << 14
    monkeypatch.setattr("droptics.files.limits.FREE", 1 << 20)
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda *_, **__: pytest.fail("pages were read"))
    with pytest.raises(ValueError, match=r"bomb\.parquet would unpack to 4,\d{3},\d{3} bytes"):
        joined(path)


def test_a_parquet_file_of_more_rows_than_its_size_can_hold_is_refused_before_it_is_read(tmp_path, monkeypatch):
    """One rating, a hundred thousand times: three numbers a row, of which the pages hold next to nothing."""
    pa = pytest.importorskip("pyarrow", reason="pyarrow is optional")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is optional")
    path = tmp_path / "bomb.parquet"
    parquet.write_table(pa.table({name: np.ones(100_000, np.int64) for name in ("user", "item", "rating")}), path)
    assert 100 * path.stat().st_size < 3 * 8 * 100_000
    assert len(joined(path)) == 100_000, "small enough for any file"
    monkeypatch.setattr("droptics.files.limits.FREE", 1 << 20)
    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", lambda *_, **__: pytest.fail("pages were read"))
    with pytest.raises(ValueError, match=r"bomb\.parquet would unpack to 2,400,000 bytes"):
        joined(path)


def test_what_follows_the_last_number_is_refused_where_numpy_only_warns(tmp_path, monkeypatch):
    """Older versions return what comes before, with a warning, which may be switched off."""

    def older(text, dtype, sep):
        warnings.warn("string or file could not be read to its end", DeprecationWarning, stacklevel=2)
        return np.array([1.0, 2.0, 3.0, 4.0, 5.0, 3.0])

    monkeypatch.setattr(np, "fromstring", older)
    (tmp_path / "r.csv").write_text("1,2,3\n4,5,3x")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match=r"r\.csv, line 2: rating '3x' is not a number"):
            joined(tmp_path / "r.csv")


def test_a_record_may_be_as_long_as_the_longest_line_and_no_longer(tmp_path, monkeypatch):
    line = json.dumps({"user": 1, "item": 2, "rating": 3.0})
    (tmp_path / "r.jsonl").write_text(line)
    monkeypatch.setattr("droptics.datasets.documents.LINE", len(line))
    assert joined(tmp_path / "r.jsonl") == [(1, 2, 3.0)]
    monkeypatch.setattr("droptics.datasets.documents.LINE", len(line) - 1)
    with pytest.raises(ValueError, match=f"line 1: longer than {len(line) - 1} bytes"):
        joined(tmp_path / "r.jsonl")


def test_parquet_without_pyarrow_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "r.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"pip install droptics\[parquet\]"):
        joined(tmp_path / "r.parquet")


def test_ids_are_as_long_as_they_are_written():
    ids = [0, 1, 9, 10, 11, 19, 20, 99, 100, 101, 10**14, 10**15 - 1, -1, -9, -10, -100]
    assert tables._plain_length(np.array(ids, float)).tolist() == [len(str(number)) for number in ids]


def test_as_ids():
    assert tables.as_ids(["3", "-4"]).tolist() == [3, -4]
    assert tables.as_ids(["3", "04"]).tolist() == ["3", "04"]
    assert tables.as_ids(["3", "99999999999999999999"]).dtype.kind == "U"


def test_planted_ratings():
    ratings = datasets.planted_ratings((300, 200, 6000), rank=3, noise=0.5, seed=4)
    again = datasets.planted_ratings((300, 200, 6000), rank=3, noise=0.5, seed=4)
    assert len(ratings) == 6000
    assert np.array_equal(ratings.values, again.values)
    assert len(np.unique(ratings.users.astype(np.int64) * 200 + ratings.items)) == 6000
    counts = np.sort(np.bincount(ratings.users, minlength=300))
    assert counts[-30:].sum() > 3 * counts[:30].sum()
    clean = datasets.planted_ratings((300, 200, 6000), rank=3, noise=0.0, seed=4)
    assert np.array_equal(clean.users, ratings.users)
    difference = ratings.values - clean.values
    assert abs(difference.std() - 0.5) < 4 * 0.5 / np.sqrt(2 * 6000)
    for size in ("ml-2m", (10, 10, 51), (0, 10, 1)):
        with pytest.raises(ValueError, match="must be"):
            datasets.planted_ratings(size)


@pytest.mark.parametrize("rank", [1, 2, 8, 32])
def test_planted_inner_products_have_variance_one_half(rank):
    values = datasets.planted_ratings((1000, 1000, 10**5), rank, 0.0, seed=rank, activity=(0.0, 0.0)).values
    # Relative variances of their mean square: 2 / (1000 rank) of the squares of the factors of either side, and for
    # the cells (E x^4 / (E x^2)^2 - 1) / 10^5 with E x^4 / (E x^2)^2 = 3 (1 + 2 / rank) for normal factors
    error = np.sqrt(2 * 2 / (1000 * rank) + (2 + 6 / rank) / 10**5)
    assert abs(np.mean((values.astype(np.float64) - 3.5) ** 2) / 0.5 - 1) < 4 * error


def test_split_partitions():
    ratings = datasets.Ratings(np.arange(10), np.arange(10), np.arange(10.0), np.arange(10))
    kept, held = ratings.split(0.3, seed=1)
    assert len(held) == 3
    assert sorted([*kept.users, *held.users]) == list(range(10))
    assert np.array_equal(kept.times, kept.users)
    for share in (0.0, 1.0):
        with pytest.raises(ValueError, match="holdout"):
            ratings.split(share, seed=0)
    with pytest.raises(ValueError, match="two ratings"):
        ratings.take(np.array([0])).split(0.5, seed=0)
    with pytest.raises(ValueError, match="one entry per rating"):
        datasets.Ratings(np.arange(2), np.arange(2), np.arange(3.0))


@needs_data
def test_real_images():
    pixels, labels = datasets.mnist(split="test")
    assert labels.bincount().tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert pixels.shape == (10000, 28, 28)
    assert datasets.fashion_mnist(split="test")[1].bincount().tolist() == [1000] * 10
    pixels, labels = datasets.cifar10(split="test")
    assert labels.bincount().tolist() == [1000] * 10
    digest = hashlib.sha256(pixels.permute(0, 2, 3, 1).contiguous().numpy().tobytes()).hexdigest()
    assert digest == "f9b1e2130bab680db56eb06d886f7f1ad0f1183907ceff4659d1735c890f5b04"


@needs_data
def test_real_ratings():
    ratings = datasets.movielens("ml-100k")
    assert ratings.entries().shape == (943, 1682)
    assert np.bincount(ratings.values.astype(int)).tolist() == [0, 6110, 11370, 27145, 34174, 21201]
    assert datasets.jester().entries().shape == (24983, 100)


class Server:
    """Stands in for the network: hands out prepared files by their name and remembers what was asked of it."""

    def __init__(self, content):
        self.content, self.asked = content, []

    def retrieve(self, url, *, known_hash, fname, path, progressbar):
        assert known_hash.partition(":")[0] in ("md5", "sha256")
        self.asked.append(url)
        (Path(path) / fname).write_bytes(self.content[url.rsplit("/", 1)[-1]])
        return str(Path(path) / fname)


@pytest.fixture
def server(monkeypatch):
    found = Server({})
    monkeypatch.setattr(files.pooch, "retrieve", found.retrieve)
    return found


def test_downloaded_images_are_read_and_kept(tmp_path, server):
    pixels, labels = np.full((2, 28, 28), 7, np.uint8), np.array([3, 1], np.uint8)
    for name, array in (("train-images-idx3-ubyte.gz", pixels), ("train-labels-idx1-ubyte.gz", labels)):
        write_idx(tmp_path / "far" / name, array, True)
        server.content[name] = (tmp_path / "far" / name).read_bytes()
    for _ in range(2):
        found, marks = datasets.mnist(tmp_path / "near", download=True)
        assert np.array_equal(found.numpy(), pixels)
        assert marks.tolist() == [3, 1]
    assert len(server.asked) == 2  # the second time the files are there


def archive_of(files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return buffer.getvalue()


def test_downloaded_photographs_and_ratings(tmp_path, server):
    pixels, labels = cifar_images()
    records = np.concatenate([labels[:, None], pixels.reshape(6, -1)], 1)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as packed:
        info = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
        info.size = records.nbytes
        packed.addfile(info, io.BytesIO(records.tobytes()))
    server.content["cifar-10-binary.tar.gz"] = buffer.getvalue()
    found, marks = datasets.cifar10(tmp_path, split="test", download=True)
    assert np.array_equal(found.numpy(), pixels)
    assert marks.tolist() == labels.tolist()

    server.content["ml-100k.zip"] = archive_of({"ml-100k/u.data": "7\t9\t4\t881250949\n8\t9\t2\t1\n"})
    ratings = datasets.movielens(folder=tmp_path, download=True)
    assert (ratings.users.tolist(), ratings.items.tolist(), ratings.values.tolist()) == ([7, 8], [9, 9], [4.0, 2.0])
    server.content["ml-1m.zip"] = archive_of({"ml-1m/README": "nothing"})
    with pytest.raises(ValueError, match=r"holds no ml-1m/ratings\.dat"):
        datasets.movielens("ml-1m", folder=tmp_path, download=True)


def test_jester_as_a_spreadsheet(tmp_path, monkeypatch, server):
    """A stand-in for xlrd that knows the two calls the reader makes."""

    class Sheet:
        nrows = 2

        def row_values(self, row):
            return [[2.0, -7.82, 99.0, 8.5], [1.0, 99.0, 99.0, 0.0]][row]

    class Book:
        def sheet_by_index(self, index):
            assert index == 0
            return Sheet()

    library = types.ModuleType("xlrd")
    library.open_workbook = lambda path: Book()
    monkeypatch.setitem(sys.modules, "xlrd", library)
    name = rating_sets._JESTER.url.rsplit("/", 1)[-1]
    server.content[name] = archive_of({"jester-data-1.xls": "binary"})
    ratings = datasets.jester(tmp_path, download=True)
    assert (tmp_path / "jester" / "jester-data-1.xls").exists()
    assert ratings.users.tolist() == [0, 0, 1]
    assert ratings.items.tolist() == [0, 2, 2]
    assert ratings.values.tolist() == pytest.approx([-7.82, 8.5, 0.0])
    monkeypatch.setitem(sys.modules, "xlrd", None)
    with pytest.raises(
        ValueError, match=r"needs xlrd; install it with `pip install droptics\[xls\]`, or save the sheet as csv"
    ):
        datasets.jester(tmp_path)


def test_the_cache_of_the_user_is_the_last_resort(monkeypatch):
    monkeypatch.delenv("DROPTICS_DATA")
    assert files.data_folder(None).name == "droptics"
    assert files.data_folder("~/sets") == Path.home() / "sets"
    with pytest.raises(ValueError, match="split must be 'train' or 'test'"):
        datasets.mnist(split="validation")


def test_planted_ratings_by_the_name_of_a_set():
    with pytest.raises(ValueError, match=r"one of ml-100k, ml-1m, ml-10m, got 'netflix'"):
        datasets.planted_ratings("netflix")
    found = datasets.planted_ratings("ml-100k")
    assert len(found.values) == 100_000
    assert len(np.unique(found.users * 1682 + found.items)) == 100_000
    assert int(found.users.max()) < 943
    assert int(found.items.max()) < 1682


def test_a_first_line_with_a_word_and_a_number_is_broken_not_a_header(tmp_path):
    path = tmp_path / "r.csv"
    path.write_text("1,2,good\n3,4,5\n")
    for columns in (None, (0, 1, 2)):
        with pytest.raises(ValueError, match="line 1"):
            joined(path, columns=columns)
    path.write_text("user,item,rating\n3,4,5\n")
    assert joined(path) == [(3, 4, 5.0)]
