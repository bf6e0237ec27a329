"""Certified bounds of the cross-entropy penalty against enumeration, and the logistic penalty to rounding."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from cases import normal
from compare import close
from torch import Tensor, nn

from droptics.data import Moments, Sample
from droptics.errors import NoClosedForm
from droptics.losses import CrossEntropy, Logistic, Loss, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock
from droptics.models import Connections, DeepLinear, LastLayer, Model, TwoLayerLinear
from droptics.penalties import (
    Certified,
    ClosedForm,
    Enumerate,
    Method,
    MonteCarlo,
    SecondOrder,
    best_method,
    criterion,
    has_closed_form,
    penalty,
)
from droptics.penalties.certified import (
    MANY,
    REST,
    Bounds,
    Outcomes,
    _by_moments_alone,
    _by_several,
    _conditioned,
    certified_bounds,
)
from droptics.penalties.factors import Coins, Factor, Moves, excess, factors
from droptics.penalties.moment_bounds import APART, FROM_ZERO

ENTROPY = CrossEntropy()


def head(outputs: int, units: int, scale: float, seed: int = 0, dtype: torch.dtype = torch.float64) -> LastLayer:
    layer = nn.Linear(units, outputs, dtype=dtype)
    with torch.no_grad():
        layer.weight.copy_(scale * normal(outputs, units, seed=seed))
        layer.bias.copy_(normal(outputs, seed=seed + 1))
    return LastLayer.of(layer)


def labeled(units: int, outputs: int, count: int = 5, seed: int = 9, dtype: torch.dtype = torch.float64) -> Sample:
    labels = torch.arange(count) % outputs
    return Sample(normal(count, units, seed=seed).to(dtype), labels, torch.linspace(0.5, 2, count).to(dtype))


def signed(units: int, count: int = 5) -> Sample:
    return Sample(normal(count, units, seed=9), (torch.arange(count) % 2 * 2.0 - 1).double())


def truth(model: Model, data: Sample, law: MaskLaw, loss: Loss = ENTROPY) -> float:
    return float(penalty(model, data, law, Enumerate(), loss))


LAWS = {
    "bernoulli": Bernoulli(0.5, 6),
    "unequal": Bernoulli(torch.tensor([0.0, 0.1, 0.3, 0.5, 0.9, 0.99]).double(), 6),
    "rare": Bernoulli(1e-7, 6),
    "block": Block(0.4, 6, 2),
    "sliding": SlidingBlock(0.2, 6, 3),
    "list": Discrete(normal(7, 6, seed=3) + 2, torch.arange(1, 8).double() / 28),
    "product": Product(
        [Block(0.3, 4, 2), Discrete(normal(3, 2, seed=4) + 2, torch.tensor([0.25, 0.25, 0.5]).double())]
    ),
}


@pytest.mark.parametrize("condition", [0, 2, 6])
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_bounds_hold_the_enumerated_penalty(law: MaskLaw, scale: float, condition: int) -> None:
    model, data = head(4, 6, scale), labeled(6, 4)
    exact = penalty(model, data, law, Enumerate(), ENTROPY)
    found = penalty(model, data, law, Certified(condition), ENTROPY)
    assert found.lower <= exact.upper
    assert exact.lower <= found.upper
    assert found.lower <= found.value <= found.upper
    assert found.lower >= 0
    assert found.confidence == 1.0


@pytest.mark.parametrize("name", ["bernoulli", "unequal", "block"])
def test_all_coins_written_out_is_exact(name: str) -> None:
    model, data, law = head(4, 6, 2.0), labeled(6, 4), LAWS[name]
    found = penalty(model, data, law, Certified(6), ENTROPY)
    close(found.value, truth(model, data, law), 1e-12)
    assert float(found.upper - found.lower) < 1e-10


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("classes", [4, 14])
def test_of_many_examples_the_widest_are_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, classes: int, weighted: bool
) -> None:
    """All are bounds; beside examples that are asked for everything, few at a time, REST of the mean is lost at most.

    Sizes of the inputs from 1/8 to 4: some intervals are narrow at once, some after two moments more, some only then.
    """
    count, law = 90, Bernoulli(0.4, 6)
    model = head(classes, 6, 1.0)
    inputs = normal(count, 6, seed=5) * torch.logspace(-3, 2, count, 2, dtype=torch.float64)[:, None]
    weights = torch.linspace(0, 2, count, dtype=torch.float64) if weighted else None
    moves, asked = Moves.of(model, inputs), []

    def counted(outputs: Tensor, parts: Sequence[Factor], condition: int) -> Bounds:
        asked.append(len(outputs))
        return _conditioned(outputs, parts, condition)

    with monkeypatch.context() as patch:
        patch.setattr("droptics.penalties.certified._conditioned", counted)
        found = certified_bounds(moves, law, 0, weights)
    assert 0 < sum(asked) < count
    parts = [certified_bounds(moves.some(torch.arange(at, at + 45)), law) for at in (0, 45)]
    labels = torch.zeros(1, dtype=torch.long)
    exact = torch.tensor([truth(model, Sample(row[None], labels), law) for row in inputs])
    rounding = 1e-13 * (1 + exact)
    assert bool((found.lower - found.slack_below <= exact + rounding).all())
    assert bool((found.upper + found.slack_above >= exact - rounding).all())
    share = torch.ones(count).double() if weights is None else weights
    mine, theirs = (float(share @ (part.upper - part.lower).detach()) for part in (found, _whole(parts)))
    assert mine <= theirs + REST * float(share @ found.lower.detach()) * (1 + 1e-12)


@pytest.mark.parametrize("far", [100.0, 200.0])
@pytest.mark.parametrize("scale", [0.7, 1.0, 2.0])
def test_bounds_of_some_outcomes_do_not_stand_for_all(
    monkeypatch: pytest.MonkeyPatch, scale: float, far: float
) -> None:
    """Of the outcomes of a coin one spreads too far for integrals of margins, when each is looked at by itself."""
    model, data = head(14, 5, scale), Sample(torch.ones(1, 5).double(), torch.zeros(1, dtype=torch.long))
    with torch.no_grad():
        model.head.weight[0, 0] = far
    law = Bernoulli(torch.tensor([0.4, 0.5, 0.3, 0.2, 0.6]).double(), 5)
    whole = penalty(model, data, law, Certified(1), ENTROPY)
    monkeypatch.setattr("droptics.penalties.certified.ROOM", 1)
    parts = penalty(model, data, law, Certified(1), ENTROPY)
    exact = truth(model, data, law)
    assert float(parts.lower) <= exact <= float(parts.upper)
    close(parts.lower, whole.lower, 1e-10)
    close(parts.upper, whole.upper, 1e-10)


def _whole(parts: list[Bounds]) -> Bounds:
    return Bounds(*(torch.cat(ends, -1) for ends in zip(*parts, strict=True)))


def test_conditioning_narrows_the_interval() -> None:
    model, data, law = head(8, 12, 1.0), labeled(12, 8, 2), Bernoulli(0.5, 12)
    widths = [
        float(found.upper - found.lower)
        for found in (penalty(model, data, law, Certified(count), ENTROPY) for count in (0, 6, 12))
    ]
    assert widths == sorted(widths, reverse=True)
    assert widths[2] < 1e-9


def test_two_moments_more_narrow_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data, law = head(10, 60, 0.1), labeled(60, 10), Bernoulli(0.5, 60)
    four = penalty(model, data, law, Certified(), ENTROPY)
    monkeypatch.setattr("droptics.penalties.certified.FEW", 0)
    two = penalty(model, data, law, Certified(), ENTROPY)
    assert two.lower <= four.lower <= four.upper <= two.upper
    assert float(four.upper - four.lower) < 0.5 * float(two.upper - two.lower)
    sampled = penalty(model, data, law, MonteCarlo(4000, seed=1), ENTROPY)
    assert four.lower <= sampled.upper
    assert sampled.lower <= four.upper


def test_three_leading_classes_narrow_the_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data, law = head(4, 8, 2.0), labeled(8, 4), Bernoulli(0.5, 8)
    three = penalty(model, data, law, Certified(2), ENTROPY)

    def of_two(outcomes: Outcomes, order: Tensor, leading: int, known: Bounds) -> Bounds | None:
        return _by_several(outcomes, order, leading, known) if leading == 2 else None

    monkeypatch.setattr("droptics.penalties.certified._by_several", of_two)
    two = penalty(model, data, law, Certified(2), ENTROPY)
    assert two.lower <= three.lower <= truth(model, data, law) <= three.upper <= two.upper
    assert float(three.upper - three.lower) < 0.2 * float(two.upper - two.lower)


@pytest.mark.parametrize("classes", [3, 5, 12])
@pytest.mark.parametrize("rate", [0.35, 0.5, 0.65])
def test_four_moments_know_two_outcomes(rate: float, classes: int) -> None:
    """The rules have two nodes: of one coin both bounds are the penalty, where outcomes are as far apart as nodes."""
    outputs, moved = normal(40, classes, seed=1), normal(40, classes, 1, seed=2)
    found = _by_moments_alone(outputs, [Coins(moved, torch.tensor([rate], dtype=torch.float64))], four=True)
    shift = moved[..., 0] - (outputs.softmax(-1) * moved[..., 0]).sum(-1, keepdim=True)
    down, up = ((outputs + step * shift).logsumexp(-1) - outputs.logsumexp(-1) for step in (-1.0, rate / (1 - rate)))
    exact = rate * down + (1 - rate) * up
    ratio = down.expm1() / up.expm1()
    known = (torch.maximum(ratio, 1 / ratio) > 1.1 * APART) & (torch.maximum(ratio, 1 / ratio) < 0.9 / FROM_ZERO)
    assert int(known.sum()) >= 10
    for bound, slack in ((found.lower, found.slack_below), (found.upper, found.slack_above)):
        assert bool(((bound - exact).abs() <= slack)[known].all())
        assert bool((slack <= 1e-6 * exact)[known].all())


@pytest.mark.parametrize("law", [Bernoulli(torch.tensor([0.1, 0.5, 0.9]).double(), 3), LAWS["list"], Gaussian(0.5, 3)])
def test_cumulants_of_tuples_are_those_of_the_sums(law: MaskLaw) -> None:
    (part,) = factors(law, normal(2, 4, law.size))
    tuples = torch.combinations(torch.arange(4), 3, with_replacement=True)
    directions = nn.functional.one_hot(tuples, 4).sum(-2).double()
    close(part.tuple_cumulant(tuples), part.along(directions).cumulant(), 1e-13)


def test_second_order_is_both_ends_when_the_noise_is_small() -> None:
    model, data, law = head(4, 6, 1.0), labeled(6, 4), Gaussian(1e-6, 6)
    found = penalty(model, data, law, Certified(), ENTROPY)
    reference = float(penalty(model, data, law, SecondOrder(check=None), ENTROPY))
    for end in (found.lower, found.value, found.upper):
        assert float(end.detach()) == pytest.approx(reference, rel=1e-4)


def test_gaussian_units_lie_between_the_bounds() -> None:
    model, data, law = head(3, 6, 1.0), labeled(6, 3), Gaussian(0.5, 6)
    found = penalty(model, data, law, Certified(), ENTROPY)
    sampled = penalty(model, data, law, MonteCarlo(4000, seed=1), ENTROPY)
    assert found.lower <= sampled.upper
    assert sampled.lower <= found.upper


def test_families_linear_in_the_mask_and_batches() -> None:
    data = labeled(4, 3)
    for model in (TwoLayerLinear(normal(3, 5), normal(4, 5)), Connections(normal(3, 2), normal(4, 2))):
        law = Bernoulli(0.3, model.units)
        found = penalty(model, data, law, Certified(), ENTROPY)
        assert found.lower <= truth(model, data, law) <= found.upper
    many = TwoLayerLinear(normal(2, 3, 5), normal(2, 4, 5, seed=2))
    found = penalty(many, data, Bernoulli(0.3, 5), Certified(2), ENTROPY)
    assert found.value.shape == (2,)
    for i in range(2):
        alone = TwoLayerLinear(many.U[i], many.V[i])
        one = penalty(alone, data, Bernoulli(0.3, 5), Certified(2), ENTROPY)
        assert found.lower[i] <= truth(alone, data, Bernoulli(0.3, 5)) <= found.upper[i]
        # integrals have as many nodes as the members of a batch ask for together
        close(found.lower[i], one.lower, 0.01)
        close(found.upper[i], one.upper, 0.01)


def test_single_precision_keeps_the_bounds() -> None:
    for seed in range(20):
        model, data = head(4, 6, 1.0, seed, torch.float32), labeled(6, 4, seed=seed, dtype=torch.float32)
        law = Bernoulli(0.5, 6)
        wide = LastLayer.of(nn.Linear(6, 4).double())
        wide.head.load_state_dict(model.head.state_dict())
        exact = truth(wide, data.to(torch.float64), law)
        found = penalty(model, data, law, Certified(6), ENTROPY)
        assert found.value.dtype == torch.float32
        assert float(found.lower) <= exact <= float(found.upper)


@pytest.mark.parametrize("method", [ClosedForm(), Certified()])
@pytest.mark.parametrize("question", [penalty, criterion])
def test_the_rounding_of_integrals_to_single_precision_is_in_their_error(method: Method, question: Any) -> None:
    """The integral is done in float64 for models of any precision: what is missed is mostly the last rounding."""
    for seed in range(8):
        model, data = head(2, 6, 1.0, seed, torch.float32), labeled(6, 2, seed=seed, dtype=torch.float32)
        wide = LastLayer.of(nn.Linear(6, 2).double())
        wide.head.load_state_dict(model.head.state_dict())
        exact = float(question(wide, data.to(torch.float64), Bernoulli(0.4, 6), Enumerate(), ENTROPY))
        found = question(model, data, Bernoulli(0.4, 6), method, ENTROPY)
        assert found.value.dtype == found.error.dtype == torch.float32
        assert abs(float(found) - exact) <= float(found.error) <= 1e-4 * exact
        assert float(found.error) >= torch.finfo(torch.float32).eps / 4 * exact


@pytest.mark.parametrize(
    ("classes", "scale", "condition"), [(3, 1.0, 2), (3, 4.0, 0), (4, 2.0, 0), (5, 2.0, 0), (5, 2.0, 2)]
)
def test_slopes_in_weights_and_rate_are_those_of_the_value(classes: int, scale: float, condition: int) -> None:
    """By differences of steps h = 1e-5: h^2 and 2^-52 / h of numbers near one are below the tolerances."""
    data = labeled(4, classes, count=3)

    def value(U: Tensor, drop: Tensor) -> Tensor:
        model = TwoLayerLinear(scale * U, normal(4, 5))
        return penalty(model, data, Bernoulli(drop, 5), Certified(condition), ENTROPY).value

    points = (normal(classes, 5).requires_grad_(), torch.tensor(0.3, dtype=torch.float64, requires_grad=True))
    assert torch.autograd.gradcheck(value, points, eps=1e-5, atol=1e-7, rtol=1e-5, fast_mode=True)


def test_errors_of_integrals_widen_the_interval_alone() -> None:
    """Two leading classes and the third are one integral: without its error both ends and the value are its number."""
    model, data, law = head(3, 6, 5.0), labeled(6, 3), LAWS["bernoulli"]
    bounds = certified_bounds(Moves.of(model, data.inputs), law)
    wide = (bounds.error_below > 0) & (bounds.error_above > 0)
    assert bool(wide.any())
    ends = bounds.lower + bounds.error_below, bounds.upper - bounds.error_above
    label = torch.zeros(1, dtype=torch.long)
    exact = torch.tensor([truth(model, Sample(row[None], label), law) for row in data.inputs])
    for end, error in zip(ends, (bounds.error_below, bounds.error_above), strict=True):
        assert bool(((end - exact).abs() <= error + 1e-12)[wide].all())


@pytest.mark.parametrize("scale", [1e-3, 1.0, 4.0])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_logistic_is_exact(law: MaskLaw, scale: float) -> None:
    one, two = head(1, 6, scale), head(2, 6, scale)
    cases = [(one, signed(6), Logistic()), (two, labeled(6, 2), ENTROPY)]
    for model, data, loss in cases:
        for method in (ClosedForm(), Certified()):
            found = penalty(model, data, law, method, loss)
            assert "Fourier" in found.method
            assert abs(float(found) - truth(model, data, law, loss)) < 1e-10
            assert found.lower <= truth(model, data, law, loss) + 1e-12
            assert float(found.error) < 1e-9


def test_logistic_of_normal_noise_is_one_integral() -> None:
    """The margin is normal: Gauss-Hermite quadrature says the same."""
    model, data, law = head(1, 6, 1.0), signed(6), Gaussian(0.5, 6)
    nodes, weights = np.polynomial.hermite_e.hermegauss(120)
    mean = model.outputs(data.inputs).detach()
    spread = (0.5 * (data.inputs * model.head.weight.detach()).square().sum(-1, keepdim=True)).sqrt()
    margins = mean + spread * torch.from_numpy(nodes)
    chances = torch.from_numpy(weights / math.sqrt(2 * math.pi))
    expected = (torch.nn.functional.softplus(margins) @ chances - torch.nn.functional.softplus(mean[:, 0])).mean()
    close(penalty(model, data, law, ClosedForm(), Logistic()).value, expected, 1e-9)


def test_logistic_derivatives() -> None:
    data = signed(4)

    def value(U: Tensor, drop: Tensor) -> Tensor:
        return penalty(TwoLayerLinear(U, normal(4, 3)), data, Bernoulli(drop, 3), ClosedForm(), Logistic()).value

    points = (normal(1, 3).requires_grad_(), torch.tensor(0.5, dtype=torch.float64, requires_grad=True))
    assert torch.autograd.gradcheck(value, points)


def test_margins_that_spread_too_far_have_bounds_instead() -> None:
    model, data, law = head(1, 6, 1.0), signed(6), Bernoulli(1 - 1e-7, 6)
    with pytest.raises(NoClosedForm, match=re.escape("Certified()")):
        penalty(model, data, law, ClosedForm(), Logistic())
    found = penalty(model, data, law, Certified(2), Logistic())
    assert found.lower <= truth(model, data, law, Logistic()) <= found.upper
    assert "bounds" in found.method
    assert isinstance(best_method(model, data, law, Logistic()), Enumerate)


def test_the_table_of_methods() -> None:
    few, many = Bernoulli(0.5, 6), Bernoulli(0.5, 40)
    assert isinstance(best_method(head(3, 6, 1.0), labeled(6, 3), few, ENTROPY), Enumerate)
    assert best_method(head(3, 40, 0.1), labeled(40, 3), many, ENTROPY) == Certified()
    assert best_method(head(2, 40, 0.1), labeled(40, 2), many, ENTROPY) == ClosedForm()
    assert best_method(head(1, 40, 0.1), signed(40), many, Logistic()) == ClosedForm()
    assert best_method(head(1, 40, 1e6), signed(40), many, Logistic()) == Certified()  # margins spread too far
    deep = DeepLinear([normal(40, 4), normal(3, 40)])
    assert isinstance(best_method(deep, labeled(4, 3), many, ENTROPY), MonteCarlo)
    assert has_closed_form(head(2, 6, 1.0), few, ENTROPY)
    assert has_closed_form(head(1, 6, 1.0), few, Logistic())
    assert not has_closed_form(head(3, 6, 1.0), few, ENTROPY)
    assert not has_closed_form(head(2, 40, 1.0), SlidingBlock(0.3, 40, 2), ENTROPY)
    assert isinstance(best_method(head(3, 40, 1.0), labeled(40, 3), SlidingBlock(0.3, 40, 2), ENTROPY), MonteCarlo)


def test_refusals() -> None:
    model, data, law = head(3, 6, 1.0), labeled(6, 3), Bernoulli(0.5, 6)
    with pytest.raises(NoClosedForm, match=re.escape("Certified()")):
        penalty(model, data, law, ClosedForm(), ENTROPY)
    squared = Sample(data.inputs, normal(5, 3))
    with pytest.raises(NoClosedForm, match=re.escape("ClosedForm(), which is exact")):
        penalty(model, squared, law, Certified(), Squared())
    with pytest.raises(NoClosedForm, match=re.escape("not known to be linear")):
        penalty(DeepLinear([normal(6, 6), normal(3, 6)]), data, law, Certified(), ENTROPY)
    wide = head(3, 40, 1.0)
    with pytest.raises(NoClosedForm, match=re.escape("independent units")):
        penalty(wide, labeled(40, 3), SlidingBlock(0.3, 40, 2), Certified(), ENTROPY)
    with pytest.raises(ValueError, match=re.escape("condition must be at most 16")):
        Certified(17)
    two = TwoLayerLinear(normal(3, 5), normal(4, 5))
    moments = Moments.of_map(normal(3, 4))
    with pytest.raises(ValueError, match=re.escape("data must be a Sample")):
        penalty(two, moments, Bernoulli(0.5, 5), Certified(), ENTROPY)
    with pytest.raises(ValueError, match=re.escape("labels")):
        penalty(model, Sample(data.inputs, torch.full((5,), 7)), law, Certified(), ENTROPY)


def test_criterion_and_text() -> None:
    model, data, law = head(4, 6, 1.0), labeled(6, 4), Bernoulli(0.5, 6)
    found = criterion(model, data, law, Certified(), ENTROPY)
    exact = criterion(model, data, law, Enumerate(), ENTROPY)
    assert found.lower <= exact.value <= found.upper
    text = repr(penalty(model, data, law, Certified(2), ENTROPY))
    assert " in [" in text
    assert "4 outcomes of 2 units" in text


def test_the_series_near_zero() -> None:
    exponents = torch.tensor([-0.5, -1e-3, -1e-9, 0.0, 1e-12, 1e-5, 0.4999, 0.5, 3.0, -40.0], dtype=torch.float64)
    exact = [math.fsum(x**k / math.factorial(k) for k in range(2, 60)) for x in exponents[:-1].tolist()]
    close(excess(exponents)[:-1], torch.tensor(exact, dtype=torch.float64), 1e-14)
    assert float(excess(exponents)[-1]) == pytest.approx(39.0)


@pytest.mark.parametrize("seed", range(5))
def test_no_random_head_escapes(seed: int) -> None:
    assert violations(seed, 60) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 120))
def test_no_random_head_escapes_in_ten_thousand(seed: int) -> None:
    assert violations(seed, 500) == []


def violations(seed: int, count: int) -> list[int]:
    """Random heads, one example each, whose enumerated penalty lies outside the bounds by more than its rounding."""
    generator = torch.Generator().manual_seed(seed)
    classes, units = (
        int(torch.randint(3, 8, (), generator=generator)),
        int(torch.randint(1, 8, (), generator=generator)),
    )
    scale = 10.0 ** (3 * torch.rand(count, 1, 1, generator=generator, dtype=torch.float64) - 2)
    U = scale * torch.randn(count, classes, units, generator=generator, dtype=torch.float64)
    V = torch.randn(count, 3, units, generator=generator, dtype=torch.float64)
    rates = torch.rand(units, generator=generator, dtype=torch.float64) ** 2
    data = Sample(torch.randn(1, 3, generator=generator, dtype=torch.float64), torch.zeros(1, dtype=torch.long))
    model, law = TwoLayerLinear(U, V), Bernoulli(rates, units)
    exact = penalty(model, data, law, Enumerate(), ENTROPY)
    outside = torch.zeros(count, dtype=torch.bool)
    for condition in (0, 2):
        found = penalty(model, data, law, Certified(condition), ENTROPY)
        outside |= (found.lower > exact.upper) | (found.upper < exact.lower)
    return outside.nonzero().flatten().tolist()


def test_of_many_examples_those_that_weigh_are_looked_at():
    """All weight lies on five examples that are narrower than others: of their mean at most REST stays open beside."""
    head, count = nn.Linear(6, 4).double(), MANY + 9
    with torch.no_grad():
        head.weight.copy_(normal(4, 6)), head.bias.copy_(normal(4))
    inputs, labels = normal(count, 6), torch.arange(count) % 4
    inputs[5:] *= 6
    weights = torch.full((count,), 1e-9, dtype=torch.float64)
    weights[:5] = 1.0
    ask = (Bernoulli(0.4, 6), Certified(), CrossEntropy())
    whole = penalty(LastLayer.of(head), Sample(inputs, labels, weights), *ask)
    alone = penalty(LastLayer.of(head), Sample(inputs[:5], labels[:5]), *ask)
    open_ = float(alone.upper - alone.lower) + REST * float(alone.lower)
    assert float(whole.upper - whole.lower) <= 1.001 * open_
