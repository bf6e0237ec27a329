"""What penalties and least penalties refuse, each beside a neighbor that is answered, and answers at the edges."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from typing import Any
from unittest import mock

import numpy as np
import torch

from droptics.data import Entries, Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.equalization import equalize, gap_condition, joint_equalizer, order_gaps, rank_one_network, rescale
from droptics.errors import NoClosedForm, NoFiniteSupport
from droptics.evidence.claims import Comparison, compare
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, Product
from droptics.models import Autoencoder, Connections, DeepLinear, Factorization, LastLayer, ReLUNet, TwoLayerLinear
from droptics.optima import certify
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import fails, refuses, same
from droptics.papers.instances import moments, normal, simplex, tensor
from droptics.penalties import (
    Certified,
    ClosedForm,
    Enumerate,
    MonteCarlo,
    SecondOrder,
    criterion,
    effective_strength,
    evaluation,
    has_closed_form,
    penalty,
)
from droptics.penalties.second_order import second_derivatives
from droptics.penalties.several import DOWN, TILT, UP, aliases
from droptics.spectra import action


def refused_penalties(scale: float) -> list[Comparison]:
    """What does not fit, and what has no closed form."""
    return by_parts((_unfit, _unknown), scale)


def blocks_of_a_spectrum(scale: float) -> list[Comparison]:
    """How many blocks are enough."""
    return _blocks(scale)


def noise_at_the_edges(scale: float) -> list[Comparison]:
    """Laws without noise, one mask at a time, units that are no copies, normal noise and lattices."""
    return by_parts((_edges, _copies, _noisy, _aliased), scale)


def _unfit(scale: float) -> list[Comparison]:
    """Arguments that do not belong together are named, and the same with one that fits is answered."""
    two, factors = TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)), Factorization(normal(1, 2, 4), normal(2, 3, 4))
    known, law = moments(3, 2, 3), Bernoulli(0.3, 4)
    X, Y, labels = normal(4, 6, 3), normal(5, 6, 2), torch.arange(6) % 2
    data, classes = Sample(X, Y), Sample(X, labels)
    head, deep = LastLayer.of(linear_head(1, 3, 2)), DeepLinear([normal(6, 4, 3), normal(7, 2, 4)])
    net = ReLUNet([normal(6, 4, 3), normal(7, 2, 4)])
    cells = Entries(torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1]), normal(8, 3), (2, 3))
    tall = Entries(cells.rows, cells.columns, cells.values, (2, 4))
    coins, three, listed, classed = Product([Bernoulli(0.2, 3), law]), Bernoulli(0.3, 3), Enumerate(), CrossEntropy()
    asked: tuple[tuple[tuple[Any, ...], str, tuple[Any, ...]], ...] = (
        ((two, known, law, listed, classed), "Sample for CrossEntropy", (two, classes, law, listed, classed)),
        ((head, known, three, listed), "data must be a Sample for LastLayer", (head, data, three, listed)),
        ((two, Sample(X, X), law), "data have 3 outputs but the model has 2", (two, data, law)),
        ((two, cells, law), "must be Sample or Moments, got Entries", (two, known, law)),
        ((factors, data, law), "must be Entries or Measurements, got Sample", (factors, cells, law)),
        ((factors, tall, law), "of shape (2, 4) but the factors give (2, 3)", (factors, cells, law)),
        ((net, Sample(X[:, :2], Y), coins), "the model takes 3 features", (net, data, coins)),
        ((two, data.to(torch.float32), law), "data are torch.float32 on cpu but the model is", (two, data, law)),
        ((two, data, three), "masks has size 3, expected 4", (two, data, law)),
        ((two, data, law, "exact"), "method must be", (two, data, law, ClosedForm())),
    )
    cases: list[tuple[Callable[[], Any], str, Callable[[], Any]]] = [
        (lambda: induced(two, classes, law), "floating-point targets", lambda: induced(two, data, law)),
        (lambda: order_gaps(deep, cells, law), "a Sample or Moments, got E", lambda: order_gaps(deep, known, law)),
        (lambda: rescale(net, -torch.ones(4).double()), "must be positive", lambda: rescale(deep, -torch.ones(4))),
        (lambda: rank_one_network(Y[0], X[0], []), "at least one", lambda: rank_one_network(Y[0], X[0], [1])),
        (lambda: effective_strength((), 0.3), "at least one hidden width", lambda: effective_strength((1,), 0.3)),
    ]
    cases += [(partial(penalty, *bad), words, partial(penalty, *good)) for bad, words, good in asked]
    found = []
    for call, words, neighbor in cases:
        found += [refuses(call, words), compare(fails(neighbor, Exception), "==", 0.0, f"answered beside: {words}")]
    counted = fails(lambda: penalty(two, data, Gaussian(0.3, 4), Enumerate()), NoFiniteSupport)
    found.append(compare(counted, "==", scale, "noise has no list of masks"))
    return found


def _unknown(scale: float) -> list[Comparison]:
    """Least penalties, envelopes and equalized networks that nobody knows are refused as such, with what to do."""
    two, pair = TwoLayerLinear(normal(1, 2, 4), normal(2, 3, 4)), TwoLayerLinear(normal(1, 5, 2, 4), normal(2, 5, 3, 4))
    tied, ties = Autoencoder(normal(3, 3, 4)), Autoencoder(normal(3, 5, 3, 4))
    known, law, rates = moments(3, 2, 3), Bernoulli(0.3, 4), Bernoulli(tensor([0.1, 0.2, 0.3, 0.4]), 4)
    flat = Moments(torch.eye(3).double(), normal(4, 3, 3), 20 * torch.eye(3).double())
    against = Moments(1.2 * torch.eye(3).double() - 0.2, flat.yx, flat.yy)
    singular = moments(3, 2, 3, rank=2)
    several = Discrete(tensor([[2.0, 0, 1, 1], [0, 2.0, 1, 1], [1, 1, 0.5, 1.5]]), tensor([0.25, 0.25, 0.5]))
    deep = DeepLinear([normal(6, 4, 3), normal(7, 4, 4), normal(8, 2, 4)])
    some = DeepLinear([normal(6, 5, 4, 3), normal(7, 5, 4, 4), normal(8, 5, 2, 4)])
    even, uneven = Product([law, Bernoulli(0.2, 4)]), Product([law, rates])
    masked = DeepLinear([*deep.weights[:2], normal(8, 2, 4)], mask_inputs=True)
    inputs = Product([Bernoulli(0.1, 3), *even.laws])
    wide = DeepLinear([normal(9, 46341, 1), normal(10, 1, 46341)])
    one = torch.ones(1, 1).double()
    point = Moments(one, one, one)
    cells = Connections(normal(1, 2, 2), normal(2, 3, 2))
    cases: tuple[tuple[Callable[[], Any], str], ...] = (
        (lambda: induced(two, known, several), "the induced penalty under Discrete has no closed form"),
        (lambda: envelope(two, known, several), "the convex envelope under Discrete is not known"),
        (lambda: induced(tied, flat, Block(0.3, 4, 2)), "closed form for independent units only, not for Blocks"),
        (lambda: induced(tied, against, law), "closed form only for isotropic inputs"),
        (lambda: induced(cells, known, Block(0.3, 6, 2)), "needs independent units with one rate"),
        (lambda: induced(deep, known, uneven), "layer 1 has Bernoulli with other rates"),
        (lambda: envelope(deep, known, uneven), "layer 1 has Bernoulli with other rates"),
        (lambda: envelope(masked, known, inputs), "without masks on the inputs"),
        (lambda: equalize(masked, known, inputs), "without masks on its inputs"),
        (lambda: equalize(deep, singular, even), "the second moment of the inputs is singular"),
        (lambda: equalize(some, known, even), "one DeepLinear model"),
        (lambda: equalize(pair, known, law), "got a batch"),
        (lambda: equalize(ties, flat, rates), "got a batch"),
        (lambda: penalty(wide, point, Bernoulli(0.3, 46341)), "the limit is 46340 units"),
        (lambda: penalty(deep, known, Block(0.3, 8, 4), Certified()), "use ClosedForm(), which is exact"),
        (lambda: action(Block(0.3, 4, 2)).cutoff, "enough for independent units only"),
    )
    found = [refuses(call, words) for call, words in cases]
    # the first nine have no closed form; batches are a wrong argument
    found += [compare(fails(call, NoClosedForm), "==", scale, words) for call, words in cases[:9]]
    found.append(same(has_closed_form(wide, Bernoulli(0.3, 46341)), False, "so there is none", scale))
    each = [equalize(TwoLayerLinear(*part), known, law) for part in zip(*pair.tensors, strict=True)]
    least = torch.stack([penalty(one, known, law).value for one in each])
    found.append(compare(induced(pair, known, law), "==", scale * least, "members one by one"))
    turned = equalize(ties, flat, law)
    sizes = turned.U.square().sum(-2)
    found.append(compare(sizes, "==", scale * sizes.mean(-1, keepdim=True), "tied members at one rate"))
    kept = ties.U @ ties.U.mT
    found.append(compare(turned.U @ turned.U.mT, "==", scale * kept, "whose maps stay", 1e-9))
    return found


def _blocks(scale: float) -> list[Comparison]:
    """How many blocks a spectrum needs, which numbers of blocks have balanced factors, and bounds of unequal rates."""
    found: list[Comparison] = []
    spectrum = tensor([5.0, 1.0, 0.9, 0.8])
    population = Moments.of_map(torch.diag(spectrum))
    # one leading value and a tail of three: three blocks of two attain the norm, four and eight by rows of signs
    norm = spectrum[0] ** 2 + spectrum[1:].sum() ** 2
    for blocks in (2, 3, 4, 5, 6, 8, 12):
        half = torch.nn.functional.pad(torch.diag(spectrum.sqrt()), (0, 2 * blocks - 4))
        model = TwoLayerLinear(half, half)
        law, least = Block(0.3, 2 * blocks, 2), 0.3 / 0.7 / blocks * norm
        found.append(compare(envelope(model, population, law), "==", scale * least, f"envelope of {blocks} blocks"))
        if blocks < 3:
            few = "is known when at least 3 blocks share this spectrum"
            found.append(refuses(lambda m=model, law=law: induced(m, population, law), few))
        else:
            found.append(compare(induced(model, population, law), "==", scale * least, f"least of {blocks} blocks"))
        if blocks % 4:
            words = "no balanced factors are constructed for rank 4"
            found.append(refuses(lambda m=model, law=law: equalize(m, population, law), words, f"{words}, {blocks}"))
        else:
            even = equalize(model, population, law)
            found.append(compare(even.matrix(), "==", scale * torch.diag(spectrum), f"map of {blocks} blocks"))
            found.append(compare(penalty(even, population, law), "==", scale * least, f"attained, {blocks} blocks"))
    for rates in ([0.1, 0.6, 0.3, 0.5], [0.0, 0.6, 0.3, 0.5], [0.2, 0.2, 0.2, 0.2]):
        law = Block(tensor(rates), 8, 2)
        share = 0.0 if min(rates) == 0 else 1 / sum((1 - rate) / rate for rate in rates)
        kept, cost = action(law).shrink(spectrum)
        # optimal for ||v - x||^2 + share ||x||^2: v - x is share times a vector whose dual norm is the norm of x
        slope = spectrum - kept
        dual = float(slope.sort(descending=True).values[:2].square().sum())
        found.append(compare(share * (slope @ kept), "==", scale * dual, f"optimal, {rates}"))
        found.append(compare(share * cost, "==", scale * dual, f"its cost, {rates}"))
        bound = certify(TwoLayerLinear(normal(1, 4, 8), normal(2, 4, 8)), population, law).bound
        found.append(compare(bound, "==", scale * (float(slope.square().sum()) + cost), f"bound, {rates}", 1e-8))
    return found


class Doubled(torch.autograd.Function):
    """Twice its input, backwards only."""

    @staticmethod
    def forward(_: Any, x: torch.Tensor) -> torch.Tensor:
        """Doubled."""
        return 2 * x

    @staticmethod
    def backward(_: Any, upstream: torch.Tensor) -> torch.Tensor:
        """Which does not depend on the input."""
        return 2 * upstream


def _linear(weights: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    doubled: torch.Tensor = Doubled.apply(x)  # type: ignore[no-untyped-call]
    return (weights * doubled).sum()


def _edges(scale: float) -> list[Comparison]:
    """Masks without noise, inference, families of unknown rounding, slopes of draws, rows that do not meet."""
    found: list[Comparison] = []
    deep, known = DeepLinear([normal(6, 4, 3), normal(7, 2, 4)]), moments(3, 2, 3)
    still = penalty(deep, known, Bernoulli(0.0, 4), SecondOrder(None))
    found.append(same(float(still), 0.0, "no noise has no curvature", scale))
    weight = normal(9, 3).requires_grad_()
    for name, factor in (("known", weight.detach()), ("free", weight)):
        curved = second_derivatives(partial(_linear, factor), normal(10, 3), normal(11, 4, 3), 2)
        found.append(same(curved.tolist(), [0.0] * 4, f"what is linear has none, {name} weights", scale))
    U, V, law = normal(1, 2, 4), normal(2, 3, 4), Bernoulli(0.3, 4)
    data = Sample(normal(4, 6, 3), normal(5, 6, 2), simplex(6, 6))
    plain = penalty(TwoLayerLinear(U, V), data, law)
    with torch.inference_mode():
        inside = penalty(TwoLayerLinear(U * 1, V * 1), Sample(data.inputs * 1, data.targets * 1, simplex(6, 6)), law)
        found.append(compare(inside, "==", scale * plain.value, "in inference mode"))
        found.append(compare(inside.error, "==", scale * plain.error, "its rounding", 1e-9, 1e-300))

    def drawn(left: Any) -> Any:
        return penalty(TwoLayerLinear(left, V), data, law, MonteCarlo(200, seed=1)).value

    leaf = U.clone().requires_grad_()
    (slope,) = torch.autograd.grad(drawn(leaf), leaf)
    found.append(compare(torch.func.grad(drawn)(U), "==", scale * slope, "slopes of draws"))
    flat, noisy = Moments(known.xx, 0 * known.yx, known.yy), Bernoulli(0.3, 4)
    found.append(same(gap_condition(flat, noisy).holds, True, "nothing has its gap", scale))
    for method in (SecondOrder(None), Enumerate(), MonteCarlo(50, seed=2)):
        whole = penalty(deep, known, noisy, method).value
        with mock.patch.object(evaluation, "CHUNK_ELEMENTS", 1):
            singly = penalty(deep, known, noisy, method).value
        found.append(compare(singly, "==", scale * whole, f"one mask at a time, {method}"))
    rows, other = torch.linalg.qr(normal(7, 6, 6)).Q.split([2, 4])
    turn = joint_equalizer(normal(8, 3, 2) @ rows, other[:3], seed=1)
    products = ((normal(8, 3, 2) @ rows) @ turn).norm(dim=0) * (other[:3] @ turn).norm(dim=0)
    found.append(compare(1 + products, "==", scale, "rows that do not meet"))
    found.append(compare(turn.mT @ turn, "==", scale * torch.eye(6).double(), "by a rotation"))
    return found


def _copies(scale: float) -> list[Comparison]:
    """Units and inputs that are alike but for their rates are no copies: criteria and slopes by all masks."""
    found: list[Comparison] = []
    again = [0, 1, 1, 0, 0]
    first, second = normal(1, 2, 3)[again], normal(2, 2, 2)[:, [0, 1, 1, 0, 0]]
    weights = [first[:, [0, 1, 1]], second, normal(3, 2, 2)]
    biases = [1 + normal(4, 2)[again], 2 + normal(5, 2), normal(6, 2)]
    X = normal(7, 4, 3)
    data = Sample(torch.stack([X[:, 0], X[:, 1], X[:, 1]], 1), normal(8, 4, 2), simplex(9, 4))
    rates = tensor([0.2, 0.1, 0.6]), tensor([0.3, 0.2, 0.5, 0.3, 0.7]), tensor([0.4, 0.25])
    law = Product([Bernoulli(rate, len(rate)) for rate in rates])
    answers = []
    for method in (ClosedForm(), Enumerate()):
        leaves = [part.clone().requires_grad_() for part in (*weights, *biases)]
        value = criterion(ReLUNet(leaves[:3], leaves[3:]), data, law, method).value
        answers.append([value, *torch.autograd.grad(value, leaves)])
    for place, (mine, other) in enumerate(zip(*answers, strict=True)):
        found.append(compare(mine.detach(), "==", scale * other.detach(), f"alike but for their rates, {place}"))
    return found


def _noisy(scale: float) -> list[Comparison]:
    """Certified bounds under normal noise on two units by quadrature, of few and of many classes."""
    found: list[Comparison] = []
    points, weights = np.polynomial.hermite_e.hermegauss(80)
    grid, chance = torch.from_numpy(points), torch.from_numpy(weights / weights.sum())
    for classes, width in ((3, 0.02), (14, 1.5)):
        U, V, X = normal(1, classes, 2), normal(2, 3, 2), normal(3, 4, 3)
        hidden, labels = X @ V, torch.arange(4) % classes
        z = torch.cartesian_prod(1 + 0.7 * grid, 1 + 0.7 * grid)
        both = torch.cartesian_prod(chance, chance).prod(1)
        outputs = (z[:, None] * hidden) @ U.mT
        truth = (both @ torch.logsumexp(outputs, -1) - torch.logsumexp(hidden @ U.mT, -1)).mean()
        told = penalty(TwoLayerLinear(U, V), Sample(X, labels), Gaussian(0.49, 2), Certified(), CrossEntropy())
        found.append(compare(told.lower, "<=", truth / scale, f"below, {classes} classes", 1e-9))
        found.append(compare(told.upper, ">=", truth * scale, f"above, {classes} classes", 1e-9))
        found.append(compare(told.upper - told.lower, "<=", width * truth, f"narrow, {classes} classes"))
    # of seventy examples none is wide
    two, many = TwoLayerLinear(0.1 * normal(4, 3, 3), normal(5, 3, 3)), normal(6, 70, 3)
    data, coins = Sample(many, torch.arange(70) % 3, simplex(7, 70)), Bernoulli(tensor([0.1, 0.3, 0.2]), 3)
    close = penalty(two, data, coins, Certified(), CrossEntropy())
    exact = penalty(two, data, coins, Enumerate(), CrossEntropy()).value
    found.append(compare(close.lower, "<=", exact / scale, "below, many examples", 1e-12))
    found.append(compare(close.upper, ">=", exact * scale, "above, many examples", 1e-12))
    found.append(compare(close.upper - close.lower, "<=", 0.05 * exact, "narrow, many examples"))
    return found


def _aliased(scale: float) -> list[Comparison]:
    """What a lattice adds: 2 e^(s . a) / min(1, sum s) over all of its cells, by the best exponents s."""
    found: list[Comparison] = []
    for count in (2, 3):
        sides = [side for side in itertools.product((0, 1, -1), repeat=count) if any(side)]
        margins, length, tilt = normal(count, 2, count), 7.0, TILT[count]
        logs = normal(count + 1, 2, len(DOWN) * len(UP) * len(sides))
        for i in range(2):
            totals, places = [], iter(logs[i].tolist())
            for down, up in itertools.product(DOWN, UP):
                total = 0.0
                for side in sides:
                    s = [{0: tilt, 1: tilt * (1 - down), -1: tilt + (1 - tilt) * up}[way] for way in side]
                    size = math.exp(sum(a * b for a, b in zip(s, margins[i].tolist(), strict=True)) + next(places))
                    # sums of e^(-L m |s - c|) over m = 1, 2, ... in every direction that is moved
                    cells = math.prod(1 / math.expm1(length * abs(one - tilt)) for one in s if one != tilt)
                    total += 2 * cells / min(1.0, sum(s)) * size
                totals.append(total)
            told = aliases(margins[i], logs[i], length)
            found.append(compare(told / min(totals), "==", scale, f"aliases of {count} margins"))
    # the bound itself: J of several margins, with its sign
    for ways in ((0.2, 0.3), (0.9, 0.8), (0.1, 0.9), (0.6, 0.7, 0.9), (0.2, 0.1, 0.3)):
        a = 4 * normal(len(ways), 200, len(ways))
        value = torch.zeros(200).double()
        for size in range(1, len(ways) + 1):
            for part in itertools.combinations(range(len(ways)), size):
                value += (-1) ** (size + 1) * torch.log1p(a[:, part].exp().sum(1))
        found.append(
            compare(value.abs(), "<=", 2 / min(1.0, sum(ways)) / scale * (a @ tensor(ways)).exp(), f"J, {ways}", 1e-12)
        )
    return found
