"""Labels that are earned: what is called exact states its rounding, and every question agrees on what is exact."""

from __future__ import annotations

import copy
import pickle
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from cases import GAUSSIAN, deep_pairs, laws, linear_pairs, normal, relu_network, sample
from torch import Tensor

from droptics.data import Data, Entries, Measurements, Moments, Sample
from droptics.errors import NoClosedForm, NoFiniteSupport
from droptics.estimates import Estimate
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.masks import Bernoulli, Discrete, Gaussian, MaskLaw, Product
from droptics.models import Connections, DeepLinear, LastLayer, Model, ReLUNet, TwoLayerLinear
from droptics.penalties import (
    ClosedForm,
    Enumerate,
    Method,
    MonteCarlo,
    best_method,
    criterion,
    has_closed_form,
    penalty,
)
from droptics.penalties.rounding import in_double

SINGLE = torch.float32


def holds(answer: Estimate, truth: float) -> None:
    """The stated error covers the truth, and the interval is made of it."""
    error = float(answer.error)
    assert abs(float(answer) - truth) <= error
    assert float(answer.lower) <= truth <= float(answer.upper)
    # the ends themselves are rounded
    assert float(answer.upper) - float(answer.lower) <= 2 * error + 4 * torch.finfo(answer.value.dtype).eps * abs(truth)


def single(model: Model, data: Data) -> tuple[Model, Data]:
    """Model and data rounded to float32."""
    match model:
        case LastLayer():
            pytest.skip("the module keeps its precision")
        case ReLUNet():
            model = ReLUNet([w.to(SINGLE) for w in model.weights], [b.to(SINGLE) for b in model.biases])
        case _:
            model = type(model)(*(part.to(SINGLE) for part in model.tensors))  # type: ignore[call-arg]
    return model, data.to(SINGLE)


CASES = [
    pytest.param(model, data, law, id=f"{name}/{label}")
    for name, model, data in linear_pairs()
    for label, law in laws(model.units).items()
    if label in ("bernoulli-unequal", "sliding-clipped", "discrete")
]


@pytest.mark.parametrize(("model", "data", "law"), CASES)
@pytest.mark.parametrize("scale", [1.0, 2.0**-40, 2.0**30])
def test_exact_answers_in_single_precision_state_their_rounding(
    model: Model, data: Data, law: MaskLaw, scale: float
) -> None:
    low, rounded = single(model, data)
    if isinstance(rounded, Sample):
        rounded = Sample(rounded.inputs, rounded.targets + scale, rounded.weights)
    elif isinstance(rounded, (Entries, Measurements)) or scale != 1.0:
        return
    high = type(low)(*(part.double() for part in low.tensors))  # type: ignore[call-arg]
    try:
        exact = rounded.to(torch.float64)
    except ValueError:
        return  # rounding made the smallest eigenvalue negative
    truth = float(penalty(high, exact, law))
    for method in (ClosedForm(), Enumerate(2**16)):
        holds(penalty(low, rounded, law, method), truth)
    whole = float(criterion(high, exact, law))
    holds(criterion(low, rounded, law), whole)


@pytest.mark.parametrize(("name", "model", "data", "law"), list(deep_pairs()))
def test_deep_answers_in_single_precision_state_their_rounding(
    name: str, model: Model, data: Data, law: MaskLaw
) -> None:
    low = type(model)([w.to(SINGLE) for w in model.tensors], model.mask_inputs)  # type: ignore[call-arg, attr-defined]
    rounded = data.to(SINGLE)
    try:
        exact = rounded.to(torch.float64)
    except ValueError:
        return  # rounding made the smallest eigenvalue negative
    high = type(model)([w.double() for w in low.tensors], model.mask_inputs)  # type: ignore[call-arg, attr-defined]
    truth = float(penalty(high, exact, law))
    holds(penalty(low, rounded, law), truth)
    gradient = type(model)([w.requires_grad_() for w in low.tensors], model.mask_inputs)  # type: ignore[call-arg, attr-defined]
    holds(penalty(gradient, rounded, law), truth)


