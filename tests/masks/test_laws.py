import math

import pytest
import torch
from cases import GAUSSIAN, laws, normal
from compare import close
from hypothesis import given, settings
from hypothesis import strategies as st

from droptics.errors import NoFiniteSupport
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock, drop_for_width

LAWS = {f"{name}-{size}": law for size in (1, 4, 6) for name, law in laws(size).items()}


@pytest.mark.parametrize("name", LAWS)
def test_moments_are_those_of_the_support(name):
    law = LAWS[name]
    masks, probabilities = zip(*law.support_batches(5), strict=True)
    masks, probabilities = torch.cat(masks), torch.cat(probabilities)
    assert len(masks) == law.support_count
    close(probabilities.sum(), 1.0)
    mean = probabilities @ masks
    close(law.mean, mean)
    centered = masks - mean
    covariance = (centered * probabilities[:, None]).mT @ centered
    close(law.covariance, covariance, scale=max(1.0, float(covariance.abs().max())))
    close(law.characteristic, covariance / torch.outer(mean, mean))
    close(law.relative_variance, torch.diagonal(law.characteristic))
    assert law.independent <= bool((law.characteristic - torch.diag(law.relative_variance)).abs().max() < 1e-12)
    close(law.bound, (masks[probabilities > 0] / mean).abs().amax(0))


@pytest.mark.parametrize("law", [*LAWS.values(), Bernoulli(torch.tensor([0.5, 0.5]).double(), 2), GAUSSIAN(4)])
def test_a_strength_is_the_relative_variance_of_all_units(law):
    if law.common_strength is not None:
        assert torch.equal(law.relative_variance, torch.full((law.size,), law.common_strength, dtype=torch.float64))


def test_a_rate_that_is_a_tensor_may_have_a_derivative_and_so_is_no_strength():
    assert Bernoulli(0.5, 3).common_strength == Block(0.5, 4, 2).common_strength == 1.0
    assert Bernoulli(torch.tensor(0.5).double(), 3).common_strength is None
    assert Block(torch.tensor(0.5).double(), 4, 2).common_strength is None


@pytest.mark.parametrize("name", LAWS)
def test_atoms_have_unit_mean(name):
    total = sum(probability * multiplier for multiplier, probability in LAWS[name].atoms())
    close(total, torch.ones(LAWS[name].size))


@pytest.mark.parametrize("law", [*LAWS.values(), GAUSSIAN(4)], ids=[*LAWS, "gaussian"])
def test_sampler_has_the_stated_mean_and_covariance(law):
    count = 20_000
    drawn = law.sample(count, torch.Generator().manual_seed(1))
    assert drawn.shape == (count, law.size)
    deviation = torch.diagonal(law.covariance).sqrt()
    assert bool(((drawn.mean(0) - law.mean).abs() <= 5 * deviation / math.sqrt(count) + 1e-12).all())
    # |b_i b_j| has variance at most E b^4 <= bound^4; 6 standard errors at this size
    centered = drawn - law.mean
    empirical = centered.mT @ centered / count
    products = centered[:, :, None] * centered[:, None, :]
    error = products.std(0) / math.sqrt(count)
    assert bool(((empirical - law.covariance).abs() <= 6 * error + 1e-12).all())


def test_sampling_is_reproducible_and_leaves_the_global_generator_alone():
    before = torch.random.get_rng_state()
    first = Bernoulli(0.5, 8).multipliers(3, torch.Generator().manual_seed(7))
    second = Bernoulli(0.5, 8).multipliers(3, torch.Generator().manual_seed(7))
    assert torch.equal(first, second)
    assert torch.equal(before, torch.random.get_rng_state())


def test_grid_blocks_are_consecutive():
    expected = torch.kron(torch.diag(torch.tensor([1.0, 1.0, 1.0])), torch.ones(2, 2)).double()
    close(Block(0.5, 6, 2).characteristic, expected)


def test_sliding_blocks_taper():
    law = SlidingBlock(0.2, 6, 3)
    distance = (torch.arange(6)[:, None] - torch.arange(6)).abs().double()
    close(law.characteristic, 0.8 ** -(3 - distance).clamp_min(0) - 1)


