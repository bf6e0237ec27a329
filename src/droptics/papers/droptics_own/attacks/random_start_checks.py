"""Ascents that begin at random or at given points, with restarts or side by side, beside loops over the examples."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from droptics.attacks.apgd import AdaptiveAscent
from droptics.attacks.ascent import Ascent
from droptics.attacks.asking import AskingAscent
from droptics.attacks.device import DeviceAscent
from droptics.attacks.gradients import differentiable
from droptics.attacks.known import Known
from droptics.attacks.losses import Margin
from droptics.attacks.methods import Apgd, Pgd
from droptics.attacks.threat import Threat
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.papers.droptics_own.across.small_room_checks import linear_head
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
        far = inputs + radius * (3 * uniform(7, COUNT, 6) - 1.5)
        begins: dict[str, Any] = {"random": "random", "the inputs": "input", "given points": far}
        for stop in ("fooled", "never"):
            for begin, start in begins.items():  # of the first run, the second one begins at random
                method = Pgd(steps=4, step=0.3 * radius, start=start, restarts=2, stop=stop)
                points, fooled, counts = _climbed(net, inputs, labels, threat, method)
                for kind in (Ascent, DeviceAscent):
                    generator = torch.Generator().manual_seed(3)
                    trail = kind(differentiable(net), threat.around(inputs), labels, method, generator).run()
                    name = f"{kind.__name__}, {norm}, {stop}, {begin}"
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
    return [*found, *_still(scale), *_restarted(scale), *_side_by_side(scale)]


def _still(scale: float) -> list[Comparison]:
    """Where the network is flat nobody moves from a random start; that is far from the input, and yet to be stuck.

    The others climb 40 (x - 1/2) to the end of the ball, or are fooled.
    """
    net = nn.Sequential(linear_head(1, 1, 1), nn.ReLU(), linear_head(1, 1, 2))
    with torch.no_grad():
        for part, values in zip(net.parameters(), ([[1.0]], [-0.5], [[0.0], [40.0]], [1.0, 0.0]), strict=True):
            part.copy_(torch.tensor(values))
    inputs, labels = torch.tensor([[0.1], [0.2], [0.2], [0.57], [0.9]]).double(), torch.tensor([0, 0, 1, 0, 1])
    # flat: right, right, wrong as it is; steep: fooled within 0.1, and right as far as the ball goes
    threat, found = Threat("linf", 0.1, (0, 1)), []
    for restarts in (1, 2):
        for kind, method in (
            (Ascent, Pgd(steps=3, start="random", restarts=restarts, seed=5)),
            (DeviceAscent, Pgd(steps=3, start="random", restarts=restarts, seed=5)),
            (AskingAscent, Pgd(steps=3, start="random", restarts=restarts, seed=5)),
            (AdaptiveAscent, Apgd(steps=6, start="random", restarts=restarts, seed=5)),
        ):
            region, draws = threat.around(inputs), torch.Generator().manual_seed(5)
            trail = kind(differentiable(net), region, labels, method, draws).run()  # type: ignore[arg-type]
            name = f"{kind.__name__}, {restarts} starts"
            assert trail.stuck is not None
            told = [1 + trail.stuck.double(), 1 + trail.fooled.double()]
            wanted = [[2.0, 2.0, 1.0, 1.0, 1.0], [1.0, 1.0, 2.0, 2.0, 1.0]]
            found.append(compare(told[0], "==", [scale * one for one in wanted[0]], f"stuck where it is flat, {name}"))
            found.append(compare(told[1], "==", [scale * one for one in wanted[1]], f"fooled beside, {name}"))
    return found


def _bent(points: Tensor) -> Tensor:
    """Flat up to 1/2, and wrong from 0.55 on."""
    return torch.cat([torch.full_like(points, 2.0), 40 * torch.relu(points - 0.5)], 1)


def _capped(points: Tensor) -> Tensor:
    """At 0.3 the second class is nearest, by its slope, but stops growing; the third one wins below 0."""
    second, third = 0.5 + 4 * (points - 0.3).clamp_max(0.1), 0.4 - 2 * (points - 0.3)
    return torch.cat([torch.ones_like(points), second, third], 1)


def _restarted(scale: float) -> list[Comparison]:
    """Later runs begin at random, or where they are told to, and aim at the class that is next nearest."""
    found: list[Comparison] = []
    inputs, labels = torch.full((9, 1), 0.3).double(), torch.zeros(9).long()
    near, wide = (Threat("linf", radius).around(inputs) for radius in (0.4, 2.0))
    each = torch.tensor([[0.32, 0.6], [0.32, 0.31], [0.6, 0.32]]).double().repeat(3, 1)[:, :, None]
    every, none, ends = torch.ones(9).double(), torch.zeros(9).double(), torch.tensor([1.0, 0.0, 1.0]).repeat(3)
    cases: list[tuple[Any, Any, Any, Tensor]] = [(AdaptiveAscent, _bent, Apgd(steps=3, start=each, restarts=2), ends)]
    for begin in ("input", inputs + 0.02):
        cases += [
            (AdaptiveAscent, _bent, Apgd(steps=2, start=begin), none),
            (AdaptiveAscent, _bent, Apgd(steps=2, start=begin, restarts=16), every),
        ]
    for restarts, wanted in ((1, none), (2, every)):
        cases += [(AdaptiveAscent, _capped, Apgd(Margin(), steps=20, restarts=restarts), wanted)]
        kinds = (Ascent, DeviceAscent, AskingAscent)
        cases += [(kind, _capped, Pgd(Margin(), steps=20, restarts=restarts), wanted) for kind in kinds]
    for kind, model, method, wanted in cases:
        region, draws = wide if model is _bent else near, torch.Generator().manual_seed(1)
        trail = kind(differentiable(model), region, labels, method, draws).run()
        name = f"{kind.__name__}, {method.restarts} runs, {model.__name__}"
        found.append(compare(1 + trail.fooled.double(), "==", scale * (1 + wanted), f"who is fooled, {name}"))
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
    for run in range(method.restarts):
        rows = torch.arange(COUNT) if method.stop == "never" else (~fooled).nonzero()[:, 0]
        if run or method.start == "random":
            starts = threat.around(inputs[rows]).random(generator)
        else:
            given = inputs if method.start == "input" else torch.as_tensor(method.start)
            starts = torch.stack([_pulled(given[row], inputs[row], threat) for row in rows.tolist()])
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
                point = _pulled(point + sizes[number] * way, clean, threat)
        counts.append(float(seen.sum()))
    return best, fooled, counts


def _pulled(point: Tensor, clean: Tensor, threat: Threat) -> Tensor:
    """Into the ball around one input, then into the box."""
    move = point - clean
    if threat.norm == "linf":
        return (clean + move.clamp(-threat.radius, threat.radius)).clamp(0, 1)
    return (clean + move * min(1.0, threat.radius / max(float(move.norm()), 1e-300))).clamp(0, 1)


def _side_by_side(scale: float) -> list[Comparison]:
    """All wrong classes of an example aimed at from a given point, each step by step, until all are fooled."""
    found: list[Comparison] = []
    net = nn.Sequential(linear_head(1, 6, 9), nn.ReLU(), linear_head(3, 9, 4))
    inputs, count = uniform(5, COUNT, 6)[:8], 8
    with torch.no_grad():
        clean = net(inputs)
    labels = clean.argmax(1)
    labels[::4] = (labels[::4] + 1) % 4
    for radius, candidates, steps in ((0.06, 9, 4), (0.5, 2, 5)):
        threat = Threat("linf", radius, (0, 1))
        far = inputs + radius * (uniform(7, count, 6) * 4 - 2)
        near = (inputs + radius / 8).clamp(0, 1)
        for rows, start, left in (
            (torch.arange(count), far, False),
            ((torch.arange(count) % 4).nonzero()[:, 0], near, True),
        ):
            some, own, y, begin = inputs[rows], clean[rows], labels[rows], start[rows]
            method = Pgd(Margin("every", candidates), steps=steps, step=radius / 4, start=begin)
            told = Known(clean=own, left=left)  # those who are left are not pulled into the region, nor asked at once
            tape = differentiable(net.forward)
            trail = AskingAscent(tape, threat.around(some), y, method, torch.Generator(), told).run()
            walks = [_lanes(net, some[k], begin[k], int(y[k]), (radius, candidates, steps)) for k in range(len(y))]
            wrong = _wrong(own, y)
            firsts = [0 if k in wrong else min(first for _, first in lanes) for k, lanes in enumerate(walks)]
            taken = min(max(firsts), steps)
            ends = [some[k] if k in wrong else _chosen(lanes, taken) for k, lanes in enumerate(walks)]
            name = f"side by side, {radius}, {candidates}, {left}"
            found.append(compare(trail.inputs, "==", scale * torch.stack(ends), f"points, {name}"))
            fooled = [scale * (1.0 + (first <= taken)) for first in firsts]
            found.append(compare(1 + trail.fooled.double(), "==", fooled, f"fooled, {name}"))
            counts = [sum(first <= number for first in firsts) for number in range(taken + 1)]
            gradients = taken * 64 * math.ceil(len(y) * min(candidates, 3) / 64)  # lanes fill blocks of 64
            found.append(compare(trail.tally, "==", [scale * one for one in (*counts, gradients)], f"tally, {name}"))
            assert trail.clean is not None
            found.append(compare(trail.clean, "==", scale * own, f"outputs at the inputs, {name}"))
    return found


def _wrong(outputs: Tensor, labels: Tensor) -> list[int]:
    return (outputs.argmax(1) != labels).nonzero()[:, 0].tolist()


Lane = tuple[list[tuple[Tensor, float]], int]  # points with their margins, minus; the first one that fools, or far


def _lanes(net: nn.Module, clean: Tensor, start: Tensor, label: int, reach: tuple[float, int, int]) -> list[Lane]:
    """The walks towards the likeliest wrong classes, one after the other, from the start inside ball and box.

    `reach` are the radius, the number of classes and the steps towards each.
    """
    radius, candidates, steps = reach
    with torch.no_grad():
        outputs = net(clean[None])[0].tolist()
    aims = sorted((j for j in range(len(outputs)) if j != label), key=lambda j: -outputs[j])[:candidates]
    lanes = []
    for aim in aims:
        point = (clean + (start - clean).clamp(-radius, radius)).clamp(0, 1)
        walk, first = [], steps + 1
        for number in range(steps + 1):
            leaf = point.clone().requires_grad_()
            scores = net(leaf[None])[0]
            (slope,) = torch.autograd.grad(scores[aim] - scores[label], leaf)
            told = scores.tolist()
            gap = max(told[j] for j in range(len(told)) if j != label) - told[label]
            walk.append((point, gap))
            first = number if gap > 0 and first > steps else first
            move = point + radius / 4 * slope.sign() - clean
            point = (clean + move.clamp(-radius, radius)).clamp(0, 1)
        lanes.append((walk, first))
    return lanes


def _chosen(lanes: list[Lane], taken: int) -> Tensor:
    """The first point that fools, of the first lane that holds one; else the best point of all."""
    for walk, first in lanes:
        if first <= taken:
            return walk[first][0]
    return max((one for walk, _ in lanes for one in walk[: taken + 1]), key=lambda one: one[1])[0]
