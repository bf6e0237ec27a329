"""What the claims on tuned rates compare: scans by algebra, copies trained together, and what is concluded of them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from scipy import stats
from torch import Tensor, nn

from droptics.evidence.claims import Comparison, compare
from droptics.heads.ridge import DropoutRidge, DropoutRidgeCV
from droptics.losses import CrossEntropy
from droptics.papers.droptics_own.audits.audit_checks import every_coin, left_out_error, mean_over, squared, stack
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, sample, tensor
from droptics.rates import Fit, tune_rates
from droptics.rates import stationary as stationary_fits
from droptics.rates import verdicts as told
from droptics.rates.chains import chain_scan
from droptics.rates.copies import Problem, train_copies
from droptics.rates.designs import Effect
from droptics.rates.estimators import _losses
from droptics.rates.examples import Examples
from droptics.rates.points import gap_of
from droptics.rates.problems import read_problem
from droptics.rates.randomness import key, uniforms
from droptics.rates.running import Trained
from droptics.rates.splits import guarded, surest
from droptics.rates.tails import tail_scan

Pair = tuple[Tensor, Tensor]


def pair(seed: int, examples: int, inputs: int, outputs: int) -> Pair:
    """Examples as a pair."""
    data = sample(seed, examples, inputs, outputs)
    return data.inputs, data.targets


def taught(seed: int, examples: int) -> Pair:
    """Four inputs and two targets that follow them, with noise."""
    inputs = normal(seed, examples, 4)
    return inputs, inputs[:, :2] + 0.5 * inputs[:, 1:3] + normal(seed + 1, examples, 2)


def ridge(features: Tensor, targets: Tensor, strength: float) -> tuple[Tensor, Tensor]:
    """Weights and offset of a head trained to the end under dropout."""
    moved, wanted = features - features.mean(0), targets - targets.mean(0)
    system = moved.mT @ moved + strength * torch.diag(features.square().sum(0))
    weights = torch.linalg.solve(system, moved.mT @ wanted)
    return weights, targets.mean(0) - features.mean(0) @ weights


@torch.no_grad()
def head_rates(scale: float) -> list[Comparison]:
    """The scan of a trained head: losses at every rate on validation data and left out, best rate, constant, gap."""
    train, held, found = pair(1, 20, 3, 2), pair(4, 30, 3, 2), []
    module = stack((3, 4, 2), (0.3,), nn.Tanh).requires_grad_(False)
    module[3].requires_grad_(True)
    features = [module[:2](part) for part in (train[0], held[0])]
    rates = (0.0, 0.2, 0.6)
    with torch.enable_grad():
        answer = tune_rates(module, train, held, scan=rates, progress=False)
        alone = tune_rates(module, train, None, scan=rates, progress=False)
        lone = tune_rates(DropoutRidge(0.1), (train[0], train[1][:, 0]), None, scan=rates, progress=False)
        single = [(x, y[:, 0]) for x, y in (train, held)]
        fitted = tune_rates(DropoutRidge(0.1), single[0], single[1], scan=rates, progress=False)
    losses, others = [], []
    for rate, point, left, one, other in zip(
        rates, answer.points, alone.points, lone.points, fitted.points, strict=True
    ):
        weights, offset = ridge(features[0], train[1], scale * rate / (1 - rate))
        own = [(x @ weights + offset - y).square().sum(1) for x, (_, y) in zip(features, (train, held), strict=True)]
        losses.append(own[1])
        found.append(compare(point.loss or 0.0, "==", own[1].mean(), f"validation, {rate}", precision=1e-8))
        found.append(compare(point.error or 0.0, "==", own[1].std() / 30**0.5, f"its error, {rate}", precision=1e-8))
        found.append(compare(point.training_loss or 0.0, "==", own[0].mean(), f"training, {rate}", precision=1e-8))
        error = 2 * left_out_error(features[0], train[1], rate / (1 - rate))
        others.append([error])
        found.append(compare(left.loss or 0.0, "==", error, f"left out, {rate}", precision=1e-7))
        error = left_out_error(train[0], train[1][:, :1], rate / (1 - rate))
        others[-1].append(error)
        found.append(compare(one.loss or 0.0, "==", error, f"left out of an estimator, {rate}", precision=1e-7))
        weights, offset = ridge(train[0], train[1][:, :1], rate / (1 - rate))
        error = float((held[0] @ weights + offset - held[1][:, :1]).square().mean())
        others[-1].append(error)
        found.append(compare(other.loss or 0.0, "==", error, f"an estimator, {rate}", precision=1e-8))
        error = float((train[0] @ weights + offset - train[1][:, :1]).square().mean())
        for own_point in (one, other):
            found.append(
                compare(own_point.training_loss or 0.0, "==", scale * error, f"its training loss, {rate}", 1e-8)
            )
    best = min(range(3), key=lambda i: float(losses[i].mean()))
    apart = [losses[i] - losses[best] for i in range(3)]
    for point, gap in zip(answer.points, apart, strict=True):
        found.append(compare(point.difference or 0.0, "==", gap.mean(), "difference", precision=1e-8))
        found.append(compare(point.paired_error or 0.0, "==", gap.std() / 30**0.5, "paired error", precision=1e-8))
        clear = float(gap.mean() > 2 * gap.std() / 30**0.5)
        found.append(compare(float(point.alike), "==", 1 - clear, "told apart"))
    constant = (held[1] - held[1].mean(0)).square().sum(1).mean()
    found.append(compare(answer.constant or 0.0, "==", constant, "the best constant", precision=1e-7))
    leaving, closed = "exact leave-one-out", "closed form of the trained head"
    methods = [scanned.method for scanned in (answer, alone, lone, fitted)]
    found.append(same(methods, [closed, leaving, leaving, "fits of the estimator"], "methods", scale))
    for k, scanned in enumerate((alone, lone, fitted)):
        least = int(np.argmin([row[k] for row in others]))
        found.append(compare(scanned.best, "==", rates[least], f"the best rate, {k}"))
    found.append(compare(answer.best, "==", rates[best], "the best rate"))
    return [*found, *_estimated(scale), *_choosing(scale)]


def _choosing(scale: float) -> list[Comparison]:
    """An estimator that chooses its rate is asked at its own rates, with its own options: here without an offset."""
    inputs, targets = pair(1, 12, 3, 2)
    scanned = tune_rates(DropoutRidgeCV(drops=[0.6, 0.2], fit_intercept=False), (inputs, targets), None, progress=False)
    found = [same([point.rate for point in scanned.points], [0.2, 0.6], "its own rates", scale)]
    asked = tune_rates(DropoutRidgeCV(drops=[0.6, 0.2]), (inputs, targets), None, scan=(0.5, 0.1), progress=False)
    found.append(same([point.rate for point in asked.points], [0.1, 0.5], "rates that are asked for", scale))
    for point in scanned.points:
        errors = []
        for i in range(12):
            X, Y = inputs[torch.arange(12) != i], targets[torch.arange(12) != i]
            system = X.mT @ X + point.rate / (1 - point.rate) * torch.diag(X.square().sum(0))
            errors.append((inputs[i] @ torch.linalg.solve(system, X.mT @ Y) - targets[i]).square().sum())
        error = scale * torch.stack(errors).mean()
        found.append(compare(point.loss or 0.0, "==", error, f"left out without an offset, {point.rate}", 1e-7))
    return found


def _estimated(scale: float) -> list[Comparison]:
    """Losses of estimators: what they say of a label by its name, never infinite; squared errors of all targets."""
    chances = np.array([[0.2, 0.8], [1.0, 0.0], [0.5, 0.5], [0.0, 1.0]])
    labels, names = ["b", "b", "d", "d"], ["b", "d"]
    said = SimpleNamespace(classes_=np.array(names), predict_proba=lambda X: chances[X])
    rows = np.arange(4)[::-1]
    told = _losses(said, (rows, labels), "x")
    own = [chances[row][names.index(label)] for row, label in zip(rows, labels, strict=True)]
    wanted = [-math.log(max(chance, np.finfo(np.float64).tiny)) for chance in own]
    found = [compare(told, "==", scale * tensor(wanted), "what is said of labels")]
    for shape in ((4,), (4, 1), (4, 3)):
        guesses, targets = normal(1, *shape).numpy(), normal(2, *shape).numpy()
        errors = [float(np.square(a - b).sum()) for a, b in zip(guesses, targets, strict=True)]
        told = _losses(SimpleNamespace(predict=lambda X, own=guesses: own), (rows, targets), "x")
        found.append(compare(told, "==", scale * tensor(errors), f"squared errors of {shape}"))
    found.append(refuses(lambda: _losses(said, rows, "train"), "train must be a pair (X, y), got ndarray"))
    return found


class Branches(nn.Module):
    """Two branches, each with a mask of its own, behind something that is not trained."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(4, 3)
        self.first, self.second = nn.Dropout(0.5), nn.Dropout(0.3)
        self.left, self.up, self.right = nn.Linear(3, 2), nn.Linear(3, 3), nn.Linear(3, 2)
        with torch.no_grad():
            for number, value in enumerate(self.parameters()):
                value.copy_(normal(40 + number, *value.shape) / 2)
        self.body.requires_grad_(False)

    def forward(self, inputs: Tensor) -> Tensor:
        """The sum of both branches."""
        hidden = torch.tanh(self.body(inputs))
        return self.left(self.first(hidden)) + self.right(self.up(self.second(hidden)))


