"""Equalized models: same map, least penalty; joint equalization, rescaling, rank-one networks."""

import pytest
import torch
from cases import normal, sample, singular_moments, weighted_sample
from compare import close
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics.data import Entries, Moments, Sample
from droptics.envelopes import envelope, induced
from droptics.equalization import (
    balance,
    equalize,
    gap_condition,
    imbalance,
    joint,
    joint_equalizer,
    order_gaps,
    rank_one_network,
    rescale,
)
from droptics.errors import CertificateError, NoClosedForm
from droptics.masks import Bernoulli, Block, Gaussian, Product, SlidingBlock
from droptics.models import Autoencoder, Connections, DeepLinear, Factorization, ReLUNet, TwoLayerLinear
from droptics.norms import nuclear
from droptics.penalties import penalty, sub_penalties


@pytest.mark.parametrize("width", [1, 2, 4, 9])
@pytest.mark.parametrize("data", [sample(), weighted_sample()], ids=["sample", "weighted"])
def test_two_layer(data, width):
    model = TwoLayerLinear(normal(3, width), normal(4, width))
    for masks in (
        Bernoulli(0.4, width),
        Bernoulli(torch.linspace(0.05, 0.9, width).double(), width),
        Gaussian(0.7, width),
    ):
        equal = equalize(model, data, masks)
        close(equal.matrix(), model.matrix(), relative=1e-11)
        value = float(penalty(equal, data, masks))
        assert value == pytest.approx(float(induced(model, data, masks)), rel=1e-11)
        assert value <= float(penalty(model, data, masks)) * (1 + 1e-12)
    assert float(imbalance(equalize(model, data, Bernoulli(0.4, width)), data, Bernoulli(0.4, width))) < 1e-11


def test_degenerate_maps():
    data, masks = sample(), Bernoulli(0.5, 3)
    dead = TwoLayerLinear(torch.tensor([[1.0, 0, 0]] * 3).double(), torch.tensor([[0.0, 1, 0]] * 4).double())
    assert float(imbalance(dead, data, masks)) == 0.0  # nothing contributes: zero over zero
    canceling = TwoLayerLinear(torch.ones(3, 2).double(), torch.tensor([[1.0, -1.0]] * 4).double())
    assert float(imbalance(canceling, data, Bernoulli(0.5, 2))) == float("inf")
    # the same where the envelope is exactly zero, and not only up to rounding
    apart = Moments(torch.eye(2).double(), torch.zeros(1, 2).double(), torch.ones(1, 1).double())
    exactly = TwoLayerLinear(torch.ones(1, 2).double(), torch.tensor([[1.0, -1.0], [2.0, -2.0]]).double())
    assert float(envelope(exactly, apart, Bernoulli(0.5, 2))) == 0.0
    assert float(imbalance(exactly, apart, Bernoulli(0.5, 2))) == float("inf")
    close(equalize(canceling, data, Bernoulli(0.5, 2)).matrix(), torch.zeros(3, 4), scale=1.0)
    rank_one = TwoLayerLinear(torch.outer(normal(3), normal(3)), torch.outer(normal(4), normal(3)))
    equal = equalize(rank_one, data, masks)
    close(equal.matrix(), rank_one.matrix())
    assert float(imbalance(equal, data, masks)) < 1e-10
    free = Bernoulli(0.0, 3)
    assert float(imbalance(rank_one, data, free)) == 0.0


def test_singular_inputs():
    data, masks = singular_moments(), Bernoulli(0.5, 3)
    model = TwoLayerLinear(normal(3, 3), normal(4, 3))
    # the map acts on directions without energy that the energetic part does not reach: an infimum, not a minimum
    with pytest.raises(NoClosedForm, match="infimum"):
        equalize(model, data, masks)
    reachable = TwoLayerLinear(model.U[:, :2], model.V[:, :2])
    equal = equalize(reachable, data, Bernoulli(0.5, 2))
    close(equal.matrix(), reachable.matrix(), relative=1e-9)
    assert float(imbalance(equal, data, Bernoulli(0.5, 2))) < 1e-9