def test_a_unit_that_cancels_is_not_called_exact_to_the_last_digit() -> None:
    inputs = torch.tensor([[1.0, 1.0]]) / 3
    model = TwoLayerLinear(torch.ones(1, 1), torch.tensor([[1.0], [-1.0 + 2.0**-24]]))
    data = Sample(inputs, torch.zeros(1, 1))
    truth = float(penalty(*in_double(model, data), Bernoulli(0.5, 1)))
    answer = penalty(model, data, Bernoulli(0.5, 1))
    holds(answer, truth)
    assert float(answer.error) > 0.01 * truth
    assert "+-" in repr(answer)


@pytest.mark.parametrize(("scale", "offset"), [(1.0, 0.0), (1.0, 1e3), (1e-4, 1e3), (1.0, 1e6)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_relu_penalties_do_not_cancel(scale: float, offset: float, dtype: torch.dtype) -> None:
    hidden, head, inputs = (normal(*shape).to(dtype) for shape in ((8, 5), (2, 8), (6, 5)))
    model = ReLUNet([scale * hidden, head])
    data = Sample(inputs, normal(6, 2).to(dtype) + offset)
    masks = Product([Bernoulli(0.0, 5), Bernoulli(0.01, 8)])
    values = torch.relu(inputs.double() @ (scale * hidden).double().mT)
    # only the last layer drops: drop / (1 - drop) sum_j E h_j^2 ||w_j||^2
    truth = float(0.01 / 0.99 * (values.square().mean(0) * head.double().square().sum(0)).sum())
    answer = penalty(model, data, masks)
    holds(answer, truth)
    assert float(answer.error) < 1e-2 * truth
    assert float(answer) == pytest.approx(truth, rel=1e-2 if offset == 1e6 else 1e-5)
    holds(penalty(model, data, masks, Enumerate()), truth)


class Kinked(Loss):
    """A loss without a stated slope."""

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return (outputs - targets).abs().sum(-1)


@pytest.mark.parametrize("size", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_enumeration_of_moments_does_not_cancel_under_large_targets(size: float, dtype: torch.dtype) -> None:
    """The penalty does not depend on targets: whatever they are, no square of theirs is subtracted."""
    inputs = normal(12, 3, dtype=dtype)
    data = Moments.of_sample(Sample(inputs, size * normal(12, 2, seed=1, dtype=dtype)))
    U, V = normal(2, 3, dtype=dtype), normal(3, 3, seed=2, dtype=dtype)
    cases: list[tuple[Model, MaskLaw]] = [
        (TwoLayerLinear(U, V), Bernoulli(0.3, 3)),
        (Connections(U, V), Bernoulli(0.3, 9)),
        (DeepLinear([V.mT, U], mask_inputs=True), Product([Bernoulli(0.1, 3), Bernoulli(0.4, 3)])),
    ]
    for model, masks in cases:
        answer = penalty(model, data, masks, Enumerate())
        truth = float(penalty(*in_double(model, data), masks, ClosedForm()))
        holds(answer, truth)
        # some hundred roundings of products of outputs and targets
        assert float(answer.error) <= (1e3 * torch.finfo(torch.float64).eps * 10 * size + 1e-6) * truth
        drawn = penalty(model, data, masks, MonteCarlo(200, confidence=0.999))
        assert float(drawn.lower) <= truth <= float(drawn.upper)


def test_an_unknown_loss_has_no_known_rounding() -> None:
    model = relu_network()
    answer = penalty(model, sample(), Bernoulli(0.5, model.units), Enumerate(), Kinked())
    assert float(answer.error) == float("inf")
    assert float(answer.lower) == -float("inf")
    assert "+- inf" in repr(answer)


def all_laws(model: Model) -> dict[str, MaskLaw]:
    found = {**laws(model.units), "gaussian": GAUSSIAN(model.units)}
    layers = getattr(model, "layer_units", (model.units,))
    found["by-layer"] = Product([Bernoulli(0.2, size) for size in layers])
    found["gaussian-last"] = Product([*(Bernoulli(0.2, size) for size in layers[:-1]), Gaussian(0.3, layers[-1])])
    found["gaussian-first"] = Product([Gaussian(0.3, layers[0]), *(Bernoulli(0.2, size) for size in layers[1:])])
    found["atoms"] = Product(
        [Discrete(torch.eye(size).double() + 1, torch.ones(size).double() / size) for size in layers]
    )
    return found


TABLE = [
    pytest.param(model, data, law, loss, id=f"{name}/{label}/{type(loss).__name__}")
    for name, model, data in [
        *((name, model, data) for name, model, data in linear_pairs() if "weighted" not in name),
        *((name, model, data) for name, model, data, _ in deep_pairs() if name in ("deep/sample", "two-layers")),
        ("relu", relu_network(), sample()),
    ]
    for label, law in all_laws(model).items()
    for loss in (Squared(), CrossEntropy())
    if isinstance(loss, Squared) or isinstance(data, Sample)
]


@pytest.mark.parametrize(("model", "data", "law", "loss"), TABLE)
def test_all_questions_agree_on_what_is_exact(model: Model, data: Data, law: MaskLaw, loss: Loss) -> None:
    if isinstance(loss, CrossEntropy):
        assert isinstance(data, Sample)
        data = Sample(data.inputs, data.targets.argmax(1))
    known = has_closed_form(model, law, loss)
    for question in (penalty, criterion):
        if known:
            assert question(model, data, law, ClosedForm(), loss).confidence == 1.0
        else:
            with pytest.raises(NoClosedForm):
                question(model, data, law, ClosedForm(), loss)
    best = best_method(model, data, law, loss)
    assert isinstance(best, ClosedForm) == known
    if isinstance(best, MonteCarlo):
        with pytest.raises((NoFiniteSupport, ValueError)):
            penalty(model, data, law, Enumerate(), loss)
    else:
        assert penalty(model, data, law, best, loss).confidence == 1.0


def test_relu_cross_entropy_is_exact_and_chosen() -> None:
    model = relu_network()
    labels = Sample(sample().inputs, sample().targets.argmax(1))
    masks = Bernoulli(0.3, model.units)
    assert has_closed_form(model, masks, CrossEntropy())
    assert best_method(model, labels, masks, CrossEntropy()) == ClosedForm()
    exact = penalty(model, labels, masks, ClosedForm(), CrossEntropy())
    other = penalty(model, labels, masks, Enumerate(), CrossEntropy())
    assert abs(float(exact) - float(other)) <= float(exact.error) + float(other.error)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("method", [ClosedForm(), Enumerate()])
@pytest.mark.parametrize("question", [penalty, criterion])
@pytest.mark.parametrize("family", ["two-layer", "deep", "relu"])
def test_open_errors_survive_copies_and_say_when_the_weights_have_changed(
    family: str, question: Callable[..., Estimate], method: Method, dtype: torch.dtype
) -> None:
    weights = [normal(3, 4).to(dtype), normal(2, 3).to(dtype)]
    models: dict[str, Model] = {
        "two-layer": TwoLayerLinear(weights[1], weights[0].mT),
        "deep": DeepLinear(weights),
        "relu": ReLUNet(weights),
    }
    model, data = models[family], Sample(normal(6, 4).to(dtype), normal(6, 2, seed=1).to(dtype))
    read, kept, late, changed = (question(model, data, Bernoulli(0.3, model.units), method) for _ in range(4))
    error = float(read.error)
    assert 0 < error < float("inf")
    for copied in (pickle.loads(pickle.dumps(kept)), copy.copy(late), replace(late, cost=7)):
        assert (float(copied.error), float(copied.lower)) == (error, float(read.lower))
        assert repr(copied) == repr(read)
    with torch.no_grad():
        weights[0].mul_(2)
    assert float(changed.error) == float("inf")
    assert float(changed.lower) == -float("inf")
    assert float(late.error) == error
    # a changed model that is asked again is answered
    assert error < float(question(model, data, Bernoulli(0.3, model.units), method).error) < float("inf")


def test_a_read_error_holds_on_to_nothing() -> None:
    model, data = TwoLayerLinear(normal(2, 5), normal(4, 5)), Sample(normal(6, 4), normal(6, 2))
    answer = criterion(model, data, Bernoulli(0.3, 5))
    gone = weakref.ref(data)
    del data
    assert gone() is not None
    assert not torch.as_tensor(answer.error).requires_grad
    assert gone() is None
