"""What a linear head multiplies its inputs by, read where it stands: nn.Linear, or a LoRA layer around one."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn


class HeadWeights(NamedTuple):
    """Outputs are whole @ a + bias; of `masked`, a part of `whole` or all of it, the inputs fall."""

    whole: Tensor
    masked: Tensor
    bias: Tensor | None

    def to(self, dtype: torch.dtype) -> HeadWeights:
        """The same numbers in another precision."""
        if dtype == self.whole.dtype:
            return self
        bias = None if self.bias is None else self.bias.to(dtype)
        return HeadWeights(self.whole.to(dtype), self.masked.to(dtype), bias)


def check_head(head: nn.Module) -> None:
    """Refuse what is no linear layer."""
    base = getattr(head, "base_layer", head)
    if not isinstance(base, nn.Linear):
        raise ValueError(f"head must be the nn.Linear layer that follows, or LoRA on one, got {type(head).__name__}")


def head_weights(head: Any, branch: str | None = None) -> HeadWeights:
    """The weights in use; with `branch`, only the inputs of that adapter of a LoRA layer fall."""
    if type(head) is nn.Linear and branch is None:
        return HeadWeights(whole := head.weight, whole, head.bias)
    base = getattr(head, "base_layer", head)
    whole, added, bias = base.weight, None, base.bias
    if base is not head:
        merged = bool(getattr(head, "merged", False))
        for adapter in head.active_adapters:
            if adapter not in head.lora_A:
                continue
            if adapter in getattr(head, "lora_magnitude_vector", ()):
                raise ValueError(f"head must have plain LoRA adapters, {adapter!r} has DoRA's magnitudes, too")
            first, last, scale = head.lora_A[adapter], head.lora_B[adapter], head.scaling[adapter]
            change = scale * (last.weight @ first.weight)
            added = change if adapter == branch else added
            if merged:  # the base holds the change already
                continue
            whole = whole + change
            for offset in (last.bias, None if first.bias is None else last.weight @ first.bias):
                if offset is not None:
                    bias = scale * offset + (0 if bias is None else bias)
    if branch is not None and added is None:
        raise ValueError(f"head must have {branch!r} among its active adapters, its dropout runs in no other case")
    return HeadWeights(whole, whole if added is None else added, bias)