def test_tied():
    data = Moments.of_map(torch.zeros(4, 4).double())
    model = Autoencoder(normal(4, 6))
    for masks in (Bernoulli(0.3, 6), Bernoulli(torch.linspace(0.1, 0.9, 6).double(), 6)):
        equal = equalize(model, data, masks)
        close(equal.matrix(), model.matrix(), relative=1e-12)
        assert float(penalty(equal, data, masks)) == pytest.approx(float(induced(model, data, masks)), rel=1e-12)
    batch = Autoencoder(normal(3, 4, 6))
    equal = equalize(batch, data, Bernoulli(0.3, 6))
    close(imbalance(equal, data, Bernoulli(0.3, 6)), torch.zeros(3), scale=1.0, relative=1e-12)
    with pytest.raises(NoClosedForm, match="isotropic"):
        equalize(model, sample(outputs=4), Bernoulli(0.3, 6))


def test_factorization():
    grid = torch.cartesian_prod(torch.arange(5), torch.arange(4))
    data = Entries(grid[:, 0], grid[:, 1], normal(20), (5, 4))
    model, masks = Factorization(normal(5, 3), normal(4, 3)), Bernoulli(0.4, 3)
    equal = equalize(model, data, masks)
    assert isinstance(equal, Factorization)
    close(equal.matrix(), model.matrix(), relative=1e-12)
    assert float(imbalance(equal, data, masks)) < 1e-12


def test_connections():
    data, model = sample(), Connections(normal(3, 5), normal(4, 5))
    masks = Bernoulli(0.4, 20)
    equal = equalize(model, data, masks)
    close(equal.matrix(), model.matrix(), relative=1e-11)
    floor = float(induced(model, data, masks))
    assert float(penalty(equal, data, masks)) == pytest.approx(floor, rel=1e-11)
    # (lambda / width) ||B diag(E x_i^2)^(1/2)||_*^2
    scale = Moments.of_sample(data).xx.diagonal().sqrt()
    close(floor, 0.4 / 0.6 / 5 * nuclear(model.matrix() * scale) ** 2)
    assert float(penalty(model, data, masks)) > floor
    with pytest.raises(NoClosedForm, match="one rate"):
        induced(model, data, Bernoulli(torch.linspace(0.1, 0.5, 20).double(), 20))


@pytest.mark.parametrize(("block", "blocks", "rank"), [(2, 4, 4), (3, 8, 5), (4, 2, 4), (2, 8, 6), (3, 1, 3)])
def test_balanced_blocks(block, blocks, rank):
    width = block * blocks
    map_left, map_right = normal(7, rank), normal(6, rank)
    padded = torch.zeros(7, width).double(), torch.zeros(6, width).double()
    padded[0][:, : min(rank, width)], padded[1][:, : min(rank, width)] = map_left, map_right
    model = TwoLayerLinear(*padded)
    data, masks = Moments.of_map(torch.zeros(7, 6).double()), Block(0.3, width, block)
    equal = equalize(model, data, masks)
    close(equal.matrix(), model.matrix(), relative=1e-11)
    assert float(penalty(equal, data, masks)) == pytest.approx(float(envelope(model, data, masks)), rel=1e-10)


def test_refusals():
    model, data = TwoLayerLinear(normal(3, 6), normal(4, 6)), sample()
    with pytest.raises(NoClosedForm, match="SlidingBlock"):
        equalize(model, data, SlidingBlock(0.2, 6, 2))
    with pytest.raises(NoClosedForm, match="blocks"):
        equalize(model, data, Block(0.2, 6, 2))
    with pytest.raises(ValueError, match="batch"):
        equalize(TwoLayerLinear(normal(2, 3, 6), normal(2, 4, 6)), data, Bernoulli(0.5, 6))


@given(st.integers(1, 8), st.integers(0, 10**6))
@settings(max_examples=25, deadline=None)
def test_weak_joint_equalization_always_exists(width, seed):
    U, V = normal(5, width, seed=seed), normal(4, width, seed=seed + 1)
    if seed % 3 == 0 and width > 1:
        V[:, 0] = 0.0
    rotation = joint_equalizer(U, V, seed=seed)
    close(rotation.mT @ rotation, torch.eye(width).double(), relative=1e-12)
    assert float(torch.linalg.det(rotation)) > 0, "a rotation, no reflection"
    products = (U @ rotation).norm(dim=0) * (V @ rotation).norm(dim=0)
    close(products, products.mean().expand(width), relative=1e-10)


