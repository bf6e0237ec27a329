"""What a claim on options off their defaults compares: seeds, tolerances, levels, rates, blocks of work, precisions."""

from __future__ import annotations

import itertools
import math
from typing import Any
from unittest import mock

import scipy
import torch
from torch import Tensor, nn

from droptics.coadaptation import accuracy_by_width, evaluate, export, retentivity, smallest, subnetworks
from droptics.coadaptation.retention import Retentivity
from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.heads.projection import variable_projection
from droptics.heads.ridge import DropoutRidge
from droptics.landscapes import critical_points, hessian_action, inspect, portrait, spurious_minimum
from droptics.linalg import hadamard_equalizer
from droptics.masks import Bernoulli, Block, Discrete
from droptics.models import Autoencoder, LastLayer, ReLUNet, TwoLayerLinear
from droptics.optima import optimal_factors, optimum
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, simplex, tensor, uniform
from droptics.penalties import criterion


def options_in_full(scale: float) -> list[Comparison]:
    """Searches, pictures, portraits and laws with every option off its default."""
    return by_parts((_smallest, _blocks, _exported, _worst, _points, _projected, _refused), scale)


def _network() -> tuple[ReLUNet, Sample]:
    net = ReLUNet([normal(1, 6, 3), normal(2, 3, 6)], [0.3 * normal(3, 6), 0.3 * normal(4, 3)])
    inputs = normal(5, 37, 3)
    noisy = net.outputs(inputs) + 0.5 * normal(6, 37, 3)
    return net, Sample(inputs, noisy.argmax(1))


def _smallest(scale: float) -> list[Comparison]:
    """The smallest sub-network among all prefixes of the orders that a seed draws, the first one on ties."""
    found: list[Comparison] = []
    known, data = _network()
    net = ReLUNet(known.weights, [known.biases[0], 1.5 * known.biases[1]])  # beside which the size of the rest matters
    hidden = torch.relu(data.inputs @ net.weights[0].mT + net.biases[0])
    psi = net.weights[1].square().sum(0).sqrt() * hidden.square().mean(0).sqrt()

    def accuracy(mask: Tensor) -> float:
        return float(((hidden * mask) @ net.weights[1].mT + net.biases[1]).argmax(1).eq(data.targets).double().mean())

    full = accuracy(torch.ones(6).double())
    widths = []
    for seed, draws, tolerance in ((0, 4, 0.15), (1, 12, 0.15), (3, 12, 0.15), (3, 0, 0.15), (3, 12, 0.3)):
        generator = torch.Generator().manual_seed(seed)
        orders = [psi.argsort(descending=True)] + [torch.randperm(6, generator=generator) for _ in range(draws)]
        best, factor, kept = 7, 1.0, torch.ones(6).bool()
        for order, width in itertools.product(orders, range(7)):
            mask = torch.zeros(6).double()
            mask[order[:width]] = float(psi.sum() / psi[order[:width]].sum()) if width else 1.0
            if width < best and accuracy(mask) >= full - tolerance:
                best, factor, kept = width, float(mask.max()) if width else 1.0, mask > 0
        told = smallest(net, data, tolerance, draws=draws, seed=seed)
        name = f"seed {seed}, {draws} orders, {tolerance}"
        found.append(same(told.kept.tolist(), kept.tolist(), f"units of the smallest, {name}", scale))
        wanted = [best, factor, accuracy(factor * kept.double()), full]
        mine = [told.width, told.scale, told.accuracy, told.full]
        found.append(compare(mine, "==", [scale * one for one in wanted], f"the smallest, {name}"))
        widths.append(told.width)
    found.append(same(len(set(widths)) > 1, True, "seeds, orders and tolerances matter", scale))
    return found


def _blocks(scale: float) -> list[Comparison]:
    """Sub-networks some at a time, examples some at a time; levels of quantiles."""
    found: list[Comparison] = []
    net, data = _network()
    kept = torch.tensor(list(itertools.product((True, False), repeat=6)))
    whole, curve = evaluate(net, data, kept, scale=1.3), accuracy_by_width(net, data)
    hidden = torch.relu(data.inputs @ net.weights[0].mT + net.biases[0])
    each = (1.3 * hidden * kept[:, None].double()) @ net.weights[1].mT + net.biases[1]
    right = (each.argmax(-1) == data.targets).double().mean(1)
    for room in (3 * 37 * 5, 3 * 6 * 4, 1):
        with mock.patch.object(subnetworks, "_CHUNK", room):
            told = evaluate(net, data, kept, scale=1.3)
            found.append(compare(told.accuracies, "==", scale * right, f"in blocks of {room}"))
            found.append(compare(told.full, "==", scale * whole.full, f"the whole, in blocks of {room}"))
            found.append(compare(accuracy_by_width(net, data), "==", scale * curve, f"widths, in blocks of {room}"))
    levels = (0.1, 0.25, 0.7)
    found.append(compare(whole.quantiles(levels), "==", scale * torch.quantile(right, tensor(levels)), "quantiles"))
    return found


