"""What a claim compares on fields that fits and runs leave behind, and on the small functions that all rooms share."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import torch

from droptics.annotations import is_beyond, is_dense, is_number, is_whole
from droptics.attacks import Apgd, Bim, Fgsm, Pgd, Square
from droptics.attacks.apgd import for_some, sparse_direction
from droptics.attacks.gradients import as_columns
from droptics.data import Entries, Moments, Sample
from droptics.datasets import Ratings
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli
from droptics.models import DeepLinear, Factorization, ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.recommenders.ranker_checks import interactions, weights_of
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor, uniform
from droptics.penalties import MonteCarlo, penalty
from droptics.recommenders import (
    AutoencoderCompletion,
    DropoutAutoencoder,
    DropoutCompletion,
    LocalAutoencoder,
    StackedCompletion,
    StackedRanker,
    saving,
)
from droptics.recommenders.ratings import observations
from droptics.training import (
    Dropout,
    DropoutClassifier,
    DropoutRegressor,
    Recording,
    lazy_start,
    train,
    train_lazy,
)
from droptics.training.setup import data_tensors, run_seeds, run_step_sizes

RECORDED = ("distance", "risk", "penalty", "singular_values")


def left_behind(scale: float) -> list[Comparison]:
    """Fields of fitted models and of runs, kinds of numbers, starts, seeds and step sizes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = (_blended, _stacked, _networks, _recorded, _lazy, _numbers, _shared)
        return by_parts(parts, scale)


def _rated() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    seen = uniform(3, 12, 7).numpy() < 0.6
    for shift in range(3):
        seen[np.arange(12), (np.arange(12) + shift) % 7] = True
    rows, columns = np.nonzero(seen)
    values = (3 + normal(4, 12, 1) + normal(5, 1, 7) + 0.3 * normal(6, 12, 7)).numpy()
    return rows, columns, values[rows, columns]


def _blended(scale: float) -> list[Comparison]:
    """Errors of blends and of each member, their range and mean, errors on ratings, some of strangers."""
    found: list[Comparison] = []
    rows, columns, values = _rated()
    times = 86_400.0 * (np.arange(len(rows)) % 3)
    given = Ratings(rows, columns, values, times)
    members = [
        AutoencoderCompletion("user", 0.7, 0.3, dtype="float64"),
        AutoencoderCompletion("item", 1.5, 0.2, dtype="float64"),
    ]
    for days in (False, True):
        model = StackedCompletion(members, days=days, holdout=0.3, seed=2).fit(given)
        kept, held = given.split(0.3, 2)
        alone = [type(one)(one.side, one.ridge, one.implicit, dtype="float64").fit(kept) for one in members]
        told = [fit.predict(held.users, held.items, "ignore") for fit in alone]
        errors = [float(np.sqrt(np.mean((part - held.values) ** 2))) for part in told]
        found.append(compare(model.holdout_rmse_[1:3], "==", [scale * e for e in errors], f"of members, {days}"))
        design = np.column_stack(told) - kept.values.mean()
        mixed = design @ model.weights_[:2] + kept.values.mean()
        if not days:
            blend = float(np.sqrt(np.mean((mixed - held.values) ** 2)))
            found.append(compare(model.holdout_rmse_[0], "==", scale * blend, "of the blend"))
        found.append(same(len(model.holdout_rmse_), 4 if days else 3, f"errors, {days}", scale))
        found.append(same([one.side for one in model.members_], ["user", "item"], f"members, {days}", scale))
        found.append(compare(model.range_, "==", [scale * values.min(), scale * values.max()], f"range, {days}"))
        found.append(compare(model.mean_, "==", scale * values.mean(), f"mean, {days}"))
        wrong = model.evaluate(given)
        left = model.predict(rows, columns, times=times if days else None) - values
        numbers = [math.sqrt(np.mean(left**2)), float(np.mean(np.abs(left))), len(values), 0]
        told_errors = [wrong.rmse, wrong.mae, wrong.count, wrong.unknown]
        found.append(compare(told_errors, "==", [scale * n for n in numbers], f"errors on ratings, {days}"))
        strange = model.evaluate(Ratings(np.array([0, 99, 0]), np.array([0, 0, 99]), np.ones(3), times[:3]), "ignore")
        found.append(same(strange.unknown, 2, f"pairs with a stranger, {days}", scale))
        pairs = np.array([0, 99, 0]), np.array([0, 0, 99])
        parts = [one.predict(*pairs, "ignore") - values.mean() for one in model.members_]
        wanted = values.mean() + scale * (np.array(model.weights_[:2]) @ np.array(parts))
        found.append(compare(model.predict(*pairs, "ignore"), "==", wanted, f"predictions for strangers, {days}", 1e-8))
    return found


