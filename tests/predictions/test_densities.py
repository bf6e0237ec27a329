"""Exact densities against a plain sum of normal densities over all masks."""

import math

import pytest
import torch
from cases import GAUSSIAN, INPUTS, OUTPUTS, laws, normal, relu_network, skewed_inputs
from compare import close
from torch.distributions import Normal

from droptics.errors import NoClosedForm
from droptics.masks import Bernoulli, Gaussian, Product, SlidingBlock
from droptics.models import DeepLinear, LastLayer, ReLUNet, TwoLayerLinear
from droptics.penalties import Enumerate, MonteCarlo
from droptics.predictions import mixtures, predictive
from droptics.predictions.transforms import mixed

MODEL = TwoLayerLinear(normal(OUTPUTS, 6), normal(INPUTS, 6))
CASES = {f"two-layer x {name}": (MODEL, law) for name, law in laws(6).items()}
CASES["two-layer x product"] = (MODEL, Product([Bernoulli(0.05, 2), SlidingBlock(0.3, 4, 2)]))
CASES["relu"] = (relu_network(), Product([Bernoulli(0.05, INPUTS), Bernoulli(0.3, 3), Bernoulli(0.5, 2)]))
CASES["deep"] = (
    DeepLinear([normal(3, INPUTS), normal(2, 3), normal(OUTPUTS, 2)]),
    Product([Bernoulli(0.2, 3), Bernoulli(0.4, 2)]),
)


def listed(model, inputs, masks):
    values = torch.stack([model.outputs(inputs, multipliers) for multipliers, _ in masks.atoms()])
    return values, torch.tensor([chance for _, chance in masks.atoms()], dtype=torch.float64)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("noise", [0.3, 2.0])
def test_density_and_distribution_equal_the_sum_over_all_masks(name, noise):
    model, law = CASES[name]
    inputs = skewed_inputs()
    values, chances = listed(model, inputs, law)
    density = predictive(model, inputs, law).density(noise)
    for y in (model.outputs(inputs), model.outputs(inputs) + 1.3, values[0] - 0.7):
        bumps = Normal(values, torch.tensor(noise, dtype=torch.float64))
        close(density.pdf(y), torch.tensordot(chances, bumps.log_prob(y).exp(), dims=1), 1e-12, scale=1.0)
        close(density.cdf(y), torch.tensordot(chances, bumps.cdf(y), dims=1), 1e-12, scale=1.0)
    close(
        density.cdf(density.quantile(0.05)), torch.full(values.shape[1:], 0.05, dtype=torch.float64), 1e-12, scale=1.0
    )


@pytest.mark.parametrize("name", CASES)
def test_log_likelihood_keeps_its_digits_in_the_tails(name):
    """Targets up to 20,000 deviations of the noise away: the logarithm is that of the sum, to 1e-11 of itself."""
    model, law = CASES[name]
    inputs, noise = skewed_inputs(), 0.5
    values, chances = listed(model, inputs, law)
    found = predictive(model, inputs, law)
    outside = [(values.amax(0) if d > 0 else values.amin(0)) + d for d in (0.0, 3.0, 4.6, -5.0, 12.0, -30.0, 1e4)]
    for targets in outside:
        expected = torch.logsumexp(Normal(values, noise).log_prob(targets) + chances.log()[:, None, None], 0)
        close(found.log_likelihood(targets, noise), expected, 1e-11)


