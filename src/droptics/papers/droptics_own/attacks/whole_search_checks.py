"""Whole searches by gradients, as they run on every kind of device, beside loops in which nobody ever leaves."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from droptics.attacks import device
from droptics.attacks.apgd import AdaptiveAscent, check_points, left_over
from droptics.attacks.ascent import Ascent, Trail, _order, linearized_order
from droptics.attacks.asking import AskingAscent
from droptics.attacks.device import DeviceAscent
from droptics.attacks.gradients import differentiable
from droptics.attacks.losses import Dlr, Margin, Reflected
from droptics.attacks.methods import Apgd, Pgd
from droptics.attacks.threat import Threat
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import uniform

RADII = {"linf": 0.08, "l2": 0.22, "l1": 0.5}
DUAL = {"linf": 1.0, "l2": 2.0, "l1": math.inf}
COUNT, CLASSES = 14, 4


@dataclass
class Told:
    """What a search finds: points, when each example is fooled (the number of the iterate; -1 never), who is stuck.

    And how many gradients those need who climb, and who is ranked by distance to its wrong classes before.
    """

    points: Tensor
    when: Tensor
    stuck: Tensor
    gradients: int = 0
    ranked: int = 0


def _problem(steep: bool = False) -> tuple[nn.Sequential, Tensor, Tensor]:
    """A network with one hidden layer, inputs of which most are right, some wrong from the start.

    A steep one has two, inputs of two axes, and examples that hardly move.
    """
    if steep:
        first, second = linear_head(10, 12, 9), linear_head(12, 9, 8)
        with torch.no_grad():
            second.weight.mul_(3.0)
            second.bias.sub_(9.0)
        net = nn.Sequential(nn.Flatten(), first, nn.ReLU(), second, nn.ReLU(), linear_head(14, 8, CLASSES))
    else:
        net = nn.Sequential(linear_head(1, 6, 9), nn.ReLU(), linear_head(3, 9, CLASSES))
    inputs = uniform(5, COUNT, 12 if steep else 6)
    with torch.no_grad():
        labels = net(inputs).argmax(1)
    labels[::9] = (labels[::9] + 1) % CLASSES
    return net, inputs, labels


def _gap(outputs: Tensor, labels: Tensor, aim: Tensor | None = None) -> Tensor:
    """Of the wrong class aimed at, or the likeliest, above the right one."""
    rows = torch.arange(len(labels))
    others = outputs.clone()
    others[rows, labels] = -math.inf
    wrong = others.max(1).values if aim is None else outputs[rows, aim]
    return wrong - outputs[rows, labels]


def _value(loss: Any, outputs: Tensor, labels: Tensor, aim: Tensor | None, ranked: bool) -> Tensor:
    """The loss that ranks points, or the one whose gradient is followed."""
    if isinstance(loss, CrossEntropy):
        return outputs.logsumexp(1) - outputs[torch.arange(len(labels)), labels]
    gap = _gap(outputs, labels, None if ranked and not isinstance(loss, Dlr) else aim)
    if isinstance(loss, Reflected):
        return -torch.log(1 + torch.exp(-gap))
    if isinstance(loss, Dlr):
        order = outputs.sort(1, descending=True).values
        return gap / (order[:, 0] - (order[:, 2] if aim is None else (order[:, 2] + order[:, 3]) / 2))
    return gap


def _steepest(slope: Tensor, norm: str) -> Tensor:
    return slope.sign() if norm == "linf" else slope / slope.norm(dim=1, keepdim=True).clamp_min(1e-300)


def _inside(points: Tensor, inputs: Tensor, norm: str) -> Tensor:
    """In the ball, then in the box."""
    move, radius = points - inputs, RADII[norm]
    if norm == "linf":
        move = move.clamp(-radius, radius)
    else:
        move = move * (radius / move.norm(dim=1, keepdim=True).clamp_min(1e-300)).clamp_max(1.0)
    return (inputs + move).clamp(0, 1)


def _slope(net: nn.Module, loss: Any, points: Tensor, labels: Tensor, aim: Tensor | None) -> tuple[Tensor, Tensor]:
    leaf = points.clone().requires_grad_()
    outputs = net(leaf)
    (slope,) = torch.autograd.grad(_value(loss, outputs, labels, aim, False).sum(), leaf)
    return outputs.detach(), slope


def _orders(net: nn.Module, inputs: Tensor, labels: Tensor, norm: str, candidates: int) -> Tensor:
    """The likeliest wrong classes by their linearized distance; by their outputs where the input is wrong already."""
    leaf = inputs.clone().requires_grad_()
    outputs = net(leaf)
    jacobian = torch.stack([torch.autograd.grad(part.sum(), leaf, retain_graph=True)[0] for part in outputs.mT], 1)
    rows = []
    for own, slopes, label in zip(outputs.tolist(), jacobian, labels.tolist(), strict=True):
        wrong = sorted((j for j in range(CLASSES) if j != label), key=lambda j, own=own: -own[j])[:candidates]  # type: ignore[misc]
        speeds = [float(torch.linalg.vector_norm(slopes[label] - slopes[j], DUAL[norm])) for j in wrong]
        far = [(own[label] - own[j]) / speed if speed else math.inf for j, speed in zip(wrong, speeds, strict=True)]
        rows.append([j for _, j in sorted(zip(far, wrong, strict=True))] if max(own) == own[label] else wrong)
    return torch.tensor(rows)


def _aims(net: nn.Module, inputs: Tensor, labels: Tensor, norm: str, loss: Any) -> Tensor | None:
    """The classes aimed at in turn (n, runs): none, the nearest, or all of them."""
    target = getattr(loss, "target", "greedy")
    if target == "greedy":
        return None
    return _orders(net, inputs, labels, norm, loss.candidates)[:, : None if target == "every" else 1]


def _climbed(net: nn.Module, inputs: Tensor, labels: Tensor, norm: str, method: Pgd, sizes: list[float]) -> Told:
    """Fixed steps of every example to the end, again for every class that is aimed at."""
    loss: Any = method.loss
    aims = _aims(net, inputs, labels, norm, loss)
    best, value = inputs.clone(), torch.full((COUNT,), -math.inf).double()
    when = torch.full((COUNT,), -1)
    stuck = torch.zeros(COUNT, dtype=torch.bool)
    right = ~(_gap(_slope(net, loss, inputs, labels, None)[0], labels) > 0) if aims is not None else stuck
    gradients = first = 0 if aims is None else int(right.sum()) * min(loss.candidates, CLASSES - 1)
    for run in range(1 if aims is None else aims.shape[1]):
        aim = None if aims is None else aims[:, run]
        points, held = inputs.clone(), when < 0 if method.stop == "fooled" else torch.ones(COUNT, dtype=torch.bool)
        last = points.clone()
        for number in range(method.steps + 1):
            outputs, slope = _slope(net, loss, points, labels, aim)
            wrong, ranked = _gap(outputs, labels) > 0, _value(loss, outputs, labels, aim, True)
            before = when >= 0
            better = held & ((wrong & ~before) | ((wrong == before) & (ranked > value)))
            best[better], value[better] = points[better], ranked[better]
            when[held & wrong & ~before] = run * (method.steps + 1) + number
            last[held] = points[held]
            if method.stop == "fooled":
                held = held & ~wrong
            if number < method.steps:
                gradients += int(held.sum())
                way = slope if method.gradient == "raw" else _steepest(slope, norm)
                points = _inside(points + sizes[number] * way, inputs, norm)
        moved = (last - inputs).abs().amax(1) if norm == "linf" else (last - inputs).norm(dim=1)
        ran = when < 0 if method.stop == "fooled" else torch.ones(COUNT, dtype=torch.bool)
        stuck[ran] = (moved < 0.01 * RADII[norm])[ran]
    return Told(best, when, stuck & (when < 0), gradients, first)


def _told(name: str, trail: Trail, wanted: Told, scale: float, runs: int = 1) -> list[Comparison]:
    counts = [float(((wanted.when >= 0) & (wanted.when <= k)).sum()) for k in range(runs)]
    mine = trail.tally[:-1].double()
    assert trail.stuck is not None
    return [
        compare(trail.inputs.flatten(1), "==", scale * wanted.points, f"points, {name}", 1e-6),
        compare(trail.fooled.double(), "==", scale * (wanted.when >= 0).double(), f"fooled, {name}"),
        compare(1 + trail.stuck.double(), "==", scale * (1 + wanted.stuck.double()), f"stuck, {name}"),
        compare(mine, "==", scale * torch.tensor(counts)[: len(mine)], f"counts, {name}"),
        compare(mine[-1], "==", scale * counts[-1], f"all of them, {name}"),
    ]


def whole_searches(scale: float) -> list[Comparison]:
    """Fixed and adaptive steps on every kind of device find the same points, step by step."""
    return by_parts((_fixed, _beyond_a_kink, _adaptive, _ordered, _left), scale)


def _settings(method: Any) -> tuple[str, str, int, int]:
    """What the loops take from a method, as it was asked for."""
    loss = method.loss
    return type(loss).__name__, getattr(loss, "target", ""), getattr(loss, "candidates", 0), method.steps


def _wavering(step: int) -> float:
    """Step sizes that grow again: who stands still may move later."""
    return (0.01, 0.001, 0.0005, 0.0, 0.06, 0.01)[step]


def _fixed(scale: float) -> list[Comparison]:
    """Steps of given sizes, whether it is asked who is left after every step, at times, or at the end."""
    found: list[Comparison] = []
    methods = [
        (False, Pgd(steps=7)),
        (False, Pgd(steps=7, step=0.02, stop="never")),
        (False, Pgd(Margin(), steps=9, step=0.015)),
        (False, Pgd(Reflected(CrossEntropy(), "every", 2), steps=4, step=0.02)),
        (False, Pgd(steps=5, step=0.05, gradient="raw")),
        (True, Pgd(steps=6, step=_wavering)),
        (True, Pgd(steps=5, step=0.002, gradient="raw")),
        (True, Pgd(steps=4, step=0.003, gradient="raw", stop="never")),
    ]
    wanted_settings = [
        ("CrossEntropy", "", 0, 7, None, "fooled", "steepest"),
        ("CrossEntropy", "", 0, 7, 0.02, "never", "steepest"),
        ("Margin", "nearest", 9, 9, 0.015, "fooled", "steepest"),
        ("Reflected", "every", 2, 4, 0.02, "fooled", "steepest"),
        ("CrossEntropy", "", 0, 5, 0.05, "fooled", "raw"),
        ("CrossEntropy", "", 0, 6, _wavering, "fooled", "steepest"),
        ("CrossEntropy", "", 0, 5, 0.002, "fooled", "raw"),
        ("CrossEntropy", "", 0, 4, 0.003, "never", "raw"),
    ]
    told_settings = [(*_settings(one), one.step, one.stop, one.gradient) for _, one in methods]
    found.append(same(told_settings, wanted_settings, "settings of fixed steps"))
    for norm in ("linf", "l2"):
        for steep, method in methods if scale == 1 else methods[:1]:
            net, inputs, labels = _problem(steep)
            region = Threat(norm, RADII[norm], (0, 1)).around(inputs.view(COUNT, 3, 4) if steep else inputs)
            step: Any = method.step
            last = method.steps - 1
            decaying = [RADII[norm] * 0.01 ** (k / last) for k in range(last + 1)]
            sizes = decaying if step is None else [step(k) if callable(step) else step for k in range(last + 1)]
            wanted = _climbed(net, inputs, labels, norm, method, sizes)
            runs = 2 if getattr(method.loss, "target", "") == "every" else 1
            most = (method.steps + 1) * runs
            for how, kind, model in (
                ("asked always", Ascent, net),
                ("asked at times", DeviceAscent, net.forward),
                ("asked and filled", AskingAscent, net.forward),
            ):
                with mock.patch.object(device, "_PRUDENCE", -1):  # whoever can leave does
                    trail = kind(differentiable(model), region, labels, method, torch.Generator()).run()
                name = f"{how}, {norm}, {type(method.loss).__name__}, {method.steps}"
                found += _told(name, trail, wanted, scale, most)
                found += _counted(int(trail.tally[-1]), wanted, method, name, scale, runs)
    return found


def _beyond_a_kink(scale: float) -> list[Comparison]:
    """A wrong point is the best even where its loss is below that of a right one; who is fooled is never stuck.

    At 1/2 the loss log(1 + 3 e^-0.1) grows; a step to 1 leaps over a kink, to a wrong class and log(1 + e^0.45).
    """
    first, second = linear_head(1, 1, 2), linear_head(1, 2, CLASSES)
    with torch.no_grad():
        first.weight.copy_(torch.tensor([[1.0], [1.0]]))
        first.bias.copy_(torch.tensor([0.0, -0.6]))
        second.weight.copy_(torch.tensor([[-0.1, 12.5], [0.0, 13.75], [0.0, -22.0], [0.0, -22.0]]))
        second.bias.copy_(torch.tensor([0.15, 0.0, 0.0, 0.0]))
    net = nn.Sequential(first, nn.ReLU(), second)
    inputs, labels, found = torch.full((2, 1), 0.5).double(), torch.tensor([0, 1]), []
    threat = Threat("linf", 0.5, (0, 1))
    leaps = Pgd(steps=1, step=0.5), Pgd(steps=1, step=0.5, stop="never")
    short = Pgd(steps=1, step=0.001, gradient="raw", stop="never")
    for kind, leap in product((Ascent, DeviceAscent, AskingAscent), leaps):
        tape, name = differentiable(net), f"{kind.__name__}, {leap.stop}"
        trail = kind(tape, threat.around(inputs[:1]), labels[:1], leap, torch.Generator()).run()
        found.append(
            compare([float(trail.inputs), float(trail.fooled)], "==", [scale, scale], f"beyond a kink, {name}")
        )
        trail = kind(tape, threat.around(inputs), labels, short, torch.Generator()).run()
        assert trail.stuck is not None
        found.append(compare(trail.stuck.double(), "==", [scale, 0.0], f"right and stuck, {name}"))
        trail = kind(differentiable(_sinking), threat.around(inputs[:1]), labels[:1], leap, torch.Generator()).run()
        told = [float(trail.inputs), float(trail.fooled)]
        found.append(compare(told, "==", [0.5 * scale, scale], f"wrong before it was right, {name}"))
    return found


def _sinking(points: Tensor) -> Tensor:
    """Wrong at 1/2 with the loss log(1 + e^0.45), right at 1 with the larger one log(1 + 3 e^-0.1)."""
    x, none = points[:, :1], torch.zeros_like(points[:, :1])
    before = torch.cat([none, 0.45 + 0.1 * (x - 0.5), none - 22, none - 22], 1)
    return torch.where(x < 0.75, before, torch.cat([none + 0.1, none, none, none], 1))


def _counted(mine: int, wanted: Told, method: Pgd, name: str, scale: float, runs: int) -> list[Comparison]:
    """Gradients of a fixed search: those of who climbs, and of some who stay beside them."""
    most = COUNT * method.steps * runs
    if method.stop == "never":
        return [compare(mine, "==", scale * most, f"gradients, {name}")]
    needed, climbed = wanted.gradients - wanted.ranked, mine - wanted.ranked
    always, signs = name.startswith("asked always"), "linf" in name and method.gradient == "steepest"
    # asked always, who is fooled leaves when the others are below 92 %, and so does who stands still under signs
    least = 0 if always and signs else needed
    most = math.floor(needed / 0.92) if always else most
    return [
        compare(climbed, ">=", scale * least, f"gradients, {name}"),
        compare(climbed, "<=", scale * most, f"gradients at most, {name}"),
    ]


def _checked_after(steps: int, norm: str) -> dict[int, int]:
    """Check points as published: p_1 = 0.22, p_(j+1) = p_j + max(p_j - p_(j-1) - 0.03, 0.06); every 4 % for l1."""
    if norm == "l1":
        every = max(int(0.04 * steps), 1)
        return dict.fromkeys(range(every, steps + 1, every), every)
    ends, points = [Fraction(0), Fraction(22, 100)], {0}
    while ends[-1] <= 1:
        points.add(math.ceil(ends[-1] * steps))
        ends.append(ends[-1] + max(ends[-1] - ends[-2] - Fraction(3, 100), Fraction(6, 100)))
    order = sorted(points)
    return {end: end - begin for begin, end in pairwise(order)}


def _move(state: dict[str, Tensor], inputs: Tensor, threat: Threat, number: int) -> Tensor:
    """One step of one run of every example."""
    now, slope, size = state["points"], state["slope"], state["step"][:, None]
    if threat.norm != "l1":
        ahead = _inside(now + size * _steepest(slope, threat.norm), inputs, threat.norm)
        if number:
            ahead = _inside(now + 0.75 * (ahead - now) + 0.25 * (now - state["before"]), inputs, threat.norm)
        return ahead
    way = torch.zeros_like(now)
    for k in range(COUNT):
        free = slope[k].clone()
        free[((free > 0) & (now[k] >= 1)) | ((free < 0) & (now[k] <= 0))] = 0
        number = max(len(free) - math.ceil((1 - float(state["share"][k])) * len(free)), 1)
        chosen = [j for j in free.abs().argsort(descending=True)[:number].tolist() if free[j] != 0]
        for j in chosen:
            way[k, j] = free[j].sign() / len(chosen)
    return threat.project(now + size * way, inputs)


def _looked(state: dict[str, Tensor], inputs: Tensor, threat: Threat, taken: int) -> None:
    """At a check point: who halves the step and returns to the best point."""
    if threat.norm == "l1":
        moved = (state["best"] != inputs).sum(1).double()
        returns = moved < 0.95 * state["moved"]
        state["step"] = torch.where(returns, threat.radius, state["step"] / 1.5).clamp(
            threat.radius / 10, threat.radius
        )
        state["share"], state["moved"] = moved / (1.5 * inputs.shape[1]), moved
    else:
        stands = (state["last step"] == state["step"]) & (state["last most"] >= state["most"])
        returns = (state["rises"] < 0.75 * taken) | stands
        state["last step"], state["last most"] = state["step"].clone(), state["most"].clone()
        state["step"] = torch.where(returns, state["step"] / 2, state["step"])
    state["rises"] = torch.zeros(COUNT)
    for name, best in (("before", "best"), ("points", "best"), ("slope", "best slope"), ("value", "most")):
        wide = returns[:, None] if best != "most" else returns
        state[name] = torch.where(wide, state[best], state[name])


def _adapting(net: nn.Module, inputs: Tensor, labels: Tensor, threat: Threat, method: Apgd) -> tuple[Told, int]:
    """Every run of every example to the end; what it counts of gradients when those that are fooled leave in bulk."""
    norm = threat.norm
    loss: Any = method.loss
    aims = _aims(net, inputs, labels, norm, loss)
    runs = [None] if aims is None else list(aims.mT)
    followed: Any = loss if isinstance(loss, (CrossEntropy, Dlr)) else Margin()

    def look(points: Tensor, aim: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        outputs, slope = _slope(net, followed, points, labels, aim)
        return _gap(outputs, labels) > 0, _value(followed, outputs, labels, aim, False), slope

    when = torch.where(look(inputs, None)[0], 0, -1)
    left = int((when < 0).sum())
    asked = 0 if aims is None else min(loss.candidates, CLASSES - 1)  # classes whose distance is computed
    rows, gradients = left * len(runs), left * (len(runs) + asked)
    best, states = inputs.clone(), []
    long, some = threat.radius * (1 if norm == "l1" else 2), torch.ones(COUNT).double()
    for aim in runs:
        _, value, slope = look(inputs, aim)
        states.append(
            {"points": inputs, "before": inputs, "value": value, "slope": slope, "step": long * some}
            | {
                "best": inputs,
                "most": value,
                "best slope": slope,
                "rises": torch.zeros(COUNT),
                "last step": long * some,
            }
            | {"last most": value, "share": 0.2 * some, "moved": inputs.shape[1] * some}
        )
    checks = _checked_after(method.steps, norm)
    for number in range(method.steps):
        fresh = torch.zeros(COUNT, dtype=torch.bool)
        for state, aim in zip(states, runs, strict=True):
            state["before"], state["points"] = state["points"], _move(state, inputs, threat, number)
            wrong, value, state["slope"] = look(state["points"], aim)
            state["rises"] = state["rises"] + (value > state["value"])
            state["value"] = value
            first = wrong & (when < 0) & ~fresh
            best[first], fresh = state["points"][first], fresh | first
            higher = value > state["most"]
            state["most"] = torch.where(higher, value, state["most"])
            for name, new in (("best", "points"), ("best slope", "slope")):
                state[name] = torch.where(higher[:, None], state[new], state[name])
        when[fresh] = number + 2
        left = int((when < 0).sum())
        if left == 0 or number == method.steps - 1:
            break
        rows = left * len(runs) if left * len(runs) < 0.92 * rows else rows
        gradients += rows
        for state in states:
            if number + 1 in checks:
                _looked(state, inputs, threat, checks[number + 1])
    held, stuck, most = when < 0, when < 0, torch.full((COUNT,), -math.inf).double()
    for state in states:
        ahead = held & (state["most"] > most)
        best[ahead], most[ahead] = state["best"][ahead], state["most"][ahead]
        stuck = stuck & (threat.distance(state["best"], inputs) < 0.01 * threat.radius)
    return Told(best, when, stuck), gradients


def _adaptive(scale: float) -> list[Comparison]:
    """Auto-PGD: whoever is fooled leaves, in bulk or not, or climbs on in a recording."""
    found: list[Comparison] = []
    methods: list[tuple[str, bool, Apgd]] = [
        ("linf", False, Apgd(CrossEntropy(), steps=20)),
        ("l2", False, Apgd(Margin("every", 2), steps=20)),
        ("l1", False, Apgd(Dlr("every", 2), steps=18)),
        ("l2", False, Apgd(Margin(), steps=14)),
        ("linf", True, Apgd(CrossEntropy(), steps=20)),
    ]
    told_settings = [_settings(method) for *_, method in methods]
    wanted_settings = [("CrossEntropy", "", 0, 20), ("Margin", "every", 2, 20), ("Dlr", "every", 2, 18)]
    wanted_settings += [("Margin", "nearest", 9, 14), ("CrossEntropy", "", 0, 20)]
    found.append(same(told_settings, wanted_settings, "settings of adaptive steps"))
    for norm, steep, method in methods if scale == 1 else methods[:1]:
        net, inputs, labels = _problem(steep)
        shaped = inputs.view(COUNT, 3, 4) if steep else inputs
        threat = Threat(norm, RADII[norm], (0, 1))
        wanted, gradients = _adapting(net, inputs, labels, threat, method)
        for how, model, records, block in (
            ("plain", net, False, 0),
            ("recorded", net, True, 0),
            ("recorded and asked", net.forward, True, 2),
        ):
            search = AdaptiveAscent(
                differentiable(model), threat.around(shaped), labels, method, torch.Generator().manual_seed(1)
            )
            search.records, search.block = records, block
            trail = search.run()
            name = f"adaptive, {how}, {norm}, {type(method.loss).__name__}, {method.steps}"
            found += _told(name, trail, wanted, scale, method.steps + 2)
            if not records:
                found.append(compare(int(trail.tally[-1]), "==", scale * gradients, f"gradients, {name}"))
        told = check_points(method.steps, norm)
        checks = _checked_after(method.steps, norm)
        found.append(compare(list(told), "==", [scale * end for end in checks], f"check points, {norm}"))
        found.append(compare(list(told.values()), "==", [scale * gap for gap in checks.values()], f"apart, {norm}"))
    return found


def _ordered(scale: float) -> list[Comparison]:
    """Wrong classes by their linearized distance, one after the other or all at once."""
    found: list[Comparison] = []
    net, inputs, labels = _problem()
    with torch.no_grad():
        wrong = net(inputs).argmax(1) != labels
    for norm in RADII:
        wanted = _orders(net, inputs, labels, norm, 3)
        for model in (net, net.forward):
            tape = differentiable(model)
            outputs = tape.forward(inputs)
            told = linearized_order(tape, outputs, labels, Margin(), Threat(norm, 1.0), wrong)
            found.append(compare(1 + told, "==", scale * (1 + wanted), f"aims, {norm}, {tape.stackable}"))
            likely = outputs.scatter(1, labels[:, None], -math.inf).topk(3).indices
            order = likely.gather(1, _order(tape, outputs, labels[:, None], likely, Threat(norm, 1.0)))
            found.append(compare(1 + order[~wrong], "==", scale * (1 + wanted[~wrong]), f"all aims, {norm}"))
    return found


def _left(scale: float) -> list[Comparison]:
    """Who is left, filled up to four blocks and more; or to all where that is about as many, or no more than four."""
    found: list[Comparison] = []
    for total, fooled, block, size in (
        (100, [3, 50], 0, 98),
        (100, [3, 50], 10, 100),
        (100, list(range(5, 98)), 10, 40),
        (100, list(range(5, 88)), 10, 40),
        (100, list(range(5, 57)), 10, 50),
        (100, list(range(100)), 10, 0),
        (100, list(range(10, 100)), 10, 40),
        (40, list(range(10, 40)), 10, 40),
        (40, list(range(40)), 10, 0),
    ):
        flags = torch.zeros(total, dtype=torch.bool)
        flags[fooled] = True
        rows, left = left_over(flags, block)
        others = [k for k in range(total) if k not in fooled]
        filled = sorted([*others, *fooled[: size - len(others)]])
        found.append(compare(left, "==", scale * (total - len(fooled)), f"left, {len(fooled)}, {block}"))
        found.append(
            compare([len(rows), *(rows + 1).tolist()], "==", [size, *(scale * (k + 1) for k in filled)], "rows")
        )
    return found
