"""What claims on least values compare: deep networks, last layers and maps under blocks, over all masks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy import optimize
from torch import Tensor, nn

from droptics.arrays import Array
from droptics.data import Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.equalization import equalize
from droptics.evidence.claims import Comparison, compare
from droptics.heads.projection import variable_projection
from droptics.landscapes import inspect, spurious_minimum
from droptics.masks import Bernoulli, Block, Product, SlidingBlock
from droptics.models import DeepLinear, LastLayer, ReLUNet, TwoLayerLinear
from droptics.norms import k_support
from droptics.optima import optimum
from droptics.optima.last_layer import optimal_head
from droptics.papers.droptics_own.across.small_room_checks import laws
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.telling import fails
from droptics.papers.instances import descend, factorizations, moments, normal, sample, simplex, tensor
from droptics.penalties import criterion


def _over_masks(target: Tensor, widths: Sequence[int], drops: Sequence[float]) -> Callable[..., Tensor]:
    """E ||M - W_3 diag(z_2) W_2 diag(z_1) W_1||_F^2 of two hidden layers with a rate each, over all masks."""
    rates = [drop for drop, width in zip(drops, widths, strict=True) for _ in range(width)]
    kept, chances = every_coin(rates)
    below, above = (kept / (1 - tensor(rates))).split(list(widths), -1)

    def value(first: Tensor, second: Tensor, last: Tensor) -> Tensor:
        maps = (last * above[:, None]) @ (second * below[:, None]) @ first
        return chances @ (maps - target).square().sum((1, 2))

    return value


def spurious(global_value: float) -> list[Comparison]:
    """A deep network with a local minimum that is not global: 1.36 against 10/9, both over all masks.

    Its Hessian is positive but along the symmetries: four nodes can be rescaled, inputs and outputs turned together.
    """
    model, data, masks = spurious_minimum()
    seen, eye = inspect(model, data, masks), torch.eye(2, dtype=torch.float64)
    value = _over_masks(eye, (2, 2), (1 / 3, 1 / 3))

    def flat(vector: Tensor) -> Tensor:
        return value(*(part.reshape(2, 2) for part in vector.split(4)))

    point = torch.cat([weight.flatten() for weight in model.weights]).requires_grad_()
    (slope,) = torch.autograd.grad(flat(point), point)
    hessian = torch.autograd.functional.hessian(flat, point.detach())
    curvatures = torch.linalg.eigvalsh(hessian)
    first, second, last = model.weights
    moves = [(eye[[i]].mT * first, -second * eye[i], 0 * last) for i in range(2)]
    moves += [(0 * first, eye[[i]].mT * second, -last * eye[i]) for i in range(2)]
    turn = tensor([[0.0, -1.0], [1.0, 0.0]])
    moves.append((first @ turn.mT, 0 * second, turn @ last))
    symmetries = torch.stack([torch.cat([part.flatten() for part in move]) for move in moves], 1)
    free = int(torch.linalg.matrix_rank(symmetries))
    lowest, _ = descend(value, [(2, 2)] * 3, starts=4, size=0.8)
    best = optimum(DeepLinear, data, masks).objective
    found = [
        compare(float(seen.kind == "local minimum"), "==", 1.0, f"kind: {seen.kind}"),
        compare(seen.inertia, "==", (0, free, 12 - free), "its inertia"),
        compare([seen.gradient_norm, seen.curvature, seen.symmetries], "==", [0.0, 0.0, free], "what else is told"),
        compare([seen.objective, float(flat(point.detach()))], "==", 1.36, "criterion there"),
        compare(slope, "==", 0.0, "no slope"),
        compare(hessian @ symmetries, "==", 0.0, "symmetries are flat"),
        compare(curvatures[:free], "==", 0.0, "as many flat directions as symmetries"),
        compare(curvatures[free], ">", 0.01, "all others curve upwards"),
        compare(value(eye, eye, 4 / 9 * eye), "==", global_value, "the network of rank two"),
        compare([best, lowest], "==", global_value, "global minimum", precision=1e-7),
        compare(best, "<", seen.objective, "it is not global"),
    ]
    for seed in range(3):
        near = point.detach() + 0.05 * normal(seed, 12)
        back = optimize.minimize(
            lambda vector: _with_slope(flat, vector), near.numpy(), jac=True, method="L-BFGS-B", options={"ftol": 1e-15}
        )
        found.append(compare(back.fun, "==", 1.36, f"descent from nearby, {seed}", precision=1e-7))
    return found


def _with_slope(function: Callable[[Tensor], Tensor], point: Array) -> tuple[float, Array]:
    vector = torch.from_numpy(point).requires_grad_()
    value = function(vector)
    return float(value.detach()), torch.autograd.grad(value, vector)[0].numpy()


def _by_supports(spectrum: Sequence[float], widths: Sequence[int], drops: Sequence[float]) -> tuple[float, int]:
    """Least criterion of the maps on every set of singular directions, their shares of the layers by descent; its size.

    Directions with shares x_li of the widths d_l cost M_i^2 (1 - 1 / prod_l (1 + lam_l / (d_l x_li))), others M_i^2.
    """
    squares, hidden = tensor(spectrum).square(), tensor(widths)[:, None]
    lam = (tensor(drops) / (1 - tensor(drops)))[:, None]
    found = [(float(squares.sum()), 0)]
    for size in range(1, min(len(spectrum), *widths) + 1):
        for support in itertools.combinations(range(len(spectrum)), size):
            chosen = squares[list(support)]

            def gained(logits: Tensor, chosen: Tensor = chosen) -> Tensor:
                noise = (1 + lam / (hidden * torch.softmax(logits, 1))).prod(0)
                return squares.sum() - (chosen / noise).sum()

            found.append((descend(gained, [(len(widths), size)], starts=1)[0], size))
    return min(found)


def deep_optimum(scale: float) -> list[Comparison]:
    """Exact deep optimum against all supports and against descent over all masks; the rank jump at lam = sqrt 2."""
    found = []
    cases = (
        ((1.0, 1.0), (2, 2), (1 / 3, 1 / 3)),
        ((2.0, 1.0), (2, 3), (0.15, 0.5)),
        ((1.0, 1.0), (2, 2), (0.7, 0.7)),
        ((2.0, 1.8, 0.3), (3, 2), (0.4, 0.1)),
    )
    for spectrum, widths, drops in cases:
        target = torch.diag(tensor(spectrum))
        masks = Product([Bernoulli(drop, width) for drop, width in zip(drops, widths, strict=True)])
        ours = optimum(DeepLinear, Moments.of_map(target), masks)
        value, label = _over_masks(target, widths, drops), f"{spectrum}, widths {widths}, rates {drops}"
        least, rank = _by_supports(spectrum, widths, drops)
        sizes = (len(spectrum), *widths, len(spectrum))
        lowest, _ = descend(value, [(b, a) for a, b in itertools.pairwise(sizes)], starts=2, size=0.8)
        found.append(compare(ours.objective, "==", scale * least, f"the best support, {label}", precision=1e-7))
        found.append(compare(float(ours.rank), "==", float(rank), f"its rank, {label}"))
        found.append(compare(ours.objective, "<=", scale * lowest * (1 + 1e-7), f"not above descent, {label}"))
        found.append(compare(value(*ours.model.tensors), "==", ours.objective, f"over all masks, {label}"))
        found.append(compare(ours.bound, "==", ours.objective, "bound and objective", precision=1e-6))
    # of inputs that are not white the singular values of E[y x^T] C^(-1/2) count
    known, masks = moments(1, 2, 3), Product([Bernoulli(0.2, 3), Bernoulli(0.3, 2)])
    spectrum = torch.linalg.svdvals(known.yx @ torch.linalg.inv(torch.linalg.cholesky(known.xx)).mT)
    least, rank = _by_supports(spectrum.tolist(), (3, 2), (0.2, 0.3))
    ours, noise = optimum(DeepLinear, known, masks), known.yy.trace() - spectrum.square().sum()
    found.append(compare(ours.objective, "==", scale * (noise + least), "correlated inputs", precision=1e-7))
    found.append(compare(ours.rank, "==", rank, "its rank, correlated inputs"))
    edge = math.sqrt(2)
    for lam, rank in ((1.3, 2), (edge - 1e-4, 2), (edge + 1e-4, 1), (1.5, 1)):
        masks = Product([Bernoulli(lam / (1 + lam), 2)] * 2)
        ours = optimum(DeepLinear, Moments.of_map(torch.eye(2, dtype=torch.float64)), masks)
        stated = 2 - 2 / (1 + lam) ** 2 if lam < edge else 2 - 1 / (1 + lam / 2) ** 2
        found.append(compare(float(ours.rank), "==", float(rank), f"rank at lam={lam:.5g}"))
        found.append(compare(ours.objective, "==", scale * stated, f"value at lam={lam:.5g}"))
    return found


def best_head(scale: float) -> list[Comparison]:
    """The best last layer for fixed features against least squares on all masks, and the formula of the ridge.

    Of many examples and few, of examples that count differently, with offsets and without.
    """
    found = []
    data = sample(2, 12, 4, 2)
    module = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).double()
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(i, *parameter.shape))
    few = Sample(data.inputs[:3], data.targets[:3])
    uneven = Sample(data.inputs, data.targets, 3 * simplex(5, 12))
    without = nn.Sequential(module[0], module[1], nn.Linear(4, 2, bias=False)).double()
    given = torch.cat([part.detach().flatten().clone() for part in (*module.parameters(), *without.parameters())])
    starts, share = every_coin([0.3] * 5)  # of blocks of two, the first cut at the border
    alive = torch.stack([starts[:, i] * starts[:, i + 1] for i in range(4)], 1)
    every = {**laws(), "sliding blocks": (SlidingBlock(0.3, 4, 2), alive / 0.49, share)}
    samples = {"12 examples": data, "3 examples": few, "uneven examples": uneven}
    for (name, (law, multipliers, chances)), (kind, rows), net in itertools.product(
        every.items(), samples.items(), (module, without)
    ):
        offset, label = float(net is module), f"{name}, {kind}{', no bias' * (net is without)}"
        share = torch.ones(len(rows)).double() if rows.weights is None else rows.weights
        share = share / share.sum()
        best = optimal_head(LastLayer.of(net), rows, law)
        assert isinstance(best.model, LastLayer)
        features = torch.tanh(module[0](rows.inputs)).detach()
        masked = (features * multipliers[:, None]).flatten(0, 1)
        weights = torch.outer(chances, share).sqrt().reshape(-1, 1)
        tall = torch.cat([masked, torch.full((len(masked), 1), offset).double()], 1) * weights
        wanted = rows.targets.repeat(len(multipliers), 1) * weights
        solved = torch.linalg.lstsq(tall, wanted, driver="gelsd").solution
        value = (tall @ solved - wanted).square().sum()
        head = best.model.head
        found.append(compare(best.objective, "==", scale * value, f"least value, {label}"))
        found.append(compare(head.weight, "==", scale * solved[:-1].mT, f"weights, {label}"))
        bias = head.bias if net is module else torch.zeros(2)
        found.append(compare(bias, "==", scale * solved[-1], f"bias, {label}"))
        moved, level = features - offset * share @ features, rows.targets - offset * share @ rows.targets
        spread = torch.einsum("m,mi,mj->ij", chances, multipliers - 1, multipliers - 1)
        square = moved.mT * share @ moved + spread * (features.mT * share @ features)
        ridge = torch.linalg.solve(square, moved.mT * share @ level).mT
        found.append(compare(head.weight, "==", scale * ridge, f"generalized ridge, {label}"))
    # a unit that repeats another, four that fall together: many heads are best, the formula gives one of them
    repeated = sample(3, 9, 3, 2)
    rows = Sample(torch.cat([repeated.inputs, 5 * repeated.inputs[:, :1]], 1), repeated.targets)
    best = optimal_head(LastLayer.of(nn.Linear(4, 2, bias=False).double()), rows, Block(0.5, 4, 4))
    H, Y = rows.inputs, rows.targets
    W = Y.mT @ H / 9 @ torch.linalg.pinv(2 * H.mT @ H / 9, hermitian=True)
    value = (Y - H @ W.mT).square().sum(1).mean() + (H @ W.mT).square().sum(1).mean()
    found.append(compare(best.objective, "==", scale * value, "one of many"))
    after = torch.cat([part.detach().flatten() for part in (*module.parameters(), *without.parameters())])
    found.append(compare(after, "==", given, "the modules keep their weights"))
    # a search over hidden layers with the head solved: its gradient is that of the criterion, zero in the head
    ours = variable_projection(data, Bernoulli(0.4, 3), iterations=3)
    layers = [weight.clone().requires_grad_() for weight in ours.model.weights]
    reached = criterion(ReLUNet(layers), data, Product([Bernoulli(0.0, 4), Bernoulli(0.4, 3)])).value
    below, top = torch.autograd.grad(reached, layers)
    return [
        *found,
        compare(ours.gradient_norm, "==", below.norm(), "gradient of the projection"),
        compare(top, "==", 0.0, "the head is solved"),
    ]


def _support_square(values: Tensor, k: int) -> float:
    """||x||_(k)^2 = min sum_i x_i^2 / t_i over 0 < t_i <= 1 with sum t_i <= k: t_i = min(1, x_i / level)."""
    x = values[values > 0].numpy()
    if len(x) <= k:
        return float((x**2).sum())
    level = optimize.brentq(lambda level: np.minimum(1, x / level).sum() - k, 1e-9, x.sum(), xtol=1e-15)
    return float((x**2 / np.minimum(1, x / level)).sum())


def dropblock_against_dropout(factor: float) -> list[Comparison]:
    """(r/d) ||A||_(r)^2 against (1/d) ||A||_*^2; equal iff ||A||_* >= r ||A||_2; least penalties by descent.

    Of (2.2, 1, 1) with r = 2 the tail is (1, 1), for which two blocks are enough, and of equal values all of them.
    """
    found = []
    spectra = [(normal(seed, 6).abs(), r) for seed in range(8) for r in (1, 2, 3)]
    spectra += [(tensor(values), 2) for values in ((5.0, 0.1, 0.1), (1.0, 1.0, 1.0, 0.9), (2.0, 1.0, 0.99), (1.0,))]
    spectra += [(tensor([2.0, 1.0, 1.0]), 2), (tensor([2.0, 2.0, 2.0, 1e-3]), 3)]
    for values, r in spectra:
        label = f"r={r}, nuclear over spectral norm {float(values.sum() / values.max()):.3g}"
        signs = tensor([1.0, -1.0]).repeat(len(values))[: len(values)]  # which a norm does not see
        block, plain = factor * r * k_support(signs * values, r) ** 2, values.sum() ** 2
        found.append(compare(block, "==", r * _support_square(values, r), f"by weights of the values, {label}"))
        flat = bool(values.sum() >= r * values.max())
        found.append(compare(block, "==" if flat else ">", plain, f"equal iff the spectrum is flat, {label}"))
    for spectrum, width in (((2.0, 1.5, 1.0), 8), ((2.0, 0.5, 0.2), 8), ((2.2, 1.0, 1.0), 4), ((1.0, 1.0, 1.0), 4)):
        found += _least_of_factors(factor, tensor(spectrum), width)
    return found


def _least_of_factors(factor: float, values: Tensor, width: int) -> list[Comparison]:
    """Envelopes of a map at a width, and factors that attain that of blocks of two, over all masks.

    Two blocks hold a flat spectrum of three values only at a price above the envelope: 5/3 against 3/2 for ones.
    """
    drop, lam, label = 0.4, 2 / 3, f"width {width}, spectrum {values.tolist()}"
    left, right = (torch.linalg.qr(normal(seed, 3, 3))[0] for seed in (1, 2))
    A = left * values @ right
    factors, shapes = factorizations(A, width)
    kept, chances = every_coin([drop] * (width // 2))
    masks = kept.repeat_interleave(2, -1) / (1 - drop)

    def penalty(U: Tensor, V: Tensor) -> Tensor:
        return chances @ ((U * masks[:, None]) @ V.mT - A).square().sum((1, 2))

    plain, block = lam / width * float(values.sum()) ** 2, 2 * lam / width * _support_square(values, 2)
    law, data, model = (
        Block(drop, width, 2),
        Moments.of_map(A),
        TwoLayerLinear(*factors(normal(3, 3, width), torch.zeros(width, 3).double())),
    )
    found = [
        compare(envelope(model, data, Bernoulli(drop, width)), "==", factor * plain, f"envelope of dropout, {label}"),
        compare(envelope(model, data, law), "==", factor * block, f"envelope of blocks, {label}"),
    ]
    if bool((values == values[0]).all()):
        least, _ = descend(lambda free, rest: penalty(*factors(free, rest)), shapes, starts=1)
        found.append(compare(fails(lambda: induced(model, data, law)), "==", 1.0, f"no closed form, {label}"))
        return [*found, compare(least, "==", factor * 5 / 3, f"least penalty, {label}", precision=1e-6)]
    best = equalize(model, data, law)
    found.append(compare(best.matrix(), "==", A, f"the map, {label}"))
    found.append(compare(penalty(best.U, best.V), "==", factor * block, f"attained, {label}"))
    found.append(compare(induced(model, data, law), "==", factor * block, f"least penalty, {label}"))
    return found
