"""What claims on copies that are kept compare: broken and resumed trainings, rows on disk, looks, what is put back."""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from droptics.audits.batches import Batch
from droptics.evidence.claims import Comparison, compare
from droptics.evidence.engines import Local
from droptics.losses import CrossEntropy, Squared
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor
from droptics.rates.copies import Checkpoint, Problem, _Record, _row, same_bits, train_copies
from droptics.rates.examples import Examples
from droptics.rates.fits import Fit
from droptics.rates.keeping import unwritten
from droptics.rates.places import Place, read_places, set_rates
from droptics.rates.running import Runner, _identity, _trained

CPU = torch.device("cpu")


def kept_copies(scale: float) -> list[Comparison]:
    """Trainings that were broken off, rows that are kept, looks in words and numbers, modules as they were."""
    return by_parts((_resumed, _rows, _looks, _modules, _places, _tossed, _taught), scale)


def _problem(seed: int = 1, **more: Any) -> Problem:
    module = nn.Sequential(linear_head(seed, 3, 4), nn.Tanh(), nn.Dropout(0.5), linear_head(3, 4, 2)).requires_grad_()
    data, held = (normal(4, 20, 3), torch.arange(20) % 2), (normal(5, 8, 3), torch.arange(8) % 2)
    train, checked = Examples.of(data, "train", CPU), Examples.of(held, "validation", CPU)
    given = {"fit": Fit(3, 8, "adam", 0.05, looks=9), "before": {"2": 0.5}}
    return replace(Problem(module, train, train, checked, CrossEntropy(), given["fit"], given["before"]), **more)  # type: ignore[arg-type]


def _normed(last: bool) -> Problem:
    """Copies with running moments, compared at their best or in the mean of their last looks."""
    problem = _problem()
    first, bend, mask, head = problem.module.children()
    module = nn.Sequential(first, nn.BatchNorm1d(4).double(), mask, nn.Sequential(bend, head))
    fit = Fit(3, 8, "adam", 0.05, stop="last" if last else "best", looks=9, tail=2)
    return replace(problem, module=module, fit=fit)


class _Broken(Exception):
    """A training that ends in the middle."""


def _resumed(scale: float) -> list[Comparison]:
    """A training that is broken off goes on from its last look and ends in the same numbers; others begin anew."""
    found: list[Comparison] = []
    rates = [{"2": 0.2}, {"2": 0.6}]
    with tempfile.TemporaryDirectory() as name:
        # copies together are broken off after 5 steps of both, those in turn after all of the first, 3 of the second
        for form, normed, last, left in (
            ("population", False, False, [10, *[2] * 4]),
            ("population", True, True, [10, *[2] * 4]),
            ("single", True, False, [9, 3, *[1] * 6]),
        ):
            problem = partial(_normed, last) if normed else _problem
            label = f"{form}, normed {normed}"
            place = Checkpoint(str(Path(name) / f"{label}.safetensors"), "this")
            whole = train_copies(problem(), rates, 7, form)  # type: ignore[arg-type]
            ticks: list[int] = []

            def broken(steps: int, ticks: list[int] = ticks, form: str = form) -> None:
                ticks.append(steps)
                if len(ticks) == (5 if form == "population" else 12):
                    raise _Broken

            try:
                train_copies(problem(), rates, 7, form, place, broken)  # type: ignore[arg-type]
            except _Broken:
                ticks.append(-1)
            found.append(same(ticks[-1], -1, f"broken off, {label}", scale))
            later: list[int] = []
            again = train_copies(problem(), rates, 7, form, place, later.append)  # type: ignore[arg-type]
            found.append(same(later, left, f"steps that are left, {label}"))
            for row, wanted in zip(again, whole, strict=True):
                own = f"{label}, {wanted['step']}"
                found.append(compare(row["losses"], "==", scale * tensor(wanted["losses"]), f"losses, {own}", 1e-12))
                found.append(compare(row["training"], "==", scale * wanted["training"], f"training, {own}", 1e-12))
                looks = scale * tensor(wanted["looks"])
                found.append(compare(row["looks"], "==", looks, f"looks, {own}", 1e-12))
                found.append(same(row["step"], wanted["step"], f"best step, {own}", scale))
            other: list[int] = []
            train_copies(problem(), rates, 7, form, replace(place, identity="other"), other.append)  # type: ignore[arg-type]
            found.append(same(other, [2] * 9 if form == "population" else [1] * 18, f"another training, {label}"))
        torn = Path(name) / "torn.safetensors"
        torn.write_bytes(b"torn")
        fresh: list[int] = []
        train_copies(_problem(), rates, 7, "population", Checkpoint(str(torn), "this"), fresh.append)
        found.append(same(fresh, [2] * 9, "a torn file"))
    found += _numbered(scale, rates)
    found.append(same(same_bits(_problem(), rates, 7) is not None, True, "together"))
    return found


