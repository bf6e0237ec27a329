"""Losses, methods and the verified attack: against references of a few lines, closed forms and enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import pytest
import scipy.special
import torch
from attacked import classifier
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional

from droptics.attacks import (
    Bim,
    CrossEntropy,
    Decay,
    Dlr,
    Fgsm,
    LinearExact,
    Logistic,
    Margin,
    Pgd,
    Reflected,
    Threat,
    WeakAttackWarning,
    adapter,
    attack,
    margins,
    perturb,
    proportion,
    robustness_curve,
    smallest_margins,
)
from droptics.attacks.ascent import Trail
from droptics.attacks.gradients import Autograd, PlainMlp, differentiable
from droptics.attacks.losses import value_and_slope, values
from droptics.attacks.search import joined, search, tape_of
from droptics.data import Sample
from droptics.losses import Loss, Squared
from droptics.models import ReLUNet, TwoLayerLinear

NORMS = ("l2", "linf", "l1")
UNIT = (0.0, 1.0)


def mlp(seed: int = 0, classes: int = 4, inputs: int = 12, dtype: torch.dtype = torch.float64) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(inputs, 17), nn.ReLU(), nn.Linear(17, 9), nn.ReLU(), nn.Linear(9, classes)).to(
            dtype
        )


def images(seed: int, count: int, *shape: int, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.rand(count, *shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def labeled(model, count: int = 60, inputs: int = 12, seed: int = 3, dtype: torch.dtype = torch.float64) -> Sample:
    """Examples that the model mostly gets right: its own predictions, every seventh label moved on."""
    points = images(seed, count, inputs, dtype=dtype)
    with torch.no_grad():
        outputs = model(points)
    labels = outputs.argmax(1)
    labels[::7] = (labels[::7] + 1) % outputs.shape[1]
    return Sample(points, labels)


@pytest.fixture
def seeded() -> Iterator[None]:
    """Weights that a test builds are the same in every run, and the global generator is left as it was."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield


# ---------------------------------------------------------------- losses


@given(st.lists(st.floats(-60, 60), min_size=2, max_size=2), st.floats(0, 1))
@settings(deadline=None, max_examples=80)
def test_reflected_loss_is_concave_and_below_zero_one(ends: list[float], mix: float) -> None:
    """Claims: thesis-fig6-1. The convex loss in base 2 lies above the 0-1 loss, the reflected one below it."""
    points = torch.tensor([*ends, mix * ends[0] + (1 - mix) * ends[1]], dtype=torch.float64)[:, None]
    ones = torch.ones(3)
    convex = Logistic()(points, ones) / math.log(2)
    concave = Reflected(Logistic())(points, ones) / math.log(2)
    wrong = (points.squeeze(1) < 0).double()
    assert bool((convex >= wrong).all())
    assert bool((concave <= wrong).all())
    # The tight version, shifted by one, is still below the 0-1 loss that counts a score of zero as an error.
    assert bool((1 + concave <= (points.squeeze(1) <= 0).double() + 1e-15).all())
    assert float(concave[2]) >= mix * float(concave[0]) + (1 - mix) * float(concave[1]) - 1e-12
    assert float(convex[2]) <= mix * float(convex[0]) + (1 - mix) * float(convex[1]) + 1e-12
    torch.testing.assert_close(concave, -Logistic()(-points, ones) / math.log(2))


