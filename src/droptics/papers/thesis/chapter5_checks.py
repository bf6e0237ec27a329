"""What the claims of chapter 5 (lazy training, compression) compare.

Letters: f(x; W) = a^T relu(W x) / sqrt(m) with fixed a_r = +-1, ||x|| = 1; q = 1 - drop keeps a unit, masks are 0/1;
logistic loss in base 2 unless said otherwise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import torch
from scipy.optimize import nnls
from scipy.stats import binom, chi2
from torch import Tensor, nn

from droptics.bounds import active_units, gate_margin, initial_norm, lazy_setting, linear_margin
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import Logistic
from droptics.models import ReLUNet
from droptics.papers.instances import descend, normal, tensor, uniform
from droptics.training.lazy import lazy_norm, lazy_start, train_lazy


def unit_rows(seed: int, count: int, size: int) -> Tensor:
    """Random unit vectors."""
    x = normal(seed, count, size)
    return x / x.norm(dim=1, keepdim=True)


def network(W: Tensor, a: Tensor, x: Tensor, b: Tensor | None = None) -> Tensor:
    """a^T B relu(W x) / sqrt(m)."""
    hidden = torch.relu(W @ x)
    return (a * (hidden if b is None else b * hidden)).sum() / math.sqrt(len(a))


def gradient(W: Tensor, a: Tensor, x: Tensor, b: Tensor) -> Tensor:
    """Gradient of the masked network in W."""
    return torch.outer(a * b * (W @ x >= 0).double(), x) / math.sqrt(len(a))


def loss(z: Tensor) -> Tensor:
    """log2(1 + exp(-z))."""
    return torch.nn.functional.softplus(-z) / math.log(2)


def homogeneity(factor: float) -> list[Comparison]:
    """<grad g, W> = g and g(qW) = q g(W), the network of the library, whole and under masks; the control doubles."""
    found = []
    for seed, m in enumerate((12, 1, 5)):
        net, x = lazy_start(3, m, seed), unit_rows(seed, 1, 3)[0]
        W, top = net.weights
        whole = torch.ones(m, dtype=torch.float64)
        W = W * (W @ x).sign()[:, None] if m == 1 else W  # one unit that is silent shows nothing
        a = torch.sign(top[0])
        found.append(compare(top[0] * math.sqrt(m), "==", a, f"signs, m={m}"))
        found.append(compare(a.abs(), "==", 1.0, f"no sign is zero, m={m}"))
        plain = ReLUNet([W, top]).outputs(x[None]).sum()
        found.append(compare(plain, "==", network(W, a, x), f"the whole network, m={m}"))
        for b in (whole, (uniform(seed + 20, m) < 0.6).double()):
            value, step = _masked(W, top, x, b)
            found.append(compare(value, "==", network(W, a, x, b), f"the network, m={m}"))
            found.append(compare((step * W).sum(), "==", factor * value, f"<grad, W>, m={m}"))
            for q in (0.3, 7.0, 0.0):
                scaled, _ = _masked(q * W, top, x, b)
                found.append(compare(scaled, "==", q * factor * network(W, a, x, b), f"scaled by {q}, m={m}"))
    return found


def _masked(W: Tensor, top: Tensor, x: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """g(W; x, B) of the library and its gradient in W by automatic differentiation."""
    leaf = W.clone().requires_grad_(True)
    value = ReLUNet([leaf, top]).outputs(x[None], torch.cat([torch.ones_like(x), b])).sum()
    return value.detach(), torch.autograd.grad(value, leaf)[0]


def drawn_start() -> list[Comparison]:
    """The start: rows of W_1 standard normal, signs a_r fair and apart from them, within five standard deviations."""
    found, (W, top) = [], lazy_start(3, 4000, 9).weights
    signs = top[0].sign()
    moments = [("first", W, 0.0, 1.0), ("second", W.square(), 1.0, 2.0), ("fourth", W.pow(4), 3.0, 96.0)]
    moments += [
        ("crossed", W * W.roll(1, 1), 0.0, 1.0),
        ("signs", signs, 0.0, 1.0),
        ("with signs", signs @ W, 0.0, 4e3),
    ]
    for name, values, mean, variance in moments:
        off = (values.mean() - mean).abs() * math.sqrt(values.numel() / variance)
        found.append(compare(off, "<=", 5.0, f"moment of the start: {name}"))
    return found


def gradient_bounds(share: float) -> list[Comparison]:
    """||grad g||_F^2 <= ||B||_F^2/m <= 1, ||grad L||_F <= Q = -l'(y g) and Q <= L = l(y g), each times `share`.

    At random starts, and where they are reached: every row along x, every unit kept, scores large and right.
    """
    found = []
    for seed in range(6):
        net, x = lazy_start(3, 12, seed), unit_rows(seed, 1, 3)[0]
        W, top = net.weights
        b = (uniform(seed + 20, 12) < 0.6).double()
        y = float(torch.sign(normal(seed + 4, 1)))
        if seed % 2:
            W, top, b = 5.0 * x.expand(12, 3), y * top.abs(), torch.ones_like(b)
        value, step = _masked(W, top, x, b)
        g = value.requires_grad_(True)
        L = Logistic()(g[None, None], tensor([y])).sum() / math.log(2)
        slope, score = y * torch.autograd.grad(L, g)[0], y * float(g.detach())
        found.append(compare(L, "==", np.logaddexp2(0.0, -score / math.log(2)), "L", scale=0.0))
        found.append(compare(slope * math.log(2), "==", -1 / (1 + math.exp(score)), "-Q", scale=0.0))
        found.append(compare(step.square().sum(), "<=", share * b.sum() / 12, "squared norm of grad g"))
        found.append(compare(b.sum() / 12, "<=", 1.0, "||B||^2/m"))
        found.append(compare((slope * y * step).norm(), "<=", -share * slope, "norm of grad L against Q", scale=0.0))
        found.append(compare(-slope, "<=", share * L, "Q against L", scale=0.0))
    z = torch.linspace(-20, 700, 721, dtype=torch.float64).requires_grad_(True)
    values = Logistic()(z[:, None], torch.ones(len(z)))
    return [*found, compare(-torch.autograd.grad(values.sum(), z)[0] / values, "<=", share, "|l'|/l")]


def smallest_unit_loss(base: float) -> list[Comparison]:
    """I{z < 0} <= l(z) for the loss with the given base of the logarithm, z the output times the label."""
    far = tensor([30.0, 100.0, 700.0])
    z = torch.cat([torch.linspace(-8, 8, 4001, dtype=torch.float64), far, -far])
    leaf, labels = z.clone().requires_grad_(True), 1 - 2 * (torch.arange(len(z)) % 2)
    value = Logistic()((labels * leaf)[:, None], labels) / math.log(base)
    (slope,) = torch.autograd.grad(value.sum(), leaf)
    return [
        compare(value, "==", np.logaddexp(0.0, -z.numpy()) / math.log(base), "the logistic loss"),
        compare(slope, "==", -1 / (1 + z.exp()) / math.log(base), "its slope"),
        compare((z < 0).double(), "<=", -2 * math.log(2) * slope, "0-1 loss below the slope times -2 ln 2"),
        compare(-slope, "<=", value, "slope below the logistic loss", scale=0.0),
        compare((z < 0).double(), "<=", value, "0-1 loss below the logistic loss"),
        compare(-slope, "<=", 1 / math.log(2), "slope from above"),
        compare(-slope, ">=", 0.0, "slope from below"),
    ]


def constant_margin(q: float, scale: float) -> list[Comparison]:
    """Psi = v* gives margin q g / 2; no unit-norm psi gives more than q / 2 (gates integrated over directions)."""
    found = []
    angles = (torch.arange(3600, dtype=torch.float64) + 0.5) * (2 * math.pi / 3600)
    z = torch.stack([angles.cos(), angles.sin()], 1)
    for seed in range(3):
        x = unit_rows(seed, 1, 2)[0]
        v = unit_rows(seed + 5, 1, 2)[0]
        gates = (z @ x >= 0).double()
        found.append(compare(q * (gates * (v @ x)).mean(), "==", scale * q * (v @ x), "constant direction"))
        psi = unit_rows(seed + 9, 3600, 2)
        found.append(compare(q * (gates * (psi @ x)).mean(), "<=", q / 2, "any direction"))
        found.append(compare(q * gates.mean(), "==", scale * q, "psi = x, the best for one example"))
    # two classes: the direction of the best linear margin, by a sweep, has q/2 of it
    signs = tensor([1.0, -1.0] * 4)
    points = unit_rows(1, 8, 2) + tensor([2.0, 0.0])
    points = signs[:, None] * points / points.norm(dim=1, keepdim=True)
    margins = (signs[:, None] * (points @ z.mT)).min(0).values
    v = z[int(margins.argmax())]
    reached = q * ((points @ z.mT >= 0).double().mean(1) * signs * (points @ v)).min()
    linear = linear_margin(Sample(points, signs[:, None]))
    found.append(compare(margins.max(), "==", linear, "linear margin", precision=1e-3))
    # all of one class, so many that the first ones looked at say little, and a tolerance in shares of the margin
    half = normal(1, 400, 6)
    many = Sample(half * half[:, :1].sign(), torch.ones(400, 1).double())
    nearest, coarse = linear_margin(many), linear_margin(many, 0.01)
    found.append(compare(coarse, ">=", 0.99 * nearest, "a linear margin up to a share of itself"))
    # the distance of the origin to the hull, of all points at once; the shares are scaled to sum to one
    unit = (many.inputs / many.inputs.norm(dim=1, keepdim=True)).numpy()
    shares, _ = nnls(np.vstack([unit.T, np.ones(len(unit))]), np.eye(7)[6])
    hull = np.linalg.norm(unit.T @ shares) / shares.sum()
    found.append(compare(nearest, "==", hull, "linear margin of many inputs of any length", 1e-5, scale=0.0))
    found.append(compare(reached, "==", scale * q * linear, "margin of two classes", precision=1e-3))
    # the gates of eight random rows, both labels: the dual by descent lies between the ends
    inputs, labels = unit_rows(3, 6, 3), tensor([1.0, -1.0, 1.0, 1.0, -1.0, -1.0])
    rows = torch.randn(8, 3, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    signed = labels[:, None, None] * (inputs @ rows.mT >= 0).double()[:, :, None] * inputs[:, None]

    def dual(logits: Tensor) -> Tensor:
        return q * (torch.softmax(logits, 0)[:, None, None] * signed).sum(0).norm(dim=1).mean()

    least, _ = descend(dual, [(6,)], starts=2)
    told = [gate_margin(Sample(inputs, labels[:, None]), 8, drop, steps=200, seed=4) for drop in (1 - q, 0.0)]
    ours, whole = told
    return [
        *found,
        compare([ours.lower, ours.upper], "==", [q * whole.lower, q * whole.upper], "q times those without masks"),
        compare(ours.lower, "<=", 2 * scale * least, "margin of the gates", precision=1e-6),
        compare(least, "<=", ours.upper, "margin of the gates", precision=1e-6),
        compare(ours.upper - ours.lower, "<=", 0.1, "the ends are near each other"),
    ]


def margin_map(linear: bool) -> list[Comparison]:
    """The largest margin min E y <psi(z), b x I{z.x >= 0}> of a map with ||psi(z)|| <= 1 for all z, labels all one.

    Linear maps of every size, singular and zero, tried also at the z of norm 1.01/||psi|| that they stretch most; or
    maps that are constant or turn within a quarter circle.
    """
    z, x = normal(2, 2000, 2), unit_rows(1, 8, 2) + tensor([2.0, 0.0])
    x, q = x / x.norm(dim=1, keepdim=True), 0.6
    gates, eye = (z @ x.mT >= 0).double(), torch.eye(2, dtype=torch.float64)
    if linear:
        matrices = [size * (eye + 0.3 * normal(seed, 2, 2)) for seed, size in enumerate((1e-9, 1e-3, 0.1, 1.0, 30.0))]
        maps = []
        for A in (*matrices, torch.diag(tensor([0.3, 0.0])), 0 * eye):
            _, sizes, directions = torch.linalg.svd(A)
            far = directions[0] * 1.01 / sizes[0].clamp_min(1e-300)
            maps.append((z @ A.mT, (A @ far).norm()))
    else:
        turn = torch.atan2(z[:, 1], z[:, 0].abs()) / 4
        maps = [(eye[:1].expand_as(z), tensor(1.0)), (torch.stack([turn.cos(), turn.sin()], 1), tensor(1.0))]
    found, margins = [], []
    for psi, elsewhere in maps:
        size = torch.maximum(psi.norm(dim=1).max(), elsewhere)
        margin = q * ((psi @ x.mT) * gates).mean(0).min()
        margins.append(margin if Comparison(float(size), "<=", 1.0).holds else torch.zeros_like(margin))
        found.append(compare(size, ">=" if linear and float(margin) > 0 else "<=", 1.0, f"norm, margin {margin:.2g}"))
    return [*found, compare(max(margins), ">", 0.0, "largest margin of a bounded map")]


def initial_rows(spread: float, centered: bool = True) -> list[Comparison]:
    """P(max_r ||w_r|| <= sqrt(d) + spread sqrt(ln m)) >= 1 - 1/m for m standard Gaussian rows in d dimensions, exactly.

    Without `centered` sqrt(d) is left out. The library's radius is the one with spread 2, that of max-norm training is
    one more.
    """
    found = []
    for m, d in ((100, 784), (1000, 50), (20, 3), (10**6, 784), (2, 1), (5, 40), (1, 3)):
        radius = (math.sqrt(d) if centered else 0.0) + spread * math.sqrt(math.log(m))
        chance = float(chi2.cdf(radius**2, d) ** m)
        found.append(compare(chance, ">=", 1 - 1 / m, f"m={m}, d={d}", precision=0.0))
        whole = math.sqrt(d) + 2 * math.sqrt(math.log(m))
        found.append(compare(initial_norm(m, d), "==", whole, f"library, m={m}, d={d}"))
        if m > 1:
            found.append(compare(lazy_norm(d, m), "==", whole + 1, f"max-norm training, m={m}, d={d}"))
    return found


def _two_steps(W1: Tensor, a: Tensor, xs: Tensor, ys: Tensor, q: float, eta: float) -> tuple[Tensor, Tensor, float]:
    """All masks of T = 2: for every first one sum_t l(y_t f_t(q W_t)) and its probability, and E sum_t L_t(W_t)."""
    left, chances, right = [], [], 0.0
    masks = [
        (tensor(bits), math.prod(q if bit else 1 - q for bit in bits))
        for bits in itertools.product((0.0, 1.0), repeat=len(a))
    ]
    for b1, chance in masks:
        z = ys[0] * network(W1, a, xs[0], b1)
        W2 = W1 + eta / math.log(2) * torch.sigmoid(-z) * ys[0] * gradient(W1, a, xs[0], b1)
        W2 = W2 * (1.5 / W2.norm(dim=1, keepdim=True)).clamp_max(1)
        left.append(loss(ys[0] * network(q * W1, a, xs[0])) + loss(ys[1] * network(q * W2, a, xs[1])))
        chances.append(chance)
        second = sum(weight * loss(ys[1] * network(W2, a, xs[1], b2)) for b2, weight in masks)
        right += chance * float(loss(z) + second)
    return torch.stack(left), tensor(chances), right


def sub_network_loss(pathwise: bool) -> list[Comparison]:
    """sum_t l(y_t f_t(q W_t)) <= E sum_t L_t(W_t): for every mask before (as printed) or in expectation.

    Two to four units, keep rates from 1/4 to one, where both sides are equal, small and large weights, of which the
    projection to rows of norm 1.5 shortens some.
    """
    found = []
    cases = [(0.6, 3, 0.3)] * 6 + [(0.9, 2, 0.3), (0.25, 4, 1.0), (0.5, 3, 2.0), (1.0, 2, 1.0)]
    for seed, (q, units, size) in enumerate(cases):
        W1, a = size * normal(seed, units, 2), torch.sign(normal(seed + 1, units))
        xs, ys = unit_rows(seed + 2, 2, 2), torch.sign(normal(seed + 3, 2))
        left, chances, right = _two_steps(W1, a, xs, ys, q, math.log(2))
        mean = left[chances > 0].max() if pathwise else left @ chances
        found.append(compare(mean, "<=", right, f"two steps, q={q}"))
        if q == 1:
            found.append(compare(mean, "==", right, "nothing dropped"))
    return found


def _lazy_run(seed: int, T: int, width: int, drop: float) -> tuple[Tensor, Tensor, Tensor, Tensor, float]:
    """Iterates W_t, masks B_t, signs a, the example and its label of one run of `train_lazy` on one example."""
    x, y = unit_rows(seed + 3, 1, 3)[0], float(torch.sign(normal(seed + 4, 1)))
    start = lazy_start(3, width, seed)
    run = train_lazy(start, Sample(x[None], tensor([[y]])), drop, steps=T, max_norm=5.0, keep=range(T), seed=seed)
    weights = torch.stack([step.model.tensors[0] for step in run.run.iterates])
    masks = torch.stack([step.multipliers.flatten()[3:] for step in run.run.iterates if step.multipliers is not None])
    return weights, masks, torch.sign(start.weights[1][0]), x, y


@cache
def _fresh_examples(
    seed: int, T: int, width: int, max_norm: float, step: float = 1.0
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Iterates W_t, grad g_t(W_t) and g_t(W_t), and labels y_t: steps of `train_lazy`, a new example in each."""
    xs, ys = unit_rows(seed + 3, T, 3), torch.sign(normal(seed + 4, T))
    net, weights, slopes, scores = lazy_start(3, width, seed), [], [], []
    a = torch.sign(net.weights[1][0])
    for t, (x, y) in enumerate(zip(xs, ys, strict=True)):
        example = Sample(x[None], y[None, None])
        options: dict[str, Any] = {"steps": 1, "step_size": step, "max_norm": max_norm, "keep": [0]}
        run = train_lazy(net, example, 0.3, seed=seed + t, **options).run
        W, multipliers = run.iterates[0].model.tensors[0], run.iterates[0].multipliers
        assert multipliers is not None
        assert isinstance(run.model, ReLUNet)
        b, net = multipliers.flatten()[3:], run.model
        weights.append(W)
        slopes.append(gradient(W, a, x, b))
        scores.append(network(W, a, x, b))
    return torch.stack(weights), torch.stack(slopes), torch.stack(scores), ys