def _stacked(scale: float) -> list[Comparison]:
    """Deviations of stacked rankers, diagonals that were chosen, units and parts of a completion."""
    found: list[Comparison] = []
    table, (users, items, ones) = interactions(1, 13, 6)
    both = [DropoutAutoencoder(0.3, 0.8, "free", dtype="float64"), LocalAutoencoder(3, 0.3, 0.8)]
    stack = StackedRanker(both).fit((users, items, ones))
    alone = [DropoutAutoencoder(0.3, 0.8, "free", dtype="float64"), LocalAutoencoder(3, 0.3, 0.8)]
    alone_scores = [one.fit((users, items, ones)).scores(table[:, one.item_ids_.astype(int)]) for one in alone]
    deviations = [scale * float(part.std()) for part in alone_scores]
    found.append(compare(stack.deviations_, "==", deviations, "deviations of members"))
    for diagonal in ("free", "zero", 0.1):
        made: Any = DropoutAutoencoder(0.3, 0.8, diagonal)
        told_point = (made.fit((users, items, ones)).drop_, made.ridge_, made.diagonal_)
        found.append(same(told_point, (0.3, 0.8, diagonal), f"the given point, diagonal {diagonal}", scale))
    for way in ("squared", "loo"):
        judge: Any = way
        chosen = DropoutAutoencoder(dtype="float64", choose=judge).fit((users, items, ones))
        costs = [
            point.left_out.squared.value if way == "squared" else -point.left_out.gain.value for point in chosen.points_
        ]
        best = chosen.points_[int(np.argmin(costs))]
        kind = (chosen.drop_, chosen.ridge_, chosen.diagonal_)
        found.append(same(kind, (best.drop, best.ridge, best.diagonal), f"the chosen point, {way}", scale))
    gram = table.T @ table
    for point in chosen.points_[:4]:
        gamma = point.drop / (1 - point.drop) * gram.diagonal() + point.ridge
        fits = [weights_of(gram - np.outer(row, row), gamma, str(point.diagonal)) for row in table]
        errors = [np.square(row - row @ weights).mean() for row, weights in zip(table, fits, strict=True)]
        told_error = point.left_out.squared.value
        found.append(compare(told_error, "==", scale * np.mean(errors), f"users left out, diagonal {point.diagonal}"))
    rows, columns, values = _rated()
    completed = DropoutCompletion(2, 0.3, sweeps=3, dtype="float64").fit((rows, columns, values))
    data = observations((rows, columns, values), np.float64)
    found.append(compare(completed.scale_, "==", scale * data.scale, "units of a completion"))
    found.append(same(completed.strengths_.width, 2, "its width", scale))
    parts = completed.user_factors_ @ completed.item_factors_.T
    whole = completed.mean_ + completed.user_biases_[:, None] + completed.item_biases_ + parts
    order = np.argsort(completed.user_ids_), np.argsort(completed.item_ids_)
    told_whole = completed.predict(rows, columns)
    found.append(compare(told_whole, "==", scale * whole[order[0][rows], order[1][columns]], "its parts"))
    return found


