"""What a forward pass writes on its modules, put back afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn


@contextmanager
def unwritten(module: nn.Module) -> Iterator[None]:
    """Put back attributes of all parts, and what their lists and dictionaries hold.

    Forward passes keep attention, count calls, fill caches, assign buffers. What one copy wrote is no part of the next
    one's start, and what vmap wrote is a tensor that nobody else can read. Lazy layers keep what they have become.
    """
    lazy = nn.modules.lazy.LazyModuleMixin, torch.jit.ScriptModule
    parts = [part for part in module.modules() if not isinstance(part, lazy)]
    before = [(part, {name: (value, _inside(value)) for name, value in vars(part).items()}) for part in parts]
    try:
        yield
    finally:
        for part, own in before:
            for name in vars(part).keys() - own.keys():
                del vars(part)[name]
            for name, (value, inside) in own.items():
                vars(part)[name] = value
                _fill(value, inside)


def _inside(value: Any) -> Any:
    return value.copy() if isinstance(value, (dict, list)) else None


def _fill(value: Any, inside: Any) -> None:
    if isinstance(value, list):
        value[:] = inside
    elif isinstance(value, dict):
        value.clear()
        value.update(inside)
