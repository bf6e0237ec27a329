"""The exact criterion of ReLU networks by operations on whole lists: the path of a GPU, checked here on any machine.

Kernels without a GPU: TRITON_INTERPRET=1 python -m pytest tests/penalties/relu/test_device.py
"""

from __future__ import annotations

import itertools
import os

import numpy as np
import pytest
import torch
from cases import normal
from compare import close
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from droptics.data import Sample
from droptics.masks import Bernoulli
from droptics.models import ReLUNet
from droptics.penalties import ClosedForm, Enumerate, criterion, relu_cost
from droptics.penalties.relu import criterion as walks
from droptics.penalties.relu import moments, triton_sums
from droptics.penalties.relu.device import Outcomes, dominance_sum, split_steps
from droptics.penalties.relu.moments import Dominance, MomentLeaf
from droptics.penalties.relu.outcomes import Coins, Stage, Walk

CPU = torch.device("cpu")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
needs_kernels = pytest.mark.skipif(
    bool(triton_sums.missing()) or not (torch.cuda.is_available() or INTERPRETED),
    reason="needs triton and a GPU or TRITON_INTERPRET=1",
)


def outcomes(size: int, seed: int = 0, ties: bool = False) -> Outcomes:
    """A list sorted along the first unit, some of it right, some left, some padding."""
    rng = np.random.default_rng(seed)
    first, other = rng.standard_normal((2, size))
    if ties:
        first, other = np.round(first), np.round(other)
    first = np.sort(first)[::-1].copy()
    rank = np.empty(size, np.int32)
    rank[np.argsort(-other)] = np.arange(size, dtype=np.int32)
    weight = rng.random(size) * rng.choice([-1.0, 0.0, 1.0], size)
    return Outcomes(*(torch.from_numpy(part) for part in (rank, first, other, weight)))


def every_pair(listed: Outcomes) -> Tensor:
    """The sum over all pairs of E relu relu, written out."""
    x, y = ((part[:, None] - part).clamp_min(0.0) for part in (listed.first, listed.other))
    return (listed.weight.clamp_min(0.0)[:, None] * listed.weight.clamp_max(0.0).neg() * x * y).sum()


@pytest.mark.parametrize("size", [2, 16, 32, 256, 4096])
@pytest.mark.parametrize("ties", [False, True])
def test_sum_over_a_list(size: int, ties: bool) -> None:
    listed = outcomes(size, ties=ties)
    close(dominance_sum(listed), every_pair(listed), 1e-13)


@needs_kernels
@pytest.mark.parametrize("size", [2, 16, 64, 512])
@pytest.mark.parametrize("ties", [False, True])
def test_kernels(size: int, ties: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_sums, "TILE", 32)
    listed = outcomes(size, ties=ties)
    device = CPU if INTERPRETED else torch.device("cuda")
    there = listed.map(lambda part: part.to(device))
    found = triton_sums.dominance_sum(there.rank, there.first, there.other, there.weight)
    close(found.cpu(), every_pair(listed), 1e-13)


