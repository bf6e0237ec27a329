"""What a claim compares on decisions that change few answers: who is attacked, what is kept, drawn and shared."""

from __future__ import annotations

import contextlib
import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import nn

from droptics.attacks import Apgd, Bim, Fab, Fgsm, Margin, Pgd, Threat, ensemble, robust_accuracy, standard_attacks
from droptics.attacks.robustness import Stage
from droptics.audits import rounds
from droptics.audits.drawing import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, curves, ticks
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.evidence.engines import Done, Engine, Local, Task, perform
from droptics.losses import CrossEntropy
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.rates.kept_copy_checks import _problem
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import normal, tensor, uniform
from droptics.predictions.controls import _likely
from droptics.rates.running import Runner
from droptics.recommenders.extents import Extent
from droptics.recommenders.partitioned import _add, _Descent, _extent, _joint, _moves, _reached_items


def decided_ways(scale: float) -> list[Comparison]:
    """Stages of an ensemble, runs that go on, curves as text, parts of a cluster, draws, copies elsewhere."""
    parts = _those, _chosen, _went_on, _curves, _shared, _drawn, _elsewhere
    return by_parts(parts, scale)


def _those(scale: float) -> list[Comparison]:
    """Who is attacked by a stage, and from where."""
    found: list[Comparison] = []
    data = Sample(normal(1, 90, 3), torch.zeros(90).long())
    state = ensemble._Progress.begin(nn.Identity(), data)
    generator = torch.Generator().manual_seed(4)
    state.found_by = torch.randint(-1, 4, (90,), generator=generator)
    state.found_by[state.found_by == 3] = ensemble._LEFT
    state.margins = normal(5, 90)
    state.parts = {2: 4}
    method = Pgd(Margin())
    for number in (0, 1, 2, 3):
        rows, left = ensemble._those(state, number, method)
        mine = [i for i in range(90) if number == 0 or int(state.found_by[i]) >= number]
        wanted = mine
        if number == 2:
            wanted = sorted(sorted(mine, key=lambda i: float(state.margins[i]))[: math.ceil(len(mine) / 4)])
        found.append(same((rows.tolist(), left), (wanted, len(mine)), f"who is left to stage {number}", scale))
    few = ensemble._those(replace(state, found_by=torch.full((90,), -1)), 1, ensemble._AT_ONCE)
    found.append(same((few[0].tolist(), few[1]), ([], 0), "nobody is left", scale))
    for count, tried in ((64, 64), (65, 0)):
        some = torch.where(torch.arange(90) < count, ensemble._LEFT, 0)
        rows, left = ensemble._those(replace(state, found_by=some), 1, ensemble._AT_ONCE)
        found.append(same((len(rows), left), (tried, count), f"all classes at once for {count}", scale))
        rows, left = ensemble._those(replace(state, found_by=some), 1, ensemble._AGAIN)
        found.append(same((len(rows), left), (count - tried, count), f"one more step for {count}", scale))
    part, state.inputs = torch.tensor([3, 7, 8]), normal(6, 90, 3)
    found.append(same(ensemble._placed(method, state, data, part), method, "a method with its own start", scale))
    for again in (ensemble._AT_ONCE, ensemble._AGAIN):
        begun: Any = ensemble._placed(again, state, data, part)
        found.append(compare(begun.start, "==", scale * state.inputs[part], "from where the last stage led"))
    for done, several in ((0, ensemble._OTHERS), (2, ensemble._MORE_OTHERS)):
        state.partial = {"done": done}
        placed: Any = ensemble._placed(several, state, data, part)
        drawn = torch.randint(90, (3, several.restarts), generator=torch.Generator().manual_seed(done))
        found.append(compare(placed.start, "==", scale * data.inputs[drawn], f"from other examples, batch {done}"))
    return found


