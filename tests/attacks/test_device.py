"""The search as it runs on a GPU finds what the search on the CPU finds.

Its loop without questions is run here on the CPU; its kernel in Triton's interpreter, or on a GPU where there is one:

    TRITON_INTERPRET=1 python -m pytest tests/attacks/test_device.py
"""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Self

import pytest
import torch
from attack_methods import METHODS
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from droptics.attacks import (
    Apgd,
    CrossEntropy,
    Dlr,
    Fgsm,
    Logistic,
    Loss,
    Margin,
    Method,
    Pgd,
    Reflected,
    Square,
    Threat,
    WeakAttackWarning,
    ascent,
    at_once,
    attack,
    device,
    launches,
    perturb,
    triton_shared,
)
from droptics.attacks.apgd import AdaptiveAscent
from droptics.attacks.ascent import Ascent, Trail
from droptics.attacks.asking import AskingAscent
from droptics.attacks.at_once import judged_at_once
from droptics.attacks.attack import verified
from droptics.attacks.device import DeviceAscent
from droptics.attacks.gradients import differentiable
from droptics.attacks.known import Known
from droptics.attacks.losses import Target, value_and_slope, values
from droptics.attacks.methods import step_sizes
from droptics.attacks.square import SquareSearch
from droptics.data import Sample
from droptics.gpu.graphs import captured
from droptics.gpu.triton import missing

attack_module = sys.modules["droptics.attacks.attack"]  # the package has a function of this name

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
PLACE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
needs_kernel = [
    pytest.mark.skipif(bool(missing()), reason="needs triton"),
    pytest.mark.skipif(PLACE == "cpu" and not INTERPRETED, reason="needs a GPU or TRITON_INTERPRET=1"),
]


def problem(
    seed: int,
    count: int = 60,
    sizes: tuple[int, int, int] = (10, 24, 4),
    dtype: torch.dtype = torch.float64,
    depth: int = 2,
) -> tuple[nn.Sequential, Tensor, Tensor]:
    features, width, classes = sizes
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        between = [part for _ in range(depth - 2) for part in (nn.Linear(width, width), nn.ReLU())]
        net = nn.Sequential(nn.Linear(features, width), nn.ReLU(), *between, nn.Linear(width, classes)).to(dtype)
    net.requires_grad_(False)
    points = torch.rand(count, features, generator=torch.Generator().manual_seed(seed), dtype=dtype)
    labels = net(points).argmax(1)
    labels[::9] = (labels[::9] + 1) % classes
    return net, points, labels


