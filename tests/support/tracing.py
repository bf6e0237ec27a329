"""Which functions and classes of the library the checks of a claim call, by profiling them."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, FrameType

import droptics

ROOT = Path(droptics.__file__).parent
OWN = str(ROOT / "papers")
# the networks of a proof stand with its work, and are what its claims are about
SUBJECT = "papers.thesis.leaky"
# what stands between a public function and who calls it
DECORATED = ("checked.<locals>.call", "renamed.<locals>.wrap.<locals>.call")


@dataclass(frozen=True)
class Executed:
    """What ran of the library outside of the checks themselves, as `room.module:name`: functions, methods, classes.

    `asked` are those among them that the checks themselves called.
    """

    names: set[str]
    asked: set[str]


def executed(call: Callable[[], object]) -> Executed:
    """What a call runs of the library."""
    codes: set[CodeType] = set()
    asked: set[CodeType] = set()
    made: set[type] = set()

    def watch(frame: FrameType, event: str, argument: object) -> None:
        if event == "call":
            codes.add(frame.f_code)
            if frame.f_code not in asked and _caller(frame).startswith(OWN):
                asked.add(frame.f_code)
            if frame.f_code.co_name in ("__init__", "__post_init__"):  # a dataclass has no file of its own
                made.add(type(frame.f_locals.get("self")))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    names = _named(codes)
    for kind in made:
        module = kind.__module__.removeprefix("droptics.")
        if module == SUBJECT or (module != kind.__module__ and not module.startswith(("evidence", "papers"))):
            names.add(f"{module}:{kind.__qualname__}")
    return Executed(names, _named(asked))


def _caller(frame: FrameType) -> str:
    """The file of the library from which a function of it is called, past decorators and other libraries."""
    if not frame.f_code.co_filename.startswith(str(ROOT)):
        return ""
    caller = frame.f_back
    while caller is not None and (
        not caller.f_code.co_filename.startswith(str(ROOT)) or caller.f_code.co_qualname in DECORATED
    ):
        caller = caller.f_back
    return "" if caller is None else caller.f_code.co_filename


def _named(codes: set[CodeType]) -> set[str]:
    names = set()
    for code in codes:
        if not code.co_filename.startswith(str(ROOT)):
            continue
        module = ".".join(Path(code.co_filename).relative_to(ROOT).with_suffix("").parts)
        if module == SUBJECT or not code.co_filename.startswith(OWN):
            names.add(f"{module.removesuffix('.__init__')}:{code.co_qualname}")
    return names


@functools.cache
def public_functions() -> dict[str, str]:
    """Functions of the rooms by where they are written: the names that `objects` of a claim has for them.

    Those of evidence are left out, with which claims are made.
    """
    found = {}
    for folder in sorted(ROOT.iterdir()):
        if (folder / "__init__.py").exists() and folder.name not in ("evidence", "papers"):
            room = importlib.import_module(f"droptics.{folder.name}")
            for name in getattr(room, "__all__", ()):
                inner = inspect.unwrap(getattr(room, name))
                if inspect.isfunction(inner):
                    found[_written(inner)] = f"{folder.name}.{name}"
    return found


def _written(thing: Callable[..., object]) -> str:
    return f"{thing.__module__.removeprefix('droptics.')}:{thing.__qualname__}"


def unnamed(objects: tuple[str, ...], run: Executed) -> list[str]:
    """Public functions that a check called and that its claim does not name."""
    named = {_written(inspect.unwrap(thing)) for thing in map(resolve, objects) if callable(thing)}
    return sorted(name for written, name in public_functions().items() if written in run.asked - named)


def resolve(name: str) -> object:
    """The object of a dotted name below `droptics`."""
    room, *rest = name.split(".")
    found: object = importlib.import_module(f"droptics.{room}")
    for part in rest:
        found = getattr(found, part) if hasattr(found, part) else importlib.import_module(f"{found.__name__}.{part}")
    return found


def ran(name: str, run: Executed) -> bool:
    """Whether an object is among what was executed; a class counts when one was made or a method of it ran."""
    thing = resolve(name)
    inner = getattr(thing, "__wrapped__", getattr(thing, "__func__", thing))
    full = _written(inner)
    return full in run.names or any(other.startswith(f"{full}.") for other in run.names)
