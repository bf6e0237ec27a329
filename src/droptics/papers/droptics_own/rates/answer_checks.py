"""What more claims on tuned rates compare: splits on a loss that is known, and answers as they are told."""

from __future__ import annotations

import itertools
import json
import math
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from scipy import stats
from torch import Tensor, nn

from droptics.evidence.claims import Comparison, compare
from droptics.heads.ridge import DropoutRidge, DropoutRidgeCV
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor
from droptics.rates import Fit, Rates
from droptics.rates.answers import answer_of
from droptics.rates.designs import Effect, two_level
from droptics.rates.places import Place, chosen, grouped, set_rates
from droptics.rates.points import gap_of, points_of
from droptics.rates.running import Trained
from droptics.rates.splits import no_split, surest
from droptics.rates.verdicts import judge

SITES = {"one": "a", "two": "a", "three": "b", "four": "c"}
# of forty examples one half chooses a split, and the other judges it
CHOOSING, JUDGING = torch.randperm(40, generator=torch.Generator().manual_seed(0)).chunk(2)


class _Known:
    """A stand-in for training: losses are a known function of the rates, the seed and the example."""

    copies, resumed, together = 17, 3, True

    def __init__(self, slopes: Tensor, curve: float) -> None:
        self.slopes, self.curve, self.asked = slopes, curve, list[tuple[str, int]]()
        self.notes = {"a note": None}

    def losses(self, setting: Mapping[str, float], seeds: Sequence[int]) -> Tensor:
        shifts = torch.tensor([_odds(setting[name]) - _odds(0.3) for name in ("one", "three", "four")]).double()
        base = normal(9, 40).square() + self.slopes.mT @ shifts + self.curve * float(shifts.square().sum())
        return torch.stack([base + 0.01 * normal(50 + seed, 40) for seed in seeds])

    def run(self, settings: Sequence[Mapping[str, float]], seeds: Sequence[int], stage: str) -> list[Trained]:
        self.asked.append((stage, len(settings)))
        return [Trained(self.losses(one, seeds), (0.1,) * len(seeds), (5,) * len(seeds)) for one in settings]

    def effects(self, setting: Mapping[str, float], groups: Mapping[str, str], examples: Any) -> dict[str, Effect]:
        own = self.slopes[:, examples]
        errors = own.std(1) / own.shape[1] ** 0.5
        return {name: Effect(float(own[i].mean()), float(errors[i])) for i, name in enumerate("abc")}

    def trained(self, settings: Sequence[Mapping[str, float]]) -> list[Trained]:
        return self.run(settings, [1], "exact")


def _odds(rate: float) -> float:
    return math.log(rate / (1 - rate))


def _rate(odds: float) -> float:
    return 1 / (1 + math.exp(-odds))


def _gain(a: Tensor, b: Tensor) -> tuple[float, float]:
    gaps = a - b
    square = gaps.mean(0).var() / gaps.shape[1]
    if len(gaps) > 1:
        square = square + gaps.mean(1).var() / len(gaps)
    return float(gaps.mean()), float(square.sqrt())


def _quantile(gaps: Tensor) -> float:
    """Student's at 0.95, with Satterthwaite's degrees of freedom for the error of a mean over seeds and examples."""
    seeds, examples = gaps.shape
    one = float(gaps.mean(0).var()) / examples
    other = float(gaps.mean(1).var()) / seeds if seeds > 1 else 0.0
    return float(stats.t.ppf(0.95, (one + other) ** 2 / (one**2 / (examples - 1) + other**2 / max(seeds - 1, 1))))


