"""Launches of Triton's kernels that cost the host little, for kernels shorter than Triton's own way to a launch."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

_READY: dict[tuple[object, ...], Any] = {}  # compiled kernels by all that Triton compiles them for
_FIRST = (3, 3)  # before, a compiled kernel took its arguments without the constants among them


def launch(
    kernel: Any, programs: int, arguments: Sequence[Any], constants: Mapping[str, Any], options: Mapping[str, Any]
) -> None:
    """`kernel[(programs,)](*arguments, **constants, **options)`, the second time by addresses.

    Triton looks at every argument, writes a key of what it saw and asks the driver for every address, some 0.1 ms of
    the host. Here a kernel that was launched with arguments of the same kinds is launched again by their addresses: the
    same types, alignments, ones and multiples of 16 on the same device, which is all that Triton compiles for.
    """
    place = torch.cuda.current_device() if arguments[0].is_cuda else "cpu"
    addresses = [value.data_ptr() if isinstance(value, Tensor) else value for value in arguments]
    kinds = [_kind(value, address) for value, address in zip(arguments, addresses, strict=True)]
    key = (id(kernel), place, *kinds, *constants.values(), *options.values())  # kernels live as long as their modules
    ready = _READY.get(key)
    if ready is None:
        found = kernel[(programs,)](*arguments, **constants, **options)
        if found is not None and _takes_constants():  # the interpreter returns nothing
            _READY[key] = found
        return
    named = [constants[name] for name in kernel.arg_names[len(addresses) :]]
    ready[(programs, 1, 1)](*addresses, *named)


def _kind(value: Any, address: Any) -> object:
    """What Triton may compile a kernel anew for."""
    if value is not address:
        return value.dtype, address % 16 == 0
    return (value == 1, value % 16 == 0, -(2**31) <= value < 2**31) if isinstance(value, int) else type(value)


def _takes_constants() -> bool:
    """By the module, which has launched something already: the package goes by several names."""
    return tuple(int(part) for part in sys.modules["triton"].__version__.split(".")[:2]) >= _FIRST
