"""What claims on maps compare: least penalties of every family, degenerate networks, kinds of points, portraits."""

from __future__ import annotations

import itertools
import math
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from droptics.data import Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.equalization import balance, equalize, gap_condition, imbalance, joint_equalizer, order_gaps, rescale
from droptics.errors import NoClosedForm
from droptics.evidence.claims import Comparison, compare
from droptics.heads.projection import top_layer, variable_projection
from droptics.landscapes import gradient, hessian, inspect, portrait
from droptics.landscapes.symmetries import symmetry_dimension
from droptics.landscapes.tied import critical_points
from droptics.masks import Bernoulli, Block, MaskLaw, Product
from droptics.models import Autoencoder, DeepLinear, Factorization, TwoLayerLinear
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import moments, normal, tensor


def maps_in_full(scale: float) -> list[Comparison]:
    """Least penalties and envelopes, networks without a map, gaps, points of landscapes, singular heads."""
    if scale != 1:  # a control need not be long
        return by_parts((_least, _conditions), scale)
    return by_parts((_least, _other_least, _nothing, _conditions, _inspected, _portraits, _heads), scale)


def _shared(values: Tensor, strengths: Tensor) -> float:
    """The least sum of strengths times squared shares, over shares that units of factors with these values can have."""
    size, top = len(strengths), np.zeros(len(strengths))
    top[: len(values)] = values.numpy()[:size]
    sets = [list(part) for count in range(1, size) for part in itertools.combinations(range(size), count)]
    rules: list[Any] = [{"type": "eq", "fun": lambda n: n.sum() - top.sum()}]
    rules += [{"type": "ineq", "fun": lambda n, part=part: top[: len(part)].sum() - n[part].sum()} for part in sets]
    weights = strengths.numpy()
    start = np.full(size, top.sum() / size)
    found = minimize(
        lambda n: weights @ n**2, start, constraints=rules, bounds=[(0, None)] * size, options={"ftol": 1e-13}
    )
    return float(found.fun)


def _least(scale: float) -> list[Comparison]:
    """Least penalties of a map and their convex envelopes, two layers and tied; equalized networks attain them."""
    found: list[Comparison] = []
    data, scaled = moments(1, 3, 4), Moments(1.7 * torch.eye(4).double(), 0.3 * normal(2, 4, 4), torch.eye(4).double())
    root = torch.linalg.cholesky(data.xx)
    rates = tensor([0.1, 0.6, 0.3])
    laws: dict[str, MaskLaw] = {"one rate": Bernoulli(0.4, 3), "rates": Bernoulli(rates, 3)}
    steep = normal(3, 3, 3) * tensor([8.0, 1.0, 0.3])
    for name, law in laws.items():
        strengths = law.relative_variance
        harmonic = float(1 / (1 / strengths).sum())
        network, tied = TwoLayerLinear(steep, normal(4, 4, 3)), Autoencoder(normal(5, 4, 3) * tensor([3.0, 1.0, 0.2]))
        cases: tuple[tuple[str, Any, Moments, Tensor], ...] = (
            ("two layers", network, data, torch.linalg.svdvals(network.matrix() @ root)),
            ("tied", tied, scaled, 1.7**0.5 * torch.linalg.svdvals(tied.U).square()),
        )
        for family, model, known, values in cases:
            label = f"{family}, {name}"
            least, below = induced(model, known, law), envelope(model, known, law)
            wanted = _shared(values, strengths)
            found.append(compare(least.value, "==", scale * wanted, f"least penalty, {label}", 1e-6))
            found.append(compare(below.value, "==", scale * harmonic * values.sum() ** 2, f"envelope, {label}"))
            even = equalize(model, known, law)
            U, V = (even.U, even.U) if family == "tied" else (even.U, even.V)
            own = (strengths * U.square().sum(0) * ((known.xx @ V) * V).sum(0)).sum()
            found.append(compare(own, "==", scale * least.value, f"attained, {label}", 1e-8))
            first, last = model.tensors[0], model.tensors[-1]
            gap = (strengths * first.square().sum(0) * ((known.xx @ last) * last).sum(0)).sum()
            found.append(
                compare(imbalance(model, known, law), "==", scale * (gap / below.value - 1), f"imbalance, {label}")
            )
            for told in (least, below):
                found.append(compare([told.lower, told.upper], "==", told.value * scale, f"exact, {label}"))
                found.append(compare(told.error, "<=", 1e-9 * float(told.value), f"rounding, {label}"))
                found.append(compare(told.error, ">=", 1e-17 * float(told.value) * scale, f"some rounding, {label}"))
    return found


