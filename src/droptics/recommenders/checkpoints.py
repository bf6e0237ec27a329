"""Item factors on disk after every sweep: what a fit that was stopped goes on from."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from droptics.arrays import Array
from droptics.recommenders import saving
from droptics.recommenders.ids import Lookup


def keep(path: str | os.PathLike[str], ids: Array, unit: tuple[int, float], factors: Array) -> None:
    """Replace the file by these item factors; `unit` is their width and the scale of the ratings."""
    arrays = {"factors": np.ascontiguousarray(factors), **saving.pack_ids("ids", ids)}
    saving.write(path, arrays, {"kind": "checkpoint", "unit": unit})


def resume(path: str | os.PathLike[str], ids: Array, unit: tuple[int, float], factors: Array) -> None:
    """Set `factors` to those of the file, if there is one; it must be of the same items and width."""
    if not Path(path).expanduser().exists():
        return
    arrays, facts = saving.read(path)
    if facts["kind"] != "checkpoint":
        raise ValueError(f"checkpoint: {path} holds a {facts['kind']}; name another file")
    found = Lookup(saving.unpack_ids("ids", arrays))(ids)
    kept = arrays["factors"]
    if (found < 0).any() or len(kept) != len(factors) or tuple(facts["unit"]) != unit:
        raise ValueError(f"checkpoint: {path} is of other ratings or another width; remove it or name another file")
    factors[:] = kept[found]