def _exported(scale: float) -> list[Comparison]:
    """Smaller modules without biases and with a named layer; what mixes units or does not fit is refused."""
    found: list[Comparison] = []
    data, kept = Sample(normal(1, 20, 3), torch.zeros(20, 2).double()), torch.tensor([True, False, True, True])
    first, last_layer = nn.Linear(3, 4, bias=False).double(), nn.Linear(4, 2, bias=False).double()
    with torch.no_grad():
        first.weight.copy_(normal(2, 4, 3))
        last_layer.weight.copy_(normal(3, 2, 4))
        wanted = (1.4 * kept.double() * torch.tanh(data.inputs @ first.weight.mT)) @ last_layer.weight.mT
    module = nn.Sequential(first, nn.Tanh(), last_layer)
    for name in (None, "0"):
        told: Any = export(LastLayer.of(module), data, kept, scale=1.4, previous=name)
        found.append(compare(told(data.inputs), "==", scale * wanted, f"without biases, {name}"))
        found.append(same([told[0].out_features, told[2].in_features], [3, 3], "their sizes", scale))
    mixing = nn.Sequential(linear_head(4, 3, 4), nn.Softmax(-1), linear_head(5, 4, 2))
    found.append(refuses(lambda: export(LastLayer.of(mixing), data, kept), "mixes units"))
    with torch.no_grad():
        blind: Any = mixing[2]
        blind.weight[0] = 0.0  # an output that does not see what is mixed
    found.append(refuses(lambda: export(LastLayer.of(mixing), data, kept), "mixes units", "one output of two"))
    twice = nn.Sequential(linear_head(4, 3, 4), nn.Tanh(), linear_head(5, 4, 4), nn.Tanh(), linear_head(6, 4, 2))
    told, whole = export(LastLayer.of(twice), data, kept), twice[:4](data.inputs).detach()
    head: Any = twice[4]
    found.append(compare(told(data.inputs), "==", scale * head(whole * kept.double()), "the nearer of two layers"))
    alone = nn.Sequential(linear_head(4, 3, 5), nn.Unflatten(1, (1, 5)), nn.AvgPool1d(2), nn.Flatten())
    last = LastLayer.of(nn.Sequential(*alone, linear_head(6, 2, 2)))
    found.append(refuses(lambda: export(last, data, kept[:2]), "no linear layer with 2 outputs"))
    found.append(refuses(lambda: export(last, data, kept[:2], previous="0"), "does not run", "another layer"))
    chain = nn.Sequential(linear_head(4, 3, 4), linear_head(5, 4, 4), nn.ReLU(), linear_head(6, 4, 2))
    found.append(refuses(lambda: export(LastLayer.of(chain), data, kept, previous="0"), "does not run", "too early"))
    return found


def _worst(scale: float) -> list[Comparison]:
    """Half-spaces by few steps and few starts, and what the number of examples says of them."""
    found: list[Comparison] = []
    points, weights = normal(3, 40, 4) + 0.3 * uniform(2, 4), simplex(4, 40)
    data = Sample(points, torch.zeros(40).double(), weights)
    best = retentivity(data, starts=60, seed=1)
    for iterations, starts, seed in ((1, 1, 0), (2, 1, 5), (40, 30, 5)):
        told = retentivity(data, starts=starts, seed=seed, iterations=iterations)
        products = points @ told.direction
        own = (weights @ torch.relu(products).square()) / (weights @ products.square())
        found.append(compare(told.value, "==", scale * own, f"attained, {iterations} steps of {starts}"))
        found.append(compare(told.value, ">=", best.value, f"no better, {iterations} steps of {starts}", 1e-9))
        if iterations < 40:
            found.append(compare(told.value, ">", 1.0001 * best.value, f"not at the end after {iterations}"))
        else:
            found.append(compare(told.value, "==", scale * best.value, "other starts, the same end", 1e-9))
    for examples, rank, words in (
        (7, 4, "7 examples span 4 dimensions: below two examples per dimension almost any data lie in a half-space"),
        (0, 0, "0 examples span 0 dimensions"),
        (8, 4, "with 2 examples per dimension a Gaussian sample, whose population value is 1/2, reads about 0.00"),
        (400, 4, "biased down: with 100 examples per dimension"),
        (400, 4, "reads about 0.40"),
        (900, 4, "225 examples per dimension: the downward bias is below about 0.07"),
    ):
        note = Retentivity(0.1, tensor([1.0]), False, rank, examples).note
        found.append(same(words in note, True, f"{examples} examples of {rank}: {words[:30]}", scale))
    return found


