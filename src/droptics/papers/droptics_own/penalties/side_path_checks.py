"""Paths of penalties that few questions take: masked inputs, heads that differ by example, no bound, refusals."""

from __future__ import annotations

import itertools
import math

import numpy as np
import torch
from torch import Tensor, nn

from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import Bernoulli, Block, Gaussian, Product, SlidingBlock
from droptics.models import Autoencoder, Connections, DeepLinear, Factorization, LastLayer, Model, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.penalties.drawn_mask_checks import loss_under
from droptics.papers.droptics_own.telling import refuses, same
from droptics.papers.instances import moments, normal, simplex, tensor
from droptics.penalties import (
    Certified,
    ClosedForm,
    Enumerate,
    MonteCarlo,
    best_method,
    has_closed_form,
    penalty,
    sub_penalties,
    unit_energies,
    unit_gram,
)
from droptics.penalties.grams import OutputGram
from droptics.penalties.rounding import roundings
from droptics.penalties.unit_outputs import UnitOutputs

EPS = torch.finfo(torch.float64).eps


class Odd(nn.Module):
    """A body whose head is linear, and whose features nobody knows a bound of."""

    def __init__(self) -> None:
        super().__init__()
        self.head = linear_head(3, 3, 2)

    def forward(self, inputs: Tensor) -> Tensor:
        """Features squared, then the head."""
        return self.head(inputs.square())


class Cubed(Loss):
    """A loss from outside that may be negative and has no known slope."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).pow(3).sum(-1)


def side_paths(scale: float) -> list[Comparison]:
    """Penalties where inputs are masked, units differ by example, nothing moves or no bound is known."""
    return by_parts((_deep, _grams, _chosen, _open), scale)


def _deep(scale: float) -> list[Comparison]:
    """Masked inputs: penalty, its derivative, terms by the number of pivots; in tiny arithmetic and in torch's."""
    found: list[Comparison] = []
    weights = [normal(6, 2, 3), normal(7, 2, 2), normal(8, 2, 2)]
    law = Product([Bernoulli(0.2, 3), Block(0.3, 2, 2), Bernoulli(0.4, 2)])
    for data in (moments(1, 2, 3), Sample(normal(2, 7, 3), normal(3, 7, 2), simplex(4, 7)), Sample(*_few())):
        model = DeepLinear(weights, mask_inputs=True)
        name = f"{type(data).__name__}, {len(data) if isinstance(data, Sample) else 0}"
        clean = loss_under(model, data, torch.ones(7).double())
        atoms = [(z, p) for some, chances in law.atom_batches(99) for z, p in zip(some, chances, strict=True)]
        wanted = sum(p * (loss_under(model, data, z) - clean) for z, p in atoms)
        found.append(compare(penalty(model, data, law), "==", scale * wanted, f"masked inputs, {name}", 1e-11))
        leaves = [weight.clone().requires_grad_() for weight in weights]
        other = DeepLinear(leaves, mask_inputs=True)
        value = penalty(other, data, law).value
        found.append(compare(value, "==", scale * wanted, f"with derivatives, {name}", 1e-11))
        slopes = torch.autograd.grad(value, leaves)
        far = sum(p * (loss_under(other, data, z) - loss_under(other, data, torch.ones(7).double())) for z, p in atoms)
        assert isinstance(far, Tensor)
        for k, (one, two) in enumerate(zip(slopes, torch.autograd.grad(far, leaves), strict=True)):
            found.append(compare(one, "==", scale * two, f"slope {k}, {name}", 1e-10))
        # by the number of pivots: laws switched on in all ways, inclusion and exclusion
        parts = sub_penalties(model, data, law)
        found.append(compare(len(parts), "==", 3 * scale, f"orders, {name}"))
        found.append(compare(parts.sum(), "==", scale * wanted, f"all orders, {name}", 1e-11))
        whole: dict[tuple[int, ...], float] = {(): 0.0}
        for some in [one for size in (1, 2, 3) for one in itertools.combinations(range(3), size)]:
            laws = Product([one if j in some else Bernoulli(0.0, one.size) for j, one in enumerate(law.laws)])
            masks = [(z, p) for each, chances in laws.atom_batches(99) for z, p in zip(each, chances, strict=True)]
            whole[some] = sum(float(p * (loss_under(model, data, z) - clean)) for z, p in masks if p > 0)
        for order in (1, 2, 3):
            total = 0.0
            for on in itertools.combinations(range(3), order):
                parts_of = [some for some in whole if set(some) <= set(on)]
                total += sum((-1) ** (order - len(some)) * whole[some] for some in parts_of)
            found.append(compare(parts[order - 1], "==", scale * total, f"{order} pivots, {name}", 1e-10))
        # every term is quadratic in every layer
        both = DeepLinear([torch.stack([weight, 2 * weight]) for weight in weights], mask_inputs=True)
        wanted_terms = scale * torch.stack([parts, 4 ** len(weights) * parts])
        found.append(compare(sub_penalties(both, data, law), "==", wanted_terms, f"terms of a batch, {name}", 1e-12))
    deep = DeepLinear(weights)
    wide = Block(0.3, 4, 4)
    found += [
        same(has_closed_form(deep, wide), False, "blocks over layers", scale),
        same(has_closed_form(deep, Product([Bernoulli(0.1, 2), wide.__class__(0.3, 2, 2)])), True, "in layers", scale),
        same(has_closed_form(deep, Product([Bernoulli(0.1, 2), Bernoulli(0.3, 2)]), CrossEntropy()), False, "c", scale),
        refuses(
            lambda: penalty(deep, moments(1, 2, 3), wide),
            "Product([law of size 2, law of size 2]); Block with",
        ),
        refuses(lambda: penalty(deep, moments(1, 2, 3), wide), "use Enumerate(limit=2) or MonteCarlo()"),
        refuses(lambda: penalty(deep, moments(1, 2, 3), Gaussian(0.3, 4)), "layers; use MonteCarlo()"),
    ]
    return found


