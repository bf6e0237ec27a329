"""What more claims on training compare: batches of runs, optimizers, modules, records, checkpoints, estimators."""

from __future__ import annotations

import contextlib
import copy
import math
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import Fgsm, Threat
from droptics.data import Entries, Sample
from droptics.equalization import imbalance
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, Factorization, LastLayer, ReLUNet, TwoLayerLinear
from droptics.optima import certify
from droptics.papers.droptics_own.audit_checks import every_coin
from droptics.papers.droptics_own.moment_checks import network_masks
from droptics.papers.instances import moments, normal, sample, simplex, tensor, uniform
from droptics.penalties import penalty, risk
from droptics.training import (
    Adversarial,
    Checkpoint,
    Dropout,
    DropoutClassifier,
    DropoutRegressor,
    MaxNorm,
    Penalized,
    Plain,
    Recording,
    train,
)
from droptics.training.networks import Residual, ResNet, SmallCnn


def _descended(
    leaves: list[Tensor], loss: Any, sizes: list[float], optimizer: Any, decay: float, frozen: tuple[int, ...] = ()
) -> list[Tensor]:
    """Steps of a torch optimizer, one after the other."""
    parts = [leaf.detach().clone().requires_grad_() for leaf in leaves]
    moving = [part for number, part in enumerate(parts) if number not in frozen]
    method = optimizer(moving, lr=sizes[0])
    for size in sizes:
        for group in method.param_groups:
            group["lr"] = size
        method.zero_grad()
        value = loss(*parts) + 0.5 * decay * sum(part.square().sum() for part in moving)
        value.backward()
        method.step()
    return [part.detach() for part in parts]


def _several() -> tuple[Sample, TwoLayerLinear, list[Bernoulli]]:
    """Weighed examples, two networks and a law for each."""
    data = Sample(normal(1, 6, 3), normal(2, 6, 2), weights=simplex(3, 6))
    laws = [Bernoulli(0.2, 4), Bernoulli(tensor([0.1, 0.5, 0.3, 0.6]), 4)]
    return data, TwoLayerLinear(normal(4, 2, 2, 4), normal(5, 2, 3, 4)), laws


def batched_runs(scale: float) -> list[Comparison]:
    """Runs of a batch with steps, seeds and laws of their own are those of torch's optimizers, alone and together."""
    found: list[Comparison] = []
    data, both, laws = _several()
    U, V = both.U, both.V
    sizes, decay = [0.02, 0.05], 0.3

    def clean(u: Tensor, v: Tensor) -> Tensor:
        return (data.inputs @ v @ u.mT - data.targets).square().sum(1) @ data.shares

    optimizers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "momentum": partial(torch.optim.SGD, momentum=0.9)}
    for name, optimizer in optimizers.items():
        for frozen in ((), (1,)):
            options: dict[str, Any] = {} if name == "sgd" else {"optimizer": optimizer}
            run = train(
                both,
                data,
                Plain(),
                steps=4,
                step_size=sizes,
                decay=decay,
                schedule=lambda t: 1 / (1 + t),
                frozen=frozen,
                record=Recording(("risk",), at=(0, 1, 3)),
                **options,
            )
            assert isinstance(run.model, TwoLayerLinear)
            for i, size in enumerate(sizes):
                steps = [scale * size / (1 + t) for t in range(4)]
                wanted = _descended([U[i], V[i]], clean, steps, optimizer, decay, frozen)
                if name != "adam" or i == 1:  # steps of the smaller size follow the path of the larger one
                    label = f"{name}, run {i}, frozen {frozen}"
                    if name == "sgd" or i == 1:
                        found.append(compare(run.model.U[i], "==", wanted[0], f"U, {label}"))
                        found.append(compare(run.model.V[i], "==", wanted[1], f"V, {label}"))
            last = [clean(run.model.U[i], run.model.V[i]) for i in range(2)]
            found.append(compare(run.final("risk"), "==", torch.stack(last), f"recorded risk, {name}"))
            found.append(
                compare(run.history["loss"][0], "==", torch.stack([clean(U[i], V[i]) for i in range(2)]), "loss")
            )
    exact = train(
        both, data, Penalized(laws), steps=2, step_size=sizes, record=Recording(("objective", "imbalance"), at=(0,))
    )
    assert isinstance(exact.model, TwoLayerLinear)
    for i, law in enumerate(laws):
        strength = law.drop / (1 - law.drop)

        def whole(u: Tensor, v: Tensor, strength: Tensor = strength) -> Tensor:
            energy = u.square().sum(0) * ((data.inputs @ v).square() * data.shares[:, None]).sum(0)
            return clean(u, v) + strength @ energy

        wanted = _descended([U[i], V[i]], whole, [scale * sizes[i]] * 2, torch.optim.SGD, 0.0)
        found.append(compare(exact.model.U[i], "==", wanted[0], f"exact gradient, run {i}"))
        found.append(compare(exact.model.V[i], "==", wanted[1], f"exact gradient of V, run {i}"))
        found.append(compare(exact.history["objective"][0, i], "==", scale * whole(U[i], V[i]), f"objective, run {i}"))
        alone = imbalance(TwoLayerLinear(U[i], V[i]), data, law)
        found.append(compare(exact.history["imbalance"][0, i], "==", scale * alone, f"imbalance, run {i}"))
        bound = certify(TwoLayerLinear(U[i], V[i]), data, law).bound
        told = train(both, data, Penalized(laws), steps=1, step_size=1e-3, bound="certify").history["bound"]
        found.append(compare(told[:, i], "==", bound, f"certified bound, run {i}"))
    return found


