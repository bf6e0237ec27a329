"""The exact criterion of ReLU networks against enumeration of all masks, and what the estimate of its cost promises."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pytest
import torch
from cases import normal
from compare import close, covers
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad

from droptics.data import Sample
from droptics.errors import NoClosedForm
from droptics.losses import CrossEntropy, Loss, Squared
from droptics.masks import Bernoulli, Block, Discrete, Gaussian, MaskLaw, Product, SlidingBlock
from droptics.models import ReLUNet
from droptics.penalties import (
    ClosedForm,
    Enumerate,
    MonteCarlo,
    best_method,
    criterion,
    penalty,
    relu_cost,
    relu_criterion,
)
from droptics.penalties.relu import criterion as criteria
from droptics.penalties.relu import moments
from droptics.penalties.relu.kernels import half_table, split_coins
from droptics.penalties.relu.output_moments import relu_output_moments

ALL = Enumerate(limit=2**20)
DEPTHS = [(4, 5, 2), (3, 1, 1), (3, 4, 2, 2), (2, 3, 2, 3, 1)]


def network(sizes: tuple[int, ...], seed: int = 0, bias: bool = True) -> ReLUNet:
    weights = [normal(b, a, seed=seed + 10 * i) for i, (a, b) in enumerate(itertools.pairwise(sizes))]
    return ReLUNet(weights, [normal(b, seed=seed + 5) for b in sizes[1:]] if bias else None)


def examples(sizes: tuple[int, ...], count: int = 3, seed: int = 1) -> Sample:
    return Sample(normal(count, sizes[0], seed=seed), normal(count, sizes[-1], seed=seed + 1))


def rates(sizes: tuple[int, ...], seed: int = 2) -> Product:
    generator = torch.Generator().manual_seed(seed)
    return Product([Bernoulli(0.9 * torch.rand(size, generator=generator).double(), size) for size in sizes[:-1]])


@pytest.fixture(params=["direct", "tree", "split"])
def kernel(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """All ways to sum; 'tree' and 'split' are used for any number of coins, also for none."""
    if request.param != "direct":
        monkeypatch.setattr(moments, "DIRECT_BITS", -1.0)
    if request.param == "split":
        monkeypatch.setattr(moments, "_TREE", 0)
    return str(request.param)


def test_worked_example() -> None:
    model = ReLUNet([torch.ones(2, 2).double(), torch.ones(1, 2).double()])
    data = Sample(torch.tensor([[1.0, -1.0]]).double(), torch.tensor([[8.0]]).double())
    answer = criterion(model, data, Bernoulli(0.5, 4))
    assert float(answer.value) == 54.0
    assert float(penalty(model, data, Bernoulli(0.5, 4)).value) == -10.0
    assert answer.confidence == 1.0


@pytest.mark.parametrize("sizes", DEPTHS)
def test_equals_enumeration(sizes: tuple[int, ...], kernel: str) -> None:
    model, data, masks = network(sizes), examples(sizes), rates(sizes)
    close(criterion(model, data, masks).value, criterion(model, data, masks, ALL).value, 1e-13)


@pytest.mark.parametrize("sizes", DEPTHS)
def test_gradients_equal_enumeration(sizes: tuple[int, ...], kernel: str) -> None:
    model = network(sizes)
    with torch.no_grad():
        model.weights[0][:, 0] = 0.0  # a dead input still has a gradient
        model.weights[1][:, 0] = 0.0
    inputs = normal(3, sizes[0], seed=1).requires_grad_(True)
    free = [tensor.requires_grad_(True) for tensor in model.tensors] + [inputs]
    data = Sample(inputs, normal(3, sizes[-1], seed=2), torch.tensor([0.2, 1.0, 3.0]).double())
    ours = torch.autograd.grad(criterion(model, data, rates(sizes)).value, free)
    theirs = torch.autograd.grad(criterion(model, data, rates(sizes), ALL).value, free)
    scale = max(float(part.abs().max()) for part in theirs)
    for left, right in zip(ours, theirs, strict=True):
        close(left, right, 1e-12, scale)


@pytest.mark.parametrize("sizes", DEPTHS)
def test_any_loss(sizes: tuple[int, ...]) -> None:
    sizes = (*sizes[:-1], 3)
    model = network(sizes)
    free = [tensor.requires_grad_(True) for tensor in model.tensors]
    data = Sample(normal(3, sizes[0], seed=1), torch.tensor([0, 2, 1]))
    ours, theirs = (
        criterion(model, data, rates(sizes), method, CrossEntropy()).value for method in (ClosedForm(), ALL)
    )
    close(ours, theirs, 1e-13)
    for left, right in zip(torch.autograd.grad(ours, free), torch.autograd.grad(theirs, free), strict=True):
        close(left, right, 1e-11, 1.0)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.integers(1, 3), min_size=2, max_size=4),
    st.integers(0, 2**20),
    st.sampled_from([0.0, 1e-9, 0.3, 0.97]),
)
def test_degenerate_networks(layers: list[int], seed: int, drop: float) -> None:
    sizes = (*layers, 1)
    rng = np.random.default_rng(seed)
    # whole numbers make ties, zeros and copies likely
    weights = [torch.tensor(rng.integers(-1, 2, (b, a)).astype(float)) for a, b in itertools.pairwise(sizes)]
    model = ReLUNet(weights, [torch.tensor(rng.integers(-1, 2, b).astype(float)) for b in sizes[1:]])
    data = Sample(torch.tensor(rng.integers(-1, 2, (2, sizes[0])).astype(float)), torch.ones(2, 1).double())
    rate = torch.tensor(rng.choice([0.0, drop], model.units))
    masks = Bernoulli(rate, model.units)
    truth = criterion(model, data, masks, ALL).value
    close(criterion(model, data, masks).value, truth, 1e-12, max(1.0, float(truth)))


def test_early_laws_may_be_any_finite_law() -> None:
    sizes = (4, 3, 2, 1)
    model, data = network(sizes), examples(sizes)
    masks = Product([Block(0.3, 4, 2), SlidingBlock(0.2, 3, 2), Block(0.4, 2, 2)])
    free = [tensor.requires_grad_(True) for tensor in model.tensors]
    ours, theirs = criterion(model, data, masks).value, criterion(model, data, masks, ALL).value
    close(ours, theirs, 1e-13)
    for left, right in zip(torch.autograd.grad(ours, free), torch.autograd.grad(theirs, free), strict=True):
        close(left, right, 1e-12, float(ours.detach()))


def test_last_law_may_be_continuous() -> None:
    sizes = (3, 4, 1)
    model, data = network(sizes), examples(sizes)
    answer = penalty(model, data, Product([Bernoulli(0.3, 3), Gaussian(0.7, 4)])).value
    # only mean and covariance of the last mask matter: a Bernoulli of the same variance gives the same
    close(answer, penalty(model, data, Product([Bernoulli(0.3, 3), Bernoulli(0.7 / 1.7, 4)]), ALL).value, 1e-12)


@pytest.mark.parametrize("masks", [Gaussian(0.5, 6), Product([Gaussian(0.5, 4), Bernoulli(0.5, 2)])])
def test_refuses_what_it_cannot_enumerate(masks: MaskLaw) -> None:
    model = network((4, 2, 1))
    with pytest.raises(NoClosedForm, match=r"MonteCarlo\(\)"):
        penalty(model, examples((4, 2, 1)), masks)


def test_per_example_values_and_batches_of_networks() -> None:
    first, second = network((3, 4, 2), seed=1), network((3, 4, 2), seed=2)
    stack = ReLUNet(
        [torch.stack(pair) for pair in zip(first.weights, second.weights, strict=True)],
        [torch.stack(pair) for pair in zip(first.biases, second.biases, strict=True)],
    )
    data, masks = examples((3, 4, 2)), rates((3, 4, 2))
    both = relu_criterion(stack, data, masks)
    assert both.shape == (2, 3)
    for row, model in zip(both, (first, second), strict=True):
        for i in range(3):
            one = Sample(data.inputs[i : i + 1], data.targets[i : i + 1])
            close(row[i], criterion(model, one, masks, ALL).value, 1e-13)


def test_single_precision_keeps_its_type() -> None:
    model, data = network((4, 5, 2)), examples((4, 5, 2))
    small = ReLUNet([w.float() for w in model.weights], [b.float() for b in model.biases])
    answer = criterion(small, data.to(torch.float32), rates((4, 5, 2))).value
    assert answer.dtype == torch.float32
    # inputs are rounded to 24 bits; the sum itself is in double precision
    close(answer, criterion(model, data, rates((4, 5, 2))).value, 1e-5)


def test_memory_budget_enumerates_coins_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "DIRECT_BITS", -1.0)
    model, data, masks = network((12, 3, 1)), examples((12, 3, 1), count=1), rates((12, 3, 1))
    free = [tensor.requires_grad_(True) for tensor in model.tensors]
    roomy, tight = (criterion(model, data, masks, ClosedForm(memory=memory)).value for memory in (2**30, 4096))
    close(tight, roomy, 1e-12)
    for left, right in zip(torch.autograd.grad(tight, free), torch.autograd.grad(roomy, free), strict=True):
        close(left, right, 1e-11, float(roomy.detach()))


def test_sorted_sum_equals_direct_sum_at_eighteen_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    model, data = network((18, 6, 1)), examples((18, 6, 1), count=1)
    monkeypatch.setattr(moments, "DIRECT_BITS", 30.0)
    direct = criterion(model, data, Bernoulli(0.4, 24)).value
    monkeypatch.setattr(moments, "DIRECT_BITS", -1.0)
    close(criterion(model, data, Bernoulli(0.4, 24)).value, direct, 1e-12)


def test_copies_become_binomial_counts() -> None:
    # 600 equal inputs and 700 equal units: 601 outcomes instead of 2^600
    inputs, width, drop = 600, 700, 0.3
    model = ReLUNet(
        [torch.full((width, inputs), 0.01, dtype=torch.float64), torch.full((1, width), 0.02, dtype=torch.float64)]
    )
    data = Sample(torch.ones(1, inputs).double(), torch.zeros(1, 1).double())
    masks = Bernoulli(drop, inputs + width)
    assert relu_cost(model, data, masks).outcomes == pytest.approx(inputs + 1)
    # second moment of a binomial: n k (1 + (n - 1) k) with keep k, divided by k^2
    second = 0.01**2 * inputs * (1 + (inputs - 1) * 0.7) / 0.7
    expected = 0.02**2 * second * (width**2 + 0.3 / 0.7 * width)
    close(criterion(model, data, masks).value, expected, 1e-12)


def test_gradients_of_copies_are_shared() -> None:
    weights = [torch.ones(4, 3).double().requires_grad_(True), torch.full((1, 4), 0.5).double().requires_grad_(True)]
    data = Sample(torch.tensor([[1.0, 1.0, -0.5]]).double(), torch.ones(1, 1).double())
    model = ReLUNet(weights)
    ours = torch.autograd.grad(criterion(model, data, Bernoulli(0.4, 7)).value, weights)
    theirs = torch.autograd.grad(criterion(model, data, Bernoulli(0.4, 7), ALL).value, weights)
    for left, right in zip(ours, theirs, strict=True):
        close(left, right, 1e-12)


def test_copies_count_without_masks_too() -> None:
    """What masks add is told apart from the loss without them, where inputs and units of every layer repeat."""
    base, twice = network((2, 2, 2, 2)), [0, 0, 1]
    wide = [weight[:, twice] for weight in base.weights]
    model = ReLUNet([wide[0][twice], wide[1][twice], wide[2]])
    data = Sample(examples((2, 2)).inputs[:, twice], examples((2, 2)).targets)
    close(penalty(model, data, Bernoulli(0.3, 9)).value, penalty(model, data, Bernoulli(0.3, 9), ALL).value, 1e-11)


def test_seconds_of_a_batch_are_those_of_its_networks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(criteria, "kernel_seconds", lambda: 1.0)
    model, data = network((5, 3, 1)), examples((5, 3, 1))
    three = ReLUNet([torch.stack([weight] * 3) for weight in model.weights])
    alone = relu_cost(model, data, Bernoulli(0.5, 8)).seconds
    assert relu_cost(three, data, Bernoulli(0.5, 8)).seconds == pytest.approx(3 * alone, rel=1e-12)


def test_cost_is_the_number_of_outcomes() -> None:
    model, data = network((5, 3, 1)), examples((5, 3, 1))
    assert relu_cost(model, data, Bernoulli(0.5, 8)).outcomes == pytest.approx(3 * 2**5)
    sparse = Sample(data.inputs * torch.tensor([1.0, 0, 1, 0, 0]).double(), data.targets)
    assert relu_cost(model, sparse, Bernoulli(0.5, 8)).outcomes == pytest.approx(3 * 2**2)
    # deeper: only live units count, so between 2^K and 2^(K + n), estimated
    deep = relu_cost(network((5, 4, 3, 1)), examples((5, 4, 3, 1)), Bernoulli(0.5, 12)).outcomes
    assert 3 * 2**5 < deep < 3 * 2**9


def test_too_long_is_refused_with_count_and_time() -> None:
    sizes = (60, 8, 1)
    model, data = network(sizes), examples(sizes, count=1)
    with pytest.raises(NoClosedForm, match=r"1\.15e\+18 mask outcomes.*MonteCarlo\(\)"):
        penalty(model, data, Bernoulli(0.5, 68))
    assert isinstance(best_method(model, data, Bernoulli(0.5, 68)), MonteCarlo)
    assert isinstance(best_method(network((6, 8, 1)), examples((6, 8, 1)), Bernoulli(0.5, 14)), ClosedForm)


def test_units_and_inputs_that_differ_in_their_rate_alone_are_no_copies() -> None:
    again = [0, 1, 1, 0, 0]
    weights = [normal(2, 3)[again][:, [0, 1, 1]], normal(2, 2)[:, again], normal(2, 2, seed=1)]
    model = ReLUNet(weights, [1 + normal(2)[again], 2 + normal(2, seed=1), normal(2, seed=2)])
    inputs = normal(4, 3)[:, [0, 1, 1]]
    data = Sample(inputs, normal(4, 2))
    drops = ([0.2, 0.1, 0.6], [0.3, 0.2, 0.5, 0.3, 0.7], [0.4, 0.25])
    law = Product([Bernoulli(torch.tensor(drop, dtype=torch.float64), len(drop)) for drop in drops])
    weight = model.weights[0].requires_grad_()
    ours, theirs = (criterion(model, data, law, method).value for method in (ClosedForm(), ALL))
    close(ours, theirs, 1e-13)
    slopes = [torch.autograd.grad(value, weight)[0] for value in (ours, theirs)]
    assert bool(slopes[1].any())
    close(*slopes, 1e-12)


def test_the_time_that_is_allowed_is_that_of_the_caller() -> None:
    """2^24 outcomes and more are estimated first, and no machine sums them in a nanosecond."""
    sizes = (30, 4, 2)
    model, data, law = network(sizes), examples(sizes), rates(sizes)
    short = ClosedForm(seconds=1e-9)
    for ask in (relu_criterion, criterion, penalty):
        with pytest.raises(NoClosedForm, match="more than the 1e-09 s allowed"):
            ask(model, data, law, short)


@pytest.mark.parametrize("sizes", DEPTHS)
@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
def test_second_derivatives_are_refused(sizes: tuple[int, ...], loss: Loss) -> None:
    """Also where only what leads to the weights is computed, and a first derivative leads there without the sum."""
    sizes = (*sizes[:-1], 2)
    model, known = network(sizes), examples(sizes)
    data = known if isinstance(loss, Squared) else Sample(known.inputs, torch.tensor([0, 1, 1]))
    free = [part.requires_grad_() for part in model.tensors[:2]]
    value = criterion(model, data, rates(sizes), loss=loss).value
    plain = torch.autograd.grad(value, free, retain_graph=True)
    slopes = torch.autograd.grad(value, free, create_graph=True)
    for one, other in zip(slopes, plain, strict=True):
        assert torch.equal(one, other)
    for total in (slopes[0].sum(), slopes[0].sum() + free[0].square().sum()):
        with pytest.raises(NotImplementedError, match="differentiable once"):
            torch.autograd.grad(total, free[0], retain_graph=True)
        with pytest.raises(NotImplementedError, match="differentiable once"):
            total.backward(retain_graph=True)


@pytest.mark.parametrize("sizes", DEPTHS)
@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
def test_derivatives_in_laws_that_are_summed_over_are_refused(sizes: tuple[int, ...], loss: Loss) -> None:
    """By every way torch differentiates, also where the integrated mask has one; others are not touched by that."""
    sizes, units = (*sizes[:-1], 2), sum(sizes[:-1])
    model, known = network(sizes), examples(sizes)
    data = known if isinstance(loss, Squared) else Sample(known.inputs, torch.tensor([0, 1, 1]))
    point = torch.full((units,), 0.3).double()
    answers: list[Callable[[MaskLaw], Tensor]] = [
        lambda law: penalty(model, data, law, loss=loss).value,
        lambda law: criterion(model, data, law, loss=loss).value,
    ]
    eager: list[Callable[[MaskLaw], Tensor]] = [lambda law: relu_criterion(model, data, law, loss=loss).sum()]
    if isinstance(loss, Squared):
        eager += [lambda law, k=k: relu_output_moments(model, data.inputs, law)[k].sum() for k in (0, 1)]  # type: ignore[misc]
    for answer in answers + eager:
        drop = point.clone().requires_grad_()
        with pytest.raises(NotImplementedError, match="no derivative in the laws that it sums over"):
            answer(Bernoulli(drop, units)).backward()
        with forward_ad.dual_level(), pytest.raises(NotImplementedError):
            answer(Bernoulli(forward_ad.make_dual(point, point), units))
    for answer in answers:
        for asked in (torch.func.grad, lambda f: torch.func.vmap(torch.func.grad(f))):
            given = point if asked is torch.func.grad else torch.stack([point, 0.5 * point])
            with pytest.raises(NotImplementedError, match="no derivative in the laws that it sums over"):
                asked(lambda drop, answer=answer: answer(Bernoulli(drop, units)))(given)
        with pytest.raises((NotImplementedError, RuntimeError)):
            torch.func.jvp(lambda drop, answer=answer: answer(Bernoulli(drop, units)), (point,), (point,))


def test_derivatives_in_listed_masks_are_refused() -> None:
    masks = (1 + torch.eye(4)).double().requires_grad_()
    law = Product([Discrete(masks, torch.full((4,), 0.25).double()), Bernoulli(0.3, 5)])
    with pytest.raises(NotImplementedError, match="no derivative in the laws that it sums over"):
        penalty(network((4, 5, 2)), examples((4, 5, 2)), law).value.backward()


class Alternate(MaskLaw):
    """One half of four units falls, or the other: a law without tensors."""

    size, support_count = 4, 2
    mean = torch.full((4,), 0.5).double()
    covariance = torch.tensor([[1, -1, 1, -1], [-1, 1, -1, 1]] * 2).double() / 4

    def sample(self, count: int, generator: torch.Generator) -> Tensor:
        raise NotImplementedError

    def support_batches(self, batch: int) -> Iterator[tuple[Tensor, Tensor]]:
        yield torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1]]).double(), torch.full((2,), 0.5).double()


def test_a_law_without_tensors_is_summed_over_under_a_transform() -> None:
    def answer(drop: Tensor, method: ClosedForm | Enumerate = ClosedForm()) -> Tensor:
        return penalty(
            network((4, 5, 2)), examples((4, 5, 2)), Product([Alternate(), Bernoulli(drop, 5)]), method
        ).value

    drop = torch.full((5,), 0.3).double()
    close(torch.func.grad(answer)(drop), torch.func.grad(partial(answer, method=ALL))(drop), 1e-10)


@pytest.mark.parametrize("loss", [Squared(), CrossEntropy()])
def test_rates_that_want_a_derivative_leave_those_in_weights(loss: Loss) -> None:
    model, known = network((3, 4, 2)), examples((3, 4, 2))
    data = known if isinstance(loss, Squared) else Sample(known.inputs, torch.tensor([0, 1, 1]))
    free = [part.requires_grad_() for part in model.tensors]
    drop = torch.full((7,), 0.3).double().requires_grad_()
    found, wanted = (
        torch.autograd.grad(penalty(model, data, Bernoulli(rate, 7), method, loss).value, free)
        for rate, method in ((drop, ClosedForm()), (drop.detach(), ALL))
    )
    for one, other in zip(found, wanted, strict=True):
        close(one, other, 1e-10)


@pytest.mark.parametrize("bad", [{"seconds": 0.0}, {"seconds": float("nan")}, {"memory": 0}])
def test_bad_limits(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        ClosedForm(**bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("sizes", [(6, 7, 2), (4, 5, 3, 1)])
def test_monte_carlo_covers_and_integrates_the_last_layer(sizes: tuple[int, ...]) -> None:
    model, data, masks = network(sizes), examples(sizes), Bernoulli(0.3, sum(sizes[:-1]))
    truth = penalty(model, data, masks).value
    answer = penalty(model, data, masks, MonteCarlo(samples=4000, seed=3))
    covers(answer, truth)
    assert "last layer integrated" in answer.method
    assert answer.guaranteed is not None
    assert float(answer.guaranteed[0]) <= float(truth) <= float(answer.guaranteed[1])


def test_monte_carlo_intervals_cover_at_their_confidence() -> None:
    sizes = (4, 5, 1)
    model, data, masks = network(sizes), examples(sizes), Bernoulli(0.4, 9)
    truth = float(penalty(model, data, masks).value)
    hits = 0
    for seed in range(200):
        low, high = penalty(model, data, masks, MonteCarlo(samples=200, seed=seed, confidence=0.9)).interval
        hits += float(low) <= truth <= float(high)
    # 200 trials at 0.9: below 165 with probability 5e-4, so a broken interval shows and a right one passes
    assert hits >= 165


def test_monte_carlo_variance_is_reduced() -> None:
    sizes = (6, 8, 1)
    model, data, masks = network(sizes), examples(sizes), Bernoulli(0.5, 14)
    integrated = penalty(model, data, masks, MonteCarlo(samples=2000))
    from_masks = torch.stack([
        (model.outputs(data.inputs, z) - data.targets).square().sum(-1).mean()
        for z in masks.multipliers(2000, torch.Generator().manual_seed(0))
    ])  # fmt: skip
    plain_width = 2 * 2.58 * float(from_masks.std()) / math.sqrt(2000)
    width = float(integrated.upper - integrated.lower)
    assert width < 0.7 * plain_width  # half the variance and more


def test_monte_carlo_with_a_correlated_last_law_and_few_samples() -> None:
    sizes = (3, 4, 1)
    masks = Product([Bernoulli(0.3, 3), Block(0.4, 4, 2)])
    model, data = network(sizes), examples(sizes)
    covers(penalty(model, data, masks, MonteCarlo(samples=20)), penalty(model, data, masks).value)
    shared = Block(0.5, 6, 3)
    square = network((3, 3, 1))
    answer = penalty(square, examples((3, 3, 1)), shared, MonteCarlo(samples=2000))
    covers(answer, penalty(square, examples((3, 3, 1)), shared, ALL).value)


def test_half_tables_list_every_outcome() -> None:
    counts, drop = np.array([2, 1, 3]), np.array([0.2, 0.5, 0.9])
    columns = np.arange(6.0).reshape(2, 3)
    table, chances = half_table(columns, counts, drop, np.array([0, 1, 2]), np.zeros(2))
    assert table.shape == (2, 24)
    assert chances.sum() == pytest.approx(1.0, abs=1e-15)
    # E Z = count for every coin
    np.testing.assert_allclose(table @ chances, columns @ counts, rtol=1e-13)
    left, right = split_coins(counts, np.array([0, 1, 2]))
    assert sorted([*left, *right]) == [0, 1, 2]


def test_loss_is_the_criterion_of_the_loss() -> None:
    model, data, masks = network((4, 5, 2)), examples((4, 5, 2)), rates((4, 5, 2))

    class Other(Loss):
        """Squared loss that is not recognized as such, so every layer is enumerated."""

        def __call__(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            return Squared()(outputs, targets)

    close(relu_criterion(model, data, masks, loss=Other()), relu_criterion(model, data, masks), 1e-13)
