"""What a module is made of, as far as it decides what runs: to be compared between two calls.

Weights, buffers and modes are left out: whoever runs a module sees what they do. What is left are the classes of the
parts, the code of their `forward` and of all that it calls, and the values that this code can read by name.
"""

from __future__ import annotations

import dis
from functools import lru_cache
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from droptics.predictions.running import as_made

# Attributes that every module has.
COMMON = frozenset(vars(nn.Module()))
# Values that cannot change without being replaced by others.
FIXED = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
BUILT_IN = (BuiltinFunctionType, type, ModuleType)
# Libraries whose functions keep nothing of their own from call to call but what is watched: generators and modes.
KNOWN = frozenset(["torch", "math", "builtins", "operator", "typing", "collections"])
# Names by which code reaches what no name of it stands for, or makes random numbers that nobody watches.
HIDING = frozenset(["getattr", "globals", "locals", "vars", "eval", "exec", "open", "__dict__", "__import__"])
HIDING |= {"Generator", "fork_rng", "ops"}
# What a class can put in front of `forward`.
AROUND = ("__call__", "_call_impl", "_wrapped_call_impl", "__getattr__", "__getattribute__")


def structure(module: nn.Module) -> tuple[Any, ...] | None:
    """Classes, code and the fixed values that it names, part by part; None where something may change unseen.

    That is a hook, a `forward` of one instance, a script, or an attribute, class attribute or global that is no fixed
    value: a generator, a list, a configuration. Functions are followed into their own code, globals and closures;
    what other libraries than torch do is not known. Cost: no pass.
    """
    if nn.modules.module._has_any_global_hook():
        return None
    walk = _Walk()
    for part in module.modules():
        walk.found.append(type(part))
        if not as_made(part) and not walk.part(part):
            return None
    return tuple(walk.found) if walk.finished() else None


class _Walk:
    """Code that was reached, and the values that its names stand for."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self.names: set[str] = set()
        self.spaces: dict[int, Any] = {}  # classes and libraries that others wrote
        self.functions: dict[int, FunctionType] = {}
        self.waiting: list[FunctionType] = []

    def part(self, part: nn.Module) -> bool:
        """Look at a part that others wrote; False where it may change unseen."""
        if isinstance(part, torch.jit.ScriptModule):
            return False
        kind, forward = type(part), type(part).forward
        own = {name: value for name, value in vars(part).items() if name not in COMMON}
        written = [one for one in kind.__mro__ if not _is_known(one)]
        hooked = part._forward_hooks or part._forward_pre_hooks or "forward" in own
        around = any(name in vars(one) for one in written for name in AROUND)
        if hooked or around or not isinstance(forward, FunctionType):
            return False
        self.spaces.update((id(one), one) for one in written)
        return self._function(forward) and all(self._value(name, value) for name, value in own.items())

    def finished(self) -> bool:
        """Follow the code until it names nothing new; False where it names what may change unseen."""
        looked: set[tuple[int, str]] = set()
        while True:
            new = [(key, name) for key in self.spaces for name in self.names if (key, name) not in looked]
            if not new and not self.waiting:
                return True
            looked.update(new)
            values = [(name, vars(self.spaces[key])[name]) for key, name in new if name in vars(self.spaces[key])]
            while self.waiting:
                function = self.waiting.pop()
                names = _names(function.__code__)
                if names is None:
                    return False
                own, others = names
                self.names |= others
                values += [(name, function.__globals__[name]) for name in own if name in function.__globals__]
                values += [("", cell.cell_contents) for cell in function.__closure__ or ()]
                values += [("", value) for value in function.__defaults__ or ()]
                values += list((function.__kwdefaults__ or {}).items())
            if not all(self._value(name, value) for name, value in values):
                return False

    def _function(self, function: FunctionType) -> bool:
        self.found.append(function.__code__)
        if not _is_known(function) and id(function) not in self.functions:
            self.functions[id(function)] = function
            self.waiting.append(function)
        return vars(function).keys() <= {"__wrapped__"}

    def _value(self, name: str, value: Any) -> bool:
        """Keep a value that cannot change, follow one that can be followed; False for all others."""
        if isinstance(value, FIXED):
            self.found.append((name, type(value), value))
            return True
        if isinstance(value, tuple):
            return all(self._value(name, part) for part in value)
        if isinstance(value, (staticmethod, classmethod, property)):
            inside = (value.fget, value.fset, value.fdel) if isinstance(value, property) else value.__func__
            return self._value(name, inside)
        if isinstance(value, FunctionType):
            return self._function(value)
        self.found.append((name, value))
        if isinstance(value, ModuleType) and not _is_known(value):
            self.spaces[id(value)] = value
        return id(value) in self.spaces or (isinstance(value, BUILT_IN) and _is_known(value))


def _is_known(value: Any) -> bool:
    """Whether a function, class or library is torch's or Python's own."""
    if isinstance(value, FunctionType):
        name = value.__globals__.get("__name__")  # a wrapper may carry the name of what it wraps
    elif isinstance(value, ModuleType):
        name = value.__name__
    else:
        name = value.__module__ or getattr(type(getattr(value, "__self__", None)), "__module__", "")
    return str(name).partition(".")[0] in KNOWN


@lru_cache(1024)
def _names(code: CodeType) -> tuple[frozenset[str], frozenset[str]] | None:
    """Globals and attributes in a function and in those that it defines; None where it hides what it reads."""
    steps = list(dis.get_instructions(code))
    own = {step.argval for step in steps if "GLOBAL" in step.opname or step.opname == "LOAD_NAME"}
    others = set(code.co_names) - own | {
        step.argval for step in steps if "ATTR" in step.opname or "METHOD" in step.opname
    }
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found = _names(inner)
            if found is None:
                return None
            own, others = own | found[0], others | found[1]
    hides = any(step.opname == "IMPORT_NAME" for step in steps) or (own | others) & HIDING
    return None if hides else (frozenset(own), frozenset(others))
