"""Optima and certificates that no units, no precision and no degenerate data can fool."""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module

import numpy as np
import pytest
import torch
from cases import laws, normal, sample
from compare import close
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from droptics.data import Data, Entries, Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.equalization import equalize, imbalance
from droptics.errors import CertificateError
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock
from droptics.models import Autoencoder, Connections, DeepLinear, Factorization, LastLayer, Model, TwoLayerLinear
from droptics.optima import Certificate, certify, optimal_head, optimum, optimum_of_map
from droptics.optima.stationary import alternate
from droptics.penalties import criterion
from droptics.spectra.coordinates import whiten

FAMILIES = {
    "two layers": (TwoLayerLinear, Bernoulli(0.3, 3)),
    "unequal rates": (TwoLayerLinear, Bernoulli(torch.tensor([0.1, 0.3, 0.5]).double(), 3)),
    "blocks": (TwoLayerLinear, Block(0.3, 4, 2)),
    "connections": (Connections, Bernoulli(0.3, 12)),
    "deep": (DeepLinear, Product([Bernoulli(0.2, 3), Bernoulli(0.3, 3)])),
    "head": (LastLayer, Bernoulli(0.3, 4)),
}


def collinear(examples: int = 30, dtype: torch.dtype = torch.float64) -> Sample:
    """Four inputs of which the last is the sum of the others, up to the rounding of the dtype."""
    inputs = normal(examples, 3, dtype=dtype)
    return Sample(torch.cat([inputs, inputs.sum(1, keepdim=True)], 1), normal(examples, 3, dtype=dtype))


@pytest.mark.parametrize(("examples", "scale"), [(10_000, 1e-3), (1_000, 1e-4)])
def test_a_small_feature_that_explains_everything_in_float32(examples, scale):
    inputs = normal(examples, 2, dtype=torch.float32) * torch.tensor([1.0, scale])
    data, masks = Sample(inputs, inputs[:, 1:] / scale), Bernoulli(0.1, 4)
    found = optimum(TwoLayerLinear, data, masks)
    # y is the feature in its own units: one value s^2 = E y^2, kept to 1 / (1 + lambda / width)
    energy = float(data.targets.double().square().mean())
    close(found.objective, energy * (1 - 1 / (1 + 1 / 36)), 1e-5)
    assert found.certified
    root = (0.98 / 4) ** 0.5 * scale**-0.5
    reached = TwoLayerLinear(torch.full((1, 4), root * scale**0.5), torch.tensor([[0.0] * 4, [root * scale**-0.5] * 4]))
    assert certify(reached, data, masks).gap >= 0


@pytest.mark.parametrize("seed", range(20))
def test_the_bound_of_float32_inputs_that_almost_repeat_one_another(seed):
    # the last input is a combination of the others up to single rounding, and a network may still use what is left
    draw = np.random.default_rng(seed)
    inputs, targets = draw.normal(size=(6, 3)).astype(np.float32), draw.normal(size=(6, 1)).astype(np.float32)
    inputs[:, 2] = inputs[:, 0] - inputs[:, 1]
    data, masks = Sample(torch.from_numpy(inputs), torch.from_numpy(targets)), Bernoulli(torch.tensor([0.0, 0.3]), 2)
    found = optimum(TwoLayerLinear, data, masks)
    # one output and one unit that is never dropped: the least value is that of least squares, here in fractions
    rows = [[Fraction(float(value)) for value in row] for row in inputs]
    least = _least_squares(rows, [Fraction(float(value)) for value in targets[:, 0]])
    assert found.bound <= least + 1e-14 * found.scale


def _least_squares(rows: list[list[Fraction]], targets: list[Fraction]) -> float:
    """The mean squared error of least squares without rounding: every column is cleaned of those before it."""
    basis: list[list[Fraction]] = []
    left: list[Fraction] = []
    for column in [*zip(*rows, strict=True), targets]:
        left = list(column)
        for known in basis:
            share = sum(a * b for a, b in zip(known, left, strict=True)) / sum(a * a for a in known)
            left = [b - share * a for a, b in zip(known, left, strict=True)]
        if any(left):
            basis.append(left)
    return float(sum(a * a for a in left) / len(targets))


