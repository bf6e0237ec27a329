"""Fitted completions in one safetensors file: arrays, and all else as JSON in its header; nothing is pickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from droptics.files import replacing

Array = NDArray[Any]
FORMAT = "droptics-completion-1"


def write(path: str | os.PathLike[str], arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
    """Write arrays and JSON facts; the file is written aside and renamed, so that it is never seen half done."""
    plain = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    with replacing(path) as partial:
        save_file(plain, partial, metadata={"format": FORMAT, "facts": json.dumps(facts)})


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read what `write` wrote; anything else is refused with a ValueError."""
    source = Path(path).expanduser()
    if not source.is_file():
        raise ValueError(f"path: no file {source}")
    try:
        with safe_open(source, framework="numpy") as stored:
            metadata = stored.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ValueError(f"{source} is not a saved completion (its format is {metadata.get('format')!r})")
            return {name: stored.get_tensor(name) for name in stored.keys()}, json.loads(metadata["facts"])  # noqa: SIM118
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{source} is not a saved completion: {error}") from error


def pack_ids(name: str, ids: Array) -> dict[str, Array]:
    """Ids as plain arrays: whole numbers as they are, text as UTF-8 bytes and where each one ends."""
    if ids.dtype.kind == "i":
        return {name: ids}
    encoded = [text.encode("utf-8") for text in ids.tolist()]
    ends = np.cumsum([len(text) for text in encoded], dtype=np.int64)
    return {f"{name}.text": np.frombuffer(b"".join(encoded), np.uint8), f"{name}.ends": ends}


def unpack_ids(name: str, arrays: Mapping[str, Array]) -> Array:
    """The ids that `pack_ids` packed."""
    if name in arrays:
        return arrays[name]
    content = arrays[f"{name}.text"].tobytes()
    ends = arrays[f"{name}.ends"].tolist()
    return np.array([content[a:b].decode("utf-8") for a, b in zip([0, *ends[:-1]], ends, strict=True)], dtype=str)
