"""What claims on ensembles of attacks compare: affine models corner by corner, boundary searches, stages, masks."""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import replace
from itertools import count, product
from typing import Any
from unittest import mock

import torch
from torch import Tensor, nn

from droptics.attacks import (
    Averaged,
    Dlr,
    Fab,
    Margin,
    Pgd,
    Square,
    Threat,
    attack,
    ensemble,
    robust_accuracy,
)
from droptics.attacks.attack import proportion
from droptics.attacks.ensemble import _differ, _looked_at, _Progress, _run_stage, _verdicts, _words
from droptics.attacks.fab import BoundarySearch
from droptics.attacks.gradients import differentiable
from droptics.attacks.methods import Apgd, Bim
from droptics.attacks.robustness import Randomness, Robustness, Stage, percent
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli
from droptics.models import ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.attacks.affine_checks import affine_models
from droptics.papers.droptics_own.attacks.averaged_checks import averaged, masked
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor, uniform

searching: Any = sys.modules["droptics.attacks.search"]


def ensembles_in_full(scale: float) -> list[Comparison]:
    """Affine models, means over masks, boundary searches, blocks, stages and their words."""
    if scale != 1:  # a control need not be long
        return [*affine_models(scale), *averaged(scale)]
    return [
        *affine_models(scale),
        *averaged(scale),
        *_boundaries(scale),
        *_blocks(scale),
        *_stages(scale),
        *_random(scale),
        *_words_of(scale),
    ]


def _crossed(net: nn.Module, points: Tensor, labels: Tensor) -> Tensor:
    outputs = net(points).detach()
    others = outputs.scatter(1, labels[:, None], -math.inf).amax(1)
    return others > outputs.gather(1, labels[:, None])[:, 0]


def _nearest_class(net: nn.Module, points: Tensor, labels: Tensor, dual: float) -> tuple[Tensor, Tensor]:
    """Of the two likeliest wrong classes the one whose linearized boundary is nearer: its gap and the gradient."""
    leaf = points.clone().requires_grad_()
    outputs = net(leaf)
    slopes = torch.stack([torch.autograd.grad(part.sum(), leaf, retain_graph=True)[0] for part in outputs.mT], 1)
    values, normals = [], []
    for own, ways, y in zip(outputs.detach(), slopes, labels.tolist(), strict=True):
        aims = sorted((j for j in range(4) if j != y), key=lambda j, own=own: -float(own[j]))[:2]  # type: ignore[misc]
        gaps = [(own[j] - own[y], ways[j] - ways[y]) for j in aims]
        value, slope = min(gaps, key=lambda one: float(one[0].abs() / torch.linalg.vector_norm(one[1], dual)))
        values.append(value)
        normals.append(slope)
    return torch.stack(values), torch.stack(normals)


def _shortened(net: nn.Module, inputs: Tensor, labels: Tensor, nearest: Tensor, far: Tensor) -> tuple[Tensor, Tensor]:
    """Points drawn towards their inputs by three halvings, as long as they stay misclassified."""
    low, high = torch.zeros(len(inputs)).double(), torch.ones(len(inputs)).double()
    for halving in range(3):
        middle = (low + high) / 2 if halving else 0.98 * high
        across = _crossed(net, inputs + middle[:, None] * (nearest - inputs), labels)
        high, low = torch.where(across, middle, high), torch.where(across, low, middle)
    short = (far > 0) & far.isfinite()
    return torch.where(short[:, None], inputs + high[:, None] * (nearest - inputs), nearest), far


