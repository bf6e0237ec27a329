"""Steps of small networks on a GPU: recorded once, replayed many times."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from droptics.gpu.graphs import captured as recorded


def captured(advance: Callable[[], Tensor], state: Sequence[Tensor]) -> Callable[[], Tensor]:
    """The function itself, or on a GPU a replay of its kernels; `state` is what it changes and stays as it is here.

    The function must read its inputs from tensors that stay in place; its result is overwritten by each replay.
    """
    device = state[0].device
    if device.type != "cuda":
        return advance
    before = [tensor.detach().clone() for tensor in state]
    result = advance().detach().clone()
    for tensor, old in zip(state, before, strict=True):
        tensor.detach().copy_(old)
    step = recorded(lambda: result.copy_(advance().detach()), device, state)

    def replay() -> Tensor:
        step()
        return result

    return replay
