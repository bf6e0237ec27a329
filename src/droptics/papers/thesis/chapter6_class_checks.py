"""What the claims of chapter 6 on three classes compare: the grid example, targets, a multi-class reflected loss."""

from __future__ import annotations

import math

import torch
from torch import nn

from droptics.attacks import (
    CrossEntropy,
    LinearExact,
    Margin,
    Pgd,
    Reflected,
    Threat,
    attack,
)
from droptics.data import Sample
from droptics.evidence.claims import Comparison, Relation, compare
from droptics.papers.instances import normal, tensor, uniform


def grid_point(norm: float, relation: Relation) -> list[Comparison]:
    """The example point [-.501, .5, 0] against the stated radius."""
    return [compare(tensor([-0.501, 0.5, 0.0]).norm(), relation, norm, "norm of the example", precision=1e-6)]


def flips_exist(radius: float) -> list[Comparison]:
    """X = (3,2,1), identity scores: the best margin change is sqrt(2) radius against a gap of 1."""
    module = nn.Linear(3, 3, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(torch.eye(3))
    data = Sample(tensor([[3.0, 2.0, 1.0]]), torch.tensor([0]))
    hit = attack(module, data, Threat("l2", radius), LinearExact())
    return [
        compare(hit.margins[0], "==", 1 - math.sqrt(2) * radius, "best margin"),
        compare(hit.margins[0], "<", 0.0, "a flip exists", precision=1e-6),
        compare((hit.inputs - data.inputs).abs(), "<", 0.51, "inside the cube"),
    ]


def _three_class(steepness: float = 10.0) -> tuple[nn.Module, Sample]:
    module = nn.Linear(2, 3, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(tensor([[2.0, 0.0], [1.0, 0.0], [0.0, steepness]]))
    return module, Sample(tensor([[1.0, 0.0]]), torch.tensor([0]))


def greedy_target(steepness: float) -> list[Comparison]:
    """Rows 2e1, e1, 10e2 at x = e1, radius .3: the most likely wrong class cannot be reached, the nearest one can.

    The boundary to the class of row `steepness` e2 is 2 / sqrt(4 + steepness^2) away, that to the other one 1.
    """
    module, data = _three_class(steepness)
    found = []
    for target, relation in (("greedy", ">"), ("nearest", "<")):
        method = Pgd(Reflected(CrossEntropy(), target=target), steps=40)  # type: ignore[arg-type]
        hit = attack(module, data, Threat("l2", 0.3), method)
        found.append(compare(hit.margins[0], relation, 0.0, f"margin with target rule {target}"))  # type: ignore[arg-type]
    return found


def multi_class_margin(sign: float) -> list[Comparison]:
    """The reflected multi-class loss is -log(1 + exp(z_y - z_j)): concave for linear scores, below the 0-1 error."""
    outputs = normal(1, 50, 4)
    labels = (uniform(2, 50) * 4).long()
    value = Reflected(CrossEntropy())(outputs, labels)
    margin = -Margin()(outputs, labels)
    wrong = (outputs.argmax(1) != labels).double()
    return [
        compare(value, "==", -nn.functional.softplus(sign * margin), "margin form"),
        compare(1 + value / math.log(2), "<=", wrong, "below the 0-1 error"),
    ]
