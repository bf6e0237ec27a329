"""What an attack climbs: the margin, reflected losses, and the gradient of every loss with respect to the outputs.

A loss l of the margin z reflected about the origin is l_-(z) = -l(-z): a concave lower bound of the 0-1 loss where l
is a convex upper bound. In a binary problem both have input gradients along -y grad f and differ only in the length
of the step, sigmoid(z) against sigmoid(-z), which vanishes for confident examples. With several classes the margin
to one wrong class takes the place of z, and which wrong class is aimed at matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from droptics.arguments import ClassNumbers, Count, Rows, check_arguments, check_fields, checked_fields
from droptics.checks import check_size
from droptics.losses import CrossEntropy, Logistic, Loss, binary_margin, check_labels

# From this confidence on p - 1 loses digits, and the softmax over the wrong classes gives the same direction exactly.
_SATURATED = math.log(0.999)

Target = Literal["nearest", "greedy", "every"]
Ends = tuple[float, float] | None  # the smallest and the largest label, where they are known


@dataclass(frozen=True)
@checked_fields
class Margin(Loss):
    """Minus the margin: max over wrong classes of z_j - z_y, or -y f for one output and labels y = -1 or +1.

    With several classes an attack aims at one wrong class as `target` and `candidates` say (see `Reflected`).
    "greedy", the most likely wrong class of every iterate, is what other libraries do; it may turn back and forth
    between classes.
    """

    target: Target = "nearest"
    candidates: Count = 9

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -margins(outputs, targets)


@dataclass(frozen=True)
class Reflected(Loss):
    """The loss reflected about the origin, -l(-z) with z the margin.

    `Reflected(Logistic())` is -log(1 + exp(y f)). `Reflected(CrossEntropy())` is -log(1 + exp(z_y - z_j)) with j a
    wrong class: each such function is concave for linear models and 1 + loss / log 2 is a lower bound of the 0-1 loss.
    Called as a loss it takes the most likely wrong class, the largest of these values; an attack aims as `target` says:

    - "nearest": the class of smallest linearized distance (z_y - z_j) / ||grad z_y - grad z_j||, in the dual of the
      threat's norm, which is the best one for linear models; restarts go on to the next nearest,
    - "greedy": the most likely wrong class of the current iterate,
    - "every": every wrong class in turn, the nearest first.

    `candidates` limits how many wrong classes "nearest" and "every" look at, the most likely ones first.
    Claims: thesis-eq6.2, thesis-alg5, thesis-fig6-1.
    """

    loss: Loss
    target: Target = "nearest"
    candidates: Count = 9

    def __post_init__(self) -> None:
        check_fields(self)
        if not isinstance(self.loss, (CrossEntropy, Logistic, Margin)):
            raise ValueError(
                f"loss must be a function of the margin (CrossEntropy, Logistic or Margin) to be reflected, "
                f"got {type(self.loss).__name__}"
            )

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        margin = (binary_margin if isinstance(self.loss, Logistic) else margins)(outputs, targets)
        return -margin if isinstance(self.loss, Margin) else -functional.softplus(margin)


@dataclass(frozen=True)
@checked_fields
class Dlr(Loss):
    """The difference of logits ratio, -(z_y - z_j) / (z_(1) - z_(3)), with z_(k) the k-th largest output.

    It sees neither the scale nor the offset of the outputs, so that no loss of precision hides behind large logits
    (Croce and Hein 2020). Aimed at a class, the last term of the ratio is (z_(3) + z_(4)) / 2, so that it cannot
    vanish with the numerator. `target` and `candidates` are those of `Reflected`; with fewer than four classes the
    smallest output takes the place of the missing ones.
    """

    target: Target = "greedy"
    candidates: Count = 9

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -margins(outputs, targets) / _spread(outputs, aimed=False)


Aiming = Margin | Reflected | Dlr


def _spread(outputs: Tensor, aimed: bool) -> Tensor:
    """What the ratio divides by: z_(1) - z_(3), or z_(1) - (z_(3) + z_(4)) / 2 for an aimed loss; positive."""
    classes = outputs.shape[-1]
    top = outputs.topk(min(4, classes), dim=-1).values
    third = top[..., min(2, classes - 1)]
    low = (third + top[..., min(3, classes - 1)]) / 2 if aimed else third
    return (top[..., 0] - low).clamp_min(torch.finfo(outputs.dtype).tiny)


def margins(outputs: Rows, targets: ClassNumbers) -> Tensor:
    """z_y minus the largest other output, or y f for one output; positive where the prediction is right.

    Cost: O(n classes). Claim: none, a definition.
    """
    check_arguments(margins, locals())
    check_size("targets", len(targets), outputs.shape[-2] if outputs.ndim > 1 else 1, "one per example of outputs")
    if outputs.shape[-1] == 1:
        return binary_margin(outputs, targets)
    check_labels(targets, outputs.shape[-1])
    return _margins(outputs, targets.expand(outputs.shape[:-1]))


def values(loss: Loss, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Loss and margin per example, for labels that were checked before."""
    if outputs.shape[-1] == 1:
        return loss(outputs, targets), margins(outputs, targets)
    margin = _margins(outputs, targets)
    if type(loss) is CrossEntropy:
        return functional.cross_entropy(outputs, targets, reduction="none"), margin
    if isinstance(loss, Margin) or (isinstance(loss, Reflected) and isinstance(loss.loss, Margin)):
        return -margin, margin
    return -functional.softplus(margin) if isinstance(loss, Reflected) else loss(outputs, targets), margin


