"""Steps recorded on a GPU: the kernels of a step launched as one, as often as wanted.

A step of a small model is some dozens of kernels of microseconds each, less than it takes to launch them one by one.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_FULL = 0.5  # share of the device's memory from which what recordings left behind is given back


def captured(
    step: Callable[[], object], device: torch.device, state: Sequence[Tensor] = (), *, rehearsals: int = 3
) -> Callable[[], object]:
    """The step as one launch on a GPU; the step itself elsewhere, and where it cannot be recorded.

    A recording repeats the same kernels on the same memory. So the step has to ask the device nothing, to read from
    tensors that stay in place, and to write what is wanted into such tensors; what it returns is lost. It is to be
    replayed on the stream on which it was recorded. Recordings of one stream share the memory of their intermediate
    results: they need no more of it than the largest, and none of it is taken anew.

    Args:
        step: What to record.
        device: Where it runs.
        state: What the rehearsals change and must not: it is afterwards what it was before.
        rehearsals: Runs before the recording, in which libraries choose kernels and workspaces; 0 after the same step.
    """
    if device.type != "cuda":
        return step
    before = [tensor.detach().clone() for tensor in state]
    with torch.cuda.device(device):
        replay = _recorded(step, rehearsals)
    with torch.no_grad():
        for tensor, old in zip(state, before, strict=True):
            tensor.copy_(old)
    return step if replay is None else replay


def _recorded(step: Callable[[], object], rehearsals: int) -> Callable[[], object] | None:
    """A replay of the step, which is not run while it is recorded; None where the device refuses.

    The context manager of torch collects garbage and empties the cache each time: longer than a hundred replays.
    """
    here = torch.cuda.current_stream()
    studio = _studio(here)
    graph = torch.cuda.CUDAGraph()
    studio.stream.wait_stream(here)
    try:
        with torch.cuda.stream(studio.stream):
            for _ in range(rehearsals):
                step()
            studio.record(graph, step)
    except RuntimeError:
        _known().clear()  # the memory of a recording that broke off takes no other
        return None
    finally:
        here.wait_stream(studio.stream)
    return graph.replay


class _Studio:
    """A stream to record on and the memory of the recordings, which lives as long as one of them does."""

    def __init__(self) -> None:
        self.stream = torch.cuda.Stream()
        self._pool = torch.cuda.graph_pool_handle()
        self._anchor = torch.cuda.CUDAGraph()
        with torch.cuda.stream(self.stream):
            self.record(self._anchor, lambda: torch.zeros(1, device=self.stream.device))

    def record(self, graph: torch.cuda.CUDAGraph, step: Callable[[], object]) -> None:
        graph.capture_begin(self._pool, capture_error_mode="thread_local")
        try:
            step()
        finally:
            graph.capture_end()


_studios = threading.local()


def _known() -> dict[tuple[int, int], _Studio]:
    return _studios.__dict__.setdefault("known", {})


def _studio(here: torch.cuda.Stream) -> _Studio:
    """That of this thread and stream, so that no two replays at a time use the same memory."""
    known, key = _known(), (here.device_index, here.cuda_stream)
    free, total = torch.cuda.mem_get_info()
    if free < (1 - _FULL) * total:
        known.clear()
        torch.cuda.empty_cache()
    if key not in known:
        known[key] = _Studio()
    return known[key]
