"""What the claims on threats and losses of attacks compare: nearest points, shortest steps, definitions and slopes."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from droptics.attacks import CrossEntropy, Dlr, Logistic, Margin, Reflected, Threat
from droptics.attacks.losses import aimed, value_and_slope
from droptics.evidence.claims import Comparison, compare
from droptics.losses import Loss
from droptics.papers.droptics_own.attacks.threat_checks import _nearest, _shortest
from droptics.papers.instances import normal, tensor, uniform


def threats(scale: float) -> list[Comparison]:
    """Projections onto balls within boxes against the conditions of a nearest point, steps to a boundary."""
    inputs, points = uniform(1, 40, 4), uniform(1, 40, 4) + 0.8 * normal(2, 40, 4)
    found, radius = [], 0.5
    for norm, order in (("l2", 2.0), ("l1", 1.0), ("linf", math.inf)):
        for box in (None, (-0.3, 1.1)):
            threat = Threat(norm, radius, box)
            near = threat.project(points, inputs)
            moves = near - inputs
            sizes = torch.linalg.vector_norm(moves, ord=order, dim=1)
            found.append(compare(sizes, "<=", scale * radius, f"{norm} ball, box {box}"))
            if box is not None:
                found.append(compare(near, ">=", box[0], "box"))
                found.append(compare(near, "<=", box[1], "box"))
            # nearest: <points - near, other - near> <= 0 for every reachable other, and the solution of a solver
            draws = torch.Generator().manual_seed(3)
            others = torch.stack([threat.around(inputs).random(draws) for _ in range(50)])
            found.append(compare(((points - near) * (others - near)).sum(-1), "<=", 0.0, f"nearest, {norm} {box}"))
            for row in range(5):
                solved = _nearest(points[row], inputs[row], threat)
                found.append(compare(near[row], "==", solved, f"by a solver, {norm} {box}", precision=1e-5))
            slope = normal(4, 40, 4)
            far = threat.around(inputs).support(slope)
            gain = ((far - inputs) * slope).sum(1)
            found.append(compare(gain, ">=", ((others - inputs) * slope).sum(-1), f"support, {norm} {box}"))
            if box is None:
                dual = {2.0: 2.0, 1.0: math.inf, math.inf: 1.0}[order]
                wanted = radius * torch.linalg.vector_norm(slope, ord=dual, dim=1)
                found.append(compare(gain, "==", scale * wanted, f"dual norm, {norm}"))
                found.append(
                    compare((threat.steepest(slope) * slope).sum(1), "==", wanted / radius, f"steepest, {norm}")
                )
            away = torch.linalg.vector_norm(others - inputs, ord=order, dim=-1)
            if norm != "linf" and box is None:
                # distances of uniform points have the law (r / R)^4: mean 4 / 5, variance 2 / 75
                found.append(
                    compare(
                        away.mean() / radius, "==", 0.8, f"random points, {norm}", precision=5 * (2 / 75 / 2000) ** 0.5
                    )
                )
            # half of what the box allows: there is room, though not everywhere for the shortest step
            low, high = box or (0.0, 1.0)
            room = torch.where(slope > 0, high - inputs, inputs - low)
            rise = 0.5 * (slope.abs() * room).sum(1)
            step = Threat(norm, 9.0, box).around(inputs).advance(inputs, slope, rise)
            found.append(compare((step * slope).sum(1), "==", scale * rise, f"a step to a boundary, {norm} {box}"))
            length = torch.linalg.vector_norm(step, ord=order, dim=1)
            dual = {2.0: 2.0, 1.0: math.inf, math.inf: 1.0}[order]
            shortest = rise / torch.linalg.vector_norm(slope, ord=dual, dim=1)
            if box is None:
                found.append(compare(length, "==", shortest, f"the shortest one, {norm}"))
            else:
                least = [_shortest(slope[k], float(rise[k]), inputs[k], norm, box) for k in range(5)]
                found.append(compare(length[:5], "==", tensor(least), f"the shortest in a box, {norm}", 1e-5))
                found.append(compare(inputs + step, ">=", low, f"a step in the box, {norm}"))
                found.append(compare(inputs + step, "<=", high, f"a step in the box, {norm}"))
    return [*found, *_images(scale)]


def _images(scale: float) -> list[Comparison]:
    """Inputs of several dimensions, some on faces of a narrow box; points that are far, inside or at ties.

    Steps start elsewhere than at the inputs, rise or fall by most of what the box allows, and some slopes are zero.
    """
    found = []
    inputs = 0.1 + 0.8 * uniform(5, 6, 2, 4)
    inputs[0, 0] = tensor([0.1, 0.9, 0.1, 0.9])
    points, slope = inputs + normal(6, 6, 2, 4), normal(7, 6, 2, 4)
    points[1], points[2], points[3] = inputs[1] + 0.01, inputs[2] + 0.4 * slope[2].sign(), 1e3 * points[3]
    # coordinates that meet the box one after another while the others are drawn out
    inputs[4], points[4] = 0.6, 0.6 + 10 * 2.0 ** -torch.arange(8).reshape(2, 4).double()
    slope[:, 1, 2] = 0.0
    for norm, radius in (("l2", 0.7), ("l1", 1.5), ("linf", 0.3)):
        for box in (None, (0.1, 0.9)):
            threat, label = Threat(norm, radius, box), f"images, {norm} {box}"
            near = threat.project(points, inputs)
            found.append(compare(near, "==", scale * _pressed(points, inputs, threat), f"nearest, {label}"))
            low, high = box or (-1.0, 2.0)
            start = near.clamp(low, high)
            sign = tensor([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])
            ways = slope * sign[:, None, None]
            room = torch.where(ways > 0, high - start, start - low)
            rise = 0.9 * sign * (ways.abs() * room).flatten(1).sum(1)
            step = threat.around(inputs).advance(start, slope, rise)
            found.append(compare((step * slope).flatten(1).sum(1), "==", scale * rise, f"rise or fall, {label}"))
            if box is not None:
                found.append(compare(start + step, ">=", low, f"above the least, {label}"))
                found.append(compare(start + step, "<=", high, f"below the largest, {label}"))
            told, digits = threat.distance(start + step, start), 1e-9
            if norm == "l1":  # a linear program, solved to its own tolerance
                digits = 1e-6
                rows = zip(slope.flatten(1), rise.tolist(), start.flatten(1), strict=True)
                shortest = tensor([_shortest(*row, norm, box) for row in rows])
            else:
                shortest = _timed(start, slope, rise, threat)
            found.append(compare(told, "==", scale * shortest, f"shortest, {label}", digits))
    return found


def _pressed(points: Tensor, inputs: Tensor, threat: Threat) -> Tensor:
    """Nearest reachable points by bisection of the multiplier of the ball, which pulls each coordinate by itself."""
    low, high = threat.box or (-math.inf, math.inf)
    moves, order = (points - inputs).flatten(1), {"l2": 2.0, "l1": 1.0, "linf": math.inf}[threat.norm]

    def reached(pull: Tensor) -> Tensor:
        pulled = {
            "l2": moves / (1 + pull),
            "l1": moves.sign() * (moves.abs() - pull).clamp_min(0.0),
            "linf": moves.clamp(-threat.radius, threat.radius),
        }[threat.norm]
        return (inputs.flatten(1) + pulled).clamp(low, high)

    least, most = torch.zeros(len(inputs), 1).double(), torch.full((len(inputs), 1), 1e5).double()
    for _ in range(60):
        middle = (least + most) / 2
        sizes = torch.linalg.vector_norm(reached(middle) - inputs.flatten(1), ord=order, dim=1, keepdim=True)
        least, most = (
            torch.where(sizes > threat.radius, middle, least),
            torch.where(sizes > threat.radius, most, middle),
        )
    return reached(most).view_as(inputs)


def _timed(start: Tensor, slope: Tensor, rise: Tensor, threat: Threat) -> Tensor:
    """Lengths of shortest moves by bisection of the time that all coordinates move, at most to the box."""
    low, high = threat.box or (-math.inf, math.inf)
    ways = slope.flatten(1) * rise.sign()[:, None]
    paces, order = (ways, 2.0) if threat.norm == "l2" else (ways.sign(), math.inf)
    origin = start.flatten(1)
    least, most = torch.zeros(len(start), 1).double(), torch.full((len(start), 1), 1e5).double()
    for _ in range(60):
        middle = (least + most) / 2
        gained = (((origin + middle * paces).clamp(low, high) - origin) * ways).sum(1, keepdim=True)
        enough = gained >= rise.abs()[:, None]
        least, most = torch.where(enough, least, middle), torch.where(enough, middle, most)
    return torch.linalg.vector_norm((origin + most * paces).clamp(low, high) - origin, ord=order, dim=1)


def attack_losses(scale: float) -> list[Comparison]:
    """Losses of attacks and their slopes in the outputs."""
    found: list[Comparison] = []
    outputs, labels = 3 * normal(5, 12, 5), torch.arange(12) % 5
    right = outputs.gather(1, labels[:, None]).squeeze(1)
    wrong = outputs.masked_fill(functional.one_hot(labels, 5).bool(), -math.inf).amax(1)
    ordered = outputs.sort(1, descending=True).values
    ratio = -(right - wrong) / (ordered[:, 0] - ordered[:, 2])
    losses = {
        "cross-entropy": (CrossEntropy(), functional.cross_entropy(outputs, labels, reduction="none")),
        "margin": (Margin(), wrong - right),
        "reflected": (Reflected(CrossEntropy()), -functional.softplus(right - wrong)),
        "ratio": (Dlr(), ratio),
    }
    for name, (loss, wanted) in losses.items():
        value, slope = value_and_slope(loss, outputs, labels)
        found.append(compare(value, "==", scale * wanted, name))
        leaf = outputs.clone().requires_grad_()
        top = leaf.masked_fill(functional.one_hot(labels, 5).bool(), -math.inf).amax(1)
        own = leaf.gather(1, labels[:, None]).squeeze(1)
        high = leaf.sort(1, descending=True).values
        again = {
            "cross-entropy": functional.cross_entropy(leaf, labels, reduction="sum"),
            "margin": (top - own).sum(),
            "reflected": -functional.softplus(own - top).sum(),
            "ratio": (-(own - top) / (high[:, 0] - high[:, 2])).sum(),
        }[name]
        (wanted_slope,) = torch.autograd.grad(again, leaf)
        found.append(compare(slope, "==", wanted_slope, f"slope, {name}"))
    sure = outputs + 40.0 * functional.one_hot(labels, 5)  # a saturated loss, whose slope is all but nothing
    rest = torch.exp(sure - sure.logsumexp(1, keepdim=True)) - functional.one_hot(labels, 5)
    found.append(compare(1 + value_and_slope(CrossEntropy(), sure, labels)[1], "==", scale * (1 + rest), "saturated"))
    signs = torch.where(labels % 2 > 0, 1.0, -1.0).double()[:, None]
    margin = (outputs[:, :1] * signs).squeeze(1)
    single: tuple[tuple[str, Loss, Tensor, Tensor], ...] = (
        ("logistic", Logistic(), functional.softplus(-margin), torch.sigmoid(-margin)),
        ("margin", Margin(), -margin, torch.ones_like(margin)),
        ("reflected", Reflected(Logistic()), -functional.softplus(margin), torch.sigmoid(margin)),
    )
    for name, loss, wanted, factor in single:
        value, slope = value_and_slope(loss, outputs[:, :1], signs)
        found.append(compare(value, "==", scale * wanted, f"{name} of one score"))
        found.append(compare(slope, "==", scale * -signs * factor[:, None], f"slope, {name} of one score"))
    return [*found, *_aimed(scale, outputs, labels)]


def _aimed(scale: float, outputs: Tensor, labels: Tensor) -> list[Comparison]:
    """Losses aimed at one wrong class: ranked by the likeliest one, with the slope of the one aimed at."""
    found: list[Comparison] = []
    right = outputs.gather(1, labels[:, None])[:, 0]
    likeliest = outputs.masked_fill(functional.one_hot(labels, 5).bool(), -math.inf).amax(1)
    three, third = outputs[:, :3], labels % 3
    leaf, aims = three.clone().requires_grad_(), (third + 1) % 3
    gap = (leaf.gather(1, aims[:, None]) - leaf.gather(1, third[:, None]))[:, 0]
    ratio = gap / (leaf.amax(1) - leaf.amin(1))
    value, slope = value_and_slope(Dlr("every"), three, third, aims)
    found.append(compare(value, "==", scale * ratio.detach(), "aimed ratio of three outputs"))
    found.append(compare(slope, "==", scale * torch.autograd.grad(ratio.sum(), leaf)[0], "and its slope"))
    for shift in (1, 2, 3, 4):
        aims = (labels + shift) % 5
        leaf = outputs.clone().requires_grad_()
        gap = (leaf.gather(1, aims[:, None]) - leaf.gather(1, labels[:, None]))[:, 0]
        order = leaf.sort(1, descending=True).values
        ratio = gap / (order[:, 0] - (order[:, 2] + order[:, 3]) / 2)
        cases: tuple[tuple[str, Loss, Tensor, Tensor], ...] = (
            ("margin", Margin("every"), likeliest - right, gap),
            (
                "reflected",
                Reflected(CrossEntropy(), "every"),
                -functional.softplus(right - likeliest),
                -functional.softplus(-gap),
            ),
            ("ratio", Dlr("every"), ratio.detach(), ratio),
        )
        for name, loss, ranked, climbed in cases:
            (slope,) = torch.autograd.grad(climbed.sum(), leaf, retain_graph=True)
            told = value_and_slope(loss, outputs, labels, aims)
            found.append(compare(told[0], "==", scale * ranked, f"aimed {shift} ahead, {name}"))
            found.append(compare(told[1], "==", scale * slope, f"slope, aimed {shift} ahead, {name}"))
            value, way = aimed(loss, outputs, labels, aims)
            found.append(compare(value, "==", scale * (ratio if name == "ratio" else gap).detach(), f"{name} climbed"))
            along = functional.normalize(slope, dim=1)
            found.append(compare(functional.normalize(way, dim=1), "==", scale * along, f"direction, {name}"))
    return found
