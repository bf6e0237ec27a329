"""What a claim compares on questions that are seldom asked: second answers, options, ends of files, last bits."""

from __future__ import annotations

import io
import math
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor, nn

from droptics.arrays import Array
from droptics.attacks import Threat
from droptics.audits.batches import Batch, output_of
from droptics.audits.control import Guess, share_out
from droptics.data import Moments, Sample
from droptics.datasets import Ratings
from droptics.envelopes.deep_linear import exact_strengths
from droptics.equalization import equalize
from droptics.evidence.claims import Comparison, compare
from droptics.files.limits import PIECE, Bounded
from droptics.landscapes import hessian, inspection
from droptics.landscapes.inspection import _least
from droptics.masks import Bernoulli, Block, MaskLaw, Product
from droptics.models import Autoencoder, DeepLinear, LastLayer, Model, TwoLayerLinear
from droptics.optima.deep_linear import deep_optimum
from droptics.optima.last_layer import _rank, _safe_factor
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import fails, refuses, same
from droptics.papers.instances import moments, normal, simplex, tensor, two_layer, uniform
from droptics.penalties.relu.effort import Place, _leaf_work, words
from droptics.predictions.classes import _averaged, _unproved
from droptics.rates import Rates
from droptics.recommenders import DropoutAutoencoder, DropoutCompletion, DropoutCompletionCV, ranker


def seldom_asked(scale: float) -> list[Comparison]:
    """Shares of a budget, curvatures, boxes, streams, words, options of searches, blocks of users."""
    parts = _shares, _curvatures, _boxes, _streams, _said, _chosen, _blocks, _costs, _single
    return by_parts(parts, scale)


def _shared(guesses: dict[str, Guess], costs: dict[str, float], budget: float, least: dict[str, int]) -> dict[str, int]:
    """Draws by the rule in words: the least, then whom fewest resolve, then one by one where the spread is largest."""
    draws, left = dict(least), budget
    for name, count in least.items():
        left -= count * costs[name]
    total = sum(guess.penalty for guess in guesses.values() if guess.penalty > 0)
    needs = {}
    for name, guess in guesses.items():
        goal = 0.2 * abs(guess.penalty)
        goal = max(goal, 0.01 * total)
        needs[name] = 1 if goal == 0 else min(16, math.ceil((2.8 * guess.deviation / goal) ** 2))
    for name in sorted(needs, key=lambda name: (needs[name] - draws[name]) * costs[name]):
        for _ in range(needs[name] - draws[name]):
            if left >= costs[name]:
                draws[name] += 1
                left -= costs[name]
    while True:
        spreads = {name: guess.deviation / draws[name] ** 0.5 for name, guess in guesses.items()}
        first = max(spreads, key=lambda name: spreads[name])
        if draws[first] >= 16 or left < costs[first] or spreads[first] == 0:
            return draws
        draws[first] += 1
        left -= costs[first]


