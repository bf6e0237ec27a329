"""Text and tables as Markdown shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

SPECIAL = re.compile(r"([\\`*_\[\]<>$#{}~])")


def escape(text: str) -> str:
    """Text that Markdown shows as it is."""
    return SPECIAL.sub(r"\\\1", text)


def table(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows as a Markdown table with the union of their columns; a column that is empty everywhere is left out."""
    found = list(rows)
    columns = [
        name
        for name in dict.fromkeys(name for row in found for name in row)
        if any(row.get(name, "") != "" for row in found)
    ]
    lines = ["| " + " | ".join(map(escape, columns)) + " |", "|" + "---|" * len(columns)]
    for row in found:
        cells = (escape(str(row.get(name, ""))).replace("|", "\\|") for name in columns)
        lines.append("| " + " | ".join(cells) + " |")
    return lines