def _margins(outputs: Tensor, targets: Tensor) -> Tensor:
    index = targets.unsqueeze(-1)
    return outputs.gather(-1, index).squeeze(-1) - _wrong(outputs, index).amax(-1)


def label_range(targets: Tensor) -> tuple[Tensor, Tensor] | None:
    """The smallest and the largest label, still on their device; None where there are no class labels."""
    if targets.is_floating_point() or targets.dtype == torch.bool or targets.ndim != 1 or targets.numel() == 0:
        return None
    return tuple(targets.aminmax())  # type: ignore[return-value]


def check_problem(loss: Loss, outputs: Tensor, targets: Tensor, ends: Ends = None) -> None:
    """Refuse a loss that does not fit the outputs, or labels that are not classes of them.

    `ends` are the smallest and the largest label where they are known: asking a GPU for them stalls it.
    """
    inner = loss.loss if isinstance(loss, Reflected) else loss
    if outputs.shape[-1] == 1:
        if isinstance(inner, (CrossEntropy, Dlr)):
            name = type(inner).__name__
            raise ValueError(f"loss is {name} but the model has one output; use Logistic with labels -1 and +1")
        binary_margin(outputs, targets)
        return
    if isinstance(inner, Dlr) and outputs.shape[-1] < 3:
        raise ValueError("loss is Dlr, a ratio of three outputs, but the model has two; use Margin")
    if isinstance(inner, Logistic):
        raise ValueError(f"loss is Logistic but the model has {outputs.shape[-1]} outputs; use CrossEntropy")
    if ends is None:
        found = label_range(targets)
        ends = None if found is None else tuple(torch.stack(found).tolist())
    if ends is None or ends[0] < 0 or ends[1] >= outputs.shape[-1]:
        check_labels(targets, outputs.shape[-1])


def mistaken(outputs: Tensor, targets: Tensor) -> Tensor:
    """Which predictions are wrong: argmax against the label, or a score without the sign of the label.

    Outputs that are not finite predict nothing and count as wrong.
    """
    if outputs.shape[-1] == 1:
        return ~(outputs.squeeze(-1) * targets.reshape(-1) > 0) | unfinite(outputs)
    return (outputs.argmax(-1) != targets) | unfinite(outputs)


def unfinite(outputs: Tensor) -> Tensor:
    """Which rows hold an infinity or what is no number: zero times it is no number, and differs from zero."""
    return (outputs * 0).sum(-1) != 0


def beaten(outputs: Tensor, targets: Tensor, slack: float = 0.0) -> Tensor:
    """Which predictions are wrong beyond doubt: some output above that of the right class, or one that is not finite.

    Above by more than `slack` times the largest. Without it, differs from `mistaken` only where two outputs are equal,
    which an argmax decides by position.
    """
    if outputs.shape[-1] == 1:
        return mistaken(outputs, targets)
    most = outputs.amax(-1) if slack == 0 else outputs.amax(-1) - slack * outputs.abs().amax(-1)
    return (outputs.gather(-1, targets.unsqueeze(-1)).squeeze(-1) < most) | unfinite(outputs)


