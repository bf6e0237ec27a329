"""What the claims of chapter 6 on adversarial training compare: runs of Algorithm 6 at the stated sizes, and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor

from droptics.bounds import adversarial
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.papers.instances import normal, tensor
from droptics.papers.thesis.leaky import LeakyNet, LeakyRun, adversarial_sgd, beta_robust_error, reflected_pgd

GAMMA, REACH, RADIUS = 0.9, 1.0, 0.1


def _population(count: int = 24) -> tuple[Tensor, Tensor]:
    """Points of the unit circle with margin at least GAMMA along the first axis, both labels."""
    angle = torch.linspace(-1, 1, count, dtype=torch.float64) * math.acos(GAMMA)
    y = torch.ones(count, dtype=torch.float64)
    y[::2] = -1
    return y[:, None] * torch.stack([angle.cos(), angle.sin()], 1), y


def _trained(  # parameters: those of Algorithm 6
    net: LeakyNet,
    steps: int,
    eta: float,
    attack_steps: int,
    seed: int,
    every: int,
    radius: float = RADIUS,
    count: int = 24,
) -> LeakyRun:
    X, y = _population(count)
    drawn = torch.randint(len(y), (steps,), generator=torch.Generator().manual_seed(seed))
    return adversarial_sgd(
        net,
        lambda t: (X[drawn[t]][None], y[drawn[t]][None]),
        radius=radius,
        steps=steps,
        step=eta,
        attack_steps=attack_steps,
        every=every,
    )


def _wrong_start(width: int, slope: float, size: float, top: float = 1.0) -> LeakyNet:
    """All units against the right direction, ||W||_F = size, |a_r| = top / sqrt m."""
    a = torch.ones(width, dtype=torch.float64) * top / width**0.5
    W = torch.zeros(width, 2, dtype=torch.float64)
    W[:, 0] = -size / width**0.5
    return LeakyNet(W, a, slope)


def norm_growth(constant: float) -> list[Comparison]:
    """||W_{t+1}||^2 <= ||W_1||^2 + constant eta t along runs, eta the largest step or part of it.

    A step adds eta (2 z s + s^2) or less, z = y f at the attacked point and s = sigmoid(-z), which is .612 eta at most:
    at z = 1.085, where the first run starts. Other runs start wrong, right and at random, with and without attacks.
    """
    x, y = tensor([[1.0, 0.0]]), tensor([1.0])
    found, aligned = [], LeakyNet(tensor([[1.085, 0.0]]), tensor([1.0]), 1.0)
    random = LeakyNet(normal(1, 5, 2), 0.3 * torch.sign(normal(2, 5)), 0.2)
    cases = [(aligned, 1.0, 0.0), (random, 1.0, RADIUS), (random, 0.3, 0.5)]
    for slope, size in ((0.5, 3.0), (1.0, 3.0), (0.7, -1.0)):
        cases.append((_wrong_start(4, slope, size), 1.0, RADIUS))
    for net, part, radius in cases:
        eta = part / (float(net.top.square().sum()) * (REACH + radius) ** 2)
        if net is aligned:
            run = adversarial_sgd(net, lambda t: (x, y), radius=0.0, steps=20, step=eta, attack_steps=1)
        else:
            run = _trained(net, 60, eta, 3, 1, 1, radius)
        squares = tensor(run.norms).square()
        limit = squares[0] + constant * eta * torch.arange(len(squares), dtype=torch.float64)
        found.append(compare(squares, "<=", limit, f"squared norm of the weights, slope {net.slope}"))
        found.append(compare(squares.diff() / eta, "<=", 0.6119, f"growth in a step, slope {net.slope}"))
        found.append(compare(run.net.norm, "==", run.net.hidden.square().sum().sqrt(), "||W||_F"))
    return found


def learns(share: float, top: float = 1.0, cap: int = 60) -> list[Comparison]:
    """Lemma 19: E_D[-l'(y f(delta_atk))] <= eps at some iterate within `share` of its number of steps, or `cap`.

    The mean over D is over all points, each attacked; the expectation over samples is a mean over runs. One iterate
    suffices, so a run may end before the stated number of steps. The first instance is nearest to that number: two
    points of margin GAMMA itself, hardly an attack, a start far on the wrong side, half of the largest step.
    """
    found = []
    cases = ((1.0, 0.9, 20.0, 0.5, 0.01, 2), (0.9, 0.3, 4.0, 1.0, RADIUS, 24), (1.0, 0.25, 4.0, 1.0, RADIUS, 24))
    for slope, eps, size, part, radius, count in cases:
        X, y = _population(count)
        eta = part / (REACH + radius) ** 2
        stated = 4 * (1 + size * GAMMA * slope * eps) / (eta * ((GAMMA - radius) * slope * eps) ** 2)
        steps = min(math.floor(share * stated), cap)
        every = max(steps // 8, 1)
        start = _wrong_start(4, slope, size, top)
        runs = [_trained(start, steps, eta, 3, seed, every, radius, count) for seed in (1, 2)]
        means = []
        for nets in zip(*(run.nets for run in runs), strict=True):
            attacked = [reflected_pgd(net, X, y, radius, 1 / max(net.norm**2, 1.0), 3) for net in nets]
            forces = [torch.sigmoid(-y * net(points)).mean() for net, points in zip(nets, attacked, strict=True)]
            means.append(float(torch.stack(forces).mean()))
        found.append(compare(means[0], ">", eps, "before training"))
        label = f"least mean of -l' in {steps} steps of {stated:.0f}, slope {slope}"
        found.append(compare(min(means), "<=", eps, label))
    return found


def robust_training(radius: float) -> list[Comparison]:
    """Theorem 16: L_beta(W_tau) <= 2 eps for some tau <= T_tr, the printed beta, nu = 1/2, certified on all points.

    `radius` is that of the attacks in training: nu, or 0 for plain SGD. The start classifies most points right and few
    of them within the ball; three steps are enough, far fewer than T_tr. The mean is over the samples of two runs.
    """
    found = []
    X, y = _population()
    data, nu, eps, steps, effort = Sample(X, y[:, None]), 0.5, 0.24, 3, 90
    for slope in (0.95, 1.0):
        a = tensor([-0.5, 0.5, -0.5, 0.5])
        start = LeakyNet(torch.outer(a, tensor([1.0, 2.9])), a, slope)
        stated = adversarial(
            data_radius=REACH,
            margin=GAMMA,
            radius=nu,
            error=eps,
            slope=slope,
            width=4,
            start_norm=start.norm,
            constants="printed",
        )
        rate, beta = stated.terms["training_step_size"], stated.terms["beta"]
        growth = 1 + start.norm * GAMMA * slope * eps  # kappa sqrt m is 1
        bounds = [64 * (REACH + nu) ** 2 * growth / ((GAMMA - nu) * slope * eps) ** 2, 1 / (REACH + nu) ** 2]
        bounds.append(2 * nu * (1 - slope))
        found.append(compare([stated.value, rate, beta], "==", bounds, f"T_tr, eta_tr and beta, slope {slope}"))
        runs = [_trained(start, steps, rate, effort, seed, 1, radius) for seed in (1, 2)]
        largest = max(max(run.norms) for run in runs)
        found.append(compare(steps, "<=", stated.value, "steps against T_tr"))
        found.append(compare(effort, ">=", 8 * nu**2 * largest**2 / eps, "attack steps against T_atk"))
        errors = tensor(
            [[float(beta_robust_error(net, data, nu, beta, steps=8).upper) for net in run.nets] for run in runs]
        )
        found.append(compare(errors[:, 0], ">", 2 * eps, "before training"))
        found.append(compare(errors.mean(0).min(), "<=", 2 * eps, f"least L_beta, slope {slope}"))
    return found


def all_steps(top: float) -> list[Comparison]:
    """All T_tr steps of Theorem 16, slope 1, with |a_r| = `top` kappa, from a start that is wrong everywhere."""
    X, y = _population()
    eps, nu, size = 0.49, 0.01, 1.0
    stated = adversarial(
        data_radius=REACH, margin=GAMMA, radius=nu, error=eps, width=4, start_norm=size, constants="printed"
    )
    steps, rate = math.floor(stated.value), stated.terms["training_step_size"]
    run = _trained(_wrong_start(4, 1.0, size, top), steps, rate, 1, 0, steps // 6, nu)
    errors = [float(beta_robust_error(net, Sample(X, y[:, None]), nu).value) for net in run.nets]
    return [
        compare(1, ">=", 8 * nu**2 * max(run.norms) ** 2 / eps, "attack steps against T_atk"),
        compare(min(errors), "<=", 2 * eps, f"least L_beta in {steps} steps"),
    ]


def iterations_corollary(constant: float) -> list[Comparison]:
    """T_tr of Theorem 16 as printed, at the values of the corollary, against constant (R+nu)^2/((gamma-nu) eps)^2."""
    found = []
    cases = ((1.0, 0.5, 2.0, 0.3, 1), (0.755, 0.0755, 16.0, 0.99, 9), (0.2, 0.0, 1.0, 0.999, 4))
    for gamma, nu, R, eps, m in cases:
        options = {"data_radius": R, "margin": gamma, "radius": nu, "error": eps, "width": m, "top": m**-0.5}
        growth = 1 + (1 / gamma) * gamma * eps  # omega = 1/gamma, alpha = kappa sqrt m = 1
        theorem = 64 * (R + nu) ** 2 * growth / ((gamma - nu) * eps) ** 2
        stated = constant * (R + nu) ** 2 / ((gamma - nu) * eps) ** 2
        found.append(compare(theorem, "<=", stated, f"from the theorem, eps={eps}"))
        whole = adversarial(**options, constants="printed").value
        corollary = adversarial("cor4", **options, constants="printed").value
        found.append(compare(whole, "==", theorem, f"library, the theorem, eps={eps}"))
        found.append(compare(corollary, "==", stated, f"library, the corollary, eps={eps}"))
    return found


def attack_steps(printed: bool, count: float = 2.0) -> list[Comparison]:
    """T_atk of Corollary 5, as printed or `count` ratio/eps, against 8 nu^2/(eta_atk eps) at its own largest eta_atk.

    The corrected kappa of the library has 4 nu in place of 2 nu, since beta >= 4 nu (1-alpha) kappa sqrt m: a quarter
    of the steps, each four times as long. With the printed beta it has 2 nu and twice the steps.
    """
    found = []
    for beta, nu, slope, norm, eps, width in ((0.5, 0.3, 0.8, 2.0, 0.1, 1), (1.5, 0.2, 0.9, 0.7, 0.5, 6)):
        kappa = beta / (2 * nu * (1 - slope) * math.sqrt(width))
        ratio = (beta * norm / (1 - slope)) ** 2
        longest = 1 / (kappa**2 * width * norm**2)
        found.append(compare(4 * nu**2 / ratio, "==", longest, f"largest step of the theorem, beta={beta}"))
        needed = 8 * nu**2 / (longest * eps)
        stated = 2 / (ratio * eps) if printed else count * ratio / eps
        found.append(compare(stated, "==", needed, f"stated, beta={beta}"))
        given: dict[str, Any] = {"data_radius": 1.0, "margin": 0.9, "radius": nu, "error": eps, "slope": slope}
        given |= {"width": width, "beta": beta, "weight_norm": norm}
        kept = {"printed": (1.0, 1.0)} if printed else {"corrected": (0.25, 0.25), "printed beta": (1.0, 2.0)}
        for constants, (share, steps) in kept.items():
            ours = adversarial("cor5", **given, constants=cast(Any, constants)).terms
            label = f"library, beta={beta}, constants {constants}"
            found.append(compare(ours["attack_steps"], "==", steps * stated, label))
            found.append(compare(ours["attack_step_size"], "==", longest / share, f"step of the {label}"))
            found.append(compare(ours["top"], "==", kappa * math.sqrt(share), f"kappa of the {label}"))
            found.append(compare(ours["beta"], "==", beta, f"beta of the {label}"))
    return found


def total_cost(last: Callable[[float], float]) -> list[Comparison]:
    """Sum over the steps of 8 nu^2 (omega^2 + 3 eta (t-1))/eps against 12 nu^2 T last(T)/((R+nu)^2 eps).

    The library's number of all attack steps lies between the sums up to the whole numbers around its T_tr. Runs of
    Algorithm 6 have ||W_t||^2 in place of omega^2 + 3 eta (t-1), and no attack step is longer than 1/||W_t||^2.

    The end of the chain stands for T(T+1) and eps <= 1/2: with x = ((R+nu)/((gamma-nu) alpha eps))^2 >= 4 it is
    12 nu^2 (128 x)^2/((R+nu)^2 eps), and the printed T_tr = 64 x (1 + omega gamma alpha eps) is at most 120 x.
    """
    found = []
    for nu, eps, slope, width, steps in ((0.3, 0.2, 0.5, 4, 20), (0.1, 0.45, 1.0, 1, 3), (0.8, 0.9, 1.0, 9, 1)):
        eta = 1 / (REACH + nu) ** 2
        run = _trained(_wrong_start(width, slope, -((3 * eta) ** 0.5)), steps, eta, 2, width, 1, nu)
        cost = sum(8 * nu**2 * norm**2 / eps for norm in run.norms[:steps])
        stated = 12 * nu**2 * steps * (steps + 1) * eta / eps
        found.append(compare(cost, "<=", stated, f"attacks of a run, T={steps}"))
    for nu, R, eps, gamma in ((0.3, 2.0, 0.2, 1.0), (0.05, 1.0, 0.45, 0.9), (1.0, 5.0, 0.9, 1.5)):
        omega2, eta = 3 / (R + nu) ** 2, 1 / (R + nu) ** 2

        def spent(T: int, nu: float = nu, eps: float = eps, omega2: float = omega2, eta: float = eta) -> float:
            return float((8 * nu**2 * (omega2 + 3 * eta * torch.arange(T, dtype=torch.float64)) / eps).sum())

        for T in (1, 2, 5, 100):
            stated = 12 * nu**2 * T * last(T) / ((R + nu) ** 2 * eps)
            found.append(compare(spent(T), "<=", stated, f"T={T}, nu={nu}, R={R}"))
            printed = sum(24 * nu**2 * t / ((R + nu) ** 2 * eps) for t in range(1, T + 1))
            found.append(compare(spent(T), "==", printed, f"the sum of 24 nu^2 t, T={T}", scale=0.0))
        ours = adversarial(data_radius=R, margin=gamma, radius=nu, error=eps, start_norm=omega2**0.5)
        total = ours.terms["total_attack_steps"]
        whole = 12 * nu**2 * ours.value * last(ours.value) / ((R + nu) ** 2 * eps)
        found.append(compare(total, "==", whole, f"library, nu={nu}"))
        found.append(compare(spent(math.floor(ours.value)), "<=", total, f"library from below, nu={nu}"))
        found.append(compare(total, "<=", spent(math.ceil(ours.value)), f"library from above, nu={nu}"))
        for slope in (1.0, 0.6):
            given = {"data_radius": R, "margin": gamma, "radius": nu, "start_norm": omega2**0.5, "slope": slope}
            count = adversarial(**given, error=eps, constants="printed").value
            most = 196608 * (nu * (R + nu)) ** 2 / (((gamma - nu) * slope) ** 4 * eps**5)
            cost = 12 * nu**2 * count * (count + 1) / ((R + nu) ** 2 * eps)
            found.append(compare(cost, "<=", most, f"end of the chain, nu={nu}, slope {slope}"))
    return found
