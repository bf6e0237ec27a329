"""Guaranteed intervals and scales of rounding of factors, scorers and moments, by their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.losses import Logistic, Loss, Squared
from droptics.masks import Bernoulli, Block, Gaussian, MaskLaw
from droptics.models import DeepLinear, Factorization, Model, ReLUNet, TwoLayerLinear
from droptics.papers.droptics_own.penalties.interval_checks import EPS, absolute, among, ends, intervals_in_full, rms
from droptics.papers.droptics_own.telling import same
from droptics.papers.instances import moments, normal, simplex, tensor
from droptics.penalties import MonteCarlo, risk
from droptics.penalties.intervals import Draws, Question, _outward, concluded, guaranteed, loss_range, moment_limit
from droptics.penalties.rounding import output_scale, roundings


class _Side(Loss):
    """-y f(x), which falls below zero."""

    @property
    def slope(self) -> float:
        return 1.0

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return -targets.reshape(-1) * outputs[..., 0]


Other = tuple[str, Model, Data, Loss, MaskLaw, Callable[[Tensor | None], Tensor], bool]


def _others() -> list[Other]:
    """Factors of matrices, scorers and moments; laws that leave no range or no limit; a loss below zero.

    Next the outputs of absolute weights, one row per observation; the last says that the rows are of root mean squares.
    """
    U, V, X, side = normal(4, 3, 4), normal(5, 4, 4), normal(1, 6, 4), normal(2, 6).sign()
    rows, columns, known = torch.tensor([0, 1, 1, 2, 2]), torch.tensor([2, 0, 3, 1, 3]), moments(1, 3, 4)
    matrices, rates, shares = normal(3, 5, 3, 4), tensor([0.3, 0.6, 0.1, 0.45]), 2 * simplex(3, 6)
    layers = [normal(6, 4, 4), normal(7, 4, 4), normal(8, 2, 4)]
    deep, relu, wide = DeepLinear(layers), ReLUNet(layers), Sample(X, normal(2, 6, 2), shares)
    fact, two, one = Factorization(U, V), TwoLayerLinear(U, V), TwoLayerLinear(U[:1], V)
    coins, scored = Bernoulli(rates, 4), Sample(X, side, shares)

    def products(z: Tensor | None) -> Tensor:
        return (U.abs()[:, None] * (torch.ones(4).double() if z is None else z) * V.abs()).sum(-1)

    def of(model: Model, inputs: Tensor) -> Callable[[Tensor | None], Tensor]:
        return lambda z: absolute(model, inputs, z)

    return [
        ("entries", fact, Entries(rows, columns, normal(7, 5), (3, 4)), Squared(), coins,
            lambda z: products(z)[rows, columns, None], False),
        ("matrices", fact, Measurements(matrices, normal(7, 5)), Squared(), coins,
            lambda z: (matrices.abs() * products(z)).sum((1, 2))[:, None], False),
        ("moments", two, known, Squared(), coins, of(two, known.as_sample().inputs), True),
        ("scorer", one, scored, Logistic(), coins, of(one, X), True),
        ("below zero", one, scored, _Side(), coins, of(one, X), True),
        ("deep noise", relu, wide, Squared(), Gaussian(0.3, 12), of(relu, X), True),
        ("blocks over layers", deep, wide, Squared(), Block(0.3, 8, 8), of(deep, X), True),
    ]  # fmt: skip


def other_intervals(scale: float) -> list[Comparison]:
    """`intervals_in_full`, and the same where data are no examples of two outputs, or a law or loss leaves one out."""
    found = [*intervals_in_full(scale), *(one for other in _others() for one in _other(scale, other))]
    return [*found, *_outward_ends(scale)]


def _outward_ends(scale: float) -> list[Comparison]:
    """Ends in single precision: the nearest number of it that is no farther in."""
    found: list[Comparison] = []
    exact = tensor([0.0, 1.5, -0.25])
    for ends_of in (normal(20, 200), 1e-30 * normal(21, 50), exact):
        for up in (True, False):
            told, inward = _outward(ends_of, torch.float32, up=up), torch.tensor(-math.inf if up else math.inf)
            found.append(same(told.dtype, torch.float32, f"single precision, {up}"))
            sign = 1.0 if up else -1.0
            far = sign * (told.double() - ends_of)
            nearer = sign * (ends_of - torch.nextafter(told, inward).double())
            found.append(compare(far.min(), ">=", 0.0, f"no farther in, {up}", 0.0))
            found.append(compare(nearer.min(), ">", 0.0, f"no farther out than need be, {up}", 0.0))
        found.append(
            compare(_outward(ends_of, torch.float64, up=True), "==", scale * ends_of, "double precision stays")
        )
    return found


def _other(scale: float, other: Other) -> list[Comparison]:
    name, model, data, loss, law, outputs_of, of_squares = other
    found: list[Comparison] = []
    seen = data.as_sample() if isinstance(data, Moments) else data
    assert isinstance(seen, (Sample, Entries, Measurements))
    weights = getattr(seen, "weights", None)
    shares = tensor([1.0] * len(seen)) if weights is None else weights
    shares, clean, targets = shares / shares.sum(), model.outputs(seen.inputs), seen.targets
    question = Question(model, data, law, MonteCarlo(60, confidence=0.9), loss, risk(model, data, loss).detach())
    squared, top = isinstance(loss, Squared), None
    if law.bound is not None:
        largest = outputs_of(law.bound)
        top = shares @ (largest + targets.abs()).square().sum(1)
        if not squared:
            top = 2 * shares @ (largest + clean.abs()).amax(1)
        found.append(compare(loss_range(question), "==", scale * top, f"range, {name}"))

    def scaled(z: Tensor | None) -> Tensor:
        if of_squares:
            assert isinstance(seen, Sample)
            return absolute(model, rms(seen.inputs, seen)[None], z)[0]
        return (shares @ outputs_of(z).square()).sqrt()

    deviation = law.relative_variance.sqrt()
    drift = deviation if law.bound is None else torch.minimum(deviation, 2 * (law.bound - 1))
    spread, moved = (more - scaled(None) + 64 * EPS * more for more in (scaled(1 + deviation), scaled(1 + drift)))
    limit = spread.square().sum() if squared else torch.minimum(spread.norm(), moved.sum())
    if isinstance(model, ReLUNet):
        limit = limit + 2 * ((shares @ (clean - targets).square()).sqrt() * moved).sum()
    certain = None if isinstance(law, Block) else limit
    if certain is not None:
        found.append(compare(moment_limit(question), "==", scale * certain, f"limit by moments, {name}"))
    found.append(compare(output_scale(model, seen), "==", scale * scaled(None), f"scale of outputs, {name}"))
    values = 0.3 * normal(9, 60).abs()
    wanted = ends(values, question.method, top, certain, math.inf if isinstance(loss, _Side) else float(question.plain))
    told = guaranteed(model, data, question, values, np.array(0.0))
    assert told is not None
    found.append(compare(torch.stack(told), "==", scale * tensor(wanted), f"both ends, {name}"))
    if isinstance(law, Bernoulli):
        assert top is not None
        found += among(name, model, seen, loss, (shares, law.drop), (float(top), float(limit)))
    z = law.bound if certain is None else (1 + law.relative_variance).sqrt()
    grown, known = scaled(z), (shares @ targets.square()).sqrt()
    own = (4 if isinstance(data, Moments) else 1) * grown + 4 * known
    size = (grown * own).sum() if squared else 1 + grown.norm()
    # the sizes of the draws count, too, and every step of their sum
    rounding = (roundings(model, data) + 2 * math.sqrt(60)) * (size + values.mean())
    error = concluded(question, [Draws(values)], "").error / EPS
    rounding = rounding + torch.maximum(values.mean(), rounding * EPS)
    return [*found, compare(error, "==", scale * rounding, f"rounding of draws, {name}")]
