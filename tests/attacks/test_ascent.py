"""What makes the search fast leaves its result alone; and a network trained against an attack withstands it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import pytest
import torch
from attack_methods import METHODS
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from torch import Tensor, nn

from droptics.attacks import (
    Apgd,
    Bim,
    CrossEntropy,
    Fgsm,
    LinearExact,
    Logistic,
    Loss,
    Margin,
    Pgd,
    Reflected,
    Threat,
    attack,
    perturb,
    search,
)
from droptics.attacks.ascent import Ascent
from droptics.attacks.asking import AskingAscent
from droptics.attacks.device import DeviceAscent
from droptics.attacks.gradients import Autograd, differentiable
from droptics.attacks.losses import beaten, margins, mistaken, values
from droptics.data import Sample
from droptics.models import ReLUNet
from droptics.papers.thesis.leaky import LeakyNet, beta_robust_error, effective, smallest_score
from droptics.training import Adversarial, Plain, train


def network(seed: int, classes: int = 4, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, classes)).to(dtype)


def problem(seed: int, count: int = 150) -> tuple[nn.Sequential, Tensor, Tensor]:
    net = network(seed)
    points = torch.rand(count, 10, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    with torch.no_grad():
        labels = net(points).argmax(1)
    labels[::9] = (labels[::9] + 1) % 4
    return net, points, labels


def plain_pgd(net: nn.Module, points: Tensor, labels: Tensor, threat: Threat, sizes: list[float]) -> Tensor:
    """The textbook loop with nothing left out: the first fooling iterate, or the one of largest loss."""
    region = threat.around(points)
    now, best = points, points.clone()
    value = torch.full((len(points),), -math.inf, dtype=points.dtype)
    fooled = torch.zeros(len(points), dtype=torch.bool)
    for size in [*sizes, None]:
        leaf = now.detach().requires_grad_()
        outputs = net(leaf)
        losses = nn.functional.cross_entropy(outputs, labels, reduction="none")
        (gradient,) = torch.autograd.grad(losses.sum(), leaf)
        wrong = outputs.argmax(1) != labels
        better = ~fooled & (wrong | (losses.detach() > value))
        best[better], value[better] = now[better], losses.detach()[better]
        fooled |= wrong
        if size is not None:
            now = region.retract(now + size * threat.steepest(gradient, now))
    return best


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
def test_pgd_is_the_textbook_loop(norm: str) -> None:
    """Leaving early, settling, blocks and lazy copies change nothing about what is returned."""
    net, points, labels = problem(0)
    threat = Threat(norm, {"linf": 0.08, "l2": 0.25, "l1": 0.7}[norm], (0.0, 1.0))
    for step in (0.02, None):
        sizes = [threat.radius * 0.01 ** (i / 29) if step is None else step for i in range(30)]
        expected = plain_pgd(net, points, labels, threat, sizes)
        found = perturb(net, points, labels, threat, Pgd(steps=30, step=step))
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=0)


def test_still_examples_leave_the_batch() -> None:
    """Most examples that withstand sign steps end in a corner of the ball; they cost no further gradients."""
    net, points, labels = problem(1, 400)
    result = attack(net, Sample(points, labels), Threat("linf", 0.02, (0, 1)), Pgd(steps=40))
    withstood = int((~result.success).sum())
    assert withstood > 200
    assert result.gradients < 20 * withstood
    assert result.rates == tuple(sorted(result.rates))
    assert result.rates[-1] == pytest.approx(float(result.success.double().mean()))


@pytest.mark.parametrize("method", METHODS)
def test_blocks_do_not_change_the_result(method: Pgd, monkeypatch: pytest.MonkeyPatch) -> None:
    net, points, labels = problem(2)
    threat = Threat("l2", 0.2, (0, 1))
    whole = search.search(net, points, labels, threat, method)
    monkeypatch.setattr(search, "_BLOCK", 1)  # blocks of the least size
    parts = search.search(net, points, labels, threat, method)
    if method.restarts == 1:  # random starts are drawn block by block
        # ten raw steps of size five and ten of one, at a curvature of about one, part by 6^10 2^10 what rounding parted
        allowed = 6**10 * 2**10 * torch.finfo(torch.float64).eps if method.gradient == "raw" else 1e-12
        torch.testing.assert_close(parts.inputs, whole.inputs, atol=allowed, rtol=0)
        assert parts.tally.tolist()[:-1] == whole.tally.tolist()[:-1]
    assert parts.clean is not None
    torch.testing.assert_close(parts.clean, whole.clean)


def test_a_batch_whose_outputs_depend_on_each_other_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The outputs of an example are taken relative to the mean input of the batch."""
    net, points, labels = problem(2)
    monkeypatch.setattr(search, "_BLOCK", 1)
    sizes: list[int] = []

    def centered(inputs: torch.Tensor) -> torch.Tensor:
        sizes.append(len(inputs))
        return net(inputs - inputs.mean(0))

    search.search(centered, points, labels, Threat("l2", 0.2, (0, 1)), Pgd(steps=3, stop="never"))
    assert set(sizes) == {len(points)}


