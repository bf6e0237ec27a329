"""What the claims on negative weights compare: the best non-negative networks against gadgets and NOR networks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache

import numpy as np
import torch
from scipy.stats import binom, norm
from torch import Tensor

from droptics.evidence.claims import Comparison, Relation, compare
from droptics.models import ReLUNet
from droptics.papers.helmbold2017 import networks
from droptics.papers.helmbold2017.checks import exact
from droptics.papers.instances import descend, tensor


def binomial_tail(sizes: Sequence[int], excepted: Sequence[int] = ()) -> list[Comparison]:
    """Pr(Bin(n, 1/2) < n/2 - sqrt(n)/4) >= 1/4 for all these n, less for those `excepted`.

    Those up to 200 by counting, where it may be equal.

    k < n/2 - sqrt(n)/4 is 2k < n and 4 (n - 2k)^2 > n, in integers.
    """
    n = np.array(sizes)
    chances = binom.cdf(np.ceil(n / 2 - np.sqrt(n) / 4) - 1, n, 0.5)
    found = [compare(chances, ">=", 0.25, f"n from {n.min()} to {n.max()}, {len(n)} of them")]
    for few in [size for size in sizes if size <= 200]:
        count = sum(math.comb(few, k) for k in range((few + 1) // 2) if 4 * (few - 2 * k) ** 2 > few)
        found.append(compare(float(4 * count >= 2**few), "==", 1.0, f"by counting, n={few}"))
        told = binom.cdf(math.ceil(few / 2 - math.sqrt(few) / 4) - 1, few, 0.5)
        found.append(compare(told, "==", float(Fraction(count, 2**few)), f"both ways, n={few}"))
    for few in excepted:
        count = sum(math.comb(few, k) for k in range((few + 1) // 2) if 4 * (few - 2 * k) ** 2 > few)
        found.append(compare(count / 2**few, "<", 0.25, f"less, n={few}"))
    return found


def tail_beyond(size: int) -> list[Comparison]:
    """From this n on the same by Berry and Esseen: it is Phi(-1/2) up to .8/sqrt(n)."""
    return [compare(norm.cdf(-0.5) - 0.8 / math.sqrt(size), ">=", 0.25, f"n from {size} on")]


@cache
def least_nonnegative(sizes: tuple[int, ...]) -> tuple[float, ReLUNet]:
    """J_D on P_(1,1) at drop 1/2 where descent over squared weights and free biases ends, all masks written out."""
    masks = 2 * torch.cartesian_prod(*[tensor([0.0, 1.0])] * sum(sizes[:-1]))
    layer_masks = masks.split(list(sizes[:-1]), -1)
    X = torch.stack([torch.ones(sizes[0]), torch.zeros(sizes[0])]).double()

    def objective(*flat: Tensor) -> Tensor:
        value = X[:, None]
        for i, (root, bias, mask) in enumerate(zip(flat[::2], flat[1::2], layer_masks, strict=True)):
            value = (torch.relu(value) if i else value) * mask @ root.square().mT + bias
        return (value[..., 0].mT - tensor([1.0, 0.0])).square().mean()

    shapes = [shape for fan_in, fan_out in itertools.pairwise(sizes) for shape in ((fan_out, fan_in), (fan_out,))]
    best, found = descend(objective, shapes, starts=1, seed=4, size=0.7)
    return best, ReLUNet([root.square() for root in found[::2]], list(found[1::2]))


@cache
def least_grouped(groups: tuple[int, ...], width: int) -> float:
    """The same for many inputs in groups of equal weights: how many of each group are kept is all that counts."""
    grids = torch.cartesian_prod(*[torch.arange(size + 1.0, dtype=torch.float64) for size in groups])
    laws = [binom.pmf(grids[:, i].numpy(), size, 0.5) for i, size in enumerate(groups)]
    chances = torch.from_numpy(np.prod(laws, axis=0))

    def objective(root: Tensor, bias: Tensor, head: Tensor, offset: Tensor) -> Tensor:
        sent = head.square() * torch.relu(torch.cat([2 * grids, 0 * grids[:1]]) @ root.square().mT + bias)
        error = sent.sum(-1) + offset
        on = (error[:-1] - 1) ** 2 + sent[:-1].square().sum(-1)
        return (chances @ on + error[-1] ** 2 + sent[-1].square().sum()) / 2

    return descend(objective, [(width, len(groups)), (width,), (width,), (1,)], starts=1, seed=4, size=0.4)[0]


def equal_units(inputs: int, *widths: int) -> float:
    """Least J_D on P_(1,1) at drop 1/2 of networks of equal units, whose output is b, or slope times z + b.

    z is the product of the numbers of kept inputs and units, each binomial: two moments, and two normal equations.
    """
    counts = [np.arange(size + 1) for size in (inputs, *widths)]
    mean = math.prod(float(binom.pmf(k, len(k) - 1, 0.5) @ k) for k in counts)
    square = math.prod(float(binom.pmf(k, len(k) - 1, 0.5) @ k**2) for k in counts)
    # of J = (E (slope z + b - 1)^2 + b^2) / 2, in units of the mean of z
    slopes, target = np.array([[square / mean**2, 1.0], [1.0, 2.0]]), np.array([1.0, 1.0])
    return float(1 - target @ np.linalg.solve(slopes, target)) / 2


SHAPES = (2, 2, 1), (3, 2, 1), (1, 2, 2, 1), (2, 2, 2, 1)


def nonnegative_bound(
    share: float, bound: Callable[[int], float], shapes: Sequence[tuple[int, ...]] = SHAPES
) -> list[Comparison]:
    """J_D of networks with non-negative weights on P_(1,1) against share bound(K), drop 1/2.

    Networks of equal units, the best ones of two layers, come near the bound as they grow. Descent of two and three
    layers ends not below it, and for two layers not below the stated minimum, which `best_positive` attains.
    """
    found = []
    for sizes in ((1, 800), (2, 400), (3, 50), (19, 9), (19, 2000), (1, 900, 900), (2, 50, 400)):
        least = equal_units(*sizes)
        found.append(compare(least, ">=", share * bound(sizes[0]), f"equal units, sizes {sizes}"))
        if len(sizes) == 2:
            found.append(compare(networks.positive_minimum(*sizes), "==", least, f"stated minimum, sizes {sizes}"))
    least = least_grouped((10, 9), 2)
    found.append(compare(least, ">=", share * bound(19), "descent, 19 inputs in two groups, two units"))
    found.append(compare(least, ">=", networks.positive_minimum(19, 2), "above the minimum, 19 inputs"))
    for shape in shapes:
        least, model = least_nonnegative(shape)
        found.append(compare(least, ">=", share * bound(shape[0]), f"descent, sizes {shape}"))
        data = networks.two_points(torch.ones(shape[0]))
        found.append(compare(exact(model, data), "==", least, f"library, sizes {shape}"))
        if len(shape) == 3:
            stated = networks.positive_minimum(*shape[:2])
            found.append(compare(least, ">=", stated, f"descent above the minimum, sizes {shape}"))
    return found


def best_positive(scale: float) -> list[Comparison]:
    """The stated network attains J_pos, and its formula."""
    found = []
    for K, n, drop in ((2, 3, 0.5), (3, 1, 0.5), (5, 2, 0.5), (3, 2, 0.3), (4, 1, 0.6)):
        model = networks.positive_network(K, n, drop)
        value = exact(model, networks.two_points(torch.ones(K)), drop)
        found.append(compare(value, "==", scale * networks.positive_minimum(K, n, drop), f"K={K} n={n}"))
    found.append(compare(networks.positive_minimum(2, 3), "==", scale * 6 / (4 * 9), "K=2: (n+3)/(4(2n+3))"))
    return found


def negative_weights_win(cases: Sequence[tuple[int, int]], relation: Relation = "<") -> list[Comparison]:
    """NOR network against the best non-negative network, drop 1/2, both from moments of what their units send.

    With few inputs the criterion of the NOR network, too. n large: below 1/(2(K+2)), which no non-negative network of
    any width and depth reaches.
    """
    found = []
    for K, n in cases:
        gone, label = 2.0**-K, f"K={K} n={n}"
        # output b while an input is kept, else b - a s with s of mean 1 and square 1 + 1/n
        slopes = np.array([[2.0, -1 - gone], [-1 - gone, (1 + gone) * (1 + 1 / n)]])
        target = np.array([1.0, -gone])
        nor, positive = float(1 - target @ np.linalg.solve(slopes, target)) / 2, equal_units(K, n)
        found.append(compare(nor, relation, positive, label))
        found.append(compare(networks.nor_criterion(K, n), "==", nor, f"stated criterion, {label}"))
        found.append(compare(networks.positive_minimum(K, n), "==", positive, f"stated minimum, {label}"))
        if K <= 3:
            model = networks.nor_network(K, n)
            found.append(compare(exact(model, networks.two_points(torch.ones(K))), "==", nor, f"criterion, {label}"))
        if n >= 100:
            found.append(compare(nor, relation, 1 / (2 * (K + 2)), f"any non-negative network, {label}"))
    return found


def gadget_limit_wins(inputs: Sequence[int]) -> list[Comparison]:
    """N -> infinity: q^K/(2(1+q^K)) against q/(2(Kp+2q)) for every K >= 2; one input has nothing to gain."""
    found = []
    for K in inputs:
        for drop in (0.2, 0.5, 0.8):
            found.append(
                compare(
                    networks.gadget_limit(K, drop) / networks.positive_infimum(K, drop),
                    "<",
                    1.0,
                    f"K={K} q={drop}",
                )
            )
        n = 10**6 * K
        limit = networks.gadget_limit(K)
        found.append(compare(float(_gadgets(K, n, True)), "==", limit, f"gadgets, K={K} n={n}", 1e-5))
        found.append(
            compare(float(_equal_units(K, n)), "==", networks.positive_infimum(K), f"equal units, K={K}", 1e-5)
        )
    return found


def nor_value(scale: float) -> list[Comparison]:
    """Criterion of the NOR network against its formula."""
    found = []
    for K, n, drop in ((2, 3, 0.5), (3, 1, 0.5), (8, 2, 0.5), (3, 2, 0.3), (2, 5, 0.7)):
        value = exact(networks.nor_network(K, n, drop), networks.two_points(torch.ones(K)), drop)
        found.append(compare(value, "==", scale * networks.nor_criterion(K, n, drop), f"K={K} n={n}"))
    return found


def unscaled_limit(limit: float) -> list[Comparison]:
    """K = 2, bias 1/5, n -> infinity: criterion with output weights scaled by 4/5 (1/10) or not (.115)."""
    found = []
    for n in (256, 1024):
        scaled, plain = networks.gadget_network(2, n, 2, bias=0.2), networks.gadget_network(2, n, 2)
        printed = ReLUNet(plain.weights, [plain.biases[0], scaled.biases[1]])
        c = 2 / (2 * n * (1 + 2 / n))
        found.append(compare(printed.weights[1], "==", c, f"output weights of Lemma 10, n={n}", scale=1 / n))
        found.append(compare(scaled.weights[1], "==", 0.8 * c, f"scaled output weights, n={n}", scale=1 / n))
        for name, net, wanted in (("the printed network", printed, limit), ("scaled output weights", scaled, 0.1)):
            rest = (exact(net, networks.two_points(torch.ones(2))) - wanted).abs()
            found.append(compare(rest, "<=", 1 / n, f"distance to the limit, {name}, n={n}"))
    return found


def slope_step(root_over_width: bool) -> list[Comparison]:
    """Proof of Lemma 16: (1 - sqrt(2/9K) - sqrt(1/18K)) / (K/2 - sqrt(K)/4) > sqrt(32/9)/K, or > 1/sqrt(9/32K).

    All K from 19 to 10^5; the left side times K is 2 (1 - 1/sqrt(2K)) / (1 - 1/(2 sqrt(K))), more than its numerator,
    which grows and exceeds sqrt(32/9) from there on. With K below the root, on either side of its fraction, the bound
    is missed.
    """
    K = np.arange(19.0, 1e5)
    slopes = (1 - np.sqrt(2 / (9 * K)) - np.sqrt(1 / (18 * K))) / (K / 2 - np.sqrt(K) / 4)
    bounds = 1 / np.sqrt(9 / (32 * K)) if root_over_width else np.sqrt(32 / 9) / K
    found = [compare(K * slopes, ">", K * bounds, "K from 19 on")]
    for name, inside in (("9/(32K)", 9 / (32 * K)), ("(9/32)K", 9 / 32 * K)):
        found.append(compare(slopes, "<", 1 / np.sqrt(inside), f"below the root {name}"))
    # the next display, sqrt(K)/2 steps of such a slope
    found.append(compare(K * bounds / 2, "==", 2 * np.sqrt(2 / 9) + 0 * K, "the rise that contradicts (5)"))
    simple = 2 * (1 - 1 / np.sqrt(2 * K)) / (1 - 1 / (2 * np.sqrt(K)))
    found.append(compare(K * slopes, "==", simple, "K times the slope"))
    return [*found, compare(2 * (1 - 1 / math.sqrt(2 * K[-1])), ">", math.sqrt(32 / 9), "and beyond")]


def deep_gadgets_win(inputs: Sequence[int]) -> list[Comparison]:
    """Gadgets of two to five layers and n = 36 d K^2 against 1/(36K), which no non-negative network reaches (Lemma 16).

    Their least criterion is (1 - (E z)^2 / E z^2)/2, z the product of the numbers of key nodes and of units that are
    kept where an input is: binomial moments in whole numbers.
    """
    found = []
    for K, depth in itertools.product(inputs, (2, 3, 5)):
        n = 36 * depth * K**2
        alive = 1 - Fraction(1, 2**K)
        mean = alive * Fraction(n, 2 * K) * Fraction(n, 2) ** (depth - 2)
        square = alive * Fraction(n, 4 * K) * (1 + Fraction(n, K)) * Fraction(n * (n + 1), 4) ** (depth - 2)
        value, label = float(1 - mean**2 / square) / 2, f"K={K} n={n} d={depth}"
        found.append(compare(networks.gadget_criterion(K, n, depth), "==", value, f"formula, {label}"))
        found.append(compare(36 * K * value, "<", 1.0, f"against Lemma 16, {label}"))
    return found


def deep_pairs_win(depths: Sequence[int]) -> list[Comparison]:
    """K = 2: gadgets of these depths, n = 10 d and the best bias against 1/8, which no non-negative network is below.

    Their least criterion is t/(2(1+t)), t = 1 - (E z)^2 / E z^2 as in `deep_gadgets_win`; by the library, too.
    """
    found = []
    for depth in depths:
        n, label = 10 * depth, f"two inputs, n={10 * depth} d={depth}"
        mean = Fraction(3, 4) * Fraction(n, 4) * Fraction(n, 2) ** (depth - 2)
        square = Fraction(3, 4) * Fraction(n, 8) * (1 + Fraction(n, 2)) * Fraction(n * (n + 1), 4) ** (depth - 2)
        left = 1 - mean**2 / square
        value, bias = float(left / (1 + left)) / 2, float(left / (1 + left))
        found.append(compare(value, "<", 1 / 8, f"against 1/8, {label}"))
        net = networks.gadget_network(2, n, depth, bias=bias)
        found.append(compare(exact(net, networks.two_points(torch.ones(2))), "==", value, f"criterion, {label}"))
    return found


def _gadgets(inputs: int, width: int, biased: bool) -> Fraction:
    """Least J_D on P_(1,1) at drop 1/2 of gadgets: where an input is kept, a binomial number of n/K units fires."""
    alive = 1 - Fraction(1, 2**inputs)
    mean, square = (
        alive * Fraction(width, 2 * inputs),
        alive * Fraction(width, 4 * inputs) * (1 + Fraction(width, inputs)),
    )
    # of (E (slope z + b - 1)^2 + b^2) / 2 over the slope, and with a bias over both
    left = 1 - mean**2 / square
    return left / (1 + left) / 2 if biased else left / 2


def _equal_units(inputs: int, width: int) -> Fraction:
    """`equal_units` of one hidden layer in whole numbers: E z = K n / 4, E z^2 = K (K + 1) n (n + 1) / 16."""
    left = 1 - Fraction(inputs * width, (inputs + 1) * (width + 1))
    return left / (1 + left) / 2


def gadget_widths(earlier: int) -> list[Comparison]:
    """The least multiples of K from which on gadgets beat the best non-negative network, or so many multiples earlier.

    Both sides in rational numbers from moments of binomial numbers, beside the closed forms and, for few inputs, the
    criterion of the networks. Before the stated width no multiple wins; from it on all do up to where gadgets beat
    1/(2(K+2)), below which no non-negative network of any width comes, and gadgets fall with the width.
    """
    found = []
    for K, plain, biased in ((3, 27, 12), (4, 28, 20), (8, 72, 64), (16, 272, 240), (64, 4160, 4032)):
        for least, with_bias in ((plain, False), (biased, True)):
            name, first = f"K={K}{', with bias' if with_bias else ''}", least - earlier * K
            wins, n = [], K
            while n <= first or _gadgets(K, n, with_bias) >= Fraction(1, 2 * (K + 2)):
                wins.append(_gadgets(K, n, with_bias) < _equal_units(K, n))
                n += K
            found.append(compare(float(wins.index(True) + 1) * K, "==", float(first), f"{name}: the first that wins"))
            found.append(compare(float(sum(wins)), "==", float(len(wins) - first // K + 1), f"{name}: all after it"))
            for width in (least - K, least):
                bias = networks.gadget_best_bias(K, width, 2) if with_bias else 0.0
                value = networks.gadget_criterion(K, width, 2, bias=bias)
                found.append(compare(value, "==", float(_gadgets(K, width, with_bias)), f"{name}: gadgets, n={width}"))
                if K <= 4:
                    data = networks.two_points(torch.ones(K))
                    for net, wanted in (
                        (networks.gadget_network(K, width, 2, bias=bias), _gadgets(K, width, with_bias)),
                        (networks.positive_network(K, width), _equal_units(K, width)),
                    ):
                        found.append(compare(exact(net, data), "==", float(wanted), f"{name}: criterion, n={width}"))
    return found
