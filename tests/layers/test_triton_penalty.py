"""Two launches give the penalty of squared loss and its slopes as the formula does; in the interpreter, or on a GPU.

TRITON_INTERPRET=1 python -m pytest tests/layers/test_triton_penalty.py
"""

from __future__ import annotations

import os
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from cases import normal
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.profiler import ProfilerActivity, profile

from droptics.gpu.triton import missing
from droptics.layers import ExplicitDropout, explicit_penalty, triton_penalty
from droptics.losses import CrossEntropy

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
PLACE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
needs_kernel = pytest.mark.skipif(
    bool(missing()) or (PLACE == "cpu" and not INTERPRETED), reason="needs triton and a GPU, or TRITON_INTERPRET=1"
)
needs_gpu = pytest.mark.skipif(bool(missing()) or not torch.cuda.is_available(), reason="needs triton and a GPU")
FULL, HALF = torch.float32, torch.bfloat16
EPS = torch.finfo(FULL).eps
# (examples, units, outputs): below, at and above the columns and rows of a program, and more rows than programs
SIZES = [(1, 1, 1), (3, 5, 0), (5, 7, 3), (32, 64, 32), (40, 130, 70), (600, 33, 300)]


def problem(size: tuple[int, int, int], kinds: tuple[torch.dtype, torch.dtype]) -> tuple[Tensor, Tensor]:
    count, units, outputs = size
    features, weight = normal(count, units, seed=1).to(kinds[0]), normal(outputs, units, seed=2).to(kinds[1])
    return features.to(PLACE).requires_grad_(), weight.to(PLACE).requires_grad_()


def formula(features: Tensor, weight: Tensor, share: float) -> Tensor:
    return share * (features.square() * weight.square().sum(0)).sum(1)


def wide(*values: Tensor) -> list[Tensor]:
    return [value.detach().double().requires_grad_() for value in values]


@needs_kernel
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("kinds", [(FULL, FULL), (HALF, FULL), (HALF, HALF), (torch.float16, FULL)])
def test_values_and_slopes_are_those_of_the_formula(
    size: tuple[int, int, int], kinds: tuple[torch.dtype, torch.dtype]
) -> None:
    given, share = problem(size, kinds), 0.3 / 0.7
    each, mean = triton_penalty.penalties(*given, share)
    found = torch.autograd.grad(3 * mean, given)
    exact = wide(*given)
    wanted = formula(*exact, share)
    slopes = torch.autograd.grad(3 * wanted.mean(), exact)
    assert each.dtype == mean.dtype == FULL
    # all terms are positive: as many roundings as there are terms in the sums, and some ten of factors
    count, units, outputs = size
    level = (count + units + outputs + 10) * EPS
    torch.testing.assert_close(each.double(), wanted, rtol=level, atol=0.0)
    torch.testing.assert_close(mean.double(), wanted.mean(), rtol=level, atol=0.0)
    for one, other, kind in zip(found, slopes, kinds, strict=True):
        assert one.dtype == kind
        # rounded once more, absolutely where halves run out of exponents
        rounded = level + torch.finfo(kind).eps
        torch.testing.assert_close(one.double(), other, rtol=rounded, atol=torch.finfo(kind).smallest_normal * rounded)


@needs_kernel
@pytest.mark.parametrize("kinds", [(FULL, FULL), (HALF, FULL)])
def test_single_rows_have_slopes_of_their_own(kinds: tuple[torch.dtype, torch.dtype]) -> None:
    given, share = problem((40, 130, 70), kinds), 1.0
    exact = wide(*given)
    counted = torch.linspace(-1, 1, 40, device=PLACE)
    each, mean = triton_penalty.penalties(*given, share)
    found = torch.autograd.grad((each * counted).sum() + 2 * mean, given)
    values = formula(*exact, share)
    slopes = torch.autograd.grad((values * counted).sum() + 2 * values.mean(), exact)
    level = 2 * (40 + 130 + 70 + 10) * EPS  # signs differ: sums of the magnitudes are at most twice the largest below
    for one, other, kind in zip(found, slopes, kinds, strict=True):
        slack = (level + torch.finfo(kind).eps) * 40 * float(other.abs().max())
        torch.testing.assert_close(one.double(), other, rtol=0.0, atol=slack)


