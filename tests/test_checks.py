"""Ground floor and linear algebra: refusals and rare branches, each against an independent fact."""

import itertools
import math
from fractions import Fraction
from random import Random
from typing import Any, TypeVar

import numpy as np
import pytest
import torch
from cases import INPUTS, OUTPUTS, entries, measurements, normal, relu_network, sample, singular_moments, small_network
from compare import close
from numpy.typing import NDArray
from torch import nn
from typing_extensions import TypeAliasType

from droptics.annotations import described
from droptics.answers import checked
from droptics.arguments import Column, Count, FloatType, Place, Positive, RateList
from droptics.bounds import hoeffding
from droptics.checks import as_drop, as_float_tensor, check_finite, check_positive, check_probability, check_same_kind
from droptics.data import Entries, Measurements, Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.equalization import equalize
from droptics.errors import NoClosedForm
from droptics.estimates import Bound, Estimate
from droptics.layers import DropBlock
from droptics.linalg import equalize_columns, k_support_shrink, psd_inverse_root, psd_root
from droptics.linalg.rotations import equalize_columns_, equalizer
from droptics.losses import Loss
from droptics.masks import Bernoulli, Block, Discrete, SlidingBlock
from droptics.models import Autoencoder, Connections, DeepLinear, Factorization, LastLayer, TwoLayerLinear
from droptics.norms import k_support, path_norm
from droptics.penalties import penalty


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: as_float_tensor(torch.ones(2), "x", 2), r"x must have 2 dimensions, got shape \(2,\)"),
        (lambda: as_float_tensor(torch.ones(2), "x", (2, 3)), "x must have 2 or 3 dimensions"),
        (
            lambda: as_float_tensor(torch.ones(1, 1, 1), "x", (0, 2)),
            r"x must have 0 or 2 dimensions, got shape \(1, 1, 1\)",
        ),
        (lambda: as_float_tensor("text", "x"), "x must be a tensor or array, got str"),
        (lambda: as_float_tensor(np.arange(3), "x"), "x must be floating point, got torch.int64"),
        (lambda: check_finite(torch.tensor([[1.0, 2.0], [np.nan, np.inf]]), "x"), r"got 2 NaN .* at index \(1, 0\)"),
        (lambda: Bernoulli(0.5, np.ones((2, 3))), r"size must be .*, got ndarray of shape \(2, 3\) \(float64\)"),
        (lambda: Bernoulli(0.5, torch.ones(2)), r"size must be .*, got Tensor of shape \(2,\) \(torch.float32\)"),
        (lambda: check_positive("n", True), "n must be a positive whole number, got True"),
        (lambda: check_positive("n", 0), "positive whole number, got 0"),
        (lambda: check_positive("n", 1.0), "positive whole number, got 1.0"),
        (lambda: check_probability("c", 0.0), "strictly between 0 and 1, got 0.0"),
        (lambda: as_drop(1.0), r"must lie in \[0, 1\), got 1.0"),
        (lambda: as_drop([0.5, -0.1]), "must lie in"),
        (lambda: as_drop(torch.linspace(0, 1, 6)), r"got values in \[0.0, 1.0\]"),
        (lambda: as_drop(torch.ones(0)), "must lie in"),
        (lambda: as_drop("often"), "drop must be a tensor or array, got str"),
        (lambda: check_same_kind({"a": torch.ones(1), "b": torch.ones(1).double()}), "b is torch.float64 on cpu but a"),
        (lambda: Moments(torch.eye(2), torch.eye(2), torch.eye(2), 0.0), "weight must be a finite number > 0"),
        (
            lambda: Moments.of_sample(Sample(normal(3, 2), torch.tensor([0, 1, 1]))),
            "vectors and floating-point targets",
        ),
        (lambda: Moments.merged([]), "at least one Moments"),
        (lambda: Moments.merged([singular_moments(), Moments.of_map(normal(2, 2))]), "agree in shape"),
        (lambda: Entries(torch.tensor([0]), torch.tensor([0]), torch.ones(1), (0, 2)), "shape must be"),
        (lambda: Entries(torch.ones(0).long(), torch.ones(0).long(), torch.ones(0), (2, 2)), "at least one observed"),
        (lambda: Measurements(torch.ones(0, 2, 2), torch.ones(0)), "at least one measurement"),
        (
            lambda: Measurements(torch.ones(2, 2, 2).double(), torch.ones(2)),
            "values is torch.float32 on cpu but matrices",
        ),
        (lambda: SlidingBlock(torch.tensor([0.1, 0.2]), 4, 2), "one number for SlidingBlock, got 2"),
        (lambda: SlidingBlock(0.1, 4, 2, "open"), "edges must be"),
        (lambda: SlidingBlock(0.1, 2, 3, "valid"), "block must not exceed size"),
        (lambda: Discrete(torch.ones(2, 0), torch.tensor([0.5, 0.5])), "at least one unit"),
        (lambda: DeepLinear([torch.ones(3), torch.ones(2, 3)]), r"weights\[0\] must be a matrix"),
        (lambda: DeepLinear([torch.ones(2, 3)]), "at least two layers"),
        (lambda: path_norm([]), "weights must be a model or a list"),
        (lambda: path_norm(3), "weights must be a model or a list of weight matrices, got int"),
        (lambda: k_support(torch.tensor(1.0), 1), "values must be a vector"),
        (lambda: k_support_shrink(torch.tensor(1.0), 1.0, 1), "values must be a vector"),
        (lambda: equalizer(torch.ones(2, 3)), "gram must be square"),
        (lambda: equalizer(torch.ones(3)), "gram must be square"),
        (lambda: equalize_columns(torch.ones(3)), "factor must be a matrix"),
        (lambda: equalize_columns(torch.eye(2), torch.eye(3)), "companions"),
        (lambda: equalize_columns(torch.eye(2) * torch.nan), "factor must be finite"),
        (lambda: equalize_columns_(torch.eye(2).requires_grad_(True)), "use equalize_columns"),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_confidences_end_before_both_of_their_ends():
    for good in (5e-324, 0.5, math.nextafter(1.0, 0.0), np.float32(0.25)):
        check_probability("c", good)
    for bad in (0.0, 1.0, -0.1, 1.1, math.inf, math.nan):
        with pytest.raises(ValueError, match="c must lie strictly between 0 and 1"):
            check_probability("c", bad)


