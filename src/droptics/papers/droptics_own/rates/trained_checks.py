"""What the claim on functions that train copies compares: their calls, with rates and seeds, and what is told."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor
from droptics.rates import Fit, Rates, tune_rates
from droptics.rates.splits import halves

SITES = {"one": 0.4, "two": 0.5, "three": 0.6}
SCAN = (0.8, 0.05, 0.3)
Call = tuple[dict[str, float], int]


class Level(nn.Module):
    """Three sites before a linear layer, of which a training finds the slopes and, but for its rates, the offset."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two, self.three = (nn.Dropout(rate) for rate in SITES.values())
        self.last = nn.Linear(3, 2).double()
        with torch.no_grad():
            self.last.weight.copy_(normal(11, 2, 3))
            self.last.bias.copy_(normal(12, 2))

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.three(self.two(self.one(inputs))))


def level(rates: Mapping[str, float], seed: int) -> Tensor:
    """What a training at these rates from this seed ends in: two sites have their best rate beside 0.3, up and down."""
    odds = {name: math.log(rate / (1 - rate)) - math.log(0.3 / 0.7) for name, rate in rates.items()}
    noise = 0.01 * normal(seed % 1000, 2)
    return tensor([odds["one"] - 0.4, odds["two"] + 0.6]) + 0.1 * odds["three"] + noise


def _trainer(calls: list[Call], returns: bool) -> Callable[[nn.Module, Any, int], nn.Module | None]:
    """A training that is written down: in place, or of a module of its own that it returns."""

    def train(module: Any, data: Any, seed: int) -> nn.Module | None:
        rates = {name: float(getattr(module, name).p) for name in SITES}
        calls.append((rates, seed))
        own = copy.deepcopy(module) if returns else module
        with torch.no_grad():
            own.last.weight.copy_(torch.eye(2, 3))
            own.last.bias.copy_(level(rates, seed))
        return own if returns else None

    return train


def _data(seed: int, examples: int) -> tuple[Tensor, Tensor]:
    inputs = normal(seed, examples, 3)
    return inputs, inputs[:, :2] + 0.1 * normal(seed + 1, examples, 2)


def trained_copies(scale: float) -> list[Comparison]:
    """Calls of a function that trains, rates and seeds of every stage, and what the answer says of its losses."""
    found: list[Comparison] = []
    train, held = _data(1, 12), _data(3, 12)
    choosing, judging = halves(12)
    found.append(same(sorted([*choosing.tolist(), *judging.tolist()]), list(range(12)), "two halves"))
    calls, module = list[Call](), Level()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    asked: dict[str, Any] = {"split": "factorial", "groups": ("t*",), "repeats": 2, "guard": 3, "seed": 5}
    told = tune_rates(module, train, held, fit=_trainer(calls, False), scan=SCAN, **asked, progress=False)
    left = all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    rates = {name: getattr(module, name).p for name in SITES}
    found.append(same((left, rates), (True, SITES), "the module is left alone"))
    found += _stages(scale, told, calls)
    found += _told(scale, told, calls, [targets - inputs[:, :2] for inputs, targets in (train, held)])
    few = list[Call]()
    told = tune_rates(Level(), train, held, fit=_trainer(few, True), scan=SCAN, sites=["t*"], progress=False)
    wanted = [{"one": 0.4, "two": rate, "three": rate} for rate in sorted(SCAN)]
    found.append(same([rates for rates, _ in few], wanted, "sites that are not tuned keep their rates"))
    found.append(same((list(told.rates), list(told.skipped)), (["two", "three"], ["one"]), "and are named"))
    return found + _refused(train, held)


