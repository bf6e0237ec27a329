"""Checks of our own results on cross-entropy heads: every mask written out by hand."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from scipy import integrate
from torch import Tensor, nn

from droptics.arrays import Array
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.layers import ExplicitDropout
from droptics.losses import CrossEntropy, Logistic
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, Product
from droptics.models import LastLayer, TwoLayerLinear
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.penalties.sum_checks import listed
from droptics.papers.instances import normal, tensor, uniform
from droptics.penalties import Certified, ClosedForm, penalty
from droptics.penalties.certified import MANY
from droptics.penalties.second_order import second_order

DROPS = (0.1, 0.5, 0.8)


def _head(outputs: int, seed: int, scale: float = 1.0) -> tuple[TwoLayerLinear, Sample]:
    generator = torch.Generator().manual_seed(seed)
    U = scale * torch.randn(outputs, 6, generator=generator, dtype=torch.float64)
    V = torch.randn(4, 6, generator=generator, dtype=torch.float64)
    return TwoLayerLinear(U, V), Sample(
        torch.randn(3, 4, generator=generator, dtype=torch.float64), torch.zeros(3).long()
    )


def _expected(model: TwoLayerLinear, inputs: Tensor, drop: float | Tensor) -> float:
    """E log sum exp of the outputs minus that of their mean; one output counts as the first of (f, 0)."""
    total = torch.zeros(len(inputs), dtype=torch.float64)
    masks = [torch.tensor(bits, dtype=torch.float64) for bits in itertools.product((0.0, 1.0), repeat=model.units)]
    for kept in masks:
        chance = (kept * (1 - drop) + (1 - kept) * drop).prod()
        total = total + chance * _log_sum(model.outputs(inputs, kept / (1 - drop)))
    return float((total - _log_sum(model.outputs(inputs))).mean())


def _log_sum(outputs: Tensor) -> Tensor:
    padded = outputs if outputs.shape[-1] > 1 else nn.functional.pad(outputs, (0, 1))
    return torch.logsumexp(padded, -1)


def certified(narrow: float) -> list[Comparison]:
    """Both bounds hold, and writing out units narrows them to nothing; the control narrows them by hand."""
    found = []
    rates: list[float | Tensor] = [*DROPS, tensor([0.3, 0.7, 0.1, 0.5, 0.8, 0.2])]
    for seed, drop in enumerate(rates):
        model, sample = _head(4, seed)
        truth = _expected(model, sample.inputs, drop)
        widths = []
        for condition in (0, 3, 6):
            interval = penalty(model, sample, Bernoulli(drop, 6), Certified(condition), CrossEntropy())
            low, high = float(interval.lower), float(interval.upper)
            widths.append(high - low)
            middle, half = (low + high) / 2, (high - low) / 2
            allowed = 1e-11 if condition == 6 else 0.0
            half = narrow * half + allowed
            found.append(compare(middle - half, "<=", truth, f"below, rate {drop}, {condition} units"))
            found.append(compare(truth, "<=", middle + half, f"above, rate {drop}, {condition} units"))
            if condition == 0:
                stated = [end.mean() for end in _stated(model, sample.inputs, drop, ())[:2]]
                found.append(compare(low, ">=", stated[0], f"not below the stated one, rate {drop}"))
                found.append(compare(high, "<=", stated[1], f"not above the stated one, rate {drop}"))
        found.append(compare(widths[1], "<", widths[0], f"three units written out, rate {drop}"))
        found.append(compare(widths[2], "==", 0.0, f"all units written out, rate {drop}"))
        for written in ((), (1,), (0, 4), (2, 3, 5)):
            lower, upper, mean, smallest = _stated(model, sample.inputs, drop, written)
            center, reach = (lower + upper) / 2, narrow * (upper - lower) / 2
            label = f"rate {drop}, units {written} written out"
            found.append(compare(mean.mean(), "==", truth, f"E log X, {label}"))
            found.append(compare(smallest, ">=", 1.0, f"X, {label}"))
            found.append(compare(center - reach, "<=", mean, f"stated below, {label}"))
            found.append(compare(mean, "<=", center + reach, f"stated above, {label}"))
    return found + _of_other_laws(narrow)


def _stated(
    model: TwoLayerLinear, inputs: Tensor, drop: float | Tensor, written: tuple[int, ...]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The stated bounds and E log X of every example, averaged over the outcomes of some units, and the least X."""
    drops = torch.as_tensor(drop, dtype=torch.float64).expand(6)
    others = [unit for unit in range(6) if unit not in written]
    clean = _log_sum(inputs @ model.V @ model.U.mT)
    below, above, mean = (torch.zeros(len(inputs), dtype=torch.float64) for _ in range(3))
    smallest = torch.full((), torch.inf, dtype=torch.float64)
    for bits, share in zip(*every_coin(drops[list(written)].tolist()), strict=True):
        kept, chances = every_coin(drops[others].tolist())
        z = torch.ones(len(kept), 6, dtype=torch.float64)
        z[:, others], z[:, list(written)] = kept, bits
        z = z / (1 - drops)
        outputs = (inputs @ model.V * z[:, None]) @ model.U.mT
        low, high, logs, least = _of_outcomes(outputs, chances)
        own = _log_sum(torch.tensordot(chances, outputs, 1)) - clean
        below, above, mean = below + share * (own + low), above + share * (own + high), mean + share * (own + logs)
        smallest = torch.minimum(smallest, least)
    return below, above, mean, smallest


