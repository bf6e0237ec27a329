"""Where data files lie: the folder named by the caller, by the environment, or the user's cache; safe downloads."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pooch

from droptics.files.limits import from_home

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
    named = (os.environ.get(VARIABLE) or None) if folder is None else folder
    return Path(pooch.os_cache("droptics")) if named is None else from_home(named)


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
    return next((place / name for place, name in itertools.product(folders, names) if (place / name).is_file()), None)


def missing(title: str, folder: str | os.PathLike[str] | None, file: str, download: bool = True) -> DatasetMissing:
    """The error for an absent set: where it was looked for, under which name, and what to do."""
    offer = ", or pass download=True" if download else ""
    return DatasetMissing(
        f"{title}: no file {file} in folder {data_folder(folder)}; name the folder that holds it with folder=... or "
        f"the environment variable {VARIABLE}{offer}"
    )


def download(remote: Remote, folder: Path) -> Path:
    """Fetch a file into the folder; kept only when its checksum is right, so a broken download never stays."""
    folder.mkdir(parents=True, exist_ok=True)
    try:
        wanted = {"known_hash": remote.checksum, "fname": remote.name, "path": folder}
        return Path(pooch.retrieve(remote.url, **wanted, progressbar=False))
    except OSError as problem:
        reason = str(problem).rpartition("Caused by ")[2]  # what stands before is about connection pools
        raise DatasetMissing(
            f"{remote.url} cannot be downloaded: {reason}; without a network, bring the set to this machine and name "
            f"its folder with folder=... or the environment variable {VARIABLE}"
        ) from problem