def both_ways(
    weights: np.ndarray, bias: np.ndarray, law: Coins, memory: int = 2**30
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    walk = Walk([Stage(law, torch.from_numpy(weights), torch.from_numpy(bias))], MomentLeaf(), memory)
    chosen = np.arange(weights.shape[1])
    compiled, listed = (Dominance(weights, bias, law, chosen, walk, place).moments() for place in (None, CPU))
    return compiled, listed


@pytest.mark.parametrize("inputs", [20, 23, 26])
def test_moments_equal_the_compiled_ones(inputs: int) -> None:
    rng = np.random.default_rng(inputs)
    law = Coins(np.ones(inputs, np.int64), rng.uniform(0.05, 0.95, inputs))
    compiled, listed = both_ways(rng.standard_normal((3, inputs)), rng.standard_normal(3), law)
    for found, wanted in zip(listed, compiled, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


@pytest.mark.parametrize("memory", [2**30, 2**13])
def test_moments_of_binomial_counts(memory: int) -> None:
    """Copies, and so little memory that coins are enumerated outside."""
    rng = np.random.default_rng(0)
    counts = np.array([1, 3, 1, 2, 4, 1, 1, 2])
    law = Coins(counts, rng.uniform(0.05, 0.95, 8))
    compiled, listed = both_ways(rng.standard_normal((2, 8)), rng.standard_normal(2), law, memory)
    for found, wanted in zip(listed, compiled, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_progress_adds_up() -> None:
    """Shares of the work that are reported sum to what the estimate says of it."""
    done: list[float] = []
    law = Coins(np.ones(8, np.int64), np.full(8, 0.5))
    weights, bias = np.random.default_rng(0).standard_normal((3, 8)), np.zeros(3)
    stage = Stage(law, torch.from_numpy(weights), torch.from_numpy(bias))
    walk = Walk([stage], MomentLeaf(), 2**30, done.append)
    Dominance(weights, bias, law, np.arange(8), walk, CPU).moments()
    assert len(done) == 3
    assert sum(done) == pytest.approx(6 * split_steps(CPU) * 32 * 5)


@pytest.fixture
def remote(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every sum takes the path of a device, however few outcomes there are."""
    monkeypatch.setattr(moments, "DIRECT_BITS", -1.0)
    monkeypatch.setattr(moments, "DEVICE_BITS", -1.0)
    monkeypatch.setattr(walks.Plan, "accelerator", CPU)


@pytest.mark.usefixtures("remote")
@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 3), st.integers(0, 2**20), st.sampled_from([0.0, 1e-9, 0.3, 0.97]))
def test_degenerate_networks(inputs: int, units: int, seed: int, drop: float) -> None:
    """Ties, zeros, copies, inputs that never fall, one unit."""
    rng = np.random.default_rng(seed)
    weights = [torch.tensor(rng.integers(-1, 2, shape).astype(float)) for shape in ((units, inputs), (1, units))]
    model = ReLUNet(weights, [torch.tensor(rng.integers(-1, 2, size).astype(float)) for size in (units, 1)])
    data = Sample(torch.tensor(rng.integers(-1, 2, (2, inputs)).astype(float)), torch.ones(2, 1).double())
    masks = Bernoulli(torch.tensor(rng.choice([0.0, drop], model.units)), model.units)
    truth = criterion(model, data, masks, Enumerate()).value
    close(criterion(model, data, masks).value, truth, 1e-12, max(1.0, float(truth)))


@pytest.mark.usefixtures("remote")
@pytest.mark.parametrize("sizes", [(6, 4, 2), (3, 4, 3, 1)])
def test_values_by_lists_and_gradients_by_loops(sizes: tuple[int, ...]) -> None:
    weights = [normal(b, a, seed=a).requires_grad_(True) for a, b in itertools.pairwise(sizes)]
    model = ReLUNet(weights, [normal(b, seed=b) for b in sizes[1:]])
    data, masks = Sample(normal(2, sizes[0]), normal(2, sizes[-1])), Bernoulli(0.4, model.units)
    values = [criterion(model, data, masks, method).value for method in (ClosedForm(), Enumerate(2**20))]
    close(*values, 1e-13)
    for found, wanted in zip(*(torch.autograd.grad(value, weights) for value in values), strict=True):
        close(found, wanted, 1e-12, float(wanted.abs().max()))


@pytest.mark.usefixtures("remote")
def test_estimate_for_a_device() -> None:
    """Four times the list, a little more than four times the work; beyond the memory coins multiply it."""
    found = []
    for inputs in (28, 32):
        model = ReLUNet([normal(4, inputs), normal(1, 4)])
        sample, masks = Sample(normal(1, inputs), normal(1, 1)), Bernoulli(0.5, inputs + 4)
        found.append(relu_cost(model, sample, masks).seconds)
    assert found[1] / found[0] == pytest.approx(4 * 17 / 15)


@needs_gpu
@pytest.mark.parametrize("inputs", [12, 30])
def test_networks_on_a_gpu(inputs: int) -> None:
    weights, biases = [normal(5, inputs), normal(1, 5)], [normal(5), normal(1)]
    data, masks = Sample(normal(2, inputs), normal(2, 1)), Bernoulli(0.5, inputs + 5)
    found = []
    for device in ("cpu", "cuda"):
        free = [weight.to(device).requires_grad_(True) for weight in weights]
        model = ReLUNet(free, [bias.to(device) for bias in biases])
        value = criterion(model, Sample(data.inputs.to(device), data.targets.to(device)), masks).value
        assert value.device.type == device
        found.append([value.detach(), *torch.autograd.grad(value, free)])
    for wanted, there in zip(*found, strict=True):
        close(there.cpu(), wanted, 1e-12, float(wanted.abs().max()))


@pytest.mark.parametrize("slopes", [False, True])
def test_threads_do_not_change_results(slopes: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "_SHARED", 1)
    law = Coins(np.ones(14, np.int64), np.linspace(0.1, 0.8, 14))
    weights, bias = np.random.default_rng(0).standard_normal((4, 14)), np.zeros(4)
    walk = Walk([Stage(law, torch.from_numpy(weights), torch.from_numpy(bias))], MomentLeaf(), 2**30)
    part = Dominance(weights, bias, law, np.arange(14), walk)
    found = []
    for threads in (1, 2):
        monkeypatch.setattr(moments.torch, "get_num_threads", lambda threads=threads: threads)
        found.append(part.slopes(np.ones(4), weights[:, :4].copy()) if slopes else part.moments())
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
