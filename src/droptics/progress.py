"""Progress of long loops with the time left, on the terminal of a command that asks for it; elsewhere nothing.

tqdm is imported when a bar is shown: it would take a fifth of the time of `droptics --help`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

T = TypeVar("T")
DELAY = 1.0  # seconds: a bar for what is over at once only flickers
TICK = 0.5
_shown: ContextVar[bool] = ContextVar("shown", default=False)


@contextmanager
def shown() -> Iterator[None]:
    """Within it the loops of the library show bars, in this thread; a library that is only called stays silent."""
    token = _shown.set(True)
    try:
        yield
    finally:
        _shown.reset(token)


def tracked(
    items: Iterable[T], text: str, unit: str, total: int | None = None, size: Callable[[T], int] = lambda item: 1
) -> Iterable[T]:
    """The items, with a bar while they are gone through; one alone has none, for it has no time left to tell.

    `total` is that of the sizes of the items; without it the items have a length and count as one each.
    """
    count = len(items) if total is None and isinstance(items, Sized) else total
    return items if count == 1 or not _shown.get() else _followed(items, text, unit, count, size)


def _followed(items: Iterable[T], text: str, unit: str, total: int | None, size: Callable[[T], int]) -> Iterator[T]:
    from tqdm import tqdm  # noqa: PLC0415 - see above

    with tqdm(total=total, desc=text, unit=unit, disable=None, delay=DELAY, leave=False) as bar:
        for item in items:
            yield item
            bar.update(size(item))


@contextmanager
def clocked(seconds: float, text: str) -> Iterator[None]:
    """A bar that follows the clock towards an estimated time, for one call that cannot be looked into."""
    if not _shown.get() or seconds < DELAY:
        yield
        return
    from tqdm import tqdm  # noqa: PLC0415 - see above

    form = "{desc}: {percentage:3.0f}%|{bar}| {elapsed} of about {total_fmt} s"
    over = threading.Event()
    with tqdm(total=round(seconds), desc=text, bar_format=form, disable=None, leave=False) as bar:

        def follow(start: float) -> None:
            while not over.wait(TICK):
                bar.n = min(time.monotonic() - start, bar.total)
                bar.refresh()

        clock = threading.Thread(target=follow, args=(time.monotonic(),), daemon=True)
        if not bar.disable:
            clock.start()
        try:
            yield
        finally:
            over.set()
            if not bar.disable:
                clock.join()