def test_blocks_begin_at_their_own_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    net, points, labels = problem(2)
    threat = Threat("linf", 0.05, (0, 1))
    offsets = torch.rand(points.shape, generator=torch.Generator().manual_seed(3), dtype=points.dtype)
    method = Pgd(steps=3, start=(points + 0.05 * (2 * offsets - 1)).clamp(0, 1))
    whole = search.search(net, points, labels, threat, method)
    monkeypatch.setattr(search, "_BLOCK", 1)
    parts = search.search(net, points, labels, threat, method)
    torch.testing.assert_close(parts.inputs, whole.inputs, atol=1e-12, rtol=0)


@pytest.mark.parametrize("kind", [Ascent, DeviceAscent, AskingAscent])
@pytest.mark.parametrize("stop", ["fooled", "never"])
def test_a_right_point_of_larger_loss_does_not_replace_a_wrong_one(
    kind: type[Ascent], stop: Literal["fooled", "never"]
) -> None:
    """Wrong at 1/2 with the loss log(1 + e^0.45), right at 1 with the larger one log(1 + 3 e^-0.1)."""

    def sinking(x: torch.Tensor) -> torch.Tensor:
        none = torch.zeros_like(x)
        before = torch.cat([none, 0.45 + 0.1 * (x - 0.5), none - 22, none - 22], 1)
        return torch.where(x < 0.75, before, torch.cat([none + 0.1, none, none, none], 1))

    region, method = Threat("linf", 0.5).around(torch.tensor([[0.5]])), Pgd(steps=1, step=0.5, stop=stop)
    trail = kind(differentiable(sinking), region, torch.tensor([0]), method, torch.Generator()).run()
    assert float(trail.inputs) == 0.5
    assert bool(trail.fooled)


@pytest.mark.parametrize("restarts", [1, 2])
@pytest.mark.parametrize("method", [Pgd(steps=3, start="random"), Apgd(steps=6, start="random")])
def test_who_meets_no_gradient_at_a_random_start_is_stuck_there(method: Pgd | Apgd, restarts: int) -> None:
    """Far from its input, which it never saw: two are right and flat, one is wrong and flat, the others are steep."""

    def bent(points: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.ones_like(points), 40 * torch.relu(points - 0.5)], 1)

    inputs = torch.tensor([[0.1], [0.2], [0.2], [0.57], [0.9]])
    threat, method = Threat("linf", 0.1, (0, 1)), replace(method, restarts=restarts, seed=5)
    trail = search.search(bent, inputs, torch.tensor([0, 0, 1, 0, 1]), threat, method)
    assert trail.stuck is not None
    assert trail.stuck.tolist() == [True, True, False, False, False]
    assert trail.fooled.tolist() == [False, False, True, True, False]


@pytest.mark.parametrize("kind", [Ascent, DeviceAscent, AskingAscent])
@pytest.mark.parametrize("stop", ["fooled", "never"])
@pytest.mark.parametrize("start", ["input", torch.full((9, 1), 0.32)], ids=["input", "given"])
def test_later_runs_begin_at_random_wherever_one_began(kind: type[Ascent], stop: str, start: str | Tensor) -> None:
    """Flat up to 1/2, and wrong from 0.55 on: the first run never leaves its start, a later one leads across."""

    def bent(points: Tensor) -> Tensor:
        return torch.cat([torch.full_like(points, 2.0), 40 * torch.relu(points - 0.5)], 1)

    region, labels = Threat("linf", 0.4, (0, 1)).around(torch.full((9, 1), 0.3)), torch.zeros(9).long()
    for restarts, fooled in ((1, False), (40, True)):
        method = Pgd(steps=3, start=start, stop=stop, restarts=restarts)  # type: ignore[arg-type]
        trail = kind(differentiable(bent), region, labels, method, torch.Generator().manual_seed(1)).run()
        assert trail.fooled.tolist() == [fooled] * 9
        assert ((trail.inputs > 0.55) == fooled).all()


