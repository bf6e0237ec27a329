"""What a file may ask for: sizes are compared with the file itself before memory or disk is taken."""

from __future__ import annotations

import gzip
import io
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

FREE = 1 << 28
"""Bytes that any file may unpack to (256 MB)."""
RATIO = 100
"""Beyond them, how many times its own size a packed file may unpack to; data and weights stay far below."""
TEXT_FREE, TEXT_RATIO = 1 << 25, 30
"""The same for packed text, which takes several times its size in memory once it is read."""
PIECE = 1 << 24
"""The largest single read from a packed stream."""


def from_home(path: str | os.PathLike[str]) -> Path:
    """The path with its ~ written out; a user who has no folder here is a mistake in the path."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError(f"{path}: nobody of that name has a home folder here; write the path in full") from error


def allowance(packed: int) -> int:
    """Bytes that `packed` bytes may unpack to."""
    return max(FREE, RATIO * packed)


def check_unpacked(path: Path, size: int, packed: int) -> None:
    """Refuse a packed file that says it unpacks to more than data of its size does."""
    if size > allowance(packed):
        raise ValueError(
            f"{path} would unpack to {size:,} bytes from {packed:,}, more than {RATIO} times its size: it is refused "
            "as a bomb; unpack it yourself if you trust it"
        )


def check_regular(path: Path) -> Path:
    """The path of a file that is there; pipes and devices have no size to compare with and are refused."""
    if path.is_dir():
        raise ValueError(f"{path} is a folder, not a file")
    if not path.exists():
        raise ValueError(f"{path} does not exist")
    if not path.is_file():
        raise ValueError(f"{path} is not a regular file; copy its content to one")
    return path


class Bounded(io.RawIOBase):
    """A packed stream that stops with a ValueError where it has unpacked to more than the file may."""

    def __init__(self, stream: IO[bytes], path: Path, limit: int) -> None:
        super().__init__()
        self._stream, self._path, self._limit = stream, path, limit

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int = -1, /) -> bytes:
        if size < 0:
            return self.readall()
        if size > PIECE:
            raise ValueError(f"{self._path} asks for a piece of {size:,} bytes at once, which is refused")
        content = self._stream.read(size)
        self._check()
        return content

    def readline(self, size: int | None = -1, /) -> bytes:
        line = self._stream.readline(PIECE if size is None or size < 0 else min(size, PIECE))
        self._check()
        return line

    def readall(self) -> bytes:
        pieces = []
        while piece := self.read(PIECE):
            pieces.append(piece)
        return b"".join(pieces)

    def readinto(self, buffer: object, /) -> int:
        view = memoryview(buffer)  # type: ignore[arg-type]
        content = self.read(min(len(view), PIECE))
        view[: len(content)] = content
        return len(content)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        place = self._stream.seek(offset, whence)
        self._check()
        return place

    def tell(self) -> int:
        return self._stream.tell()

    def close(self) -> None:
        self._stream.close()
        super().close()

    def _check(self) -> None:
        if self._stream.tell() > self._limit:
            raise ValueError(
                f"{self._path} unpacks to more than {self._limit:,} bytes, many times its size: it is refused as a "
                "bomb; unpack it yourself if you trust it"
            )


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """The bytes of a file, unpacked where its name ends in .gz; broken packing is a ValueError that names the file."""
    check_regular(path)
    try:
        if path.suffix.lower() != ".gz":
            with path.open("rb") as plain:
                yield plain
            return
        limit = max(TEXT_FREE, TEXT_RATIO * path.stat().st_size)
        with Bounded(cast(IO[bytes], gzip.open(path, "rb")), path, limit) as stream:
            yield cast(IO[bytes], stream)
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path} cannot be read: {error}; fetch the file again") from error