def _other_least(scale: float) -> list[Comparison]:
    """The same for blocks, masks on the inputs and single precision; what is not known is refused."""
    found: list[Comparison] = []
    data, scaled = moments(1, 3, 4), Moments(1.7 * torch.eye(4).double(), 0.3 * normal(2, 4, 4), torch.eye(4).double())
    steep = normal(3, 3, 3) * tensor([8.0, 1.0, 0.3])
    pair = Factorization(normal(6, 3, 4), normal(7, 5, 4))
    blocks = Block(0.3, 4, 2)
    flat = Moments(torch.eye(5).double(), normal(8, 3, 5), 9 * torch.eye(3).double())
    values = torch.linalg.svdvals(pair.U @ pair.V.mT)
    norms = [values[0] ** 2 + (values[1] + values[2]) ** 2, (values.sum()) ** 2 / 2]
    squared = norms[0] if float(values[0]) > float(values[1] + values[2]) else norms[1]
    told_block = envelope(TwoLayerLinear(pair.U, pair.V), flat, blocks)
    found.append(compare(told_block.value, "==", scale * 0.3 / 0.7 / 2 * squared, "blocks of two"))
    masked = DeepLinear([normal(9, 4, 3), normal(10, 2, 4)], mask_inputs=True)
    known, law = moments(11, 2, 3), Product([Bernoulli(tensor([0.2, 0.1, 0.4]), 3), Bernoulli(0.3, 4)])
    noise = torch.diag(law.laws[0].relative_variance * known.xx.diagonal())
    own = ((masked.matrix() @ noise) * masked.matrix()).sum()
    white = torch.linalg.svdvals(masked.matrix() @ torch.linalg.cholesky(known.xx + noise))
    told_masked = induced(masked, known, law)
    wanted_masked = own + 0.3 / 0.7 / 4 * white.sum() ** 2
    found.append(compare(told_masked.value, "==", scale * wanted_masked, "masks on the inputs", 1e-8))
    found.append(compare(float(_unknown(lambda: envelope(masked, known, law))), "==", 1.0, "no envelope is known"))
    bent = [torch.diag(tensor([1.0, 1.0, 1.0, 2.0])), torch.eye(4).double() + 0.1]  # of unequal sizes, and correlated
    odd: Any = Bernoulli(0.4, 4)
    for call in (induced, envelope, equalize):
        for xx in bent:
            ask = partial(call, Autoencoder(normal(5, 4, 3)), Moments(xx, scaled.yx, scaled.yy), Bernoulli(0.4, 3))
            found.append(compare(float(_unknown(ask)), "==", 1.0, f"tied, not isotropic: {call.__name__}"))
        found.append(refuses(lambda call=call: call(TwoLayerLinear(steep, normal(4, 4, 3)), data, odd), "", "sizes"))
    for call in (induced, envelope):
        single = Sample(normal(1, 9, 4).float(), normal(2, 9, 3).float())
        model = TwoLayerLinear(steep.float(), normal(4, 4, 3).float())
        told = call(model, single, Bernoulli(0.4, 3))
        values = torch.linalg.svdvals(model.matrix().double() @ torch.linalg.qr(single.inputs.double()).R.mT / 3)
        found.append(compare(told.value, "==", scale * 0.4 / 0.6 / 3 * values.sum() ** 2, "single precision", 1e-5))
        found.append(same(told.value.dtype, torch.float32, "stays single", scale))
        found.append(compare(told.error, ">=", 1e-8 * float(told.value) * scale, "and errs more"))
    return found


def _unknown(call: Any) -> bool:
    try:
        call()
    except (NoClosedForm, ValueError):
        return True
    return False


