"""The appendix of the thesis: inequalities it borrows (Lemmas 20, 21 and Theorem 20 stand with their chapters)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache, partial

import numpy as np
import torch
from scipy.integrate import quad, simpson
from scipy.stats import binom, chi, norm
from torch import Tensor

from droptics.bounds import gaussian_tail, hoeffding, martingale, squared, uniform
from droptics.evidence.claims import Claim, Comparison, Relation, compare
from droptics.papers.instances import normal, tensor

SOURCE = "Mianjy thesis (Johns Hopkins), appendix"


def khintchine(lower: float) -> list[Comparison]:
    """Lower sqrt(sum ||x||^2) <= E ||sum zeta x|| <= sqrt(sum ||x||^2), all signs listed.

    Thousands of sets of vectors for each count and dimension: random ones, of very different lengths, with zeros and
    near to two equal vectors, where the lower constant is reached; one vector reaches the upper one.
    """
    found = []
    for n, size in itertools.product(range(1, 6), (1, 3)):
        signs = tensor(list(itertools.product((1.0, -1.0), repeat=n)))
        plain = normal(n, 2000, n, size)
        spread = plain * (3 * normal(n + 1, 2000, n, 1)).exp() * (normal(n + 2, 2000, n, 1) > -0.5)
        equal = tensor([[1.0] * size] * min(n, 2) + [[0.0] * size] * (n - 2))
        X = torch.cat([plain, spread, equal + 0.01 * plain, equal[None]])
        X = X[X.square().sum((1, 2)) > 0]
        share = (signs @ X).norm(dim=2).mean(1) / X.square().sum((1, 2)).sqrt()
        found.append(compare(share, ">=", lower, f"lower, {n} vectors, {size} entries"))
        found.append(compare(share, "<=", 1.0, f"upper, {n} vectors, {size} entries"))
        found.append(compare(share[-1], "==", 2**-0.5 if n > 1 else 1.0, "two equal vectors" if n > 1 else "one"))
    return found


def hoeffding_tail(rate: float) -> list[Comparison]:
    """P(sum X_i >= t) against exp(-rate t^2/sum range^2): fair coins, and biased ones of different ranges, all listed.

    Six standard deviations out, where the factor in front of a normal tail is spent, a larger rate than 2 fails.
    """
    found = []
    ends = [(-0.5, 1.0), (-2.0, 0.5), (-1.0, 1.0), (-0.3, 0.2), (-1.0, 3.0)]  # each of mean zero
    for t in (0.5, 2.0, 4.0):
        exact = 0.0
        for choice in itertools.product((0, 1), repeat=len(ends)):
            drawn = list(zip(ends, choice, strict=True))
            chance = math.prod((-low if up else high) / (high - low) for (low, high), up in drawn)
            exact += chance * (sum(pair[up] for pair, up in drawn) >= t)
        limit = math.exp(-rate * t**2 / sum((high - low) ** 2 for low, high in ends))
        found.append(compare(exact, "<=", limit, f"five ranges, t={t}"))
        ours = hoeffding(t, [high - low for low, high in ends])
        stated = math.exp(-2 * t**2 / sum((high - low) ** 2 for low, high in ends))
        found.append(compare(ours, "==", stated, f"library, five ranges, t={t}", scale=0.0))
    for n in (5, 20, 101, 2000):
        for t in (1.0, n**0.5, 2 * n**0.5, 6 * n**0.5):
            exact = float(binom.sf(math.ceil((n + t) / 2) - 1, n, 0.5))
            limit = math.exp(-rate * t**2 / (4 * n))
            found.append(compare(exact / limit, "<=", 1.0, f"share of the bound, n={n}, t={t:.2f}"))
    return found


def gaussian(scale: float) -> list[Comparison]:
    """Exact tails of functions of Gaussians whose means are known: a linear one, a norm, the largest of d, a kink.

    rho times a unit linear function, ||z||, max_i z_i and |z_1| are rho-Lipschitz. A linear function has half of the
    bound near t = 0; the bound itself is exp(-t^2/(2 rho^2)).
    """
    found = []
    largest = {d: float(quad(lambda x, d=d: x * d * norm.pdf(x) * norm.cdf(x) ** (d - 1), -9, 12)[0]) for d in (2, 50)}
    tails: list[tuple[str, Callable[[float], float]]] = [
        ("linear", norm.sf),
        ("|z|", lambda t: chi.sf(t + chi.mean(1), 1)),
        *((f"norm, d={d}", lambda t, d=d: chi.sf(t + chi.mean(d), d)) for d in (2, 30)),
        *((f"largest, d={d}", lambda t, d=d: 1 - norm.cdf(t + largest[d]) ** d) for d in (2, 50)),
    ]
    for (t, rho), (name, tail) in itertools.product(
        ((0.0, 1.0), (0.001, 1.0), (2.0, 1.0), (3.0, 2.0), (0.7, 0.2)), tails
    ):
        limit = math.exp(-((t / rho) ** 2) / 2)
        found.append(compare(float(tail(t / rho)) / limit, "<=", scale, f"{name}, t={t}, rho={rho}"))
        found.append(compare(gaussian_tail(t, rho), "==", limit, f"library, t={t}, rho={rho}", scale=0.0))
    return found


def gaussian_moments() -> list[Comparison]:
    """E e^(s (f - E f)) <= e^(s^2/2) for the functions of `gaussian`, rho = 1; a linear one attains it.

    By Simpson's rule with steps of .005, whose error h^4 is below 1e-8 of these integrals.
    """
    found = []
    line, half = np.linspace(-12, 20, 6401), np.linspace(0, 20, 4001)
    laws: list[tuple[str, np.ndarray, np.ndarray]] = [
        ("linear", line, norm.pdf(line)),
        *((f"norm, d={d}", half, chi.pdf(half, d)) for d in (1, 2, 30)),
        *((f"largest, d={d}", line, d * norm.pdf(line) * norm.cdf(line) ** (d - 1)) for d in (2, 50)),
    ]
    for name, x, density in laws:
        mean = simpson(x * density, x=x)
        for s in (-3.0, -0.5, 0.0, 0.5, 3.0):
            share = simpson(np.exp(s * (x - mean) - s * s / 2) * density, x=x)
            relation: Relation = "==" if name == "linear" else "<="
            found.append(compare(float(share), relation, 1.0, f"moments, {name}, s={s}", precision=1e-7))
    return found


def martingale_tail(scale: float) -> list[Comparison]:
    """P(S > scale (R ln(1/delta) + (e-2) V/R)) <= delta, exactly, R the largest difference and more.

    Fair +-1 walks; jumps by one of chance p less their mean, where the bound is nearest: a mean of 20 or 25 in all and
    delta = e^-25; and walks of ten steps, path by path, whose next step and so V depends on where they are.
    """
    found = []
    for n, p, delta in ((10, 0.5, 0.2), (40, 0.5, 0.05), (200, 0.1, math.exp(-25)), (10**5, 2.5e-4, math.exp(-25))):
        width, variance = (2.0, n) if p == 0.5 else (1.0, n * p * (1 - p))
        largest = width * (1 - p)
        best = math.sqrt((math.e - 2) * variance / math.log(1 / delta))
        for R in sorted({largest, 1.5 * largest, max(largest, best)}):
            limit = scale * martingale(variance, R, confidence=1 - delta)
            exact = float(binom.sf(math.floor(n * p + limit / width), n, p))
            found.append(compare(exact, "<=", delta, f"n={n}, p={p}, R={R:.3g}", precision=0.0))
    for variance, R, delta in ((3.0, 0.5, 0.2), (0.4, 2.0, 0.05), (0.0, 1.5, 0.5)):
        stated = R * math.log(1 / delta) + (math.e - 2) * variance / R
        found.append(compare(martingale(variance, R, confidence=1 - delta), "==", stated, f"library, V={variance}"))
    for delta in (0.3, 0.05, 0.002):
        beyond = 0.0
        for chance, end, spread in _paths(10):
            beyond += chance * (end > scale * martingale(spread, 1.0, confidence=1 - delta))
        found.append(compare(beyond, "<=", delta, f"steps that depend on the past, delta={delta}", precision=0.0))
    return found


@cache
def _paths(n: int) -> list[tuple[float, float, float]]:
    """Chance, end S and sum V of conditional variances of all paths of a martingale with differences at most one.

    Up by one with chance 1/3 and down by a half, or, below zero, up by one with chance 1/5 and down by a quarter.
    """
    paths = [(1.0, 0.0, 0.0)]
    for _ in range(n):
        grown = []
        for chance, at, spread in paths:
            up, down = (1 / 3, 0.5) if at >= 0 else (1 / 5, 0.25)
            grown.append((chance * up, at + 1, spread + down))  # variance up * 1 + (1 - up) down^2 = down
            grown.append((chance * (1 - up), at - down, spread + down))
        paths = grown
    return paths


@cache
def _subsets(n: int, N: int) -> tuple[Tensor, Tensor, float]:
    """All subsets of N equally likely cells, n examples: K = 0..n cells with one, their chances, and R_n of the class.

    R_n = N/2n E |sum of the signs in a cell|. The subset of all cells without an example deviates most, by 1 - K/N; and
    2 R_S >= K/n, since |sum of signs| has mean at least one in each of the K cells.
    """
    occupied = torch.arange(n + 1, dtype=torch.float64)
    chances = (occupied == 0).double()  # of K, example by example
    for _ in range(n):
        grown = torch.cat([chances.new_zeros(1), (chances * (1 - occupied / N))[:-1]])
        chances = chances * occupied / N + grown
    in_cell = [sum(abs(2 * i - c) * math.comb(c, i) for i in range(c + 1)) / 2**c for c in range(20)]
    R_n = N / (2 * n) * sum(float(binom.pmf(c, n, 1 / N)) * size for c, size in enumerate(in_cell))
    return occupied, chances, R_n


def uniform_deviation(scale: float) -> list[Comparison]:
    """Some member exceeds `scale` times the bound in at most a share delta of the samples, exactly, R_n or R_S.

    For all subsets of 10,000 cells and n = 2000 the deviation is .82, the bounds are .93 and .98. One indicator of a
    fair coin has R_n = 0 and shows the last term.
    """
    n, N, delta = 2000, 10_000, 0.1
    occupied, chances, R_n = _subsets(n, N)
    tail = 3 * math.sqrt(math.log(1 / delta) / (2 * n))
    expected = torch.full_like(occupied, uniform(0.0, R_n, n, confidence=1 - delta).value)
    found = []
    for name, limit in (("R_n", expected), ("R_S", occupied / n + tail)):
        failed = chances[1 - occupied / N > scale * limit].sum()
        found.append(compare(failed, "<=", delta, f"all subsets, with {name}", precision=0.0))
    ours = uniform(0.0, R_n, n, confidence=1 - delta, empirical=True).value
    for count in (20, 401):
        added = scale * uniform(0.0, 0.0, count, confidence=1 - delta).value
        beyond = binom.cdf(math.ceil(count * (0.5 - added)) - 1, count, 0.5)
        found.append(compare(float(beyond), "<=", delta, f"one coin, n={count}", precision=0.0))
    larger = 3 * math.sqrt(math.log(2 / delta) / (2 * n))
    told = [uniform(0.3, R_n / 9, n, confidence=1 - delta, empirical=own).value for own in (False, True)]
    parts = [0.3 + 2 * R_n / 9 + tail / 3, 0.3 + 2 * R_n / 9 + larger]
    return [
        *found,
        compare(told, "==", parts, "the library's terms"),
        compare(ours, ">=", 2 * R_n + tail, "the library's log(2/delta)"),
    ]


def squared_deviation(scale: float) -> list[Comparison]:
    """The same for the squared loss: f = 0, h = M on a subset and M - e off it, |h - f| <= M, e = M/4.

    The loss is (M-e)^2 or M^2, R_n and R_S of the functions h are e times those of the subsets. The deviation is .36
    M^2, the bounds .48 and .54 M^2. One function with |h - f| = M for every other example has R_n = R_S = 0 and shows
    the last term.
    """
    n, N, delta, found = 2000, 10_000, 0.1, []
    occupied, chances, R_n = _subsets(n, N)
    for M in (1.0, 2.0):
        e = M / 4
        deviation = (1 - occupied / N) * (M**2 - (M - e) ** 2)
        for name, complexity, empirical in (("R_n", R_n, False), ("R_S", 0.0, True)):
            stated = squared(0.0, e * complexity, n, confidence=1 - delta, deviation=M, empirical=empirical).value
            limit = stated + (2 * M * e * occupied / n if empirical else 0.0)
            failed = chances[deviation > scale * limit].sum()
            found.append(compare(failed, "<=", delta, f"M={M}, with {name}", precision=0.0))
        for count, rare in ((20, 0.1), (2000, 1e-9)):
            added = scale * squared(0.0, 0.0, count, confidence=1 - rare, deviation=M).value
            beyond = binom.cdf(math.ceil(count * (0.5 - added / M**2)) - 1, count, 0.5)
            found.append(compare(float(beyond), "<=", rare, f"M={M}, one function, n={count}", precision=0.0))
    for M, R, count in ((2.0, 0.1, 100), (1.0, 0.02, 5000)):
        for factor, empirical in ((1, False), (3, True)):
            value = squared(0.05, R, count, confidence=0.9, deviation=M, empirical=empirical).value
            stated = 0.05 + 4 * M * R + factor * M**2 * math.sqrt(math.log(20) / (2 * count))
            found.append(compare(value, "==", stated, f"terms, M={M}"))
    return found


CLAIMS: tuple[Claim, ...] = (
    Claim(
        "thesis-lem22",
        f"{SOURCE}, Lemma 22",
        "Khintchine-Kahane: sqrt(sum ||x_i||^2)/sqrt 2 <= E ||sum zeta_i x_i|| <= sqrt(sum ||x_i||^2), zeta_i "
        "independent fair random signs and x_i vectors, Euclidean norms.",
        check=partial(khintchine, 2**-0.5),
        control=partial(khintchine, 0.72),
        note="Printed are universal constants c1 and c2. 1/sqrt 2 is the best c1: two equal vectors, and 1 the best "
        "c2: one vector.",
    ),
    Claim(
        "thesis-thm17",
        f"{SOURCE}, Theorem 17",
        "Hoeffding: P(sum X_i >= t) <= exp(-2 t^2/sum (M_i-m_i)^2) for t > 0 and independent X_i in [m_i, M_i] of "
        "mean zero.",
        check=partial(hoeffding_tail, 2.0),
        control=partial(hoeffding_tail, 2.5),
        objects=("bounds.hoeffding",),
        note="Part 2; part 1, for sub-Gaussian variables, has a constant c that is not named.",
    ),
    Claim(
        "thesis-thm18",
        f"{SOURCE}, Theorem 18",
        "For a class of functions g to [0, 1] and n i.i.d. examples, with probability 1-delta, E g <= mean g + 2 R_n + "
        "sqrt(log(1/delta)/(2n)) for all g at once, and with probability 1-delta E g <= mean g + 2 R_S + 3 "
        "sqrt(log(1/delta)/(2n)), R_S the empirical Rademacher complexity of the class, E sup_g mean s_i g(z_i) over "
        "fair signs s_i, and R_n = E R_S.",
        check=partial(uniform_deviation, 1.0),
        control=partial(uniform_deviation, 0.82),
        objects=("bounds.uniform",),
        note="The second by one use of McDiarmid's inequality on the difference of the two sides; bounds.uniform has "
        "the usual log(2/delta) there, which is larger. The control takes 0.82 of the bounds.",
    ),
    Claim(
        "thesis-thm19",
        f"{SOURCE}, Theorem 19",
        "If |h-f| <= M for all h of a class, with probability 1-delta over n i.i.d. examples E|h-f|^2 <= mean |h-f|^2 "
        "+ 4 M R_n + M^2 sqrt(log(2/delta)/(2n)) for all h at once; so also with 4 M R_S + 3 M^2 "
        "sqrt(log(2/delta)/(2n)) in place of the last two terms. R_n and R_S are those of the class of the h.",
        check=partial(squared_deviation, 1.0),
        control=partial(squared_deviation, 0.74),
        objects=("bounds.squared",),
    ),
    Claim(
        "thesis-thm21",
        f"{SOURCE}, Theorem 21",
        "For z ~ N(0, I_d) and f rho-Lipschitz, rho > 0, in the Euclidean norm f(z) is rho-sub-Gaussian, E e^(s (f - "
        "E f)) <= e^(s^2 rho^2/2) for all real s, and P(f(z) - E f >= t) <= exp(-t^2/(2 rho^2)) for t >= 0.",
        check=lambda: [*gaussian(1.0), *gaussian_moments()],
        control=partial(gaussian, 0.498),
        objects=("bounds.gaussian_tail",),
    ),
    Claim(
        "thesis-thm22",
        f"{SOURCE}, Theorem 22",
        "If X_1, ..., X_T have conditional means 0 given those before and X_t <= R, R > 0, their sum is at most R "
        "ln(1/delta) + (e-2) V/R with probability at least 1-delta, V the sum of their conditional variances.",
        check=partial(martingale_tail, 1.0),
        control=partial(martingale_tail, 0.9),
        objects=("bounds.martingale",),
    ),
)
