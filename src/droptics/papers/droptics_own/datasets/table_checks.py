"""What claims on rating tables and data sets compare: files that are written here in every form, and read again."""

from __future__ import annotations

import gzip
import io
import itertools
import json
import math
import pickle
import struct
import sys
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch

from droptics.arrays import Array
from droptics.datasets import Ratings, cifar10, fashion_mnist, jester, mnist, movielens, planted_ratings, read_chunks
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.telling import refuses, same

NUMBERED = ((1, 20, 3.5), (-7, 4, 4.0), (12, 20, 1.0), (9007199254740991, 0, 2.25), (3, 10, -1.5), (10, 99, 5.0))
NAMED = (("ann", "007", 3.5), ("bob", "1.0", 4.0), ("12", "x y", 1.0), ("+1", "10", 2.25), ("\u00e9", "-", 0.5))


def _read(path: Path, size: int = 1 << 20, columns: Any = None) -> tuple[Array, Array, Array, list[int]]:
    chunks = list(read_chunks(path, columns, size))
    whole = [np.concatenate([getattr(chunk, name) for chunk in chunks]) for name in ("users", "items", "values")]
    return whole[0], whole[1], whole[2], [chunk.first_line for chunk in chunks]


def _kept(path: Path, content: str) -> Path:
    raw = content.encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def read_tables(scale: float) -> list[Comparison]:
    """Delimited text with every separator, header, order of columns, line end and packing, in pieces of every size."""
    found: list[Comparison] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ways = itertools.product(("::", "\t", ",", ";", " "), ("\n", "\r\n"), (False, True), (37, 1 << 20))
        for number, (mark, end, header, size) in enumerate(ways):
            lines = [mark.join((repr(value), "8", str(item), str(user))) for user, item, value in NUMBERED]
            head = [mark.join(("Stars", "time", "Movie_ID", "user id".replace(" ", "-")))] if header else []
            path = folder / f"{number}.txt{'.gz' if number % 3 == 0 else ''}"
            _kept(path, end.join([*head, *lines]) + end * (number % 2))
            users, items, values, starts = _read(path, size, None if header else (3, 2, 0))
            label = f"{mark!r}, {end!r}, header {header}, pieces of {size}"
            found.append(same(users, np.array([row[0] for row in NUMBERED]), f"users: {label}", scale))
            found.append(same(items, np.array([row[1] for row in NUMBERED]), f"items: {label}", scale))
            found.append(compare(values, "==", scale * np.array([row[2] for row in NUMBERED]), f"values: {label}"))
            found.append(same(starts[0], 1 + header, f"first line: {label}", scale))
            found.append(same(sorted(set(starts)), starts, f"lines of pieces: {label}", scale))
            if size == 37 and len(starts) > 1:
                path = folder / "broken.txt"
                _kept(path, end.join([*head, *lines[:-1], lines[-1].replace("5.0", "five")]))
                words = f"line {len(lines) + header}: rating 'five' is not a number"
                found.append(refuses(lambda path=path, h=header: _read(path, 37, None if h else (3, 2, 0)), words))
        for size in (9, 50, 1 << 20):
            text = "\ufeffitem,user,rating\n" + "\n\n".join(f'"{item}",{user},{value}' for user, item, value in NAMED)
            users, items, values, _ = _read(_kept(folder / "named.csv", text), size)
            found.append(same(users, np.array([row[0] for row in NAMED]), f"named users in pieces of {size}", scale))
            found.append(same(items, np.array([row[1] for row in NAMED]), f"named items in pieces of {size}", scale))
            found.append(compare(values, "==", scale * np.array([row[2] for row in NAMED]), f"their values, {size}"))
        bare = _kept(folder / "bare.csv", "\n\n1,2,3\n4,5,6,7\n8,9,0")
        users, items, values, starts = _read(bare)
        found.append(same([*users, *items, *values, *starts], [1, 4, 8, 2, 5, 9, 3, 6, 0, 3], "short lines", scale))
        found.append(same(_read(folder / "named.csv", 1 << 20, ("user", "item", 2))[0][1], "bob", "by names", scale))
        aligned = _read(_kept(folder / "aligned.txt", "1   2  3\n40  5  6.5\n"))[:3]
        found.append(same([list(part) for part in aligned], [[1, 40], [2, 5], [3, 6.5]], "aligned by blanks", scale))
        plain = _kept(folder / "plain.csv", "1,1e2,3\n1,20,4\n1,9007199254740993,1\n")
        found.append(same(list(_read(plain)[1]), ["1e2", "20", "9007199254740993"], "ids are kept as written", scale))
        found.append(same(_read(_kept(plain, "1,9007199254740993,1"))[1][0], 9007199254740993, "long ids", scale))
        found += _first_lines(folder, scale)
        for first in ("\uff21", "\ufec0", "\ufeff\uff21"):  # in UTF-8 they begin as a byte order mark does
            told = _read(_kept(plain, f"{first},1,2\nb,3,4"))[0][0]
            found.append(same(told, first.removeprefix("\ufeff"), f"first letter {first!a}", scale))
        for text, words in (
            ("", "is empty"),
            ("user,item,rating\n", "only a header"),
            ("1,2,3\r4,5,6\r", "end in \\r alone"),
            ("1,2,3\n4,5", "line 2: 2 fields where 3 are needed"),
            ("1,2,3\n4,,5", "line 2: an id is empty"),
            ("1,2,3\n4,5,nan", "line 2: rating 'nan' is not finite"),
            ("1,2,3\n4,5,1_0", "line 2: rating '1_0' is not a number"),
            ("user,thing,rating\n1,2,3", "no column called item"),
            ("user,reviewer,item,rating\n1,2,3,4", "several columns that may hold the user"),
            ("1,2\n3,4", "2 fields, expected at least 3"),
            ("4" * ((1 << 20) + 1) + ",5,6", "longer than 1,048,576 bytes"),
            ("1,2,3\na\0,5,6", "holds a zero byte"),
        ):
            found.append(refuses(lambda text=text: _read(_kept(folder / "bad.csv", text), 64), words))
        found.append(refuses(lambda: read_chunks(folder / "bare.csv", (0, 1)), "columns must name"))
        found.append(refuses(lambda: read_chunks(folder / "none.csv"), "no file"))
        found.append(refuses(lambda: _read(folder / "named.csv", 9, ("user", "x", 2)), "no column 'x'"))
    return found