def test_types_of_numbers_are_single_or_double_precision():
    accepts = FloatType()
    assert all(map(accepts, ("float32", "float64", np.float32, np.dtype(np.float64), float)))
    assert not any(map(accepts, (None, "float16", int, "text", 3, torch.float32)))


def test_what_is_not_finite_in_a_module_or_a_dataclass_is_named_before_what_is_large():
    broken = nn.Linear(2, 1)
    with torch.no_grad():
        broken.weight[0, 1] = math.nan
    call = checked(lambda left, other: torch.tensor(math.nan))
    for given in (broken, [broken], Bound(broken.weight, {}, "x")):
        with pytest.raises(ValueError, match=r"other must be finite, got 1 NaN .* first at index \(0, 1\)"):
            call(torch.full((2,), 2.0**30), given)


def test_rates_of_every_kind_are_read():
    for value in (0.25, np.float32(0.25), np.array([0.25]), torch.tensor(0.25), [0.25]):
        rate = as_drop(value)
        assert rate.dtype == torch.float64
        close(rate.reshape(()), 0.25)
    assert float(as_drop(0)) == 0.0


def test_estimates_say_what_they_are():
    exact = Estimate.exact(torch.tensor(2.0), "closed form")
    assert repr(exact) == "Estimate(2, closed form)"
    assert exact.interval == (exact.value, exact.value)
    sampled = Estimate(torch.tensor(2.0), torch.tensor(1.5), torch.tensor(2.5), "Monte Carlo", 10, 0.9)
    assert repr(sampled) == "Estimate(2 in [1.5, 2.5] at 90%, Monte Carlo)"
    assert repr(Estimate.exact(torch.ones(3), "closed form")) == "Estimate(values of shape (3,), closed form)"
    assert sampled.shift(torch.tensor(1.0)).guaranteed is None


def test_a_bound_is_vacuous_from_its_trivial_value_on():
    assert not Bound(0.9, {}, "c", trivial=1.0).vacuous
    assert Bound(1.0, {}, "c", trivial=1.0).vacuous
    assert Bound(float("nan"), {}, "c").vacuous
    assert Bound(float("inf"), {}, "c").vacuous


@pytest.mark.parametrize("rank", [0, 1, 2, 4])
def test_inverse_roots_are_pseudo_inverses(rank):
    factor = normal(4, rank) if rank else torch.zeros(4, 1).double()
    matrix = factor @ factor.mT
    root, inverse = psd_root(matrix), psd_inverse_root(matrix)
    close(root @ root, matrix, scale=max(1.0, float(matrix.abs().max())))
    # the conditions of Moore and Penrose for symmetric matrices
    close(root @ inverse @ root, root, 1e-9, scale=1.0)
    close(inverse @ root @ inverse, inverse, 1e-9, scale=max(1.0, float(inverse.abs().max())))
    assert int(torch.linalg.matrix_rank(inverse)) == rank


