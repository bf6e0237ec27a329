"""Torch modules from outside: evaluation mode for a while, and linear layers that draw no random numbers.

Threads share modules, and an interrupt may come between any two instructions. So a mode is put back when its last user
leaves, and twice: undoing is safe to repeat, and one interrupt cannot stop both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn


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

    What is not a module has no mode and stays as it is. Of several threads the last one restores.
    """
    parts = list(model.modules()) if isinstance(model, nn.Module) else []
    if not any(part.training or id(part) in _MODES for part in parts):  # and nobody will restore another mode
        return (yield)
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
