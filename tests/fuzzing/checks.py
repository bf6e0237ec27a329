"""How answers are compared with oracles: every check says by how much an answer is off and by how much it may be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

import droptics as d
from droptics import linalg, norms
from droptics.errors import NoClosedForm
from fuzzing import oracles, programs
from fuzzing.instances import AXES, Array, Instance, Law

DOUBLE = float(np.finfo(np.float64).eps)
# what the oracles themselves may be off by, relative to what they add
ORACLE = 2.0**-56


@dataclass(frozen=True)
class Check:
    """One comparison: by how much it is off, by how much it may be, and the size of the numbers."""

    name: str
    error: float
    allowed: float
    size: float

    @property
    def wrong(self) -> bool:
        return not self.error <= self.allowed


def _eps(instance: Instance) -> float:
    return float(torch.finfo(instance.dtype).eps)


def _length(instance: Instance) -> int:
    """Numbers that are added to one another on the way to an answer, at most."""
    return 8 + sum(max(value.shape) for value in instance.numbers.values())


def _stated(answer: Any) -> float:
    """The error that an answer states for itself; no bound at all is a refusal to say."""
    error = float(torch.as_tensor(answer.error).max())
    if not np.isfinite(error):
        raise NoClosedForm("no bound on the error is stated")
    return error


def _compared(name: str, answer: Any, truth: tuple[float, float]) -> list[Check]:
    """An exact answer is off by no more than it says."""
    value, size = truth
    return [Check(name, abs(float(answer) - value), _stated(answer) + ORACLE * size, size)]


def check_penalty(instance: Instance) -> list[Check]:
    """Closed forms against all masks; where nothing cancels they say no more than a plain sum would lose."""
    answer = d.penalty(instance.model, instance.data, instance.masks)
    truth = oracles.penalty(instance)
    found = _compared("penalty", answer, truth)
    if instance.family != "ReLUNet":  # a sum over outcomes takes a difference and may lose digits if it says so
        plain = 64 * _length(instance) ** 2 * _eps(instance) * truth[1]
        found.append(Check("stated", _stated(answer), plain, truth[1]))
    return found


def check_enumerated(instance: Instance) -> list[Check]:
    """Enumeration takes differences of large numbers, and has to say what it lost.

    It adds in float64 whatever the moments are, and takes them as given; the oracle has the sample. Every moment of it
    was rounded to the precision of the instance, by eps / 2 of E |x_i x_j| at most: eps / 2 of the size together.
    """
    answer = d.penalty(instance.model, instance.data, instance.masks, d.Enumerate())
    check = _compared("penalty", answer, oracles.penalty(instance))[0]
    given = _eps(instance) / 2 * check.size if instance.moments else 0.0
    return [replace(check, allowed=check.allowed + given)]


def check_criterion(instance: Instance) -> list[Check]:
    answer = d.criterion(instance.model, instance.data, instance.masks)
    return _compared("criterion", answer, oracles.criterion(instance))


def check_spectral(instance: Instance) -> list[Check]:
    """Induced penalty, envelope and imbalance of two-layer networks from the singular values of W X^T."""
    model, data, masks = instance.model, instance.data, instance.masks
    root = np.sqrt(instance.shares)[:, None]
    hidden = root * (instance.exact("inputs") @ instance.exact("V"))
    values = np.linalg.svd((hidden @ instance.exact("U").T).astype(np.float64), compute_uv=False)
    values = values[: instance.laws[0].size]
    absolute = (np.abs(root * instance.exact("inputs")) @ np.abs(instance.exact("V"))) @ np.abs(instance.exact("U")).T
    size = float(np.square(absolute).sum())
    # moments of inputs lose the condition of their correlations
    slack = _length(instance) * _eps(instance) * (_condition(instance) if instance.moments else 1.0)
    law, scale = instance.laws[0], values.sum() + len(values) * np.sqrt(size) * slack
    found: list[Check] = []
    if law.kind == "Block":
        strength = float(1 / (1 / law.strengths).sum()) if (law.strengths > 0).all() else 0.0
        below = strength * oracles.squared_k_support(values, law.block)
    else:
        strength = float(1 / (1 / law.strengths).sum()) if (law.strengths > 0).all() else 0.0
        below = strength * values.sum() ** 2
        truth = oracles.least_penalty(values, law.strengths)
        most = float(law.strengths.max())
        allowed = 64 * slack * most * scale * np.sqrt(size)
        found.append(Check("induced", abs(float(d.induced(model, data, masks)) - truth), allowed, most * size))
    got = float(d.envelope(model, data, masks))
    found.append(Check("envelope", abs(got - below), 64 * slack * strength * scale * np.sqrt(size), strength * size))
    return found


def check_equalized(instance: Instance) -> list[Check]:
    """The same outputs, and the least penalty among all factors of the map."""
    model = d.equalize(instance.model, instance.data, instance.masks)
    after = _with(instance, model)
    ones = np.ones((1, instance.laws[0].size), np.longdouble)
    moved = np.abs(oracles.outputs(after, ones) - oracles.outputs(instance, ones)).max()
    width = np.abs(oracles.outputs(instance, ones, True)).max() + np.abs(oracles.outputs(after, ones, True)).max()
    level = 64 * _length(instance) * _eps(instance) * (_condition(instance) if instance.moments else 1.0)
    before, size = oracles.penalty(instance)
    now, own = oracles.penalty(after)
    least = float(d.induced(instance.model, instance.data, instance.masks))
    return [
        Check("map", float(moved), level * float(width), float(width)),
        Check("no larger", now - before, level * (size + own), size),
        Check("least", abs(now - least), level * (size + own), size),
    ]


def check_balanced(instance: Instance) -> list[Check]:
    """Both layers of every node with the same norm: the same matrix and the same penalty."""
    model = d.balance(instance.model, instance.data)
    after = _with(instance, model)
    absolute = np.abs(instance.exact("U")) @ np.abs(instance.exact("V")).T
    moved = np.abs(after.exact("U") @ after.exact("V").T - instance.exact("U") @ instance.exact("V").T)
    level = 16 * _length(instance) * _eps(instance)
    tiny = float(np.finfo(np.float32 if instance.single else np.float64).tiny)
    before, size = oracles.penalty(instance)
    return [
        Check("map", float((moved - level * absolute).max()), tiny, float(absolute.max())),
        Check("penalty", abs(oracles.penalty(after)[0] - before), level * size, size),
    ]


def _with(instance: Instance, model: Any) -> Instance:
    """The instance with the weights of a model."""
    weights = dict(zip(AXES[instance.family], model.tensors, strict=True))
    return replace(
        instance, numbers=instance.numbers | {name: value.double().numpy() for name, value in weights.items()}
    )


def _condition(instance: Instance) -> float:
    """Condition of the correlations of the inputs, directions without energy aside."""
    if instance.family == "Factorization":
        return 1.0
    x = np.sqrt(instance.shares)[:, None] * instance.exact("inputs")
    rank = oracles.orthonormal(x).shape[1]
    norms_ = np.sqrt(np.square(x).sum(0))
    x = (x[:, norms_ > 0] / norms_[norms_ > 0]).astype(np.float64)
    if not rank:
        return 1.0
    values = np.square(np.linalg.svd(x, compute_uv=False)[:rank])
    return float(min(values[0] / max(values[-1], 1e-300), 1e300))


def _rounding(instance: Instance) -> float:
    """What a bound may be above the truth, relative to the energy: examples are summed in float64 whatever they are.

    Moments are rounded in their own precision, which their inverse multiplies by the condition.
    """
    eps = _eps(instance) * _condition(instance) if instance.moments else DOUBLE
    return min(16 * _length(instance) * eps, 1.0)


@dataclass(frozen=True)
class Truth:
    """What no network can beat, whether one reaches it, and the size of what was added."""

    least: float
    exact: bool
    size: float


def _least(instance: Instance) -> Truth:
    """The optimum where a formula or enough cases give it, else the best value that a search met."""
    law, random = instance.laws[0], np.random.default_rng(instance.seed)
    if instance.family == "Factorization":
        target, constant = _grid(instance)
        energy = constant + float(np.square(target).sum())
    else:
        target, constant, energy = oracles.white(instance)
    if instance.family == "Autoencoder":
        return _tied(instance, law, energy)
    if instance.family == "Connections":
        return Truth(oracles.searched_connections(instance, random), False, energy)
    values = np.linalg.svd(target.astype(np.float64), compute_uv=False) if target.size else np.zeros(0)
    if instance.family == "DeepLinear":
        strengths = [float(item.strengths[0] / item.size) for item in instance.laws]
        gain = oracles.deep_gain(values, strengths, min(item.size for item in instance.laws))
        return Truth(energy - gain, False, energy)
    if law.kind == "Bernoulli":
        return Truth(constant + oracles.least_spectrum(values, law.strengths, law.size), True, energy)
    masks, chances = law.atoms()
    return Truth(constant + oracles.searched(target, masks, chances, random), False, energy)


def _grid(instance: Instance) -> tuple[Array, float]:
    shape = (len(instance.numbers["U"]), len(instance.numbers["V"]))
    values = instance.exact("targets")[:, 0].reshape(-1, *shape)
    mean = values.mean(0)
    return mean / np.sqrt(np.longdouble(mean.size)), float(np.square(values - mean).mean())


def _tied(instance: Instance, law: Law, energy: float) -> Truth:
    """Eigenvalues of the symmetric part of the map, shrunk; negative ones vanish."""
    x, y = instance.exact("inputs"), instance.exact("targets")
    scale = float(np.square(x[:, 0]).mean())
    cross = (y.T @ x / len(x) / scale).astype(np.float64)
    values = np.linalg.eigvalsh((cross + cross.T) / 2)
    size = energy + scale * float(np.square(cross).sum())
    # what negative values and everything beyond the width cost stays in the energy
    least = oracles.least_spectrum(np.maximum(values, 0), law.strengths, law.size)
    gain = float(np.square(np.maximum(values, 0)).sum()) - least
    return Truth(energy - scale * gain, True, size)


def check_optimum(instance: Instance) -> list[Check]:
    """The objective is that of the model, no bound is above a value that is reached, and what is certified is least."""
    family = getattr(d, instance.family)
    best = d.optimum(family, instance.data, instance.masks)
    truth = _least(instance)
    after = _with(instance, best.model)
    reached, size = oracles.criterion(after)
    rounding = _rounding(instance) * truth.size
    own = 16 * _length(instance) * _eps(instance) * size
    least = min(truth.least, reached)
    found = [
        Check("objective", abs(best.objective - reached), own, size),
        Check("bound", best.bound - least, rounding, truth.size),
    ]
    if best.certified:
        stated = best.tolerance * max(best.scale, abs(best.objective))
        found.append(Check("certified", reached - truth.least, stated + rounding, truth.size))
    return found


def check_certificate(instance: Instance) -> list[Check]:
    """The bound that a given model gets holds for every model."""
    certificate = d.certify(instance.model, instance.data, instance.masks)
    truth = _least(instance)
    reached, size = oracles.criterion(instance)
    rounding = _rounding(instance) * truth.size
    own = 16 * _length(instance) * _eps(instance) * size
    return [
        Check("objective", abs(certificate.objective - reached), own, size),
        Check("bound", certificate.bound - min(truth.least, reached), rounding, truth.size),
    ]


def check_convex(instance: Instance) -> list[Check]:
    """The optimum of a wide network is that of a convex program, and no network of any width is below it.

    min ||y - X Z^T||^2 + strength ||Z||_*^2 in coordinates where X is orthonormal for hidden units, of unit columns for
    connections. The solver's own gap and residuals are all that is allowed beside rounding.
    """
    law, width = instance.laws[0], instance.laws[0].size
    root = np.sqrt(instance.shares)[:, None]
    rows, y = root * instance.exact("inputs"), root * instance.exact("targets")
    if instance.family == "Connections":
        width = instance.numbers["U"].shape[1]
        sizes = np.sqrt(np.square(rows).sum(0))
        rows, strength = rows[:, sizes > 0] / sizes[sizes > 0], float(law.strengths[0]) / width
    else:
        rows, strength = oracles.orthonormal(rows), _harmonic(law)
    energy = np.square(y).sum()
    least = programs.Least(1.0, 0.0)
    if energy > 0 and rows.size:
        least = programs.nuclear_regression(rows, y / np.sqrt(energy), strength)
    size = float(energy)
    best = d.optimum(getattr(d, instance.family), instance.data, instance.masks)
    slack = least.open * size + _rounding(instance) * size
    stated = best.tolerance * max(best.scale, abs(best.objective))
    found = [Check("below", (least.value - least.open) * size - best.objective, slack + stated, size)]
    if len(set(law.drop)) == 1 and width >= min(rows.shape[1], y.shape[1]):
        found.append(Check("bound", best.bound - least.value * size, slack, size))
        if best.certified:
            found.append(Check("certified", best.objective - least.value * size, slack + stated, size))
    return found


def _harmonic(law: Law) -> float:
    """1 / sum of 1 / lambda, zero where a unit is never dropped."""
    return float(1 / (1 / law.strengths).sum()) if (law.strengths > 0).all() else 0.0


def check_convex_blocks(instance: Instance) -> list[Check]:
    """No network under blocks is below the convex program with the squared k-support norm of the spectrum."""
    target, constant, energy = oracles.white(instance)
    values = np.linalg.svd(target.astype(np.float64), compute_uv=False) if target.size else np.zeros(0)
    size, law = float(np.square(values).sum()), instance.laws[0]
    least = programs.Least(0.0, 0.0)
    if size > 0:
        least = programs.k_support_regression(values / np.sqrt(size), law.block, _harmonic(law))
    best = d.optimum(d.TwoLayerLinear, instance.data, instance.masks)
    allowed = least.open * size + _rounding(instance) * energy + best.tolerance * best.scale
    return [Check("below", constant + least.value * size - best.objective, allowed, energy)]


def check_convex_envelope(instance: Instance) -> list[Check]:
    """The envelope under one rate or many by the semidefinite program of the trace norm."""
    root = np.sqrt(instance.shares)[:, None]
    image = (root * (instance.exact("inputs") @ instance.exact("V")) @ instance.exact("U").T).astype(np.float64)
    width = np.abs(root * instance.exact("inputs")) @ np.abs(instance.exact("V")) @ np.abs(instance.exact("U")).T
    size, norm, strength = float(np.square(width).sum()), np.linalg.norm(image), _harmonic(instance.laws[0])
    least = programs.nuclear_norm(image / norm) if norm > 0 else programs.Least(0.0, 0.0)
    slack = _length(instance) * _eps(instance) * (_condition(instance) if instance.moments else 1.0)
    total = least.value * norm
    allowed = strength * (64 * slack * (total + np.sqrt(size)) * np.sqrt(size) + 2 * least.open * norm * (total + norm))
    got = float(d.envelope(instance.model, instance.data, instance.masks))
    return [Check("envelope", abs(got - strength * total**2), allowed, strength * size)]


def check_convex_head(instance: Instance) -> list[Check]:
    """The best head as a quadratic program over all masks and examples, and DropoutRidge where there is one rate."""
    law, y = instance.laws[0], instance.exact("targets")
    masks, chances = law.atoms()
    root = np.sqrt(np.outer(chances, instance.shares)).reshape(-1, 1)
    rows = (masks[:, None, :] * instance.exact("inputs")).reshape(-1, instance.numbers["inputs"].shape[1])
    rows = root * np.concatenate([rows, np.ones((len(rows), 1))], 1)
    sizes, targets = np.sqrt(np.square(rows).sum(0)), root * np.tile(y, (len(masks), 1))
    energy = float(np.square(targets).sum())
    least = programs.Least(0.0, 0.0)
    if energy > 0:
        least = programs.regression(rows[:, sizes > 0] / sizes[sizes > 0], targets / np.sqrt(energy))
    best = d.optimum(d.LastLayer, instance.data, instance.masks)
    slack = (2 * least.open + 64 * _length(instance) * DOUBLE) * energy
    stated = best.tolerance * max(best.scale, abs(best.objective))
    truth = least.value * energy
    found = [
        Check("bound", best.bound - truth, slack, energy),
        Check("below", truth - best.objective, slack + stated, energy),
    ]
    if best.certified:
        found.append(Check("certified", best.objective - truth, slack + stated, energy))
    if law.kind == "Bernoulli" and len(set(law.drop)) == 1 and not instance.single:
        x, weights = instance.numbers["inputs"], instance.numbers.get("weights")
        fitted = d.DropoutRidge(law.drop[0]).fit(x, instance.numbers["targets"], weights)
        found.append(Check("ridge", abs(fitted.objective_ - truth), slack, energy))
    return found


def check_head(instance: Instance) -> list[Check]:
    """The best head on given features: least squares over all masks."""
    best = d.optimum(d.LastLayer, instance.data, instance.masks)
    x, y = instance.exact("inputs"), instance.exact("targets")
    truth = oracles.regression(x, y, instance.shares, instance.laws[0], True)
    energy = float((instance.shares[:, None] * np.square(y)).sum())
    rounding = 16 * _length(instance) * DOUBLE * energy
    found = [Check("bound", best.bound - truth, rounding, energy)]
    if best.certified:
        stated = best.tolerance * max(best.scale, abs(best.objective))
        found.append(Check("certified", best.objective - truth, stated + rounding, energy))
    return found


def check_ridge(instance: Instance) -> list[Check]:
    """DropoutRidge against least squares over all masks, and its leave-one-out errors against refits."""
    x, y = instance.numbers["inputs"], instance.numbers["targets"]
    drop = instance.laws[0].drop[0]
    fitted = d.DropoutRidge(drop).fit(x, y, instance.numbers.get("weights"))
    truth = oracles.regression(
        instance.exact("inputs"), instance.exact("targets"), instance.shares, instance.laws[0], True
    )
    energy = float((instance.shares[:, None] * np.square(instance.exact("targets"))).sum())
    wrong = instance.exact("targets") - instance.exact("inputs") @ np.atleast_2d(fitted.coef_).T - fitted.intercept_
    strength = instance.laws[0].strengths[0]
    powers = (instance.shares[:, None] * np.square(instance.exact("inputs"))).sum(0)
    reached = float(
        (instance.shares[:, None] * np.square(wrong)).sum()
        + strength * (powers * np.square(np.atleast_2d(fitted.coef_))).sum()
    )
    # Coefficients that are least for inputs moved by E leave at most |y - X w*| + |E w*| + |E w|, w* being the best.
    # Rounding moves every input relative to its size: little, but where inputs are nearly collinear w is large.
    step = 64 * _length(instance) * DOUBLE
    moved = 2 * step * float(np.sqrt(np.square(np.abs(np.atleast_2d(fitted.coef_)) @ np.sqrt(powers)).sum()))
    level = step * energy + moved * (2 * np.sqrt(max(truth, 0.0)) + moved)
    return [
        Check("objective", abs(fitted.objective_ - truth), level, energy),
        Check("reached", abs(reached - truth), level, energy),
    ]


def check_shrinkage(instance: Instance) -> list[Check]:
    """Shrunk spectra reach the least value; the k-support norm is the least over all its cases."""
    values, law = np.abs(instance.numbers["targets"].reshape(-1)[:4]), instance.laws[0]
    tensor, rates = torch.from_numpy(values).to(instance.dtype), torch.from_numpy(law.strengths.astype(np.float64))
    s, size = values.astype(np.longdouble), float(np.square(values).sum())
    level = 64 * (len(s) + law.size) * _eps(instance) * size
    least = oracles.least_spectrum(values, law.strengths, law.size)
    x, shares = (_long(part) for part in linalg.shrink_unequal(tensor, rates.to(tensor)))
    got = float(np.square(s - x).sum() + (law.strengths * np.square(shares)).sum())
    norm = float(norms.k_support(tensor, 2)) ** 2
    found = [
        Check("shrink unequal", abs(got - least), level, size),
        Check("k-support", abs(norm - oracles.squared_k_support(values, 2)), level, size),
    ]
    if len(set(law.drop)) == 1:
        strength = law.strengths[0]
        x = _long(linalg.shrink(tensor, float(strength), law.size))
        got = float(np.square(s - x).sum() + strength / law.size * np.square(x.sum()))
        found.append(Check("shrink", got - least, level, size))
        x = _long(linalg.k_support_shrink(tensor, float(strength), 2))
        random = np.random.default_rng(instance.seed)

        def value(point: Array) -> float:
            return float(np.square(s - point).sum() + strength * oracles.squared_k_support(point, 2))

        beside = min(value(x * (1 + 1e-3 * random.normal(size=len(x)))) for _ in range(4))
        found.append(Check("k-support shrink", value(x) - beside, level * (1 + float(strength)), size))
    return found


def _long(value: torch.Tensor) -> Array:
    return value.double().numpy().astype(np.longdouble)


def check_law(instance: Instance) -> list[Check]:
    """Moments of a law against its list of masks."""
    law = instance.laws[0]
    masks, chances = law.atoms()
    characteristic = ((masks - 1) * chances[:, None]).T @ (masks - 1)
    got = instance.masks.characteristic.numpy()
    sizes = np.sqrt(np.outer(np.diag(characteristic), np.diag(characteristic))).astype(np.float64)
    # a list of masks with large equal entries has its variance from differences of them
    largest = float(np.abs(masks).max()) ** 2 if law.kind == "Discrete" else 0.0
    level = 64 * len(chances) * DOUBLE
    off = np.abs(got - characteristic.astype(np.float64)) - level * (sizes + largest)
    return [Check("characteristic", float(off.max()), 0.0, float(sizes.max()))]


def check_interval(instance: Instance) -> list[Check]:
    """Whether a nominal 95 % interval holds the truth; counted, not judged one by one."""
    method = d.MonteCarlo(samples=100, seed=instance.seed, confidence=0.95)
    answer = d.penalty(instance.model, instance.data, instance.masks, method)
    truth, size = oracles.penalty(instance)
    off = max(float(answer.lower) - truth, truth - float(answer.upper))
    finite = np.isfinite(float(answer.value))
    return [Check("covers" if finite else "finite", off if finite else np.nan, 0.0, size)]


def rate(instance: Instance) -> str:
    """The rate at which an interval was asked."""
    return f"{instance.laws[0].drop[0]:.10g}"