class Scaled(nn.Module):
    """A module that takes a number beside its examples."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = _problem().module

    def forward(self, value: Tensor, factor: float) -> Tensor:
        return self.inner(factor * value)


def _numbered(scale: float, rates: list[dict[str, float]]) -> list[Comparison]:
    """Copies that take a number beside their tensors are those that have it in their inputs."""
    found: list[Comparison] = []
    factor, labels = 1.5, torch.arange(20) % 2
    given = [{"value": normal(4, 20, 3), "factor": factor, "labels": labels}]
    examples = Examples.of(given, "train", CPU)
    plain = Examples.of((factor * normal(4, 20, 3), labels), "train", CPU)
    many = replace(_problem(), module=Scaled(), train=examples, probe=examples, validation=examples, before={})
    bare = replace(_problem(), train=plain, probe=plain, validation=plain)
    inner = [{"inner.2": one["2"]} for one in rates]
    wanted = train_copies(replace(bare, module=Scaled().inner), [{"2": 0.0}] * 2, 7, "population")
    told = train_copies(many, [dict.fromkeys(one, 0.0) for one in inner], 7, "population")
    for one, other in zip(told, wanted, strict=True):
        found.append(compare(one["losses"], "==", scale * tensor(other["losses"]), "a number beside", 1e-12))
    base: dict[str, Any] = {"value": normal(4, 20, 3), "factor": factor, "labels": labels}
    others: tuple[dict[str, Any], ...] = ({}, {"factor": 1.5}, {"factor": 1.6}, {"value": -normal(4, 20, 3)})
    told_of = [Examples.of([base | other], "train", CPU).digest() for other in others]
    found.append(same((told_of[1] == told_of[0], len(set(told_of))), (True, 3), "examples by all that has a name"))
    return found + _some(scale, plain)


def _some(scale: float, examples: Examples) -> list[Comparison]:
    """Some examples are drawn, each once and in their order, with their labels, others from other seeds."""
    whole, drawn = examples.parts[0], [examples.some(9, seed).parts[0] for seed in range(3)]
    places = [(part.arguments[0][:, None] == whole.arguments[0]).all(-1).int().argmax(1).tolist() for part in drawn]
    found = [same(len({tuple(own) for own in places}), 3, "others from other seeds", scale)]
    for own, part in zip(places, drawn, strict=True):
        found.append(same((own == sorted(set(own)), len(own)), (True, 9), "each once, in order"))
        found.append(compare(part.arguments[0], "==", scale * whole.arguments[0][own], "some examples"))
        found.append(same(torch.equal(part.targets, whole.targets[own]), True, "their labels"))
    return [*found, same(examples.some(20, 1) is examples, True, "all of them", scale)]


def _rows(scale: float) -> list[Comparison]:
    """Copies are kept under names of all that they depend on; what is kept is not trained again."""
    found: list[Comparison] = []
    settings = [{"2": 0.2}, {"2": 0.6}]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)

        def runner(problem: Problem, where: Path | None = folder) -> Runner:
            return Runner(problem, "apart", Local(), where, False)

        first = runner(_problem())
        told = first.run(settings, [3, 4], "scan")
        alone = [[train_copies(_problem(), [one], seed, "population")[0] for seed in (3, 4)] for one in settings]
        for got, rows in zip(told, alone, strict=True):
            losses = tensor([row["losses"] for row in rows])
            found.append(compare(got.losses, "==", scale * losses, "losses of seeds", 1e-12))
            found.append(
                compare(got.training, "==", scale * tensor([row["training"] for row in rows]), "training", 1e-12)
            )
            found.append(same(list(got.steps), [row["step"] for row in rows], "best steps"))
        found.append(same((first.copies, first.resumed), (4, 0), "trained"))
        kept = sorted(folder.iterdir())
        found.append(same([file.suffix for file in kept], [".json"] * 4, "files"))
        second = runner(_problem())
        again = second.run(settings, [3, 4], "scan")
        found.append(same((second.copies, second.resumed), (4, 4), "kept"))
        found.append(same(all(torch.equal(a.losses, b.losses) for a, b in zip(told, again, strict=True)), True, ""))
        for file, content in zip(kept, ("torn", json.dumps({"losses": [1.0]}), json.dumps([1])), strict=False):
            file.write_text(content, encoding="utf-8")
        third = runner(_problem())
        third.run(settings, [3, 4], "scan")
        found.append(same(third.resumed, 1, "rows that cannot be read are trained again", scale))
        more = runner(_problem())
        more.run([*settings, {"2": 0.4}], [3], "scan")
        found.append(same((more.copies, more.resumed), (3, 2), "one more rate"))
        places = [more._checkpoint(names) for names in (["a"], ["b"], ["a", "b"], ["a", "c"], ["b", "a"])]
        several = {place.path for place in places if place is not None}
        found.append(same(len(several), 5, "a place of its own for every population"))
        told_of = {(place.identity, Path(place.path).parent) for place in places if place is not None}
        found.append(same(told_of, {(_identity(_problem()), folder)}, "of this training, in its folder", scale))
        found.append(same(runner(_problem(), None)._checkpoint(["a"]), None, "nothing is kept without a folder", scale))
    base = _problem()
    labels = (normal(5, 8, 3), (torch.arange(8) + 1) % 2)
    shorter = Fit(2, 8, "adam", 0.05, looks=9)
    others = {
        "weights": _problem(2),
        "fit": _problem(fit=shorter),
        "loss": _problem(loss=Squared()),
        "rates": _problem(before={"2": 0.4}),
        "data": _problem(train=base.validation),
        "held": _problem(validation=Examples.of(labels, "validation", CPU)),
    }
    frozen, bent = _problem(), _problem()
    frozen.module[0].requires_grad_(False)  # type: ignore[index]
    bent.module[1] = nn.LeakyReLU()  # type: ignore[operator]
    others |= {"frozen": frozen, "a layer without weights": bent}
    own = _identity(base)
    found.append(same(_identity(_problem()), own, "the same training"))
    for name_, other in others.items():
        found.append(same(_identity(other) == own, False, f"another one: {name_}"))
    found.append(same(runner_key(base, 3) != runner_key(base, 4), True, "another seed"))
    rows = [{"losses": None, "training": None, "step": 2}, {"losses": [1.0, 2.0, 4.0], "training": 0.5, "step": None}]
    lost = _trained(rows)
    found.append(same(lost.losses.tolist(), [[math.inf] * 3, [1.0, 2.0, 4.0]], "a copy that diverged"))
    found.append(same((lost.training, lost.steps), ((math.inf, 0.5), (2, None)), "its numbers"))
    found.append(same(_trained(rows[:1]).losses.shape[1], 2, "all diverged", scale))
    return found


def runner_key(problem: Problem, seed: int) -> str:
    """The name of a copy."""
    return Runner(problem, "apart", Local(), None, False)._key({"2": 0.2}, seed, "single", None)


def _looks(scale: float) -> list[Comparison]:
    """The best look, or the mean of the tail, copy by copy; what is not finite stays so."""
    found: list[Comparison] = []
    losses = [tensor([[4.0, 2.0], [1.0, 1.0]]), tensor([[1.0, 3.0], [2.0, 5.0]]), tensor([[6.0, 0.0], [0.5, 0.5]])]
    training = [tensor([0.1, 0.2]), tensor([0.3, 0.4]), tensor([0.5, 0.6])]

    def seen(tail: list[int]) -> _Record:
        record = _Record(2, 2, tail)
        for step, (one, own) in enumerate(zip(losses, training, strict=True), 1):
            record.look(10 * step, one, own)
        return record

    best = seen([]).rows()
    found.append(same([row["losses"] for row in best], [[1.0, 3.0], [0.5, 0.5]], "the best look"))
    found.append(same([(row["step"], row["training"]) for row in best], [(20, 0.3), (30, 0.6)], "its step"))
    looks = [
        [[10.0, 3.0, 0.1], [20.0, 2.0, 0.3], [30.0, 3.0, 0.5]],
        [[10.0, 1.0, 0.2], [20.0, 3.5, 0.4], [30.0, 0.5, 0.6]],
    ]
    found.append(same([row["looks"] for row in best], looks, "every look"))
    tail = seen([20, 30]).rows()
    mean = scale * (losses[1] + losses[2]) / 2
    found.append(compare([row["losses"] for row in tail], "==", mean, "the tail"))
    found.append(compare([row["training"] for row in tail], "==", scale * tensor([0.4, 0.5]), "training of the tail"))
    found.append(same([row["step"] for row in tail], [30, 30], "the last step"))
    whole = seen([10, 20, 30]).rows()
    found.append(compare([row["losses"] for row in whole], "==", scale * sum(losses) / 3, "a tail of three"))
    found.append(compare([row["training"] for row in whole], "==", scale * sum(training) / 3, "training of three"))
    record = seen([])
    copied = _Record(2, 2, [])
    copied.restore(record.best, record.state())
    found.append(same(copied.rows(), record.rows(), "restored"))
    never = _Record(1, 2, [])
    never.look(5, tensor([[math.inf, 1.0]]), tensor([math.inf]))
    never.look(9, tensor([[math.inf, 2.0]]), tensor([1.0]))
    (row,) = never.rows()
    lost = (row["losses"], row["training"], row["step"], row["looks"])
    found.append(same(lost, (None, None, 5, [[5.0, None, None], [9.0, None, 1.0]]), "never finite"))
    plain = _row(tensor([1.0, math.nan]), 2.0, 3, [[1.0, math.nan]])
    found.append(same(plain, {"losses": None, "training": 2.0, "step": 3, "looks": [[1.0, None]]}, "a row"))
    return found


class Writes(nn.Module):
    """Keeps things while it runs."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.kept, self.count = [1], {"a": 1}, 0
        self.register_buffer("state", torch.zeros(2))

    def forward(self, inputs: Tensor) -> Tensor:
        self.seen.append(2)
        self.kept["b"] = 2
        self.count += 1
        self.last = inputs
        self.state = inputs[0]
        return inputs


