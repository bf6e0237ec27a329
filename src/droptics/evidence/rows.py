"""Rows, the plain dicts that cells return: into files, and into a table."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import Any

from droptics.evidence.engines import Row


def plain_value(value: Any) -> Any:
    """A number, string or None for a row: tensors and NumPy scalars become Python numbers."""
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (list, tuple)):
        return [plain_value(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise ValueError(f"a row may hold numbers, strings, lists of them and None, got {type(value).__name__}")


def as_csv(rows: Sequence[Row]) -> str:
    """Rows as CSV with the union of their columns, in order of first appearance."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()
