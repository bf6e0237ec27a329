"""DropConnect: a linear layer that drops weights instead of units."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.arguments import Count, Device, DropRate, check_arguments
from droptics.checks import as_drop


class DropConnect(nn.Linear):
    """A linear layer whose weights fall independently with probability `drop` in training mode, the rest rescaled.

    Parameters and state dictionary are those of nn.Linear; in evaluation mode it is one. One mask serves a batch;
    with `per_example=True` every example has its own, at the cost of a weight matrix per example. The bias is never
    dropped. With squared loss on its outputs the expected loss gains drop / (1 - drop) sum_k ||w_k||^2 E a_k^2, exactly
    as for dropout of its inputs (pal2020-thm4.1, the companion that holds for the last weights).
    """

    def __init__(  # parameters: those of nn.Linear and two
        self,
        in_features: Count,
        out_features: Count,
        drop: DropRate = 0.5,
        *,
        bias: bool = True,
        per_example: bool = False,
        device: Device | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_arguments(DropConnect.__init__, locals())
        super().__init__(in_features, out_features, bias=bias, device=device, dtype=dtype)
        self.drop = float(as_drop(drop))
        self.per_example = bool(per_example)

    @staticmethod
    def of(linear: nn.Linear, drop: float = 0.5, *, per_example: bool = False) -> DropConnect:
        """The same layer (its parameters are shared, not copied) with weights that drop."""
        layer = DropConnect(1, 1, drop, per_example=per_example)
        layer.in_features, layer.out_features = linear.in_features, linear.out_features
        layer.weight, layer.bias = linear.weight, linear.bias
        return layer

    @property
    def p(self) -> float:
        """The rate, under the name nn.Dropout uses."""
        return self.drop

    def forward(self, input: Tensor) -> Tensor:
        """Apply the layer, with a fresh mask in training mode."""
        if not self.training or self.drop == 0:
            return functional.linear(input, self.weight, self.bias)
        if not self.per_example:
            return functional.linear(input, self._masked(self.weight), self.bias)
        masked = self._masked(self.weight.expand(*input.shape[:-1], *self.weight.shape))
        result = (masked @ input.unsqueeze(-1)).squeeze(-1)
        return result if self.bias is None else result + self.bias.to(result.dtype)

    def _masked(self, weight: Tensor) -> Tensor:
        """Weights after dropout; in half precision only the product is rounded, not the factor 1 / (1 - drop)."""
        if weight.dtype.itemsize >= 4:
            return functional.dropout(weight, self.drop)
        return functional.dropout(weight.float(), self.drop).to(weight.dtype)

    def extra_repr(self) -> str:
        """The settings, for printing."""
        return f"{super().extra_repr()}, drop={self.drop}, per_example={self.per_example}"
