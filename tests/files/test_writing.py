"""Writing: whole or not at all, through what is no file, as the umask says, with nothing left over."""

import os
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from systems import linux, posix

from droptics.files import check_folder, check_target, replacing, write_text
from droptics.files.arrays import read_safetensors, write_arrays, write_tensors


def _break_off(path):
    with replacing(path) as partial:
        partial.write_text("new, unfin")
        raise RuntimeError("half way")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "new" / "page.html"
    write_text(path, "old")
    with pytest.raises(RuntimeError, match="half way"):
        _break_off(path)
    assert path.read_text() == "old"
    write_text(path, "new")
    assert path.read_text() == "new"
    assert [item.name for item in path.parent.iterdir()] == ["page.html"], "nothing is left beside it"
    plain = tmp_path / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode, "readable by whom the user's settings allow"


@linux
def test_what_is_no_regular_file_is_written_through(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    heard = []
    reader = threading.Thread(target=lambda: heard.append(pipe.read_text()))
    reader.start()
    write_text(pipe, "through")
    reader.join(10)
    assert heard == ["through"]
    assert pipe.is_fifo(), "it is still what it was"
    write_text("/dev/null", "gone")
    assert Path("/dev/null").is_char_device()
    with pytest.raises(OSError, match="No space left"):
        write_text("/dev/full", "x" * 10)
    assert Path("/dev/full").is_char_device()


@posix
def test_links_are_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "there")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there").read_text() == "text"


@posix
def test_names_may_be_as_long_as_the_file_system_allows(tmp_path):
    for name in ("\u5831" * 80 + ".txt", "x" * 251 + ".txt", "a." + "b" * 253):
        write_text(tmp_path / name, "text")
        assert (tmp_path / name).read_text() == "text"


@linux
@pytest.mark.skipif(not os.access("/dev/shm", os.W_OK), reason="no folder in memory")
def test_files_in_memory_are_replaced_like_any_other():
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        path, other = Path(folder) / "page.html", Path(folder) / "old.html"
        write_text(path, "old")
        os.link(path, other)  # shows whether the old file was written into
        write_text(path, "new")
        assert (path.read_text(), other.read_text()) == ("new", "old")
        with pytest.raises(ValueError, match="must end in"):
            check_target(path, ".png")


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
@posix
def test_modes_follow_the_umask(tmp_path, mask):
    before = os.umask(mask)
    try:
        write_text(tmp_path / "page.html", "text")
        write_tensors(tmp_path / "model.safetensors", {"a": torch.ones(2)})
        write_arrays(tmp_path / "arrays.safetensors", {"a": np.ones(2)})
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o666 & ~mask}
    (tmp_path / "page.html").chmod(0o640)
    write_text(tmp_path / "page.html", "again")
    assert stat.S_IMODE((tmp_path / "page.html").stat().st_mode) == 0o640, "a file that is there keeps its mode"


def test_left_over_partial_files_are_swept_and_no_others(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    with replacing(tmp_path / "ours.json") as partial:
        mine = partial.name
    owner = mine.removeprefix(".ours.").removesuffix(".partial.json")
    machine, process, token = owner.split("-")
    assert int(process) == os.getpid()
    names = {
        "dead": f".ours.{machine}-{ended.pid}-{token}.partial.json",
        "alive": mine,
        "elsewhere": f".ours.00000000-{ended.pid}-{token}.partial.json",
        "old": f".theirs.00000001-{ended.pid}-{token}.partial",
        "beyond": f".ours.{machine}-{10**20}-{token}.partial.json",  # a number that no process has
        "foreign": ".notes.partial",
        "plain": "ours.partial.json",
    }
    for name in names.values():
        (tmp_path / name).write_text("part")
    os.utime(tmp_path / names["old"], (0, 0))
    write_text(tmp_path / "ours.json", "whole")
    left = {key for key, name in names.items() if (tmp_path / name).exists()}
    assert left == {"alive", "elsewhere", "foreign", "plain"}


@pytest.mark.parametrize(
    "write",
    [
        lambda path: write_text(path, "x" * 100_000),
        lambda path: write_tensors(path, {"a": torch.zeros(10_000)}),
        lambda path: write_arrays(path, {"a": np.zeros(10_000)}),
    ],
    ids=["text", "tensors", "arrays"],
)
@posix
def test_a_full_disk_leaves_the_old_file(tmp_path, write):
    import resource

    path = tmp_path / "file.safetensors"
    write_tensors(path, {"a": torch.zeros(3)})
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(OSError, match="large"):
            write(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


@posix
def test_targets_are_judged_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path, message in (
        (tmp_path / "folder", "is a folder"),
        (tmp_path / "file" / "x", "is a file"),
        (tmp_path / "new" / "x.pt", "must end in"),
    ):
        with pytest.raises(ValueError, match=message):
            check_target(path, ".safetensors" if path.suffix else "")
    with pytest.raises(ValueError, match="is a file"):
        check_folder(tmp_path / "file")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for check in (check_target, check_folder):
        with pytest.raises(ValueError, match="leads back to itself"):
            check(tmp_path / "circle")
        with pytest.raises(ValueError, match="leads back to itself"):
            check(tmp_path / "circle" / "far" / "away")
        with pytest.raises(ValueError, match="home folder"):
            check("~nobody-of-this-name/x")
    assert check_target("/dev/null", ".safetensors") == Path("/dev/null")
    assert check_target(tmp_path / "a" / "b" / "x.safetensors", ".safetensors")
    assert not (tmp_path / "a").exists(), "asking makes nothing"
    monkeypatch.setattr(os, "access", lambda *_: False)  # whoever may do everything has no other way to see it
    for path in (tmp_path / "file", tmp_path / "new"):
        with pytest.raises(ValueError, match="may not be written"):
            check_target(path)


def test_two_processes_on_one_file(tmp_path):
    """Writers that replace the same file at the same time: a reader sees one of their texts, whole."""
    path = tmp_path / "shared.txt"
    code = (
        "import sys; from droptics.files import write_text\n"
        "for _ in range(200): write_text(sys.argv[1], sys.argv[2] * 5000)"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, str(path), letter]) for letter in "ab"]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            seen.add(path.read_text())
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen <= {"a" * 5000, "b" * 5000}
    assert [item.name for item in tmp_path.iterdir()] == ["shared.txt"]


def test_the_same_content_gives_the_same_bytes(tmp_path):
    """The library behind it orders texts by a hash that is drawn anew for every file."""
    tensors = {"b": torch.arange(6.0), "a": torch.ones(2, 3)}
    texts = {name: f'{name} "\\\n\t\x01\x7fé😀' for name in ("state", "format", "z", "facts", "a")}
    for i in range(12):
        write_tensors(tmp_path / f"{i}.safetensors", tensors, texts)
    assert len({path.read_bytes() for path in tmp_path.glob("*.safetensors")}) == 1
    read, found = read_safetensors(tmp_path / "0.safetensors")
    assert found == texts
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)
