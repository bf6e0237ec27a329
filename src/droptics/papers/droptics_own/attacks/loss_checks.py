"""Losses that attacks climb, random search by squares and what is made of a search, written out example by example."""

from __future__ import annotations

import math

import numpy as np
import scipy.stats
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import Pgd, Threat, robustness_curve
from droptics.attacks.ascent import Trail
from droptics.attacks.attack import _judged, _verdict, check_data, proportion
from droptics.attacks.gradients import differentiable
from droptics.attacks.losses import (
    Dlr,
    Margin,
    Reflected,
    aimed,
    beaten,
    label_range,
    mistaken,
    unfinite,
    value_and_slope,
    values,
)
from droptics.attacks.methods import Square
from droptics.attacks.square import SquareSearch, bump
from droptics.data import Sample
from droptics.errors import CertificateError
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic, Loss
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.attacks.step_checks import steps
from droptics.papers.droptics_own.attacks.try_checks import tries
from droptics.papers.droptics_own.telling import fails
from droptics.papers.instances import normal, tensor, uniform


def attacks_in_full(scale: float) -> list[Comparison]:
    """Losses with their slopes, steps, squares, whole random searches, and the verdict on a search."""
    return [
        *_losses(scale),
        *steps(scale),
        *_bumps(scale),
        *_squares(scale),
        *tries(scale),
        *_judgement(scale),
        *_doubts(),
    ]


def _written(loss: Loss, outputs: Tensor, targets: Tensor, aims: Tensor | None) -> Tensor:
    """The loss whose gradient is followed, row by row."""
    rows = []
    for k, row in enumerate(outputs):
        right = int(targets[k])
        others = [j for j in range(len(row)) if j != right]
        top = max(others, key=lambda j, row=row: float(row[j].detach()))  # type: ignore[misc]
        aim = top if aims is None else int(aims[k])
        z = row[right] - row[aim]
        inner = loss.loss if isinstance(loss, Reflected) else loss
        if isinstance(loss, Dlr):
            order = row.sort(descending=True).values
            third, fourth = order[min(2, len(row) - 1)], order[min(3, len(row) - 1)]
            rows.append(-z / (order[0] - (third if aims is None else (third + fourth) / 2)))
        elif isinstance(inner, Margin):
            rows.append(-z)
        elif isinstance(loss, Reflected):
            rows.append(-torch.log(1 + z.exp()))
        else:
            rows.append(row.logsumexp(0) - row[right])
    return torch.stack(rows)