def stationary(scale: float) -> list[Comparison]:
    """Chains and affine tails, and what only looks like them."""
    return by_parts((_tuned_by_algebra, _look_alikes), scale)


def _tuned_by_algebra(scale: float) -> list[Comparison]:
    """The loss over all masks, where it is stationary, and how it answers to a rate."""
    found = list[Comparison]()
    layers = stack((4, 3, 2), (0.3, 0.6), nn.Identity)
    chain = nn.Sequential(*(layer for layer in layers if not isinstance(layer, nn.Identity)))
    train, held = taught(1, 12), taught(5, 20)
    searches = (("chain", chain, chain_scan), ("tail", Branches().double(), tail_scan))
    for name, module, search in searches if scale == 1 else searches[:1]:
        scan = search(read_problem(module, train, held, None, Fit(), None)[0])
        assert scan is not None
        strengths = tensor([scale * 0.2 / 0.8, scale * 0.45 / 0.55])
        own = _expected(module, scan.start, train, [0.2, 0.45])
        found.append(compare(scan.objective(scan.start, strengths), "==", own, f"loss, {name}"))
        wanted = (_outputs(module, scan.start, held[0], None) - held[1]).square().sum(-1)
        found.append(compare(scan.example_losses(scan.start), "==", scale * wanted, f"losses, {name}"))
        sites = list(scan.before)
        rates = dict(zip(sites, (0.2, 0.45), strict=True))
        fitted = scan.fitted(rates).requires_grad_()
        (slope,) = torch.autograd.grad(_expected(module, fitted, train, [0.2, 0.45]), fitted)
        # the search ends where a step gains less than 1e-15 of a loss of about 3
        found.append(compare(slope, "==", 0.0, f"slopes of the fit, {name}", precision=1e-5))
        # one site after the other, on all examples; then both as one group, on some of them
        step, some = 1e-3, torch.tensor([17, 2, 3, 11, 5, 8])
        effects = scan.effects(rates, {site: site for site in sites})
        effects |= scan.effects(rates, dict.fromkeys(sites, "both"), some)
        for site in (*sites, "both"):
            ends, asked = [], some if site == "both" else slice(None)
            for shift in (step, -step):
                odds = {one: math.log(r / (1 - r)) + shift * (site in (one, "both")) for one, r in rates.items()}
                moved = {one: 1 / (1 + math.exp(-value)) for one, value in odds.items()}
                weights = scan.fitted(moved).detach()
                ends.append((_outputs(module, weights, held[0], None) - held[1]).square().sum(-1))
            slopes = scale * (ends[0] - ends[1])[asked] / (2 * step)
            found.append(compare(effects[site].value, "==", slopes.mean(), f"effect of {site}, {name}", precision=1e-4))
            error = slopes.std() / len(slopes) ** 0.5
            found.append(compare(effects[site].error, "==", error, f"its error, {site}, {name}", precision=1e-3))
    return found