def test_multiclass_reflected_loss_bounds_the_error_from_below() -> None:
    outputs = 5 * torch.randn(500, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = torch.arange(500) % 4
    wrong = (outputs.argmax(1) != labels).double()
    reflected = Reflected(CrossEntropy())(outputs, labels)
    assert bool((1 + reflected / math.log(2) <= wrong + 1e-12).all())
    assert bool((CrossEntropy()(outputs, labels) / math.log(2) >= wrong - 1e-12).all())
    torch.testing.assert_close(reflected, -functional.softplus(margins(outputs, labels)))
    others = [
        torch.stack([outputs[i, labels[i]] - outputs[i, j] for j in range(4) if j != labels[i]]) for i in range(500)
    ]
    torch.testing.assert_close(reflected, torch.stack([-functional.softplus(gap).min() for gap in others]))


def test_two_classes_are_the_binary_problem() -> None:
    scores = torch.linspace(-8, 8, 17, dtype=torch.float64)[:, None]
    pair = torch.cat([torch.zeros_like(scores), scores], 1)
    ones = torch.ones(17)
    for binary, multi in ((Logistic(), CrossEntropy()), (Reflected(Logistic()), Reflected(CrossEntropy()))):
        torch.testing.assert_close(binary(scores, ones), multi(pair, torch.ones(17, dtype=torch.long)))
    torch.testing.assert_close(Margin()(scores, ones), Margin()(pair, torch.ones(17, dtype=torch.long)))
    torch.testing.assert_close(Reflected(Margin())(scores, ones), Margin()(scores, ones))
    three, right = torch.tensor([[3.0, 1.0, 2.5], [0.0, 4.0, -1.0]]), torch.tensor([0, 2])
    assert Margin()(three, right).tolist() == [-0.5, 5.0]  # the largest wrong output less the right one


@pytest.mark.parametrize(
    "loss", [CrossEntropy(), Margin(), Reflected(CrossEntropy(), "greedy"), Logistic(), Reflected(Logistic())]
)
def test_slopes_are_the_gradients_of_the_loss(loss: Loss) -> None:
    binary = isinstance(loss, Logistic) or isinstance(getattr(loss, "loss", None), Logistic)
    generator = torch.Generator().manual_seed(5)
    outputs = 6 * torch.randn(40, 1 if binary else 5, generator=generator, dtype=torch.float64)
    targets = torch.arange(40) % 2 * 2 - 1 if binary else torch.arange(40) % 5
    leaf = outputs.clone().requires_grad_()
    values = loss(leaf, targets)
    (expected,) = torch.autograd.grad(values.sum(), leaf)
    value, slope = value_and_slope(loss, outputs, targets)
    torch.testing.assert_close(value, values.detach())
    torch.testing.assert_close(slope, expected, atol=1e-13, rtol=1e-10)
    _, free = value_and_slope(loss, outputs, targets, scaled=False)
    # Only a positive factor may be left out.
    torch.testing.assert_close(functional.normalize(free, eps=0), functional.normalize(expected, eps=0))


@pytest.mark.parametrize("shift", [1, 2, 3, 4])
def test_slopes_aimed_at_a_class_are_those_of_the_loss_of_its_margin(shift: int) -> None:
    outputs = 4 * torch.randn(40, 5, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
    targets = torch.arange(40) % 5
    aims, rows, leaf = (targets + shift) % 5, torch.arange(40), outputs.clone().requires_grad_()
    gaps = leaf[rows, targets] - leaf[rows, aims]
    for loss, climbed in (
        (Reflected(CrossEntropy(), "every"), -functional.softplus(gaps)),
        (Margin("every"), -gaps),
        (Reflected(Margin(), "every"), -gaps),
    ):
        (expected,) = torch.autograd.grad(climbed.sum(), leaf, retain_graph=True)
        value, slope = value_and_slope(loss, outputs, targets, aims)
        torch.testing.assert_close(slope, expected, atol=1e-13, rtol=1e-10)
        torch.testing.assert_close(value, loss(outputs, targets))  # ranked by the likeliest class all the same


def test_a_saturated_loss_keeps_its_direction() -> None:
    """At a margin of 200 the float32 gradient of cross-entropy is zero; its direction is still known."""
    outputs = torch.tensor([[200.0, 0.0, -1.0]])
    label = torch.tensor([0])
    leaf = outputs.clone().requires_grad_()
    (plain,) = torch.autograd.grad(CrossEntropy()(leaf, label).sum(), leaf)
    assert not bool(plain.any())
    _, slope = value_and_slope(CrossEntropy(), outputs, label, scaled=False)
    weights = torch.softmax(torch.tensor([0.0, -1.0]), 0)
    torch.testing.assert_close(slope, torch.tensor([[-1.0, float(weights[0]), float(weights[1])]]))


def test_a_loss_of_ones_own_works_through_autograd() -> None:
    class Logit(Loss):
        def __call__(self, outputs, targets):
            return -outputs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)

    net = mlp()
    data = labeled(net)
    result = attack(net, data, Threat("l2", 0.5, UNIT), Pgd(Logit(), steps=10))
    assert float(result.robust_accuracy()) <= float(result.clean_accuracy())


def test_bad_losses_are_refused() -> None:
    with pytest.raises(ValueError, match="function of the margin"):
        Reflected(Squared())
    with pytest.raises(ValueError, match="target must be"):
        Reflected(CrossEntropy(), "loudest")
    with pytest.raises(ValueError, match="candidates must be"):
        Reflected(CrossEntropy(), "every", 0)
    data = labeled(mlp())
    with pytest.raises(ValueError, match="use CrossEntropy"):
        attack(mlp(), data, Threat("l2", 0.1), Pgd(Logistic()))
    scorer = nn.Linear(12, 1).double()
    with pytest.raises(ValueError, match="use Logistic"):
        attack(scorer, Sample(data.inputs, torch.ones(60).double()), Threat("l2", 0.1), Pgd())


# ---------------------------------------------------------------- gradients


def test_closed_form_gradients_are_autograds() -> None:
    net = mlp(1)
    plain = differentiable(net)
    assert isinstance(plain, PlainMlp)
    inputs = images(0, 20, 12)
    slopes = torch.randn(20, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    general = Autograd(net)
    torch.testing.assert_close(plain.forward(inputs), general.forward(inputs))
    torch.testing.assert_close(plain.pull(slopes), general.pull(slopes, again=True))
    rows = torch.tensor([1, 4, 17])
    torch.testing.assert_close(plain.pull(slopes[rows], rows), general.pull(slopes[rows], rows))


def test_anything_unusual_goes_through_autograd(seeded: None) -> None:
    shared = nn.ReLU()
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    hooked = nn.Sequential(nn.Linear(3, 2))
    hooked[0].register_forward_hook(lambda *_: None)
    doubled = nn.Identity()  # would be passed over if nobody watched it
    doubled.register_forward_hook(lambda module, given, found: 2 * found)
    for net in (
        nn.Sequential(first, shared, second, shared),  # ends in a ReLU
        nn.Sequential(shared, first, shared, second),  # begins with one
        nn.Sequential(first, shared, shared, second),
        nn.Sequential(first, second),
        nn.Sequential(first, nn.Tanh(), second),
        nn.Sequential(first, nn.ReLU(), nn.Flatten(), second),
        nn.Sequential(first, nn.Dropout(), nn.ReLU(), second),  # in train mode
        nn.utils.parametrizations.weight_norm(nn.Linear(3, 2)),
        hooked,
        nn.Sequential(doubled, first, nn.ReLU(), second),
        lambda x: x,
    ):
        assert isinstance(differentiable(net), Autograd)
    assert isinstance(differentiable(nn.Sequential(first, nn.Dropout(), nn.ReLU(), second).eval()), PlainMlp)
    repeated = nn.Sequential(first, shared, first, shared, second)
    inputs = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(differentiable(repeated).scores(inputs), repeated(inputs).detach())


def perceptron_changed(how: str) -> nn.Sequential:
    """Layers with ReLU between them, in rows of rows, of which one part does more than it says."""
    inner = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    net = nn.Sequential(inner, nn.Sequential(nn.Linear(6, 5), nn.ReLU()), nn.Linear(5, 3)).double()
    weights = torch.linspace(-1.0, 2.0, 6, dtype=torch.float64)
    own = inner[1].forward
    if how == "what a row gives":
        inner.register_forward_hook(lambda module, given, found: found * weights)
    elif how == "what a row is given":
        net.register_forward_pre_hook(lambda module, given: (given[0].flip(1),))
    elif how == "slopes of a row":
        net[1].register_full_backward_hook(lambda module, given, found: (given[0] * weights,))
    elif how == "slopes before a row":
        inner.register_full_backward_pre_hook(lambda module, found: (found[0] * weights,))
    elif how == "a function in the place of a layer":
        inner[1].forward = lambda inputs: own(inputs) * weights
    elif how == "a function in the place of a row":
        inner.forward = lambda inputs: inner[0](inputs).tanh()
    return net


@pytest.mark.parametrize(
    "how",
    [
        "what a row gives",
        "what a row is given",
        "slopes of a row",
        "slopes before a row",
        "a function in the place of a layer",
        "a function in the place of a row",
    ],
)
def test_what_changes_a_row_of_layers_is_part_of_the_model(how: str, seeded: None) -> None:
    """Beside autograd through the module itself; sums of at most six products, some ten roundings."""
    net, inputs = perceptron_changed(how), images(3, 7, 4)
    tape = tape_of(net, Pgd())
    leaf = inputs.clone().requires_grad_()
    outputs = net(leaf)
    slopes = images(4, 7, 3) - 0.5
    (gradient,) = torch.autograd.grad((outputs * slopes).sum(), leaf)
    torch.testing.assert_close(tape.forward(inputs), outputs.detach(), rtol=0, atol=1e-13)
    torch.testing.assert_close(tape.pull(slopes), gradient, rtol=0, atol=1e-13)
    torch.testing.assert_close(tape.scores(inputs), outputs.detach(), rtol=0, atol=1e-13)
    plain = perceptron_changed("not at all")
    assert isinstance(differentiable(plain), PlainMlp)
    labels = torch.arange(7) % 3
    found = attack(net, Sample(inputs, labels), Threat("l2", 0.3), Pgd(steps=3))
    assert torch.equal(found.success, net(found.inputs).argmax(1) != labels)
    assert torch.equal(found.clean_correct, net(inputs).argmax(1) == labels)


# ---------------------------------------------------------------- methods


def reference_bim(net, inputs, labels, radius: float, steps: int, step: float) -> torch.Tensor:
    points = inputs
    for _ in range(steps):
        leaf = points.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(functional.cross_entropy(net(leaf), labels, reduction="sum"), leaf)
        points = points + step * gradient.sign()
        points = (inputs + (points - inputs).clamp(-radius, radius)).clamp(0, 1)
    return points


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fgsm_and_bim_equal_a_reference(dtype: torch.dtype) -> None:
    net = mlp(2, dtype=dtype)
    data = labeled(net, dtype=dtype)
    threat = Threat("linf", 0.1, UNIT)
    fgsm = attack(net, data, threat, Fgsm()).inputs
    torch.testing.assert_close(fgsm, reference_bim(net, data.inputs, data.targets, 0.1, 1, 0.1), atol=1e-6, rtol=0)
    bim = attack(net, data, threat, Bim(steps=7, step=0.03)).inputs
    torch.testing.assert_close(bim, reference_bim(net, data.inputs, data.targets, 0.1, 7, 0.03), atol=1e-6, rtol=0)
    # a fifth of the radius unless told otherwise, however many steps there are
    bim = attack(net, data, threat, Bim(steps=3)).inputs
    torch.testing.assert_close(bim, reference_bim(net, data.inputs, data.targets, 0.1, 3, 0.02), atol=1e-6, rtol=0)


def test_pgd_finds_all_that_bim_finds_with_the_same_steps() -> None:
    net = mlp(3)
    data = labeled(net, 200)
    for norm, radius in (("linf", 0.08), ("l2", 0.3), ("l1", 0.9)):
        threat = Threat(norm, radius, UNIT)
        last = attack(net, data, threat, Bim(steps=12, step=radius / 5))
        best = attack(net, data, threat, Pgd(steps=12, step=radius / 5))
        assert not bool((last.success & ~best.success).any())
        assert best.gradients < last.gradients


@pytest.mark.parametrize("stop", ["fooled", "never"])
def test_random_starts_leave_alone_what_is_wrong_already_unless_nobody_leaves(stop: Literal["fooled", "never"]) -> None:
    net = mlp(2)
    data = labeled(net)
    wrong = torch.arange(len(data)) % 7 == 0
    trail = search(net, data.inputs, data.targets, Threat("linf", 1e-3, UNIT), Pgd(steps=2, start="random", stop=stop))
    assert bool(trail.fooled[wrong].all())
    still = (trail.inputs[wrong] == data.inputs[wrong]).flatten(1).all(1)
    assert bool(still.all() if stop == "fooled" else ~still.any())


def test_stop_never_keeps_the_best_iterate() -> None:
    """A step far too large makes the iterates jump; the kept one is at least as good as every visited one."""
    net = mlp(4)
    data = labeled(net, 80)
    threat = Threat("linf", 0.1, UNIT)
    visited = []
    for steps in range(1, 6):
        trail = search(net, data.inputs, data.targets, threat, Bim(steps=steps, step=0.15))
        outputs = net(trail.inputs).detach()
        visited.append(CrossEntropy()(outputs, data.targets) + 1e6 * (outputs.argmax(1) != data.targets))
    kept = search(net, data.inputs, data.targets, threat, Pgd(steps=5, step=0.15, stop="never"))
    value = CrossEntropy()(net(kept.inputs).detach(), data.targets) + 1e6 * kept.fooled
    assert bool((value >= torch.stack(visited).amax(0) - 1e-9).all())


@pytest.mark.parametrize("norm", ["l2", "linf"])
def test_normalized_attacks_do_not_see_the_reflection(norm: str) -> None:
    """Binary problems: both gradients point along -y grad f. Raw gradients differ, and then reflection is stronger."""
    net = mlp(5, classes=1)
    inputs = images(6, 80, 12)
    with torch.no_grad():
        middle = net(inputs).quantile(0.5)  # between two of them: no image lies on the boundary
    net[-1].bias.data -= middle
    targets = torch.sign(net(inputs).detach().squeeze(1))
    threat = Threat(norm, 0.2, UNIT)
    for plain, reflected in (
        (Fgsm(Logistic()), Fgsm(Reflected(Logistic()))),
        (Bim(Logistic(), 9, 0.05), Bim(Reflected(Logistic()), 9, 0.05)),
    ):
        first = perturb(net, inputs, targets, threat, plain)
        assert torch.equal(first, perturb(net, inputs, targets, threat, reflected))
    # Both visit the same points and keep the one of largest loss: where two round to one loss, either may be kept.
    kept = [
        Logistic()(net(perturb(net, inputs, targets, threat, Pgd(loss, 9, 0.05))).detach(), targets)
        for loss in (Logistic(), Reflected(Logistic()))
    ]
    torch.testing.assert_close(*kept, rtol=1e-12, atol=0)
    net[-1].weight.data *= 300
    net[-1].bias.data *= 300
    raw = {"steps": 10, "step": 0.01, "gradient": "raw"}
    weak = search(net, inputs, targets, threat, Pgd(Logistic(), **raw))
    strong = search(net, inputs, targets, threat, Pgd(Reflected(Logistic()), **raw))
    assert int(weak.fooled.sum()) < int(strong.fooled.sum())


def test_schedules_and_default_steps() -> None:
    assert [Decay(10)(i) for i in (0, 9, 10, 20)] == pytest.approx([10, 10, 2, 0.4])
    net = mlp(6)
    data = labeled(net)
    threat = Threat("l2", 0.4, UNIT)
    constant = perturb(net, data.inputs, data.targets, threat, Pgd(steps=5, step=0.1))
    assert torch.equal(constant, perturb(net, data.inputs, data.targets, threat, Pgd(steps=5, step=lambda _: 0.1)))
    with pytest.raises(ValueError, match="finite sizes"):
        perturb(net, data.inputs, data.targets, threat, Pgd(step=lambda _: -1.0))


def test_random_starts_follow_the_seed_and_only_help() -> None:
    net = mlp(7)
    data = labeled(net, 150)
    threat = Threat("linf", 0.06, UNIT)
    state = torch.get_rng_state()
    once = attack(net, data, threat, Pgd(steps=5, restarts=4, seed=1))
    again = attack(net, data, threat, Pgd(steps=5, restarts=4, seed=1))
    assert torch.equal(once.inputs, again.inputs)
    assert torch.equal(state, torch.get_rng_state())
    single = attack(net, data, threat, Pgd(steps=5))
    assert not bool((single.success & ~once.success).any())
    generator = torch.Generator().manual_seed(1)
    given_one = attack(net, data, threat, Pgd(steps=5, start="random"), generator=generator)
    torch.testing.assert_close(given_one.inputs, attack(net, data, threat, Pgd(steps=5, start="random", seed=1)).inputs)


def test_points_for_training_follow_the_generator_that_is_passed() -> None:
    net = mlp(7)
    data = labeled(net, 30)
    threat, method = Threat("linf", 0.06, UNIT), Pgd(steps=2, start="random", stop="never", seed=3)
    passed, again = (
        perturb(net, data.inputs, data.targets, threat, method, torch.Generator().manual_seed(5)) for _ in range(2)
    )
    seeded = perturb(net, data.inputs, data.targets, threat, Pgd(steps=2, start="random", stop="never", seed=5))
    assert torch.equal(passed, again)
    assert torch.equal(passed, seeded), "a seed is a generator that begins with it"
    assert not torch.equal(passed, perturb(net, data.inputs, data.targets, threat, method))


def test_bad_methods_are_refused() -> None:
    for arguments, message in (
        ({"steps": 0}, "steps must be"),
        ({"restarts": 0}, "restarts must be"),
        ({"step": -1.0}, "step must be"),
        ({"gradient": "raw"}, "step must be given"),
        ({"start": "middle"}, "start must be"),
    ):
        with pytest.raises(ValueError, match=message):
            Pgd(**arguments)
    with pytest.raises(ValueError, match="method must be"):
        perturb(mlp(), images(0, 2, 12), torch.zeros(2).long(), Threat("l2", 1), "pgd")


# ---------------------------------------------------------------- targets


def test_greedy_target_fails_where_the_nearest_succeeds() -> None:
    """Claim: thesis-rem6.5.3. W rows 2 e1, e1, 10 e2, x = e1, radius 0.3."""
    weight = torch.tensor([[2.0, 0.0], [1.0, 0.0], [0.0, 10.0]], dtype=torch.float64)

    def linear(x: torch.Tensor) -> torch.Tensor:
        return x @ weight.mT

    data = Sample(torch.tensor([[1.0, 0.0]], dtype=torch.float64), torch.tensor([0]))
    threat = Threat("l2", 0.3)
    greedy = attack(linear, data, threat, Pgd(Reflected(CrossEntropy(), "greedy"), steps=1, step=0.3))
    assert not bool(greedy.success)
    assert float(greedy.margins) == pytest.approx(0.7)
    for target in ("nearest", "every"):
        found = attack(linear, data, threat, Pgd(Reflected(CrossEntropy(), target), steps=1, step=0.3))
        assert bool(found.success)
    exact = attack(linear, data, threat, LinearExact())
    # z_1 - z_3 falls from 2 at the rate ||(2, -10)||.
    assert float(exact.margins) == pytest.approx(2 - 0.3 * math.sqrt(104), abs=1e-12)


def test_nearest_target_is_exact_for_linear_models() -> None:
    """With the right class aimed at, one l2 step reaches the boundary exactly when the closed form can."""
    generator = torch.Generator().manual_seed(11)
    for _ in range(5):
        net = nn.Linear(6, 5).double()
        net.weight.data = torch.randn(5, 6, generator=generator, dtype=torch.float64)
        inputs = torch.randn(100, 6, generator=generator, dtype=torch.float64)
        labels = net(inputs).argmax(1)
        for norm in NORMS:
            gaps = smallest_margins(net, inputs, labels, Threat(norm, 1.0))
            method = Pgd(Reflected(CrossEntropy()), steps=1, step=1.0)
            result = attack(net, Sample(inputs, labels), Threat(norm, 1.0), method)
            assert torch.equal(result.success, gaps < 0)


def test_every_target_finds_at_least_what_one_target_finds() -> None:
    net = mlp(8, classes=6)
    data = labeled(net, 150)
    threat = Threat("l2", 0.25, UNIT)
    rates = {
        target: float(attack(net, data, threat, Pgd(Reflected(CrossEntropy(), target), steps=15)).robust_accuracy())
        for target in ("greedy", "nearest", "every")
    }
    assert rates["every"] <= rates["nearest"]
    assert rates["every"] <= rates["greedy"]


# ---------------------------------------------------------------- closed form


@pytest.mark.parametrize("box", [None, UNIT])
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("classes", [1, 4])
def test_linear_closed_form_against_pgd(norm: str, box, classes: int) -> None:
    """No attack gets below the closed form, and a long exact-projection run gets close to it."""
    generator = torch.Generator().manual_seed(classes)
    model = TwoLayerLinear(
        torch.randn(classes, 3, generator=generator, dtype=torch.float64),
        torch.randn(8, 3, generator=generator, dtype=torch.float64),
    )
    inputs = images(20, 25, 8)
    labels = torch.arange(25) % 2 * 2 - 1 if classes == 1 else torch.arange(25) % classes
    threat = Threat(norm, 0.4, box)
    lowest = smallest_margins(model, inputs, labels, threat)
    loss = Margin() if classes == 1 else Reflected(CrossEntropy(), "every")
    method = Pgd(loss, steps=150, step=Decay(0.4, 0.75, 5), stop="never", projection="exact")
    found = attack(model, Sample(inputs, labels), threat, method)
    assert bool((found.margins >= lowest - 1e-10).all())
    torch.testing.assert_close(found.margins, lowest, atol=2e-2, rtol=0)


def test_linear_closed_form_without_a_box_is_the_dual_norm(seeded: None) -> None:
    net = nn.Linear(5, 1).double()
    inputs, targets = images(1, 9, 5), torch.ones(9, dtype=torch.float64)
    dual = {"l2": 2, "linf": 1, "l1": math.inf}
    for norm in NORMS:
        expected = net(inputs).squeeze(1) - 0.7 * torch.linalg.vector_norm(net.weight, ord=dual[norm])
        torch.testing.assert_close(smallest_margins(net, inputs, targets, Threat(norm, 0.7)), expected.detach())


def test_closed_form_refuses_models_that_are_not_affine() -> None:
    data = labeled(mlp())
    with pytest.raises(ValueError, match="must be affine"):
        attack(mlp(), data, Threat("l2", 0.1), LinearExact())


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_one_step_goes_on_from_given_points(norm):
    net, data = classifier()
    threat = Threat(norm, 0.05 if norm == "linf" else 0.3, (0, 1))
    first = attack(net, data, threat, Fgsm(Margin("greedy")))
    again = attack(net, data, threat, Fgsm(Margin("greedy"), start=first.inputs), batch=7)
    leaf = first.inputs.clone().requires_grad_()
    outputs = net(leaf)
    wrong = outputs.scatter(1, data.targets[:, None], -math.inf).amax(1)
    (slope,) = torch.autograd.grad((wrong - outputs.gather(1, data.targets[:, None]).squeeze(1)).sum(), leaf)
    lengths = slope.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
    moved = leaf.detach() + threat.radius * (slope.sign() if norm == "linf" else slope / lengths) - data.inputs
    if norm == "linf":
        moved = moved.clamp(-threat.radius, threat.radius)
    else:
        moved = moved * (threat.radius / moved.flatten(1).norm(dim=1)).clamp_max(1.0).view(-1, 1, 1, 1)
    torch.testing.assert_close(again.inputs, (data.inputs + moved).clamp(0, 1), rtol=0, atol=1e-12)
    assert again.clean_correct.all()
    assert not torch.equal(again.inputs, first.inputs)
    far = attack(net, data, threat, Fgsm(Margin("greedy"), start=data.inputs + 9.0))
    assert bool((far.radius <= threat.radius * (1 + 1e-9)).all()), "points from outside are pulled into the region"
    with pytest.raises(
        ValueError, match=r"start must hold one point for each of the inputs, of shape \(60, 2, 7, 7\), g"
    ):
        attack(net, data, threat, Fgsm(start=first.inputs[:3]))


# ---------------------------------------------------------------- the verified attack


def test_result_is_recomputed_and_inside() -> None:
    net = mlp(9)
    data = labeled(net, 100)
    for norm, radius in (("linf", 0.1), ("l2", 0.5), ("l1", 1.5)):
        threat = Threat(norm, radius, UNIT)
        result = attack(net, data, threat, Pgd(steps=10), batch=33)
        assert bool(threat.around(data.inputs).contains(result.inputs).all())
        assert torch.equal(result.success, net(result.inputs).argmax(1) != data.targets)
        assert torch.equal(result.clean_correct, net(data.inputs).argmax(1) == data.targets)
        torch.testing.assert_close(result.radius, threat.distance(result.inputs, data.inputs))
        torch.testing.assert_close(result.losses, CrossEntropy()(net(result.inputs), data.targets).detach())
        assert not bool((~result.clean_correct & ~result.success).any())
        assert result.rates[0] == pytest.approx(1 - float(result.clean_accuracy()))
        assert result.rates[-1] == pytest.approx(1 - float(result.robust_accuracy()))
        assert not result.inputs.requires_grad


def test_batches_do_not_change_the_result() -> None:
    net = mlp(10)
    data = labeled(net, 50)
    threat = Threat("l2", 0.3, UNIT)
    whole = attack(net, data, threat, Pgd(steps=8))
    parts = attack(net, data, threat, Pgd(steps=8), batch=7)
    torch.testing.assert_close(whole.inputs, parts.inputs, atol=1e-12, rtol=0)


def test_rates_of_batches_that_end_at_different_steps_are_joined() -> None:
    """What a batch had fooled at its end stays fooled in the longer runs of others; gradients stand last."""

    def ended(rows: int, *tally: int) -> Trail:
        flags = torch.arange(rows) < tally[-2]
        return Trail(torch.full((rows, 2), float(rows)), flags, ~flags, torch.tensor(tally), None, 10 * rows)

    parts = [ended(3, 1, 3, 7), ended(5, 0, 1, 1, 2, 4, 30), ended(2, 2, 5), ended(4, 1, 1, 2, 9)]
    told = joined(parts)
    rates = [1 + 0 + 2 + 1, 3 + 1 + 2 + 1, 3 + 1 + 2 + 2, 3 + 2 + 2 + 2, 3 + 4 + 2 + 2]
    assert told.tally.tolist() == [*rates, 7 + 30 + 5 + 9]
    assert told.inputs[:, 0].tolist() == [3.0] * 3 + [5.0] * 5 + [2.0] * 2 + [4.0] * 4
    assert told.fooled.tolist() == [True] * 3 + [True] * 4 + [False] + [True] * 2 + [True] * 2 + [False] * 2
    assert told.stuck is not None
    assert torch.equal(told.stuck, ~told.fooled)
    assert told.queries == 140


def test_modes_flags_and_gradients_are_left_alone(seeded: None) -> None:
    net = nn.Sequential(nn.Linear(12, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3)).double()
    net[1].eval()
    modes = [part.training for part in net.modules()]
    mean = net[1].running_mean.clone()
    flags = [p.requires_grad for p in net.parameters()]
    data = Sample(images(0, 30, 12), torch.arange(30) % 3)
    with torch.no_grad():
        result = attack(net, data, Threat("linf", 0.05, UNIT), Pgd(steps=5))
        assert not torch.is_grad_enabled()
    assert [part.training for part in net.modules()] == modes
    assert torch.equal(net[1].running_mean, mean)
    assert [p.requires_grad for p in net.parameters()] == flags
    assert all(p.grad is None for p in net.parameters())
    net.eval()
    assert torch.equal(result.success, net(result.inputs).argmax(1) != data.targets)
    with pytest.raises(ValueError, match="targets must lie"):
        attack(net.train(), Sample(data.inputs, data.targets + 1), Threat("linf", 0.05), Pgd())
    assert net.training


def test_works_inside_inference_mode() -> None:
    net = mlp(11)
    data = labeled(net)
    outside = attack(net, data, Threat("l2", 0.3, UNIT), Pgd(steps=4))
    with torch.inference_mode():
        inside = attack(net, data, Threat("l2", 0.3, UNIT), Pgd(steps=4))
    assert torch.equal(outside.inputs, inside.inputs)


def test_any_shape_and_any_callable(seeded: None) -> None:
    conv = nn.Sequential(nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3 * 4 * 3, 3))
    data = Sample(images(1, 10, 2, 6, 5, dtype=torch.float32), torch.arange(10) % 3)
    for method in (Fgsm(), Bim(), Pgd(steps=4, restarts=2), Pgd(Reflected(CrossEntropy()), steps=4)):
        assert attack(conv, data, Threat("linf", 0.1, UNIT), method).inputs.shape == data.inputs.shape
    flat = nn.Sequential(nn.Flatten(), nn.Linear(60, 50), nn.ReLU(), nn.Linear(50, 3))
    assert isinstance(differentiable(flat), PlainMlp)
    attack(flat, data, Threat("l2", 0.1, UNIT), Pgd(steps=3))
    scripted = torch.jit.trace(conv, data.inputs)
    torch.testing.assert_close(
        attack(scripted, data, Threat("l2", 0.4, UNIT), Bim()).inputs,
        attack(conv, data, Threat("l2", 0.4, UNIT), Bim()).inputs,
        atol=1e-5,
        rtol=0,
    )
    relu = ReLUNet([torch.randn(6, 12, dtype=torch.float64), torch.randn(3, 6, dtype=torch.float64)])
    plain = Sample(images(2, 10, 12), torch.arange(10) % 3)
    torch.testing.assert_close(
        attack(relu, plain, Threat("l2", 0.4, UNIT), Bim()).inputs,
        attack(relu.outputs, plain, Threat("l2", 0.4, UNIT), Bim()).inputs,
    )


@pytest.mark.parametrize("shape", [(20,), (20, 1)])
def test_scorers_take_labels_of_any_of_the_usual_shapes(shape: tuple[int, ...]) -> None:
    inputs = images(4, 20, 5)
    signs = torch.arange(20) % 2 * 2 - 1

    def scorer(x: torch.Tensor) -> torch.Tensor:
        return (x.sum(1) - 2.5).reshape(-1, *shape[1:])

    results = [
        attack(scorer, Sample(inputs, targets), Threat("linf", 0.1, UNIT), Pgd(Logistic(), steps=5)).inputs
        for targets in (signs, signs.double(), signs.double()[:, None])
    ]
    assert torch.equal(results[0], results[1])
    assert torch.equal(results[0], results[2])


def test_radius_zero_changes_nothing() -> None:
    net = mlp(12)
    data = labeled(net)
    for norm in NORMS:
        for method in (Fgsm(), Bim(), Pgd(steps=3, restarts=2), Pgd(Reflected(CrossEntropy()), steps=2)):
            result = attack(net, data, Threat(norm, 0.0, UNIT), method)
            assert torch.equal(result.inputs, data.inputs)
            assert torch.equal(result.success, ~result.clean_correct)


def test_empty_batches_come_back_empty() -> None:
    with pytest.raises(ValueError, match="at least one example"):
        Sample(torch.zeros(0, 3), torch.zeros(0).long())
    assert perturb(mlp(), torch.zeros(0, 12), torch.zeros(0).long(), Threat("l2", 1), Pgd()).shape == (0, 12)


def test_bad_data_is_refused_with_one_message() -> None:
    net = mlp()
    good = labeled(net)
    threat = Threat("l2", 0.1, UNIT)
    with pytest.raises(ValueError, match="inputs must be finite"):
        Sample(torch.full((2, 12), float("nan")), torch.zeros(2).long())
    with pytest.raises(ValueError, match=r"targets must lie in 0..3"):
        attack(net, Sample(good.inputs, good.targets + 9), threat, Pgd())
    with pytest.raises(ValueError, match="integer class labels"):
        attack(net, Sample(good.inputs, torch.rand(60, dtype=torch.float64)), threat, Pgd())
    with pytest.raises(ValueError, match="must lie in the box"):
        attack(net, Sample(good.inputs * 2, good.targets), threat, Pgd())
    with pytest.raises(ValueError, match="one row of outputs per input"):
        attack(lambda x: net(x).sum(), good, threat, Pgd())
    with pytest.raises(ValueError, match="must be a droptics Sample"):
        attack(net, (good.inputs, good.targets), threat, Pgd())
    with pytest.raises(ValueError, match="must not have weights"):
        attack(net, Sample(good.inputs, good.targets, torch.ones(60, dtype=torch.float64)), threat, Pgd())
    with pytest.raises(ValueError, match="NaN or infinity"):
        attack(lambda x: net(x) / 0, good, threat, Pgd())
    with pytest.raises(ValueError, match="model must be a droptics Model or a function, got int"):
        attack(3, good, threat, Pgd())


def test_the_reflected_loss_is_the_softplus_of_the_margin_alone() -> None:
    """Of labels and classes; every other loss is what it is."""
    outputs, targets = torch.randn(7, 4, generator=torch.Generator().manual_seed(0)).double(), torch.arange(7) % 4
    others = outputs.masked_fill(functional.one_hot(targets, 4) > 0, -torch.inf).amax(1)
    margin = outputs.gather(1, targets[:, None])[:, 0] - others
    for loss, expected in ((Reflected(CrossEntropy()), -(1 + margin.exp()).log()), (Dlr(), Dlr()(outputs, targets))):
        torch.testing.assert_close(values(loss, outputs, targets), (expected, margin))


# ---------------------------------------------------------------- doubts


def test_who_is_stuck_is_counted_among_all_that_were_right() -> None:
    def bent(inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.ones_like(inputs), 40 * torch.relu(inputs - 0.4)], 1)

    inputs = torch.tensor([0.1] * 6 + [0.42] * 4)[:, None]
    with pytest.warns(WeakAttackWarning, match="gradients vanish on 6 of 10 attacked examples"):
        result = attack(bent, Sample(inputs, torch.zeros(10).long()), Threat("linf", 0.1), Pgd(steps=3))
    assert result.success.tolist() == [False] * 6 + [True] * 4


