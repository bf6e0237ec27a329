"""Intervals that hold for every number of draws, and what rounding may do, by their formulas on every family."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from droptics.data import Data, Entries, Measurements, Sample
from droptics.evidence.claims import Comparison, compare
from droptics.linalg.sums import summands
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import Bernoulli, Block, Gaussian, MaskLaw, Product
from droptics.models import (
    Autoencoder,
    Connections,
    DeepLinear,
    Factorization,
    LastLayer,
    Model,
    ReLUNet,
    TwoLayerLinear,
)
from droptics.papers.droptics_own.across.small_room_checks import linear_head
from droptics.papers.droptics_own.audits.audit_checks import every_coin
from droptics.papers.droptics_own.instruments import by_parts
from droptics.papers.instances import moments, normal, simplex, tensor
from droptics.penalties import MonteCarlo, penalty, risk
from droptics.penalties.intervals import Question, guaranteed, loss_range, moment_limit, rare_outcomes
from droptics.penalties.rounding import (
    excess_scale,
    in_double,
    independent_layers,
    output_bound,
    output_scale,
    risk_rounding,
    roundings,
    typical_multipliers,
)

EPS = torch.finfo(torch.float64).eps


def intervals_in_full(scale: float) -> list[Comparison]:
    """Ranges, limits by two moments, guaranteed intervals, scales of rounding: by their formulas, family by family."""
    return by_parts((_ranges, _guaranteed, _roundings, _independent), scale)


Case = tuple[str, Model, Sample, Loss, MaskLaw, bool]


def _cases() -> list[Case]:
    """Families with a sample, a loss and a law; the last says that outputs are linear in the mask."""
    X, Y, weights = normal(1, 6, 3), normal(2, 6, 2), 2 * simplex(3, 6)
    labels = torch.arange(6) % 2
    rates = tensor([0.3, 0.6, 0.1, 0.45])
    head = LastLayer.of(nn.Sequential(linear_head(20, 3, 4), nn.Tanh(), linear_head(22, 4, 2)))
    plain = Sample(X, Y, weights)
    classes = Sample(X, labels, weights)
    deep = [normal(6, 4, 3), normal(7, 3, 4), normal(8, 2, 3)]
    biased = ReLUNet(deep, [normal(9, 4), normal(10, 3), normal(11, 2)])

    def inside(rate: float) -> MaskLaw:
        """ReLU networks have masks on their inputs, too."""
        return Product([Bernoulli(0.15, 3), Bernoulli(rates, 4), Bernoulli(rate, 3)])

    return [
        ("two layers", TwoLayerLinear(normal(4, 2, 4), normal(5, 3, 4)), plain, Squared(), Bernoulli(rates, 4), True),
        (
            "classes",
            TwoLayerLinear(normal(4, 2, 4), normal(5, 3, 4)),
            classes,
            CrossEntropy(),
            Bernoulli(rates, 4),
            True,
        ),
        ("tied", Autoencoder(normal(4, 3, 4)), Sample(X, X, weights), Squared(), Bernoulli(rates, 4), True),
        ("deep", DeepLinear(deep), plain, Squared(), Product([Bernoulli(rates, 4), Bernoulli(0.2, 3)]), False),
        ("relu", biased, plain, Squared(), inside(0.2), False),
        ("relu, classes", biased, classes, CrossEntropy(), inside(0.6), False),
        ("weights", Connections(normal(4, 2, 2), normal(5, 3, 2)), plain, Squared(), Bernoulli(0.4, 6), True),
        ("noise", TwoLayerLinear(normal(4, 2, 4), normal(5, 3, 4)), plain, Squared(), Gaussian(0.3, 4), True),
        ("head", head, plain, Squared(), Bernoulli(rates, 4), True),
        ("head, classes", head, classes, CrossEntropy(), Bernoulli(rates, 4), True),
    ]


def absolute(model: Model, inputs: Tensor, z: Tensor | None) -> Tensor:
    """Outputs of absolute weights on absolute inputs."""
    if isinstance(model, LastLayer):
        hidden = model.features(inputs).detach().abs()
        hidden = hidden if z is None else hidden * z
        return hidden @ model.head.weight.detach().abs().mT + model.head.bias.detach().abs()
    tensors = [part.detach().abs() for part in model.tensors]
    match model:
        case Connections():
            V = tensors[1] if z is None else tensors[1] * z.reshape(tensors[1].shape)
            return inputs.abs() @ V @ tensors[0].mT
        case TwoLayerLinear():
            hidden = inputs.abs() @ tensors[1]
            return (hidden if z is None else hidden * z) @ tensors[0].mT
        case Autoencoder():
            hidden = inputs.abs() @ tensors[0]
            return (hidden if z is None else hidden * z) @ tensors[0].mT
    weights = [part.detach().abs() for part in model.weights]  # type: ignore[attr-defined]
    biases = [part.detach().abs() for part in getattr(model, "biases", ())]
    hidden = inputs.abs()
    if z is not None and isinstance(model, ReLUNet):
        hidden, z = hidden * z[: hidden.shape[-1]], z[hidden.shape[-1] :]
    for k, weight in enumerate(weights[:-1]):
        hidden = hidden @ weight.mT + (biases[k] if biases else 0.0)
        if z is not None:
            hidden = hidden * z[: len(weight)]
            z = z[len(weight) :]
    return hidden @ weights[-1].mT + (biases[-1] if biases else 0.0)


def _question(case: Case, method: MonteCarlo) -> Question:
    _, model, data, loss, law, _ = case
    return Question(model, data, law, method, loss, torch.as_tensor(risk(model, data, loss)).detach())


def rms(values: Tensor, data: Sample) -> Tensor:
    """Root mean squares over the examples."""
    return (data.shares @ values.square()).sqrt()


def _ranges(scale: float) -> list[Comparison]:
    """The range of the loss under all masks, and the limit by the first two moments of the multipliers."""
    found: list[Comparison] = []
    for case in _cases():
        name, model, data, loss, law, linear = case
        question = _question(case, MonteCarlo(50))
        told = loss_range(question)
        assert (told is None) == (name == "noise")
        clean = model.outputs(data.inputs).detach()
        plain = data.shares @ loss(clean, data.targets)
        found.append(compare(question.plain, "==", scale * plain, f"without masks, {name}"))
        if told is not None:
            assert law.bound is not None
            largest = absolute(model, data.inputs, law.bound)
            found.append(
                compare(output_bound(model, data.inputs, law.bound), "==", scale * largest, f"largest, {name}")
            )
            if isinstance(loss, Squared):
                wanted = data.shares @ (largest + data.targets.abs()).square().sum(1)
            else:
                # cross-entropy changes at most twice as much as any output
                wanted = 2 * 2 * data.shares @ (largest + clean.abs()).amax(1)
            found.append(compare(told, "==", scale * wanted, f"range, {name}"))
        apart = isinstance(model, LastLayer)
        sizes = rms(data.inputs, data)[None]

        def scaled(z: Tensor | None, model: Model = model, data: Sample = data, apart: bool = apart) -> Tensor:
            sizes = rms(data.inputs, data)[None]
            return rms(absolute(model, data.inputs, z), data) if apart else absolute(model, sizes, z)[0]

        assert sizes.shape[0] == 1
        deviation = law.relative_variance.sqrt()
        drift = deviation if law.bound is None else torch.minimum(deviation, 2 * (law.bound - 1))

        def change(growth: Tensor, scaled: object = scaled) -> Tensor:
            grown = scaled(1 + growth)  # type: ignore[operator]
            return grown - scaled(None) + 64 * EPS * grown  # type: ignore[operator]

        if isinstance(loss, Squared):
            limit = change(deviation).square().sum()
            if not linear:
                limit = limit + 2 * (rms(clean - data.targets, data) * change(drift)).sum()
        else:
            limit = 2 * torch.minimum(change(deviation).norm(), change(drift).sum())
        found.append(compare(moment_limit(question), "==", scale * limit, f"limit by moments, {name}"))
        if told is not None:
            found += _within(case, float(wanted), float(limit))
        found.append(compare(output_scale(model, data), "==", scale * scaled(None), f"scale of outputs, {name}"))
    return found


def _within(case: Case, most: float, limit: float) -> list[Comparison]:
    name, model, data, loss, law, _ = case
    parts = law.laws if isinstance(law, Product) else [law]
    drops = torch.cat([part.drop.expand(part.size) for part in parts])  # type: ignore[attr-defined]
    return among(name, model, data, loss, (data.shares, drops), (most, limit))


def among(
    name: str,
    model: Model,
    data: Sample | Entries | Measurements,
    loss: Loss,
    chances_of: tuple[Tensor, Tensor],
    most: tuple[float, float],
) -> list[Comparison]:
    """All masks: losses move by no more than their range, and their mean by no more than the limit by moments."""
    shares, drops = chances_of
    kept, chances = every_coin(drops.tolist())
    outputs = model.outputs(data.inputs, (kept / (1 - drops))[:, None]).detach()
    losses = torch.stack([shares @ loss(one, data.targets) for one in outputs])
    plain = shares @ loss(model.outputs(data.inputs).detach(), data.targets)
    return [
        compare(losses.max() - losses.min(), "<=", most[0], f"range of all masks, {name}"),
        compare((chances @ losses - plain).abs(), "<=", most[1], f"mean of all masks, {name}"),
    ]


def ends(
    values: Tensor, method: MonteCarlo, top: object, certain: object, plain: float = math.inf
) -> tuple[float, float]:
    """Maurer and Pontil's ends, no farther out than the limit and than a loss that falls to zero from `plain`."""
    low, high, count, mean = -math.inf, math.inf, method.samples, float(values.mean())
    if top is not None:
        log = math.log(4 / (1 - method.confidence))
        width = math.sqrt(2 * float(values.var()) * log / count) + 7 * float(top) * log / (3 * (count - 1))  # type: ignore[arg-type]
        low, high = mean - width, mean + width
    limit = math.inf if certain is None else float(certain)  # type: ignore[arg-type]
    return max(low, -limit, -plain), min(high, limit)


