"""What more claims on attacks compare: searches and ensembles on affine models, whose margins are known."""

from __future__ import annotations

import contextlib
import copy
import math
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import (
    Apgd,
    Averaged,
    CrossEntropy,
    Dlr,
    Fab,
    Logistic,
    Margin,
    Pgd,
    Reflected,
    Robustness,
    Square,
    Threat,
    attack,
    robust_accuracy,
    robustness_curve,
    standard_attacks,
)
from droptics.attacks.apgd import AdaptiveAscent
from droptics.attacks.gradients import differentiable
from droptics.attacks.losses import value_and_slope
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import Loss
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, uniform
from droptics.papers.thesis.leaky import LeakyNet, effective, smallest_score

DUAL = {"linf": 1.0, "l2": 2.0, "l1": math.inf}


def _affine(classes: int) -> tuple[Tensor, Tensor]:
    return normal(1, classes, 5), 0.3 * normal(2, classes)


def _distances(weights: Tensor, offset: Tensor, data: Sample, norm: str) -> Tensor:
    """Distance of every example to the nearest boundary of an affine classifier; negative where it is wrong."""
    outputs = data.inputs @ weights.mT + offset
    if len(weights) == 1:
        return (outputs[:, 0] * data.targets.reshape(-1)) / torch.linalg.vector_norm(weights[0], ord=DUAL[norm])
    rows = torch.arange(len(data.targets))
    gaps = outputs[rows, data.targets][:, None] - outputs
    speeds = torch.linalg.vector_norm(weights[data.targets][:, None, :] - weights, ord=DUAL[norm], dim=-1)
    ratios = torch.where(speeds > 0, gaps / speeds.clamp_min(1e-12), torch.inf)
    return ratios.amin(1)


class _Counted(nn.Linear):
    """An affine module that counts its passes and is interrupted after `most` of them."""

    calls: int = 0
    most: float = math.inf

    def forward(self, inputs: Tensor) -> Tensor:
        self.calls += 1
        if self.calls > self.most:
            raise KeyboardInterrupt
        return super().forward(inputs)