def _networks(scale: float) -> list[Comparison]:
    """Means, deviations and classes of estimators; units of networks in layers and in factors."""
    found: list[Comparison] = []
    X = 3 * normal(1, 12, 3).numpy() + 2
    X[:, 2] = 5.0  # has no deviation, and is not divided by it
    names = np.array(["b", "c", "a"])[np.arange(12) % 3]
    fitted = DropoutClassifier((2,), 0.2, epochs=1).fit(X, names)
    found.append(same(list(fitted.classes_), ["a", "b", "c"], "classes", scale))
    best = np.array(["a", "b", "c"])[fitted.predict_proba(X).argmax(1)]
    found.append(same(list(fitted.predict(X)), best.tolist(), "the most probable", scale))
    regressor = DropoutRegressor((2,), 0.2, 0.5, epochs=1).fit(X, normal(2, 12).numpy())
    for one in (fitted, regressor):
        deviations = np.array([X[:, 0].std(), X[:, 1].std(), 1.0])
        found.append(compare(one.input_mean_, "==", scale * X.mean(0), f"means, {type(one).__name__}"))
        found.append(compare(one.input_scale_, "==", scale * deviations, f"deviations, {type(one).__name__}"))
        laws = [(law.size, round(float(1 - law.mean[0]), 9)) for law in one.masks_.laws]
        found.append(same(laws, [(3, 0.2), (2, 0.2)], f"masks, {type(one).__name__}", scale))
    found.append(compare(regressor.noise_, "==", scale * 0.5, "given noise"))
    mean, spread = regressor.predict(X, return_std=True)
    told = regressor.predictive(X)
    found.append(compare(mean, "==", scale * told.mean.value[:, 0], "mean over masks"))
    wanted = (told.variance.value[:, 0] + 0.25).sqrt()
    found.append(compare(spread, "==", scale * wanted, "deviation of an observation"))
    for level in (0.3, 0.9):
        low, high = regressor.interval(X, level)
        density = told.density(0.5)
        tails = [density.cdf(torch.from_numpy(end)[:, None])[:, 0] for end in (low, high)]
        shares = [(1 - level) / 2, (1 + level) / 2]
        for tail, share in zip(tails, shares, strict=True):
            found.append(compare(tail, "==", scale * share, f"quantile {share:.2f}", 1e-6))
    for masked, units in ((True, (3, 5, 4)), (False, (5, 4))):
        deep = DeepLinear([normal(1, 5, 3), normal(2, 4, 5), normal(3, 2, 4)], mask_inputs=masked)
        told_units = (deep.hidden_sizes, deep.layer_units, deep.units, deep.input_size)
        found.append(same(told_units, ((5, 4), units, sum(units), 3), f"layers, {masked}", scale))
    relu = ReLUNet([normal(1, 5, 3), normal(2, 2, 5)])
    found.append(same((relu.layer_units, relu.units, relu.output_size), ((3, 5), 8, 2), "ReLU layers", scale))
    U, V = normal(1, 4, 3), normal(2, 5, 3)
    factors, cells, matrices = Factorization(U, V), torch.tensor([[0, 1], [3, 4]]), normal(3, 6, 4, 5)
    by_cell = torch.stack([U[0] * V[1], U[3] * V[4]])
    found.append(compare(factors.unit_outputs(cells), "==", scale * by_cell, "units at cells"))
    by_matrix = torch.einsum("nij,ik,jk->nk", matrices, U, V)
    found.append(compare(factors.unit_outputs(matrices), "==", scale * by_matrix, "units of measurements"))
    return found


