"""What claims on threats compare: projections, supports and shortest moves beside a solver."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
from scipy.optimize import linprog, minimize
from torch import Tensor, nn

from droptics.attacks import Bim, Fgsm, Pgd, Threat, perturb
from droptics.attacks.adapter import BIM, PGD
from droptics.attacks.ascent import Trail
from droptics.attacks.search import joined
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor, uniform

ORDER = {"linf": math.inf, "l2": 2.0, "l1": 1.0}
DUAL = {"linf": 1.0, "l2": 2.0, "l1": math.inf}


def _nearest(point: Tensor, center: Tensor, threat: Threat) -> Tensor:
    """The nearest reachable point, by a solver: moves are split into their positive and negative parts."""
    size = len(point)
    low, high = threat.box or (-9.0, 9.0)
    reach = threat.radius if threat.norm == "linf" else math.inf
    limits = [
        *((0.0, min(high - float(c), reach)) for c in center),
        *((0.0, min(float(c) - low, reach)) for c in center),
    ]
    wanted = (point - center).numpy()

    def objective(parts: Any) -> tuple[float, Any]:
        gap = parts[:size] - parts[size:] - wanted
        return float(gap @ gap), np.concatenate([2 * gap, -2 * gap])

    rules = []
    if threat.norm == "l1":
        rules = [{"type": "ineq", "fun": lambda p: threat.radius - p.sum(), "jac": lambda p: -np.ones(2 * size)}]
    if threat.norm == "l2":
        rules = [
            {
                "type": "ineq",
                "fun": lambda p: threat.radius**2 - ((p[:size] - p[size:]) ** 2).sum(),
                "jac": lambda p: np.concatenate([-2 * (p[:size] - p[size:]), 2 * (p[:size] - p[size:])]),
            }
        ]
    start = np.zeros(2 * size)
    options = {"ftol": 1e-14, "maxiter": 300}
    found = minimize(objective, start, jac=True, bounds=limits, constraints=rules, method="SLSQP", options=options)
    return center + torch.from_numpy(found.x[:size] - found.x[size:])


def reachable_points(scale: float) -> list[Comparison]:
    """Projections, largest linear functions, shortest rises, directions and random points of every threat."""
    found: list[Comparison] = []
    inputs, points, slopes = uniform(1, 4, 3, 2), 1.2 * normal(2, 4, 3, 2), normal(3, 4, 3, 2)
    slopes[0, 0, 0] = 0.0
    for norm, box in itertools.product(("linf", "l2", "l1"), (None, (0.0, 1.0))):
        threat = Threat(norm, {"linf": 0.3, "l2": 0.6, "l1": 0.9}[norm], box)
        region, label = threat.around(inputs), f"{norm}, box {box}"
        told = region.project(points)
        for row in range(4):
            wanted = _nearest(points[row].reshape(-1), inputs[row].reshape(-1), threat)
            found.append(compare(told[row].reshape(-1), "==", scale * wanted, f"nearest: {label}", precision=1e-5))
        near = region.retract(points)
        found.append(compare(threat.distance(near, inputs), "<=", threat.radius * (1 + 1e-12), f"inside: {label}"))
        lengths = torch.linalg.vector_norm((near - inputs).flatten(1), ord=ORDER[norm], dim=1)
        found.append(compare(threat.distance(near, inputs), "==", scale * lengths, f"distance: {label}"))
        dual = torch.linalg.vector_norm(slopes.flatten(1), ord=DUAL[norm], dim=1)
        found.append(compare(threat.dual_norm(slopes), "==", scale * dual, f"dual norm: {label}"))
        best = ((region.support(slopes) - inputs) * slopes).flatten(1).sum(1)
        steep = threat.steepest(slopes, inputs)
        if box is None:
            found.append(compare(best, "==", scale * threat.radius * dual, f"largest: {label}"))
            rise = (steep * slopes).flatten(1).sum(1)
            found.append(compare(rise, "==", scale * dual, f"steepest: {label}"))
        for row in range(4):
            value = _largest(slopes[row].reshape(-1), inputs[row].reshape(-1), threat)
            found.append(compare(best[row], "==", scale * value, f"by a solver: {label}", precision=1e-6))
        wanted_rise = tensor([0.3, -0.2, 0.4, 0.1])
        moved = region.advance(inputs, slopes, wanted_rise)
        gained = (moved * slopes).flatten(1).sum(1)
        found.append(compare(gained, "==", scale * wanted_rise, f"rise: {label}"))
        for row in range(4):
            length = float(torch.linalg.vector_norm(moved[row].reshape(-1), ord=ORDER[norm]))
            least = _shortest(slopes[row].reshape(-1), float(wanted_rise[row]), inputs[row].reshape(-1), norm, box)
            found.append(compare(length, "==", scale * least, f"shortest rise: {label}", precision=1e-5))
        drawn = torch.stack([region.random(torch.Generator().manual_seed(seed)) for seed in range(400)])
        sizes = torch.linalg.vector_norm((drawn - inputs).flatten(2), ord=ORDER[norm], dim=2)
        found.append(compare(sizes, "<=", threat.radius * (1 + 1e-9), f"random points: {label}"))
        if box is not None:
            found.append(compare(drawn, ">=", box[0], f"random points above the least: {label}", precision=0.0))
            found.append(compare(drawn, "<=", box[1], f"random points below the largest: {label}", precision=0.0))
            apart = drawn.std(0).min()
            found.append(compare(apart, ">", 0.02, f"random points differ: {label}", precision=0.0))
        if box is None:
            # the distance of a uniform point has mean 6/7 of the radius, and its center is the input
            found.append(compare(sizes.mean(), "==", scale * threat.radius * 6 / 7, f"spread: {label}", precision=0.02))
            found.append(compare((drawn - inputs).mean((0, 1)), "==", 0.0, f"center: {label}", precision=0.03))
        for factor, holds in ((1.0, True), (1 + 1e-9, False), (math.nan, False)):
            on_it = region.inputs + factor * threat.radius * threat.steepest(torch.ones_like(inputs))
            inside = (
                region.contains(on_it) if box is None else Threat(norm, threat.radius).around(inputs).contains(on_it)
            )
            found.append(same(bool(inside.all()), holds, f"contains {factor}: {label}", scale))
    part = region.slice(1, 3)
    found.append(compare(part.inputs, "==", scale * inputs[1:3], "neighbors"))
    return found + _edges(inputs, scale) + _parsed(scale)


def _edges(inputs: Tensor, scale: float) -> list[Comparison]:
    """Points at the faces of the box, and gradients that underflow."""
    found: list[Comparison] = []
    boxed = Threat("linf", 0.5, (0.0, 1.0)).around(inputs)
    outside = inputs.clone()
    outside[1, 0, 0], outside[2, 1, 0] = 1.0 + 1e-6, -1e-6
    found.append(same(boxed.contains(outside).tolist(), [True, False, False, True], "out of the box", scale))
    # every coordinate is rounded by 0.4 units in the last place away from its input, or put 9.4 of them too far
    eps, count = torch.finfo(torch.float64).eps, 2**14
    for norm, spread in (("linf", 1), ("l2", 128), ("l1", count)):
        around = Threat(norm, spread * 1000.6 * eps).around(torch.ones(3, count).double())
        moved = torch.ones(3, count).double() + tensor([[1000.6], [1001.0], [1010.0]]) * eps
        found.append(same(around.contains(moved).tolist(), [True, True, False], f"rounded, {norm}", scale))
    blocked = Threat("l1", 1.0, (0.0, 1.0)).steepest(
        tensor([[3.0, -2.0, 1.0], [3.0, -2.0, 0.0]]), tensor([[1.0, 0.0, 0.5], [1.0, 0.3, 0.0]])
    )
    found.append(compare(blocked, "==", scale * tensor([[0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]), "faces that block"))
    tiny = Threat("l2", 1.0).steepest(tensor([[3e-200, 4e-200], [0.0, 0.0], [5.0, -12.0]]))
    wanted = scale * tensor([[0.6, 0.8], [0.0, 0.0], [5 / 13, -12 / 13]])
    found.append(compare(tiny, "==", wanted, "gradients that underflow"))
    return found


def _largest(slope: Tensor, center: Tensor, threat: Threat) -> float:
    """The largest rise of a linear function over the reachable moves: linear programs, and one with a ball."""
    size, g = len(slope), slope.numpy()
    low, high = threat.box or (-99.0, 99.0)
    room = [(low - float(c), high - float(c)) for c in center]
    if threat.norm == "linf":
        limits = [(max(below, -threat.radius), min(above, threat.radius)) for below, above in room]
        return -float(linprog(-g, bounds=limits).fun)
    if threat.norm == "l1":
        limits = [*((0.0, above) for _, above in room), *((0.0, -below) for below, _ in room)]
        return -float(linprog(np.append(-g, g), np.ones((1, 2 * size)), [threat.radius], bounds=limits).fun)
    rule = {"type": "ineq", "fun": lambda m: threat.radius**2 - m @ m, "jac": lambda m: -2 * m}
    options = {"ftol": 1e-14, "maxiter": 300}
    start = 0.1 * threat.radius * g / np.linalg.norm(g)
    found = minimize(lambda m: (-g @ m, -g), start, jac=True, bounds=room, constraints=[rule], options=options)
    return -float(found.fun)


def _shortest(slope: Tensor, rise: float, center: Tensor, norm: str, box: Any) -> float:
    """The least norm of a move in the box that changes a linear function by so much."""
    size, g = len(slope), slope.numpy()
    low, high = box or (-99.0, 99.0)
    room = [(low - float(c), high - float(c)) for c in center]
    if norm == "linf":
        rows = np.block([[np.eye(size), -np.ones((size, 1))], [-np.eye(size), -np.ones((size, 1))]])
        cost, limits = np.append(np.zeros(size), 1.0), [*room, (0, None)]
        return float(linprog(cost, rows, np.zeros(2 * size), np.append(g, 0.0)[None], [rise], limits).fun)
    if norm == "l1":
        limits = [*((0.0, high_) for _, high_ in room), *((0.0, -low_) for low_, _ in room)]
        return float(linprog(np.ones(2 * size), A_eq=np.append(g, -g)[None], b_eq=[rise], bounds=limits).fun)
    rule = {"type": "eq", "fun": lambda m: g @ m - rise, "jac": lambda m: g}
    options = {"ftol": 1e-15, "maxiter": 300}
    start = rise * g / (g @ g)
    found = minimize(lambda m: (m @ m, 2 * m), start, jac=True, bounds=room, constraints=[rule], options=options)
    return float(np.sqrt(found.fun))


def _parsed(scale: float) -> list[Comparison]:
    """Threats as they are written, refusals, adapters by their defaults, and trails that are joined."""
    found: list[Comparison] = []
    for text, norm, radius in (("l2:0.5", "l2", 0.5), ("linf:8/255", "linf", 8 / 255), ("1:3", "l1", 3.0)):
        told = Threat.parse(text, (0, 1))
        found.append(same((told.norm, told.radius, told.box), (norm, radius, (0.0, 1.0)), f"threat {text}", scale))
    for text in ("l2", "l2:", "l2:x", "l2:1/0", "0.5"):
        found.append(refuses(lambda text=text: Threat.parse(text), "must read norm:radius"))
    found.append(refuses(lambda: Threat("l3", 1.0), "norm must be"))
    found.append(refuses(lambda: Threat("l2", 1.0, (1.0, 0.0)), "smallest < largest"))
    model = nn.Linear(2, 2).double()
    with torch.no_grad():
        model.weight.copy_(tensor([[1.0, 0.5], [-1.0, 0.3]]))
    images, labels = uniform(4, 6, 2), torch.tensor([0, 1, 0, 1, 1, 0])
    for eps in (8 / 255, 2 / 255, 100 / 255):
        wanted = int(min(eps * 255 + 4, 1.25 * eps * 255))
        method: Any = BIM(model, eps, 0.01, 0).method
        found.append(same((method.steps, method.step), (wanted, 0.01), f"steps of BIM at {eps}", scale))
    starts = [PGD(model, random_start=random).method.start for random in (True, False)]  # type: ignore[union-attr]
    found.append(same(starts, ["random", "input"], "starts of PGD", scale))
    found.append(refuses(lambda: perturb(model, images, labels[:3], Threat("l2", 1.0), Fgsm()), "one per example"))
    way = tensor([[1.0 if label else -1.0 for label in labels]]).mT * (model.weight[0] - model.weight[1]).detach()
    walked = perturb(model, images, labels, Threat("l2", 0.3), Bim(CrossEntropy(), 7, 0.1))
    wanted_points = images + 0.3 * way / way.norm(dim=1, keepdim=True)
    found.append(compare(walked, "==", scale * wanted_points, "steps that add up", precision=1e-6))
    once = [Pgd(CrossEntropy(), 1, 0.01, start="random", seed=seed) for seed in (0, 5)]
    given = torch.Generator().manual_seed(5)
    moved = perturb(model, images, labels, Threat("linf", 0.3), once[0], given)
    seeded = perturb(model, images, labels, Threat("linf", 0.3), once[1])
    found.append(compare(moved, "==", scale * seeded, "starts of a given generator"))
    trails = [
        Trail(
            images[:2], torch.tensor([True, False]), torch.tensor([False, False]), torch.tensor([1, 2, 20]), images[:2]
        ),
        Trail(
            images[2:], torch.tensor([False] * 4), torch.tensor([True] * 4), torch.tensor([3, 4, 5, 6, 70]), images[2:]
        ),
    ]
    both = joined(trails)
    assert both.stuck is not None
    found.append(same(both.tally.tolist(), [4, 6, 7, 8, 90], "tallies of batches", scale))
    found.append(
        same(
            (both.fooled.tolist(), both.stuck.tolist()), ([True] + [False] * 5, [False] * 2 + [True] * 4), "rows", scale
        )
    )
    found.append(compare(both.inputs, "==", scale * images, "their points"))
    return found
