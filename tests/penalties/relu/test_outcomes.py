"""The pieces of the exact criterion of ReLU networks: estimate, plans, walk, half tables, sampling."""

import itertools

import numpy as np
import pytest
import torch
from cases import normal
from compare import close
from scipy import stats

from droptics.data import Sample
from droptics.errors import NoClosedForm
from droptics.losses import CrossEntropy, Squared
from droptics.masks import Bernoulli, Block, Gaussian, Product
from droptics.models import ReLUNet
from droptics.penalties import ClosedForm, Enumerate, MonteCarlo, criterion, penalty, relu_cost
from droptics.penalties.relu import copies, effort, moments, sampling
from droptics.penalties.relu import criterion as walks
from droptics.penalties.relu.device import SPLIT_STEPS, device_bytes
from droptics.penalties.relu.effort import Place, descend, words
from droptics.penalties.relu.moments import Dominance, MomentLeaf, half_rows, most_rows, outcome_bits
from droptics.penalties.relu.outcomes import Coins, Stage, Walk, merged, outcome_blocks

CPU = torch.device("cpu")
ALL = Enumerate(limit=2**20)
ROOMY = 2**30


def tensor(*rows):
    return torch.tensor(rows, dtype=torch.float64)


def network(sizes, seed=0):
    weights = [normal(b, a, seed=seed + i) for i, (a, b) in enumerate(itertools.pairwise(sizes))]
    return ReLUNet(weights, [normal(b, seed=seed + 5) for b in sizes[1:]])


# --- what it would take ---------------------------------------------------------------------------------------------


def stages(law):
    """Three layers in which the units that live depend on every multiplier, weight and bias."""
    return [
        Stage(law, tensor([1.0, 1, 1], [-1, 0, 0], [0, 0, 0]), tensor(-6.0, 2, 1)),
        Stage(
            Coins(np.array([1, 1, 2]), np.array([0.5, 0.0, 0.2])),
            tensor([1.0, -3, 0], [0.1, -1, 0.9]),
            tensor(-1.0, -0.5),
        ),
        Stage(Coins(np.array([1, 3]), np.array([0.5, 0.4])), tensor([1.0, 1.0]), tensor(0.0)),
    ]


COINS = Coins(np.array([1, 2, 2]), np.array([0.6, 0.6, 0.0]))


def multipliers(law):
    """All multipliers of a stage."""
    if not isinstance(law, Coins):
        return np.array([row.numpy() for row, _ in law.atoms()])
    kept = [range(c + 1) if d else [c] for c, d in zip(law.counts, law.drop, strict=True)]
    return np.array(list(itertools.product(*kept))) / (1 - law.drop)


def reached(chain, state, level=0):
    """Outcomes at every level, by visiting them all; units that are zero or that nobody reads have no coin."""
    stage = chain[level]
    weight, bias = stage.weight.numpy(), stage.bias.numpy()
    every = multipliers(stage.law)
    if isinstance(stage.law, Coins):
        alive = (state != 0) & (weight != 0).any(0)
        every = np.unique(np.where(alive, every, 1.0), axis=0)
    found = np.zeros(len(chain))
    found[level] = len(every)
    for row in every if level + 1 < len(chain) else ():
        found += reached(chain, np.maximum(weight @ (row * state) + bias, 0.0), level + 1)
    return found


@pytest.mark.parametrize("law", [COINS, Block(0.5, 3, 1)])
def test_random_descents_count_the_outcomes_without_bias(law):
    chain, generator = stages(law), np.random.default_rng(0)
    counted = reached(chain, np.ones(3))
    assert len({*counted}) == 3
    found = np.array([descend(chain, Place(False, ROOMY), generator) for _ in range(600)])
    mean, error = found.mean(0), found.std(0) / np.sqrt(len(found))
    assert abs(mean[0] - counted[-1]) < 4 * error[0] < 0.3 * counted[-1]
    # the work of enumerating is in proportion to the outcomes of all levels
    steps = mean[1] / counted.sum()
    assert 50 < steps < 1000


