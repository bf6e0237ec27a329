"""What the claim on ensembles compares of affine models: least margins at corners, and by linear programs in a box."""

from __future__ import annotations

import itertools
import math
from typing import Any

import torch
from torch import nn

from droptics.attacks import Threat
from droptics.attacks.closed_form import affine_map, linear_attack, smallest_margins
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.small_room_checks import linear_head
from droptics.papers.droptics_own.telling import refuses
from droptics.papers.droptics_own.threat_checks import _largest
from droptics.papers.instances import tensor, uniform


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
