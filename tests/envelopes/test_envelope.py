"""Induced penalties and envelopes: below every factorization of the map, convex, attained, differentiable."""

import pytest
import torch
from cases import entries, linear_pairs, normal, sample, singular_moments, weighted_sample
from compare import close
from scipy.optimize import minimize

from droptics.data import Entries, Moments
from droptics.envelopes import envelope, induced
from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli, Block, Gaussian, SlidingBlock
from droptics.models import Autoencoder, Connections, Factorization, LastLayer, ReLUNet, TwoLayerLinear
from droptics.norms import weighted_trace
from droptics.penalties import penalty, risk
from droptics.spectra.coordinates import whiten


def grid(rows, columns, counts):
    index = [(i, j) for i in range(rows) for j in range(columns) for _ in range(int(counts[i, j]))]
    i, j = torch.tensor(index).T
    return Entries(i, j, normal(len(index)), (rows, columns))


@pytest.mark.parametrize("data", [sample(), weighted_sample(), singular_moments()])
def test_white_coordinates_measure_risk_and_penalty(data):
    white = whiten(data)
    model = TwoLayerLinear(normal(3, 5), normal(4, 5))
    U, H = white.left.down(model.U), white.right.down(model.V)
    close(risk(model, data), white.constant + (white.target - U @ H.mT).square().sum(), relative=1e-11)
    masks = SlidingBlock(0.2, 5, 2)
    expected = (masks.characteristic * (U.mT @ U) * (H.mT @ H)).sum()
    close(float(penalty(model, data, masks)), expected, relative=1e-11)
    close(white.right.down(white.right.up(H)), H, relative=1e-11)


@pytest.mark.parametrize(
    "masks",
    [Bernoulli(0.4, 3), Bernoulli(torch.tensor([0.1, 0.9, 0.5]).double(), 3), Gaussian(2.0, 3)],
    ids=["equal", "unequal", "gaussian"],
)
@pytest.mark.parametrize("data", [sample(), singular_moments()], ids=["sample", "singular"])
def test_order_of_penalty_induced_envelope(data, masks):
    for seed in range(30):
        model = TwoLayerLinear(normal(3, 3, seed=seed), normal(4, 3, seed=seed + 1))
        above, floor, below = (float(question(model, data, masks)) for question in (penalty, induced, envelope))
        assert above * (1 + 1e-12) >= floor >= below * (1 - 1e-12)


@pytest.mark.parametrize("rates", [[0.3, 0.3, 0.3], [0.05, 0.9, 0.9], [0.0, 0.5, 0.8]])
def test_induced_is_reached_by_direct_minimization(rates):
    # all factorizations of a rank-two map of width three: U G, V G^-T with extra columns from the null space
    masks = Bernoulli(torch.tensor(rates, dtype=torch.float64), 3)
    data = Moments.of_map(torch.zeros(3, 4).double())
    model = TwoLayerLinear(normal(3, 3), normal(4, 3))
    floor = float(induced(model, data, masks))

    def value(flat):
        G = torch.from_numpy(flat).reshape(3, 3).requires_grad_()
        turned = TwoLayerLinear(model.U @ G, model.V @ torch.linalg.inv(G).mT)
        loss = penalty(turned, data, masks).value
        return float(loss.detach()), torch.autograd.grad(loss, G)[0].flatten().numpy()

    reached = min(
        minimize(value, normal(9, seed=seed).numpy(), jac=True, method="BFGS", options={"maxiter": 500}).fun
        for seed in range(5)
    )
    assert floor * (1 - 1e-9) <= reached <= floor * (1 + 1e-5)


def test_equal_rates_are_nuclear_norms():
    model = TwoLayerLinear(normal(3, 5), normal(4, 5))
    data = Moments.of_map(torch.zeros(3, 4).double())
    nuclear = torch.linalg.svdvals(model.matrix()).sum()
    close(float(envelope(model, data, Bernoulli(0.5, 5))), nuclear**2 / 5)
    close(float(induced(model, data, Bernoulli(0.5, 5))), nuclear**2 / 5)
    # a unit that is never dropped makes the envelope vanish, not the induced penalty
    free = Bernoulli(torch.tensor([0.0, 0.5, 0.5, 0.5, 0.5]).double(), 5)
    assert float(envelope(model, data, free)) == 0.0
    assert float(induced(model, data, free)) > 0.1


def test_envelope_is_convex_along_lines():
    data = sample()
    for masks in (Bernoulli(0.4, 4), Block(0.4, 4, 2)):
        first, second = normal(3, 4), normal(3, 4, seed=5)
        eye = torch.eye(4).double()
        values = [float(envelope(TwoLayerLinear(torch.lerp(first, second, t), eye), data, masks)) for t in (0, 0.5, 1)]
        assert values[1] <= (values[0] + values[2]) / 2 + 1e-12


def test_blocks():
    data = Moments.of_map(torch.zeros(3, 4).double())
    wide = TwoLayerLinear(normal(3, 8), normal(4, 8))
    close(float(induced(wide, data, Block(0.3, 8, 2))), float(envelope(wide, data, Block(0.3, 8, 2))))
    with pytest.raises(NoClosedForm, match="blocks"):
        induced(
            TwoLayerLinear(normal(6, 8), normal(6, 8)), Moments.of_map(torch.zeros(6, 6).double()), Block(0.3, 8, 4)
        )
    unequal = Block(torch.tensor([0.1, 0.5, 0.5, 0.2]).double(), 8, 2)
    assert float(envelope(wide, data, unequal)) <= float(penalty(wide, data, unequal))