class Hooked(Branches):
    """The same with something else on one of its ways."""

    def __init__(self, change: Callable[[Tensor], Tensor], trained: bool = False) -> None:
        super().__init__()
        self.change = change
        self.body.requires_grad_(trained)

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = torch.tanh(self.body(inputs))
        return self.left(self.first(hidden)) + self.right(self.change(self.up(self.second(hidden))))


def _look_alikes(scale: float) -> list[Comparison]:
    """What algebra takes, and what looks like it: bent, normalized, multiplied or another loss, trained below."""
    found: list[Comparison] = []
    data = taught(1, 12), taught(5, 20)
    classes = tuple((x, (y[:, 0] > 0).long()) for x, y in data)
    straight = stack((4, 3, 2), (0.3, 0.6), nn.Identity)
    lines = [layer for layer in straight if not isinstance(layer, nn.Identity)]
    chain, tail, none = "chain", "tail", "none"
    cases: list[tuple[str, nn.Module, Any, str]] = [
        ("a chain", nn.Sequential(*lines), data, chain),
        ("a tail", Hooked(lambda value: 2 * value), data, tail),
        ("a tail divided by a number", Hooked(lambda value: value / 3), data, tail),
        ("what divides by it", Hooked(lambda value: torch.ones(3).double() / (3 + value)), data, none),
        ("bent", Hooked(torch.relu), data, none),
        ("bent by a comparison", Hooked(lambda value: value * (value > 0)), data, none),
        ("a second mask", Hooked(nn.Dropout(0.2)), data, none),
        ("a trained body", Hooked(lambda value: value, trained=True), data, none),
        ("normalized", Hooked(nn.BatchNorm1d(3)), data, none),
        ("normalized before", nn.Sequential(nn.BatchNorm1d(4), Hooked(lambda value: value)), data, none),
        ("a chain with a bent end", nn.Sequential(*lines, nn.ReLU()), data, none),
        ("a bent chain", stack((4, 3, 2), (0.3, 0.6), nn.Tanh), data, none),
        ("a normalized chain", nn.Sequential(*lines[:2], nn.BatchNorm1d(3), *lines[2:]), data, none),
        ("a chain of classes", nn.Sequential(*lines), classes, none),
        ("a tail of classes", Hooked(lambda value: value), classes, none),
    ]
    for name, module, (train, held), wanted in cases:
        fresh = copy.deepcopy(module).double()
        problem = read_problem(fresh, train, held, None, Fit(), None)[0]
        told = (chain_scan(problem) is not None, tail_scan(problem) is not None)
        first = chain if told[0] else tail if told[1] else none
        found.append(same(first, wanted, f"{name} is {wanted}", scale))
    train, held = data
    still = mock.Mock(return_value={"first": Effect(0.0, 0.0)})
    fits = stationary_fits.Stationary
    # where a fit ends, and what moves it, is asked above
    with mock.patch.object(stationary_fits, "STEPS", 1), mock.patch.object(fits, "effects", still):
        answer = tune_rates(Branches().double(), train, held, scan=(0.0, 0.3), sites=["fi*"], progress=False)
    method = "exact training loss of the affine tail"
    found.append(same((answer.method, list(answer.rates)), (method, ["first"]), "one site of two", scale))
    found.append(same(answer.skipped, {"second": "not among `sites`"}, "and the other one", scale))
    return found


