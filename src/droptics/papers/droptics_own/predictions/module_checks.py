"""What more claims on predictions and rates compare: modules and laws of every kind, stored and split scans."""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.evidence.claims import Comparison, compare
from droptics.heads.ridge import DropoutRidge, DropoutRidgeCV
from droptics.masks import Bernoulli, Block, Gaussian, Product
from droptics.models import LastLayer, ReLUNet
from droptics.models.watching import Places
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin, stack
from droptics.papers.droptics_own.optima.left_out_checks import left_out, refit
from droptics.papers.droptics_own.predictions.moment_checks import network_masks
from droptics.papers.droptics_own.recommenders.ranker_checks import _rated
from droptics.papers.droptics_own.telling import refuses
from droptics.papers.instances import normal, sample, tensor
from droptics.penalties import ClosedForm, Enumerate, MonteCarlo
from droptics.predictions import predictive
from droptics.rates import Fit, Rates, tune_rates
from droptics.rates.copies import _named
from droptics.rates.masking import SharedMasks
from droptics.rates.places import set_rates
from droptics.rates.randomness import key, uniforms
from droptics.recommenders import DropoutCompletion, DropoutCompletionCV
from droptics.training import DropoutClassifier, DropoutRegressor


class Attending(nn.Module):
    """Attention of two positions, by torch's function or its layer, with dropout on its weights."""

    def __init__(self, layered: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.layered = layered
        self.inner = nn.MultiheadAttention(2, 1, dropout=0.3, batch_first=True).double()
        self.head = linear_head(7, 4, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        rows = inputs.reshape(-1, 2, 2)
        if self.layered:
            return self.head(self.inner(rows, rows, rows, need_weights=False)[0].flatten(1))
        rate = 0.3 if self.training else 0.0
        return self.head(functional.scaled_dot_product_attention(rows, rows, rows, dropout_p=rate).flatten(1))

    def masked(self, inputs: Tensor, mask: Tensor) -> Tensor:
        """Outputs with multipliers (2, 2) on the weights."""
        rows = inputs.reshape(-1, 2, 2)
        if not self.layered:
            weights = (rows @ rows.mT / 2**0.5).softmax(-1)
            return self.head(((weights * mask) @ rows).flatten(1))
        q, k, v = (rows @ self.inner.in_proj_weight.mT + self.inner.in_proj_bias).chunk(3, -1)
        weights = (q @ k.mT / 2**0.5).softmax(-1)
        return self.head(self.inner.out_proj((weights * mask) @ v).flatten(1))


class Written(nn.Module):
    """A module that somebody wrote, with dropout before its last layer, by a layer or by a function."""

    def __init__(self, functional_: bool) -> None:
        super().__init__()
        self.first, self.last = linear_head(1, 3, 4), linear_head(3, 4, 2)
        self.drop, self.by_function = nn.Dropout(0.3), functional_

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.first(inputs))
        if self.by_function:
            return self.last(functional.dropout(hidden, 0.3, self.training))
        return self.last(self.drop(hidden))


class Stacked(nn.Module):
    """Two recurrent layers with dropout between them, and one behind them."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(6)
        self.inner = nn.GRU(2, 2, num_layers=2, dropout=0.4, batch_first=True).double()
        self.drop, self.head = nn.Dropout(0.2), linear_head(9, 2, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(self.drop(self.inner(inputs.unflatten(1, (2, 2)))[0][:, -1]))

    def masked(self, inputs: Tensor, between: Tensor, behind: Tensor) -> Tensor:
        """Outputs with multipliers between the layers, of both times, and behind them."""
        given = inputs.unflatten(1, (2, 2)).unbind(1)
        for level in range(2):
            w, u, b, c = (
                getattr(self.inner, f"{name}_l{level}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
            )
            state, states = torch.zeros(len(inputs), 2, dtype=torch.float64), []
            for time in range(2):
                first, own = (given[time] @ w.mT + b).chunk(3, 1), (state @ u.mT + c).chunk(3, 1)
                r, z = torch.sigmoid(first[0] + own[0]), torch.sigmoid(first[1] + own[1])
                state = (1 - z) * torch.tanh(first[2] + r * own[2]) + z * state
                states.append(state)
            given = tuple(one * mask for one, mask in zip(states, between.unflatten(0, (2, 2)), strict=True))
        return self.head(state * behind)


def _moments(outputs: Tensor, chances: Tensor) -> tuple[Tensor, Tensor]:
    mean = torch.tensordot(chances, outputs, 1)
    return mean, torch.tensordot(chances, (outputs - mean).square(), 1)


@torch.no_grad()
def masked_modules(scale: float) -> list[Comparison]:
    """Means and variances of attention, recurrent layers and written modules under their own dropout: all masks."""
    found: list[Comparison] = []
    inputs = normal(1, 5, 4)
    kept, chances = every_coin([0.3] * 4)
    method = MonteCarlo(3000, seed=1, confidence=0.999999)
    for layered in (False, True):
        module = Attending(layered)
        outputs = torch.stack([module.masked(inputs, mask.reshape(2, 2) / 0.7) for mask in kept])
        mean, variance = _moments(outputs, chances)
        told = predictive(module, inputs, None, method)
        for name, one, truth in (("mean", told.mean, mean), ("variance", told.variance, variance)):
            found.append(compare(one.lower, "<=", truth, f"{name} of attention from below, {layered}"))
            found.append(compare(one.upper, ">=", truth, f"{name} of attention from above, {layered}"))
            # 3,000 masks: a few hundredths of what the masks do
            spread = float(variance.max().sqrt() if name == "mean" else variance.max())
            gap = (one.value - scale * truth) if name == "mean" else (one.value - truth)
            found.append(compare(gap, "==", 0.0, f"{name} of attention, {layered}", precision=0.12 * spread, scale=1.0))
        listed = predictive(module, inputs)
        found.append(compare(listed.mean.value, "==", scale * mean, f"mean of attention, all masks, {layered}"))
        found.append(compare(listed.variance.value, "==", scale * variance, f"and variance, all masks, {layered}"))
    module_ = Stacked()
    coins, odds = every_coin([0.4] * 4 + [0.2] * 2)
    points = inputs
    outputs = torch.stack([module_.masked(points, coin[:4] / 0.6, coin[4:] / 0.8) for coin in coins])
    found.append(
        compare(module_.eval()(points), "==", scale * module_.masked(points, torch.ones(4), torch.ones(2)), "GRU")
    )
    mean, variance = _moments(outputs, odds)
    told = predictive(module_, points, None, method)
    for name, one, truth in (("mean", told.mean, mean), ("variance", told.variance, variance)):
        found.append(compare(one.lower, "<=", truth, f"{name} of recurrent layers from below"))
        found.append(compare(one.upper, ">=", truth, f"{name} of recurrent layers from above"))
    listed = predictive(module_, points)
    found.append(compare(listed.mean.value, "==", scale * mean, "mean of recurrent layers, all masks"))
    found.append(compare(listed.variance.value, "==", scale * variance, "and variance, all masks"))
    for by_function in (False, True):
        written, rows = Written(by_function), normal(2, 6, 3)
        for turn in range(3):
            hidden = torch.tanh(written.first(rows))
            outputs = torch.stack([written.last(hidden * mask / 0.7) for mask in kept])
            mean, variance = _moments(outputs, chances)
            told = predictive(written, rows)
            found.append(
                compare(told.mean.value, "==", scale * mean, f"mean of a written module, {by_function}, {turn}")
            )
            found.append(compare(told.variance.value, "==", scale * variance, f"variance, {by_function}, {turn}"))
            moved = outputs - mean
            joint = torch.einsum("m,mni,mnj->nij", chances, moved, moved)
            found.append(compare(told.covariance.value, "==", scale * joint, f"covariance, {by_function}, {turn}"))
            shares = torch.tensordot(chances, outputs.softmax(-1), 1)
            found.append(compare(told.classes().probabilities.value, "==", scale * shares, f"classes, {by_function}"))
            written.last.weight.mul_(1.3)  # what was read before does not hold for other weights
    return found


@torch.no_grad()
def every_density(scale: float) -> list[Comparison]:
    """Densities, quantiles and covariances of heads under blocks, normal noise and products of laws."""
    found: list[Comparison] = []
    head = linear_head(1, 4, 1)
    features, targets, sigma = normal(2, 5, 4), normal(3, 5, 1), 0.6
    model = LastLayer.of(head)
    mean = head(features)
    parts = features * head.weight
    normal_law = Gaussian(tensor([0.1, 0.4, 0.2, 0.3]), 4)
    told = predictive(model, features, normal_law)
    variance = (parts.square() * tensor([0.1, 0.4, 0.2, 0.3])).sum(1, keepdim=True)
    whole = variance + sigma**2
    logs = -0.5 * (targets - mean).square() / whole - 0.5 * (2 * math.pi * whole).log()
    found.append(compare(told.variance.value, "==", scale * variance, "variance under normal noise"))
    found.append(
        compare(told.log_likelihood(targets, sigma), "==", scale * logs, "density under normal noise", precision=1e-7)
    )
    low, high = told.interval(0.8, sigma)
    wanted = mean + torch.special.ndtri(torch.tensor(0.9).double()) * whole.sqrt()
    found.append(compare(high, "==", wanted, "upper quantile", precision=1e-5))
    found.append(compare(low, "==", 2 * mean - wanted, "lower quantile", precision=1e-5))
    laws: dict[str, tuple[Any, list[float], Callable[[Tensor], Tensor]]] = {
        "blocks": (
            Block(tensor([0.3, 0.5]), 4, 2),
            [0.3, 0.5],
            lambda coin: coin.repeat_interleave(2) / tensor([0.7, 0.7, 0.5, 0.5]),
        ),
        "product": (
            Product([Bernoulli(tensor([0.2, 0.6]), 2), Block(0.4, 2, 2)]),
            [0.2, 0.6, 0.4],
            lambda coin: torch.cat([coin[:2] / tensor([0.8, 0.4]), coin[2:].repeat(2) / 0.6]),
        ),
    }
    for name, (law, drops, spread) in laws.items():
        kept, chances = every_coin(drops)
        outputs = torch.stack([head(features * spread(coin)) for coin in kept])
        center, own = _moments(outputs, chances)
        told = predictive(model, features, law)
        found.append(compare(told.mean.value, "==", center, f"mean, {name}"))
        found.append(compare(told.variance.value, "==", scale * own, f"variance, {name}"))
        terms = chances.log()[:, None, None] - 0.5 * ((targets - outputs) / sigma) ** 2
        logs = torch.logsumexp(terms, 0) - math.log(sigma) - 0.5 * math.log(2 * math.pi)
        found.append(
            compare(told.log_likelihood(targets, sigma), "==", scale * logs, f"density, {name}", precision=1e-6)
        )
        found.append(refuses(lambda told=told: told.log_likelihood(targets, 1e-9), "so small against outputs"))
        low, high = told.interval(0.7, sigma)
        for end, share in ((low, 0.15), (high, 0.85)):
            below = torch.tensordot(chances, torch.special.ndtr((end - outputs) / sigma), 1)
            found.append(compare(below, "==", scale * share, f"quantile {share}, {name}", precision=1e-5))
    return found


@torch.no_grad()
def wide_heads(scale: float) -> list[Comparison]:
    """Joint covariances by every method, and the classes of a head whose masks cannot be listed."""
    found: list[Comparison] = []
    features = normal(2, 5, 4)
    net = ReLUNet([normal(4, 3, 2), normal(5, 2, 3)], [normal(6, 3), normal(7, 2)])
    rates = [[0.3, 0.5], [0.4, 0.1, 0.6]]
    law = Product([Bernoulli(tensor(layer), len(layer)) for layer in rates])
    outputs, chances = network_masks(net, features[:, :2], rates)
    center, own = _moments(outputs, chances)
    joint = torch.einsum("m,mni,mnj->nij", chances, outputs - center, outputs - center)
    for method in (ClosedForm(), Enumerate(), MonteCarlo(4000, seed=3)):
        told = predictive(net, features[:, :2], law, method)
        exact = not isinstance(method, MonteCarlo)
        level = 1e-9 if exact else 0.02  # of the largest entry: 4,000 masks, the last layer integrated
        name = type(method).__name__
        found.append(
            compare(
                told.covariance.value,
                "==",
                (scale if exact else 1.0) * joint,
                f"joint, {name}",
                precision=level,
                scale=1.0,
            )
        )
        found.append(compare(told.std, "==", own.sqrt(), f"deviation, {name}", precision=level, scale=1.0))
        if not exact:
            said = "error not measured" in told.covariance.method and told.covariance.confidence == 0
            found.append(compare(float(said), "==", 1.0, f"what it says of its error, {name}"))
    # many units make normal logits; where one of few carries a logit, as many head masks as points are drawn
    for units, way, own_error in ((240, "Gaussian", 0.005), (40, "1024 head masks", 0.0)):
        wide, name = linear_head(8, units, 3), f"{units} units"
        with torch.no_grad():
            wide.weight.mul_(0.4 * (40 / units) ** 0.5)
        features = normal(9, 4, units)
        drawn = Bernoulli(0.3, units).multipliers(40_000, torch.Generator().manual_seed(2))
        with torch.no_grad():
            shares = torch.stack([wide(row * drawn.double()).softmax(-1) for row in features], 1)
        told_classes = predictive(LastLayer.of(wide), features, Bernoulli(0.3, units)).classes(1024).probabilities
        error = 5 * shares.std(0) * (1 / 40_000 + (own_error == 0) / 1024) ** 0.5 + own_error
        gap = (told_classes.value - shares.mean(0)).abs()
        found.append(compare(gap / error, "<=", 1.0, f"classes of a wide head, {name}"))
        found.append(compare(float(way in told_classes.method), "==", 1.0, f"{way}: {told_classes.method}"))
        found.append(compare(told_classes.value.sum(-1), "==", scale, f"they sum to one, {name}"))
    return found


def _plain_fit(module: nn.Module, train: Any, seed: int) -> None:
    """Two steps of plain descent, by the caller."""
    inputs, targets = train
    for _ in range(2):
        loss = functional.cross_entropy(module(inputs), targets)
        slopes = torch.autograd.grad(loss, list(module.parameters()))
        with torch.no_grad():
            for one, slope in zip(module.parameters(), slopes, strict=True):
                one.sub_(0.3 * slope)


def stored_scans(scale: float) -> list[Comparison]:
    """Scans that are stored give the same answer again, from files too; a function of one's own trains the copies."""
    found: list[Comparison] = []
    train_data, held = (normal(1, 16, 3), torch.arange(16) % 2), (normal(2, 14, 3), torch.arange(14) % 2)
    module = stack((3, 4, 2), (0.3,), nn.Tanh).requires_grad_()
    fit = Fit(2, 8, "adam", 0.05, looks=3)
    options: dict[str, Any] = {"scan": (0.0, 0.2, 0.5), "progress": False}
    with tempfile.TemporaryDirectory() as folder:
        first = tune_rates(module, train_data, held, fit=fit, store=folder, **options)
        again = tune_rates(module, train_data, held, fit=fit, store=folder, **options)
        fresh = tune_rates(module, train_data, held, fit=fit, **options)
        other_fit = tune_rates(module, train_data, held, fit=replace(fit, epochs=3), store=folder, **options)
        bent = stack((3, 4, 2), (0.3,), nn.ReLU).requires_grad_()  # the same weights
        other_gate = tune_rates(bent, train_data, held, fit=fit, store=folder, **options)
        apart = train_data, (held[0], 1 - held[1])
        other_labels = tune_rates(module, *apart, fit=fit, store=folder, **options)
        moved = (train_data[0] + 1, train_data[1]), held
        other_inputs = tune_rates(module, *moved, fit=fit, store=folder, **options)
        heavier = stack((3, 4, 2), (0.3,), nn.Tanh, seed=2).requires_grad_()
        other_weights = tune_rates(heavier, train_data, held, fit=fit, store=folder, **options)
        other_seed = tune_rates(module, train_data, held, fit=fit, store=folder, seed=1, **options)
        path = first.save(Path(folder) / "rates.json")
        loaded = Rates.load(path)
    found.append(compare(again.cost.resumed, "==", scale * first.cost.copies, "copies from before"))
    found.append(compare(first.cost.resumed, "==", 0, "none at first"))
    others = {"fit": other_fit, "gate": other_gate, "held-out labels": other_labels, "training inputs": other_inputs}
    for what, other in (others | {"weights": other_weights, "seed": other_seed}).items():
        found.append(compare(other.cost.resumed, "==", 0, f"none of other: {what}"))
    for name, other in (("again", again), ("fresh", fresh), ("loaded", loaded)):
        for mine, theirs in zip(first.points, other.points, strict=True):
            found.append(compare(mine.loss or 0.0, "==", scale * (theirs.loss or 0.0), f"loss, {name}"))
            found.append(compare(mine.paired_error or 0.0, "==", theirs.paired_error or 0.0, f"error, {name}"))
        found.append(compare(other.best, "==", first.best, f"best, {name}"))
    found.append(compare(float(loaded.to_dict() == first.to_dict()), "==", 1.0, "all of it"))
    text = str(first)
    for point in first.points:
        found.append(compare(float(f"{point.loss:.4g}" in text), "==", 1.0, f"loss at {point.rate} in the table"))
    net = copy.deepcopy(module)
    found.append(compare(len(first.apply(net)), "==", 0, "every site can be set"))
    found.append(compare(net[2].p, "==", first.rates["2"], "the rate is set"))
    own = tune_rates(module, train_data, held, fit=_plain_fit, scan=(0.0, 0.4), repeats=2, progress=False)
    for rate, point in zip((0.0, 0.4), own.points, strict=True):
        losses = []
        for number in range(2):
            one: Any = copy.deepcopy(module)
            one[2].p = rate
            seed = key(0, "scan", number)
            places = Places(one)
            with _named(places, one), SharedMasks(places, {"2": rate}, seed, 0, []):
                _plain_fit(one.train(), train_data, 0)
            losses.append(functional.cross_entropy(one.eval()(held[0]), held[1]).detach())
        wanted = scale * torch.stack(losses).mean()
        found.append(compare(point.loss or 0.0, "==", wanted, f"a fit of one's own at {rate}"))
    return found


def shared_masks(scale: float) -> list[Comparison]:
    """Copies drop a unit where one and the same uniform number lies below their rate, in every kind of dropout."""
    found: list[Comparison] = []
    images = normal(1, 3, 4, 5, 5)
    kinds: tuple[tuple[str, nn.Module, Tensor, tuple[int, ...]], ...] = (
        ("entries", nn.Dropout(0.3), images, (3, 4, 5, 5)),
        ("channels of rows", nn.Dropout1d(0.3), images[..., 0], (3, 4, 1)),
        ("channels", nn.Dropout2d(0.3), images, (3, 4, 1, 1)),
        ("channels of volumes", nn.Dropout3d(0.3), images[..., None], (3, 4, 1, 1, 1)),
        ("alpha", nn.AlphaDropout(0.3), images, (3, 4, 5, 5)),
        ("alpha of channels", nn.FeatureAlphaDropout(0.3), images, (3, 4, 1, 1)),
    )
    for name, layer, source, shape in kinds:
        module = nn.Sequential(layer).train()
        for rate in (0.3, 0.6):
            places = Places(module)
            with _named(places, module), SharedMasks(places, {"0": rate}, 7, 2, []):
                told = module(source)
            coin = uniforms(shape, key(7, 2, "0"), torch.device("cpu")).double()
            keep = (coin >= float(np.float32(rate))).double()
            if "alpha" in name:
                low = -1.0507009873554805 * 1.6732632423543772
                a = (1 - rate) ** -0.5 * (1 + rate * low**2) ** -0.5
                wanted = a * (keep * source + (1 - keep) * low) - a * rate * low
            else:
                wanted = source * keep / (1 - rate)
            found.append(compare(told, "==", scale * wanted, f"{name} at {rate}", precision=1e-6))
    rows = normal(2, 4, 2, 3)
    weights = (rows @ rows.mT / 3**0.5).softmax(-1)

    class Attend(nn.Module):
        def forward(self, value: Tensor) -> Tensor:
            return functional.scaled_dot_product_attention(value, value, value, dropout_p=0.3)

    module_ = Attend()
    places = Places(module_)
    with _named(places, module_), SharedMasks(places, {}, 7, 2, []):
        told = module_(rows)
    name = "attention_dropout"
    keep = (uniforms((4, 2, 2), key(7, 2, name), torch.device("cpu")) >= 0.3).double()
    found.append(compare(told, "==", scale * ((weights * keep / 0.7) @ rows), "attention", precision=1e-6))
    with _named(places, module_), SharedMasks(places, {}, 7, None, []):
        found.append(compare(module_(rows), "==", scale * weights @ rows, "attention without dropout"))

    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.drop_rate, self.inner = 0.25, nn.MultiheadAttention(2, 1, dropout=0.1)
            self.layer, self.recurrent = nn.Dropout(0.5), nn.GRU(2, 2, 2, dropout=0.2)

    parts = Functional()
    before = {"dropout": 0.25, "inner.attention_dropout": 0.1, "layer": 0.5, "recurrent.gru_dropout": 0.2}
    left = set_rates(parts, dict.fromkeys(before, 0.35), before)
    found.append(compare(len(left), "==", 0, f"set everywhere but {left}"))
    held = [parts.drop_rate, parts.inner.dropout, parts.layer.p, parts.recurrent.dropout]
    found.append(compare(held, "==", [scale * 0.35] * 4, "where rates live"))
    return found


def scanned_estimators(scale: float) -> list[Comparison]:
    """Scans of estimators are fits at each rate, with losses of held-out examples; exact scans need no copies."""
    found: list[Comparison] = []
    X, y, other_X, other_y = (
        part.numpy() for part in (normal(1, 30, 3), normal(2, 30), normal(3, 12, 3), normal(4, 12))
    )
    rates = (0.1, 0.4)
    ridge = tune_rates(DropoutRidge(), (X, y), (other_X, other_y), scan=rates, progress=False)
    for rate, point in zip(rates, ridge.points, strict=True):
        W, b = refit(X, y[:, None], rate)
        errors = (other_y[:, None] - other_X @ W - b) ** 2
        found.append(compare(point.loss or 0.0, "==", scale * errors.mean(), f"ridge at {rate}"))
    left = tune_rates(DropoutRidgeCV(drops=rates), (X, y), None, progress=False)
    for rate, point in zip(rates, left.points, strict=True):
        each = left_out(X, y[:, None], rate)
        found.append(compare(point.loss or 0.0, "==", scale * np.mean(each), f"left out at {rate}", precision=1e-6))
    labels, other_labels = np.array(["a", "b"])[(y > 0).astype(int)], np.array(["a", "b"])[(other_y > 0).astype(int)]
    told = tune_rates(
        DropoutClassifier((3,), epochs=2), (X, labels), (other_X, other_labels), scan=rates, progress=False
    )
    for rate, point in zip(rates, told.points, strict=True):
        model = DropoutClassifier((3,), rate, epochs=2).fit(X, labels)
        shares = model.predict_proba(other_X)[np.arange(12), (other_labels == "b").astype(int)]
        found.append(compare(point.loss or 0.0, "==", scale * -np.log(shares).mean(), f"classifier at {rate}"))
    told = tune_rates(
        DropoutRegressor((3,), noise=0.5, epochs=2), (X, y), (other_X, other_y), scan=rates, progress=False
    )
    for rate, point in zip(rates, told.points, strict=True):
        score = DropoutRegressor((3,), rate, 0.5, epochs=2).fit(X, y).score(other_X, other_y)
        found.append(compare(point.loss or 0.0, "==", -scale * score, f"regressor at {rate}"))
    rows, columns, values = _rated(5, 8, 6)
    own = DropoutCompletion(2, sweeps=2, dtype="float64")
    told = tune_rates(
        DropoutCompletionCV(2, estimator=own, drops=rates),
        (rows, columns, values),
        (rows[::2], columns[::2], values[::2] + 0.3),
        progress=False,
    )
    for rate, point in zip(rates, told.points, strict=True):
        fitted = DropoutCompletion(2, rate, sweeps=2, dtype="float64").fit((rows, columns, values))
        errors = (values[::2] + 0.3 - fitted.predict(rows[::2], columns[::2])) ** 2
        found.append(compare(point.loss or 0.0, "==", scale * errors.mean(), f"completion at {rate}"))
    # every table says which of its rates has the least loss
    for name, scan in (("ridge", ridge), ("ridge, left out", left), ("completion", told)):
        losses = dict(zip(rates, (point.loss or math.inf for point in scan.points), strict=True))
        least = min(losses, key=losses.__getitem__)
        found.append(compare(scan.best, "==", scale * least, f"the best rate, {name}"))
    if scale != 1:
        return found
    chain = nn.Sequential(nn.Dropout(0.2), linear_head(1, 2, 2), nn.Dropout(0.2), linear_head(3, 2, 1)).requires_grad_()
    data, held = sample(5, 12, 2, 1), sample(6, 9, 2, 1)
    split = tune_rates(chain, data, held, scan=(0.1, 0.5), split="factorial", progress=False)
    found.append(compare(split.cost.copies, "==", 0, "no copies where algebra reaches"))
    best = min((point for point in split.points if point.stage == "scan"), key=lambda point: point.loss or math.inf)
    found.append(compare(split.best, "==", scale * best.rate, "the best rate of an exact scan"))
    return found
