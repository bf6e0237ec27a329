"""Controls end at the first comparison that fails: what they would compare after it changes no verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

_ending: ContextVar[bool] = ContextVar("ending", default=False)


class _Holds(Protocol):
    @property
    def holds(self) -> bool: ...


T = TypeVar("T")
Compared = TypeVar("Compared", bound=_Holds)


class _Ended(BaseException):
    """A comparison that failed; no exception that a check may expect of the library."""

    def __init__(self, item: Any) -> None:
        self.item = item


def compared(item: Compared) -> Compared:
    """A comparison as it was made; one that fails ends a control."""
    if _ending.get() and not item.holds:
        raise _Ended(item)
    return item


def run(check: Callable[[], Iterable[T]], ending: bool = False) -> tuple[T, ...]:
    """The comparisons of a check: all of them, or with `ending` the first that fails alone, if one does."""
    token = _ending.set(ending)
    try:
        return tuple(check())
    except _Ended as end:
        return (end.item,)
    finally:
        _ending.reset(token)