def _guaranteed(scale: float) -> list[Comparison]:
    """Maurer and Pontil's interval, cut by what the moments allow and by a loss that is never negative."""
    found: list[Comparison] = []
    for case in _cases():
        name, model, data, _, _, _ = case
        for count, confidence, spread in ((40, 0.9, 0.02), (4000, 0.99, 0.3), (100000, 0.95, 1.0)):
            question = _question(case, MonteCarlo(count, confidence=confidence))
            values = spread * normal(count, 50).abs()
            told = guaranteed(model, data, question, values, np.array(1e-3))
            assert told is not None
            top, certain = loss_range(question), moment_limit(question)
            assert certain is not None
            low, high = ends(values, question.method, top, certain, float(question.plain))
            found.append(compare(told[0], "==", scale * (low - 1e-3), f"lower end, {name}, {count}"))
            found.append(compare(told[1], "==", scale * (high + 1e-3), f"upper end, {name}, {count}"))
    # too few draws: the interval is the guaranteed one, and says so
    model, data = TwoLayerLinear(normal(1, 2, 3), normal(2, 4, 3)), Sample(normal(3, 8, 4), normal(4, 8, 2))
    law = Bernoulli(0.05, 3)
    told_few = penalty(model, data, law, MonteCarlo(30, seed=5))
    assert told_few.guaranteed is not None
    both = torch.stack([told_few.lower, told_few.upper])
    wide = torch.stack([part.reshape(()) for part in told_few.guaranteed])
    found.append(compare(both, "==", scale * wide, "the interval is the guaranteed one"))
    found.append(compare(float("the guaranteed one" in told_few.method), "==", 1.0, "and says so"))
    for rate, count, deep in ((0.9, 1500, True), (0.9, 150, True), (0.9, 150, False), (0.5, 25, True)):
        network = DeepLinear([normal(1, 2, 3), normal(2, 2, 2), normal(3, 1, 2)])
        one = TwoLayerLinear(normal(4, 2, 2), normal(5, 3, 2))
        masks = Bernoulli(rate, 4 if deep else 2)
        passing = min(1.0, 2 * (1 - rate)) ** (2 if deep else 1)
        rare = count * min(rate, 1 - rate) < 10 or count * passing < 10
        told_rare = rare_outcomes(network if deep else one, masks, count, min(rate, 1 - rate)) is not None
        found.append(compare(float(told_rare), "==", float(rare), f"too rare, {rate}, {count}, {deep}"))
    return found