def divided_rates(scale: float) -> list[Comparison]:
    """Splits of a tied rate on losses that are known: design, effects, path, the best copies of both, the guard."""
    found: list[Comparison] = []
    slopes = torch.stack([0.3 + 0.1 * normal(1, 40), -0.2 + 0.1 * normal(2, 40), 0.5 * normal(3, 40)])
    for curve, exact in itertools.product((0.05, 3.0), (False, True)):
        runner: Any = _Known(slopes, curve)
        scan = [Trained(runner.losses(dict.fromkeys(SITES, r), (1, 2)), (0.1, 0.3), (4, 6)) for r in (0.05, 0.3, 0.8)]
        scan = [Trained(one.losses + 2.0 * (i != 1), one.training, one.steps) for i, one in enumerate(scan)]
        if exact:
            scan = [Trained(one.losses[:1], one.training[:1], one.steps[:1]) for one in scan]
        places = [Place(name, "dropout", 0.5) for name in SITES]
        answer = answer_of(places, [0.05, 0.3, 0.8], scan, normal(4, 40).square() + 9, "scan")
        label = f"curve {curve}, exact {exact}"
        if exact:
            answer.divide_exactly(runner, SITES, True)
        else:
            answer.divide(runner, SITES, [1, 2], [3, 4, 5])
        told = answer.finished(0.0, None if exact else runner)
        levels = _Known(slopes, 0.0).effects({}, {}, CHOOSING)
        effects = {site.name: site for site in told.sites}
        for name, own in SITES.items():
            # the curve is even, so that a two-level design does not see it; noise of seeds is that of the examples
            value = effects[name].effect or 0.0
            found.append(compare(value, "==", scale * levels[own].value, f"effect of {name}: {label}", precision=0.02))
            error = effects[name].error or 0.0
            found.append(compare(error, "==", scale * levels[own].error, f"its error: {label}", precision=0.02))
            wanted = "resolved" if own != "c" else "flat"
            found.append(same(effects[name].verdict, wanted, f"verdict of {name}: {label}", scale))
            found.append(same((effects[name].group, effects[name].before), (own, 0.5), f"{name}: {label}", scale))
        found += _asked_of(runner, told, exact, scale)
    return found + _undivided(slopes, scale)


def _asked_of(runner: Any, told: Rates, exact: bool, scale: float) -> list[Comparison]:
    """The corners of the design, the path along its effects, and the guard of the best of both, step by step."""
    found: list[Comparison] = []
    label, tied = f"curve {runner.curve}, exact {exact}", dict.fromkeys(SITES, 0.3)
    asked, seeds = [("design", 4), ("path", 4)], [1] if exact else [1, 2]
    steps = (1 / 16, 1 / 8, 1 / 4, 0.5, 1.0, 2.0, 4.0) if exact else (0.5, 1.0, 2.0, 4.0)
    effects = {site.name: site for site in told.sites}
    path = _descent({name: (effects[name].effect or 0.0) * (own != "c") for name, own in SITES.items()}, steps)
    among = list(path)
    corners = [
        {name: _rate(_odds(0.3) + 0.7 * row["abc".index(own)]) for name, own in SITES.items()}
        for row in ((-1, -1, 1), (-1, 1, -1), (1, -1, -1), (1, 1, 1))
    ]
    corner = min(corners, key=lambda setting: float(runner.losses(setting, seeds)[:, CHOOSING].mean()))
    gain = _gain(runner.losses(tied, seeds)[:, CHOOSING], runner.losses(corner, seeds)[:, CHOOSING])
    if gain[0] > gain[1] and not exact:
        among.append(corner)
    tried = [point for point in told.points if point.stage == "path"]
    for point, setting in zip(tried, path, strict=True):
        rates = [point.rates[name] for name in SITES]
        found.append(compare(rates, "==", scale * tensor(list(setting.values())), f"path: {label}", precision=1e-8))
        found.append(compare(point.rate, "==", scale * point.rates[next(iter(SITES))], f"first rate: {label}"))
    fresh, split = [1] if exact else [3, 4, 5], told.split
    assert split is not None
    best = _surest(runner, tied, among, seeds)
    asked.append(("guard", 2))
    pair = [runner.losses(setting, fresh)[:, JUDGING] for setting in (tied, best)]
    gain = _gain(*pair)
    kept = gain[0] > _quantile(pair[0] - pair[1]) * gain[1]
    found.append(same(split.kept, kept, f"kept: {label}", scale))
    found.append(compare(split.difference or 0.0, "==", scale * gain[0], f"gain: {label}", precision=1e-8))
    found.append(compare(split.error or 0.0, "==", scale * gain[1], f"error of the gain: {label}", precision=1e-8))
    text = "the loss is lower by" if exact else "the loss on 3 fresh seeds is lower by"
    found.append(same(split.reason, f"{text} {gain[0]:.3g} \u00b1 {gain[1]:.2g}", f"in words: {label}", scale))
    answer_rates, wanted_rates = [told.rates[name] for name in SITES], list((best if kept else tied).values())
    found.append(compare(answer_rates, "==", scale * tensor(wanted_rates), f"answer: {label}", precision=1e-8))
    if not exact:
        found.append(same(runner.asked, asked, f"stages: {label}", scale))
    cost = (told.cost.copies, told.cost.resumed, told.cost.together, told.notes)
    found.append(same(cost, (0, 0, False, ()) if exact else (17, 3, True, ("a note",)), f"cost: {label}", scale))
    found.append(same((told.best, told.alike, told.verdict), (0.3, (0.3,), "resolved"), f"tied: {label}", scale))
    return found


