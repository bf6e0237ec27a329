"""What a claim on routes compares: tall matrices, hashed rows, blocked sums, masked weights, systems of ratings."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor, nn

from droptics.data import Sample
from droptics.estimates import Estimate
from droptics.evidence.claims import Comparison, compare
from droptics.linalg.gram import gram
from droptics.linalg.ranks import _different, check_energies, distinct, proved_rank
from droptics.linalg.sums import BLOCK, products, squares, summands
from droptics.linalg.tall import Orthogonal, _by_some_rows, moment_rounding, orthogonal
from droptics.masks import Bernoulli, Block, MaskLaw, Product
from droptics.models import Connections, ReLUNet
from droptics.models.watching import watched
from droptics.papers.droptics_own.penalties.rectified_checks import rectified_in_full
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import coin_masks, descend, normal, sample, tensor, uniform
from droptics.penalties import Enumerate, MonteCarlo, penalty
from droptics.penalties.relu.outcomes import Coins, Stage, outcome_blocks
from droptics.penalties.second_order import Approximation
from droptics.recommenders.alternation import Strengths
from droptics.recommenders.device import Table
from droptics.recommenders.partitioned import _descended, _descent, _direction
from droptics.recommenders.ratings import Compressed
from droptics.recommenders.tiles import padded, solve_upper
from droptics.spectra import Action, action
from droptics.spectra.coordinates import whiten

EPS = torch.finfo(torch.float64).eps


def routes_in_full(scale: float) -> list[Comparison]:
    """Every route of tall matrices, ranks by bits, sums in blocks, decompositions, layers, draws and row systems."""
    return [
        *_tall(scale),
        *_ranks(scale),
        *_sums(scale),
        *_decomposed(scale),
        *_layers(scale),
        *rectified_in_full(scale),
        *_drawn(scale),
        *_systems(scale),
        *_tables(scale),
    ]


def _orthonormal(found: Orthogonal | None, rows: Tensor, name: str, scale: float) -> list[Comparison]:
    """Z A has second moment I, and Z A triangle are the rows."""
    if found is None:
        return [same(found is None, False, f"found, {name}", scale)]
    basis = found.rows @ found.turn
    units = rows.norm(dim=0)
    return [
        compare(basis.mT @ basis / len(rows), "==", scale * torch.eye(basis.shape[1]), f"second moment, {name}"),
        compare(basis @ found.triangle / units, "==", scale * rows / units, f"rows, {name}"),
        compare(found.energies, ">=", 1e-3, f"energies, {name}"),
    ]


def _tall(scale: float) -> list[Comparison]:
    """Regular, nearly dependent, badly scaled and very different rows, by products, by some rows, or by a shift."""
    found: list[Comparison] = []
    X = normal(1, 400, 3)
    near = X.clone()
    near[:, 2] = X[:, 0] + 1e-9 * X[:, 2]
    scaled = near * tensor([1e6, 1.0, 1e-7])
    # the few rows that carry the last direction are not among those that are looked at first
    rare = near.clone()
    rare[:, 2] = X[:, 0]
    rare[1:9:2, 2] += 1e-3
    for name, rows in (("regular", X), ("near", near), ("scaled", scaled), ("rare", rare)):
        moment = gram(rows) / 400
        found += _orthonormal(orthogonal(rows, 1 / 400, moment), rows, name, scale)
    found += _orthonormal(_by_some_rows(near, 1 / 400, near.norm(dim=0) / 20), near, "some rows", scale)
    copies = X.clone()
    copies[:, 2] = X[:, 0]
    found.append(same(_by_some_rows(copies, 1 / 400, torch.ones(3).double()), None, "no pivot"))
    found.append(same(_by_some_rows(rare, 1 / 400, rare.norm(dim=0) / 20), None, "rows that others do not say"))
    wanted = (512 + 4 * 400**0.25) if BLOCK < 400 else 400 + 4 * 400**0.25
    found.append(compare(moment_rounding(X), "==", scale * wanted * EPS / 2 * 3, "rounding of a moment"))
    return found


def _ranks(scale: float) -> list[Comparison]:
    """Equal rows by their bits, those that a weight leaves out, columns that are others times powers of two."""
    found: list[Comparison] = []
    rows = normal(1, 6, 3).numpy()
    for name, given, count in (
        ("all", rows, 6),
        ("repeated", rows[[0, 1, 0, 2, 1, 5]], 4),
        ("one", rows[[3] * 6], 1),
        ("zeros of both signs", np.array([[0.0, 1.0, 2.0], [-0.0, 1.0, 2.0]]), 2),
    ):
        kept = _different(given)
        found.append(same(len(kept), count, f"different, {name}", scale))
        wanted = sorted({row.tobytes() for row in given})
        found.append(same(sorted(row.tobytes() for row in kept), wanted, f"which, {name}"))
    X = (64 * normal(2, 40, 3)).round()  # whole numbers: their sums are exact
    wide = torch.cat([X, 4 * X[:, :1], -0.5 * X[:, 1:2], torch.zeros(40, 1).double(), X[:, :1] + X[:, 1:2]], 1)
    found.append(same(distinct(wide), 4, "distinct columns", scale))
    found.append(same(proved_rank(wide), 3, "proved rank", scale))
    rounded = normal(5, 40, 2)
    rounded = torch.cat([rounded, rounded.sum(1, keepdim=True)], 1)
    found.append(same(proved_rank(rounded), 3, "sums that are rounded prove nothing"))
    few = X[[0, 1] * 20]
    found.append(same((proved_rank(few), proved_rank(X)), (2, 3), "repeated rows"))
    weights = torch.zeros(40).double()
    weights[:2] = 1
    found.append(same(proved_rank(X, weights), 2, "rows of no weight", scale))
    found.append(same(proved_rank(few, None, 2), 2, "enough", scale))
    tiny = X * tensor([1.0, 1e-170, 1.0])
    words = "must have mean squares of at least"
    moment = tiny.mT @ tiny / 40
    found.append(refuses(lambda: check_energies(moment, tiny, None, "inputs"), words, "lost energies"))
    rest = tiny.clone()
    rest[2:, 1] = 1e-170
    rest[:2, 1] = 0.0
    check_energies(moment, rest, weights, "inputs")  # what has no weight may be as small as it likes
    return found


def _sums(scale: float) -> list[Comparison]:
    """Products and squares of many numbers in blocks, narrow or wide, with a derivative or without."""
    found: list[Comparison] = []
    for count, a, b in ((5, 2, 3), (700, 2, 3), (1300, 5, 2), (600, 70, 2), (40, 2, 70), (1100, 3, 3)):
        left, right = normal(count, count, a), normal(count + 1, count, b)
        truth = torch.from_numpy(
            left.numpy().T.astype(np.longdouble).dot(right.numpy().astype(np.longdouble)).astype(float)
        )
        found.append(
            compare(products(left, right), "==", scale * truth, f"products {count}, {a}, {b}", precision=1e-13)
        )
        live = products(left.clone().requires_grad_(), right)
        found.append(compare(live.detach(), "==", scale * truth, f"with a graph {count}, {a}, {b}", precision=1e-13))
        found.append(compare(squares(left), "==", scale * math.fsum((left**2).ravel().tolist()), f"squares {count}"))
    for count in (40, 1100):  # three pairs of matrices at once
        left, right = normal(count, 3, count, 2), normal(count + 1, 3, count, 4)
        singly = [np.einsum("ni,nj->ij", *pair) for pair in zip(left.numpy(), right.numpy(), strict=True)]
        for given in (left, left.clone().requires_grad_()):
            told = products(given, right).detach()
            found.append(compare(told, "==", scale * torch.from_numpy(np.stack(singly)), f"three products of {count}"))
    for count in (300, 1300):
        short = 1e3 + normal(count, count).float()
        wanted = math.fsum(float(value) ** 2 for value in short)
        found.append(compare(squares(short), "==", scale * wanted, f"squares of float32, {count}", precision=1e-13))
    for count, width in ((10, 1), (512, 1), (10000, 1), (10000, 2000), (16, 3)):
        most = min(count, max(512, width)) + 4 * count**0.25
        found.append(compare(summands(count, width), "==", scale * most, f"roundings {count}, {width}"))
    return found


def _decomposed(scale: float) -> list[Comparison]:
    """Maps of factors in white coordinates, thin or square, of huge and tiny columns; envelopes; tied factors."""
    found: list[Comparison] = []
    data = sample(1, 30, 6, 5)
    white = whiten(data)
    for width in (2, 7):
        sizes = 2.0 ** torch.linspace(-40, 40, width).double().round()
        U, V = normal(2, 5, width) * sizes, normal(3, 6, width) / sizes
        first, values, second = white.svd(U, V)
        dense = white.left.down(U) @ white.right.down(V).mT
        found.append(compare((first * values) @ second.mT, "==", scale * dense, f"map of width {width}"))
        found.append(compare(first.mT @ first, "==", scale * torch.eye(len(values)), f"left of width {width}"))
        found.append(compare(second.mT @ second, "==", scale * torch.eye(len(values)), f"right of width {width}"))
        own = torch.linalg.svdvals(dense)[: len(values)]
        found.append(compare(values, "==", scale * own, f"values of width {width}"))
        found.append(compare(white.spectrum(U, V)[: len(values)], "==", scale * own, f"values alone, {width}"))
    rates = tensor([0.1, 0.3, 0.6])
    acting, spectrum = action(Bernoulli(rates, 3)), tensor([2.0, 1.0, 0.5])
    beta = 1 / ((1 - rates) / rates).sum()
    found.append(compare(acting.envelope(spectrum), "==", scale * beta * 3.5**2, "envelope of unequal rates"))
    for spread in ((1.0, 1.0, 1.0), (3.0, 1.0, 0.2), (2.0, 1.9, 0.1)):
        found += _tied_factors(acting, rates, normal(4, 5, 3) * tensor(spread), scale)
    return found


def _tied_factors(acting: Action, rates: Tensor, U: Tensor, scale: float) -> list[Comparison]:
    """Tied factors that are equalized, beside all rotations of them."""
    found: list[Comparison] = []
    turned = acting.equalize_tied(U)
    found.append(compare(turned @ turned.mT, "==", scale * U @ U.mT, "tied factors keep their map"))
    cost = (rates / (1 - rates) * turned.square().sum(0) ** 2).sum()
    odds = rates / (1 - rates)

    def turned_by(square: Tensor) -> Tensor:
        return (odds * (U @ torch.linalg.matrix_exp(square - square.mT)).square().sum(0) ** 2).sum()

    lowest, _ = descend(turned_by, [(3, 3)], starts=3)  # over all rotations
    found.append(compare(cost, "==", scale * lowest, "and cost the least", 1e-7))
    least = acting.value(torch.linalg.svdvals(U).square())
    found.append(compare(least, "==", scale * lowest, "the least by the library", 1e-7))
    return found


class _Passing(nn.Module):
    def forward(self, value: Tensor) -> tuple[Tensor, str]:
        return 3 * value, "more"


class _Stack(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mine, self.part = nn.Tanh(), _Passing()

    def forward(self, value: Tensor) -> Tensor:
        return self.part(self.mine(value))[0]


def _layers(scale: float) -> list[Comparison]:
    """Masks on weights, one for all examples, one each or none; parts that are bypassed, masked or left out."""
    found: list[Comparison] = []
    U, V, X = normal(1, 2, 3), normal(2, 4, 3), normal(3, 5, 4)
    net = Connections(U, V)
    for shape in ((12,), (6, 1, 12), (5, 12), (6, 5, 12)):
        masks = uniform(4, *shape)
        spread = masks.expand(*shape[:-2], 5, 12) if len(shape) > 1 else masks.expand(5, 12)
        wanted = torch.einsum(
            "...ni,...nik,ok->...no", X.expand(*spread.shape[:-2], 5, 4), spread.unflatten(-1, (4, 3)) * V, U
        )
        found.append(compare(net.outputs(X, masks), "==", scale * wanted, f"masked weights {shape}"))
    found.append(compare(net.outputs(X), "==", scale * X @ V @ U.mT, "no masks"))
    small, rates = Connections(U, V[:2]), tensor([0.1, 0.5, 0.3, 0.7, 0.2, 0.4])
    added = torch.zeros(()).double()
    for coins, chance in coin_masks(rates.tolist()):
        moved = X[:, :2] @ ((coins / (1 - rates) - 1).reshape(2, 3) * V[:2]) @ U.mT
        added += chance * moved.square().sum(1).mean()
    told = penalty(small, Sample(X[:, :2], U[:, 0].expand(5, 2)), Bernoulli(rates, 6))
    found.append(compare(told, "==", scale * added, "penalty of masked weights, a rate for each"))
    words = "multipliers"
    relu = ReLUNet([normal(5, 3, 2), normal(6, 2, 3)])
    found.append(refuses(lambda: relu.outputs(X[:, :2], torch.ones(4).double()), words))
    module, inputs = _Stack(), normal(7, 3, 2)
    for wanted_rate, value in ((0.0, inputs), (None, torch.tanh(inputs)), (0.5, torch.tanh(inputs))):
        told, _ = watched(module, lambda: module(inputs), lambda *_, w=wanted_rate: w, layers={"mine": 0.5})
        found.append(compare(told, "==", scale * 3 * value, f"a layer of its own at {wanted_rate}"))
    doubled, _ = watched(
        module, lambda: module(inputs), lambda *_: lambda x: 2 * torch.ones_like(x), layers={"mine": 0.5}
    )
    found.append(compare(doubled, "==", scale * 6 * inputs, "under a given mask"))
    for left_out, factor in ((True, 1.0), (False, 3.0)):
        told, _ = watched(
            module,
            lambda: module(inputs),
            lambda *_, o=left_out: lambda x: x if o else None,
            skips={"part": 0.5},
        )
        found.append(compare(told, "==", scale * factor * torch.tanh(inputs), f"left out {left_out}"))
        (_, *more), _ = watched(
            module, lambda: module.part(inputs), lambda *_, o=left_out: lambda x: x if o else None, skips={"part": 0.5}
        )
        found.append(same(more, ["more"], f"what else it returns, left out {left_out}"))
    query, key, value = normal(1, 1, 3, 2), normal(2, 1, 4, 2), normal(3, 1, 4, 2)
    attend = nn.functional.scaled_dot_product_attention
    truth = attend(query, key, value)
    holder = nn.Identity()
    for call in (
        lambda: attend(query, key, value, None, 0.5),
        lambda: attend(query, key, value, dropout_p=0.5),
        lambda: attend(query, key, value, None, 0.5, False),
    ):
        told, trace = watched(holder, call, lambda *_: 0.0)
        found.append(compare(told, "==", scale * truth, "attention switched off"))
        found.append(same([(c.rate, c.applied) for c in trace.calls], [(0.5, False)], "its rate"))
    return found


def _drawn(scale: float) -> list[Comparison]:
    """Second orders with their check in words, outcomes in blocks of any size, drawn penalties of networks."""
    found: list[Comparison] = []
    reference = Estimate(tensor(2.0), tensor(1.5), tensor(2.7), "drawn", 7, 0.99)
    told = Approximation(tensor(2.5), "exact", 3).checked(reference)
    words = "second order (exact); Monte Carlo says 2 +- 0.6, so its error is +0.5 = +25.0%"
    found.append(same((told.method, told.cost, float(told.lower)), (words, 10, 1.5), "second order, checked"))
    plain = Approximation(tensor(2.5), "exact", 3).unchecked()
    found.append(same((plain.method, plain.confidence), ("second order (exact), error not measured", 0.0), "not"))
    states = tensor([[1.0, 2.0, 0.0], [0.5, 0.0, 1.0], [1.0, 1.0, 1.0], [2.0, 0.0, 3.0]])
    weight, bias = normal(1, 2, 3), normal(2, 2)
    stages = {
        "coins": Stage(Coins(np.array([1, 2, 1]), np.array([0.3, 0.5, 0.0])), weight, bias),
        "blocks": Stage(Block(0.4, 3, 3), weight, bias),
        "units": Stage(Bernoulli(tensor([0.1, 0.2, 0.05]), 3), weight, bias),
    }
    noises = {
        # variances of the sum of one coin, of two, and of none that falls; one coin for a whole block; one for each
        "coins": torch.diag(tensor([3 / 7, 2.0, 0.0])),
        "blocks": tensor([[2 / 3] * 3] * 3),
        "units": torch.diag(tensor([1 / 9, 1 / 4, 1 / 19])),
    }
    for (name, stage), room in itertools.product(stages.items(), (1, 2, 3, 100)):
        sums, chances, largest = torch.zeros(4, 2).double(), torch.zeros(4).double(), 0
        products_of = torch.zeros(4, 2, 2).double()
        for block in outcome_blocks(stage, states, room):
            values = block.values(stage, states)
            grid = values.reshape(len(block.states), len(block.chances), 2)
            sums[block.states] += torch.einsum("sou,o->su", grid, block.chances)
            products_of[block.states] += torch.einsum("sou,sov,o->suv", grid, grid, block.chances)
            chances[block.states] += block.chances.sum()
            largest = max(largest, len(block.states) * len(block.chances))
        counts = tensor([1.0, 2.0, 1.0]) if name == "coins" else torch.ones(3).double()
        found.append(compare(sums, "==", scale * ((states * counts) @ weight.mT + bias), f"mean of {name} by {room}"))
        moved = states[:, None] * weight
        centers = (states * counts) @ weight.mT + bias
        second = moved @ noises[name] @ moved.mT + centers[:, :, None] * centers[:, None]
        found.append(compare(products_of, "==", scale * second, f"second moments of {name} by {room}"))
        found.append(compare(chances, "==", scale, f"chances of {name} by {room}"))
        found.append(compare(largest, "<=", max(room, 2), f"no block is larger, {name}, {room}"))
    net = ReLUNet([normal(3, 3, 2), normal(4, 2, 3), normal(5, 1, 2)])
    data = sample(6, 5, 2, 1)
    law = _product((2, 3, 2), (0.2, 0.4, 0.3))
    truth = float(penalty(net, data, law, Enumerate()).value)
    found.append(compare(truth, "==", scale * _added(net, data), "what masks add to a network"))
    for samples in (40, 400):
        drawn = penalty(net, data, law, MonteCarlo(samples))
        found.append(same("last layer integrated" in drawn.method, True, f"how, {samples}"))
        found.append(compare(drawn.lower, "<=", scale * truth, f"from below, {samples}"))
        found.append(compare(drawn.upper, ">=", truth / scale**9, f"from above, {samples}"))
    found.append(compare(float(drawn.upper - drawn.lower), "<=", truth, "narrow"))
    return found


def _added(net: ReLUNet, data: Sample) -> float:
    """What masks on inputs and on both hidden layers add to the mean squared error, mask by mask."""
    total, rates = 0.0, [0.2] * 2 + [0.4] * 3 + [0.3] * 2
    clean = [(torch.ones(7).double() * (1 - tensor(rates)), -1.0)]
    for kept, chance in itertools.chain(coin_masks(rates), clean):
        z = kept / (1 - tensor(rates))
        hidden = torch.relu((data.inputs * z[:2]) @ net.weights[0].mT)
        hidden = torch.relu((hidden * z[2:5]) @ net.weights[1].mT)
        outputs = (hidden * z[5:]) @ net.weights[2].mT
        total += chance * float((outputs - data.targets).square().sum(1).mean())
    return total


def _product(sizes: tuple[int, ...], rates: tuple[float, ...]) -> MaskLaw:
    return Product([Bernoulli(rate, size) for size, rate in zip(sizes, rates, strict=True)])


def _systems(scale: float) -> list[Comparison]:
    """Conjugate gradients for all rows at once beside dense systems, and triangular solves of every width."""
    found: list[Comparison] = []
    rows, width = 4, 3
    designs = [normal(k, n, width).numpy() for k, n in enumerate((5, 7, 0, 4))]
    values = [normal(k + 9, len(design)).numpy() for k, design in enumerate(designs)]
    counts = np.array([len(design) for design in designs], float)
    diagonals = np.array([[0.3] * 3, [0.1, 0.2, 0.3], [0.5] * 3])
    start = 0.1 * normal(20, rows, width).numpy()
    begun = start * (counts > 0)[:, None]  # rows without ratings become zero
    scales = np.stack([(design**2).sum(0) for design in designs])
    rest = np.stack([design.T @ (value - design @ x) for design, value, x in zip(designs, values, start, strict=True)])
    value = sum(float(((v - d @ x) ** 2).sum()) for d, v, x in zip(designs, values, start, strict=True))
    state = _descent((rest, scales, value), start, counts, diagonals)
    penalties = diagonals[0] * scales + counts[:, None] * diagonals[1] + diagonals[2]
    found.append(compare(state.d, "==", scale * penalties, "penalties of rows"))
    found.append(compare(state.weight, "==", scale / (scales + penalties), "preconditioner"))
    found.append(compare(state.value, "==", scale * (value + (penalties * begun**2).sum()), "where it begins"))
    found.append(compare(state.x, "==", scale * begun, "rows that begin"))
    for _ in range(width):
        direction = _direction(state)
        image = np.stack([design.T @ (design @ p) for design, p in zip(designs, direction, strict=True)])
        state = _descended(state, direction, (image,))
    for k, design in enumerate(designs):
        if len(design):
            dense = np.linalg.solve(design.T @ design + np.diag(penalties[k]), design.T @ values[k])
            found.append(compare(state.x[k], "==", scale * dense, f"row {k}", precision=1e-8))
    least = sum(
        float(((v - d @ x) ** 2).sum() + (p * x * x).sum())
        for d, v, x, p in zip(designs, values, state.x, penalties, strict=True)
    )
    found.append(compare(state.value, "==", scale * least, "value reached", precision=1e-8))
    for size in (1, 3, 8, 9, 20):
        factor = normal(size, size + 2, size).numpy()
        full = factor.T @ factor
        a = np.zeros((padded(size), padded(size)))
        a[:size, :size] = np.triu(full)
        x = normal(size + 1, size).numpy()
        wanted = np.linalg.solve(full, x)
        solve_upper(a, x, 0.0, np.empty(len(a)))
        found.append(compare(x, "==", scale * wanted, f"triangular solve of {size}", precision=1e-7))
    a = np.zeros((8, 8))
    a[:3, :3] = np.triu(np.outer([1.0, 2.0, 0.0], [1.0, 2.0, 0.0]))
    x = np.array([3.0, 6.0, 0.0])
    solve_upper(a, x, 0.0, np.empty(len(a)))
    found.append(compare(x[0] + 2 * x[1], "==", scale * 3.0, "free directions stay zero"))
    return found


def _tables(scale: float) -> list[Comparison]:
    """Strengths of rows and columns, and rows of similar length side by side with their padding."""
    found: list[Comparison] = []
    strengths = Strengths(3, empirical=0.2, expected=0.7, weighted=0.05, ridge=0.4, bias=1.5, smoothing=0.25)
    level = tensor([1.0, 2.0, 3.0, 9.0]).numpy()
    into = strengths.diagonals(level, 4.0, 1.0, np.zeros((4, 8)))
    found.append(compare(into[0], "==", [scale * v for v in (0.2, 0.2, 0.2, 0, 0, 0, 0, 0)], "by squares"))
    own = [0.7 * 0.75 * v + 0.05 for v in (1, 2, 3)]
    found.append(compare(into[1], "==", [scale * v for v in (*own, 0, 0, 0, 0, 0)], "by ratings"))
    more = [0.7 * 0.25 * 4 * v + 0.4 for v in (1, 2, 3)]
    found.append(compare(into[2], "==", [scale * v for v in (*more, 1.5, 0, 0, 0, 0)], "by rows"))
    last = Strengths(3, expected=0.7, bias=1.5).diagonals(level, 4.0, np.arange(8.0), np.zeros((4, 8)))[3]
    found.append(compare(last, "==", [scale * v for v in (0, 1, 2, 1, 4, 5, 6, 7)], "mean squares"))
    plain, weighted = tensor([1.0, 2.0, 3.0]).numpy(), tensor([4.0, 5.0, 6.0]).numpy()
    found.append(
        compare(strengths.level(plain, weighted, 10.0, 5), "==", scale * (0.075 * weighted + 0.05 * plain), "level")
    )
    found.append(same((strengths.columns, Strengths(7).columns, Strengths(8).columns), (8, 8, 16), "lanes"))
    half = strengths.scaled(2.0)
    found.append(same((half.weighted, half.ridge, half.expected), (0.025, 0.2, 0.7), "other units"))
    squares_of = tensor([1.0, 2.0, 3.0, 4.0]).numpy()
    found.append(
        compare(strengths.own(squares_of, 2 * squares_of), "==", scale * (0.4 * 6 + 0.05 * 12 + 1.5 * 4), "own")
    )
    pairs = [(np.arange(n) * 2 % 11, 1.0 + np.arange(n)) for n in (3, 0, 9, 4, 1, 9)]
    table = Compressed.of(pairs, np.dtype(np.float64))
    for memory in (1 << 14, 1 << 30):
        buckets = Table(table, torch.device("cpu"), memory).buckets
        seen = []
        for bucket in itertools.chain.from_iterable(buckets.full):
            for row, columns, values, count in zip(
                bucket.rows, bucket.columns, bucket.values, bucket.counts, strict=True
            ):
                real = columns > 0
                kept = pairs[int(row)]
                agrees = columns[real].tolist() == (kept[0] + 1).tolist() and values[real].tolist() == kept[1].tolist()
                seen.append((int(row), agrees, int(count) == len(kept[0]), float(values[~real].abs().sum())))
        found.append(same(sorted(seen), [(row, True, True, 0.0) for row in (0, 2, 3, 4, 5)], f"rows, {memory}"))
        found.append(same(buckets.empty.tolist(), [1], "rows without ratings"))
    return found
