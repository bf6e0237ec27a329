"""What a claim on solved problems compares: heads over all masks, examples left out by refits, shares by grids."""

from __future__ import annotations

import itertools
import math

import numpy as np
import scipy
import torch
from torch import Tensor, nn

from droptics.arrays import Array
from droptics.data import Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.heads.leave_one_out import Whitened
from droptics.heads.projection import top_layer, variable_projection
from droptics.heads.ridge import DropoutRidge, DropoutRidgeCV
from droptics.linalg import allocate, k_support_shrink, shrink, shrink_unequal
from droptics.masks import Bernoulli, Block, Discrete, MaskLaw, Product, SlidingBlock
from droptics.models import Connections, LastLayer
from droptics.optima import certify, optimal_head, optimum
from droptics.optima.allocations import best_allocation, sigmoid_maximum, water_fill
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.instances import moments, normal, simplex, sliding_masks, tensor, uniform


def _listed(law: MaskLaw) -> tuple[Tensor, Tensor]:
    """Multipliers of a law and their probabilities, written out."""
    if isinstance(law, Discrete):
        return law.masks / (law.probabilities @ law.masks), law.probabilities
    if isinstance(law, SlidingBlock):
        masks, chances = sliding_masks(float(law.drop), law.size, law.block)
        return masks / (chances @ masks), chances
    if isinstance(law, Product):
        (first, left), (second, right) = map(_listed, law.laws)
        pairs = [torch.cat(pair) for pair in itertools.product(first, second)]
        return torch.stack(pairs), torch.outer(left, right).flatten()
    assert isinstance(law, (Bernoulli, Block))
    width = law.block if isinstance(law, Block) else 1
    drop = law.drop.expand(law.size // width)
    kept, chances = every_coin(drop.tolist())
    return (kept / (1 - drop)).repeat_interleave(width, 1), chances


def _fit(features: Tensor, targets: Tensor, shares: Tensor, law: MaskLaw, bias: bool) -> tuple[Tensor, Tensor, float]:
    """Least squares over all masks and examples at once: weights, bias and the least criterion."""
    masks, chances = _listed(law)
    rows = (features * masks[:, None]).flatten(0, 1)
    wide = torch.cat([rows, torch.ones(len(rows), 1).double()], 1) if bias else rows
    roots = (chances[:, None] * shares).flatten().sqrt()[:, None]
    goals = targets.repeat(len(masks), 1)
    found = torch.linalg.lstsq(roots * wide, roots * goals, driver="gelsd").solution
    left = (roots * (goals - wide @ found)).square().sum()
    weight = found[: features.shape[1]].mT
    return weight, found[-1] if bias else torch.zeros(targets.shape[1]).double(), float(left)


def solved_in_full(scale: float) -> list[Comparison]:
    """Heads with and without a bias under every law, in single precision and where features repeat."""
    found: list[Comparison] = []
    laws: dict[str, MaskLaw] = {
        "one rate": Bernoulli(0.4, 4),
        "rates": Bernoulli(tensor([0.0, 0.2, 0.5, 0.8]), 4),
        "blocks": Block(0.3, 4, 2),
        "sliding blocks": SlidingBlock(0.3, 4, 2),
        "layers": Product([Bernoulli(0.3, 2), Block(0.6, 2, 2)]),
        "list": Discrete(tensor([[1.0, 0, 2, 1], [0, 1, 1, 2], [2, 1, 0, 1]]), tensor([0.2, 0.3, 0.5])),
    }
    inputs, targets, weights = normal(1, 9, 4) + 0.5, normal(2, 9, 2) - 1, simplex(3, 9)
    for name, law in laws.items():
        for bias in (True, False):
            for given in (weights, None):
                data = Sample(inputs, targets, given)
                layer = nn.Linear(4, 2, bias=bias).double().requires_grad_(False)
                best = optimal_head(LastLayer.of(layer), data, law)
                W, b, least = _fit(inputs, targets, data.shares, law, bias)
                assert isinstance(best.model, LastLayer)
                label = f"{name}, bias {bias}, weights {given is not None}"
                found.append(compare(best.model.head.weight, "==", scale * W, f"head, {label}"))
                if bias:
                    found.append(compare(best.model.head.bias, "==", scale * b, f"bias, {label}"))
                found.append(compare(best.objective, "==", scale * least, f"criterion, {label}"))
                found.append(compare(best.bound, "<=", least, f"bound, {label}"))
                found.append(compare(best.gap, "<=", 1e-11, f"gap, {label}", precision=0.0))
                found.append(compare(best.rank, "==", 2, f"rank, {label}"))
        direct = optimum(LastLayer, Sample(inputs, targets, weights), law)
        found.append(compare(direct.objective, "==", _fit(inputs, targets, weights, law, True)[2], f"family, {name}"))
        proof = certify(LastLayer.of(linear_head(4, 4, 2)), Sample(inputs, targets, weights), law)
        found.append(compare(proof.bound, "<=", direct.objective, f"no body is better, {name}"))
        if name == "one rate":
            found.append(
                compare(proof.bound, "==", scale * _capacity(targets, weights, 0.4 / 0.6, 4), "which is tight")
            )
        top = top_layer(torch.relu(inputs), Sample(inputs, targets, weights), law)
        W, _, _ = _fit(torch.relu(inputs), targets, weights, law, False)
        found.append(compare(top, "==", scale * W, f"top layer, {name}"))
    repeated = torch.cat([inputs, inputs[:, :1], torch.zeros(9, 1).double(), torch.ones(9, 1).double()], 1)
    law = Bernoulli(0.0, 7)
    twice = optimum(LastLayer, Sample(repeated, targets), law)
    plain = _fit(inputs, targets, torch.full((9,), 1 / 9, dtype=torch.float64), Bernoulli(0.0, 4), True)[2]
    found.append(compare(twice.objective, "==", scale * plain, "features that repeat, vanish or do not vary"))
    steady = inputs * tensor([1.0, 1e-5, 1.0, 1e-2]) + tensor([0.0, 3.0, 0.0, -2.0])
    for name in ("rates", "blocks"):
        told = optimum(LastLayer, Sample(steady, targets, weights), laws[name])
        least = _fit(steady, targets, weights, laws[name], True)[2]
        found.append(compare(told.objective, "==", scale * least, f"features that hardly vary, {name}"))
    free = optimum(LastLayer, Sample(steady, targets, weights), Bernoulli(0.0, 4))
    least = _fit(steady, targets, weights, Bernoulli(0.0, 4), True)[2]
    found.append(compare(free.objective, "==", scale * least, "features that hardly vary, never dropped", 1e-7))
    single = Sample(inputs.float(), targets.float(), weights.float())
    rough = optimum(LastLayer, single, laws["rates"])
    shares = weights.float().double() / weights.float().double().sum()
    exact = _fit(inputs.float().double(), targets.float().double(), shares, laws["rates"], True)[2]
    # float32 rounds shares that sum to one
    found.append(compare(rough.objective, "==", scale * exact, "single precision", precision=1e-6))
    search = _searched(scale, Sample(inputs, targets, weights))
    return [*found, *search, *_left_out(scale), *_shares(scale), *_connections(scale)]


def _searched(scale: float, data: Sample) -> list[Comparison]:
    """Where searches for hidden weights begin: where they are told, or at normal numbers of variance 2 / inputs."""
    found: list[Comparison] = []
    start, law = normal(5, 3, 4), Bernoulli(0.3, 3)
    search = variable_projection(data, law, start, iterations=4)
    begun = _fit(torch.relu(data.inputs @ start.mT), data.targets, data.shares, law, False)[2]
    found.append(compare(search.history[0][1], "==", scale * begun, "where a search begins"))
    found.append(compare(search.objective, "<=", begun / scale, "and goes down"))
    drawn = torch.randn(3, 4, generator=torch.Generator().manual_seed(7), dtype=torch.float64) * (2 / 4) ** 0.5
    ends = [variable_projection(data, law, given, iterations=2, seed=7).model for given in (drawn, None)]
    told = ends[1].weights[0]
    found.append(compare(told, "==", scale * ends[0].weights[0], "where it ends from a drawn start"))
    return found


def _capacity(targets: Tensor, shares: Tensor, strength: float, width: int) -> float:
    """The least criterion of any features with a bias: shrunk singular values of the centered targets, by all ranks."""
    values = torch.linalg.svdvals(shares.sqrt()[:, None] * (targets - shares @ targets))
    least = math.inf
    for rank in range(min(width, len(values)) + 1):
        top = values[:rank]
        x = top - strength * top.sum() / (width + strength * rank)
        whole = values.square().sum() - top.square().sum() + (top - x).square().sum() + strength / width * x.sum() ** 2
        least = min(least, float(whole)) if bool((x >= 0).all()) else least
    return least


def _refits(X: Array, Y: Array, counts: Array, block: int, rate: float, intercept: bool) -> Array:
    """Errors at every example of the models fitted without one copy of it."""
    law = Block(rate, X.shape[1], block)
    errors = []
    for i in range(len(X)):
        others = counts.copy()
        others[i] -= min(1.0, counts[i])
        shares = torch.from_numpy(others / others.sum())
        W, b, _ = _fit(torch.from_numpy(X), torch.from_numpy(Y), shares, law, intercept)
        errors.append(Y[i] - W.numpy() @ X[i] - b.numpy())
    return np.array(errors)


def _left_out(scale: float) -> list[Comparison]:
    """Leave-one-out by refits: blocks, weights, few examples, and examples that stand alone."""
    found: list[Comparison] = []
    alone = normal(1, 8, 4).numpy()
    alone[:, 3] = 0.0
    alone[2, 3] = 5.0
    few, rates = normal(2, 4, 7).numpy(), (0.0, 0.3, 0.9)
    cases = (
        ("plain", normal(3, 9, 4).numpy(), np.ones(9), 1, True),
        ("no intercept", normal(3, 9, 4).numpy(), np.ones(9), 1, False),
        ("blocks", normal(4, 9, 4).numpy(), np.ones(9), 2, True),
        ("weights", normal(5, 9, 4).numpy(), uniform(6, 9).numpy() * 3 + 0.2, 1, True),
        ("weights and blocks", normal(5, 9, 4).numpy(), uniform(6, 9).numpy() * 3 + 0.2, 2, False),
        ("alone", alone, np.ones(8), 1, True),
        ("alone, hardly more than a copy", alone, 1 + 5e-7 * (np.arange(8) == 2), 1, True),
        ("few", few, np.ones(4), 1, True),
    )
    for name, X, counts, block, intercept in cases:
        Y = normal(7, len(X), 2).numpy()
        white = Whitened.of(X, Y, counts, block, intercept)
        told = white.leave_one_out([rate / (1 - rate) for rate in rates])
        for rate, errors in zip(rates, told, strict=True):
            if name == "few" and rate == 0:
                continue  # not unique
            wanted = _refits(X, Y, counts, block, rate, intercept)
            found.append(compare(errors, "==", scale * wanted, f"left out, {name}, {rate}", precision=1e-7))
            law = Block(rate, X.shape[1], block)
            W, b, least = _fit(
                torch.from_numpy(X), torch.from_numpy(Y), torch.from_numpy(counts / counts.sum()), law, intercept
            )
            fitted = DropoutRidge(rate, block=block, fit_intercept=intercept).fit(X, Y, sample_weight=counts)
            found.append(compare(fitted.coef_, "==", scale * W, f"weights, {name}, {rate}", precision=1e-7))
            found.append(compare(fitted.objective_, "==", scale * least, f"criterion, {name}, {rate}", precision=1e-8))
            mean, spread = fitted.predict(X, return_std=True)
            found.append(compare(mean, "==", X @ W.numpy().T + b.numpy(), f"prediction, {name}", precision=1e-7))
            parts = np.einsum("nbi,kbi->nkb", X.reshape(len(X), -1, block), W.numpy().reshape(2, -1, block))
            sizes = np.sqrt(rate / (1 - rate) * np.square(parts).sum(-1))
            found.append(compare(spread, "==", scale * sizes, f"spread, {name}, {rate}", precision=1e-7))
    return [*found, *_chosen(scale)]


def _chosen(scale: float) -> list[Comparison]:
    """The rate of least left-out error, one output or two, by weight and in blocks, and the fit that it ends with."""
    found: list[Comparison] = []
    weights = uniform(6, 12).numpy() * 3 + 0.2
    for name, outputs, size, block, given in (("plain", 1, 3, 1, None), ("weights and blocks", 2, 4, 2, weights)):
        X, Y = normal(8, 12, size).numpy(), normal(9, 12, outputs).numpy()
        rates, counts = (0.8, 0.1, 0.5), np.ones(12) if given is None else given
        model = DropoutRidgeCV(rates, block=block).fit(X, Y[:, 0] if outputs == 1 else Y, sample_weight=given)
        errors = [np.square(_refits(X, Y, counts, block, rate, True)).mean(1) for rate in rates]
        shapes = float(np.ndim(model.coef_)), float(np.ndim(model.intercept_))
        found.append(compare(shapes, "==", [outputs, outputs - 1], f"as many dimensions as the targets have, {name}"))
        means = [counts @ error / counts.sum() for error in errors]
        found.append(compare(model.loo_errors_, "==", [scale * one for one in means], f"mean errors, {name}", 1e-8))
        best = rates[int(np.argmin(means))]
        found.append(compare(model.drop_, "==", best, f"the best rate, {name}"))
        shares, law = torch.from_numpy(counts / counts.sum()), Block(best, size, block)
        W, b, least = _fit(torch.from_numpy(X), torch.from_numpy(Y), shares, law, True)
        found.append(compare(model.coef_, "==", scale * W.squeeze(0), f"its weights, {name}", 1e-7))
        found.append(compare(model.intercept_, "==", scale * (b if outputs > 1 else b[0]), f"its bias, {name}", 1e-7))
        found.append(compare(model.objective_, "==", scale * least, f"its criterion, {name}", 1e-8))
    tied = DropoutRidgeCV((0.6, 0.2, 0.4)).fit(np.zeros((4, 2)), np.arange(4.0))
    found.append(compare(tied.drop_, "==", 0.2, "the smallest of rates that are as good"))
    every = DropoutRidgeCV().fit(normal(8, 12, 3).numpy(), normal(9, 12).numpy()).drops_
    found.append(compare(every, "==", [scale * twentieth / 20 for twentieth in range(1, 20)], "rates by default"))
    return found


def _shares(scale: float) -> list[Comparison]:
    """Shrinkage and shares by grids and projected descents."""
    found: list[Comparison] = []
    for seed, a, k in ((1, 0.3, 2.0), (2, 1.5, 3.0), (3, 0.05, 2.5), (4, 0.7, 1.0)):
        weights = normal(seed, 3).numpy()
        grid = torch.linspace(0, 1, 201).double()
        x, y = torch.meshgrid(grid, grid, indexing="ij")
        inside = x + y <= 1 + 1e-12
        shares = torch.stack([x[inside], y[inside], (1 - x - y)[inside].clamp_min(0)])
        values = (tensor(np.exp(weights).tolist())[:, None] * (shares / (shares + a)) ** k).sum(0)
        told = sigmoid_maximum(weights, a, k)
        found.append(compare(told, ">=", values.max(), f"best shares, {seed}", precision=1e-12))
        found.append(compare(told, "==", scale * values.max(), f"by a grid, {seed}", precision=1e-4))
        roots = np.sort(np.exp(weights / 2))[::-1]
        filled = water_fill(roots[None].copy(), a)[0]
        gains = (tensor((roots**2).tolist())[:, None] * shares / (shares + a)).sum(0)
        reached = (roots**2 * filled / (filled + a)).sum()
        found.append(compare(reached, ">=", gains.max(), f"filled, {seed}", precision=1e-12))
        found.append(compare(filled.sum(), "==", scale, f"they sum to one, {seed}"))
        found.append(compare(filled, ">=", 0.0, f"and are shares, {seed}", precision=0.0))
        found.append(compare(reached, "==", scale * gains.max(), f"filled, by a grid, {seed}", precision=1e-4))
        values_two = np.sort(np.abs(weights))[::-1] + 0.3
        strengths = np.array([0.2, a])
        best = best_allocation(values_two.copy(), strengths)
        first, second = shares, shares
        sample = torch.randint(0, shares.shape[1], (4000, 2), generator=torch.Generator().manual_seed(seed))
        pairs = first[:, sample[:, 0]] / (first[:, sample[:, 0]] + 0.2)
        pairs = pairs * second[:, sample[:, 1]] / (second[:, sample[:, 1]] + a)
        drawn = (tensor((values_two**2).tolist())[:, None] * pairs).sum(0).max()
        found.append(compare(best.gain, ">=", drawn, f"gain of two layers, {seed}"))
        found.append(compare(best.bound, ">=", best.gain, f"its bound, {seed}"))
        found.append(compare(best.shares, ">=", 0.0, f"shares of two layers, {seed}", precision=0.0))
        found.append(compare(best.shares.sum(1), "==", 1.0, f"they sum to one in each, {seed}"))
        alike = best_allocation(values_two.copy(), np.array([a, a]))
        # layers alike share alike: one layer's grid, with gains squared
        squared = (tensor((values_two**2).tolist())[:, None] * (shares / (shares + a)).square()).sum(0).max()
        found.append(compare(alike.gain, "==", scale * squared, f"gain of two layers alike, {seed}", 1e-3))
        found.append(compare(alike.bound, "==", scale * alike.gain, f"its bound, {seed}"))
        own = best.shares / (best.shares + strengths[:, None])
        found.append(compare(best.gain, "==", scale * (values_two**2 * own.prod(0)).sum(), f"gain by shares, {seed}"))
    return [*found, *_shrunk(scale)]


def _shrunk(scale: float) -> list[Comparison]:
    """Shrunk spectra beside all supports and points nearby."""
    found: list[Comparison] = []
    for seed, width, strength in ((5, 2, 0.8), (6, 4, 2.0), (7, 6, 0.3)):
        values = normal(seed, 5)
        told = shrink(values, strength, width)
        ordered = values.clamp_min(0).sort(descending=True)
        best_value, best_x = math.inf, torch.zeros(5).double()
        for rank in range(min(width, 5) + 1):
            top = ordered.values[:rank]
            x = torch.zeros(5).double()
            x[ordered.indices[:rank]] = top - strength * top.sum() / (width + strength * rank)
            value = float((values - x).square().sum() + strength / width * x.sum() ** 2)
            if bool((x >= 0).all()) and value < best_value:
                best_value, best_x = value, x
        found.append(compare(told, "==", scale * best_x, f"shrunk, {seed}"))
        squares = k_support_shrink(values, strength, 2)
        beside = [squares + 1e-4 * normal(seed + j, 5) for j in range(20)]

        def cost(x: Tensor, values: Tensor = values, strength: float = strength) -> float:
            a = x.abs().sort(descending=True).values
            tails = [
                float(a[: r - 1].square().sum() + a[r - 1 :].sum() ** 2 / (2 - r + 1))
                for r in (1, 2)
                if r == 1 or a[r - 2] >= a[r - 1 :].sum() / (2 - r + 1)
            ]
            return float((values - x).square().sum()) + strength * tails[-1]

        found.append(compare(cost(squares), "<=", min(cost(x) for x in beside), f"k-support, {seed}", precision=1e-12))
        found.append(compare(squares * values, ">=", 0.0, f"signs, {seed}"))
        rates = uniform(seed, 4) * 2
        x, n = shrink_unequal(values.abs(), rates)
        whole = float((values.abs() - x).square().sum() + (rates * n.square()).sum())
        for j in range(20):
            moved = (x + 1e-3 * normal(40 + j, 5)).clamp_min(0)
            moved[x.argsort()[:1]] = 0.0
            share = allocate(moved, rates)
            other = float((values.abs() - moved).square().sum() + (rates * share.square()).sum())
            found.append(compare(whole, "<=", other / scale, f"unequal rates, {seed}"))
            found.append(compare(share.sum(), "==", moved.sum(), f"shares of all, {seed}"))
    return found + _cut_off(scale)


def _cut_off(scale: float) -> list[Comparison]:
    """Spectra of which some values are cut off, with strong units, as a solver of quadratic programs finds them."""
    found: list[Comparison] = []
    # of x and n: x falls and is not negative, no sum of the first n is above that of x, and all are equal
    falling = np.hstack([np.eye(4) - np.eye(4, k=1), np.zeros((4, 4))])
    below = np.hstack([np.tri(4), -np.tri(4)])
    for seed in range(4):
        values = (uniform(seed, 4) ** 3).sort(descending=True).values
        rates = (1 + 4 * uniform(seed + 9, 4)).sort().values
        x, n = shrink_unequal(values, rates)
        top, weights = values.numpy(), rates.numpy()
        best = scipy.optimize.minimize(
            lambda z, top=top, weights=weights: np.square(top - z[:4]).sum() + weights @ np.square(z[4:]),
            np.full(8, 0.1),
            method="SLSQP",
            constraints=[
                {"type": "ineq", "fun": lambda z: np.concatenate([falling @ z, (below @ z)[:3]])},
                {"type": "eq", "fun": lambda z: (below @ z)[3:]},
            ],
            options={"ftol": 1e-14, "maxiter": 200},
        )
        found.append(compare((x == 0).sum(), ">", 0, f"something is cut off, {seed}"))
        found.append(compare(x, "==", scale * best.x[:4], f"what is left, {seed}", 1e-5))
        found.append(compare(n, "==", scale * best.x[4:], f"its shares, {seed}", 1e-5))
        found.append(compare(n.sum(), "==", scale * x.sum(), f"shares of what is left, {seed}"))
    return found


def _connections(scale: float) -> list[Comparison]:
    """DropConnect beside its criterion: stationary, certified where the width allows, below it a bound."""
    found: list[Comparison] = []
    for seed, outputs, inputs, width, rate in (
        (1, 2, 3, 3, 0.3),
        (2, 2, 3, 4, 0.6),
        (3, 2, 3, 1, 0.05),
        (4, 2, 3, 2, 0.0),
        (5, 1, 2, 1, 0.3),
        (6, 3, 4, 3, 0.5),
    ):
        data = moments(seed, outputs, inputs)
        law = Bernoulli(rate, inputs * width)
        best = optimum(Connections, data, law)
        assert isinstance(best.model, Connections)
        U, V = (part.clone().requires_grad_() for part in best.model.tensors)
        B = U @ V.mT
        value = data.yy.trace() - 2 * (B * data.yx).sum() + ((B @ data.xx) * B).sum()
        value = (
            value + rate / (1 - rate) * (U.square().sum(0) * (data.xx.diagonal()[:, None] * V.square()).sum(0)).sum()
        )
        slopes = torch.autograd.grad(value, (U, V))
        found.append(compare(best.objective, "==", scale * value.detach(), f"criterion, {width}"))
        found.append(compare(torch.cat([s.flatten() for s in slopes]), "==", 0.0, f"stationary, {width}", 1e-6))
        found.append(compare(best.bound, "<=", value.detach(), f"bound, {width}"))
        if width >= outputs:
            found.append(compare(best.gap, "<=", 1e-8 / scale, f"certified, {width}", precision=0.0))
        trial = Connections(normal(seed + 5, outputs, width), normal(seed + 6, inputs, width))
        found.append(compare(certify(trial, data, law).bound, "==", best.bound, f"of any network, {width}", 1e-7))
        rates = (rate + uniform(seed, inputs * width) / 3).clamp_max(0.9)
        rates[-1] = rate
        uneven = certify(trial, data, Bernoulli(rates, inputs * width)).bound
        found.append(compare(uneven, "==", best.bound, f"unequal rates count like the least, {width}", 1e-7))
    zero = Moments(torch.diag(tensor([1.0, 0.0])), tensor([[1.0, 0.0]]), tensor([[2.0]]))
    dead = optimum(Connections, zero, Bernoulli(0.5, 4))
    found.append(compare(dead.objective, "==", scale * (2.0 - 1 / 1.5), "an input without energy", precision=1e-7))
    return found
