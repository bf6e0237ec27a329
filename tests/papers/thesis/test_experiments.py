"""The experiments of thesis chapters 4 and 5 at a small size: steps by hand, orderings with confidence bands."""

import functools
import math

import pytest
import torch
from scipy import stats

from droptics import coadaptation
from droptics.datasets import DatasetMissing, mnist
from droptics.papers.thesis import chapter4_experiments as chapter4
from droptics.papers.thesis import chapter5_experiments as chapter5


def have(loader):
    try:
        loader()
    except DatasetMissing:
        return False
    return True


@pytest.fixture(scope="module", autouse=True)
def read_once():
    """Cells read their files themselves; here one reading serves all."""
    loader = functools.cache(mnist)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(chapter4._SETS, "mnist", loader)
        patch.setattr(chapter5, "mnist", loader)
        yield


needs_mnist = pytest.mark.skipif(not have(mnist), reason="MNIST not found; name its folder in DROPTICS_DATA")


# ---------------------------------------------------------------- training loops against autograd


def test_dropout_sgd_equals_autograd():
    """One step of the written-out gradients against autograd with the same masks."""
    inputs, targets = torch.rand(8, 5), torch.ones(8, 1)
    start = chapter4.initial_network(5, 6, torch.Generator().manual_seed(0))
    data = chapter4.Sample(inputs, targets)
    moved = chapter4.dropout_sgd(
        start, data, 0.4, epochs=1, rate=0.1, batch=8, generator=torch.Generator().manual_seed(1)
    )
    generator = torch.Generator().manual_seed(1)
    order = torch.randperm(8, generator=generator)
    mask = (torch.rand(8, 6, generator=generator) < 0.6) / 0.6
    V, U = (weight.clone().requires_grad_() for weight in start.weights)
    loss = ((torch.relu(inputs[order] @ V.mT) * mask) @ U.mT - targets).square().mean()
    slopes = torch.autograd.grad(loss, (V, U))
    for weight, slope, result in zip(start.weights, slopes, moved.weights, strict=True):
        assert torch.allclose(weight - 0.1 * slope, result, atol=1e-6)


def test_networks_trained_together_equal_each_alone():
    """A batch of runs with signs, against one run at a time on the signed inputs with the same orders and masks."""
    generator = torch.Generator().manual_seed(0)
    inputs, targets = torch.rand(10, 5, generator=generator), torch.randn(10, 1, generator=generator)
    data = chapter4.Sample(inputs, targets)
    nets = [chapter4.initial_network(5, 6, generator) for _ in range(3)]
    signs = chapter4.random_signs(3, 10, generator)
    stacked = chapter4.ReLUNet([torch.stack(layer) for layer in zip(*(net.weights for net in nets), strict=True)])
    together = chapter4.dropout_sgd(
        stacked, data, 0.4, epochs=2, rate=0.1, batch=4, generator=torch.Generator().manual_seed(1), signs=signs
    )
    draws = torch.Generator().manual_seed(1)
    weights = [[weight.clone() for weight in net.weights] for net in nets]
    for _ in range(2):
        orders = [torch.randperm(10, generator=draws) for _ in range(3)]
        for begin in range(0, 10, 4):
            masks = (torch.rand(3, len(orders[0][begin : begin + 4]), 6, generator=draws) < 0.6) / 0.6
            for run in range(3):
                chosen = orders[run][begin : begin + 4]
                x = inputs[chosen] * signs[run, chosen, None]
                V, U = (weight.requires_grad_() for weight in weights[run])
                loss = ((torch.relu(x @ V.mT) * masks[run]) @ U.mT - targets[chosen]).square().mean()
                slopes = torch.autograd.grad(loss, (V, U))
                weights[run] = [(w - 0.1 * slope).detach() for w, slope in zip((V, U), slopes, strict=True)]
    for run in range(3):
        for layer in range(2):
            assert torch.allclose(together.weights[layer][run], weights[run][layer], atol=1e-6)


