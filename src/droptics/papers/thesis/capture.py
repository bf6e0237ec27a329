"""Steps of small networks on a GPU: recorded once, replayed many times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor


def captured(advance: Callable[[], Tensor], state: Sequence[Tensor]) -> Callable[[], Tensor]:
    """The function itself, or on a GPU a replay of its kernels; `state` is what it changes and stays as it is here.

    A step of a small network is some dozens of kernels of microseconds each, less than it takes to launch them one by
    one. The function must read its inputs from tensors that stay in place; its result is overwritten by each replay.
    """
    if state[0].device.type != "cuda":
        return advance
    before = [tensor.detach().clone() for tensor in state]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):  # libraries choose their kernels and workspaces before the recording
            advance()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = advance()
    with torch.no_grad():
        for tensor, old in zip(state, before, strict=True):
            tensor.copy_(old)

    def replay() -> Tensor:
        graph.replay()
        return result

    return replay