def _chosen(scale: float) -> list[Comparison]:
    """The default ensemble by norm and network, stage by stage, and what part of the examples each has."""
    found: list[Comparison] = []
    inputs, labels = uniform(1, 5, 3), torch.tensor([0, 1, 2, 0, 1])
    plain = nn.Sequential(linear_head(1, 3, 4), nn.ReLU(), linear_head(2, 4, 3))
    other = nn.Sequential(linear_head(1, 3, 4), nn.Softplus(), linear_head(2, 4, 3))
    base = standard_attacks(3)
    begin, end = base[:-1], base[-1:]
    halves = {base[2]: 2, base[3]: 2, Fab(steps=20, candidates=2): 2, ensemble._MARGINS: 2}
    ahead = [*[Fgsm(Margin("greedy"))] * 2, Pgd(Margin("every", candidates=3), steps=10)]
    cases: tuple[tuple[nn.Module, Any, list[Any]], ...] = (
        (plain, "linf", [*begin, *end, ensemble._MORE_OTHERS]),
        (other, "l2", [*ahead, *begin, ensemble._MARGINS, *end, ensemble._OTHERS]),
        (other, "l1", [*ahead, *begin, *end, ensemble._OTHERS]),
    )
    for module, norm, wanted in cases:
        seen: list[Any] = []

        def stage(*given: Any, seen: list[Any] = seen) -> None:
            seen.append((given[3], given[4][0].parts, given[5]))

        with mock.patch.object(ensemble, "_run_stage", stage):
            robust_accuracy(module, Sample(inputs, labels), Threat(norm, 0.1), batch=3)
        told = [one for one, _, _ in seen]
        found.append(same(told, list(enumerate(wanted)), f"stages on {norm} balls", scale))
        shares = halves | {ensemble._OTHERS: 16, ensemble._MORE_OTHERS: 8}
        parts = {number: shares[method] for number, method in enumerate(wanted) if method in shares}
        found.append(same((seen[0][1], seen[0][2]), (parts, 3), f"parts on {norm} balls", scale))
    return found


def _went_on(scale: float) -> list[Comparison]:
    """A run that breaks off goes on with the same random numbers, and tells another question apart."""
    found: list[Comparison] = []
    module = nn.Sequential(linear_head(1, 3, 6), nn.Tanh(), linear_head(2, 6, 3))
    data = Sample(uniform(3, 12, 3), torch.arange(12) % 3)
    threat = Threat("linf", 0.25, box=(0.0, 1.0))
    methods: list[Any] = [Pgd(Margin(), steps=2), Apgd(CrossEntropy(), steps=3, start="random")]
    whole = robust_accuracy(module, data, threat, methods, batch=5)
    fooled = module(whole.inputs).argmax(1) != data.targets
    clean = (module(data.inputs).argmax(1) == data.targets).double().mean()
    found.append(compare(whole.clean.value, "==", scale * clean, "right before"))
    found.append(compare(whole.robust.value, "==", scale * (1 - fooled.double().mean()), "right after all stages"))
    moved = (whole.inputs - data.inputs).abs().amax(1)
    found.append(compare(moved[~fooled], "==", 0.0, "points of those who are not fooled"))
    found.append(compare(moved, "<=", threat.radius, "points in the ball"))
    told_by = [int(one) for one in whole.found_by[fooled]]
    found.append(same(max(told_by) < 2 <= int(whole.found_by[~fooled].min()), True, "whom a stage has fooled", scale))
    run = ensemble._attacked
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.safetensors"
        for stop in (1, 2, 4):
            calls: list[int] = []

            def broken(*given: Any, stop: int = stop, calls: list[int] = calls) -> Any:
                calls.append(given[4][0])
                if len(calls) > stop:
                    raise KeyboardInterrupt
                return run(*given)

            path.unlink(missing_ok=True)
            with mock.patch.object(ensemble, "_attacked", broken), contextlib.suppress(KeyboardInterrupt):
                robust_accuracy(module, data, threat, methods, batch=5, checkpoint=path)
            again = robust_accuracy(module, data, threat, methods, batch=5, checkpoint=path)
            found.append(compare(again.inputs, "==", scale * whole.inputs, f"points after {stop} batches and a break"))
            found.append(same(again.found_by.tolist(), whole.found_by.tolist(), "who is fooled by whom", scale))
            told, wanted = ([replace(one, seconds=0.0) for one in result.stages] for result in (again, whole))
            found.append(same(told, wanted, "stages", scale))
        words = "belongs to another model, other data, threat or methods"
        twin = nn.Sequential(linear_head(1, 3, 6), nn.Tanh(), linear_head(2, 6, 3))  # it is right where the other is
        twin[2].load_state_dict({name: 2 * part for name, part in module[2].state_dict().items()})
        asks: tuple[tuple[Any, ...], ...] = (
            (twin, data, threat, methods),
            (module, Sample(data.inputs + 0.01, data.targets), threat, methods),
            (module, data, replace(threat, radius=0.2), methods),
            (module, data, threat, methods[:1]),
            (nn.Sequential(linear_head(1, 3, 6), nn.Tanh(), linear_head(4, 6, 3)), data, threat, methods),
        )
        for ask in asks:
            call = lambda ask=ask: robust_accuracy(*ask, batch=5, checkpoint=path)  # noqa: E731
            found.append(refuses(call, words, f"another question: {words[:20]}"))
        other = lambda: robust_accuracy(module, data, threat, methods, batch=4, checkpoint=path)  # noqa: E731
        found.append(refuses(other, words, "other batches"))
        odd = lambda: robust_accuracy(module, data, threat, methods, checkpoint="x.npz")  # noqa: E731
        found.append(refuses(odd, "checkpoint must end in .safetensors"))
    empty = Stage("x", 0, 0, 0, 0, 0.0)
    state = ensemble._Progress.begin(module, data)
    state.left = 0
    ensemble._run_stage(module, data, threat, (0, methods[0]), (state, None), 5)
    found.append(same(state.stages, [replace(empty, method=ensemble._words(methods[0]))], "nobody is left", scale))
    return [*found, *_stored(scale), *_stays(module, data, threat, scale)]