def test_long_columns_are_jointly_equalized_as_short_ones():
    U, V = normal(200, 6, seed=1), normal(300, 6, seed=2)
    rotation = joint_equalizer(U, V)
    products = (U @ rotation).norm(dim=0) * (V @ rotation).norm(dim=0)
    close(products, products.mean().expand(6), relative=1e-10)


def test_weak_is_not_strong():
    U, V = torch.eye(2).double(), torch.diag(torch.tensor([1.0, 0.0]).double())
    rotation = joint_equalizer(U, V)
    products = (U @ rotation).norm(dim=0) * (V @ rotation).norm(dim=0)
    close(products, [2**-0.5, 2**-0.5])
    assert float(nuclear(U @ V.mT)) / 2 == pytest.approx(0.5)  # what the strong sense would need
    data, masks = Moments.of_map(torch.zeros(2, 2).double()), Bernoulli(0.5, 2)
    strong = equalize(TwoLayerLinear(U, V), data, masks)
    close(strong.U.norm(dim=0) * strong.V.norm(dim=0), [0.5, 0.5])


def test_rescaling_keeps_map_and_penalty():
    data = sample()
    model, scales = TwoLayerLinear(normal(3, 4), normal(4, 4)), torch.tensor([2.0, -1.0, 1e-3, 7.0]).double()
    moved = rescale(model, scales)
    close(moved.matrix(), model.matrix())
    masks = SlidingBlock(0.2, 4, 2)
    close(float(penalty(moved, data, masks)), float(penalty(model, data, masks)))
    deep = DeepLinear([normal(3, 4), normal(2, 3), normal(3, 2)])
    law = Product([Bernoulli(0.3, 3), Bernoulli(0.6, 2)])
    turned = rescale(deep, [normal(3), normal(2)])
    close(turned.matrix(), deep.matrix())
    close(sub_penalties(turned, data, law), sub_penalties(deep, data, law))
    network = ReLUNet([normal(3, 4), normal(2, 3), normal(3, 2)], [normal(3), None, normal(3)])
    other = rescale(network, [torch.tensor([2.0, 0.1, 7.0]).double(), torch.tensor([3.0, 0.5]).double()])
    mask = (normal(9, seed=4) > 0).double() * 2
    close(other.outputs(data.inputs, mask), network.outputs(data.inputs, mask))
    assert not torch.equal(other.biases[0], network.biases[0])
    with pytest.raises(ValueError, match="positive for ReLUNet"):
        rescale(network, [-torch.ones(3).double(), torch.ones(2).double()])
    with pytest.raises(ValueError, match="zeros"):
        rescale(model, torch.zeros(4).double())
    with pytest.raises(ValueError, match="scales"):
        rescale(deep, [normal(3)])


def test_balance():
    data = sample()
    model = TwoLayerLinear(normal(3, 4), normal(4, 4))
    model.U[:, 1] = 0.0
    even = balance(model, data)
    close(even.matrix(), model.matrix())
    xx = Moments.of_sample(data).xx
    close(even.U.square().sum(0), (even.V * (xx @ even.V)).sum(0))


def test_balance_weighs_rows_and_columns_by_how_often_they_are_seen():
    """Sums of a few dozen products: 1e-12 is thousands of roundings."""
    pairs = torch.tensor(
        [(i, j) for i in range(3) for j in range(4) for _ in range((1 + 2 * (i == 1)) * (1 + (j > 1)))]
    )
    rows, columns = pairs.mT
    data = Entries(rows, columns, normal(len(pairs)), (3, 4))
    p, q = (torch.bincount(part).double() / len(pairs) for part in (rows, columns))
    model = Factorization(normal(3, 5), normal(4, 5))
    even = balance(model, data)
    close(even.matrix(), model.matrix(), 1e-12)
    close((p[:, None] * even.U.square()).sum(0), (q[:, None] * even.V.square()).sum(0), 1e-12)