def _nothing(scale: float) -> list[Comparison]:
    """Maps and inputs that are zero, factors without rows, of any size."""
    found: list[Comparison] = []
    data, law = moments(1, 2, 3), Bernoulli(0.4, 3)
    zero, cancelled = torch.zeros(2, 3).double(), normal(1, 2, 3)
    cancelled[:, 1], cancelled[:, 2] = -cancelled[:, 0], 0.0
    other = normal(2, 3, 3)
    other[:, 1] = other[:, 0]
    both = torch.stack([zero, cancelled, normal(3, 2, 3)])
    others = torch.stack([other, other, normal(4, 3, 3)])
    told = imbalance(TwoLayerLinear(both, others), data, law)
    single = imbalance(TwoLayerLinear(normal(3, 2, 3), normal(4, 3, 3)), data, law)
    found.append(same(told[:2].tolist(), [0.0, math.inf], "no map, cancelled map", scale))
    found.append(compare(told[2], "==", scale * single, "one of a batch"))
    silent = Moments(0 * data.xx, 0 * data.yx, data.yy)
    deep, joint = DeepLinear([normal(5, 4, 3), normal(6, 2, 4)]), Product([Bernoulli(0.3, 4)])
    model = TwoLayerLinear(normal(3, 2, 3), normal(4, 3, 3))
    for name, network, masks in (("deep", deep, joint), ("two layers", model, law)):
        values = [float(call(network, silent, masks).value) for call in (induced, envelope)]
        found.append(compare(1 + tensor(values), "==", scale, f"inputs without energy, {name}"))
    kept = equalize(model, silent, law)
    found.append(compare(kept.matrix(), "==", scale * model.matrix(), "nothing to equalize"))
    none = DeepLinear([0 * normal(5, 4, 3), normal(6, 2, 4)])
    flat = equalize(none, data, joint)
    sizes = [float(part.abs().max()) for part in flat.weights]
    found.append(same((sizes, [tuple(w.shape) for w in flat.weights]), ([0.0, 0.0], [(4, 3), (2, 4)]), "no map", scale))
    found.append(
        compare(joint_equalizer(torch.zeros(0, 4).double(), normal(1, 2, 4)), "==", torch.eye(4) * scale, "no rows")
    )
    found.append(
        compare(joint_equalizer(0 * normal(1, 3, 4), 0 * normal(1, 2, 4)), "==", torch.eye(4) * scale, "zeros")
    )
    for size in (1e200, 1e-200):
        U, V = size * normal(1, 3, 4), normal(2, 2, 4) / size
        Q = joint_equalizer(U, V, seed=1)
        products = (normal(1, 3, 4) @ Q).norm(dim=0) * (normal(2, 2, 4) @ Q).norm(dim=0)
        found.append(compare(products, "==", scale * products.mean(), f"factors of size {size}", 1e-9))
        found.append(compare(Q, "==", scale * joint_equalizer(normal(1, 3, 4), normal(2, 2, 4), seed=1), "alike", 1e-6))
    found.append(
        compare(
            float((joint_equalizer(U, V, seed=1) - joint_equalizer(U, V, seed=2)).abs().max()),
            ">",
            1e-3 * scale,
            "seeds",
        )
    )
    for scales, words in (
        (tensor([1.0, 0.0, 2.0]), "must not contain zeros"),
        (tensor([1.0, 2.0]), "one factor per hidden node"),
        ([tensor([1.0, 2.0, 3.0])] * 2, "one vector per hidden layer"),
    ):
        found.append(refuses(lambda scales=scales: rescale(model, scales), words, words))
    blind = Moments(torch.diag(tensor([1.0, 2.0, 0.0])), data.yx * tensor([1.0, 1.0, 0.0]), data.yy)
    weights = normal(4, 3, 3)
    weights[:2, 1] = 0.0  # acts on the input without energy alone
    level = balance(TwoLayerLinear(normal(3, 2, 3), weights), blind)
    found.append(compare(level.V[:, 1], "==", scale * weights[:, 1], "a node that cannot be balanced"))
    into = (level.V[:2].square() * tensor([[1.0], [2.0]])).sum(0)
    found.append(compare(level.U.square().sum(0)[[0, 2]], "==", scale * into[[0, 2]], "the others are"))
    return found