def _of_outcomes(outputs: Tensor, chances: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Both bounds and E log X of every example, from outputs (outcomes, examples, classes), and the least X."""
    center = torch.tensordot(chances, outputs, 1)
    odds, moves = center.softmax(-1), outputs - center
    X = (odds * (moves - (odds * moves).sum(-1, keepdim=True)).exp()).sum(-1)
    M1, M2 = (chances @ (X - 1) ** power for power in (1, 2))
    return M1**2 / M2 * torch.log1p(M2 / M1), torch.log1p(M1), chances @ X.log(), X.min()


@torch.no_grad()
def _of_other_laws(narrow: float) -> list[Comparison]:
    """Blocks and products, two to fourteen classes, small and large noise, weighed examples."""
    found = []
    mixed = Product((Bernoulli(tensor([0.3, 0.1]), 2), Block(0.6, 4, 2)))
    cases = ((2, Block(0.4, 6, 2), 1.0), (3, mixed, 3.0), (14, Bernoulli(0.5, 6), 1.0), (14, mixed, 0.2))
    for seed, (classes, law, size) in enumerate(cases):
        head, inputs = linear_head(seed, 6, classes), size * normal(seed + 30, 5, 6)
        data = Sample(inputs, torch.arange(5) % classes, uniform(seed, 5) + 0.1)
        multipliers, chances = listed(law)
        lower, upper, mean, smallest = _of_outcomes(head(inputs * multipliers[:, None, :]), chances)
        truth, label = data.shares @ mean, f"{classes} classes, noise {size}"
        found.append(compare(truth, "==", _entropic(head, data, multipliers, chances), f"E log X, {label}"))
        found.append(compare(smallest, ">=", 1.0, f"X, {label}"))
        for condition in (0, 2) if classes < 14 else (0,):
            told = penalty(LastLayer.of(head), data, law, Certified(condition), CrossEntropy())
            middle, half = (told.lower + told.upper) / 2, narrow * (told.upper - told.lower) / 2
            found.append(compare(middle - half, "<=", truth, f"below, {label}, {condition} written out"))
            found.append(compare(truth, "<=", middle + half, f"above, {label}, {condition} written out"))
            if condition == 0:
                found.append(compare(told.lower, ">=", data.shares @ lower, f"not below the stated one, {label}"))
                found.append(compare(told.upper, "<=", data.shares @ upper, f"not above the stated one, {label}"))
    return found


def logistic(scale: float) -> list[Comparison]:
    """The integral equals the sum over all masks; the control measures the margin in other units."""
    found = []
    for seed, drop in enumerate(DROPS):
        model, sample = _head(1, seed + 10, 2.0)
        labeled = Sample(sample.inputs, torch.tensor([1.0, -1.0, 1.0]).double())
        value = penalty(TwoLayerLinear(scale * model.U, model.V), labeled, Bernoulli(drop, 6), ClosedForm(), Logistic())
        found.append(compare(float(value), "==", _expected(model, sample.inputs, drop), f"rate {drop}"))
    unequal = torch.linspace(0.1, 0.8, 6, dtype=torch.float64)
    value = penalty(TwoLayerLinear(scale * model.U, model.V), labeled, Bernoulli(unequal, 6), ClosedForm(), Logistic())
    found.append(compare(float(value), "==", _expected(model, sample.inputs, unequal), "unequal rates"))
    model, sample = _head(1, 20, 1e-2)
    head = nn.Linear(6, 1, bias=False).double()
    head.weight = nn.Parameter(scale * model.U)
    labeled = Sample(sample.inputs @ model.V, torch.tensor([1.0, -1.0, 1.0]).double())
    second = second_order(LastLayer(head, head), labeled, Bernoulli(0.5, 6), Logistic()).value
    share = float(second.detach()) / _expected(model, sample.inputs, 0.5)
    found.append(compare(share, "==", 1.0, "second order over the penalty, small noise", precision=0.01))
    return found + _margins_of_laws(scale) + _midpoints(scale)


@torch.no_grad()
def _margins_of_laws(scale: float) -> list[Comparison]:
    """Units that fall together, as blocks or as a list says, normal noise, a bias and weighed examples."""
    found: list[Comparison] = []
    head, inputs = linear_head(4, 6, 1), normal(5, 4, 6)
    signs = torch.tensor([1.0, -1.0, -1.0, 1.0]).double()
    data = Sample(inputs, signs, uniform(6, 4) + 0.1)
    atoms, odds = uniform(7, 3, 6) + 0.1, tensor([0.2, 0.5, 0.3])
    masks = atoms / (odds @ atoms)
    mixed = Product((Bernoulli(tensor([0.3, 0.1]), 2), Block(tensor([0.6, 0.2]), 4, 2)))
    points, mass = np.polynomial.hermite_e.hermegauss(61)
    moves = torch.zeros(61, 6).double()
    moves[:, 2] = 0.5 * torch.from_numpy(points)  # noise of one unit
    variances = tensor([0.0, 0.0, 0.25, 0.0, 0.0, 0.0])
    cases = (
        (Block(tensor([0.4, 0.2, 0.7]), 6, 2), *listed(Block(tensor([0.4, 0.2, 0.7]), 6, 2))),
        (mixed, *listed(mixed)),
        (Discrete(atoms, odds), masks, odds),
        (Gaussian(variances, 6), 1 + moves, torch.from_numpy(mass / mass.sum())),
    )
    for law, multipliers, chances in cases:
        margins = signs * head(inputs * multipliers[:, None])[..., 0]
        each = chances @ nn.functional.softplus(-margins) - nn.functional.softplus(-signs * head(inputs)[:, 0])
        told = penalty(LastLayer.of(head), data, law, ClosedForm(), Logistic())
        found.append(compare(told.value, "==", scale * each @ data.shares, f"margins, {type(law).__name__}"))
    return found


def _midpoints(scale: float) -> list[Comparison]:
    """The integral by quadrature and by midpoints, with phi of all masks, beside the mean over them and the bound."""
    found = []
    for seed, drop in enumerate(DROPS):
        size = (0.3, 1.0, 3.0)[seed]
        kept, chances = (part.numpy() for part in every_coin([drop] * 5))
        terms, bias = size * normal(seed, 5).numpy(), float(normal(seed + 9, 1))
        margins = kept / (1 - drop) @ terms + bias
        mean = float(chances @ margins)
        truth = chances @ np.logaddexp(0, -margins) - np.logaddexp(0, -mean)

        def inside(t: float, moves: Array = scale * (margins - mean), mean: float = mean, p: Array = chances) -> float:
            return float(p @ (np.cos(mean * t) - np.cos((mean + moves) * t))) / (t * np.sinh(np.pi * t))

        whole = integrate.quad(inside, 1e-12, 12, limit=400, epsabs=1e-13, epsrel=1e-12)[0]
        found.append(compare(whole, "==", truth, f"the integral, rate {drop}"))
        sizes = chances @ (np.exp(margins) + np.exp(-margins))
        for length in (2.0, 4.0, 8.0, 16.0, 24.0):
            step = 2 * np.pi / length
            midpoints = step * sum(inside((k + 0.5) * step) for k in range(int(12 / step) + 1))
            most = sizes * np.exp(-length) / -np.expm1(-length)
            label = f"midpoints, rate {drop}, length {length}"
            found.append(compare(abs(midpoints - truth), "<=", most, label, precision=1e-12))
    return found


def consistency(factor: float) -> list[Comparison]:
    """R-Drop's divergence over all pairs of masks is `factor` times the penalty, the nearer the smaller the noise."""
    found = []
    for seed, drop in ((20, 0.5), (21, 0.2), (22, 0.7)):
        for size in (1e-2, 1e-3):
            model, sample = _head(3, seed, size)
            kept, chances = every_coin([drop] * 6)
            logs = torch.stack([model.outputs(sample.inputs, mask / (1 - drop)) for mask in kept]).log_softmax(-1)
            own = chances @ (logs.exp() * logs).sum(-1)
            across = torch.einsum("a,b,ank,bnk->n", chances, chances, logs.exp(), logs)
            ratio = float((own - across).mean()) / _expected(model, sample.inputs, drop)
            label = f"all pairs of masks, rate {drop}, noise {size}"
            # the next order is smaller by the noise; moves of a few units of it
            found.append(compare(ratio, "==", factor, label, precision=2 * size))
            if size == 1e-2:
                found += _drawn_pairs(model, sample.inputs, drop, own - across, factor)
    model, sample = _head(3, 20, 1e-2)
    head = nn.Linear(6, 3, bias=False).double()
    head.weight = nn.Parameter(model.U)
    # the penalty itself is of second order then: the Hessian's share against all masks
    hidden = Sample(sample.inputs @ model.V, sample.targets)
    second = second_order(LastLayer(head, head), hidden, Bernoulli(0.5, 6), CrossEntropy()).value
    share = float(second.detach()) / _expected(model, sample.inputs, 0.5)
    return [*found, compare(share, "==", 1.0, "second order over the penalty", precision=0.05)]


def _drawn_pairs(model: TwoLayerLinear, inputs: Tensor, drop: float, truth: Tensor, factor: float) -> list[Comparison]:
    """The layer's term is that of all pairs of its masks, and on average that of all masks, example by example.

    Its masks balance: of K a unit falls in K p of them, up to one, so that two differ more than independent ones do.
    """
    head = nn.Linear(6, 3, bias=False).double()
    head.weight = nn.Parameter(model.U)
    layer = ExplicitDropout(drop, head, CrossEntropy(), "sampled", masks=4)
    copies = 4000
    features = (inputs @ model.V).repeat_interleave(copies, 0)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        passed, drawn, added = layer(features), layer.consistencies, layer.penalties
    assert layer.logs is not None
    few = layer.logs[::copies]
    pairs = [(few[:, i].exp() * (few[:, i] - few[:, j])).sum(-1) for i, j in itertools.permutations(range(4), 2)]
    means, penalties = (values.reshape(-1, copies).mean(1) for values in (drawn, added))
    label, part = f"rate {drop}", 4 * drop % 1
    balanced = (4 - part * (1 - part) / (4 * drop * (1 - drop))) / 3
    return [
        compare(passed, "==", features, f"features pass, {label}"),
        compare(drawn[::copies], "==", torch.stack(pairs).mean(0), f"pairs of drawn masks, {label}", scale=0.0),
        # the copies are independent and scatter by about their mean: six standard errors
        compare(means / truth, "==", balanced, f"drawn masks against all, {label}", precision=0.1),
        compare(factor * penalties / truth, "==", 1.0, f"penalties of drawn masks, {label}", precision=0.1),
    ]


@torch.no_grad()
def _entropic(head: nn.Module, data: Sample, multipliers: Tensor, chances: Tensor) -> Tensor:
    """The mean over masks and examples by which the logarithm of the sum of exponentials grows."""
    outputs = head(data.inputs * multipliers[:, None, :])
    each = chances @ torch.logsumexp(outputs, -1) - torch.logsumexp(head(data.inputs), -1)
    assert data.weights is not None
    return each @ (data.weights / data.weights.sum())


def many_examples(scale: float) -> list[Comparison]:
    """Certified bounds of many weighed examples, of normal noise, of products and of large margins hold the truth."""
    found: list[Comparison] = []
    count = MANY + 7
    features, labels = normal(1, count, 4), torch.arange(count) % 3
    weights = uniform(2, count) + 0.1
    head = linear_head(3, 4, 3)
    data, model = Sample(features, labels, weights=weights), LastLayer.of(head)
    rates = tensor([0.1, 0.3, 0.5, 0.2])
    halves = Bernoulli(rates[:2], 2), Bernoulli(rates[2:], 2)
    laws = {"coins": Bernoulli(rates, 4), "products": Product(halves), "blocks": Product([halves[0], Block(0.4, 2, 2)])}
    for name, law in laws.items():
        truth = _entropic(head, data, *listed(law))
        told = penalty(model, data, law, Certified(), CrossEntropy())
        found.append(compare(told.lower, "<=", scale * truth, f"many from below, {name}"))
        found.append(compare(told.upper, ">=", scale * truth, f"many from above, {name}"))
        # the examples that are not looked at again leave a twentieth open, each of the others a fiftieth
        found.append(compare(told.upper - told.lower, "<=", 0.08 * truth, f"width for many, {name}"))
    part = Sample(features[:9], labels[:9], weights=weights[:9])
    points, mass = np.polynomial.hermite_e.hermegauss(41)
    nodes = torch.cartesian_prod(*[torch.from_numpy(points)] * 2)
    shares = torch.cartesian_prod(*[torch.from_numpy(mass / mass.sum())] * 2).prod(-1)
    narrow, few = linear_head(3, 2, 3), Sample(features[:9, :2], labels[:9], weights=weights[:9])
    truth = _entropic(narrow, few, 1 + tensor([0.25, 0.1]).sqrt() * nodes, shares)
    told = penalty(LastLayer.of(narrow), few, Gaussian(tensor([0.25, 0.1]), 2), Certified(), CrossEntropy())
    found.append(compare(told.lower, "<=", scale * truth, "normal noise from below", precision=1e-6))
    found.append(compare(told.upper, ">=", scale * truth, "normal noise from above", precision=1e-6))
    found.append(compare(told.upper - told.lower, "<=", 0.01 * truth, "width for normal noise", scale=0.0))
    pair = linear_head(5, 4, 2)
    binary = Sample(part.inputs, torch.arange(9) % 2, weights=part.weights)
    multipliers, chances = listed(laws["coins"])
    truth = _entropic(pair, binary, multipliers, chances)
    exact = penalty(LastLayer.of(pair), binary, Bernoulli(rates, 4), ClosedForm(), CrossEntropy())
    found.append(compare(exact.value, "==", scale * truth, "two classes"))
    found.append(compare(exact.error, "<=", 1e-9, "their error"))
    one = linear_head(7, 4, 1)
    with torch.no_grad():
        one.weight *= 3
        signs = torch.where(torch.arange(9) % 2 > 0, 1.0, -1.0).double()
        scores = one(part.inputs * multipliers[:, None, :])[..., 0]
        each = chances @ nn.functional.softplus(-scores * signs) - nn.functional.softplus(
            -one(part.inputs)[:, 0] * signs
        )
    told = penalty(
        LastLayer.of(one),
        Sample(part.inputs, signs, weights=part.weights),
        Bernoulli(rates, 4),
        ClosedForm(),
        Logistic(),
    )
    found.append(compare(told.value, "==", scale * each @ part.shares, "one margin"))
    return found