def test_work_of_an_enumerated_layer_grows_with_its_weights():
    def work(width):
        law = Coins(np.ones(4, np.int64), np.full(4, 0.5))
        chain = [Stage(law, torch.ones(width, 4).double(), torch.ones(width).double())]
        return descend(chain, Place(False, ROOMY), np.random.default_rng(0))[1]

    assert work(40_000) / work(20_000) == pytest.approx(2, rel=0.01)
    assert work(20_000) == pytest.approx(2**4 * 4 * 20_000, rel=0.01)


def test_only_the_last_layer_is_summed_without_enumeration():
    """By moments that meet in the middle: 2^40 outcomes take about 2^20, but not in an earlier layer."""
    law, free = Coins(np.ones(40, np.int64), np.full(40, 0.5)), Coins(np.ones(1, np.int64), np.zeros(1))
    wide = Stage(law, torch.ones(1, 40).double(), torch.ones(1).double())
    after = Stage(free, torch.ones(1, 1).double(), torch.ones(1).double())
    before = Stage(free, torch.ones(40, 1).double(), torch.ones(40).double())
    for chain, squared, least, most in (
        ([wide], True, 2**20, 2**30),
        ([wide], False, 2**40, 2**50),
        ([before, wide], True, 2**20, 2**30),
        ([wide, after], True, 2**40, 2**50),
        ([Stage(Block(0.5, 20, 1), wide.weight[:, :20], wide.bias)], True, 2**20, 2**30),
    ):
        outcomes, work = descend(chain, Place(squared, ROOMY), np.random.default_rng(0))
        assert outcomes == 2.0 ** (20 if chain[0].weight.shape[1] == 20 else 40)
        assert least < work < most


def test_the_last_layer_is_summed_once_for_every_outcome_before_it():
    """Biases that no coin changes keep all units alive: 2^5 states, each with the sum of a layer of 6 coins."""
    first, last = (Coins(np.ones(size, np.int64), np.full(size, 0.5)) for size in (5, 6))
    chain = [
        Stage(first, torch.ones(6, 5).double(), torch.ones(6).double()),
        Stage(last, torch.ones(2, 6).double(), torch.ones(2).double()),
    ]
    place = Place(True, ROOMY)
    _, before = descend(chain[:1], Place(False, ROOMY), np.random.default_rng(0))
    _, work = descend(chain, place, np.random.default_rng(0))
    assert work - before == pytest.approx(2**5 * effort._leaf_work(2, 6.0, place))


def test_steps_of_the_last_layer():
    place = Place(True, ROOMY)
    # the clock counts the steps of its own sum, 8 units and 12 coins, in the same way
    assert effort._leaf_work(8, 12.0, place) == pytest.approx(2**12 * (8 * 8 / 2 + 16) * 0.25, rel=0.02)
    assert effort._leaf_work(8, 16.0, place) / effort._leaf_work(8, 15.0, place) == pytest.approx(2, rel=0.02)
    # one unit: a list of both halves goes through as many levels as its length has bits; pairs of units beyond
    one = effort._leaf_work(1, 28.0, place)
    assert one == pytest.approx(SPLIT_STEPS * 2**15 * 15)
    assert effort._leaf_work(3, 28.0, place) == pytest.approx(6 * one)
    # no jump where the sum changes
    assert 1 / 4 < effort._leaf_work(9, 16.0, place) / effort._leaf_work(9, 16.01, place) < 4
    # with room for 2^10 rows a half, the coins beyond twenty multiply
    tight = Place(True, int(ROOMY * 2**10 / most_rows(1, ROOMY)))
    assert effort._leaf_work(1, 28.0, tight) == pytest.approx(2**8 * SPLIT_STEPS * 2**11 * 11, rel=1e-3)


def test_durations_for_people():
    assert words(90.0) == "90 s"
    assert words(3 * 3600.0) == "3 hours"
    assert words(47 * 3600.0) == "47 hours"
    assert words(49 * 3600.0) == "2.04 days"
    number, unit = words(100 * 365.25 * 86400).split()
    assert (float(number), unit) == (pytest.approx(100, rel=0.02), "years")