@pytest.mark.parametrize("left", [2.0**-10, 2.0**-20, 2.0**-27])
def test_maps_that_nearly_cancel_are_far_from_equalized(left):
    """Nodes of norm one whose map is -left, all of it exact: penalty and envelope are off by a few roundings each."""
    model = TwoLayerLinear(torch.tensor([[1.0, -1.0]]).double(), torch.tensor([[1.0, 1.0 + left]], dtype=torch.float64))
    data = Moments.of_map(torch.ones(1, 1).double())
    wanted = 2 * (1 + (1 + left) ** 2) / left**2 - 1
    close(imbalance(model, data, Bernoulli(0.3, 2)), wanted, 1e-13)


def test_balance_takes_nodes_away_that_lack_either_side():
    model = TwoLayerLinear(normal(3, 4), normal(4, 4))
    model.U[:, 1], model.V[:, 2] = 0.0, 0.0
    even = balance(model, sample())
    assert not bool(even.U[:, 1:3].any())
    assert not bool(even.V[:, 1:3].any())
    close(even.matrix(), model.matrix(), 1e-12)


def test_deep_networks_that_cannot_be_equalized_are_refused():
    layers, masked = [normal(5, 4), normal(3, 5)], Product([Bernoulli(0.3, 4), Bernoulli(0.3, 5)])
    for model, data, law, words in (
        (DeepLinear(layers, mask_inputs=True), sample(), masked, "without masks on its inputs"),
        (DeepLinear([torch.stack(2 * [part]) for part in layers]), sample(), Bernoulli(0.3, 5), "one DeepLinear model"),
        (DeepLinear(layers), singular_moments(), Bernoulli(0.3, 5), "second moment of the inputs is singular"),
    ):
        with pytest.raises(NoClosedForm, match=words):
            equalize(model, data, law)
    tied = Autoencoder(normal(2, 4, 5))
    flat = Moments(torch.eye(4).double(), normal(4, 4), 30 * torch.eye(4).double())
    with pytest.raises(ValueError, match="got a batch; equalize its members alone"):
        equalize(tied, flat, Bernoulli(torch.tensor([0.1, 0.2, 0.3, 0.4, 0.5]).double(), 5))


def test_rows_that_do_not_meet_have_products_of_zero():
    rows, others = torch.linalg.qr(normal(6, 6)).Q.split([2, 4])
    U, V = normal(3, 2) @ rows, normal(5, 4) @ others
    turn = joint_equalizer(U, V)
    assert float(torch.linalg.det(turn)) > 0, "a rotation, no reflection"
    close(turn.mT @ turn, torch.eye(6).double(), 1e-13)
    size = float(torch.linalg.matrix_norm(U) * torch.linalg.matrix_norm(V))
    products = torch.linalg.vector_norm(U @ turn, dim=0) * torch.linalg.vector_norm(V @ turn, dim=0)
    close(products, torch.zeros(6), 1e-13, size)  # one side of each is rounding of an orthogonal factor


def test_balance_keeps_what_acts_on_inputs_without_energy():
    ones, identity = torch.ones(1, 2).double(), torch.eye(2).double()
    data = Moments(torch.diag(torch.tensor([1.0, 0.0]).double()), torch.zeros(1, 2).double(), torch.eye(1).double())
    close(balance(TwoLayerLinear(ones, 4 * identity), data).matrix(), 4 * ones)
    # the same in a basis where rounding hides that there is no energy
    model = TwoLayerLinear(normal(3, 4), normal(4, 4))
    moments = singular_moments()
    model.V[:, 0] = torch.linalg.eigh(moments.xx).eigenvectors[:, 0]
    even = balance(model, moments)
    close(even.matrix(), model.matrix(), 1e-13)
    assert torch.equal(even.V[:, 0], model.V[:, 0])