@pytest.mark.parametrize("scale", [1e-8, 1e-9, 1e-12])
def test_a_small_feature_in_moments(scale):
    inputs = normal(1_000, 2) * torch.tensor([1.0, scale]).double()
    data, masks = Sample(inputs, inputs[:, 1:] / scale), Bernoulli(0.1, 4)
    found, again = (optimum(TwoLayerLinear, given, masks) for given in (data, Moments.of_sample(data)))
    assert found.certified
    assert again.certified
    close(again.objective, found.objective, 1e-9)


@pytest.mark.parametrize("kind", FAMILIES)
@pytest.mark.parametrize("moments", [False, True], ids=["sample", "moments"])
@pytest.mark.parametrize("shift", [-40, 40])
def test_units_of_features_and_targets_change_nothing(kind, moments, shift):
    family, masks = FAMILIES[kind]
    if moments and family is LastLayer:
        pytest.skip("a head needs examples")
    units = torch.tensor([1.0, 2.0**shift, 1.0, 2.0 ** (-shift // 2)]).double()
    for data in (sample(), collinear()):
        moved = Sample(data.inputs * units, data.targets * 2.0**shift)
        first, second = (optimum(family, Moments.of_sample(part) if moments else part, masks) for part in (data, moved))
        assert first.certified or "alternating" in first.method
        assert second.certified == first.certified
        assert second.rank == first.rank
        for name in ("objective", "bound"):
            close(getattr(second, name), getattr(first, name) * 4.0**shift, 1e-12)


@pytest.mark.parametrize("shift", [-40, 40])
def test_units_change_neither_envelopes_nor_equalized_networks(shift):
    units = torch.tensor([1.0, 2.0**shift, 1.0, 1.0]).double()
    data, masks = sample(), Bernoulli(0.3, 3)
    moved = Sample(data.inputs * units, data.targets)
    first, second = (
        TwoLayerLinear(normal(3, 3), normal(4, 3)),
        TwoLayerLinear(normal(3, 3), normal(4, 3) / units[:, None]),
    )
    deep = [DeepLinear([model.V.mT, model.U]) for model in (first, second)]
    for before, after in ((first, second), deep):
        for function in (induced, envelope, imbalance):
            close(float(function(after, moved, masks)), float(function(before, data, masks)), 1e-11)
    close(equalize(second, moved, masks).matrix() * units, first.matrix(), 1e-11)


def degenerate() -> dict[str, Data]:
    flat = normal(12, 4)
    flat[:, 2] = 1.0
    weak = sample().inputs.clone()
    weak[:, 3] = weak[:, 2] + 1e-9 * weak[:, 3]
    return {
        "collinear": collinear(),
        "flat": Sample(flat, normal(12, 3)),
        "few": Sample(normal(2, 4), normal(2, 3)),
        "weak": Sample(weak, sample().targets),
        "noiseless": Sample(normal(9, 4), normal(9, 4) @ normal(4, 3)),
        "zero": Sample(torch.zeros(5, 4).double(), normal(5, 3)),
        "no targets": Sample(normal(9, 4), torch.zeros(9, 3).double()),
    }


@pytest.mark.parametrize("name", degenerate())
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("kind", FAMILIES)
def test_optimum_and_certificate_agree_on_degenerate_data(name, dtype, kind):
    """Never a bound above a value: neither that of the optimum, nor of the optimum of the same data in float64."""
    family, masks = FAMILIES[kind]
    data = degenerate()[name].to(dtype)
    exact = optimum(family, data.to(torch.float64), masks)
    forms = [data] if family is LastLayer else [data, Moments.of_sample(data)]
    for given in forms:
        found = optimum(family, given, masks)
        certificate = certify(found.model, given, masks)
        assert found.gap >= -1e-12 * max(found.scale, 1e-300)
        assert found.bound <= exact.objective + 1e-9 * exact.scale + (dtype == torch.float32) * 1e-5 * exact.scale
        if family is not LastLayer:  # whose certificate is for every body, the bound of the optimum for this one
            close(certificate.gap, found.gap, 1e-9, scale=max(found.scale, 1e-300))
            assert certificate.certified == found.certified
            assert (certificate.reason is None) == (found.reason is None) == found.certified


def test_a_direction_that_moments_cannot_see_widens_the_bound():
    """y is the difference of two inputs that agree to 1e-9: the sample knows, its moments cannot, and say so."""
    first = normal(50, 1)
    data = Sample(torch.cat([first, first + 1e-9 * normal(50, 1, seed=3)], 1), normal(50, 1, seed=3))
    masks = Bernoulli(0.1, 2)
    known, unknown = optimum(TwoLayerLinear, data, masks), optimum(TwoLayerLinear, Moments.of_sample(data), masks)
    assert known.certified
    assert not unknown.certified
    assert unknown.bound <= known.objective


def test_float32_data_that_float32_cannot_decide_are_not_certified():
    data, masks = collinear(dtype=torch.float32), Bernoulli(0.1, 3)
    found = optimum(TwoLayerLinear, data, masks)
    exact = optimum(TwoLayerLinear, data.to(torch.float64), masks)
    assert found.bound <= exact.objective
    assert float(found.model.V.abs().max()) < 1e3  # no network on the rounding of the data
    assert found.certified == (found.gap <= 1e-9 * found.scale)


@pytest.mark.parametrize("kind", [name for name in FAMILIES if name != "head"])
def test_float32_moments_of_nearly_collinear_inputs_certify_nothing_below_their_rounding(kind):
    """The network that the examples have, in float64, is never below the bound that their float32 moments give."""
    family, masks = FAMILIES[kind]
    for seed in range(16):
        examples, beside = (5, 8, 30, 200)[seed % 4], (0.0, 1e-7, 1e-5, 1e-3, 1e-2)[seed % 5]
        units = 10 ** torch.linspace(-3, 3, 3)
        inputs = normal(examples, 3, seed=seed, dtype=torch.float32) * units
        last = (inputs / units).sum(1, keepdim=True)
        last = last + beside * normal(examples, 1, seed=seed + 50, dtype=torch.float32)
        data = Sample(torch.cat([inputs, last], 1), 3 * normal(examples, 3, seed=seed + 99, dtype=torch.float32))
        exact, found = optimum(family, data.to(torch.float64), masks), optimum(family, Moments.of_sample(data), masks)
        assert found.bound <= exact.objective


def test_float32_moments_that_decide_are_certified():
    inputs, targets = normal(60, 6, dtype=torch.float32), normal(60, 3, dtype=torch.float32)
    inputs[:, 5] = 0  # known to be nothing
    target = normal(4, 4, dtype=torch.float32)
    for data in (Moments.of_sample(Sample(inputs, targets)), Moments.of_map(target)):
        assert optimum(TwoLayerLinear, data, Bernoulli(0.3, 3)).certified
    tied = optimum(Autoencoder, Moments.of_map(target), Bernoulli(0.3, 3))
    exact = optimum(Autoencoder, Moments.of_map(target).to(torch.float64), Bernoulli(0.3, 3))
    assert tied.certified
    assert tied.bound <= exact.objective


@pytest.mark.parametrize("drop", [0.0, 1e-9])
def test_connections_of_a_width_below_the_rank(drop):
    data = sample()
    found = optimum(Connections, data, Bernoulli(drop, 8))
    plain = optimum(TwoLayerLinear, data, Bernoulli(0.0, 2))
    assert plain.objective * (1 - 1e-12) <= found.objective <= plain.objective * (1 + 1e3 * drop + 1e-12)
    assert found.gap <= (1e3 * drop + 1e-12) * found.scale
    assert certify(Connections(normal(3, 2), normal(4, 2)), data, Bernoulli(drop, 8)).bound >= plain.objective * (
        1 - 1e-8
    )


def zero_cases() -> list[tuple[type, object, Sample, MaskLaw]]:
    data = Sample(torch.zeros(5, 3).double(), normal(5, 3))
    U, V = normal(3, 4), normal(3, 4, seed=1)
    rates = torch.tensor([0.1, 0.2, 0.3, 0.4]).double()
    return [
        (TwoLayerLinear, TwoLayerLinear(U, V), data, Bernoulli(0.3, 4)),
        (TwoLayerLinear, TwoLayerLinear(U, V), data, Bernoulli(rates, 4)),
        (TwoLayerLinear, TwoLayerLinear(U, V), data, Block(0.3, 4, 2)),
        (Connections, Connections(U, V), data, Bernoulli(0.3, 12)),
        (DeepLinear, DeepLinear([V.mT, U]), data, Bernoulli(0.3, 4)),
        (Autoencoder, Autoencoder(U), data, Bernoulli(0.3, 4)),
    ]


@pytest.mark.parametrize(("family", "model", "data", "masks"), zero_cases())
def test_inputs_without_energy(family, model, data, masks):
    energy = float(data.targets.square().sum(1).mean())
    for given in (data, Moments.of_sample(data)):
        found = optimum(family, given, masks)
        assert found.certified
        assert found.rank == 0
        close(found.objective, energy, 1e-13)
        close(certify(model, given, masks).gap, 0.0, 1e-13, scale=energy)
        for function in (induced, envelope, imbalance):
            assert float(function(model, given, masks)) == 0.0
        if family is not DeepLinear:
            close(equalize(model, given, masks).matrix(), model.matrix(), 1e-13)
    general = optimum(TwoLayerLinear, data, SlidingBlock(0.3, 4, 2))
    assert general.certified


def test_a_bound_above_the_objective_is_refused_in_every_family(monkeypatch):
    deep = DeepLinear([normal(3, 4), normal(3, 3), normal(3, 3)])
    cases = [
        (TwoLayerLinear(normal(3, 3), normal(4, 3)), sample(), Bernoulli(0.3, 3)),
        (Connections(normal(3, 3), normal(4, 3)), sample(), Bernoulli(0.3, 12)),
        (deep, sample(), Product([Bernoulli(0.2, 3), Bernoulli(0.3, 3)])),
        (Autoencoder(normal(3, 3)), Moments.of_map(normal(3, 3)), Bernoulli(0.3, 3)),
        (
            optimal_head(LastLayer.of(torch.nn.Linear(4, 3).double()), sample(), Bernoulli(0.3, 4)).model,
            sample(),
            Bernoulli(0.3, 4),
        ),
        (Factorization(normal(3, 2), normal(4, 2)), every_entry(normal(3, 4)), Bernoulli(0.3, 2)),
    ]
    for model, data, masks in cases:
        assert certify(model, data, masks).gap >= 0
    rules = import_module("droptics.optima.optimum")
    monkeypatch.setattr(rules, "objective", lambda model, data, masks: -1.0)
    for model, data, masks in cases:
        with pytest.raises(CertificateError, match="more than rounding"):
            certify(model, data, masks)


def every_entry(matrix: torch.Tensor) -> Entries:
    rows, columns = torch.meshgrid(*(torch.arange(size) for size in matrix.shape), indexing="ij")
    return Entries(rows.flatten(), columns.flatten(), matrix.flatten(), tuple(matrix.shape))


def test_float32_certificates_are_computed_in_float64():
    """Targets far from zero: the criterion cancels in float32, and would fall below the bound."""
    for seed in range(20):
        inputs = normal(40, 3, seed=seed, dtype=torch.float32) + 100
        data = Sample(inputs, inputs @ normal(3, 2, seed=seed, dtype=torch.float32) * 1e3)
        found = optimum(TwoLayerLinear, data, Bernoulli(0.01, 3))
        assert found.gap >= 0
        assert certify(found.model, data, Bernoulli(0.01, 3)).gap >= 0


def test_enormous_rates_and_values_at_rounding():
    deep = DeepLinear([normal(4, 4), normal(3, 4)])
    assert certify(deep, sample(), Gaussian(4 * 9.1e15, 4)).gap > 0
    tiny = torch.diag(torch.tensor([1.0, 1.1e-16], dtype=torch.float64))
    for masks in (Bernoulli(0.0, 2), Bernoulli(torch.tensor([0.0, 1e-30]).double(), 2)):
        assert optimum(TwoLayerLinear, Moments.of_map(tiny), masks).rank == 1
        assert optimum_of_map(tiny, masks).rank == 1


@pytest.mark.parametrize("seed", range(3))
def test_the_search_under_any_law_ends_at_a_stationary_point(seed):
    """Alternating least squares alone creeps along flat valleys: the gradient says whether it has arrived."""
    atoms = normal(4, 6, seed=seed).abs() + 0.05
    masks = Discrete(atoms, torch.tensor([0.97, 0.01, 0.01, 0.01], dtype=torch.float64))
    target, law = normal(6, 6, seed=seed), masks.characteristic
    U, H, _, _ = alternate(target, law)
    U, H = U.requires_grad_(), H.requires_grad_()
    value = (target - U @ H.mT).square().sum() + (law * (U.mT @ U) * (H.mT @ H)).sum()
    slopes = torch.autograd.grad(value, (U, H))
    size = float(target.norm())
    assert float(torch.stack([part.norm() for part in slopes]).norm()) <= 1e-5 * size**1.5


@pytest.mark.parametrize("name", ["weighted", "plain", "nearly singular"])
def test_tall_samples_are_read_through_their_second_moment(name):
    inputs, targets = normal(400, 5), normal(400, 3) + normal(400, 5)[:, :3]
    if name == "nearly singular":
        inputs = torch.cat([inputs[:, :4], inputs[:, :1] + 1e-6 * inputs[:, 4:]], 1)
    weights = torch.linspace(0.1, 2, 400).double() if name == "weighted" else None
    data = Sample(inputs, targets, weights)
    white = whiten(data)
    root = (data.shares.sqrt()[:, None] * inputs).numpy(force=True)
    basis = torch.linalg.qr(torch.from_numpy(root)).Q
    loads = basis.mT @ (data.shares.sqrt()[:, None] * targets)
    close(torch.linalg.svdvals(white.target), torch.linalg.svdvals(loads), 1e-10)
    found = optimum(TwoLayerLinear, data, Bernoulli(0.2, 3))
    # a direction of relative size 1e-6 multiplies the rounding of a QR factorization by its weight, 1e6
    assert found.certified is True or (name == "nearly singular" and found.gap <= 1e-7 * found.scale)
    assert type(found.bound) is float
    close(found.objective, float(criterion(found.model, data, Bernoulli(0.2, 3))), 1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_tall_samples_without_noise_keep_small_objectives(weighted):
    """Only the penalty is left, 1e-10 of the targets: energies that cancel would leave 1e-16 of them instead."""
    inputs, masks = normal(400, 5), Bernoulli(1e-10, 4)
    data = Sample(inputs, inputs @ normal(5, 3), torch.linspace(0.1, 2, 400).double() if weighted else None)
    found = optimum(TwoLayerLinear, data, masks)
    assert found.certified
    close(found.objective / float(criterion(found.model, data, masks)), 1.0, 1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_weights_of_single_precision_are_certified_as_closely_as_those_of_double(family):
    """An optimum is stationary: weights off by 6e-8 move its criterion by squares of that."""
    kind, masks = FAMILIES[family]
    inputs = normal(60, 4)
    found = optimum(kind, Sample(inputs, inputs @ normal(4, 3) + normal(60, 3) / 10).to(torch.float32), masks)
    assert found.certified
    assert found.tolerance == 1e-9


def test_a_search_in_single_precision_is_held_to_its_bound():
    """A law without a closed form leaves a gap that rounding of weights does not explain."""
    inputs = 1e3 * normal(60, 4)
    data = Sample(torch.cat([inputs, 1e-3 * inputs[:, :1]], 1), inputs[:, :2] + normal(60, 2)).to(torch.float32)
    found = optimum(TwoLayerLinear, data, SlidingBlock(1e-4, 4, 2))
    assert 1e-9 * found.scale < found.gap < 1e-4 * found.scale
    assert not found.certified


class Largest(TorchDispatchMode):
    """The number of elements of the largest tensor that any operation returns."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        found = function(*args, **(kwargs or {}))
        sizes = [leaf.numel() for leaf in tree_leaves(found) if isinstance(leaf, torch.Tensor)]
        self.elements = max([self.elements, *sizes])
        return found


@pytest.mark.parametrize("singular", [False, True])
@pytest.mark.parametrize("kind", FAMILIES)
def test_tall_samples_need_no_square_of_the_number_of_examples(kind, singular):
    """Nothing is larger than the examples, or than a matrix of features and outputs."""
    family, masks = FAMILIES[kind]
    inputs = normal(2_000, 4)
    if singular:
        inputs[:, 3] = inputs[:, 0]
    data = Sample(inputs, normal(2_000, 3))
    with Largest() as largest:
        found = optimum(family, data, masks)
        if family is not LastLayer:
            certify(found.model, data, masks)
    assert largest.elements <= 2_000 * (4 + 3)


@pytest.mark.parametrize("law", laws(4))
def test_certificates_of_the_same_data_in_both_precisions(law):
    masks = laws(4)[law]
    data = sample().to(torch.float32)
    model = TwoLayerLinear(normal(3, 4, dtype=torch.float32), normal(4, 4, dtype=torch.float32))
    first, second = (
        certify(model, data, masks),
        certify(TwoLayerLinear(model.U.double(), model.V.double()), data.to(torch.float64), masks),
    )
    close(first.objective, second.objective, 1e-13)
    close(first.bound, second.bound, 1e-12)


def one_of_each() -> list[tuple[Model, Data, MaskLaw]]:
    """A network of every family that has a certificate, and data for it."""
    random = sample()
    return [
        *((TwoLayerLinear(normal(3, law.size), normal(4, law.size)), random, law) for law in laws(4).values()),
        (Connections(normal(3, 3), normal(4, 3)), random, Bernoulli(0.3, 12)),
        (DeepLinear([normal(3, 4), normal(3, 3)]), random, Product([Bernoulli(0.2, 3)])),
        (DeepLinear([normal(3, 4), normal(3, 3), normal(3, 3)]), random, FAMILIES["deep"][1]),
        (Autoencoder(normal(3, 3)), Moments.of_map(normal(3, 3)), Bernoulli(0.3, 3)),
        (Factorization(normal(3, 2), normal(4, 2)), every_entry(normal(3, 4)), Bernoulli(0.3, 2)),
        (LastLayer.of(torch.nn.Linear(4, 3).double()), random, Bernoulli(0.3, 4)),
    ]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_certificate_says_why_it_is_none_in_every_family(dtype):
    families = set()
    for model, data, masks in one_of_each():
        if dtype == torch.float32 and isinstance(model, LastLayer):
            continue
        given = data.to(dtype)
        mine = type(model)([part.to(dtype) for part in model.tensors]) if isinstance(model, DeepLinear) else model
        if not isinstance(model, (DeepLinear, LastLayer)):
            mine = type(model)(*(part.to(dtype) for part in model.tensors))
        certificate = certify(mine, given, masks)
        assert not certificate.certified
        assert "up to" in certificate.reason
        families.add(type(model))
        if isinstance(model, LastLayer):
            continue
        best = optimum(type(model), given, masks)
        again = certify(best.model, given, masks)
        assert again.certified == best.certified
        assert (again.reason is None) == again.certified == (best.reason is None)
        close(again.gap, best.gap, 1e-9, scale=best.scale)
        assert again.tolerance == best.tolerance
    assert len(families) == (5 if dtype == torch.float32 else 6)


def test_an_objective_below_the_bound_is_no_certificate():
    assert Certificate(1.0, 1.0 + 1e-10, "c").certified
    assert Certificate(1.0, 1.1, "c").reason == "the objective is below the bound by rounding of the data"
    # the size of what was added, not that of the objective, says what rounding is
    assert not Certificate(1e-12, 0.0, "c").certified
    assert Certificate(1e-12, 0.0, "c", scale=1.0).certified


@pytest.mark.parametrize("power", range(-51, -19, 3))
@pytest.mark.parametrize("kind", ["sample", "moments", "deep moments", "head", "blocks of a head"])
def test_a_direction_that_a_decomposition_cannot_see_is_not_taken_for_none(kind, power):
    """The targets are the difference of two inputs, 2^power of their size: weights of 2^-power reach them exactly."""
    inputs, step = normal(6, 1), normal(6, 1, seed=1).sign()
    inputs = torch.cat([inputs, inputs + 2.0**power * step], 1)
    difference = inputs[:, 1:] - inputs[:, :1]
    data = Sample(inputs, difference / difference.abs().max())
    rate = 2.0**-20 if kind == "sample" else 0.0
    law = Block(rate, 2, 2) if "blocks" in kind else Bernoulli(rate, 2)
    family = LastLayer if "head" in kind else DeepLinear if "deep" in kind else TwoLayerLinear
    found = optimum(family, Moments.of_sample(data) if "moments" in kind else data, law)
    # no error, and the penalty of two units that share the map; a head without masks has none
    reached = float(data.targets.square().mean()) * rate / (1 - rate) / 2
    assert found.bound <= reached + 1e-14
    assert not found.certified or found.objective <= reached * (1 + 1e-6) + 1e-9


@pytest.mark.parametrize("scale", [1.0, -8.0, 2.0**-30])
def test_inputs_that_repeat_others_are_known_to(scale):
    """Exact multiples add no direction, and the optimum stays certified; a rounded sum may add one."""
    inputs, targets = normal(30, 3), normal(30, 2, seed=1)
    twice = torch.cat([inputs, scale * inputs[:, 1:2], 0 * inputs[:, :1]], 1)
    masks = Bernoulli(0.3, 3)
    apart, found = (optimum(TwoLayerLinear, Sample(x, targets), masks) for x in (inputs, twice))
    assert apart.certified
    assert found.certified
    close(found.objective, apart.objective, 1e-12)
    assert not optimum(
        TwoLayerLinear, Sample(torch.cat([inputs, inputs.sum(1, True) / 3], 1), targets), masks
    ).certified
    few = optimum(TwoLayerLinear, Sample(normal(2, 5).repeat(3, 1), normal(6, 2)), masks)
    assert few.certified
