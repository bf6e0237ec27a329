"""What the claims on smaller rooms compare: penalties under every law, losses, layers, flows, data."""

from __future__ import annotations

import itertools
from functools import partial
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.coadaptation import (
    accuracy_by_width,
    alpha,
    coadaptation,
    draw,
    evaluate,
    export,
    flows,
    importance,
    smallest,
    split,
)
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.layers import DropBlock, ExplicitDropout, explicit_consistency, explicit_penalty, realized_rates
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product
from droptics.models import LastLayer, TwoLayerLinear
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.predictions.moment_checks import network, network_masks
from droptics.papers.instances import normal, simplex, tensor
from droptics.penalties import (
    Certified,
    ClosedForm,
    Enumerate,
    MonteCarlo,
    SecondOrder,
    criterion,
    curvature,
    penalty,
    risk,
)


def linear_head(seed: int, units: int, outputs: int) -> nn.Linear:
    """A linear layer with given weights."""
    layer = nn.Linear(units, outputs).double().requires_grad_(False)
    layer.weight.copy_(normal(seed, outputs, units))
    layer.bias.copy_(normal(seed + 1, outputs))
    return layer


def laws() -> dict[str, tuple[MaskLaw, Tensor, Tensor]]:
    """Laws of four units with their multipliers and probabilities, from the definitions."""
    rates = [0.3, 0.1, 0.5, 0.2]
    coins, chances = every_coin(rates)
    pairs, shares = every_coin([0.4, 0.2])
    listed, weights = tensor([[1.0, 0, 2, 1], [0, 1, 1, 3], [2, 1, 0, 1], [1, 1, 1, 0]]), simplex(1, 4)
    mean = weights @ listed
    return {
        "coins": (Bernoulli(tensor(rates), 4), coins / (1 - tensor(rates)), chances),
        "blocks": (Block(tensor([0.4, 0.2]), 4, 2), (pairs / tensor([0.6, 0.8])).repeat_interleave(2, -1), shares),
        "listed": (Discrete(listed, weights), listed / mean, weights),
    }


def penalties_of_heads(scale: float) -> list[Comparison]:
    """Penalties of a last layer under coins, blocks, lists and normal noise, for three losses, by every method."""
    found: list[Comparison] = []
    features = normal(1, 6, 4)
    shares = simplex(2, 6)
    cases: dict[str, tuple[Loss, Tensor, nn.Linear]] = {
        "squared": (Squared(), normal(3, 6, 3), linear_head(4, 4, 3)),
        "cross-entropy": (CrossEntropy(), torch.arange(6) % 3, linear_head(4, 4, 3)),
        "logistic": (Logistic(), torch.where(torch.arange(6) % 2 > 0, 1.0, -1.0).double(), linear_head(6, 4, 1)),
    }
    for (name, (loss, targets, head)), (law_name, (law, multipliers, chances)) in itertools.product(
        cases.items(), laws().items()
    ):
        label = f"{name}, {law_name}"
        data, model = Sample(features, targets, shares), LastLayer.of(head)
        outputs = head(features * multipliers[:, None, :])
        per_mask = torch.stack([_losses(name, part, targets) for part in outputs]) @ shares
        plain = _losses(name, head(features), targets) @ shares
        truth = scale * (chances @ per_mask - plain)
        found.append(compare(risk(model, data, loss), "==", plain, f"risk, {label}"))
        found.append(compare(penalty(model, data, law, Enumerate(), loss).value, "==", truth, f"listed, {label}"))
        drawn = penalty(model, data, law, MonteCarlo(800, seed=3), loss)
        half = (drawn.upper - drawn.lower) / 2
        # half widths of 99 % are 2.58 standard errors
        found.append(compare((drawn.value - truth).abs(), "<=", 2 * half, f"drawn, {label}"))
        if drawn.guaranteed is not None:
            found.append(compare(drawn.guaranteed[0], "<=", truth, f"guaranteed from below, {label}"))
            found.append(compare(drawn.guaranteed[1], ">=", truth, f"guaranteed from above, {label}"))
        second = penalty(model, data, law, SecondOrder(check=None), loss).value
        found.append(
            compare(
                second,
                "==",
                scale * _second_order(name, head, data, multipliers, chances),
                f"second order, {label}",
                precision=1e-7,
            )
        )
        with mock.patch.object(curvature, "CHUNK_ELEMENTS", 2 * head.weight.numel()):  # two examples at a time
            pieces = penalty(model, data, law, SecondOrder(check=None), loss).value
        found.append(compare(pieces, "==", scale * second, f"second order in pieces, {label}"))
        if name != "cross-entropy":
            found.append(
                compare(
                    penalty(model, data, law, ClosedForm(), loss).value, "==", truth, f"closed, {label}", precision=1e-8
                )
            )
        else:
            for condition in (0, 4):
                kept = penalty(model, data, law, Certified(condition), loss)
                found.append(compare(kept.lower, "<=", truth, f"lower bound {condition}, {label}"))
                found.append(compare(kept.upper, ">=", truth, f"upper bound {condition}, {label}"))
                if law_name == "coins" and condition == 4:
                    found.append(compare(kept.value, "==", truth, f"all units written out, {label}", precision=1e-8))
    grid = torch.linspace(-10, 10, 4001, dtype=torch.float64)
    weight = torch.exp(-grid.square() / 2)
    weight = weight / weight.sum()
    variance = tensor([0.3, 0.1, 0.5, 0.2])
    loss, targets, head = cases["logistic"]
    spread = ((features * head.weight[0]).square() @ variance).sqrt()
    margins = targets[:, None] * (head(features) + spread[:, None] * grid)
    truth = (
        scale * (functional.softplus(-margins) @ weight - functional.softplus(-targets * head(features)[:, 0])) @ shares
    )
    ours = penalty(LastLayer.of(head), Sample(features, targets, shares), Gaussian(variance, 4), ClosedForm(), loss)
    return [*found, compare(ours.value, "==", truth, "logistic, normal noise", precision=1e-7)]


