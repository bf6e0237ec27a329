"""Rows, the plain dicts that cells return: into a table, and read again by column for comparing and drawing."""

from __future__ import annotations

import csv
import io
import math
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


def mean(values: Sequence[float]) -> float:
    """Mean of the values that are numbers; NaN when there are none."""
    good = [float(value) for value in values if value is not None and not math.isnan(float(value))]
    return sum(good) / len(good) if good else math.nan


def column(rows: Sequence[Row], name: str, **where: Any) -> list[Any]:
    """The values of a column in the rows that match."""
    return [row[name] for row in rows if name in row and all(row.get(key) == value for key, value in where.items())]


def distinct(rows: Sequence[Row], name: str, **where: Any) -> list[Any]:
    """The different values of a column, in order of appearance."""
    return list(dict.fromkeys(column(rows, name, **where)))


def curve(rows: Sequence[Row], x: str, y: str, **where: Any) -> tuple[list[float], list[float]]:
    """Two columns of the rows that match, for drawing."""
    return column(rows, x, **where), column(rows, y, **where)