def _parts(module: nn.Module, weights: Tensor) -> dict[str, Tensor]:
    chosen = {name: value for name, value in module.named_parameters() if value.requires_grad}
    split = weights.split([value.numel() for value in chosen.values()])
    return {name: part.reshape(value.shape) for (name, value), part in zip(chosen.items(), split, strict=True)}


def _outputs(module: nn.Module, weights: Tensor, inputs: Tensor, masks: tuple[Tensor, Tensor] | None) -> Tensor:
    """Outputs with given weights, under masks (masks, 1, units) of the two sites."""
    w = _parts(module, weights)
    one, two = (1.0, 1.0) if masks is None else masks
    if isinstance(module, Branches):
        hidden = torch.tanh(module.body(inputs))
        left = (hidden * one) @ w["left.weight"].mT + w["left.bias"]
        up = (hidden * two) @ w["up.weight"].mT + w["up.bias"]
        return left + up @ w["right.weight"].mT + w["right.bias"]
    hidden = (inputs * one) @ w["1.weight"].mT + w["1.bias"]
    return (hidden * two) @ w["3.weight"].mT + w["3.bias"]


def _expected(module: nn.Module, weights: Tensor, data: Pair, rates: list[float]) -> Tensor:
    w = _parts(module, weights)
    sizes = (3, 3) if isinstance(module, Branches) else (w["1.weight"].shape[1], len(w["1.weight"]))
    drops = [rate for rate, size in zip(rates, sizes, strict=True) for _ in range(size)]
    kept, chances = every_coin(drops)
    masks = (kept / (1 - tensor(drops)))[:, None, :].split(sizes, -1)
    outputs = _outputs(module, weights, data[0], (masks[0], masks[1]))
    return mean_over((outputs, chances), squared(data[1]))


