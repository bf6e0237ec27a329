"""How a deep linear network shares its width among singular directions: the allocation problem behind its optimum.

With s the singular values of the least-squares map and a_i = lambda_i / width_i, the deep optimum is
tr E[y y^T] - max G,  G(x) = sum_j s_j^2 prod_i g_i(x_i(j)),  g_i(x) = x / (x + a_i),  every x_i in the simplex. One
factor is concave; a product of several is not, hence the jumps in rank. Everything here is float64 on vectors of at
most min(widths) entries.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from droptics.arrays import Array

SWEEPS = 5_000
NEWTON = 60


@dataclass(frozen=True, eq=False)
class Allocation:
    """Shares x (k, n), the gain G that they reach, and a proved upper bound on the gain of any shares."""

    shares: Array
    gain: float
    bound: float

    @property
    def rank(self) -> int:
        """How many directions get a share."""
        return int((self.shares > 0).all(0).sum()) if self.shares.size else 0


def best_allocation(values: Array, strengths: Array) -> Allocation:
    """The best shares over all supports {1..rho}, and a bound that certifies them (droptics-deep-optimum).

    `values` are positive and fall.
    Every support is climbed by exact block ascent: with the other layers fixed the problem is concave and solved by
    water-filling, x_i(j) + a_i proportional to sqrt(s_j^2 prod_{l != i} g_l). Layers without masks take no part.
    """
    active = strengths > 0
    power = values**2
    shares = np.ones((len(strengths), len(values)))
    if not active.any() or not len(values):
        return Allocation(shares, float(power.sum()), float(power.sum()))
    inner = strengths[active]
    uniform = np.tril(np.ones((len(values), len(values)))) / np.arange(1, len(values) + 1)[:, None]
    climbed = _climb(power, inner, uniform[:, None].repeat(len(inner), 1), 1e-9)
    best = int(_gain(power, inner, climbed).argmax())
    polished = _climb(power, inner, climbed[best : best + 1], 1e-13)
    shares[active] = polished[0]
    shares[~active] = (polished[0] > 0).all(0)
    gain = float(_gain(power, inner, polished)[0])
    return Allocation(shares, gain, max(gain, gain_bound(power, inner, polished[0])))


def _gains(x: Array, strengths: Array) -> Array:
    return x / (x + strengths[:, None])


def _gain(power: Array, strengths: Array, x: Array) -> Array:
    return np.asarray((power * _gains(x, strengths).prod(-2)).sum(-1))


def _climb(power: Array, strengths: Array, x: Array, tolerance: float) -> Array:
    """Block ascent from all shares x (starts, k, n) at once."""
    layers = len(strengths)
    for _ in range(SWEEPS):
        before = x
        x = x.copy()
        gains = _gains(x, strengths)
        for i in range(layers):
            others = np.delete(gains, i, axis=1).prod(1)
            x[:, i] = water_fill(np.sqrt(power * others), strengths[i])
            gains[:, i] = x[:, i] / (x[:, i] + strengths[i])
        if layers == 1 or np.abs(x - before).max() < tolerance:
            break
    return x


def water_fill(roots: Array, strength: float) -> Array:
    """Water-filling: argmax of sum_j roots_j^2 x_j / (x_j + strength) over the simplex, per row of ordered roots."""
    index = np.arange(1, roots.shape[-1] + 1)
    sums = np.maximum(roots.cumsum(-1), np.finfo(float).tiny)
    # written so that nothing cancels for the first value, however large the strength
    kept = (roots + strength * (index * roots - sums) > 0).sum(-1, keepdims=True).clip(min=1)
    total = np.take_along_axis(sums, kept - 1, -1)
    shares = np.maximum(roots / total + strength * (kept * roots - total) / total, 0) * (index <= kept)
    return np.asarray(shares / shares.sum(-1, keepdims=True))


def gain_bound(power: Array, strengths: Array, x: Array) -> float:
    """An upper bound on G over all shares, tight when x is the global maximum and the layers agree on it.

    Weighted means: prod_i g_i <= sum_i p_i c_ij g_i^(1 / p_i) whenever sum_i p_i = 1 and prod_i c_ij^p_i = 1, with
    equality at x for c_ij = prod_l g_l / g_i^(1 / p_i). So G <= sum_i max over the simplex of
    sum_j s_j^2 p_i c_ij g_i^(1 / p_i): one separable problem per layer, solved globally. The weights p are those of
    the elasticities of g at x; for equal layers the bound is exact, otherwise it may stay above G near a jump in rank.
    """
    g = _gains(_extended(power, strengths, x), strengths)
    alive = (x > 0).all(0)
    elasticity = (1 - _gains(x[:, alive], strengths)).mean(1)
    gain = float(_gain(power, strengths, x))
    found = np.inf
    for raw in (elasticity, strengths**0.75):
        p = np.maximum(raw / raw.sum(), 1e-3)
        p = (p / p.sum())[:, None]
        log_weights = np.log(power) + np.log(g).sum(0) - np.log(g) / p + np.log(p)
        if found <= gain * (1 + 1e-13):
            break
        found = min(found, sum(sigmoid_maximum(*row) for row in zip(log_weights, strengths, 1 / p[:, 0], strict=True)))
    return float(found)


def _extended(power: Array, strengths: Array, x: Array) -> Array:
    """Shares x, with the directions that have none put where they come closest to deserving one.

    Stationary shares obey x_i (x_i + a_i) = a_i w / mu_i with w = s^2 prod_l g_l, the multipliers mu_i the same for
    all j; a direction outside the support has no such w, and the w that maximizes s^2 prod g / w is taken.
    """
    alive = (x > 0).all(0)
    if alive.all():
        return x
    value = power[alive] * _gains(x[:, alive], strengths).prod(0)
    a = strengths[:, None]
    mu = (a * value / (x[:, alive] * (x[:, alive] + a))).mean(1, keepdims=True)
    w = value.max() * np.logspace(-12, 2, 400)
    candidates = 2 * (w / mu) / (1 + np.sqrt(1 + 4 * w / (mu * a)))  # (sqrt(a^2 + 4 a w / mu) - a) / 2 would cancel
    best = int((_gains(candidates, strengths).prod(0) / w).argmax())
    return np.where(alive, x, candidates[:, best : best + 1])


def sigmoid_maximum(log_weights: Array, a: float, k: float) -> float:
    """Global maximum over the simplex of sum_j exp(log_weights_j) h(x_j), h(x) = (x / (x + a))^k.

    h is convex up to x = a (k - 1) / 2 and concave beyond. At a maximum all shares lie in the concave part, unless one
    takes everything, and are ordered like the weights: so the candidates are, for every m, the first m of them there
    (unique). Two shares in the convex part gain by moving apart. One, t, beside x in the concave part gains nothing by
    its place: b_t h(t) = b_x h'(x) t (t + a) / (k a) <= b_x (h(x + t) - h(x)), as equal slopes, Bernoulli's inequality
    for h(x + t) / h(x) = (1 + a t / (x (x + t + a)))^k, and t <= a (k - 1) / 2 <= x show.
    """
    log_weights = np.sort(log_weights)[::-1]
    if k <= 1:
        x = water_fill(np.exp(log_weights / 2)[None], a)[0]
        return float((np.exp(log_weights) * x / (x + a)).sum())
    best = float(np.exp(log_weights[0] - k * np.log1p(a)))
    steepest = _log_slope(np.log(a * (k - 1) / 2), a, k)
    for m in range(2, len(log_weights) + 1):
        log_b = log_weights[:m]
        if _large(log_b[-1] + steepest - log_b, a, k).sum() >= 1:
            break  # m shares do not fit into the concave part, and more never will
        best = max(best, _concave_value(log_b, a, k, steepest))
    return best


def _log_slope(y: Array | float, a: float, k: float) -> Array:
    """The logarithm of h'(exp y)."""
    return np.asarray(np.log(k * a) + (k - 1) * y - (k + 1) * np.log(np.exp(y) + a))