def _losses(name: str, outputs: Tensor, targets: Tensor) -> Tensor:
    if name == "squared":
        return (outputs - targets).square().sum(-1)
    if name == "logistic":
        return functional.softplus(-outputs[..., 0] * targets.reshape(-1))
    return functional.cross_entropy(outputs, targets, reduction="none")


def _second_order(name: str, head: nn.Linear, data: Sample, multipliers: Tensor, chances: Tensor) -> Tensor:
    """Half the Hessian of the mean loss in the multipliers, at one, against their covariance."""
    moved = multipliers - 1
    covariance = (chances[:, None] * moved).mT @ moved
    assert data.weights is not None
    shares = data.weights / data.weights.sum()

    def mean(z: Tensor) -> Tensor:
        return _losses(name, head(data.inputs * z), data.targets) @ shares

    hessian = torch.autograd.functional.hessian(mean, torch.ones(4, dtype=torch.float64))
    return 0.5 * (hessian * covariance).sum()


def penalties_of_networks(scale: float) -> list[Comparison]:
    """Penalties of ReLU networks: drawn with the last mask integrated, exact, to second order."""
    net, found = network(3, 3, 3, 4, 2), []
    rates = [[0.2, 0.1, 0.3], [0.4, 0.0, 0.2], [0.3, 0.5, 0.1, 0.2]]
    data = Sample(normal(4, 5, 3), normal(5, 5, 2), simplex(6, 5))
    law = Product([Bernoulli(tensor(part), len(part)) for part in rates])
    outputs, chances = network_masks(net, data.inputs, rates)
    assert data.weights is not None
    shares = data.weights / data.weights.sum()
    error = (outputs - data.targets).square().sum(-1) @ shares
    hidden = data.inputs
    for number, (weight, bias) in enumerate(zip(net.weights, net.biases, strict=True)):
        hidden = (torch.relu(hidden) if number else hidden) @ weight.mT + bias
    plain = (hidden - data.targets).square().sum(-1) @ shares
    truth = scale * (chances @ error - plain)
    found.append(compare(risk(net, data), "==", plain, "risk"))
    drawn = penalty(net, data, law, MonteCarlo(600, seed=2))
    found.append(compare((drawn.value - truth).abs(), "<=", (drawn.upper - drawn.lower), "drawn"))
    assert drawn.guaranteed is not None
    found.append(compare(drawn.guaranteed[0], "<=", truth, "guaranteed from below"))
    found.append(compare(drawn.guaranteed[1], ">=", truth, "guaranteed from above"))
    found.append(compare(penalty(net, data, law).value, "==", truth, "exact"))
    found.append(compare(penalty(net, data, law, Enumerate()).value, "==", truth, "listed"))
    found.append(compare(criterion(net, data, law).value, "==", plain + truth, "criterion"))
    slopes = penalty(net, data, law, SecondOrder(check=None)).value

    def mean(z: Tensor) -> Tensor:
        hidden = data.inputs
        for number, part in enumerate(z.split([3, 3, 4])):
            hidden = torch.relu(hidden) if number else hidden
            hidden = (hidden * part) @ net.weights[number].mT + net.biases[number]
        return (hidden - data.targets).square().sum(-1) @ shares

    hessian = torch.autograd.functional.hessian(mean, torch.ones(10, dtype=torch.float64))
    odds = tensor([rate / (1 - rate) for part in rates for rate in part])
    found.append(compare(slopes, "==", scale * 0.5 * (hessian.diagonal() * odds).sum(), "second order"))
    return found