def _stays(module: nn.Module, data: Sample, threat: Threat, scale: float) -> list[Comparison]:
    """A step that everybody takes moves those who are wrong before, too, who are told to stay where they are."""
    told = robust_accuracy(module, data, threat, [Bim(steps=2), Pgd(Margin(), steps=2)], batch=5)
    before, fooled = (module(points).argmax(1) != data.targets for points in (data.inputs, told.inputs))
    moved = (told.inputs - data.inputs).abs().amax(1)
    return [
        same((int(before.sum()) > 0, bool((fooled & ~before).any())), (True, True), "some are wrong before", scale),
        compare(1 + moved[before | ~fooled], "==", scale, "who was wrong before, or is not fooled, stays"),
        compare(1 + (told.found_by < 0).double(), "==", scale * (1 + before.double()), "who was wrong before"),
    ]


def _stored(scale: float) -> list[Comparison]:
    """All that is known of a run that broke off is read as it was written; the rest is that of the question."""
    inputs, by, margins = normal(1, 4, 3), torch.tensor([-1, 0, 1, ensemble._LEFT]), normal(2, 4)
    stages = [Stage("Pgd(steps=2)", 4, 1, 8, 0, 0.5), Stage("Square(queries=9)", 3, 2, 0, 27, 0.25)]
    partial = {"done": 1, "attacked": 2, "found": 1, "gradients": 5, "queries": 6, "seconds": 0.125}
    state = ensemble._Progress(inputs, by, margins, stages, partial, ["one doubt", "another"], "question")
    begin = ensemble._Progress(
        inputs * 0, by * 0, margins * 0, key="question", luck=True, ends=(0.0, 2.0), parts={1: 2}
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.safetensors"
        state.write(path)
        read = ensemble._read(path, begin)
    found = [
        compare(read.inputs, "==", scale * inputs, "points that are read"),
        compare(2 + read.found_by, "==", scale * (2 + by), "who is found that is read"),
        compare(read.margins, "==", scale * margins, "margins that are read"),
        same((read.stages, read.partial, read.doubts), (stages, partial, state.doubts), "stages, sums, doubts", scale),
    ]
    rest = (read.key, read.luck, read.ends, read.parts, read.left, read.clean)
    found.append(same(rest, ("question", True, (0.0, 2.0), {1: 2}, None, None), "what the question says", scale))
    return found


def _numbers(text: str) -> list[float]:
    return [float(one) for one in re.findall(r"-?\d+\.?\d*(?:e-?\d+)?", text)]


def _curves(scale: float) -> list[Comparison]:
    """Lines, band, marks, ticks, level and legend of a curve stand where its numbers put them."""
    found: list[Comparison] = []
    x, one, two = [0.1, 0.4, 0.9], [3.0, -1.0, math.nan], [0.5, 4.0, 2.0]
    band = ([2.5, -1.5, 0.0], [3.5, -0.5, 1.0])
    text = curves(x, {"a<b": one, "c": two}, axes=("rate", "loss"), alt='x "y"', band=band, level=("none", 1.0))
    low, high = -1.5, 4.0
    across = [round(LEFT + (a - 0.1) / 0.8 * (WIDTH - RIGHT - LEFT), 1) for a in x]

    def up(value: float) -> float:
        return round(HEIGHT - BOTTOM + (value - low) / (high - low) * (TOP - HEIGHT + BOTTOM), 1)

    lines = [_numbers(points) for points in re.findall(r'<polyline points="([^"]*)"', text)]
    wanted = [[across[0], up(3.0), across[1], up(-1.0)]]
    wanted += [
        [part for a, b in zip(across, values, strict=True) for part in (a, up(b))] for values in (two, [1.0] * 3)
    ]
    found += [compare(mine, "==", scale * np.array(line), "a line") for mine, line in zip(lines, wanted, strict=True)]
    (polygon,) = re.findall(r'<polygon points="([^"]*)"', text)
    outline = [*zip(across, band[0], strict=True), *list(zip(across, band[1], strict=True))[::-1]]
    found.append(
        compare(_numbers(polygon), "==", scale * np.array([c for a, b in outline for c in (a, up(b))]), "band")
    )
    circles = [(float(a), b) for a, b in re.findall(r'<circle cx="([^"]*)" cy="([^"]*)"', text)]
    places = [(across[0], str(up(3.0))), (across[1], str(up(-1.0))), (across[2], "nan")]
    found.append(same(circles, places, "marks of the first", scale))
    squares = [tuple(map(float, two)) for two in re.findall(r'<rect x="([^"]*)" y="([^"]*)"', text)]
    corner = [(a - 3, up(b) - 3) for a, b in zip(across, two, strict=True)]
    found.append(compare(np.array(squares), "==", scale * np.array(corner), "marks of the second"))
    names = re.findall(r'<text x="100" y="(\d+)">([^<]*)</text>', text)
    found.append(same(names, [("22", "a&lt;b"), ("37", "c"), ("52", "none")], "a legend", scale))
    dashes = re.findall(r'stroke-dasharray="([^"]*)"', text)
    found.append(same(dashes, ["", "6 4", "2 3"] * 2, "dashes of lines and legend", scale))
    bottom = re.findall(r'<text x="([^"]*)" y="201" text-anchor="middle">([^<]*)<', text)
    marks = [(str(round(LEFT + (value - 0.1) / 0.8 * 350, 1)), f"{value:g}") for value in (0.2, 0.4, 0.6, 0.8)]
    found.append(same(bottom, marks, "ticks below", scale))
    side = re.findall(r'<text x="52" y="([^"]*)" text-anchor="end">([^<]*)<', text)
    heights = [(str(up(value) + 4), f"{value:.4g}") for value in (0.0, 2.0, 4.0)]
    found.append(same(side, heights, "ticks beside", scale))
    found.append(same("x &quot;y&quot;" in text and ">rate<" in text and ">loss<" in text, True, "words", scale))
    found.append(same(curves([1.0], {"a": [math.inf]}, axes=("", ""), alt=""), "", "nothing to draw", scale))
    point = curves([2.0], {"a": [5.0]}, axes=("", ""), alt="")
    middle = f"{(LEFT + WIDTH - RIGHT) / 2},{(HEIGHT - BOTTOM + TOP) / 2}"
    told = (f'points="{middle}"' in point, "M68" in point, point.count("<circle"))
    found.append(same(told, (True, False, 1), "a single point, without a legend", scale))
    many = curves([float(k) for k in range(25)], {"a": [float(k) for k in range(25)]}, axes=("", ""), alt="")
    found.append(same(many.count("<circle"), 0, "no marks on many points", scale))
    # the least of 1, 2 and 5 times a power of ten that is three quarters of a fourth at least
    rounded: dict[tuple[float, float], list[float]] = {
        (0.0, 7.0): [0, 2, 4, 6],
        (-3.0, 9.0): [0, 5],
        (0.0, 0.04): [0, 0.01, 0.02, 0.03, 0.04],
        (2.0, 2.0): [2],
        (0.0, 30.0): [0, 10, 20, 30],
        (-41.0, 2.0): [-40, -30, -20, -10, 0],
    }
    for ends, steps in rounded.items():
        found.append(same(ticks(*ends), steps, f"ticks from {ends[0]} to {ends[1]}", scale))
    return found


def _shared(scale: float) -> list[Comparison]:
    """What parts of a cluster know together: where the steps of items end, distinct ids, extents."""
    x, d = normal(1, 4, 3).numpy(), uniform(2, 4, 3).numpy()
    none = np.zeros((4, 3))
    active = np.array([False, True, False, False])
    state = _Descent(x, none, d, none, none, none[:, 0], none[:, 0], active, 7.5, np.dtype(np.float32))
    told = _reached_items(state)
    penalty = sum(float(d[i, k] * x[i, k] ** 2) for i in range(4) for k in range(3))
    found = [
        compare(told[0], "==", scale * x, "solutions of items", precision=1e-6),
        compare(told[1:], "==", scale * np.array([7.5, penalty]), "their value, and the penalty in it"),
        same((told[0].dtype, _moves(state)), (np.dtype(np.float32), True), "precision; one still moves", scale),
        same(_moves(replace(state, active=active & False)), False, "nobody moves", scale),
        same(_add((1, 2.5), (3, 4.0)), (4, 6.5), "sums part by part", scale),
    ]
    ids, counts = _joint([(np.array([2, 5, 9]), np.array([1, 4, 2])), (np.array([5, 7]), np.array([3, 1]))])
    told_ids = (ids.tolist(), counts.tolist(), counts.dtype)
    found.append(same(told_ids, ([2, 5, 7, 9], [1, 7, 1, 2], np.dtype(np.int64)), "ids and their counts", scale))
    ratings = [normal(seed, size).numpy() + seed for seed, size in ((3, 5), (4, 1), (5, 8))]
    parts = [(Extent(part.min(), part.max(), part[0], float((part - part[0]).sum())), len(part)) for part in ratings]
    extent, whole = _extent(parts), np.concatenate(ratings)
    wanted = [whole.min(), whole.max(), whole[0], (whole - whole[0]).sum()]
    found.append(compare([extent.low, extent.high, extent.first, extent.sum], "==", scale * np.array(wanted), "extent"))
    return found


def _round(examples: int, apart: bool, reuse: bool, left: float, **plan: Any) -> Any:
    """A batch of which only what a plan looks at is there."""
    shares = {"a": 0.8, "b": 0.25, "c": 1.0}
    laws = [SimpleNamespace(name=name, rate=0.5) for name in shares]
    base = SimpleNamespace(
        sums=torch.zeros(examples),
        axes={"a": 0, "b": 0 if apart else None, "c": 0},
        recording=SimpleNamespace(share=shares.__getitem__),
    )
    asked = SimpleNamespace(**({"draws": None, "generator": None, "curve": ("a", "c"), "rates": (0.1, 0.9)} | plan))
    runs, tally = SimpleNamespace(reuse=reuse), SimpleNamespace(curve_draws=None, curves={})

    def has_one_number(law: Any, rate: float | None = None) -> bool:
        return examples == 1 or base.axes[law.name] is None  # at one half some coin of these falls nearly always

    batch = SimpleNamespace(runs=runs, base=base, plan=asked, tally=tally, laws=laws, left=left, add=mock.Mock())
    batch.has_one_number = has_one_number
    return batch


def _drawn(scale: float) -> list[Comparison]:
    """How many draws every site and all together have, by what is left of the budget."""
    found: list[Comparison] = []
    sites = ("a", "b", "c")
    for reuse, costs in ((True, (0.8, 0.25, 1.0)), (False, (1.0, 1.0, 1.0))):
        for left in (2.0, 9.0, 17.0, 40.0, 1000.0):
            for examples, apart, total in ((5, True, False), (5, False, True), (1, True, True), (5, True, True)):
                batch = _round(examples, apart, reuse, left)
                several = 3 if examples > 1 and apart else 4
                everyone = math.floor((left - several) / sum(costs))
                looks = mock.Mock(return_value=({name: name for name in sites}, "drawn"))
                shares = mock.Mock(return_value=dict.fromkeys(sites, 7))
                with mock.patch.object(rounds, "screen", looks), mock.patch.object(rounds, "share_out", shares):
                    told = rounds._decide(batch, batch.laws, total)
                label = f"draws: {left} left, {examples} examples, {reuse}, {apart}, {total}"
                if everyone >= 6 or several == 4 or not total:
                    each = max(min(everyone, 16), 1)
                    alone = {"a": examples == 1, "b": examples == 1 or not apart, "c": examples == 1}
                    wanted = {name: max(each, 4 if alone[name] else 1) for name in sites}
                    found.append(same(told, ({rounds.TOTAL: several, **wanted}, []), label, scale))
                    continue
                found.append(same(told, ({rounds.TOTAL: several, **dict.fromkeys(sites, 7)}, ["drawn"]), label, scale))
                rest = left - (several - 1)
                least = 2 if rest >= 2 * sum(costs) else 1
                paid = dict(zip(sites, costs, strict=True))
                asked = ({name: name for name in sites}, paid, rest, dict.fromkeys(sites, least))
                found.append(same(shares.call_args.args, asked, f"shared out: {left} left", scale))
    given = _round(5, True, True, 3.0, draws=11)
    wanted = {rounds.TOTAL: 11, "a": 11, "b": 11, "c": 11}
    found.append(same(rounds._decide(given, given.laws, True), (wanted, []), "draws that are given", scale))
    for left, draws, examples, count in (
        (1000.0, None, 5, 4),
        (3.6 * 3 + 0.1, None, 5, 3),
        (3.5, None, 5, 0),
        (3.6 * 3 + 0.1, None, 1, 0),
        (0.0, 6, 5, 6),
    ):
        batch = _round(examples, True, True, left, draws=draws)
        rest = mock.Mock(return_value=("rest", "plain"))
        with mock.patch.object(rounds, "remainder", rest):
            rounds._curves(batch, batch.laws)
        asked_of = [(call.args[2][0].name, call.args[4]) for call in rest.call_args_list]
        places = [(name, rate) for name in ("a", "c") for rate in (0.1, 0.9) for _ in range(count)]
        found.append(same((asked_of, batch.tally.curve_draws), (places, count), f"curves: {left} left", scale))
        kept = list(batch.tally.curves) if count else []
        found.append(same(kept, list(dict.fromkeys(places)), "curves that are kept", scale))
    chances = tensor([0.0003, 0.4, 0.0002, 0.5, 0.0004, 0.0991])
    found.append(same(_likely(chances).tolist(), [3, 1, 5], "masks that are met", scale))
    odds = tensor([0.3, 0.002, 0.698])
    found.append(same(_likely(odds).tolist(), [2, 0, 1], "until less than a thousandth is left", scale))
    return found


@dataclass(frozen=True)
class Backwards(Engine):
    """Tasks in this process, the last first."""

    fails: bool = False

    def run(self, tasks: Sequence[Task]) -> Iterator[Done]:
        for task in reversed(tasks):
            yield replace(perform(task), error="no luck") if self.fails else perform(task)


def _elsewhere(scale: float) -> list[Comparison]:
    """Copies on an engine that is not this process are those of this one, whatever is done first, kept and resumed."""
    found: list[Comparison] = []
    settings, seeds = [{"2": 0.2}, {"2": 0.6}], [3, 4]
    here = Runner(_problem(), "auto", Local(), None, False).run(settings, seeds, "x")
    with tempfile.TemporaryDirectory() as folder:
        for population, resumed in (("auto", 0), ("apart", 4)):
            runner = Runner(_problem(), population, Backwards(), Path(folder), False)  # type: ignore[arg-type]
            there = runner.run(settings, seeds, "x")
            for mine, wanted in zip(there, here, strict=True):
                label = f"copies elsewhere, {population}"
                found.append(compare(mine.losses, "==", scale * wanted.losses, label, 1e-9))
                found.append(compare(mine.training, "==", scale * tensor(wanted.training), f"training, {label}", 1e-9))
                found.append(same(mine.steps, wanted.steps, f"best steps, {label}", scale))
            told = (runner.copies, runner.resumed, runner.together)
            found.append(same(told, (4, resumed, False), f"counts, {population}", scale))
        left = [path.suffix for path in Path(folder).iterdir()]
        found.append(same(set(left), {".json"}, "nothing unfinished stays", scale))
    failing = Runner(_problem(), "auto", Backwards(fails=True), None, False)
    try:
        failing.run(settings, seeds, "x")
        words = ""
    except RuntimeError as problem:
        words = str(problem)
    found.append(same(words, "a copy could not be trained: no luck", "a failure elsewhere", scale))
    return found
