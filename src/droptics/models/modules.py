"""Torch modules from outside: modes and hooks for a while, and linear layers that draw no random numbers.

Threads share modules, and an interrupt may come between any two instructions. So hooks only see the calls of the
thread that set them, a mode is put back when its last user leaves, and what is put back is put back twice: undoing is
safe to repeat, and one interrupt cannot stop both.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

_TABLES = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_forward_hooks_always_called",
    "_forward_hooks_with_kwargs",
    "_forward_pre_hooks_with_kwargs",
)


@dataclass
class _Mode:
    """The mode of a module before anyone changed it, and who has it changed at present."""

    own: bool
    users: set[object] = field(default_factory=set)


_MODES: dict[int, _Mode] = {}
_LOCK = threading.RLock()


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Evaluation mode for a while; every sub-module's own flag is restored, also after an exception.

    What is not a module has no mode and stays as it is. Where several threads evaluate one module, the last of them
    restores.
    """
    parts = list(model.modules()) if isinstance(model, nn.Module) else []
    token = object()
    try:
        try:
            with _LOCK:
                for part in parts:
                    mode = _MODES.get(id(part))
                    if mode is None:
                        mode = _MODES[id(part)] = _Mode(part.training)
                    mode.users.add(token)
                if isinstance(model, nn.Module):
                    # Exported programs have one fixed mode and refuse to change it.
                    with suppress(NotImplementedError):
                        model.eval()
            yield
        finally:
            _restore(parts, token)
    finally:
        _restore(parts, token)


def _restore(parts: Iterable[nn.Module], token: object) -> None:
    with _LOCK:
        for part in parts:
            mode = _MODES.get(id(part))
            if mode is not None:
                mode.users.discard(token)
                if not mode.users:
                    if part.training != mode.own:
                        part.training = mode.own
                    del _MODES[id(part)]


class Hook:
    """A hook that only sees the calls of the thread that made it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function, self.thread = function, threading.get_ident()

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments) if threading.get_ident() == self.thread else None


@contextmanager
def hooked(
    before: Iterable[tuple[nn.Module, Callable[..., Any]]] = (),
    after: Iterable[tuple[nn.Module, Callable[..., Any]]] = (),
    *,
    always: bool = False,
) -> Iterator[None]:
    """Forward hooks before and after modules for a while, for the calls of this thread alone.

    `always` calls the later ones also when the forward pass fails.
    """
    first, second = ([(part, Hook(function)) for part, function in pairs] for pairs in (before, after))
    own = {hook for _, hook in (*first, *second)}
    parts = [part for part, _ in (*first, *second)]
    try:
        try:
            for part, hook in first:
                part.register_forward_pre_hook(hook)
            for part, hook in second:
                part.register_forward_hook(hook, always_call=always)
            yield
        finally:
            unhook(parts, own.__contains__)
    finally:
        unhook(parts, own.__contains__)


def unhook(parts: Iterable[nn.Module], mine: Callable[[Any], bool]) -> None:
    """Take away the forward hooks that are `mine`; handles are not needed, so none can be lost."""
    for part in parts:
        for table in _TABLES[:2]:
            held = getattr(part, table, None)
            for key, hook in list(held.items()) if held else ():
                if isinstance(hook, Hook) and mine(hook):
                    for name in _TABLES[::-1]:  # the hook itself last: an interrupt before it is made good
                        getattr(part, name, {}).pop(key, None)


def is_plain_linear(layer: nn.Linear) -> bool:
    """Whether what the layer returns is its weights times its input plus its bias: nobody has a hand in between."""
    hooks = layer._forward_hooks or nn.modules.module._global_forward_hooks
    return type(layer) is nn.Linear and "forward" not in vars(layer) and not hooks


def linear_layer(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A linear layer with copies of these weights; the global generator stays where it is."""
    layer = nn.Linear.__new__(nn.Linear)  # whose constructor draws weights, even where there is no memory for them
    nn.Module.__init__(layer)
    layer.out_features, layer.in_features = weight.shape
    for name, value in (("weight", weight), ("bias", bias)):
        copied = None if value is None else value.detach().clone(memory_format=torch.contiguous_format)
        layer.register_parameter(name, None if copied is None else nn.Parameter(copied))
    return layer
