"""What claims on files compare: what is written beside what is read, and files that lie about themselves."""

from __future__ import annotations

import copy
import gzip
import io
import json
import os
import pickle
import stat
import tarfile
import tempfile
import threading
import time
import warnings
import zipfile
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from droptics.evidence.claims import Comparison, compare
from droptics.files import check_folder, check_target, limits, replacing, write_text
from droptics.files.archives import is_plain, unpack, zip_members
from droptics.files.arrays import read_npy, read_npz, read_numpy_tensors, read_tensors, write_arrays, write_tensors
from droptics.files.limits import allowance, check_regular, check_unpacked, opened
from droptics.papers.droptics_own.telling import fails, refuses, same
from droptics.papers.instances import normal


def written_files(scale: float) -> list[Comparison]:
    """Files are replaced whole or not at all, keep mode and link, and what dead writers left is swept."""
    found: list[Comparison] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        target = folder / "inner" / "text.txt"
        write_text(target, "a\nb\n")
        for long in ("\u00e9" * 120 + ".txt", "a." + "b" * 200):
            write_text(folder / "long" / long, long)
            told_back = (folder / "long" / long).read_text(encoding="utf-8")
            found.append(same(told_back, long, f"a name of {len(long)} letters", scale))
        found.append(same(target.read_bytes(), b"a\nb\n", "a text", scale))
        try:
            with replacing(target) as partial:
                partial.write_text("half", encoding="utf-8")
                found.append(same(target.read_bytes(), b"a\nb\n", "the old file while another is written", scale))
                raise RuntimeError
        except RuntimeError:
            pass
        found.append(same(target.read_bytes(), b"a\nb\n", "the old file after a failure", scale))
        found.append(same([item.name for item in target.parent.iterdir()], ["text.txt"], "nothing else", scale))
        if os.name == "posix":
            found += _swept(folder, target, scale)
        found.append(same(check_target(folder / "new" / "a.png", ".png"), folder / "new" / "a.png", "a target", scale))
        found.append(refuses(lambda: check_target(folder / "a.txt", ".png"), "--out must end in .png"))
        found.append(refuses(lambda: check_target(folder), "is a folder; name a file"))
        found.append(refuses(lambda: check_target(target / "x"), "is a file; name another place"))
        found.append(refuses(lambda: check_folder(target, "--here"), "--here"))
        found.append(same(check_folder(folder / "far" / "away"), folder / "far" / "away", "a folder to be made", scale))
        for size, packed, room in ((0, 0, 1 << 28), (1, 10**7, 10**9), (1, 1 << 21, 1 << 28)):
            found.append(same(allowance(packed), room, f"what {packed} bytes may unpack to {size}", scale))
        check_unpacked(folder, 1 << 28, 5)
        found.append(refuses(lambda: check_unpacked(folder, (1 << 28) + 1, 5), "refused as a bomb"))
        found.append(refuses(lambda: check_regular(folder), "is a folder, not a file"))
        found.append(refuses(lambda: check_regular(folder / "no"), "does not exist"))
        found += _packed(folder, scale)
    return found