def test_every_example_counts():
    """Outcomes of examples with 5, 2 and no live inputs; beyond sixteen examples a share of them is probed."""
    model, masks = network((5, 3, 1)), Bernoulli(0.5, 8)
    inputs = normal(3, 5) * tensor([1.0, 1, 1, 1, 1], [0, 1, 0, 1, 0], [0, 0, 0, 0, 0])
    assert relu_cost(model, Sample(inputs, normal(3, 1)), masks).outcomes == pytest.approx(2**5 + 2**2 + 1)
    pair = ReLUNet([torch.stack([weight, weight]) for weight in model.weights])
    assert relu_cost(pair, Sample(inputs, normal(3, 1)), masks).outcomes == pytest.approx(2 * (2**5 + 2**2 + 1))
    few, many = (relu_cost(model, Sample(inputs[:1].expand(n, 5), normal(n, 1)), masks) for n in (10, 40))
    assert many.outcomes == pytest.approx(40 * 2**5)
    assert many.seconds / few.seconds == pytest.approx(4)
    deep = [
        relu_cost(network((5, 3, 2, 1)), Sample(inputs[:1].expand(n, 5), normal(n, 1)), Bernoulli(0.5, 10))
        for n in (16, 64)
    ]
    assert deep[1].outcomes / deep[0].outcomes == pytest.approx(4)
    assert deep[1].seconds / deep[0].seconds == pytest.approx(4)
    # units that live whatever falls: every descent counts all
    living = ReLUNet(
        [normal(b, a).abs() for a, b in ((5, 3), (3, 2), (2, 1))], [torch.ones(n).double() for n in (3, 2, 1)]
    )
    positive = Sample(inputs[:1].abs().expand(20, 5), normal(20, 1))
    assert relu_cost(living, positive, Bernoulli(0.5, 10)).outcomes == pytest.approx(20 * 2 ** (5 + 3))


@pytest.mark.parametrize(
    ("masks", "loss", "bound"),
    [
        (Bernoulli(0.5, 9), Squared(), 2**7),
        (Bernoulli(0.5, 9), CrossEntropy(), 2**9),
        (Product([Block(0.5, 4, 2), Bernoulli(tensor(0.0, 0.5, 0.5), 3), Block(0.5, 2, 2)]), Squared(), 4 * 4),
        (Product([Block(0.5, 4, 2), Bernoulli(tensor(0.0, 0.5, 0.5), 3), Block(0.5, 2, 2)]), CrossEntropy(), 32),
    ],
)
def test_bound_on_the_outcomes_of_an_example(masks, loss, bound):
    sizes = (4, 3, 2, 2)
    targets = normal(1, 2) if isinstance(loss, Squared) else torch.tensor([1])
    (plan,) = walks.plans_of(network(sizes), Sample(normal(1, 4), targets), masks, loss)
    assert plan.most_outcomes() == pytest.approx(bound)
    assert plan.accelerator is None


def test_only_few_outcomes_of_all_examples_need_no_estimate(monkeypatch):
    monkeypatch.setattr(walks, "_SURE_OUTCOMES", 3 * 2.0**7)
    model, masks, method = network((4, 3, 2, 2)), Bernoulli(0.5, 9), ClosedForm(seconds=1e-12)
    three, four = (Sample(normal(count, 4), normal(count, 2)) for count in (3, 4))
    assert criterion(model, three, masks, method).method == "exact sum over mask outcomes"
    with pytest.raises(NoClosedForm, match="more than the 1e-12 s allowed"):
        criterion(model, four, masks, method)


