"""What the claims of Helmbold and Long compare: exact criteria of small ReLU networks.

Letters: K inputs, width n, depth d, q = drop, p = 1 - q; J_D the expected squared loss under masks on inputs and hidden
units; P_(x,y) = half (x, y), half (0, 0).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor

from droptics.data import Sample
from droptics.equalization import rescale
from droptics.evidence.claims import Comparison, compare
from droptics.masks import Bernoulli
from droptics.models import ReLUNet
from droptics.papers.helmbold2017 import networks, unit_types
from droptics.papers.instances import coin_masks, descend, normal, simplex, tensor, uniform
from droptics.penalties import Enumerate, criterion, penalty, risk


def exact(model: ReLUNet, sample: Sample, drop: float | Tensor = 0.5) -> Tensor:
    """J_D by the exact routine."""
    return criterion(model, sample, Bernoulli(drop, model.units)).value


def by_masks(model: ReLUNet, sample: Sample, drop: float | Tensor) -> float:
    """J_D summed over all masks of inputs and hidden units, the network written out."""
    total, drops = 0.0, drop.tolist() if isinstance(drop, Tensor) else [drop] * model.units
    weights = torch.ones(len(sample)).double() if sample.weights is None else sample.weights
    for kept, chance in coin_masks(drops):
        value = masked_outputs(model.weights, model.biases, sample.inputs, kept / (1 - tensor(drops)))
        total += chance * float((value - sample.targets).square().sum(-1) @ weights / weights.sum())
    return total


def masked_outputs(weights: Sequence[Tensor], biases: Sequence[Tensor], value: Tensor, mask: Tensor) -> Tensor:
    """Outputs of the network written out, inputs and hidden units multiplied by the mask."""
    masks = mask.split([weight.shape[1] for weight in weights])
    for i, (weight, bias, part) in enumerate(zip(weights, biases, masks, strict=True)):
        value = (torch.relu(value) if i else value) * part @ weight.mT + bias
    return value


def shallow_criterion(data: Sample, drop: float = 0.5) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    """J_D of one hidden layer (V, a, w, b) on examples: all masks of the inputs, those of the units in closed form."""
    masks, chances = zip(*coin_masks([drop] * data.inputs.shape[1]), strict=True)
    rows, weights = data.inputs[:, None] * torch.stack(masks) / (1 - drop), tensor(chances)

    def objective(V: Tensor, a: Tensor, w: Tensor, b: Tensor) -> Tensor:
        sent = w * torch.relu(rows @ V.mT + a)
        error = (sent.sum(-1) + b - data.targets).square() + drop / (1 - drop) * sent.square().sum(-1)
        return (error @ weights).mean()

    return objective


def random_net(seed: int, sizes: Sequence[int], positive: bool = False) -> ReLUNet:
    """Random weights and biases; weights non-negative on request."""
    weights = [normal(seed + i, b, a) for i, (a, b) in enumerate(itertools.pairwise(sizes))]
    biases = [0.5 * normal(seed + 10 + i, size) for i, size in enumerate(sizes[1:])]
    return ReLUNet([w.abs() if positive else w for w in weights], biases)


def worked_example(printed: float) -> list[Comparison]:
    """Criterion 54, risk 64 at drop 1/2; the closed form at other rates; all masks written out."""
    ones = torch.ones(2, 2, dtype=torch.float64)
    model, sample = ReLUNet([ones, ones[:1]]), Sample(tensor([[1.0, -1.0]]), tensor([[8.0]]))
    terms = (8 - 8) ** 2 / 16 + 2 * (4 - 8) ** 2 / 16 + 13 * (0 - 8) ** 2 / 16
    found = [
        compare(exact(model, sample), "==", printed, "criterion"),
        compare(by_masks(model, sample, 0.5), "==", terms, "all 16 masks"),
        compare(criterion(model, sample, Bernoulli(0.5, 4), Enumerate()), "==", terms, "masks of the library"),
        compare(risk(model, sample), "==", 64.0, "risk"),
        compare(penalty(model, sample, Bernoulli(0.5, 4)), "==", printed - 64, "penalty"),
    ]
    # all weights one do not tell which nodes are ReLUs: the hidden ones, not the output
    inputs, head = tensor([[1.0, -2.0], [2.0, 1.0]]), tensor([[1.0, -3.0]])
    found.append(compare(ReLUNet([ones, head]).outputs(inputs), "==", tensor([[0.0], [-6.0]]), "the output is linear"))
    for drop in (0.1, 0.3, 0.7, 0.9):
        value = penalty(model, sample, Bernoulli(drop, 4))
        found.append(compare(value, "==", by_masks(model, sample, drop) - 64, f"penalty at {drop}"))
        found.append(compare(networks.worked_penalty(drop), "==", value, f"closed form at {drop}"))
    return found


def mixture(share: float) -> list[Comparison]:
    """J_D is linear in the distribution: P_(x,y) is half of each example, here by all masks one by one.

    So are three examples of unequal weights; the control gives the first of all more.
    """
    found = []
    for seed, sizes, y, drop in ((1, (3, 2, 1), 1.3, 0.4), (2, (2, 3, 1), -0.7, 0.5), (3, (2, 2, 2, 1), 2.0, 0.7)):
        model, x = random_net(seed, sizes), normal(seed + 1, sizes[0])
        both = exact(model, networks.two_points(x, y), drop)
        parts = [by_masks(model, Sample(v[None], tensor([[t]])), drop) for v, t in ((x, y), (0 * x, 0.0))]
        found.append(compare(both, "==", share * parts[0] + (1 - share) * parts[1], f"criterion, sizes {sizes}"))
        inputs, targets, weights = normal(seed + 2, 3, sizes[0]), normal(seed + 3, 3, 1), tensor([0.2, 0.7, 0.1])
        whole = exact(model, Sample(inputs, targets, weights=weights), drop)
        each = [by_masks(model, Sample(inputs[i, None], targets[i, None]), drop) for i in range(3)]
        shares = [share * 0.4, 0.7, 0.1 + (0.5 - share) * 0.4]
        mixed = sum(part * value for part, value in zip(shares, each, strict=True))
        found.append(compare(whole, "==", mixed, f"three weights, sizes {sizes}"))
    return found


def rescaled_inputs(power: float) -> list[Comparison]:
    """X -> A x with W_1 -> W_1 A^-1 (diagonal, signed) changes nothing; dropout by all masks one by one.

    Least criteria and the largest risk of their minimizers, the aversion, of one input by all types of units, and of
    two inputs in different units by descent. Another `power` than one is that of |A|^-1 in W_1.
    """
    found = []
    A = tensor([2.0, -0.5, 3.0])
    for seed, sizes in enumerate(((3, 2, 1), (3, 2, 2, 1), (3, 2, 2))):
        model = random_net(seed, sizes)
        sample = Sample(normal(seed + 5, 4, 3), normal(seed + 6, 4, sizes[-1]), simplex(seed, 4))
        other = ReLUNet([model.weights[0] * A.sign() / A.abs() ** power, *model.weights[1:]], model.biases)
        moved = Sample(sample.inputs * A, sample.targets, sample.weights)
        for drop in (0.3, 0.5, uniform(seed, model.units)):
            found.append(compare(exact(other, moved, drop), "==", by_masks(model, sample, drop), "criterion"))
        found.append(compare(risk(other, moved), "==", by_masks(model, sample, 0.0), "risk"))
    data = Sample(tensor([[1.0], [0.4]]), tensor([[1.0], [-0.3]]))
    for scale in (2.5, -0.6):
        moved = Sample(scale * data.inputs, data.targets)
        found += _least_alike(data, moved, 1.0, f"inputs times {scale}")
    return found + _two_inputs_alike(tensor([2.5, -0.6]))


def _two_inputs_alike(A: Tensor) -> list[Comparison]:
    """Least criterion of one unit and the risk of its minimizer, on two examples and on A x; the least risk is 0."""
    given, targets, ends = tensor([[1.0, 0.4], [-0.3, 0.8]]), tensor([[1.0], [-0.2]]), []
    for data in (Sample(given, targets), Sample(given * A, targets)):
        least, (V, a, w, b) = descend(shallow_criterion(data, 0.4), [(1, 2), (1,), (1,), (1,)], starts=4, seed=4)
        net = ReLUNet([V, w[None]], [a, b])
        ends.append((least, float(exact(net, data, 0.4)), float(risk(net, data))))
    (least, _, plain), (least_there, value_there, plain_there) = ends
    return [
        compare(least_there, "==", least, "least criterion by descent, two inputs", 1e-8),
        compare(value_there, "==", least, "criterion of its minimizer, two inputs", 1e-8),
        # the criterion is flat at its minimum: the minimizer is known to the root of its accuracy
        compare(plain_there, "==", plain, "risk of its minimizer, two inputs", 1e-5),
    ]


def _least_alike(data: Sample, other: Sample, factor: float, label: str) -> list[Comparison]:
    """Least criterion and aversion of two units on `other` are `factor` times those on `data`, one input."""
    (least, nets), (least_there, nets_there) = (unit_types.one_input_minima(of, 2, 0.4) for of in (data, other))
    risks, there = (max(by_masks(net, of, 0.0) for net in found) for of, found in ((data, nets), (other, nets_there)))
    return [
        compare(least_there, "==", factor * least, f"least criterion, {label}"),
        compare(there, "==", factor * risks, f"largest risk of its minimizers, {label}", 1e-7),
    ]


def rescaled_layers(grow_bias: bool, swap: bool = False) -> list[Comparison]:
    """Layer j times c_j and its bias times the product so far: every masked output is multiplied by the product.

    Where it is one, criterion, penalty and risk stay. With `swap` the other way round, as the printed proof has it.
    """
    found = []
    model = random_net(3, (3, 2, 2, 1))
    given = (
        [normal(3, 2, 3), normal(4, 2, 2), normal(5, 1, 2)],
        [0.5 * normal(13 + i, n) for i, n in enumerate((2, 2, 1))],
    )
    nodes = rescale(model, [tensor([2.0, 0.4]), tensor([0.6, 1.9])])
    X = normal(4, 5, 3)
    for scales in ((2.0, 0.3, 1.7), (2.0, 0.3, 1 / 0.6)):
        weights, biases, product = [], [], 1.0
        for weight, bias, c in zip(model.weights, model.biases, scales, strict=True):
            product *= c
            weights.append(c * weight)
            biases.append((product if grow_bias else c) * bias)
        other = ReLUNet(weights, biases)
        first, second = (model, other) if swap else (other, model)
        for seed in range(4):
            mask = 2 * (uniform(seed, model.units) < 0.5).double()
            found.append(compare(first.outputs(X, mask), "==", product * second.outputs(X, mask), "masked outputs"))
            found.append(compare(nodes.outputs(X, mask), "==", model.outputs(X, mask), "nodes rescaled by the library"))
            found.append(compare(model.outputs(X, mask), "==", masked_outputs(*given, X, mask), "written out"))
    sample, coins = Sample(X, normal(5, 5, 1)), Bernoulli(0.4, model.units)
    for name, changed in (("layers", other), ("nodes", nodes)):
        for quantity in (partial(criterion, masks=coins), partial(penalty, masks=coins), risk):
            found.append(compare(quantity(changed, sample), "==", quantity(model, sample), f"product one: {name}"))
    masked, clean = by_masks(model, sample, 0.4), masked_outputs(*given, X, torch.ones(model.units).double())
    plain = (clean - sample.targets).square().sum(-1).mean()
    found.append(compare(criterion(model, sample, coins), "==", masked, "criterion over all masks"))
    found.append(compare(penalty(model, sample, coins), "==", masked - plain, "penalty over all masks"))
    found.append(compare(risk(model, sample), "==", plain, "loss without masks"))
    return found


def rescaled_labels(power: int) -> list[Comparison]:
    """Labels times c with output weights and bias times c: every criterion, by all masks, times c^2; so the aversion.

    Least criteria and the largest risk of their minimizers of one input by all types of units.
    """
    found, model = [], random_net(5, (3, 3, 1))
    sample = Sample(normal(6, 4, 3), normal(7, 4, 1))
    data = Sample(tensor([[1.0], [0.4]]), tensor([[1.0], [-0.3]]))
    for c in (-1.7, 0.6):
        other = ReLUNet([model.weights[0], c * model.weights[1]], [model.biases[0], c * model.biases[1]])
        moved, factor = Sample(sample.inputs, c * sample.targets), abs(c) ** power
        for drop in (0.5, tensor([0.2, 0.6, 0.3, 0.1, 0.5, 0.4])):
            stated = factor * by_masks(model, sample, drop)
            found.append(compare(exact(other, moved, drop), "==", stated, f"criterion, c={c}"))
        found.append(compare(risk(other, moved), "==", factor * by_masks(model, sample, 0.0), f"risk, c={c}"))
        found += _least_alike(data, Sample(data.inputs, c * data.targets), factor, f"labels times {c}")
    return found


def first_one(later: float) -> list[Comparison]:
    """On every 0/1 input but zero the first hidden layer sums to n/K, and one node of each gadget fires.

    Node i of a gadget has weight 1 on input i, -1 on those before it and `later` on those after it, that is none.
    """
    found = []
    for K, n in ((4, 4), (3, 6), (2, 8), (1, 3), (5, 5)):
        gadget = [[-1.0] * i + [1.0] + [later] * (K - i - 1) for i in range(K)]
        rows = tensor(gadget * (n // K))
        net = ReLUNet([rows, torch.ones(1, n, dtype=torch.float64)])
        for bits in itertools.product((0.0, 1.0), repeat=K):
            x = tensor([bits])
            found.append(compare(net.outputs(x), "==", n / K * any(bits), f"sum at {bits}, n={n}"))
            fired = torch.relu(x @ rows.mT).reshape(-1, K)
            wanted = tensor([float(bit and not any(bits[:i])) for i, bit in enumerate(bits)])
            found.append(compare(fired, "==", wanted, f"nodes of each gadget at {bits}, n={n}"))
        built = networks.gadget_network(K, n, 2).weights[0]
        found.append(compare(built, "==", rows, f"weights of the network, K={K} n={n}"))
    return found


CASES = ((2, 2, 2), (3, 6, 2), (2, 4, 3), (1, 2, 2), (2, 2, 4))


def gadget_value(power: int, cases: Sequence[tuple[int, int, int]] = CASES) -> list[Comparison]:
    """J_D of the gadget network on P_(1,1) with output weights K^(power-1) times the best, c = pK/(n^(d-1) D).

    Against (1 - (1-q^K)/D)/2, and at weights nearby it is more. Small ones by all masks.
    """
    found = []
    for K, n, d in cases:
        gadget = [[-1.0] * i + [1.0] + [0.0] * (K - i - 1) for i in range(K)]
        ones, data = torch.ones(n, n, dtype=torch.float64), networks.two_points(torch.ones(K))
        for drop in (0.5, 0.3):
            odds, label = drop / (1 - drop), f"K={K} n={n} d={d} q={drop}"
            noise = (1 + odds * K / n) * (1 + odds / n) ** (d - 2)
            stated = (1 - (1 - drop**K) / noise) / 2
            head = (1 - drop) * K**power / (n ** (d - 1) * noise)
            nets = [
                ReLUNet([tensor(gadget * (n // K)), *[ones] * (d - 2), f * head * ones[:1]]) for f in (1.0, 0.9, 1.1)
            ]
            value, *others = (exact(net, data, drop) for net in nets)
            found.append(compare(value, "==", stated, label))
            # a parabola in the output weights: its least value is halfway between equal ones
            found.append(compare(others[0], "==", others[1], f"less and more output weight, {label}"))
            found += [compare(other, ">", stated, f"other output weights, {label}") for other in others]
            if nets[0].units <= 6:
                found.append(compare(value, "==", by_masks(nets[0], data, drop), f"all masks, {label}"))
            found.append(compare(networks.gadget_criterion(K, n, d, drop), "==", stated, f"formula, {label}"))
            built = networks.gadget_network(K, n, d, drop).weights[-1]
            found.append(compare(built, "==", (1 - drop) * K / (n ** (d - 1) * noise), f"weights, {label}"))
    return found


def gadget_bias(share: float) -> list[Comparison]:
    """With the best bias and output weights (1-b)c (share 1) the criterion is t/(2(1+t)), and more at biases nearby."""
    found = []
    for K, n, d in ((2, 4, 2), (3, 6, 2), (2, 2, 3)):
        t = 1 - (1 - 0.5**K) / ((1 + K / n) * (1 + 1 / n) ** (d - 2))
        bias = networks.gadget_best_bias(K, n, d)

        def reached(bias: float, sizes: tuple[int, int, int] = (K, n, d)) -> float:
            model = networks.gadget_network(*sizes, bias=bias)
            head = model.weights[-1] / (1 - bias) ** (1 - share)
            net = ReLUNet([*model.weights[:-1], head], model.biases)
            return float(exact(net, networks.two_points(torch.ones(sizes[0]))))

        label, value = f"K={K} n={n} d={d}", reached(bias)
        found.append(compare(bias, "==", t / (1 + t), f"best bias, {label}"))
        found.append(compare(value, "==", t / (2 * (1 + t)), f"criterion, {label}"))
        found += [
            compare(reached(f * bias), ">", value, f"criterion at {f} times the bias, {label}") for f in (0.9, 1.1)
        ]
        found.append(compare(networks.gadget_criterion(K, n, d, bias=bias), "==", value, f"formula, {label}"))
    for d in (2, 3):  # the formula is off its limit by O(1/n)
        found.append(compare(networks.gadget_best_bias(2, 10**12, d), "==", 1 / 5, f"limit of the bias, d={d}"))
        limit = networks.gadget_criterion(2, 10**12, d, bias=1 / 5)
        found.append(compare(limit, "==", 1 / 10, f"limit of the criterion, d={d}"))
    return found


def growth(bound: Callable[[int], float]) -> list[Comparison]:
    """Criterion of the equal-weights network against y^2 bound(K), at drop 1/2, and its exact formula at any.

    Under masks the output is y times the product of the kept shares of every layer over p: two moments of binomial
    numbers. Small networks by the library and by all masks. Labels up to the largest, and zero.
    """
    found = []
    cases = ((4, 12, 2, 3.0), (2, 4, 3, 32.0), (3, 2, 2, 1.5), (4, 400, 2, 7.0), (2, 2, 3, 0.0), (1, 3, 2, 0.2))
    for (K, n, d, y), drop in itertools.product(cases, (0.5, 0.3)):
        label, data = f"K={K} n={n} d={d} q={drop}", networks.one_point(torch.ones(K), y)
        moment = 1.0
        for size in (K, *[n] * (d - 1)):
            chances = [math.comb(size, k) * (1 - drop) ** k * drop ** (size - k) for k in range(size + 1)]
            moment *= sum(chance * (k / (size * (1 - drop))) ** 2 for k, chance in enumerate(chances))
        value = y**2 * (moment - 1)
        found.append(compare(networks.growth_criterion(K, n, d, y, drop), "==", value, f"formula, {label}"))
        model = networks.growth_network(K, n, d, y)
        weight = (y / (K * n ** (d - 1))) ** (1 / d)
        found += [compare(layer, "==", weight, f"weights, {label}") for layer in model.weights]
        found.append(compare(risk(model, data), "==", 0.0, f"risk, {label}", scale=y**2 + 1))
        if K + n * (d - 1) <= 12:
            found.append(compare(exact(model, data, drop), "==", value, f"library, {label}"))
        if K + n * (d - 1) <= 6:
            found.append(compare(by_masks(model, data, drop), "==", value, f"all masks, {label}"))
        if drop == 0.5:
            found.append(compare(value, ">=", y**2 * bound(K), f"bound, {label}"))
    return found


def growth_decay(factor: float) -> list[Comparison]:
    """L2 criterion of the equal-weights network, risk zero, against its exact value and `factor` times the bound.

    No weight exceeds one up to the largest label; for K = n = 1 the bound is attained. At other labels the risk is the
    square of what they are off.
    """
    found = []
    for K, n, d, y in ((4, 3, 2, 3.0), (2, 4, 3, 32.0), (1, 1, 2, 0.8), (2, 2, 4, 11.0), (4, 4, 2, 0.0)):
        model, label = networks.growth_network(K, n, d, y), f"K={K} n={n} d={d}"
        plain = float(risk(model, networks.one_point(torch.ones(K), y)))
        found.append(compare(plain, "==", 0.0, f"risk, {label}", scale=y**2 + 1))
        missed = risk(model, networks.one_point(torch.ones(K), y - 3))
        found.append(compare(missed, "==", 9.0, f"risk three off, {label}", scale=y**2 + 1))
        total = plain + 0.35 * sum(float(weight.square().sum()) for weight in model.weights)
        found.append(compare(total, "==", networks.growth_weight_decay(K, n, d, y, 0.7), f"exact, {label}"))
        bound = 0.35 * y ** (2 / d) * (K * n + n**2 * (d - 2) + n)
        found.append(compare(total, "<=", factor * bound, f"bound, {label}"))
        found += [compare(weight.abs(), "<=", 1.0, f"weights, {label}") for weight in model.weights]
    return found


def negative_penalties(sign: float) -> list[Comparison]:
    """A negative input, hidden weight or hidden bias can make the penalty negative."""
    found = []
    for name, model, sample, value in networks.negative_examples():
        ours = penalty(model, sample, Bernoulli(0.5, model.units))
        found.append(compare(ours, "==", sign * value, f"negative {name}"))
        found.append(compare(ours, "<", 0.0, f"below zero, negative {name}"))
        masked = by_masks(model, sample, 0.5) - by_masks(model, sample, 0.0)
        found.append(compare(ours, "==", masked, f"all masks, negative {name}"))
    return found


def output_signs_alone(inputs_positive: bool) -> list[Comparison]:
    """Nothing negative, or output parameters alone: the penalty is never negative, since hidden units stay linear.

    Then it is the variance of the output over masks; one and two hidden layers, three rates, of one example and of
    three that count differently.
    """
    found = []
    for seed, sizes in itertools.product(range(15), ((2, 3, 1), (2, 2, 2, 1))):
        net = random_net(seed, sizes, True)
        signs = 1.0 if seed % 3 == 0 else -1.0 if seed % 3 == 1 else normal(seed, 1, sizes[-2]).sign()
        biases = [bias.abs() for bias in net.biases[:-1]]
        model = ReLUNet([*net.weights[:-1], signs * net.weights[-1]], [*biases, net.biases[-1]])
        count, drop = 1 if seed % 2 else 3, (0.5, 0.2, 0.8)[seed % 5 % 3]
        X, y = normal(seed + 2, count, sizes[0]), 5 * normal(seed + 5, count, 1)
        data = Sample(X.abs() if inputs_positive else X, y, simplex(seed, count))
        value, label = penalty(model, data, Bernoulli(drop, model.units)), f"sizes {sizes}, drop {drop}, seed {seed}"
        found.append(compare(value, ">=", 0.0, f"penalty, {label}"))
        if seed < 4:
            masked = by_masks(model, data, drop) - by_masks(model, data, 0.0)
            found.append(compare(value, "==", masked, f"all masks, {label}"))
    return found


def label_dependence(slope: float) -> list[Comparison]:
    """Penalty as a function of the label: linear with slope -4 q for x = (1, -2), all weights one; over all masks."""
    found = []
    ones = torch.ones(2, 2, dtype=torch.float64)
    model = ReLUNet([ones, ones[:1]])
    for drop in (0.01, 0.2, 0.5, 0.8, 0.99):
        values = []
        for y in (0.0, 1.0, 8.0, -3.0):
            sample, label = Sample(tensor([[1.0, -2.0]]), tensor([[y]])), f"q={drop}, y={y}"
            values.append(float(penalty(model, sample, Bernoulli(drop, 4))))
            masked = by_masks(model, sample, drop) - y**2
            found.append(compare(values[-1], "==", masked, f"all masks, {label}"))
            found.append(compare(networks.worked_penalty(drop, y), "==", values[-1], f"closed form, {label}"))
            found.append(compare(values[-1] - values[0], "==", slope * drop * y, f"change from y=0, {label}"))
    return found


def not_monotone(drops: tuple[float, float, float]) -> list[Comparison]:
    """Penalty of the worked example at three rates: it falls and rises again; so do those of many random networks.

    Of 60 networks in general position, all masks written out, a fifth or more have penalties that rise and fall.
    """
    model, sample = networks.worked_example()
    low, middle, high = (float(penalty(model, sample, Bernoulli(drop, 4))) for drop in drops)
    found = [compare(middle, "<", low, "falls first"), compare(high, ">", middle, "and rises")]
    for drop, value in zip(drops, (low, middle, high), strict=True):
        masked = by_masks(model, sample, drop) - by_masks(model, sample, 0.0)
        found.append(compare(value, "==", masked, f"all masks, drop {drop}"))
    masks, rates, turns = torch.cartesian_prod(*[tensor([0.0, 1.0])] * 4), torch.linspace(0.05, 0.95, 19).double(), 0
    chances = ((1 - rates[:, None, None]) * masks + rates[:, None, None] * (1 - masks)).prod(-1)
    scaled = masks / (1 - rates[:, None, None])
    for seed in range(60):
        net, x, y = random_net(seed, (2, 2, 1)), normal(seed + 50, 2), 3 * float(normal(seed + 60, 1))
        sent = torch.relu((x * scaled[..., :2]) @ net.weights[0].mT + net.biases[0]) * scaled[..., 2:]
        losses = (sent @ net.weights[1][0] + net.biases[1] - y).square()
        slopes = (chances * losses).sum(-1).diff()
        turns += bool((slopes > 1e-6).any() and (slopes < -1e-6).any())
    return [*found, compare(turns, ">=", 12, "networks whose penalty rises and falls, of 60")]