@needs_kernel
def test_second_derivatives_are_those_of_the_formula() -> None:
    given, share = problem((6, 20, 9), (FULL, FULL)), 0.5
    exact = wide(*given)
    ways = [normal(*value.shape, seed=3).to(PLACE, FULL) for value in given]

    def twice(mean: Tensor, values: list[Tensor], directions: list[Tensor]) -> tuple[Tensor, ...]:
        slopes = torch.autograd.grad(mean, values, create_graph=True)
        along = sum((slope * way).sum() for slope, way in zip(slopes, directions, strict=True))
        return torch.autograd.grad(along, values)

    found = twice(triton_penalty.penalties(*given, share)[1], list(given), ways)
    wanted = twice(formula(*exact, share).mean(), exact, [way.double() for way in ways])
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=0.0, atol=100 * EPS * float(other.abs().max()))


@needs_kernel
def test_a_frozen_head_gets_no_slopes_and_strided_numbers_are_read_as_they_are() -> None:
    features, weight = problem((8, 12, 5), (FULL, FULL))
    frozen = weight.detach()
    turned = torch.empty(12, 8, device=PLACE).T.copy_(features.detach()).requires_grad_()
    (found,) = torch.autograd.grad(triton_penalty.penalties(turned, frozen, 0.5)[1], [turned])
    wanted = torch.autograd.grad(triton_penalty.penalties(features, weight, 0.5)[1], [features, weight])
    torch.testing.assert_close(found, wanted[0], rtol=20 * EPS, atol=0.0)


@needs_kernel
def test_programs_take_several_rows_each_and_leave_the_counters_at_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_penalty, "_PROGRAMS", 2)  # at most eight programs with up to 16 of 600 rows at a time
    size = (600, 33, 40)
    given = problem(size, (FULL, FULL))
    counters = triton_penalty._turns(given[0].device)
    first = triton_penalty.penalties(*given, 0.5)
    assert counters.tolist() == [0, 0]
    exact = formula(*wide(*given), 0.5)
    level = (sum(size) + 10) * EPS
    torch.testing.assert_close(first[0].double(), exact, rtol=level, atol=0.0)
    torch.testing.assert_close(first[1].double(), exact.mean(), rtol=level, atol=0.0)
    for one, other in zip(triton_penalty.penalties(*given, 0.5), first, strict=True):
        assert torch.equal(one, other)


def test_streams_and_recordings_have_counters_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros, device, now = torch.zeros, torch.device("cuda", 99), SimpleNamespace(stream=7, recording=False)
    monkeypatch.setattr(triton_penalty, "_spare", {})
    monkeypatch.setattr(triton_penalty, "_STOCK", 2)
    monkeypatch.setattr(torch, "zeros", lambda *shape, dtype, device: zeros(*shape, dtype=dtype))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: now.recording)
    monkeypatch.setattr(
        torch.cuda, "current_stream", lambda _: SimpleNamespace(cuda_stream=now.stream, synchronize=lambda: None)
    )

    def turns(stream: int, recording: bool = False) -> Tensor:
        now.stream, now.recording = stream, recording
        return triton_penalty._turns(device)

    own = [turns(7), turns(8), *[turns(7, recording=True) for _ in range(4)], turns(9)]  # two of the four from stock
    assert len({counters.data_ptr() for counters in own}) == len(own)
    assert all(counters.tolist() == [0, 0] for counters in own)
    assert [turns(stream) is own[place] for stream, place in ((7, 0), (8, 1), (9, -1))] == [True] * 3


def test_on_a_cpu_and_in_float64_the_formula_stays() -> None:
    features, weight = normal(3, 4), normal(2, 4)
    assert not triton_penalty.applies(features, weight)
    assert not triton_penalty.applies(features.float(), weight.float())


def penalized(drop: float = 0.5, over: str = "examples") -> tuple[ExplicitDropout, nn.Linear]:
    torch.manual_seed(0)
    head = nn.Linear(70, 11, device="cuda")
    return ExplicitDropout(drop, head, over=over), head  # type: ignore[arg-type]