def _first_lines(folder: Path, scale: float) -> list[Comparison]:
    """A first line is a header where it holds words alone, and a rating where a number stands among them."""
    found: list[Comparison] = []
    cases: tuple[tuple[str, Any, list[Any]], ...] = (
        ("a,b,4.5\nc,d,2", None, ["a", "c", "b", "d", 4.5, 2.0]),
        ("a,b,-3\nc,d,2", None, ["a", "c", "b", "d", -3.0, 2.0]),
        ("a,b,1e-2\nc,d,.5", None, ["a", "c", "b", "d", 0.01, 0.5]),
        ("7,b,1\nc,d,2", None, ["7", "c", "b", "d", 1.0, 2.0]),
        ("stars,user,item\n2.5,c,d", None, ["c", "d", 2.5]),
        (",user,item,stars\n0,c,d,2.5", None, ["c", "d", 2.5]),
        ("item,user,stars,\nc,d,2.5,", None, ["d", "c", 2.5]),
        ("who,what,how\nc,d,2.5", (1, 0, 2), ["d", "c", 2.5]),
        ("a,b,-0.5\nc,d,2.5", (1, 0, 2), ["b", "d", "a", "c", -0.5, 2.5]),
        ("a,b,4\nc,d,2", (1, 0, -1), []),
    )
    for text, columns, wanted in cases:
        path = _kept(folder / "first.csv", text)
        if wanted:
            users, items, values, _ = _read(path, 1 << 20, columns)
            found.append(same([*users, *items, *values], wanted, f"first line of {text!r}", scale))
        else:
            found.append(refuses(lambda path=path, columns=columns: _read(path, 9, columns), "expected at least"))
    for text, columns in itertools.product(("a,7,five\nc,d,2", "a,b,\nc,d,2"), (None, (0, 1, 2))):
        path = _kept(folder / "first.csv", text)
        words = f"line 1: rating {'five' if 'five' in text else ''!r} is not a number"
        found.append(refuses(lambda path=path, columns=columns: _read(path, 9, columns), words))
    return found


