"""Forward hooks for a while, that only see the calls of the thread that set them.

They are taken away twice, like modes (`modules`): an interrupt may come between any two instructions, undoing is safe
to repeat, and one interrupt cannot stop both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

_TABLES = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_always_called",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs",
)


class Hook:
    """A hook that only sees the calls of the thread that made it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self.thread = function, threading.get_ident()

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments) if threading.get_ident() == self.thread else None


@contextmanager
def hooked(
    before: Iterable[tuple[nn.Module, Callable[..., Any]]] = (),
    after: Iterable[tuple[nn.Module, Callable[..., Any]]] = (),
    *,
    always: bool = False,
) -> Iterator[None]:
    """Forward hooks before and after modules for a while, for the calls of this thread alone.

    `always` calls the later ones also when the forward pass fails.
    """
    first, second = ([(part, Hook(function)) for part, function in pairs] for pairs in (before, after))
    gone = False

    def remove() -> None:
        for part, hook in first:
            part._forward_pre_hooks.pop(hook, None)  # type: ignore[call-overload]
        for part, hook in second:
            part._forward_hooks_always_called.pop(hook, None)  # type: ignore[call-overload]
            part._forward_hooks.pop(hook, None)  # type: ignore[call-overload] # last: an interrupt is made good

    try:
        try:
            # by hand: torch makes a handle for each, which takes most of the time before a run that is watched
            for part, hook in first:
                part._forward_pre_hooks[hook] = hook  # type: ignore[index]
            for part, hook in second:
                part._forward_hooks[hook] = hook  # type: ignore[index]
                if always:
                    part._forward_hooks_always_called[hook] = True  # type: ignore[index]
            yield
        finally:
            remove()
            gone = True
    finally:
        if not gone:  # an interrupt stopped the first
            remove()


def unhook(parts: Iterable[nn.Module], mine: Callable[[Any], bool]) -> None:
    """Take away the forward hooks that are `mine`; handles are not needed, so none can be lost."""
    for part in parts:
        for table in _TABLES[:2]:
            held = getattr(part, table, None)
            for key, hook in list(held.items()) if held else ():
                if isinstance(hook, Hook) and mine(hook):
                    for name in _TABLES[::-1]:  # the hook itself last: an interrupt before it is made good
                        getattr(part, name, {}).pop(key, None)