def _losses(scale: float) -> list[Comparison]:
    """Values and slopes of every loss, aimed or not, scaled or not."""
    found: list[Comparison] = []
    for classes in (3, 5):
        outputs, targets = 2 * normal(classes, 7, classes), torch.arange(7) % classes
        aims = (targets + 1 + torch.arange(7) % (classes - 1)) % classes
        for loss in (CrossEntropy(), Margin(), Reflected(CrossEntropy()), Reflected(Margin()), Dlr()):
            for aim in (None, aims):
                name = f"{type(loss).__name__}, {classes}, {'aimed' if aim is not None else 'free'}"
                leaf = outputs.clone().requires_grad_()
                own = _written(loss, leaf, targets, aim)
                (slope,) = torch.autograd.grad(own.sum(), leaf)
                ranked = own if isinstance(loss, Dlr) else _written(loss, outputs, targets, None)
                told, direction = value_and_slope(loss, outputs, targets, aim)
                found.append(compare(told, "==", scale * ranked.detach(), f"value, {name}"))
                found.append(compare(direction, "==", scale * slope, f"slope, {name}"))
                _, free = value_and_slope(loss, outputs, targets, aim, scaled=False)
                unit, wanted = (functional.normalize(part, dim=1) for part in (free, slope))
                found.append(compare(unit, "==", scale * wanted, f"direction, {name}"))
                climbed, way = aimed(loss, outputs, targets, aim)
                at = torch.arange(7)
                plain = aim is None or isinstance(loss, Dlr)
                seen = ranked.detach() if plain else outputs[at, aims] - outputs[at, targets]
                found.append(compare(climbed, "==", scale * seen, f"climbed, {name}"))
                found.append(compare(way, "==", scale * free, f"its way, {name}"))
            both = values(loss, outputs, targets)
            found.append(compare(both[0], "==", scale * _written(loss, outputs, targets, None), f"both, {name}"))
            found.append(compare(both[1], "==", scale * -_written(Margin(), outputs, targets, None), f"margin, {name}"))
            found.append(compare(loss(outputs, targets), "==", scale * both[0], f"called, {name}"))
    score, signs = normal(1, 5, 1), tensor([1.0, -1, -1, 1, 1])
    z = score[:, 0] * signs
    scored: tuple[tuple[Loss, Tensor, Tensor], ...] = (
        (Logistic(), torch.log1p(torch.exp(-z)), -signs * torch.sigmoid(-z)),
        (Margin(), -z, -signs),
        (Reflected(Logistic()), -torch.log1p(torch.exp(z)), -signs * torch.sigmoid(z)),
    )
    for scorer, value, slope in scored:
        told, direction = value_and_slope(scorer, score, signs)
        found.append(compare(told, "==", scale * value, f"one output, {type(scorer).__name__}"))
        found.append(compare(direction[:, 0], "==", scale * slope, f"its slope, {type(scorer).__name__}"))
        for told, wanted in zip(values(scorer, score, signs), (value, z), strict=True):
            found.append(compare(told, "==", scale * wanted, f"it and its margin, {type(scorer).__name__}"))
    odd = tensor([[1.0, 2.0, 2.0], [3.0, 1.0, 0.0], [math.nan, 1.0, 0.0], [1.0, math.inf, 0.0], [0.0, 2.0, 1.0]])
    labels = torch.tensor([1, 0, 1, 1, 2])
    found.append(compare(mistaken(odd, labels).double(), "==", tensor([0.0, 0, 1, 1, 1]) * scale, "mistaken"))
    found.append(
        compare(beaten(odd, torch.tensor([2, 0, 1, 1, 2])).double(), "==", tensor([0.0, 0, 1, 1, 1]) * scale, "beaten")
    )
    found.append(
        compare(mistaken(odd, torch.tensor([2, 0, 1, 1, 2])).double(), "==", tensor([1.0, 0, 1, 1, 1]) * scale, "ties")
    )
    found.append(compare(unfinite(odd).double(), "==", tensor([0.0, 0, 1, 1, 0]) * scale, "not finite"))
    single, way = tensor([[0.0], [2.0], [-1.0], [math.inf]]), tensor([1.0, 1, 1, 1])
    found.append(compare(mistaken(single, way).double(), "==", tensor([1.0, 0, 1, 1]) * scale, "one score"))
    found.append(compare(beaten(single, way).double(), "==", tensor([1.0, 0, 1, 1]) * scale, "one score beaten"))
    below = tensor([[-10.0, -9.5, -30.0], [-10.0, -8.0, -30.0], [30.0, 29.0, 33.1], [30.0, 29.0, 33.0]])
    shares = {0.0: [1.0, 1, 1, 1], 0.1: [0.0, 0, 0, 0], 0.05: [0.0, 1, 1, 1], 0.092: [0.0, 0, 1, 0]}
    for slack, beyond in shares.items():
        told = beaten(below, torch.zeros(4).long(), slack).double()
        found.append(compare(1 + told, "==", scale * (1 + tensor(beyond)), f"beaten by more than {slack}"))
    known = label_range(torch.tensor([3, 1, 2]))
    assert known is not None
    found.append(compare([float(known[0]), float(known[1])], "==", [scale, 3 * scale], "range of labels"))
    none = [
        label_range(part) is None for part in (tensor([1.0]), torch.tensor([True]), torch.tensor([[1]]), labels[:0])
    ]
    found.append(compare(np.array(none, float), "==", scale, "no labels"))
    return found


