"""The state of a module and of the process while others look at it: put back afterwards, whatever happened."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from droptics.models.buffers import Buffers
from droptics.models.hooks import unhook

# An audit draws from the generators that the whole process shares: one at a time.
_ONE_AT_A_TIME = threading.RLock()


@contextmanager
def undisturbed(module: nn.Module, seed: int) -> Iterator[list[int]]:
    """Restore the modes of all sub-modules, buffers and every random generator afterwards; draws start from `seed`.

    Other threads that audit wait until this one is done; an interrupt leaves no mode, hook or random state behind.
    Yields the GPUs of the module, whose generators are among these.
    """
    with _ONE_AT_A_TIME:
        state, restored = _State.of(module), False
        try:
            try:
                reseed(int(seed), state.devices)
                yield state.devices
            finally:
                state.restore()
                restored = True
        finally:
            if not restored:  # an interrupt stopped the first
                state.restore()


def reseed(seed: int, devices: list[int]) -> None:
    """Start the generators that the whole process shares; callers put their states back (`undisturbed`)."""
    random.seed(seed)
    np.random.seed(seed % 2**32)  # noqa: NPY002 - layers that others wrote draw from it
    torch.default_generator.manual_seed(seed)  # torch.manual_seed would also seed devices not put back
    for index in devices:
        torch.cuda.default_generators[index].manual_seed(seed)


@dataclass(frozen=True)
class _State:
    """What an audit may change: modes, buffers, random generators, hooks of its own."""

    parts: list[nn.Module]
    flags: list[bool]
    buffers: Buffers
    devices: list[int]
    generators: tuple[Any, Any, Tensor, list[Tensor]]

    @staticmethod
    def of(module: nn.Module) -> _State:
        parts, tensors = list(module.modules()), [*module.parameters(), *module.buffers()]
        devices = sorted({tensor.device.index or 0 for tensor in tensors if tensor.device.type == "cuda"})
        cuda = [torch.cuda.get_rng_state(index) for index in devices]
        arrays = np.random.get_state()  # noqa: NPY002 - the caller's state is put back
        generators = random.getstate(), arrays, torch.get_rng_state(), cuda
        return _State(parts, [part.training for part in parts], Buffers(parts), devices, generators)

    def restore(self) -> None:
        thread = threading.get_ident()
        unhook(self.parts, lambda hook: hook.thread == thread)
        for part, flag in zip(self.parts, self.flags, strict=True):
            part.training = flag
        python, arrays, tensors, cuda = self.generators
        random.setstate(python)
        np.random.set_state(arrays)  # noqa: NPY002
        torch.set_rng_state(tensors)
        for index, state in zip(self.devices, cuda, strict=True):
            torch.cuda.set_rng_state(state, index)
        self.buffers.put_back()


@contextmanager
def unmoved(module: nn.Module) -> Iterator[None]:
    """Put buffers (running statistics, counters) back after passes in training mode."""
    before = Buffers(module.modules())
    try:
        yield
    finally:
        before.put_back()


def training_without_statistics(module: nn.Module, quiet: Iterable[str] = ()) -> None:
    """Training mode, but layers that keep running statistics stay in evaluation mode: only dropout is active.

    So do parts that are named as `quiet`, but not what they contain.
    """
    for part in module.modules():
        part.training = not hasattr(part, "running_mean")
    for name in quiet:
        module.get_submodule(name).training = False


def set_training(module: nn.Module, training: bool) -> None:
    """Training or evaluation mode, also for exported modules, which refuse `.train()` and `.eval()`."""
    for part in [part for part in module.modules() if part.training is not training]:
        part.training = training