def test_progress_adds_up_to_the_estimate(monkeypatch):
    """On long sums a bar says how much of the estimated seconds is done; short ones show none."""
    monkeypatch.setattr(walks, "_SURE_OUTCOMES", 0.0)
    bars = []

    class Bar:
        def __init__(self, total, disable, **options):
            self.total, self.disable, self.done = total, disable, 0.0
            bars.append(self)

        def __enter__(self):
            return self

        def __exit__(self, *problem):
            return None

        def update(self, work):
            self.done += work

    monkeypatch.setattr(walks, "tqdm", Bar)
    data = Sample(normal(2, 10), normal(2, 1))
    for bits, speed in ((-1.0, 1e-6), (-1.0, 1e-1), (30.0, 1e-6)):
        for module in (moments, effort):
            monkeypatch.setattr(module, "DIRECT_BITS", bits)
        monkeypatch.setattr(walks, "kernel_seconds", lambda speed=speed: speed)
        criterion(network((10, 4, 1)), data, Bernoulli(0.5, 14), ClosedForm(seconds=1e9))
    assert [bar.disable for bar in bars] == [True, None, True]
    for bar in bars[:2]:
        assert bar.done == pytest.approx(bar.total)
    assert bars[2].total / 3 < bars[2].done < bars[2].total


# --- plans and walks ------------------------------------------------------------------------------------------------


def alike(model, data, masks, loss=Squared(), method=ClosedForm()):
    """Value and gradients against those by listing every mask."""
    free = [part.requires_grad_(True) for part in model.tensors]
    ours, theirs = (criterion(model, data, masks, way, loss).value for way in (method, ALL))
    close(ours, theirs, 1e-12)
    gradients = [torch.autograd.grad(value, free) for value in (ours, theirs)]
    scale = max(float(part.abs().max()) for part in gradients[1])
    for left, right in zip(*gradients, strict=True):
        close(left, right, 1e-11, scale)


def with_copies():
    """Two layers of hidden units, each with a pair of copies, and two inputs that nobody reads."""
    first, second, last = normal(4, 4), normal(3, 4, seed=1), normal(2, 3, seed=2)
    first[1], second[:, 1] = first[0], second[:, 0]
    second[2], last[:, 2] = second[1], last[:, 1]
    first[:, 2:] = 0.0
    biases = [tensor(0.3, 0.3, -0.2, 0.5), tensor(0.4, -0.1, -0.1), tensor(0.2, 0.1)]
    return ReLUNet([first, second, last], biases)


def rates(copies):
    return Bernoulli(tensor(0.5, 0.2, 0.4, 0.1, copies, copies, 0.6, 0.2, 0.5, 0.7, 0.7), 11)


@pytest.mark.parametrize(("copies", "outcomes"), [(0.3, 3), (0.0, 1)])
@pytest.mark.parametrize("bits", [16.0, -1.0])
def test_copies_in_every_layer(bits, copies, outcomes, monkeypatch):
    """Some of them never fall; sums by listing and by sorting."""
    masks = rates(copies)
    monkeypatch.setattr(moments, "DIRECT_BITS", bits)
    model, inputs = with_copies(), tensor([1.0, -0.5, 2.0, 0.7], [0.4, 0.0, 1.0, -1.0])
    alike(model, Sample(inputs, normal(2, 2)), masks)
    alike(model, Sample(inputs[:1], torch.tensor([1])), masks, CrossEntropy())
    (plan,) = walks.plans_of(model, Sample(inputs, normal(2, 2)), masks, CrossEntropy())
    assert plan.most_outcomes() == pytest.approx(2**4 * outcomes * 2 * 2 * 2 * 3)


def test_zeros_of_either_sign_are_one_value():
    model = ReLUNet([tensor([1.0, 0.0, 2.0], [1.0, -0.0, 2.0]), tensor([1.0, 1.0])])
    data = Sample(tensor([1.0, 1.0, 0.5]), tensor([0.0]))
    # equal columns share a coin, the column of zeros has none, and both units are copies
    assert relu_cost(model, data, Bernoulli(0.5, 5)).outcomes == pytest.approx(3)
    (plan,) = walks.plans_of(model, data, Bernoulli(0.5, 5), Squared())
    assert len(plan.weights[0]) == 1