@pytest.mark.parametrize("coins", [0, 4])
def test_normal_masks_keep_their_digits_in_the_tails(coins):
    """Given the coins outputs are normal: the density is a sum of few, up to 20,000 deviations of the noise away."""
    model, inputs, noise = MODEL, skewed_inputs(), 0.5
    normals = GAUSSIAN(6 - coins)
    law = Product([Bernoulli(0.3, coins), normals]) if coins else normals
    listing = list(Bernoulli(0.3, coins).atoms()) if coins else [(torch.ones(0).double(), 1.0)]
    centers = torch.stack([model.outputs(inputs, torch.cat([z, torch.ones(6 - coins).double()])) for z, _ in listing])
    units = torch.einsum("ni,ij,oj->noj", inputs, model.V, model.U)
    spread = (units[..., coins:].square() * normals.relative_variance).sum(-1).add(noise**2).sqrt()
    logarithms = torch.tensor([math.log(chance) for _, chance in listing], dtype=torch.float64)
    found = predictive(model, inputs, law)
    for far in (0.0, 3.0, -8.0, 40.0, -1e4):
        targets = (centers.amax(0) if far > 0 else centers.amin(0)) + far
        terms = Normal(centers, spread).log_prob(targets) + logarithms[:, None, None]
        close(found.log_likelihood(targets, noise), torch.logsumexp(terms, 0), 1e-11)


@pytest.mark.parametrize("name", CASES)
def test_likelihoods_amid_the_outputs_equal_the_sum(name):
    """Between outputs that lie apart the density vanishes and only its absolute digits are left."""
    model, law = CASES[name]
    inputs, noise = skewed_inputs(), 0.5
    values, chances = listed(model, inputs, law)
    for targets in (values.mean(0), values.median(0).values):
        expected = torch.tensordot(chances, Normal(values, noise).log_prob(targets).exp(), dims=1)
        close(predictive(model, inputs, law).log_likelihood(targets, noise).exp(), expected, 1e-12, scale=1.0)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("noise", [1e-2, 2e-2])
def test_likelihoods_in_wide_gaps_between_outputs_equal_the_sum(name, noise):
    model, law = CASES[name]
    inputs = skewed_inputs()
    values, chances = listed(model, inputs, law)
    ends = torch.sort(values, 0).values
    gaps = ends.diff(dim=0)
    widest = gaps.argmax(0, keepdim=True)
    # a third of the way across the widest gap: no two outputs are at one distance
    targets = (ends[:-1].gather(0, widest) + gaps.gather(0, widest) / 3)[0].requires_grad_()
    assert float(gaps.max()) > 90 * noise  # at 27 on either side a sum of float64 loses all digits
    found = predictive(model, inputs, law).log_likelihood(targets, noise=noise)
    logs = chances.log()[:, None, None] + Normal(values, noise).log_prob(targets)
    wanted = torch.logsumexp(logs, 0)
    close(found / wanted, torch.ones_like(wanted), 1e-10)
    slopes = [torch.autograd.grad(answer.sum(), targets, retain_graph=True)[0] for answer in (found, wanted)]
    close(*slopes, 1e-8)


def test_wide_gaps_of_more_masks_than_are_listed_have_a_floor(monkeypatch):
    monkeypatch.setattr("droptics.predictions.densities.LISTED", 3)
    model = TwoLayerLinear(torch.ones(1, 2, dtype=torch.float64), torch.eye(2, dtype=torch.float64))
    inputs = torch.tensor([[1.0, 0.4]], dtype=torch.float64)
    found = predictive(model, inputs, Bernoulli(0.5, 2)).log_likelihood(torch.tensor([[1.2]]).double(), noise=1e-3)
    assert math.isfinite(float(found))
    assert float(found) > -0.5 * (0.4 / 1e-3) ** 2


def test_moments_of_the_density_are_those_of_the_prediction():
    model, law = CASES["relu"]
    found = predictive(model, skewed_inputs(), law)
    density = found.density(0.7)
    grid = density.low + density.width * torch.linspace(0, 1, 4001, dtype=torch.float64)[:, None, None]
    values, step = density.pdf(grid), density.width / 4000
    close((values * step).sum(0), torch.ones(values.shape[1:]), 1e-10)
    mean = (values * grid * step).sum(0)
    close(mean, found.mean.value, 1e-10)
    close((values * (grid - mean).square() * step).sum(0), found.variance.value + 0.49, 1e-9)