def _conditions(scale: float) -> list[Comparison]:
    """Gaps by order, and the condition for a rank-one optimum, every field."""
    found: list[Comparison] = []
    data, masks = moments(1, 2, 3), Product([Bernoulli(0.3, 4), Bernoulli(0.5, 2)])
    values = torch.linalg.svdvals(data.yx @ torch.linalg.inv(torch.linalg.cholesky(data.xx)).mT)
    nu = (1 + 0.3 / 0.7 / 4) * (1 + 0.5) - 1
    told = gap_condition(data, masks)
    numbers = [told.first, told.second, told.strength]
    found.append(compare(numbers, "==", scale * tensor([float(values[0]), float(values[1]), nu]), "gap condition"))
    found.append(same(told.holds, bool(values[0] - values[1] >= values[1] / nu), "whether it holds", scale))
    for first, second, holds in ((1.01 + 1 / nu, 1.0, True), (0.99 + 1 / nu, 1.0, False), (1.0, 0.0, True)):
        known = Moments.of_map(torch.diag(tensor([first, second])))
        found.append(same(gap_condition(known, masks).holds, holds, f"gap of {first} and {second}", scale))
    lone = Moments(data.xx, data.yx[:1], data.yy[:1, :1])
    found.append(compare(1 + gap_condition(lone, masks).second, "==", scale, "one output"))
    deep = DeepLinear([normal(2, 4, 3), normal(3, 2, 4), normal(4, 2, 2)])
    gaps = order_gaps(deep, data, masks)
    odds = (0.3 / 0.7, 1.0)
    lower = torch.linalg.svdvals(deep.matrix() @ torch.linalg.cholesky(data.xx)).sum() ** 2
    W1, W2, W3 = deep.weights
    inner = torch.diag(W1 @ data.xx @ W1.mT)
    middle = torch.diag(W2 @ W1 @ data.xx @ W1.mT @ W2.mT)
    one = odds[0] * ((W3 @ W2).square().sum(0) @ inner) + odds[1] * (W3.square().sum(0) @ middle)
    two = odds[0] * odds[1] * (W3.square().sum(0) @ (W2.square() @ inner))
    wanted = torch.stack([one / (odds[0] / 4 + odds[1] / 2), two / (odds[0] * odds[1] / 8)]) / lower - 1
    found.append(compare(gaps, "==", scale * wanted, "gaps by order"))
    uneven = Product([Bernoulli(tensor([0.3, 0.3, 0.3, 0.4]), 4), Bernoulli(0.5, 2)])
    found.append(refuses(lambda: order_gaps(deep, data, uneven), "one rate per hidden layer"))
    found.append(refuses(lambda: gap_condition(data, Block(0.3, 4, 2)), "one rate per hidden layer"))
    return found


def _criterion(model: Any, data: Moments, masks: MaskLaw) -> Any:
    """The criterion as a function of all weights in one vector, from the definition."""
    shapes = [tuple(part.shape) for part in model.tensors]
    laws = list(masks.laws) if isinstance(masks, Product) else [masks]

    def value(flat: Tensor) -> Tensor:
        parts = [p.reshape(s) for p, s in zip(flat.split([math.prod(s) for s in shapes]), shapes, strict=True)]
        if isinstance(model, Autoencoder):
            layers = [parts[0].mT, parts[0]]
        elif isinstance(model, TwoLayerLinear):
            layers = [parts[1].mT, parts[0]]
        else:
            layers = parts
        second, whole = data.xx, torch.eye(len(data.xx)).double()
        own = list(laws)
        if isinstance(model, DeepLinear) and model.mask_inputs:
            second = second + torch.diag(own.pop(0).relative_variance * second.diagonal())
        for k, layer in enumerate(layers):
            second, whole = layer @ second @ layer.mT, layer @ whole
            if k < len(layers) - 1:
                second = second + torch.diag(own[k].relative_variance * second.diagonal())
        return data.yy.trace() - 2 * (data.yx * whole).sum() + second.trace()

    return value


def _uneven(first: float) -> Moments:
    """M = diag(first, 2), E x x^T = diag(1, 3): of one tied unit at rate 1/2, (0, 1) is critical.

    With a and b the squares of its weights the criterion is (a - first)^2 + 4 a b + 3 (b - 2)^2 + (a + b)(a + 3 b): it
    bends by -4 (first - 4) along the first axis, by 48 along the second, and with first = 4 it is 22 at (0, 1), less by
    2 a^2 / 3 where b = 1 - 2 a / 3.
    """
    M, C = tensor([first, 2.0]), tensor([1.0, 3.0])
    return Moments(torch.diag(C), torch.diag(M * C), torch.diag(M * C * M))


