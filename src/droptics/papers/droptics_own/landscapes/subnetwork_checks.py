"""What the claim on sub-networks compares: outputs and accuracies without the other units."""

from __future__ import annotations

import torch

from droptics.coadaptation import evaluate, evenness, subnetwork_outputs
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.models import ReLUNet, TwoLayerLinear
from droptics.papers.instances import normal, simplex, tensor, uniform


def subnetworks(scale: float) -> list[Comparison]:
    """Outputs and accuracies of sub-networks, kept units times 1.7, against networks without the other units."""
    labels = torch.arange(60) % 3
    data = Sample(normal(1, 60, 4), labels, 3 * simplex(9, 60))
    kept = (uniform(2, 7, 5) < 0.6).double()
    net = ReLUNet([normal(3, 5, 4), normal(4, 3, 5)], [normal(5, 5), 2 * normal(6, 3)])
    plain = TwoLayerLinear(normal(7, 3, 5), normal(8, 4, 5))
    deep = ReLUNet(
        [normal(10, 6, 4), normal(11, 5, 6), normal(12, 3, 5)], [normal(13, 6), normal(14, 5), normal(15, 3)]
    )
    first = torch.relu(data.inputs @ deep.weights[0].mT + deep.biases[0])
    hidden = [torch.relu(data.inputs @ net.weights[0].mT + net.biases[0]), data.inputs @ plain.V]
    hidden.append(torch.relu(first @ deep.weights[1].mT + deep.biases[1]))
    tops = [(net.weights[1], net.biases[1]), (plain.U, torch.zeros(3, dtype=torch.float64))]
    tops.append((deep.weights[2], deep.biases[2]))
    found = []
    for model, features, (top, offset) in zip((net, plain, deep), hidden, tops, strict=True):
        outputs = torch.stack([features * mask * scale @ top.mT + offset for mask in kept])
        name = type(model).__name__
        found.append(
            compare(subnetwork_outputs(model, data.inputs, kept, scale=1.7), "==", outputs, f"outputs, {name}")
        )
        right = (outputs.argmax(-1) == labels).double() @ data.shares
        judged = evaluate(model, data, kept, scale=1.7)
        found.append(compare(judged.accuracies, "==", right, f"accuracies, {name}"))
        full = ((features @ top.mT + offset).argmax(-1) == labels).double() @ data.shares
        found.append(compare(judged.full, "==", full, f"full network, {name}"))
    single, sides = (
        ReLUNet([net.weights[0], normal(4, 1, 5)], [net.biases[0], torch.zeros(1).double()]),
        torch.where(labels > 0, 1, -1),
    )
    outputs = torch.stack([hidden[0] * mask * scale @ single.weights[1].mT for mask in kept])[..., 0]
    for targets in (sides, (labels > 0).long(), sides.double()):
        for weights in (None, data.weights):
            known = Sample(data.inputs, targets, weights)
            judged = evaluate(single, known, kept, scale=1.7)
            right = (outputs * sides > 0).double() @ known.shares
            found.append(compare(judged.accuracies, "==", right, f"one output, weighed {weights is not None}"))
    for flow in (tensor([3.0, 0.0, 4.0, 0.0]), uniform(9, 7), torch.ones(5).double()):
        wanted = flow.sum() / (len(flow) * flow.square().sum()).sqrt()
        found.append(compare(evenness(flow), "==", wanted, "evenness"))
    return found
