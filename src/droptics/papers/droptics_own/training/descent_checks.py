"""What claims on trained modules, batches and moments compare: steps by automatic differentiation, over all masks."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import Fgsm, Pgd, Threat
from droptics.data import Entries, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Block, Product
from droptics.models import DeepLinear, Factorization, LastLayer, ReLUNet
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import moments, normal, simplex, tensor, uniform
from droptics.training import (
    Adversarial,
    Dropout,
    Penalized,
    Plain,
    Recording,
    train,
)


def trained_modules(scale: float) -> list[Comparison]:
    """Steps of torch modules are those of automatic differentiation."""
    found: list[Comparison] = []
    torch.manual_seed(2)
    module = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    data, law = Sample(normal(1, 5, 3), normal(2, 5, 2), 3 * simplex(3, 5)), Bernoulli(tensor([0.1, 0.3, 0.5, 0.2]), 4)
    kept, chances = every_coin(law.drop.tolist())
    halves, odds = every_coin([0.4, 0.2])
    listed = {
        "exact": (kept / (1 - law.drop), chances),
        "blocks": (halves.repeat_interleave(2, -1) / tensor([0.6, 0.6, 0.8, 0.8]), odds),
    }
    for name, objective in (
        ("plain", Plain()),
        ("exact", Penalized(law)),
        ("blocks", Penalized(Block(tensor([0.4, 0.2]), 4, 2))),
        ("masked", Dropout(law)),
    ):
        run = train(
            LastLayer.of(module),
            data,
            objective,
            steps=3,
            step_size=0.1,
            keep=(0, 1, 2, 3),
            record=Recording(("risk", "singular_values"), at=(0, 1)),
        )
        other, masks = copy.deepcopy(module), []
        for step in range(3):
            features = other[:2](data.inputs)
            head = other[2]
            assert isinstance(head, nn.Linear)
            mask = run.iterates[step].multipliers if name == "masked" else None
            masks += [] if mask is None else [mask]
            loss = data.shares @ (head(features if mask is None else features * mask) - data.targets).square().sum(1)
            if name in listed:
                outputs = head(features * listed[name][0][:, None])
                loss = listed[name][1] @ ((outputs - data.targets).square().sum(2) @ data.shares)
            slopes = torch.autograd.grad(loss, list(other.parameters()))
            after = run.iterates[step + 1].model
            assert isinstance(after, LastLayer)
            with torch.no_grad():
                for new, old, slope in zip(after.module.parameters(), other.parameters(), slopes, strict=True):
                    old.sub_(scale * 0.1 * slope)
                    found.append(compare(new, "==", old.clone(), f"step {step} of a module, {name}"))
        if masks:
            drawn = torch.stack(masks)
            found.append(compare(drawn, "==", torch.where(drawn > 0, 1 / (1 - law.drop), 0.0), "multipliers"))
            found.append(compare((drawn == 0).sum(), ">", 0, "units that were dropped"))
            found.append(compare((drawn[1:] != drawn[:-1]).sum(), ">", 0, "other units at other steps"))
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
        found.append(compare((0.6 * mine - 0.5).abs(), "==", 0.5, f"multipliers 0 and 1/.6, run {i}"))
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
    first = train(factors, cells, Plain(), steps=1, step_size=0.1, batch_size=3, seed=4)
    assert isinstance(first.model, Factorization)
    for i in range(2):
        U, V = (part[i].clone().requires_grad_() for part in (factors.U, factors.V))
        errors = ((U[cells.rows] * V[cells.columns]).sum(1) - cells.values).square()
        away = []
        for three in itertools.combinations(range(len(cells)), 3):
            slopes = torch.autograd.grad(errors[list(three)].mean(), (U, V), retain_graph=True)
            ends = zip((first.model.U[i], first.model.V[i]), (U, V), slopes, strict=True)
            away.append(max(float((new - old.detach() + scale * 0.1 * slope).abs().max()) for new, old, slope in ends))
        found.append(compare(min(away), "==", 0.0, f"a step on three entries, run {i}"))
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
    return [*found, *_rounded(scale, net, Sample(inputs, labels))]


def _rounded(scale: float, net: ReLUNet, data: Sample) -> list[Comparison]:
    """Runs whose products are rounded to eight bits move as those of all digits do, to a few units of the last bit."""
    found: list[Comparison] = []
    start = ReLUNet([part.float() for part in net.weights], [part.float() for part in net.biases])
    few = Sample(data.inputs.float(), data.targets)
    law = Product([Bernoulli(0.3, 3), Bernoulli(0.4, 4)])
    for name, objective in (
        ("masked", Dropout(law, CrossEntropy(), per="step")),
        ("attacked", Adversarial(Threat("linf", 0.1), Pgd(steps=1, step=0.05, stop="never"), consistency=1.0)),
    ):
        options: dict[str, Any] = {"steps": 2, "step_size": [0.05, 0.2], "seed": 3}
        ends = [train(start, few, objective, precision=kind, **options).model for kind in ("bfloat16", "full")]
        for number, (rounded, whole, old) in enumerate(zip(*(end.tensors for end in ends), start.tensors, strict=True)):
            for i in range(2):
                moved = [(part[i] - old[i]).double() for part in (rounded, whole)]
                size = float(moved[1].abs().max())
                label = f"tensor {number} of run {i}, {name}"
                found.append(compare(moved[0] / size, "==", scale * moved[1] / size, label, precision=0.02))
                found.append(same(torch.equal(*moved), False, f"which rounds, {label}"))
    return found


def trained_populations(scale: float) -> list[Comparison]:
    """Exact steps of a deep network on moments, its records and where it stops."""
    found: list[Comparison] = []
    deep = DeepLinear([normal(1, 3, 4), normal(2, 3, 3), normal(3, 2, 3)])
    masks = Product([Bernoulli(tensor([0.1, 0.2, 0.4]), 3), Bernoulli(0.3, 3)])
    population = moments(4, 2, 4)
    kept, chances = every_coin([0.1, 0.2, 0.4, 0.3, 0.3, 0.3])
    below, above = kept[:, :3] / (1 - tensor([0.1, 0.2, 0.4])), kept[:, 3:] / 0.7

    def error(maps: Tensor) -> Tensor:
        return population.yy.trace() + ((maps @ population.xx - 2 * population.yx) * maps).sum((-2, -1))

    def whole(first: Tensor, second: Tensor, last: Tensor) -> Tensor:
        return chances @ error((last * above[:, None]) @ (second * below[:, None]) @ first)

    path = [[weight.detach() for weight in deep.weights]]
    for _ in range(50):
        leaves = [weight.clone().requires_grad_() for weight in path[-1]]
        slopes = torch.autograd.grad(whole(*leaves), leaves)
        path.append([leaf.detach() - scale * 2e-3 * slope for leaf, slope in zip(leaves, slopes, strict=True)])
    values = [float(whole(*weights)) for weights in path]
    for steps in (1, 3):
        run = train(
            deep, population, Penalized(masks), steps=steps, step_size=2e-3, record=Recording(at=range(steps + 1))
        )
        assert isinstance(run.model, DeepLinear)
        for new, wanted in zip(run.model.weights, path[steps], strict=True):
            found.append(compare(new, "==", wanted, f"weights after {steps} steps on moments"))
        found.append(compare(run.history["objective"], "==", values[: steps + 1], f"objectives of {steps} steps"))
        clean = [float(error(last @ second @ first)) for first, second, last in path[: steps + 1]]
        found.append(compare(run.history["risk"], "==", clean, f"risks of {steps} steps"))
        above_risk = [value - plain for value, plain in zip(values, clean, strict=False)]
        found.append(compare(run.history["penalty"], "==", above_risk, f"penalties of {steps} steps"))
        found.append(compare(run.step_loss(steps)[1], "==", values[steps - 1], f"objective before step {steps}"))
    for share, gap in ((0.5, 0.6), (0.5, 0.3)):
        bound = share * values[0]
        found.append(compare(values[0], ">", (1 + gap) * bound, "does not stop at once"))
        stopped = train(deep, population, Penalized(masks), steps=50, step_size=2e-3, bound=bound, stop_gap=gap)
        looks = stopped.history["step"].tolist()
        first = next(int(step) for step in looks if values[int(step)] <= (1 + gap) * bound)
        found.append(compare(stopped.steps, "==", first, f"stopped at the gap {gap}"))
        found.append(compare(looks[-1], "==", first, f"its last look, gap {gap}"))
    # of two runs at two speeds both have to be there
    both, slow = DeepLinear([torch.stack([weight, weight]) for weight in deep.weights]), 0.25
    together = train(
        both,
        population,
        Penalized(masks),
        steps=200,
        step_size=[2e-3, slow * 2e-3],
        bound=[0.5 * values[0]] * 2,
        stop_gap=0.6,
    )
    last = together.history["objective"][-2:] / values[0]
    found.append(compare(last[1], "<=", 0.8, "both runs are within the gap"))
    found.append(compare(last[0].max(), ">", scale * 0.8, "one was not before"))
    found.append(compare(last[0].mean(), "<=", 0.8, "though their mean was"))
    return found
