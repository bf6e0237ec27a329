"""Torch modules from outside: evaluation mode for a while, and linear layers that draw no random numbers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import torch
from torch import Tensor, nn


@contextmanager
def evaluating(model: object) -> Iterator[None]:
    """Evaluation mode for a while; every sub-module's own flag is restored, also after an exception.

    What is not a module has no mode and stays as it is.
    """
    flags = [(part, part.training) for part in model.modules()] if isinstance(model, nn.Module) else []
    try:
        if isinstance(model, nn.Module):
            # Exported programs have one fixed mode and refuse to change it.
            with suppress(NotImplementedError):
                model.eval()
        yield
    finally:
        for part, flag in flags:
            part.training = flag


def linear_layer(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A linear layer with copies of these weights; the global generator stays where it is."""
    layer = nn.utils.skip_init(
        nn.Linear, weight.shape[1], weight.shape[0], bias=bias is not None, dtype=weight.dtype, device=weight.device
    )
    assert isinstance(layer, nn.Linear)
    with torch.no_grad():
        layer.weight.copy_(weight)
        if bias is not None:
            layer.bias.copy_(bias)
    return layer