def _points(scale: float) -> list[Comparison]:
    """Inspections with a wide tolerance, portraits of another seed, spurious minima at other rates, laws of samples."""
    found: list[Comparison] = []
    square, law = Moments.of_map(torch.diag(tensor([2.0, 1.0]))), Bernoulli(0.3, 3)
    tied = Autoencoder(normal(2, 2, 3))

    def value(flat: Tensor) -> Tensor:
        U = flat.reshape(2, 3)
        penalty = 3 / 7 * U.square().sum(0).square().sum()
        return (square.yx - U @ U.mT).square().sum() + penalty

    eigen = torch.linalg.eigvalsh(torch.autograd.functional.hessian(value, tied.U.flatten()))
    for tolerance in (1e-6, 0.1, 0.2):
        level = tolerance * float(eigen.abs().max())
        inertia = (int((eigen < -level).sum()), int((eigen.abs() <= level).sum()), int((eigen > level).sum()))
        told = inspect(tied, square, law, tolerance)
        found.append(same((told.inertia, told.kind), (inertia, "not critical"), f"inertia at {tolerance}", scale))
    found.append(same(inspect(tied, square, law, 100.0).kind, "global minimum", "everything is tolerated", scale))
    # a map that leaves a direction open leaves zero flat along it, and no symmetry says so
    for least, kind, inertia in ((1.0, "local maximum", (6, 0, 0)), (0.0, "strict saddle", (3, 3, 0))):
        flat = Moments.of_map(torch.diag(tensor([2.0, least])))
        seen = inspect(Autoencoder(0 * tied.U), flat, law)
        found.append(same((seen.kind, seen.inertia), (kind, inertia), f"zero before a map of {least}", scale))
    known, rates = Moments(tensor([[1.5]]), tensor([[1.2]]), tensor([[2.0]])), tensor([0.2, 0.5])
    starts = tensor([[0.5, -0.3], [0.9, 0.4], [-0.7, 1.1]])
    for seed in (0, 4):
        drawn = portrait(known, Bernoulli(rates, 2), starts, resolution=2, steps=5, step_size=0.07, seed=seed)
        generator = torch.Generator().manual_seed(seed)
        u = starts
        for step in range(5):
            z = (torch.rand(3, 2, dtype=torch.float64, generator=generator) >= rates).double() / (1 - rates)
            error = 1.5 * (z * u.square()).sum(1, keepdim=True) - 1.2
            u = u - 0.07 / 2 * (1 - rates) * (4 * error * z * u)
            found.append(compare(drawn.trajectories[:, step + 1], "==", scale * u, f"step {step} of seed {seed}"))
    for drop in (0.1, 0.25, 0.5):
        strength = drop / (1 - drop)
        model, population, masks = spurious_minimum(drop)
        whole = torch.diag(tensor([1 / (1 + strength / 2) ** 2, 0.0]))
        found.append(compare(1 + model.matrix(), "==", scale * (1 + whole), f"its map at {drop}"))
        least = 2 - 1 / (1 + strength / 2) ** 2
        found.append(compare(criterion(model, population, masks).value, "==", scale * least, f"its value at {drop}"))
        found.append(compare(masks.relative_variance, "==", scale * strength, f"its rate at {drop}"))
        found.append(same(inspect(model, population, masks).kind, "local minimum", f"its kind at {drop}", scale))
    drawn_law = Discrete.from_samples(
        lambda count, generator: torch.rand(count, 2, generator=generator).round() + 1,
        32,
        torch.Generator().manual_seed(7),
    )
    rows = torch.rand(32, 2, generator=torch.Generator().manual_seed(7)).round() + 1
    found.append(compare(drawn_law.mean, "==", scale * rows.double().mean(0), "a law of drawn masks"))
    for dtype, size in ((torch.float32, 8), (torch.float64, 4), (torch.float32, 1)):
        turn = hadamard_equalizer(size, dtype)
        found.append(same(turn.dtype, dtype, f"precision {dtype}", scale))
        found.append(compare(turn @ turn.mT, "==", scale * torch.eye(size).to(dtype), f"orthogonal, {size}", 1e-6))
        found.append(compare(turn.abs(), "==", scale / math.sqrt(size), f"entries, {size}", 1e-6))
    for size in (3, 6, 12, 24):
        found.append(refuses(lambda size=size: hadamard_equalizer(size), "must be a power of two", f"size {size}"))
    return found