def copies(scale: float) -> list[Comparison]:
    """Copies without masks train as torch.optim does, alone and together; looks, best steps and tails by hand.

    The last layer has a frozen bias, which stays. Inputs and hidden units drop at rates of their own.
    """
    labels = torch.arange(20) % 3, torch.arange(12) % 3
    train, held = (normal(1, 20, 4), labels[0]), (normal(2, 12, 4), labels[1])
    cpu, found = torch.device("cpu"), []
    module = stack((4, 5, 3), (0.5, 0.5), nn.Tanh)
    module[4].bias.requires_grad_(False)
    none, some = {"0": 0.0, "3": 0.0}, {"0": 0.15, "3": 0.4}
    fits = {
        "sgd": (Fit(7, 8, "sgd", 0.1, 0.01, 0.9, "last", 3, 2), torch.optim.SGD, {"momentum": 0.9}),
        "adam": (Fit(3, 8, "adam", 0.02, 0.01, stop="best", looks=9), torch.optim.Adam, {}),
        "adamw": (Fit(3, 8, "adamw", 0.02, 0.1, stop="best", looks=9), torch.optim.AdamW, {}),
    }
    for name, (fit, kind, options) in fits.items():
        examples, checked = Examples.of(train, "train", cpu), Examples.of(held, "validation", cpu)
        problem = Problem(module, examples, examples, checked, CrossEntropy(), fit, {})
        single = train_copies(problem, [none], 5, "single")[0]
        many = train_copies(problem, [none, some], 5, "population")
        if fit.stop == "last":
            found.append(compare(fit.tail_steps(200), "==", [190, 200], "steps of the tail"))
        for form, rates, row in (("alone", none, single), ("together", none, many[0]), ("under masks", some, many[1])):
            own = copy.deepcopy(module).eval()
            search = kind(own.parameters(), lr=scale * fit.step_size, weight_decay=fit.decay, **options)
            wanted, training, at = _by_torch(own, search, fit, (train, held), examples, rates)
            found.append(compare(row["losses"], "==", wanted, f"{name}, {form}", precision=1e-8))
            found.append(compare(row["training"], "==", training, f"training loss, {name}, {form}", precision=1e-8))
            found.append(compare(row["step"], "==", at, f"step, {name}, {form}"))
        again = train_copies(problem, [some], 5, "single")[0]
        found.append(compare(many[1]["losses"], "==", again["losses"], f"{name} with masks", precision=1e-8))
        apart = max(abs(a - b) for a, b in zip(again["losses"], single["losses"], strict=True))
        found.append(compare(apart, ">", 1e-3, f"{name}: masks matter"))
    return found


def _by_torch(
    own: nn.Sequential,
    search: torch.optim.Optimizer,
    fit: Fit,
    data: tuple[Pair, Pair],
    examples: Examples,
    rates: dict[str, float],
) -> tuple[Tensor, float, int]:
    """Losses at the best look of a loop with torch.optim, or their mean over the last two; three batches an epoch."""
    (train, held), looks = data, {}
    for step in range(3 * fit.epochs):
        epoch, place = divmod(step, 3)
        rows = examples.order(epoch, 5)[8 * place : 8 * place + 8]
        search.zero_grad()
        hidden = train[0][rows]
        for site, layers in (("0", own[1:3]), ("3", own[4:])):
            kept = uniforms(tuple(hidden.shape), key(5, step, site), torch.device("cpu")) >= rates[site]
            hidden = layers(hidden * kept / (1 - rates[site]))
        nn.functional.cross_entropy(hidden, train[1][rows]).backward()
        search.step()
        with torch.no_grad():
            looks[step + 1] = (
                nn.functional.cross_entropy(own(held[0]), held[1], reduction="none"),
                float(nn.functional.cross_entropy(own(train[0]), train[1])),
            )
    if fit.stop == "last":
        return (looks[20][0] + looks[21][0]) / 2, (looks[20][1] + looks[21][1]) / 2, 21  # in the last tenth
    at = min(looks, key=lambda step: float(looks[step][0].mean()))
    return (*looks[at], at)


