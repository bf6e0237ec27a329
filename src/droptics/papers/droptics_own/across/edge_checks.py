"""What the claims on edges compare: branches that ordinary instances pass by."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from droptics.attacks import Square, Threat, attack
from droptics.audits import audit
from droptics.coadaptation import draw
from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.heads.projection import variable_projection
from droptics.landscapes import escape
from droptics.layers import DropBlock
from droptics.linalg import equalize_columns_
from droptics.losses import Logistic
from droptics.masks import Bernoulli
from droptics.models import LastLayer, TwoLayerLinear
from droptics.models.replaying import own_cost
from droptics.norms import path_norm
from droptics.optima import certify, optimum_of_map
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin, mean_over, squared, stack
from droptics.papers.droptics_own.recommenders.ranker_checks import _rated
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import moments, normal, sample, tensor
from droptics.penalties import Certified, penalty
from droptics.recommenders import DropoutCompletion
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.partitioned import _apply_items as _applied
from droptics.recommenders.partitioned import _descended, _descent, _direction, _gram, _solve_users, _start_items
from droptics.recommenders.ratings import observations
from droptics.recommenders.sgd import objective
from droptics.training import Inverse, Plain, Recording, train
from droptics.training.settings import EngineName


def interrupted_runs(scale: float) -> list[Comparison]:
    """Schedules, records and kept iterates where a run stops for records on its way.

    A run also stops where it keeps an iterate, so some stops are for a record alone, with several steps before them.
    """
    found: list[Comparison] = []
    data = Sample(normal(1, 1, 3), normal(2, 1, 2))
    start = TwoLayerLinear(normal(3, 2, 4), normal(4, 3, 4))
    engines: tuple[EngineName, ...] = ("kernel", "products", "torch")
    stops: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (((7, 9), (0, 3, 5)), ((0, 4, 6), (0, 6, 8)))
    for engine, (kept, records) in itertools.product(engines, stops):
        run = train(
            start,
            data,
            Plain(),
            steps=9,
            step_size=0.02,
            batch_size=1,
            schedule=Inverse(2.0),
            keep=kept,
            engine=engine,
            record=Recording(("risk",), at=records),
        )
        label = f"kept {kept}, {engine}"
        found.append(same([iterate.step for iterate in run.iterates], list(kept), label, scale))
        told, models = run.history["step"].tolist(), {iterate.step: iterate.model for iterate in run.iterates}
        found.append(same(told, sorted({*records, 9}), f"recorded {records}, {engine}", scale))
        U, V = start.U, start.V
        for step in range(10):
            error = data.inputs @ V @ U.mT - data.targets
            if step in told:
                risk = run.history["risk"][told.index(step)]
                found.append(compare(risk, "==", scale * error.square().sum(), f"risk at {step}, {label}"))
            if step in models:
                model = models[step]
                assert isinstance(model, TwoLayerLinear)
                found.append(compare(model.U, "==", U, f"U at {step}, {label}"))
                found.append(compare(model.V, "==", V, f"V at {step}, {label}"))
            size = scale * 0.02 / (1 + step / 2)
            U, V = U - 2 * size * error.mT @ (data.inputs @ V), V - 2 * size * data.inputs.mT @ (error @ U)
    return found


def far_corners(scale: float) -> list[Comparison]:
    """Squares that reach pixels, the better way along a direction, tall maps, columns in place, counts of work."""
    found: list[Comparison] = []
    images = normal(1, 12, 1, 3, 3)
    for pixel in (0, 4):  # as published, small squares leave out the last row and column
        weight = torch.zeros(2, 9, dtype=torch.float64)
        weight[0, pixel], weight[1, pixel] = 1.0, -1.0
        data = Sample(images, torch.zeros(12, dtype=torch.long))
        margin = 2 * images.flatten(1)[:, pixel]

        def scores(points: Tensor, weight: Tensor = weight) -> Tensor:
            return points.flatten(1) @ weight.mT

        told = attack(scores, data, Threat("linf", 0.4), Square(queries=150))
        found.append(compare(told.success.double(), "==", (margin < scale * 0.8).double(), f"pixel {pixel}"))
    found += _last_pixels(scale)
    found += _both_ways(scale)
    left, right = (torch.linalg.qr(normal(seed, size, 6)).Q for seed, size in ((4, 430), (5, 410)))
    values, lam = tensor([5.0, 4, 3, 2, 1, 0.5]), 0.4 / 0.6 / 3
    least = min(
        float(values[r:].square().sum() + lam * values[:r].sum() ** 2 / (1 + lam * r))
        for r in range(1, 4)
        if values[r - 1] > lam * values[:r].sum() / (1 + lam * r)
    )
    maps = {"tall": (left * values) @ right.mT, "flat": (right * values) @ left.mT}
    few = [torch.linalg.qr(normal(seed, size, 6)).Q for seed, size in ((6, 9), (7, 6))]
    maps |= {"small tall": (few[0] * values) @ few[1].mT, "small flat": (few[1] * values) @ few[0].mT}
    for name, tall in maps.items():
        best = optimum_of_map(tall, Bernoulli(0.4, 3))
        assert isinstance(best.model, TwoLayerLinear)
        energy = best.model.U.square().sum(0) @ best.model.V.square().sum(0)
        value = (best.model.matrix() - tall).square().sum() + scale * 0.4 / 0.6 * energy
        found.append(compare(best.objective, "==", value, f"criterion of a {name} map", precision=1e-8))
        found.append(compare(best.objective, "==", scale * least, f"the least of a {name} map", precision=1e-8))
    stores = ("by rows", normal(6, 5, 4)), ("by columns", normal(6, 4, 5).mT)
    for (stored, factor), unit in itertools.product(stores, (1.0, 2.0**300, 2.0**-300, 2.0**-600)):
        before, label = factor @ factor.mT, f"stored {stored}, in units of {unit:.3g}"
        even = equalize_columns_(unit * factor) / unit
        found.append(compare(even.square().sum(0), "==", scale * before.trace() / 4, f"columns in place, {label}"))
        found.append(compare(even @ even.mT, "==", before, f"the same product, {label}"))
    found.append(compare(own_cost(nn.Linear(3, 4), torch.zeros(10, 4)), "==", scale * 120, "products of a layer"))
    found.append(compare(own_cost(nn.Conv1d(2, 4, 3), torch.zeros(5, 4, 7)), "==", scale * 24 * 35, "of a convolution"))
    return found


def _both_ways(scale: float) -> list[Comparison]:
    """The best of 26 halved steps to both sides of the direction, and the model there: written out for U V^T."""
    lam, law = 0.3 / 0.7, Bernoulli(0.3, 2)

    def value(map_: Tensor, U: Tensor, V: Tensor) -> Tensor:
        return (U @ V.mT - map_).square().sum() + lam * (U.square().sum(0) * V.square().sum(0)).sum()

    found: list[Comparison] = []
    for seed in range(2, 6):
        unit = 0.1 ** (seed % 3)  # a small map asks for a short step
        map_, near = unit**2 * tensor([[2.0, 0.5], [0.0, 1.0]]), 0.1 * unit
        model = TwoLayerLinear(near * normal(seed, 2, 2), near * normal(seed + 1, 2, 2))
        way = escape(model, Moments.of_map(map_), law)
        size = 1 + math.sqrt(sum(float(part.square().sum()) for part in model.tensors))
        steps = [sign * size * 0.5**k for sign in (1.0, -1.0) for k in range(26)]
        pairs = list(zip(model.tensors, way.direction, strict=True))
        least = min(float(value(map_, *(part + step * own for part, own in pairs))) for step in steps)
        told, there = way.objective / unit**4, value(map_, *way.model.tensors) / unit**4
        found.append(compare(told, "==", least / unit**4 / scale, f"the better way from start {seed}"))
        found.append(compare(told, "==", there, f"the model there, start {seed}"))
    return found


def _last_pixels(scale: float) -> list[Comparison]:
    """Images that one pixel decides: all fall where small squares get; elsewhere none after the large ones.

    As high as broad, broader with two channels, and of one row or one column, which is not left out.
    """
    found: list[Comparison] = []
    for shape, pixels in (
        ((1, 3, 3), ((0, 2, 2),)),
        ((2, 3, 5), ((1, 1, 3), (0, 1, 4), (1, 2, 3))),
        ((1, 1, 6), ((0, 0, 4), (0, 0, 5))),
        ((1, 6, 1), ((0, 4, 0), (0, 5, 0))),
    ):
        data = Sample(torch.full((100, *shape), 0.2, dtype=torch.float64), torch.zeros(100, dtype=torch.long))
        for pixel in pixels:
            place = torch.zeros(shape, dtype=torch.float64)
            place[pixel] = 1.0

            def scores(points: Tensor, place: Tensor = place) -> Tensor:
                decisive = (points * place).flatten(1).sum(1)
                return torch.stack([decisive, -decisive], 1)

            def fallen(queries: int, of: Any = scores, data: Sample = data) -> Tensor:
                return attack(of, data, Threat("linf", 0.4), Square(queries=queries)).success.double().sum()

            late, label = fallen(150), f"pixel {pixel} of {shape}"
            if all(size == 1 or at < size - 1 for at, size in zip(pixel[1:], shape[1:], strict=True)):
                found.append(compare(late, "==", scale * 100, f"reached: {label}"))
            else:
                found.append(compare(late, "==", scale * fallen(40), f"left out: {label}"))
                found.append(compare(late, "<", 90.0, f"not all fall: {label}"))
    return found


def stacked_sites(scale: float) -> list[Comparison]:
    """Two sites on one layer, sub-networks of a head with offsets, large margins, and a projected top layer."""
    found: list[Comparison] = []
    first, last = linear_head(1, 2, 2), linear_head(3, 2, 2)
    module, data = nn.Sequential(nn.Dropout(0.2), nn.Dropout(0.3), first, last), sample(5, 9, 2, 2)
    report = audit(module, data, rates=())
    coins, chances = every_coin([0.2, 0.2, 0.3, 0.3])
    masks = (coins[:, :2] / 0.8 * coins[:, 2:] / 0.7)[:, None, :]
    loss = squared(data.targets)
    with torch.no_grad():
        whole = mean_over((last(first(data.inputs * masks)), chances), loss)
        clean = loss(last(first(data.inputs)))
    found.append(compare(report.training_loss.value, "==", clean + scale * (whole - clean), "two sites on one layer"))
    labels = torch.arange(40) % 3
    net, inputs = stack((3, 6, 3), (0.3,), nn.ReLU, seed=7), normal(8, 40, 3)
    told = audit(net, Sample(inputs, labels), rates=()).sites[0].subnetworks
    assert told is not None
    kept = draw(Bernoulli(0.3, 6), 50, torch.Generator().manual_seed(0))
    with torch.no_grad():
        hidden, top = net[:2](inputs), net[3]
        assert isinstance(top, nn.Linear)
        right = [
            float((top(hidden * mask / (1 - scale * 0.3)).argmax(1) == labels).double().mean())
            for mask in kept.double()
        ]
    found.append(compare(told.mean, "==", np.mean(right), "mean of sub-networks"))
    found.append(compare([told.low, told.high], "==", np.quantile(right, [0.05, 0.95]), "their spread"))
    head = linear_head(9, 4, 1)
    head.weight *= 400
    signs = torch.where(torch.arange(5) % 2 > 0, 1.0, -1.0).double()
    features = normal(11, 5, 4)
    coins, chances = every_coin([0.3] * 4)
    outputs = head(features * (coins / 0.7)[:, None, :])[..., 0]
    truth = chances @ nn.functional.softplus(-outputs * signs).mean(-1)
    truth = scale * (truth - nn.functional.softplus(-head(features)[:, 0] * signs).mean())
    bound = penalty(LastLayer.of(head), Sample(features, signs), Bernoulli(0.3, 4), Certified(), Logistic())
    found.append(compare(bound.lower, "<=", truth, "large margins, from below"))
    found.append(compare(bound.upper, ">=", truth, "large margins, from above"))
    # a single margin is integrated: what stays open is rounding, which grows with the margin
    found.append(compare(bound.upper, "==", bound.lower, "large margins, nothing between", precision=1e-7))
    full = penalty(LastLayer.of(head), Sample(features, signs), Bernoulli(0.3, 4), Certified(4), Logistic())
    found.append(compare(full.value, "==", truth, "large margins, written out", precision=1e-7))
    sampled, law = sample(12, 15, 3, 2), Bernoulli(0.3, 4)
    projected = variable_projection(sampled, law, normal(13, 4, 3), iterations=20)
    rows, top_weights = projected.model.weights
    active = torch.relu(sampled.inputs @ rows.mT)
    error = (active @ top_weights.mT - sampled.targets).square().sum(1).mean()
    added = 0.3 / 0.7 * (top_weights.square().sum(0) * active.square().mean(0)).sum()
    return [*found, compare(projected.objective, "==", error + scale * added, "a projected network")]


def rows_on_workers(scale: float) -> list[Comparison]:
    """What workers of a cluster compute of their block of users: rows, sums, Gram matrices, steps for the items."""
    rows, columns, values = _rated(3, 6, 5)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=6))]).astype(np.int64)
    block = starts, columns.astype(np.int32), values - values.mean()
    V = normal(4, 5, 3).numpy()
    diagonals = np.array([[0.2] * 3, [0.1, 0.3, 0.2], [0.05] * 3])
    solved, sums = _solve_users(block, (V, np.zeros(5), diagonals), None, 0)
    found: list[Comparison] = []
    for u in range(6):
        part = slice(starts[u], starts[u + 1])
        G, y = V[columns[part]], block[2][part]
        own = diagonals[0] * np.square(G).sum(0) + len(y) * diagonals[1] + diagonals[2]
        wanted = np.linalg.solve(G.T @ G + scale * np.diag(own), G.T @ y)
        found.append(compare(solved[u], "==", wanted, f"row of user {u}"))
    counts = np.diff(starts)
    found.append(compare(sums[0], "==", scale * np.square(solved).sum(0), "sums of squares"))
    found.append(compare(sums[1], "==", counts @ np.square(solved), "weighted by ratings"))
    table = np.zeros((6, 5))
    table[rows, columns] = block[2]
    array, diagonal = _gram(block, 5, np.float64)
    gram = table.T @ table
    lower = np.tril(array.T, -1) + np.triu(array.T, 1).T
    found.append(compare(diagonal, "==", scale * np.diagonal(gram), "diagonal of the Gram matrix"))
    found.append(compare(lower, "==", np.tril(gram, -1), "the rest of it"))
    strengths = Strengths(3, 0.2, 0.0)
    passed = _start_items(block, (solved,), np.zeros((5, 3)), strengths)
    number = np.bincount(columns, minlength=5)
    state = _descent(passed, np.zeros((5, 3)), number, diagonals)
    for _ in range(12):
        direction = _direction(state)
        state = _descended(state, direction, _applied(block, (solved,), direction, strengths))
    for i in range(5):
        G, y = solved[rows[columns == i]], block[2][columns == i]
        own = diagonals[0] * np.square(G).sum(0) + len(y) * diagonals[1] + diagonals[2]
        wanted = np.linalg.solve(G.T @ G + scale * np.diag(own), G.T @ y)
        found.append(compare(state.x[i], "==", wanted, f"row of item {i}", precision=1e-6))
    large = 2.0**30
    fits = [
        DropoutCompletion(2, 0.3, seed=1, sweeps=4, dtype="float64").fit((rows, columns, given)).predict(rows, columns)
        for given in (values - values.mean(), large * (values - values.mean()))
    ]
    # biases have a ridge in the units of ratings: without one, units are all that differs
    free = [
        DropoutCompletion(2, 0.3, seed=1, sweeps=60, bias_ridge=0.0, tolerance=0.0, cg_steps=None, dtype="float64")
        .fit((rows, columns, given))
        .predict(rows, columns)
        for given in (values, large * values)
    ]
    assert np.isfinite(fits[1]).all()
    found.append(compare(free[1] / large, "==", scale * free[0], "very large ratings", precision=1e-3))
    data = observations((rows, columns, values), np.float64)
    left, right = normal(5, 6, 4).numpy(), normal(6, 5, 4).numpy()
    whole = Strengths(3, 0.4, 0.0, bias=2.0)
    told, error = objective(data, (left, right), whole)
    place = np.argsort(data.users.ids), np.argsort(data.items.ids)
    L, R = left[place[0]], right[place[1]]
    products = L[rows, :3] * R[columns, :3]
    residual = values - data.mean - products.sum(1) - L[rows, 3] - R[columns, 3]
    found.append(compare(error, "==", scale * residual @ residual, "squared error"))
    wanted_total = (
        residual @ residual
        + 0.4 * np.square(products).sum()
        + 2.0 * (np.square(L[:, 3]).sum() + np.square(R[:, 3]).sum())
    )
    return [*found, compare(told, "==", wanted_total, "objective")]


def second_looks(scale: float) -> list[Comparison]:
    """Repeated ratings, what an attack says of clean inputs, norms of factors, narrow networks, blocks that are cut."""
    found: list[Comparison] = []
    rows, columns, values = _rated(7, 6, 5)
    twice = np.append(rows, rows[:3]), np.append(columns, columns[:3]), np.append(values, values[:3] + scale)
    once = values.copy()
    once[:3] += 0.5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fits = [
            DropoutCompletion(2, 0.3, seed=1, sweeps=3, dtype="float64").fit(given).predict(rows, columns)
            for given in (twice, (rows, columns, once))
        ]
    found.append(compare(fits[0], "==", fits[1], "repeated ratings", precision=1e-7))
    weights, offset = normal(1, 3, 4), normal(2, 3)
    data = Sample(normal(3, 30, 4), torch.arange(30) % 3)

    def model(points: Tensor) -> Tensor:
        return points @ weights.mT + offset

    told = attack(model, data, Threat("linf", 0.3), Square(queries=20))
    right = (model(data.inputs).argmax(1) == data.targets).double()
    wrong = (model(told.inputs).argmax(1) != data.targets).double()
    outputs = model(told.inputs)
    own = outputs.gather(1, data.targets[:, None]).squeeze(1)
    others = outputs.masked_fill(nn.functional.one_hot(data.targets, 3).bool(), -torch.inf).amax(1)
    found += [
        compare(told.clean_correct.double(), "==", right, "right before the attack"),
        compare(told.success.double(), "==", wrong, "wrong after it"),
        compare(told.margins, "==", scale * (own - others), "margins after it"),
        compare(told.clean_accuracy(), "==", right.mean(), "clean accuracy"),
        compare(told.robust_accuracy(), "==", 1 - wrong.mean(), "robust accuracy"),
        compare(told.radius, "==", (told.inputs - data.inputs).abs().amax(1), "distances"),
    ]
    two = TwoLayerLinear(normal(4, 2, 3), normal(5, 4, 3))
    paths = sum(two.U[o, k] ** 2 * two.V[i, k] ** 2 for o in range(2) for k in range(3) for i in range(4))
    found.append(compare(path_norm(two) ** 2, "==", scale * paths, "paths through factors"))
    population, law = moments(6, 3, 3), Bernoulli(0.3, 1)
    narrow = certify(TwoLayerLinear(normal(7, 3, 1), normal(8, 3, 1)), population, law)
    inverse = torch.linalg.inv(population.xx)
    target = population.yx @ torch.linalg.inv(torch.linalg.cholesky(population.xx)).mT
    spectrum = torch.linalg.svdvals(target)
    rest = (population.yy - population.yx @ inverse @ population.yx.mT).trace()
    lam = scale * 0.3 / 0.7
    bound = rest + spectrum[1:].square().sum() + spectrum[0] ** 2 * lam / (1 + lam)
    found.append(compare(narrow.bound, "==", bound, "a network of one unit", precision=1e-8))
    layer = DropBlock(0.3, 4, spatial=1, edges="centered")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        drawn = layer(torch.ones(20_000, 1, 3, dtype=torch.float64))
    # blocks longer than the map are cut to it: of three, centered, cover the places 2, 3 and 2 times
    kept = (1 - layer.seed_rate((3,))) ** tensor([2.0, 3.0, 2.0])
    found.append(compare(1 - kept.mean(), "==", scale * 0.3, "its rate", precision=1e-7))
    wanted_values = torch.where(drawn[:200, 0] == 0, 0.0, scale / kept)
    found.append(compare(drawn[:200, 0], "==", wanted_values, "its values", precision=1e-7))
    found.append(
        compare((drawn == 0).double().mean(), "==", scale * 0.3, "a block longer than the map", precision=0.017)
    )
    return [*found, compare(drawn.mean(0).flatten(), "==", 1.0, "its multipliers", precision=0.04)]