def _few() -> tuple[Tensor, Tensor]:
    return normal(12, 2, 3), normal(13, 2, 2)


def _grams(scale: float) -> list[Comparison]:
    """Heads that differ from example to example, DropConnect under blocks, scales of rounding of measurements."""
    found: list[Comparison] = []
    features, head = normal(1, 5, 3), normal(2, 5, 2, 3)
    for data in (Sample(normal(3, 5, 4), normal(4, 5, 2), 2 * simplex(5, 5)), None):
        shares = torch.full((5,), 0.2, dtype=torch.float64) if data is None else data.shares
        parts = features[:, None, :] * head
        wanted = torch.einsum("n,noi,noj->ij", shares, parts, parts)
        gram = OutputGram(UnitOutputs(features, head), data)
        name = "alike" if data is None else "weights"
        found.append(compare(gram.energies(), "==", scale * wanted.diagonal(), f"energies of examples, {name}"))
        some = gram.part(slice(0, 2), slice(1, 3))
        found.append(compare(some, "==", scale * wanted[:2, 1:], f"products of examples, {name}"))
        shared = OutputGram(UnitOutputs(features, head[:1]), data)
        parts = features[:, None, :] * head[:1]
        wanted = torch.einsum("n,noi,noj->ij", shares, parts, parts)
        found.append(compare(shared.energies(), "==", scale * wanted.diagonal(), f"a shared head, {name}"))
        found.append(compare(shared.part(slice(1, 3), slice(None)), "==", scale * wanted[1:], f"its rows, {name}"))
    weights, known = Connections(normal(9, 2, 2), normal(10, 3, 2)), moments(1, 2, 3)
    for given in (known, Sample(normal(2, 7, 3), normal(3, 7, 2), simplex(4, 7))):
        xx = known.xx if isinstance(given, Moments) else (given.shares[:, None] * given.inputs).mT @ given.inputs
        U, V = weights.U, weights.V
        unit = torch.stack([U[:, k] * V[i, k] for i in range(3) for k in range(2)], 1)
        spread = torch.stack([torch.stack([xx[i // 2, j // 2] for j in range(6)]) for i in range(6)])
        wanted = (unit.mT @ unit) * spread
        found.append(compare(unit_gram(weights, given), "==", scale * wanted, "DropConnect, pairs"))
        found.append(compare(unit_energies(weights, given), "==", scale * wanted.diagonal(), "DropConnect, energies"))
        told = penalty(weights, given, Block(0.3, 6, 3))
        blocks = (torch.arange(6)[:, None] // 3 == torch.arange(6) // 3).double()
        found.append(compare(told, "==", scale * 0.3 / 0.7 * (blocks * wanted).sum(), "DropConnect, blocks"))
    factors, matrices = Factorization(normal(9, 2, 4), normal(10, 3, 4)), normal(12, 5, 2, 3)
    seen = Measurements(matrices, normal(13, 5))
    each = torch.einsum("nij,ik,jk->nk", matrices.abs(), factors.U.abs(), factors.V.abs())
    told = penalty(factors, seen, Bernoulli(0.3, 4))
    plain = torch.einsum("nij,ik,jk->nk", matrices, factors.U, factors.V)
    found.append(compare(told, "==", scale * 0.3 / 0.7 * plain.square().mean(0).sum(), "measurements"))
    size = roundings(factors, seen) * EPS / 2 * 0.3 / 0.7 * each.square().mean(0).sum()
    found.append(compare(told.error, "==", scale * size, "rounding of measurements", 1e-9, 1e-300))
    cells = Entries(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]), normal(11, 3), (2, 3))
    told = penalty(factors, cells, Bernoulli(0.3, 4))
    plain = factors.U[cells.rows] * factors.V[cells.columns]
    size = roundings(factors, cells) * EPS / 2 * told.value
    found.append(compare(told, "==", scale * 0.3 / 0.7 * plain.square().mean(0).sum(), "entries"))
    found.append(compare(told.error, "==", scale * size, "rounding of entries", 1e-9, 1e-300))
    return [*found, *_rounded(scale)]


def _rounded(scale: float) -> list[Comparison]:
    """How far rounding may have moved penalties of independent units and of blocks: by energies of absolute weights."""
    found: list[Comparison] = []
    two, tied = TwoLayerLinear(normal(9, 2, 6), normal(10, 3, 6)), Autoencoder(normal(11, 3, 6))
    cells, head = Connections(normal(9, 2, 2), normal(10, 3, 2)), LastLayer.of(linear_head(12, 6, 2))
    known, X = moments(1, 2, 3), normal(2, 7, 3)
    data = Sample(X, normal(3, 7, 2), 2 * simplex(4, 7))
    square, behind = Sample(X, X, data.weights), Sample(normal(5, 7, 6), data.targets, data.weights)
    for given in (known, data):
        # root mean squares of the inputs
        sizes = known.xx.diagonal().sqrt() if given is known else (data.shares @ X.square()).sqrt()
        wide = (sizes @ two.V.abs()).square() * two.U.square().sum(0)
        alone = (cells.V.square() * sizes.square()[:, None] * cells.U.square().sum(0)).flatten()
        cases: list[tuple[str, Model, Data, Tensor]] = [
            ("two layers", two, given, wide),
            ("weights", cells, given, alone),
        ]
        if given is data:
            both = (sizes @ tied.U.abs()).square() * tied.U.square().sum(0)
            features = data.shares @ behind.inputs.square() * head.head.weight.detach().square().sum(0)
            cases += [("tied", tied, square, both), ("head", head, behind, features)]
        rates = tensor([0.1, 0.4, 0.2, 0.6, 0.3, 0.5])
        for name, model, seen, energies in cases:
            for law in (Bernoulli(rates, 6), Block(tensor([0.3, 0.6]), 6, 3)):
                noise = energies * law.relative_variance
                joined = isinstance(law, Block)
                most = min(noise.sqrt().sum() ** 2, 5 * noise.sum()) if joined else noise.sum()
                steps = roundings(model, seen) + (7 if joined and seen is not known else 0)
                told = penalty(model, seen, law).error
                label = f"rounding of {name}, {type(law).__name__}, {type(seen).__name__}"
                found.append(compare(told, "==", scale * steps * EPS / 2 * most, label, 1e-9, 1e-300))
    return found


def _chosen(scale: float) -> list[Comparison]:
    """Which method is the most exact: for classes, margins, many masks, laws that fall apart or do not."""
    found: list[Comparison] = []
    X, labels, signs = normal(2, 7, 3), torch.arange(7) % 3, (torch.arange(7) % 2).double() * 2 - 1
    classes, margins, plain = Sample(X, labels), Sample(X, signs), Sample(X, normal(3, 7, 2))
    one = TwoLayerLinear(normal(9, 1, 20), normal(10, 3, 20))

    def three(width: int) -> TwoLayerLinear:
        return TwoLayerLinear(normal(9, 3, width), normal(10, 3, width))

    deep = DeepLinear([normal(6, 20, 3), normal(7, 2, 20)])
    far = TwoLayerLinear(1e4 * normal(9, 1, 20), normal(10, 3, 20))
    sliding = SlidingBlock.matching(0.3, 40, 3)
    odd = Product([Bernoulli(0.3, 10), Gaussian(0.2, 10)])
    for name, model, data, law, loss, wanted in (
        ("three classes, few masks", three(4), classes, Bernoulli(0.3, 4), CrossEntropy(), Enumerate()),
        ("three classes", three(20), classes, Bernoulli(0.3, 20), CrossEntropy(), Certified()),
        ("three classes, parts", three(20), classes, odd, CrossEntropy(), Certified()),
        ("windows", three(40), classes, sliding, CrossEntropy(), MonteCarlo()),
        (
            "windows beside coins",
            three(60),
            classes,
            Product([Bernoulli(0.3, 20), sliding]),
            CrossEntropy(),
            MonteCarlo(),
        ),
        ("margins", one, margins, Bernoulli(0.3, 20), Logistic(), ClosedForm()),
        ("margins that spread", far, margins, Bernoulli(0.3, 20), Logistic(), Certified()),
        (
            "two layers",
            TwoLayerLinear(normal(9, 2, 4), normal(10, 3, 4)),
            plain,
            Bernoulli(0.3, 4),
            Squared(),
            ClosedForm(),
        ),
        ("deep classes", deep, Sample(X, labels % 2), Bernoulli(0.3, 20), CrossEntropy(), MonteCarlo()),
    ):
        told = best_method(model, data, law, loss)
        found.append(same(told, wanted, f"best method, {name}: {told}", scale))
    spread = penalty(far, margins, Bernoulli(0.3, 20), Certified(), Logistic())
    pair = TwoLayerLinear(torch.cat([far.U, 0 * far.U]), far.V)
    same_one = penalty(pair, Sample(X, (signs < 0).long()), Bernoulli(0.3, 20), Certified(), CrossEntropy())
    ends, others = torch.stack(spread.interval), torch.stack(same_one.interval)
    found.append(compare(ends, "==", scale * others, "the logistic loss is the softmax of one output and zero"))
    cells = Entries(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]), tensor([1.0, -1.0, 1.0]), (2, 3))
    factors = Factorization(normal(9, 2, 4), normal(10, 3, 4))
    found.append(same(has_closed_form(factors, Bernoulli(0.3, 4), Logistic()), True, "margins of entries", scale))
    found.append(same(has_closed_form(factors, Bernoulli(0.3, 4), CrossEntropy()), False, "classes of entries", scale))
    coins, many, twos = Bernoulli(0.3, 4), Bernoulli(0.3, 20), Sample(X, labels % 2)
    exact, bounded = ClosedForm(), Certified()
    for call, words in (
        (lambda: penalty(three(4), classes, coins, exact, CrossEntropy()), "use Certified(), SecondOrder(), Enumerate"),
        (lambda: penalty(deep, twos, many, exact, CrossEntropy()), "use SecondOrder(), Enumerate()"),
        (lambda: penalty(three(4), classes, coins, bounded, Squared()), "use ClosedForm(), which is exact"),
        (lambda: penalty(far, margins, many, exact, Logistic()), "use Certified(), Enumerate()"),
        (lambda: penalty(three(40), classes, sliding, bounded, CrossEntropy()), "SlidingBlock is not known to fall"),
        (lambda: penalty(factors, cells, coins, bounded, Logistic()), "data must be a Sample for Logistic"),
    ):
        found.append(refuses(call, words))
    return found


def _open(scale: float) -> list[Comparison]:
    """Losses and laws without any bound, masks that change nothing, numbers that overflow."""
    found: list[Comparison] = []
    X, Y = normal(2, 7, 3), normal(3, 7, 2)
    model, law = TwoLayerLinear(normal(9, 2, 4), normal(10, 3, 4)), Bernoulli(0.01, 4)
    told = penalty(model, Sample(X, Y), law, MonteCarlo(40, seed=1), Cubed())
    z = law.multipliers(40, torch.Generator().manual_seed(1))

    def value(row: Tensor) -> float:
        return float(((X @ model.V * row) @ model.U.mT - Y).pow(3).sum(1).mean())

    mean = np.mean([value(row) for row in z]) - value(torch.ones(4).double())
    found.append(compare(told, "==", scale * mean, "a loss from outside"))
    found.append(same((float(told.lower), float(told.upper)), (-math.inf, math.inf), "nothing is known of it", scale))
    found.append(same(told.guaranteed, None, "no guarantee", scale))
    words = "; outcomes of probability 0.01 are so rare among 40 draws that the interval is unbounded"
    found.append(same(told.method, f"Monte Carlo, 40 masks{words}", f"words: {told.method}", scale))
    head = LastLayer.of(Odd())
    data, rare = Sample(X, Y), Bernoulli(0.01, 3)
    told = penalty(head, data, rare, MonteCarlo(40, seed=1))
    assert told.guaranteed is not None
    ends = torch.stack([told.lower, told.upper])
    found.append(compare(ends, "==", scale * torch.stack(told.guaranteed), "a head has its guarantee"))
    wide = penalty(head, Sample(X, Y), Gaussian(1e-3, 3), MonteCarlo(40, seed=1))
    assert wide.guaranteed is not None
    truth = float(penalty(head, data, Gaussian(1e-3, 3)))
    found.append(compare(wide.guaranteed[1], ">=", truth * scale, "noise has no range", 0.0))
    still = TwoLayerLinear(0 * model.U, model.V)
    told = penalty(still, data, Bernoulli(0.3, 4), MonteCarlo(100, seed=1))
    found.append(same(float(told), 0.0, "masks that change nothing", scale))
    found.append(same("control" in told.method, False, "nothing to control", scale))
    found.append(compare(told.upper, ">=", 0.0, "an interval", 0.0))
    huge = TwoLayerLinear((1e30 * model.U).float(), model.V.float())
    single = Sample(X.float(), Y.float())
    found.append(
        refuses(lambda: penalty(huge, single, Bernoulli(0.3, 4), MonteCarlo(100)), "too large for torch.float32")
    )
    return found
