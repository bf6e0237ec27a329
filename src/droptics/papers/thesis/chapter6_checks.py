"""What the claims of chapter 6 (adversarial training with the reflected loss) compare.

Letters: f(x) = a^T s(W x), s(z) = max(alpha z, z), |a_r| = kappa, radius nu, delta a perturbed point, z = y f(delta),
l(z) = ln(1 + e^-z) and its reflection l_-(z) = -l(-z).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn

from droptics.attacks import (
    Bim,
    Fgsm,
    LinearExact,
    Logistic,
    Method,
    Pgd,
    Reflected,
    Threat,
    attack,
)
from droptics.data import Sample
from droptics.evidence.claims import Comparison, Relation, compare
from droptics.papers.instances import normal, tensor, uniform


def scores(W: Tensor, a: Tensor, x: Tensor, alpha: float) -> Tensor:
    """a^T s(W x) for points x (..., d)."""
    return nn.functional.leaky_relu(x @ W.mT, alpha) @ a


def slopes(values: Tensor, alpha: float) -> Tensor:
    """Derivative of the leaky ReLU."""
    return alpha + (1 - alpha) * (values > 0).double()


def reflected_loss(slope: Callable[[Tensor], Tensor]) -> list[Comparison]:
    """Derivative of l_-, concavity, and 1 + l_-/ln 2 <= 0-1 loss."""
    z = torch.linspace(-6, 6, 1201, dtype=torch.float64).requires_grad_(True)
    value = Reflected(Logistic())(z[:, None], torch.ones(len(z)))
    (derivative,) = torch.autograd.grad(value.sum(), z)
    z = z.detach()
    second = value[2:] - 2 * value[1:-1] + value[:-2]
    return [
        compare(value, "==", -nn.functional.softplus(z), "l_-(z) = -l(-z)"),
        compare(derivative, "==", slope(z), "derivative"),
        compare(second, "<=", 0.0, "concave"),
        compare(1 + value / math.log(2), "<=", (z <= 0).double(), "below the 0-1 loss"),
    ]


def _scorer(seed: int = 0) -> nn.Module:
    module = nn.Sequential(nn.Linear(4, 6), nn.LeakyReLU(0.2), nn.Linear(6, 1)).double()
    with torch.no_grad():
        for i, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(seed + i, *parameter.shape))
    return module


def _binary(seed: int = 3, count: int = 12) -> Sample:
    return Sample(normal(seed, count, 4), torch.sign(normal(seed + 1, count, 1)))


def same_attacks(steps: int, raw: bool) -> list[Comparison]:
    """Sign and normalized attacks are identical with and without reflection; raw gradients are not."""
    found = []
    for norm, radius in (("linf", 0.2), ("l2", 0.5)):
        threat = Threat(norm, radius)
        pairs: list[tuple[Method, Method]] = [
            (Fgsm(Logistic()), Fgsm(Reflected(Logistic()))),
            (Bim(Logistic(), steps), Bim(Reflected(Logistic()), steps)),
        ]
        if raw:
            pairs = [
                (
                    Pgd(Logistic(), steps=steps, step=0.3, gradient="raw"),
                    Pgd(Reflected(Logistic()), steps=steps, step=0.3, gradient="raw"),
                )
            ]
        for plain, other in pairs:
            results = [attack(_scorer(), _binary(), threat, method).inputs for method in (plain, other)]
            found.append(compare(results[1], "==", results[0], f"{type(plain).__name__}, {norm}"))
    return found


def algorithm_5(sign: float) -> list[Comparison]:
    """The printed update moves against y grad f with length sigmoid(y f), and stays in the ball."""
    found = []
    for seed in range(3):
        W, a, x, y = normal(seed, 5, 3), torch.sign(normal(seed + 1, 5)), normal(seed + 2, 3), 1.0
        delta = x + 0.1 * normal(seed + 3, 3)
        leaf = delta.clone().requires_grad_(True)
        value = -nn.functional.softplus(y * scores(W, a, leaf, 0.3))
        (slope,) = torch.autograd.grad(value, leaf)
        z = y * scores(W, a, delta, 0.3)
        gradient = (a * slopes(W @ delta, 0.3)) @ W
        found.append(compare(-torch.sigmoid(z) * y * gradient, "==", sign * slope, "direction of the step"))
        moved = delta + 5 * slope
        inside = x + (moved - x) * min(1.0, 0.7 / float((moved - x).norm()))
        found.append(compare((inside - x).norm(), "<=", 0.7, "inside the ball"))
    return found


def algorithm_6(factor: float) -> list[Comparison]:
    """W + eta sigmoid(-y f) y (a s'(W delta)) delta^T is a gradient step on the logistic loss."""
    found = []
    for seed in range(3):
        W, a, delta, y = normal(seed, 5, 3), torch.sign(normal(seed + 1, 5)), normal(seed + 2, 3), -1.0
        leaf = W.clone().requires_grad_(True)
        (slope,) = torch.autograd.grad(nn.functional.softplus(-y * scores(leaf, a, delta, 0.2)), leaf)
        z = y * scores(W, a, delta, 0.2)
        inner = a * slopes(W @ delta, 0.2)
        printed = torch.sigmoid(-z) * y * torch.outer(inner, delta)
        found.append(compare(printed, "==", -factor * slope, "update"))
    return found


def linear_robust_margin(scale: float) -> list[Comparison]:
    """Slope 1: min over the ball of y f = y w.x - nu ||w||, w = W^T a; attained and never beaten."""
    found = []
    W, a, nu = normal(1, 4, 3), torch.sign(normal(2, 4)), 0.6
    w = W.mT @ a
    for seed in range(3):
        x, y = normal(seed + 5, 3), 1.0
        least = y * (w @ x) - scale * nu * w.norm()
        directions = normal(seed, 500, 3)
        points = x + nu * directions / directions.norm(dim=1, keepdim=True)
        found.append(compare((y * points @ w).min(), ">=", least, "no point below"))
        best = x - y * nu * w / w.norm()
        found.append(compare(y * (best @ w), "==", least, "attained"))
    module = nn.Linear(3, 1, bias=False).double()
    with torch.no_grad():
        module.weight.copy_(w[None])
    data = Sample(normal(9, 6, 3), torch.sign(normal(8, 6, 1)))
    hit = attack(module, data, Threat("l2", nu), LinearExact())
    closed = (data.targets * (data.inputs @ w)[:, None]).squeeze(-1) - scale * nu * w.norm()
    return [*found, compare(hit.margins, "==", closed, "library")]


def beta_error(relation: Relation) -> list[Comparison]:
    """L_beta is non-increasing in beta and at most L_rob: a weaker requirement."""
    W, a, nu = normal(1, 4, 3), torch.sign(normal(2, 4)), 0.5
    w = (W / W.norm()).mT @ a
    X, y = normal(3, 400, 3), torch.sign(normal(4, 400))
    least = y * (X @ w) - nu * w.norm()
    errors = [float((least < -beta).double().mean()) for beta in (0.0, 0.1, 0.3, 0.6)]
    return [compare(later, relation, earlier, "larger beta") for earlier, later in itertools.pairwise(errors)]


def intermediate_step(beta_factor: float) -> list[Comparison]:
    """Linearized score <= half the attacked score, in the ball, for beta >= factor nu (1-alpha) kappa sqrt m."""
    found = []
    cases = [(tensor([[1.0]]), tensor([1.0]), tensor([0.5]), -1.0, 0.3, 1.0)]
    for seed in range(60):
        W = normal(seed, 2, 1)
        cases.append((W / W.norm(), torch.sign(normal(seed + 1, 2)), normal(seed + 2, 1), 1.0, 0.6, 0.8))
    for W, a, x, y, alpha, nu in cases:
        grid = x + nu * torch.linspace(-1, 1, 81, dtype=torch.float64)[:, None]
        z = y * scores(W, a, grid, alpha)
        best = int(z.argmin())
        if float(z[best]) > -beta_factor * nu * (1 - alpha) * math.sqrt(len(a)):
            continue
        inner = a * slopes(grid @ W.mT, alpha)
        linearized = y * ((inner @ W) * (grid[best] - grid)).sum(1) + z
        found.append(compare(linearized, "<=", z[best] / 2, "linearized score at the strongest attack"))
    return found


def attack_bound(beta_factor: float, share: float) -> list[Comparison]:
    """-l'(z*) <= share (-2 l'(z_atk) + 4 nu^2/(eta T)) for beta-effective attacks on random networks."""
    found = []
    for seed in range(150):
        m, d = 2, 2
        W = normal(seed, m, d)
        W, a = W / W.norm(), torch.sign(normal(seed + 1, m))
        alpha, nu, T = 0.8, 0.7, 10
        x, y = 0.3 * normal(seed + 2, d), 1.0
        angles = torch.linspace(0, 2 * math.pi, 181, dtype=torch.float64)
        ring = torch.stack([angles.cos(), angles.sin()], 1)
        points = torch.cat([x + nu * r * ring for r in (0.25, 0.5, 0.75, 1.0)])
        least = float((y * scores(W, a, points, alpha)).min())
        if least > -beta_factor * nu * (1 - alpha) * math.sqrt(m):
            continue
        eta = 1 / (m * float(W.square().sum()))
        delta, reached = x.clone(), float(y * scores(W, a, x, alpha))
        for _ in range(T):
            z = y * scores(W, a, delta, alpha)
            gradient = (a * slopes(W @ delta, alpha)) @ W
            delta = delta - eta * torch.sigmoid(z) * y * gradient
            delta = x + (delta - x) * min(1.0, nu / max(float((delta - x).norm()), 1e-300))
            reached = min(reached, float(y * scores(W, a, delta, alpha)))
        left = 1 / (1 + math.exp(least))
        right = 2 / (1 + math.exp(reached)) + 4 * nu**2 / (eta * T)
        found.append(compare(left, "<=", share * right, "chance of the strongest attack"))
    return found


def scalar_step(factor: float) -> list[Comparison]:
    """2 l_-(z/2) <= l_-(z') + e implies -l'(z) <= factor (-2 l'(z') + 4 e)."""
    z = torch.linspace(-12, 12, 241, dtype=torch.float64)[:, None]
    other = torch.linspace(-12, 12, 241, dtype=torch.float64)
    needed = (-2 * nn.functional.softplus(z / 2) + nn.functional.softplus(other)).clamp_min(0)
    right = 2 * torch.sigmoid(-other) + 4 * needed
    return [compare(torch.sigmoid(-z).expand_as(right), "<=", factor * right, "scalar inequality")]


def _separable(seed: int, count: int) -> tuple[Tensor, Tensor]:
    angle = 2 * math.pi * uniform(seed, count)
    X = torch.stack([angle.cos(), angle.sin()], 1) * (1 + uniform(seed + 1, count)[:, None])
    y = torch.sign(X[:, 0])
    return X + tensor([1.0, 0.0]) * y[:, None], y


def training_run(
    a: Tensor, steps: int, attack_radius: float = 0.5, rate: float = 1.0
) -> tuple[list[float], list[float], float]:
    """Chances sigmoid(-y f) and squared norms along Algorithm 6 with a one-step attack, and the step size.

    The step is `rate` times 1/(m kappa^2 (R+nu)^2).
    """
    alpha, m = 0.6, len(a)
    X, y = _separable(4, steps)
    reach = float(X.norm(dim=1).max())
    kappa = float(a.abs().max()) or 1.0
    eta = rate / (m * kappa**2 * (reach + attack_radius) ** 2)
    W = 0.3 * normal(7, m, 2)
    chances, norms = [], [float(W.square().sum())]
    for x, label in zip(X, y, strict=True):
        gradient = (a * slopes(W @ x, alpha)) @ W
        size = float(gradient.norm())
        delta = x - attack_radius * label * gradient / size if size > 0 else x
        z = label * scores(W, a, delta, alpha)
        chances.append(float(torch.sigmoid(-z)))
        inner = a * slopes(W @ delta, alpha)
        W = W + eta * torch.sigmoid(-z) * label * torch.outer(inner, delta)
        norms.append(float(W.square().sum()))
    return chances, norms, eta


def norm_growth(constant: float) -> list[Comparison]:
    """||W_{t+1}||^2 <= ||W_1||^2 + constant eta t along a run."""
    found = []
    for seed in (1, 2):
        a = torch.sign(normal(seed, 6)) / math.sqrt(6)
        _, norms, eta = training_run(a, 150)
        bound = [norms[0] + constant * eta * t for t in range(len(norms))]
        found.append(compare(tensor(norms), "<=", tensor(bound), "squared norm of the weights"))
    return found


def learns(a: Tensor, level: float = 0.3) -> list[Comparison]:
    """The mean of -l' over the run's second half falls below a level: with a = 0 it stays at 1/2."""
    chances, _, _ = training_run(a, 600)
    return [compare(sum(chances[300:]) / 300, "<=", level, "mean chance of a mistake")]


def iterations_corollary(constant: float) -> list[Comparison]:
    """The number of training steps of the theorem, at the values of the corollary, against the stated one."""
    found = []
    for gamma, nu, R, eps in ((1.0, 0.5, 2.0, 0.3), (0.755, 0.0755, 16.0, 1.0)):
        whole = 64 * (R + nu) ** 2 * (1 + 1 / gamma * gamma * eps) / ((gamma - nu) ** 2 * eps**2)
        stated = constant * (R + nu) ** 2 / ((gamma - nu) ** 2 * eps**2)
        found.append(compare(whole, "<=", stated, f"eps={eps}"))
    return found


def attack_steps(inverted: bool) -> list[Comparison]:
    """8 nu^2/(eta eps) at kappa = beta/(2 nu (1-alpha) sqrt m) against 2 beta^2 ||W||^2/((1-alpha)^2 eps)."""
    found = []
    for beta, nu, alpha, m, norm, eps in ((0.5, 0.3, 0.6, 10, 2.0, 0.1), (1.5, 0.2, 0.9, 4, 0.7, 0.5)):
        kappa = beta / (2 * nu * (1 - alpha) * math.sqrt(m))
        eta = 1 / (kappa**2 * m * norm**2)
        stated = 2 * beta**2 * norm**2 / ((1 - alpha) ** 2 * eps)
        if inverted:
            stated = 2 * (1 - alpha) ** 2 / (beta**2 * norm**2 * eps)
        found.append(compare(8 * nu**2 / (eta * eps), "==", stated, f"beta={beta}"))
    return found


def total_cost(last: Callable[[int], int]) -> list[Comparison]:
    """Sum over t < T of 8 nu^2 (3 + 3 t)/((R+nu)^2 eps) against 12 nu^2 T last(T)/((R+nu)^2 eps)."""
    nu, R, eps = 0.3, 2.0, 0.2
    found = []
    for T in (1, 5, 100):
        total = sum(8 * nu**2 * (3 + 3 * t) / ((R + nu) ** 2 * eps) for t in range(T))
        found.append(compare(total, "<=", 12 * nu**2 * T * last(T) / ((R + nu) ** 2 * eps), f"T={T}"))
    return found


def effective_means_misclassified(factor: float, slope: float) -> list[Comparison]:
    """For slope below the threshold a beta-effective attack exists only where the clean point is misclassified."""
    found = []
    for seed in range(300):
        m, d, nu = 3, 2, 0.8
        W = normal(seed, m, d)
        W, a = W / W.norm(), torch.sign(normal(seed + 1, m))
        x, y = 0.6 * normal(seed + 2, d), 1.0
        angles = torch.linspace(0, 2 * math.pi, 91, dtype=torch.float64)
        ring = torch.stack([angles.cos(), angles.sin()], 1)
        points = torch.cat([x + nu * r * ring for r in (0.5, 1.0)])
        least = float((y * scores(W, a, points, slope)).min())
        if least <= -factor * nu * (1 - slope) * math.sqrt(m):
            found.append(compare(y * scores(W, a, x, slope), "<", 0.0, "clean score"))
    return found
