"""Where data files lie: the folder named by the caller, by the environment, or the user's cache; safe downloads."""

from __future__ import annotations

import os
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

import pooch

VARIABLE = "DROPTICS_DATA"


class DatasetMissing(FileNotFoundError, ValueError):
    """A data set is not on this machine; the message names the folder, the file and what to do."""


@dataclass(frozen=True)
class Remote:
    """A file to download: its address, its checksum ("sha256:..." or "md5:...") and the terms it comes under."""

    url: str
    checksum: str
    terms: str = ""

    @property
    def name(self) -> str:
        """Name of the file, the last part of the address."""
        return self.url.rsplit("/", 1)[1]


def data_folder(folder: str | os.PathLike[str] | None) -> Path:
    """The folder that holds data sets: the argument, else `DROPTICS_DATA`, else the user's cache."""
    if folder is not None:
        return Path(folder).expanduser()
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named).expanduser()
    return Path(pooch.os_cache("droptics"))


def places(folder: str | os.PathLike[str] | None, subfolders: Sequence[str]) -> list[Path]:
    """Folders to look in, in order: each subfolder of the data folder, then a folder the caller named itself.

    A data folder that comes from the environment holds many sets, so files lying loose in it are not taken: MNIST
    and Fashion-MNIST have the same file names.
    """
    root = data_folder(folder)
    inside = [root / name for name in subfolders]
    return inside if folder is None else [*inside, root]


def locate(folders: Iterable[Path], names: Iterable[str]) -> Path | None:
    """The first existing file among names in folders, or None."""
    wanted = list(names)
    for place in folders:
        for name in wanted:
            if (place / name).is_file():
                return place / name
    return None


def missing(title: str, folder: str | os.PathLike[str] | None, file: str, download: bool = True) -> DatasetMissing:
    """The error for an absent set: where it was looked for, under which name, and what to do."""
    root = data_folder(folder)
    offer = ", or pass download=True" if download else ""
    return DatasetMissing(
        f"{title}: no file {file} in folder {root}; name the folder that holds it with folder=... or the environment "
        f"variable {VARIABLE}{offer}"
    )


def download(remote: Remote, folder: Path) -> Path:
    """Fetch a file into the folder; kept only when its checksum is right, so a broken download never stays."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        found = pooch.retrieve(
            remote.url, known_hash=remote.checksum, fname=remote.name, path=folder, progressbar=False
        )
    except OSError as problem:
        reason = str(problem).rpartition("Caused by ")[2]  # what stands before is about connection pools
        raise DatasetMissing(
            f"{remote.url} cannot be downloaded: {reason}; without a network, bring the set to this machine and name "
            f"its folder with folder=... or the environment variable {VARIABLE}"
        ) from problem
    return Path(found)


def unpack(archive: Path, folder: Path, wanted: Callable[[str], bool]) -> list[Path]:
    """Copy the wanted regular files of a zip or tar archive into the folder, never outside it.

    Member names that are absolute or climb with ".." are refused with a ValueError, and links are not followed:
    nothing an archive says can make this write elsewhere. Each file is written aside and renamed into place.
    """
    written: list[Path] = []
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            for info in packed.infolist():
                if not info.is_dir() and wanted(info.filename):
                    with packed.open(info) as source:
                        written.append(_place(source, info.filename, folder, archive))
        return written
    with tarfile.open(archive) as packed_tar:
        for member in packed_tar:
            if member.isfile() and wanted(member.name):
                source_file = packed_tar.extractfile(member)
                assert source_file is not None  # a regular file always has content
                with source_file:
                    written.append(_place(source_file, member.name, folder, archive))
    return written


def _place(source: IO[bytes], name: str, folder: Path, archive: Path) -> Path:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    target = folder.joinpath(*parts)
    climbs = not parts or ".." in parts or parts[0].startswith("/") or parts[0].endswith(":")
    if climbs or not target.resolve().is_relative_to(folder.resolve()):
        raise ValueError(
            f"archive {archive} holds the member {name!r}, which points outside {folder}; it is not unpacked"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    aside = target.with_name(target.name + ".part")
    with aside.open("wb") as sink:
        shutil.copyfileobj(source, sink)
    aside.replace(target)
    return target
