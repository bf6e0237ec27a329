"""What the claims on negative weights compare: the best non-negative networks against gadgets and NOR networks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.stats import binom

from droptics.evidence.claims import Comparison, Relation, compare
from droptics.papers.helmbold2017 import networks
from droptics.papers.helmbold2017.checks import exact, random_net


def binomial_tail(sizes: Sequence[int]) -> list[Comparison]:
    """Pr(Bin(n, 1/2) < n/2 - sqrt(n)/4) >= 1/4 for all these n."""
    n = np.array(sizes)
    chances = binom.cdf(np.ceil(n / 2 - np.sqrt(n) / 4) - 1, n, 0.5)
    return [compare(chances, ">=", 0.25, f"n from {n.min()} to {n.max()}, {len(n)} of them")]


def nonnegative_bound(bound: Callable[[int], float], relation: Relation = ">=") -> list[Comparison]:
    """J_D of networks with non-negative weights on P_(1,1) against a lower bound, and the best ones of depth 2."""
    found = []
    for K in (1, 2, 3, 19):
        for n in (1, 2, 50):
            found.append(compare(networks.positive_minimum(K, n), relation, bound(K), f"best network, K={K} n={n}"))
    for seed in range(6):
        model = random_net(seed, (3, 3, 1), True)
        value = exact(model, networks.two_points(torch.ones(3)))
        found.append(compare(value, relation, bound(3), "random non-negative network"))
    return found


def best_positive(scale: float) -> list[Comparison]:
    """The stated network attains J_pos, and its formula."""
    found = []
    for K, n, drop in ((2, 3, 0.5), (3, 2, 0.3), (4, 1, 0.6)):
        model = networks.positive_network(K, n, drop)
        value = exact(model, networks.two_points(torch.ones(K)), drop)
        found.append(compare(value, "==", scale * networks.positive_minimum(K, n, drop), f"K={K} n={n}"))
    found.append(compare(networks.positive_minimum(2, 3), "==", scale * 6 / (4 * 9), "K=2: (n+3)/(4(2n+3))"))
    return found


def negative_weights_win(cases: Sequence[tuple[int, int]], relation: Relation = "<") -> list[Comparison]:
    """NOR network against the best non-negative network, drop 1/2."""
    return [
        compare(networks.nor_criterion(K, n), relation, networks.positive_minimum(K, n), f"K={K} n={n}")
        for K, n in cases
    ]


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
    return found


def nor_value(scale: float) -> list[Comparison]:
    """Criterion of the NOR network against its formula."""
    found = []
    for K, n, drop in ((2, 3, 0.5), (3, 2, 0.3), (2, 5, 0.7)):
        value = exact(networks.nor_network(K, n, drop), networks.two_points(torch.ones(K)), drop)
        found.append(compare(value, "==", scale * networks.nor_criterion(K, n, drop), f"K={K} n={n}"))
    return found


def unscaled_limit(limit: float) -> list[Comparison]:
    """K = 2, bias 1/5, n -> infinity: criterion with output weights scaled by 4/5 (1/10) or not (.115)."""
    n = 2**20
    t = 2 * networks.gadget_criterion(2, n, 2)
    scaled = networks.gadget_criterion(2, n, 2, bias=0.2)
    # without the factor 4/5 the output is b + 1 when an input is kept, which has probability 1 - t
    plain = (0.2**2 + (1 - t) * 0.2**2 + t * (1 - 0.2) ** 2) / 2
    return [
        compare(plain, "==", limit, "limit of the printed network", precision=1e-3),
        compare(scaled, "==", 0.1, "limit with scaled output weights", precision=1e-3),
    ]


def slope_step(root_over_width: bool) -> list[Comparison]:
    """Proof of Lemma 16: (1 - sqrt(2/9K) - sqrt(1/18K)) / (K/2 - sqrt(K)/4) > sqrt(32/9)/K, or > 1/sqrt(9/32K)."""
    found = []
    for K in (19, 20, 50, 1000):
        slope = (1 - np.sqrt(2 / (9 * K)) - np.sqrt(1 / (18 * K))) / (K / 2 - np.sqrt(K) / 4)
        bound = 1 / np.sqrt(9 / (32 * K)) if root_over_width else np.sqrt(32 / 9) / K
        found.append(compare(slope, ">", bound, f"K={K}"))
    return found


def gadget_widths(earlier: int) -> list[Comparison]:
    """The least multiples of K at which gadgets beat the best non-negative network, or so many multiples earlier."""
    found = []
    for K, plain, biased in ((3, 27, 12), (4, 28, 20), (8, 72, 64), (16, 272, 240), (64, 4160, 4032)):
        for least, with_bias in ((plain, False), (biased, True)):

            def value(n: int, K: int = K, with_bias: bool = with_bias) -> float:
                bias = networks.gadget_best_bias(K, n, 2) if with_bias else 0.0
                return networks.gadget_criterion(K, n, 2, bias=bias)

            name = f"K={K}{', with bias' if with_bias else ''}"
            first, before = least - earlier * K, least - K
            found.append(compare(value(first), "<", networks.positive_minimum(K, first), f"{name}: n={first}"))
            beaten = compare(value(before), ">=", networks.positive_minimum(K, before), f"{name}: n={before}")
            found.append(beaten)
    return found