def guarded_runs(scale: float) -> list[Comparison]:
    """Runs with seeds and laws of their own are those alone; balls hold, and who diverges is taken out."""
    found: list[Comparison] = []
    data, both, laws = _several()
    U, V = both.U, both.V
    seeds = (7, 3)
    options: dict[str, Any] = {"steps": 3, "batch_size": 2, "step_size": 0.02, "keep": range(4)}
    joint = train(both, data, Dropout(laws), seed=seeds, **options)
    for i in range(2):
        one = train(TwoLayerLinear(U[i], V[i]), data, Dropout(laws[i]), seed=seeds[i], **options)
        for together, mine in zip(joint.iterates, one.iterates, strict=True):
            assert isinstance(together.model, TwoLayerLinear)
            assert isinstance(mine.model, TwoLayerLinear)
            found.append(compare(together.model.U[i], "==", mine.model.U, f"run {i} alone"))
            if mine.multipliers is not None and together.multipliers is not None:
                found.append(compare(together.multipliers[i], "==", mine.multipliers, f"masks of run {i} alone"))
    ball = train(both, data, Plain(), steps=1, step_size=0.02, max_norm=MaxNorm(0.9, (1,), -2))
    assert isinstance(ball.model, TwoLayerLinear)
    plain = train(both, data, Plain(), steps=1, step_size=0.02)
    assert isinstance(plain.model, TwoLayerLinear)
    norms = plain.model.V.norm(dim=-2, keepdim=True)
    found.append(compare(ball.model.V, "==", plain.model.V * (scale * 0.9 / norms).clamp_max(1.0), "columns in a ball"))
    with np.errstate(all="ignore"):
        wild = train(
            both,
            data,
            Plain(),
            steps=6,
            step_size=[0.02, 1e4],
            diverging="freeze",
            record=Recording(("risk",), at=(0, 6)),
        )
    calm = train(TwoLayerLinear(U[0], V[0]), data, Plain(), steps=6, step_size=0.02)
    assert isinstance(wild.model, TwoLayerLinear)
    assert isinstance(calm.model, TwoLayerLinear)
    found.append(compare(wild.model.U[0], "==", calm.model.U, "beside a run that diverged"))
    found.append(compare(sorted(wild.diverged), "==", [scale], "the run that diverged"))
    found.append(compare(wild.final("risk")[1], "==", math.inf, "its record"))
    found.append(compare(torch.isfinite(wild.model.U).double(), "==", 1.0, "its weights"))
    return found


