"""Streams that unpack to more than they may are stopped, however they are read."""

import io
from pathlib import Path

import pytest

from droptics.files.limits import Bounded


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
