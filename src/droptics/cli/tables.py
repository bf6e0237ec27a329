"""Results on the terminal: a table for people, JSON for programs.

rich, which draws from Python's generator when it is loaded, waits for the first table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence


def show(title: str, rows: Mapping[str, object], as_json: bool) -> None:
    """Print names and values; JSON keeps every digit and uses the names with underscores."""
    if as_json:
        print(json.dumps({name.replace(" ", "_").replace(",", ""): value for name, value in rows.items()}))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column("quantity")
    table.add_column("value", justify="right")
    for name, value in rows.items():
        table.add_row(name, _text(value))
    Console(markup=False, emoji=False).print(table)  # the brackets of E[x_i x_j] are no style


def listed(rows: Sequence[Mapping[str, str]], as_json: bool = False, title: str = "", whole: str = "id") -> None:
    """Print records with the same keys, one a line, the column `whole` without breaks; JSON for programs."""
    if as_json:
        print(json.dumps(list(rows), indent=1))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=title or None, title_justify="left")
    for name in rows[0] if rows else ():
        table.add_column(name, overflow="fold", no_wrap=name == whole)
    for row in rows:
        table.add_row(*row.values())
    Console(markup=False, emoji=False).print(table)  # the brackets of E[x_i x_j] are no style


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return " to ".join(_text(item) for item in value)
    return str(value)
