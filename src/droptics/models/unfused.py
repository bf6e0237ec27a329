"""Attention and stacked recurrent layers written out, so that their dropout is a tensor that can be given.

The fused functions draw their masks inside and show nothing of them. Written out they compute the same numbers up to
rounding, and multiply what dropout would hit by multipliers from outside.
"""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

# What dropout would hit, in; the same or a masked copy, out.
Masking = Callable[[Tensor], Tensor]


def attention(  # parameters: those of the function that it stands for
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    masking: Masking,
) -> Tensor:
    """`scaled_dot_product_attention` with the dropout on the attention weights given; `dropout_p` is not looked at."""
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if enable_gqa:
        key = key.repeat_interleave(query.shape[-3] // key.shape[-3], -3)
        value = value.repeat_interleave(query.shape[-3] // value.shape[-3], -3)
    scores = (query * scale) @ key.mT
    if is_causal:
        ahead = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).triu(1)
        scores = scores.masked_fill(ahead, -math.inf)
    if attn_mask is None:
        return masking(scores.softmax(-1)) @ value
    scores = scores.masked_fill(~attn_mask, -math.inf) if attn_mask.dtype == torch.bool else scores + attn_mask
    # a row without any key, and its gradient, are NaN by the formula; torch has zeros
    empty = (scores == -math.inf).all(-1, keepdim=True)
    weights = scores.masked_fill(empty, 0.0).softmax(-1).masked_fill(empty, 0.0)
    return masking(weights) @ value


def multi_head(masking: Masking) -> Callable[..., Any]:
    """`multi_head_attention_forward` with the dropout on the attention weights given.

    Torch's own code, in which the two functions that drop are replaced: a copy, nothing of torch is changed.
    """
    own = functional.multi_head_attention_forward

    def attend(*arguments: Any, **options: Any) -> Tensor:
        return attention(*arguments, **options, masking=masking)

    names = {
        **own.__globals__,
        "has_torch_function": lambda _: False,
        "scaled_dot_product_attention": attend,
        "dropout": lambda weights, p=0.0, training=True: masking(weights),
    }
    copied = types.FunctionType(own.__code__, names, own.__name__, own.__defaults__, own.__closure__)
    copied.__kwdefaults__ = own.__kwdefaults__
    return copied


def recurrent(function: Callable[..., Any], values: list[Any], masking: Masking) -> Any:
    """`torch.lstm` and its relatives layer by layer, with the dropout between layers given; no packed sequences."""
    inputs, state, parameters, biases, layers, _, _, both, batch_first = values
    directions, size = 2 if both else 1, len(parameters) // layers
    ends = []
    for number in range(layers):
        part = slice(number * directions, (number + 1) * directions)
        start = tuple(item[part] for item in state) if isinstance(state, (tuple, list)) else state[part]
        own = parameters[number * size : (number + 1) * size]
        inputs, *last = function(inputs, start, own, biases, 1, 0.0, False, both, batch_first)
        ends.append(last)
        if number < layers - 1:
            inputs = masking(inputs)
    return (inputs, *(torch.cat(part, 0) for part in zip(*ends, strict=True)))