def value_and_slope(
    loss: Loss, outputs: Tensor, targets: Tensor, aims: Tensor | None = None, *, scaled: bool = True
) -> tuple[Tensor, Tensor]:
    """Loss per example and its gradient with respect to the outputs, for labels that were checked before.

    With `scaled=False` only the direction of the gradient counts, and a positive factor that could underflow is left
    out: a normalized or sign step then never dies of a saturated loss. `aims` holds the wrong class that a reflected
    loss looks at; without it, the most likely one.
    """
    inner = loss.loss if isinstance(loss, Reflected) else loss
    if isinstance(loss, CrossEntropy):
        return _cross_entropy(outputs, targets, scaled)
    if isinstance(loss, Dlr) and aims is not None:
        return _by_autograd(lambda z: _gap(z, targets, aims) / _spread(z, aimed=True), outputs)
    if not isinstance(inner, (CrossEntropy, Logistic, Margin)):
        return _by_autograd(lambda z: loss(z, targets), outputs)
    if outputs.shape[-1] == 1:
        signs = targets.reshape(-1, 1).to(outputs.dtype)
        best = z = outputs * signs
        away = -signs
    else:
        index = targets.unsqueeze(-1)
        top, likely = _wrong(outputs, index).max(-1, keepdim=True)
        right = outputs.gather(-1, index)
        best = right - top
        aim = likely if aims is None else aims.unsqueeze(-1)
        z = best if aims is None else right - outputs.gather(-1, aim)
        ones = torch.ones_like(best)
        away = torch.zeros_like(outputs).scatter_(-1, aim, ones).scatter_(-1, index, -ones)
    if isinstance(inner, Margin):
        return -best.squeeze(-1), away
    if isinstance(loss, Reflected):
        return -functional.softplus(best).squeeze(-1), away * torch.sigmoid(z) if scaled else away
    return functional.softplus(-best).squeeze(-1), away * torch.sigmoid(-z) if scaled else away


def aimed(loss: Loss, outputs: Tensor, targets: Tensor, aims: Tensor | None) -> tuple[Tensor, Tensor]:
    """The loss that a search aimed at these classes climbs, and the direction of its gradient in the outputs.

    `value_and_slope` ranks points by the nearest boundary whatever the aim; a search that adapts its steps has to
    see the very function whose gradient it follows.
    """
    value, slope = value_and_slope(loss, outputs, targets, aims, scaled=False)
    if aims is None or isinstance(loss, Dlr):
        return value, slope
    return _gap(outputs, targets, aims), slope  # every aimed loss rises with it, and it saturates nowhere


def _gap(outputs: Tensor, targets: Tensor, aims: Tensor) -> Tensor:
    right, other = (outputs.gather(-1, index.unsqueeze(-1)).squeeze(-1) for index in (targets, aims))
    return other - right


def _cross_entropy(outputs: Tensor, targets: Tensor, scaled: bool) -> tuple[Tensor, Tensor]:
    index = targets.unsqueeze(-1)
    logs = functional.log_softmax(outputs, -1)
    right = logs.gather(-1, index)
    slope = logs.exp().scatter_(-1, index, right.exp() - 1.0)
    # Asking a GPU whether any is saturated costs more than treating all as if they were.
    if not scaled and (outputs.device.type != "cpu" or float(right.max()) > _SATURATED):
        others = functional.softmax(_wrong(outputs, index), -1).scatter_(-1, index, -1.0)
        slope = torch.where(right > _SATURATED, others, slope)
    return -right.squeeze(-1), slope


def _by_autograd(loss: Callable[[Tensor], Tensor], outputs: Tensor) -> tuple[Tensor, Tensor]:
    with torch.enable_grad():
        leaf = outputs.detach().requires_grad_()
        values = loss(leaf)
        (slope,) = torch.autograd.grad(values.sum(), leaf)
    return values.detach(), slope


def _wrong(outputs: Tensor, index: Tensor) -> Tensor:
    """The outputs with the right class taken out of every maximum."""
    return outputs.scatter(-1, index, float("-inf"))
