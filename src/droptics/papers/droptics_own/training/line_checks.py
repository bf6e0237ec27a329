"""What a claim on training compares: exact gradients, attacks inside a step, guards, entries, networks, beside sums."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from droptics.attacks import Fgsm, Pgd, Reflected, Threat
from droptics.data import Entries, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    Model,
    ReLUNet,
    TwoLayerLinear,
)
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, sample, simplex, tensor
from droptics.training import Adversarial, Dropout, Free, Penalized, Plain, train
from droptics.training.exact import arrays, gradient_rule
from droptics.training.guards import Diverged, Guard
from droptics.training.lazy import lazy_norm, lazy_start
from droptics.training.networks import ResNet, SmallCnn
from droptics.training.objectives import StepData, mean_loss
from droptics.training.trainees import trainee_rule


def training_in_full(scale: float) -> list[Comparison]:
    """Gradients of every linear family, doubts of attacks, runs that leave, entries, modules, starts and lines."""
    return by_parts((_gradients, _descended, _doubted, _left, _read, _shapes, _described), scale)


def _criterion(model: Model, data: Sample, law: MaskLaw | None) -> Tensor:
    """The mean squared error over all masks and examples."""
    if law is None:
        errors = (model.outputs(data.inputs) - data.targets).square().sum(-1)
        return errors @ data.shares
    parts = list(law.atom_batches(1 << 12))
    masks, chances = torch.cat([part[0] for part in parts]), torch.cat([part[1] for part in parts])
    errors = (model.outputs(data.inputs, masks[:, None]) - data.targets).square().sum(-1)
    return chances @ (errors @ data.shares)


def _families() -> list[tuple[str, Model, Any, Sample, MaskLaw | None]]:
    """Every linear family with a law of its own, as it is rebuilt from its tensors."""
    data = Sample(normal(1, 7, 3), normal(2, 7, 2), simplex(3, 7))
    square = Sample(normal(4, 6, 3), normal(5, 6, 3))
    deep = [normal(6, 2, 3), normal(7, 3, 2), normal(8, 2, 3)]
    hidden = Product([Bernoulli(0.3, 2), Block(0.4, 3, 3)])
    whole = Product([Bernoulli(tensor([0.0, 0.2, 0.5]), 3), Bernoulli(0.3, 2), Bernoulli(0.6, 3)])
    two = [normal(9, 2, 4), normal(10, 3, 4)]
    return [
        ("deep", DeepLinear(deep), DeepLinear, data, hidden),
        ("deep, inputs too", DeepLinear(deep, True), lambda ts: DeepLinear(ts, True), data, whole),
        ("deep, no masks", DeepLinear(deep), DeepLinear, data, None),
        ("one hidden layer", DeepLinear([deep[0], normal(11, 2, 2)]), DeepLinear, data, Bernoulli(0.3, 2)),
        ("two layers", TwoLayerLinear(*two), lambda ts: TwoLayerLinear(*ts), data, Block(0.3, 4, 2)),
        ("tied", Autoencoder(two[1]), lambda ts: Autoencoder(*ts), square, Bernoulli(tensor([0.1, 0.2, 0.5, 0.7]), 4)),
    ]


def _gradients(scale: float) -> list[Comparison]:
    """Risk + penalty and its gradients, by second moments and by all masks; batches of networks too."""
    found: list[Comparison] = []
    for name, model, build, data, law in _families():
        rule = gradient_rule(model, data, law)
        assert rule is not None
        free = [part.detach().clone().requires_grad_() for part in model.tensors]
        truth = _criterion(build(free), data, law)
        value, slopes = rule(arrays(free))
        found.append(compare(value, "==", scale * truth.detach(), f"risk and penalty, {name}"))
        for number, (mine, theirs) in enumerate(zip(slopes, torch.autograd.grad(truth, free), strict=True)):
            found.append(compare(mine, "==", scale * theirs, f"gradient {number}, {name}"))
        both = [torch.stack([part, 0.5 * part.flip(0)]) for part in model.tensors]
        many, all_slopes = rule(arrays(both))
        for at in range(2):
            alone, own = rule(arrays([part[at] for part in both]))
            found.append(compare(many[at], "==", scale * alone, f"a batch, {name}"))
            for mine, theirs in zip(all_slopes, own, strict=True):
                found.append(compare(mine[at], "==", scale * theirs, f"gradients of a batch, {name}"))
    told = []
    for seed in (2, 2, 3, 3):
        torch.rand(7)  # what else is drawn changes nothing
        told.append(lazy_start(5, 60, seed))
    for part in ("first layers", "signs"):
        mine = [start.weights[part == "signs"] for start in told]
        found.append(compare(mine[0], "==", scale * mine[1], f"{part} of one seed", 0.0))
        found.append(same([torch.equal(mine[k], mine[2]) for k in (0, 3)], [False, True], f"{part} of two seeds"))
    wide = TwoLayerLinear(normal(1, 1, 5000), normal(2, 1, 5000))
    found.append(same(gradient_rule(wide, sample(1, 3, 1, 1), Bernoulli(0.2, 5000)), None, "too wide", scale))
    found.append(same(gradient_rule(lazy_start(2, 3), sample(1, 3, 2, 1), None), None, "no rule", scale))
    return found


def _descended(scale: float) -> list[Comparison]:
    """Two steps along these gradients by `train`, without a batch; no family is left out."""
    found: list[Comparison] = []
    cells = normal(12, 2, 2), normal(13, 3, 2)
    data = Sample(normal(1, 7, 3), normal(2, 7, 2), simplex(3, 7))
    rates = tensor([0.1, 0.3, 0.5, 0.2, 0.6, 0.4])
    connected = "connections", Connections(*cells), lambda ts: Connections(*ts), data, Bernoulli(rates, 6)
    for name, model, build, data, law in [*_families(), connected]:
        run = train(model, data, Plain() if law is None else Penalized(law), steps=2, step_size=0.02)
        parts = [part.detach() for part in model.tensors]
        for _ in range(2):
            free = [part.clone().requires_grad_() for part in parts]
            slopes = torch.autograd.grad(_criterion(build(free), data, law), free)
            parts = [part - 0.02 * slope for part, slope in zip(parts, slopes, strict=True)]
        for mine, part in zip(run.model.tensors, parts, strict=True):
            found.append(compare(mine, "==", scale * part, f"two steps, {name}"))
    return found


def _doubted(scale: float) -> list[Comparison]:
    """Shares that two attacks fool, and what is said from a quarter on; starts, divergences and handed-on moves."""
    found: list[Comparison] = []
    threat = Threat("linf", 0.5)
    inputs, targets = tensor([[0.4], [0.35], [-0.05], [0.9]]), torch.tensor([0, 0, 0, 0])

    def bent(points: Tensor, multipliers: Tensor | None, run: int | None = None) -> Tensor:
        """Wrong only within 0.1 of 0.2, over which a step of the whole radius leads."""
        z = (points - 0.2).square() - 0.01
        return torch.cat([z, torch.zeros_like(z)], -1)

    def straight(points: Tensor, multipliers: Tensor | None, run: int | None = None) -> Tensor:
        return torch.cat([points, torch.zeros_like(points)], -1)

    batch = StepData(inputs, targets)
    # two or three of ten that may be fooled: on either side of a quarter
    few, more = (tensor([[0.4]] * count + [[2.0]] * (10 - count)) for count in (2, 3))
    for name, forward, points in (
        ("bent", bent, inputs),
        ("straight", straight, inputs),
        ("two of ten", bent, few),
        ("three of ten", bent, more),
    ):
        known = StepData(points, torch.zeros(len(points), dtype=torch.long))
        for method, objective in (
            (Fgsm(), Adversarial(threat, Fgsm())),
            (Adversarial.fast(threat).method, Adversarial.fast(threat)),
            (Adversarial.fast(threat).method, Free(threat)),
        ):
            shares = []
            for search in (method, Pgd(CrossEntropy(), steps=10, step=0.125, stop="never")):
                generator = torch.Generator().manual_seed(0)
                outputs = forward(_searched(forward, points, known.targets, threat, search, generator), None)
                shares.append(float((outputs[:, 0] < outputs[:, 1]).double().mean()))
            weak, strong = shares
            words = f"{strong:.0%} of the batch are wrong under 10 steps and {weak:.0%} under the attack of training"
            words = words if strong > weak + 0.25 else ""
            told = objective.doubt(forward, known)
            found.append(same(told[: len(words)] if words else told, words, f"doubt, {name}, {type(method)}", scale))
    fast: Any = Adversarial.fast(threat, Reflected(CrossEntropy()))
    told_fast = type(fast.loss), type(fast.method.loss), fast.method.step, fast.method.steps
    found.append(same(told_fast, (CrossEntropy, Reflected, 0.625, 1), "a reflected loss is climbed alone", scale))
    several = Adversarial(threat, Pgd(steps=2))
    found.append(same(several.doubt(bent, batch), "", "several steps are not doubted", scale))
    free = Free(threat, step=None)
    begun = free.begin(batch, None)
    assert begun.moves is not None
    found.append(compare(begun.moves.abs().sum(), "==", 0.0, "moves begin at zero"))
    handed = free.begin(batch, 0.1 * inputs)
    assert handed.moves is not None
    found.append(compare(handed.moves, "==", scale * 0.1 * inputs, "and are handed on"))
    shared = free.begin(StepData(inputs, targets, runs=3, shared=True), None)
    assert shared.moves is not None
    found.append(same(tuple(shared.moves.shape), (3, 4, 1), "one for every run", scale))
    found.append(same((free.updates, Free(threat, 2).updates), (4, 2), "updates of a batch", scale))
    return found


def _searched(
    forward: Any, inputs: Tensor, targets: Tensor, threat: Threat, method: Any, generator: torch.Generator
) -> Tensor:
    """Points of an attack in the l-infinity ball: signs of slopes of the cross entropy, cut to the ball."""
    start = getattr(method, "start", "input")
    points = inputs
    if start == "random":
        points = threat.around(inputs).random(generator)
    size = {Fgsm: threat.radius}.get(type(method)) or float(method.step)
    best, least = points, torch.full((len(inputs),), -math.inf, dtype=torch.float64)
    for _ in range(getattr(method, "steps", 1)):
        leaf = points.clone().requires_grad_()
        loss = nn.functional.cross_entropy(forward(leaf, None), targets, reduction="none")
        (slope,) = torch.autograd.grad(loss.sum(), leaf)
        points = inputs + (points + size * slope.sign() - inputs).clamp(-threat.radius, threat.radius)
        reached = nn.functional.cross_entropy(forward(points, None), targets, reduction="none")
        better = reached > least
        best, least = torch.where(better[:, None], points, best), torch.where(better, reached, least)
    return best


def _left(scale: float) -> list[Comparison]:
    """A run that diverges is named with its step and size, or put back and stopped beside the others."""
    found: list[Comparison] = []
    data = Sample(tensor([[1.0]]), tensor([[1.0]]))
    # w -> w - 2 size (w - 1): the distance to 1 grows by 2 size - 1 in every step
    start = DeepLinear([torch.ones(2, 1, 1).double() * tensor([3.0, 0.0])[:, None, None], torch.ones(2, 1, 1).double()])
    sizes = tensor([40.0, 0.01])
    try:
        train(start, data, Plain(), steps=40, step_size=sizes, frozen=(1,), diverging="raise")
        found.append(same(True, False, "diverges", scale))
    except Diverged as end:
        # squared distances 4 (79)^(2t) pass 1e8 (1 + first risk) = 5e8 at the loss of the third step
        wanted = next(t for t in range(40) if 4 * 79.0 ** (2 * t) > 1e8 * (1 + 4.0))
        found.append(same((end.step, end.step_size, end.runs), (wanted, 40.0, (0,)), "where it leaves", scale))
        found.append(same(f"at step {wanted} (run 0) with gradient step size 40;" in str(end), True, "in words", scale))
    found += _named(start, data, scale)
    stopped = train(start, data, Plain(), steps=40, step_size=sizes, frozen=(1,), diverging="freeze")
    assert isinstance(stopped.model, DeepLinear)
    w = 1 - (1 - 2 * 0.01) ** 40
    found.append(compare(stopped.model.weights[0][1, 0, 0], "==", scale * w, "the other run goes on", precision=1e-9))
    put_back = float(stopped.model.weights[0][0, 0, 0])
    found.append(same(math.isfinite(put_back) and abs(put_back) < 1e10, True, "put back", scale))
    guard = Guard(tensor([1.0, 2.0, 3.0]), tensor([0.1, 0.2, 0.3]), "freeze")
    engine: Any = _Engine(torch.zeros(3, 2).double())
    fine = torch.ones(2, 3).double()
    for step, losses, frozen in (
        (0, fine, {}),
        (2, torch.stack([tensor([5e8, 1, 1]), tensor([1.0, 1, 1])]), {0: 2}),
        (4, torch.stack([tensor([math.nan, 1, 1]), tensor([math.nan, 1, 3.9e8])]), {0: 2}),
        (6, torch.stack([tensor([math.nan, 1, 1]), tensor([math.nan, math.inf, 1])]), {0: 2, 1: 7}),
    ):
        before = guard.remember(engine)
        engine.weights += 1
        guard.check(engine, losses, torch.ones(2, 3).double(), step, before)
        found.append(same(guard.frozen, frozen, f"stopped after step {step}", scale))
    found.append(compare(guard.sizes, "==", scale * tensor([0.0, 0.0, 0.3]), "sizes of those left"))
    found.append(compare(engine.weights[:, 0], "==", scale * tensor([3.0, 3.0, 4.0]), "put back once each"))
    guard = Guard(tensor([1.0, 2.0, 3.0]), tensor([0.1, 0.2, 0.3]), "freeze")
    engine = _Engine(torch.zeros(3, 2).double(), torch.tensor([True, False, True]))
    guard.check(engine, fine, torch.ones(2, 3).double(), 4, guard.remember(engine))
    found.append(same(guard.frozen, {1: 5}, "weights that are not finite after the last step", scale))
    many = str(Diverged(3, 0.5, tuple(range(9))))
    found.append(same("(run 0, 1, 2, 3, 4, 5, 6, 7, ...)" in many, True, "eight runs are named", scale))
    found.append(same("..." in str(Diverged(3, 0.5, tuple(range(8)))), False, "and no more", scale))
    return found


def _named(start: DeepLinear, data: Sample, scale: float) -> list[Comparison]:
    """The step, its own size and the runs of a divergence, where sizes change from step to step."""
    found: list[Comparison] = []
    distances, wanted = [2.0], 0
    while distances[-1] ** 2 <= 1e8 * (1 + 4.0):  # that of w from 1 grows by 2 size - 1
        distances.append(distances[-1] * (2 * 40.0 / (1 + wanted) - 1))
        wanted += 1
    try:
        train(
            start, data, Plain(), steps=40, step_size=tensor([40.0, 0.01]), schedule=lambda t: 1 / (1 + t), frozen=(1,)
        )
        found.append(same(True, False, "diverges on a schedule", scale))
    except Diverged as end:
        found.append(same(end.step, wanted, "step on a schedule", scale))
        found.append(compare(end.step_size, "==", scale * 40.0 / (1 + wanted), "size on a schedule"))
        found.append(same(end.runs, (0,), "run on a schedule"))
    for frozen, words in (
        ((-1,), "frozen must be indices of the 2 weights, got (-1,)"),
        ((0, 2), "frozen must be indices of the 2 weights, got (0, 2)"),
        ((0, 1), "frozen leaves nothing to train"),
    ):
        found.append(
            refuses(lambda frozen=frozen: train(start, data, Plain(), steps=1, step_size=0.1, frozen=frozen), words)
        )
    sizes = tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.6], [0.7, 0.8, 0.9]])
    left = torch.ones(3, 3).double()
    left[1, 2], left[2, 1], left[2, 2] = math.inf, 1e9, math.nan
    try:
        guard = Guard(tensor([1.0, 2.0, 3.0]), sizes[0], "raise")
        engine: Any = _Engine(torch.zeros(3, 2).double())
        guard.check(engine, left, sizes, 5, guard.remember(engine))
        found.append(same(True, False, "leaves", scale))
    except Diverged as end:
        found.append(same((end.step, end.runs), (6, (1, 2)), "the first step of all runs", scale))
        found.append(compare(end.step_size, "==", scale * 0.6, "the size of that step and run"))
    return found


class _Engine:
    """Weights, and which runs have finite ones."""

    def __init__(self, weights: Tensor, finite: Tensor | None = None) -> None:
        self.weights = weights
        self.finite = torch.ones(3, dtype=torch.bool) if finite is None else finite

    def tensors(self) -> dict[str, Tensor]:
        return {"w0": self.weights}

    def sound(self) -> Tensor:
        return self.finite


def _read(scale: float) -> list[Comparison]:
    """Outputs of runs at their own entries, alone or together; means over examples of every shape of targets."""
    found: list[Comparison] = []
    U, V = normal(1, 2, 3, 2), normal(2, 2, 4, 2)
    trainee = trainee_rule(Factorization(U, V))
    places = torch.tensor([[[0, 1], [2, 3]], [[1, 0], [2, 2]]])
    masks = normal(3, 2, 2, 2)
    for run in range(2):
        for at in range(2):
            i, j = places[run, at]
            terms = U[run, i] * V[run, j]
            plain = trainee.forward(places, None)[run, at, 0]
            found.append(compare(plain, "==", scale * terms.sum(), "an entry of a run"))
            masked = trainee.forward(places, masks)[run, at, 0]
            found.append(compare(masked, "==", scale * (terms * masks[run, at]).sum(), "under a mask"))
            alone = trainee.forward(places[run], None, run)[at, 0]
            found.append(compare(alone, "==", scale * terms.sum(), "a run alone"))
    relu = ReLUNet([normal(5, 3, 2), normal(6, 2, 3)])
    wide, law = sample(7, 4, 2, 2), Product([Bernoulli(0.0, 2), Bernoulli(0.4, 3)])
    told = trainee_rule(relu).penalized(Squared(), StepData(wide.inputs, wide.targets), law, wide)
    found.append(compare(told.detach(), "==", scale * _criterion(relu, wide, law), "a penalized network"))
    outputs, labels = normal(4, 2, 3, 4), torch.tensor([[0, 1, 3], [2, 2, 0]])
    weights = simplex(5, 3)
    each = -torch.stack([outputs[r].log_softmax(-1)[torch.arange(3), labels[r]] for r in range(2)])
    for given, shares in ((None, tensor([1 / 3] * 3)), (weights, weights)):
        batch = StepData(outputs, labels, given)
        found.append(compare(mean_loss(CrossEntropy(), outputs, batch), "==", scale * each @ shares, "own labels"))
        batch = StepData(outputs, labels[0], given)
        own = -outputs.log_softmax(-1)[:, torch.arange(3), labels[0]] @ shares
        found.append(compare(mean_loss(CrossEntropy(), outputs, batch), "==", scale * own, "labels in common"))
    entries = Entries(torch.tensor([0, 1, 2, 2]), torch.tensor([1, 0, 3, 1]), tensor([0.3, -1.0, 2.0, 0.5]), (3, 4))
    model = Factorization(U[0], V[0])
    ended = train(model, entries, Plain(), steps=1, step_size=0.05)
    free = [part.clone().requires_grad_() for part in (U[0], V[0])]
    loss = ((free[0][entries.rows] * free[1][entries.columns]).sum(-1) - entries.values).square().mean()
    for mine, part, slope in zip(ended.model.tensors, free, torch.autograd.grad(loss, free), strict=True):
        found.append(compare(mine, "==", scale * (part - 0.05 * slope).detach(), "a step on entries"))
    return found


def _shapes(scale: float) -> list[Comparison]:
    """Small networks by their defaults, modules with a law on their head, and the radius of lazy starts."""
    found: list[Comparison] = []
    counted = {SmallCnn: (4, 1), ResNet: (9, 3)}
    for family, (layers, blocks) in counted.items():
        module = family()
        own = [layer for layer in module.modules() if isinstance(layer, (nn.Conv2d, nn.Linear))]
        deep = [layer for layer in own if layer.weight.shape[-1] != 1 or layer.weight.ndim == 2]
        found.append(same(len(deep), layers + 1 if family is SmallCnn else layers, f"layers, {family.__name__}", scale))
        found.append(same(tuple(module.head.weight.shape), (10, 80), f"head, {family.__name__}", scale))
        twin, other = family(seed=0), family(seed=1)
        alike = [torch.equal(a, b) for a, b in zip(module.parameters(), twin.parameters(), strict=True)]
        found.append(same(all(alike), True, f"one seed, {family.__name__}", scale))
        found.append(same(torch.equal(module.head.weight, other.head.weight), False, "another seed", scale))
        if family is ResNet:
            found.append(same(len(module.stages), blocks, "blocks", scale))
    for inputs, width in ((9, 1), (9, 2), (16, 50)):
        wanted = math.sqrt(inputs) + 2 * math.sqrt(math.log(max(width, 2))) + 1
        found.append(compare(lazy_norm(inputs, width), "==", scale * wanted, f"radius of {width}"))
    module = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2)).double()
    with torch.no_grad():
        for number, part in enumerate(module.parameters()):
            part.copy_(normal(number + 1, *part.shape))
    data, law = sample(6, 5, 2, 2), Bernoulli(tensor([0.1, 0.4, 0.6]), 3)
    run = train(LastLayer.of(module, "2"), data, Penalized(law), steps=1, step_size=0.1, batch_size=None)
    features, head = module[1](module[0](data.inputs)), module[2]
    assert isinstance(head, nn.Linear)
    added = (law.relative_variance * head.weight.square().sum(0) * features.square().mean(0)).sum()
    loss = (module(data.inputs) - data.targets).square().sum(1).mean() + added
    parameters = list(module.parameters())
    assert isinstance(run.model, LastLayer)
    for mine, part, slope in zip(
        run.model.module.parameters(), parameters, torch.autograd.grad(loss, parameters), strict=True
    ):
        found.append(compare(mine, "==", scale * (part - 0.1 * slope).detach(), "a module with its penalty"))
    return found


def _described(scale: float) -> list[Comparison]:
    """Lines by which checkpoints know an objective."""
    coins, threat = Bernoulli(0.2, 2), Threat("l2", 0.5)
    law = f"Bernoulli of 2 units {[float(v) for v in (0.8, 0.8, coins.mean.sum(), coins.relative_variance.sum())]}"
    lines: Sequence[tuple[Any, str]] = (
        (Plain(Logistic()), "Plain(Logistic)"),
        (Dropout(coins), f"Dropout({law}; Squared, per example, scaled True)"),
        (
            Dropout([coins, coins], CrossEntropy(), "step", False),
            f"Dropout({law}, {law}; CrossEntropy, per step, scaled False)",
        ),
        (Penalized(coins), f"Penalized({law})"),
        (Free(threat), f"Free({threat!r}, 4 replays, step None, CrossEntropy)"),
        (Adversarial(threat, Fgsm()), f"Adversarial({threat!r}, {Fgsm()!r}, CrossEntropy)"),
        (
            Adversarial(threat, Fgsm(), consistency=2.0),
            f"Adversarial({threat!r}, {Fgsm()!r}, CrossEntropy, consistency 2.0)",
        ),
    )
    found = [same(objective.describe(), line, line, scale) for objective, line in lines]
    # laws of equal ends and sums: each has a line of its own, and the same line again
    atoms, odds = tensor([[2.0, 0.0], [0.0, 2.0], [2.0, 2.0], [0.0, 0.0]]), torch.full((4,), 0.25).double()
    several = (
        lambda: Bernoulli(tensor([0.5, 0.5, 0.75, 0.5]), 4),
        lambda: Bernoulli(tensor([0.5, 0.75, 0.5, 0.5]), 4),
        lambda: Gaussian(tensor([0.5, 0.25]), 2),
        lambda: Gaussian(tensor([0.25, 0.5]), 2),
        lambda: Block(0.3, 4, 2),
        lambda: Block(0.3, 4, 4),
        lambda: Product([Bernoulli(0.3, 2), Block(0.3, 2, 2)]),
        lambda: Product([Block(0.3, 2, 2), Bernoulli(0.3, 2)]),
        lambda: Discrete(atoms, odds),
        lambda: Discrete(atoms[:2], 2 * odds[:2]),
    )
    own = [[kind(one()).describe() for one in several] for kind in (Dropout, Penalized, Dropout)]
    found.append(same([len(set(told)) for told in own], [len(several)] * 3, "every law has its line", scale))
    found.append(same(own[0], own[2], "the same law has the same"))
    start = ReLUNet([normal(1, 3, 2), normal(2, 1, 3)])
    keeps = [(objective.laws, objective.share) for objective, _ in lines]
    wanted = [
        ((), None),
        ((coins,), "example"),
        ((coins, coins), "step"),
        ((coins,), None),
        ((), None),
        ((), None),
        ((), None),
    ]
    found.append(same(keeps, wanted, "laws, and who shares a mask", scale))
    found.append(same(gradient_rule(start, sample(1, 3, 2, 1), None), None, "networks without a rule", scale))
    return found
