"""What a claim on side ways compares: tall dependent samples, listed laws, hidden numbers, blocks, many points."""

from __future__ import annotations

import itertools
import math
from typing import Any
from unittest import mock

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from droptics.arrays import Array
from droptics.bounds import linear_margin
from droptics.data import Moments, Sample
from droptics.envelopes import induced
from droptics.envelopes.deep_linear import induced_spectrum
from droptics.evidence.claims import Comparison, compare
from droptics.heads.ridge import DropoutRidge, DropoutRidgeCV
from droptics.linalg import psd_eigen, shrink, shrink_unequal
from droptics.linalg.ranks import proved_rank
from droptics.losses import CrossEntropy, Squared
from droptics.masks import Bernoulli, Block, Discrete, MaskLaw, Product
from droptics.models import DeepLinear, LastLayer, ReLUNet, TwoLayerLinear
from droptics.optima import certify, optimum
from droptics.papers import instances
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, simplex, tensor, uniform
from droptics.penalties import Certified, ClosedForm, Enumerate, MonteCarlo, certified, penalty
from droptics.penalties.factors import ROOM, Moves
from droptics.penalties.relu import device, moments
from droptics.penalties.relu.effort import Place, descend
from droptics.penalties.relu.moments import Dominance, MomentLeaf
from droptics.penalties.relu.outcomes import Coins, Stage, Walk
from droptics.spectra import action


def side_ways(scale: float) -> list[Comparison]:
    """Samples, sums, bounds, spectra and margins on ways that few instances take."""
    return by_parts((_tall, _summed, _bounded, _partly_known, _hidden, _left, _points), scale)


def _tall(scale: float) -> list[Comparison]:
    """Tall samples whose features depend on each other, nearly so or not at all: optima by pseudo-inverses."""
    found: list[Comparison] = []
    base = (2.0**20 * normal(1, 900, 3)).round() / 2.0**20  # sums of which are exact
    near = torch.cat([base, base[:, :1] + 1e-7 * normal(2, 900, 1)], 1)
    cases = {
        "nearly dependent": near,
        "nearly dependent in other units": near * tensor([1.0, 1e4, 1e-3, 1.0]),
        "a repeated one beside": torch.cat([near, base[:, 1:2]], 1),
        "a sum of two": torch.cat([base, base[:, :1] + base[:, 1:2]], 1),
        "a sum in front": 0.875 * torch.cat([base[:, :1] + base[:, 1:2], base], 1),
        "nothing at all": torch.zeros(900, 2).double(),
    }
    for (name, inputs), weighted in itertools.product(cases.items(), (False, True)):
        weights = simplex(3, 900) if weighted else None
        shares = torch.ones(900).double() / 900 if weights is None else weights
        targets = base @ normal(4, 3, 2) + 0.3 * normal(5, 900, 2)
        data, law = Sample(inputs, targets, weights), Bernoulli(0.3, 3)
        told = optimum(TwoLayerLinear, data, law)
        least = _least(inputs, targets, shares)
        found.append(compare(told.objective, "==", scale * least, f"least, {name}, {weighted}", 1e-7))
        found.append(compare(told.bound, "==", scale * least, f"bound, {name}, {weighted}", 1e-4))
        found.append(compare(told.bound, "<=", least, f"below it, {name}, {weighted}", 1e-9))
    return found


def _least(inputs: Tensor, targets: Tensor, shares: Tensor) -> float:
    """The least mean squared error of three units that are dropped at 0.3, by a basis of the inputs."""
    rows, aims = inputs * shares.sqrt()[:, None], targets * shares.sqrt()[:, None]
    units = rows.norm(dim=0).clamp_min(1e-300)
    left, values, _ = torch.linalg.svd(rows / units, full_matrices=False)
    basis = left[:, values > 1e-12]
    inner = torch.linalg.svdvals(aims.mT @ basis) if basis.shape[1] else torch.zeros(1).double()
    return float(aims.square().sum() - inner.square().sum()) + _cost(inner, 3 / 7, 3)