def _projected(scale: float) -> list[Comparison]:
    """Searches over hidden layers with another memory or tolerance are those of the same solver on the definition."""
    found: list[Comparison] = []
    data, start = Sample(normal(4, 12, 3), normal(5, 12, 2), 0.2 + normal(6, 12).abs()), normal(7, 3, 3)
    assert data.weights is not None
    shares = data.weights / data.weights.sum()

    def value(hidden: Tensor) -> Tensor:
        a = torch.relu(data.inputs @ hidden.mT)
        G = (a * shares[:, None]).mT @ a
        K = G + 0.25 / 0.75 * torch.diag(G.diagonal())
        right = (a * shares[:, None]).mT @ data.targets
        return (shares[:, None] * data.targets.square()).sum() - (right * torch.linalg.solve(K, right)).sum()

    def both(flat: Any) -> tuple[float, Any]:
        hidden = torch.from_numpy(flat.copy()).reshape(3, 3).requires_grad_()
        reached = value(hidden)
        (slope,) = torch.autograd.grad(reached, hidden)
        return float(reached.detach()), slope.flatten().numpy()

    ends = []
    for iterations, tolerance, memory in ((6, 1e-8, 20), (6, 1e-8, 1), (50, 1e-3, 20), (50, 0.05, 20)):
        told = variable_projection(
            data, Bernoulli(0.25, 3), start, iterations=iterations, tolerance=tolerance, memory=memory
        )
        limits = {"maxiter": iterations, "maxcor": memory, "ftol": tolerance, "gtol": 0.0}
        wanted = scipy.optimize.minimize(both, start.flatten().numpy(), jac=True, method="L-BFGS-B", options=limits)
        name = f"{iterations} iterations, {tolerance}, {memory} kept"
        found.append(compare(told.objective, "==", scale * wanted.fun, f"its end, {name}", 1e-6))
        found.append(same(len(told.history), wanted.nit + 1, f"its iterations, {name}", scale))
        found.append(same(told.converged, wanted.status == 0, f"how it ended, {name}", scale))
        ends.append((len(told.history), round(told.objective, 6)))
    found.append(same(len(set(ends)), 4, "all of them differ", scale))
    for seed in (0, 3):
        drawn = torch.randn(3, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        begun = variable_projection(data, Bernoulli(0.25, 3), iterations=1, seed=seed).history[0][1]
        found.append(compare(begun, "==", scale * value(drawn * (2 / 3) ** 0.5), f"where it begins, seed {seed}"))
    return found


def _refused(scale: float) -> list[Comparison]:
    """Lists that are as long as allowed, and one longer; directions, networks, laws and blocks that do not fit."""
    found: list[Comparison] = []
    square, law = Moments.of_map(torch.diag(tensor([2.0, 1.0]))), Bernoulli(0.3, 2)
    points = critical_points(Autoencoder, square, law)
    count = len(points)
    found.append(same(len(critical_points(Autoencoder, square, law, count)), count, "as many as allowed", scale))
    found.append(refuses(lambda: critical_points(Autoencoder, square, law, count - 1), "limit must be raised"))
    for shape in ((2, 3), (3, 2)):
        oblong = Moments.of_map(normal(1, *shape))
        found.append(refuses(lambda data=oblong: optimum(Autoencoder, data, law), "as many outputs as inputs"))
    tied = points[0].model
    for shape in ((2, 1), (1, 2), (3, 2)):
        way = [torch.ones(shape, dtype=torch.float64)]
        found.append(refuses(lambda way=way: hessian_action(tied, square, law, way), "shapes of model.tensors"))
    found.append(refuses(lambda: hessian_action(tied, square, law, [tied.U, tied.U]), "one part per tensor"))
    for other in (Bernoulli(tensor([0.1, 0.4]), 2), Block(0.3, 2, 2)):
        best = optimum(TwoLayerLinear, square, other)
        found.append(refuses(lambda best=best: optimal_factors(best), "independent units with one rate"))
    X, Y = normal(2, 9, 5).numpy(), normal(3, 9).numpy()
    for block in (2, 3, 4, 6):
        found.append(refuses(lambda block=block: DropoutRidge(0.3, block=block).fit(X, Y), "block must divide"))
    return found