def test_who_is_stuck_is_compared_with_those_that_were_right_alone() -> None:
    """Two of ten that are attacked stand still, and eighty beside them are wrong as they are."""

    def bent(inputs: torch.Tensor) -> torch.Tensor:
        return torch.cat([torch.ones_like(inputs), 40 * torch.relu(inputs - 0.4)], 1)

    inputs = torch.tensor([0.1] * 2 + [0.42] * 8 + [0.9] * 80)[:, None]
    with pytest.warns(WeakAttackWarning, match="gradients vanish on 2 of 10 attacked examples"):
        attack(bent, Sample(inputs, torch.zeros(90).long()), Threat("linf", 0.1), Pgd(steps=3))


@pytest.mark.parametrize(
    "method", [Bim(steps=3, step=0.1), Pgd(steps=3, step=0.1), Pgd(steps=3, step=0.1, stop="never")]
)
def test_rates_tell_the_share_at_the_start_and_after_every_step(method: Bim | Pgd) -> None:
    """Margins are twice the first coordinate, which every step brings nearer to zero by 0.1."""

    def line(inputs: torch.Tensor) -> torch.Tensor:
        return inputs[:, :1] * torch.tensor([1.0, -1.0])

    inputs = torch.tensor([[0.15, 0.0], [0.25, 0.0], [0.45, 0.0], [0.85, 0.0]])
    result = attack(line, Sample(inputs, torch.zeros(4).long()), Threat("linf", 0.3), method)
    assert result.rates == (0.0, 0.0, 0.25, 0.5)


