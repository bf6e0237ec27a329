"""Rows of finished cells, read by column for comparing and drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from droptics.evidence.engines import Row


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
