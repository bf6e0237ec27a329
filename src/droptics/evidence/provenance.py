"""Where numbers come from: versions, commit and hardware of the process that computed them."""

from __future__ import annotations

import functools
import json
import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


@functools.cache
def versions() -> dict[str, str]:
    """Versions of what the numbers depend on."""
    # the package says it itself, so that it is known also where it is not installed
    found = {"python": platform.python_version(), "droptics": sys.modules["droptics"].__version__}
    for name in ("torch", "numpy", "scipy", "scikit-learn", "numba"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "absent"
    return found


@functools.cache
def commit() -> str:
    """The commit of the source tree, with `-dirty` when it has changes.

    A copy has no history, or that of another state: what the variable DROPTICS_COMMIT says, set by whoever made it.
    """
    root, told = Path(__file__).resolve().parents[3], os.environ.get("DROPTICS_COMMIT", "")
    if told or not (root / ".git").exists():
        return told
    ask = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        return subprocess.run(ask, capture_output=True, text=True, check=True, timeout=10).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


@functools.cache
def hardware() -> dict[str, Any]:
    """Cores, machine and (where torch is already loaded and sees one) GPU."""
    torch = sys.modules.get("torch")
    gpu = torch.cuda.get_device_name() if torch is not None and torch.cuda.is_available() else None
    return {"machine": platform.machine(), "system": platform.system(), "cores": os.cpu_count(), "gpu": gpu}


def here(gpu: bool = False) -> dict[str, Any]:
    """This process: its versions, commit and hardware; the GPU is named only where it was used."""
    return {"versions": versions(), "commit": commit(), "hardware": hardware() if gpu else hardware() | {"gpu": None}}


def places(found: Iterable[Mapping[str, Any] | None]) -> list[dict[str, Any]]:
    """The different places among those of the cells, most cells first, each with their number; None is here."""
    counted = Counter(json.dumps(dict(place or here())) for place in found)
    return [json.loads(place) | {"cells": count} for place, count in counted.most_common()]