def test_warns_when_gradients_vanish() -> None:
    base = mlp(13, dtype=torch.float32)
    data = labeled(base, dtype=torch.float32)

    def stepwise(x: torch.Tensor) -> torch.Tensor:
        return base((x * 8).round() / 8)  # rounding hides the gradient

    with pytest.warns(WeakAttackWarning, match="gradients vanish") as seen:
        result = attack(stepwise, data, Threat("l2", 0.3, UNIT), Pgd(steps=5))
    assert "vanish" in result.warnings[0]
    assert seen[0].filename == __file__, "the line of the caller"
    base[-1].weight.data *= 4000
    base[-1].bias.data *= 4000
    with pytest.warns(WeakAttackWarning, match="gradients vanish"):
        attack(base, data, Threat("l2", 0.01, UNIT), Pgd(steps=5, step=1e-3, gradient="raw"))
    assert attack(base, data, Threat("l2", 0.01, UNIT), Pgd(steps=5)).warnings == ()


def test_warns_when_the_model_is_random() -> None:
    net = mlp(14)
    data = labeled(net)
    generator = torch.Generator().manual_seed(0)

    def noisy(x: torch.Tensor) -> torch.Tensor:
        return net(x) + 0.1 * torch.randn(len(x), 4, generator=generator, dtype=torch.float64)

    with pytest.warns(WeakAttackWarning, match="not deterministic"):
        attack(noisy, data, Threat("l2", 0.1, UNIT), Bim())