@needs_gpu
@pytest.mark.parametrize("over", ["examples", "elements"])
def test_a_layer_on_a_gpu_uses_them_also_under_autocast(over: str) -> None:
    layer, head = penalized(0.3, over)
    features = normal(4, 9, 70).cuda().bfloat16().requires_grad_()
    with torch.autocast("cuda", torch.bfloat16):
        layer(features)
    assert "Penalties" in type(layer.penalty.grad_fn).__name__
    twin = ExplicitDropout(0.3, head.double(), over=over)  # type: ignore[arg-type]
    exact = features.detach().double().requires_grad_()
    twin(exact)
    level = (36 + 70 + 11 + 10) * EPS
    torch.testing.assert_close(layer.penalties.double(), twin.penalties, rtol=level, atol=0.0)
    torch.testing.assert_close(layer.penalty.double(), twin.penalty, rtol=level, atol=0.0)


@needs_gpu
def test_who_differentiates_in_another_way_has_the_formula() -> None:
    layer, head = penalized()
    features = normal(6, 70).cuda().float()

    def value(a: Tensor) -> Tensor:
        layer(a)
        return layer.penalty

    slopes = torch.func.grad(value)(features)
    leaf = features.clone().requires_grad_()
    (plain,) = torch.autograd.grad(value(leaf), [leaf])
    torch.testing.assert_close(slopes, plain, rtol=100 * EPS, atol=0.0)
    way = torch.ones_like(features)
    with forward_ad.dual_level():
        along = forward_ad.unpack_dual(value(forward_ad.make_dual(features, way))).tangent
    assert along is not None
    torch.testing.assert_close(along, (plain * way).sum(), rtol=1000 * EPS, atol=float(plain.abs().sum()) * 100 * EPS)
    entropic = ExplicitDropout(0.5, head, CrossEntropy())
    entropic(leaf)
    assert "Penalties" not in type(entropic.penalty.grad_fn).__name__


@needs_gpu
@pytest.mark.filterwarnings("ignore::UserWarning")  # of the compiler
def test_a_compiled_layer_has_the_formula() -> None:
    layer, head = penalized()
    features = normal(6, 70).cuda().float()
    layer(features)
    wanted = layer.penalty.detach()
    twin = ExplicitDropout(0.5, head)
    twin.compile()
    twin(features)
    torch.testing.assert_close(twin.penalty.detach(), wanted, rtol=200 * EPS, atol=0.0)


@needs_gpu
def test_a_captured_step_repeats_it() -> None:
    layer, head = penalized()
    features = normal(6, 70).cuda().float().requires_grad_()

    def step() -> None:
        features.grad = head.weight.grad = None
        layer(features)
        layer.penalty.backward()

    side, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):  # what accumulates gradients belongs to the stream on which it was first used
        for _ in range(3):
            step()
        wanted = features.grad.clone()
        with torch.cuda.graph(graph, stream=side):
            step()
        features.grad.zero_()
        graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(features.grad, wanted)
    found = explicit_penalty(nn.Sequential(layer)).detach()
    torch.testing.assert_close(found, layer.penalty.detach(), rtol=200 * EPS, atol=0.0)


def kernels(work: Callable[[], object]) -> list[str]:
    """What runs on the device, copies and fills included."""
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        work()
        torch.cuda.synchronize()
    return [event.name for event in seen.events() if event.device_type == torch.autograd.DeviceType.CUDA]


@needs_gpu
@pytest.mark.filterwarnings("ignore::UserWarning")  # of the profiler
@pytest.mark.parametrize("size", [(128, 2048, 1000), (40, 130, 70)])
def test_it_is_one_launch_forwards_and_one_backwards(size: tuple[int, int, int]) -> None:
    features, slope = problem(size, (HALF, FULL))[0], torch.ones((), device=PLACE)
    head = nn.Linear(size[1], size[2], device=PLACE)
    layer, given = ExplicitDropout(0.5, head), [features, head.weight]
    for _ in range(2):  # the first compiles, and makes the counters
        layer(features)
        torch.autograd.grad(layer.penalty, given, slope)
    assert kernels(lambda: layer(features)) == ["_values"]
    assert kernels(lambda: torch.autograd.grad(layer.penalty, given, slope)) == ["_slopes"]