def _walked(
    net: nn.Module, inputs: Tensor, labels: Tensor, threat: Threat, runs: tuple[int, int]
) -> tuple[Tensor, Tensor, list[int], Tensor]:
    """Points, who is fooled, counts with gradients, who is stuck: the steps of every run, the first from the inputs."""
    (steps, restarts), radius, box = runs, threat.radius, threat.box
    dual = {"linf": 1.0, "l2": 2.0, "l1": math.inf}[threat.norm]
    wrong, draws = net(inputs).argmax(1) != labels, torch.Generator()
    nearest, far = inputs.clone(), torch.where(wrong, 0.0, math.inf).double()
    counts, gradients = [int(wrong.sum())], 0
    for run in range(restarts):
        points, left = inputs.clone(), far > radius
        if run and bool(left.any()):
            points[left] = threat.around(inputs[left]).random(draws)
        for _ in range(steps if bool(left.any()) else 0):
            walking = far > radius
            gradients += 2 * int(walking.sum())
            value, slope = _nearest_class(net, points, labels, dual)
            here = threat.around(inputs).advance(points, slope, -value)
            there = threat.around(inputs).advance(inputs, slope, -(value + (slope * (inputs - points)).sum(1)))
            near, away = (threat.distance(inputs + move, inputs) for move in (here, there))
            share = (near / (near + away)).clamp_max(0.1)[:, None]
            moved = (1 - share) * (points + 1.05 * here) + share * (inputs + 1.05 * there)
            moved = moved if box is None else moved.clamp(*box)
            across = _crossed(net, moved, labels)
            length = threat.distance(moved, inputs)
            better = walking & across & (length < far)
            nearest[better], far[better] = moved[better], length[better]
            stepped = torch.where(across[:, None], inputs + 0.9 * (moved - inputs), moved)
            points = torch.where(walking[:, None], stepped, points)
            counts.append(int((far <= radius).sum()))
            if bool((far <= radius).all()):
                break
    nearest, far = _shortened(net, inputs, labels, nearest, far)
    far = torch.where((far > 0) & far.isfinite(), threat.distance(nearest, inputs), far)
    inside = far <= radius
    drawn = threat.around(inputs).retract(inputs + (radius / far)[:, None] * (nearest - inputs))
    ends = torch.where((~inside & far.isfinite())[:, None], drawn, nearest)
    still = ~inside & (~far.isfinite() | (threat.distance(ends, inputs) < 0.01 * radius))
    return ends, inside, [*counts, gradients], still


def _boundaries(scale: float) -> list[Comparison]:
    """Boundary searches, all examples to the end of their own walk, and walks that begin anew at random."""
    found: list[Comparison] = []
    net = nn.Sequential(linear_head(1, 5, 7), nn.ReLU(), linear_head(3, 7, 4))
    inputs = uniform(5, 12, 5)
    with torch.no_grad():
        labels = net(inputs).argmax(1)
    labels[::7] = (labels[::7] + 1) % 4
    for (norm, radius, box, steps), restarts in product(
        (("linf", 0.06, (0, 1), 6), ("l2", 0.15, None, 6), ("l1", 0.3, (0, 1), 4), ("l2", 0.4, (0, 1), 1)), (1, 3)
    ):
        threat, method = Threat(norm, radius, box), Fab(steps=steps, candidates=2, restarts=restarts)
        ends, inside, counts, still = _walked(net, inputs, labels, threat, (steps, restarts))
        search_ = BoundarySearch(differentiable(net), threat.around(inputs), labels, method, torch.Generator())
        told, name = search_.run(), f"{norm}, {steps} steps, {restarts} runs"
        assert told.stuck is not None
        found.append(compare(told.inputs, "==", scale * ends, f"points, {name}", 1e-8))
        found.append(compare(told.fooled.double(), "==", scale * inside.double(), f"fooled, {name}"))
        found.append(compare(told.tally, "==", scale * tensor(counts), f"tally, {name}"))
        found.append(compare(1 + told.stuck.double(), "==", scale * (1 + still.double()), f"stuck, {name}"))
    return found


def _blocks(scale: float) -> list[Comparison]:
    """A batch block by block finds what it finds at once."""
    found: list[Comparison] = []
    net = nn.Sequential(linear_head(1, 5, 7), nn.ReLU(), linear_head(3, 7, 4))
    inputs = uniform(5, 150, 5)
    with torch.no_grad():
        labels = net(inputs).argmax(1)
    threat = Threat("linf", 0.05, (0, 1))
    for method in (
        Pgd(steps=3),
        Fab(steps=2),
        Apgd(CrossEntropy(), steps=4, start=threat.around(inputs).random(torch.Generator().manual_seed(1))),
    ):
        whole = searching.search(net, inputs, labels, threat, method)
        with mock.patch.object(searching, "_BLOCK", 5 * 64):
            parts = searching.search(net, inputs, labels, threat, method)
        name = type(method).__name__
        found.append(compare(parts.inputs, "==", scale * whole.inputs, f"points, {name}"))
        found.append(compare(parts.fooled.double(), "==", scale * whole.fooled.double(), f"fooled, {name}"))
        found.append(compare(parts.stuck.double() + 1, "==", scale * (1 + whole.stuck.double()), f"stuck, {name}"))
        ends = [int(whole.tally[-2]), len(whole.inputs)]
        found.append(compare([int(parts.tally[-2]), len(parts.inputs)], "==", [scale * end for end in ends], name))
    none = searching.search(net, inputs[:0], labels[:0], threat, Pgd(steps=3))
    found.append(same((len(none.inputs), none.tally.tolist()), (0, [0]), "an empty batch", scale))
    return found


