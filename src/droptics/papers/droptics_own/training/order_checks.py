"""Losses example by example, orders of batches, designs and paths of rates, and what is drawn for training."""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.audits.batches import Batch
from droptics.audits.criteria import (
    IGNORED,
    Entrywise,
    Labels,
    MeanSquared,
    OwnLoss,
    as_loss,
    fitted,
    guess_loss,
    mean_loss,
    parts,
)
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.papers.droptics_own.training.stream_checks import streams_in_full
from droptics.papers.instances import normal, tensor, uniform
from droptics.rates.copies import Problem
from droptics.rates.designs import Effect, effects, two_level
from droptics.rates.examples import Examples, example_losses, take
from droptics.rates.fits import Fit
from droptics.rates.problems import constant_losses
from droptics.rates.randomness import key
from droptics.rates.running import Trained
from droptics.rates.splits import divide, no_split, path
from droptics.rates.verdicts import alike


def rates_in_full(scale: float) -> list[Comparison]:
    """Losses by example, examples in order, designs, paths and splits, constants, trained weights step by step."""
    return [
        *_criteria(scale),
        *_examples(scale),
        *_designs(scale),
        *_constants(scale),
        *streams_in_full(scale),
    ]


def _criteria(scale: float) -> list[Comparison]:
    """Sums and weights of every kind of loss beside torch's, whole and in parts."""
    found: list[Comparison] = []
    logits, labels = normal(1, 4, 5, 3), torch.arange(20).reshape(4, 5) % 3
    labels[1, 2], labels[3] = IGNORED, torch.tensor([IGNORED] * 4 + [1])
    for smoothing, shift, axis in itertools.product((0.0, 0.1), (False, True), (-1, 1)):
        loss = Labels(axis, shift, smoothing)
        outputs = logits if axis == -1 else logits.mT.contiguous()
        sums, weights = parts(loss, outputs, labels)
        own = logits[:, :-1] if shift else logits
        goal = labels[:, 1:] if shift else labels
        rows = functional.cross_entropy(own.mT, goal, reduction="none", label_smoothing=smoothing, ignore_index=IGNORED)
        name = f"{smoothing}, {shift}, {axis}"
        found.append(compare(sums, "==", scale * rows.sum(1), f"labels, {name}"))
        found.append(compare(weights, "==", scale * (goal != IGNORED).sum(1), f"how many count, {name}"))
        whole = rows.sum() / (goal != IGNORED).sum()
        found.append(compare(mean_loss(loss, outputs, labels), "==", scale * whole, f"mean, {name}"))
    outputs, targets, classes = normal(2, 6, 3), normal(3, 6, 3), torch.arange(6) % 3
    chances, bits = uniform(4, 6, 3), (uniform(5, 6, 3) > 0.5).double()
    square, places = normal(7, 6, 3, 3), torch.arange(18).reshape(6, 3) % 3  # classes come second, as torch has them
    rows = functional.cross_entropy(square, places, reduction="none").mean(1)
    kinds: tuple[tuple[str, Any, Tensor, Tensor, Tensor], ...] = (
        ("squared", "squared", outputs, targets, (outputs - targets).square().sum(1)),
        ("mse", nn.MSELoss(), outputs, targets, (outputs - targets).square().mean(1)),
        ("mse function", functional.mse_loss, outputs, targets, (outputs - targets).square().mean(1)),
        ("l1", nn.L1Loss(), outputs, targets, (outputs - targets).abs().mean(1)),
        (
            "huber",
            nn.HuberLoss(delta=0.3),
            outputs,
            targets,
            functional.huber_loss(outputs, targets, "none", 0.3).mean(1),
        ),
        (
            "coins",
            nn.BCEWithLogitsLoss(),
            outputs,
            bits,
            functional.binary_cross_entropy_with_logits(outputs, bits, reduction="none").mean(1),
        ),
        (
            "chances",
            nn.BCELoss(),
            chances,
            bits,
            functional.binary_cross_entropy(chances, bits, reduction="none").mean(1),
        ),
        (
            "entropy",
            nn.CrossEntropyLoss(),
            outputs,
            classes,
            functional.cross_entropy(outputs, classes, reduction="none"),
        ),
        (
            "smooth",
            nn.CrossEntropyLoss(label_smoothing=0.2),
            outputs,
            classes,
            functional.cross_entropy(outputs, classes, reduction="none", label_smoothing=0.2),
        ),
        (
            "function",
            functional.cross_entropy,
            outputs,
            classes,
            functional.cross_entropy(outputs, classes, reduction="none"),
        ),
        *(
            (f"as many places as classes, {name}", loss, square, places, rows)
            for name, loss in (("function", functional.cross_entropy), ("module", nn.CrossEntropyLoss()))
        ),
        ("own", lambda a, b: (a - b).abs().sum(1), outputs, targets, (outputs - targets).abs().sum(1)),
        ("own matrix", lambda a, b: (a - b).abs(), outputs, targets, (outputs - targets).abs().mean(1)),
    )
    for name, loss, given, wanted, rows in kinds:
        told = fitted(as_loss(loss), given, wanted)
        sums, weights = parts(told, given, wanted)
        found.append(compare(sums / weights, "==", scale * rows, f"each, {name}"))
        found.append(compare(mean_loss(told, given, wanted), "==", scale * rows.mean(), f"mean, {name}"))
        batch = Batch((given,), {}, wanted, 6)
        found.append(compare(example_losses(told, given, batch), "==", scale * rows, f"examples, {name}"))
    weighed = nn.CrossEntropyLoss(weight=tensor([1.0, 2.0, 3.0]))
    sums, weights = parts(as_loss(weighed), outputs, classes)
    found.append(compare([len(sums), float(weights)], "==", [scale, 6.0 * scale], "one number for a batch"))
    found.append(compare(sums / weights, "==", scale * weighed(outputs, classes), "of weighed classes"))
    alone = torch.stack([weighed(outputs[i : i + 1], classes[i : i + 1]) for i in range(6)])
    told_alone = example_losses(as_loss(weighed), outputs, Batch((outputs,), {}, classes, 6))
    found.append(compare(told_alone, "==", scale * alone, "asked one by one"))
    column = fitted(as_loss(nn.MSELoss()), outputs[:, :1], targets[:, 0])
    sums, _ = parts(column, outputs[:, :1], targets[:, 0])
    found.append(compare(sums, "==", scale * (outputs[:, 0] - targets[:, 0]).square(), "one output"))
    large, many = normal(6, 5, 2**18), torch.arange(5) * 100
    sums, weights = parts(CrossEntropy(), large.float(), many)
    rows = functional.cross_entropy(large.float().double(), many, reduction="none")
    found.append(compare(sums, "==", scale * rows, "many outputs", 1e-9))
    found.append(compare(weights, "==", scale, "one each"))
    kinds_of = [
        isinstance(guess_loss(targets), Squared),
        isinstance(guess_loss(classes), CrossEntropy),
        isinstance(guess_loss(labels), Labels),
        isinstance(as_loss("model"), OwnLoss),
        isinstance(as_loss("logistic"), Logistic),
        isinstance(as_loss(nn.MSELoss()), MeanSquared),
        isinstance(as_loss(nn.L1Loss()), Entrywise),
        as_loss(weighed) is weighed,
        isinstance(fitted(CrossEntropy(), logits, labels), Labels),
        isinstance(fitted(Labels(1), outputs, classes), CrossEntropy),
        isinstance(fitted(Labels(1, smoothing=0.1), outputs, classes), Labels),
        fitted(Labels(1), logits, labels) == Labels(-1),
        fitted(Labels(-1), logits.mT, labels) == Labels(1),
        isinstance(fitted(MeanSquared(), outputs[:, :1], targets[:, :1]), Squared),
        isinstance(fitted(MeanSquared(), outputs, targets), MeanSquared),
    ]
    found.append(compare(tensor([float(one) for one in kinds_of]), "==", scale, f"kinds of losses {kinds_of}"))
    return found


