"""What a claim on spectra, linear algebra and criteria compares: shares, signs, cutoffs, routes, units and energies."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor, nn

from droptics.attacks import affine_map
from droptics.data import Entries, Measurements, Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.landscapes.units import in_own_units
from droptics.linalg import equalize_columns, k_support_shrink
from droptics.linalg.gram import _by_panels, triangular
from droptics.linalg.leading import leading_eigen
from droptics.linalg.scales import is_diagonal, scaled_eigen
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw
from droptics.models import Autoencoder, DeepLinear, LastLayer, TwoLayerLinear
from droptics.norms import k_support
from droptics.optima.allocations import water_fill
from droptics.optima.objectives import energy, objective, own_rounding, precise
from droptics.optima.optimum import Optimum
from droptics.optima.stationary import alternate
from droptics.optima.two_layer import _value_of_many, value_of_factors
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.linalg.inverse_iteration_checks import inverse_iteration
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import moments, normal, sample, simplex, tensor, uniform
from droptics.penalties import criterion
from droptics.spectra import Action, action
from droptics.spectra.any_law import AnyLaw
from droptics.spectra.blocks import support_start
from droptics.spectra.decomposition import _elsewhere, _on_cpu, least_of

# Units of a block, blocks, and spectra that so many of them share evenly.
BALANCED = (
    (2, 4, (4.0, 1.0, 0.9, 0.8)),
    (3, 8, (3.0, 2.0, 1.0, 0.9, 0.8)),
    (3, 4, (5.0, 1.0, 0.9, 0.8, 0.7)),
    (2, 3, (2.0, 1.0)),
)


def algebra_in_full(scale: float) -> list[Comparison]:
    """Actions of laws, blocks and mixtures, both routes of a decomposition, rotations, proximal maps, criteria."""
    return by_parts(
        (
            _actions,
            _blocks,
            _mixture,
            _routes,
            _turned,
            _eigen,
            inverse_iteration,
            _support,
            _criteria,
            _stationary,
            _units,
            _affine,
        ),
        scale,
    )


def _actions(scale: float) -> list[Comparison]:
    """What every law says of itself, and from which value on it keeps nothing more."""
    found: list[Comparison] = []
    rates = tensor([0.1, 0.3, 0.6, 0.5])
    odds = rates / (1 - rates)
    one, several, blocks = (
        action(law) for law in (Bernoulli(0.4, 3), Bernoulli(rates, 4), Block(tensor([0.2, 0.5]), 6, 3))
    )
    wanted = (
        (one, 3, 2 / 9, 2 / 3),
        (several, 4, float(1 / (1 / odds).sum()), float(odds.min())),
        (blocks, 6, 1 / (4 + 1) / 3, None),
    )
    for given, size, nuclear, least in wanted:
        found.append(compare(given.size, "==", scale * size, f"units, {given.claim}"))
        found.append(compare(given.nuclear, "==", scale * nuclear, f"nuclear, {given.claim}"))
        if least is not None:
            found.append(compare(given.least_rate, "==", scale * least, f"least rate, {given.claim}"))
    for values in (tensor([3.0, 2.0, 1.0, 0.2]), tensor([5.0, 0.1]), tensor([4.0, 3.9, 3.8, 3.7, 3.6]), tensor([1.0])):
        kept = several.shrink(values)[0]
        kept = kept[kept > 0]
        level = several.cutoff(values, kept)
        lowest = float(values[len(kept) - 1])
        taken = lowest * (1 - 1e-6) if len(kept) == 4 else (lowest - float(kept[-1])) * (1 - 1e-9)
        found.append(compare(level, "==", scale * min(lowest, taken), f"cutoff after {len(kept)} of {len(values)}"))
    empty = several.cutoff(tensor([2.5, 1.0]), tensor([]))
    found.append(compare(empty, "==", scale * 2.5, "nothing is kept"))
    found.append(same(several.tied is several, True, "tied networks have the same shares"))
    tied = one.tied
    found.append(same((tied.claim, tied.size), ("mianjy2018-thm2.4", 3), "tied, one rate"))
    found.append(compare(one.one_rate, "==", scale * 2 / 3, "the rate"))
    noise = action(Gaussian(0.5, 3))
    found.append(compare(noise.envelope(tensor([2.0, 1.0])), "==", scale * noise.one_rate / 3 * 9, "normal noise"))
    return found


def _blocks(scale: float) -> list[Comparison]:
    """Balanced blocks attain the norm of every spectrum; where its tail begins, by trying all of them."""
    found: list[Comparison] = []
    for block, values in itertools.product((1, 2, 3), ((4.0, 1.0, 0.9, 0.8, 0.7), (2.0, 2.0, 1.0), (5.0, 0.5), (1.0,))):
        spectrum = tensor(values)
        size = max(len(values), block)
        padded = torch.cat([spectrum, torch.zeros(size - len(values)).double()])
        starts = [
            r
            for r in range(block)
            if (r == 0 or float(padded[r - 1]) >= float(padded[r:].sum()) / (block - r))
            and float(padded[r]) < float(padded[r + 1 :].sum()) / (block - r - 1 or math.inf)
        ]
        wanted = starts[0] if starts else block - 1
        found.append(same(support_start(spectrum, block), wanted, f"tail of {values} at {block}", scale))
    for block, blocks, values in BALANCED:
        left, right = (torch.linalg.qr(normal(k, 6, len(values))).Q for k in (1, 2))
        spectrum, least = tensor(values), 2 / 3 / blocks * k_support(tensor(values), block) ** 2
        for drop in (0.4, torch.full((blocks,), 0.4, dtype=torch.float64)):
            law, name = Block(drop, block * blocks, block), f"{blocks} of {block}, {type(drop).__name__}"
            acting = action(law)
            U, H = acting.spread(left, spectrum, right)
            found.append(compare(U @ H.mT, "==", scale * (left * spectrum) @ right.mT, f"product, {name}"))
            cost = (law.characteristic * (U.mT @ U) * (H.mT @ H)).sum()
            found.append(compare(cost, "==", scale * least, f"penalty, {name}"))
            told = [acting.envelope(spectrum), acting.value(spectrum)] if blocks > 3 else [acting.envelope(spectrum)]
            found.append(compare(torch.stack(told), "==", scale * least, f"norm, {name}"))
    uneven = action(Block(tensor([0.4, 0.4, 0.4, 0.5]), 8, 2))
    found.append(refuses(lambda: uneven.value(spectrum), "unequal rates"))
    found.append(refuses(lambda: uneven.spread(left, spectrum, right), "no balanced factors"))
    whole = 1 / (3 * 1.5 + 1.0) * k_support(spectrum, 2) ** 2
    found.append(compare(uneven.envelope(spectrum), "==", scale * whole, "norm of unequal blocks"))
    half = torch.full((4,), 0.5, dtype=torch.float64)
    kinds: tuple[tuple[MaskLaw, str], ...] = (
        (Bernoulli(half, 4), "mianjy2018-thm3.6"),
        (Gaussian(half, 4), "mianjy2018-thm3.6"),
        (Block(half, 4, 1), "mianjy2018-thm3.6"),
        (Bernoulli(tensor([0.5, 0.5, 0.4, 0.5]), 4), "droptics-unequal-rates"),
        (Bernoulli(tensor([0.5, 0.5, 0.5 + 1e-9, 0.5]), 4), "droptics-unequal-rates"),
        (Block(tensor([0.5, 0.5, 0.4, 0.5]), 4, 1), "droptics-unequal-rates"),
        (Block(half, 8, 2), "pal2020-thm2.6"),
        (Discrete(torch.eye(4).double() + 1, half / 2), "droptics-mask-bounds"),
    )
    for kind, claim in kinds:
        found.append(same(action(kind).claim, claim, f"its claim, {type(kind).__name__}", scale))
    return found


def _mixture(scale: float) -> list[Comparison]:
    """Of 21 mixtures of two bounds the one with the largest least value, which need not move the values most."""
    found: list[Comparison] = []
    law = Discrete(tensor([[1.0, 0, 2], [0, 1, 1], [2, 1, 0]]), tensor([0.2, 0.3, 0.5]))
    cases = ((1, 0.5, 0.2), (2, 0.1, 0.6), (3, 2.0, 0.05), (4, 0.0, 0.3), (None, 0.615, 0.3), (None, 2.2, 1.1))
    for seed, plain, nuclear in cases:
        acting = AnyLaw(law)
        acting.__dict__["_strengths"] = (plain, nuclear)  # what it holds once it is known
        values = tensor([2.5, 1.5, 0.5]) if seed is None else uniform(seed, 3).sort(descending=True).values * 3
        least = []
        for w in range(21):
            # ||v - x||^2 + p ||x||^2 + q (sum x)^2 over x >= 0, as least squares
            p, q = (1 - w / 20) * plain, w / 20 * nuclear
            rows = np.vstack([np.eye(3), math.sqrt(p) * np.eye(3), np.full((1, 3), math.sqrt(q))])
            least.append(nnls(rows, np.concatenate([values.numpy(), np.zeros(4)]))[1] ** 2)
        best = max(least)
        if seed is None:
            found.append(compare(best, ">", max(least[0], least[-1]), f"both bounds count, {plain}", precision=1e-6))
        kept, cost = acting.shrink(values)
        rest = torch.cat([kept, torch.zeros(3 - len(kept)).double()])
        found.append(compare(float((values - rest).square().sum()) + cost, "==", scale * best, f"mixture {seed}"))
    return found


def _routes(scale: float) -> list[Comparison]:
    """Two routes of a shrunk decomposition, through Gram matrices and through an SVD, wide and tall."""
    found: list[Comparison] = []
    for name, tall, law in (
        ("few of many", normal(1, 9, 5), Bernoulli(0.3, 3)),
        ("all", normal(2, 6, 3), Bernoulli(0.2, 5)),
        (
            "tiny values",
            torch.diag(tensor([1.0, 1e-5, 1e-6]))[:, :3] @ torch.linalg.qr(normal(3, 3, 3)).Q,
            Bernoulli(0.0, 3),
        ),
        ("unequal", normal(4, 7, 4), Bernoulli(tensor([0.1, 0.4, 0.6]), 3)),
        ("nothing", torch.zeros(4, 2).double(), Bernoulli(0.3, 2)),
    ):
        acting: Action = action(law)
        P, s, Qh = torch.linalg.svd(tall, full_matrices=False)
        shrunk, cost = acting.shrink(s[: acting.size])
        rank = int((shrunk > 1e-12).sum())
        truth = (P[:, :rank] * shrunk[:rank]) @ Qh[:rank]
        least = float((tall - truth).square().sum()) + cost
        for route in (_elsewhere, _on_cpu):
            told = route(tall, acting)
            product = (told.left * told.values) @ told.right.mT
            found.append(compare(product, "==", scale * truth, f"{name}, {route.__name__}", precision=1e-8))
            found.append(compare(told.least, "==", scale * least, f"least, {name}, {route.__name__}", precision=1e-8))
            if rank:
                for side, columns in (("left", told.left), ("right", told.right)):
                    found.append(compare(columns.mT @ columns, "==", scale * torch.eye(rank), f"{side}, {name}"))
                found.append(compare(told.values, "==", scale * shrunk[:rank], f"its values, {name}", precision=1e-8))
            found.append(same(len(told.values), rank, f"how many, {name}"))
        found.append(compare(least_of(tall.mT, acting), "==", scale * least, f"least alone, {name}", precision=1e-8))
    return found


def _turned(scale: float) -> list[Comparison]:
    """Companions turn with the factor where derivatives are wanted, in batches and without; panels of a product."""
    found: list[Comparison] = []
    U, V, W = normal(1, 2, 4, 3), normal(2, 2, 5, 3), normal(3, 2, 1, 3)
    for name, factor in (("plain", U), ("derivative", U.clone().requires_grad_())):
        turned = [part.detach() for part in equalize_columns(factor, V, W)]
        found.append(compare(turned[0].square().sum(-2), "==", scale * U.square().sum((-2, -1))[:, None] / 3, name))
        for one, two, first, second in ((0, 1, U, V), (0, 2, U, W), (1, 2, V, W), (1, 1, V, V)):
            found.append(compare(turned[one] @ turned[two].mT, "==", scale * first @ second.mT, f"{one}{two}, {name}"))
    for columns in (3, 17):
        rows = normal(columns, 6, columns)
        found.append(compare(_by_panels(rows), "==", scale * rows.mT @ rows, f"panels of {columns}"))
    for count in (3, 40, 333):
        rows, targets = normal(count, count, 4), normal(count + 1, count, 2)
        few, loads, beyond = triangular(rows, targets)
        found.append(compare(few.mT @ few, "==", scale * rows.mT @ rows, f"same product, {count} rows"))
        found.append(compare(few.mT @ loads, "==", scale * rows.mT @ targets, f"same targets, {count} rows"))
        wanted = targets.square().sum() - loads.square().sum()
        found.append(compare(beyond, "==", scale * wanted, f"energy beyond, {count} rows", precision=1e-11))
        found.append(compare(few.shape[0], "<=", max(4, min(count, 4)), f"few rows, {count}"))
    return found


def _eigen(scale: float) -> list[Comparison]:
    """Leading eigenvectors by inverse iteration where all is regular, repeated, tiny or zero; scaled moments."""
    found: list[Comparison] = []
    basis = torch.linalg.qr(normal(1, 40, 40)).Q.numpy()
    spectra = {
        "spread": np.linspace(5, 0.1, 40),
        "repeated": np.repeat([4.0, 3.0, 1.0, 0.5], 10),
        "both signs": np.linspace(3, -6, 40),
        "powers": 0.5 ** np.arange(40),
    }
    for name, values in spectra.items():
        for factor in (1.0, 1e-160, 1e150):
            matrix = factor * (basis * values) @ basis.T
            matrix = (matrix + matrix.T) / 2
            told, vectors = leading_eigen(matrix, 6)
            found.append(compare(told / factor, "==", scale * np.sort(values)[::-1][:6], f"values, {name}, {factor}"))
            found.append(compare(vectors.T @ vectors, "==", scale * np.eye(6), f"orthonormal, {name}", precision=1e-13))
            rest = (matrix @ vectors - vectors * told) / factor
            found.append(compare(np.abs(rest).max(), "<=", 1e-13, f"residual, {name}, {factor}"))
    # pivots that tie with what is below them, a chain of equal entries, and nothing at all
    chain = np.diag(np.ones(35), 1) + np.diag(np.ones(35), -1)
    cosines = 2 * np.cos(np.pi * np.arange(1, 37) / 37)
    for name, matrix, wanted in (
        ("chain", chain, cosines[:5]),
        ("chain and ones", chain + np.eye(36), cosines[:5] + 1),
        ("zero", np.zeros((36, 36)), np.zeros(5)),
    ):
        told, vectors = leading_eigen(matrix, 5)
        found.append(compare(told, "==", scale * wanted + (scale - 1), f"values, {name}"))
        found.append(compare(np.abs(matrix @ vectors - vectors * told).max(), "<=", 1e-13, f"residual, {name}"))
        found.append(compare(vectors.T @ vectors, "==", scale * np.eye(5), f"orthonormal, {name}", precision=1e-13))
    for size in (3, 80):
        units = 2.0 ** torch.arange(-(size // 2), size - size // 2).double().clamp(-30, 30)
        moment = moments(2, 2, size).xx * units * units[:, None]
        energies, basis_of, sizes = (torch.as_tensor(part) for part in scaled_eigen(moment))
        back = (basis_of * energies) @ basis_of.mT * sizes * sizes[:, None]
        found.append(compare(back / units / units[:, None], "==", scale * moments(2, 2, size).xx, f"scaled, {size}"))
        found.append(same(is_diagonal(moment), False, "not diagonal"))
    found.append(same(is_diagonal(torch.diag(tensor([1.0, 0.0, 2.0]))), True, "diagonal"))
    return found


def _support(scale: float) -> list[Comparison]:
    """Proximal maps of squared k-support norms by all ways to call values full, free and zero, of either sign."""
    found: list[Comparison] = []
    for seed, beta, k in itertools.product(range(3), (0.0, 0.3, 2.0), (1, 2, 4)):
        values = torch.cat([normal(seed, 5) * tensor([3.0, 1.0, 1.0, 0.3, 0.1]), torch.zeros(seed % 2).double()])
        values = values[values.abs().argsort(descending=True)]
        told = k_support_shrink(values, beta, k)
        if beta == 0:
            found.append(compare(told, "==", scale * values, f"no strength, {seed}, {k}"))
            continue
        # optimal: (v - x) / beta is a subgradient of half the squared norm, <g, x> = ||x||^2, dual norm at most ||x||
        slope, norm = (values - told) / beta, float(k_support(told.abs(), k))
        dual = float(slope.abs().sort(descending=True).values[:k].square().sum().sqrt())
        found.append(compare(slope @ told, "==", scale * norm**2, f"along, {seed}, {beta}, {k}"))
        found.append(compare(dual, "==", scale * norm, f"dual, {seed}, {beta}, {k}"))
    tiny = tensor([1.0, 1e-20])
    found.append(compare(k_support_shrink(tiny, 0.0, 1) / tiny, "==", scale, "no strength, one value beside nothing"))
    for strength, roots in ((0.0, [3.0, 2.0, 1.0]), (0.4, [3.0, 2.0, 1.0]), (5.0, [3.0, 2.9, 0.1])):
        row = np.array([roots, roots[::-1]])
        row = -np.sort(-row, axis=-1)
        for shares, given in zip(water_fill(row, strength), row, strict=True):
            slope = given**2 * strength / (shares + strength) ** 2 if strength else given
            alive = shares > 0
            found.append(compare(shares.sum(), "==", scale, f"shares, {strength}"))
            if strength:
                found.append(compare(slope[alive], "==", scale * slope[alive].mean(), f"one price, {strength}"))
                found.append(compare(slope[~alive].max(initial=0.0), "<=", slope[alive].mean(), f"no more, {strength}"))
            else:
                found.append(compare(shares, "==", scale * given / given.sum(), "by their roots"))
    return found


def _criteria(scale: float) -> list[Comparison]:
    """Criteria of given weights by examples, in every family and precision; energies, rounding, reasons."""
    found: list[Comparison] = []
    X, Y, weights = normal(1, 9, 3), normal(2, 9, 2), simplex(3, 9)
    for given, shares in ((None, torch.full((9,), 1 / 9, dtype=torch.float64)), (4 * weights, weights)):
        data = Sample(X, Y, given)
        found.append(compare(energy(data), "==", scale * shares @ Y.square().sum(1), f"energy, {given is None}"))
        flat = Sample(X, Y[:, 0], given)
        found.append(compare(energy(flat), "==", scale * shares @ Y[:, 0].square(), f"energy of one, {given is None}"))
        two, law = TwoLayerLinear(normal(4, 2, 3), normal(5, 3, 3)), Bernoulli(tensor([0.1, 0.4, 0.6]), 3)
        deep = DeepLinear([normal(6, 3, 3), normal(7, 2, 3)])
        body = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 2))
        with torch.no_grad():
            for number, part in enumerate(body.parameters()):
                part.copy_(normal(number + 8, *part.shape))
        head = LastLayer.of(body, "2")
        for name, model, hidden, last, bias in (
            ("two layers", two, X @ two.V, two.U, torch.zeros(2).double()),
            ("deep", deep, X @ deep.weights[0].mT, deep.weights[1], torch.zeros(2).double()),
        ):
            wanted = shares @ (Y - hidden @ last.mT - bias).square().sum(1)
            added = (law.relative_variance * last.square().sum(0) * (shares @ hidden.square())).sum()
            found.append(
                compare(objective(model, data, law), "==", scale * (wanted + added), f"{name}, {given is None}")
            )
        single = Sample(X.float(), Y.float(), None if given is None else given.float())
        exact, sharp = precise(head, single)
        assert isinstance(exact, LastLayer)
        assert isinstance(sharp, Sample)
        features = body[:2](X.float()).double()
        found.append(compare(sharp.inputs, "==", scale * features.detach(), f"features, {given is None}"))
        found.append(same((sharp.targets.dtype, exact.dtype), (torch.float64,) * 2, "in float64"))
        found.append(same(sharp.weights is None, given is None, "weights stay"))
        found.append(compare(sharp.shares, "==", scale * single.to(torch.float64).shares, "and count"))
        top = body[2]
        assert isinstance(top, nn.Linear)
        rest = Y.float().double() - features @ top.weight.double().mT - top.bias.double()
        shown = sharp.shares @ rest.square().sum(1)
        added = (law.relative_variance * top.weight.double().square().sum(0) * (sharp.shares @ features.square())).sum()
        found.append(
            compare(objective(head, single, law), "==", scale * (shown + added).detach(), f"head, {given is None}")
        )
        again, unchanged = precise(two, data)
        found.append(same((type(again), type(unchanged)), (TwoLayerLinear, Sample), "other models as they are"))
    return [*found, *_known(scale), *_reasons(scale)]


def _known(scale: float) -> list[Comparison]:
    """Energies, rounding and criteria of what is no sample."""
    found: list[Comparison] = []
    known = moments(3, 2, 3)
    found.append(compare(energy(known), "==", scale * known.yy.trace(), "energy of moments"))
    entries = Entries(torch.tensor([0, 1]), torch.tensor([1, 0]), tensor([2.0, -1.0]), (2, 2))
    found.append(compare(energy(entries), "==", scale * 2.5, "energy of entries"))
    measured = Measurements(normal(1, 3, 2, 2), tensor([1.0, 2.0, 2.0]))
    found.append(compare(energy(measured), "==", scale * 3.0, "energy of measurements"))
    rough = Moments(known.xx, known.yx, known.yy, 1.0, 1e-4)
    W = DeepLinear([normal(6, 3, 3), normal(7, 2, 3)])
    sizes = W.matrix().abs() @ known.xx.diagonal().sqrt() + known.yy.diagonal().sqrt()
    found.append(compare(own_rounding(W, rough), "==", scale * 1e-4 * sizes.square().sum(), "rounding of moments"))
    found.append(same(own_rounding(W, sample(1, 4, 3, 2)), 0.0, "of a sample none", scale))
    U, V, law = normal(1, 2, 4), normal(2, 3, 4), Block(0.3, 4, 2)
    for moment in (known.xx, None):
        second = torch.eye(3, dtype=torch.float64) if moment is None else moment
        product = U @ V.mT
        wanted = 7.0 - 2 * (known.yx * product).sum() + (product @ second * product).sum()
        wanted = wanted + (law.characteristic * (U.mT @ U) * (V.mT @ second @ V)).sum()
        for route in (value_of_factors, _value_of_many):
            told = route(U, V, known.yx, moment, 7.0, law)
            found.append(compare(told, "==", scale * wanted, f"by moments, {route.__name__}"))
    return found


def _reasons(scale: float) -> list[Comparison]:
    """Why an optimum is not certified: below its bound, open by rounding, searched, or not attained."""
    model = TwoLayerLinear(normal(1, 2, 2), normal(2, 3, 2))
    found: list[Comparison] = []
    for value, bound, method, slack, words in (
        (1.0, 1.0, "closed form", 0.0, None),
        (1.0, 1.5, "closed form", 0.0, "bound"),
        (1.0, 0.9, "closed form", 0.2, "rounding of the data leaves 0.2 of the bound open"),
        (1.0, 0.5, "a search", 0.0, "found by a search (a search), and nothing may attain the bound"),
        (1.0, 0.5, "closed form", 0.0, "the bound is not attained by factors of this width in float64"),
    ):
        told = Optimum(model, value, bound, 2, "x", method=method, slack=slack)
        found.append(same((words in told.reason) if words and told.reason else told.reason, words and True, f"{words}"))
        state = "certified" if words is None else f"not certified, bound {bound:.6g}: {told.reason}"
        line = f"Optimum(TwoLayerLinear of rank 2, objective 1, {state})"
        found.append(same(repr(told), line, f"in words, {words}"))
    return found


def _stationary(scale: float) -> list[Comparison]:
    """Alternation ends where no factor can move, says its rank, and leaves directions at rounding level out."""
    found: list[Comparison] = []
    law: MaskLaw = Discrete(tensor([[1.0, 0, 2], [0, 1, 1], [2, 1, 0]]), tensor([0.2, 0.3, 0.5]))
    for factor in (1.0, 1e-7, 1e-12, 1e6):
        low = factor * normal(1, 5, 2) @ normal(2, 2, 4)
        U, H, rank, method = alternate(low, law.characteristic)
        K = 1 + law.characteristic
        slope = U @ ((H.mT @ H) * K) - low @ H
        found.append(compare(slope.abs().max() / (low @ H).abs().max(), "<=", 1e-7, f"stationary, {factor}"))
        values = torch.linalg.svdvals(U @ H.mT)
        wanted = int((values > 1e-9 * values[0]).sum())
        found.append(same((rank, rank <= 2), (wanted, True), f"rank, {factor}"))
        found.append(same(method.startswith("alternating least squares, 6 starts, "), True, "how"))
    U, H, rank, method = alternate(torch.zeros(3, 2).double(), law.characteristic)
    found.append(same((float(U.abs().sum() + H.abs().sum()), rank, method), (0.0, 0, "closed form"), "nothing"))
    return found


def _units(scale: float) -> list[Comparison]:
    """The same criterion, up to the square of one unit, where all moments have size one."""
    found: list[Comparison] = []
    units = tensor([2.0**20, 1.0, 2.0**-9])
    known = moments(5, 2, 3)
    data = Moments(known.xx * units * units[:, None], 1e5 * known.yx * units, 1e10 * known.yy)
    law = Bernoulli(0.3, 3)
    models = {
        "two layers": TwoLayerLinear(1e5 * normal(1, 2, 3), normal(2, 3, 3) / units[:, None]),
        "deep": DeepLinear([normal(1, 3, 3) / units, normal(2, 3, 3), 1e5 * normal(3, 2, 3)]),
    }
    for name, model in models.items():
        masks = law if name == "two layers" else None
        moved, scaled = in_own_units(model, data)
        size = float((data.yy.trace() / scaled.yy.trace()).sqrt())
        found.append(same(math.log2(size).is_integer() and 0.5 <= scaled.yy.trace() < 4, True, f"units, {name}"))
        found.append(compare(scaled.xx.diagonal(), "<=", 4.0, f"inputs, {name}"))
        found.append(compare(scaled.xx.diagonal(), ">=", 0.25, f"inputs again, {name}"))
        assert isinstance(moved, (TwoLayerLinear, DeepLinear))
        if masks is not None:
            before, after = (
                criterion(one, known_as, masks).value for one, known_as in ((model, data), (moved, scaled))
            )
            found.append(compare(after * size**2, "==", scale * before, f"criterion, {name}"))
        W, R = moved.matrix(), scaled
        wanted = R.yy.trace() - 2 * (W * R.yx).sum() + (W @ R.xx * W).sum()
        M = model.matrix()
        risk = data.yy.trace() - 2 * (M * data.yx).sum() + (M @ data.xx * M).sum()
        found.append(compare(wanted * size**2 / risk, "==", scale, f"risk, {name}"))
    tied = Autoencoder(normal(1, 3, 2))
    square = Moments(known.xx, known.xx, known.xx)
    same_model, same_moments = in_own_units(tied, square)
    assert isinstance(same_model, Autoencoder)
    found.append(compare(same_model.U, "==", scale * tied.U, "tied networks stay"))
    found.append(compare(same_moments.yy, "==", scale * square.yy, "and their moments"))
    return found


def _affine(scale: float) -> list[Comparison]:
    """The map of an affine model, and a model that bends by little more than rounding is refused."""
    found: list[Comparison] = []
    W, b, X = normal(1, 3, 4), normal(2, 3), normal(3, 6, 2, 2)
    for bend, fine in ((0.0, True), (1e-16, True), (1e-12, False), (1e-3, False), (10.0, False)):

        def model(inputs: Tensor, bend: float = bend) -> Tensor:
            flat = inputs.flatten(1)
            return flat @ W.mT + b + bend * flat[:, :1].square()

        if fine:
            matrix, offset = affine_map(model, X)
            found.append(compare(matrix, "==", scale * W, f"map, {bend}"))
            found.append(compare(offset, "==", scale * b, f"offset, {bend}"))
        else:
            found.append(refuses(lambda model=model: affine_map(model, X), "model must be affine", f"bent by {bend}"))
    return found
