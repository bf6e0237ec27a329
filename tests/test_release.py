"""What makes a release: the changelog's entry of a version, and an sdist that shows nothing of who packed it when."""

import io
import tarfile

import pytest

import release_notes
from reproducible_build import normal

CHANGELOG = "# Changelog\n\nText.\n\n## Unreleased\n\n- new\n\n## 0.2.0 (2026)\n\n- two\n  lines\n\n## 0.1.0\n\n- old\n"


def test_entry_of_a_version_is_what_stands_below_its_heading():
    assert release_notes.entry(CHANGELOG, "0.2.0") == "- two\n  lines"
    assert release_notes.entry(CHANGELOG, "0.1.0") == "- old"
    assert release_notes.entry(CHANGELOG, "0.2") == ""


def test_another_version_than_the_declared_one_is_refused():
    with pytest.raises(SystemExit, match=r"pyproject\.toml says"):
        release_notes.main("v0.0.0")


def packed(path, names, date, owner, mode):
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.uname, member.mode = len(name), date, owner, mode
            archive.addfile(member, io.BytesIO(name.encode()))
    return path


def test_order_dates_owners_and_rights_leave_no_trace(tmp_path):
    one = packed(tmp_path / "one.tar.gz", ("p/a", "p/b"), 1_000, "ann", 0o600)
    other = packed(tmp_path / "other.tar.gz", ("p/b", "p/a"), 2_000, "bob", 0o664)
    assert one.read_bytes() != other.read_bytes()
    assert normal(one, 5_000) == normal(other, 5_000)
    with tarfile.open(fileobj=io.BytesIO(normal(one, 5_000))) as archive:
        assert [(member.name, member.mtime) for member in archive] == [("p/a", 5_000), ("p/b", 5_000)]
        assert archive.extractfile("p/b").read() == b"p/b"