def test_warns_when_success_falls_with_the_steps() -> None:
    """One linear unit folded like a saw: one step of the radius fools, the next step undoes it."""

    def saw(x: torch.Tensor) -> torch.Tensor:
        return 0.5 - (1 - (x.sum(1) - 1).abs()).abs()

    inputs = torch.full((40, 1), 0.3, dtype=torch.float64)
    data = Sample(inputs, torch.ones(40, dtype=torch.float64))
    with pytest.warns(WeakAttackWarning, match="success falls"):
        attack(saw, data, Threat("linf", 1.0), Bim(Logistic(), steps=2, step=(0.9, 0.8).__getitem__))


# ---------------------------------------------------------------- accuracies, curves, adapter


def test_proportion_interval_covers_as_promised() -> None:
    """Exact coverage by enumeration: at every rate the interval contains it with probability >= 95 %."""
    total = 30
    intervals = [proportion(count, total) for count in range(total + 1)]
    for rate in torch.linspace(0.01, 0.99, 33, dtype=torch.float64):
        counts = torch.arange(total + 1, dtype=torch.float64)
        weights = torch.distributions.Binomial(total, rate).log_prob(counts).exp()
        covered = torch.tensor([float(e.lower) <= rate <= float(e.upper) for e in intervals])
        assert float(weights[covered].sum()) >= 0.95
    assert (float(intervals[0].lower), float(intervals[-1].upper)) == (0.0, 1.0)
    for count in range(1, total):
        ends = (float(intervals[count].lower), count - 1), (float(intervals[count].upper), count)
        below = [float(scipy.special.bdtr(most, total, end)) for end, most in ends]
        assert below == pytest.approx([0.975, 0.025], rel=1e-9), "as much beyond each end"
    with pytest.raises(ValueError, match="confidence"):
        proportion(1, 2, 1.0)
    with pytest.raises(ValueError, match="count must be at most the total 2, got 3"):
        proportion(3, 2)