def test_equalizing_in_place_and_empty():
    for stored in (normal(5, 3), normal(3, 5).mT):
        before = stored @ stored.mT
        factor = stored.clone(memory_format=torch.preserve_format)
        assert equalize_columns_(factor) is factor
        close(factor @ factor.mT, before)
        norms = factor.square().sum(0)
        close(norms, norms.mean().expand(3))
    assert equalize_columns(torch.zeros(0, 3))[0].shape == (0, 3)


def test_equalizing_carries_gradients():
    factor = normal(4, 3).requires_grad_(True)
    (equal,) = equalize_columns(factor)
    (slope,) = torch.autograd.grad(equal.square().sum(), factor)
    close(slope, 2 * factor.detach())  # a rotation keeps the norm


def test_path_norm_of_a_tied_network_is_that_of_its_two_layers():
    tied = Autoencoder(normal(INPUTS, 3))
    close(path_norm(tied), path_norm([tied.U.mT, tied.U]))
    brute = sum(
        float((tied.U[i, j] * tied.U[k, j]) ** 2) for i in range(INPUTS) for j in range(3) for k in range(INPUTS)
    )
    close(path_norm(tied), brute**0.5)


class Linear(Loss):
    """The sum of the outputs: no curvature at all."""

    def __call__(self, outputs, targets):
        return outputs.sum(-1)


def test_a_loss_without_curvature_has_zero_hessian():
    assert float(Linear().hessian(normal(3, 2), normal(3, 2)).abs().max()) == 0.0
    assert float(Linear().curvatures(normal(3, 2), normal(3, 2), normal(2, 4)).abs().max()) == 0.0


def test_last_layer_must_run_once():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.head = nn.Linear(INPUTS, INPUTS).double()

        def forward(self, x):
            return self.head(self.head(x))

    module = Twice()
    with pytest.raises(ValueError, match="ran 2 times"):
        LastLayer(module, module.head).features(sample().inputs)


def test_envelopes_and_equalization_refuse_what_they_do_not_know():
    law = Bernoulli(0.5, relu_network().units)
    with pytest.raises(NoClosedForm, match="ReLUNet"):
        induced(relu_network(), sample(), law)
    with pytest.raises(NoClosedForm, match="ReLUNet"):
        equalize(relu_network(), sample(), law)
    tied = Autoencoder(normal(INPUTS, 4))
    white = Moments.of_map(normal(INPUTS, INPUTS))
    with pytest.raises(NoClosedForm, match="Block"):
        equalize(tied, white, Block(0.5, 4, 2))
    with pytest.raises(NoClosedForm, match="SlidingBlock"):
        induced(TwoLayerLinear(normal(3, 4), normal(INPUTS, 4)), white_like(), SlidingBlock(0.3, 4, 2))
    deep = DeepLinear([normal(3, INPUTS), normal(2, 3), normal(OUTPUTS, 2)], mask_inputs=True)
    from droptics.masks import Product

    with pytest.raises(NoClosedForm, match="inputs"):
        equalize(deep, sample(), Product([Bernoulli(0.3, size) for size in (INPUTS, 3, 2)]))
    plain = DeepLinear([normal(3, INPUTS), normal(2, 3), normal(OUTPUTS, 2)])
    with pytest.raises(NoClosedForm, match="singular"):
        equalize(plain, singular_moments(), Product([Bernoulli(0.3, 3), Bernoulli(0.3, 2)]))


def white_like():
    return Moments.of_map(normal(3, INPUTS))


@pytest.mark.parametrize("law", [Bernoulli(0.4, 4), Bernoulli(torch.tensor([0.1, 0.5, 0.7, 0.3]).double(), 4)])
def test_tied_networks_are_equalized_to_the_induced_penalty(law):
    tied = Autoencoder(normal(INPUTS, 4))
    data = Moments.of_map(normal(INPUTS, INPUTS))
    equal = equalize(tied, data, law)
    close(equal.U @ equal.U.mT, tied.U @ tied.U.mT)
    value = penalty(equal, data, law).value
    close(value, induced(tied, data, law).value, 1e-9)
    assert float(envelope(tied, data, law)) <= float(value) * (1 + 1e-9) <= float(penalty(tied, data, law)) * (1 + 2e-9)


@pytest.mark.parametrize("data", [entries(), measurements()])
def test_factorization_needs_a_product_of_proportions(data):
    with pytest.raises(NoClosedForm):
        induced(Factorization(normal(6, 2), normal(5, 2)), data, Bernoulli(0.5, 2))


