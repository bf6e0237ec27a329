"""Ascents that begin at random points, with restarts, beside loops over the examples."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from droptics.attacks.apgd import AdaptiveAscent
from droptics.attacks.ascent import Ascent
from droptics.attacks.device import DeviceAscent
from droptics.attacks.gradients import differentiable
from droptics.attacks.methods import Apgd, Pgd
from droptics.attacks.threat import Threat
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.papers.droptics_own.small_room_checks import linear_head
from droptics.papers.instances import uniform

COUNT = 12


def random_starts(scale: float) -> list[Comparison]:
    """Whoever is wrong from the start stays where it is if the fooled leave, and climbs like all if nobody does."""
    found: list[Comparison] = []
    net = nn.Sequential(linear_head(1, 6, 9), nn.ReLU(), linear_head(3, 9, 3))
    inputs = uniform(5, COUNT, 6)
    with torch.no_grad():
        labels = net(inputs).argmax(1)
    labels[::4] = (labels[::4] + 1) % 3
    wrong = torch.arange(COUNT) % 4 == 0
    for norm, radius in (("linf", 0.06), ("l2", 0.15)):
        threat = Threat(norm, radius, (0, 1))
        for stop in ("fooled", "never"):
            for restarts in (1, 2):
                method = Pgd(steps=4, step=0.3 * radius, start="random", restarts=restarts, stop=stop)
                points, fooled, counts = _climbed(net, inputs, labels, threat, method)
                for kind in (Ascent, DeviceAscent):
                    generator = torch.Generator().manual_seed(3)
                    trail = kind(differentiable(net), threat.around(inputs), labels, method, generator).run()
                    name = f"{kind.__name__}, {norm}, {stop}, {restarts}"
                    found.append(compare(trail.inputs, "==", scale * points, f"points, {name}", 1e-9))
                    told = trail.fooled.double()
                    found.append(compare(1 + told, "==", scale * (1 + fooled.double()), f"fooled, {name}"))
                    found.append(compare(trail.tally[:1], "==", scale * counts[0], f"at the start, {name}"))
                    last = trail.tally[-2]
                    found.append(compare(last, "==", scale * int(fooled.sum()), f"in the end, {name}"))
                if stop == "fooled":
                    found.append(compare(trail.inputs[wrong], "==", scale * inputs[wrong], f"left alone, {norm}"))
        adaptive = Apgd(steps=6, start="random")
        generator = torch.Generator().manual_seed(3)
        search = AdaptiveAscent(differentiable(net), threat.around(inputs), labels, adaptive, generator)
        trail = search.run()
        found.append(compare(trail.inputs[wrong], "==", scale * inputs[wrong], f"left alone, adaptive, {norm}"))
        found.append(compare(trail.fooled[wrong].double(), "==", scale, f"and counted, {norm}"))
        found.append(compare(int(trail.tally[0]), "==", scale * 3, f"from the start, adaptive, {norm}"))
    return found


def _climbed(
    net: nn.Module, inputs: Tensor, labels: Tensor, threat: Threat, method: Pgd
) -> tuple[Tensor, Tensor, list[float]]:
    """Best points, who is fooled, and how many are at the first look: one example after the other."""
    generator = torch.Generator().manual_seed(3)
    sizes = [0.3 * threat.radius] * method.steps
    with torch.no_grad():
        fooled = (net(inputs).argmax(1) != labels) & (method.stop == "fooled")
    best, value, counts = inputs.clone(), torch.full((COUNT,), -math.inf).double(), []
    for _ in range(method.restarts):
        rows = torch.arange(COUNT) if method.stop == "never" else (~fooled).nonzero()[:, 0]
        starts = threat.around(inputs[rows]).random(generator)
        seen = fooled.clone()
        for row, start in zip(rows.tolist(), starts, strict=True):
            point, clean = start.clone(), inputs[row]
            for number in range(method.steps + 1):
                leaf = point.clone().requires_grad_()
                outputs = net(leaf[None])
                loss = CrossEntropy()(outputs, labels[row : row + 1])[0]
                (slope,) = torch.autograd.grad(loss, leaf)
                over = int(outputs.argmax()) != int(labels[row])
                ahead = float(loss.detach()) > float(value[row])
                if (over and not fooled[row]) or (over == bool(fooled[row]) and ahead):
                    best[row], value[row] = point, float(loss.detach())
                fooled[row] |= over
                seen[row] |= over and number == 0
                if (over and method.stop == "fooled") or number == method.steps:
                    break
                way = slope.sign() if threat.norm == "linf" else slope / slope.norm()
                move = point + sizes[number] * way - clean
                if threat.norm == "linf":
                    move = move.clamp(-threat.radius, threat.radius)
                else:
                    move = move * min(1.0, threat.radius / float(move.norm()))
                point = (clean + move).clamp(0, 1)
        counts.append(float(seen.sum()))
    return best, fooled, counts