def test_values_too_small_to_add_are_not_one():
    assert copies.label_rows(tensor([1e-20, 1.0], [2e-20, 1.0], [1e-20, 1.0])).tolist() == [0, 1, 0]


def test_a_correlated_last_law_and_two_outputs():
    data = Sample(normal(2, 3), normal(2, 2))
    alike(network((3, 3, 2)), data, Product([Bernoulli(0.4, 3), Block(0.3, 3, 3)]))
    alike(network((3, 3, 2)), data, Product([Block(0.4, 3, 1), Block(0.3, 3, 3)]))
    # a last law that cannot be listed is integrated for squared loss only
    normally = Product([Bernoulli(0.4, 3), Gaussian(0.5, 3)])
    assert torch.isfinite(criterion(network((3, 3, 2)), data, normally).value)
    with pytest.raises(NoClosedForm, match=r"Gaussian.*MonteCarlo\(\)"):
        criterion(network((3, 3, 2)), Sample(data.inputs, torch.tensor([0, 1])), normally, ClosedForm(), CrossEntropy())


def test_rates_of_copies_must_agree():
    """Units alike in all weights but with other rates stay apart, like inputs alike in all but theirs."""
    model = ReLUNet([torch.ones(2, 2).double(), torch.ones(1, 2).double()], [tensor(0.1, 0.1), tensor(0.0)])
    data = Sample(tensor([1.0, 1.0]), tensor([0.5]))
    alike(model, data, Bernoulli(tensor(0.2, 0.7, 0.1, 0.8), 4))
    assert relu_cost(model, data, Bernoulli(tensor(0.2, 0.7, 0.1, 0.8), 4)).outcomes == pytest.approx(4)


@pytest.mark.parametrize("rows", [2, 5])
def test_blocks_of_a_few_rows(rows):
    """Walks in which neither the outcomes nor the states of a layer fit into the memory together."""
    model, data = network((3, 3, 2, 3)), Sample(normal(1, 3), torch.tensor([2]))
    small = ClosedForm(memory=64 * 3 * rows)
    assert Walk(walks.Plan.stages(*_plan(model, data)), MomentLeaf(), small.memory).room == rows
    for masks in (
        Bernoulli(torch.linspace(0.1, 0.8, 8).double(), 8),
        Product([Block(0.3, 3, 1), Bernoulli(0.4, 3), Block(0.2, 2, 1)]),
    ):
        alike(model, data, masks, CrossEntropy(), small)


def _plan(model, data):
    (plan,) = walks.plans_of(model, data, Bernoulli(0.5, model.units), CrossEntropy())
    return plan, data.inputs[0]


@pytest.mark.parametrize("room", [1, 4, 40])
@pytest.mark.parametrize("law", [COINS, Block(0.3, 3, 1)])
def test_blocks_list_every_outcome_of_every_state_within_the_room(law, room):
    states = tensor(*([1.0 + i, 2.0, 3.0] for i in range(6)), [0.0, 1.0, 1.0])
    total, mean = torch.zeros(7).double(), torch.zeros(7, 3).double()
    for block in outcome_blocks(Stage(law, torch.ones(1, 3).double(), tensor(0.0)), states, room):
        assert len(block.states) * len(block.chances) <= room
        total[block.states] += block.chances.sum()
        mean[block.states[:, None], block.units] += block.chances @ block.multipliers
    close(total, torch.ones(7), 1e-14)
    counts = torch.from_numpy(law.counts) if isinstance(law, Coins) else torch.ones(3)
    close(mean[:6], counts.expand(6, 3), 1e-14)


def test_equal_states_are_joined():
    values = tensor([1.0, 2.0], [0.0, 0.0], [1.0, 2.0], [0.0, 0.0], [1.0, 2.0])
    chances = tensor(0.1, 0.0, 0.2, 0.0, 0.3)
    joined, total = merged(values, chances)
    order = joined[:, 0].argsort()
    assert torch.equal(joined[order], tensor([0.0, 0.0], [1.0, 2.0]))
    close(total[order], tensor(0.0, 0.6), 1e-15)
    free = values.clone().requires_grad_(True)
    (slope,) = torch.autograd.grad(merged(free, chances)[0].sum(), free)
    # each has its share of the probability; what never happens has none
    close(slope, chances[:, None].expand(5, 2) / 0.6, 1e-15)
    apart = normal(5, 2)
    assert merged(apart, chances)[0] is apart