def test_connections_envelope_is_below_the_penalty():
    model, law = Connections(normal(OUTPUTS, 2), normal(INPUTS, 2)), Bernoulli(0.4, 2 * INPUTS)
    data = Moments.of_map(normal(OUTPUTS, INPUTS))
    low, least, value = (float(f(model, data, law)) for f in (envelope, induced, penalty))
    assert 0 < low <= least * (1 + 1e-12)
    assert least <= value * (1 + 1e-12)
    equal = equalize(model, data, law)
    close(equal.matrix(), model.matrix())
    close(penalty(equal, data, law).value, least, 1e-9)


def test_last_layer_keeps_the_mode_of_its_module():
    network = small_network()
    network.train()
    LastLayer.of(network).features(sample().inputs)
    assert network.training
    assert all(part.training for part in network)


@pytest.mark.parametrize("value", [10**400, -(10**400)])
def test_a_whole_number_beyond_all_floats_is_refused_by_name(value):
    with pytest.raises(ValueError, match=r"^deviation must be a finite number, got"):
        hoeffding(value, [1.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: hoeffding(Fraction(10**400), [1.0]), "deviation must be a finite number, got Fraction"),
        (lambda: hoeffding(torch.ones((), device="meta"), [1.0]), "deviation must be a finite number, got Tensor"),
        (lambda: hoeffding(1.0, {1.0}), "ranges must be a sequence, each a number >= 0, got set"),  # equal ones are one
        (lambda: Bernoulli(0.5, np.timedelta64(3)), "size must be a positive whole number"),
    ],
)
def test_what_only_looks_like_a_number_or_a_sequence_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        call()


def test_lists_of_what_numpy_cannot_take_are_no_columns():
    followed, absent = torch.ones((), requires_grad=True), torch.ones((), device="meta")
    for kind, value in itertools.product((Column(), Column(ids=True), RateList()), (followed, absent)):
        assert not kind([value])
    assert not RateList()(torch.zeros(1, requires_grad=True))
    assert not Place()("privateuseone")


def test_an_alias_of_arrays_that_is_a_type_of_its_own_asks_for_an_array():
    """NumPy 2.5 spells NDArray so; what it stands for is behind `__value__`."""
    kind = TypeVar("kind")
    alias = TypeAliasType("NDArray", np.ndarray[Any, np.dtype[kind]], type_params=(kind,))
    for hint in (alias[Any], NDArray[Any]):
        check = described(hint)
        assert check is not None
        assert check.text == "an array"
        assert check.accepts(np.zeros(2))
        assert not check.accepts([0.0])


def test_a_sound_call_says_nothing_of_other_values_of_its_types():
    """What a call was checked for is remembered by types: only where every value of them is sound."""

    @checked
    def area(width: Count, height: Positive) -> float:
        return width * height

    for _ in range(2):
        assert area(2, 3.0) == 6.0
        with pytest.raises(ValueError, match="height must be"):
            area(2, -3.0)
        with pytest.raises(ValueError, match="width must be"):
            area(0, 3.0)
        with pytest.raises(ValueError, match="height must be"):
            area(2, height=float("nan"))


def test_a_truth_value_is_none_of_the_numbers_that_are_listed():
    with pytest.raises(ValueError, match="spatial must be 1 or 2"):
        DropBlock(0.1, 2, spatial=True)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Bernoulli, "a droptics Bernoulli"),
        (nn.Linear, "an nn.Linear"),
        (Random, "a Random"),
    ],
)
def test_classes_are_named_with_the_library_that_they_are_from(kind, words):
    check = described(kind)
    assert check is not None
    assert check.text == words


def test_lists_of_rates_end_below_one():
    accepted = [
        value for value in (0.0, [0.0, 0.999], 1.0, [0.5, 1.0], [-0.1], [], [[0.5]], "0.5") if RateList()(value)
    ]
    assert accepted == [0.0, [0.0, 0.999]]


def test_numbers_that_overflow_outside_of_tensors_are_those_of_an_argument():
    """Python's own floats raise where tensors become infinite; small numbers are not to blame."""

    @checked
    def growth(rate: Positive, matrix: torch.Tensor) -> float:
        return math.exp(rate * float(matrix.sum()))

    with pytest.raises(ValueError, match=r"^matrix holds numbers up to 2.1e\+06, too large for this answer"):
        growth(1.0, torch.full((2, 2), 2.1e6))
    with pytest.raises(OverflowError):
        growth(1000.0, torch.ones(2, 2))
