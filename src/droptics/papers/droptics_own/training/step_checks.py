"""What the claims on training compare: schedules, single steps, means and curves against their definitions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from droptics.attacks import (
    Apgd,
    Averaged,
    CrossEntropy,
    Fgsm,
    Logistic,
    Margin,
    Pgd,
    Threat,
    attack,
    robustness_curve,
)
from droptics.attacks.methods import Decay, step_sizes
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Block, Gaussian, Product
from droptics.models import Autoencoder, DeepLinear, LastLayer, Model, ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.predictions.moment_checks import network, network_masks
from droptics.papers.instances import moments, normal, simplex, tensor, uniform
from droptics.training import (
    Adversarial,
    Cosine,
    Dropout,
    DropoutClassifier,
    Free,
    Inverse,
    Penalized,
    Recording,
    Staircase,
    log_steps,
    train,
    with_previous,
)
from droptics.training.draws import Stream
from droptics.training.settings import EngineName


def schedules(scale: float) -> list[Comparison]:
    """Step sizes over time, recorded steps, and attacks' steps, by their formulas."""
    steps = range(30)
    inverse, cosine, stairs = Inverse(4.0), Cosine(20), Staircase(6, 0.3)
    return [
        compare([inverse(t) for t in steps], "==", [scale / (1 + t / 4) for t in steps], "inverse"),
        compare(
            [cosine(t) for t in steps], "==", [(1 + math.cos(math.pi * min(t, 20) / 20)) / 2 for t in steps], "cosine"
        ),
        compare([stairs(t) for t in steps], "==", [scale * 0.3 ** (t // 6) for t in steps], "stairs"),
        compare(with_previous([0, 5, 6]), "==", [0, 4, 5, 6], "steps and those before"),
        compare(log_steps(1000, 4), "==", [0, 1, 10, 100, 1000], "logarithmic steps"),
        compare(log_steps(1000, 1), "==", [0, 1000], "the last one alone"),
        compare(log_steps(6, 9), "==", [0, 1, 2, 3, 4, 5, 6], "rounded ones, each once"),
        compare([Decay(0.5, 0.2, 3)(t) for t in range(7)], "==", [0.5 * 0.2 ** (t // 3) for t in range(7)], "decay"),
        compare(step_sizes(None, 5, 0.3, "fixed"), "==", [scale * 0.06] * 5, "fixed steps"),
        compare(step_sizes(None, 3, 0.3, "decaying"), "==", [0.3, 0.03, 0.003], "decaying steps"),
    ]


def engine_steps(scale: float) -> list[Comparison]:
    """Steps under given masks by every engine, tied and untied; exact gradients; what is recorded along the way."""
    found = []
    x, y, law = normal(1, 1, 3), normal(2, 1, 3), Bernoulli(0.4, 4)
    data = Sample(x, y)
    engines: tuple[EngineName, ...] = ("kernel", "products", "torch")
    starts: dict[str, Model] = {
        "tied": Autoencoder(normal(3, 3, 4)),
        "untied": TwoLayerLinear(normal(4, 3, 4), normal(5, 3, 4)),
    }
    for name, start in starts.items():
        for engine in engines:
            options: dict[str, Any] = {"steps": 3, "step_size": 0.02, "batch_size": 1, "engine": engine}
            run = train(start, data, Dropout(law), keep=range(4), record=Recording(at=range(4)), **options)
            losses = []
            for before, after in itertools.pairwise(run.iterates):
                assert before.multipliers is not None
                z = before.multipliers.reshape(-1)
                leaves = [part.detach().clone().requires_grad_() for part in before.model.tensors]
                U, V = leaves[0], leaves[-1]
                loss = (((x @ V) * z) @ U.mT - y).square().sum()
                slopes = torch.autograd.grad(loss, leaves)
                losses.append(loss.detach())
                for old, new, slope in zip(leaves, after.model.tensors, slopes, strict=True):
                    wanted = old.detach() - scale * 0.02 * slope
                    found.append(compare(new, "==", wanted, f"{name}, {engine}", precision=1e-9))
            told = torch.stack([losses[0], *losses])  # the loss of the first step stands at the start, too
            found.append(compare(run.history["loss"], "==", scale * told, f"losses, {name}, {engine}"))
            rare = train(start, data, Dropout(law), record=Recording(at=(0, 1, 3)), **options)
            found.append(compare(rare.mean_loss(0, 3), "==", scale * told[1:].mean(), f"mean loss, {name}, {engine}"))
            found.append(compare(rare.mean_loss(1, 3), "==", scale * told[2:].mean(), f"since one, {name}, {engine}"))
            found.append(compare(rare.mean_loss(3, 0), "==", rare.mean_loss(0, 3), f"backwards, {name}, {engine}"))
    many = Sample(normal(15, 5, 3), normal(16, 5, 3), simplex(17, 5))
    for name, start in starts.items():
        run = train(start, many, Dropout(law), steps=2, step_size=0.02, keep=range(3), engine="torch")
        for before, after in itertools.pairwise(run.iterates):
            assert before.multipliers is not None
            leaves = [part.detach().clone().requires_grad_() for part in before.model.tensors]
            outputs = ((many.inputs @ leaves[-1]) * before.multipliers) @ leaves[0].mT
            loss = simplex(17, 5) @ (outputs - many.targets).square().sum(1)
            for old, new, slope in zip(leaves, after.model.tensors, torch.autograd.grad(loss, leaves), strict=True):
                found.append(compare(new, "==", old.detach() - scale * 0.02 * slope, f"all examples, {name}"))
            found.append(compare(before.multipliers.unique(), "==", [0.0, 1 / 0.6], f"one mask each, {name}"))
    rates = ([0.3, 0.1, 0.2], [0.4, 0.2], [0.5, 0.3])
    deep = DeepLinear([normal(6, 2, 3), normal(7, 2, 2), normal(8, 1, 2)], mask_inputs=True)
    whole = Sample(normal(9, 7, 3), normal(10, 7, 1))
    joint = Product([Bernoulli(tensor(part), len(part)) for part in rates])
    run = train(deep, whole, Penalized(joint), steps=1, step_size=0.01, keep=(0, 1), record=Recording(at=(0, 1)))
    leaves = [weight.detach().clone().requires_grad_() for weight in deep.weights]
    kept, chances = every_coin([rate for part in rates for rate in part])
    hidden = whole.inputs
    for weight, part, own in zip(leaves, kept.split([3, 2, 2], -1), rates, strict=True):
        hidden = (hidden * (part / (1 - tensor(own)))[:, None, :]) @ weight.mT
    objective = chances @ (hidden - whole.targets).square().sum(-1).mean(-1)
    slopes = torch.autograd.grad(objective, leaves)
    assert isinstance(run.model, DeepLinear)
    for old, new, slope in zip(leaves, run.model.weights, slopes, strict=True):
        found.append(compare(new, "==", old.detach() - scale * 0.01 * slope, "exact gradient of a deep network"))
    found.append(compare(run.history["objective"][0], "==", scale * objective, "recorded objective"))
    return [*found, *_together(scale), *_records(scale)]


def _together(scale: float) -> list[Comparison]:
    """A batch of runs by every engine, each run with its step size, examples and masks; between records several steps.

    Weights and mean losses since the last record by autograd on the draws of their streams.
    """
    found, law, slower = [], Bernoulli(0.4, 4), Inverse(4.0)
    data, sizes = Sample(normal(15, 5, 3), normal(16, 5, 3)), tensor([0.02, 0.05])
    draws = Stream(data, Dropout(law), [3, 4], 1, torch.device("cpu")).next(6)
    assert draws.inputs is not None
    assert draws.targets is not None
    assert draws.multipliers is not None
    starts: dict[str, Model] = {
        "tied": Autoencoder(0.5 * normal(3, 2, 3, 4)),
        "untied": TwoLayerLinear(0.5 * normal(4, 2, 3, 4), 0.5 * normal(5, 2, 3, 4)),
    }
    engines: tuple[EngineName, ...] = ("kernel", "products", "torch")
    for name, start in starts.items():
        weights, losses = list(start.tensors), []
        for step in range(6):
            leaves = [part.detach().clone().requires_grad_() for part in weights]
            x, y, z = (part[:, step] for part in (draws.inputs, draws.targets, draws.multipliers))
            each = (((x @ leaves[-1]) * z) @ leaves[0].mT - y).square().sum((1, 2))
            slopes = torch.autograd.grad(each.sum(), leaves)
            moved = scale * slower(step) * sizes[:, None, None]
            weights = [part.detach() - moved * slope for part, slope in zip(leaves, slopes, strict=True)]
            losses.append(each.detach())
        wanted = torch.stack([losses[0], (losses[0] + losses[1]) / 2, torch.stack(losses[2:]).mean(0)])
        for engine in engines:
            run = train(start, data, Dropout(law), steps=6, step_size=sizes.tolist(), batch_size=1, seed=3,
                        schedule=slower, engine=engine, record=Recording(at=(0, 2, 6)))  # fmt: skip
            for own, told in zip(weights, run.model.tensors, strict=True):
                found.append(compare(told, "==", own, f"a batch of runs, {name}, {engine}"))
            found.append(compare(run.history["loss"], "==", wanted, f"its mean losses, {name}, {engine}"))
    return found


def _records(scale: float) -> list[Comparison]:
    """Named records of a two-layer network on moments."""
    model, population = TwoLayerLinear(normal(11, 2, 3), normal(12, 3, 3)), moments(13, 2, 3)
    names = ("importance_variance", "importance_spread", "singular_values", "distance")
    told = train(
        model,
        population,
        Penalized(Bernoulli(0.3, 3)),
        steps=1,
        step_size=1e-3,
        record=Recording(names, at=(0, 1), reference=normal(14, 2, 3)),
    ).history
    scores = (model.U.square().sum(0) * ((model.V.mT @ population.xx) * model.V.mT).sum(1)).sqrt()
    W = model.U @ model.V.mT
    first = names[:2]
    silent, coins = TwoLayerLinear(0 * model.U, model.V), Penalized(Bernoulli(0.3, 3))
    rest = train(silent, population, coins, steps=1, step_size=1e-3, record=Recording(first, at=(0, 1))).history
    return [
        compare(torch.stack([rest[name][0] for name in first]), "==", scale - 1, "of units that pass on nothing"),
        compare(told["importance_variance"][0], "==", scale * scores.var(correction=0), "variance of the scores"),
        compare(told["importance_spread"][0], "==", scores.std(correction=0) / scores.mean(), "their spread"),
        compare(told["singular_values"][0], "==", torch.linalg.svdvals(W), "singular values"),
        compare(told["distance"][0], "==", (W - normal(14, 2, 3)).norm(), "distance"),
    ]


def hardened(scale: float) -> list[Comparison]:
    """Adversarial steps: the loss at attacked inputs, divergence, free replays, probabilities of a classifier."""
    found = []
    net = network(1, 3, 4, 3)
    data = Sample(uniform(2, 8, 3), torch.arange(8) % 3, 3 * simplex(4, 8))
    threat, around_all, size = Threat("linf", 0.1), Threat("l2", 0.2), 0.05

    def moved(weights: list[Tensor], inputs: Tensor) -> Tensor:
        hidden = torch.relu(inputs @ weights[0].mT + weights[2])
        return hidden @ weights[1].mT + weights[3]

    def weighed(outputs: Tensor) -> Tensor:
        return functional.cross_entropy(outputs, data.targets, reduction="none") @ data.shares

    def slopes_of(weights: list[Tensor], inputs: Tensor) -> Tensor:
        leaf = inputs.detach().clone().requires_grad_()
        return torch.autograd.grad(weighed(moved([part.detach() for part in weights], leaf)), leaf)[0]

    def fresh() -> list[Tensor]:
        return [part.detach().clone().requires_grad_() for part in (*net.weights, *net.biases)]

    for consistency, around in itertools.product((0.0, 2.0), (threat, around_all)):
        weights = fresh()
        slopes = slopes_of(weights, data.inputs)
        way = slopes.sign() if around is threat else slopes / slopes.norm(dim=1, keepdim=True)
        points = data.inputs + scale * around.radius * way
        outputs, clean = moved(weights, points), moved(weights, data.inputs)
        loss = weighed(outputs)
        if consistency:
            p, q = clean.softmax(1), outputs.softmax(1)
            loss = weighed(clean) + consistency * ((p * (p / q).log()).sum(1) @ data.shares)
        steps = torch.autograd.grad(loss, weights)
        objective = Adversarial(around, Fgsm(), consistency=consistency)
        run = train(net, data, objective, steps=1, step_size=size, batch_size=None)
        assert isinstance(run.model, ReLUNet)
        for new, old, slope in zip((*run.model.weights, *run.model.biases), weights, steps, strict=True):
            name = f"one step, consistency {consistency}, {around.norm}"
            found.append(compare(new, "==", old.detach() - size * slope, name))
    for norm, box in (("linf", None), ("linf", (0.0, 1.0)), ("l2", None)):
        weights, moves, losses = fresh(), torch.zeros_like(data.inputs), []
        for _ in range(6):  # two batches of three replays; the second goes on from the moves of the first
            leaves = [part.detach().requires_grad_() for part in weights]
            step = moves.clone().requires_grad_()
            points = data.inputs + step if box is None else (data.inputs + step).clamp(*box)
            loss = weighed(moved(leaves, points))
            losses.append(float(loss.detach()))
            *downs, climb = torch.autograd.grad(loss, [*leaves, step])
            weights = [part.detach() - size * slope for part, slope in zip(leaves, downs, strict=True)]
            if norm == "linf":
                moves = (moves + scale * 0.04 * climb.sign()).clamp(-0.1, 0.1)
            else:
                moves = moves + scale * 0.04 * climb / climb.norm(dim=1, keepdim=True)
                moves = moves * (0.1 / moves.norm(dim=1, keepdim=True)).clamp_max(1.0)
        free = Free(Threat(norm, 0.1, box), 3, 0.04)
        run = train(net, data, free, steps=2, step_size=size, batch_size=None, record=Recording(at=(0, 1, 2)))
        assert isinstance(run.model, ReLUNet)
        told = [float(run.history["loss"][run.at(step)]) for step in (1, 2)]
        found.append(compare(told, "==", scale * tensor(losses[::3]), f"losses before the first replay, {norm}"))
        for new, old in zip((*run.model.weights, *run.model.biases), weights, strict=True):
            found.append(compare(new, "==", old, f"replays, {norm}, box {box}"))
    return [*found, *_margin_step(scale), *_as_alone(scale), *_fast(scale), *_classified(scale)]


def _margin_step(scale: float) -> list[Comparison]:
    """An adversarial step of one output, the log odds of two classes, with the divergence of their chances."""
    net, signs, size = network(2, 3, 4, 1), tensor([1.0, -1, -1, 1, 1]), 0.05
    inputs, weights = normal(4, 5, 3), [part.detach().clone().requires_grad_() for part in (*net.weights, *net.biases)]

    def margins(points: Tensor) -> Tensor:
        return (torch.relu(points @ weights[0].mT + weights[2]) @ weights[1].mT + weights[3])[:, 0]

    leaf = inputs.clone().requires_grad_()
    (slopes,) = torch.autograd.grad(functional.softplus(-signs * margins(leaf)).sum(), leaf)
    clean, there = margins(inputs), margins(inputs + scale * 0.1 * slopes.sign())
    p, q = clean.sigmoid(), there.sigmoid()
    apart = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
    steps = torch.autograd.grad((functional.softplus(-signs * clean) + 2 * apart).mean(), weights)
    objective = Adversarial(Threat("linf", 0.1), Fgsm(Logistic()), Logistic(), consistency=2.0)
    run = train(net, Sample(inputs, signs[:, None]), objective, steps=1, step_size=size, batch_size=None)
    assert isinstance(run.model, ReLUNet)
    new = [*run.model.weights, *run.model.biases]
    return [
        compare(one, "==", old.detach() - size * slope, "one step, one output")
        for one, old, slope in zip(new, weights, steps, strict=True)
    ]


def _as_alone(scale: float) -> list[Comparison]:
    """Networks that are trained as one batch go as each goes alone."""
    found = []
    nets, data = [network(seed, 3, 4, 3) for seed in (1, 7)], Sample(uniform(2, 8, 3), torch.arange(8) % 3)
    stacked = [
        [torch.stack(pair) for pair in zip(*parts, strict=True)]
        for parts in ([net.weights for net in nets], [net.biases for net in nets])
    ]
    threat = Threat("l2", 0.2)
    for objective in (Adversarial(threat, Fgsm(), consistency=2.0), Free(threat, 3, 0.1)):
        settings: dict[str, Any] = {"steps": 1, "step_size": 0.05, "batch_size": None}
        both = train(ReLUNet(*stacked), data, objective, **settings).model
        for number, net in enumerate(nets):
            alone = train(net, data, objective, **settings).model
            for one, other in zip(both.tensors, alone.tensors, strict=True):
                label = f"run {number} of a batch, {type(objective).__name__}"
                found.append(compare(one[number], "==", scale * other, label))
    return found


def _fast(scale: float) -> list[Comparison]:
    """One step of 1.25 radii from a random start ends up the slope: in the ball, and by a quarter of a radius at least.

    Of one example the step of a unit's weights over that of its offset is the point where the unit was trained.
    """
    found, radius, size = [], 1e-3, 0.05
    net, x, target = network(1, 3, 4, 3), uniform(5, 1, 3), torch.tensor([1])
    leaf = x.clone().requires_grad_()
    (slope,) = torch.autograd.grad(functional.cross_entropy(net.outputs(leaf), target), leaf)
    for norm in ("linf", "l2"):
        objective = Adversarial.fast(Threat(norm, radius))
        run = train(net, Sample(x, target), objective, steps=1, step_size=size, batch_size=None, seed=3)
        assert isinstance(run.model, ReLUNet)
        first, offset = run.model.weights[0] - net.weights[0], run.model.biases[0] - net.biases[0]
        unit = int(offset.abs().argmax())
        move = (first[unit] / offset[unit] - x[0]) / radius
        way = slope[0].sign() if norm == "linf" else slope[0] / slope[0].norm()
        climbed = move * way if norm == "linf" else move @ way
        # the start takes one radius back at most; only a longer move is cut
        found.append(compare(climbed, ">=", 0.25 * scale, f"up the slope, {norm}", precision=1e-2))
        length = move.abs().max() if norm == "linf" else move.norm()
        found.append(compare(length, "<=", 1.0, f"within the ball, {norm}", precision=1e-6))
    return found


def _classified(scale: float) -> list[Comparison]:
    """Probabilities of a small classifier over all masks, and the class it predicts."""
    found: list[Comparison] = []
    X, labels = 3 * normal(5, 12, 2).numpy() + 1, np.array([7, 2, 4] * 4)
    fitted = DropoutClassifier((3,), 0.3, epochs=2, seed=1).fit(X, labels)
    inputs = torch.from_numpy((X - X.mean(0)) / X.std(0))
    outputs, chances = network_masks(fitted.network_, inputs, [[0.3] * 2, [0.3] * 3])
    shares = torch.tensordot(chances, outputs.softmax(-1), dims=1)
    found.append(compare(fitted.predict_proba(X), "==", scale * shares, "class probabilities", precision=1e-7))
    found.append(compare(fitted.predict(X), "==", tensor([2.0, 4.0, 7.0])[shares.argmax(1)], "the most probable class"))
    return found


def averaged(scale: float) -> list[Comparison]:
    """Mean predictions over masks, single passes, ascents of one step with given starts, and curves over radii."""
    net, inputs, found = network(3, 3, 4, 3), normal(4, 6, 3), []
    rates = [0.3, 0.1, 0.6], [0.2, 0.5, 0.1, 0.4]
    law = Product([Bernoulli(tensor(rate), len(rate)) for rate in rates])
    outputs, chances = network_masks(net, inputs, list(rates))
    labels = torch.arange(6) % 3
    mean = Averaged.of(net, law)
    shares = torch.tensordot(chances, outputs.softmax(-1), dims=1)
    found.append(compare(mean(inputs).exp(), "==", scale * shares, "mean probabilities"))
    right = chances @ (outputs.argmax(-1) == labels).double().mean(1)
    found.append(compare(mean.single_accuracy(inputs, labels), "==", scale * right, "a single pass"))
    for hidden, listed in ((7, True), (8, False)):  # 1024 and 2048 masks
        wide = Averaged.of(network(3, 3, hidden, 3), Bernoulli(0.3, 3 + hidden), draws=5)
        found.append(compare(len(wide.chances), "==", 1024 if listed else 5, f"masks of {3 + hidden} units"))
        found.append(compare(wide.exact, "==", listed, f"exact, {3 + hidden} units"))
    single, signs = network(3, 3, 4, 1), torch.where(labels > 0, 1.0, -1.0).double()
    scores, mean = network_masks(single, inputs, list(rates))[0], Averaged.of(single, law)
    found.append(compare(mean(inputs), "==", scale * torch.tensordot(chances, scores, dims=1), "mean score"))
    right = chances @ (scores[..., 0] * signs > 0).double().mean(1)
    found.append(compare(mean.single_accuracy(inputs, signs), "==", scale * right, "signs of a single pass"))
    linear = TwoLayerLinear(normal(5, 1, 4), normal(6, 3, 4))
    noisy = Averaged.of(linear, Gaussian(tensor([0.5] * 4), 4), draws=4)
    found.append(compare(noisy(inputs), "==", scale * linear.outputs(inputs), "a linear score"))
    head = linear_head(9, 3, 1)
    scored = Averaged.of(LastLayer.of(head), Gaussian(0.5, 3), draws=4)
    found.append(compare(scored(inputs), "==", scale * head(inputs).detach(), "the score of a last layer"))
    several, pair = TwoLayerLinear(normal(5, 3, 4), normal(6, 3, 4)), Block(tensor([0.3, 0.6]), 4, 2)
    kept, own = every_coin([0.3, 0.6])
    moved = (inputs @ several.V * (kept / tensor([0.7, 0.4])).repeat_interleave(2, 1)[:, None]) @ several.U.mT
    shares = torch.tensordot(own, moved.softmax(-1), dims=1)
    found.append(compare(Averaged.of(several, pair)(inputs).exp(), "==", scale * shares, "classes of a linear network"))
    return [*found, *_curves(scale)]


def _curves(scale: float) -> list[Comparison]:
    """Robust errors of affine classifiers over radii, from their margins; one step of an attack."""
    found: list[Comparison] = []
    weights, offset = normal(7, 3, 4), normal(8, 3)

    def model(points: Tensor) -> Tensor:
        return points @ weights.mT + offset

    data = Sample(normal(9, 50, 4), torch.arange(50) % 3)
    scores = model(data.inputs)
    own = scores.gather(1, data.targets[:, None])
    rows = weights[data.targets][:, None] - weights
    for norm, dual in (("linf", 1), ("l2", 2), ("l1", math.inf)):
        reach = torch.linalg.vector_norm(rows, ord=dual, dim=-1)
        radii = [0.2, 0.4, 0.05]  # each answers at its own place
        curve = robustness_curve(model, data, Threat(norm, 1.0), Apgd(Margin(target="every"), steps=30), radii)
        for radius, told in zip(radii, curve, strict=True):
            least = (
                (own - scores - scale * radius * reach)
                .masked_fill(torch.arange(3) == data.targets[:, None], math.inf)
                .amin(1)
            )
            found.append(compare(told, "==", (least < 0).double().mean(), f"curve, {norm} {radius}"))
    # in many inputs the search in the l1 ball may miss a point, and finds none that is not there
    many, wide = normal(10, 5, 50), Sample(normal(11, 40, 50), torch.arange(40) % 5)
    own, reach = wide.inputs @ many.mT, (many[wide.targets][:, None] - many).abs().amax(-1)
    least = (own.gather(1, wide.targets[:, None]) - own) / reach
    radii = [0.5, 1.5]
    curve = robustness_curve(
        lambda x: x @ many.mT, wide, Threat("l1", 1.0), Apgd(Margin(target="every"), steps=5), radii
    )
    most = [
        float((least.nan_to_num(math.inf, math.inf, -math.inf).amin(1) < radius).double().mean()) for radius in radii
    ]
    found.append(compare(curve, "<=", most, "curve in fifty inputs, l1"))
    step = attack(model, data, Threat("l2", 0.3), Pgd(CrossEntropy(), steps=1, step=0.1, stop="never"))
    leaf = data.inputs.clone().requires_grad_()
    (slope,) = torch.autograd.grad(functional.cross_entropy(model(leaf), data.targets, reduction="sum"), leaf)
    wanted = data.inputs + scale * 0.1 * slope / slope.norm(dim=1, keepdim=True)
    found.append(compare(step.inputs, "==", wanted, "one step"))
    return found
