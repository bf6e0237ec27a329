"""Fitted completions in one safetensors file: arrays, and all else as JSON in its header; nothing is pickled."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from droptics.arrays import Array
from droptics.files.arrays import read_numpy_tensors, write_arrays
from droptics.files.limits import from_home
from droptics.recommenders.alternation import Strengths, Sweep
from droptics.recommenders.ids import Lookup
from droptics.recommenders.ratings import Compressed

FORMAT = "droptics-completion-1"
SIDES = ("user_factors", "item_factors", "user_biases", "item_biases")
# Options that say where a model is fitted, not what it is.
PLACES = ("engine", "device", "progress", "threads", "checkpoint")


def write(path: str | os.PathLike[str], arrays: Mapping[str, Array], facts: Mapping[str, Any]) -> None:
    """Write arrays and JSON facts; the file is written aside and renamed, so that it is never seen half done."""
    text = json.dumps(facts, default=np.generic.item)  # options may be numbers of NumPy
    write_arrays(path, arrays, {"format": FORMAT, "facts": text})


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Array], dict[str, Any]]:
    """Read what `write` wrote; anything else is refused with a ValueError."""
    source = from_home(path)
    if not source.is_file():
        raise ValueError(f"path: no file {source}")
    try:
        arrays, texts = read_numpy_tensors(source)
        if texts.get("format") != FORMAT:
            raise ValueError(f"its format is {texts.get('format')!r}")
        return arrays, json.loads(texts["facts"])
    except (ValueError, KeyError) as error:
        raise ValueError(f"{source} is not a saved completion: {error}") from error


def save(model: Any, path: str | os.PathLike[str], seen: bool) -> None:
    """Write a fitted completion, with its ratings or without."""
    arrays = {name: getattr(model, f"{name}_") for name in SIDES}
    arrays |= pack_ids("user_ids", model._users.ids) | pack_ids("item_ids", model._items.ids)
    arrays |= {"user_counts": model._counts[0], "item_counts": model._counts[1]}
    if seen and model._seen is not None:
        known = model._ratings()
        arrays |= {"seen_starts": known.starts, "seen_items": known.columns, "seen_values": known.values}
    parameters = {name: value for name, value in model.get_params().items() if name not in PLACES}
    facts = {"kind": type(model).__name__, "parameters": parameters, "strengths": asdict(model.strengths_)}
    facts |= {"mean": model.mean_, "scale": model.scale_, "range": model.range_}
    write(path, arrays, facts | {"history": [asdict(line) for line in model.history_]})


def load(kind: Any, path: str | os.PathLike[str]) -> Any:
    """Read a completion of this class."""
    arrays, facts = read(path)
    if facts["kind"] != kind.__name__:
        raise ValueError(f"{path} holds a {facts['kind']}, load it with {facts['kind']}.load")
    model = kind(**facts["parameters"])
    for name in SIDES:
        setattr(model, f"{name}_", arrays[name])
    model._users, model._items = (Lookup(unpack_ids(name, arrays)) for name in ("user_ids", "item_ids"))
    model._counts = (arrays["user_counts"], arrays["item_counts"])
    model.mean_, model.range_, model.scale_ = facts["mean"], tuple(facts["range"]), facts.get("scale", 1.0)
    model.strengths_ = Strengths(**facts["strengths"])
    model.history_ = [Sweep(**line) for line in facts["history"]]
    model.objective_ = model.history_[-1].objective
    model._fresh, model._data = {}, None
    seen = [arrays.get(name) for name in ("seen_starts", "seen_items", "seen_values")]
    model._seen = None if seen[0] is None else Compressed(*seen)  # type: ignore[arg-type]
    model._loaded()
    return model


def pack_ids(name: str, ids: Array) -> dict[str, Array]:
    """Ids as plain arrays: whole numbers as they are, text as UTF-8 bytes and where each one ends."""
    if ids.dtype.kind in "iu":
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
