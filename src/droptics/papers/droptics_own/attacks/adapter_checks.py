"""What a claim on adapters compares: worst corners, steps up the loss that is given, draws of a seed, modes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from droptics.attacks import CrossEntropy, Margin, Reflected
from droptics.attacks.adapter import BIM, FGSM, PGD, PGDL2
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, uniform


def adapters(scale: float) -> list[Comparison]:
    """Attacks that are called with images end in the worst corner, or point of the sphere, or where they fool."""
    found: list[Comparison] = []
    eps = 0.15
    for seed, features in ((1, 5), (4, 3)):
        weights = normal(seed, 2, features)
        # the middle of the box lies on the boundary of the classes; l2 balls stay inside the box, some others do not
        inner, labels = 0.3 + 0.4 * uniform(seed + 1, 60, features), torch.arange(60) % 2
        outer = uniform(seed + 2, 60, features)
        outer[:4] = outer[:4].round()
        model = nn.Linear(features, 2).double()
        model.load_state_dict({"weight": weights, "bias": -0.5 * weights.sum(1)})
        way = weights[1 - labels] - weights[labels]
        cases: tuple[tuple[str, Any, Tensor, float], ...] = (
            ("FGSM", FGSM(model, eps), outer, eps),
            ("BIM", BIM(model, eps, 0.04, 4), outer, eps),
            ("BIM by itself", BIM(model, eps, 0.002, 0), outer, 42 * 0.002),  # min(255 eps + 4, 1.25 * 255 eps) steps
            ("BIM by itself, small", BIM(model, 0.031, 0.001, 0), outer, 9 * 0.001),
            ("PGD", PGD(model, eps, 0.06, 6), outer, eps),
            ("PGD from the image", PGD(model, eps, 0.06, 6, random_start=False), outer, eps),
            ("PGDL2", PGDL2(model, eps, 0.03, 60), inner, eps),
        )
        for name, method, images, size in cases:
            norm = "l2" if name == "PGDL2" else "linf"
            told = method(images, labels)
            step = way / way.norm(dim=1, keepdim=True) if norm == "l2" else way.sign()
            wanted = (images + scale * size * step).clamp(0, 1)
            own, worst = (((point - 0.5) * way).sum(1) for point in (images, wanted))  # wrong class less right one
            held, fooled = (own < 0) & (worst < -1e-6), (own < 0) & (worst > 1e-6)
            label = f"{name}, {features} features"
            precision = 1e-9 if norm == "linf" else 1e-4
            found.append(compare(told[held], "==", wanted[held], f"worst point, {label}", precision=precision))
            found.append(compare(method.success(told, labels)[fooled].double(), "==", 1.0, f"fooled, {label}"))
            found.append(compare(method.success(told, labels)[held].double(), "==", 0.0, f"not fooled, {label}"))
            moved = (told - images).norm(dim=1) if norm == "l2" else (told - images).abs().amax(1)
            found.append(compare(moved, "<=", method.threat.radius, f"inside, {label}"))
            found.append(compare((told - 0.5).abs(), "<=", 0.5, f"inside the box, {label}"))
    return [*found, *_climbed(scale), *_drawn(scale), *_in_training(scale)]


def _sorted(seed: int) -> tuple[nn.Linear, Tensor, Tensor]:
    """An affine classifier of four classes, images away from the faces of the box, and what it says of them."""
    head, images = nn.Linear(6, 4).double().requires_grad_(False), 0.3 + 0.4 * uniform(seed + 4, 30, 6)
    head.weight.copy_(normal(seed, 4, 6))
    head.bias.copy_(-0.5 * head.weight.sum(1))  # all classes meet in the middle of the box
    return head, images, head(images).argmax(1)


def _climbed(scale: float) -> list[Comparison]:
    """One step up the loss that is given: towards the likeliest wrong class, or all of them by their chances."""
    found: list[Comparison] = []
    head, images, labels = _sorted(1)
    weights, scores = head.weight, head(images)
    chances = scores.softmax(1)
    likeliest = scores.scatter(1, labels[:, None], -torch.inf).argmax(1)
    ways = {"CrossEntropy": chances @ weights, "Margin": weights[likeliest]}
    ways["Reflected"] = ways["Margin"]
    losses: tuple[Any, ...] = (None, CrossEntropy(), Margin("greedy"), Reflected(CrossEntropy(), "greedy"))
    apart = (ways["Margin"] - weights[labels]).sign() != (ways["CrossEntropy"] - weights[labels]).sign()
    found.append(compare(float(apart.any(1).double().mean()), ">", 0.3, "losses that differ in their signs"))
    for loss in losses:
        kind = "CrossEntropy" if loss is None else type(loss).__name__
        way = ways[kind] - weights[labels]
        unit = way / way.norm(dim=1, keepdim=True)
        attacks: tuple[tuple[Any, Tensor], ...] = (
            (FGSM(head, 0.1, loss=loss), 0.1 * way.sign()),
            (BIM(head, 0.1, 0.03, 1, loss=loss), 0.03 * way.sign()),
            (PGD(head, 0.1, 0.04, 1, random_start=False, loss=loss), 0.04 * way.sign()),
            (PGDL2(head, 0.3, 0.05, 1, False, loss=loss), 0.05 * unit),
        )
        for method, move in attacks:
            name = f"{type(method).__name__} up {'the loss by default' if loss is None else kind}"
            found.append(compare(method(images, labels), "==", images + scale * move, name))
    return found


def _drawn(scale: float) -> list[Comparison]:
    """Starts are drawn by the seed, and go on from call to call."""
    found: list[Comparison] = []
    head, images, labels = _sorted(2)
    for seed in (0, 5):
        method, draws = PGD(head, 0.02, 1e-12, 1, seed=seed), torch.Generator().manual_seed(seed)
        for call in (1, 2):
            start = images + scale * 0.02 * (2 * torch.rand(30, 6, generator=draws, dtype=torch.float64) - 1)
            found.append(compare(method(images, labels), "==", start, f"starts of call {call}, seed {seed}", 1e-9))
    return found


def _in_training(scale: float) -> list[Comparison]:
    """A module in the midst of its training is attacked and judged in eval mode, and trains on afterwards."""
    found: list[Comparison] = []
    head, images, labels = _sorted(3)
    labels[::3] = (labels[::3] + 1) % 4
    module = nn.Sequential(nn.Dropout(0.5), head).train()
    method = FGSM(module, 0.1, loss=Margin("greedy"))
    with torch.random.fork_rng(devices=[]):
        told, judged = method(images, labels), method.success(images, labels)
    wanted = FGSM(head, 0.1, loss=Margin("greedy"))(images, labels)
    found.append(compare(told, "==", scale * wanted, "attacked without masks"))
    wrong = (head(images).argmax(1) != labels).double()
    found.append(compare(1 + judged.double(), "==", scale * (1 + wrong), "judged without masks"))
    found.append(same([part.training for part in module.modules()][:2], [True, True], "modes afterwards", scale))
    return found