def _roundings(scale: float) -> list[Comparison]:
    """Counts of roundings and the scales that they are relative to."""
    found: list[Comparison] = []
    data = moments(1, 2, 3)
    X, Y = normal(2, 7, 3), normal(3, 7, 2)
    deep = DeepLinear([normal(6, 4, 3), normal(7, 5, 4), normal(8, 2, 5)])
    two = TwoLayerLinear(normal(4, 2, 4), normal(5, 3, 4))
    fact = Factorization(normal(4, 2, 4), normal(5, 3, 4))
    rows, columns = torch.tensor([0, 1, 1]), torch.tensor([2, 0, 1])
    cases: tuple[tuple[str, Model, Data, float], ...] = (
        ("moments", two, data, 16 + 2 * (6 + 4 + 2) + summands(1, 6)),
        ("deep moments", deep, data, 16 + 2 * (6 + 9 + 2) + summands(1, 9)),
        ("sample", two, Sample(X, Y), 16 + 2 * (3 + 4 + 2) + summands(7, 4)),
        ("one target", two, Sample(X, Y[:, 0]), 16 + 2 * (3 + 4 + 1) + summands(7, 4)),
        ("entries", fact, Entries(rows, columns, normal(1, 3), (2, 3)), 16 + 2 * (1 + 4 + 1) + summands(3, 4)),
        ("matrices", fact, Measurements(normal(1, 8, 2, 3), normal(2, 8)), 16 + 2 * (5 + 4 + 1) + summands(8, 5)),
    )
    for name, model, known, wanted in cases:
        found.append(compare(roundings(model, known), "==", scale * wanted, f"roundings, {name}"))
    sizes, targets = data.xx.diagonal().sqrt(), data.yy.diagonal().sqrt()
    outputs = absolute(two, sizes[None], None)[0]
    rounded = (16 + 24 + summands(1, 6)) * EPS / 2 * (outputs + targets).square().sum()
    found.append(compare(risk_rounding(two, data, Squared()), "==", scale * rounded, "of a risk", 1e-9, 1e-300))
    z = (1 + Bernoulli(0.3, 4).relative_variance).sqrt()
    grown = absolute(two, sizes[None], z)[0]
    told = excess_scale(two, data, typical_multipliers(two, Bernoulli(0.3, 4)), Squared())
    found.append(compare(told, "==", scale * (grown * (4 * grown + 4 * targets)).sum(), "of an excess"))
    sample = Sample(X, Y, 3 * simplex(1, 7))
    inner, outer = rms(X, sample), rms(Y, sample)
    grown = absolute(two, inner[None], z)[0]
    told = excess_scale(two, sample, z, Squared())
    found.append(compare(told, "==", scale * (grown * (grown + 4 * outer)).sum(), "of an excess on examples"))
    told = excess_scale(two, sample, z, Logistic())
    slope = Logistic().slope
    assert slope is not None
    found.append(compare(told, "==", scale * slope * (1 + grown.norm()), "of an excess of margins"))
    for name, model in (
        ("two layers", two),
        ("factors", fact),
        ("tied", Autoencoder(normal(4, 3, 4))),
        ("weights", Connections(normal(4, 2, 4), normal(5, 3, 4))),
        ("deep", deep),
        ("relu", ReLUNet([normal(6, 4, 3), normal(7, 2, 4)], [normal(8, 4), normal(9, 2)])),
    ):
        single = type(model)(*_single(model))
        double, known = in_double(single, Sample(X.float(), Y.float()))
        found.append(compare(float(double.dtype == torch.float64 == known.dtype), "==", 1.0, f"double, {name}"))
        for own, other in zip(single.tensors, double.tensors, strict=True):
            found.append(compare(other, "==", scale * own.double(), f"the same weights, {name}"))
    return found


