"""What a claim compares on settings of longer runs: tuned rates, completed ratings, trained and judged networks."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from droptics.audits import audit
from droptics.data import Data, Moments, Sample
from droptics.datasets import planted_ratings
from droptics.evidence.claims import Comparison, compare
from droptics.layers import ExplicitDropout, realized_rates
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli
from droptics.models import LastLayer, ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import stack
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.predictions.moment_checks import network, network_masks
from droptics.papers.droptics_own.recommenders.ranker_checks import interactions
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import moments, normal, tensor, uniform
from droptics.penalties import MonteCarlo, penalty
from droptics.predictions import calibration, predictive
from droptics.rates import Fit, tune_rates
from droptics.rates.copies import Problem, train_copies
from droptics.rates.examples import Examples
from droptics.rates.randomness import key
from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutAutoencoder,
    DropoutCompletion,
    DropoutCompletionCV,
    LocalAutoencoder,
    RidgeCompletion,
    StackedCompletion,
    StackedRanker,
)
from droptics.training import Dropout, Objective, Penalized, Plain, Settings, lazy_start, train


def every_setting(scale: float) -> list[Comparison]:
    """Settings off their defaults, each compared with a way around it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = (_tuned, _completed, _shaped, _ridges, _trained, _judged)
        return by_parts(parts, scale)


def _tuned(scale: float) -> list[Comparison]:
    """Seeds, sites, losses and populations of tuned rates: copies trained one by one."""
    found: list[Comparison] = []
    module = stack((3, 4, 4, 1), (0.3, 0.2), nn.Tanh)
    names = [name for name, part in module.named_modules() if isinstance(part, nn.Dropout)]
    data, held = (normal(1, 20, 3), normal(2, 20, 1)), (normal(3, 12, 3), normal(4, 12, 1))
    fit, scan, cpu = Fit(1, 10, "sgd", 0.05), (0.0, 0.4), torch.device("cpu")

    def squared(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).square().sum(-1)

    def cubed(outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).abs().pow(3).sum(-1)

    cases: tuple[tuple[str, dict[str, Any], Any, list[str], int], ...] = (
        ("as it is", {"seed": 3}, squared, names, 3),
        ("apart", {"population": "apart"}, squared, names, 0),
        ("together", {"population": "together"}, squared, names, 0),
        ("one site", {"sites": [names[1]]}, squared, names[1:], 0),
        ("a pattern", {"sites": [f"{names[0][:1]}*"]}, squared, names[:1], 0),
        ("another loss", {"loss": cubed}, cubed, names, 0),
    )
    for name, options, loss, sites, seed in cases:
        told = tune_rates(module, data, held, fit=fit, scan=scan, repeats=2, progress=False, **options)
        examples, checked = Examples.of(data, "train", cpu), Examples.of(held, "validation", cpu)
        before = {site: part.p for site, part in module.named_modules() if isinstance(part, nn.Dropout)}
        problem = Problem(module, examples, examples.some(12, 0), checked, loss, fit, before)
        for point, rate in zip(told.points, scan, strict=True):
            setting = dict.fromkeys(sites, rate)
            rows = [train_copies(problem, [setting], key(seed, "scan", run), "single")[0] for run in (0, 1)]
            losses = tensor([row["losses"] for row in rows])
            training = float(np.mean([row["training"] for row in rows]))
            found.append(compare(point.loss, "==", scale * losses.mean(), f"loss, {name}, {rate}", 1e-7))
            found.append(compare(point.training_loss, "==", scale * training, f"training, {name}, {rate}", 1e-7))
            found.append(same((dict(point.rates), point.stage), (setting, "scan"), f"setting, {name}, {rate}", scale))
        others = [site for site in names if site not in sites]
        found.append(same((sorted(told.rates), sorted(told.skipped)), (sorted(sites), others), f"sites, {name}", scale))
        found.append(same(told.cost.copies, 4, f"copies, {name}", scale))
    return found


