"""What the claims on results of our own compare: library formulas against descent, enumeration and refits."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from droptics.bounds import data_norm, measured_rademacher
from droptics.coadaptation import split
from droptics.data import Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.equalization import equalize
from droptics.evidence.claims import Comparison, Relation, compare
from droptics.landscapes import gradient, hessian, hessian_action
from droptics.linalg import psd_root
from droptics.masks import Bernoulli, Block, MaskLaw, Product
from droptics.models import Autoencoder, DeepLinear, Model, ReLUNet
from droptics.papers.helmbold2017 import networks, unit_types
from droptics.papers.instances import coin_masks, descend, moments, normal, tensor, two_layer
from droptics.papers.thesis import chapter3_checks
from droptics.penalties import Enumerate, criterion, penalty

Reals = NDArray[np.float64]


def _deep(seed: int, sizes: Sequence[int], drop: float) -> tuple[DeepLinear, Moments, MaskLaw]:
    weights = chapter3_checks.network(seed, sizes)
    return DeepLinear(weights), moments(seed, sizes[-1], sizes[0]), chapter3_checks.law(weights, drop)


def _least_of_all(model: DeepLinear, data: Moments, drop: float) -> float:
    """Least penalty that descent finds over all networks of the shape and map of a model, over all masks of two layers.

    The first two layers are free, the last is what completes the map: W (W_2 W_1)^+, and anything beside their range.
    """
    first, second, last = (weight.shape for weight in model.weights)
    kept, chances = zip(*coin_masks([drop] * (first[0] + second[0])), strict=True)
    below, above = (torch.stack(kept) / (1 - drop)).split((first[0], second[0]), -1)
    W, root, eye = model.matrix(), psd_root(data.xx), torch.eye(second[0], dtype=torch.float64)

    def cost(A: Tensor, B: Tensor, C: Tensor) -> Tensor:
        ahead = torch.linalg.pinv(B @ A)
        end = W @ ahead + C @ (eye - B @ A @ ahead)
        maps = (end * above[:, None]) @ (B * below[:, None]) @ A
        return tensor(chances) @ ((maps - W) @ root).square().sum((1, 2))

    return descend(cost, [tuple(first), tuple(second), tuple(last)], starts=2)[0]


def deep_induced(scale: float) -> list[Comparison]:
    """The exact least penalty is attained by the equalized network, lies below every other, and fits special cases."""
    found = []
    cases = ((4, 3, 4, 3), (0.4, 0.1)), ((3, 3, 3, 3, 2), (0.6, 0.6, 0.6)), ((3, 5, 3), (0.3,))
    for seed, (sizes, drops) in enumerate(cases):
        model, data, _ = _deep(seed, sizes, drops[0])
        masks: MaskLaw = Product([Bernoulli(*law) for law in zip(drops, sizes[1:-1], strict=True)])
        least = scale * induced(model, data, masks).value
        best = equalize(model, data, masks)
        found.append(compare(best.matrix(), "==", model.matrix(), "same map", precision=1e-8))
        found.append(compare(penalty(best, data, masks), "==", least, f"attained, sizes {sizes}", precision=1e-7))
        found.append(compare(penalty(model, data, masks), ">=", least, "another network"))
        values = torch.linalg.svdvals(model.matrix() @ psd_root(data.xx))
        values, hidden = values[values > 1e-9], tensor(sizes[1:-1])[:, None]
        lam = tensor([drop / (1 - drop) for drop in drops])[:, None]

        def shared(logits: Tensor, values: Tensor = values, hidden: Tensor = hidden, lam: Tensor = lam) -> Tensor:
            shares = torch.softmax(logits, 1)
            return (values.square() * ((1 + lam / (hidden * shares)).prod(0) - 1)).sum()

        lowest, _ = descend(shared, [(len(hidden), len(values))], starts=2, seed=seed)
        found.append(compare(lowest, "==", least, f"shares that descent finds, sizes {sizes}", precision=1e-6))
    for seed, widths in ((3, (2, 2)), (4, (3, 2))):
        model, data, masks = _deep(seed, (2, *widths, 2), 0.4)
        values = torch.linalg.svdvals(model.matrix() @ psd_root(data.xx))
        equal = (values.square() * (math.prod(1 + 2 * (2 / 3) / width for width in widths) - 1)).sum()
        told, label = induced(model, data, masks).value, f"hidden {widths}"
        found.append(compare(told, "==", scale * _least_of_all(model, data, 0.4), f"all networks, {label}", 1e-6))
        found.append(compare(told, "<", equal, f"equal shares cost more, {label}"))
    # masked inputs: their noise is part of the second moment that the layers above see, and has a price of its own
    model, data, masks = _deep(7, (4, 3, 3), 0.4)
    noisy = Moments(data.xx + torch.diag(data.xx.diagonal()) / 4, data.yx, data.yy)
    own = (model.matrix().square() * data.xx.diagonal()).sum() / 4
    both = induced(DeepLinear(model.weights, True), data, Product([Bernoulli(0.2, 4), masks]))
    found.append(
        compare(both, "==", scale * (own + induced(model, noisy, masks).value), "masked inputs", precision=1e-8)
    )
    for rank, widths, drop in ((2, (2, 2), 0.5), (3, (3, 5), 0.3)):
        odds = drop / (1 - drop)
        layers = [torch.eye(n, m, dtype=torch.float64) for m, n in zip((rank, *widths), (*widths, rank), strict=True)]
        exact = rank * (math.prod(1 + rank * odds / width for width in widths) - 1)
        data = Moments.of_map(torch.eye(rank, dtype=torch.float64))
        value = induced(DeepLinear(layers), data, chapter3_checks.law(layers, drop))
        found.append(compare(value, "==", scale * exact, f"identity of rank {rank}", precision=1e-8))
    # rounding of single precision is no second direction: the least penalty of one is a product
    sizes = (3, 3, 3, 3, 3, 3, 3)
    layers = [normal(1, 3, 1) @ normal(2, 1, 3), *[torch.eye(3).double()] * 5]
    single = DeepLinear([layer.float() for layer in layers])
    energy = float(single.matrix().double().square().sum())
    exact = energy * (math.prod(1 + 3 / 7 / width for width in sizes[1:-1]) - 1)
    told = induced(single, Moments.of_map(torch.eye(3)), chapter3_checks.law(list(single.weights), 0.3)).value
    # some roundings of single precision, squared
    found.append(compare(float(told), "==", scale * exact, "one direction, single precision", precision=1e-5))
    return found


def above_envelope(rank: int, relation: Relation) -> list[Comparison]:
    """Least penalty against its convex envelope, two and three hidden layers, correlated inputs, unequal values.

    The envelope is (prod_l (1 + lam_l / d_l) - 1) ||W C^(1/2)||_*^2, attained exactly by equalized networks: at any
    rank where one layer alone drops. The penalty of the best network is summed over all masks.
    """
    found = []
    cases = ((2, 2), (0.5, 0.5)), ((3, 4), (0.2, 0.3)), ((2, 3, 2), (0.4, 0.4, 0.1)), ((3, 2), (0.4, 0.0))
    for seed, (widths, drops) in enumerate(cases):
        data, left, right = moments(seed, 3, 4), normal(seed + 3, 3, rank), normal(seed + 4, rank, 4)
        W, label = left @ right, f"widths {widths}, rates {drops}"
        layers = [torch.eye(n, m, dtype=torch.float64) for n, m in zip((*widths, 3), (4, *widths), strict=True)]
        layers[0], layers[-1] = torch.eye(widths[0], rank).double() @ right, left @ torch.eye(rank, widths[-1]).double()
        model, masks = DeepLinear(layers), Product([Bernoulli(*law) for law in zip(drops, widths, strict=True)])
        found.append(compare(model.matrix(), "==", W, f"the map, {label}"))
        growth = math.prod(1 + drop / (1 - drop) / width for drop, width in zip(drops, widths, strict=True))
        stated = (growth - 1) * torch.linalg.svdvals(W @ (root := psd_root(data.xx))).sum() ** 2
        lower, best = envelope(model, data, masks).value, equalize(model, data, masks)
        found.append(compare(lower, "==", stated, f"envelope, {label}"))
        found.append(compare(best.matrix(), "==", W, f"map of the best network, {label}", precision=1e-8))
        spread, rates = 0.0, [drop for drop, width in zip(drops, widths, strict=True) for _ in range(width)]
        for kept, chance in coin_masks(rates):
            way = best.weights[0]
            for weight, mask in zip(best.weights[1:], (kept / (1 - tensor(rates))).split(widths), strict=True):
                way = weight * mask @ way
            spread += chance * float(((way - W) @ root).square().sum())
        asked = relation if all(drops) else "=="
        for name, above in (("least penalty", induced(model, data, masks).value), ("best network", spread)):
            found.append(compare(above / lower, asked, 1.0, f"{name} over the envelope, {label}", precision=1e-6))
    if rank == 2:
        found.append(compare(_least_penalty(), "==", induced(*_least_case()).value, "descent", precision=1e-6))
        model, _, masks = _least_case()
        line = moments(3, 3, 4, rank=1)  # the map has rank two, but the inputs lie on a line
        stated = ((1 + 0.4 / 0.6 / 2) ** 2 - 1) * (model.matrix() @ line.xx @ model.matrix().mT).trace()
        for name, value in (("envelope", envelope(model, line, masks)), ("least penalty", induced(model, line, masks))):
            found.append(compare(value, "==", stated, f"{name}, inputs on a line", precision=1e-6))
    return found


def _least_case() -> tuple[DeepLinear, Moments, Product]:
    layers = [normal(8, 2, 4), normal(9, 2, 2), normal(10, 3, 2)]
    return DeepLinear(layers), moments(3, 3, 4), chapter3_checks.law(layers, 0.4)


def _least_penalty() -> float:
    """The least penalty of a map of rank two at widths (2, 2), whose networks differ by two invertible matrices."""
    model, data, _ = _least_case()
    first, middle, last = model.weights
    root = psd_root(data.xx)
    listed = [(kept / 0.6, chance) for kept, chance in coin_masks([0.4] * 4)]

    def objective(G: Tensor, H: Tensor) -> Tensor:
        turned = (G @ first @ root, H @ middle @ torch.linalg.inv(G), last @ torch.linalg.inv(H))
        outcomes = [
            chance * ((turned[2] * mask[2:]) @ (turned[1] * mask[:2]) @ turned[0]).square().sum()
            for mask, chance in listed
        ]
        return torch.stack(outcomes).sum() - (model.matrix() @ root).square().sum()

    return descend(objective, [(2, 2), (2, 2)], starts=2)[0]


def odd_widths(constant: float) -> list[Comparison]:
    """Rademacher complexity, from below by all signs and networks of odd width, against constant alpha ||X|| / n.

    Copies of one unit in every direction, of either sign, on points in uneven units that are symmetric about zero, and
    on points that are not. They reach 1.12 to 1.13 alpha ||X|| / n, which the library measures over the same units: the
    stated constant is not the largest. ||X||^2 is the sum of x.C+x.
    """
    found, alpha = [], 1.5
    angle = torch.linspace(0, 2 * math.pi, 91, dtype=torch.float64)[:-1]
    signs = torch.cartesian_prod(*[tensor([1.0, -1.0])] * 8)
    for seed, width in ((1, 1), (2, 3), (3, 5)):
        half, units = normal(seed, 4, 2), tensor([3.0, 0.2])
        points = units * (torch.cat([half, -half]) if width < 5 else normal(seed, 8, 2) + 0.3)
        data, outputs = Sample(points, torch.zeros(8, 1).double()), []
        for v in torch.stack([angle.cos(), angle.sin()], 1) / units:
            size = torch.relu(data.inputs @ v).square().mean().sqrt()
            net = ReLUNet([v.repeat(width, 1), torch.full((1, width), alpha / width, dtype=torch.float64) / size])
            outputs.append(net.outputs(data.inputs)[:, 0])
        reached = split(net, data)
        found.append(compare(width * reached.regularizer, "<=", alpha**2, f"a network of the class, width {width}"))
        complexity = (signs @ torch.stack(outputs, 1) / 8).abs().amax(1).mean()
        size = (points @ torch.linalg.inv(points.mT @ points / 8) * points).sum().sqrt()
        found.append(compare(data_norm(data), "==", size, f"norm of the inputs, width {width}"))
        bound = constant * alpha * size / 8
        found.append(compare(complexity, ">=", bound, f"complexity from below, width {width}"))
        measured = measured_rademacher(data, alpha=alpha)
        found.append(compare(measured, ">=", complexity, f"measured, width {width}"))
        found.append(compare(measured, "<=", 1.01 * complexity, f"and no more than finer directions give, {width}"))
    return found


def second_derivative(factor: float) -> list[Comparison]:
    """Gradient and Hessian by formula against automatic differentiation of the error averaged over all masks."""
    found = []
    network, x, y = chapter3_checks.network, normal(6, 5, 4), normal(7, 5, 2)
    examples, shown = Sample(x, y), Moments(x.mT @ x / 5, y.mT @ x / 5, y.mT @ y / 5)
    # one rate per coin, which hides so many neighboring units of its layer
    cases: list[tuple[Model, Moments | Sample, list[tuple[list[float], int]]]] = [
        (Autoencoder(normal(1, 3, 2)), moments(1, 3, 3), [([0.4, 0.2], 1)]),
        (Autoencoder(normal(2, 2, 4)), moments(2, 2, 2), [([0.5, 0.2], 2)]),
        (two_layer(2, 2, 4, 3), examples, [([0.3, 0.1, 0.6], 1)]),
        (two_layer(3, 2, 4, 4), moments(5, 2, 4), [([0.3, 0.6], 2)]),
        (DeepLinear(network(3, (4, 2, 3, 2))), moments(9, 2, 4), [([0.3, 0.1], 1), ([0.5, 0.2, 0.4], 1)]),
        (DeepLinear(network(4, (4, 3, 2)), mask_inputs=True), examples, [([0.3, 0.1], 2), ([0.5, 0.2, 0.0], 1)]),
        (DeepLinear(network(5, (3, 2, 2, 1, 2))), moments(7, 2, 3), [([0.3, 0.1], 1), ([0.5], 2), ([0.2], 1)]),
    ]
    for model, data, rates in cases:
        family, known = type(model).__name__, data if isinstance(data, Moments) else shown
        laws = [
            Block(tensor(layer), len(layer) * width, width) if width > 1 else Bernoulli(tensor(layer), len(layer))
            for layer, width in rates
        ]
        layers = [tensor(layer).repeat_interleave(width) for layer, width in rates]
        masks = Product(laws) if len(laws) > 1 else laws[0]
        direction = [normal(20 + i, *part.shape) for i, part in enumerate(model.tensors)]
        parts = [part.clone().requires_grad_(True) for part in model.tensors]
        # first to last: U and U^T of the tied network, V^T and U of the untied one
        chain = parts if isinstance(model, DeepLinear) else [parts[-1].mT, parts[0]]
        if len(chain) == len(layers):  # masked inputs
            chain = [torch.eye(len(known.xx)).double(), *chain]
        coins, chances = zip(*coin_masks([rate for layer, _ in rates for rate in layer]), strict=True)
        whole, hidden = chain[0], torch.stack(coins).split([len(layer) for layer, _ in rates], dim=1)
        for weight, part, drop, (_, width) in zip(chain[1:], hidden, layers, rates, strict=True):
            whole = weight * (part.repeat_interleave(width, dim=1) / (1 - drop))[:, None] @ whole
        errors = ((whole @ known.xx - 2 * known.yx) * whole).sum((1, 2)) + torch.trace(known.yy)
        error = tensor(chances) @ errors
        slope = torch.autograd.grad(error, parts, create_graph=True)
        inner = torch.stack([(s * d).sum() for s, d in zip(slope, direction, strict=True)]).sum()
        curvature = torch.autograd.grad(inner, parts, retain_graph=True)
        for mine, theirs in zip(gradient(model, data, masks), slope, strict=True):
            found.append(compare(factor * mine, "==", theirs.detach(), f"gradient, {family}"))
        for mine, theirs in zip(hessian_action(model, data, masks, direction), curvature, strict=True):
            found.append(compare(factor * mine, "==", theirs, f"action, {family}"))
        flat = torch.cat([s.flatten() for s in slope])
        rows = [torch.autograd.grad(entry, parts, retain_graph=True) for entry in flat]
        square = torch.stack([torch.cat([part.flatten() for part in row]) for row in rows])
        found.append(compare(factor * hessian(model, data, masks), "==", square, f"Hessian, {family}"))
    return found


def exact_negative_minima(values: Sequence[float], wins_from: int) -> list[Comparison]:
    """K = 2, drop 1/2: global minima by all unit types, attained by networks, against the best non-negative network."""
    found = []
    data = networks.two_points(torch.ones(2, dtype=torch.float64), 1.0)
    for width, value in enumerate(values, start=1):
        minimum, net = unit_types.global_minimum(width)
        reached = criterion(net, data, Bernoulli(0.5, net.units), Enumerate())
        found.append(compare(minimum, "==", value, f"global minimum, n={width}"))
        found.append(compare(reached, "==", value, f"criterion of a network that has it, n={width}"))
    # NOR networks are better where 13 < 3 n, by a difference that is one over n up to positive factors
    for width in (4, 5, *range(6, 40, 4), 10**3, 10**6):
        noise = 1 + 1 / width
        gap = networks.nor_criterion(2, width) - networks.positive_minimum(2, width)
        difference = (13 / width - 3) / (64 * (3 * noise - 1) * (2.5 * noise - 1.5625))
        found.append(compare(gap, "==", difference, f"NOR against non-negative, n={width}"))
    mixed = [unit_types.types()[i] for i in unit_types.MIXED]
    best = [*values, unit_types.least(mixed)[0], *(networks.nor_criterion(2, n) for n in range(5, 40))]
    for width, value in enumerate(best, start=1):
        relation: Relation = "<" if width >= wins_from else "=="
        found.append(compare(value, relation, networks.positive_minimum(2, width), f"against non-negative, n={width}"))
    return found


def _best_line(cross: Reals, square: Reals, zero: Reals, zero_square: Reals) -> Reals:
    """Least (E (b + cZ - 1)^2 + E (b + cZ_0)^2) / 2 from moments of Z and of Z_0, what units sum to at x = 0."""
    level, second = cross + zero, square + zero_square
    determinant = 2 * second - level**2
    return (1 - (second - 2 * cross * level + 2 * cross**2) / determinant) / 2


def nor_beats(inputs: Sequence[int], widths: Sequence[int], relation: Relation) -> list[Comparison]:
    """NOR networks against the best non-negative ones of the same width, all pairs; both by moments of their masks.

    n units of one mask each multiply second moments by 1 + 1/n. Non-negative units see Bin(K, 1/2) kept inputs at
    x = 1 and nothing at x = 0; NOR units fire at x = 1 with chance Q = 2^-K and always at x = 0.
    """
    K, n = (grid.ravel().astype(float) for grid in np.meshgrid(inputs, widths))
    Q, noise = 2**-K, 1 + 1 / n
    nor = _best_line(Q, Q * noise, 1 + 0 * n, noise)
    positive = _best_line(K / 2, (K + K**2) / 4 * noise, 0 * n, 0 * n)
    pairs = list(zip(K.astype(int).tolist(), n.astype(int).tolist(), strict=True))
    label = f"K from {inputs[0]} to {inputs[-1]}, n from {widths[0]} to {widths[-1]}"
    told = [networks.nor_criterion(*pair) for pair in pairs], [networks.positive_minimum(*pair) for pair in pairs]
    return [
        compare(told[0], "==", nor, f"NOR networks by moments, {label}"),
        compare(told[1], "==", positive, f"non-negative ones by moments, {label}"),
        compare(told[0], relation, told[1], f"which are better, {label}"),
    ]
