"""What a claim on bounds of training compares: adversarial and lazy training with all their constants, and margins."""

from __future__ import annotations

import math
from functools import partial
from typing import Literal

import numpy as np
import scipy
import torch

from droptics.bounds import active_units, adversarial, gate_margin, initial_norm, lazy, lazy_setting, linear_margin
from droptics.data import Sample
from droptics.evidence.claims import Comparison, compare
from droptics.models import ReLUNet
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.instances import normal, tensor

Constants = Literal["corrected", "printed", "printed beta"]


def trained_bounds(scale: float) -> list[Comparison]:
    """Iterations of adversarial and of lazy training, sub-networks, starts, and the margins that they assume."""
    return by_parts((_adversarial, _lazy, _margins), scale)


def _adversarial(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    R, gamma, nu, eps, alpha, m = 2.0, 0.9, 0.3, 0.05, 0.8, 9
    choices: tuple[Constants, ...] = ("corrected", "printed", "printed beta")
    for constants in choices:
        factor = 4 if constants == "corrected" else 2
        for kappa, omega, step, norm in ((None, None, None, None), (0.7, 1.4, 0.02, 2.5)):
            reach = 1.0 if kappa is None else kappa * 3
            start = 1 / gamma if omega is None else omega
            eta = 1 / (reach * (R + nu)) ** 2 if step is None else step
            told = adversarial(
                data_radius=R,
                margin=gamma,
                radius=nu,
                error=eps,
                slope=alpha,
                width=m,
                top=kappa,
                start_norm=omega,
                step_size=step,
                weight_norm=norm,
                constants=constants,
            )
            share = {"corrected": eps / 4, "printed beta": eps / 8}.get(constants, 0.0)
            if constants == "printed":
                count = 64 * (R + nu) ** 2 * (1 + start * gamma * alpha * reach * eps)
                count /= ((gamma - nu) * alpha * eps) ** 2
            else:
                count = 4 * (1 + start * gamma * alpha * reach * share)
                count /= eta * ((gamma - nu) * alpha * reach * share) ** 2
            at = start if norm is None else norm
            effort = 16 if constants == "printed beta" else 8
            attack = effort * nu**2 * reach**2 / eps
            total = attack * (count * start**2 + 1.5 * eta * count * (count - 1))
            wanted = {
                "training_step_size": eta,
                "attack_step_size": 1 / (reach * at) ** 2,
                "attack_steps": attack * at**2,
                "total_attack_steps": total,
                "beta": factor * nu * (1 - alpha) * reach,
                "top": reach / 3,
                "robust_error": 2 * eps,
                "informative_slope": 0.75 if constants == "corrected" else 0.5,
            }
            found.append(compare(told.value, "==", scale * count, f"iterations, {constants}"))
            for name, value in wanted.items():
                found.append(compare(told.terms[name], "==", scale * value, f"{name}, {constants}"))
            found.append(compare(float(told.vacuous), "==", 0.0, f"not vacuous, {constants}"))
        linear = adversarial("cor4", data_radius=R, margin=gamma, radius=nu, error=eps, width=m, constants=constants)
        share = eps / (8 if constants == "printed beta" else 4)
        count = 4 * (R + nu) ** 2 * (1 + share) / ((gamma - nu) * share) ** 2
        if constants == "printed":
            count = 128 * (R + nu) ** 2 / ((gamma - nu) * eps) ** 2
        found.append(compare(linear.value, "==", scale * count, f"linear case, {constants}"))
        chosen = adversarial(
            "cor5", data_radius=R, margin=gamma, radius=nu, error=eps, slope=0.6, beta=0.2, constants=constants
        )
        reach = 0.2 / (factor * nu * 0.4)
        found.append(compare(chosen.terms["top"], "==", scale * reach, f"top of a wanted beta, {constants}"))
        found.append(compare(chosen.terms["beta"], "==", scale * 0.2, f"the wanted beta, {constants}"))
        steps = (16 if constants == "printed beta" else 8) * (nu * reach) ** 2 / eps / gamma**2
        if constants == "printed":
            steps = 2 * 0.4**2 / (0.2**2 * gamma**-2 * eps)
        found.append(compare(chosen.terms["attack_steps"], "==", scale * steps, f"attack steps, {constants}"))
        found.append(compare(float(chosen.vacuous), "==", float(constants == "corrected"), f"slope .6, {constants}"))
    still = adversarial(data_radius=R, margin=gamma, radius=nu, error=eps, weight_norm=0.0)
    found.append(compare(still.terms["attack_step_size"], "==", math.inf, "a network of zeros"))
    return found


def _strength(gamma: float, T: float, d: int, eta: float, m: float) -> tuple[float, float]:
    """Lambda and c of the theorem."""
    c = math.sqrt(d) + max(1 / (14 * gamma**2), 2 * math.sqrt(math.log(m))) + 1
    inner = math.log(24 * eta * c * math.sqrt(m) * T**2)
    return 5 / gamma * math.log(2 * eta * T) + math.sqrt(44 * inner) / gamma, c


def _lazy(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    for gamma, T, d, eta, m in (
        (0.2, 1e4, 20, 0.5, 1e10),
        (0.4, 300.0, 784, math.log(2), 1e7),
        (0.05, 1e6, 3, 0.1, 50),
    ):
        lam, c = _strength(gamma, T, d, eta, m)
        told = lazy_setting(gamma, T, d, step_size=eta, width=m)
        wanted = [lam, c, m, 2401 * gamma**-6 * lam**2, 7 * lam / (2 * gamma * math.sqrt(m))]
        names = ("strength", "radius", "width", "needed_width", "drift")
        for name, value in zip(names, wanted, strict=True):
            found.append(compare(getattr(told, name), "==", scale * value, f"{name}, margin {gamma}"))
        least = lazy_setting(gamma, T, d, step_size=eta)

        def short(log_m: float, gamma: float = gamma, T: float = T, d: int = d, eta: float = eta) -> float:
            return log_m - math.log(2401 * gamma**-6 * _strength(gamma, T, d, eta, math.exp(log_m))[0] ** 2)

        root = math.exp(scipy.optimize.brentq(short, 10.0, 80.0, xtol=1e-13))
        found.append(compare(least.width, "==", scale * root, f"least width, margin {gamma}", precision=1e-10))
        lam, c = _strength(gamma, T, d, eta, least.width)
        distance, factor = lam**2 / (eta * T), 2 / (3 - math.e)
        cases = (
            (False, False, [distance, (1 / math.log(2) + 1) / (eta * T)]),
            (False, True, [4 * distance]),
            (True, True, [12 * distance, 6 * math.log(1 / 0.1) / T]),
            (
                True,
                False,
                [
                    factor * math.log(2) * distance,
                    factor / (eta * T),
                    factor * math.log(1 / (0.1 - 1 / (4 * eta * T * c * math.sqrt(least.width)))) / T,
                ],
            ),
        )
        for compression, printed, terms in cases:
            after = partial(
                lazy,
                margin=gamma,
                inputs=d,
                drop=0.0,
                step_size=eta,
                compression=compression,
                printed=printed,
                confidence=0.9,
            )
            bound = after(steps=int(T))
            label = f"margin {gamma}, compression {compression}, printed {printed}"
            found.append(compare(list(bound.terms.values()), "==", [scale * one for one in terms], label))
            there = bound.needed["steps"]
            for share, relation in ((1.0001, "<"), (0.9999, ">")):
                near = after(steps=max(1, round(there * share)))
                found.append(compare(near.value, relation, scale, f"{label} where it crosses one"))  # type: ignore[arg-type]
            width = lazy_setting(gamma, there, d, step_size=eta).width
            found.append(compare(bound.needed["width"], "==", scale * width, f"{label}, its width"))
        narrow = lazy(margin=gamma, steps=int(T), inputs=d, drop=0.0, step_size=eta, width=1000)
        found.append(compare(narrow.value, "==", math.inf, f"too narrow, margin {gamma}"))
    points = tensor([[2.0, 1.0], [1.0, 3.0], [3.0, -0.5], [-1.0, -1.0]])
    data = Sample(points, tensor([1.0, 1.0, 1.0, -1.0]))
    net = ReLUNet([normal(1, 5, 2), normal(2, 1, 5)])
    from_data = lazy(net, data, drop=0.2, step_size=0.5)
    by_hand = lazy(margin=0.4 * linear_margin(data), steps=4, inputs=2, width=5, drop=0.2, step_size=0.5)
    found.append(compare(from_data.needed["steps"], "==", scale * by_hand.needed["steps"], "letters from data"))
    found.append(compare([from_data.value, lazy(data=data).trivial], "==", [math.inf, scale], "a width too small"))
    # few steps, where the confidence that the start spends shows: 1 / (4 eta T c sqrt(m)) of a failure of 1e-5
    few = lazy_setting(0.5, 1, 3, step_size=0.5)
    spent = 1 / (4 * 0.5 * _strength(0.5, 1, 3, 0.5, few.width)[1] * math.sqrt(few.width))
    ask = partial(lazy, margin=0.5, steps=1, inputs=3, drop=0.0, step_size=0.5, compression=True)
    paid = 2 / (3 - math.e) * math.log(1 / (1e-5 - spent))
    found.append(compare(ask(confidence=1 - 1e-5).terms["confidence"], "==", scale * paid, "a share spent", 1e-9))
    found.append(compare(ask(confidence=1 - spent / 2).value, "==", math.inf, "all of it spent"))
    mixed = Sample(torch.cat([points, -points]), torch.ones(8).double())
    found.append(compare(lazy(data=mixed).needed["steps"], "==", math.inf, "not separable"))
    for printed in (False, True):
        spread = math.sqrt((2 if printed else 0.5) * 400 * math.log(50 / 0.1))
        told_units = active_units(400, 0.7, 50, confidence=0.9, printed=printed)
        found.append(compare(told_units, "==", scale * (0.3 * 400 + spread), f"active units, {printed}"))
    found.append(compare(active_units(4, 0.1, 50), "==", 4.0 * scale, "no more than there are"))
    found.append(compare(initial_norm(40, 9), "==", scale * (3 + 2 * math.sqrt(math.log(40))), "norm of a start"))
    return found


def _margins(scale: float) -> list[Comparison]:
    """Margins by convex programs: distance of a hull, and rows of unit norm for the gates."""
    found: list[Comparison] = []
    for seed, count, size in ((1, 6, 2), (2, 90, 3), (3, 200, 4)):
        way = normal(seed, size)
        inputs = normal(seed + 10, count, size)
        labels = torch.where(inputs @ way > 0, 1.0, -1.0).double()
        inputs = inputs + 0.3 * labels[:, None] * way / way.norm()
        rows = (inputs / inputs.norm(dim=1, keepdim=True) * labels[:, None]).numpy()
        # least |v| with rows v >= 1: the margin is its inverse
        best = scipy.optimize.minimize(
            lambda v: 0.5 * v @ v,
            np.linalg.lstsq(rows, np.ones(count), rcond=None)[0],
            jac=lambda v: v,
            constraints={"type": "ineq", "fun": lambda v, rows=rows: rows @ v - 1, "jac": lambda v, rows=rows: rows},
            method="SLSQP",
            options={"maxiter": 300, "ftol": 1e-14},
        )
        margin = 1 / np.linalg.norm(best.x)
        told = linear_margin(Sample(5.0 * inputs, labels), 1e-9)
        found.append(compare(told, "==", scale * margin, f"margin of {count} points", precision=1e-6))
    points, signs = tensor([[2.0, 1.0], [-1.0, -3.0], [3.0, -0.5]]), tensor([1.0, -1.0, 1.0])
    told_gates = gate_margin(Sample(points, signs), 4, 0.25, steps=4000, seed=3)
    weights = torch.randn(4, 2, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    unit = points / points.norm(dim=1, keepdim=True)
    gates = (unit @ weights.mT >= 0).double()

    def dual(logits: np.ndarray) -> float:
        odds = torch.softmax(torch.from_numpy(logits), 0)
        sums = torch.einsum("nr,n,ni->ri", gates, odds * signs, unit)
        return float(sums.norm(dim=1).mean())

    best_value = min(
        scipy.optimize.minimize(dual, start, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12}).fun
        for start in (np.zeros(3), np.array([1.0, 0, 0]), np.array([0.0, 1, 0]))
    )
    found.append(compare(told_gates.lower, "<=", scale * 0.75 * best_value, "gates from below", precision=1e-6))
    found.append(compare(told_gates.upper, ">=", 0.75 * best_value / scale, "gates from above", precision=1e-6))
    # regret of multiplicative weights: both ends are within keep sqrt(2 ln n / steps), 1.8 % of the rows' length
    for name, end in (("value", told_gates.value), ("lower end", told_gates.lower), ("upper end", told_gates.upper)):
        found.append(compare(end, "==", scale * 0.75 * best_value, f"{name} of gates", precision=0.018))
    # regret of multiplicative weights: the ends are within keep sqrt(2 ln n / steps), where labels contradict as well
    for count, size, steps, drop in ((3, 2, 200, 0.0), (12, 2, 200, 0.25), (9, 3, 300, 0.5)):
        points, signs = normal(count, count, size), torch.where(normal(count + 1, count) > 0, 1.0, -1.0).double()
        if count == 3:  # one point with both labels: no margin
            points, signs = points[:1].repeat(3, 1), tensor([1.0, 1.0, -1.0])
        ends = gate_margin(Sample(points, signs), 5, drop, steps=steps, seed=count)
        most = (1 - drop) * math.sqrt(2 * math.log(count) / steps)
        found.append(compare(ends.upper - ends.lower, "<=", most / scale, f"ends of {count} points"))
        found.append(compare(ends.value, "==", scale * ends.lower, f"the lower end of {count} points"))
        if count == 3:
            found.append(compare(ends.lower, "<=", 0.0, "contradicting labels, from below"))
            found.append(compare(ends.upper, ">=", 0.0, "contradicting labels, from above"))
    return found
