"""Files that are replaced in one step: a reader sees the old file or the new one, never a part."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import stat
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from droptics.files.limits import from_home

_PARTIAL = re.compile(r"^\..*\.([0-9a-f]{8})-(\d+)-[0-9a-f]{8}\.partial", re.DOTALL)
_ABANDONED = 24 * 3600.0  # seconds after which the partial file of another machine counts as left over
_PART = 100  # bytes of a name and of its suffix that a partial file keeps, as names may have 255 in all
_STREAMS = ("/dev/std", "/dev/fd/", "/proc/")  # of which some may be regular files


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside `path` to write to; it takes its place when the block ends well and is removed when it does not.

    The folder is made if needed. The partial file keeps the suffix, for writers that read the format off it. A link is
    followed; a target that is no regular file (a device, a pipe) is written through and stays what it is. A new file
    has the mode that the umask gives, a replaced one keeps its mode. Partial files that killed runs left in the folder
    are removed.
    """
    target = from_home(path)
    if _is_stream(target):
        with _aside(Path(tempfile.gettempdir()), target) as partial:
            yield partial
            with partial.open("rb") as source, target.open("wb") as sink:
                shutil.copyfileobj(source, sink)
        return
    target = Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    sweep(target.parent)
    with _aside(target.parent, target) as partial:
        with suppress(FileNotFoundError):
            shutil.copymode(target, partial)
        mode = stat.S_IMODE(partial.stat().st_mode)
        yield partial
        partial.chmod(mode)  # some writers make a new file of their own, readable by its owner alone
        os.replace(partial, target)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a text file; its bytes are the same on every system."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8", newline="\n")


def check_target(path: str | os.PathLike[str], suffix: str = "", name: str = "--out") -> Path:
    """The path, or one clear error where a file cannot be written there: asked before the work, not after it."""
    target = from_home(path)
    if suffix and target.suffix != suffix and not _is_stream(target):
        raise ValueError(f"{name} must end in {suffix}, got {target}")
    if target.is_dir():
        raise ValueError(f"{name} {target} is a folder; name a file")
    if os.path.islink(os.path.realpath(target)):
        raise ValueError(f"{name} {target} is a link that leads back to itself; name another place")
    if target.exists() and not os.access(target, os.W_OK):
        raise ValueError(f"{name} {target} may not be written; change its permissions or name another file")
    if not _is_stream(target):
        check_folder(Path(os.path.realpath(target)).parent, name)
    return target


def check_folder(path: str | os.PathLike[str], name: str = "--out") -> Path:
    """The path, or one clear error where no folder can be made or written there."""
    folder = from_home(path)
    there = Path(os.path.realpath(folder))
    while not (there.exists() or there.is_symlink() or there == there.parent):
        there = there.parent
    if there.is_symlink():  # what is left of a circle
        raise ValueError(f"{name} {folder}: the link {there} leads back to itself; name another place")
    if not there.is_dir():
        raise ValueError(f"{name} {folder} needs a folder where {there} is a file; name another place")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"{name} {folder}: the folder {there} may not be written; name another place")
    return folder


def sweep(folder: Path) -> None:
    """Remove partial files whose writer is gone: processes of this machine that ended, or none for a day."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            named = _PARTIAL.match(entry.name)
            if named and entry.is_file(follow_symlinks=False) and _left_over(entry, named[1], int(named[2])):
                os.unlink(entry.path)


def _left_over(entry: os.DirEntry[str], machine: str, process: int) -> bool:
    if machine != _machine() or os.name == "nt":  # asking for a process would end it there
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):  # no system gives numbers that large
        return True
    except OSError:
        return False  # it runs, as another user
    return False


@contextmanager
def _aside(folder: Path, target: Path) -> Iterator[Path]:
    """A new empty file that says whose it is, gone when the block ends."""
    owner = f"{_machine()}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
    suffix = target.suffix if len(os.fsencode(target.suffix)) <= _PART else ""
    stem = os.fsencode(target.name.removesuffix(suffix))[:_PART].decode(errors="ignore")
    partial = folder / f".{stem}.{owner}.partial{suffix}"
    try:
        partial.touch(exist_ok=False)
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def _machine() -> str:
    """Eight digits for what shares process numbers with this process: its machine, or its container."""
    try:
        numbers = os.readlink("/proc/self/ns/pid")
    except OSError:
        numbers = ""
    return hashlib.sha256(f"{socket.gethostname()} {numbers}".encode()).hexdigest()[:8]


def _is_stream(target: Path) -> bool:
    """Whether the target is there and is neither a regular file nor a folder, or names one of the open streams."""
    try:
        mode = target.stat().st_mode
    except OSError:
        return False
    return str(target).startswith(_STREAMS) or not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