def _examples(scale: float) -> list[Comparison]:
    """Orders, batches, parts and digests of examples."""
    found: list[Comparison] = []
    cpu = torch.device("cpu")
    X, Y = normal(1, 11, 2), torch.arange(11)
    whole = Examples.of((X, Y), "train", cpu)
    loader = [(X[:4], Y[:4]), (X[4:8], Y[4:8]), (X[8:], Y[8:])]
    joined = Examples.of(loader, "train", cpu)
    ragged = Examples.of([(X[:4], Y[:4]), (X[4:, :1], Y[4:])], "train", cpu)
    numbers = [whole.count, joined.count, ragged.count, whole.steps(4), ragged.steps(4), whole.units, ragged.units]
    found.append(compare(numbers, "==", tensor([11.0, 11, 11, 3, 2, 11, 11]) * scale, "counts"))
    flags = [whole.joined, joined.joined, not ragged.joined]
    found.append(compare(tensor([float(one) for one in flags]), "==", 1.0, "joined"))
    found.append(compare(joined.parts[0].arguments[0], "==", scale * X, "joined in order"))
    for size, wanted in ((4, [4, 3]), (11, [11]), (20, [11]), (10, [10, 1])):
        found.append(compare(whole.sizes(size), "==", tensor([float(one) for one in wanted]) * scale, f"sizes, {size}"))
    found.append(compare(ragged.sizes(3), "==", tensor([7.0, 4.0]) * scale, "sizes that stay"))
    for epoch, seed in ((0, 1), (2, 1), (0, 5)):
        digest = hashlib.sha256(f"{seed}/order/{epoch}".encode()).digest()[:8]
        own = torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
        found.append(compare(key(seed, "order", epoch) % 2**40, "==", scale * (own.initial_seed() % 2**40), "key"))
        order = torch.randperm(11, generator=own)
        found.append(compare(whole.order(epoch, seed), "==", scale * order, f"order, {epoch}, {seed}"))
        for place in range(3):
            batch = whole.batch(order, place, 4)
            rows = order[4 * place : 4 * place + 4]
            found.append(compare(batch.arguments[0], "==", scale * X[rows], f"batch, {place}"))
            found.append(
                compare(
                    [batch.count, *batch.targets.tolist()],
                    "==",
                    tensor([float(len(rows)), *Y[rows].double().tolist()]),
                    "its targets",
                )
            )
    found.append(compare(ragged.order(0, 1).sort().values, "==", tensor([0.0, 1.0]), "order of batches"))
    some = whole.some(5, 3)
    rows = whole.order(-1, 3)[:5].sort().values
    found.append(compare(some.parts[0].arguments[0], "==", scale * X[rows], "some of them"))
    found.append(compare(whole.some(11, 3).count, "==", scale * 11, "all of them"))
    cut = [part.arguments[0] for part in whole.in_order(4)]
    found.append(compare(torch.cat(cut), "==", scale * X, "as they came"))
    found.append(compare([len(part) for part in cut], "==", tensor([4.0, 4, 3]) * scale, "in batches"))
    one = take(Batch((X, "text"), {"more": Y, "scalar": torch.tensor(3.0)}, Y, 11), slice(2, 4))
    found.append(compare(one.options["more"], "==", tensor([2.0, 3.0]) * scale, "a part of an option"))
    found.append(
        compare(float(one.arguments[1] == "text") * float(one.options["scalar"]), "==", 3 * scale, "what stays")
    )
    other = Examples.of((X, (Y + 1) % 11), "train", cpu)
    texts = {whole.digest(), joined.digest(), other.digest(), ragged.digest()}
    found.append(compare(len(texts), "==", scale * 3, "digests"))
    return found