def _single(model: Model) -> list[Any]:
    tensors = [part.float() for part in model.tensors]
    match model:
        case DeepLinear():
            return [tensors]
        case ReLUNet():
            return [[part.float() for part in model.weights], [part.float() for part in model.biases]]
    return list(tensors)


def _independent(scale: float) -> list[Comparison]:
    """Which masks of layers are independent, and the multipliers that stand for a law."""
    found: list[Comparison] = []
    deep = DeepLinear([normal(6, 4, 3), normal(7, 4, 4), normal(8, 2, 4)])
    two = TwoLayerLinear(normal(4, 2, 8), normal(5, 3, 8))
    for name, model, law, wanted in (
        ("one layer", two, Block(0.3, 8, 4), 1.0),
        ("coins over layers", deep, Bernoulli(0.3, 8), 1.0),
        ("noise over layers", deep, Gaussian(0.3, 8), 1.0),
        ("blocks over layers", deep, Block(0.3, 8, 8), 0.0),
        ("blocks in layers", deep, Product([Block(0.3, 4, 2), Block(0.2, 4, 4)]), 1.0),
        ("parts of layers", deep, Product([Block(0.3, 2, 2), Block(0.2, 6, 6)]), 0.0),
        ("parts inside", deep, Product([Block(0.3, 2, 2), Block(0.2, 2, 2), Block(0.2, 4, 2)]), 1.0),
        ("coins over a border", deep, Product([Bernoulli(0.3, 6), Block(0.2, 2, 2)]), 1.0),
    ):
        found.append(compare(float(independent_layers(model, law)), "==", wanted, f"independent, {name}"))
        told = typical_multipliers(model, law)
        assert told is not None
        typical = (1 + law.relative_variance).sqrt() if wanted else law.bound
        assert typical is not None
        found.append(compare(told, "==", scale * typical, f"typical multipliers, {name}"))
    return found
