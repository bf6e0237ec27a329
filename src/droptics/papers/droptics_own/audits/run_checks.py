"""Runs of an audit with masks from outside: controls, outcomes, shared draws and means, from the same masks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import scipy.stats
import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.audits.batches import Batch
from droptics.audits.control import Guess, remainder, screen, share_out
from droptics.audits.criteria import Labels
from droptics.audits.outcomes import alone, outcomes, together, tree_cost
from droptics.audits.runs import Base, Law, Runs, draw, units
from droptics.audits.statements import _effective_rank
from droptics.audits.tails import Hidden, affine_sites
from droptics.audits.tallies import Mean, Tally
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor


def audits_in_full(scale: float) -> list[Comparison]:
    """Slopes, remainders, first looks, lists of outcomes, shared draws, and means with their intervals."""
    return by_parts((_runs, _turned, _stacked, _affine, _laws, _shared, _means), scale)


RATES = {"1": 0.3, "4": 0.4}


def _module() -> nn.Sequential:
    return nn.Sequential(
        linear_head(1, 3, 3), nn.Dropout(0.3), nn.Tanh(), linear_head(3, 3, 2), nn.Dropout(0.4), linear_head(5, 2, 3)
    )


def _losses(module: nn.Sequential, x: Tensor, goal: Tensor, masks: dict[str, Tensor], loss: Loss) -> Tensor:
    """Loss of every example under multipliers of the two sites."""
    hidden = module[0](x) * masks.get("1", torch.ones(())).double()
    hidden = module[3](torch.tanh(hidden)) * masks.get("4", torch.ones(())).double()
    outputs = module[5](hidden)
    if isinstance(loss, Squared):
        return (outputs - goal).square().sum(-1)
    return outputs.exp().sum(-1).log() - outputs[torch.arange(len(goal)), goal]


def _runs(scale: float) -> list[Comparison]:
    """Everything from the same masks, drawn once more."""
    found: list[Comparison] = []
    x = normal(7, 5, 3)
    goals: tuple[tuple[Loss, Tensor], ...] = ((Squared(), normal(8, 5, 3)), (CrossEntropy(), torch.arange(5) % 3))
    for loss, goal in goals:
        name, module = type(loss).__name__, _module()
        laws = {site: Law(site, rate, "entry") for site, rate in RATES.items()}
        runs = Runs(module, Batch((x,), {}, goal, 5), loss, laws, {})
        base = runs.base()
        ones = {"1": torch.ones(5, 3).double().requires_grad_(), "4": torch.ones(5, 2).double().requires_grad_()}
        plain = _losses(module, x, goal, ones, loss)
        slopes = torch.autograd.grad(plain.sum(), list(ones.values()))
        found.append(compare(base.sums, "==", scale * plain.detach(), f"without masks, {name}"))
        found.append(compare(base.weights, "==", scale, f"weights, {name}"))
        for site, slope in zip(RATES, slopes, strict=True):
            found.append(compare(base.slopes[site][0], "==", scale * slope, f"slopes of {site}, {name}"))
            found.append(compare(base.axes[site] or 0.0, "==", 0.0, f"examples of {site}, {name}"))
            count = float(units(base, site) or 0)
            found.append(compare(count, "==", scale * slope.shape[1], f"units of {site}, {name}"))
            rows = base.per_example(slope, site)
            found.append(compare(rows, "==", scale * slope.sum(1), f"per example, {site}, {name}"))
        found.append(compare(runs.spent, "==", 3 * scale, f"passes, {name}"))
        found += _remainders(scale, (runs, base), (module, x, goal, loss), dict(zip(RATES, slopes, strict=True)))
        found += _outcomes(scale, (runs, base), (module, x, goal, loss))
    return found


def _remainders(scale: float, how: tuple[Runs, Base], what: Any, slopes: dict[str, Tensor]) -> list[Comparison]:
    found: list[Comparison] = []
    (runs, base), (module, x, goal, loss) = how, what
    for sites, rate in ((["1"], None), (["4"], 0.7), (["4", "1"], None)):
        laws = [runs.laws[site] for site in sites]
        rest, plain = remainder(runs, base, laws, torch.Generator().manual_seed(3), rate)
        generator = torch.Generator().manual_seed(3)
        masks = {law.name: draw(law, base, law.rate if rate is None else rate, generator)[0] for law in laws}
        for law in laws:
            own = law.rate if rate is None else rate
            kept = masks[law.name]
            found.append(compare(kept[kept > 0], "==", scale / (1 - own), f"multipliers, {law.name}, {rate}"))
        change = _losses(module, x, goal, masks, loss) - base.sums
        first = sum((slopes[site] * (masks[site] - 1)).sum(1) for site in sites)
        found.append(compare(plain, "==", scale * change, f"change, {sites}"))
        found.append(compare(rest, "==", scale * (change - first), f"beyond first order, {sites}"))
    guesses, rest = screen(runs, base, list(runs.laws.values()), torch.Generator().manual_seed(4))
    generator = torch.Generator().manual_seed(4)
    masks = {site: draw(law, base, law.rate, generator)[0].requires_grad_() for site, law in runs.laws.items()}
    value = _losses(module, x, goal, masks, loss)
    after = dict(zip(masks, torch.autograd.grad(value.sum(), list(masks.values())), strict=True))
    moves = {site: mask.detach() - 1 for site, mask in masks.items()}
    for site, guess in guesses.items():
        second = ((after[site] - slopes[site]) * moves[site]).sum(1) / 2
        found.append(compare(guess.penalty, "==", scale * second.sum() / 5, f"second order, {site}"))
        found.append(compare(guess.deviation, "==", scale * (second - second.mean()).norm() / 5, f"spread, {site}"))
    whole = value.detach() - base.sums - sum((slopes[site] * moves[site]).sum(1) for site in masks)
    found.append(compare(rest, "==", scale * whole, "all masks together"))
    return found


def _outcomes(scale: float, how: tuple[Runs, Base], what: Any) -> list[Comparison]:
    found: list[Comparison] = []
    (runs, base), (module, x, goal, loss) = how, what
    sizes = {"1": 3, "4": 2}
    every: dict[str, list[tuple[Tensor, float]]] = {}
    for site, size in sizes.items():
        rate = RATES[site]
        every[site] = []
        for kept in itertools.product((0.0, 1.0), repeat=size):
            chance = math.prod(1 - rate if one else rate for one in kept)
            every[site].append((tensor(kept) / (1 - rate), chance))
        listed = outcomes(base, runs.laws[site])
        assert listed is not None
        found.append(
            compare([chance for _, chance in listed], "==", [scale * chance for _, chance in every[site]], "chances")
        )
        for (masks, _), (wanted, _) in zip(listed, every[site], strict=True):
            found.append(compare(masks[0], "==", scale * wanted.expand(5, -1), f"masks of {site}"))
        single = alone(runs, base, runs.laws[site])
        assert single is not None
        mean = sum(chance * _losses(module, x, goal, {site: mask}, loss) for mask, chance in every[site])
        found.append(compare(single, "==", scale * (mean - base.sums), f"alone, {site}"))
    both = together(runs, base, list(runs.laws.values())[::-1])
    assert both is not None
    total = torch.zeros(5).double()
    for (first, p), (second, q) in itertools.product(every["1"], every["4"]):
        total = total + p * q * _losses(module, x, goal, {"1": first, "4": second}, loss)
    found.append(compare(both, "==", scale * (total - base.sums), "together"))
    shares = [base.recording.share(site) for site in ("1", "4")]
    cost = 8 * (shares[0] - shares[1]) + 32 * shares[1] + 1 - shares[0]
    found.append(compare(tree_cost(base, list(runs.laws.values())[::-1]), "==", scale * cost, "what they cost"))
    found.append(compare(shares[0], ">", shares[1], "the first site is first"))
    return found


class _Turned(nn.Module):
    """One dropout at two places, where the examples are the last axis; two labels an example."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = linear_head(1, 3, 3), linear_head(3, 3, 2), linear_head(5, 2, 6)
        self.drop = nn.Dropout(0.3)

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.drop(self.first(x).mT).mT)
        return self.last(self.drop(self.second(hidden).mT).mT).unflatten(-1, (2, 3))