def _rated(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    seen = uniform(seed, 12, 7).numpy() < 0.6
    for shift in range(3):
        seen[np.arange(12), (np.arange(12) + shift) % 7] = True
    rows, columns = np.nonzero(seen)
    values = (3 + normal(seed + 1, 12, 1) + normal(seed + 2, 1, 7) + 0.3 * normal(seed + 3, 12, 7)).numpy()
    return rows, columns, values[rows, columns]


def _completed(scale: float) -> list[Comparison]:
    """Pairs with a column of values are triples, pairs in one array two vectors; disk and threads change nothing."""
    found: list[Comparison] = []
    rows, columns, values = _rated(3)
    pairs = np.column_stack([rows, columns])
    exact: dict[str, Any] = {"dtype": "float64", "sweeps": 3}
    member = AutoencoderCompletion("user", 0.7, 0.3, dtype="float64")
    makers: tuple[Any, ...] = (
        lambda: AutoencoderCompletion("item", 0.7, 0.3, dtype="float64"),
        lambda: DropoutCompletion(2, 0.3, **exact),
        lambda: RidgeCompletion(2, 0.3, **exact),
        lambda: DropoutCompletionCV((1, 2), (0.2, 0.4), estimator=DropoutCompletion(**exact)),
        lambda: StackedCompletion([member], holdout=0.2),
    )
    for make in makers:
        table, triples = make().fit(pairs, values), make().fit((rows, columns, values))
        name = type(table).__name__
        told, wanted = table.predict(pairs), triples.predict(rows, columns)
        found.append(compare(told, "==", scale * wanted, f"pairs and values, {name}"))
        found.append(compare(table.score(pairs, values), "==", scale * triples.score((rows, columns, values)), name))
        error = float(np.sqrt(np.mean((wanted - values) ** 2)))
        found.append(compare(-table.score(pairs, values), "==", scale * error, f"minus its error, {name}"))
        strangers = np.array([[99, 0], [0, 99], [99, 99]])
        both = [table.predict(strangers, unknown="ignore"), triples.predict([99, 0, 99], [0, 99, 99], "ignore")]
        found.append(compare(both[0], "==", scale * both[1], f"strangers, {name}"))
        mean = getattr(table, "mean_", None)
        if mean is not None:
            found.append(compare(both[0][2], "==", scale * values.mean(), f"nothing known, {name}", 1e-6))
        top = [table.recommend(0, 3, exclude_seen=False), table.recommend(0, 3)]
        every = triples.predict([0] * 7, np.arange(7))
        order = np.argsort(-every, kind="stable")
        found.append(same(list(top[0].items), order[:3].tolist(), f"all items, {name}", scale))
        fresh = [item for item in order.tolist() if item not in set(columns[rows == 0].tolist())]
        found.append(same(list(top[1].items), fresh[:3], f"items not seen, {name}", scale))
    for kind in (DropoutCompletion, RidgeCompletion):
        made: Any = kind
        plain = made(2, 0.3, **exact).fit((rows, columns, values)).predict(pairs)
        for options in ({"memory": 1}, {"threads": 2}, {"device": "cpu"}, {"progress": lambda sweep: None}):
            other = made(2, 0.3, **exact, **options).fit((rows, columns, values)).predict(pairs)
            found.append(compare(other, "==", scale * plain, f"{kind.__name__}, {', '.join(options)}", 1e-8))
    return found


def _shaped(scale: float) -> list[Comparison]:
    """Rankers from pairs, all items, some pairs left out, seeds of the pairs that are hidden."""
    found: list[Comparison] = []
    table, (rows, columns, ones) = interactions(1, 13, 6)
    pairs = np.column_stack([rows, columns])
    members = [DropoutAutoencoder(0.3, 0.8, dtype="float64"), LocalAutoencoder(3, 0.3, 0.8)]
    stacked = [StackedRanker(members).fit(pairs, ones), StackedRanker(members).fit((rows, columns, ones))]
    some = np.eye(6)[:4]
    found.append(compare(stacked[0].scores(some), "==", scale * stacked[1].scores(some), "a stack of rankers"))
    model = DropoutAutoencoder(0.3, 0.8, dtype="float64").fit((rows, columns, ones))
    ids = model.item_ids_.astype(int)
    scores = model.scores(table[:, ids])
    for user in (0, 5):
        order = ids[np.argsort(-scores[user], kind="stable")]
        told = model.recommend(user, 4, exclude_seen=False)
        found.append(same(list(told.items), order[:4].tolist(), f"all items of {user}", scale))
        found.append(compare(told.scores, "==", scale * np.sort(scores[user])[::-1][:4], f"their scores, {user}"))
        new = model.recommend_new((rows[rows == user], columns[rows == user], ones[rows == user]), 2)[user]
        unseen = [item for item in order.tolist() if not table[user, item]]
        found.append(same(list(new.items), unseen[:2], f"as a stranger, {user}", scale))
    everything, few = model.leave_one_out(10_000), model.leave_one_out(5)
    drawn = int(model.user_ids_[np.random.default_rng(0).choice(13, 1, replace=False)[0]])
    counts = int(table.sum()), min(5, int(table[drawn].sum()))
    found.append(same((everything.pairs, few.pairs), counts, "pairs left out", scale))
    seeds = [
        DropoutAutoencoder(0.3, 0.8, seed=seed).fit((rows, columns, ones)).leave_one_out(5).gain for seed in (0, 1)
    ]
    found.append(same(seeds[0] == seeds[1], False, "other pairs", scale))
    return found


def _ridges(scale: float) -> list[Comparison]:
    """Completions by ridges end where no derivative of their objective is left, in every setting."""
    found: list[Comparison] = []
    rows, columns, values = _rated(5)
    for weighted, biases, center, ridge in (
        (True, True, True, 0.7),
        (False, True, False, 3.0),
        (True, False, False, 2.0),
    ):
        model = RidgeCompletion(
            *(2, 0.4, weighted, biases),
            center=center,
            bias_ridge=ridge,
            sweeps=200,
            cg_steps=None,
            tolerance=0.0,
            dtype="float64",
            init_scale=0.3,
            seed=2,
        ).fit((rows, columns, values))
        users, items = np.argsort(model.user_ids_), np.argsort(model.item_ids_)
        parts = [model.user_factors_[users], model.item_factors_[items]]
        parts += [model.user_biases_[users], model.item_biases_[items]] if biases else [np.zeros(12), np.zeros(7)]
        U, V, a, b = (torch.from_numpy(np.array(part, np.float64)).requires_grad_() for part in parts)
        mean = values.mean() if center else 0.0
        left = torch.from_numpy(values - mean) - (U[rows] * V[columns]).sum(1) - a[rows] - b[columns]
        counts = [torch.from_numpy(np.bincount(side).astype(float)) for side in (rows, columns)]
        shares = counts if weighted else [torch.ones_like(part) for part in counts]
        cost = left.square().sum() + 0.4 * ((shares[0] @ U.square()).sum() + (shares[1] @ V.square()).sum())
        cost = cost + ridge * (a.square().sum() + b.square().sum())
        slopes = torch.autograd.grad(cost, [U, V, *([a, b] if biases else [])])
        name = f"{'weighted' if weighted else 'plain'}, biases {biases}, center {center}"
        largest = max(float(slope.abs().max()) for slope in slopes)
        found.append(compare(scale + largest, "==", 1.0, f"no slope is left, {name}", 1e-3))
        found.append(compare(model.mean_, "==", scale * mean, f"mean, {name}"))
    options: dict[str, Any] = {"sweeps": 1, "dtype": "float64"}
    first = RidgeCompletion(2, 0.4, **options).fit((rows, columns, values)).item_factors_
    for more in ({"seed": 1}, {"init_scale": 0.4}):
        other = RidgeCompletion(2, 0.4, **options, **more).fit((rows, columns, values)).item_factors_
        found.append(same(bool(np.allclose(first, other)), False, f"another start, {', '.join(more)}", scale))
    warm = RidgeCompletion(2, 0.4, warm_start=True, tolerance=0.0, **options)
    for _ in range(3):
        warm.fit((rows, columns, values))
    three = RidgeCompletion(2, 0.4, sweeps=3, tolerance=0.0, dtype="float64").fit((rows, columns, values))
    found.append(compare(warm.predict(rows, columns), "==", scale * three.predict(rows, columns), "warm starts", 1e-7))
    clipped = RidgeCompletion(2, 0.4, clip=(2.5, 3.5), sweeps=3, tolerance=0.0, dtype="float64")
    told = clipped.fit((rows, columns, values)).predict(rows, columns)
    found.append(compare(told, "==", scale * three.predict(rows, columns).clip(2.5, 3.5), "clipped"))
    return found


def _trained(scale: float) -> list[Comparison]:
    """Settings in one piece are those by name, names come before them; half precision, starts by their seed."""
    found: list[Comparison] = []
    net, data = network(1, 3, 4, 2), Sample(normal(2, 9, 3), normal(3, 9, 2))
    objective = Dropout(Bernoulli(0.3, 7))
    options: dict[str, Any] = {"steps": 4, "step_size": 0.02, "batch_size": 3, "seed": 5, "decay": 0.1}
    named: Any = train(net, data, objective, **options).model
    whole: Any = train(net, data, objective, Settings(**options)).model
    partly: Any = train(net, data, objective, Settings(**{**options, "seed": 1, "decay": 0.0}), seed=5, decay=0.1).model
    for told, name in ((whole, "in one piece"), (partly, "names come first")):
        for mine, wanted in zip(told.tensors, named.tensors, strict=True):
            found.append(compare(mine, "==", scale * wanted, f"settings, {name}"))
    single = ReLUNet([part.float() for part in net.weights], [part.float() for part in net.biases])
    few = Sample(data.inputs.float(), data.targets.float())
    runs: list[Any] = [
        train(single, few, Plain(), steps=3, step_size=0.02, batch_size=None, precision=precision).model
        for precision in ("bfloat16", "full")
    ]
    moved = [run.weights[0] - single.weights[0] for run in runs]
    found.append(compare(moved[0].double(), "==", scale * moved[1].double(), "half precision", 0.03))
    found.append(same(torch.equal(*moved), False, "which rounds", scale))
    starts = [lazy_start(3, 5, seed) for seed in (4, 9)]
    for start, seed in zip(starts, (4, 9), strict=True):
        draws = torch.Generator().manual_seed(seed)
        first = torch.randn(5, 3, dtype=torch.float64, generator=draws)
        signs = torch.randint(2, (1, 5), generator=draws).double() * 2 - 1
        found.append(compare(start.weights[0], "==", scale * first, f"a start, {seed}"))
        found.append(compare(start.weights[1], "==", scale * signs / 5**0.5, f"its signs, {seed}"))
    return [*found, *_exact_steps(scale)]


def _exact_steps(scale: float) -> list[Comparison]:
    """One step on a population, or on the only example, plain and with every setting that makes it another one."""
    found: list[Comparison] = []
    U, V = normal(1, 2, 4).requires_grad_(), normal(2, 3, 4).requires_grad_()
    population, example = moments(3, 2, 3), Sample(normal(4, 1, 3), normal(5, 1, 2))
    problems: tuple[tuple[Data, Objective, float, int | None], ...] = (
        (population, Plain(), 0.0, None),
        (population, Penalized(Bernoulli(0.2, 4)), 0.25, None),
        (example, Plain(), 0.0, 1),
    )
    for data, objective, strength, batch in problems:
        matrix, known = U @ V.mT, Moments.of(data)
        loss = ((matrix @ known.xx - 2 * known.yx) * matrix).sum()
        loss = loss + strength * (U.square().sum(0) * (V * (known.xx @ V)).sum(0)).sum()
        slopes = torch.autograd.grad(loss, (U, V))
        cases: dict[str, tuple[dict[str, Any], list[Tensor]]] = {
            "plain": ({}, list(slopes)),
            "the first frozen": ({"frozen": (0,)}, [torch.zeros_like(U), slopes[1]]),
            "the second frozen": ({"frozen": (1,)}, [slopes[0], torch.zeros_like(V)]),
            "decay": ({"decay": 0.3}, [slopes[0] + 0.3 * U, slopes[1] + 0.3 * V]),
            "Adam": ({"optimizer": torch.optim.Adam}, [slope / (slope.abs() + 1e-8) for slope in slopes]),
        }
        for name, (options, moves) in cases.items():
            start = TwoLayerLinear(U.detach(), V.detach())
            told = train(start, data, objective, steps=1, step_size=0.05, batch_size=batch, **options).model
            for new, weight, move in zip(told.tensors, (U, V), moves, strict=True):
                wanted = (weight - 0.05 * move).detach()
                found.append(compare(new, "==", scale * wanted, f"{name}, {type(objective).__name__}, {batch}"))
    return found


def _judged(scale: float) -> list[Comparison]:
    """Levels of calibrated intervals, sizes of maps, samples of checks, activities, seeds and rates of audits."""
    found: list[Comparison] = []
    net, law = network(1, 3, 4, 1), Bernoulli(0.3, 7)
    inputs, targets = normal(1, 40, 3), 3 * normal(2, 40, 1)
    told = predictive(net, inputs, law)
    judged = calibration(told, targets, 0.8, (0.2, 0.6))
    outputs, chances = network_masks(net, inputs, [[0.3] * 3, [0.3] * 4])
    below = torch.tensordot(chances, torch.special.ndtr((targets - outputs) / 0.8), 1)
    for level, share in zip(judged.levels, judged.coverage, strict=True):
        inside = ((below >= (1 - level) / 2) & (below <= (1 + level) / 2)).double().mean()
        found.append(compare(share, "==", scale * inside, f"coverage, {level}"))
    found.append(same(judged.levels, (0.2, 0.6), "levels", scale))
    found.append(compare(judged.pit, "==", scale * below, "distribution"))
    found.append(
        compare(
            judged.rmse, "==", scale * (torch.tensordot(chances, outputs, 1) - targets).square().mean().sqrt(), "error"
        )
    )
    for row in realized_rates((5, 6), (0.2, 0.3), (2, 3)):
        found.append(compare(row.matched, "==", scale * row.drop, f"matched, {row.size}, {row.drop}, {row.block}"))
    sizes = [(row.size, row.drop, row.block) for row in realized_rates((5, 6), (0.2, 0.3), (2, 3))]
    wanted_sizes = [(size, drop, block) for size in (5, 6) for drop in (0.2, 0.3) for block in (2, 3)]
    found.append(same(sizes, wanted_sizes, "maps, rates and blocks", scale))
    head = linear_head(1, 4, 3)
    features = normal(3, 6, 4)
    layer = ExplicitDropout(0.3, head, CrossEntropy())
    for samples in (30, 90):
        way = MonteCarlo(samples, seed=3)
        checked = layer.check(features, way)
        labels = Sample(features, torch.zeros(6, dtype=torch.long))
        drawn = penalty(LastLayer.of(head), labels, Bernoulli(0.3, 4), way, CrossEntropy())
        ends = [float(part) for part in (checked.lower, checked.upper)]
        found.append(
            compare(ends, "==", [scale * float(part) for part in (drawn.lower, drawn.upper)], f"{samples} masks")
        )
    shares = [planted_ratings((40, 30, 400), 2, seed=1, activity=powers) for powers in ((0.0, 2.0), (2.0, 0.0))]
    spread = [[np.bincount(part).max() for part in (one.users, one.items)] for one in shares]
    found.append(same((spread[0][0] < spread[1][0], spread[0][1] > spread[1][1]), (True, True), "activity", scale))
    module = nn.Sequential(nn.Dropout(0.3), linear_head(1, 3, 1)).requires_grad_()
    data = [(normal(1, 24, 3), normal(2, 24, 1))]
    report = audit(module, data, rates=(0.15, 0.45))
    choice = report.sites[0].rate_choice
    assert choice is not None
    weight = next(module.parameters()).detach()[0]
    energy = (data[0][0].square().mean(0) * weight.square()).sum()
    found.append(same({0.15, 0.3, 0.45} - set(choice.rates), set(), "rates of an audit", scale))
    item = report.sites[0].penalty
    assert item is not None
    found.append(compare(item.value, "==", scale * float(energy) * 0.3 / 0.7, "penalty of the rate it has"))
    soft = stack((3, 5, 2), (0.4,), nn.Tanh)
    soft.append(nn.Softplus())
    drawn_by = [audit(soft, [(normal(1, 24, 3), normal(2, 24, 2))], seed=seed, draws=6) for seed in (1, 1, 2)]
    parts = [one.sites[0].penalty for one in drawn_by]
    assert all(part is not None for part in parts)
    values = [part.value for part in parts if part is not None]
    found.append(same((values[0] == values[1], values[0] == values[2]), (True, False), "seeds of an audit", scale))
    return found