def _swept(folder: Path, target: Path, scale: float) -> list[Comparison]:
    """Links, modes, streams, and the partial files of writers that are gone."""
    found: list[Comparison] = []
    target.chmod(0o640)
    (folder / "link.txt").symlink_to(target)
    with replacing(folder / "link.txt") as partial:
        owner, end = partial.name.split(".")[-3:-1]
        found.append(same(partial.suffix, ".txt", "the suffix of a partial file", scale))
        found.append(same((partial.parent, end), (target.parent, "partial"), "its place", scale))
        partial.write_text("new", encoding="utf-8")
    machine, process, _ = owner.split("-")
    found.append(compare(int(process), "==", scale * os.getpid(), "whose it is"))
    found.append(
        same((target.read_text(encoding="utf-8"), (folder / "link.txt").is_symlink()), ("new", True), "a link", scale)
    )
    found.append(same(stat.S_IMODE(target.stat().st_mode), 0o640, "the mode", scale))
    other = "0" * 8 if machine != "0" * 8 else "1" * 8
    old = time.time() - 25 * 3600
    cases = {
        f".x.{machine}-{1 << 22}-{'a' * 8}.partial.txt": True,  # no process has that number
        f".v.{machine}-{10**20}-{'a' * 8}.partial.txt": True,  # nor that
        f".x.{machine}-{os.getpid()}-{'a' * 8}.partial.txt": False,
        f".x.{other}-1-{'a' * 8}.partial": True,
        f".y.{other}-1-{'b' * 8}.partial": False,
        f".z.{other}-1-{'b' * 8}.partial": False,
        "x.partial": False,
    }
    for file in cases:
        (folder / file).touch()
        if not file.startswith(".y"):
            when = old + 2 * 3600 * file.startswith(".z")  # 23 hours ago, where the limit is a day
            os.utime(folder / file, (when, when))
    write_text(folder / "sweep.txt", "")
    for file, gone in cases.items():
        found.append(same(not (folder / file).exists(), gone, f"swept: {file.split('.')[1]} {gone}", scale))
    foreign = folder / f".x.{machine}-{os.getpid()}-{'c' * 8}.partial.txt"
    foreign.touch()
    for problem, gone in ((PermissionError, False), (ProcessLookupError, True)):  # of another user, and of nobody
        with mock.patch.object(os, "kill", side_effect=problem):
            write_text(folder / "sweep.txt", "")
        found.append(same(not foreign.exists(), gone, f"swept: {problem.__name__}", scale))
    with replacing(folder / "own.txt") as partial:  # a writer that makes a new file, readable by its owner alone
        partial.unlink()
        os.close(os.open(partial, os.O_CREAT, 0o600))
    (folder / "plain").touch()
    modes = [stat.S_IMODE((folder / file).stat().st_mode) for file in ("own.txt", "plain")]
    found.append(same(modes[0], modes[1], "the mode of a new file", scale))
    found += _through(folder, scale)
    (folder / "circle").symlink_to(folder / "circle")
    found.append(refuses(lambda: check_target(folder / "circle"), "leads back to itself"))
    found.append(refuses(lambda: check_folder(folder / "circle"), "leads back to itself"))
    for call in (check_target, check_folder):
        below = folder / "circle" / "far" / "away"
        found.append(refuses(lambda call=call, below=below: call(below), "leads back to itself"))
    if os.access("/dev/shm", os.W_OK):
        found += _in_memory(scale)
    found.append(same(check_target("/dev/null", ".png"), Path("/dev/null"), "a stream needs no suffix", scale))
    found.append(refuses(lambda: check_regular(Path("/dev/null")), "not a regular file"))
    return found