def _inspected(scale: float) -> list[Comparison]:
    """Every field of an inspection beside automatic derivatives of the definition; symmetries counted."""
    found: list[Comparison] = []
    data, square = moments(1, 2, 3), Moments.of_map(torch.diag(tensor([2.0, 1.0])))
    deep = DeepLinear([normal(2, 2, 3), normal(3, 2, 2), normal(4, 2, 2)])
    rates = Product([Bernoulli(0.3, 2), Bernoulli(tensor([0.2, 0.5]), 2)])
    masked = DeepLinear([normal(5, 2, 3), normal(6, 2, 2)], mask_inputs=True)
    inputs = Product([Bernoulli(tensor([0.2, 0.4, 0.1]), 3), Bernoulli(0.3, 2)])
    best = equalize(TwoLayerLinear(torch.diag(tensor([1.0, 0.5])), torch.eye(2).double()), square, Bernoulli(0.3, 2))
    zero = torch.zeros(2, 2).double()
    negative = Moments.of_map(torch.diag(tensor([-2.0, -1.0])))
    flat_law, uneven, ends = Bernoulli(0.5, 1), _uneven(4.0), tensor([[0.0], [1.0]])
    cases: tuple[tuple[str, Any, Moments, MaskLaw, str | None, int], ...] = (
        ("two layers", TwoLayerLinear(normal(7, 2, 3), normal(8, 3, 3)), data, Bernoulli(0.4, 3), "not critical", 3),
        ("deep", deep, data, rates, "not critical", 4),
        ("masked inputs", masked, data, inputs, "not critical", 2),
        ("equalized", best, square, Bernoulli(0.3, 2), "not critical", 2),
        ("origin", TwoLayerLinear(zero, zero), square, Bernoulli(0.3, 2), "strict saddle", 0),
        ("tied origin", Autoencoder(zero), square, Bernoulli(0.3, 2), "local maximum", 0),
        ("tied, negative", Autoencoder(zero), negative, Bernoulli(0.3, 2), "global minimum", 0),
        ("one flat direction", Autoencoder(ends), uneven, flat_law, "degenerate", 0),
    )
    beside = Autoencoder(tensor([[0.01], [1 - 0.02 / 3]]).sqrt())
    gap = inspect(beside, uneven, flat_law).objective - inspect(Autoencoder(ends), uneven, flat_law).objective
    found.append(compare(gap, "<", -6e-5, "which is no minimum", precision=1e-12))
    for name, model, known, masks, kind, symmetries in cases:
        value = _criterion(model, known, masks)
        flat = torch.cat([part.flatten() for part in model.tensors]).clone().requires_grad_()
        (slope,) = torch.autograd.grad(value(flat), flat)
        curves = torch.autograd.functional.hessian(value, flat.detach())
        told = inspect(model, known, masks)
        eigen = torch.linalg.eigvalsh(curves)
        found.append(compare(told.objective, "==", scale * value(flat.detach()), f"objective, {name}"))
        found.append(compare(1 + told.gradient_norm, "==", scale * (1 + slope.norm()), f"gradient, {name}"))
        found.append(compare(told.curvature, "==", scale * eigen[0], f"curvature, {name}", 1e-8))
        level = 1e-7 * float(eigen.abs().max())
        inertia = (int((eigen < -level).sum()), int((eigen.abs() <= level).sum()), int((eigen > level).sum()))
        found.append(same(told.inertia, inertia, f"inertia, {name}", scale))
        found.append(same(told.kind, kind, f"kind, {name}", scale))
        found.append(same(told.symmetries, symmetries, f"symmetries, {name}", scale))
        told_slope = torch.cat([part.flatten() for part in gradient(model, known, masks)])
        found.append(compare(1 + told_slope, "==", scale * (1 + slope), f"slopes, {name}"))
        found.append(compare(hessian(model, known, masks), "==", scale * curves, f"Hessian, {name}", 1e-8))
    round_ = Moments.of_map(torch.eye(2).double())
    for name, model, known, count in (
        ("rotated", TwoLayerLinear(normal(1, 2, 2), normal(2, 2, 2)), round_, 3),
        ("tied and rotated", Autoencoder(normal(1, 2, 2)), round_, 1),
        ("not rotated", TwoLayerLinear(normal(1, 2, 2), normal(2, 2, 2)), square, 2),
        ("tied", Autoencoder(normal(1, 2, 2)), square, 0),
        ("three alike", TwoLayerLinear(normal(1, 3, 4), normal(2, 3, 4)), Moments.of_map(torch.eye(3).double()), 7),
        ("no targets", TwoLayerLinear(normal(1, 2, 2), normal(2, 2, 2)), Moments.of_map(zero), 4),
        ("no inputs", TwoLayerLinear(normal(1, 2, 2), normal(2, 2, 2)), Moments(zero, zero, torch.eye(2).double()), 3),
    ):
        found.append(same(symmetry_dimension(model, known), count, f"symmetries, {name}", scale))
    return found