@pytest.mark.parametrize("confidence", [0.5, 0.95, 0.99])
def test_accuracies_of_an_attack_have_the_confidence_that_is_asked_for(confidence: float) -> None:
    """Beyond each end of the interval the counts that were seen, or fewer or more, have half of what is left."""
    weights = torch.randn(4, 12, generator=torch.Generator().manual_seed(1), dtype=torch.float64)

    def linear(x: torch.Tensor) -> torch.Tensor:
        return (x - 0.5) @ weights.mT

    result = attack(linear, labeled(linear, 70), Threat("linf", 0.05, UNIT), Pgd(steps=5))
    counts = int(result.clean_correct.sum()), int((~result.success).sum())
    assert 0 < counts[1] < counts[0] < 70
    for share, count in zip(
        (result.clean_accuracy(confidence), result.robust_accuracy(confidence)), counts, strict=True
    ):
        assert share.confidence == confidence
        assert float(share) == pytest.approx(count / 70, rel=1e-15)
        below = float(scipy.special.bdtr(count, 70, float(share.upper)))
        above = 1 - float(scipy.special.bdtr(count - 1, 70, float(share.lower)))
        assert (below, above) == pytest.approx(((1 - confidence) / 2,) * 2, rel=1e-9)


def test_robustness_curve_never_falls_and_equals_the_closed_form(seeded: None) -> None:
    net = nn.Linear(6, 3).double()
    inputs = images(5, 200, 6)
    data = Sample(inputs, net(inputs).argmax(1))
    radii = [0.4, 0.0, 0.1, 0.2, 5.0, 9.0]
    curve = robustness_curve(net, data, Threat("l2", 1.0), LinearExact(), radii)
    expected = [
        float((smallest_margins(net, inputs, data.targets, Threat("l2", r)) < 0).double().mean()) for r in radii
    ]
    assert curve == pytest.approx(expected)
    assert curve[1] == 0.0
    assert curve[-1] == 1.0
    ordered = [curve[i] for i in (1, 2, 3, 0, 4, 5)]
    assert ordered == sorted(ordered)