def test_sliding_blocks_that_no_unit_survives_are_refused():
    """Means that underflow have no multipliers; those that nearly do are what they are."""
    with pytest.raises(ValueError, match=r"drop must be lower, got .*: no unit of 200 blocks"):
        SlidingBlock(1 - 1e-12, 400, 200)
    with pytest.raises(ValueError, match="no unit of 50 blocks"):
        SlidingBlock(1 - 1e-12, 400, 351, "valid")
    for block, edges in ((25, "clipped"), (376, "valid")):
        law = SlidingBlock(1 - 1e-12, 400, block, edges)
        assert float(law.mean.min()) > 0
        assert bool(torch.isfinite(law.characteristic).all())
        assert float(law.mean.log().min()) == pytest.approx(25 * torch.log1p(-law.drop).item())


@pytest.mark.parametrize("edges", ["clipped", "valid"])
@pytest.mark.parametrize(
    ("drop", "size", "block"), [(0.5, 50, 5), (0.1, 7, 7), (0.95, 9, 4), (1e-6, 5, 2), (0.0, 5, 2)]
)
def test_matching_realizes_the_rate(drop, size, block, edges):
    law = SlidingBlock.matching(drop, size, block, edges)
    close(1 - law.mean.mean(), drop, scale=max(drop, 1e-6))
    if edges == "clipped":
        close(law.drop, -math.expm1(math.log1p(-drop) / block), scale=max(drop, 1e-6))


def test_matching_reaches_the_known_value():
    assert round(1 - float(SlidingBlock.matching(0.5, 50, 5, "valid").drop), 5) == 0.85750


@given(st.floats(0, 0.99), st.integers(1, 40), st.integers(1, 8))
@settings(deadline=None, max_examples=50)
def test_width_adaptive_rate_keeps_the_strength(drop, blocks, block):
    width = blocks * block
    rate = drop_for_width(drop, width, block)
    assert 0 <= rate < 1
    close(block / width * rate / (1 - rate), drop / (1 - drop), 1e-9, scale=max(drop / (1 - drop), 1e-9))


def test_rates_near_one_stay_accurate():
    keep = 2.0**-40
    for law in (Bernoulli(1 - keep, 2), Block(1 - keep, 2, 2)):
        close(law.relative_variance, torch.full((2,), (1 - keep) / keep, dtype=torch.float64), 1e-14)
    sliding = SlidingBlock(1 - keep, 4, 2)
    close(torch.diagonal(sliding.characteristic), torch.full((4,), keep**-2 - 1, dtype=torch.float64), 1e-13)


def test_units_of_several_blocks_may_be_rarer_than_a_block():
    assert SlidingBlock(0.7, 4, 2).rarest == pytest.approx(0.3**2)  # both blocks of a unit stand
    assert SlidingBlock(0.2, 4, 2).rarest == pytest.approx(0.2)  # one block falls


@pytest.mark.parametrize(
    "laws",
    [
        (Bernoulli(0.3, 2), Block(0.1, 4, 2)),
        (Block(0.1, 4, 2), Bernoulli(0.3, 2)),
        (Bernoulli(0.0, 2), Bernoulli(torch.tensor([0.5, 0.97, 0.0], dtype=torch.float64), 3), Block(0.4, 4, 2)),
        (Product([Bernoulli(0.05, 1), Bernoulli(0.5, 1)]), Bernoulli(0.2, 2)),
    ],
)
def test_the_rarest_outcome_of_several_laws_is_that_of_any_unit(laws):
    """Every law on its own is one coin a unit: the least probability that a unit falls or stands, from all masks."""
    law = Product(laws)
    masks, probabilities = (torch.cat(part) for part in zip(*law.support_batches(64), strict=True))
    falls = probabilities @ (masks == 0).double()
    outcomes = torch.cat([falls, 1 - falls])
    close(law.rarest, float(outcomes[outcomes > 1e-12].min()), 1e-12)


def test_densities_are_not_rare_beside_coins():
    for order in (1, -1):
        assert Product([Gaussian(0.3, 2), Bernoulli(0.9, 2)][::order]).rarest == pytest.approx(0.1)
    assert Product([Gaussian(0.3, 2), Bernoulli(0.0, 2)]).rarest == 1.0


def test_rate_zero_is_no_noise_at_all():
    for law in (Bernoulli(0.0, 3), Block(0.0, 4, 2), SlidingBlock(0.0, 4, 2), Gaussian(0.0, 2)):
        assert not bool(law.characteristic.any())
    assert Bernoulli(0.0, 30).support_count == 1


def test_product_stacks_its_laws():
    law = Product([Bernoulli(0.5, 2), Block(0.2, 4, 2)])
    assert law.size == 6
    assert law.support_count == 16
    assert float(law.covariance[0, 3]) == 0
    assert Product([Bernoulli(0.5, 2), Gaussian(0.1, 2)]).support_count is None