@pytest.mark.parametrize("runs", [1, 3])
def test_convolutional_networks_trained_together_equal_each_alone(runs):
    """Runs as one product of stacked filters, against autograd on each module with torch's own SGD."""
    generator = torch.Generator().manual_seed(0)
    images, labels = torch.rand(9, 1, 28, 28, generator=generator), torch.arange(9) % 10
    alone = [chapter5.LeNet(7, seed=i) for i in range(runs)]
    together = chapter5.Runs([chapter5.LeNet(7, seed=i) for i in range(runs)], images, labels, 0.3)
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.3) for net in alone]
    for batch in (4, 4, 1):
        chosen = torch.stack([torch.randperm(9, generator=generator)[:batch] for _ in range(runs)])
        multipliers = (torch.rand(runs, 7, generator=generator) < 0.5) / 0.5
        losses = together.step(chosen, multipliers)
        for run, (net, optimizer) in enumerate(zip(alone, optimizers, strict=True)):
            outputs = net.head(net.features(images[chosen[run]]) * multipliers[run])
            loss = torch.nn.functional.cross_entropy(outputs, labels[chosen[run]])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert float(losses[run]) == pytest.approx(float(loss.detach()), rel=1e-5)
    for net, run in zip(alone, together.networks, strict=True):
        for ours, theirs in zip(run.parameters(), net.parameters(), strict=True):
            assert torch.allclose(ours, theirs, atol=1e-5)