def _descent(slopes: Mapping[str, float], steps: Sequence[float]) -> list[dict[str, float]]:
    """Rates down the slopes from the tied rate, the steepest by 0.7 in log-odds at a step of one."""
    steep = max(map(abs, slopes.values()))
    return [{name: _rate(_odds(0.3) - 0.7 * step * slope / steep) for name, slope in slopes.items()} for step in steps]


def _surest(
    runner: Any, center: Mapping[str, float], others: Sequence[dict[str, float]], seeds: Sequence[int]
) -> dict[str, float]:
    """The setting whose gain over the center less its error is largest, on the examples that choose."""
    tied = runner.losses(center, seeds)[:, CHOOSING]
    gains = [_gain(tied, runner.losses(setting, seeds)[:, CHOOSING]) for setting in others]
    return others[max(range(len(others)), key=lambda i: gains[i][0] - gains[i][1])]


def _undivided(slopes: Tensor, scale: float) -> list[Comparison]:
    """Where no split is looked for, or nothing moves, or copies diverge; the largest designs; names of sites."""
    found: list[Comparison] = []
    for given, words in (
        (("resolved", 0.3, {"a"}), "there is one site"),
        (("flat", 0.3, {"a", "b"}), "nothing is gained"),
        (("resolved", 0.0, {"a", "b"}), "the tied answer is no dropout"),
        (("at the edge", 0.3, {"a", "b"}), ""),
    ):
        told = no_split(*given)
        found.append(same(told.startswith(words) and bool(told) == bool(words), True, f"why not: {words}", scale))
    for number in (1, 2, 3, 4, 7, 8, 11):
        signs = two_level(number)
        copies = 4 if number < 4 else 8 if number < 8 else 12
        found.append(same(tuple(signs.shape), (copies, number), f"size of a design of {number}", scale))
        gram = signs.mT @ signs
        found.append(compare(gram, "==", scale * copies * torch.eye(number).double(), f"orthogonal, {number}"))
        found.append(compare(signs.sum(0), "==", 0.0, f"balanced, {number}"))
    found.append(refuses(lambda: two_level(12), "at most 11"))
    runner: Any = _Known(0 * slopes, 0.0)
    places = [Place(name, "dropout", 0.5) for name in SITES]
    flat = [
        Trained(runner.losses(dict.fromkeys(SITES, 0.3), (1, 2)) + move, (0.1, 0.3), (4, 6)) for move in (2.0, 0.0, 2.0)
    ]
    for exact in (False, True):
        answer = answer_of(places, [0.05, 0.3, 0.8], flat, None, "scan")
        runner.slopes = 0.1 * normal(8, 3, 40) - 0.1 * normal(8, 3, 40).mean(1, keepdim=True)
        if exact:
            answer.divide_exactly(runner, SITES, True)
        else:
            answer.divide(runner, SITES, [1, 2], [3])
        split = answer.finished(0.0).split
        assert split is not None
        why = "no site has an effect beyond two standard errors"
        why += "" if exact else ", and no copy of the design is better by one"
        found.append(same(split.reason, why, f"still, {exact}", scale))
        found.append(same((split.kept, split.difference), (False, None), f"nothing kept, {exact}", scale))
    found += [*_beside_constants(places, flat, scale), *_small_gaps(flat[1], scale)]
    runner.slopes = slopes + math.inf
    answer = answer_of(places, [0.05, 0.3, 0.8], flat, None, "scan")
    answer.divide(runner, SITES, [1, 2], [3])
    found.append(same(answer.finished(0.0).split.reason, "copies of the design diverged", "diverged", scale))  # type: ignore[union-attr]
    lost = Trained(flat[0].losses * math.inf, (math.inf, 1.0), (None, 4))
    (point, other) = points_of("scan", [{"x": 0.1}, {"x": 0.2}], [lost, flat[1]], 1)
    found.append(
        same((point.loss, point.error, point.alike, point.training_loss), (None, None, False, None), "lost", scale)
    )
    found.append(same((other.copies, other.steps, other.rate, other.alike), (2, (4, 6), 0.2, True), "a point", scale))
    found.append(compare(other.training_loss or 0.0, "==", scale * 0.2, "its training loss"))
    found.append(same(gap_of([lost, flat[1]], 1), None, "no gap of a copy that diverged", scale))
    small = gap_of([Trained(flat[1].losses, (float(flat[1].losses.mean()),), (1,)), flat[1]], 1)
    found.append(same((small is not None, small and small.share), (True, None), "no gap to take", scale))
    base = normal(1, 2, 30).square() + 1
    near = base + 1e-6 * (normal(2, 2, 30) - normal(2, 2, 30).mean()) + 1e-9
    for rates, losses, wanted in (
        ((0.0, 0.2), [base * math.inf, base * math.inf], ("flat", "every copy diverged")),
        (
            (0.0, 0.2, 0.4),
            [near, base, base + 1],
            ("flat", "0.2 cannot be told apart from no dropout"),
        ),
        (
            (0.1, 0.2, 0.4),
            [near, base, base + 1],
            ("flat", "0.2 cannot be told apart from the lowest rate, 0.1"),
        ),
        ((0.0, 0.2), [base, base + normal(3, 2, 30)], ("flat", "the rates tried cannot be told apart")),
        ((0.0, 0.2), [base, base + 1], ("flat", "no rate does better than no dropout")),
        (
            (0.1, 0.2),
            [base, base + 1],
            ("at the edge", "the lowest rate tried, 0.1, is the best: try lower ones, and 0"),
        ),
        ((0.0, 0.2), [base + 1, base], ("at the edge", "no rate above 0.2 was told apart as worse: try higher ones")),
        ((0.0, 0.2, 0.3), [base + 1, base, base + 2], ("resolved", "0.2 is better than 0, and a higher rate is worse")),
    ):
        found.append(same(judge(rates, losses, None)[1:], wanted, f"judged: {wanted[1]}", scale))
    found.append(
        same(grouped(places, ["t*", "o*"]), {"one": "o*", "two": "t*", "three": "t*", "four": "four"}, "groups", scale)
    )
    found.append(
        same([one.name for one in chosen(places, ["t*"])], ["two", "three"], "sites that were asked for", scale)
    )
    for patterns, names in ((["t*", "o*"], ["one", "two", "three"]), (["*o*", "f*"], ["one", "two", "four"])):
        found.append(same([one.name for one in chosen(places, patterns)], names, f"sites of {patterns}", scale))
    found.append(same(len(chosen(places, None)), 4, "all sites", scale))
    found.append(refuses(lambda: grouped(places, ["x*"]), "groups: no site fits the pattern 'x*'"))
    found.append(refuses(lambda: chosen(places, ["x*"]), "sites: no site fits 'x*'"))
    return found