@cache
def _one_example(seed: int, T: int, width: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same for one run of `train_lazy` on one example, which it learns."""
    weights, masks, a, x, y = _lazy_run(seed, T, width, 0.3)
    slopes = torch.stack([gradient(W, a, x, b) for W, b in zip(weights, masks, strict=True)])
    scores = torch.stack([network(W, a, x, b) for W, b in zip(weights, masks, strict=True)])
    return weights, slopes, scores, torch.full((T,), y, dtype=torch.float64)


def regret(share: float) -> list[Comparison]:
    """Mean L_t(W_t) <= share (||W_1 - U||^2 / (eta T) + (2/T) sum L_t^(t)(U)) for the U of least right-hand side.

    U by descent over the max-norm ball; at a radius of 2 the projection of Algorithm 4 acts. One example of random
    label in each step, where half of the bound fails, and 100 steps on one, where a network that stays fails. Units
    that a mask of zeros and ones keeps have slopes of norm 1 / sqrt m or none.
    """
    found = []
    # a step size of 1 with the natural logarithm is ln 2 with that of base 2
    asked = ((0, 6, 5.0, 1.0), (1, 20, 5.0, 1.0), (5, 6, 2.0, 0.4))
    cases = [(_fresh_examples(seed, 10, m, c, step), c, step) for seed, m, c, step in asked]
    cases += [(_one_example(seed, 100, 20), 5.0, 1.0) for seed in (0, 2)]
    for (weights, slopes, scores, ys), c, step in cases:
        eta = step * math.log(2)
        norms = slopes.norm(dim=2) * math.sqrt(slopes.shape[1])
        found.append(compare(norms * (1 - norms), "==", 0.0, f"slopes of the units, c={c}"))

        def bound(
            U: Tensor,
            W: Tensor = weights[0],
            slopes: Tensor = slopes,
            ys: Tensor = ys,
            c: float = c,
            eta: float = eta,
        ) -> Tensor:
            U = U * (c / U.norm(dim=1, keepdim=True)).clamp_max(1)
            return (W - U).square().sum() / (eta * len(ys)) + 2 * loss(ys * (slopes * U).sum((1, 2))).mean()

        moved = weights + step * (ys * torch.sigmoid(-ys * scores))[:, None, None] * slopes
        moved = moved * (c / moved.norm(dim=2, keepdim=True)).clamp_max(1)
        found.append(compare(weights[1:], "==", moved[:-1], f"steps of Algorithm 4, c={c}, eta={eta:.2g}"))
        least, _ = descend(bound, [tuple(weights[0].shape)], starts=1)
        found.append(compare(loss(ys * scores).mean(), "<=", share * least, f"mean loss of {len(ys)} iterates, c={c}"))
    return found


def lazy_regime(share: float) -> list[Comparison]:
    """Lemma 13 along runs of `train_lazy`: rows stay near their start, and W_1 + lam V has small linearized loss.

    V_r = a_r v*/sqrt m with the separating direction v*, lam and the drift from `lazy_setting` at this width, which is
    far below the one the lemma asks for; the control takes `share` of lam for the competitor.
    """
    found, width, eta = [], 3000, math.log(2)
    for seed, T, drop in ((1, 20, 0.5), (2, 40, 0.2)):
        weights, masks, a, x, y = _lazy_run(seed, T, width, drop)
        setting = lazy_setting((1 - drop) / 2, T, 3, step_size=eta, width=width)
        V = torch.outer(a, y * x) / math.sqrt(width)
        U = weights[0] + share * setting.strength * V
        losses = torch.stack([loss(y * (gradient(W, a, x, b) * U).sum()) for W, b in zip(weights, masks, strict=True)])
        moved = (weights - weights[0]).norm(dim=2).max()
        gamma, lam = (1 - drop) / 2, setting.strength
        c = math.sqrt(3) + max(1 / (14 * gamma**2), 2 * math.sqrt(math.log(width))) + 1
        rest = 44 / gamma**2 * math.log(24 * eta * c * math.sqrt(width) * T**2)
        found += [
            compare(lam, "==", 5 / gamma * math.log(2 * eta * T) + math.sqrt(rest), "lam of the library"),
            compare(abs(float(a.mean())), "<=", 6 / math.sqrt(width), "signs of the start, as many of either"),
            compare(V.norm(), "<=", 1.0, "norm of V"),
            compare(setting.drift, "==", 7 * lam / (2 * gamma * math.sqrt(width)), "the drift of the library"),
            compare(moved, "<=", setting.drift, "largest distance of a row from its start"),
            compare(losses, "<=", lam**2 / (2 * eta * T), "loss of the competitor, as stated"),
            compare(losses, "<=", 1 / (2 * math.log(2) * eta * T), "as its proof has it: e^-ln(2 eta T)/ln 2"),
        ]
    return found


def initial_outputs(scale: float) -> list[Comparison]:
    """|g_t(W_1)| <= scale sqrt(2 ln(6T/delta)) for all t at once fails in a share of at most delta/3 of the starts.

    Weights, top layer and the masks of all steps are drawn anew for every start; inputs of T different directions.
    At every width: E exp(s a b relu(z)) <= exp(s^2/2) over sign, mask and normal z, so that P(|g| > x) is at most
    2 exp(-x^2/2).
    """
    T, delta, m, draws = 10, 0.2, 150, 600
    found = [compare(m, ">=", 25 * math.log(6 * T / delta), "the width that is asked for")]
    z = torch.linspace(-12, 12, 4801, dtype=torch.float64)
    chances = torch.exp(-z.square() / 2) / math.sqrt(2 * math.pi) * 0.005
    for s, q in itertools.product((0.3, 1.0, 2.5), (0.5, 0.95, 1.0)):
        moment = 1 - q + q * (chances * torch.cosh(s * torch.relu(z))).sum()
        found.append(
            compare(moment, "==", 1 - q / 2 + q / 2 * math.exp(s * s / 2), f"exponential moment, s={s}, q={q}")
        )
        found.append(compare(moment, "<=", math.exp(s * s / 2), f"below a normal one, s={s}, q={q}"))
    for steps, level in ((T, delta), (1000, 0.01), (1, 0.9)):
        tails = 2 * steps * math.exp(-(scale**2) * math.log(6 * steps / level))
        found.append(compare(tails, "<=", level / 3, f"tails of {steps} steps"))
    for seed, q in ((1, 0.5), (5, 0.95)):
        a, W, X = torch.sign(normal(seed, draws, m, 1)), normal(seed + 1, draws, m, 8), unit_rows(seed + 2, T, 8)
        b = (uniform(seed + 3, draws, m, T) < q).double()
        g = (a * b * torch.relu(W @ X.mT)).sum(1) / math.sqrt(m)
        beyond = (g.abs() > scale * math.sqrt(2 * math.log(6 * T / delta))).any(1).double().mean()
        found.append(compare(beyond, "<=", delta / 3, f"share of starts beyond the bound, q={q}", precision=0.0))
    return found


def margin_at_start(slack: float) -> list[Comparison]:
    """Y <grad g(W_1), V> >= gamma - slack sqrt(2 ln(3T/delta)/m) fails with probability at most delta/(3T), exactly.

    V_r = a_r psi(w_r)/sqrt m makes it the mean over rows of b I{w.x >= 0} y psi(w).x, by the library's gradient. For
    psi = y x all summands are 0 or 1; where psi changes its sign on a share of the directions they are 0, 1 and -1,
    with gamma = q lean/2, and spread most.
    """
    found = []
    for seed in range(3):
        net, x, y = lazy_start(3, 40, seed), unit_rows(seed, 1, 3)[0], float(torch.sign(normal(seed + 4, 1)))
        W, top = net.weights
        b, turn = (uniform(seed, 40) < 0.7).double(), torch.sign(W[:, 0] + 0.1)
        psi = y * turn[:, None] * x
        _, slope = _masked(W, top, x, b)
        margin = y * (slope * torch.sign(top[0])[:, None] * psi).sum() / math.sqrt(40)
        mean = (b * (W @ x >= 0).double() * y * (psi @ x)).mean()
        found.append(compare(margin, "==", mean, "the margin is a mean over rows"))
    for q, lean, m, T, delta in ((0.7, 1.0, 200, 5, 0.3), (0.7, 0.1, 400, 50, 0.01), (1.0, 0.1, 400, 1000, 1e-6)):
        step, law = np.array([q * (1 - lean) / 4, 1 - q / 2, q * (1 + lean) / 4]), np.ones(1)
        for _ in range(m):
            law = np.convolve(law, step)
        limit = q * lean / 2 - slack * math.sqrt(2 * math.log(3 * T / delta) / m)
        failed = float(law[np.arange(-m, m + 1) < m * limit].sum())
        found.append(compare(failed, "<=", delta / (3 * T), f"below the bound, q={q}, m={m}, T={T}", precision=0.0))
    return found


def flipped_rows(scale: float) -> list[Comparison]:
    """At most scale (m D + sqrt(m ln(3T/delta)/2)) rows change their activation, unless with a chance of delta/(3T).

    Rows that move by at most D change it only if |w_r.x| <= D, and moved by D against their score all of these do; how
    many there are is binomial of chance erf(D/sqrt 2). Many rows and a small D bring the bound near: .8 of it.
    Many steps and a small delta show that the root needs both.
    """
    found = []
    cases = [(m, D, 10, 0.2) for m, D in ((200, 0.1), (1000, 0.02), (20, 0.8), (10**6, 0.05))]
    for m, D, T, delta in (*cases, (50, 0.6, 10**5, 0.9), (50, 0.6, 1, 1e-6)):
        chance = math.erf(D / math.sqrt(2))
        limit = scale * (m * D + math.sqrt(m * math.log(3 * T / delta) / 2))
        label = f"m={m}, T={T}, delta={delta}"
        found.append(
            compare(float(binom.sf(math.floor(limit), m, chance)), "<=", delta / (3 * T), label, precision=0.0)
        )
    T, delta = 10, 0.2
    for seed, (m, D) in enumerate(((200, 0.1), (50, 0.7), (1000, 0.02))):
        W, xs = normal(seed, m, 4), unit_rows(seed + 1, T, 4)
        score = W @ xs.mT
        near = (score.abs() <= D).sum(0)
        directions = nn.functional.normalize(normal(seed + 2, T, m, 4), dim=2)
        moved = torch.einsum("rtk,tk->rt", W[:, None] + D * directions.transpose(0, 1), xs)
        found.append(compare(((moved > 0) != (score > 0)).sum(0), "<=", near, f"changed by any move, m={m}"))
        against = torch.einsum("rtk,tk->rt", W[:, None] - D * score.sign()[..., None] * xs, xs)
        found.append(compare(((against > 0) != (score > 0)).sum(0), "==", near, f"changed at most, m={m}"))
        limit = m * D + math.sqrt(m * math.log(3 * T / delta) / 2)
        found.append(compare(near, "<=", limit, f"against the bound, m={m}"))
    return found


def linear_above(slope: float) -> list[Comparison]:
    """log2(1 + e^-z) <= 1 - slope z for z < 0, with equality at 0; so the loss of U is at most c sqrt(m) slope + 1.

    At every iterate of runs and under its mask, U of rows of norm c at random or against the label along x; where every
    unit is kept and active the score of the latter is -c sqrt m. On the line the values of numpy's logaddexp.
    """
    z = torch.linspace(-60, 0, 6001, dtype=torch.float64)
    truth = torch.from_numpy(np.logaddexp(0.0, -z.numpy()) / math.log(2))
    found = [
        compare(truth, "<=", 1 - slope * z, "line above the loss"),
        compare(loss(z), "==", truth, "the loss"),
        compare(loss(tensor([0.0])), "==", 1.0, "equality at zero"),
    ]
    for seed, (m, c, drop) in enumerate(((6, 5.0, 0.3), (1, 5.0, 0.5), (20, 5.0, 0.0), (4, 0.2, 0.2))):
        weights, masks, a, x, y = _lazy_run(seed, 5, m, drop)
        spread = c * unit_rows(seed, m, 3)
        open_gates = x.expand(m, 3)
        pairs = [*zip(weights, masks, strict=True), (open_gates, torch.ones(m, dtype=torch.float64))]
        for W, b in pairs:
            for U in (spread, -spread, -y * c * torch.outer(a, x)):
                score = y * (gradient(W, a, x, b) * U).sum()
                found.append(compare(loss(score), "<=", c * math.sqrt(m) * slope + 1, f"loss of U, m={m}, c={c}"))
        found.append(compare(score, "==", -c * math.sqrt(m), f"least score, m={m}, c={c}"))
        top = lazy_start(3, m, seed).weights[1]
        found.append(compare(top.abs(), "==", 1 / math.sqrt(m), f"top layer of the library, m={m}"))
        found.append(compare(masks, "==", masks.round().clamp(0, 1), f"masks are raw zeros and ones, m={m}"))
    return found


def active(spread: Callable[[float, float], float]) -> list[Comparison]:
    """P(some step keeps more than q m + spread units) <= delta, 1 - (1 - p)^T with the exact binomial tail p of a step.

    Also for what the library answers, Hoeffding's half of the spread, or the printed one; never more than all units.
    """
    found = []
    for m, q, T, delta in ((500, 0.3, 100, 0.05), (50, 0.5, 10, 0.1), (7, 0.9, 1000, 0.01), (10**5, 0.8, 10**4, 0.001)):
        log = math.log(T / delta)
        ours = active_units(m, 1 - q, T, confidence=1 - delta)
        printed = active_units(m, 1 - q, T, confidence=1 - delta, printed=True)
        for name, limit in (("stated", q * m + spread(m, log)), ("library", ours), ("library, printed", printed)):
            tail = float(binom.sf(math.floor(limit), m, q))
            failed = -math.expm1(T * math.log1p(-tail))
            found.append(compare(failed, "<=", delta, f"{name}, m={m}", precision=0.0))
        found.append(compare(ours, "==", min(m, q * m + math.sqrt(m * log / 2)), f"library's number, m={m}"))
        found.append(compare(printed, "==", min(m, q * m + math.sqrt(2 * m * log)), f"printed number, m={m}"))
    return found
