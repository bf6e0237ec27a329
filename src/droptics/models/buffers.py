"""Buffers of modules (running statistics, counters) as they were before passes in training mode."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress

import torch
from torch import Tensor, nn


class Buffers:
    """What the buffers of parts hold; passes may write to them, or put others of their kind in their place.

    One of another shape, dtype or device is a table made anew, of whose size the module may know elsewhere: it stays.
    """

    def __init__(self, parts: Iterable[nn.Module]) -> None:
        named = [(part, name, buffer) for part in parts for name, buffer in part._buffers.items()]
        self._held = [(part, name, buffer) for part, name, buffer in named if buffer is not None]
        self._values = [buffer.detach().clone() for *_, buffer in self._held]

    def put_back(self) -> None:
        """Write to those that moved alone; each device is asked once. Torch does not count all writes of statistics."""
        for part, name, buffer in self._held:
            now = getattr(part, name, None)
            if now is not buffer and isinstance(now, Tensor) and _kind(now) == _kind(buffer):
                setattr(part, name, buffer)
        pairs = [(buffer, value) for (*_, buffer), value in zip(self._held, self._values, strict=True)]
        with torch.no_grad():
            for device in {buffer.device for buffer, _ in pairs}:
                here = [pair for pair in pairs if pair[0].device == device]
                moved = torch.stack([(buffer != value).any() for buffer, value in here])
                for buffer, value in compress(here, moved.tolist()):
                    buffer.copy_(value)


def _kind(buffer: Tensor) -> tuple[object, ...]:
    return buffer.shape, buffer.dtype, buffer.device