def _stages(scale: float) -> list[Comparison]:
    """Every stage on those that were left, the nearest part of them, in batches; margins, counts, found by whom."""
    found: list[Comparison] = []
    net = nn.Sequential(linear_head(1, 5, 7), nn.Tanh(), linear_head(3, 7, 3))
    inputs = uniform(5, 30, 5)
    with torch.no_grad():
        labels = net(inputs).argmax(1)
    labels[::8] = (labels[::8] + 1) % 3
    data, threat = Sample(inputs, labels), Threat("linf", 0.1, (0, 1))
    # the last one leads less far than those before it
    methods: list[Any] = [Bim(CrossEntropy(), 1, 0.02), Bim(CrossEntropy(), 3, 0.02)]
    methods += [Bim(Margin("greedy"), 6, 0.03), Bim(Margin("greedy"), 1, 0.01)]
    state = replace(_Progress.begin(net, data), parts={1: 2})
    left, margins = torch.arange(30), torch.full((30,), math.inf).double()
    by, points = torch.full((30,), 10**6), inputs.clone()
    for number, method in enumerate(methods):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            _run_stage(net, data, threat, (number, method), (state, None), 7)
        rows = left
        if number == 1:
            rows = left[margins[left].argsort(stable=True)[: (len(left) + 1) // 2].sort().values]
        ends = inputs[rows]
        for _ in range(method.steps):
            leaf = ends.clone().requires_grad_()
            outputs = net(leaf)
            own = outputs[torch.arange(len(rows)), labels[rows]]
            others = outputs.scatter(1, labels[rows][:, None], -math.inf)
            loss = outputs.logsumexp(1) - own if number < 2 else others.amax(1) - own
            (slope,) = torch.autograd.grad(loss.sum(), leaf)
            ends = (inputs[rows] + (ends + method.step * slope.sign() - inputs[rows]).clamp(-0.1, 0.1)).clamp(0, 1)
        outputs = net(ends).detach()
        own = outputs[torch.arange(len(rows)), labels[rows]]
        gap = own - outputs.scatter(1, labels[rows][:, None], -math.inf).amax(1)
        points[rows] = torch.where((gap < margins[rows])[:, None], ends, points[rows])
        margins[rows] = torch.minimum(margins[rows], gap)
        right = net(inputs[rows]).argmax(1) == labels[rows]
        won = (gap < 0) & right
        if number == 0:
            by[rows[~right]] = -1
        by[rows[won]] = number
        stage = state.stages[number]
        attacked = int(right.sum()) if number == 0 else len(rows)
        passes = method.steps * len(rows)
        told = [stage.attacked, stage.found, stage.gradients, stage.queries]
        found.append(compare(told, "==", [scale * k for k in (attacked, int(won.sum()), passes, 0)], f"stage {number}"))
        left = torch.tensor([k for k in left.tolist() if by[k] == 10**6])
        found.append(same(state.left, len(left), f"left after {number}", scale))
    found += [
        compare(1 + state.found_by, "==", scale * (1 + by), "found by"),
        compare(state.inputs, "==", scale * points, "points", 1e-9),
        compare(state.margins, "==", scale * margins, "least margins", 1e-9),
    ]
    for number, left_over in ((1, state.left), (4, 0)):
        state.left = left_over
        _run_stage(net, data, threat, (number, methods[1]), (state, None), 7)
    told = [len(state.stages), state.stages[-1].attacked, state.stages[-1].found, state.stages[-1].gradients]
    found.append(same(told, [5, 0, 0, 0], "a stage that has ended, and one for nobody", scale))
    return [*found, *_doubted(state, data, scale), *_summed(net, data, scale)]


def _summed(net: nn.Module, data: Sample, scale: float) -> list[Comparison]:
    """Work and time of a stage are those of all its batches; nobody is near enough to leave early."""
    found: list[Comparison] = []
    right = int((net(data.inputs).argmax(1) == data.targets).sum())
    methods: list[Any] = [Pgd(Margin("greedy"), steps=3), Square(queries=12), Fab(steps=2, candidates=2)]
    with mock.patch.object(ensemble, "perf_counter", side_effect=count()), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = robust_accuracy(net, data, Threat("linf", 1e-9, (0, 1)), methods, batch=7)
    batches, later = math.ceil(len(data) / 7), math.ceil(right / 7)
    work = ((3 * right, 0, batches), (0, 12 * right, later), (2 * 2 * right, 0, later))
    for stage, wanted in zip(told.stages, work, strict=True):
        mine = [stage.attacked, stage.found, stage.gradients, stage.queries, stage.seconds]
        found.append(compare(mine, "==", [scale * one for one in (right, 0, *wanted)], f"sums of {stage.method}"))
    found.append(same((told.gradients, told.queries), (7 * right, 12 * right), "sums of all", scale))
    return found


def _doubted(state: _Progress, data: Sample, scale: float) -> list[Comparison]:
    """Reasons to doubt an ensemble."""
    found: list[Comparison] = []
    low, high = float(data.inputs.min()), float(data.inputs.max())
    for stages, box, told_doubts in (
        ([Stage("Square(queries=9)", 100, 3, 0, 9, 0.0)], None, 1),
        ([Stage("Square(queries=9)", 100, 2, 0, 9, 0.0)], None, 0),
        ([Stage("Pgd(steps=9)", 100, 50, 0, 9, 0.0)], None, 0),
        ([], (0.0, 100.0), 1),
        ([], (0.0, 1.0), 0),
    ):
        state.stages = stages
        doubts = _verdicts(state, (low, high), Threat("linf", 0.1, box))
        found.append(same(len(doubts), told_doubts, f"doubts, {box}", scale))
        if doubts and box is not None:
            words = f"the inputs lie in [{low:.4g}, {high:.4g}], a small part of the box [0, 100]"
            found.append(same(doubts[0].startswith(words), True, "its words", scale))
    return found


class Noisy(nn.Module):
    """A network that draws at test time."""

    def __init__(self, size: float) -> None:
        super().__init__()
        self.head, self.size = linear_head(1, 4, 3), size

    def forward(self, inputs: Tensor) -> Tensor:
        return self.head(inputs) * (1 + self.size * torch.rand(()))


def _random(scale: float) -> list[Comparison]:
    """Which networks count as random, and what an ensemble says of one whose masks are all listed."""
    found: list[Comparison] = []
    data = Sample(uniform(1, 10, 4), torch.arange(10) % 3)
    wide = linear_head(1, 4, 6)
    for model, random, several in (
        (Noisy(0.0), False, 3),
        (Noisy(1e-15), False, 3),
        (Noisy(1e-3), True, 3),
        (linear_head(1, 4, 3), False, 3),
        (nn.Sequential(wide, nn.ReLU(), linear_head(2, 6, 3)), False, 3),
        (nn.Sequential(wide, nn.ReLU(), nn.Flatten()), False, 6),
        (nn.Sequential(wide, nn.Tanh(), linear_head(2, 6, 2)), False, 2),
    ):
        seen, outputs, doubts = _looked_at(model, data)
        told = (isinstance(seen, Averaged), outputs, bool(doubts))
        found.append(same(told, (random, several, random), f"random: {getattr(model, 'size', 'no')}", scale))
    first = tensor([[1.0, -4.0]])
    level = 100 * torch.finfo(torch.float64).eps * 4
    told_far = [_differ(first, first + share * level) for share in (0.9, 1.1)]
    found.append(same(told_far, [False, True], "how far", scale))
    law = Bernoulli(0.4, 3)
    mean = Averaged.of(TwoLayerLinear(normal(1, 3, 3), normal(2, 4, 3)), law)
    with torch.no_grad():
        labels = mean(data.inputs).argmax(1)
    known = Sample(data.inputs, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told_all = robust_accuracy(mean, known, Threat("linf", 0.1), [Pgd(Margin(), steps=4, stop="never")])
    kept, odds = every_coin([0.4] * 3)
    each = (told_all.inputs @ normal(2, 4, 3) * (kept / 0.6)[:, None]) @ normal(1, 3, 3).mT
    wrong = torch.tensordot(odds, each.softmax(-1), 1).argmax(1) != labels
    found.append(compare(told_all.robust.value, "==", scale * (~wrong).double().mean(), "accuracy of the mean"))
    found.append(compare(told_all.found_by, "==", scale * torch.where(wrong, 0, 1), "found by"))
    luck = told_all.randomness
    assert luck is not None
    single = float(odds @ (each.argmax(2) == labels).double().mean(1))
    found.append(compare(luck.single, "==", scale * single, "of a single pass"))
    found.append(same((luck.masks, luck.exact, luck.fresh), (8, True, 8), "masks", scale))
    return [*found, *_overstated(scale), *_drawn(scale)]


def _overstated(scale: float) -> list[Comparison]:
    """Examples that the mean over masks has wrong from the start are robust to nobody, wherever attacks lead them.

    The input is dropped at rate 1/2, the mean is (f(0) + f(2 x)) / 2 of a line of four pieces. At 1 it is wrong, and
    right where an attack on f alone ends; at 0.2 both are right, at 1.3 such an attack fools f and not the mean.
    """
    net = ReLUNet([torch.ones(3, 1).double(), tensor([[-1.0, -6.0, 26.0]])], [-tensor([0.0, 1.2, 1.9]), tensor([2.0])])
    inputs, found = tensor([[1.0], [0.2], [1.3]]), list[Comparison]()

    def line(x: Tensor) -> Tensor:
        return 2 - x - 6 * (x - 1.2).clamp_min(0) + 26 * (x - 1.9).clamp_min(0)

    ends = [inputs + move for move in (-0.05, 0.0, 0.05)]
    means = torch.stack([(line(0 * x) + line(2 * x))[:, 0] / 2 for x in ends])
    right = [bool((means[:, row] > 0).all()) for row in range(3)]  # straight in between, but where nothing is near zero
    told_ends = [bool(means[1, 0] < 0), bool(means[2, 0] > 0), bool(line(ends[2])[2, 0] < 0), *right[1:]]
    found.append(same(told_ends, [True] * 5, "who is right where", scale))
    mean = Averaged.of(net, Bernoulli(tensor([0.5, 0.0, 0.0, 0.0]), 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = robust_accuracy(
            mean, Sample(inputs, torch.ones(3).double()), Threat("linf", 0.05), [Pgd(Logistic(), steps=3, stop="never")]
        )
    assert told.randomness is not None
    found.append(compare([told.clean.value, told.robust.value], "==", scale * 2 / 3, "right from the start, and after"))
    found.append(compare(2 + told.found_by, "==", scale * tensor([1.0, 3.0, 3.0]), "who is fooled, of them"))
    found.append(compare(1 + told.randomness.overstated, "==", scale, "nothing is overstated"))
    return found


def _drawn(scale: float) -> list[Comparison]:
    """Attacks on a mean over draws: each has masks of its own, others say who is fooled, the last ones who is right."""
    net, law = ReLUNet([normal(1, 11, 2), normal(2, 3, 11)], [normal(3, 11), normal(4, 3)]), Bernoulli(0.4, 13)
    inputs, threat = normal(5, 24, 2), Threat("linf", 0.15)
    methods: list[Any] = [Pgd(Margin("greedy"), steps=k, step=0.06, stop="never") for k in (2, 5)]

    def wrong(points: Tensor, count: int, seed: int) -> Tensor:
        masks = law.multipliers(count, torch.Generator().manual_seed(seed))
        return torch.stack([masked(net, points, row) for row in masks]).softmax(-1).mean(0).argmax(1) != labels

    labels = masked(net, inputs, torch.ones(13)).argmax(1)
    by, points = (
        {True: torch.full((24,), 2), False: torch.full((24,), 2)},
        {True: inputs.clone(), False: inputs.clone()},
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = robust_accuracy(
            Averaged.of(net, law, draws=4, seed=9), Sample(inputs, labels), threat, methods, batch=50
        )
        for number, method in enumerate(methods):
            for mean in (True, False):
                rows = (by[mean] >= number).nonzero()[:, 0]
                model = Averaged.of(net, law, draws=4, seed=1000 * number) if mean else net
                ends = attack(model, Sample(inputs[rows], labels[rows]), threat, method)
                points[mean][rows] = ends.inputs
                won = wrong(points[mean], 16, 2**20)[rows] if mean else ends.success
                by[mean][rows[won]] = number
    clean, ours, others = (wrong(each, 16, 2**21) for each in (inputs, points[True], points[False]))
    last = torch.where(clean, -1, torch.where(ours, by[True].clamp_max(1), 2))
    overstated = float((~others & ~clean).double().mean() - (last == 2).double().mean())
    luck = told.randomness
    assert luck is not None
    return [
        compare(told.inputs, "==", scale * points[True], "points of a mean over draws"),
        compare(2 + told.found_by, "==", scale * (2 + last), "who is fooled by whom over draws"),
        compare(told.clean.value, "==", scale * (~clean).double().mean(), "right over draws"),
        compare(told.robust.value, "==", scale * (last == 2).double().mean(), "right in the end over draws"),
        compare(1 + luck.overstated, "==", scale * (1 + overstated), "what an attack without the mean would say"),
        same((luck.masks, luck.exact, luck.fresh), (4, False, 16), "draws", scale),
    ]


def _words_of(scale: float) -> list[Comparison]:
    """Methods, stages and results in words and in plain dictionaries."""
    found: list[Comparison] = []
    for method, words in (
        (Pgd(Margin(), steps=7), "Pgd(Margin('nearest'), steps=7)"),
        (Apgd(Dlr("every"), steps=9), "Apgd(Dlr('every'), steps=9)"),
        (Pgd(CrossEntropy(), steps=3), "Pgd(CrossEntropy(), steps=3)"),
        (Apgd(Logistic(), steps=3), "Apgd(Logistic(), steps=3)"),
        (Square(queries=30), "Square(queries=30)"),
        (Fab(steps=4), "Fab(steps=4)"),
    ):
        found.append(same(_words(method), words, words, scale))
    stages = [Stage("Pgd(steps=7)", 9, 4, 70, 0, 1.25), Stage("Square(queries=30)", 5, 1, 0, 150, 0.04)]
    threat, by = Threat("l2", 0.5, (0, 1)), torch.tensor([-1, 0, 0, 0, 0, 1, 2, 2, 2, 2])
    luck = Randomness(5, False, 20, 0.456, 0.078)
    clean, robust = proportion(9, 10), proportion(4, 10)
    result = Robustness(clean, robust, torch.zeros(10, 2), by, stages, threat, ("a doubt",), luck)
    found.append(same((result.gradients, result.queries), (70, 150), "work of all", scale))
    told = result.to_dict()
    found.append(same(told["threat"], {"norm": "l2", "radius": 0.5, "box": (0.0, 1.0)}, "threat", scale))
    ends = [told[name][end] for name in ("clean_accuracy", "robust_accuracy") for end in ("lower", "value", "upper")]
    wanted = [float(part) for share in (clean, robust) for part in (share.lower, share.value, share.upper)]
    found.append(compare(ends, "==", [scale * part for part in wanted], "accuracies"))
    rest = (
        told["examples"],
        told["confidence"],
        told["warnings"],
        told["stages"][1]["found"],
        told["randomness"]["fresh"],
    )
    found.append(same(rest, (10, 0.95, ["a doubt"], 1, 20), "the rest", scale))
    low, high = 100 * float(robust.lower), 100 * float(robust.upper)
    found.append(same(percent(robust), f"40.0 % [{low:.1f}, {high:.1f}]", "percent", scale))
    text = str(result)
    for words in (
        f"clean accuracy {percent(clean)}, robust accuracy {percent(robust)}",
        "10 examples, l2 of radius 0.5",
        "mean prediction over 5 masks, judged by 20 others",
        "A single random pass gets 45.6 %",
        "by 7.8 points",
        "warning: a doubt",
    ):
        found.append(same(words.replace(" ", "") in text.replace("\n", "").replace(" ", ""), True, words, scale))
    found.append(same("over all 5 masks" in str(Randomness(5, True, 5, 0.1, 0.0)), True, "all masks", scale))
    found.append(same("in closed form" in str(Randomness(0, True, 5, 0.1, 0.0)), True, "closed form", scale))
    rows = [line.replace("|", " ").split() for line in text.splitlines()]
    cells = [row for row in rows if any(cell.startswith("Pgd(steps=7)") for cell in row)]
    found.append(same([cell for cell in cells[0] if cell[0].isdigit()], ["9", "4", "70", "0", "1.2"], "a row", scale))
    other = Robustness(robust, robust, torch.zeros(10, 2), by, stages[:1], threat)
    both = Robustness.side_by_side({"one": result, "two": other})
    counted = next(line for line in both.splitlines() if "found by Square" in line)
    digits = [word for word in counted.split() if word.isdigit()]
    found.append(same((digits, "warning about one: a doubt" in both), (["1"], True), "side by side", scale))
    return found