def _interrupted(scale: float) -> list[Comparison]:
    """A run that was interrupted goes on where it ended; the ensemble by default fools those within the radius."""
    weights, offset = _affine(3)
    inputs = normal(6, 12, 5)
    data = Sample(inputs, (inputs @ weights.mT + offset).argmax(1))
    model = _Counted(5, 3).double()
    model.load_state_dict({"weight": weights, "bias": offset})
    threat = Threat("l2", 0.3)
    methods: list[Any] = [Apgd(CrossEntropy(), steps=9), Fab(steps=9), Square(queries=9)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.safetensors"
        whole = robust_accuracy(model, data, threat, methods, batch=5)
        passes, model.calls, model.most = model.calls, 0, int(0.7 * model.calls)
        with contextlib.suppress(KeyboardInterrupt):
            robust_accuracy(model, data, threat, methods, checkpoint=path, batch=5)
        stopped, model.calls, model.most = model.calls, 0, math.inf
        resumed = robust_accuracy(model, data, threat, methods, checkpoint=path, batch=5)
    found = [
        compare(stopped, "==", scale * (int(0.7 * passes) + 1), "passes until the interruption"),
        compare(model.calls, "<", passes, "passes after it"),
        compare(resumed.inputs, "==", whole.inputs, "points of an interrupted run"),
        compare(resumed.found_by, "==", whole.found_by, "who fooled whom in an interrupted run"),
    ]
    told, far = robust_accuracy(model, data, threat), _distances(weights, offset, data, "l2")
    fooled = (told.found_by < len(told.stages)).double()
    return [*found, compare(fooled, "==", scale * (far <= threat.radius).double(), "fooled by default")]


def _who(told: Robustness, far: Tensor, radius: float, scale: float, label: str) -> list[Comparison]:
    """Example by example: wrong before where the distance is negative, fooled where it is below the radius."""
    clear = (far - radius).abs() >= 1e-3 * radius
    states = torch.where(told.found_by < 0, 1.0, torch.where(told.found_by < len(told.stages), 2.0, 3.0))
    wanted = torch.where(far < 0, 1.0, torch.where(far < radius, 2.0, 3.0))
    return [compare(states[clear], "==", scale * wanted[clear], f"who is fooled, {label}")]


def affine_ensembles(scale: float) -> list[Comparison]:
    """Ensembles of attacks on affine models fool exactly those nearer than the radius, resumed runs too."""
    found = _interrupted(scale) if scale == 1 else []
    for classes in (1, 2, 4) if scale == 1 else (2,):
        weights, offset = _affine(classes)
        inputs = normal(4, 24, 5)
        noisy = inputs @ weights.mT + offset + 0.8 * normal(5, 24, classes)
        labels = torch.where(noisy[:, 0] > 0, 1.0, -1.0).double() if classes == 1 else noisy.argmax(1)
        data = Sample(inputs, labels)
        model = nn.Linear(5, classes).double()
        with torch.no_grad():
            model.weight.copy_(weights)
            model.bias.copy_(offset)
        loss = Logistic() if classes == 1 else CrossEntropy()
        methods: list[Any] = [
            Apgd(loss, steps=20),
            Pgd(Margin(), steps=20),
            Fab(steps=20, candidates=3),
            Square(queries=12),
        ]
        for norm in ("linf", "l2", "l1"):
            radius = {"linf": 0.15, "l2": 0.3, "l1": 0.6}[norm]
            far = _distances(weights, offset, data, norm)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "found.safetensors"
                told = robust_accuracy(model, data, Threat(norm, radius), methods, checkpoint=path, batch=17)
                again = robust_accuracy(model, data, Threat(norm, radius), methods, checkpoint=path, batch=17)
            near = (far - radius).abs() < 1e-3 * radius
            share = (far > radius).double().mean()
            slack = near.double().mean() + 1e-9
            label = f"{classes} outputs, {norm}"
            found.append(compare(told.robust.value, "==", scale * share, f"robust, {label}", precision=float(slack)))
            found.append(compare(told.clean.value, "==", scale * (far > 0).double().mean(), f"clean, {label}"))
            found += _who(told, far, radius, scale, label)
            found.append(compare(again.robust.value, "==", told.robust.value, f"resumed, {label}"))
            found.append(compare(again.inputs, "==", told.inputs, f"points of a resumed run, {label}"))
            found.append(compare(len(told.stages), "==", scale * 4, f"stages, {label}"))
            lost = sum(stage.found for stage in told.stages)
            share_lost = told.clean.value - told.robust.value
            found.append(compare(lost / 24, "==", scale * share_lost, f"who was found, {label}"))
            for before, after in zip(told.stages, told.stages[1:], strict=False):
                left = before.attacked - before.found
                found.append(compare(after.attacked, "<=", left, f"examples left, {label}"))
        for method in (
            Fab(steps=20),
            Apgd(Margin(), steps=30, start="random"),
            Pgd(Margin("every"), steps=20, restarts=2),
        ):
            if classes == 1 and isinstance(method, Pgd):
                continue
            told_one = attack(model, data, Threat("l2", 0.3), method)
            far = _distances(weights, offset, data, "l2")
            wanted = (far <= 0.3) & ((far - 0.3).abs() > 3e-3)
            missed = wanted & ~told_one.success
            name = type(method).__name__
            found.append(compare(missed.double().sum(), "==", 0.0, f"nobody missed, {name}, {classes}"))
            extra = told_one.success & (far > 0.3 * (1 + 1e-9))
            found.append(compare(extra.double().sum(), "==", 0.0, f"nobody too far, {name}, {classes}"))
            if isinstance(method, Fab):
                reached = told_one.success & (far > 1e-6)
                length = (told_one.inputs - inputs).norm(dim=1)[reached]
                found.append(compare(length, "==", scale * far[reached], f"nearest points, {classes}", precision=2e-2))
    lengths = [len(standard_attacks(count)) for count in (1, 2, 3, 10)]
    found.append(compare(lengths, "==", [scale * size for size in (5, 5, 6, 6)], "attacks of the ensemble"))
    return found


def two_searches(scale: float) -> list[Comparison]:
    """From the inputs no loss falls of those that a search does not fool; losses and slopes by their formulas."""
    found: list[Comparison] = []
    torch.manual_seed(4)
    net = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 4)).double()
    inputs = normal(6, 30, 5)
    with torch.no_grad():
        labels = net(inputs).argmax(1)
    for norm in ("linf", "l2", "l1"):
        threat = Threat(norm, 0.4)
        method = Apgd(CrossEntropy(), steps=8, restarts=2, start="input")
        ascent = AdaptiveAscent(differentiable(net), threat.around(inputs), labels, method, torch.Generator())
        trail = ascent.run()
        values = functional.cross_entropy(net(trail.inputs), labels, reduction="none").detach()
        wrong = (net(trail.inputs).argmax(1) != labels).double()
        found.append(compare(trail.fooled.double(), "==", wrong, f"who is fooled, {norm}"))
        clean = functional.cross_entropy(net(inputs), labels, reduction="none").detach()
        held = wrong == 0  # a point that fools is kept, whatever its loss
        found.append(compare([float(held.sum()), float(wrong.sum())], ">=", 1.0, f"some are fooled, not all, {norm}"))
        found.append(compare(values[held], ">=", clean[held], f"no loss falls, {norm}"))

    class Cubed(Loss):
        """A loss of one's own."""

        def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
            return functional.cross_entropy(outputs, targets, reduction="none") ** 3

    outputs, targets = 2 * normal(7, 9, 4), torch.arange(9) % 4
    value, slope = value_and_slope(Cubed(), outputs, targets)
    leaf = outputs.clone().requires_grad_()
    own = functional.cross_entropy(leaf, targets, reduction="none") ** 3
    found.append(compare(value, "==", scale * own.detach(), "a loss of one's own"))
    found.append(compare(slope, "==", torch.autograd.grad(own.sum(), leaf)[0], "its slope"))
    sure = torch.zeros(3, 4, dtype=torch.float64)
    sure[torch.arange(3), torch.arange(3)] = 60.0
    sure[0, 3] = 5.0
    _, direction = value_and_slope(CrossEntropy(), sure, torch.arange(3), scaled=False)
    shares = sure.masked_fill(functional.one_hot(torch.arange(3), 4).bool(), -torch.inf).softmax(1)
    wanted = shares - functional.one_hot(torch.arange(3), 4)
    found.append(compare(direction, "==", scale * wanted, "direction of a saturated loss"))
    score, signs = normal(8, 6, 1).requires_grad_(), torch.tensor([1.0, -1, 1, 1, -1, -1]).double()
    for loss, formula in (
        (Logistic(), functional.softplus(-score[:, 0] * signs)),
        (Reflected(Logistic()), -functional.softplus(score[:, 0] * signs)),
        (Margin(), -score[:, 0] * signs),
    ):
        told, slope = value_and_slope(loss, score.detach(), signs)
        (wanted,) = torch.autograd.grad(formula.sum(), score)
        found.append(compare(told, "==", scale * formula.detach(), f"{type(loss).__name__} of one score"))
        found.append(compare(slope, "==", scale * wanted, f"slope of {type(loss).__name__}"))
    aims = torch.tensor([1, 2, 3, 0, 2, 3, 1, 0, 3])
    told, slope = value_and_slope(Dlr("every"), outputs, targets, aims)
    ordered = leaf.sort(1, descending=True).values
    rows = torch.arange(9)
    gap = leaf[rows, aims] - leaf[rows, targets]
    ratio = gap / (ordered[:, 0] - (ordered[:, 2] + ordered[:, 3]) / 2)
    found.append(compare(told, "==", scale * ratio.detach(), "aimed ratio"))
    found.append(
        compare(slope, "==", scale * torch.autograd.grad(ratio.sum(), leaf, retain_graph=True)[0], "and slope")
    )
    rest = leaf.masked_fill(functional.one_hot(targets, 4).bool(), -torch.inf).amax(1)
    for ranked, formula in (
        (Margin(), rest - leaf[rows, targets]),
        (Dlr(), (rest - leaf[rows, targets]) / (ordered[:, 0] - ordered[:, 2])),
    ):
        told, slope = value_and_slope(ranked, outputs, targets)
        (wanted,) = torch.autograd.grad(formula.sum(), leaf, retain_graph=True)
        found.append(compare(told, "==", scale * formula.detach(), f"{type(ranked).__name__} of four scores"))
        found.append(compare(slope, "==", scale * wanted, f"slope of {type(ranked).__name__} of four scores"))
    return found


