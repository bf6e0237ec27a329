"""What the claims of Helmbold and Long compare as inputs grow in number: supermodular networks, psi, embeddings.

Psi(l) is the mean output under dropout on x = 1 when l of K inputs are kept; n the width, q = drop, p = 1 - q.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.models import ReLUNet
from droptics.papers.helmbold2017 import networks
from droptics.papers.helmbold2017.checks import by_masks, exact, random_net, shallow_criterion
from droptics.papers.instances import descend, normal, simplex, tensor, uniform


def supermodular(last: float, convex: bool = True) -> list[Comparison]:
    """f(x+a+b) - f(x+a) - f(x+b) + f(x) >= 0 for steps a, b >= 0 and non-negative weights, one times `last`.

    ReLU by the library; other convex, non-decreasing activations written out, or, unless `convex`, the sigmoid.
    """
    found = []
    for seed, sizes in enumerate(((3, 4, 3, 1), (2, 5, 1), (4, 3, 2, 3, 1))):
        model, K = random_net(seed, sizes, True), sizes[0]
        top = model.weights[-1].clone()
        top[:, -1] *= last
        model = ReLUNet([*model.weights[:-1], top], model.biases)
        x = normal(seed + 20, 500, K)
        a, b = (2 * uniform(seed + 30 + i, 500, K) for i in range(2))

        def written(value: Tensor, activation: Callable[[Tensor], Tensor], model: ReLUNet = model) -> Tensor:
            for weight, bias in zip(model.weights[:-1], model.biases[:-1], strict=True):
                value = activation(value @ weight.mT + bias)
            return value @ model.weights[-1].mT + model.biases[-1]

        found.append(compare(model.outputs(x), "==", written(x, torch.relu), "ReLU, written out"))
        functions: dict[str, Callable[[Tensor], Tensor]] = {
            "ReLU": model.outputs,
            "softplus": partial(written, activation=torch.nn.functional.softplus),
            "leaky": partial(written, activation=lambda z: torch.maximum(z, 0.3 * z)),
            "square": partial(written, activation=lambda z: torch.relu(z).square()),
        }
        functions = functions if convex else {"sigmoid": partial(written, activation=torch.sigmoid)}
        for name, f in functions.items():
            slack = f(x + a + b) - f(x + a) - f(x + b) + f(x)
            found.append(compare(slack, ">=", 0.0, f"second difference, {name}", precision=1e-9))
    return found


def gadgets_are_not_supermodular() -> list[Comparison]:
    """Gadget networks at x = 0 with unit steps in two inputs: together they give what each gives alone."""
    found = []
    for K, n, depth in ((2, 2, 2), (3, 6, 2), (4, 4, 3)):
        model, steps = networks.gadget_network(K, n, depth), torch.eye(K, dtype=torch.float64)
        alone = model.outputs(steps)[0]
        for i, j in itertools.combinations(range(K), 2):
            points = torch.stack([steps[i] + steps[j], 0 * steps[i], steps[i], steps[j]])
            slack = tensor([1.0, 1.0, -1.0, -1.0]) @ model.outputs(points)
            found.append(compare(slack, "<", 0.0, f"second difference of gadgets, K={K} n={n}"))
            found.append(compare(slack, "==", -alone, f"minus one output, K={K} n={n}"))
    return found


def mean_output_by_count(model: ReLUNet, drop: float = 0.5) -> Tensor:
    """psi(l): mean dropout output on x = 1 over all masks of the hidden units and all that keep l inputs."""
    K, hidden = model.input_size, model.units - model.input_size
    masks = torch.cartesian_prod(*[tensor([0.0, 1.0])] * model.units)
    fired = masks[:, K:].sum(-1)
    outputs = model.outputs(torch.ones(1, K, dtype=torch.float64), masks[:, None] / (1 - drop))[:, 0, 0]
    chances = (1 - drop) ** fired * drop ** (hidden - fired)
    sums = torch.zeros(K + 1, dtype=torch.float64).index_add_(0, masks[:, :K].sum(-1).long(), chances * outputs)
    return sums / tensor([math.comb(K, kept) for kept in range(K + 1)])


def mean_by_count(power: float) -> list[Comparison]:
    """Definition 13: psi written out; over a binomial number of kept inputs it averages to the mean output.

    Psi of gadgets is 0 at 0 and 1/((1 + qK/(pn)) (1 + q/(pn))^(d-2))^power at all other numbers of inputs: not convex.
    """
    found = []
    for seed, sizes, drop in ((1, (4, 3, 1), 0.3), (2, (3, 2, 2, 1), 0.6)):
        model, K = random_net(seed, sizes), sizes[0]
        psi = mean_output_by_count(model, drop)
        found.append(compare(psi, "==", _written_psi(model, drop), f"psi, sizes {sizes}"))
        chances = tensor([math.comb(K, kept) * (1 - drop) ** kept * drop ** (K - kept) for kept in range(K + 1)])
        # the criterion falls by twice the mean output when the target rises from -1/2 to 1/2
        one = torch.ones(1, K, dtype=torch.float64)
        low, high = (by_masks(model, Sample(one, tensor([[target]])), drop) for target in (-0.5, 0.5))
        found.append(compare(2 * (chances @ psi), "==", low - high, f"mean output, sizes {sizes}"))
    for K, n, depth, drop in ((4, 4, 2, 0.5), (3, 6, 2, 0.5), (2, 4, 3, 0.3)):
        psi, odds = mean_output_by_count(networks.gadget_network(K, n, depth, drop), drop), drop / (1 - drop)
        best = ((1 + odds * K / n) * (1 + odds / n) ** (depth - 2)) ** -power
        found.append(compare(psi[0], "==", 0.0, f"gadgets without inputs, K={K} n={n}"))
        found.append(compare(psi[1:], "==", best, f"gadgets, K={K} n={n}"))
        found.append(compare(psi[2] - 2 * psi[1] + psi[0], "<", 0.0, f"second difference of gadgets, K={K} n={n}"))
    return found


def _written_psi(model: ReLUNet, drop: float) -> Tensor:
    """Psi without the library: every outcome below a layer meets every set of kept units of it."""
    K = model.input_size
    value = torch.cartesian_prod(*[tensor([0.0, 1.0])] * K)
    kept, chances = value.sum(-1).long(), torch.ones(2**K, dtype=torch.float64)
    for layer, (weight, bias) in enumerate(zip(model.weights, model.biases, strict=True)):
        if layer:
            coins = torch.cartesian_prod(*[tensor([0.0, 1.0])] * weight.shape[1])
            odds = (1 - drop - (1 - 2 * drop) * (1 - coins)).prod(-1)
            value = (value.clamp_min(0)[:, None] * coins).flatten(0, 1)
            chances, kept = torch.outer(chances, odds).flatten(), kept.repeat_interleave(len(coins))
        value = value @ weight.mT / (1 - drop) + bias
    sums = torch.zeros(K + 1, dtype=torch.float64).index_add_(0, kept, chances * value[:, 0])
    return sums / tensor([math.comb(K, count) for count in range(K + 1)])


def convex_in_count(positive: bool) -> list[Comparison]:
    """Psi is convex in the number of kept inputs for non-negative weights, depths 2 and 3, several rates."""
    found = []
    for seed, sizes in ((0, (5, 4, 1)), (1, (5, 4, 1)), (2, (5, 4, 1)), (3, (4, 3, 2, 1)), (4, (4, 3, 2, 1))):
        for drop in (0.2, 0.5, 0.7):
            net = random_net(seed, sizes, positive)
            psi = mean_output_by_count(net, drop)
            found.append(compare(psi, "==", _written_psi(net, drop), f"psi, sizes {sizes}, drop {drop}"))
            second = psi[2:] - 2 * psi[1:-1] + psi[:-2]
            found.append(compare(second, ">=", 0.0, f"second differences, sizes {sizes}, drop {drop}"))
    return found


def zero_embeddings(ones: int) -> list[Comparison]:
    """One gadget network on every zero-embedding of ((1, 1), 1): t = 1 - (1 - q^ones)/D with D of Lemma 10.

    Wide ones of bias 1/5 come near 1/10, on mixtures, too. Weights on inputs that are zero change no criterion, for
    networks in general position.
    """
    found = []
    cases = ((3, 3, 2, 0.0, 0.5), (3, 6, 2, 0.2, 0.5), (4, 4, 2, 0.2, 0.5), (3, 6, 2, 0.3, 0.3), (3, 3, 3, 0.2, 0.4))
    for K, n, d, bias, drop in cases:
        net, odds = networks.gadget_network(K, n, d, drop, bias), drop / (1 - drop)
        rest = 1 - (1 - drop**ones) / ((1 + odds * K / n) * (1 + odds / n) ** (d - 2))
        for pair in itertools.combinations(range(K), 2):
            value = exact(net, networks.two_points(_pair(K, pair)), drop)
            label = f"K={K} n={n} d={d} q={drop}, inputs {pair}"
            found.append(compare(value, "==", (bias**2 + rest * (1 - bias) ** 2) / 2, label))
    for K, n in ((3, 300), (4, 800)):
        net = networks.gadget_network(K, n, 2, bias=0.2)
        pairs = [_pair(K, pair) for pair in ((0, 1), (0, K - 1), (K - 2, K - 1))]
        shares = torch.cat([tensor([0.5]), simplex(K, 3) / 2])
        mixed = Sample(torch.stack([0 * pairs[0], *pairs]), tensor([[0.0], [1.0], [1.0], [1.0]]), shares)
        for data in (*map(networks.two_points, pairs), mixed):
            off = (exact(net, data) - 0.1).abs()
            found.append(compare(off, "<=", K / (2 * n), f"distance to 1/10, K={K} n={n}, {len(data)} examples"))
    for seed, drop in enumerate((0.5, 0.3, 0.7)):
        net, x = random_net(seed, (2, 2, 1)), normal(seed, 2)
        # the inputs that are zero before and after the others
        first = normal(seed + 5, 2, 4)
        first[:, seed : seed + 2] = net.weights[0]
        wide = ReLUNet([first, net.weights[1]], net.biases)
        embedded = nn.functional.pad(x, (seed, 2 - seed))
        plain = by_masks(net, networks.two_points(x), drop)
        found.append(compare(exact(wide, networks.two_points(embedded), drop), "==", plain, "two inputs that are zero"))
    return found + _no_negative_weights()


def _pair(inputs: int, pair: Sequence[int]) -> Tensor:
    """The 0/1 input with two ones."""
    return torch.zeros(inputs).double().index_fill(0, torch.tensor(pair), 1.0)


def _no_negative_weights() -> list[Comparison]:
    """Non-negative weights: descent ends at 1/8 or above, on a mixture and beside a fixed feature; wide ones at 1/8."""
    found = []
    for label, rows in (
        ("a mixture", [[0.0, 0, 0]] * 4 + [[1.0, 1, 0]] * 3 + [[0.0, 1, 1]]),
        ("a fixed feature", [[0.0, 0.7, 0], [1.0, 0.7, 1]]),
    ):
        data = Sample(tensor(rows), tensor([[float(i >= len(rows) / 2)] for i in range(len(rows))]))
        loss = shallow_criterion(data)
        shapes = [(2, 3), (2,), (2,), (1,)]
        least, (V, a, w, b) = descend(lambda V, a, w, b, loss=loss: loss(V**2, a, w**2, b), shapes, 1, 4, 0.7)
        found.append(compare(least, ">=", 1 / 8, f"non-negative weights, {label}"))
        value = exact(ReLUNet([V**2, w[None] ** 2], [a, b]), data)
        found.append(compare(value, "==", least, f"by the library, {label}"))
    best = networks.positive_network(2, 800)
    wide = ReLUNet([nn.functional.pad(best.weights[0], (1, 1)), best.weights[1]], best.biases)
    off = exact(wide, networks.two_points(_pair(4, (1, 2)))) - 1 / 8
    return [*found, compare(off, ">=", 0.0, "wide non-negative"), compare(off, "<=", 1 / 800, "and near 1/8")]