# --- half tables ----------------------------------------------------------------------------------------------------


def test_outcomes_of_a_state():
    law = Coins(np.array([1, 3, 1, 2]), np.array([0.5, 0.5, 0.0, 0.5]))
    stage = Stage(law, tensor([1.0, 1, 1, 0], [0, 2, 1, 0]), tensor(0.0, 0.0))
    states = tensor([1.0, 1, 1, 1], [1, 0, 1, 1], [0, 0, 1, 1], [0, 1, 0, 0])
    np.testing.assert_allclose(2 ** outcome_bits(stage, states), [2 * 4, 2, 1, 4])


def test_rows_within_the_memory():
    assert half_rows(np.ones(10, np.int64)) == pytest.approx(2**5)
    assert half_rows(np.array([3, 3])) == pytest.approx(4)
    assert most_rows(10, ROOMY) == pytest.approx(2**20, rel=0.05)
    assert most_rows(100, ROOMY) == pytest.approx(2**20 / 6.6, rel=0.05)
    assert most_rows(10, ROOMY, CPU) * 2 * device_bytes(10) == pytest.approx(ROOMY)
    assert most_rows(10, 1) == 16


def test_the_place_of_a_sum_depends_on_its_length():
    assert moments.place_of_sum(moments.DEVICE_BITS - 1, CPU) is None
    assert moments.place_of_sum(moments.DEVICE_BITS + 1, CPU) is CPU
    assert moments.place_of_sum(moments.DEVICE_BITS + 1, None) is None


def test_a_second_thread_is_for_long_lists(monkeypatch):
    asked = []

    class Pool(moments.ThreadPoolExecutor):
        def __init__(self, workers):
            asked.append(workers)
            super().__init__(workers)

    monkeypatch.setattr(moments, "ThreadPoolExecutor", Pool)
    law = Coins(np.ones(8, np.int64), np.full(8, 0.5))

    def pools(threads, longest, units):
        asked.clear()
        monkeypatch.setattr(moments.torch, "get_num_threads", lambda: threads)
        monkeypatch.setattr(moments, "_SHARED", longest)
        weights, bias = normal(units, 8).numpy(), np.zeros(units)
        walk = Walk([Stage(law, torch.from_numpy(weights), torch.from_numpy(bias))], MomentLeaf(), ROOMY)
        Dominance(weights, bias, law, np.arange(8), walk).moments()
        return list(asked)

    # eight coins make a list of 2^4 + 2^4
    assert pools(2, 32, 2) == [2]
    assert pools(1, 32, 2) == pools(2, 33, 2) == pools(2, 32, 1) == [1]