def derivatives_of_losses(scale: float) -> list[Comparison]:
    """Losses, their Hessians and curvatures along directions, and the largest slopes."""
    found = []
    outputs, directions = normal(1, 5, 3), normal(2, 3, 4)
    cases: dict[str, tuple[Loss, Tensor, Tensor]] = {
        "squared": (Squared(), outputs, normal(3, 5, 3)),
        "cross-entropy": (CrossEntropy(), outputs, torch.arange(5) % 3),
        "logistic": (Logistic(), outputs[:, :1], torch.where(torch.arange(5) % 2 > 0, 1.0, -1.0).double()),
    }
    for name, (loss, points, targets) in cases.items():
        found.append(compare(loss(points, targets), "==", scale * _losses(name, points, targets), name))
        along = directions[: points.shape[1]]
        rows, hessians = [], []
        for point, target in zip(points, targets, strict=True):
            hessian = torch.autograd.functional.hessian(
                lambda z, target=target, name=name: _losses(name, z[None], target[None]).sum(), point
            )
            hessians.append(hessian)
            rows.append(((hessian @ along) * along).sum(0))
        found.append(compare(loss.hessian(points, targets), "==", scale * torch.stack(hessians), f"Hessian, {name}"))
        found.append(
            compare(Loss.hessian(loss, points, targets), "==", torch.stack(hessians), f"by derivatives, {name}")
        )
        for form, told in (("own", loss.curvatures), ("any", partial(Loss.curvatures, loss))):
            curved = told(points, targets, along)
            found.append(compare(curved, "==", scale * torch.stack(rows), f"curvatures, {name}, {form}"))
    # the most by which a loss moves when every output moves by one is the sum of absolute slopes, largest far away
    wide = torch.cat([20 * normal(4, 40, 3), tensor([[50.0, -50.0, -50.0]])])
    for name, points, targets, most in (
        ("cross-entropy", wide, (torch.arange(41) + 2) % 3, CrossEntropy().slope),
        ("logistic", wide[:, :1], torch.where(torch.arange(41) % 2 > 0, 1.0, -1.0).double(), Logistic().slope),
    ):
        leaf = points.clone().requires_grad_()
        (slopes,) = torch.autograd.grad(_losses(name, leaf, targets).sum(), leaf)
        found.append(compare(most, "==", scale * slopes.abs().sum(1).max(), f"largest slope, {name}"))
    found.append(compare(float(Squared().slope is None), "==", 1.0, "squares have none"))
    return found


