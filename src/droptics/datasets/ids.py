"""Ids of a file of any origin: an array keeps them as they are, and is not many times the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from droptics.files.limits import allowance

_UNWRITABLE = re.compile("[\0\ud800-\udfff]")  # an array of text forgets the first at an end, no file takes the others


def check_ids(path: Path, rows: int, longest: int) -> None:
    """Refuse so many ids of a file of which the longest takes so many bytes: every row has the room of the longest."""
    size = path.stat().st_size
    if rows * longest > allowance(size):
        raise ValueError(
            f"{path}: an id of {longest // 4:,} letters among {rows:,} ratings would take {rows * longest:,} bytes; "
            "ids must be short: number them or shorten them"
        )


def kept_names(ids: Sequence[str], path: Path) -> Sequence[str]:
    """The ids of a file, once it is known that an array keeps them as they are and is not many times the file."""
    check_ids(path, len(ids), 4 * max(map(len, ids), default=0))
    if _UNWRITABLE.search("\n".join(ids)):
        bad = next(name for name in ids if _UNWRITABLE.search(name))
        raise ValueError(f"{path}: the id {bad[:80]!r} holds a zero byte or half a character; write it otherwise")
    return ids
