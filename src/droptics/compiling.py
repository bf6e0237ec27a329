"""Compiled loops: kept on disk where there is a place for them, compiled anew by every process where there is none."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import update_wrapper
from threading import Lock, RLock
from typing import Any, TypeVar, cast
from uuid import uuid4

Function = TypeVar("Function", bound=Callable[..., Any])

# Two, because a thread that compiles another loop asks for `compiled`, which must not wait for the end of a pause.
_LOCK, _PAUSE = Lock(), RLock()


@contextmanager
def uncollected() -> Iterator[None]:
    """While Python looks for no garbage, for what loads modules: they are none.

    It would once more visit all that torch and numba keep, a tenth of a second, then or soon after: what came meanwhile
    counts as old, unless somebody froze what there was. One thread at a time, so that none takes the pause of another
    for what the caller wants.
    """
    with _PAUSE:
        collects = gc.isenabled()
        gc.disable()
        try:
            yield
        finally:
            if not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()  # everything is of the oldest generation now
            if collects:
                gc.enable()


def njit(**options: Any) -> Callable[[Function], Function]:
    """`numba.njit(cache=True)` at the first call, also where one may write neither beside the package nor at home."""

    def later(function: Function) -> Function:
        loop: Any = Loop(function, options)
        return cast("Function", loop)

    return later


class Loop:
    """A function that numba compiles, or reads from where it was kept, when it or a loop that calls it is first called.

    Until then numba is not loaded, which takes half a second and which most questions do without.
    """

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        update_wrapper(self, function)
        self.py_func, self.targetoptions = function, options  # where numba looks for a function that it inlines
        self._compiled: Any = None

    def __call__(self, *values: Any) -> Any:
        if self._compiled is None:
            self._load(values)
        return self._compiled(*values)

    def _load(self, values: tuple[Any, ...]) -> None:
        """Compile or read what values of these types need."""
        with uncollected():
            import numba  # noqa: PLC0415 - see above

            self.compiled.compile(tuple(numba.typeof(value) for value in values))

    @property
    def _numba_type_(self) -> Any:
        """What numba asks of whatever a loop calls."""
        return self.compiled._numba_type_

    @property
    def compiled(self) -> Any:
        """The function of numba: one for all threads."""
        with _LOCK:
            if self._compiled is None:
                self._compiled = _compiled(self.py_func, self.targetoptions)
                names = self.py_func.__globals__
                if names.get(self.py_func.__name__) is self:  # calls from its own module no longer pass through here
                    names[self.py_func.__name__] = self._compiled
        return self._compiled


def _compiled(function: Callable[..., Any], options: dict[str, Any]) -> Any:
    """What numba makes of a function; it refuses to keep it without a place, and then compiles as usual."""
    import numba  # noqa: PLC0415 - see above

    try:
        kept = numba.njit(cache=True, **options)(function)
        _name_apart(kept)
    except RuntimeError:
        kept = numba.njit(**options)(function)
    return kept


def _name_apart(loop: Any) -> None:
    """Give every compiled form of a loop a file of its own.

    numba numbers them by an index that it reads and writes without a lock: two processes that compile a loop for two
    precisions at once write both to one file, and a third runs the wrong one on its memory.
    """
    file: Any = getattr(getattr(loop, "_cache", None), "_cache_file", None)
    if hasattr(file, "_data_name"):
        numbered = file._data_name
        file._data_name = lambda number: f"{uuid4().hex[:16]}-{numbered(number)}"
