"""Every field of every bound: its terms by name, the claim, the trivial value, what is needed; formulas written out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping

import torch

from droptics.bounds import (
    adversarial,
    completion,
    lazy,
    lazy_setting,
    rademacher,
    relu,
    squared,
    surveyed,
    uniform,
)
from droptics.data import Sample
from droptics.estimates import Bound
from droptics.evidence.claims import Comparison, compare
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import normal, tensor


def bound_fields(scale: float) -> list[Comparison]:
    """Bounds of completion, networks, classes, lazy and adversarial training, published ones, field by field."""
    return by_parts((_completed, _classes, _attacked, _lazy, _published), scale)


def _fields(
    told: Bound, terms: Mapping[str, float], rest: tuple[str, float, float, dict[str, float]], name: str, scale: float
) -> Iterator[Comparison]:
    """All fields: `rest` holds the claim, the value, the trivial one and the amounts that are needed, by name."""
    claim, value, trivial, needed = rest
    yield same(list(told.terms), list(terms), f"names of terms, {name}", scale)
    for term, one in terms.items():  # one by one: beside numbers of steps others would be nothing
        yield compare(told.terms[term], "==", scale * one, f"{term}, {name}")
    yield same(told.claim, claim, f"claim, {name}: {told.claim}", scale)
    yield compare(told.value, "==", scale * value, f"value, {name}")
    yield compare(1 + told.trivial, "==", scale * (1 + trivial), f"largest loss, {name}")
    yield same(list(told.needed), list(needed), f"what is needed, {name}", scale)
    amounts = [scale * amount for amount in needed.values()]
    yield compare(list(told.needed.values()), "==", amounts, f"needed, {name}", 1e-8)
    yield same(told.vacuous, not value < trivial, f"vacuous, {name}", scale)


def _squared(gap: float, room: float) -> float:
    """(gap / room)^2; no amount is enough where the risk alone is trivial."""
    return (gap / room) ** 2 if room > 0 else math.inf


def _completed(scale: float) -> list[Comparison]:
    found: list[Comparison] = []
    names = ("empirical risk", "complexity", "confidence")
    for shape, (n, delta), (risk, trivial) in itertools.product(
        ((9, 5), (40, 60)), ((200, 0.05), (10**6, 0.3)), ((0.0, 4.0), (0.2, 0.7), (0.7, 0.7), (0.9, 0.7))
    ):
        long, short = max(shape), min(shape)
        strength, room = 0.7 * long * math.log(long), trivial - risk
        known = {"alpha": 0.7, "shape": shape, "examples": n, "risk": risk, "confidence": 1 - delta, "trivial": trivial}
        whole = 64 * (2 * strength + math.log(2 / delta) / 4)
        told = completion(**known, printed=True)  # type: ignore[arg-type]
        terms = dict(zip(names, (risk, math.sqrt(whole / n), 0.0), strict=True))
        rest = ("thesis-thm11", sum(terms.values()), trivial, {"examples": _squared(math.sqrt(whole), room)})
        found += _fields(told, terms, rest, f"printed, {shape}, {n}, {delta}, {risk}, {trivial}", scale)
        ratio = math.log(long + short) / math.log(long)
        for s in (0.0, 0.4):
            first = math.sqrt(2 * ratio) / (1 - s) if s else math.sqrt(2 * ratio) + ratio * (short / long) ** 0.25 / 3
            second = ratio * math.sqrt(short * math.log(long)) / (3 * s) if s else 0.0
            tail = 4 * math.sqrt(math.log(2 / delta) / 2)
            complexity = 8 * math.sqrt(strength / n) * (first + second / math.sqrt(n))
            told = completion(**known, smoothing=s)  # type: ignore[arg-type]
            terms = dict(zip(names, (risk, complexity, tail / math.sqrt(n)), strict=True))
            # a / sqrt(n) + b / n = room, a quadratic equation in the root of n
            a, b = 8 * math.sqrt(strength) * first + tail, 8 * math.sqrt(strength) * second
            root = (a + math.sqrt(a * a + 4 * b * room)) / (2 * room) if room > 0 else math.inf
            rest = ("thesis-thm11", sum(terms.values()), trivial, {"examples": root**2})
            found += _fields(told, terms, rest, f"corrected, {shape}, {n}, {delta}, {s}, {trivial}", scale)
    return found


def _classes(scale: float) -> list[Comparison]:
    """Uniform deviation, two-layer networks by retentivity or symmetrized, their complexities from both sides."""
    found: list[Comparison] = []
    names = ("empirical risk", "complexity", "confidence")
    for n, delta, risk in ((50, 0.05, 0.3), (4000, 0.3, 0.0), (4000, 0.05, 0.3), (4000, 0.1, 5.0)):
        for empirical in (False, True):
            tail = 3 * math.sqrt(math.log(2 / delta) / (2 * n)) if empirical else math.sqrt(math.log(1 / delta) / 2 / n)
            terms = dict(zip(names, (risk, 0.2, tail), strict=True))
            needed = {"examples": n * _squared(0.2 + tail, 1 - risk)}
            told = uniform(risk, 0.1, n, confidence=1 - delta, empirical=empirical)
            rest = ("thesis-thm18", sum(terms.values()), 1.0, needed)
            found += _fields(told, terms, rest, f"uniform, {n}, {delta}, {risk}, {empirical}", scale)
            for M in (2.0, 0.7):
                tail = (3 if empirical else 1) * M**2 * math.sqrt(math.log(2 / delta) / (2 * n))
                terms = dict(zip(names, (risk, 0.4 * M, tail), strict=True))
                needed = {"examples": n * _squared(0.4 * M + tail, M**2 - risk)}
                told = squared(risk, 0.1, n, deviation=M, confidence=1 - delta, empirical=empirical)
                rest = ("thesis-thm19", sum(terms.values()), M**2, needed)
                found += _fields(told, terms, rest, f"squared, {n}, {delta}, {risk}, {M}, {empirical}", scale)
        alpha, norm, beta = 0.3, 9.0, 0.2
        tail = 12 * math.sqrt(math.log(2 / delta) / (2 * n))
        parts = {"alpha": alpha, "data norm / examples": norm / n}
        none = {"alpha": alpha, "norm": norm, "examples": n, "retentivity": 0.0}
        terms = {**parts, "constant": 2.0, "1 / sqrt(retentivity)": math.inf}
        rest = ("thesis-thm12", math.inf, 1.0, {"examples": math.inf})
        found += _fields(rademacher(**none), terms, rest, f"rademacher, {n}, no retentivity", scale)  # type: ignore[arg-type]
        terms = dict(zip(names, (risk, math.inf, tail), strict=True))
        told = relu(**none, risk=risk, confidence=1 - delta)  # type: ignore[arg-type]
        rest = ("thesis-cor2", math.inf, 4.0, {"examples": math.inf})
        found += _fields(told, terms, rest, f"relu, {n}, no retentivity", scale)
        for side, both in itertools.product(("upper", "lower"), (False, True)):
            given = {"alpha": alpha, "norm": norm, "examples": n, "retentivity": beta, "symmetrized": both}
            root = math.sqrt(2) if both else 1 / math.sqrt(beta)
            terms = {**parts, "constant": 2.0, "1 / sqrt(retentivity)": root} if side == "upper" else {**parts}
            terms = {**terms} if side == "upper" else {**terms, "constant": 0.5}
            value = math.prod(terms.values())
            rest = (f"thesis-thm{12 if side == 'upper' else 13}", value, 1.0, {"examples": n * value**2})
            told = rademacher(**given, side=side)  # type: ignore[arg-type]
            found += _fields(told, terms, rest, f"rademacher, {n}, {side}, {both}", scale)
            if side == "lower":
                continue
            factor = 2 if both else 1
            for printed in (False, True):
                complexity = 8 * value * factor * (46 / (32 * math.sqrt(2)) if both and printed else 1)
                terms = dict(zip(names, (factor * risk, complexity, factor * tail), strict=True))
                needed = {"examples": n * _squared(complexity + factor * tail, 4 - factor * risk)}
                rest = (f"thesis-cor{3 if both else 2}", sum(terms.values()), 4.0, needed)
                told = relu(**given, risk=risk, confidence=1 - delta, printed=printed)  # type: ignore[arg-type]
                found += _fields(told, terms, rest, f"relu, {n}, {delta}, {risk}, {both}, {printed}", scale)
    return found


def _attacked(scale: float) -> list[Comparison]:
    """Adversarial training: iterations, steps, thresholds of three statements with three kinds of constants."""
    found: list[Comparison] = []
    R, gamma, nu, eps, m = 1.3, 0.6, 0.2, 0.1, 9
    for statement, constants, slope in itertools.product(
        ("thm16", "cor4", "cor5"), ("corrected", "printed", "printed beta"), (0.3, 0.6, 0.8, 1.0)
    ):
        if (statement == "cor4") != (slope == 1.0) and statement != "thm16":
            continue
        factor = 4 if constants == "corrected" else 2
        given: dict[str, float] = {"beta": 0.05} if statement == "cor5" else {}
        given |= {"top": 0.2, "weight_norm": 1.7} if statement == "thm16" else {}
        reach = {"thm16": 0.2 * 3, "cor4": 1.0, "cor5": 0.05 / (factor * nu * max(1 - slope, 1e-9))}[statement]
        omega, norm = (0.8, 1.7) if statement == "thm16" else (1 / gamma, 1 / gamma)
        largest = 1 / (reach * (R + nu)) ** 2
        for share in (1.0, 0.3):
            step = share * largest
            if statement == "thm16":
                given["start_norm"] = omega = 0.8 if share == 1.0 else 0.0
            told = adversarial(
                statement,  # type: ignore[arg-type]
                data_radius=R,
                margin=gamma,
                radius=nu,
                error=eps,
                slope=slope,
                width=m,
                step_size=step,
                constants=constants,  # type: ignore[arg-type]
                **given,
            )
            grown = omega * gamma * slope * reach
            if constants == "printed":
                growth = 2 if statement == "cor4" else 1 + grown * eps
                T = 64 * (R + nu) ** 2 * growth / ((gamma - nu) * slope * eps) ** 2
            else:
                part = eps / (8 if constants == "printed beta" else 4)
                T = 4 * (1 + grown * part) / (step * ((gamma - nu) * slope * reach * part) ** 2)
            each = (16 if constants == "printed beta" else 8) * (nu * reach) ** 2 / eps
            attack = each * norm**2
            if statement == "cor5" and constants == "printed":
                attack = 2 * (1 - slope) ** 2 / (0.05**2 * norm**2 * eps)
            wanted_slope = 0.75 if constants == "corrected" else 0.5
            terms = {
                "training_step_size": step,
                "attack_step_size": 1 / (reach * norm) ** 2,
                "attack_steps": attack,
                "total_attack_steps": each * (T * omega**2 + 1.5 * step * T * (T - 1)),
                "beta": factor * nu * (1 - slope) * reach,
                "top": reach / 3,
                "robust_error": 2 * eps,
                "informative_slope": wanted_slope,
            }
            claim = f"thesis-{statement}" + ("-corrected" if statement == "cor5" and constants != "printed" else "")
            rest = (claim, T, math.inf if slope >= wanted_slope else 0.0, {"slope": wanted_slope})
            found += _fields(told, terms, rest, f"{statement}, {constants}, {slope}, {share}", scale)
    return found


def _setting(gamma: float, T: float, d: int, eta: float, m: float) -> tuple[float, float, float]:
    """The strength, the largest row and the width that is asked for, at a width."""
    c = math.sqrt(d) + max(1 / (14 * gamma**2), 2 * math.sqrt(math.log(m))) + 1
    strength = 5 / gamma * math.log(2 * eta * T)
    strength += math.sqrt(44 / gamma**2 * math.log(24 * eta * c * math.sqrt(m) * T**2))
    return strength, c, 2401 / gamma**6 * strength**2


def _lazy_terms(case: tuple[float, int, float, float, bool, bool], count: float, width: float) -> dict[str, float]:
    gamma, d, eta, delta, compressed, printed = case
    (strength, c, _), time, factor = _setting(gamma, count, d, eta, width), eta * count, 2 / (3 - math.e)
    if printed and compressed:
        return {"distance": 12 * strength**2 / time, "confidence": 6 * math.log(1 / delta) / count}
    if printed:
        return {"distance": 4 * strength**2 / time}
    if not compressed:
        return {"distance": strength**2 / time, "competitor loss": (1 / math.log(2) + 1) / time}
    left = delta - 1 / (4 * time * c * math.sqrt(width))
    parts = {"distance": factor * math.log(2) * strength**2 / time, "competitor loss": factor / time}
    return {**parts, "confidence": factor * math.log(1 / left) / count}


def _lazy(scale: float) -> list[Comparison]:
    """Lazy training: both statements, printed and corrected, at a given width and at the least one."""
    found: list[Comparison] = []
    for gamma, T, d, eta in ((0.5, 20, 3, math.log(2)), (0.2, 5000, 10, math.log(2)), (0.25, 10**7, 3, 0.3)):
        least = 1.0
        for _ in range(200):
            least = _setting(gamma, T, d, eta, least)[2]
        for width, delta, compressed, printed in itertools.product(
            (None, int(1.2 * least)) if gamma == 0.5 else (None,),
            (0.05, 0.3) if gamma > 0.2 else (0.1,),
            (False, True),
            (False, True),
        ):
            told = lazy(
                margin=gamma,
                steps=T,
                inputs=d,
                width=width,
                drop=1 - 2 * gamma,
                step_size=eta,
                compression=compressed,
                confidence=1 - delta,
                printed=printed,
            )
            m = least if width is None else width
            case = (gamma, d, eta, delta, compressed, printed)
            terms = _lazy_terms(case, T, m)
            asked = dict(told.needed)  # both amounts are compared below
            enough = asked["steps"]
            name = f"lazy, {gamma}, {width is None}, {delta}, {compressed}, {printed}"
            claim = "thesis-thm15" if compressed else "thesis-thm14"
            found += _fields(told, terms, (claim, sum(terms.values()), 1.0, asked), name, scale)
            units = 1.0
            for _ in range(200):
                units = _setting(gamma, enough, d, eta, units)[2]
            found.append(compare(sum(_lazy_terms(case, enough, units).values()), "==", scale, f"enough, {name}", 1e-6))
            found.append(same(list(asked), ["steps", "width"], f"what is needed, {name}", scale))
            found.append(compare(asked["width"], "==", scale * units, f"width for that, {name}", 1e-6))
        setting = lazy_setting(gamma, T, d, step_size=eta, width=3 * least)
        strength, c, needed = _setting(gamma, T, d, eta, 3 * least)
        mine = [setting.strength, setting.radius, setting.width, setting.needed_width, setting.drift]
        wanted = [strength, c, 3 * least, needed, 7 * strength / (2 * gamma * math.sqrt(3 * least))]
        for one, other in zip(mine, wanted, strict=True):
            found.append(compare(one, "==", scale * other, f"setting, {gamma}", scale=1e-300))
        below = lazy(margin=gamma, steps=T, inputs=d, width=int(min(least / 2, 2**30)), drop=0.0, step_size=eta)
        found.append(same(dict(below.terms), {"width below the required one": math.inf}, "too narrow", scale))
    # no plane separates equal inputs of either label
    data = Sample(tensor([[1.0, 0.5], [1.0, 0.5]]), tensor([[1.0], [-1.0]]))
    nothing = lazy(data=data, drop=0.2, compression=True)
    never = {"steps": math.inf, "width": math.inf}
    rest = ("thesis-thm15", math.inf, 1.0, never)
    found += _fields(nothing, {"margin": 0.0}, rest, "not separable", scale)
    return found


def _published(scale: float) -> list[Comparison]:
    """Four published expressions: their factors by name; the hidden layers are two, the widest of them six."""
    found: list[Comparison] = []
    layers, inputs = [normal(1, 6, 3), normal(2, 4, 6), normal(3, 2, 4)], normal(4, 7, 3)
    norms = [torch.linalg.svdvals(layer)[0].item() for layer in layers]
    sizes = [layer.square().sum().sqrt().item() for layer in layers]
    lengths = [sum(row.square().sum().sqrt().item() for row in layer) for layer in layers]
    spread = sum((one / norm) ** (2 / 3) for one, norm in zip(lengths, norms, strict=True)) ** 1.5
    energy = math.sqrt(6 * sum((one / norm) ** 2 for one, norm in zip(sizes, norms, strict=True)))
    longest = inputs.square().sum(1).max().sqrt().item()
    for data, given, power, dual in (
        (None, None, 1.0, 1.0),
        (None, 0.3, 2.0, 0.3),
        (Sample(inputs, normal(5, 7, 2)), None, 1.0, inputs.abs().max().item()),
        (Sample(inputs, normal(5, 7, 2)), None, 4.0, inputs.abs().pow(4 / 3).sum(1).max().item() ** 0.75),
        (Sample(inputs, normal(5, 7, 2)), 0.3, 4.0, 0.3),
    ):
        size = given or (1.0 if data is None else longest)
        n = 7 if data is not None else 50
        paths = (layers[2].abs() ** power @ layers[1].abs() ** power @ layers[0].abs() ** power).sum().item()
        wide = (2 * 6 ** (1 - 1 / power)) ** 2 * math.sqrt(math.log(3))
        factors = {
            "path norm": {"path norm": paths ** (1 / power), "architecture": wide, "inputs": dual},
            "spectral": {"product of norms": math.prod(norms), "architecture": spread, "inputs": size},
            "PAC-Bayes": {"product of norms": math.prod(norms), "architecture": 2 * energy, "inputs": size},
            "Frobenius": {"product of norms": math.prod(sizes), "architecture": math.sqrt(2), "inputs": size},
        }
        told = surveyed(layers, data, examples=None if data is not None else n, power=power, input_norm=given)
        found.append(same(list(told), list(factors), f"names of expressions, {power}, {given}", scale))
        for number, (name, own) in enumerate(factors.items(), start=1):
            terms = {**own, "1 / sqrt(examples)": 1 / math.sqrt(n)}
            value = math.prod(terms.values())
            rest = (f"thesis-eq1.{number}", value, 1.0, {"examples": n * value**2})
            found += _fields(told[name], terms, rest, f"{name}, {power}, {given}, {data is None}", scale)
    return found
