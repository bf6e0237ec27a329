"""Files that are replaced in one step: a reader sees the old file or the new one, never a part."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A path beside `path` to write to; it takes its place when the block ends well and is removed when it does not.

    The folder is made if needed. The partial file keeps the suffix, for writers that read the format off it.
    """
    target = Path(path).expanduser()
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.stem}.{uuid.uuid4().hex[:8]}.partial{target.suffix}")
    try:
        yield partial
        os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a text file."""
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