def _portraits(scale: float) -> list[Comparison]:
    """Pictures of two weights: values on the grid, all critical points, with and without dropout or a target."""
    found: list[Comparison] = []
    rates = tensor([0.2, 0.5])
    known = Moments(tensor([[1.5]]), tensor([[1.2]]), tensor([[2.0]]))
    told = portrait(
        known, Bernoulli(rates, 2), tensor([[0.5, -0.3]]), extent=1.5, resolution=4, steps=3, step_size=0.05
    )
    axis = torch.linspace(-1.5, 1.5, 4).double()
    found.append(compare(told.axis, "==", scale * axis, "axis"))
    odds = rates / (1 - rates)
    for i, j in itertools.product(range(4), range(4)):
        a, b = float(axis[j]) ** 2, float(axis[i]) ** 2
        value = 2.0 - 2.4 * (a + b) + 1.5 * ((a + b) ** 2 + float(odds[0]) * a**2 + float(odds[1]) * b**2)
        found.append(compare(told.values[i, j], "==", scale * value, f"value at {i}, {j}"))
    target = 0.8
    wanted = [(0.0, 0.0)]
    for k in (0, 1):
        size = (target / (1 + float(odds[k]))) ** 0.5
        wanted += [(sign * size, 0.0) if k == 0 else (0.0, sign * size) for sign in (1, -1)]
    matrix = torch.ones(2, 2).double() + torch.diag(odds)
    squares = torch.linalg.solve(matrix, torch.full((2,), target, dtype=torch.float64)).sqrt()
    wanted += [(float(a * squares[0]), float(b * squares[1])) for a, b in itertools.product((1, -1), repeat=2)]
    points = sorted(point for part in told.points.values() for point in part)
    found.append(compare(1 + tensor(points), "==", scale * (1 + tensor(sorted(wanted))), "critical points"))
    kinds = {kind: len(part) for kind, part in told.points.items()}
    found.append(same(kinds, {"local maximum": 1, "strict saddle": 4, "global minimum": 4}, "their kinds", scale))
    still = portrait(known, Bernoulli(0.0, 2), resolution=2, steps=1)
    found.append(same(sum(map(len, still.points.values())), 5, "a circle is left out", scale))
    away = portrait(
        Moments(tensor([[1.0]]), tensor([[-1.0]]), tensor([[2.0]])), Bernoulli(0.3, 2), resolution=2, steps=1
    )
    found.append(same(away.points, {"global minimum": [(0.0, 0.0)]}, "a target below zero", scale))
    found.append(compare(told.trajectories[:, 0], "==", scale * tensor([[0.5, -0.3]]), "starts"))
    found.append(compare(still.trajectories[:, 0], "==", scale * tensor([[1.8, 0.3], [-0.2, -1.5]]), "usual starts"))
    far = tensor([[50.0, 50.0]])
    found.append(refuses(lambda: portrait(known, Bernoulli(0.3, 2), far, steps=60, step_size=1.0), "diverges"))
    found.append(refuses(lambda: portrait(known, Bernoulli(0.3, 3)), "masks two units"))
    flat = Moments(torch.eye(2).double(), torch.diag(tensor([2.0, 1.2])), 5 * torch.eye(2).double())
    for drop, width in ((0.4, 2), (0.0, 2)):
        strength = drop / (1 - drop)
        listed = critical_points(Autoencoder, flat, Bernoulli(drop, width))
        told_values = [point.objective for point in listed]
        found.append(
            compare(told_values, "==", scale * tensor(_arranged(strength)), f"critical values at {drop}", 1e-8)
        )
        for point in listed:
            slope = torch.cat([part.flatten() for part in gradient(point.model, flat, Bernoulli(drop, width))])
            found.append(compare(1 + slope, "==", scale, f"critical at {drop}", 1e-8))
    found.append(
        refuses(lambda: critical_points(Autoencoder, flat, Bernoulli(0.4, 2), limit=2), "more than 2 critical")
    )
    return found