def _recorded(scale: float) -> list[Comparison]:
    """Steps that are recorded, distances from a reference, gaps to a bound, seeds and sizes of steps of every run."""
    found: list[Comparison] = []
    pair, data = TwoLayerLinear(normal(3, 2, 4), normal(4, 3, 4)), Sample(normal(1, 6, 3), normal(2, 6, 2))
    law, reference = Bernoulli(0.3, 4), normal(9, 2, 3)
    found.append(same(Recording(at=(9, 2, 0, 2)).steps_of(5), (0, 2, 5), "steps in order, and the last", scale))
    held = Sample(normal(5, 8, 3), normal(6, 8, 2))
    for on, seen in ((None, data), (held, held), (Moments.of(held), held)):  # the training data, others
        run = train(
            pair,
            data,
            Dropout(law),
            steps=4,
            step_size=0.05,
            keep=(0, 2, 4),
            record=Recording(RECORDED, at=(0, 2, 4), data=on, reference=reference),
        )
        for place, iterate in enumerate(run.iterates):
            model: Any = iterate.model
            far = (model.U @ model.V.mT - reference).norm()
            risk = (seen.targets - seen.inputs @ model.V @ model.U.mT).square().sum(1).mean()
            energy = (seen.inputs @ model.V).square().mean(0)
            added = 0.3 / 0.7 * (energy * model.U.square().sum(0)).sum()
            values = torch.linalg.svdvals(model.U @ model.V.mT)
            for name, wanted in zip(RECORDED, (far, risk, added, values), strict=True):
                told = run.history[name][place]
                found.append(compare(told, "==", scale * wanted, f"{name} at step {iterate.step}"))
    found.append(same(run.history["step"].tolist(), [0, 2, 4], "steps", scale))
    method = MonteCarlo(40, seed=3)
    drawn = train(pair, data, Dropout(law), steps=1, step_size=0.05, record=Recording(("penalty",), method=method))
    estimate = penalty(pair, data, law, method).value
    found.append(compare(drawn.history["penalty"][0], "==", scale * estimate, "the penalty by the method asked for"))
    found.append(compare(estimate, "!=", scale * penalty(pair, data, law).value, "which is not exact"))
    found.append(same((run_seeds(5, 3), run_seeds([4, 9], 2)), ((5, 6, 7), (4, 9)), "seeds of runs", scale))
    objective = Dropout((Bernoulli(0.25, 4), Bernoulli(0.5, 4)))
    for convention, factors in (("gradient", [1.0, 1.0]), ("pal2020", [0.5, 0.5]), ("mianjy2018", [0.375, 0.25])):
        kind: Any = convention
        sizes = run_step_sizes([0.2, 0.4], kind, objective, 2)
        wanted_sizes = [scale * size * factor for size, factor in zip((0.2, 0.4), factors, strict=True)]
        found.append(compare(sizes, "==", wanted_sizes, f"step sizes, {convention}"))
        found.append(compare(run_step_sizes(0.2, kind, Dropout(law), 3).shape[0], "==", scale * 3, convention))
    cells = Entries(torch.tensor([0, 1]), torch.tensor([1, 0]), normal(1, 2), (2, 2))
    shapes = [tuple(part.shape) for part in data_tensors(cells)]
    found.append(same(shapes, [(2,), (2,), (2,)], "tensors of the data", scale))
    return found