def _large(log_slope: Array, a: float, k: float) -> Array:
    """The x in the concave part with log h'(x) = log_slope: Newton from the right, monotone as log h' is concave."""
    log_slope = np.maximum(log_slope, _log_slope(np.log(1e3 * (1 + a * k)), a, k))  # far beyond any feasible share
    turn = np.log(a * (k - 1) / 2)
    y = (np.log(k * a) - log_slope) / 2
    for _ in range(NEWTON):
        x = np.exp(y)
        slope = (k - 1) - (k + 1) * x / (x + a)
        step = (_log_slope(y, a, k) - log_slope) / np.minimum(slope, -1e-8)  # a double root at the turn itself
        y = np.maximum(y - step, turn)
        if np.abs(step).max() < 1e-14:
            break
    return np.asarray(np.exp(y))


def _concave_value(log_b: Array, a: float, k: float, steepest: Array) -> float:
    """All shares in the concave part: one equation for the common multiplier."""
    high = float(log_b[-1] + steepest)
    low = high - 1.0
    while _large(low - log_b, a, k).sum() < 1:
        low -= 2 * (high - low)
    root = scipy.optimize.brentq(lambda log_slope: _large(log_slope - log_b, a, k).sum() - 1, low, high, xtol=1e-14)
    x = _large(root - log_b, a, k)
    return float(np.exp(log_b - k * np.log1p(a / (x / x.sum()))).sum())
