"""Dataclasses from their dictionaries: fields are read by their types, unknown keys are left alone."""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints


def restored(kind: Any, value: Any) -> Any:
    """The value as the type says: dataclasses from mappings, tuples from lists, NaN where a number is missing."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return None if value is None else restored(next(part for part in parts if part is not type(None)), value)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = get_type_hints(kind)
        return kind(
            **{item.name: restored(hints[item.name], value[item.name]) for item in fields(kind) if item.name in value}
        )
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {key: restored(parts[1], item) for key, item in value.items()}
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return tuple(restored(parts[0], item) for item in value)
    if kind is float:
        return math.nan if value is None else float(value)
    return value