def test_later_adaptive_runs_begin_at_random_or_where_they_are_told_to() -> None:
    def bent(points: Tensor) -> Tensor:
        return torch.cat([torch.full_like(points, 2.0), 40 * torch.relu(points - 0.5)], 1)

    inputs, labels = torch.full((3, 1), 0.3), torch.zeros(3).long()
    for start in ("input", inputs + 0.02):
        for restarts, fooled in ((1, False), (40, True)):
            method = Apgd(steps=2, start=start, restarts=restarts)  # type: ignore[arg-type]
            trail = search.search(bent, inputs, labels, Threat("linf", 0.4, (0, 1)), method)
            assert trail.fooled.tolist() == [fooled] * 3
    each = torch.tensor([[0.32, 0.6], [0.32, 0.31], [0.6, 0.32]])[:, :, None]
    trail = search.search(bent, inputs, labels, Threat("linf", 0.4, (0, 1)), Apgd(steps=2, start=each, restarts=2))
    assert trail.fooled.tolist() == [True, False, True]


@pytest.mark.parametrize("method", [Pgd(Margin(), steps=20), Apgd(Margin(), steps=20)])
def test_later_runs_aim_at_the_next_nearest_class(method: Pgd | Apgd) -> None:
    """The second class is nearest by its slope, but stops growing; the third one wins below 0."""

    def capped(points: Tensor) -> Tensor:
        second, third = 0.5 + 4 * (points - 0.3).clamp_max(0.1), 0.4 - 2 * (points - 0.3)
        return torch.cat([torch.ones_like(points), second, third], 1)

    inputs, labels = torch.full((9, 1), 0.3), torch.zeros(9).long()
    for restarts, fooled in ((1, False), (2, True)):
        trail = search.search(capped, inputs, labels, Threat("linf", 0.4), replace(method, restarts=restarts))
        assert trail.fooled.tolist() == [fooled] * 9


def test_nobody_fooled_is_stuck() -> None:
    net, points, labels = problem(2)
    threat = Threat("linf", 0.05, (0, 1))
    idle = search.search(net, points, labels, threat, Pgd(steps=2, step=1e-6, stop="never"))
    assert idle.stuck is not None
    assert torch.equal(idle.stuck, ~idle.fooled)
    assert bool(idle.fooled[::9].all())


