"""What claims on bounds compare: every formula with every constant, branch and refusal, written out in fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from droptics.bounds import (
    adversarial,
    completion,
    completion_condition,
    completion_constant,
    data_norm,
    gaussian_tail,
    hoeffding,
    lazy,
    lazy_setting,
    linear_margin,
    martingale,
    measured_rademacher,
    rademacher,
    relu,
    squared,
    surveyed,
    uniform,
)
from droptics.bounds.classical import crossing, examples_needed
from droptics.bounds.statistical import grid_alpha, marginals, relu_alpha
from droptics.data import Entries, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.models import Factorization, ReLUNet
from droptics.papers.droptics_own.ground.argument_checks import refused
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor

Constants = Literal["corrected", "printed", "printed beta"]


def deviations(scale: float) -> list[Comparison]:
    """Uniform deviation, tails and the examples at which bounds say something."""
    found: list[Comparison] = []
    for n, delta, risk, R in ((50, 0.05, 0.1, 0.02), (400, 0.2, 0.3, 0.1)):
        for empirical in (False, True):
            slack = (3 if empirical else 1) * math.sqrt(math.log((2 if empirical else 1) / delta) / (2 * n))
            told = uniform(risk, R, n, confidence=1 - delta, empirical=empirical)
            found.append(compare(told.value, "==", scale * (risk + 2 * R + slack), f"uniform, {empirical}"))
            found.append(compare(told.trivial, "==", 1.0, "the largest risk"))
            grown = ((2 * R + slack) / (1 - risk)) ** 2 * n
            found.append(compare(told.needed["examples"], "==", scale * grown, f"examples, {empirical}"))
            for M in (2.0, 0.5, 0.0):
                told = squared(risk, R, n, deviation=M, confidence=1 - delta, empirical=empirical)
                tail = (3 if empirical else 1) * M**2 * math.sqrt(math.log(2 / delta) / (2 * n))
                terms = [risk, 4 * M * R, tail]
                found.append(compare(list(told.terms.values()), "==", [scale * t for t in terms], f"squared, {M}"))
                found.append(compare(told.trivial, "==", M**2, "the largest loss"))
        found.append(
            compare(
                martingale(0.7, 0.3, confidence=1 - delta),
                "==",
                scale * (0.3 * math.log(1 / delta) + (math.e - 2) * 0.7 / 0.3),
                "martingale",
            )
        )
    found.append(compare(hoeffding(1.5, [1.0, 2.0, 0.5]), "==", scale * math.exp(-4.5 / 5.25), "Hoeffding"))
    found.append(compare(gaussian_tail(1.5, 2.0), "==", scale * math.exp(-2.25 / 8), "Gaussian tail"))
    edges = [hoeffding(0.0, [1.0]), hoeffding(-1.0, [1.0]), gaussian_tail(0.0, 1.0), gaussian_tail(-1.0, 0.0)]
    found.append(compare(edges, "==", scale, "nothing is exceeded"))
    found.append(compare([hoeffding(1.0, [0.0]), gaussian_tail(1e-9, 0.0)], "==", 0.0, "no spread"))
    for examples, value in ((7.0, 1.0), (3.0, 2.0)):
        found.append(compare(examples_needed(value, 2.0, examples), "==", scale * examples * value**2 / 4, "needed"))
    found.append(compare(examples_needed(0.0, -1.0, 5.0), "==", scale, "nothing is needed"))
    found.append(compare(examples_needed(1.0, 0.0, 5.0), "==", math.inf, "no room"))
    found.append(compare(crossing(lambda x: 10 / x**2, 1.0), "==", scale * math.sqrt(10), "crossing"))
    found.append(compare(crossing(lambda x: 1 / x, 1.0, 2.0), "==", 2.0 * scale, "below from the start"))
    found.append(compare(crossing(lambda x: 1.0, 1.0), "==", math.inf, "never below"))
    for index in (-9, -4, 0, 3, 8):
        alpha = 2 ** ((index - 0.5) / 4)
        grid, share = grid_alpha(alpha, 0.05)
        found.append(compare(grid, "==", scale * 2 ** (index / 4), f"grid {index}"))
        total = 0.05 / ((math.pi**2 / 3 - 1) * (1 + abs(index)) ** 2)
        found.append(compare(share, "==", scale * total, f"share {index}"))
    found.append(compare(grid_alpha(2**0.5, 0.05)[0], "==", scale * 2**0.5, "on the grid"))
    found.append(compare(grid_alpha(0.0, 0.05), "==", tensor([0.0, 0.05 * scale]), "nothing to round"))
    found += _refusals()
    return [*found, *_completion(scale), *_networks(scale), *_surveyed(scale)]


def _completion(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    for shape in ((9, 5), (5, 9), (4, 4)):
        long, short = max(shape), min(shape)
        ratio = math.log(long + short) / math.log(long)
        plain = math.sqrt(2 * ratio) + ratio * (short / long) ** 0.25 / 3
        found.append(compare(completion_constant(shape), "==", scale * plain, f"constant, {shape}"))
        s = 0.3
        mixed = math.sqrt(2 * ratio) / (1 - s) + ratio * math.sqrt(short * math.log(long) / 70) / (3 * s)
        found.append(compare(completion_constant(shape, 70, s), "==", scale * mixed, f"smoothed, {shape}"))
        told = completion(alpha=0.7, shape=shape, examples=200, risk=0.2, trivial=1.5, confidence=0.9)
        terms = [
            0.2,
            8 * plain * math.sqrt(0.7 * long * math.log(long) / 200),
            4 * math.sqrt(math.log(2 / 0.1) / 400),
        ]
        found.append(compare(list(told.terms.values()), "==", [scale * one for one in terms], f"terms, {shape}"))
        found.append(compare([told.value, told.trivial], "==", [scale * sum(terms), 1.5], f"their sum, {shape}"))
        there = ((terms[1] + terms[2]) / 1.3) ** 2 * 200
        found.append(compare(told.needed["examples"], "==", scale * there, f"examples, {shape}"))
        for s in (0.1, 0.3):
            told = completion(alpha=0.7, shape=shape, examples=200, smoothing=s)
            wanted = 8 * completion_constant(shape, 200, s) * math.sqrt(0.7 * long * math.log(long) / 200)
            wanted += 4 * math.sqrt(math.log(2 / 0.05) / 400)
            found.append(compare([told.value, told.trivial], "==", [scale * wanted, 4.0], f"smoothed bound, {shape}"))
        told = completion(alpha=0.7, shape=shape, examples=200, risk=0.2, confidence=0.9, printed=True)
        wanted = 0.2 + 8 * math.sqrt((1.4 * long * math.log(long) + math.log(20) / 4) / 200)
        found.append(compare(told.value, "==", scale * wanted, f"as printed, {shape}"))
    data = Entries(torch.tensor([0, 0, 1, 2, 2, 2]), torch.tensor([0, 1, 1, 0, 1, 1]), 0.1 * normal(1, 6), (3, 2))
    for s in (0.0, 0.4):
        p = [(1 - s) * Fraction(k, 6) + Fraction(s) / 3 for k in (2, 1, 3)]
        q = [(1 - s) * Fraction(k, 6) + Fraction(s) / 2 for k in (2, 4)]
        told_p, told_q = marginals(data, s)
        found.append(compare(told_p, "==", scale * tensor([float(one) for one in p]), f"rows, {s}"))
        found.append(compare(told_q, "==", scale * tensor([float(one) for one in q]), f"columns, {s}"))
        wanted = float(min(p) * min(q)) * 6 * math.sqrt(6) / math.log(3)
        found.append(compare(completion_condition(data, s), "==", scale * wanted, f"condition, {s}"))
    found.append(compare(completion(alpha=1.0, shape=(3, 2), examples=9, risk=5.0).needed["examples"], "==", math.inf))
    net = Factorization(0.5 * normal(2, 3, 2), 0.5 * normal(3, 2, 2))
    risk = float((data.values - (net.U @ net.V.mT)[data.rows, data.columns]).square().mean())
    for mixed_in in (None, 0.4):
        p, q = (0.5 if mixed_in is None else mixed_in) / tensor([3.0, 2.0])
        rows = (1 - 3 * p) * tensor([2.0, 1.0, 3.0]) / 6 + p
        columns = (1 - 2 * q) * tensor([2.0, 4.0]) / 6 + q
        own = 2 * float(((rows @ net.U.square()) * (columns @ net.V.square())).sum())
        alpha, failure = grid_alpha(own, 0.05)
        wanted = risk + 8 * completion_constant((3, 2), 6, float(3 * p)) * math.sqrt(alpha * 3 * math.log(3) / 6)
        wanted += 4 * math.sqrt(math.log(2 / failure) / 12)
        found.append(
            compare(completion(net, data, smoothing=mixed_in).value, "==", scale * wanted, f"of a model, {mixed_in}")
        )
    given = completion(net, data, shape=(9, 5), examples=70, alpha=0.7, risk=0.2, smoothing=0.3)
    plain = completion(shape=(9, 5), examples=70, alpha=0.7, risk=0.2, smoothing=0.3)
    found.append(compare(given.value, "==", scale * plain.value, "numbers override a model and data"))
    return found


def _networks(scale: float) -> list[Comparison]:
    """Two-layer networks from numbers: bounds, printed ones, what they need."""
    found: list[Comparison] = []
    for alpha, norm, n, beta in ((0.3, 9.0, 50, 0.2), (1.7, 40.0, 300, 0.5)):
        upper = 2 * alpha * norm / (n * math.sqrt(beta))
        sides: tuple[tuple[dict[str, Any], float], ...] = (
            ({"retentivity": beta}, upper),
            ({"symmetrized": True}, 2 * alpha * norm / (n * math.sqrt(0.5))),
            ({"side": "lower"}, alpha * norm / (2 * n)),
        )
        for options, value in sides:
            told = rademacher(alpha=alpha, norm=norm, examples=n, **options)
            found.append(compare([told.value, told.trivial], "==", [scale * value, 1.0], f"complexity, {options}"))
            found.append(compare(told.needed["examples"], "==", scale * n * value**2, f"its examples, {options}"))
        for delta in (0.05, 0.3):
            told = relu(alpha=alpha, norm=norm, examples=n, retentivity=beta, risk=0.1, confidence=1 - delta)
            tail = 12 * math.sqrt(math.log(2 / delta) / (2 * n))
            found.append(compare(told.value, "==", scale * (0.1 + 8 * upper + tail), "by retentivity"))
            needed = n * ((8 * upper + tail) / 3.9) ** 2
            found.append(compare(told.needed["examples"], "==", scale * needed, "its examples"))
            bare = relu(alpha=alpha, norm=norm, examples=n, retentivity=beta, confidence=1 - delta)
            found.append(compare([bare.value, bare.trivial], "==", [scale * (8 * upper + tail), 4.0], "without a risk"))
            for printed in (False, True):
                both = relu(
                    alpha=alpha,
                    norm=norm,
                    examples=n,
                    risk=0.1,
                    confidence=1 - delta,
                    symmetrized=True,
                    printed=printed,
                )
                part = (46 if printed else 32 * math.sqrt(2)) * alpha * norm / n
                found.append(compare(both.value, "==", scale * (0.2 + part + 2 * tail), f"symmetrized, {printed}"))
                needed = n * ((part + 2 * tail) / 3.8) ** 2
                found.append(compare(both.needed["examples"], "==", scale * needed, "its examples"))
                found.append(compare(both.trivial, "==", 4.0 * scale, "largest loss"))
    found.append(compare(rademacher(alpha=0.0, norm=2.0, examples=4, retentivity=0.0).value, "==", 0.0, "no weights"))
    found.append(
        compare(rademacher(alpha=1.0, norm=2.0, examples=4, retentivity=0.0).value, "==", math.inf, "no units")
    )
    found.append(compare(rademacher(alpha=1.0, norm=0.0, examples=4, retentivity=0.0).value, "==", 0.0, "no inputs"))
    net = ReLUNet([normal(5, 3, 2), 1e3 * normal(6, 1, 3)])
    own = Sample(normal(7, 9, 2), 0.1 * normal(8, 9, 1))
    for delta in (2.0**-4, 2.0**-52):  # a share of the second is less than half a unit in the last place of 1
        share = grid_alpha(relu_alpha(net, own), delta)[1]
        slack = relu(net, own, retentivity=0.3, confidence=1 - delta).terms["confidence"]
        found.append(compare(slack, "==", scale * 12 * math.sqrt(math.log(2 / share) / 18), f"shared, {delta}"))
    flat = normal(2, 12, 2) @ normal(3, 2, 4)
    data = Sample(flat, torch.zeros(12, 1).double())
    found.append(compare(data_norm(data), "==", scale * math.sqrt(24), "norm of examples in a plane"))
    moment = flat.mT @ flat / 12
    found.append(compare(data_norm(data, moment), "==", scale * math.sqrt(24), "norm by their own moment"))
    away = Sample(normal(4, 12, 4), torch.zeros(12, 1).double())
    found.append(compare(data_norm(away, moment), "==", math.inf, "beyond a plane"))
    solid = normal(2, 12, 3) @ normal(3, 3, 4)
    for side in (1.0, -1.0):  # a single example, on either side
        one = Sample(side * normal(4, 1, 4), torch.zeros(1, 1).double())
        found.append(compare(data_norm(one, solid.mT @ solid / 12), "==", math.inf, f"beyond a space, {side}"))
    return [*found, *_measured(scale)]


def _limits(plane: Tensor, scale: float) -> list[Comparison]:
    """A unit that is active on the data and never under the law has no limit; one that is active on neither no gain."""
    found: list[Comparison] = []
    pair = Sample(tensor([[1.0], [-2.0]]), torch.zeros(2, 1).double())
    for source, law_of, wanted in (
        (pair, tensor([[1.0], [3.0]]), math.inf),
        (pair, tensor([[-1.0], [-3.0]]), math.inf),
        (pair, tensor([[1.0], [-1.0]]), 2 / 0.5**0.5 / 2),  # the larger of 1 and 2 under every pattern
        (Sample(pair.inputs.abs(), pair.targets), tensor([[1.0], [3.0]]), (3 + 1) / 2 / 2 / 5**0.5),
        (Sample(plane, torch.zeros(len(plane), 1).double()), plane.abs(), math.inf),
    ):
        told = measured_rademacher(source, population=Sample(law_of, torch.zeros(len(law_of), 1).double()))
        found.append(same(math.isinf(told.value), math.isinf(wanted), f"whether it has a limit, {wanted:.3g}", scale))
        if math.isfinite(wanted):
            found.append(compare(told.value, "==", scale * wanted, f"units that the law knows, {wanted:.3g}"))
    return found


def _measured(scale: float) -> list[Comparison]:
    """Complexities on few points: every pattern of signs, directions on a fine grid or by their two sides."""
    found: list[Comparison] = []
    nothing = torch.zeros(5, 1).double()
    line = normal(5, 5, 1)
    weights = tensor([0.1, 0.3, 0.2, 0.4])
    law = Sample(normal(6, 4, 1), torch.zeros(4, 1).double(), weights)
    turn = torch.linspace(0, 2 * math.pi, 40_001, dtype=torch.float64)
    circle = torch.stack([turn.cos(), turn.sin()], 1)
    plane, other = normal(7, 5, 2), Sample(normal(8, 4, 2), torch.zeros(4, 1).double(), weights)
    both_sides = tensor([[1.0], [-1.0]])
    cases: tuple[tuple[str, Tensor, Sample | None, Tensor, float], ...] = (
        ("line", line, None, both_sides, 1e-12),
        ("line of a law", line, law, both_sides, 1e-12),
        ("plane", plane, None, circle, 1e-4),
        ("plane of a law", plane, other, circle, 1e-4),
    )
    for name, points, population, ways, precision in cases:
        source = points if population is None else population.inputs
        odds = tensor([0.2] * 5) if population is None else weights
        energy = torch.relu(ways @ source.mT).square() @ odds
        units = torch.relu(ways @ points.mT)
        patterns = tensor(list(itertools.product((1.0, -1.0), repeat=5)))
        gains = (patterns @ units.mT).abs()
        known = energy > 1e-9
        best = (gains[:, known] / energy[known].sqrt()).amax(1)
        told = measured_rademacher(Sample(points, nothing), 1.3, population=population)
        wanted = scale * 1.3 / 5 * best.mean()
        found.append(compare(told.value, "==", wanted, f"complexity, {name}", precision=precision))
        found.append(compare(told.value, ">=", 1.3 / 5 * best.mean(), f"no direction beats it, {name}", 1e-12))
        found.append(compare(told.cost, "==", 32, f"patterns, {name}"))
    space = normal(9, 5, 3)
    root = torch.linalg.inv(torch.linalg.cholesky(space.mT @ space / 5)) @ space.mT
    patterns = tensor(list(itertools.product((1.0, -1.0), repeat=5)))
    linear = (patterns @ root.mT).norm(dim=1).mean() / (5 * math.sqrt(2))
    found.append(
        compare(measured_rademacher(Sample(space, nothing)).value, "==", scale * linear, "a linear relaxation")
    )
    found += _limits(plane, scale)
    dozen = normal(11, 12, 1)
    patterns = tensor(list(itertools.product((1.0, -1.0), repeat=12)))
    gains = (patterns @ torch.relu(dozen * tensor([1.0, -1.0]))).abs()
    listed = (gains / torch.relu(dozen * tensor([1.0, -1.0])).square().mean(0).sqrt()).amax(1).mean() / 12
    told = measured_rademacher(Sample(dozen, torch.zeros(12, 1).double()), draws=16)
    ends = [float(end) for end in (told.value, told.lower, told.upper)]
    found.append(compare(ends, "==", scale * float(listed), "all signs of a dozen"))
    found.append(compare(told.cost, "==", 4096, "patterns of a dozen"))
    many = Sample(normal(10, 13, 1), torch.zeros(13, 1).double())
    drawn = measured_rademacher(many, draws=64, seed=5)
    signs = torch.randint(0, 2, (64, 13), generator=torch.Generator().manual_seed(5)) * 2.0 - 1
    own = many.inputs[:, 0]
    each = torch.stack(
        [(signs.double() @ torch.relu(s * own)).abs() / torch.relu(s * own).square().mean().sqrt() for s in (1, -1)]
    ).amax(0)
    half = 1.959963984540054 * (each / 13).std() / 8
    found.append(compare(drawn.value, "==", scale * each.mean() / 13, "drawn patterns"))
    found.append(compare(drawn.upper - drawn.value, "==", scale * half, "their interval"))
    found.append(compare(drawn.value - drawn.lower, "==", scale * half, "on both sides"))
    found.append(compare(drawn.confidence, "==", 0.95, "its confidence"))
    return found


def _surveyed(scale: float) -> list[Comparison]:
    """The four published expressions from singular values and sums over paths."""
    found: list[Comparison] = []
    layers = [normal(1, 4, 3), normal(2, 5, 4), normal(3, 2, 5)]
    inputs = normal(4, 7, 3)
    n, width, hidden = 7, 5, 2
    top = [float(np.linalg.svd(w.numpy(), compute_uv=False)[0]) for w in layers]
    size = [float(w.square().sum().sqrt()) for w in layers]
    rows = [float(w.square().sum(1).sqrt().sum()) for w in layers]
    product = math.prod(top)
    largest = float(inputs.square().sum(1).max().sqrt())
    cubes = float(inputs.abs().pow(3).sum(1).max()) ** (1 / 3)
    for power, dual, size_of in ((1.0, 0.0, float(inputs.abs().max())), (2.0, 1 / 2, largest), (1.5, 1 / 3, cubes)):
        flow = torch.ones(3, dtype=torch.float64)
        for w in layers:
            flow = w.abs().pow(power) @ flow
        path = float(flow.sum()) ** (1 / power)
        wanted = {
            "path norm": (2 * width**dual) ** hidden * path * math.sqrt(math.log(3)) * size_of,
            "spectral": product * sum((a / b) ** (2 / 3) for a, b in zip(rows, top, strict=True)) ** 1.5 * largest,
            "PAC-Bayes": product
            * hidden
            * math.sqrt(width * sum((a / b) ** 2 for a, b in zip(size, top, strict=True)))
            * largest,
            "Frobenius": math.sqrt(hidden) * math.prod(size) * largest,
        }
        told = surveyed(layers, Sample(inputs, torch.zeros(7, 1).double()), power=power)
        for name, value in wanted.items():
            found.append(compare(told[name].value, "==", scale * value / math.sqrt(n), f"{name}, {power}"))
            found.append(compare(told[name].needed["examples"], "==", scale * value**2, f"examples, {name}"))
    given = surveyed(layers, examples=7, input_norm=2.0)
    bare = surveyed(layers, examples=7)
    for name, one in given.items():
        found.append(compare(one.value, "==", scale * 2 * bare[name].value, f"size of inputs, {name}"))
    narrow = surveyed([normal(5, 2, 1), torch.zeros(1, 2).double()], examples=9)
    found.append(compare([one.value for one in narrow.values()], "==", 0.0, "a layer of zeros"))
    return found


def _refusals() -> list[Comparison]:
    """What the statements leave out is refused by its name."""
    layer, data = normal(1, 2, 2), Sample(torch.ones(2, 2), torch.ones(2, 1))
    zero = torch.tensor([0])
    common: dict[str, Any] = {"data_radius": 2.0, "margin": 1.0, "radius": 0.5, "error": 0.1}
    net = ReLUNet([torch.ones(2, 2), torch.ones(1, 2)])
    cases = (
        ("margin", lambda: adversarial(**(common | {"margin": 2.1}))),
        ("radius", lambda: adversarial(**(common | {"radius": 1.0}))),
        ("slope", lambda: adversarial("cor4", **common, slope=0.9)),
        ("beta", lambda: adversarial(**common, beta=1.0)),
        ("top", lambda: adversarial("cor4", **common, width=4, top=0.6)),
        ("top", lambda: adversarial("cor5", **common, slope=0.5, beta=1.0, top=1.0)),
        ("beta", lambda: adversarial("cor5", **common, slope=0.5)),
        ("slope", lambda: adversarial("cor5", **common, beta=1.0)),
        ("step_size", lambda: adversarial(**common, step_size=0.17)),
        ("margin", lambda: lazy_setting(0.51, 10, 2)),
        ("step_size", lambda: lazy_setting(0.5, 10, 2, step_size=0.7)),
        ("steps", lambda: lazy_setting(0.5, 0.7, 2)),
        ("margin", lambda: lazy(margin=0.26, steps=10, inputs=2, drop=0.5)),
        ("lazy", lambda: lazy(margin=0.2, steps=10)),
        ("data", lambda: linear_margin(Sample(torch.ones(2, 2), tensor([1.0, 0.5]).float()))),
        ("data", lambda: linear_margin(Sample(torch.zeros(1, 2), torch.ones(1)))),
        ("model", lambda: surveyed([layer], examples=3)),
        ("model", lambda: surveyed([layer[None], layer[None]], examples=3)),
        ("surveyed", lambda: surveyed([layer, layer])),
        ("power", lambda: surveyed([layer, layer], examples=3, power=0.9)),
        ("data", lambda: measured_rademacher(Sample(torch.ones(2, 2), torch.ones(2, 1), torch.ones(2)))),
        ("population", lambda: measured_rademacher(data, population=Sample(torch.ones(2, 3), torch.ones(2, 1)))),
        ("population", lambda: measured_rademacher(data, population=Sample(torch.eye(2)[:1], torch.ones(1, 1)))),
        ("retentivity", lambda: rademacher(alpha=1.0, norm=1.0, examples=3)),
        ("retentivity", lambda: rademacher(alpha=1.0, norm=1.0, examples=3, retentivity=0.51)),
        ("rademacher", lambda: rademacher(alpha=1.0, norm=1.0, retentivity=0.5)),
        ("completion", lambda: completion(alpha=1.0, shape=(3, 2))),
        ("shape", lambda: completion_constant((1, 1))),
        ("smoothing", lambda: completion_constant((2, 1), 5, 1.0)),
        ("data", lambda: completion_condition(Entries(zero, zero, tensor([1.0]), (1, 1)))),
        ("values", lambda: completion(Factorization(layer, layer), Entries(zero, zero, tensor([1.1]), (2, 2)))),
        ("targets", lambda: relu(net, Sample(torch.ones(2, 2), torch.full((2, 1), 1.1)))),
        ("model", lambda: relu(ReLUNet([torch.ones(2, 2), torch.ones(2, 2)]), data)),
        ("model", lambda: relu(ReLUNet(net.weights, [torch.ones(2), torch.zeros(1)]), data)),
        ("model", lambda: relu(ReLUNet(net.weights, [torch.zeros(2), -torch.ones(1)]), data)),
        ("data", lambda: data_norm(Sample(torch.ones(2, 2), torch.ones(2, 1), torch.ones(2)))),
        ("second_moment", lambda: data_norm(data, torch.eye(3))),
    )
    return [compare(refused(call, name), "==", 1.0, f"refusal of {name}") for name, call in cases]
