"""Members of an archive are weighed together before they are written."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from droptics.files import limits
from droptics.files.archives import unpack


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