def _in_memory(scale: float) -> list[Comparison]:
    """A file in memory, below /dev, is replaced and needs its suffix like any other."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        path, old = Path(name) / "a.txt", Path(name) / "old.txt"
        write_text(path, "old")
        os.link(path, old)
        write_text(path, "new")
        texts = path.read_text(encoding="utf-8"), old.read_text(encoding="utf-8")
        found = [same(texts, ("new", "old"), "a file in memory", scale)]
        return [*found, refuses(lambda: check_target(path, ".png"), "must end in .png")]


def _through(folder: Path, scale: float) -> list[Comparison]:
    """What is no regular file is written through; what may not be written is said before."""
    found: list[Comparison] = []
    os.mkfifo(folder / "pipe.png")
    heard: list[str] = []
    reader = threading.Thread(target=lambda: heard.append((folder / "pipe.png").read_text(encoding="utf-8")))
    reader.start()
    write_text(folder / "pipe.png", "through")
    reader.join(10)
    found.append(same((heard, (folder / "pipe.png").is_fifo()), (["through"], True), "a pipe", scale))
    found.append(same(check_target(folder / "pipe.png", ".txt"), folder / "pipe.png", "a pipe needs no suffix", scale))
    with mock.patch.object(os, "access", return_value=False):  # whoever may do everything sees it in no other way
        for call in (check_target, check_folder):
            for place in (folder / "sweep.txt", folder / "far" / "away"):
                if call is check_target or place.name == "away":
                    found.append(refuses(lambda call=call, place=place: call(place), "may not be written"))
    return found


def _packed(folder: Path, scale: float) -> list[Comparison]:
    """Packed texts line by line and whole, and one that never ends."""
    found: list[Comparison] = []
    content = b"".join(b"%d line\n" % number for number in range(500))
    for name in ("plain.txt", "packed.GZ"):
        path = folder / name
        path.write_bytes(content if name == "plain.txt" else gzip.compress(content))
        with opened(path) as stream:
            first, rest = stream.readline(), stream.read()
        found.append(same(first + rest, content, f"bytes of {name}", scale))
        with opened(path) as stream:
            found.append(same(stream.read(7) + stream.readline(4), content[:11], f"pieces of {name}", scale))
            found.append(same((stream.tell(), stream.seek(3), stream.read(2)), (11, 3, content[3:5]), name, scale))
        with opened(path) as stream, io.TextIOWrapper(stream) as text:
            found.append(same(text.read().encode(), content, f"text of {name}", scale))
    most = gzip.compress(bytes(1 << 25), 1)
    (folder / "large.gz").write_bytes(most)
    with opened(folder / "large.gz") as stream:
        found.append(refuses(lambda: stream.read((1 << 24) + 1), "asks for a piece"))
        found.append(compare(len(stream.read()), "==", scale * (1 << 25), "as much as may be unpacked"))
    (folder / "bomb.gz").write_bytes(most + gzip.compress(b"0"))

    def unpacked() -> None:
        with opened(folder / "bomb.gz") as stream:
            stream.read()

    found.append(refuses(unpacked, "unpacks to more than 33,554,432 bytes"))
    # where less is free, 30 times a size that padding makes 7,000 bytes
    share = np.random.default_rng(1).bytes(6000)
    for more in (0, 1):
        packed = gzip.compress(share + bytes(30 * 7000 - len(share) + more), 9)
        (folder / "bomb.gz").write_bytes(packed.ljust(7000, b"\0"))
        with mock.patch.object(limits, "TEXT_FREE", 1000):
            found.append(compare(fails(unpacked, ValueError), "==", scale * more, f"30 times its size and {more}"))
    (folder / "broken.gz").write_bytes(gzip.compress(content)[:-5])

    def broken() -> None:
        with opened(folder / "broken.gz") as stream:
            stream.read()

    found.append(refuses(broken, "cannot be read"))
    return found


def _zip(path: Path, members: dict[str, bytes], **more: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with zipfile.ZipFile(path, "w", more.pop("kind", zipfile.ZIP_STORED)) as archive:
            for name, content in members.items():
                info = zipfile.ZipInfo(name.rstrip("?"))
                info.external_attr = more.get("mode", 0o100644) << 16
                info.compress_type = archive.compression
                archive.writestr(info, content)
    return path


def _members(path: Path, stored: bool = False) -> dict[str, bytes]:
    with zip_members(path, stored=stored) as (archive, members):
        return {name: archive.read(info) for name, info in members.items()}


def archives(scale: float) -> list[Comparison]:
    """Members of zip and tar archives come out whole; what climbs, links, overlaps or repeats is refused."""
    found: list[Comparison] = []
    content = {"a/b.txt": b"one", "c.bin": bytes(range(256)), "deep/er/d.txt": b""}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.path.realpath(name))
        packed = _zip(folder / "one.zip", content | {"empty/": b""}, kind=zipfile.ZIP_DEFLATED)
        found.append(same(_members(packed), content, "members of a zip file", scale))
        found.append(same(len(_members(packed)["c.bin"]), 256, "bytes of a member", scale))
        found.append(refuses(lambda: _members(packed, True), "packed member"))
        plain = _zip(folder / "two.zip", content)
        found.append(same(_members(plain, True), content, "members that are stored", scale))
        for bad, words in (
            ({"../x": b""}, "not plain"),
            ({"/x": b""}, "not plain"),
            ({"x/./y": b""}, "not plain"),
            ({"\u00e9": b""}, "not plain"),
            ({"a.txt": b"", "A.TXT": b""}, "twice"),
        ):
            found.append(refuses(lambda bad=bad: _members(_zip(folder / "bad.zip", bad)), words))
        link = _zip(folder / "bad.zip", {"x": b"y"}, mode=0o120777)
        found.append(refuses(lambda: _members(link), "holds the link"))
        raw = bytearray(plain.read_bytes())
        raw[raw.index(b"PK\x01\x02") + 8] |= 1
        raw[6] |= 1
        (folder / "bad.zip").write_bytes(raw)
        found.append(refuses(lambda: _members(folder / "bad.zip"), "encrypted"))
        found.append(refuses(lambda: unpack(folder / "bad.zip", folder / "out", lambda _: True), "encrypted"))
        for size in (1, 1000):
            with zipfile.ZipFile(folder / "bad.zip", "w") as archive:
                archive.writestr("a", bytes(size))
                again = copy.copy(archive.filelist[0])  # a second name for the same bytes
                again.filename = again.orig_filename = "b"
                archive.filelist.append(again)
            found.append(refuses(lambda: _members(folder / "bad.zip"), "members that overlap"))
        (folder / "bad.zip").write_bytes(b"PK nothing")
        found.append(refuses(lambda: _members(folder / "bad.zip"), "cannot be read as an archive"))
        for text, plain_name in (("a-b/c.d_e+f=", True), ("a//b", False), ("a/", False), ("..", False), ("a b", True)):
            found.append(same(is_plain(text), plain_name, f"plain: {text}", scale))
        kinds = {"w": "tar", "w:gz": "tgz", "w:bz2": "tbz", "w:xz": "txz"}
        paths = [packed]
        for mode, suffix in kinds.items():
            with tarfile.open(folder / f"three.{suffix}", mode) as archive:  # type: ignore[call-overload]
                for file, data in content.items():
                    info = tarfile.TarInfo(file)
                    info.size = len(data)
                    archive.addfile(info, io.BytesIO(data))
                shortcut = tarfile.TarInfo("shortcut.txt")
                shortcut.type, shortcut.linkname = tarfile.SYMTYPE, "/etc/hostname"
                archive.addfile(shortcut)
            paths.append(folder / f"three.{suffix}")
        for path in paths:
            out = folder / f"out-{path.suffix}"
            written = unpack(path, out, lambda name: name.endswith(".txt"))
            found.append(
                same(sorted(written), [out / "a/b.txt", out / "deep/er/d.txt"], f"unpacked {path.name}", scale)
            )
            found.append(same((out / "a/b.txt").read_bytes(), b"one", f"content, {path.name}", scale))
        if os.name == "posix":
            found += _doors([folder / "three.tar", packed], folder / "door", scale)
        for bad_name in ("../x.txt", "/tmp/x.txt", "C:/x.txt", "a\\..\\..\\x.txt"):
            bad_zip = _zip(folder / "bad.zip", {bad_name: b"x"})
            found.append(
                refuses(lambda bad_zip=bad_zip: unpack(bad_zip, folder / "out", lambda _: True), "points outside")
            )
    return found


def _doors(paths: list[Path], folder: Path, scale: float) -> list[Comparison]:
    """A folder to unpack into that has a link of a member's name, which leads elsewhere in it or out of it."""
    found: list[Comparison] = []
    (folder / "room").mkdir(parents=True)
    for path in paths:
        call = partial(unpack, path, folder, "a/b.txt".__eq__)
        for way, leaves in ((folder / "room", False), (folder.parent, True)):
            (folder / "a").symlink_to(way)
            found.append(
                refuses(call, "points outside")
                if leaves
                else same(
                    (call(), (way / "b.txt").read_bytes()), ([folder / "a/b.txt"], b"one"), "a link inside", scale
                )
            )
            (folder / "a").unlink()
    return found


