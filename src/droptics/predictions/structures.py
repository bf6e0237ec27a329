"""What a module is made of, as far as it decides what runs: to be compared between two calls.

Weights, buffers and modes are left out: whoever runs a module sees what they do. What is left are the classes of the
parts, the code of their `forward`, and the values that this code can read by name.
"""

from __future__ import annotations

import inspect
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from droptics.predictions.running import as_made

# Attributes that every module has.
COMMON = frozenset(vars(nn.Module()))
# Values that cannot change without being replaced by others.
FIXED = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, type, ModuleType)
CODE = (BuiltinFunctionType, CodeType, property)


def structure(module: nn.Module) -> tuple[Any, ...] | None:
    """Classes, code and the fixed values that it names, part by part; None where something may change unseen.

    That is a hook, a `forward` of one instance, a script, or an attribute, class attribute or global that is no fixed
    value: a generator, a list, a configuration. What functions read that the code calls is not followed. Cost: no pass.
    """
    if nn.modules.module._has_any_global_hook():
        return None
    found: list[Any] = []
    for part in module.modules():
        if as_made(part):
            found.append(type(part))
            continue
        if isinstance(part, torch.jit.ScriptModule):
            return None
        forward = inspect.unwrap(type(part).forward)
        own = {name: value for name, value in vars(part).items() if name not in COMMON}
        if part._forward_hooks or part._forward_pre_hooks or "forward" in own or not isinstance(forward, FunctionType):
            return None
        named = [*own.items(), *_named(type(part), forward)]
        if not all(_is_fixed(value) for _, value in named):
            return None
        found.append((type(part), forward.__code__, *named))
    return tuple(found)


def _named(kind: type[nn.Module], forward: FunctionType) -> list[tuple[str, Any]]:
    """What the names in the code of a `forward` stand for, among globals and in the classes that others wrote."""
    spaces = [forward.__globals__, *(vars(one) for one in kind.__mro__ if not one.__module__.startswith("torch."))]
    return [(name, space[name]) for name in forward.__code__.co_names for space in spaces if name in space]


def _is_fixed(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(_is_fixed(part) for part in value)
    free = isinstance(value, FunctionType) and value.__closure__ is None
    return free or isinstance(value, (*FIXED, *CODE))
