"""What claims on trained modules, batches and moments compare: steps by automatic differentiation, over all masks."""

from __future__ import annotations

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import Fgsm, Threat
from droptics.data import Entries, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli, Product
from droptics.models import DeepLinear, Factorization, LastLayer, ReLUNet
from droptics.papers.droptics_own.audit_checks import every_coin
from droptics.papers.instances import moments, normal, tensor, uniform
from droptics.penalties import penalty, risk
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
    data, law = Sample(normal(1, 5, 3), normal(2, 5, 2)), Bernoulli(tensor([0.1, 0.3, 0.5, 0.2]), 4)
    kept, chances = every_coin(law.drop.tolist())
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
            outputs = head(features * (kept / (1 - law.drop))[:, None])
            loss = chances @ (outputs - data.targets).square().sum(2).mean(1)
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