def test_gradients_of_a_few_rows_are_those_of_all() -> None:
    net, points, _ = problem(5, 20)
    slopes = torch.randn(20, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    tape = Autograd(net)
    tape.forward(points)
    whole = tape.pull(slopes)
    for rows in (torch.tensor([3]), torch.arange(4, 9), torch.arange(15), torch.arange(20)):
        tape.forward(points)
        torch.testing.assert_close(tape.pull(slopes[rows], rows), whole[rows])


ODD = [math.nan, math.inf, -math.inf]


@given(st.lists(st.lists(st.sampled_from([-1.0, 0.0, 1.0, *ODD]), min_size=3, max_size=3), min_size=1, max_size=8))
@settings(deadline=None, max_examples=50)
def test_beaten_is_mistaken_except_for_ties(rows: list[list[float]]) -> None:
    outputs = torch.tensor(rows)
    for label in range(3):
        targets = torch.full((len(rows),), label)
        sure, judged = beaten(outputs, targets), mistaken(outputs, targets)
        assert bool((judged | ~sure).all())
        tied = (outputs == outputs[:, label, None]).sum(1) > 1
        odd = ~outputs.isfinite().all(1)
        assert torch.equal(sure[~tied | odd], judged[~tied | odd])
        assert bool(sure[odd].all())


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
def test_slack_is_a_share_of_the_largest_output(scale: float) -> None:
    """Outputs in other units are beaten alike: above by less than the slack is no mistake, by more is one."""
    rows = torch.tensor([[0.98, 1.0, -0.5], [0.97, 1.0, -0.5], [0.97, 1.0, -2.0], [0.9, 1.0, -2.0]]).double() * scale
    right = torch.zeros(4, dtype=torch.int64)
    assert beaten(rows, right, 0.025).tolist() == [False, True, False, True]
    assert beaten(rows, right).tolist() == [True] * 4
    assert beaten(rows, right + 1, 0.025).tolist() == [False] * 4


@pytest.mark.parametrize("odd", ODD)
def test_a_score_that_is_not_finite_predicts_nothing(odd: float) -> None:
    outputs = torch.tensor([[odd], [2.0], [-2.0]])
    for label in (-1.0, 1.0):
        assert beaten(outputs, torch.full((3,), label)).tolist() == [True, label < 0, label > 0]


@pytest.mark.parametrize("odd", [0.0, -0.0, *ODD])
def test_a_score_without_a_sign_is_mistaken_for_both_labels(odd: float) -> None:
    outputs = torch.tensor([[odd], [2.0], [-2.0]])
    for label in (-1.0, 1.0):
        assert mistaken(outputs, torch.full((3,), label)).tolist() == [True, label < 0, label > 0]


@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan, 3e38])
def test_outputs_that_are_not_finite_predict_nothing(odd: float) -> None:
    outputs = torch.tensor([[0.0, 1.0, 0.5], [odd, 1.0, 0.0], [3e38, 3e38, 0.0]])
    assert mistaken(outputs, torch.tensor([1, 1 if odd < 0 else 0, 0])).tolist() == [False, odd != 3e38, False]


BINARY = (Logistic(), Reflected(Logistic()))


