"""Zip and tar archives: members are listed and judged before one of them is read."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import shutil
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

from droptics.files.limits import Bounded, allowance, check_regular, check_unpacked
from droptics.files.writing import replacing

_BROKEN = (
    *(zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError),
    *(EOFError, NotImplementedError, RuntimeError, OSError),
)
_PLAIN = re.compile(r"[\w.+= -]+(/[\w.+= -]+)*")


@contextmanager
def zip_members(path: Path, *, stored: bool = False) -> Iterator[tuple[zipfile.ZipFile, dict[str, zipfile.ZipInfo]]]:
    """An open zip file and its files by name.

    Refused are names that are not plain (absolute, climbing, other alphabets), two members whose names agree up to
    case, encrypted members, members that overlap, and sizes beyond what the file may unpack to; with `stored` also
    packed members, which the torch writers never write.
    """
    check_regular(path)
    size = path.stat().st_size
    try:
        with zipfile.ZipFile(path) as archive:
            infos = [info for info in archive.infolist() if not info.is_dir()]
            names = [info.filename for info in infos]
            for info in infos:
                _check_member(path, info, stored)
            twice = [name for name, times in Counter(map(str.casefold, names)).items() if times > 1]
            if twice:
                raise ValueError(f"{path} holds the member {twice[0]!r} twice (other case is no other name); refused")
            if _overlap(infos, size):
                raise ValueError(f"{path} holds members that overlap; it is refused")
            check_unpacked(path, sum(info.file_size for info in infos), size)
            yield archive, dict(zip(names, infos, strict=True))
    except _BROKEN as error:
        raise ValueError(f"{path} cannot be read as an archive: {error}") from error


def _check_member(path: Path, info: zipfile.ZipInfo, stored: bool) -> None:
    name = info.filename
    if not is_plain(name) or info.orig_filename != name:
        raise ValueError(f"{path} holds the member {info.orig_filename!r}, whose name is not plain; it is refused")
    if info.flag_bits & 1:
        raise ValueError(f"{path} holds the encrypted member {name!r}; it is refused")
    if (info.external_attr >> 16) & 0o170000 == 0o120000:
        raise ValueError(f"{path} holds the link {name!r}; it is refused")
    if stored and (info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size):
        raise ValueError(f"{path} holds the packed member {name!r}, which torch never writes; it is refused")


def _overlap(infos: Sequence[zipfile.ZipInfo], size: int) -> bool:
    """Whether a member, with its header of at least 30 bytes and its name, reaches into the next one."""
    spans = sorted((info.header_offset, 30 + len(info.filename) + info.compress_size) for info in infos)
    starts = [start for start, _ in spans[1:]]
    return any(start + length > after for (start, length), after in zip(spans, [*starts, size], strict=False))


def is_plain(name: str) -> bool:
    """Whether a member's name is a path of plain ASCII parts below the archive."""
    return name.isascii() and bool(_PLAIN.fullmatch(name)) and not {".", ".."} & set(name.split("/"))


def unpack(archive: Path, folder: Path, wanted: Callable[[str], bool]) -> list[Path]:
    """Copy the wanted regular files of a zip or tar archive into the folder, never outside it.

    Names that are absolute or climb with ".." are refused with a ValueError, links are not followed, and the unpacked
    size is compared with the archive's: nothing an archive says can make this write elsewhere or fill the disk. Each
    file is written aside and renamed into place.
    """
    check_regular(archive)
    try:
        return (_unpack_zip if zipfile.is_zipfile(archive) else _unpack_tar)(archive, folder, wanted)
    except _BROKEN as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise  # of the folder, not of the archive
        raise ValueError(f"{archive} cannot be read as an archive: {error}") from error


def _unpack_zip(archive: Path, folder: Path, wanted: Callable[[str], bool]) -> list[Path]:
    written = []
    with zipfile.ZipFile(archive) as packed:
        infos = [info for info in packed.infolist() if not info.is_dir() and wanted(info.filename)]
        check_unpacked(archive, sum(info.file_size for info in infos), archive.stat().st_size)
        for info in infos:
            with packed.open(info) as source:
                written.append(_place(source, info.filename, folder, archive))
    return written


def _unpack_tar(archive: Path, folder: Path, wanted: Callable[[str], bool]) -> list[Path]:
    written, total = [], 0
    with _tar_stream(archive) as stream, tarfile.open(fileobj=stream, mode="r:") as packed:
        for member in packed:
            if not (member.isfile() and wanted(member.name)):
                continue
            if member.issparse():
                raise ValueError(f"archive {archive} holds {member.name!r} with holes; it is not unpacked")
            total += member.size
            check_unpacked(archive, total, archive.stat().st_size)
            source = packed.extractfile(member)
            assert source is not None  # a regular file always has content
            with source:
                written.append(_place(source, member.name, folder, archive))
    return written


@contextmanager
def _tar_stream(archive: Path) -> Iterator[IO[bytes]]:
    with archive.open("rb") as plain:
        start = plain.read(6)
    openers: dict[bytes, Callable[..., IO[bytes]]] = {
        b"\x1f\x8b": gzip.open,  # type: ignore[dict-item]
        b"BZh": bz2.open,
        b"\xfd7zXZ\x00": lzma.open,
    }
    opener = next((found for mark, found in openers.items() if start.startswith(mark)), None)
    limit = allowance(archive.stat().st_size)
    with Bounded(archive.open("rb") if opener is None else opener(archive, "rb"), archive, limit) as stream:
        yield stream  # type: ignore[misc]


def _place(source: IO[bytes], name: str, folder: Path, archive: Path) -> Path:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    target = folder.joinpath(*parts)
    climbs = not parts or ".." in parts or parts[0].startswith("/") or parts[0].endswith(":") or "\0" in name
    inside = Path(os.path.realpath(target)).is_relative_to(os.path.realpath(folder))
    if climbs or not inside:
        raise ValueError(
            f"archive {archive} holds the member {name!r}, which points outside {folder}; it is not unpacked"
        )
    with replacing(target) as partial, partial.open("wb") as sink:
        shutil.copyfileobj(source, sink)
    return target