class _Copies:
    """Losses that are a known function of the rates, in the place of trained copies."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names, self.asked = names, list[tuple[str, int]]()

    def losses(self, setting: dict[str, float], seeds: Sequence[int]) -> Tensor:
        odds = [math.log(setting[name] / (1 - setting[name])) for name in self.names]
        value = 0.5 * (odds[0] + 1.5) ** 2 + 0.02 * odds[2] + 0.1 * (odds[1] - odds[0]) ** 2
        noise = torch.stack([0.01 * normal(seed, 30) for seed in seeds])
        return 2 + value + noise

    def run(self, settings: Sequence[Any], seeds: Sequence[int], stage: str) -> list[Trained]:
        self.asked.append((stage, len(settings) * len(seeds)))
        return [Trained(self.losses(one, seeds), (0.0,) * len(seeds), (None,) * len(seeds)) for one in settings]


def _designs(scale: float) -> list[Comparison]:
    """Orthogonal designs, their effects, paths along them, and the whole division of a rate."""
    found: list[Comparison] = []
    for sites in (1, 2, 3, 4, 5, 7, 8, 9, 11):
        signs = two_level(sites)
        copies = 4 if sites < 4 else 8 if sites < 8 else 12
        found.append(
            compare(list(signs.shape), "==", tensor([float(copies), float(sites)]) * scale, f"copies, {sites}")
        )
        found.append(compare(signs.mT @ signs, "==", copies * torch.eye(sites), f"orthogonal, {sites}"))
        found.append(compare(signs.sum(0), "==", 0.0, f"balanced, {sites}"))
        if sites in (2, 4):  # then products of two sites share nothing with the sites
            pairs = torch.stack([signs[:, i] * signs[:, j] for i, j in itertools.combinations(range(sites), 2)], 1)
            found.append(compare(signs.mT @ pairs, "==", 0.0, f"apart from products, {sites}"))
        losses = normal(sites, copies, 20)
        told = effects(signs, losses)
        full = two_level(copies - 1)
        spare = [float((full[:, [j]] * losses).mean(0).mean() ** 2) for j in range(sites, copies - 1)]
        noise = sorted(spare)[(len(spare) - 1) // 2] if len(spare) >= 3 else 0.0
        for j, effect in enumerate(told):
            each = (losses[signs[:, j] > 0].sum(0) - losses[signs[:, j] < 0].sum(0)) / copies
            found.append(compare(effect.value, "==", scale * each.mean(), f"effect, {sites}, {j}"))
            found.append(
                compare(effect.error, "==", scale * math.sqrt(float(each.var()) / 20 + noise), f"error, {sites}, {j}")
            )
    by_group = {"a": Effect(0.5, 0.1), "b": Effect(-1.0, 0.1), "c": Effect(0.3, 0.2)}
    group = {"x": "a", "y": "b", "z": "c", "w": "a"}
    told_path = path(by_group, group, 0.3, (0.5, 2.0))
    for step, setting in zip((0.5, 2.0), told_path, strict=True):
        for name, shift in (("x", -0.35), ("y", 0.7), ("z", 0.0), ("w", -0.35)):
            odds = 0.3 / 0.7 * math.exp(step * shift)
            found.append(compare(setting[name], "==", scale * odds / (1 + odds), f"path, {name}, {step}"))
    found.append(compare(len(path({"a": Effect(0.1, 0.06)}, {"x": "a"}, 0.3)), "==", 0.0, "nothing moves"))
    copies_of = _Copies(["x", "y", "z"])
    groups = {name: name for name in copies_of.names}
    tied = dict.fromkeys(groups, 0.4)
    center = copies_of.run([tied], [1, 2], "tied")[0]
    split, rates, told_effects, points = divide(copies_of, groups, 0.4, center, [1, 2], [7, 8])  # type: ignore[arg-type]
    found.append(
        compare([number for _, number in copies_of.asked], "==", tensor([2.0, 8, 8, 4]) * scale, "copies asked")
    )
    t = math.log(0.4 / 0.6)
    levels = two_level(3).tolist()
    means = [
        float(
            copies_of.losses(
                {n: 1 / (1 + math.exp(-t - 0.7 * s)) for n, s in zip(groups, row, strict=True)}, [1, 2]
            ).mean()
        )
        for row in levels
    ]
    for j, name in enumerate(groups):
        slope = sum(s[j] * m for s, m in zip(levels, means, strict=True)) / 4 / 0.7
        found.append(compare(told_effects[name].value, "==", scale * slope, f"effect per log-odds, {name}"))
    # the noise of a seed is the same for all, so that the surest copy is the best one
    best = min(means + [float(copies_of.losses(one, [1, 2]).mean()) for one in path(dict(told_effects), groups, 0.4)])
    reached = float(copies_of.losses(rates, [1, 2]).mean())
    found.append(compare(reached, "==", scale * best, "the best of the path and of the design"))
    found.append(compare(float(split.kept), "==", 1.0, "it is kept"))
    gain = (copies_of.losses(tied, [7, 8]) - copies_of.losses(rates, [7, 8])).mean()
    found.append(compare(split.difference or 0.0, "==", scale * gain, "its gain on fresh seeds"))
    found.append(compare(len(points), "==", scale * (4 + 4 + 2), "points told"))
    words = [no_split("flat", 0.3, {"a", "b"}), no_split("resolved", 0.0, {"a", "b"}), no_split("resolved", 0.3, {"a"})]
    found.append(
        compare(float(all(words)) + float(not no_split("resolved", 0.3, {"a", "b"})), "==", 2 * scale, "why not")
    )
    base = normal(9, 2, 40).square()
    near = alike([base + 0.01 * normal(8, 2, 40), base, base + 1.0], 1)
    found.append(compare(tensor([float(one) for one in near]), "==", tensor([1.0, 1.0, 0.0]) * scale, "told apart"))
    return found


def _constants(scale: float) -> list[Comparison]:
    """The best constant output: means for squares, shares for classes."""
    found: list[Comparison] = []
    cpu, X = torch.device("cpu"), normal(1, 12, 2)
    labels, numbers = torch.arange(12) % 5 % 3, normal(2, 12, 2)
    shares = torch.bincount(labels).double() / 12
    cases: tuple[tuple[str, Loss, Tensor, Tensor, int], ...] = (
        ("squares", Squared(), numbers, (numbers - numbers.mean(0)).square().sum(1), 2),
        ("classes", CrossEntropy(), labels, -shares.log()[labels], 3),
    )
    for name, loss, targets, wanted, outputs in cases:
        examples = Examples.of((X, targets), "train", cpu)
        module = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, outputs)).double()
        told = constant_losses(Problem(module, examples, examples, examples, loss, Fit(), {}))
        assert told is not None
        found.append(compare(told, "==", scale * wanted, f"constant, {name}", 1e-4))
    for epochs, stop, looks, tail, steps in ((20, "best", 10, 10, 37), (20, "last", 4, 3, 100), (5, "last", 9, 1, 6)):
        fit = Fit(epochs, stop=stop, looks=looks, tail=tail)  # type: ignore[arg-type]
        ends = [steps - math.floor(0.1 * steps * i / tail + 1e-12) for i in range(tail)] if stop == "last" else []
        taken = {round(steps * i / min(looks, steps)) for i in range(1, min(looks, steps) + 1)} | set(ends)
        found.append(compare(fit.look_steps(steps), "==", scale * tensor(sorted(map(float, taken))), f"looks, {steps}"))
    return found
