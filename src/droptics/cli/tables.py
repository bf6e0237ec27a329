"""Results on the terminal: a table for people, JSON for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table


def show(title: str, rows: Mapping[str, object], as_json: bool) -> None:
    """Print names and values; JSON keeps every digit and uses the names with underscores."""
    if as_json:
        print(json.dumps({name.replace(" ", "_").replace(",", ""): value for name, value in rows.items()}))
        return
    table = Table(title=title, show_header=False, title_justify="left")
    table.add_column("quantity")
    table.add_column("value", justify="right")
    for name, value in rows.items():
        table.add_row(name, _text(value))
    Console().print(table)


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (list, tuple)):
        return " to ".join(_text(item) for item in value)
    return str(value)