def test_gaussian_masks_give_a_normal_density():
    model, inputs, law = MODEL, skewed_inputs(), GAUSSIAN(6)
    found = predictive(model, inputs, law)
    expected = Normal(found.mean.value, (found.variance.value + 0.25).sqrt())
    targets = found.mean.value + 0.8
    close(found.log_likelihood(targets, 0.5), expected.log_prob(targets), 1e-11)
    low, high = found.interval(0.9, 0.5)
    close(low, expected.icdf(torch.tensor(0.05, dtype=torch.float64)), 1e-10)
    close(high, expected.icdf(torch.tensor(0.95, dtype=torch.float64)), 1e-10)


def test_the_compiled_loop_equals_torch():
    law, terms, shift = Bernoulli(torch.linspace(0, 0.7, 5).double(), 5), normal(70, 3, 5), normal(70, 3)
    weight = torch.rand(70, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    angles = torch.arange(40, dtype=torch.float64) * torch.tensor([[0.3], [0.6], [0.03]], dtype=torch.float64)
    terms[:30, :, 2] = 0.0  # units that a ReLU silenced
    counts = torch.tensor([40, 7, 16])
    asked = torch.arange(40) < counts[:, None]
    compiled = mixed(law, terms, shift, weight, angles, counts) * asked
    plain = mixed(law, terms.requires_grad_(True), shift, weight, angles, counts).detach() * asked
    scale = float(weight.sum())
    close(compiled.real, plain.real, 1e-13, scale=scale)
    close(compiled.imag, plain.imag, 1e-13, scale=scale)


def test_gradients_of_the_likelihood_equal_finite_differences():
    first = normal(3, INPUTS).requires_grad_(True)
    last = normal(1, 3).requires_grad_(True)
    law = Product([Bernoulli(0.2, INPUTS), Bernoulli(0.5, 3)])

    def likelihood(first, last):
        return predictive(ReLUNet([first, last]), skewed_inputs()[:2], law).log_likelihood(normal(2, 1), 0.8)

    assert torch.autograd.gradcheck(likelihood, (first, last), rtol=1e-5)


def test_sampled_and_enumerated_predictions_have_densities_too():
    model, law = CASES["relu"]
    inputs, targets = skewed_inputs(), normal(7, OUTPUTS)
    exact = predictive(model, inputs, law).log_likelihood(targets, 0.6)
    close(predictive(model, inputs, law, Enumerate()).log_likelihood(targets, 0.6), exact, 1e-10)
    sampled = predictive(model, inputs, law, MonteCarlo(1000, seed=2)).log_likelihood(targets, 0.6)
    # a mean of 1000 densities, each at most 1 / (0.6 sqrt(2 pi)): five standard errors of it
    close(sampled.exp(), exact.exp(), 5 * 0.665 / math.sqrt(1000), scale=1.0)


@pytest.mark.parametrize("name", ["relu", "deep"])
def test_densities_of_mixtures_in_many_parts_equal_the_sum_over_all_masks(name, monkeypatch):
    """One early mask at a time, as where no two fit into memory."""
    monkeypatch.setattr(mixtures, "CHUNK_ELEMENTS", 1)
    model, law = CASES[name]
    inputs, noise = skewed_inputs(), 0.7
    values, chances = listed(model, inputs, law)
    found = predictive(model, inputs, law)
    assert sum(1 for _ in found.mixture()()) > 2
    targets = values.amax(0) + 3.0
    for y in (model.outputs(inputs), targets):
        bumps = Normal(values, noise).log_prob(y).exp()
        close(found.density(noise).pdf(y), torch.tensordot(chances, bumps, dims=1), 1e-12, scale=1.0)
    logs = Normal(values, noise).log_prob(targets)
    close(found.log_likelihood(targets, noise), torch.logsumexp(logs + chances.log()[:, None, None], 0), 1e-11)


def test_refusals():
    found = predictive(MODEL, skewed_inputs(), Bernoulli(0.3, 6))
    for noise in (0.0, -1.0, math.nan):
        with pytest.raises(ValueError, match="noise is the standard deviation"):
            found.interval(0.9, noise)
    with pytest.raises(ValueError, match="angles"):
        found.density(1e-7)
    with pytest.raises(ValueError, match="level"):
        found.interval(1.0, 1.0)
    one_wrong = torch.full((7, OUTPUTS), 0.5, dtype=torch.float64)
    one_wrong[2, 1] = 1.0
    for level in (0.0, 1.0, -0.1, math.nan, one_wrong):
        with pytest.raises(ValueError, match="level must lie strictly between 0 and 1"):
            found.density(1.0).quantile(level)
    with pytest.raises(ValueError, match="targets have shape"):
        found.log_likelihood(normal(7, 1), 1.0)
    with pytest.raises(NoClosedForm, match="short list of masks"):
        predictive(
            TwoLayerLinear(normal(1, 30), normal(INPUTS, 30)), skewed_inputs(), SlidingBlock(0.3, 30, 2)
        ).density(1.0)
    many = ReLUNet([normal(2, 18), normal(1, 2)])
    with pytest.raises(NoClosedForm, match="only the mean and the covariance"):
        predictive(many, normal(1, 18), Product([Bernoulli(0.5, 18), Bernoulli(0.5, 2)])).density(1.0)
    both = TwoLayerLinear(normal(2, OUTPUTS, 3), normal(2, INPUTS, 3))
    with pytest.raises(ValueError, match="one model at a time"):
        predictive(both, skewed_inputs(), Bernoulli(0.3, 3)).density(1.0)


def test_last_layers_in_single_precision():
    network = torch.nn.Linear(INPUTS, 2)
    found = predictive(LastLayer.of(network), skewed_inputs().float(), Gaussian(0.3, INPUTS))
    assert found.log_likelihood(normal(7, 2, dtype=torch.float32), 0.5).dtype == torch.float64


def test_there_is_no_density_outside_the_period():
    """One period further the series has its peaks again."""
    model, law = CASES["relu"]
    density = predictive(model, skewed_inputs(), law).density(0.4)
    middle = density.low + density.width / 2
    assert float(density.pdf(middle).min()) > 0
    for periods in (-2, -1, 1, 2):
        assert float(density.pdf(middle + periods * density.width).abs().max()) == 0
        # the series of the whole period sums to one up to rounding
        below = torch.full_like(middle, periods > 0)
        close(density.cdf(middle + periods * density.width), below, 1e-12, scale=1.0)


@pytest.mark.parametrize("units", [16, 17])
def test_deep_networks_have_a_mixture_while_it_can_be_listed(units):
    """More than 2^16 masks of the early layers are not promised; the moments stay exact."""
    rates = torch.linspace(0.1, 0.6, units).double()
    model = DeepLinear([normal(units, 2), normal(2, units), normal(OUTPUTS, 2)])
    found = predictive(model, normal(3, 2), Product([Bernoulli(rates, units), Bernoulli(0.4, 2)]))
    assert (found.outcomes is None) == (units == 17)
    if units == 17:
        with pytest.raises(NoClosedForm, match="only the mean and the covariance"):
            found.density(1.0)


def test_the_table_of_the_distribution_function_is_the_function():
    model, law = CASES["relu"]
    density = predictive(model, skewed_inputs(), law).density(0.4)
    grid, table = density.cdf_table()
    close(table[::37], density.cdf(grid[::37]), 1e-12, scale=1.0)


@pytest.mark.parametrize("least", [1, 8, 100])
def test_a_table_is_never_coarser_than_its_series(least):
    model, law = CASES["relu"]
    density = predictive(model, skewed_inputs(), law).density(0.05)
    grid, table = density.cdf_table(least)
    assert len(grid) > density.coefficients.shape[-1] > 8
    close(table, density.cdf(grid), 1e-12, scale=1.0)