def _cost(values: Tensor, strength: float, width: int) -> float:
    """The least of ||values - x||^2 + strength / width (sum x)^2 over at most `width` of them, by every rank."""
    best = float(values.square().sum())
    for rank in range(1, min(len(values), width) + 1):
        kept = values[:rank] - strength * float(values[:rank].sum()) / (width + strength * rank)
        if float(kept[-1]) > 0:
            rest = (values[:rank] - kept).square().sum() + values[rank:].square().sum()
            best = min(best, float(rest + strength / width * kept.sum().square()))
    return best


def _summed(scale: float) -> list[Comparison]:
    """Exact sums on another device, counts of listed laws, drawn penalties of laws over several layers."""
    found: list[Comparison] = []
    counts, drop = np.array([1, 1, 2, 1, 3]), np.array([0.3, 0.5, 0.2, 0.6, 0.1])
    law, weights, bias = Coins(counts, drop), normal(1, 3, 5), normal(2, 3)
    steps: list[float] = []
    walk = Walk([Stage(law, weights, bias)], MomentLeaf(), 1 << 30, steps.append)
    kept, chances = every_coin(np.repeat(drop, counts).tolist())
    hidden = torch.relu(
        kept / torch.from_numpy(np.repeat(1 - drop, counts)) @ weights.repeat_interleave(torch.from_numpy(counts), 1).mT
        + bias
    )
    here = chances @ hidden, (hidden * chances[:, None]).mT @ hidden
    with mock.patch.object(moments, "sweep_work", lambda size, _: float(size)):
        there = Dominance(weights.numpy(), bias.numpy(), law, np.arange(5), walk, torch.device("cpu")).moments()
    for mine, wanted, name in zip(there, here, ("mean", "second moment"), strict=True):
        found.append(compare(mine, "==", scale * wanted, f"{name} on a device"))
    # halves of 4 * 2 and 3 * 2 * 2 outcomes in a list of 32
    found.append(same(steps, [32.0, 64.0, 96.0], "its work, unit by unit"))
    found.append(compare(device.device_bytes(7), "==", scale * 212, "bytes of an outcome"))
    listed = Discrete(tensor([[1.0, 0.0, 2.0], [0.0, 1.0, 1.0], [2.0, 1.0, 0.0]]), tensor([0.2, 0.3, 0.5]))
    deep = [Stage(listed, normal(3, 4, 3), normal(4, 4)), Stage(Coins(*_ones(4, 0.4)), normal(5, 2, 4), normal(6, 2))]
    for squared, last in itertools.product((True, False), (1, 2)):
        outcomes, work = descend(deep[:last], Place(squared, 1 << 30), np.random.default_rng(0))
        generator = np.random.default_rng(0)
        seed = torch.Generator().manual_seed(int(generator.integers(2**31)))
        state = torch.relu(deep[0].weight @ listed.multipliers(1, seed)[0] + deep[0].bias)
        counted = [3.0, 3.0 * 212.0]
        if last == 2:
            alive = int((state != 0).sum())
            leaf = 2.0**alive * (2 * 2 / 2 + 4) * 0.25 + 400.0 if squared else 2.0**alive * 208.0
            counted = [3 * 2.0**alive, counted[1] + 3 * leaf]
        found.append(compare([outcomes, work], "==", scale * tensor(counted), f"outcomes of a list, {squared}, {last}"))
    return [*found, *_sampled(scale)]


def _ones(size: int, drop: float) -> tuple[Any, Any]:
    return np.ones(size, dtype=np.int64), np.full(size, drop)