def _small_gaps(best: Trained, scale: float) -> list[Comparison]:
    """A gap within two standard errors of the loss has no share to take; a gain that is less but surer is the best."""
    found, mean, error = [], float(best.losses.mean()), _gain(best.losses, 0 * best.losses)[1]
    for number in (1.5, 2.5):
        gap = gap_of([Trained(best.losses, (mean - number * error,), (1,)), best], 1)
        none = gap is not None and gap.share is None
        found.append(same(none, number < 2, f"no share of a gap of {number} standard errors", scale))
    noise = normal(3, 40) - normal(3, 40).mean()
    less = [replace(best, losses=best.losses - gain) for gain in (1 + 8 * noise, 0.5 + 0.1 * noise, 0.1 + 0 * noise)]
    return [*found, same(surest(best, less), 1, "the surest gain, not the largest", scale)]


def _beside_constants(places: list[Place], flat: list[Trained], scale: float) -> list[Comparison]:
    """A constant output that is better than every rate, and one that is worse: whether anything was learned."""
    found: list[Comparison] = []
    for level in (-9.0, 9.0):
        answer = answer_of(places, [0.05, 0.3, 0.8], flat, flat[0].losses + level, "scan")
        nothing = "nothing was learned" in answer.reason
        found.append(same(nothing, level < 0, f"a constant output {level:+g} beside", scale))
        runner: Any = _Known(torch.stack([0.3 + 0.1 * normal(1, 40), -0.2 + 0.1 * normal(2, 40), normal(3, 40)]), 0.0)
        for split in (False, True):
            answer = answer_of(places, [0.05, 0.3, 0.8], flat, flat[0].losses + level, "scan")
            answer.divide_exactly(runner, SITES, split)
            told = answer.finished(0.0)
            label = f"{level:+g}, split {split}"
            verdicts = ["resolved", "resolved", "resolved", "flat" if split else "resolved"]
            wanted = verdicts if level > 0 else ["flat"] * 4
            found.append(same([site.verdict for site in told.sites], wanted, f"verdicts of sites, {label}", scale))
            asked = runner.effects({}, {}, CHOOSING if split else slice(None))
            numbers = [(site.effect or 0.0, site.error or 0.0) for site in told.sites]
            own = [(asked[name].value, asked[name].error) for name in SITES.values()]
            found.append(compare(numbers, "==", scale * tensor(own), f"effects without a design, {label}"))
            found.append(same(told.split is None, not split, f"a split was looked for, {label}", scale))
    return found