def arrays(scale: float) -> list[Comparison]:
    """Arrays of every kind, order, byte order and version are read as NumPy reads them; the rest is refused."""
    found: list[Comparison] = []
    table = normal(1, 3, 4).numpy()
    kinds: dict[str, Any] = {
        "rows": table,
        "columns": np.asfortranarray(table),
        "big": table.astype(">f8"),
        "one": np.float32(2.5),
        "none": np.zeros((0, 3)),
        "text": np.array(["a", "bcd"]),
        "truth": np.array([True, False]),
        "bytes": np.arange(7, dtype=np.uint8).reshape(7, 1),
        "complex": table[0] + 2j,
        "half": table.astype("<f2"),
        "turned": np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1),
        "cube": np.asfortranarray(np.arange(24.0).reshape(2, 3, 4)),
        "big_whole": np.arange(-3, 4, dtype=">i4"),
        "big_text": np.array(["a", "bcd"], dtype=">U3"),
        "big_complex": np.array([1 + 2j], dtype=">c8"),
        "letters": np.array([b"ab", b"c"]),
        "large": np.array([2**64 - 1], dtype=np.uint64),
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savez(folder / "a.npz", **kinds)
        np.savez_compressed(folder / "b.npz", **kinds)
        for file in ("a.npz", "b.npz"):
            told = read_npz(folder / file)
            found.append(same(list(told), list(kinds), f"names in {file}"))
            beside = np.load(folder / file)
            for key in kinds:
                wanted, label = beside[key], f"{key} of {file}"
                if wanted.dtype.kind == "f" and wanted.size:
                    found.append(compare(told[key], "==", scale * wanted.astype(float), label, precision=0.0))
                found.append(same(told[key], wanted, label))
                # the order of bytes is that of this machine
                own = (wanted.shape, wanted.dtype.newbyteorder("="))
                found.append(same((told[key].shape, told[key].dtype), own, f"type of {label}"))
        path = folder / "c.npy"
        for version in ((1, 0), (2, 0), (3, 0)):
            with path.open("wb") as stream:
                np.lib.format.write_array(stream, table, version=version)
            found.append(compare(read_npy(path), "==", scale * table, f"version {version}"))
        good = path.read_bytes()
        odd: tuple[Any, ...] = (
            np.array([None, 1], dtype=object),
            np.zeros(2, dtype=[("a", "<f4")]),
            np.zeros(2, dtype="V3"),
            np.array(["2020-01-01"], dtype="M8[D]"),
            np.array([3], dtype=">m8[s]"),
        )
        for value in odd:
            np.save(path, value, allow_pickle=True)
            found.append(refuses(lambda: read_npy(path), "objects and records are refused", f"refused, {value.dtype}"))
        for content, words in (
            (good[:-1], "where 95 follow"),
            (good + b"0", "where 97 follow"),
            (b"x" + good[1:], "is not an array"),
            (good[:6] + b"\x04" + good[7:], "is not an array"),
            (good.replace(b"<f8", b"|O8"), "objects and records are refused"),
            (good.replace(b"(3, 4)", b"(-3,-4)"), "which no array has"),
            (good.replace(b"'descr'", b"'decsr'"), "cannot be read"),
        ):
            path.write_bytes(content)
            found.append(refuses(lambda: read_npy(path), words))
        long = b"\x93NUMPY\x02\x00" + (10_001).to_bytes(4, "little") + b" " * 10_001
        path.write_bytes(long)
        found.append(refuses(lambda: read_npy(path), "a header of 10,001 bytes"))
        found.append(refuses(lambda: read_npz(folder / "a.npz", "rows", "absent"), "has no array 'absent'"))
        accented: dict[str, Any] = {"\u00e9": table}
        np.savez(folder / "d.npz", **accented)
        found.append(refuses(lambda: read_npz(folder / "d.npz"), "whose name is not plain"))
        _zip(folder / "d.npz", {"x.txt": b""})
        found.append(refuses(lambda: read_npz(folder / "d.npz"), "is not an array (.npy)"))
        (folder / "d.npz").write_bytes(pickle.dumps(3))
        found.append(refuses(lambda: read_npz(folder / "d.npz"), "not an archive of arrays"))
        texts = dict.fromkeys("qbxcy", "0") | {"z": "1", "a": "\u00e9", "m": "x" * 30}
        write_arrays(folder / "e.safetensors", {"rows": table, "turned": table.T}, texts)
        told, words_ = read_numpy_tensors(folder / "e.safetensors")
        found.append(compare(told["turned"], "==", scale * table.T, "an array that was turned"))
        found.append(same(words_, texts, "texts of a header"))
        raw = (folder / "e.safetensors").read_bytes()
        header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
        found.append(same(list(header["__metadata__"]), sorted(texts), "texts in their order"))
        write_tensors(folder / "f.safetensors", {"w": normal(2, 4, 3).mT.requires_grad_()})
        found.append(compare(read_tensors(folder / "f.safetensors")["w"], "==", scale * normal(2, 4, 3).mT, "tensors"))
        (folder / "f.safetensors").write_bytes(raw[:-9])
        found.append(refuses(lambda: read_tensors(folder / "f.safetensors"), "read as safetensors"))
    return found
