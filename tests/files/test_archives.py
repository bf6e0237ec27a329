"""Members of an archive are weighed together before they are written."""

from __future__ import annotations

import copy
import io
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from droptics.files import limits
from droptics.files.archives import is_plain, unpack, zip_members


@pytest.mark.parametrize("mode", ["gz", "bz2", "xz"])
def test_sizes_of_members_are_added(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    packed = tmp_path / "packed"
    with tarfile.open(packed, f"w:{mode}") as archive:  # type: ignore[call-overload]
        for name in ("one", "two", "three"):
            info = tarfile.TarInfo(name)
            info.size = 50_000
            archive.addfile(info, io.BytesIO(bytes(50_000)))
    assert [path.name for path in unpack(packed, tmp_path / "all", lambda _: True)] == ["one", "two", "three"]
    monkeypatch.setattr(limits, "FREE", 149_000)
    monkeypatch.setattr(limits, "RATIO", 1)
    with pytest.raises(ValueError, match="would unpack to 150,000 bytes"):
        unpack(packed, tmp_path / "more", lambda _: True)
    assert not (tmp_path / "more" / "three").exists()


@pytest.mark.skipif(os.name != "posix", reason="links need a permission there")
def test_a_link_that_stands_in_the_folder_does_not_lead_members_out_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a").symlink_to(tmp_path)
    with zipfile.ZipFile(tmp_path / "packed", "w") as archive:
        archive.writestr("a/b", b"one")
    with pytest.raises(ValueError, match=r"'a/b', which points outside"):
        unpack(tmp_path / "packed", folder, lambda _: True)
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("a", True),
        ("a/b.c/d-e_f", True),
        ("a..b/c...", True),
        ("../a", False),
        ("a/../b", False),
        ("a/..", False),
        ("..", False),
        ("./a", False),
        ("a/./b", False),
        ("/a", False),
        ("a//b", False),
        ("a\\b", False),
        ("\u00e4", False),
        ("", False),
    ],
)
def test_members_lie_below_their_archive(name: str, plain: bool, tmp_path: Path) -> None:
    assert is_plain(name) == plain
    if not name:
        return
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as packed:
        packed.writestr(name, b"x")
    if plain:
        with zip_members(tmp_path / "a.zip") as (_, members):
            assert list(members) == [name]
        return
    with pytest.raises(ValueError, match="not plain"), zip_members(tmp_path / "a.zip"):
        pass


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_members_that_overlap_are_refused_however_small_they_are(tmp_path: Path, size: int) -> None:
    with zipfile.ZipFile(tmp_path / "packed", "w") as archive:
        archive.writestr("a", bytes(size))
        archive.writestr("c", b"more")
        again = copy.copy(archive.filelist[0])  # a second name for the same bytes
        again.filename = again.orig_filename = "b"
        archive.filelist.append(again)
    with pytest.raises(ValueError, match="members that overlap"), zip_members(tmp_path / "packed"):
        pass
    with zipfile.ZipFile(tmp_path / "packed", "w") as archive:
        for name in ("a", "b", "folder/", "folder/c"):
            archive.writestr(name, bytes(size) if name[-1] != "/" else b"")
    with zip_members(tmp_path / "packed") as (_, members):
        assert sorted(members) == ["a", "b", "folder/c"]


def test_a_member_that_reaches_into_the_list_of_members_is_refused(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "packed", "w") as archive:
        archive.writestr("a", b"one")
        archive.filelist[0].compress_size += 1000
    with pytest.raises(ValueError, match="members that overlap"), zip_members(tmp_path / "packed"):
        pass