@needs_mnist
def test_runs_of_a_cell_differ_and_are_recorded_one_by_one():
    rows = chapter5.subnetwork_cell(
        width=6, runs=2, epochs=0.1, batch=16, examples=64, tests=40, subnetworks=3, records=2
    )
    assert [row["seed"] for row in rows] == [0, 1] * (len(rows) // 2)
    assert all("smallest" in row for row in rows[-2:])
    assert rows[0]["loss"] != rows[1]["loss"]


def test_images_are_taken_in_parts_that_cover_them():
    for examples, width in ((10, 2**27), (10_000, 250_000), (5, 3), (7, 2**40)):
        parts = chapter5._parts(examples, width)
        assert sum(parts) == examples
        assert all(size * width <= 2**28 or size == 1 for size in parts)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured_steps_equal_single_ones_on_the_gpu():
    images, labels = torch.rand(20, 1, 28, 28), torch.arange(20) % 10
    here = chapter5.Runs([chapter5.LeNet(7, seed=i) for i in range(2)], images, labels, 0.1)
    there = chapter5.Runs([chapter5.LeNet(7, seed=i).cuda() for i in range(2)], images.cuda(), labels.cuda(), 0.1)
    generator = torch.Generator().manual_seed(0)
    for batch in (8, 4, 8):
        chosen, multipliers = torch.randint(0, 20, (2, batch), generator=generator), torch.ones(2, 7)
        left, right = here.step(chosen, multipliers), there.step(chosen.cuda(), multipliers.cuda())
        assert torch.allclose(left, right.cpu(), atol=1e-3)  # convolutions round to 10 bits there


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured_dropout_steps_equal_single_ones_on_the_gpu(monkeypatch):
    data = chapter4.Sample(torch.rand(10, 5).cuda(), torch.ones(10, 1).cuda())
    start = chapter4.ReLUNet([torch.rand(3, 6, 5).cuda(), torch.rand(3, 1, 6).cuda()])
    options = {"epochs": 2, "rate": 0.1, "batch": 4}
    moved = [chapter4.dropout_sgd(start, data, 0.4, generator=torch.Generator("cuda").manual_seed(1), **options)]
    monkeypatch.setattr(chapter4, "captured", lambda advance, state: advance)
    moved += [chapter4.dropout_sgd(start, data, 0.4, generator=torch.Generator("cuda").manual_seed(1), **options)]
    for left, right in zip(moved[0].weights, moved[1].weights, strict=True):
        assert torch.allclose(left, right, atol=1e-6)


def test_network_leaves_the_global_generator_alone_and_is_reproducible():
    state = torch.random.get_rng_state()
    first, second = chapter5.LeNet(12, seed=3), chapter5.LeNet(12, seed=3)
    assert torch.equal(state, torch.random.get_rng_state())
    images = torch.rand(2, 1, 28, 28)
    assert torch.equal(first(images), second(images))
    assert first.features(images).shape == (2, 12)


def test_difference_band():
    low, high = difference_band([0.0, 1.0, 2.0], [1.0, 2.5, 3.0])
    mean, spread = 3.5 / 3, math.sqrt(1 / 12) / math.sqrt(3)
    assert low == pytest.approx(mean - 4.302652729911275 * spread)
    assert high == pytest.approx(mean + 4.302652729911275 * spread)
    with pytest.raises(ValueError, match="pairs"):
        difference_band([0.0], [1.0])


def test_refuses_unknown_sets():
    with pytest.raises(ValueError, match="dataset"):
        chapter4.two_classes("cats")


# ---------------------------------------------------------------- orderings


@pytest.fixture(scope="module")
def trained():
    """phi, alpha and gap for two widths and three rates, four seeds each, with symmetrization."""
    found = {}
    for width in (16, 128):
        for drop in (0.0, 0.5, 0.75):
            found[width, drop] = [
                chapter4.coadaptation_cell(width=width, drop=drop, seed=seed, epochs=12, rate=5e-3, examples=600)[0]
                for seed in range(4)
            ]
    return found


def column(rows, name):
    return [row[name] for row in rows]


@needs_mnist
@pytest.mark.slow
def test_orderings_of_coadaptation(trained):
    """Higher rate: more equal flows and smaller alpha; wider: larger alpha and a weaker effect of dropout."""
    for width in (16, 128):
        for less, more in ((0.0, 0.5), (0.5, 0.75)):
            low, _ = difference_band(column(trained[width, less], "phi"), column(trained[width, more], "phi"), 0.9)
            assert low > 0
            _, high = difference_band(column(trained[width, less], "alpha"), column(trained[width, more], "alpha"), 0.9)
            assert high < 0
    for drop in (0.0, 0.5, 0.75):
        low, _ = difference_band(column(trained[16, drop], "alpha"), column(trained[128, drop], "alpha"))
        assert low > 0
    effect = {
        width: [
            b - a for a, b in zip(column(trained[width, 0.0], "phi"), column(trained[width, 0.75], "phi"), strict=True)
        ]
        for width in (16, 128)
    }
    assert sum(effect[128]) < sum(effect[16])


@needs_mnist
@pytest.mark.slow
def test_plain_sgd_raises_coadaptation(trained):
    """The supposed bias of plain SGD against co-adaptation is that of the start: SGD lowers phi, significantly."""
    for width in (16, 128):
        _, high = difference_band(column(trained[width, 0.0], "phi_start"), column(trained[width, 0.0], "phi"), 0.9)
        assert high < 0
        assert min(column(trained[width, 0.0], "phi_start")) > 0.65


@needs_mnist
@pytest.mark.slow
def test_bounds_are_vacuous_on_two_digits(trained):
    for rows in trained.values():
        for row in rows:
            assert row["bound"] > 4
            assert row["examples_needed"] > 10 * row["examples"]
            assert row["bound"] > row["test_risk"]


@needs_mnist
def test_raw_images_have_no_retentivity():
    row = chapter4.coadaptation_cell(width=8, drop=0.5, symmetrized=False, epochs=1, examples=100)[0]
    assert row["bound"] == math.inf


@needs_mnist
@pytest.mark.slow
def test_wider_networks_have_better_subnetworks():
    """Relative accuracy of unvisited sub-networks against the full network, width 20 against 600, paired seeds."""
    shares = {}
    for width in (20, 600):
        rows = [
            chapter5.subnetwork_cell(
                width=width, drop=0.8, seed=seed, epochs=2, rate=0.05, batch=32, gain=6**0.5, examples=1200, tests=300,
                records=2, subnetworks=20,
            )
            for seed in range(3)
        ]  # fmt: skip
        assert all(row["kept_units"] <= width for run in rows for row in run)
        shares[width] = [run[-1]["unvisited"] / run[-1]["full"] for run in rows]
        steps = [row["step"] for row in rows[0]]
        assert steps == sorted(steps)
    low, _ = difference_band(shares[20], shares[600], 0.8)
    assert low > 0


@needs_mnist
def test_two_classes_of_unit_norm():
    data, test = chapter4.two_classes(classes=(0, 1), examples=50, unit_norm=True)
    assert torch.allclose(data.inputs.norm(dim=1), torch.ones(50), atol=1e-6)
    assert set(data.targets.flatten().tolist()) == {-1.0, 1.0}
    assert len(test) == 50
    assert float(coadaptation.retentivity(data)) == 0.0


def difference_band(first: list[float], second: list[float], confidence: float = 0.95) -> tuple[float, float]:
    """Student's interval for the mean of second - first over paired runs (same seeds, in the same order)."""
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(f"first and second must be pairs of at least 2 runs, got {len(first)} and {len(second)}")
    differences = torch.tensor(second, dtype=torch.float64) - torch.tensor(first, dtype=torch.float64)
    mean, spread = float(differences.mean()), float(differences.std()) / math.sqrt(len(first))
    reach = float(stats.t.ppf(0.5 + confidence / 2, len(first) - 1)) * spread
    return mean - reach, mean + reach