def dropped_layers(scale: float) -> list[Comparison]:
    """Rates that blocks realize, by counting the blocks over each place; sums of explicit penalties over labels."""
    found = []
    for size, drop, block in ((5, 0.2, 3), (8, 0.1, 7), (6, 0.3, 2), (9, 0.05, 1)):
        row = realized_rates((size,), (drop,), (block,))[0]
        starts = {
            "torchvision": range(size - block + 1),
            "timm": range(-(block // 2), size - block // 2),
            "dropblock": range(-(block // 2), size - block // 2),
        }
        label = f"size {size}, drop {drop}, block {block}"
        for name, sides in starts.items():
            inside = drop * size**2 / (block**2 * (size - block + 1) ** 2)
            gamma = drop / block**2 if name == "dropblock" else inside
            kept = [
                (1 - gamma) ** sum(a <= i < a + block and b <= j < b + block for a in sides for b in sides)
                for i in range(size)
                for j in range(size)
            ]
            found.append(compare(getattr(row, name), "==", scale * (1 - np.mean(kept)), f"{name}, {label}"))
        found.append(compare(row.matched, "==", scale * drop, f"matched, {label}"))
    layer = DropBlock(0.3, 2, spatial=1, edges="centered")
    gamma = layer.seed_rate((4,))
    covers = [sum(a <= i < a + 2 for a in range(-1, 3)) for i in range(4)]
    found.append(
        compare(1 - np.mean([(1 - gamma) ** n for n in covers]), "==", scale * 0.3, "seeds of centered blocks")
    )
    head = linear_head(1, 4, 3)
    features, labels = normal(2, 2, 5, 4), torch.tensor([[0, 1, -100, 2, 1], [2, -100, -100, 0, 1]])
    for form in ("second-order", "bound", "sampled"):
        explicit = ExplicitDropout(0.3, head, CrossEntropy(), form)
        module = nn.Sequential(explicit, head)
        module(features)
        counted = (labels != -100).double()
        wanted = (explicit.penalties * counted).sum() / counted.sum()
        found.append(compare(explicit_penalty(module), "==", scale * explicit.penalties.mean(), f"mean, {form}"))
        found.append(compare(explicit_penalty(module, labels), "==", scale * wanted, f"labels, {form}"))
        later = torch.cat([counted[:, 1:], torch.zeros(2, 1, dtype=torch.float64)], 1)
        moved = (explicit.penalties * later).sum() / later.sum()
        found.append(compare(explicit_penalty(module, labels, shifted=True), "==", moved, f"next tokens, {form}"))
        flat = features.reshape(-1, 4)
        coins, chances = every_coin([0.3] * 4)
        outputs = head(flat * (coins / 0.7)[:, None, :])
        truth = (chances @ outputs.logsumexp(-1) - head(flat).logsumexp(-1)).reshape(2, 5)
        if form == "bound":
            found.append(compare(explicit.penalties, ">=", truth, "an upper bound"))
        checked = explicit.check(features)
        found.append(compare(checked.lower, "<=", scale * truth.mean(), f"checked from below, {form}"))
        found.append(compare(checked.upper, ">=", scale * truth.mean(), f"checked from above, {form}"))
        if form == "sampled":
            logs = explicit.logs
            assert logs is not None
            pairs = [
                functional.kl_div(logs[:, b], logs[:, a], reduction="none", log_target=True).sum(-1)
                for a, b in itertools.permutations(range(logs.shape[1]), 2)
            ]
            apart = torch.stack(pairs).mean(0).mean()
            found.append(compare(explicit_consistency(module), "==", scale * apart, "divergence between masks"))
    return found


def units_of_networks(scale: float) -> list[Comparison]:
    """Flows, shares, sub-networks by width, the smallest, exported modules, draws and what they are evaluated to."""
    found: list[Comparison] = []
    net = network(1, 3, 6, 3)
    data = Sample(normal(2, 60, 3), torch.arange(60) % 3)
    hidden = torch.relu(data.inputs @ net.weights[0].mT + net.biases[0])
    psi = net.weights[1].norm(dim=0) * hidden.square().mean(0).sqrt()
    told = split(net, data)
    even = psi.sum() / (6**0.5 * psi.norm())
    found += [
        compare(flows(net, data), "==", scale * psi, "flows"),
        compare(importance(net, data), "==", scale * psi / psi.sum(), "shares"),
        compare(alpha(net, data), "==", psi.sum(), "their sum"),
        compare(coadaptation(net, data), "==", even, "evenness"),
        compare(told.effective_width, "==", 6 * even**2, "effective width"),
        compare(told.regularizer, "==", psi.square().sum(), "regularizer"),
    ]
    order = psi.argsort(descending=True)
    curve, by_width = [], []
    for width in range(7):
        factor = float(psi.sum() / psi[order[:width]].sum()) if width else 1.0
        mask = torch.zeros(6, dtype=torch.float64)
        mask[order[:width]] = factor
        outputs = (hidden * mask) @ net.weights[1].mT + net.biases[1]
        by_width.append(outputs)
        curve.append(float((outputs.argmax(1) == data.targets).double().mean()))
    found.append(compare(accuracy_by_width(net, data), "==", curve, "accuracy by width"))
    for labels, lost in ((data.targets, 0.2), (outputs.argmax(1), 0.1)):  # the second is right with all units alone
        few = smallest(net, Sample(data.inputs, labels), lost, draws=0)
        right = [float((one.argmax(1) == labels).double().mean()) for one in by_width]
        least = next(width for width in range(7) if right[width] >= right[6] - lost)
        factor = float(psi.sum() / psi[order[:least]].sum()) if least else 1.0
        found.append(compare(few.kept, "==", torch.isin(torch.arange(6), order[:least]), f"smallest, {lost}"))
        told_few = [few.width, few.accuracy, few.full, few.scale]
        found.append(compare(told_few, "==", [least, right[least], right[6], factor], f"its numbers, {lost}"))
    found.append(compare(least, ">", 0, "units that are needed"))
    kept = tensor([1.0, 0, 1, 1, 0, 1]) > 0
    small = export(net, data, kept, scale=1.5)
    wanted = (hidden * kept * 1.5) @ net.weights[1].mT + net.biases[1]
    with torch.no_grad():
        found.append(compare(small(data.inputs), "==", wanted, "exported"))
    plain = TwoLayerLinear(normal(3, 3, 6), normal(4, 3, 6))
    with torch.no_grad():
        image = export(plain, data, kept, scale=1.5)(data.inputs)
    found.append(compare(image, "==", (data.inputs @ plain.V * kept * 1.5) @ plain.U.mT, "exported linear"))
    drawn = draw(Bernoulli(0.3, 6), 4000, torch.Generator().manual_seed(1))
    found.append(compare(drawn.double().mean(0), "==", 0.7 / scale, "units kept", precision=5 * (0.21 / 4000) ** 0.5))
    for factor in (1.0, 1.7):
        judged = evaluate(net, data, drawn[:50], scale=factor)
        own = [
            float(
                (((hidden * row * factor) @ net.weights[1].mT + net.biases[1]).argmax(1) == data.targets)
                .double()
                .mean()
            )
            for row in drawn[:50]
        ]
        gap = curve[6] - sum(own) / 50
        found.append(compare(judged.accuracies, "==", own, f"accuracies of sub-networks, {factor}"))
        found.append(compare([judged.full, judged.gap], "==", [curve[6], gap], f"gap, {factor}"))
        found.append(compare(judged.quantiles((0.25,)), "==", tensor(own).quantile(0.25), f"quantile, {factor}"))
    found.append(compare(judged.widths, "==", drawn[:50].sum(1), "widths"))
    coins, off = drawn.double(), 5 * (0.25 / 4000) ** 0.5
    each = 0.49 + 0.21 * torch.eye(6, dtype=torch.float64)
    found.append(compare(coins.mT @ coins / 4000, "==", each, "pairs of units kept", precision=off))
    found.append(compare(coins[1:].mT @ coins[:-1] / 3999, "==", 0.49, "units of two draws", precision=off))
    return [*found, *_units_of_uneven(scale, drawn[:50])]


def _units_of_uneven(scale: float, kept: Tensor) -> list[Comparison]:
    """Flows and accuracies of sub-networks on examples that count differently, the units in an order that is given."""
    found: list[Comparison] = []
    net, data = network(1, 3, 6, 3), Sample(normal(2, 60, 3), torch.arange(60) % 3)
    hidden = torch.relu(data.inputs @ net.weights[0].mT + net.biases[0])
    uneven, order = Sample(data.inputs, data.targets, 3 * simplex(5, 60)), torch.arange(6)
    psi = net.weights[1].norm(dim=0) * (simplex(5, 60) @ hidden.square()).sqrt()
    found.append(compare(flows(net, uneven), "==", scale * psi, "flows of uneven examples"))

    def weighed(mask: Tensor) -> Tensor:
        outputs = (hidden * mask) @ net.weights[1].mT + net.biases[1]
        return simplex(5, 60) @ (outputs.argmax(1) == data.targets).double()

    first = [psi.sum() / psi[:width].sum().clamp_min(1e-9) * (order < width) for width in range(7)]
    found.append(compare(accuracy_by_width(net, uneven, order), "==", [weighed(m) for m in first], "a given order"))
    judged, own = evaluate(net, uneven, kept), [float(weighed(row)) for row in kept]
    found.append(compare(judged.accuracies, "==", own, "accuracies on uneven examples"))
    return [*found, compare(judged.full, "==", weighed(torch.ones(6)), "accuracy of the whole on uneven examples")]