def _rows_of(told: Rates, scan: Sequence[Trained]) -> list[Comparison]:
    """Rows of the tables of an answer, from the losses it is made of."""
    rows = [" ".join(re.findall(r"[^\s\u2502\u2503|]+", line)) for line in str(told).splitlines()]
    wanted = ["0.9 diverged - yes - -"]
    for rate, one in zip((0.05, 0.3, 0.8), scan, strict=True):
        gap = _gain(one.losses, scan[1].losses)
        apart = "best no" if rate == 0.3 else f"{gap[0]:+.3g} \u00b1 {gap[1]:.2g} yes"
        wanted.append(f"{rate:g} {float(one.losses.mean()):.4g} {apart} 0.2 4, -")
    for site in told.sites:
        effect = f"{site.effect:+.3g} \u00b1 {site.error:.2g}"
        wanted.append(f"{site.name} dropout 0.5 {told.rates[site.name]:.3g} {site.verdict} {effect}")
    return [same(row in rows, True, f"a row: {row}") for row in wanted]


def _files(told: Rates) -> list[Comparison]:
    """An answer is written and read; what is none, or cannot be written, is refused."""
    found: list[Comparison] = []
    content = told.to_dict()
    found.append(same(Rates.from_dict(json.loads(told.to_json())), told, "restored"))
    found.append(same((content["schema"], content["points"][3]["loss"]), (1, None), "plain values"))
    with tempfile.TemporaryDirectory() as name:
        target = told.save(Path(name) / "rates.json")
        found.append(same(Rates.load(target), told, "from a file"))
        found.append(refuses(lambda: told.save(name), f"path {name} is a folder; name a file"))
        within = Path(name) / "rates.json" / "more.json"
        found.append(refuses(lambda: told.save(within), f"needs a folder where {target} is a file"))
        target.write_text("{", encoding="utf-8")
        found.append(refuses(lambda: Rates.load(target), "is no JSON"))
    for schema in (0, 2, "1", None):
        found.append(refuses(lambda schema=schema: Rates.from_dict(content | {"schema": schema}), "schema 1"))
    bare = {name: value for name, value in content.items() if name != "schema"}
    found.append(refuses(lambda: Rates.from_dict(bare), "schema 1", "no schema"))
    found.append(refuses(lambda: Rates.from_dict({"schema": 1}), "is not what Rates.to_dict gave"))
    return found


