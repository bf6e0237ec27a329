"""Text and tables of a terminal by rich, loaded when the first is written: that takes longer than a first attack."""

from __future__ import annotations

import io
import random
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@cache
def _rich() -> tuple[type[Console], type[Table]]:
    """Loading rich draws from Python's generator: its state is put back."""
    state = random.getstate()
    from rich.console import Console  # noqa: PLC0415 - see above
    from rich.table import Table  # noqa: PLC0415 - see above

    random.setstate(state)
    return Console, Table


def new_console(width: int) -> Console:
    """A terminal of this many letters a line that keeps what is printed as it stands; `printed` returns it."""
    return _rich()[0](file=io.StringIO(), width=width, force_terminal=False, markup=False, emoji=False)


def new_table(*columns: str) -> Table:
    """An empty table with these headings."""
    return _rich()[1](*columns)


def printed(console: Console) -> str:
    """What a console of `new_console` was told so far."""
    return str(console.file.getvalue()).rstrip()  # type: ignore[attr-defined]