def test_equalize_keeps_the_map_on_singular_inputs():
    """Beyond rounding a map that acts where there is no energy is refused, not changed."""
    data, masks = singular_moments(), Bernoulli(0.4, 4)
    vectors = torch.linalg.eigh(data.xx).eigenvectors
    inside = vectors[:, 2:] @ normal(2, 4)
    for size, reachable in ((0.0, True), (1e-7, False)):
        V = inside + size * float(inside.abs().max()) * vectors[:, :1]
        model = TwoLayerLinear(normal(3, 4), V)
        if reachable:
            close(equalize(model, data, masks).matrix(), model.matrix(), 1e-13)
        else:
            with pytest.raises(NoClosedForm, match="directions without energy"):
                equalize(model, data, masks)


@pytest.mark.parametrize("widths", [(3,), (2, 5), (4, 1, 3)])
def test_rank_one_networks_are_equalized(widths):
    data = sample()
    network = rank_one_network(normal(3), normal(4), widths)
    close(network.matrix(), torch.outer(normal(3), normal(4)))
    masks = Product([Bernoulli(0.2 + 0.1 * i, width) for i, width in enumerate(widths)])
    assert float(imbalance(network, data, masks)) < 1e-12
    with pytest.raises(ValueError, match="widths"):
        rank_one_network(normal(3), normal(4), ())


def test_nothing_to_equalize_and_no_rotation_found(monkeypatch):
    zero = torch.zeros(3, 4, dtype=torch.float64)
    rotation = joint_equalizer(zero, normal(5, 4))
    close(rotation.mT @ rotation, torch.eye(4, dtype=torch.float64), 1e-13)
    monkeypatch.setattr(joint, "_solve", lambda U, V, rotation: (rotation, 0.25))
    with pytest.raises(CertificateError, match=r"products still differ by 0\.25 relatively; try a seed"):
        joint_equalizer(normal(3, 4), normal(5, 4))


@pytest.mark.parametrize("width", [3, 9])
def test_a_few_steps_from_one_start_are_enough(width, monkeypatch):
    """Gauss-Newton steps near a solution square the error: pairs in general position take less than ten, each one
    matrix exponential, and no second start.
    """
    steps, decompose = [], torch.linalg.matrix_exp
    monkeypatch.setattr(torch.linalg, "matrix_exp", lambda theta: steps.append(theta) or decompose(theta))
    for seed in range(5):
        joint_equalizer(normal(5, width, seed=seed), normal(4, width, seed=seed + 1000), seed=seed)
    assert 5 <= len(steps) <= 5 * 20


@pytest.mark.parametrize("weights", [None, [1.0, 0.0, 2.0, 1.0]])
def test_gaps_of_inputs_whose_squares_underflow_are_refused(weights):
    """Passed over, their gap would hold for want of a spectrum and every order would be nan."""
    shares = None if weights is None else torch.tensor(weights, dtype=torch.float64)
    tiny, law = Sample(1e-170 * normal(4, 2, seed=1), normal(4, 2, seed=2), shares), Bernoulli(0.5, 3)
    model = DeepLinear([normal(3, 2, seed=3), normal(2, 3, seed=4)])
    with pytest.raises(ValueError, match="mean squares of at least"):
        gap_condition(tiny, law)
    with pytest.raises(ValueError, match="mean squares of at least"):
        order_gaps(model, tiny, law)


def test_gaps_by_order_and_the_gap_condition():
    widths, drop = (3, 4), 0.3
    law = Product([Bernoulli(drop, width) for width in widths])
    u, v = normal(2, seed=1), normal(3, seed=2)
    data = Moments.of_map(torch.outer(u, v))
    assert order_gaps(rank_one_network(u, v, widths), data, law).abs().max() < 1e-12
    model = DeepLinear([normal(b, a, seed=a + b) for a, b in ((3, 3), (3, 4), (4, 2))])
    lam = drop / (1 - drop)
    size = torch.linalg.svdvals(model.matrix()).sum() ** 2
    floors = torch.tensor([lam * (1 / 3 + 1 / 4), lam**2 / 12], dtype=torch.float64) * size
    assert torch.allclose(order_gaps(model, data, law), sub_penalties(model, data, law) / floors - 1, rtol=1e-12)
    nu = (1 + lam / 3) * (1 + lam / 4) - 1
    for second, holds in ((0.99 * nu / (1 + nu), True), (1.01 * nu / (1 + nu), False)):
        spectrum = torch.tensor([1.0, second], dtype=torch.float64)
        found = gap_condition(Moments.of_map(torch.diag(spectrum)), law)
        assert found.holds is holds
        assert abs(found.strength - nu) < 1e-12
    with pytest.raises(ValueError, match="one rate per hidden layer"):
        gap_condition(data, Block(0.5, 4, 2))
    nothing = gap_condition(Sample(torch.zeros(3, 2).double(), torch.zeros(3, 2).double()), law)
    assert (nothing.first, nothing.second, nothing.holds) == (0.0, 0.0, True)