def read_documents(scale: float) -> list[Comparison]:
    """JSON as objects, triples, columns or lines, packed and in pieces, behind a byte order mark, of other names."""
    found: list[Comparison] = []
    objects = [{"rating": value, "movieId": item, "userId": user} for user, item, value in NUMBERED]
    names = [[user, item, value] for user, item, value in NAMED]
    columns = {key: [entry[key] for entry in objects] for key in objects[0]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        forms = {
            "objects.json": json.dumps(objects),
            "inside.json": json.dumps({"data": objects, "what": "ratings"}),
            "columns.json.gz": json.dumps(columns),
            "lines.jsonl": "\n\n".join(map(json.dumps, objects)),
            "lines.ndjson.gz": "\n".join(map(json.dumps, objects)) + "\n",
        }
        for file, text in forms.items():
            for size in (64, 129, 1 << 20):
                users, items, values, starts = _read(_kept(folder / file, text), size)
                found.append(same(users, np.array([row[0] for row in NUMBERED]), f"users of {file}", scale))
                found.append(same(items, np.array([row[1] for row in NUMBERED]), f"items of {file}", scale))
                found.append(compare(values, "==", scale * np.array([row[2] for row in NUMBERED]), f"values: {file}"))
                steps = {64: 1, 129: 2}.get(size, 6) * (2 if file == "lines.jsonl" else 1)
                wanted = list(range(1, 12 if file == "lines.jsonl" else 7, steps))
                found.append(same(starts, wanted, f"records of {file} in pieces of {size}", scale))
        users, items, values, _ = _read(_kept(folder / "triples.json", json.dumps(names)), 1 << 20, (0, 1, 2))
        found.append(same([*users, *items], [*(row[0] for row in NAMED), *(row[1] for row in NAMED)], "triples", scale))
        quoted = '[["12", 7, 1], [3, "-8", 2]]'
        asked: tuple[tuple[str, Any, str], ...] = (
            (quoted, None, "whole numbers in quotes"),
            ("\ufeff" + quoted, None, "behind a byte order mark"),
            ('[{"a": 1, "b": 12, "c": 7}, {"c": "-8", "a": 2, "b": "3"}]', ("b", "c", "a"), "named columns"),
            ('{"item": [1, 2], "rating": [12, 3], "user": [7, -8]}', (1, 2, 0), "numbered columns"),
        )
        for text, places, label in asked:
            users, items, values, _ = _read(_kept(folder / "quoted.json", text), 1 << 20, places)
            found.append(same([users.tolist(), items.tolist()], [[12, 3], [7, -8]], label, scale))
            found.append(compare(values, "==", [scale * 1, scale * 2], f"ratings, {label}"))
        for text, words in (
            ("[]", "holds no ratings"),
            ("3", "must hold a list of ratings, got int"),
            ('{"user": [1], "item": [2, 3], "rating": [1]}', "columns of the same length"),
            ('{"user": [1], "item": [2], "rating": [1], "year": 1999}', "columns of the same length"),
            ('[{"user": 1, "user": 2}]', "stands twice"),
            ('[[1, 2, 3], ["a\\u0000", 2, 3]]', "the id 'a\\x00' holds a zero byte"),
            ("[[1, 2, 3], [1, 2, true]]", "record 2: rating True is not a finite"),
            ('[{"user": 1, "item": 2, "rating": 3}, [1, 2, 3]]', "record 2: no user, item and rating"),
            ('[{"user": 1, "item": 2, "rating": 3}, {"user": 1, "item": 2}]', "record 2"),
            ("[[1, 2, 3], [true, 2, 3]]", "record 2: ids must be"),
            ('[[1, 2, 3], [1, "", 3]]', "record 2: ids must be"),
            ('[[1, 2, "3"]]', "record 1: rating '3' is not a finite"),
            ("[[1, 2, NaN]]", "is not a finite number"),
            (f"[[1, 2, 3], [1, 2, 1{'0' * 400}]]", "record 2: rating 1000"),
            ("[[1, 2, 3]", "is not JSON"),
        ):
            found.append(refuses(lambda text=text: _read(_kept(folder / "bad.json", text)), words))
        for bad in ("[1, 2]", "[1, null, 3]", '[1, 2, "x"]', "[1, 2"):  # named by its line, empty ones counted
            lines = f"[1, 2, 3]\n\n[4, 5, 6]\n\n{bad}\n"
            found.append(refuses(lambda lines=lines: _read(_kept(folder / "bad.jsonl", lines), 128), "line 5"))
        long = json.dumps([1, 2, 3]) + "\n" + " " * (1 << 20) + "[1, 2, 3]\n"
        found.append(refuses(lambda: _read(_kept(folder / "bad.jsonl", long)), "line 2: longer than"))
    return found


def _idx(values: Array) -> bytes:
    return bytes((0, 0, 8, values.ndim)) + struct.pack(f">{values.ndim}I", *values.shape) + values.tobytes()


def stored_sets(scale: float) -> list[Comparison]:
    """Images and ratings from the files of their makers, written here byte by byte."""
    found: list[Comparison] = []
    draw = np.random.default_rng(3)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        readers: Any = (("mnist", mnist, "mnist"), ("fashion", fashion_mnist, "FashionMNIST/raw"))
        for title, call, place in readers:
            (folder / place).mkdir(parents=True)
            for split, prefix, packed in (("train", "train", True), ("test", "t10k", False)):
                images, labels = draw.integers(0, 256, (5, 28, 28), np.uint8), draw.integers(0, 10, 5, np.uint8)
                for kind, content in (("images-idx3", _idx(images)), ("labels-idx1", _idx(labels))):
                    path = folder / place / f"{prefix}-{kind}-ubyte{'.gz' if packed else ''}"
                    path.write_bytes(gzip.compress(content) if packed else content)
                told = call(folder, split)
                found.append(compare(told[0].double(), "==", scale * images, f"images of {title}, {split}"))
                found.append(same(told[1].numpy(), labels.astype(np.int64), f"labels of {title}, {split}", scale))
        (folder / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(_idx(labels[:4]))
        found.append(refuses(lambda: mnist(folder, "test"), "5 images but 4 labels"))
        for content, words in (
            (_idx(labels)[:-1], "holds 4 bytes where shape (5,) needs 5"),
            (_idx(labels) + b"0", "holds 6 bytes"),
            (b"\0\0\x09" + _idx(labels)[3:], "is not an IDX file"),
            (_idx(images), "is not an IDX file of 1-dimensional"),
            (bytes((0, 0, 8, 1)) + struct.pack(">I", 1 << 29), "more than its size can hold"),
        ):
            (folder / "mnist" / "t10k-labels-idx1-ubyte").write_bytes(content)
            found.append(refuses(lambda: mnist(folder, "test"), words))
        pixels, labels = draw.integers(0, 256, (4, 3, 32, 32), np.uint8), draw.integers(0, 10, 4, np.uint8)
        planes = np.stack([pixels[:, 1], pixels[:, 0] - pixels[:, 1], pixels[:, 2] - pixels[:, 1]])
        coded = np.diff(np.diff(planes, axis=2, prepend=np.uint8(0)), axis=3, prepend=np.uint8(0)).astype(np.uint8)
        records = np.concatenate([labels[:, None], pixels.reshape(4, -1)], 1)
        batch = {b"data": pixels.reshape(4, -1), b"labels": labels.tolist()}
        store = io.BytesIO()
        np.savez(store, coded=coded, labels=labels)
        stores = {
            "a/cifar10/cifar-10-batches-bin/data_batch_2.bin": records.tobytes(),
            "a/cifar10/cifar-10-batches-bin/data_batch_5.bin": records[:2].tobytes(),
            "b/cifar-10/cifar-10-batches-py/data_batch_1": pickle.dumps(batch, 2),
            "c/cifar10-train-a.npz": store.getvalue(),
        }
        for file, content in stores.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_bytes(content)
        found.append(refuses(lambda: cifar10(folder / "a", "test"), "test_batch.bin"))
        last = {b"data": pixels[2:].reshape(2, -1), b"labels": labels[2:].tolist()}
        store = io.BytesIO()
        np.savez(store, coded=coded[:, 2:], labels=labels[2:])
        tests = {
            "a/cifar10/cifar-10-batches-bin/test_batch.bin": records[2:].tobytes(),
            "b/cifar-10/cifar-10-batches-py/test_batch": pickle.dumps(last, 2),
            "c/cifar10-test.npz": store.getvalue(),
        }
        for file, content in tests.items():
            (folder / file).write_bytes(content)
        for place, order in (("a", [0, 1, 2, 3, 0, 1]), ("b", [0, 1, 2, 3]), ("c", [0, 1, 2, 3])):
            for split, kept in (("train", order), ("test", [2, 3])):
                told = cifar10(folder / place, split)  # type: ignore[arg-type]
                label = f"{split}, {place}"
                found.append(compare(told[0].double(), "==", scale * pixels[kept], f"photographs, {label}"))
                found.append(same(told[1].numpy(), labels[kept].astype(np.int64), f"their labels, {label}", scale))
        (folder / "a/cifar10/cifar-10-batches-bin/data_batch_2.bin").write_bytes(records.tobytes()[:-1])
        found.append(refuses(lambda: cifar10(folder / "a"), "not a multiple of 3073"))
        batch[b"labels"] = labels.tolist()[:3]
        (folder / "b/cifar-10/cifar-10-batches-py/data_batch_1").write_bytes(pickle.dumps(batch, 2))
        found.append(refuses(lambda: cifar10(folder / "b"), "for 3 labels"))
        (folder / "b/cifar-10/cifar-10-batches-py/data_batch_1").write_bytes(pickle.dumps({b"data": Path()}, 2))
        found.append(refuses(lambda: cifar10(folder / "b"), "which no batch of images needs"))
        found += _rating_sets(folder, scale)
    return [*found, *_lying(scale)]


def _lying(scale: float) -> list[Comparison]:
    """Every set in each of the folders that it may lie in, and in the folder of the caller itself."""
    found: list[Comparison] = []
    digit = {"train-images-idx3-ubyte": np.zeros((3, 28, 28), np.uint8)}
    photographs = ("", "cifar-10-batches-bin", "cifar-10-batches-py")
    sets: tuple[tuple[Any, tuple[str, ...]], ...] = (
        (mnist, ("mnist", "MNIST/raw", ".")),
        (fashion_mnist, ("fashion-mnist", "fashion_mnist", "FashionMNIST/raw", ".")),
        (
            cifar10,
            tuple(f"{name}/{inner}" for name in ("cifar10", "cifar-10", "CIFAR10", ".") for inner in photographs),
        ),
        (jester, ("jester", "Jester", ".")),
        (partial(movielens, "ml-100k"), ("movielens/ml-100k", "MovieLens/ml-100k", "ml-100k")),
        (partial(movielens, "ml-10m"), ("movielens/ml-10M100K", "MovieLens/ml-10m", "ml-10M100K", "ml-10m")),
    )
    for call, folders in sets:
        for number, name in enumerate(folders):
            labels = np.array([number, 1, 7], np.uint8)
            pixels = np.concatenate([labels[:, None], np.zeros((3, 3072), np.uint8)], 1)
            files: dict[str, bytes] = {file: _idx(images) for file, images in digit.items()}
            files |= {"train-labels-idx1-ubyte": _idx(labels), "data_batch_3.bin": pixels.tobytes()}
            files |= {"jester-data-1.csv": f"2,99,{number},1\n1,7,99,99\n".encode()}
            files |= {"u.data": f"{number}\t1\t7\t0\n".encode(), "ratings.dat": f"{number}::1::7::0\n".encode()}
            with tempfile.TemporaryDirectory() as root:
                (Path(root) / name).mkdir(parents=True, exist_ok=True)
                for file, content in files.items():
                    (Path(root) / name / file).write_bytes(content)
                told = call(folder=root)
            if isinstance(told, Ratings):
                numbers = [*told.users, *told.items, *told.values]
                wanted = [0, 0, 1, 1, 2, 0, number, 1, 7] if call is jester else [number, 1, 7]
            else:
                numbers, wanted = told[1].tolist(), labels.tolist()
            found.append(compare(numbers, "==", scale * np.array(wanted, float), f"what lies in {name}"))
    with tempfile.TemporaryDirectory() as root:  # two sets have a file of this name: its folder tells which it is
        for name, sets_told in (("ml-1m", ["ml-1m"]), ("ml-10m", ["ml-10m"]), ("ml-10M100K", ["ml-10m"]), ("x", [])):
            (Path(root) / name).mkdir()
            (Path(root) / name / "ratings.dat").write_text("5::1::7::0\n", encoding="utf-8")
            for title in ("ml-1m", "ml-10m"):
                call = partial(movielens, title, Path(root) / name)
                if title in sets_told:
                    found.append(compare([*call().users], "==", [scale * 5.0], f"{title} in {name} itself"))
                else:
                    found.append(refuses(call, f"MovieLens {title}: no file", f"no {title} in {name}"))
    return found


def _rating_sets(folder: Path, scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    films = folder / "movielens"
    for number, (file, mark, name, place) in enumerate(
        (
            ("u.data", "\t", "ml-100k", "ml-100k"),
            ("ratings.dat", "::", "ml-1m", "ml-1m"),
            ("ratings.dat", "::", "ml-10m", "ml-10M100K"),
        )
    ):
        (films / place).mkdir(parents=True)
        rows = NUMBERED[number:]  # each set its own
        text = "\n".join(mark.join((str(u), str(i), str(v), "88")) for u, i, v in rows)
        (films / place / file).write_text(text, encoding="utf-8")
        (folder / "arrays").mkdir(exist_ok=True)
        users, items, values = (np.array(part) for part in zip(*rows, strict=True))
        np.savez(folder / "arrays" / f"{name}.npz", users=users, items=items, ratings=values, timestamps=values)
        for where in (folder, films / place, folder / "arrays"):
            told = movielens(name, where)
            found.append(same(told.users, users, f"users of {name}", scale))
            found.append(same(told.items, items, f"films of {name}", scale))
            found.append(compare(told.values, "==", scale * values, f"{name}"))
    found.append(refuses(lambda: movielens("ml-10m", films / "ml-1m"), "MovieLens ml-10m"))
    found.append(refuses(lambda: movielens("ml-2m", folder), "name must be one of"))
    table = np.array([[2, 99, 3.5, -1.25], [0, 99, 99, 99], [3, 1.0, 2.0, 9.5]])
    (folder / "jester").mkdir()
    file_ = folder / "jester" / "jester-data-1.csv"
    file_.write_text("\n".join(",".join(map(str, row)) for row in table), encoding="utf-8")
    (folder / "sheet").mkdir()
    (folder / "sheet" / "jester-data-1.xls").touch()
    sheet = SimpleNamespace(nrows=3, row_values=lambda row: table[row].tolist())
    book = SimpleNamespace(open_workbook=lambda _: SimpleNamespace(sheet_by_index=[sheet].__getitem__))
    with mock.patch.dict(sys.modules, {"xlrd": book}):
        both = jester(folder), jester(folder / "sheet")
    for jokes in both:
        who = [*jokes.users, *jokes.items]
        found.append(same(who, [0, 0, 2, 2, 2, 1, 2, 0, 1, 2], "who rated which joke", scale))
        found.append(compare(jokes.values, "==", scale * np.array([3.5, -1.25, 1, 2, 9.5]), "ratings of jokes"))
    for text, words in (
        ("1,99,3.5,2.0\n", "line 1: 2 ratings, its first field says 1"),
        ("1,99,3.5\n1,99\n", "line 2: 2 fields where line 1 has 3"),
        ("1,99,a\n", "line 1: not all"),
        ("", "is empty"),
    ):
        file_.write_text(text, encoding="utf-8")
        found.append(refuses(lambda: jester(folder), words))
    np.savez(folder / "jester-1.npz", users=[1, 2], items=[3, 4], ratings=[0.5, 1.5], timestamps=[7, 8])
    file_.unlink()
    stored = jester(folder)
    told_ = [*stored.users, *stored.items, *stored.values, *(stored.times if stored.times is not None else [])]
    found.append(compare(told_, "==", scale * np.array([1, 2, 3, 4, 0.5, 1.5, 7, 8]), "arrays with times"))
    return found


def planted(scale: float) -> list[Comparison]:
    """Planted ratings have the rank, noise and activity that were asked for; splits share them out."""
    found: list[Comparison] = []
    flat = planted_ratings((30, 20, 200), rank=1, noise=0.0, seed=4)
    cells = flat.users.astype(int) * 20 + flat.items
    found.append(compare(len(set(cells.tolist())), "==", scale * 200, "distinct pairs"))
    table = {(int(u), int(i)): float(v) - 3.5 for u, i, v in zip(flat.users, flat.items, flat.values, strict=True)}
    minors = [
        table[a] * table[b] - table[a[0], b[1]] * table[b[0], a[1]]
        for a, b in itertools.combinations(table, 2)
        if a[0] < b[0] and a[1] != b[1] and (a[0], b[1]) in table and (b[0], a[1]) in table
    ]
    found.append(compare(np.abs(minors).max(), "<=", scale * 1e-5, "minors of a matrix of rank one", precision=0.0))
    for rank in (2, 3):
        few = planted_ratings((6, 400, 1200), rank=rank, noise=0.0, seed=6, activity=(0.0, 0.0))
        full = np.full((6, 400), np.nan)
        full[few.users, few.items] = few.values.astype(np.float64) - 3.5
        block = full[:4][:, ~np.isnan(full[:4]).any(0)]  # the items that the first four users all rated
        values = np.linalg.svd(block, compute_uv=False)
        # single precision leaves 1e-7 or so of each rating
        found.append(compare((values > 1e-5).sum(), "==", scale * rank, f"rank of {block.shape[1]} common items"))
    size = (4000, 4000, 80000)
    wide = planted_ratings(size, rank=20, noise=0.0, seed=5, activity=(0.5, 0.0))
    noisy = planted_ratings(size, rank=20, noise=0.8, seed=5, activity=(0.5, 0.0))
    # standard errors: 1 % of the variance of inner products (norms of 20 factors of some 1,800 users of like weight,
    # and 80,000 draws), 0.5 % of that of the noise; tolerances are 4.5 of them
    spread = float(np.var(wide.values.astype(np.float64)))
    found.append(compare(spread, "==", scale * 0.5, "variance of inner products", precision=0.022))
    noise = float(np.var(noisy.values.astype(np.float64) - wide.values))
    found.append(compare(noise, "==", scale * 0.64, "variance of the noise", precision=0.015))
    powers = np.arange(1, 4001) ** -0.5
    share = powers[:400].sum() / powers.sum()
    often = planted_ratings(size, rank=1, seed=7, activity=(0.0, 0.5))
    for name, ids, others in (("users", wide.users, wide.items), ("items", often.items, often.users)):
        counts = np.sort(np.bincount(ids, minlength=4000))[::-1]
        told = counts[:400].sum() / 80000
        found.append(compare(told, "==", scale * share, f"share of the most active {name}", precision=0.02))
        alike = np.bincount(others, minlength=4000)
        # counts of equal chances are Poisson: variance over mean is 1, with a standard error of sqrt(2 / 4000)
        found.append(compare(alike.var() / alike.mean(), "==", scale, f"the others beside {name}", precision=0.09))
    found.append(refuses(lambda: planted_ratings((4, 5, 11)), "at most half of the 20 cells"))
    found.append(same(len(planted_ratings((4, 5, 10), seed=1)), 10, "half of the cells", scale))
    found.append(refuses(lambda: planted_ratings("ml-2m"), "or one of ml-100k"))
    return [*found, *_shared_out(scale)]


def _shared_out(scale: float) -> list[Comparison]:
    """Entries in the order of their ids, and parts of a split."""
    found: list[Comparison] = []
    lists: Any = (["b", "a", "b", "c", "a"], [3, 3, 1, 2, 1], [1.0, 2, 3, 4, 5])
    times: Any = [9.0, 8, 7, 6, 5]
    given = Ratings(lists[0], lists[1], lists[2], times)
    entries = given.entries(torch.float64)
    found.append(
        same([*entries.rows.tolist(), *entries.columns.tolist()], [1, 0, 1, 2, 0, 2, 2, 0, 1, 0], "sorted ids", scale)
    )
    found.append(compare(entries.values, "==", scale * np.array([1.0, 2, 3, 4, 5]), "their values"))
    found.append(same(tuple(entries.shape), (3, 3), "shape of the entries", scale))
    for holdout, held in ((0.3, 2), (0.05, 1), (0.95, 4), (0.5, 2)):
        kept, out = given.split(holdout, 3)
        found.append(same((len(kept), len(out)), (5 - held, held), f"parts of {holdout}", scale))
        both = sorted(zip([*kept.values, *out.values], [*kept.times, *out.times], strict=True))  # type: ignore[misc]
        found.append(same(both, [(1.0, 9.0), (2.0, 8.0), (3.0, 7.0), (4.0, 6.0), (5.0, 5.0)], "every rating", scale))
        for part in (kept, out):
            places = (part.values - 1).astype(int)  # the values number the ratings
            rows = [lists[0][place] + str(lists[1][place]) for place in places]
            told_rows = [f"{user}{item}" for user, item in zip(part.users, part.items, strict=True)]
            found.append(same((told_rows, places.tolist()), (rows, sorted(places)), "whole and in their order", scale))
    held_out = [given.split(0.4, seed)[1].values for seed in range(100)]
    # each of five ratings is held out in 40 of 100 splits, with a standard deviation of 4.9; five of them
    often_held = np.bincount(np.concatenate(held_out).astype(int), minlength=6)[1:]
    found.append(compare(np.abs(often_held - scale * 40).max(), "<=", 25, "how often each is held out"))
    found.append(same(given.split(0.4, 7)[1].values.tolist(), held_out[7].tolist(), "the same seed again", scale))
    for wrong in (0.0, 1.0, math.nan):
        found.append(refuses(lambda wrong=wrong: given.split(wrong, 0), "strictly between 0 and 1"))
    found.append(refuses(lambda: given.take(np.array([0])).split(0.5, 0), "at least two"))
    found.append(
        refuses(lambda: Ratings(*(part[:n] for part, n in zip(lists, (2, 1, 2), strict=True))), "got 2, 1 and 2")
    )
    for wrong_times in (times[:4], [*times, 4.0]):
        words = f"times must have one entry per rating, got {len(wrong_times)} for 5"
        found.append(refuses(lambda odd=wrong_times: Ratings(lists[0], lists[1], lists[2], odd), words))
    return found