def test_from_samples_merges_equal_masks():
    source = Block(0.3, 4, 2)
    law = Discrete.from_samples(source.sample, 5000, torch.Generator().manual_seed(0))
    assert law.support_count == 4
    assert float((law.characteristic - source.characteristic).abs().max()) < 0.05
    drawn = source.sample(50, torch.Generator().manual_seed(1))
    close(Discrete.from_samples(drawn).mean, drawn.mean(0))


def test_rates_are_differentiable():
    rate = torch.tensor(0.3, dtype=torch.float64, requires_grad=True)
    for law in (Bernoulli(rate, 3), Block(rate, 4, 2), SlidingBlock(rate, 4, 2)):
        (slope,) = torch.autograd.grad(law.characteristic.sum(), rate)
        step = 1e-6
        up = type(law)(0.3 + step, *([3] if isinstance(law, Bernoulli) else [4, 2])).characteristic.sum()
        down = type(law)(0.3 - step, *([3] if isinstance(law, Bernoulli) else [4, 2])).characteristic.sum()
        close(slope, (up - down) / (2 * step), 1e-8)


class TriangularNoise(MaskLaw):
    """A user's own law, four members: uniform noise with a correlation of one half between neighbors."""

    size = 3
    mean = torch.ones(3, dtype=torch.float64)
    covariance = torch.eye(3).double() / 12 + 0.5 / 12 * (torch.diag(torch.ones(2), 1) + torch.diag(torch.ones(2), -1))

    def sample(self, count, generator):
        return (
            1
            + torch.randn(count, 3, generator=generator, dtype=torch.float64)
            @ torch.linalg.cholesky(self.covariance).mT
        )


