"""What a claim on steps of attacks compares: their sizes, and a few steps up modules of every kind."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from itertools import count
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from droptics.attacks import (
    Apgd,
    Bim,
    CrossEntropy,
    Decay,
    Dlr,
    Fab,
    Fgsm,
    Margin,
    Pgd,
    Reflected,
    Square,
    Threat,
    WeakAttackWarning,
    attack,
)
from droptics.attacks.chain import Chain
from droptics.attacks.gradients import PlainMlp, differentiable
from droptics.attacks.methods import step_sizes
from droptics.attacks.search import tape_of
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor, uniform

RADIUS = 0.2


def steps(scale: float) -> list[Comparison]:
    """Sizes of steps; one-step and fixed-step searches point by point, up layers in rows, with hooks and without."""
    ways = *_sizes(scale), *_points(scale), *_from_outside(scale), *_watched(scale)
    return [*ways, *_convolved(scale), *_single(scale), *_steady(scale)]


def _sizes(scale: float) -> list[Comparison]:
    """Sizes of steps; what methods take unless they are told."""
    pgd, apgd, fab, square = Pgd(), Apgd(), Fab(), Square()
    ways = type(pgd.loss), pgd.step, pgd.start, pgd.gradient, pgd.projection, pgd.stop, pgd.precision
    aims = [(loss.target, loss.candidates) for loss in (Margin(), Reflected(CrossEntropy()), Dlr())]
    kinds = (apgd.start, square.patience, aims, type(apgd.loss), type(square.loss), type(Fgsm().loss), type(Bim().loss))
    wanted = ("input", None, [("nearest", 9)] * 2 + [("greedy", 9)], CrossEntropy, Margin, CrossEntropy, CrossEntropy)
    numbers = (pgd.steps, pgd.restarts, apgd.steps, apgd.restarts, fab.steps, fab.restarts, fab.candidates)
    return [
        compare(numbers, "==", scale * tensor([40.0, 1, 100, 1, 100, 1, 9]), "steps, restarts and candidates"),
        compare((square.queries, square.first, square.restarts), "==", scale * tensor([5000, 0.8, 1]), "squares"),
        same(ways, (CrossEntropy, None, "input", "steepest", "clip", "fooled", "own"), "ways of fixed steps", scale),
        same(kinds, wanted, "starts, patience, aims and losses", scale),
        compare(step_sizes(Bim().step, Bim().steps, 0.5, "fixed"), "==", scale * tensor([0.1] * 10), "ten fifths"),
        compare([Decay(2.0)(step) for step in (0, 9, 10, 25)], "==", scale * tensor([2, 2, 0.4, 0.08]), "fading"),
        compare(step_sizes(None, 3, 0.5, "fixed"), "==", scale * 0.1, "fixed"),
        compare(step_sizes(None, 3, 0.5, "decaying"), "==", tensor([0.5, 0.05, 0.005]) * scale, "decaying"),
        compare(step_sizes(None, 1, 0.5, "decaying"), "==", [0.5 * scale], "one step"),
        compare(step_sizes(Decay(2.0, 0.5, 2), 5, 9.0, "fixed"), "==", tensor([2.0, 2, 1, 1, 0.5]) * scale, "Decay"),
        compare(step_sizes(0.3, 2, 9.0, "decaying"), "==", 0.3 * scale, "given"),
    ]


def _slope(net: nn.Module, points: Tensor, labels: Tensor) -> Tensor:
    leaf = points.clone().requires_grad_()
    return torch.autograd.grad(functional.cross_entropy(net(leaf), labels, reduction="sum"), leaf)[0]


def _walked(net: nn.Module, data: Sample, norm: str, sizes: list[float]) -> Tensor:
    """The last of these steps from the inputs, each pulled back into the ball and the box [0, 1]."""
    inputs, points = data.inputs, data.inputs.clone()
    wide = (-1,) + (1,) * (inputs.ndim - 1)
    for size in sizes:
        slope = _slope(net, points, data.targets)
        length = slope.flatten(1).norm(dim=1).clamp_min(1e-300).view(wide)  # where no unit is active it is zero
        points = points + size * (slope.sign() if norm == "linf" else slope / length)
        move = points - inputs
        if norm == "linf":
            move = move.clamp(-RADIUS, RADIUS)
        else:
            move = move * (RADIUS / move.flatten(1).norm(dim=1).clamp_min(1e-300).view(wide)).clamp_max(1.0)
        points = (inputs + move).clamp(0, 1)
    return points


def _points(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    net = nn.Sequential(linear_head(1, 4, 5), nn.Tanh(), linear_head(3, 5, 3))
    data = Sample(uniform(5, 8, 4), torch.arange(8) % 3)
    for norm in ("linf", "l2"):
        for method, sizes in ((Fgsm(), [RADIUS]), (Bim(steps=4), [0.04] * 4), (Bim(steps=3, step=0.15), [0.15] * 3)):
            points = _walked(net, data, norm, [scale * size for size in sizes])
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", WeakAttackWarning)
                told = attack(net, data, Threat(norm, RADIUS, (0, 1)), method)
            name = f"{type(method).__name__}, {norm}, {len(sizes)}"
            found.append(compare(told.inputs, "==", points, f"points, {name}"))
            own = functional.cross_entropy(net(points), data.targets, reduction="none")
            found.append(compare(told.losses, "==", own, f"losses, {name}"))
            found.append(compare(told.gradients, "==", scale * 8 * len(sizes), f"gradients, {name}"))
    return found


def _from_outside(scale: float) -> list[Comparison]:
    """One step from given points, which are first pulled into the ball and the box: the slope is that of there."""
    found: list[Comparison] = []
    net = nn.Sequential(linear_head(1, 4, 5), nn.Tanh(), linear_head(3, 5, 3))
    data, far = Sample(uniform(5, 8, 4), torch.arange(8) % 3), normal(9, 8, 4)
    for norm in ("linf", "l2"):
        length = far.norm(dim=1, keepdim=True)
        move = far.clamp(-RADIUS, RADIUS) if norm == "linf" else far * (RADIUS / length).clamp_max(1.0)
        begin = (data.inputs + move).clamp(0, 1)
        slope = _slope(net, begin, data.targets)
        step = scale * RADIUS * (slope.sign() if norm == "linf" else slope / slope.norm(dim=1, keepdim=True))
        move = begin + step - data.inputs
        size = move.norm(dim=1, keepdim=True)
        move = move.clamp(-RADIUS, RADIUS) if norm == "linf" else move * (RADIUS / size).clamp_max(1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakAttackWarning)
            told = attack(net, data, Threat(norm, RADIUS, (0, 1)), Fgsm(start=data.inputs + far))
        found.append(compare(told.inputs, "==", (data.inputs + move).clamp(0, 1), f"from points outside, {norm}"))
    return found


def _rolled(module: nn.Module, given: Any, told: Any) -> Any:
    return (given[0].roll(1, 1),)


def _modules() -> Iterator[tuple[str, nn.Module, Tensor]]:
    """Perceptrons and convolutions in a row, in rows of rows, and with hooks that change what they give or are given.

    What a hook does, or a function in the place of a layer, is part of what is attacked: no formula may pass it over.
    """
    vectors, images = uniform(5, 8, 4), uniform(6, 8, 1, 3, 4)
    first, last = linear_head(1, 4, 5), linear_head(3, 5, 3)
    yield "a row of rows", nn.Sequential(nn.Sequential(first), nn.Sequential(nn.ReLU(), last)), vectors
    inner = nn.Sequential(first, nn.ReLU())
    inner.register_forward_hook(lambda _, given, told: told * tensor([1.0, -2.0, 0.5, 3.0, -1.0]))
    yield "a hook on a row", nn.Sequential(inner, last), vectors
    whole = nn.Sequential(linear_head(1, 4, 5), nn.ReLU(), last)
    whole.register_forward_pre_hook(lambda _, given: (given[0].flip(1) - 0.5,))
    yield "a hook before a row", whole, vectors
    turned = nn.Sequential(linear_head(1, 4, 5), nn.ReLU(), last)
    turned.register_full_backward_hook(_rolled)
    yield "a hook on slopes", turned, vectors
    swapped = nn.Sequential(linear_head(1, 4, 5), nn.ReLU(), last)
    swapped[1].forward = torch.tanh
    yield "a function in the place of a layer", swapped, vectors
    layer = nn.Conv2d(1, 2, 2).double().requires_grad_(False)
    layer.weight.copy_(normal(7, 2, 1, 2, 2))
    chain = nn.Sequential(nn.Sequential(layer, nn.ReLU()), nn.Flatten(), linear_head(8, 12, 3))
    yield "convolutions", chain, images
    bent = nn.Sequential(layer, nn.Sequential(nn.ReLU(), nn.Flatten()), linear_head(8, 12, 3))
    bent[1].register_forward_hook(lambda _, given, told: told.flip(1))
    yield "a hook among convolutions", bent, images


def _watched(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    for name, net, inputs in _modules():
        data = Sample(inputs, torch.arange(8) % 3)
        with torch.no_grad():
            outputs = net(inputs)
        for norm in ("linf", "l2"):
            points = _walked(net, data, norm, [scale * 0.15] * 2)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", WeakAttackWarning)
                told = attack(net, data, Threat(norm, RADIUS, (0, 1)), Bim(steps=2, step=0.15))
            found.append(compare(told.inputs, "==", points, f"points, {name}, {norm}"))
            right = (outputs.argmax(1) == data.targets).double()
            found.append(compare(1 + told.clean_correct.double(), "==", scale * (1 + right), f"right, {name}"))
    return found


def _convolved(scale: float) -> list[Comparison]:
    """Slopes down rows of layers beside those of autograd, of all examples and of some, whatever convolutions do."""
    found: list[Comparison] = []
    kinds: tuple[tuple[dict[str, Any], bool], ...] = (
        ({"stride": (2, 1), "padding": (1, 2)}, True),
        ({"dilation": (2, 1), "padding": 1, "groups": 2}, True),
        ({"padding": "same", "dilation": 2}, False),
        ({"padding": 1, "padding_mode": "reflect"}, False),
        ({"padding": (2, 1), "padding_mode": "circular", "groups": 2}, False),
    )
    images, rows = normal(11, 6, 2, 5, 4), torch.tensor([4, 1, 3])
    for options, plain in kinds:
        layers: list[nn.Module] = [nn.Conv2d(2, 4, (3, 2), **options).double(), nn.ReLU()]
        layers += [nn.Conv2d(4, 3, 2, bias=False).double(), nn.ReLU(), nn.Flatten()]
        size = nn.Sequential(*layers)(images).shape[1]
        net = nn.Sequential(*layers, linear_head(3, size, 6), nn.ReLU(), linear_head(5, 6, 3)).requires_grad_(False)
        for place in (0, 2):
            for seed, part in enumerate(layers[place].parameters()):
                part.copy_(normal(21 + place + seed, *part.shape))
        tape = tape_of(net, Pgd())
        name, leaf = str(options), images.clone().requires_grad_()
        outputs, slopes = net(leaf), normal(12, 6, 3)
        (wanted,) = torch.autograd.grad((outputs * slopes).sum(), leaf)
        found += [
            same(isinstance(tape, Chain), plain, f"layers in a row, {name}", scale),
            compare(tape.forward(images), "==", scale * outputs.detach(), f"outputs, {name}"),
            compare(tape.pull(slopes, again=True), "==", scale * wanted, f"slopes, {name}"),
            compare(tape.pull(slopes[rows], rows, again=True), "==", scale * wanted[rows], f"slopes of some, {name}"),
            compare(tape.scores(images), "==", scale * outputs.detach(), f"outputs alone, {name}"),
        ]
    return found


def _single(scale: float) -> list[Comparison]:
    """A step along the gradient itself, in float32: unless it is asked for, nothing is rounded to fewer digits."""
    net = nn.Sequential(linear_head(1, 4, 5), nn.Tanh(), linear_head(3, 5, 3)).float()
    data = Sample(uniform(5, 8, 4).float(), torch.arange(8) % 3)
    told = attack(net, data, Threat("l2", 0.5), Pgd(steps=1, step=0.1, gradient="raw", stop="never"))
    moves = (told.inputs - data.inputs).double()
    wanted = 0.1 * _slope(net.double(), data.inputs.double(), data.targets)
    plain = nn.Sequential(linear_head(1, 4, 5), nn.ReLU(), linear_head(3, 5, 3)).float()
    with torch.autocast("cpu", torch.bfloat16):  # layers round there, which no formula of theirs does
        kinds = isinstance(differentiable(plain), PlainMlp), Chain.of(plain) is None
    bent, tape = net.float(), tape_of(net.float(), Pgd(precision="half"))
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # of processors that cannot do it
        with torch.autocast("cpu", torch.bfloat16):
            rounded = bent(data.inputs).double()
        forward, own = tape.forward(data.inputs).double(), bent(data.inputs).double()
    # sums of at most ten products, and points near one: some ten roundings of 6e-8, beside 4e-3 of eight digits
    return [
        compare(forward, "==", scale * rounded, "passes in eight digits, where they are asked for", 1e-6),
        compare((rounded - own).abs().max(), ">", 1e-4, "which are others"),
        compare(tape.scores(data.inputs).double(), "==", scale * own, "outputs in their own precision", 1e-6),
        compare(tape.slack, "==", scale * 8 * 2.0**-7, "eight roundings"),
        compare(moves, "==", scale * wanted, "a step in single precision", 3e-6),
        same((*kinds, isinstance(differentiable(plain), PlainMlp)), (False, True, True), "by formula", scale),
    ]


def _steady(scale: float) -> list[Comparison]:
    """A network that repeats itself is not doubted, whatever the signs of its outputs; one that wavers is."""
    net = nn.Sequential(linear_head(1, 4, 5), nn.Tanh(), linear_head(3, 5, 3))
    data, found = Sample(uniform(5, 8, 4), torch.arange(8) % 3), []
    for shift, size, random in ((-90.0, 0.0, False), (90.0, 0.0, False), (-90.0, 1e-9, True), (0.0, 1e-9, True)):
        turns = count()
        waver = lambda points, shift=shift, size=size, turns=turns: net(points) + shift + size * next(turns)  # noqa: E731
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", WeakAttackWarning)
            told = attack(waver, data, Threat("linf", 0.01), Pgd(steps=2))
        doubted = any("not deterministic" in text for text in told.warnings)
        found.append(same(doubted, random, f"outputs near {shift} that waver by {size}", scale))
    return found
