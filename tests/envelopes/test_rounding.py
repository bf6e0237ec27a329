"""Induced penalties and envelopes state how far rounding can have moved them."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import torch
from cases import normal
from compare import close

from droptics.data import Data, Moments, Sample
from droptics.envelopes import envelope, induced, rounding
from droptics.envelopes.deep_linear import input_root, spectrum
from droptics.estimates import Estimate
from droptics.masks import Bernoulli, Block, MaskLaw, Product
from droptics.models import Autoencoder, Connections, DeepLinear, Model, TwoLayerLinear

UNEQUAL = torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5, 0.6], dtype=torch.float64)


def in_precision(name: str, dtype: torch.dtype) -> tuple[Model, MaskLaw]:
    """A network whose weights are float32 numbers, in either precision."""
    hidden, head = (normal(*shape).float().to(dtype) for shape in ((6, 4), (3, 6)))
    match name:
        case "two-layer":
            return TwoLayerLinear(head, hidden.mT.contiguous()), Bernoulli(0.3, 6)
        case "unequal":
            return TwoLayerLinear(head, hidden.mT.contiguous()), Bernoulli(UNEQUAL, 6)
        case "block":
            return TwoLayerLinear(head, hidden.mT.contiguous()), Block(0.3, 6, 2)
        case "connections":
            return Connections(head, hidden.mT.contiguous()), Bernoulli(0.3, 24)
        case "deep":
            middle = normal(5, 6).float().to(dtype)
            return DeepLinear([hidden, middle, head[:, :5]]), Product([Bernoulli(0.3, 6), Bernoulli(0.2, 5)])
    raise AssertionError(name)


def inputs(kind: str) -> torch.Tensor:
    points = normal(9, 4).float().double()
    if kind == "collinear":
        points[:, 3] = (points[:, 0] + points[:, 1]).float()  # up to the rounding of float32
    if kind == "units":
        points = points * torch.tensor([1.0, 2.0**-30, 2.0**30, 1.0])
    return points


def answers(name: str, points: torch.Tensor, dtype: torch.dtype) -> list[Estimate]:
    model, law = in_precision(name, dtype)
    sample = Sample(points.to(dtype), normal(9, 3).to(dtype))
    found = []
    data: tuple[Data, ...] = (sample, Moments.of(sample))
    for one in data:
        found += [question(model, one, law) for question in (induced, envelope)]
    return found


@pytest.mark.parametrize("kind", ["ordinary", "collinear", "units"])
@pytest.mark.parametrize("name", ["two-layer", "unequal", "block", "connections", "deep"])
def test_single_and_double_precision_agree_within_the_stated_errors(name: str, kind: str) -> None:
    points = inputs(kind)
    double = answers(name, points, torch.float64)
    single = answers(name, points, torch.float32)
    for first, second in zip(double, double[2:], strict=False):
        assert abs(float(first) - float(second)) <= float(first.error) + float(second.error)
    # Moments made in float32 are other moments; those of the examples are the same numbers
    for low, high in zip(single[:2], double[:2], strict=True):
        assert abs(float(low) - float(high)) <= float(low.error) + float(high.error)
        assert low.lower <= high.value <= low.upper
    if kind == "ordinary":
        for answer in double:
            assert float(answer.error) > 0
            assert "+-" not in repr(answer)


@pytest.mark.parametrize("rates", [(0.0, 0.5), (0.5, 0.0), (0.0, 0.9)])
def test_the_error_at_unequal_rates_is_that_of_the_largest(rates: tuple[float, float]) -> None:
    """A unit that never falls carries all but what the other must: the least penalty is lambda sigma_2^2.

    Singular values of a two by two map in closed form, in double precision from the same float32 numbers.
    """
    law, strength, off = Bernoulli(torch.tensor(rates, dtype=torch.float64), 2), max(rates) / (1 - max(rates)), 0
    data = Moments.of_map(torch.eye(2))
    for seed in range(10):
        model = TwoLayerLinear(normal(2, 2, seed=seed).float(), normal(2, 2, seed=seed + 20).float())
        matrix = model.U.double() @ model.V.double().mT
        size, det = float(matrix.square().sum()), float(torch.linalg.det(matrix))
        truth = strength * det**2 / ((size + (size**2 - 4 * det**2) ** 0.5) / 2)
        found = induced(model, data, law)
        gap = abs(float(found) - truth)
        off += gap > 1e-12 * truth
        assert gap <= float(found.error) <= 0.05 * strength * size
    assert off > 5, "single precision moved hardly any"


def test_a_direction_left_out_is_in_the_error() -> None:
    """Float32 moments cannot tell 1e-7 from zero; the penalty of a network that reads it can."""
    model = TwoLayerLinear(torch.eye(2), torch.eye(2))
    xx = torch.tensor([[1.0, 1.0], [1.0, 1.0 + 2.0**-22]])
    answer = induced(model, Moments(xx, torch.zeros(2, 2), torch.eye(2)), Bernoulli(0.5, 2))
    truth = float(torch.linalg.eigvalsh(xx.double()).clamp_min(0).sqrt().sum() ** 2 / 2)
    assert abs(float(answer) - truth) > 1e-5
    assert float(answer.lower) <= truth <= float(answer.upper)


def test_deep_maps_of_low_rank_have_no_known_error() -> None:
    weights = [normal(4, 4), normal(4, 4)]
    weights[0][:, 0] = 0
    answer = induced(DeepLinear(weights), Moments.of_map(torch.eye(4).double()), Bernoulli(0.3, 4))
    assert float(answer.error) == float("inf")


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_a_layer_of_zeros_leaves_nothing_that_could_vanish(layer: int) -> None:
    weights = [normal(2, *shape) for shape in ((5, 3), (4, 5), (2, 4))]
    weights[layer][1] = 0.0  # of the second network of a batch
    data, laws = Sample(normal(7, 3), normal(7, 2, seed=1)), Product([Bernoulli(0.3, 5), Bernoulli(0.2, 4)])
    answer = induced(DeepLinear(weights), data, laws)
    assert float(answer.value[0]) > 0.0 == float(answer.value[1])
    assert 0.0 < float(answer.error[0]) < 1e-9 * float(answer.value[0])
    assert float(answer.error[1]) == 0.0


def test_tied_networks_state_an_error() -> None:
    answer = induced(Autoencoder(normal(4, 6)), Moments.of_map(torch.eye(4).double()), Bernoulli(0.3, 6))
    assert float(answer.error) > 0
    assert "+-" not in repr(answer)


def test_the_error_of_a_map_that_cancels_to_nothing_covers_what_is_left_of_it() -> None:
    """(1 + h) (1 - h) - 1 = -h^2 is zero in float64: all that is known of the answer is its stated error."""
    h = 2.0**-40
    one = torch.ones(1, 1, dtype=torch.float64)
    model = TwoLayerLinear(torch.cat([(1 + h) * one, one], 1), torch.cat([(1 - h) * one, -one], 1))
    data = Sample(2 * one, one)
    truth = Fraction(1, 2) * (2 * ((1 + Fraction(h)) * (1 - Fraction(h)) - 1)) ** 2  # lambda / width W^2 E[x^2]
    for question in (induced, envelope):
        answer = question(model, data, Bernoulli(0.5, 2))
        assert abs(Fraction(float(answer)) - truth) <= Fraction(float(answer.error))


def test_the_error_with_masks_on_the_inputs_covers_float64_of_the_same_numbers() -> None:
    """One hidden layer in float32: a ||W S^(1/2)||_*^2 + tr W (S - E[x x^T]) W^T with S of masked inputs, by NumPy."""
    first, second, points = normal(5, 3).float(), normal(3, 5).float(), normal(9, 3).float()
    model = DeepLinear([first, second], mask_inputs=True)
    answer = induced(model, Sample(points, normal(9, 3).float()), Product([Bernoulli(0.75, 3), Bernoulli(0.5, 5)]))
    whole, inputs = second.double().numpy() @ first.double().numpy(), points.double().numpy()
    moment = inputs.T @ inputs / 9
    noise = 3.0 * np.diag(np.diag(moment))
    values = np.linalg.svd(whole @ np.linalg.cholesky(moment + noise), compute_uv=False)
    truth = values.sum() ** 2 / 5 + np.trace(whole @ noise @ whole.T)
    assert abs(float(answer) - truth) <= float(answer.error) <= 0.1 * truth


def test_the_error_of_an_envelope_covers_singular_values_that_were_left_out() -> None:
    """What float32 products cannot tell from zero is left out of sum s, three values of 7 / 2^20 beside a one here."""
    small = 7 * 2.0**-20
    model = DeepLinear([torch.diag(torch.tensor([1.0, small, small, small])), torch.eye(16, 4)])
    answer = envelope(model, Sample(2 * torch.eye(4), torch.zeros(4, 16)), Bernoulli(0.5, 4))
    truth = Fraction(1, 4) * (1 + 3 * Fraction(small)) ** 2
    assert abs(Fraction(float(answer)) - truth) > Fraction(1, 10**6), "nothing was left out"
    assert abs(Fraction(float(answer)) - truth) <= Fraction(float(answer.error))


@pytest.mark.parametrize("noise", [0.0, 0.5, 2.0])
def test_an_error_of_deep_values_is_that_of_the_least_known_one_squared(noise: float) -> None:
    """Values up to a factor 1 + r give (1 + r)^2 of the penalty; masks on the inputs move more by their variance."""
    model = DeepLinear([normal(4, 5, seed=2), normal(3, 4, seed=1)])
    data, value = Sample(normal(9, 5, seed=3), normal(9, 3, seed=4)), torch.tensor(1e6).double()
    spectrum = torch.tensor([2.0, 1.0, 1e-3], dtype=torch.float64)
    least = (1 + noise) * float((rounding._moved(model, data, spectrum) / spectrum)[-1])
    own = 64 * noise * 9 * 5 * rounding.EPS * float(rounding._reach(model, data)) ** 2
    found = float(rounding.deep_rounding(model, data, spectrum, value, noise))
    last = rounding._last(model, spectrum)
    assert found == pytest.approx((least * (2 + least) + last) * 1e6 + own, rel=1e-12)
    assert least > last


@pytest.mark.parametrize("left", [1.0, 1e-3, 1e-8])
def test_a_map_through_one_unit_has_one_singular_value_whatever_cancels_behind_it(left: float) -> None:
    """Rounding beyond rank one would count with the square root of its size: the least penalty is nu ||W||^2."""
    first, second, last = normal(1, 3), normal(3, 1, seed=1), normal(2, 3, seed=2)
    model = DeepLinear([first, second, last - (1 - left) * (last @ second) @ second.mT / second.square().sum()])
    data = Moments.of_map(normal(2, 3))
    values = spectrum(model, input_root(data))
    assert values[1:].tolist() == [0.0]
    close(values[0], torch.linalg.matrix_norm(model.matrix(), 2), 1e-12)
    least = (10 / 7 * 1.5 - 1) * model.matrix().square().sum()
    close(induced(model, data, Product([Bernoulli(0.3, 1), Bernoulli(0.6, 3)])).value, least, 1e-9)