def _modules(scale: float) -> list[Comparison]:
    """What a pass writes on a module is put back, also after an exception."""
    found: list[Comparison] = []
    for fails in (False, True):
        module = Writes()
        seen, kept, state = module.seen, module.kept, module.state
        try:
            with unwritten(module):
                module(normal(1, 3, 2))
                found.append(same((module.seen, module.count), ([1, 2], 1), "within"))
                if fails:
                    raise _Broken
        except _Broken:
            pass
        told = (module.seen, module.kept, module.count, hasattr(module, "last"))
        found.append(same(told, ([1], {"a": 1}, 0, False), f"put back, {fails}"))
        held = (module.seen is seen, module.kept is kept, module.state is state)
        found.append(same(held, (True, True, True), f"the same objects, {fails}"))
    return found


class Tossing(nn.Module):
    """Draws numbers of its own, and tells which and what its dropout kept; a buffer is added before its last layer."""

    def __init__(self, tell: Callable[[tuple[float, Tensor]], None]) -> None:
        super().__init__()
        self.drop, self.last, self.tell = nn.Dropout(0.5), linear_head(3, 3, 2).requires_grad_(), tell
        self.register_buffer("shift", normal(6, 3))

    def forward(self, inputs: Tensor) -> Tensor:
        kept = self.drop(torch.ones_like(inputs))
        if self.training:
            self.tell((float(torch.rand(())), kept > 0))
        return self.last(inputs * kept + self.shift)


