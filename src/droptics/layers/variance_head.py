"""Mean and variance of a masked head in one forward pass, to deploy instead of many passes with dropout left on."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn import functional

from droptics.arguments import check_arguments
from droptics.checks import as_drop, check_size


class VarianceHead(nn.Module):
    """Features to (mean, variance) of head(dropout(features)): what repeated passes converge to (droptics-predictive).

    mean = W a + b and variance = (lambda W o W) (a o a), lambda = drop / (1 - drop): one more product of matrices, no
    random numbers, the same in training and evaluation mode. It exports like any layer. The head is shared, not copied:
    while it trains, the variance follows.

        body, head = net[:-2], net[-1]                  # net ends with Dropout(0.5), Linear
        sure = nn.Sequential(body, VarianceHead(head, 0.5))
        mean, variance = sure(x)

    Args:
        head: The linear layer behind the dropout.
        drop: Its rate, or one rate per feature.
        full: Return the covariance (..., outputs, outputs) instead of the variance.
    """

    strength: Tensor

    def __init__(self, head: nn.Linear, drop: float | Tensor, *, full: bool = False) -> None:
        check_arguments(VarianceHead.__init__, locals())
        super().__init__()
        rate = as_drop(drop)
        if rate.ndim:
            check_size("drop", rate.numel(), head.in_features, "one rate per feature")
        self.head, self.full = head, bool(full)
        strength = (rate / (1 - rate)).expand(head.in_features).to(head.weight.device, head.weight.dtype)
        self.register_buffer("strength", strength.detach().clone())

    def forward(self, input: Tensor) -> tuple[Tensor, Tensor]:
        """Mean (..., outputs) and variance (..., outputs) or covariance (..., outputs, outputs)."""
        weight = self.head.weight
        mean = functional.linear(input, weight, self.head.bias)
        if self.full:
            root = (input * self.strength.sqrt()).unsqueeze(-2) * weight
            return mean, root @ root.transpose(-1, -2)
        return mean, functional.linear(input.square(), weight.square() * self.strength)

    def extra_repr(self) -> str:
        """The settings, for printing."""
        return f"full={self.full}"
