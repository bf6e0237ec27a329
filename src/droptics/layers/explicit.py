"""Dropout without noise: the identity forwards, and the exact penalty for the loss."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.arguments import DropRate, check_arguments
from droptics.checks import as_drop, check_size
from droptics.data import Sample
from droptics.estimates import Estimate
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import Bernoulli
from droptics.models import LastLayer
from droptics.models.modules import linear_layer
from droptics.penalties import MonteCarlo, SecondOrder, penalty


class ExplicitDropout(nn.Module):
    """Replaces nn.Dropout before a linear layer: passes features on unchanged and keeps the penalty dropout would add.

    For squared loss E_mask ||head(z o a) - y||^2 = ||head(a) - y||^2 + drop / (1 - drop) sum_j a_j^2 ||w_j||^2
    (mianjy2018-lemA.1), so `loss + layer.penalty` has exactly the expectation of the loss under dropout, and no
    variance. For CrossEntropy and Logistic the penalty is the second-order term with the Hessian by formula, an
    approximation whose error `check` measures. In evaluation mode the penalty is zero. Leading dimensions of the
    features are examples.

        head = nn.Linear(512, 10)
        explicit = ExplicitDropout(0.5, head)
        net = nn.Sequential(body, explicit, head)
        loss = (net(x) - y).square().sum(-1).mean() + explicit.penalty

    Args:
        drop: The rate, the `p` of nn.Dropout.
        head: The linear layer that follows; it is referred to, not owned: its parameters stay where they are.
        loss: Loss of the head's outputs.
        over: "examples" for a loss averaged over examples (the convention of this library), "elements" for one that
            also averages over outputs, as nn.MSELoss() does.
    """

    def __init__(
        self,
        drop: DropRate,
        head: nn.Linear,
        loss: Loss = Squared(),  # noqa: B008 - a frozen value
        *,
        over: Literal["examples", "elements"] = "examples",
    ) -> None:
        check_arguments(ExplicitDropout.__init__, locals())
        super().__init__()
        if not isinstance(head, nn.Linear):
            raise ValueError(f"head must be the nn.Linear layer that follows, got {type(head).__name__}")
        if not isinstance(loss, (Squared, CrossEntropy, Logistic)):
            raise ValueError(f"loss must be Squared(), CrossEntropy() or Logistic(), got {type(loss).__name__}")
        if over not in ("examples", "elements"):
            raise ValueError(f"over must be 'examples' or 'elements', got {over!r}")
        if over == "elements" and not isinstance(loss, Squared):
            raise ValueError("over='elements' is for squared loss; other losses give one number per example")
        self.drop = float(as_drop(drop))
        self.loss, self.over = loss, over
        # in a tuple, so that the head is not registered a second time
        self._head = (head,)
        self.penalty: Tensor = torch.zeros(())

    @property
    def p(self) -> float:
        """The rate, under the name nn.Dropout uses."""
        return self.drop

    @property
    def head(self) -> nn.Linear:
        """The layer whose dropout penalty is kept."""
        return self._head[0]

    def forward(self, input: Tensor) -> Tensor:
        """Return the input; in training mode `penalty` becomes that of this batch, else zero."""
        check_size("input (last dimension)", input.shape[-1], self.head.in_features, "the inputs of the head")
        if self.training and self.drop > 0:
            self.penalty = self.drop / (1 - self.drop) * self._energy(input.reshape(-1, input.shape[-1]))
        else:
            self.penalty = input.new_zeros((), dtype=torch.promote_types(input.dtype, torch.float32))
        return input

    def _energy(self, features: Tensor) -> Tensor:
        """sum_j E a_j^2 w_j^T H w_j / 2."""
        # squares of half-precision numbers overflow and their sums round, whoever chose that precision
        with torch.autocast(features.device.type, enabled=False):
            wide = torch.promote_types(torch.promote_types(features.dtype, self.head.weight.dtype), torch.float32)
            features, weight = features.to(wide), self.head.weight.to(wide)
            if isinstance(self.loss, Squared):
                energy = features.square().mean(0) @ weight.square().sum(0)
                return energy / weight.shape[0] if self.over == "elements" else energy
            bias = None if self.head.bias is None else self.head.bias.to(wide)
            outputs = functional.linear(features, weight, bias)
            # neither curvature depends on the label
            curvatures = self.loss.curvatures(outputs, outputs.new_zeros(0), weight)
            return 0.5 * (features.square() * curvatures).sum(-1).mean()

    def check(self, input: Tensor, method: MonteCarlo = MonteCarlo(samples=400)) -> Estimate:  # noqa: B008
        """The second-order penalty of these features with the interval of the true one beside it.

        The approximation is outside its range where its value lies outside the interval (confident heads at large
        rates); the method text states the measured error. What masks add needs no labels, because they leave the mean
        of every output as it is. Costs `method.samples` passes through the head.
        """
        if isinstance(self.loss, Squared):
            raise ValueError("loss is Squared(), for which the penalty is exact: there is nothing to check")
        features = input.detach().reshape(-1, input.shape[-1])
        wide = torch.promote_types(torch.promote_types(features.dtype, self.head.weight.dtype), torch.float32)
        bias = None if self.head.bias is None else self.head.bias.detach().to(wide)
        head = linear_layer(self.head.weight.detach().to(wide), bias).requires_grad_(False)
        labels = torch.ones(len(features), dtype=torch.long, device=features.device)
        if isinstance(self.loss, CrossEntropy):
            labels = labels - 1
        sample = Sample(features.to(wide), labels)
        masks = Bernoulli(self.drop, self.head.in_features)
        with torch.autocast(features.device.type, enabled=False):
            return penalty(LastLayer.of(head), sample, masks, SecondOrder(check=method), self.loss)

    def __getstate__(self) -> dict[str, Any]:
        # a penalty belongs to its batch and its graph; neither is copied or saved
        return {**self.__dict__, "penalty": torch.zeros(())}

    def extra_repr(self) -> str:
        """The settings, for printing."""
        return f"drop={self.drop}, loss={type(self.loss).__name__}, over={self.over!r}"


def explicit_penalty(module: nn.Module) -> Tensor:
    """Sum of the penalties that the ExplicitDropout layers of a module hold after a forward pass.

    Cost: a sum over the layers. Claim: none, a sum.
    """
    check_arguments(explicit_penalty, locals())
    penalties = [layer.penalty for layer in module.modules() if isinstance(layer, ExplicitDropout)]
    if not penalties:
        raise ValueError(f"module must hold an ExplicitDropout layer, {type(module).__name__} has none")
    return torch.stack(penalties).sum()
