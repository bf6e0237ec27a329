"""What the claims of chapter 6 on classes compare: two, the grid example, targets, a multi-class reflected loss."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import torch
from torch import nn

from droptics.attacks import (
    Bim,
    CrossEntropy,
    Fgsm,
    LinearExact,
    Logistic,
    Margin,
    Pgd,
    Reflected,
    Threat,
    attack,
)
from droptics.data import Sample
from droptics.evidence.claims import Comparison, Relation, compare
from droptics.papers.instances import normal, tensor, uniform


def two_classes() -> list[Comparison]:
    """FGSM and BIM on two outputs with cross-entropy, reflected or not, are those on their difference."""
    found, module = [], nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 2)).double()
    last = nn.Linear(2, 1, bias=False).double()
    difference = nn.Sequential(module, last)
    with torch.no_grad():
        for seed, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(seed, *parameter.shape))
        last.weight.copy_(tensor([[-1.0, 1.0]]))
    X, y = normal(5, 12, 4), (normal(6, 12) > 0).long()
    for threat in (Threat("linf", 0.2), Threat("l2", 0.5)):
        for method in (Fgsm(Logistic()), Bim(Logistic(), 4, 0.4 * threat.radius)):
            alone = attack(difference, Sample(X, 2 * y[:, None].double() - 1), threat, method).inputs
            for loss in (CrossEntropy(), Reflected(CrossEntropy())):
                inputs = attack(module, Sample(X, y), threat, replace(method, loss=loss)).inputs
                found.append(compare(inputs, "==", alone, f"{type(method).__name__}, {threat.norm}, two outputs"))
    return found


def grid_point(norm: float, relation: Relation) -> list[Comparison]:
    """The example point [-.501, .5, 0] against the stated radius; it flips the label and lies in the cube."""
    point = tensor([-0.501, 0.5, 0.0])
    moved = tensor([3.0, 2.0, 1.0]) + point
    return [
        compare(point.norm(), relation, norm, "norm of the example", precision=1e-6),
        compare(moved[1], ">", moved[0], "the second class wins"),
        compare(point.abs(), "<", 0.51, "inside the cube"),
    ]


def flips_exist(radius: float) -> list[Comparison]:
    """X = (3,2,1), identity scores: the best margin change is sqrt(2) radius against a gap of 1.

    No step of a fine grid of the sphere leaves a smaller margin, and the library's own point has the margin it states.
    So has its point at a radius too small for a flip.
    """
    module = nn.Linear(3, 3, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(torch.eye(3))
    data = Sample(tensor([[3.0, 2.0, 1.0]]), torch.tensor([0]))
    hit, short = (attack(module, data, Threat("l2", size), LinearExact()) for size in (radius, 0.5))
    turn, rise = (torch.linspace(-math.pi, math.pi, count, dtype=torch.float64) for count in (361, 181))
    around = torch.cartesian_prod(turn, rise / 2)
    flat = around[:, 1].cos()
    sphere = torch.stack([around[:, 0].cos() * flat, around[:, 0].sin() * flat, around[:, 1].sin()], 1)
    best, (first, second, third) = 1 - math.sqrt(2) * radius, hit.inputs[0].tolist()
    tried = data.inputs + radius * sphere
    margins = tried[:, 0] - torch.maximum(tried[:, 1], tried[:, 2])
    return [
        compare(hit.margins[0], "==", best, "best margin"),
        compare(short.margins[0], "==", 1 - math.sqrt(0.5), "best margin at radius 1/2"),
        compare(first - max(second, third), "==", best, "margin of its point"),
        compare(margins, ">=", best, "margins on the sphere"),
        compare(margins.min(), "==", best, "least margin on the sphere"),
        compare(hit.margins[0], "<", 0.0, "a flip exists", precision=1e-6),
        compare(float(data.inputs.argmax()), "==", 0.0, "the label is that of the first score"),
        compare(float(hit.inputs.argmax()), "==", 1.0, "another one at its point"),
        compare([float(one.success[0]) for one in (hit, short)], "==", [1.0, 0.0], "which attack succeeds"),
        compare((hit.inputs - data.inputs).norm(), "<=", radius, "inside the ball"),
        compare((hit.inputs - data.inputs).abs(), "<", 0.51, "inside the cube"),
    ]


def _three_class(steepness: float, shared: float) -> tuple[nn.Module, Sample]:
    module = nn.Linear(2, 3, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(tensor([[2.0, 0.0], [1.0, 0.0], [0.0, steepness]]) + tensor([shared, 0.0]))
    return module, Sample(tensor([[1.0, 0.0]]), torch.tensor([0]))


def greedy_target(steepness: float) -> list[Comparison]:
    """Rows 2e1, e1, 10e2 at x = e1, radius .3: the most likely wrong class cannot be reached, the nearest one can.

    The boundary to the class of row `steepness` e2 is 2 / sqrt(4 + steepness^2) away, that to the other one 1. Margins
    of the attacked points are written out; nowhere in the disk is the second score above the first. In random linear
    models of four classes the attack on the nearest class succeeds exactly where some class is within reach, in every
    norm.

    The printed model also with 8 e1 added to every row, which moves no boundary: differences of rows are what counts.
    """
    angle = torch.linspace(0, 2 * math.pi, 721, dtype=torch.float64)
    tried = 1 + 0.3 * angle.cos()
    found = [compare(2 * tried, ">", tried, "the likeliest wrong class on the circle")]
    rules: tuple[tuple[str, Relation], ...] = (("greedy", ">"), ("nearest", "<"))
    for shared, (target, relation) in itertools.product((0.0, 8.0), rules):
        module, data = _three_class(steepness, shared)
        method = Pgd(Reflected(CrossEntropy(), target=target), steps=40)  # type: ignore[arg-type]
        hit, name = attack(module, data, Threat("l2", 0.3), method), f"{target}, {shared} e1 in every row"
        first, second = hit.inputs[0].tolist()
        margin = 2 * first - max(first, steepness * second)
        found.append(compare(margin, relation, 0.0, f"margin with target rule {name}"))
        found.append(compare(hit.margins[0], "==", margin, f"margin of the library, {name}"))
        found.append(compare((hit.inputs - data.inputs).norm(), "<=", 0.3, f"inside the ball, {name}"))
    several, inputs = nn.Linear(3, 4).double(), normal(3, 40, 3)
    with torch.no_grad():
        several.weight.copy_(normal(1, 4, 3))
        several.bias.copy_(normal(2, 4))
        scores = several(inputs)
        labels = scores.argmax(1)
    for norm, dual, radius in (("l2", 2.0, 0.3), ("linf", 1.0, 0.15), ("l1", math.inf, 0.4)):
        apart = torch.linalg.vector_norm(several.weight[labels][:, None] - several.weight, dual, dim=2).detach()
        distances = (scores.max(1, keepdim=True).values - scores) / apart
        distances[torch.arange(40), labels] = math.inf
        reach, threat = distances.min(1).values, Threat(norm, radius)
        hit = attack(several, Sample(inputs, labels), threat, Pgd(Reflected(CrossEntropy(), target="nearest"), steps=2))
        found.append(compare((reach - radius).abs(), ">", 1e-3, f"no boundary at the radius, {norm}"))
        named = f"four classes, nearest target, {norm}"
        found.append(compare((hit.margins < 0).double(), "==", (reach < radius).double(), named))
    return found + [_of_twelve(steepness, candidates) for candidates in (10, 11)]


def _of_twelve(steepness: float, candidates: int) -> Comparison:
    """The class within reach is the least likely of eleven: an attack that looks at ten of them leaves the label."""
    module, data = nn.Linear(2, 12, bias=False).double(), Sample(tensor([[1.0, 0.0]]), torch.tensor([0]))
    rows = torch.zeros(12, 2, dtype=torch.float64)
    rows[0, 0], rows[1:11, 0], rows[11, 1] = 2.0, torch.linspace(1.0, 0.9, 10), steepness
    with torch.no_grad():
        module.weight.copy_(rows)
    method = Pgd(Reflected(CrossEntropy(), target="nearest", candidates=candidates), steps=2)
    margin = attack(module, data, Threat("l2", 0.3), method).margins[0]
    return compare(margin, "<" if candidates == 11 else ">", 0.0, f"twelve classes, {candidates} looked at")


def multi_class_margin(base: float) -> list[Comparison]:
    """-log(1 + exp(z_y - max_{j != y} z_j)), raised by one in units of log `base`, is below the 0-1 error.

    Two to five classes, ties, margins near zero and beyond what the exponential can hold. The largest of the losses for
    one wrong class each, of which every one is concave in the outputs; their largest is not.
    """
    found = []
    for seed, (classes, size) in enumerate(((4, 1.0), (2, 1.0), (3, 1e-3), (5, 30.0), (3, 1e3))):
        outputs, labels = size * normal(seed + 1, 50, classes), (uniform(seed + 2, 50) * classes).long()
        outputs[0], labels[0] = 1.0, 0  # a tie, called right
        gaps = [[float(z[y] - z[j]) for j in range(classes) if j != y] for z, y in zip(outputs, labels, strict=True)]
        stated = tensor([max(-max(gap, 0.0) - math.log1p(math.exp(-abs(gap))) for gap in row) for row in gaps])
        value = Reflected(CrossEntropy())(outputs, labels)
        found.append(compare(value, "==", stated, f"{classes} classes"))
        found.append(compare(Margin()(outputs, labels), "==", tensor([-min(row) for row in gaps]), "minus the margin"))
        wrong = tensor([float(min(row) < 0) for row in gaps])
        found.append(compare(1 + value / math.log(base), "<=", wrong, f"below the 0-1 error, {classes} classes"))
    ends = Reflected(CrossEntropy())(
        tensor([[0.0, 4.0, -4.0], [0.0, -4.0, 4.0], [0.0, 0.0, 0.0]]), torch.zeros(3).long()
    )
    return [*found, compare(ends[:2].mean(), ">", ends[2], "between two wrong classes: not concave")]
