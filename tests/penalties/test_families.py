"""Families that somebody derives or writes anew, beside what they are derived from and sums over all masks."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from cases import normal, sample, weighted_sample
from compare import close
from torch import Tensor, nn

from droptics.data import Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.equalization import equalize
from droptics.errors import NoClosedForm
from droptics.losses import CrossEntropy
from droptics.masks import Bernoulli, Block
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
from droptics.penalties import (
    Certified,
    Enumerate,
    best_method,
    is_linear_in_masks,
    penalty,
    unit_energies,
    unit_gram,
)

HEAD = nn.Linear(4, 3).double()
ALL_FAMILIES = [
    (TwoLayerLinear(normal(3, 5), normal(4, 5)), True),
    (Autoencoder(normal(4, 5)), True),
    (Connections(normal(3, 5), normal(4, 5)), True),
    (Factorization(normal(3, 5), normal(4, 5)), True),
    (LastLayer(HEAD, HEAD), True),
    (DeepLinear([normal(5, 4), normal(3, 5)]), False),
    (ReLUNet([normal(5, 4), normal(3, 5)]), False),
]


@dataclass(frozen=True, eq=False)
class Squares(Model):
    """sum_j z_j <w_j, x>^2, of which nothing is stated."""

    weights: Tensor

    @property
    def units(self) -> int:
        return self.weights.shape[-1]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return (self.weights,)

    def outputs(self, inputs: Tensor, multipliers: Tensor | None = None) -> Tensor:
        values = (inputs @ self.weights).square()
        return (values if multipliers is None else values * multipliers).sum(-1, keepdim=True)


@pytest.mark.parametrize(("model", "linear"), ALL_FAMILIES, ids=lambda part: type(part).__name__)
def test_derived_families_are_as_linear_as_those_they_derive_from(model, linear):
    assert is_linear_in_masks(model) is linear
    derived = object.__new__(type("Derived", (type(model),), {}))
    vars(derived).update(vars(model))
    assert is_linear_in_masks(derived) is linear


def test_a_derived_family_has_the_methods_and_answers_of_its_base():
    class Derived(TwoLayerLinear):
        pass

    U, V = normal(3, 20), normal(4, 20)
    labels = Sample(normal(6, 4), torch.arange(6) % 3)
    assert best_method(Derived(U, V), labels, Bernoulli(0.3, 20), CrossEntropy()) == Certified()
    for answer in (penalty, induced, envelope):
        mine, plain = (answer(family(U, V), sample(), Bernoulli(0.3, 20)) for family in (Derived, TwoLayerLinear))
        assert torch.equal(mine.value, plain.value)


@pytest.mark.parametrize("data", [sample(), weighted_sample(), Moments.of_sample(weighted_sample())])
def test_gram_matrices_of_units_are_sums_over_examples_signs_included(data):
    """Sums of a few dozen products of numbers up to ten: 1e-12 of the largest is thousands of roundings."""
    U, V = normal(2, 3, 5), normal(2, 4, 5)
    known = weighted_sample() if isinstance(data, Moments) else data
    parts = torch.einsum("ni,bij,boj->bnoj", known.inputs, V, U)
    wanted = torch.einsum("n,bnoi,bnoj->bij", known.shares, parts, parts)
    assert bool((wanted < 0).any())
    found = unit_gram(TwoLayerLinear(U, V), data)
    close(found, wanted, relative=1e-12)
    close(unit_energies(TwoLayerLinear(U, V), data), torch.einsum("bii->bi", wanted), relative=1e-12)
    law = Block(0.3, 5, 5)
    close(penalty(TwoLayerLinear(U, V), data, law).value, 0.3 / 0.7 * wanted.sum((1, 2)), relative=1e-12)


def test_gram_matrices_of_units_have_derivatives():
    """Products of two matrices, each by its rule: 1e-12 of the largest slope is thousands of roundings."""
    data, U, V, ways = weighted_sample(), normal(3, 5).requires_grad_(), normal(4, 5), normal(5, 5)
    moved = (data.shares[:, None] * (data.inputs @ V)).mT @ (data.inputs @ V)
    (found,) = torch.autograd.grad((ways * unit_gram(TwoLayerLinear(U, V), data)).sum(), U)
    half = (ways * moved) @ U.mT.detach()
    other = (ways * moved).mT @ U.mT.detach()
    close(found, (half + other).mT, relative=1e-12)
    (found,) = torch.autograd.grad((ways[0] * unit_energies(TwoLayerLinear(U, V), data)).sum(), U)
    close(found, 2 * U * ways[0] * moved.diagonal(), relative=1e-12)


def test_a_family_that_states_nothing_is_enumerated_and_has_no_least_penalty():
    model, law = Squares(normal(4, 3)), Bernoulli(torch.tensor([0.1, 0.4, 0.6]).double(), 3)
    data = weighted_sample()
    data = Sample(data.inputs, data.targets[:, :1], data.weights)
    assert best_method(model, data, law) == Enumerate()
    energies = data.shares @ (data.inputs @ model.weights).square().square()
    close(penalty(model, data, law, Enumerate()).value, law.relative_variance @ energies, relative=1e-12)
    for answer, words in (
        (penalty, "outputs of Squares are not known to be linear"),
        (induced, "induced penalty of Squares is not known"),
        (envelope, "convex envelope of Squares is not known"),
        (equalize, "no equalized network is known for Squares"),
    ):
        with pytest.raises(NoClosedForm, match=words):
            answer(model, data, law)