def test_a_robustness_curve_stays_inside_the_box(seeded: None) -> None:
    net = nn.Linear(6, 3).double()
    inputs = images(5, 200, 6)
    data = Sample(inputs, net(inputs).argmax(1))
    inside, outside = (
        robustness_curve(net, data, Threat("linf", 1.0, box), LinearExact(), [0.05, 0.3]) for box in (UNIT, None)
    )
    for curve, box in ((inside, UNIT), (outside, None)):
        least = [smallest_margins(net, inputs, data.targets, Threat("linf", r, box)) for r in (0.05, 0.3)]
        assert curve == pytest.approx([float((margin < 0).double().mean()) for margin in least])
    assert inside[1] < outside[1]


def test_adapter_has_the_usual_calling_convention(seeded: None) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 3))
    pictures = images(7, 40, 3, 2, 2, dtype=torch.float32)
    labels = net.eval()(pictures).argmax(1)
    net.train()
    for attacker in (
        adapter.FGSM(net, eps=0.1),
        adapter.BIM(net, eps=0.1, alpha=0.02, steps=5),
        adapter.BIM(net, eps=0.1, alpha=0.02, steps=0),
        adapter.PGD(net, eps=0.1, alpha=0.02, steps=5),
        adapter.PGD(net, eps=0.1, alpha=0.02, steps=5, random_start=False, loss=Reflected(CrossEntropy())),
        adapter.PGDL2(net, eps=0.5, alpha=0.1, steps=5),
    ):
        result = attacker(pictures, labels)
        assert net.training
        assert bool(attacker.threat.around(pictures).contains(result).all())
        assert attacker.success(result, labels).shape == (40,)
    net.eval()
    expected = reference_bim(net, pictures, labels, 0.1, 5, 0.02)
    torch.testing.assert_close(adapter.BIM(net, eps=0.1, alpha=0.02, steps=5)(pictures, labels), expected)
    first = adapter.PGD(net, eps=0.1, alpha=0.02, steps=2)
    second = adapter.PGD(net, eps=0.1, alpha=0.02, steps=2)
    assert torch.equal(first(pictures, labels), second(pictures, labels))
    assert first(pictures[:0], labels[:0]).shape == (0, 3, 2, 2)
    with pytest.raises(ValueError, match=r"images must lie in \[0, 1\]"):
        first(pictures * 255, labels)