def random_modules(scale: float) -> list[Comparison]:
    """Means over draws of a module are those of its passes by seed, and doubts are told."""
    found: list[Comparison] = []
    head = linear_head(1, 5, 3)
    module = nn.Sequential(nn.Dropout(0.4), head)
    inputs, labels = normal(2, 90, 5), torch.arange(90) % 3
    mean, one_score = Averaged.of(module, draws=6, seed=9), linear_head(3, 5, 1)
    outputs, margins = [], []
    for draw in range(6):
        torch.manual_seed(9 + draw)
        mask = functional.dropout(torch.ones(1, 5, dtype=torch.float64), 0.4)
        outputs.append(head(inputs * mask).log_softmax(1))
        margins.append(one_score(inputs * mask))
    wanted = torch.stack(outputs).exp().mean(0).log()
    found.append(compare(mean(inputs), "==", scale * wanted, "mean over draws"))
    single = torch.stack([(one.argmax(1) == labels).double().mean() for one in outputs]).mean()
    found.append(compare(mean.single_accuracy(inputs, labels), "==", scale * single, "accuracy of a single pass"))
    scores, signs = torch.stack(margins), torch.where(labels > 0, 1.0, -1.0).double()
    alone = Averaged.of(nn.Sequential(nn.Dropout(0.4), one_score), draws=6, seed=9)
    found.append(compare(alone(inputs), "==", scale * scores.mean(0), "mean over draws of one score"))
    right = (scores[..., 0] * signs > 0).double().mean()
    found.append(compare(alone.single_accuracy(inputs, signs), "==", scale * right, "accuracy by one score"))
    found.append(compare(len(mean.again(9, 4).chances), "==", scale * 9, "other draws"))
    again = Averaged.of(module, draws=9, seed=4)
    found.append(compare(mean.again(9, 4)(inputs), "==", again(inputs), "their mean"))
    found.append(compare(float(module[0].training), "==", 1.0, "the mode is as before"))
    flat: Any = nn.Sequential(nn.Linear(5, 3)).double()
    with torch.no_grad():
        flat[0].weight.zero_()
        flat[0].bias.copy_(torch.tensor([3.0, 0.0, 0.0]))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stuck = attack(flat, Sample(inputs, 0 * labels), Threat("linf", 0.2), Pgd(steps=3))
    found.append(compare(float(any("vanish" in text for text in stuck.warnings)), "==", 1.0, "vanishing gradients"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        always = attack(
            lambda points: head(functional.dropout(points, 0.5)),
            Sample(inputs, labels),
            Threat("linf", 0.2),
            Pgd(steps=3),
        )
    found.append(compare(float(any("not deterministic" in t for t in always.warnings)), "==", 1.0, "a random model"))
    return [*found, *_in_training(scale)]


def radii_and_leaks(scale: float) -> list[Comparison]:
    """Errors by radius are those of distances; the lowest scores of leaky networks are those of affine pieces."""
    found: list[Comparison] = []
    inputs = normal(2, 12, 5)
    weights, offset = _affine(3)

    def scores(points: Tensor) -> Tensor:
        return points @ weights.mT + offset

    labels = scores(inputs).argmax(1)
    mixed = torch.where(torch.arange(12) % 4 == 1, (labels + 1) % 3, labels)  # three are wrong from the start
    for norm, targets, radii in (("l2", mixed, (0.3, 0.0, 0.9, 0.1)), ("linf", labels, (0.0, 0.02, 0.05, 0.1, 0.3))):
        data = Sample(inputs, targets)
        far = _distances(weights, offset, data, norm)
        told = robustness_curve(scores, data, Threat(norm, 0.3), Pgd(Margin("every"), steps=30), radii)
        shares = [scale * float((far <= radius).double().mean()) for radius in radii]
        found.append(compare(told, "==", shares, f"error by radius, {norm}"))
    square = attack(scores, data, Threat("linf", 0.3), Square(queries=400))
    found.append(compare((square.success & (far > 0.3)).double().sum(), "==", 0.0, "squares fool nobody too far"))
    leaky = LeakyNet(normal(3, 4, 5), 0.5 * torch.tensor([1.0, -1, 1, -1]).double(), 0.3)
    signs = torch.where(torch.arange(12) % 2 > 0, 1.0, -1.0).double()
    low = smallest_score(leaky, inputs, signs, 0.2, steps=60, restarts=3)
    found.append(compare(low, "<=", signs * leaky(inputs), "scores fall"))
    norms = torch.linalg.vector_norm(leaky.gradient(inputs), dim=1)
    kinks = (normal(3, 4, 5) @ inputs.mT).abs() > 0.2 * normal(3, 4, 5).norm(dim=1)[:, None]
    plain = kinks.all(0)  # nothing bends within the ball: the score is affine there
    found.append(compare(plain.double().sum(), ">=", 1.0, "examples in an affine piece"))
    exact = (signs * leaky(inputs) - 0.2 * norms)[plain]
    found.append(compare(low[plain], "==", scale * exact, "the lowest of an affine piece"))
    found += _over_directions(scale)
    beta = 0.01
    wanted_flags = (signs * leaky(inputs) / normal(3, 4, 5).norm() < -beta).double()
    found.append(compare(effective(leaky, inputs, signs, beta).double(), "==", wanted_flags, "effective attacks"))
    return found


def _over_directions(scale: float) -> list[Comparison]:
    """In the plane: kinks pass through zero, so that the least score in a disc lies on its circle or at zero."""
    found: list[Comparison] = []
    angles = torch.linspace(0, 2 * math.pi, 4001).double()[:-1]
    circle = 0.4 * torch.stack([angles.cos(), angles.sin()], 1)
    signs, top = (
        torch.where(torch.arange(12) % 2 > 0, 1.0, -1.0).double(),
        0.5 * torch.tensor([1.0, -1, 1, -1]).double(),
    )
    for seed in (3, 11):
        W, inputs = normal(seed, 4, 2), 0.6 * normal(seed + 1, 12, 2)
        hidden = (inputs[:, None] + circle) @ W.mT
        least = (signs[:, None] * (torch.maximum(hidden, 0.3 * hidden) @ top)).amin(1)
        least = torch.where(inputs.norm(dim=1) <= 0.4, least.clamp_max(0.0), least)
        told = smallest_score(LeakyNet(W, top, 0.3), inputs, signs, 0.4, steps=60)
        # a step of the grid turns by 1.6e-3, which changes an affine score by its square
        found.append(compare(told, "==", scale * least, f"the least over all directions, {seed}", precision=1e-4))
    return found


class Frozen(nn.Module):
    """Layers with masks and running moments, which are the identity and an affine map in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(
            linear_head(1, 4, 5), nn.BatchNorm1d(5).double(), nn.Dropout(0.5), linear_head(2, 5, 3)
        )
        self.still = nn.Dropout(0.5).eval()

    def forward(self, inputs: Tensor) -> Tensor:
        return self.parts(self.still(inputs))


def _in_training(scale: float) -> list[Comparison]:
    """A module in the midst of its training is attacked in eval mode, and left as it was, moments and modes."""
    found: list[Comparison] = []
    module = Frozen().eval()
    data, threat = Sample(uniform(3, 20, 4), torch.arange(20) % 3), Threat("linf", 0.1, (0, 1))
    methods: list[Any] = [Pgd(Margin("greedy"), steps=3), Square(queries=12)]
    calls: tuple[tuple[str, Callable[[Path], Any]], ...] = (
        ("attack", lambda _: attack(module, data, threat, methods[0]).inputs),
        ("curve", lambda _: robustness_curve(module, data, threat, methods[0], [0.02, 0.1])),
        ("ensemble", lambda path: robust_accuracy(module, data, threat, methods, batch=8, checkpoint=path).inputs),
    )
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        for name, call in calls:
            module.eval()
            wanted = torch.as_tensor(call(Path(folder) / f"{name} a.safetensors"))
            module.train()
            module.still.eval()
            torch.manual_seed(0)
            before, state = copy.deepcopy(module.state_dict()), torch.get_rng_state()
            told = torch.as_tensor(call(Path(folder) / f"{name} b.safetensors"))
            found.append(compare(told, "==", scale * wanted, f"{name} in the midst of training"))
            modes = [part.training for part in module.modules()]
            after = module.state_dict()
            kept = (
                all(torch.equal(before[key], after[key]) for key in before),
                torch.equal(state, torch.get_rng_state()),
            )
            found.append(
                same((modes, *kept), ([True] * 6 + [False], True, True), f"{name} leaves all as it was", scale)
            )
    return found