@pytest.mark.parametrize("power", [-40, -30, 40])
def test_gaps_do_not_depend_on_units(power):
    """One feature in other units: neither the condition nor the gaps may change, and the first may not flip."""
    units = torch.tensor([1.0, 2.0**power, 1.0], dtype=torch.float64)
    inputs, targets = normal(30, 3), normal(30, 2, seed=1)
    weights, law = [normal(4, 3), normal(3, 4), normal(2, 3)], Product([Bernoulli(0.2, 4), Bernoulli(0.3, 3)])
    plain, moved = Sample(inputs, targets), Sample(inputs * units, targets)
    other = DeepLinear([weights[0] / units, *weights[1:]])
    wanted = order_gaps(DeepLinear(weights), plain, law)
    for data in (moved, Moments.of_sample(moved)):
        found = gap_condition(data, law)
        values = torch.tensor([found.first, found.second], dtype=torch.float64)
        close(values, torch.linalg.svdvals(white_target(plain))[:2], 1e-12)
        close(order_gaps(other, data, law), wanted, 1e-12)


def white_target(data: Sample) -> torch.Tensor:
    """E[y x^T] C^(-1/2) up to a rotation: through an orthonormal basis of the examples."""
    return data.targets.mT @ torch.linalg.qr(data.inputs).Q / len(data) ** 0.5


def test_factors_without_rows_are_equal_as_they_are():
    assert torch.equal(joint_equalizer(torch.zeros(0, 3), torch.ones(2, 3)), torch.eye(3))


def test_two_factors_that_are_zero_have_a_rotation():
    """All products are zero under any rotation, and one comes back."""
    rotation = joint_equalizer(torch.zeros(3, 4).double(), torch.zeros(5, 4).double())
    close(rotation.mT @ rotation, torch.eye(4).double(), 1e-13)


@pytest.mark.parametrize(("large", "small"), [(2.0**700, 2.0**-700), (2.0**-700, 2.0**-700), (2.0**700, 2.0**700)])
def test_factors_whose_squares_overflow_or_vanish_are_equalized(large, small):
    """Powers of two change all products alike, so the rotation has to equalize the factors without them."""
    U, V = normal(5, 4, seed=1), normal(3, 4, seed=2)
    rotation = joint_equalizer(large * U, small * V)
    close(rotation.mT @ rotation, torch.eye(4).double(), 1e-12)
    products = (U @ rotation).norm(dim=0) * (V @ rotation).norm(dim=0)
    close(products, products.mean().expand(4), 1e-10)


def test_what_units_do_not_reach_on_silent_inputs_is_refused():
    """One input without energy, on which a map of rank one beside leaves its range."""
    energies = torch.tensor([4.0, 1.0, 0.0], dtype=torch.float64)
    data = Moments(torch.diag(energies), normal(3, 3) * (energies > 0), 90 * torch.eye(3).double())
    U, V = torch.outer(normal(3), normal(4)), normal(3, 4)
    level = equalize(TwoLayerLinear(U, V), data, Bernoulli(0.4, 4))
    close(level.matrix(), U @ V.mT, 1e-12)
    U[:, 3], V[:, 3] = normal(3, seed=1), torch.tensor([0.0, 0.0, 1.5])
    with pytest.raises(NoClosedForm, match="an infimum that no network attains"):
        equalize(TwoLayerLinear(U, V), data, Bernoulli(0.4, 4))


def test_balanced_networks_keep_their_precision():
    model = TwoLayerLinear(normal(3, 4).float(), normal(4, 4, seed=1).float())
    assert balance(model, Moments.of_map(normal(3, 4).float())).dtype == torch.float32