@pytest.mark.parametrize(("pixels", "steps"), [(1, 1), (8, 10), (15, 18), (17, 21), (32, 36), (100, 104)])
def test_steps_of_the_basic_method_are_the_fewer_of_the_two_numbers_of_its_paper(pixels: int, steps: int) -> None:
    """min(eps + 4, 1.25 eps) for eps in pixels: five quarters up to 16, four more beyond."""
    attacker = adapter.BIM(nn.Linear(2, 2), eps=(pixels + 1e-9) / 255, steps=0)
    assert isinstance(attacker.method, Bim)
    assert attacker.method.steps == steps
    assert adapter.BIM(nn.Linear(2, 2), eps=pixels / 255, steps=7).method.steps == 7


def test_adapters_climb_the_given_loss_and_draw_by_the_given_seed(seeded: None) -> None:
    net = nn.Sequential(nn.Dropout(), nn.Linear(6, 4)).double().eval()
    points = 0.3 + 0.4 * torch.rand(30, 6, dtype=torch.float64)
    labels, weights = net(points).argmax(1), net[1].weight.detach()
    scores = net(points).detach()
    likeliest = scores.scatter(1, labels[:, None], -torch.inf).argmax(1)
    net.train()
    margin = Margin("greedy")
    for loss, way in (
        (None, scores.softmax(1) @ weights - weights[labels]),
        (margin, weights[likeliest] - weights[labels]),
    ):
        unit = way / way.norm(dim=1, keepdim=True)
        for attacker, move in (
            (adapter.FGSM(net, 0.1, loss=loss), 0.1 * way.sign()),
            (adapter.BIM(net, 0.1, 0.03, 1, loss=loss), 0.03 * way.sign()),
            (adapter.PGD(net, 0.1, 0.04, 1, random_start=False, loss=loss), 0.04 * way.sign()),
            (adapter.PGDL2(net, 0.3, 0.05, 1, False, loss=loss), 0.05 * unit),
        ):
            torch.testing.assert_close(attacker(points, labels), points + move)
            assert not attacker.success(points, labels).any()
            assert attacker.success(points, (labels + 1) % 4).all()
    attacker, draws = adapter.PGD(net, 0.02, 1e-12, 1, seed=5), torch.Generator().manual_seed(5)
    for _ in range(2):  # a call goes on where the last one ended
        start = points + 0.02 * (2 * torch.rand(30, 6, generator=draws, dtype=torch.float64) - 1)
        torch.testing.assert_close(attacker(points, labels), start)


@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed")  # torch's note on processors without bfloat16
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64, "autocast"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_attacks_work_in_every_precision(dtype: torch.dtype | str, norm: str) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 3))
    inputs = torch.rand(100, 10)
    labels = net(inputs).argmax(1)
    threat, method = Threat(norm, 0.1, (0.0, 1.0)), Pgd(CrossEntropy(), steps=10, step=0.03)
    reference = attack(net.double(), Sample(inputs.double(), labels), threat, method)
    if isinstance(dtype, str):
        with torch.autocast("cpu", torch.bfloat16):
            found = attack(net.float(), Sample(inputs, labels), threat, method)
        assert found.inputs.dtype == torch.float32  # only the network is rounded, not the points
    else:
        found = attack(net.to(dtype), Sample(inputs.to(dtype), labels), threat, method)
        assert found.inputs.dtype == dtype
    # outputs near one are rounded by 2^-8 at worst, which decides few of 100 examples
    assert abs(float(found.robust_accuracy()) - float(reference.robust_accuracy())) <= 0.05