def _tossed(scale: float) -> list[Comparison]:
    """Masks and numbers that a module draws itself are others in every step and from every seed, and copies share them.

    Steps of no length leave the losses of the module, buffers included.
    """
    inputs, labels = normal(4, 8, 3), torch.arange(8) % 2
    data = Examples.of((inputs, labels), "train", CPU)
    fit = Fit(3, 8, "sgd", 1e-30, looks=1)
    seen: list[list[tuple[float, Tensor]]] = []
    for rate, seed in ((0.3, 7), (0.6, 7), (0.3, 8)):
        seen.append([])
        module = Tossing(seen[-1].append)
        parts: dict[str, Any] = {"train": data, "probe": data, "validation": data, "before": {"drop": 0.5}}
        (row,) = train_copies(_problem(module=module, fit=fit, **parts), [{"drop": rate}], seed, "single")
    numbers, masks = [[one for one, _ in rows] for rows in seen], [[one for _, one in rows] for rows in seen]
    own = nn.functional.cross_entropy(module.last(inputs + normal(6, 3)), labels, reduction="none")
    stays = all(bool((low | ~high).all()) for low, high in zip(*masks[:2], strict=True))
    return [
        compare(row["losses"], "==", scale * own.detach(), "losses of the module"),
        same([len(rows) for rows in seen], [3, 3, 3], "a pass a step"),
        same(len({*numbers[0], *numbers[2]}), 6, "numbers of steps and seeds", scale),
        same(numbers[1], numbers[0], "copies draw alike"),
        same(len({str(mask.tolist()) for mask in (*masks[0], *masks[2])}), 6, "masks of steps and seeds", scale),
        same(stays, True, "what stays at a higher rate stays at a lower one"),
    ]