def _bumps(scale: float) -> list[Comparison]:
    """Hills by sums over rectangles, pixel by pixel."""
    found: list[Comparison] = []
    for tall, broad in ((3, 3), (5, 4), (1, 6), (1, 1), (6, 7)):

        def hill(rows: int, columns: int) -> np.ndarray:
            whole = np.zeros((rows, columns))
            for i in range(rows):
                for j in range(columns):
                    for k in range(max(rows // 2, columns // 2) + 1):
                        inside = abs(i - rows // 2) <= k and abs(j - columns // 2) <= k
                        whole[i, j] += inside / (k + 1) ** 2
            return whole / max(float(np.linalg.norm(whole)), 1e-300)

        if tall // 2:
            wanted = np.concatenate([hill(tall // 2, broad), -hill(tall - tall // 2, broad)], 0)
        else:
            parts = [hill(tall, broad // 2), -hill(tall, broad - broad // 2)]
            wanted = np.concatenate([part for part in parts if part.size], 1)
        wanted = wanted / np.linalg.norm(wanted)
        found.append(compare(bump(tall, broad, torch.float64), "==", scale * wanted, f"bump, {tall} by {broad}"))
    return found


def _side(number: int, method: Square, shape: tuple[int, int, int], norm: str) -> tuple[int, int]:
    halved = (10, 50, 200, 500, 1000, 2000, 4000, 6000, 8000)
    share = method.first
    for end in halved:
        if (number - 1) / method.queries > end / 10000:
            share /= 2
    _, height, width = shape
    if height == 1:
        return 1, min(max(round(share * width), 1), width)
    side = max(round((share * height * width) ** 0.5), 1 if norm == "linf" else 3)
    side += norm != "linf" and side % 2 == 0
    return min(side, height), min(side, width)


def _moved(norm: str, radius: float, move: np.ndarray, side: tuple[int, int], draw: np.ndarray) -> np.ndarray:
    """One example's move (channels, height, width) with one square changed, as published."""
    channels, height, width = move.shape
    (tall, broad), signs = side, np.where(draw[5:] < 0.5, -1.0, 1.0)

    def corner(a: float, b: float) -> tuple[int, int]:
        rooms = height - tall, width - broad
        top, left = (
            min(int(np.float32(u) * np.float32(room)), max(room - 1, 0)) for u, room in zip((a, b), rooms, strict=True)
        )
        return top, left

    top, left = corner(draw[0], draw[1])
    place = (slice(None), slice(top, top + tall), slice(left, left + broad))
    fresh = move.copy()
    if norm == "linf":
        fresh[place] += 2 * radius * signs[:, None, None]
        return fresh
    order = {"l2": 2, "l1": 1}[norm]
    lost = np.zeros(move.shape, bool)
    lost[place] = True
    down, across = corner(draw[2], draw[3])
    lost[:, down : down + tall, across : across + broad] = True
    spare = max(radius**order - (np.abs(move) ** order).sum(), 0.0) / channels
    hill = bump(tall, broad, torch.float64).numpy() if draw[4] >= 0.5 else bump(broad, tall, torch.float64).numpy().T
    for c in range(channels):
        inside = move[c][place[1:]]
        size = (np.abs(inside) ** order).sum() ** (1 / order)
        paid = (np.abs(move[c]) ** order)[lost[c]].sum() + spare
        new = hill * signs[c] + (inside / size if size > 0 else 0.0)
        length = (np.abs(new) ** order).sum() ** (1 / order)
        fresh[c][lost[c]] = 0.0
        fresh[c][place[1:]] = new / length * paid ** (1 / order)
    return fresh


def _squares(scale: float) -> list[Comparison]:
    """Whole searches, example by example, from the same uniform numbers; halved batches with patience."""
    found: list[Comparison] = []
    for norm, shape, radius, patience, queries in (
        ("linf", (2, 6, 5), 0.05, None, 40),
        ("l2", (2, 7, 6), 0.5, None, 40),
        ("l1", (1, 7, 7), 2.0, None, 30),
        ("linf", (7,), 0.05, None, 30),
        ("linf", (1, 6, 6), 0.01, 5, 300),
    ):
        size = int(np.prod(shape))
        net = nn.Sequential(nn.Flatten(), linear_head(1, size, 6), nn.Tanh(), linear_head(3, 6, 3))
        inputs = 0.1 + 0.8 * uniform(5, 6, *shape)
        with torch.no_grad():
            labels = net(inputs).argmax(1)
            labels[0] = (labels[0] + 1) % 3
        method = Square(queries=queries, first=0.5, patience=patience)
        threat = Threat(norm, radius, (0, 1))
        search = SquareSearch(
            differentiable(net), threat.around(inputs), labels, method, torch.Generator().manual_seed(4)
        )
        sides = [search._side(number) for number in range(0, queries, 7)]
        images = shape if len(shape) == 3 else (1, 1, size)
        wanted_sides = [_side(number, method, images, norm) for number in range(0, queries, 7)]
        found.append(compare(np.array(sides), "==", scale * np.array(wanted_sides), f"sides, {norm}"))
        trail = search.run()
        best, fooled, asked = _searched(net, inputs, labels, (threat, method), images)
        name = f"{norm}, {shape}, {patience}"
        found.append(compare(trail.fooled.double(), "==", scale * fooled, f"fooled, {name}"))
        found.append(compare(trail.queries, "==", scale * asked, f"queries, {name}"))
        found.append(compare(trail.inputs, "==", scale * best, f"points, {name}", 1e-7))
        found.append(compare(int(trail.tally[-2]), "==", scale * int(fooled.sum()), f"counted, {name}"))
    return found


def _searched(
    net: nn.Module, inputs: Tensor, labels: Tensor, how: tuple[Threat, Square], images: tuple[int, int, int]
) -> tuple[Tensor, Tensor, int]:
    (threat, method), generator = how, torch.Generator().manual_seed(4)
    channels = images[0]
    norm, radius = threat.norm, threat.radius
    with torch.no_grad():
        fooled = (net(inputs).argmax(1) != labels).double()
    rows = [k for k in range(len(inputs)) if not fooled[k]]
    best = inputs.clone()
    value = dict.fromkeys(rows, -math.inf)
    points = {k: inputs[k].reshape(images).numpy().copy() for k in rows}
    asked, idle, halvings, tries, number = 0, 0, 0, 1, 0
    patience = math.inf if method.patience is None else method.patience
    while rows:
        rounds = min(10, (method.queries - number) // tries)
        if rounds <= 0:
            break
        draws = torch.rand(rounds, tries * len(rows), 5 + channels, generator=generator).numpy()
        for step in range(rounds):
            first = None
            if number == 0:
                first = _begun(norm, radius, len(rows) * tries, images, generator)
            side = _side(number, method, images, norm)
            for place, k in enumerate(rows):
                if fooled[k]:
                    continue
                options = []
                for t in range(tries):
                    at = place * tries + t
                    origin = inputs[k].reshape(images).numpy()
                    move = points[k] - origin
                    new = first[at] if first is not None else _moved(norm, radius, move, side, draws[step, at])
                    near = threat.around(inputs[k : k + 1]).retract(
                        inputs[k : k + 1] + torch.from_numpy(new).reshape(1, *inputs.shape[1:])
                    )
                    with torch.no_grad():
                        out = net(near)[0]
                    margin = float(out[labels[k]] - max(out[j] for j in range(3) if j != labels[k]))
                    options.append((math.inf if margin < 0 else -margin, -t, near[0], -margin, margin < 0))
                _, _, near, reached, wrong = max(options, key=lambda option: option[:2])
                if wrong or reached > value[k]:
                    value[k], points[k] = reached, near.reshape(images).numpy().copy()
                if wrong:
                    fooled[k] = 1.0
            number += tries
        asked += rounds * tries * len(rows)
        left = [k for k in rows if not fooled[k]]
        idle = idle + rounds * tries if len(left) == len(rows) else 0
        if idle >= patience:
            if halvings == 5:
                break
            left = sorted(left, key=lambda k: -value[k])[: (len(left) + 1) // 2]
            patience *= (4, 4, 2, 2, 2)[halvings]
            idle, halvings, tries = 0, halvings + 1, 2 * tries
        rows = left
    for k, point in points.items():
        best[k] = torch.from_numpy(point).reshape(inputs.shape[1:])
    return best, fooled, asked


def _begun(
    norm: str, radius: float, count: int, images: tuple[int, int, int], generator: torch.Generator
) -> np.ndarray:
    """Stripes, or a grid of bumps of random sign."""
    channels, height, width = images

    def signs(*size: int) -> np.ndarray:
        return np.where(torch.rand(size, generator=generator).numpy() < 0.5, -1.0, 1.0)

    move = np.zeros((count, *images))
    if norm == "linf":
        return radius * signs(count, channels, 1, width) + move
    tall, broad = max(height // 5, 1), max(width // 5, 1)
    hill = bump(tall, broad, torch.float64).numpy()
    for top in range(height % tall // 2, height - tall + 1, tall):
        for left in range(width % broad // 2, width - broad + 1, broad):
            move[:, :, top : top + tall, left : left + broad] = hill * signs(count, channels, 1, 1)
    order = {"l2": 2, "l1": 1}[norm]
    return move * radius / (np.abs(move) ** order).sum((1, 2, 3), keepdims=True) ** (1 / order)


def _judgement(scale: float) -> list[Comparison]:
    """What a search found, counted row by row; shares with Clopper and Pearson's interval; curves over radii."""
    found: list[Comparison] = []
    clean = tensor([[2.0, 0, 0], [0, 1, 0], [0, 0, 3], [1, 0, 0], [0, 2, 0], [0, 0, 1]])
    after = tensor([[0.0, 1, 0], [0, 1, 0], [0, math.nan, 3], [1, 0, 0], [0, 2, 0], [1, 0, 0]])
    labels = torch.tensor([0, 1, 2, 0, 0, 2])
    inputs = normal(1, 6, 4)
    points = inputs + 0.1
    points[3] += 1.0
    region = Threat("l2", 0.5).around(inputs)
    searched = torch.tensor([True, True, True, False, False, True])
    stuck = torch.tensor([True, True, False, True, True, False])
    trail = Trail(points, searched, stuck, torch.tensor([1, 4, 12]), clean, 0)
    told = _judged(trail, region, labels, CrossEntropy(), clean, after)
    found.append(compare(told.counts, "==", tensor([1.0, 0, 1, 1, 5, 2, 4]) * scale, "counts"))
    found.append(compare(told.tally, "==", tensor([1.0, 4, 12]) * scale, "tally"))
    found.append(compare(told.success.double(), "==", tensor([1.0, 0, 1, 0, 1, 1]) * scale, "success"))
    found.append(compare(told.right.double(), "==", tensor([1.0, 1, 1, 1, 0, 1]) * scale, "right before"))
    found.append(compare(told.distances, "==", scale * (points - inputs).norm(dim=1), "distances"))
    for count, total, confidence in ((0, 7, 0.95), (3, 11, 0.9), (11, 11, 0.99)):
        share = proportion(count, total, confidence)
        tail = (1 - confidence) / 2
        low = 0.0 if count == 0 else scipy.stats.beta.ppf(tail, count, total - count + 1)
        high = 1.0 if count == total else scipy.stats.beta.ppf(1 - tail, count + 1, total - count)
        ends = [float(share.lower), float(share.value), float(share.upper)]
        found.append(
            compare(ends, "==", [scale * low, scale * count / total, scale * high], f"share, {count} of {total}")
        )
    weights = tensor([[1.0, 0.0], [-1.0, 0.0]])
    module = nn.Linear(2, 2, bias=False).double().requires_grad_(False)
    module.weight.copy_(weights)
    line = tensor([[0.1, 0.0], [0.2, 0.0], [0.4, 0.0], [0.8, 0.0]])
    data = Sample(line, torch.zeros(4, dtype=torch.int64))
    curve = robustness_curve(module, data, Threat("linf", 1.0), Pgd(steps=3), [0.3, 0.05, 0.5, 0.15])
    found.append(compare(curve, "==", tensor([0.5, 0.0, 0.75, 0.25]) * scale, "a curve over radii"))
    whole = robustness_curve(module, data, Threat("linf", 1.0), Pgd(steps=3), [1.5, 1.0])
    found.append(compare(whole, "==", scale, "all are fooled"))
    held = robustness_curve(module, data, Threat("linf", 1.0, (0.0, 1.0)), Pgd(steps=3), [0.3, 0.9])
    found.append(compare(1 + tensor(held), "==", scale, "the box ends where nobody is fooled"))
    values = uniform(1, 3, 2)
    seen, span = check_data(Sample(values, torch.tensor([2, 0, 1])), Threat("linf", 0.1, (0, 1)))
    found.append(compare(span, "==", [float(values.min()), scale * float(values.max())], "inputs"))
    assert seen is not None
    found.append(compare(seen, "==", [0.0, 2 * scale], "labels"))
    for box, refused in (((0.0, 1.0), 0.0), ((0.0, 0.5), 1.0), ((0.4, 1.0), 1.0), (None, 0.0)):
        sample = Sample(tensor([[0.2, 0.9]]), torch.tensor([0]))
        found.append(
            compare(
                fails(lambda s=sample, b=box: check_data(s, Threat("linf", 0.1, b)), ValueError),
                "==",
                refused,
                f"box {box}",
            )
        )
    return found


def _doubts() -> list[Comparison]:
    """Which reasons to doubt are told: at their thresholds and beside."""
    found: list[Comparison] = []
    words = {
        "nan": "count as fooled because the model returns NaN",
        "dice": "not deterministic",
        "lost": "not when evaluated again",
        "stuck": "gradients vanish on",
        "falls": "success falls as the steps grow",
    }
    cases: tuple[tuple[str, bool, list[int], list[float], float], ...] = (
        ("", False, [0, 0, 0, 0, 10, 1], [0.5, 0.5], 0.1),
        ("nan", False, [1, 0, 0, 0, 10, 0], [0.5], 0.1),
        ("dice", True, [0, 0, 0, 3, 10, 0], [0.5], 0.1),
        ("lost", False, [0, 0, 0, 3, 10, 0], [0.5], 0.1),
        ("stuck", False, [0, 0, 0, 0, 10, 2], [], 0.1),
        ("", False, [0, 0, 0, 0, 10, 2], [], 0.0),
        ("", False, [0, 0, 0, 0, 0, 0], [], 0.1),
        ("falls", False, [0, 0, 0, 0, 10, 0], [0.5, 0.39], 0.1),
        ("", False, [0, 0, 0, 0, 10, 0], [0.5, 0.41], 0.1),
        ("falls", False, [0, 0, 0, 0, 10, 0], [1.0, 0.97], 0.1),
        ("", False, [0, 0, 0, 0, 10, 0], [1.0, 0.985], 0.1),
    )
    for name, unsteady, counts, rates, radius in cases:
        told = _verdict(unsteady, counts, rates, 100, Threat("l2", radius))
        wanted = [words[name]] if name else []
        same = len(told) == len(wanted) and all(one in text for one, text in zip(wanted, told, strict=True))
        found.append(compare(float(same), "==", 1.0, f"doubt, {name}, {counts}, {rates}, {told}"))
    for counts, kind in (([0, 1, 0, 0, 10, 0], ValueError), ([0, 0, 1, 0, 10, 0], CertificateError)):
        call = lambda counts=counts: _verdict(False, counts, [], 10, Threat("l2", 0.1))  # noqa: E731
        found.append(compare(fails(call, kind), "==", 1.0, f"refused, {counts}"))
    return found