@pytest.mark.parametrize("loss", [CrossEntropy(), Margin(), Reflected(CrossEntropy()), Reflected(Margin()), *BINARY])
def test_values_are_the_loss_and_the_margin(loss: Loss) -> None:
    binary = loss in BINARY
    outputs = torch.randn(20, 1 if binary else 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    targets = torch.arange(20) % 2 * 2 - 1 if binary else torch.arange(20) % 4
    found = values(loss, outputs, targets)
    torch.testing.assert_close(found, (loss(outputs, targets), margins(outputs, targets)))


def digits() -> tuple[Sample, Sample]:
    found = load_digits()
    inputs, labels = torch.tensor(found.data) / 16, torch.tensor(found.target)
    return Sample(inputs[:1200], labels[:1200]), Sample(inputs[1200:], labels[1200:])


def test_adversarial_training_lowers_the_robust_error() -> None:
    """Handwritten digits, one hidden layer: the same network, data, steps and seed, with and without the attack."""
    data, test = digits()
    generator = torch.Generator().manual_seed(0)
    shapes = ((24, 64), (10, 24))
    start = ReLUNet([torch.randn(*shape, generator=generator, dtype=torch.float64) / 8 for shape in shapes])
    threat = Threat("linf", 0.1, (0, 1))
    objectives = {
        "plain": Plain(CrossEntropy()),
        "adversarial": Adversarial(threat, Pgd(steps=3, step=0.05)),
        "reflected": Adversarial(threat, Pgd(Reflected(CrossEntropy(), "greedy"), steps=3, step=0.05)),
    }
    judge = Pgd(Reflected(CrossEntropy()), steps=20)
    errors = {}
    for name, objective in objectives.items():
        net = train(start, data, objective, steps=200, step_size=0.3, batch_size=64, seed=0).model
        errors[name] = 1 - float(attack(net, test, threat, judge).robust_accuracy())
    assert errors["adversarial"] < errors["plain"] - 0.1, errors
    assert errors["reflected"] < errors["plain"] - 0.1, errors


def test_beta_robust_error_by_attack_is_the_exact_one_for_linear_networks() -> None:
    """Claims: thesis-eq6.3, thesis-def7. With slope 1 the closed form, the search in the ball and attack agree."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    net = LeakyNet(normal(6, 5), normal(6).sign() / math.sqrt(6), 1.0)
    points = normal(300, 5)
    signs = (points @ (net.top @ net.hidden)).sign()
    signs[::10] *= -1
    data, unit = Sample(points, signs), net.normalized()
    for radius in (0.0, 0.2, 0.7):
        lowest = smallest_score(unit, points, signs, radius)
        worst = attack(net, data, Threat("l2", radius), LinearExact()).inputs
        climbed = attack(net, data, Threat("l2", radius), Pgd(Logistic(), steps=40, stop="never")).inputs
        for beta in (0.0, 0.05, 0.2):
            exact = float(beta_robust_error(net, data, radius, beta))
            assert float((lowest < -beta).double().mean()) == pytest.approx(exact)
            assert float(effective(net, worst, signs, beta).double().mean()) == pytest.approx(exact)
            assert float(effective(net, climbed, signs, beta).double().mean()) == pytest.approx(exact)


def test_margins_aim_as_they_are_told() -> None:
    """The nearest class is the default of the margin too; its steepest steps are those of the reflected loss."""
    net, points, labels = problem(6)
    data, threat = Sample(points, labels), Threat("l2", 0.2, (0, 1))
    found = {
        target: attack(net, data, threat, Pgd(Margin(target), steps=20))  # type: ignore[arg-type]
        for target in ("nearest", "greedy", "every")
    }
    reflected = attack(net, data, threat, Pgd(Reflected(CrossEntropy()), steps=20))
    torch.testing.assert_close(found["nearest"].inputs, reflected.inputs, atol=1e-9, rtol=0)
    assert int(found["every"].success.sum()) >= int(found["nearest"].success.sum())
    assert Margin() == Margin("nearest")
    with pytest.raises(ValueError, match="target must be"):
        Margin("best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="candidates must be"):
        Margin(candidates=0)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_textbook_methods_round_like_the_module(norm: str) -> None:
    """In float32 a confident network turns one rounding into many; Fgsm and Bim take none of their own."""
    net, points, labels = problem(7, 300)
    net, points = net.float(), points.float()
    net[2].weight.data *= 30
    threat = Threat(norm, 0.1 if norm == "linf" else 0.5, (0, 1))
    for method in (Fgsm(), Bim(steps=10)):
        closed = perturb(net, points, labels, threat, method)
        by_autograd = perturb(lambda x: net(x), points, labels, threat, method)  # noqa: PLW0108 - hides the layers
        torch.testing.assert_close(closed, by_autograd, atol=1e-6, rtol=0)


@pytest.mark.parametrize("loss", [CrossEntropy(), Reflected(CrossEntropy(), "greedy")])
def test_a_search_from_random_points_in_which_nobody_leaves_passes_over_the_inputs(loss: Loss) -> None:
    """Each of three steps takes one forward pass and the last point another; labels are checked all the same."""
    net, inputs, labels = problem(3, 6)
    seen: list[Tensor] = []

    def watched(points: Tensor) -> Tensor:
        seen.append(points.detach().clone())
        return net(points)  # type: ignore[no-any-return]

    method = Pgd(loss, steps=3, step=0.1, start="random", stop="never")
    found = perturb(watched, inputs, labels, Threat("linf", 0.2), method)
    assert len(seen) == 4
    assert not any(torch.equal(points, inputs) for points in seen)
    assert all(any(torch.equal(row, points[i]) for points in seen) for i, row in enumerate(found))
    with pytest.raises(ValueError, match="targets"):
        perturb(watched, inputs, labels + 4, Threat("linf", 0.2), method)


@pytest.mark.parametrize("place", ["cpu", "cuda"][: 1 + torch.cuda.is_available()])
@pytest.mark.parametrize("start", ["input", "random"])
def test_gradients_in_half_precision_fool_by_the_precision_of_the_model(start, place):
    # In bfloat16 the weights 1.0035 are 1 and 100.3 is 100.5: outputs 100 and 100.5, where 100.35 and 100.3 are meant.
    weights = torch.zeros(2, 101, device=place)
    weights[0, :100], weights[1, 100] = 1.0035, 1.0
    inputs = torch.ones(1, 101, device=place)
    inputs[0, 100] = 100.3
    found = attack(
        lambda points: nn.functional.linear(points, weights),
        Sample(inputs, torch.tensor([0], device=place)),
        Threat("linf", 1e-3),  # moves the difference 0.05 by 0.1
        Pgd(steps=4, start=start, precision="half"),
    )
    assert bool(found.clean_correct)
    assert bool(found.success)
    assert found.gradients == 4
    assert found.warnings == ()