def _arranged(strength: float) -> list[float]:
    """Criteria of all critical points of two units and the eigenvalues 2 and 1.2, group by group, in order."""
    first, second = 2.0, 1.2
    groups: list[list[tuple[int, tuple[float, ...]]]] = [
        [(1, (first,))],
        [(2, (first,))],
        [(1, (second,))],
        [(2, (second,))],
        [(2, (first, second))],
    ]
    groups += [[(1, (first,)), (1, (second,))], []]
    if strength == 0:  # one group says it all
        groups = [[(2, (first,))], [(2, (second,))], [(2, (first, second))], []]
    found = []
    for parts in groups:
        total = 10.0
        sizes = [sum(values) / (columns + strength * len(values)) for columns, values in parts]
        if any(min(values) <= strength * n for (_, values), n in zip(parts, sizes, strict=True)):
            continue
        if len(parts) == 2 and abs(sizes[0] - sizes[1]) < 1e-9:
            continue
        for (columns, values), n in zip(parts, sizes, strict=True):
            kept = [value - strength * n for value in values]
            total += (
                sum(k**2 - 2 * k * value for k, value in zip(kept, values, strict=True)) + strength * columns * n**2
            )
        found.append(total)
    return sorted(found)


def _heads(scale: float) -> list[Comparison]:
    """Top layers of repeated and silent units, and whole searches over the hidden layer."""
    found: list[Comparison] = []
    features = normal(1, 12, 4).clamp_min(0)
    features[:, 2], features[:, 3] = 0.0, 0.0
    targets = normal(2, 12, 2)
    lone = top_layer(features, Sample(features, targets), Bernoulli(0.3, 4))
    gram = features[:, :2].mT @ features[:, :2] / 12
    system = gram + 0.3 / 0.7 * torch.diag(gram.diagonal())
    wanted = torch.linalg.solve(system, features[:, :2].mT @ targets / 12).mT
    found.append(compare(lone[:, :2], "==", scale * wanted, "units that are active"))
    found.append(compare(1 + lone[:, 2:].abs(), "==", scale, "units that never are"))
    twice = torch.cat([normal(3, 12, 2).clamp_min(0)] * 2, 1) * tensor([1.0, 1.0, 3.0, 3.0])
    even = top_layer(twice, Sample(twice, targets), Bernoulli(0.0, 4))
    unit = twice / (twice.square().mean(0)).sqrt()
    least = torch.from_numpy(np.linalg.lstsq(unit.numpy(), targets.numpy(), rcond=1e-10)[0]).mT
    found.append(compare(even, "==", scale * least / twice.square().mean(0).sqrt(), "repeated units share", 1e-7))
    single = top_layer(features.float(), Sample(features.float(), targets.float()), Bernoulli(0.3, 4))
    found.append(compare(single, "==", scale * lone, "single precision", 1e-5))
    data, law = Sample(normal(4, 10, 3), normal(5, 10, 2), 0.2 + normal(6, 10).abs()), Bernoulli(0.4, 3)
    start = normal(7, 3, 3)
    told = variable_projection(data, law, start, iterations=3)
    assert data.weights is not None
    shares = data.weights / data.weights.sum()

    def value(hidden: Tensor) -> Tensor:
        a = torch.relu(data.inputs @ hidden.mT)
        G = (a * shares[:, None]).mT @ a
        K = G + 0.4 / 0.6 * torch.diag(G.diagonal())
        right = (a * shares[:, None]).mT @ data.targets
        return (shares[:, None] * data.targets.square()).sum() - (right * torch.linalg.solve(K, right)).sum()

    found.append(compare(told.history[0][1], "==", scale * value(start), "where it begins"))
    hidden = told.model.weights[0].clone().requires_grad_()
    reached = value(hidden)
    (slope,) = torch.autograd.grad(reached, hidden)
    found.append(compare(told.objective, "==", scale * reached.detach(), "where it ends"))
    found.append(compare(told.gradient_norm, "==", scale * slope.norm(), "slope there", 1e-7))
    falls = tensor([number for _, number in told.history])
    found.append(compare(falls.diff(), "<=", 0.0, "never above before"))
    found.append(same((len(told.history), told.converged), (4, False), "iterations", scale))
    found.append(same(variable_projection(data, law, start, iterations=300).converged, True, "an end", scale))
    drawn = variable_projection(data, law, iterations=1, seed=3)
    generator = torch.Generator().manual_seed(3)
    first = torch.randn(3, 3, generator=generator, dtype=torch.float64) * (2 / 3) ** 0.5
    found.append(compare(drawn.history[0][1], "==", scale * value(first), "a drawn start"))
    return found
