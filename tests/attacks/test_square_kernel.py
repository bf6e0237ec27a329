"""Two launches propose and judge a query as plain torch does; in Triton's interpreter, or on a GPU where there is one.

TRITON_INTERPRET=1 python -m pytest tests/attacks/test_square_kernel.py
"""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from droptics.attacks import CrossEntropy, Margin, Reflected, Square, Threat, attack, triton_square
from droptics.attacks.gradients import differentiable
from droptics.attacks.square import SquareSearch
from droptics.data import Sample
from droptics.gpu.triton import missing

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
PLACE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
needs_kernel = pytest.mark.skipif(
    bool(missing()) or (PLACE == "cpu" and not INTERPRETED), reason="needs triton and a GPU, or TRITON_INTERPRET=1"
)
RADII = {"linf": 0.1, "l2": 0.7}


def problem(shape: tuple[int, ...], count: int) -> tuple[nn.Module, Sample]:
    draws = torch.Generator().manual_seed(0)
    inputs = torch.rand(count, *shape, generator=draws)
    inputs[0] = inputs[0].round()  # on the box, where moves end
    net = nn.Sequential(nn.Flatten(), nn.Linear(inputs[0].numel(), 5)).requires_grad_(False)
    net[1].weight.copy_(torch.randn(net[1].weight.shape, generator=draws) / 9)
    labels = net(inputs).argmax(1)
    return net.to(PLACE), Sample(inputs.to(PLACE), labels.to(PLACE))


@needs_kernel
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of the interpreter, which warns where numbers are infinite
@pytest.mark.parametrize("norm", RADII)
@pytest.mark.parametrize("box", [None, (0.0, 1.0)])
@pytest.mark.parametrize(("shape", "tries"), [((1, 9, 10), 4), ((3, 6, 5), 1), ((24,), 2)])
def test_a_query_is_that_of_plain_torch(
    norm: str, box: tuple[float, float] | None, shape: tuple[int, ...], tries: int
) -> None:
    net, data = problem(shape, 4)
    region = Threat(norm, RADII[norm], box).around(data.inputs)
    tape = differentiable(net)
    rows = torch.arange(len(data), device=PLACE)
    searches = [
        SquareSearch(tape, region, data.targets, Square(), torch.Generator(PLACE).manual_seed(1)) for _ in range(2)
    ]
    searches[1]._fused = True
    plain, fused = (search._seekers(rows) for search in searches)
    looks = [range(1), *(range(at * tries, (at + 1) * tries, tries) for at in (1, 40, 300, 2000))]
    # Some twenty roundings of numbers about one, in two orders; where a bump is paid for by what rounding left of the
    # budget, by the root of that. An output sums up to 90 of them, with weights of a ninth.
    slack = 3e-6 if norm == "linf" else 0.7 * (4 * 2**-23) ** 0.5
    for look in looks:
        draws = [search._draws(1, len(rows) * look.step) for search in searches]
        points, outputs = searches[0]._ask(plain, look, draws[0])
        others, said = searches[1]._ask(fused, look, draws[1])
        torch.testing.assert_close(others, points, rtol=0, atol=slack)
        torch.testing.assert_close(said, outputs, rtol=0, atol=10 * slack)
        assert torch.equal(fused.fooled, plain.fooled)
        torch.testing.assert_close(fused.value, plain.value, rtol=0, atol=20 * slack)
        torch.testing.assert_close(fused.current, plain.current, rtol=0, atol=slack)
        for mine, other in zip(fused.state, plain.state, strict=True):
            mine.copy_(other)  # a move of rounding errors alone is scaled up: queries are compared one by one
    assert bool(region.contains(fused.current).all())


@needs_kernel
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_who_is_fooled_keeps_the_point_and_what_is_not_finite_fools() -> None:
    current, points = torch.zeros(5, 2, device=PLACE), torch.arange(20.0, device=PLACE).view(10, 2)
    value = torch.tensor([-1.0, -1.0, -1.0, -1.0, 0.5], device=PLACE)
    fooled = torch.tensor([False, True, False, False, False], device=PLACE)
    pairs = [[1.0, 0.5], [1.0, 0.8]], [[0.0, 1.0]] * 2, [[1.0, 2.0], [1.0, 3.0]], [[1.0, 0.0], [torch.nan, 0.0]]
    outputs = torch.tensor([*pairs, [[1.0, 1.0]] * 2], device=PLACE).view(10, 2)
    targets = torch.zeros(5, dtype=torch.int64, device=PLACE)
    triton_square.take(current, value, fooled, targets, points, outputs)
    # The better of two; done before; the first that fools; no number; equal outputs are not beaten, nor better.
    assert fooled.tolist() == [False, True, True, True, False]
    assert current.tolist() == [[2.0, 3.0], [0.0, 0.0], [8.0, 9.0], [14.0, 15.0], [0.0, 0.0]]
    assert value[[0, 1, 2, 4]].tolist() == pytest.approx([-0.2, -1.0, 1.0, 0.5])


@needs_kernel
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("norm", RADII)
def test_a_whole_search_is_verified(norm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton_square, "runs_on", lambda place: True)
    net, data = problem((1, 5, 5), 6)
    found = attack(net, data, Threat(norm, 2 * RADII[norm], (0, 1)), Square(queries=60, patience=10))
    assert int(found.success.sum()) > 0
    assert not found.warnings


def test_what_the_kernels_do_not_take(monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = torch.rand(2, 3, 8, 8)
    region = Threat("l2", 1.0).around(inputs)
    assert not triton_square.applies(Margin(), region, (3, 8, 8), 10)  # no GPU under these points
    monkeypatch.setattr(triton_square, "runs_on", lambda place: True)
    assert triton_square.applies(Margin(), region, (3, 8, 8), 10)
    assert triton_square.applies(Reflected(Margin()), region, (3, 8, 8), 10)
    assert not triton_square.applies(CrossEntropy(), region, (3, 8, 8), 10)
    assert not triton_square.applies(Margin(), region, (3, 8, 8), 1)
    assert not triton_square.applies(Margin(), Threat("l1", 1.0).around(inputs), (3, 8, 8), 10)
    assert not triton_square.applies(Margin(), Threat("l2", 1.0).around(inputs.double()), (3, 8, 8), 10)
    assert not triton_square.applies(Margin(), region, (3, 64, 65), 10)