# --- sampling -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("chunk", [10**6, 7])
@pytest.mark.parametrize("last", [Bernoulli(0.4, 3), Block(0.4, 3, 3)])
def test_sampled_estimate_and_interval(chunk, last, monkeypatch):
    """Given the early masks the expected loss, minus its regression on them; t quantile of what is left."""
    model, data = network((4, 3, 2)), Sample(normal(5, 4), normal(5, 2), torch.linspace(0.5, 2.0, 5).double())
    monkeypatch.setattr(sampling, "CHUNK_ELEMENTS", chunk * 5 * 4)
    sizes, integrated = [], sampling._integrated
    monkeypatch.setattr(sampling, "_integrated", lambda *each: sizes.append(len(each[2])) or integrated(*each))
    # an input that never falls is no control
    early = Bernoulli(tensor(0.3, 0.0, 0.6, 0.5), 4)
    method = MonteCarlo(samples=40, seed=3, confidence=0.9)
    found = penalty(model, data, Product([early, last]), method)
    assert sizes == ([40] if chunk > 40 else [7, 7, 7, 7, 7, 5])
    generator = torch.Generator().manual_seed(3)
    masks = torch.cat([early.multipliers(min(chunk, 40 - i), generator) for i in range(0, 40, chunk)]).numpy()
    inputs, targets, shares = (part.numpy() for part in (data.inputs, data.targets, data.shares))
    (first, second), (bias, offset) = ([part.numpy() for part in group] for group in (model.weights, model.biases))
    law = last.characteristic.numpy() if isinstance(last, Block) else np.diag(last.relative_variance.numpy())
    noise = law * (second.T @ second)

    def expected(row, quadratic):
        hidden = np.maximum((inputs * row) @ first.T + bias, 0.0)
        errors = ((hidden @ second.T + offset - targets) ** 2).sum(1)
        return shares @ (errors + np.einsum("ni,ij,nj->n", hidden, quadratic, hidden))

    values = np.array([expected(row, noise) for row in masks]) - expected(np.ones(4), 0 * noise)
    design = np.c_[np.ones(40), masks[:, [0, 2, 3]] - 1]
    fitted = np.linalg.lstsq(design, values, rcond=None)[0]
    left = values - design @ fitted
    quantile, variance = stats.t.ppf(0.95, 36), (left**2).sum() / 36
    half = quantile * np.sqrt(variance / 40) + quantile**2 / 2 * abs((left**3).mean()) / variance / 40
    close(found.value, fitted[0], 1e-11)
    close((found.upper - found.lower) / 2, half, 1e-9)
    close((found.upper + found.lower) / 2, fitted[0], 1e-11)
    assert f"3 control variates leave {(left**2).sum() / values.var() / 40:.0%} of the variance" in found.method
    assert "control" not in penalty(model, data, Product([early, last]), MonteCarlo(samples=8)).method


def test_sampling_a_batch_of_networks():
    """The same masks for every network; each has its own controls."""
    data, masks = Sample(normal(5, 4), normal(5, 2)), Bernoulli(0.4, 7)
    apart = [network((4, 3, 2), seed=seed) for seed in (0, 7)]
    batch = ReLUNet(
        [torch.stack(pair) for pair in zip(*(model.weights for model in apart), strict=True)],
        [torch.stack(pair) for pair in zip(*(model.biases for model in apart), strict=True)],
    )
    found = penalty(batch, data, masks, MonteCarlo(samples=60))
    for i, model in enumerate(apart):
        one = penalty(model, data, masks, MonteCarlo(samples=60))
        close(found.value[i], one.value, 1e-11)
        close(found.lower[i], one.lower, 1e-11)


@pytest.mark.parametrize("outputs", [2, 150])
@pytest.mark.parametrize("inputs", [3, 140])
def test_copies_agree_in_all_weights_wherever_the_difference_lies(inputs, outputs):
    """Labels of units whose rows, bias and rate are compared number by number, against all pairs."""
    source = [0, 1, 2, 1, 2, 1, 6, 1, 8]
    before, after = normal(9, inputs, seed=1)[source], normal(outputs, 9, seed=2)[:, source]
    bias, drop = torch.zeros(9, dtype=torch.float64), torch.full((9,), 0.3, dtype=torch.float64)
    bias[5], before[2, 0], before[4, 0], after[0, 2], after[0, 4] = -0.0, 0.0, -0.0, -0.0, 0.0

    def brute() -> list[int]:
        rows = torch.cat([before, bias[:, None], after.mT, drop[:, None]], 1)
        same = (rows[:, None] == rows).all(-1)
        return [int(row.nonzero()[0]) for row in same]

    for change in (None, (before, (7, inputs - 1)), (after, (outputs - 1, 5)), (drop, (1,)), (bias, (2,))):
        if change is not None:
            change[0][change[1]] += 1.0
        firsts = brute()
        labels = {first: number for number, first in enumerate(dict.fromkeys(firsts))}
        assert copies.label_copies(before, bias, after, drop).tolist() == [labels[first] for first in firsts]