def _taught(scale: float) -> list[Comparison]:
    """A function gets a copy in training mode and the seed; losses are those of what it trained, in evaluation mode."""
    calls: list[tuple[bool, float, int, Any]] = []

    def teach(module: nn.Module, data: Any, seed: int) -> None:
        norm, drop, last = module.children()
        calls.append((module.training, drop.p, seed, data))  # type: ignore[arg-type]
        with torch.no_grad():
            norm.running_mean.add_(0.5)  # type: ignore[operator]
            last.bias.add_(2.0)  # type: ignore[operator]

    head = linear_head(3, 3, 2)
    module = nn.Sequential(nn.BatchNorm1d(3).double(), nn.Dropout(0.5), head).requires_grad_()
    problem = _problem(module=module, fit=teach, before={"1": 0.5}, data="the data")
    rows = train_copies(problem, [{"1": 0.2}, {"1": 0.6}], 7, "single")
    found = [same(calls, [(True, rate, 7, "the data") for rate in (0.2, 0.6)], "what the function gets")]
    for batch, name in ((problem.validation.parts[0], "losses"), (problem.probe.parts[0], "training")):
        hidden = (batch.arguments[0] - 0.5) / (1 + 1e-5) ** 0.5
        own = nn.functional.cross_entropy(head(hidden) + 2.0, batch.targets, reduction="none").detach()
        wanted = own if name == "losses" else own.mean()
        found += [compare(row[name], "==", scale * wanted, f"{name} of a function") for row in rows]
    return found


class Quiet(nn.Module):
    """A dropout that is never on."""

    def forward(self, inputs: Tensor) -> Tensor:
        return nn.functional.dropout(inputs, 0.3, False)


class Held(nn.Module):
    """Rates in attributes of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.drop_a, self.rate, self.p, self.size = 0.5, 0.25, 0.125, 0.5
        self.dropped, self.drop_text, self.drop_number = True, "0.5", torch.tensor(0.75)
        self.inner, self.layer = nn.GRU(2, 2, 2, dropout=0.5), nn.Dropout2d(0.5)
        self.zero, self.off = nn.Dropout(0.0), Quiet()

    def forward(self, inputs: Tensor) -> Tensor:
        hidden = nn.functional.dropout(inputs, self.drop_a, self.training)
        hidden = self.off(self.zero(hidden))
        return self.layer(hidden[:, :, None, None])[..., 0, 0] * (torch.rand_like(hidden) > 0.1)


def _places(scale: float) -> list[Comparison]:
    """Where rates are held: by layers, by the one attribute that is called so and holds the number; what is not."""
    found: list[Comparison] = []
    for name, before, attribute in (
        ("dropout", 0.5, "drop_a"),
        ("dropout", 0.25, "rate"),
        ("dropout", 0.125, "p"),
        ("dropout", 1.0, None),
        ("dropout", 0.75, None),
        ("dropout", None, None),
        ("dropout", 0.3, None),
        ("absent.dropout", 0.5, None),
    ):
        module = Held()
        left = set_rates(module, {name: 0.9}, {} if before is None else {name: before})
        found.append(same(left, [] if attribute else [name], f"{name} at {before}"))
        if attribute:
            found.append(compare(getattr(module, attribute), "==", scale * 0.9, f"{attribute} is set"))
    module = Held()
    left = set_rates(module, {"layer": 0.1, "inner.gru_dropout": 0.2, "layer.dropout2d": 0.1}, {})
    found.append(same((left, module.layer.p, module.inner.dropout), ([], 0.1, 0.2), "layers"))
    places, others = read_places(Held(), Batch((normal(1, 3, 2),), {}, torch.zeros(3), 3))
    wanted = [Place("dropout", "dropout", 0.5), Place("zero", "dropout", 0.0), Place("layer", "dropout2d", 0.5)]
    found.append(same(places, wanted, "places as they run"))
    found.append(same(len(others), 1, "masks by hand", scale))
    words = "train: the forward pass of Linear fails on it"
    batch = Batch((normal(1, 3, 2),), {}, torch.zeros(3), 3)
    found.append(refuses(lambda: read_places(nn.Linear(5, 2).double(), batch), words, "a pass that fails"))
    return found