def _lazy(scale: float) -> list[Comparison]:
    """Drifts, kept steps, sub-networks and the last network of lazy runs, written out row by row."""
    found: list[Comparison] = []
    signs = Sample(normal(1, 6, 3), tensor([1.0, -1, 1, 1, -1, 1]))
    for drop, keep in ((0.4, (0, 3, 6)), (0.2, (1, 5, 2)), (0.9, (0, 1, 2, 3, 4, 5))):  # some masks keep no unit
        start = lazy_start(3, 7, seed=2)
        run = train_lazy(start, signs, drop, steps=6, step_size=0.9, max_norm=2.0, keep=keep, seed=4)
        found.append(same(run.steps, tuple(sorted(keep)), f"kept steps, {drop}", scale))
        for place, iterate in enumerate(run.run.iterates):
            rows, top = iterate.model.tensors[:2]
            far = max(
                math.dist(row, begun) for row, begun in zip(rows.tolist(), start.weights[0].tolist(), strict=True)
            )
            found.append(compare(run.drift[place], "==", scale * far, f"drift at step {iterate.step}"))
            if iterate.multipliers is not None:
                hidden = (signs.inputs @ rows.mT).clamp_min(0) * iterate.multipliers.flatten()[3:]
                told = run.subnetworks[place].outputs(signs.inputs)
                found.append(compare(told, "==", scale * hidden @ top.mT, f"sub-network of step {iterate.step}"))
        last: Any = run.run.model
        wanted = (1 - drop) * (signs.inputs @ last.weights[0].mT).clamp_min(0) @ start.weights[1].mT
        found.append(compare(run.model.outputs(signs.inputs), "==", scale * wanted, f"the last network, {drop}"))
    return found


def _numbers(scale: float) -> list[Comparison]:
    """What counts as a number, as a whole one, as one that tensors cannot take, as a dense tensor."""
    cases = (
        (1, True, True, False),
        (1.5, True, False, False),
        (math.nan, False, False, False),
        (math.inf, True, False, False),
        (True, False, False, False),
        (np.float32(2), True, False, False),
        (np.float32(math.nan), False, False, False),
        (np.int8(3), True, True, False),
        (np.bool_(True), False, False, False),
        (np.array(2.0), True, False, False),
        (np.array([2.0]), False, False, False),
        (torch.tensor(3), True, False, False),
        (torch.tensor(math.nan), False, False, False),
        (torch.tensor([3]), False, False, False),
        ("3", False, False, False),
        (2**63 - 1, True, True, False),
        (2**63, True, True, True),
        (-(2**63), True, True, True),
        (None, False, False, False),
    )
    found = [
        same((is_number(value), is_whole(value), is_beyond(value)), wanted, f"a number: {value!r}", scale)
        for value, *rest in cases
        for wanted in (tuple(rest),)
    ]
    tensors = (torch.ones(2), torch.ones(2).to_sparse(), torch.ones(2, device="meta"), [1.0])
    found.append(same([is_dense(part) for part in tensors], [True, False, False, False], "dense", scale))
    return found


def _shared(scale: float) -> list[Comparison]:
    """Starts of some examples, sparse steps, columns of scores, ids that are packed."""
    found: list[Comparison] = []
    points = normal(1, 6, 4)
    for method in (Pgd(start=points), Fgsm(start=points), Apgd(start=points)):
        some: Any = for_some(method, 2, 5)
        name = type(method).__name__
        found.append(compare(some.start, "==", scale * points[2:5], f"starts of some, {name}"))
        found.append(same(for_some(method, 0, 6) is method, True, f"starts of all, {name}", scale))
    for other in (Pgd(start="random"), Bim(), Square()):
        found.append(same(for_some(other, 2, 5) is other, True, f"none, {type(other).__name__}", scale))
    slopes = tensor([[1.0, -5.0, 3.0, 2.0], [0.5, 0.0, -0.1, 4.0], [0.0, 0.0, 0.0, 0.0]])
    shares = tensor([0.5, 0.25, 1.0])
    wanted = tensor([[0.0, -0.5, 0.5, 0.0], [0.0, 0.0, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]])
    found.append(compare(sparse_direction(slopes, shares), "==", scale * wanted, "sparse steps"))
    scores = normal(2, 5)
    found.append(compare(as_columns(scores, 5), "==", scale * scores[:, None], "scores as a column"))
    for ids in (np.array([3, 1, 2]), np.array(["b", "", "ä"]), np.array([2**40, -1])):
        arrays = saving.pack_ids("users", ids)
        back = saving.unpack_ids("users", arrays)
        found.append(same(list(back), list(ids), f"packed ids, {ids.dtype}", scale))
    return found
