"""What claims compare of affine models: least margins at corners and in a box, and what searches find."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from droptics.attacks import Apgd, Bim, Fab, Margin, Method, Pgd, Square, Threat, attack
from droptics.attacks.closed_form import affine_map, linear_attack, smallest_margins
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import Logistic
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.attacks.threat_checks import _largest
from droptics.papers.droptics_own.telling import refuses
from droptics.papers.instances import normal, tensor, uniform


def affine_models(scale: float) -> list[Comparison]:
    """Least margins of affine models at the corners of what can be reached; what is nearly affine is refused."""
    found: list[Comparison] = []
    net = nn.Sequential(nn.Flatten(), linear_head(1, 4, 3))
    inputs, labels = uniform(3, 6, 2, 2), torch.tensor([0, 1, 2, 0, 1, 2])
    matrix, offset = affine_map(net, inputs)
    head: Any = net[1]
    found.append(compare(matrix, "==", scale * head.weight, "matrix"))
    found.append(compare(offset, "==", scale * head.bias, "offset"))
    for bend in (1e-6, 1e-10, 1e-12):
        bent = lambda x, bend=bend: net(x) + bend * x.flatten(1)[:, :1].square()  # noqa: E731
        found.append(refuses(lambda bent=bent: affine_map(bent, inputs), "deviate by", f"bent by {bend}"))
    for size in (1e9, 1e-9):  # rounding is relative to the sums, and so is what is too much for it
        large = lambda x, size=size: size * net(x)  # noqa: E731
        found.append(compare(affine_map(large, inputs)[0] / size, "==", scale * head.weight, f"matrix times {size}"))
        bent = lambda x, size=size: size * (net(x) + 1e-10 * x.flatten(1)[:, :1].square())  # noqa: E731
        found.append(refuses(lambda bent=bent: affine_map(bent, inputs), "deviate by", f"bent, times {size}"))
    corners = tensor(list(itertools.product((-1.0, 1.0), repeat=4)))
    axes = torch.cat([torch.eye(4), -torch.eye(4)]).double()
    flat = inputs.flatten(1)
    for norm, ways in (("linf", corners), ("l1", axes)):
        for box in (None, (0.0, 1.0)) if norm == "linf" else (None,):  # a box cuts the corners of others
            threat = Threat(norm, 0.2, box)
            points = flat[:, None] + 0.2 * ways
            points = points if box is None else points.clamp(*box)
            outputs = points @ head.weight.mT + head.bias
            right = outputs.gather(2, labels[:, None, None].expand(-1, len(ways), 1)).squeeze(2)
            others = outputs.scatter(2, labels[:, None, None].expand(-1, len(ways), 1), -math.inf).amax(2)
            least = (right - others).amin(1)
            name = f"{norm}, box {box}"
            found.append(
                compare(smallest_margins(net, inputs, labels, threat), "==", scale * least, f"margins, {name}")
            )
            told = linear_attack(net, inputs, labels, threat)
            own = net(told).detach()
            margin = own.gather(1, labels[:, None])[:, 0] - own.scatter(1, labels[:, None], -math.inf).amax(1)
            found.append(compare(margin, "==", scale * least, f"points, {name}"))
    single = linear_head(5, 4, 1)
    signs = tensor([1.0, -1, 1, 1, -1, -1])
    told = smallest_margins(single, flat, signs, Threat("l2", 0.3))
    wanted = signs * single(flat)[:, 0] - 0.3 * single.weight.norm()
    found.append(compare(told, "==", scale * wanted.detach(), "one output"))
    l2 = smallest_margins(net, inputs, labels, Threat("l2", 0.3))
    rows = torch.arange(6)
    outputs = (flat @ head.weight.mT + head.bias).detach()
    gaps = outputs[rows, labels][:, None] - outputs - 0.3 * (head.weight[labels][:, None] - head.weight).norm(dim=2)
    gaps[rows, labels] = math.inf
    found.append(compare(l2, "==", scale * gaps.amin(1).detach(), "several outputs, l2"))
    for norm in ("l1", "l2"):
        threat = Threat(norm, 0.4, (0, 1))
        least = [
            min(
                float(z[y] - z[c]) - _largest((head.weight[c] - head.weight[y]).detach(), x, threat)
                for c in range(3)
                if c != y
            )
            for z, y, x in zip(outputs, labels.tolist(), flat, strict=True)
        ]
        told = smallest_margins(net, inputs, labels, threat)
        found.append(compare(told, "==", scale * tensor(least), f"margins in a box, {norm}", 1e-6))
    found.append(refuses(lambda: linear_attack(single, flat, signs * 2, Threat("l2", 0.3)), "-1", "labels"))
    found.append(refuses(lambda: linear_attack(net, inputs, labels + 1, Threat("l2", 0.3)), "", "classes"))
    found.append(refuses(lambda: linear_attack(net, inputs, labels[:3], Threat("l2", 0.3)), "one per example"))
    return found


def searches(reach: float) -> list[Comparison]:
    """Every search on affine classifiers: it fools an example iff the smallest margin over the ball is negative.

    Most of 60 examples are right, some within a few hundredths of the radius on either side; rows of unequal length
    bring classes within reach that are not the likeliest wrong ones. Then the two last outputs' difference, a scorer.
    """
    weights, offset = normal(11, 4, 5) * tensor([1.0, 3.0, 0.6, 1.5])[:, None], normal(12, 4)
    inputs = normal(13, 60, 5)
    of_classes: dict[str, Method] = {
        "Pgd": Pgd(Margin(target="every"), steps=20),
        "Bim": Bim(Margin(target="every"), steps=20),
        "Apgd": Apgd(Margin(target="every"), steps=20),
        "Fab": Fab(steps=20),
        "Square": Square(queries=15, restarts=15),
    }
    of_scorer: dict[str, Method] = {
        "Pgd": Pgd(Logistic(), steps=20),
        "Bim": Bim(Logistic(), steps=20),
        "Apgd": Apgd(Logistic(), steps=20),
        "Fab": Fab(steps=20),
        "Square": Square(queries=15, restarts=15),
    }

    def classes(points: Tensor) -> Tensor:
        return points @ weights.mT + offset

    def scorer(points: Tensor) -> Tensor:
        return points @ (weights[3] - weights[2]) + offset[3] - offset[2]

    labels = classes(inputs).argmax(1)
    labels[::6] = (labels[::6] + 1) % 4
    signs = torch.where(torch.arange(60) % 6 == 0, -1.0, 1.0).double() * scorer(inputs).sign()
    sides = torch.where(signs > 0, 3, 2)
    return [
        *_searched("classes", classes, Sample(inputs, labels), (weights, offset, labels), of_classes, reach),
        *_searched("scorer", scorer, Sample(inputs, signs), (weights[2:], offset[2:], sides - 2), of_scorer, reach),
    ]


def _searched(
    name: str,
    model: Callable[[Tensor], Tensor],
    data: Sample,
    affine: tuple[Tensor, Tensor, Tensor],
    methods: dict[str, Method],
    reach: float,
) -> list[Comparison]:
    weights, offset, labels = affine
    apart, scores = torch.linalg.vector_norm, data.inputs @ weights.mT + offset
    rows, others = weights[labels][:, None] - weights, torch.arange(len(weights)) != labels[:, None]
    found = []
    for norm, dual, radius in (("linf", 1, 0.28), ("l2", 2, 0.58)):
        margins = scores.gather(1, labels[:, None]) - scores - reach * radius * apart(rows, ord=dual, dim=-1)
        least = margins.masked_fill(~others, torch.inf).amin(1)
        for method, search in methods.items():
            if norm == "l2" and method in ("Bim", "Square"):  # of signs; corners are all that the other needs
                continue
            result, where = attack(model, data, Threat(norm, radius), search), f"{method} in {norm}, {name}"
            steps = apart(result.inputs - data.inputs, ord=torch.inf if norm == "linf" else 2, dim=-1)
            fooled = (result.inputs @ weights.mT + offset).argmax(1) != labels
            found.append(compare(result.success.double(), "==", (least < 0).double(), where))
            found.append(compare(fooled.double(), "==", (least < 0).double(), f"{where}, at its points"))
            found.append(compare(steps, "<=", radius, f"{where}, stays inside"))
    return found
