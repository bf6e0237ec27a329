"""Which functions and classes of the library the checks of a claim call, by profiling them."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType

import droptics

ROOT = Path(droptics.__file__).parent
OWN = str(ROOT / "papers")
# the networks of a proof stand with its work, and are what its claims are about
SUBJECT = "papers.thesis.leaky"


def executed(call: Callable[[], object]) -> set[str]:
    """What ran of the library outside of the checks themselves, as `room.module:name`: functions, methods, classes."""
    codes: set[CodeType] = set()
    made: set[type] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            codes.add(frame.f_code)
            if frame.f_code.co_name in ("__init__", "__post_init__"):  # a dataclass has no file of its own
                made.add(type(frame.f_locals.get("self")))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    names = set()
    for code in codes:
        if not code.co_filename.startswith(str(ROOT)):
            continue
        module = ".".join(Path(code.co_filename).relative_to(ROOT).with_suffix("").parts)
        if module == SUBJECT or not code.co_filename.startswith(OWN):
            names.add(f"{module.removesuffix('.__init__')}:{code.co_qualname}")
    for kind in made:
        module = kind.__module__.removeprefix("droptics.")
        if module == SUBJECT or (module != kind.__module__ and not module.startswith(("evidence", "papers"))):
            names.add(f"{module}:{kind.__qualname__}")
    return names


def resolve(name: str) -> object:
    """The object of a dotted name below `droptics`."""
    room, *rest = name.split(".")
    found: object = importlib.import_module(f"droptics.{room}")
    for part in rest:
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(f"{found.__name__}.{part}")
    return found


def ran(name: str, names: set[str]) -> bool:
    """Whether an object is among what was executed; a class counts when one was made or a method of it ran."""
    thing = resolve(name)
    inner = getattr(thing, "__wrapped__", getattr(thing, "__func__", thing))
    full = f"{inner.__module__.removeprefix('droptics.')}:{inner.__qualname__}"
    return full in names or any(other.startswith(f"{full}.") for other in names)
