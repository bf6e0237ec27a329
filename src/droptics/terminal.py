"""Tables for the terminal by rich, which draws from Python's generator when it is imported: the state is put back."""

import random

_state = random.getstate()
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

random.setstate(_state)

__all__ = ["Console", "Table"]