class _Torn:
    """A schedule that breaks off once."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self, step: int) -> float:
        if step == self.at:
            self.at = -1
            raise InterruptedError
        return 1 / (1 + step / 50)


def resumed_runs(scale: float) -> list[Comparison]:
    """A run that broke off goes on from its checkpoint as if it had not: weights, moments, draws and records."""
    found: list[Comparison] = []
    size = 8
    data = Sample(normal(1, 40, 3), normal(2, 40, 2), weights=simplex(3, 40))
    rows = torch.arange(40) % 5
    cells = Entries(rows, torch.arange(40) // 5, normal(3, 40), (5, 8))
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(3, size), nn.BatchNorm1d(size), nn.Tanh(), nn.Linear(size, 2)).double()
    cases: tuple[tuple[str, Any, Any, Any, dict[str, Any]], ...] = (
        ("adam", TwoLayerLinear(normal(4, 2, size), normal(5, 3, size)), data, Dropout(Bernoulli(0.3, size)), {}),
        (
            "batch",
            TwoLayerLinear(normal(4, 2, 2, size), normal(5, 2, 3, size)),
            moments(6, 2, 3),
            Dropout([Bernoulli(0.3, size), Bernoulli(0.5, size)]),
            {"keep": (0, 5, 13)},
        ),
        ("entries", Factorization(normal(7, 5, size), normal(8, 8, size)), cells, Dropout(Bernoulli(0.4, size)), {}),
        ("module", LastLayer.of(module), data, Dropout(Bernoulli(0.2, size)), {}),
        (
            "attack",
            ReLUNet([normal(1, 4, 3), normal(2, 2, 4)], [normal(3, 4), normal(4, 2)]),
            Sample(uniform(9, 600, 3), torch.arange(600) % 2),
            Adversarial(Threat("linf", 0.05), Fgsm()),
            {},
        ),
    )
    with tempfile.TemporaryDirectory() as folder:
        for name, model, known, objective, more in cases if scale == 1 else cases[:2]:
            optimizer: dict[str, Any] = {} if name == "batch" else {"optimizer": torch.optim.Adam}
            options: dict[str, Any] = {
                "steps": 20,
                "batch_size": 1024 if name != "attack" else 4096,  # so that draws come in several chunks
                "step_size": 0.01,
                "seed": 5,
                "record": Recording(("risk",), at=(0, 10, 20)),
                **optimizer,
                **more,
            }
            whole = train(model, known, objective, schedule=_Torn(-1), **options)
            path = Path(folder) / f"{name}.safetensors"
            where = Checkpoint(path, 0.0)
            torn = _Torn(18)
            with contextlib.suppress(InterruptedError):
                train(model, known, objective, schedule=torn, checkpoint=where, **options)
            found.append(compare(float(path.exists()), "==", scale, f"a checkpoint, {name}"))
            rest = train(model, known, objective, schedule=torn, checkpoint=where, **options)
            for number, (one, other) in enumerate(zip(rest.model.tensors, whole.model.tensors, strict=True)):
                found.append(compare(one, "==", scale * other, f"tensor {number}, {name}"))
            for key in whole.history:
                found.append(compare(rest.history[key], "==", scale * whole.history[key].double(), f"{key}, {name}"))
            for kept, own in zip(rest.iterates, whole.iterates, strict=True):
                found.append(compare(kept.step, "==", own.step, f"kept step, {name}"))
                if kept.multipliers is not None:
                    found.append(compare(kept.multipliers, "==", own.multipliers, f"kept masks, {name}"))
                for mine, theirs in zip(kept.model.tensors, own.model.tensors, strict=True):
                    found.append(compare(mine, "==", theirs, f"kept weights, {name}"))
    steps = whole.history["step"].tolist()
    counts = np.diff(steps)
    weighed = torch.tensordot(torch.from_numpy(counts).double(), whole.history["loss"][1:], 1) / counts.sum()
    found.append(compare(whole.mean_loss(0, steps[-1]), "==", scale * weighed, "mean loss between records"))
    found.append(compare(whole.mean_loss(0, 0), "==", whole.history["loss"][0], "loss of the first step"))
    return found


def trained_modules(scale: float) -> list[Comparison]:
    """Steps of torch modules are those of automatic differentiation."""
    found: list[Comparison] = []
    torch.manual_seed(2)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    data, law = Sample(normal(1, 5, 3), normal(2, 5, 2)), Bernoulli(tensor([0.1, 0.3, 0.5, 0.2]), 4)
    strength = law.drop / (1 - law.drop)
    for name, objective in (("plain", Plain()), ("exact", Penalized(law)), ("masked", Dropout(law))):
        run = train(
            LastLayer.of(module),
            data,
            objective,
            steps=1,
            step_size=0.1,
            keep=(0, 1),
            record=Recording(("risk", "singular_values"), at=(0, 1)),
        )
        other = copy.deepcopy(module)
        features = other[:2](data.inputs)
        head = other[2]
        assert isinstance(head, nn.Linear)
        mask = run.iterates[0].multipliers
        used = features if mask is None or name != "masked" else features * mask
        loss = (head(used) - data.targets).square().sum(1).mean()
        if name == "exact":
            loss = loss + (strength * head.weight.square().sum(0) * features.square().mean(0)).sum()
        loss.backward()
        assert isinstance(run.model, LastLayer)
        for new, old in zip(run.model.module.parameters(), other.parameters(), strict=True):
            assert old.grad is not None
            found.append(compare(new, "==", old.detach() - scale * 0.1 * old.grad, f"a step of a module, {name}"))
        values = torch.linalg.svdvals(module(data.inputs).detach())
        found.append(compare(run.history["singular_values"][0], "==", scale * values, f"spectrum of outputs, {name}"))
    return found


def trained_batches(scale: float) -> list[Comparison]:
    """Steps of batches of factors at entries, and of attacked networks, are those of automatic differentiation."""
    found: list[Comparison] = []
    factors = Factorization(normal(3, 2, 4, 3), normal(4, 2, 5, 3))
    cells = Entries(torch.tensor([0, 1, 3, 2, 0]), torch.tensor([0, 4, 1, 1, 2]), normal(5, 5), (4, 5))
    run = train(factors, cells, Dropout(Bernoulli(0.4, 3)), steps=1, step_size=0.1, keep=(0,))
    z = run.iterates[0].multipliers
    assert z is not None
    assert isinstance(run.model, Factorization)
    for i in range(2):
        U, V = (part[i].clone().requires_grad_() for part in (factors.U, factors.V))
        mine = z[i] if z.ndim > 2 else z
        loss = ((U[cells.rows] * V[cells.columns] * mine).sum(1) - cells.values).square().mean()
        slopes = torch.autograd.grad(loss, (U, V))
        found.append(
            compare(run.model.U[i], "==", U.detach() - scale * 0.1 * slopes[0], f"factors at entries, run {i}")
        )
        found.append(compare(run.model.V[i], "==", V.detach() - scale * 0.1 * slopes[1], f"their other side, run {i}"))
    drawn = train(factors, cells, Plain(), steps=2, step_size=0.1, batch_size=3, seed=4)
    assert isinstance(drawn.model, Factorization)
    for i in range(2):
        one = train(
            Factorization(factors.U[i], factors.V[i]), cells, Plain(), steps=2, step_size=0.1, batch_size=3, seed=4 + i
        )
        assert isinstance(one.model, Factorization)
        found.append(compare(drawn.model.U[i], "==", one.model.U, f"drawn entries, run {i}"))
    weights = [normal(6, 2, 4, 3), normal(7, 2, 3, 4)]
    biases = [normal(8, 2, 4), normal(9, 2, 3)]
    net = ReLUNet(weights, biases)
    inputs, labels = uniform(10, 6, 3), torch.arange(6) % 3
    attacked = train(
        net, Sample(inputs, labels), Adversarial(Threat("linf", 0.1, (0.0, 1.0)), Fgsm()), steps=1, step_size=0.05
    )
    assert isinstance(attacked.model, ReLUNet)
    for i in range(2):
        leaves = [part[i].clone().requires_grad_() for part in (*weights, *biases)]

        def outputs(points: Tensor, leaves: list[Tensor] = leaves) -> Tensor:
            return torch.relu(points @ leaves[0].mT + leaves[2]) @ leaves[1].mT + leaves[3]

        start = inputs.clone().requires_grad_()
        (slope,) = torch.autograd.grad(functional.cross_entropy(outputs(start), labels), start)
        moved = (inputs + 0.1 * slope.sign()).clamp(0, 1)
        better = functional.cross_entropy(outputs(moved), labels, reduction="none") >= functional.cross_entropy(
            outputs(inputs), labels, reduction="none"
        )
        points = torch.where(better[:, None], moved, inputs).detach()
        slopes = torch.autograd.grad(functional.cross_entropy(outputs(points), labels), leaves)
        news = [part[i] for part in (*attacked.model.weights, *attacked.model.biases)]
        for new, old, one_slope in zip(news, leaves, slopes, strict=True):
            found.append(compare(new, "==", old.detach() - scale * 0.05 * one_slope, f"attacked run {i}"))
    return found


def trained_populations(scale: float) -> list[Comparison]:
    """Exact steps of a deep network on moments, its records and where it stops."""
    found: list[Comparison] = []
    deep = DeepLinear([normal(1, 3, 4), normal(2, 3, 3), normal(3, 2, 3)])
    masks = Product([Bernoulli(tensor([0.1, 0.2, 0.4]), 3), Bernoulli(0.3, 3)])
    population = moments(4, 2, 4)
    run = train(deep, population, Penalized(masks), steps=1, step_size=0.01, record=Recording(at=(0, 1)))
    leaves = [weight.clone().requires_grad_() for weight in deep.weights]
    kept, chances = every_coin([0.1, 0.2, 0.4, 0.3, 0.3, 0.3])
    total = tensor(0.0)
    for mask, chance in zip(kept, chances, strict=True):
        one_mask, two_mask = mask[:3] / (1 - tensor([0.1, 0.2, 0.4])), mask[3:] / 0.7
        W = leaves[2] @ (two_mask[:, None] * (leaves[1] @ (one_mask[:, None] * leaves[0])))
        total = total + chance * (
            population.yy.trace() - 2 * (W * population.yx).sum() + ((W @ population.xx) * W).sum()
        )
    slopes = torch.autograd.grad(total, leaves)
    assert isinstance(run.model, DeepLinear)
    for new, old, one_slope in zip(run.model.weights, leaves, slopes, strict=True):
        found.append(compare(new, "==", old.detach() - scale * 0.01 * one_slope, "deep network on moments"))
    found.append(compare(run.history["objective"][0], "==", scale * total.detach(), "its objective"))
    found.append(compare(run.step_loss(1)[1], "==", run.history["objective"][0], "objective before a step"))
    found.append(compare(run.final("penalty"), "==", penalty(run.model, population, masks).value, "last penalty"))
    found.append(compare(run.final("risk"), "==", scale * risk(run.model, population), "last risk"))
    gap = train(
        deep, population, Penalized(masks), steps=50, step_size=1e-3, bound=0.9 * float(total.detach()), stop_gap=0.1
    )
    at = next(i for i, value in enumerate(gap.history["objective"]) if value <= total * 0.9 * 1.1)
    found.append(compare(gap.steps, "==", scale * int(gap.history["step"][at]), "stopped at the gap"))
    return found


def small_networks(scale: float) -> list[Comparison]:
    """Networks of the figures are their layers one after the other, with weights of the stated variance."""
    found: list[Comparison] = []
    images = normal(1, 3, 2, 9, 9).float()
    small: Any
    deep: Any
    wide: Any
    small, deep = SmallCnn(2, 5, 7, 3, seed=4), ResNet(2, 4, 6, (2, 1), 8, seed=3)
    value = images
    for layer in small.body:
        value = functional.conv2d(value, layer.weight, layer.bias, stride=2, padding=1).clamp_min(0)
    pooled = torch.stack(
        [value[:, :, a:b, c:d].mean((-2, -1)) for a, b in ((0, 1), (1, 2)) for c, d in ((0, 1), (1, 2))], -1
    )
    if value.shape[-1] == 2:
        features = pooled.flatten(1) @ small.reduce.weight.mT + small.reduce.bias
        found.append(
            compare(
                small(images), "==", scale * features @ small.head.weight.mT, "strided convolutions", precision=1e-5
            )
        )

    def normed(values: Tensor, groups: int) -> Tensor:
        parts = values.reshape(len(values), groups, -1)
        parts = (parts - parts.mean(-1, keepdim=True)) / (parts.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
        return parts.reshape(values.shape)

    value = normed(functional.conv2d(images, deep.stem.weight, padding=1), 2).clamp_min(0)
    for block in deep.stages:
        assert isinstance(block, Residual)
        stride = block.first.stride[0]
        groups = max(1, min(8, block.first.out_channels // 4))
        inner = normed(functional.conv2d(value, block.first.weight, stride=stride, padding=1), groups).clamp_min(0)
        added = normed(functional.conv2d(inner, block.second.weight, padding=1), groups)
        short = value
        if isinstance(block.shortcut, nn.Conv2d):
            short = functional.conv2d(value, block.shortcut.weight, stride=stride)
        value = (short + added).clamp_min(0)
    features = value.mean((-2, -1)) @ deep.reduce.weight.mT + deep.reduce.bias
    found.append(compare(deep(images), "==", scale * features @ deep.head.weight.mT, "residual blocks", precision=1e-4))
    found.append(compare([block.first.stride[0] for block in deep.stages], "==", [scale, 1.0, 2.0], "strides"))
    wide = SmallCnn(3, 50, 400, 16, seed=1)
    for layer, gain in ((wide.body[2], 2.0), (wide.reduce, 1.0), (wide.head, 1.0)):
        weight = layer.weight.detach().double()
        fan = weight[0].numel()
        error = 5 * (2 / weight.numel()) ** 0.5
        found.append(
            compare(weight.square().mean() * fan / gain, "==", scale, f"variance, gain {gain}", precision=error)
        )
    return found


def fitted_estimators(scale: float) -> list[Comparison]:
    """A fitted regressor predicts mean, spread, quantiles and log densities of all masked networks with noise."""
    found: list[Comparison] = []
    X = 2 * normal(1, 30, 2).numpy() + 1
    y = 3 * np.sin(X[:, 0]) + X[:, 1] + 0.2 * normal(2, 30).numpy()
    inputs = torch.from_numpy((X - X.mean(0)) / X.std(0))
    for noise in (0.4, "estimate"):
        fitted = DropoutRegressor((3,), 0.2, noise, epochs=3, seed=2).fit(X, y)
        outputs, chances = network_masks(fitted.network_, inputs, [[0.2] * 2, [0.2] * 3])
        values = outputs[..., 0]
        mean = chances @ values
        variance = chances @ (values - mean).square()
        told, spread = fitted.predict(X, return_std=True)
        sigma = fitted.noise_
        if noise != "estimate":
            found.append(compare(sigma, "==", scale * 0.4, "the noise given"))
        found.append(compare(told, "==", scale * mean, f"means, noise {noise}"))
        found.append(compare(spread, "==", scale * (variance + sigma**2).sqrt(), f"deviations, noise {noise}"))
        near = torch.from_numpy(y)
        logs = torch.logsumexp(chances.log()[:, None] - 0.5 * ((near - values) / sigma) ** 2, 0)
        wanted = (logs - math.log(sigma) - 0.5 * math.log(2 * math.pi)).mean()
        found.append(compare(fitted.score(X, y), "==", scale * wanted, f"log density, noise {noise}", precision=1e-6))
        low, high = fitted.interval(X, 0.8)
        for end, share in ((low, 0.1), (high, 0.9)):
            below = chances @ torch.special.ndtr((torch.from_numpy(end) - values) / sigma)
            found.append(compare(below, "==", scale * share, f"quantile {share}, noise {noise}", precision=1e-5))
    labels = np.array(["b", "a", "c"])[np.arange(30) % 3]
    classifier = DropoutClassifier((3,), 0.3, epochs=2, seed=1).fit(X, labels)
    shares = classifier.predict_proba(X)
    best = np.array(["a", "b", "c"])[shares.argmax(1)]
    found.append(compare(float((classifier.predict(X) == best).all()), "==", scale, "the most probable class"))
    # batches of one network: weighed cross-entropy under given masks
    data = Sample(normal(3, 5, 3), torch.arange(5) % 2, weights=simplex(4, 5))
    net = ReLUNet([normal(5, 4, 3), normal(6, 2, 4)], [normal(7, 4), normal(8, 2)])
    law = Product([Bernoulli(0.2, 3), Bernoulli(0.4, 4)])
    run = train(net, data, Dropout(law, CrossEntropy()), steps=1, step_size=0.1, keep=(0,))
    z = run.iterates[0].multipliers
    assert z is not None
    assert isinstance(run.model, ReLUNet)
    leaves = [part.clone().requires_grad_() for part in (*net.weights, *net.biases)]
    hidden = torch.relu((data.inputs * z[..., :3]) @ leaves[0].mT + leaves[2]) * z[..., 3:]
    each = functional.cross_entropy(hidden @ leaves[1].mT + leaves[3], data.targets, reduction="none")
    slopes = torch.autograd.grad(each @ data.shares, leaves)
    for new, old, slope in zip((*run.model.weights, *run.model.biases), leaves, slopes, strict=True):
        found.append(compare(new, "==", old.detach() - scale * 0.1 * slope, "weighed cross-entropy under masks"))
    assert len(sample(1, 2, 2, 1))
    return found