@pytest.mark.parametrize("many", [0, 2**22], ids=["leaving", "staying"])
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("method", METHODS)
def test_the_search_without_questions_finds_the_same(
    method: Pgd, norm: str, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "_MANY", many)
    monkeypatch.setattr(device, "_PRUDENCE", -1)  # whoever can leave does
    net, points, labels = problem(3, 150)
    threat = Threat(norm, 0.1 if norm == "linf" else 0.3, (0, 1))
    here, there = (
        kind(differentiable(net), threat.around(points), labels, method, torch.Generator()).run()
        for kind in (Ascent, DeviceAscent)
    )
    # Batches of another size round differently, and long raw steps multiply that.
    torch.testing.assert_close(here.inputs, there.inputs, atol=1e-8, rtol=0)
    assert torch.equal(here.fooled, there.fooled)
    assert torch.equal(here.stuck, there.stuck)
    assert int(there.tally[-2]) == int(here.tally[-2])
    assert int(there.tally[-1]) >= int(here.tally[-1])


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("method", METHODS)
def test_the_search_that_asks_finds_the_same(method: Pgd, norm: str) -> None:
    net, points, labels = problem(3, 150)
    threat = Threat(norm, 0.1 if norm == "linf" else 0.3, (0, 1))
    here, there = (
        kind(differentiable(net.forward), threat.around(points), labels, method, torch.Generator()).run()
        for kind in (Ascent, AskingAscent)
    )
    torch.testing.assert_close(here.inputs, there.inputs, atol=1e-10, rtol=0)
    assert torch.equal(here.fooled, there.fooled)
    assert torch.equal(here.stuck, there.stuck)
    assert int(there.tally[-2]) == int(here.tally[-2])


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("candidates", [9, 2])
def test_classes_side_by_side_find_what_they_find_in_turn(candidates: int, norm: str) -> None:
    """From given points, as of few examples on a GPU: an example is fooled in a lane as it is on its own."""
    net, points, labels = problem(3, 90, (10, 24, 6))
    labels[:5] = (labels[:5] + 1) % 6  # wrong as they are
    threat = Threat(norm, {"linf": 0.06, "l2": 0.15, "l1": 0.3}[norm], (0, 1))
    start = threat.around(points).random(torch.Generator().manual_seed(0))
    method, tape = Pgd(Margin("every", candidates), steps=6, start=start + 0.5), differentiable(net.forward)
    clean = net(points).detach()
    here, there = (
        kind(tape, threat.around(points), labels, method, torch.Generator(), Known(clean=clean)).run()
        for kind in (Ascent, AskingAscent)
    )
    assert torch.equal(here.fooled, there.fooled)
    assert 5 < int(there.fooled.sum()) < len(points)
    assert torch.equal(there.inputs[:5], points[:5])
    assert bool(threat.around(points).contains(there.inputs).all())
    wrong = net(there.inputs).argmax(1) != labels
    assert torch.equal(wrong, there.fooled)
    lanes = -(-90 * min(candidates, 5) // 64) * 64
    assert there.tally[-1] == 6 * lanes, "all classes of all examples take every step at once"
    begun, ended = (
        values(Margin(), net(each), labels)[0] for each in (threat.around(points).retract(start + 0.5), there.inputs)
    )
    assert bool((ended >= begun)[~there.fooled].all()), "the best point of all lanes, which began there"


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_a_search_that_asks_ends_when_nobody_is_left(norm: str) -> None:
    net, points, labels = problem(3, 150)
    passes: list[int] = []
    counted = differentiable(lambda inputs: passes.append(len(inputs)) or net(inputs))
    there = AskingAscent(counted, Threat(norm, 5.0).around(points), labels, Pgd(steps=16), torch.Generator()).run()
    assert bool(there.fooled.all())
    assert passes == sorted(passes, reverse=True)
    assert len(passes) < 16


@pytest.mark.parametrize("norm", ["linf", "l2", "l1"])
@pytest.mark.parametrize("at_once", [0, 1, 10**6])
def test_all_classes_at_once_come_in_the_order_of_one_by_one(
    norm: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ascent, "_AT_ONCE", at_once)
    net, points, labels = problem(9, 40, (10, 24, 6))
    tape, threat = differentiable(net if at_once else net.forward), Threat(norm, 0.1)
    assert tape.stackable == bool(at_once)
    outputs = tape.forward(points)
    one_by_one = ascent.linearized_order(tape, outputs, labels, Margin(), threat, labels < 0)
    aims = outputs.scatter(-1, labels[:, None], -torch.inf).topk(5).indices
    order = ascent._order(tape, outputs, labels[:, None], aims, threat)
    right = net(points).argmax(1) == labels  # elsewhere distances are negative or infinite
    assert torch.equal(aims.gather(-1, order)[right], one_by_one[right])


UNCOUNTED = ("aten.empty", "aten.new_empty", "aten._unsafe_view", "aten.detach")


class Operations(TorchDispatchMode):
    """What torch is asked to do, without what only looks at the same numbers in another shape."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, function, types, given=(), named=None):  # type: ignore[no-untyped-def]
        if not function.is_view and not str(function).startswith(UNCOUNTED):
            self.names.append(str(function))
        return function(*given, **(named or {}))


class Silent:
    """A kernel of any grid that does nothing."""

    def __getitem__(self, grid: tuple[int, ...]) -> Self:
        return self

    def __call__(self, *given: Tensor, **named: object) -> None:
        pass


@pytest.mark.filterwarnings("ignore::droptics.attacks.WeakAttackWarning")
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_few_operations_surround_the_kernel(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU each is a launch that costs the host more than the device; there were 93, then 66, then 10."""
    monkeypatch.setattr(launches, "runs_on", lambda place: True)
    monkeypatch.setattr(launches, "compiled", lambda: [Silent()] * 5)
    monkeypatch.setattr(triton_shared, "_compiled", Silent)
    net, points, labels = problem(3, 60, dtype=torch.float32)
    data, threat, method = Sample(points, labels), Threat(norm, 0.1, (0, 1)), Pgd(steps=40, step=0.01)
    attack(net, data, threat, method)
    with Operations() as seen:
        attack(net, data, threat, method)
    turned = 2  # the layers are turned on the CPU alone
    # Counts of zero, and two layers with what lies between them.
    assert len(seen.names) - turned <= 1 + 3, seen.names


@needs_gpu
@pytest.mark.parametrize("method", METHODS)
def test_a_captured_step_is_the_step(method: Pgd, monkeypatch: pytest.MonkeyPatch) -> None:
    net, points, labels = problem(4)
    refused: list[bool] = []

    def recorded(step, place, **options):  # type: ignore[no-untyped-def]
        found = captured(step, place, **options)
        refused.append(found is step)
        return found

    for model in (net.cuda(), nn.Sequential(net, nn.Identity(), nn.Tanh()).cuda()):
        found = []
        for way in (recorded, lambda step, place, **options: step):
            monkeypatch.setattr(device, "captured", way)
            found.append(perturb(model, points.cuda(), labels.cuda(), Threat("l2", 0.3, (0, 1)), method))
        torch.testing.assert_close(*found, atol=1e-9, rtol=0)
    assert not any(refused)


def both(
    net: nn.Module, points: Tensor, labels: Tensor, threat: Threat, method: Pgd, monkeypatch: pytest.MonkeyPatch
) -> tuple[Trail, Trail]:
    """The search by the kernel, and the CPU's in double precision."""
    monkeypatch.setattr(launches, "runs_on", lambda place: True)
    launched: list[int] = []
    for name in ("climb", "Stepper"):
        launch = getattr(launches, name)
        monkeypatch.setattr(launches, name, lambda *a, launch=launch, **k: launched.append(1) or launch(*a, **k))
    exact, there = differentiable(net), threat.around(points.to(PLACE))
    slow = Ascent(exact, threat.around(points), labels, method, torch.Generator()).run()
    fast = DeviceAscent(differentiable(net.to(PLACE)), there, labels.to(PLACE), method, torch.Generator(PLACE)).run()
    net.to("cpu")
    assert launched
    return fast, slow


def loss_at(net: nn.Module, loss: Loss, points: Tensor, labels: Tensor) -> Tensor:
    return value_and_slope(loss, net.double()(points.cpu().double()), labels)[0]


LOSSES = {
    "ce": CrossEntropy(),
    "margin": Margin(),
    "greedy": Margin("greedy"),
    "reflected": Reflected(CrossEntropy()),
    "every": Reflected(Margin(), "every"),
}


@pytest.mark.parametrize(("depth", "alone"), [(2, False), (2, True), (3, True)])
@pytest.mark.parametrize("stop", ["fooled", "never"])
@pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())
@pytest.mark.parametrize("norm", ["linf", "l2"])
class TestKernel:
    pytestmark = needs_kernel

    def test_finds_what_the_loop_finds(
        self, norm: str, loss: Loss, stop: str, depth: int, alone: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """All steps at once (one hidden layer, shared or not) or each around the passes of the network (more of them).

        Float32 against the same loop: two iterates of equal loss may change places, their losses agree.
        """
        if alone:
            monkeypatch.setattr(triton_shared, "parts", lambda *given: 0)
        net, points, labels = problem(0, 19, (35, 20, 4), torch.float32, depth)
        threat = Threat(norm, 0.05 if norm == "linf" else 0.3, (0, 1))
        method = Pgd(loss, steps=3, stop=stop)  # type: ignore[arg-type]
        fast, slow = both(net, points, labels, threat, method, monkeypatch)
        assert torch.equal(fast.fooled.cpu(), slow.fooled)
        (*found, _), (*expected, _) = fast.tally.tolist(), slow.tally.tolist()  # the last counts gradients
        assert found[-1] == expected[-1]
        assert bool(threat.around(points).contains(fast.inputs.cpu()).all())
        gaps = loss_at(net, loss, fast.inputs, labels) - loss_at(net, loss, slow.inputs, labels)
        assert float(gaps.abs().max()) < 1e-5
        assert fast.stuck.cpu().tolist() == slow.stuck.tolist()
        if stop == "fooled" and not isinstance(loss, Reflected):
            assert found == [*expected, *[expected[-1]] * 6][: len(found)]


@pytest.mark.parametrize("alone", [False, True])
@pytest.mark.parametrize("case", ["no box", "no bias", "ordered", "random", "one class right", "zero radius", "wide"])
class TestKernelEdges:
    pytestmark = needs_kernel

    def test_finds_what_the_loop_finds(self, case: str, alone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        if alone:
            monkeypatch.setattr(triton_shared, "parts", lambda *given: 0)
        sizes = (16, 33, 11) if case == "wide" else (7, 5, 2)
        net, points, labels = problem(1, 21, sizes, torch.float32)
        if case == "no bias":
            net[0].bias = net[2].bias = None  # type: ignore[assignment]
        if case == "one class right":
            labels = net(points).argmax(1)
        if case == "ordered":
            monkeypatch.setattr(device, "ORDERED", 1)
        box = None if case == "no box" else (0.0, 1.0)
        threat = Threat("l2", 0.0 if case == "zero radius" else 0.4, box)
        method = Pgd(steps=14 if case == "ordered" else 4, start="random" if case == "random" else "input")
        fast, slow = both(net, points, labels, threat, method, monkeypatch)
        assert torch.equal(fast.fooled.cpu(), slow.fooled)
        if case != "random" or PLACE == "cpu":  # the two devices draw other starts
            # Gradients are two products of numbers that keep 17 bits on a GPU: each may turn a step by three roundings.
            turned = 3 * 2.0**-17 * sum(step_sizes(None, method.steps, threat.radius, "decaying"))
            torch.testing.assert_close(fast.inputs.cpu(), slow.inputs, atol=2e-6 if PLACE == "cpu" else turned, rtol=0)
        assert 0 <= int(fast.tally[-1]) <= method.steps * len(points)


class TestKernelRounding:
    pytestmark = needs_kernel

    @pytest.mark.parametrize(("lead", "wrong"), [(1e-6, False), (1e-4, True), (-1e-4, False)])
    def test_only_what_beats_rounding_is_fooled(
        self, lead: float, wrong: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Another order of summation must not turn a fooled example back."""
        net, points, _ = problem(0, 5, (6, 4, 3), torch.float32)
        net[2].weight.zero_()
        net[2].bias.copy_(torch.tensor([1.0, 1.0 + lead, 0.0]))
        fast, _ = both(net, points, torch.zeros(5, dtype=torch.int64), Threat("linf", 0.1), Pgd(steps=2), monkeypatch)
        assert fast.fooled.tolist() == [wrong] * 5


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the interpreter, which warns where numbers are infinite
@pytest.mark.parametrize("loss", [CrossEntropy(), Margin("greedy"), Reflected(CrossEntropy(), "greedy")])
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("box", [None, (0.0, 1.0)])
class TestVerification:
    pytestmark = needs_kernel

    def test_one_launch_judges_as_attack_does(self, norm: str, loss: Loss, box: tuple[float, float] | None) -> None:
        """Every flaw that there is: outputs that are not finite, equal, lost; points outside; examples that stay."""
        draws = torch.Generator().manual_seed(0)
        inputs = torch.rand(40, 7, generator=draws)
        threat = Threat(norm, 0.1, box)
        last = threat.around(inputs).random(draws)
        last[::3] = inputs[::3]
        best = threat.around(inputs).random(draws)
        best[4] += 1.0
        best[5, 2], best[6, 3] = torch.nan, torch.inf
        best[7], inputs[7] = 1.05, 1.04  # inside the ball, outside the box
        clean, outputs = torch.randn(2, 40, 3, generator=draws)
        clean[8, 0], outputs[9, 1], outputs[10, 2] = torch.nan, torch.inf, -torch.inf
        outputs[11] = clean[12] = 1.0
        outputs[13] = torch.tensor([1.0, 1.0 - 3e-6, 0.0])
        targets = torch.randint(3, (40,), generator=draws)
        targets[11:14] = 0
        fooled = torch.rand(40, generator=draws) < 0.5
        fooled[13] = True
        clean[14:18] = outputs[14:18] = nn.functional.one_hot(targets[14:18], 3).float()
        last[14:18], fooled[14:18] = inputs[14:18], False  # right, and stuck
        inputs, last, best, clean, outputs, targets, fooled = (
            part.to(PLACE) for part in (inputs, last, best, clean, outputs, targets, fooled)
        )
        region = threat.around(inputs)
        still = ascent.stuck(threat, last, inputs) & ~fooled
        tally = torch.zeros(1, dtype=torch.int64)
        expected = attack_module._judged(Trail(best, fooled, still, tally), region, targets, loss, clean, outputs)
        value = torch.zeros_like(clean[:, 0])
        now = ascent.Climbers(targets, targets, None, region, last, None, value, fooled, best=best)
        counts = torch.zeros(launches.SEEN, dtype=torch.int64, device=PLACE)
        kind = device.kernel(Pgd(loss), threat, inputs) if PLACE == "cuda" else KINDS[type(loss)]
        (success, right), (losses, margins, distances) = launches.verify(now, (clean, outputs), counts, kind)
        assert torch.equal(success, expected.success)
        assert torch.equal(right, expected.right)
        sound = torch.isfinite(outputs).all(1) & torch.isfinite(best).all(1)
        for mine, other in ((losses, expected.losses), (margins, expected.margins), (distances, expected.distances)):
            torch.testing.assert_close(mine[sound], other[sound], rtol=1e-5, atol=1e-6)
        strange = 0 if box is None else 1
        assert counts.tolist() == [*expected.counts, strange]
        assert all(expected.counts)

    def test_what_any_search_found_is_judged_so(
        self, norm: str, loss: Loss, box: tuple[float, float] | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Who did not move is told by the search, or by its points."""
        monkeypatch.setattr(launches, "runs_on", lambda place: True)
        draws = torch.Generator().manual_seed(1)
        inputs, threat = torch.rand(40, 7, generator=draws), Threat(norm, 0.1, box)
        points = threat.around(inputs).random(draws)
        points[::4] = inputs[::4]
        clean, outputs = torch.randn(2, 40, 3, generator=draws)
        clean[:12] = outputs[:12]
        targets = clean.argmax(1)
        targets[20:24] = (targets[20:24] + 1) % 3
        fooled = outputs.argmax(1) != targets
        fooled[4] = True  # lost, and where it began
        told = torch.rand(40, generator=draws) < 0.5
        points, inputs, clean, outputs, targets, fooled, told = (
            part.to(PLACE) for part in (points, inputs, clean, outputs, targets, fooled, told)
        )
        for stuck in (told, None):
            trail = Trail(points, fooled, stuck, torch.tensor([3, 40]))
            given = trail, threat.around(inputs), targets, loss, clean, outputs
            slow, fast = attack_module._judged(*given), judged_at_once(*given)
            assert fast is not None
            assert fast.counts == slow.counts
            assert fast.counts[launches.STUCK] > 1
            assert fast.tally == slow.tally == [3, 40]
            assert torch.equal(fast.success, slow.success)
            assert torch.equal(fast.right, slow.right)
            for mine, other in zip(
                (fast.losses, fast.margins, fast.distances), (slow.losses, slow.margins, slow.distances), strict=True
            ):
                torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
        wide = points.double(), inputs.double(), outputs.double()
        assert judged_at_once(Trail(wide[0], fooled, None, trail.tally), threat.around(wide[1]), *given[2:]) is None
        for other in (Dlr(), Logistic()):
            assert judged_at_once(*given[:3], other, clean, outputs) is None

    def test_attack_finds_the_same(
        self, norm: str, loss: Loss, box: tuple[float, float] | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(launches, "runs_on", lambda place: True)
        net, points, labels = problem(3, 40, (10, 24, 4), torch.float32)
        net, data = net.to(PLACE), Sample(points.to(PLACE), labels.to(PLACE))
        threat, method = Threat(norm, 0.05 if norm == "linf" else 0.2, box), Pgd(loss, steps=5)
        found: list[object] = []
        whole = attack_module.at_once
        monkeypatch.setattr(attack_module, "at_once", lambda *given: found.append(whole(*given)) or found[-1])
        fast = [attack(net, data, threat, method)]
        monkeypatch.setattr(triton_shared, "parts", lambda *given: 0)
        fast.append(attack(net, data, threat, method))
        assert None not in found
        monkeypatch.setattr(attack_module, "at_once", lambda *given: None)
        slow = attack(net, data, threat, method)
        assert 0 < int(slow.success.sum()) < 40
        for quick in fast:  # shared and alone
            assert torch.equal(quick.success, slow.success)
            assert torch.equal(quick.clean_correct, slow.clean_correct)
            assert quick.rates[-1] == slow.rates[-1]
            assert 0 < quick.gradients <= 5 * 40
            assert quick.warnings == slow.warnings
            torch.testing.assert_close(quick.losses, slow.losses, rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(quick.radius, slow.radius, rtol=1e-3, atol=1e-5)


KINDS = {CrossEntropy: launches.CROSS_ENTROPY, Margin: launches.MARGIN, Reflected: launches.REFLECTED}


class TestVerificationRefuses:
    pytestmark = needs_kernel

    @pytest.mark.parametrize(
        ("flaw", "said"),
        [("label", r"targets must lie in 0\.\.3"), ("box", "inputs must lie in the box"), ("nan", "NaN or infinity")],
    )
    def test_what_attack_refuses(self, flaw: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(launches, "runs_on", lambda place: True)
        net, points, labels = problem(3, 10, dtype=torch.float32)
        if flaw == "label":
            labels[3] = 4
        if flaw == "box":
            points[2, 1] = 1.5
        if flaw == "nan":
            net[2].bias[0] = torch.nan
        with pytest.raises(ValueError, match=said):
            attack(net.to(PLACE), Sample(points.to(PLACE), labels.to(PLACE)), Threat("linf", 0.1, (0, 1)), Pgd(steps=3))


def test_examples_leave_only_where_it_saves_time(monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([0.0, 1.0, 11.0, 11.0])
    monkeypatch.setattr(device, "perf_counter", lambda: next(times))
    clock = device._Clock(0)
    clock.ready()  # after one second, with one step taken
    assert clock.saves(6, 16, 0.2)  # ten steps of two seconds each: four of them against two
    assert not clock.saves(6, 16, 0.1)


def test_what_the_kernel_does_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launches, "runs_on", lambda place: True)
    net, points, _ = problem(2, 10, dtype=torch.float32)
    score = nn.Sequential(net, nn.ReLU(), nn.Linear(4, 1))

    def kind(model: nn.Module, norm: str = "linf", dtype: torch.dtype = torch.float32, **options: object) -> object:
        region = Threat(norm, 0.1).around(points.to(dtype))
        method = Pgd(**{"steps": 3, **options})  # type: ignore[arg-type]
        return device.kernel(method, region.threat, region.inputs)

    assert kind(net) == launches.CROSS_ENTROPY
    assert kind(net, loss=Margin()) == launches.MARGIN
    assert kind(net, loss=Reflected(Margin())) == launches.MARGIN
    assert kind(net, loss=Reflected(CrossEntropy())) == launches.REFLECTED
    for options in (
        {"norm": "l1"},
        {"dtype": torch.float64},
        {"gradient": "raw", "step": 1.0},
        {"projection": "exact"},
    ):
        assert kind(net, **options) is None  # type: ignore[arg-type]
    assert kind(score, loss=Logistic()) is None
    assert launches.fits([torch.ones(128, 9), torch.ones(16, 128)])
    assert not launches.fits([torch.ones(129, 9), torch.ones(16, 129)])
    assert not launches.fits([torch.ones(128, 9), torch.ones(17, 128)])
    assert not launches.fits([torch.ones(3, 9), torch.ones(1, 3)])
    assert not launches.fits([torch.ones(3, 3)] * 3)
    monkeypatch.undo()
    assert kind(net) is None  # no GPU under these points


def test_the_work_is_cut_by_how_much_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    place, chip = torch.device("cpu"), torch.device("cuda")
    assert launches._shape(1000, place) == launches.FEW
    assert launches._shape(16384, place) == launches.MANY
    assert [triton_shared.parts(9, features, place) for features in (256, 257)] == [1, 0]
    monkeypatch.setattr(triton_shared, "processors", lambda device: 132)
    assert [triton_shared.parts(*few, chip) for few in ((1056, 1024), (1057, 1024), (1056, 1025))] == [4, 0, 0]


def test_one_run_from_the_inputs_alone_is_taken_at_once() -> None:
    net, points, labels = problem(3, dtype=torch.float32)
    tape = differentiable(net)
    for restarts, start in ((1, "input"), (2, "input"), (1, "random"), (2, "random")):
        method = Pgd(restarts=restarts, start=start)  # type: ignore[arg-type]
        assert at_once._applies(tape, points, labels, method, 60) is ((restarts, start) == (1, "input"))


@pytest.mark.parametrize(("target", "asked"), [("greedy", True), ("nearest", False)])
def test_one_step_is_taken_at_once_up_the_greedy_margin_alone(
    target: Target, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels know no other; the network is not asked then."""
    monkeypatch.setattr(at_once, "known_to_kernels", lambda *given: launches.MARGIN)
    _, points, labels = problem(3, dtype=torch.float32)
    inputs: list[Tensor] = []
    one = nn.Linear(10, 1)
    tape = differentiable(nn.Sequential(nn.Identity(), one).requires_grad_(False))
    monkeypatch.setattr(tape, "forward", lambda given: inputs.append(given) or one(given))
    region, loss = Threat("linf", 0.1).around(points), Margin(target)
    assert at_once._one_step(tape, region, labels, Fgsm(loss), Known((0, 3), steady=True)) is None
    assert len(inputs) == asked


def test_gradients_of_every_climb_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And who was fooled by each step, beside those who had left before."""
    monkeypatch.setattr(launches, "climb", lambda *given: torch.tensor([1, 0, 1, 7]))
    search = SimpleNamespace(leaves=False, counts=[], best=torch.zeros(3, 2), sizes=(0.2, 0.1), gradients=5)
    search._best_of, search._store, search._note_stuck = (lambda now: now.points,) * 3
    now = SimpleNamespace(fooled=torch.zeros(2) > 0, whole=False, rows=torch.arange(2), points=torch.zeros(2, 2))
    DeviceAscent._climb_at_once(search, None, now, None, launches.MARGIN)  # type: ignore[arg-type]
    assert search.gradients == 12
    assert [part.tolist() for part in search.counts] == [[2, 2, 3]]


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_what_is_not_answered_at_once_is_searched_step_by_step(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    net, points, labels = problem(3)
    given = net, Sample(points, labels), Threat(norm, 0.1, (0, 1)), Pgd(steps=5)
    expected = attack(*given)
    monkeypatch.setattr(attack_module, "at_once", lambda *_: lambda: None)
    found = attack(*given)
    assert torch.equal(found.inputs, expected.inputs)
    assert (found.rates, found.gradients) == (expected.rates, expected.gradients)


@needs_gpu
@pytest.mark.skipif(bool(missing()), reason="needs triton")
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_programs_that_share_examples_find_what_one_finds_alone(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the same bits again: they add in one order, whoever comes first."""
    net, points, labels = problem(5, 1000, (784, 100, 10), torch.float32)
    threat = Threat(norm, 0.02 if norm == "linf" else 0.3, (0, 1))
    given = net.cuda(), Sample(points.cuda(), labels.cuda()), threat, Pgd()
    found, again = attack(*given), attack(*given)
    assert torch.equal(found.inputs, again.inputs)
    monkeypatch.setattr(triton_shared, "parts", lambda *_: 0)
    alone = attack(*given)
    boundary = 5
    assert int((found.success != alone.success).sum()) <= boundary  # another order of summation
    assert boundary < int(found.success.sum()) < 1000 - boundary


@needs_gpu
@pytest.mark.parametrize("sizes", [(784, 128, 16), (35, 129, 3), (784, 10, 17), (50, 10, 2)])
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("count", [100, 5000])
@pytest.mark.skipif(bool(missing()), reason="needs triton")
def test_every_size_fits_the_chip(sizes: tuple[int, int, int], norm: str, count: int) -> None:
    net, points, labels = problem(8, count, sizes, torch.float32)
    threat = Threat(norm, 0.01 if norm == "linf" else 0.1, (0, 1))
    here = perturb(net, points, labels, threat, Pgd(steps=4))
    there = perturb(net.cuda(), points.cuda(), labels.cuda(), threat, Pgd(steps=4)).cpu()
    close = (there - here).abs().amax(1) < 1e-5
    assert float(close.double().mean()) > 0.9


@needs_gpu
@pytest.mark.parametrize("method", [Pgd(), Pgd(stop="never"), Pgd(Reflected(CrossEntropy()))])
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("count", [1000, 5000])
def test_attack_on_the_gpu_is_that_on_the_cpu(count: int, norm: str, method: Pgd) -> None:
    net, points, labels = problem(5, count, (784, 100, 10), torch.float32)
    threat = Threat(norm, 0.02 if norm == "linf" else 0.3, (0, 1))
    here = attack(net, Sample(points, labels), threat, method, batch=count)
    there = attack(net.cuda(), Sample(points.cuda(), labels.cuda()), threat, method, batch=count)
    # Float32 on both sides: an example may sit on the boundary.
    boundary = count // 200
    assert int((there.success.cpu() != here.success).sum()) <= boundary
    assert boundary < int(here.success.sum()) < count - boundary  # else agreement would say nothing
    close = (there.losses.cpu() - here.losses).abs() < 1e-3 * (1 + here.losses.abs())
    assert float(close.double().mean()) > 0.98
    assert there.rates[-1] == pytest.approx(float(there.success.double().mean()), abs=0.002)


@needs_gpu
@pytest.mark.parametrize("count", [50, 9000])
def test_a_convolutional_network_on_the_gpu(count: int) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(784, 5)).double()
    net.requires_grad_(False)
    points = torch.rand(count, 1, 28, 28, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = net(points).argmax(1)
    threat = Threat("linf", 0.02, (0, 1))
    here = attack(net, Sample(points, labels), threat, Pgd(steps=20), batch=count)
    there = attack(net.cuda(), Sample(points.cuda(), labels.cuda()), threat, Pgd(steps=20), batch=count)
    torch.testing.assert_close(there.inputs.cpu(), here.inputs, atol=1e-9, rtol=0)
    assert there.rates[-1] == here.rates[-1]


@needs_gpu
@pytest.mark.parametrize("loss", [CrossEntropy(), Margin(candidates=3), Reflected(CrossEntropy(), "greedy")])
@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("steps", [10, 30])
def test_the_search_that_asks_on_the_gpu(steps: int, norm: str, loss: Loss) -> None:
    """Single precision, where the kernels judge and move, beside double precision on the CPU."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = (nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), Residual(), nn.Flatten(), nn.Linear(784, 5))
        net = nn.Sequential(*body).requires_grad_(False)
    points = torch.rand(700, 1, 28, 28, generator=torch.Generator().manual_seed(0))
    labels = net(points).argmax(1)
    threat = Threat(norm, {"linf": 0.006, "l2": 0.1}[norm], (0, 1))
    here = attack(net.double(), Sample(points.double(), labels), threat, Pgd(loss, steps=steps))
    net.float().cuda()
    with torch.backends.cudnn.flags(allow_tf32=False):
        there = attack(net, Sample(points.cuda(), labels.cuda()), threat, Pgd(loss, steps=steps))
    assert 0 < int(here.success.sum()) < len(points)
    # Who is nearer to the boundary than rounding moves a logit may fall on either side: one in a hundred.
    assert int((there.success.cpu() ^ here.success).sum()) <= 7
    assert abs(there.rates[-1] - here.rates[-1]) <= 0.01


@needs_gpu
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_one_step_on_the_gpu_is_that_of_torch(norm: str, given: bool) -> None:
    """In few launches, where the labels are known, beside the operations of torch for a caller who knows nothing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = (nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), Residual(), nn.Flatten(), nn.Linear(784, 5))
        net = nn.Sequential(*body).requires_grad_(False).cuda()
    points = torch.rand(300, 1, 28, 28, generator=torch.Generator().manual_seed(0)).cuda()
    labels = net(points).argmax(1)
    labels[:7] = (labels[:7] + 1) % 5
    data, threat = Sample(points, labels), Threat(norm, {"linf": 0.003, "l2": 0.05}[norm], (0, 1))
    method = Fgsm(Margin("greedy"), start=points + 0.001 if given else "input")
    with torch.backends.cudnn.flags(allow_tf32=False):
        slow = attack(net, data, threat, method)
        known = Known((0, 4), steady=True, clean=net(points) if given else None)
        fast = verified(net, data, threat, method, 300, None, known=known)
        assert torch.equal(known.clean, net(points))
    torch.testing.assert_close(fast.inputs, slow.inputs, rtol=0, atol=1e-6)
    assert torch.equal(fast.clean_correct, slow.clean_correct)
    assert int((~fast.clean_correct).sum()) == 7
    # Float32 on both sides: an example may sit on the boundary.
    assert int((fast.success ^ slow.success).sum()) <= 2
    assert 10 < int(fast.success.sum()) < 290
    torch.testing.assert_close(fast.margins, slow.margins, rtol=0, atol=1e-4)
    torch.testing.assert_close(fast.losses, slow.losses, rtol=0, atol=1e-4)
    torch.testing.assert_close(fast.radius, slow.radius, rtol=0, atol=1e-5)
    assert fast.gradients == slow.gradients == 300
    assert fast.rates[0] == slow.rates[0]
    assert fast.warnings == slow.warnings


@needs_gpu
def test_bad_labels_are_refused_before_the_device_sees_them() -> None:
    net, points, labels = problem(6)
    labels[3] = 4
    with pytest.raises(ValueError, match=r"targets must lie in 0\.\.3"):
        attack(net.cuda(), Sample(points.cuda(), labels.cuda()), Threat("linf", 0.1), Pgd(steps=3))
    torch.cuda.synchronize()


@needs_gpu
def test_warnings_reach_the_caller_from_the_gpu() -> None:
    """A model without gradients: the example does not move, and the one transfer at the end says so."""
    flat = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).cuda().requires_grad_(False)
    flat[0].weight.zero_()
    points = torch.rand(40, 3, device="cuda")
    data = Sample(points, flat(points).argmax(1))
    with pytest.warns(WeakAttackWarning, match="gradients vanish on 40 of 40"):
        attack(flat, data, Threat("linf", 0.1), Pgd(steps=4))


class Residual(nn.Module):
    """No list of layers: whether a step of it can be recorded is found out by recording one."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Conv2d(4, 4, 3, 1, 1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return images + torch.relu(self.inner(images))


@needs_gpu
@pytest.mark.parametrize("method", [Apgd(Dlr("every"), steps=30), Apgd(steps=30), Square(queries=3000, patience=100)])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_recorded_steps_of_any_network_are_its_steps(
    norm: str, method: Method, monkeypatch: pytest.MonkeyPatch
) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        body = (nn.Conv2d(1, 4, 4, 2, 1), nn.ReLU(), Residual(), nn.Flatten(), nn.Linear(784, 5))
        net = nn.Sequential(*body).double().requires_grad_(False)
    points = torch.rand(60, 1, 28, 28, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    labels = net(points).argmax(1)
    threat = Threat(norm, {"linf": 0.006, "l2": 0.1}[norm], (0, 1))
    kind = SquareSearch if isinstance(method, Square) else AdaptiveAscent
    recorded, inner = [], kind._recorded

    def spied(self, *given):  # type: ignore[no-untyped-def]
        recorded.append(inner(self, *given))
        return recorded[-1]

    monkeypatch.setattr(kind, "_recorded", spied)
    net.cuda()
    data = Sample(points.cuda(), labels.cuda())
    there = attack(net, data, threat, method)
    assert recorded
    assert all(record is not None for record in recorded)
    monkeypatch.setattr(f"{kind.__module__}.captured", lambda step, *_, **__: step)
    again = attack(net, data, threat, method)
    assert torch.equal(there.success, again.success)
    assert 0 < int(there.success.sum()) < len(data)
    torch.testing.assert_close(there.inputs, again.inputs, atol=1e-9, rtol=0)