def conclusions(scale: float) -> list[Comparison]:
    """Paired differences, which rates are told apart, the verdicts, and the share of the gap that a rate takes."""
    base = normal(1, 2, 30).square() + 1
    noise = 0.3 * normal(2, 3, 2, 30)
    losses = [base + 0.5 + noise[0], base + noise[1], base + 0.3 + noise[2]]
    found = []
    for a in losses:
        gaps = a - losses[1]
        parts = gaps.mean(0).var() / 30, gaps.mean(1).var() / 2
        square = parts[0] + parts[1]
        free = square**2 / (parts[0] ** 2 / 29 + parts[1] ** 2) if a is not losses[1] else tensor(math.inf)
        difference = told.compare(a, losses[1])
        found.append(compare(1 / difference.freedom, "==", scale / free, "degrees of freedom of its error"))
        needed = float(stats.t.ppf(0.95, float(free))) * square.sqrt()
        for factor in (0.99, 1.01):  # Student's test, just missed and just passed
            moved = told.compare(a - gaps.mean() + factor * needed, losses[1])
            sure = factor > 1 and a is not losses[1]
            found.append(compare(float(moved.sure), "==", float(sure), "surely larger"))
        found.append(compare(difference.value, "==", scale * gaps.mean(), "difference"))
        found.append(compare(difference.error, "==", scale * square.sqrt(), "its error"))
        clear = gaps.mean() > 2 * square.sqrt()
        found.append(compare(float(difference.clear), "==", float(clear), "told apart"))
    single = told.compare(losses[0][:1], losses[1][:1])
    found.append(compare(single.error, "==", (losses[0] - losses[1])[0].std() / 30**0.5, "one seed"))
    found.append(compare(told.standard_error(base[:1]), "==", base[0].std() / 30**0.5, "error of a mean"))
    high, flat = base + 5.0, base + 1e-6 * noise[0]
    cases = {
        "resolved": ((0.0, 0.2, 0.5), [base + 0.5, base, base + 0.3], 1),
        "flat": ((0.0, 0.2, 0.5), [flat, base, base + 0.3], None),
        "at the edge": ((0.0, 0.2, 0.5), [base + 0.5, base + 0.3, base], 2),
    }
    for verdict, (rates, given, place) in cases.items():
        best, said, _ = told.judge(rates, given, high[0])
        found.append(compare(float(said == verdict), "==", 1.0, verdict))
        if place is not None:
            found.append(compare(best, "==", place, f"best, {verdict}"))
    found.append(compare(float(told.judge((0.1, 0.2), [base, high], None)[1] == "at the edge"), "==", 1.0, "lowest"))
    found.append(compare(float(told.judge((0.0, 0.2), [base, high], None)[1] == "flat"), "==", 1.0, "no dropout"))
    found.append(compare(float(told.judge((0.0, 0.2), [high, base], base[0])[1] == "flat"), "==", 1.0, "a constant"))
    trained = [Trained(part, (own, own + 0.1), (None, None)) for part, own in zip(losses, (0.4, 0.7, 0.9), strict=True)]
    tied, apart = {"a": 0.2}, {"a": 0.4}
    gain = told.compare(losses[0], losses[1])
    kept, chosen, _ = guarded([tied, apart], trained[:2], "lower by")
    found.append(compare(kept.difference or 0.0, "==", gain.value, "gain of a split"))
    found.append(compare([float(kept.kept), chosen["a"]], "==", [1.0, 0.4] if gain.sure else [0.0, 0.2], "kept"))
    found.append(compare(guarded([tied, apart], trained[1::-1], "")[1]["a"], "==", 0.2, "a split that loses"))
    found.append(compare(surest(trained[0], trained[1:]), "==", 0, "the surest step"))
    gap = gap_of(trained, 1)
    assert gap is not None
    whole = losses[0].mean() - 0.45
    found.append(compare([gap.training_loss, gap.validation_loss], "==", [0.45, losses[0].mean()], "its two losses"))
    taken = told.compare(losses[0], losses[1])
    found.append(compare(gap.share or 0.0, "==", scale * (losses[0] - losses[1]).mean() / whole, "share of the gap"))
    found.append(compare(gap.error or 0.0, "==", taken.error / whole, "its error"))
    return found