def told_answers(scale: float) -> list[Comparison]:
    """Answers as dictionaries, JSON, files and words hold what they are made of, and are put into modules."""
    found: list[Comparison] = []
    slopes = torch.stack([0.3 + 0.1 * normal(1, 40), -0.2 + 0.1 * normal(2, 40), 0.5 * normal(3, 40)])
    runner: Any = _Known(slopes, 0.05)
    scan = [Trained(runner.losses(dict.fromkeys(SITES, r), (1, 2)), (0.1, 0.3), (4, None)) for r in (0.05, 0.3, 0.8)]
    scan = [Trained(one.losses + 2.0 * (i != 1), one.training, one.steps) for i, one in enumerate(scan)]
    lost = Trained(scan[0].losses * math.inf, (math.inf, 1.0), (None, None))
    places = [Place(name, "dropout", 0.5) for name in SITES]
    answer = answer_of(places, [0.05, 0.3, 0.8, 0.9], [*scan, lost], None, "scan")
    answer.divide(runner, SITES, [1, 2], [3, 4, 5])
    answer.skipped = {"odd": "by hand"}
    told = answer.finished(0.0, runner)
    found += _files(told)
    text = str(told)
    first, gap, split = told.points[0], told.gap, told.split
    assert gap is not None
    assert gap.share is not None
    assert split is not None
    for words in (
        "resolved: 0.3 is better than 0.05, and a higher rate is worse",
        f"{first.loss:.4g}",
        f"{first.difference:+.3g} \u00b1 {first.paired_error:.2g}",
        "4, -",
        "diverged",
        f"{told.sites[0].effect:+.3g} \u00b1 {told.sites[0].error:.2g}",
        f"dropout takes away {gap.share:.0%} \u00b1 {gap.error:.0%} of the generalization gap",
        f"a rate per site: kept, {split.reason}",
        "odd: by hand",
        "a note",
        ", 3 of them from an earlier run",
    ):
        found.append(same(words in text, True, f"in words: {words[:40]}"))
    found += _rows_of(told, scan)
    held = scan[0].losses.mean()
    taken = _gain(scan[0].losses, scan[1].losses)
    found.append(compare(gap.share, "==", scale * taken[0] / (held - 0.2), "share of the gap"))
    found.append(compare(gap.error or 0.0, "==", scale * taken[1] / (held - 0.2), "its error"))
    ridge, chooses = DropoutRidge(0.1), DropoutRidgeCV()
    found.append(same((told.apply(ridge), ridge.drop), ([], 0.3), "an estimator"))
    found.append(same((told.apply(chooses), list(chooses.drops or [])), ([], [0.3]), "one that chooses"))
    found.append(refuses(lambda: told.apply(3), "module must be an nn.Module, got int"))
    net = nn.ModuleDict({name: nn.Dropout(0.5) for name in ("one", "two", "three")})
    found.append(same(told.apply(net), ["four"], "sites that are not there"))
    rates = [net[name].p for name in ("one", "two", "three")]
    found.append(compare(rates, "==", scale * tensor([told.rates[name] for name in ("one", "two", "three")]), "set"))
    net.drop_four = 0.5  # type: ignore[assignment]
    found.append(same((told.apply(net), net.drop_four), ([], told.rates["four"]), "a call, by its rate before"))
    owner = nn.Module()
    owner.drop_a, owner.size = 0.5, 0.5  # type: ignore[assignment]
    found.append(
        same(
            (set_rates(owner, {"x": 0.1, "y": 0.2}, {"x": 0.5, "y": 0.5}), owner.drop_a),
            (["y"], 0.1),
            "two calls share",
        )
    )
    owner.drop_a, owner.drop_b = 0.5, 0.5  # type: ignore[assignment]
    found.append(same(set_rates(owner, {"x": 0.1}, {"x": 0.5}), ["x"], "two attributes"))
    for steps, fit, looks, tail in (
        (20, Fit(looks=4), [5, 10, 15, 20], []),
        (3, Fit(looks=4), [1, 2, 3], []),
        (200, Fit(looks=2, stop="last", tail=4), [100, 185, 190, 195, 200], [185, 190, 195, 200]),
        (200, Fit(looks=2, stop="last", tail=1), [100, 200], [200]),
    ):
        found.append(same((fit.look_steps(steps), fit.tail_steps(steps)), (looks, tail), f"looks of {steps}"))
    return found