@needs_gpu
def test_streams_and_recordings_at_the_same_time_have_the_same_bits() -> None:
    # more programs than a device runs at a time, so that the launches wait for processors and for each other
    sizes = [(40_000, 130, 70), (128, 2048, 1000), (3000, 64, 20_000)]
    given = [[value.detach() for value in problem(size, (HALF, FULL))] for size in sizes]
    wanted = [triton_penalty.penalties(*values, 0.5) for values in given]
    for values, (each, mean), size in zip(given, wanted, sizes, strict=True):
        exact = formula(*wide(*values), 0.5)
        level = (sum(size) + 10) * EPS
        torch.testing.assert_close(each.double(), exact, rtol=level, atol=0.0)
        torch.testing.assert_close(mean.double(), exact.mean(), rtol=level, atol=0.0)
    side, streams = torch.cuda.Stream(), [torch.cuda.Stream() for _ in range(4)]
    graphs, recorded = [], []
    torch.cuda.synchronize()
    for values in given:  # all on one stream, which they then leave
        graphs.append(torch.cuda.CUDAGraph())
        with torch.cuda.graph(graphs[-1], stream=side):
            recorded.append([triton_penalty.penalties(*values, 0.5) for _ in range(3)])
    found = [(number, result) for number, results in enumerate(recorded) for result in results]
    for repeat in range(30):
        for turn, stream in enumerate(streams):
            with torch.cuda.stream(stream):
                if turn < len(graphs):
                    graphs[turn].replay()
                number = (repeat + turn) % 3
                found.append((number, triton_penalty.penalties(*given[number], 0.5)))
    torch.cuda.synchronize()
    for number, result in found:
        for one, other in zip(result, wanted[number], strict=True):
            assert torch.equal(one, other)


@needs_gpu
def test_a_hundred_steps_on_two_streams_at_once_have_the_same_bits() -> None:
    sizes, kinds = [(128, 2048, 1000), (20_000, 130, 70)], (HALF, FULL)
    given, slope = [problem(size, kinds) for size in sizes], torch.ones((), device=PLACE)

    def step(values: tuple[Tensor, Tensor]) -> list[Tensor]:
        each, mean = triton_penalty.penalties(*values, 0.5)
        return [each.detach(), mean.detach(), *torch.autograd.grad(mean, values, slope)]

    wanted = [step(values) for values in given]
    for size, values, found in zip(sizes, given, wanted, strict=True):
        exact = wide(*values)
        rows = formula(*exact, 0.5)
        level = (sum(size) + 10) * EPS
        for one, other in zip(found, [rows, rows.mean(), *torch.autograd.grad(rows.mean(), exact)], strict=True):
            rounded = level + (torch.finfo(one.dtype).eps if one.dtype != FULL else 0.0)
            torch.testing.assert_close(one.double(), other.detach(), rtol=rounded, atol=0.0)
    streams = [torch.cuda.Stream() for _ in given]

    def steps() -> list[tuple[int, list[Tensor]]]:
        torch.cuda.synchronize()
        torch.cuda._sleep(500_000_000)  # a quarter of a second in which both queues fill: the host is slower than they
        results = []
        for stream in streams:
            stream.wait_stream(torch.cuda.current_stream())
        for _ in range(100):
            for number, stream in enumerate(streams):
                with torch.cuda.stream(stream):
                    results.append((number, step(given[number])))
        torch.cuda.synchronize()
        return results

    steps()  # takes the memory, for which streams may wait
    for number, result in steps():
        assert all(torch.equal(one, other) for one, other in zip(result, wanted[number], strict=True))


@needs_gpu
def test_a_recording_without_counters_at_hand_sets_its_own_to_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [value.detach() for value in problem((40, 130, 70), (FULL, FULL))]
    wanted = triton_penalty.penalties(*values, 0.5)
    monkeypatch.setattr(triton_penalty, "_spare", {})
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = triton_penalty.penalties(*values, 0.5)
    for _ in range(3):
        found[1].zero_()
        graph.replay()
        assert torch.equal(found[0], wanted[0])
        assert torch.equal(found[1], wanted[1])