def test_a_batch_under_blocks_needs_what_its_most_demanding_member_does():
    thin, even = (normal(3, 2) @ normal(2, 4, seed=1), normal(5, 4, seed=2)), (torch.eye(3, 4), torch.eye(5, 4))
    law, data = Block(0.3, 4, 2), Moments.of_map(normal(3, 5))
    energy = (thin[0] @ thin[1].mT).square().sum()
    for pairs, known in ((thin, thin), True), ((thin, even), False), ((even, thin), False):
        model = TwoLayerLinear(*(torch.stack(parts).double() for parts in zip(*pairs, strict=True)))
        if known:
            close(induced(model, data, law).value, 0.3 / 0.7 / 2 * energy.repeat(2), relative=1e-10)
        else:
            with pytest.raises(NoClosedForm, match="at least 3"):
                induced(model, data, law)


def test_tied():
    isotropic = Moments.of_map(torch.zeros(4, 4).double())
    model = Autoencoder(normal(4, 3))
    close(float(envelope(model, isotropic, Bernoulli(0.5, 3))), model.U.square().sum().square() / 3)
    unequal = Bernoulli(torch.tensor([0.1, 0.9, 0.5]).double(), 3)
    above, floor = penalty(model, isotropic, unequal), induced(model, isotropic, unequal)
    assert float(above) >= float(floor) >= float(envelope(model, isotropic, unequal))
    for question in (induced, envelope):
        with pytest.raises(NoClosedForm, match="isotropic"):
            question(model, sample(outputs=4), Bernoulli(0.5, 3))
    with pytest.raises(NoClosedForm, match="tied"):
        induced(Autoencoder(normal(4, 4)), isotropic, Block(0.5, 4, 2))


def test_factorization_with_product_sampling():
    counts = torch.outer(torch.tensor([1, 2, 3]), torch.tensor([2, 1, 1, 3]))
    data = grid(3, 4, counts)
    model = Factorization(normal(3, 5), normal(4, 5))
    p, q = torch.tensor([1.0, 2, 3]).double() / 6, torch.tensor([2.0, 1, 1, 3]).double() / 7
    close(float(envelope(model, data, Bernoulli(0.5, 5))), weighted_trace(model.matrix(), p, q) ** 2 / 5)
    assert float(penalty(model, data, Bernoulli(0.5, 5))) >= float(envelope(model, data, Bernoulli(0.5, 5)))
    with pytest.raises(NoClosedForm, match="product"):
        envelope(Factorization(normal(6, 2), normal(5, 2)), entries(), Bernoulli(0.5, 2))


@pytest.mark.parametrize("rates", [[0.4, 0.4, 0.4], [0.1, 0.9, 0.5]])
def test_gradients(rates):
    masks = Bernoulli(torch.tensor(rates, dtype=torch.float64), 3)
    data = sample()
    U, V = normal(3, 3).requires_grad_(), normal(4, 3).requires_grad_()
    for question in (induced, envelope):
        assert torch.autograd.gradcheck(lambda U, V: question(TwoLayerLinear(U, V), data, masks).value, (U, V))  # noqa: B023


def test_batches_and_float32():
    data = sample()
    U, V = normal(2, 3, 3), normal(2, 4, 3)
    for masks in (Bernoulli(0.4, 3), Bernoulli(torch.tensor([0.1, 0.9, 0.5]).double(), 3)):
        both = induced(TwoLayerLinear(U, V), data, masks).value
        close(both, torch.stack([induced(TwoLayerLinear(U[i], V[i]), data, masks).value for i in range(2)]))
    single = induced(TwoLayerLinear(U[0].float(), V[0].float()), data.to(torch.float32), Bernoulli(0.4, 3))
    assert single.value.dtype == torch.float32


def test_families_without_an_envelope_say_so():
    relu = ReLUNet([normal(3, 4), normal(2, 3)])
    with pytest.raises(NoClosedForm, match="ReLUNet"):
        envelope(relu, sample(outputs=2), Bernoulli(0.5, 7))
    with pytest.raises(NoClosedForm, match="SlidingBlock"):
        envelope(TwoLayerLinear(normal(3, 4), normal(4, 4)), sample(), SlidingBlock(0.2, 4, 2))
    assert any(isinstance(model, LastLayer) for _, model, _ in linear_pairs())


@pytest.mark.parametrize("question", [induced, envelope])
def test_masks_and_data_that_do_not_fit_the_model_are_refused(question):
    """By name, before anything is computed: one mask too many, a feature too few, another number of outputs."""
    model, masks = TwoLayerLinear(normal(3, 5), normal(4, 5)), Bernoulli(0.5, 5)
    with pytest.raises(ValueError, match="masks has size 6, expected 5"):
        question(model, sample(), Bernoulli(0.5, 6))
    with pytest.raises(ValueError, match="the model takes 4 features"):
        question(model, sample(features=3), masks)
    with pytest.raises(ValueError, match="data have 2 outputs but the model has 3"):
        question(model, sample(outputs=2), masks)


def test_the_envelope_of_dropped_connections_counts_units_not_weights():
    """Weights of one hidden unit fall one by one: (lambda / width) || W diag(E x_i^2)^(1/2) ||_*^2."""
    data, model = sample(2, 4), Connections(normal(2, 3), normal(4, 3, seed=1))
    sizes = data.inputs.square().mean(0).sqrt()
    wanted = 0.25 / 0.75 / 3 * torch.linalg.svdvals(model.matrix() * sizes).sum() ** 2
    close(envelope(model, data, Bernoulli(0.25, 12)).value, wanted, 1e-10)