def test_a_law_needs_four_members():
    law = TriangularNoise()
    close(law.characteristic, law.covariance)
    assert law.multipliers(5, torch.Generator().manual_seed(0)).shape == (5, 3)
    with pytest.raises(NoFiniteSupport, match="MonteCarlo"):
        next(law.atoms())


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Bernoulli(1.0, 3), r"drop .* \[0, 1\)"),
        (lambda: Bernoulli(-0.1, 3), "drop"),
        (lambda: Bernoulli(float("nan"), 3), "drop"),
        (lambda: Bernoulli(0.5, 0), "size"),
        (lambda: Bernoulli(torch.tensor([0.1, 0.2]), 3), "drop has size 2, expected 3"),
        (lambda: Bernoulli(torch.tensor([0, 0, 0]), 3), "drop must be floating point"),
        (lambda: Block(0.5, 5, 2), "block must divide size"),
        (lambda: Block(0.5, 4, 0), "block"),
        (lambda: SlidingBlock(0.5, 3, 4, "valid"), "block must not exceed size"),
        (lambda: SlidingBlock(0.5, 3, 2, "wrapped"), "edges"),
        (lambda: Gaussian(-1.0, 2), "variance"),
        (lambda: Discrete(torch.ones(2, 3), torch.tensor([0.5, 0.6])), "sum to 1"),
        (lambda: Discrete(torch.ones(2, 3), torch.tensor([1.5, -0.5])), "must be non-negative"),
        (lambda: Discrete(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), torch.tensor([0.5, 0.5])), "unit 1 has mean 0"),
        (lambda: Discrete(torch.ones(2, 3), torch.ones(3) / 3), "probabilities has size 3"),
        (lambda: Product([]), "laws"),
        (lambda: Product([Bernoulli(0.5, 2), 3]), r"laws\[1\]"),
        (lambda: drop_for_width(1.0, 5, 1), "drop"),
    ],
)
def test_bad_input_is_named(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_characteristic_matrices_are_positive_semidefinite():
    for law in LAWS.values():
        assert float(torch.linalg.eigvalsh(law.characteristic)[0]) >= -1e-9 * max(1, float(law.characteristic.max()))


@pytest.mark.parametrize("size", [1, 2, 5, 6])
def test_diagonals_are_those_of_the_characteristic_matrix(size):
    for name, law in laws(size).items():
        dense = law.covariance / torch.outer(law.mean, law.mean)
        close(law.characteristic, dense, 1e-12, scale=1 + float(dense.abs().max()))
        for lag in range(size):
            expected = torch.diagonal(dense, lag)
            close(law.diagonal(lag), expected, 1e-12, scale=1 + float(dense.abs().max()))
            assert lag <= law.reach or not float(expected.abs().max()) > 1e-12, name


@pytest.mark.parametrize(("size", "block"), [(1, 1), (5, 1), (5, 3), (5, 5), (4, 9)])
def test_units_of_sliding_blocks_are_correlated_as_far_as_a_block_reaches(size, block):
    law = SlidingBlock(0.2, size, block)
    correlated = [lag for lag in range(size) if float(torch.diagonal(law.characteristic, lag).max()) > 1e-6]
    assert law.reach == correlated[-1]


LARGE = [
    Bernoulli(0.5, 100_000),
    Block(0.5, 100_000, 10),
    SlidingBlock(0.05, 100_000, 10),
    SlidingBlock.matching(0.3, 100_000, 10, "valid"),
    Gaussian(0.7, 100_000),
    Product([Block(0.5, 50_000, 10), SlidingBlock(0.05, 50_000, 7)]),
]


@pytest.mark.parametrize("law", LARGE, ids=lambda law: type(law).__name__)
def test_large_laws_never_form_a_matrix_over_all_pairs(law):
    """All of it fits in ten vectors; the matrix itself would take 75 GiB and is refused before memory is taken."""
    generator = torch.Generator().manual_seed(0)
    parts = [law.mean, law.relative_variance, law.sample(2, generator)[0], law.multipliers(1, generator)[0]]
    assert all(bool(torch.isfinite(part).all()) and len(part) == 100_000 for part in parts)
    assert len(law.diagonal(min(law.reach, 3))) == 100_000 - min(law.reach, 3)
    for name in ("covariance", "characteristic"):
        with pytest.raises(ValueError, match=r"100000 units takes 75 GiB.*use relative_variance"):
            getattr(law, name)


class AskedGram:
    """A Gram matrix that notes whether products of different units were asked for."""

    def __init__(self, entries):
        self.entries, self.joined = entries, False

    def energies(self):
        return torch.diagonal(self.entries, dim1=-2, dim2=-1)

    def part(self, rows, columns):
        self.joined = True
        return self.entries[..., rows, columns]


def test_the_largest_multiplier_is_one_without_its_sign():
    masks = torch.tensor([[1.0, -2.0], [-4.0, 1.0], [3.0, -1.0]])
    law = Discrete(masks, torch.tensor([0.2, 0.1, 0.7], dtype=torch.float64))
    close(law.mean, torch.tensor([1.9, -1.0], dtype=torch.float64))
    close(law.bound, torch.tensor([4 / 1.9, 2.0], dtype=torch.float64))


@pytest.mark.parametrize("law", [SlidingBlock(0.2, 9, 2), Block(0.3, 8, 2), Product([Block(0.3, 6, 2)] * 2)])
def test_what_weighing_is_at_most_counts_neighbors_on_both_sides(law):
    energies = 1 + normal(2, law.size, seed=4).square() / 9
    shares = energies * law.relative_variance
    near = (2 * law.reach + 1) * shares.sum(-1)
    assert bool((near < shares.sqrt().sum(-1) ** 2).all())
    close(law.weigh_at_most(energies), near, 1e-12)
    few = torch.nn.functional.one_hot(torch.tensor([0, law.size - 1]), law.size).double()
    close(law.weigh_at_most(few), (few * law.relative_variance).sum(-1), 1e-12)


@pytest.mark.parametrize("name", LAWS)
def test_weighing_reads_the_characteristic_matrix(name):
    """Against the matrix itself; only the diagonal is asked for where units are independent."""
    law = LAWS[name]
    factor = normal(2, 3, law.size, seed=4)
    dense, gram = law.characteristic, factor.mT @ factor
    size = float((dense.abs() * gram.abs()).sum((-2, -1)).max()) + 1
    asked = AskedGram(gram)
    close(law.weigh(asked), (dense * gram).sum((-2, -1)), 1e-12, scale=size)
    assert asked.joined != law.independent
    close(law.weigh(gram), (dense * gram).sum((-2, -1)), 1e-12, scale=size)
    assert bool((law.weigh(gram).abs() <= law.weigh_at_most(asked.energies()) * (1 + 1e-12)).all())
    close(law.hadamard(gram), dense * gram, 1e-12, scale=size)
    close(law.correlate(factor), factor @ dense, 1e-12, scale=size)
    heads = normal(4, law.size, seed=5)
    close(law.correlate(factor, heads), factor @ (dense * (heads.mT @ heads)), 1e-12, scale=size * law.size)
    close(law.directions.mT @ law.directions, dense, 1e-12, scale=size)