class _Recurrent(nn.Module):
    """Three layers over three moments, a mask behind each of the first two: one site of two masks."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.last = nn.RNN(2, 2, 3, dropout=0.3).double(), linear_head(5, 2, 3)
        for number, part in enumerate(self.layers.parameters()):
            part.requires_grad_(False).copy_(normal(number, *part.shape))

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.layers(x.transpose(0, 1))[0][-1])


def _turned(scale: float) -> list[Comparison]:
    """A dropout that is met twice, labels that do not count, and examples in the last axis of its masks."""
    x, module, labels = normal(7, 5, 3), _Turned(), torch.tensor([[0, 1], [2, -100], [1, 1], [-100, 0], [2, 0]])
    laws = {site: Law(site, 0.3, "entry") for site in ("drop", "drop@2")}
    runs = Runs(module, Batch((x,), {}, labels, 5), Labels(), laws, {})

    def losses(masks: Sequence[Tensor]) -> Tensor:
        hidden = torch.tanh(module.first(x) * masks[0].mT)
        logits = module.last(module.second(hidden) * masks[1].mT).reshape(5, 2, 3)
        picked = logits.gather(-1, labels.clamp_min(0)[..., None])[..., 0]
        return torch.where(labels < 0, 0.0, logits.exp().sum(-1).log() - picked).sum(1)

    base, counted = runs.base(), tensor([2.0, 1.0, 2.0, 1.0, 2.0])
    found = _followed(scale, (runs, base), losses, {"drop": [(3, 5)], "drop@2": [(2, 5)]}, counted)
    kept = itertools.product((0.0, 1.0), repeat=2)
    every = [(tensor(pair)[:, None].expand(2, 5) / 0.7, 0.7 ** sum(pair) * 0.3 ** (2 - sum(pair))) for pair in kept]
    mean = sum(chance * losses([torch.ones(3, 5), mask]) for mask, chance in every)
    found.append(compare(alone(runs, base, laws["drop@2"]), "==", scale * (mean - base.sums), "alone, drop@2"))
    return found


def _stacked(scale: float) -> list[Comparison]:
    """A site of several masks: what they do adds up, and their outcomes are not listed."""
    x, goal, module, site = normal(7, 5, 3, 2), normal(8, 5, 3), _Recurrent(), "layers.RNN_dropout"
    law = Law(site, 0.3, "entry")
    runs = Runs(module, Batch((x,), {}, goal, 5), Squared(), {site: law}, {})

    def losses(masks: Sequence[Tensor]) -> Tensor:
        below = x.transpose(0, 1)
        for number, mask in enumerate((*masks, torch.ones(()))):
            wanted = (f"{kind}_l{number}" for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
            own = [getattr(module.layers, name) for name in wanted]
            hidden, above = torch.zeros(5, 2).double(), []
            for now in below:
                hidden = torch.tanh(now @ own[0].mT + hidden @ own[1].mT + own[2] + own[3])
                above.append(hidden)
            below = torch.stack(above) * mask
        return (module.last(below[-1]) - goal).square().sum(-1)

    base = runs.base()
    found = _followed(scale, (runs, base), losses, {site: [(3, 5, 2)] * 2}, torch.ones(5).double())
    return [*found, same(outcomes(base, law), None, "no list of several masks")]


def _followed(
    scale: float,
    how: tuple[Runs, Base],
    losses: Callable[[Sequence[Tensor]], Tensor],
    shapes: dict[str, list[tuple[int, ...]]],
    counted: Tensor,
) -> list[Comparison]:
    """Slopes, changes and first looks of sites whose masks have the examples in their second axis."""
    (runs, base), found = how, []

    def with_slopes(masks: Sequence[Tensor]) -> tuple[Tensor, dict[str, list[Tensor]]]:
        leaves = [mask.detach().requires_grad_() for mask in masks]
        value = losses(leaves)
        slopes = iter(torch.autograd.grad(value.sum(), leaves))
        return value.detach(), {site: [next(slopes) for _ in part] for site, part in shapes.items()}

    def per_example(values: Tensor) -> Tensor:
        return values.movedim(1, 0).flatten(1).sum(1)

    plain, slopes = with_slopes([torch.ones(shape).double() for part in shapes.values() for shape in part])
    found.append(compare(base.sums, "==", scale * plain, "without masks, examples second"))
    found.append(compare(base.weights, "==", scale * counted, "labels that count"))
    for site, part in slopes.items():
        found.append(same(base.axes[site], 1, f"examples second, {site}"))
        for told, slope in zip(base.slopes[site], part, strict=True):
            found.append(compare(told, "==", scale * slope, f"slopes of {site}"))
            found.append(compare(base.per_example(slope, site), "==", scale * per_example(slope), f"of each, {site}"))
    rest, change = remainder(runs, base, list(runs.laws.values()), torch.Generator().manual_seed(3))
    guesses, all_rest = screen(runs, base, list(runs.laws.values()), torch.Generator().manual_seed(3))
    generator = torch.Generator().manual_seed(3)
    masks = {site: draw(law, base, law.rate, generator) for site, law in runs.laws.items()}
    value, after = with_slopes([mask for part in masks.values() for mask in part])
    found.append(compare(change, "==", scale * (value - plain), "change, examples second"))
    beyond, weight = value - plain, counted.sum()
    for site, part in masks.items():
        second = torch.zeros(5).double()
        for before, behind, mask in zip(slopes[site], after[site], part, strict=True):
            beyond = beyond - per_example(before * (mask - 1))
            second = second + per_example((behind - before) * (mask - 1)) / 2
        spread = (second - second.mean()).norm() / weight
        found.append(compare(guesses[site].penalty, "==", scale * second.sum() / weight, f"second order, {site}"))
        found.append(compare(guesses[site].deviation, "==", scale * spread, f"spread, {site}"))
    for told in (rest, all_rest):
        found.append(compare(told, "==", scale * beyond, "beyond first order, examples second"))
    return found


class _Two(nn.Module):
    """Two masks whose results meet in some way."""

    def __init__(self, meet: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.one, self.two, self.meet = nn.Dropout(0.3), nn.Dropout(0.4), meet

    def forward(self, x: Tensor) -> Tensor:
        return self.meet(self.one(x), self.two(x.square() + 1))


def _affine(scale: float) -> list[Comparison]:
    """Masks in each of which outputs are affine while the others are ones, read off the graph."""
    found: list[Comparison] = []
    x = normal(7, 5, 3)
    cases: tuple[tuple[str, Callable[[Tensor, Tensor], Tensor], list[str]], ...] = (
        ("sums", lambda a, b: a - 2 * b, ["one", "two"]),
        ("a product of both", lambda a, b: a * b, ["one", "two"]),
        ("a square", lambda a, b: a * a + b, ["two"]),
        ("a matrix product with itself", lambda a, b: a @ a.mT + b @ b.new_ones(3, 5), ["two"]),
        ("divided by one of them", lambda a, b: a / b, ["one"]),
        ("a number by one of them", lambda a, b: a + 2 / b, ["one"]),
        ("divided by a number", lambda a, b: a / 3 + b, ["one", "two"]),
        ("bent", lambda a, b: a + torch.tanh(b), ["one"]),
        ("bent behind a product", lambda a, b: torch.relu(a * b), []),
        ("one that chooses", lambda a, b: torch.where(b > 1, a, -a), ["one"]),
        ("a sign", lambda a, b: a * (a > 0) + b, ["two"]),
        ("without its graph", lambda a, b: a.detach() * b, ["two"]),
        ("as a number", lambda a, b: a.sum().item() * b, ["two"]),
        ("joined and moved", lambda a, b: torch.cat([a, b], 1).roll(1, 1)[:, 1:].cumsum(1), ["one", "two"]),
        ("normalized", lambda a, b: a + b.softmax(1), ["one"]),
        ("of one alone", lambda a, b: 0.5 * a, ["one"]),
        ("normalized over the examples", lambda a, b: a + functional.batch_norm(b, None, None, training=True), ["one"]),
        ("scaled by statistics", lambda a, b: a + functional.batch_norm(b, *torch.ones(2, 3).double()), ["one", "two"]),
    )
    for name, meet, wanted in cases:
        laws = {"one": Law("one", 0.3, "entry"), "two": Law("two", 0.4, "entry")}
        module, hidden = _Two(meet), Hidden()
        goal = torch.zeros_like(module.eval()(x))
        base = Runs(module, Batch((x,), {}, goal, 5), Squared(), laws, {}).base(None, hidden)
        found.append(same(affine_sites(base, hidden), wanted, f"affine: {name}", scale))
    return found


def _laws(scale: float) -> list[Comparison]:
    """Masks of entries, channels and examples, and how often they keep."""
    found: list[Comparison] = []
    source, count = torch.zeros(2, 3, 4), 4000
    for unit, shape in (("entry", (2, 3, 4)), ("channel", (2, 3, 1)), ("example", (2, 1, 1))):
        law = Law("a", 0.3, unit)
        found.append(same(law.shape(source), shape, f"masks of every {unit}", scale))
        mask = law.draw(torch.ones(count).double(), 0.3, torch.Generator().manual_seed(1))
        # five standard errors
        off = 5 * (0.3 * 0.7 / count) ** 0.5
        found.append(compare((mask > 0).double().mean(), "==", 0.7, f"share of every {unit} kept", precision=off))
    return found


def _shared(scale: float) -> list[Comparison]:
    """Draws shared out one by one."""
    found: list[Comparison] = []
    cases = (
        ({"a": Guess(1.0, 0.3), "b": Guess(0.2, 0.4), "c": Guess(0.0, 0.0)}, {"a": 1.0, "b": 0.5, "c": 0.25}, 12.0),
        ({"a": Guess(1.0, 0.01), "b": Guess(-0.5, 0.3)}, {"a": 1.0, "b": 1.0}, 9.0),
        ({"a": Guess(1.0, 5.0), "b": Guess(0.5, 4.0)}, {"a": 0.2, "b": 0.4}, 30.0),
        ({"a": Guess(0.0, 1.0)}, {"a": 1.0}, 5.0),
        ({"a": Guess(0.001, 0.005), "b": Guess(-1.0, 0.3)}, {"a": 1.0, "b": 1.0}, 12.0),
    )
    for number, (guesses, costs, budget) in enumerate(cases):
        least = dict.fromkeys(guesses, 2)
        draws = dict(least)
        left = budget - 2 * sum(costs.values())
        total = sum(max(guess.penalty, 0) for guess in guesses.values())
        wanted = {}
        for name, guess in guesses.items():
            target = max(0.2 * abs(guess.penalty), 0.01 * total)
            wanted[name] = min(16, math.ceil((2.8 * guess.deviation / target) ** 2)) if target else 1
        for name in sorted(wanted, key=lambda name: (wanted[name] - draws[name]) * costs[name]):
            while draws[name] < wanted[name] and left >= costs[name]:
                draws[name], left = draws[name] + 1, left - costs[name]
        while True:
            name = max(guesses, key=lambda name: guesses[name].deviation / draws[name] ** 0.5)
            if draws[name] >= 16 or left < costs[name] or guesses[name].deviation == 0:
                break
            draws[name], left = draws[name] + 1, left - costs[name]
        told = share_out(guesses, costs, budget, least)
        found.append(compare(list(told.values()), "==", [scale * draws[name] for name in told], f"draws, {number}"))
    return found


def _means(scale: float) -> list[Comparison]:
    """Means over draws and examples with Satterthwaite's degrees of freedom, merged as if added to one."""
    found: list[Comparison] = []
    for controlled in (False, True):
        mean, other = Mean(controlled=controlled), Mean(controlled=controlled)
        parts = ((normal(1, 4, 3), tensor([1.0, 2.0, 1.0])), (normal(2, 6, 2), tensor([1.0, 1.0])))
        variance = fourth = 0.0
        for rows, weights in parts:
            mean.add_rows(rows, weights)
            own = rows.var(0) / len(rows)
            variance += float(own.sum())
            fourth += float(own.square().sum()) / (len(rows) - 1)
        single, weights = normal(3, 1, 4), tensor([1.0, 2.0, 1.0, 1.0])
        other.add_rows(single, weights)
        spread = (single[0] - weights * single.sum() / 5).square() * 4 / 3
        variance, fourth = variance + float(spread.sum()), fourth + float(spread.square().sum())
        both = mean.merge(other)
        total = sum(float(rows.mean(0).sum()) for rows, _ in parts) + float(single.sum())
        weight = 4 + 2 + 5
        found.append(compare(both.value, "==", scale * total / weight, f"value, {controlled}"))
        found.append(compare(both.error, "==", scale * variance**0.5 / weight, f"error, {controlled}"))
        for confidence in (0.9, 0.99):
            told = both.number(confidence, offset=0.5)
            factor = scipy.stats.t.ppf((1 + confidence) / 2, max(variance**2 / fourth, 1))
            half, middle = factor * variance**0.5 / weight, total / weight + 0.5
            ends = scale * tensor([middle - half, middle, middle + half])
            found.append(compare([told.lower, told.value, told.upper], "==", ends, f"interval of {confidence}"))
        words = "sampled, gradient control, 4 draws" if controlled else "Monte Carlo, 11 draws"
        found.append(compare(float(told.method == words), "==", 1.0, f"words, {told.method}"))
    added = Mean()
    added.add([1.0, 3.0, 2.0], 4)
    found.append(compare([added.value, added.error], "==", [2 * scale, scale / 3**0.5], "draws of a batch"))
    once = Mean()
    once.add([2.0], 3)
    number = once.number(0.99)
    found.append(compare([number.lower, number.upper], "==", 2 * scale, "one draw says nothing of its spread"))
    mixed = Mean(controlled=True).merge(Mean())
    found.append(compare(float(mixed.controlled), "==", 0.0, "controlled where both are"))
    first, second = Tally(spent=2.0, examples=3), Tally(spent=1.5, examples=4)
    sums = ("clean", "accuracy", "total", "rest", "shift", "listed_total")
    for place, name in enumerate(sums, start=1):
        for one, count in ((first, place), (second, 10 * place)):
            getattr(one, name).add([1.0, 3.0], count)
    for name in ("sites", "energies", "listed"):
        getattr(first, name)["a"] = added
        getattr(second, name).update({"a": once, "b": once})
    first.curves["a", 0.3], second.curves["a", 0.3] = added, once
    both_tallies = first.merge(second)
    numbers = [both_tallies.spent, both_tallies.examples, *(getattr(both_tallies, name).weight for name in sums)]
    found.append(compare(numbers, "==", tensor([3.5, 7.0, *range(11, 77, 11)]) * scale, "tallies of both"))
    for kept in (both_tallies.sites, both_tallies.energies, both_tallies.listed, both_tallies.curves):
        weights_of = [mean.weight for mean in kept.values()]
        found.append(same(weights_of, [7.0 * scale], "sites that both have"))
    values = tensor([3.0, 1.0, 0.0])
    rank = math.exp(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    found.append(compare([_effective_rank(values), _effective_rank(0 * values)], "==", [scale * rank, 0.0], "ranks"))
    return found