def _sampled(scale: float) -> list[Comparison]:
    """Laws over several layers of a ReLU network: no closed form, the same draws for every loss, the same list."""
    found: list[Comparison] = []
    net = ReLUNet(
        [normal(1, 2, 3), normal(2, 2, 2), normal(3, 2, 2)], [1 + uniform(4, 2), 1 + uniform(5, 2), normal(6, 2)]
    )
    atoms = 1 + (uniform(7, 5, 7) > 0.5).double()
    law = Discrete(atoms, simplex(8, 5))
    inputs, weights = normal(9, 6, 3), simplex(10, 6)
    for name, loss, targets in (
        ("squared", Squared(), normal(11, 6, 2)),
        ("classes", CrossEntropy(), torch.arange(6) % 2),
    ):
        data = Sample(inputs, targets, weights)

        def mean(z: Tensor, targets: Tensor = targets, loss: Any = loss) -> Tensor:
            x = torch.relu((inputs * z[:3]) @ net.weights[0].mT + net.biases[0]) * z[3:5]
            x = torch.relu(x @ net.weights[1].mT + net.biases[1]) * z[5:]
            out = x @ net.weights[2].mT + net.biases[2]
            if isinstance(loss, Squared):
                return weights @ (out - targets).square().sum(1)
            return weights @ (torch.logsumexp(out, 1) - out[torch.arange(6), targets])

        plain = mean(torch.ones(7).double())
        each = torch.stack([mean(z) - plain for z in atoms / law.mean])
        exact = float((law.probabilities * each).sum())
        found.append(compare(penalty(net, data, law, Enumerate(), loss).value, "==", scale * exact, f"all, {name}"))
        told = penalty(net, data, law, MonteCarlo(samples=300, seed=3), loss)
        drawn = law.multipliers(300, torch.Generator().manual_seed(3))
        values = torch.stack([mean(z) - plain for z in drawn])
        point = torch.ones(7, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(mean(point), point)
        control = (drawn - 1) @ slope
        turned = control - control.mean()
        factor = (turned * values).sum() / turned.square().sum()
        found.append(compare(told.value, "==", scale * (values - factor * control).mean(), f"drawn, {name}", 1e-8))
        found.append(compare(told.lower, "<=", exact, f"interval, {name}"))
        found.append(compare(told.upper, ">=", exact, f"interval from above, {name}"))
        words = "one independent law per masked layer"
        found.append(refuses(lambda data=data, loss=loss: penalty(net, data, law, ClosedForm(), loss), words))
    return found


def _bounded(scale: float) -> list[Comparison]:
    """Certified bounds in parts hold the sum over all masks, narrowly, and their slopes are those of their values."""
    found: list[Comparison] = []
    head = linear_head(1, 6, 3).requires_grad_(True)
    model, law = LastLayer.of(torch.nn.Sequential(head)), Bernoulli(tensor([0.2, 0.5, 0.3, 0.1, 0.4, 0.6]), 6)
    data = Sample(normal(2, 4, 6), torch.arange(4) % 3, simplex(3, 4))
    kept, chances = every_coin(law.drop.tolist())
    with torch.no_grad():
        spread = torch.logsumexp(head(data.inputs * (kept / (1 - law.drop))[:, None]), -1)
        exact = (chances @ spread - torch.logsumexp(head(data.inputs), -1)) @ simplex(3, 4)
    way = normal(4, 3, 6)
    for room, condition in ((ROOM, 0), (50, 0), (ROOM, 2), (50, 2)):
        with mock.patch.object(certified, "ROOM", room):
            name = f"{condition} written out, {room}"
            told = penalty(model, data, law, Certified(condition), CrossEntropy())
            rise = _rise(model, data, law, way, condition)
            found.append(compare(_slope(told.value, head, way), "==", scale * rise, name, 1e-6))
            found.append(compare(told.lower, "<=", exact, f"from below, {name}", 1e-12))
            found.append(compare(told.upper, ">=", exact, f"from above, {name}", 1e-12))
            found.append(compare(told.upper - told.lower, "<=", 0.02 * exact, f"narrow, {name}"))
            found.append(same("written out" in told.method, condition > 0, f"its words, {name}"))
    many, way = linear_head(5, 6, 5).requires_grad_(True), normal(6, 5, 6)  # the others share a lower bound
    wide, apart = LastLayer.of(torch.nn.Sequential(many)), Sample(2 * data.inputs[:2], torch.arange(2))
    for condition in (0, 2):
        told = penalty(wide, apart, law, Certified(condition), CrossEntropy())
        rise = _rise(wide, apart, law, way, condition)
        name = f"five classes, {condition} written out"
        found.append(compare(_slope(told.value, many, way), "==", scale * rise, name, 1e-6))
    features, offset = data.inputs, head.bias.detach().expand(4, 3)
    moves = Moves(offset, features, head.weight.detach()[None])
    rates = law.drop
    wanted = []
    for x, outputs in zip(features, offset + features @ head.weight.detach().mT, strict=True):
        chances = outputs.softmax(0)
        direction = (head.weight.detach() - chances @ head.weight.detach()) * x
        kept = direction * (rates / (1 - rates))
        grown = (rates * torch.exp(-direction) + (1 - rates) * torch.exp(kept)).prod(1)
        wanted.append((chances * grown).sum().log())
    for room in (ROOM, 1):
        with mock.patch.object(certified, "ROOM", room):
            told_upper = certified.upper_bounds(moves, law)
            found.append(compare(told_upper, "==", scale * torch.stack(wanted), f"upper ends, {room}"))
    return found


def _partly_known(scale: float) -> list[Comparison]:
    """Of two outcomes one spreads too far for integrals of margins: neither is bounded by them, at once or in parts."""
    found: list[Comparison] = []
    rates = tensor([0.4, 0.5, 0.3, 0.2, 0.6])
    kept, chances = every_coin(rates.tolist())
    for size, far in ((0.7, 100.0), (1.0, 200.0), (2.0, 100.0)):
        head = torch.nn.Linear(5, 14).double().requires_grad_(False)  # more classes than are taken two at a time
        head.weight.copy_(size * normal(1, 14, 5))
        head.bias.copy_(normal(2, 14))
        head.weight[0, 0] = far
        spread = torch.logsumexp(head(kept / (1 - rates)), -1)
        exact = chances @ spread - torch.logsumexp(head(torch.ones(5).double()), -1)
        data, ends = Sample(torch.ones(1, 5).double(), torch.zeros(1, dtype=torch.long)), []
        for room in (ROOM, 1):
            with mock.patch.object(certified, "ROOM", room):
                told = penalty(LastLayer.of(head), data, Bernoulli(rates, 5), Certified(1), CrossEntropy())
            found.append(compare(told.lower, "<=", exact, f"from below, {size}, {far}, {room}", 1e-12))
            found.append(compare(told.upper, ">=", exact, f"from above, {size}, {far}, {room}", 1e-12))
            ends.append([float(told.lower), float(told.upper)])
        found.append(compare(ends[1], "==", scale * np.array(ends[0]), f"outcome by outcome, {size}, {far}"))
    return found


def _slope(value: Tensor, head: torch.nn.Linear, way: Tensor) -> Tensor:
    """The derivative of a penalty along a way of the weights, by its graph."""
    (slopes,) = torch.autograd.grad(value, head.weight)
    return (slopes * way).sum()


def _rise(model: LastLayer, data: Sample, law: MaskLaw, way: Tensor, condition: int) -> float:
    """The same by differences."""
    ends = []
    with torch.no_grad():
        for step in (1e-5, -2e-5):
            model.head.weight += step * way
            ends.append(float(penalty(model, data, law, Certified(condition), CrossEntropy()).value))
        model.head.weight += 1e-5 * way
    return (ends[0] - ends[1]) / 2e-5


def _hidden(scale: float) -> list[Comparison]:
    """Functions of spectra inside torch.func.vmap, where numbers are hidden, and of spectra without numbers."""
    found: list[Comparison] = []
    spectra, strengths = uniform(1, 4, 3).sort(descending=True).values, tensor([0.3, 0.5])
    alone = torch.stack([induced_spectrum(one, strengths) for one in spectra])
    told = torch.func.vmap(lambda one: induced_spectrum(one, strengths))(spectra)
    found.append(compare(told, "==", scale * alone, "induced penalties, hidden"))
    found.append(compare(told, "==", scale * tensor([_divided(one, strengths) for one in spectra]), "divided", 1e-7))
    rates = tensor([0.2, 0.9, 0.4])
    solved = [_majorized(one.numpy(), rates.numpy()) for one in spectra]
    for part in (0, 1):
        best = np.stack([one[part] for one in solved])
        pooled = torch.stack([shrink_unequal(one, rates)[part] for one in spectra])
        mine = torch.func.vmap(lambda one, part=part: shrink_unequal(one, rates)[part])(spectra)
        found.append(compare(mine, "==", scale * pooled, f"unequal rates, hidden, {part}"))
        found.append(compare(mine, "==", scale * best, f"unequal rates by a solver, {part}", 1e-5))
    blocks = action(Block(0.4, 8, 2))
    values = torch.stack([blocks.value(one) for one in spectra])
    # the squared 2-support norm: both of the largest value and the rest, or all values, are alike in a pair of blocks
    first, rest = spectra[:, 0], spectra[:, 1:].sum(1)
    pairs = torch.where(first > rest, first.square() + rest.square(), (first + rest).square() / 2)
    found.append(compare(torch.func.vmap(blocks.value)(spectra), "==", scale * values, "blocks, hidden"))
    found.append(compare(values, "==", scale * 2 / 3 / 4 * pairs, "two values in each of four blocks"))
    found.append(compare(blocks.envelope(spectra), "==", scale * 2 / 3 / 4 * pairs, "their envelope"))
    net, data, law = TwoLayerLinear(normal(1, 2, 3), normal(2, 4, 3)), _sample(), Bernoulli(0.3, 3)

    def drawn(U: Tensor) -> Tensor:
        return penalty(TwoLayerLinear(U, net.V), data, law, MonteCarlo(samples=50)).value

    many = torch.stack([net.U, 2 * net.U])
    found.append(
        compare(torch.func.vmap(drawn)(many), "==", scale * torch.stack([drawn(U) for U in many]), "draws, hidden")
    )
    empty = torch.zeros(3, 0).double()
    found.append(same((shrink(empty, 0.3, 2).shape, shrink(empty, 0.3, 2).dtype), (empty.shape, empty.dtype), ""))
    tilted = torch.diag(tensor([1.0, 1e-12, 1e-24])) @ _positive(3) @ torch.diag(tensor([1.0, 1e-12, 1e-24]))
    eigen, vectors = psd_eigen(tilted)
    # of a graded matrix the product of the values is the determinant, to all digits
    whole = torch.linalg.det(_positive(3)) * 1e-72
    found.append(compare(eigen.log().sum(), "==", scale * whole.log(), "values of every size"))
    found.append(compare(vectors.mT @ vectors, "==", scale * torch.eye(3), "their directions"))
    gram = normal(6, 5, 3).mT @ normal(6, 5, 3)
    eigen, vectors = psd_eigen((gram + gram.mT) / 2)
    found.append(compare((vectors * eigen) @ vectors.mT, "==", scale * gram, "values and directions together"))
    return found


def _divided(values: Tensor, strengths: Tensor) -> float:
    """The least sum_i s_i^2 (prod_l (1 + a_l / x_li) - 1) over shares x_l that sum to one, by a search."""

    def cost(logits: Tensor) -> Tensor:
        return (values.square() * ((1 + strengths[:, None] / logits.softmax(1)).prod(0) - 1)).sum()

    return instances.descend(cost, [(len(strengths), len(values))], starts=2)[0]


def _majorized(values: Array, strengths: Array) -> tuple[Array, Array]:
    """The least sum (values - x)^2 + sum strengths n^2 over falling x >= 0 that majorize n, by a solver."""
    size = len(values)
    sets = [list(one) for k in range(1, size) for one in itertools.combinations(range(size), k)]
    limits = [
        {"type": "eq", "fun": lambda p: p[:size].sum() - p[size:].sum()},
        {"type": "ineq", "fun": lambda p: np.array([p[: len(one)].sum() - p[size:][one].sum() for one in sets])},
        {"type": "ineq", "fun": lambda p: np.append(-np.diff(p[:size]), p[size - 1])},
    ]
    told = minimize(
        lambda p: ((values - p[:size]) ** 2).sum() + (strengths * p[size:] ** 2).sum(),
        np.concatenate([values, values]),
        constraints=limits,
        options={"ftol": 1e-15, "maxiter": 500},
    )
    return told.x[:size], told.x[size:]


def _sample() -> Sample:
    return Sample(normal(3, 9, 4), normal(4, 9, 2), simplex(5, 9))


def _positive(size: int) -> Tensor:
    half = normal(6, size, size)
    return half @ half.mT + torch.eye(size)


def _left(scale: float) -> list[Comparison]:
    """Left-out errors where some examples hold much of a block and others little; proved ranks of repeated rows."""
    found: list[Comparison] = []
    for seed, block in ((1, 1), (2, 2), (3, 4)):
        rows, Y = normal(seed, 12, 4), normal(seed + 9, 12, 2).numpy()
        rows[0] *= 6.0
        rows[1, :2] *= 9.0
        rows[2] *= 2.0
        X = rows.numpy()
        told = DropoutRidgeCV([0.3, 0.7], block=block).fit(X, Y)
        for rate, error in zip((0.3, 0.7), told.loo_errors_, strict=True):
            errors = []
            for left in range(12):
                kept = [k for k in range(12) if k != left]
                single = DropoutRidge(rate, block=block).fit(X[kept], Y[kept])
                errors.append(np.square(Y[left] - single.predict(X[left : left + 1])[0]).mean())
            found.append(compare(error, "==", scale * np.mean(errors), f"left out at {rate}, blocks of {block}"))
    two = normal(4, 2, 5)
    many = torch.cat([two, 2 * two, -two, 0.5 * two] * 8)
    found.append(same(proved_rank(many), 2, "rows that repeat two", scale))
    found.append(same(proved_rank(many, enough=5), 5, "enough is known", scale))
    weights = torch.ones(len(many)).double()
    weights[1::2] = 0.0
    found.append(same(proved_rank(many, weights), 1, "half of them without weight", scale))
    found.append(same(proved_rank(torch.zeros(4, 3).double()), 0, "nothing", scale))
    return found


def _points(scale: float) -> list[Comparison]:
    """Margins of many points, silent deep networks, certificates of optima and of what lies above."""
    found: list[Comparison] = []
    angle = torch.linspace(0.3, 1.2, 400).double()
    signs = torch.where(torch.arange(400) % 2 > 0, 1.0, -1.0).double()
    circle = torch.stack([angle.cos(), angle.sin()], 1)
    told = linear_margin(Sample(signs[:, None] * circle, signs))
    found.append(compare(told, "==", scale * math.cos(0.45), "an arc of many points", 1e-6))
    far = torch.stack([torch.linspace(1.0, 3.0, 300).double(), 0.2 * normal(1, 300)], 1)
    far = torch.cat([far, tensor([[0.5, 40.0], [0.5, -40.0]])])
    told = linear_margin(Sample(far, torch.ones(302).double()))
    turn = torch.linspace(-math.pi, math.pi, 200_001).double()
    unit = far / far.norm(dim=1, keepdim=True)
    best = (unit @ torch.stack([turn.cos(), turn.sin()])).amin(0).max()
    found.append(compare(told, "==", scale * best, "two points that matter", 1e-4))
    silent = Moments(torch.zeros(3, 3).double(), torch.zeros(2, 3).double(), torch.eye(2).double())
    deep = DeepLinear([normal(2, 2, 3), normal(3, 2, 2), normal(4, 2, 2)])
    coins: MaskLaw = Product([Bernoulli(0.3, 2), Bernoulli(0.5, 2)])
    found.append(compare(1 + induced(deep, silent, coins).value, "==", scale, "inputs without energy"))
    data, law = _sample(), Bernoulli(0.3, 3)
    best_model = optimum(TwoLayerLinear, data, law)
    certificate = certify(best_model.model, data, law)
    least = _least(data.inputs, data.targets, simplex(5, 9))
    found.append(compare(best_model.objective, "==", scale * least, "least by every rank", 1e-8))
    found.append(compare(certificate.objective, "==", scale * least, "a certificate"))
    found.append(compare(certificate.bound, "==", scale * least, "its bound", 1e-8))
    found.append(same(certificate.certified, True, "certified"))
    assert isinstance(best_model.model, TwoLayerLinear)
    worse = TwoLayerLinear(best_model.model.U, 1.1 * best_model.model.V)
    above = certify(worse, data, law)
    hidden = data.inputs @ worse.V
    plain = simplex(5, 9) @ (data.targets - hidden @ worse.U.mT).square().sum(1)
    own = float(plain + 3 / 7 * (worse.U.square().sum(0) * (simplex(5, 9) @ hidden.square())).sum())
    found.append(compare(above.gap, "==", scale * (own - least), "how far above", 1e-7))
    found.append(same(above.certified, False, "not certified"))
    return found
