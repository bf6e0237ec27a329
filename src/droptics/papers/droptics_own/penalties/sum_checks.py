"""What more claims on penalties compare: long sums, sites inside modules, rounding."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from droptics.data import Entries, Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    Model,
    ReLUNet,
    Site,
    TwoLayerLinear,
)
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.instances import moments, normal, sample, simplex, tensor, uniform
from droptics.penalties import (
    Certified,
    ClosedForm,
    Enumerate,
    MonteCarlo,
    SecondOrder,
    best_method,
    criterion,
    has_closed_form,
    penalty,
    relu_cost,
    risk,
    unit_energies,
    unit_gram,
)
from droptics.penalties.relu import moments as moment_sums
from droptics.penalties.relu.device import Outcomes, device_moments, dominance_sum
from droptics.penalties.relu.effort import words
from droptics.penalties.relu.moments import Dominance, MomentLeaf
from droptics.penalties.relu.outcomes import Coins, Stage, Walk
from droptics.penalties.second_order import second_derivatives


def listed(law: MaskLaw) -> tuple[Tensor, Tensor]:
    """All multipliers of coins, blocks and products of them, and their probabilities, written out."""
    if isinstance(law, Product):
        parts = [listed(one) for one in law.laws]
        places = torch.cartesian_prod(*(torch.arange(len(chances)) for _, chances in parts)).unbind(1)
        chosen = [chances[place] for (_, chances), place in zip(parts, places, strict=True)]
        masks = [masks[place] for (masks, _), place in zip(parts, places, strict=True)]
        return torch.cat(masks, 1), torch.stack(chosen).prod(0)
    assert isinstance(law, (Bernoulli, Block))
    width = law.block if isinstance(law, Block) else 1
    drop = law.drop.expand(law.size // width)
    coins, chances = every_coin(drop[drop > 0].tolist())
    kept = torch.ones(len(coins), len(drop), dtype=torch.float64)
    kept[:, drop > 0] = coins
    return (kept / (1 - drop)).repeat_interleave(width, 1), chances


def _network(sizes: tuple[int, ...], seed: int) -> ReLUNet:
    pairs = list(itertools.pairwise(sizes))
    weights = [normal(seed + k, after, before) for k, (before, after) in enumerate(pairs)]
    return ReLUNet(weights, [0.5 * normal(seed + 20 + k, after) for k, (_, after) in enumerate(pairs)])


def _repeated(outputs: int, seed: int) -> ReLUNet:
    """Three layers with two equal inputs, and two equal units in both hidden layers."""
    base, twice = _network((2, 2, 2, outputs), seed), [0, 0, 1]
    weights = [weight[:, twice] for weight in base.weights]
    return ReLUNet([*(weight[twice] for weight in weights[:-1]), weights[-1]],
                   [*(bias[twice] for bias in base.biases[:-1]), base.biases[-1]])  # fmt: skip


def of_all_masks(model: ReLUNet, data: Sample, laws: Sequence[MaskLaw], loss: Loss) -> Tensor:
    """The mean loss over all masks, layer by layer: every outcome below a layer meets every mask of it."""
    value, chances = data.inputs[None], torch.ones(1, dtype=torch.float64)
    for layer, (weight, bias, law) in enumerate(zip(model.weights, model.biases, laws, strict=True)):
        masks, odds = listed(law)
        value = (torch.relu(value) if layer else value)[:, None] * masks[:, None]
        value = value.flatten(0, 1) @ weight.mT
        value = value if bias is None else value + bias
        chances = torch.outer(chances, odds).flatten()
    if isinstance(loss, Squared):
        each = (value - data.targets).square().sum(-1)
    else:
        each = torch.logsumexp(value, -1) - value[:, torch.arange(len(data.inputs)), data.targets]
    weights = torch.ones(len(data.inputs), dtype=torch.float64) if data.weights is None else data.weights
    return chances @ (each @ (weights / weights.sum()))


def long_sums(scale: float) -> list[Comparison]:
    """Criteria of ReLU networks and their gradients, where outcomes are sorted, listed, blocked or repeated."""
    found: list[Comparison] = []
    rates = 0.1 + 0.7 * uniform(3, 17)
    inputs = torch.where(uniform(4, 1, 17) > 0.5, 1.0, -1.0).double() * (0.3 + uniform(5, 1, 17))
    cases: tuple[tuple[str, ReLUNet, Sample, Product, Loss, ClosedForm], ...] = (
        (
            "sorted halves",
            _network((17, 2, 2), 1),
            Sample(inputs, normal(6, 1, 2)),
            Product([Bernoulli(rates, 17), Bernoulli(tensor([0.2, 0.5]), 2)]),
            Squared(),
            ClosedForm(),
        ),
        (
            "little memory",
            _network((17, 2, 1), 9),
            Sample(inputs, normal(6, 1, 1)),
            Product([Bernoulli(rates, 17), Bernoulli(0.4, 2)]),
            Squared(),
            ClosedForm(memory=1 << 14),
        ),
        (
            "three layers",
            _network((3, 3, 2, 2), 11),
            Sample(normal(7, 4, 3), normal(8, 4, 2), weights=simplex(2, 4)),
            Product([Bernoulli(tensor([0.0, 0.3, 0.6]), 3), Bernoulli(0.25, 3), Bernoulli(0.3, 2)]),
            Squared(),
            ClosedForm(),
        ),
        (
            "classes",
            _network((3, 3, 2, 3), 13),
            Sample(normal(7, 4, 3), torch.tensor([0, 2, 1, 1]), weights=simplex(2, 4)),
            Product([Bernoulli(0.3, 3), Bernoulli(tensor([0.1, 0.4, 0.6]), 3), Bernoulli(0.3, 2)]),
            CrossEntropy(),
            ClosedForm(),
        ),
        (
            "blocks first",
            _network((4, 3, 2, 2), 15),
            Sample(normal(7, 3, 4), normal(8, 3, 2)),
            Product([Block(0.3, 4, 2), Bernoulli(0.4, 3), Bernoulli(tensor([0.2, 0.7]), 2)]),
            Squared(),
            ClosedForm(memory=1 << 12),
        ),
        (
            "a list last",
            _network((3, 4, 2), 17),
            Sample(normal(7, 3, 3), normal(8, 3, 2)),
            Product([Bernoulli(0.4, 3), Block(0.3, 4, 2)]),
            Squared(),
            ClosedForm(),
        ),
        (
            "equal units below others",
            _repeated(2, 41),
            Sample(normal(7, 2, 2)[:, [0, 0, 1]], normal(8, 2, 2)),
            Product([Bernoulli(tensor([0.3, 0.3, 0.6]), 3), Bernoulli(tensor([0.2, 0.2, 0.5]), 3), Bernoulli(0.3, 3)]),
            Squared(),
            ClosedForm(),
        ),
        (
            "classes above equal units",
            _repeated(3, 43),
            Sample(normal(7, 2, 2)[:, [0, 0, 1]], torch.tensor([2, 0])),
            Product([Bernoulli(tensor([0.3, 0.3, 0.6]), 3), Bernoulli(0.2, 3), Bernoulli(tensor([0.4, 0.4, 0.1]), 3)]),
            CrossEntropy(),
            ClosedForm(),
        ),
    )
    for name, model, data, law, loss, method in cases:
        free = [one.detach().requires_grad_() for one in model.tensors]
        layers = len(model.weights)
        net = ReLUNet(free[:layers], free[layers:])
        told = criterion(net, data, law, method, loss)
        truth = of_all_masks(net, data, law.laws, loss)
        found.append(compare(told.value, "==", scale * truth.detach(), f"criterion, {name}"))
        plain = of_all_masks(net, data, [Bernoulli(0.0, part.size) for part in law.laws], loss)
        added = truth - plain
        found.append(
            compare(penalty(model, data, law, method, loss).value, "==", scale * added.detach(), f"excess, {name}")
        )
        mine, theirs = (torch.autograd.grad(value, free, retain_graph=True) for value in (told.value, truth))
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            found.append(compare(one, "==", scale * other, f"gradient {number}, {name}"))
        gap = (told.value - truth).abs().detach()
        found.append(compare(gap, "<=", told.error, f"its rounding, {name}", precision=0.0))
        # seven digits stay
        found.append(compare(told.error, "<=", 1e-7 * truth.detach(), f"a small one, {name}", precision=0.0))
    both = [_network((3, 2, 2), seed) for seed in (21, 31)]
    stacked = ReLUNet(
        [torch.stack([one.weights[k] for one in both]) for k in range(2)],
        [torch.stack([one.biases[k] for one in both]) for k in range(2)],
    )
    data, law = sample(3, 5, 3, 2), Product([Bernoulli(0.3, 3), Bernoulli(0.4, 2)])
    wanted = torch.stack([of_all_masks(one, data, law.laws, Squared()) for one in both])
    found.append(
        compare(criterion(stacked, data, law, ClosedForm()).value, "==", scale * wanted, "a batch of networks")
    )
    single = ReLUNet([w.float() for w in both[0].weights], [b.float() for b in both[0].biases])
    rounded = criterion(single, Sample(data.inputs.float(), data.targets.float()), law, ClosedForm())
    exact = of_all_masks(
        ReLUNet([w.double() for w in single.weights], [b.double() for b in single.biases]),
        Sample(data.inputs.float().double(), data.targets.float().double()),
        law.laws,
        Squared(),
    )
    found.append(compare(rounded.value.double(), "==", scale * exact, "its value", precision=1e-5))
    found.append(compare((rounded.value.double() - exact).abs(), "<=", rounded.error, "single precision"))
    copies = ReLUNet(
        [both[0].weights[0][[0, 0, 0, 1]], normal(5, 2, 4)], [both[0].biases[0][[0, 0, 0, 1]], normal(6, 2)]
    )
    law = Product([Bernoulli(0.3, 3), Bernoulli(0.4, 4)])
    truth = of_all_masks(copies, data, law.laws, Squared())
    found.append(compare(criterion(copies, data, law).value, "==", scale * truth, "equal units"))
    return found


def counted_sums(scale: float) -> list[Comparison]:
    """Sums over sorted lists are those over all pairs, and moments by halves those of all outcomes."""
    found: list[Comparison] = []
    for size, ties in ((16, False), (64, True), (256, False)):
        first, other = normal(size, size).sort(descending=True).values, normal(size + 1, size)
        if ties:
            first, other = first.round(), other.round()
        rank = torch.empty(size, dtype=torch.int32)
        rank[(-other).argsort(stable=True)] = torch.arange(size, dtype=torch.int32)
        weight = uniform(size, size) * torch.sign(normal(size + 2, size))
        x, y = ((part[:, None] - part).clamp_min(0.0) for part in (first, other))
        wanted = (weight.clamp_min(0.0)[:, None] * weight.clamp_max(0.0).neg() * x * y).sum()
        found.append(
            compare(dominance_sum(Outcomes(rank, first, other, weight)), "==", scale * wanted, f"list of {size}")
        )
    counts = np.array([1, 3, 1, 2, 1, 1])
    law = Coins(counts, 0.1 + 0.7 * uniform(7, 6).numpy())
    weights, bias = normal(8, 3, 6), normal(9, 3)
    grids = torch.cartesian_prod(*[torch.arange(count + 1.0, dtype=torch.float64) for count in counts])
    drop = torch.from_numpy(law.drop)
    total = torch.from_numpy(counts).double()
    logs = (total + 1).lgamma() - (grids + 1).lgamma() - (total - grids + 1).lgamma()
    chances = (logs + grids * (1 - drop).log() + (total - grids) * drop.log()).exp().prod(-1)
    hidden = torch.relu((grids / (1 - drop)) @ weights.mT + bias)
    mean, second = chances @ hidden, (hidden * chances[:, None]).mT @ hidden
    for memory in (1 << 30, 1 << 10):
        walk = Walk([Stage(law, weights, bias)], MomentLeaf(), memory)
        part = Dominance(weights.numpy(), bias.numpy(), law, np.arange(6), walk)
        told = part.moments()
        found.append(compare(told[0], "==", scale * mean, f"mean, {memory}"))
        found.append(compare(told[1], "==", scale * second, f"second moment, {memory}"))
    found += _slopes(scale)
    whole = Walk([Stage(law, weights, bias)], MomentLeaf(), 1 << 30)
    halves = Dominance(weights.numpy(), bias.numpy(), law, np.arange(6), whole).halves
    lists = device_moments(weights.numpy(), bias.numpy(), counts, law.drop, halves, torch.device("cpu"))
    for i, (average, row) in enumerate(lists):
        found.append(compare(average, "==", scale * mean[i], f"mean of unit {i} by lists"))
        found.append(compare(row, "==", scale * second[i, : i + 1], f"second moments of unit {i} by lists"))
    return found


def _slopes(scale: float) -> list[Comparison]:
    """Slopes of sums over sorted lists, by a tree and by splitting, are those of all outcomes."""
    found: list[Comparison] = []
    law = Coins(np.ones(12, np.int64), 0.1 + 0.7 * uniform(7, 12).numpy())
    free = [normal(8, 3, 12).requires_grad_(), normal(9, 3).requires_grad_()]
    multipliers, chances = listed(Bernoulli(torch.from_numpy(law.drop), 12))
    hidden = torch.relu(multipliers @ free[0].mT + free[1])
    linear, quadratic = normal(10, 3), normal(11, 3, 3)
    value = chances @ (hidden @ linear) + (quadratic * ((hidden * chances[:, None]).mT @ hidden)).sum()
    wanted = torch.autograd.grad(value, free)
    weights, bias = (part.detach() for part in free)
    for memory in (1 << 30, 1 << 10):
        for longest in (1 << 13, 0):
            walk = Walk([Stage(law, weights, bias)], MomentLeaf(), memory)
            part = Dominance(weights.numpy(), bias.numpy(), law, np.arange(12), walk)
            with mock.patch.object(moment_sums, "_TREE", longest):
                told = part.slopes(linear.numpy(), quadratic.numpy())
            for name, one, other in zip(("columns", "bases"), told, wanted, strict=True):
                label = f"slopes by {name}, {'tree' if longest else 'splitting'}, {memory}"
                found.append(compare(one, "==", scale * other, label))
    return [*found, *_steady(scale)]


def _steady(scale: float) -> list[Comparison]:
    """Slopes in columns of coins that come in numbers; some never fall, which the base holds, or have no weights."""
    found: list[Comparison] = []
    counts, drop = np.array([1, 3, 2, 2, 1, 1]), 0.1 + 0.7 * uniform(12, 6)
    drop[1] = drop[4] = 0.0
    columns = normal(13, 3, 6) * tensor([1.0, 1.0, 1.0, 0.0, 1.0, 1.0])
    free = [columns.requires_grad_(), normal(14, 3).requires_grad_()]
    grids = torch.cartesian_prod(*[torch.arange(count + 1.0, dtype=torch.float64) for count in counts])
    total = torch.from_numpy(counts).double()
    ways = ((total + 1).lgamma() - (grids + 1).lgamma() - (total - grids + 1).lgamma()).exp()
    chances = (ways * (1 - drop) ** grids * drop ** (total - grids)).prod(-1)
    hidden = torch.relu((grids / (1 - drop)) @ free[0].mT + free[1])
    linear, quadratic = normal(15, 3), normal(16, 3, 3)
    value = chances @ (hidden @ linear) + (quadratic * ((hidden * chances[:, None]).mT @ hidden)).sum()
    wanted = torch.autograd.grad(value, free)
    law, (weights, bias) = Coins(counts, drop.numpy()), (part.detach() for part in free)
    base, chosen = bias + weights @ (total * (drop == 0)), np.array([5, 0, 2])
    for memory in (1 << 30, 1 << 10):
        walk = Walk([Stage(law, weights, bias)], MomentLeaf(), memory)
        part = Dominance(weights.numpy(), base.numpy(), law, chosen, walk)
        told = part.slopes(linear.numpy(), quadratic.numpy())
        for name, one, other in zip(("columns", "bases"), told, wanted, strict=True):
            found.append(compare(one, "==", scale * other, f"slopes by {name}, steady coins, {memory}"))
    return found


def costs_of_sums(scale: float) -> list[Comparison]:
    """Costs are numbers of outcomes, and the method that is chosen is the most exact that applies."""
    found: list[Comparison] = []
    for sizes in ((5, 2, 1), (3, 2, 2, 1)):
        net = _network(sizes, 3)
        data, laws = sample(1, 4, sizes[0], sizes[-1]), Product([Bernoulli(0.3, size) for size in sizes[:-1]])
        cost = relu_cost(net, data, laws)
        if len(sizes) == 3:
            found.append(compare(cost.outcomes, "==", scale * 4 * 2.0 ** sizes[0], "outcomes of two layers"))
            three = relu_cost(ReLUNet([torch.stack([weight] * 3) for weight in net.weights]), data, laws)
            found.append(compare(three.outcomes, "==", scale * 12 * 2.0 ** sizes[0], "outcomes of three networks"))
        else:
            found.append(compare(cost.outcomes, "<=", scale * 4 * 2.0 ** sum(sizes[:-2]), "outcomes of three layers"))
            alive = sum(
                2.0 ** int((torch.relu(net.weights[0] @ (mask * x / 0.7) + net.biases[0]) > 0).sum())
                for x in data.inputs
                for mask in every_coin([0.3] * 3)[0]
            )
            found.append(compare(cost.outcomes / alive, ">=", scale / 2.0, "estimated outcomes"))
            found.append(compare(cost.outcomes / alive, "<=", 2.0, "not too many"))
        found.append(compare(cost.seconds, ">", 0.0, "seconds", precision=0.0))
        found.append(
            compare(float(isinstance(best_method(net, data, laws), ClosedForm)), "==", 1.0, "exact where it can")
        )
    wide = TwoLayerLinear(normal(1, 2, 3), normal(2, 4, 3))
    head = LastLayer.of(linear_head(3, 30, 3))
    labels = Sample(normal(4, 5, 30), torch.arange(5) % 3)
    few = LastLayer.of(linear_head(3, 4, 3))
    choices = (
        (wide, moments(3, 2, 4), Block(0.3, 3, 1), Squared(), ClosedForm),
        (few, Sample(normal(4, 5, 4), torch.arange(5) % 3), Bernoulli(0.3, 4), CrossEntropy(), Enumerate),
        (head, labels, Bernoulli(0.3, 30), CrossEntropy(), Certified),
        (head, labels, Gaussian(0.3, 30), CrossEntropy(), Certified),
        (_network((30, 2, 3), 5), labels, Product([Bernoulli(0.3, 30), Bernoulli(0.3, 2)]), CrossEntropy(), MonteCarlo),
    )
    for model, known, masks, loss, kind in choices:
        told_method = best_method(model, known, masks, loss)
        found.append(compare(float(isinstance(told_method, kind)), "==", 1.0, f"method for {type(loss).__name__}"))
        closed = float(has_closed_form(model, masks, loss))
        # the sum of a ReLU network is one, and may be too long to be chosen
        rule = kind is ClosedForm or isinstance(model, ReLUNet)
        found.append(compare(closed, "==", scale * float(rule), "closed form"))
    spoken = {30.0: "30 s", 9000.0: "2.5 hours", 259200.0: "3 days", 1.6e8: "5 years"}
    found += [compare(float(words(one) == text), "==", 1.0, f"{one} in words") for one, text in spoken.items()]
    return found


def inner_sites(scale: float) -> list[Comparison]:
    """Penalties of dropout anywhere inside a module, by entries and by channels, are those over all masks."""
    found: list[Comparison] = []
    torch.manual_seed(3)
    module = nn.Sequential(
        nn.Conv2d(1, 2, 2), nn.Tanh(), nn.Dropout(0.5), nn.Flatten(), nn.Linear(8, 3), nn.Tanh(), nn.Linear(3, 2)
    ).double()
    inputs, targets = normal(1, 5, 1, 3, 3), normal(2, 5, 2)
    data = Sample(inputs, targets, weights=simplex(3, 5))
    for name, channels, units in (("1", False, 8), ("1", True, 2), ("4", False, 3)):
        module.eval()
        site = Site.of(module, name, inputs, channels)
        found.append(compare(site.units, "==", scale * units, f"units of {name}"))
        rates = [0.1 + 0.6 * k / units for k in range(units)]
        kept, chances = every_coin(rates)
        law = Bernoulli(tensor(rates), units)
        cut = int(name) + 1
        truth = tensor(0.0)
        with torch.no_grad():
            inner = module[:cut](inputs)
            shape = (2, 1, 1) if channels else inner.shape[1:]
            for mask, chance in zip(kept, chances, strict=True):
                outputs = module[cut:](inner * (mask / (1 - tensor(rates))).reshape(shape))
                truth = truth + chance * ((outputs - targets).square().sum(1) @ data.shares)
            clean = (module(inputs) - targets).square().sum(1) @ data.shares
        module.train()  # a site runs it in evaluation mode, whatever its flag
        told = penalty(site, data, law, Enumerate())
        found.append(compare(told.value, "==", scale * (truth - clean), f"penalty at {name}, {channels}"))
        drawn = penalty(site, data, law, MonteCarlo(400, seed=1, confidence=0.999999))
        found.append(compare(drawn.lower, "<=", truth - clean, f"drawn from below at {name}, {channels}"))
        found.append(compare(drawn.upper, ">=", truth - clean, f"drawn from above at {name}, {channels}"))
        point = torch.ones(units, dtype=torch.float64)

        def mean_loss(multipliers: Tensor, site: Site = site) -> Tensor:
            return (site.outputs(inputs, multipliers) - targets).square().sum(1) @ data.shares

        hessian = torch.autograd.functional.hessian(mean_loss, point)
        assert isinstance(hessian, Tensor)
        wanted = 0.5 * hessian.diagonal() @ (tensor(rates) / (1 - tensor(rates)))
        second = penalty(site, data, law, SecondOrder())
        found.append(compare(second.value, "==", scale * wanted.detach(), f"second order at {name}, {channels}"))
        found += _listed_at(site, data, hessian, scale)
    point, ways = normal(4, 3), normal(5, 4, 3)

    class Cube(torch.autograd.Function):
        """A cube whose derivative goes backwards only."""

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, upstream: Tensor) -> Tensor:
            return 3 * ctx.saved_tensors[0] ** 2 * upstream

    cube: Callable[[Tensor], Tensor] = Cube.apply
    functions: tuple[tuple[str, Callable[[Tensor], Tensor]], ...] = (
        ("forwards", lambda x: (x**3).sum()),
        ("backwards", lambda x: cube(x).sum()),
    )
    for name, function in functions:
        told_second = second_derivatives(function, point, ways, 2)
        found.append(compare(told_second, "==", scale * (6 * point * ways**2).sum(1), f"second derivatives, {name}"))
    return found


def _listed_at(site: Site, data: Sample, hessian: Tensor, scale: float) -> list[Comparison]:
    """The same where units fall together, as a list says, and under cross-entropy."""
    atoms, chances = uniform(6, 3, site.units) + 0.1, simplex(7, 3)
    masks = atoms / (chances @ atoms)
    moves, label = masks - 1, f"{site.units} units, channels {site.channels}"
    labels, law = torch.arange(5) % 2, Discrete(atoms, chances)
    classes = Sample(data.inputs, labels, weights=data.weights)

    def each(outputs: Tensor) -> Tensor:
        return outputs.logsumexp(-1) - outputs[..., torch.arange(5), labels]

    def squares(outputs: Tensor) -> Tensor:
        return (outputs - data.targets).square().sum(-1)

    def entropy(multipliers: Tensor) -> Tensor:
        return each(site.outputs(data.inputs, multipliers)) @ data.shares

    curved = torch.autograd.functional.hessian(entropy, torch.ones(site.units).double())
    assert isinstance(curved, Tensor)
    found: list[Comparison] = []
    for loss, losses, known, curvature in (
        (Squared(), squares, data, hessian),
        (CrossEntropy(), each, classes, curved),
    ):
        name = f"{type(loss).__name__}, {label}"
        with torch.no_grad():
            own = [losses(site.outputs(data.inputs, mask)) @ data.shares for mask in (*masks, torch.ones(site.units))]
        truth = chances @ torch.stack(own[:-1]) - own[-1]
        found.append(
            compare(penalty(site, known, law, Enumerate(), loss).value, "==", scale * truth, f"listed, {name}")
        )
        half = 0.5 * ((chances[:, None] * moves).mT @ moves * curvature).sum().detach()
        told = penalty(site, known, law, SecondOrder(), loss).value
        found.append(compare(told, "==", scale * half, f"second order, listed, {name}"))
    return found


def rounding_errors(scale: float) -> list[Comparison]:
    """Errors that single precision leaves in penalties lie within those that are told, for every family and law."""
    found: list[Comparison] = []
    two, tied = TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)), Autoencoder(normal(3, 3, 4))
    deep = DeepLinear([normal(4, 3, 4), normal(5, 3, 3), normal(6, 2, 3)], mask_inputs=True)
    factors, cells = Factorization(normal(7, 5, 3), normal(8, 4, 3)), Connections(normal(9, 2, 3), normal(10, 3, 3))
    entries = Entries(torch.tensor([0, 1, 4, 2]), torch.tensor([0, 3, 1, 1]), normal(11, 4), (5, 4))
    net = _network((3, 3, 2), 12)
    four = Bernoulli(tensor([0.1, 0.3, 0.5, 0.7]), 4)
    listed = Discrete(tensor([[2.0, 0, 1, 1], [0, 2.0, 1, 1], [1, 1, 0.5, 1.5]]), tensor([0.25, 0.25, 0.5]))
    cases: tuple[tuple[str, Model, Any, MaskLaw], ...] = (
        ("two layers", two, sample(1, 6, 3, 2), four),
        ("moments", two, moments(2, 2, 3), four),
        ("correlated", two, sample(1, 6, 3, 2), Block(0.3, 4, 2)),
        ("listed", two, sample(1, 6, 3, 2), listed),
        ("tied", tied, sample(3, 6, 3, 3), four),
        (
            "deep",
            deep,
            sample(4, 6, 4, 2),
            Product([Bernoulli(0.3, 4), Bernoulli(tensor([0.1, 0.2, 0.6]), 3), Bernoulli(0.5, 3)]),
        ),
        ("factors", factors, entries, Bernoulli(tensor([0.1, 0.4, 0.6]), 3)),
        ("connections", cells, sample(5, 6, 3, 2), Bernoulli(0.3, 9)),
        ("network", net, sample(6, 6, 3, 2), Product([Bernoulli(0.3, 3), Bernoulli(0.4, 3)])),
    )
    for name, model, data, law in cases:
        made = type(model)
        if isinstance(model, ReLUNet):
            single: Model = ReLUNet([w.float() for w in model.weights], [b.float() for b in model.biases])
            double: Model = ReLUNet(
                [w.float().double() for w in model.weights], [b.float().double() for b in model.biases]
            )
        elif isinstance(model, DeepLinear):
            single = DeepLinear([w.float() for w in model.weights], model.mask_inputs)
            double = DeepLinear([w.float().double() for w in model.weights], model.mask_inputs)
        else:
            single, double = (
                made(*[one(t) for t in model.tensors]) for one in (Tensor.float, lambda t: t.float().double())
            )
        known = data.to(dtype=torch.float32)
        exact = penalty(double, known.to(dtype=torch.float64), law, ClosedForm())
        for method in (ClosedForm(), Enumerate()):
            told = penalty(single, known, law, method)
            gap = (told.value.double() - exact.value).abs()
            label = f"{name}, {type(method).__name__}"
            found.append(compare(gap, "<=", told.error, f"rounding of {label}", precision=0.0))
            limit = 1e-3 * float(exact.value)
            found.append(compare(told.error, "<=", scale * limit, f"not too wide, {label}", precision=0.0))
            found.append(compare(told.value.double(), "==", scale * exact.value, f"value of {label}", precision=1e-4))
            whole = criterion(single, known, law, method)
            right = risk(double, known.to(dtype=torch.float64)) + exact.value
            found.append(compare((whole.value.double() - right).abs(), "<=", whole.error, f"criterion, {label}"))
            found.append(compare(whole.value.double(), "==", scale * right, f"criterion of {label}", precision=1e-4))
        drawn = penalty(single, known, law, MonteCarlo(200, seed=2, confidence=0.999999))
        found.append(compare(drawn.lower.double(), "<=", exact.value, f"drawn from below, {name}"))
        found.append(compare(drawn.upper.double(), ">=", exact.value, f"drawn from above, {name}"))
    for name, model, data, law in cases[:5]:
        U, V = (model.tensors * 2)[:2]
        second = data.xx if isinstance(data, Moments) else data.inputs.mT @ data.inputs / len(data.inputs)
        gram = (U.mT @ U) * (V.mT @ second @ V)
        found.append(compare(unit_gram(model, data), "==", scale * gram, f"Gram matrix, {name}"))
        found.append(compare(unit_energies(model, data), "==", scale * gram.diagonal(), f"energies, {name}"))
        value = (law.covariance / torch.outer(law.mean, law.mean) * gram).sum()
        found.append(compare(penalty(model, data, law).value, "==", scale * value, f"from the Gram matrix, {name}"))
    return found