def _stages(scale: float, told: Rates, calls: list[Call]) -> list[Comparison]:
    """Three rates, four corners and four steps from two seeds; the answer and the tied rate from three others."""
    found = [same(len(calls), 2 * (3 + 4 + 4) + 3 * 2, "trainings", scale)]
    at = 0
    seeds: list[list[int]] = []
    for stage, count, repeats in (("scan", 3, 2), ("design", 4, 2), ("path", 4, 2), ("guard", 2, 3)):
        points = [point for point in told.points if point.stage == stage]
        found.append(same(len(points), count, f"points of {stage}"))
        rows = [calls[at + count * i : at + count * (i + 1)] for i in range(repeats)]
        at += count * repeats
        seeds.append([row[0][1] for row in rows])
        for row, seed in zip(rows, seeds[-1], strict=True):
            found.append(same({one for _, one in row}, {seed}, f"one seed for all of {stage}"))
            rates = [[given[name] for name in SITES] for given, _ in row]
            wanted = tensor([[point.rates[name] for name in SITES] for point in points])
            found.append(compare(rates, "==", scale * wanted, f"rates of {stage}"))
    found.append(same((seeds[0] == seeds[1] == seeds[2], len(set(seeds[0]))), (True, 2), "seeds"))
    found.append(same(len({*seeds[0], *seeds[3]}), 5, "a split is judged on seeds of its own", scale))
    found.append(same(all(rates["two"] == rates["three"] for rates, _ in calls), True, "a group has one rate"))
    return found


def _told(scale: float, told: Rates, calls: list[Call], rests: list[Tensor]) -> list[Comparison]:
    """Losses of every point, on the examples that are asked in its stage, and the split by those of the guard.

    `rests` are what the slopes leave of the targets that train, and of those that are held out.
    """
    found: list[Comparison] = []
    own, rest = rests
    choosing, judging = halves(12)
    seeds = {"guard": list(dict.fromkeys(seed for _, seed in calls[-6:]))}
    scanned = list(dict.fromkeys(seed for _, seed in calls[:6]))
    for point in told.points:
        examples = judging if point.stage == "guard" else torch.arange(12) if point.stage == "scan" else choosing
        ends = torch.stack([level(point.rates, seed) for seed in seeds.get(point.stage, scanned)])
        losses = (ends[:, None] - rest[examples]).square().sum(-1)
        name = f"{point.stage} {list(point.rates.values())}"
        found.append(compare(point.loss or 0.0, "==", scale * losses.mean(), f"loss, {name}"))
        training = (ends[:, None] - own).square().sum(-1).mean()
        found.append(compare(point.training_loss or 0.0, "==", scale * training, f"training loss, {name}"))
        found.append(same((point.copies, set(point.steps)), (len(ends), {None}), f"copies, {name}"))
    tied, split = (point for point in told.points if point.stage == "guard")
    found.append(same(list(tied.rates.values()), [0.3] * 3, "beside the tied rate"))
    both = [torch.stack([level(point.rates, seed) for seed in seeds["guard"]]) for point in (tied, split)]
    gaps = [(end[:, None] - rest[judging]).square().sum(-1) for end in both]
    gain = gaps[0] - gaps[1]
    error = (gain.mean(0).var() / 6 + gain.mean(1).var() / 3).sqrt()
    assert told.split is not None
    found.append(compare(told.split.difference or 0.0, "==", scale * gain.mean(), "gain"))
    found.append(compare(told.split.error or 0.0, "==", scale * error, "its error"))
    found.append(same(told.split.kept, True, "kept"))
    found.append(same(told.rates, split.rates, "the answer"))
    found.append(same((told.best, told.verdict), (0.3, "resolved"), "tied"))
    found.append(same((told.cost.copies, told.cost.together), (len(calls), False), "cost"))
    return found


def _refused(train: Any, held: Any) -> list[Comparison]:
    """What cannot be meant is said before anything is trained."""
    ridge = nn.Sequential(nn.Dropout(0.2), nn.Linear(3, 2).double())
    cases: tuple[tuple[Any, dict[str, Any], str], ...] = (
        (Level(), {"guard": 1}, "guard must be at least 2, got 1"),
        (Level(), {"fit": Level()}, "got the module Level"),
        (Level(), {"scan": (0.3, 0.3)}, "scan must hold at least two different rates"),
        (Level(), {"validation": None, "fit": Fit(1)}, "validation must be data"),
        (Level(), {"sites": ["x*"]}, "no site fits 'x*'"),
        (Level(), {"groups": ["x*"], "fit": Fit(1)}, "no site fits the pattern 'x*'"),
        (Level(), {"validation": (held[0][:7], held[1][:7])}, "at least 8 examples, got 7"),
        (Level().requires_grad_(False), {}, "no weights to train"),
        (ridge[1], {}, "no dropout whose rate could be tuned"),
    )
    found = []
    for module, options, words in cases:
        given = {"validation": held, "progress": False} | options
        found.append(refuses(lambda module=module, given=given: tune_rates(module, train, **given), words))
    return found
