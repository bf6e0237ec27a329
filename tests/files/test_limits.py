"""Streams that unpack to more than they may are stopped, however they are read."""

import io
from pathlib import Path

import pytest
from systems import posix

from droptics.files.limits import Bounded, check_regular


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda stream: stream.read(6), id="a piece"),
        pytest.param(lambda stream: stream.read(), id="all"),
        pytest.param(lambda stream: stream.readline(), id="a line"),
        pytest.param(lambda stream: stream.readinto(bytearray(6)), id="into memory"),
        pytest.param(lambda stream: stream.seek(6), id="a place"),
    ],
)
def test_every_way_to_read_is_bounded(read):
    content = b"12345\n789"
    read(Bounded(io.BytesIO(content), Path("file"), 9))
    with pytest.raises(ValueError, match="file"):
        read(Bounded(io.BytesIO(content), Path("file"), 5))


def test_what_is_no_regular_file_is_refused(tmp_path):
    (tmp_path / "there").write_text("1")
    assert check_regular(tmp_path / "there") == tmp_path / "there"
    for path, words in ((tmp_path, "is a folder"), (tmp_path / "not there", "does not exist")):
        with pytest.raises(ValueError, match=words):
            check_regular(path)


@posix
def test_a_device_is_no_regular_file():
    with pytest.raises(ValueError, match="is not a regular file"):
        check_regular(Path("/dev/null"))