def _shares(scale: float) -> list[Comparison]:
    """Draws that are shared out among sites whose penalties are small, large, negative or zero."""
    found: list[Comparison] = []
    for seed in range(12):
        penalties, spreads, prices = normal(seed, 4).tolist(), uniform(seed + 1, 4).tolist(), uniform(seed + 2, 4)
        guesses = {f"s{k}": Guess(penalties[k] * 10.0**-k, 0.2 * spreads[k] * 10.0 ** -(k // 2)) for k in range(4)}
        if seed == 3:
            guesses = {name: Guess(0.0, 0.0) for name in guesses}
        # a budget of whole draws of one price ends with the last of them
        costs = {f"s{k}": 1.0 if seed == 4 else 0.1 + float(prices[k]) for k in range(4)}
        for budget in (3.0, 9.0, 27.0):
            least = {f"s{k}": 1 + (seed + k) % 2 for k in range(4)}
            told = share_out(guesses, costs, budget, least)
            wanted = _shared(guesses, costs, budget, least)
            found.append(same(told, wanted, f"draws of four sites, {seed}, {budget}", scale))
    return found


def _curvatures(scale: float) -> list[Comparison]:
    """The least curvature with its direction, and the largest in absolute value, densely and by Lanczos."""
    found: list[Comparison] = []
    model, data, law = two_layer(3, 3, 4, 2), moments(5, 3, 4), Bernoulli(0.3, 2)

    def mean_error(flat: Tensor) -> Tensor:
        """The error over both coins, from second moments of data and masks."""
        U, V = (part.reshape(one.shape) for part, one in zip(flat.split([6, 8]), (model.U, model.V), strict=True))
        W = U @ V.mT
        added = 3 / 7 * (U.square().sum(0) * (V.mT @ data.xx @ V).diagonal()).sum()
        return data.yy.trace() - 2 * (W * data.yx).sum() + (W @ data.xx * W).sum() + added

    flat = torch.cat([model.U.reshape(-1), model.V.reshape(-1)])
    dense_one = torch.func.hessian(mean_error)(flat)
    found.append(compare(hessian(model, data, law), "==", scale * dense_one, "all curvatures"))
    found += _second_derivatives(scale)
    values = torch.linalg.eigvalsh(dense_one)
    for dense in (10**6, 0):
        with mock.patch.object(inspection, "DENSE", dense):
            vector, least, largest = _least(model, data, law)
        away = torch.sign(vector.sum()) * vector
        moved = dense_one @ vector
        precise = 1e-9 if dense else 1e-4
        found.append(compare(least, "==", scale * float(values[0]), "the least curvature", precision=precise))
        rough = 1e-9 if dense else 0.05
        found.append(compare(largest, "==", scale * float(values.abs().max()), "the largest", precision=rough))
        found.append(
            compare(moved, "==", scale * values[0] * vector, "its direction", precision=1e-9 if dense else 1e-2)
        )
        found.append(compare(float(away.norm()), "==", scale, "a direction of length one"))
    return found


def _second_derivatives(scale: float) -> list[Comparison]:
    """All curvatures, tied and untied, on moments and on weighted examples, of units that drop apart and together."""
    found: list[Comparison] = []
    population, examples = moments(5, 4, 4), Sample(normal(1, 6, 4), normal(2, 6, 4), simplex(3, 6))
    apart, together = Bernoulli(tensor([0.0, 0.3, 0.6, 0.2]), 4), Block(0.3, 4, 2)
    tied, untied = Autoencoder(normal(3, 4, 4)), TwoLayerLinear(normal(3, 4, 4), normal(4, 4, 4))
    cases: tuple[tuple[Model, Moments | Sample, MaskLaw], ...] = (
        (tied, population, apart),
        (untied, examples, together),
    )
    for model, data, law in cases:
        z, chances = (torch.cat(part) for part in zip(*law.atom_batches(100), strict=True))

        def mean_error(flat: Tensor, data: Moments | Sample = data, z: Tensor = z, odds: Tensor = chances) -> Tensor:
            """The error over all masks, mask by mask."""
            parts = flat.reshape(-1, 4, 4)
            maps = (parts[0] * z[:, None]) @ parts[-1].mT
            if isinstance(data, Sample):
                errors = (data.inputs @ maps.mT - data.targets).square().sum(-1) @ data.shares
            else:
                errors = data.yy.trace() - 2 * (maps * data.yx).sum((1, 2)) + (maps @ data.xx * maps).sum((1, 2))
            return odds @ errors

        flat = torch.cat([part.reshape(-1) for part in model.tensors])
        wanted = torch.func.hessian(mean_error)(flat)
        title = f"all curvatures, {type(model).__name__}, {type(data).__name__}, {type(law).__name__}"
        found.append(compare(hessian(model, data, law), "==", scale * wanted, title))
    return found


def _boxes(scale: float) -> list[Comparison]:
    """The best point of a box lies inside it to the last bit, and is the best of its corners."""
    found: list[Comparison] = []
    for kind in (torch.float32, torch.float64):
        inputs = uniform(7, 4000, 2).to(kind)
        slopes = normal(8, 4000, 2).to(kind)
        norms: tuple[Any, ...] = ("linf", "l2", "l1")
        for norm in norms:
            far = Threat(norm, 9.0, box=(0.1, 0.7)).around(inputs.clamp(0.1, 0.7)).support(slopes)
            ends = torch.tensor([0.1, 0.7], dtype=kind)
            inside = bool((far >= ends[0]).all() and (far <= ends[1]).all())
            found.append(same(inside, True, f"inside the box, {norm}, {kind}", scale))
            wanted = torch.where(slopes > 0, ends[1], ends[0])
            found.append(compare(far, "==", scale * wanted, f"a corner of the box, {norm}, {kind}", precision=1e-6))
    return found


def _streams(scale: float) -> list[Comparison]:
    """Bounded streams give what the stream has, piece by piece, and no more than they may."""
    content = bytes(range(256)) * 3
    stream = Bounded(io.BytesIO(content), Path("x"), 10_000)
    told = [stream.read(0), stream.read(5), stream.readline(3), stream.read(), stream.read(4)]
    wanted = [b"", content[:5], content[5:8], content[8:], b""]
    found = [same(told, wanted, "pieces of a stream", scale)]
    found.append(same((stream.readable(), stream.seekable()), (True, True), "what a stream can do", scale))
    found.append(refuses(lambda: stream.read(PIECE + 1), f"asks for a piece of {PIECE + 1:,} bytes"))
    small = Bounded(io.BytesIO(content), Path("x"), 100)
    found.append(compare(fails(small.read, ValueError), "==", 1.0, "more than it may unpack to"))
    begun = Bounded(io.BytesIO(content), Path("x"), 100)
    buffer = bytearray(60)
    found.append(same((begun.readinto(buffer), bytes(buffer)), (60, content[:60]), "a buffer that is filled", scale))
    # forty bytes are left of the hundred, whoever asks for more
    for name, call in (
        ("read", lambda: begun.read(41)),
        ("readline", lambda: begun.readline(41)),
        ("readinto", lambda: begun.readinto(bytearray(41))),
        ("seek", lambda: begun.seek(101)),
    ):
        begun.seek(60)
        found.append(compare(fails(call, ValueError), "==", 1.0, f"one more than is left, {name}"))
        begun.seek(60)
    found.append(same(begun.read(40), content[60:100], "all that is left", scale))
    return found


def _said(scale: float) -> list[Comparison]:
    """Refusals with shape and precision in their places, files that are no JSON, durations."""
    batch = Batch((), {}, torch.zeros(2), 2)
    odd = torch.zeros(2, 3, dtype=torch.complex64)
    text = "it returned a tensor of shape (2, 3) (torch.complex64)"
    found = [refuses(lambda: output_of(odd, batch), text)]
    found.append(refuses(lambda: output_of(torch.tensor(1.0), batch), "of shape () (torch.float32)"))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rates.json"
        path.write_text("{no", encoding="utf-8")
        found.append(refuses(lambda: Rates.load(path), f"path {path} is no JSON: Expecting"))
    for seconds, wanted in (
        (6.5e7, "2.03 years"),
        (200_000.0, "2.31 days"),
        (7_300.0, "2.03 hours"),
        (7_100.0, "7.1e+03 s"),
    ):
        found.append(same(words(seconds), wanted, f"a duration, {wanted}", scale))
    value = torch.tensor([0.25, 0.5])
    told = _unproved(value, "a rule", 7)
    fields = (told.confidence, told.method, told.cost, told.lower.tolist(), told.upper.tolist())
    found.append(same(fields, (0.0, "a rule", 7, [0.25, 0.5], [0.25, 0.5]), "an interval that claims nothing", scale))
    return found


def _chosen(scale: float) -> list[Comparison]:
    """Widths and rates are chosen as single fits that are made one after the other choose them; not centered, too."""
    found: list[Comparison] = []
    rng = np.random.default_rng(4)
    cells = rng.permutation(63)[:44]
    users, items = cells // 7, cells % 7
    ratings = (users, items, 3.0 + rng.normal(size=44))
    for center in (True, False):
        template = DropoutCompletion(center=center, sweeps=3, seed=1)
        search = DropoutCompletionCV((2, 3), (0.2, 0.6), estimator=template, seed=5).fit(ratings)
        best = search.best_estimator_
        again = DropoutCompletion(search.best_width_, search.best_drop_, center=center, sweeps=3, seed=1).fit(ratings)
        told, wanted = (model.predict(users, items) for model in (best, again))
        found.append(compare(told, "==", scale * wanted, f"the best fit, centered: {center}", precision=1e-6))
        order = [(point.width, point.drop) for point in search.points_]
        found.append(same(order, [(2, 0.6), (2, 0.2), (3, 0.6), (3, 0.2)], "the path", scale))
        wanted_errors = _path(ratings, center)
        told_errors = [(point.train_rmse, point.holdout_rmse) for point in search.points_]
        found.append(compare(told_errors, "==", scale * np.array(wanted_errors), "errors along the path", 1e-5))
        chosen = order[int(np.argmin([held for _, held in wanted_errors]))]
        found.append(same((search.best_width_, search.best_drop_), chosen, "the least held-out error", scale))
        mean = float(np.mean(ratings[2])) if center else 0.0
        found.append(compare(float(again.mean_), "==", scale * mean if center else mean, "what is centered"))
        errors = [point.train_rmse for point in search.points_]
        spread = np.std(ratings[2]) if center else np.sqrt(np.mean(np.square(ratings[2])))
        found.append(compare(max(errors), "<=", 1.3 * float(spread) / scale, "errors of fits"))
    return found


def _path(ratings: tuple[Array, Array, Array], center: bool) -> list[tuple[float, float]]:
    """Errors on kept and held-out ratings of single fits, for each width from the strong rate to the weak one."""
    kept, held = Ratings(*ratings).split(0.1, 5)
    found = []
    for width in (2, 3):
        model = DropoutCompletion(width, center=center, sweeps=3, seed=1, warm_start=True)
        for drop in (0.6, 0.2):
            model.set_params(drop=drop).fit(kept)
            rows = []
            for part in (kept, held):
                off = model.predict(part.users, part.items, unknown="ignore") - part.values
                rows.append(float(np.sqrt(np.mean(off**2))))
            found.append((rows[0], rows[1]))
    return found


def _blocks(scale: float) -> list[Comparison]:
    """Scores and recommendations of more users than a block holds are those of each user alone."""
    rng = np.random.default_rng(3)
    seen = (rng.random((11, 5)) < 0.4).astype(float)
    seen[:, 0] = 1.0
    users, items = np.nonzero(seen)
    model = DropoutAutoencoder().fit((users, items, np.ones(len(users))))
    order = model.item_ids_  # of the columns
    rows = seen[:, order]
    alone = np.concatenate([model.scores(row[None]) for row in rows])
    with mock.patch.object(ranker, "_BLOCK", 4):
        together, best = model.scores(rows), model.recommend(list(range(11)), 2)
    rounded = 8 * float(np.finfo(np.float32).eps)  # of a few products of numbers up to one, in any order
    found = [compare(together, "==", scale * alone, "scores of blocks of users", rounded)]
    gram = rows.T @ rows
    gamma = model.drop_ / (1 - model.drop_) * gram.diagonal() + model.ridge_
    inverse = np.linalg.inv(gram + np.diag(gamma))
    sigma = 1 / inverse.diagonal() if model.diagonal_ == "zero" else gamma
    found.append(compare(together, "==", scale * (rows - rows @ inverse * sigma), "scores by definition", 1e-4))
    for user, told in enumerate(best):
        fresh = [k for k in np.argsort(-alone[user], kind="stable") if rows[user, k] == 0][:2]
        found.append(same(told.items.tolist(), order[fresh].tolist(), f"the best of user {user}", scale))
        wanted = scale * alone[user, fresh].sum()
        found.append(compare(told.scores.sum(), "==", wanted, f"their scores, user {user}", rounded))
    return found


def _costs(scale: float) -> list[Comparison]:
    """Work of one state at the last stage; pivots that are safe; sums over points in parts."""
    place = Place(True, 2**30)
    found: list[Comparison] = []
    for units, bits in ((3, 4.0), (7, 2.0), (1, 0.0)):
        wanted = 2**bits * (units**2 / 2 + 2 * units) / 4 + 400
        found.append(compare(_leaf_work(units, bits, place), "==", scale * wanted, f"work of {units} units"))
    for last, safe in ((1.0, True), (1e-3, True), (1e-30, False), (-1.0, False)):
        factor = _safe_factor(torch.diag(tensor([1.0, 4.0, last])))
        found.append(same(factor is not None, safe, f"a pivot of {last}", scale))
    table = normal(2, 3, 5)
    found.append(same([_rank(table), _rank(table.mT)], [3, 3], "full ranks", scale))
    table[2] = table[0] - 2 * table[1]
    found.append(same([_rank(table), _rank(table.mT)], [2, 2], "a row that depends on others", scale))
    center, points, chances = normal(5, 2, 3, 4), normal(6, 8, 4), uniform(7, 8)
    logits = center[..., None] + points.mT
    odds = logits.softmax(-2)
    for size in (10**9, 48):  # 24 numbers a point: at once, and two points at a time
        with mock.patch("droptics.predictions.classes.CHUNK_ELEMENTS", size):
            told = _averaged(lambda some: center[..., None] + some.mT, points, center, chances)
            even = _averaged(lambda some: center[..., None] + some.mT, points, center)
        inside = torch.special.entr(odds).sum(-2)
        found.append(compare(told.probabilities, "==", scale * odds @ chances, f"probabilities, {size}"))
        found.append(compare(told.entropies, "==", scale * inside @ chances, f"entropies, {size}"))
        found.append(compare(even.probabilities, "==", scale * odds.mean(-1), f"points of one weight, {size}"))
    return found


def _least_of_one_layer(data: Moments, lam: float, width: int) -> float:
    """The least of tr E[y y^T] - |s|^2 + |s - x|^2 + (lam / r) (sum x)^2, by the number of kept values."""
    s = torch.linalg.svdvals(data.yx @ torch.linalg.inv(torch.linalg.cholesky(data.xx)).mT)
    values = [float(s.square().sum())]
    for kept in range(1, min(width, len(s)) + 1):
        lowered = s[:kept] - lam * s[:kept].sum() / (width + lam * kept)
        if bool((lowered >= 0).all()):
            off = (s[:kept] - lowered).square().sum() + s[kept:].square().sum()
            values.append(float(off + lam / width * lowered.sum() ** 2))
    return float(data.yy.trace() - s.square().sum()) + min(values)


def _single(scale: float) -> list[Comparison]:
    """One hidden layer as a product of one law and by itself; heads behind which layers stand; inputs that drop."""
    found: list[Comparison] = []
    data, law = moments(3, 3, 4), Bernoulli(0.4, 3)
    one, other = deep_optimum(data, law), deep_optimum(data, Product([law]))
    found.append(compare(one.objective, "==", scale * other.objective, "one law for one layer"))
    found.append(compare(one.bound, "==", scale * other.bound, "its bound"))
    least = scale * _least_of_one_layer(data, 0.4 / 0.6, 3)
    found.append(compare([one.objective, one.bound], "==", least, "the least of one layer"))
    strengths = exact_strengths((law,))
    found.append(compare(strengths, "==", scale * tensor([0.4 / 0.6 / 3]), "strength of a layer", precision=1e-9))
    first, last = linear_head(1, 4, 3), linear_head(2, 3, 2)
    for module in (nn.Sequential(first, nn.Tanh(), last), nn.Sequential(first, last, nn.Identity(), nn.Flatten())):
        found.append(same(LastLayer.of(module).head is last, True, "the last linear layer", scale))
    found.append(same(LastLayer.of(nn.Sequential(first, last), "0").head is first, True, "a layer by its name", scale))
    masked = DeepLinear([normal(1, 3, 4), normal(2, 2, 3)], mask_inputs=True)
    whole = Product([Bernoulli(0.2, 4), Bernoulli(0.3, 3)])
    plain = Moments.of_map(normal(3, 2, 4))
    found.append(compare(fails(lambda: equalize(masked, plain, whole)), "==", 1.0, "masks on inputs"))
    return found
