"""What the claims on instruments compare: parts of the library that no paper speaks of, against their definitions."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import torch
from scipy.stats import binom
from torch import Tensor, nn

from droptics.attacks import (
    Apgd,
    Bim,
    Fab,
    Fgsm,
    LinearExact,
    Margin,
    Method,
    Pgd,
    Square,
    Threat,
    attack,
    proportion,
    robust_accuracy,
    smallest_margins,
)
from droptics.coadaptation import evaluate, evenness, subnetwork_outputs
from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes import inspect, portrait
from droptics.layers import ExplicitDropout
from droptics.linalg import psd_inverse_root, psd_root
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Discrete
from droptics.models import ReLUNet, TwoLayerLinear
from droptics.optima import optimum, optimum_of_map
from droptics.papers.droptics_own.audit_checks import every_coin
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import coin_masks, descend, moments, normal, sample, second_moment, tensor, uniform
from droptics.penalties import MonteCarlo, criterion, penalty, risk
from droptics.rates import two_level
from droptics.rates.designs import Effect, effects
from droptics.rates.splits import path
from droptics.recommenders import DropoutCompletion, hold_out_users, ranking
from droptics.training import DropoutRegressor


def subnetworks(scale: float) -> list[Comparison]:
    """Outputs and accuracies of sub-networks, kept units times 1.7, against networks without the other units."""
    labels = torch.arange(60) % 3
    data = Sample(normal(1, 60, 4), labels)
    kept = (uniform(2, 7, 5) < 0.6).double()
    net = ReLUNet([normal(3, 5, 4), normal(4, 3, 5)], [normal(5, 5), 2 * normal(6, 3)])
    plain = TwoLayerLinear(normal(7, 3, 5), normal(8, 4, 5))
    deep = ReLUNet(
        [normal(10, 6, 4), normal(11, 5, 6), normal(12, 3, 5)], [normal(13, 6), normal(14, 5), normal(15, 3)]
    )
    first = torch.relu(data.inputs @ deep.weights[0].mT + deep.biases[0])
    hidden = [torch.relu(data.inputs @ net.weights[0].mT + net.biases[0]), data.inputs @ plain.V]
    hidden.append(torch.relu(first @ deep.weights[1].mT + deep.biases[1]))
    tops = [(net.weights[1], net.biases[1]), (plain.U, torch.zeros(3, dtype=torch.float64))]
    tops.append((deep.weights[2], deep.biases[2]))
    found = []
    for model, features, (top, offset) in zip((net, plain, deep), hidden, tops, strict=True):
        outputs = torch.stack([features * mask * scale @ top.mT + offset for mask in kept])
        name = type(model).__name__
        found.append(
            compare(subnetwork_outputs(model, data.inputs, kept, scale=1.7), "==", outputs, f"outputs, {name}")
        )
        right = (outputs.argmax(-1) == labels).double().mean(-1)
        judged = evaluate(model, data, kept, scale=1.7)
        found.append(compare(judged.accuracies, "==", right, f"accuracies, {name}"))
        full = ((features @ top.mT + offset).argmax(-1) == labels).double().mean()
        found.append(compare(judged.full, "==", full, f"full network, {name}"))
    single, sides = (
        ReLUNet([net.weights[0], normal(4, 1, 5)], [net.biases[0], torch.zeros(1).double()]),
        torch.where(labels > 0, 1, -1),
    )
    outputs = torch.stack([hidden[0] * mask * scale @ single.weights[1].mT for mask in kept])[..., 0]
    for targets in (sides, (labels > 0).long(), sides.double()):
        judged = evaluate(single, Sample(data.inputs, targets), kept, scale=1.7)
        found.append(compare(judged.accuracies, "==", (outputs * sides > 0).double().mean(-1), "one output"))
    for flow in (tensor([3.0, 0.0, 4.0, 0.0]), uniform(9, 7), torch.ones(5).double()):
        wanted = flow.sum() / (len(flow) * flow.square().sum()).sqrt()
        found.append(compare(evenness(flow), "==", wanted, "evenness"))
    return found


def linear_robustness(radius: float) -> list[Comparison]:
    """Robust accuracy and margins of affine classifiers against all corners of the ball; the interval by its tails."""
    weights, offset = normal(1, 3, 4), normal(2, 3)
    data = Sample(normal(3, 50, 4), torch.arange(50) % 3)
    steps = tensor(list(itertools.product((-1.0, 1.0), repeat=4)))
    corners = data.inputs[:, None] + radius * steps
    scores = corners @ weights.mT + offset
    own = scores.gather(-1, data.targets[:, None, None].expand(-1, 16, 1))
    others = scores.masked_fill(torch.arange(3) == data.targets[:, None, None], -torch.inf)
    least = (own.squeeze(-1) - others.amax(-1)).amin(1)

    def model(inputs: Tensor) -> Tensor:
        return inputs @ weights.mT + offset

    threat = Threat("linf", 0.2)
    right = robust_accuracy(model, data, threat, [Fgsm(), LinearExact()], batch=16)
    count = int((least > 0).sum())
    low, high = (float(end) for end in (right.robust.lower, right.robust.upper))
    share, none, every = proportion(3, 11, 0.9), proportion(0, 11), proportion(11, 11)
    return [
        compare(smallest_margins(model, data.inputs, data.targets, threat), "==", least, "smallest margins"),
        compare(right.robust.value, "==", count / 50, "robust accuracy"),
        compare((right.found_by == 2).double().sum(), "==", count, "examples that no stage fooled"),
        compare(binom.sf(count - 1, 50, low), "==", 0.025, "tail at the lower end", precision=1e-7),
        compare(binom.cdf(count, 50, high), "==", 0.025, "tail at the upper end", precision=1e-7),
        compare(binom.cdf(3, 11, float(share.upper)), "==", 0.05, "tail at the upper end, 90 %", precision=1e-7),
        compare(binom.sf(2, 11, float(share.lower)), "==", 0.05, "tail at the lower end, 90 %", precision=1e-7),
        compare(binom.cdf(0, 11, float(none.upper)), "==", 0.025, "tail at the upper end, none", precision=1e-7),
        compare(binom.sf(10, 11, float(every.lower)), "==", 0.025, "tail at the lower end, all", precision=1e-7),
        compare([float(none.lower), float(every.upper)], "==", [0.0, 1.0], "ends of none and all"),
    ]


def designed_effects(factor: float) -> list[Comparison]:
    """Effects of an additive loss from a two-level design, their errors with noise of runs, and steps along them."""
    signs = two_level(4)
    slopes, level = normal(1, 4, 40), normal(2, 40)
    noise = 0.3 * normal(3, 8)
    losses = level + signs @ slopes + noise[:, None]
    # the fourth column is the product of three, those of two are left
    products = torch.stack([signs[:, i] * signs[:, j] for i, j in itertools.combinations(range(3), 2)])
    spare = (products @ noise / 8).square().median()
    found = []
    for i, effect in enumerate(effects(signs, losses)):
        own = slopes[i] + (signs[:, i] @ noise) / 8
        found.append(compare(effect.value, "==", factor * own.mean(), f"effect {i}"))
        found.append(compare(effect.error, "==", (own.var() / 40 + spare).sqrt(), f"error {i}"))
    for sites in (1, 3, 7, 9, 11):
        plan = two_level(sites)
        slopes = normal(sites, sites, 5)
        told = effects(plan, normal(2, 5) + plan @ slopes)
        found.append(compare(plan.square(), "==", 1.0, f"two levels, {sites} sites"))
        found.append(compare([one.value for one in told], "==", factor * slopes.mean(1), f"effects of {sites} sites"))
        # at most two columns are to spare: nothing is known of runs
        found.append(compare([one.error for one in told], "==", (slopes.var(1) / 5).sqrt(), f"errors of {sites} sites"))
    groups = {"a": Effect(0.4, 0.19), "b": Effect(-0.2, 0.095), "c": Effect(0.1, 0.053), "d": Effect(-0.5, 0.26)}
    moved = path(groups, {"one": "a", "two": "b", "three": "c", "four": "d"}, 0.3, [0.5, 1.0])
    odds = [[math.log(rate / (1 - rate)) - math.log(0.3 / 0.7) for rate in point.values()] for point in moved]
    found.append(compare(odds[1][0], "==", factor * -2 * odds[1][1], "log-odds move as the effects do"))
    found.append(compare(odds[1], "==", [2 * shift for shift in odds[0]], "and as the step"))
    found.append(compare(odds[1][0], "==", factor * -0.7, "down by the levels of the design where the loss rises"))
    return [*found, compare(odds[1][2:], "==", 0.0, "what is within two errors stays")]


def held_out(position: int) -> list[Comparison]:
    """Every rating of users held out stands in one part, none is without a known and a hidden one; metrics by hand."""
    pairs = [(user, item) for user in range(30) for item in range(1 + user % 5)]
    users, items = (np.array(column) for column in zip(*pairs, strict=True))
    rated = sorted((user, item, 7.0 * user + item) for user, item in pairs)
    found: list[Comparison] = []
    for seed, fold_in in itertools.product(range(3), (0.05, 0.5, 0.9)):
        parts = hold_out_users((users, items, 7.0 * users + items), share=0.4, fold_in=fold_in, seed=seed)
        held = set(parts.known.users.tolist())
        together = sorted(one for part in parts for one in zip(part.users, part.items, part.values, strict=True))
        name = f"seed {seed}, {fold_in} known"
        found += [
            compare(float(together == rated), "==", 1.0, f"every rating once, {name}"),
            compare(float(held == set(parts.hidden.users.tolist())), "==", 1.0, f"known and hidden ratings, {name}"),
            compare(float(bool(held & set(parts.train.users.tolist()))), "==", 0.0, f"training and held out, {name}"),
            compare(float(len(held)), "==", 12.0, f"users held out, {name}"),
        ]
    # one relevant item, of rank r: its gain beside that of rank one, which is 1
    lone = ranking(np.tile(-np.arange(12.0), (12, 1)), None, np.eye(12), at=[12]).users["ndcg@12"]
    wanted = [math.log2(position + 1) / math.log2(position + rank) for rank in range(1, 13)]
    found.append(compare(lone, "==", wanted, "the gain of every rank"))
    scores, relevant = np.array([[5.0, 4.0, 3.0, 2.0, 1.0]]), np.array([[0, 1, 0, 1, 1]])
    judged = ranking(scores, None, relevant, at=[2, 4])
    gains = [1 / math.log2(position + rank) for rank in range(1, 5)]
    return [
        *found,
        compare(judged.users["ndcg@2"], "==", gains[1] / (gains[0] + gains[1]), "ndcg@2"),
        compare(judged.users["ndcg@4"], "==", (gains[1] + gains[3]) / sum(gains[:3]), "ndcg@4"),
    ]


def standardized(scale: float) -> list[Comparison]:
    """Targets in other units give predictions in these units: networks and completed ratings."""
    found = []
    networks: tuple[tuple[tuple[int, ...], Any], ...] = (((4,), 0.5), ((3, 5), "estimate"))
    for seed, (hidden, noise) in enumerate(networks):
        data, new = sample(1 + seed, 24, 3, 1), normal(3 + seed, 7, 3).numpy()
        X, y = data.inputs.numpy(), data.targets.numpy()[:, 0]
        fits = [
            np.asarray(DropoutRegressor(hidden, 0.1, noise, epochs=3, seed=1 + seed).fit(X, targets).predict(new))
            for targets in (y, 8 * y + 5)
        ]
        found.append(compare(fits[1], "==", scale * fits[0] + 5, f"a network, {hidden}", precision=1e-6))
        found.append(compare(float(np.ptp(fits[0])), ">", 0.01, f"which is not constant, {hidden}"))
    users, items = np.divmod(np.flatnonzero(uniform(6, 9 * 7).numpy() < 0.6), 7)  # some of nine users' seven items
    values, pairs = normal(2, len(users)).numpy(), np.stack(np.divmod(np.arange(63), 7), 1)
    for penalty_of, biases in (("expected", True), ("empirical", True), (0.3, False)):
        filled = [
            DropoutCompletion(2, 0.3, penalty_of, biases=biases, dtype="float64", seed=1)
            .fit((users, items, given))
            .predict(pairs)
            for given in (values, 8 * values + 5)
        ]
        name = f"completed ratings, {penalty_of}, {biases}"
        found.append(compare(filled[1], "==", scale * filled[0] + 5, name, precision=1e-6))
    return found


def leading_values(power: float) -> list[Comparison]:
    """The optimum from a Krylov basis against that of all singular values."""
    left, right = (torch.linalg.qr(normal(seed, size, 40)).Q for seed, size in ((1, 500), (2, 450)))
    values = torch.linspace(3.0, 0.1, 40, dtype=torch.float64)
    found = []
    for width, drop in ((3, 0.5), (12, 0.2), (30, 0.7)):
        lam = drop / (1 - drop) / width
        # the rank with the least value, and the values cut there
        best, rank = min(
            (float(values[k:].square().sum() + lam * values[:k].sum() ** 2 / (1 + lam * k)), k)
            for k in range(1, width + 1)
            if values[k - 1] > lam * values[:k].sum() / (1 + lam * k)
        )
        kept = values[:rank] - lam * values[:rank].sum() / (1 + lam * rank)
        for tall in (True, False):
            turned = (left, right) if tall else (right, left)
            ours = optimum_of_map((turned[0] * values**power) @ turned[1].mT, Bernoulli(drop, width))
            name = f"width {width}, tall {tall}"
            found.append(compare(ours.objective, "==", best, name, precision=1e-8))
            found.append(compare(ours.bound, "<=", best, f"bound, {name}"))
            found.append(compare(ours.bound, ">=", best - 1e-8 * best, f"bound from below, {name}"))
            found.append(compare(ours.rank, "==", rank, f"rank, {name}"))
            # the network itself: its singular vectors, what is kept of the values, and units of one size
            U, V = ours.model.tensors
            map_ = (turned[0][:, :rank] * kept) @ turned[1][:, :rank].mT
            found.append(compare(U @ V.mT, "==", map_, f"map, {name}", precision=1e-5))
            sizes = U.square().sum(0).sqrt() * V.square().sum(0).sqrt()
            found.append(compare(sizes, "==", kept.sum() / width, f"units, {name}", precision=1e-6))
    return found


def drawn_landscape(shift: float) -> list[Comparison]:
    """Critical points of two tied units: gradients of the mean over all masks vanish, minima have the least value.

    Equal and unequal rates, units that fall together more often than alone, inputs of any size, a map below zero.
    """
    found = []
    together = [
        (tensor(kept), chance) for kept, chance in (((0, 0), 0.2), ((0, 1), 0.1), ((1, 0), 0.15), ((1, 1), 0.55))
    ]
    coupled = Discrete(torch.stack([kept for kept, _ in together]), tensor([chance for _, chance in together]))
    for name, law, outcomes, xx, yx, count in (
        ("equal", Bernoulli(0.3, 2), list(coin_masks([0.3] * 2)), 1.0, 1.5, 4),
        ("often dropped", Bernoulli(0.8, 2), list(coin_masks([0.8] * 2)), 0.6, 1.8, 4),
        ("unequal", Bernoulli(tensor([0.6, 0.2]), 2), list(coin_masks([0.6, 0.2])), 2.5, 1.0, 4),
        ("together", coupled, together, 1.7, 0.9, 4),
        ("negative", Bernoulli(tensor([0.6, 0.2]), 2), list(coin_masks([0.6, 0.2])), 1.5, -1.0, 1),
    ):
        drawn = portrait(Moments(tensor([[xx]]), tensor([[yx]]), tensor([[4.0]])), law, resolution=5, steps=1)
        kept = torch.stack([mask for mask, _ in outcomes])
        chances = tensor([chance for _, chance in outcomes])

        def mean_loss(
            weights: Tensor, kept: Tensor = kept, p: Tensor = chances, a: float = xx, b: float = yx
        ) -> Tensor:
            slopes = weights.square() @ (kept / (p @ kept)).mT
            return (4 - 2 * b * slopes + a * slopes.square()) @ p

        minima = drawn.points["global minimum"]
        for kind, points in drawn.points.items():
            for point in points:
                place = (shift * tensor(point)).requires_grad_()
                (slope,) = torch.autograd.grad(mean_loss(place), place)
                found.append(compare(slope, "==", 0.0, f"slope at a {kind}, {name}"))
        least, _ = descend(mean_loss, [(2,)], starts=1)
        found.append(compare(mean_loss(shift * tensor(minima)), "==", least, f"least value, {name}"))
        found.append(compare(len({*minima}), "==", count, f"minima, {name}"))
        axis = drawn.axis
        grid = torch.stack([axis.expand(5, 5), axis[:, None].expand(5, 5)], -1)
        found.append(compare(drawn.values, "==", mean_loss(grid), f"values of the grid, {name}"))
    return found


def root_slopes(order: float) -> list[Comparison]:
    """Derivatives of the root and the inverse root of a second moment against differences of roots by eigenvectors."""
    step, found = 1e-5, []
    equal = 2 * torch.eye(3, dtype=torch.float64)  # all values alike: no eigenvector is known
    for seed, matrix in (
        (2, second_moment(1, 4) + torch.eye(4)),
        (5, second_moment(4, 3) + 0.3 * torch.eye(3)),
        (8, equal),
    ):
        change, weight = normal(seed, *matrix.shape), normal(seed + 1, *matrix.shape)
        change = change + change.mT
        for name, root, power in (("root", psd_root, 0.5), ("inverse root", psd_inverse_root, -0.5)):
            ends = []
            for sign in (1, -1):
                values, vectors = np.linalg.eigh((matrix + sign * step * change).numpy())
                ends.append(torch.from_numpy(vectors * values**power @ vectors.T))
            apart = (ends[0] - ends[1]) / (order * step)
            size, label = float(apart.abs().max()), f"{name}, {len(matrix)}, {seed}"
            slope = torch.func.jvp(root, (matrix,), (change,))[1]
            found.append(compare(slope, "==", apart, label, precision=1e-7, scale=size))
            leaf = matrix.clone().requires_grad_()
            (back,) = torch.autograd.grad((root(leaf) * weight).sum(), leaf)
            found.append(
                compare((back * change).sum(), "==", (apart * weight).sum(), f"back, {label}", 1e-7, 10 * size)
            )
    return found


def sampled_intervals(count: float) -> list[Comparison]:
    """The interval of a criterion is that of its penalty moved by the risk; sampled draws of a layer have its mean."""
    model, plain = TwoLayerLinear(normal(1, 2, 3), normal(2, 4, 3)), sample(3, 6, 4, 2)
    shares = uniform(7, 6) / uniform(7, 6).sum()
    data, law, found = Sample(plain.inputs, plain.targets, shares), Bernoulli(tensor([0.4, 0.1, 0.6]), 3), []
    base = shares @ (data.inputs @ model.V @ model.U.mT - data.targets).square().sum(1)
    found.append(compare(risk(model, data), "==", base, "risk"))
    for draws, seed in ((64, 5), (400, 6)):
        method = MonteCarlo(draws, seed=seed)
        whole, part = criterion(model, data, law, method), penalty(model, data, law, method)
        for end in ("value", "lower", "upper"):
            found.append(compare(getattr(whole, end), "==", getattr(part, end) + count * base, f"{end}, {draws} draws"))
    head = nn.Linear(3, 3, bias=False).double()
    head.weight = nn.Parameter(normal(4, 3, 3))
    features = normal(5, 4, 3)
    layer = ExplicitDropout(0.3, head, CrossEntropy(), "sampled", masks=3)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        layer(features.repeat_interleave(5_000, 0))
        drawn = layer.penalties.reshape(4, 5_000)
        # labels do not matter: the mean of the outputs is that without masks
        truth = -torch.logsumexp(features @ head.weight.mT, 1)
        for kept, chance in coin_masks([0.3] * 3):
            truth = truth + chance * torch.logsumexp(features * kept / 0.7 @ head.weight.mT, 1)
    error = 5 * drawn.std(1) / 5_000**0.5
    return [*found, compare((drawn.mean(1) - count * truth).abs() / error, "<=", 1.0, "mean of draws, within 5 errors")]


def own_units(scale: float) -> list[Comparison]:
    """What a point is, as slopes and curvatures over all masks tell, does not depend on units of inputs and targets."""
    population, drop, width = moments(1, 2, 3), 0.4, 2
    law = Bernoulli(drop, width)
    best = optimum(TwoLayerLinear, population, law).model
    assert isinstance(best, TwoLayerLinear)
    kept, chances = every_coin([drop] * width)

    def value(flat: Tensor) -> Tensor:
        maps = (flat[:4].reshape(2, 2) * (kept / (1 - drop))[:, None]) @ flat[4:].reshape(3, 2).mT
        return chances @ ((maps @ population.xx - 2 * population.yx) * maps).sum((1, 2)) + population.yy.trace()

    root = psd_root(population.xx)
    left, values, right = torch.linalg.svd(population.yx @ torch.linalg.inv(root), full_matrices=False)
    size = (values[1] / (1 + drop / (1 - drop))).sqrt() * tensor([1.0, 0.0])
    alone = TwoLayerLinear(torch.outer(left[:, 1], size), torch.outer(torch.linalg.solve(root, right[1]), size))
    points = {
        "optimum": (best, "global minimum"),
        "origin": (TwoLayerLinear(0 * best.U, 0 * best.V), "strict saddle"),
        "second direction": (alone, "strict saddle"),
        "one unit": (TwoLayerLinear(best.U * tensor([1.0, 0.0]), best.V * tensor([1.0, 0.0])), "not critical"),
        "anywhere": (TwoLayerLinear(normal(3, 2, 2), normal(4, 3, 2)), "not critical"),
        "near the optimum": (TwoLayerLinear(1.001 * best.U, best.V), "not critical"),
    }
    found = []
    for name, (model, kind) in points.items():
        flat = torch.cat([part.detach().flatten() for part in model.tensors]).requires_grad_()
        (slope,) = torch.autograd.grad(value(flat), flat)
        curvatures = torch.linalg.eigvalsh(torch.autograd.functional.hessian(value, flat.detach()))
        level = 1e-6 * float(curvatures.abs().max())
        still, bent = float(slope.norm()) <= 1e-6, bool(curvatures[0] < -level)
        seen = "not critical" if not still else "strict saddle" if bent else "global minimum"
        found.append(same(seen, kind, f"{name} by all masks: {seen}"))
        told = inspect(model, population, law)
        found.append(same(told.kind, kind, f"{name}: {told.kind}"))
        if still:
            inertia = [int((curvatures < -level).sum()), 0, int((curvatures > level).sum())]
            inertia[1] = len(curvatures) - sum(inertia)
            found.append(same(list(told.inertia), inertia, f"inertia, {name}: {told.inertia}"))
        for sizes, unit in ((tensor([1.0, 2.0**-9, 2.0**6]), 2.0**7), (tensor([2.0**-12] * 3), 2.0**-9)):
            moved = Moments(
                population.xx * sizes[:, None] * sizes, unit * population.yx * sizes, unit**2 * population.yy
            )
            other = TwoLayerLinear(scale * unit * model.U, model.V / sizes[:, None])
            seen = inspect(other, moved, law).kind
            found.append(same(seen, kind, f"{name} in other units, {unit:g}: {seen}"))
    return found


def searches(reach: float) -> list[Comparison]:
    """Every search on affine classifiers: it fools an example iff the smallest margin over the ball is negative."""
    weights, offset = normal(11, 3, 4), normal(12, 3)
    data = Sample(normal(13, 60, 4), torch.arange(60) % 3)

    def model(inputs: Tensor) -> Tensor:
        return inputs @ weights.mT + offset

    methods: dict[str, Method] = {
        "Pgd": Pgd(Margin(target="every"), steps=20),
        "Bim": Bim(Margin(target="every"), steps=20),
        "Apgd": Apgd(Margin(target="every"), steps=20),
        "Fab": Fab(steps=20),
        "Square": Square(queries=500),
    }
    scores = model(data.inputs)
    own = scores.gather(1, data.targets[:, None])
    apart = torch.linalg.vector_norm
    found = []
    for norm, dual, radius in (("linf", 1, 0.08), ("l2", 2, 0.25)):
        rows = weights[data.targets][:, None] - weights
        margins = (own - scores) - reach * radius * apart(rows, ord=dual, dim=-1)
        least = margins.masked_fill(torch.arange(3) == data.targets[:, None], torch.inf).amin(1)
        for name, method in methods.items():
            if norm == "l2" and name in ("Bim", "Square"):  # one climbs by signs; corners are all that the other needs
                continue
            result = attack(model, data, Threat(norm, radius), method)
            steps = apart(result.inputs - data.inputs, ord=torch.inf if norm == "linf" else 2, dim=-1)
            found.append(compare(result.success.double(), "==", (least < 0).double(), f"{name} in {norm}"))
            found.append(compare(steps, "<=", radius, f"{name} stays in {norm}"))
    return found
